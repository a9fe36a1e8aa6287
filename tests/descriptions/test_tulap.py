"""One noisy count with Tulap noise: its law by summation, its intervals, tests and estimates."""

import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import elementwise

from dpinfer.descriptions.binomial_inference import binomial_estimate, binomial_interval, binomial_pvalue
from dpinfer.errors import OptionError
from dpinfer.statistics.noise import noisy_binomial_cdf, noisy_binomial_sf
from validation.common.tulap_law import released, tulap_cdf, tulap_sf

EXTREME = [-np.inf, -1e300, -1e9, -40.0, -0.5, -1e-9, 0.0, 0.5, 7.3, 99.5, 100.0, 1e4, 1e17, 1e308, np.inf, np.nan]


def proportion_cdf(z, n, theta, scale):
    """P(Z <= z), where a stored count stands for itself and not for the cell of the grid above it."""
    law = released(scale)
    return noisy_binomial_cdf(np.asarray(z) - law["step"], n, theta, **law)


def proportion_sf(z, n, theta, scale):
    return noisy_binomial_sf(z, n, theta, **released(scale))


def proportion_interval(z, n, scale, alpha=0.05):
    return binomial_interval(z, n, **released(scale), alpha=alpha)


def proportion_pvalue(z, n, theta, scale, alternative="two-sided"):
    return binomial_pvalue(z, n, theta, **released(scale), alternative=alternative)


def proportion_estimate(z, n, scale):
    return binomial_estimate(z, n, **released(scale))


def by_summation(z, n, theta, scale, law=tulap_cdf):
    """P(Z <= z), or with tulap_sf P(Z >= z), by the definition: the sum over counts that have probability."""
    width = 40 * np.sqrt(n * theta * (1 - theta)) + 40
    x = np.arange(max(0, int(n * theta - width)), min(n, int(n * theta + width)) + 1)
    return float(stats.binom.pmf(x, n, theta) @ law(z - x, scale))


def threshold(n, theta, scale, side):
    """Largest z whose interval ends below theta (side 1), smallest z whose interval begins above it (side 0).

    Found from the interval itself; infinite where no z has such an interval.
    """

    def distance(z, n, theta):
        return proportion_interval(z, n, scale)[..., side] - theta

    low, high = np.full(n.shape, -60 * (scale + 1)), n + 60 * (scale + 1)
    found = elementwise.find_root(distance, (low, high), args=(n, theta))
    if side:
        return np.where(distance(low, n, theta) < 0, found.bracket[0], -np.inf)
    return np.where(distance(high, n, theta) > 0, found.bracket[1], np.inf)


def coverage(n, theta, scale):
    n, theta = (np.ravel(array).astype(float) for array in np.broadcast_arrays(n, theta))
    below = proportion_cdf(threshold(n, theta, scale, 1), n, theta, scale)
    return n, theta, 1 - below - proportion_sf(threshold(n, theta, scale, 0), n, theta, scale)


@pytest.mark.parametrize("scale", [0.2, 1.0, 7.5])
def test_tulap_is_discrete_laplace_plus_uniform(scale):
    q = np.exp(-1 / scale)
    k = np.arange(-2000, 2001)
    weights = (1 - q) / (1 + q) * q ** np.abs(k)
    x = np.linspace(-30, 30, 601)
    expected = np.clip(x[:, None] - k + 0.5, 0, 1) @ weights
    np.testing.assert_allclose(tulap_cdf(x, scale), expected, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(tulap_sf(x, scale), expected[::-1], rtol=1e-12, atol=1e-300)


def test_tulap_tails_keep_their_relative_accuracy():
    for x in (-600.0, -300.25):
        m = np.rint(x)
        expected = np.exp(m) * (np.exp(-1) + (1 - np.exp(-1)) * (x - m + 0.5)) / (1 + np.exp(-1))
        assert tulap_cdf(x, 1.0) == pytest.approx(expected, rel=1e-12)
        assert tulap_sf(-x, 1.0) == tulap_cdf(x, 1.0)
    assert tulap_sf(np.array([-np.inf, np.inf]), 1.0).tolist() == [1.0, 0.0]
    np.testing.assert_allclose(tulap_cdf([-0.5, -0.25, 0.5], 0.0), [0.0, 0.25, 1.0], atol=1e-300)


@pytest.mark.parametrize("n", [0, 1, 2, 30, 1000, 100_000])
@pytest.mark.parametrize("scale", [0.02, 0.2, 1.0, 10.0, 1000.0])
def test_closed_form_equals_the_sum_over_counts(n, scale):
    for theta in (0.0, 1e-7, 0.03, 0.5, 0.97, 1.0):
        spread = np.sqrt(n * theta * (1 - theta) + 2 * scale**2)
        z = n * theta + spread * np.array([-9.0, -5.3, -2.1, -0.4, 0.0, 0.7, 3.2, 8.0]) + 0.13
        expected = [by_summation(value, n, theta, scale) for value in z]
        above = [by_summation(value, n, theta, scale, tulap_sf) for value in z]
        np.testing.assert_allclose(proportion_cdf(z, n, theta, scale), expected, rtol=2e-11, atol=1e-290)
        np.testing.assert_allclose(proportion_sf(z, n, theta, scale), above, rtol=2e-11, atol=1e-290)


@pytest.mark.parametrize("scale", [0.05, 1.0, 300.0])
def test_sizes_of_a_thousand_million(scale):
    n, theta = 10**9, 1e-5
    z = n * theta + np.array([-7.0, -1.0, 0.3, 2.0, 6.0]) * np.sqrt(n * theta + 2 * scale**2)
    expected = [by_summation(value, n, theta, scale) for value in z]
    np.testing.assert_allclose(proportion_cdf(z, n, theta, scale), expected, rtol=1e-9)
    centre = proportion_cdf(2e8 + np.array([-1e5, 0.0, 1e5]), n, 0.2, scale)
    spread = np.sqrt(n * 0.16 + 0.5 / np.sinh(0.5 / scale) ** 2 + 1 / 12)
    np.testing.assert_allclose(centre, stats.norm.cdf([-1e5 / spread, 0, 1e5 / spread]), atol=1e-4)


def test_large_sizes_are_fast_and_consistent():
    n = 10**9
    start = time.perf_counter()
    ends = proportion_interval([2e8, 0.3, 1e9 + 3], n, 1.0)
    assert time.perf_counter() - start < 2
    half = stats.norm.isf(0.025) * np.sqrt(0.16 / n)
    np.testing.assert_allclose(ends[0], [0.2 - half, 0.2 + half], rtol=0, atol=1e-3 * half)
    assert ends[1, 0] == 0
    assert ends[2, 1] == 1
    at_upper = proportion_cdf(2e8, n, ends[0, 1], 1.0)
    assert 0.025 * (1 - 3e-9) <= at_upper <= 0.025


@given(
    n=st.integers(0, 3000),
    theta=st.floats(0, 1),
    scale=st.floats(0, 50),
    z=st.lists(st.floats(allow_nan=False), min_size=2, max_size=8),
)
def test_probabilities_are_monotone_and_complement_each_other(n, theta, scale, z):
    z = np.sort(np.array(z))
    below, above = proportion_cdf(z, n, theta, scale), proportion_sf(z, n, theta, scale)
    np.testing.assert_allclose(below + above, 1, rtol=1e-12)
    assert np.all(np.diff(below) >= -1e-14)
    assert np.all(np.diff(proportion_sf(z[0], n, np.linspace(0, 1, 50), scale)) >= -1e-13)


@pytest.mark.slow
@settings(max_examples=30)
@given(
    n=st.sampled_from([0, 1, 2, 17, 1000, 10**6, 10**9, 2**53]),
    scale=st.sampled_from([0.0, 1e-300, 1e-3, 0.2, 1.0, 30.0, 1e6, 1e130]),
    alpha=st.sampled_from([1e-12, 0.05, 0.5, 0.999]),
    z=st.floats(),
)
@example(n=2**53, scale=0.0, alpha=0.5, z=0.0)
def test_any_input_gives_an_interval_that_is_not_empty(n, scale, alpha, z):
    ends = proportion_interval([*EXTREME, z, 0.3 * n, n + 0.4], n, scale, alpha)
    assert ends.shape == (len(EXTREME) + 3, 2)
    assert np.all((ends >= 0) & (ends <= 1))
    assert np.all(ends[:, 0] < ends[:, 1])
    assert ends[EXTREME.index(-1e9), 0] == 0
    assert n >= 1e17 or ends[EXTREME.index(np.inf), 1] == 1
    estimate = proportion_estimate([*EXTREME, z], n, scale)
    assert np.all((estimate.proportion >= 0) & (estimate.proportion <= 1))
    assert np.all(estimate.sampling_variance > 0)
    assert np.all(np.isfinite(estimate.standard_error))


def test_no_units_tell_nothing():
    np.testing.assert_array_equal(proportion_interval([-50.0, 0.2, np.nan, 80.0], 0, 1.0), [[0.0, 1.0]] * 4)
    assert proportion_pvalue(0.2, 0, 0.4, 1.0) > 0.5
    estimate = proportion_estimate(0.2, 0, 1.0)
    assert (float(estimate.proportion), float(estimate.standard_error)) == (0.5, 0.5)


def test_a_missing_count_gives_the_whole_range():
    np.testing.assert_array_equal(proportion_interval(np.nan, 30, 1.0), [0.0, 1.0])
    assert proportion_pvalue(np.nan, 30, 0.4, 1.0) == 1
    assert proportion_pvalue(np.nan, 30, 0.4, 1.0, alternative="less") == 1
    assert proportion_estimate(np.nan, 30, 1.0).clipped


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.2, 1.0, 2.0])
def test_coverage_by_summation_is_exact_inside_and_never_below(scale):
    sizes, values = np.array([1, 10, 30, 100, 1000])[:, None], [0.001, 0.01, 0.05, 0.2, 0.5, 0.83, 0.999]
    n, theta, covered = coverage(sizes, values, scale)
    assert np.all(covered >= 0.95)
    at_zero = proportion_interval(np.full(n.shape, 0.5), n, scale)[:, 1]
    at_n = proportion_interval(n - 0.5, n, scale)[:, 0]
    inside = (at_zero < theta) & (theta < at_n)
    assert inside.sum() >= 8
    assert np.all(covered[inside] <= 0.95 + 1e-9)
    assert np.all(covered[(theta < at_n) | (at_zero < theta)] <= 0.975 + 1e-9)


def test_width_of_the_headline_design():
    n, theta, scale = 100, 0.2, 1.0
    edges = np.linspace(-15, 60, 3001)
    share = np.diff(proportion_cdf(edges, n, theta, scale))
    ends = proportion_interval(0.5 * (edges[1:] + edges[:-1]), n, scale)
    assert share.sum() == pytest.approx(1, abs=1e-8)
    assert share @ (ends[:, 1] - ends[:, 0]) <= 0.164


def test_no_noise_is_inside_clopper_pearson():
    n = 25
    x = np.arange(n + 1)
    ends = proportion_interval(x, n, 0.0)
    for count, (low, high) in zip(x, ends, strict=True):
        published = stats.binomtest(int(count), n).proportion_ci(0.95, method="exact")
        assert published.low <= low + 1e-9
        assert high <= published.high + 1e-9
        if count > 0:
            middle = stats.binom.sf(count, n, low) + 0.5 * stats.binom.pmf(count, n, low)
            assert low == 0 or count == n or middle == pytest.approx(0.025, rel=1e-7)
    assert ends[0, 1] == pytest.approx(1 - 0.025 ** (1 / n), rel=1e-8)
    assert ends[n, 0] == pytest.approx(0.025 ** (1 / n), rel=1e-8)
    np.testing.assert_allclose(proportion_interval(x, n, 1e-3), ends, rtol=1e-9)


def test_interval_mirrors_and_widens():
    z = np.linspace(-8, 48, 113)
    ends = proportion_interval(z, 40, 1.5)
    np.testing.assert_allclose(1 - proportion_interval(40 - z, 40, 1.5)[:, ::-1], ends, atol=1e-11)
    assert np.all(np.diff(ends, axis=0) >= -1e-13)
    wider = proportion_interval(z, 40, 1.5, 0.01)
    assert np.all((wider[:, 0] <= ends[:, 0]) & (ends[:, 1] <= wider[:, 1]))
    np.testing.assert_allclose(ends[z < 0.5, 1], proportion_interval(0.5, 40, 1.5)[1], rtol=1e-12)


@pytest.mark.slow
@given(
    n=st.integers(1, 500),
    scale=st.floats(0.05, 20),
    shift=st.floats(-0.4, 1.4),
    theta=st.floats(0.0005, 0.9995),
    alpha=st.floats(0.001, 0.5),
)
def test_interval_holds_what_the_test_does_not_reject(n, scale, shift, theta, alpha):
    z = n * shift
    low, high = proportion_interval(z, n, scale, alpha)
    pvalue = proportion_pvalue(z, n, theta, scale)
    if abs(pvalue - alpha) > 1e-7 * alpha:
        assert (low <= theta <= high) == (pvalue >= alpha)


@pytest.mark.parametrize(
    ("n", "null", "truth", "epsilon", "power"),
    [
        (30, 0.8, 0.9, 0.5, 0.175),
        (30, 0.8, 0.9, 1.0, 0.304),
        (30, 0.8, 0.9, 2.0, 0.402),
        (128, 0.9, 0.95, 1.0, 0.596),
        (256, 0.9, 0.95, 1.0, 0.898),
    ],
)
def test_known_power_of_the_one_sided_test(n, null, truth, epsilon, power):
    low, high = 0.0, n + 60 / epsilon
    for _ in range(80):
        middle = 0.5 * (low + high)
        rejects = proportion_pvalue(middle, n, null, 1 / epsilon, alternative="greater") <= 0.05
        low, high = (low, middle) if rejects else (middle, high)
    assert proportion_sf(high, n, null, 1 / epsilon) == pytest.approx(0.05, rel=1e-9)
    assert proportion_sf(high, n, truth, 1 / epsilon) == pytest.approx(power, abs=6e-4)


def test_pvalues_of_a_simulated_sample_are_uniform():
    rng = np.random.default_rng(11)
    n, theta, size = 40, 0.15, 20_000
    q = np.exp(-1 / 1.5)
    noise = rng.geometric(1 - q, size) - rng.geometric(1 - q, size) + rng.uniform(-0.5, 0.5, size)
    z = rng.binomial(n, theta, size) + noise
    for alternative in ("less", "greater"):
        pvalue = proportion_pvalue(z, n, theta, 1.5, alternative=alternative)
        assert stats.kstest(pvalue, "uniform").pvalue > 1e-6  # false alarm 1e-6
    estimate = proportion_estimate(z, n, 1.5)
    expected = theta * (1 - theta) / n + (2 * q / (1 - q) ** 2 + 1 / 12) / n**2
    assert np.var(z / n) == pytest.approx(expected, rel=0.06)  # 6 standard errors of a variance
    exact = estimate.noise_variance[0] + theta * (1 - theta) / n
    assert exact == pytest.approx(expected, rel=1e-12)


def test_sizes_may_differ_by_element():
    z, n = np.array([3.2, 18.1, 480.0]), np.array([10, 50, 1000])
    together = proportion_interval(z, n, 0.7)
    for index in range(3):
        np.testing.assert_allclose(together[index], proportion_interval(z[index], n[index], 0.7), rtol=1e-12)
    assert proportion_cdf(z[:, None], 50, np.linspace(0, 1, 5), 0.7).shape == (3, 5)
    assert proportion_interval(np.empty(0), 10, 1.0).shape == (0, 2)


def test_estimate_in_the_interior_is_the_plain_one():
    estimate = proportion_estimate([20.0, -3.0], 100, 0.5)
    np.testing.assert_allclose(estimate.proportion, [0.2, 0.0])
    np.testing.assert_allclose(estimate.sampling_variance, [0.0016, (1 / 102) * (101 / 102) / 100])
    assert estimate.clipped.tolist() == [False, True]


def test_thousands_of_intervals_take_seconds():
    z = np.random.default_rng(3).normal(200, 13, 5000)
    start = time.perf_counter()
    proportion_interval(z, 1000, 1.0)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    "call",
    [
        lambda: proportion_cdf(0, -1, 0.5, 1.0),
        lambda: proportion_cdf(0, 2.5, 0.5, 1.0),
        lambda: proportion_cdf(0, np.nan, 0.5, 1.0),
        lambda: proportion_sf(0, 5, 1.5, 1.0),
        lambda: proportion_interval(0, 5, -1.0),
        lambda: proportion_interval(0, 5, np.inf),
        lambda: proportion_interval(0, 5, 1.0, 0.0),
        lambda: proportion_pvalue(0, 5, 0.5, 1.0, alternative="larger"),
        lambda: proportion_estimate(0, 5, np.nan),
        lambda: proportion_cdf(0, 5, 0.5, -1.0),
    ],
)
def test_impossible_options_are_named(call):
    with pytest.raises(OptionError, match="is not valid"):
        call()
