"""Types of arrays, and symmetric matrices: from triangles, their roots and quadratic forms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpinfer.schema.grid import upper_triangle

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]


def floats(given: Any) -> tuple[float, ...] | None:
    """Read an iterable of numbers as floats; None if it is none.

    Raising is left to the caller, outside of this handler: the exception of ``float`` quotes what it could not
    read, which may be a cell, and a later error would carry that as its context.
    """
    try:
        return tuple(float(one) for one in given)
    except (TypeError, ValueError, OverflowError):
        return None


def symmetric(triangles: Array, width: int) -> Array:
    """Return the symmetric matrices (..., width, width) whose upper triangles, row by row, come first in (..., m)."""
    upper = upper_triangle(width)
    full = np.zeros((*triangles.shape[:-1], width, width))
    full[..., upper[0], upper[1]] = triangles[..., : len(upper[0])]
    full[..., upper[1], upper[0]] = triangles[..., : len(upper[0])]
    return full


def noise_level(noise: Array, rows: Array) -> float:
    """Spectral size of the noise in the rotated cross-products: ``2 sqrt(v p)`` for equal scales."""
    squared = rows**2
    row_sums = (squared @ noise @ squared.T).sum(axis=1) - 0.5 * np.diag(squared @ noise @ squared.T)
    return float(2 * np.sqrt(row_sums.max()))


def root_of(matrices: Array) -> Array:
    """Return R (..., p, p) with R R' the given symmetric matrices, negative eigenvalues set to zero."""
    values, vectors = np.linalg.eigh(matrices)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :])


def inverse_form(matrix: Array, vector: Array) -> Array:
    """``vector' inv(matrix) vector`` by elimination, along a last axis that is much longer than the matrices are wide.

    Parameters
    ----------
    matrix : ndarray (k, k, N)
        Symmetric; only the lower triangle is read. Overwritten.
    vector : ndarray (k, N)
        Overwritten.

    Returns
    -------
    ndarray (N,)
        NaN where a matrix is not positive definite.

    Examples
    --------
    >>> inverse_form(np.full((1, 1, 2), 4.0), np.array([[2.0, 6.0]]))
    array([1., 9.])
    """
    total = np.zeros(vector.shape[-1])
    for step in range(len(vector)):
        pivot = np.where(matrix[step, step] > 0, matrix[step, step], np.nan)
        total += vector[step] ** 2 / pivot
        for row in range(step + 1, len(vector)):
            ratio = matrix[row, step] / pivot
            vector[row] -= ratio * vector[step]
            for column in range(step + 1, row + 1):
                matrix[row, column] -= ratio * matrix[column, step]
    return total
