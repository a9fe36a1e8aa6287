"""Memory, time against rows, and what is spilled, of questions on Parquet: each measured in a process of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from tqdm import tqdm

from validation.common.outputs import Options, new_figure, write_table
from validation.common.rules import Claim
from validation.engines.many_rows import FULL, MOST_FILES, PERSON_ROWS, file_rows, first_files, load, rows_on_disk
from validation.engines.measured import measured

ASKED = ("Gram", "mean", "table", "median", "logit", "people")

FEW = 10
FILES, OF_PEOPLE, QUICK = (1, FEW, MOST_FILES), (1, FEW, 20, MOST_FILES), (FEW, MOST_FILES)
"""Sizes in files."""

MOST = 350
"""Megabytes above the imports."""

SAME = 40
"""Megabytes by which the peak may differ between 10 and 40 files: what threads happen to hold."""

LINEAR = 1.25
"""Processor time a row, of 40 files over that of 10."""


def sizes_of(question: str, replicates: int) -> tuple[int, ...]:
    """Return the sizes that a question is measured at."""
    if replicates < FULL:
        return QUICK
    return OF_PEOPLE if question == "people" else FILES


def measure(folder: Path, arguments: Options) -> pd.DataFrame:
    """Return medians for every question and size: seconds, megabytes, bytes written a row, and the load."""
    rows = file_rows(arguments.replicates)
    cells = [(question, files) for question in ASKED for files in sizes_of(question, arguments.replicates)]
    found = []
    for _ in tqdm(range(arguments.replicates), desc="engines_memory"):
        for question, files in cells:
            one = measured(question, first_files(folder, files))
            found.append({"question": question, "rows": files * rows, **one, "load": load()})
    table = pd.DataFrame(found).groupby(["question", "rows"], sort=False).median().reset_index()
    table["bytes a row"] = np.round(table.pop("written") / table["rows"], 1)
    return table.rename(
        columns={
            "worked": "processor seconds",
            "mapped": "in reading and mapping",
            "peak": "peak MB",
            "anonymous": "anonymous MB",
        }
    )


def run(arguments: Options) -> list[Claim]:
    """Measure, write the table and the figure, and judge."""
    with rows_on_disk([file_rows(arguments.replicates)] * MOST_FILES, arguments.seed) as folder:
        table = measure(folder, arguments)
    notes = [
        f"Medians of {arguments.replicates} processes for each row. Peak: VmHWM above what is resident when everything "
        "is imported, which counts pages of files that are mapped; anonymous memory (RssAnon, every 10 ms) does not.",
        f"People: {PERSON_ROWS} rows each on average, scattered over ten files; three declared columns. Bytes a row: "
        "written to disk.",
        "Reading and mapping is what workers of a cluster do; the rest is the driver's.",
        "Load: threads of the whole machine that wanted to run, of two cores.",
    ]
    write_table(table, "engines_memory", arguments, notes, drawn(table))
    return claims(table)


def claims(table: pd.DataFrame) -> list[Claim]:
    """Judge memory and time of each question."""
    many = int(table["rows"].max())
    few = many * FEW // MOST_FILES
    found = []
    for question, part in table.groupby("question", sort=False):
        at = part.set_index("rows")
        peak, before = at.loc[many, "peak MB"], at.loc[few, "peak MB"]
        each = at["processor seconds"] / at.index
        linear = each[many] / each[few]
        design = f"{question}, {many:,} rows of Parquet"
        found += [
            Claim(f"peak memory above the imports in MB (at most {MOST})", design, f"{peak:.0f}",
                  max(peak, before) <= MOST, kind="time"),
            Claim(f"megabytes above the peak at {few:,} rows (at most {SAME})", design, f"{peak - before:.0f}",
                  peak - before <= SAME, kind="time"),
            Claim(f"processor time a row over that at {few:,} rows (at most {LINEAR})", design, f"{linear:.2f}",
                  linear <= LINEAR, kind="time"),
        ]  # fmt: skip
    return found


def drawn(table: pd.DataFrame) -> Figure:
    """Time and memory against rows."""
    figure, (times, memory) = new_figure(8.4, 3.4, 1, 2)
    for question, part in table.groupby("question", sort=False):
        times.loglog(part["rows"], part["seconds"], marker="o", label=question)
        memory.semilogx(part["rows"], part["peak MB"], marker="o")
    memory.axhline(MOST, color="#999999", linestyle=":")
    times.set(xlabel="rows", ylabel="seconds on two cores")
    memory.set(xlabel="rows", ylabel="peak memory above the imports (MB)", ylim=(0, None))
    times.legend(frameon=False, fontsize=8)
    for axes in (times, memory):
        axes.spines[["top", "right"]].set_visible(False)
    return figure
