"""What the validation scripts share: options, judging rules, and outputs that say how they were made."""

from __future__ import annotations

import argparse
import io
import platform
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

import dpinfer as dpi

OUTPUT = Path(__file__).parents[1] / "output"
_COLOURS = 64


@dataclass(frozen=True)
class Options:
    """How a script is run.

    Attributes
    ----------
    replicates, seed, jobs : int
    out : Path
    command : str
        The command that says so.
    """

    replicates: int
    seed: int
    jobs: int
    out: Path
    command: str


def options(module: str, description: str, *, replicates: int, seed: int = 20261120) -> Options:
    """Read the options that every script takes from the command line."""
    parser = argparse.ArgumentParser(prog=f"python -m validation.{module}", description=description)
    parser.add_argument("--replicates", type=int, default=replicates, help="replicates a cell (default %(default)s)")
    parser.add_argument("--seed", type=int, default=seed, help="seed of the simulation (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes (default %(default)s)")
    parser.add_argument("--out", type=Path, default=OUTPUT, help="directory of the outputs")
    read = parser.parse_args()
    command = shlex.join(["python", "-m", f"validation.{module}", *sys.argv[1:]])
    return Options(read.replicates, read.seed, read.jobs, read.out, command)


def stamp(arguments: Options) -> str:
    """One line that says which command, version and replicate count made an output."""
    return (
        f"Made by `{arguments.command}` with dpinfer {dpi.__version__}, numpy {np.__version__}, Python "
        f"{platform.python_version()}: {arguments.replicates:,} replicates, seed {arguments.seed}."
    )


def write_table(
    table: pd.DataFrame, name: str, arguments: Options, notes: list[str], figure: Figure | None = None
) -> None:
    """Write a table as CSV, and as markdown with the stamp and notes, and its figure; show it on screen."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(arguments.out / f"{name}.csv", index=False, float_format="%.6g")
    text = "\n".join([f"# {name}", "", stamp(arguments), "", markdown(table), "", *notes, ""])
    (arguments.out / f"{name}.md").write_text(text, encoding="utf-8")
    print(table.to_string(index=False, float_format=lambda x: f"{x:.4g}"))
    print("\n".join(notes))
    if figure is not None:
        write_figure(figure, name, arguments)


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


def write_figure(figure: Figure, name: str, arguments: Options) -> None:
    """Write a figure as PNG of few colours, a quarter of its size in full colour."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=130, bbox_inches="tight")
    few = Image.open(drawn).convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    few.save(arguments.out / f"{name}.png", optimize=True)
    print(f"wrote {arguments.out / name}.png")
