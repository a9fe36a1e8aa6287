"""Populations whose quantiles are asked for, and a direct path to their trees, for the scripts on quantiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import isotonic_regression

import dpinfer as dpi
from dpinfer.distributions.tree import Tree, fit_tree
from dpinfer.kernel.measurement import Measurement
from dpinfer.kernel.rows.tree import TreeSum
from validation.common.real import COLUMNS

Function = Callable[[np.ndarray], np.ndarray]


MANY = 3000
"""Rows from which leaves are counted by one multinomial draw and not row by row; both have the same law."""


@dataclass(frozen=True, eq=False)
class Population:
    """One column, and what it is declared to be.

    Attributes
    ----------
    name, bounds : str
    lower, upper : float
        Declared bounds, to which values are clamped.
    inverse : callable
        Smallest value at which the distribution function reaches a probability, before clamping and rounding.
    below : callable, optional
        Distribution function of a variable with a density.
    atoms : tuple of ndarray (k,), optional
        The values of a discrete variable, rising, and their probabilities.
    whole : bool
        Whether the column is declared Integer; a variable with a density is then rounded.
    resolution : int or str
        Leaves that are asked for.
    """

    name: str
    bounds: str
    lower: float
    upper: float
    inverse: Function
    below: Function | None = None
    atoms: tuple[np.ndarray, np.ndarray] | None = None
    whole: bool = False
    resolution: int | str = "auto"

    @property
    def continuous(self) -> bool:
        """Whether the values that are declared have a density."""
        return self.atoms is None and not self.whole

    def schema(self, neighbors: str) -> dpi.Schema:
        """One column x; under replace_one missing cells have a declared value, so that n is public."""
        value = int(self.lower) if self.whole else self.lower
        policy: dict[str, Any] = {"missing": value, "impossible": value} if neighbors == "replace_one" else {}
        if self.whole:
            return dpi.Schema(x=dpi.Integer(int(self.lower), int(self.upper), **policy))
        return dpi.Schema(x=dpi.Real(self.lower, self.upper, **policy))

    def quantile(self, probability: np.ndarray | float) -> np.ndarray:
        """Quantiles of the clamped population."""
        found = self.inverse(np.asarray(probability, dtype=np.float64))
        return np.clip(np.rint(found) if self.whole else found, self.lower, self.upper)

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw n values within the bounds."""
        return self.quantile(rng.random(n))

    def slope(self, probability: np.ndarray) -> np.ndarray:
        """Change of the quantile with its probability: one over the density."""
        step = 1e-4 * np.minimum(probability, 1 - probability)
        return np.asarray((self.inverse(probability + step) - self.inverse(probability - step)) / (2 * step))

    def shares(self, rows: TreeSum) -> np.ndarray:
        """Probability of every leaf within the bounds (m,)."""
        edges = np.asarray(rows.edges)
        if self.atoms is not None:
            values, masses = self.atoms
            return np.bincount(places(rows, np.clip(values, self.lower, self.upper)), masses, len(edges) - 1)
        assert self.below is not None
        return np.diff(np.concatenate([[0.0], self.below(edges[1:-1]), [1.0]]))


def places(rows: TreeSum, values: np.ndarray) -> np.ndarray:
    """Leaf of every value, by the library's own rule."""
    return np.asarray(rows.cells.axes[-1].place({"x": np.asarray(values, dtype=np.float64)}))


def discrete(
    name: str, bounds: str, lower: float, upper: float, values: np.ndarray, masses: np.ndarray, *, whole: bool
) -> Population:
    """A variable with finitely many values."""
    reached = np.cumsum(masses) / np.sum(masses)

    def inverse(probability: np.ndarray) -> np.ndarray:
        return np.asarray(values[np.minimum(np.searchsorted(reached, probability), len(values) - 1)])

    return Population(name, bounds, lower, upper, inverse, atoms=(values, masses / np.sum(masses)), whole=whole)


def smooth(name: str, bounds: str, lower: float, upper: float, law: Any, *, whole: bool = False) -> Population:
    """A variable with the law of scipy's."""
    return Population(name, bounds, lower, upper, law.ppf, below=law.cdf, whole=whole)


class Lumps:
    """Two uniform lumps of half the rows each, [.1, .4] and [.6, .9]: any value of the gap is a median."""

    @staticmethod
    def ppf(probability: np.ndarray) -> np.ndarray:
        return np.where(probability <= 0.5, 0.1 + 0.6 * probability, 0.3 + 0.6 * probability)

    @staticmethod
    def cdf(values: np.ndarray) -> np.ndarray:
        return 0.5 * (np.clip((values - 0.1) / 0.3, 0, 1) + np.clip((values - 0.6) / 0.3, 0, 1))


TIGHT, WIDE = "tight", "10 times too wide"
_COUNTS = np.arange(60)
_TWENTY = np.round(np.cumsum(np.linspace(0.02, 0.08, 20)), 3) - 0.01  # from .01 to .99, closer and closer together
_HEAVY = np.tile([4.0, 1.0, 2.0, 1.0], 5)
_CENTS = np.round(np.arange(-500, 501) * 0.01, 2)
_HUNDREDS = np.arange(0, 500_001, 100.0)
_INCOMES = np.diff(stats.lognorm(0.8, scale=20_000).cdf(np.concatenate([[0], _HUNDREDS[:-1] + 50, [np.inf]])))
_YEARS = np.arange(116.0)
_AGES = stats.norm(38, 16).pdf(_YEARS) + 0.5 * stats.norm(68, 9).pdf(_YEARS)

POPULATIONS = (
    smooth("normal", TIGHT, -4, 4, stats.norm()),
    smooth("normal", WIDE, -40, 40, stats.norm()),
    smooth("lognormal", TIGHT, 0, 20, stats.lognorm(1)),
    smooth("lognormal", WIDE, 0, 200, stats.lognorm(1)),
    smooth("Pareto 1.5, 1.1% clipped", TIGHT, 0, 20, stats.pareto(1.5)),
    smooth("Pareto 1.5", WIDE, 0, 200, stats.pareto(1.5)),
    smooth("two lumps", TIGHT, 0, 1, Lumps),
    smooth("two lumps", WIDE, 0, 10, Lumps),
    discrete("20 values", TIGHT, 0, 1, _TWENTY, _HEAVY, whole=False),
    discrete("20 values", WIDE, 0, 10, _TWENTY, _HEAVY, whole=False),
    discrete("normal, 2 decimals", WIDE, -40, 40, _CENTS, stats.norm.pdf(_CENTS), whole=False),
    discrete("ages in years, Real", TIGHT, 0, 115, _YEARS, _AGES, whole=False),
    discrete("Poisson 2, Integer", TIGHT, 0, 15, _COUNTS, stats.poisson(2).pmf(_COUNTS), whole=True),
    discrete("Poisson 2, Integer", WIDE, 0, 150, _COUNTS, stats.poisson(2).pmf(_COUNTS), whole=True),
    smooth("incomes, whole", TIGHT, 0, 200_000, stats.lognorm(0.8, scale=20_000), whole=True),
    discrete("incomes in hundreds, Real", TIGHT, 0, 500_000, _HUNDREDS, _INCOMES, whole=False),
    replace(discrete("0 to 99, Real, 64 leaves", TIGHT, 0, 100, np.arange(100.0), np.ones(100), whole=False),
            resolution=64),
)  # fmt: skip


REAL = ("fair: affairs", "randhie: mdvis", "apple: ecolbs", "star98: PCTCHRT", "smoke: income", "injury: durat",
        "htv: wage", "pension: wealth89", "anes96: TVnews", "gpa2: sat", "vote1: expendA")  # fmt: skip


@cache
def populations() -> tuple[Population, ...]:
    """All populations, after those of `POPULATIONS` the real columns `REAL`."""
    return (*POPULATIONS, *map(_real, REAL))


def _real(name: str) -> Population:
    rows = COLUMNS[name]
    declared = rows.schema("add_remove")[rows.columns[0]]
    whole = isinstance(declared, dpi.Integer)
    return discrete(name, "codebook", declared.lower, declared.upper, *rows.atoms(), whole=whole)


@dataclass(frozen=True, eq=False)
class KnownTree(Tree):
    """A tree whose noise variances are looked up: they are the same in every replicate."""

    known: dict[tuple[float, ...], np.ndarray] = field(default_factory=dict)

    def noise_variance(self, probability: float | np.ndarray) -> np.ndarray:
        """See `Tree.noise_variance`."""
        key = tuple(np.ravel(probability).tolist())
        if key not in self.known:
            self.known[key] = super().noise_variance(probability)
        return self.known[key]


@dataclass(frozen=True, eq=False)
class Fast:
    """Trees of one measurement without data frames, releases or ledgers.

    Attributes
    ----------
    measurement : Measurement
        Of a tree without groups.
    """

    measurement: Measurement
    known: dict[tuple[float, ...], np.ndarray] = field(default_factory=dict)

    @property
    def rows(self) -> TreeSum:
        """The tree's row function."""
        found: Any = self.measurement.rows
        return getattr(found, "tree", found)

    @cached_property
    def edges(self) -> np.ndarray:
        return np.asarray(self.rows.edges)

    @cached_property
    def variances(self) -> np.ndarray:
        """Noise variance of the counts of each level, as a release reports it (L + 1,)."""
        law, step = self.measurement.law, self.measurement.steps[0]
        return (law.variances * step**2)[[2**level - 1 for level in range(self.rows.depth + 1)]]

    def noise(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Noise on all nodes, in rows (size, 2 m - 1)."""
        return self.measurement.law.rvs(size, rng) * self.measurement.steps[0]

    @cached_property
    def empty(self) -> KnownTree:
        """The tree of no rows and no noise, for its noise variances."""
        return self.fit(np.zeros(self.rows.width))

    def fit(self, nodes: np.ndarray) -> KnownTree:
        """Make noisy counts (2 m - 1,) consistent."""
        found = fit_tree(nodes, self.variances, self.edges)
        return KnownTree(found.edges, found.leaves, found.total, found.precisions, self.known)


def nodes_of(leaves: np.ndarray, rows: TreeSum) -> np.ndarray:
    """Counts of all nodes from the root down (R, 2 m - 1), from those of the leaves within the bounds (R, held)."""
    full = np.zeros((len(leaves), rows.leaves))
    full[:, : leaves.shape[1]] = leaves
    levels = [full]
    while levels[-1].shape[1] > 1:
        levels.append(levels[-1][:, ::2] + levels[-1][:, 1::2])
    return np.concatenate(levels[::-1], axis=1)


def fitted(path: Fast, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`fit_tree` and `Tree.cumulative` for many trees at once, in the same order of additions.

    Parameters
    ----------
    path : Fast
    nodes : ndarray (R, 2 m - 1)
        Noisy counts.

    Returns
    -------
    cumulative : ndarray (R, held + 1)
    totals : ndarray (R,)
    """
    weights = np.where(path.variances > 0, 1 / np.where(path.variances > 0, path.variances, 1.0), 0.0)
    precisions = path.empty.precisions
    pooled = nodes[:, :1] * weights[0]
    for k, weight in enumerate(weights[1:], 1):
        pooled = np.repeat(pooled, 2, axis=1) + nodes[:, 2**k - 1 : 2 ** (k + 1) - 1] * weight
    differences, sums = [], pooled
    for precision in precisions[1:]:
        left, right = sums[:, ::2], sums[:, 1::2]
        differences.append((left - right) / precision)
        sums = left + right
    found = nodes[:, :1] if path.variances[0] == 0 else sums / precisions[0]
    for difference in reversed(differences):
        found = np.stack([(found + difference) / 2, (found - difference) / 2], axis=2).reshape(len(nodes), -1)
    totals = nodes[:, 0] if path.variances[0] == 0 else found.sum(axis=1)
    raw = np.cumsum(found[:, : len(path.edges) - 1], axis=1)
    cumulative = np.zeros((len(nodes), len(path.edges)))
    for place, row in enumerate(raw):
        cumulative[place, 1:-1] = isotonic_regression(row[:-1]).x
    top = np.maximum(totals, 0.0)
    cumulative[:, 1:-1] = np.clip(cumulative[:, 1:-1], 0.0, top[:, None])
    cumulative[:, -1] = top
    return cumulative, totals


def leaf_counts(shares: np.ndarray, n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """How many of n rows are in each leaf, for ``size`` samples (size, m)."""
    if n > MANY:
        return rng.multinomial(n, shares, size=size)
    reached = np.cumsum(shares)
    reached[-1] = 1.0
    drawn = np.searchsorted(reached, rng.random((size, n)), side="right")
    return np.stack([np.bincount(one, minlength=len(shares)) for one in drawn])
