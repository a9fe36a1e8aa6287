"""Error of private quantiles by both methods against that of the sample's, and 99 quantiles for the price of one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, reduce
from itertools import product
from operator import add
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from numpy.typing import NDArray
from tqdm import tqdm

import dpinfer as dpi
from dpinfer.distributions.tree import QuantileInference
from validation.common.claims import Claim
from validation.common.outputs import Options, new_figure, write_figure, write_table
from validation.common.stages import Choosing
from validation.selection.quantile_designs import POPULATIONS, TIGHT, Fast, Population, nodes_of, places

Array = NDArray[np.float64]


QUARTILES = (0.25, 0.5, 0.75)
PRICES = (dpi.PureDP(1.0), dpi.ZCDP(0.1), dpi.ZCDP(0.5))
SHARES = {100: 1.0, 1_000: 1.0, 10_000: 1.0, 100_000: 0.1, 1_000_000: 0.012}
"""Numbers of rows, and the share of the replicates that each is given."""

STUDIED = ("normal", "lognormal", "Poisson 2, Integer", "20 values")
METHODS = ("sample quantile", "exponential", "tree")

MANY = tuple(round(0.01 * percent, 2) for percent in range(1, 100))
MANY_SIZES = {100: 0.04, 1_000: 0.04, 10_000: 0.04, 100_000: 0.01}
"""Numbers of rows for 99 quantiles, and the share of the replicates that each is given."""

MANY_PRICES = (dpi.ZCDP(0.1), dpi.PureDP(1.0))

SERIAL, FEW_ROWS = 100, 10_000
"""Replicates below which there is one process, and the largest number of rows then."""

CHUNK = 10
THIRD = 1 / 3
LARGE, MOST = 10_000, {"exponential": 1.1, "tree": 1.5}
"""Rows from which private medians are compared with the sample's, and the largest ratios that are in order."""

FROM = 1_000
"""Rows from which 99 separate releases are not all noise, so that errors can be told apart."""


def studied() -> list[Population]:
    """The populations: all within tight bounds, the normal one within wide ones too."""
    return [one for one in POPULATIONS if one.name in STUDIED and (one.bounds == TIGHT or one.name == "normal")]


def distance(reached: Array, under: Array, target: Array) -> Array:
    """How far targets are from the intervals ``[under, reached]``."""
    return np.maximum(np.maximum(target - reached, under - target), 0)


def choosing(questions: Sequence[Any], price: Any, schema: dpi.Schema) -> Choosing:
    """What chooses what several questions ask for, each at the price as if alone."""
    each = [question.measurement(price, schema=schema, neighbors="add_remove") for question in questions]
    return joined([Choosing.of(one) for one in each])


def joined(parts: Sequence[Choosing]) -> Choosing:
    """Put choices together."""
    return reduce(add, parts)


def tree_estimates(path: Fast, noisy: Array, probabilities: Sequence[float], *, whole: bool) -> Array:
    """Quantiles (k,) that the library reads from noisy counts."""
    names = tuple(map(str, probabilities))
    found = QuantileInference((path.fit(noisy),), np.array(probabilities), names, step=float(whole))
    return found.params


@cache
def prepared(place: int) -> tuple[Choosing, list[Fast]]:
    """What chooses all quartiles at all prices, each alone, and a tree for each price; once a process."""
    schema = studied()[place].schema("add_remove")
    alone = [dpi.quantile("x", q=q, method="exponential") for q in QUARTILES]
    rows = [choosing(alone, price, schema) for price in PRICES]
    every = joined(rows)
    asked = dpi.quantile("x", q=list(QUARTILES), method="tree")
    return every, [Fast(asked.measurement(price, schema=schema, neighbors="add_remove")) for price in PRICES]


def estimates(place: int, values: Array, rng: np.random.Generator) -> Array:
    """Quartiles (prices, methods, 3) of rows: each alone by the exponential mechanism, or all from one tree."""
    every, paths = prepared(place)
    chosen = every.values(values, rng).reshape(len(PRICES), -1)
    plain = np.sort(values)[np.ceil(np.array(QUARTILES) * len(values)).astype(int) - 1]
    leaves = np.bincount(places(paths[0].rows, values), minlength=len(paths[0].edges) - 1)
    counts, whole, found = nodes_of(leaves[None], paths[0].rows), studied()[place].whole, []
    for which, path in enumerate(paths):
        noisy = (counts + path.noise(1, rng))[0]
        found.append([plain, chosen[which], tree_estimates(path, noisy, QUARTILES, whole=whole)])
    return np.array(found)


def errors(place: int, n: int, seeds: range, seed: int) -> Array:
    """Errors in sampling standard deviations (replicates, prices, methods, 3).

    Of a variable with a density they are errors of the value; of a discrete one of the rank, and a value within a leaf
    of one that occurs counts as that one.
    """
    population, q = studied()[place], np.array(QUARTILES)
    truth, leaf = population.quantile(q), (population.upper - population.lower) / 4096
    found = []
    for number in seeds:
        rng = np.random.default_rng([seed, place, n, number])
        guess = estimates(place, population.draw(rng, n), rng)
        if population.continuous:
            found.append((guess - truth) / (population.slope(q) * np.sqrt(q * (1 - q) / n)))
            continue
        assert population.atoms is not None
        values, reached = population.atoms[0], np.concatenate([[0.0], np.cumsum(population.atoms[1])])
        near = 0 if population.whole else leaf
        upto = reached[np.searchsorted(values, guess + near, side="right")]
        under = reached[np.searchsorted(values, guess - near)]
        found.append(distance(upto, under, q) / np.sqrt(q * (1 - q) / n))
    return np.array(found)


def quartile_table(arguments: Options, parallel: Parallel) -> pd.DataFrame:
    """Root mean squared errors by population, size, price and method."""
    rows = []
    sizes = [n for n in SHARES if arguments.replicates >= SERIAL or n <= FEW_ROWS]
    for place, population in enumerate(tqdm(studied(), desc="quartiles")):
        for n in sizes:
            count = max(round(SHARES[n] * arguments.replicates), 4)
            parts = [range(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
            found = np.concatenate(list(parallel(delayed(errors)(place, n, one, arguments.seed) for one in parts)))
            size = np.sqrt((found**2).mean(axis=0))
            for first, price in enumerate(PRICES):
                for second, method in enumerate(METHODS):
                    middle, both = size[first, second, 1], np.sqrt((size[first, second, [0, 2]] ** 2).mean())
                    rows.append(
                        {
                            "population": population.name,
                            "bounds": population.bounds,
                            "error of": "value" if population.continuous else "rank",
                            "n": n,
                            "price": str(price),
                            "method": method,
                            "median": float(middle),
                            "quartiles": float(both),
                            "replicates": count,
                        }
                    )
    return pd.DataFrame(rows)


# 99 quantiles


@cache
def prepared_many(place: int, price: Any) -> tuple[Fast, Fast, Choosing]:
    """One tree at the price, one at 1/99 of it, and what chooses 99 quantiles at 1/99 each; once a process."""
    schema, part = studied()[place].schema("add_remove"), price / len(MANY)
    one = Fast(dpi.quantile("x", q=list(MANY), method="tree").measurement(price, schema=schema, neighbors="add_remove"))
    each = Fast(dpi.quantile("x", q=0.5, method="tree").measurement(part, schema=schema, neighbors="add_remove"))
    return one, each, choosing([dpi.quantile("x", q=p, method="exponential") for p in MANY], part, schema)


def many_errors(place: int, n: int, price: Any, seeds: range, seed: int) -> Array:
    """Errors in rank (replicates, 3, 99), as shares of rows: one tree, 99 trees, 99 choices at 1/99 of the price."""
    population, q, found = studied()[place], np.array(MANY), []
    one, each, rows = prepared_many(place, price)
    for number in seeds:
        rng = np.random.default_rng([seed, place, n, number, 99])
        values = np.sort(population.draw(rng, n))
        counts = nodes_of(np.bincount(places(one.rows, values), minlength=len(one.edges) - 1)[None], one.rows)
        joint = tree_estimates(one, (counts + one.noise(1, rng))[0], MANY, whole=False)
        noisy = counts + each.noise(len(MANY), rng)
        single = [tree_estimates(each, row, (p,), whole=False)[0] for row, p in zip(noisy, MANY, strict=True)]
        guess = np.array([joint, single, rows.values(values, rng)])
        upto, under = np.searchsorted(values, guess, side="right") / n, np.searchsorted(values, guess) / n
        found.append(distance(upto, under, q))
    return np.array(found)


def many_table(arguments: Options, parallel: Parallel) -> pd.DataFrame:
    """Root mean squared error in rank over all 99 quantiles, and its ratios."""
    rows = []
    few = arguments.replicates < SERIAL
    chosen = [place for place, one in enumerate(studied()) if one.continuous and one.bounds == TIGHT]
    for place in tqdm(chosen[:1] if few else chosen, desc="99 quantiles"):
        for n, price in product([n for n in MANY_SIZES if not few or n <= FEW_ROWS], MANY_PRICES):
            count = 2 if few else max(round(MANY_SIZES[n] * arguments.replicates), 4)
            work = delayed(many_errors)
            tasks = [work(place, n, price, range(one, one + 1), arguments.seed) for one in range(count)]
            found = np.concatenate(list(parallel(tasks)))
            size = np.sqrt((found**2).mean(axis=(0, 2)))
            rows.append(
                {
                    "population": studied()[place].name,
                    "n": n,
                    "price": str(price),
                    "one tree": size[0] * n,
                    "99 trees": size[1] * n,
                    "99 choices": size[2] * n,
                    "over 99 trees": size[0] / size[1],
                    "over 99 choices": size[0] / size[2],
                    "replicates": count,
                }
            )
    return pd.DataFrame(rows)


# Reports


def figure_of(table: pd.DataFrame, many: pd.DataFrame) -> Figure:
    """A panel for each population, and one for 99 quantiles."""
    figure, grid = new_figure(12, 7, 2, 3)
    panels = grid.ravel()
    for axes, ((name, bounds), group) in zip(panels, table.groupby(["population", "bounds"], sort=False), strict=False):
        plain = group[(group["method"] == "sample quantile") & (group["price"] == group["price"].iloc[0])]
        axes.plot(plain["n"], np.maximum(plain["median"], FLOOR), color="black", lw=1, label="sample's")
        for place, price in enumerate(map(str, PRICES)):
            for method, line in (("exponential", "o-"), ("tree", "s--")):
                part = group[(group["price"] == price) & (group["method"] == method)]
                axes.plot(part["n"], np.maximum(part["median"], FLOOR), line, color=f"C{place}", ms=3.5, lw=1,
                          label=f"{method}, {price}")  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="rows")
        axes.set_title(f"{name}, {bounds}", fontsize=10)
        axes.set_ylabel(f"error of the median's {group['error of'].iloc[0]}, sampling sd", fontsize=8)
    panels[0].legend(frameon=False, fontsize=6.5)
    for place, ((name, price), part) in enumerate(many.groupby(["population", "price"], sort=False)):
        for kind, line in (("trees", "s--"), ("choices", "o-")):
            panels[5].plot(part["n"], part[f"over 99 {kind}"], line, color=f"C{place}", ms=4, lw=1,
                           label=f"{kind}: {name}, {price}")  # fmt: skip
    panels[5].axhline(THIRD, color="firebrick", lw=0.8, ls="--")
    panels[5].set(xscale="log", yscale="log", xlabel="rows")
    panels[5].set_title("99 quantiles: one tree over 99 releases", fontsize=10)
    panels[5].set_ylabel("error in rank over theirs", fontsize=8)
    panels[5].legend(frameon=False, fontsize=6.5)
    return figure


FLOOR = 0.01
"""Smaller errors are drawn as this."""


def run(arguments: Options) -> list[Claim]:
    """Measure, write tables and figure."""
    with Parallel(n_jobs=1 if arguments.replicates < SERIAL else arguments.jobs) as parallel:
        table, many = quartile_table(arguments, parallel), many_table(arguments, parallel)
    notes = [
        "Root mean squared errors over the standard deviation of the sample quantile (of a discrete column: of its "
        "rank, where a value within a leaf of one that occurs counts as that one). Exponential: each quartile alone at "
        "the whole price, of which the choice has a quarter. Tree: all from one tree at the price. Replicates: "
        + ", ".join(f"{n:,} rows {share:.0%}" for n, share in SHARES.items())
        + " of those asked for."
    ]
    write_table(table, "quantile_error", arguments, notes)
    notes = [
        "Root mean squared error over the quantiles .01, .02, ..., .99, in rows of rank within the sample: what "
        "privacy alone does. 99 releases have 1/99 of the price each, with the exponential mechanism a quarter of that."
    ]
    write_table(many, "quantile_error_many", arguments, notes)
    write_figure(figure_of(table, many), "quantile_error", arguments)
    return claims(table, many, judge=arguments.replicates >= SERIAL)


def claims(table: pd.DataFrame, many: pd.DataFrame, *, judge: bool) -> list[Claim]:
    """What the tables show; errors of single medians are judged where there are replicates enough to tell them."""
    found = []
    many_rows = table[(table["n"] >= LARGE) & (table["error of"] == "value")]
    keys = ["population", "bounds", "n", "price"]
    pivot = many_rows.pivot_table("median", keys, "method")
    for method in METHODS[1:]:
        ratio = pivot[method] / pivot[METHODS[0]]
        found.append(Claim(f"largest error of the private median over the sample median's: {method}",
                           f"n = {LARGE:,} and more, {len(ratio)} cells", f"{ratio.max():.3f}",
                           not judge or bool(ratio.max() <= MOST[method])))  # fmt: skip
    for kind in ("trees", "choices"):
        told = many[many["n"] >= FROM]
        by_n = many.groupby("n")[f"over 99 {kind}"].max()
        shown, sizes = ", ".join(f"{value:.2f}" for value in by_n), ", ".join(f"{n:,}" for n in by_n.index)
        found.append(Claim(f"error of 99 quantiles from one tree over 99 {kind} at 1/99 of the price (at most 1/3)",
                           f"n = {sizes}; judged from {FROM:,}", shown,
                           (told[f"over 99 {kind}"] <= THIRD).all()))  # fmt: skip
    return found
