"""Consistent counts of a tree against dense generalised least squares."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpinfer.distributions.tree import Tree, fit_tree

VARIANCES = {
    "equal": [1.0, 1.0, 1.0, 1.0],
    "by level": [9.0, 0.5, 3.0, 0.01],
    "public total": [0.0, 1.0, 2.0, 0.5],
    "hardly any": [1e-12, 1e-12, 2e-12, 1e-12],
    "two leaves": [4.0, 0.3],
}


def design(depth):
    """Which leaves every node holds, from the root down (2 m - 1, m)."""
    size = 2**depth
    return np.vstack([np.kron(np.eye(2**level), np.ones(size >> level)) for level in range(depth + 1)])


def dense(counts, variances):
    """Best linear estimates and their covariance; the root is a constraint where its variance is 0."""
    variances = np.asarray(variances, dtype=float)
    nodes = design(len(variances) - 1)
    spread = np.repeat(variances, 2 ** np.arange(len(variances)))
    if spread[0] > 0:
        weighted = nodes.T / spread
        cov = np.linalg.inv(weighted @ nodes)
        return cov @ weighted @ counts, cov
    weighted = nodes[1:].T / spread[1:]
    size = nodes.shape[1]
    system = np.block([[weighted @ nodes[1:], np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
    inverse = np.linalg.inv(system)
    return (inverse @ [*(weighted @ counts[1:]), counts[0]])[:size], inverse[:size, :size]


def noisy(variances, seed=1, rows=300):
    rng = np.random.default_rng(seed)
    depth = len(variances) - 1
    exact = design(depth) @ rng.multinomial(rows, np.full(2**depth, 2.0**-depth))
    return exact + rng.normal(size=len(exact)) * np.sqrt(np.repeat(variances, 2 ** np.arange(depth + 1)))


def fitted(variances, held=None, **options):
    size = 2 ** (len(variances) - 1)
    counts = noisy(variances, **options)
    return fit_tree(counts, np.array(variances), np.linspace(0, 1, (held or size) + 1)), counts


@pytest.mark.parametrize("name", VARIANCES)
def test_leaves_and_total_are_the_dense_estimates(name):
    tree, counts = fitted(VARIANCES[name])
    leaves, _ = dense(counts, VARIANCES[name])
    np.testing.assert_allclose(tree.leaves, leaves, rtol=1e-8, atol=1e-8)
    assert tree.total == pytest.approx(leaves.sum())
    assert tree.size == len(leaves)
    if name == "public total":
        assert tree.total == pytest.approx(counts[0], abs=1e-9)


@pytest.mark.parametrize("name", VARIANCES)
def test_noise_variances_are_those_of_the_dense_estimates(name):
    tree, counts = fitted(VARIANCES[name])
    _, cov = dense(counts, VARIANCES[name])
    size = len(cov)
    edges = np.arange(size + 1)
    for p in (0.0, 0.3, 1.0):
        prefix = (np.arange(size) < edges[:, None]) - p
        expected = np.einsum("ei,ij,ej->e", prefix, cov, prefix)
        np.testing.assert_allclose(tree.noise_variance(p), expected, rtol=1e-8, atol=1e-8 * cov.max())
    several = tree.noise_variance(edges / size)
    assert several == pytest.approx([tree.noise_variance(e / size)[e] for e in edges])


@pytest.mark.parametrize("name", VARIANCES)
def test_noise_covariances_are_those_of_the_dense_estimates(name):
    tree, counts = fitted(VARIANCES[name])
    _, cov = dense(counts, VARIANCES[name])
    size = len(cov)
    places = np.array([0.0, 0.5, 1.0, 1.25, size / 2, size - 0.1, size])
    probabilities = np.array([0.0, 0.2, 0.5, 0.5, 0.9, 0.95, 1.0])
    prefix = np.clip(places[:, None] - np.arange(size), 0, 1) - probabilities[:, None]
    found = tree.noise_covariance(places, probabilities)
    np.testing.assert_allclose(found, prefix @ cov @ prefix.T, rtol=1e-8, atol=1e-8 * cov.max())
    whole = np.arange(size + 1)
    diagonal = np.diag(tree.noise_covariance(whole.astype(float), np.full(size + 1, 0.4)))
    np.testing.assert_allclose(diagonal, tree.noise_variance(0.4), rtol=1e-8, atol=1e-8 * cov.max())


def test_leaves_beyond_the_bounds_are_left_out_but_count_in_the_total():
    variances = VARIANCES["by level"]
    tree, counts = fitted(variances, held=5)
    leaves, cov = dense(counts, variances)
    np.testing.assert_allclose(tree.leaves, leaves[:5], rtol=1e-8)
    assert tree.total == pytest.approx(leaves.sum())
    assert (len(tree.edges), tree.size) == (6, 8)
    prefix = (np.arange(8) < np.arange(6)[:, None]) - 0.5
    np.testing.assert_allclose(tree.noise_variance(0.5), np.einsum("ei,ij,ej->e", prefix, cov, prefix), rtol=1e-8)


def test_without_noise_counts_are_returned_as_they_are():
    counts = design(4) @ np.arange(16.0)
    for first in (0.0, 1e-12):
        tree = fit_tree(counts, np.array([first, *[1e-12] * 4]), np.linspace(0, 1, 17))
        np.testing.assert_allclose(tree.leaves, np.arange(16), atol=1e-9)
        np.testing.assert_allclose(tree.cumulative, np.cumsum([0, *range(16)]), atol=1e-9)
        np.testing.assert_allclose(tree.cdf, np.cumsum([0, *range(16)]) / 120, atol=1e-10)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=15, max_size=15),
    st.lists(st.floats(1e-6, 1e6), min_size=4, max_size=4),
    st.integers(1, 8),
    st.booleans(),
)
def test_a_distribution_function_never_falls_whatever_the_noise(counts, variances, held, public):
    if public:
        counts[0], variances[0] = float(abs(int(counts[0]))), 0.0
    tree = fit_tree(np.array(counts), np.array(variances), np.linspace(0, 1, held + 1))
    for values, top in ((tree.cumulative, max(tree.total, 0.0)), (tree.cdf, 1.0)):
        assert np.isfinite(values).all()
        assert values[0] == 0
        assert (np.diff(values) >= -1e-12 * max(abs(tree.total), 1.0)).all()
        assert values[-1] <= top
    assert tree.cumulative[-1] == max(tree.total, 0.0)
    assert tree.rows >= 1


def test_coefficients_of_a_prefix_are_those_of_the_haar_basis():
    (tree, _), size, edges = fitted(VARIANCES["equal"]), 8, np.arange(9)
    for j in range(1, 4):
        length = 2**j
        wavelets = np.kron(np.eye(size // length), np.repeat([1.0, -1.0], length // 2)) / np.sqrt(length)
        products = np.array([wavelets[:, :edge].sum(axis=1) for edge in edges])
        assert (np.count_nonzero(products, axis=1) <= 1).all()
        np.testing.assert_allclose(tree.wavelets(edges)[:, j - 1], np.abs(products).sum(axis=1))


def test_estimates_have_the_stated_variance():
    """Over 4,000 draws of the noise each ratio of variances is within 14% of 1: six standard deviations and more."""
    variances = np.array(VARIANCES["by level"])
    nodes = design(3)
    rng = np.random.default_rng(4)
    spread = np.sqrt(np.repeat(variances, 2 ** np.arange(4)))
    found = []
    for _ in range(4000):
        tree = fit_tree(nodes @ np.full(8, 100.0) + rng.normal(size=15) * spread, variances, np.linspace(0, 1, 9))
        found.append(np.concatenate([[0.0], np.cumsum(tree.leaves)]) - 0.3 * tree.total)
    ratio = np.var(found, axis=0) / tree.noise_variance(0.3)
    assert ratio == pytest.approx(np.ones(9), abs=0.14)


def test_a_tree_counts_at_least_one_row():
    tree = Tree(np.array([0.0, 1.0]), np.array([-5.0]), -5.0, np.array([1.0, 1.0]))
    assert (tree.rows, tree.size) == (1.0, 2)
    assert tree.cumulative.tolist() == [0.0, 0.0]
    assert tree.cdf.tolist() == [0.0, 1.0]
