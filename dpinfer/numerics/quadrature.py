"""Composite Gauss-Legendre quadrature for many integrals at once."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array

__all__ = ["composite_nodes"]


@lru_cache(maxsize=8)
def _rule(order: int) -> tuple[Array, Array]:
    """Nodes and weights of the rule on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return (nodes + 1) / 2, weights / 2


def composite_nodes(breaks: Array, *, order: int = 16) -> tuple[Array, Array]:
    """Nodes and weights of a Gauss-Legendre rule on every panel between consecutive breaks.

    Parameters
    ----------
    breaks : ndarray (R, B)
        Ends of the panels of each integral, ascending; equal neighbours make an empty panel of weight 0.
    order : int
        Nodes in a panel: polynomials up to degree ``2 order - 1`` are integrated exactly.

    Returns
    -------
    nodes, weights : ndarray (R, (B - 1) order)

    Examples
    --------
    >>> import numpy as np
    >>> nodes, weights = composite_nodes(np.array([[0.0, 1.0, 3.0]]), order=4)
    >>> float((weights * nodes**2).sum().round(12))
    9.0
    """
    at, weight = _rule(order)
    start, width = breaks[:, :-1, None], np.diff(breaks, axis=1)[..., None]
    nodes, weights = start + width * at, width * weight
    return nodes.reshape(len(breaks), -1), weights.reshape(len(breaks), -1)
