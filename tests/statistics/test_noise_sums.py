"""Intervals from noise alone cover by the exact law of the noise: no draw is taken here, so there is no false alarm."""

import itertools

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.release.laws import NoiseLaw
from dpinfer.statistics.combination import measured_queries
from dpinfer.statistics.noise import NoiseSums, Variable, variables_of
from dpinfer.statistics.tails import critical_value
from tests.descriptions.test_results import noisy

EPSILONS = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
ALPHAS = (0.001, 0.01, 0.05, 0.1, 0.32)


def masses(family, scale, several, reach):
    """Probabilities of sums of draws from -reach to reach, by plain convolution."""
    support = np.arange(-reach, reach + 1)
    weights = np.exp(-(support**2) / (2 * scale**2)) if family == "gaussian" else np.exp(-np.abs(support) / scale)
    one = weights / weights.sum()
    found = one
    for _ in range(several - 1):
        found = np.convolve(found, one)[reach : reach + support.size]
    return support, found


def smooth(alpha, family, scale, several):
    """Half width by a continuous law of the same variance, as for where no grid serves."""
    deviation = np.sqrt(several * NoiseLaw(family, (scale,)).variances[0])
    shares = None if family == "gaussian" else np.full((1, several), 1 / several)
    return critical_value(alpha, None, shares) * deviation * np.ones(1)


@pytest.mark.parametrize("several", [1, 2, 7])
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_coverage_is_at_least_the_level_and_less_with_one_step_less(family, several):
    for epsilon, alpha in itertools.product(EPSILONS, ALPHAS):
        scale = 1 / epsilon
        support, mass = masses(family, scale, several, int(40 * scale * several**0.5) + 30)
        found = NoiseSums(np.ones((1, 1)), (Variable(family, scale, several),))
        half = found.reach(alpha, smooth(alpha, family, scale, several))[0]
        assert half == int(half)
        assert mass[np.abs(support) <= half].sum() >= 1 - alpha - 1e-12
        assert half == 0 or mass[np.abs(support) < half].sum() < 1 - alpha
        beyond = found.tails(np.array([half, half + 1]), np.ones(2))
        assert beyond == pytest.approx([mass[np.abs(support) >= one].sum() for one in (half, half + 1)], abs=1e-12)
        assert beyond[0] > alpha >= beyond[1]


def test_at_epsilon_one_the_interval_reaches_three_rows():
    """P(|X| <= 2) = .9272, P(|X| <= 3) = .9732."""
    p = np.exp(-1.0)
    found = NoiseSums(np.ones((1, 1)), variables_of(NoiseLaw("laplace", (1.0,))))
    assert found.reach(0.05, np.zeros(1)) == 3
    assert found.tails(np.array([3.0, 4.0]), np.ones(2)) == pytest.approx([2 * p**3 / (1 + p), 2 * p**4 / (1 + p)])


@pytest.mark.parametrize("factors", [(1.0, 2.0), (1.0, 0.37), (0.5, 0.5), (3.0, 0.1), (1.0, 1 / 3)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
def test_weighted_sums_cover_whether_their_factors_have_a_common_measure_or_not(factors, epsilon):
    laws = (Variable("laplace", 1 / epsilon, 1), Variable("gaussian", 0.8 / epsilon, 1))
    reach = int(40 / epsilon) + 30
    parts = [masses(one.family, one.scale, 1, reach) for one in laws]
    moved = np.abs(factors[0] * parts[0][0][:, None] + factors[1] * parts[1][0])
    joint = parts[0][1][:, None] * parts[1][1]
    sums = NoiseSums(np.array([factors]), laws)
    deviation = np.sqrt((joint * moved**2).sum())
    for alpha in ALPHAS[1:]:
        half = sums.reach(alpha, np.full(1, 1.96 * deviation))[0]
        assert joint[moved <= half].sum() >= 1 - alpha - 1e-9
        assert half == 0 or joint[moved <= half - max(factors)].sum() < 1 - alpha
        assert sums.tails(np.array([half + 0.02 * deviation]), np.ones(1))[0] <= alpha + 1e-9


def test_laws_that_are_too_wide_have_the_continuous_quantile_up_to_the_next_step():
    found = NoiseSums(np.full((2, 1), 0.5), (Variable("gaussian", 1e7, 1),))
    assert found.reach(0.05, np.array([9.3, 9.5])).tolist() == [9.5, 10.0]
    assert found.tails(np.array([1.0, 2.0]), np.array([0.3, 0.2])).tolist() == [0.3, 0.2]
    assert NoiseSums(np.zeros((1, 1)), (Variable("gaussian", 1e7, 1),)).reach(0.05, np.zeros(1)) == 0


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_cells_margins_and_differences_of_a_table_cover(epsilon):
    """Cells, margins and a difference end on whole numbers, where the law of a sum of draws says."""
    table = noisy(dpi.table(["g", "b"]), price=dpi.PureDP(epsilon))
    scale = table.release.law.scales[0]
    levels = len(table.params) // 2
    margin = table.margin("b")
    difference = table.inference.intervals(np.eye(len(table.params))[:1] - np.eye(len(table.params))[1:2], 0.05)[0]
    whole = [(2, float(np.ptp(difference)))]
    ends = margin.conf_int().to_numpy()
    inside = (ends[:, 0] > 0).nonzero()[0]
    whole += [(levels, float(np.ptp(ends[place]))) for place in inside]
    for several, width in whole:
        support, mass = masses("laplace", scale, several, int(40 * scale * several**0.5) + 30)
        assert mass[np.abs(support) <= width / 2].sum() >= 0.95
        assert mass[np.abs(support) < width / 2].sum() < 0.95
    cells = table.conf_int().to_numpy()
    assert (cells == np.rint(cells)).all()


def test_measured_queries_and_tables_of_one_law_agree():
    """Counts of data quality and linear queries have the interval of a table's cell."""
    found = measured_queries(NoiseLaw("laplace", (1.0, 1.0)), [1.0, 1.0], ("a", "b"), np.array([50.0, 60.0]))
    assert found.intervals(np.eye(2), 0.05).tolist() == [[47.0, 53.0], [57.0, 63.0]]
    assert found.contrast_pvalues(np.eye(2), np.array([47.0, 56.0])) == pytest.approx([0.072795, 0.026780], abs=1e-6)


@pytest.mark.parametrize("together", [3, 7, 9])
@pytest.mark.parametrize("epsilon", [0.2, 0.5, 1.0])
def test_averages_of_many_releases_cover(together, epsilon):
    """A factor of 1/7 is not exact: rounded to seven digits, and times the steps, it lost the points at the ends."""
    law = NoiseSums(np.full((1, together), 1 / together), (Variable("laplace", 1 / epsilon, 1),) * together)
    half = law.reach(0.05, np.array([1e9]))[0]
    support, found = masses("laplace", 1 / epsilon, together, int(40 / epsilon) * 3)
    inside = np.abs(support) / together <= half
    assert found[inside].sum() >= 0.95 - 1e-9
    assert found[np.abs(support) / together <= half - 0.5 / together].sum() < 0.95
    outside = found[np.abs(support) / together >= half - 1e-3 / together].sum()
    assert law.tails(np.array([half]), np.array([0.0]))[0] >= outside - 1e-9


def test_noise_of_tiny_steps_counts_by_its_spread():
    """Released at a Gaussian price: steps of a ten-millionth, and tens of millions of them in a standard deviation."""
    one, tiny = Variable("laplace", 0.5, 1), Variable("gaussian", 2e7, 1)
    law = NoiseSums(np.array([[1.0, 1e-7]]), (one, tiny))
    assert law.reach(0.05, np.array([4.2]))[0] == 5.0  # no grid serves: the continuous quantile, rounded up
    assert NoiseSums(np.array([[1.0, 1e-7]]), (one, Variable("gaussian", 1e-3, 1))).reach(0.05, np.array([4.2]))[0] < 3
