"""How time grows with rows on disk, with columns and with cores, for a few questions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from validation.common.outputs import Options, new_figure, write_table
from validation.common.rules import Claim
from validation.common.timing import Action, in_turns
from validation.engines.many_rows import bare_scan, first_files, load, rows_on_disk
from validation.speed.ratios import FULL, bound, frame

FILES = [10_000, 90_000, 900_000, *[1_000_000] * 9, *[1_000_000] * 90]
"""Rows of the files: the first 1, 2, 3, 12 and 102 have 10^4, ..., 10^8."""

SIZES = {10**4: 1, 10**5: 2, 10**6: 3, 10**7: 12, 10**8: 102}
COLUMNS, COLUMN_ROWS = (1, 3, 10, 30, 100), 100_000
MOST, LINEAR = 120.0, 1.25
"""Seconds of rounds for a size, about; and processor time a row, of the most rows over that of a tenth, at most."""

ASKED = ("mean", "group mean", "median", "table", "OLS from cross-products", "OLS by iterations", "logit")
NAMES = ("x0", "y", "b", "g", "h")


def confine(cores: Iterable[int]) -> None:
    """Keep all threads of this process, and those that they start, on some cores."""
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # it ended since it was listed
            os.sched_setaffinity(int(thread.name), cores)


def measured(options: Options) -> pd.DataFrame:
    """Return medians of seconds by question, with rows, columns and cores."""
    found: list[tuple[str, int, str, float, float, int]] = []

    def add(what: str, many: int, actions: dict[str, Action]) -> None:
        for name, seconds in in_turns(actions, options.replicates, most=MOST).items():
            found.append((what, many, name, *np.median(seconds, axis=0), len(seconds)))

    def table(rows: int, _: np.random.Generator, place: int) -> pa.Table:
        return pa.Table.from_pandas(frame(rows, NAMES, options.seed + place), preserve_index=False)

    sizes = dict([*SIZES.items()][: None if options.replicates >= FULL else 3])
    with rows_on_disk(FILES[: [*sizes.values()][-1]], options.seed, table) as folder:
        for rows, files in sizes.items():
            held = first_files(folder, files)
            scan = {"bare scan of one column": partial(bare_scan, held, pre_buffer=True, columns=["y"])}
            add("rows", rows, scan | bound(held, NAMES, *ASKED))
        held, cores = first_files(folder, [*sizes.values()][-2]), sorted(os.sched_getaffinity(0))
        for count in (1, 2):
            confine(cores[:count])
            add("cores", count, bound(held, NAMES, *ASKED))
        confine(cores)
    n = COLUMN_ROWS if options.replicates >= FULL else COLUMN_ROWS // 10
    for columns in COLUMNS:
        names = [*(f"x{place}" for place in range(columns)), "y", "b"]
        add("regressors", columns, bound(frame(n, names), names, *ASKED[4:]))
    return pd.DataFrame(found, columns=["growing", "number", "question", "seconds", "processor seconds", "rounds"])


def run(options: Options) -> list[Claim]:
    """Measure, write the table and the figure, and judge growth with rows."""
    before, table = load(), measured(options)
    figure, panels = new_figure(11, 3.6, 1, 3)
    colours = {name: f"C{place}" for place, name in enumerate(dict.fromkeys(table["question"]))}
    for axes, (what, part) in zip(panels, table.groupby("growing", sort=False), strict=True):
        for name, line in part.groupby("question", sort=False):
            axes.loglog(line["number"], line["seconds"], color=colours[name], marker="o", ms=3, label=name)
        axes.set(xlabel=what, ylabel="seconds")
    panels[1].set(xscale="linear", xticks=[1, 2])
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", fontsize=7, frameon=False)
    at = table[table["growing"] == "rows"].pivot_table("processor seconds", "question", "number", sort=False)
    few, many = at.columns[-2:]
    growth = at.loc[[*ASKED], many] / at.loc[[*ASKED], few] * few / many
    notes = [
        f"Medians of at most {options.replicates} rounds in turn, fewer where they take long. Rows: in files of "
        f"Parquet, one regressor. Cores: {few:,} of these rows. Regressors: in memory.",
        f"Load (threads of the whole machine that wanted to run) before {before:.1f}, after {load():.1f}.",
    ]
    write_table(table, "growth", options, notes, figure)
    return [
        Claim(f"processor time a row of {many:,} over that of {few:,}: {name}", "Parquet, one regressor",
              ours=f"{ratio:.2f}", held=ratio <= LINEAR, kind="time", threshold=f"at most {LINEAR}")
        for name, ratio in growth.items()
    ]  # fmt: skip
