"""The style of all figures, and two shared figures: intervals, and a statistic with its distribution."""

from __future__ import annotations

import textwrap
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from dpinfer.checks import of_type
from dpinfer.display.report import number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from dpinfer.statistics.arrays import Array


FAINT = "0.55"
"""A grey for lines that guide the eye: legible on white and on black."""

MARKED = "C1"
"""The colour of what is observed, or matters most: the theme's second."""

SMALL = "small"
"""Size of the text of legends and of crowded ticks."""

_TITLE = 72
"""Characters of a title in a line, at the usual width of a figure."""


def given_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the axes given, or those of a new figure of this size in inches."""
    if ax is not None:
        from matplotlib.axes import Axes  # noqa: PLC0415  (as below)

        of_type(Axes, "ax", ax, "matplotlib Axes, or None for a new figure", hidden=True)
        return ax
    from matplotlib import pyplot as plt  # noqa: PLC0415  (imported when first needed: it is slow to load)

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def ink() -> Any:
    """Return the text colour of the active theme."""
    from matplotlib import rcParams  # noqa: PLC0415  (imported when first needed)

    return rcParams["text.color"]


def restrain(ax: Axes, *, left: bool = True, bottom: bool = True) -> None:
    """Remove the frame, except for the sides with a scale."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines["left"].set_visible(left)
    ax.spines["bottom"].set_visible(bottom)


def titled(ax: Axes, text: str) -> None:
    """Set a title, wrapped to the width of the axes."""
    wide = ax.get_window_extent().width / ax.get_figure(root=True).dpi  # type: ignore[union-attr]
    ax.set_title(textwrap.fill(text, max(int(_TITLE * wide / 6.0), 24)), fontsize="medium")


def legend(ax: Axes, **options: Any) -> None:
    """Add a legend without a frame."""
    ax.legend(frameon=False, fontsize=SMALL, **options)


def grouped(*axes: Axis) -> None:
    """Group the digits of large numbers on linear axes."""
    from matplotlib.ticker import FuncFormatter  # noqa: PLC0415  (imported when first needed)

    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda value, _: number(value, 6)))


def shades(count: int) -> list[Any]:
    """Return a few ordered colours, from faint to full, that are legible on light and dark backgrounds."""
    from matplotlib import colormaps  # noqa: PLC0415  (imported when first needed)

    return list(colormaps["viridis"](np.linspace(0.8, 0.3, count))) if count > 1 else ["C0"]


def heat_table(
    ax: Axes, values: Array, rows: Sequence[str], columns: Sequence[str], *, texts: Sequence[Sequence[str]]
) -> None:
    """Draw a table (r, c) as a heat map with texts, from the background to the first theme colour."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb  # noqa: PLC0415  (imported when first needed)

    colors = LinearSegmentedColormap.from_list("dpinfer", [to_rgb(one) for one in (ax.get_facecolor(), "C0")])
    low, high = min(float(np.nanmin(values)), 0.0), float(np.nanmax(values))
    edges = [np.arange(size + 1) - 0.5 for size in values.shape[::-1]]
    look: dict[str, Any] = {"cmap": colors, "edgecolors": ax.get_facecolor(), "linewidth": 1.0}
    drawn = ax.pcolormesh(*edges, values, vmin=low, vmax=high if high > low else low + 1.0, **look)
    ax.invert_yaxis()
    for down, across in np.ndindex(values.shape):
        shade: Any = drawn.to_rgba(values[down, across])
        light = float(np.dot(shade[:3], [0.299, 0.587, 0.114])) > 0.55
        centred: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL}
        ax.text(across, down, texts[down][across], color="black" if light else "white", **centred)
    turned = max(map(len, columns), default=0) * len(columns) > _TITLE
    ax.set_xticks(range(len(columns)), list(columns), rotation=45 if turned else 0, ha="right" if turned else "center")
    ax.set_yticks(range(len(rows)), list(rows))
    ax.tick_params(length=0)
    restrain(ax, left=False, bottom=False)


_TALLEST = 14.0
"""Height in inches of a new figure, at most."""


class IntervalFigure(NamedTuple):
    """A figure of intervals: estimates with ends, axis label, title, and whether zero is marked."""

    frame: pd.DataFrame
    label: str
    title: str
    zero: bool = False


class PlottedIntervals:
    """Results that are drawn as points with their intervals."""

    @abstractmethod
    def _interval_figure(self, alpha: float) -> IntervalFigure:
        """Return the figure that `plot` draws."""

    def plot(self, ax: Axes | None = None, *, alpha: float = 0.05) -> Axes:
        """Plot each estimate with its interval.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        alpha : float
            One minus the confidence of the intervals.

        Returns
        -------
        matplotlib.axes.Axes
        """
        frame, label, title, zero = self._interval_figure(alpha)
        return draw_intervals(frame, ax, alpha=alpha, color=None, legend=True, zero=zero, label=label, title=title)


def draw_intervals(
    frame: pd.DataFrame,
    ax: Axes | None,
    *,
    alpha: float,
    color: str | None,
    legend: bool,
    zero: bool,
    label: str,
    title: str,
) -> Axes:
    """Draw estimates with intervals, and their sampling part if the frame has it.

    Columns are those of ``coefficient_frame``.
    """
    ax = given_or_new(ax, 6.4, min(1.4 + 0.42 * len(frame), _TALLEST))
    color = color or "C0"
    low, high = finite_range(frame, 0.08, zero=zero)
    position = np.arange(len(frame), dtype=np.float64)
    if zero:
        ax.vlines(0.0, -0.5, len(frame) - 0.5, color=FAINT, linewidth=0.8, linestyle="--", zorder=0)
    told = f"{100 * (1 - alpha):.4g}% interval, noise counted", "part from sampling"
    draw_whiskers(ax, position, frame.clip(low, high), color=color, labels=told)
    ax.plot(frame["estimate"], position, "o", color=color, markersize=5, label="estimate")
    for column, edge, marker in (("lower", low, "<"), ("upper", high, ">")):
        unbounded = np.isinf(frame[column].to_numpy())
        places = np.full(unbounded.sum(), edge), position[unbounded]
        ax.plot(*places, marker, color=color, markersize=7, clip_on=False)
    ax.set_xlabel(label)
    titled(ax, title)
    ax.set_xlim(low, high)
    ax.set_yticks(np.arange(len(frame)), [str(name) for name in frame.index])
    restrain(ax)
    grouped(ax.xaxis)
    room = 0.0  # below the last row, in rows, for the legend
    if legend:
        box = ax.get_window_extent().transformed(ax.get_figure(root=True).dpi_scale_trans.inverted())  # type: ignore[union-attr]
        wide = box.width > 5
        ax.legend(loc="lower center", ncols=3 if wide else 1, frameon=False, fontsize=SMALL, borderaxespad=0.2)
        share = min(0.6, (0.24 if wide else 0.62) / box.height)
        room = len(frame) * share / (1 - share)
    ax.set_ylim(len(frame) - 0.5 + room, -0.5)
    return ax


def finite_range(values: pd.DataFrame | Array, share: float, *, zero: bool = False) -> tuple[float, float]:
    """Return axis limits with a margin around all finite values, and zero if requested."""
    every = np.asarray(values, dtype=np.float64)
    finite = np.append(every[np.isfinite(every)], [0.0] if zero else [])
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    margin = share * (high - low) or 1.0
    return low - margin, high + margin


def draw_whiskers(
    ax: Axes,
    place: Any,
    ends: pd.DataFrame | Mapping[str, Any],
    *,
    color: Any,
    upright: bool = False,
    bars: bool = False,
    labels: tuple[str | None, str | None] = (None, None),
) -> None:
    """Draw intervals as lines, with thick lines for the sampling part if it is known.

    Columns of the ends are "lower" and "upper", and "sampling_lower" and "sampling_upper". Lines over ``bars`` are
    thinner.
    """
    lines: Any = ax.vlines if upright else ax.hlines
    thin, thick, faint = (1.1, 3.2, 0.6) if bars else (1.4, 6, 0.45)
    lines(place, ends["lower"], ends["upper"], color=color, linewidth=thin, label=labels[0])
    if "sampling_lower" in ends:
        inner = ends["sampling_lower"], ends["sampling_upper"]
        lines(place, *inner, color=color, linewidth=thick, alpha=faint, label=labels[1])


def interval_frame(
    estimates: pd.Series, ends: Array | pd.DataFrame, share: Array | None = None, beyond: Array | float = 0.0
) -> pd.DataFrame:
    """Return the frame for `draw_intervals` from estimates (k,) and their intervals (k, 2).

    Each arm is shortened to its sampling ``share`` (k,), if known; an infinite one has length ``beyond`` (k,).
    """
    ends = np.asarray(ends, dtype=np.float64)
    columns = {"estimate": estimates, "lower": ends[:, 0], "upper": ends[:, 1]}
    if share is None:
        return pd.DataFrame(columns)
    for name, sign, end in (("sampling_lower", -1.0, ends[:, 0]), ("sampling_upper", 1.0, ends[:, 1])):
        arm = np.maximum(sign * (end - estimates.to_numpy()), 0.0)
        bounded = np.isfinite(arm)
        columns[name] = estimates + sign * np.where(bounded, np.where(bounded, arm, 0.0) * share, beyond)
    return pd.DataFrame(columns)


_TAIL = 0.001


def draw_law(ax: Axes, observed: float, law: Any, pvalue: str) -> None:
    """Draw the density of a scipy distribution, if there is one, and the observed statistic as a line."""
    if law is not None:
        ends = float(law.ppf(_TAIL)), float(law.isf(_TAIL))
        known = [one for one in (*ends, observed) if np.isfinite(one)]
        points = np.linspace(min(known), max(known), 401)[1:]
        ax.fill_between(points, law.pdf(points), color="C0", alpha=0.5, lw=0, label="under the null hypothesis")
    label = f"observed, p-value {pvalue}"
    if np.isfinite(observed):
        ax.axvline(observed, color=MARKED, lw=2, label=label)
    else:
        ax.plot([], [], color=MARKED, lw=2, label=f"{label}: not finite")


def dress_law(ax: Axes, label: str, title: str) -> None:
    """Label a statistic and the hypothesis, and hide the scale of a density."""
    ax.set_xlabel(label)
    titled(ax, title)
    ax.set_yticks([])
    restrain(ax, left=False)
    grouped(ax.xaxis)
    legend(ax)
