"""Populations and questions of the studies of log-linear models."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import dpinfer as dpi
from dpinfer.tables.loglinear import LogLinear, cells_of_table
from dpinfer.tables.loglinear_fit import LogLinearModel, NoisyCells


def independent(*margins: list[float]) -> np.ndarray:
    """Shares of the cells of independent factors."""
    found = np.ones(1)
    for margin in margins:
        found = np.multiply.outer(found, np.array(margin))
    return found.ravel()


def dependent(shares: np.ndarray, shape: tuple[int, ...], strength: float) -> np.ndarray:
    """Shares with every two neighbouring factors, and the first three together, made to depend on each other."""
    places = np.stack(np.unravel_index(np.arange(shares.size), shape))
    scores = places - places.mean(axis=1, keepdims=True)
    together = scores[0] * scores[1] if len(shape) == 2 else scores[0] * scores[1] + np.prod(scores, axis=0)
    found = shares * np.exp(strength * together)
    return found / found.sum()


@dataclass(frozen=True, eq=False)
class Design:
    """A population, and a model of it.

    Attributes
    ----------
    name : str
    shape : tuple of int
    shares : ndarray (d,)
    formula : str
    scores : bool
        Whether the factors are whole numbers.
    """

    name: str
    shape: tuple[int, ...]
    shares: np.ndarray
    formula: str
    scores: bool = False

    def schema(self, neighbors: str) -> dpi.Schema:
        """The factors; with constants for missing cells where the number of rows is to be public."""
        columns: dict[str, Any] = {}
        for name, size in zip("abc", self.shape, strict=False):
            levels = [f"{name}{place}" for place in range(size)]
            first = {"missing": 0, "impossible": 0} if self.scores else {"missing": levels[0], "impossible": levels[0]}
            given = first if neighbors == "replace_one" else {}
            columns[name] = dpi.Integer(0, size - 1, **given) if self.scores else dpi.Category(levels, **given)
        return dpi.Schema(columns)

    @cached_property
    def question(self) -> LogLinear:
        """The model."""
        return dpi.loglinear(self.formula)

    def cells(self, n: int, price: Any, neighbors: str, counts: np.ndarray | None, seed: Any) -> NoisyCells:
        """Noisy tables (R, d) at a price, of exact counts (R, d); without noise where there are none."""
        schema = self.schema(neighbors)
        measured = self.question.measurement(price, schema=schema, neighbors=neighbors)  # type: ignore[arg-type]
        plan, steps = self.question.plan(schema), list(measured.steps)
        nobs = n if neighbors == "replace_one" else None
        exact = n * self.shares[None] if counts is None else counts
        found = cells_of_table(plan, exact.astype(float), measured.law, steps, None, nobs)
        if counts is not None:
            found.values[:] += found.noise.rvs(counts.shape, np.random.default_rng(seed))
        return found

    def model(
        self, cells: NoisyCells, formula: str | None = None
    ) -> tuple[LogLinearModel, np.ndarray, tuple[str, ...]]:
        """The model of noisy tables, their counts, and the names of its coefficients."""
        design, rows = cells.table.design(formula or self.formula)
        included = np.ones(len(rows), dtype=bool)
        return (*cells.model(rows, included, population=True, robust=True), design.names)


THREE = (2, 3, 2)
EVEN = independent([0.5, 0.5], [0.4, 0.3, 0.3], [0.6, 0.4])
RARE = independent([0.9, 0.1], [0.8, 0.15, 0.05], [0.5, 0.5])
PEAK = independent([0.97, 0.03], [0.98, 0.01, 0.01], [0.95, 0.05])
SCORES = independent([0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4])
