"""Tests of means from noisy sums: scipy's statistics without noise, size with noise, sums that tell nothing."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from dpinfer.descriptions.mean_test_inference import GroupMeans, spread_pvalues
from dpinfer.statistics.nulls import batch_pvalues, simulate

MIXING = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])


def model(scale=0.0, **options):
    return GroupMeans(MIXING, np.array([1.0, 1.0, 1.5]) * scale**2, **options)


def sums(*groups):
    return np.concatenate([[len(group), group.sum(), (group**2).sum()] for group in groups])


def samples(*sizes, seed=1, spread=0.3):
    rng = np.random.default_rng(seed)
    return [np.clip(rng.normal(0.1 * place, spread, size), -1, 1) for place, size in enumerate(sizes)]


# Without noise


@pytest.mark.parametrize("equal_var", [True, False])
def test_two_groups_without_noise_have_scipys_statistic(equal_var):
    a, b = samples(40, 25)
    expected = stats.ttest_ind(a, b, equal_var=equal_var).statistic
    two = model(groups=2, equal_var=equal_var)
    assert two.signed(sums(a, b)) == pytest.approx(expected, rel=1e-9)
    assert two.statistic(sums(a, b)) == pytest.approx(expected**2, rel=1e-9)


def test_one_group_without_noise_has_scipys_statistic():
    (a,) = samples(31)
    expected = stats.ttest_1samp(a, -0.05).statistic
    assert model(mean=-0.05).signed(sums(a)) == pytest.approx(expected, rel=1e-9)


def test_several_groups_without_noise_have_scipys_f():
    groups = samples(12, 30, 7, 50)
    found = model(groups=4).statistic(sums(*groups)) / 3
    assert found == pytest.approx(stats.f_oneway(*groups).statistic, rel=1e-9)


def test_several_groups_with_their_own_variances_have_the_numerator_of_welch():
    groups = samples(12, 30, 7)
    weight = np.array([len(group) / group.var(ddof=1) for group in groups])
    means = np.array([group.mean() for group in groups])
    expected = (weight * (means - np.average(means, weights=weight)) ** 2).sum()
    assert model(groups=3, equal_var=False).statistic(sums(*groups)) == pytest.approx(expected, rel=1e-9)


def test_the_simulated_pvalue_without_noise_is_that_of_the_t_distribution():
    a, b = samples(30, 20)
    exact = stats.ttest_ind(a, b).pvalue
    found = simulate(model(groups=2), sums(a, b), draws=40_000, seed=3)
    assert abs(found.pvalue - exact) < 4.5 * np.sqrt(exact * (1 - exact) / 40_000) + 1e-4  # false alarm 1e-5


def test_one_sided_statistics_point_towards_their_alternatives():
    a, b = samples(200, 200)
    greater, less = (model(groups=2, alternative=one).statistic(sums(a, b)) for one in ("greater", "less"))
    assert greater == -less
    assert greater < 0  # the second mean is larger


# Leading dimensions, draws


def test_leading_dimensions_are_free():
    values = np.stack([sums(*samples(30, 20, 25, seed=seed)) for seed in range(6)])
    three = model(2.0, groups=3)
    stacked = three.statistic(values.reshape(2, 3, -1))
    assert stacked.shape == (2, 3)
    assert np.allclose(stacked.ravel(), [three.statistic(one) for one in values])


@pytest.mark.parametrize("laplace", [0, 1, 4])
def test_noise_has_the_covariance_that_the_variances_assume(laplace):
    one = model(3.0, laplace=laplace)
    drawn = one.noise((40_000,), np.random.default_rng(2))
    # a variance of Laplace noise is known to sqrt(5 / 40,000) = 1.1%; false alarm about 1e-6
    assert np.allclose(np.cov(drawn.T), one.cov, atol=0.055 * one.cov.max())


def test_draws_have_the_fitted_mean_and_variance():
    one = model(mean=0.2)
    (a,) = samples(400)
    fitted = one.fit(sums(a)[None])
    drawn = one.draw(fitted, 20_000, np.random.default_rng(4))[0]
    assert np.all(drawn[:, 0] == 400)
    assert drawn[:, 1].mean() == pytest.approx(80, abs=0.25)  # standard error 0.042
    assert drawn[:, 1].std() == pytest.approx(a.std(ddof=1) * 20, rel=0.03)


# Size


DESIGNS = {
    "noise alone": ((20, 20), 0.05, 40.0, 0),
    "noise and sampling alike": ((300, 100), 0.2, 3.0, 0),
    "a variance that noise hides": ((200, 200), 0.07, 1.6, 0),
    "Laplace noise": ((100, 30), 0.2, 4.0, 1),
    "uneven and far from the middle": ((20, 200), 0.05, 50.0, 0),
}


@pytest.mark.parametrize("equal_var", [True, False])
@pytest.mark.parametrize("design", DESIGNS)
def test_size_is_at_most_nominal(design, equal_var):
    sizes, spread, scale, laplace = DESIGNS[design]
    rng = np.random.default_rng(11)
    centre, replicates = -0.8 if "far" in design else 0.1, 3000
    two = model(scale, groups=2, equal_var=equal_var, laplace=laplace)
    truth = [np.clip(rng.normal(centre, spread, (replicates, size)), -1, 1) for size in sizes]
    exact = np.stack([np.stack([np.full(replicates, x.shape[1]), x.sum(1), (x**2).sum(1)], 1) for x in truth], axis=1)
    values = (exact + two.noise((replicates, 2), rng)).reshape(replicates, -1)
    pvalues = batch_pvalues(two, values, draws=199, rng=rng)
    for level in (0.05, 0.01):
        # false alarm 1e-4 for all ten designs and levels together
        assert (pvalues <= level).mean() <= level + 4.4 * np.sqrt(level * (1 - level) / replicates)


def test_a_difference_well_above_sampling_and_noise_is_found():
    rng = np.random.default_rng(5)
    a, b = samples(2000, 2000)
    values = sums(a, b + 0.1) + model(3.0).noise((2,), rng).ravel()
    assert simulate(model(3.0, groups=2), values, draws=999).pvalue == 0.001


# Sums that tell nothing


DAMAGED = {
    "nothing": [0, 0, 0, 0, 0, 0],
    "negative counts": [-30, 4, -12, -5, -9, -80],
    "one empty group": [500, 20, 40, 0, 0, 0],
    "negative squares": [50, 20, -400, 60, -10, -300],
    "more than the bounds allow": [10, 4000, 1e5, 12, -9000, 1e6],
    "opposite counts": [40, 3, 5, -40, 2, 3],
}


@pytest.mark.parametrize("scale", [0.0, 20.0])
@pytest.mark.parametrize("equal_var", [True, False])
@pytest.mark.parametrize("name", DAMAGED)
def test_sums_that_tell_nothing_still_give_a_pvalue(name, equal_var, scale):
    values = np.array(DAMAGED[name], dtype=float)
    for alternative in ("two-sided", "less", "greater"):
        two = model(scale, groups=2, equal_var=equal_var, alternative=alternative)
        found = simulate(two, values, draws=99)
        assert 0 < found.pvalue <= 1
        assert np.isfinite(found.statistic)
    assert 0 < simulate(model(scale, mean=0.3), values[:3], draws=99).pvalue <= 1
    assert 0 < simulate(model(scale, groups=4, equal_var=equal_var), np.tile(values, 2), draws=99).pvalue <= 1


def test_a_variance_that_noise_hides_is_said_to_be():
    a, b = samples(50, 50, spread=0.01)
    assert model(30.0, groups=2).estimates(sums(a, b) - np.array([0, 0, 60, 0, 0, 60])).hidden.all()
    assert not model(0.1, groups=2).estimates(sums(*samples(500, 500))).hidden.any()


def test_estimates_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        model().groups = 3


# Equal variances of groups: level, power, and what the test reads

REPLICATES = 2000


def spread_sums(groups, scale, *, laplace, seed=0):
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
    pvalues = spread_pvalues(*spread_sums(groups, scale, laplace=laplace))
    assert (pvalues < 0.002).sum() <= 36


@pytest.mark.parametrize("laplace", [False, True])
def test_unequal_variances_are_seen_where_noise_lets_them(laplace):
    groups = normals(np.random.default_rng(2), (400, 150), (0.1, 0.3))
    assert np.mean(spread_pvalues(*spread_sums(groups, 0.5, laplace=laplace)) < 0.002) > 0.95
    assert np.mean(spread_pvalues(*spread_sums(groups, 300.0, laplace=laplace)) < 0.002) < 0.02


def test_means_of_groups_do_not_matter():
    rng = np.random.default_rng(3)
    low, high = (np.clip(rng.normal(mean, 0.1, (REPLICATES, 200)), -1, 1) for mean in (-0.5, 0.6))
    assert np.mean(spread_pvalues(*spread_sums([low, high], 1.0, laplace=False)) < 0.002) < 0.018


def test_sums_that_tell_nothing_are_not_doubted():
    model = GroupMeans(np.eye(3), np.full(3, 25.0), 0, 3)
    for values in (np.zeros((1, 9)), -np.ones((1, 9)), np.tile([1.0, 40.0, -30.0], 3)[None]):
        found = spread_pvalues(model, values)
        assert 0 <= found[0] <= 1
