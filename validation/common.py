"""What the validation scripts share: options, judging rules, and outputs that say how they were made."""

from __future__ import annotations

import argparse
import platform
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import dpinfer as dpi

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

OUTPUT = Path(__file__).parent / "output"

COVERAGE_FLOOR = 0.9376
"""Least coverage of 95% intervals over 5,000 replicates that an exact interval misses with probability 1e-4."""

WIDTH_CAP = 1.10
UNBOUNDED_CAP = 0.001
KAPPA_NOISE_DOMINATED = 3.0


def options(description: str, *, replicates: int, seed: int = 20261120) -> argparse.Namespace:
    """Read the options that every script takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--replicates", type=int, default=replicates, help="replicates a cell (default %(default)s)")
    parser.add_argument("--seed", type=int, default=seed, help="seed of the simulation (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes (default %(default)s)")
    parser.add_argument("--out", type=Path, default=OUTPUT, help="directory of the outputs")
    return parser.parse_args()


def stamp(arguments: argparse.Namespace) -> str:
    """One line that says which command, version and replicate count made an output."""
    module = Path(sys.argv[0]).stem
    command = shlex.join(["python", "-m", f"validation.{module}", *sys.argv[1:]])
    return (
        f"Made by `{command}` with dpinfer {dpi.__version__}, numpy {np.__version__}, Python "
        f"{platform.python_version()}: {arguments.replicates:,} replicates, seed {arguments.seed}."
    )


def write_table(table: pd.DataFrame, name: str, arguments: argparse.Namespace, notes: list[str]) -> None:
    """Write a table as CSV, and as markdown with the stamp and notes; show it on screen."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(arguments.out / f"{name}.csv", index=False, float_format="%.6g")
    text = "\n".join([f"# {name}", "", stamp(arguments), "", markdown(table), "", *notes, ""])
    (arguments.out / f"{name}.md").write_text(text, encoding="utf-8")
    print(table.to_string(index=False, float_format=lambda x: f"{x:.4g}"))
    print("\n".join(notes))


def markdown(table: pd.DataFrame) -> str:
    """Return a table as markdown."""
    rows = [[f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row] for row in table.to_numpy()]
    head = [str(column) for column in table.columns]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write_figure(figure: Figure, name: str, arguments: argparse.Namespace) -> None:
    """Write a figure as PNG."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(arguments.out / f"{name}.png", dpi=130, bbox_inches="tight")
    print(f"wrote {arguments.out / name}.png")


def coverage_floor(replicates: int) -> float:
    """Least coverage that does not contradict 95%: the rule of 5,000 replicates, scaled to others."""
    if replicates >= 5000:
        return COVERAGE_FLOOR
    return 0.95 - (0.95 - COVERAGE_FLOOR) * float(np.sqrt(5000 / replicates))
