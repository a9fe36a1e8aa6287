"""Rows go to one cell, by the same rule for every storage."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.sums import exact_sums
from dpinfer.procedures.cell_sums import SumPlan
from dpinfer.schema import Boolean, Category, Integer, Real, Schema
from dpinfer.schema.axes import BinsAxis
from dpinfer.schema.cells import Coded
from dpinfer.schema.grid import UNIT

DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", ">i4", ">u8", "<i8"]


def histogram(lower, upper, edges, **policies):
    """Return the row function of a histogram of one integer column."""
    schema = Schema(k=Integer(lower, upper, **policies))
    return SumPlan("histogram", schema, axes=({"column": "k", "edges": list(edges)},)).rows


def reference(cells, lower, upper, edges):
    """Count whole Python numbers in bins; None is dropped."""
    clamped = [float(min(max(cell, lower), upper)) for cell in cells if cell is not None]
    return np.histogram(clamped, edges)[0].tolist() if clamped else [0] * (len(edges) - 1)


def counted(rows, source):
    return exact_sums(rows, open_source(source), threads=1)


@st.composite
def tables(draw):
    """Bounds, edges within them, and whole numbers of one dtype around and far beyond them."""
    kind = draw(st.sampled_from(DTYPES))
    info = np.iinfo(kind)
    lower = draw(st.integers(-300, 300) | st.sampled_from([-(2**31), -(2**53), 2**53 - 500, 2**31 - 5]))
    upper = min(lower + draw(st.integers(1, 400)), 2**53)
    kinds = st.floats(lower, upper) | st.integers(lower, upper).map(float)
    edges = sorted(set(draw(st.lists(kinds, max_size=6))) | {float(lower), float(upper)})
    if draw(st.booleans()) and len(edges) > 3:
        edges = edges[1:-1]
    extremes = [info.min, info.max, 0, lower, upper, lower - 1, upper + 1, *(int(e) for e in edges)]
    near = st.integers(lower - 50, upper + 50)
    cells = draw(st.lists(st.sampled_from(extremes) | near | st.integers(info.min, info.max), max_size=40))
    cells = [cell for cell in cells if info.min <= cell <= info.max]
    return kind, lower, upper, edges, cells


@given(tables())
def test_arrays_of_whole_numbers_are_counted_like_python_numbers(case):
    kind, lower, upper, edges, cells = case
    rows = histogram(lower, upper, edges)
    expected = reference(cells, lower, upper, edges)
    array = np.array(cells, dtype=kind)
    assert counted(rows, pd.DataFrame({"k": array})) == expected
    assert counted(rows, pd.DataFrame({"k": np.array([*cells, None], dtype=object)[:-1]})) == expected
    assert np.array_equal(array, np.array(cells, dtype=kind)), "the data were written to"


@given(tables(), st.lists(st.integers(0, 40), max_size=5))
def test_storage_does_not_matter(case, gaps):
    """Missing cells in columns of nullable integers, of objects, and as floats where these hold the numbers."""
    kind, lower, upper, edges, cells = case
    for gap in gaps:
        cells.insert(gap, None)
    rows = histogram(lower, upper, edges)
    expected = reference(cells, lower, upper, edges)
    native = np.dtype(kind).newbyteorder("=").name
    column = pa.array(cells, native)
    nullable = "UInt" + native[4:] if native.startswith("u") else "Int" + native[3:]
    for stored in (
        pd.DataFrame({"k": np.array([*cells, None], dtype=object)[:-1]}),
        pd.DataFrame({"k": pd.array([pd.NA if cell is None else cell for cell in cells], dtype=nullable)}),
        pd.DataFrame({"k": pd.Series(column, dtype=pd.ArrowDtype(column.type))}),
        pa.table({"k": column}),
        pl.from_arrow(pa.table({"k": column})),
        pd.DataFrame({"k": [None if cell is None else str(cell) for cell in cells]}, dtype=object),
    ):
        assert counted(rows, stored) == expected, type(stored)
    floats = [np.nan if cell is None else float(cell) for cell in cells]
    assert counted(rows, pd.DataFrame({"k": np.array(floats, dtype=float)})) == expected


@pytest.mark.parametrize("kind", DTYPES)
def test_every_whole_number_a_bin_of_its_own(kind):
    edges = [2.0, *np.arange(2.5, 100), 100.0]
    rows = histogram(2, 100, edges)
    array = np.arange(0, 120, dtype=kind)
    found = counted(rows, pd.DataFrame({"k": array}))
    assert found == [3, *[1] * 97, 20]
    if np.dtype(kind).itemsize >= 4:
        raw = {"k": array}
        assert rows._looked_up(raw) is not None
        cells = rows.encode(raw, array.size)[0]
        cells[:] = 0
        assert np.array_equal(array, np.arange(0, 120)), "the data were written to"
        assert rows._table[-1] == 98


@pytest.mark.parametrize("policy", [{}, {"missing": 3}, {"impossible": 9}, {"missing": 3, "impossible": 9}])
def test_policies_settle_what_is_no_whole_number(policy):
    rows = histogram(0, 9, [0, 3, 6, 9], **policy)
    frame = pd.DataFrame({"k": np.array([np.nan, 0.5, np.inf, 4.0, -3.0, 99.0])})
    expected = [1, 1, 1]
    expected[1] += "missing" in policy
    expected[2] += 2 * ("impossible" in policy)
    assert counted(rows, frame) == expected
    assert rows.keeps_every_row == (len(policy) == 2)


SCHEMA = Schema(
    x=Real(-4, 4),
    k=Integer(0, 3, missing=0, impossible=3),
    b=Boolean(missing=True, impossible=False),
    g=Category(["a", "b", "c"]),
)


def question(kind="mean", **options):
    return SumPlan(kind, SCHEMA, **options)


FRAME = pd.DataFrame(
    {
        "x": [1.0, -9.0, np.nan, 2.0, np.inf, 4.0, 0.0],
        "k": [0, 1, 2, None, 7, 3, 3],
        "b": [True, None, False, "no", True, False, True],
        "g": ["a", "b", "c", "a", "b", "z", None],
    }
).astype({"k": object, "b": object})


def encoded(rows):
    source = open_source(FRAME)
    return rows.encode(source.read(rows.columns, 0, 7), 7)


def test_rows_that_any_column_drops_are_in_no_cell():
    rows = question(columns=("x",), axes=({"column": "g"},), target="data").rows
    cells, features = encoded(rows)
    assert cells.tolist() == [0, 1, 2, 0, 1, 3, 3]
    kept = [0, 1, 3]
    assert features[0].tolist() == [UNIT if place in kept or place in (5, 6) else 0 for place in range(7)]
    assert features[1].tolist() == [UNIT / 4, -UNIT, 0, UNIT / 2, 0, UNIT, 0]
    sums = exact_sums(rows, open_source(FRAME))
    assert sums == [2 * UNIT, UNIT * 3 // 4, UNIT, -UNIT, 0, 0]


def test_policies_that_keep_rows_put_them_into_cells():
    rows = question("table", axes=({"column": "k"}, {"column": "b"})).rows
    assert rows.keeps_every_row
    assert rows.counts_only
    cells, features = encoded(rows)
    assert features is None
    assert cells.tolist() == [1, 3, 4, 0, 7, 6, 7]
    assert exact_sums(rows, open_source(FRAME)) == [1, 1, 0, 1, 1, 0, 1, 2]


def test_conditions_take_rows_out():
    rows = question("table", axes=({"column": "k"},), where="x > 0").rows
    assert not rows.keeps_every_row
    assert encoded(rows)[0].tolist() == [0, 4, 4, 0, 4, 3, 4]
    rows = question("count", where="b & (g != 'b')").rows
    assert encoded(rows)[0].tolist() == [0, 1, 1, 1, 1, 1, 1]


def test_names_follow_the_order_of_the_sums():
    rows = question("mean", columns=("x",), axes=({"column": "b"}, {"condition": "k > 1"}), target="data").rows
    assert rows.size == 4
    assert rows.shape == (2, 2)
    assert rows.cells == [(False, False), (False, True), (True, False), (True, True)]
    assert rows.names[0] == "1 | b=False, k > 1=False"
    assert rows.names[3].endswith(" | b=False, k > 1=True")
    assert rows.columns == ("b", "k", "x")
    assert rows.width == 2
    assert rows.unit == UNIT
    uncounted = question("total", columns=("x",), axes=({"column": "b"},), target="data").rows
    assert uncounted.width == 1
    assert uncounted.names == ("x | b=False", "x | b=True")


def test_the_look_up_is_for_bins_of_one_integer_axis_alone():
    axes = ({"column": "k", "edges": [0, 1, 3]},)
    both = question("histogram", axes=(*axes, {"column": "b"})).rows
    assert both._looked_up({"k": np.arange(3), "b": np.ones(3)}) is None
    alone = question("histogram", axes=axes).rows
    assert isinstance(alone.axes[0], BinsAxis)
    assert alone._looked_up({"k": np.arange(4)}).tolist() == [0, 1, 1, 1]
    assert alone._looked_up({"k": np.arange(4.0)}) is None
    assert alone._looked_up({"k": np.arange(4, dtype="int8")}) is None
    assert alone._looked_up({"k": np.array([True])}) is None


@pytest.mark.parametrize("codes", [[0, 1, 2, 3, 4], [4, -1, 0, 9, -7], []])
def test_coded_columns_are_counted_as_the_long_way_counts_them(codes):
    """Each value of a dictionary is read once; what it has no value for is missing."""
    values = ["c", "oops", "a", None, "b"]
    cells = [values[code] if 0 <= code < len(values) else None for code in codes]
    rows = question("histogram", axes=({"column": "g"}, {"column": "b"})).rows
    truths = ["true", "0", "maybe", None, "1"][: len(codes)]
    plain = {"g": np.array(cells, dtype=object), "b": np.array(truths, dtype=object)}
    coded = {"g": Coded(np.array(codes, dtype=np.int8), values), "b": Coded(np.arange(len(codes)), truths)}
    assert rows._by_value(plain) is None
    found = rows._by_value(coded)
    assert found.tolist() == rows.encode(plain, len(codes))[0].tolist()
    assert rows.add(Batch(coded, len(codes))).tolist() == rows.add(Batch(plain, len(codes))).tolist()
