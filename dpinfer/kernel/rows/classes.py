"""Counts of cells, column by column: of each column a row is in one class at most."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError, names_of
from dpinfer.kernel.rows.base import Batch, RowSum
from dpinfer.privacy.exact import binary, sqrt_above
from dpinfer.schema.category import Category
from dpinfer.schema.clamping import limits_of
from dpinfer.schema.real import Integer, Real

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.column import Column
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Places = NDArray[np.intp]

__all__ = [
    "HIGH",
    "IMPOSSIBLE",
    "LOW",
    "MISSING",
    "MOST_COLUMNS",
    "ROWS_KEPT",
    "UNKNOWN",
    "VALID",
    "ClassCounts",
    "ColumnCounts",
    "OctaveRows",
    "cell_classes",
    "octave_ends",
]

VALID, LOW, HIGH, MISSING, IMPOSSIBLE, UNKNOWN = (
    "valid",
    "clamped low",
    "clamped high",
    "missing",
    "impossible",
    "unknown level",
)
"""Classes of cells."""

ROWS_KEPT = "rows kept"

MOST_COLUMNS = 2**12
"""Columns that are counted at once."""

_EXPONENTS = (-1000, 1000)


@dataclass(frozen=True, eq=False)
class ColumnCounts(RowSum):
    """A histogram of every column of a schema, of classes that exclude each other."""

    schema: Schema

    @abstractmethod
    def classes(self, name: str) -> tuple[str, ...]:
        """Return the classes of a column."""

    @abstractmethod
    def place(self, name: str, values: Array) -> Places:
        """Return the class of each cell from what the column's `meaning` of it is; any other number for none."""

    @abstractmethod
    def squared(self, neighbors: Neighbors) -> int:
        """Return the number of counts that one row can change between neighbours, each by 1."""

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of classes of every column, in the order of the schema."""
        return tuple(len(self.classes(name)) for name in self.schema)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each count is."""
        return tuple(f"{name}: {one}" for name in self.schema for one in self.classes(name))

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return tuple(sorted(self.schema))

    @property
    def units(self) -> Array:
        """The number 1 in each integer sum (m,)."""
        return np.ones(len(self.names))

    @property
    def most_added(self) -> int:
        """Bound on the counts of a batch."""
        return 2**34

    def check(self) -> None:
        """Refuse too few or too many columns."""
        if not 1 <= len(self.schema) <= MOST_COLUMNS:
            raise OptionError("columns", f"{len(self.schema):,} columns", f"1 to {MOST_COLUMNS:,} columns")

    def change(self, weights: Array, neighbors: Neighbors, norm: Norm) -> Fraction:  # noqa: ARG002  (one part)
        """Bound on the change of all counts between neighbours: exact, a root rounded up.

        A row that is added counts in one class of each column at most; one that is replaced leaves a class and enters
        another. Each of the c counts that change does so by 1: L1 norm c, L2 norm sqrt c. A person with at most m rows
        moves the counts by at most m times that.
        """
        self.check()
        moved = Fraction(self.squared(neighbors))
        return self.schema.rows_per_unit * (moved if norm == "l1" else Fraction(sqrt_above(moved, binary)))

    def add(self, batch: Batch) -> Ints:
        """Count cells by class (sets, m)."""
        found = []
        for name, size in zip(self.schema, self.sizes, strict=True):
            with np.errstate(all="ignore"):
                values = self.schema[name].meaning(batch.cells[name])
                places = self.place(name, values)
            places = np.where((places >= 0) & (places < size), places, size)  # a cell is in one class or in none
            found.append(_counted(places, size, batch))
        return np.concatenate(found, axis=1)


def _counted(places: Places, size: int, batch: Batch) -> Ints:
    """Count places (rows,) below ``size`` in every data set (sets, size)."""
    apart = np.repeat(np.arange(batch.sets) * (size + 1), batch.size // batch.sets)
    counts = np.bincount(places + apart, minlength=batch.sets * (size + 1))
    return counts.reshape(batch.sets, size + 1)[:, :-1].astype(np.int64, copy=False)


def cell_classes(column: Column) -> tuple[str, ...]:
    """Return the classes of a column's cells: bounds are those of numbers, levels those of a Category."""
    if isinstance(column, Real):
        return (VALID, LOW, HIGH, MISSING, IMPOSSIBLE)
    return (VALID, MISSING, UNKNOWN if isinstance(column, Category) else IMPOSSIBLE)


@dataclass(frozen=True, eq=False)
class ClassCounts(ColumnCounts):
    """Counts of valid, clamped, missing and impossible cells of every column; and of rows that a model of all keeps.

    Cells are read, and rows kept, by the code that all other sums use.
    """

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each count is: the classes of every column, and the rows kept."""
        return (*(f"{name}: {one}" for name in self.schema for one in self.classes(name)), ROWS_KEPT)

    @property
    def keeps_every_row(self) -> bool:
        """A row counts in every column; of people those without an id and beyond the bound do not."""
        return self.schema.people is None

    def classes(self, name: str) -> tuple[str, ...]:
        """Return the classes of a column."""
        return cell_classes(self.schema[name])

    def place(self, name: str, values: Array) -> Places:
        """Return the class of each cell."""
        listed, (lower, upper) = self.classes(name), limits_of(self.schema[name])
        places = np.where(np.isnan(values), listed.index(MISSING), len(listed) - 1)
        finite = np.isfinite(values)
        places = np.where(finite, 0, places)
        if LOW in listed:
            places = np.where(finite & (values < lower), listed.index(LOW), places)
            places = np.where(finite & (values > upper), listed.index(HIGH), places)
        return places

    def squared(self, neighbors: Neighbors) -> int:
        """Return the number of counts that one row can change: two of each column if replaced, and the rows kept."""
        return (1 if neighbors == "add_remove" else 2) * len(self.schema) + 1

    def add(self, batch: Batch) -> Ints:
        """Count cells by class, and rows without a cell that drops them (sets, m)."""
        dropped = np.zeros(batch.size, dtype=np.intp)
        for name in self.schema:
            dropped |= ~np.isfinite(self.schema[name].coerce(batch.cells[name]))
        return np.concatenate([super().add(batch), _counted(dropped, 1, batch)], axis=1)


@dataclass(frozen=True, eq=False)
class OctaveRows(ColumnCounts):
    """Counts of the cells of numeric columns by signed octaves, within the declared bounds.

    The ends of octaves are plus and minus 2^k for ``least <= k <= most``. Cells beyond the declared bounds count as
    the bound; missing and impossible ones do not count.
    """

    least: int = -30
    most: int = 60

    def check(self) -> None:
        """Refuse exponents that are none, and columns that are not numbers."""
        super().check()
        ends = (self.least, self.most)
        if not (all(type(end) is int for end in ends) and _EXPONENTS[0] <= ends[0] < ends[1] <= _EXPONENTS[1]):
            raise OptionError("octaves", ends, f"two whole numbers in order, from {_EXPONENTS[0]} to {_EXPONENTS[1]}")
        others = [name for name, column in self.schema.items() if type(column) not in (Real, Integer)]
        if others:
            raise OptionError("columns", names_of(others), "columns that are declared as Real or Integer")

    @property
    def keeps_every_row(self) -> bool:
        """A row without a number counts in no octave."""
        return False

    @cached_property
    def _ends(self) -> dict[str, Array]:
        return {name: octave_ends(self.schema[name], self.least, self.most) for name in self.schema}

    def ends(self, name: str) -> Array:
        """Return the ends of a column's octaves (k + 1,): the declared bounds are the first and the last."""
        return self._ends[name]

    def classes(self, name: str) -> tuple[str, ...]:
        """Return the octaves of a column."""
        ends = self._ends[name].tolist()
        return tuple(f"{low:.15g} to {high:.15g}" for low, high in zip(ends[:-1], ends[1:], strict=True))

    def place(self, name: str, values: Array) -> Places:
        """Return the octave of each number."""
        places = np.searchsorted(self._ends[name][1:-1], values, side="right")
        return np.where(np.isfinite(values), places, -1)

    def squared(self, neighbors: Neighbors) -> int:
        """Return the number of counts that one row can change: one of each column, two if it is replaced."""
        return (1 if neighbors == "add_remove" else 2) * len(self.schema)


def octave_ends(column: Any, least: int, most: int) -> Array:
    """Return the powers of two, of both signs, strictly within a column's bounds, between these."""
    lower, upper = limits_of(column)
    first = max(least, 0) if isinstance(column, Integer) else least
    powers = np.exp2(np.arange(first, max(most, first) + 1, dtype=np.float64))
    inner = np.concatenate([-powers[::-1], powers])
    return np.concatenate([[lower], inner[(inner > lower) & (inner < upper)], [upper]])
