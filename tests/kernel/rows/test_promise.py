"""Price and force are one object: whatever features turn out to be, no unit moves the sums past what is priced.

Expressions here evaluate to anything, past the bounds that were proved for them: only what is forced holds rows in.
Sums add over rows, so what one unit does to them is seen on single rows and pairs of rows alone.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.kernel.rows.cells import CellSum, PersonSum, QuerySum
from dpinfer.kernel.rows.features import Features, RowClip
from dpinfer.kernel.rows.marginals import ClassCounts, MarginalSum, OctaveRows
from dpinfer.kernel.rows.products import GramSum, ReplicateSum
from dpinfer.kernel.rows.scores import ScoreSum
from dpinfer.kernel.rows.tree import TreeSum
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.regression.gram import GramDesign
from dpinfer.schema import Category, Real, Schema
from dpinfer.schema.axes import BinsAxis, LevelsAxis
from dpinfer.schema.basis import basis_of
from dpinfer.schema.expressions import compile_expression
from dpinfer.schema.grid import UNIT
from tests.kernel.rows.batches import added, batch_of, raw_of
from tests.kernel.rows.round_cases import counts_of, round_of

DROPPING = Schema(x=Real(-3, 11), u=Real(0, 1), y=Real(0, 50), g=Category(["a", "b", "c"]))
KEEPING = Schema(
    x=Real(-3, 11, missing=0, impossible=1),
    u=Real(0, 1, missing=0, impossible=1),
    y=Real(0, 50, missing=0, impossible=50),
    g=Category(["a", "b", "c"], missing="a", impossible="b"),
)
PEOPLE = DROPPING.with_people("id", 3)
NORMS = ("l2", "l1")
NAN, INF = float("nan"), float("inf")
ASKED = [
    ["1 * x + 0"],
    ["x - 4", "(x - 4)**2"],
    ["x**2", "x**3", "abs(x)"],
    ["u**2", "exp(-u)", "x**2", "x - 1"],
    ["x * u", "x**2", "u + 1"],
    [],
]
GARBAGE = st.sampled_from([NAN, INF, -INF, 1e308, -1e308, 0.0, 5e-324, 1.0, -3.0, 200.0]) | st.floats()
CELLS = {
    "x": st.sampled_from([-3.0, 11.0, 4.0, 1.0, 1e308, NAN, INF, -INF, "oops", None]) | st.floats(-3, 11),
    "u": st.sampled_from([0.0, 1.0, 0.5, -1e9, 5e-324, NAN, INF, "?"]) | st.floats(0, 1),
    "y": st.sampled_from([0.0, 50.0, 25.0, -1.0, 1e300, NAN, None]) | st.floats(0, 50),
    "g": st.sampled_from(["a", "b", "c", "z", None, 3]),
}
ROWS = st.fixed_dictionaries(CELLS)
RELATIVE = st.sampled_from([1.0, 0.01, 3.7, 100.0, 1e-6, 1e9]) | st.floats(1e-3, 1e3)


class Wrong:
    """An expression that evaluates to anything, and says of itself what the right one says."""

    def __init__(self, right, value):
        self.right, self.value = right, value

    def __getattr__(self, name):
        return getattr(self.right, name)

    def evaluate(self, values):
        return np.full(len(next(iter(values.values()))), self.value)


def spoiled(basis, values):
    """Return the same features, where those that are not the constant evaluate to ``values``."""
    blocks = [
        block if block.constant else replace(block, expression=Wrong(block.expression, values[place % len(values)]))
        for place, block in enumerate(basis.blocks)
    ]
    return replace(basis, blocks=tuple(blocks))


def changed(first, second, neighbors):
    return first if neighbors == "add_remove" else first - second


def assert_paid(bounded, change, norm):
    """Compare the change with the bound, in exact arithmetic."""
    assert not any(moved for moved, public in zip(change, bounded.public, strict=True) if public)
    scaled = [
        Fraction(int(moved)) / Fraction(weight) for moved, weight in zip(change, bounded.weights.tolist(), strict=True)
    ]
    if norm == "l1":
        assert sum(map(abs, scaled)) <= bounded.bound
    else:
        assert sum(one * one for one in scaled) <= bounded.bound**2


# Sums in cells


AXES = {
    "one cell": (),
    "levels": (LevelsAxis(DROPPING, "g"),),
    "bins": (BinsAxis(DROPPING, "x", (-1.0, 2.0, 9.0)),),
}


def table(kind, basis, counted):
    schema = basis.schema
    axes = tuple(replace(axis, schema=schema) for axis in AXES[kind])
    return CellSum(Features(basis), axes, counted)


@settings(max_examples=150)
@given(st.sampled_from(ASKED[:-1]), st.booleans(), st.lists(GARBAGE, min_size=1, max_size=4), ROWS)
def test_rows_are_forced_into_the_boxes_that_are_priced(texts, centred, garbage, cells):
    basis = basis_of(tuple(texts), DROPPING, centred=centred)
    rows = CellSum(Features(spoiled(basis, garbage)))
    found = rows.encode(raw_of(rows.columns, [cells]), 1)[1][:, 0]
    if not found[0]:
        assert not found.any()
        return
    assert found[0] == UNIT
    assert np.array_equal(found, np.rint(found))
    for curve in CellSum(Features(basis)).boxes.curves:
        mine = found[list(curve.places)][:, None]
        inside = (curve.lower * UNIT <= mine) & (mine <= curve.upper * UNIT)
        assert inside.all(axis=0).any(), "the features are in no box"


@pytest.mark.slow
@settings(max_examples=200)
@given(
    st.sampled_from(ASKED),
    st.sampled_from(sorted(AXES)),
    st.booleans(),
    st.booleans(),
    st.lists(RELATIVE, min_size=5, max_size=5),
    st.lists(GARBAGE, min_size=1, max_size=4),
    st.lists(GARBAGE, min_size=1, max_size=4),
    ROWS,
    ROWS,
)
def test_cells_pay_for_wrong_features(texts, kind, counted, keeping, weights, one, other, first, second):
    basis = basis_of(tuple(texts), KEEPING if keeping else DROPPING)
    counted |= not texts
    right = table(kind, basis, counted)
    z, w = (
        added(table(kind, spoiled(basis, garbage), counted), cells)
        for garbage, cells in ((one, first), (other, second))
    )
    for norm in NORMS:
        for neighbors in NEIGHBORS:
            if not texts and neighbors == "replace_one" and right.public(neighbors).all():
                continue  # nothing but a public number is asked for
            bounded = right.bounded(neighbors, norm, weights=weights[: right.width])
            assert_paid(bounded, changed(z, w, neighbors), norm)


@pytest.mark.parametrize("norm", NORMS)
@settings(max_examples=30)
@given(
    st.lists(RELATIVE, min_size=4, max_size=4),
    st.integers(0, 3),
    st.lists(GARBAGE, min_size=1, max_size=3),
    st.lists(GARBAGE, min_size=1, max_size=3),
    ROWS,
    ROWS,
)
def test_a_feature_of_infinite_weight_is_not_paid_for_and_the_others_are(norm, weights, out, one, other, first, second):
    basis = basis_of(("x - 4", "(x - 4)**2", "u**2"), DROPPING)
    weights[out] = INF
    reach = CellSum(Features(basis)).boxes.reach(weights, norm)
    z, w = (
        added(CellSum(Features(spoiled(basis, garbage))), cells) for garbage, cells in ((one, first), (other, second))
    )
    power = 2 if norm == "l2" else 1
    for change, bound in ((z, reach.length), (w, reach.length), (z - w, reach.spread)):
        if bound == reach.spread and not (z[0] and w[0]):
            continue  # a dropped row is not one of two
        moved = [abs(Fraction(int(m), UNIT)) / Fraction(v) for m, v in zip(change, weights, strict=True) if v < INF]
        assert sum(one**power for one in moved) <= Fraction(bound) ** power


@settings(max_examples=60)
@given(
    st.sampled_from(ASKED[:-1]),
    st.sampled_from(["one cell", "levels"]),
    st.lists(RELATIVE, min_size=14, max_size=14),
    st.lists(GARBAGE, min_size=1, max_size=4),
    st.lists(ROWS, min_size=1, max_size=3),
    st.lists(ROWS, min_size=1, max_size=3),
)
def test_people_pay_for_wrong_features(texts, kind, weights, garbage, first, second):
    basis = basis_of(tuple(texts[:3]), PEOPLE)
    axes = tuple(replace(axis, schema=PEOPLE) for axis in AXES[kind])
    right, wrong = (PersonSum(Features(one), axes) for one in (basis, spoiled(basis, garbage)))
    z = added(wrong, *first, persons=np.zeros(len(first), dtype=np.int64))
    w = added(right, *second, persons=np.zeros(len(second), dtype=np.int64))
    for norm in NORMS:
        for neighbors in NEIGHBORS:
            bounded = right.bounded(neighbors, norm, weights=weights[: right.width])
            assert_paid(bounded, changed(z, w, neighbors), norm)


# Cross-products


FORMULAS = ["y ~ x", "y ~ I(x**2) + I(x * u)", "y ~ x:g + I(u**2)", "I(y**2) ~ g + exp(-u):g"]
CLIPS = [None, RowClip(1.0), RowClip(1.7), RowClip(0.01), RowClip(1e300), RowClip(1.3, "l1"), RowClip(1.7e308, "l1")]


def features_of(formula, schema, clip=None, garbage=None):
    basis = GramDesign(schema, formula=formula).basis
    return Features(basis if garbage is None else spoiled(basis, garbage), None, clip)


@pytest.mark.slow
@settings(max_examples=150)
@given(
    st.sampled_from(FORMULAS),
    st.sampled_from(CLIPS),
    st.booleans(),
    st.lists(GARBAGE, min_size=1, max_size=4),
    st.lists(ROWS, min_size=1, max_size=4),
)
def test_any_cells_give_entries_within_the_unit(formula, clip, keeping, garbage, cells):
    schema = KEEPING if keeping else DROPPING
    right, wrong = features_of(formula, schema, clip), features_of(formula, schema, clip, garbage)
    found = wrong.encode(raw_of(wrong.columns, cells))[0].astype(np.int64)
    assert np.abs(found).max() <= UNIT
    gone = ~found.any(axis=0)
    if clip is None:
        assert (found[0] == np.where(gone, 0, UNIT)).all()
        assert not (gone.any() and keeping)
    squared, absolute = (found[:-1] ** 2).sum(axis=0), np.abs(found[:-1]).sum(axis=0)
    assert (squared <= right.bounds.squared - UNIT**2).all(), "as split bounds rely on"
    assert (absolute <= right.bounds.absolute - UNIT).all()
    assert (squared + found[-1] ** 2 <= right.bounds.squared).all()
    assert (absolute + np.abs(found[-1]) <= right.bounds.absolute).all()


@pytest.mark.slow
@settings(max_examples=100)
@given(
    st.sampled_from(FORMULAS),
    st.sampled_from(CLIPS),
    st.booleans(),
    st.booleans(),
    st.lists(RELATIVE, min_size=3, max_size=3),
    st.lists(GARBAGE, min_size=1, max_size=4),
    st.lists(GARBAGE, min_size=1, max_size=4),
    ROWS,
    ROWS,
)
def test_cross_products_pay_for_wrong_features(formula, clip, split, keeping, weights, one, other, first, second):
    schema = KEEPING if keeping else DROPPING
    right = GramSum(features_of(formula, schema, clip), split=split)
    z, w = (
        added(GramSum(features_of(formula, schema, clip, garbage), split=split), cells)
        for garbage, cells in ((one, first), (other, second))
    )
    shares = [weight / sum(weights) for weight in weights]
    for norm in NORMS:
        for neighbors in NEIGHBORS:
            change = changed(z, w, neighbors)
            assert_paid(right.bounded(neighbors, norm, weights=weights[: len(right.parts)]), change, norm)
            assert_paid(right.bounded(neighbors, norm, shares=shares if split else [1.0]), change, norm)


# Rounds


@pytest.mark.slow
@settings(max_examples=100)
@given(
    st.sampled_from(FORMULAS),
    st.lists(RELATIVE, min_size=5, max_size=5),
    st.lists(GARBAGE, min_size=1, max_size=4),
    st.lists(GARBAGE, min_size=1, max_size=4),
    ROWS,
    ROWS,
)
def test_rounds_pay_for_wrong_features(formula, weights, one, other, first, second):
    spoilt = [features_of(formula, DROPPING, None, garbage) for garbage in (one, other)]
    right = features_of(formula, DROPPING)
    for neighbors in NEIGHBORS:
        for norm in NORMS:
            z, w = (added(round_of(mine, norm), cells) for mine, cells in zip(spoilt, (first, second), strict=True))
            change = changed(z, w, neighbors)
            assert_paid(round_of(right, norm).bounded(neighbors, norm), change, norm)
            assert_paid(round_of(right, norm).bounded(neighbors, norm, weights=weights), change, norm)
            z, w = (
                counts_of(mine).finish(added(counts_of(mine), cells).tolist())
                for mine, cells in zip(spoilt, (first, second), strict=True)
            )
            change = changed(np.array(z, dtype=object), np.array(w, dtype=object), neighbors)
            assert_paid(counts_of(right).bounded(neighbors, norm, weights=weights[:2]), change, norm)


# A public number of rows


@given(st.sampled_from(ASKED[:-1]), st.sampled_from(FORMULAS), st.lists(GARBAGE, min_size=1, max_size=4), ROWS)
def test_no_feature_takes_a_row_out_where_every_row_counts(texts, formula, garbage, cells):
    basis = basis_of(tuple(texts), KEEPING)
    for sums, one in (
        (CellSum(Features(spoiled(basis, garbage))), UNIT),
        (GramSum(features_of(formula, KEEPING, None, garbage)), UNIT**2),
        (ReplicateSum(Features(spoiled(basis, garbage)), False, 2, "public"), UNIT),
    ):
        assert sums.keeps_every_row
        assert sums.public("replace_one")[0]
        assert added(sums, cells)[0] == one


# Batches


BASIS = basis_of(("x - 4", "(x - 4)**2", "u"), DROPPING)
COUNTS = CellSum(Features(basis_of((), DROPPING)), AXES["levels"])
POSITIVE = compile_expression("u > 0.2", DROPPING)
SUMS = {
    "cells": CellSum(Features(BASIS, POSITIVE), AXES["levels"]),
    "uncounted cells": CellSum(Features(BASIS), AXES["bins"], counted=False),
    "counts": COUNTS,
    "people of one row": PersonSum(Features(BASIS), AXES["levels"]),
    "queries": QuerySum(COUNTS, np.array([[1, 2, -3], [0, 1, 1]]), 1.0, ("p", "q")),
    "marginals": MarginalSum(
        Features(basis_of((), DROPPING), POSITIVE), (*AXES["levels"], *AXES["bins"]), ((0, 1), (1,))
    ),
    "tree": TreeSum(DROPPING, "x", 8, AXES["levels"], POSITIVE),
    "products": GramSum(Features(GramDesign(DROPPING, formula="y ~ x * g").basis, count_clamped=True)),
    "clipped products": GramSum(features_of("y ~ x * g", DROPPING, RowClip(1.2)), split=True),
    "round": round_of(features_of("y ~ x * g", DROPPING)),
    "round, L1": round_of(features_of("y ~ x * g", DROPPING), "l1"),
    "counts in a round": counts_of(features_of("y ~ x * g", DROPPING)),
    "classes": ClassCounts(DROPPING),
    "octaves": OctaveRows(DROPPING.select(["x", "u", "y"]), -3, 5),
}
ALONE = {
    "replicates": ReplicateSum(Features(BASIS), False, 3, "public"),
    "replicates of products": ReplicateSum(Features(BASIS), True, 3, "double_or_nothing"),
    "scores": ScoreSum(DROPPING, tuple(compile_expression(one, DROPPING) for one in ("x", "u", "g == 'a'"))),
}
"""Row sums that are not asked for several data sets at once."""


@pytest.mark.parametrize("name", [*SUMS, *ALONE])
@settings(max_examples=25)
@given(st.lists(ROWS, min_size=1, max_size=6))
def test_a_batch_adds_what_its_rows_add_alone(name, cells):
    rows = {**SUMS, **ALONE}[name]
    together = added(rows, *cells)
    np.testing.assert_array_equal(together, sum(added(rows, one) for one in cells))
    assert max(map(abs, together)) <= 2**53


@pytest.mark.parametrize("name", SUMS)
@settings(max_examples=25)
@given(st.integers(1, 3).flatmap(lambda n: st.lists(st.lists(ROWS, min_size=n, max_size=n), min_size=1, max_size=4)))
def test_data_sets_side_by_side_are_summed_apart(name, sets):
    rows = SUMS[name]
    found = rows.add(batch_of(rows, [one for cells in sets for one in cells], sets=len(sets)))
    assert found.shape == (len(sets), rows.entries)
    np.testing.assert_array_equal(found, [rows.add(batch_of(rows, cells))[0] for cells in sets])


@settings(max_examples=40)
@given(st.lists(st.lists(ROWS, min_size=1, max_size=3), min_size=1, max_size=4))
def test_people_add_up_to_what_they_add_alone(people):
    rows = PersonSum(Features(basis_of(("x - 4", "(x - 4)**2"), PEOPLE)), (replace(AXES["levels"][0], schema=PEOPLE),))
    owners = np.repeat(np.arange(len(people)), [len(cells) for cells in people])
    together = added(rows, *(one for cells in people for one in cells), persons=owners)
    alone = [added(rows, *cells, persons=np.zeros(len(cells), dtype=np.int64)) for cells in people]
    np.testing.assert_array_equal(together, sum(alone))
