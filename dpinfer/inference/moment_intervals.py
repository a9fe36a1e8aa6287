"""Intervals and tests of quantities that were estimated in the cells of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer.numerics.roots import outermost_crossing
from dpinfer.numerics.tails import critical_value, pvalue_of

if TYPE_CHECKING:
    from dpinfer.inference.moments import Estimates
    from dpinfer.numerics.arrays import Array, Mask

__all__ = ["intervals", "pvalues"]


def intervals(estimates: Estimates, alpha: float, *, method: str = "score") -> Array:
    """Intervals of level ``1 - alpha`` (R, G, q, 2) within what is possible.

    Parameters
    ----------
    estimates : Estimates
    alpha : float
    method : {"score", "wald"}
        "score" holds every value that is not rejected when its variance is evaluated there (for a ratio that is
        Fieller's interval), "wald" is symmetric.
    """
    critical, error = critical_value(alpha, estimates.df, estimates.shares), np.sqrt(estimates.variance)
    lower, upper = estimates.range
    if method == "wald":
        ends = [estimates.value - critical * error, estimates.value + critical * error]
    else:
        ends = [_end(estimates, critical, error, sign, lower, upper) for sign in (-1.0, 1.0)]
    if isinstance(estimates.growth, tuple):  # parameters of a model that nothing is known of
        unknown = estimates.few[..., None]
        ends = [np.where(unknown, lower, ends[0]), np.where(unknown, upper, ends[1])]
    return np.stack([np.maximum(ends[0], lower), np.minimum(ends[1], upper)], axis=-1)


def _end(estimates: Estimates, critical: Array, error: Array, sign: float, lower: Array, upper: Array) -> Array:
    step = np.maximum(error, 1e-300)

    def inside(distance: Array) -> Mask:
        tested = np.clip(estimates.value + sign * distance * step, lower, upper)
        away = np.abs(tested - estimates.value)
        return away <= critical * np.sqrt(estimates.variance_at(tested))

    distance = outermost_crossing(inside, shape=error.shape)
    return np.clip(estimates.value + sign * distance * step, lower, upper)


def pvalues(estimates: Estimates, tested: Array | float, *, method: str = "score") -> Array:
    """Two-sided p-values (R, G, q) of given values; a value beyond what is possible is tested at its edge."""
    point = np.clip(np.broadcast_to(tested, estimates.value.shape), estimates.lower, estimates.upper)
    variance = estimates.variance if method == "wald" else estimates.variance_at(point)
    statistic = np.abs(estimates.value - point) / np.sqrt(np.maximum(variance, 1e-300))
    return pvalue_of(statistic, estimates.df, estimates.shares)
