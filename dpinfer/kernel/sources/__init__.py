"""Sources are where rows come from: tables in memory, files, streams, and engines that map rows where they are.

A source gives names of columns, and does a `Pass`: a function is called with the cells of every batch of rows, once
for each row, and what it gives comes back. An engine differs in who calls it. To plug one in, derive from `Source`:

- ``columns``: the names, which are public; read without looking at a row.
- ``batches(names, most)``: all rows as `Slice`, for what has to come to this process.
- ``pieces(one)``: by default batches are mapped by threads of this process. An engine with workers of its own sends
  ``one`` to them by cloudpickle. A worker calls ``part_result(one, slices)`` with the slices of its partition, made by
  ``slices_of`` from record batches, and returns at most one piece and the number of its rows; the engine checks that
  every partition comes back exactly once.
- ``opened()``: what is read in one run; it sees to it that all passes of the run read the same rows.
- ``check(...)``: refuses, before anything is charged, what the engine does not serve.

Nothing is ever decided by a number of rows or by statistics that a file keeps of them.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads

from dpinfer.errors import DataError
from dpinfer.kernel.rows.base import CHUNK_ROWS
from dpinfer.kernel.sources.base import Pass, Slice, Source, Table
from dpinfer.kernel.sources.reader import (
    OnceSource,
    StreamSource,
    known_table,
    open_dataset,
    open_path,
    open_table,
    types_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


__all__ = ["Pass", "Slice", "Source", "Table", "is_instance", "open_source", "open_table"]


_EXPECTED = (
    "a pandas, Polars, Dask or Spark DataFrame, a Polars LazyFrame, a pyarrow Table, Dataset or RecordBatchReader, "
    "an Ibis table, a DuckDB relation, (DuckDB connection, query), anything with __arrow_c_stream__, "
    "or the path of Parquet or CSV files"
)


def open_source(source: Any) -> Source:  # noqa: PLR0911  (a return for each kind)
    """Recognise rows; `DataError` if they are none, or have repeated column names. No row is read."""
    if isinstance(source, str | os.PathLike):
        return open_path(source)
    if isinstance(source, pads.Dataset):
        return open_dataset(source)
    if isinstance(source, pa.RecordBatchReader):
        return OnceSource(source)
    if isinstance(source, tuple) and len(source) == 2 and isinstance(source[1], str):
        return _open_query(*source)
    for module, name, opened in _ENGINES:
        if is_instance(source, module, name):
            return opened(source)
    table = known_table(source)
    if table is not None:
        return table
    if hasattr(source, "__arrow_c_stream__"):
        with suppress(pa.ArrowException), pa.RecordBatchReader.from_stream(source) as reader:
            return StreamSource(
                reader.schema.names, lambda _: pa.RecordBatchReader.from_stream(source), types_of(reader.schema)
            )
    raise DataError(f"source is a {type(source).__name__}: expected {_EXPECTED}")


def is_instance(source: object, module: str, name: str) -> bool:
    """Whether an object is of a type of a library, which is not loaded for that."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(source, kind)


def _open_relation(relation: Any) -> Source:
    """Open a DuckDB relation: the query runs anew for every pass."""

    def read(names: Sequence[str]) -> Any:
        chosen = relation.project(", ".join('"' + name.replace('"', '""') + '"' for name in names))
        reader = getattr(chosen, "to_arrow_reader", None) or chosen.fetch_record_batch
        return reader(CHUNK_ROWS)

    def rows() -> int:
        return relation.aggregate("count(*)").fetchall()[0][0]  # type: ignore[no-any-return]

    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    return StreamSource(relation.columns, read, types, rows=rows, lock=_one_query)


_one_query = threading.Lock()
"""A connection of DuckDB drops the stream of one query when it is asked another, and relations do not tell theirs."""


def _open_query(connection: Any, query: str) -> Source:
    if not is_instance(connection, "duckdb", "DuckDBPyConnection"):
        raise DataError(f"source is ({type(connection).__name__}, text): expected (DuckDB connection, query)")
    try:
        relation = connection.sql(query)
    except Exception as error:
        raise DataError(f"source: DuckDB refuses the query ({type(error).__name__})") from None
    if relation is None:
        raise DataError("source: the query gives no rows; expected a select")
    return _open_relation(relation)


def _open_lazy(frame: Any) -> Source:
    """Open a Polars LazyFrame: it is collected in batches, anew for every pass."""

    def read(names: Sequence[str]) -> Iterator[Any]:
        yield from frame.select(list(names)).collect_batches(maintain_order=True, engine="streaming")

    def rows() -> int:
        return frame.select(sys.modules["polars"].len()).collect().item()  # type: ignore[no-any-return]

    schema = frame.collect_schema()
    known_table(schema.to_frame())  # loads what reads its batches, before a charge
    return StreamSource(schema.names(), read, dict(schema), rows=rows)


def _open_ibis(table: Any) -> Source:
    """Open an Ibis table: its backend runs the query anew for every pass."""
    try:
        backend = table.get_backend().name
    except Exception as error:
        raise DataError(f"source is an Ibis table without a backend ({type(error).__name__}): bind it to one") from None
    if backend == "duckdb" and not hasattr(sys.modules["duckdb"].DuckDBPyConnection, "fetch_record_batch"):
        raise DataError(
            "source is an Ibis table of DuckDB, from whose installed version Ibis reads no batches: "
            "install duckdb<2, or give (DuckDB connection, query)"
        )
    schema = table.schema()
    return StreamSource(
        table.columns,
        lambda names: table.select(*names).to_pyarrow_batches(chunk_size=CHUNK_ROWS),
        {name: schema[name] for name in table.columns},
        rows=lambda: table.count().execute(),
        lock=_one_query if backend == "duckdb" else None,
    )


def _open_engine(name: str, frame: Any) -> Source:
    from dpinfer.kernel.sources import engines  # noqa: PLC0415  (extras)

    opened: Source = getattr(engines, name)(frame)
    return opened


def _refuse_connect(_: object) -> Source:
    raise DataError(
        "source is a DataFrame of Spark Connect, which does not say how many partitions there are, so that nobody "
        "could tell whether all came back: expected a DataFrame of a classic session"
    )


_ENGINES: tuple[tuple[str, str, Callable[[Any], Source]], ...] = (
    ("polars", "LazyFrame", _open_lazy),
    ("duckdb", "DuckDBPyRelation", _open_relation),
    ("ibis.expr.types", "Table", _open_ibis),
    ("dask.dataframe", "DataFrame", partial(_open_engine, "DaskSource")),
    ("pyspark.sql.classic.dataframe", "DataFrame", partial(_open_engine, "SparkSource")),
    ("pyspark.sql.connect.dataframe", "DataFrame", _refuse_connect),
)
"""Types of libraries that are looked for without loading these, and how they are opened."""
