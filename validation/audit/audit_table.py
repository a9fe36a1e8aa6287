"""An audit of every procedure: the share of the stated price that it reaches, its runs and its time."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import dpinfer as dpi
from validation.common.outputs import Options, write_table
from validation.common.rules import Claim
from validation.common.study import measured

AUTO = 20_000
"""Runs from which the audit is left to choose fewer where many numbers are released."""

EVERY = 1000
"""Runs from which every question is audited; of fewer the first of each function, of still fewer a sixth of those."""

FEW = 300

MINUTE = 60.0


def questions(runs: int) -> dict[str, Any]:
    """Questions of the contract suite by name, each where it is at home."""
    from tests.contract.questions import HOME  # noqa: PLC0415  (the tests are asked of a checkout alone)

    found = [one.values[0] for one in HOME]  # noqa: PD011  (no pandas object)
    if runs < EVERY:
        found = list({one.ask.function: one for one in reversed(found)}.values())[::-1]
    if runs < FEW:
        found = found[1::6]  # a mean among them
    return {str(one): one for one in found}


def measure(cell: str, _: int, replicates: int, seed: int) -> dict[str, Any]:
    """Audit one question."""
    question = questions(replicates)[cell]
    runs = "auto" if replicates >= AUTO else replicates
    found = dpi.audit(question.public(), None, question.privacy, runs=runs, seed=seed)
    failures = "; ".join(f"{one.check} {one.price}" for one in found.failures)
    large = [one for one in found.findings if one.check.endswith("all draws") and one.price != str(question.privacy)]
    return {
        "question": cell,
        "function": question.ask.function,
        "neighbors": question.neighbors,
        "price": str(question.privacy),
        "judged in": found.stated.kind,
        "change over bound": found.ratio,
        "lower bound": found.epsilon if found.stated.kind == "epsilon" else found.mu,
        "stated": found.stated.level,
        "share reached": found.reached,
        "share at the large price": large[0].found / large[0].limit if large else np.nan,
        "runs": found.runs,
        "tests": found.tests,
        "seconds": found.seconds,
        "passed": found.passed,
        "failures": failures,
    }


def run(arguments: Options) -> list[Claim]:
    """Audit all questions, and write table and figure."""
    table = measured("audit_table", list(questions(arguments.replicates)), measure, arguments)
    notes = [
        f"Runs on each of two neighbours: {arguments.replicates:,} at most. Familywise error of each audit at most "
        "1e-4. The share reached is that of the lower bound at the stated price, the other at mu = 3 or epsilon = 3."
    ]
    write_table(table, "audit_table", arguments, notes, figure_of(table))
    return claims(table)


def claims(table: pd.DataFrame) -> list[Claim]:
    """What the table shows."""
    worst = table.loc[table["change over bound"].idxmax()]
    mean = table[table["question"].str.startswith("mean add_remove")]
    return [
        Claim(
            "audits that find no procedure above its budget",
            f"{len(table)} questions, familywise error 1e-4 each",
            f"{int(table['passed'].sum())} of {len(table)}",
            table["passed"].all(),
            threshold="all",
            cells=len(table),
            failed=int((~table["passed"].astype(bool)).sum()),
        ),
        Claim(
            "largest change over its bound of any procedure",
            f"{len(table)} questions, hill climbing",
            f"{worst['change over bound']:.6f}",
            worst["change over bound"] <= 1 + 1e-9,
            error="exact",
            threshold="at most 1",
            worst=str(worst["question"]),
            cells=len(table),
        ),
        Claim(
            "seconds of an audit of a mean",
            "all three parts",
            f"{mean['seconds'].max():.0f}",
            mean["seconds"].max() < MINUTE,
            kind="time",
            threshold="below 60",
        ),
    ]


def figure_of(table: pd.DataFrame) -> Figure:
    """Plot the change over its bound and both shares reached, by question."""
    order = table.sort_values("change over bound").reset_index(drop=True)
    figure, axes = plt.subplots(figsize=(7.5, 0.16 * len(order) + 1.2), layout="constrained")
    places = np.arange(len(order))
    axes.plot(order["change over bound"], places, "o", ms=4, color="#1b5e9e", label="exact: change over bound")
    axes.plot(order["share at the large price"], places, "|", ms=6, color="firebrick", label="draws, large price")
    axes.plot(order["share reached"], places, "x", ms=4, color="grey", label="draws or odds, stated price")
    axes.axvline(1, color="black", lw=0.8)
    axes.set(yticks=places, yticklabels=order["question"], xlabel="share of the stated privacy loss", xlim=(0, 1.1))
    axes.tick_params(axis="y", labelsize=6)
    axes.legend(frameon=False, fontsize=8)
    return figure
