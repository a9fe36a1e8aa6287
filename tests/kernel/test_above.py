"""Comparisons with thresholds: the exact law of the answers, its privacy, and that of variants which are wrong."""

import itertools
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import BudgetExceededError, OptionError, PrivacyUnitError
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.run import answered, noisy_answers
from dpinfer.kernel.sampling import PrivateDraws, SimulatedDraws
from dpinfer.kernel.stage import Above, Largest, Stage
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.schema.grid import constant_basis
from tests.kernel.asked import ask

FALSE_ALARM = 1e-6
"""Probability that a test fails a sampler that is right."""

SCHEMA = dpi.Schema(a=dpi.Boolean(), b=dpi.Boolean(), c=dpi.Boolean(), x=dpi.Real(0, 3), s=dpi.Real(-3, 2))
WHOLE = dpi.Schema({name: dpi.Boolean(missing=False, impossible=False) for name in "abc"})
EPSILON = 1.0


def priced(*queries, threshold=0, answers=1, price=None, neighbors="add_remove", schema=SCHEMA):
    question = dpi.above_threshold(list(queries), threshold=threshold, answers=answers)
    return question.measurement(price or dpi.PureDP(EPSILON), schema=schema, neighbors=neighbors).stages[0]


# The exact law, by enumeration


def masses(scale, reach=None):
    """Whole numbers and their probabilities; scale 0 is no noise."""
    if scale == 0:
        return np.zeros(1, dtype=int), np.ones(1)
    values = np.arange(-int(50 * scale) - 3, int(50 * scale) + 4)
    weights = np.exp(-np.abs(values) / scale)
    return values, weights / weights.sum()


@cache
def law(margins, shared, own, most):
    """Probabilities of all answers for sums less thresholds; ``most`` None for no end."""
    values, weights = masses(shared)
    noise, chances = masses(own)
    up = np.array([[chances[m + noise >= z].sum() for z in values] for m in margins])
    found = {}
    for told in itertools.product((0, 1), repeat=len(margins)):
        ends = [place for place, one in enumerate(told) if one]
        reached = len(told) if most is None or len(ends) < most else ends[most - 1] + 1
        key = (*told[:reached], *(-1,) * (len(told) - reached))
        each = [up[j] if one else 1 - up[j] for j, one in enumerate(told[:reached])]
        found[key] = float((weights * np.prod(each, axis=0)).sum())
    return found


def largest_ratio(shared, own, most, changes, margins):
    """Largest log ratio of the probability of any answers, over changes of sums and sums."""
    found = 0.0
    for start in margins:
        first = law(start, shared, own, most)
        for change in changes:
            second = law(tuple(a + b for a, b in zip(start, change, strict=True)), shared, own, most)
            for told, chance in first.items():
                if chance > 1e-12 and second[told] > 1e-12:
                    found = max(found, abs(np.log(chance / second[told])))
    return found


MARGINS = [(0, 0, 0), (-4, -4, 3), (-9, -9, -9), (5, -5, 5), (1, 2, -3), (-6, -6, 0), (-2, -2, -2)]
EITHER_WAY = list(itertools.product((-1, 0, 1), repeat=3))
ONE_WAY = [change for change in EITHER_WAY if min(change) >= 0]


def test_the_law_adds_up():
    for most in (1, 2, 3, None):
        assert sum(law((1, -2, 0), 2.0, 3.0, most).values()) == pytest.approx(1.0)


@pytest.mark.parametrize(("answers", "sums"), [(1, (0, 0, 0)), (2, (2, -3, 1)), (3, (-2, -1, 4)), (3, (0, 0, 0))])
def test_answers_have_their_exact_law(answers, sums):
    """Each count is binomial: all p-values are above 1e-6 over their number but with probability 1e-6."""
    stage = priced("a", "b", "c", threshold=[5, 0, -2], answers=answers)
    margins = tuple(one - threshold for one, threshold in zip(sums, (5, 0, -2), strict=True))
    expected = law(margins, stage.law.shared, stage.law.scales[0], answers)
    for draws in (PrivateDraws(), SimulatedDraws(np.random.default_rng(4))):
        told = [tuple(noisy_answers(stage, list(sums), draws)) for _ in range(1000)]
        assert set(told) <= set(expected)
        pvalues = [stats.binomtest(told.count(key), len(told), min(p, 1.0)).pvalue for key, p in expected.items()]
        assert min(pvalues) > FALSE_ALARM / 2 / len(expected) / 4


@pytest.mark.parametrize("answers", [1, 2, 3])
@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_no_answers_tell_neighbours_apart_by_more_than_the_price(neighbors, answers):
    """All answers, all changes that neighbours make, and sums around the thresholds; ties are among them."""
    for price, schema in ((dpi.PureDP(1.0), SCHEMA), (dpi.PureDP(2.5), WHOLE)):
        stage = priced("a", "b", "c", answers=answers, neighbors=neighbors, price=price, schema=schema)
        changes = ONE_WAY if neighbors == "add_remove" else EITHER_WAY
        found = largest_ratio(stage.law.shared, stage.law.scales[0], answers, changes, MARGINS)
        assert 0.25 * price.epsilon < found <= price.epsilon * (1 + 1e-9)


def test_a_person_of_several_rows_moves_sums_further():
    people = dpi.PublicData(
        SCHEMA.sample(9, np.random.default_rng(1)).assign(who=1),
        SCHEMA,
        rng=np.random.default_rng(1),
        id="who",
        max_rows=2,
    )
    stage = dpi.above_threshold(["a", "b", "c"], people, threshold=0).measurement(dpi.PureDP(1.0)).stages[0]
    one = priced("a", "b", "c")
    assert (stage.bound, stage.law.shared) == (2, 2 * one.law.shared)
    changes = list(itertools.product((0, 1, 2), repeat=3))
    assert largest_ratio(stage.law.shared, stage.law.scales[0], 1, changes, MARGINS[:4]) <= 1 + 1e-9


def far_ratio(shared, own, answers, below, above, many=400, at=0):
    """Log ratio of ``many`` answers "below" and then ``answers`` "above", all at a distance from the threshold."""
    values, weights = masses(shared)
    noise, chances = masses(own)

    def chance(first, last):
        up = [np.array([chances[m + noise >= z].sum() for z in values]) for m in (at + first, at + last)]
        return (weights * (1 - up[0]) ** many * up[1] ** answers).sum()

    return float(np.log(chance(0, above) / chance(below, 0)))


@pytest.mark.parametrize("answers", [1, 3])
@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_the_worst_neighbours_come_near_the_price_and_not_above(neighbors, answers):
    """Many sums that fall and a few that rise; where all move one way the few stay, or the many do."""
    names = [f"q{place}" for place in range(4)]
    schema = dpi.Schema({name: dpi.Boolean() for name in names})
    stage = priced(*names, answers=answers, neighbors=neighbors, schema=schema)
    pairs = [(1, 1)] if neighbors == "replace_one" else [(1, 0), (0, 1)]
    found = [
        far_ratio(stage.law.shared, stage.law.scales[0], answers, *pair, at=round(at * stage.law.scales[0]))
        for pair in pairs
        for at in (-2, 0, 3)
    ]
    assert max(found) <= EPSILON * (1 + 1e-9)
    assert max(found) > {"replace_one": 0.9, "add_remove": 0.3}[neighbors] * EPSILON


# Variants of the literature (Lyu, Su & Li 2017, figure 1) at epsilon 1, for sums that change by one either way


def test_their_two_right_variants_pass():
    for answers in (1, 2):
        assert largest_ratio(2.0, 4.0 * answers, answers, EITHER_WAY, MARGINS) <= 1 + 1e-9
        assert far_ratio(2.0, 4.0 * answers, answers, 1, 1) <= 1 + 1e-9


def test_query_noise_that_forgets_the_number_of_answers_fails():
    """Their algorithm 4: a quarter of epsilon for the threshold, and query noise without the factor 2 c."""
    assert far_ratio(4.0, 4 / 3, 3, 1, 1, at=-8) > 1.5


def test_queries_without_noise_fail():
    """Their algorithm 5: an answer that is possible in one data set and impossible in its neighbour."""
    first, second = law((0, 1), 2.0, 0, None), law((1, 0), 2.0, 0, None)
    assert first[0, 1] > 0.1
    assert second[0, 1] < 1e-12


def test_answers_without_an_end_fail():
    """Their algorithm 6: half of the queries move down, half up, and all are answered."""
    values, weights = masses(2.0)
    noise, chances = masses(2.0)
    up, down = (np.array([chances[m + noise >= z].sum() for z in values]) for m in (1, 0))
    for half in (5, 20):
        ratio = (weights * ((1 - down) * up) ** half).sum() / (weights * ((1 - up) * down) ** half).sum()
        assert np.log(ratio) > half / 4
    assert np.log(ratio) > 1


def test_the_noisy_value_of_an_answer_fails():
    """Their algorithm 3: the value says that the threshold was not above it, which many answers "below" deny."""
    values, weights = masses(2.0)
    noise, chances = masses(2.0)
    below = [np.array([1 - chances[m + noise >= z].sum() for z in values]) for m in (0, 1)]
    for many in (5, 30):
        first, second = ((weights * one**many)[values <= 0].sum() for one in below)
        assert np.log(first / second) > many / 8
    assert np.log(first / second) > 1


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_too_little_noise_fails(share):
    stage = priced("a", "b", "c", neighbors="replace_one")
    shared, own = (share * one for one in (stage.law.shared, stage.law.scales[0]))
    assert far_ratio(shared, own, 1, 1, 1) > EPSILON


# Prices


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("answers", [1, 2, 3])
@pytest.mark.parametrize("price", [dpi.PureDP(0.1), dpi.PureDP(3), dpi.ZCDP(0.1), dpi.GDP(0.5), dpi.ApproxDP(1, 1e-6)])
def test_the_parts_add_up_to_no_more_than_the_price(neighbors, answers, price):
    for queries in (("a", "b", "x > 1"), ("x", "a", "b"), ("s", "x", "a"), ("-x", "s - 2", "-x*x")):
        stage = priced(*queries, answers=answers, price=price, neighbors=neighbors)
        one_way = neighbors == "add_remove" and "s" not in queries
        factor = answers if one_way else 2 * answers
        own = {Fraction(one) for one in stage.law.scales}
        assert len(own) == 1
        spent = stage.bound / Fraction(stage.law.shared) + factor * stage.bound / own.pop()
        assert Fraction(999_999, 10**6) * stage.cost.pure_epsilon < spent <= stage.cost.pure_epsilon
        if isinstance(price, dpi.PureDP):
            assert stage.cost.pure_epsilon == Fraction(repr(float(price.epsilon)))
        if isinstance(price, dpi.ZCDP):
            assert stage.cost.pure_epsilon**2 / 2 <= stage.cost.rho == Fraction(1, 10)


def test_bounds_of_one_sum_in_both_relations():
    def bound(*queries, neighbors, schema=SCHEMA):
        stage = priced(*queries, neighbors=neighbors, schema=schema)
        return float(stage.bound) * stage.steps[0], stage.rows.monotone(neighbors)

    assert bound("a", "b", neighbors="add_remove") == (1.0, True)
    assert bound("a", "b", neighbors="replace_one") == (1.0, False)
    assert bound("x", neighbors="add_remove") == (3.0, True)
    assert bound("s", neighbors="add_remove") == (3.0, False)
    assert bound("s", neighbors="replace_one") == (5.0, False)
    assert bound("-x", neighbors="add_remove") == (3.0, True)
    assert bound("x - 1", "a", neighbors="add_remove") == (2.0, False)
    far = dpi.Schema(x=dpi.Real(8, 9), y=dpi.Real(8, 9, missing=8, impossible=8))
    assert bound("x", neighbors="replace_one", schema=far)[0] == 9.0  # a row may be dropped
    assert bound("y", neighbors="replace_one", schema=far)[0] == 1.0


# Comparing


def test_ties_are_above_and_thresholds_between_whole_numbers_are_the_next():
    assert answered([5, 5, 5], [5, 6, 5], 2, 0, [0, 0, 0]) == [1, 0, 1]
    assert answered([5, 5, 5, 5], [5, 6, 5, 1], 2, 0, [0] * 4) == [1, 0, 1, -1]
    assert answered([5, 5], [5, 5], 2, 1, [0, 1]) == [0, 1]
    frame = pd.DataFrame({"a": [True] * 5, "b": [True] * 4 + [False]})
    schema = dpi.Schema(a=dpi.Boolean(), b=dpi.Boolean())
    data = dpi.PublicData(frame, schema, rng=np.random.default_rng(0))
    for threshold, right in ((5, "above"), (5.0, "above"), (5.001, "below"), (4.5, "above"), (6, "below")):
        found = dpi.above_threshold("a", data, threshold=threshold).fit(dpi.PureDP(200.0))
        assert found.answers == (right,)


def test_sums_beyond_64_bits_are_compared():
    huge = 10**40
    assert answered([huge, -huge], [huge - 1, -huge + 1], 2, 0, [0, 0]) == [1, 0]
    stage = priced("a", threshold=1e40)
    assert noisy_answers(stage, [huge], PrivateDraws()) == [0]  # 1e40 as a float is above that


def test_the_law_of_later_queries_is_that_of_new_noise():
    """The noise of all queries is drawn, whichever are reached: so many draws for any sums."""

    class Counted(SimulatedDraws):
        sizes: list[int]

        def noise(self, law):
            self.sizes.append(len(law.scales))
            return super().noise(law)

    stage = priced("a", "b", "c")
    draws = Counted(np.random.default_rng(1))
    draws.sizes = []
    for sums in ([1000, 0, 0], [-1000, -1000, -1000]):
        noisy_answers(stage, sums, draws)
    assert draws.sizes == [4, 4]


# What is refused

EXPRESSIONS = priced("a", "b").rows
BAD = {
    "thresholds in a list": lambda: Above(EXPRESSIONS, [1.5, 2], 1),
    "thresholds that are no whole numbers": lambda: Above(EXPRESSIONS, (1.5, 2), 1),
    "truth values": lambda: Above(EXPRESSIONS, (True, 2), 1),
    "too few thresholds": lambda: Above(EXPRESSIONS, (1,), 1),
    "no answers": lambda: Above(EXPRESSIONS, (1, 2), 0),
    "more answers than queries": lambda: Above(EXPRESSIONS, (1, 2), 3),
    "a true answer": lambda: Above(EXPRESSIONS, (1, 2), True),
    "other sums": lambda: Above(CellSum(Features(constant_basis(SCHEMA))), (1,), 1),
    "one candidate": lambda: Largest(priced("a").rows, "gumbel"),
}


@pytest.mark.parametrize("name", BAD)
def test_forged_stages_are_refused_before_the_charge(name):
    data = dpi.PrivateData(SCHEMA.sample(20, np.random.default_rng(1)), SCHEMA, dpi.Ledger.in_memory(dpi.PureDP(1.0)))
    with pytest.raises(OptionError):
        data.run(ask(Stage(BAD[name]())), dpi.PureDP(1.0))
    assert data.ledger.charges().empty


def test_the_whole_price_is_charged_whatever_is_answered():
    frame = SCHEMA.sample(50, np.random.default_rng(1))
    for threshold in (-1000, 1000):
        data = dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(dpi.PureDP(1.0)))
        question = dpi.above_threshold(["a", "b", "c"], data, threshold=threshold, answers=2)
        release = question.measure(dpi.PureDP(1.0))
        assert release.values == ((1, 1, -1) if threshold < 0 else (0, 0, 0))  # noqa: PD011
        assert data.ledger.spent == dpi.PureDP(1.0)
        with pytest.raises(BudgetExceededError):
            question.measure(dpi.PureDP(0.01))


def test_prices_that_leave_no_noise_or_too_much_cost_nothing():
    data = dpi.PrivateData(SCHEMA.sample(9, np.random.default_rng(1)), SCHEMA, dpi.Ledger.in_memory(dpi.PureDP(1e9)))
    for price in (dpi.PureDP(1e-17), dpi.PureDP(1e6)):
        with pytest.raises(PrivacyUnitError):
            dpi.above_threshold("a", data, threshold=3).fit(price)
    assert data.ledger.charges().empty
