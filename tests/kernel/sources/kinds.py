"""The rows of the goldens in everything that rows may come in, but for engines with workers of their own."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from tests.goldens.frame import FILE, frame

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["ONCE", "kinds", "rows", "table"]

ONCE = "a reader"
"""What can be read once."""


@cache
def rows() -> pd.DataFrame:
    """Return the rows; cells that texts cannot tell exactly are those that the texts tell."""
    texts = pd.read_csv(FILE, dtype=str, keep_default_na=False)["wait"]
    return frame().assign(wait=np.array([text or "nan" for text in texts]).astype(np.float64))


@cache
def table() -> pa.Table:
    """Return the same as an Arrow table; numbers among texts are texts."""
    income = [None if cell is None else str(cell) for cell in rows()["income"]]
    return pa.Table.from_pandas(rows().assign(income=income), preserve_index=False)


def _folder(path: Path, files: int) -> str:
    path.mkdir()
    size = len(rows())
    for place in range(files):
        first, last = size * place // files, size * (place + 1) // files
        pq.write_table(table().slice(first, last - first), path / f"{place:03}.parquet", row_group_size=19)
    return str(path)


def kinds(folder: Path) -> dict[str, Callable[[], Any]]:
    """Return what makes each source anew, by its name; files are written into a folder."""
    connection = duckdb.connect()
    connection.register("answers", table())
    one, seven, hundred = (_folder(folder / f"in {count}", count) for count in (1, 7, 100))
    (folder / "rows.csv").write_bytes(FILE.read_bytes())
    return {
        "Arrow": table,
        "Polars": lambda: pl.from_arrow(table()),
        "LazyFrame": lambda: pl.from_arrow(table()).lazy(),  # type: ignore[union-attr]
        "Parquet": lambda: f"{one}/000.parquet",
        "a folder of 7": lambda: seven,
        "a glob of 100": lambda: f"{hundred}/*.parquet",
        "CSV": lambda: folder / "rows.csv",
        "a dataset": lambda: pads.dataset(seven),
        "a filtered dataset": lambda: pads.dataset(seven).filter(pads.field("kids") >= 0),
        ONCE: lambda: table().to_reader(max_chunksize=37),
        "a relation": lambda: connection.sql("select * from answers"),
        "a query": lambda: (connection, "select * from answers"),
    }
