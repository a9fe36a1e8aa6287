"""The row function of tables: from raw cells to the cell of a table and integer features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.schema.axes import Axis, BinsAxis
from dpinfer.schema.basis import UNIT
from dpinfer.schema.rows import RowFunction, limits_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpinfer.schema.cells import Coded
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["CellRows"]


@dataclass(frozen=True, eq=False)
class CellRows:
    """Puts each row into at most one cell of a public table and maps it to integer features.

    Attributes
    ----------
    features : RowFunction
        What is summed in every cell: the constant first.
    axes : tuple of Axis
        The table; without axes it is one cell.
    counted : bool
        Whether the number of rows, the sum of the constant, is released too.
    """

    features: RowFunction
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
        found: list[tuple[Any, ...]] = [()]
        for axis in self.axes:
            found = [(*one, label) for one in found for label in axis.labels]
        return found

    def encode(self, raw: Mapping[str, NDArray[Any] | Coded], count: int) -> tuple[NDArray[np.intp], Array | None]:
        """Map a batch.

        Parameters
        ----------
        raw : mapping of str to cells, each of length m
            At least `columns`.
        count : int
            The number of rows m.

        Returns
        -------
        cells : ndarray of int (m,)
            Cell of each row; `size` for rows in no cell.
        rows : ndarray (d, m) or None
            Whole numbers, zero for rows that do not count; None where only rows are counted.
        """
        with np.errstate(all="ignore"):
            cells, keep = self._cells(raw, count)
            rows = None
            if not self.counts_only or self.features.where is not None:
                rows = self.features.encode({name: raw[name] for name in self.features.columns})[0]
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
        if quick is not None:
            return quick, None
        keep: NDArray[np.bool_] | None = None if self.axes else np.ones(count, dtype=bool)
        values: dict[str, Array] = {}
        for name in dict.fromkeys(name for axis in self.axes for name in axis.columns):
            value = schema[name].coerce(raw[name])
            finite = np.isfinite(value)
            keep = finite if keep is None else keep & finite
            lower, upper = limits_of(schema[name])
            values[name] = np.fmin(np.fmax(value, lower), upper)
        cells = np.zeros(count, dtype=np.intp)
        for axis, size in zip(self.axes, self.shape, strict=True):
            place = axis.place(values)
            if not axis.covers:
                keep = place >= 0 if keep is None else keep & (place >= 0)
            cells *= size
            cells += place
        return cells, keep

    def _looked_up(self, raw: Mapping[str, NDArray[Any] | Coded]) -> NDArray[np.intp] | None:
        """Cells of an array of whole numbers by one look-up; the same as the long way, which reads them as floats."""
        if len(self.axes) != 1 or not isinstance(self.axes[0], BinsAxis):
            return None
        table, cells = self._table, raw[self.axes[0].name]
        if (
            table is None
            or not isinstance(cells, np.ndarray)
            or cells.dtype.kind not in "iu"
            or cells.dtype.itemsize < 4
        ):
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
        axis = self.axes[0]
        table = axis.lookup if isinstance(axis, BinsAxis) else None
        return None if table is None else np.where(table < 0, self.size, table)

    @cached_property
    def _whole(self) -> bool:
        """Whether each whole number is a bin of its own, in order."""
        table = self._table
        return table is not None and bool(np.array_equal(table, np.arange(table.size)))
