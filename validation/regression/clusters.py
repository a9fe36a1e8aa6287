"""Coverage of regressions clustered by public groups: few and many, of equal size or not, and real wages by region."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import special

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.question import Newton
from validation.common.outputs import scatter
from validation.common.real import rows_of
from validation.common.rules import Rule
from validation.common.study import Drawn, Study, rmse_ratio
from validation.regression.newton_draws import Drawer, covers, replicates

PRICES = {"ZCDP(0.5)": dpi.ZCDP(0.5), "ZCDP(0.05)": dpi.ZCDP(0.05), "PureDP(1)": dpi.PureDP(1)}
SIZES = ((1000, 10), (5000, 10), (5000, 50), (50_000, 50), (50_000, 200))
TRUTH = {"ols": np.array([1.0, 0.5, -0.4]), "logit": np.array([-0.5, 0.5, -0.4])}
REGIONS = 9


@dataclass(frozen=True)
class Cell:
    """A population and model, the numbers of rows and groups, and the price."""

    population: str
    model: str
    n: int
    groups: int
    price: str
    neighbors: str = "add_remove"


def cells() -> list[Cell]:
    """Return the grid: other models, unequal groups and replace_one at some sizes."""
    every = [Cell("simulated", "ols", *size, price) for size, price in product(SIZES, PRICES)]
    every += [Cell("unequal groups", "ols", *size, price) for size, price in product(SIZES[2:4], PRICES)]
    every += [Cell("simulated", "logit", *size, price) for size, price in product(SIZES[2:4], PRICES)]
    every += [Cell("wages by region", "ols", n, 30, price) for n, price in product((5000, 50_000), PRICES)]
    return every + [Cell("simulated", "ols", 5000, 50, price, "replace_one") for price in PRICES]


@cache
def wages() -> list[pd.DataFrame]:
    """Return wages, education and experience of young men by region (Card 1995)."""
    rows = rows_of("card")[["lwage", "educ", "exper", *(f"reg66{one}" for one in range(1, REGIONS + 1))]]
    return [rows.loc[rows[f"reg66{one}"] == 1, ["lwage", "educ", "exper"]] for one in range(1, REGIONS + 1)]


def drawn(cell: Cell, rng: np.random.Generator) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """Draw cells of a data set, its design and response, and whose group each row is."""
    if cell.population == "wages by region":
        each, regions = cell.n // cell.groups, rng.integers(REGIONS, size=cell.groups)
        parts = [wages()[region].sample(each, replace=True, random_state=rng) for region in regions]
        rows, group = pd.concat(parts), np.repeat(np.arange(cell.groups), each)
        found = {name: rows[name].to_numpy(dtype=float) for name in rows}
        x = np.column_stack([np.ones(len(rows)), found["educ"], found["exper"]])
        return {**found, "g": group}, x, found["lwage"], group
    size = rng.pareto(1.5, cell.groups) + 0.2 if cell.population == "unequal groups" else np.ones(cell.groups)
    group = rng.choice(cell.groups, cell.n, p=size / size.sum())
    x1 = (0.7 * rng.normal(size=cell.groups)[group] + 0.7 * rng.normal(size=cell.n)).clip(-4, 4)
    x2 = (0.5 * rng.normal(size=cell.groups)[group] + rng.standard_t(5, cell.n)).clip(-4, 4)
    x = np.column_stack([np.ones(cell.n), x1, x2])
    shared = rng.normal(size=cell.groups)[group]
    if cell.model == "logit":
        y = (rng.logistic(size=cell.n) < x @ TRUTH["logit"]).astype(float)
        y = np.where(rng.random(cell.n) < 0.1 * np.abs(shared).clip(0, 2), shared > 0, y).astype(float)
    else:
        y = (x @ TRUTH["ols"] + 0.4 * shared + rng.normal(size=cell.n) * (0.5 + 0.5 * np.abs(x1))).clip(-10, 10)
    return {"x1": x1, "x2": x2, "y": y, "g": group}, x, y, group


@cache
def truth_of(population: str, model: str) -> np.ndarray:
    """Return the coefficients that are estimated: what many rows in many groups have."""
    if population == "wages by region":
        rows = pd.concat([one.sample(20_000, replace=True, random_state=1) for one in wages()])
        return np.asarray(sm.OLS(rows["lwage"], sm.add_constant(rows[["educ", "exper"]])).fit().params)
    if model == "ols":
        return TRUTH["ols"]
    _, x, y, _ = drawn(Cell(population, model, 2_000_000, 20_000, ""), np.random.default_rng(0))
    return np.asarray(sm.GLM(y, x, family=sm.families.Binomial()).fit().params)


def plain(cell: Cell, x: np.ndarray, y: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients without privacy and their intervals, clustered, with t of G - 1 degrees of freedom."""
    params = np.zeros(x.shape[1])
    for _ in range(1 if cell.model == "ols" else 25):
        mean = x @ params if cell.model == "ols" else special.expit(x @ params)
        weight = np.ones(len(y)) if cell.model == "ols" else mean * (1 - mean)
        bread = np.linalg.inv((x * weight[:, None]).T @ x)
        params = params + bread @ (x.T @ (y - mean))
    mean = x @ params if cell.model == "ols" else special.expit(x @ params)
    sums = np.stack([np.bincount(group, one, cell.groups) for one in (x * (y - mean)[:, None]).T], axis=1)
    cov = bread @ (sums.T @ sums) @ bread * cell.groups / (cell.groups - 1)
    half = -special.stdtrit(cell.groups - 1, 0.025) * np.sqrt(np.diag(cov))
    return params, np.stack([params - half, params + half], axis=1)


def draw(cell: Cell, rng: np.random.Generator, count: int) -> Drawn:
    """Fit with privacy, and without."""
    groups = dpi.Category([f"g{one}" for one in range(cell.groups)])
    if cell.population == "wages by region":
        schema = dpi.Schema(lwage=dpi.Real(3, 9), educ=dpi.Real(0, 20), exper=dpi.Real(0, 30), g=groups)
        formula = "lwage ~ educ + exper"
    else:
        response = dpi.Boolean() if cell.model == "logit" else dpi.Real(-10, 10)
        schema = dpi.Schema(x1=dpi.Real(-4, 4), x2=dpi.Real(-4, 4), y=response, g=groups)
        formula = "y ~ x1 + x2"
    nobs = cell.n if cell.neighbors == "replace_one" else None
    context = Context(schema, cell.neighbors, PRICES[cell.price], nobs=nobs)  # type: ignore[arg-type]
    drawer = Drawer(Newton(formula=formula, model=cell.model, cov_type="cluster", groups="g"), context)
    truth, names = truth_of(cell.population, cell.model), np.array(groups.level_texts, dtype=object)

    def rows(rng: np.random.Generator) -> tuple[dict, dict]:
        found, x, y, group = drawn(cell, rng)
        params, ends = plain(cell, x, y, group)
        return {**found, "g": names[group]}, {"plain": params - truth, "plain ends": ends}

    def named(fit: Any) -> dict:
        return {"named": bool(fit.flags)}

    return replicates(drawer, rows, truth, rng, count, more=named)


def summary(cell: Cell, drawn: Drawn) -> dict:
    """Summarise both slopes by the worse of them."""
    truth, ends = truth_of(cell.population, cell.model), drawn["ends"]
    widths, theirs = np.ptp(ends, axis=-1)[:, 1:], np.ptp(drawn["plain ends"], axis=-1)[:, 1:]
    ratio, error = rmse_ratio(drawn["error"][:, 1:], drawn["plain"][:, 1:])
    covered, before = (covers(one, truth)[:, 1:].mean(axis=0) for one in (ends, drawn["plain ends"]))
    return {
        "coverage": covered.min(), "without privacy": before.min(),
        "least": float(min(0.95, before.min())),
        "width / without privacy": (np.median(widths, axis=0) / np.median(theirs, axis=0)).max(),
        "unbounded": 1 - np.isfinite(widths).mean(axis=0).min(), "named": drawn["named"].mean(),
        "RMSE / without privacy": ratio.max(), "error of RMSE / without privacy": error[ratio.argmax()],
    }  # fmt: skip


STUDY = Study(
    "clusters", cells, draw, summary,
    (
        Rule("least coverage of 95% intervals of slopes clustered by public groups, less what it is without privacy",
             "coverage", limit="least", quantities=2,
             design="10 to 200 groups, n 1,000-50,000, simulated, unequal groups, logit, real wages, three budgets"),
    ),
    figure=scatter("n", {"coverage": 0.95, "width / without privacy": 1.0}, ["population", "model", "price"]),
    most=1000,
    notes=(
        "Errors and regressors are related within groups; sizes of unequal groups have a long tail. Wages are those "
        "of a region of the United States, drawn anew for each group. Intervals without privacy are clustered, too, "
        "with t of one degree of freedom less than groups; where these cover less than .95, so much is asked. Values "
        "are those of the worse slope.",
    ),
)  # fmt: skip
