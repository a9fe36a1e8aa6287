"""Results of distributions: quantiles, distribution functions, densities, rank and distribution tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.checks import is_number
from dpinfer.display.progress import watch
from dpinfer.distributions.bins import DensityEstimates, density_intervals, projected, variance_error
from dpinfer.distributions.rank_statistics import HIDING, Distance, GroupRanks, Groups, Judged, LeafTest, SignedRanks
from dpinfer.distributions.tree import QuantileInference, Tree, cdf_interval, fit_tree, simultaneous_width
from dpinfer.errors import InferenceError, OptionError
from dpinfer.results import printing
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.results.drawing import FAINT, given_or_new, grouped, legend, restrain, titled
from dpinfer.results.printing import Exported, PrivateSummary, alike_flags, interval_labels
from dpinfer.results.testing import Effect, TestResults, check_alpha
from dpinfer.schema.columns import Integer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from dpinfer.kernel.rows.tree import TreeSum
    from dpinfer.release import Release
    from dpinfer.statistics.arrays import Array


_SHOWN = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)

_LEAST_VARIANCE = 1e-12
"""Least variance of a noisy count; under a huge budget it may vanish in floating point."""

_MOST_LINES = 40
"""Bins that a summary shows; of more only some."""

_CHOSEN = "Quantiles were chosen by the exponential mechanism, intervals come from a noisy tree of counts."

_FEW_ROWS = 10.0
"""Rows of a group below which intervals of effects, which are those of large samples, are doubted."""

_HIDDEN = "not determined: privacy noise dominates the counts of {}, so the test has little power"


# Quantiles and distribution functions


def read_probabilities(q: object) -> tuple[float, ...]:
    """Validate probabilities: one number or several.

    Raises
    ------
    OptionError
        If there are none, one is repeated, or one is not a number in [0, 1].
    """
    listed: list[Any] = list(q) if isinstance(q, Sequence | np.ndarray | pd.Series) and not isinstance(q, str) else [q]
    numbers = all(is_number(p) for p in listed)
    if not listed or not numbers or not all(0 <= p <= 1 for p in listed) or len(set(map(float, listed))) < len(listed):
        raise OptionError("q", q, "a probability from 0 to 1, or a list of different ones")
    return tuple(map(float, listed))


@dataclass(frozen=True, eq=False)
class CDFResults(Exported):
    """A private distribution function, by group.

    Attributes
    ----------
    release : Release
    rows : TreeSum
        The tree of counts: the column, its leaves and the groups.
    where : str or None
        Condition on the rows.
    target : {"population", "data"}
    replicates, seed : int
        Number of replicates and public seed of the simulation for the simultaneous band.
    """

    release: Release = field(repr=False)
    rows: TreeSum = field(repr=False)
    where: str | None = None
    target: str = "population"
    replicates: int = 999
    seed: int = 0

    @property
    def column(self) -> str:
        """The column."""
        return self.rows.name

    @cached_property
    def trees(self) -> tuple[Tree, ...]:
        """The consistent counts, one tree per group."""
        rows, shape = self.rows, (self.rows.size, self.rows.width)
        least = np.where(np.asarray(self.release.law.scales) > 0, _LEAST_VARIANCE, 0.0)
        by_node = np.maximum(self.release.noise_variances, least).reshape(shape)
        by_level = by_node[:, [2**level - 1 for level in range(rows.depth + 1)]]
        counts = self.release.array.reshape(shape)
        return tuple(fit_tree(one, spread, rows.edges) for one, spread in zip(counts, by_level, strict=True))

    @property
    def nobs_is_public(self) -> bool:
        """Whether the number of rows is public."""
        return bool(self.rows.public(self.release.neighbors)[0])

    @cached_property
    def _step(self) -> float:
        """Number of integers in one leaf; 0 for a Real column."""
        column = self.rows.schema[self.column]
        return float(-(-(column.width + 1) // self.rows.leaves)) if isinstance(column, Integer) else 0.0

    @cached_property
    def _dependence(self) -> float:
        return float(self.release.schema.rows_per_unit) if self.target == "population" else 0.0

    @property
    def nobs(self) -> float:
        """Number of rows in all groups: noisy, or public."""
        return float(sum(tree.total for tree in self.trees))

    @property
    def labels(self) -> list[str]:
        """Labels of the groups; an empty string if there are none."""
        return self.rows.group_names

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the distribution function at the edges of the leaves.

        Parameters
        ----------
        alpha : float
            One minus the confidence level.

        Returns
        -------
        DataFrame
            A row per group and edge: "x"; "cdf", the nondecreasing share of rows below x; "lower" and "upper", the
            pointwise interval; "band lower" and "band upper", the simultaneous band for the whole function. Edges lie
            between the integers of an Integer column.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
        """
        frames, heads = [], ["x", "cdf", "lower", "upper", "band lower", "band upper"]
        for label, tree, half in zip(self.labels, self.trees, self._halves(alpha), strict=True):
            low, high = cdf_interval(tree, alpha, dependence=self._dependence).T
            band = np.clip(tree.cdf - half, 0.0, 1.0), np.clip(tree.cdf + half, 0.0, 1.0)
            columns = tree.edges, tree.cdf, np.minimum(low, tree.cdf), np.maximum(high, tree.cdf), *band
            group: dict[str, Any] = {"group": label} if label else {}
            frames.append(pd.DataFrame(group | dict(zip(heads, columns, strict=True))))
        return pd.concat(frames, ignore_index=True)

    def _halves(self, alpha: float) -> list[float]:
        options: dict[str, Any] = {"dependence": self._dependence, "replicates": self.replicates, "seed": self.seed}
        check_alpha(alpha)
        with watch("CDF band", total=self.replicates * len(self.trees), unit=" draws") as counted:
            return [simultaneous_width(tree, alpha, counted=counted, **options) for tree in self.trees]

    def band_width(self, alpha: float = 0.05) -> pd.Series:
        """Return the half width of the simultaneous band of every group."""
        return pd.Series(self._halves(alpha), index=[label or self.column for label in self.labels], name="half width")

    def quantile(self, q: float | Sequence[float], *, continuous: bool = False) -> DescriptionResults:
        """Return quantiles with intervals from the same release, at no privacy cost; see `dpinfer.quantile`."""
        return self.quantiles(read_probabilities(q), continuous=continuous)

    def quantiles(
        self, probabilities: tuple[float, ...], *, inference: str = "auto", **options: Any
    ) -> DescriptionResults:
        """Infer quantiles; ``options`` as in `dpinfer.quantile`, and ``selected``: see `QuantileInference`."""
        rows, groups = self.rows, [axis.name for axis in self.rows.groups]
        keys = [(*label, p) for label in rows.labels for p in probabilities]
        found = QuantileInference(
            tuple(f"{p:g}[{name}]" if name else f"{p:g}" for name in rows.group_names for p in probabilities),
            self.trees,
            np.array(probabilities),
            step=self._step,
            method=inference,
            target=self.target,
            nobs=float(sum(tree.total for tree in self.trees)),
            dependence=rows.schema.rows_per_unit,
            nobs_is_public=self.nobs_is_public,
            **options,
        )
        notes = [f"Rows: {self.where}."] if self.where else []
        notes += [] if found.selected is None else [_CHOSEN]
        index = pd.MultiIndex.from_tuples(keys, names=[*groups, "q"]) if groups else pd.Index(probabilities, name="q")
        return DescriptionResults(
            found,
            self.release,
            model_name="Private quantiles",
            response=rows.name,
            notes=notes,
            quantity="quantile",
            index=index,
            sizes=pd.Series(np.repeat([tree.total for tree in self.trees], len(probabilities))),
        )

    def __call__(self, x: float | Sequence[float]) -> pd.DataFrame:
        """Evaluate the distribution function, the share of rows up to x; a row per x, a column per group."""
        values = np.atleast_1d(np.asarray(x, dtype=np.float64))
        places = np.floor(values) + 0.5 if self._step else values  # edges lie between whole numbers
        columns = {
            label or "cdf": np.interp(places, tree.edges, tree.cdf, left=0.0)
            for label, tree in zip(self.labels, self.trees, strict=True)
        }
        return pd.DataFrame(columns, index=pd.Index(values, name="x"))

    def summary(self, alpha: float = 0.05) -> PrivateSummary:
        """Return a table of quantiles with the guarantee and the width of the band."""
        found = self.quantile(_SHOWN).summary_frame(alpha).drop(columns="count")
        table = printing.estimate_table(found, printing.label_texts(found.index))
        nobs = printing.format_count(self.nobs, public=self.nobs_is_public)
        left = [("Column:", self.column), ("No. Observations:", nobs), ("Leaves:", f"{self.rows.leaves:,}")]
        band = f"Band ({1 - alpha:.0%}):", f"+- {self.band_width(alpha).max():.4g}"
        notes = [
            printing.guarantee_note(self.release),
            "The band is simultaneous: it covers the whole distribution function. Intervals are pointwise. Both "
            "account for sampling error and privacy noise."
            if self.target == "population"
            else "Band and intervals are for these rows, not a wider population: they account for privacy noise only.",
            *printing.column_notes(self.release),
        ]
        title = f"Private distribution function of {self.column}"
        right = [*printing.guarantee_facts(self.release), band]
        return printing.summary_of(title, left, right, table, notes, self.quantile(0.5).flags)

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05) -> Axes:
        """Plot the distribution function of each group with its simultaneous band.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
        alpha : float

        Returns
        -------
        matplotlib.axes.Axes
        """
        halves, labels = self._halves(alpha), printing.column_labels(self.release, self.labels)
        ax = given_or_new(ax, 6.5, 4)
        for place, (label, tree, half) in enumerate(zip(labels, self.trees, halves, strict=True)):
            color = f"C{place}"
            # Between two edges the function is above what it is at the first, and below what it is at the second.
            lower, upper = np.clip(tree.cdf - half, 0, 1)[:-1], np.clip(tree.cdf + half, 0, 1)[1:]
            ends = np.stack([tree.edges[:-1], tree.edges[1:]], axis=1).ravel()
            ax.fill_between(ends, np.repeat(lower, 2), np.repeat(upper, 2), color=color, alpha=0.2, lw=0)
            ax.plot(tree.edges, tree.cdf, color=color, lw=1.6, label=label or None)
        ax.set(xlabel=self.release.schema.caption(self.column), ylabel="share of rows", ylim=(0, 1))
        titled(ax, f"{1 - alpha:.0%} band, {printing.title_guarantee(self.release)}")
        restrain(ax)
        grouped(ax.xaxis)
        if self.labels != [""]:
            legend(ax)
        return ax

    def __repr__(self) -> str:
        return f"<CDFResults: {self.column}, {self.rows.leaves:,} leaves, {printing.title_guarantee(self.release)}>"


# Densities


@dataclass(frozen=True, slots=True)
class IntegratedError:
    """Components of the expected integrated squared error of a density.

    Attributes
    ----------
    sampling, noise : float
        Integrated variances; the estimates are unbiased except for the division by a noisy number of rows.
    bias : float or None
        Integrated squared distance between the true density's means over the bins and those over the finer bins of the
        first stage: the loss within bins, down to that resolution. Its estimate is unbiased for bins that do not depend
        on it. Here it chose the bins, so it tends to be too small. It may be negative. None if the bins were given,
        since nothing was measured within them.
    bias_error : float or None
        Standard error of ``bias``.
    """

    sampling: float
    noise: float
    bias: float | None = None
    bias_error: float | None = None

    @property
    def variance(self) -> float:
        """Sum of the variances from sampling and noise."""
        return self.sampling + self.noise

    @property
    def total(self) -> float | None:
        """Sum of all three components; None if the bias is not known."""
        return None if self.bias is None else self.variance + self.bias


@dataclass(frozen=True, eq=False)
class DensityResults(Exported):
    """A density estimate, constant within bins.

    Attributes
    ----------
    release : Release
    column : str
        The column.
    measured : DensityEstimates
        The counts that form the density.
    target : {"population", "data"}
    where : str or None
        Condition on the rows.
    merged : int
        Number of measured bins in one bin of the density.
    fine : DensityEstimates or None
        The first stage, if the bins were chosen privately.
    finer : int
        Number of first-stage bins in one measured bin.
    """

    release: Release
    column: str
    measured: DensityEstimates
    target: str = "population"
    where: str | None = None
    merged: int = 1
    fine: DensityEstimates | None = None
    finer: int = 1

    @cached_property
    def _estimates(self) -> DensityEstimates:
        return self.measured.merge(self.merged)

    def unmerged(self) -> DensityResults:
        """Return the density in the measured bins, before any were merged, at no privacy cost."""
        return replace(self, merged=1)

    @property
    def edges(self) -> Array:
        """Edges of the bins (k + 1,), in the column's unit; half-way between integers for an Integer column."""
        return self._estimates.edges

    @property
    def bins(self) -> int:
        """Number of bins k."""
        return self._estimates.bins

    @property
    def nobs(self) -> float:
        """Number of rows in all bins: public, or the sum of the noisy counts."""
        return float(self._estimates.total[0, 0])

    @property
    def nobs_is_public(self) -> bool:
        """Whether the number of rows is public."""
        return self.measured.nobs is not None

    @property
    def integrated_squared_error(self) -> IntegratedError:
        """Expected integrated squared error of the column ``density`` of `frame`."""
        sampling, noise = (float(part[0]) for part in variance_error(self._estimates))
        if self.fine is None:
            return IntegratedError(sampling, noise)
        nobs = float(self._estimates.size[0, 0])
        coarse, fine = self.measured.bias(self.merged, nobs), self.fine.bias(self.finer, nobs)  # down to these bins
        return IntegratedError(sampling, noise, coarse[0] + fine[0], float(np.hypot(coarse[1], fine[1])))

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, computed from released numbers only."""
        alike = alike_flags(self.release.schema, self.target)
        hidden = int(self._estimates.hidden[0].sum())
        warning = f"{hidden} of {self.bins} bins may be empty" if 2 * hidden > self.bins else ""
        warning = "there may be no row at all" if self._estimates.few[0] else warning
        return (f"privacy noise is so large that {warning}", *alike) if warning else alike

    def density(self, x: ArrayLike, *, projected: bool = False) -> Array:
        """Evaluate the density.

        Parameters
        ----------
        x : array_like
            Values in the column's unit. A bin includes its lower edge, and the last bin its upper edge too.
        projected : bool
            Whether to evaluate the projected density, which is nonnegative and integrates to 1.

        Returns
        -------
        ndarray
            With the shape of ``x``; 0 outside the bins, NaN where ``x`` is NaN.
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
        return projected(self._estimates.density, self._estimates.widths)

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the density by bin, with standard errors and intervals.

        Parameters
        ----------
        alpha : float
            One minus the confidence level of the pointwise intervals.

        Returns
        -------
        DataFrame (k rows)
            "lower" and "upper" edge; "density", noisy share over width, and "projected", the nearest density that is
            nonnegative and integrates to 1; "std err", "std err (sampling)", "std err (noise)" of "density"; the
            endpoints of the interval; "noise share" of the variance; "hidden", whether an empty bin is compatible with
            the noise.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
        """
        ends = density_intervals(self._estimates, check_alpha(alpha))[0]
        sampling, noise = (part[0] for part in self._estimates.variances)
        lower, upper = interval_labels(alpha)
        total = sampling + noise
        columns = {
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
        return pd.DataFrame(columns)

    def summary(self, alpha: float = 0.05) -> PrivateSummary:
        """Return a table of the density with its guarantee, error and warnings."""
        frame, error = self.frame(alpha), self.integrated_squared_error
        about = "these rows in each bin; they account for privacy noise only."
        if self.target == "population":
            about = "the population in each bin; they account for sampling error and privacy noise."
        bins = f"{self.bins:,} ({'given' if self.fine is None else 'chosen privately'})"
        nobs = printing.format_count(self.nobs, public=self.nobs_is_public)
        left = [("Bins:", bins), ("No. Observations:", nobs), ("Target:", self.target)]
        share = f"{error.noise / error.variance:.1%}" if error.variance > 0 else "none"
        right = [*printing.guarantee_facts(self.release), ("Noise share of variance:", share)]
        step = -(-self.bins // _MOST_LINES)
        heads, part = ["density", "std err", *interval_labels(alpha), "noise share"], frame.iloc[::step]
        stubs = [f"{low:.6g} to {high:.6g}" for low, high in zip(part["lower"], part["upper"], strict=True)]
        shown = part[heads].map("{:.4g}".format).assign(**{heads[-1]: part[heads[-1]].map("{:.1%}".format)})
        biased = "" if error.bias is None else f", {error.bias:.3g} (standard error {error.bias_error:.2g}) from bias"
        notes = [
            printing.guarantee_note(self.release),
            f"Intervals are pointwise, for the mean density of {about}",
            f"Integrated squared error: {error.sampling:.3g} from sampling, {error.noise:.3g} from noise{biased}.",
            "Values are clamped to the declared bounds: values beyond them are counted in the outer bins.",
        ]
        if isinstance(self.release.schema[self.column], Integer):
            notes.append("The density is per whole number; bin edges lie half-way between whole numbers.")
        notes += [f"Rows: {self.where}."] if self.where else []
        notes += [f"One bin in {step} is shown; frame() has all."] if step > 1 else []
        notes += printing.column_notes(self.release)
        title, table = f"Private density of {self.column}", printing.cell_table(shown.to_numpy().tolist(), heads, stubs)
        return printing.summary_of(title, left, right, table, notes, self.flags)

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05, color: str | None = None) -> Axes:
        """Plot the density with its intervals, with separate shading for sampling error and noise.

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
        The shading for sampling error scales each arm of an interval by the root of the sampling share of the variance.
        It is an illustration only.
        """
        frame, ax, color = self.frame(alpha), given_or_new(ax, 6.4, 3.8), color or "C0"
        lower, upper = (frame[name].to_numpy() for name in interval_labels(alpha))
        value = np.clip(frame["density"].to_numpy(), lower, upper)
        part = np.sqrt(1 - frame["noise share"].to_numpy())
        label = f"{100 * (1 - alpha):.4g}% interval of each bin, noise included"
        ax.stairs(upper, self.edges, baseline=lower, fill=True, color=color, alpha=0.2, lw=0, label=label)
        low, high = (value + part * (end - value) for end in (lower, upper))
        ax.stairs(high, self.edges, baseline=low, fill=True, color=color, alpha=0.35, lw=0, label="part from sampling")
        ax.stairs(frame["density"], self.edges, baseline=None, color=color, lw=1.4, label="density")
        ax.axhline(0.0, color=FAINT, lw=0.8, zorder=0)
        ax.set(xlabel=self.release.schema.caption(self.column), ylabel="density")
        titled(ax, f"{self.column}: {printing.title_guarantee(self.release)}")
        restrain(ax)
        grouped(ax.xaxis)
        legend(ax)
        return ax

    def __repr__(self) -> str:
        return f"<DensityResults: {self.column}, {self.bins:,} bins, {printing.title_guarantee(self.release)}>"


# Rank and distribution tests


@dataclass(frozen=True, eq=False, repr=False)
class RankTestResults(TestResults):
    """A rank or distribution test of binned values; unpacks into statistic and p-value.

    ``statistic`` is scipy's, computed from the noisy counts: U of the first group, H, D, the signed-rank sum, or
    Spearman's correlation. The p-value ranks ``zstatistic`` (the standardised distance for Kolmogorov-Smirnov tests),
    which includes the noise and downweights bins that noise hides.

    Attributes
    ----------
    model : LeafTest
        The statistic and its null distribution.
    values : ndarray (1, cells)
        Noisy counts.
    labels : tuple of tuples
        Labels of the groups and bins.
    names : tuple of str
        Names of the compared axes, groups first.
    """

    model: LeafTest = field(kw_only=True)
    values: Array = field(kw_only=True)
    labels: tuple[tuple[Any, ...], ...] = field(kw_only=True)
    names: tuple[str, ...] = field(kw_only=True)

    @property
    def zstatistic(self) -> float:
        """The statistic that is compared with its simulated null; signed for two groups, signs or two columns."""
        return float((self.model.signed if self.model.has_sign else self.model.statistic)(self.values)[0])

    @property
    def statistic_location(self) -> Any:
        """The bin up to which the distribution functions differ most, for Kolmogorov-Smirnov tests.

        Raises
        ------
        InferenceError
            For another test.
        """
        if not isinstance(self.model, Distance):
            raise InferenceError("only Kolmogorov-Smirnov tests, ks_1samp and ks_2samp, have a location")
        return self.labels[-1][int(self.model.where(self.values)[0])]

    def effect_size(self, alpha: float = 0.05) -> Effect:
        """Return the estimated population effect size, with its interval.

        Parameters
        ----------
        alpha : float
            One minus the confidence level.

        Returns
        -------
        Effect
            ``P(first > second) + P(equal) / 2`` for two groups, the rank-biserial correlation for signed ranks, and
            Spearman's correlation for two columns. The interval is the whole range where noise hides the rows.

        Raises
        ------
        InferenceError
            For several groups, whose mean ranks are in ``frame``, and for a distance, which ``frame`` has bin by bin.
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
        """
        model, found = self.model, self.model.effect(self.values, check_alpha(alpha))
        lower, upper = float(found.lower[0]), float(found.upper[0])
        flag = "Not determined: noise hides it." if lower <= model.least_effect and upper >= 1 else ""
        return Effect(model.effect_name, float(found.estimate[0]), lower, upper, flag)

    @property
    def bse(self) -> float:
        """Standard error of the effect size, from sampling and noise."""
        return float(self.model.effect(self.values, 0.05).error[0])

    @property
    def bse_noise(self) -> float:
        """Standard error of the effect size from privacy noise alone."""
        return float(self.model.effect(self.values, 0.05).noise_error[0])

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the quantities that the statistic compares.

        Parameters
        ----------
        alpha : float
            One minus the confidence level of the interval, if there is one.

        Returns
        -------
        DataFrame
            For ranks of groups, a row per group: "count" (noisy), "mean rank" among all rows as a share, its standard
            error, and that from noise alone. For distribution functions, a row per bin: both functions at its upper
            end, and their difference with standard errors. For signed ranks, noisy counts below, at and above zero. For
            two columns, the correlation with its interval.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
        """
        level, model, heads = check_alpha(alpha), self.model, ["std err", "std err (noise)"]
        index = pd.Index(list(self.labels[0]), name=self.names[0])
        if isinstance(model, GroupRanks):
            heads = ["count", "mean rank", *heads]
            parts = self.values.reshape(model.shape).sum(axis=1), *(one[0] for one in model.mean_ranks(self.values))
        elif isinstance(model, SignedRanks):
            heads, half = ["count", "std err (noise)"], self.values.shape[1] // 2
            counts = self.values[0, :half].sum(), self.values[0, half], self.values[0, half + 1 :].sum()
            parts = counts, np.sqrt(model.noise.variance * np.array([half, 1, half]))
        elif isinstance(model, Distance):
            names = [f"{self.names[0]} = {one}" for one in self.labels[0]]
            two = names if len(self.labels) > 1 else ["observed", "given"]
            heads, index = [*two, "difference", *heads], pd.Index(list(self.labels[-1]), name=self.names[-1])
            first, second, *errors = model.functions(self.values)
            parts = first, second, first - second, *errors
        else:
            heads, index = ["correlation", *heads, *interval_labels(alpha)], pd.Index([" and ".join(self.names)])
            parts = model.effect(self.values, level)
        return pd.DataFrame(dict(zip(heads, parts, strict=True)), index=index)

    def plot_null(self, ax: Axes | None = None, *, color: str = "C0") -> Axes:
        """Plot the simulated null distribution and the observed statistic; see `TestResults.plot_null`."""
        axes = super().plot_null(ax, color=color)
        if isinstance(self.model, Distance):
            axes.set_xlabel("standardised distance")
        elif self.model.has_sign:
            axes.set_xlabel({"two-sided": "absolute z", "greater": "z", "less": "-z"}[self.alternative])
        return axes

    def _explain(self, alpha: float = 0.05) -> list[str]:
        found = super()._explain(alpha)
        if not self.model.has_sign:
            return found
        size = self.effect_size(alpha)
        level = f"{100 * (1 - alpha):.6g}%"
        effect = f"{size.name} {size.estimate:.3f}, {level} interval {size.lower:.3f} to {size.upper:.3f}. {size.flag}"
        return [*found, effect.rstrip()]


def rank_flags(model: LeafTest, values: Array, labels: tuple[tuple[Any, ...], ...]) -> tuple[str, ...]:
    """Return the warnings of a rank test, from noisy counts (1, cells)."""
    heads = [str(one) for one in labels[0]] if isinstance(model, Groups) else ["the data"]
    table = values.reshape(len(heads), -1)
    totals, noise = table.sum(axis=1), np.sqrt(model.noise.variance * table.shape[1])
    found = [", ".join(head for head, total in zip(heads, totals, strict=True) if total < HIDING * noise)]
    if isinstance(model, Judged) and bool(model.hidden(values)[0]):
        what = "a group" if isinstance(model, Groups) else "the data, or the spread of a column"
        found = [_HIDDEN.format(what) + ": the p-value is 1"]
    elif found[0]:
        found = [_HIDDEN.format(found[0])]
    few = f"fewer than {_FEW_ROWS:.0f} rows by the noisy counts: standard errors and intervals rely on larger samples"
    return tuple(flag for flag in (*found, few if (totals < _FEW_ROWS).any() else "") if flag)
