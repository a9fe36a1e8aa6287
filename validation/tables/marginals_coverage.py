"""Coverage of intervals of cells, margins, shares and ratios from releases of marginals, over designs that hurt."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from dpinfer.statistics.moment_inference import intervals
from dpinfer.statistics.tails import critical_value
from dpinfer.tables.marginal_inference import count_estimates, share_estimates, subsets_of
from validation.common.outputs import scatter
from validation.common.rules import Rule
from validation.common.study import Drawn, Study, mean_ratio
from validation.tables.marginal_designs import PRICES, RELATIONS, Population, Releases, named, populations, releases_of

SIZES = (60, 1000, 20_000)
WIDTH_CAP = 1.1
_KAPPA = 3.0
"""Noise standard deviations that half a denominator has to reach for the width of its shares to be judged."""


def designs() -> list[tuple[Population, str, str, str, int]]:
    """Return every population at two prices and all sizes, relations in turns; and some of them with Laplace noise.

    The three measures with Gaussian noise take turns. Intervals with Laplace noise take a hundred times as long.
    """
    every = [
        (population, amount, RELATIONS[(place + size) % 2], n)
        for population, (place, amount), (size, n) in product(populations(), enumerate(PRICES), enumerate(SIZES))
    ]
    found = []
    for place, (population, amount, neighbors, n) in enumerate(every):
        found.append((population, amount, ("zcdp", "gdp", "approx")[(place + place // 6) % 3], neighbors, n))
    laplace = [(one, "little" if place % 2 else "much") for place, one in enumerate(populations()[:2])]
    for place, (population, amount) in enumerate(laplace):
        found.append((population, amount, "pure", RELATIONS[place // 2 % 2], SIZES[1]))
    return found


def _quantities(drawn: Releases) -> Iterator[tuple[str, np.ndarray]]:
    """Coverage, width over the oracle's and share flagged of every estimate (R, k, 3), by quantity."""
    names = "abcdefgh"
    workload = [tuple(sorted(names.index(one) for one in marginal)) for marginal in drawn.population.workload]
    for subset in subsets_of(workload)[1:]:
        quantity = "cells" if subset in workload else "margins"
        for population in (False, True):
            told = "cells of the rows" if not population and quantity == "cells" else quantity
            yield told, _counts(drawn, subset, population=population)
        yield "shares", _shares(drawn, subset, _within_all(drawn, subset))
        if len(subset) > 1:
            yield "shares by group", _shares(drawn, subset, _within_groups(drawn, subset))
        yield "ratios", _shares(drawn, subset, _pairs(drawn, subset))


def _counts(drawn: Releases, subset: tuple[int, ...], *, population: bool) -> np.ndarray:
    found = count_estimates(drawn.found, subset, population=population, nobs=drawn.nobs)
    ends = intervals(found, 0.05)[:, :, 0]
    expected = drawn.expected(subset)
    truth = np.broadcast_to(expected, ends.shape[:2]) if population else drawn.true(subset)
    sampling = np.zeros(len(expected))
    if population:
        sampling = expected if drawn.nobs is None else expected * (1 - expected / drawn.n)
    noise = drawn.found.cell_variance(subset)
    shares = (
        None if found.shares is None else (found.mixing[0, :, 0] ** 2 * found.variances) / (noise + sampling)[:, None]
    )
    half = critical_value(0.05, None, shares) * np.sqrt(noise + sampling)
    ordinary = expected > 3 * half  # an interval that is cut at 0 is short, and a mean of few rows is skewed
    return _told(ends, truth, np.where(ordinary, half, np.nan), found.edge[:, :, 0])


def _shares(drawn: Releases, subset: tuple[int, ...], places: np.ndarray) -> np.ndarray:
    found = share_estimates(drawn.found, subset, places, population=True)
    ends = intervals(found, 0.05)
    ends = ends.reshape(len(ends), -1, 2)
    expected = np.einsum("c,gqc->gq", drawn.expected(subset), places)
    bottom, top = expected[:, :1], expected[:, 1:]
    truth = np.where(bottom > 0, top / np.maximum(bottom, 1e-300), np.nan)
    slope = places[:, 1:] - np.nan_to_num(truth)[..., None] * places[:, :1]
    noise = np.einsum("gqc,cd,gqd->gq", slope, drawn.found.covariance(subset), slope)
    sampling = np.nan_to_num(truth * (1 - truth)) * bottom
    half = np.sqrt(np.maximum(noise, 0.0) + sampling) / np.maximum(bottom, 1e-300)
    size = np.einsum("gc,cd,gd->g", places[:, 0], drawn.found.covariance(subset), places[:, 0])[:, None]
    size = np.sqrt(np.maximum(size, 0.0))  # of a public number of rows it is 0, but for rounding
    far = (bottom > 2 * _KAPPA * size) & (top > 25) & (bottom - top > 25) & (drawn.found.law.family == "gaussian")
    half = np.where(far, critical_value(0.05) * half, np.nan)
    determined = np.broadcast_to(bottom > 0, truth.shape).ravel()
    few = np.repeat(found.few, truth.shape[1], axis=1)
    told = _told(ends, np.broadcast_to(truth.ravel(), ends.shape[:2]), half.ravel(), few)
    return told[:, determined]  # a share of nothing is no number


def _told(ends: np.ndarray, truth: np.ndarray, half: np.ndarray, flagged: np.ndarray) -> np.ndarray:
    slack = 1e-9 * np.maximum(np.abs(truth), 1.0)
    covered = (ends[..., 0] <= truth + slack) & (truth <= ends[..., 1] + slack)
    return np.stack(np.broadcast_arrays(covered, (ends[..., 1] - ends[..., 0]) / (2 * half), flagged), axis=-1)


def _within_all(drawn: Releases, subset: tuple[int, ...]) -> np.ndarray:
    cells = drawn.found.cells(subset)
    return np.vstack([np.ones(cells), np.eye(cells)])[None]


def _within_groups(drawn: Releases, subset: tuple[int, ...]) -> np.ndarray:
    levels = drawn.population.shape[subset[-1]]
    groups = drawn.found.cells(subset) // levels
    each = np.vstack([np.ones(levels), np.eye(levels)])
    return np.einsum("gh,ql->gqhl", np.eye(groups), each).reshape(groups, levels + 1, -1)


def _pairs(drawn: Releases, subset: tuple[int, ...]) -> np.ndarray:
    """Return two neighbouring cells along the last column: a/b is p/(1 - p) of the share p = a/(a + b)."""
    cells = drawn.found.cells(subset)
    first, second = np.eye(cells)[0], np.eye(cells)[1]
    return np.stack([first + second, first])[None]


def draw(design: tuple[Population, str, str, str, int], rng: np.random.Generator, replicates: int) -> Drawn:
    """Coverage, width over the oracle's and flags of the estimates of each quantity (R, k, 3)."""
    population, amount, measure, neighbors, n = design
    parts: dict[str, list[np.ndarray]] = {}
    for quantity, found in _quantities(releases_of(population, PRICES[amount][measure], neighbors, n, replicates, rng)):
        parts.setdefault(quantity, []).append(found.astype(np.float16))
    return {quantity: np.concatenate(found, axis=1) for quantity, found in parts.items()}


def summary(_: tuple, drawn: Drawn) -> list[dict]:
    """A row for each quantity: the estimate that is covered least, and the widest."""
    rows = []
    for quantity, found in drawn.items():
        coverage, (ratio, error) = found[..., 0].mean(axis=0, dtype=float), mean_ratio(found[..., 1].astype(float))
        place, widest = int(coverage.argmin()), int(np.nan_to_num(ratio, nan=-1.0).argmax())
        rows.append({
            "quantity": quantity, "estimates": len(coverage), "coverage": coverage[place],
            "mean coverage": coverage.mean(),
            "width / oracle": ratio[widest], "error of width / oracle": error[widest],
            "flagged": found[:, place, 2].mean(dtype=float),
        })  # fmt: skip
    return rows


STUDY = Study(
    "marginals_coverage", designs, draw, summary,
    (
        Rule("least coverage of 95% intervals from marginals: {part}", "coverage", split="quantity",
             quantities="estimates",
             design="designs x budgets x relations x rows"),
        Rule("mean width of intervals from marginals over the oracle's", "width / oracle", "width", WIDTH_CAP),
    ),
    axes=named, by=("quantity",), figure=scatter("n", {"coverage": 0.95, "width / oracle": WIDTH_CAP},
                                                 ["quantity", "amount"]),
    notes=(
        "Each row is the estimate of its quantity that is covered least. Truth is the count of the rows, or what the "
        "population expects.",
        "Width is the largest mean width over that of an interval that knows the population and the law of the noise, "
        "among counts of three half widths or more, and shares of 25 rows or more whose denominator is six standard "
        "deviations of its noise or more, with Gaussian noise.",
        "A share whose denominator has no row in the population is no number, and is left out.",
    ),
)  # fmt: skip
