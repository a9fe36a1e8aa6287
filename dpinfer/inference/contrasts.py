"""Linear combinations of estimates: rows of weights, intervals and tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.statistics.tails import critical_value, pvalue_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from dpinfer.inference.noise import NoiseSums
    from dpinfer.statistics.arrays import Array, Places

__all__ = [
    "Contrasts",
    "combined",
    "contrast_rows",
    "rows_of",
    "simulated_critical",
    "simulated_pvalue",
    "single",
    "variance_of",
]


def rows_of(contrasts: ArrayLike) -> Array:
    """Return weights as rows (k, p)."""
    return np.atleast_2d(np.asarray(contrasts, dtype=np.float64))


def contrast_rows(names: tuple[str, ...], contrasts: Mapping[str, Mapping[str, float]] | None) -> Array:
    """Return the identity for the coefficients and a row of weights for each contrast, (p + k, p)."""
    rows = [[float(weights.get(name, 0.0)) for name in names] for weights in (contrasts or {}).values()]
    return np.vstack([np.eye(len(names)), *rows]) if rows else np.eye(len(names))


def single(rows: Array) -> Places:
    """Say which parameter a row of weights (k, p) is, where it is one of them and nothing else; else -1."""
    alone = ((rows != 0).sum(axis=1) == 1) & (rows.sum(axis=1) == 1)
    return np.where(alone, np.argmax(rows, axis=1), -1)


def combined(rows: Array, values: Array) -> Array:
    """Combine values (p,) by rows of weights, (k,); NaN where a value that has a weight is NaN."""
    gone = np.isnan(values)
    return np.where((rows != 0)[:, gone].any(axis=1), np.nan, rows @ np.where(gone, 0.0, values))


def variance_of(rows: Array, covariance: Array) -> Array:
    """Variances (k,) of combinations, from the covariance (p, p) of what they combine."""
    return np.asarray(((rows @ covariance) * rows).sum(axis=1))


@dataclass(frozen=True, slots=True)
class Contrasts:
    """Estimates of combinations, and the law of their errors; arrays of one shape (...).

    Attributes
    ----------
    center, error : ndarray (...)
        Estimates and standard errors; infinite errors make intervals unbounded and p-values 1.
    df : ndarray (...) or None
        Degrees of freedom at which the variance is known; None where it is known exactly.
    shares : ndarray (..., m) or None
        Share of the variance that each Laplace variable carries; None where all noise is normal.
    noise : NoiseSums or None
        The errors themselves, where they are nothing but noise whose discrete law is known.
    """

    center: Array
    error: Array
    df: Array | float | None = None
    shares: Array | None = None
    noise: NoiseSums | None = None

    @property
    def least_df(self) -> float:
        """Fewest degrees of freedom among all combinations."""
        return np.inf if self.df is None else float(np.min(self.df))

    def intervals(self, alpha: float) -> Array:
        """Intervals of level ``1 - alpha`` (..., 2)."""
        half = critical_value(alpha, self.df, self.shares) * self.error
        return self._around(half if self.noise is None else self.noise.reach(alpha, half))

    def ends(self, critical: Array) -> Array:
        """Intervals (..., 2) of so many standard errors to both sides."""
        return self._around(critical * self.error)

    def _around(self, half: Array) -> Array:
        return np.stack([self.center - half, self.center + half], axis=-1)

    def distances(self, values: Array | float) -> Array:
        """Distances (...) from values, in standard errors."""
        return np.asarray(np.abs(self.center - values) / self.error)

    def pvalues(self, values: Array | float = 0.0) -> Array:
        """Two-sided p-values (...) of values."""
        found = pvalue_of(self.distances(values), self.df, self.shares)
        return found if self.noise is None else self.noise.tails(np.abs(self.center - values), found)


def simulated_pvalue(drawn: Array, observed: Array | float) -> Array:
    """P-value (...) of observed statistics among drawn ones (B, ...)."""
    return np.asarray((1.0 + (drawn >= observed).sum(axis=0)) / (len(drawn) + 1.0))


def simulated_critical(drawn: Array, alpha: float) -> Array:
    """Value (...) that drawn statistics (B, ...) exceed with probability alpha; infinite with too few draws."""
    rank = int(np.ceil((1 - alpha) * (len(drawn) + 1)))
    return np.sort(drawn, axis=0)[rank - 1] if rank <= len(drawn) else np.full(drawn.shape[1:], np.inf)
