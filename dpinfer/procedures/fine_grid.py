"""The rows of a histogram whose bins are chosen privately: cells of a fine public grid, and the stages they serve."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpinfer.errors import OptionError, SchemaError
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.numerics.bin_choice import choose_measured, choose_merged
from dpinfer.numerics.reading import floats
from dpinfer.schema.axes import BinsAxis
from dpinfer.schema.basis import basis_of
from dpinfer.schema.columns import Integer, Real

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpinfer.schema.expressions import Expression
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["FineGrid", "bin_edges", "histogram_rows", "read_edges"]

CELLS = 3840
"""Cells of the grid, 2^8 times 15; fewer where a column has fewer whole numbers."""

WIDTHS = tuple(sorted(odd * 2**power for odd in (1, 3, 5, 15) for power in range(12) if odd * 2**power <= CELLS))
"""Cells that a bin may hold; neighbours differ by a factor of at most two, from 15 on by at most 4/3."""

FINE = (1, 2, 4, 8, 16, 32, 64, 160, 320)
"""Cells that a bin of the first stage may hold."""

_FEWEST = 12
_PLAIN = 30
_OVER_NOISE, _OVER_SAMPLING = 3.0, 6.0
"""The first stage has at most so many bins: rows over the noise of a bin, and root of the rows, times these."""


@dataclass(frozen=True, eq=False)
class FineGrid:
    """Puts each row into at most one cell of a fine grid over the declared bounds, which every stage coarsens.

    Attributes
    ----------
    schema : Schema
    column : str
        A Real or Integer column.
    where : Expression, optional
        Rows at which it does not hold are in no cell.
    counted : bool
        Whether the first stage counts rows; not where their number is public.
    """

    schema: Schema
    column: str
    where: Expression | None = None
    counted: bool = True

    @cached_property
    def grid(self) -> Array:
        """Edges of the cells; of whole numbers half-way between them."""
        column = numeric_column(self.schema, self.column)
        if not isinstance(column, Integer):
            return np.linspace(column.lower, column.upper, CELLS + 1)
        numbers = int(column.width) + 1
        step = -(-numbers // CELLS)
        return np.asarray([*np.arange(column.lower, column.upper + 1, step) - 0.5, column.upper + 0.5])

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.grid) - 1

    @cached_property
    def cells(self) -> CellSum:
        """The row function of all stages: rows counted in the cells of the grid."""
        return histogram_rows(self.schema, self.column, self.grid, self.where)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return self.cells.columns

    def stage(self, width: int) -> CellSum:
        """Rows counted in bins of so many cells: what one stage measures."""
        return histogram_rows(self.schema, self.column, self.edges(width), self.where)

    def edges(self, width: int) -> Array:
        """Edges of bins of so many cells; the last bin may hold fewer."""
        return np.append(self.grid[:-1:width], self.grid[-1])

    def names(self, fine: int, width: int) -> tuple[str, ...]:
        """Name the released counts, once it is known how many cells the bins of both stages hold."""
        widths = (*((self.size,) if self.counted else ()), fine, width)
        return tuple(name for cells in widths for name in self.stage(cells).names)

    def fine_width(self, nobs: float, noise: float) -> int:
        """Say how many cells a bin of the first stage holds; ``noise`` is the standard deviation of its counts."""
        most = max(min(_OVER_NOISE * nobs / noise, _OVER_SAMPLING * max(nobs, 0.0) ** 0.5), _FEWEST)
        return next(width for width in FINE if -(-self.size // width) <= most)

    def widths(self, fine: int) -> tuple[int, ...]:
        """List the widths that the first stage can tell apart, from all cells on down.

        Bins of a Real column are all equal. The last bin of an Integer column may be smaller; the least of several
        widths is taken that give the same number of bins.
        """
        equal = not isinstance(self.schema[self.column], Integer)
        by_count: dict[int, int] = {1: self.size}
        for width in WIDTHS:
            if width % fine == 0 and width < self.size and not (equal and self.size % width):
                by_count.setdefault(-(-self.size // width), width)
        return tuple(width for _, width in sorted(by_count.items()))

    def bin_width(self, counts: Array, fine: int, *, nobs: float, fine_noise: float, bin_noise: float) -> int:
        """Choose how many cells a bin of the second stage holds, from the noisy counts (F,) of bins of ``fine`` cells.

        ``fine_noise`` and ``bin_noise`` are noise variances of counts in the first and second stage. `merged_width` may
        merge the bins when their counts are known.
        """
        widths = self.widths(fine)
        if not self.counted and len(widths) > 1:  # one bin holds all rows, whose number is public
            widths = tuple(width for width in widths if width < self.size)
        share = np.diff(self.edges(fine)) / (self.grid[-1] - self.grid[0])
        merged = [width // fine if width < self.size else len(share) for width in widths]
        allowed = [self._mergeable(width) for width in widths]
        place = choose_measured(counts, share, merged, allowed, nobs=nobs, noise=fine_noise, later=bin_noise)
        return widths[place]

    def _mergeable(self, width: int) -> bool:
        """Whether bins of so many cells may be counted: many of a Real column can be merged in many ways."""
        count = -(-self.size // width)
        return isinstance(self.schema[self.column], Integer) or count <= _PLAIN or count % 20 == 0

    def merged_width(self, counts: Array, width: int, *, nobs: float, noise: float) -> int:
        """Choose how many cells a bin of the density holds, from the noisy counts (K,) of bins of ``width`` cells.

        ``noise`` is the noise variance of these counts.
        """
        widths = self.widths(width)
        share = np.diff(self.edges(width)) / (self.grid[-1] - self.grid[0])
        merged = [wide // width if wide < self.size else len(share) for wide in widths]
        return widths[choose_merged(counts, share, merged, nobs=nobs, noise=noise)]


def numeric_column(schema: Schema, name: str) -> Real:
    """Return a Real or Integer column.

    Raises
    ------
    SchemaError
        If it is of another kind; `UnknownColumnError` if there is none.
    """
    column = schema[name]
    if not isinstance(column, Real):
        raise SchemaError(f"{name!r} is not numeric: a density needs a Real or an Integer")
    return column


def histogram_rows(schema: Schema, name: str, edges: Array, where: Expression | None) -> CellSum:
    """Return the row function that counts rows in bins.

    Edges of an Integer column lie half-way between whole numbers, the outer ones up to a half beyond the bounds.
    """
    column = numeric_column(schema, name)
    inside = np.clip(edges, column.lower, column.upper) if isinstance(column, Integer) else edges
    return CellSum(Features(basis_of([], schema), where), (BinsAxis(schema, name, tuple(inside.tolist())),))


def bin_edges(schema: Schema, name: str, bins: int | Sequence[float]) -> Array:
    """Return the edges (k + 1,) of a number of equal bins over the declared bounds, or of given edges within them.

    Edges of an Integer column lie half-way between whole numbers. Equal bins are as equal as whole numbers allow. A bin
    with given edges holds the whole numbers from its lower edge on and below its upper one; the last bin holds that
    too.

    Raises
    ------
    OptionError
        If bins are not increasing edges within the bounds, or there are more than the column has whole numbers.
    """
    column = numeric_column(schema, name)
    whole = isinstance(column, Integer)
    if isinstance(bins, int):
        if whole:
            numbers = int(column.width) + 1
            if bins > numbers:
                raise OptionError("bins", bins, f"at most {numbers}: {name!r} has so many whole numbers")
            return np.rint(np.linspace(0, numbers, bins + 1)) + (column.lower - 0.5)
        return np.linspace(column.lower, column.upper, bins + 1)
    edges = np.asarray(bins, dtype=np.float64)
    BinsAxis(schema, name, tuple(edges.tolist()))
    if whole:
        edges = np.append(np.ceil(edges[:-1]) - 0.5, np.floor(edges[-1]) + 0.5)
        if (np.diff(edges) <= 0).any():
            raise OptionError("bins", list(bins), f"bins that each hold a whole number: {name!r} is an Integer")
    return edges


MOST_BINS = 4096


def read_edges(bins: object) -> Literal["auto"] | int | tuple[float, ...]:
    """Read what was given as bins, as far as it does not depend on the column.

    Raises
    ------
    OptionError
    """
    right = f'"auto", a number of equal bins from 1 to {MOST_BINS:,}, or increasing edges within the declared bounds'
    if isinstance(bins, int | np.integer) and not isinstance(bins, bool):
        if not 1 <= bins <= MOST_BINS:
            raise OptionError("bins", bins, right)
        return int(bins)
    if isinstance(bins, str) and bins == "auto":
        return "auto"
    if isinstance(bins, str) or not isinstance(bins, list | tuple | np.ndarray) or not 2 <= len(bins) <= MOST_BINS + 1:
        raise OptionError("bins", bins, right)
    edges = floats(bins)
    if edges is None:
        raise OptionError("bins", bins, right)
    return edges
