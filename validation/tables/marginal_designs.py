"""Populations, prices and releases of marginals that the scripts of this folder draw, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa

import dpinfer as dpi
from dpinfer.kernel.measurement import Measurement
from dpinfer.kernel.rows.marginals import MarginalSum, margin_of
from dpinfer.kernel.stage import Context
from dpinfer.statistics.inference import Released
from dpinfer.tables.marginal_inference import CenteredMargins, centered_margins

RELATIONS = ("add_remove", "replace_one")

_LITTLE = dpi.PureDP(0.2), dpi.ZCDP(0.002), dpi.GDP(0.06), dpi.ApproxDP(0.3, 1e-6)
_MUCH = dpi.PureDP(3.0), dpi.ZCDP(0.5), dpi.GDP(1.0), dpi.ApproxDP(4.0, 1e-6)
_MEASURES = ("pure", "zcdp", "gdp", "approx")
PRICES = {
    amount: dict(zip(_MEASURES, prices, strict=True)) for amount, prices in (("little", _LITTLE), ("much", _MUCH))
}
"""Of each measure a price at which noise outweighs sampling, and one at which it does not."""


@dataclass(frozen=True, eq=False)
class Population:
    """Probabilities of the cells of a whole table.

    Attributes
    ----------
    name : str
    cells : ndarray
        One axis for each column; of sum 1.
    workload : tuple of tuple of str
    objective : str
    """

    name: str
    cells: np.ndarray
    workload: tuple[tuple[str, ...], ...]
    objective: str = "sum"

    @property
    def shape(self) -> tuple[int, ...]:
        """Levels of every column."""
        return self.cells.shape

    def schema(self, neighbors: str) -> dpi.Schema:
        """Declare the columns; under replace_one every row counts, so that their number is public."""
        policy: dict[str, Any] = {"missing": 0, "impossible": 0} if neighbors == "replace_one" else {}
        names = "abcdefgh"[: len(self.shape)]
        return dpi.Schema({name: dpi.Integer(0, m - 1, **policy) for name, m in zip(names, self.shape, strict=True)})

    def question(self, **options: Any) -> Any:
        """Ask for the marginals."""
        return dpi.marginals(self.workload, objective=self.objective, **options)


@dataclass(frozen=True, eq=False)
class Releases:
    """R releases of marginals of samples from a population.

    Attributes
    ----------
    population : Population
    measured : Measurement
    n : int
    counts : ndarray (R, cells)
        Of the whole table.
    noisy : Released
    nobs : int or None
    """

    population: Population
    measured: Measurement
    n: int
    counts: np.ndarray
    noisy: Released
    nobs: int | None

    @cached_property
    def found(self) -> CenteredMargins:
        """What they tell."""
        return centered_margins(self.noisy)

    def true(self, subset: Sequence[int]) -> np.ndarray:
        """Noise-free counts of a marginal (R, cells); its columns in order."""
        whole = tuple(range(len(self.population.shape)))
        return margin_of(self.counts, whole, tuple(subset), self.population.shape)

    def expected(self, subset: Sequence[int]) -> np.ndarray:
        """Expected counts of a marginal (cells,)."""
        whole = tuple(range(len(self.population.shape)))
        return self.n * margin_of(self.population.cells.reshape(1, -1), whole, tuple(subset), self.population.shape)[0]


def releases_of(
    population: Population, privacy: Any, neighbors: str, n: int, replicates: int, rng: np.random.Generator
) -> Releases:
    """Draw samples, their marginals, and noise."""
    schema = population.schema(neighbors)
    measured = population.question().measurement(privacy, schema=schema, neighbors=neighbors)
    rows: MarginalSum = measured.rows
    size = rng.poisson(n, replicates) if neighbors == "add_remove" else np.full(replicates, n)
    counts = rng.multinomial(size, population.cells.ravel()).astype(np.float64)
    whole = tuple(range(len(population.shape)))
    blocks = [margin_of(counts, whole, block, population.shape) for block in rows.blocks]
    sums = rows.finish_sets(np.concatenate(blocks, axis=1))
    sums = sums + measured.law.rvs(replicates, rng) * np.asarray(measured.steps)
    nobs = n if neighbors == "replace_one" else None
    context = Context(schema, neighbors, privacy, nobs)  # type: ignore[arg-type]
    noisy = Released(context, rows, measured.names, measured.law, np.asarray(measured.steps), sums)
    return Releases(population, measured, n, counts, noisy, nobs)


def populations() -> list[Population]:
    """Rare and empty cells, strong dependence, many levels, binary columns, levels of unequal numbers."""
    rng = np.random.default_rng(11)
    pairs = [(0, 1), (1, 2), (0, 2)]
    named = tuple(tuple("abcdefgh"[i] for i in pair) for pair in pairs)
    rare = np.array([0.9, 0.06, 0.03, 0.009, 0.001])
    even = np.full((3, 4, 2), 1 / 24)
    empty = rng.dirichlet(np.full(3 * 4 * 5, 0.1)).reshape(3, 4, 5)
    empty[empty < 0.02] = 0.0
    linked = np.zeros((4, 4, 4))
    linked[np.arange(4), np.arange(4), np.arange(4)] = 0.95 * np.array([0.7, 0.2, 0.08, 0.02])
    linked += 0.05 / linked.size
    product = np.einsum("i,j,k->ijk", rare, rare, np.array([0.5, 0.5]))
    binary = rng.dirichlet(np.full(2**5, 0.5)).reshape((2,) * 5)
    all_pairs = tuple((a, b) for i, a in enumerate("abcde") for b in "abcde"[i + 1 :])
    wide = np.einsum("i,j,k->ijk", rng.dirichlet(np.ones(12)), rng.dirichlet(np.ones(2)), rng.dirichlet(np.ones(3)))
    found = [
        Population("even", even, named),
        Population("empty cells", empty / empty.sum(), named),
        Population("strong dependence", linked / linked.sum(), named),
        Population("rare levels", product, named),
        Population("five binary columns", binary, all_pairs),
        Population("unequal numbers of levels", wide, (("a", "b"), ("b", "c"), ("a",)), "max"),
        Population("one three-way marginal", empty / empty.sum(), (("a", "b", "c"), ("c",)), "max"),
    ]
    assert all(abs(one.cells.sum() - 1) < 1e-9 and prod(one.shape) < 500 for one in found)
    return found


def named(design: tuple[Population, str, str, str, int]) -> dict[str, Any]:
    """Return the columns that name a design of a grid."""
    return dict(zip(("design", "amount", "measure", "neighbors", "n"), (design[0].name, *design[1:]), strict=True))


# Ten columns on disk, whose marginals are timed

LEVELS = (2, 3, 4, 5, 6, 8, 8, 8, 10, 10)
"""Of ten columns: five of text and five of whole numbers, in turn; 184 million cells."""

TEN_COLUMNS = dpi.Schema(
    {
        f"c{place}": dpi.Integer(0, m - 1) if place % 2 else dpi.Category([f"level {level}" for level in range(m)])
        for place, m in enumerate(LEVELS)
    }
)
WORKLOADS = {
    "45 pairs of ten columns": dpi.workload(list(TEN_COLUMNS)),
    "one pair": dpi.workload(list(TEN_COLUMNS)[:2]),
    "120 triples of ten columns": dpi.workload(list(TEN_COLUMNS), ways=3),
}


def ten_columns(rows: int, rng: np.random.Generator, _: int) -> pa.Table:
    """Return rows of the ten columns, alike in probability at every level."""
    cells: dict[str, Any] = {}
    for place, m in enumerate(LEVELS):
        codes = rng.integers(0, m, rows)
        labels = np.array([f"level {level}" for level in range(m)])
        cells[f"c{place}"] = codes.astype(np.int32) if place % 2 else labels[codes]
    return pa.table(cells)
