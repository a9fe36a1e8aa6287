"""Mean functions of generalized linear models, and their averages over a normal linear predictor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from dpinfer.numerics.arrays import Array

__all__ = ["BINARY", "Response", "intercept_for", "matched_scale"]

_FARTHEST = 30.0
"""Linear predictors are cut here: no mean function of these models can be told apart beyond."""

_LARGEST_SCALE = 200.0


class _Link(Protocol):
    """A mean function and its slope, as links of statsmodels have them."""

    def inverse(self, z: Array) -> Array:
        """Mean at a linear predictor."""
        ...

    def inverse_deriv(self, z: Array) -> Array:
        """Slope of the mean."""
        ...


@cache
def _hermite() -> tuple[Array, Array]:
    points, weights = np.polynomial.hermite_e.hermegauss(21)
    return points, weights / weights.sum()


@dataclass(frozen=True, slots=True)
class Response:
    """A mean function of the linear predictor.

    Attributes
    ----------
    name : str
    link : object
        Its ``inverse`` is the mean, and ``inverse_deriv`` the slope, as for links of statsmodels.
    farthest : float
        Linear predictors are cut to this size.
    weight : callable, optional
        Weight of a Hessian at linear predictors, where it is not the slope.
    residual : bool
        Whether scores are sums of regressors times the response less its mean.
    """

    name: str
    link: _Link
    farthest: float = _FARTHEST
    weight: Callable[[Array], Array] | None = None
    residual: bool = False

    def mean(self, predictor: Array) -> Array:
        """Mean at linear predictors (...)."""
        return np.asarray(self.link.inverse(np.clip(predictor, -self.farthest, self.farthest)))

    def slope(self, predictor: Array) -> Array:
        """Return the derivative of the mean at linear predictors (...)."""
        return np.asarray(self.link.inverse_deriv(np.clip(predictor, -self.farthest, self.farthest)))

    def average_mean(self, centre: ArrayLike, variance: ArrayLike) -> Array:
        """Mean of the response where the linear predictor is normal (21-point Gauss-Hermite rule)."""
        return self._averaged(self.mean, centre, variance)

    def average_slope(self, centre: ArrayLike, variance: ArrayLike) -> Array:
        """Mean of the slope where the linear predictor is normal."""
        return self._averaged(self.slope, centre, variance)

    def average_weight(self, centre: ArrayLike, variance: ArrayLike) -> Array:
        """Mean of the weight of a Hessian where the linear predictor is normal."""
        return self._averaged(self.slope if self.weight is None else self.weight, centre, variance)

    def _averaged(self, function: object, centre: ArrayLike, variance: ArrayLike) -> Array:
        points, weights = _hermite()
        spread = np.sqrt(np.maximum(variance, 0.0))[..., None]
        values = function(np.asarray(centre)[..., None] + spread * points)  # type: ignore[operator]
        return np.asarray(values @ weights)


@dataclass(frozen=True, slots=True)
class _Inverse:
    """A mean function and its slope."""

    inverse: Callable[[Array], Array]
    inverse_deriv: Callable[[Array], Array]


def _logistic_slope(z: Array) -> Array:
    mean = special.expit(z)
    return np.asarray(mean * special.expit(-z))


BINARY = {
    "logit": Response("logit", _Inverse(special.expit, _logistic_slope), residual=True),
    "probit": Response(
        "probit",
        _Inverse(special.ndtr, lambda z: np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)),
        8.0,
        residual=True,
    ),
    "cloglog": Response(
        "cloglog",
        _Inverse(lambda z: -np.expm1(-np.exp(z)), lambda z: np.exp(z - np.exp(z))),
        residual=True,
    ),
}
"""Mean functions of binary responses by name."""


_HALVINGS = 26
_FACTORS = 0.5 * 1.5 ** np.arange(16)
"""Factors that are tried, up to about 200."""


def intercept_for(response: Response, share: float, variance: ArrayLike) -> Array:
    """Centres (...) of normal linear predictors of these variances at which the mean response is ``share``.

    The nearest that predictors go where none serves.
    """
    low = np.full(np.shape(variance), -response.farthest)
    high = -low
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        below = response.average_mean(middle, variance) < share
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(0.5 * (low + high))


def matched_scale(response: Response, share: float, variance: float) -> float:
    """Factor k by which least-squares slopes become those of the model: k times the mean slope at k is 1.

    ``variance`` is that of the least-squares predictor, and ``share`` the mean response. Where no factor up to 200
    serves, as near separation, that of the largest excess is returned. See Erdogdu, Bayati & Dicker (2016).
    """

    def excess(factors: Array) -> Array:
        spread = factors**2 * variance
        return factors * response.average_slope(intercept_for(response, share, spread), spread) - 1.0

    tried: Array = np.asarray(_FACTORS)
    for _ in range(2):
        found = excess(tried)
        above = np.flatnonzero(found > 0)
        if not above.size:
            return float(tried[found.argmax()])
        first = int(above[0])
        if first == 0:
            return float(tried[0])
        part = found[first - 1] / (found[first - 1] - found[first])
        middle = tried[first - 1] + part * (tried[first] - tried[first - 1])
        tried = np.asarray(np.linspace(tried[first - 1], tried[first], 9))
    return float(middle)
