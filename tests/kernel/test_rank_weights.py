"""Log weights of blocks against arithmetic with fifty digits, at the largest scale that is permitted."""

from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.kernel import quantiles
from dpinfer.kernel.quantiles import FAN_OUT, RankScores, log_weights
from dpinfer.kernel.rows.tree import LARGEST_CHOICE, RANK, SLACK

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
    """Two log weights, of a block and of all, on each of two data sets, at either end of the range; six levels."""
    levels = 0
    while FAN_OUT**levels < 2**54 + 1:
        levels += 1
    assert levels == 6
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
