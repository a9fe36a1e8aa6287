"""Sizes of log-rank tests where times are finer than the intervals and groups are censored differently in them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from dpinfer.duration.inference import CENSORING, LogRank
from dpinfer.duration.results import _SHIFTED
from validation.common.leaves import DRAWS, LEVELS, beyond_of, noise_at, rows_by_level
from validation.common.outputs import scatter
from validation.common.real import rows_of
from validation.common.rules import Rule
from validation.common.study import Drawn, Study
from validation.duration.survival_designs import FEW, PRICES, SIZES, Population, noisy

WEIGHTS = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))

INTERVALS = {"steady": (6, 20), "rising": (6, 20), "falling": (6, 20), "recid": (7, 28)}
"""Populations, and in how many intervals they are cut: constant, rising and falling hazards, and 1,445 real rows."""

LEAVING = (0.1, 1.5, 0.5)
"""Rates at which groups are censored, in events of a steady hazard over all intervals."""


@cache
def population(design: str, intervals: int, n: int) -> Population:
    """Return groups with one law of times to an event, and censoring of their own, all in continuous time."""
    levels = (np.arange(2000) + 0.5) / 2000
    exponential, followed = -np.log1p(-levels), np.inf
    if design == "recid":
        rows = rows_of("recid")
        life, end = rows["durat"].to_numpy(dtype=float), 84.0
        followed = np.where(rows["cens"].to_numpy() == 1, life, np.inf)
    else:
        end = 1.2
        life = exponential ** {"steady": 1.0, "rising": 0.5, "falling": 1.5}[design]
    ends = end * np.arange(1, intervals + 1) / intervals
    groups = []
    for leaving in LEAVING:
        lost = np.minimum.outer(np.broadcast_to(followed, life.shape), exponential[::4] * end / 1.2 / leaving)
        event = life[:, None] <= np.minimum(lost, end)
        place = np.searchsorted(ends, np.minimum(life[:, None], lost))
        cells = np.zeros((intervals + 1, 2))
        np.add.at(cells, (place.ravel(), event.ravel().astype(int)), 1 / event.size)
        groups.append(cells)
    shares = np.array([0.6, 0.4 - FEW / n, FEW / n])
    return Population(("large", "middle", f"{FEW} rows"), shares, np.stack(groups), ends)


@dataclass(frozen=True)
class Cell:
    """A population whose groups have the same times to an event and are censored apart, and what is released of it."""

    design: str
    intervals: int
    groups: int
    n: int
    price: Any
    neighbors: str
    rho: float
    gamma: float


def cells() -> list[Cell]:
    """Every population, number of intervals, size and weight; numbers of groups, prices and relations in turns."""
    found = []
    for place, (design, wide, n, weights) in enumerate(product(INTERVALS, (0, 1), SIZES, WEIGHTS)):
        price, neighbors = PRICES[(place + place // 3) % 3], ("add_remove", "replace_one")[place // 2 % 2]
        found.append(Cell(design, INTERVALS[design][wide], 2 + place % 2, n, price, neighbors, *weights))
    return found


def draw(cell: Cell, rng: np.random.Generator, replicates: int) -> Drawn:
    """P-values of the same releases with censored rows at risk for half of their interval, and for all of it."""
    whole, noise = population(cell.design, cell.intervals, cell.n), noise_at(cell.price, cell.neighbors)
    some = slice(0, cell.groups)
    source = Population(whole.names[some], whole.shares[some], whole.cells[some], whole.times)
    values = noisy(source.counts(rng, cell.n, replicates), noise, rng).reshape(replicates, -1)
    found = {}
    for name, lost in CENSORING.items():
        model = LogRank(noise, cell.groups, len(source.times), cell.rho, cell.gamma, lost)
        found[name] = (1 + beyond_of(model, values, rng)) / (DRAWS + 1)
    return found | {"flagged": model.shifted(values) > _SHIFTED, "hidden": model.hidden(values).any(axis=1)}


def summary(_: Cell, drawn: Drawn) -> list[dict]:
    """Sizes at both levels, and those of the default, which is not meant for such times."""
    ends = rows_by_level(drawn["end"])
    shown = {name: float(drawn[name].mean()) for name in ("flagged", "hidden")}
    return [row | {"size at end": end["size"]} | shown
            for row, end in zip(rows_by_level(drawn["middle"]), ends, strict=True)]  # fmt: skip


STUDY = Study(
    "survival_fine", cells, draw, summary,
    tuple(Rule(f'largest size at {level:g}: log-rank tests with censoring="middle", times finer than intervals, not '
               "flagged", "size", "size", level,
               design="4 populations, 2 and 3 groups, down to 20 rows, censored apart",
               where=lambda table, level=level: (table["level"] == level) & (table["flagged"] < 0.5))
          for level in LEVELS),
    axes=lambda cell: asdict(cell) | {"price": str(cell.price)}, by=("level",), most=1000, early=False,
    figure=scatter("n", {"size": 0.05}, ["intervals", "groups"]),
    notes=(f"{DRAWS} simulated releases behind each p-value. Groups have the same times to an event, and are "
           f"censored at rates of {', '.join(map(str, LEAVING))}. The size at end is that of the default.",),
)  # fmt: skip
