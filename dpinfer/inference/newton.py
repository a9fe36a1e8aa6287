"""Generalized linear models from noisy Newton rounds: one combined score, its zero and its covariance.

Notes
-----
Round t releases, at a public point theta_t, a noisy score s_t and a noisy Hessian H_t. With f_t(theta) the mean slope
of the response on the way from theta_t to theta over that at theta_t,

    g(theta) = sum_t a_t [s_t - f_t(theta) H_t (theta - theta_t)]

is a score that uses every round. Where rounds weigh rows alike, s_t - f_t H_t (theta_0 - theta_t) is the same sample in
all of them, so that g has the sampling covariance of one score, and the noise of all:

    V(theta) = meat n/(n - p) + sum_t a_t^2 [sigma_t^2 M M' + f_t^2 (tau_t^2/2) (|dz|^2 M M' + M dz dz' M')],
    dz = M' (theta - theta_t).

M maps the coordinates in which a round was released to those of the coefficients, and a symmetric matrix is released
with noise tau_t on the diagonal and tau_t/sqrt 2 beside it. Under Laplace noise all entries have equal noise
tau_t/sqrt 2, and M diag(dz)^2 M' is taken off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpinfer.inference.newton_rounds import Moments, Round, Sums
from dpinfer.inference.newton_score import LinearScore
from dpinfer.inference.newton_tail import Tail
from dpinfer.inference.newton_terms import floored
from dpinfer.numerics.forms import root_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpinfer.numerics.arrays import Array, Mask
    from dpinfer.numerics.responses import Response

__all__ = ["Moments", "NewtonFit", "Round", "next_point", "solve_rounds", "toward"]

_STEPS, _LONGEST_STEP, _FIRST_STEP = 40, 1.0, 1.5
_WEIGHTED_AT = (0, 3, 6, 12)
"""Steps at which the weights of the rounds are set anew."""

_RIDGE = 2.0
"""Least eigenvalue over the size of its noise, below which an estimate is drawn to the last round's point."""

_REACH = 2.0
"""Estimates move linear predictors by at most this standard deviation from the last round's point."""

_BENT = 0.2
"""Standard deviation of linear predictors above which the curve of their means tells in the law of estimates."""

_CLEAR = 3.0
"""Least eigenvalue of the Hessian over the size of its noise, below which noise is said to dominate."""

_RARE = 50.0
"""Largest eigenvalue over that noise from which directions that noise dominates are rare ones, as of a level without
rows: these move means by little, so that coefficients in them are taken to be where estimates are."""


@dataclass(frozen=True, eq=False)
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
    clearest : float
        The largest.
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
    clearest: float
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
    def bent(self) -> bool:
        """Whether estimates of a binary response move means so far that they are not normal."""
        if self.response is None or not self.response.residual:
            return False
        last = self.rounds[-1]
        moved = last.spread.T @ (self.cov_noise + self.cov_sampling) @ last.spread
        return float(np.sqrt(max(float(np.trace(moved)), 0.0))) > _BENT * last.radius

    @property
    def cov_noise(self) -> Array:
        """Covariance (p, p) of the coefficients from privacy noise."""
        return self.inverse @ self._noise(self.params - self.tail.move) @ self.inverse.T + self.tail.noise

    @property
    def cov_sampling(self) -> Array:
        """Covariance (p, p) of the coefficients from sampling."""
        moved = self.inverse @ self._root
        return moved @ moved.T + self.tail.sampling

    @cached_property
    def _root(self) -> Array:
        """A root of the meat: whatever is made of it has no negative variance."""
        return root_of(0.5 * (self.meat + self.meat.T))

    @cached_property
    def _linear(self) -> LinearScore | None:
        """What tests are of, where the model is linear and noise does not only hide what is rare."""
        if self.response is not None or (self.flagged and self.clearest >= _RARE):
            return None
        return LinearScore(self._sums, self.weights, self.meat, self.tail)

    @cached_property
    def _sums(self) -> Sums:
        return Sums(self.rounds, self.response, self.moments)

    def _noise(self, theta: Array) -> Array:
        return self._sums.noise(theta, self._sums.slopes(theta[None])[0, :, 0], self.weights)

    @cached_property
    def _total(self) -> Array:
        """Covariance (p, p) of the score at the estimate."""
        return self._noise(self.params - self.tail.move) + self.meat

    def statistics(self, contrast: Array, values: Array) -> Array:
        """Roots of the score statistics of ``contrast @ params = values`` (S,); see `joint_statistic`."""
        if self._linear is not None:
            return np.sqrt(self._linear.statistics(contrast[None], values[:, None]))
        weights = self.inverse.T @ contrast
        direction = self.inverse @ self._total @ weights
        steps = (values - contrast @ self.params) / (contrast @ direction)
        score, noise = self._sums.along(
            self.params - self.tail.move + steps[:, None] * direction, self.weights, weights
        )
        given_back = contrast @ (self.tail.noise + self.tail.sampling) @ contrast
        return np.asarray(np.abs(score) / np.sqrt(noise + ((weights @ self._root) ** 2).sum() + given_back))

    def joint_statistic(self, contrasts: Array, values: Array) -> float:
        """Score statistic of ``contrasts @ params = values`` (k,), chi-squared with k degrees of freedom.

        The other coefficients are where the statistic is least for the covariance at the estimate, and score and
        covariance are taken there; see `LinearScore` for linear models.
        """
        if self._linear is not None:
            return float(self._linear.statistics(contrasts, values[None])[0])
        weights = self.inverse.T @ contrasts.T
        direction = self.inverse @ self._total @ weights
        distance = values - contrasts @ self.params
        tested = (
            self.params - self.tail.move + direction @ np.linalg.pinv(contrasts @ direction, hermitian=True) @ distance
        )
        score = weights.T @ self._sums.score(tested, self._sums.slopes(tested[None])[0, :, 0], self.weights)
        variance = weights.T @ (self._noise(tested) + self.meat) @ weights
        variance += contrasts @ (self.tail.noise + self.tail.sampling) @ contrasts.T
        return float(score @ np.linalg.pinv(variance, hermitian=True) @ score)

    def slope_gradient(self) -> Array:
        """Return the derivative (p,) of the average slope by the coefficients, for a normal linear predictor."""
        assert self.response is not None
        steps = 1e-3 * np.eye(len(self.params))
        around = np.stack([self.params + steps, self.params - steps])
        spread = np.einsum("sjp,pq,sjq->sj", around, self.moments.cov, around)
        ahead, back = self.response.average_slope(around @ self.moments.mean, spread)
        return np.asarray((ahead - back) / 2e-3)

    def hessian_variance(self) -> float:
        """Variance of the noise of the first diagonal entry of the combined Hessian."""
        found = 0.0
        slopes = self._sums.slopes(self.params[None])[1, :, 0]
        for one, weight, slope in zip(self.rounds, self.weights, slopes, strict=True):
            scale = one.hessian_scale * (0.5**0.5 if one.flat else 1.0)
            found += (weight * slope * scale * float(one.spread[0] @ one.spread[0])) ** 2
        return found

    def with_tail(self, tail: Tail) -> NewtonFit:
        """Return the fit with what was cut given back."""
        return replace(self, params=self.params + tail.move, tail=tail)

    def share_dominated(self, contrasts: Array) -> Array:
        """How much of each contrast (k, p) lies in directions that noise dominates, from 0 to 1 (k,)."""
        moved = contrasts @ self.directions
        return np.asarray((moved**2)[:, self.lost].sum(axis=1) / np.maximum((moved**2).sum(axis=1), 1e-300))

    def interval(self, contrast: Array, *, alpha: float = 0.05) -> tuple[float, float]:
        """Return the outermost values that the score test does not reject, infinite where it never does."""
        critical = float(stats.norm.isf(alpha / 2))
        if self._linear is not None:
            centre, unit = self._linear.centre(contrast)
        else:
            variance = float(contrast @ (self.cov_noise + self.cov_sampling) @ contrast)
            centre, unit = float(contrast @ self.params), float(np.sqrt(max(variance, 1e-300)))  # rounding may undo it
        sides = np.array([-unit, unit])

        def inside(distances: Array) -> Mask:
            values = centre + sides[:, None] * distances
            return (self.statistics(contrast, values.ravel()) <= critical).reshape(values.shape)

        low, high = centre + sides * _outermost(inside)
        estimate = float(contrast @ self.params)  # drawn to the last point where noise is large
        return min(float(low), estimate), max(float(high), estimate)


_GRID = np.concatenate([[0.0], np.geomspace(0.5, 1e3, 48)])


def _outermost(inside: Callable[[Array], Mask]) -> Array:
    """Return the largest distances from zero, to both sides (2,), that are inside: infinite beyond 1000."""
    points = np.tile(_GRID, (2, 1))
    last, both = _last(inside(points)), np.arange(2)
    unbounded = last == len(_GRID) - 1
    last -= unbounded
    for _ in range(4):
        points = np.linspace(points[both, last], points[both, last + 1], 17, axis=1)
        held = inside(points[:, 1:-1])
        last = np.where(held.any(axis=1), _last(held) + 1, 0)
    return np.where(unbounded, np.inf, points[both, last + 1])


def _last(held: Mask) -> Array:
    """Place of the last that is held, in each row; 0 where none is."""
    return np.asarray(np.where(held.any(axis=1), held.shape[1] - 1 - held[:, ::-1].argmax(axis=1), 0))


@dataclass(frozen=True, slots=True)
class _Inverse:
    """Inverse of a Hessian with whitened eigenvalues kept above noise; see `NewtonFit`."""

    matrix: Array
    clear: float
    clearest: float
    directions: Array
    lost: Mask


def _inverse(hessian: Array, noise: float, whiten: Array) -> _Inverse:
    """Invert a Hessian whose noise has this size in whitened coordinates."""
    white = whiten @ hessian @ whiten.T
    values, vectors = np.linalg.eigh(0.5 * (white + white.T))
    kept = np.maximum(values, noise)
    inverse = whiten.T @ (vectors / kept) @ vectors.T @ whiten
    least, most = np.array([values.min(), values.max()]) / max(noise, 1e-300)
    return _Inverse(inverse, float(least), float(most), whiten.T @ vectors, values < _CLEAR * noise)


def toward(hessian: Array, meat: Array, whiten: Array, scale: float, *, flat: bool) -> Array:
    """Return the meat, drawn to what the model says it is by as much as noise may explain the difference."""
    difference = whiten @ (meat - hessian) @ whiten.T
    width = len(difference)
    expected = scale**2 * width * (width if flat else (width + 1) / 2)
    kept = max(0.0, 1.0 - expected / max(float((difference**2).sum()), 1e-300))
    back = np.linalg.inv(whiten)
    return back @ floored(whiten @ hessian @ whiten.T + kept * difference, 0.0) @ back.T


def solve_rounds(
    rounds: Sequence[Round],
    response: Response | None,
    moments: Moments,
    meat: Array,
    *,
    start: Array,
    size: float,
    meat_scale: float | None = None,
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
    meat_scale : float, optional
        Noise of the meat's diagonal in whitened coordinates, where the model says that the meat is the Hessian: it is
        drawn to it by as much as noise may explain the difference.

    Returns
    -------
    NewtonFit
    """
    width = len(start)
    whiten = np.asarray(np.linalg.pinv(rounds[-1].spread))
    sums = Sums(tuple(rounds), response, moments)
    theta, weights = start, np.full(len(rounds), 1.0 / len(rounds))
    kept, least = theta, np.inf
    for step in range(_STEPS + 1):
        slopes, ends = sums.slopes(theta[None])[..., 0]
        if step in _WEIGHTED_AT:
            weights = sums.weights(theta, slopes)
            kept, least = theta, np.inf
        hessian = np.tensordot(weights * ends, sums.hessians, 1)
        noise = float(np.sqrt(((sums.scales[1] * ends * weights) ** 2).sum() * width / 2.0))
        inverse = _inverse(hessian, noise, whiten)
        ridge = rounds[-1].ridged(max(0.0, _RIDGE - inverse.clear) * noise)
        left = sums.score(theta, slopes, weights) - ridge @ (theta - start)
        off = float(np.linalg.norm(whiten @ left))
        used = _inverse(hessian + ridge, noise, whiten).matrix if ridge.any() else inverse.matrix
        move = used @ left
        length = rounds[-1].length(move)
        if step == _STEPS or (step > max(_WEIGHTED_AT) and length < 1e-10):
            break
        if off > least:  # farther from zero: half as far
            theta = 0.5 * (kept + theta)
            continue
        kept, least = theta, off
        theta = theta + move * min(1.0, _LONGEST_STEP / max(length, 1e-300)) - start
        theta = start + theta * min(1.0, _REACH / max(rounds[-1].length(theta), 1e-300))
    if meat_scale is not None:
        meat = toward(hessian, meat, whiten, meat_scale, flat=rounds[-1].flat)
    small = size / (size - width) if size > 2 * width else 2.0
    return NewtonFit(
        params=theta,
        inverse=inverse.matrix,
        meat=meat * small,
        weights=weights,
        clear=inverse.clear,
        clearest=inverse.clearest,
        directions=inverse.directions,
        lost=inverse.lost,
        rounds=tuple(rounds),
        response=response,
        moments=moments,
        hessian=hessian,
        tail=Tail.none(width),
    )


def next_point(one: Round, longest: float = _FIRST_STEP) -> Array:
    """Return the point (p,) of the next round: a Newton step of limited length, eigenvalues kept above noise."""
    noise = one.hessian_scale * float(np.sqrt(len(one.point) / 2.0))
    move = _inverse(one.hessian, noise, np.asarray(np.linalg.pinv(one.spread))).matrix @ one.score
    return np.asarray(one.point + move * min(1.0, longest / max(one.length(move), 1e-300)))
