"""Equal variances of groups, tested on noisy sums: level, power, and what it reads."""

import numpy as np
import pytest

from dpinfer.descriptions.mean_test_inference import GroupMeans, spread_pvalues

REPLICATES = 2000


def released(groups, scale, *, laplace, seed=0):
    """Noisy sums of groups of values, and their model."""
    model = GroupMeans(np.eye(3), np.full(3, scale**2), int(laplace), len(groups))
    rng = np.random.default_rng(seed)
    exact = np.stack([[np.full(REPLICATES, u.shape[1]), u.sum(1), (u * u).sum(1)] for u in groups]).transpose(2, 0, 1)
    return model, (exact + model.noise(exact.shape[:2], rng)).reshape(REPLICATES, -1)


def normals(rng, sizes, spreads):
    return [np.clip(rng.normal(0.3, s, (REPLICATES, n)), -1, 1) for n, s in zip(sizes, spreads, strict=True)]


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("scale", [0.5, 5.0, 30.0])
@pytest.mark.parametrize("sizes", [(200, 50), (400, 100, 200)])
def test_equal_variances_are_rarely_doubted(sizes, scale, laplace):
    """At .002 at most 1% of releases: more would be seen in 36 of 2,000, false alarm 4e-4 where the share is 1%."""
    groups = normals(np.random.default_rng(1), sizes, [0.1] * len(sizes))
    pvalues = spread_pvalues(*released(groups, scale, laplace=laplace))
    assert (pvalues < 0.002).sum() <= 36


@pytest.mark.parametrize("laplace", [False, True])
def test_unequal_variances_are_seen_where_noise_lets_them(laplace):
    groups = normals(np.random.default_rng(2), (400, 150), (0.1, 0.3))
    assert np.mean(spread_pvalues(*released(groups, 0.5, laplace=laplace)) < 0.002) > 0.95
    assert np.mean(spread_pvalues(*released(groups, 300.0, laplace=laplace)) < 0.002) < 0.02


def test_means_of_groups_do_not_matter():
    rng = np.random.default_rng(3)
    low, high = (np.clip(rng.normal(mean, 0.1, (REPLICATES, 200)), -1, 1) for mean in (-0.5, 0.6))
    assert np.mean(spread_pvalues(*released([low, high], 1.0, laplace=False)) < 0.002) < 0.018


def test_sums_that_tell_nothing_are_not_doubted():
    model = GroupMeans(np.eye(3), np.full(3, 25.0), 0, 3)
    for values in (np.zeros((1, 9)), -np.ones((1, 9)), np.tile([1.0, 40.0, -30.0], 3)[None]):
        found = spread_pvalues(model, values)
        assert 0 <= found[0] <= 1
