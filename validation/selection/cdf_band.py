"""Coverage and width of the simultaneous band for a whole distribution function, beside the one without privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.distributions.tree import Tree, simultaneous_width
from validation.common.outputs import Options, scatter
from validation.common.rules import Claim, Rule
from validation.common.study import Drawn, Study
from validation.selection.quantile_designs import (
    POPULATIONS,
    REAL,
    Fast,
    Population,
    leaf_counts,
    nodes_of,
    populations,
)

ALPHA = 0.05
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
        return populations()[self.population]

    def fast(self) -> Fast:
        """The direct path."""
        asked = dpi.cdf("x", resolution="auto" if self.source.whole else LEAVES)
        schema = self.source.schema(self.neighbors)
        return Fast(asked.measurement(self.price, schema=schema, neighbors=self.neighbors))


def tight(name: str) -> int:
    """Place of a population within tight bounds."""
    return next(place for place, one in enumerate(POPULATIONS) if one.name == name)


def codebook(name: str) -> int:
    """Place of a real column."""
    return len(POPULATIONS) + REAL.index(name)


DESIGNS = (
    Design(tight("normal"), 1_000, dpi.ZCDP(0.1), "add_remove"),
    Design(tight("normal"), 100_000, dpi.ZCDP(0.1), "replace_one"),
    Design(tight("lognormal"), 10_000, dpi.PureDP(1.0), "replace_one"),
    Design(tight("two lumps"), 1_000, dpi.ZCDP(0.5), "add_remove"),
    Design(tight("20 values"), 1_000, dpi.PureDP(1.0), "add_remove"),
    Design(tight("Poisson 2, Integer"), 10_000, dpi.ZCDP(0.5), "replace_one"),
    Design(tight("ages in years, Real"), 100, dpi.ZCDP(0.005), "add_remove"),
    Design(codebook("fair: affairs"), 1_000, dpi.ZCDP(0.1), "add_remove"),
    Design(codebook("injury: durat"), 10_000, dpi.PureDP(1.0), "replace_one"),
    Design(codebook("smoke: income"), 1_000, dpi.ZCDP(0.1), "replace_one"),
    Design(codebook("anes96: TVnews"), 1_000, dpi.PureDP(1.0), "add_remove"),
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


def draw(design: Design, rng: np.random.Generator, size: int) -> Drawn:
    """Whether the band holds the function at every edge, its half width, and the largest error."""
    path = design.fast()
    shares = design.source.shares(path.rows)
    truth = np.concatenate([[0.0], np.cumsum(shares)])
    counts = nodes_of(leaf_counts(shares, design.n, size, rng), path.rows) + path.noise(size, rng)
    bands, found = None, []
    for nodes in counts:
        tree = path.fit(nodes)
        bands = Bands.of(tree) if bands is None else bands
        half = bands.half(tree)
        lower, upper = np.clip(tree.cdf - half, 0, 1), np.clip(tree.cdf + half, 0, 1)
        inside = (lower <= truth + 1e-12) & (truth <= upper + 1e-12)
        found.append((inside.all(), half, np.abs(tree.cdf - truth).max()))
    return {"found": np.array(found, dtype=float)}


def summary(design: Design, drawn: Drawn) -> dict[str, Any]:
    """Coverage of the whole function, and width."""
    held, half, error = drawn["found"].T
    without = float(np.sqrt(np.log(2 / ALPHA) / (2 * design.n)))
    return {"coverage": held.mean(), "half width": half.mean(), "DKW": without, "over DKW": half.mean() / without,
            "over the errors' quantile": half.mean() / np.quantile(error, 1 - ALPHA)}  # fmt: skip


def largest_gap(design: Design, seed: int) -> float:
    """Largest relative difference between these half widths and the library's."""
    path, rng = design.fast(), np.random.default_rng([seed, design.n, 7])
    counts = nodes_of(leaf_counts(design.source.shares(path.rows), design.n, COMPARED, rng), path.rows)
    gaps = []
    for nodes in counts + path.noise(COMPARED, rng):
        tree = path.fit(nodes)
        right = simultaneous_width(tree, ALPHA, replicates=DRAWS, seed=SEED)
        gaps.append(abs(Bands.of(tree).half(tree) / right - 1))
    return max(gaps)


def claims(table: pd.DataFrame, options: Options) -> list[Claim]:
    """State the width, and that bands are the library's."""
    gap = max(largest_gap(one, options.seed) for one in DESIGNS[: 2 if options.quick else None])
    large = table.loc[table["n"].idxmax()]
    return [
        Claim("half width of the band over Dvoretzky-Kiefer-Wolfowitz without privacy",
              f"{large['population']}, n = {large['n']:,}, {large['price']}",
              f"{large['over DKW']:.3f}; {table['over DKW'].min():.2f} to {table['over DKW'].max():.2f} elsewhere",
              large["over DKW"] <= 1.1 or options.quick, published="1 without privacy"),
        Claim("bands computed here against simultaneous_width: largest relative difference", f"{len(table)} designs",
              f"{gap:.1e}", gap < 1e-9),
    ]  # fmt: skip


STUDY = Study(
    "cdf_band", DESIGNS, draw, summary,
    (Rule("least coverage of whole distribution functions by 95% bands", "coverage"),),
    quick=2, axes=lambda design: {"population": design.source.name, "n": design.n, "price": str(design.price),
                         "neighbors": design.neighbors},
    figure=scatter("n", {"coverage": 0.95, "over DKW": 1.0}, ["population", "price"]), also=claims,
    notes=(f"95% bands, at every edge of {LEAVES:,} leaves (whole numbers: one to a leaf); {DRAWS} simulated draws "
           f"with public seed {SEED}, as by default. DKW: the band without privacy, sqrt(ln(2 / .05) / (2 n)). The "
           f"errors' quantile: 95% "
           "of the largest error in these replicates.",),
)  # fmt: skip
