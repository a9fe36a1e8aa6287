"""Coverage of regressions by Newton rounds where people have several dependent rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import special, stats

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.question import Newton
from validation.common.cells import kept_all
from validation.common.claims import RULES, Claim, least_coverage
from validation.common.outputs import Options, write_table
from validation.regression.newton_draws import Drawer

MOST, ALIKE = 5, 0.5
TRUTH = np.array([0.0, 0.8, -0.5, 0.6])
TERMS = ("Intercept", "x1", "x2", "x3")
CHUNK = 100
"""Replicates that are drawn from one seed and stored together, so that a run that was stopped goes on."""


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

    def replicates(self, seed: int, count: int) -> pd.DataFrame:
        """Simulate: a row for each replicate and coefficient."""
        rng = np.random.default_rng(seed)
        drawer = Drawer(Newton(formula="y ~ x1 + x2 + x3", model=self.model), self.context)
        found = []
        for place in range(count):
            x, y, owned = self.draw(rng)
            cells = {**{name: x[:, j] for j, name in enumerate(TERMS) if j}, "y": y}
            private = drawer.estimate(cells, rng, persons=owned)
            model = sm.OLS(y, x) if self.model == "ols" else sm.Logit(y.astype(float), x)
            plain = model.fit(cov_type="cluster", cov_kwds={"groups": owned}, **_QUIET[self.model])
            low, high = private.intervals(np.eye(len(TRUTH)), 0.05).T
            plain_low, plain_high = plain.conf_int().T
            found.append(
                pd.DataFrame(
                    {
                        "replicate": place,
                        "term": TERMS,
                        "error": private.params - TRUTH,
                        "se": np.sqrt(np.diag(private.cov_sampling + private.cov_noise)),
                        "covered": (low < TRUTH) & (high > TRUTH),
                        "bounded": np.isfinite(high - low),
                        "flagged": private.fit.flagged,
                        "plain error": plain.params - TRUTH,
                        "plain se": plain.bse,
                        "plain covered": (plain_low < TRUTH) & (plain_high > TRUTH),
                    }
                )
            )
        return pd.concat(found)


_QUIET: dict[str, dict] = {"ols": {}, "logit": {"disp": 0}}


def cells() -> list[Cell]:
    """Return the grid."""
    main = [Cell(model, 2000, 0.5, relation) for model, relation in product(("ols", "logit"), dpi.privacy.NEIGHBORS)]
    return main + [Cell(model, *one) for one in ((2000, 0.1), (10_000, 0.1)) for model in ("ols", "logit")]


def simulated(grid: list[Cell], arguments: Options) -> list[pd.DataFrame]:
    """Return the replicates of each cell."""
    starts = range(0, arguments.replicates, CHUNK)
    parts = {}
    for cell, start in product(grid, starts):
        seed = arguments.seed + 1_000_000 * grid.index(cell) + start
        parts[f"{cell.name}-{start}"] = partial(cell.replicates, seed, min(CHUNK, arguments.replicates - start))
    found = kept_all("newton_people", parts, arguments)
    return [pd.concat(found[place : place + len(starts)]) for place in range(0, len(found), len(starts))]


def judged(cell: Cell, table: pd.DataFrame) -> dict:
    """Summarise the replicates of a cell by its worst coefficient."""
    by = table.groupby("term", sort=False)
    count = int(by.size().iloc[0])
    rmse = np.sqrt((table["error"] ** 2).groupby(table["term"]).mean())
    plain = np.sqrt((table["plain error"] ** 2).groupby(table["term"]).mean())
    coverage = by["covered"].mean()
    return {
        "model": cell.model,
        "people": cell.people,
        "rho": cell.rho,
        "neighbors": cell.neighbors,
        "coverage": coverage.min(),
        "worst term": coverage.idxmin(),
        "clustered, without privacy": by["plain covered"].mean().min(),
        "RMSE / without privacy": (rmse / plain).max(),
        "se / that of clusters": (by["se"].median() / by["plain se"].median()).max(),
        "bounded": table["bounded"].mean(),
        "flagged": table["flagged"].mean(),
        "replicates": count,
        "held": bool(coverage.min() >= RULES.least_coverage(count, 0.95)),
    }


def run(arguments: Options) -> list[Claim]:
    """Simulate every cell and judge it."""
    grid = cells()
    table = pd.DataFrame([judged(*one) for one in zip(grid, simulated(grid, arguments), strict=True)])
    least = RULES.least_coverage(arguments.replicates, 0.95)
    notes = [
        f"People have 1 to {MOST} rows, max_rows={MOST}; errors of a person's rows have the correlation {ALIKE:g}. "
        f"Coverage is that of the worst coefficient; at least {least:.4f} is asked for."
    ]
    write_table(table, "newton_people", arguments, notes)
    main = table[(table["rho"] == 0.5) & (table["neighbors"] == "add_remove")]
    return [
        least_coverage(
            "least coverage of 95% intervals of a regression clustered by person",
            table,
            by=["model", "people", "rho", "neighbors"],
            quantities=3,
            design=f"ols and logit, {MOST} dependent rows of a person at most, both relations",
        ),
        Claim(
            "largest RMSE over that without privacy, 2,000 people, rho = .5, add_remove",
            "the same",
            f"{main['RMSE / without privacy'].max():.3f}",
            True,
        ),
    ]
