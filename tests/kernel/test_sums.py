"""Sums over rows are exact: the same integers for any engine, storage, order, chunk and number of threads."""

from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpinfer.errors import OptionError
from dpinfer.kernel import sums as sums_module
from dpinfer.kernel.rows.products import GramSum
from dpinfer.kernel.sources import Table, open_source
from dpinfer.kernel.sums import exact_sums
from dpinfer.procedures.cell_sums import SumPlan
from dpinfer.regression.gram import GramDesign
from dpinfer.schema import Boolean, Category, Integer, Real, Schema
from dpinfer.schema.basis import simplex_codes
from dpinfer.schema.grid import UNIT

SCHEMA = Schema(
    x=Real(-3, 11),
    k=Integer(0, 16),
    b=Boolean(),
    g=Category(["a", "b", "c"]),
    y=Real(0, 50),
)
QUESTION = GramDesign(
    SCHEMA, formula="log(1 + y) ~ x * g + k + b + exp(-x)", where="k > 0", row_norm=1.9, clamped_share=0.1
)


def sample(rows, seed=1, *, missing=True):
    """Draw rows, some of them beyond the bounds and some missing."""
    rng = np.random.default_rng(seed)
    frame = SCHEMA.sample(rows, rng)
    frame["x"] = rng.normal(4, 5, rows)
    if missing:
        frame.loc[rng.random(rows) < 0.05, "y"] = np.nan
    return frame


def with_missing(frame, seed=2):
    """Put missing cells into columns of every type, as Python objects."""
    rng = np.random.default_rng(seed)
    cells = frame.astype(object)
    for name in ("k", "b", "g"):
        cells.loc[rng.random(len(frame)) < 0.05, name] = None
    return cells


def sums(frame, question=QUESTION, **options):
    return exact_sums(GramSum(question.rows), open_source(frame), **options)


@pytest.fixture(scope="module")
def big():
    return sample(70_000)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("chunk_rows", [1000, 8192, 32768])
def test_threads_and_chunks_do_not_matter(big, threads, chunk_rows):
    assert sums(big, threads=threads, chunk_rows=chunk_rows) == _expected(big)


_KNOWN = {}


def _expected(frame):
    if "big" not in _KNOWN:
        _KNOWN["big"] = sums(frame, threads=1, chunk_rows=777)
    return _KNOWN["big"]


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("chunk_rows", [1, 7])
def test_tiny_chunks(threads, chunk_rows):
    frame = sample(500)
    assert sums(frame, threads=threads, chunk_rows=chunk_rows) == sums(frame)


def test_the_order_of_rows_does_not_matter(big):
    order = np.random.default_rng(3).permutation(len(big))
    assert sums(big.iloc[order]) == _expected(big)
    assert sums(big.iloc[::-1]) == _expected(big)


def test_the_order_of_columns_and_further_columns_do_not_matter():
    frame = sample(300)
    wider = frame.iloc[:, ::-1].assign(name="Ada", other=np.nan)
    assert sums(wider) == sums(frame)


@pytest.mark.parametrize("chunk_rows", [0, -1, 32769, 10**9])
def test_chunks_that_floats_could_not_sum_exactly_are_refused(chunk_rows):
    with pytest.raises(OptionError, match="chunk_rows"):
        sums(sample(3), chunk_rows=chunk_rows)


def _text(column):
    return [None if pd.isna(cell) else str(cell) for cell in column]


def _arrow(frame):
    types = {"x": pa.float64(), "k": pa.int64(), "b": pa.bool_(), "g": pa.string(), "y": pa.float64()}
    cells = {name: [None if pd.isna(cell) else cell for cell in frame[name]] for name in types}
    return pa.table({name: pa.array(cells[name], kind) for name, kind in types.items()})


def _replace(table, **columns):
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return table


STORAGES = {
    "objects": lambda f: f.astype(object),
    "numpy, C-ordered objects": lambda f: pd.DataFrame(f.to_numpy(dtype=object), columns=list(f)),
    "nullable": lambda f: f.convert_dtypes(),
    "nullable float": lambda f: f.assign(
        x=f["x"].astype("Float64"), y=f["y"].astype("Float64"), k=f["k"].astype("Float64")
    ),
    "pyarrow-backed": lambda f: f.convert_dtypes(dtype_backend="pyarrow"),
    "category": lambda f: f.assign(
        g=f["g"].astype("category"), b=f["b"].astype("category"), k=f["k"].astype("category")
    ),
    "categories of other levels": lambda f: f.assign(g=pd.Categorical(f["g"], ["z", "c", "b", "a", "q"])),
    "text": lambda f: f.assign(k=_text(f["k"]), b=_text(f["b"])),
    "python strings": lambda f: f.assign(g=f["g"].astype(pd.StringDtype("python"))),
    "pyarrow strings": lambda f: f.assign(g=f["g"].astype(pd.StringDtype("pyarrow"))),
    "arrow": _arrow,
    "arrow in pieces": lambda f: pa.concat_tables([_arrow(f.iloc[i : i + 37]) for i in range(0, len(f), 37)]),
    "arrow, sliced": lambda f: pa.concat_tables([_arrow(f.iloc[:9]), _arrow(f)]).slice(9),
    "arrow dictionaries": lambda f: _replace(_arrow(f), g=_arrow(f)["g"].dictionary_encode()),
    "arrow dictionaries in pieces": lambda f: pa.concat_tables(
        [_replace(t := _arrow(f.iloc[i : i + 41]), g=t["g"].dictionary_encode()) for i in range(0, len(f), 41)]
    ),
    "arrow dictionaries, unsigned": lambda f: _replace(
        _arrow(f), g=_arrow(f)["g"].dictionary_encode().cast(pa.dictionary(pa.uint32(), pa.string()))
    ),
    "arrow large strings": lambda f: _replace(_arrow(f), g=_arrow(f)["g"].cast(pa.large_string())),
    "arrow string views": lambda f: _replace(_arrow(f), g=_arrow(f)["g"].cast(pa.string_view())),
    "arrow small integers": lambda f: _replace(_arrow(f), k=_arrow(f)["k"].cast(pa.int8())),
    "polars": lambda f: pl.from_arrow(_arrow(f)),
    "polars categorical": lambda f: pl.from_arrow(_arrow(f)).with_columns(pl.col("g").cast(pl.Categorical)),
    "polars enum": lambda f: pl.from_arrow(_arrow(f)).with_columns(pl.col("g").cast(pl.Enum(["c", "a", "b"]))),
}


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("missing", [False, True], ids=["complete", "with missing cells"])
def test_storage_does_not_matter(storage, missing):
    frame = sample(400, missing=missing)
    cells = with_missing(frame) if missing else frame
    expected = sums(frame.astype(object) if not missing else cells)
    assert expected[0] > 0
    stored = STORAGES[storage](cells)
    assert sums(stored, chunk_rows=129, threads=2) == expected


def test_strided_columns_of_a_table_do_not_matter():
    frame = sample(1000)[["x", "y"]]
    question = GramDesign(SCHEMA, formula="y ~ x + exp(x)")
    table = pd.DataFrame(np.ascontiguousarray(frame.to_numpy()), columns=["x", "y"], copy=False)
    assert table["x"].to_numpy().strides != (8,)
    assert sums(table, question) == sums(frame.copy(), question)
    assert sums(frame.iloc[::2], question) == sums(frame.iloc[::2].reset_index(drop=True).copy(), question)


@pytest.mark.parametrize("kind", [np.float32, ">f8", np.longdouble, np.float16])
def test_other_floats_mean_their_values(kind):
    frame = sample(200)[["x", "y"]].astype(kind)
    question = GramDesign(SCHEMA, formula="y ~ x")
    assert sums(frame, question) == sums(frame.astype(np.float64), question)


def reference(frame):
    """Sum in whole Python numbers, cell by cell: the constant, x, the three levels' codes, b and y."""
    codes = simplex_codes(3)
    total = [0] * 21
    for x, b, g, y in frame[["x", "b", "g", "y"]].itertuples(index=False, name=None):
        if np.isnan(y):
            continue
        grid = [_round(x, -3, 11), UNIT if b else -UNIT, *map(int, codes["abc".index(g)]), _round(y, 0, 50)]
        row = [UNIT, grid[0], grid[1], grid[2], grid[3], grid[4]]
        products = [row[i] * row[j] for i in range(6) for j in range(i, 6)]
        total = [left + right for left, right in zip(total, products, strict=True)]
    return total


def _round(value, lower, upper):
    clamped = Fraction(min(max(value, lower), upper))
    return round((clamped - Fraction(lower + upper, 2)) / Fraction(upper - lower, 2) * UNIT)


def test_sums_equal_a_slow_reference_in_fractions():
    frame = sample(600)
    question = GramDesign(SCHEMA, formula="y ~ x + b + g")
    assert question.basis.names == ("1", "x", "b", "g[1]", "g[2]", "y")
    assert sums(frame, question) == reference(frame)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2, 503])
def test_every_row_adds_its_own_contribution_wherever_it_stands(rows):
    frame = sample(rows)
    source = open_source(frame)
    singles = [exact_sums(GramSum(QUESTION.rows), open_source(frame.iloc[[i]]), threads=1) for i in range(rows)]
    assert [sum(parts) for parts in zip(*singles, strict=True)] == exact_sums(GramSum(QUESTION.rows), source)


@pytest.mark.parametrize("position", [0, 1, 499, 998, 999])
def test_removing_a_row_takes_away_exactly_its_contribution(position):
    frame = sample(1000)
    kept = frame.drop(index=position)
    assert len(kept) == 999
    expected = [a - b for a, b in zip(sums(frame), sums(frame.iloc[[position]]), strict=True)]
    assert sums(kept) == expected


@pytest.mark.parametrize("storage", STORAGES)
def test_no_rows_sum_to_zero(storage):
    frame = STORAGES[storage](sample(0)) if "pieces" not in storage else _arrow(sample(0))
    assert sums(frame) == [0] * len(sums(sample(5)))


def test_sums_at_the_edge_of_the_floats_are_exact():
    """Every entry of a chunk's product is 2^53 here, and the total is beyond int64."""
    question = GramDesign(Schema(x=Real(0, 1), y=Real(0, 1)), formula="y ~ x")
    ones = pd.DataFrame({"x": np.ones(32_768 * 3 + 1), "y": np.zeros(32_768 * 3 + 1)})
    total = len(ones) * UNIT**2
    assert sums(ones, question, chunk_rows=32_768) == [total, total, -total, total, -total, total]

    class Tall(Table):
        columns, rows = ("x", "y"), 40 * 10**6

        def read(self, names, start, stop):
            return {name: np.broadcast_to(1.0, stop - start) for name in names}

    tall = Tall.rows * UNIT**2
    assert tall > 2**63
    assert exact_sums(GramSum(question.rows), Tall(), chunk_rows=32_768) == [tall] * 6


def test_sums_are_python_integers():
    assert {type(one) for one in sums(sample(50))} == {int}


# Sums in the cells of a table

CELLS = {
    "moments": SumPlan(
        "cov", SCHEMA, columns=("x", "log(1 + y)"), axes=({"column": "g"}, {"condition": "x > 4"}), where="k > 0"
    ),
    "weighted": SumPlan("mean", SCHEMA, columns=("x",), axes=({"column": "b"},), weights="y"),
    "total": SumPlan("total", SCHEMA, columns=("x", "k"), axes=({"column": "g"},)),
    "table": SumPlan("table", SCHEMA, axes=({"column": "g"}, {"column": "k"}, {"column": "b"})),
    "table where": SumPlan("table", SCHEMA, axes=({"column": "g"},), where="b & (y > 10)"),
    "count": SumPlan("count", SCHEMA),
    "histogram": SumPlan("histogram", SCHEMA, axes=({"column": "b"}, {"column": "x", "edges": [-2.5, 0.0, 0.3, 11.0]})),
    "histogram of integers": SumPlan("histogram", SCHEMA, axes=({"column": "k", "edges": [0.0, 0.5, 7.0, 15.0]},)),
}
QUESTIONS = pytest.mark.parametrize("name", CELLS)


def in_cells(frame, name, **options):
    return exact_sums(CELLS[name].rows, open_source(frame), **options)


@QUESTIONS
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("chunk_rows", [7, 1000])
def test_cells_do_not_depend_on_threads_and_chunks(name, threads, chunk_rows):
    frame = sample(3000)
    whole = in_cells(frame, name, threads=1)
    assert in_cells(frame, name, threads=threads, chunk_rows=chunk_rows) == whole
    assert in_cells(frame.iloc[::-1], name, chunk_rows=999) == whole
    assert exact_sums(CELLS[name].rows, open_source(frame)) == whole
    assert any(whole)
    assert {type(one) for one in whole} == {int}


@QUESTIONS
def test_cells_add_over_chunks_that_are_read_at_once(big, name):
    """More rows than one chunk holds."""
    parts = [in_cells(big.iloc[start : start + 10_000], name) for start in range(0, len(big), 10_000)]
    assert in_cells(big, name) == [sum(part) for part in zip(*parts, strict=True)]


@QUESTIONS
@pytest.mark.parametrize("storage", STORAGES)
def test_cells_do_not_depend_on_storage(name, storage):
    frame = with_missing(sample(300))
    assert in_cells(STORAGES[storage](frame), name, chunk_rows=61, threads=2) == in_cells(frame, name)


@QUESTIONS
def test_each_row_is_in_one_cell_at_most_and_adds_its_own(name):
    frame = with_missing(sample(60))
    rows = CELLS[name].rows
    singles = np.array([in_cells(frame.iloc[[place]], name) for place in range(60)], dtype=object)
    assert singles.sum(axis=0).tolist() == in_cells(frame, name)
    touched = (singles.reshape(60, rows.size, rows.width) != 0).any(axis=2).sum(axis=1)
    assert touched.max() == 1
    assert (touched == 0).any() or name == "count"


@QUESTIONS
@pytest.mark.parametrize("storage", ["objects", "arrow", "polars", "nullable"])
def test_cells_of_no_rows(name, storage):
    empty = in_cells(STORAGES[storage](sample(0)), name)
    assert empty == [0] * (CELLS[name].rows.size * CELLS[name].rows.width)


@QUESTIONS
def test_cells_of_rows_that_all_drop(name):
    frame = pd.DataFrame({column: [None] * 9 for column in SCHEMA}, dtype=object)
    assert sum(in_cells(frame, name)) == (9 if name == "count" else 0)


@pytest.mark.parametrize("flush", [1, 2, 3, 4096])
def test_the_sums_do_not_depend_on_when_they_leave_64_bits(monkeypatch, flush):
    frame = sample(600)
    expected = {name: in_cells(frame, name) for name in CELLS}
    monkeypatch.setattr(sums_module, "_FLUSH", flush)
    for name in CELLS:
        assert in_cells(frame, name, chunk_rows=100) == expected[name]


def test_64_bits_hold_a_full_run_of_chunks():
    """A chunk's sum is at most 2^19 times 2^15 in size."""
    assert sums_module._FLUSH * UNIT * 32_768 < 2**63

    class Tall(Table):
        columns, rows = ("x",), 3 * 32_768 + 5

        def read(self, names, start, stop):
            return {name: np.broadcast_to(11.0, stop - start) for name in names}

    rows = SumPlan("mean", SCHEMA, columns=("x",), target="data").rows
    assert exact_sums(rows, Tall()) == [Tall.rows * UNIT] * 2


@pytest.mark.parametrize("chunk_rows", [0, -1, 32769])
def test_chunks_of_cells_that_floats_could_not_sum_exactly_are_refused(chunk_rows):
    with pytest.raises(OptionError, match="chunk_rows"):
        in_cells(sample(3), "table", chunk_rows=chunk_rows)


def test_cells_equal_a_slow_reference_in_fractions():
    frame = sample(300)
    rows = SumPlan("mean", SCHEMA, columns=("x", "y"), axes=({"column": "g"},), target="data").rows
    assert rows.width == 3
    expected = np.zeros((3, 3), dtype=object)
    for x, g, y in frame[["x", "g", "y"]].itertuples(index=False, name=None):
        if not np.isnan(y):
            expected["abc".index(g)] += np.array([UNIT, _round(x, -3, 11), _round(y, 0, 50)], dtype=object)
    assert exact_sums(rows, open_source(frame)) == [int(value) for value in expected.ravel()]


def test_counts_of_a_table_are_those_of_pandas():
    frame = sample(2000, missing=False)
    rows = CELLS["table"].rows
    found = pd.Series(in_cells(frame, "table"), index=pd.MultiIndex.from_tuples(rows.cells))
    counted = frame.groupby(["g", "k", "b"]).size()
    assert found[found > 0].sort_index().to_dict() == counted.to_dict()
    assert found.sum() == 2000
