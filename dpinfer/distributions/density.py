"""Density estimates: histograms with given or privately chosen bins, and the fine grid from which bins are chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpinfer.checks import is_list, is_whole, named
from dpinfer.distributions.bins import DensityEstimates, choose_measured, choose_merged
from dpinfer.distributions.results import DensityResults
from dpinfer.errors import OptionError, ReleaseFormatError, SchemaError
from dpinfer.kernel.price import amounts, price_stage
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.stage import Context, Data, Slot, Stage, Sum
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import TARGET, compiled_where, inferred, measured, told_where
from dpinfer.procedures.procedure import Procedure, first_error
from dpinfer.schema.axes import BinsAxis
from dpinfer.schema.basis import basis_of
from dpinfer.schema.columns import Integer, Real
from dpinfer.statistics.arrays import Array, floats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.nodes import Expression
    from dpinfer.schema.schema import Schema


CELLS = 3840
"""Cells of the grid, 2^8 times 15; fewer if a column has fewer integers."""

WIDTHS = tuple(sorted(odd * 2**power for odd in (1, 3, 5, 15) for power in range(12) if odd * 2**power <= CELLS))
"""Possible cells per bin; neighbours differ by a factor of at most two, from 15 on by at most 4/3."""

FINE = (1, 2, 4, 8, 16, 32, 64, 160, 320)
"""Possible cells per bin of the first stage."""

MOST_BINS = 4096

_BINS = f'"auto", a number of equal bins from 1 to {MOST_BINS:,}, or increasing edges within the declared bounds'

_FEWEST, _PLAIN = 12, 30
_OVER_NOISE, _OVER_SAMPLING = 3.0, 6.0
"""The first stage has at most so many bins: rows over the noise of a bin, and root of the rows, times these."""

_SHARES = {"rows": Fraction(1, 50), "fine": Fraction(1, 10)}
"""Shares of the budget for the number of rows and the fine counts; the rest is for counts in the chosen bins."""

_LEAST = float(np.finfo(np.float64).tiny)
"""Least noise variance that choices assume; a budget with less is refused when all stages are known."""

_LARGEST = 1e20
"""Bound on noisy counts; the largest noise that can be drawn is far below."""


def read_edges(bins: object) -> Literal["auto"] | int | tuple[float, ...]:
    """Validate the ``bins`` argument, as far as it does not depend on the column.

    Raises
    ------
    OptionError
    """
    if isinstance(bins, str) and bins == "auto":
        return "auto"
    if is_whole(bins) and 1 <= bins <= MOST_BINS:
        return int(bins)
    edges = floats(bins) if is_list(bins) and 2 <= len(bins) <= MOST_BINS + 1 else None
    if edges is None:
        raise OptionError("bins", bins, _BINS)
    return edges


@dataclass(frozen=True, eq=False)
class BinGrid:
    """Assigns each row to at most one cell of a public grid over a column, which the stages coarsen.

    Edges of an Integer column lie half-way between integers, the outer ones a half beyond the bounds. Bins are as equal
    as integers allow. A bin with given edges contains the integers from its lower edge up to, but excluding, its upper
    edge; the last bin includes its upper edge.

    Attributes
    ----------
    schema : Schema
    column : str
        A Real or Integer column.
    bins : "auto", int or sequence of float
        A fine grid over the declared bounds, a number of equal bins over them, or edges within them.
    where : Expression, optional
        Rows that do not meet it are in no cell.
    neighbors : str
    """

    schema: Schema
    column: str
    bins: Literal["auto"] | int | Sequence[float] = "auto"
    where: Expression | None = None
    neighbors: str = "add_remove"

    @cached_property
    def grid(self) -> Array:
        """Edges of the cells.

        Raises
        ------
        SchemaError, UnknownColumnError
            If the column is not numeric, or not declared.
        OptionError
            If bins are not increasing edges within the bounds, or outnumber the integers of the column.
        """
        column, name, bins = self.schema[self.column], self.column, self.bins
        if not isinstance(column, Real):
            raise SchemaError(f"{name!r} is not numeric: a density needs a Real or an Integer")
        if not isinstance(bins, str | int):
            edges = np.asarray(BinsAxis(self.schema, name, tuple(map(float, bins))).edges)
            if not self.whole:
                return edges
            edges = np.append(np.ceil(edges[:-1]) - 0.5, np.floor(edges[-1]) + 0.5)
            if (np.diff(edges) <= 0).any():
                raise OptionError("bins", list(bins), f"bins that each contain a whole number: {name!r} is an Integer")
            return edges
        if not self.whole:
            return np.linspace(column.lower, column.upper, (CELLS if isinstance(bins, str) else bins) + 1)
        numbers = int(column.width) + 1
        if isinstance(bins, str):
            return np.append(np.arange(column.lower, column.upper + 1, -(-numbers // CELLS)) - 0.5, column.upper + 0.5)
        if bins > numbers:
            raise OptionError("bins", bins, f"at most {numbers}: {name!r} has only this many whole numbers")
        return np.rint(np.linspace(0, numbers, bins + 1)) + (column.lower - 0.5)

    @property
    def whole(self) -> bool:
        """Whether the column is an Integer."""
        return isinstance(self.schema[self.column], Integer)

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.grid) - 1

    @property
    def counted(self) -> bool:
        """Whether the first stage counts the rows; it does not if their number is public."""
        return not (self.neighbors == "replace_one" and self.stage(1).keeps_every_row)

    def edges(self, width: int) -> Array:
        """Edges of bins of this many cells; the last bin may have fewer."""
        return np.append(self.grid[:-1:width], self.grid[-1])

    def stage(self, width: int) -> CellSum:
        """Count rows in bins of this many cells: what one stage measures."""
        column: Any = self.schema[self.column]
        edges = np.clip(self.edges(width), column.lower, column.upper)
        axis = BinsAxis(self.schema, self.column, tuple(edges.tolist()))
        return CellSum(Features(basis_of((), self.schema), self.where), (axis,))

    def fine_width(self, nobs: float, noise: float) -> int:
        """Return the cells per bin of the first stage; ``noise`` is the standard deviation of its counts."""
        most = max(min(_OVER_NOISE * nobs / noise, _OVER_SAMPLING * max(nobs, 0.0) ** 0.5), _FEWEST)
        return next(width for width in FINE if -(-self.size // width) <= most)

    def widths(self, fine: int) -> tuple[int, ...]:
        """List the bin widths that the first stage can distinguish, from all cells downwards.

        Bins of a Real column are equal. The last bin of an Integer column may be smaller; if several widths give the
        same number of bins, the smallest is used.
        """
        by_count: dict[int, int] = {1: self.size}
        for width in WIDTHS:
            if width % fine == 0 and width < self.size and (self.whole or not self.size % width):
                by_count.setdefault(-(-self.size // width), width)
        return tuple(width for _, width in sorted(by_count.items()))

    def _parts(self, width: int, widths: tuple[int, ...]) -> tuple[Array, list[int]]:
        """Part of the bounds covered by each bin of this many cells, and how many of these wider bins contain."""
        share = np.diff(self.edges(width)) / (self.grid[-1] - self.grid[0])
        return share, [wide // width if wide < self.size else len(share) for wide in widths]

    def bin_width(self, counts: Array, fine: int, *, nobs: float, fine_noise: float, bin_noise: float) -> int:
        """Choose the cells per bin of the second stage, from noisy counts (F,) in bins of ``fine`` cells.

        ``fine_noise`` and ``bin_noise`` are noise variances of counts in the first and second stage. `merged_width` may
        merge the bins when their counts are known.
        """
        widths = self.widths(fine)
        if not self.counted and len(widths) > 1:  # one bin holds all rows, whose number is public
            widths = tuple(width for width in widths if width < self.size)
        share, merged = self._parts(fine, widths)
        bins = [-(-self.size // width) for width in widths]
        allowed = [self.whole or count <= _PLAIN or count % 20 == 0 for count in bins]  # to be merged in many ways
        return widths[choose_measured(counts, share, merged, allowed, nobs=nobs, noise=fine_noise, later=bin_noise)]

    def merged_width(self, counts: Array, width: int, *, nobs: float, noise: float) -> int:
        """Choose the cells per bin of the density, from noisy counts (K,) in bins of ``width`` cells.

        ``noise`` is the noise variance of these counts.
        """
        widths = self.widths(width)
        return widths[choose_merged(counts, *self._parts(width, widths), nobs=nobs, noise=noise)]


@dataclass(frozen=True, eq=False)
class Density(Procedure):
    """The density of a column. See `density`."""

    procedures = ("density",)

    column: str = measured("", named("the name of a numeric column"))
    bins: Literal["auto"] | int | tuple[float, ...] = "auto"
    where: str | None = None
    target: str = inferred("population", TARGET)

    def check_options(self) -> None:
        """Refuse invalid bins."""
        read_edges(self.bins)

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Describe the question in one line."""
        return f"density of {self.column}{told_where(self.where)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse a column or bins that do not suit the schema."""
        _ = self.grid(schema, neighbors).stage(1).columns

    # What is measured

    def grid(self, schema: Schema, neighbors: str) -> BinGrid:
        """Return the given bins, or the fine grid from which they are chosen."""
        return BinGrid(schema, self.column, self.bins, compiled_where(self.where, schema), neighbors)

    def slots(self, context: Context) -> tuple[Slot, ...]:
        """Split the budget among the number of rows (unless public), the fine counts and the final counts."""
        if self.bins != "auto":
            return (Slot(),)
        grid = self.grid(context.schema, context.neighbors)
        counted = (Slot(_SHARES["rows"], 1),) if grid.counted else ()
        fine = Slot(_SHARES["fine"], grid.size, adaptive=grid.counted)
        rest = 1 - sum((slot.share for slot in counted), fine.share)
        return *counted, fine, Slot(rest, grid.size, adaptive=True)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for counts in given bins; or for the number of rows, fine counts, and counts in chosen bins."""
        grid = self.grid(context.schema, context.neighbors)
        if self.bins != "auto":
            return Stage(Sum(grid.stage(1)))
        counted = grid.counted
        if counted and place == 0:
            return Stage(Sum(grid.stage(grid.size)))
        # The noise variance of a count of this stage is known before its bins are: it is that of bins of any width.
        priced = price_stage(Stage(Sum(grid.stage(1))), amounts(context.privacy, self.slots(context))[place], context)
        noise = max(float(priced.law.variances[0]) * priced.steps[0] ** 2, _LEAST)
        nobs = float(released[0].array[0]) if counted else float(context.nobs or 0)
        if place == int(counted):
            fine = grid.fine_width(nobs, float(np.sqrt(noise)))
            return Stage(Sum(grid.stage(fine)), settings={"fine": fine})
        first = released[-1]
        counts, fine_noise = first.array, max(float(first.noise_variances[0]), _LEAST)
        if counted:
            row_noise = float(released[0].noise_variances[0])
            nobs += row_noise / (row_noise + fine_noise * len(counts)) * (float(counts.sum()) - nobs)
        fine = int(first.settings["fine"])
        width = grid.bin_width(counts, fine, nobs=nobs, fine_noise=fine_noise, bin_noise=noise)
        return Stage(Sum(grid.stage(width)), settings={"width": width})

    def check_release(self, release: Release) -> None:
        """Refuse a release whose counts are not those of the bins."""
        self._read(release)

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement and its noise, before any budget is spent.

        Returns
        -------
        str
            The measurement, its bound, noise and guarantee; and the noise of the counts.
        """
        errors = [first_error(stage) for stage in measured.stages]
        named = ["the number of rows", "a fine count", "a count of the chosen bins"][-len(errors) :]
        named = named if self.bins == "auto" else ["a count"]
        shown = [f"{words} {error:.4g}" for words, error in zip(named, errors, strict=True)]
        return (
            f"question     {measured.text}\n{measured.describe()}\n"
            f"standard deviation of the noise, in rows: {', '.join(shown)}\n"
            "a density is a count divided by the number of rows and the width of its bin, and so is its noise; "
            f"sampling error alone is as large in a bin of {errors[-1] ** 2:.4g} rows"
        )

    # What is inferred

    def infer(self, release: Release | None = None) -> DensityResults:
        """Infer from a stored release of this question, at no further privacy cost.

        Raises
        ------
        InferenceError
            If the release was made for another question.
        """
        return self._read(self._asked_of(release)[0])

    def _read(self, release: Release) -> DensityResults:
        """Read the counts in given bins; or in fine bins, and in the bins chosen from them.

        Raises
        ------
        ReleaseFormatError
            If the release counts rows in other bins, or its noise is not that of counts.
        """
        laws = {(stage.law.family, stage.law.draws) for stage in release.stages}
        if len(laws) > 1 or not laws <= {("gaussian", 1), ("laplace", 1)}:
            raise ReleaseFormatError("the noise of the release is not that of counts")
        if not (np.abs(release.array) <= _LARGEST).all():
            raise ReleaseFormatError("the sums of the release cannot be counts")
        other = ReleaseFormatError("the sums of the release are not those that its question asks for")
        chosen, grid, widths = self.bins == "auto", self.grid(release.schema, release.neighbors), [1]
        if chosen:
            if len(release.stages) != 2 + grid.counted:
                raise ReleaseFormatError("the number of stages is not that of the question")
            fine, width = release.stages[-2].settings["fine"], release.stages[-1].settings["width"]
            if type(fine) is not int or fine not in FINE or type(width) is not int or width not in grid.widths(fine):
                raise other
            widths = [*([grid.size] if grid.counted else []), fine, width]
        if len(release.stages) != len(widths) or release.names != tuple(
            name for width in widths for name in grid.stage(width).names
        ):
            raise other
        nobs, sampled = None if grid.counted else release.nobs, self.target == "population"
        counts = []
        for stage, width in list(zip(release.stages, widths, strict=True))[-2:]:
            variances, laplace = stage.noise_variances, stage.law.family == "laplace"
            if not (variances == variances[0]).all() or not variances[0] > 0:
                raise ReleaseFormatError("counts of one stage have noise of one scale")
            noise, edges, alike = float(variances[0]), grid.edges(width), release.schema.rows_per_unit
            counts.append(DensityEstimates(stage.array[None], edges, noise, laplace, 1, nobs, sampled, alike))
        last = counts[-1]
        found = DensityResults(release, self.column, last, self.target, self.where)
        if not chosen:
            return found
        merged = grid.merged_width(last.counts[0], width, nobs=float(last.total[0, 0]), noise=last.noise)
        return replace(found, merged=-(-merged // width), fine=counts[0], finer=-(-width // fine))


@suggests
def density(
    column: str,
    data: Data | Release | None = None,
    *,
    bins: str | int | Sequence[float] = "auto",
    where: str | None = None,
    target: str = "population",
) -> Density:
    """Estimate the density of a numeric column by a histogram over its declared bounds.

    Parameters
    ----------
    column : str
        A Real or Integer column.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    bins : "auto", int or sequence of float
        "auto" chooses the number of equal bins privately, from counts in finer bins. A number gives equal bins over the
        declared bounds. Increasing edges within the bounds restrict the density to the rows between them. For an
        Integer column the width of a bin is the number of integers in it.
    where : str, optional
        A condition on declared columns; other rows are ignored.
    target : {"population", "data"}
        "data" treats the rows as the whole population: standard errors include privacy noise only.

    Returns
    -------
    Density
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    OptionError
        If bins are none of these; with data, also if they do not fit the declared bounds.
    UnknownColumnError, SchemaError
        If the column is not declared, or not numeric.
    FormulaError
        If ``where`` does not suit the schema.

    Notes
    -----
    A row is in at most one bin. With ``bins="auto"`` one measurement releases three noisy histograms: a single bin (2%
    of the budget; omitted if the number of rows is public), fine bins (10%), and the bins that the first two choose.
    Their own counts decide which of these bins are merged, at no privacy cost. Proofs, formulas and simulations are in
    `docs/density.md`. The method follows Wasserman & Zhou (2010), with the two stages that they leave open.

    Examples
    --------
    >>> import pandas as pd
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame({"share": rng.beta(2, 5, 20_000)})
    >>> data = dpi.PublicData(frame, dpi.Schema(share=dpi.Real(0, 1)), rng=rng)
    >>> results = dpi.density("share", data).fit(dpi.PureDP(1.0))
    >>> 20 < results.bins < 200
    True
    >>> bool(abs(results.density(0.2) - 2.4576) < 0.4)
    True
    """
    return Density.asking(locals(), bins=read_edges(bins))
