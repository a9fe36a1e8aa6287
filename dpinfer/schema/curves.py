"""Boxes along the curves that features of one column lie on: the column's range in pieces, by interval arithmetic."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.schema.category import Category
from dpinfer.schema.columns import Boolean, Real
from dpinfer.schema.grid import Curve, groups_of, widened
from dpinfer.schema.intervals import Interval
from dpinfer.schema.tree_bounds import tree_bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpinfer.schema.grid import Block
    from dpinfer.schema.nodes import Node
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["curves_of"]

_PIECES = 128
"""Into which the range of a column is cut."""


def curves_of(blocks: Sequence[Block], schema: Schema) -> tuple[Curve, ...]:
    """Bound each of several features of one numeric column on each piece of the column's range."""
    curves = [_curve([blocks[place] for place in places], places, schema) for places in groups_of(blocks)]
    return tuple(curve for curve in curves if curve is not None)


def _curve(blocks: Sequence[Block], places: tuple[int, ...], schema: Schema) -> Curve | None:
    columns = {name for block in blocks for name in block.expression.columns}
    if len(blocks) == 1 or len(columns) != 1:
        return None
    (name,) = columns
    column = schema[name]
    if not isinstance(column, Real) or isinstance(column, Category | Boolean):
        return None
    trees = tuple(block.expression.node for block in blocks)
    edges, low, high = _pieces(name, float(column.lower), float(column.upper), trees)
    center = np.array([[block.center] for block in blocks])
    half = np.array([[block.half] for block in blocks])
    return Curve(name, places, edges, *widened((low - center) / half, (high - center) / half))


@lru_cache(maxsize=256)
def _pieces(name: str, lower: float, upper: float, trees: tuple[Node, ...]) -> tuple[Array, Array, Array]:
    edges = np.unique(np.linspace(lower, upper, _PIECES + 1))  # fewer where there are few floats between the bounds
    edges[0], edges[-1] = lower, upper
    low, high = np.empty((len(trees), edges.size - 1)), np.empty((len(trees), edges.size - 1))
    for piece in range(edges.size - 1):
        part = {name: Interval(float(edges[piece]), float(edges[piece + 1]))}
        for place, tree in enumerate(trees):
            bounds = tree_bounds(tree, part)
            low[place, piece], high[place, piece] = bounds.lower, bounds.upper
    return edges, low, high
