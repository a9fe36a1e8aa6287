"""Intervals and tests from the whole parameter space, where an estimate is no place to start from.

A release that leaves a parameter open is fitted nearly as well by laws that are far apart: the score's derivatives at
the estimate then say nothing about the others. Here the squared length of the score, ``g' S^-1 g`` with
``g = sums - count m(theta)`` and S its covariance at theta, is looked at on a lattice of the whole space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpinfer.inference.expfam import score_covariance, take
from dpinfer.numerics.forms import inverse_form
from dpinfer.numerics.roots import bisected

if TYPE_CHECKING:
    from dpinfer.inference.expfam import FamilyFit
    from dpinfer.numerics.arrays import Array

__all__ = ["profile_interval", "profile_pvalue"]

_AT_ONCE = 200_000
_ROUNDS = 4
_BISECTIONS = 9
_HALVINGS = 2


class _Profile:
    """Least squared length of the score at each value of one parameter, for R releases.

    Attributes
    ----------
    grid : ndarray (T,)
        Values of the parameter, on the scale of its link.
    lengths : ndarray (R, T)
        Least squared lengths on the lattice.
    least : ndarray (R,)
        The least of all.
    place : ndarray of int (R,)
        Where on the grid that is.
    """

    def __init__(self, fit: FamilyFit, index: int) -> None:
        self.fit, self.index = fit, index
        axes, moments = fit.problem.lattice
        shape = tuple(len(axis) for axis in axes)
        self.grid = axes[index]
        at_once = max(_AT_ONCE // len(moments.mean), 1)
        parts = [self._along(slice(start, start + at_once), shape) for start in range(0, len(fit.eta), at_once)]
        self.lengths, self._nearest = (np.concatenate(part) for part in zip(*parts, strict=True))
        self.place = self.lengths.argmin(axis=1)
        self.least = np.minimum(self.lengths.min(axis=1), squared_lengths(fit, fit.eta))

    def _along(self, rows: slice, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """Least squared lengths by value (r, T), and the points of the lattice (r, T) that have them."""
        fit, (_, moments) = self.fit, self.fit.problem.lattice
        width = moments.mean.shape[1]
        size, count, sums = fit.size[rows], fit.count[rows], fit.sums[rows]
        noise = fit.noise
        alike = noise.rows_per_unit * noise.population
        cov = np.moveaxis(moments.cov, 0, -1)
        outer = moments.mean.T[:, None] * moments.mean.T[None]
        total = np.empty((width, width, len(size), len(moments.mean)))
        total[...] = alike * size[:, None] * cov[:, :, None] + noise.count_variance * outer[:, :, None]
        own = np.arange(width)
        total[own, own] += noise.variances[:, None, None] + 1e-12 * size[:, None]
        score = sums.T[:, :, None] - count[:, None] * moments.mean.T[:, None]
        flat = inverse_form(total.reshape(width, width, -1), score.reshape(width, -1)).reshape(len(size), *shape)
        ordered = np.moveaxis(flat, 1 + self.index, 1).reshape(len(size), shape[self.index], -1)
        points = np.moveaxis(np.arange(flat[0].size).reshape(shape), self.index, 0).reshape(shape[self.index], -1)
        best = ordered.argmin(axis=2)
        return np.take_along_axis(ordered, best[..., None], 2)[..., 0], points[np.arange(len(points)), best]

    def start(self, rows: Array, places: Array) -> Array:
        """Return the linked parameters (r, p) of the lattice that suit values at these places best."""
        axes, _ = self.fit.problem.lattice
        found = np.unravel_index(self._nearest[rows, places], tuple(len(axis) for axis in axes))
        return np.stack([axis[one] for axis, one in zip(axes, found, strict=True)], axis=1)

    def polished(self, rows: Array, tested: Array, places: Array) -> Array:
        """Least squared lengths (r,) at tested values, from the better of the points at two places (r, 2)."""
        fit, found = take(self.fit, rows), []
        for one in places.T:
            eta = self.start(rows, one)
            eta[:, self.index] = tested
            found.append(_least_length(fit, self.index, eta))
        return np.minimum(*found)


def squared_lengths(fit: FamilyFit, eta: Array) -> Array:
    """Squared lengths (R,) of the score at linked parameters (R, p), in units of its covariance there."""
    moments = fit.problem.link_moments(eta)
    total = np.add(*score_covariance(fit.noise, moments, fit.size))
    score = fit.sums - fit.count[:, None] * moments.mean
    return np.asarray(np.einsum("rk,rk->r", score, np.linalg.solve(total, score[..., None])[..., 0]))


def _least_length(fit: FamilyFit, index: int, eta: Array) -> Array:
    """Least squared length (R,) near linked parameters, one of them held: Newton's steps that make it shorter."""
    others = [other for other in range(eta.shape[1]) if other != index]
    least = np.full(len(eta), np.inf)
    trial, scale = eta.copy(), np.ones(len(eta))
    step = np.zeros((len(eta), len(others)))
    for _ in range(_ROUNDS):
        moments = fit.problem.link_moments(trial)
        total = np.add(*score_covariance(fit.noise, moments, fit.size))
        score = fit.sums - fit.count[:, None] * moments.mean
        slopes = fit.size[:, None, None] * moments.jacobian[:, :, others]
        solved = np.linalg.solve(total, np.concatenate([score[..., None], slopes], axis=2))
        length = np.einsum("rk,rk->r", score, solved[..., 0])
        better = length < least
        least, eta = np.where(better, length, least), np.where(better[:, None], trial, eta)
        information = np.swapaxes(slopes, 1, 2) @ solved[..., 1:]
        gradient = np.einsum("rko,rk->ro", slopes, solved[..., 0])
        ridge = np.eye(len(others)) * (1e-9 + 1e-6 * np.trace(information, axis1=1, axis2=2))[:, None, None]
        newton = np.linalg.solve(information + ridge, gradient[..., None])[..., 0]
        reach = fit.problem.width[others] / 30
        scale = np.where(better, 1.0, 0.4 * scale)
        step = np.where(better[:, None], np.clip(newton, -reach, reach), step)
        trial = eta.copy()
        trial[:, others] = np.clip(eta[:, others] + scale[:, None] * step, *fit.problem.box[others].T)
    return least


def _critical(fit: FamilyFit, alpha: float) -> float:
    """Two-sided critical value; under Laplace noise also that of one Laplace variable, whatever its share."""
    normal = float(stats.norm.isf(alpha / 2))
    return max(normal, -np.log(alpha) / np.sqrt(2)) if fit.noise.laplace else normal


def profile_interval(fit: FamilyFit, index: int, alpha: float) -> Array:
    """Ends (R, 2), on the scale of the link, of the values whose squared length is near the least of all.

    A value is kept where the least squared length that the other parameters allow is at most that of the whole space
    plus the squared critical value. What lies between kept values is kept too. An end of the box stands for the end
    of the parameter's space.
    """
    profile, most = _Profile(fit, index), _critical(fit, alpha) ** 2
    within = profile.lengths <= (profile.least + most)[:, None]
    last = len(profile.grid) - 1
    rows = np.arange(len(within))
    within[rows, profile.place] = True
    low, high = within.argmax(axis=1), last - within[:, ::-1].argmax(axis=1)
    ends = [_end(profile, places, sign, most) for sign, places in ((-1, low), (1, high))]
    here = fit.eta[:, index]
    return np.stack([np.minimum(ends[0], here), np.maximum(ends[1], here)], axis=1)


def _end(profile: _Profile, places: Array, sign: int, most: float) -> Array:
    """Where values are kept no more, beyond places on the grid that are, to one side (R,)."""
    last = len(profile.grid) - 1
    border = last if sign > 0 else 0
    places = places.copy()
    active = np.flatnonzero(places != border)
    while active.size:
        following = places[active] + sign
        tried = np.stack([places[active], following], axis=1)
        kept = profile.polished(active, profile.grid[following], tried) <= profile.least[active] + most
        places[active[kept]] = following[kept]
        active = active[kept]
        active = active[places[active] != border]
    result = profile.grid[places].copy()
    inner = np.flatnonzero(places != border)
    if inner.size:
        tried = np.stack([places[inner], places[inner] + sign], axis=1)
        bound = profile.least[inner] + most
        ends = profile.grid[tried]
        low, high = bisected(
            lambda value: profile.polished(inner, value, tried) <= bound, ends[:, 0], ends[:, 1], rounds=_BISECTIONS
        )
        result[inner] = high
    return result


def profile_pvalue(fit: FamilyFit, index: int, tested: Array) -> Array:
    """P-values (R,) of values on the scale of the link, that of the most plausible value beyond: as the intervals."""
    profile = _Profile(fit, index)
    rows = np.arange(len(tested))
    best = profile.grid[profile.place]
    right = np.clip(np.searchsorted(profile.grid, tested, side="right"), 1, len(profile.grid) - 1)
    own = profile.polished(rows, tested, np.stack([right - 1, right], axis=1))
    side = np.where(tested >= best, 1.0, -1.0)[:, None]
    beyond = side * (profile.grid[None] - tested[:, None]) >= 0
    least = np.minimum(np.where(beyond, profile.lengths, np.inf).min(axis=1), own)
    root = np.sqrt(np.maximum(least - profile.least, 0.0))
    here = fit.eta[:, index]
    between = (np.minimum(best, here) <= tested) & (tested <= np.maximum(best, here))
    normal = 2 * stats.norm.sf(root)
    found = np.maximum(normal, np.exp(-np.sqrt(2) * root)) if fit.noise.laplace else normal
    return np.where(between, 1.0, found)
