"""Noise of the counts of a table, each a mixture of independent noise variables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.combination import CombinedNoise

if TYPE_CHECKING:
    from dpinfer.inference.testing.count_noise import CountNoise
    from dpinfer.numerics.arrays import Array, Mask

__all__ = ["CellNoise"]


@dataclass(frozen=True, eq=False)
class CellNoise:
    """Noise of d counts: ``mixing @ z`` with z independent, of m variables.

    Attributes
    ----------
    law : CountNoise or CombinedNoise
        Of z: of one law, or of several releases.
    cells : int
        d.
    mixing : ndarray (d, m) or None
        None where every count has a variable of its own.
    """

    law: CountNoise | CombinedNoise
    cells: int
    mixing: Array | None = None

    @cached_property
    def variances(self) -> Array:
        """Variance of every variable (m,)."""
        if isinstance(self.law, CombinedNoise):
            return self.law.variances
        return np.full(self._width, self.law.variance)

    @cached_property
    def fourth_cumulants(self) -> Array:
        """Fourth cumulant of every variable (m,)."""
        if isinstance(self.law, CombinedNoise):
            draws = self.law.draws
            return np.where(draws > 0, 3.0 * self.variances**2 / np.maximum(draws, 1), 0.0)
        return np.full(self._width, self.law.fourth_cumulant)

    @property
    def _width(self) -> int:
        return self.cells if self.mixing is None else self.mixing.shape[1]

    @property
    def is_normal(self) -> bool:
        """Whether all noise counts as normal."""
        return not self.fourth_cumulants.any()

    @cached_property
    def of_counts(self) -> Array:
        """Variance of the noise of every count (d,)."""
        return self.variances if self.mixing is None else np.asarray(self.mixing**2 @ self.variances)

    def through(self, weights: Array) -> Array:
        """Weights of counts (..., d) as weights of the noise variables (..., m)."""
        return weights if self.mixing is None else np.asarray(weights @ self.mixing)

    def variance(self, weights: Array) -> Array:
        """Variance (...) of the noise of weighted sums of counts, weights (..., d)."""
        return np.asarray(self.through(weights) ** 2 @ self.variances)

    def fourth_cumulant(self, weights: Array) -> Array:
        """Fourth cumulant (...) of the noise of weighted sums of counts."""
        return np.asarray(self.through(weights) ** 4 @ self.fourth_cumulants)

    def covariance(self, weights: Array) -> Array:
        """Covariance (..., k, k) of the noise of k weighted sums, weights (..., k, d)."""
        moved = self.through(weights)
        return np.asarray((moved * self.variances) @ np.swapaxes(moved, -1, -2))

    def laplace(self, weights: Array) -> Array | None:
        """Return loadings (k, m) of sums of counts on Laplace variables, weights (k, d); None where all is normal."""
        if self.is_normal:
            return None
        heavy = self.fourth_cumulants > 0
        return np.asarray(self.through(weights)[:, heavy] * np.sqrt(self.variances[heavy]))

    def rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw for simulation, never for privacy (*shape, d)."""
        if isinstance(self.law, CombinedNoise):
            drawn = self.law.rvs(int(np.prod(shape)), rng).reshape(*shape, -1)
        else:
            drawn = self.law.rvs((*shape, self._width), rng)
        return drawn if self.mixing is None else np.asarray(drawn @ self.mixing.T)

    def of_cells(self, kept: Mask) -> CellNoise:
        """Noise of some of the counts, a mask (d,)."""
        count = int(np.count_nonzero(kept))
        mixing = None if self.mixing is None else self.mixing[kept]
        if mixing is None and isinstance(self.law, CombinedNoise):
            mixing = np.eye(self.cells)[kept]
        return replace(self, cells=count, mixing=mixing)

    def centred(self) -> CellNoise:
        """Noise of the counts after they were moved, all by as much, to a public sum."""
        mixing = np.eye(self.cells) if self.mixing is None else self.mixing
        return replace(self, mixing=mixing - mixing.mean(axis=0))
