"""Coverage of intervals for Cramer's V, Cohen's w and the residuals of cells of noisy tables."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from dpinfer.release import NoiseLaw
from dpinfer.statistics.noise import CountNoise
from dpinfer.tables.chi_squared_inference import (
    GoodnessOfFit,
    Independence,
    cohens_w,
    cramers_v,
    residual_table,
)
from validation.common.outputs import scatter
from validation.common.rules import Rule
from validation.common.study import Drawn, Study

SIZES = (200, 1000, 10_000)
PRICES = (0.005, 0.05, 0.5)
EFFECTS = (0.0, 0.1, 0.3, 0.6)
RELEASED = (("gaussian", False), ("gaussian", True), ("laplace", False))
"""Noise, and whether the number of rows is public."""
MARGINS = (
    ((0.8, 0.2), (0.7, 0.3)),
    ((0.6, 0.3, 0.1), (0.4, 0.3, 0.2, 0.1)),
    ((0.35, 0.25, 0.2, 0.12, 0.08), (0.3, 0.25, 0.2, 0.15, 0.1)),
)
LEVELS = (
    (0.45, 0.3, 0.15, 0.1),
    (0.25, 0.2, 0.15, 0.1, 0.08, 0.07, 0.05, 0.04, 0.03, 0.03),
)
RESIDUALS = (0.0, 0.3, 0.6)
"""Effect sizes at which the residuals' intervals are studied too."""

FEWEST = 5.0
"""Expected rows from which a cell's residual is judged: below, or below the noise, `small_cells` says so."""


@dataclass(frozen=True)
class Population:
    """Shares of the cells, beside what they deviate from.

    Attributes
    ----------
    design : str
    shares, null : ndarray (d,)
    shape : (int, int) or None
        Of a table; None for levels of one variable.
    effect : float
        V or w.
    """

    design: str
    shares: np.ndarray
    null: np.ndarray
    shape: tuple[int, int] | None
    effect: float


def coupled(a: tuple[float, ...], b: tuple[float, ...]) -> np.ndarray:
    """The table with margins a and b in which large goes with large as far as it can."""
    upper = np.minimum.outer(np.cumsum(a), np.cumsum(b))
    return np.diff(np.diff(np.pad(upper, ((1, 0), (1, 0))), axis=0), axis=1)


def populations() -> list[Population]:
    """Every table and every single variable, at every effect size."""
    found = []
    for (a, b), effect in product(MARGINS, EFFECTS):
        null, full = np.outer(a, b), coupled(a, b)
        most = np.sqrt(((full - null) ** 2 / null).sum() / (min(null.shape) - 1))
        shares = null + effect / most * (full - null)
        design = f"{len(a)}x{len(b)}"
        found.append(Population(design, shares.ravel(), null.ravel(), null.shape, effect))
    for level, effect in product(LEVELS, EFFECTS):
        null = np.array(level)
        tilt = np.resize([-1.0, 1.0], null.size)
        tilt -= null @ tilt
        shares = null * (1 + effect * tilt / np.sqrt(null @ tilt**2))
        found.append(Population(f"{null.size} levels", shares, null, None, effect))
    return found


def noise_of(family: str, rho: float, public: bool) -> CountNoise:
    """Noise of counts at a price of rho-zCDP, or of the pure DP that implies it: n is public under replace_one."""
    if family == "gaussian":
        return CountNoise(NoiseLaw(family, (float(np.sqrt((1 if public else 0.5) / rho)),)))
    return CountNoise(NoiseLaw(family, (float((2 if public else 1) / np.sqrt(2 * rho)),)))


@dataclass(frozen=True)
class Cell:
    """A population, and how its counts are released."""

    population: Population
    n: int
    rho: float
    noise: str
    public: bool

    @property
    def axes(self) -> dict:
        """Columns that name the cell."""
        return {"design": self.population.design, "effect": self.population.effect, "n": self.n, "rho": self.rho,
                "noise": self.noise, "n is": "public" if self.public else "private"}  # fmt: skip


def draw(cell: Cell, rng: np.random.Generator, replicates: int) -> Drawn:
    """Intervals of the effect size, and of the residuals of some populations."""
    one, noise, nobs = cell.population, noise_of(cell.noise, cell.rho, cell.public), cell.n if cell.public else None
    counts = rng.multinomial(cell.n, one.shares, size=replicates)
    values = counts + noise.rvs(counts.shape, rng)
    model: GoodnessOfFit | Independence
    if one.shape is None:
        model, found = GoodnessOfFit(one.null, noise, nobs), cohens_w(values, one.null, noise=noise, nobs=nobs)
    else:
        model, found = Independence(one.shape, noise, nobs), cramers_v(values, one.shape, noise=noise, nobs=nobs)
    covered = (found.lower <= one.effect + 1e-9) & (one.effect <= found.upper)
    drawn = {"effect": np.column_stack([covered, found.upper - found.lower, found.resolved, found.estimate])}
    if one.effect not in RESIDUALS:
        return drawn
    residuals = residual_table(model, values)
    target = residual_table(model, cell.n * one.shares).standardised
    within = (residuals.lower <= target) & (target <= residuals.upper)
    return {**drawn, "within": within, "width": residuals.upper - residuals.lower}


def summary(cell: Cell, drawn: Drawn) -> list[dict]:
    """Coverage and width of the effect size, and of the worst residual."""
    covered, width, resolved, estimate = drawn["effect"].T
    known = resolved > 0
    rows = [{
        "quantity": "Cohen's w" if cell.population.shape is None else "Cramer's V",
        "coverage": covered.mean(), "width": width[known].mean() if known.any() else np.nan,
        "whole range": 1 - known.mean(), "mean estimate": estimate[known].mean() if known.any() else np.nan, "cells": 1,
    }]  # fmt: skip
    if "within" in drawn:
        noise = noise_of(cell.noise, cell.rho, cell.public)
        judged = cell.n * cell.population.null >= max(FEWEST, float(np.sqrt(noise.variance)))
        within = drawn["within"].mean(axis=0)
        rows.append({
            "quantity": "residual", "coverage": within[judged].min() if judged.any() else np.nan,
            "width": drawn["width"][:, judged].mean() if judged.any() else np.nan, "all cells": within.min(),
            "cells": int(judged.sum()),
        })  # fmt: skip
    return rows


STUDY = Study(
    "association",
    lambda: [Cell(*one, *how) for *one, how in product(populations(), SIZES, PRICES, RELEASED)],
    draw, summary,
    (Rule("least coverage of 95% intervals: {part}", "coverage", split="quantity", quantities="cells",
          design="n 200 to 10,000, rho .005 to .5, Gaussian and Laplace, n public and private"),),
    axes=lambda cell: cell.axes, by=("quantity",), quick=12,
    figure=scatter(lambda table: table["n"] * np.sqrt(table["rho"]), {"coverage": 0.95, "width": np.nan}, "quantity",
                   label="n sqrt(rho)"),
    notes=(
        "`whole range` is the share of intervals that are every value the measure can take, because a noisy margin "
        "(for w: the noisy number of rows) is below 2.5 standard deviations of its noise; `width` and `mean estimate` "
        "are of the others. Coverage of the residuals is that of the worst cell of the table whose expected count is "
        f"at least {FEWEST:g} and the noise's standard deviation; `all cells` is that of the worst of all.",
        "Laplace noise is that of the pure differential privacy that implies the rho: epsilon = sqrt(2 rho).",
    ),
)  # fmt: skip
