"""Size of the chi-squared tests on noisy counts: uniform cells, cells of two rows, cells that hold nearly all."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

import dpinfer as dpi
from dpinfer.tables.chi_squared_inference import STATISTICS, GoodnessOfFit, Homogeneity, Independence
from validation.common.leaves import DRAWS, LEVELS, beyond_of, noise_at, rows_by_level, size_rules
from validation.common.outputs import scatter
from validation.common.study import Drawn, Study

Model = GoodnessOfFit | Independence | Homogeneity

WIDTHS = (2, 4, 10, 50)
SHAPES = ((2, 2), (3, 4), (5, 5))
SIZES = (100, 1000, 10_000, 100_000)
PRICES = (dpi.ZCDP(0.00125), dpi.ZCDP(0.05), dpi.ZCDP(0.5), dpi.PureDP(0.1), dpi.PureDP(1.0))
NEIGHBORS = ("replace_one", "add_remove")
UNIFORM, RARE, DOMINANT = "uniform", "one of expectation 2", "margins of .98"
LARGEST = 0.98
LEAST = 2.0
"""Expected count of the smallest cell of an uneven design."""
SHARED = 10
"""Replicates that share simulated releases where the hypothesis leaves nothing open: their law is one."""
_AT_ONCE = 400_000


@dataclass(frozen=True)
class Design:
    """One cell of the grid; ``shape`` of one axis is a goodness of fit."""

    test: str
    shape: tuple[int, ...]
    cells: str
    n: int
    price: object
    neighbors: str

    @property
    def shares(self) -> list[np.ndarray]:
        """Shares of the levels of every axis."""
        if self.cells == DOMINANT:
            return [np.append(LARGEST, np.full(levels - 1, (1 - LARGEST) / (levels - 1))) for levels in self.shape]
        least = LEAST / self.n if len(self.shape) == 1 else (LEAST / self.n) ** 0.5
        found = []
        for levels in self.shape:
            last = 1 / levels if self.cells == UNIFORM else min(least, 1 / levels)
            found.append(np.append(np.full(levels - 1, (1 - last) / (levels - 1)), last))
        return found

    def model(self, kind: str) -> Model:
        """The test; the number of rows is public under replace_one."""
        public = self.n if self.neighbors == "replace_one" else None
        if self.test == "goodness of fit":
            return GoodnessOfFit(self.shares[0], noise_at(self.price, self.neighbors), public, kind)
        if self.test == "independence":
            return Independence(self.shape, noise_at(self.price, self.neighbors), public, kind)  # type: ignore[arg-type]
        return Homogeneity(self.shape, noise_at(self.price, self.neighbors), None, kind)  # type: ignore[arg-type]


def grid() -> list[Design]:
    """Every design: both relations of two levels and of margins of .98, in turns elsewhere."""
    shapes: list[tuple[str, tuple[int, ...]]] = [("goodness of fit", (d,)) for d in WIDTHS]
    shapes += [("independence", shape) for shape in SHAPES]
    designs = [
        Design(test, shape, cells, n, price, neighbors)
        for place, ((test, shape), cells, n, price) in enumerate(product(shapes, (UNIFORM, RARE), SIZES, PRICES))
        for neighbors in (NEIGHBORS if shape == WIDTHS[:1] else NEIGHBORS[place % 2 :][:1])
    ]
    designs += [
        Design("independence", shape, DOMINANT, n, price, neighbors)
        for shape, n, price, neighbors in product(SHAPES, SIZES[:3], PRICES, NEIGHBORS)
    ]
    designs += [
        Design("independence", (2, 20), DOMINANT, n, price, NEIGHBORS[1]) for n, price in product(SIZES[1:3], PRICES)
    ]
    return designs + [
        Design("homogeneity", shape, cells, n, price, NEIGHBORS[0])
        for (shape, cells), n, price in product(
            (((2, 2), UNIFORM), ((2, 2), RARE), ((2, 5), DOMINANT)), SIZES[:3], PRICES
        )
    ]


def draw_truth(design: Design, size: int, rng: np.random.Generator) -> np.ndarray:
    """Noisy tables of a population in which the hypothesis holds; in homogeneity the sizes of samples are fixed."""
    if design.test == "homogeneity":
        sizes = np.maximum(np.rint(design.n * design.shares[0]), 1).astype(int)
        counts = rng.multinomial(np.tile(sizes, (size, 1)), design.shares[1]).reshape(size, -1)
    else:
        cells = design.shares[0] if len(design.shape) == 1 else np.outer(*design.shares).ravel()
        counts = rng.multinomial(design.n, cells, size=size)
    return counts + noise_at(design.price, design.neighbors).rvs(counts.shape, rng)


def draw(design: Design, rng: np.random.Generator, replicates: int) -> Drawn:
    """P-values of both statistics, from the same releases."""
    models = {kind: design.model(kind) for kind in STATISTICS}
    found: dict[str, list[np.ndarray]] = {kind: [] for kind in STATISTICS}
    simple = isinstance(models[STATISTICS[0]], GoodnessOfFit) and design.neighbors == "replace_one"
    most = max(_AT_ONCE // (DRAWS * int(np.prod(design.shape))), 1) * SHARED
    for start in range(0, replicates, most):
        values = draw_truth(design, min(most, replicates - start), rng)
        if simple:
            beyond = shared_beyond(models, values, rng)
        else:
            beyond = {kind: beyond_of(one, values, rng) for kind, one in models.items()}
        for kind, counts in beyond.items():
            found[kind].append((1 + counts) / (DRAWS + 1))
    return {kind: np.concatenate(parts) for kind, parts in found.items()}


def shared_beyond(models: dict[str, Model], values: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Number of draws beyond each statistic, `SHARED` replicates together, where the law is one and the same."""
    model = models[STATISTICS[0]]
    drawn = model.draw(model.fit(values[::SHARED]), DRAWS, rng)
    statistics = {kind: np.repeat(one.statistic(drawn), SHARED, axis=0)[: len(values)] for kind, one in models.items()}
    return {kind: reaches(statistics[kind], one.statistic(values)).sum(axis=1) for kind, one in models.items()}


def reaches(drawn: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Whether drawn statistics (R, B) are at least as large as the observed ones (R,), ties included."""
    return drawn >= observed[:, None] * (1 - 1e-9)


def summary(_: Design, drawn: Drawn) -> list[dict]:
    """A row per statistic and level."""
    return [{"statistic": kind, **row} for kind, pvalues in drawn.items() for row in rows_by_level(pvalues)]


STUDY = Study(
    "chisquare_size", grid, draw, summary,
    size_rules("largest size at {level:g}: {{part}}", "d 2 to 50, n 100 to 100,000", split="test", long=True),
    axes=lambda design: {"test": design.test, "levels": "x".join(map(str, design.shape)), "cells": design.cells,
                         "n": design.n, "price": str(design.price), "neighbors": design.neighbors},
    by=("statistic",), quick=12,
    figure=lambda table: scatter("n", {"size": LEVELS[0]}, ["test", "statistic"])(table[table["level"] == LEVELS[0]]),
    notes=(
        f"{DRAWS} simulated releases behind each p-value. Goodness of fit with a public n: {SHARED} replicates share "
        "their simulated releases, which are of one law.",
        "n is public under replace_one, and noisy under add_remove; in homogeneity the sizes of the samples are fixed "
        "and known through the noisy table alone.",
    ),
)  # fmt: skip
