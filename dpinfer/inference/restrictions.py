"""Linear restrictions on estimates, as every joint test reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import InferenceError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dpinfer.inference.base import Inference
    from dpinfer.statistics.arrays import Array

__all__ = ["independent", "wald_lengths", "wald_statistic"]


def independent(restrictions: ArrayLike, values: ArrayLike) -> tuple[Array, Array, float]:
    """Return restrictions (k, p), what they are to equal (k,), and k.

    Raises
    ------
    InferenceError
        If the restrictions are linearly dependent.
    """
    rows = np.atleast_2d(np.asarray(restrictions, dtype=np.float64))
    rank = int(np.linalg.matrix_rank(rows))
    if rank < len(rows):
        raise InferenceError(f"the {len(rows)} restrictions are linearly dependent (rank {rank})")
    return rows, np.broadcast_to(np.asarray(values, dtype=np.float64), (len(rows),)), float(rank)


def wald_statistic(inference: Inference, rows: Array, values: Array) -> float:
    """Return the squared distance of ``rows @ params`` from the values, in units of its covariance."""
    distance = rows @ inference.params - values
    total = rows @ (inference.cov_sampling + inference.cov_noise) @ rows.T
    return float(distance @ np.linalg.solve(total, distance))


def wald_lengths(distances: Array, covariances: Array) -> Array:
    """Squared lengths (R,) of distances (R, k), each in units of its covariance (R, k, k)."""
    solved = np.linalg.solve(covariances, distances[..., None])[..., 0]
    return np.asarray(np.einsum("rk,rk->r", distances, solved))
