"""Rows on disk that the scripts of this folder measure on: written from a seed, and removed when a run ends."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

import dpinfer as dpi

FULL = 2
"""Replicates from which on files have all their rows."""

_FILE_ROWS, _QUICK_ROWS = 1_000_000, 10_000

MOST_FILES = 40

_GROUP_ROWS = 250_000
"""Rows of a row group."""

PERSON_ROWS = 4
"""Rows of a person on average, and how many count at most."""

_TOGETHER = 10
"""Files over which the rows of a person are scattered."""

_BYTES_A_ROW = 85
"""On disk, rounded up."""

PRICE = dpi.ZCDP(0.1)
_NAMES = [f"x{j}" for j in range(5)]
_SCHEMA = dpi.Schema(
    {
        **{name: dpi.Real(0, 1) for name in _NAMES},
        "y": dpi.Real(-2, 3),
        "b": dpi.Integer(0, 1),
        "k": dpi.Integer(0, 9),
        "g": dpi.Category(["a", "b", "c", "d"]),
        "h": dpi.Category(["u", "v", "w"]),
    }
)
_OF_PEOPLE = _SCHEMA.select(["x0", "x1", "y"])

COLUMNS = list(_SCHEMA)
"""Six floats, two whole numbers and two columns of text."""

QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "Gram": lambda data: dpi.gram(COLUMNS, data),
    "mean": lambda data: dpi.mean("x0", data),
    "table": lambda data: dpi.table(["g", "h"], data),
    "median": lambda data: dpi.median("x1", data),
    "logit": lambda data: dpi.logit("b ~ " + " + ".join(_NAMES), data),
    "people": lambda data: dpi.mean("y", data),
    "blocks": lambda data: dpi.sample_aggregate(
        ["x0", "y"], data, model=_slope, blocks=100, bounds={"slope": (-2, 2)}, bias_correction="none"
    ),
}


def asked(question: str, source: Any) -> Callable[[], Any]:
    """Return what measures one of the questions on confidential rows."""
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1e6))
    people = {"id": "id", "max_rows": PERSON_ROWS} if question == "people" else {}
    data = dpi.PrivateData(source, _OF_PEOPLE if people else _SCHEMA, ledger, **people)
    procedure = QUESTIONS[question](data)
    return lambda: procedure.measure(PRICE)


def _slope(frame: Any) -> list[float]:
    return [float(np.polyfit(frame["x0"], frame["y"], 1)[0])]


# Rows


def file_rows(replicates: int) -> int:
    """Return how many rows a file has, in a full run or in a quick one."""
    return _FILE_ROWS if replicates >= FULL else _QUICK_ROWS


@contextmanager
def rows_on_disk(
    sizes: Sequence[int], seed: int, table: Callable[[int, np.random.Generator, int], pa.Table] | None = None
) -> Iterator[Path]:
    """Give a folder of Parquet files with so many rows, in the folder for temporary files.

    ``table(rows, rng, place)`` makes one file; by default it has the columns of this module.

    Raises
    ------
    OSError
        If the disk has not twice the room that they take.
    """
    need = 2 * sum(sizes) * _BYTES_A_ROW
    with tempfile.TemporaryDirectory(prefix="dpinfer-validation-") as name:
        if shutil.disk_usage(name).free < need:
            raise OSError(f"{sum(sizes):,} rows need {need / 2**30:.1f} GB in {name}")
        folder = Path(name)
        for place, rows in enumerate(sizes):
            made = (table or _table)(rows, np.random.default_rng([seed, place]), place)
            pq.write_table(made, folder / f"{place:03}.parquet", row_group_size=min(_GROUP_ROWS, -(-rows // 4)))
        yield folder


def _table(rows: int, rng: np.random.Generator, place: int) -> pa.Table:
    cells = {name: rng.uniform(0, 1, rows) for name in _NAMES}
    cells["y"] = cells["x0"] + rng.normal(0, 0.3, rows)
    cells["b"] = (rng.random(rows) < 0.3 + 0.4 * cells["x1"]).astype(np.int8)
    cells["k"] = rng.integers(0, 10, rows, dtype=np.int32)
    cells["g"] = np.array(["a", "b", "c", "d"])[rng.integers(0, 4, rows)]
    cells["h"] = np.array(["u", "v", "w"])[rng.integers(0, 3, rows)]
    people = _TOGETHER * rows // PERSON_ROWS
    cells["id"] = place // _TOGETHER * people + rng.integers(0, people, rows)
    return pa.table(cells)


def first_files(folder: Path, files: int) -> Path:
    """Return a folder inside a folder of files with the first of these, which take no more room for it."""
    inner = folder / f"first-{files}"
    if not inner.exists():
        inner.mkdir()
        for path in sorted(folder.glob("*.parquet"))[:files]:
            os.link(path, inner / path.name)
    return inner


def bare_scan(folder: Path, *, pre_buffer: bool, columns: Sequence[str] = COLUMNS) -> int:
    """Read columns by the scanner of Arrow datasets, with its defaults or without buffers; return the rows."""
    how = pads.ParquetFragmentScanOptions(pre_buffer=pre_buffer)
    batches = pads.dataset(folder).scanner(columns=list(columns), fragment_scan_options=how).to_batches()
    return sum(batch.num_rows for batch in batches)


def load() -> float:
    """Return how many threads of the whole machine wanted to run, on average of the last minute."""
    return os.getloadavg()[0]
