"""Coverage and width of intervals for coefficients of log-linear models: rare levels, empty cells, wrong models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import dpinfer as dpi
from dpinfer.tables.loglinear_fit import fit_loglinear
from dpinfer.tables.loglinear_inference import batch_loglinear, loglinear_oracle
from validation.common.cells import measured
from validation.common.claims import RULES, Claim, largest_width, least_coverage
from validation.common.outputs import Options, limits, new_figure, write_table
from validation.tests.loglinear_designs import EVEN, RARE, SCORES, THREE, Design, dependent, product

DESIGNS = (
    Design("conditional independence", THREE, dependent(EVEN, THREE, 0.0), "a * b + b * c"),
    Design("a level of 3%", (2, 3), product([0.7, 0.3], [0.7, 0.27, 0.03]), "a + b"),
    Design("rare levels", THREE, RARE, "a * b + c"),
    Design("a cell of 1%", (2, 3), np.array([0.33, 0.13, 0.01, 0.2, 0.3, 0.03]), "a * b"),
    Design("an empty cell", (2, 3), np.array([0.3, 0.2, 0.1, 0.25, 0.15, 0.0]), "a * b"),
    Design("wrong: independence", THREE, dependent(EVEN, THREE, 1.0), "a + b + c"),
    Design("scores", (4, 4), dependent(SCORES, (4, 4), 0.3), "C(a) + C(b) + a:b", scores=True),
    Design("wrong: scores", (4, 4), np.roll(dependent(SCORES, (4, 4), 0.6), 3), "C(a) + C(b) + a:b", scores=True),
)
SIZES = (200, 1000, 10_000)
PRICES = (dpi.ZCDP(0.005), dpi.ZCDP(0.05), dpi.ZCDP(0.5), dpi.PureDP(1.0), dpi.GDP(0.5))
RELATIONS = ("add_remove", "replace_one")
CELL = ["design", "n", "price", "neighbors", "term"]
EMPTY = 1e-9
"""Share of rows that stands for none in the fit to the population: its coefficients are then far out."""

FAR = 10.0
"""Size of a coefficient from which it counts as infinite."""

CLEAR = 5.0
"""Smallest fitted count over its error from which widths are judged: noise and chance then make it look like none, and
an interval unbounded, once in a thousand times (5 = 1.96 + 3.09)."""

CAP = 1.25
"""Of discrete families."""

ENOUGH = 0.1
"""Share of determined replicates from which their coverage is told."""


def measure(cell: tuple[Design, int, Any, str], place: int, replicates: int, seed: int) -> list[dict]:
    """A row for each coefficient but the constant."""
    design, n, price, neighbors = cell
    rng = np.random.default_rng([seed, place])
    counts = rng.multinomial(n, design.shares, size=replicates)
    model, values, names = design.model(design.cells(n, price, neighbors, counts, [seed, place, 1]))
    expected = n * np.maximum(design.shares, EMPTY)[None]
    exact = fit_loglinear(replace(model, robust=False), expected)
    truth = exact.params[0]
    truth = np.where(np.abs(truth) > FAR, np.sign(truth) * np.inf, truth)
    pulled = exact.influence[0] @ expected[0] / np.sqrt(n)
    sampling = exact.influence[0] ** 2 @ expected[0] - pulled**2
    oracle = loglinear_oracle(model, expected[0], sampling=np.maximum(sampling, 0.0), alpha=0.05, names=names)
    score, wald = (batch_loglinear(model, values, names=names, alpha=0.05, method=one) for one in ("score", "wald"))
    rows = []
    for term, name in enumerate(names):
        if name == "Intercept":
            continue
        ends, known = score.intervals[:, term], ~np.isnan(score.params[:, term])
        covered, simple = (
            (one.intervals[:, term, 0] <= truth[term]) & (truth[term] <= one.intervals[:, term, 1])
            for one in (score, wald)
        )
        enough = known.sum() >= ENOUGH * replicates
        finite = np.isfinite(ends).all(axis=1)
        clear = oracle.kappa >= CLEAR and np.isfinite(truth[term])
        rows.append(
            {
                "design": design.name,
                "n": n,
                "price": str(price),
                "neighbors": neighbors,
                "term": name,
                "kappa": oracle.kappa,
                "coverage": covered.mean(),
                "not determined": 1 - known.mean(),
                "coverage where determined": covered[known].mean() if enough else np.nan,
                "least where determined": RULES.least_coverage(int(known.sum()), 0.95) if enough else np.nan,
                "coverage, wald": simple.mean(),
                "wald where determined": simple[known].mean() if enough else np.nan,
                "unbounded": 1 - finite.mean(),
                "width / oracle": np.diff(ends[finite], axis=1).mean() / (2 * oracle.halfwidth[term])
                if clear
                else np.nan,
                "replicates": replicates,
            }
        )
    return rows


def table_of(arguments: Options) -> pd.DataFrame:
    """Every cell, and those that fail once more at ten times the replicates."""
    cells = [
        (design, n, price, RELATIONS[(i + j + k) % 2])
        for i, design in enumerate(DESIGNS)
        for j, n in enumerate(SIZES)
        for k, price in enumerate(PRICES)
    ]
    first = _flat("loglinear_coverage", cells, arguments).assign(run="first")
    least = RULES.least_coverage(arguments.replicates, 0.95)
    failed = first[first["coverage"] < least][CELL[:4]].drop_duplicates()
    again = [one for one in cells if (failed == [one[0].name, one[1], str(one[2]), one[3]]).all(axis=1).any()]
    if not again:
        return first
    more = replace(
        arguments, replicates=RULES.rerun_factor * arguments.replicates, seed=arguments.seed + RULES.rerun_seed
    )
    rerun = _flat("loglinear_coverage", again, more).assign(run="rerun")
    return pd.concat([first, rerun], ignore_index=True)


def _flat(name: str, cells: list[Any], arguments: Options) -> pd.DataFrame:
    found = measured(name, cells, lambda *given: {"rows": measure(*given)}, arguments)
    return pd.DataFrame([row for rows in found["rows"] for row in rows])


def figure_of(table: pd.DataFrame, least: float) -> Figure:
    """Coverage of score and Wald intervals where coefficients are determined, and widths, against kappa."""
    figure, (left, right) = new_figure(10.5, 4.2, 1, 2)
    first = table[(table["run"] == "first") & (table["kappa"] > 0.01)]
    left.plot(first["kappa"], first["wald where determined"], "x", ms=4, color="#f18f01", alpha=0.6, label="Wald")
    left.plot(first["kappa"], first["coverage where determined"], ".", ms=5, color="#03396c", alpha=0.7, label="score")
    limits(left, 0.95, least, "least allowed")
    left.set(xscale="log", xlabel="smallest fitted count over its error", ylabel="coverage where determined")
    left.legend(fontsize=8, frameon=False, loc="lower right")
    right.plot(first["kappa"], first["width / oracle"], ".", ms=5, color="#03396c", alpha=0.7)
    right.axhline(CAP, color="firebrick", lw=0.8, ls="--", label="cap")
    right.set(xscale="log", xlabel="smallest fitted count over its error", ylabel="mean width / oracle width")
    right.legend(fontsize=8, frameon=False)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Measure every cell, write the table and the figure."""
    table = table_of(arguments)
    table["held where determined"] = ~(table["coverage where determined"] < table["least where determined"])
    least = RULES.least_coverage(arguments.replicates, 0.95)
    lost = table.loc[table["run"] == "first", "not determined"]
    notes = [
        f"Rule: coverage at least {least:.4f} at {arguments.replicates:,} replicates, intervals of coefficients that "
        "are not determined counted; where the smallest fitted count is five errors or more, mean width at most "
        f"{CAP:g} times the oracle's. An infinite truth is covered by an infinite end.",
        f"Not determined: {lost.mean():.1%} of all, {(lost == 0).mean():.0%} of rows without any.",
        "Wald intervals are those of inference='wald'; nothing is claimed of them.",
    ]
    write_table(table, "loglinear_coverage", arguments, notes, figure_of(table, least))
    told = "eight populations, n 200 to 10,000, five prices, both relations"
    return [
        least_coverage("least coverage of 95% intervals: coefficients of log-linear models", table, by=CELL, held=None,
                       design=told),
        least_coverage("least coverage of 95% intervals: coefficients of log-linear models that are determined", table,
                       "coverage where determined", by=CELL, held="held where determined", design=told),
        largest_width("largest mean width over the oracle's where fitted counts are clear: log-linear models", table,
                      by=CELL, cap=CAP, design=told),
    ]  # fmt: skip
