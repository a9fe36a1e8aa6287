"""Independent noise on counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.release.laws import NORMAL_DRAWS

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array
    from dpinfer.release.laws import NoiseLaw

__all__ = ["CountNoise"]

_ROUNDED_FROM, _SHORT = 8.0, 1e5
"""Scales from which a rounded Gaussian stands for a discrete one, and up to which 24 bits of it are enough."""


@dataclass(frozen=True, slots=True)
class CountNoise:
    """Independent noise of one law on every count.

    Attributes
    ----------
    law : NoiseLaw
        Of one released count (m = 1).
    step : float
        Size of an integer step, in rows.
    together : int
        Released counts that are added up to one count.
    """

    law: NoiseLaw
    step: float = 1.0
    together: int = 1

    @property
    def variance(self) -> float:
        """Variance of the noise of a count, in squared rows."""
        return float(self.together * self.law.variances[0]) * self.step**2

    @property
    def is_normal(self) -> bool:
        """Whether the noise is Gaussian."""
        return self.law.family == "gaussian"

    @property
    def fourth_cumulant(self) -> float:
        """Fourth cumulant of the noise of a count; few draws of Laplace noise are given that of Laplace noise."""
        if self.is_normal:
            return 0.0
        several = self.together * self.law.draws
        several = several if several >= NORMAL_DRAWS else 1
        return (3 * self.variance**2 + self.variance * self.step**2) / several

    def rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw noise for simulation, never for privacy, in rows."""
        scale = self.law.scales[0]
        if self.law.family == "laplace":
            several, success = self.together * self.law.draws, -np.expm1(-1.0 / scale)
            drawn = rng.negative_binomial(several, success, shape) - rng.negative_binomial(several, success, shape)
            return np.asarray(drawn * self.step)
        spread = scale * np.sqrt(self.together)
        if spread >= _ROUNDED_FROM:
            short = spread < _SHORT
            noise = rng.standard_normal(shape, dtype=np.float32 if short else np.float64)
            noise *= np.sqrt(spread**2 - 1 / 12)  # rounding adds 1/12 to the variance
            np.rint(noise, out=noise)
            return np.asarray(np.multiply(noise, self.step, dtype=np.float64))
        exact = self.law.rvs(int(np.prod(shape)) * self.together, rng)
        return np.asarray(exact.reshape(*shape, self.together).sum(axis=-1) * self.step)
