"""Size of tests of log-linear models of noisy tables: sparse cells, loud noise; and power beside the ordinary tests."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

import dpinfer as dpi
from dpinfer.tables.loglinear_inference import nested
from validation.common.cells import measured
from validation.common.claims import Claim, largest_size
from validation.common.leaves import DRAWS, LEVELS, rejections
from validation.common.outputs import Options, new_figure, write_figure, write_table
from validation.tests.loglinear_designs import EVEN, PEAK, RARE, THREE, Design

LOUD, QUIET, PURE = dpi.ZCDP(0.005), dpi.ZCDP(0.5), dpi.PureDP(1.0)
SETTINGS = ((100, QUIET), (100, PURE), (1000, QUIET), (1000, LOUD), (1000, PURE), (10_000, LOUD))
RELATIONS = ("add_remove", "replace_one")
SHARES = {"even": EVEN, "rare levels": RARE, "one large cell": PEAK}
TESTS = {
    "independence": ("a + b + c", None),
    "one interaction": ("a + b + c", "a * b + c"),
    "conditional independence": ("a + b + c + a:c", "a + b + c + a:c + b:c"),
    "no interaction of three": ("a * b + b * c + a * c", None),
}
CELL = ["test", "population", "n", "price", "neighbors"]
EFFECTS = (0.0, 0.15, 0.3, 0.45, 0.6)


def test_of(name: str, shares: np.ndarray, n: int, price: Any, neighbors: str, counts: np.ndarray, seed: Any) -> tuple:
    """The test, and noisy tables (R, d)."""
    small, large = TESTS[name]
    design = Design(name, THREE, shares, small)
    cells = design.cells(n, price, neighbors, counts, seed)
    model, values, _ = design.model(cells)
    larger = None if large is None else design.model(cells, large)[0].design
    return nested(model.design, larger, model.noise, model.nobs), values


def measure(cell: tuple[str, str, int, Any, str], place: int, replicates: int, seed: int) -> dict:
    """Rejection rates where the hypothesis holds."""
    test, population, n, price, neighbors = cell
    rng = np.random.default_rng([seed, place])
    counts = rng.multinomial(n, SHARES[population], size=replicates)
    model, values = test_of(test, SHARES[population], n, price, neighbors, counts, [seed, place, 1])
    rates = rejections(model, values, rng, 2000).mean(axis=0)
    named = {"test": test, "population": population, "n": n, "price": str(price), "neighbors": neighbors}
    rates_by = {f"size at {level:g}": rate for level, rate in zip(LEVELS, rates, strict=True)}
    return named | rates_by | {"hidden": model.hidden(values[:500]).mean(), "replicates": replicates}


def power(cell: tuple[float, int, Any], place: int, replicates: int, seed: int) -> dict:
    """Rejection rates where the first two factors depend on each other, and that of Pearson's test of exact counts."""
    effect, n, price = cell
    rng = np.random.default_rng([seed, place, 2])
    table = RARE.reshape(THREE).copy()
    table[1, 1:] *= np.exp(effect)
    shares = (table / table.sum()).ravel()
    counts = rng.multinomial(n, shares, size=replicates)
    model, values = test_of("one interaction", shares, n, price, "add_remove", counts, [seed, place, 3])
    margin = counts.reshape(-1, *THREE).sum(axis=3)
    expected = margin.sum(axis=2)[:, :, None] * margin.sum(axis=1)[:, None, :] / n
    with np.errstate(invalid="ignore", divide="ignore"):
        pearson = np.nansum((margin - expected) ** 2 / expected, axis=(1, 2))
    return {
        "log odds ratio": effect,
        "n": n,
        "price": str(price),
        "power": rejections(model, values, rng, 2000)[:, 0].mean(),
        "without privacy": (pearson > stats.chi2.isf(0.05, 2)).mean(),
        "replicates": replicates,
    }


def figure_of(sizes: pd.DataFrame, powers: pd.DataFrame) -> Figure:
    """Sizes of all cells, and powers beside those without privacy."""
    figure, (left, right) = new_figure(10.5, 4.0, 1, 2)
    for (name, group), colour in zip(
        sizes.groupby("test", sort=False), ("#03396c", "#f18f01", "#7a9e7e", "#a23b72"), strict=True
    ):
        place = group["n"] * np.random.default_rng(0).uniform(0.8, 1.25, len(group))
        left.plot(place, group["size at 0.05"], ".", color=colour, label=str(name), alpha=0.8)
    left.axhline(0.05, color="black", lw=0.8)
    left.set(xscale="log", xlabel="rows", ylabel="size at .05")
    left.legend(fontsize=8, frameon=False)
    for (price, group), colour in zip(powers.groupby("price", sort=False), ("#03396c", "#f18f01"), strict=False):
        right.plot(group["log odds ratio"], group["power"], "o-", ms=4, color=colour, label=str(price))
        last = group
    right.plot(last["log odds ratio"], last["without privacy"], "k--", lw=1, label="without privacy")
    right.set(xlabel=f"log odds ratio, n = {int(last['n'].iloc[0]):,}", ylabel="power at .05")
    right.legend(fontsize=8, frameon=False)
    return figure


def run(arguments: Options) -> list[Claim]:
    """Measure every cell, write the tables and the figure."""
    grid = list(product(TESTS, SHARES, SETTINGS))
    cells = [(*one, *setting, RELATIONS[(place + place // 6) % 2]) for place, (*one, setting) in enumerate(grid)]
    table = measured("loglinear_size", cells, measure, arguments)
    powers = pd.DataFrame(
        [
            power(cell, place, arguments.replicates, arguments.seed)
            for place, cell in enumerate(product(EFFECTS, (2000,), (dpi.ZCDP(0.05), dpi.ZCDP(0.005))))
        ]
    ).sort_values(["price", "log odds ratio"])
    notes = [
        f"{len(cells)} cells of {arguments.replicates:,} replicates, {DRAWS} draws behind each p-value; `hidden` is "
        "the share of tables in which a fitted count is small or hidden by noise, so that three fits are tried."
    ]
    write_table(table, "loglinear_size", arguments, notes)
    write_table(powers, "loglinear_power", arguments, ["Two factors of three, with rare levels."])
    write_figure(figure_of(table, powers), "loglinear_size", arguments)
    told = "four tests, three populations, n 100 to 10,000, three prices, both relations"
    return [
        largest_size(f"largest size at {level:g}: tests of log-linear models", table, f"size at {level:g}", by=CELL,
                     level=level, design=told)
        for level in LEVELS
    ]  # fmt: skip
