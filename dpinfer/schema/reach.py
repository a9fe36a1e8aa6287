"""How far the features of one row reach: bounds on weighted norms, from the declared bounds of columns alone.

Features of one column lie on a curve, such as (x, x^2), and two points of a curve are often closer than two
corners of the box around it. The column's range is cut into pieces; interval arithmetic bounds every feature on
every piece; and the largest distance between two pieces bounds the distance between any two rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpinfer.schema.basis import UNIT
from dpinfer.schema.category import Category
from dpinfer.schema.columns import Boolean, Real
from dpinfer.schema.expressions import compile_expression
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpinfer.schema.basis import Basis, Block

    Array = NDArray[np.float64]

__all__ = ["Reach", "feature_box", "reach_of"]

_PIECES = 128

_MARGIN = 1 + 1e-9
"""More than the rounding errors of sums of up to a million terms."""

Norm = Literal["l2", "l1"]


@dataclass(frozen=True, slots=True)
class Reach:
    """Bounds in units of the scaled features, each divided by its weight.

    Attributes
    ----------
    length : float
        Bound on the norm of a row's features.
    spread : float
        Bound on the norm of the difference between two rows' features.
    """

    length: float
    spread: float


def reach_of(basis: Basis, weights: Sequence[float], norm: Norm) -> Reach:
    """Bound the norm of a row, and of the difference of two rows, each feature divided by its weight.

    Parameters
    ----------
    basis : Basis
        Numeric features (no factors), the constant first.
    weights : sequence of float, length d
        Positive; infinite for a feature that is not released.
    norm : {"l2", "l1"}

    Returns
    -------
    Reach
        Never below the true suprema, the rounding of features to the grid included.

    Notes
    -----
    Features fall into groups that share no column; squared norms (or absolute sums) of groups add, and so do
    their bounds. A group of one numeric column is bounded along its curve, others by their box.
    """
    length = spread = 0.0
    power = 2 if norm == "l2" else 1
    for places in _groups(basis):
        blocks = [basis.blocks[place] for place in places]
        mine = np.array([weights[place] for place in places], dtype=np.float64)
        if len(blocks) == 1 and blocks[0].constant:
            length += float(mine[0]) ** -power
            continue
        intervals = _curve(basis.schema, blocks) or _box(blocks)
        longest, farthest = _along(intervals, mine, power)
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


def _curve(schema: Schema, blocks: Sequence[Block]) -> tuple[Array, Array] | None:
    """Lower and upper bound of each feature on each piece of the one column, (k, pieces); None for a box."""
    columns = {name for block in blocks for name in block.expression.columns}
    if len(blocks) < 2 or len(columns) != 1:
        return None
    (name,) = columns
    column = schema[name]
    if isinstance(column, Category | Boolean) or not isinstance(column, Real):
        return None
    texts = tuple(block.expression.text for block in blocks)
    bounds = _pieces(name, float(column.lower), float(column.upper), texts)
    center = np.array([[block.center] for block in blocks])
    half = np.array([[block.half] for block in blocks])
    return _widened((bounds[0] - center) / half, (bounds[1] - center) / half)


@lru_cache(maxsize=256)
def _pieces(name: str, lower: float, upper: float, texts: tuple[str, ...]) -> tuple[Array, Array]:
    edges = np.unique(np.linspace(lower, upper, _PIECES + 1))  # fewer where there are few floats between the bounds
    edges[0], edges[-1] = lower, upper
    low, high = np.empty((len(texts), edges.size - 1)), np.empty((len(texts), edges.size - 1))
    for piece in range(edges.size - 1):
        part = Schema({name: Real(float(edges[piece]), float(edges[piece + 1]))})
        for place, text in enumerate(texts):
            expression = compile_expression(text, part)
            low[place, piece], high[place, piece] = expression.lower, expression.upper
    return low, high


def _along(intervals: tuple[Array, Array], weights: Array, power: int) -> tuple[float, float]:
    lower, upper = intervals
    scaled = weights[:, None]
    length = ((np.maximum(np.abs(lower), np.abs(upper)) / scaled) ** power).sum(axis=0).max()
    apart = np.maximum(upper[:, :, None] - lower[:, None, :], upper[:, None, :] - lower[:, :, None])
    spread = ((apart / scaled[:, :, None]) ** power).sum(axis=0).max()
    return float(length), float(spread)
