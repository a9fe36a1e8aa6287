"""Generalized linear models from noisy Newton rounds: one combined score, its zero and its covariance.

Notes
-----
Round t releases, at a public point theta_t, a noisy score s_t and a noisy Hessian H_t. With f_t(theta) the mean slope of
the response on the way from theta_t to theta over that at theta_t,

    g(theta) = sum_t a_t [s_t - f_t(theta) H_t (theta - theta_t)]

is a score that uses every round. Where rounds weigh rows alike, s_t - f_t H_t (theta_0 - theta_t) is the same sample in all
of them, so that g has the sampling covariance of one score, and the noise of all:

    V(theta) = meat n/(n - p) + sum_t a_t^2 [sigma_t^2 M M' + f_t^2 (tau_t^2/2) (|dz|^2 M M' + M dz dz' M')],
    dz = M' (theta - theta_t).

M maps the coordinates in which a round was released to those of the coefficients, and a symmetric matrix is released with
noise tau_t on the diagonal and tau_t/sqrt 2 beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpinfer.inference.newton_tail import Tail
from dpinfer.numerics.roots import outermost_crossing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.numerics.arrays import Array, Mask
    from dpinfer.numerics.responses import Response

__all__ = ["Moments", "NewtonFit", "Round", "next_point", "solve_rounds"]

_STEPS, _LONGEST_STEP, _FIRST_STEP = 40, 1.0, 3.0
_WEIGHTED_AT = (0, 3, 6, 12)
"""Steps at which the weights of the rounds are set anew."""

_SLOPE_RANGE = (0.02, 50.0)
_CURVED, _FARTHEST = 0.05, 9.0
"""Relative error of a Hessian used at a squared distance of 1, and the squared distance up to which it grows."""

_CLEAR = 3.0
"""Least eigenvalue of the Hessian over the size of its noise, below which noise is said to dominate."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Released mean (p,) and covariance (p, p) of the regressors, the constant first with mean 1."""

    mean: Array
    cov: Array


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
    """

    point: Array
    score: Array
    hessian: Array
    spread: Array
    score_scale: float
    hessian_scale: float

    @classmethod
    def released(cls, point: Array, score: Array, hessian: Array, spread: Array, scales: tuple[float, float]) -> Round:
        """Map a score (q,) and a Hessian (q, q) from the coordinates in which they were released."""
        return cls(point, spread @ score, spread @ hessian @ spread.T, spread, *scales)

    def apart(self, theta: Array) -> Array:
        """The difference to the point in the coordinates of the release (q,)."""
        return self.spread.T @ (theta - self.point)

    def noise(self, theta: Array, slope: float) -> Array:
        """Covariance (p, p) that noise gives ``score - slope * hessian @ (theta - point)``."""
        apart = self.apart(theta)
        square = self.spread @ self.spread.T
        moved = self.spread @ apart
        return self.score_scale**2 * square + 0.5 * (slope * self.hessian_scale) ** 2 * (
            float(apart @ apart) * square + np.outer(moved, moved)
        )


@cache
def _legendre() -> tuple[Array, Array]:
    points, weights = np.polynomial.legendre.leggauss(5)
    return 0.5 * (points + 1.0), 0.5 * weights


def _slopes(response: Response | None, moments: Moments, start: Array, end: Array) -> tuple[float, float]:
    """Mean slope on the way between two points, and at its end, over that at the start."""
    if response is None:
        return 1.0, 1.0
    points, weights = _legendre()
    path = start + np.concatenate([[0.0], points, [1.0]])[:, None] * (end - start)
    spread = np.einsum("tp,pq,tq->t", path, moments.cov, path)
    found = response.average_slope(path @ moments.mean, spread)
    kept = np.clip(np.array([weights @ found[1:-1], found[-1]]) / max(float(found[0]), 1e-300), *_SLOPE_RANGE)
    return float(kept[0]), float(kept[1])


@dataclass(frozen=True, slots=True)
class _State:
    """The combined score at one value of the coefficients."""

    score: Array
    hessian: Array
    slopes: Array
    weights: Array


@dataclass(frozen=True, slots=True)
class NewtonFit:
    """Coefficients at which the combined score is zero, and what is needed for tests and intervals.

    Attributes
    ----------
    params : ndarray (p,)
    inverse : ndarray (p, p)
        Of the combined Hessian, eigenvalues in whitened coordinates kept above its noise.
    meat : ndarray (p, p)
        Covariance of the sampled score.
    weights : ndarray (T,)
        Of the rounds; they add up to 1.
    clear : float
        Least eigenvalue of the whitened Hessian over the size of its noise; below 3 noise dominates.
    directions : ndarray (p, p)
        Columns are directions of the coefficients in which the whitened Hessian is diagonal.
    lost : ndarray (p,) of bool
        Which of them noise dominates.
    rounds, response, moments
        As given.
    hessian : ndarray (p, p)
        Combined.
    tail : Tail
        What is added to the zero of the score; ``params`` hold it.
    """

    params: Array
    inverse: Array
    meat: Array
    weights: Array
    clear: float
    directions: Array
    lost: Mask
    rounds: tuple[Round, ...]
    response: Response | None
    moments: Moments
    hessian: Array
    tail: Tail

    @property
    def flagged(self) -> bool:
        """Whether noise dominates some direction."""
        return self.clear < _CLEAR

    @property
    def cov_noise(self) -> Array:
        """Covariance (p, p) of the coefficients from privacy noise."""
        return self.inverse @ self._noise(self.params - self.tail.move) @ self.inverse.T + self.tail.noise

    @property
    def cov_sampling(self) -> Array:
        """Covariance (p, p) of the coefficients from sampling."""
        return self.inverse @ self.meat @ self.inverse.T + self.tail.sampling

    def _noise(self, theta: Array) -> Array:
        slopes = [_slopes(self.response, self.moments, one.point, theta)[0] for one in self.rounds]
        return _noise(self.rounds, theta, np.array(slopes), self.weights)

    def statistic(self, contrast: Array, value: float) -> float:
        """Root of the score statistic of ``contrast @ params = value``; see `joint_statistic`."""
        return float(np.sqrt(self.joint_statistic(contrast[None], np.array([value]))))

    def joint_statistic(self, contrasts: Array, values: Array) -> float:
        """Score statistic of ``contrasts @ params = values`` (k,), chi-squared with k degrees of freedom.

        The other coefficients are where the statistic is least for the covariance at the estimate, and score and
        covariance are taken there.
        """
        weights = self.inverse.T @ contrasts.T
        centre = self.params - self.tail.move
        direction = self.inverse @ (self._noise(centre) + self.meat) @ weights
        distance = values - contrasts @ self.params
        tested = centre + direction @ np.linalg.solve(contrasts @ direction, distance)
        state = _combined(self.rounds, self.response, self.moments, tested, self.weights)
        variance = weights.T @ (self._noise(tested) + self.meat) @ weights
        variance += contrasts @ (self.tail.noise + self.tail.sampling) @ contrasts.T
        score = weights.T @ state.score
        return float(score @ np.linalg.solve(variance, score))

    def slope_gradient(self) -> Array:
        """Derivative (p,) of the average slope by the coefficients, for a normal linear predictor."""
        assert self.response is not None
        steps = 1e-3 * np.eye(len(self.params))
        around = np.stack([self.params + steps, self.params - steps])
        spread = np.einsum("sjp,pq,sjq->sj", around, self.moments.cov, around)
        ahead, back = self.response.average_slope(around @ self.moments.mean, spread)
        return np.asarray((ahead - back) / 2e-3)

    def hessian_variance(self) -> float:
        """Variance of the noise of the first diagonal entry of the combined Hessian."""
        found = 0.0
        for one, weight in zip(self.rounds, self.weights, strict=True):
            _, slope = _slopes(self.response, self.moments, one.point, self.params)
            found += (weight * slope * one.hessian_scale * float(one.spread[0] @ one.spread[0])) ** 2
        return found

    def with_tail(self, tail: Tail) -> NewtonFit:
        """Return the fit with what was cut given back."""
        return replace(self, params=self.params + tail.move, tail=tail)

    def share_dominated(self, contrasts: Array) -> Array:
        """How much of each contrast (k, p) lies in directions that noise dominates, from 0 to 1 (k,)."""
        moved = contrasts @ self.directions
        return np.asarray((moved**2)[:, self.lost].sum(axis=1) / np.maximum((moved**2).sum(axis=1), 1e-300))

    def interval(self, contrast: Array, *, alpha: float = 0.05) -> tuple[float, float]:
        """Values that the score test of one contrast does not reject, to the outermost; infinite where it never does."""
        critical = float(stats.norm.isf(alpha / 2))
        variance = float(contrast @ (self.cov_noise + self.cov_sampling) @ contrast)
        centre, unit = float(contrast @ self.params), np.sqrt(variance)
        ends = []
        for side in (-1.0, 1.0):

            def inside(distances: Array) -> Mask:
                found = [self.statistic(contrast, centre + side * unit * float(one)) for one in distances]  # noqa: B023
                return np.array(found) <= critical

            ends.append(centre + side * unit * float(outermost_crossing(inside, shape=(1,), reach=1e3)[0]))
        return ends[0], ends[1]


def _noise(rounds: Sequence[Round], theta: Array, slopes: Array, weights: Array) -> Array:
    parts = [weight**2 * one.noise(theta, slope) for one, slope, weight in zip(rounds, slopes, weights, strict=True)]
    return np.sum(parts, axis=0)


def _combined(
    rounds: Sequence[Round], response: Response | None, moments: Moments, theta: Array, weights: Array
) -> _State:
    slopes = np.array([_slopes(response, moments, one.point, theta) for one in rounds])
    score = sum(
        weight * (one.score - slope * one.hessian @ (theta - one.point))
        for one, (slope, _), weight in zip(rounds, slopes, weights, strict=True)
    )
    hessian = sum(weight * last * one.hessian for one, (_, last), weight in zip(rounds, slopes, weights, strict=True))
    return _State(np.asarray(score), np.asarray(hessian), slopes, weights)


def _weights(rounds: Sequence[Round], theta: Array, slopes: Array) -> Array:
    """Inverse to the noise of each round and to the error of using its Hessian far from its point."""
    found = []
    for one, (slope, _) in zip(rounds, slopes, strict=True):
        apart = one.apart(theta)
        square = float(apart @ apart)
        white = np.linalg.pinv(one.spread) @ one.hessian @ np.linalg.pinv(one.spread).T
        curved = (_CURVED * slope * float(np.trace(white)) / len(white)) ** 2 * square * min(square, _FARTHEST)
        found.append(1.0 / (one.score_scale**2 + (slope * one.hessian_scale) ** 2 * square + curved))
    return np.array(found) / sum(found)


@dataclass(frozen=True, slots=True)
class _Inverse:
    """Inverse of a Hessian with whitened eigenvalues kept above noise; see `NewtonFit`."""

    matrix: Array
    clear: float
    directions: Array
    lost: Mask


def _inverse(rounds: Sequence[Round], state: _State, whiten: Array) -> _Inverse:
    white = whiten @ state.hessian @ whiten.T
    values, vectors = np.linalg.eigh(0.5 * (white + white.T))
    scales = np.array([one.hessian_scale for one in rounds]) * state.slopes[:, 1] * state.weights
    noise = float(np.sqrt((scales**2).sum() * len(values) / 2.0))
    kept = np.maximum(values, noise)
    inverse = whiten.T @ (vectors / kept) @ vectors.T @ whiten
    return _Inverse(inverse, float(values.min() / max(noise, 1e-300)), whiten.T @ vectors, values < _CLEAR * noise)


def solve_rounds(
    rounds: Sequence[Round], response: Response | None, moments: Moments, meat: Array, *, start: Array, size: float
) -> NewtonFit:
    """Find where the combined score is zero, by damped Newton steps on released numbers.

    Parameters
    ----------
    rounds : sequence of Round
        In the order in which they were released; the last one's coordinates are the whitened ones.
    response : Response
    moments : Moments
        From which the mean slope along a path is predicted.
    meat : ndarray (p, p)
        Covariance of the sampled score, positive semidefinite, for ``size`` rows.
    start : ndarray (p,)
    size : float
        Rows, for the factor n/(n - p) of small samples.

    Returns
    -------
    NewtonFit
    """
    width = len(start)
    whiten = np.asarray(np.linalg.pinv(rounds[-1].spread))
    theta, weights = start, np.full(len(rounds), 1.0 / len(rounds))
    for step in range(_STEPS):
        state = _combined(rounds, response, moments, theta, weights)
        if step in _WEIGHTED_AT:
            weights = _weights(rounds, theta, state.slopes)
            state = _combined(rounds, response, moments, theta, weights)
        move = _inverse(rounds, state, whiten).matrix @ state.score
        length = float(np.linalg.norm(rounds[-1].spread.T @ move))
        theta = theta + move * min(1.0, _LONGEST_STEP / max(length, 1e-300))
        if step > max(_WEIGHTED_AT) and length < 1e-10:
            break
    state = _combined(rounds, response, moments, theta, weights)
    inverse = _inverse(rounds, state, whiten)
    small = size / (size - width) if size > 2 * width else 2.0
    return NewtonFit(
        params=theta,
        inverse=inverse.matrix,
        meat=meat * small,
        weights=weights,
        clear=inverse.clear,
        directions=inverse.directions,
        lost=inverse.lost,
        rounds=tuple(rounds),
        response=response,
        moments=moments,
        hessian=state.hessian,
        tail=Tail.none(width),
    )


def next_point(one: Round) -> Array:
    """Point (p,) of the next round: a Newton step from this one, eigenvalues kept above noise, at most 3 long."""
    state = _State(one.score, one.hessian, np.ones((1, 2)), np.ones(1))
    move = _inverse([one], state, np.asarray(np.linalg.pinv(one.spread))).matrix @ one.score
    length = float(np.linalg.norm(one.spread.T @ move))
    return np.asarray(one.point + move * min(1.0, _FIRST_STEP / max(length, 1e-300)))
