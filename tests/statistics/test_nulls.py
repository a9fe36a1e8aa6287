"""The Monte Carlo engine on null models whose p-values are known."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from dpinfer.errors import OptionError
from dpinfer.statistics import nulls
from dpinfer.statistics.nulls import ENOUGH, MOST_DRAWS, batch_pvalues, check_draws, simulate


@dataclass(frozen=True)
class Toy:
    """The statistic is the first of the values, and is drawn as a function of one uniform number a draw."""

    law: object = staticmethod(lambda u: u)
    width: int = 1

    def statistic(self, values):
        return values[..., 0]

    def fit(self, values):
        return len(values)

    def draw(self, fitted, size, rng):
        drawn = np.zeros((fitted, size, self.width))
        drawn[..., 0] = self.law(rng.random((fitted, size)))
        return drawn


def sometimes_nan(u):
    return np.where(u < 0.1, np.nan, u)


@pytest.fixture
def short(monkeypatch):
    """An adaptive simulation that is short enough to be repeated thousands of times."""
    monkeypatch.setattr(nulls, "ENOUGH", 10)
    monkeypatch.setattr(nulls, "MOST_DRAWS", 999)


@pytest.mark.parametrize("draws", ["adaptive", 99])
def test_pvalues_are_valid_and_nearly_exact(draws, short):
    """4000 p-values; one of the deviations at five levels passes 4.5 standard deviations once in 25,000 seeds."""
    observed = np.random.default_rng(1).random(4000)
    found = np.array([simulate(Toy(), np.array([u]), draws=draws, seed=k).pvalue for k, u in enumerate(observed)])
    for level in (0.01, 0.05, 0.1, 0.25, 0.5):  # p-values that both kinds of draws can give
        error = np.sqrt(level * (1 - level) / found.size)
        assert (found <= level + 1e-12).mean() == pytest.approx(level, abs=4.5 * error)
    for level in (0.033, 0.7, 0.9):
        assert (found <= level).mean() <= level + 4.5 * np.sqrt(level * (1 - level) / found.size)


def test_the_stopping_rule_is_that_of_besag_and_clifford(short):
    """With h = 10 the p-value is 10 / L, L the draw that is the 10th to reach the statistic."""
    stream = np.random.default_rng(5).random(999)
    for observed in (0.2, 0.7, 0.95):
        last = 1 + int(np.flatnonzero(stream >= observed)[9])
        found = simulate(Toy(), np.array([observed]), seed=5)
        assert found.pvalue == pytest.approx(10 / last)
        assert (found.draws, found.exceeding) == (last - 1, 9)
    found = simulate(Toy(), np.array([0.995]), seed=5)
    assert found.draws == 999
    assert found.pvalue == (1 + (stream >= 0.995).sum()) / 1000


def test_adaptive_and_fixed_draws_agree():
    for observed in (0.05, 0.5, 0.9):
        adaptive = simulate(Toy(), np.array([observed]), seed=3)
        fixed = simulate(Toy(), np.array([observed]), draws=MOST_DRAWS, seed=3)
        assert adaptive.exceeding == ENOUGH - 1
        assert adaptive.draws < fixed.draws == MOST_DRAWS
        assert adaptive.error == pytest.approx(adaptive.pvalue * np.sqrt((1 - adaptive.pvalue) / ENOUGH), rel=0.01)
        assert adaptive.pvalue == pytest.approx(fixed.pvalue, abs=4 * adaptive.error)
        assert fixed.pvalue == pytest.approx(1 - observed, abs=4 * fixed.error)


def test_a_small_pvalue_takes_all_draws():
    found = simulate(Toy(), np.array([2.0]))
    assert (found.draws, found.exceeding) == (MOST_DRAWS, 0)
    assert found.pvalue == 1 / (MOST_DRAWS + 1)
    assert found.error > 0
    assert found.sample.size == 10_000


@pytest.mark.parametrize("draws", [99, 2500, 2501, 7777])
def test_fixed_draws_are_all_made_and_counted(draws):
    found = simulate(Toy(), np.array([0.8]), draws=draws, seed=9)
    exceeding = int((np.random.default_rng(9).random(draws) >= 0.8).sum())
    assert (found.draws, found.exceeding, found.failed) == (draws, exceeding, 0)
    assert found.pvalue == (1 + exceeding) / (draws + 1)
    assert found.error == pytest.approx(np.sqrt(found.pvalue * (1 - found.pvalue) / draws))


@pytest.mark.parametrize("draws", ["adaptive", 5000])
def test_chunks_do_not_change_the_result(draws, monkeypatch):
    observed = np.array([0.7])
    before = simulate(Toy(), observed, draws=draws, seed=4)
    for first, cells in ((100, 100), (333, 100_000), (10**6, 10**6)):
        monkeypatch.setattr(nulls, "_FIRST", first)
        monkeypatch.setattr(nulls, "_CELLS", cells)
        after = simulate(Toy(), observed, draws=draws, seed=4)
        assert (after.draws, after.exceeding, after.pvalue) == (before.draws, before.exceeding, before.pvalue)
        assert np.array_equal(after.sample[:1000], before.sample[:1000])


def test_wide_releases_are_drawn_in_small_chunks():
    sizes = []

    class Watched(Toy):
        def draw(self, fitted, size, rng):
            sizes.append(size)
            return super().draw(fitted, size, rng)

    found = simulate(Watched(width=50_000), np.full(50_000, 2.0), draws=250)
    assert found.draws == sum(sizes) == 250
    assert max(sizes) == 100


@pytest.mark.parametrize("draws", ["adaptive", 4000])
def test_draws_that_could_not_be_evaluated_count_against_rejection(draws):
    found = simulate(Toy(sometimes_nan), np.array([2.0]), draws=draws, seed=1)
    assert found.failed == found.exceeding > 0
    assert found.pvalue == pytest.approx(0.1, abs=5 * found.error)
    some = simulate(Toy(sometimes_nan), np.array([0.95]), draws=draws, seed=1)
    assert 0 < some.failed < some.exceeding
    assert some.pvalue == pytest.approx(0.15, abs=5 * some.error)
    everything = simulate(Toy(lambda u: u * np.nan), np.array([2.0]), draws=draws)
    assert everything.pvalue == 1
    assert everything.failed == everything.draws


@pytest.mark.parametrize("observed", [np.nan, np.inf, -np.inf])
def test_a_statistic_that_could_not_be_computed_never_rejects(observed):
    for draws in ("adaptive", 99):
        found = simulate(Toy(), np.array([observed]), draws=draws)
        assert (found.pvalue, found.draws, found.sample.size) == (1.0, 0, 0)
        assert np.isfinite(found.error)


def test_batches_never_reject_by_a_statistic_that_could_not_be_computed():
    both = batch_pvalues(Toy(), np.array([[np.nan], [2.0]]), draws=99, rng=np.random.default_rng(1))
    assert both.tolist() == [1.0, 0.01]


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e12])
@pytest.mark.parametrize("nudge", [0.0, 1e-12, -1e-12])
def test_ties_count_as_reached(scale, nudge):
    """Half of the draws equal the statistic up to rounding; the others are below."""
    model = Toy(lambda u: scale * np.where(u < 0.5, 1.0, 0.0))
    observed = np.array([scale * (1 + nudge)])
    found = simulate(model, observed, draws=2000, seed=2)
    assert found.exceeding == (np.random.default_rng(2).random(2000) < 0.5).sum()
    batch = batch_pvalues(model, observed[None], draws=2000, rng=np.random.default_rng(2))
    assert batch.tolist() == [found.pvalue]


def test_a_constant_statistic_has_pvalue_one():
    for draws in ("adaptive", 99):
        assert simulate(Toy(lambda u: 0 * u), np.zeros(1), draws=draws).pvalue == 1


def test_the_seed_decides_the_draws_alone():
    observed = np.array([0.9])
    first, again, other = (simulate(Toy(), observed, draws=999, seed=seed) for seed in (11, 11, 12))
    assert first.pvalue == again.pvalue
    assert np.array_equal(first.sample, again.sample)
    assert not np.array_equal(first.sample, other.sample)
    assert len({simulate(Toy(), observed, seed=seed).pvalue for seed in range(20)}) > 10
    assert (first.seed, other.seed) == (11, 12)


@pytest.mark.parametrize("draws", [0, -5, 98, 10_000_001, 999.0, "many", None, True, np.int64(999)])
def test_what_is_no_number_of_draws_is_refused(draws):
    with pytest.raises(OptionError, match=r'^draws=.*"adaptive", or a whole number from 99'):
        simulate(Toy(), np.zeros(1), draws=draws)


@pytest.mark.parametrize("seed", [-1, 0.0, None, "0", True, np.random.default_rng(1)])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(OptionError, match=r"^seed=.*draws no privacy noise"):
        simulate(Toy(), np.zeros(1), seed=seed)
    with pytest.raises(OptionError, match=r"^seed="):
        check_draws("adaptive", seed)


def test_batches_give_the_pvalues_of_single_releases():
    observed = np.linspace(-0.1, 1.1, 13)[:, None]
    rng = np.random.default_rng(6)
    batch = batch_pvalues(Toy(), observed, draws=500, rng=rng)
    stream = np.random.default_rng(6).random((13, 500))
    assert batch == pytest.approx((1 + (stream >= observed).sum(axis=1)) / 501)
    for place in (0, 12):
        single = simulate(Toy(), observed[place], draws=500, seed=6)
        assert single.pvalue == pytest.approx(batch[place], abs=0.05)


def test_batches_are_uniform_on_their_lattice(monkeypatch):
    """20,000 p-values on {.05, .1, ..., 1}, in chunks; a false alarm once in 10,000 seeds."""
    monkeypatch.setattr(nulls, "_CELLS", 19 * 700)
    rng = np.random.default_rng(8)
    found = batch_pvalues(Toy(), rng.random((20_000, 1)), draws=19, rng=rng)
    counts = np.bincount(np.rint(found * 20).astype(int), minlength=21)
    assert counts[0] == 0
    assert stats.chisquare(counts[1:]).pvalue > 1e-4
