"""Scores of candidates as whole numbers: what a row adds, and how far neighbours can move them apart."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import FormulaError, OptionError, UnknownColumnError
from dpinfer.kernel.rows.scores import MOST_CANDIDATES
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.schema import Boolean, Category, Integer, Real, Schema
from dpinfer.selection.question import score_sum
from tests.kernel.rows.batches import added

SCHEMA = Schema(
    x=Real(-4, 12),
    u=Real(0, 1, missing=0.5, impossible=0),
    k=Integer(0, 16),
    b=Boolean(missing=False, impossible=True),
    g=Category(["a", "b", "c"]),
)
KEEPING = Schema(u=Real(0, 1, missing=0.5, impossible=0), b=Boolean(missing=False, impossible=True))


def rows_of(scores, schema=SCHEMA, where=None):
    return score_sum(schema, tuple(scores), where)


ASKED = {
    "votes": (["g == 'a'", "g == 'b'", "g == 'c'"], SCHEMA, None),
    "answers": (["b", "x > 3", "u > 0.5 and b"], SCHEMA, None),
    "worth": (["0.3 * (u >= 0.3)", "0.9 * (u >= 0.9)", "0 * u"], SCHEMA, None),
    "both signs": (["x", "-x", "k - 8", "log(5 + x) * u"], SCHEMA, None),
    "far from zero": (["1000 + u", "1000 - u"], SCHEMA, "k > 2"),
    "every row counts": (["u", "1 - u", "b"], KEEPING, None),
    "some rows count": (["u", "1 - u", "b"], KEEPING, "b"),
    "huge": (["1e30 * u", "x"], SCHEMA, None),
    "small": (["1e-30 * u", "2e-30 * b"], SCHEMA, None),
}
CELLS = {
    "x": st.sampled_from([-4, 12, 4.0, np.nan, np.inf, -np.inf, 1e300, 5e-324, None, "?", -1e9]) | st.floats(-4, 12),
    "u": st.sampled_from([0, 1, 0.5, None, "?", np.nan, 7, -np.inf]) | st.floats(0, 1),
    "k": st.sampled_from([0, 16, 3, 2.5, 10**20, -1, None, True]),
    "b": st.sampled_from([True, False, None, "maybe", 0, 1.0, b"x"]),
    "g": st.sampled_from(["a", "b", "c", "z", None, 3]),
}
ROWS = st.lists(st.fixed_dictionaries(CELLS), min_size=0, max_size=5)


@pytest.mark.parametrize("name", ASKED)
@settings(max_examples=30)
@given(data=st.data())
def test_no_neighbour_moves_scores_further_apart_than_the_spread(name, data):
    rows = rows_of(*ASKED[name])
    others, first, second = data.draw(ROWS), *(data.draw(st.fixed_dictionaries(CELLS)) for _ in range(2))
    base, with_first, with_second = (added(rows, *others, *one) for one in ([], [first], [second]))
    more, replaced = with_first - base, with_second - with_first
    assert max(more) - min(more) <= rows.spread("add_remove")
    assert max(replaced) - min(replaced) <= rows.spread("replace_one")
    lower, upper = rows.limits
    zero = bool((more == 0).all()) and not rows.keeps_every_row
    assert zero or ((lower <= more) & (more <= upper)).all()


def spread_between(rows, first, second=None):
    change = added(rows, first)
    if second is not None:
        change = added(rows, second) - change
    return max(change) - min(change)


def test_the_spread_is_attained():
    at = {"x": -4, "u": 1, "k": 3, "b": True, "g": "a"}
    votes = rows_of(*ASKED["votes"])
    assert (votes.spread("add_remove"), votes.spread("replace_one")) == (1, 2)
    assert spread_between(votes, at) == 1
    assert spread_between(votes, at, at | {"g": "b"}) == 2
    signs = rows_of(["x", "-x"])
    assert spread_between(signs, at | {"x": 12}) == 24 / signs.step == signs.spread("add_remove")
    assert spread_between(signs, at, at | {"x": 12}) == 32 / signs.step == signs.spread("replace_one")


def test_a_row_that_may_vanish_can_move_scores_by_all_that_it_adds():
    """Far from zero, what adding moves apart exceeds what replacing does, unless every row counts."""
    scores = ["1000 + u", "b"]
    dropping = rows_of(scores, SCHEMA, "k > 2")
    keeping = rows_of(scores, KEEPING)
    assert not dropping.keeps_every_row
    assert keeping.keeps_every_row
    assert dropping.spread("replace_one") == dropping.spread("add_remove") == 1001 / dropping.step
    assert keeping.spread("replace_one") == 2 / keeping.step
    gone, there = {"u": 1, "b": False, "k": 0}, {"u": 1, "b": False, "k": 3}
    assert spread_between(dropping, gone, there) == dropping.spread("replace_one")


def test_several_rows_of_a_person_move_scores_by_their_sum():
    persons = SCHEMA.with_people("person", 3)
    for scores in (ASKED["votes"][0], ASKED["both signs"][0]):
        for neighbors in NEIGHBORS:
            assert rows_of(scores, persons).spread(neighbors) == 3 * rows_of(scores).spread(neighbors)
    assert not rows_of(["u", "b"], KEEPING.with_people("person", 3)).keeps_every_row


def test_votes_are_counted_one_by_one():
    rows = rows_of(*ASKED["votes"])
    assert rows.step == 1.0
    assert added(rows, *({"g": level} for level in (*"aabacz", None))).tolist() == [3, 1, 1]
    assert rows_of(["b", "u > 0.5"], KEEPING).step == 1.0
    assert rows_of(["b", "u"], KEEPING).step < 1e-5


def test_scores_are_rounded_to_a_power_of_two_below_four_millionths_of_the_largest():
    for largest in (1e-30, 0.3, 1.0, 1.0001, 7e5, 1e30):
        rows = rows_of([f"{largest!r} * u", "0.1 * u * 0"])
        assert np.frexp(rows.step)[0] == 0.5
        assert 2.0**-20 < rows.step / largest <= 2.0**-18
        assert np.abs(rows.limits).max() <= 2**19
        value = added(rows, {"u": 0.7})[0] * rows.step
        assert value == pytest.approx(0.7 * largest, abs=rows.step / 2)


def test_values_are_clamped_and_conditions_keep_rows():
    rows = rows_of(["x", "k"], where="g == 'a'")
    assert rows.columns == ("g", "k", "x")
    step = rows.step
    cells = [
        {"x": 1e9, "k": 20, "g": "a"},
        {"x": -1e9, "k": -20, "g": "a"},
        {"x": 1.0, "k": 1, "g": "b"},
        {"x": 1.0, "k": None, "g": "a"},
        {"x": 1.0, "k": 1, "g": None},
    ]
    assert (added(rows, *cells) * step).tolist() == [8, 16]


def test_nothing_is_summed_of_no_rows():
    for asked in ASKED.values():
        assert not added(rows_of(*asked)).any()


def test_scores_that_cannot_be_summed_are_refused():
    for scores, error, match in (
        (["x"], OptionError, "candidates="),
        ([], OptionError, "candidates="),
        (["1", "2"], OptionError, "depends on columns"),
        (["0 * x", "0 * u"], OptionError, "depends on columns"),
        (["x", "log(x)"], FormulaError, "unbounded"),
        (["x", "1 / u"], FormulaError, "divisor"),
        (["x", "z"], UnknownColumnError, "'z'"),
        (["x", "x +"], FormulaError, "x +"),
        (["x", "x.max()"], FormulaError, "max"),
    ):
        with pytest.raises(error, match=match):
            rows_of(scores)


def test_there_is_a_largest_number_of_candidates():
    rows = rows_of(["x", "u"])
    most = type(rows)(rows.schema, (rows.scores * MOST_CANDIDATES)[:MOST_CANDIDATES])
    most.check()
    with pytest.raises(OptionError, match="65,537"):
        type(rows)(rows.schema, (*most.scores, rows.scores[0])).check()
