"""Bias of a block's estimate against its size, plain and corrected by half-blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from joblib import Parallel, delayed
from matplotlib.figure import Figure

from dpinfer.kernel.rows.blocks import block_values
from dpinfer.schema.region import Ball, region_of
from validation.blocks.stacked_fits import stacked_newton
from validation.common.claims import Claim
from validation.common.outputs import Options, write_table

SIZES = (40, 60, 90, 130, 200, 300)
RATE, CHUNK = 2.0, 2000
BETA = np.array([0.4, 0.9])
DRAWS = 100
"""Exponential blocks for each logit block: they cost nothing."""


def exponential(size: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Estimates of a rate (R, 1), plain and corrected: maximum likelihood, one over the mean."""
    rng = np.random.default_rng([seed, size, 1])
    halves = rng.gamma(size / 2, 1 / RATE, size=(count, 2))
    fits = np.stack([size / halves.sum(axis=1), size / 2 / halves[:, 0], size / 2 / halves[:, 1]], axis=1)[..., None]
    region = region_of(Ball(50), ["rate"])
    return block_values(fits[:, :1], region).estimates - RATE, block_values(fits, region).estimates - RATE


def logistic(size: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Errors of the slope of a logit (R, 1), plain and corrected, less their linear part, whose mean is zero."""
    rng = np.random.default_rng([seed, size, 2])
    region = region_of(Ball(8), ["Intercept", "x"])
    grid = np.linspace(-1, 1, 20_001)
    chance = 1 / (1 + np.exp(-BETA[0] - BETA[1] * grid))
    design = np.column_stack([np.ones_like(grid), grid])
    inverse = np.linalg.inv((design.T * chance * (1 - chance)) @ design / len(grid))
    x = np.column_stack([np.ones(count * size), rng.uniform(-1, 1, count * size)])
    mean = 1 / (1 + np.exp(-x @ BETA))
    y = (rng.random(count * size) < mean).astype(float)
    score = (x * (y - mean)[:, None]).reshape(count, size, 2).sum(axis=1)
    linear = score @ inverse[1] / size
    starts = np.arange(count) * size
    middle, stops = starts + size // 2, starts + size
    ends = ((starts, stops), (starts, middle), (middle, stops))
    fits = np.stack([stacked_newton(sm.Logit, y, x, first, last) for first, last in ends], axis=1)
    plain, corrected = (
        block_values(part, region).estimates[:, 1:] - BETA[1] - linear[:, None] for part in (fits[:, :1], fits)
    )
    return plain, corrected


def biases(model: Any, count: int, seed: int, jobs: int) -> pd.DataFrame:
    """Mean error by size of block, with its Monte Carlo error."""
    rows = []
    for size in SIZES:
        more = DRAWS if model is exponential else 1
        parts = Parallel(n_jobs=jobs)(
            delayed(model)(size, more * min(CHUNK, count - start), seed + 7919 * (1 + start))
            for start in range(0, count, CHUNK)
        )
        for kind, errors in zip(("plain", "corrected"), zip(*parts, strict=True), strict=True):
            joined = np.concatenate(errors)
            rows.append(
                {
                    "model": model.__name__,
                    "rows": size,
                    "estimate": kind,
                    "bias": float(joined.mean()),
                    "error": float(joined.std() / np.sqrt(len(joined))),
                    "blocks": len(joined),
                }
            )
    return pd.DataFrame(rows)


def slope(group: pd.DataFrame) -> tuple[float, float]:
    """Slope of log bias on log rows, and its standard error, weighted by how well each bias is known."""
    known = group[np.abs(group["bias"]) > 2 * group["error"]]
    if len(known) < 3:
        return np.nan, np.nan
    x, y = np.log(known["rows"]), np.log(np.abs(known["bias"]))
    weight = (np.abs(known["bias"]) / known["error"]) ** 2
    center = np.average(x, weights=weight)
    spread = float((weight * (x - center) ** 2).sum())
    return float((weight * (x - center) * y).sum() / spread), float(1 / np.sqrt(spread))


def figure_of(table: pd.DataFrame) -> Figure:
    """Absolute bias against rows, both axes logarithmic, with lines of slope -1 and -2."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    for axes, (model, group) in zip(figure.subplots(1, 2), table.groupby("model", sort=False), strict=True):
        for place, (kind, part) in enumerate(group.groupby("estimate", sort=False)):
            rows, bias = part["rows"].to_numpy(float), np.abs(part["bias"].to_numpy())
            axes.errorbar(
                rows, bias, 2 * part["error"], fmt="o", color=f"C{place}", label=f"{kind}, slope {slope(part)[0]:.2f}"
            )
            power = -1 - place
            axes.plot(
                rows,
                bias[0] * (rows / rows[0]) ** power,
                "--",
                lw=0.9,
                color=f"C{place}",
                label=f"order 1/m{'²' * place}",
            )
        axes.set(xscale="log", yscale="log", xlabel="rows of a block, m", ylabel="absolute bias", title=str(model))
        axes.legend(fontsize=8, frameon=False)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Measure the biases and their orders."""
    quick = arguments.replicates < 5000
    jobs = 1 if quick else arguments.jobs
    table = pd.concat([biases(model, arguments.replicates, arguments.seed, jobs) for model in (exponential, logistic)])
    claims, notes = [], []
    for (model, kind), group in table.groupby(["model", "estimate"], sort=False):
        if (np.abs(group["bias"]) > 2 * group["error"]).sum() < 3:
            notes.append(f"{model}, {kind}: too few replicates to tell the bias from zero.")
            continue
        found, error = slope(group)
        right = -1.0 if kind == "plain" else -2.0
        held = found <= right + max(0.15, 3 * error)
        claims.append(
            Claim(f"order of a block's bias, {kind}: slope of log bias on log rows", str(model), f"{found:.2f}", held,
                  error=f"{error:.2f}")
        )  # fmt: skip
        notes.append(f"{model}, {kind}: slope {found:.3f} (standard error {error:.3f}), expected about {right:g}.")
    write_table(table, "aggregate_bias", arguments, notes, figure_of(table))
    return claims
