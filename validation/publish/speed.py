"""Measured sections on time and memory, all from one table: ours over a peer's, with what is asked."""

from __future__ import annotations

import pandas as pd

from validation.common.outputs import OUTPUT
from validation.common.pages import Column, output, picture, section, table, text

COMMAND = "`python -m validation --only ratios`"
GROUPS = {
    "regressions": "Regressions, ten regressors",
    "descriptions": "Descriptions",
    "counts": "Tables, tests and histograms",
    "fixed": "Few rows; simulation, noise and the ledger alone",
    "imports": "Imports",
    "studies": "Coverage studies",
    "resampled": "Bootstraps and blocks",
    "nulls": "Simulated nulls",
    "cells": "Reading cells",
    "parquet": "Parquet",
    "marginals": "Marginals on Parquet",
    "memory": "Memory beyond the columns",
}
UNITS = {"times": "", "ms": " ms", "ns": " ns a cell", "a second": " a second", "MB": " MB"}


def ratios(*groups: str) -> pd.DataFrame:
    """Return the rows of some groups of the table."""
    found = output("ratios").fillna({"peer": ""})
    return found[found["group"].isin(groups)]


def value(work: str, peer: str) -> float:
    """Return one value of the table."""
    found = output("ratios")
    return float(found.loc[(found["work"] == work) & (found["peer"] == peer), "value"].iloc[0])


def times(rows: pd.DataFrame) -> str:
    """Return a table of ratios, of our own times, or of memory; columns without a number are left out."""
    rows = rows.assign(theirs=rows["their seconds"])

    def number(value: float) -> str:
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

    def asked(row: dict) -> str:
        limit = "at least" if row["unit"] == "a second" else "at most"
        return "" if pd.isna(row["asked"]) else f"{limit} {row['asked']:.3g}"

    columns: dict[str, Column] = {
        "work": "{work}",
        "over": "{peer}",
        "measured": lambda row: number(row["value"]) + UNITS[row["unit"]],
        "by processor time": lambda row: "" if pd.isna(row["by processor time"]) else number(row["by processor time"]),
        "asked": asked,
        "seconds": "{seconds:.3g}",
        "theirs": "{theirs:.3g}",
        "noise": "{noise:.0%}",
        "ledger": "{ledger:.0%}",
        "memory passes": "{memory passes:,.3g}",
    }
    there = [name for name in columns if name not in rows or rows[name].notna().any()]
    return table(rows, {name: columns[name] for name in there})


@section("speed", "ratios")
def every() -> str:
    """All groups, a table each, and the figure."""
    drawn = {"ratios": "Share of what is asked, by work", "growth": "Seconds against rows, cores and columns"}
    return text(
        *(f"### {title}\n\n{times(ratios(group))}" for group, title in GROUPS.items() if len(ratios(group))),
        *(picture(words, name) for name, words in drawn.items() if (OUTPUT / f"{name}.png").exists()),
    )


@section("regression", "speed")
def regressions() -> str:
    """Time over that of statsmodels, and memory."""
    rows = ratios("regressions", "memory")
    return text(
        f"A million rows and ten regressors in memory, medians of the ratios of neighbours in time ({COMMAND}):",
        times(rows[~rows["work"].str.contains("median|bootstrap")]),
    )


@section("codebooks", "cells")
def cells() -> str:
    """Processor time of reading a cell."""
    rows = ratios("cells")
    rows = rows[rows["unit"] == "ns"]
    return table(rows.assign(work=rows["work"].str.removeprefix("reading ")),
                 {"cells": "{work}", "nanoseconds a cell": "{value:,.0f}"}, rule="---")  # fmt: skip
