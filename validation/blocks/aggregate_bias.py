"""Bias of a block's estimate against its size, plain and corrected by half-blocks."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm

from dpinfer.kernel.rows.blocks import block_values
from dpinfer.schema.region import Ball, region_of
from validation.blocks.stacked_fits import stacked_newton
from validation.common.outputs import Options, lines
from validation.common.rules import Claim
from validation.common.study import Drawn, Study

SIZES = (40, 60, 90, 130, 200, 300)
RATE, BLOCKS = 2.0, 100
BETA = np.array([0.4, 0.9])
DRAWS = 100
"""Exponential blocks for each logit block: they cost nothing."""


def exponential(size: int, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Estimates of a rate (R, 1), plain and corrected: maximum likelihood, one over the mean."""
    halves = rng.gamma(size / 2, 1 / RATE, size=(count, 2))
    fits = np.stack([size / halves.sum(axis=1), size / 2 / halves[:, 0], size / 2 / halves[:, 1]], axis=1)[..., None]
    region = region_of(Ball(50), ["rate"])
    return block_values(fits[:, :1], region).estimates - RATE, block_values(fits, region).estimates - RATE


def logistic(size: int, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Errors of the slope of a logit (R, 1), plain and corrected, less their linear part, whose mean is zero."""
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


def draw(cell: tuple[str, int], rng: np.random.Generator, count: int) -> Drawn:
    """Sums and sums of squares of errors of blocks, plain and corrected, as many as fit into a replicate."""
    model, size = cell
    found = []
    for _ in range(count):
        pair = MODELS[model](size, BLOCKS * (DRAWS if model == "exponential" else 1), rng)
        found.append([(len(one), one.sum(), (one**2).sum()) for one in pair])
    return {"sums": np.array(found, dtype=float)}


def summary(_: tuple[str, int], drawn: Drawn) -> list[dict]:
    """Mean error by kind of estimate, with its Monte Carlo error."""
    rows = []
    for kind, (count, total, squares) in zip(("plain", "corrected"), drawn["sums"].sum(axis=0), strict=True):
        bias = total / count
        rows.append({"estimate": kind, "bias": bias, "error": float(np.sqrt(max(squares / count - bias**2, 0) / count)),
                     "blocks": int(count), "absolute bias": abs(bias)})  # fmt: skip
    return rows


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


def claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """State the orders; too few blocks do not tell a bias from zero."""
    found = []
    for (model, kind), group in table.groupby(["model", "estimate"], sort=False):
        (order, error), right = slope(group), -1.0 if kind == "plain" else -2.0
        if np.isfinite(order):
            found.append(Claim(f"order of a block's bias, {kind}: slope of log bias on log rows", str(model),
                               f"{order:.2f}",
                               order <= right + max(0.15, 3 * error), error=f"{error:.2f}"))  # fmt: skip
    return found


MODELS: dict[str, Any] = {"exponential": exponential, "logistic": logistic}
STUDY = Study(
    "aggregate_bias", [*product(MODELS, SIZES)], draw, summary, by=("estimate",), most=400, quick=12, also=claims,
    axes=lambda cell: {"model": cell[0], "rows": cell[1]},
    figure=lambda table: lines(table, "model", "rows", {"absolute bias": "o-"}, color="estimate", log=True),
    notes=("Of order 1/m plain, and of order 1/m squared corrected.",),
)  # fmt: skip
