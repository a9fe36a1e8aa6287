"""What the validation scripts share: options, and outputs that are small and say how they were made.

Where most cells of a column repeat the one above, `DITTO` stands for those that do: `read_table` reads such a file.
"""

from __future__ import annotations

import csv
import io
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

import dpinfer as dpi
from validation.common.rules import LOOKS

OUTPUT = Path(__file__).parents[1] / "output"
DITTO = "^"
"""Stands for the cell above it in the file of a table."""

LONG = 60
"""Rows up to which the page of a table shows all of them."""

DIGITS = ((300, 6), (np.inf, 4))
"""Significant digits in the file of a table of up to so many rows."""

_COLOURS, _DPI, _SPAN = 32, 90, 20


@dataclass(frozen=True)
class Options:
    """How a script is run.

    Attributes
    ----------
    replicates, seed, jobs : int
        Replicates of a cell, at most; in so many processes.
    out : Path
    command : str
        The command that says so.
    script : str
        Whose code stands behind what is stored; by default that of the name of what is stored.
    """

    replicates: int
    seed: int
    jobs: int
    out: Path
    command: str
    script: str = ""

    @property
    def quick(self) -> bool:
        """Whether a run only shows that all works: it has fewer replicates than the first look."""
        return self.replicates < LOOKS[0]


def stamp(arguments: Options) -> str:
    """One line that says which command, version and replicate count made an output."""
    return (
        f"Made by `{arguments.command}` with dpinfer {dpi.__version__}, numpy {np.__version__}, Python "
        f"{platform.python_version()}: {arguments.replicates:,} replicates, seed {arguments.seed}."
    )


def write_table(
    table: pd.DataFrame, name: str, arguments: Options, notes: list[str], figure: Figure | None = None
) -> None:
    """Write a table as CSV, and as markdown with the stamp and notes, and its figure; show it on screen.

    The page of a long table shows the rows that fail alone.
    """
    arguments.out.mkdir(parents=True, exist_ok=True)
    store_table(table, arguments.out / f"{name}.csv")
    shown, told = table, notes
    if len(table) > LONG:
        shown = table[~table["held"].astype(bool)] if "held" in table else table[:0]
        here = f", of which {len(shown)} do not hold and are shown here" if "held" in table else ""
        told = [*notes, f"{len(table):,} rows{here}: all are in `{name}.csv`."]
    text = "\n".join([f"# {name}", "", stamp(arguments), "", markdown(shown), "", *told, ""])
    (arguments.out / f"{name}.md").write_text(text, encoding="utf-8")
    print(table.to_string(index=False, float_format=lambda x: f"{x:.4g}"))
    print("\n".join(notes))
    if figure is not None:
        write_figure(figure, name, arguments)


def store_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV in little space; `read_table` reads it."""
    columns, digits = [], next(digits for most, digits in DIGITS if len(table) <= most)
    for name in table.columns:
        cells = [_written(cell, digits) for cell in table[name]]
        same = [False, *(above == cell and len(cell) > len(DITTO) for above, cell in pairwise(cells))]
        often = 2 * sum(same) > len(cells)
        columns.append([DITTO if often and again else cell for cell, again in zip(cells, same, strict=True)])
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([[*table.columns], *zip(*columns, strict=True)])


def _written(cell: Any, digits: int) -> str:
    """Return a cell as text: whole numbers in full, others with significant digits, missing ones empty."""
    if isinstance(cell, float | np.floating):
        whole = abs(cell) < 1e15 and cell == np.rint(cell)
        return "" if np.isnan(cell) else f"{cell:.0f}" if whole else f"{cell:.{digits}g}"
    return "" if cell is None or cell is pd.NA else str(cell)


def read_table(path: Path, **options: Any) -> pd.DataFrame:
    """Read what `store_table` wrote; options are those of `pandas.read_csv`."""
    rows: list[list[str]] = []
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.reader(file):
            rows.append([rows[-1][place] if cell == DITTO else cell for place, cell in enumerate(row)])
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    text.seek(0)
    return pd.read_csv(text, **options)


def markdown(table: pd.DataFrame) -> str:
    """Return a table as markdown."""
    rows = [[f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row] for row in table.to_numpy()]
    head = [str(column) for column in table.columns]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **shared: Any) -> tuple[Figure, Any]:
    """Return a figure and its axes, of rows and columns of panels."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **shared)


def limits(axes: Axes, nominal: float, limit: float, label: str | None = None, *, vertical: bool = False) -> None:
    """Draw the nominal value, and the least or most that is allowed."""
    line = axes.axvline if vertical else axes.axhline
    line(nominal, color="black", lw=0.8)
    line(limit, color="firebrick", lw=0.8, ls="--", label=label)


def scatter(
    x: str | Callable[[pd.DataFrame], Any],
    shown: Mapping[str, float],
    by: str | list[str],
    *,
    label: str = "",
    log: bool = True,
) -> Callable[[pd.DataFrame], Figure]:
    """Return what draws columns against x, a panel for each with its nominal value, and a mark for each group.

    Columns of positive numbers that span more than `_SPAN` are drawn on a scale of logarithms.
    """

    def draw(table: pd.DataFrame) -> Figure:
        figure, panels = new_figure(max(5.2 * len(shown), 7), 4.3, 1, len(shown), squeeze=False)
        place = pd.Series(x(table) if callable(x) else table[x], index=table.index)
        names: list[str] = []
        if not pd.api.types.is_numeric_dtype(place):
            names = list(dict.fromkeys(place.astype(str)))
            place = place.astype(str).map(names.index) + np.random.default_rng(0).uniform(-0.2, 0.2, len(place))
        for axes, (column, nominal) in zip(panels[0], shown.items(), strict=True):
            for turn, (group, rows) in enumerate(table.groupby(by, sort=False)):
                said = ", ".join(map(str, group)) if isinstance(group, tuple) else str(group)
                values = rows[column].replace(np.inf, np.nan)
                axes.plot(place[rows.index], values, "os^vD<>Pp*Xd"[turn % 12], ms=4, alpha=0.7, label=said)
            if np.isfinite(nominal):
                axes.axhline(nominal, color="firebrick", lw=0.8, ls="--")
            axes.set(xlabel=label or (x if isinstance(x, str) else ""), ylabel=column)
            drawn = table[column][np.isfinite(table[column])]
            if drawn.size and drawn.max() > _SPAN * drawn.min() > 0:
                axes.set_yscale("log")
            if names:
                axes.set_xticks(range(len(names)), names, rotation=20 if len(names) > 4 else 0, fontsize=8)
            elif log and np.isfinite(table[column]).any():
                axes.set_xscale("log")
        said = by if isinstance(by, str) else ", ".join(by)
        panels[0, -1].legend(title=said, title_fontsize=7, fontsize=7, frameon=False)
        return figure

    return draw


def lines(
    table: pd.DataFrame,
    by: str | list[str],
    x: str,
    shown: Mapping[str, str],
    *,
    color: str = "",
    log: bool = False,
    ylabel: str = "",
) -> Figure:
    """Draw columns, each in a style of its own, as lines against x: a panel for each group, a colour for each value."""
    groups = [*table.groupby(by, sort=False)]
    across = min(len(groups), 4)
    down = -(-len(groups) // across)
    figure, panels = new_figure(3.4 * across, 3.2 * down, down, across, squeeze=False, sharey=True)
    for axes, (name, group) in zip(panels.ravel(), groups, strict=False):
        axes.set_title(", ".join(map(str, name)) if isinstance(name, tuple) else str(name), fontsize=9)
        for turn, (value, rows) in enumerate(group.groupby(color, sort=False) if color else [("", group)]):
            for column, style in shown.items():
                said = ", ".join(str(one) for one in (value, column if len(shown) > 1 else "") if str(one))
                axes.plot(rows[x], rows[column], style, color=f"C{turn}" if color else None, ms=3, lw=1.2, label=said)
        axes.set(xlabel=x, xscale="log" if log else "linear")
    for axes in panels.ravel()[len(groups) :]:
        axes.set_axis_off()
    panels[0, 0].set_ylabel(ylabel or next(iter(shown)))
    panels[0, 0].legend(fontsize=7, frameon=False)
    return figure


def write_figure(figure: Figure, name: str, arguments: Options) -> None:
    """Write a figure as PNG."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=_DPI, bbox_inches="tight")
    store_picture(drawn, arguments.out / f"{name}.png")
    print(f"wrote {arguments.out / name}.png")


def store_picture(picture: io.BytesIO | Path, path: Path, colours: int = _COLOURS) -> None:
    """Write a picture as PNG of few colours, a quarter of its size in full colour."""
    with Image.open(picture) as drawn:
        few = drawn.convert("RGB").quantize(colours, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
