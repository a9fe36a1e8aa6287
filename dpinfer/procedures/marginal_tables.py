"""What a release of marginals answers: counts, shares and ratios of each marginal, and noise for tests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import MissingFromReleaseError, OptionError, ReleaseFormatError, named, type_of
from dpinfer.inference.marginal_inference import (
    Joint,
    MarginalInference,
    count_estimates,
    joint_counts,
    joint_shares,
    share_estimates,
)
from dpinfer.inference.marginals import centered_margins
from dpinfer.inference.moment_inference import intervals
from dpinfer.inference.nonnegative import nonnegative
from dpinfer.inference.released import Released
from dpinfer.inference.testing.count_noise import Components, TableNoise
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.conditions import where_notes
from dpinfer.procedures.described import MOST_ESTIMATES, Described, levels_shown
from dpinfer.procedures.options import texts_of
from dpinfer.procedures.stored import context_of
from dpinfer.procedures.sum_plan import SumPlan
from dpinfer.procedures.table_axes import axis_name
from dpinfer.release.codec import encode
from dpinfer.results.descriptions import ProportionResults, TableResults
from dpinfer.results.people import alike_flags, separate_flags

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.inference.marginals import CenteredMargins, Subset
    from dpinfer.inference.moments import Estimates
    from dpinfer.numerics.arrays import Array
    from dpinfer.procedures.marginal_plan import MarginalPlan
    from dpinfer.release import Release
    from dpinfer.results.descriptions import DescriptionResults
    from dpinfer.schema.axes import Axis

__all__ = ["MarginalTables"]


@dataclass(frozen=True, eq=False)
class MarginalTables:
    """The marginals of a release; implements `CountedTable`.

    Attributes
    ----------
    release : Release
    plan : MarginalPlan
    marginals : tuple of tuple of str, optional
        Those that are asked for; by default all of the workload.
    """

    release: Release
    plan: MarginalPlan
    marginals: tuple[tuple[str, ...], ...] | None = None

    @cached_property
    def found(self) -> CenteredMargins:
        """What the release tells of all subsets of columns."""
        rows = self.plan.rows(pure=self._pure)
        return centered_margins(Released.of_release(self.release, context_of(self.release), rows))

    @cached_property
    def keeps_every_row(self) -> bool:
        """Whether every row is in some cell."""
        return self.plan.rows(pure=False).keeps_every_row

    @property
    def nobs(self) -> int | None:
        """The number of rows, where it is public and all are counted."""
        return self.release.nobs if self.keeps_every_row else None

    @property
    def workload(self) -> tuple[tuple[str, ...], ...]:
        """Columns of each marginal that was asked for."""
        return self.plan.marginals if self.marginals is None else self.marginals

    def asked(self, marginals: tuple[tuple[str, ...], ...]) -> MarginalTables:
        """Return the same of some marginals."""
        return replace(self, marginals=marginals)

    def holds(self, marginals: Sequence[Sequence[str]], axes: Sequence[Mapping[str, Any]]) -> bool:
        """Whether marginals of columns that are cut alike are in those that were measured."""
        theirs = [encode(dict(axis)) for axis in self.plan.axes]
        names = [axis_name(axis) for axis in self.plan.axes]
        alike = all(encode(dict(axis)) in theirs for axis in axes)
        return alike and all(tuple(sorted(map(names.index, one))) in self.plan.closure for one in marginals)

    def check(self) -> None:
        """Refuse a damaged release.

        Raises
        ------
        ReleaseFormatError
        """
        law = self.release.law
        if law.family not in ("gaussian", "laplace") or (law.family == "laplace") != self._pure:
            raise ReleaseFormatError("law: the noise of marginals is Gaussian, and Laplace at a PureDP price")

    @property
    def _pure(self) -> bool:
        return isinstance(self.release.cost.price, PureDP)

    def subset(self, columns: Sequence[str]) -> Subset:
        """Places of columns, in the order given.

        Raises
        ------
        OptionError
            If they are no texts.
        MissingFromReleaseError
            If no marginal holds them together.
        """
        chosen = texts_of(columns)
        if len(chosen) < len(columns):
            raise OptionError("columns", type_of(columns), "columns of a marginal, as texts")
        names = [axis_name(axis) for axis in self.plan.axes]
        places = tuple(names.index(one) for one in chosen if one in names)
        if len({*places}) < len(chosen) or tuple(sorted(places)) not in self.plan.closure:
            told = ", ".join(map(named, chosen))
            asked = "; ".join(" x ".join(marginal) for marginal in self.workload[:5])
            more = "; ..." if len(self.workload) > 5 else ""
            raise MissingFromReleaseError(f"no marginal of the release holds {told} together; it has {asked}{more}")
        return places

    def axes(self, columns: Sequence[str]) -> tuple[Axis, ...]:
        """Return the axes of a marginal, in the order given."""
        return tuple(self.plan.cells[place] for place in self.subset(columns))

    # Counts

    def unbiased(self, columns: Sequence[str]) -> Array:
        """Return the counts of a marginal, which may be negative (cells,)."""
        return np.asarray(self.found.table(self.subset(columns))[0])

    def estimates(self, columns: Sequence[str], target: str) -> Estimates:
        """Estimate the counts of a marginal, each cell as a group."""
        most = self.plan.schema.rows_per_unit
        subset, population = self.subset(columns), target == "population"
        return count_estimates(self.found, subset, population=population, nobs=self.nobs, rows_per_unit=most)

    def index(self, columns: Sequence[str]) -> Described:
        """Names and labels of the cells of a marginal."""
        axes = self.axes(columns)
        return Described(self._plan(columns), ["count"], axes)

    def margin(self, columns: Sequence[str], *, inference: str, target: str) -> TableResults:
        """Infer the counts of some columns; see `CountedTable`."""
        subset, described = self.subset(columns), self.index(columns)
        _refuse_many(self.found.cells(subset))
        estimates = self.estimates(columns, target)
        joint = joint_counts(self.found, subset, estimates, self.nobs)
        found = self._inference(estimates, described, joint, inference, target, columns)
        return TableResults(
            found,
            self.release,
            table=self,
            model_name="Private count",
            response=" x ".join(columns) or "rows",
            notes=where_notes(self.plan.where),
            quantity="count",
            index=described.index,
        )

    def _inference(
        self,
        estimates: Estimates,
        described: Described,
        joint: Joint,
        inference: str,
        target: str,
        columns: Sequence[str],
    ) -> MarginalInference:
        if inference not in MarginalInference.methods:
            raise OptionError("inference", inference, MarginalInference.methods)
        schema, groups = self.plan.schema, estimates.size.shape[1]
        return MarginalInference(
            estimates=estimates,
            names=described.names,
            shift=described.shift,
            factor=described.factor,
            nobs=float(self.found.centered[()][0, 0]),
            nobs_is_public=self.nobs is not None,
            method="score" if inference == "auto" else inference,
            target=target,
            law=self.found.law,
            steps=self.found.steps,
            labels=described.labels,
            notes=(*alike_flags(schema, target), *separate_flags(schema, groups, target)),
            joint=joint,
            sources=() if estimates.alone is None else self.found.sources(self.subset(columns)),
        )

    def _plan(self, columns: Sequence[str]) -> SumPlan:
        axes = tuple(self.plan.axes[place] for place in self.subset(columns))
        return SumPlan("table", self.plan.schema, axes=axes, where=self.plan.where, target="data")

    # Shares and ratios

    def proportions(
        self, column: str, by: str | Sequence[str], *, inference: str, target: str = "population"
    ) -> DescriptionResults:
        """Infer the shares of the levels of a column, in groups of others; see `CountedTable`."""
        columns = (*((by,) if isinstance(by, str) else by), column)
        subset, axes = self.subset(columns), self.axes(columns)
        _refuse_many(self.found.cells(subset))
        groups, levels = self.found.cells(subset) // axes[-1].size, axes[-1].size
        truth = axes[-1].labels == (False, True)
        each = np.vstack([np.ones(levels), np.eye(levels)[int(truth) :]])
        places = np.einsum("gh,ql->gqhl", np.eye(groups), each).reshape(groups, len(each), -1)
        estimates = self._shares(subset, places, target)
        described = Described(self._plan(columns), levels_shown(axes[-1]), axes[:-1])
        joint = joint_shares(self.found, subset, places, estimates)
        sizes = np.repeat(estimates.size[0], len(described.quantities))
        return ProportionResults(
            self._inference(estimates, described, joint, inference, target, columns),
            self.release,
            model_name="Private proportion",
            response=column,
            notes=where_notes(self.plan.where),
            quantity="proportion",
            index=described.index,
            sizes=pd.Series(sizes, index=described.index),
        )

    def _shares(self, subset: Subset, places: Array, target: str) -> Estimates:
        most, population = self.plan.schema.rows_per_unit, target == "population"
        return share_estimates(self.found, subset, places, population=population, rows_per_unit=most)

    def share(
        self, inside: Mapping[str, Any], beside: Mapping[str, Any], *, alpha: float, inference: str, target: str
    ) -> tuple[Estimates, Array]:
        """Infer the share of some cells in these and others: estimates, and the interval (2,).

        Raises
        ------
        OptionError
            If a level is none, or a cell is in both.
        """
        columns = tuple(dict.fromkeys((*inside, *beside)))
        subset, axes = self.subset(columns), self.axes(columns)
        first, second = (_cells("numerator" if one is inside else "denominator", one, axes) for one in (inside, beside))
        if (first & second).any():
            raise OptionError("denominator", dict(beside), "cells other than those of the numerator")
        places = np.stack([first | second, first])[None].astype(np.float64)
        estimates = self._shares(subset, places, target)
        method = "score" if inference == "auto" else inference
        return estimates, intervals(estimates, alpha, method=method)[0, 0, 0]

    # Tests and display

    def noise(self, columns: Sequence[str]) -> TableNoise:
        """Return the noise of the cells of one column or two, as tests of counts take it."""
        subset = self.subset(columns)
        parts = self.found.components(subset)
        common, both = parts[()], parts[subset]
        rows, columns_only = (parts[(one,)] for one in subset) if len(subset) == 2 else (both, both)
        shape = tuple(self.found.shape[i] for i in subset)
        return TableNoise(shape, Components(common, rows, columns_only, both), self.found.sources(subset))

    def displayed(self, columns: Sequence[str]) -> Array:
        """Return counts of a marginal that are not negative, and agree with those of the others (cells,)."""
        return np.asarray(np.maximum(self._nonnegative.table(self.subset(columns))[0], 0.0))

    @cached_property
    def _nonnegative(self) -> CenteredMargins:
        return nonnegative(self.found, self.plan.workload)

    def simulated(self, size: int, seed: int) -> dict[tuple[str, ...], Array]:
        """Draw the noise of all marginals together, by the marginal: (size, cells) each."""
        rows = self.plan.rows(pure=self._pure)
        drawn = self.release.law.rvs(size, np.random.default_rng(seed)) * np.asarray(self.release.steps)
        released = Released.of_release(self.release, context_of(self.release), rows)
        moved = centered_margins(replace(released, values=released.values + drawn))  # noqa: PD011  (of releases)
        subsets = {marginal: self.subset(marginal) for marginal in self.workload}
        return {one: moved.table(subset) - self.found.table(subset) for one, subset in subsets.items()}


def _cells(option: str, levels: Mapping[str, Any], axes: Sequence[Axis]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Cells (cells,) in which columns have given levels."""
    found = np.ones([axis.size for axis in axes], dtype=bool)
    for place, axis in enumerate(axes):
        if axis.name not in levels:
            continue
        if levels[axis.name] not in axis.labels:
            raise OptionError(option, levels[axis.name], f"a level of {axis.name}: {', '.join(map(str, axis.labels))}")
        line = [1] * len(axes)
        line[place] = axis.size
        found &= (np.arange(axis.size) == axis.labels.index(levels[axis.name])).reshape(line)
    return found.ravel()


def _refuse_many(cells: int) -> None:
    if cells > MOST_ESTIMATES:
        raise OptionError(
            "columns",
            f"{cells:,} cells",
            f"a marginal of at most {MOST_ESTIMATES:,} cells, for errors of all its cells together; .summary_frame() "
            "has each cell's own",
        )
