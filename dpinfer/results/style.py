"""How every figure looks: where it is drawn, colours that are those of the theme, and few lines."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.display.report import number
from dpinfer.errors import OptionError, type_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colors import Colormap

    from dpinfer.statistics.arrays import Array

__all__ = [
    "FAINT",
    "MARKED",
    "SMALL",
    "given_or_new",
    "grouped",
    "heat_colors",
    "heat_table",
    "ink",
    "legend",
    "restrain",
    "shades",
    "titled",
]

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

        if not isinstance(ax, Axes):
            raise OptionError("ax", type_of(ax), "matplotlib Axes, or None for a new figure")
        return ax
    from matplotlib import pyplot as plt  # noqa: PLC0415  (imported when first needed: it is slow to load)

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def ink() -> Any:
    """Return the colour of text in the theme that is in force."""
    from matplotlib import rcParams  # noqa: PLC0415  (imported when first needed)

    return rcParams["text.color"]


def restrain(ax: Axes, *, left: bool = True, bottom: bool = True) -> None:
    """Leave the frame out, but for the sides whose scale is read."""
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
    """Return colours of an ordered few, between faint and full, that are legible on light and dark ground."""
    from matplotlib import colormaps  # noqa: PLC0415  (imported when first needed)

    return list(colormaps["viridis"](np.linspace(0.8, 0.3, count))) if count > 1 else ["C0"]


def heat_colors(ax: Axes, *, diverging: bool = False) -> Colormap:
    """Return colours from the ground of the axes to the theme's first; from its second where signs differ."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb  # noqa: PLC0415  (imported when first needed)

    ends = ([MARKED] if diverging else []) + [ax.get_facecolor(), "C0"]
    return LinearSegmentedColormap.from_list("dpinfer", [to_rgb(one) for one in ends])


def heat_table(
    ax: Axes,
    values: Array,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    texts: Sequence[Sequence[str]],
    limit: float | None = None,
) -> None:
    """Draw a table (r, c) as a heat map, each cell with its text; with a limit colours run from it to either side."""
    colors = heat_colors(ax, diverging=limit is not None)
    low, high = (float(np.nanmin(values)), float(np.nanmax(values)))
    bounds = (-limit, limit) if limit is not None else (min(low, 0.0), high if high > min(low, 0.0) else low + 1.0)
    drawn = ax.pcolormesh(
        np.arange(values.shape[1] + 1) - 0.5,
        np.arange(values.shape[0] + 1) - 0.5,
        values,
        cmap=colors,
        vmin=bounds[0],
        vmax=bounds[1],
        edgecolors=ax.get_facecolor(),
        linewidth=1.0,
    )
    ax.invert_yaxis()
    for place in np.ndindex(values.shape):
        shade: Any = drawn.to_rgba(values[place])
        light = float(np.dot(shade[:3], [0.299, 0.587, 0.114])) > 0.55
        text = texts[place[0]][place[1]]
        ax.text(place[1], place[0], text, ha="center", va="center", fontsize=SMALL, color="black" if light else "white")
    longest = max(map(len, columns), default=0)
    ax.set_xticks(range(len(columns)), list(columns), rotation=45 if longest * len(columns) > _TITLE else 0,
                  ha="right" if longest * len(columns) > _TITLE else "center")  # fmt: skip
    ax.set_yticks(range(len(rows)), list(rows))
    ax.tick_params(length=0)
    restrain(ax, left=False, bottom=False)
