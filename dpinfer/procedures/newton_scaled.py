"""Coordinates of the regressors that are orthonormal on public rows, and what public rows tell apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array

__all__ = ["Scaled", "carriers", "orthogonal"]

_LEAST = 1e-9
"""Least share of a column's spread that the columns before it may leave to it."""

_ROUNDING = 1e-15
"""A column that is shorter on public rows, as a part of the longest that it can be, is 0."""


@dataclass(frozen=True, eq=False)
class Scaled:
    """Coordinates u of the regressors that are orthonormal where columns are spread evenly over their ranges.

    Attributes
    ----------
    transform : ndarray (p, p)
        Lower triangular: ``u = transform @ columns``.
    radius : float
        Length of u that most public rows stay within.
    shift, unit : float
        Middle and standard deviation of the response on public rows.
    offset : float
        Mean of the offset on public rows.
    """

    transform: Array
    radius: float
    shift: float
    unit: float
    offset: float = 0.0


def orthogonal(columns: Array, longest: Array, *, intercept: bool, offset: float) -> Scaled:
    """Orthogonalise regressors, and last the response, on public rows (p + 1, m); none is larger than ``longest``."""
    regressors, response = columns[:-1], columns[-1]
    size = np.sqrt((regressors**2).mean(axis=1))
    size = np.where(size > _ROUNDING * longest[:-1], size, 1.0)
    normed = regressors / size[:, None]
    second = normed @ normed.T / columns.shape[1]
    lower = np.linalg.cholesky(second + _LEAST * np.eye(len(second)))
    transform = np.linalg.inv(lower) / size
    lengths = np.sqrt(((transform @ regressors) ** 2).sum(axis=0))
    shift = float(response.mean()) if intercept else 0.0
    unit = float(np.sqrt(((response - shift) ** 2).mean()))
    return Scaled(
        transform, float(np.quantile(lengths, 0.9)), shift, unit if unit > _ROUNDING * longest[-1] else 1.0, offset
    )


def carriers(scaled: Scaled, columns: Array) -> Array:
    """Return how many public rows each coordinate, and last the response, has its spread from (p + 1,).

    It is 0 where other columns, or the constant, leave none to it.
    """
    squares = np.vstack([scaled.transform @ columns[:-1], (columns[-1] - scaled.shift) / scaled.unit]) ** 2
    total = squares.sum(axis=1)
    return np.where(total < 0.5 * squares.shape[1], 0.0, total**2 / np.maximum((squares**2).sum(axis=1), 1e-300))
