"""Size of log-rank and Fleming-Harrington tests from noisy life tables, and their power beside the ordinary test."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from dpinfer.duration.inference import LogRank
from dpinfer.release import NoiseLaw
from dpinfer.statistics.noise import CountNoise
from validation.common.leaves import DRAWS, beyond_of, noise_at, rows_by_level, size_rules
from validation.common.outputs import scatter
from validation.common.study import Drawn, Study
from validation.duration.survival_designs import MADE, PRICES, SIZES, Population, cells_of, noisy, population

WEIGHTS = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
RATIOS = (1.0, 1.1, 1.25, 1.5)
"""Hazard of the second group over that of the first, for powers."""

EXACT = CountNoise(NoiseLaw("gaussian", (1e-6,)))


@dataclass(frozen=True)
class Cell:
    """A population whose groups have the same hazards and are censored apart; groups, rows, weights, price."""

    design: str
    groups: int
    n: int
    price: Any
    neighbors: str
    rho: float
    gamma: float

    @property
    def source(self) -> Population:
        """The population; of two groups the small one is left out."""
        whole = population(self.design, self.n, alike=True)
        some = slice(0, self.groups)
        return Population(whole.names[some], whole.shares[some], whole.cells[some], whole.times)


def cells() -> list[Cell]:
    """Every population, number of groups, size and weight; prices and relations in turns."""
    found = []
    for place, (design, groups, n, weights) in enumerate(product(MADE, (2, 3), SIZES, WEIGHTS)):
        price, neighbors = PRICES[(place + place // 3) % 3], ("add_remove", "replace_one")[place % 2]
        found.append(Cell(design, groups, n, price, neighbors, *weights))
    return found


def draw(cell: Cell, rng: np.random.Generator, replicates: int) -> Drawn:
    """P-values of releases under the hypothesis, and whether noise hides the rows of a group."""
    source, noise = cell.source, noise_at(cell.price, cell.neighbors)
    values = noisy(source.counts(rng, cell.n, replicates), noise, rng).reshape(replicates, -1)
    model = LogRank(noise, cell.groups, len(source.times), cell.rho, cell.gamma)
    return {"pvalue": (1 + beyond_of(model, values, rng)) / (DRAWS + 1), "hidden": model.hidden(values).any(axis=1)}


def summary(_: Cell, drawn: Drawn) -> list[dict]:
    """Sizes at both levels."""
    hidden = float(drawn["hidden"].mean())
    return [row | {"hidden": hidden} for row in rows_by_level(drawn["pvalue"])]


def power_cells() -> list[dict]:
    """Ratios of hazards, sizes and prices."""
    return [{"n": n, "price": str(price), "ratio": ratio, "place": place}
            for n in (500, 1_000, 5_000) for place, price in enumerate(PRICES) for ratio in RATIOS]  # fmt: skip


def power_draw(cell: dict, rng: np.random.Generator, replicates: int) -> Drawn:
    """P-values of two equal groups whose hazards differ, with noise and without, of the same rows."""
    base = population("steady", cell["n"])
    hazards, lost = np.full(12, 0.08), np.full(12, 0.06)
    groups = np.stack([cells_of(ratio * hazards, lost) for ratio in (1.0, cell["ratio"])])
    counts = Population(("first", "second"), np.full(2, 0.5), groups, base.times).counts(rng, cell["n"], replicates)
    found = {}
    for name, noise in (("private", noise_at(PRICES[cell["place"]], "add_remove")), ("no privacy", EXACT)):
        values = noisy(counts, noise, rng).reshape(replicates, -1)
        found[name] = (1 + beyond_of(LogRank(noise, 2, 12), values, rng)) / (DRAWS + 1)
    return found


def power_summary(_: dict, drawn: Drawn) -> dict:
    """Powers at .05."""
    return {name: float((one <= 0.05 + 1e-12).mean()) for name, one in drawn.items()}


STUDY = (
    Study(
        "survival_tests", cells, draw, summary,
        size_rules("largest size at {level:g}: log-rank and Fleming-Harrington tests",
                   "4 populations, 2 and 3 groups, down to 20 rows, censored apart", long=True),
        axes=lambda cell: {**asdict(replace(cell, price="")), "price": str(cell.price)}, by=("level",),
        figure=scatter("n", {"size": 0.05}, ["groups", "rho", "gamma"]),
        notes=(f"{DRAWS} simulated releases behind each p-value. Groups have the same hazards and are censored at "
               "rates of 1, 1.5 and 0.5. Where noise hides the rows of a group the p-value is 1.",),
    ),
    Study(
        "survival_power", power_cells, power_draw, power_summary, axes=lambda cell: {
            name: cell[name] for name in ("n", "price", "ratio")}, most=1000,
        notes=("Two equal groups, hazards of 0.08 an interval and the ratio times that, 12 intervals; at level 0.05. "
               "Without privacy the same test of the same rows.",),
    ),
)  # fmt: skip
