"""Power of a simulated test from draws under the hypothesis and under the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.inference.testing.nulls import Draws
    from dpinfer.numerics.arrays import Array
    from dpinfer.studies.power_truth import Truth

__all__ = ["Power", "in_chunks", "rejected"]

_CHUNK = 200_000
_TIE = 1e-9


class Power(NamedTuple):
    """Power and its Monte Carlo standard error."""

    power: float
    error: float


def in_chunks(function: Callable[[int], Array], size: int, population: Truth, n: int) -> Array:
    """Concatenate what a function gives for parts of ``size`` draws that fit the cache."""
    most = max(_CHUNK // population.expected(n).size, 100)
    return np.concatenate([function(min(most, size - start)) for start in range(0, size, most)])


def rejected(null: Array, moved: Array, alpha: float, draws: Draws) -> Power:
    """Share of statistics whose Monte Carlo p-value is at most alpha, and its error, that of the null included."""
    size, moved = len(null), np.where(np.isfinite(moved), moved, -np.inf)
    below = np.searchsorted(np.sort(null), moved - _TIE * np.maximum(np.abs(moved), 1.0), side="left")
    beyond = size - below  # NaN is sorted last, and counts as beyond

    def hits(level: float) -> Array:
        if draws == "adaptive":
            return np.asarray((1 + beyond) / (size + 1) <= level, dtype=np.float64)
        return np.asarray(stats.binom.cdf(np.floor(level * (draws + 1) + _TIE) - 1, draws, beyond / size))

    found, blur = hits(alpha), np.sqrt(alpha * (1 - alpha) / size)
    moves = (hits(min(alpha + blur, 1.0)).mean() - hits(alpha - blur).mean()) / 2
    return Power(float(found.mean()), float(np.sqrt(found.var() / len(found) + moves**2)))
