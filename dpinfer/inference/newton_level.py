"""The intercept of a regression with a log link, set so that the sum of responses is that of their means.

Cutting residuals moves a score where the law of the response is not the assumed one, and most of all its intercept. The
last round therefore releases, at its point, L, the sum of v (y - mu), cut much farther out. The intercept is moved to
where L is zero. With e the direction of the intercept, r the row of the Hessian of L, and P = I - e r'/r_e, the
estimate's error becomes P J^-1 g + e L/r_e. Noise of g and L is independent; their sampling covariance is taken to be
that of full correlation, at which the variance of L is the released one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.newton import NewtonFit
from dpinfer.inference.newton_tail import Tail

if TYPE_CHECKING:
    from dpinfer.inference.newton_terms import Released
    from dpinfer.numerics.arrays import Array

__all__ = ["Level", "LeveledFit"]

_LEAST_RATIO = 0.05
"""The sum of responses over that of their means is taken to be at least this."""

_POINTS, _WEIGHTS = np.array([0.0, 0.5, 1.0]), np.array([1.0, 4.0, 1.0]) / 6.0


@dataclass(frozen=True, eq=False)
class LeveledFit(NewtonFit):
    """A fit of which the intercept was moved; see `Level`.

    Attributes
    ----------
    noisy, sampled : ndarray (p, p)
        Coefficients by the noise of the score, and by the sampled score.
    """

    noisy: Array
    sampled: Array

    @property
    def cov_noise(self) -> Array:
        """Covariance (p, p) of the coefficients from privacy noise."""
        return self.noisy @ self._noise(self.params - self.tail.move) @ self.noisy.T + self.tail.noise

    @property
    def cov_sampling(self) -> Array:
        """Covariance (p, p) of the coefficients from sampling."""
        return self.sampled @ self.meat @ self.sampled.T

    def statistics(self, contrast: Array, values: Array) -> Array:
        """See `NewtonFit.statistics`; what the level adds to the covariance depends on no coefficient."""
        weights = self.inverse.T @ contrast
        direction = self.inverse @ self._total @ weights
        steps = (values - contrast @ self.params) / (contrast @ direction)
        tested = self.params - self.tail.move + steps[:, None] * direction
        score, _ = self._sums.along(tested, self.weights, weights)
        _, noise = self._sums.along(tested, self.weights, self.noisy.T @ contrast)
        sampled = self.sampled.T @ contrast
        return np.asarray(
            np.abs(score) / np.sqrt(noise + sampled @ self.meat @ sampled + contrast @ self.tail.noise @ contrast)
        )

    def joint_statistic(self, contrasts: Array, values: Array) -> float:
        """See `NewtonFit.joint_statistic`; what the level adds to the covariance depends on no coefficient."""
        weights = self.inverse.T @ contrasts.T
        direction = self.inverse @ self._total @ weights
        distance = values - contrasts @ self.params
        tested = (
            self.params - self.tail.move + direction @ np.linalg.pinv(contrasts @ direction, hermitian=True) @ distance
        )
        score = weights.T @ self._sums.score(tested, self._sums.slopes(tested[None])[0, :, 0], self.weights)
        noisy, sampled = self.noisy.T @ contrasts.T, self.sampled.T @ contrasts.T
        variance = noisy.T @ self._noise(tested) @ noisy + sampled.T @ self.meat @ sampled
        variance += contrasts @ self.tail.noise @ contrasts.T
        return float(score @ np.linalg.pinv(variance, hermitian=True) @ score)


@dataclass(frozen=True, eq=False, slots=True)
class Level:
    """What the last round released of the sum of v (y - mu).

    Attributes
    ----------
    total : Released
        The sum, less its expectation.
    square : Released
        The sum of squares.
    row : ndarray (p,)
        Minus the derivative of the sum at the point of the round; its first entry is that for the intercept.
    point : ndarray (p,)
    farther : float
        What rows beyond the cut may add to the sum.
    centers : ndarray (k, p)
        What wrong expectations may take from the score of the last round, in each of k ways.
    """

    total: Released
    square: Released
    row: Array
    point: Array
    farther: float
    centers: Array

    def leveled(self, fit: NewtonFit) -> LeveledFit:
        """Return a fit whose first coefficient is the intercept, with the intercept moved."""
        width = len(self.row)
        constant = np.eye(width)[0]
        average, last = self._slopes(fit)
        own = max(self.row[0], 2.0 * self.total.scale, 1e-300)
        ratio = self.row / own
        ratio[0] = 1.0
        left = float(self.total.value[0]) / own - average * float(ratio @ (fit.params - self.point))
        moved = float(np.log(max(1.0 + left / last, _LEAST_RATIO)))
        slope = own * last
        meat = float(fit.meat[0, 0])
        square = max(float(self.square.value[0]), self.square.scale, 0.25 * meat, 1e-300)
        project = np.eye(width) - np.outer(constant, ratio)
        common = np.outer(constant, constant) * (np.sqrt(square / max(meat, 1e-300)) / slope)
        farther = np.vstack([constant * (self.farther / slope), self.centers @ (project @ fit.inverse).T])
        zero = np.zeros((width, width))
        kept = {one.name: getattr(fit, one.name) for one in fields(fit)}
        kept["params"] = fit.params + constant * moved
        level = np.outer(constant, constant) * (self.total.scale / slope) ** 2
        kept["tail"] = Tail(constant * moved, zero, level, farther)
        return LeveledFit(**kept, noisy=project @ fit.inverse, sampled=project @ fit.inverse + common)

    def _slopes(self, fit: NewtonFit) -> tuple[float, float]:
        """Mean slope of the means from the round's point to the estimate over that at the point, and the last one."""
        assert fit.response is not None
        path = self.point + _POINTS[:, None] * (fit.params - self.point)
        spread = np.einsum("tp,pq,tq->t", path, fit.moments.cov, path)
        found = fit.response.average_slope(path @ fit.moments.mean, spread)
        kept = np.clip(found / max(float(found[0]), 1e-300), 0.02, 50.0)
        return float(_WEIGHTS @ kept), float(kept[-1])
