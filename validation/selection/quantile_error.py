"""Error of private quantiles by both methods against that of the sample's, and 99 quantiles for the price of one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, reduce
from itertools import product
from operator import add
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dpinfer as dpi
from dpinfer.distributions.tree import QuantileInference
from validation.common.outputs import Options, lines
from validation.common.rules import Claim, Rule
from validation.common.stages import Choosing
from validation.common.study import Drawn, Study
from validation.selection.quantile_designs import POPULATIONS, TIGHT, Fast, Population, nodes_of, places

Array = NDArray[np.float64]


QUARTILES = (0.25, 0.5, 0.75)
PRICES = (dpi.PureDP(1.0), dpi.ZCDP(0.1), dpi.ZCDP(0.5))
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)

STUDIED = ("normal", "lognormal", "Poisson 2, Integer", "20 values")
METHODS = ("sample quantile", "exponential", "tree")

MANY = tuple(round(0.01 * percent, 2) for percent in range(1, 100))
MANY_SIZES = (100, 1_000, 10_000, 100_000)

MANY_PRICES = (dpi.ZCDP(0.1), dpi.PureDP(1.0))

THIRD = 1 / 3
LARGE, MOST = 10_000, {"exponential": 1.1, "tree": 1.5}
"""Rows from which private medians are compared with the sample's, and the largest ratios that are in order."""

MUCH = 10_000
"""Rows beyond which data sets are fewer in proportion: their errors vary little."""

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
    found = QuantileInference(names, (path.fit(noisy),), np.array(probabilities), step=float(whole))
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


def draw(cell: tuple[int, int], rng: np.random.Generator, replicates: int) -> Drawn:
    """Errors in sampling standard deviations (replicates, prices, methods, 3).

    Of a variable with a density they are errors of the value; of a discrete one of the rank, and a value within a leaf
    of one that occurs counts as that one.
    """
    (place, n), q = cell, np.array(QUARTILES)
    population = studied()[place]
    truth, leaf = population.quantile(q), (population.upper - population.lower) / 4096
    found = []
    for _ in range(max(round(replicates * min(1.0, MUCH / n)), 1)):
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
    missing = np.full((replicates - len(found), *found[0].shape), np.nan)
    return {"errors": np.concatenate([found, missing])}


def summary(cell: tuple[int, int], drawn: Drawn) -> list[dict]:
    """Root mean squared errors by price and method."""
    size, kind = np.sqrt(np.nanmean(drawn["errors"] ** 2, axis=0)), "value" if studied()[cell[0]].continuous else "rank"
    return [
        {"error of": kind, "price": str(price), "method": method, "median": float(size[i, j, 1]),
         "quartiles": float(np.sqrt((size[i, j, [0, 2]] ** 2).mean())),
         "over the sample's": size[i, j, 1] / size[i, 0, 1]}
        for i, price in enumerate(PRICES) for j, method in enumerate(METHODS)
    ]  # fmt: skip


@cache
def prepared_many(place: int, price: Any) -> tuple[Fast, Fast, Choosing]:
    """One tree at the price, one at 1/99 of it, and what chooses 99 quantiles at 1/99 each; once a process."""
    schema, part = studied()[place].schema("add_remove"), price / len(MANY)
    one = Fast(dpi.quantile("x", q=list(MANY), method="tree").measurement(price, schema=schema, neighbors="add_remove"))
    each = Fast(dpi.quantile("x", q=0.5, method="tree").measurement(part, schema=schema, neighbors="add_remove"))
    return one, each, choosing([dpi.quantile("x", q=p, method="exponential") for p in MANY], part, schema)


def draw_many(cell: tuple[int, int, Any], rng: np.random.Generator, replicates: int) -> Drawn:
    """Errors in rank (replicates, 3, 99), as shares of rows: one tree, 99 trees, 99 choices at 1/99 of the price."""
    (place, n, price), q, found = cell, np.array(MANY), []
    one, each, rows = prepared_many(place, price)
    for _ in range(replicates):
        values = np.sort(studied()[place].draw(rng, n))
        counts = nodes_of(np.bincount(places(one.rows, values), minlength=len(one.edges) - 1)[None], one.rows)
        joint = tree_estimates(one, (counts + one.noise(1, rng))[0], MANY, whole=False)
        noisy = counts + each.noise(len(MANY), rng)
        single = [tree_estimates(each, row, (p,), whole=False)[0] for row, p in zip(noisy, MANY, strict=True)]
        guess = np.array([joint, single, rows.values(values, rng)])
        upto, under = np.searchsorted(values, guess, side="right") / n, np.searchsorted(values, guess) / n
        found.append(distance(upto, under, q))
    return {"errors": np.array(found)}


def many(cell: tuple[int, int, Any], drawn: Drawn) -> dict:
    """Root mean squared error in rank over all 99 quantiles, and its ratios."""
    one, trees, choices = np.sqrt((drawn["errors"] ** 2).mean(axis=(0, 2)))
    return {"one tree": one * cell[1], "99 trees": trees * cell[1], "99 choices": choices * cell[1],
            "over 99 trees": one / trees, "over 99 choices": one / choices}  # fmt: skip


def sized(sizes: tuple[int, ...], most: int, name: str, **options: Any) -> Study:
    """Return the study of some numbers of rows, and so many replicates at most."""
    return Study(
        name, [(place, n) for place in range(len(studied())) for n in sizes], draw, summary, most=most, early=False,
        rules=tuple(
            Rule(f"largest error of the private median over the sample median's: {method}", "over the sample's",
                 "value", cap,
                 where=lambda table, method=method: (table["method"] == method) & (table["n"] >= LARGE)
                 & (table["error of"] == "value"), design=f"n = {LARGE:,} and more")
            for method, cap in MOST.items()
        ),
        axes=lambda cell: {"population": studied()[cell[0]].name, "bounds": studied()[cell[0]].bounds, "n": cell[1]},
        by=("price", "method"),
        figure=lambda table: lines(table.pivot_table("median", ["population", "bounds", "n", "price"],
                                                     "method").reset_index(),
                                   ["population", "bounds"], "n",
                                   {"sample quantile": "k-", "exponential": "o-", "tree": "s--"}, color="price",
                                   log=True),
        notes=("Root mean squared errors over the standard deviation of the sample quantile (of a discrete column: of "
               "its rank, where a value within a leaf of one that occurs counts as that one). Exponential: each "
               "quartile alone at the whole budget, of which the choice has a quarter. Tree: all from one tree at the "
               "price.",),
        **options,
    )  # fmt: skip


def many_claims(table: pd.DataFrame, _: Options) -> list[Claim]:
    """One tree serves all for the price of one."""
    found = []
    for kind in ("trees", "choices"):
        told = table[table["n"] >= FROM]
        by_n = table.groupby("n")[f"over 99 {kind}"].max()
        shown, sizes = ", ".join(f"{value:.2f}" for value in by_n), ", ".join(f"{n:,}" for n in by_n.index)
        found.append(Claim(f"error of 99 quantiles from one tree over 99 {kind} at 1/99 of the budget (at most 1/3)",
                           f"n = {sizes}; judged from {FROM:,}", shown,
                           (told[f"over 99 {kind}"] <= THIRD).all()))  # fmt: skip
    return found


STUDY = (
    sized(SIZES, 100, "quantile_error", quick=3),
    Study(
        "quantile_error_many",
        [(place, n, price) for place, one in enumerate(studied()) if one.continuous and one.bounds == TIGHT
         for n, price in product(MANY_SIZES, MANY_PRICES)],
        draw_many, many, most=4, also=many_claims, quick=3,
        axes=lambda cell: {"population": studied()[cell[0]].name, "n": cell[1], "price": str(cell[2])},
        notes=("Root mean squared error over the quantiles .01, .02, ..., .99, in rows of rank within the sample: what "
               "privacy alone does. 99 releases have 1/99 of the budget each, with the exponential mechanism a quarter "
               "of that.",),
    ),
)  # fmt: skip
