"""Regressions on factors with near-empty levels: what is not determined, and that all else is."""

import itertools

import numpy as np
import pytest
import statsmodels.formula.api as smf
from scipy import stats

import dpinfer as dpi
from dpinfer.regression.gram import GramProblem, fit_gram
from dpinfer.regression.gram_inference import LinearInference, batch_linear, release_matrices
from dpinfer.regression.near_empty import level_columns, ridges
from dpinfer.statistics.inference import Released
from dpinfer.statistics.tails import biased_pvalue, pvalue_of

LEVELS = ["a", "b", "c", "d", "e"]
SCHEMA = dpi.Schema(
    x=dpi.Real(-1, 3), g=dpi.Category(LEVELS), s=dpi.Category(["f", "m"]), y=dpi.Real(-1, 1, missing=0.0)
)
PRICE = dpi.ZCDP(0.3)


def people(few=0, n=3000, seed=1, rare="d", *, extreme=False):
    rng = np.random.default_rng(seed)
    frame = SCHEMA.sample(n, rng)
    others = [level for level in LEVELS if level != rare]
    frame["g"] = np.where(np.arange(n) < few, rare, np.array(others)[rng.integers(0, 4, n)])
    mean = 0.1 * frame["x"] + 0.1 * (frame["g"] == "b") - 0.1 * (frame["s"] == "m") - 0.1
    mean = np.where((frame["g"] == rare) & extreme, 0.9, mean)
    frame["y"] = np.clip(mean + 0.15 * rng.normal(size=n), -1, 1)
    return frame


def fitted(frame, formula="y ~ x + s + g", seed=2, price=PRICE, **options):
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(seed), neighbors="add_remove")
    return dpi.ols(formula, data, **options, method="gram").fit(price)


@pytest.fixture(scope="module")
def empty():
    return fitted(people())


def test_an_empty_level_alone_is_not_determined(empty):
    ends, pvalues = empty.conf_int(), empty.pvalues
    assert ends.loc["g[T.d]"].tolist() == [-np.inf, np.inf]
    assert pvalues["g[T.d]"] == 1.0
    others = ends.drop("g[T.d]")
    assert np.isfinite(others).all(axis=None)
    assert (others[1] - others[0]).max() < 0.2
    (flag,) = empty.flags
    assert flag.startswith("not determined: g = d;")
    assert "g = d" in empty.summary().as_text().replace("\n         ", " ")
    assert isinstance(empty.inference, LinearInference)
    assert np.isfinite(empty.bse).all()


@pytest.mark.parametrize("price", [PRICE, dpi.PureDP(4.0), dpi.GDP(0.8)], ids=["zcdp", "pure", "gdp"])
@pytest.mark.parametrize("extreme", [False, True])
def test_p_values_and_intervals_are_one_rule(price, extreme):
    results = fitted(people(8, n=6000, extreme=extreme), price=price)
    assert any("not determined" in flag for flag in results.flags)
    known = np.delete(np.eye(len(results.params)), list(results.params.index).index("g[T.d]"), axis=0)
    for alpha in (0.05, 0.2):
        for end in results.inference.intervals(known, alpha).T:
            np.testing.assert_allclose(results.inference.contrast_pvalues(known, end), alpha, rtol=1e-4)
    low, high = results.inference.intervals(known, 0.05).T
    for row, *ends in zip(known, low, high, strict=True):
        assert results.t_test(row[None]).pvalue == pytest.approx(results.wald_test(row[None]).pvalue)
        assert (ends[0] <= 0 <= ends[1]) == (results.t_test(row[None]).pvalue >= 0.05)


def test_joint_tests_with_a_level_that_is_not_determined_cannot_reject(empty):
    assert float(empty.wald_test("x = 5, g[T.d] = 0").pvalue) == 1.0
    assert float(empty.f_pvalue) == 1.0
    assert float(empty.wald_test("x = 5, g[T.b] = 0").pvalue) < 1e-6
    alone, together = empty.t_test("x = 0.1"), empty.wald_test("x = 0.1, g[T.c] = 0")
    assert 0 < float(together.pvalue) <= 1
    assert float(empty.wald_test("x = 0.1").pvalue) == pytest.approx(float(alone.pvalue))


def test_every_method_is_the_score_method(empty):
    for method in ("wald", "simulated", "score"):
        other = empty.with_inference(method)
        assert other.inference.method == "score"
        np.testing.assert_array_equal(other.conf_int(), empty.conf_int())
    with pytest.raises(dpi.errors.OptionError):
        empty.with_inference("exact")


def test_where_the_reference_is_empty_the_other_levels_can_be_compared():
    results = fitted(people(rare="a"))
    ends = results.conf_int()
    assert np.isinf(ends.loc[["Intercept", *(f"g[T.{level}]" for level in "bcde")]]).all(axis=None)
    assert np.isfinite(ends.loc[["x", "s[T.m]"]]).all(axis=None)
    compared = results.t_test("g[T.b] - g[T.c] = 0")
    assert compared.pvalue < 0.01
    low, high = compared.conf_int()[0]
    assert low < 0.1 < high
    assert high - low < 0.2


@pytest.mark.parametrize("formula", ["x + s + C(g, contr.sum)", "x + s + C(g, contr.helmert)", "0 + g + x + s"])
def test_the_coding_of_a_factor_does_not_matter(formula, empty):
    other = dpi.ols(f"y ~ {formula}", method="gram").infer(empty.release)
    np.testing.assert_allclose(other.conf_int().loc["x"], empty.conf_int().loc["x"], rtol=1e-4)
    assert other.params["x"] == pytest.approx(empty.params["x"], rel=1e-6)


def test_interactions_with_an_empty_level_are_not_determined_either():
    results = fitted(people(n=20_000), "y ~ x * g + s", price=dpi.ZCDP(5))
    ends = results.conf_int()
    unknown = ["g[T.d]", "x:g[T.d]"]
    assert np.isinf(ends.loc[unknown]).all(axis=None)
    assert np.isfinite(ends.drop(unknown)).all(axis=None)
    assert "x where g = d" in results.flags[0]
    assert np.isfinite(fitted(people(n=20_000), "y ~ x + g * s", price=dpi.ZCDP(5)).conf_int().loc["x"]).all()


def test_without_rows_the_level_changes_no_estimate():
    """The ridge moves nothing where the sums of the level are exactly zero, however the noise is declared."""
    frame = people()
    results = fitted(frame, price=dpi.ZCDP(1e13))
    release = results.release
    wide = dpi.ols("y ~ x + s + g", method="gram").infer(fitted(frame).release)
    problem = wide.inference.fit.problem
    gram = release_matrices(release, problem.design.shape[1])[0][None]
    design = dpi.ols("y ~ x + s + g", method="gram").design(SCHEMA)
    *regressors, response = design.columns
    levels = level_columns(regressors, response, design.basis, problem.design)
    fit = fit_gram(problem, gram, gram[:, 0, 0])
    ((places, ridge),) = ridges(fit, gram, gram[:, 0, 0], levels)
    assert places.tolist() == [0]
    ordinary = smf.ols("y ~ x + s + g", frame).fit().params
    for name in ordinary.index:
        found = ridge.fit.params[0][list(wide.params.index).index(name)]
        assert found == pytest.approx(ordinary[name], abs=2e-5)


def released(formula, few, count, price=PRICE, **options):
    procedure = dpi.ols(
        formula,
        dpi.PublicData(people(), SCHEMA, rng=np.random.default_rng(0), neighbors="add_remove"),
        **options,
        method="gram",
    )
    fits = [fitted(people(few, seed=seed), formula, seed, price, **options) for seed in range(count)]
    values = np.stack([one.release.array for one in fits])
    return procedure, fits, Released.of_study(procedure.measurement(price), values)


@pytest.mark.parametrize("few", [0, 17])
@pytest.mark.parametrize("target", ["population", "data"])
def test_many_releases_at_once_equal_one_by_one(few, target):
    procedure, fits, many = released("y ~ x + s + g", few, 8, target=target)
    found = procedure.estimate(many, alpha=0.1)
    sizes = set()
    for place, one in enumerate(fits):
        np.testing.assert_allclose(found.params[place], one.params, rtol=1e-8)
        np.testing.assert_allclose(found.bse[place], one.bse, rtol=1e-8)
        np.testing.assert_allclose(found.intervals[place], one.conf_int(0.1), rtol=1e-7)
        np.testing.assert_allclose(found.pvalues[place], one.pvalues, rtol=1e-6, atol=1e-12)
        assert found.flagged[place] == bool(one.flags)
        sizes.add(bool(np.isinf(one.conf_int()).any(axis=None)))
    assert sizes == ({True} if few == 0 else {True, False})


def test_fits_without_near_empty_levels_are_as_without_the_rule():
    procedure, fits, many = released("y ~ x + s + g", 900, 4)
    found = procedure.estimate(many, alpha=0.05)
    problem = fits[0].inference.fit.problem
    plain = batch_linear(problem, many.values, found.names, alpha=0.05)
    for name in ("params", "bse", "pvalues", "intervals", "flagged"):
        np.testing.assert_array_equal(getattr(found, name), getattr(plain, name))


def test_where_noise_dominates_every_level_nothing_changes():
    results = fitted(people(n=100), price=dpi.ZCDP(0.001))
    assert not any("not determined" in flag for flag in results.flags)


def test_functionals_are_within_their_bounds_for_every_mean_within_the_range():
    rng = np.random.default_rng(4)
    design = dpi.ols("y ~ x * g + s", method="gram").design(SCHEMA)
    *regressors, response = design.columns
    weights = design.design
    levels = level_columns(regressors, response, design.basis, weights[:-1])
    assert len(levels.names) == 5 + 5 + 2
    frame = SCHEMA.sample(500, rng)
    results = fitted(frame, "y ~ x * g + s", price=dpi.ZCDP(1e13))
    sums = release_matrices(results.release, weights.shape[1])[0]
    means = sums[0] / sums[0, 0]
    place = {name: index for index, name in enumerate(results.params.index)}
    for _ in range(200):
        beta = rng.normal(size=len(place))
        corners = [
            beta[place["Intercept"]]
            + beta[place["x"]] * x
            + (beta[place[f"g[T.{g}]"]] + beta[place[f"x:g[T.{g}]"]] * x if g != "a" else 0.0)
            + (beta[place["s[T.m]"]] if s == "m" else 0.0)
            for x, g, s in itertools.product((-1, 3), LEVELS, "fm")
        ]
        beta = beta / np.abs(corners).max()  # now every mean is between -1 and 1, the range of y
        for index in range(len(levels.names)):
            value = beta @ levels.functional(index) @ means
            assert abs(value - levels.targets[index]) <= levels.bounds[index] + 1e-6


def test_a_design_without_factors_has_no_level_columns():
    design = dpi.ols("y ~ x", method="gram").design(SCHEMA)
    *regressors, response = design.columns
    assert level_columns(regressors, response, design.basis, design.design[:-1]) is None
    fit = GramProblem(np.ones((3, 3)), np.eye(2, 3), np.eye(3)[2])
    assert fit.design.shape == (2, 3)


def test_a_table_says_what_it_assumes(empty):
    said = "Standard errors are nonrobust"
    assert any(said in note for note in empty.notes)
    census = fitted(people(), target="data")
    assert not any(said in note for note in census.notes)


def test_a_shifted_p_value_is_that_of_a_noncentral_chi_squared():
    distance, shift = np.array([1.0, 2.5, 4.0]), np.array([0.0, 0.7, 3.0])
    np.testing.assert_allclose(biased_pvalue(distance, shift), stats.ncx2.sf(distance**2, 1, shift**2), rtol=1e-9)
    shares = np.array([0.3, 0.2])
    np.testing.assert_allclose(biased_pvalue(distance, 0 * shift, 20.0, shares), pvalue_of(distance, 20.0, shares))
