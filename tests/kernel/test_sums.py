"""Sums over rows are exact: the same integers for any rows, engine, storage, order, chunk and number of threads."""

import threading
from fractions import Fraction
from functools import partial
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpinfer.errors import OptionError
from dpinfer.kernel import sums as sums_module
from dpinfer.kernel.rows.cells import CellSum, QuerySum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.marginals import ClassCounts, MarginalSum, OctaveRows
from dpinfer.kernel.rows.products import GramSum
from dpinfer.kernel.rows.scores import ScoreSum
from dpinfer.kernel.rows.tree import TreeSum
from dpinfer.kernel.sources import Table, open_source
from dpinfer.kernel.sums import exact_sums
from dpinfer.procedures.cell_sums import SumPlan
from dpinfer.regression.gram import GramDesign
from dpinfer.schema import Boolean, Category, Integer, Real, Schema
from dpinfer.schema.axes import LevelsAxis
from dpinfer.schema.basis import basis_of, simplex_codes
from dpinfer.schema.expressions import compile_expression
from dpinfer.schema.grid import UNIT
from tests.kernel.rows.round_cases import counts_of, round_of

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
NOTHING, LEVELS = Features(basis_of((), SCHEMA)), tuple(LevelsAxis(SCHEMA, name) for name in ("g", "b", "k"))
PRODUCTS = Features(GramDesign(SCHEMA, formula="y ~ x * g").basis)
PLANS = {
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
CELLS = {name: plan.rows for name, plan in PLANS.items()}
SUMS = CELLS | {
    "products": GramSum(QUESTION.rows),
    "queries": QuerySum(CellSum(NOTHING, LEVELS[:1]), np.array([[1, 2, -3], [0, 1, 1]]), 1.0, ("p", "q")),
    "marginals": MarginalSum(NOTHING, LEVELS, ((0, 1), (1,), (1, 2)), contrasts=False),
    "tree": TreeSum(SCHEMA, "x", 8, LEVELS[:1]),
    "scores": ScoreSum(SCHEMA, tuple(compile_expression(one, SCHEMA) for one in ("x", "-x", "1e6 * (g == 'a')"))),
    "classes": ClassCounts(SCHEMA),
    "octaves": OctaveRows(SCHEMA.select(["x", "k", "y"]), -3, 5),
    "round": round_of(PRODUCTS),
    "round, L1": round_of(PRODUCTS, "l1"),
    "counts in a round": counts_of(PRODUCTS),
}
"""One of every class that adds up rows."""

EVERY = pytest.mark.parametrize("name", SUMS)


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


# Whatever rows are added up


@EVERY
def test_threads_chunks_and_the_order_of_rows_do_not_matter(big, name):
    """More rows than one chunk holds."""
    found = partial(exact_sums, SUMS[name])
    whole = found(open_source(big), threads=1, chunk_rows=777)
    assert any(whole)
    assert {type(one) for one in whole} == {int}
    for threads, chunk_rows in ((1, 8192), (4, 1000), (3, 32_768), (None, None)):
        assert found(open_source(big), threads=threads, chunk_rows=chunk_rows) == whole
    assert found(open_source(big.iloc[np.random.default_rng(3).permutation(len(big))])) == whole
    parts = [found(open_source(big.iloc[start : start + 10_000])) for start in range(0, len(big), 10_000)]
    assert [sum(part) for part in zip(*parts, strict=True)] == whole


@EVERY
def test_every_row_adds_its_own_contribution_wherever_it_stands(name):
    frame, rows = with_missing(sample(60)), SUMS[name]
    whole = exact_sums(rows, open_source(frame))
    singles = np.array([exact_sums(rows, open_source(frame.iloc[[place]])) for place in range(60)], dtype=object)
    assert singles.sum(axis=0).tolist() == whole
    for chunk_rows, threads in ((1, 1), (7, 4)):
        assert exact_sums(rows, open_source(frame.iloc[::-1]), chunk_rows=chunk_rows, threads=threads) == whole
    if name in CELLS:
        touched = (singles.reshape(60, rows.size, rows.width) != 0).any(axis=2).sum(axis=1)
        assert touched.max() == 1
        assert (touched == 0).any() or name == "count"


def test_no_rows_and_rows_that_all_drop_sum_to_zero():
    nothing = pd.DataFrame({column: [None] * 9 for column in SCHEMA}, dtype=object)
    for name, rows in SUMS.items():
        assert not any(exact_sums(rows, open_source(sample(0))))
        found = exact_sums(rows, open_source(nothing))
        assert any(found) == (name in ("count", "classes")), name
    assert exact_sums(CELLS["count"], open_source(nothing)) == [9]


@pytest.mark.parametrize("chunk_rows", [0, -1, 32769, 10**9])
@pytest.mark.parametrize("name", ["products", "table"])
def test_chunks_that_floats_could_not_sum_exactly_are_refused(name, chunk_rows):
    with pytest.raises(OptionError, match="chunk_rows"):
        exact_sums(SUMS[name], open_source(sample(3)), chunk_rows=chunk_rows)


@pytest.mark.parametrize("flush", [1, 2, 3, 4096])
def test_the_sums_do_not_depend_on_when_they_leave_64_bits(monkeypatch, flush):
    source = open_source(sample(600))
    expected = {name: exact_sums(rows, source) for name, rows in SUMS.items()}
    monkeypatch.setattr(sums_module, "_FLUSH", flush)
    for name, rows in SUMS.items():
        assert exact_sums(rows, source, chunk_rows=100) == expected[name]


# Storages


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
    cells = with_missing(sample(300)) if missing else sample(300, missing=False)
    plain, stored = open_source(cells.astype(object)), open_source(STORAGES[storage](cells))
    for name, rows in SUMS.items():
        assert exact_sums(rows, stored, chunk_rows=61, threads=2) == exact_sums(rows, plain), name


@pytest.mark.parametrize("storage", [name for name in STORAGES if "pieces" not in name])
def test_no_rows_sum_to_zero_in_every_storage(storage):
    source = open_source(STORAGES[storage](sample(0)))
    assert not any(any(exact_sums(rows, source)) for rows in SUMS.values())


def test_the_order_of_columns_and_further_columns_do_not_matter():
    frame = sample(300)
    wider = frame.iloc[:, ::-1].assign(name="Ada", other=np.nan)
    assert sums(wider) == sums(frame)


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


# References


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
    rows = CELLS["table"]
    found = pd.Series(exact_sums(rows, open_source(frame)), index=pd.MultiIndex.from_tuples(rows.cells))
    counted = frame.groupby(["g", "k", "b"]).size()
    assert found[found > 0].sort_index().to_dict() == counted.to_dict()
    assert found.sum() == 2000


# The edges of floats and of 64 bits


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


def test_64_bits_hold_a_full_run_of_chunks():
    """A chunk's sum is at most 2^19 times 2^15 in size."""
    assert sums_module._FLUSH * UNIT * 32_768 < 2**63

    class Tall(Table):
        columns, rows = ("x",), 3 * 32_768 + 5

        def read(self, names, start, stop):
            return {name: np.broadcast_to(11.0, stop - start) for name in names}

    rows = SumPlan("mean", SCHEMA, columns=("x",), target="data").rows
    assert exact_sums(rows, Tall()) == [Tall.rows * UNIT] * 2


@pytest.mark.parametrize("rows", [1000, 40_000])
def test_where_no_thread_can_be_started_sums_are_what_they_are(monkeypatch, rows):
    cells = {"b": np.arange(rows) % 2 == 0}
    schema = Schema(b=Boolean())
    summed = CellSum(Features(basis_of((), schema)), (LevelsAxis(schema, "b"),))
    monkeypatch.setattr(threading.Thread, "start", mock.Mock(side_effect=RuntimeError("can't start new thread")))
    assert exact_sums(summed, open_source(pd.DataFrame(cells)), threads=2) == [rows // 2, rows // 2]
