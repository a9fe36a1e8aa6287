"""Mean functions of generalized linear models, and their averages over a normal linear predictor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy import optimize
from statsmodels.genmod.families import links

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dpinfer.numerics.arrays import Array

__all__ = ["BINARY", "Response", "intercept_for", "matched_scale"]

_FARTHEST = 30.0
"""Linear predictors are cut here: no mean function of these models can be told apart beyond."""

_LARGEST_SCALE = 200.0


class _Link(Protocol):
    """A link of statsmodels."""

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
    link : statsmodels link
    farthest : float
        Linear predictors are cut to this size.
    """

    name: str
    link: _Link
    farthest: float = _FARTHEST

    def mean(self, predictor: Array) -> Array:
        """Mean at linear predictors (...)."""
        return np.asarray(self.link.inverse(np.clip(predictor, -self.farthest, self.farthest)))

    def slope(self, predictor: Array) -> Array:
        """Derivative of the mean at linear predictors (...)."""
        return np.asarray(self.link.inverse_deriv(np.clip(predictor, -self.farthest, self.farthest)))

    def average_mean(self, centre: ArrayLike, variance: ArrayLike) -> Array:
        """Mean of the response where the linear predictor is normal (21-point Gauss-Hermite rule)."""
        return self._averaged(self.mean, centre, variance)

    def average_slope(self, centre: ArrayLike, variance: ArrayLike) -> Array:
        """Mean of the slope where the linear predictor is normal."""
        return self._averaged(self.slope, centre, variance)

    def _averaged(self, function: object, centre: ArrayLike, variance: ArrayLike) -> Array:
        points, weights = _hermite()
        spread = np.sqrt(np.maximum(variance, 0.0))[..., None]
        values = function(np.asarray(centre)[..., None] + spread * points)  # type: ignore[operator]
        return np.asarray(values @ weights)


BINARY = {
    "logit": Response("logit", links.Logit()),
    "probit": Response("probit", links.Probit(), 8.0),
    "cloglog": Response("cloglog", links.CLogLog()),
}
"""Mean functions of binary responses by name."""


def intercept_for(response: Response, share: float, variance: float) -> float:
    """Centre of a normal linear predictor at which the mean response is ``share``, as far as predictors go."""

    def excess(centre: float) -> float:
        return float(response.average_mean(centre, variance)) - share

    ends = (-response.farthest, response.farthest)
    if excess(ends[0]) >= 0:
        return ends[0]
    return ends[1] if excess(ends[1]) <= 0 else float(optimize.brentq(excess, *ends, xtol=1e-4))


def matched_scale(response: Response, share: float, variance: float) -> float:
    """Factor k by which least-squares slopes become those of the model: k times the mean slope at k is 1.

    ``variance`` is that of the least-squares predictor, and ``share`` the mean response. Where no factor up to 200
    serves, as near separation, that of the largest excess is returned. See Erdogdu, Bayati & Dicker (2016).
    """

    def excess(factor: float) -> float:
        spread = factor**2 * variance
        return factor * float(response.average_slope(intercept_for(response, share, spread), spread)) - 1.0

    factor, last, best = 0.5, excess(0.5), (-np.inf, 0.5)
    while last <= 0 and factor < _LARGEST_SCALE:
        best = max(best, (last, factor))
        factor *= 1.5
        last = excess(factor)
    if last <= 0:
        return best[1]
    return factor if factor == 0.5 else float(optimize.brentq(excess, factor / 1.5, factor, xtol=1e-3))
