"""Tables as columns: what is read, and that no cell can make reading fail."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpinfer.errors import DataError
from dpinfer.kernel.rows.products import GramSum
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.sums import exact_sums
from dpinfer.regression.gram import GramDesign
from dpinfer.schema import Category, Real, Schema
from dpinfer.schema.cells import Coded
from dpinfer.schema.grid import UNIT


def broken_text():
    """Return an array of one text that is not UTF-8, as a file may hold."""
    offsets = pa.py_buffer(np.array([0, 2], dtype=np.int64).tobytes())
    return pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(b"\xff\xfe")])


def in_front(array, value):
    return pa.chunked_array([pa.array([value], array.type), array])


COLUMNS = {
    "year beyond the calendar": in_front(pa.array([10**15], pa.timestamp("s")), 0),
    "day beyond the calendar": in_front(pa.array([2 * 10**9], pa.date32()), 0),
    "duration beyond Python": in_front(pa.array([9 * 10**15], pa.duration("s")), 0),
    "broken text": in_front(broken_text(), "a"),
    "broken text in a dictionary": in_front(broken_text(), "a").dictionary_encode(),
    "lists of one length": pa.chunked_array([[[1, 2], [3, 4]]]),
    "lists of several lengths": pa.chunked_array([[[1, 2], [3]]]),
    "structures": pa.chunked_array([[{"a": 1}, {"a": 2}]]),
    "bytes": pa.chunked_array([[b"\xff", b"1"]]),
    "nothing": pa.chunked_array([pa.nulls(2)]),
}


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("library", ["arrow", "pandas"])
@pytest.mark.parametrize("column", [Real(0, 1), Real(0, 1, missing=0, impossible=1), Category(["a", "b"])])
def test_cells_that_python_cannot_hold_are_impossible_and_nothing_fails(kind, library, column):
    table = pa.table({"x": COLUMNS[kind], "y": [0.5, 0.5]})
    frame = table if library == "arrow" else table.to_pandas(types_mapper=pd.ArrowDtype, split_blocks=True)
    schema = Schema(x=column, y=Real(0, 1))
    question = GramDesign(schema, formula="y ~ x")
    counted = exact_sums(GramSum(question.rows), open_source(frame))[0]
    if isinstance(column, Category):
        assert counted == (UNIT**2 if "text" in kind else 0)
    else:
        assert counted == (0 if column.may_drop else 2 * UNIT**2)


def test_broken_text_in_a_pandas_string_column():
    text = pd.arrays.ArrowStringArray(pa.chunked_array([in_front(broken_text(), "a").combine_chunks()]))
    frame = pd.DataFrame({"x": pd.Series(text), "y": [0.5, 0.5]})
    question = GramDesign(Schema(x=Category(["a", "b"]), y=Real(0, 1)), formula="y ~ x")
    assert exact_sums(GramSum(question.rows), open_source(frame))[0] == UNIT**2


def test_numbers_are_read_without_a_copy():
    frame = pd.DataFrame({"x": np.arange(10.0), "k": np.arange(10)})
    read = open_source(frame).read(["x", "k"], 2, 5)
    assert read["x"].tolist() == [2, 3, 4]
    assert all(np.shares_memory(read[name], frame[name].to_numpy()) for name in read)


def test_categories_are_read_as_codes():
    frame = pd.DataFrame({"g": pd.Categorical(["b", None, "a"], ["a", "b"])})
    cells = open_source(frame).read(["g"], 0, 3)["g"]
    assert isinstance(cells, Coded)
    assert cells.codes.tolist() == [1, -1, 0]
    assert cells.values == ["a", "b"]  # noqa: PD011


@pytest.mark.parametrize(
    "make", [lambda t: t, lambda t: t.to_pandas(), pl.from_arrow, lambda t: t.to_pandas().convert_dtypes()]
)
def test_columns_and_rows(make):
    source = open_source(make(pa.table({"a b": [1, 2, 3], "x": ["u", "v", None]})))
    assert source.columns == ("a b", "x")
    assert source.rows == 3
    assert len(source.read(["x"], 1, 3)["x"]) == 2
    assert len(source.read(["x"], 1, 1)["x"]) == 0


def test_names_that_are_no_texts_are_read_as_texts():
    source = open_source(pd.DataFrame({0: [1.0], ("a", 1): [2.0]}))
    assert source.columns == ("0", "('a', 1)")
    assert source.read(["0"], 0, 1)["0"].tolist() == [1.0]


@pytest.mark.parametrize(
    "wrong", [[1, 2], {"x": [1]}, np.ones((2, 2)), None, pd.Series([1.0]), pa.array([1]), ("file.csv", "x")]
)
def test_other_types_are_refused_by_name(wrong):
    with pytest.raises(
        DataError, match=r"expected a pandas, Polars, Dask or Spark DataFrame|expected \(DuckDB connection, query\)"
    ):
        open_source(wrong)


@pytest.mark.parametrize(
    "frame", [pd.DataFrame([[1, 2]], columns=["x", "x"]), pd.DataFrame([[1, 2]], columns=[1, "1"])]
)
def test_repeated_names_are_refused(frame):
    with pytest.raises(DataError, match="several columns named"):
        open_source(frame)
    with pytest.raises(DataError, match="several columns named 'x'"):
        open_source(pa.table([pa.array([1]), pa.array([2])], names=["x", "x"]))
