"""Time of all pairs of ten columns on Parquet beside bare scans of the same columns, timed in turn."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.figure import Figure

import dpinfer as dpi
from validation.common.outputs import Options, limits, new_figure, write_table
from validation.common.rules import Claim
from validation.engines.many_rows import FULL, bare_scan, load, timed

LEVELS = (2, 3, 4, 5, 6, 8, 8, 8, 10, 10)
"""Of ten columns: five of text and five of whole numbers, in turn; 184 million cells."""

FILES, ROWS, QUICK_ROWS, GROUP = 10, 1_000_000, 20_000, 250_000
LIMIT = 6.0
PRICE = dpi.ZCDP(0.1)
SCHEMA = dpi.Schema(
    {
        f"c{place}": dpi.Integer(0, m - 1) if place % 2 else dpi.Category([f"level {level}" for level in range(m)])
        for place, m in enumerate(LEVELS)
    }
)
WORKLOADS = {
    "45 pairs of ten columns": dpi.workload(list(SCHEMA)),
    "one pair": dpi.workload(list(SCHEMA)[:2]),
    "120 triples of ten columns": dpi.workload(list(SCHEMA), ways=3),
}


def write_rows(folder: Path, rows: int, seed: int) -> None:
    """Write the files."""
    for file in range(FILES):
        rng = np.random.default_rng([seed, file])
        cells: dict[str, Any] = {}
        for place, m in enumerate(LEVELS):
            codes = rng.integers(0, m, rows)
            labels = np.array([f"level {level}" for level in range(m)])
            cells[f"c{place}"] = codes.astype(np.int32) if place % 2 else labels[codes]
        pq.write_table(pa.table(cells), folder / f"{file:03}.parquet", row_group_size=min(GROUP, rows))


def asked(folder: Path, workload: Any) -> Callable[[], Any]:
    """Return what measures marginals of confidential rows, ledger and noise included."""
    data = dpi.PrivateData(folder, SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(1e6)))
    question = dpi.marginals(workload, data)
    return lambda: question.measure(PRICE)


def seconds_of(folder: Path, replicates: int) -> dict[str, np.ndarray]:
    """Time everything in turn (replicates, 2), after a round that is not counted."""
    actions: dict[str, Callable[[], Any]] = {}
    for name, workload in WORKLOADS.items():
        columns = list(workload.columns)
        for buffers in (True, False):
            scan = partial(bare_scan, folder, pre_buffer=buffers, columns=columns)
            actions[f"{name}: scan{'' if buffers else ', pre_buffer=False'}"] = scan
        actions[name] = asked(folder, workload)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in actions}
    for place in range(replicates + 1):
        for name, action in actions.items():
            one = timed(action)
            if place:
                found[name].append(one)
    return {name: np.array(values) for name, values in found.items()}


def run(arguments: Options) -> list[Claim]:
    """Time, write the table and the figure, and judge."""
    rows = ROWS if arguments.replicates >= FULL else QUICK_ROWS
    before = load()
    folder = Path(tempfile.mkdtemp(prefix="dpinfer-validation-"))
    try:
        write_rows(folder, rows, arguments.seed)
        seconds = seconds_of(folder, arguments.replicates)
    finally:
        shutil.rmtree(folder)
    found = []
    for name, workload in WORKLOADS.items():
        scans = [seconds[f"{name}: scan"], seconds[f"{name}: scan, pre_buffer=False"]]
        faster = min(scans, key=lambda one: float(np.median(one[:, 0])))
        ratio = np.median(seconds[name] / faster, axis=0)
        question = dpi.marginals(workload).measurement(PRICE, schema=SCHEMA, neighbors="add_remove")
        found.append((name, FILES * rows, question.rows.entries, len(question.names), *ratio,
                      float(np.median(seconds[name][:, 0])), float(np.median(faster[:, 0]))))  # fmt: skip
    heads = [
        "marginals",
        "rows",
        "counters",
        "sums",
        "scans",
        "scans of processor time",
        "seconds",
        "seconds of a scan",
    ]
    table = pd.DataFrame(found, columns=heads)
    notes = [
        f"{FILES * rows:,} rows of ten columns in {FILES} files; medians of the ratios of {arguments.replicates} "
        "neighbours in time to the faster bare pyarrow scan of the same columns, after one round that is not counted; "
        "price, ledger and noise included.",
        f"Load (threads of the whole machine that wanted to run, of two cores) before {before:.1f}, after "
        f"{load():.1f}.",
    ]
    write_table(table, "marginals_speed", arguments, notes, drawn(table))
    ratio = float(table["scans"].iloc[0])
    return [
        Claim("time of all 45 pairs of ten columns over a bare scan (at most 6)", f"{FILES * rows:,} rows of Parquet",
              f"{ratio:.2f}", ratio <= LIMIT, kind="time"),
    ]  # fmt: skip


def drawn(table: pd.DataFrame) -> Figure:
    """Times over that of a scan."""
    figure, axes = new_figure(6, 2.4)
    place = np.arange(len(table))[::-1]
    axes.barh(place, table["scans"], color="#03396c", height=0.5)
    limits(axes, 1.0, LIMIT, "asked for 45 pairs", vertical=True)
    axes.set_yticks(place, table["marginals"])
    axes.set_xlabel("times as long as a bare scan of the same columns")
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    return figure
