"""Mean functions of generalized linear models, and their averages over a normal linear predictor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy import optimize
from statsmodels.genmod.families import links

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array

__all__ = ["BINARY", "Response", "intercept_for", "matched_scale"]

_FARTHEST = 30.0
"""Linear predictors are cut here: no mean function changes beyond in double precision."""

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
    """

    name: str
    link: _Link

    def mean(self, predictor: Array) -> Array:
        """Mean at linear predictors (...)."""
        return np.asarray(self.link.inverse(np.clip(predictor, -_FARTHEST, _FARTHEST)))

    def slope(self, predictor: Array) -> Array:
        """Derivative of the mean at linear predictors (...)."""
        return np.asarray(self.link.inverse_deriv(np.clip(predictor, -_FARTHEST, _FARTHEST)))

    def average_mean(self, centre: float, variance: float) -> float:
        """Mean of the response where the linear predictor is normal (21-point Gauss-Hermite rule)."""
        points, weights = _hermite()
        return float(weights @ self.mean(centre + np.sqrt(max(variance, 0.0)) * points))

    def average_slope(self, centre: float, variance: float) -> float:
        """Mean of the slope where the linear predictor is normal."""
        points, weights = _hermite()
        return float(weights @ self.slope(centre + np.sqrt(max(variance, 0.0)) * points))


BINARY = {
    "logit": Response("logit", links.Logit()),
    "probit": Response("probit", links.Probit()),
    "cloglog": Response("cloglog", links.CLogLog()),
}
"""Mean functions of binary responses by name."""


def intercept_for(response: Response, share: float, variance: float) -> float:
    """Centre of a normal linear predictor at which the mean response is ``share``, within 30 of zero."""

    def excess(centre: float) -> float:
        return response.average_mean(centre, variance) - share

    ends = (-_FARTHEST, _FARTHEST)
    if excess(ends[0]) >= 0 or excess(ends[1]) <= 0:
        return ends[0] if excess(ends[0]) >= 0 else ends[1]
    return float(optimize.brentq(excess, *ends))


def matched_scale(response: Response, share: float, variance: float) -> float:
    """Factor k by which least-squares slopes become those of the model: k times the mean slope at k is 1.

    ``variance`` is that of the least-squares predictor, and ``share`` the mean response. Where no factor up to 200
    serves, as near separation, the largest is returned. See Erdogdu, Bayati & Dicker (2016).
    """

    def excess(factor: float) -> float:
        spread = factor**2 * variance
        return factor * response.average_slope(intercept_for(response, share, spread), spread) - 1.0

    if excess(_LARGEST_SCALE) <= 0:
        grid = np.geomspace(0.5, _LARGEST_SCALE, 30)
        values = np.array([excess(float(one)) for one in grid])
        if not (values > 0).any():
            return float(grid[int(values.argmax())])
        high = float(grid[int(np.flatnonzero(values > 0)[0])])
    else:
        high = _LARGEST_SCALE
    return float(optimize.brentq(excess, 1e-3, high))
