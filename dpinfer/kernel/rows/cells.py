"""Sums in the cells of a table: each row is in at most one cell, and becomes integer features there."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.kernel.rows.base import CHUNK_ROWS, Batch, RowSum
from dpinfer.kernel.rows.reach import Boxes, Reach
from dpinfer.privacy.sensitivity import joint_sensitivity
from dpinfer.schema.cells import Coded
from dpinfer.schema.columns import clamped_values
from dpinfer.schema.grid import UNIT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dpinfer.kernel.rows.features import Features
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.axes import Axis
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["MOST_SUMS", "CellSum", "labels_of"]

MOST_SUMS = 2**22
"""Sums that one table may have."""


@dataclass(frozen=True, eq=False)
class CellSum(RowSum):
    """Puts each row into at most one cell of a public table and sums integer features in every cell.

    The constant is the first feature; its sum, the number of rows, is released where ``counted`` says so. Without axes
    the table is one cell.
    """

    features: Features
    axes: tuple[Axis, ...] = ()
    counted: bool = True

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of parts of every axis."""
        return tuple(axis.size for axis in self.axes)

    @property
    def size(self) -> int:
        """Number of cells G."""
        return prod(self.shape)

    @property
    def width(self) -> int:
        """Number of features d that are released."""
        return self.features.basis.width - (not self.counted)

    @property
    def counts_only(self) -> bool:
        """Whether nothing but rows is counted."""
        return self.counted and self.width == 1

    @property
    def unit(self) -> int:
        """The number 1 in the integer sums: 1 for counts, otherwise that of the grid."""
        return 1 if self.counts_only else UNIT

    @property
    def units(self) -> Array:
        """The number 1 in each integer sum (G d,)."""
        return np.full(self.size * self.width, float(self.unit))

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return tuple(sorted({*self.features.columns, *(name for axis in self.axes for name in axis.columns)}))

    @property
    def keeps_every_row(self) -> bool:
        """Whether declared policies make it impossible that a row is in no cell."""
        schema = self.schema
        return (
            schema.people is None
            and self.features.where is None
            and all(axis.covers for axis in self.axes)
            and not any(schema[name].may_drop for name in self.columns)
        )

    @property
    def schema(self) -> Schema:
        """The schema of the columns."""
        return self.features.schema

    # Bounds

    @cached_property
    def boxes(self) -> Boxes:
        """The set that the features of a row are forced into."""
        return Boxes(self.features.basis)

    @property
    def parts(self) -> tuple[str, ...]:
        """The features that are summed: each may have noise of its own scale."""
        return self.summed

    @property
    def part_of(self) -> NDArray[np.intp]:
        """Which feature each sum is of (G d,)."""
        return np.tile(np.arange(self.width), self.size)

    def check(self) -> None:
        """Refuse a table of too many cells."""
        if self.size * self.width > MOST_SUMS:
            raise OptionError("by", f"{self.size:,} cells", f"a table of at most {MOST_SUMS // self.width:,} cells")

    def public(self, neighbors: Neighbors) -> NDArray[np.bool_]:
        """Under replace_one the one sum of the constant over all rows is the public number of rows."""
        found = np.zeros(self.size * self.width, dtype=bool)
        found[0] = self.counted and neighbors == "replace_one" and self.size == 1 and self.keeps_every_row
        return found

    def change(self, weights: Array, neighbors: Neighbors, norm: Norm) -> Fraction:
        """Bound on the change of all sums between neighbours, each over the weight of its feature, in integer steps.

        One row is in one cell at most. Let C bound the norm of its features, each divided by its weight, and D the norm
        of the difference between two rows' features. Adding or removing a row moves the stacked sums by at most C.
        Replacing one moves them by at most D within a cell; between two cells by C sqrt 2 (L2) or 2 C (L1); and by C
        where a row may be in no cell. A person with at most m rows moves them by at most m times that, and the sums of
        `PersonSum` by the same C and D of a person: see `docs/people.md`. Refused are too many cells, and a public
        number of rows as all that is asked.
        """
        self.check()
        reach, most = self._reach(weights, norm)
        length = Fraction(reach.length)
        if neighbors == "add_remove":
            return most * length * self.unit
        bounds = [Fraction(reach.spread)]
        if not self.keeps_every_row:
            bounds.append(length)
        if self.size > 1:
            bounds.append(joint_sensitivity([(length, 1.0), (length, 1.0)], norm=norm))
        if max(bounds) == 0:
            raise OptionError(
                "neighbors", neighbors, "add_remove: the number of rows, all that is asked for, is public here"
            )
        return most * max(bounds) * self.unit

    def _reach(self, weights: Array, norm: Norm) -> tuple[Reach, int]:
        """Reach of what is summed, and how often a unit can reach so far: once for each of its rows, or in all."""
        everything = weights.tolist() if self.counted else [float("inf"), *weights.tolist()]
        reach = Reach(1.0, 0.0) if self.counts_only else self.boxes.reach(everything, norm)
        return reach, self.schema.rows_per_unit

    # Integers

    @property
    def most_added(self) -> int:
        """Bound on the sums of a batch: 2^15 rows of at most 2^19."""
        return 2**34

    @property
    def batch_rows(self) -> int:
        """Most rows of a batch: more where they are counted, and nothing is multiplied."""
        return 4 * CHUNK_ROWS if self.counts_only and self.features.where is None else CHUNK_ROWS

    @property
    def light(self) -> bool:
        """Whether a row may cost so little that several threads do not pay: one look-up and a count."""
        return self.counts_only and len(self.axes) == 1 and self._table is not None and self.features.where is None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each sum is: cells in order, features within."""
        cells = [
            ", ".join(f"{axis.name}={label}" for axis, label in zip(self.axes, one, strict=True)) for one in self.cells
        ]
        return tuple(f"{feature} | {cell}" if cell else feature for cell in cells for feature in self.summed)

    @property
    def summed(self) -> tuple[str, ...]:
        """What is summed in every cell."""
        return self.features.basis.names[not self.counted :]

    @property
    def cells(self) -> list[tuple[Any, ...]]:
        """Labels of every cell, the last axis running fastest."""
        return labels_of(self.axes)

    def add(self, batch: Batch) -> Ints:
        """Sum features, or count rows, in every cell (sets, G d); see `RowSum.add`."""
        cells, encoded = self.encode(batch.cells, batch.size)
        return self._totals(cells, encoded, batch.size, batch.sets)

    def _totals(self, cells: NDArray[np.intp], encoded: Array | None, size: int, sets: int) -> Ints:
        """Add up by cell; `size` cells, the last of each set, collect rows in no cell."""
        each = self.size + 1
        if sets > 1:
            cells = cells + np.repeat(np.arange(sets) * each, size // sets)
        features = [None] if encoded is None else list(encoded)
        added = [np.bincount(cells, one, minlength=sets * each).reshape(sets, each)[:, :-1] for one in features]
        return np.stack(added, axis=-1).reshape(sets, -1).astype(np.int64, copy=False)

    def encode(self, raw: Mapping[str, NDArray[Any] | Coded], count: int) -> tuple[NDArray[np.intp], Array | None]:
        """Map a batch: the cell of each row, ``size`` for rows in no cell, and whole numbers (d, m), zero for these.

        The numbers are None where only rows are counted.
        """
        with np.errstate(all="ignore"):
            cells, keep = self._cells(raw, count)
            rows = None
            if not self.counts_only or self.features.where is not None:
                mine = {name: raw[name] for name in self.features.columns}
                rows = self.features.encode(mine, curves=self.boxes.binding)[0]
                if self.counts_only:
                    keep = rows[0] > 0 if keep is None else keep & (rows[0] > 0)
                    rows = None
        if keep is not None:
            cells = np.where(keep, cells, self.size)
        return cells, rows if rows is None or self.counted else rows[1:]

    def _cells(
        self, raw: Mapping[str, NDArray[Any] | Coded], count: int
    ) -> tuple[NDArray[np.intp], NDArray[np.bool_] | None]:
        """Cell of each row, and which rows are in one; None where all are."""
        schema = self.features.basis.schema
        quick = self._looked_up(raw)
        quick = self._by_value(raw) if quick is None else quick
        if quick is not None:
            return quick, None
        names = dict.fromkeys(name for axis in self.axes for name in axis.columns)
        values, keep = clamped_values(schema, names, raw, count)
        cells = np.zeros(count, dtype=np.intp)
        for axis, size in zip(self.axes, self.shape, strict=True):
            place = axis.place(values)
            if not axis.covers:
                keep &= place >= 0
            cells *= size
            cells += place
        return np.clip(cells, 0, self.size, out=cells), keep  # whatever an axis says, a row is in one cell or in none

    def _by_value(self, raw: Mapping[str, NDArray[Any] | Coded]) -> NDArray[np.intp] | None:
        """Cells of coded columns, by reading each of their values once; the same as the long way."""
        found: list[NDArray[np.intp]] = []
        stride = self.size
        for axis in self.axes:
            coded = raw[axis.name] if axis.columns == (axis.name,) else None
            if not isinstance(coded, Coded):
                return None
            stride //= axis.size
            count = len(coded.values) + 1  # the last stands for a missing cell
            each = {axis.name: Coded(np.arange(count), coded.values)}
            values, keep = clamped_values(self.features.basis.schema, (axis.name,), each, count)
            place = axis.place(values)
            keep &= (place >= 0) & (place < axis.size)
            found.append(np.where(keep, place * stride, self.size)[coded.positions])
        if not found:
            return None
        cells = sum(found[1:], start=found[0])
        return np.minimum(cells, self.size, out=cells)

    def _looked_up(self, raw: Mapping[str, NDArray[Any] | Coded]) -> NDArray[np.intp] | None:
        """Cells of an array of whole numbers by one look-up; the same as the long way, which reads them as floats."""
        table = self._table if len(self.axes) == 1 else None
        if table is None:
            return None
        cells = raw[self.axes[0].name]
        if not isinstance(cells, np.ndarray) or cells.dtype.kind not in "iu" or cells.dtype.itemsize < 4:
            return None
        column = self.features.basis.schema[self.axes[0].name]
        lower, upper = int(getattr(column, "lower", 0)), int(getattr(column, "upper", 0))
        if cells.dtype.kind == "u" and lower < 0:
            return None
        if not np.iinfo(cells.dtype).min <= lower <= upper <= np.iinfo(cells.dtype).max:
            return None
        place = np.clip(cells, lower, upper).astype(np.intp, copy=False)
        if lower:
            place -= lower
        found: NDArray[np.intp] = place if self._whole else table[place]
        return found

    @cached_property
    def _table(self) -> NDArray[np.intp] | None:
        table = self.axes[0].lookup
        return None if table is None else np.where(table < 0, self.size, table)

    @cached_property
    def _whole(self) -> bool:
        """Whether each whole number is a bin of its own, in order."""
        table = self._table
        return table is not None and bool(np.array_equal(table, np.arange(table.size)))


def labels_of(axes: Sequence[Axis]) -> list[tuple[Any, ...]]:
    """Labels of every cell, the last axis running fastest."""
    found: list[tuple[Any, ...]] = [()]
    for axis in axes:
        found = [(*one, label) for one in found for label in axis.labels]
    return found
