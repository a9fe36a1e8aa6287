"""Absorbed levels of a factor: coverage on real wages and simulated industries, with privacy and without."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dpi
from validation.common.outputs import scatter
from validation.common.real import rows_of
from validation.common.rules import Rule
from validation.common.study import Drawn, Study, rmse_ratio
from validation.regression.newton_draws import covers

PRICES = {"ZCDP(0.5)": dpi.ZCDP(0.5), "ZCDP(0.05)": dpi.ZCDP(0.05), "PureDP(1)": dpi.PureDP(1)}
ROWS = (5000, 50_000)
INDUSTRIES = ("agric", "bus", "construc", "ent", "fin", "manuf", "min", "per", "pro", "pub", "tra", "trad")
OCCUPATIONS = tuple(f"occ{place}" for place in range(1, 10))
TRUTH = np.array([0.5, 0.2])
LEVELS, FEWEST = 300, 20
REGRESSORS = {"wages": ("union", "married", "exper"), "simulated": ("x", "t")}


@dataclass(frozen=True)
class Cell:
    """A population, the number of rows drawn from it, and the price."""

    population: str
    n: int
    price: str
    neighbors: str = "add_remove"


def cells() -> list[Cell]:
    """Return the grid: replace_one, and hundreds of levels, with many rows alone."""
    wages = [Cell("wages", *one) for one in product(ROWS, PRICES)]
    hundreds = [Cell("simulated", ROWS[-1], price) for price in ("ZCDP(0.5)", "ZCDP(0.05)")]
    return [*wages, Cell("wages", ROWS[-1], "ZCDP(0.5)", "replace_one"), *hundreds]


@cache
def wages() -> pd.DataFrame:
    """Return wages of 545 men in eight years (Vella and Verbeek 1998), and as one factor industry by occupation.

    Jobs of few rows are one level.
    """
    rows = rows_of("wagepan")
    job = rows[[*INDUSTRIES]].to_numpy().argmax(axis=1) * len(OCCUPATIONS)
    job = job + rows[[*OCCUPATIONS]].to_numpy().argmax(axis=1)
    job[np.bincount(job)[job] < FEWEST] = -1
    return rows[["lwage", *REGRESSORS["wages"]]].assign(level=np.unique(job, return_inverse=True)[1])


def simulated(rng: np.random.Generator, count: int, levels: int = LEVELS) -> pd.DataFrame:
    """Draw rows in levels of very different sizes, whose means of regressor and response go together."""
    fixed = np.random.default_rng(7)
    size, centre = fixed.gamma(1.5, size=levels) + 0.2, 0.25 + 0.25 * fixed.standard_normal(levels)
    effect = 0.3 * fixed.standard_normal(levels) + 0.4 * centre
    level = rng.choice(levels, count, p=size / size.sum())
    x, t = rng.normal(centre[level], 0.3).clip(-1, 1), rng.random(count) < 0.5
    y = (TRUTH[0] * x + TRUTH[1] * t + effect[level] + rng.normal(0, 0.4, count)).clip(-3, 3)
    return pd.DataFrame({"y": y, "x": x, "t": t, "level": level})


def schema_of(population: str, levels: int) -> dpi.Schema:
    """Return the declared columns."""
    factor = dpi.Category([f"l{place}" for place in range(levels)])
    if population == "simulated":
        return dpi.Schema(x=dpi.Real(-1, 1), t=dpi.Boolean(), y=dpi.Real(-3, 3), level=factor)
    wage, years = dpi.Real(-4, 5), dpi.Integer(0, 20)
    return dpi.Schema(lwage=wage, union=dpi.Boolean(), married=dpi.Boolean(), exper=years, level=factor)


def plain(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return slopes of the dummies' fit without privacy, and their nonrobust intervals (k, 2)."""
    level = rows["level"].to_numpy()
    both = rows.drop(columns="level").to_numpy(dtype=float)
    count = np.maximum(np.bincount(level), 1)
    both = both - np.stack([np.bincount(level, one) / count for one in both.T], axis=1)[level]
    x, y = both[:, 1:], both[:, 0]
    bread = np.linalg.inv(x.T @ x)
    params = bread @ (x.T @ y)
    left = len(y) - x.shape[1] - len(np.unique(level))
    half = 1.96 * np.sqrt(np.diag(bread) * ((y - x @ params) ** 2).sum() / left)
    return params, np.stack([params - half, params + half], axis=1)


def data_of(rows: pd.DataFrame, schema: dpi.Schema, rng: np.random.Generator, neighbors: str) -> dpi.PublicData:
    """Return the rows, with noise of a seed."""
    named = rows.assign(
        level=np.array([f"l{place}" for place in range(len(schema["level"].level_texts))])[rows["level"]]
    )
    return dpi.PublicData(named, schema, rng=rng, neighbors=neighbors)  # type: ignore[arg-type]


def draw(cell: Cell, rng: np.random.Generator, count: int) -> Drawn:
    """Fit with privacy, and without."""
    levels = LEVELS if cell.population == "simulated" else wages()["level"].nunique()
    schema, names = schema_of(cell.population, levels), REGRESSORS[cell.population]
    response = "y" if cell.population == "simulated" else "lwage"
    truth = TRUTH if cell.population == "simulated" else plain(wages())[0]
    found: dict[str, list[Any]] = {name: [] for name in ("error", "ends", "plain", "plain ends", "named")}
    for _ in range(count):
        if cell.population == "simulated":
            rows = simulated(rng, cell.n)
        else:
            rows = wages().iloc[rng.integers(len(wages()), size=cell.n)].reset_index(drop=True)
        question = dpi.ols(
            f"{response} ~ {' + '.join(names)}", data_of(rows, schema, rng, cell.neighbors), absorb="level"
        )
        results = question.fit(PRICES[cell.price])
        params, ends = plain(rows)
        found["error"].append(results.params.to_numpy() - truth)
        found["ends"].append(results.conf_int().to_numpy())
        found["plain"].append(params - truth)
        found["plain ends"].append(ends)
        found["named"].append(any("not determined" in flag for flag in results.flags))
    return {**{name: np.array(one) for name, one in found.items()}, "truth": np.tile(truth, (count, 1))}


def summary(cell: Cell, drawn: Drawn) -> dict[str, float]:  # noqa: ARG001
    """Summarise slopes by the worst of them."""
    truth, ends, theirs = drawn["truth"][0], drawn["ends"], drawn["plain ends"]
    widths = np.ptp(ends, axis=-1)
    ratio, _ = rmse_ratio(drawn["error"], drawn["plain"])
    return {
        "coverage": covers(ends, truth).mean(axis=0).min(),
        "without privacy": covers(theirs, truth).mean(axis=0).min(),
        "width / without privacy": (np.median(widths, axis=0) / np.median(np.ptp(theirs, axis=-1), axis=0)).max(),
        "unbounded": 1 - np.isfinite(widths).mean(axis=0).min(), "RMSE / without privacy": ratio.max(),
        "levels named": drawn["named"].mean(),
    }  # fmt: skip


STUDY = Study(
    "absorbed", cells, draw, summary,
    (
        Rule("least coverage of 95% intervals of slopes beside absorbed levels", "coverage", quantities=2,
             design="47 jobs of real wages, 300 simulated industries, n 5,000 and 50,000, three budgets"),
    ),
    figure=scatter("n", {"coverage": 0.95, "width / without privacy": 1.0}, ["population", "price"]),
    most=250,
    notes=(
        "Wages are those of 545 men in eight years, drawn with replacement; levels are industry by occupation, "
        f"those of fewer than {FEWEST} of all 4,360 rows being one. The {LEVELS} simulated levels hold "
        "very different numbers of rows. Values are those of the worst slope; intervals without privacy are those "
        "of the dummies' fit, nonrobust.",
    ),
)  # fmt: skip
