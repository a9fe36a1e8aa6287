"""Results from a release of many marginals: counts, margins, shares and ratios, with their errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.checks import TRUTH, items_of, texts_of
from dpinfer.display.report import count
from dpinfer.errors import MissingFromReleaseError, OptionError, ReleaseFormatError, named, type_of
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.cell_sums import MOST_ESTIMATES, Described, levels_shown
from dpinfer.procedures.options import axis_name, where_notes
from dpinfer.procedures.procedure import context_of
from dpinfer.release.release import encode
from dpinfer.results import printing
from dpinfer.results.descriptions import DescriptionResults, ProportionResults, TableResults
from dpinfer.results.drawing import given_or_new, grouped, restrain, titled
from dpinfer.results.printing import (
    Exported,
    PrivateSummary,
    alike_flags,
    estimate_table,
    interval_labels,
    separate_flags,
    summary_of,
)
from dpinfer.results.testing import check_alpha
from dpinfer.statistics.inference import Released, simulated_critical
from dpinfer.statistics.moment_inference import intervals
from dpinfer.statistics.moments import Estimates, diagonal
from dpinfer.tables import marginal_inference
from dpinfer.tables.marginal_inference import MarginalInference, TableNoise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from dpinfer.release import Release
    from dpinfer.schema.axes import Axis
    from dpinfer.statistics.arrays import Array, Mask
    from dpinfer.tables.marginal_inference import CenteredMargins, Joint, MarginalPlan, Subset


_SHOWN = 40
"""Cells that a summary shows."""

_REPLICATES, _TOGETHER = 9_999, 500


@dataclass(frozen=True, eq=False)
class MarginalTables:
    """The marginals of a release.

    Attributes
    ----------
    release : Release
    plan : MarginalPlan
    marginals : tuple of tuple of str
        Columns of each requested marginal.
    """

    release: Release
    plan: MarginalPlan
    marginals: tuple[tuple[str, ...], ...]

    @property
    def _pure(self) -> bool:
        return isinstance(self.release.cost.price, PureDP)

    @cached_property
    def released(self) -> Released:
        """The measured values of the marginals in the release."""
        return Released.of_release(self.release, context_of(self.release), self.plan.rows(pure=self._pure))

    @cached_property
    def found(self) -> CenteredMargins:
        """The estimates for all subsets of columns."""
        return marginal_inference.centered_margins(self.released)

    @cached_property
    def keeps_every_row(self) -> bool:
        """Whether every row is in some cell."""
        return self.plan.rows(pure=False).keeps_every_row

    @property
    def nobs(self) -> int | None:
        """The number of rows, if it is public and all are counted."""
        return self.release.nobs if self.keeps_every_row else None

    def holds(self, marginals: Sequence[Sequence[str]], axes: Sequence[Mapping[str, Any]]) -> bool:
        """Whether marginals of columns with the same bins are within the measured ones."""
        theirs = [encode(dict(axis)) for axis in self.plan.axes]
        alike = all(encode(dict(axis)) in theirs for axis in axes)
        return alike and all(tuple(sorted(self.plan.places(one))) in self.plan.closure for one in marginals)

    def check(self) -> None:
        """Refuse a damaged release.

        Raises
        ------
        ReleaseFormatError
        """
        family = self.release.law.family
        if family not in ("gaussian", "laplace") or (family == "laplace") != self._pure:
            raise ReleaseFormatError("law: the noise of marginals is Gaussian, or Laplace under PureDP")

    def subset(self, columns: Sequence[str]) -> Subset:
        """Positions of columns, in the given order.

        Raises
        ------
        OptionError
            If they are not strings.
        MissingFromReleaseError
            If no marginal contains all of them.
        """
        chosen = texts_of(columns)
        if len(chosen) < len(columns):
            raise OptionError("columns", type_of(columns), "columns of a marginal, as texts")
        names = [axis_name(axis) for axis in self.plan.axes]
        places = tuple(names.index(one) for one in chosen if one in names)
        if len({*places}) < len(chosen) or tuple(sorted(places)) not in self.plan.closure:
            listed = "; ".join(" x ".join(marginal) for marginal in self.marginals[:5])
            listed += "; ..." if len(self.marginals) > 5 else ""
            together = ", ".join(map(named, chosen))
            raise MissingFromReleaseError(f"no marginal of the release holds {together} together; it has {listed}")
        return places

    def axes(self, columns: Sequence[str]) -> tuple[Axis, ...]:
        """Return the axes of a marginal, in the given order."""
        return tuple(self.plan.cells[place] for place in self.subset(columns))

    # Counts

    def unbiased(self, columns: Sequence[str]) -> Array:
        """Return the counts of a marginal, which may be negative (cells,)."""
        return np.asarray(self.found.table(self.subset(columns))[0])

    def estimates(self, columns: Sequence[str], target: str) -> Estimates:
        """Estimate the counts of a marginal, each cell as a group."""
        return self.plan.counts(self.found, self.subset(columns), self.nobs, target)

    def index(self, columns: Sequence[str]) -> pd.Index:
        """Labels of the cells of a marginal."""
        return self.plan.described(self.subset(columns)).index

    def margin(self, columns: Sequence[str], *, inference: str, target: str) -> TableResults:
        """Infer the counts of some columns."""
        subset, estimates = self._few(columns), self.estimates(columns, target)
        described = self.plan.described(subset)
        joint = marginal_inference.joint_counts(self.found, subset, estimates, self.nobs)
        inferred, labels = self._inferred(estimates, described, joint, subset, inference, target)
        labels |= {"model_name": "Private count", "response": " x ".join(columns) or "rows", "quantity": "count"}
        return TableResults(inferred, self.release, table=self, **labels)

    def _few(self, columns: Sequence[str]) -> Subset:
        """Positions of columns whose cells are few enough for a covariance matrix."""
        subset = self.subset(columns)
        cells = self.found.cells(subset)
        if cells > MOST_ESTIMATES:
            right = f"a marginal of at most {MOST_ESTIMATES:,} cells, for errors of all its cells together; "
            raise OptionError("columns", f"{cells:,} cells", f"{right}.summary_frame() has each cell's own")
        return subset

    def _inferred(
        self, estimates: Estimates, described: Described, joint: Joint, subset: Subset, inference: str, target: str
    ) -> tuple[MarginalInference, dict[str, Any]]:
        """Return the inference and the labels common to all results."""
        if inference not in MarginalInference.methods:
            raise OptionError("inference", inference, MarginalInference.methods)
        schema, groups = self.plan.schema, estimates.size.shape[1]
        found = MarginalInference(
            estimates=estimates,
            names=described.names,
            shift=described.shift,
            factor=described.factor,
            nobs=float(self.found.centered[()][0, 0]),
            nobs_is_public=self.nobs is not None,
            method=inference,
            target=target,
            law=self.found.law,
            steps=self.found.steps,
            labels=described.labels,
            notes=(*alike_flags(schema, target), *separate_flags(schema, groups, target)),
            joint=joint,
            sources=() if estimates.alone is None else self.found.sources(subset),
        )
        return found, {"notes": where_notes(self.plan.where), "index": described.index}

    # Shares and ratios

    def proportions(
        self, column: str, by: str | Sequence[str], *, inference: str, target: str = "population"
    ) -> DescriptionResults:
        """Infer the shares of the levels of a column, by groups of other columns."""
        columns = (*items_of(by), column)
        subset, axes = self._few(columns), self.axes(columns)
        groups, levels = self.found.cells(subset) // axes[-1].size, axes[-1].size
        truth = axes[-1].labels == (False, True)
        each = np.vstack([np.ones(levels), np.eye(levels)[int(truth) :]])
        places = np.einsum("gh,ql->gqhl", np.eye(groups), each).reshape(groups, len(each), -1)
        estimates = self._shares(subset, places, target)
        described = self.plan.described(subset, levels_shown(axes[-1]), axes[:-1])
        joint = marginal_inference.joint_shares(self.found, subset, places, estimates)
        sizes = pd.Series(np.repeat(estimates.size[0], len(described.quantities)), index=described.index)
        inferred, labels = self._inferred(estimates, described, joint, subset, inference, target)
        labels |= {"model_name": "Private proportion", "response": column, "quantity": "proportion", "sizes": sizes}
        return ProportionResults(inferred, self.release, **labels)

    def _shares(self, subset: Subset, places: Array, target: str) -> Estimates:
        most, population = self.plan.schema.rows_per_unit, target == "population"
        return marginal_inference.share_estimates(self.found, subset, places, population=population, rows_per_unit=most)

    def share(self, inside: Mapping[str, Any], beside: Mapping[str, Any], target: str) -> Estimates:
        """Estimate the share of some cells among these and other cells.

        Raises
        ------
        OptionError
            If a level does not exist, or a cell is in both.
        """
        columns = tuple(dict.fromkeys((*inside, *beside)))
        subset, axes = self.subset(columns), self.axes(columns)
        first, second = (_cells("numerator" if one is inside else "denominator", one, axes) for one in (inside, beside))
        if (first & second).any():
            raise OptionError("denominator", dict(beside), "cells other than those of the numerator")
        return self._shares(subset, np.stack([first | second, first])[None].astype(np.float64), target)

    # Tests and display

    def noise(self, columns: Sequence[str]) -> TableNoise:
        """Return the noise of the cells of one or two columns, in the form used by tests of counts."""
        subset = self.subset(columns)
        return TableNoise(self.found, subset, self.found.sources(subset))

    @cached_property
    def nonnegative(self) -> CenteredMargins:
        """The marginals projected to nonnegative cells, for display."""
        return marginal_inference.nonnegative(self.found, self.plan.workload)

    def simulated(self, size: int, seed: int) -> dict[tuple[str, ...], Array]:
        """Draw the noise of all marginals jointly; an array (size, cells) for each marginal."""
        drawn = self.release.law.rvs(size, np.random.default_rng(seed)) * np.asarray(self.release.steps)
        moved = marginal_inference.centered_margins(replace(self.released, values=self.released.values + drawn))  # noqa: PD011  (of releases)
        subsets = {marginal: self.subset(marginal) for marginal in self.marginals}
        return {one: moved.table(subset) - self.found.table(subset) for one, subset in subsets.items()}


def _cells(option: str, levels: Mapping[str, Any], axes: Sequence[Axis]) -> Mask:
    """Mask (cells,) of the cells with given levels of some columns."""
    places: list[int | slice] = []
    for axis in axes:
        if axis.name in levels and levels[axis.name] not in axis.labels:
            raise OptionError(option, levels[axis.name], f"a level of {axis.name}: {', '.join(map(str, axis.labels))}")
        places.append(axis.labels.index(levels[axis.name]) if axis.name in levels else slice(None))
    found = np.zeros([axis.size for axis in axes], dtype=bool)
    found[tuple(places)] = True
    return found.ravel()


def _intervals(estimates: Estimates, alpha: float, inference: str) -> Array:
    """Intervals (cells, quantities, 2) of one release."""
    return np.asarray(intervals(estimates, alpha, method="score" if inference == "auto" else inference)[0])


@dataclass(frozen=True, eq=False, repr=False)
class MarginalResults(Exported):
    """Many marginals of a large table, from one release.

    Estimates are unbiased and may be negative; shared margins of several marginals agree. Intervals are pointwise and
    nonnegative.

    Attributes
    ----------
    release : Release
    tables : MarginalTables
        The estimates for each marginal.
    inference : {"auto", "score", "wald"}
    target : {"data", "population"}
    notes : list of str
    flags : tuple of str
    """

    release: Release
    tables: MarginalTables
    inference: str = "auto"
    target: str = "data"

    @property
    def notes(self) -> list[str]:
        """Notes printed below the table."""
        return where_notes(self.tables.plan.where)

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings for the reader; empty if there are none."""
        return alike_flags(self.release.schema, self.target)

    @property
    def marginals(self) -> tuple[tuple[str, ...], ...]:
        """Columns of each requested marginal."""
        return self.tables.marginals

    def marginal(self, columns: str | Sequence[str]) -> TableResults:
        """Return the counts of a marginal, or of a margin of one, with the covariance of all cells.

        Parameters
        ----------
        columns : str or sequence of str
            In any order; the last column varies fastest.

        Returns
        -------
        TableResults
            With ``t_test``, ``proportions``, ``plot`` and all other members of a table's results.

        Raises
        ------
        OptionError
            If the columns are not strings, or the marginal has too many cells for a covariance matrix.
        MissingFromReleaseError
            If no marginal contains all the columns.
        """
        return self.tables.margin(items_of(columns), inference=self.inference, target=self.target)

    def proportions(
        self, column: str, by: str | Sequence[str] = (), *, target: str = "population"
    ) -> DescriptionResults:
        """Return the shares of the levels of a column, by groups of others, at no privacy cost.

        Parameters
        ----------
        column : str
        by : str or sequence of str
            Columns of the same marginal.
        target : {"population", "data"}

        Returns
        -------
        ProportionResults

        Raises
        ------
        OptionError, MissingFromReleaseError
            As in `marginal`.
        """
        return self.tables.proportions(column, by, inference=self.inference, target=target)

    def ratio(
        self,
        numerator: Mapping[str, Any],
        denominator: Mapping[str, Any],
        *,
        alpha: float = 0.05,
        target: str = "population",
    ) -> pd.Series:
        """Return the ratio of two counts of one marginal, with its interval.

        Parameters
        ----------
        numerator, denominator : mapping of column to level
            The counted cells: those with these levels, for any levels of other columns. No cell may be in both.
        alpha : float
            One minus the confidence level.
        target : {"population", "data"}

        Returns
        -------
        Series
            "ratio", "std err" with its parts from sampling and noise (by the delta method), and the endpoints of the
            interval. The interval is unbounded if noise may hide the denominator; ratio and errors are infinite if it
            does.

        Raises
        ------
        OptionError
            If a level does not exist, or a cell is in both.
        MissingFromReleaseError
            If no marginal contains all the columns.

        Notes
        -----
        A ratio a/b is p/(1 - p) for the share p = a/(a + b). Its interval contains every value that is not rejected
        with the variance under that value (Wilson's, and Fieller's for the noise).
        """
        level = check_alpha(alpha)
        found = self.tables.share(numerator, denominator, target)
        ends = _intervals(found, level, self.inference)[0, 0]
        share = float(found.value[0, 0, 0])
        left = 1.0 - share
        deviations = [float(np.sqrt(diagonal(one)[0, 0, 0])) for one in (found.sampling, found.noise)]
        parts = [np.inf if left <= 0 else one / left**2 for one in deviations]
        odds = [np.inf if end >= 1 else end / (1 - end) for end in ends.tolist()]
        names = ["ratio", "std err", "std err (sampling)", "std err (noise)", *interval_labels(alpha)]
        ratio = np.inf if left <= 0 else share / left
        return pd.Series([ratio, float(np.hypot(parts[0], parts[1])), *parts, *odds], index=names, name="ratio")

    def table(self, columns: str | Sequence[str], *, non_negative: bool = False) -> pd.Series | pd.DataFrame:
        """Return the counts of a marginal as a table, with the last column across and the others down.

        Parameters
        ----------
        columns : str or sequence of str
        non_negative : bool
            Whether to project all marginals of the workload to nearby nonnegative, mutually consistent ones. This is
            for display, since sums of projected counts are biased. Intervals and tests always use the unbiased counts.

        Returns
        -------
        Series or DataFrame

        Raises
        ------
        OptionError, MissingFromReleaseError
            As in `marginal`.
        """
        TRUTH.check("non_negative", non_negative)
        chosen = items_of(columns)
        values = self.tables.unbiased(chosen)
        if non_negative:
            values = np.maximum(self.tables.nonnegative.table(self.tables.subset(chosen))[0], 0.0)
        found = pd.Series(values, index=self.tables.index(chosen), name="count")
        return found.unstack(sort=False) if len(chosen) > 1 else found  # noqa: PD010  (of a Series)

    def summary_frame(self, alpha: float = 0.05, *, simultaneous: bool = False, seed: int = 0) -> pd.DataFrame:
        """Return every cell of every marginal of the workload with its standard errors and interval.

        Parameters
        ----------
        alpha : float
            One minus the confidence level of the intervals.
        simultaneous : bool
            Whether the confidence level is simultaneous over the table. For ``target="data"`` intervals use the
            simulated quantile of the largest error from the joint noise of all marginals. For a population they use
            Bonferroni's level, as marginals do not determine the correlation of their sampling errors.
        seed : int
            Public seed of the simulation.

        Returns
        -------
        DataFrame
            A row per marginal and cell: "count", "std err", "std err (sampling)", "std err (noise)", the endpoints of
            the interval, "noise share".

        Raises
        ------
        OptionError
            If an argument has an invalid value.
        """
        level = check_alpha(alpha)
        TRUTH.check("simultaneous", simultaneous)
        every = self._estimates()
        reach = self._largest_error(every, level, seed) if simultaneous and self.target == "data" else None
        each = level / sum(found.value.shape[1] for found in every.values()) if simultaneous else level
        names = ["count", "std err", "std err (sampling)", "std err (noise)", *interval_labels(alpha), "noise share"]
        parts = []
        for columns, found in every.items():
            values = self.tables.unbiased(columns)
            sampling, noise = (diagonal(one)[0, :, 0] for one in (found.sampling, found.noise))
            error, share = np.sqrt(sampling + noise), noise / np.maximum(sampling + noise, 1e-300)
            ends = _intervals(found, each, self.inference)[:, 0]
            if reach is not None:
                ends = np.maximum(values[:, None] + reach * np.outer(error, [-1.0, 1.0]), 0.0)
            cells = np.column_stack([values, error, np.sqrt(sampling), np.sqrt(noise), ends, share])
            labels = [one if isinstance(one, tuple) else (one,) for one in self.tables.index(columns)]
            index = pd.Index([", ".join(map(str, one)) for one in labels], name="cell")
            parts.append(pd.DataFrame(cells, index=index, columns=names))
        return pd.concat(parts, keys=[" x ".join(one) for one in self.marginals], names=["marginal", "cell"])

    def _estimates(self) -> dict[tuple[str, ...], Estimates]:
        return {one: self.tables.estimates(one, self.target) for one in self.marginals}

    def _largest_error(self, every: Mapping[tuple[str, ...], Estimates], alpha: float, seed: int) -> float:
        """Return the quantile, over all cells, of the largest standardised error."""
        largest = np.zeros(_REPLICATES)
        for done in range(0, _REPLICATES, _TOGETHER):
            part = largest[done : done + _TOGETHER]
            for columns, noise in self.tables.simulated(len(part), seed + done).items():
                error = np.sqrt(diagonal(every[columns].noise)[0, :, 0])
                part[:] = np.maximum(part, np.abs(noise[:, error > 0] / error[error > 0]).max(axis=1, initial=0.0))
        return float(simulated_critical(largest, alpha))

    def conf_int(self, alpha: float = 0.05, *, simultaneous: bool = False, seed: int = 0) -> pd.DataFrame:
        """Return the intervals of every cell of every marginal; see `summary_frame`."""
        frame = self.summary_frame(alpha, simultaneous=simultaneous, seed=seed)
        return frame[list(interval_labels(alpha))].set_axis([0, 1], axis=1)

    def summary(self, alpha: float = 0.05) -> PrivateSummary:
        """Return the marginals as a table of cells, errors and guarantee; only the first of very many cells.

        Parameters
        ----------
        alpha : float
            One minus the confidence level of the intervals.

        Returns
        -------
        PrivateSummary
        """
        frame = self.summary_frame(alpha)
        total = float(self.tables.unbiased(())[0])
        left = [("Marginals:", count(len(self.marginals))), ("Cells:", count(len(frame))), ("Target:", self.target)]
        right = [
            *printing.guarantee_facts(self.release),
            ("No. Observations:", printing.format_count(total, public=self.tables.nobs is not None)),
        ]
        notes = [
            printing.guarantee_note(self.release),
            "Standard errors account for "
            f"{'privacy noise only' if self.target == 'data' else 'sampling error and privacy noise'}. Estimates are "
            "unbiased and may be negative; intervals are for one cell each.",
            *self.notes,
        ]
        if len(frame) > _SHOWN:
            notes.append(f"The first {_SHOWN} of {count(len(frame))} cells; .summary_frame() has all.")
        notes += printing.column_notes(self.release)
        shown = frame.iloc[:_SHOWN]
        names = [f"{marginal}: {cell}" for marginal, cell in shown.index]
        return summary_of("Private marginals", left, right, estimate_table(shown, names), notes, self.flags)

    def plot(self, columns: str | Sequence[str] | None = None, ax: Axes | None = None) -> Axes:
        """Plot a marginal; by default the standard error of a cell of each marginal.

        Parameters
        ----------
        columns : str or sequence of str, optional
        ax : matplotlib.axes.Axes, optional
            Axes for the plot; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        OptionError, MissingFromReleaseError
            As in `marginal`.
        """
        if columns is not None:
            return self.marginal(columns).plot(ax)
        every = self._estimates()
        names = [" x ".join(one) for one in every]
        noise = [float(np.sqrt(found.noise[0, 0, 0, 0])) for found in every.values()]
        both = [float(np.sqrt(np.median(found.variance[0]))) for found in every.values()]
        place = np.arange(len(names))[::-1]
        ax = given_or_new(ax, 6.5, float(np.clip(0.9 + 0.28 * len(names), 2.4, 14.0)))
        ax.hlines(place, 0, both, color="C0", lw=1.2)
        ax.plot(both, place, "o", color="C0", ms=4, label="median, sampling and noise")
        if self.target == "population":
            ax.plot(noise, place, "|", color="C1", ms=9, label="noise alone")
            ax.legend(frameon=False)
        ax.set_yticks(place, names)
        ax.set_xlim(left=0)
        ax.set_xlabel(
            f"standard error of a cell, in rows; {1 - stats.norm.sf(1.96) * 2:.0%} intervals reach twice that"
        )
        titled(ax, f"{len(names)} marginals, {printing.title_guarantee(self.release)}")
        grouped(ax.xaxis)
        restrain(ax, left=False)
        return ax

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self.marginals)} marginals, {printing.title_guarantee(self.release)}>"
