"""The row function: from raw cells to integer rows, by a rule that looks at one row at a time; and the set they lie in.

Features of one column lie on a curve, such as (x, x^2), and two points of a curve are often closer than two
corners of the box around it. So a row's features are clipped to the box of the piece of the curve that its value is in;
and the largest distance between two of these boxes bounds the distance between any two rows, wherever the boxes are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import isqrt
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpinfer.checks import require
from dpinfer.errors import NotProvedError, OptionError, type_of
from dpinfer.kernel.rows.base import Array, Cells, Flags, Ints, RowSum
from dpinfer.privacy.sensitivity import Norm, RowBounds
from dpinfer.schema.columns import clamped
from dpinfer.schema.grid import UNIT, Basis, Block, Curve, groups_of, widened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.schema.columns import Column
    from dpinfer.schema.nodes import Expression
    from dpinfer.schema.schema import Schema


NORMS = ("l2", "l1")

MARGIN = 1 + 1e-9
"""More than the rounding errors of sums of up to a million terms."""


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


@dataclass(frozen=True, slots=True)
class Within:
    """What features of a person's row are measured from: the mean of the person's rows, or the row before it.

    ``order`` is the column by whose values rows follow each other; None stands for the mean.
    """

    order: str | None = None


@dataclass(frozen=True, eq=False)
class Features:
    """Maps a batch of raw cells to integer rows; public, and a function of each row alone.

    Rows at which ``where`` is 0 become the zero row. ``clip`` bounds the norm of the features other than the last,
    which is the response; ``count_clamped`` asks to mark rows in which a value was outside its declared bounds. With
    ``within`` features other than the constant are half the distance from what the person's other rows say: then a row
    is a function of the rows of its person alone.
    """

    basis: Basis
    where: Expression | None = None
    clip: RowClip | None = None
    count_clamped: bool = False
    within: Within | None = None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return tuple(sorted({*self.basis.columns, *(self.where.columns if self.where else ()), *self._order}))

    @property
    def _order(self) -> tuple[str, ...]:
        return () if self.within is None or self.within.order is None else (self.within.order,)

    @cached_property
    def _declared(self) -> dict[str, Column]:
        return {name: self.schema[name] for name in self.columns}

    @cached_property
    def keeps_every_row(self) -> bool:
        """Whether declared policies make a zero row impossible, so that the count of rows is the public n."""
        whole = self.where is None and self.clip is None and self.schema.people is None
        return whole and not any(column.may_drop for column in self._declared.values())

    @property
    def schema(self) -> Schema:
        """The schema of the columns."""
        return self.basis.schema

    def check(self, *, within: bool = False) -> None:
        """Refuse features of which the first is not the constant, or whose codes are not those of their levels.

        Rows that are compared within people are refused but where ``within`` serves them.
        """
        _ = self._sound
        compared = self.within
        if compared is not None:
            order = compared.order if type(compared) is Within else 0
            right = order is None or (type(order) is str and order in self.schema)
            require(right, "within", type_of(compared), "Within, of a declared column or None")
        if compared is not None and (not within or self.schema.rows_per_unit < 2):
            raise NotProvedError("rows are compared within people with id= and max_rows=, in regressions by iterations")

    @cached_property
    def _sound(self) -> None:
        """Refuse blocks that `check` does: once, since the kernel's own arrays cannot be written to."""
        blocks = self.basis.blocks
        if not blocks or not blocks[0].constant or blocks[0].factors:
            raise OptionError("basis", "no constant", "features of which the first is the constant 1")
        for block in blocks:
            codes, levels = block.codes, tuple(len(self.schema[name].level_texts) for name in block.factors)
            right = codes.dtype == np.int64 and codes.ndim == 2 and codes.shape[1] > 0 and block.shape == levels
            right = right and codes.shape[0] == np.prod(levels, dtype=np.int64) and bool((np.abs(codes) <= UNIT).all())
            if not right or not (block.factors or codes.tolist() == [[UNIT]]):
                raise OptionError("codes", type_of(codes), "whole numbers of the grid, a row for each level")

    def check_plain(self) -> None:
        """Refuse factors and row_norm=, too, and boxes that are none, or beyond what is clipped anyway."""
        self.check()
        basis = self.basis
        if self.clip is not None or any(block.width != 1 or block.factors for block in basis.blocks):
            raise OptionError("features", "factors or row_norm=", "numeric features, without row_norm=, in cells")
        for curve in basis.curves:
            right = type(curve) is Curve and type(curve.places) is tuple and curve.column in basis.columns
            right = right and all(type(place) is int and 0 < place < basis.width for place in curve.places)
            right = right and len(set(curve.places)) == len(curve.places)
            shape = (len(curve.places), len(curve.edges) - 1) if right else ()
            arrays = curve.edges, curve.lower, curve.upper  # no shorter floats, which end early; no unsigned numbers
            right = right and all(type(one) is np.ndarray and one.dtype == np.float64 for one in arrays)
            right = right and curve.lower.shape == curve.upper.shape == shape and curve.edges.ndim == 1
            right = right and min(shape) > 0 and bool((np.diff(curve.edges) > 0).all())  # else a search looks back
            right = right and bool(((curve.lower >= -1) & (curve.lower <= curve.upper) & (curve.upper <= 1)).all())
            if not (
                right and all(np.array_equal(one * UNIT, np.rint(one * UNIT)) for one in (curve.lower, curve.upper))
            ):
                told = "boxes of whole steps, within the scaled features' bounds"
                raise OptionError("curves", type_of(curve), told)

    @cached_property
    def bounds(self) -> RowBounds:
        """Bounds on the integer row, and how many rows one unit may have."""
        full, rows = self.basis.bounds, self.schema.rows_per_unit
        if self.clip is None:
            return replace(full, rows=rows)
        kept, unit = self._clipped[1], UNIT * UNIT
        if self.clip.norm == "l2":
            return RowBounds(min(kept + unit, full.squared), full.absolute, rows=rows)
        return RowBounds(min(kept**2 + unit, full.squared), min(kept + UNIT, full.absolute), rows=rows)

    @cached_property
    def _clipped(self) -> tuple[int, int]:
        """The norm that regressors are clipped to, in steps, and the largest that those of a row may then have.

        The latter is a squared norm (L2) or an absolute sum (L1). Rounding moves a vector of q entries by at most
        sqrt(q)/2 steps, or q/2 in absolute sum. A norm that no row has is as good as any larger one.
        """
        assert self.clip is not None
        if self.basis.blocks[-1].width != 1:
            raise NotProvedError("row_norm= is proved for one numeric response measured last")
        limit, width = round(min(self.clip.bound, self.basis.width) * UNIT), self.basis.width - 1
        if self.clip.norm == "l1":
            return limit, limit + -(-width // 2)
        slack = isqrt(width - 1) + 1 if width > 0 else 0
        return limit, (limit + (slack + 1) // 2 + 1) ** 2

    @cached_property
    def _bare(self) -> tuple[str | None, ...]:
        """For each block its column, where the block is a bare column."""
        nodes = ((block.expression.node, block.clamps) for block in self.basis.blocks)
        return tuple(node.name if node.operation == "column" and clamps else None for node, clamps in nodes)

    @cached_property
    def _evaluated(self) -> tuple[str, ...]:
        """Columns that need clamped values of their own, for expressions, factors, conditions or marks."""
        names = {*self.basis.factors, *(self.where.columns if self.where else ()), *self._order}
        for block, bare in zip(self.basis.blocks, self._bare, strict=True):
            names.update(() if bare else block.expression.columns)
        return self.columns if self.count_clamped else tuple(name for name in self.columns if name in names)

    def encode(
        self,
        raw: Mapping[str, Cells],
        out: Array | None = None,
        curves: Sequence[Curve] = (),
        persons: Ints | None = None,
    ) -> tuple[Array, Flags]:
        """Map a batch of m <= CHUNK_ROWS rows to whole numbers (d, m), zero for rows that do not count.

        Cells are coerced by the schema, then missing and impossible values are settled, then values are clamped, then
        expressions evaluated, scaled and rounded to the grid. Every feature is clipped to the box of its block, and on
        curves to that of its piece, so that `bounds` hold for every row whatever the cells are; with ``clip`` a row of
        too large a norm is set to zero. No branch depends on a row. ``out`` (d, m) receives the rows. Marks (m,) are
        of kept rows in which a value was clamped, none unless asked for. ``persons`` (m,) says whose each row is, where
        rows are compared ``within`` people.
        """
        size, declared = len(next(iter(raw.values()))), self._declared
        rows = np.empty((self.basis.width, size)) if out is None else out
        keep, outside = np.ones(size, dtype=bool), np.zeros(size, dtype=bool)
        with np.errstate(all="ignore"):
            coerced, values = dict[str, Array](), dict[str, Array]()
            needed = {*self._evaluated, *(curve.column for curve in curves)}
            for name, column in declared.items():
                coerced[name] = value = column.coerce(raw[name])
                finite, (lower, upper) = np.isfinite(value), column.limits
                keep &= finite
                if self.count_clamped:
                    outside |= (value < lower) | (value > upper)
                if name in needed:
                    values[name] = clamped(value, finite, (lower, upper))
            levels = {name: declared[name].level_index(values[name]) for name in self.basis.factors}
            start = 0
            for block, bare in zip(self.basis.blocks, self._bare, strict=True):
                mine = rows[start : start + block.width]
                start += block.width
                if bare is None:
                    block.encode(values, levels, mine)
                else:
                    block.to_grid(coerced[bare], mine[0])
            for curve in curves:
                curve.force(values, rows)
            if self.where is not None:
                keep &= self.where.evaluate(values) > 0.5
            if self.clip is not None:
                keep &= self._clip_rows(rows, self.clip.norm)
        np.copyto(rows, 0.0, where=~keep)
        if self.within is not None:
            assert persons is not None
            order = None if self.within.order is None else values[self.within.order]
            _compare(rows, np.unique(persons, return_inverse=True)[1], order)
        return rows, outside & keep

    def _clip_rows(self, rows: Array, norm: Norm) -> Flags:
        """Weigh every row so that its regressors keep the norm, the response alike; and say which rows keep it."""

        def measured() -> Array:
            found: Array = (
                np.abs(rows[:-1]).sum(axis=0) if norm == "l1" else np.einsum("dm,dm->m", rows[:-1], rows[:-1])
            )
            return found

        limit, most = self._clipped
        size = measured() if norm == "l1" else np.sqrt(measured())
        np.multiply(rows, np.minimum(1.0, limit / np.maximum(size, 1.0)), out=rows)
        np.rint(rows, out=rows)
        kept: Flags = measured() <= most
        return kept


def _compare(rows: Array, owned: Ints, order: Array | None) -> None:
    """Halve, in place, the distances of features (d, m) from the mean of the person's rows, or from the row before.

    ``owned`` (m,) says whose each row is, from 0. Halves lie in [-UNIT, UNIT] as the features do. Sums of whole numbers
    are exact, so that nothing depends on the order of rows: rows of equal ``order`` (m,) follow each other by what they
    hold. Of two rows that are compared the later one stays; a person's first row becomes zero.
    """
    kept = rows[0] != 0
    if order is None:
        count = np.maximum(np.bincount(owned, kept), 1.0)
        for place in range(1, len(rows)):
            rows[place] -= (np.bincount(owned, rows[place]) / count)[owned]
    else:
        turn = np.flatnonzero(kept)
        turn = turn[np.lexsort((*rows[:0:-1, turn], order[turn], owned[turn]))]
        before = np.roll(turn, 1)
        rows[1:, turn] = rows[1:, turn] - rows[1:, before]
        first = owned[turn] != owned[before]
        first[:1] = True
        kept[turn[first]] = False
    rows[1:] *= 0.5
    np.rint(rows[1:], out=rows[1:])
    np.copyto(rows, 0.0, where=~kept)


class FeatureSum(RowSum):
    """A sum of features, of which it has the columns."""

    if TYPE_CHECKING:  # a field, or a property

        @property
        def features(self) -> Features:
            """What rows are mapped to first."""

    @property
    def schema(self) -> Schema:
        """The schema of the columns."""
        return self.features.schema

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return self.features.columns

    @property
    def keeps_every_row(self) -> bool:
        """Whether declared policies make a zero row impossible."""
        return self.features.keeps_every_row

    def check(self) -> None:
        """Refuse features that would not keep their bounds."""
        self.features.check()


# The set that features are forced into, and how far it reaches


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
        """The groups of features that share columns, each at least in one box; the constant is in none."""
        known = {curve.places: curve for curve in self.basis.curves}
        found = []
        for places in groups_of(self.basis.blocks):
            if places != (0,):
                box = box_of([self.basis.blocks[place] for place in places])
                found.append(known.get(places) or Curve(None, places, np.array([-np.inf, np.inf]), *box))
        return tuple(found)

    @cached_property
    def binding(self) -> tuple[Curve, ...]:
        """The groups whose features have to be clipped, as a value could have them outside of the box of its piece."""
        return tuple(curve for curve in self.curves if curve.binds and not self._holds(curve))

    def _holds(self, curve: Curve) -> bool:
        """Whether features lie in the box of their piece unclipped, whatever the value; False where that is not seen.

        A column and its whole powers are monotone on either side of 0, and rounding keeps the order of what it rounds:
        so does each step to the grid, and features that lie in a box at the ends of a piece, and at 0, do in between.
        """
        blocks = [self.basis.blocks[place] for place in curve.places]
        nodes = [block.expression.node for block in blocks if not block.factors]
        bases = [node.arguments[0] if node.operation == "power" else node for node in nodes]
        name = curve.column
        if name is None or [(base.operation, base.name) for base in bases] != [("column", name)] * len(blocks):
            return False
        limits = self.basis.schema[name].limits
        edges = np.clip(curve.edges, *limits)
        edges[[0, -1]] = limits
        points = np.concatenate([edges[:-1], edges[1:], np.clip(0.0, edges[:-1], edges[1:])])
        boxes, steps = zip(np.tile(curve.lower, 3), np.tile(curve.upper, 3), strict=True), np.empty(len(points))
        for block, (lower, upper) in zip(blocks, boxes, strict=True):
            values = block.expression.evaluate({name: points})
            block.to_grid(values, steps)
            inside = ((lower * UNIT <= steps) & (steps <= upper * UNIT)).all()
            if block.clamps and block.expression.node.operation == "column":  # rows are scaled as they are: see `_bare`
                inside = inside and steps[0] == -UNIT and steps[2 * len(edges) - 3] == UNIT
            if not (inside and np.isfinite([block.center, block.half, *values]).all()):
                return False
        return True

    def reach(self, weights: Sequence[float], norm: Norm) -> Reach:
        """Bound the norm of a row, and of the difference of two rows, each feature divided by its weight.

        The bounds are never below the true suprema over the set. A weight is infinite for a feature that is not
        released. Features fall into groups that share no column; squared norms (or absolute sums) of groups add, and so
        do their bounds. A group of one numeric column is bounded along its curve, others by their box.
        """
        power = 2 if norm == "l2" else 1
        length, spread = float(weights[0]) ** -power, 0.0
        for curve in self.curves:
            scaled = np.array([weights[place] for place in curve.places], dtype=np.float64)[:, None]
            lower, upper = curve.lower, curve.upper
            length += float(((np.maximum(np.abs(lower), np.abs(upper)) / scaled) ** power).sum(axis=0).max())
            apart = np.maximum(upper[:, :, None] - lower[:, None, :], upper[:, None, :] - lower[:, :, None])
            spread += float(((np.maximum(apart, 0.0) / scaled[:, :, None]) ** power).sum(axis=0).max())
        return Reach(float(length ** (1 / power) * MARGIN), float(spread ** (1 / power) * MARGIN))


def box_of(blocks: Sequence[Block]) -> tuple[Array, Array]:
    """Lower and upper bound of each feature (k, 1) of a row that counts: any combination of values within their bounds.

    Those of the constant are 1.
    """
    lower = [(block.expression.lower - block.center) / block.half for block in blocks]
    upper = [(block.expression.upper - block.center) / block.half for block in blocks]
    return widened(np.array(lower)[:, None], np.array(upper)[:, None])
