"""The measured parts of the page on auditing."""

from __future__ import annotations

import pandas as pd

from validation.common.outputs import OUTPUT
from validation.common.pages import picture
from validation.publish.quantiles import lines_of, ranged

__all__ = ["audits", "bugs"]

SEARCHES = ("DP-Sniper", "Delta-Siege")
SEARCHED = 6000
"""Runs without which a search can hardly exceed what is stated."""


def audits() -> str:
    """Audits of every procedure, a row for each public function."""
    table = pd.read_csv(OUTPUT / "audit_table.csv")
    heads = ["function", "audits", "change over bound", "lower bound over what is stated, your price",
             "at mu = 3 or epsilon = 3", "runs on each neighbour", "seconds", "above the price"]  # fmt: skip
    rows = []
    for name, group in table.groupby("function", sort=False):
        large = group["share at the large price"].dropna()
        rows.append(
            (
                f"`{name}`",
                len(group),
                ranged(group["change over bound"], ".3f"),
                ranged(group["share reached"], ".2f"),
                ranged(large, ".2f") if len(large) else "none: a choice, or not served",
                ranged(group["runs"], ",.0f"),
                ranged(group["seconds"], ".0f"),
                int((~group["passed"].astype(bool)).sum()),
            )
        )
    total = int((~table["passed"].astype(bool)).sum())
    return "\n".join(
        [
            *lines_of(heads, rows),
            "",
            f"{len(table)} audits, {total} of which found something above the price. Choices: exact log ratios in "
            "place of draws. Few runs bound little at a small price: these were of at most "
            f"{int(table['runs'].max()):,}. `python -m validation.audit.audit_table`; every question is in "
            "`validation/output/audit_table.csv`.",
            "",
            picture("Share of the stated privacy loss that an audit of each procedure reaches", "audit_table"),
        ]
    )


def bugs() -> str:
    """Planted bugs, a row each: who finds them. Searches are told of where they had enough runs to find anything."""
    table = pd.read_csv(OUTPUT / "audit_bugs.csv")
    searches = int(table["search runs"].min()) >= SEARCHED
    methods = {"audit": "audit", **({name: f"{name}-like" for name in SEARCHES} if searches else {})}
    heads = ["bug", "primitive", *methods.values(), "change over bound", "seconds of the audit"]
    rows = [
        (
            row["bug"],
            f"`{row['primitive']}`",
            *(f"{row[name]} of {row['repeats']}" for name in methods),
            "infinite" if row["change over bound"] == float("inf") else f"{row['change over bound']:.3f}",
            f"{row['seconds']:.0f}",
        )
        for _, row in table.iterrows()
    ]
    told = (
        f"{int(table['search runs'].max()):,} of the searches, {int(table['false alarms of searches'].sum())} of which "
        "found something without a bug."
        if searches
        else f"the searches need {SEARCHED:,}, of which there is no run yet."
    )
    return "\n".join(
        [
            *lines_of(heads, rows),
            "",
            f"{int(table['runs'].max()):,} runs of the audit on each neighbour; {told} Without the bugs "
            f"{int(table['false alarms'].sum())} of {int(table['repeats'].sum())} audits failed. "
            "`python -m validation.audit.audit_bugs`.",
            *(
                ["", picture("Share of repeats in which audits and searches find bugs", "audit_bugs")]
                if searches
                else []
            ),
        ]
    )
