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
from dpinfer.statistics.arrays import inverse_form

if TYPE_CHECKING:
    from dpinfer.inference.expfam import FamilyFit
    from dpinfer.statistics.arrays import Array, Places

__all__ = ["profile_interval", "profile_pvalue"]

_AT_ONCE = 200_000
_ROUNDS = 4
_FEW_ROUNDS = 2
_SEARCH = 6


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

    def start(self, rows: Places, places: Places) -> Array:
        """Return the linked parameters (r, p) of the lattice that suit values at these places best."""
        axes, _ = self.fit.problem.lattice
        found = np.unravel_index(self._nearest[rows, places], tuple(len(axis) for axis in axes))
        return np.stack([axis[one] for axis, one in zip(axes, found, strict=True)], axis=1)

    def polished(self, rows: Places, places: Places, tested: Array) -> tuple[Array, Array]:
        """Least squared lengths (r,) at tested values, and where (r, p), from the points of the lattice at places."""
        eta = self.start(rows, places)
        eta[:, self.index] = tested
        return _least_length(take(self.fit, rows), self.index, eta, _ROUNDS)


def squared_lengths(fit: FamilyFit, eta: Array) -> Array:
    """Squared lengths (R,) of the score at linked parameters (R, p), in units of its covariance there."""
    moments = fit.problem.link_moments(eta)
    total = np.add(*score_covariance(fit.noise, moments, fit.size))
    score = fit.sums - fit.count[:, None] * moments.mean
    return np.asarray(np.einsum("rk,rk->r", score, np.linalg.solve(total, score[..., None])[..., 0]))


def _least_length(fit: FamilyFit, index: int, start: Array, rounds: int) -> tuple[Array, Array]:
    """Least squared length (R,) near linked parameters, one of them held, and where: Newton's steps that shorten it."""
    others = [other for other in range(start.shape[1]) if other != index]
    reach, ends = fit.problem.width[others] / 30, fit.problem.box[others].T
    least, eta, trial = np.full(len(start), np.inf), start, start.copy()
    step, scale = np.zeros((len(start), len(others))), np.ones(len(start))
    for _ in range(rounds):
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
        scale = np.where(better, 1.0, 0.4 * scale)
        step = np.where(better[:, None], np.clip(newton, -reach, reach), step)
        trial = eta.copy()
        trial[:, others] = np.clip(eta[:, others] + scale[:, None] * step, *ends)
    return least, eta


def _critical(fit: FamilyFit, alpha: float) -> float:
    """Two-sided critical value; under Laplace noise also that of one Laplace variable, whatever its share."""
    normal = float(stats.norm.isf(alpha / 2))
    return max(normal, -np.log(alpha) / np.sqrt(2)) if fit.noise.laplace else normal


def profile_interval(fit: FamilyFit, index: int, alpha: float) -> Array:
    """Give the ends (R, 2), on the scale of the link, of the values whose squared length is near the least of all.

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


def _end(profile: _Profile, places: Places, sign: int, most: float) -> Array:
    """Where values are kept no more, beyond places on the grid that are, to one side (R,)."""
    border = len(profile.grid) - 1 if sign > 0 else 0
    places, bound = places.copy(), np.sqrt(profile.least + most)
    beyond, there = np.zeros(len(places)), np.zeros((len(places), len(profile.fit.problem.box)))
    active = np.flatnonzero(places != border)
    while active.size:
        following = places[active] + sign
        length, there[active] = profile.polished(active, following, profile.grid[following])
        beyond[active] = np.sqrt(length)
        kept = beyond[active] <= bound[active]
        places[active[kept]] = following[kept]
        active = active[kept]
        active = active[places[active] != border]
    result = profile.grid[places].copy()
    rows = np.flatnonzero(places != border)
    if rows.size:
        inner = _Side(*profile.polished(rows, places[rows], result[rows]))
        outer = _Side(beyond[rows] ** 2, there[rows])
        result[rows] = _crossing(take(profile.fit, rows), profile.index, inner, outer, bound[rows])
    return result


class _Side:
    """Root of the least squared length (r,) at one side of an end, and where it is (r, p)."""

    def __init__(self, length: Array, eta: Array) -> None:
        self.root, self.eta = np.sqrt(length), eta


def _crossing(fit: FamilyFit, index: int, inner: _Side, outer: _Side, bound: Array) -> Array:
    """Where the root of the least squared length crosses a bound (r,): the rule of false position, safeguarded."""
    low, high = np.minimum(inner.root, bound), np.maximum(outer.root, bound)
    near, far = inner.eta, outer.eta
    for step in range(_SEARCH):
        share = (bound - low) / np.maximum(high - low, 1e-300)
        share = np.clip(share, 0.1, 0.9) if step % 3 < 2 else np.full_like(share, 0.5)
        length, eta = _least_length(fit, index, near + share[:, None] * (far - near), _FEW_ROUNDS)
        kept = np.sqrt(length) <= bound
        low, high = np.where(kept, np.sqrt(length), low), np.where(kept, high, np.sqrt(length))
        near, far = np.where(kept[:, None], eta, near), np.where(kept[:, None], far, eta)
    share = np.clip((bound - low) / np.maximum(high - low, 1e-300), 0.0, 1.0)
    return np.asarray(near[:, index] + share * (far - near)[:, index])


def profile_pvalue(fit: FamilyFit, index: int, tested: Array) -> Array:
    """P-values (R,) of values on the scale of the link, that of the most plausible value beyond: as the intervals."""
    profile = _Profile(fit, index)
    rows = np.arange(len(tested))
    best = profile.grid[profile.place]
    right = np.clip(np.searchsorted(profile.grid, tested, side="right"), 1, len(profile.grid) - 1)
    own = np.minimum(*(profile.polished(rows, place, tested)[0] for place in (right - 1, right)))
    side = np.where(tested >= best, 1.0, -1.0)[:, None]
    beyond = side * (profile.grid[None] - tested[:, None]) >= 0
    least = np.minimum(np.where(beyond, profile.lengths, np.inf).min(axis=1), own)
    root = np.sqrt(np.maximum(least - profile.least, 0.0))
    here = fit.eta[:, index]
    between = (np.minimum(best, here) <= tested) & (tested <= np.maximum(best, here))
    normal = 2 * stats.norm.sf(root)
    found = np.maximum(normal, np.exp(-np.sqrt(2) * root)) if fit.noise.laplace else normal
    return np.where(between, 1.0, found)
