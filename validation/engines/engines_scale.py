"""What ten thousand million rows take on k workers: from measured time a row, and what the driver is sent."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dpinfer.kernel.sources import Pass, Slice, Source
from dpinfer.kernel.sums import sum_batches
from validation.common.outputs import OUTPUT, Options, new_figure, read_table, write_figure, write_table
from validation.common.rules import Claim
from validation.common.timing import took
from validation.engines.many_rows import asked, file_rows, load, rows_on_disk
from validation.engines.parts import parts_noted

ROWS = 10**10
PARTITION = 10**6
"""Rows of a partition, of which there are ten thousand."""

WORKERS = (1, 10, 100)

ASKED = ("Gram", "mean", "table", "median", "logit", "people")
SENT = (*ASKED, "blocks")

WIDE = (1_000, 10_000, 100_000, 1_000_000)
OPENED, MOST_LINKS = 10**11, 10_000
"""Bytes of a folder that is opened, and links to a file at most."""

GIVEN = 8
"""Partitions whose sums are added up when that is timed."""


def sent_by(question: str, folder: Path, rows: int) -> dict[str, float]:
    """Return the passes over all rows, and what comes back in all of them: bytes a partition, and bytes a row."""
    ask = asked(question, folder)
    with parts_noted(weighed=True) as parts:
        ask()
    passes = sum(part.rows for part in parts) / rows
    joined = [part.size for part in parts if part.joined]
    return {
        "passes": passes,
        "bytes a partition": sum(joined) / (len(parts) / passes),
        "bytes a row": sum(part.size for part in parts if not part.joined) / rows,
    }


class Given(Source):
    """Partitions whose workers have joined vectors of sums."""

    columns = ("x",)

    def __init__(self, sums: int) -> None:
        self._sums = np.arange(sums, dtype=np.int64) * 2**20
        self.bytes = 0.0

    def batches(self, names: Sequence[str], most: int) -> Iterator[Slice]:
        """Refuse: there are no rows."""
        raise NotImplementedError

    def pieces(self, one: Pass[Any]) -> Iterator[Any]:
        """Give what each partition sends, as it arrives."""
        assert one.join is not None
        packed = pickle.dumps(one.join([self._sums, self._sums]), protocol=pickle.HIGHEST_PROTOCOL)
        self.bytes = len(packed)
        return (pickle.loads(packed) for _ in range(GIVEN))


def wide(arguments: Options) -> pd.DataFrame:
    """Return what partitions send for many sums, and the time in which the driver reads and adds them."""
    found = []
    for sums in WIDE:
        source, seconds = Given(sums), []
        for _ in range(arguments.replicates):
            start = time.process_time()
            sum_batches(source, ("x",), _nothing, size=sums, largest=2**40)
            seconds.append((time.process_time() - start) / GIVEN)
        each = float(np.median(seconds))
        partitions = ROWS // PARTITION
        found.append((sums, source.bytes / sums, source.bytes * partitions / 1e9, each * 1e9 / sums, each * partitions))
    heads = ["sums", "bytes a sum and partition", "GB to the driver", "ns a sum and partition", "seconds of the driver"]
    return pd.DataFrame(found, columns=heads)


def _nothing(_: object, __: object) -> np.ndarray:
    raise NotImplementedError


def seconds_to_open(folder: Path, replicates: int) -> tuple[int, float]:
    """Return how many files a folder of 100 GB has here, links to one file, and the seconds to bind it as rows."""
    file = next(folder.glob("*.parquet"))
    inner = folder / "opened"
    inner.mkdir()
    count = min(-(-OPENED // file.stat().st_size), MOST_LINKS)
    for place in range(count):
        os.link(file, inner / f"{place:05}.parquet")
    return count, float(np.median([took(lambda: asked("Gram", inner)).clock for _ in range(replicates)]))


def a_row(table: pd.DataFrame) -> pd.DataFrame:
    """Return processor nanoseconds a row, of workers and of the driver, between the two largest sizes."""
    found = {}
    for question, part in table.groupby("question"):
        low, high = part.sort_values("rows").iloc[-2:].to_dict("records")
        rows = high["rows"] - low["rows"]
        names = ("processor seconds", "in reading and mapping")
        every, mapped = ((high[name] - low[name]) / rows * 1e9 for name in names)
        found[question] = {"worker ns a row": mapped, "driver ns a row": max(every - mapped, 0.0)}
    return pd.DataFrame(found).T


def run(arguments: Options) -> list[Claim]:
    """Compute, write the tables and the figure."""
    measured = arguments.out / "engines_memory.csv"
    nanoseconds = a_row(read_table(measured if measured.exists() else OUTPUT / "engines_memory.csv"))
    rows = file_rows(arguments.replicates)
    with rows_on_disk([rows], arguments.seed) as folder:
        sent = {question: sent_by(question, folder, rows) for question in SENT}
        files, opening = seconds_to_open(folder, arguments.replicates)
    table = pd.DataFrame(sent).T.join(nanoseconds)
    table["GB to the driver"] = (table["bytes a partition"] / PARTITION + table["bytes a row"]) * ROWS / 1e9
    for workers in WORKERS:
        table[f"hours, k = {workers}"] = ROWS * (table["worker ns a row"] / workers + table["driver ns a row"]) / 3.6e12
    table = table.reset_index(names="question")
    notes = [
        f"{ROWS:.0e} rows in partitions of {PARTITION:,}, on k workers of one core each and a driver of one, from the "
        "processor time a row between the two largest sizes of engines_memory: reading Parquet from a local disk and "
        "mapping it is the workers', all else, and watching memory there, counts as the driver's: at most that. "
        "Networks are not in it.",
        "Bytes: of what comes back in all passes, pickled. Sums are one for each partition; of a median (exponential "
        "mechanism), people and blocks, something comes back of every row.",
        f"Opening a folder of 100 GB, {files:,} files, as private data: {opening:.2f} s. Load {load():.1f}.",
    ]
    write_table(table, "engines_scale", arguments, notes)
    many = wide(arguments)
    partitions = f"{ROWS // PARTITION:,} partitions; sums of a partition are joined on its worker."
    write_table(many, "engines_scale_wide", arguments, [partitions])
    write_figure(drawn(table), "engines_scale", arguments)
    design = f"{files:,} files of Parquet, no row read"
    return [Claim("seconds to open a folder of 100 GB (below 1)", design, f"{opening:.2f}", opening < 1, kind="time")]


def drawn(table: pd.DataFrame) -> Figure:
    """Hours against workers, with the driver's own as where lines bend."""
    figure, axes = new_figure(5.6, 3.4)
    workers = np.geomspace(1, 1000, 60)
    for row in table.dropna().to_dict("records"):
        hours = ROWS * (row["worker ns a row"] / workers + row["driver ns a row"]) / 3.6e12
        axes.loglog(workers, hours, label=row["question"])
    axes.set(xlabel="workers of one core", ylabel=f"hours for {ROWS:.0e} rows")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
    return figure
