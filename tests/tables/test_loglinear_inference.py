"""Log-linear models of noisy counts: designs of cells, the fit, whether it exists, score intervals, tests."""

import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import optimize

from dpinfer.errors import CollinearDesignError, FormulaError, OptionError, UnknownColumnError
from dpinfer.release import NoiseLaw
from dpinfer.statistics.combination import CombinedNoise
from dpinfer.statistics.noise import CountNoise
from dpinfer.statistics.nulls import batch_pvalues, simulate
from dpinfer.tables.loglinear_fit import CellNoise, CellTable, LogLinearModel, fit_loglinear, reduced
from dpinfer.tables.loglinear_inference import (
    LogLinearInference,
    batch_loglinear,
    loglinear_oracle,
    nested,
    one_sided,
    ridge_fit,
    score_intervals,
    score_test,
)

TABLE = CellTable(("a", "b", "c"), (("x", "y"), ("u", "v", "w"), (False, True)))
FORMULAS = ("a + b + c", "a * b + c", "a * b + b * c", "a * b + b * c + a * c", "a * b * c")


def gaussian(scale=3.0, cells=12):
    return CellNoise(CountNoise(NoiseLaw("gaussian", (scale,))), cells)


def laplace(scale=3.0, cells=12):
    return CellNoise(CountNoise(NoiseLaw("laplace", (scale,))), cells)


def model(formula="a * b + b * c", noise=None, **options):
    return LogLinearModel(TABLE.design(formula)[1], gaussian() if noise is None else noise, **options)


def counts(mean=40.0, size=1, seed=0, cells=12):
    return np.random.default_rng(seed).poisson(mean, (size, cells)).astype(float)


@pytest.mark.parametrize("formula", FORMULAS)
def test_without_noise_it_is_the_poisson_regression_of_statsmodels(formula):
    values = counts(seed=3)
    without = model(formula, gaussian(1e-12), robust=False)
    fit = fit_loglinear(without, values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a saturated model statsmodels divides by no degrees of freedom
        known = sm.GLM(values[0], without.design, family=sm.families.Poisson()).fit(tol=1e-14)
    assert fit.exists.all()
    np.testing.assert_allclose(fit.params[0], known.params, rtol=0, atol=1e-8)
    sampling, noise = fit.covariance
    np.testing.assert_allclose(sampling[0], known.cov_params(), rtol=1e-8, atol=1e-10)
    assert np.abs(noise).max() < 1e-20


def inside(design, values):
    """Whether the totals are positive combinations of the rows, by linear programming on the weights."""
    d = len(design)
    least = np.hstack([-np.eye(d), np.ones((d, 1))])  # s <= m_i
    found = optimize.linprog(
        np.append(np.zeros(d), -1.0),
        A_ub=least,
        b_ub=np.zeros(d),
        A_eq=np.hstack([design.T, np.zeros((design.shape[1], 1))]),
        b_eq=values @ design,
        bounds=[(None, None)] * d + [(None, 1.0)],
    )
    return found.status == 0 and -found.fun > 1e-9


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_fit_exists_where_totals_are_in_the_interior_of_the_cone(formula):
    rng = np.random.default_rng(5)
    values = rng.poisson(3.0, (60, 12)) + rng.normal(0, 3.0, (60, 12))
    found = fit_loglinear(model(formula), values)
    expected = [inside(found.model.design, one) for one in values]
    assert found.exists.tolist() == expected
    assert 0 < sum(expected) < 60
    slack = (values - found.means) @ found.model.design
    assert np.abs(slack[found.exists]).max() < 1e-8


def test_sampling_zeros_are_on_the_boundary():
    values = counts(seed=1)[0]
    values[:2] = 0  # a = x, b = u
    found = reduced(model("a * b + c", gaussian(1e-9)), values)
    assert (~found.included).nonzero()[0].tolist() == [0, 1]
    names = TABLE.design("a * b + c")[0].names
    lost = [name for name, known in zip(names, found.determined(np.eye(len(names))), strict=True) if not known]
    assert lost == [name for name in names if name != "c"]  # the empty cells are the reference of all others
    levels = np.repeat(np.arange(6), 2)[2:]
    dummies = np.column_stack([levels == level for level in range(1, 6)] + [np.tile([0, 1], 5)]).astype(float)
    rest = sm.GLM(values[2:], dummies, family=sm.families.Poisson()).fit(tol=1e-14)
    np.testing.assert_allclose(found.fit.means[0], rest.fittedvalues, rtol=1e-8)


def test_what_is_left_out_does_not_move_what_is_determined():
    values = counts(seed=2)[0]
    values[[2, 3]] = [-4.0, 1.0]  # a = x, b = v
    first = reduced(model("a * b + c"), values)
    values[[2, 3]] = [-40.0, 9.0]
    second = reduced(model("a * b + c"), values)
    np.testing.assert_array_equal(first.included, second.included)
    np.testing.assert_allclose(first.fit.means, second.fit.means, rtol=1e-12)


def test_nothing_is_determined_by_negative_counts():
    found = LogLinearInference(tuple("abcdefghi"), model(), -counts()[0], nobs=0.0)
    assert found.fit is None
    assert np.isnan(found.params).all()
    assert np.isnan(found.cov_sampling).all()
    assert np.isinf(found.intervals(np.eye(9), 0.05)).all()
    assert found.wald(np.eye(9)[:2], np.zeros(2)) == (0.0, 2.0, 1.0)
    assert "every coefficient" in found.flags[0]


@pytest.mark.parametrize("noise", [gaussian(), laplace()], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("nobs", [None, 480.0])
def test_ends_of_score_intervals_are_where_the_test_rejects(noise, nobs):
    noise = noise if nobs is None else noise.centred()
    values = counts(seed=4) + noise.rvs((1, 12), np.random.default_rng(1))
    fit = fit_loglinear(model(noise=noise, nobs=nobs), values)
    rows = np.eye(9)[[1, 5, 7]]
    ends = score_intervals(fit, rows, 0.05)[0]
    for row, pair in zip(rows, ends, strict=True):
        for end in pair:
            assert score_test(fit.model, values, row[None], np.array([end])).pvalue[0] == pytest.approx(0.05, rel=1e-4)
        middle = score_test(fit.model, values, row[None], row @ fit.params.T)
        assert middle.pvalue[0] == pytest.approx(1.0, abs=1e-6)
    assert (ends[:, 0] < fit.params[0, [1, 5, 7]]).all()
    assert (ends[:, 1] > fit.params[0, [1, 5, 7]]).all()


def test_a_side_on_which_counts_vanish_has_no_end():
    values = counts(seed=6)[0]
    values[[2, 3]] = 2.0  # two standard deviations of their sum are 8.9
    fit = fit_loglinear(model("a * b + c"), values[None])
    place = TABLE.design("a * b + c")[0].names.index("a[T.y]:b[T.v]")
    lower, upper = score_intervals(fit, np.eye(7)[[place]], 0.05)[0, 0]
    assert np.isfinite(lower)
    assert upper == np.inf


def test_what_is_not_determined_is_bounded_on_one_side():
    values = counts(seed=6)[0]
    values[[2, 3]] = -2.0
    asked = model("a * b + c")
    row = np.eye(7)[TABLE.design("a * b + c")[0].names.index("a[T.y]:b[T.v]")]
    lower, upper = one_sided(asked, values[None], row, 0.05)[0]
    assert upper == np.inf
    assert np.isfinite(lower)
    assert score_test(asked, values[None], row[None], np.array([lower])).pvalue[0] == pytest.approx(0.05, rel=1e-4)


@pytest.mark.parametrize("method", ["score", "wald"])
@pytest.mark.parametrize("noise", [gaussian(), laplace()], ids=["gaussian", "laplace"])
def test_many_tables_are_inferred_as_one_by_one(method, noise):
    rng = np.random.default_rng(8)
    values = rng.poisson(6.0, (25, 12)) + noise.rvs((25, 12), rng)
    asked = model("a * b + c", noise)
    names = TABLE.design("a * b + c")[0].names
    many = batch_loglinear(asked, values, names=names, alpha=0.1, method=method, contrasts={"both": {names[1]: 1.0}})
    assert 0 < many.flagged.sum() < 25
    rows = np.vstack([np.eye(7), np.eye(7)[1]])
    for place, one in enumerate(values):
        single = LogLinearInference(names, asked, one, method=method)
        np.testing.assert_allclose(many.params[place, :7], single.params, rtol=1e-7, atol=1e-12)
        np.testing.assert_allclose(many.intervals[place], single.intervals(rows, 0.1), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(
            many.pvalues[place], single.contrast_pvalues(rows, np.zeros(8)), rtol=1e-6, atol=1e-12
        )
        if single.determined.all():
            total = single.cov_sampling + single.cov_noise
            np.testing.assert_allclose(many.bse[place, :7] ** 2, np.diag(total), rtol=1e-7)


def test_sampling_variances_are_those_of_the_counts_where_the_model_cannot_hold():
    values = counts(4000.0, seed=10) * np.where(np.arange(12) % 5 == 0, 3.0, 1.0)
    fit = fit_loglinear(model("a + b + c"), values)
    sandwich = np.diag((fit.influence[0] * values[0]) @ fit.influence[0].T)
    plain = np.diag(fit_loglinear(model("a + b + c", robust=False), values).covariance[0][0])
    robust = np.diag(fit.covariance[0][0])
    assert (robust > 0.999 * sandwich).all()
    np.testing.assert_allclose(robust, sandwich, rtol=0.05)
    assert (np.abs(plain / sandwich - 1) > 0.1).any()


def test_sampling_variances_are_those_of_the_fit_where_counts_agree():
    values = counts(seed=10)
    robust, plain = (fit_loglinear(model("a + b + c", robust=one), values).covariance[0][0] for one in (True, False))
    assert np.linalg.eigvalsh(robust - plain).min() > -1e-9
    assert (np.diag(robust) < 1.5 * np.diag(plain)).all()


def test_a_public_number_of_rows_leaves_only_the_slopes_to_sampling():
    values = counts(seed=11)
    total = float(values.sum())
    known = fit_loglinear(model("a + b + c", gaussian().centred(), nobs=total, robust=False), values)
    free = fit_loglinear(model("a + b + c", robust=False), values)
    sampling, other = known.covariance[0][0], free.covariance[0][0]
    np.testing.assert_allclose(sampling[1:, 1:], other[1:, 1:], rtol=1e-9)
    assert sampling[0, 0] == pytest.approx(other[0, 0] - 1 / total)
    assert (np.diag(known.covariance[1][0]) <= np.diag(free.covariance[1][0]) * (1 + 1e-8)).all()


def test_for_the_data_only_noise_counts():
    fit = fit_loglinear(model(population=False), counts(seed=12))
    assert not fit.covariance[0].any()
    wide = score_intervals(fit_loglinear(model(), counts(seed=12)), np.eye(9), 0.05)[0]
    narrow = score_intervals(fit, np.eye(9), 0.05)[0]
    assert ((narrow[:, 1] - narrow[:, 0]) < (wide[:, 1] - wide[:, 0])).all()


def test_noise_of_cells_has_the_moments_it_states():
    mixing = np.random.default_rng(1).normal(size=(4, 3))
    several = CombinedNoise(((NoiseLaw("gaussian", (4.0, 4.0)), np.ones(2)), (NoiseLaw("laplace", (3.0,)), np.ones(1))))
    noise = CellNoise(several, 4, mixing)
    drawn = noise.rvs((200_000, 4), np.random.default_rng(2))
    weights = np.array([1.0, -2.0, 0.5, 1.0])
    sums = drawn @ weights
    assert sums.var() == pytest.approx(noise.variance(weights), rel=0.03)  # eleven standard errors at a kurtosis of 3
    assert np.diag(noise.covariance(np.eye(4))) == pytest.approx(noise.of_counts)
    fourth = ((sums**4).mean() - 3 * sums.var() ** 2) / sums.var() ** 2
    assert fourth == pytest.approx(float(noise.fourth_cumulant(weights) / noise.variance(weights) ** 2), abs=0.5)
    included = np.array([True, False, True, True])
    np.testing.assert_allclose(noise.of_cells(included).of_counts, noise.of_counts[included])
    assert np.abs(noise.centred().rvs((5, 4), np.random.default_rng(3)).sum(axis=1)).max() < 1e-9
    assert not noise.is_normal


def test_the_oracle_knows_noise_and_sampling():
    expected, asked = np.full(12, 50.0), model("a + b + c")
    influence = fit_loglinear(asked, expected[None]).influence[0]
    sampling = influence**2 @ expected
    names = TABLE.design("a + b + c")[0].names
    oracle = loglinear_oracle(asked, expected, sampling=sampling, alpha=0.05, names=names)
    np.testing.assert_allclose(
        oracle.halfwidth, 1.959964 * np.sqrt(sampling + 9 * (influence**2).sum(axis=1)), rtol=1e-6
    )
    few = loglinear_oracle(asked, expected / 25, sampling=25 * sampling, alpha=0.05, names=names)
    assert few.kappa < 3 < oracle.kappa


def test_intervals_cover_where_cells_are_few():
    """Each of 4 coefficients in 1,500 tables: coverage below .918 has probability 1e-7 where it is .95."""
    shares = np.outer([0.7, 0.3], [0.6, 0.35, 0.05]).ravel()
    table = CellTable(("a", "b"), (("x", "y"), ("u", "v", "w")))
    design, rows = table.design("a + b")
    asked = LogLinearModel(rows, gaussian(4.0, 6))
    rng = np.random.default_rng(20)
    values = rng.multinomial(300, shares, 1500) + asked.noise.rvs((1500, 6), rng)
    truth = fit_loglinear(asked, 300 * shares[None]).params[0]
    found = batch_loglinear(asked, values, names=design.names, alpha=0.05)
    covered = (found.intervals[..., 0] <= truth) & (truth <= found.intervals[..., 1])
    assert (covered.mean(axis=0) > 0.918).all()


# Tests of models

PAIR = CellTable(("a", "b"), (("x", "y"), ("u", "v", "w")))
SHARES = np.outer([0.6, 0.4], [0.5, 0.3, 0.2]).ravel()


def design(formula):
    return PAIR.design(formula)[1]


def test_without_noise_it_is_pearsons_statistic():
    values = np.random.default_rng(1).multinomial(50_000, SHARES).astype(float)
    model = nested(design("a + b"), None, gaussian(1e-9, 6), None)
    table = values.reshape(2, 3)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    assert model.dof == 2
    assert model.statistic(values[None])[0] == pytest.approx(((table - expected) ** 2 / expected).sum(), rel=1e-3)


def test_the_largest_model_is_that_of_no_model():
    values = np.random.default_rng(2).multinomial(2000, SHARES, size=4) + np.random.default_rng(3).normal(0, 3, (4, 6))
    whole, larger = (nested(design("a + b"), one, gaussian(3.0, 6), None) for one in (None, design("a * b")))
    np.testing.assert_allclose(whole.statistic(values), larger.statistic(values), rtol=1e-8)
    assert whole.dof == larger.dof == 2


def test_the_coding_of_factors_does_not_matter():
    values = np.random.default_rng(4).multinomial(500, SHARES, size=3) + np.random.default_rng(5).normal(0, 3, (3, 6))
    one = nested(design("a"), design("a + b"), gaussian(3.0, 6), None)
    other = nested(design("C(a, Sum)"), design("C(a, Sum) + C(b, Helmert)"), gaussian(3.0, 6), None)
    np.testing.assert_allclose(one.statistic(values), other.statistic(values), rtol=1e-7)
    np.testing.assert_allclose(one.expected(values), other.expected(values), rtol=1e-7)


def test_what_is_not_nested_is_none():
    assert nested(design("a"), design("b"), gaussian(1.0, 6), None) is None
    assert nested(design("a + b"), design("a"), gaussian(1.0, 6), None) is None
    assert nested(design("a"), design("C(a, Sum)"), gaussian(1.0, 6), None).dof == 0


def test_a_fit_with_a_ridge_exists_for_every_table():
    columns = np.linalg.qr(design("a + b"))[0]
    values = np.random.default_rng(6).normal(-20, 30, (200, 6))
    means = ridge_fit(columns, values, gaussian(30.0, 6))
    assert np.isfinite(means).all()
    assert (means >= 0).all()


def test_three_fits_are_tried_where_a_count_is_hidden():
    rng = np.random.default_rng(7)
    values = rng.multinomial(100_000, SHARES, size=3).astype(float)
    values[0] /= 5000
    model = nested(design("a + b"), None, gaussian(3.0, 6), None)
    tried = model.candidates(values)
    assert [one.where.tolist() for one in tried] == [[0, 1, 2], [0], [0]]
    flat, peaked = (one.fitted[1][0] for one in tried[1:])
    assert flat.max() < tried[0].fitted[1][0].max() < peaked.max()


def test_a_public_number_of_rows_is_that_of_every_draw():
    model = nested(design("a + b"), None, gaussian(3.0, 6).centred(), 400.0)
    values = np.random.default_rng(8).multinomial(400, SHARES, size=2).astype(float)
    drawn = model.draw(model.fit(values), 50, np.random.default_rng(9))
    np.testing.assert_allclose(drawn.sum(axis=-1), 400.0)


def test_a_true_hypothesis_is_rejected_no_more_often_than_stated():
    """600 tables: a share above .10 has probability below 1e-6 where the size is .05."""
    rng = np.random.default_rng(10)
    model = nested(design("a + b"), None, gaussian(5.0, 6), None)
    values = rng.multinomial(400, SHARES, size=600) + model.noise.rvs((600, 6), rng)
    assert (batch_pvalues(model, values, draws=99, rng=rng) <= 0.05).mean() < 0.10


def test_a_wrong_hypothesis_is_rejected():
    shares = SHARES + np.array([1, -1, 0, -1, 1, 0]) * 0.06
    values = np.random.default_rng(11).multinomial(20_000, shares) + 0.0
    assert simulate(nested(design("a + b"), None, gaussian(5.0, 6), None), values, draws=199).pvalue == pytest.approx(
        1 / 200
    )


# Formulas in the factors of a table

CELLS = CellTable(("kids", "age >= 18", "race"), ((0, 1, 2), (False, True), ("a", "b")))


def test_the_last_factor_runs_fastest():
    assert CELLS.size == 12
    assert CELLS.values["kids"].tolist() == [0.0] * 4 + [1.0] * 4 + [2.0] * 4
    assert CELLS.values["race"].tolist() == [0.0, 1.0] * 6
    assert CELLS.values["age >= 18"].tolist() == [0.0, 0.0, 1.0, 1.0] * 3


def test_whole_numbers_are_numbers_or_factors():
    names, rows = CELLS.design("kids + race")
    assert names.names == ("Intercept", "kids", "race[T.b]")
    assert rows[:, 1].tolist() == CELLS.values["kids"].tolist()
    assert CELLS.design("C(kids)")[0].names == ("Intercept", "C(kids)[T.1]", "C(kids)[T.2]")
    assert CELLS.design("kids:`age >= 18`")[1].shape == (12, 2)


def test_numbers_with_gaps_are_levels():
    table = CellTable(("k",), ((1, 3, 9),))
    assert table.design("k")[0].names == ("Intercept", "k[T.3]", "k[T.9]")


def test_cells_that_cannot_be_are_left_out():
    _, rows = CELLS.design("race", "(kids == 0) & (race == 'b')")
    assert len(rows) == 10
    assert CELLS.excluded(None).sum() == 0


@pytest.mark.parametrize(
    ("formula", "exclude", "error", "match"),
    [
        ("kids + I(2 * kids)", None, CollinearDesignError, "are linearly dependent in the 12 cells"),
        ("race", "race == 'b'", CollinearDesignError, "exclude fewer"),
        ("y ~ race", None, UnknownColumnError, "'y' is not in"),
        ("kids ~ race", None, FormulaError, "has a left side"),
        ("1", None, FormulaError, "names no factor"),
        ("sex", None, UnknownColumnError, "'sex' is not in"),
        (" ", None, OptionError, "^formula="),
        (3, None, OptionError, "^formula=3"),
        ("race", 3, OptionError, "^exclude=3"),
        ("race", "kids >= 0", OptionError, "leaves some cells"),
        ("race", "kids", FormulaError, "is not a condition"),
    ],
)
def test_what_is_no_design_is_refused(formula, exclude, error, match):
    with pytest.raises(error, match=match):
        CELLS.design(formula, exclude)


def test_large_designs_are_refused():
    wide = CellTable(("a", "b"), (tuple(range(100)), tuple(range(100))))
    with pytest.raises(OptionError, match=r"10,000 cells.*4,096 cells"):
        wide.design("a + b")
    with pytest.raises(OptionError, match="at most 200 coefficients"):
        CellTable(("a", "b"), (tuple(range(60)), tuple(range(60)))).design("C(a) * C(b)")


def test_values_are_those_of_levels():
    np.testing.assert_array_equal(CellTable(("t",), (("x", "y"),)).values["t"], [0.0, 1.0])
