"""Least squares by iterations where a column is far narrower than its bounds: from where on its slope is not told."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.question import Newton
from validation.common.outputs import scatter
from validation.common.rules import Rule
from validation.common.study import Drawn, Study
from validation.regression.newton_draws import Drawer, covers, replicates

PRICES = {"ZCDP(0.5)": dpi.ZCDP(0.5), "ZCDP(0.05)": dpi.ZCDP(0.05), "PureDP(1)": dpi.PureDP(1)}
ROWS, TRUTH, SERVED = 5000, np.array([0.0, 1.0]), 1000.0


@dataclass(frozen=True)
class Cell:
    """How many standard deviations lie between the bounds, and the price."""

    width: float
    price: str


def draw(cell: Cell, rng: np.random.Generator, count: int) -> Drawn:
    """Fit a slope of 1 on a normal column that lies anywhere in the middle half of its bounds."""
    schema = dpi.Schema(x=dpi.Real(0, cell.width), y=dpi.Real(-10, 10))
    drawer = Drawer(Newton(formula="y ~ x"), Context(schema, "add_remove", PRICES[cell.price]))

    def rows(rng: np.random.Generator) -> tuple[dict, dict]:
        x = rng.normal(size=ROWS).clip(-4, 4)
        return {"x": cell.width * rng.uniform(0.25, 0.75) + x, "y": (x + rng.normal(size=ROWS)).clip(-10, 10)}, {}

    return replicates(drawer, rows, TRUTH, rng, count, more=lambda fit: {"named": bool(fit.flags)})


def summary(cell: Cell, drawn: Drawn) -> dict:
    """Coverage of the slope, its median width, and how often it is unbounded or named."""
    ends = drawn["ends"][:, 1]
    widths = np.ptp(ends, axis=1)
    return {
        "coverage": float(covers(ends, TRUTH[1]).mean()), "median width": float(np.median(widths)),
        "unbounded": float(1 - np.isfinite(widths).mean()), "named": float(drawn["named"].mean()),
        "served": cell.width <= SERVED,
    }  # fmt: skip


STUDY = Study(
    "narrow", [Cell(*one) for one in product((30.0, 100.0, 300.0, 1000.0, 10_000.0, 100_000.0), PRICES)], draw, summary,
    (
        Rule(f"least coverage of a slope whose column has bounds of up to {SERVED:,.0f} standard deviations",
             "coverage", where=lambda table: table["served"], design="n = 5,000, three budgets"),
    ),
    figure=scatter("width", {"coverage": 0.95, "unbounded": np.nan, "named": np.nan}, "price"), most=1000,
    notes=("Beyond that nothing is claimed; the column named says how often a flag does.",),
)  # fmt: skip
