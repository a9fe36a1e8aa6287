"""Axes of tables: every row is in at most one part, and bins are those of numpy."""

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpinfer.errors import FormulaError, OptionError, SchemaError, UnknownColumnError
from dpinfer.schema import Boolean, Category, Integer, Real, Schema
from dpinfer.schema.axes import BinsAxis, ConditionAxis, LevelsAxis
from dpinfer.schema.expressions import axis_from_dict, compile_condition, compile_expression, condition_axis
from dpinfer.schema.grid import Cuts

SCHEMA = Schema(
    x=Real(-5, 7), k=Integer(-40, 60), few=Integer(3, 6), many=Integer(0, 100), b=Boolean(), g=Category(["z", 2, "a"])
)


def edges_within(lower, upper):
    inner = st.lists(st.floats(lower, upper, allow_subnormal=False), min_size=2, max_size=12, unique=True)
    return inner.map(sorted).filter(lambda e: min(np.diff(e)) > 0)


@given(edges_within(-5, 7), st.lists(st.floats(-20, 20), max_size=30), st.randoms(use_true_random=False))
def test_bins_of_a_real_are_those_of_numpy(edges, values, random):
    values = np.array([*values, *edges, *np.nextafter(edges, -np.inf), *np.nextafter(edges, np.inf), -5.0, 7.0])
    random.shuffle(values)
    clamped = np.clip(values, -5, 7)
    axis = BinsAxis(SCHEMA, "x", tuple(edges))
    place = axis.place({"x": clamped})
    assert np.array_equal(np.bincount(place[place >= 0], minlength=len(edges) - 1), np.histogram(clamped, edges)[0])
    assert ((place >= 0) == ((clamped >= edges[0]) & (clamped <= edges[-1]))).all()
    inside = place >= 0
    assert (np.array(edges)[place[inside]] <= clamped[inside]).all()
    assert (clamped[inside] <= np.array(edges)[place[inside] + 1]).all()


@given(edges_within(-40, 60))
@example([0.0, 2.0**-1022])
def test_the_look_up_of_an_integer_is_its_bin(edges):
    axis = BinsAxis(SCHEMA, "k", tuple(edges))
    whole = np.arange(-40, 61)
    assert np.array_equal(axis.lookup, axis.place({"k": whole.astype(float)}))
    counts = np.bincount(axis.lookup[axis.lookup >= 0], minlength=len(edges) - 1)
    assert np.array_equal(counts, np.histogram(whole, edges)[0])


@given(st.integers(1, 60), st.lists(st.floats(-5, 7), max_size=50))
def test_equal_bins_are_those_of_numpy(bins, values):
    edges = np.linspace(-5, 7, bins + 1)
    place = BinsAxis(SCHEMA, "x", tuple(edges.tolist())).place({"x": np.array(values, dtype=float)})
    assert (place >= 0).all()
    assert np.array_equal(np.bincount(place, minlength=bins), np.histogram(values, bins, range=(-5, 7))[0])


@pytest.mark.parametrize(
    "cuts",
    [
        np.linspace(-8, 8, 129)[1:-1],
        np.linspace(17.3, 88.1, 4097)[1:-1],
        np.linspace(1e15, 1e15 + 20, 129)[1:-1],
        np.linspace(-1e-300, 1e-300, 129)[1:-1],
        np.linspace(-8e307, 8e307, 129)[1:-1],
        np.arange(126) * 5e-324,
        np.geomspace(1e-6, 1e6, 126),
        np.sort(np.random.default_rng(1).normal(size=126)),
        np.array([0.5]),
        np.zeros(0),
    ],
)
def test_cuts_at_or_below_a_number_are_those_that_a_search_finds(cuts):
    cuts = np.unique(cuts)
    rng = np.random.default_rng(2)
    low, high = (cuts[0], cuts[-1]) if cuts.size else (0.0, 1.0)
    anywhere = [low + (high / 2 - low / 2) * rng.uniform(-0.1, 2.1, 10_000), np.array([0.0, -0.0, 1e308, -1e308])]
    numbers = np.concatenate([cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf), *anywhere])
    found = np.searchsorted(cuts, numbers, side="right")
    assert np.array_equal(Cuts(cuts).at_or_below(numbers), found)
    assert np.array_equal(Cuts(cuts).at_or_below(numbers[:500]), found[:500])


def test_wide_integers_and_reals_are_not_looked_up():
    wide = Schema(k=Integer(0, 2**20), x=Real(0, 1))
    assert BinsAxis(wide, "k", (0.0, 5.0)).lookup is None
    assert BinsAxis(wide, "x", (0.0, 1.0)).lookup is None
    narrow = Schema(k=Integer(-1, 2**20 - 2))
    assert BinsAxis(narrow, "k", (0.0, 5.0)).lookup.size == 2**20


@pytest.mark.parametrize(
    "edges",
    [
        (),
        (1.0,),
        (1.0, 1.0),
        (2.0, 1.0),
        (0.0, 2.0, 1.0),
        (-5.1, 0.0),
        (0.0, 7.000001),
        (0.0, np.nan),
        (np.nan, 1.0),
        (-np.inf, np.inf),
        (0.0, np.inf),
    ],
)
def test_wrong_edges(edges):
    with pytest.raises(OptionError, match="bins=") as refused:
        BinsAxis(SCHEMA, "x", edges)
    assert "[-5, 7]" in str(refused.value)


@pytest.mark.parametrize("name", ["b", "g"])
def test_bins_need_numbers(name):
    with pytest.raises(SchemaError, match="not numeric"):
        BinsAxis(SCHEMA, name, (0.0, 1.0))


@pytest.mark.parametrize("name", ["x", "many"])
def test_levels_need_levels(name):
    with pytest.raises(SchemaError, match=r"has no levels.*histogram"):
        LevelsAxis(SCHEMA, name)


@pytest.mark.parametrize(
    ("axis", "labels", "columns", "covers"),
    [
        (LevelsAxis(SCHEMA, "g"), ("z", 2, "a"), ("g",), True),
        (LevelsAxis(SCHEMA, "b"), (False, True), ("b",), True),
        (LevelsAxis(SCHEMA, "few"), (3, 4, 5, 6), ("few",), True),
        (condition_axis("x > k", SCHEMA), (False, True), ("k", "x"), True),
        (condition_axis("g in ['z', 'a']", SCHEMA), (False, True), ("g",), True),
        (BinsAxis(SCHEMA, "x", (-5.0, 0.25, 7.0)), ("[-5, 0.25)", "[0.25, 7]"), ("x",), True),
        (BinsAxis(SCHEMA, "x", (-5.0, 6.0)), ("[-5, 6]",), ("x",), False),
        (BinsAxis(SCHEMA, "k", (-39.5, 60.0)), ("[-39.5, 60]",), ("k",), False),
    ],
)
def test_labels_columns_and_storage(axis, labels, columns, covers):
    assert axis.labels == labels
    assert axis.size == len(labels)
    assert axis.columns == columns
    assert axis.covers is covers
    again = axis_from_dict(json.loads(json.dumps(axis.to_dict())), SCHEMA)
    assert type(again) is type(axis)
    assert (again.name, again.labels, again.covers) == (axis.name, labels, covers)


def test_levels_and_conditions_place_rows():
    values = {
        "g": np.array([0.0, 2.0, 1.0]),
        "b": np.array([1.0, 0.0, 1.0]),
        "few": np.array([3.0, 6.0, 4.0]),
        "x": np.array([-5.0, 0.0, 7.0]),
    }
    assert LevelsAxis(SCHEMA, "g").place(values).tolist() == [0, 2, 1]
    assert LevelsAxis(SCHEMA, "b").place(values).tolist() == [1, 0, 1]
    assert LevelsAxis(SCHEMA, "few").place(values).tolist() == [0, 3, 1]
    assert condition_axis("x >= 0", SCHEMA).place(values).tolist() == [0, 1, 1]
    assert condition_axis("g == 2", SCHEMA).place(values).tolist() == [0, 0, 1]
    assert condition_axis("b & (x > 0)", SCHEMA).place(values).tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ("x + 1", FormulaError, "not a condition"),
        ("nope > 1", UnknownColumnError, "nope"),
        ("x >", FormulaError, "x >"),
        ("", FormulaError, "empty|no expression|not"),
        ("1 == 1", FormulaError, "not a condition on columns"),
        ("1", FormulaError, "not a condition on columns"),
        (3, OptionError, "where=3"),
        (None, OptionError, "where=None"),
        (["x > 1"], OptionError, "where"),
    ],
)
def test_wrong_conditions(text, error, match):
    with pytest.raises(error, match=match):
        compile_condition(text, SCHEMA)


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"column": "nope"},
        {"column": "x"},
        {"column": ["x"]},
        {"column": "x", "edges": 3},
        {"column": "x", "edges": [3]},
        {"column": "x", "edges": ["a", "b"]},
        {"column": "x", "edges": [[0], [1]]},
        {"column": "g", "edges": [0, 1]},
        {"condition": "x + 1"},
        {"condition": 3},
    ],
)
def test_damaged_axes(stored):
    with pytest.raises((KeyError, TypeError, ValueError)):
        axis_from_dict(stored, SCHEMA)


@pytest.mark.parametrize("text", ["1e9 * x", "log(x + 3) - 50", "x > 0", "x / (k + 0.5)"])
def test_an_axis_of_any_expression_puts_each_row_into_one_of_two_parts(text):
    # A procedure of one's own may hand in what is no condition: the kernel still counts each row once.
    expression = compile_expression(text, Schema(x=Real(-2, 2), k=Integer(0, 5)))
    values = {"x": np.array([-2.0, 0.0, 2.0, np.nan, np.inf]), "k": np.array([0.0, 1.0, 5.0, np.nan, -np.inf])}
    with np.errstate(all="ignore"):
        place = ConditionAxis(SCHEMA, "forged", expression).place(values)
    assert place.shape == (5,)
    assert set(place.tolist()) <= {0, 1}
