"""Least squares by rounds where noise dominates: coverage, and sizes of tests of one coefficient and of all slopes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.question import Newton
from validation.common.outputs import scatter
from validation.common.rules import Rule
from validation.common.study import Drawn, Study
from validation.peers.peer_designs import Design, designs
from validation.regression.newton_draws import Drawer, covers, replicates

DESIGNS = {one.data: one for one in designs() if one.task == "ols" and one.data in ("fair", "simulated")}
PRICES = {
    "epsilon = 0.1": dpi.PureDP(0.1),
    "epsilon = 1": dpi.PureDP(1.0),
    "rho = 0.002": dpi.ZCDP(0.002),
    "rho = 0.02": dpi.ZCDP(0.02),
}


@dataclass(frozen=True)
class Cell:
    """Rows drawn from a population, and at what price they are asked."""

    data: str
    n: int
    price: str
    neighbors: str = "add_remove"

    @property
    def design(self) -> Design:
        """Where rows come from."""
        return DESIGNS[self.data]

    def context(self) -> Context:
        """The schema, the relation, the price, and n where it is public."""
        nobs = self.n if self.neighbors == "replace_one" else None
        return Context(self.design.schema(self.neighbors), self.neighbors, PRICES[self.price], nobs=nobs)


def cells() -> list[Cell]:
    """The grid, and the other relation on part of it."""
    main = [Cell(data, n, price) for data in DESIGNS for n in (1000, 10_000) for price in PRICES]
    return main + [
        Cell(data, 1000, price, "replace_one") for data in DESIGNS for price in ("epsilon = 1", "rho = 0.02")
    ]


@cache
def truth_of(data: str) -> np.ndarray:
    """The population's own line."""
    rows = DESIGNS[data].population
    return np.linalg.lstsq(np.column_stack([np.ones(len(rows)), rows[:, :-1]]), rows[:, -1], rcond=None)[0]


def draw(cell: Cell, rng: np.random.Generator, count: int) -> Drawn:
    """Draw rows, fit, and test what is true."""
    design, truth = cell.design, truth_of(cell.data)
    every, rows = np.eye(len(truth)), design.population

    def drawn(rng: np.random.Generator) -> tuple[dict, dict]:
        return dict(zip(design.names, rows[rng.integers(0, len(rows), cell.n)].T, strict=True)), {}

    def tests(fit: Any) -> dict:
        return {"p": fit.contrast_pvalues(every, truth), "joint": fit.wald(every[1:], truth[1:])[2],
                "by score": fit.method == "score"}  # fmt: skip

    drawer = Drawer(Newton(formula=design.formula, model="ols"), cell.context())
    return replicates(drawer, drawn, truth, rng, count, more=tests)


def summary(cell: Cell, drawn: Drawn) -> dict:
    """Coverage and size of the worst coefficient, and the size of the joint test."""
    bounded = np.isfinite(np.ptp(drawn["ends"], axis=-1))
    return {
        "coverage": covers(drawn["ends"], truth_of(cell.data)).mean(axis=0).min(),
        "size": (drawn["p"] < 0.05).mean(axis=0).max(), "joint size": (drawn["joint"] < 0.05).mean(),
        "bounded": bounded.mean(axis=0).min(), "by score": drawn["by score"].mean(), "coefficients": bounded.shape[1],
    }  # fmt: skip


WHERE = f"{len(DESIGNS)} populations, n 1,000 and 10,000, epsilon .1 and 1, rho .002 and .02"
STUDY = Study(
    "newton_weak", cells, draw, summary,
    (
        Rule("least coverage of 95% intervals of a coefficient, least squares by iterations where noise dominates",
             "coverage",
             quantities="coefficients", design=WHERE),
        Rule("size at .05 of tests of a coefficient, least squares by iterations where noise dominates", "size", "size",
             0.05,
             quantities="coefficients", design=WHERE),
        Rule("size at .05 of the joint test of slopes, least squares by iterations where noise dominates", "joint size",
             "size",
             0.05, design=WHERE),
    ),
    figure=scatter("price", {"coverage": 0.95, "size": 0.05, "joint size": 0.05}, ["data", "n"]),
    notes=("Rows are drawn with replacement from a population whose own least squares line is the truth. Noise "
           "dominates nearly all of these fits. Coverage and size: of the worst coefficient; joint size: of the test "
           "of all slopes.",),
)  # fmt: skip
