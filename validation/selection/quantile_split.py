"""How the price of a median is best split between choosing it and the tree that its interval comes from."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.privacy.accounting import choice_scale
from validation.common.outputs import Options, scatter
from validation.common.rules import Claim
from validation.common.study import Drawn, Study
from validation.selection.quantile_designs import POPULATIONS, Fast, Population, smooth

Array = NDArray[np.float64]


SHARES = (0.25, 0.5, 0.75, 0.9, 1.0)
"""Of the price for the choice; the rest is the tree's."""

PRICES = (
    *(dpi.PureDP(0.1), dpi.PureDP(0.5), dpi.PureDP(1.0), dpi.PureDP(2.0)),
    *(dpi.ZCDP(0.005), dpi.ZCDP(0.1), dpi.ZCDP(0.5)),
)
SIZES = (100, 1_000, 10_000)
NEIGHBORS = ("add_remove", "replace_one")
GRID = 2.0**30
MOST = 2.5
Z = float(stats.norm.isf(0.025))

STUDIED = (
    *(one for one in POPULATIONS if one.name in ("normal", "lognormal", "Pareto 1.5", "two lumps")),
    smooth("lognormal of the benchmark", "0 to 500", 0, 500, stats.lognorm(0.6, scale=np.exp(3.4))),
    smooth("lognormal", "1,000 times too wide", 0, 20_000, stats.lognorm(1)),
)


@cache
def scale_of(price: Any, share: float, neighbors: str) -> float:
    """Noise scale of the choice of a median in rows, as the kernel prices it but for its slack for rounding."""
    return choice_scale(Fraction(2 if neighbors == "replace_one" else 1), price / Fraction(1 / share), "gumbel")


def chosen(values: Array, scale: float, population: Population, rng: np.random.Generator) -> float:
    """Draw the median from the exponential mechanism: a gap between sorted values and a point in it, or a value."""
    held = np.sort(values)
    edges = np.concatenate([[population.lower], held, [population.upper]])
    half, ranks = len(held) / 2, np.arange(len(held) + 1)
    upto, below = np.searchsorted(held, held, side="right"), np.searchsorted(held, held)
    first = np.append(True, np.diff(held) > 0)
    misses = np.concatenate([np.abs(ranks - half), np.maximum(np.maximum(half - upto, below - half), 0)])
    point = (population.upper - population.lower) / GRID
    with np.errstate(divide="ignore"):
        sizes = np.log(np.concatenate([np.diff(edges), np.where(first, point, 0.0)]))
    place = int(np.argmax(sizes - misses / scale + rng.gumbel(size=misses.size)))
    if place > len(held):
        return float(held[place - len(held) - 1])
    return float(rng.uniform(edges[place], edges[place + 1]))


@cache
def noise_of_rank(price: Any, share: float, neighbors: str) -> float:
    """Median over edges of the standard deviation of the noise of a rank from the tree; infinite without a tree."""
    if share == 1:
        return np.inf
    schema = POPULATIONS[0].schema(neighbors)
    asked = dpi.quantile("x", q=0.5, method="tree")
    part = price / Fraction(1 / (1 - share)).limit_denominator()
    tree = Fast(asked.measurement(part, schema=schema, neighbors=neighbors))
    return float(np.sqrt(np.median(tree.empty.noise_variance(0.5))))


def draw(cell: tuple[int, Any, str], rng: np.random.Generator, replicates: int) -> Drawn:
    """Errors by share (R, populations, shares + 1), the sample median's last; the same rows for all shares."""
    (n, price, neighbors), found = cell, np.empty((replicates, len(STUDIED), len(SHARES) + 1))
    for place, population in enumerate(STUDIED):
        truth = float(population.quantile(np.array([0.5]))[0])
        for row in range(replicates):
            values = population.draw(rng, n)
            guesses = [chosen(values, scale_of(price, share, neighbors), population, rng) for share in SHARES]
            found[row, place] = np.array([*guesses, np.median(values)]) - truth
    return {"found": found}


def taken_share(price: Any, neighbors: str, n: int) -> float:
    """Share that the library takes."""
    schema = POPULATIONS[0].schema(neighbors)
    context = Context(schema, neighbors, price, n if neighbors == "replace_one" else None)
    return float(dpi.quantile("x", q=0.5).slots(context)[0].share)


def summary(cell: tuple[int, Any, str], drawn: Drawn) -> list[dict[str, Any]]:
    """Middle and largest error over the populations, and the width of the interval, by share."""
    n, price, neighbors = cell
    size = np.sqrt((drawn["found"] ** 2).mean(axis=0))
    errors, sampling, taken, rows = size[:, :-1] / size[:, -1:], np.sqrt(n) / 2, taken_share(price, neighbors, n), []
    for share, found in zip(SHARES, errors.T, strict=True):
        half = Z * float(np.hypot(sampling, noise_of_rank(price, share, neighbors)))
        rows.append({"share": share, "taken": share == taken, "error": float(np.median(found)),
                     "largest": float(found.max()),
                     "half width": half / (Z * sampling), "tells": half < n / 2})  # fmt: skip
    return rows


def claims(table: pd.DataFrame, options: Options) -> list[Claim]:
    """State what the library's share loses, and where it takes nine tenths."""
    wide = table.pivot_table("error", ["neighbors", "price", "n"], "share")
    taken = table[table["taken"]].set_index(["neighbors", "price", "n"])
    public = taken[taken.index.get_level_values(0) == "replace_one"]
    if public.empty:
        return []
    ratio = public["error"] / wide.loc[public.index][1.0]
    worst, count = ratio.idxmax(), int(table["replicates"].max())
    told = table[(table["share"] == 0.25) & table["tells"]].merge(
        taken[taken["share"] > 0.5].reset_index(), on=["neighbors", "price", "n"])  # fmt: skip
    return [
        Claim("where the choice has nine tenths, the tree would tell nothing with three quarters",
              f"{len(public)} cells, replace_one", f"{int((public['share'] > 0.5).sum())} cells", told.empty),
        Claim("largest error of a chosen median over a choice with the whole budget: n public, middle population",
              f"{len(public)} cells; n = {worst[2]:,}, {worst[1]}", f"{ratio.max():.2f}",
              options.quick or bool(ratio.max() <= MOST), threshold=f"{MOST:g}", cells=len(public), replicates=count),
    ]  # fmt: skip


STUDY = Study(
    "quantile_split", [*product(SIZES, PRICES, NEIGHBORS)], draw, summary, most=400, also=claims,
    axes=lambda cell: {"neighbors": cell[2], "price": str(cell[1]), "n": cell[0]}, by=("share",),
    figure=scatter("half width", {"error": 1.0}, ["neighbors", "share"], label="half width of the interval, over no "
                                                                               "privacy"),
    notes=(f"Medians of {len(STUDIED)} populations: middle and largest of their root mean squared errors, over that of "
           f"the "
           "sample median. Half width: that of the 95% interval in rank, over that without privacy; it tells something "
           "where it is less than half of the rows. Share: of the budget, for the choice; taken: by the library.",),
)  # fmt: skip
