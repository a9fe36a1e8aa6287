"""Sums in the cells of a table: each row is in at most one cell, and becomes integer features there.

Persons' sums and chosen combinations of the counts are made of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial.distance import cdist

from dpinfer.errors import OptionError, type_of
from dpinfer.kernel.rows.base import CHUNK_ROWS, Array, Batch, Cells, Flags, Ints, Places, RowSum
from dpinfer.kernel.rows.features import MARGIN, Boxes, Features, FeatureSum, Reach, box_of
from dpinfer.privacy.sensitivity import Norm, joint_sensitivity, norm_above
from dpinfer.schema.cells import Coded
from dpinfer.schema.columns import clamped_values
from dpinfer.schema.grid import UNIT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.axes import Axis
    from dpinfer.schema.schema import Schema


MOST_SUMS = 2**22
"""Sums that one table may have."""


@dataclass(frozen=True, eq=False)
class CellSum(FeatureSum):
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

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return tuple(sorted({*self.features.columns, *(name for axis in self.axes for name in axis.columns)}))

    @cached_property
    def keeps_every_row(self) -> bool:
        """Whether declared policies make it impossible that a row is in no cell."""
        whole = self.schema.people is None and self.features.where is None and all(axis.covers for axis in self.axes)
        return whole and not any(self.schema[name].may_drop for name in self.columns)

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
    def part_of(self) -> Places:
        """Which feature each sum is of (G d,)."""
        return np.tile(np.arange(self.width), self.size)

    def check(self) -> None:
        """Refuse features that lie on no curve, and a table of too many cells."""
        self.features.check_plain()
        if self.size * self.width > MOST_SUMS:
            raise OptionError("by", f"{self.size:,} cells", f"a table of at most {MOST_SUMS // self.width:,} cells")

    def public(self, neighbors: Neighbors) -> Flags:
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
        `PersonSum` by the same C and D of a person: see `docs/people.md`. Refused is a public number of rows as all
        that is asked.
        """
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
    def batch_rows(self) -> int:
        """Most rows of a batch: more where they are counted, and nothing is multiplied."""
        return 4 * CHUNK_ROWS if self.counts_only and self.features.where is None else CHUNK_ROWS

    @property
    def light(self) -> bool:
        """Numbers are made of a row by many short steps, between which threads wait; a count may be one look-up."""
        return not self.counts_only or (len(self.axes) == 1 and self._table is not None and self.features.where is None)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each sum is: cells in order, features within."""
        cells = named_cells(self.axes)
        return tuple(f"{feature} | {cell}" if cell else feature for cell in cells for feature in self.summed)

    @property
    def summed(self) -> tuple[str, ...]:
        """What is summed in every cell."""
        return self.features.basis.names[not self.counted :]

    @property
    def cells(self) -> list[tuple[Any, ...]]:
        """Labels of every cell, the last axis running fastest."""
        return list(product(*(axis.labels for axis in self.axes)))

    def add(self, batch: Batch) -> Ints:
        """Sum features, or count rows, in every cell (sets, G d); see `RowSum.add`."""
        cells, encoded = self.encode(batch.cells, batch.size)
        if encoded is not None and not self.axes:  # all rows are in the one cell; those that are dropped are zero
            added: Array = encoded.reshape(len(encoded), batch.sets, batch.size // batch.sets).sum(axis=2)
            return added.T.astype(np.int64)
        each = self.size + 1  # the last of each set collects rows in no cell
        if batch.sets > 1:
            cells = cells + np.repeat(np.arange(batch.sets) * each, batch.size // batch.sets)
        features = [None] if encoded is None else list(encoded)
        each_one = [np.bincount(cells, one, batch.sets * each).reshape(batch.sets, each)[:, :-1] for one in features]
        return np.stack(each_one, axis=-1).reshape(batch.sets, -1).astype(np.int64, copy=False)

    def encode(self, raw: Mapping[str, Cells], count: int) -> tuple[Places, Array | None]:
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
            np.copyto(cells, self.size, where=~keep)
        return cells, rows if rows is None or self.counted else rows[1:]

    def _cells(self, raw: Mapping[str, Cells], count: int) -> tuple[Places, Flags | None]:
        """Cell of each row, and which rows are in one; None where all are."""
        if not self.axes:
            return np.zeros(count, dtype=np.intp), None
        quick = self._looked_up(raw)
        quick = self._by_value(raw) if quick is None else quick
        if quick is not None:
            return quick, None
        names = dict.fromkeys(name for axis in self.axes for name in axis.columns)
        values, keep = clamped_values(self.schema, names, raw, count)
        cells = np.zeros(count, dtype=np.intp)
        for axis, size in zip(self.axes, self.shape, strict=True):
            place = axis.place(values)
            if not axis.covers:
                keep &= place >= 0
            cells *= size
            cells += place
        return np.clip(cells, 0, self.size, out=cells), keep  # whatever an axis says, a row is in one cell or in none

    def _by_value(self, raw: Mapping[str, Cells]) -> Places | None:
        """Cells of coded columns, by reading each of their values once; the same as the long way."""
        cells: Places | None = None
        stride = self.size
        for axis in self.axes:
            coded = raw[axis.name] if axis.columns == (axis.name,) else None
            if not isinstance(coded, Coded):
                return None
            stride //= axis.size
            count = len(coded.values) + 1  # the last stands for a missing cell
            each = {axis.name: Coded(np.arange(count), coded.values)}
            values, keep = clamped_values(self.schema, (axis.name,), each, count)
            place = axis.place(values)
            keep &= (place >= 0) & (place < axis.size)
            mine = np.where(keep, place * stride, self.size).take(coded.positions, mode="clip")
            cells = mine if cells is None else np.add(cells, mine, out=cells)
        return None if cells is None else np.minimum(cells, self.size, out=cells)

    def _looked_up(self, raw: Mapping[str, Cells]) -> Places | None:
        """Cells of an array of whole numbers by one look-up; the same as the long way, which reads them as floats."""
        table = self._table if len(self.axes) == 1 else None
        cells = None if table is None else raw[self.axes[0].name]
        if table is None or not isinstance(cells, np.ndarray) or cells.dtype.kind not in "iu":
            return None
        column: Any = self.schema[self.axes[0].name]
        lower, upper = int(column.lower), int(column.upper)
        ends = np.iinfo(cells.dtype)
        if cells.dtype.itemsize < 4 or not ends.min <= lower <= upper <= ends.max:
            return None
        found: Places = table[np.clip(cells, lower, upper).astype(np.intp, copy=False) - lower]
        return found

    @cached_property
    def _table(self) -> Places | None:
        table = self.axes[0].lookup
        return None if table is None else np.where(table < 0, self.size, table)


def named_cells(axes: Sequence[Axis]) -> list[str]:
    """Return what every cell is called, the last axis running fastest; without axes an empty text."""
    return [", ".join(cell) for cell in product(*([f"{axis.name}={one}" for one in axis.labels] for axis in axes))]


# What the rows of a person add up to


@dataclass(frozen=True, eq=False)
class PersonSum(CellSum):
    """Sums the features of each person's rows in a cell, and the products of these sums, over people.

    A person with n of at most m rows in a cell counts there as one row of weight w = n/m with the mean u of the
    features of these rows: what is summed is w u, and for standard errors all products (w u_i) (w u_j). All weights of
    a person add up to at most 1. A person's sums are at most m 2^19, those of 2^15 rows below 2^46.
    """

    @property
    def most(self) -> int:
        """Rows m that a person has at most."""
        return self.schema.rows_per_unit

    @property
    def _pairs(self) -> tuple[Places, Places]:
        first, second = np.triu_indices(self.features.basis.width - (not self.counted))
        return first, second

    @property
    def width(self) -> int:
        """Number of sums in every cell: of features, then of products."""
        return self.features.basis.width - (not self.counted) + len(self._pairs[0])

    @property
    def unit(self) -> int:
        """The number 1 in the integer sums: a person with all rows at the bound."""
        return int(UNIT * self.most)

    @property
    def summed(self) -> tuple[str, ...]:
        """What is summed in every cell."""
        names = super().summed
        products = (f"({names[i]}) * ({names[j]}) by person" for i, j in zip(*self._pairs, strict=True))
        return (*(f"{name} by person" for name in names), *products)

    def add(self, batch: Batch) -> Ints:
        """Sum over the people of a batch of whole people (sets, G d); see `RowSum.add`."""
        if batch.persons is None:  # each row a person's only one
            return super().add(batch)
        placed, rows = CellSum.encode(self, batch.cells, len(batch.persons))
        assert rows is not None
        inside = placed < self.size
        keys, where = np.unique(batch.persons[inside] * self.size + placed[inside], return_inverse=True)
        linear = np.stack([np.bincount(where, row[inside], minlength=len(keys)) for row in rows]).astype(np.int64)
        totals = [np.bincount(keys % self.size, one, self.size) for one in self._with_products(linear)]
        return np.stack(totals, axis=1).ravel()[None].astype(np.int64)

    def encode(self, raw: Mapping[str, Cells], count: int) -> tuple[Places, Array | None]:
        """Map a batch as if each row were all that a person has; see `CellSum.encode`."""
        placed, rows = CellSum.encode(self, raw, count)
        assert rows is not None
        return placed, self._with_products(rows.astype(np.int64)).astype(np.float64)

    def _with_products(self, linear: Ints) -> Ints:
        """Add the products of a person's sums, cut toward zero."""
        first, second = self._pairs
        both = linear[first] * linear[second]
        return np.concatenate([linear, np.sign(both) * (np.abs(both) // self.unit)])

    def _reach(self, weights: Array, norm: Norm) -> tuple[Reach, int]:
        """Bound a person's sums in one cell, and how far they are from another's there, each sum over its weight.

        Of a person with weight w the sums lie in w A, A the box of features (the first of them 1) and products. Weights
        add up to at most 1 over cells, so that the stacked sums lie in the convex hull of A in one cell and of zero:
        see `docs/people.md`. The box of features is that around all boxes that a row's features are forced into.
        """
        low, high = (one[:, 0] for one in box_of(self.features.basis.blocks))
        for curve in self.boxes.curves:
            places = list(curve.places)
            low[places] = np.minimum(low[places], curve.lower.min(axis=1))
            high[places] = np.maximum(high[places], curve.upper.max(axis=1))
        low, high = low[not self.counted :], high[not self.counted :]
        first, second = self._pairs
        ends = np.stack([one[first] * other[second] for one in (low, high) for other in (low, high)])
        least = np.where(first == second, 0.0, np.minimum(ends.min(axis=0), 0.0))
        lower, upper = np.concatenate([low, least]), np.concatenate([high, np.maximum(ends.max(axis=0), 0.0)])
        power = 2 if norm == "l2" else 1
        longest = ((np.maximum(np.abs(lower), np.abs(upper)) / weights) ** power).sum() ** (1 / power)
        farthest = (((upper - lower) / weights) ** power).sum() ** (1 / power)
        return Reach(float(longest * MARGIN), float(farthest * MARGIN)), 1


# Combinations of counts


class CountedSum(RowSum):
    """Combinations of the counts of cells: rows are counted by cell, and `finish` combines the counts."""

    if TYPE_CHECKING:

        @property
        def cells(self) -> CellSum:
            """The cells, of counts only."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return self.cells.columns

    @property
    def keeps_every_row(self) -> bool:
        """Whether declared policies make it impossible that a row is in no cell."""
        return self.cells.keeps_every_row

    @property
    def entries(self) -> int:
        """Number of cells."""
        return self.cells.size

    @property
    def batch_rows(self) -> int:
        """Most rows of a batch."""
        return self.cells.batch_rows

    def add(self, batch: Batch) -> Ints:
        """Count rows by cell (sets, G)."""
        return self.cells.add(batch)


LARGEST_WEIGHT = 2**19
"""Whole-number weights are at most this: so inner products of up to 2^15 of them are exact in float64."""

MOST_QUERIES, MOST_CELLS = 2**15, 2**12
_COMPARED_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class QuerySum(CountedSum):
    """Sums whole-number weights of the cell that each row is in: ``matrix`` (q, G), in steps of size ``step``.

    The table is of counts only.
    """

    cells: CellSum
    matrix: Ints
    step: float
    names: tuple[str, ...]

    @property
    def schema(self) -> Schema:
        """The schema of the columns."""
        return self.cells.schema

    @property
    def units(self) -> Array:
        """The number 1 in each integer sum (q,)."""
        return np.full(len(self.names), 1 / self.step)

    @cached_property
    def weights(self) -> Array:
        """The weights as measured (q, G): on the grid."""
        weights: Array = self.matrix.astype(np.float64) * self.step
        return weights

    def check(self) -> None:
        """Refuse weights that are not whole numbers within the grid, one for each cell in every query."""
        if type(self.cells) is not CellSum or not self.cells.counts_only:
            raise OptionError("cells", type_of(self.cells), "a table of counts")
        self.cells.check()
        found, size = self.matrix, (len(self.names), self.cells.size)
        whole = isinstance(found, np.ndarray) and found.dtype == np.int64 and found.shape == size
        if not whole or found.size == 0 or int(found.max()) > LARGEST_WEIGHT or int(found.min()) < -LARGEST_WEIGHT:
            right = f"whole numbers of at most {LARGEST_WEIGHT:,} for {size[1]:,} cells in {size[0]:,} queries"
            raise OptionError("W", type_of(found), right)
        if not 0 < self.step < np.inf or size[0] > MOST_QUERIES or size[1] > MOST_CELLS:
            raise OptionError("W", self.step, "a positive step, and fewer queries or cells")

    def change(self, weights: Array, neighbors: Neighbors, norm: Norm) -> Fraction:  # noqa: ARG002  (one part)
        """Bound on the change of all queries between neighbours; refuses queries that no replaced row changes."""
        found = query_change(self.matrix, neighbors=neighbors, norm=norm, every_row=self.keeps_every_row)
        if found == 0:
            right = "queries that a replaced row can change: these follow from the public number of rows"
            raise OptionError("queries", f"the queries {', '.join(self.names[:5])}", right)
        return found * self.schema.rows_per_unit

    def finish_sets(self, totals: Any) -> Any:
        """Return the queries' sums, in steps, from the counts of all cells (R, G)."""
        return totals @ self.matrix.T


def query_change(matrix: Ints, *, neighbors: Neighbors, norm: Norm, every_row: bool) -> Fraction:
    """Bound on the norm of the change of all queries between neighbours, in steps: exact, a root rounded up.

    Let W_g be the weights of cell g in all queries, whole numbers of at most `LARGEST_WEIGHT`. Adding or removing a row
    in cell g changes the queries by W_g; moving a row from g to h changes them by W_h - W_g; and where a row may be in
    no cell, by W_g too.
    """
    columns = np.unique(matrix.T, axis=0)
    lengths = np.abs(columns).sum(axis=1) if norm == "l1" else (columns**2).sum(axis=1)
    largest = int(lengths.max())
    if neighbors == "replace_one":
        apart = _widest_l1(columns) if norm == "l1" else _widest_squared(columns, lengths)
        largest = apart if every_row else max(apart, largest)
    return norm_above(largest, norm)


def _widest_squared(columns: Ints, lengths: Ints) -> int:
    """Largest squared distance between two rows of ``columns``; all numbers in it are exact."""
    floats, widest = columns.astype(np.float64), 0
    for start in range(0, len(columns), _COMPARED_AT_ONCE):
        mine = slice(start, start + _COMPARED_AT_ONCE)
        products = (floats[mine] @ floats.T).astype(np.int64)
        widest = max(widest, int((lengths[mine, None] + lengths - 2 * products).max()))
    return widest


def _widest_l1(columns: Ints) -> int:
    """Largest L1 distance between two rows of ``columns``; pairs near their middle need not be compared."""
    floats = columns.astype(np.float64)
    radius = np.abs(floats - np.rint(np.median(floats, axis=0))).sum(axis=1)
    order = np.argsort(-radius)
    floats, radius, widest = floats[order], radius[order], 0
    for start in range(0, len(floats), _COMPARED_AT_ONCE):
        if 2 * radius[start] <= widest:
            break
        distances = cdist(floats[start : start + _COMPARED_AT_ONCE], floats[start:], "cityblock")
        widest = max(widest, int(distances.max()))
    return widest
