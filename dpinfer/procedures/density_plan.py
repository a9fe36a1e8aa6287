"""The bins of a density, compiled against a schema, and the histograms that its releases hold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import ReleaseFormatError
from dpinfer.inference.histograms import BinCounts, Histograms
from dpinfer.procedures.conditions import compiled_where
from dpinfer.procedures.fine_grid import FINE, FineGrid, bin_edges, histogram_rows
from dpinfer.schema.columns import Integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.kernel.rows.cells import CellSum
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.expressions import Expression
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["DensityPlan"]

_LARGEST = 1e20
"""Bound on noisy counts; the largest noise that can be drawn is far below."""


@dataclass(frozen=True, eq=False)
class DensityPlan:
    """The bins in which the rows of a column are counted.

    Attributes
    ----------
    schema : Schema
    column : str
    bins : "auto", int or tuple of float
    where : str or None
    """

    schema: Schema
    column: str
    bins: str | int | tuple[float, ...] = "auto"
    where: str | None = None

    @cached_property
    def condition(self) -> Expression | None:
        """The compiled ``where``."""
        return compiled_where(self.where, self.schema)

    @cached_property
    def edges(self) -> Array:
        """Edges of given bins (k + 1,)."""
        assert not isinstance(self.bins, str)
        return bin_edges(self.schema, self.column, self.bins)

    @cached_property
    def rows(self) -> CellSum:
        """The row sum of given bins."""
        return histogram_rows(self.schema, self.column, self.edges, self.condition)

    def grid(self, neighbors: str) -> FineGrid:
        """Return the fine grid that bins are chosen from; rows are counted unless their number is public."""
        rows = FineGrid(self.schema, self.column, self.condition)
        public = neighbors == "replace_one" and rows.cells.keeps_every_row
        return FineGrid(self.schema, self.column, self.condition, counted=not public)

    def check(self) -> None:
        """Refuse what the schema cannot serve, before anything is measured."""
        rows = self.grid("add_remove").cells if self.bins == "auto" else self.rows
        _ = rows.columns

    # What releases hold

    def histograms(self, release: Release) -> Histograms:
        """Read a release.

        Raises
        ------
        ReleaseFormatError
            If the bins are not those that the release counts rows in, or its noise is not that of counts.
        """
        laws = {(stage.law.family, stage.law.draws) for stage in release.stages}
        if len(laws) > 1 or not laws <= {("gaussian", 1), ("laplace", 1)}:
            raise ReleaseFormatError("the noise of the release is not such as counts are given")
        if not (np.abs(release.array) <= _LARGEST).all():
            raise ReleaseFormatError("the sums of the release are not such as counts give")
        known: dict[str, Any] = {
            "column": self.column,
            "whole": isinstance(self.schema[self.column], Integer),
            "where": self.where,
            "rows_per_unit": self.schema.rows_per_unit,
            "laplace": release.law.family == "laplace",
        }
        return Histograms(**known, **(self._chosen(release) if self.bins == "auto" else self._given(release)))

    def _given(self, release: Release) -> dict[str, Any]:
        """Read counts in given bins."""
        if len(release.stages) != 1 or release.names != self.rows.names:
            raise ReleaseFormatError("the sums of the release are not those that its question asks for")
        nobs = release.nobs if self.rows.keeps_every_row else None
        return {"measured": _counts(self.edges, release.stages[0]), "nobs": nobs}

    def _chosen(self, release: Release) -> dict[str, Any]:
        """Read counts in fine bins, and in those that were chosen by them."""
        grid = self.grid(release.neighbors)
        if len(release.stages) != 2 + grid.counted:
            raise ReleaseFormatError("stages: not as many as the question asks for")
        first, last = release.stages[-2:]
        fine, width = first.settings["fine"], last.settings["width"]
        known = type(fine) is int and fine in FINE and type(width) is int and width in grid.widths(fine)
        if not known or release.names != grid.names(fine, width):
            raise ReleaseFormatError("the sums of the release are not those that its question asks for")
        measured = _counts(grid.edges(width), last)
        nobs = None if grid.counted else release.nobs
        total = float(measured.counts.sum()) if nobs is None else float(nobs)
        chosen = grid.merged_width(measured.counts, width, nobs=total, noise=measured.noise)
        return {
            "measured": measured,
            "nobs": nobs,
            "merged": -(-chosen // width),
            "fine": _counts(grid.edges(fine), first),
            "finer": -(-width // fine),
        }


def _counts(edges: Array, stage: StageRelease) -> BinCounts:
    """Read the counts of a stage, whose noise is the same in every bin."""
    variances = stage.noise_variances
    if not (variances == variances[0]).all() or not variances[0] > 0:
        raise ReleaseFormatError("counts of one stage have noise of one scale")
    return BinCounts(edges, stage.array, float(variances[0]))
