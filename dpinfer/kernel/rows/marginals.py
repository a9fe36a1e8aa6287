"""Marginals of a table, and counts of each column by class: of every one of them a row is in one cell at most.

A table of many columns need never be held. A row's contribution to the contrasts of a subset A of columns is the
Kronecker product of a column of Helmert's matrix for each column in A. Over the norms of their rows these matrices and
a constant row are orthogonal, so that squared lengths and inner products of contributions are products over columns,
whatever the cells: see `docs/marginals.md`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import NotProvedError, OptionError, names_of, type_of
from dpinfer.kernel.rows.base import CHUNK_ROWS, Array, Batch, Flags, Ints, Places, RowSum
from dpinfer.kernel.rows.cells import MOST_SUMS, CellSum
from dpinfer.kernel.rows.features import Features, FeatureSum
from dpinfer.privacy.exact import binary, sqrt_above
from dpinfer.privacy.sensitivity import Norm, norm_above
from dpinfer.schema.columns import ROWS_KEPT, Integer, Real, cell_classes, class_places, octave_ends

if TYPE_CHECKING:
    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.axes import Axis
    from dpinfer.schema.schema import Schema

    Subset = tuple[int, ...]


MOST_CELLS, MOST_COLUMNS, MOST_SUBSETS = 2**20, 64, 2**13
"""Cells that one marginal may have, columns of all of them, and subsets of columns that are measured."""

EXACT_COLUMNS = 16
"""Columns up to which the distance of two rows is maximised exactly."""

_COUNTED_AT_ONCE = 2**14
"""Cells of several columns that are counted at once: so many counters stay in a processor's cache."""

_SLACK = Fraction(1, 2**36)
"""Of the largest sum: more than its terms, at most 2^14 with 64 factors each, lose to rounding."""


@dataclass(frozen=True, eq=False)
class MarginalSum(FeatureSum):
    """Sums contrasts, or counts, of the cells of marginals: a part for each subset of the axes, by their places.

    A row that is in no part of some axis adds nothing to any. With ``contrasts`` a subset is summed by Helmert's
    contrasts of its levels: the levels before a level, less as many times that level; otherwise by cell.
    """

    features: Features
    axes: tuple[Axis, ...]
    subsets: tuple[Subset, ...]
    contrasts: bool = True

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of levels of every axis."""
        return tuple(axis.size for axis in self.axes)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return self._cells.columns

    @property
    def keeps_every_row(self) -> bool:
        """Whether declared policies make it impossible that a row is in no cell."""
        return self._cells.keeps_every_row

    @cached_property
    def _cells(self) -> CellSum:
        """The table of all axes, which is never counted."""
        return CellSum(self.features, self.axes)

    # What is released

    @cached_property
    def widths(self) -> Places:
        """Sums of every subset."""
        less = int(self.contrasts)
        return np.array([prod(self.shape[i] - less for i in subset) for subset in self.subsets], dtype=np.intp)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each sum is: a level against those before it in each column, or a count."""
        what, first = ("contrast", 1) if self.contrasts else ("count", 0)
        found = []
        for subset in self.subsets:
            labels = [[f"{self.axes[i].name}={label}" for label in self.axes[i].labels[first:]] for i in subset]
            found += [f"{what}[{', '.join(cell)}]" if cell else "count" for cell in product(*labels)]
        return tuple(found)

    @property
    def parts(self) -> tuple[str, ...]:
        """The subsets of columns: each may have noise of its own scale."""
        return tuple(", ".join(self.axes[i].name for i in subset) or "count" for subset in self.subsets)

    @property
    def part_of(self) -> Places:
        """Which subset each sum is of (m,)."""
        return np.repeat(np.arange(len(self.subsets)), self.widths)

    def pattern(self, norm: Norm) -> Array:  # noqa: ARG002
        """Noise in proportion to the norm of a contrast's row, rounded up; the same for all counts (m,)."""
        if not self.contrasts:
            return np.ones(int(self.widths.sum()))
        squared = []  # norms of the rows of products of Helmert's matrices
        for subset in self.subsets:
            found = np.ones(1, dtype=np.int64)
            for i in subset:
                steps = np.arange(1, self.shape[i], dtype=np.int64)
                found = np.multiply.outer(found, steps * (steps + 1)).ravel()
            squared.append(found)
        distinct, where = np.unique(np.concatenate(squared), return_inverse=True)
        return np.array([sqrt_above(Fraction(int(one)), binary) for one in distinct])[where]

    def public(self, neighbors: Neighbors) -> Flags:
        """Under replace_one the sum of the empty subset is the public number of rows, where every row counts."""
        empty = np.repeat([not subset for subset in self.subsets], self.widths)
        return empty & (neighbors == "replace_one" and self.keeps_every_row)

    # Bounds

    def check(self) -> None:
        """Refuse subsets that are none, and more columns, cells or sums than there may be."""
        self.features.check_plain()
        if self.features.basis.width != 1:
            raise OptionError("features", type_of(self.features), "the constant alone: rows are counted")
        count, names = len(self.axes), [axis.name for axis in self.axes]
        if not 1 <= count <= MOST_COLUMNS or len(set(names)) < count:
            raise OptionError("columns", names[:10], f"1 to {MOST_COLUMNS} different columns")
        whole = all(type(i) is int for subset in self.subsets for i in subset) and type(self.contrasts) is bool
        right = all(tuple(sorted({*subset})) == subset and {*subset} <= {*range(count)} for subset in self.subsets)
        if not whole or not right or not any(self.subsets) or len({*self.subsets}) < len(self.subsets):
            raise OptionError("subsets", type_of(self.subsets), "different subsets of columns, in order")
        if len(self.subsets) > MOST_SUBSETS:
            raise OptionError("workload", f"{len(self.subsets):,} subsets of columns", f"at most {MOST_SUBSETS:,}")
        for axis in self.axes:
            if axis.size < 2:
                raise OptionError("columns", axis.name, "columns of two levels or more")
        for subset in self.subsets:
            cells = prod(self.shape[i] for i in subset)
            if cells > MOST_CELLS:
                told = f"{cells:,} cells of {' x '.join(names[i] for i in subset)}"
                raise OptionError("workload", told, f"marginals of at most {MOST_CELLS:,} cells each")
        if max(int(self.widths.sum()), self.entries) > MOST_SUMS:
            raise OptionError(
                "workload", f"{int(self.widths.sum()):,} sums", f"marginals of at most {MOST_SUMS:,} cells together"
            )

    def change(self, weights: Array, neighbors: Neighbors, norm: Norm) -> Fraction:
        """Bound on the change of all sums between neighbours, each over its pattern and its subset's weight.

        A row adds to each count of a subset 0 or 1, once 1; a replaced row moves two at most. A row's contrasts of a
        subset A, over the norms of their rows, have squared length prod_A (1 - 1/m), m the levels of a column, and
        those of two rows that differ in the columns D have inner product prod_{A and D} (-1/m) prod_{A less D} (1 -
        1/m). The pattern is at least the norm.
        """
        if self.contrasts and norm == "l1":
            raise NotProvedError(
                "contrasts of marginals are priced for Gaussian noise; for Laplace noise measure counts"
            )
        scales = [Fraction(one) for one in weights.tolist()]
        power = 1 if norm == "l1" else 2
        costs = [1 / scale**power for scale in scales]
        lengths = list(costs)
        if self.contrasts:
            lengths = [
                cost * prod((Fraction(self.shape[i] - 1, self.shape[i]) for i in subset), start=Fraction(1))
                for cost, subset in zip(costs, self.subsets, strict=True)
            ]
        found = sum(lengths, Fraction(0))
        if neighbors == "replace_one":
            apart = self._apart(costs, lengths)
            found = apart if self.keeps_every_row else max(apart, found)
        rows = self.schema.rows_per_unit
        return rows * norm_above(found, norm)

    def _apart(self, costs: list[Fraction], lengths: list[Fraction]) -> Fraction:
        """Bound on the (squared) distance between two rows, of subsets with these lengths."""
        both = [one for one in zip(costs, lengths, self.subsets, strict=True) if one[2]]  # both rows count
        if not self.contrasts:
            return sum((2 * length for _, length, _ in both), Fraction(0))
        if len(self.axes) > EXACT_COLUMNS:  # each subset alone: one column differs, that of fewest levels
            fewest = [min(self.shape[i] for i in subset) for _, _, subset in both]
            return sum((2 * one[1] * Fraction(m, m - 1) for one, m in zip(both, fewest, strict=True)), Fraction(0))
        total, largest = sum((length for _, length, _ in both), Fraction(0)), max(cost for cost, _, _ in both)
        differ = (np.arange(2 ** len(self.axes))[:, None] >> np.arange(len(self.axes))) & 1 > 0
        factors = np.where(differ, [-1 / m for m in self.shape], [1 - 1 / m for m in self.shape])
        inner = np.zeros(len(differ))
        for cost, _, subset in both:
            inner += float(cost / largest) * factors[:, subset].prod(axis=1)
        return 2 * (total - largest * Fraction(float(inner.min())) + total * _SLACK)

    # Integers

    @cached_property
    def blocks(self) -> tuple[Subset, ...]:
        """Columns that are counted together: every subset is in one of these."""
        return _covering(largest_of(self.subsets), self.shape)

    @property
    def entries(self) -> int:
        """Cells of all blocks."""
        return sum(prod(self.shape[i] for i in block) for block in self.blocks)

    @property
    def batch_rows(self) -> int:
        """Most rows of a batch: nothing is multiplied."""
        return 4 * CHUNK_ROWS

    @cached_property
    def _single(self) -> tuple[CellSum, ...]:
        """Each axis alone, and what ``where`` is true of."""
        plain = Features(self.features.basis)
        return (*(CellSum(plain, (axis,)) for axis in self.axes), CellSum(self.features))

    def add(self, batch: Batch) -> Ints:
        """Count rows in the cells of the blocks (sets, k); a row in no part of some axis is in none."""
        *single, where = self._single
        sets = np.repeat(np.arange(batch.sets), batch.size // batch.sets) if batch.sets > 1 else None
        codes = [one.encode(batch.cells, batch.size)[0] for one in single]
        keep = np.ones(batch.size, dtype=bool)
        for code, levels in zip(codes, self.shape, strict=True):
            keep &= (code >= 0) & (code < levels)
        if self.features.where is not None:
            keep &= where.encode(batch.cells, batch.size)[0] == 0
        if not keep.all():
            codes = [code[keep] for code in codes]
            sets = None if sets is None else sets[keep]
        found = []
        for first, *rest in self.blocks:
            place, size = codes[first] if sets is None else sets * self.shape[first] + codes[first], self.shape[first]
            for i in rest:
                place, size = place * self.shape[i] + codes[i], size * self.shape[i]
            found.append(np.bincount(place, minlength=batch.sets * size).reshape(batch.sets, size))
        return np.concatenate(found, axis=1).astype(np.int64, copy=False)

    def finish_sets(self, totals: Any) -> Any:
        """Return the margins of all blocks, contrasted where contrasts are asked for, from their counts (R, k)."""
        sizes = np.cumsum([prod(self.shape[i] for i in block) for block in self.blocks])
        tables = dict(zip(self.blocks, np.split(totals, sizes[:-1], axis=1), strict=True))
        for subset in largest_of(self.subsets):
            block = next(one for one in self.blocks if {*subset} <= {*one})
            tables[subset] = margin_of(tables[block], block, subset, self.shape)
        found = []
        for subset in self.subsets:
            whole = min((one for one in tables if {*subset} <= {*one}), key=lambda one: tables[one].shape[1])
            table = margin_of(tables[whole], whole, subset, self.shape)
            if self.contrasts:
                table = table.reshape(-1, *(self.shape[i] for i in subset))
                for axis in range(1, table.ndim):  # levels before a level, less as many times that level
                    levels = np.moveaxis(table, axis, -1)
                    steps = np.arange(1, levels.shape[-1]).astype(table.dtype)
                    sums = np.cumsum(levels, axis=-1)[..., :-1] - steps * levels[..., 1:]
                    table = np.moveaxis(sums, -1, axis)
            found.append(table.reshape(len(totals), -1))
        return np.concatenate(found, axis=1)


def margin_of(table: Any, axes: Subset, kept: Subset, shape: tuple[int, ...]) -> Any:
    """Sum tables of some axes (R, cells) over those that are not kept (R, cells); both are in order."""
    whole = table.reshape(-1, *(shape[i] for i in axes))
    gone = tuple(place + 1 for place, i in enumerate(axes) if i not in kept)
    return (whole.sum(axis=gone) if gone else whole).reshape(len(table), -1)


def largest_of(subsets: tuple[Subset, ...]) -> tuple[Subset, ...]:
    """Subsets that are in no other, in the order given."""
    found: list[Subset] = []
    for subset in sorted(subsets, key=len, reverse=True):
        if not any({*subset} <= {*one} for one in found):
            found.append(subset)
    return tuple(one for one in subsets if one in found)


def _covering(subsets: tuple[Subset, ...], shape: tuple[int, ...]) -> tuple[Subset, ...]:
    """Put axes together so that each subset is in some block: blocks grow while more fit in few cells."""
    left, found = {subset: {*subset} for subset in subsets}, []
    while left:
        block = {*next(iter(left))}
        while True:
            size = prod(shape[i] for i in block)
            gains: dict[int, int] = {}
            for subset in left.values():
                beyond = subset - block
                if len(beyond) == 1 and size * shape[next(iter(beyond))] <= _COUNTED_AT_ONCE:
                    gains[next(iter(beyond))] = gains.get(next(iter(beyond)), 0) + 1
            if not gains:
                break
            block.add(max(gains, key=lambda i: (gains[i], -shape[i], -i)))
        left = {one: axes for one, axes in left.items() if not axes <= block}
        found.append(tuple(sorted(block)))
    return tuple(found)


# Each column by class

_MOST_COUNTED = 2**12
"""Columns that are counted at once."""

_EXPONENTS = (-1000, 1000)


@dataclass(frozen=True, eq=False)
class ColumnCounts(RowSum):
    """A histogram of every column of a schema, of classes that exclude each other; and a count of rows."""

    schema: Schema

    counts_rows = False
    """Whether the rows without a cell that drops them are counted, too."""

    @abstractmethod
    def classes(self, name: str) -> tuple[str, ...]:
        """Return the classes of a column."""

    @abstractmethod
    def place(self, name: str, values: Array) -> Places:
        """Return the class of each cell from what the column's `meaning` of it is; any other number for none."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each count is: the classes of every column, and the rows kept."""
        each = (f"{name}: {one}" for name in self.schema for one in self.classes(name))
        return (*each, *((ROWS_KEPT,) if self.counts_rows else ()))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of classes of every column, in the order of the schema."""
        return tuple(len(self.classes(name)) for name in self.schema)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return tuple(sorted(self.schema))

    def check(self) -> None:
        """Refuse too few or too many columns."""
        if not 1 <= len(self.schema) <= _MOST_COUNTED:
            raise OptionError("columns", f"{len(self.schema):,} columns", f"1 to {_MOST_COUNTED:,} columns")

    def change(self, weights: Array, neighbors: Neighbors, norm: Norm) -> Fraction:  # noqa: ARG002  (one part)
        """Bound on the change of all counts between neighbours: exact, a root rounded up.

        A row that is added counts in one class of each column at most; one that is replaced leaves a class and enters
        another. It may also come to count, or no longer, among the rows. Each of the c counts that change does so by 1:
        L1 norm c, L2 norm sqrt c. A person with at most m rows moves the counts by at most m times that.
        """
        moved = (1 if neighbors == "add_remove" else 2) * len(self.schema) + self.counts_rows
        return self.schema.rows_per_unit * norm_above(moved, norm)

    def add(self, batch: Batch) -> Ints:
        """Count cells by class (sets, m), and the rows of which none drops the row: read as by all other sums."""
        with np.errstate(all="ignore"):
            values = {name: self.schema[name].meaning(batch.cells[name]) for name in self.schema}
            placed = [self.place(name, values[name]) for name in self.schema]
        sizes = [*self.sizes]
        if self.counts_rows:
            kept = [np.isfinite(column.settle(values[name])) for name, column in self.schema.items()]
            placed, sizes = [*placed, np.where(np.all(kept, axis=0), 0, 1)], [*sizes, 1]
        counts = []
        for places, size in zip(placed, sizes, strict=True):  # whatever they are, a row is in one class or in none
            inside = np.where((places >= 0) & (places < size), places, size)
            apart = np.repeat(np.arange(batch.sets) * (size + 1), batch.size // batch.sets)
            found = np.bincount(inside + apart, minlength=batch.sets * (size + 1))
            counts.append(found.reshape(batch.sets, size + 1)[:, :-1].astype(np.int64, copy=False))
        return np.concatenate(counts, axis=1)


@dataclass(frozen=True, eq=False)
class ClassCounts(ColumnCounts):
    """Counts of valid, clamped, missing and impossible cells of every column; and of rows that a model of all keeps."""

    counts_rows = True

    @property
    def keeps_every_row(self) -> bool:
        """A row counts in every column; of people those without an id and beyond the bound do not."""
        return self.schema.people is None

    def classes(self, name: str) -> tuple[str, ...]:
        """Return the classes of a column."""
        return cell_classes(self.schema[name])

    def place(self, name: str, values: Array) -> Places:
        """Return the class of each cell."""
        return class_places(self.schema[name], values)


@dataclass(frozen=True, eq=False)
class OctaveRows(ColumnCounts):
    """Counts of the cells of numeric columns by signed octaves, within the declared bounds.

    The ends of octaves are plus and minus 2^k for ``least <= k <= most``. Cells beyond the declared bounds count as
    the bound; missing and impossible ones do not count.
    """

    least: int = -30
    most: int = 60

    keeps_every_row = False  # a row without a number counts in no octave

    def check(self) -> None:
        """Refuse exponents that are none, and columns that are not numbers."""
        super().check()
        ends = (self.least, self.most)
        if not (all(type(end) is int for end in ends) and _EXPONENTS[0] <= ends[0] < ends[1] <= _EXPONENTS[1]):
            raise OptionError("octaves", ends, f"two whole numbers in order, from {_EXPONENTS[0]} to {_EXPONENTS[1]}")
        others = [name for name, column in self.schema.items() if type(column) not in (Real, Integer)]
        if others:
            raise OptionError("columns", names_of(others), "columns that are declared as Real or Integer")

    @cached_property
    def _ends(self) -> dict[str, Array]:
        return {name: octave_ends(self.schema[name], self.least, self.most) for name in self.schema}

    def ends(self, name: str) -> Array:
        """Return the ends of a column's octaves (k + 1,): the declared bounds are the first and the last."""
        return self._ends[name]

    def classes(self, name: str) -> tuple[str, ...]:
        """Return the octaves of a column."""
        ends = self._ends[name].tolist()
        return tuple(f"{low:.15g} to {high:.15g}" for low, high in pairwise(ends))

    def place(self, name: str, values: Array) -> Places:
        """Return the octave of each number."""
        places = np.searchsorted(self._ends[name][1:-1], values, side="right")
        return np.where(np.isfinite(values), places, -1)
