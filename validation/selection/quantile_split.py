"""How the price of a median is best split between choosing it and the tree that its interval comes from."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.privacy.accounting import choice_scale
from validation.common.claims import Claim
from validation.common.outputs import Options, write_table
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
FEW, MOST, FEW_ROWS = 100, 2.5, 1_000
Z = float(stats.norm.isf(0.025))

STUDIED = (
    *(one for one in POPULATIONS if one.name in ("normal", "lognormal", "Pareto 1.5", "two lumps")),
    smooth("lognormal of the benchmark", "0 to 500", 0, 500, stats.lognorm(0.6, scale=np.exp(3.4))),
    smooth("lognormal", "1,000 times too wide", 0, 20_000, stats.lognorm(1)),
)


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


def cell(place: int, n: int, price: Any, neighbors: str, replicates: int, seed: int) -> list[dict[str, Any]]:
    """Errors by share, over those of the sample median; the same rows for all shares."""
    population, truth = STUDIED[place], float(STUDIED[place].quantile(np.array([0.5]))[0])
    found = {share: np.zeros(replicates) for share in SHARES}
    plain = np.zeros(replicates)
    for number in range(replicates):
        rng = np.random.default_rng([seed, place, n, number])
        values = population.draw(rng, n)
        plain[number] = np.median(values) - truth
        for share in SHARES:
            found[share][number] = chosen(values, scale_of(price, share, neighbors), population, rng) - truth
    base, sampling = float(np.sqrt((plain**2).mean())), np.sqrt(n) / 2
    taken = taken_share(price, neighbors, n)
    rows = []
    for share in SHARES:
        half = Z * float(np.hypot(sampling, noise_of_rank(price, share, neighbors)))
        rows.append({"population": f"{population.name}, {population.bounds}", "n": n, "price": str(price),
                     "neighbors": neighbors, "share": share, "taken": share == taken,
                     "error": float(np.sqrt((found[share] ** 2).mean())) / base,
                     "half width": half / (Z * sampling), "tells": half < n / 2})  # fmt: skip
    return rows


def replicates_of(n: int, asked: int) -> int:
    """Fewer replicates where rows are many, whose errors vary little."""
    return max(asked if n <= FEW_ROWS else asked // 4, 4)


def taken_share(price: Any, neighbors: str, n: int) -> float:
    """Share that the library takes."""
    schema = POPULATIONS[0].schema(neighbors)
    context = Context(schema, neighbors, price, n if neighbors == "replace_one" else None)
    return float(dpi.quantile("x", q=0.5).slots(context)[0].share)


def summed(table: pd.DataFrame) -> pd.DataFrame:
    """Middle and largest error over the populations."""
    keys = ["neighbors", "price", "n", "share"]
    found = table.groupby(keys, sort=False)
    return found.agg(
        **{"taken": ("taken", "first"), "error": ("error", "median"), "largest": ("error", "max"),
           "half width": ("half width", "first"), "tells": ("tells", "first")}
    ).reset_index()  # fmt: skip


def figure_of(table: pd.DataFrame) -> Figure:
    """Middle error against the half width of the interval, a line for each cell, a mark for each share."""
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    for axes, neighbors in zip(figure.subplots(1, 2, sharey=True), NEIGHBORS, strict=True):
        part = table[table["neighbors"] == neighbors]
        for (_, _), line in part.groupby(["price", "n"], sort=False):
            axes.plot(line["half width"], line["error"], "-", color="#bbbbbb", lw=0.8)
        for share, mark in zip(SHARES[:-1], "osD^", strict=True):
            own = part[part["share"] == share]
            axes.plot(own["half width"], own["error"], mark, ms=4, label=f"{share:g} of the price")
        axes.set(xscale="log", yscale="log", title=neighbors, xlabel="half width of the interval, over no privacy")
    figure.axes[0].set_ylabel("error of the choice, over no privacy")
    figure.axes[0].legend(frameon=False, fontsize=8)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Measure, write the table and the figure."""
    cells = list(product(range(len(STUDIED)), SIZES, PRICES, NEIGHBORS))
    with Parallel(n_jobs=arguments.jobs) as parallel:
        work = delayed(cell)
        found = parallel(
            work(place, n, price, near, replicates_of(n, arguments.replicates), arguments.seed)
            for place, n, price, near in cells
        )
    table = summed(pd.DataFrame([row for part in found for row in part]))
    notes = [
        f"Medians of {len(STUDIED)} populations: middle and largest of their root mean squared errors, over that of "
        "the sample median. Half width: that of the 95% interval in rank, over that without privacy; it tells "
        "something where it is less than half of the rows. Share: of the price, for the choice; taken: by the library."
    ]
    write_table(table, "quantile_split", arguments, notes, figure_of(table))
    wide = table.pivot_table("error", ["neighbors", "price", "n"], "share")
    taken = table[table["taken"]].set_index(["neighbors", "price", "n"])
    public = taken.loc["replace_one"]
    ratio = public["error"] / wide.loc["replace_one"][1.0]
    worst = ratio.idxmax()
    return [
        Claim("where the choice has nine tenths, the tree would tell nothing with three quarters",
              f"{len(public)} cells, replace_one", f"{int((public['share'] > 0.5).sum())} cells",
              not table[(table["share"] == 0.25) & table["tells"]].merge(
                  taken[taken["share"] > 0.5].reset_index(), on=["neighbors", "price", "n"]).size),
        Claim("largest error of a chosen median over a choice with the whole price: n public, middle population",
              f"{len(public)} cells; n = {worst[1]:,}, {worst[0]}", f"{ratio.max():.2f}",
              arguments.replicates < FEW or bool(ratio.max() <= MOST), threshold=f"{MOST:g}", cells=len(public),
              replicates=arguments.replicates),
    ]  # fmt: skip
