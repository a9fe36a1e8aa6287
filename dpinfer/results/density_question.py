"""The public question behind a density, and what its releases hold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import DPInferError, ReleaseFormatError
from dpinfer.inference.density import DensityEstimates, bias_estimate
from dpinfer.inference.moment_inference import TARGETS
from dpinfer.results.fine_grid import FINE, FineGrid, bin_edges, histogram_rows, read_edges
from dpinfer.schema.axes import compile_condition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpinfer.kernel.rows.cells import CellSum
    from dpinfer.release import Release
    from dpinfer.schema.expressions import Expression
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["DensityQuestion", "Histograms", "Stage"]

_LARGEST = 1e20
"""Bound on noisy counts; the largest noise that can be drawn is far below."""


@dataclass(frozen=True, eq=False)
class DensityQuestion:
    """Of which column the density is asked for, in which bins.

    Attributes
    ----------
    schema : Schema
    column : str
    bins : "auto", int or tuple of float
    where : str or None
    target : {"population", "data"}
    """

    schema: Schema
    column: str
    bins: str | int | tuple[float, ...] = "auto"
    where: str | None = None
    target: str = "population"

    @cached_property
    def condition(self) -> Expression | None:
        """The compiled ``where``."""
        return None if self.where is None else compile_condition(self.where, self.schema)

    @cached_property
    def edges(self) -> Array:
        """Edges of given bins (k + 1,)."""
        assert not isinstance(self.bins, str)
        return bin_edges(self.schema, self.column, self.bins)

    @cached_property
    def rows(self) -> CellSum:
        """The row function of given bins."""
        return histogram_rows(self.schema, self.column, self.edges, self.condition)

    def staged(self, neighbors: str) -> FineGrid:
        """Return the row function of bins that are chosen from the data."""
        rows = FineGrid(self.schema, self.column, self.condition)
        public = neighbors == "replace_one" and rows.cells.keeps_every_row
        return FineGrid(self.schema, self.column, self.condition, counted=not public)

    def check(self) -> None:
        """Refuse what the schema cannot serve, before anything is measured."""
        rows = self.staged("add_remove").cells if self.bins == "auto" else self.rows
        _ = rows.columns

    @property
    def text(self) -> str:
        """The question in one line."""
        return f"density of {self.column}" + (f", where {self.where}" if self.where else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the question as a JSON-ready mapping."""
        used = {self.column, *(self.condition.columns if self.condition else ())}
        return {
            "text": self.text,
            "column": self.column,
            "bins": list(self.bins) if isinstance(self.bins, tuple) else self.bins,
            "where": self.where,
            "target": self.target,
            "schema": self.schema.select([name for name in self.schema if name in used]).to_dict(),
        }


@dataclass(frozen=True, eq=False)
class Stage:
    """Noisy counts in bins.

    Attributes
    ----------
    edges : ndarray (k + 1,)
    counts : ndarray (k,)
    noise : float
        Noise variance of a count.
    """

    edges: Array
    counts: Array
    noise: float

    def bias(self, merged: int, nobs: float) -> tuple[float, float]:
        """Squared bias, and its standard error, of bins that hold so many of these; see `bias_estimate`."""
        length = float(self.edges[-1] - self.edges[0])
        share = np.diff(self.edges) / length
        if merged == 1:
            return 0.0, 0.0
        return bias_estimate(self.counts, share, merged, nobs=nobs, noise=self.noise, length=length)


@dataclass(frozen=True, eq=False)
class Histograms:
    """What a release of a density holds.

    Attributes
    ----------
    question : DensityQuestion
    measured : Stage
        The counts that the density is made of.
    laplace : bool
    nobs : int or None
        The number of rows in all bins where it is public.
    merged : int
        How many of the measured bins one of the density holds.
    fine : Stage or None
        The first stage, where the bins were chosen from the data.
    finer : int
        How many of its bins a measured one holds.
    """

    question: DensityQuestion
    measured: Stage
    laplace: bool
    nobs: int | None
    merged: int = 1
    fine: Stage | None = None
    finer: int = 1

    @classmethod
    def from_release(cls, release: Release) -> Histograms:
        """Read a release.

        Raises
        ------
        ReleaseFormatError
            If the question is damaged, or does not fit the counts that the release holds.
        """
        try:
            question = _read_question(release)
            found = cls._staged(release, question) if question.bins == "auto" else cls._given(release, question)
        except (KeyError, IndexError, TypeError, ValueError, OverflowError, DPInferError) as error:
            raise ReleaseFormatError(f"the question of the release is damaged: {error}") from error
        if release.law.family not in ("gaussian", "laplace") or release.law.draws > 1:
            raise ReleaseFormatError("the noise of the release is not such as counts are given")
        if not (np.abs(release.array) <= _LARGEST).all():
            raise ReleaseFormatError("the sums of the release are not such as counts give")
        return found

    @classmethod
    def _given(cls, release: Release, question: DensityQuestion) -> Histograms:
        if len(release.stages) != 1 or release.names != question.rows.names:
            raise ReleaseFormatError("the sums of the release are not those that its question asks for")
        measured = Stage(question.edges, release.array, _common(release.noise_variances))
        nobs = release.nobs if question.rows.keeps_every_row else None
        return cls(question, measured, release.law.family == "laplace", nobs)

    @classmethod
    def _staged(cls, release: Release, question: DensityQuestion) -> Histograms:
        fine, width = release.stages[-2].settings["fine"], release.stages[-1].settings["width"]
        rows = question.staged(release.neighbors)
        known = type(fine) is int and fine in FINE and type(width) is int and width in rows.widths(fine)
        if not known or len(release.stages) != 2 + rows.counted or release.names != rows.names(fine, width):
            raise ReleaseFormatError("the sums of the release are not those that its question asks for")
        first, fine_edges = int(rows.counted), rows.edges(fine)
        last = first + len(fine_edges) - 1
        values, noise = release.array, release.noise_variances
        measured = Stage(rows.edges(width), values[last:], _common(noise[last:]))
        nobs = None if rows.counted else release.nobs
        total = float(measured.counts.sum()) if nobs is None else float(nobs)
        chosen = rows.merged_width(measured.counts, width, nobs=total, noise=measured.noise)
        return cls(
            question,
            measured,
            release.law.family == "laplace",
            nobs,
            merged=-(-chosen // width),
            fine=Stage(fine_edges, values[first:last], _common(noise[first:last])),
            finer=-(-width // fine),
        )

    @cached_property
    def edges(self) -> Array:
        """Edges of the bins (k + 1,)."""
        return np.append(self.measured.edges[: -1 : self.merged], self.measured.edges[-1])

    @property
    def widths(self) -> Array:
        """Width of each bin (k,), in the unit of the column; of an Integer how many whole numbers it holds."""
        return np.diff(self.edges)

    def estimates(self, target: str) -> DensityEstimates:
        """Return the noisy counts with what inference needs."""
        starts = np.arange(0, len(self.measured.counts), self.merged)
        return DensityEstimates(
            counts=np.add.reduceat(self.measured.counts, starts)[None],
            widths=self.widths,
            noise=self.measured.noise,
            laplace=self.laplace,
            merged=np.diff(np.append(starts, len(self.measured.counts))),
            nobs=self.nobs,
            population=target == "population",
            alike=self.question.schema.rows_per_unit,
        )

    def bias(self, nobs: float) -> tuple[float, float] | None:
        """Squared bias of the density and its standard error, down to the bins of the first stage; None without one."""
        if self.fine is None:
            return None
        coarse, fine = self.measured.bias(self.merged, nobs), self.fine.bias(self.finer, nobs)
        return coarse[0] + fine[0], float(np.hypot(coarse[1], fine[1]))


def _read_question(release: Release) -> DensityQuestion:
    asked: Mapping[str, Any] = release.question
    bins = read_edges(asked["bins"])
    right = {
        "column": type(asked["column"]) is str,
        "where": isinstance(asked["where"], str | None),
        "target": asked["target"] in TARGETS,
    }
    wrong = [name for name, holds in right.items() if not holds]
    if wrong:
        raise ReleaseFormatError(f"{', '.join(wrong)} of a wrong type")
    question = DensityQuestion(release.schema, asked["column"], bins, asked["where"], asked["target"])
    question.check()
    return question


def _common(variances: Array) -> float:
    if not (variances == variances[0]).all() or not variances[0] > 0:
        raise ReleaseFormatError("counts of one stage have noise of one scale")
    return float(variances[0])
