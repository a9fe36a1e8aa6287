"""Rank and distribution statistics of leaves: scipy's without noise, exact symmetries, levels under noise."""

import numpy as np
import pytest
from scipy import stats

from dpinfer.distributions.rank_statistics import (
    ZEROS,
    GivenDistribution,
    GroupRanks,
    RankAssociation,
    SignedRanks,
    TwoDistributions,
    below,
    centred_scores,
    nearest_shares,
    shrinkage,
)
from dpinfer.release import NoiseLaw
from dpinfer.statistics.noise import CountNoise
from dpinfer.statistics.nulls import batch_pvalues, simulate


class NoNoise:
    """Exact counts."""

    variance = 0.0

    @staticmethod
    def rvs(shape, rng):
        return np.zeros(shape)


def gaussian(variance):
    return CountNoise(NoiseLaw("gaussian", (variance**0.5,)))


RNG = np.random.default_rng(1)
X, Y, Z = RNG.integers(0, 10, 40), RNG.integers(1, 12, 60), RNG.integers(0, 12, 30)


def counted(*groups, leaves=12):
    return np.concatenate([np.bincount(one, minlength=leaves) for one in groups])[None].astype(float)


def test_two_groups_without_noise_are_scipys():
    model, table = GroupRanks(NoNoise(), shape=(2, 12)), counted(X, Y)
    expected = stats.mannwhitneyu(X, Y, method="asymptotic", use_continuity=False)
    assert 2 * stats.norm.sf(model.statistic(table)[0]) == pytest.approx(expected.pvalue, rel=1e-12)
    one = stats.mannwhitneyu(X, Y, method="asymptotic", use_continuity=False, alternative="less")
    assert stats.norm.sf(GroupRanks(NoNoise(), alternative="less", shape=(2, 12)).statistic(table)[0]) == pytest.approx(
        one.pvalue
    )


def test_several_groups_without_noise_are_scipys():
    found = GroupRanks(NoNoise(), shape=(3, 12)).statistic(counted(X, Y, Z))[0]
    assert found == pytest.approx(stats.kruskal(X, Y, Z).statistic, rel=1e-12)


def test_two_groups_by_h_and_by_z_agree():
    model, table = GroupRanks(gaussian(3.0), shape=(2, 12)), counted(X, Y)
    sums, rows, variance = model.sums(table)
    length = (sums**2 / variance).sum() - ((sums * rows / variance).sum() ** 2) / (rows**2 / variance).sum()
    assert model.statistic(table)[0] ** 2 == pytest.approx(length)


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_distances_without_noise_are_scipys(alternative):
    table = counted(X, Y)
    found = TwoDistributions(NoNoise(), alternative=alternative, shape=(2, 12)).statistic(table)[0]
    expected = stats.ks_2samp(X, Y, alternative=alternative)
    assert found == pytest.approx(expected.statistic * np.sqrt(40 * 60 / 100))
    if alternative == "two-sided":
        assert TwoDistributions(NoNoise(), shape=(2, 12)).where(table)[0] == expected.statistic_location
    shares = np.full(12, 1 / 12)
    given = GivenDistribution(NoNoise(), alternative=alternative, shares=shares).statistic(counted(X))[0]
    apart = np.cumsum(counted(X)[0]) / 40 - np.cumsum(shares)
    largest = {"two-sided": np.abs(apart), "greater": apart, "less": -apart}[alternative].max()
    assert given == pytest.approx(largest * np.sqrt(40))


@pytest.mark.parametrize("zeros", ZEROS)
def test_signed_ranks_without_noise_are_scipys(zeros):
    apart = X - Y[:40]
    table = counted(apart + 12, leaves=25)
    model = SignedRanks(NoNoise(), zeros=zeros)
    expected = stats.wilcoxon(apart, zero_method=zeros, method="asymptotic", correction=False)
    assert 2 * stats.norm.sf(model.statistic(table)[0]) == pytest.approx(expected.pvalue, rel=1e-12)


def test_rank_correlation_without_noise_is_scipys():
    grid = np.zeros((12, 12))
    np.add.at(grid, (X, Y[:40]), 1)
    model, flat = RankAssociation(NoNoise(), shape=(12, 12)), grid.reshape(1, -1)
    expected = stats.spearmanr(X, Y[:40]).statistic
    assert model.signed(flat)[0] / np.sqrt(39) == pytest.approx(expected, rel=1e-9)
    assert model.effect(flat, 0.05).estimate[0] == pytest.approx(expected, rel=1e-9)


def test_effects_without_noise_are_scipys():
    found = GroupRanks(NoNoise(), shape=(2, 12)).effect(counted(X, Y), 0.05)
    assert found.estimate[0] == pytest.approx(stats.mannwhitneyu(X, Y).statistic / 2400)
    assert found.noise_error[0] == 0
    apart = X - Y[:40]
    used = apart[apart != 0]
    ranks = stats.rankdata(np.abs(used)) - 0.5
    signed = SignedRanks(NoNoise()).effect(counted(apart + 12, leaves=25), 0.05)
    assert signed.estimate[0] == pytest.approx((np.sign(used) * ranks).sum() / ranks.sum())
    mean, _, noise = GroupRanks(NoNoise(), shape=(2, 12)).mean_ranks(counted(X, Y))
    assert mean[0, 0] == pytest.approx((stats.rankdata(np.append(X, Y))[:40].mean() - 0.5) / 100)
    assert (noise == 0).all()


def test_groups_in_the_other_order_have_the_other_sign():
    noisy = counted(X, Y) + gaussian(5.0).rvs((1, 24), np.random.default_rng(2))
    model, turned = GroupRanks(gaussian(5.0), shape=(2, 12)), np.roll(noisy, 12, axis=1)
    assert model.signed(noisy)[0] == pytest.approx(-model.signed(turned)[0])
    assert model.effect(noisy, 0.1).estimate[0] == pytest.approx(1 - model.effect(turned, 0.1).estimate[0])


def test_mirrored_values_have_the_other_sign():
    noisy = counted(X - Y[:40] + 12, leaves=25) + gaussian(2.0).rvs((1, 25), np.random.default_rng(3))
    model = SignedRanks(gaussian(2.0))
    assert model.signed(noisy)[0] == pytest.approx(-model.signed(noisy[:, ::-1])[0])


def test_shares_are_the_nearest():
    rng = np.random.default_rng(4)
    counts, total = rng.normal(2, 5, (50, 9)), np.full(50, 7.0)
    shares = nearest_shares(counts, total)
    assert (shares >= 0).all()
    assert shares.sum(axis=1) == pytest.approx(np.ones(50))
    others = rng.dirichlet(np.ones(9), 4000)
    nearest = ((counts[0] - 7 * shares[0]) ** 2).sum()
    assert (((counts[0] - 7 * others) ** 2).sum(axis=1) >= nearest - 1e-9).all()


def test_scores_have_mean_zero_and_are_midranks_without_noise():
    shares = np.array([[0.2, 0.0, 0.5, 0.3]])
    for noise in (0.0, 0.1):
        weights = shrinkage(shares, np.array([noise]))
        scores = weights * centred_scores(shares, weights)
        assert (shares * scores).sum() == pytest.approx(0, abs=1e-15)
    assert centred_scores(shares, shrinkage(shares, np.zeros(1))) == pytest.approx(below(shares) - 0.5)


def heavy(leaves):
    shares = np.full(leaves, 0.1 / (leaves - 1))
    shares[0] = 0.9
    return shares


CASES = {
    "two groups": (GroupRanks(gaussian(5.0), shape=(2, 17)), (20, 180)),
    "to the right": (GroupRanks(gaussian(5.0), alternative="greater", shape=(2, 17)), (20, 180)),
    "four groups": (GroupRanks(gaussian(5.0), shape=(4, 17)), (20, 80, 50, 50)),
    "distance": (TwoDistributions(gaussian(5.0), shape=(2, 17)), (20, 180)),
    "given": (GivenDistribution(gaussian(5.0), shares=heavy(17)), (200,)),
    "given, public n": (GivenDistribution(gaussian(5.0), 200, shares=heavy(17)), (200,)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_true_hypothesis_is_rejected_at_the_level(name):
    # Of 600 releases more than 61 below .05 have probability 1.5e-7 at size .05.
    model, sizes = CASES[name]
    rng = np.random.default_rng(5)
    counts = rng.multinomial(sizes, heavy(17), size=(600, len(sizes))).reshape(600, -1)
    found = batch_pvalues(model, counts + model.noise.rvs(counts.shape, rng), draws=99, rng=rng)
    assert (found <= 0.05).sum() <= 61


def test_signs_and_two_columns_keep_their_level():
    # As above.
    rng, noise = np.random.default_rng(6), gaussian(5.0)
    line = np.concatenate([heavy(8)[::-1], [0.1], heavy(8)]) / 2.1
    for model, shares in (
        (SignedRanks(noise), line),
        (SignedRanks(noise, 200, zeros="pratt"), line),
        (RankAssociation(noise, shape=(5, 4)), np.outer(heavy(5), np.full(4, 0.25)).ravel()),
    ):
        counts = rng.multinomial(200, shares, size=600)
        found = batch_pvalues(model, counts + noise.rvs(counts.shape, rng), draws=99, rng=rng)
        assert (found <= 0.05).sum() <= 61


def test_nothing_is_tested_where_noise_hides_the_rows():
    values = np.random.default_rng(7).normal(0, 30, 24)
    for model in (TwoDistributions(gaussian(900.0), shape=(2, 12)), RankAssociation(gaussian(900.0), shape=(6, 4))):
        assert bool(model.hidden(values[None])[0])
        assert simulate(model, values, draws=99).pvalue == 1.0


def test_a_large_difference_is_found():
    rng, noise = np.random.default_rng(8), gaussian(10.0)
    p = np.linspace(1, 3, 12) / np.linspace(1, 3, 12).sum()
    values = np.concatenate([rng.multinomial(3000, p), rng.multinomial(3000, p[::-1])]) + noise.rvs((24,), rng)
    for model in (
        GroupRanks(noise, shape=(2, 12)),
        TwoDistributions(noise, shape=(2, 12)),
        GroupRanks(noise, alternative="greater", shape=(2, 12)),
    ):
        assert simulate(model, values, draws=999).pvalue == 0.001
    found = GroupRanks(noise, shape=(2, 12)).effect(values[None], 1e-6)
    middle = np.cumsum(p[::-1]) - p[::-1] / 2
    assert found.lower[0] < p @ middle < found.upper[0]
