"""What the start of a regression by noisy Newton rounds released, and a first point for binary responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.newton import Moments
from dpinfer.inference.newton_terms import Released, floored
from dpinfer.numerics.responses import intercept_for, matched_scale

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array
    from dpinfer.numerics.responses import Response
    from dpinfer.procedures.newton_levels import Kept

__all__ = ["FLOOR", "OF_EDGE", "Begun", "binary_radius", "binary_start"]

FLOOR, OF_EDGE = 0.02, 1.5
"""Eigenvalues of the second moments that whiten are at least this, and this many edges of their noise."""

_NOISY = 0.2
"""Noise of the second moments, in units of those of public rows, from which nothing is predicted from them."""

_SEEN, _RARE = 2.0, (0.002, 0.25)
"""Standard deviations of noise from 0 or 1, and in which limits, at which a share of ones is taken to be."""

_LARGEST_PREDICTOR = 4.0
"""Standard deviation that a first linear predictor has at most."""


_LIGHTER, _NOISE = 0.05, 0.05
"""Part of the rows that may count less where noise is large, and of the sampling variance up to which it is not."""


@dataclass(frozen=True, eq=False)
class Begun:
    """What the start released, a row, in its coordinates u."""

    transform: Array
    unit: float
    size: float
    second: Array
    score: Array
    edge: float
    terms: dict[str, Released]
    kept: Kept
    score_noise: float = 0.0

    @property
    def share(self) -> float:
        """Share of ones among binary responses, from the first column, on the side of one half.

        It is no nearer to 0 or 1 than noise can tell, and moved by one standard deviation: where means are flatter than
        at the right coefficients, the next step would be too long.
        """
        noise = float(np.sqrt(self.score_noise**2 + 0.25 * self.edge**2 / len(self.score)))
        least = float(np.clip(_SEEN * noise, *_RARE))
        found = float(np.clip(self.score[0] / self.second[0, 0] + 0.5, least, 1 - least))
        return found + float(np.clip(0.5 - found, -noise, noise))

    @property
    def _followed(self) -> float:
        """Rows for which the curve of the mean is predicted: all where moments have little noise, none where much."""
        return self.size * max(0.0, 1.0 - (self.edge / _NOISY) ** 2)

    def moments(self, *, intercept: bool) -> Moments:
        """Mean and covariance of the regressors."""
        if not intercept:
            return Moments(np.zeros(len(self.second)), self.second, self._followed)
        mean = self.second[0] / self.second[0, 0]
        cov = self.second - np.outer(mean, mean) * self.second[0, 0]
        cov[0], cov[:, 0] = 0.0, 0.0
        return Moments(mean, floored(cov, 0.0), self._followed)


def binary_start(response: Response, start: Begun, *, intercept: bool) -> Array:
    """Scale least squares: slopes of the linear fit times one factor, an intercept that gives the share of ones."""
    if not intercept:
        return np.asarray(np.linalg.solve(start.second, start.score) / float(response.slope(np.zeros(1))[0]))
    moments = start.moments(intercept=True)
    share = start.share
    cov = floored(moments.cov[1:, 1:], max(OF_EDGE * start.edge, FLOOR))
    cross = start.score[1:] - moments.mean[1:] * start.score[0]
    slope = np.linalg.solve(cov, cross)
    variance = float(slope @ cov @ slope)
    # Noise alone makes predictors vary: as James and Stein, take off what it is expected to add.
    products = (start.score[0] ** 2 + float(slope @ slope)) * start.edge**2 / (2.0 * len(start.score))
    added = (start.score_noise**2 + products) * float(np.trace(np.linalg.inv(cov)))
    shrunk = max(0.0, 1.0 - added / max(variance, 1e-300))
    slope, variance = shrunk * slope, shrunk**2 * variance
    factor = matched_scale(response, share, variance)
    factor *= min(1.0, _LARGEST_PREDICTOR / max(factor * np.sqrt(variance), 1e-9))
    centre = float(intercept_for(response, share, factor**2 * variance))
    return np.concatenate([[centre - factor * float(moments.mean[1:] @ slope)], factor * slope])


def binary_radius(
    sizes: Array, counts: Array, noise: float, start: Begun, precise: float, most: tuple[float, float]
) -> float:
    """Length of whitened regressors up to which rows of binary responses keep their weight.

    Noise decides, which is in proportion to it: rows as long as usual ones keep their weight where noise stays small,
    at most a small part of the rows counts less where it does not, and in between as many as noise asks for.

    Parameters
    ----------
    sizes, counts : ndarray (B,)
        Lengths from which rows are counted, and their noisy counts up to the next.
    noise : float
        Standard deviation of a count.
    start : Begun
    precise : float
        1 over the standard deviation of the noise of the score of rows of length 1.
    most : tuple of two floats
        Largest length that was seen, and that of usual rows.
    """
    seen, usual = most
    beyond = np.cumsum(np.where(sizes < 0.999 * seen, counts, 0.0)[::-1])[::-1]
    few = np.flatnonzero(beyond + noise <= _LIGHTER * start.size)
    least = min(seen, float(sizes[few[0]])) if few.size else seen
    small = precise * float(np.sqrt(_NOISE * start.size * start.share * (1 - start.share)))
    return float(np.clip(small, least, max(seen, usual)))
