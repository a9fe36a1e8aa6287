"""What the released moments of the regressors say of a regression with a log link, where these are normal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.newton_terms import floored
from dpinfer.procedures.newton_counts import CHANCES, NODES

if TYPE_CHECKING:
    from dpinfer.inference.newton import Moments
    from dpinfer.numerics.arrays import Array
    from dpinfer.procedures.newton_counts import CountCut, CountModel

__all__ = ["CountMoments"]

_BETWEEN = 0.75
"""Part of the distance between the laws that spread as residuals do by which the truth may be off their middle."""


@dataclass(frozen=True, eq=False)
class CountMoments:
    """Means of functions of the mean response and of products of regressors, at coefficients (p,).

    Attributes
    ----------
    model : CountModel
    moments : Moments
    offset : float
        That of a typical row.
    intercept : bool
    """

    model: CountModel
    moments: Moments
    offset: float
    intercept: bool

    def _centred(self, point: Array) -> tuple[float, float]:
        """Return mean and standard deviation of the linear predictor."""
        spread = float(np.sqrt(max(float(point @ self.moments.cov @ point), 0.0)))
        return float(self.moments.mean @ point) + self.offset, spread

    def means(self, point: Array) -> Array:
        """Return means of the response (21,), whose chances are ``CHANCES``."""
        centre, spread = self._centred(point)
        return np.exp(np.clip(centre + spread * NODES, *self.model.ends))

    def settings(self, point: Array) -> dict[str, float]:
        """Return mean and standard deviation of the linear predictor, for settings."""
        centre, spread = self._centred(point)
        return {"centre": float(np.clip(centre, *self.model.ends)), "width": min(spread, 10.0)}

    def _along(self, point: Array) -> Array:
        """Covariance (p,) of the regressors with the linear predictor in standard deviations."""
        along = self.moments.cov @ point
        return np.asarray(along / max(float(np.sqrt(max(float(point @ along), 0.0))), 1e-12))

    def vector(self, point: Array, values: Array) -> Array:
        """Mean product (p,) of regressors with a function of the mean response, of these values (21,)."""
        weights = values * CHANCES
        return float(weights.sum()) * self.moments.mean + float(weights @ NODES) * self._along(point)

    def matrix(self, point: Array, values: Array) -> Array:
        """Mean products (p, p) of regressors, weighted by a positive function of these values (21,); over its mean."""
        weights = np.maximum(values, 1e-300) * CHANCES
        total = float(weights.sum())
        moved, square = float(weights @ NODES) / total, float(weights @ NODES**2) / total
        mean, unit = self.moments.mean, self._along(point)
        found = self.moments.cov + np.outer(mean, mean) * float(self.intercept)
        return np.asarray(
            found + (square - 1.0) * np.outer(unit, unit) + moved * (np.outer(mean, unit) + np.outer(unit, mean))
        )

    def weights(self, point: Array) -> Array:
        """Weights w (21,) at the means."""
        return np.maximum(self.model.law.weight(self.means(point)), 1e-300)

    def uncertain(self, cut: CountCut, point: Array) -> Array:
        """Return half of the distance between the scores of the laws that may hold, a row (p,)."""
        extremes = self.model.extremes(cut)
        half = _BETWEEN * (extremes[0][0] - extremes[-1][0])
        values = np.sqrt(self.weights(point)) * np.interp(self.means(point), self.model.means, half)
        return self.vector(point, values)

    def meat(self, cut: CountCut, point: Array, hessian: Array, square: float) -> Array:
        """Return the covariance of the score if residuals spread as the laws say that may hold, the larger one.

        Parameters
        ----------
        cut : CountCut
        point : ndarray (p,)
        hessian : ndarray (p, p)
            Released, positive definite: what the regressors' moments get wrong in the covariance they get wrong in the
            Hessian too, and the ratio of both is what is read from them.
        square : float
            Mean square of the cut residuals.
        """
        means, weights = self.means(point), self.weights(point)
        centre, kept = (np.interp(means, self.model.means, one) for one in self.model.expected(cut))
        expected = floored(self.matrix(point, weights * kept), 1e-9) * float(weights * kept @ CHANCES)
        carry = np.linalg.cholesky(hessian) @ np.linalg.inv(np.linalg.cholesky(expected))
        found = []
        for first, second in self.model.squares(cut, means):
            left = np.maximum(second - 2 * centre * first + centre**2, 1e-300) * weights
            shape = self.matrix(point, left) * float(left @ CHANCES) / max(float(second @ CHANCES), 1e-300)
            found.append(carry @ shape @ carry.T)
        largest = max(found, key=lambda one: float(np.linalg.solve(hessian, one).trace()))
        return np.asarray(largest * square)
