"""Roots and integrals of many one-dimensional problems at once."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.statistics.arrays import Array, Mask

_BISECTIONS, _REACH = 36, 1e6


def bisected(within: Callable[[Array], Mask], low: Array, high: Array, *, rounds: int) -> tuple[Array, Array]:
    """Halve brackets (...) of the points up to which a condition holds, and return their ends."""
    for _ in range(rounds):
        middle = 0.5 * (low + high)
        inside = within(middle)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return low, high


def outermost_crossing(inside: Callable[[Array], Mask], *, shape: tuple[int, ...]) -> Array:
    """Return, for each problem, the largest distance from zero at which a point is still inside a set.

    The distance is scanned on a geometric grid from outside in, so that a set of several pieces is
    covered to its outermost edge; the edge is then bisected and returned from the outside.

    Parameters
    ----------
    inside : callable
        Maps distances (an array of ``shape``) to whether each is in its set. Zero is taken as inside.
    shape : tuple of int
        Shape of the problems.

    Returns
    -------
    ndarray of ``shape``
        Distances, ``inf`` where the set still holds `_REACH`, beyond which nothing is looked at.
    """
    grid = np.concatenate([[0.0], np.geomspace(0.5, _REACH, 30)])
    last = np.zeros(shape, dtype=np.intp)
    for index in range(1, grid.size):
        last = np.where(inside(np.full(shape, grid[index])), index, last)
    unbounded = last == grid.size - 1
    low, high = grid[last], grid[np.minimum(last + 1, grid.size - 1)]
    _, high = bisected(inside, low, high, rounds=_BISECTIONS)
    return np.where(unbounded, np.inf, high)


def inverted(inside: Callable[[Array], Mask], centre: Array, scale: Array) -> Array:
    """Return the smallest intervals (..., 2) around centres that hold all values that a test does not reject.

    ``inside`` maps distances of values from the centre, of either sign, to whether they are not rejected; ``scale`` is
    the unit of the search; see `outermost_crossing`.
    """

    def end(sign: float) -> Array:
        distance = outermost_crossing(lambda away: inside(sign * away * scale), shape=scale.shape)
        return np.asarray(centre + sign * scale * distance)

    return np.stack([end(-1.0), end(1.0)], axis=-1)


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
