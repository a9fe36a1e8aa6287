"""The set that the features of a row are forced into, and how far it reaches: a union of boxes, from declared bounds.

Features of one column lie on a curve, such as (x, x^2), and two points of a curve are often closer than two
corners of the box around it. The column's range is cut into pieces; interval arithmetic bounds every feature on
every piece; a row's features are clipped to the box of the piece that its value is in; and the largest distance between
two of these boxes bounds the distance between any two rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpinfer.schema.category import Category
from dpinfer.schema.columns import Boolean, Real
from dpinfer.schema.grid import UNIT
from dpinfer.schema.intervals import Interval
from dpinfer.schema.tree_bounds import tree_bounds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dpinfer.schema.grid import Basis, Block
    from dpinfer.schema.nodes import Node

    Array = NDArray[np.float64]

__all__ = ["Boxes", "Curve", "Reach", "feature_box"]

_PIECES = 128

_MARGIN = 1 + 1e-9
"""More than the rounding errors of sums of up to a million terms."""

Norm = Literal["l2", "l1"]


@dataclass(frozen=True, slots=True)
class Reach:
    """Bounds on the norm of a row's features, each over its weight, and on that of the difference between two rows'."""

    length: float
    spread: float


@dataclass(frozen=True, eq=False, slots=True)
class Curve:
    """Features that share columns, in a box for each piece of the range of their column; one box if there are several.

    The k features at ``places`` have ``lower`` and ``upper`` (k, P) on the pieces between ``edges`` (P + 1,), whole
    steps of the grid in units of the scaled features.
    """

    column: str | None
    places: tuple[int, ...]
    edges: Array
    lower: Array
    upper: Array

    @property
    def binds(self) -> bool:
        """Whether it is a smaller set than what every feature is clipped to in any case."""
        return bool((self.lower > -1).any() or (self.upper < 1).any())

    def force(self, values: Mapping[str, Array], rows: Array) -> None:
        """Clip the features of each row, in place, to the box of the piece that the row's value is in.

        Coerced values beyond the bounds, and NaN, count as in an outer piece.
        """
        piece = 0 if self.column is None else np.searchsorted(self.edges[1:-1], values[self.column], side="right")
        for place, low, high in zip(self.places, self.lower * UNIT, self.upper * UNIT, strict=True):
            np.minimum(np.maximum(rows[place], low[piece], out=rows[place]), high[piece], out=rows[place])


@dataclass(frozen=True, eq=False)
class Boxes:
    """The set of features that a row can have: numeric ones in boxes, those of one column in boxes along a curve."""

    basis: Basis

    @cached_property
    def curves(self) -> tuple[Curve, ...]:
        """The groups of features that share columns; the constant is in none."""
        return tuple(_curve(self.basis, places) for places in _groups(self.basis) if places != [0])

    @cached_property
    def binding(self) -> tuple[Curve, ...]:
        """The groups whose features have to be clipped."""
        return tuple(curve for curve in self.curves if curve.binds)

    def reach(self, weights: Sequence[float], norm: Norm) -> Reach:
        """Bound the norm of a row, and of the difference of two rows, each feature divided by its weight.

        The bounds are never below the true suprema over the set. A weight is infinite for a feature that is not
        released. Features fall into groups that share no column; squared norms (or absolute sums) of groups add, and so
        do their bounds. A group of one numeric column is bounded along its curve, others by their box.
        """
        power = 2 if norm == "l2" else 1
        length, spread = float(weights[0]) ** -power, 0.0
        for curve in self.curves:
            mine = np.array([weights[place] for place in curve.places], dtype=np.float64)
            longest, farthest = _along(curve.lower, curve.upper, mine, power)
            length, spread = length + longest, spread + farthest
        root = 1 / power
        return Reach(float(length**root * _MARGIN), float(spread**root * _MARGIN))


def _groups(basis: Basis) -> list[list[int]]:
    """Places of the features that are connected by shared columns."""
    groups: list[tuple[set[str], list[int]]] = []
    for place, block in enumerate(basis.blocks):
        columns, members = set(block.expression.columns), [place]
        for other in [one for one in groups if one[0] & columns]:
            columns |= other[0]
            members = [*other[1], *members]
            groups.remove(other)
        groups.append((columns, members))
    return [members for _, members in groups]


def feature_box(basis: Basis) -> tuple[Array, Array]:
    """Lower and upper bound of each feature (d,) of a row that counts; those of the constant are 1."""
    lower, upper = _box(basis.blocks)
    return lower[:, 0], upper[:, 0]


def _box(blocks: Sequence[Block]) -> tuple[Array, Array]:
    """Lower and upper bound of each feature (k, 1): every combination of values within their bounds."""
    lower = [(block.expression.lower - block.center) / block.half for block in blocks]
    upper = [(block.expression.upper - block.center) / block.half for block in blocks]
    return _widened(np.array(lower)[:, None], np.array(upper)[:, None])


def _widened(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Bounds after features are rounded to the grid and clipped to [-1, 1]: the next whole steps outward.

    To round a number to the nearest whole step never takes it past a whole step that bounds it. A bound that is 0
    stays 0: a feature that is never above (or below) 0 is none after scaling and rounding either.
    """
    slack = 1e-6  # of a grid step: scaling here and in `Block.to_grid` differs by less than 1e-9 of one
    low = np.where(lower == 0, 0.0, np.floor(lower * UNIT - slack) / UNIT)
    high = np.where(upper == 0, 0.0, np.ceil(upper * UNIT + slack) / UNIT)
    return np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)


def _curve(basis: Basis, places: Sequence[int]) -> Curve:
    """Bound each of some features on each piece of their one column, or by one box."""
    blocks = [basis.blocks[place] for place in places]
    columns = {name for block in blocks for name in block.expression.columns}
    column = basis.schema[next(iter(columns))] if len(blocks) > 1 and len(columns) == 1 else None
    if not isinstance(column, Real) or isinstance(column, Category | Boolean):
        return Curve(None, tuple(places), np.array([-np.inf, np.inf]), *_box(blocks))
    (name,) = columns
    trees = tuple(block.expression.node for block in blocks)
    edges, low, high = _pieces(name, float(column.lower), float(column.upper), trees)
    center = np.array([[block.center] for block in blocks])
    half = np.array([[block.half] for block in blocks])
    return Curve(name, tuple(places), edges, *_widened((low - center) / half, (high - center) / half))


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


def _along(lower: Array, upper: Array, weights: Array, power: int) -> tuple[float, float]:
    scaled = weights[:, None]
    length = ((np.maximum(np.abs(lower), np.abs(upper)) / scaled) ** power).sum(axis=0).max()
    apart = np.maximum(upper[:, :, None] - lower[:, None, :], upper[:, None, :] - lower[:, :, None])
    spread = ((apart / scaled[:, :, None]) ** power).sum(axis=0).max()
    return float(length), float(spread)
