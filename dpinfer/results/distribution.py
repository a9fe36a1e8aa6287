"""Results for distribution functions: pointwise intervals, a simultaneous band, quantiles, a plot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dpinfer.display.progress import watch
from dpinfer.inference.quantiles import cdf_interval, simultaneous_width
from dpinfer.results.contrasts import check_alpha
from dpinfer.results.printing import Exported, PrivateSummary, estimate_table, label_texts, summary_of
from dpinfer.results.quantiles import Distribution, quantile_results, read_probabilities
from dpinfer.results.style import given_or_new, grouped, legend, restrain, titled
from dpinfer.results.wording import (
    charge_notes,
    column_labels,
    column_notes,
    format_count,
    guarantee,
    guarantee_facts,
    title_guarantee,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from dpinfer.inference.distribution import Tree
    from dpinfer.release import Release
    from dpinfer.results.descriptions import DescriptionResults

__all__ = ["CDFResults"]

_SHOWN = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)


@dataclass(frozen=True, eq=False)
class CDFResults(Exported):
    """A private distribution function, by group.

    Attributes
    ----------
    distribution : Distribution
        The consistent noisy counts by group.
    release : Release
    target : {"population", "data"}
    replicates, seed : int
        Of the simulation behind the simultaneous band; public.
    """

    distribution: Distribution = field(repr=False)
    release: Release = field(repr=False)
    target: str = "population"
    replicates: int = 999
    seed: int = 0

    @property
    def column(self) -> str:
        """The column whose distribution it is."""
        return self.distribution.column

    @property
    def trees(self) -> tuple[Tree, ...]:
        """The consistent counts, one tree for each group."""
        return self.distribution.trees

    @property
    def _dependence(self) -> float:
        return float(self.distribution.rows_per_unit) if self.target == "population" else 0.0

    @property
    def nobs(self) -> float:
        """Number of rows in all groups: noisy, or public."""
        return float(sum(tree.total for tree in self.trees))

    @property
    def labels(self) -> list[str]:
        """What each group is called; empty text where there are none."""
        return self.distribution.names

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the distribution function at the edges of the leaves.

        Parameters
        ----------
        alpha : float
            One minus the confidence.

        Returns
        -------
        DataFrame
            A row per group and edge: "x"; "cdf", the share of rows below x (never falling); "lower" and "upper", the
            pointwise interval; "band lower" and "band upper", which hold the whole function together. Edges lie between
            the whole numbers of an Integer column.

        Raises
        ------
        OptionError
            Where ``alpha`` is not strictly between 0 and 1.
        """
        check_alpha(alpha)
        frames = []
        for label, tree, half in zip(self.labels, self.trees, self._halves(alpha), strict=True):
            ends = cdf_interval(tree, alpha, dependence=self._dependence)
            frame = pd.DataFrame(
                {
                    "x": tree.edges,
                    "cdf": tree.cdf,
                    "lower": np.minimum(ends[:, 0], tree.cdf),
                    "upper": np.maximum(ends[:, 1], tree.cdf),
                    "band lower": np.clip(tree.cdf - half, 0.0, 1.0),
                    "band upper": np.clip(tree.cdf + half, 0.0, 1.0),
                }
            )
            if label:
                frame.insert(0, "group", label)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    def _halves(self, alpha: float) -> list[float]:
        replicates, seed = self.replicates, self.seed
        with watch("CDF band", total=replicates * len(self.trees), unit=" draws") as counted:
            return [
                simultaneous_width(
                    tree, alpha, dependence=self._dependence, replicates=replicates, seed=seed, counted=counted
                )
                for tree in self.trees
            ]

    def band_width(self, alpha: float = 0.05) -> pd.Series:
        """Half width of the simultaneous band of every group."""
        check_alpha(alpha)
        return pd.Series(self._halves(alpha), index=[label or self.column for label in self.labels], name="half width")

    def quantile(self, q: float | Sequence[float], *, continuous: bool = False) -> DescriptionResults:
        """Return quantiles with intervals, from the same release and so for free; see `dpinfer.quantile`."""
        asked = read_probabilities(q)
        return quantile_results(self.distribution, self.release, asked, target=self.target, continuous=continuous)

    def __call__(self, x: float | Sequence[float]) -> pd.DataFrame:
        """Evaluate the distribution function, the share of rows up to x: a row for each x, a column for each group."""
        values = np.atleast_1d(np.asarray(x, dtype=np.float64))
        places = np.floor(values) + 0.5 if self.distribution.step else values  # edges lie between whole numbers
        columns = {
            label or "cdf": np.interp(places, tree.edges, tree.cdf, left=0.0)
            for label, tree in zip(self.labels, self.trees, strict=True)
        }
        return pd.DataFrame(columns, index=pd.Index(values, name="x"))

    def summary(self, alpha: float = 0.05) -> PrivateSummary:
        """Return a table of quantiles, with the guarantee and the band's width."""
        check_alpha(alpha)
        found = self.quantile(_SHOWN).summary_frame(alpha).drop(columns="count")
        table = estimate_table(found, label_texts(found.index))
        title = f"Private distribution function of {self.column}"
        left = [
            ("Column:", self.column),
            ("No. Observations:", format_count(self.nobs, public=self.distribution.nobs_is_public)),
            ("Leaves:", f"{self.distribution.leaves:,}"),
        ]
        right = [
            *guarantee_facts(self.release),
            (f"Band ({1 - alpha:.0%}):", f"+- {self.band_width(alpha).max():.4g}"),
        ]
        notes = [
            guarantee(self.release),
            "The band holds the whole distribution function with the stated probability; intervals are for one "
            "quantile each. Sampling and privacy noise both count."
            if self.target == "population"
            else "Band and intervals are about these rows: only privacy noise counts.",
        ]
        notes += [*column_notes(self.release), *charge_notes(self.release)]
        flags = self.quantile(0.5).flags
        return summary_of(title, left, right, table, notes, flags)

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05) -> Axes:
        """Draw the distribution function of each group with its simultaneous band.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
        alpha : float

        Returns
        -------
        matplotlib.axes.Axes
        """
        check_alpha(alpha)
        ax = given_or_new(ax, 6.5, 4)
        labels = column_labels(self.release, self.labels)
        for place, (label, tree, half) in enumerate(zip(labels, self.trees, self._halves(alpha), strict=True)):
            color = f"C{place}"
            # Between two edges the function is above what it is at the first, and below what it is at the second.
            lower, upper = np.clip(tree.cdf - half, 0, 1)[:-1], np.clip(tree.cdf + half, 0, 1)[1:]
            ends = np.stack([tree.edges[:-1], tree.edges[1:]], axis=1).ravel()
            ax.fill_between(ends, np.repeat(lower, 2), np.repeat(upper, 2), color=color, alpha=0.2, lw=0)
            ax.plot(tree.edges, tree.cdf, color=color, lw=1.6, label=label or None)
        ax.set(xlabel=self.release.schema.caption(self.column), ylabel="share of rows", ylim=(0, 1))
        titled(ax, f"{1 - alpha:.0%} band, {title_guarantee(self.release)}")
        restrain(ax)
        grouped(ax.xaxis)
        if self.labels != [""]:
            legend(ax)
        return ax

    def __repr__(self) -> str:
        return f"<CDFResults: {self.column}, {self.distribution.leaves:,} leaves, {title_guarantee(self.release)}>"
