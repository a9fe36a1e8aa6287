"""Estimates drawn as points with their intervals."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpinfer.results.style import FAINT, SMALL, given_or_new, grouped, restrain, titled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["IntervalFigure", "PlottedIntervals", "draw_intervals"]

_TALLEST = 14.0
"""Height in inches of a new figure, at most."""


class IntervalFigure(NamedTuple):
    """What is drawn: estimates with their ends, what the axis and the figure are called, and whether zero is marked."""

    frame: pd.DataFrame
    label: str
    title: str
    zero: bool = False


class PlottedIntervals:
    """Results that are drawn as points with their intervals."""

    @abstractmethod
    def _interval_figure(self, alpha: float) -> IntervalFigure:
        """Return what `plot` draws."""

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
    """Draw estimates with intervals, and the part of them from sampling where the frame tells it.

    Columns are those of ``coefficient_frame``.
    """
    ax = given_or_new(ax, 6.4, min(1.4 + 0.42 * len(frame), _TALLEST))
    color = color or "C0"
    low, high = _limits(frame, zero=zero)
    position = np.arange(len(frame), dtype=np.float64)
    if zero:
        ax.vlines(0.0, -0.5, len(frame) - 0.5, color=FAINT, linewidth=0.8, linestyle="--", zorder=0)
    clipped = frame.clip(low, high)
    ax.hlines(
        position,
        clipped["lower"],
        clipped["upper"],
        color=color,
        linewidth=1.4,
        label=f"{100 * (1 - alpha):.4g}% interval, noise counted",
    )
    if "sampling_lower" in clipped:
        ends = clipped["sampling_lower"], clipped["sampling_upper"]
        ax.hlines(position, *ends, color=color, linewidth=6, alpha=0.45, label="part from sampling")
    ax.plot(frame["estimate"], position, "o", color=color, markersize=5, label="estimate")
    for column, edge, marker in (("lower", low, "<"), ("upper", high, ">")):
        unbounded = np.isinf(frame[column].to_numpy())
        ax.plot(
            np.full(unbounded.sum(), edge),
            position[unbounded],
            marker,
            color=color,
            markersize=7,
            clip_on=False,
        )
    ax.set_xlabel(label)
    titled(ax, title)
    _dress(ax, frame, (low, high), legend=legend)
    return ax


def _limits(frame: pd.DataFrame, *, zero: bool) -> tuple[float, float]:
    """Return where the horizontal axis ends: around all that is finite, and zero where it is marked."""
    values = frame.to_numpy(dtype=np.float64)
    finite = np.append(values[np.isfinite(values)], [0.0] if zero else [])
    low, high = float(finite.min()), float(finite.max())
    margin = 0.08 * (high - low) or 1.0
    return low - margin, high + margin


def _dress(ax: Axes, frame: pd.DataFrame, limits: tuple[float, float], *, legend: bool) -> None:
    ax.set_xlim(*limits)
    ax.set_yticks(np.arange(len(frame)), [str(name) for name in frame.index])
    restrain(ax)
    grouped(ax.xaxis)
    room = _add_legend(ax, len(frame)) if legend else 0.0
    ax.set_ylim(len(frame) - 0.5 + room, -0.5)


def _add_legend(ax: Axes, rows: int) -> float:
    """Add a legend below the last row and return the room, in rows, that it takes."""
    box = ax.get_window_extent().transformed(ax.get_figure(root=True).dpi_scale_trans.inverted())  # type: ignore[union-attr]
    columns = 3 if box.width > 5 else 1
    ax.legend(loc="lower center", ncols=columns, frameon=False, fontsize=SMALL, borderaxespad=0.2)
    share = min(0.6, (0.24 if columns == 3 else 0.62) / box.height)
    return rows * share / (1 - share)
