"""Counts of cells by class and by octave: what one row changes, and that cells are read as all fits read them."""

import datetime as dt
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpinfer.errors import OptionError
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.marginals import ClassCounts, OctaveRows
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.schema import Boolean, Category, Date, Integer, Real, Schema
from dpinfer.schema.basis import basis_of
from dpinfer.schema.columns import clamped_values
from tests.kernel.rows.batches import added, batch_of

SCHEMA = Schema(
    x=Real(-3, 11, missing_codes=[-9]),
    k=Integer(0, 5, missing=0),
    b=Boolean(),
    c=Boolean(true=1, false=2, impossible=False),
    g=Category(["a", "b"], codes=[1, 2], missing_codes=[9]),
    d=Date("2020-01-01", "2020-12-31"),
)
ODD = [
    *(None, np.nan, np.inf, -np.inf, "", " ", "oops", "3", "-9", -9, 9, 1, 2, 0, 2.5, 1e300, -1e300, True, "a", "b"),
    *("2020-03-01", "2021-01-01", dt.date(2020, 2, 1), dt.datetime(2019, 1, 1), np.datetime64("2020-05-05"), pd.NaT),
    *(pd.NA, Decimal("2.5"), Decimal("NaN"), 1 + 0j, 2 + 1j, object(), [1], b"a", np.timedelta64(3, "s")),
]
CELL = st.integers(0, len(ODD) - 1).map(ODD.__getitem__)
ROWS = st.lists(st.fixed_dictionaries(dict.fromkeys(SCHEMA, CELL)), min_size=1, max_size=12)
COUNTED = {
    "classes": ClassCounts(SCHEMA),
    "octaves": OctaveRows(SCHEMA.select(["x", "k"]), -2, 3),
}


@given(ROWS)
def test_each_row_is_in_one_class_of_each_column_and_kept_as_in_fits(rows):
    counted = COUNTED["classes"]
    counts = added(counted, *rows)
    parts = np.split(counts[:-1], np.cumsum(counted.sizes)[:-1])
    assert all(part.sum() == len(rows) for part in parts)
    cells = batch_of(COUNTED["classes"], rows).cells
    _, keep = clamped_values(SCHEMA, SCHEMA, cells, len(rows))
    assert counts[-1] == keep.sum()
    everything = CellSum(Features(basis_of(("x", "k", "b", "c", "g == 'a'", "d"), SCHEMA)))
    assert everything.add(batch_of(everything, rows))[0, 0] == counts[-1] * everything.unit


@given(ROWS)
def test_bounds_are_those_that_fits_clamp_to(rows):
    counts = dict(zip(COUNTED["classes"].names, added(COUNTED["classes"], *rows), strict=True))
    cells = batch_of(COUNTED["classes"], rows).cells
    for name in ("x", "k", "d"):
        read = SCHEMA[name].coerce(cells[name])
        read = read[np.isfinite(SCHEMA[name].meaning(cells[name]))]
        clamped, _ = clamped_values(SCHEMA, [name], {name: cells[name]}, len(rows))
        low, high = counts[f"{name}: clamped low"], counts[f"{name}: clamped high"]
        assert low == (read < SCHEMA[name].lower).sum()
        assert high == (read > SCHEMA[name].upper).sum()
        assert (clamped[name] == SCHEMA[name].lower).sum() >= low


@pytest.mark.parametrize("name", COUNTED)
@given(ROWS)
def test_one_row_moves_each_count_by_one_and_as_many_as_are_priced(name, rows):
    counted = COUNTED[name]
    alone = [added(counted, row) for row in rows]
    for one, other in zip(alone, alone[1:] + alone[:1], strict=True):
        assert np.abs(one).sum() <= counted.change(np.ones(1), "add_remove", "l1")
        assert np.abs(one - other).sum() <= counted.change(np.ones(1), "replace_one", "l1")
        assert np.abs(one - other).max() <= 1
    np.testing.assert_array_equal(added(counted, *rows), np.sum(alone, axis=0))


def test_the_sensitivities_are_reached_and_stated_exactly():
    good = {"x": 1, "k": 1, "b": True, "c": 1, "g": "a", "d": "2020-02-01"}
    bad = dict.fromkeys(SCHEMA, None) | {"c": None}
    counted = ClassCounts(SCHEMA)
    one, other = added(counted, good), added(counted, bad)
    assert one.sum() == 7
    assert np.abs(one - other).sum() == 13
    weights = np.ones(1)
    assert counted.change(weights, "add_remove", "l1") == 7
    assert counted.change(weights, "replace_one", "l1") == 13
    for relation, moved in zip(NEIGHBORS, (7, 13), strict=True):
        root = counted.change(weights, relation, "l2")
        assert moved <= root**2 <= moved * (1 + Fraction(1, 10**15))
        people = ClassCounts(SCHEMA.with_people("id", 3))
        assert people.change(weights, relation, "l1") == 3 * moved
        assert people.change(weights, relation, "l2") == 3 * root
    octaves = COUNTED["octaves"]
    assert [octaves.change(weights, relation, "l1") for relation in NEIGHBORS] == [2, 4]


def test_octaves_hold_the_numbers_between_their_ends():
    counted = OctaveRows(Schema(x=Real(-3, 11)), -1, 3)
    assert counted.ends("x").tolist() == [-3, -2, -1, -0.5, 0.5, 1, 2, 4, 8, 11]
    values = [-100, -3, -2, -1.5, -0.5, 0, 0.49, 0.5, 3.9, 4, 11, 1e9, None, np.inf, "oops"]
    assert counted.add(Batch({"x": np.array(values, dtype=object)}, len(values)))[0].tolist() == [
        2,
        2,
        0,
        3,
        1,
        0,
        1,
        1,
        2,
    ]
    assert OctaveRows(Schema(k=Integer(-3, 5)), -30, 60).ends("k").tolist() == [-3, -2, -1, 1, 2, 4, 5]


@pytest.mark.parametrize(
    ("schema", "least", "most"),
    [
        (Schema(b=Boolean()), -30, 60),
        (Schema(d=Date("2020-01-01", "2020-12-31")), -30, 60),
        (Schema(x=Real(0, 1)), 3, 3),
        (Schema(x=Real(0, 1)), -2000, 3),
        (Schema(x=Real(0, 1)), 0.5, 3),
    ],
)
def test_octaves_of_what_is_no_number_are_refused(schema, least, most):
    with pytest.raises(OptionError):
        OctaveRows(schema, least, most).check()
