"""Coverage and width of intervals for coefficients of log-linear models: rare levels, empty cells, wrong models."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

import dpinfer as dpi
from dpinfer.privacy import NEIGHBORS
from dpinfer.tables.loglinear_fit import fit_loglinear
from dpinfer.tables.loglinear_inference import batch_loglinear, loglinear_oracle
from validation.common.outputs import scatter
from validation.common.rules import Rule
from validation.common.study import Drawn, Study, mean_ratio
from validation.tests.loglinear_designs import EVEN, RARE, SCORES, THREE, Design, dependent, independent

DESIGNS = (
    Design("conditional independence", THREE, dependent(EVEN, THREE, 0.0), "a * b + b * c"),
    Design("a level of 3%", (2, 3), independent([0.7, 0.3], [0.7, 0.27, 0.03]), "a + b"),
    Design("rare levels", THREE, RARE, "a * b + c"),
    Design("a cell of 1%", (2, 3), np.array([0.33, 0.13, 0.01, 0.2, 0.3, 0.03]), "a * b"),
    Design("an empty cell", (2, 3), np.array([0.3, 0.2, 0.1, 0.25, 0.15, 0.0]), "a * b"),
    Design("wrong: independence", THREE, dependent(EVEN, THREE, 1.0), "a + b + c"),
    Design("scores", (4, 4), dependent(SCORES, (4, 4), 0.3), "C(a) + C(b) + a:b", scores=True),
    Design("wrong: scores", (4, 4), np.roll(dependent(SCORES, (4, 4), 0.6), 3), "C(a) + C(b) + a:b", scores=True),
)
SIZES = (200, 1000, 10_000)
PRICES = (dpi.ZCDP(0.005), dpi.ZCDP(0.05), dpi.ZCDP(0.5), dpi.PureDP(1.0), dpi.GDP(0.5))
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


def draw(cell: tuple[Design, int, Any, str], rng: np.random.Generator, replicates: int) -> Drawn:
    """Of each coefficient but the constant: ends by the score and by Wald, whether it is determined, truth, oracle."""
    design, n, price, neighbors = cell
    counts = rng.multinomial(n, design.shares, size=replicates)
    model, values, names = design.model(design.cells(n, price, neighbors, counts, int(rng.integers(2**31))))
    expected = n * np.maximum(design.shares, EMPTY)[None]
    exact = fit_loglinear(replace(model, robust=False), expected)
    truth = np.where(np.abs(exact.params[0]) > FAR, np.sign(exact.params[0]) * np.inf, exact.params[0])
    pulled = exact.influence[0] @ expected[0] / np.sqrt(n)
    sampling = exact.influence[0] ** 2 @ expected[0] - pulled**2
    oracle = loglinear_oracle(model, expected[0], sampling=np.maximum(sampling, 0.0), alpha=0.05, names=names)
    score, wald = (batch_loglinear(model, values, names=names, alpha=0.05, method=one) for one in ("score", "wald"))
    return {
        name: np.column_stack([score.intervals[:, term], wald.intervals[:, term], ~np.isnan(score.params[:, term]),
                               np.tile([truth[term], oracle.halfwidth[term], oracle.kappa], (replicates, 1))])
        for term, name in enumerate(names) if name != "Intercept"
    }  # fmt: skip


def summary(_: tuple, drawn: Drawn) -> list[dict]:
    """A row for each coefficient."""
    rows = []
    for term, found in drawn.items():
        lower, upper, low, high, known, truth, half, kappa = found.T
        known, covered, simple = known > 0, (lower <= truth) & (truth <= upper), (low <= truth) & (truth <= high)
        enough, clear = known.mean() >= ENOUGH, kappa[0] >= CLEAR and np.isfinite(truth[0])
        ratio, error = mean_ratio(upper - lower, 2 * half[0])
        rows.append({
            "term": term, "kappa": kappa[0], "coverage": covered.mean(), "not determined": 1 - known.mean(),
            "determined": int(known.sum()), "coverage where determined": covered[known].mean() if enough else np.nan,
            "coverage, wald": simple.mean(), "wald where determined": simple[known].mean() if enough else np.nan,
            "unbounded": 1 - np.isfinite(upper - lower).mean(), "width / oracle": ratio if clear else np.nan,
            "error of width / oracle": error,
        })  # fmt: skip
    return rows


def cells() -> list[tuple[Design, int, Any, str]]:
    """Every design, size and price, relations in turns."""
    grid = product(enumerate(DESIGNS), enumerate(SIZES), enumerate(PRICES))
    return [(design, n, price, NEIGHBORS[(i + j + k) % 2]) for (i, design), (j, n), (k, price) in grid]


TOLD = "eight populations, n 200 to 10,000, five budgets, both relations"
STUDY = Study(
    "loglinear_coverage", cells, draw, summary,
    (
        Rule("least coverage of 95% intervals: coefficients of log-linear models", "coverage", design=TOLD),
        Rule("least coverage of 95% intervals: coefficients of log-linear models that are determined",
             "coverage where determined", count="determined", design=TOLD),
        Rule("largest mean width over the oracle's where fitted counts are clear: log-linear models", "width / oracle",
             "width", CAP, design=TOLD),
    ),
    axes=lambda cell: {"design": cell[0].name, "n": cell[1], "price": str(cell[2]), "neighbors": cell[3]}, by=("term",),
    figure=scatter(lambda table: table["kappa"].clip(lower=0.01),
                   {"coverage where determined": 0.95, "wald where determined": 0.95, "width / oracle": CAP}, "design",
                   label="smallest fitted count over its error"),
    notes=(
        "Intervals of coefficients that are not determined are counted; widths are judged where the smallest fitted "
        "count is five errors or more. An infinite truth is covered by an infinite end.",
        "Wald intervals are those of inference='wald'; nothing is claimed of them.",
    ),
)  # fmt: skip
