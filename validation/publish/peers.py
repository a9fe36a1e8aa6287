"""The measured parts of the page that compares with other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from validation.common.outputs import OUTPUT
from validation.common.pages import picture
from validation.peers.peer_methods import LOGIT
from validation.peers.peers import CELL, compared, errors_of
from validation.publish.engines import notes_of, stamp_of
from validation.publish.quantiles import lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["benchmark", "textbook", "times"]

HEADS = {
    "mean": "A mean",
    "median": "A median",
    "histogram": "Shares of a histogram",
    "independence": "A test of independence",
    "ols": "Slopes of least squares",
    "logit": "Slopes of a logit",
}
BEST = "best of four settings"
BESIDE = 1.2
"""Errors this many times as large count as different."""


def benchmark() -> str:
    """Errors and coverage by task, and who is nearer to the truth."""
    table = pd.read_csv(OUTPUT / "peers.csv")
    parts = [stamp_of("peers"), *notes_of("peers")[1:], "", picture(
        "Errors of peers against those of dpinfer, and coverage of intervals", "peers"), ""]  # fmt: skip
    for task, head in HEADS.items():
        found = table[table["task"] == task]
        parts += [f"### {head}", "", *(tested(found) if task == "independence" else shown(found)), ""]
        if task == "histogram":
            parts += [*counts(found), ""]
    parts += ["### Who is nearer to the truth", "", *nearer(table)]
    return "\n".join(parts)


def best_of(found: pd.DataFrame) -> pd.DataFrame:
    """Add, for logits, the settings with the least error in each cell, in the place of all but the first."""
    tuned = found[found["method"].str.startswith(LOGIT)]
    if tuned.empty:
        return found
    best = tuned.loc[tuned.groupby(CELL)["error"].idxmin()].assign(method=BEST)
    return pd.concat([found[~found["method"].str.startswith(f"{LOGIT},")], best])


def shown(found: pd.DataFrame) -> list[str]:
    """Errors, with coverage in brackets, a column for each method; of slopes, who is worse than zero."""
    found = best_of(errors_of(found))
    methods = list(dict.fromkeys(found["method"]))
    zero = found["task"].iloc[0] in ("ols", "logit")
    heads = ["rows", "n", "price", "neighbours", *(["zero"] if zero else []), *methods]
    rows = []
    for cell, group in found.groupby(CELL[1:], sort=False):
        by = group.drop_duplicates("method").set_index("method")
        rows.append([*keys(cell), *([number(group["zero"].iloc[0])] if zero else []),
                     *(entry(by.loc[name]) if name in by.index else "" for name in methods)])  # fmt: skip
    return [*lines_of(heads, rows), *(["", beyond_zero(found)] if zero else [])]


def beyond_zero(found: pd.DataFrame) -> str:
    """Count the cells in which a method errs by more than zero does."""
    worse = (found["error"] > found["zero"]).groupby(found["method"], sort=False)
    told = "; ".join(f"{name}: {cells.sum()} of {len(cells)}" for name, cells in worse)
    return f"Rows in which a method errs by more than zero does: {told}."


def keys(cell: Sequence[object]) -> list[str]:
    """Name a cell."""
    data, n, price, neighbors = cell
    return [str(data), f"{n:,}", f"{price}", str(neighbors).replace("_", " ")]


def number(value: float) -> str:
    """Write an error."""
    return f"{value:.2f}" if value < 100 else f"{value:.0e}" if value > 9999 else f"{value:.0f}"


def entry(row: pd.Series) -> str:
    """Write an error, coverage where intervals are told, and the share of them that is bounded where not all are."""
    if pd.isna(row["coverage"]):
        return number(row["error"])
    bounded = f", {row['bounded']:.0%} bounded" if row["bounded"] < 1 else ""
    return f"{number(row['error'])} ({row['coverage']:.0%}{bounded})"


def tested(found: pd.DataFrame) -> list[str]:
    """Shares of tests that reject at .05."""
    methods = list(dict.fromkeys(found["method"]))
    told = {name: name if name == "dpinfer" else f"{name}, by hand" for name in methods}
    rows = []
    for cell, group in found.groupby(CELL[1:], sort=False):
        by = group.set_index("method")["rejects"]
        rows.append([*keys(cell), f"{group['plain rejects'].iloc[0]:.0%}", *(f"{by[name]:.0%}" for name in methods)])
    said = (
        "Shares of tests that reject at .05. Where columns are made independent, one in twenty is right; what a test "
        "beyond that finds elsewhere says nothing."
    )
    return [said, "", *lines_of(["rows", "n", "price", "neighbours", "no privacy", *told.values()], rows)]


def counts(found: pd.DataFrame) -> list[str]:
    """Intervals of the data's own counts: ours, and what OpenDP tells of its noise."""
    told = found[found["data coverage"].notna()]
    each = "; ".join(
        f"{name}: {group['data coverage'].min():.0%} to {group['data coverage'].max():.0%}, mean width "
        f"{group['data width'].mean():.3g}"
        for name, group in told[told["price"] == "epsilon = 1"].groupby("method", sort=False)
    )
    return [f"Coverage of the data's own counts at epsilon = 1, by 95% intervals of the noise alone: {each}."]


def nearer(table: pd.DataFrame) -> list[str]:
    """Count who has the smaller error, and name where a peer has."""
    beside = compared(table)
    heads = ["task", "peer's method", "comparisons", f"dpinfer {BESIDE:g} times nearer", "neither",
             f"peer {BESIDE:g} times nearer", "ratio of errors, peer over dpinfer: median"]  # fmt: skip
    rows, where = [], []
    for (task, method), group in beside.groupby(["task", "method"], sort=False):
        ours, theirs = (1 / group["ratio"] > BESIDE).sum(), (group["ratio"] > BESIDE).sum()
        rows.append([task, method, len(group), ours, len(group) - ours - theirs, theirs,
                     number(float(np.median(1 / group["ratio"])))])  # fmt: skip
        where += [
            f"{one.method}: {one.data}, n = {one.n:,}, {one.price} ({number(one.error)} beside {number(one.ours)})"
            for one in group[group["ratio"] > BESIDE].itertuples()
        ]
    told = ["Where a peer is nearer: " + "; ".join(where) + "."] if where else ["No peer is nearer anywhere."]
    return [*lines_of(heads, [[str(cell) for cell in row] for row in rows]), "", *told]


def textbook() -> str:
    """How far the usual formulas go wrong on the noisy numbers of peers, in short."""
    table = pd.read_csv(OUTPUT / "peers.csv")
    by_hand = table[(table["interval"] == "by hand") & (table["task"] == "ols")]
    true = table[(table["task"] == "independence") & table["data"].str.endswith("made independent")]
    theirs = true[true["peer"] != "dpinfer"]["rejects"]
    ours = true[true["peer"] == "dpinfer"]["rejects"]
    return (
        "The textbook on noisy numbers of others: 95% intervals of slopes that cover in "
        f"{by_hand['coverage'].min():.0%} of {int(by_hand['replicates'].max())} replicates at worst, tests at .05 that "
        f"reject up to {theirs.max():.0%} of true hypotheses (dpinfer: at most {ours.max():.0%})."
    )


def times() -> str:
    """Processor time of imports and calls."""
    table = pd.read_csv(OUTPUT / "peers_times.csv")
    heads = ["task", "method", "import, s", "first call, s", "a call, s", "times dpinfer's call"]
    rows = [
        [
            str(one.task),
            str(one.method),
            f"{one.loading:.2f}",
            f"{one.first:.3g}",
            f"{one.call:.3g}",
            f"{one.ratio:.3g}",
        ]
        for one in table.set_axis(["task", "method", "loading", "first", "call", "ratio"], axis=1).itertuples()
    ]
    said = " ".join(notes_of("peers_times"))
    return "\n".join([f"{said} dpinfer's calls check and charge a ledger in memory.", "", *lines_of(heads, rows)])
