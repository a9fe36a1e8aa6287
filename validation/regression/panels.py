"""Coverage of regressions within people: effects of people that regressors depend on, errors that last, real wages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.question import Newton
from validation.common.outputs import scatter
from validation.common.real import rows_of
from validation.common.rules import Rule
from validation.common.study import Drawn, Study, rmse_ratio
from validation.regression.newton_draws import Drawer, covers, replicates

PRICES = {"ZCDP(0.5)": dpi.ZCDP(0.5), "ZCDP(0.05)": dpi.ZCDP(0.05), "PureDP(1)": dpi.PureDP(1)}
ROWS = (1000, 5000, 50_000)
SERVED = 50
"""People times rho from which on something is claimed: below, every fit names its terms as noise."""

TRUTH = np.array([0.8, -0.5])
MOST, WAVES = 5, 8
WAGES = ("union", "married")
SCHEMAS = {
    "simulated": dpi.Schema(x1=dpi.Real(-4, 4), x2=dpi.Boolean(), y=dpi.Real(-12, 12), t=dpi.Integer(0, MOST)),
    "wages": dpi.Schema(
        lwage=dpi.Real(-4, 5), union=dpi.Boolean(), married=dpi.Boolean(), year=dpi.Integer(1980, 1987)
    ),
}
TERMS = {
    ("simulated", "EntityEffects"): "y ~ x1 + x2 + EntityEffects",
    ("simulated", "FirstDifference"): "y ~ x1 + x2 + FirstDifference(t)",
    ("wages", "EntityEffects"): "lwage ~ union + married + C(year) + EntityEffects",
    ("wages", "FirstDifference"): "lwage ~ union + married + C(year) + FirstDifference(year)",
}


@dataclass(frozen=True)
class Cell:
    """A population, how effects of people are taken out, about how many rows there are, and the price."""

    population: str
    within: str
    n: int
    price: str
    neighbors: str = "add_remove"

    @property
    def people(self) -> int:
        """People have 1 to 5 rows, or 8."""
        return self.n // (3 if self.population == "simulated" else WAVES)


def cells() -> list[Cell]:
    """Return the grid: replace_one at one size."""
    every = [Cell(*one) for one in product(SCHEMAS, ("EntityEffects", "FirstDifference"), ROWS, PRICES)]
    return every + [Cell(name, "EntityEffects", 5000, price, "replace_one") for name in SCHEMAS for price in PRICES]


@cache
def wages() -> pd.DataFrame:
    """Return the wages of 545 men in eight years, those of each one after the other (Vella and Verbeek 1998)."""
    rows = rows_of("wagepan").sort_values(["nr", "year"])
    assert len(rows) == WAVES * rows["nr"].nunique()
    return rows[["lwage", *WAGES, "year"]].reset_index(drop=True)


def simulated(rng: np.random.Generator, people: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Draw 1 to 5 rows of each of so many people, with effects that regressors depend on and errors that last."""
    owned = np.repeat(np.arange(people), rng.integers(1, MOST + 1, people))
    place = np.arange(len(owned)) - np.searchsorted(owned, owned)
    effect = rng.gamma(2.0, 1.0, people)[owned] - 2.0
    x1 = 0.6 * effect + rng.standard_t(5, len(owned)) * 0.6
    x2 = rng.random(len(owned)) < 1 / (1 + np.exp(-effect))
    error = rng.normal(size=len(owned)) * (0.5 + 0.5 * np.abs(x1))
    error[1:] += 0.5 * error[:-1] * (place[1:] > 0)
    y = TRUTH[0] * x1.clip(-4, 4) + TRUTH[1] * x2 + effect + error
    return {"x1": x1, "x2": x2, "y": y, "t": place}, owned


def plain(cell: Cell, rows: dict[str, np.ndarray], owned: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return slopes without privacy, and their intervals (k, 2), clustered by person."""
    if cell.population == "simulated":
        x, y = np.column_stack([rows["x1"].clip(-4, 4), rows["x2"]]).astype(float), rows["y"].clip(-12, 12)
    else:
        years = rows["year"][:, None] == np.arange(1981, 1988)
        x, y = np.column_stack([rows["union"], rows["married"], years]).astype(float), rows["lwage"]
    both = np.column_stack([x, y])
    if cell.within == "EntityEffects":
        means = np.stack([np.bincount(owned, one) for one in both.T], axis=1) / np.bincount(owned)[:, None]
        both, of = both - means[owned], owned
    else:
        alike = owned[1:] == owned[:-1]
        both, of = np.diff(both, axis=0)[alike], owned[1:][alike]
    x, y = both[:, :-1], both[:, -1]
    bread = np.linalg.inv(x.T @ x)
    params = bread @ (x.T @ y)
    scores = x * (y - x @ params)[:, None]
    sums = np.stack([np.bincount(of, one) for one in scores.T], axis=1)
    half = 1.96 * np.sqrt(np.diag(bread @ (sums.T @ sums) @ bread))[:2]
    return params[:2], np.stack([params[:2] - half, params[:2] + half], axis=1)


@cache
def truth_of(population: str, within: str) -> np.ndarray:
    """Return the slopes that are looked at: those of all men, or what was simulated."""
    if population == "simulated":
        return TRUTH
    rows = {name: wages()[name].to_numpy() for name in wages()}
    return plain(Cell(population, within, 0, ""), rows, np.arange(len(wages())) // WAVES)[0]


def draw(cell: Cell, rng: np.random.Generator, count: int) -> Drawn:
    """Fit with privacy, and without."""
    most = MOST if cell.population == "simulated" else WAVES
    schema = SCHEMAS[cell.population].with_people("id", most)
    formula = TERMS[cell.population, cell.within]
    nobs = cell.people if cell.neighbors == "replace_one" else None
    context = Context(schema, cell.neighbors, PRICES[cell.price], nobs=nobs)  # type: ignore[arg-type]
    drawer = Drawer(Newton(formula=formula), context)
    truth = truth_of(cell.population, cell.within)
    known = np.concatenate([truth, np.zeros(len(drawer.plan.columns.names) - 2)])

    def rows(rng: np.random.Generator) -> tuple[dict, dict]:
        if cell.population == "simulated":
            found, owned = simulated(rng, cell.people)
        else:
            men = rng.integers(len(wages()) // WAVES, size=cell.people)
            place = (men[:, None] * WAVES + np.arange(WAVES)).ravel()
            found = {name: wages()[name].to_numpy()[place] for name in wages()}
            owned = np.arange(len(place)) // WAVES
        params, ends = plain(cell, found, owned)
        return found, {"persons": owned, "plain": params - truth, "plain ends": ends}

    def named(fit: Any) -> dict:
        return {"named": bool(fit.flags)}

    return replicates(drawer, rows, known, rng, count, more=named)


def summary(cell: Cell, drawn: Drawn) -> dict:
    """Summarise both slopes by the worse of them."""
    truth, ends, theirs = truth_of(cell.population, cell.within), drawn["ends"][:, :2], drawn["plain ends"]
    widths = np.ptp(ends, axis=-1)
    bounded = np.isfinite(widths)
    ratio, error = rmse_ratio(drawn["error"][:, :2], drawn["plain"])
    zcdp = PRICES[cell.price]
    return {
        "served": not isinstance(zcdp, dpi.ZCDP) or cell.people * float(zcdp.rho) >= SERVED,
        "coverage": covers(ends, truth).mean(axis=0).min(),
        "without privacy": covers(theirs, truth).mean(axis=0).min(),
        "width / without privacy": (np.median(widths, axis=0) / np.median(np.ptp(theirs, axis=-1), axis=0)).max(),
        "unbounded": 1 - bounded.mean(axis=0).min(), "named": drawn["named"].mean(),
        "RMSE / without privacy": ratio.max(), "error of RMSE / without privacy": error[ratio.argmax()],
    }  # fmt: skip


STUDY = Study(
    "panels", cells, draw, summary,
    (
        Rule("least coverage of 95% intervals of slopes within people", "coverage", quantities=2,
             where=lambda table: table["served"],
             design="EntityEffects, first differences, n 1,000-50,000, simulated and real wages, three budgets"),
    ),
    figure=scatter("n", {"coverage": 0.95, "width / without privacy": 1.0}, ["population", "price"]),
    most=1000,
    notes=(
        f"Simulated people have 1 to {MOST} rows, regressors that depend on their effects, and errors that last and "
        f"spread unevenly; wages are those of 545 men in {WAVES} years, drawn with replacement, so that the truth is "
        "the fit of all. Intervals without privacy are clustered by person. Values are those of the worse slope. Of "
        f"fewer than {SERVED} people times rho nothing is claimed.",
    ),
)  # fmt: skip
