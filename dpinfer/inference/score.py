"""The score method: tests and intervals from noisy cross-products that stay valid where noise is large."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.gram import GramFit, GramProblem, noise_action
from dpinfer.numerics.roots import outermost_crossing
from dpinfer.numerics.tails import critical_value, pvalue_of

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array, Mask, Places

__all__ = [
    "joint_loadings",
    "laplace_parts",
    "laplace_shares",
    "score_interval",
    "score_joint",
    "score_of",
    "score_pvalue",
    "score_statistic",
    "taken",
]

_ROUNDS = 3
_NORMAL_DF = 1e9
_CONTRACTS, _CONTRACTIONS = 4.0, 14
_LEAST, _SLOPE = 0.6, 0.4 / 3
"""How far toward the tested value the variance is evaluated: from 1 at kappa 1 or less to .6 at kappa 4 or more."""


@dataclass(frozen=True, slots=True)
class Score:
    """How the score moves each contrast, ``c' S^-1 g`` for a contrast c, and its variance V at the estimate.

    Attributes
    ----------
    fit : GramFit
    centre : ndarray (R, k)
        Value of each contrast at the solution of the noisy normal equations.
    weights : ndarray (R, k, p)
        ``S^-1 c``, rotated.
    on_features : ndarray (R, k, d)
        The same on the measured features.
    fraction : ndarray (R, 1, 1)
        Where between the estimate (0) and the tested value (1) the variance is evaluated.
    acted : ndarray (R, k, p)
        ``V w``.
    variance : ndarray (R, k)
        ``w' V w``.
    """

    fit: GramFit
    centre: Array
    weights: Array
    on_features: Array
    fraction: Array
    acted: Array
    variance: Array

    @property
    def df(self) -> Array:
        """Degrees of freedom of the variance at the estimate (R, k), after Satterthwaite."""
        fit = self.fit
        if not fit.problem.population:
            return np.full(self.variance.shape, _NORMAL_DF)
        sampling = fit.sampling_scale[:, None] * np.einsum("rki,rki->rk", self.weights, self.weights @ fit.floored)
        ratio = np.minimum(self.variance / np.maximum(sampling, 1e-300), 1e5)
        return np.asarray(np.minimum(fit.df_units[:, None] * ratio**2, _NORMAL_DF))

    @property
    def shares(self) -> Array | None:
        """Laplace shares of the variance at the estimate, see `laplace_shares`; None where the noise is normal."""
        problem = self.fit.problem
        if not problem.laplace:
            return None
        residual = problem.response - self.fit.plain @ self.fit.rows
        return laplace_shares(problem, residual[:, None, :], self.on_features, self.variance)

    def on_the_way(self, acted: Array, multiple: Array) -> tuple[Array, Array]:
        """``V w`` and ``w' V w`` on the way to the restricted minimum, which is ``V w`` times ``multiple`` away."""
        shift = (acted @ self.fit.inverse) * multiple[..., None]
        return _action(self.fit, self.weights, self.on_features, self.fit.plain[:, None, :] - self.fraction * shift)


def score_of(fit: GramFit, contrasts: Array) -> Score:
    """Return the score of contrasts (k, p) of the coefficients."""
    rotated = np.linalg.solve(fit.mix, contrasts.T).T
    weights = np.einsum("rij,kj->rki", fit.inverse, rotated)
    on_features = weights @ fit.rows
    fraction = np.clip(1.0 - _SLOPE * (fit.kappa - 1.0), _LEAST, 1.0)
    acted, variance = _action(fit, weights, on_features, np.broadcast_to(fit.plain[:, None, :], weights.shape))
    return Score(fit, fit.plain @ rotated.T, weights, on_features, fraction[:, None, None], acted, variance)


def _action(fit: GramFit, weights: Array, on_features: Array, beta: Array) -> tuple[Array, Array]:
    """Covariance V of the score at rotated coefficients ``beta`` (R, k, p): ``V w`` (R, k, p) and ``w' V w`` (R, k)."""
    residual = fit.problem.response - beta @ fit.rows
    acted = noise_action(fit.problem, residual, on_features) @ fit.rows.T
    if fit.problem.population:
        acted = acted + fit.sampling_scale[:, None, None] * (weights @ fit.floored)
    return acted, np.einsum("rki,rki->rk", weights, acted)


def score_statistic(score: Score, values: Array) -> Array:
    """Signed root (R, k) of the score statistic of ``contrasts @ params = values``: distance over standard error.

    With ``g(b) = S_xy - S_xx b`` and ``V(b)`` its covariance, the minimum of ``g' V^-1 g`` over all b
    that meet the restriction is ``(c'b^ - value)^2 / (c' S^-1 V S^-1 c)`` for fixed V, where b^ solves
    ``g = 0``. V is evaluated on the way from b^ to the restricted minimum, which a few rounds find: all the
    way where noise dominates, .6 of the way where the design is well identified.
    """
    distance = score.centre - values
    acted, variance = score.acted, score.variance
    for _ in range(_ROUNDS):
        acted, variance = score.on_the_way(acted, distance / variance)
    return distance / np.sqrt(variance)


def laplace_shares(problem: GramProblem, residual: Array, on_features: Array, variance: Array) -> Array:
    """Share of the variance of each contrast carried by each Laplace draw, (..., d (d + 1) / 2).

    The noise is that of the cross-products of ``residual`` (..., d) with the features, which the contrast weights by
    ``on_features`` (..., d); ``variance`` (...) is the total variance of the contrast.
    """
    return laplace_parts(problem, residual, on_features) ** 2 / variance[..., None]


def laplace_parts(problem: GramProblem, residual: Array, on_features: Array) -> Array:
    """Return what Laplace draws of variance 1 add to contrasts, (..., d (d + 1) / 2); see `laplace_shares`."""
    outer = on_features[..., :, None] * residual[..., None, :]
    upper = np.triu_indices(outer.shape[-1])
    symmetric = outer + np.swapaxes(outer, -1, -2)
    coefficient = np.where(upper[0] == upper[1], 0.5, 1.0) * symmetric[..., upper[0], upper[1]]
    return np.asarray(coefficient * np.sqrt(problem.noise[upper]))


def score_pvalue(fit: GramFit, contrasts: Array, values: Array) -> Array:
    """Two-sided p-values (R, k) of ``contrasts @ params = values``; Laplace noise enters by its own law."""
    score = score_of(fit, contrasts)
    return pvalue_of(np.abs(score_statistic(score, values)), score.df, score.shares)


def score_interval(fit: GramFit, contrasts: Array, alpha: float) -> Array:
    """Intervals of level ``1 - alpha`` by inversion of the score statistic, (R, k, 2); may be infinite.

    The set of values that are not rejected may be an interval, a line, or the outside of an interval
    (Fieller 1954); what is returned is the smallest interval that holds all of it. Where the design is well
    identified the ends are found by a contraction; elsewhere, and where that does not settle, by a scan.
    """
    ends = np.empty((len(fit.kappa), len(contrasts), 2))
    settled = np.zeros(len(fit.kappa), dtype=bool)
    clear = np.flatnonzero(fit.kappa >= _CONTRACTS)
    if clear.size:
        ends[clear], settled[clear] = _contracted_ends(taken(fit, clear), contrasts, alpha)
    rest = np.flatnonzero(~settled)
    if rest.size:
        ends[rest] = _scanned_ends(taken(fit, rest), contrasts, alpha)
    return ends


def taken(fit: GramFit, index: Places) -> GramFit:
    """Return some of the replicates."""
    if len(index) == len(fit.kappa):
        return fit
    arrays = ("inverse", "floored", "plain", "params", "scale", "kappa", "df_resid", "rsquared")
    return replace(fit, **{name: getattr(fit, name)[index] for name in arrays})


def _contracted_ends(fit: GramFit, contrasts: Array, alpha: float) -> tuple[Array, Mask]:
    """Iterate ``end = centre -+ critical * error(end)``: ends (R, k, 2), and which replicates settled (R,)."""
    score = score_of(fit, contrasts)
    critical = critical_value(alpha, score.df, score.shares)
    settled = np.ones(len(fit.kappa), dtype=bool)
    ends = []
    for sign in (-1.0, 1.0):
        acted, step, half = score.acted, np.sqrt(score.variance), critical * np.sqrt(score.variance)
        for _ in range(_CONTRACTIONS):
            acted, variance = score.on_the_way(acted, -sign * critical**2 / half)
            step, half = np.abs(critical * np.sqrt(variance) - half), critical * np.sqrt(variance)
        settled &= np.all(step <= 1e-9 * half, axis=1)
        ends.append(score.centre + sign * half)
    return np.stack(ends, axis=-1), settled


def _scanned_ends(fit: GramFit, contrasts: Array, alpha: float) -> Array:
    """Find the ends of the intervals (R, k, 2) by a scan from outside in."""
    score = score_of(fit, contrasts)
    critical, error = critical_value(alpha, score.df, score.shares), np.sqrt(score.variance)

    def end(sign: float) -> Array:
        def inside(distance: Array) -> Mask:
            return np.abs(score_statistic(score, score.centre + sign * distance * error)) <= critical

        return score.centre + sign * error * outermost_crossing(inside, shape=error.shape)

    return np.stack([end(-1.0), end(1.0)], axis=-1)


def score_joint(fit: GramFit, contrasts: Array, values: Array) -> tuple[Array, Array]:
    """Score statistic (R,) of k linearly independent restrictions at once, and degrees of freedom (R,).

    The statistic is about chi-squared with k degrees of freedom under the restrictions. The degrees of freedom are the
    fewest among the restrictions, for the denominator of an F reference.
    """
    score = score_of(fit, contrasts)
    distance, beta = score.centre - values, fit.plain
    for step in range(_ROUNDS + 1):
        at = np.broadcast_to(beta[:, None, :], score.weights.shape)
        acted, _ = _action(fit, score.weights, score.on_features, at)
        spread = np.einsum("rki,rli->rkl", score.weights, acted)
        solved = np.linalg.solve(spread, distance[..., None])[..., 0]
        if step < _ROUNDS:
            shift = np.einsum("rk,rki,rij->rj", solved, acted, fit.inverse)
            beta = fit.plain - score.fraction[:, 0] * shift
    return np.einsum("rk,rk->r", distance, solved), score.df.min(axis=1)


def joint_loadings(fit: GramFit, contrasts: Array) -> Array | None:
    """Return the loadings (R, k, m) of contrasts on Laplace draws at the estimate; None where the noise is normal.

    See `dpinfer.numerics.tails.joint_pvalue`.
    """
    if not fit.problem.laplace:
        return None
    score = score_of(fit, contrasts)
    residual = fit.problem.response - fit.plain @ fit.rows
    parts = laplace_parts(fit.problem, residual[:, None, :], score.on_features)
    spread = np.einsum("rki,rli->rkl", score.weights, score.acted)
    return np.asarray(np.linalg.solve(np.linalg.cholesky(0.5 * (spread + np.swapaxes(spread, 1, 2))), parts))
