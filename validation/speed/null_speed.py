"""Time of a simulated null of 100,000 draws, as a ratio to drawing the multinomials alone with numpy."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import dpinfer as dpi
from dpinfer.release import NoiseLaw
from dpinfer.statistics.noise import CountNoise
from dpinfer.statistics.nulls import simulate
from dpinfer.tables.chi_squared_inference import GoodnessOfFit, Independence
from validation.common.outputs import Options, new_figure, write_figure, write_table
from validation.common.rules import Claim
from validation.common.timing import seconds

DRAWS = 100_000
ROWS = 10_000
SHAPES = {"goodness of fit, 10 cells": (10,), "independence, 3x4, refitted": (3, 4)}
MOST = {"goodness of fit, 10 cells": 1.5, "independence, 3x4, refitted": 10.0}


def measure(name: str, neighbors: str, repeats: int) -> dict:
    """Best times of the engine and of the bare multinomials, taken in turns."""
    shape = SHAPES[name]
    cells = int(np.prod(shape))
    schema = dpi.Schema(c=dpi.Category([str(k) for k in range(cells)]))
    law = dpi.table("c").measurement(dpi.ZCDP(0.005), schema=schema, neighbors=neighbors)
    noise = CountNoise(NoiseLaw(law.law.family, law.law.scales[:1]), law.steps[0])
    public = ROWS if neighbors == "replace_one" else None
    shares = np.full(cells, 1 / cells)
    model: GoodnessOfFit | Independence = GoodnessOfFit(shares, noise, public)
    if len(shape) == 2:
        model = Independence(shape, noise, public)
    rng = np.random.default_rng(1)
    values = ROWS * shares + noise.rvs((cells,), rng)
    bare, engine = [], []
    for _ in range(repeats):
        bare.append(seconds(lambda: rng.multinomial(ROWS, shares, size=DRAWS)))
        engine.append(seconds(lambda: simulate(model, values, draws=DRAWS)))
    return {
        "test": name,
        "neighbors": neighbors,
        "multinomials, s": min(bare),
        "simulated null, s": min(engine),
        "ratio": min(engine) / min(bare),
        "at most": MOST[name],
    }


def figure_of(table: pd.DataFrame) -> Figure:
    """Both times of every design."""
    figure, axes = new_figure(7.5, 2.8)
    place = np.arange(len(table))[::-1]
    axes.barh(place + 0.2, table["multinomials, s"], 0.38, color="#b3cde3", label="multinomials alone")
    axes.barh(place - 0.2, table["simulated null, s"], 0.38, color="#03396c", label="whole simulated null")
    axes.set_yticks(place, [f"{row.test}, {row.neighbors}" for row in table.itertuples()])
    axes.set_xlabel(f"seconds for {DRAWS:,} draws")
    axes.legend(frameon=False, fontsize=8)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Time every design; replicates are repeats."""
    table = pd.DataFrame(
        [
            measure(name, neighbors, arguments.replicates)
            for name in SHAPES
            for neighbors in ("replace_one", "add_remove")
        ]
    )
    notes = ["Best times of so many turns in one process; the ratio is what counts on another machine."]
    write_table(table, "null_speed", arguments, notes)
    write_figure(figure_of(table), "null_speed", arguments)
    return [
        Claim(
            f"{DRAWS:,} simulated draws over the multinomials alone (at most {MOST[name]:g})",
            name,
            f"{group['ratio'].max():.2f}",
            group["ratio"].max() <= MOST[name],
        )
        for name, group in table.groupby("test", sort=False)
    ]
