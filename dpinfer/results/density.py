"""Results of a density: estimates by bin with pointwise intervals, their squared error, table and plot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dpinfer.inference.density import DensityEstimates, density_intervals, projected, variance_error
from dpinfer.results.contrasts import check_alpha
from dpinfer.results.people import alike_flags
from dpinfer.results.printing import Exported, PrivateSummary, cell_table, interval_labels, summary_of
from dpinfer.results.style import FAINT, given_or_new, grouped, legend, restrain, titled
from dpinfer.results.wording import (
    charge_notes,
    column_notes,
    format_count,
    guarantee,
    guarantee_facts,
    title_guarantee,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray
    from statsmodels.iolib.table import SimpleTable

    from dpinfer.inference.histograms import Histograms
    from dpinfer.release import Release

    Array = NDArray[np.float64]

__all__ = ["DensityResults", "IntegratedError"]

_MOST_LINES = 40
"""Bins that a summary shows; of more only some."""


@dataclass(frozen=True, slots=True)
class IntegratedError:
    """Expected integrated squared error of the densities, in parts.

    Attributes
    ----------
    sampling, noise : float
        Integrated variance; each is estimated without bias, but for the division by a noisy number of rows.
    bias : float or None
        Integrated squared distance between the true density's means over the bins and those over the finer bins of
        the first stage: what is lost within bins, down to that resolution. Its estimate has no bias for bins that do
        not depend on it; here they were chosen by it, so that it tends to be too small. It may be negative. None
        where the bins were given: nothing was measured within them.
    bias_error : float or None
        Standard error of ``bias``.
    """

    sampling: float
    noise: float
    bias: float | None = None
    bias_error: float | None = None

    @property
    def variance(self) -> float:
        """Sampling and noise together."""
        return self.sampling + self.noise

    @property
    def total(self) -> float | None:
        """All three parts; None where the bias is not known."""
        return None if self.bias is None else self.variance + self.bias


@dataclass(frozen=True, eq=False)
class DensityResults(Exported):
    """A density, constant within bins.

    Attributes
    ----------
    release : Release
    histograms : Histograms
        What it holds.
    target : {"population", "data"}
    """

    release: Release
    histograms: Histograms
    target: str = "population"

    @cached_property
    def _estimates(self) -> DensityEstimates:
        return self.histograms.estimates(self.target)

    def unmerged(self) -> DensityResults:
        """Return the density in the bins that were measured, where some were merged; free of cost."""
        return replace(self, histograms=replace(self.histograms, merged=1))

    @property
    def column(self) -> str:
        """The column whose density it is."""
        return self.histograms.column

    @property
    def edges(self) -> Array:
        """Edges of the bins (k + 1,), in the column's unit; of an Integer half-way between whole numbers."""
        return self.histograms.edges

    @property
    def bins(self) -> int:
        """Number of bins k."""
        return len(self.edges) - 1

    @property
    def nobs(self) -> float:
        """Number of rows in all bins: public, or the sum of the noisy counts."""
        return float(self._estimates.total[0, 0])

    @property
    def nobs_is_public(self) -> bool:
        """Whether the number of rows is public."""
        return self._estimates.nobs is not None

    @property
    def integrated_squared_error(self) -> IntegratedError:
        """Expected integrated squared error of the column ``density`` of `frame`."""
        sampling, noise = (float(part[0]) for part in variance_error(self._estimates))
        bias = self.histograms.bias(float(self._estimates.size[0, 0]))
        return IntegratedError(sampling, noise, *(bias or (None, None)))

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, from released numbers only."""
        alike = alike_flags(self.release.schema, self.target)
        if self._estimates.few[0]:
            return ("there may be no row at all, for all that the noise allows to tell", *alike)
        hidden = int(self._estimates.hidden[0].sum())
        if 2 * hidden <= self.bins:
            return alike
        return (f"{hidden} of {self.bins} bins may be empty, for all that the noise allows to tell", *alike)

    def density(self, x: ArrayLike, *, projected: bool = False) -> Array:
        """Evaluate the density.

        Parameters
        ----------
        x : array_like
            Values in the column's unit. A bin holds its lower edge, the last its upper one too.
        projected : bool
            Evaluate the density that is nowhere negative and integrates to 1.

        Returns
        -------
        ndarray
            Of the shape of ``x``; 0 outside of the bins, NaN where ``x`` is.
        """
        points = np.asarray(x, dtype=np.float64)
        heights = (self._projected if projected else self._estimates.density)[0]
        place = np.searchsorted(self.edges, points, side="right") - 1
        place = np.where(points == self.edges[-1], self.bins - 1, place)
        within = (place >= 0) & (place < self.bins)
        found = np.where(within, heights[np.clip(place, 0, self.bins - 1)], 0.0)
        return np.where(np.isnan(points), np.nan, found)

    @cached_property
    def _projected(self) -> Array:
        return projected(self._estimates.density, self.histograms.widths)

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the one table behind text, HTML and plots.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals, each for its bin alone.

        Returns
        -------
        DataFrame (k rows)
            "lower" and "upper" edge; "density", noisy share over width, and "projected", the nearest density that is
            nowhere negative and integrates to 1; "std err", "std err (sampling)", "std err (noise)" of "density"; the
            ends of the interval; "noise share" of the variance; "hidden", whether the bin may be empty for all that
            the noise allows to tell.

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        ends = density_intervals(self._estimates, check_alpha(alpha))[0]
        sampling, noise = (part[0] for part in self._estimates.variances)
        lower, upper = interval_labels(alpha)
        total = sampling + noise
        return pd.DataFrame(
            {
                "lower": self.edges[:-1],
                "upper": self.edges[1:],
                "density": self._estimates.density[0],
                "projected": self._projected[0],
                "std err": np.sqrt(total),
                "std err (sampling)": np.sqrt(sampling),
                "std err (noise)": np.sqrt(noise),
                lower: ends[:, 0],
                upper: ends[:, 1],
                "noise share": noise / np.where(total > 0, total, 1.0),
                "hidden": self._estimates.hidden[0],
            }
        )

    def summary(self, alpha: float = 0.05) -> PrivateSummary:
        """Return the density as a table with its guarantee, error and warnings."""
        title = f"Private density of {self.column}"
        frame, error = self.frame(alpha), self.integrated_squared_error
        left = [
            ("Bins:", f"{self.bins:,} ({'chosen privately' if self._chosen else 'given'})"),
            ("No. Observations:", format_count(self.nobs, public=self.nobs_is_public)),
            ("Target:", self.target),
        ]
        right = [
            *guarantee_facts(self.release),
            ("Noise share of variance:", f"{error.noise / error.variance:.1%}" if error.variance > 0 else "none"),
        ]
        step = -(-self.bins // _MOST_LINES)
        table = _table(frame.iloc[::step], interval_labels(alpha))
        return summary_of(title, left, right, table, self._notes(step), self.flags)

    @property
    def _chosen(self) -> bool:
        return self.histograms.fine is not None

    def _notes(self, step: int) -> list[str]:
        error, where = self.integrated_squared_error, self.histograms.where
        about = "population" if self.target == "population" else "data"
        notes = [
            guarantee(self.release),
            f"Intervals are pointwise, about the mean density of the {about} in each bin: "
            + ("sampling and privacy noise both count." if about == "population" else "only privacy noise counts."),
            f"Integrated squared error: {error.sampling:.3g} from sampling, {error.noise:.3g} from noise"
            + ("." if error.bias is None else f", {error.bias:.3g} (standard error {error.bias_error:.2g}) from bias."),
            "Values are clamped to the declared bounds: what lies beyond is counted in the outer bins.",
        ]
        if self.histograms.whole:
            notes.append("The density is per whole number; edges lie half-way between whole numbers.")
        if where:
            notes.append(f"Rows: {where}.")
        if step > 1:
            notes.append(f"One bin in {step} is shown; frame() has all.")
        notes += [*column_notes(self.release), *charge_notes(self.release)]
        return notes

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05, color: str | None = None) -> Axes:
        """Plot the density with its intervals, the sampling part told apart from the noise part.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
        alpha : float
        color : str, optional

        Returns
        -------
        matplotlib.axes.Axes

        Notes
        -----
        The sampling part shortens each arm of an interval by the root of the sampling share of the variance: a drawing.
        """
        frame = self.frame(alpha)
        ax = given_or_new(ax, 6.4, 3.8)
        color = color or "C0"
        lower, upper = (frame[name].to_numpy() for name in interval_labels(alpha))
        value = np.clip(frame["density"].to_numpy(), lower, upper)
        part = np.sqrt(1 - frame["noise share"].to_numpy())
        told = f"{100 * (1 - alpha):.4g}% interval of each bin, noise counted"
        ax.stairs(upper, self.edges, baseline=lower, fill=True, color=color, alpha=0.2, lw=0, label=told)
        inner = (value + part * (end - value) for end in (lower, upper))
        low, high = inner
        ax.stairs(high, self.edges, baseline=low, fill=True, color=color, alpha=0.35, lw=0, label="part from sampling")
        ax.stairs(frame["density"], self.edges, baseline=None, color=color, lw=1.4, label="density")
        ax.axhline(0.0, color=FAINT, lw=0.8, zorder=0)
        ax.set(xlabel=self.release.schema.caption(self.column), ylabel="density")
        titled(ax, f"{self.column}: {title_guarantee(self.release)}")
        restrain(ax)
        grouped(ax.xaxis)
        legend(ax)
        return ax

    def __repr__(self) -> str:
        return f"<DensityResults: {self.column}, {self.bins:,} bins, {title_guarantee(self.release)}>"


def _table(frame: pd.DataFrame, ends: tuple[str, str]) -> SimpleTable:
    shown = ["density", "std err", *ends, "noise share"]
    stubs = [f"{low:.6g} to {high:.6g}" for low, high in zip(frame["lower"], frame["upper"], strict=True)]
    rows = [
        [f"{value:.1%}" if name == "noise share" else f"{value:.4g}" for name, value in zip(shown, row, strict=True)]
        for row in frame[shown].to_numpy()
    ]
    return cell_table(rows, shown, stubs)
