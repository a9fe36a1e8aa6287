"""Simulated nulls of many releases at once, and what studies of rank tests share: laws in leaves, noise of a price."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy import stats

import dpinfer as dpi
from dpinfer.release import NoiseLaw
from dpinfer.statistics.noise import CountNoise
from dpinfer.statistics.nulls import SeveralFits, candidates
from validation.common.real import COLUMNS
from validation.common.rules import Rule

DRAWS = 199
STAGES = (30, 70, 99)
"""Draws after which p-values that can no longer be small are left; the others get them all."""

_TOGETHER = 400_000

LEVELS = (0.05, 0.01)

LAWS = ("even", "ties", "skewed", "heavy tails")
REAL = ("fair: affairs", "injury: durat", "anes96: TVnews", "smoke: income")
"""Real columns: zeros, a long tail, few values, a lump at the top."""


def normal_shares(leaves: int, mean: float, spread: float) -> np.ndarray:
    """Shares of leaves of [0, 1] of normal values, those beyond the bounds clamped."""
    inner = stats.norm.cdf(np.linspace(0, 1, leaves + 1)[1:-1], mean, spread)
    return np.diff(np.concatenate([[0.0], inner, [1.0]]))


def shares_of(law: str, leaves: int) -> np.ndarray:
    """Shares of leaves of [0, 1].

    "ties" have nine rows in ten in one leaf; "skewed" values are lognormal near the lower of loose bounds; "heavy
    tails" are Cauchy, clamped to both bounds; any other law is a real column, within its codebook bounds.
    """
    if law in COLUMNS:
        declared, (values, masses) = COLUMNS[law].schema("add_remove")[COLUMNS[law].columns[0]], COLUMNS[law].atoms()
        places = np.minimum((values - declared.lower) / (declared.upper - declared.lower) * leaves, leaves - 1)
        return np.bincount(places.astype(int), masses, leaves)
    if law == "even":
        return np.full(leaves, 1 / leaves)
    if law == "ties":
        found = np.full(leaves, 0.1 / (leaves - 1))
        found[leaves // 3] = 0.9
        return found
    given = stats.lognorm(1.0, scale=0.05) if law == "skewed" else stats.cauchy(0.5, 0.03)
    inner = given.cdf(np.linspace(0, 1, leaves + 1)[1:-1])
    return np.diff(np.concatenate([[0.0], inner, [1.0]]))


@cache
def noise_at(price: Any, neighbors: str) -> CountNoise:
    """The noise that a price brings to each count of a table."""
    schema = dpi.Schema(c=dpi.Category([str(k) for k in range(8)]))
    measured = dpi.table("c").measurement(price, schema=schema, neighbors=neighbors)
    return CountNoise(NoiseLaw(measured.law.family, measured.law.scales[:1], measured.law.draws), measured.steps[0])


def beyond_of(model: Any, values: np.ndarray, rng: np.random.Generator, *, level: float = 0.05) -> np.ndarray:
    """Number of the `DRAWS` draws at least as large as each statistic (R,); many where the release is not tested.

    A release is left as soon as no level up to ``level`` can be reached any more.
    """
    most, found = int(level * (DRAWS + 1) - 1 + 1e-9), np.zeros(len(values), dtype=int)
    for one in candidates(model, values):
        observed = one.model.statistic(values[one.where])
        beyond = np.where(np.isfinite(observed), 0, DRAWS)
        for size in STAGES:
            open_ = np.flatnonzero(beyond <= most)
            parts = np.array_split(open_, max(open_.size * size * values.shape[1] // _TOGETHER, 1))
            for some in [part for part in parts if part.size]:
                fitted = _of(one.fitted, some) if isinstance(model, SeveralFits) else model.fit(values[some])
                drawn = one.model.statistic(one.model.draw(fitted, size, rng))
                beyond[some] += (~(drawn < observed[some, None] * (1 - 1e-9))).sum(axis=1)
        found[one.where] = np.maximum(found[one.where], beyond)
    return found


def _of(fitted: Any, places: np.ndarray) -> Any:
    """Return the fits at some places: arrays, or a tuple of them."""
    return tuple(one[places] for one in fitted) if isinstance(fitted, tuple) else fitted[places]


def rejections(model: Any, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Whether the p-value of `DRAWS` draws is at most each of `LEVELS` (R, 2)."""
    pvalues = (1 + beyond_of(model, values, rng)) / (DRAWS + 1)
    return np.stack([pvalues <= level + 1e-12 for level in LEVELS], axis=1)


def sizes_of(pvalues: np.ndarray) -> dict[str, float]:
    """Return the shares of p-values (R,) at most each of `LEVELS`."""
    return {f"size at {level:g}": float((pvalues <= level + 1e-12).mean()) for level in LEVELS}


def rows_by_level(pvalues: np.ndarray) -> list[dict[str, float]]:
    """Return a row for each of `LEVELS`, with the share of p-values (R,) at most it."""
    return [{"level": level, "size": float((pvalues <= level + 1e-12).mean())} for level in LEVELS]


def size_rules(what: str, design: str = "", *, split: str | None = None, long: bool = False) -> tuple[Rule, ...]:
    """Return the rules of sizes at both levels, in columns of their own or, ``long``, in rows of their own."""
    return tuple(
        Rule(what.format(level=level), "size" if long else f"size at {level:g}", "size", level, split=split,
             design=design, where=(lambda table, level=level: table["level"] == level) if long else None)
        for level in LEVELS
    )  # fmt: skip
