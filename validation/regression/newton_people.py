"""Coverage of regressions by Newton rounds where people have several dependent rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import statsmodels.api as sm
from scipy import special, stats

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.question import Newton
from validation.common.rules import Rule
from validation.common.study import Drawn, Study, rmse_ratio
from validation.regression.newton_draws import Drawer, covers, replicates

MOST, ALIKE = 5, 0.5
TRUTH = np.array([0.0, 0.8, -0.5, 0.6])
TERMS = ("Intercept", "x1", "x2", "x3")


@dataclass(frozen=True)
class Cell:
    """People with 1 to 5 rows, whose errors have the correlation .5, and with them what a logit's outcomes depend on.

    x1 differs between a person's rows and is alike in them, x2 is a person's and x3 is a row's.
    """

    model: str
    people: int
    rho: float
    neighbors: str = "add_remove"

    @property
    def name(self) -> str:
        """Name of the cell's files."""
        return f"{self.model}-{self.people}-{self.rho:g}-{self.neighbors}"

    @property
    def context(self) -> Context:
        """What is public."""
        response = dpi.Real(-12, 12) if self.model == "ols" else dpi.Boolean()
        schema = dpi.Schema({**{name: dpi.Real(-1, 1) for name in TERMS[1:]}, "y": response})
        return Context(schema.with_people("id", MOST), self.neighbors, dpi.ZCDP(self.rho))

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw regressors, response, and whose each row is."""
        owned = np.repeat(np.arange(self.people), rng.integers(1, MOST + 1, self.people))
        size = len(owned)
        part = np.sqrt(ALIKE)
        x1 = part * rng.normal(0, 0.35, self.people)[owned] + part * rng.normal(0, 0.35, size)
        x2 = (2.0 * (rng.random(self.people) < 0.4) - 1)[owned]
        x = np.column_stack([np.ones(size), x1.clip(-1, 1), x2, 2 * rng.beta(2, 5, size) - 1])
        error = part * rng.normal(size=self.people)[owned] + part * rng.normal(size=size)
        if self.model == "ols":
            return x, x @ TRUTH + error, owned
        return x, stats.norm.cdf(error) < special.expit(x @ TRUTH), owned


_QUIET: dict[str, dict] = {"ols": {}, "logit": {"disp": 0}}


def cells() -> list[Cell]:
    """Return the grid."""
    main = [Cell(model, 2000, 0.5, relation) for model, relation in product(("ols", "logit"), dpi.privacy.NEIGHBORS)]
    return main + [Cell(model, *one) for one in ((2000, 0.1), (10_000, 0.1)) for model in ("ols", "logit")]


def draw(cell: Cell, rng: np.random.Generator, count: int) -> Drawn:
    """Fit with privacy, and as statsmodels does with errors clustered by person."""

    def rows(rng: np.random.Generator) -> tuple[dict, dict]:
        x, y, owned = cell.draw(rng)
        model = sm.OLS(y, x) if cell.model == "ols" else sm.Logit(y.astype(float), x)
        plain = model.fit(cov_type="cluster", cov_kwds={"groups": owned}, **_QUIET[cell.model])
        beside = {
            "persons": owned,
            "plain": plain.params - TRUTH,
            "plain se": plain.bse,
            "plain ends": plain.conf_int(),
        }
        return {**{name: x[:, j] for j, name in enumerate(TERMS) if j}, "y": y}, beside

    def errors(fit: Any) -> dict:
        return {"se": np.sqrt(np.diag(fit.cov_sampling + fit.cov_noise))}

    drawer = Drawer(Newton(formula="y ~ x1 + x2 + x3", model=cell.model), cell.context)
    return replicates(drawer, rows, TRUTH, rng, count, more=errors)


def summary(_: Cell, drawn: Drawn) -> dict:
    """Summarise the replicates of a cell by its worst coefficient."""
    coverage = covers(drawn["ends"], TRUTH).mean(axis=0)
    ratio, error = rmse_ratio(drawn["error"], drawn["plain"])
    return {
        "coverage": coverage.min(), "worst term": TERMS[coverage.argmin()],
        "clustered, without privacy": covers(drawn["plain ends"], TRUTH).mean(axis=0).min(),
        "RMSE / without privacy": ratio.max(), "error of RMSE / without privacy": error[ratio.argmax()],
        "se / that of clusters": (np.median(drawn["se"], axis=0) / np.median(drawn["plain se"], axis=0)).max(),
        "bounded": np.isfinite(np.ptp(drawn["ends"], axis=-1)).mean(), "flagged": drawn["flagged"].mean(),
    }  # fmt: skip


STUDY = Study(
    "newton_people", cells, draw, summary,
    (
        Rule("least coverage of 95% intervals of a regression clustered by person", "coverage", quantities=4,
             design=f"ols and logit, {MOST} dependent rows of a person at most, both relations"),
        Rule("largest RMSE over that without privacy, 2,000 people, rho = .5, add_remove", "RMSE / without privacy",
             "value",
             np.inf, where=lambda table: (table["rho"] == 0.5) & (table["neighbors"] == "add_remove"),
             design="the same"),
    ),
    notes=(f"People have 1 to {MOST} rows, max_rows={MOST}; errors of a person's rows have the correlation {ALIKE:g}. "
           "Coverage is that of the worst coefficient.",),
)  # fmt: skip
