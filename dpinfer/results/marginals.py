"""Results of a release of many marginals: counts, margins, shares and ratios of each, with their errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.display.numbers import count
from dpinfer.errors import OptionError
from dpinfer.inference.contrasts import simulated_critical
from dpinfer.inference.moment_inference import intervals
from dpinfer.inference.moments import diagonal
from dpinfer.results.contrasts import check_alpha
from dpinfer.results.printing import Exported, PrivateSummary, estimate_table, interval_labels, summary_of
from dpinfer.results.style import given_or_new, grouped, restrain, titled
from dpinfer.results.wording import (
    charge_notes,
    column_notes,
    format_count,
    guarantee,
    guarantee_facts,
    title_guarantee,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from dpinfer.inference.moments import Estimates
    from dpinfer.numerics.arrays import Array
    from dpinfer.release import Release
    from dpinfer.results.descriptions import DescriptionResults, TableResults

__all__ = ["MarginalResults", "MarginalSource"]

_SHOWN = 40
"""Cells that a summary shows."""

_REPLICATES = 9_999


class MarginalSource(Protocol):
    """A release of marginals, as results ask it for more."""

    @property
    def workload(self) -> tuple[tuple[str, ...], ...]:
        """Columns of each marginal that was asked for."""

    @property
    def nobs(self) -> int | None:
        """The number of rows, where it is public and all are counted."""

    def estimates(self, columns: Sequence[str], target: str) -> Estimates:
        """Estimate the counts of a marginal, each cell as a group."""

    def index(self, columns: Sequence[str]) -> Any:
        """Names and labels of the cells of a marginal."""

    def unbiased(self, columns: Sequence[str]) -> Array:
        """Return the counts of a marginal, which may be negative (cells,)."""

    def displayed(self, columns: Sequence[str]) -> Array:
        """Return counts of a marginal that are not negative and agree with the others (cells,)."""

    def margin(self, columns: Sequence[str], *, inference: str, target: str) -> TableResults:
        """Infer the counts of some columns."""

    def proportions(
        self, column: str, by: str | Sequence[str], *, inference: str, target: str = "population"
    ) -> DescriptionResults:
        """Infer the shares of the levels of a column."""

    def share(
        self, inside: Mapping[str, Any], beside: Mapping[str, Any], *, alpha: float, inference: str, target: str
    ) -> tuple[Estimates, Array]:
        """Infer the share of some cells in these and others."""

    def simulated(self, size: int, seed: int) -> dict[tuple[str, ...], Array]:
        """Draw the noise of all marginals together."""


@dataclass(frozen=True, eq=False, repr=False)
class MarginalResults(Exported):
    """Many marginals of a table that was never held, from one release.

    Estimates are unbiased, and margins of several marginals agree; they may be negative. Intervals are of each cell by
    itself, from 0 on.

    Attributes
    ----------
    release : Release
    tables : MarginalSource
        What answers for each marginal.
    inference : {"auto", "score", "wald"}
    target : {"data", "population"}
    notes : tuple of str
    flags : tuple of str
    """

    release: Release
    tables: MarginalSource = field(repr=False)
    inference: str = "auto"
    target: str = "data"
    notes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()

    @property
    def marginals(self) -> tuple[tuple[str, ...], ...]:
        """Columns of each marginal that was asked for."""
        return self.tables.workload

    def marginal(self, columns: str | Sequence[str]) -> TableResults:
        """Return the counts of a marginal, or of any margin of one, with the errors of all cells together.

        Parameters
        ----------
        columns : str or sequence of str
            In any order; the last column runs fastest.

        Returns
        -------
        TableResults
            With ``t_test``, ``proportions``, ``plot`` and all that a table's results have.

        Raises
        ------
        OptionError
            If what is given is no text, or the marginal has too many cells for a matrix of covariances.
        MissingFromReleaseError
            If no marginal holds the columns together.
        """
        return self.tables.margin(_listed(columns), inference=self.inference, target=self.target)

    def proportions(
        self, column: str, by: str | Sequence[str] = (), *, target: str = "population"
    ) -> DescriptionResults:
        """Return the shares of the levels of a column, in groups of others; free of cost.

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
            As `marginal`.
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
            The cells that are counted: those with these levels, whatever others are. No cell may be in both.
        alpha : float
            One minus the confidence.
        target : {"population", "data"}

        Returns
        -------
        Series
            "ratio", "std err" with its parts from sampling and noise (by the delta method), and the ends of the
            interval: infinite where the noise may hide the denominator, as ratio and errors are where it does.

        Raises
        ------
        OptionError
            If a level is none, or a cell is in both.
        MissingFromReleaseError
            If no marginal holds the columns together.

        Notes
        -----
        A ratio a/b is p/(1 - p) for the share p = a/(a + b), whose interval holds every value that is not rejected
        with the variance that it would have (Wilson's, and Fieller's for the noise).
        """
        found, ends = self.tables.share(
            numerator, denominator, alpha=check_alpha(alpha), inference=self.inference, target=target
        )
        share = float(found.value[0, 0, 0])
        left = 1.0 - share
        deviations = [float(np.sqrt(diagonal(one)[0, 0, 0])) for one in (found.sampling, found.noise)]
        parts = [np.inf if left <= 0 else one / left**2 for one in deviations]
        odds = [np.inf if end >= 1 else end / (1 - end) for end in ends.tolist()]
        lower, upper = interval_labels(alpha)
        told = {
            "ratio": np.inf if left <= 0 else share / left,
            "std err": float(np.hypot(parts[0], parts[1])),
            "std err (sampling)": parts[0],
            "std err (noise)": parts[1],
            lower: odds[0],
            upper: odds[1],
        }
        return pd.Series(told, name="ratio")

    def table(self, columns: str | Sequence[str], *, non_negative: bool = False) -> pd.Series | pd.DataFrame:
        """Return the counts of a marginal as a table: the last column across, the others down.

        Parameters
        ----------
        columns : str or sequence of str
        non_negative : bool
            Move all marginals of the workload to near ones that are not negative and agree with each other: for
            display, as sums of moved counts are biased. Intervals and tests always use the unbiased counts.

        Returns
        -------
        Series or DataFrame

        Raises
        ------
        OptionError, MissingFromReleaseError
            As `marginal`.
        """
        if not isinstance(non_negative, bool):
            raise OptionError("non_negative", non_negative, (True, False))
        chosen = _listed(columns)
        values = (self.tables.displayed if non_negative else self.tables.unbiased)(chosen)
        found = pd.Series(values, index=self.tables.index(chosen).index, name="count")
        return found.unstack(sort=False) if len(chosen) > 1 else found  # noqa: PD010  (of a Series)

    def summary_frame(self, alpha: float = 0.05, *, simultaneous: bool = False, seed: int = 0) -> pd.DataFrame:
        """Return every cell of every marginal of the workload with its errors and interval.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.
        simultaneous : bool
            Whether all intervals of the table hold together with this confidence. For ``target="data"`` they have the
            quantile of the largest error that the noise of all marginals together would give, by simulation; for a
            population Bonferroni's level, as marginals do not tell how their sampling errors are related.
        seed : int
            Public seed of the simulation.

        Returns
        -------
        DataFrame
            A row per marginal and cell: "count", "std err", "std err (sampling)", "std err (noise)", the ends of the
            interval, "noise share".

        Raises
        ------
        OptionError
            Where an argument has no such value.
        """
        level = check_alpha(alpha)
        if not isinstance(simultaneous, bool):
            raise OptionError("simultaneous", simultaneous, (True, False))
        every = {one: self.tables.estimates(one, self.target) for one in self.marginals}
        cells = sum(found.value.shape[1] for found in every.values())
        reach = self._largest_error(every, level, seed) if simultaneous and self.target == "data" else None
        each = level / cells if simultaneous else level
        parts = [self._frame(one, found, alpha, each, reach) for one, found in every.items()]
        return pd.concat(parts, keys=[" x ".join(one) for one in self.marginals], names=["marginal", "cell"])

    def _frame(
        self, columns: tuple[str, ...], found: Estimates, alpha: float, level: float, reach: float | None
    ) -> pd.DataFrame:
        values = self.tables.unbiased(columns)
        sampling, noise = (diagonal(one)[0, :, 0] for one in (found.sampling, found.noise))
        error = np.sqrt(sampling + noise)
        method = "score" if self.inference == "auto" else self.inference
        ends = intervals(found, level, method=method)[0, :, 0]
        if reach is not None:
            ends = np.maximum(values[:, None] + reach * np.outer(error, [-1.0, 1.0]), 0.0)
        lower, upper = interval_labels(alpha)
        return pd.DataFrame(
            {
                "count": values,
                "std err": error,
                "std err (sampling)": np.sqrt(sampling),
                "std err (noise)": np.sqrt(noise),
                lower: ends[:, 0],
                upper: ends[:, 1],
                "noise share": noise / np.maximum(sampling + noise, 1e-300),
            },
            index=pd.Index([_cell_text(label) for label in self.tables.index(columns).index], name="cell"),
        )

    def _largest_error(self, every: Mapping[tuple[str, ...], Estimates], alpha: float, seed: int) -> float:
        """Return the quantile of the largest error over its standard error among all cells."""
        largest = np.zeros(_REPLICATES)
        done = 0
        while done < _REPLICATES:
            size = min(_REPLICATES - done, 500)
            for columns, noise in self.tables.simulated(size, seed + done).items():
                error = np.sqrt(diagonal(every[columns].noise)[0, :, 0])
                found = np.abs(noise[:, error > 0] / error[error > 0]).max(axis=1, initial=0.0)
                largest[done : done + size] = np.maximum(largest[done : done + size], found)
            done += size
        return float(simulated_critical(largest, alpha))

    def conf_int(self, alpha: float = 0.05, *, simultaneous: bool = False, seed: int = 0) -> pd.DataFrame:
        """Return the intervals of every cell of every marginal; parameters and errors as `summary_frame`."""
        frame = self.summary_frame(alpha, simultaneous=simultaneous, seed=seed)
        return frame[list(interval_labels(alpha))].set_axis([0, 1], axis=1)

    def summary(self, alpha: float = 0.05) -> PrivateSummary:
        """Return the marginals as a table: cells, errors, guarantee; of very many cells the first.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        PrivateSummary
        """
        frame = self.summary_frame(alpha)
        total = float(self.tables.unbiased(())[0])
        left = [("Marginals:", count(len(self.marginals))), ("Cells:", count(len(frame))), ("Target:", self.target)]
        right = [
            *guarantee_facts(self.release),
            ("No. Observations:", format_count(total, public=self.tables.nobs is not None)),
        ]
        notes = [
            guarantee(self.release),
            f"std err counts {'privacy noise alone' if self.target == 'data' else 'sampling and privacy noise'}. "
            "Estimates are unbiased and may be negative; intervals are of one cell each.",
            *self.notes,
        ]
        if len(frame) > _SHOWN:
            notes.append(f"The first {_SHOWN} of {count(len(frame))} cells; .summary_frame() has all.")
        notes += [*column_notes(self.release), *charge_notes(self.release)]
        shown = frame.iloc[:_SHOWN]
        names = [f"{marginal}: {cell}" for marginal, cell in shown.index]
        return summary_of("Private marginals", left, right, estimate_table(shown, names), notes, self.flags)

    def plot(self, columns: str | Sequence[str] | None = None, ax: Axes | None = None) -> Axes:
        """Draw a marginal; by default the standard error of a cell of each marginal.

        Parameters
        ----------
        columns : str or sequence of str, optional
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        OptionError, MissingFromReleaseError
            As `marginal`.
        """
        if columns is not None:
            return self.marginal(columns).plot(ax)
        every = {one: self.tables.estimates(one, self.target) for one in self.marginals}
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
        titled(ax, f"{len(names)} marginals, {title_guarantee(self.release)}")
        grouped(ax.xaxis)
        restrain(ax, left=False)
        return ax

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self.marginals)} marginals, {title_guarantee(self.release)}>"


def _listed(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _cell_text(label: object) -> str:
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)
