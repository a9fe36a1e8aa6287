"""Coverage of intervals for Cramer's V, Cohen's w and the residuals of cells of noisy tables."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from time import perf_counter

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from tqdm import tqdm

from dpinfer.release import NoiseLaw
from dpinfer.statistics.noise import CountNoise
from dpinfer.studies import Rules
from dpinfer.tables.chi_squared_inference import (
    EffectSize,
    GoodnessOfFit,
    Independence,
    cohens_w,
    cramers_v,
    residual_table,
)
from validation.common.claims import Claim, least_coverage
from validation.common.outputs import Options, limits, new_figure, write_table

SIZES = (200, 1000, 10_000)
PRICES = (0.005, 0.05, 0.5)
EFFECTS = (0.0, 0.05, 0.1, 0.3, 0.6)
FAMILIES = ("gaussian", "laplace")
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

COLOURS = {"Cramer's V": "#03396c", "Cohen's w": "#f18f01", "residual": "#7a9e7e"}
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


def measure(
    population: Population, n: int, rho: float, family: str, public: bool, arguments: Options, seed: int
) -> list[dict]:
    """Coverage and width of the effect size and of the residuals in one cell of the grid."""
    rng = np.random.default_rng([arguments.seed, seed])
    noise, nobs = noise_of(family, rho, public), n if public else None
    counts = rng.multinomial(n, population.shares, size=arguments.replicates)
    values = counts + noise.rvs(counts.shape, rng)
    model: GoodnessOfFit | Independence
    if population.shape is None:
        model = GoodnessOfFit(population.null, noise, nobs)
        found: EffectSize = cohens_w(values, population.null, noise=noise, nobs=nobs)
    else:
        model = Independence(population.shape, noise, nobs)
        found = cramers_v(values, population.shape, noise=noise, nobs=nobs)
    cell = {
        "design": population.design,
        "effect": population.effect,
        "n": n,
        "rho": rho,
        "noise": family,
        "n is": "public" if public else "private",
    }
    truth = population.effect
    covered = (found.lower <= truth + 1e-9) & (truth <= found.upper)
    width = found.upper - found.lower
    effect = {
        "quantity": "Cohen's w" if population.shape is None else "Cramer's V",
        "coverage": covered.mean(),
        "width": width[found.resolved].mean() if found.resolved.any() else np.nan,
        "whole range": 1 - found.resolved.mean(),
        "mean estimate": found.estimate[found.resolved].mean() if found.resolved.any() else np.nan,
    }
    if population.effect not in RESIDUALS:
        return [cell | effect]
    residuals = residual_table(model, values)
    target = residual_table(model, n * population.shares).standardised
    within = ((residuals.lower <= target) & (target <= residuals.upper)).mean(axis=0)
    expected = n * population.null
    judged = expected >= max(FEWEST, float(np.sqrt(noise.variance)))
    width = (residuals.upper - residuals.lower).mean(axis=0)
    residual = {
        "quantity": "residual",
        "coverage": within[judged].min() if judged.any() else np.nan,
        "width": width[judged].mean() if judged.any() else np.nan,
        "all cells": within.min(),
        "cells": int(judged.sum()),
    }
    return [cell | effect, cell | residual]


def figure_of(table: pd.DataFrame, least: float) -> Figure:
    """Coverage of every cell, and the width of the effect sizes' intervals, against the noise in a cell."""
    figure, (left, right) = new_figure(10.5, 4.4, 1, 2)
    jitter = np.random.default_rng(0).uniform(0.9, 1.1, len(table))
    place = table["n"] * np.sqrt(table["rho"]) * jitter
    for name, colour in COLOURS.items():
        here = table["quantity"] == name
        left.plot(place[here], table.loc[here, "coverage"], ".", ms=4, alpha=0.5, color=colour, label=name)
    for name in ("Cramer's V", "Cohen's w"):
        here = (table["quantity"] == name) & table["width"].notna()
        right.plot(place[here], table.loc[here, "width"], ".", ms=4, alpha=0.5, color=COLOURS[name], label=name)
    limits(left, 0.95, least, "least allowed")
    left.set(xscale="log", xlabel="n sqrt(rho)", ylabel="coverage of 95% intervals")
    right.set(xscale="log", yscale="log", xlabel="n sqrt(rho)", ylabel="mean width where not the whole range")
    left.legend(fontsize=8, frameon=False)
    right.legend(fontsize=8, frameon=False)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Measure every cell, write the table and the figure."""
    grid = list(product(populations(), SIZES, PRICES, FAMILIES, (False, True)))
    start = perf_counter()
    table = pd.DataFrame(
        [
            row
            for index, cell in enumerate(tqdm(grid, desc="cells"))
            for row in measure(*cell, arguments=arguments, seed=index)
        ]
    )
    seconds = perf_counter() - start
    least = Rules().least_coverage(arguments.replicates, 0.95)
    small = table["all cells"].min()
    effects = table[table["quantity"] != "residual"]
    notes = [
        f"{len(grid)} cells in {seconds:.0f} s. Rule: coverage at least {least:.4f} at {arguments.replicates:,} "
        "replicates.",
        "`whole range` is the share of intervals that are every value the measure can take, because a noisy margin "
        "(for w: the noisy number of rows) is below 2.5 standard deviations of its noise; `width` and `mean estimate` "
        f"are of the others. Of all intervals of effect sizes it is {effects['whole range'].mean():.1%}.",
        "Coverage of the residuals is that of the worst cell of the table whose expected count is at least "
        f"{FEWEST:g} and the noise's standard deviation; `all cells` is that of the worst of all, at least "
        f"{small:.4f}.",
        "Laplace noise is that of the pure differential privacy that implies the rho: epsilon = sqrt(2 rho).",
    ]
    write_table(table, "association", arguments, notes, figure_of(table, least))
    return [
        least_coverage(
            f"least coverage of 95% intervals: {name}",
            table[table["quantity"] == name].assign(replicates=arguments.replicates),
            by=["design", "effect", "n", "rho", "noise", "n is"],
            held=None,
            design="n 200 to 10,000, rho .005 to .5, Gaussian and Laplace, n public and private",
        )
        for name in COLOURS
    ]
