"""What noisy Newton rounds released, and their combined score at many values of the coefficients; see `NewtonFit`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array
    from dpinfer.numerics.responses import Response

__all__ = ["Moments", "Round", "Sums"]

_STEP = 0.05
"""Step in the linear predictor by which mean slopes are differentiated."""

_BENT = 2.0
"""Standard deviation of the change of a linear predictor up to which a mean function is followed."""

_ALIKE = 2.0
"""Mean squared difference of two rounds over that of their noise up to which they are taken to agree."""

_SLOPE_RANGE = (0.02, 50.0)
_CURVED, _FARTHEST = 0.05, 9.0
"""Relative error of a Hessian used at a squared distance of 1, and the squared distance up to which it grows."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Released mean (p,) and covariance (p, p) of the regressors, and for how many rows to use them."""

    mean: Array
    cov: Array
    rows: float = np.inf


@dataclass(frozen=True, slots=True)
class Round:
    """What one round released, in the coordinates of the coefficients.

    Attributes
    ----------
    point : ndarray (p,)
    score : ndarray (p,)
    hessian : ndarray (p, p)
    spread : ndarray (p, q)
        M: the noise of the score has covariance ``score_scale**2 * spread @ spread.T``.
    score_scale, hessian_scale : float
    radius : float
        By how much longer a row is in whitened coordinates than in those of the release.
    flat : bool
        Whether all entries of the Hessian have equal noise, ``hessian_scale / sqrt(2)``, as under Laplace noise.
    """

    point: Array
    score: Array
    hessian: Array
    spread: Array
    score_scale: float
    hessian_scale: float
    radius: float = 1.0
    flat: bool = False

    @classmethod
    def released(
        cls,
        point: Array,
        score: Array,
        hessian: Array,
        spread: Array,
        scales: tuple[float, float],
        radius: float = 1.0,
        *,
        flat: bool = False,
    ) -> Round:
        """Map a score (q,) and a Hessian (q, q) from the coordinates in which they were released.

        ``scales`` are the standard deviations of the noise of the score and of the Hessian's diagonal.
        """
        score_scale, hessian_scale = scales
        hessian_scale *= float(np.sqrt(2.0)) if flat else 1.0
        mapped = spread @ score, spread @ hessian @ spread.T
        return cls(point, *mapped, spread, score_scale, hessian_scale, radius, flat)

    def length(self, move: Array) -> float:
        """Return the standard deviation by which a change of the coefficients moves linear predictors, about."""
        return float(np.linalg.norm(self.spread.T @ move)) / self.radius

    def ridged(self, ridge: float) -> Array:
        """Return ``ridge`` times the identity of the coordinates of the release, in those of the coefficients."""
        return ridge * (self.spread @ self.spread.T)

    def apart(self, theta: Array) -> Array:
        """Return the difference to the point in the coordinates of the release (q,)."""
        return self.spread.T @ (theta - self.point)


@cache
def _legendre() -> tuple[Array, Array]:
    points, weights = np.polynomial.legendre.leggauss(5)
    return np.concatenate([[0.0], 0.5 * (points + 1.0), [1.0]]), 0.5 * weights


@dataclass(frozen=True, eq=False)
class Sums:
    """Rounds side by side, for the combined score at many values of the coefficients at once."""

    rounds: tuple[Round, ...]
    response: Response | None
    moments: Moments

    @cached_property
    def points(self) -> Array:
        """Their points (T, p)."""
        return np.stack([one.point for one in self.rounds])

    @cached_property
    def scores(self) -> Array:
        """Their scores (T, p)."""
        return np.stack([one.score for one in self.rounds])

    @cached_property
    def hessians(self) -> Array:
        """Their Hessians (T, p, p)."""
        return np.stack([one.hessian for one in self.rounds])

    @cached_property
    def spreads(self) -> Array:
        """Their maps M (T, p, q)."""
        return np.stack([one.spread for one in self.rounds])

    @cached_property
    def scales(self) -> Array:
        """Noise of scores and of Hessians (2, T)."""
        return np.array([(one.score_scale, one.hessian_scale) for one in self.rounds]).T

    @cached_property
    def whitened(self) -> Array:
        """Mean eigenvalue of each whitened Hessian (T,)."""
        inverses = np.linalg.pinv(self.spreads)
        return np.asarray(np.einsum("tqp,tpr,tqr->t", inverses, self.hessians, inverses) / self.spreads.shape[2])

    @cached_property
    def _starts(self) -> tuple[Array, Array, Array]:
        """Mean and variance of the linear predictor at each point (T,), and the covariance's rows (T, p)."""
        rows = self.points @ self.moments.cov
        return self.points @ self.moments.mean, (rows * self.points).sum(axis=1), rows

    def slopes(self, thetas: Array) -> Array:
        """Mean slope on the way from each point to ``thetas`` (S, p), and at its end, over the point's (2, T, S)."""
        if self.response is None:
            return np.ones((2, len(self.rounds), len(thetas)))
        at, weights = _legendre()
        mean, variance, rows = self._starts
        ends = ((thetas @ self.moments.cov) * thetas).sum(axis=1)[:, None]
        cross = (rows @ thetas.T)[:, :, None]
        centre = mean[:, None, None] * (1 - at) + (thetas @ self.moments.mean)[:, None] * at
        spread = variance[:, None, None] * (1 - at) ** 2 + 2 * cross * (at * (1 - at)) + ends * at**2
        found = self.response.average_slope(centre, spread)
        first = found[..., 0]
        if self.response.weight is not None:
            first = self.response.average_weight(mean, variance)[:, None]
        ratios = np.stack([found[..., 1:-1] @ weights, found[..., -1]]) / np.maximum(first, 1e-300)
        return np.clip(ratios, *_SLOPE_RANGE)

    @cached_property
    def _normal(self) -> tuple[Array, Array, Array]:
        """Scores (T, p), Hessians (T, p, p) and their factor (T,) that normal regressors of these moments have."""
        assert self.response is not None
        mean, cov = self.moments.mean, self.moments.cov
        centre, variance, moved = self._starts
        scores = self.response.average_mean(centre, variance)[:, None] * mean
        scores += self.response.average_slope(centre, variance)[:, None] * moved
        low, middle, high = (self.response.average_weight(centre + step, variance) for step in (-_STEP, 0.0, _STEP))
        second, third = (high - low) / (2 * _STEP), (high - 2 * middle + low) / _STEP**2
        cross = np.einsum("t,p,tq->tpq", second, mean, moved)
        hessians = middle[:, None, None] * (cov + np.outer(mean, mean)) + cross + cross.transpose(0, 2, 1)
        hessians += np.einsum("t,tp,tq->tpq", third, moved, moved)
        inverses = np.linalg.pinv(self.spreads)
        sizes = np.einsum("tqp,tpr,tqr->t", inverses, hessians, inverses) / self.spreads.shape[2]
        rows = np.maximum(self.whitened, 0.0) / np.maximum(sizes, 1e-100)
        return scores, hessians, np.minimum(rows, self.moments.rows)

    def bent(self, thetas: Array, slopes: Array) -> Array:
        """Return what slopes (T, S) leave of the way to ``thetas`` (S, p) for normal regressors, as (T, S, p)."""
        if self.response is None or not self.response.residual:
            return np.zeros((*slopes.shape, thetas.shape[1]))
        scores, hessians, factors = self._normal
        ways = thetas - self.points[:, None]
        radii = np.array([one.radius for one in self.rounds])[:, None]
        lengths = np.linalg.norm(np.einsum("tpq,tsp->tsq", self.spreads, ways), axis=2) / radii
        ways = ways * np.minimum(1.0, _BENT / np.maximum(lengths, 1e-300))[:, :, None]
        ends = self.points[:, None] + ways
        moved = ends @ self.moments.cov
        centre, variance = ends @ self.moments.mean, (moved * ends).sum(axis=2)
        there = self.response.average_mean(centre, variance)[:, :, None] * self.moments.mean
        there += self.response.average_slope(centre, variance)[:, :, None] * moved
        linear = np.einsum("tpr,tsr->tsp", hessians, ways)
        return np.asarray(factors[:, None, None] * (there - scores[:, None] - slopes[:, :, None] * linear))

    def apart(self, theta: Array) -> Array:
        """Differences to each point in the coordinates of its release (T, q)."""
        return np.asarray(np.einsum("tpq,tp->tq", self.spreads, theta - self.points))

    def weights(self, theta: Array, slopes: Array) -> Array:
        """Inverse to the noise of each round and to the error of using its Hessian far from its point."""
        square = (self.apart(theta) ** 2).sum(axis=1)
        score, hessian = self.scales
        radii = np.array([one.radius for one in self.rounds])
        curved = (_CURVED * slopes * self.whitened) ** 2 * square * np.minimum(square / radii**2, _FARTHEST)
        curved += self._disagreement(theta, slopes)
        found = 1.0 / (score**2 + (slopes * hessian) ** 2 * square + curved)
        return np.asarray(found / found.sum())

    def _disagreement(self, theta: Array, slopes: Array) -> Array:
        """Return by how much rounds differ from the last one, squared, beyond what noise explains (T,).

        All rounds see the same sample, so that the rest is what the curve of the mean was not predicted to do. It is
        the more a round's, the farther away that is.
        """
        if self.response is None or not self.response.residual:
            return np.zeros(len(self.rounds))
        moved = np.einsum("tpr,tr->tp", self.hessians, theta - self.points) * slopes[:, None]
        scores = self.scores - moved - self.bent(theta[None], slopes[:, None])[:, 0]
        white = np.einsum("qp,tp->tq", np.linalg.pinv(self.spreads[-1]), scores - scores[-1])
        score, hessian = self.scales
        square = (self.apart(theta) ** 2).sum(axis=1)
        width = white.shape[1]
        noise = score**2 + 0.5 * (slopes * hessian) ** 2 * square * (1.0 + 1.0 / width)
        excess = np.maximum((white**2).sum(axis=1) / width - _ALIKE * (noise + noise[-1]), 0.0)
        own = square**2 / np.maximum(square**2 + square[-1] ** 2, 1e-300)
        return np.asarray(_ALIKE * excess * own)

    def score(self, theta: Array, slopes: Array, weights: Array) -> Array:
        """Return the combined score (p,)."""
        moved = np.einsum("t,tpr,tr->p", weights * slopes, self.hessians, theta - self.points)
        return np.asarray(weights @ self.scores - moved - weights @ self.bent(theta[None], slopes[:, None])[:, 0])

    def noise(self, theta: Array, slopes: Array, weights: Array) -> Array:
        """Covariance (p, p) that noise gives the combined score."""
        return np.asarray(self.noises(theta[None], slopes[:, None], weights)[0])

    def noises(self, thetas: Array, slopes: Array, weights: Array) -> Array:
        """Return the covariance (S, p, p) that noise gives the combined score at many points (S, p), slopes (T, S)."""
        score, hessian = self.scales
        found = np.zeros((len(thetas), thetas.shape[1], thetas.shape[1]))
        for place, one in enumerate(self.rounds):
            apart = (thetas - one.point) @ one.spread
            square = one.spread @ one.spread.T
            moved = apart @ one.spread.T
            products = (apart**2).sum(axis=1)[:, None, None] * square + moved[:, :, None] * moved[:, None, :]
            if one.flat:
                products -= (one.spread * (apart**2)[:, None, :]) @ one.spread.T
            factors = 0.5 * (slopes[place] * hessian[place]) ** 2
            found += weights[place] ** 2 * (score[place] ** 2 * square + factors[:, None, None] * products)
        return found

    def along(self, thetas: Array, weights: Array, direction: Array) -> tuple[Array, Array]:
        """Return the combined score in a direction (p,) at many points (S, p), and the variance of its noise (S,)."""
        slopes = self.slopes(thetas)[0]
        score, hessian = self.scales
        seen = np.einsum("p,tpq->tq", direction, self.spreads)
        length = (seen**2).sum(axis=1)[:, None]
        apart = np.einsum("tpq,tsp->tsq", self.spreads, thetas - self.points[:, None])
        aligned = np.einsum("tq,tsq->ts", seen, apart)
        moved = np.einsum("p,tpr,tsr->ts", direction, self.hessians, thetas - self.points[:, None])
        moved = slopes * moved + self.bent(thetas, slopes) @ direction
        value = weights @ (self.scores @ direction) - weights @ moved
        products = (apart**2).sum(axis=2) * length + aligned**2
        flat = np.array([one.flat for one in self.rounds])[:, None]
        products -= np.where(flat, np.einsum("tq,tsq->ts", seen**2, apart**2), 0.0)
        second = 0.5 * (slopes * hessian[:, None]) ** 2 * products
        return value, weights**2 @ (score[:, None] ** 2 * length + second)
