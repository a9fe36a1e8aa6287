"""Counts of cells, column by column: of each column a row is in one class at most."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError, names_of
from dpinfer.kernel.rows.base import Batch, RowSum
from dpinfer.privacy.exact import binary, sqrt_above
from dpinfer.schema.columns import ROWS_KEPT, Integer, Real, cell_classes, class_places, octave_ends

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Places = NDArray[np.intp]

__all__ = ["MOST_COLUMNS", "ClassCounts", "ColumnCounts", "OctaveRows"]

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
    def counts_moved(self, neighbors: Neighbors) -> int:
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
        moved = Fraction(self.counts_moved(neighbors))
        return self.schema.rows_per_unit * (moved if norm == "l1" else Fraction(sqrt_above(moved, binary)))

    def add(self, batch: Batch) -> Ints:
        """Count cells by class (sets, m)."""
        with np.errstate(all="ignore"):
            values = {name: self.schema[name].meaning(batch.cells[name]) for name in self.schema}
            placed = [self.place(name, values[name]) for name in self.schema]
        counts = [_counted(places, size, batch) for places, size in zip(placed, self.sizes, strict=True)]
        return np.concatenate([*counts, *self.further(values, batch)], axis=1)

    def further(self, values: Mapping[str, Array], batch: Batch) -> tuple[Ints, ...]:  # noqa: ARG002
        """Count more than cells, each (sets, 1); by default nothing."""
        return ()


def _counted(places: Places, size: int, batch: Batch) -> Ints:
    """Count places (rows,) in every data set (sets, size): whatever they are, a row is in one of them or in none."""
    places = np.where((places >= 0) & (places < size), places, size)
    apart = np.repeat(np.arange(batch.sets) * (size + 1), batch.size // batch.sets)
    counts = np.bincount(places + apart, minlength=batch.sets * (size + 1))
    return counts.reshape(batch.sets, size + 1)[:, :-1].astype(np.int64, copy=False)


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
        return class_places(self.schema[name], values)

    def counts_moved(self, neighbors: Neighbors) -> int:
        """Return the number of counts that one row can change: two of each column if replaced, and the rows kept."""
        return (1 if neighbors == "add_remove" else 2) * len(self.schema) + 1

    def further(self, values: Mapping[str, Array], batch: Batch) -> tuple[Ints, ...]:
        """Count the rows without a cell that drops them."""
        dropped = np.zeros(batch.size, dtype=bool)
        for name, column in self.schema.items():
            dropped |= ~np.isfinite(column.settle(values[name]))
        return (_counted(dropped.astype(np.intp), 1, batch),)


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
        return tuple(f"{low:.15g} to {high:.15g}" for low, high in pairwise(ends))

    def place(self, name: str, values: Array) -> Places:
        """Return the octave of each number."""
        places = np.searchsorted(self._ends[name][1:-1], values, side="right")
        return np.where(np.isfinite(values), places, -1)

    def counts_moved(self, neighbors: Neighbors) -> int:
        """Return the number of counts that one row can change: one of each column, two if it is replaced."""
        return (1 if neighbors == "add_remove" else 2) * len(self.schema)
