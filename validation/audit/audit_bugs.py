"""Planted bugs: an audit beside searches for events in the manner of DP-Sniper and Delta-Siege."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.studies.audit_pairs import served, setting_of, strong
from validation.audit.event_searches import searched
from validation.audit.planted import BUGS, SCHEMA
from validation.common.outputs import Options, write_table
from validation.common.rules import Claim
from validation.common.study import measured

REPEATS = 3
CELLS = [(name, planted, repeat) for name in BUGS for planted in (True, False) for repeat in range(REPEATS)]
"""Each bug, with it and without it, several times."""

FULL = 2000
"""Runs from which every bug is planted several times, and searched for."""

SEARCHED = 6000
"""Least runs of a search, however few the audit has: a bound from fewer could not exceed what is stated."""


def measure(cell: tuple[str, bool, int], place: int, replicates: int, seed: int) -> dict[str, Any]:
    """Audit a question with a bug or without it, and search for an event that tells of it."""
    name, planted, repeat = cell
    bug = BUGS[name]
    with bug.plant() if planted else nullcontext():
        started = time.perf_counter()
        found = dpi.audit(
            bug.question, SCHEMA, bug.privacy, neighbors=bug.neighbors, runs=replicates, seed=seed + place
        )
        audited = time.perf_counter() - started
        started = time.perf_counter()
        runs = max(SEARCHED, replicates) if replicates >= FULL else 0
        search = [_search(bug, price, runs) for price in (bug.privacy, strong(bug.privacy)) if runs] or [(0.0, 0.0)]
        searching = time.perf_counter() - started
    return {
        "bug": name,
        "primitive": bug.at,
        "planted": planted,
        "repeat": repeat,
        "failed": not found.passed,
        "by its check": any(bug.check in one.check for one in found.failures),
        "checks": len(found.failures),
        "change over bound": found.ratio,
        "DP-Sniper": max(one[0] for one in search),
        "Delta-Siege": max(one[1] for one in search),
        "runs": replicates,
        "search runs": runs,
        "seconds": audited,
        "search seconds": searching,
    }


def _search(bug: Any, price: Any, runs: int) -> tuple[float, float]:
    setting = setting_of(bug.question, SCHEMA, bug.privacy, bug.neighbors, None, np.random.default_rng(0))
    at = setting if price == bug.privacy else served(setting, price)
    if isinstance(at, str):
        return 0.0, 0.0
    found = searched(at, at.audited_run(), runs)
    return found.sniper, found.siege


def summed(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each bug: how often each method found it, and how often it found something without it."""
    rows = []
    for name, group in table.groupby("bug", sort=False):
        wrong, right = group[group["planted"]], group[~group["planted"].astype(bool)]
        rows.append(
            {
                "bug": name,
                "primitive": wrong["primitive"].iloc[0],
                "repeats": len(wrong),
                "audit": int(wrong["by its check"].sum()),
                "DP-Sniper": int((wrong["DP-Sniper"] > 1).sum()),
                "Delta-Siege": int((wrong["Delta-Siege"] > 1).sum()),
                "false alarms": int(right["failed"].sum()),
                "false alarms of searches": int(((right["DP-Sniper"] > 1) | (right["Delta-Siege"] > 1)).sum()),
                "change over bound": float(wrong["change over bound"].max()),
                "runs": int(wrong["runs"].iloc[0]),
                "search runs": int(wrong["search runs"].iloc[0]),
                "seconds": float(wrong["seconds"].median()),
                "search seconds": float(wrong["search seconds"].median()),
            }
        )
    return pd.DataFrame(rows)


def run(arguments: Options) -> list[Claim]:
    """Plant every bug (of a quick run every sixth: tests plant them all), and write table and figure."""
    repeats = REPEATS if arguments.replicates >= FULL else 1
    names = [*BUGS][:: 6 if arguments.quick else 1]
    cells = [cell for cell in CELLS if cell[0] in names and cell[2] < repeats]
    table = measured("audit_bugs", cells, measure, arguments)
    found = summed(table)
    notes = [
        f"Audit: {arguments.replicates:,} runs on each neighbour, a bug counts as found if its own check fails. "
        f"Searches: {found['search runs'].max():,} runs of the same draws, at both budgets, wrong with probability "
        "1e-4."
    ]
    write_table(found, "audit_bugs", arguments, notes, figure_of(found))
    return claims(found)


def claims(found: pd.DataFrame) -> list[Claim]:
    """What the table shows."""
    repeats, alarms = int(found["repeats"].sum()), int(found["false alarms"].sum())
    caught = int(found["audit"].sum())
    best = int(np.maximum(found["DP-Sniper"], found["Delta-Siege"]).sum())
    return [
        Claim(
            "planted bugs caught by an audit, each by its own check",
            f"{len(found)} bugs at {found['primitive'].nunique()} primitives",
            f"{caught} of {repeats}",
            caught == repeats,
            published=f"{best} of {repeats} (event searches)" if found["search runs"].any() else "",
            threshold="all",
            cells=len(found),
            failed=int((found["audit"] < found["repeats"]).sum()),
        ),
        Claim(
            "audits of the same questions without a bug that fail",
            "familywise error 1e-4 each",
            f"{alarms} of {repeats}",
            alarms == 0,
            threshold="none",
        ),
    ]


def figure_of(found: pd.DataFrame) -> Any:
    """Plot the share of repeats in which each method finds a bug."""
    figure, axes = plt.subplots(figsize=(7.5, 4), layout="constrained")
    places = np.arange(len(found))[::-1]
    for shift, (name, color) in enumerate(
        {"audit": "#1b5e9e", "DP-Sniper": "firebrick", "Delta-Siege": "grey"}.items()
    ):
        told = name if name == "audit" else f"{name}-like search"
        axes.barh(places + 0.25 - 0.25 * shift, found[name] / found["repeats"], height=0.22, color=color, label=told)
    axes.set(yticks=places, yticklabels=found["bug"], xlabel="share of repeats in which it is found", xlim=(0, 1.05))
    figure.legend(frameon=False, loc="outside lower center", ncols=3)
    return figure
