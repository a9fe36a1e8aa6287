"""The descent through blocks is the exponential mechanism over all points of the grid, and keeps its price."""

import itertools
from collections import Counter
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import combinations_with_replacement
from math import ceil

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

import dpinfer as dpi
from dpinfer.kernel import quantiles
from dpinfer.kernel.quantiles import FAN_OUT, RankScores, chosen_points, log_weights
from dpinfer.kernel.rows.tree import LARGEST_CHOICE, RANK, SLACK
from dpinfer.kernel.sampling import PrivateDraws, SimulatedDraws
from dpinfer.kernel.sources import Table, open_source
from dpinfer.privacy.accounting import gaussian_amount
from dpinfer.privacy.units import NEIGHBORS, pure_mu

PROBABILITIES = st.sampled_from([0, 1, Fraction(1, 2), Fraction(1, 4), Fraction(943718, RANK)]).map(Fraction)


def direct_scores(places, points, q):
    """Score of every point, in ranks: minus by how much it misses the rank q n."""
    n = len(places)
    upto = np.array([np.sum(np.asarray(places) <= x) for x in range(points)], dtype=float)
    below = np.array([np.sum(np.asarray(places) < x) for x in range(points)], dtype=float)
    return -np.maximum(np.maximum(float(q) * n - upto, below - float(q) * n), 0.0)


class _UnknownChoice(Exception):
    """A choice was asked for that the path does not hold; carries the log probabilities."""


def log_law(places, points, q, scale):
    """Exact law of the descent: all branches, each with the product of its probabilities (points,)."""
    places = np.sort(np.asarray(places, dtype=np.int64))
    found = np.full(points, -np.inf)

    def follow(path, log_probability):
        taken = iter(path)

        def draw(scores, given_scale):
            assert given_scale == scale * RANK
            assert len(scores) > 1
            assert all(type(score) is int for score in scores)
            place = next(taken, None)
            if place is None:
                raise _UnknownChoice(special.log_softmax(np.array(scores, dtype=float) / given_scale))
            return place

        try:
            point = quantiles._choose(places, points, q, scale * RANK, draw)
        except _UnknownChoice as choice:
            for place, log_share in enumerate(choice.args[0].tolist()):
                follow([*path, place], log_probability + log_share)
        else:
            assert found[point] == -np.inf, "two paths lead to one point"
            found[point] = log_probability

    follow([], 0.0)
    return found


@st.composite
def cases(draw, most=40):
    points = draw(st.integers(2, most))
    places = draw(st.lists(st.integers(0, points - 1), max_size=8))
    return points, places, draw(PROBABILITIES), draw(st.sampled_from([2, 3, 5, 1024]))


def sorted_array(places, dtype=np.int64):
    return np.sort(np.asarray(places, dtype=dtype))


@given(cases(), st.sampled_from([np.int32, np.int64]))
def test_stretches_of_equal_score_are_those_of_the_definition(case, dtype):
    points, places, q, _ = case
    scores = RankScores(sorted_array(places, dtype), points, q)
    starts = scores.starts(np.arange(scores.size + 1))
    assert starts[0] == 0
    assert (np.diff(starts) >= 0).all()
    assert starts[-1] == points
    held = np.repeat(np.arange(scores.size), np.diff(starts))
    np.testing.assert_array_equal(scores.stretch(np.arange(points)), held)
    per_point = scores.scores(held) / RANK
    np.testing.assert_allclose(per_point, direct_scores(places, points, q), atol=1e-5)
    assert per_point[scores.peak] == per_point.max()
    assert (np.diff(per_point[: scores.peak + 1]) >= 0).all()
    assert (np.diff(per_point[scores.peak :]) <= 0).all()


@pytest.mark.slow
@given(cases(), st.sampled_from([0.3, 2.0, 50.0]))
def test_the_descent_has_the_law_of_the_exponential_mechanism(case, scale):
    points, places, q, fan_out = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantiles, "FAN_OUT", fan_out)
        found = log_law(places, points, q, scale)
    direct = special.log_softmax(direct_scores(places, points, q) / scale)
    np.testing.assert_allclose(found, direct, rtol=0, atol=SLACK / (scale * RANK) + 1e-12)


def scale_for(epsilon, q, neighbors):
    moved = 2 * (1 if neighbors == "replace_one" else max(q, 1 - q))
    return (float(moved) + SLACK / RANK) / epsilon


@pytest.mark.slow
@settings(max_examples=50)
@given(cases(), st.data(), st.sampled_from([0.1, 1.0, 6.0]))
def test_no_neighbour_changes_a_probability_by_more_than_epsilon(case, data, epsilon):
    """Of the whole descent, exactly: over all branches, to the last digits of the arithmetic of this test."""
    points, places, q, fan_out = case
    one, other = (data.draw(st.integers(0, points - 1)) for _ in range(2))
    pairs = {"add_remove": (places, [*places, one]), "replace_one": ([*places, one], [*places, other])}
    for neighbors, (first, second) in pairs.items():
        scale = scale_for(epsilon, q, neighbors)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(quantiles, "FAN_OUT", fan_out)
            change = log_law(first, points, q, scale) - log_law(second, points, q, scale)
        assert change.max() - change.min() <= epsilon + 1e-11
        assert np.abs(change).max() <= epsilon + 1e-11


@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_neighbours_can_use_nearly_all_of_epsilon(neighbors):
    q, epsilon, points = Fraction(3, 4), 1.0, 400
    scale = scale_for(epsilon, q, neighbors)
    first, second = [300] * 3, [*[300] * 3, 399]
    if neighbors == "replace_one":
        first = [0, *first]
    change = log_law(first, points, q, scale) - log_law(second, points, q, scale)
    assert 0.9999 * epsilon < change.max() - change.min() <= epsilon


def log_probability_of(point, places, points, q, scale):
    """Log probability that the descent through 2^30 points ends at one: its blocks are the digits of the point."""
    path, found = iter(point.to_bytes(4, "big")), []

    def draw(scores, given_scale):
        place = next(path)
        found.append(special.log_softmax(np.array(scores, dtype=float) / given_scale)[place])
        return place

    assert quantiles._choose(np.sort(np.array(places, dtype=np.int64)), points, q, scale * RANK, draw) == point
    assert len(found) == 4
    return sum(found)


def test_on_the_whole_grid_points_have_their_weight():
    points, q, scale = 2**30, Fraction(1, 2), 1.7
    places = [5, 1023, 1024, 2**20, 2**29, 2**29 + 1, 2**30 - 1, 2**30 - 1]
    scores = RankScores(np.array(places), points, q)
    every = np.arange(scores.size)
    total = special.logsumexp(
        scores.scores(every) / (scale * RANK), b=np.diff(scores.starts(np.arange(scores.size + 1)))
    )
    for point in (0, 5, 6, 1023, 1024, 1025, 2**20 + 1, 2**29, 2**29 + 1, 2**30 - 1):
        score = float(scores.scores(scores.stretch(np.array([point])))[0]) / (scale * RANK)
        found = log_probability_of(point, places, points, q, scale)
        assert found == pytest.approx(score - total, abs=SLACK / (scale * RANK))


@pytest.mark.parametrize("epsilon", [1e-4, 0.01, 1.0])
def test_on_the_whole_grid_neighbours_stay_within_epsilon(epsilon):
    points, rng = 2**30, np.random.default_rng(3)
    for q in (Fraction(0), Fraction(1, 2), Fraction(9, 10)):
        exact = Fraction(round(q * RANK), RANK)
        scale = scale_for(epsilon, exact, "add_remove")
        places = rng.integers(0, points, 30).tolist()
        for more in (0, points - 1, places[3]):
            tried = [0, 1, *places[:4], places[3] + 1, points - 2, points - 1]
            change = [
                log_probability_of(point, places, points, exact, scale)
                - log_probability_of(point, [*places, more], points, exact, scale)
                for point in tried
            ]
            assert max(change) - min(change) <= epsilon + 1e-11


def test_every_descent_ends_on_the_grid():
    for points in (2, 3, 1024, 1025, 2**20 + 1, 2**30, 2**53 - 1):
        places = np.array([0, points // 2, points - 1])
        for q, end in itertools.product((Fraction(0), Fraction(1, 4), Fraction(1)), (0, -1)):
            steps = []

            def draw(scores, scale, end=end, steps=steps):
                steps.append(len(scores))
                return end % len(scores)

            assert quantiles._choose(places, points, q, RANK * 1.0, draw) == end % points
            assert max(steps) <= quantiles.FAN_OUT
            assert len(steps) <= 7


def widths_of(draws, places, points, q):
    """How many blocks each draw is from, and the point that the descent ends at."""
    widths, given = [], iter(draws)

    def draw(scores, scale):
        widths.append(len(scores))
        return next(given) % len(scores)

    return widths, quantiles._choose(sorted_array(places), points, q, 2.0 * RANK, draw)


@given(cases(3000), st.lists(st.integers(0, 4999), min_size=12, max_size=12))
def test_the_number_of_draws_depends_on_the_grid_and_the_chosen_point_alone(case, draws):
    points, places, q, fan_out = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantiles, "FAN_OUT", fan_out)
        assert widths_of(draws, places, points, q) == widths_of(draws, [], points, Fraction(0))


# Groups and rows

SCHEMA = dpi.Schema(k=dpi.Integer(0, 99), g=dpi.Category(["a", "b", "c"]))


def choose(q, price, frame, draws, **options):
    """Choose as the kernel does, with the rows and scales of the priced stage."""
    asked = dpi.quantile("k", q=q, method="exponential", resolution=2, **options)
    stage = asked.measurement(price, schema=SCHEMA).stages[0]
    return chosen_points(stage.rows, stage.stage.measure.probabilities, stage.law.scales, open_source(frame), draws)


def test_points_are_chosen_group_by_group_from_their_own_rows():
    frame = pd.DataFrame({"k": [*[10] * 50, *[20] * 50, *[90] * 50], "g": [*"a" * 50, *"c" * 50, *"?" * 50]})
    found = choose([0.25, 0.5], dpi.PureDP(1e6), frame, SimulatedDraws(np.random.default_rng(0)), by="g")
    assert len(found) == 6
    assert found[:2] + found[4:] == [10, 10, 20, 20]
    assert choose([0.25, 0.5], dpi.PureDP(1e6), frame, PrivateDraws(), by="g")[:2] == [10, 10]


def test_rows_are_read_in_chunks(monkeypatch):
    frame = SCHEMA.sample(500, np.random.default_rng(2))

    def found():
        draws = SimulatedDraws(np.random.default_rng(7))
        return choose([0.1, 0.5, 0.9], dpi.PureDP(3.0), frame, draws, where="g == 'a'")

    whole, slices = found(), Table.slices
    monkeypatch.setattr(Table, "slices", lambda source, most: slices(source, min(most, 13)))
    assert found() == whole


@pytest.mark.slow
def test_without_rows_every_point_is_as_likely():
    """100 points and 3,000 draws: the largest of 100 counts exceeds 70 with probability below 1e-6."""
    stage = dpi.quantile("k", q=0.5, method="exponential").measurement(dpi.PureDP(1.0), schema=SCHEMA).stages[0]
    asked = stage.rows, stage.stage.measure.probabilities, stage.law.scales
    draws = SimulatedDraws(np.random.default_rng(1))
    empty = open_source(SCHEMA.sample(0, np.random.default_rng(0)))
    counts = np.bincount([chosen_points(*asked, empty, draws)[0] for _ in range(3000)], minlength=100)
    assert len(counts) == 100
    assert counts.min() > 0
    assert counts.max() <= 70


@pytest.mark.parametrize("price", [dpi.PureDP(0.5), dpi.ZCDP(0.02), dpi.GDP(0.3), dpi.ApproxDP(0.5, 1e-6)], ids=str)
def test_choices_take_a_quarter_of_the_price_and_no_more(price):
    """The epsilon of a scale, against what the cost of the whole says: all choices of a row, and the tree."""
    asks = ((0.5, ()), ([0.1, 0.9], ()), ([0.1, 0.5], "g"))
    for (q, by), neighbors in itertools.product(asks, NEIGHBORS):
        asked = dpi.quantile("k", q=q, method="exponential", by=by, resolution=4)
        measured = asked.measurement(price, schema=SCHEMA, neighbors=neighbors)
        chosen, halves = measured.stages[0], 2 if by and neighbors == "replace_one" else 1
        probabilities = chosen.stage.measure.probabilities
        assert chosen.law.scales == chosen.law.scales[: len(probabilities)] * chosen.rows.tree.size
        moved = [2 * (1.0 if neighbors == "replace_one" else max(p, 1 - p)) for p in map(float, probabilities)]
        scales = np.array(chosen.law.scales[: len(probabilities)]) / RANK
        epsilons = (np.array(moved) / scales).repeat(halves)
        (whole,) = (price if isinstance(price, dpi.PureDP) else gaussian_amount(price)).composable
        if isinstance(price, dpi.PureDP):
            used, spent = epsilons.sum(), measured.cost.pure_epsilon
        elif isinstance(price, dpi.ZCDP):
            used, spent = (epsilons**2 / 8).sum(), measured.cost.rho
        else:
            used, spent = sum(pure_mu(one / 2) ** 2 for one in epsilons), measured.cost.mu_squared
        assert 0.2499 < used / float(whole) <= 0.25
        assert whole * (1 - Fraction(1, 10**9)) <= spent <= whole
        dpi.Ledger.in_memory(price, neighbors=neighbors).charge(measured.cost, "all of it")


# The score of a point is how many rows have to change until it is a quantile: by enumeration of all small tables


POINTS, MOST = 3, 7
FIVE = [Fraction(1, 2), Fraction(1, 4), Fraction(3, 4), Fraction(1, 8), Fraction(13, 16)]
TABLES = [rows for size in range(MOST + 1) for rows in combinations_with_replacement(range(POINTS), size)]


def distances(rows, p):
    """Distances in rank of all points of the grid, by the kernel's own scores, as fractions of a row."""
    scores = RankScores(np.array(rows, dtype=np.int32), POINTS, p)
    return [Fraction(-int(one), RANK) for one in scores.scores(scores.stretch(np.arange(POINTS)))]


def is_quantile(rows, point, p):
    """Whether no more than p N rows are below a point, and p N at least are not above it."""
    return sum(row < point for row in rows) <= p * len(rows) <= sum(row <= point for row in rows)


def changes(one, other, neighbors):
    """Rows that have to be added, removed or replaced from a table to another; None where there is no way."""
    left, right = Counter(one), Counter(other)
    gone, come = (left - right).total(), (right - left).total()
    if neighbors == "add_remove":
        return gone + come
    return gone if len(one) == len(other) else None


def fewest(rows, point, p, neighbors):
    """Fewest changes until a point is a quantile."""
    found = (changes(rows, one, neighbors) for one in TABLES if is_quantile(one, point, p))
    return min((one for one in found if one is not None), default=None)


@pytest.mark.parametrize("p", FIVE, ids=str)
def test_where_rows_are_replaced_the_distance_in_rank_rounded_up_is_how_many(p):
    for rows in TABLES[1:]:
        found = [fewest(rows, point, p, "replace_one") for point in range(POINTS)]
        assert found == [ceil(one) for one in distances(rows, p)]


@pytest.mark.parametrize("p", FIVE, ids=str)
def test_where_rows_are_added_and_removed_it_is_in_units_of_the_larger_of_p_and_one_minus_p(p):
    """One more may be needed, but not for the median. Tables of at most three rows: none enumerated is too far."""
    more = set()
    for rows in (one for one in TABLES if len(one) <= 3):
        expected = [ceil(one / max(p, 1 - p)) for one in distances(rows, p)]
        for point, least in enumerate(expected):
            if least < MOST - len(rows):
                more.add(fewest(rows, point, p, "add_remove") - least)
    assert more == ({0} if p == Fraction(1, 2) else {0, 1})


# Log weights of blocks against arithmetic with fifty digits, at the largest scale that is permitted


STATED = Decimal("0.71")
"""Steps by which docs/quantiles.md says that a log weight can be off."""

DIGITS = Context(prec=50)
HALF = Fraction(1, 2)


def exact_log_weights(scores, edges, stop, scale):
    """The same in fifty digits, from the definition: stretches between values and behind them, cut at the edges."""
    values, counts = np.unique(scores.places, return_counts=True)
    begins = {0, *values.tolist(), *(values + 1).tolist(), *edges} - {scores.points}
    begins = [one for one in sorted(begins) if edges[0] <= one < stop]
    n, target = len(scores.places), int(scores.probability * RANK) * len(scores.places)
    upto = np.concatenate([[0], np.cumsum(counts)])[np.searchsorted(values, begins, side="right")].tolist()
    below = np.concatenate([[0], np.cumsum(counts)])[np.searchsorted(values, begins, side="left")].tolist()
    assert max(upto, default=0) <= n
    held = [-max(0, target - up * RANK, low * RANK - target) for up, low in zip(upto, below, strict=True)]
    ends = [*begins[1:], stop]
    found, inner = [], [*edges[1:], stop]
    with localcontext(DIGITS):
        step = Decimal(scale)
        for first, last in zip(edges, inner, strict=True):
            mine = [place for place, begin in enumerate(begins) if first <= begin < last]
            top = max(held[place] for place in mine)
            terms = [(ends[place] - begins[place]) * (Decimal(held[place] - top) / step).exp() for place in mine]
            found.append(top + step * sum(terms).ln())
    return found


def errors(places, points, probability, edges, stop, scale):
    dtype = np.int32 if points < 2**31 else np.int64
    scores = RankScores(np.sort(np.array(places, dtype=dtype)), points, probability)
    found = log_weights(scores, np.array(edges), stop, scale)
    assert all(type(one) is int for one in found)
    exact = exact_log_weights(scores, edges, stop, scale)
    return [abs(Decimal(one) - other) for one, other in zip(found, exact, strict=True)]


def test_the_slack_covers_what_rounding_does_at_every_level():
    """Two log weights, of a block and of all, on each of two data sets, at either end of the range; seven levels."""
    levels = 0
    while FAN_OUT**levels < 2**54 + 1:
        levels += 1
    assert levels == 7
    assert 8 * levels * STATED <= 8 * levels <= SLACK


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([2, 1000, 2**20 + 1, 2**30, 2**54 + 1]),
    st.data(),
    st.sampled_from([LARGEST_CHOICE, LARGEST_CHOICE / 3, 2.0**24, 2.0**16]),
)
def test_log_weights_are_as_exact_as_stated(points, data, scale):
    inside = st.integers(0, points - 1)
    places = data.draw(st.lists(st.one_of(inside, st.integers(0, min(points - 1, 9))), max_size=25))
    edges = sorted(data.draw(st.sets(inside, min_size=1, max_size=6)))
    stop = data.draw(st.integers(edges[-1] + 1, points))
    probability = data.draw(st.sampled_from([Fraction(0), Fraction(1), HALF, Fraction(943718, RANK)]))
    assert max(errors(places, points, probability, edges, stop, scale)) <= STATED


def adversarial():
    """Cases in which rounding adds up: many nearly equal terms, and long stretches far below the top."""
    rng = np.random.default_rng(0)
    spread = np.sort(rng.integers(0, 2**30, 20_000)).tolist()
    tied = sorted([*[2**29] * 300_000, *spread[:5000]])
    growing = np.cumsum(np.exp(np.linspace(0, 36, 4000)).astype(np.int64) + 1)
    growing = growing[growing < 2**54].tolist()
    return {
        "one block of many terms": (spread, 2**30, HALF, [0], 2**30),
        "an end of the law": (spread, 2**30, Fraction(1), [0, 2**29, 2**30 - 5], 2**30),
        "runs of several blocks": (spread, 2**30, Fraction(943718, RANK), [2**20 * k for k in range(64)], 2**26),
        "many ties": (tied, 2**30, HALF, [0, 2**29 - 3, 2**29, 2**29 + 1], 2**30),
        "stretches as long as they are unlikely": (growing, 2**54 + 1, Fraction(0), [0, 2**53], 2**54 + 1),
        "rising stretches": ([2**54 - one for one in growing], 2**54 + 1, Fraction(1), [0, 2**53], 2**54 + 1),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", adversarial())
@pytest.mark.parametrize("scale", [LARGEST_CHOICE, LARGEST_CHOICE * 0.7, 2.0**30, 100 * RANK])
def test_log_weights_of_adversarial_values_are_as_exact_as_stated(name, scale):
    assert max(errors(*adversarial()[name], scale)) <= STATED


def test_points_that_are_left_out_weigh_next_to_nothing(monkeypatch):
    """As many points as a grid can have, at the largest noise, just behind the last stretch that is computed."""
    monkeypatch.setattr(quantiles, "RANK", 2**36)
    monkeypatch.setitem(globals(), "RANK", 2**36)
    rows = int(quantiles._NEXT_TO_NOTHING * LARGEST_CHOICE / RANK) + 3
    case = [0] * rows + [2**54 - 1] * 40, 2**54 + 1, Fraction(0), [0], 2**54 + 1, LARGEST_CHOICE
    assert max(errors(*case)) <= 0.51


def test_runs_do_not_change_a_weight(monkeypatch):
    rng = np.random.default_rng(5)
    places = np.sort(rng.integers(0, 2**30, 3000).astype(np.int32))
    scores, edges = RankScores(places, 2**30, HALF), 2**20 * np.arange(1024)
    whole = log_weights(scores, edges, 2**30, 3.3 * RANK)
    monkeypatch.setattr(quantiles, "_RUN", 64)
    assert log_weights(scores, edges, 2**30, 3.3 * RANK) == whole


def units(found, exact):
    """Largest error in units in the last place of the exact number."""
    last = np.spacing(np.abs(found))
    pairs = zip(found.tolist(), exact, last.tolist(), strict=True)
    with localcontext(DIGITS):
        return max(float(abs(Decimal(one) - other) / Decimal(unit)) for one, other, unit in pairs)


def test_exp_and_log_are_within_four_units_in_the_last_place():
    """What the bound assumes of the library, at arguments such as occur."""
    rng = np.random.default_rng(1)
    small = -np.concatenate([rng.random(4000) * 700, rng.random(2000), 2.0 ** -rng.uniform(0, 60, 2000)])
    large = np.concatenate([2.0 ** rng.uniform(0, 54, 4000), 1 + rng.random(4000), 1 + 2.0 ** -rng.uniform(0, 52, 999)])
    with localcontext(DIGITS):
        powers, logs = [Decimal(one).exp() for one in small.tolist()], [Decimal(one).ln() for one in large.tolist()]
    assert units(np.exp(small), powers) < 4
    assert units(np.log(large), logs) < 4
