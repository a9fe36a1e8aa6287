"""Tests and intervals of the parameters of an exponential family: the score method and Wald's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.contrasts import Contrasts
from dpinfer.inference.expfam import KAPPA_RELIABLE, FamilyFit, influence, score_covariance, spread_at, take
from dpinfer.inference.expfam_profile import profile_interval, profile_pvalue
from dpinfer.statistics.tails import critical_value, pvalue_of

if TYPE_CHECKING:
    from dpinfer.statistics.arrays import Array, Mask, Places

__all__ = [
    "TOWARD_TESTED",
    "contrast_errors",
    "degrees_of_freedom",
    "from_ends",
    "linked",
    "linked_errors",
    "score_interval",
    "score_pvalue",
    "score_root",
    "wald_interval",
    "wald_pvalue",
]

TOWARD_TESTED = 0.8
"""How far from the estimate (0) to the tested value (1) the covariance of the score is evaluated, in families of
several parameters whose kappa is twice `KAPPA_RELIABLE` or more; all the way below `KAPPA_RELIABLE`, and in
families of one parameter. Chosen by simulation at 50 rows."""

_ROUNDS = 6
_SETTLED = 2e-3
_SEARCH = 40
_CLOSE = 3e-4
_SMOOTH = 9
_MILESTONES = (1.5, 2.5, 4.3, 7.4, 12.5, 21.0, 36.0)
_NORMAL_DF, _LEAST_DF = 1e9, 2.0


@dataclass(frozen=True, slots=True)
class _Root:
    """Signed root of the score statistic, the parameters it was taken at, and the weights behind it.

    Attributes
    ----------
    value : ndarray (R,)
    eta : ndarray (R, p)
        The tested value with the other parameters that suit it best.
    along : ndarray (R, p)
        How the parameters that suit a tested value best move with it.
    shares : ndarray (R, k + 1)
        Share of the variance carried by the noise of each sum and of the count.
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
        Where to look for the other parameters; by default where a linear model puts them.

    Notes
    -----
    With ``g = sums - count m(theta)`` and S its covariance, ``delta = J^-1 g / n`` points from theta to the
    estimate; with ``V = J^-1 S J^-T / n^2`` the minimum of ``g' S^-1 g`` over the other parameters is, to first
    order, ``delta_j^2 / V_jj``, reached at ``delta - V_j delta_j / V_jj``, which a few rounds find. S is taken
    all the way or `TOWARD_TESTED` of it from the estimate to the tested value: all the way is the score test,
    and none of it is Wald's; between, the interval has nearly the shape that a variance-stabilising
    transformation gives it. Where the estimate is at the edge of the space, the score test.
    """
    eta = _predicted(fit, index, tested) if start is None else start.copy()
    eta[:, index] = tested
    value, along, shares = np.empty(len(eta)), np.empty(eta.shape), np.empty((len(eta), fit.sums.shape[1] + 1))
    active = np.arange(len(eta))
    for step in range(_ROUNDS):
        some = fit if len(active) == len(eta) else take(fit, active)
        value[active], along[active], shares[active], change, settled = _round(some, index, eta[active])
        if step == _ROUNDS - 1:
            break
        active, change = active[~settled], change[~settled]
        if not active.size:
            break
        eta[active] = np.clip(eta[active] + change, *fit.problem.box.T)
        eta[active, index] = tested[active]
    return _Root(value, eta, along, shares)


def _round(fit: FamilyFit, index: int, eta: Array) -> tuple[Array, Array, Array, Array, Mask]:
    """Root, direction and shares at linked parameters, how to move the others (R, p), and whether that is little."""
    width = fit.problem.width
    there = between = fit.problem.link_moments(eta)
    if len(width) > 1:
        less = np.clip(fit.kappa / KAPPA_RELIABLE - 1.0, 0.0, 1.0) * ~fit.edge
        fraction = 1.0 - (1.0 - TOWARD_TESTED) * less[:, None]
        between = fit.problem.link_moments(fit.eta + fraction * (eta - fit.eta))
    sampling, noisy = score_covariance(fit.noise, between, fit.size)
    weights, cov = influence(there.jacobian, sampling + noisy, fit.size, width)
    moved = np.einsum("rpk,rk->rp", weights, fit.sums - fit.count[:, None] * there.mean)
    own = weights[:, index]
    variance = np.maximum(np.einsum("rk,rkl,rl->r", own, sampling + noisy, own), 1e-300)
    counted = np.einsum("rk,rk->r", own, between.mean) ** 2 * fit.noise.count_variance
    shares = np.concatenate([own**2 * fit.noise.variances, counted[:, None]], axis=1) / variance[:, None]
    along = cov[:, :, index] / cov[:, index, index, None]
    change = moved - along * moved[:, index, None]
    change[:, index] = 0.0
    settled = np.all(np.abs(change) <= _SETTLED * np.sqrt(np.diagonal(cov, axis1=1, axis2=2)), axis=1)
    change *= np.minimum(1.0, (width / 6 / np.maximum(np.abs(change), 1e-300)).min(axis=1))[:, None]
    return moved[:, index] / np.sqrt(variance), along, shares, change, settled


def _predicted(fit: FamilyFit, index: int, tested: Array) -> Array:
    """Other parameters at a tested value, from the covariance of the estimates."""
    total = fit.cov
    return _moved(fit, fit.eta, total[:, :, index] / total[:, index, index, None], tested - fit.eta[:, index])


def _moved(fit: FamilyFit, eta: Array, along: Array, distance: Array) -> Array:
    reach = fit.problem.width / 6
    return np.clip(eta + np.clip(along * distance[:, None], -reach, reach), *fit.problem.box.T)


@dataclass(frozen=True, slots=True)
class _Reference:
    """The law that a root is compared with.

    Attributes
    ----------
    df : ndarray (R,)
        Degrees of freedom of the variance that the root is divided by.
    offset : ndarray (R,)
        The root at the estimate: 0, but at the edge of the space.
    shares : ndarray (R, k + 1) or None
        None where the noise is normal.
    """

    df: Array
    offset: Array
    shares: Array | None


def _reference(fit: FamilyFit, index: int) -> _Reference:
    at = score_root(fit, index, fit.eta[:, index], fit.eta)
    shares = at.shares if fit.noise.laplace else None
    return _Reference(degrees_of_freedom(fit, index), np.where(fit.edge, at.value, 0.0), shares)


def degrees_of_freedom(fit: FamilyFit, index: int) -> Array:
    """Degrees of freedom of the variance of one estimate, (R,), after Satterthwaite.

    The variance depends on the other parameters, which are estimated: ``2 / Var(log V)``, where the variance
    of ``log V`` is that of the others given this one, by the delta method. For the mean of a Normal law
    without noise this is n; it is infinite in families of one parameter.
    """
    total = fit.cov
    others = [other for other in range(total.shape[1]) if other != index]
    if not others:
        return np.full(len(fit.eta), _NORMAL_DF)
    slopes = []
    for other in others:
        unit = np.minimum(0.5 * np.sqrt(total[:, other, other]), 0.05 * np.ptp(fit.problem.box[other]))
        shifted = [_log_variance(fit, index, other, sign * unit) for sign in (-1.0, 1.0)]
        slopes.append((shifted[1] - shifted[0]) / (2 * unit))
    slope = np.stack(slopes, axis=1)
    given = total - total[:, :, index, None] * total[:, None, index] / total[:, index, index, None, None]
    spread = np.einsum("ri,rij,rj->r", slope, given[:, others][:, :, others], slope)
    return np.asarray(np.clip(2.0 / np.maximum(spread, 2.0 / _NORMAL_DF), _LEAST_DF, _NORMAL_DF))


def _log_variance(fit: FamilyFit, index: int, other: int, shift: Array) -> Array:
    """Log variance of one estimate were another parameter different, (R,)."""
    eta = fit.eta.copy()
    eta[:, other] = np.clip(eta[:, other] + shift, *fit.problem.box[other])
    _, _, cov = spread_at(fit.problem, fit.noise, eta, fit.size)
    return np.log(cov[:, index, index])


def score_interval(fit: FamilyFit, index: int, alpha: float) -> Array:
    """Interval (R, 2) of level ``1 - alpha`` for one parameter, in its own units, by inversion of the score test.

    An end is the end of the parameter's space where nothing up to there is rejected.
    """
    ends, lost = np.empty((len(fit.eta), 2)), fit.lost
    if lost.any():
        ends[lost] = profile_interval(take(fit, np.flatnonzero(lost)), index, alpha)
    if not lost.all():
        some = take(fit, np.flatnonzero(~lost))
        reference = _reference(some, index)
        critical = critical_value(alpha, reference.df, reference.shares)
        found = [_end(some, index, sign, critical, reference.offset) for sign in (-1.0, 1.0)]
        ends[~lost] = np.stack(found, axis=1)
    return from_ends(fit, index, ends)


def from_ends(fit: FamilyFit, index: int, ends: Array) -> Array:
    """Map ends on the scale of the link to the parameter's units; the ends of the box to those of the space."""
    parameter, (low, high) = fit.problem.family.parameters[index], fit.problem.box[index]
    inside = parameter.from_link(np.clip(ends, low, high))
    return np.where(ends <= low, parameter.lower, np.where(ends >= high, parameter.upper, inside))


def _end(fit: FamilyFit, index: int, sign: float, critical: Array, offset: Array) -> Array:
    """Where the root first leaves ``critical`` on one side of the estimate, on the scale of the link, (R,).

    The distance is stretched until the root is beyond, then closed in by the Illinois rule. Infinite where
    the root stays within up to the end of the box.
    """
    at, border = fit.eta[:, index], fit.problem.box[index, int(sign > 0)]
    furthest = np.maximum(sign * (border - at), 0.0)
    error = linked_errors(fit, index)
    bracket = _Bracket(np.minimum(np.minimum(critical * error, np.maximum(0.05 * furthest, 1.0)), furthest), furthest)
    result = np.full(len(at), np.inf)
    active = np.flatnonzero(furthest > 0)
    start = _predicted(fit, index, at + sign * bracket.trial)
    for _ in range(_SEARCH):
        if not active.size:
            break
        trial = bracket.trial[active]
        some = take(fit, active)
        root = score_root(some, index, at[active] + sign * trial, start[active])
        reached = -sign * (root.value - offset[active]) / critical[active]
        bracket.learn(active, reached)
        start[active] = root.ahead(some, index, at[active] + sign * bracket.trial[active])
        result[active] = np.where((reached < 1.0) & (trial >= furthest[active]), np.inf, trial)
        active = active[(np.abs(reached - 1.0) >= _CLOSE) & ~bracket.closed[active] & np.isfinite(result[active])]
    return np.where(np.isinf(result), sign * np.inf, at + sign * result)


class _Bracket:
    """Distances at which a growing function is below and above 1, and the next one to try, for R problems."""

    def __init__(self, trial: Array, furthest: Array) -> None:
        self.trial, self.furthest = trial, furthest
        self.low, self.below = np.zeros_like(trial), np.full_like(trial, -1.0)
        self.high, self.above = np.full_like(trial, np.inf), np.full_like(trial, np.inf)
        self.side, self.steps = np.zeros_like(trial), 0

    @property
    def closed(self) -> Mask:
        """Whether the two distances are the same but for rounding (R,)."""
        return self.high * (1 - 1e-6) <= self.low

    def learn(self, rows: Places, reached: Array) -> None:
        """Take in the function's values at the trials of some problems, and choose their next trials."""
        low, high = rows[reached < 1.0], rows[reached >= 1.0]
        grown = np.clip(reached[reached < 1.0], 0.3, None)
        self.above[low] = np.where(self.side[low] < 0, 1 + (self.above[low] - 1) / 2, self.above[low])
        self.below[high] = np.where(self.side[high] > 0, (self.below[high] - 1) / 2, self.below[high])
        self.low[low], self.below[low], self.side[low] = self.trial[low], reached[reached < 1.0] - 1, -1.0
        self.high[high], self.above[high], self.side[high] = self.trial[high], reached[reached >= 1.0], 1.0
        outward = np.minimum(self.trial[low] * np.clip(1.02 / grown, 1.05, 2.5), self.furthest[low])
        self.trial[low] = outward
        self.steps += 1
        inner = rows[np.isfinite(self.high[rows])]
        share = -self.below[inner] / np.maximum(self.above[inner] - 1 - self.below[inner], 1e-300)
        self.trial[inner] = self.low[inner] + _kept(share, self.steps) * (self.high[inner] - self.low[inner])


def _kept(share: Array, steps: int) -> Array:
    """Keep a share away from the ends of the bracket; half it every third time where that takes long."""
    return np.full_like(share, 0.5) if steps > _SMOOTH and steps % 3 == 0 else np.clip(share, 0.01, 0.99)


def score_pvalue(fit: FamilyFit, index: int, value: Array) -> Array:
    """Two-sided p-values (R,) of values (R,) of one parameter by the score test.

    Far from the estimate, where all rows would be clamped, the root can fall again: a value is as implausible
    as the least plausible one met on the way to it, so that the values that are not rejected are those of
    the interval. A value at an end of the parameter's space, or beyond it, is tested at the end of a wide
    range inside the space; its p-value is small only if the sums exclude what lies before that end.
    """
    found, lost, tested = np.empty(len(fit.eta)), fit.lost, linked(fit, index, value)
    if lost.any():
        found[lost] = profile_pvalue(take(fit, np.flatnonzero(lost)), index, tested[lost])
    if not lost.all():
        some = take(fit, np.flatnonzero(~lost))
        reference = _reference(some, index)
        distance = _largest_root(some, index, tested[~lost], reference.offset)
        found[~lost] = pvalue_of(distance, reference.df, reference.shares)
    return found


def _largest_root(fit: FamilyFit, index: int, tested: Array, offset: Array) -> Array:
    """Largest absolute root between the estimate and the tested value, looked for at a few points (R,)."""
    largest, passed = np.zeros(len(tested)), np.zeros(len(tested))
    away, error, start = tested - fit.eta[:, index], linked_errors(fit, index), fit.eta.copy()
    for multiple in (*_MILESTONES, np.inf):
        reach = np.minimum(np.abs(away), multiple * error)
        active = np.flatnonzero((reach > passed) | (multiple == _MILESTONES[0]))
        if not active.size:
            break
        some, at = take(fit, active), fit.eta[active, index] + np.sign(away[active]) * reach[active]
        root = score_root(some, index, at, start[active] if multiple > _MILESTONES[0] else None)
        following = np.minimum(np.abs(away), 1.7 * reach)[active] * np.sign(away[active]) + some.eta[:, index]
        start[active], passed[active] = root.ahead(some, index, following), reach[active]
        largest[active] = np.maximum(largest[active], np.abs(root.value - offset[active]))
    return largest


def linked(fit: FamilyFit, index: int, value: Array) -> Array:
    """Map values (R,) to the scale of the link, kept within the box."""
    parameter = fit.problem.family.parameters[index]
    inside = np.clip(np.broadcast_to(value, fit.size.shape), parameter.lower, parameter.upper)
    return np.asarray(np.clip(parameter.to_link(inside), *fit.problem.box[index]))


def contrast_errors(fit: FamilyFit, contrasts: Array) -> Array:
    """Give standard errors (R, q) of combinations (q, p) of the usual parameters, by the delta method."""
    weights = contrasts[None] * fit.slope[:, None, :]
    return np.asarray(np.sqrt(np.maximum(np.einsum("rqi,rij,rqj->rq", weights, fit.cov, weights), 1e-300)))


def linked_errors(fit: FamilyFit, index: int) -> Array:
    """Give standard errors (R,) of one parameter on the scale of its link."""
    return np.sqrt(fit.cov[:, index, index])


def wald_interval(fit: FamilyFit, index: int, alpha: float) -> Array:
    """Give the normal interval on the scale of the link, mapped back, (R, 2); the score's where one is missing."""
    found = from_ends(fit, index, Contrasts(fit.eta[:, index], linked_errors(fit, index)).intervals(alpha))
    missing = np.flatnonzero(fit.missing[:, index])
    if missing.size:
        found[missing] = score_interval(take(fit, missing), index, alpha)
    return found


def wald_pvalue(fit: FamilyFit, index: int, value: Array) -> Array:
    """Two-sided normal p-values (R,) on the scale of the link; the score's where one is missing, and at ends."""
    found = Contrasts(fit.eta[:, index], linked_errors(fit, index)).pvalues(linked(fit, index, value))
    missing = np.flatnonzero(fit.missing[:, index])
    if missing.size:
        wanted = np.broadcast_to(value, fit.size.shape)[missing]
        found[missing] = score_pvalue(take(fit, missing), index, wanted)
    return found
