"""Results of survival analysis, from one noisy life table by group."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.checks import FINITE, is_finite, is_list, require
from dpinfer.duration.inference import LifeTables, LogRank
from dpinfer.kernel.rows.cells import named_cells
from dpinfer.results import printing
from dpinfer.results.drawing import SMALL, given_or_new, legend, restrain, titled
from dpinfer.results.printing import (
    Exported,
    PrivateSummary,
    alike_flags,
    interval_labels,
    refuse_dependent_rows,
    separate_flags,
)
from dpinfer.results.testing import TestResults, check_alpha, checked_truth
from dpinfer.statistics.inference import joint_level
from dpinfer.statistics.nulls import check_draws, simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from dpinfer.release import Release
    from dpinfer.schema.axes import Axis
    from dpinfer.statistics.arrays import Array
    from dpinfer.statistics.noise import CountNoise
    from dpinfer.statistics.nulls import Draws


_MOST_LINES = 40
"""Lines of a life table that a summary shows; of more only some."""

_MARKS = 8
"""Parts of the axis in which a plot writes one number at risk, at most."""

_COARSE = 0.5
"""Standard errors by which survival may be too high, for intervals that are wide for the censoring in them."""

_SHIFTED = 0.25
"""Standard errors by which a test may move with the place of censorings in their intervals: its size is then .058."""

_UNEQUAL = "intervals are wide relative to the differences in censoring between groups: "
_AT_END = (
    "if times are finer than the intervals, the test rejects true hypotheses too often; infer again with "
    'censoring="middle", or use times as fine as those of the data'
)
_HALF_WAY = (
    "the test assumes that events and censorings are uniform within intervals; otherwise its size may exceed the "
    "nominal level; use more times"
)

_UNKNOWN = "not determined"


@dataclass(frozen=True, eq=False)
class SurvivalResults(Exported):
    """Survival functions by group, with hazards, quantiles, means and tests from the same life tables.

    Attributes
    ----------
    release : Release
    tables : LifeTables
        Noisy counts, a row per group.
    noise : CountNoise
        Noise of a count.
    times : ndarray (K,)
        Ends of the intervals.
    start : float
        The origin of time: the lower bound of its column.
    groups : tuple of Axis
    column, event : str
    where : str or None
    method : {"score", "log-log"}
    nobs_is_public : bool
    """

    release: Release = field(repr=False)
    tables: LifeTables = field(repr=False)
    noise: CountNoise = field(repr=False)
    times: Array
    start: float
    groups: tuple[Axis, ...] = field(repr=False)
    column: str
    event: str
    where: str | None = None
    method: str = "score"
    nobs_is_public: bool = False

    @property
    def labels(self) -> list[str]:
        """Labels of the groups; an empty string if there are none."""
        return named_cells(self.groups)

    @property
    def nobs(self) -> float:
        """Number of rows in all groups: noisy, or public."""
        public = self.release.nobs if self.nobs_is_public else None
        return float(self.tables.at_risk[:, 0].sum()) if public is None else float(public)

    @cached_property
    def _index(self) -> pd.MultiIndex:
        """Labels of the groups."""
        if not self.groups:
            return pd.MultiIndex.from_tuples([("all",)], names=["group"])
        return pd.MultiIndex.from_product([axis.labels for axis in self.groups], names=[a.name for a in self.groups])

    def _indexed(self, columns: dict[str, Array], name: str = "", values: Sequence[Any] = ()) -> pd.DataFrame:
        """Arrange columns with a row for each group, or for each group and value."""
        index: Any = self._index
        if name:
            keys = [(*group, value) for group in index for value in values]
            index = pd.MultiIndex.from_tuples(keys, names=[*index.names, name])
        index = index.droplevel("group") if name and not self.groups else index
        index = index if index.nlevels > 1 else index.get_level_values(0)
        return pd.DataFrame({head: np.ravel(one) for head, one in columns.items()}, index)

    @cached_property
    def _errors(self) -> Array:
        return np.asarray(self.tables.survival * np.sqrt(np.einsum("nkk->nk", sum(self.tables.covariance()))))

    def _z(self, alpha: float, simultaneous: bool = False) -> Array:
        """Return normal quantiles (N,) for pointwise intervals, or for simultaneous ones within a group."""
        levels = np.full(len(self.tables.beyond), check_alpha(alpha))
        if checked_truth("simultaneous", simultaneous):
            total = sum(self.tables.covariance())
            for place, clear in enumerate(self.tables.clear):
                levels[place] = joint_level(np.asarray(total)[place][np.ix_(clear, clear)], alpha)
        return np.asarray(stats.norm.isf(levels / 2))

    def _by_time(self, columns: dict[str, Array], ends: Array, alpha: float, top: float = 1.0) -> pd.DataFrame:
        """Arrange columns (N, K) by group and time, with intervals, and NaN where not determined."""
        lower, upper = interval_labels(alpha)
        known = self.tables.clear & ~((ends[..., 0] <= 0) & (ends[..., 1] >= top))
        estimated = {name: np.where(self.tables.clear, one, np.nan) for name, one in columns.items()}
        columns = estimated | {lower: ends[..., 0], upper: ends[..., 1], "determined": known}
        return self._indexed(columns, "time", self.times.tolist())

    def frame(self, alpha: float = 0.05, *, simultaneous: bool = False) -> pd.DataFrame:
        """Return the life table.

        Parameters
        ----------
        alpha : float
            One minus the confidence level.
        simultaneous : bool
            Whether intervals cover simultaneously at all times of a group, as an equal-precision band, or pointwise.

        Returns
        -------
        DataFrame
            A row for each group and end of a time interval: its noisy counts "at risk", "events" and "censored";
            "survival" beyond its end, "std err" by the delta method, and "std err (noise)" from noise alone; the
            confidence interval; and whether survival is "determined". If not, estimates are NaN, and the confidence
            interval extends from 0 to the last known upper endpoint.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1, or ``simultaneous`` is not a Boolean.
        """
        tables, z = self.tables, self._z(alpha, simultaneous)
        noise = tables.survival * np.sqrt(np.einsum("nkk->nk", tables.covariance()[1]))
        columns = {"survival": tables.survival, "std err": self._errors, "std err (noise)": noise}
        found = self._by_time(columns, tables.ends(z, method=self.method), alpha)
        for place, name in enumerate(("at risk", "events", "censored")):
            found.insert(place, name, getattr(tables, name.replace(" ", "_")).ravel())
        return found

    def cumulative_hazard(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the Nelson-Aalen cumulative hazard by group and time, with columns as in `frame`.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
        """
        z, (sampling, noise) = (
            self._z(alpha),
            (np.einsum("nkk->nk", one) for one in self.tables.covariance(hazard=True)),
        )
        columns = {"cumulative hazard": np.cumsum(self.tables.hazards, axis=1), "std err": np.sqrt(sampling + noise),
                   "std err (noise)": np.sqrt(noise)}  # fmt: skip
        return self._by_time(columns, self.tables.ends(z, hazard=True), alpha)

    def quantile(self, q: float | Sequence[float], alpha: float = 0.05) -> pd.DataFrame:
        """Return quantiles of the times to the event, with Brookmeyer-Crowley intervals.

        Parameters
        ----------
        q : float or sequence of float
            Probabilities strictly between 0 and 1.
        alpha : float
            One minus the confidence level.

        Returns
        -------
        DataFrame
            A row for each group and probability: "quantile", the first time at which survival is below ``1 - q``,
            infinite if it is not by the last time, and NaN if noise hides it; the endpoints of the interval, which
            contains the times at which survival of ``1 - q`` is not rejected; and whether the quantile is "determined".

        Raises
        ------
        OptionError
            If a probability or ``alpha`` is not strictly between 0 and 1.
        """
        asked: list[Any] = list(q) if is_list(q) else [q]
        right = bool(asked) and all(is_finite(one) and 0 < one < 1 for one in asked)
        require(right, "q", q, "a probability strictly between 0 and 1, or a list of them")
        tables, ends = self.tables, self.tables.ends(self._z(alpha), method=self.method)
        beyond, level = np.append(self.times, np.inf), 1 - np.array(asked, dtype=np.float64)[:, None]
        clear, survival, (low, high) = (
            tables.clear[:, None],
            tables.survival[:, None],
            ends.transpose(2, 0, 1)[:, :, None],
        )

        def first(held: Any) -> Any:
            return np.where(held.any(axis=2), held.argmax(axis=2), held.shape[2])

        at = first(clear & (survival < level - 1e-12))
        found = np.where((at == len(self.times)) & ~clear.all(axis=2), np.nan, beyond[at])
        last = len(self.times) - first((high >= level)[..., ::-1])
        lower, upper = interval_labels(alpha)
        columns = {"quantile": found, lower: beyond[first(low <= level)], upper: beyond[last]}
        return self._indexed(columns | {"determined": ~np.isnan(found)}, "q", asked)

    def median(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the median time of each group; see `quantile`."""
        found = self.quantile(0.5, alpha)
        return found.droplevel("q") if self.groups else found.set_axis(self._index.get_level_values(0))

    def restricted_mean(self, horizon: float | None = None, alpha: float = 0.05) -> pd.DataFrame:
        """Return the restricted mean time up to a horizon: the area under the survival function.

        Parameters
        ----------
        horizon : float, optional
            By default the last of the times.
        alpha : float
            One minus the confidence level.

        Returns
        -------
        DataFrame
            A row for each group: "restricted mean", "std err", "std err (noise)", the endpoints of the interval, and
            whether the mean is "determined". If not, estimates are NaN, and the interval contains all values compatible
            with the known part of the survival function.

        Raises
        ------
        OptionError
            If the horizon is not within the times, or ``alpha`` is not strictly between 0 and 1.
        """
        last = float(self.times[-1])
        reach = last if horizon is None else horizon
        FINITE.check("horizon", reach)
        require(self.start < reach <= last, "horizon", horizon, f"a time above {self.start:g}, up to {last:g}")
        z, tables = self._z(alpha), self.tables
        first, *steps = np.diff(np.minimum([self.start, *self.times], reach))
        weights = np.append(steps, 0.0)
        part = np.where(tables.clear, weights, 0.0) * tables.survival
        sampling, noise = (np.einsum("nk,nkl,nl->n", part, one, part) for one in tables.covariance())
        # Where numbers at risk are hidden, survival is between 0 and the last upper end.
        unknown = np.where(tables.clear, 0.0, weights)
        known, spare = unknown.sum(axis=1) == 0, (unknown * tables.ends(z)[..., 1]).sum(axis=1)
        least = self.start + first  # all survive the beginning of the first interval
        error, mean = np.sqrt(sampling + noise), least + part.sum(axis=1)
        low, high = tables.scored(z, np.where(tables.clear, weights, 0.0)[:, None])[:, 0].T
        lower, upper = interval_labels(alpha)
        columns = {name: np.where(known, one, np.nan) for name, one in (
            ("restricted mean", mean), ("std err", error), ("std err (noise)", np.sqrt(noise)))}  # fmt: skip
        columns |= {lower: least + low, upper: np.minimum(least + high + spare, reach)}
        return self._indexed(columns | {"determined": known})

    def logrank(
        self, rho: float = 0.0, gamma: float = 0.0, *, draws: Draws = "adaptive", seed: int = 0
    ) -> LogRankResults:
        """Test whether all groups have the same hazards, by a log-rank or Fleming-Harrington test.

        Parameters
        ----------
        rho, gamma : float
            Weights are ``S^rho (1 - S)^gamma``, where S is the pooled survival before each interval.
        draws : "adaptive" or int
            Number of simulated releases.
        seed : int
            Public seed of the simulation.

        Returns
        -------
        LogRankResults

        Raises
        ------
        OptionError
            If there are no groups, or an option has an invalid value.
        NotProvedError
            If a person may have several rows.

        Notes
        -----
        The ``censoring`` option of the question sets how long censored rows are at risk within their interval, both in
        the statistic and in the simulation.
        """
        check_draws(draws, seed)
        for name, given in (("rho", rho), ("gamma", gamma)):
            require(is_finite(given) and given >= 0, name, given, "a nonnegative number")
        count = len(self.tables.beyond)
        require(count > 1, "by", None, "groups: survival(..., by=) compares them")
        refuse_dependent_rows(self.release.schema, "the log-rank test", "survival functions have intervals")
        values = self.release.array[None]
        model = LogRank(self.noise, count, len(self.times), float(rho), float(gamma), self.tables.lost)
        hidden = model.hidden(values)[0]
        null = simulate(model, values[0], draws=draws, seed=seed)
        observed, expected, covariance = (one[0] for one in model.compared(values))
        shifted = model.shifted(values)[0] > _SHIFTED
        lost = ", ".join(label for label, one in zip(self.labels, hidden, strict=True) if one)
        by, weights = " x ".join(axis.name for axis in self.groups), f", rho {rho:g}, gamma {gamma:g}"
        return LogRankResults(
            title=f"Private {'Fleming-Harrington' if rho or gamma else 'log-rank'} test",
            hypothesis=f"{self.event} has the same hazards at all levels of {by}{weights if rho or gamma else ''}",
            statistic=null.statistic,
            statistic_name="Chi-squared",
            pvalue=null.pvalue,
            release=self.release,
            dof=float(count - 1),
            distribution=null,
            nobs=self.nobs,
            nobs_is_public=self.nobs_is_public,
            flags=(
                *((f"{_UNKNOWN}: noise hides the rows of {lost}: the p-value is 1",) if lost else ()),
                *((f"{_UNEQUAL}{_HALF_WAY if self.tables.lost else _AT_END}",) if shifted else ()),
            ),
            notes=self._notes,
            compared=self._indexed(
                {"observed": observed, "expected": expected, "std err": np.sqrt(np.diag(covariance))}
            ),
        )

    # What is shown

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, computed from released numbers only."""
        found = [
            f"{_UNKNOWN}: noise hides the number at risk{f' where {label}' if label else ''} from the interval "
            f"ending at {self.times[clear.sum()]:g} on"
            for label, clear in zip(self.labels, self.tables.clear, strict=True)
            if not clear.all()
        ]
        if self._coarse and not self.tables.lost:
            found.append(
                f"intervals are wide relative to the censoring in them: survival would be up to {self._coarse:.2g} "
                "lower if rows were censored half-way; if times are finer than the intervals, use "
                'censoring="middle" or more times'
            )
        schema = self.release.schema
        several = separate_flags(schema, len(self.tables.beyond), "population")
        return (*found, *alike_flags(schema, "population"), *several)

    @property
    def _coarse(self) -> float:
        """Reduction of survival if rows are censored half-way through an interval; 0 if it is small."""
        first, half = (replace(self.tables, lost=one).survival for one in (0.0, 0.5))
        away = np.where(self.tables.clear, first - half, 0.0)
        return float(away.max()) if (away > _COARSE * self._errors).any() else 0.0

    @property
    def _notes(self) -> tuple[str, ...]:
        rows = [f"Rows: {self.where}."] if self.where else []
        part = "half" if self.tables.lost else "all"
        cut = (
            f"Time is grouped into {len(self.times)} intervals; rows censored in an interval are at risk for {part} of "
            "it."
        )
        return (cut, *rows)

    def summary(self, alpha: float = 0.05) -> PrivateSummary:
        """Return the life table with its guarantee and warnings; errors as `frame`."""
        frame = self.frame(alpha)
        step = -(-len(frame) // _MOST_LINES)
        cells = [
            [*(f"{round(one):,}" for one in row[:3]),
             *(_UNKNOWN if np.isnan(one) else f"{one:.4f}" for one in row[3:4]),
             *("" if np.isnan(one) else f"{one:.4f}" for one in row[4:6]), *(f"{one:.4f}" for one in row[6:8])]
            for row in frame.iloc[::step].to_numpy(dtype=np.float64)
        ]  # fmt: skip
        table = printing.cell_table(cells, list(frame.columns[:-1]), printing.label_texts(frame.index[::step]))
        nobs = printing.format_count(self.nobs, public=self.nobs_is_public)
        left = [("Time:", self.column), ("Event:", self.event), ("No. Observations:", nobs)]
        right = [*printing.guarantee_facts(self.release), ("Intervals:", self.method)]
        notes = [
            printing.guarantee(self.release),
            *self._notes,
            "Intervals are pointwise and account for sampling error (Greenwood) and privacy noise.",
            *([f"One line in {step} is shown; frame() has all."] if step > 1 else []),
            *printing.column_notes(self.release),
            *printing.charge_notes(self.release),
        ]
        return printing.summary_of(f"Private survival of {self.column}", left, right, table, notes, self.flags)

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05, simultaneous: bool = False) -> Axes:
        """Plot the survival functions with their intervals, and noisy numbers at risk below them.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
        alpha : float
        simultaneous : bool
            As in `frame`.

        Returns
        -------
        matplotlib.axes.Axes
        """
        tables, ends = self.tables, self.tables.ends(self._z(alpha, simultaneous), method=self.method)
        ax = given_or_new(ax, 6.5, 4.2 + 0.2 * len(tables.beyond))
        at, marks = np.append(self.start, self.times), [0]
        for place in range(1, len(self.times)):
            marks += [place] if at[place] - at[marks[-1]] >= (at[-1] - at[0]) / _MARKS else []
        below: dict[str, Any] = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points", "fontsize": SMALL}
        ax.annotate("at risk (noisy)", (at[0], 0), (0, -45), **below)
        for place, label in enumerate(printing.column_labels(self.release, self.labels)):
            color, known, level = f"C{place}", tables.clear[place].sum() + 1, -58 - 12 * place
            lower, upper = (np.append(1.0, ends[place, :, side]) for side in (0, 1))
            ax.fill_between(at, lower, upper, step="post", color=color, alpha=0.18, lw=0)
            curve = np.append(1.0, tables.survival[place])
            ax.step(at[:known], curve[:known], where="post", color=color, lw=1.6, label=label or None)
            ax.annotate(label, (0, 0), (-12, level), color=color, ha="right", **below | {"xycoords": "axes fraction"})
            for mark in marks:
                risk = f"{max(tables.at_risk[place, mark], 0):,.0f}"
                ax.annotate(risk, (at[mark], 0), (0, level), color=color, ha="center", **below)
        ax.set(xlabel=self.release.schema.caption(self.column), ylabel="survival", ylim=(0, 1.02))
        kind = "band" if simultaneous else "intervals"
        titled(ax, f"{100 * (1 - alpha):.4g}% {kind}, {printing.title_guarantee(self.release)}")
        restrain(ax)
        if self.groups:
            legend(ax)
        return ax

    def __repr__(self) -> str:
        return (
            f"<SurvivalResults: {self.column}, {len(self.times)} intervals, {printing.title_guarantee(self.release)}>"
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LogRankResults(TestResults):
    """A log-rank or Fleming-Harrington test; unpacks into statistic and p-value.

    Attributes
    ----------
    compared : DataFrame
        Weighted events "observed" and "expected" by group, and the "std err" of their difference.
    """

    compared: pd.DataFrame = field(repr=False)

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:  # noqa: ARG002  (no intervals)
        """Return observed and expected weighted events by group, with standard errors of the difference."""
        return self.compared
