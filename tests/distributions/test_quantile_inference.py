"""Quantiles by test inversion: what is refuted is outside, intervals cover, bands are as wide as they must be."""

import numpy as np
import pytest
from scipy import optimize, stats

from dpinfer.distributions.tree import QuantileInference, cdf_interval, fit_tree, simultaneous_width
from dpinfer.errors import OptionError

EDGES = np.linspace(0, 1, 17)
VARIANCES = np.array([6.0, 6.0, 6.0, 6.0, 6.0])
PUBLIC = np.array([0.0, 6.0, 6.0, 6.0, 6.0])


def nodes_of(leaves):
    levels = [np.asarray(leaves, dtype=float)]
    while len(levels[-1]) > 1:
        levels.append(levels[-1].reshape(-1, 2).sum(axis=1))
    return np.concatenate(levels[::-1])


def tree_of(leaves, variances=VARIANCES, edges=EDGES, rng=None):
    counts = nodes_of(leaves)
    if rng is not None:
        counts = counts + rng.normal(size=len(counts)) * np.sqrt(np.repeat(variances, 2 ** np.arange(len(variances))))
    return fit_tree(counts, variances, edges)


def inferred(trees, probabilities=(0.25, 0.5, 0.9), **options):
    trees = trees if isinstance(trees, tuple) else (trees,)
    names = tuple(f"{p:g}[{group}]" for group in range(len(trees)) for p in probabilities)
    return QuantileInference(names, trees, np.array(probabilities, dtype=float), **options)


def smooth(rows=20_000, variances=VARIANCES, seed=None):
    leaves = rows * np.diff(stats.beta.cdf(EDGES, 2, 3))
    return tree_of(leaves, variances, rng=None if seed is None else np.random.default_rng(seed))


OPTIONS = {
    "population": {},
    "data": {"target": "data"},
    "dependent rows": {"dependence": 4},
}


# Estimates


def test_estimates_are_where_the_distribution_function_crosses():
    for p in (0.0, 0.1, 0.5, 0.77, 1.0):
        tree = smooth()
        (estimate,) = inferred(tree, [p]).params
        assert np.interp(estimate, tree.edges, tree.cdf) == pytest.approx(p, abs=1e-9)
    assert inferred(smooth(), [0.0, 1.0]).params.tolist() == [0.0, 1.0]


def test_estimates_of_whole_numbers_are_whole_numbers_that_reach_the_probability():
    edges = np.array([0, *np.arange(1, 12) - 0.5, 11.0])
    values = np.random.default_rng(1).integers(0, 12, 333)
    leaves = [*np.bincount(values, minlength=12), 0, 0, 0, 0]
    tree = tree_of(leaves, np.full(5, 1e-10), edges)
    probabilities = np.array([0.05, 0.33, 0.5, 0.71, 0.99])
    found = inferred(tree, probabilities, step=1.0)
    assert found.params.tolist() == np.quantile(values, probabilities, method="inverted_cdf").tolist()
    ends = found.intervals(np.eye(5), 0.05)
    assert (ends % 1 == 0).all()


def test_chosen_quantiles_are_the_estimates_and_intervals_hold_them():
    found = inferred(smooth(), [0.1, 0.5], selected=np.array([[0.9, 0.4]]))
    assert found.params.tolist() == [0.9, 0.4]
    ends = found.intervals(np.eye(2), 0.05)
    assert ends[0, 1] == 0.9
    assert ends[0, 0] < inferred(smooth(), [0.1]).params[0]
    np.testing.assert_array_equal(ends[1], inferred(smooth(), [0.5]).intervals(np.eye(1), 0.05)[0])


# Intervals and tests


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("variances", [VARIANCES, PUBLIC], ids=["noisy total", "public total"])
def test_edges_that_are_not_refuted_are_in_the_interval_and_no_others(name, variances):
    for seed in range(4):
        tree = smooth(300, variances, seed)
        found = inferred(tree, **OPTIONS[name], continuous=True)
        for alpha in (0.3, 0.05, 0.001):
            ends = found.intervals(np.eye(3), alpha)
            for place, p in enumerate(found.probabilities):
                gap = tree.cumulative - p * max(tree.total, 0.0)
                dependence = {"population": 1, "data": 0, "dependent rows": 4}[name]
                variance = dependence * tree.rows * p * (1 - p) + tree.noise_variance(p)
                pvalues = 2 * stats.norm.sf(np.abs(gap) / np.sqrt(np.maximum(variance, 1e-300)))
                told = [found.contrast_pvalues(np.eye(3)[[place]], np.array([edge]))[0] for edge in tree.edges]
                assert told[1:-2] == pytest.approx(pvalues[1:-2], rel=1e-9, abs=1e-12)
                kept = tree.edges[pvalues >= alpha]
                low, high = ends[place]
                assert ((kept >= low) & (kept <= high)).all()
                leaf = tree.edges[1] - tree.edges[0]
                if len(kept):
                    assert kept.min() - leaf <= low
                    assert high <= kept.max() + leaf


@pytest.mark.parametrize("name", OPTIONS)
def test_values_that_may_be_tied_are_refuted_by_their_leaf_as_the_interval_says(name):
    for seed in range(3):
        tree = smooth(300, VARIANCES, seed)
        found, inner = inferred(tree, **OPTIONS[name]), inferred(tree, **OPTIONS[name], continuous=True)
        middles = (tree.edges[1:] + tree.edges[:-1]) / 2
        for alpha in (0.3, 0.05, 0.001):
            ends, narrow = found.intervals(np.eye(3), alpha), inner.intervals(np.eye(3), alpha)
            assert np.isin(ends, tree.edges).all()
            assert (ends[:, 0] <= narrow[:, 0]).all()
            assert (narrow[:, 1] <= ends[:, 1]).all()
            for place in range(3):
                told = [found.contrast_pvalues(np.eye(3)[[place]], np.array([value]))[0] for value in middles]
                held = (middles >= ends[place, 0]) & (middles <= ends[place, 1])
                assert (np.array(told)[~held] < alpha).all()
                assert held[np.array(told) >= alpha].all()


def test_of_many_rows_the_interval_is_that_of_a_normal_with_the_density():
    rows = 10**8
    edges = np.linspace(0, 1, 1025)
    leaves = rows * np.diff(stats.beta.cdf(edges, 2, 3))
    found = inferred(tree_of(leaves, np.full(11, 1e4), edges), [0.3], continuous=True)
    value = stats.beta.ppf(0.3, 2, 3)
    error = np.sqrt(0.3 * 0.7 / rows) / stats.beta.pdf(value, 2, 3)
    assert found.params[0] == pytest.approx(value, abs=1e-5)
    assert np.sqrt(found.cov_sampling[0, 0]) == pytest.approx(error, rel=0.05)
    noise = np.sqrt(found.trees[0].noise_variance(0.3)[int(value * 1024)]) / rows / stats.beta.pdf(value, 2, 3)
    assert np.sqrt(found.cov_noise[0, 0]) == pytest.approx(noise, rel=0.15)
    ends = found.intervals(np.eye(1), 0.05)[0]
    assert (ends[1] - ends[0]) / 2 == pytest.approx(1.96 * np.hypot(error, noise), rel=0.05)


def test_values_beyond_the_bounds_are_refuted():
    found = inferred(smooth(100))
    assert found.contrast_pvalues(np.eye(3), np.array([-0.1, 1.1, 99.0])).tolist() == [0.0, 0.0, 0.0]


def test_a_whole_number_is_refuted_by_its_own_leaf():
    """A value is the quantile if fewer than p lie below it and at least p up to it: both sides are tested."""
    edges = np.array([0, 0.5, 1.5, 2.5, 3.0])
    tree = tree_of([200, 300, 100, 400], np.full(3, 1500.0), edges)
    found = inferred(tree, [0.45], step=1.0)
    error = np.sqrt(1000 * 0.45 * 0.55 + tree.noise_variance(0.45))
    for value in range(4):
        under, over = (
            (tree.cumulative[value] - 450) / error[value],
            (tree.cumulative[value + 1] - 450) / error[value + 1],
        )
        expected = min(1.0, 2 * min(stats.norm.sf(under), stats.norm.cdf(over)))
        assert found.contrast_pvalues(np.eye(1), np.array([value]))[0] == pytest.approx(expected)
    assert found.contrast_pvalues(np.eye(1), np.array([1.0]))[0] == 1.0
    for alpha in (0.05, 1e-4):
        low, high = found.intervals(np.eye(1), alpha)[0]
        kept = [v for v in range(4) if found.contrast_pvalues(np.eye(1), np.array([v]))[0] >= alpha]
        assert (low, high) == (min(kept), max(kept))


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "target"), [(40, "population"), (1000, "population"), (40, "data")])
def test_intervals_cover(rows, target):
    """1,000 samples and noises; fewer cover than 92% or so with probability 1e-6 if each does with 95%."""
    rng = np.random.default_rng(17)
    reps, probabilities = 1000, np.array([0.2, 0.5])
    edges = np.linspace(0, 1, 65)
    variances = np.full(7, 9.0)
    truth = stats.beta.ppf(probabilities, 2, 3)
    covered = np.zeros(2)
    for _ in range(reps):
        values = rng.beta(2, 3, rows)
        tree = tree_of(np.histogram(values, edges)[0], variances, edges, rng)
        ends = inferred(tree, probabilities, target=target).intervals(np.eye(2), 0.05)
        aim = truth if target == "population" else np.quantile(values, probabilities, method="inverted_cdf")
        covered += (ends[:, 0] <= aim) & (aim <= ends[:, 1])
    assert covered.min() >= stats.binom.ppf(5e-7, reps, 0.95)


@pytest.mark.slow
def test_intervals_cover_a_value_that_half_of_the_rows_share():
    """As above, for a Real with a large tie in the middle of a leaf, and for whole numbers."""
    rng, reps = np.random.default_rng(18), 400
    edges = np.linspace(0, 1, 65)
    whole = np.array([0, *np.arange(1, 64) - 0.5, 63.0])
    covered = np.zeros(2)
    for _ in range(reps):
        tied = rng.random(500) < 0.5
        values = np.where(tied, 0.3456, rng.random(500))
        tree = tree_of(np.histogram(values, edges)[0], np.full(7, 9.0), edges, rng)
        low, high = inferred(tree, [0.4]).intervals(np.eye(1), 0.05)[0]
        covered[0] += low <= 0.3456 <= high
        numbers = np.where(tied, 22, rng.integers(0, 64, 500))
        tree = tree_of(np.histogram(numbers, whole)[0], np.full(7, 9.0), whole, rng)
        low, high = inferred(tree, [0.4], step=1.0).intervals(np.eye(1), 0.05)[0]
        covered[1] += low <= 22 <= high
    assert covered.min() >= stats.binom.ppf(5e-7, reps, 0.95)


def test_combinations_and_joint_tests_are_normal_with_the_covariance():
    found = inferred((smooth(5000, seed=1), smooth(4000, seed=2)))
    cov = found.cov_sampling + found.cov_noise
    assert np.linalg.eigvalsh(cov).min() > 0
    assert not cov[:3, 3:].any()
    contrast = np.array([[1.0, 0, 0, -1.0, 0, 0], [0, 0.5, 0.5, 0, 0, 0]])
    middle, error = contrast @ found.params, np.sqrt(np.diag(contrast @ cov @ contrast.T))
    half = stats.norm.isf(0.05) * error
    np.testing.assert_allclose(found.intervals(contrast, 0.1), np.c_[middle - half, middle + half])
    expected = 2 * stats.norm.sf(np.abs(middle) / error)
    np.testing.assert_allclose(found.contrast_pvalues(contrast, np.zeros(2)), expected)
    statistic, df, p = found.wald(contrast[:1], np.zeros(1))
    assert (df, p) == (1.0, pytest.approx(expected[0]))
    assert statistic == pytest.approx((middle[0] / error[0]) ** 2)
    wald = found.with_method("wald")
    normal = wald.params[1] + np.array([-1, 1]) * 1.959964 * np.sqrt(cov[1, 1])
    np.testing.assert_allclose(wald.intervals(np.eye(6), 0.05)[1], normal, rtol=1e-6)
    assert wald.with_method("auto").method == "score"
    with pytest.raises(OptionError, match="inference="):
        found.with_method("bayes")


def test_quantiles_of_the_same_rows_are_correlated_as_order_statistics():
    found = inferred(smooth(10**6), [0.2, 0.6])
    slopes = np.sqrt(np.diag(found.cov_sampling) / (10**6 * np.array([0.16, 0.24])))
    assert found.cov_sampling[0, 1] == pytest.approx(10**6 * 0.2 * 0.4 * slopes.prod())


# What the reader is told


def test_hidden_rows_and_dependence_and_coarse_leaves_are_told():
    even = tree_of(np.full(16, 1000.0))
    assert inferred(even, continuous=True).flags == ()
    (told,) = inferred(tree_of(np.zeros(16), rng=np.random.default_rng(1))).flags
    assert "privacy noise dominates" in told
    (told,) = inferred(even, dependence=3, continuous=True).flags
    assert "3 times those of independent rows" in told
    leaves = np.full(16, 1000.0)
    leaves[7] = 1e6
    (told,) = inferred(tree_of(leaves), [0.5]).flags
    assert "larger resolution=" in told
    assert inferred(tree_of(leaves), [0.5], step=1.0).flags == ()


@pytest.mark.parametrize("step", [0.0, 1.0])
def test_whatever_the_noise_numbers_are_finite_and_within_the_bounds(step):
    rng = np.random.default_rng(6)
    edges = np.array([0, *np.arange(1, 16) - 0.5, 15.0])
    for scale in (1e-6, 1.0, 1e3, 1e9):
        for rows in (0, 1, 30):
            leaves = rng.multinomial(rows, np.full(16, 1 / 16))
            for variances in (VARIANCES * scale, PUBLIC * scale):
                found = inferred(tree_of(leaves, variances, edges, rng), [0.1, 0.5, 0.9], step=step)
                ends = found.intervals(np.eye(3), 0.05)
                assert np.isfinite(ends).all()
                assert (ends[:, 0] >= 0).all()
                assert (ends[:, 1] <= 15).all()
                assert (ends[:, 0] <= found.params).all()
                assert (found.params <= ends[:, 1]).all()
                pvalues = found.contrast_pvalues(np.eye(3), np.array([3.0, 7.2, 15.0]))
                assert ((pvalues >= 0) & (pvalues <= 1)).all()
                assert np.isfinite(found.cov_sampling).all()
                assert np.isfinite(found.cov_noise).all()


# Distribution functions


@pytest.mark.parametrize("dependence", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("variances", [VARIANCES, PUBLIC], ids=["noisy total", "public total"])
def test_ends_of_a_pointwise_interval_are_roots(variances, dependence):
    tree = smooth(500, variances, seed=3)
    for alpha in (0.2, 0.05):
        z = stats.norm.isf(alpha / 2)
        found = cdf_interval(tree, alpha, dependence=dependence)
        assert found.shape == (17, 2)
        for edge in range(1, 16):

            def excess(p, edge=edge, z=z):
                variance = dependence * tree.rows * p * (1 - p) + tree.noise_variance(p)[edge]
                return (tree.cumulative[edge] - p * tree.rows) ** 2 - z**2 * variance

            middle = tree.cumulative[edge] / tree.rows
            low = optimize.brentq(excess, 0, middle, xtol=1e-14) if excess(0) > 0 else 0.0
            high = optimize.brentq(excess, middle, 1, xtol=1e-14) if excess(1) > 0 else 1.0
            assert found[edge] == pytest.approx([low, high], abs=1e-9)
        assert found[0].tolist() == [0.0, 0.0]
        assert found[16].tolist() == [1.0, 1.0]


def test_of_a_hidden_number_of_rows_nothing_is_said():
    tree = tree_of(np.full(16, 0.1), VARIANCES * 100, rng=np.random.default_rng(0))
    found = cdf_interval(tree, 0.05)
    assert found[1:-1].tolist() == [[0.0, 1.0]] * 15


def dense_noise(variances):
    nodes = np.vstack([np.kron(np.eye(2**k), np.ones(4 >> k)) for k in range(3)])
    spread = np.repeat(variances, [1, 2, 4])
    return np.linalg.inv(nodes.T / spread @ nodes)


@pytest.mark.parametrize("dependence", [0.0, 1.0, 3.0])
def test_the_width_of_a_band_is_that_of_the_process_by_brute_force(dependence):
    """4 leaves, 20,000 draws each: quantiles agree within 4%, four standard errors or more of their ratio."""
    variances = np.array(
        [
            50.0,
            30.0,
            10.0,
        ]
    )
    leaves = np.array([10.0, 200.0, 40.0, 150.0])
    tree = tree_of(leaves, variances, np.linspace(0, 1, 5))
    rng, draws = np.random.default_rng(8), 20_000
    noise = rng.multivariate_normal(np.zeros(4), dense_noise(variances), draws)
    share = np.array([0, *leaves.cumsum()]) / 400
    bridge = np.minimum.outer(share, share) - np.outer(share, share)
    sampled = rng.multivariate_normal(np.zeros(5), dependence * 400 * bridge, draws)
    carried = np.c_[np.zeros(draws), noise.cumsum(axis=1)]
    largest = np.abs(sampled + carried - share * carried[:, -1:]).max(axis=1) / 400
    for alpha in (0.5, 0.1):
        width = simultaneous_width(tree, alpha, dependence=dependence, replicates=draws // 4, seed=3)
        assert width == pytest.approx(np.quantile(largest, 1 - alpha), rel=0.05)


def test_a_band_is_the_same_for_the_same_seed_and_wider_for_more_confidence():
    tree = smooth(400, seed=5)
    assert simultaneous_width(tree, 0.05, seed=2) == simultaneous_width(tree, 0.05, seed=2)
    assert simultaneous_width(tree, 0.05, seed=2) != simultaneous_width(tree, 0.05, seed=3)
    widths = [simultaneous_width(tree, alpha) for alpha in (0.5, 0.1, 0.01)]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


def test_without_noise_a_band_is_that_of_kolmogorov():
    tree = tree_of(np.full(256, 40.0), np.full(9, 1e-9), np.linspace(0, 1, 257))
    width = simultaneous_width(tree, 0.05, replicates=1999)
    assert width * np.sqrt(tree.total) == pytest.approx(stats.kstwobign.isf(0.05), rel=0.06)
    assert simultaneous_width(tree, 0.05, dependence=0.0) < 1e-6
