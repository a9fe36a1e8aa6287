"""The row function: from raw cells to integer rows, by a rule that looks at one row at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import isqrt
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.privacy.sensitivity import RowBounds
from dpinfer.schema.clamping import limits_of
from dpinfer.schema.grid import UNIT, Curve, groups_of, widened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dpinfer.schema.cells import Coded
    from dpinfer.schema.expression import Expression
    from dpinfer.schema.grid import Basis, Block
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["NORMS", "Boxes", "Features", "Reach", "RowClip", "feature_box"]

NORMS = ("l2", "l1")


@dataclass(frozen=True, slots=True)
class RowClip:
    """A bound on the norm of the regressors' row, kept by giving large rows a weight below one.

    It is in units of the scaled features: the constant alone has norm 1.
    """

    bound: float
    norm: Literal["l2", "l1"] = "l2"

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise OptionError("norm", self.norm, NORMS)
        number = isinstance(self.bound, int | float) and not isinstance(self.bound, bool)
        if not (number and np.isfinite(self.bound) and self.bound * UNIT >= 1):
            raise OptionError("row_norm", self.bound, f"a number of at least {1 / UNIT:.2g}, or None")


@dataclass(frozen=True, eq=False)
class Features:
    """Maps a batch of raw cells to integer rows; public, and a function of each row alone.

    Rows at which ``where`` is 0 become the zero row. ``clip`` bounds the norm of the features other than the last,
    which is the response; ``count_clamped`` asks to mark rows in which a value was outside its declared bounds.
    """

    basis: Basis
    where: Expression | None = None
    clip: RowClip | None = None
    count_clamped: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return tuple(sorted({*self.basis.columns, *(self.where.columns if self.where else ())}))

    @cached_property
    def keeps_every_row(self) -> bool:
        """Whether declared policies make a zero row impossible, so that the count of rows is the public n."""
        schema = self.schema
        whole = self.where is None and self.clip is None and schema.people is None
        return whole and not any(schema[c].may_drop for c in self.columns)

    @property
    def schema(self) -> Schema:
        """The schema of the columns."""
        return self.basis.schema

    @property
    def bounds(self) -> RowBounds:
        """Bounds on the integer row, and how many rows one unit may have."""
        return replace(self._row_bounds, rows=self.schema.rows_per_unit)

    @property
    def _row_bounds(self) -> RowBounds:
        full = self.basis.bounds
        if self.clip is None:
            return full
        kept = self._kept
        if self.clip.norm == "l2":
            return RowBounds(min(kept + UNIT * UNIT, full.squared), full.absolute)
        return RowBounds(min(kept**2 + UNIT * UNIT, full.squared), min(kept + UNIT, full.absolute))

    @cached_property
    def _kept(self) -> int:
        """Largest squared norm (L2), or absolute sum (L1), that the clipped regressors of a row may have.

        Rounding moves a vector of q entries by at most sqrt(q)/2 steps, or q/2 in absolute sum.
        """
        assert self.clip is not None
        if self.basis.blocks[-1].width != 1:
            raise NotProvedError("row_norm= is proved for one numeric response measured last")
        limit, width = self._limit, self.basis.width - 1
        if self.clip.norm == "l1":
            return int(limit + -(-width // 2))
        slack = isqrt(width - 1) + 1 if width > 0 else 0
        return int((limit + (slack + 1) // 2 + 1) ** 2)

    @cached_property
    def _limit(self) -> int:
        """The norm that regressors are clipped to, in steps; one that no row has is as good as any larger one."""
        assert self.clip is not None
        limit: int = round(min(self.clip.bound, self.basis.width) * UNIT)
        return limit

    @cached_property
    def _bare(self) -> tuple[str | None, ...]:
        """For each block its column, where the block is a bare column."""
        nodes = ((block.expression.node, block.clamps) for block in self.basis.blocks)
        return tuple(node.name if node.operation == "column" and clamps else None for node, clamps in nodes)

    @cached_property
    def _evaluated(self) -> frozenset[str]:
        """Columns that need clamped values of their own, for expressions, factors, conditions or marks."""
        names = set(self.basis.factors) | set(self.where.columns if self.where else ())
        for block, bare in zip(self.basis.blocks, self._bare, strict=True):
            names |= set() if bare else set(block.expression.columns)
        return frozenset(self.columns if self.count_clamped else names)

    def encode(
        self, raw: Mapping[str, NDArray[Any] | Coded], out: Array | None = None, curves: Sequence[Curve] = ()
    ) -> tuple[Array, Array]:
        """Map a batch of m <= CHUNK_ROWS rows to whole numbers (d, m), zero for rows that do not count.

        Cells are coerced by the schema, then missing and impossible values are settled, then values are clamped, then
        expressions evaluated, scaled and rounded to the grid. Every feature is clipped to the box of its block, and on
        curves to that of its piece, so that `bounds` hold for every row whatever the cells are; with ``clip`` a row of
        too large a norm is set to zero. No branch depends on a row. ``out`` (d, m) receives the rows. Marks (m,) are
        1.0 for kept rows in which a value was clamped, all zero unless asked for.
        """
        size = len(next(iter(raw.values())))
        rows = np.empty((self.basis.width, size)) if out is None else out
        with np.errstate(all="ignore"):
            coerced = {name: self.basis.schema[name].coerce(raw[name]) for name in self.columns}
            keep = np.ones(size, dtype=bool)
            for name in self._evaluated:
                keep &= np.isfinite(coerced[name])
            values, outside = self._clamped(coerced, size)
            self._features(coerced, values, rows, keep)
            for curve in curves:
                curve.force(coerced, rows)
            if self.where is not None:
                keep &= self.where.evaluate(values) > 0.5
            if self.clip is not None:
                keep &= self._clip_rows(rows)
        np.copyto(rows, 0.0, where=~keep)
        return rows, (outside & keep).astype(np.float64)

    def _clamped(self, coerced: Mapping[str, Array], size: int) -> tuple[dict[str, Array], NDArray[np.bool_]]:
        """Clamp the columns that are evaluated (NaN to the lower bound); and which rows had a value outside."""
        values: dict[str, Array] = {}
        outside = np.zeros(size, dtype=bool)
        for name in self.columns:
            if name not in self._evaluated:
                continue
            value = coerced[name]
            lower, upper = limits_of(self.basis.schema[name])
            if self.count_clamped:
                outside |= (value < lower) | (value > upper)
            values[name] = np.fmin(np.fmax(value, lower), upper)
        return values, outside

    def _features(
        self, coerced: Mapping[str, Array], values: Mapping[str, Array], rows: Array, keep: NDArray[np.bool_]
    ) -> None:
        """Write the features; bare columns also mark in ``keep`` which rows are dropped for them."""
        levels = {name: self.basis.schema[name].level_index(values[name]) for name in self.basis.factors}
        start = 0
        for block, bare in zip(self.basis.blocks, self._bare, strict=True):
            end = start + block.width
            out = rows[start:end]
            if bare is None:
                block.encode(values, levels, out)
            else:
                block.to_grid(coerced[bare], out[0], keep)
            start = end

    def _clip_rows(self, rows: Array) -> NDArray[np.bool_]:
        """Weigh every row so that its regressors keep the norm, the response alike; and say which rows keep it."""
        clip = self.clip
        assert clip is not None
        regressors = rows[:-1]
        l1 = clip.norm == "l1"
        norm = np.abs(regressors).sum(axis=0) if l1 else np.sqrt(np.einsum("dm,dm->m", regressors, regressors))
        np.multiply(rows, np.minimum(1.0, self._limit / np.maximum(norm, 1.0)), out=rows)
        np.rint(rows, out=rows)
        after = np.abs(regressors).sum(axis=0) if l1 else np.einsum("dm,dm->m", regressors, regressors)
        kept: NDArray[np.bool_] = after <= self._kept
        return kept


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
