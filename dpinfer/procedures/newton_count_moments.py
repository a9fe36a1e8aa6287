"""What the released moments of the regressors say of a regression with a log link, where these are normal."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
        """Return what a score of a row may be off (2, p): by the law, and by how far residuals spread.

        The first is half of the distance between the laws that may hold, the second between the ends of the spread.
        """
        means, root = self.means(point), np.sqrt(self.weights(point))
        laws = self.model.extremes_at(cut, means)
        low, high = (self.model.expected_at(replace(cut, spread=end), means)[0] for end in (cut.least, cut.most))
        halves = (_BETWEEN * (laws[0][0] - laws[-1][0]), 0.5 * (high - low))
        return np.stack([self.vector(point, root * half) for half in halves])

    def apart(self, cut: CountCut, point: Array, lows: Array) -> Array:
        """Return the squared length of the same, for regressors whose Hessian is the identity, at cuts (k,)."""
        weights = self.weights(point)
        whole = floored(self.matrix(point, weights), 1e-9) * float(weights @ CHANCES)
        found = [self.uncertain(replace(cut, low=float(low)), point) for low in lows]
        return np.array([float((one @ np.linalg.solve(whole, one.T)).trace()) for one in found])

    def meat(self, cut: CountCut, point: Array, hessian: Array, square: float) -> Array:
        """Return the covariance of the score if residuals spread as the laws say that may hold, in their mean.

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
        centre, kept = self.model.expected_at(cut, means)
        expected = floored(self.matrix(point, weights * kept), 1e-9) * float(weights * kept @ CHANCES)
        carry = np.linalg.cholesky(hessian) @ np.linalg.inv(np.linalg.cholesky(expected))
        found = []
        for first, second in self.model.squares(cut, means):
            left = np.maximum(second - 2 * centre * first + centre**2, 1e-300) * weights
            shape = self.matrix(point, left) * float(left @ CHANCES) / max(float(second @ CHANCES), 1e-300)
            found.append(carry @ shape @ carry.T)
        return np.asarray(np.mean(found, axis=0) * square)
