import dataclasses
import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from formulaic import model_matrix
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import (
    InferenceError,
    MissingFromReleaseError,
    OptionError,
)
from dpinfer.regression.linear import OLS
from dpinfer.regression.question import Newton
from tests.linear import gram_ols

SCHEMA = dpi.Schema(
    age=dpi.Real(18, 90),
    educ=dpi.Integer(1, 16),
    married=dpi.Boolean(),
    race=dpi.Category(["a", "b", "c", "d"]),
    income=dpi.Real(0, 200),
)
NEARLY_EXACT = dpi.ZCDP(1e13)


def people(n=900, seed=1):
    rng = np.random.default_rng(seed)
    frame = SCHEMA.sample(n, rng)
    effect = frame["race"].map({"a": 0.0, "b": 8.0, "c": -5.0, "d": 2.0}).astype(float)
    mean = 60 + 0.5 * frame["age"] + 2 * frame["educ"] + 10 * frame["married"] + effect
    frame["income"] = np.clip(mean + rng.normal(0, 12, n), 0, 200)
    return frame


def public(frame, neighbors="add_remove", seed=2, schema=SCHEMA):
    return dpi.PublicData(frame, schema, rng=np.random.default_rng(seed), neighbors=neighbors)


@pytest.mark.parametrize(
    "formula",
    [
        "income ~ age + educ + married + race",
        "income ~ age + C(race, contr.sum)",
        "income ~ age * C(race, contr.helmert)",
        "income ~ 0 + age + race",
        "income ~ 0 + age + educ",
        "log(1 + income) ~ log(age) + I(educ**2) + educ",
        "income ~ married:race + age",
        "income ~ race:age",
        "income ~ race * married",
        "income ~ I(age > 40) + minimum(educ, 12)",
        "I(income > 80) ~ age",
        "income ~ 1",
    ],
)
def test_with_a_vast_budget_the_fit_is_the_ordinary_one(formula):
    frame = people()
    private = gram_ols(formula, public(frame)).fit(NEARLY_EXACT)
    plain = formula.replace("log(", "np.log(").replace("minimum(", "np.minimum(")
    frame["race"] = pd.Categorical(frame["race"], categories=["a", "b", "c", "d"])
    frame["married"] = frame["married"].astype(float)
    left, right = plain.split("~")
    context = {"np": np, "I": lambda x: np.asarray(x, dtype=float)}
    exog = model_matrix(right, frame, context=context)
    endog = np.asarray(model_matrix("0 + " + left, frame, context=context))[:, 0]
    ordinary = sm.OLS(endog, np.asarray(exog, dtype=float)).fit()
    scale = ordinary.bse
    np.testing.assert_allclose((private.params.to_numpy() - ordinary.params) / scale, 0, atol=2e-2)
    np.testing.assert_allclose(private.bse.to_numpy() / scale, 1, rtol=2e-2)
    assert private.nobs == pytest.approx(900, abs=0.01)
    assert len(private.params) == exog.shape[1]


def test_estimates_agree_with_statsmodels_names_and_numbers():
    frame = people()
    private = gram_ols("income ~ age + C(race) + married", public(frame)).fit(NEARLY_EXACT)
    frame["married"] = frame["married"].astype(int)
    ordinary = smf.ols("income ~ age + C(race) + married", frame).fit()
    assert set(private.params.index) == set(ordinary.params.index)
    # features are rounded to 2^-19 of their range, so agreement is near, not exact
    np.testing.assert_allclose(private.params, ordinary.params[private.params.index], rtol=1e-3)
    np.testing.assert_allclose(private.conf_int(), ordinary.conf_int().loc[private.params.index], rtol=1e-3)
    assert private.rsquared == pytest.approx(ordinary.rsquared, rel=1e-3)
    assert private.scale == pytest.approx(ordinary.scale, rel=1e-3)


def test_where_excludes_rows():
    frame = people()
    private = gram_ols("income ~ age", public(frame), where="age >= 40 and not married").fit(NEARLY_EXACT)
    chosen = frame[(frame["age"] >= 40) & ~frame["married"].astype(bool)]
    ordinary = smf.ols("income ~ age", chosen).fit()
    np.testing.assert_allclose(private.params, ordinary.params, rtol=1e-3)
    assert private.nobs == pytest.approx(len(chosen), abs=0.01)


def test_rows_with_missing_values_are_left_out_or_imputed_as_declared():
    frame = people().astype({"age": object})
    frame.loc[:49, "age"] = None
    frame.loc[50:59, "age"] = "unknown"
    dropped = gram_ols("income ~ age", public(frame)).fit(NEARLY_EXACT)
    assert dropped.nobs == pytest.approx(840, abs=0.01)
    filled = dpi.Schema({**dict(SCHEMA.items()), "age": dpi.Real(18, 90, missing=50, impossible=50)})
    data = dpi.PublicData(frame, filled, rng=np.random.default_rng(1))
    kept = gram_ols("income ~ age", data).fit(NEARLY_EXACT)
    assert kept.nobs == pytest.approx(900, abs=0.01)
    numbers = frame.assign(age=pd.to_numeric(frame["age"], errors="coerce").fillna(50))
    np.testing.assert_allclose(kept.params, smf.ols("income ~ age", numbers).fit().params, rtol=1e-3)


def test_one_gram_serves_every_regression_among_its_columns():
    frame = people()
    release = (
        dpi.gram(["income", "age", "educ", "married", "race", "I(age**2)"], public(frame)).fit(NEARLY_EXACT).release
    )
    frame["married"] = frame["married"].astype(int)
    for formula in (
        "income ~ age + educ",
        "educ ~ age + married + C(race)",
        "income ~ I((age - 40)**2) + age",
    ):
        ordinary = smf.ols(formula, frame).fit()
        private = gram_ols(formula, release).infer()
        np.testing.assert_allclose(private.params, ordinary.params[private.params.index], rtol=5e-3)
    with pytest.raises(MissingFromReleaseError, match="log"):
        gram_ols("income ~ log(age)", release).infer()
    with pytest.raises(InferenceError, match="many regressions"):
        release.infer()
    with pytest.raises(OptionError, match="already measured"):
        gram_ols("income ~ age", release, where="age > 30")


def test_a_gram_needs_its_columns():
    release = dpi.gram(["income", "age"], public(people())).fit(NEARLY_EXACT).release
    with pytest.raises(MissingFromReleaseError, match="'educ' was not measured"):
        gram_ols("income ~ educ", release).infer()
    with pytest.raises(MissingFromReleaseError, match="measured: 1, income, age"):
        gram_ols("income ~ age + I(age**2)", release).infer()


def test_replace_one_with_declared_constants_has_a_public_count():
    schema = dpi.Schema(
        age=dpi.Real(18, 90, missing=50, impossible=50), income=dpi.Real(0, 200, missing=50, impossible=50)
    )
    rng = np.random.default_rng(1)
    for policy_schema, exact in ((schema, True), (SCHEMA.select(["age", "income"]), False)):
        data = dpi.PublicData(people(), policy_schema, rng=rng, neighbors="replace_one")
        results = gram_ols("income ~ age", data).fit(dpi.ZCDP(0.1))
        assert (results.nobs == 900) == exact
        assert results.inference.nobs_is_public == exact
        filtered = gram_ols("income ~ age", data, where="age > 0").fit(dpi.ZCDP(0.1))
        assert filtered.nobs != 900


def test_the_noise_told_in_advance_is_the_noise_that_comes():
    frame = SCHEMA.sample(10_000, np.random.default_rng(3))
    data = public(frame)
    procedure = gram_ols("income ~ age + educ", data)
    price = dpi.ZCDP(0.1)
    told = procedure.explain(price)
    row = next(line for line in told.splitlines() if line.startswith("age"))
    results = procedure.fit(price)
    assert float(row.split()[2]) == pytest.approx(results.bse_noise["age"], rel=0.15)


def suggested(formula, schema, price, neighbors="add_remove", **options):
    """What `explain` says of row_norm, and the value; None where it suggests none."""
    told = gram_ols(formula, **options).explain(price, schema=schema, neighbors=neighbors)
    said = told[told.index("row_norm  ") :]
    found = re.search(r"row_norm=([\d.]+)(, norm=\"l1\")? is (suggested|asked for)", said)
    return said, None if found is None else float(found.group(1))


WIDE = dpi.Schema({**{f"x{j}": dpi.Real(-5, 5) for j in range(5)}, "y": dpi.Real(-8, 8)})
FIVE = "y ~ x0 + x1 + x2 + x3 + x4"


def test_a_row_norm_is_suggested_from_bounds_alone_and_saves_the_noise_that_is_told():
    told, bound = suggested(FIVE, WIDE, dpi.ZCDP(0.1))
    even = np.sqrt(1 + (np.random.default_rng(5).uniform(-1, 1, (100_000, 5)) ** 2).sum(axis=1))
    assert bound == pytest.approx(np.quantile(even, 0.8), abs=0.02)
    lines = {line[:17].strip(): line.split() for line in told.splitlines()[2:]}
    assert lines["evenly"][-3] in ("19%", "20%", "21%")
    data = public(WIDE.sample(50_000, np.random.default_rng(6)), schema=WIDE)
    plain, bounded = (gram_ols(FIVE, data, row_norm=one).fit(dpi.ZCDP(0.1)) for one in (None, bound))
    for errors, place in (("bse_noise", -2), ("bse_sampling", -1)):
        ratio = (getattr(bounded, errors) / getattr(plain, errors))[1:].mean()
        assert ratio == pytest.approx(float(lines["evenly"][place]), abs=0.02)
    assert all(float(line[-2]) < 0.8 for name, line in lines.items() if line[-3].endswith("%"))
    # The bound that is asked for is described in the same way.
    said, same = suggested(FIVE, WIDE, dpi.ZCDP(0.1), row_norm=bound)
    assert same == bound
    assert said.splitlines()[1:] == told.splitlines()[1:]
    assert "is asked for" in said


@pytest.mark.parametrize("options", [{}, {"row_norm": 1.3}])
def test_a_condition_that_no_even_row_meets_has_no_suggestion(options):
    told = gram_ols(FIVE, where="(x0 > 4.9999) & (x1 > 4.9999)", **options).explain(dpi.ZCDP(0.1), schema=WIDE)
    assert "row_norm  " not in told


def test_rows_do_not_enter_the_suggestion():
    few, many = (public(WIDE.sample(size, np.random.default_rng(size)), schema=WIDE) for size in (3, 5000))
    texts = {gram_ols(FIVE, data).explain(dpi.ZCDP(0.1)) for data in (few, many)}
    assert len(texts) == 1


def test_under_laplace_noise_the_suggestion_is_in_the_absolute_norm():
    told, bound = suggested(FIVE, WIDE, dpi.PureDP(1.0))
    even = 1 + np.abs(np.random.default_rng(5).uniform(-1, 1, (100_000, 5))).sum(axis=1)
    assert 'norm="l1"' in told
    assert bound == pytest.approx(np.quantile(even, 0.8), abs=0.03)


@pytest.mark.parametrize(
    ("formula", "price", "neighbors"),
    [
        ("income ~ C(race)", dpi.ZCDP(0.1), "add_remove"),  # all rows have one norm
        ("income ~ 1", dpi.ZCDP(0.1), "add_remove"),
        ("income ~ age + educ", dpi.PureDP(1.0), "replace_one"),  # the bound of a box is sharper
    ],
)
def test_no_row_norm_is_suggested_where_it_saves_nothing(formula, price, neighbors):
    told, bound = suggested(formula, SCHEMA, price, neighbors)
    assert bound is None
    assert "none is suggested" in told


def test_for_the_data_as_target_only_noise_counts():
    frame = people(5000)
    population = gram_ols("income ~ age", public(frame)).fit(dpi.ZCDP(1.0))
    census = gram_ols("income ~ age", public(frame), target="data").fit(dpi.ZCDP(1.0))
    np.testing.assert_allclose(census.bse, census.bse_noise)
    np.testing.assert_allclose(census.bse, population.bse_noise, rtol=1e-9)
    assert census.summary().as_text() != population.summary().as_text()
    assert census.inference.target == "data"


def test_interval_for_the_data_covers_the_ordinary_estimate():
    """300 releases of one data set; an interval of 95% fails this with probability below 1e-6."""
    frame = people(2000)
    truth = smf.ols("income ~ age + educ", frame).fit().params["age"]
    procedure = gram_ols("income ~ age + educ", target="data")
    rng = np.random.default_rng(7)
    data = dpi.PublicData(frame, SCHEMA, rng=rng)
    release = procedure.bind(data).measure(dpi.ZCDP(0.5))
    exact_values = procedure.bind(data).measure(NEARLY_EXACT).stages[0].values  # noqa: PD011
    covered = 0
    for _ in range(300):
        exact = dataclasses.replace(release.stages[0], values=exact_values)
        noisy = dataclasses.replace(release, stages=(exact,)).simulate(rng)
        low, high = noisy.infer().conf_int().loc["age"]
        covered += low <= truth <= high
    assert covered >= 264  # binomial(300, .95) falls below with probability 5e-7


def test_simulated_wald_and_score_agree_where_noise_is_small():
    results = gram_ols("income ~ age + educ", public(people(20_000))).fit(dpi.ZCDP(1.0))
    score = results.conf_int()
    for method in ("wald", "simulated"):
        other = results.with_inference(method).conf_int()
        width = score[1] - score[0]
        np.testing.assert_allclose((other - score).div(width, axis=0), 0, atol=0.12)
    assert results.with_inference("simulated").pvalues["age"] == pytest.approx(1 / 1000)


def test_row_norm_leaves_a_linear_model_consistent_and_lowers_the_noise():
    rng = np.random.default_rng(11)
    schema = dpi.Schema({**{f"x{j}": dpi.Real(-5, 5) for j in range(5)}, "y": dpi.Real(-8, 8)})
    x = rng.normal(size=(60_000, 5))
    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(5)])
    frame["y"] = np.clip(x @ [0.5, -0.5, 0.3, 0, 0.2] + 0.5 * rng.normal(size=60_000), -8, 8)
    formula = "y ~ x0 + x1 + x2 + x3 + x4"
    data = dpi.PublicData(frame, schema, rng=rng)
    plain = gram_ols(formula, data).fit(dpi.ZCDP(0.1))
    for norm, bound in (("l2", 1.1), ("l1", 1.9)):
        clipped = gram_ols(formula, data, row_norm=bound, norm=norm).fit(dpi.ZCDP(0.1))
        assert np.all(clipped.bse_noise[1:] < plain.bse_noise[1:])
        assert abs(clipped.params["x0"] - 0.5) < 6 * clipped.bse["x0"]
        assert "downweighted" in clipped.summary().as_text()


def test_classical_form_with_l1_bounds_and_a_split_budget():
    rng = np.random.default_rng(12)
    schema = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Real(-1, 1))
    frame = pd.DataFrame({"x": rng.uniform(-1, 1, 50_000)})
    frame["y"] = 0.5 * frame["x"] + rng.uniform(-0.4, 0.4, 50_000)
    data = dpi.PublicData(frame, schema, rng=rng)
    split = gram_ols("y ~ x", data, row_norm=1.5, norm="l1", split=(0.45, 0.45, 0.1))
    results = split.fit(dpi.PureDP(1.0))
    assert abs(results.params["x"] - 0.5) < 6 * results.bse["x"]
    scales = np.array(split.measurement(dpi.PureDP(1.0)).law.scales) * 2.0**-38
    # entries 1*1, 1*x, 1*y, x*x, x*y, y*y: X'X moves by at most C1^2, X'y by C1 C2, y'y by C2^2 with C2 = 1
    assert scales[0] == scales[1] == scales[3] <= 1.5**2 / 0.45 * (1 + 1e-5)
    np.testing.assert_allclose(scales[[2, 4]], 1.5 / 0.45, rtol=1e-5)
    np.testing.assert_allclose(scales[5], 1 / 0.1, rtol=1e-5)


def test_the_count_of_clamped_rows_is_told_and_warned_of():
    frame = people(20_000)
    tight = dpi.Schema({**dict(SCHEMA.items()), "income": dpi.Real(50, 150)})
    expected = ((frame["income"] < 50) | (frame["income"] > 150)).sum()
    assert expected > 300
    data = dpi.PublicData(frame, tight, rng=np.random.default_rng(3))
    results = gram_ols("income ~ age", data, clamped_share=0.1).fit(dpi.ZCDP(0.5))
    error = np.sqrt(results.release.noise_variances[-1])
    assert abs(results.release.array[-1] - expected) < 6 * error
    assert any("clamped" in flag for flag in results.flags)
    calm = gram_ols("income ~ age", public(frame), clamped_share=0.1).fit(dpi.ZCDP(0.5))
    assert not any("clamped" in flag for flag in calm.flags)


def test_noise_dominated_fits_are_flagged_and_finite():
    results = gram_ols("income ~ age + educ + married", public(people(60))).fit(dpi.ZCDP(1e-4))
    assert any("noise dominates" in flag for flag in results.flags)
    assert np.all(np.isfinite(results.params))
    assert not results.conf_int().isna().any().any()
    assert "noise dominates" in results.summary().as_text()


@pytest.mark.parametrize("method", ["auto", None])
def test_the_method_is_iterations_unless_an_option_or_a_release_decides(method):
    assert type(dpi.ols("y ~ x", method=method)) is Newton
    for option in (
        {"row_norm": 1.5}, {"norm": "l1"}, {"split": (0.4, 0.4, 0.2)}, {"clamped_share": 0.1}, {"replicates": 199},
        {"seed": 1}, {"inference": "simulated"}, {"row_norm": 1.5, "cov_type": "nonrobust"},
    ):  # fmt: skip
        assert type(dpi.ols("y ~ x", method=method, **option)) is OLS, option
    for option in ({"cov_type": "HC1"}, {"cov_type": "nonrobust"}, {"weights": "x + 1"}, {"ranges": False}):
        assert type(dpi.ols("y ~ x", method=method, **option)) is Newton, option


@pytest.mark.parametrize("method", ["newton", "gram"])
def test_a_release_says_which_method_reads_it(method):
    schema = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Real(-2, 2))
    rng = np.random.default_rng(4)
    data = dpi.PublicData(schema.sample(500, rng), schema, rng=rng)
    release = dpi.ols("y ~ x", data, method=method).measure(dpi.ZCDP(1.0))
    assert "auto" not in release.to_json().replace('"inference": "auto"', "")
    read = dpi.ols("y ~ x", release, method="auto")
    assert type(read) is (Newton if method == "newton" else OLS)
    assert read.infer().params.equals(dpi.ols("y ~ x", release, method=method).infer().params)


def test_options_of_both_methods_are_refused_before_any_charge():
    schema = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Real(-2, 2))
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1.0))
    data = dpi.PrivateData(schema.sample(50, np.random.default_rng(0)), schema, ledger)
    with pytest.raises(OptionError, match='option of method="gram", and weights= one of the other'):
        dpi.ols("y ~ x", data, row_norm=1.5, weights="x + 1")
    with pytest.raises(OptionError, match="cannot be computed from cross-products"):
        dpi.ols("y ~ x", data, method="gram", cov_type="HC1")
    with pytest.raises(OptionError, match="'auto', 'newton', 'gram'"):
        dpi.ols("y ~ x", data, method="rounds")
    assert ledger.charges().empty


def test_a_summary_names_the_standard_errors():
    schema = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Real(-2, 2))
    rng = np.random.default_rng(4)
    data = dpi.PublicData(schema.sample(500, rng), schema, rng=rng)
    for option, named in (({"method": "gram"}, "nonrobust"), ({}, "HC1"), ({"cov_type": "nonrobust"}, "nonrobust")):
        results = dpi.ols("y ~ x", data, **option).fit(dpi.ZCDP(1.0))
        assert results.cov_type == named
        assert re.search(rf"Covariance Type: +{named}\b", str(results.summary()))
        assert named in str(results.summary2())
    census = dpi.ols("y ~ x", data, method="gram", target="data").fit(dpi.ZCDP(1.0))
    assert "Covariance Type" not in str(census.summary())


@pytest.mark.parametrize("price", [dpi.ZCDP(0.05), dpi.PureDP(1.0)], ids=str)
def test_explain_says_how_much_noise_lengthens_standard_errors(price):
    """For rows spread evenly over the bounds; the seed is fixed, and other seeds are within .05, too."""
    schema = dpi.Schema(x=dpi.Real(-1, 1), z=dpi.Real(0, 3), y=dpi.Real(-2, 2))
    told = str(dpi.ols("y ~ x + z", method="gram").explain(price, schema=schema))
    share = re.search(r"assumption: about\n.*?([\d.]+)% at n = 10,000", told).group(1)
    rng = np.random.default_rng(3)
    data = dpi.PublicData(schema.sample(10_000, rng), schema, rng=rng)
    results = dpi.ols("y ~ x + z", data, method="gram").fit(price)
    found = results.bse[1:].mean() / results.bse_sampling[1:].mean() - 1
    assert found == pytest.approx(float(share) / 100, rel=0.1)


def test_joint_tests_of_what_the_data_hold_are_chi_squared():
    """Nothing but noise is random there, whose variance is known: the reference has no residual degrees of freedom."""
    results = dpi.ols("income ~ age + educ", public(people()), method="gram", target="data").fit(dpi.ZCDP(1.0))
    joint = results.with_inference("wald").wald_test("age = educ = 0", scalar=True)
    distance = results.params[["age", "educ"]].to_numpy()
    statistic = distance @ np.linalg.solve(results.cov_params().loc[["age", "educ"], ["age", "educ"]], distance)
    assert joint.statistic == pytest.approx(statistic, rel=1e-6)
    assert joint.pvalue == pytest.approx(stats.chi2.sf(statistic, 2), rel=1e-6)
