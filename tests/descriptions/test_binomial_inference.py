"""Exact inference about one share: its law against brute-force sums, its size, its interval by inversion."""

import time
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import elementwise

from dpinfer.descriptions.binomial_inference import (
    binomial_estimate,
    binomial_interval,
    binomial_power,
    binomial_pvalue,
)
from dpinfer.errors import OptionError
from dpinfer.release.laws import TULAP_GRID, NoiseLaw
from dpinfer.statistics.noise import noisy_binomial_cdf, noisy_binomial_sf
from dpinfer.statistics.nulls import ALTERNATIVES
from validation.common.tulap_law import released, tulap_cdf, tulap_sf

EXTREME = [-np.inf, -1e300, -1e9, -40.0, -0.5, -1e-9, 0.0, 0.5, 7.3, 10.0, 11.0, 99.5, 1e4, 1e17, 1e308, np.inf, np.nan]


def gaussian(scale):
    return NoiseLaw("gaussian", (float(scale),))


def tulap(epsilon):
    return NoiseLaw("tulap", (TULAP_GRID / epsilon,))


LAWS = {
    "coarse": (gaussian(1.5), 1.0),
    "quarters": (gaussian(20), 0.25),
    "as released": (gaussian(2.0**24), 2.0**-22),
    "tulap": (tulap(0.5), 1 / TULAP_GRID),
}
each_law = pytest.mark.parametrize(("law", "step"), LAWS.values(), ids=LAWS)


@cache
def masses(scale):
    """The discrete Gaussian law by its definition."""
    support = np.arange(-int(40 * scale) - 2, int(40 * scale) + 3)
    weights = np.exp(-(support**2) / (2 * scale**2))
    return support, weights / weights.sum()


def by_summation(z, n, theta, law, step, *, upper=False):
    """P(Z <= z) or P(Z >= z): the sum over all counts and all noise."""
    x = np.arange(n + 1)
    if law.family == "tulap":
        scale = law.scales[0] / TULAP_GRID
        tail = tulap_cdf(x - z, scale) if upper else tulap_cdf(z - x, scale)
    else:
        support, mass = masses(law.scales[0])
        needed = x - z if upper else z - x  # the law is symmetric
        place = np.clip(np.floor(needed / step) - support[0] + 1, 0, support.size).astype(int)
        tail = np.concatenate([[0.0], np.cumsum(mass)])[place]
    return float(stats.binom.pmf(x, n, theta) @ tail)


# The law


@pytest.mark.parametrize("n", [0, 1, 7, 300, 4000])
@pytest.mark.parametrize(("scale", "spacing"), [(0.3, 1), (2.0, 1), (30.0, 16), (700.0, 4), (2000.0, 64), (3000.0, 4)])
def test_both_tails_are_the_sums_over_counts_and_noise(n, scale, spacing):
    rng = np.random.default_rng(n)
    law, step = gaussian(scale), 1 / spacing
    for theta in (0.0, 0.003, 0.2, 0.5, 0.97, 1.0):
        spread = np.sqrt(n * theta * (1 - theta) + (scale * step) ** 2)
        z = np.rint((n * theta + spread * rng.uniform(-5, 5, size=8)) * spacing) * step
        lower, upper = (f(z, n, theta, law, step=step) for f in (noisy_binomial_cdf, noisy_binomial_sf))
        for one, below, above in zip(z, lower, upper, strict=True):
            assert below == pytest.approx(by_summation(one, n, theta, law, step), rel=1e-9, abs=1e-13)
            assert above == pytest.approx(by_summation(one, n, theta, law, step, upper=True), rel=1e-9, abs=1e-13)


def test_a_count_that_is_hit_belongs_to_both_tails():
    law, step = gaussian(6.0), 0.25
    z = np.arange(-8, 60) * step
    below, above = (f(z, 12, 0.3, law, step=step) for f in (noisy_binomial_cdf, noisy_binomial_sf))
    at = np.diff(noisy_binomial_cdf(np.append(z[0] - step, z), 12, 0.3, law, step=step))
    np.testing.assert_allclose(below + above, 1 + at, atol=1e-13)
    np.testing.assert_allclose(noisy_binomial_cdf(z + 0.1, 12, 0.3, law, step=step), below, atol=1e-15)
    assert (noisy_binomial_sf(z + 0.1, 12, 0.3, law, step=step) < above).all()


def test_small_tails_are_accurate_and_never_below_the_truth():
    """Against exact sums in relative terms, down to the mass that is left out and added."""
    law, step = gaussian(40.0), 0.25
    support, mass = masses(40.0)
    tails = np.cumsum(mass)  # summed from the far end
    for z in (-20.0, -60.0, -90.0):
        x = np.arange(51)
        place = np.floor((z - x) / step) - support[0]
        exact = float(stats.binom.pmf(x, 50, 0.2) @ np.where(place >= 0, tails[np.maximum(place, 0).astype(int)], 0.0))
        found = float(noisy_binomial_cdf(z, 50, 0.2, law, step=step))
        assert exact * (1 - 1e-10) <= found <= exact * (1 + 1e-10) + 4e-28


def test_every_fourth_term_is_as_good_as_all():
    """At n = 1e6 only some terms are evaluated: against all counts, and against the normal limit at 1e9."""
    law, step = gaussian(2.0**24), 2.0**-17  # 128 rows
    x = np.arange(193_000, 207_001)
    for z in (199_000.0, 200_100.0, 202_000.0):
        exact = stats.binom.pmf(x, 10**6, 0.2) @ stats.norm.cdf((z - x + step / 2) / 128)
        assert float(noisy_binomial_cdf(z, 10**6, 0.2, law, step=step)) == pytest.approx(exact, rel=1e-9)
    started = time.perf_counter()
    spread = np.sqrt(1e9 * 0.21 + 128**2)
    found = noisy_binomial_cdf(3e8 + spread * np.array([-1.0, 0.0, 1.5]), 10**9, 0.3, law, step=step)
    np.testing.assert_allclose(found, stats.norm.cdf([-1.0, 0.0, 1.5]), atol=1e-4)
    low, high = binomial_interval(3e8, 10**9, law, step=step)
    assert high - low == pytest.approx(2 * stats.norm.isf(0.025) * spread / 1e9, rel=1e-3)
    assert time.perf_counter() - started < 5


def test_without_noise_it_is_the_classical_test():
    law = gaussian(0)
    k = np.arange(13)
    for alternative in ALTERNATIVES:
        classical = [stats.binomtest(int(i), 12, 0.3, alternative=alternative) for i in k]
        ends = binomial_interval(k, 12, law, alternative=alternative)
        np.testing.assert_allclose(ends, [tuple(one.proportion_ci()) for one in classical], atol=1e-8)
        if alternative != "two-sided":
            found = binomial_pvalue(k, 12, 0.3, law, alternative=alternative)
            np.testing.assert_allclose(found, [one.pvalue for one in classical], rtol=1e-12)


# Size, interval, power


@pytest.mark.slow
@each_law
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_size_is_at_most_nominal_by_summation(law, step, alternative):
    if law.scales[0] == 2.0**24:  # its law cannot be listed: the same noise on a coarser lattice
        law, step = gaussian(2.0**9), 2.0**-7
    reach = int(45 * law.scales[0])
    for n, theta in ((0, 0.3), (1, 0.5), (9, 0.05), (40, 0.8), (40, 0.0), (40, 1.0)):
        for alpha in (0.01, 0.05, 0.4):
            share = alpha / (1 + (alternative == "two-sided"))
            size = binomial_power(n, theta, theta, law, step=step, alpha=alpha, alternative=alternative)
            assert size <= alpha * (1 + 1e-9)
            if law.family == "gaussian" and n <= 9:
                z = np.arange(-reach, n * round(1 / step) + reach + 1) * step
                pvalues = binomial_pvalue(z, n, theta, law, step=step, alternative=alternative)
                held = z[pvalues <= alpha]
                over, under = held[held > n * theta], held[held <= n * theta]
                brute = by_summation(over.min(), n, theta, law, step, upper=True) if over.size else 0.0
                brute += by_summation(under.max(), n, theta, law, step) if under.size else 0.0
                assert brute <= alpha * (1 + 1e-9)
                assert size == pytest.approx(brute, abs=1e-12)
            if alternative != "two-sided" and law.scales[0] > 500:
                assert size == pytest.approx(share, rel=0.01)  # fine noise: a test of exactly its level


@each_law
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_the_interval_holds_what_the_test_keeps(law, step, alternative):
    z = np.array([-3.0, 0.0, 2.5, 11.0, 24.75, 30.0, 32.0])
    theta = np.linspace(0, 1, 201)
    for alpha in (0.02, 0.3):
        ends = binomial_interval(z, 30, law, step=step, alpha=alpha, alternative=alternative)
        for one, (low, high) in zip(z, ends, strict=True):
            pvalues = binomial_pvalue(one, 30, theta, law, step=step, alternative=alternative)
            kept = pvalues > alpha
            clear = np.minimum(np.abs(theta - low), np.abs(theta - high)) > 1e-7
            inside = (theta >= low) & (theta <= high)
            assert (kept == inside)[clear].all()


def test_a_level_is_reached_at_the_ends():
    law, step = LAWS["as released"]
    low, high = binomial_interval(21.3, 100, law, step=step, alpha=0.1)
    for theta in (low, high):
        assert binomial_pvalue(21.3, 100, theta, law, step=step) == pytest.approx(0.1, rel=1e-6)


@each_law
@pytest.mark.parametrize("n", [0, 1, 10, 10**9])
def test_any_count_has_an_interval_and_a_pvalue(law, step, n):
    for alternative in ALTERNATIVES:
        ends = binomial_interval(EXTREME, n, law, step=step, alternative=alternative)
        assert ends.shape == (len(EXTREME), 2)
        assert ((ends >= 0) & (ends <= 1)).all()
        assert (ends[:, 0] <= ends[:, 1]).all()
        assert (ends[:, 0] < ends[:, 1]).all() or alternative != "two-sided"
        assert ends[-1].tolist() == [0.0, 1.0]
        for theta in (0.0, 0.3, 1.0):
            pvalues = binomial_pvalue(EXTREME, n, theta, law, step=step, alternative=alternative)
            assert ((pvalues >= 0) & (pvalues <= 1)).all()
            assert pvalues[-1] == 1
    if n == 0:
        assert (binomial_interval([-40.0, 0.0, 40.0], 0, law, step=step) == [0.0, 1.0]).all()


def test_an_interval_that_every_theta_is_refused_in_is_a_point():
    law, step = LAWS["quarters"]
    assert binomial_interval(100.0, 10, law, step=step, alternative="greater").tolist() == [1.0, 1.0]
    assert binomial_interval(-90.0, 10, law, step=step, alternative="less").tolist() == [0.0, 0.0]
    assert binomial_pvalue(100.0, 10, 1.0, law, step=step, alternative="greater") < 0.05


@pytest.mark.slow
@given(
    st.floats(-20, 60), st.floats(0, 1), st.sampled_from(list(LAWS)), st.sampled_from(ALTERNATIVES), st.integers(0, 40)
)
def test_counts_and_failures_mirror_each_other(z, theta, name, alternative, n):
    law, step = LAWS[name]
    z = np.rint(z * 4) / 4
    mirrored = {"greater": "less", "less": "greater"}.get(alternative, alternative)
    found = binomial_pvalue(z, n, theta, law, step=step, alternative=alternative)
    other = binomial_pvalue(n - z, n, 1 - theta, law, step=step, alternative=mirrored)
    assert found == pytest.approx(other, rel=1e-8, abs=1e-20)
    ends = binomial_interval(z, n, law, step=step, alternative=alternative)
    back = binomial_interval(n - z, n, law, step=step, alternative=mirrored)
    np.testing.assert_allclose(ends, 1 - back[::-1], atol=1e-7)


POWERS = ((30, 0.8, 0.9, 0.5, 0.175), (30, 0.8, 0.9, 1, 0.304), (30, 0.8, 0.9, 2, 0.402))


@pytest.mark.parametrize(
    ("n", "p0", "p1", "epsilon", "known"), [*POWERS, (128, 0.9, 0.95, 1, 0.596), (256, 0.9, 0.95, 1, 0.898)]
)
def test_power_of_the_most_powerful_test_is_known(n, p0, p1, epsilon, known):
    law, step = tulap(epsilon), 1 / TULAP_GRID
    found = binomial_power(n, p0, p1, law, step=step, alternative="greater")
    assert found == pytest.approx(known, abs=6e-4)
    assert binomial_power(n, 1 - p0, 1 - p1, law, step=step, alternative="less") == pytest.approx(found, rel=1e-7)
    assert binomial_power(n, p0, p0, law, step=step, alternative="greater") == pytest.approx(0.05, rel=1e-8)


def test_power_rises_with_the_price_and_without_noise_is_classical():
    powers = [binomial_power(50, 0.5, 0.7, gaussian(s), alternative="greater") for s in (16, 4, 0)]
    assert powers == sorted(powers)
    k = np.arange(51)
    rejected = [stats.binomtest(int(i), 50, 0.5, alternative="greater").pvalue <= 0.05 for i in k]
    assert powers[-1] == pytest.approx(stats.binom.pmf(k, 50, 0.7) @ rejected)


def test_estimates_have_the_variance_of_their_noise():
    found = binomial_estimate([20.25, -3.0, 140.0], 100, gaussian(40), step=0.25)
    np.testing.assert_allclose(found.proportion, [0.2025, 0, 1])
    np.testing.assert_allclose(found.noise_variance, (10 / 100) ** 2)
    assert found.clipped.tolist() == [False, True, True]
    plain = binomial_estimate([20.0, -3.0, np.nan], 100, **released(0.5))
    np.testing.assert_allclose(plain.proportion[:2], [0.2, 0.0])
    np.testing.assert_allclose(plain.sampling_variance[:2], [0.0016, (1 / 102) * (101 / 102) / 100])
    assert plain.clipped.tolist() == [False, True, True]
    for empty in (binomial_estimate(3.0, 0, gaussian(4)), binomial_estimate(0.2, 0, **released(1.0))):
        assert (float(empty.proportion), float(empty.standard_error)) == (0.5, 0.5)


BAD = [
    ("n", lambda law: binomial_interval(1, 2.5, law)),
    ("theta", lambda law: binomial_pvalue(1, 2, 1.1, law)),
    ("law", lambda law: binomial_pvalue(1, 2, 0.1, NoiseLaw("laplace", (1.0,)))),
    ("step", lambda law: noisy_binomial_cdf(1, 2, 0.1, law, step=0.3)),
    ("alpha", lambda law: binomial_interval(1, 2, law, alpha=1.0)),
    ("alternative", lambda law: binomial_power(2, 0.1, 0.2, law, alternative="more")),
    ("step", lambda _: noisy_binomial_sf(1, 2, 0.1, tulap(1.0), step=1.0)),
    *(("n", lambda _, n=n: proportion_cdf(0, n, 0.5, 1.0)) for n in (-1, 2.5, np.nan)),
    ("theta", lambda _: proportion_sf(0, 5, 1.5, 1.0)),
    ("alpha", lambda _: proportion_interval(0, 5, 1.0, 0.0)),
    ("alternative", lambda _: binomial_pvalue(0, 5, 0.5, **released(1.0), alternative="larger")),
    *((".*", lambda _, scale=scale: proportion_interval(0, 5, scale)) for scale in (-1.0, np.inf)),
    (".*", lambda _: proportion_cdf(0, 5, 0.5, -1.0)),
    (".*", lambda _: binomial_estimate(0, 5, **released(np.nan))),
]


def test_bad_arguments_are_named():
    for option, ask in BAD:
        with pytest.raises(OptionError, match=f"^{option}=.*is not valid"):
            ask(gaussian(2))


# One noisy count with Tulap noise


def proportion_cdf(z, n, theta, scale):
    """P(Z <= z), where a stored count stands for itself and not for the cell of the grid above it."""
    law = released(scale)
    return noisy_binomial_cdf(np.asarray(z) - law["step"], n, theta, **law)


def proportion_sf(z, n, theta, scale):
    return noisy_binomial_sf(z, n, theta, **released(scale))


def proportion_interval(z, n, scale, alpha=0.05):
    return binomial_interval(z, n, **released(scale), alpha=alpha)


def tulap_sum(z, n, theta, scale, law=tulap_cdf):
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
        expected = [tulap_sum(value, n, theta, scale) for value in z]
        above = [tulap_sum(value, n, theta, scale, tulap_sf) for value in z]
        np.testing.assert_allclose(proportion_cdf(z, n, theta, scale), expected, rtol=2e-11, atol=1e-290)
        np.testing.assert_allclose(proportion_sf(z, n, theta, scale), above, rtol=2e-11, atol=1e-290)


@pytest.mark.parametrize("scale", [0.05, 1.0, 300.0])
def test_sizes_of_a_thousand_million(scale):
    n, theta = 10**9, 1e-5
    z = n * theta + np.array([-7.0, -1.0, 0.3, 2.0, 6.0]) * np.sqrt(n * theta + 2 * scale**2)
    expected = [tulap_sum(value, n, theta, scale) for value in z]
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
    estimate = binomial_estimate([*EXTREME, z], n, **released(scale))
    assert np.all((estimate.proportion >= 0) & (estimate.proportion <= 1))
    assert np.all(estimate.sampling_variance > 0)
    assert np.all(np.isfinite(estimate.standard_error))


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


def test_sizes_may_differ_by_element():
    z, n = np.array([3.2, 18.1, 480.0]), np.array([10, 50, 1000])
    together = proportion_interval(z, n, 0.7)
    for index in range(3):
        np.testing.assert_allclose(together[index], proportion_interval(z[index], n[index], 0.7), rtol=1e-12)
    assert proportion_cdf(z[:, None], 50, np.linspace(0, 1, 5), 0.7).shape == (3, 5)
    assert proportion_interval(np.empty(0), 10, 1.0).shape == (0, 2)
