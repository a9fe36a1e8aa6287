"""Populations of survival times in the cells of a life table: made up, and real rows that are resampled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

import dpinfer as dpi
from dpinfer.duration.results import SurvivalResults
from dpinfer.statistics.noise import CountNoise
from validation.common.real import rows_of

FEW = 20
"""Rows of the small group of a made-up population, on average, whatever the number of all."""

PRICES = (dpi.ZCDP(0.5), dpi.ZCDP(0.05), dpi.PureDP(1.0))
SIZES = (1_000, 5_000, 50_000)

MADE = ("steady", "steep", "censored", "many intervals")
REAL = {"recid": ("durat", "person", np.arange(6.0, 79.0, 6.0)), "heart": ("survival", "old", np.arange(150.0, 1801.0, 150.0))}  # fmt: skip  # noqa: E501
"""Real rows: time, group and ends of the intervals."""


@dataclass(frozen=True)
class Population:
    """Groups with their shares of the rows, and of each the probabilities of its cells (G, J, 2), censored first."""

    names: tuple[str, ...]
    shares: np.ndarray
    cells: np.ndarray
    times: np.ndarray

    @property
    def survival(self) -> np.ndarray:
        """Survival (G, K): what the product-limit estimates converge to."""
        later = self.cells.sum(axis=2)[:, ::-1].cumsum(axis=1)[:, ::-1][:, : len(self.times)]
        hazards = self.cells[:, : len(self.times), 1] / np.where(later > 0, later, 1.0)
        return np.cumprod(1 - hazards, axis=1)

    def counts(self, rng: np.random.Generator, n: int, size: int) -> np.ndarray:
        """Draw counts (size, G, J, 2) of n rows each."""
        flat = (self.shares[:, None, None] * self.cells).ravel()
        return rng.multinomial(n, flat / flat.sum(), size).reshape(size, *self.cells.shape).astype(float)


def cells_of(hazards: np.ndarray, censored: np.ndarray) -> np.ndarray:
    """Probabilities (K + 1, 2) of the cells of a group; hazards of censoring are of those without an event."""
    staying = np.cumprod((1 - hazards) * (1 - censored))
    before = np.concatenate([[1.0], staying[:-1]])
    cells = np.stack([before * (1 - hazards) * censored, before * hazards], axis=1)
    return np.vstack([cells, [staying[-1], 0.0]])


@cache
def population(name: str, n: int, *, alike: bool = False) -> Population:
    """Return a population; the small group of a made-up one has `FEW` of n rows; ``alike`` is of equal hazards."""
    if name in REAL:
        return resampled(name)
    intervals = 40 if name == "many intervals" else 12
    at = np.arange(1, intervals + 1) / intervals
    hazards, lost = {
        "steady": (np.full(intervals, 0.08), np.full(intervals, 0.06)),
        "steep": (np.full(intervals, 0.3), np.full(intervals, 0.02)),
        "censored": (np.full(intervals, 0.02), np.full(intervals, 0.15)),
        "many intervals": (0.04 * np.sin(np.pi * at) ** 2, np.where(at > 0.6, 0.08, 0.0)),
    }[name]
    times = np.array([1.0, 1.0, 1.0] if alike else [1.0, 0.6, 1.4])
    leaving = (1.0, 1.5, 0.5)
    groups = [cells_of(time * hazards, leave * lost) for time, leave in zip(times, leaving, strict=True)]
    shares = np.array([0.6, 0.4 - FEW / n, FEW / n])
    return Population(("large", "middle", f"{FEW} rows"), shares, np.stack(groups), np.arange(1.0, intervals + 1))


def resampled(name: str) -> Population:
    """Return real rows as a population: 1,445 prison releases until a return, or 69 heart transplants until death."""
    import statsmodels.api as sm  # noqa: PLC0415

    time, group, ends = REAL[name]
    if name == "recid":
        rows = rows_of(name)
        rows = rows.assign(event=rows["cens"] == 0)
    else:
        rows = sm.datasets.heart.load_pandas().data
        rows = rows.assign(event=rows["censors"] == 1, old=(rows["age"] > 48).astype(int))
    place = np.searchsorted(ends, rows[time].to_numpy())
    cells = np.zeros((2, len(ends) + 1, 2))
    np.add.at(cells, (rows[group].to_numpy(dtype=int), place, rows["event"].to_numpy(dtype=int)), 1.0)
    cells[:, -1] = np.stack([cells[:, -1].sum(axis=1), np.zeros(2)], axis=1)
    sizes = cells.sum(axis=(1, 2))
    names = tuple(f"{group}={k} ({size:,.0f} of {sizes.sum():,.0f})" for k, size in enumerate(sizes))
    return Population(names, sizes / sizes.sum(), cells / sizes[:, None, None], ends)


def noisy(counts: np.ndarray, noise: CountNoise, rng: np.random.Generator) -> np.ndarray:
    """Add noise to counts."""
    return counts + noise.rvs(counts.shape, rng)


class Many(SurvivalResults):
    """Results of many releases at once, each a group."""

    @property
    def _index(self) -> pd.MultiIndex:
        return pd.MultiIndex.from_arrays([np.arange(len(self.tables.beyond))], names=["release"])
