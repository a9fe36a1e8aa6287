"""Linear queries: chosen combinations of the counts of a table's cells."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.distance import cdist

from dpinfer.errors import OptionError, type_of
from dpinfer.kernel.rows.counted import CountedSum
from dpinfer.privacy.exact import binary, sqrt_above

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.kernel.rows.cells import CellSum
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["LARGEST_WEIGHT", "MOST_CELLS", "MOST_QUERIES", "QuerySum", "query_change"]

LARGEST_WEIGHT = 2**19
"""Whole-number weights are at most this: so inner products of up to 2^15 of them are exact in float64."""

MOST_QUERIES, MOST_CELLS = 2**15, 2**12
_BLOCK = 256


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
    for start in range(0, len(columns), _BLOCK):
        products = (floats[start : start + _BLOCK] @ floats.T).astype(np.int64)
        widest = max(widest, int((lengths[start : start + _BLOCK, None] + lengths - 2 * products).max()))
    return widest


def _widest_l1(columns: NDArray[np.int64]) -> int:
    """Largest L1 distance between two rows of ``columns``; pairs near their middle need not be compared."""
    floats = columns.astype(np.float64)
    radius = np.abs(floats - np.rint(np.median(floats, axis=0))).sum(axis=1)
    order = np.argsort(-radius)
    floats, radius, widest = floats[order], radius[order], 0
    for start in range(0, len(floats), _BLOCK):
        if 2 * radius[start] <= widest:
            break
        distances = cdist(floats[start : start + _BLOCK], floats[start:], "cityblock")
        widest = max(widest, int(distances.max()))
    return widest
