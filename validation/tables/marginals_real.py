"""All pairs of eight coded columns of anes96, 6.5 million cells and 944 rows: coverage and error of every cell."""

from __future__ import annotations

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
from validation.common.claims import RULES, Claim, least_coverage
from validation.common.outputs import Options, new_figure, write_table

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


def measure(price: str, neighbors: str, arguments: Options) -> list[dict[str, Any]]:
    """Return a row for each marginal: its least coverage, and its error."""
    cells, schema = rows_of_anes()
    size = len(cells["vote"])
    question = dpi.marginals(dpi.workload(list(LEVELS)))
    measured = question.measurement(PRICES[price], schema=schema, neighbors=neighbors)  # type: ignore[arg-type]
    rows: MarginalSum = measured.rows
    exact = np.array(rows.finish(rows.add(Batch(cells, size))[0].tolist()), dtype=np.float64)
    rng = np.random.default_rng([arguments.seed, len(price), len(neighbors)])
    context = Context(schema, neighbors, PRICES[price], size if neighbors == "replace_one" else None)  # type: ignore[arg-type]
    steps = np.asarray(measured.steps)
    truth = centered_margins(Released(context, rows, measured.names, measured.law, steps, exact[None]))
    plan = question.plan(schema)
    covered: dict[tuple[int, ...], Any] = dict.fromkeys(plan.workload, 0.0)
    squared: dict[tuple[int, ...], float] = dict.fromkeys(plan.workload, 0.0)
    done = 0
    while done < arguments.replicates:
        count = min(arguments.replicates - done, 500)
        values = exact + measured.law.rvs(count, rng) * steps
        found = centered_margins(Released(context, rows, measured.names, measured.law, steps, values))
        for subset in plan.workload:
            estimates = count_estimates(found, subset, population=False, nobs=context.nobs)
            ends, right = intervals(estimates, 0.05)[:, :, 0], np.rint(truth.table(subset)[0])
            inside = (ends[..., 0] <= right + 1e-6) & (right - 1e-6 <= ends[..., 1])
            covered[subset] = covered[subset] + inside.sum(axis=0)
            squared[subset] += float(((found.table(subset) - right) ** 2).mean(axis=1).sum())
        done += count
    return [
        {
            "marginal": " x ".join(names),
            "price": price,
            "neighbors": neighbors,
            "cells": truth.cells(subset),
            "coverage": float((covered[subset] / arguments.replicates).min()),
            "standard error": truth.cell_variance(subset) ** 0.5,
            "error / formula": (squared[subset] / arguments.replicates / truth.cell_variance(subset)) ** 0.5,
            "replicates": arguments.replicates,
            "run": "first",
        }
        for names, subset in zip(plan.marginals, plan.workload, strict=True)
    ]


def figure_of() -> Figure:
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


def run(arguments: Options) -> list[Claim]:
    """Measure, write table and figure."""
    rows = [row for price, relation in product(PRICES, RELATIONS) for row in measure(price, relation, arguments)]
    table = pd.DataFrame(rows)
    least = RULES.least_coverage(arguments.replicates, 0.95)
    table["held"] = table["coverage"] >= least
    notes = [
        f"28 pairs of eight columns, {np.prod([high - low + 1 for low, high in LEVELS.values()]):,} cells in all, 944 "
        f"rows. coverage is that of the least covered cell of the marginal; at least {least:.4f} is asked for. "
        "error / formula: root mean squared error of the unbiased cells over their standard error.",
    ]
    write_table(table, "marginals_real", arguments, notes, figure_of())
    far = float((table["error / formula"] - 1).abs().max())
    return [
        least_coverage(
            "least coverage of 95% intervals of cells of all pairs of anes96", table,
            by=["marginal", "price", "neighbors"], quantities="cells", design="28 marginals x 3 prices x 2 relations",
        ),
        Claim("root mean squared error of cells of anes96 over its formula, furthest from 1", "the same",
              f"{far:.4f}", far <= 0.1, replicates=arguments.replicates),
    ]  # fmt: skip
