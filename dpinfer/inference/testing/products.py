"""The product of margins that is nearest to a noisy table, for many tables at once.

Tables are arrays (r, c, N): cells first, so that sums over cells run along rows of memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.numerics.arrays import Array

__all__ = ["LEAST", "Product", "at_least", "by_blocks", "margins_of", "nearest_product"]

LEAST = 1.0
"""Rows that a margin is taken to have at least."""

_ROUNDS = 6
_BLOCK = 16_000
_TINY = 1e-200


@dataclass(frozen=True, eq=False)
class Product:
    """Expected counts ``rows * columns`` and how far a table is from them.

    Attributes
    ----------
    rows : ndarray (r, N)
        Not negative; their sum is the number of rows of the table.
    columns : ndarray (c, N)
        Shares: not negative, of sum 1.
    row_error, column_error : ndarray (r, N), (c, N)
        Standard errors of both in rows of the table, the other margin taken as known.
    length : ndarray (N,)
        Squared distance, weighted by the inverse covariance of sampling and noise.
    """

    rows: Array
    columns: Array
    row_error: Array
    column_error: Array
    length: Array


def at_least(counts: Array) -> Array:
    """Return counts, none below one row."""
    return np.asarray(np.maximum(counts, LEAST))


def by_blocks(function: Callable[[Array], Array], values: Array, shape: tuple[int, int]) -> Array:
    """Apply a function of tables (r, c, N) to values (..., r c), by blocks that fit the cache."""
    flat = values.reshape(-1, values.shape[-1])
    found, size = np.empty(len(flat)), max(_BLOCK // flat.shape[1], 500)
    for start in range(0, len(flat), size):
        cells = np.ascontiguousarray(flat[start : start + size].T)
        found[start : start + size] = function(cells.reshape(*shape, -1))
    return found.reshape(values.shape[:-1])


def margins_of(table: Array, nobs: int | None) -> tuple[Array, Array]:
    """Row counts (r, N) and shares of columns (c, N) from noisy margins, none below one row before they are scaled."""
    total = table.sum(axis=(0, 1))
    size = at_least(total) if nobs is None else np.full(total.shape, float(nobs))
    rows, columns = (at_least(table.sum(axis=1 - k) + (size - total) / table.shape[k]) for k in (0, 1))
    return size * rows / rows.sum(axis=0), columns / columns.sum(axis=0)


def nearest_product(table: Array, variance: float, nobs: int | None) -> Product:
    """Find the product of margins at the least weighted distance from noisy tables.

    Weights are fixed at the noisy margins. Rows and columns are then fitted in turns, each exactly given the other,
    and kept from being negative.

    Parameters
    ----------
    table : ndarray (r, c, N)
    variance : float
        Of the noise of a cell.
    nobs : int or None
        The number of rows where it is public: tables and products then add up to it.

    Returns
    -------
    Product

    Notes
    -----
    With ``w = 1 / (expected + variance)`` and residuals r the distance is ``sum w r^2`` where n is private, and
    ``sum w r^2 + h (sum w r)^2``, ``h = variance / sum(w expected)``, over residuals of sum zero where it is public.
    """
    rows, columns = margins_of(table, nobs)
    expected = rows[:, None] * columns
    weight = 1.0 / (expected + variance)
    if nobs is not None:
        table = table + (nobs - table.sum(axis=(0, 1))) / (table.shape[0] * table.shape[1])
        through = variance / (weight * expected).sum(axis=(0, 1))
        level = (weight * table).sum(axis=(0, 1))
    weighted = weight * table
    for _ in range(_ROUNDS):
        for axis in (1, 0):
            other = columns[None] if axis == 1 else rows[:, None]
            curve = np.maximum((weight * other**2).sum(axis=axis), _TINY)
            slope = (weighted * other).sum(axis=axis)
            if nobs is None:
                fitted = np.maximum(slope / curve, 0.0)
            else:
                pull = (weight * other).sum(axis=axis)
                fitted = _constrained(curve, slope, pull, through, level, float(nobs) if axis == 1 else 1.0)
            if axis == 1:
                rows = fitted
            else:
                total = np.maximum(fitted.sum(axis=0), _TINY)
                rows, columns = rows * (total if nobs is None else 1.0), fitted / total
    residual = table - rows[:, None] * columns
    length = (weight * residual**2).sum(axis=(0, 1))
    if nobs is not None:
        length += through * (weight * residual).sum(axis=(0, 1)) ** 2
    size = np.maximum(rows.sum(axis=0), LEAST)
    row_error = 1.0 / np.sqrt(np.maximum((weight * columns**2).sum(axis=1), _TINY))
    column_error = size / np.sqrt(np.maximum((weight * rows[:, None] ** 2).sum(axis=0), _TINY))
    return Product(rows, columns, row_error, column_error, length)


def _constrained(curve: Array, slope: Array, pull: Array, through: Array, level: Array, total: float) -> Array:
    """Least ``sum curve t^2 - 2 slope t + through (level - pull t)^2`` over t of a given sum; then none negative."""
    inverse = 1.0 / curve
    ones, pulls = inverse.sum(axis=0), (pull * inverse).sum(axis=0)
    free = total - (slope * inverse).sum(axis=0)
    gap = level - (slope * pull * inverse).sum(axis=0) - free * pulls / ones
    across = gap / (1.0 + through * ((pull**2 * inverse).sum(axis=0) - pulls**2 / ones))
    shift = (free - through * across * pulls) / ones
    fitted = np.maximum((slope + through * across * pull + shift) * inverse, 0.0)
    sums = fitted.sum(axis=0)
    return np.asarray(np.where(sums > 0, fitted * (total / np.where(sums > 0, sums, 1.0)), total / len(fitted)))
