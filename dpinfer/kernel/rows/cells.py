"""Sums in the cells of a table: each row is in at most one cell, and becomes integer features there."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial.distance import cdist

from dpinfer.errors import OptionError, type_of
from dpinfer.kernel.rows.base import CHUNK_ROWS, Batch, RowSum
from dpinfer.kernel.rows.features import Boxes, Reach, feature_box
from dpinfer.privacy.exact import binary, sqrt_above
from dpinfer.privacy.sensitivity import joint_sensitivity
from dpinfer.schema.cells import Coded
from dpinfer.schema.clamping import clamped_values
from dpinfer.schema.grid import UNIT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dpinfer.kernel.rows.base import Batch
    from dpinfer.kernel.rows.features import Features
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.axis_types import Axis
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = [
    "LARGEST_WEIGHT",
    "MOST_CELLS",
    "MOST_QUERIES",
    "MOST_SUMS",
    "CellSum",
    "CountedSum",
    "PersonSum",
    "QuerySum",
    "labels_of",
    "query_change",
]

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


_MARGIN = 1 + 1e-9
"""More than the rounding errors of sums of up to a million terms."""


@dataclass(frozen=True, eq=False)
class PersonSum(CellSum):
    """Sums the features of each person's rows in a cell, and the products of these sums, over people.

    A person with n of at most m rows in a cell counts there as one row of weight w = n/m with the mean u of the
    features of these rows: what is summed is w u, and for standard errors all products (w u_i) (w u_j). All weights of
    a person add up to at most 1.
    """

    @property
    def most(self) -> int:
        """Rows m that a person has at most."""
        return self.schema.rows_per_unit

    @property
    def _linear(self) -> int:
        """Number of features that are summed, without their products."""
        return self.features.basis.width - (not self.counted)

    @property
    def _pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        first, second = np.triu_indices(self._linear)
        return first, second

    @property
    def width(self) -> int:
        """Number of sums in every cell: of features, then of products."""
        return self._linear + len(self._pairs[0])

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
        cells, summed = self.encode_people(batch.cells, batch.persons)
        totals = [np.bincount(cells, weights=one, minlength=self.size) for one in summed]
        return np.stack(totals, axis=1).ravel()[None].astype(np.int64)

    @property
    def most_added(self) -> int:
        """Bound on the sums of a batch: a person's sums are at most m 2^19, those of 2^15 rows below 2^46."""
        return 2**46

    def encode_people(
        self, raw: Mapping[str, NDArray[Any] | Coded], persons: NDArray[np.int64]
    ) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Map a batch of the rows of whole people, of which ``persons`` says whose each is.

        The sums (width, q) are those of each person in each cell where they have rows, with products cut toward zero.
        """
        placed, rows = CellSum.encode(self, raw, len(persons))
        assert rows is not None
        inside = placed < self.size
        keys, where = np.unique(persons[inside] * self.size + placed[inside], return_inverse=True)
        linear = np.stack([np.bincount(where, row[inside], minlength=len(keys)) for row in rows]).astype(np.int64)
        return (keys % self.size).astype(np.intp), self._with_products(linear)

    def encode(self, raw: Mapping[str, NDArray[Any] | Coded], count: int) -> tuple[NDArray[np.intp], Array | None]:
        """Map a batch as if each row were all that a person has; see `CellSum.encode`."""
        placed, rows = CellSum.encode(self, raw, count)
        assert rows is not None
        return placed, self._with_products(rows.astype(np.int64)).astype(np.float64)

    def _with_products(self, linear: NDArray[np.int64]) -> NDArray[np.int64]:
        first, second = self._pairs
        both = linear[first] * linear[second]
        return np.concatenate([linear, np.sign(both) * (np.abs(both) // self.unit)])

    @cached_property
    def _box(self) -> tuple[Array, Array]:
        """Lower and upper bound of each feature (d,), and of all the boxes that a row's features are forced into."""
        low, high = feature_box(self.features.basis)
        for curve in self.boxes.curves:
            places = list(curve.places)
            low[places] = np.minimum(low[places], curve.lower.min(axis=1))
            high[places] = np.maximum(high[places], curve.upper.max(axis=1))
        return low, high

    def _reach(self, weights: Array, norm: Norm) -> tuple[Reach, int]:
        """Bound a person's sums in one cell, and how far they are from another's there, each sum over its weight.

        Of a person with weight w the sums lie in w A, A the box of features (the first of them 1) and products. Weights
        add up to at most 1 over cells, so that the stacked sums lie in the convex hull of A in one cell and of zero:
        see `docs/people.md`.
        """
        low, high = self._box
        low, high = low[not self.counted :], high[not self.counted :]
        first, second = self._pairs
        ends = np.stack([low[first] * low[second], low[first] * high[second], high[first] * low[second],
                         high[first] * high[second]])  # fmt: skip
        least = np.where(first == second, 0.0, np.minimum(ends.min(axis=0), 0.0))
        lower, upper = np.concatenate([low, least]), np.concatenate([high, np.maximum(ends.max(axis=0), 0.0)])
        scale, power = np.asarray(weights, dtype=np.float64), 2 if norm == "l2" else 1
        longest = ((np.maximum(np.abs(lower), np.abs(upper)) / scale) ** power).sum() ** (1 / power)
        farthest = (((upper - lower) / scale) ** power).sum() ** (1 / power)
        return Reach(float(longest * _MARGIN), float(farthest * _MARGIN)), 1


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
    def most_added(self) -> int:
        """Bound on the counts of a batch."""
        return self.cells.most_added

    @property
    def batch_rows(self) -> int:
        """Most rows of a batch."""
        return self.cells.batch_rows

    def add(self, batch: Batch) -> NDArray[np.int64]:
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
    matrix: NDArray[np.int64]
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

    def finish(self, totals: list[int]) -> list[int]:
        """Return the queries' exact sums, in steps, from the counts of all cells."""
        combined: list[int] = (self.matrix.astype(object) @ np.array(totals, dtype=object)).tolist()
        return combined

    def finish_sets(self, totals: Array) -> Array:
        """Do the same for many data sets (R, G)."""
        return totals @ self.matrix.T


def query_change(matrix: NDArray[np.int64], *, neighbors: Neighbors, norm: Norm, every_row: bool) -> Fraction:
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
    return Fraction(largest) if norm == "l1" else binary(sqrt_above(Fraction(largest), binary))


def _widest_squared(columns: NDArray[np.int64], lengths: NDArray[np.int64]) -> int:
    """Largest squared distance between two rows of ``columns``; all numbers in it are exact."""
    floats, widest = columns.astype(np.float64), 0
    for start in range(0, len(columns), _COMPARED_AT_ONCE):
        products = (floats[start : start + _COMPARED_AT_ONCE] @ floats.T).astype(np.int64)
        widest = max(widest, int((lengths[start : start + _COMPARED_AT_ONCE, None] + lengths - 2 * products).max()))
    return widest


def _widest_l1(columns: NDArray[np.int64]) -> int:
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
