"""Counts in a tree over a column, and places on a fine grid: one row at a time, bounded between neighbours."""

from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.distributions.quantiles import CDF
from dpinfer.errors import OptionError, SchemaError, UnknownColumnError
from dpinfer.kernel.rows.tree import MOST_LEAVES, PointRows, leaf_edges
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.sums import exact_sums
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.procedures.options import axes_of
from dpinfer.schema import Boolean, Category, Integer, Real, Schema
from tests.kernel.rows.batches import objects

SCHEMA = Schema(
    x=Real(-4, 12),
    k=Integer(-3, 9),
    w=Integer(-(2**53), 2**53),
    b=Boolean(missing=False, impossible=True),
    g=Category(["a", "b", "c"]),
)
KEEPING = Schema(
    x=Real(-4, 12, missing=0, impossible=1),
    k=Integer(-3, 9, missing=0, impossible=1),
    b=Boolean(missing=False, impossible=True),
    g=Category(["a", "b", "c"], missing="a", impossible="b"),
)


def tree_of(column="x", leaves=8, by=(), where=None, schema=SCHEMA):
    return CDF(column=column, resolution=leaves, axes=axes_of(by), where=where).rows(schema)


def frame_of(cells):
    return pd.DataFrame({name: pd.Series(objects([row[name] for row in cells]), dtype=object) for name in SCHEMA})


def counts(tree, cells):
    """Exact counts of all nodes (G, 2 m - 1), as the kernel sums them."""
    found = exact_sums(tree, open_source(frame_of(cells)), threads=1)
    assert len(found) == len(tree.names)
    assert all(type(one) is int for one in found)
    return np.array(found, dtype=object).reshape(tree.size, tree.width)


# Leaves


@pytest.mark.parametrize(("lower", "upper"), [(0, 1), (-4, 12), (1e-300, 3e-300), (-8e307, 8e307), (0.1, 0.1 + 1e-9)])
def test_leaves_of_a_real_are_even_and_within_its_bounds(lower, upper):
    for leaves in (2, 8, 64, 4096):
        edges = leaf_edges(Real(lower, upper), leaves)
        assert len(edges) == leaves + 1
        assert (edges[0], edges[-1]) == (lower, upper)
        assert (np.diff(edges) > 0).all()
        step, last_place = upper / leaves - lower / leaves, np.spacing(max(abs(lower), upper))
        assert np.diff(edges) == pytest.approx(np.full(leaves, step), rel=1e-9, abs=4 * last_place)


@given(st.integers(-1000, 1000), st.integers(1, 300), st.integers(1, 10).map(lambda k: 2**k))
def test_leaves_of_an_integer_hold_equally_many_whole_numbers(lower, width, leaves):
    edges = leaf_edges(Integer(lower, lower + width), leaves)
    assert (edges[0], edges[-1]) == (lower, lower + width)
    assert 2 <= len(edges) <= leaves + 1
    held = np.histogram(np.arange(lower, lower + width + 1), edges)[0]
    each = -(-(width + 1) // leaves)
    assert set(held[:-1]) <= {each}
    assert 1 <= held[-1] <= each
    assert held.sum() == width + 1
    assert (edges[1:-1] % 1 == 0.5).all()


# The tree


def brute(values, edges, leaves):
    """Count values in every node from the root down, by their place among the edges."""
    held = len(edges) - 1
    leaf = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, held - 1)
    nodes = []
    level = 1
    while level <= leaves:
        nodes += np.bincount(leaf * level // leaves, minlength=level).tolist()
        level *= 2
    return nodes


@pytest.mark.parametrize(("column", "leaves"), [("x", 2), ("x", 16), ("k", 4), ("k", 16), ("k", 64), ("w", 8)])
def test_every_node_counts_the_rows_below_it(column, leaves):
    frame = SCHEMA.sample(500, np.random.default_rng(3))
    tree = tree_of(column, leaves, by=["g", "x > 4"])
    found = np.array(exact_sums(tree, open_source(frame), threads=1)).reshape(tree.size, tree.width)
    for place, (level, above) in enumerate(tree.labels):
        values = frame[column][(frame["g"] == level) & ((frame["x"] > 4) == above)]
        assert found[place].tolist() == brute(values.to_numpy(), tree.edges, leaves)
    assert found[:, 0].sum() == 500


def test_nodes_are_named_group_by_group_from_the_root():
    tree = tree_of("x", 4, by=["b"])
    assert (tree.depth, tree.width, tree.size) == (2, 7, 2)
    assert tree.names[:4] == (
        "b=False | level 0, node 0",
        "b=False | level 1, node 0",
        "b=False | level 1, node 1",
        "b=False | level 2, node 0",
    )
    assert tree.names[7] == "b=True | level 0, node 0"
    assert len(set(tree.names)) == len(tree.names) == 14
    assert tree_of("x", 2).names == ("level 0, node 0", "level 1, node 0", "level 1, node 1")
    assert tree.columns == ("b", "x")


# What neighbours change

CELLS = {
    "x": st.sampled_from([-4, 12, 4.0, np.nan, np.inf, -np.inf, 1e300, 5e-324, None, "?", -1e9]) | st.floats(-4, 12),
    "k": st.sampled_from([-3, 9, 3, 2.5, 10**20, -99, None, True, "4"]),
    "w": st.sampled_from([0, 2**53, -(2**53), 2**53 - 1, 10**30, None]) | st.integers(-(2**53), 2**53),
    "b": st.sampled_from([True, False, None, "maybe", 0, 1.0, b"x"]),
    "g": st.sampled_from(["a", "b", "c", "z", None, 3]),
}
ROW = st.fixed_dictionaries(CELLS)
TREES = {
    "a real": tree_of("x", 16),
    "an integer": tree_of("k", 4),
    "leaves beyond an integer": tree_of("k", 64),
    "a wide integer": tree_of("w", 8),
    "groups": tree_of("x", 8, by=["g", "k > 0"]),
    "a condition": tree_of("k", 8, where="x > 0 and b"),
    "groups and a condition": tree_of("x", 2, by="b", where="k > 0"),
    "every row counts": tree_of("x", 16, schema=KEEPING),
    "every row counts, in groups": tree_of("k", 8, by=["g"], schema=KEEPING),
    "some rows count": tree_of("k", 8, where="b", schema=KEEPING),
}


def bound(tree, neighbors, norm):
    return tree.bounded(neighbors, norm).bound


def norms(change):
    flat = [int(one) for one in change.ravel()]
    return sum(map(abs, flat)), sum(one * one for one in flat)


@pytest.mark.parametrize("name", TREES)
@settings(max_examples=25)
@given(data=st.data())
def test_no_neighbour_changes_counts_by_more_than_the_bounds(name, data):
    tree = TREES[name]
    others, first, second = data.draw(st.lists(ROW, max_size=3)), data.draw(ROW), data.draw(ROW)
    base, one, two = (counts(tree, [*others, *more]) for more in ([], [first], [second]))
    for neighbors, change in (("add_remove", one - base), ("replace_one", two - one)):
        first_norm, squared = norms(change)
        assert first_norm <= bound(tree, neighbors, "l1")
        assert squared <= bound(tree, neighbors, "l2") ** 2
    if tree.public("replace_one")[0]:
        assert one[0, 0] == two[0, 0] == len(others) + 1


LOW = {"x": -4, "k": -3, "w": 0, "b": True, "g": "a"}
HIGH = {"x": 12, "k": 9, "w": 0, "b": True, "g": "c"}


def test_the_bounds_are_attained():
    for name, tree in TREES.items():
        low, high = LOW, HIGH | ({"b": False} if name == "groups and a condition" else {})
        if name == "a wide integer":
            low, high = low | {"w": -(2**53)}, high | {"w": 2**53}
        if "condition" in name:
            low = low | {"k": 5, "x": 1} if "groups" in name else low | {"x": 1}
        there = counts(tree, [high])
        levels = tree.depth + 1
        assert norms(there) == (levels, levels) == (bound(tree, "add_remove", "l1"),) * 2
        moved = norms(counts(tree, [low]) - there)
        if name != "leaves beyond an integer":  # there the first halvings hold every whole number
            assert moved[0] == bound(tree, "replace_one", "l1")
        for neighbors in NEIGHBORS:
            squared = bound(tree, neighbors, "l1")
            assert 0 <= bound(tree, neighbors, "l2") ** 2 - squared < Fraction(1, 10**12)


def test_two_leaves_cost_what_a_vanishing_row_costs():
    for schema in (SCHEMA, KEEPING):
        tree = tree_of("x", 2, schema=schema)
        assert bound(tree, "replace_one", "l1") == bound(tree, "add_remove", "l1") == 2


def test_several_rows_of_a_person_move_counts_by_their_sum():
    persons = SCHEMA.with_people("person", 3)
    for by in ((), "b"):
        for neighbors in NEIGHBORS:
            for norm in ("l1", "l2"):
                one = bound(tree_of("x", 8, by=by), neighbors, norm)
                assert bound(tree_of("x", 8, by=by, schema=persons), neighbors, norm) == 3 * one


def test_the_number_of_rows_is_public_only_where_every_row_is_in_one_tree():
    expected = {
        (KEEPING, (), None, "replace_one"): True,
        (KEEPING, (), None, "add_remove"): False,
        (KEEPING, ("b",), None, "replace_one"): False,
        (KEEPING, (), "b", "replace_one"): False,
        (SCHEMA, (), None, "replace_one"): False,
    }
    for (schema, by, where, neighbors), public in expected.items():
        assert tree_of("x", 8, by, where, schema).public(neighbors)[0] == public


# Places on a grid

GRIDS = {
    "a real": tree_of("x", 2),
    "an integer": tree_of("k", 2),
    "groups": tree_of("x", 2, by=["g", "b"], where="k > 0"),
    "in groups of an integer": tree_of("k", 2, by="x > 2"),
}


def placed(choice, cells):
    frame = frame_of(cells)
    raw = {name: frame[name].to_numpy() for name in choice.columns}
    points, groups = choice.encode(raw, len(cells))
    assert points.dtype == choice.dtype
    assert ((points >= 0) & (points < choice.points)).all()
    assert ((groups >= 0) & (groups <= choice.tree.size)).all()
    return list(zip(points.tolist(), groups.tolist(), strict=True))


@pytest.mark.parametrize("name", GRIDS)
@settings(max_examples=30)
@given(cells=st.lists(ROW, min_size=1, max_size=5))
def test_a_row_has_one_place_that_depends_on_it_alone(name, cells):
    choice = PointRows(GRIDS[name])
    found = placed(choice, cells)
    assert found == [placed(choice, [row])[0] for row in cells]
    roots = counts(choice.tree, cells)[:, 0].tolist()
    assert np.bincount([group for _, group in found], minlength=choice.tree.size + 1)[:-1].tolist() == roots


@given(st.lists(st.floats(-4, 12), min_size=1, max_size=20))
def test_places_of_a_real_are_its_stretch_of_a_fine_grid(values):
    choice = PointRows(GRIDS["a real"])
    assert choice.points == 2**30
    points = [point for point, _ in placed(choice, [LOW | {"x": value} for value in values])]
    for value, point in zip(values, points, strict=True):
        exact = (Fraction(value) + 4) / 16 * 2**30
        assert -1 <= point - min(int(exact), 2**30 - 1) <= 1
        assert abs(choice.value(point) - value) <= 16 / 2**30
    in_order = [point for _, point in sorted(zip(values, points, strict=True))]
    assert in_order == sorted(points)


def test_places_of_an_integer_are_its_whole_numbers():
    choice = PointRows(GRIDS["an integer"])
    assert choice.points == 13
    cells = [LOW | {"k": value} for value in range(-3, 10)]
    assert placed(choice, cells) == [(place, 0) for place in range(13)]
    assert [choice.value(point) for point in range(13)] == list(range(-3, 10))


@pytest.mark.parametrize(("lower", "upper"), [(0, 1), (-4e139, 4e139), (1e-139, 1e-138), (1e15, 1e15 + 1)])
def test_grids_of_extreme_bounds_hold_their_ends(lower, upper):
    choice = PointRows(tree_of("x", 2, schema=Schema(x=Real(lower, upper))))
    cells = np.array([lower, upper, -np.inf, 1.79e308, np.nan, lower / 2 + upper / 2])
    points, groups = choice.encode({"x": cells}, 6)
    assert points[[0, 1, 3]].tolist() == [0, choice.points - 1, choice.points - 1]
    assert groups.tolist() == [0, 0, 1, 0, 1, 0]
    assert abs(points[5] - choice.points // 2) <= 2**28 * np.spacing(upper) / (upper / 2 - lower / 2) + 1
    assert lower <= choice.value(0) <= choice.value(choice.points - 1) <= upper


# Refusals


def test_trees_that_cannot_be_measured_are_refused():
    for asked, error, match in (
        (lambda: tree_of("g"), SchemaError, "'g' is not numeric"),
        (lambda: tree_of("b"), SchemaError, "'b' is not numeric"),
        (lambda: tree_of("z"), UnknownColumnError, "'z'"),
        (lambda: tree_of("k", by="k"), OptionError, "other than 'k'"),
        (lambda: tree_of("x", by=["g", "g"]), OptionError, "by="),
        (lambda: tree_of("x", by="x"), SchemaError, "'x' has no levels"),
        (lambda: tree_of("x", 16_384, by=["g", "k"]), OptionError, "39 groups"),
        *((partial(tree_of, "x", leaves), OptionError, "resolution=") for leaves in (0, 1, 3, -4, 12, 8.0, True)),
        (lambda: tree_of("x", 2 * MOST_LEAVES), OptionError, "16,384"),
    ):
        with pytest.raises(error, match=match):
            asked()
