"""Choosing bins from noisy counts: energies against brute force, and choices where the answer is plain."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from dpinfer.distributions.bins import Ladder, Merged, choose_measured, choose_merged, outlook

SHARE = np.full(60, 1 / 60)
WIDTHS = [60, 30, 20, 15, 12, 10, 6, 5, 4, 3, 2, 1]
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


@pytest.mark.parametrize(("share", "widths"), [(SHARE, WIDTHS), (UNEVEN, [11, 4, 2, 1])])
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
    ladder = Ladder(SHARE, WIDTHS)
    counts = rng.multinomial(2000, p, size=4000) + rng.normal(0, 12, (4000, 60))
    found = [ladder.energies(one, 2000.0, 144.0) for one in counts]
    energy, variance = (np.array(part) for part in zip(*found, strict=True))
    truth = np.array([(np.bincount(one.label, p) ** 2 / one.share).sum() for one in ladder.steps])
    # A sample of fixed size has n (n - 1) pairs: energies are too small by one part in n.
    np.testing.assert_array_less(
        np.abs(energy.mean(axis=0) - truth), 5 * energy.std(axis=0) / np.sqrt(4000) + truth / 2000 + 1e-12
    )
    np.testing.assert_allclose(np.diff(energy, axis=1).var(axis=0), variance.mean(axis=0), rtol=0.15)


def exact(p, n):
    return n * p


@pytest.mark.parametrize("bins", [2, 3, 4, 6, 12])
def test_steps_are_found_where_counts_are_plain(bins):
    heights = np.tile([1.0, 3.0, 2.0], bins)[:bins]
    p = np.repeat(heights / heights.sum() * bins, 60 // bins) / 60
    place = choose_merged(exact(p, 1e6), SHARE, WIDTHS, nobs=1e6, noise=1.0)
    assert 60 // WIDTHS[place] == bins


def test_an_even_density_gets_one_bin():
    assert choose_merged(np.full(60, 1e4), SHARE, WIDTHS, nobs=6e5, noise=1.0) == 0


@pytest.mark.parametrize("choose", ["measured", "merged"])
def test_more_rows_more_bins_and_more_noise_fewer(choose):
    p = np.diff(stats.beta(2, 5).cdf(np.linspace(0, 1, 61)))

    def chosen(n, noise):
        if choose == "merged":
            return choose_merged(exact(p, n), SHARE, WIDTHS, nobs=n, noise=noise)
        return choose_measured(exact(p, n), SHARE, WIDTHS, [True] * 12, nobs=n, noise=4 * noise, later=noise)

    assert chosen(200.0, 1.0) < chosen(2000.0, 1.0) < chosen(2e5, 1.0)
    assert chosen(2000.0, 1e4) < chosen(2000.0, 1.0)


def test_candidates_that_are_not_allowed_are_not_counted():
    p = np.diff(stats.beta(2, 5).cdf(np.linspace(0, 1, 61)))
    free = choose_measured(exact(p, 2e3), SHARE, WIDTHS, [True] * 12, nobs=2e3, noise=1.0, later=1.0)
    allowed = [place != free for place in range(12)]
    assert choose_measured(exact(p, 2e3), SHARE, WIDTHS, allowed, nobs=2e3, noise=1.0, later=1.0) != free


@pytest.mark.parametrize("counts", [np.zeros(60), np.full(60, -50.0), np.eye(60)[7] * 1e12, -np.eye(60)[3] * 1e12])
@pytest.mark.parametrize("nobs", [-5.0, 0.0, 1.0, 1e15])
def test_any_counts_give_a_choice(counts, nobs):
    for place in (
        choose_merged(counts, SHARE, WIDTHS, nobs=nobs, noise=1e6),
        choose_measured(counts, SHARE, WIDTHS, [True] * 12, nobs=nobs, noise=1e6, later=1e5),
    ):
        assert 0 <= place < 12


def test_the_outlook_follows_the_counts_where_they_are_plain():
    p = np.diff(stats.beta(2, 5).cdf(np.linspace(0, 1, 61)))
    seen = outlook(exact(p, 1e9), SHARE, WIDTHS, nobs=1e9, noise=1e-3, steps=0.1)
    energy = np.array([(np.bincount(one.label, p) ** 2 / one.share).sum() for one in Ladder(SHARE, WIDTHS).steps])
    lost = seen.weight @ seen.bias
    np.testing.assert_allclose(lost[:-1] - lost[-1], energy[-1] - energy[:-1], rtol=0.02)
    assert seen.weight.sum() == pytest.approx(1.0)
