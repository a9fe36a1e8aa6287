"""Densities from noisy counts: closed forms without noise, coverage and errors in simulation; the choice of bins."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from dpinfer.distributions.bins import (
    DensityEstimates,
    Ladder,
    Merged,
    choose_measured,
    choose_merged,
    density_intervals,
    outlook,
    projected,
    variance_error,
)
from dpinfer.release.laws import NoiseLaw
from dpinfer.statistics.moment_inference import intervals
from dpinfer.statistics.moments import MomentSums, proportions

WIDTHS = np.array([0.5, 1.0, 2.0, 0.25])
COUNTS = np.array([[40.0, 60.0, 90.0, 10.0]])


def estimates(counts=COUNTS, widths=WIDTHS, noise=1e-9, *, laplace=False, **options):
    edges = np.append(0.0, np.cumsum(widths))
    return DensityEstimates(np.asarray(counts, dtype=float), edges, noise, laplace, **options)


def drawn(p, n, replicates, *, noise, laplace, seed, merged=1):
    """Noisy counts with bins that are each the sum of several noisy ones; and the variance of a noise variable."""
    rng = np.random.default_rng(seed)
    law = NoiseLaw("laplace", (np.sqrt(noise / 2),)) if laplace else None
    counts = rng.multinomial(n, p, size=replicates).astype(float)
    if law is None:
        return counts + rng.normal(0, np.sqrt(noise * merged), counts.shape), noise
    noises = law.rvs(counts.size * merged, rng).reshape(*counts.shape, merged)
    return counts + noises.sum(axis=-1), float(law.variances[0])


class TestWithoutNoise:
    def test_shares_and_densities_are_those_of_numpy(self):
        expected, _ = np.histogram(
            np.repeat([0.2, 1.0, 2.0, 3.6], [40, 60, 90, 10]), bins=np.cumsum([0, *WIDTHS]), density=True
        )
        np.testing.assert_allclose(estimates().density[0], expected, rtol=1e-6)

    @pytest.mark.parametrize("alpha", [0.05, 0.3])
    def test_intervals_are_wilsons(self, alpha):
        found = estimates(noise=0.3, nobs=200)
        low = density_intervals(found, alpha)[0] * WIDTHS[:, None]
        noisy = found.own_noise(found.shares)[0]
        np.testing.assert_allclose(noisy, 0.3 * 0.75)
        exact = proportion_confint(COUNTS[0], 200, alpha, method="wilson")
        q = stats.norm.isf(alpha / 2)
        for place, count in enumerate(COUNTS[0]):  # Wilson's quadratic with the noise added
            a, b, c = 200**2 + q**2 * 200, -(2 * count * 200 + q**2 * 200), count**2 - q**2 * 0.3 * 0.75
            np.testing.assert_allclose(low[place], np.sort(np.roots([a, b, c])), rtol=1e-6)
            assert low[place, 0] < exact[0][place]
            assert low[place, 1] > exact[1][place]

    def test_the_continuity_correction_is_that_of_the_binomial(self):
        counts = np.array([[0.0, 3.0, 97.0]])
        ends = density_intervals(estimates(counts, np.ones(3), 1e-12), 0.05)[0]
        q = stats.norm.isf(0.025)
        for end, sign in ((ends[1, 0], -1), (ends[1, 1], 1)):
            assert abs(3 + sign * 0.5 - 100 * end) == pytest.approx(q * np.sqrt(100 * end * (1 - end)), rel=1e-6)

    def test_target_data_leaves_the_noise_alone(self):
        found = estimates(noise=4.0, nobs=200, population=False)
        ends = density_intervals(found, 0.05)[0] * WIDTHS[:, None] * 200
        half = stats.norm.isf(0.025) * np.sqrt(4.0 * 0.75)
        np.testing.assert_allclose(ends, np.stack([COUNTS[0] - half, COUNTS[0] + half], axis=1), rtol=1e-6)
        assert (found.variances[0] == 0).all()


def test_intervals_agree_with_those_of_proportions():
    noise = 25.0
    found = estimates(noise=noise)
    exponents = [(0,) * 5, *(tuple(int(i == j) for j in range(5)) for i in range(4))]
    mixing = np.vstack([np.ones((1, 4)), np.eye(4)])
    sums = MomentSums(tuple(exponents), COUNTS[:, None] @ mixing.T, mixing, np.full(4, noise), laplace=False)
    expected = intervals(proportions(sums, population=True), 0.05)[0, 0]
    np.testing.assert_allclose(density_intervals(found, 0.05)[0] * WIDTHS[:, None], expected, rtol=1e-5)


def test_one_bin_has_a_known_density():
    found = estimates([[37.0]], [4.0], 100.0, laplace=True)
    assert density_intervals(found, 0.05).tolist() == [[[0.25, 0.25]]]
    assert found.variances[1].tolist() == [[0.0]]


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("counts", [[[0.0, 0, 0]], [[-900.0, -5, 3]], [[0.0, 1e9, 0]], [[-4.0, 4, 0]]])
def test_hopeless_counts_have_finite_estimates_and_honest_intervals(counts, laplace):
    found = estimates(counts, [1.0, 1, 1], 50.0, laplace=laplace)
    ends = density_intervals(found, 0.05)
    assert np.isfinite(found.density).all()
    assert ((ends[..., 0] >= 0) & (ends[..., 0] <= ends[..., 1]) & (ends[..., 1] <= 1)).all()
    if found.few[0]:
        assert (ends == np.array([0.0, 1.0])).all()


P = np.array([0.0002, 0.001, 0.002, 0.005, 0.02, 0.1, 0.3, 0.5718])
CASES = {
    "Laplace": {"noise": 2.0, "laplace": True},
    "much Laplace": {"noise": 200.0, "laplace": True},
    "several Laplace": {"noise": 20.0, "laplace": True, "merged": 3},
    "Gaussian": {"noise": 1.0, "laplace": False},
    "hardly any": {"noise": 1e-3, "laplace": False},
}


@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_coverage(case, public):
    """Each bin's coverage of 4,000 replicates is at least .9375: below with probability 2e-4 if it is .95."""
    options = CASES[case]
    counts, noise = drawn(P, 1000, 4000, seed=20261121, **options)
    merged = np.full(len(P), options.get("merged", 1))
    found = estimates(
        counts, np.ones(len(P)), noise, laplace=options["laplace"], merged=merged, nobs=1000 if public else None
    )
    ends = density_intervals(found, 0.05)
    covered = ((ends[..., 0] <= P) & (ends[..., 1] >= P)).mean(axis=0)
    assert (covered >= 0.9375).all(), covered
    assert (covered[5:] <= 0.965).all(), covered


@pytest.mark.parametrize("population", [True, False])
def test_the_integrated_variance_is_estimated_without_bias(population):
    """Mean of 4,000 estimates against the mean squared error of the densities; both to 6 standard errors."""
    p, widths, n = np.array([0.1, 0.3, 0.45, 0.15]), np.array([0.25, 0.25, 0.5, 1.0]), 400
    rng = np.random.default_rng(5)
    counts = rng.multinomial(n, p, size=4000) if population else np.tile(np.rint(n * p), (4000, 1))
    counts = counts + rng.normal(0, 5.0, counts.shape)
    found = estimates(counts, widths, 25.0, population=population)
    sampling, noise = variance_error(found)
    errors = ((found.density - p / widths) ** 2 * widths).sum(axis=1)
    gap = errors - sampling - noise
    assert abs(gap.mean()) < 6 * gap.std() / np.sqrt(len(gap)) + 0.01 * errors.mean()
    assert population == bool((sampling > 0).all())


def test_the_bias_is_estimated_without_bias_and_with_its_error():
    """Mean of 2,000 estimates to 5 standard errors; their standard deviation to 15% of the stated one."""
    p = np.diff(stats.beta(2, 5).cdf(np.linspace(0, 1, 49)))
    counts, noise = drawn(p, 3000, 2000, noise=40.0, laplace=False, seed=9)
    edges = np.linspace(0, 2, 49)
    found = np.array([DensityEstimates(one[None], edges, noise, laplace=False).bias(8, nobs=3000) for one in counts])
    truth = (48 * (p**2).sum() - 6 * (p.reshape(6, 8).sum(axis=1) ** 2).sum()) / 2.0
    spread = found[:, 0].std()
    assert abs(found[:, 0].mean() - truth) < 5 * spread / np.sqrt(2000)
    assert found[:, 1].mean() == pytest.approx(spread, rel=0.15)


@given(st.integers(0, 2**32), st.integers(1, 12))
def test_projection_is_a_density_and_the_nearest_one(seed, bins):
    rng = np.random.default_rng(seed)
    widths = rng.uniform(0.1, 2, bins)
    density = rng.normal(0.3, 1.5, (3, bins))
    found = projected(density, widths)
    assert (found >= 0).all()
    np.testing.assert_allclose(found @ widths, 1.0, rtol=1e-9)
    others = rng.dirichlet(np.ones(bins), 50) / widths
    for mine, given_ in zip(found, density, strict=True):
        nearest = ((mine - given_) ** 2) @ widths
        assert (((others - given_) ** 2) @ widths >= nearest - 1e-12).all()


def test_the_projection_of_a_density_is_itself():
    density = np.array([[0.5, 0.25, 1.0]])
    np.testing.assert_allclose(projected(density, np.array([1.0, 1.0, 0.25])), density, rtol=1e-12)


def test_hidden_bins_and_few_rows():
    found = estimates([[100.0, 5.0, 0.0]], [1.0, 1, 1], 4.0)
    assert found.hidden.tolist() == [[False, True, True]]
    assert not found.few[0]
    assert estimates([[6.0, 2.0, 0.0]], [1.0, 1, 1], 4.0).few[0]


# The choice of bins: energies against brute force, and choices where the answer is plain

SHARE = np.full(60, 1 / 60)


STEPS = [60, 30, 20, 15, 12, 10, 6, 5, 4, 3, 2, 1]


UNEVEN = np.append(np.full(10, 4 / 43), 3 / 43)
"""Eleven bins of four whole numbers, the last of three."""


def forms(share, widths):
    """The quadratic forms, as matrices."""
    found = []
    for width in widths:
        one = Merged(share, width)
        same = one.label[:, None] == one.label[None]
        found.append(same / one.share[one.label])
    return found


@pytest.mark.parametrize(("share", "widths"), [(SHARE, STEPS), (UNEVEN, [11, 4, 2, 1])])
def test_energies_are_the_quadratic_forms(share, widths):
    rng = np.random.default_rng(2)
    counts, nobs, noise = rng.normal(50, 20, len(share)), 3000.0, 9.0
    ladder, matrices = Ladder(share, widths), forms(share, widths)
    energy, variance = ladder.energies(counts, nobs, noise)
    each = nobs / len(share) + noise
    for place, matrix in enumerate(matrices):
        one = ladder.steps[place]
        spread = 1 / one.share[0] + max(counts[-int(one.fine[-1]) :].sum() / nobs, 0) * (
            1 / one.share[-1] - 1 / one.share[0]
        )
        expected = counts @ matrix @ counts - nobs * spread - noise * np.trace(matrix)
        assert energy[place] * nobs**2 == pytest.approx(expected, rel=1e-9, abs=1e-6)
    for place, (left, right) in enumerate(pairwise(matrices)):
        change = right - left
        size, moved = (change**2).sum(), ((change @ counts) ** 2).sum()
        expected = 2 * each**2 * size + 4 * each * max(moved - each * size, 0)
        assert variance[place] * nobs**4 == pytest.approx(expected, rel=1e-7)


@pytest.mark.slow
def test_energies_have_no_bias_and_the_stated_variance():
    """Means of 4,000 to 5 standard errors; variances to 15%, where most of it is noise."""
    rng = np.random.default_rng(8)
    p = np.diff(stats.beta(2, 4).cdf(np.linspace(0, 1, 61)))
    ladder = Ladder(SHARE, STEPS)
    counts = rng.multinomial(2000, p, size=4000) + rng.normal(0, 12, (4000, 60))
    found = [ladder.energies(one, 2000.0, 144.0) for one in counts]
    energy, variance = (np.array(part) for part in zip(*found, strict=True))
    truth = np.array([(np.bincount(one.label, p) ** 2 / one.share).sum() for one in ladder.steps])
    # A sample of fixed size has n (n - 1) pairs: energies are too small by one part in n.
    np.testing.assert_array_less(
        np.abs(energy.mean(axis=0) - truth), 5 * energy.std(axis=0) / np.sqrt(4000) + truth / 2000 + 1e-12
    )
    np.testing.assert_allclose(np.diff(energy, axis=1).var(axis=0), variance.mean(axis=0), rtol=0.15)


SKEWED = np.diff(stats.beta(2, 5).cdf(np.linspace(0, 1, 61)))


@pytest.mark.parametrize("bins", [2, 3, 4, 6, 12])
def test_steps_are_found_where_counts_are_plain(bins):
    heights = np.tile([1.0, 3.0, 2.0], bins)[:bins]
    p = np.repeat(heights / heights.sum() * bins, 60 // bins) / 60
    place = choose_merged(1e6 * p, SHARE, STEPS, nobs=1e6, noise=1.0)
    assert 60 // STEPS[place] == bins


def test_an_even_density_gets_one_bin():
    assert choose_merged(np.full(60, 1e4), SHARE, STEPS, nobs=6e5, noise=1.0) == 0


@pytest.mark.parametrize("choose", ["measured", "merged"])
def test_more_rows_more_bins_and_more_noise_fewer(choose):

    def chosen(n, noise):
        if choose == "merged":
            return choose_merged(n * SKEWED, SHARE, STEPS, nobs=n, noise=noise)
        return choose_measured(n * SKEWED, SHARE, STEPS, [True] * 12, nobs=n, noise=4 * noise, later=noise)

    assert chosen(200.0, 1.0) < chosen(2000.0, 1.0) < chosen(2e5, 1.0)
    assert chosen(2000.0, 1e4) < chosen(2000.0, 1.0)


def test_candidates_that_are_not_allowed_are_not_counted():
    free = choose_measured(2e3 * SKEWED, SHARE, STEPS, [True] * 12, nobs=2e3, noise=1.0, later=1.0)
    allowed = [place != free for place in range(12)]
    assert choose_measured(2e3 * SKEWED, SHARE, STEPS, allowed, nobs=2e3, noise=1.0, later=1.0) != free


@pytest.mark.parametrize("counts", [np.zeros(60), np.full(60, -50.0), np.eye(60)[7] * 1e12, -np.eye(60)[3] * 1e12])
@pytest.mark.parametrize("nobs", [-5.0, 0.0, 1.0, 1e15])
def test_any_counts_give_a_choice(counts, nobs):
    for place in (
        choose_merged(counts, SHARE, STEPS, nobs=nobs, noise=1e6),
        choose_measured(counts, SHARE, STEPS, [True] * 12, nobs=nobs, noise=1e6, later=1e5),
    ):
        assert 0 <= place < 12


def test_the_outlook_follows_the_counts_where_they_are_plain():
    seen = outlook(1e9 * SKEWED, SHARE, STEPS, nobs=1e9, noise=1e-3, steps=0.1)
    energy = np.array([(np.bincount(one.label, SKEWED) ** 2 / one.share).sum() for one in Ladder(SHARE, STEPS).steps])
    lost = seen.weight @ seen.bias
    np.testing.assert_allclose(lost[:-1] - lost[-1], energy[-1] - energy[:-1], rtol=0.02)
    assert seen.weight.sum() == pytest.approx(1.0)
