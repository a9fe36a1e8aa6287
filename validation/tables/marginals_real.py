"""All pairs of eight coded columns of anes96, 6.5 million cells and 944 rows: coverage and error of every cell."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from matplotlib.figure import Figure

import dpinfer as dpi
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.rows.marginals import MarginalSum
from dpinfer.kernel.stage import Context
from dpinfer.statistics.inference import Released
from dpinfer.statistics.moment_inference import intervals
from dpinfer.tables.marginal_inference import centered_margins, count_estimates
from validation.common.outputs import Options, new_figure
from validation.common.rules import Claim, Rule
from validation.common.study import Drawn, Study

PRICES = {"ZCDP(0.1)": dpi.ZCDP(0.1), "ZCDP(1)": dpi.ZCDP(1.0), "PureDP(3)": dpi.PureDP(3.0)}
RELATIONS = ("add_remove", "replace_one")
LEVELS = {
    "vote": (0, 1),
    "PID": (0, 6),
    "educ": (1, 7),
    "TVnews": (0, 7),
    "selfLR": (1, 7),
    "ClinLR": (1, 7),
    "DoleLR": (1, 7),
    "income": (1, 24),
}


def rows_of_anes() -> tuple[dict[str, np.ndarray], dpi.Schema]:
    """Return the columns, and how they are declared; what is missing counts as the lowest code."""
    frame = sm.datasets.anes96.load_pandas().data
    declared = {name: dpi.Integer(low, high, missing=low, impossible=low) for name, (low, high) in LEVELS.items()}
    return {name: frame[name].to_numpy() for name in LEVELS}, dpi.Schema(declared)


@cache
def prepared(price: str, neighbors: str) -> tuple[Any, Any, np.ndarray, Context]:
    """The question, what is measured, its exact sums, and what is public."""
    cells, schema = rows_of_anes()
    size, question = len(cells["vote"]), dpi.marginals(dpi.workload(list(LEVELS)))
    measured = question.measurement(PRICES[price], schema=schema, neighbors=neighbors)  # type: ignore[arg-type]
    rows: MarginalSum = measured.rows
    exact = np.array(rows.finish(rows.add(Batch(cells, size))[0].tolist()), dtype=np.float64)
    context = Context(schema, neighbors, PRICES[price], size if neighbors == "replace_one" else None)  # type: ignore[arg-type]
    return question, measured, exact, context


def told(cell: tuple[str, str], values: np.ndarray) -> Any:
    """What releases tell of all margins."""
    _, measured, _, context = prepared(*cell)
    steps = np.asarray(measured.steps)
    return centered_margins(Released(context, measured.rows, measured.names, measured.law, steps, values))


def draw(cell: tuple[str, str], rng: np.random.Generator, replicates: int) -> Drawn:
    """Which cells are covered, and the mean squared error, of each marginal."""
    question, measured, exact, context = prepared(*cell)
    plan, truth = question.plan(context.schema), told(cell, exact[None])
    parts: dict[str, list[np.ndarray]] = {}
    for start in range(0, replicates, 500):
        count = min(replicates - start, 500)
        found = told(cell, exact + measured.law.rvs(count, rng) * np.asarray(measured.steps))
        for names, subset in zip(plan.marginals, plan.workload, strict=True):
            ends = intervals(count_estimates(found, subset, population=False, nobs=context.nobs), 0.05)[:, :, 0]
            right = np.rint(truth.table(subset)[0])
            inside = (ends[..., 0] <= right + 1e-6) & (right - 1e-6 <= ends[..., 1])
            squared = ((found.table(subset) - right) ** 2).mean(axis=1) / truth.cell_variance(subset)
            parts.setdefault(" x ".join(names), []).append(np.column_stack([squared, inside]).astype(np.float32))
    return {name: np.concatenate(found) for name, found in parts.items()}


def summary(cell: tuple[str, str], drawn: Drawn) -> list[dict[str, Any]]:
    """Return a row for each marginal: its least coverage, and its error."""
    question, _, exact, context = prepared(*cell)
    plan, truth = question.plan(context.schema), told(cell, exact[None])
    subsets = {" x ".join(names): subset for names, subset in zip(plan.marginals, plan.workload, strict=True)}
    return [
        {"marginal": name, "cells": found.shape[1] - 1, "coverage": float(found[:, 1:].mean(axis=0).min()),
         "standard error": truth.cell_variance(subsets[name]) ** 0.5,
         "error / formula": float(found[:, 0].mean() ** 0.5)}
        for name, found in drawn.items()
    ]  # fmt: skip


def figure_of(_: pd.DataFrame) -> Figure:
    """One marginal, as counted and as released with intervals."""
    cells, schema = rows_of_anes()
    data = dpi.PublicData(pd.DataFrame(cells), schema, rng=np.random.default_rng(4))
    question = dpi.marginals(dpi.workload(list(LEVELS)), data)
    found = question.fit(PRICES["ZCDP(1)"])
    figure, (left, right) = new_figure(9, 3.4, 1, 2, width_ratios=[1, 1.6])
    for axes, column in ((left, "selfLR"), (right, "income")):
        shown = found.proportions("vote", by=column)
        ends, truth = shown.conf_int(), pd.DataFrame(cells).groupby(column)["vote"].mean()
        place = np.arange(len(shown.params))
        axes.vlines(place, ends[0], ends[1], color="#03396c", lw=2)
        axes.plot(place, shown.params, "o", color="#03396c", ms=4, label="released, 95% interval")
        axes.plot(place, truth.reindex(range(LEVELS[column][0], LEVELS[column][1] + 1)), "x", color="#f18f01",
                  label="in the rows")  # fmt: skip
        axes.set(xlabel=column, xticks=place[:: max(len(place) // 12, 1)], ylim=(0, 1))
        axes.set_xticklabels([str(one + LEVELS[column][0]) for one in place[:: max(len(place) // 12, 1)]])
        axes.spines[["top", "right"]].set_visible(False)
    left.set_ylabel("share who voted for Dole")
    left.legend(frameon=False, fontsize=8, loc="upper left")
    return figure


def error_claim(table: pd.DataFrame, _: Options) -> list[Claim]:
    """State how far errors are from their formula."""
    far, count = float((table["error / formula"] - 1).abs().max()), int(table["replicates"].max())
    what = "root mean squared error of cells of anes96 over its formula, furthest from 1"
    return [Claim(what, "the same", f"{far:.4f}", far <= max(0.1, 2 / np.sqrt(count)), replicates=count)]


STUDY = Study(
    "marginals_real", [*product(PRICES, RELATIONS)], draw, summary,
    (Rule("least coverage of 95% intervals of cells of all pairs of anes96", "coverage", quantities="cells",
          design="28 marginals x 3 budgets x 2 relations"),),
    axes=lambda cell: dict(zip(("price", "neighbors"), cell, strict=True)), by=("marginal",), figure=figure_of,
    also=error_claim, quick=2,
    notes=(f"28 pairs of eight columns, {np.prod([high - low + 1 for low, high in LEVELS.values()]):,} cells in all, "
           f"944 "
           "rows. coverage is that of the least covered cell of the marginal. error / formula: root mean squared error "
           "of the unbiased cells over their standard error.",),
)  # fmt: skip
