"""Intervals and tests of the parameters of an exponential family: the score method, its profile, and Wald's.

The signed root of the score statistic is inverted from the estimate. If a release does not identify a parameter,
distant distributions fit nearly as well, and the score's derivatives at the estimate are not informative about them.
Then the squared length of the score, ``g' S^-1 g`` with ``g = sums - count m(theta)`` and S its covariance at theta, is
evaluated on a lattice over the whole space.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpinfer.families.estimation import (
    KAPPA_RELIABLE,
    FamilyFit,
    influence,
    score_at,
    score_covariance,
    simulated,
    take,
)
from dpinfer.statistics import inference
from dpinfer.statistics.arrays import inverse_form
from dpinfer.statistics.tails import critical_value, pvalue_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.release.release import Release
    from dpinfer.statistics.arrays import Array, Mask, Places

TOWARD_TESTED = 0.8
"""How far from the estimate (0) to the tested value (1) the covariance of the score is evaluated, in families of
several parameters whose kappa is twice `KAPPA_RELIABLE` or more; all the way below `KAPPA_RELIABLE`, and in
families of one parameter. Chosen by simulation at 50 rows."""

_ROUNDS, _SETTLED = 6, 2e-3
_SEARCH, _CLOSE, _SMOOTH = 40, 3e-4, 9
_MILESTONES = (1.5, 2.5, 4.3, 7.4, 12.5, 21.0, 36.0)
_NORMAL_DF, _LEAST_DF = 1e9, 2.0
_AT_ONCE = 200_000
_PROFILE_ROUNDS, _CROSSING_ROUNDS, _CROSSING_SEARCH = 4, 2, 6


# Combinations of the parameters


def located(fit: FamilyFit, rows: Array, single: Places) -> inference.Contrasts:
    """Combine the parameters by rows of weights (q, p), with a normal reference: arrays (R, q).

    A row whose ``single`` is not -1 selects that one parameter, on the scale of its link; any other combines the
    conventional parameters, by the delta method.
    """
    weights = rows[None] * fit.slope[:, None, :]
    error = np.sqrt(np.maximum(np.einsum("rqi,rij,rqj->rq", weights, fit.cov, weights), 1e-300))
    center = np.where(single >= 0, fit.eta[:, single], fit.params @ rows.T)
    return inference.Contrasts(center, np.where(single >= 0, fit.errors[:, single], error))


def in_units(fit: FamilyFit, rows: Array, single: Places, ends: Array) -> Array:
    """Map endpoints (R, q, 2) from the scales of `located` to conventional units, and box ends to space ends."""
    found = ends.copy()
    for place in np.flatnonzero(single >= 0):
        parameter, (low, high) = fit.problem.family.parameters[single[place]], fit.problem.box[single[place]]
        own = ends[:, place]
        inside = parameter.from_link(np.clip(own, low, high))
        mapped = np.where(own <= low, parameter.lower, np.where(own >= high, parameter.upper, inside))
        found[:, place] = mapped * rows[place, single[place]]
    return np.sort(found, axis=2)


def on_scale(fit: FamilyFit, rows: Array, single: Places, values: Array) -> Array:
    """Map values (q,) of combinations to the scales of `located`, kept within the box."""
    found = values.copy()
    for place in np.flatnonzero(single >= 0):
        index = single[place]
        parameter = fit.problem.family.parameters[index]
        inside = np.clip(values[place] / rows[place, index], parameter.lower, parameter.upper)
        found[place] = np.clip(parameter.to_link(inside), *fit.problem.box[index])
    return found


def intervals(fit: FamilyFit, rows: Array, single: Places, alpha: float, method: str = "score") -> Array:
    """Intervals (R, q, 2) of level ``1 - alpha`` of combinations (q, p); see `located`.

    For a single parameter, by inversion of the score test, or with "wald" by a normal approximation if it is
    identified. An endpoint is the end of the parameter space if nothing up to there is rejected. Other combinations
    have the whole line if they include a parameter that is not identified.
    """
    ends = located(fit, rows, single).intervals(alpha)
    ends[_open(fit, rows) & (single < 0)] = -np.inf, np.inf
    for place in np.flatnonzero(single >= 0):
        index = int(single[place])
        lost, others = _by_score(fit, index, method)
        if lost.size:
            ends[lost, place] = _profile_interval(take(fit, lost), index, alpha)
        if others.size:
            some = take(fit, others)
            offset, df, shares = _reference(some, index)
            critical = critical_value(alpha, df, shares)
            ends[others, place] = np.stack([_end(some, index, sign, critical, offset) for sign in (-1.0, 1.0)], axis=1)
    return in_units(fit, rows, single, ends)


def pvalues(fit: FamilyFit, rows: Array, single: Places, values: Array, method: str = "score") -> Array:
    """Two-sided p-values (R, q) of values (q,) of combinations; otherwise as in `intervals`.

    Far from the estimate, where all rows would be clipped, the root can fall again: a value is as implausible as the
    least plausible one met on the way to it, so that the values that are not rejected are those of the interval. A
    value at an end of the parameter's space, or beyond it, is tested at the end of a wide range inside the space; its
    p-value is small only if the sums exclude what lies before that end.
    """
    tested = on_scale(fit, rows, single, values)
    found = located(fit, rows, single).pvalues(tested)
    found[_open(fit, rows) & (single < 0)] = 1.0
    for place in np.flatnonzero(single >= 0):
        index = int(single[place])
        lost, others = _by_score(fit, index, method)
        if lost.size:
            found[lost, place] = _profile_pvalue(take(fit, lost), index, np.full(lost.size, tested[place]))
        if others.size:
            some = take(fit, others)
            offset, df, shares = _reference(some, index)
            largest = _largest_root(some, index, np.full(others.size, tested[place]), offset)
            found[others, place] = pvalue_of(largest, df, shares)
    return found


def _by_score(fit: FamilyFit, index: int, method: str) -> tuple[Places, Places]:
    """Masks of the releases with score inference: by the profile over the whole space, and by the root."""
    wanted = fit.missing[:, index] | (method != "wald")
    return np.flatnonzero(wanted & fit.lost), np.flatnonzero(wanted & ~fit.lost)


def _reference(fit: FamilyFit, index: int) -> tuple[Array, Array, Array | None]:
    """Root at the estimate (R,), 0 except at the edge; degrees of freedom (R,); shares of Laplace noise."""
    at = score_root(fit, index, fit.eta[:, index], fit.eta)
    offset = np.where(fit.edge, at.value, 0.0)
    return offset, degrees_of_freedom(fit, index), at.shares if fit.noise.laplace else None


def _open(fit: FamilyFit, rows: Array) -> Mask:
    """Whether each combination includes a parameter that is not identified (R, q)."""
    return np.asarray((fit.missing[:, None] & (rows != 0)).any(axis=2))


def batch(
    fit: FamilyFit,
    *,
    alpha: float,
    method: str,
    contrasts: Mapping[str, Mapping[str, float]] | None,
    tests: bool,
) -> inference.BatchEstimates:
    """Infer the parameters, and by the delta method further combinations, of R releases.

    Whether parameters are zero is tested only with ``tests``, which takes about as long as the intervals; else those
    p-values are NaN.
    """
    names = fit.problem.family.names
    rows = inference.contrast_rows(names, contrasts)
    none, places = np.full(len(rows), -1), np.arange(len(rows))
    single, normal = np.where(places < len(names), places, -1), located(fit, rows, none)
    ends = intervals(fit, rows, single, alpha, method)
    tested = pvalues(fit, rows, single if tests else none, np.zeros(len(rows)), method)
    if not tests:
        tested[:, : len(names)] = np.nan
    params, bse = (np.where(_open(fit, rows), np.nan, one) for one in (normal.center, normal.error))
    return inference.BatchEstimates((*names, *(contrasts or {})), params, bse, tested, ends, fit.flagged)


def oracle(
    fit: FamilyFit,
    *,
    sampling: Array,
    alpha: float,
    contrasts: Mapping[str, Mapping[str, float]] | None = None,
) -> inference.Oracle:
    """Return an oracle's interval width, and the signal-to-noise ratio kappa.

    The fit, to the target "data", is that of the number of rows and the expected noise-free sums; ``sampling`` (q,)
    holds the true sampling variance of every parameter and contrast. ``kappa`` is that at the true parameters.
    """
    rows, noise = inference.contrast_rows(fit.problem.family.names, contrasts), fit.noise
    laplace = None
    if noise.laplace:  # the variance of each combination that the noise of each sum and of the count brings
        moments, reach, _ = score_at(fit.problem, noise, fit.eta, fit.size)
        on_sums = (rows * fit.slope[0]) @ reach[0]
        counted = (on_sums @ moments.mean[0]) ** 2 * noise.count_variance
        laplace = np.column_stack([on_sums**2 * noise.variances, counted])
    variance = located(fit, rows, np.full(len(rows), -1)).error[0] ** 2
    return inference.Oracle.of(variance, sampling, float(fit.kappa[0]), alpha=alpha, laplace=laplace)


# The score method


@dataclass(frozen=True, slots=True)
class _Root:
    """Signed root of the score statistic, with the parameters and weights at which it was computed.

    Attributes
    ----------
    value : ndarray (R,)
    eta : ndarray (R, p)
        The tested value with the best-fitting other parameters.
    along : ndarray (R, p)
        Derivative of the best-fitting parameters in the tested value.
    shares : ndarray (R, k + 1)
        Share of the variance due to the noise of each sum and of the count.
    """

    value: Array
    eta: Array
    along: Array
    shares: Array

    def ahead(self, fit: FamilyFit, index: int, tested: Array) -> Array:
        """Predict the parameters (R, p) at other tested values."""
        return _moved(fit, self.eta, self.along, tested - self.eta[:, index])


def score_root(fit: FamilyFit, index: int, tested: Array, start: Array | None = None) -> _Root:
    """Signed root of the score statistic for one parameter at tested values.

    Parameters
    ----------
    fit : FamilyFit
    index : int
        Which parameter.
    tested : ndarray (R,)
        Values on the scale of the link.
    start : ndarray (R, p), optional
        Starting values of the other parameters; by default those from a linear model.

    Notes
    -----
    With ``g = sums - count m(theta)`` and S its covariance, ``delta = J^-1 g / n`` points from theta to the estimate;
    with ``V = J^-1 S J^-T / n^2`` the minimum of ``g' S^-1 g`` over the other parameters is, to first order,
    ``delta_j^2 / V_jj``, reached at ``delta - V_j delta_j / V_jj``, which a few iterations find. S is taken all the way
    or `TOWARD_TESTED` of it from the estimate to the tested value: all the way is the score test, and none of it is
    Wald's; between, the interval has nearly the shape that a variance-stabilising transformation gives it. Where the
    estimate is at the edge of the space, the score test.
    """
    eta = _predicted(fit, index, tested) if start is None else start.copy()
    eta[:, index] = tested
    value, along, shares = np.empty(len(eta)), np.empty(eta.shape), np.empty((len(eta), fit.sums.shape[1] + 1))
    active, width = np.arange(len(eta)), fit.problem.width
    for step in range(_ROUNDS):
        some = fit if len(active) == len(eta) else take(fit, active)
        there = between = fit.problem.link_moments(eta[active])
        if len(width) > 1:
            less = np.clip(some.kappa / KAPPA_RELIABLE - 1.0, 0.0, 1.0) * ~some.edge
            fraction = 1.0 - (1.0 - TOWARD_TESTED) * less[:, None]
            between = fit.problem.link_moments(some.eta + fraction * (eta[active] - some.eta))
        total = np.add(*score_covariance(fit.noise, between, some.size))
        weights, cov = influence(there.jacobian, total, some.size, width)
        moved = np.einsum("rpk,rk->rp", weights, some.sums - some.count[:, None] * there.mean)
        own = weights[:, index]
        variance = np.maximum(np.einsum("rk,rkl,rl->r", own, total, own), 1e-300)
        counted = np.einsum("rk,rk->r", own, between.mean) ** 2 * fit.noise.count_variance
        value[active], along[active] = (
            moved[:, index] / np.sqrt(variance),
            cov[:, :, index] / cov[:, index, index, None],
        )
        shares[active] = np.column_stack([own**2 * fit.noise.variances, counted]) / variance[:, None]
        change = moved - along[active] * moved[:, index, None]
        change[:, index] = 0.0
        open_ = np.any(np.abs(change) > _SETTLED * np.sqrt(np.diagonal(cov, axis1=1, axis2=2)), axis=1)
        change *= np.minimum(1.0, (width / 6 / np.maximum(np.abs(change), 1e-300)).min(axis=1))[:, None]
        active, change = active[open_], change[open_]
        if step == _ROUNDS - 1 or not active.size:
            break
        eta[active] = np.clip(eta[active] + change, *fit.problem.box.T)
        eta[active, index] = tested[active]
    return _Root(value, eta, along, shares)


def _predicted(fit: FamilyFit, index: int, tested: Array) -> Array:
    """Other parameters at a tested value, from the covariance of the estimates."""
    total = fit.cov
    return _moved(fit, fit.eta, total[:, :, index] / total[:, index, index, None], tested - fit.eta[:, index])


def _moved(fit: FamilyFit, eta: Array, along: Array, distance: Array) -> Array:
    reach = fit.problem.width / 6
    return np.clip(eta + np.clip(along * distance[:, None], -reach, reach), *fit.problem.box.T)


def degrees_of_freedom(fit: FamilyFit, index: int) -> Array:
    """Degrees of freedom of the variance of one estimate, (R,), after Satterthwaite.

    The variance depends on the other parameters, which are estimated: ``2 / Var(log V)``, where the variance of ``log
    V`` is that of the others given this one, by the delta method. For the mean of a normal distribution without noise
    this is n; it is infinite in families of one parameter.
    """
    problem, total = fit.problem, fit.cov
    others = [other for other in range(total.shape[1]) if other != index]
    if not others:
        return np.full(len(fit.eta), _NORMAL_DF)
    units = np.minimum(0.5 * fit.errors, 0.05 * problem.width)

    def log_variance(other: int, sign: float) -> Array:
        eta = fit.eta.copy()
        eta[:, other] = np.clip(eta[:, other] + sign * units[:, other], *problem.box[other])
        return np.log(score_at(problem, fit.noise, eta, fit.size)[2][:, index, index])

    changes = [log_variance(other, 1.0) - log_variance(other, -1.0) for other in others]
    slope = np.stack(changes, axis=1) / (2 * units[:, others])
    given = total - total[:, :, index, None] * total[:, None, index] / total[:, index, index, None, None]
    spread = np.einsum("ri,rij,rj->r", slope, given[:, others][:, :, others], slope)
    return np.asarray(np.clip(2.0 / np.maximum(spread, 2.0 / _NORMAL_DF), _LEAST_DF, _NORMAL_DF))


def _end(fit: FamilyFit, index: int, sign: float, critical: Array, offset: Array) -> Array:
    """First point at which the root exceeds ``critical`` on one side of the estimate, on the link scale, (R,).

    The distance is stretched until the root is beyond, then closed in by the Illinois rule. Infinite where
    the root stays within up to the end of the box.
    """
    at = fit.eta[:, index]
    furthest = np.maximum(sign * (fit.problem.box[index, int(sign > 0)] - at), 0.0)
    trial = np.minimum(np.minimum(critical * fit.errors[:, index], np.maximum(0.05 * furthest, 1.0)), furthest)
    low, below, side = np.zeros_like(trial), np.full_like(trial, -1.0), np.zeros_like(trial)
    high, above, result = (np.full_like(trial, np.inf) for _ in range(3))
    start = _predicted(fit, index, at + sign * trial)
    active = np.flatnonzero(furthest > 0)
    for step in range(1, _SEARCH + 1):
        if not active.size:
            break
        some, tried = take(fit, active), trial[active]
        root = score_root(some, index, at[active] + sign * tried, start[active])
        reached = -sign * (root.value - offset[active]) / critical[active]
        within = reached < 1.0
        inner, outer = active[within], active[~within]
        above[inner] = np.where(side[inner] < 0, 1 + (above[inner] - 1) / 2, above[inner])
        below[outer] = np.where(side[outer] > 0, (below[outer] - 1) / 2, below[outer])
        low[inner], below[inner], side[inner] = trial[inner], reached[within] - 1, -1.0
        high[outer], above[outer], side[outer] = trial[outer], reached[~within], 1.0
        stretch = np.clip(1.02 / np.clip(reached[within], 0.3, None), 1.05, 2.5)
        trial[inner] = np.minimum(trial[inner] * stretch, furthest[inner])
        held = active[np.isfinite(high[active])]
        share = np.clip(-below[held] / np.maximum(above[held] - 1 - below[held], 1e-300), 0.01, 0.99)
        halved = step > _SMOOTH and step % 3 == 0  # where that takes long
        trial[held] = low[held] + (0.5 if halved else share) * (high[held] - low[held])
        start[active] = root.ahead(some, index, at[active] + sign * trial[active])
        result[active] = np.where(within & (tried >= furthest[active]), np.inf, tried)
        wide = high[active] * (1 - 1e-6) > low[active]
        active = active[(np.abs(reached - 1.0) >= _CLOSE) & wide & np.isfinite(result[active])]
    return np.where(np.isinf(result), sign * np.inf, at + sign * result)


def _largest_root(fit: FamilyFit, index: int, tested: Array, offset: Array) -> Array:
    """Largest absolute root between the estimate and the tested value, over a few points (R,)."""
    largest, passed = np.zeros(len(tested)), np.zeros(len(tested))
    away, error, start = tested - fit.eta[:, index], fit.errors[:, index], fit.eta.copy()
    for multiple in (*_MILESTONES, np.inf):
        first = multiple == _MILESTONES[0]
        reach = np.minimum(np.abs(away), multiple * error)
        active = np.flatnonzero((reach > passed) | first)
        if not active.size:
            break
        some, at = take(fit, active), fit.eta[active, index] + np.sign(away[active]) * reach[active]
        root = score_root(some, index, at, None if first else start[active])
        following = np.minimum(np.abs(away), 1.7 * reach)[active] * np.sign(away[active]) + some.eta[:, index]
        start[active], passed[active] = root.ahead(some, index, following), reach[active]
        largest[active] = np.maximum(largest[active], np.abs(root.value - offset[active]))
    return largest


# The profile over the whole space


class _Profile:
    """Minimum squared length of the score at each value of one parameter, for R releases.

    Attributes
    ----------
    grid : ndarray (T,)
        Values of the parameter, on the scale of its link.
    lengths : ndarray (R, T)
        Least squared lengths on the lattice.
    least : ndarray (R,)
        The least of all.
    place : ndarray of int (R,)
        Its position on the grid.
    """

    def __init__(self, fit: FamilyFit, index: int) -> None:
        self.fit, self.index = fit, index
        self.axes, moments = fit.problem.lattice
        self.grid = self.axes[index]
        width, shape = moments.mean.shape[1], tuple(len(axis) for axis in self.axes)
        at_once = max(_AT_ONCE // len(moments.mean), 1)
        points = np.moveaxis(np.arange(len(moments.mean)).reshape(shape), index, 0).reshape(len(self.grid), -1)
        alike = fit.noise.rows_per_unit * fit.noise.population
        outer = moments.mean.T[:, None] * moments.mean.T[None]
        own, parts = np.arange(width), []
        for rows in (slice(start, start + at_once) for start in range(0, len(fit.eta), at_once)):
            size, count, sums = fit.size[rows], fit.count[rows], fit.sums[rows]
            total = np.empty((width, width, len(size), len(moments.mean)))
            total[...] = alike * size[:, None] * np.moveaxis(moments.cov, 0, -1)[:, :, None]
            total += fit.noise.count_variance * outer[:, :, None]
            total[own, own] += fit.noise.variances[:, None, None] + 1e-12 * size[:, None]
            score = sums.T[:, :, None] - count[:, None] * moments.mean.T[:, None]
            flat = inverse_form(total.reshape(width, width, -1), score.reshape(width, -1)).reshape(len(size), -1)
            ordered = flat[:, points]
            parts.append((ordered.min(axis=2), points[np.arange(len(points)), ordered.argmin(axis=2)]))
        self.lengths, self._nearest = (np.concatenate(part) for part in zip(*parts, strict=True))
        self.place = self.lengths.argmin(axis=1)
        self.least = np.minimum(self.lengths.min(axis=1), _least_length(fit, index, fit.eta, 1)[0])

    def polished(self, rows: Places, places: Places, tested: Array) -> tuple[Array, Array]:
        """Least squared lengths (r,) at tested values, and where (r, p), from the points of the lattice at places."""
        best = np.unravel_index(self._nearest[rows, places], tuple(len(axis) for axis in self.axes))
        eta = np.stack([axis[one] for axis, one in zip(self.axes, best, strict=True)], axis=1)
        eta[:, self.index] = tested
        return _least_length(take(self.fit, rows), self.index, eta, _PROFILE_ROUNDS)


def _least_length(fit: FamilyFit, index: int, start: Array, rounds: int) -> tuple[Array, Array]:
    """Minimum squared length (R,) near linked parameters, one of them fixed, and its location, by Newton steps."""
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


def _profile_interval(fit: FamilyFit, index: int, alpha: float) -> Array:
    """Return the endpoints (R, 2), on the link scale, of the values whose squared length is near the minimum.

    A value is kept where the least squared length that the other parameters allow is at most that of the whole space
    plus the squared critical value; under Laplace noise that is at least the one of one Laplace variable, whatever its
    share. What lies between kept values is kept too. An end of the box stands for the end of the parameter's space.
    """
    profile, critical = _Profile(fit, index), float(stats.norm.isf(alpha / 2))
    if fit.noise.laplace:
        critical = max(critical, -np.log(alpha) / np.sqrt(2))
    bound = np.sqrt(profile.least + critical**2)
    within = profile.lengths <= (profile.least + critical**2)[:, None]
    within[np.arange(len(within)), profile.place] = True
    low, high = within.argmax(axis=1), len(profile.grid) - 1 - within[:, ::-1].argmax(axis=1)
    ends = [_profile_end(profile, places, sign, bound) for sign, places in ((-1, low), (1, high))]
    here = fit.eta[:, index]
    return np.stack([np.minimum(ends[0], here), np.maximum(ends[1], here)], axis=1)


def _profile_end(profile: _Profile, places: Places, sign: int, bound: Array) -> Array:
    """Point at which the root of the minimum squared length passes a bound, to one side of grid points (R,).

    First along the grid, then between two of its points by the rule of false position, safeguarded.
    """
    border = len(profile.grid) - 1 if sign > 0 else 0
    beyond, there = np.zeros(len(places)), np.zeros((len(places), len(profile.axes)))
    active = np.flatnonzero(places != border)
    while active.size:
        following = places[active] + sign
        length, there[active] = profile.polished(active, following, profile.grid[following])
        beyond[active] = np.sqrt(length)
        inside = beyond[active] <= bound[active]
        places[active[inside]] = following[inside]
        active = active[inside & (following != border)]
    result = profile.grid[places].copy()
    rows = np.flatnonzero(places != border)
    if rows.size:
        fit, index, bound, far = take(profile.fit, rows), profile.index, bound[rows], there[rows]
        length, near = profile.polished(rows, places[rows], result[rows])
        low, high = np.minimum(np.sqrt(length), bound), np.maximum(beyond[rows], bound)
        for step in range(_CROSSING_SEARCH):
            share = np.clip((bound - low) / np.maximum(high - low, 1e-300), 0.1, 0.9)
            share = share if step % 3 < 2 else np.full_like(share, 0.5)
            length, eta = _least_length(fit, index, near + share[:, None] * (far - near), _CROSSING_ROUNDS)
            inside = np.sqrt(length) <= bound
            low, high = np.where(inside, np.sqrt(length), low), np.where(inside, high, np.sqrt(length))
            near, far = np.where(inside[:, None], eta, near), np.where(inside[:, None], far, eta)
        share = np.clip((bound - low) / np.maximum(high - low, 1e-300), 0.0, 1.0)
        result[rows] = near[:, index] + share * (far - near)[:, index]
    return result


def _profile_pvalue(fit: FamilyFit, index: int, tested: Array) -> Array:
    """P-values (R,) of values on the link scale: those of the most plausible value beyond, as for the intervals."""
    profile, rows, here = _Profile(fit, index), np.arange(len(tested)), fit.eta[:, index]
    best = profile.grid[profile.place]
    right = np.clip(np.searchsorted(profile.grid, tested, side="right"), 1, len(profile.grid) - 1)
    own = np.minimum(*(profile.polished(rows, place, tested)[0] for place in (right - 1, right)))
    side = np.where(tested >= best, 1.0, -1.0)[:, None]
    beyond = side * (profile.grid[None] - tested[:, None]) >= 0
    least = np.minimum(np.where(beyond, profile.lengths, np.inf).min(axis=1), own)
    root = np.sqrt(np.maximum(least - profile.least, 0.0))
    normal = 2 * stats.norm.sf(root)
    found = np.maximum(normal, np.exp(-np.sqrt(2) * root)) if fit.noise.laplace else normal
    return np.where((np.minimum(best, here) <= tested) & (tested <= np.maximum(best, here)), 1.0, found)


@dataclass(frozen=True, eq=False)
class FamilyInference(inference.Inference):
    """Parameters of an exponential family.

    A single parameter is inferred by the method on the scale of its link; any other combination of the parameters by
    the delta method, with a normal reference ("simulated": with simulated pivots). A value at or beyond the end of a
    parameter's space, such as a standard deviation of 0, is tested as the end of a wide range inside the space: its
    p-value shows whether the sums exclude everything near that end. If no distribution agrees with the noisy sums,
    simulations from the closest one are not informative about the others: "simulated" then uses the score interval and
    p-value of a single parameter. A parameter that is not identified is NaN in the estimates and their covariance. It
    has the score interval and p-value; its combinations with others have the whole line, and p-value 1.

    Attributes
    ----------
    release : Release
    fit : FamilyFit
        Of one release.
    params, cov_sampling, cov_noise, flags
        As in `Inference`; covariances by the delta method.
    """

    release: Release
    fit: FamilyFit
    params: Array
    cov_sampling: Array
    cov_noise: Array
    flags: tuple[str, ...]

    methods = ("auto", "wald", "score", "simulated")

    @cached_property
    def _drawn(self) -> FamilyFit:
        rng = np.random.default_rng(self.seed)
        return simulated(self.fit, self.release.law, self.release.steps, self.replicates, rng)

    def _read(self, rows: Array) -> tuple[Places, Mask]:
        """Return the one parameter that each row of weights (k, p) selects or -1, and which have simulated pivots.

        Pivots are not used for combinations with a parameter that is not identified, or for a single parameter at the
        edge or where noise dominates.
        """
        single = np.where((rows != 0).sum(axis=1) == 1, (rows != 0).argmax(axis=1), -1)
        unclear = self.fit.edge[0] | self.fit.missing[0].any() | (self.fit.kappa[0] < KAPPA_RELIABLE)
        serve = np.where(single >= 0, not unclear, ~(rows != 0)[:, self.fit.missing[0]].any(axis=1))
        return single, serve & (self.method == "simulated")

    def _signed_pivots(self, rows: Array, single: Places) -> tuple[inference.Contrasts, Array]:
        """Return combinations on the scales of `located`, and simulated pivots (B, k) of them."""
        own, drawn = (located(fit, rows, single) for fit in (self.fit, self._drawn))
        return own, (drawn.center - own.center) / drawn.error

    def _ends(self, rows: Array, alpha: float) -> Array:
        """See `Inference`."""
        single, drawn = self._read(rows)
        found: Array = intervals(self.fit, rows, np.where(drawn, -1, single), alpha, self.method)[0]
        if drawn.any():
            own, pivots = self._signed_pivots(rows[drawn], single[drawn])
            rank, ordered = int(np.floor(alpha / 2 * (self.replicates + 1))), np.sort(pivots, axis=0)
            outer = ordered[[-rank, rank - 1]] if rank >= 1 else np.full((2, pivots.shape[1]), [[np.inf], [-np.inf]])
            ends = np.stack([own.center - one * own.error for one in outer], axis=2)
            found[drawn] = in_units(self.fit, rows[drawn], single[drawn], ends)[0]
        return found

    def _tails(self, rows: Array, values: Array) -> Array:
        """See `Inference`."""
        single, drawn = self._read(rows)
        found: Array = pvalues(self.fit, rows, np.where(drawn, -1, single), values, self.method)[0]
        if drawn.any():
            own, pivots = self._signed_pivots(rows[drawn], single[drawn])
            tested = on_scale(self.fit, rows[drawn], single[drawn], values[drawn])
            statistic = (own.center - tested) / own.error
            tail = np.minimum((pivots >= statistic).sum(axis=0), (pivots <= statistic).sum(axis=0))
            found[drawn] = np.minimum(1.0, 2 * (1 + tail) / (self.replicates + 1))
        return found

    def _joint(self, rows: Array, values: Array) -> tuple[float, float]:
        """See `Inference`; joint restrictions that include a parameter that is not identified are never rejected."""
        if (rows != 0)[:, self.fit.missing[0]].any():
            return 0.0, 1.0

        def lengths(fit: FamilyFit, values: Array) -> Array:
            weights = rows[None] * fit.slope[:, None, :]
            return inference.wald_lengths(fit.params @ rows.T - values, weights @ fit.cov @ np.swapaxes(weights, 1, 2))

        statistic = float(lengths(self.fit, values)[0])
        if self.method != "simulated":
            return statistic, float(stats.chi2.sf(statistic, len(rows)))
        return statistic, float(inference.simulated_pvalue(lengths(self._drawn, self.fit.params @ rows.T), statistic))


def family_inference(
    release: Release, fit: FamilyFit, method: str, replicates: int, seed: int, notes: tuple[str, ...] = ()
) -> FamilyInference:
    """Return the inference on a family from one release, with warnings and further ``notes``."""
    family, noise, missing, kappa = fit.problem.family, fit.noise, fit.missing[0], float(fit.kappa[0])
    slope = np.where(missing, np.nan, fit.slope[0])
    listed = ", ".join(np.array(family.names)[missing])
    warnings = {
        f"not determined: {listed}; distant distributions fit the noisy sums, and the intervals cover them": listed,
        f"no {family.name} distribution inside the parameter space fits the noisy sums: the estimate is the "
        "closest one on the boundary; read the intervals, not the estimates": fit.edge[0],
        f"privacy noise dominates some parameter: its signal is {kappa:.2g} times the noise, below "
        f"{KAPPA_RELIABLE:g}; intervals may be wide or unbounded": kappa < KAPPA_RELIABLE,
        "the noisy number of rows is at most three standard deviations of its noise": fit.few[0],
    }
    params = np.where(missing, np.nan, fit.params[0])
    sampling, noisy = (one[0] * np.outer(slope, slope) for one in (fit.cov_sampling, fit.cov_noise))
    return FamilyInference(
        family.names,
        release,
        fit,
        params,
        sampling,
        noisy,
        (*(text for text, holds in warnings.items() if holds), *notes),
        method=method,
        target="population" if noise.population else "data",
        nobs=float(fit.count[0]),
        nobs_is_public=noise.count_variance == 0,
        replicates=replicates,
        seed=seed,
    )
