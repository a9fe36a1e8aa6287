"""Coverage and width of intervals for quantiles, and of the band for a whole distribution function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy import stats
from tqdm import tqdm

import dpinfer as dpi
from dpinfer.inference.quantiles import QuantileInference
from dpinfer.mechanisms.kernel import run as run_kernel
from dpinfer.mechanisms.quantiles import chosen_points, simulated_draw
from dpinfer.mechanisms.sources import open_source
from dpinfer.results.quantiles import DistributionQuestion, trees_of, whole_step
from dpinfer.studies import Rules
from validation.common import Options
from validation.quantile_designs import POPULATIONS, TIGHT, Fast, KnownTree, leaf_counts, nodes_of, places

if TYPE_CHECKING:
    from collections.abc import Iterable

    from validation.quantile_designs import Population

RULES = Rules()
QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.9, 0.99)
SIZES = (100, 1_000, 10_000, 100_000)
PRICES = (
    (dpi.ZCDP(0.1), "add_remove"),
    (dpi.PureDP(1.0), "replace_one"),
    (dpi.ZCDP(0.005), "replace_one"),
    (dpi.PureDP(0.1), "add_remove"),
)
ALPHA, Z = 0.05, float(stats.norm.isf(0.05 / 2))
CHUNK, SERIAL, AGAIN = 100, 100, 5000
"""Replicates of one task; below which there is one process; from which failures are rerun."""

FLAGGED = 5
"""One in so many replicates says whether intervals are flagged, which takes as long as the rest."""

ROOM = 2.0
"""Half-lengths of the oracle's interval, in ranks, that must lie between the quantile and either end of the rows for
noise not to dominate; the noise itself may be no larger than sampling."""

DEFAULTS = ("normal", "two lumps", "20 values")
"""Populations whose median is asked for by the default method besides."""

BANDS = (
    ("normal", 1_000, dpi.ZCDP(0.1), "add_remove"),
    ("normal", 100_000, dpi.ZCDP(0.1), "replace_one"),
    ("lognormal", 10_000, dpi.PureDP(1.0), "replace_one"),
    ("two lumps", 1_000, dpi.ZCDP(0.5), "add_remove"),
    ("20 values", 1_000, dpi.PureDP(1.0), "add_remove"),
    ("Poisson 2, Integer", 10_000, dpi.ZCDP(0.5), "replace_one"),
    ("ages in years, Real", 100, dpi.ZCDP(0.005), "add_remove"),
)
BAND_LEAVES = 1024


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
        return POPULATIONS[self.population]

    @property
    def probabilities(self) -> tuple[float, ...]:
        """The quantiles that are judged."""
        return (0.5,) if self.default else QUANTILES

    @property
    def asked(self) -> Any:
        """The question as a user puts it."""
        return dpi.quantile("x", 0.5 if self.default else list(QUANTILES))

    def fast(self) -> Fast:
        """The direct path."""
        schema = self.source.schema(self.neighbors)
        return Fast(self.asked.measurement(self.price, schema=schema, neighbors=self.neighbors))


def inference(tree: KnownTree, cell: Cell, selected: np.ndarray | None) -> QuantileInference:
    """What the library infers from a tree."""
    names = tuple(map(str, cell.probabilities))
    step = 0.0
    if cell.source.whole:
        width = int(cell.source.upper - cell.source.lower)
        step = float(-(-(width + 1) // tree.size))
    return QuantileInference((tree,), np.array(cell.probabilities), names, step=step, selected=selected)


def ends_of(tree: KnownTree, cell: Cell, selected: np.ndarray | None = None, *, flags: bool = False) -> np.ndarray:
    """Interval of every quantile, as `QuantileInference.intervals` gives them, and whether it is flagged (k, 3)."""
    found = inference(tree, cell, selected)
    rows = []
    for place, one in enumerate(found._found):
        low, high = one.interval(Z)
        middle = one.estimate if selected is None else float(selected[0, place])
        rows.append((min(low, middle), max(high, middle), float(flags and (one.hidden or one.coarse))))
    return np.array(rows)


def replicates(cells: tuple[Cell, ...], truth: np.ndarray, seeds: range, seed: int) -> np.ndarray:
    """Sums over replicates (cells, k, 5) of: below the interval, above it, length, flagged, the whole bounds.

    All cells have the same population and number of rows, which are drawn once for all.
    """
    first = cells[0]
    population, paths = first.source, [cell.fast() for cell in cells]
    rng = np.random.default_rng([seed, first.population, first.n, seeds.start, int(first.default)])
    rows, size = paths[0].rows, len(seeds)
    total = np.zeros((len(cells), len(truth), 5))
    values = [population.draw(rng, first.n) for _ in range(size)] if first.default else None
    if values is None:
        leaves = leaf_counts(population.shares(rows), first.n, size, rng)
    else:
        leaves = np.stack([np.bincount(places(rows, one), minlength=len(rows.edges) - 1) for one in values])
    counts = nodes_of(leaves, rows)
    for place, (cell, path) in enumerate(zip(cells, paths, strict=True)):
        noise = path.noise(size, rng)
        for one in range(size):
            selected = None if values is None else chosen(path, values[one], rng)
            flags = one % FLAGGED == 0
            low, high, flag = ends_of(path.fit(counts[one] + noise[one]), cell, selected, flags=flags).T
            whole = (low <= population.lower) & (high >= population.upper)
            total[place] += np.stack([truth < low, truth > high, high - low, FLAGGED * flag, whole], axis=1)
    return total


def chosen(path: Fast, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Choose the median of rows by the exponential mechanism (1, 1)."""
    asked: Any = path.measurement.rows
    source = open_source(pd.DataFrame({"x": values}))
    return np.array([[asked.value(point) for point in chosen_points(asked, source, simulated_draw(rng))]])


def oracle(cell: Cell, path: Fast) -> pd.DataFrame:
    """Length of the interval of one who knows the distribution and both variances, and whether noise dominates."""
    tree = path.fit(np.zeros(path.rows.width))
    rows = []
    for q in cell.probabilities:
        at = float(cell.source.quantile(q))
        noise = float(np.interp(at, tree.edges, tree.noise_variance(q)))
        sampling = cell.n * q * (1 - q)
        reach = Z * np.sqrt(sampling + noise) / cell.n
        ends = cell.source.quantile(np.clip([q - reach, q + reach], 0, 1))
        rows.append(
            {
                "truth": at,
                "oracle": float(ends[1] - ends[0]),
                "sampling / noise sd": float(np.sqrt(sampling / noise)) if noise else np.inf,
                "clear": bool(sampling >= noise and min(q, 1 - q) >= ROOM * reach and cell.source.continuous),
            }
        )
    return pd.DataFrame(rows)


def study(cells: tuple[Cell, ...], count: int, seed: int, least: float, run: str, parallel: Parallel) -> pd.DataFrame:
    """Judge cells of one population and number of rows; a row for each and each quantile."""
    known = [oracle(cell, cell.fast()) for cell in cells]
    truth = known[0]["truth"].to_numpy()
    parts = [range(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
    total = np.sum(list(parallel(delayed(replicates)(cells, truth, seeds, seed) for seeds in parts)), axis=0) / count
    tables = []
    for cell, oracles, means in zip(cells, known, total, strict=True):
        below, above, width, flagged, whole = means.T
        table = pd.DataFrame(
            {
                "population": cell.source.name,
                "bounds": cell.source.bounds,
                "method": "default" if cell.default else "tree",
                "n": cell.n,
                "price": str(cell.price),
                "neighbors": cell.neighbors,
                "q": cell.probabilities,
                "coverage": 1 - below - above,
                "truth below": below,
                "truth above": above,
                "flagged": flagged,
                "whole bounds": whole,
                "width": width,
                "width / oracle": width / np.maximum(oracles["oracle"], 1e-300),
                "sampling / noise sd": oracles["sampling / noise sd"],
                "clear": oracles["clear"],
                "replicates": count,
                "run": run,
            }
        )
        table.loc[oracles["oracle"].to_numpy() == 0, "width / oracle"] = np.nan
        narrow = ~table["clear"] | (table["width / oracle"] <= RULES.width_cap)
        table["held"] = (table["coverage"] >= least) & narrow
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def all_cells(*, quick: bool) -> list[tuple[Cell, ...]]:
    """Cells that share their rows, together."""
    groups = []
    for place, population in enumerate(POPULATIONS):
        sizes = SIZES[1:2] if quick else SIZES
        prices = PRICES if population.bounds == TIGHT else PRICES[:2]
        groups += [tuple(Cell(place, n, *price) for price in prices) for n in sizes]
        if population.name in DEFAULTS and population.bounds == TIGHT:
            groups += [tuple(Cell(place, n, *price, default=True) for price in PRICES[:2]) for n in sizes[:2]]
    return groups


def judged(arguments: Options) -> pd.DataFrame:
    """Every cell; those that fail again, at ten times the replicates, by the same threshold."""
    count = arguments.replicates
    least = RULES.least_coverage(count, 1 - ALPHA)
    tables = []
    with Parallel(n_jobs=1 if count < SERIAL else arguments.jobs) as parallel:
        for cells in tqdm(all_cells(quick=count < SERIAL), desc="cells"):
            tables.append(study(cells, count, arguments.seed, least, "first", parallel))
            failed = failing(tables[-1], cells)
            if failed and count >= AGAIN:
                more, seed = count * RULES.rerun_factor, arguments.seed + RULES.rerun_seed
                again = study(failed, more, seed, least, "rerun", parallel)
                keys = [*KEYS, "q"]
                broken = tables[-1][~tables[-1]["held"]][keys]
                tables.append(again.merge(broken, on=keys))
    return pd.concat(tables, ignore_index=True)


KEYS = ["population", "bounds", "method", "n", "price", "neighbors"]


def failing(table: pd.DataFrame, cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """The cells of which some quantile does not hold."""
    broken = table[~table["held"]]
    return tuple(
        cell for cell in cells
        if ((broken["price"] == str(cell.price)) & (broken["neighbors"] == cell.neighbors)).any()
    )  # fmt: skip


# The direct path against the library


def library(cell: Cell, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Intervals (k, 2) that the library gives, from rows to release to inference."""
    frame = pd.DataFrame({"x": values.astype(np.int64) if cell.source.whole else values})
    data = dpi.PublicData(frame, cell.source.schema(cell.neighbors), rng=rng, neighbors=cell.neighbors)
    release = run_kernel(cell.asked.measurement(cell.price, schema=data.schema, neighbors=cell.neighbors), data)
    question = DistributionQuestion.from_release(release)
    selected = None
    if cell.default:
        selected = np.array([[question.choice().value(point) for point in release.question["selected"]]])
    found = QuantileInference(
        trees_of(release, question),
        np.array(question.probabilities),
        tuple(map(str, question.probabilities)),
        step=whole_step(question),
        selected=selected,
    )
    return found.intervals(np.eye(len(found.names)), ALPHA)


def differences(arguments: Options) -> tuple[int, int]:
    """How many ends of intervals are not those that the library gives to the same rows and noise, and of how many."""
    wrong = total = 0
    for cells in all_cells(quick=True):
        for cell in cells:
            seed = [arguments.seed, cell.population, int(cell.default)]
            values = cell.source.draw(np.random.default_rng(seed), cell.n)
            theirs = library(cell, values, np.random.default_rng(seed))
            path, rng = cell.fast(), np.random.default_rng(seed)
            selected = chosen(path, values, rng) if cell.default else None
            leaves = np.bincount(places(path.rows, values), minlength=len(path.edges) - 1)
            counts = nodes_of(leaves[None], path.rows) + path.noise(1, rng)
            wrong += int((ends_of(path.fit(counts[0]), cell, selected)[:, :2] != theirs).sum())
            total += theirs.size
    return wrong, total
