"""What cutting residuals took from a least-squares fit, given back from what was released of the rows beyond."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from dpinfer.inference.newton_terms import Released
    from dpinfer.numerics.arrays import Array

__all__ = ["Beyond", "Tail", "folded_quantile", "folded_tail"]


@dataclass(frozen=True, eq=False, slots=True)
class Tail:
    """What is added to a fit.

    Attributes
    ----------
    move : ndarray (p,)
        Added to the coefficients.
    sampling, noise : ndarray (p, p)
        Added to their covariance.
    biases : ndarray (k, p)
        The bias of a contrast is at most the sum of the sizes of its products with these.
    """

    move: Array
    sampling: Array
    noise: Array
    biases: Array

    @classmethod
    def none(cls, width: int) -> Tail:
        """Nothing."""
        zero = np.zeros((width, width))
        return cls(np.zeros(width), zero, zero, np.zeros((0, width)))

    @classmethod
    def of_intercept(cls, width: int, variance: float) -> Tail:
        """Return a variance of the first coefficient alone."""
        added = np.zeros((width, width))
        added[0, 0] = variance
        return cls(np.zeros(width), added, np.zeros((width, width)), np.zeros((0, width)))

    def bias(self, contrasts: Array) -> Array:
        """Bound on the bias of contrasts (k, p), as (k,)."""
        return np.asarray(np.abs(contrasts @ self.biases.T).sum(axis=1))


@dataclass(frozen=True, eq=False, slots=True)
class Beyond:
    """What a round released of rows whose residual is beyond the cut; residuals in units of the score.

    Attributes
    ----------
    side : Released
        Sum of v u sign(r), in the coordinates of the coefficients.
    spread : ndarray (p, p)
        Covariance of the noise of ``side``.
    excess, square : Released
        Sums of v sign(r) (min(abs(r), high) - low) and of v^2 (min(abs(r), high)^2 - low^2).
    rows, farther : float
        Noisy numbers of rows beyond ``low``, and beyond ``high``.
    low, high : float
    """

    side: Array
    spread: Array
    excess: Released
    square: Released
    rows: float
    farther: float
    low: float
    high: float

    def tail(self, inverse: Array, hessian: Array, meat: Array, constant: Array | None, size: float) -> Tail:
        """Return what to add to a fit with an inverse Hessian and a meat (p, p).

        ``constant`` (p,) are the weights of the coordinates whose sum is 1 in every row. Without them nothing is given
        back but to slopes.
        """
        if constant is None:
            return Tail.none(len(inverse))
        excess = float(self.excess.value[0])
        sides = float(constant @ self.side)
        noise = float(constant @ self.spread @ constant)
        mean = float(np.clip(excess * sides / max(sides**2 + noise, 1e-300), 0.0, 2 * (self.high - self.low)))
        inside = max(float(constant @ hessian @ constant), 0.1 * size)
        slopes = mean * (inverse @ self.side)
        move = slopes + constant * ((excess - mean * sides) / inside)
        # A row beyond adds low + mean of its residual to the slopes, and all of it to the intercept.
        square = max(float(self.square.value[0]), 0.0)
        total = max(float(constant @ meat @ constant), 1e-300)
        added = min(square, ((self.low + mean) ** 2 - self.low**2) * max(self.rows, 0.0)) / total
        outer = np.outer(constant, constant) / inside**2
        sampling = added * (inverse @ meat @ inverse.T) + max(square - added * total, 0.0) * outer
        clipped = max(self.farther, 0.0) * self.high / (2 * size)
        return Tail(
            move,
            sampling,
            mean**2 * inverse @ self.spread @ inverse.T + self.excess.scale**2 * outer,
            np.stack([slopes / 2, constant * clipped]),
        )


def folded_quantile(alpha: float, bias: Array) -> Array:
    """Return the 1 - alpha quantile of the size of a normal variable of variance 1 with these means (k,)."""
    return np.asarray(stats.foldnorm.ppf(1 - alpha, np.minimum(bias, 1e3)))


def folded_tail(distance: Array, bias: Array) -> Array:
    """Return the probability that the size of a normal variable of variance 1 with mean ``bias`` is larger (k,)."""
    return np.asarray(stats.norm.sf(distance - bias) + stats.norm.cdf(-distance - bias))
