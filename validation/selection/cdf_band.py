"""Coverage and width of the simultaneous band for a whole distribution function, beside the one without privacy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from tqdm import tqdm

import dpinfer as dpi
from dpinfer.distributions.tree import Tree, simultaneous_width
from validation.common.cells import kept
from validation.common.claims import RULES, Claim, least_coverage
from validation.common.outputs import Options, new_figure, write_figure, write_table
from validation.selection.quantile_designs import POPULATIONS, Fast, Population, leaf_counts, nodes_of

ALPHA = 0.05
CHUNK, SERIAL, AGAIN = 100, 100, 5000
"""Replicates of one task; below which there is one process; from which failures are rerun."""

DRAWS, SEED = 999, 0
"""Simulated processes behind a band and their public seed, as by default."""

LEAVES = 1024
"""Leaves of the trees of Real columns: a band takes a time in proportion to them."""

COMPARED = 3
"""Bands of each design that are compared with the library's own."""


@dataclass(frozen=True)
class Design:
    """One population, size and price.

    Attributes
    ----------
    population : int
    n : int
    price : Privacy
    neighbors : str
    """

    population: int
    n: int
    price: Any
    neighbors: str

    @property
    def source(self) -> Population:
        """The population."""
        return POPULATIONS[self.population]

    def fast(self) -> Fast:
        """The direct path."""
        asked = dpi.cdf("x", resolution="auto" if self.source.whole else LEAVES)
        schema = self.source.schema(self.neighbors)
        return Fast(asked.measurement(self.price, schema=schema, neighbors=self.neighbors))


def tight(name: str) -> int:
    """Place of a population within tight bounds."""
    return next(place for place, one in enumerate(POPULATIONS) if one.name == name)


DESIGNS = (
    Design(tight("normal"), 1_000, dpi.ZCDP(0.1), "add_remove"),
    Design(tight("normal"), 100_000, dpi.ZCDP(0.1), "replace_one"),
    Design(tight("lognormal"), 10_000, dpi.PureDP(1.0), "replace_one"),
    Design(tight("two lumps"), 1_000, dpi.ZCDP(0.5), "add_remove"),
    Design(tight("20 values"), 1_000, dpi.PureDP(1.0), "add_remove"),
    Design(tight("Poisson 2, Integer"), 10_000, dpi.ZCDP(0.5), "replace_one"),
    Design(tight("ages in years, Real"), 100, dpi.ZCDP(0.005), "add_remove"),
)


@dataclass(frozen=True, eq=False)
class Bands:
    """`simultaneous_width` for many trees with the same noise.

    The simulated draws come from a public seed, so that they are the same for every tree: the noise among them is
    computed once.

    Attributes
    ----------
    noise : ndarray (draws, m + 1)
        Of the counts below every edge.
    totals : ndarray (draws, 1)
        Of the number of rows.
    normals : ndarray (draws, m)
        What sampling is simulated from.
    """

    noise: np.ndarray
    totals: np.ndarray
    normals: np.ndarray

    @classmethod
    def of(cls, tree: Tree) -> Bands:
        """Draw what does not depend on the counts, in the library's order."""
        held, depth = len(tree.leaves), len(tree.precisions) - 1
        drawn = np.random.default_rng(SEED).normal(size=(DRAWS, tree.size + held))
        nodes = drawn[:, :1] * np.sqrt(tree.size / tree.precisions[0])
        start = 1
        for j in range(depth, 0, -1):
            width = nodes.shape[1]
            difference = drawn[:, start : start + width] * np.sqrt(2.0**j / tree.precisions[j])
            nodes = np.stack([(nodes + difference) / 2, (nodes - difference) / 2], axis=2).reshape(DRAWS, -1)
            start += width
        noise = np.hstack([np.zeros((DRAWS, 1)), np.cumsum(nodes[:, :held], axis=1)])
        return cls(noise, nodes.sum(axis=1, keepdims=True), drawn[:, start:])

    def half(self, tree: Tree) -> float:
        """Half width of the band."""
        steps = np.diff(tree.cdf)
        steps = steps / max(float(steps.sum()), 1e-300)
        share = np.concatenate([[0.0], np.cumsum(steps)])
        walk = np.hstack([np.zeros((DRAWS, 1)), np.cumsum(self.normals * np.sqrt(steps), axis=1)])
        bridge = (walk - share * walk[:, -1:]) * np.sqrt(tree.rows)
        largest = np.abs(bridge + self.noise - share * self.totals).max(axis=1)
        rank = int(np.ceil((1 - ALPHA) * (DRAWS + 1)))
        return float(np.sort(largest)[min(rank, DRAWS) - 1] / tree.rows)


def replicates(place: int, seeds: range, seed: int) -> np.ndarray:
    """Whether the band holds the function at every edge, its half width, and the largest error (R, 3)."""
    design = DESIGNS[place]
    path, rng = design.fast(), np.random.default_rng([seed, place, seeds.start])
    shares = design.source.shares(path.rows)
    truth = np.concatenate([[0.0], np.cumsum(shares)])
    counts = nodes_of(leaf_counts(shares, design.n, len(seeds), rng), path.rows) + path.noise(len(seeds), rng)
    bands, found = None, []
    for nodes in counts:
        tree = path.fit(nodes)
        bands = Bands.of(tree) if bands is None else bands
        half = bands.half(tree)
        lower, upper = np.clip(tree.cdf - half, 0, 1), np.clip(tree.cdf + half, 0, 1)
        inside = (lower <= truth + 1e-12) & (truth <= upper + 1e-12)
        found.append((inside.all(), half, np.abs(tree.cdf - truth).max()))
    return np.array(found, dtype=float)


def largest_gap(place: int, seed: int) -> float:
    """Largest relative difference between these half widths and the library's."""
    design = DESIGNS[place]
    path, rng = design.fast(), np.random.default_rng([seed, place, 7])
    counts = nodes_of(leaf_counts(design.source.shares(path.rows), design.n, COMPARED, rng), path.rows)
    gaps = []
    for nodes in counts + path.noise(COMPARED, rng):
        tree = path.fit(nodes)
        right = simultaneous_width(tree, ALPHA, replicates=DRAWS, seed=SEED)
        gaps.append(abs(Bands.of(tree).half(tree) / right - 1))
    return max(gaps)


def study(place: int, count: int, seed: int, least: float, run: str, parallel: Parallel) -> dict[str, Any]:
    """Judge one design."""
    design = DESIGNS[place]
    parts = [range(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
    held, half, error = np.concatenate(list(parallel(delayed(replicates)(place, one, seed) for one in parts))).T
    without = float(np.sqrt(np.log(2 / ALPHA) / (2 * design.n)))
    return {
        "place": place,
        "population": design.source.name,
        "n": design.n,
        "price": str(design.price),
        "neighbors": design.neighbors,
        "coverage": float(held.mean()),
        "half width": float(half.mean()),
        "DKW": without,
        "over DKW": float(half.mean() / without),
        "over the errors' quantile": float(half.mean() / np.quantile(error, 1 - ALPHA)),
        "replicates": count,
        "run": run,
        "held": bool(held.mean() >= least),
    }


def figure_of(table: pd.DataFrame) -> Figure:
    """Coverage and width of every design."""
    figure, (left, right) = new_figure(10, 3.6, 1, 2, sharey=True)
    place = np.arange(len(table))[::-1]
    left.plot(table["coverage"], place, "o", color="#03396c")
    left.axvline(1 - ALPHA, color="black", lw=0.8)
    left.axvline(RULES.least_coverage(int(table["replicates"].iloc[0]), 1 - ALPHA), color="firebrick", lw=0.8, ls="--")
    left.set_yticks(place, [f"{row.population}, n = {row.n:,}, {row.price}" for row in table.itertuples()], fontsize=8)
    left.set(xlabel="coverage of the whole function", xlim=(min(0.92, table["coverage"].min() - 0.01), 1.002))
    right.barh(place, table["over DKW"], color="#b3cde3")
    right.axvline(1, color="black", lw=0.8)
    right.set(xlabel="half width over Dvoretzky-Kiefer-Wolfowitz without privacy", xscale="log")
    return figure


def run(arguments: Options) -> list[Claim]:
    """Study every design; those that fail again at ten times the replicates, by the same threshold."""
    count = arguments.replicates
    least, rows = RULES.least_coverage(count, 1 - ALPHA), []
    with Parallel(n_jobs=1 if count < SERIAL else arguments.jobs) as parallel:
        for place in tqdm(range(len(DESIGNS)), desc="bands"):
            first = partial(study, place, count, arguments.seed, least, "first", parallel)
            rows.append(kept("cdf_band", place, arguments, first))
            if not rows[-1]["held"] and count >= AGAIN:
                more, seed = count * RULES.rerun_factor, arguments.seed + RULES.rerun_seed
                again = partial(study, place, more, seed, least, "rerun", parallel)
                rows.append(kept("cdf_band", f"{place}-again", arguments, again))
    gap = max(largest_gap(place, arguments.seed) for place in range(len(DESIGNS) if count >= SERIAL else 2))
    table = pd.DataFrame(rows)
    last = table.drop_duplicates("place", keep="last")
    notes = [
        f"95% bands, at every edge of {LEAVES:,} leaves (whole numbers: one to a leaf); coverage at least {least:.4f}; "
        f"{DRAWS} simulated draws with public seed {SEED}, as by default. DKW: the band without privacy, "
        f"sqrt(ln(2 / .05) / (2 n)). The errors' quantile: 95% of the largest error in these replicates. Largest "
        f"relative difference from `simultaneous_width`: {gap:.1e}.",
    ]
    write_table(table.drop(columns="place"), "cdf_band", arguments, notes)
    write_figure(figure_of(last), "cdf_band", arguments)
    large = last.loc[last["n"].idxmax()]
    design = f"{len(last)} designs"
    return [
        least_coverage("least coverage of whole distribution functions by 95% bands", table,
                       by=["population", "n", "price", "neighbors"]),
        Claim("half width of the band over Dvoretzky-Kiefer-Wolfowitz without privacy",
              f"{large['population']}, n = {large['n']:,}, {large['price']}",
              f"{large['over DKW']:.3f}; {last['over DKW'].min():.2f} to {last['over DKW'].max():.2f} elsewhere",
              large["over DKW"] <= RULES.width_cap, published="1 without privacy"),
        Claim("bands computed here against simultaneous_width: largest relative difference", design, f"{gap:.1e}",
              gap < 1e-9),
    ]  # fmt: skip
