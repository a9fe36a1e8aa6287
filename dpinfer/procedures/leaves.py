"""How finely rank tests cut a column: from declared bounds and the noise of a count, never from rows.

More leaves lose less to ties and more to noise. Of N rows spread evenly over the part 1/B of the bounds, m leaves keep
about ``(1 - (B/m)^2) / (1 + 4 m v / (B N))`` of what the rows tell of a difference between two equal groups, v being
the noise variance of a count; most near ``m = B (N / (2 v))^(1/3)``. Of two columns, cut into m leaves each, about
``(1 - (B/m)^2)^2 / (1 + v (m/B)^2 / N)``, most near ``m = B (2 N / v)^(1/4)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.schema.axes import BinsAxis, LevelsAxis
from dpinfer.schema.columns import Integer

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array
    from dpinfer.schema.axes import Axis

__all__ = [
    "FEWEST",
    "MOST",
    "best_leaves",
    "best_sides",
    "equal_edges",
    "leaf_cuts",
    "mirrored_edges",
    "mirrored_places",
    "whole_edges",
]

ROWS = 1000.0
"""Rows for which the number of leaves is best."""

SPREAD, BOTH_SPREAD = 8.0, 4.0
"""Times as wide as the values are the bounds taken to be, of one column and of each of two."""

FEWEST, MOST, MOST_SIDES = 8, 100, 32


def best_leaves(variance: float) -> int:
    """Leaves of one column, for counts of this noise variance."""
    return int(np.clip(round(SPREAD * (ROWS / (2 * variance)) ** (1 / 3)), FEWEST, MOST))


def best_sides(variance: float) -> int:
    """Leaves of each of two columns."""
    return int(np.clip(round(BOTH_SPREAD * (2 * ROWS / variance) ** (1 / 4)), FEWEST // 2, MOST_SIDES))


def equal_edges(lower: float, upper: float, leaves: int) -> tuple[float, ...]:
    """Edges of leaves of one width."""
    return tuple(float(edge) for edge in np.linspace(lower, upper, leaves + 1))


def whole_edges(lower: float, upper: float, leaves: int) -> tuple[float, ...]:
    """Edges that hold equally many whole numbers each, but for the last, in at most so many leaves."""
    step = -(-int(upper - lower + 1) // leaves)
    return (*(float(edge) for edge in np.arange(lower, upper, step)), float(upper))


def mirrored_edges(reach: float, leaves: int, *, whole: bool) -> tuple[float, ...]:
    """Edges of the sizes of values on each side of zero, for about so many leaves in all.

    The first edge ends the leaf of zeros: of whole numbers zero alone, else as wide as the others.
    """
    sides = max((leaves - 1) // 2, 1)
    if not whole:
        width = 2 * reach / (2 * sides + 1)
        return (*(float(width * (k + 0.5)) for k in range(sides)), float(reach))
    step = -(-int(reach) // sides)
    return (*(float(edge) for edge in np.arange(0.5, reach + 0.5, step)), float(reach) + 0.5)


def leaf_cuts(axis: Axis) -> Array:
    """Where leaves end, from the lowest (m + 1,): of whole numbers half-way between those of different leaves."""
    if isinstance(axis, LevelsAxis):
        levels = np.array(axis.labels, dtype=np.float64)
        return np.append(levels - 0.5, levels[-1] + 0.5)
    assert isinstance(axis, BinsAxis)
    edges = np.array(axis.edges, dtype=np.float64)
    if not isinstance(axis.schema[axis.name], Integer):
        return edges
    cuts = np.ceil(edges) - 0.5
    cuts[-1] = np.floor(edges[-1]) + 0.5
    return cuts


def mirrored_places(axis: Axis, center: float) -> list[int] | None:
    """Order of the leaves of an axis about a center, a missing leaf of zeros as -1; None where nothing is to be moved.

    Raises
    ------
    OptionError
        If the leaves do not mirror each other about the center.
    """
    points = leaf_cuts(axis) - center
    middle = 0.5 * (points[0] + points[-1])
    if abs(middle) > 1e-9 * np.abs(points).max():
        raise OptionError("center", center, f"the middle of the leaves of the release, {middle + center:g}")
    if not np.allclose(points, -points[::-1], atol=1e-9 * np.abs(points).max()):
        raise OptionError("center", center, "the middle of leaves that mirror each other: those of the release do not")
    if axis.size % 2:
        return None
    half = axis.size // 2
    return [*range(half), -1, *range(half, axis.size)]
