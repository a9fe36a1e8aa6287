"""Normal variables of partly known variance: against closed forms, and the interval's coverage by quadrature."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpinfer.resampling.inference import PROBABILITIES, WEIGHTS, floored_variances, mixture_isf, mixture_sf

ALPHAS = [0.3, 0.05, 0.01, 1e-4]


def test_nodes_integrate_over_the_unit_interval():
    assert WEIGHTS.sum() == pytest.approx(1.0, abs=1e-14)
    assert ((PROBABILITIES > 0) & (PROBABILITIES < 1)).all()
    assert (WEIGHTS > 0).all()
    for power in (1, 2, 7, -0.5):
        assert WEIGHTS @ PROBABILITIES**power == pytest.approx(1 / (power + 1), rel=1e-4)


# Quantiles of a variance


def test_without_a_floor_the_variance_is_scaled_inverse_chi_squared():
    p = np.array([0.001, 0.1, 0.5, 0.9, 0.999])
    found = floored_variances(np.array([2.0, 0.1]), 9.0, np.zeros(2), p)
    expected = stats.invgamma(4.5, scale=4.5).isf(p)
    np.testing.assert_allclose(found, np.outer([2.0, 0.1], expected), rtol=1e-10)


@given(st.floats(0.01, 100), st.floats(1, 500), st.floats(0.01, 10), st.floats(0.001, 0.999))
def test_a_quantile_has_its_tail_probability_given_the_floor(observed, df, floor, p):
    law = stats.invgamma(df / 2, scale=df * observed / 2)
    above = law.sf(floor)
    found = floored_variances(np.array([observed]), df, np.array([floor]), np.array([p]))[0, 0]
    assert found >= floor
    if above > 1e-200:
        assert law.sf(found) / above == pytest.approx(p, rel=1e-6)


@given(st.floats(1e-3, 1e3), st.floats(2, 300), st.floats(0, 1e3))
def test_quantiles_fall_with_their_tail_and_rise_with_the_floor_and_the_estimate(observed, df, floor):
    p = np.linspace(0.01, 0.99, 15)
    estimates, floors = np.array([observed, observed, 1.5 * observed]), np.array([floor, 1.5 * floor + 0.01, floor])
    found = floored_variances(estimates, df, floors, p)
    assert (np.diff(found, axis=1) <= 1e-12 * found[:, 1:]).all()
    assert (found[1] >= found[0] * (1 - 1e-9)).all()
    assert (found[2] >= found[0] * (1 - 1e-9)).all()


def test_estimates_far_below_the_floor_leave_the_floor():
    """What cannot be is not computed with: no overflow, no warning, and never a number below the floor."""
    found = floored_variances(np.array([0.0, 1e-300, 1e-8, 1e-3, 0.3]), 49.0, np.ones(5), PROBABILITIES)
    assert np.isfinite(found).all()
    assert (found >= 1).all()
    assert (found[:2] == 1).all()
    np.testing.assert_allclose(found[2], PROBABILITIES ** (-2 / 49), rtol=1e-6)
    median = floored_variances(np.array([0.3, 0.9, 30.0]), 49.0, np.ones(3), np.array([0.5]))[:, 0]
    assert 1 < median[0] < 1.05 < median[1] < 1.2
    assert median[2] == pytest.approx(49 * 30 / stats.chi2.median(49), rel=1e-9)


def test_with_many_degrees_of_freedom_the_variance_is_its_estimate():
    found = floored_variances(np.array([2.0, 0.5]), 1e9, np.array([1.0, 1.0]), PROBABILITIES)
    np.testing.assert_allclose(found[0], 2.0, rtol=1e-3)
    np.testing.assert_allclose(found[1], 1.0, rtol=1e-3)


# Tails of the mixture


@pytest.mark.parametrize("df", [4.0, 9.0, 49.0])
def test_without_a_floor_the_mixture_is_student_t(df):
    distance = np.array([0.0, 0.3, 1.0, 2.0, 3.5, 6.0])
    variances = floored_variances(np.ones(6), df, np.zeros(6), PROBABILITIES)
    np.testing.assert_allclose(mixture_sf(distance, variances), 2 * stats.t.sf(distance, df), rtol=2e-4)
    for alpha in ALPHAS:
        assert mixture_isf(alpha, variances[:1])[0] == pytest.approx(stats.t.isf(alpha / 2, df), rel=1e-4)


def test_with_one_variance_the_mixture_is_normal():
    distance, variances = np.array([0.5, 1.96, 8.0]), np.full((3, len(WEIGHTS)), 4.0)
    np.testing.assert_allclose(mixture_sf(distance, variances), 2 * stats.norm.sf(distance / 2), rtol=1e-12)
    np.testing.assert_allclose(mixture_isf(0.05, variances), 2 * stats.norm.isf(0.025), rtol=1e-12)
    many = floored_variances(np.array([4.0]), 1e8, np.array([1.0]), PROBABILITIES)
    assert mixture_isf(0.05, many)[0] == pytest.approx(2 * stats.norm.isf(0.025), rel=1e-3)


def mixtures(rows=8, seed=3):
    rng = np.random.default_rng(seed)
    return floored_variances(rng.gamma(2, size=rows), 19.0, rng.random(rows), PROBABILITIES)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_distances_invert_the_tail(alpha):
    variances = mixtures()
    distance = mixture_isf(alpha, variances)
    np.testing.assert_allclose(mixture_sf(distance, variances), alpha, rtol=1e-9)
    np.testing.assert_allclose(mixture_isf(alpha, 9 * variances), 3 * distance, rtol=1e-9)


def test_tails_fall_and_distances_rise():
    variances = mixtures()
    distance = np.linspace(0, 12, 40)
    tails = np.stack([mixture_sf(np.full(8, one), variances) for one in distance])
    np.testing.assert_allclose(tails[0], 1.0, rtol=1e-12)
    assert (np.diff(tails, axis=0) < 0).all()
    assert (mixture_sf(np.full(8, 2.0), 1.1 * variances) > mixture_sf(np.full(8, 2.0), variances)).all()
    distances = np.stack([mixture_isf(alpha, variances) for alpha in ALPHAS])
    assert (np.diff(distances, axis=0) > 0).all()


def test_the_tail_is_that_of_simulated_variables():
    """False alarm below 1e-8 each."""
    rng = np.random.default_rng(8)
    draws, df, observed, floor = 400_000, 11.0, 0.8, 0.7
    variance = df * observed / rng.chisquare(df, size=4 * draws)
    kept = variance[variance >= floor]
    size = np.abs(rng.normal(size=len(kept))) * np.sqrt(kept)
    law = floored_variances(np.array([observed]), df, np.array([floor]), PROBABILITIES)
    for distance in (0.5, 1.5, 3.0):
        tail = mixture_sf(np.array([distance]), law)[0]
        assert abs((size >= distance).mean() - tail) < 6 * np.sqrt(tail * (1 - tail) / len(kept))


# The interval for one number, of B noisy replicates with secret weights of variance 1

REPLICATES, NODES = 50, (np.arange(600) + 0.5) / 600


def half_widths(ratio, method):
    """Half widths of 95% intervals where v = ratio n, at equally likely variances between replicates; in units of n."""
    df = REPLICATES - 1.0
    observed = (ratio + 1) * stats.chi2.ppf(NODES, df) / df
    if method == "fiducial":
        total = floored_variances(observed, df, np.ones(len(NODES)), PROBABILITIES)
        return mixture_isf(0.05, total - 1 + total / REPLICATES)
    share = {"conservative": stats.chi2.ppf(0.05, df) / df, "unbiased": 1.0}[method]
    return stats.norm.isf(0.025) * np.sqrt(np.maximum(observed - share, 0) + 1 / REPLICATES)


def coverage(ratio, method="fiducial"):
    """Coverage given the data's law: the mean of replicates is independent of the variance between them."""
    error = np.sqrt(ratio + (ratio + 1) / REPLICATES)
    return (1 - 2 * stats.norm.sf(half_widths(ratio, method) / error)).mean()


RATIOS = [0.001, 0.004, 0.016, 0.06, 0.12, 0.25, 0.5, 1.0, 2.0, 4.0, 16.0]
"""Sampling variance over the noise variance of one replicate."""

AGES = 17.58**2 / 500 / 2
"""Five hundred ages to 100 with standard deviation 17.58, fifty replicates at rho = .5 in all: noise variance 2."""


@pytest.mark.parametrize("ratio", [*RATIOS, AGES])
def test_intervals_cover_at_every_ratio_of_sampling_variance_to_noise(ratio):
    assert 0.94 <= coverage(ratio) <= 1


def test_intervals_are_exact_where_replicates_tell_the_variance_well():
    assert coverage(16.0) == pytest.approx(0.95, abs=5e-3)
    assert coverage(1000.0) == pytest.approx(0.95, abs=1e-3)


def test_intervals_are_shorter_than_the_conservative_ones():
    shorter = half_widths(AGES, "fiducial").mean() / half_widths(AGES, "conservative").mean()
    assert 0.75 < shorter <= 0.92
    assert coverage(AGES, "conservative") > 0.97
    assert coverage(AGES, "unbiased") < 0.86
