"""Figures of descriptions: histograms as bars over a numeric axis, tables as bars or heat maps, others as intervals."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.display.report import number
from dpinfer.results.drawing import draw_intervals
from dpinfer.results.plots import coefficient_frame
from dpinfer.results.style import SMALL, given_or_new, grouped, heat_table, ink, legend, restrain, titled
from dpinfer.results.wording import column_caption, column_labels, title_guarantee

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from dpinfer.results.descriptions import DescriptionResults
    from dpinfer.statistics.arrays import Array

__all__ = ["plot_descriptions", "plot_table"]

_BIN = re.compile(r"\[(.+), (.+)[)\]]")
_CURVES = 4
"""Groups of a histogram that are drawn as outlines; more are a heat map."""

_TALLEST = 12.0
"""Height in inches of a new figure, at most."""

_WHOLE = 100.0
"""Size of the largest cell of a heat map from which all are shown as whole numbers."""


def plot_descriptions(results: DescriptionResults, ax: Axes | None, *, alpha: float, color: str | None) -> Axes:
    """Draw estimates as intervals, called by their groups."""
    frame = coefficient_frame(results, alpha)
    frame.index = _called(results)
    title = _title(results)
    axes = draw_intervals(
        frame, ax, alpha=alpha, color=color, legend=True, zero=False, label=_measured(results), title=title
    )
    grouped(axes.xaxis)
    groups = [column_caption(results.release, str(name)) for name in results.index.names if name is not None]
    if groups and results.index.nlevels == 1:
        axes.set_ylabel(groups[0])
    return axes


def plot_table(results: DescriptionResults, ax: Axes | None, *, alpha: float, color: str | None) -> Axes:
    """Draw counts: bins as bars over a numeric axis, levels of one column as bars, of several as a heat map."""
    index = results.index
    if index.names[0] is None:
        return plot_descriptions(results, ax, alpha=alpha, color=color)
    edges = _edges(index.get_level_values(-1).unique())
    groups = len(index) // len(index.get_level_values(-1).unique())
    if edges is not None and groups <= _CURVES:
        return _histogram(results, edges, groups, ax, alpha, color)
    return _bars(results, ax, alpha, color) if index.nlevels == 1 else _heat(results, ax)


def _histogram(
    results: DescriptionResults, edges: Array, groups: int, ax: Axes | None, alpha: float, color: str | None
) -> Axes:
    ax = given_or_new(ax, 6.4, 3.8)
    frame = coefficient_frame(results, alpha)
    bins, middle = len(edges) - 1, (edges[:-1] + edges[1:]) / 2
    widths = np.diff(edges)
    even = bool(np.allclose(widths, widths[0]))
    scale = np.ones(bins) if even else widths
    names = [level_names(results, place) for place in range(results.index.nlevels)]
    finite = np.clip(np.nan_to_num(frame.to_numpy(dtype=np.float64), posinf=np.inf, neginf=-np.inf), *_ends(frame))
    for place in range(groups):
        shade = color if color and groups == 1 else f"C{place}"
        estimate, lower, upper, inner, outer = (finite[place * bins : (place + 1) * bins] / scale[:, None]).T
        label = ", ".join(column[place * bins] for column in names[:-1])
        ax.stairs(
            estimate, edges, fill=groups == 1, color=shade, alpha=0.45 if groups == 1 else 1.0, label=label or None
        )
        shift = middle + (place - (groups - 1) / 2) * 0.12 * widths
        ax.vlines(shift, lower, upper, color=ink() if groups == 1 else shade, lw=1.1)
        ax.vlines(shift, inner, outer, color=ink() if groups == 1 else shade, lw=3.2, alpha=0.6)
    if float(finite.min()) < 0:
        ax.axhline(0.0, color=ink(), lw=0.6)
    name = str(results.index.names[-1])
    caption = column_caption(results.release, name)
    ax.set(xlabel=caption, ylabel=results.quantity if even else f"{results.quantity} per unit of the axis")
    ax.set_xlim(edges[0], edges[-1])
    _finish(ax, results, alpha, several=groups > 1)
    grouped(ax.xaxis, ax.yaxis)
    return ax


def _bars(results: DescriptionResults, ax: Axes | None, alpha: float, color: str | None) -> Axes:
    frame = coefficient_frame(results, alpha)
    size = len(frame)
    ax = given_or_new(ax, 6.4, float(np.clip(1.1 + 0.34 * size, 2.2, _TALLEST)))
    place = np.arange(size)
    shown = frame.clip(*_ends(frame))
    ax.barh(place, shown["estimate"], height=0.7, color=color or "C0", alpha=0.45)
    ax.hlines(place, shown["lower"], shown["upper"], color=ink(), lw=1.1)
    ax.hlines(place, shown["sampling_lower"], shown["sampling_upper"], color=ink(), lw=3.2, alpha=0.6)
    ax.set_yticks(place, level_names(results, 0), fontsize=SMALL if size > 30 else None)
    ax.invert_yaxis()
    if float(shown.to_numpy().min()) < 0:
        ax.axvline(0.0, color=ink(), lw=0.6)
    ax.set(xlabel=results.quantity, ylabel=column_caption(results.release, str(results.index.names[0])))
    _finish(ax, results, alpha)
    ax.tick_params(axis="y", length=0)
    grouped(ax.xaxis)
    return ax


def _heat(results: DescriptionResults, ax: Axes | None) -> Axes:
    """Draw the last column across, and the others down."""
    columns = len(results.index.get_level_values(-1).unique())
    values = results.params.to_numpy(dtype=np.float64).reshape(-1, columns)
    names = [level_names(results, place) for place in range(results.index.nlevels)]
    across = names[-1][:columns]
    down = [", ".join(column[place] for column in names[:-1]) for place in range(0, len(results.index), columns)]
    ax = given_or_new(
        ax, float(np.clip(1.9 + 0.85 * columns, 5.0, 14.0)), float(np.clip(1.5 + 0.36 * len(down), 2.6, _TALLEST))
    )
    whole = float(np.nanmax(np.abs(values))) >= _WHOLE
    texts = [[number(round(one) if whole else one, 3 if not whole else 6) for one in row] for row in values]
    heat_table(ax, values, down, across, texts=texts)
    called = [column_caption(results.release, str(name)) for name in results.index.names]
    ax.set(xlabel=called[-1], ylabel=", ".join(called[:-1]))
    titled(ax, f"{results.quantity}, {title_guarantee(results.release)}")
    return ax


def level_names(results: DescriptionResults, place: int) -> list[str]:
    """Return what the levels of a group are called: those of a truth as yes or no, bins with their digits grouped."""
    return [level_name(one) for one in results.index.get_level_values(place)]


def level_name(level: Any) -> str:
    """Return what a level is called."""
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
    """Return the edges of bins that follow one another; None where levels are something else."""
    ends = [_read_bin(level) for level in levels]
    if not ends or any(one is None for one in ends):
        return None
    low, high = np.array(ends, dtype=np.float64).T
    return np.append(low, high[-1]) if np.array_equal(low[1:], high[:-1]) else None


def _called(results: DescriptionResults) -> list[str]:
    """Return what estimates are called: by their groups, where these are all that tells them apart."""
    index = results.index
    if index.names[0] is None:
        return column_labels(results.release, index)
    named = [column_labels(results.release, [name])[0] if name is not None else "" for name in index.names]
    columns = [
        [
            text if len(named) == 1 or name in ("quantity", "") else f"{name}: {text}"
            for text in level_names(results, at)
        ]
        for at, name in enumerate(named)
    ]
    return [", ".join(texts) for texts in zip(*columns, strict=True)]


def _measured(results: DescriptionResults) -> str:
    response = column_caption(results.release, results.response)
    return f"{results.quantity} of {response}" if response else results.quantity


def _title(results: DescriptionResults) -> str:
    (response,) = column_labels(results.release, [results.response])
    return f"{response}: {title_guarantee(results.release)}"


def _ends(frame: pd.DataFrame) -> tuple[float, float]:
    """Return where infinite ends are cut: a little beyond all that is finite, and beyond zero."""
    values = frame.to_numpy(dtype=np.float64)
    finite = np.append(values[np.isfinite(values)], 0.0)
    margin = 0.05 * float(np.ptp(finite))
    return float(finite.min()) - margin, float(finite.max()) + margin


def _finish(ax: Axes, results: DescriptionResults, alpha: float, *, several: bool = False) -> None:
    titled(ax, f"{_title(results)}, {100 * (1 - alpha):.4g}% intervals, the thick part from sampling")
    restrain(ax)
    if several:
        legend(ax, title=", ".join(column_caption(results.release, str(name)) for name in results.index.names[:-1]))
