"""A statistical audit of the samplers, which catches noise that is a fifth too small.

``DPINFER_AUDIT_DRAWS=1000000`` makes the long audit; by default it takes about a hundred thousand draws.
"""

import os

import numpy as np
import pytest
from scipy import stats

from dpinfer.errors import PrivacyUnitError
from dpinfer.kernel.sampling import LARGEST_SCALE, check_scales, private_noise, simulated_noise
from dpinfer.release import NoiseLaw
from dpinfer.release.laws import TULAP_GRID

DRAWS = int(os.environ.get("DPINFER_AUDIT_DRAWS", "100000"))
FALSE_ALARM = 1e-6
"""Probability that the audit fails a sampler that is right, for each law and scale (Bonferroni over its tests)."""

SCALES = [0.6, 3.7, 41.3, 2.0**40, 3.1e14]
FAMILIES = ["gaussian", "laplace"]


def probabilities(family, scale, edges):
    """Probability of ``k <= edge`` for each edge, by direct summation or, for large scales, by the midpoint rule."""
    if scale > 1e4:
        law = stats.norm if family == "gaussian" else stats.laplace
        return law.cdf((np.asarray(edges) + 0.5) / scale)
    support = np.arange(-int(45 * scale) - 3, int(45 * scale) + 4)
    weights = np.exp(-(support**2) / (2 * scale**2)) if family == "gaussian" else np.exp(-np.abs(support) / scale)
    below = np.cumsum(weights) / weights.sum()
    return below[np.searchsorted(support, edges)]


def cells(family, scale, draws):
    """Chi-squared test of the counts in about forty intervals of the law."""
    law = stats.norm(scale=scale) if family == "gaussian" else stats.laplace(scale=scale)
    edges = np.unique(np.rint(law.ppf(np.linspace(0.002, 0.998, 41))))
    below = probabilities(family, scale, edges)
    edges = edges[np.minimum(below, 1 - below) * draws.size > 50]
    expected = np.diff(np.concatenate([[0.0], probabilities(family, scale, edges), [1.0]])) * draws.size
    counts = np.diff(np.concatenate([[0], np.searchsorted(np.sort(draws), edges, side="right"), [draws.size]]))
    assert expected.min() > 50
    return stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1)


def moments(family, scale, draws):
    """Normal tests of the mean and of the mean square (Gaussian) or mean absolute value (Laplace)."""
    support = np.arange(-int(45 * min(scale, 1e4)) - 3, int(45 * min(scale, 1e4)) + 4) if scale <= 1e4 else None
    size = (lambda k: k**2) if family == "gaussian" else np.abs
    if support is None:
        unit = draws / scale
        variance, mean, fourth = (1.0, 1.0, 3.0) if family == "gaussian" else (2.0, 1.0, 2.0)
    else:
        unit = draws.astype(float)
        mass = np.exp(-(support**2) / (2 * scale**2)) if family == "gaussian" else np.exp(-np.abs(support) / scale)
        mass = mass / mass.sum()
        variance, mean = (mass * support**2).sum(), (mass * size(support)).sum()
        fourth = (mass * size(support) ** 2).sum()
    root = np.sqrt(draws.size)
    centre = abs(unit.mean()) / np.sqrt(variance) * root
    spread = abs(size(unit).mean() - mean) / np.sqrt(fourth - mean**2) * root
    return 2 * stats.norm.sf(centre), 2 * stats.norm.sf(spread)


def neighbours(draws):
    """Test that successive draws are unrelated: the signs of a draw and of the next."""
    signs = np.sign(draws.astype(float))
    return 2 * stats.norm.sf(abs((signs[1:] * signs[:-1]).mean()) * np.sqrt(draws.size - 1))


def low_bits(draws):
    """Test that the last byte is uniform, as it is for integers of a large scale and not for scaled floats."""
    counts = np.bincount([int(value) & 255 for value in draws], minlength=256)
    expected = draws.size / 256
    return stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), 255)


def audit(family, scale, draws):
    """Smallest p-value of all tests, times their number: below `FALSE_ALARM` the draws are not of the law."""
    draws = np.asarray(draws)
    found = [cells(family, scale, draws), *moments(family, scale, draws), neighbours(draws)]
    if scale > 1e4:
        found.append(low_bits(draws))
    return min(found) * len(found)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", [0.6, 41.3, 2.0**40])
def test_private_noise_has_its_law(family, scale):
    """False alarm at most 1e-6 a case."""
    draws = private_noise(NoiseLaw(family, (scale,) * DRAWS))
    assert {type(value) for value in draws} == {int}
    assert audit(family, scale, draws) > FALSE_ALARM


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", SCALES)
def test_simulated_noise_has_its_law(family, scale):
    """False alarm at most 1e-6 a case; seeded, so it either always or never happens."""
    draws = simulated_noise(NoiseLaw(family, (scale,) * DRAWS), np.random.default_rng(17))
    assert {type(value) for value in draws} == {int}
    if scale > 2**45:  # numpy's doubles have 53 bits
        draws = [value >> 12 for value in draws]
        scale /= 2**12
    assert audit(family, scale, draws) > FALSE_ALARM


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", SCALES[:4])
@pytest.mark.parametrize("factor", [0.8, 0.97, 1.25])
def test_the_audit_catches_noise_of_a_wrong_scale(family, scale, factor):
    draws = simulated_noise(NoiseLaw(family, (factor * scale,) * DRAWS), np.random.default_rng(18))
    assert audit(family, scale, draws) < FALSE_ALARM


def test_the_audit_catches_other_faults():
    rng = np.random.default_rng(19)
    scale = 2.0**40
    right = np.array(simulated_noise(NoiseLaw("gaussian", (scale,) * DRAWS), rng))
    other = np.array(simulated_noise(NoiseLaw("laplace", (scale / np.sqrt(2),) * DRAWS), rng))
    assert audit("gaussian", scale, right) > FALSE_ALARM
    for wrong in (
        other,  # the variance is right, the family is not
        right + int(scale / 20),  # shifted
        right & ~7,  # rounded to a coarser grid
        np.repeat(right[: DRAWS // 2], 2),  # every draw used twice
        np.abs(right),
    ):
        assert audit("gaussian", scale, wrong) < FALSE_ALARM


def test_repeats_are_rare():
    """No value twice among draws at a scale of 2^50: that has probability below 1e-5."""
    draws = private_noise(NoiseLaw("gaussian", (2.0**50,) * 2000))
    assert len(set(draws)) == len(draws)


def test_every_coordinate_gets_its_own_scale():
    """Each bound fails with probability below 1e-15."""
    scales = (0.0, 2.0**30, 0.0, 0.0, 2.0**50, 2.0**50, 2.0**30, 0.0)
    for family in FAMILIES:
        draws = private_noise(NoiseLaw(family, scales))
        assert [draw == 0 for draw in draws if draw == 0] == [True] * 4
        assert all((draw == 0) == (scale == 0) for draw, scale in zip(draws, scales, strict=True))
        assert all(abs(draw) <= 40 * scale for draw, scale in zip(draws, scales, strict=True))
        assert all(type(draw) is int for draw in draws)
    assert private_noise(NoiseLaw("gaussian", ())) == []


def test_a_seed_does_not_reach_private_noise():
    law = NoiseLaw("gaussian", (2.0**40,) * 8)
    state = np.random.get_state()  # noqa: NPY002
    first = private_noise(law)
    np.random.set_state(state)  # noqa: NPY002
    assert private_noise(law) != first


@pytest.mark.parametrize("family", FAMILIES)
def test_scales_that_cannot_be_drawn_exactly_are_refused(family):
    law = NoiseLaw(family, (1.0, 2 * LARGEST_SCALE))
    for draw in (check_scales, private_noise):
        with pytest.raises(PrivacyUnitError, match=r"larger (privacy )?budget"):
            draw(law)
    edge = private_noise(NoiseLaw(family, (LARGEST_SCALE,) * 50))
    assert max(map(abs, edge)) < 2**63 - 1
    assert len(set(edge)) == 50


# Averages of Laplace draws, and Tulap noise


def sum_masses(scale, draws):
    """Probabilities of the sum of several discrete Laplace draws, by convolution."""
    reach = int(np.ceil(40 * scale)) + 2
    support = np.arange(-reach, reach + 1)
    one = np.exp(-np.abs(support) / scale)
    total = one = one / one.sum()
    for _ in range(draws - 1):
        total = np.convolve(total, one)
    return np.arange(-reach * draws, reach * draws + 1), total


def audit_against(support, mass, draws):
    """Smallest p-value of a chi-squared test of about forty cells and of a test of the spread, times two."""
    draws = np.asarray(draws)
    below = np.cumsum(mass)
    places = np.unique(np.searchsorted(below, np.linspace(0.002, 0.998, 41)))
    expected = np.diff(np.concatenate([[0.0], below[places], [1.0]])) * draws.size
    found = np.searchsorted(np.sort(draws), support[places], side="right")
    counts = np.diff(np.concatenate([[0], found, [draws.size]]))
    kept = expected > 20
    cells = stats.chi2.sf(((counts - expected)[kept] ** 2 / expected[kept]).sum(), kept.sum() - 1)
    variance, fourth = (mass * support**2).sum(), (mass * support**4).sum()
    away = (draws.astype(float) ** 2).mean() - variance
    spread = 2 * stats.norm.sf(abs(away) / np.sqrt((fourth - variance**2) / draws.size))
    return 2 * min(cells, spread)


DRAWN = {"private": private_noise, "simulated": lambda law: simulated_noise(law, np.random.default_rng(23))}


@pytest.mark.slow
@pytest.mark.parametrize("sampler", DRAWN)
@pytest.mark.parametrize(("scale", "draws"), [(1.3, 3), (20.0, 10)])
def test_several_laplace_draws_are_added(sampler, scale, draws):
    """False alarm at most 1e-6 a case; noise a fifth too small, or one draw too few, is caught."""
    size = DRAWS // 5
    support, mass = sum_masses(scale, draws)
    drawn = DRAWN[sampler](NoiseLaw("laplace", (scale,) * size, draws))
    assert {type(value) for value in drawn} == {int}
    assert audit_against(support, mass, drawn) > FALSE_ALARM
    for wrong in (NoiseLaw("laplace", (0.8 * scale,) * size, draws), NoiseLaw("laplace", (scale,) * size, draws - 1)):
        small = simulated_noise(wrong, np.random.default_rng(24))
        assert audit_against(support, mass, small) < FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("sampler", DRAWN)
@pytest.mark.parametrize("scale", [0.4, 41.3])
def test_tulap_noise_has_its_law(sampler, scale):
    """Whole part and fraction apart: each test fails a right sampler with probability below 1e-6."""
    drawn = np.array(DRAWN[sampler](NoiseLaw("tulap", (scale * TULAP_GRID,) * DRAWS)), dtype=object)
    half = TULAP_GRID // 2
    whole = np.array([(value + half) // TULAP_GRID for value in drawn])
    fraction = np.array([(value + half) % TULAP_GRID for value in drawn])
    support, mass = sum_masses(scale, 1)
    assert audit_against(support, mass, whole) > FALSE_ALARM
    assert stats.kstest(fraction / TULAP_GRID, "uniform").pvalue > FALSE_ALARM
    assert low_bits(fraction) > FALSE_ALARM
    related = np.corrcoef(whole, fraction.astype(float))[0, 1] * np.sqrt(drawn.size)
    assert 2 * stats.norm.sf(abs(related)) > FALSE_ALARM
    assert stats.kstest(fraction / TULAP_GRID * 0.8, "uniform").pvalue < FALSE_ALARM
    small = simulated_noise(NoiseLaw("tulap", (0.8 * scale * TULAP_GRID,) * DRAWS), np.random.default_rng(25))
    assert audit_against(support, mass, [(value + half) // TULAP_GRID for value in small]) < FALSE_ALARM


def test_coordinates_without_noise_get_none():
    """The bound fails with probability below 1e-15."""
    for law in (NoiseLaw("laplace", (0.0, 2.0**40, 0.0), 3), NoiseLaw("tulap", (0.0, 2.0**40, 0.0))):
        for draw in DRAWN.values():
            found = draw(law)
            assert found[0] == found[2] == 0
            assert 0 < abs(found[1]) < 200 * 2.0**40
    assert private_noise(NoiseLaw("tulap", ())) == []


@pytest.mark.parametrize("law", [NoiseLaw("tulap", (2 * LARGEST_SCALE,)), NoiseLaw("laplace", (2 * LARGEST_SCALE,), 5)])
def test_large_scales_of_other_laws_are_refused(law):
    with pytest.raises(PrivacyUnitError, match=r"larger (privacy )?budget"):
        private_noise(law)
