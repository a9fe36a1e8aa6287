"""Judging studies of many designs by the same rules, with one table and one figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from tqdm import tqdm

import dpinfer as dpi
from dpinfer.studies import Rules
from validation.common.cells import kept
from validation.common.claims import RULES, Claim, largest_width, least_coverage, replicates_of
from validation.common.outputs import Options, new_figure, write_figure, write_table

_FEW = 500
"""Replicates below which a run is a quick one: the smallest number of rows alone, in one process."""

_REFUTED = 3.72
"""Monte Carlo errors beyond which a quick run refutes a cap, at level 1e-4."""

DISCRETE = Rules(width_cap=1.25)

_WIDE = r"width above [\d.]+ times the oracle's"
"""The verdict on a cell whose width alone breaks the rule: the claim about coverage does not answer for it."""

CELL = ["design", "bounds", "neighbors", "n", "privacy", "term"]
"""Columns that name a cell."""


@dataclass(frozen=True)
class Case:
    """One design: what is drawn, what is asked, what is true.

    Attributes
    ----------
    name, bounds : str
    generate : callable
    procedure : Procedure
    truth : mapping of str to float
    schema : callable
        Maps the neighbours to the schema: declared constants for missing cells make n public under replace_one.
    n : tuple of int
    privacy : tuple of prices
    neighbors : tuple of str
    discrete : bool
        Whether the width cap is that of discrete families.
    level : float
    """

    name: str
    bounds: str
    generate: Callable[[np.random.Generator, int], Mapping[str, np.ndarray]]
    procedure: Any
    truth: Mapping[str, float]
    schema: Callable[[str], dpi.Schema]
    n: tuple[int, ...]
    privacy: tuple[Any, ...]
    neighbors: tuple[str, ...] = ("add_remove", "replace_one")
    discrete: bool = False
    level: float = 0.95


def judge(cases: Sequence[Case], name: str, arguments: Options) -> pd.DataFrame:
    """Study every case; a row per number of rows, price, relation, quantity and run.

    What a stopped run has finished is not run again.
    """
    tasks = [(case, neighbors) for case in cases for neighbors in case.neighbors]
    parts = [
        kept(name, index, arguments, partial(judge_one, *task, index, arguments))
        for index, task in enumerate(tqdm(tasks, desc="studies"))
    ]
    table = pd.concat(parts, ignore_index=True)
    shown = [*CELL, "kappa", "coverage", "width", "width / oracle"]
    shown += ["width / ordinary", "not determined", "coverage where determined", "unbounded", "flagged", "failures"]
    shown += ["replicates", "run", "cap", "verdict", "held"]
    return table[[column for column in shown if column in table]]


def judge_one(case: Case, neighbors: str, index: int, arguments: Options) -> pd.DataFrame:
    """Study one case under one relation."""
    rules = DISCRETE if case.discrete else RULES
    study = dpi.coverage_study(
        case.generate,
        case.procedure,
        schema=case.schema(neighbors),
        truth=case.truth,
        n=case.n if arguments.replicates >= _FEW else case.n[:1],
        privacy=case.privacy,
        neighbors=neighbors,  # type: ignore[arg-type]
        replicates=arguments.replicates,
        level=case.level,
        seed=arguments.seed + 100 * index,
        n_jobs=arguments.jobs if arguments.replicates >= _FEW else 1,
        progress=False,
    )
    judged = study.check(rules, n_jobs=arguments.jobs)
    judged.insert(0, "design", case.name)
    judged.insert(1, "bounds", case.bounds)
    judged.insert(2, "neighbors", neighbors)
    judged["cap"] = rules.width_cap
    if arguments.replicates < _FEW:  # few tell mean widths with an error, of which a cap is no more than refuted
        judged["cap"] += _REFUTED * judged["MCSE of width / oracle"]
        wide = judged["verdict"].str.fullmatch(_WIDE)
        judged["held"] |= wide & (judged["width / oracle"] <= judged["cap"])
    return judged


def last_runs(table: pd.DataFrame) -> pd.DataFrame:
    """The run that decides in every cell: the rerun where there was one."""
    return table.drop_duplicates(CELL, keep="last")


def figure_of(table: pd.DataFrame) -> Figure:
    """Coverage and width of every cell against kappa (or the number of rows where it is infinite)."""
    figure, (left, right) = new_figure(10.5, 4.4, 1, 2)
    first = table[table["run"] == "first"]
    marks = "osv^D<>Pph*X8d"
    for index, (design, group) in enumerate(first.groupby("design", sort=False)):
        place = np.where(np.isfinite(group["kappa"]), group["kappa"], group["n"]).astype(float)
        place = np.maximum(place, 0.05)
        mark = marks[index % len(marks)]
        left.plot(place, group["coverage"], mark, ms=4, alpha=0.7, label=str(design))
        right.plot(place, group["width / oracle"], mark, ms=4, alpha=0.7, label=str(design))
    least = RULES.least_coverage(int(first["replicates"].iloc[0]), 0.95)
    left.axhline(0.95, color="black", lw=0.8)
    left.axhline(least, color="firebrick", lw=0.8, ls="--", label="least allowed")
    left.set(xscale="log", xlabel="signal over noise, kappa", ylabel="coverage of 95% intervals")
    left.set_ylim(min(0.92, least - 0.01), 1.005)
    right.axhline(RULES.width_cap, color="firebrick", lw=0.8, ls="--", label="cap where kappa is at least 3")
    right.axvline(RULES.kappa, color="grey", lw=0.8, ls=":")
    right.set(xscale="log", xlabel="signal over noise, kappa", ylabel="mean width / oracle width", ylim=(0.4, 2.0))
    right.legend(fontsize=7, frameon=False, ncols=2)
    return figure


def report(table: pd.DataFrame, name: str, what: str, arguments: Options, notes: Sequence[str] = ()) -> list[Claim]:
    """Write table and figure, and state coverage and width as claims."""
    first = table[table["run"] == "first"]
    again = table[table["run"] == "rerun"]
    failed, failed_again = int((~first["held"]).sum()), int((~again["held"]).sum())
    least = RULES.least_coverage(replicates_of(first), 0.95)
    lines = [
        f"Cells and quantities: {len(first)}; failed at first: {failed}; failed again at ten times the replicates: "
        f"{failed_again}.",
        f"Rules: coverage at least {least:.4f} at {arguments.replicates:,} replicates; "
        f"where kappa is at least {RULES.kappa:g}, mean width at most {RULES.width_cap:g} times the oracle's "
        f"({DISCRETE.width_cap:g} for discrete families) and at most {RULES.unbounded_cap:.1%} of intervals unbounded.",
        *notes,
    ]
    write_table(table, name, arguments, lines)
    write_figure(figure_of(table), name, arguments)
    clear = table[table["kappa"] >= RULES.kappa]
    covers = table["held"] | table["verdict"].str.fullmatch(_WIDE)
    return [
        least_coverage(f"least coverage of 95% intervals: {what}", table.assign(covers=covers), by=CELL, held="covers"),
        largest_width(f"largest mean width over the oracle's where kappa is at least 3: {what}", clear, by=CELL,
                      cap="cap"),
    ]  # fmt: skip
