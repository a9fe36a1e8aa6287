"""Coverage and width of intervals for quantiles, over designs that are chosen to hurt."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import dpinfer as dpi
from dpinfer.distributions.tree import _FEW, _LARGE
from validation.common.outputs import Options, scatter
from validation.common.rules import Claim, Rule
from validation.common.stages import Choosing
from validation.common.study import Drawn, Study, mean_ratio
from validation.selection.quantile_designs import (
    TIGHT,
    Fast,
    Population,
    fitted,
    leaf_counts,
    nodes_of,
    places,
    populations,
)

QUANTILES = (0.01, 0.25, 0.5, 0.9, 0.99)
SIZES = (100, 1_000, 10_000, 100_000)
PRICES = (
    (dpi.ZCDP(0.1), "add_remove"),
    (dpi.PureDP(1.0), "replace_one"),
    (dpi.ZCDP(0.005), "replace_one"),
    (dpi.PureDP(0.1), "add_remove"),
)
LOUD = (1_000, 100_000)
"""Rows at which the prices with most noise are looked at, too, within tight bounds."""

ALPHA, Z = 0.05, float(stats.norm.isf(0.05 / 2))
CHUNK = 50
WIDTH_CAP = 1.1

ENDS = ("rounded outward", "continuous=True")
"""Ends of intervals: as by default, and interpolated within leaves."""

DEFAULTS = ("normal", "two lumps", "20 values")
"""Populations whose median is asked for by the default method besides."""

NARROW = 0.05
"""Share of the oracle's interval below which a leaf is narrow: rounding outward then costs one leaf, about."""

EVEN = 0.1
"""Rows, in standard deviations of sampling, by which a leaf may be from rising evenly at a quantile in it."""

FINE = 200_000
"""Points, besides the edges of leaves, at which the oracle's interval is looked for."""


@dataclass(frozen=True)
class Cell:
    """One population, size and price.

    Attributes
    ----------
    population : int
    n : int
    price : Privacy
    neighbors : str
    default : bool
        The median by the default method: chosen besides, from a tree at the rest of the price.
    """

    population: int
    n: int
    price: Any
    neighbors: str
    default: bool = False

    @property
    def source(self) -> Population:
        """The population."""
        return populations()[self.population]

    @property
    def probabilities(self) -> tuple[float, ...]:
        """The quantiles that are judged."""
        return (0.5,) if self.default else QUANTILES

    @property
    def asked(self) -> Any:
        """The question as a user puts it."""
        return dpi.quantile("x", q=0.5 if self.default else list(QUANTILES), resolution=self.source.resolution)


@cache
def prepared(cell: Cell) -> tuple[Fast, float]:
    """The direct path and the whole numbers in a leaf, once a process."""
    schema = cell.source.schema(cell.neighbors)
    measured = cell.asked.measurement(cell.price, schema=schema, neighbors=cell.neighbors)
    column, leaves = schema["x"], cell.asked.rows(schema).leaves
    return Fast(measured), float(-(-(column.width + 1) // leaves)) if isinstance(column, dpi.Integer) else 0.0


def crossing(gaps: np.ndarray) -> np.ndarray:
    """Places (R,) at which rising lines through the edges (R, m + 1) first reach 0, in leaves."""
    reached = gaps >= 0
    after = np.where(reached.any(axis=1), reached.argmax(axis=1), gaps.shape[1])
    at = np.clip(after, 1, gaps.shape[1] - 1)
    every = np.arange(len(gaps))
    before, upon = gaps[every, at - 1], gaps[every, at]
    with np.errstate(invalid="ignore", divide="ignore"):
        inside = at - 1 + -before / (upon - before)
    return np.where(after == 0, 0.0, np.where(after == gaps.shape[1], gaps.shape[1] - 1.0, inside))


def ends_of(path: Fast, step: float, nodes: np.ndarray, probabilities: tuple[float, ...]) -> np.ndarray:
    """Ends of intervals, rounded outward and interpolated, and whether they are flagged (R, k, 2, 3).

    They are those of `QuantileInference.intervals` for a tree each, but for estimates outside of them.
    """
    edges, last = path.edges, len(path.edges) - 2
    cumulative, totals = fitted(path, nodes)
    rows, top = np.maximum(totals, 1.0)[:, None], np.maximum(totals, 0.0)[:, None]
    hidden = totals <= _LARGE * np.sqrt(path.empty.size / path.empty.precisions[0])
    found = np.empty((len(nodes), len(probabilities), len(ENDS), 3))
    for place, p in enumerate(probabilities):
        gap = cumulative - p * top
        reach = Z * np.sqrt(rows * p * (1 - p) + np.maximum(path.empty.noise_variance(p), 1e-300))
        low = crossing(gap + reach)
        high = last + 1 - crossing((reach - gap)[:, ::-1])
        first = np.minimum(np.floor(low).astype(int), last)
        final = np.clip(np.ceil(high).astype(int) - 1, 0, last)
        outer, inner = (edges[first], edges[final + 1]), tuple(within(edges, one) for one in (low, high))
        inner = np.where(first == 0, outer[0], inner[0]), np.where(final == last, outer[1], inner[1])
        if step:
            outer = inner = (np.ceil(outer[0]), np.floor(outer[1]))
        coarse = (step != 1) & (high - low < _FEW) & (last + 1 > _FEW)
        found[:, place, 0] = np.stack([*outer, hidden | coarse], axis=1)
        found[:, place, 1] = np.stack([*inner, hidden], axis=1)
    return found


def within(edges: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Values at places between the edges of leaves."""
    leaf = np.minimum(place.astype(int), len(edges) - 2)
    return edges[leaf] + (place - leaf) * (edges[leaf + 1] - edges[leaf])


def widened(ends: np.ndarray, selected: np.ndarray) -> np.ndarray:
    """Make intervals (R, 1, 2, 3) hold the medians (R,) that were chosen."""
    ends[..., 0] = np.minimum(ends[..., 0], selected[:, None, None])
    ends[..., 1] = np.maximum(ends[..., 1], selected[:, None, None])
    return ends


def chosen(path: Fast, values: np.ndarray, rng: np.random.Generator) -> float:
    """Choose the median of rows by the exponential mechanism."""
    return float(Choosing.of(path.measurement).values(values, rng)[0])


def draw(cells: tuple[Cell, ...], rng: np.random.Generator, size: int) -> Drawn:
    """Of each price (R, k, 2, 5): truth below the interval, above it, length, flagged, the whole bounds.

    All cells have the same population and number of rows, which are drawn once for all.
    """
    first = cells[0]
    population, rows = first.source, prepared(first)[0].rows
    target = population.quantile(np.array(first.probabilities))[:, None]
    values = [population.draw(rng, first.n) for _ in range(size)] if first.default else None
    if values is None:
        leaves = leaf_counts(population.shares(rows), first.n, size, rng)
    else:
        leaves = np.stack([np.bincount(places(rows, one), minlength=len(rows.edges) - 1) for one in values])
    found = {str(cell.price): [] for cell in cells}
    for start in range(0, size, CHUNK):
        counts = nodes_of(leaves[start : start + CHUNK], rows)
        for cell in cells:
            path, step = prepared(cell)
            ends = ends_of(path, step, counts + path.noise(len(counts), rng), cell.probabilities)
            if values is not None:
                ends = widened(ends, np.array([chosen(path, one, rng) for one in values[start : start + CHUNK]]))
            low, high, flag = np.moveaxis(ends, 3, 0)
            whole = (low <= population.lower) & (high >= population.upper)
            found[str(cell.price)].append(np.stack([target < low, target > high, high - low, flag, whole], axis=3))
    return {price: np.concatenate(parts) for price, parts in found.items()}


@cache
def oracle(cell: Cell) -> pd.DataFrame:
    """Length of the interval of one who knows the distribution and both variances, and what makes it hard to reach.

    That interval holds the values x whose rank ``n F(x)`` is within z standard deviations, at x, of ``n q``.
    """
    path, source = prepared(cell)[0], cell.source
    tree = path.empty
    fine = np.unique(np.concatenate([tree.edges, source.quantile(np.linspace(0, 1, FINE + 1))]))
    rows = []
    for q in cell.probabilities:
        row = {"truth": float(source.quantile(q)), "oracle": np.nan, "leaf / oracle": np.nan,
               "sampling / noise sd": np.nan, "clear": False, "even": False}  # fmt: skip
        rows.append(row)
        if source.below is None or not source.continuous:
            continue
        at_edges = np.concatenate([[0.0], source.below(tree.edges[1:-1]), [1.0]])
        bent = cell.n * abs(float(np.interp(row["truth"], tree.edges, at_edges)) - q)
        row["even"] = bool(bent <= EVEN * np.sqrt(cell.n * q * (1 - q)))
        gap = cell.n * (source.below(fine) - q)
        noise = np.interp(fine, tree.edges, tree.noise_variance(q))
        held = np.abs(gap) <= Z * np.sqrt(cell.n * q * (1 - q) + noise)
        if not held.any():  # the quantile is a bound at which values are clamped
            continue
        inside = fine[held]
        row["oracle"] = float(inside.max() - inside.min())
        row["leaf / oracle"] = float(tree.edges[1] - tree.edges[0]) / max(row["oracle"], 1e-300)
        row["sampling / noise sd"] = float(np.sqrt(cell.n * q * (1 - q) / max(noise[held].mean(), 1e-300)))
        within = source.lower < inside.min() and inside.max() < source.upper
        row["clear"] = bool(within and row["sampling / noise sd"] >= 1)
    return pd.DataFrame(rows)


def summary(cells: tuple[Cell, ...], drawn: Drawn) -> list[dict]:
    """A row for each price, quantile and kind of ends."""
    tables = []
    for cell, found in zip(cells, drawn.values(), strict=True):
        oracles, (_, error) = oracle(cell), mean_ratio(found[..., 2])
        for place, ends in enumerate(ENDS if cell.source.continuous else ENDS[:1]):
            below, above, width, flagged, whole = found[:, :, place].mean(axis=0).T
            table = pd.DataFrame({
                "ends": ends, "price": str(cell.price), "neighbors": cell.neighbors, "q": cell.probabilities,
                "coverage": 1 - below - above, "truth below": below, "truth above": above, "flagged": flagged,
                "whole bounds": whole, "width": width, "width / oracle": width / oracles["oracle"],
                "error of width / oracle": error[:, place] / oracles["oracle"],
                "leaf / oracle": oracles["leaf / oracle"], "sampling / noise sd": oracles["sampling / noise sd"],
            })  # fmt: skip
            table["even"] = oracles["even"] | (place == 0)
            table["clear"] = oracles["clear"] & ((place == 1) | (oracles["leaf / oracle"] <= NARROW))
            tables.append(table)
    return pd.concat(tables).to_dict("records")


def groups() -> list[tuple[Cell, ...]]:
    """Cells that share their rows, together."""
    found = []
    for place, population in enumerate(populations()):
        for n in SIZES if population.bounds != "codebook" else SIZES[1:3]:
            prices = PRICES if population.bounds == TIGHT and n in LOUD else PRICES[:2]
            found.append(tuple(Cell(place, n, *price) for price in prices))
        if population.name in DEFAULTS and population.bounds == TIGHT:
            found += [tuple(Cell(place, n, *price, default=True) for price in PRICES[:2]) for n in SIZES[:2]]
    return found


# The direct path against the library


def library(cell: Cell, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Intervals (k, 2, 2) that the library gives, from rows to release to inference, with either kind of ends."""
    frame = pd.DataFrame({"x": values.astype(np.int64) if cell.source.whole else values})
    data = dpi.PublicData(frame, cell.source.schema(cell.neighbors), rng=rng, neighbors=cell.neighbors)
    release = data.run(cell.asked, cell.price)
    results = [cell.asked.infer(release), release.infer(continuous=True)]
    return np.stack([one.conf_int(alpha=ALPHA).to_numpy() for one in results], axis=1)


def differences(seeded: int) -> tuple[int, int]:
    """How many ends of intervals are not those that the library gives to the same rows and noise, and of how many."""
    wrong = total = 0
    for cells in [one for one in groups() if one[0].n == SIZES[1]]:
        for cell in cells:
            seed = [seeded, cell.population, int(cell.default)]
            values = cell.source.draw(np.random.default_rng(seed), cell.n)
            theirs = library(cell, values, np.random.default_rng(seed))
            (path, step), rng = prepared(cell), np.random.default_rng(seed)
            selected = np.array([chosen(path, values, rng)]) if cell.default else None
            leaves = np.bincount(places(path.rows, values), minlength=len(path.edges) - 1)
            ours = ends_of(path, step, nodes_of(leaves[None], path.rows) + path.noise(1, rng), cell.probabilities)
            ours = ours if selected is None else widened(ours, selected)
            wrong += int((ours[0, ..., :2] != theirs).sum())
            total += theirs.size
    return wrong, total


def same(_: pd.DataFrame, options: Options) -> list[Claim]:
    """State that the direct path is the library's."""
    wrong, total = differences(options.seed)
    return [Claim("ends of intervals that differ from the library's", f"{total:,} ends", str(wrong), wrong == 0)]


STUDY = Study(
    "quantile_coverage", groups, draw, summary,
    (
        Rule("least coverage of 95% intervals for quantiles: {part}", "coverage", split="ends",
             where=lambda table: table["even"].astype(bool)),
        Rule("largest mean width over the oracle's where noise does not dominate: {part}", "width / oracle", "width",
             WIDTH_CAP, split="ends", where=lambda table: (table["clear"] & table["even"]).astype(bool)),
    ),
    axes=lambda cells: {"population": cells[0].source.name, "bounds": cells[0].source.bounds,
                        "method": "default" if cells[0].default else "tree", "n": cells[0].n},
    by=("price", "neighbors", "q"), also=same,
    figure=scatter("sampling / noise sd", {"coverage": 0.95, "width / oracle": WIDTH_CAP}, ["ends", "clear"]),
    notes=(
        f"Flagged intervals are included. Mean width at most {WIDTH_CAP:g} times that of an oracle who knows the "
        "distribution, and both variances at every value, where the column has a density, the oracle's interval is "
        "within the bounds, noise does not dominate (its mean variance in the rank over the oracle's interval is no "
        f"larger than that of sampling) and, but for continuous=True, a leaf is at most {NARROW:.0%} of the oracle's "
        f"interval.",
        "continuous=True takes rows to lie evenly within a leaf. It is judged where that is true at the quantile but "
        f"for {EVEN:g} standard deviations of sampling: not where the density breaks off within a leaf or the quantile "
        f"is a "
        "bound at which values are clamped.",
        "Noisy counts are drawn directly.",
    ),
)  # fmt: skip
