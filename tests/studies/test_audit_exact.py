"""Prices and changes derived anew: against closed forms, and against the kernel's own price."""

import dataclasses
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

import dpinfer as dpi
from dpinfer.kernel.stage import Largest, Place
from dpinfer.privacy.accounting import choice_epsilon
from dpinfer.release.laws import NoiseLaw
from dpinfer.studies.audit_draws import _masses, _middle, bins_of, choice_test, law_tests, shares_pvalue
from dpinfer.studies.audit_exact import (
    answers_odds,
    exact_findings,
    first_logs,
    last_logs,
    log_odds,
    rank_bins,
    score_logs,
    worst_above,
    worst_choice,
    worst_of,
    worst_place,
)
from dpinfer.studies.audit_pairs import (
    Units,
    added,
    choice_amount,
    losses,
    privacy_loss,
    setting_of,
    stated_amount,
    worst_units,
)

SCHEMA = dpi.Schema(income=dpi.Real(0, 200), age=dpi.Integer(0, 100), race=dpi.Category(["a", "b", "c"]))
PRICES = [dpi.PureDP(1), dpi.ZCDP(0.5), dpi.GDP(0.5), dpi.ApproxDP(1, 1e-6)]


def asked(procedure, privacy, neighbors="add_remove", schema=SCHEMA, seed=1):
    setting = setting_of(procedure, schema, privacy, neighbors, None, np.random.default_rng(seed))
    return setting, setting.audited_run(), Units(schema, neighbors, np.random.default_rng(seed))


# Prices


def test_prices_are_read_as_the_decimals_that_they_print_as():
    assert stated_amount(dpi.PureDP(0.1)).amount == Fraction(1, 10)
    assert stated_amount(dpi.ZCDP(0.1)).amount == Fraction(1, 5)
    assert stated_amount(dpi.GDP(0.3)).amount == Fraction(9, 100)


def test_approximate_privacy_states_the_largest_mu_that_implies_it():
    mu = stated_amount(dpi.ApproxDP(1.0, 1e-6)).level
    profile = special.ndtr(-1 / mu + mu / 2) - math.e * special.ndtr(-1 / mu - mu / 2)
    assert profile == pytest.approx(1e-6, rel=1e-4)


def test_shares_and_ratios():
    stated = stated_amount(dpi.ZCDP(0.5))
    assert stated.share(Fraction(1, 4)).ratio(Fraction(1, 4)) == 1.0
    assert stated.exceeded(Fraction(1) + Fraction(1, 10**30))
    assert not stated.exceeded(Fraction(1))
    assert stated.ratio(math.inf) == math.inf


@pytest.mark.parametrize("privacy", PRICES, ids=str)
@pytest.mark.parametrize("law", ["gumbel", "exponential"])
def test_the_price_of_a_choice_is_that_of_its_epsilon(privacy, law):
    """The kernel's largest epsilon for a price gives away just that price."""
    amount = choice_amount(Fraction(choice_epsilon(privacy, law)), privacy, law)
    assert float(amount / stated_amount(privacy).amount) == pytest.approx(1.0, rel=2e-3)
    assert amount <= stated_amount(privacy).amount


# Changes


def test_what_noise_gives_away_of_a_change():
    _, found, _ = asked(dpi.count(), dpi.ZCDP(0.5))
    stage = replace(found.stages[0], law=NoiseLaw("gaussian", (2.0,)), multiplier=3)
    assert privacy_loss([1], stage) == Fraction(9, 4)
    assert privacy_loss([1], replace(stage, law=NoiseLaw("laplace", (2.0,)))) == Fraction(3, 2)
    bare = replace(stage, law=NoiseLaw("gaussian", (0.0,)))
    assert privacy_loss([1], bare) == math.inf
    assert privacy_loss([0], bare) == 0
    assert losses(np.array([[1.0], [0.0]]), bare).tolist() == [math.inf, 0.0]


@pytest.mark.parametrize("privacy", PRICES, ids=str)
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    "procedure",
    [dpi.mean(["income", "age"], by="race"), dpi.gram(["income", "age", "race"]), dpi.table(["race"])],
    ids=["mean", "gram", "table"],
)
def test_the_worst_pair_reaches_the_price_and_is_not_above_it(procedure, neighbors, privacy):
    setting, found, units = asked(procedure, privacy, neighbors)
    worst = worst_of(found, setting, units)
    for one in exact_findings(found, worst, setting):
        assert one.passed, one
    # Replaced rows of a Gram under Laplace noise are priced by the triangle inequality, which no pair reaches.
    assert worst[0].share.ratio(worst[0].amount) > 0.5


@pytest.mark.parametrize("people", [None, 3])
def test_people_move_sums_by_all_of_their_rows(people):
    frame = SCHEMA.sample(30, np.random.default_rng(0))
    frame["who"] = np.arange(30) // 3
    options = {} if people is None else {"id": "who", "max_rows": people}
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(0), **options)
    _, found, units = asked(dpi.count(), dpi.PureDP(1), schema=data.schema)
    assert worst_units(found.stages[0], units).change == [people or 1]


def test_climbing_is_in_exact_integers():
    _, found, units = asked(dpi.gram(["income", "age"]), dpi.ZCDP(0.5))
    worst = worst_units(found.stages[0], units)
    assert worst.pair.second is None
    assert worst.change == added(found.stages[0], worst.pair.first)
    assert isinstance(worst.amount, Fraction)


# Choices


def test_probabilities_of_choices_are_closed_forms_for_two():
    gap = 1.3
    softmax = np.exp(score_logs(np.array([gap, 0.0]), "gumbel", 1.0))
    assert softmax[1] == pytest.approx(1 / (1 + math.exp(gap)))
    flipped = np.exp(score_logs(np.array([gap, 0.0]), "exponential", 1.0))
    assert flipped[1] == pytest.approx(math.exp(-gap) / 2)
    many = np.exp(score_logs(np.linspace(0, 5, 40), "exponential", 2.0))
    assert many.sum() == pytest.approx(1.0)


def test_log_odds_of_a_coin_are_those_of_randomised_response():
    first, second = np.log([0.75, 0.25]), np.log([0.25, 0.75])
    epsilon, mu = log_odds(first, second)
    assert epsilon == pytest.approx(math.log(3))
    assert mu == pytest.approx(2 * special.ndtri(0.75))


def test_mu_of_a_choice_under_zcdp_is_that_of_its_renyi_divergences():
    """The best test of the exponential mechanism shows a larger mu than sqrt(2 rho), which it does not state."""
    gap = 2.0  # bounded range: rho = gap^2/8, Cesar & Rogers 2021
    first, second = (score_logs(np.array([side * gap / 2, 0.0]), "gumbel", 1.0) for side in (1, -1))
    assert log_odds(first, second)[1] > math.sqrt(2 * gap**2 / 8)
    found = log_odds(first, second, dpi.ZCDP(gap**2 / 8))[1]
    p = 1 / (1 + math.exp(-gap / 2))
    order_two = math.log(p**2 / (1 - p) + (1 - p) ** 2 / p) / 2
    assert math.sqrt(2 * order_two) * 0.999 <= found <= math.sqrt(2 * gap**2 / 8)


def test_rank_bins_add_up_and_their_best_is_the_median():
    places = np.array([10, 20, 30, 40, 50])
    cuts, logs = rank_bins(places, 100, Fraction(1, 2), 2.0**20)
    assert np.exp(logs).sum() == pytest.approx(1.0)
    each = logs - np.log(np.diff(np.append(cuts, 100)))
    assert cuts[int(np.argmax(each))] == 30


@pytest.mark.parametrize("privacy", PRICES[:3], ids=str)
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_choices_are_not_above_their_price(neighbors, privacy):
    setting, found, units = asked(dpi.most_frequent("race"), privacy, neighbors)
    assert isinstance(found.stages[0].stage.measure, Largest)
    worst = worst_choice(found.stages[0], units, privacy)
    assert 0.99 < found.shares[0].ratio(worst.amount) <= 1
    setting, found, units = asked(dpi.quantile("income", method="exponential"), privacy, neighbors)
    assert isinstance(found.stages[0].stage.measure, Place)
    worst, (epsilon, _) = worst_place(found.stages[0], units, privacy, setting.base.iloc[:9])
    assert 0.5 < found.shares[0].ratio(worst.amount) <= 1 + 1e-9
    assert epsilon > 0


@pytest.mark.parametrize("privacy", PRICES[:3], ids=str)
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_answers_to_thresholds_are_not_above_their_price_and_too_little_noise_is(neighbors, privacy):
    question = dpi.above_threshold(["race == 'a'", "income > 50", "income < 20"], threshold=9, answers=2)
    _, found, units = asked(question, privacy, neighbors)
    (stage,) = found.stages
    worst = worst_above(stage, units, privacy)
    assert 0.6 < found.shares[0].ratio(worst.amount) <= 1
    base = [0] * len(worst.change)
    epsilon, _ = answers_odds(stage, worst, base, privacy)
    assert 0 < epsilon <= stage.cost.pure_epsilon
    small = NoiseLaw("above", tuple(0.5 * one for one in stage.law.scales), shared=0.5 * stage.law.shared)
    worse = worst_above(dataclasses.replace(stage, law=small), units, privacy)
    assert found.shares[0].ratio(worse.amount) > 1.2
    for margins in ([-2.0, 0.0, 1.0], [3.0, -5.0, 0.0]):
        for logs in (first_logs(np.array(margins), 3.0, 4.0), last_logs(np.array(margins), 3.0, 4.0, 2)):
            assert np.exp(logs).sum() == pytest.approx(1.0)


# Samplers


@pytest.mark.parametrize(
    "law",
    [
        NoiseLaw("gaussian", (0.6,)),
        NoiseLaw("gaussian", (2.0**24,)),
        NoiseLaw("laplace", (0.4,)),
        NoiseLaw("laplace", (5.0,)),
        NoiseLaw("laplace", (1e6,)),
        NoiseLaw("laplace", (1.3,), 4),
        NoiseLaw("laplace", (1e5,), 12),
        NoiseLaw("tulap", (2.0 * 2**32,)),
    ],
    ids=str,
)
def test_samplers_keep_their_law(law):
    """Each fails with probability below 1e-7."""
    tests = law_tests(law, 4000)
    assert len(tests) >= 2
    assert all(test.pvalue > 1e-8 for test in tests), tests


@pytest.mark.parametrize("law", [NoiseLaw("gaussian", (3.0,)), NoiseLaw("laplace", (2.0**20,))], ids=str)
def test_samplers_of_another_scale_fail(law, monkeypatch):
    """Passes by chance with probability below 1e-9."""
    from dpinfer.kernel import sampling

    right = sampling.exact_noise
    monkeypatch.setattr(sampling, "exact_noise", lambda scales, gaussian: right(0.8 * scales, gaussian))
    assert min(test.pvalue for test in law_tests(law, 4000)) < 1e-10


def test_the_middle_of_a_law_is_summed_exactly():
    """Of a sum of two discrete Laplace draws by convolution; of large scales by the continuous law."""
    place, share = _middle(NoiseLaw("laplace", (1.5,), 2))
    support = np.arange(-80, 81)
    one = np.tanh(1 / 3) * np.exp(-np.abs(support) / 1.5)
    both = np.convolve(one, one)
    assert share == pytest.approx(both[160 - int(place) : 161 + int(place)].sum(), rel=1e-12)
    assert _middle(NoiseLaw("gaussian", (2.0**30,)))[1] == pytest.approx(0.5, abs=1e-8)
    assert _middle(NoiseLaw("laplace", (2.0**30,)))[1] == pytest.approx(0.5, abs=1e-8)
    assert _middle(NoiseLaw("laplace", (2.0**30,), 500))[1] == pytest.approx(0.5, abs=1e-3)
    small, large = (_middle(NoiseLaw("laplace", (scale,), 3))[1] for scale in (999.0, 1001.0))
    assert small == pytest.approx(large, abs=0.06)


def test_choices_of_other_probabilities_fail():
    chosen = np.random.default_rng(0).choice(3, 2000, p=[0.5, 0.3, 0.2])
    assert choice_test("x", chosen, np.log([0.5, 0.3, 0.2])).pvalue > 1e-6
    assert choice_test("x", chosen, np.log([0.4, 0.4, 0.2])).pvalue < 1e-10


@pytest.mark.parametrize("share", [0.01, 0.004, 0.3])
@pytest.mark.parametrize("level", [1e-3, 1e-6])
def test_pvalues_of_shares_hold_in_the_far_tail(share, level):
    """All counts of two outcomes, added up; Pearson's statistic is above these levels at a share of .01."""
    shares, met = np.array([share, 1 - share]), np.arange(1001)
    rejected = np.array([shares_pvalue(np.array([one, 1000 - one]), shares) <= level for one in met])
    assert 0 < stats.binom.pmf(met, 1000, share)[rejected].sum() <= level
    assert shares_pvalue(np.array([999, 1]), np.array([1.0, 0.0])) == 0


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_bins_of_large_scales_are_those_of_whole_numbers(family):
    law, support = NoiseLaw(family, (1000.5,)), np.arange(-40_000, 40_001)
    edges, below = bins_of(law)
    cumulative = np.cumsum(_masses(law, support.astype(float)))
    assert below == pytest.approx(cumulative[edges.astype(int) + 40_000], abs=1e-6)
