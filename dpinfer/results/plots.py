"""Plots of regression results, each thin over a table that the user can get too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import stats

from dpinfer.errors import UnknownColumnError
from dpinfer.results.contrasts import check_alpha
from dpinfer.results.prediction import CONSTANTS
from dpinfer.results.style import FAINT, SMALL, given_or_new, grouped, restrain, titled
from dpinfer.results.wording import column_labels, short_guarantee

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dpinfer.results.estimates import PrivateEstimates

    Array = NDArray[np.float64]

__all__ = ["coefficient_frame", "draw_intervals", "plot_coefficients"]

_TALLEST = 14.0
"""Height in inches of a new figure, at most."""


def coefficient_frame(results: PrivateEstimates, alpha: float = 0.05) -> pd.DataFrame:
    """Return estimates, intervals, and the part of each interval that sampling accounts for.

    Parameters
    ----------
    results : PrivateEstimates
        The results.
    alpha : float
        One minus the confidence.

    Returns
    -------
    DataFrame (p, 5)
        Columns "estimate", "lower", "upper", "sampling_lower", "sampling_upper", by term.

    Raises
    ------
    OptionError
        Where ``alpha`` is not strictly between 0 and 1.

    Notes
    -----
    Each arm of an interval is shortened by the square root of the sampling share of the variance. For a Wald
    interval that is exactly the interval without privacy noise; for another method it is a drawing. An
    infinite arm has the normal quantile times the sampling standard error as its sampling part.
    """
    ends = results.conf_int(check_alpha(alpha))
    estimate = results.params.to_numpy()
    sampling = results.bse_sampling.to_numpy()
    ratio = sampling / results.bse.to_numpy()
    fallback = stats.norm.isf(alpha / 2) * sampling
    arms = {}
    for name, sign, end in (("sampling_lower", -1.0, ends[0]), ("sampling_upper", 1.0, ends[1])):
        arm = np.maximum(sign * (end.to_numpy() - estimate), 0.0)
        bounded = np.isfinite(arm)
        arms[name] = estimate + sign * np.where(bounded, np.where(bounded, arm, 0.0) * ratio, fallback)
    columns = {"estimate": estimate, "lower": ends[0], "upper": ends[1], **arms}
    return pd.DataFrame(columns, index=results.params.index)


def plot_coefficients(
    results: PrivateEstimates,
    ax: Axes | None = None,
    *,
    alpha: float = 0.05,
    terms: Sequence[str] | None = None,
    color: str | None = None,
    legend: bool = True,
    zero: bool = True,
) -> Axes:
    """Draw ``coefficient_frame``; parameters, returns and errors as ``PrivateResults.plot_coefficients``.

    ``zero`` says whether zero is marked, and always within the axis.
    """
    frame = _selected(coefficient_frame(results, alpha), terms)
    frame.index = pd.Index(column_labels(results.release, frame.index))
    (response,) = column_labels(results.release, [results.response])
    title = f"{response}: {short_guarantee(results.release)}"
    label = f"coefficient ({results.inference.method} inference)"
    return draw_intervals(frame, ax, alpha=alpha, color=color, legend=legend, zero=zero, label=label, title=title)


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


def _selected(frame: pd.DataFrame, terms: Sequence[str] | None) -> pd.DataFrame:
    if terms is None:
        slopes = [name for name in frame.index if name not in CONSTANTS]
        return frame.loc[slopes or list(frame.index)]
    for name in terms:
        if name not in frame.index:
            raise UnknownColumnError(name, frame.index, "the coefficients")
    return frame.loc[list(terms)]


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
