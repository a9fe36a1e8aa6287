"""Results of descriptive statistics, labelled by group, with their tables and plots.

Histograms are drawn as bars over a numeric axis, tables as bars or heat maps, others as intervals.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from dpinfer.display.report import number
from dpinfer.errors import InferenceError
from dpinfer.results import drawing, printing
from dpinfer.results.base import PrivateResults
from dpinfer.statistics.combination import SUSPICIOUS, Consistency, ConsistencyTest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from dpinfer.release.release import AnyRelease
    from dpinfer.statistics.arrays import Array
    from dpinfer.statistics.inference import Inference


_BIN = re.compile(r"\[(.+), (.+)[)\]]")

_CURVES = 4
"""Groups of a histogram that are drawn as outlines; more are a heat map."""

_TALLEST = 12.0
"""Height in inches of a new figure, at most."""

_WHOLE = 100.0
"""Size of the largest cell of a heat map from which all are shown as whole numbers."""


class DescriptionResults(PrivateResults):
    """Estimates of means, totals, shares, counts and similar quantities, by group.

    They have all methods of regression results: ``params``, ``bse``, ``conf_int``, ``t_test`` (for differences between
    groups), ``wald_test``, ``with_inference``.

    Parameters
    ----------
    inference, release, notes
        As in `PrivateResults`.
    model_name : str
        Name of the estimates in tables, such as "Private mean".
    response : str
        The quantity described.
    quantity : str
        Name of the column of estimates, such as "mean".
    index : Index
        Labels of the parameters: groups, quantities, or both.
    sizes : Series, optional
        Noisy number of rows (or sum of weights) behind each parameter.

    Attributes
    ----------
    index : Index
    sizes : Series or None
    """

    def __init__(
        self,
        inference: Inference,
        release: AnyRelease,
        *,
        model_name: str = "Private description",
        response: str = "",
        notes: Sequence[str] = (),
        quantity: str = "estimate",
        index: pd.Index | None = None,
        sizes: pd.Series | None = None,
    ) -> None:
        super().__init__(inference, release, model_name=model_name, response=response, notes=notes)
        self.quantity = quantity
        self.index = pd.Index(list(inference.names)) if index is None else index
        self.sizes = sizes

    def with_inference(self, method: str) -> Self:
        """Return the same estimates with another method of inference, at no privacy cost.

        Raises
        ------
        OptionError
            If there is no such method.
        """
        return self._inferred(method)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._model_name} of {self._response}, {len(self.index)} estimates>"

    @property
    def estimates(self) -> pd.Series:
        """Estimates labelled by group, whereas ``params`` has plain names."""
        return pd.Series(self.params.to_numpy(), index=self.index, name=self.quantity)

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the table behind text, HTML and plots.

        Parameters
        ----------
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        DataFrame
            A row per group and quantity; columns: the estimate, "std err", "std err (sampling)", "std err (noise)", the
            ends of the interval, "noise share", and "count" if sizes were released.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
        """
        frame = self._frame(alpha, tested=False).set_axis(self.index).rename(columns={"coef": self.quantity})
        if self.sizes is not None:
            frame["count"] = self.sizes.to_numpy()
        return frame

    _with_tests = False
    _table_of = staticmethod(printing.estimate_table)

    @property
    def _title(self) -> str:
        return f"{self.model_name} of {self.response}"

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05, color: str | None = None) -> Axes:
        """Plot estimates with intervals, distinguishing the sampling part from the noise part.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
        alpha : float
        color : str, optional

        Returns
        -------
        matplotlib.axes.Axes
        """
        release, frame = self.release, self.coefficient_frame(alpha)
        named = [printing.column_labels(release, [name])[0] if name is not None else "" for name in self.index.names]
        if self.index.names[0] is None:
            frame.index = printing.column_labels(release, self.index)
        else:  # by their groups, where these are all that tells them apart
            columns = [
                [text if len(named) == 1 or name in ("quantity", "") else f"{name}: {text}" for text in texts]
                for name, texts in zip(named, map(self._level_names, range(len(named))), strict=True)
            ]
            frame.index = [", ".join(texts) for texts in zip(*columns, strict=True)]
        response = printing.column_caption(release, self.response)
        label = f"{self.quantity} of {response}" if response else self.quantity
        title = self._plot_title()
        axes = drawing.draw_intervals(
            frame, ax, alpha=alpha, color=color, legend=True, zero=False, label=label, title=title
        )
        drawing.grouped(axes.xaxis)
        groups = [printing.column_caption(release, str(name)) for name in self.index.names if name is not None]
        if groups and self.index.nlevels == 1:
            axes.set_ylabel(groups[0])
        return axes

    def _level_names(self, place: int) -> list[str]:
        """Return the names of the levels of a group."""
        return [level_name(one) for one in self.index.get_level_values(place)]


class ProportionResults(DescriptionResults):
    """Shares of levels, which for one categorical column also give its natural parameters."""

    def natural_params(self) -> pd.DataFrame:
        """Return log odds of true, or of each level against the first, by the delta method.

        Returns
        -------
        DataFrame
            Columns "estimate" and "std err" (sampling and noise).

        Raises
        ------
        InferenceError
            If there are groups, or a share was clipped to 0 or 1, so that its log odds are infinite.
        """
        shares = self.params.to_numpy()
        total = self._inference.cov_sampling + self._inference.cov_noise
        if self.index.nlevels > 1 or (len(shares) == 1 and self.index.name is not None):
            raise InferenceError("natural parameters are offered for one column without groups")
        if not ((shares > 0) & (shares < 1)).all():
            raise InferenceError("a share was clipped to 0 or 1: its log odds are infinite")
        if len(shares) == 1:
            values, slope = np.log(shares / (1 - shares)), np.array([[1 / (shares[0] * (1 - shares[0]))]])
            names = [f"log odds of {self.params.index[0]}"]
        else:
            values = np.log(shares[1:] / shares[0])
            slope = np.column_stack([np.full(len(values), -1 / shares[0]), np.diag(1 / shares[1:])])
            names = [f"log odds of {name} against {self.params.index[0]}" for name in self.params.index[1:]]
        error = np.sqrt(np.diag(slope @ total @ slope.T))
        return pd.DataFrame({"estimate": values, "std err": error}, index=names)


class TableResults(DescriptionResults):
    """Noisy counts of a table, which also give margins and shares.

    Parameters
    ----------
    inference, release
        As in `DescriptionResults`.
    table : object, optional
        A measured table or marginals, whose ``margin`` and ``proportions`` the results use.
    **labels
        As in `DescriptionResults`.
    """

    def __init__(self, inference: Inference, release: AnyRelease, *, table: Any = None, **labels: Any) -> None:
        super().__init__(inference, release, **labels)
        self._table = table

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05, color: str | None = None) -> Axes:
        """Plot the counts: bars for bins or for the levels of one column, a heat map for several columns.

        Bins have a numeric axis. Thick parts of intervals are due to sampling. With up to four groups, bins are
        outlines.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
        alpha : float
        color : str, optional

        Returns
        -------
        matplotlib.axes.Axes
        """
        if self.index.names[0] is None:
            return super().plot(ax, alpha=alpha, color=color)
        levels = self.index.get_level_values(-1).unique()
        edges, groups = _edges(levels), len(self.index) // len(levels)
        binned = edges is not None and groups <= _CURVES
        if edges is not None and binned:
            axes = self._histogram(edges, groups, ax, alpha, color)
        elif self.index.nlevels > 1:
            return self._heat(ax)
        else:
            axes = self._bars(ax, alpha, color)
        drawing.titled(axes, f"{self._plot_title()}, {100 * (1 - alpha):.4g}% intervals, the thick part from sampling")
        drawing.restrain(axes)
        if binned and groups > 1:
            drawing.legend(
                axes,
                title=", ".join(printing.column_caption(self.release, str(name)) for name in self.index.names[:-1]),
            )
        return axes

    def _histogram(self, edges: Array, groups: int, ax: Axes | None, alpha: float, color: str | None) -> Axes:
        ax = drawing.given_or_new(ax, 6.4, 3.8)
        frame = self.coefficient_frame(alpha)
        bins, middle = len(edges) - 1, (edges[:-1] + edges[1:]) / 2
        widths = np.diff(edges)
        even = bool(np.allclose(widths, widths[0]))
        scale = np.ones(bins) if even else widths
        names = [self._level_names(place) for place in range(self.index.nlevels)]
        finite = frame.fillna(0.0).clip(*drawing.finite_range(frame, 0.05, zero=True))
        for place in range(groups):
            shade = color if color and groups == 1 else f"C{place}"
            own = finite.iloc[place * bins : (place + 1) * bins].div(scale, axis=0)
            label = ", ".join(column[place * bins] for column in names[:-1])
            ax.stairs(
                own["estimate"],
                edges,
                fill=groups == 1,
                color=shade,
                alpha=0.45 if groups == 1 else 1.0,
                label=label or None,
            )
            shift = middle + (place - (groups - 1) / 2) * 0.12 * widths
            lines = drawing.ink() if groups == 1 else shade
            drawing.draw_whiskers(ax, shift, own, color=lines, upright=True, bars=True)
        if float(finite.to_numpy().min()) < 0:
            ax.axhline(0.0, color=drawing.ink(), lw=0.6)
        caption = printing.column_caption(self.release, str(self.index.names[-1]))
        ax.set(xlabel=caption, ylabel=self.quantity if even else f"{self.quantity} per unit of the axis")
        ax.set_xlim(edges[0], edges[-1])
        drawing.grouped(ax.xaxis, ax.yaxis)
        return ax

    def _bars(self, ax: Axes | None, alpha: float, color: str | None) -> Axes:
        frame = self.coefficient_frame(alpha)
        size = len(frame)
        ax = drawing.given_or_new(ax, 6.4, float(np.clip(1.1 + 0.34 * size, 2.2, _TALLEST)))
        place = np.arange(size)
        shown = frame.clip(*drawing.finite_range(frame, 0.05, zero=True))
        ax.barh(place, shown["estimate"], height=0.7, color=color or "C0", alpha=0.45)
        drawing.draw_whiskers(ax, place, shown, color=drawing.ink(), bars=True)
        ax.set_yticks(place, self._level_names(0), fontsize=drawing.SMALL if size > 30 else None)
        ax.invert_yaxis()
        ax.tick_params(axis="y", length=0)
        if float(shown.to_numpy().min()) < 0:
            ax.axvline(0.0, color=drawing.ink(), lw=0.6)
        ax.set(xlabel=self.quantity, ylabel=printing.column_caption(self.release, str(self.index.names[0])))
        drawing.grouped(ax.xaxis)
        return ax

    def _heat(self, ax: Axes | None) -> Axes:
        """Draw the last column across and the others down."""
        columns = len(self.index.get_level_values(-1).unique())
        values = self.params.to_numpy(dtype=np.float64).reshape(-1, columns)
        names = [self._level_names(place) for place in range(self.index.nlevels)]
        across = names[-1][:columns]
        down = [", ".join(column[place] for column in names[:-1]) for place in range(0, len(self.index), columns)]
        ax = drawing.given_or_new(
            ax, float(np.clip(1.9 + 0.85 * columns, 5.0, 14.0)), float(np.clip(1.5 + 0.36 * len(down), 2.6, _TALLEST))
        )
        whole = float(np.nanmax(np.abs(values))) >= _WHOLE
        texts = [[number(round(one) if whole else one, 3 if not whole else 6) for one in row] for row in values]
        drawing.heat_table(ax, values, down, across, texts=texts)
        called = [printing.column_caption(self.release, str(name)) for name in self.index.names]
        ax.set(xlabel=called[-1], ylabel=", ".join(called[:-1]))
        drawing.titled(ax, f"{self.quantity}, {printing.title_guarantee(self.release)}")
        return ax

    def frame(self) -> pd.DataFrame | pd.Series:
        """Return the noisy counts as a table, with the last column across and the others down."""
        estimates = self.estimates
        return estimates.unstack(sort=False) if estimates.index.nlevels > 1 else estimates  # noqa: PD010  (of a Series)

    def margin(self, *columns: str) -> TableResults:
        """Return the counts of some of the table's columns, summed over the others, at no privacy cost.

        Raises
        ------
        OptionError
            If a name is not a text.
        MissingFromReleaseError
            If a column is not in the table.
        """
        found: TableResults = self._counted.margin(
            columns, inference=self._inference.method, target=self._inference.target
        )
        return found

    def proportions(self, column: str, by: str | Sequence[str] = ()) -> DescriptionResults:
        """Return the shares of the levels of a column, within groups of others, at no privacy cost.

        Raises
        ------
        OptionError
            If a name is not a text.
        MissingFromReleaseError
            If a column is not in the table.
        """
        found: DescriptionResults = self._counted.proportions(column, by, inference=self._inference.method)
        return found

    @property
    def _counted(self) -> Any:
        if self._table is None:
            raise InferenceError("these counts are of no table that was measured")
        return self._table


def level_name(level: Any) -> str:
    """Return the name of a level."""
    if isinstance(level, bool | np.bool_):
        return "yes" if level else "no"
    if isinstance(level, float | np.floating):
        return number(float(level))
    ends = _read_bin(level)
    return str(level) if ends is None else f"{number(ends[0], 6)} to {number(ends[1], 6)}"


def _read_bin(level: Any) -> tuple[float, float] | None:
    found = _BIN.fullmatch(level) if isinstance(level, str) else None
    try:
        return None if found is None else (float(found[1]), float(found[2]))
    except ValueError:
        return None


def _edges(levels: pd.Index) -> Array | None:
    """Return the edges of adjacent bins; None if levels are anything else."""
    ends = [_read_bin(level) for level in levels]
    if not ends or any(one is None for one in ends):
        return None
    low, high = np.array(ends, dtype=np.float64).T
    return np.append(low, high[-1]) if np.array_equal(low[1:], high[:-1]) else None


class CombinedResults(DescriptionResults):
    """Estimates from several releases, weighted by precision, with a test of their consistency.

    They have all methods of `DescriptionResults`.

    Parameters
    ----------
    inference, release, **options
        As in `DescriptionResults`.
    consistency : Consistency
        Measured and fitted values.
    labels : sequence of (int, str)
        Release and quantity of each measured value.
    """

    _estimated_as = "combined"

    def __init__(
        self,
        inference: Inference,
        release: AnyRelease,
        *,
        consistency: Consistency,
        labels: Sequence[tuple[int, str]],
        **options: Any,
    ) -> None:
        super().__init__(inference, release, **options)
        self._consistency, self._measured = consistency, tuple(labels)

    def consistency_test(self) -> ConsistencyTest:
        """Test whether the releases are consistent with the same data.

        Returns
        -------
        ConsistencyTest
            Statistic (the sum of squared standardised residuals), degrees of freedom, p-value and method: chi-squared
            with normal noise, otherwise simulated from the distributions of the noise with a public seed.
        """
        return self._consistency.test

    def measured_frame(self) -> pd.DataFrame:
        """Return measured and fitted values, with residuals.

        Returns
        -------
        DataFrame
            A row per measured quantity, labelled by release (from 1) and quantity; columns "measured", "std err" of
            its own noise, "fitted", and "residual" in standard deviations.
        """
        found = self._consistency
        return pd.DataFrame(
            {
                "measured": found.measured,
                "std err": np.sqrt(found.noise.variances),
                "fitted": found.fitted,
                "residual": found.residuals,
            },
            index=pd.MultiIndex.from_tuples(self._measured, names=["release", "quantity"]),
        )

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, for example that the releases contradict each other."""
        test = self.consistency_test()
        if test.pvalue >= SUSPICIOUS:
            return super().flags
        return (
            *super().flags,
            f"the releases differ by more than their noise explains (p = {test.pvalue:.2g}): they may not describe the "
            "same data",
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes printed below the tables, in addition to those on the guarantee."""
        test = self.consistency_test()
        if test.df == 0:
            return (*self._notes, "The releases are exactly identified: there is no test of their agreement.")
        told = f"{test.method}: {test.statistic:.4g} on {test.df} degrees of freedom, p = {test.pvalue:.3g}"
        return (*self._notes, f"Agreement of the releases ({told}).")
