"""Laws of counts and positive numbers given their mean: variances, and expectations of residuals that are cut."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special
from statsmodels.genmod.families import links

from dpinfer.numerics.responses import Response

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array

__all__ = ["LOG", "CountLaw", "Gamma", "NegativeBinomial", "Poisson"]

LOG = Response("log", links.Log(), 30.0)
"""The mean function of counts and positive numbers."""


_CLOSE = 1e-3
"""A spread so near to 1 is that of the law itself."""


class CountLaw(ABC):
    """A law by its mean, in which the mean is the exponential of the linear predictor."""

    @abstractmethod
    def variance(self, mean: Array) -> Array:
        """Variance function: that of the response up to the dispersion."""

    @abstractmethod
    def partial(self, mean: Array, bound: Array, spread: float) -> tuple[Array, Array, Array]:
        """Probability, and first and second moment, of values of at most ``bound``."""

    def spreading(self, spread: float, mean: Array, chances: Array) -> tuple[CountLaw, ...]:  # noqa: ARG002
        """Laws of this kind whose Pearson residuals have a standard deviation ``spread``, for the means at hand."""
        return (self,)

    def weight(self, mean: Array) -> Array:
        """Information on the linear predictor, up to the dispersion."""
        return np.asarray(mean**2 / self.variance(mean))

    def dispersion(self, spread: float) -> float:
        """Dispersion in the law where residuals have a standard deviation ``spread``; 1 for counts."""
        del spread
        return 1.0

    def cut(self, mean: Array, low: Array, high: Array, spread: float) -> tuple[Array, Array]:
        """Return the expectations of ``d = clip(y - mean, low, high)`` and of ``d (y - mean)``; low < 0 < high."""
        lower, between, above = self._parts(mean, low, high, spread)
        expected = low * lower[0] + between[1] + high * above[0]
        return np.asarray(expected), np.asarray(low * lower[1] + between[2] + high * above[1])

    def cut_square(self, mean: Array, low: Array, high: Array, spread: float) -> Array:
        """Return the expectation of ``clip(y - mean, low, high) ** 2``; low < 0 < high."""
        lower, between, above = self._parts(mean, low, high, spread)
        return np.asarray(low**2 * lower[0] + between[2] + high**2 * above[0])

    def _parts(self, mean: Array, low: Array, high: Array, spread: float) -> list[tuple[Array, Array, Array]]:
        """Return chance, and first and second moments of ``y - mean``, of values below, between and above the ends."""
        total = (np.ones_like(mean), mean, self.dispersion(spread) * self.variance(mean) + mean**2)
        upper = self.partial(mean, mean + high, spread)
        lower = self.partial(mean, mean + low, spread)
        parts = (
            lower,
            *([one - two for one, two in zip(*pair, strict=True)] for pair in ((upper, lower), (total, upper))),
        )
        return [(zero, one - mean * zero, two - 2 * mean * one + mean**2 * zero) for zero, one, two in parts]


@dataclass(frozen=True)
class Poisson(CountLaw):
    """Variance equal to the mean."""

    def spreading(self, spread: float, mean: Array, chances: Array) -> tuple[CountLaw, ...]:
        """Return mixtures with a variance of spread^2 times the mean, and of the mean plus a part of its square."""
        if spread <= 1.0 + _CLOSE:
            return (self,)
        return Proportional(spread**2), NegativeBinomial((spread**2 - 1) * float(mean @ chances / (mean**2 @ chances)))

    def variance(self, mean: Array) -> Array:
        """See `CountLaw`."""
        return mean

    def partial(self, mean: Array, bound: Array, spread: float) -> tuple[Array, Array, Array]:  # noqa: ARG002
        """See `CountLaw`: y (y - 1) has a Poisson law shifted by 2 as its weights."""
        places = np.floor(bound)
        zero, one, two = (
            np.where(places >= less, special.pdtr(np.maximum(places - less, 0.0), mean), 0.0) for less in (0, 1, 2)
        )
        return zero, mean * one, mean**2 * two + mean * one


@dataclass(frozen=True)
class NegativeBinomial(CountLaw):
    """Variance ``mean + alpha mean^2``."""

    alpha: float

    def variance(self, mean: Array) -> Array:
        """See `CountLaw`."""
        return np.asarray(mean * (1 + self.alpha * mean))

    def spreading(self, spread: float, mean: Array, chances: Array) -> tuple[CountLaw, ...]:
        """Return laws with a variance of spread^2 times this one's, and with a larger ``alpha``."""
        if spread <= 1.0 + _CLOSE:
            return (self,)
        more = (spread**2 - 1) * float(self.variance(mean) @ chances / (mean**2 @ chances))
        return Proportional(spread**2, self.alpha), NegativeBinomial(self.alpha + more)

    def partial(self, mean: Array, bound: Array, spread: float) -> tuple[Array, Array, Array]:  # noqa: ARG002
        """See `CountLaw`."""
        return _mixed(mean, bound, np.full_like(mean, self.alpha))


@dataclass(frozen=True)
class Proportional(CountLaw):
    """Negative binomial counts whose variance is ``factor`` times ``mean + alpha mean^2``."""

    factor: float
    alpha: float = 0.0

    def variance(self, mean: Array) -> Array:
        """See `CountLaw`."""
        return np.asarray(self.factor * mean * (1 + self.alpha * mean))

    def partial(self, mean: Array, bound: Array, spread: float) -> tuple[Array, Array, Array]:  # noqa: ARG002
        """See `CountLaw`."""
        return _mixed(mean, bound, (self.factor * (1 + self.alpha * mean) - 1) / mean)


def _mixed(mean: Array, bound: Array, alpha: Array) -> tuple[Array, Array, Array]:
    """Partial moments of negative binomial counts: factorial moments weigh by laws of more trials."""
    places, trials = np.floor(bound), 1.0 / alpha
    chance = 1.0 / (1.0 + alpha * mean)
    zero, one, two = (
        np.where(places >= more, special.betainc(trials + more, np.maximum(places - more, 0.0) + 1, chance), 0.0)
        for more in (0, 1, 2)
    )
    return zero, mean * one, (1 + alpha) * mean**2 * two + mean * one


@dataclass(frozen=True)
class Gamma(CountLaw):
    """Variance ``dispersion * mean^2``."""

    def variance(self, mean: Array) -> Array:
        """See `CountLaw`."""
        return np.asarray(mean**2)

    def dispersion(self, spread: float) -> float:
        """See `CountLaw`."""
        return spread**2

    def partial(self, mean: Array, bound: Array, spread: float) -> tuple[Array, Array, Array]:
        """See `CountLaw`: moments weigh by laws of larger shapes."""
        shape = 1.0 / spread**2
        ratio = np.maximum(bound / mean, 0.0) * shape
        zero, one, two = (special.gammainc(shape + more, ratio) for more in (0, 1, 2))
        return zero, mean * one, mean**2 * (1 + spread**2) * two
