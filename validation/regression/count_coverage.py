"""Coverage and width of private intervals of count regressions, for counts that spread as their law says, and more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.question import Newton
from validation.common.outputs import scatter
from validation.common.rules import Rule
from validation.common.study import Drawn, Study
from validation.regression.newton_draws import Drawer, covers, replicates

SLOPES = np.array([0.4, -0.3, 0.5])
WIDEST, MARKED, SEEN = 1.15, 0.05, 1000
"""Largest width, largest share of marked fits, and rows, and counts, times rho from which both are asked."""

OF_INTERCEPT = 0.0076
"""Intercepts may cover so much less than slopes: .93 where .9376 is asked for."""


@dataclass(frozen=True)
class Cell:
    """Counts of one law, at a size, a mean and a price."""

    law: str
    model: str
    n: int
    mean: float
    rho: float
    neighbors: str = "add_remove"

    @property
    def name(self) -> str:
        return f"{self.law}-{self.model}-{self.n}-{self.mean:g}-{self.rho:g}-{self.neighbors}"

    def rows(self, rng: np.random.Generator, truth: np.ndarray) -> dict[str, np.ndarray]:
        """Draw one data set."""
        x = regressors(rng, self.n)
        mean = np.exp(truth[0] + truth[1:] @ x)
        if self.law == "poisson":
            y = rng.poisson(mean)
        elif self.law == "six times the mean":
            y = rng.poisson(rng.gamma(mean / 5, 5.0))
        elif self.law == "gamma heterogeneity":
            y = rng.poisson(mean * rng.gamma(1.0, 1.0, self.n))
        else:
            y = rng.poisson(mean / 0.6) * (rng.random(self.n) < 0.6)
        return {**{f"x{j + 1}": x[j] for j in range(3)}, "y": np.minimum(y, self.most).astype(float)}

    @property
    def most(self) -> int:
        """Declared bound of the response."""
        return int(100 * self.mean) + 20


def regressors(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw three regressors of about unit variance: normal, two points, skewed."""
    normal = np.clip(rng.normal(0, 1, n), -2.86, 2.86)
    return np.stack([normal, 2.0 * (rng.random(n) < 0.4) - 1, (2 * rng.beta(2, 5, n) - 1) / 0.32])


@cache
def truth_of(cell: Cell) -> np.ndarray:
    """Coefficients with which the mean response is that of the cell."""
    x = regressors(np.random.default_rng(0), 400_000)
    return np.concatenate([[np.log(cell.mean / np.exp(SLOPES @ x).mean())], SLOPES])


def cells() -> Iterator[Cell]:
    """List all of them."""
    for law, model in (
        ("poisson", "poisson"),
        ("six times the mean", "poisson"),
        ("gamma heterogeneity", "poisson"),
        ("gamma heterogeneity", "negativebinomial"),
        ("zero inflation", "poisson"),
    ):
        for n, mean in ((300, 1.0), (1000, 2.0), (10_000, 1.0), (10_000, 0.1)):
            for rho in (0.1, 0.5):
                yield Cell(law, model, n, mean, rho)
    yield Cell("poisson", "poisson", 10_000, 1.0, 0.5, "replace_one")


def draw(cell: Cell, rng: np.random.Generator, count: int) -> Drawn:
    """Draw and fit."""
    truth = truth_of(cell)
    schema = dpi.Schema(x1=dpi.Real(-3, 3), x2=dpi.Real(-1, 1), x3=dpi.Real(-3.2, 3.2), y=dpi.Integer(0, cell.most))
    parameter = 1.0 if cell.model == "negativebinomial" else None
    question = Newton(formula="y ~ x1 + x2 + x3", model=cell.model, parameter=parameter, ranges=False)
    drawer = Drawer(question, Context(schema, cell.neighbors, dpi.ZCDP(cell.rho)))
    return replicates(drawer, lambda rng: (cell.rows(rng, truth), {}), truth, rng, count,
                      more=lambda fit: {"marked": bool(fit.flags)})  # fmt: skip


def summary(cell: Cell, drawn: Drawn) -> dict:
    """Coverage and median width of all fits; the oracle knows the deviation of the estimator itself."""
    inside, width = covers(drawn["ends"], truth_of(cell)), np.ptp(drawn["ends"], axis=-1)
    ratio = np.median(width, axis=0) / (2 * 1.96 * drawn["error"].std(axis=0, ddof=1))
    widest, marked, seen = (
        float(ratio[1:].max()),
        float(drawn["marked"].mean()),
        cell.n * min(cell.mean, 1) * cell.rho >= SEEN,
    )
    return {
        "slopes": float(inside.mean(axis=0)[1:].min()), "intercept": float(inside.mean(axis=0)[0]),
        "width / oracle": widest, "error of width / oracle": widest / np.sqrt(2 * (len(inside) - 1)),
        "marked": marked, "judged marks": marked if seen else np.nan, "noise is small": seen,
    }  # fmt: skip


STUDY = Study(
    "count_coverage", lambda: [*cells()], draw, summary,
    (
        Rule("least coverage of 95% intervals of a slope of counts, all fits", "slopes", quantities=3,
             design="n 300-10,000, mean .1-2, rho .1-.5, four laws"),
        Rule("", "intercept", limit=0.95 - OF_INTERCEPT),
        Rule("largest median width of intervals of a slope of counts over an oracle's, n rho and counts from 1,000",
             "width / oracle", "width", WIDEST, where=lambda table: table["noise is small"],
             design="the oracle knows the deviation of the estimator itself"),
        Rule("largest share of fits of counts that name a term as mostly noise, n rho and counts from 1,000",
             "judged marks", "share", MARKED, design="n 10,000, mean 1, rho .1-.5, four laws"),
    ),
    axes=lambda cell: {"cell": cell.name},
    figure=scatter("cell", {"slopes": 0.95, "intercept": 0.95}, "noise is small"),
    notes=(
        "A cell is law, model, rows, mean, rho, relation. Coverage and width are of all fits, whether or not results "
        f"name a term. Slopes cover .95, the intercept {OF_INTERCEPT:g} less; where rows, and counts, times rho are at "
        f"least {SEEN:,}, the median width is asked to be at most {WIDEST:g} times that of an oracle, which knows the "
        "standard deviation of the estimator itself, and at most 5% of fits to be marked.",
    ),
)  # fmt: skip
