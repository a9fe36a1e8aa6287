"""Score intervals and tests of log-linear models, for many tables at once.

The hypothesis ``c'b = q`` is tested by the fit under it: ``X'(y - mu) = l c``, l the multiplier. At that fit let
``J = X'diag(mu)X`` and S be the covariance of ``X'y``; then ``l c'J^-1 c`` has variance ``c'J^-1 S J^-1 c``. As l moves
from 0, q moves away from the estimate, and the fits make a path; the end of the interval is where the ratio reaches the
critical value. Where the path leaves the interior of the cone before, the interval is unbounded on that side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.loglinear import (
    first_guess,
    information,
    newton,
    not_singular,
    sampling_covariance,
    sampling_variance,
)
from dpinfer.numerics.tails import joint_pvalue, widened, widened_pvalue

if TYPE_CHECKING:
    from dpinfer.inference.loglinear import LogLinearFit, LogLinearModel
    from dpinfer.numerics.arrays import Array, Mask

__all__ = ["ScoreTest", "one_sided", "score_intervals", "score_test"]

_ROUNDS = 80
_CLOSE = 1e-6
_STEP = 2.0
_BEYOND = 25.0
"""Logarithm of a ratio from which an end counts as infinite."""

_TOGETHER = 2_000_000


@dataclass(frozen=True, eq=False)
class _Point:
    """A point of N paths: coordinates (N, p), multiplier (N,) and counts (N, d)."""

    coordinates: Array
    multiplier: Array
    values: Array

    def taken(self, places: object) -> _Point:
        index = np.asarray(places)
        return _Point(self.coordinates[index], self.multiplier[index], self.values[index])


def score_intervals(fit: LogLinearFit, contrasts: Array, alpha: float) -> Array:
    """Score intervals (R, k, 2) of combinations ``contrasts`` (k, p) of coefficients, from fits that exist."""
    model, (count, d), k = fit.model, fit.values.shape, len(contrasts)
    rows = contrasts @ model.basis[1]
    ends = np.empty((count * k, 2))
    size = max(_TOGETHER // (2 * (d + model.design.shape[1] ** 2)), 1)
    for begin in range(0, len(ends), size):
        pairs = np.repeat(np.arange(begin, min(begin + size, len(ends))), 2)
        table, place = np.divmod(pairs, k)
        start = _Point(fit.coordinates[table], np.zeros(len(pairs)), fit.values[table])
        sides = np.tile([1.0, -1.0], len(pairs) // 2)  # a larger multiplier is a smaller combination
        ends[begin : begin + size] = _follow(model, start, rows[place], sides, alpha).reshape(-1, 2)
    return ends.reshape(count, k, 2)


def _follow(model: LogLinearModel, start: _Point, rows: Array, sides: Array, alpha: float) -> Array:
    """Follow paths to the critical value on their sides; the combinations there (N,), infinite where there is none."""
    columns = model.basis[0]
    origin = np.einsum("np,np->n", rows, start.coordinates)
    ends = np.where(sides > 0, -np.inf, np.inf)
    alive, now = np.arange(len(sides)), start
    for _ in range(_ROUNDS):
        c, side = rows[alive], sides[alive]
        means = np.exp(np.minimum(now.coordinates @ columns.T, 300.0))
        curve = information(columns, means)
        slack = now.values @ columns - now.multiplier[:, None] * c - means @ columns
        both = _solved(curve, np.stack([slack, c], axis=-1))
        weights = both[..., 1] @ columns.T
        target = side * _critical(model, now.values, means, weights, alpha) / np.einsum("np,np->n", c, both[..., 1])
        away = target - now.multiplier
        tangent = np.abs(weights).max(axis=1)
        move = np.clip(away, -_STEP / tangent, _STEP / tangent)
        step = both[..., 0] - both[..., 1] * move[:, None]
        reach = np.abs(step @ columns.T).max(axis=1)
        size = np.where(reach > 1e-12, np.log1p(reach) / np.maximum(reach, 1e-12), 1.0)
        moved = _Point(now.coordinates + size[:, None] * step, now.multiplier + size * move, now.values)
        combination = np.einsum("np,np->n", c, moved.coordinates)
        done = (reach < _CLOSE) & (np.abs(away) <= _CLOSE * np.maximum(np.abs(target), 1e-12))
        ends[alive[done]] = combination[done]
        going = np.isfinite(combination) & np.isfinite(moved.multiplier) & ~done
        going &= np.abs(combination - origin[alive]) < _BEYOND
        alive, now = alive[going], moved.taken(going)
        if not alive.size:
            break
    return ends


def _solved(curve: Array, sides: Array) -> Array:
    p = curve.shape[1]
    curve[:, np.arange(p), np.arange(p)] += (1e-14 / p) * np.einsum("npp->n", curve)[:, None] + 1e-280
    return np.asarray(np.linalg.solve(curve, sides))


def _spread(model: LogLinearModel, values: Array, means: Array, weights: Array) -> tuple[Array, Array]:
    """Return standard deviation and excess kurtosis (N,) of sums of counts with weights (N, d)."""
    noise = model.noise.variance(weights)
    variance = noise
    if model.population:
        sampling = sampling_variance(model, values, means, (weights**2)[:, None, :])[:, 0]
        if model.nobs is not None:
            sampling = np.maximum(sampling - np.einsum("nd,nd->n", weights, means) ** 2 / model.nobs, 0.0)
        variance = noise + sampling
    variance = np.maximum(variance, 1e-300)
    if model.noise.is_normal:
        return np.sqrt(variance), np.zeros(len(variance))
    return np.sqrt(variance), model.noise.fourth_cumulant(weights) / variance**2


def _critical(model: LogLinearModel, values: Array, means: Array, weights: Array, alpha: float) -> Array:
    deviation, kurtosis = _spread(model, values, means, weights)
    return np.asarray(widened(alpha, kurtosis) * deviation)


# Tests of values


@dataclass(frozen=True, eq=False)
class ScoreTest:
    """Score tests of R tables.

    Attributes
    ----------
    exists : ndarray of bool (R,)
        Whether there is a fit under the hypothesis; where not, nothing speaks against it.
    distance : ndarray (R,)
        Signed, in standard deviations, of one restriction; the root of the squared length of several.
    pvalue : ndarray (R,)
    point : object
        Where paths to the ends of an interval begin.
    """

    exists: Mask
    distance: Array
    pvalue: Array
    point: _Point


def score_test(model: LogLinearModel, values: Array, restrictions: Array, targets: Array) -> ScoreTest:
    """Test ``restrictions @ b = targets``, independent rows (k, p), in R tables (R, d).

    The p-value of several restrictions is that of chi-squared, or of its like with Laplace variables.
    """
    columns, back = model.basis
    rows = restrictions @ back
    free = np.linalg.svd(rows)[2][len(rows) :].T
    fixed = np.linalg.lstsq(rows, targets, rcond=None)[0]
    offset = np.broadcast_to(columns @ fixed, values.shape)
    least = max(1.0, float(np.sqrt(model.noise.of_counts.max(initial=0.0))))
    guess = (first_guess(columns, values, least) - fixed) @ free
    found, means, exists = newton(columns @ free, values @ columns @ free, start=guess, offset=offset)
    coordinates = fixed + found @ free.T
    distance, pvalue, multiplier = np.zeros(len(values)), np.ones(len(values)), np.zeros(len(values))
    if exists.any():  # where there is no fit the numbers mean nothing, and need not have a covariance
        distance[exists], pvalue[exists], multiplier[exists] = _tested(model, values[exists], means[exists], rows)
    return ScoreTest(exists, distance, pvalue, _Point(coordinates, multiplier, values))


def _tested(model: LogLinearModel, values: Array, means: Array, rows: Array) -> tuple[Array, Array, Array]:
    """Return distances, p-values and multipliers (R,) at fits under restrictions, rows (k, p) of the basis."""
    columns = model.basis[0]
    slack = (values - means) @ columns
    curve = information(columns, means)
    sides = np.concatenate([slack[:, None], np.broadcast_to(rows, (len(slack), *rows.shape))], axis=1)
    both = _solved(curve, np.swapaxes(sides, 1, 2))
    shift = np.einsum("kp,np->nk", rows, both[..., 0])
    weights = np.swapaxes(both[..., 1:], 1, 2) @ columns.T
    if len(rows) == 1:
        deviation, kurtosis = _spread(model, values, means, weights[:, 0])
        distance = shift[:, 0] / deviation
        return distance, widened_pvalue(distance, kurtosis), shift[:, 0] / np.einsum("p,np->n", rows[0], both[..., 1])
    covariance = _covariance(model, values, means, weights)
    solved = np.linalg.solve(covariance, shift[..., None])[..., 0]
    distance = np.sqrt(np.maximum(np.einsum("nk,nk->n", shift, solved), 0.0))
    every = zip(distance, covariance, weights, strict=True)
    return distance, np.array([_joint_pvalue(model, *one, len(rows)) for one in every]), np.zeros(len(values))


def _joint_pvalue(model: LogLinearModel, distance: float, covariance: Array, weights: Array, count: int) -> float:
    loads = None
    if not model.noise.is_normal:
        loads = model.noise.laplace(np.linalg.solve(np.linalg.cholesky(covariance), weights))
    return joint_pvalue(float(distance) ** 2, count, loadings=loads)


def _covariance(model: LogLinearModel, values: Array, means: Array, weights: Array) -> Array:
    """Covariance (R, k, k) of sums of counts with weights (R, k, d)."""
    total = model.noise.covariance(weights)
    if model.population:
        total = total + sampling_covariance(model, values, means, weights)
    return not_singular(model, total, total)


def one_sided(model: LogLinearModel, values: Array, contrast: Array, alpha: float) -> Array:
    """Score intervals (R, 2) of a combination (p,) that tables (R, d) do not determine: unbounded on one side at least.

    The whole line where there is no fit under a value of the combination either.
    """
    ends = np.tile([-np.inf, np.inf], (len(values), 1))
    start = score_test(model, values, contrast[None], np.zeros(1))
    good = np.flatnonzero(start.exists)
    if good.size:
        rows = np.broadcast_to(contrast @ model.basis[1], (2 * good.size, len(contrast)))
        sides = np.tile([1.0, -1.0], good.size)
        ends[good] = _follow(model, start.point.taken(np.repeat(good, 2)), rows, sides, alpha).reshape(-1, 2)
    return ends
