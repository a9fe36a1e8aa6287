import numpy as np
import pytest
from scipy import stats

from dpinfer.survey.inference import SurveyInference, Units, ratios

UNITS = Units(np.repeat(np.arange(3), 4), np.repeat([1.0, 0.6, 1.0], 4))


def inferred(noise, method="score", releases=5, seed=1):
    rng = np.random.default_rng(seed)
    weights = rng.gamma(20, 1, (releases, 12))
    sums = np.stack([weights, weights * rng.normal(3, 1, (releases, 12))], axis=2)
    sums = sums + rng.normal(0, np.sqrt(noise), sums.shape)
    noise = np.full(2, float(noise))
    top, bottom = np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])
    found = ratios(sums.sum(axis=1), np.sqrt(12 * noise), top, bottom, np.array([-100.0]), np.array([100.0]))
    return SurveyInference(("y",), found, UNITS, sums, noise, method=method)


def variance_by_hand(sums, value, noise):
    """The larger one of both variances of the linearized total at a value, for one release (U, 2)."""
    scores = sums[:, 1] - value * sums[:, 0]
    each, between = noise * (1 + value**2), 0.0
    for stratum in range(3):
        mine = scores[stratum * 4 : stratum * 4 + 4]
        spare = UNITS.unsampled[stratum * 4]
        between += spare * 4 * mine.var(ddof=1) + (1 - spare) * 4 * each
    return max(between, 12 * each)


@pytest.mark.parametrize("noise", [0.0, 1.0, 50.0, 400.0])
def test_intervals_hold_the_values_that_the_test_written_out_does_not_reject(noise):
    inference = inferred(noise)
    limit = stats.t.isf(0.025, 9) ** 2
    for sums, (low, high) in zip(inference.sums, inference.batch(0.05).intervals[:, 0], strict=True):
        for value in (low - 1e-4, low + 1e-4, high - 1e-4, high + 1e-4):
            total = sums[:, 1].sum() - value * sums[:, 0].sum()
            held = total**2 <= limit * variance_by_hand(sums, value, noise)
            outside = abs(value) > 100 or not low <= value <= high
            if abs(low) < 100 and abs(high) < 100:
                assert held != outside
        wald = inferred(noise, "wald")
        assert (np.diff(wald.batch(0.05).intervals[:, 0]) > 0).all()


@pytest.mark.parametrize("noise", [1.0, 400.0])
def test_variances_are_those_of_noise_and_sampling_together(noise):
    """4,000 releases of one sample: the mean of the variance is known to 4% (five standard errors)."""
    rng = np.random.default_rng(2)
    exact = np.stack([np.full(12, 20.0), 20 * rng.normal(3, 1, 12)], axis=1)
    sums = exact + rng.normal(0, np.sqrt(noise), (4000, 12, 2))
    spare = (12 - UNITS.varying) * noise * np.eye(2)
    found = (UNITS.covariance(sums) + spare).mean(axis=0)
    expected = UNITS.covariance(exact[None])[0] + 12 * noise * np.eye(2)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert (np.abs(found - expected) < 0.04 * scale).all()


def test_noise_alone_is_the_least_variance():
    inference = inferred(400.0, releases=200)
    least = np.sqrt(np.diagonal(inference._noise, axis1=1, axis2=2))
    assert (inference.batch(0.05).bse >= least * (1 - 1e-9)).all()


def test_many_releases_are_inferred_as_one_by_one():
    many = inferred(30.0)
    batch = many.batch(0.1)
    for place in range(5):
        top, bottom = np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])
        sums = many.sums[place : place + 1]
        found = ratios(sums.sum(axis=1), np.sqrt(12 * many.noise), top, bottom, many.found.lower, many.found.upper)
        one = SurveyInference(("y",), found, UNITS, sums, many.noise, method="score")
        np.testing.assert_allclose(one.intervals(np.eye(1), 0.1)[0], batch.intervals[place, 0])
        np.testing.assert_allclose(one.contrast_pvalues(np.eye(1), np.zeros(1)), batch.pvalues[place])
        np.testing.assert_allclose(one.params, batch.params[place])


def test_what_noise_hides_has_no_estimate_and_all_that_is_possible():
    inference = inferred(1e6, releases=1)
    if inference.found.hidden[0, 0]:
        assert np.isnan(inference.params).all()
    assert inference.intervals(np.eye(1), 0.05).tolist() == [[-100, 100]]
    assert inference.contrast_pvalues(np.eye(1), np.zeros(1))[0] >= 0.05
    assert inference.flagged.all()


def test_strata_that_were_sampled_whole_give_no_degrees_of_freedom():
    stratum = np.repeat(np.arange(3), [5, 5, 2])
    assert Units(stratum, np.ones(12)).df == 9
    assert Units(stratum, np.repeat([0.0, 0.0, 0.9], [5, 5, 2])).df == 1
    assert Units(stratum, np.zeros(12)).df == 9  # a census: noise alone


def test_an_interval_covers_where_two_units_have_all_of_the_sampling_error():
    """Of 1,000 intervals 78 miss with probability 1e-4; with 17 degrees of freedom, those of R, 27% missed."""
    rng, noise = np.random.default_rng(1), np.full(2, 1.0)
    units = Units(np.repeat(np.arange(5), [5, 5, 5, 5, 2]), np.repeat([0.0, 0.9], [20, 2]))
    values = np.tile(rng.normal(3, 1, 22), (1000, 1))
    values[:, 20:] = rng.normal(3, np.sqrt(0.9), (1000, 2))  # of a finite population, a tenth of it drawn
    sums = np.stack([np.full((1000, 22), 200.0), 200 * values], axis=2) + rng.normal(0, 1, (1000, 22, 2))
    top, bottom = np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])
    found = ratios(sums.sum(axis=1), np.sqrt(22 * noise), top, bottom, np.array([-100.0]), np.array([100.0]))
    ends = SurveyInference(("y",), found, units, sums, noise).batch(0.05).intervals[:, 0]
    truth = (values[0, :20].sum() + 6) / 22
    assert ((ends[:, 0] > truth) | (ends[:, 1] < truth)).sum() < 78


def test_a_flag_tells_noise_from_units_that_differ():
    sums = np.full((1, 12, 2), 1.0)
    sums[:, 3] = 300.0  # nearly all of the weight is in one unit
    top, bottom, ends = np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]]), np.array([100.0])
    for noise, why in ((1e-6, "differences between units"), (1e6, "noise hides")):
        found = ratios(sums.sum(axis=1), np.sqrt(12 * noise * np.ones(2)), top, bottom, -ends, ends)
        (flag,) = SurveyInference(("y",), found, UNITS, sums, np.full(2, noise)).flags
        assert flag.startswith(f"not determined: y: {why}")
        assert SurveyInference(("y",), found, UNITS, sums, np.full(2, noise), method="wald").flags == (
            (flag,) if noise > 1 else ()
        )
