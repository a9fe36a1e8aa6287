"""The set that the features of a row are forced into, and how far it reaches: a union of boxes, from declared bounds.

Features of one column lie on a curve, such as (x, x^2), and two points of a curve are often closer than two
corners of the box around it. So a row's features are clipped to the box of the piece of the curve that its value is in;
and the largest distance between two of these boxes bounds the distance between any two rows, wherever the boxes are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpinfer.schema.grid import Curve, groups_of, widened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpinfer.schema.grid import Basis, Block

    Array = NDArray[np.float64]

__all__ = ["Boxes", "Reach", "feature_box"]


_MARGIN = 1 + 1e-9
"""More than the rounding errors of sums of up to a million terms."""

Norm = Literal["l2", "l1"]


@dataclass(frozen=True, slots=True)
class Reach:
    """Bounds on the norm of a row's features, each over its weight, and on that of the difference between two rows'."""

    length: float
    spread: float


@dataclass(frozen=True, eq=False)
class Boxes:
    """The set of features that a row can have: numeric ones in boxes, those of one column in boxes along a curve."""

    basis: Basis

    @cached_property
    def curves(self) -> tuple[Curve, ...]:
        """The groups of features that share columns; the constant is in none."""
        known = {curve.places: curve for curve in self.basis.curves}
        groups = [places for places in groups_of(self.basis.blocks) if places != (0,)]
        return tuple(known.get(places) or self._one_box(places) for places in groups)

    def _one_box(self, places: tuple[int, ...]) -> Curve:
        lower, upper = _box([self.basis.blocks[place] for place in places])
        return Curve(None, places, np.array([-np.inf, np.inf]), lower, upper)

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


def feature_box(basis: Basis) -> tuple[Array, Array]:
    """Lower and upper bound of each feature (d,) of a row that counts; those of the constant are 1."""
    lower, upper = _box(basis.blocks)
    return lower[:, 0], upper[:, 0]


def _box(blocks: Sequence[Block]) -> tuple[Array, Array]:
    """Lower and upper bound of each feature (k, 1): every combination of values within their bounds."""
    lower = [(block.expression.lower - block.center) / block.half for block in blocks]
    upper = [(block.expression.upper - block.center) / block.half for block in blocks]
    return widened(np.array(lower)[:, None], np.array(upper)[:, None])


def _along(lower: Array, upper: Array, weights: Array, power: int) -> tuple[float, float]:
    scaled = weights[:, None]
    length = ((np.maximum(np.abs(lower), np.abs(upper)) / scaled) ** power).sum(axis=0).max()
    apart = np.maximum(upper[:, :, None] - lower[:, None, :], upper[:, None, :] - lower[:, :, None])
    spread = ((np.maximum(apart, 0.0) / scaled[:, :, None]) ** power).sum(axis=0).max()
    return float(length), float(spread)
