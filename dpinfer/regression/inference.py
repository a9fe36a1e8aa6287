"""From what the iterations of a regression released to estimates, intervals and tests.

Notes
-----
The last iteration releases, at a public point theta_1 and in whitened coordinates z = W'u, a score s and a Hessian, and
the estimate is ``theta_1 + W d`` with ``d = J^-1 s``. A contrast l of d has

- sampling variance ``l'J^-1 M J^-1 l``, M the products of scores; what clipping took of these is restored;
- noise variance ``l'J^-1 N J^-1 l``, with
  ``N = sigma^2 I + sum_t w_t^2 tau_t^2/2 (|e_t|^2 C_t C_t' + C_t e_t e_t' C_t')`` and ``e_t = C_t' d``: the Hessian of
  iteration t was released in coordinates from which C_t leads to those of the last, with noise tau_t on its diagonal
  and tau_t/sqrt 2 beside it;
- a bias of at most ``B |J^-1 l|`` from clipping (`dpinfer.regression.clipping`).

Long rows, which the Hessian leaves out in part, are a positive matrix D of trace E, about, that J lacks. The step d is
mostly noise of the iteration before, and its direction has nothing to do with theirs: on average ``(l'J^-1 D d)^2`` is
at most ``E^2 |J^-1 l|^2 |d|^2/k``, which is counted in N, as of noise, and not as a bias. Along d it counts in full,
for long rows may have turned the step towards themselves. Hessians of several iterations lack the same rows at the
same step: what they lack adds up.

N is that at the value which is tested, not at the estimate: the step there multiplies the noise of the Hessian. So the
interval of a contrast whose Hessian is not far above its noise is longer on the side away from the point, as Fieller's
(1954) of a ratio is, and may be unbounded.

The noise of M makes the variance V itself uncertain; the reference is a t distribution whose degrees of freedom are
``2 V^2`` over the variance of V (Satterthwaite, 1946). In directions in which the eigenvalue of the Hessian is not
clear of its noise Wald intervals say nothing. There the interval of a contrast holds the values that the score does not
reject, the other coefficients being where its statistic is least: the statistic of Anderson and Rubin of a subset
(Guggenberger, Kleibergen, Mavroeidis & Chen, 2012), which may leave it unbounded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import optimize, special, stats

from dpinfer.regression.clipping import LOST, folded_quantile, folded_tail
from dpinfer.regression.iterations import floored
from dpinfer.statistics.inference import Inference, wald_lengths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpinfer.regression.iterations import Iteration
    from dpinfer.regression.models import Response
    from dpinfer.statistics.arrays import Array, Mask

METHODS = ("auto", "wald", "score")

_LEAST_DF, _MOST_STEADY = 3.0, 1e8
"""Degrees of freedom are no fewer; a variance is no more than so many times its error, where squares overflow."""

_DOMINATED = 100.0
"""Standard errors by which directions that are noise may move a contrast that scores serve."""

_OVERFLOWN = 1e300
"""Stands for a statistic that overflows: no minimum."""

_NAMED = 3.0
"""A term is named as mostly noise where its interval is more than so many times as long as sampling makes it."""

_APART = 1e-12

_ROUNDED = 1e-9
"""Part of a contrast that is rounding."""

_AHEAD = 0.9
"""Cosine of the last two steps from which the second goes on where the first led."""

_MOST_BENT = 2.0
"""Logarithm of the factor by which a Hessian may change along a step, at most."""

_SHORTEST = 1e-6
"""Part of its largest length that a step is taken to have."""

_FAR_SHIFT = 100.0
"""Noncentrality from which a tail is that of a normal length."""

_FAR = 1e3
"""Standard errors from the estimate at which an interval that has not ended has no end."""

_FARTHEST = 1e20
"""Standard errors from the estimate beyond which nothing changes, where squares overflow."""

_HALVINGS = 64
"""Of where an end of an interval may lie."""


class AverageSlope(NamedTuple):
    """The average over rows of the derivative of the mean by the linear predictor, at the estimate.

    Attributes
    ----------
    value : float
    variance : float
        Of its error: from privacy noise, and from the coefficients at which the derivative is taken. The rows count
        as fixed.
    covariance : ndarray (p,) or None
        With the coefficients, sampling and noise; None where it is not known, and is bounded then.
    """

    value: float
    variance: float
    covariance: Array | None = None


class AverageChange(NamedTuple):
    """The average over rows of what the mean changes by where a term takes another value, at the estimate.

    Attributes
    ----------
    name, term : str
        What the effect is called, and the term that changes: a factor has several changes.
    kind : str
        "dummy", "factor" or "count".
    value : float
    variance : float
        Of the noise of what was released.
    gradient : ndarray (p,)
        Derivative by the coefficients.
    """

    name: str
    term: str
    kind: str
    value: float
    variance: float
    gradient: Array


@dataclass(frozen=True, eq=False)
class Fit:
    """An estimate in k coordinates u, and what tests need.

    Attributes
    ----------
    point, params : ndarray (k,)
        Of the last iteration, and the estimate.
    whiten : ndarray (k, k)
        W.
    score : ndarray (k,)
        In coordinates z.
    hessian, inverse : ndarray (k, k)
        J in coordinates z as released, and its inverse with eigenvalues kept above noise.
    lost : ndarray (k, q)
        Leads from the unit ball to the steps of z that are possible where the Hessian is noise.
    meat, seen : ndarray (k, k)
        M in coordinates z, and without what was added to make it a likelihood's.
    meat_noise : float
        Standard deviation of the noise of its diagonal.
    score_noise : float
    hessians : tuple of (ndarray (k, k), float, float)
        C of each iteration, and the noise of its Hessian, and what its eigenvalues may lack, times its weight.
    excess : float
        What clipping is expected to take from all scores together, B.
    short : ndarray (k, r)
        Scores that clipping may have taken beside, each with either sign, where products fall short of a likelihood's.
    left : float
        What a straight step leaves, as a length of scores where the Hessian is 1.
    rest : ndarray (k,)
        Part of the step, in coordinates z, that is not taken.
    flat : bool
        Whether noise is Laplace's: equal in all entries, and lengths are sums of absolute values.
    intercept : tuple of float
        Variance and bias of the first coordinate beside these.
    groups : int
        Number of groups whose scores M is made of; 0 if it is made of those of units.
    """

    point: Array
    params: Array
    whiten: Array
    score: Array
    hessian: Array
    inverse: Array
    lost: Array
    meat: Array
    seen: Array
    meat_noise: float
    score_noise: float
    hessians: tuple[tuple[Array, float, float], ...]
    excess: float
    short: Array
    left: float
    rest: Array
    flat: bool
    intercept: tuple[float, float] = (0.0, 0.0)
    groups: int = 0

    @property
    def flagged(self) -> bool:
        """Whether the Hessian is noise in some direction."""
        return bool(self.lost.shape[1])

    def noise(self, step: Array, tested: Array | None = None) -> Array:
        """Covariance (k, k) of the noise of the score at a step d from the point, in coordinates z.

        What the Hessians lack counts as at ``step``, their noise as at the step that is ``tested``, if one is given.
        """
        found = self.score_noise**2 * np.eye(len(step))
        lacks, tested = self._lacks(step), step if tested is None else tested
        for (mapped, noise, _), lack in zip(self.hessians, lacks, strict=True):
            along, moved = mapped.T @ step, mapped.T @ tested
            along = along / max(float(np.linalg.norm(along)), 1e-300)
            found += sum(lacks) * lack * mapped @ _about(along) @ mapped.T
            inner = float(moved @ moved) * np.eye(len(step)) + np.outer(moved, moved)
            if self.flat:
                inner -= np.diag(moved**2)
            found += 0.5 * noise**2 * mapped @ inner @ mapped.T
        return np.asarray(found)

    def _lacks(self, step: Array) -> list[float]:
        """Return by how much what each Hessian lacks may move the score at a step: of the same rows, these add up."""
        return [missed * float(np.linalg.norm(mapped.T @ step)) for mapped, _, missed in self.hessians]

    @cached_property
    def step(self) -> Array:
        """The step d of the estimate."""
        return np.asarray(np.linalg.solve(self.whiten, self.params - self.point))

    def loadings(self, contrasts: Array) -> Array:
        """Return J^-1 W'c for contrasts c of the coordinates u, as (n, k)."""
        return np.asarray(contrasts @ self.whiten @ self.inverse)

    def cov_sampling(self, contrasts: Array) -> Array:
        """Covariance (n, n) of contrasts (n, k) of the estimate from sampling."""
        beside = self.intercept[0] * np.outer(contrasts[:, 0], contrasts[:, 0])
        return np.asarray(_squared(self.loadings(contrasts), self.meat) + beside)

    def drawn(self, contrasts: Array) -> Array:
        """Return the variances (n,) from sampling of contrasts (n, k), as seen where the Hessian is no noise."""
        told = self.loadings(contrasts) @ self._told
        found = np.einsum("nk,kl,nl->n", told, self.seen, told) + self.intercept[0] * contrasts[:, 0] ** 2
        return np.asarray(found)

    def cov_noise(self, contrasts: Array) -> Array:
        """Covariance (n, n) of contrasts (n, k) of the estimate from noise."""
        return _squared(self.loadings(contrasts), self.noise(self.step))

    def tested(self, contrasts: Array, away: Array) -> Array:
        """Return the covariance (n, n) of contrasts (n, k) of the estimate, if the truth lies ``away`` (n,) from it.

        Noise of the Hessians multiplies the step that is tested, not that of the estimate (Fieller, 1954). The other
        coefficients are where they are best predicted from these. What a Hessian lacks makes no value farther away more
        likely: with it the step is shorter. Directions that are noise are left to `untold`.
        """
        along, spread = self._spread(contrasts)
        # In standard errors, noise's with them: no restriction is lost for its units.
        units = np.sqrt(np.maximum(np.diag(self.cov_sampling(contrasts) + self.cov_noise(contrasts)), 1e-300))
        spread = spread / units[:, None]
        step = self.step + spread.T @ np.linalg.lstsq(spread @ along.T / units, away / units, rcond=_APART)[0]
        return self.cov_sampling(contrasts) + _squared(self.loadings(contrasts), self.noise(self.step, step))

    def bent(self, contrasts: Array) -> tuple[Array, Array]:
        """Return B and C, as (n,): at x from the estimate, the variance V of a contrast (n, k) is V + 2 B x + C x^2.

        That of `tested`, of each contrast alone, if no direction is lost; lost ones do not change here.
        """
        along, spread = self._spread(contrasts)
        variance = np.einsum("nk,nk->n", along, spread)
        turns = spread / np.maximum(variance, 1e-300)[:, None]
        loadings = self.loadings(contrasts) @ self._told
        parts = [self._multiplied(loadings, steps) for steps in (self.step + turns, np.zeros_like(turns) + self.step)]
        square = self._multiplied(loadings, turns)
        return 0.5 * (parts[0] - parts[1] - square), square

    @cached_property
    def _told(self) -> Array:
        """Projection (k, k) to the directions of z in which the Hessian is no noise."""
        lost = self.lost / np.maximum(np.linalg.norm(self.lost, axis=0), 1e-300)
        return np.asarray(np.eye(len(self.step)) - lost @ lost.T)

    def _spread(self, contrasts: Array) -> tuple[Array, Array]:
        """Return contrasts of steps, as (n, k), and their covariances (n, k) with the step of the estimate."""
        whole = contrasts @ self.whiten
        along = whole @ self._told
        # A contrast of lost directions alone has no other part, but for rounding.
        along[np.linalg.norm(along, axis=1) <= _ROUNDED * np.linalg.norm(whole, axis=1)] = 0.0
        return along, along @ self.inverse @ (self.meat + self.noise(self.step)) @ self.inverse

    def _multiplied(self, loadings: Array, steps: Array) -> Array:
        """Return the variances (n,) that noise of the Hessians makes of loadings (n, k) at steps (n, k)."""
        found = np.zeros(len(loadings))
        for mapped, noise, _ in self.hessians:
            told, moved = loadings @ mapped, steps @ mapped
            inner = (told**2).sum(axis=1) * (moved**2).sum(axis=1) + (told * moved).sum(axis=1) ** 2
            if self.flat:
                inner -= (told**2 * moved**2).sum(axis=1)
            found += 0.5 * noise**2 * inner
        return found

    def bias(self, contrasts: Array) -> Array:
        """Bound on the bias of contrasts (n, k), as (n,)."""
        return _reach(self._pulls(contrasts))

    def untold(self, contrasts: Array) -> Array:
        """Return how far contrasts (n, k) may lie from the estimate along directions that are noise, as (n,)."""
        return np.asarray(np.linalg.norm(contrasts @ self.whiten @ self.lost, axis=1))

    def joint_shift(self, contrasts: Array, covariance: Array, *, score: bool = False) -> float:
        """Return the largest noncentrality that a bias of contrasts (n, k) has, given their covariance (n, n).

        With ``score`` that of the score along them.
        """
        factor, total = np.linalg.cholesky(covariance + _APART * np.diag(np.diag(covariance))), 0.0
        for matrix, flat in self._pulls(contrasts, score=score):
            found = np.linalg.solve(factor, matrix)
            total += float(np.linalg.norm(found, axis=0).max() if flat else np.linalg.norm(found, 2))
        return total**2

    def _pulls(self, contrasts: Array, *, score: bool = False) -> list[tuple[Array, bool]]:
        """Return what may bias contrasts (n, k), or the score along them: matrices (n, q) times something unknown.

        That has a length of at most 1, or a sum of absolute values if the truth value beside the matrix is true.
        """
        values, vectors = np.linalg.eigh(self.inverse)
        root = (vectors / np.sqrt(np.maximum(values, 1e-300))) @ vectors.T
        loadings, moved = self.loadings(contrasts), contrasts @ self.whiten
        found = [(loadings * self.excess, self.flat), (loadings @ root * self.left, False)]
        found += [(loadings @ one[:, None], False) for one in self.short.T]
        if not score:
            beside = (moved @ self.rest[:, None], contrasts[:, :1] * self.intercept[1], moved @ self.lost)
            found += [(one, False) for one in beside if one.shape[1]]
        return found

    def freedom(self, contrasts: Array, variances: Array) -> Array:
        """Degrees of freedom of contrasts (n, k) with these variances, as (n,)."""
        moved = self.loadings(contrasts)
        largest = np.maximum(np.abs(moved).max(axis=1), 1e-150)
        moved = moved / largest[:, None]
        fourth = (moved**2).sum(axis=1) ** 2
        if self.flat:
            fourth = 2 * fourth - (moved**4).sum(axis=1)
        error = self.meat_noise * largest**2 * np.sqrt(fourth)
        steady = variances / np.maximum(error, variances / _MOST_STEADY)
        found = 2 * steady**2
        if not self.groups:
            return np.asarray(np.maximum(found, _LEAST_DF))
        return np.asarray(np.maximum(1 / (1 / found + 1 / (self.groups - 1)), min(_LEAST_DF, self.groups - 1)))

    def dominated(self, contrasts: Array) -> Mask:
        """Whether directions in which the Hessian is noise may move contrasts (n, k) far, as (n,)."""
        moved = self.loadings(contrasts)
        variances = np.einsum("nk,kl,nl->n", moved, self.meat + self.noise(self.step), moved)
        return np.asarray(self.untold(contrasts) > _DOMINATED * np.sqrt(variances))

    # Score statistics

    def statistic(self, contrasts: Array, values: Array) -> float:
        """Return the least ``g'V^-1 g`` over steps at which contrasts (q, k) of coefficients have these values (q,).

        Minimised by gradients over the steps that are free, from several starts.
        """
        rows = contrasts @ self.whiten
        fixed: Array = np.asarray(
            np.linalg.lstsq(rows, values - contrasts @ self.point, rcond=None)[0], dtype=np.float64
        )
        _, sizes, vectors = np.linalg.svd(rows)
        free = vectors[int((sizes > 1e-12 * sizes.max(initial=1e-300)).sum()) :].T

        def form(step: Array) -> tuple[float, Array]:
            left = self.score - self.hessian @ step
            solved = np.linalg.solve(self.noise(step) + self.meat, left)
            slope = -2 * self.hessian.T @ solved
            lacks = sum(self._lacks(step))
            both, turns = 0.0, np.zeros_like(step)
            for mapped, noise, missed in self.hessians:
                moved, along = mapped.T @ step, mapped.T @ solved
                length = max(float(np.linalg.norm(moved)), 1e-300)
                unit = moved / length
                towards = _about(unit) @ along
                both += missed * length * float(along @ towards)
                beside = 2 * (1 - 1 / len(unit)) * float(along @ unit) * (along - float(along @ unit) * unit)
                turns += missed * mapped @ (float(along @ towards) * unit + beside)
                slope -= noise**2 * mapped @ (moved * (along @ along) + along * (along @ moved))
                if self.flat:
                    slope += noise**2 * mapped @ (moved * along**2)
            for mapped, _, missed in self.hessians:
                moved = mapped.T @ step
                slope -= both * missed / max(float(np.linalg.norm(moved)), 1e-300) * mapped @ moved
            return float(left @ solved), slope - lacks * turns

        if not free.shape[1]:
            return form(fixed)[0]
        metric = self.meat + self.noise(self.step)
        weights = np.linalg.solve(metric, self.hessian)
        near = self.step - fixed
        quadratic = free.T @ self.hessian.T @ weights @ free
        best = np.inf
        starts = [
            np.linalg.lstsq(quadratic, free.T @ weights.T @ (self.score - self.hessian @ fixed), rcond=None)[0],
            free.T @ near,
            np.zeros(free.shape[1]),
        ]
        largest = max(float(np.linalg.norm(self.hessian, 2)), 1e-300)
        scale = max(float(np.linalg.norm(self.step)), self.score_noise / largest)
        for start in starts:

            def shape(moved: Array) -> tuple[float, Array]:
                with np.errstate(over="ignore", invalid="ignore"):  # a line search may try steps that overflow
                    value, slope = form(fixed + free @ moved * scale)
                    slope = free.T @ slope * scale
                if np.isfinite(value) and np.isfinite(slope).all():
                    return value, slope
                return _OVERFLOWN, np.zeros_like(moved)

            found = optimize.minimize(shape, start / scale, jac=True, method="L-BFGS-B", options={"maxiter": 200})
            best = min(best, float(found.fun))
        return best

    def score_interval(self, contrast: Array, alpha: float) -> tuple[float, float]:
        """Return the outermost values of a contrast (k,) that the score test does not reject; infinite if none."""
        longer = _longer(np.array([alpha]), self._score_freedom(contrast[None]))
        critical = float((folded_quantile(alpha, self._score_bias(contrast[None])) * longer)[0]) ** 2
        centre = float(contrast @ self.params)
        variance = float((self.cov_sampling(contrast[None]) + self.cov_noise(contrast[None]))[0, 0])
        unit = float(np.sqrt(max(variance, 1e-300)))

        def outside(value: float) -> float:
            return self.statistic(contrast[None], np.array([value])) - critical

        ends = []
        for side in (-1.0, 1.0):
            if outside(centre + side * _FAR * unit) <= 0:
                ends.append(side * np.inf)
                continue
            reach, last = unit, 0.0
            while reach < _FAR * unit and outside(centre + side * reach) <= 0:
                last, reach = reach, min(2 * reach, _FAR * unit)
            if outside(centre + side * last) > 0:
                ends.append(centre)
                continue
            root = optimize.brentq(lambda one, side=side: outside(centre + side * one), last, reach, rtol=1e-3)
            ends.append(centre + side * root)
        return float(ends[0]), float(ends[1])

    def score_tail(self, contrasts: Array, values: Array) -> float:
        """P-value of the score test that contrasts (q, k) have these values (q,)."""
        statistic, freedom = self.statistic(contrasts, values), self._score_freedom(contrasts)
        if len(contrasts) == 1:
            distance = np.sqrt(np.maximum([statistic], 0.0))
            return float(_two_sided(distance, self._score_bias(contrasts), freedom)[0])
        moved = self.loadings(contrasts)
        spread = moved @ (self.meat + self.noise(self.step)) @ moved.T
        shift = self.joint_shift(contrasts, spread, score=True)
        return _squared_tail(statistic, len(contrasts), _pooled(freedom), shift)

    def _score_freedom(self, contrasts: Array) -> Array:
        """Degrees of freedom of the variance of the score along contrasts (n, k), as (n,)."""
        return self.freedom(contrasts, np.diag(self.cov_sampling(contrasts) + self.cov_noise(contrasts)))

    def _score_bias(self, contrasts: Array) -> Array:
        """Bias of the score over its standard deviation, along contrasts (n, k), as (n,)."""
        moved = self.loadings(contrasts)
        spread = np.einsum("nk,kl,nl->n", moved, self.meat + self.noise(self.step), moved)
        return np.asarray(_reach(self._pulls(contrasts, score=True)) / np.sqrt(np.maximum(spread, 1e-300)))


def solved(
    iterations: Sequence[Iteration],
    weights: Sequence[float],
    floor: float,
    meat: tuple[Array, float],
    *,
    excess: float,
    size: float,
    units: float,
    second: Array,
    least: Array,
    longest: float,
    reach: float,
    flat: bool,
    bend: float = 0.0,
    raised: float = 0.0,
    robust: bool = True,
    groups: int = 0,
    curved: bool = False,
    smoothed: bool = False,
    clipped: float = 0.0,
    carried: Callable[[Array, Array], Array] | None = None,
) -> Fit:
    """Return the estimate one step from the last iteration's point.

    Parameters
    ----------
    iterations : sequence of Iteration
    weights : sequence of float
        Of their Hessians.
    floor : float
        Least eigenvalue of the whitened Hessian that is no noise, if all of them are small.
    meat : tuple of (ndarray, float)
        Products of scores (k, k), for all of what clipping took, with the noise of their diagonal; or with
        ``robust=False`` the variance of residuals (1,).
    excess : float
        What clipping took from all scores, at most.
    size, units : float
        Sum of the weights of rows, and number of units, for the factor n/(n - k) of small samples.
    second, least : ndarray (k, k)
        Second moments of the coordinates u: as large as they may be, and as they are taken to be in directions in which
        the Hessian is noise.
    longest, reach : float
        Standard deviations of the linear predictor by which the step moves it at most, and by which the true step may
        move it in those directions.
    flat : bool
        Whether noise is Laplace's.
    bend : float
        By which part a Hessian may change where the linear predictor moves by a standard deviation of 1: the step is
        straight, and what it leaves is a bias.
    raised : float
        Part by which the Hessians were raised for what they may lack: without, the step is as much longer.
    groups : int
        Of whose scores the products are, if they are not those of units.
    curved : bool
        Whether the Hessians of the last two iterations tell how it changes along the step.
    smoothed : bool
        Whether Hessians are smoothed more widely than scores.
    clipped : float
        What clipping took from the trace of the products, at most, where rows are independent.
    carried : callable, optional
        Where products are the Hessian if the model is right: what clipping took from scores whose squares are missing
        (`Lengths.carried`).
    """
    last = iterations[-1]
    whiten, width = last.whiten, len(last.point)
    total = sum(weight * one.hessian for weight, one in zip(weights, iterations, strict=True))
    hessian = whiten.T @ np.asarray(total) @ whiten
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    kept_from = max(_clear_of_noise(values, floor), 1e-6 * size)
    kept = np.maximum(values, kept_from)
    even = mean = (vectors * kept) @ vectors.T
    inverse = (vectors / kept) @ vectors.T
    beside = 0.0
    if smoothed and len(iterations) > 1:
        mean, beside = _steepened(even, iterations, whiten)
        inverse = np.linalg.inv(mean)
    whole, told = inverse @ last.score, values >= kept_from
    step, rest = np.zeros(width), np.zeros(width)
    for part in (told, ~told):  # one that is mostly noise does not cut the other short
        along = vectors[:, part] @ (vectors[:, part].T @ whole)
        taken = min(1.0, longest / max(_length(second, whiten @ along), 1e-300))
        step, rest = step + taken * along, rest + (1 - taken) * along
    along = vectors[:, told] @ (vectors[:, told].T @ step)  # rows hardly vary along the others
    # On rows in which rare levels are as frequent as others, of which u is orthonormal, it moves by the length of u.
    moves = max(_length(second, whiten @ along), float(np.linalg.norm(whiten @ along)))
    left = 0.5 * bend * moves * _length(mean, along)
    if curved and not rest.any():
        root, between = vectors / np.sqrt(kept), np.linalg.solve(whiten, last.point - iterations[-2].point)
        on, before = (vectors.T @ one * np.sqrt(kept) for one in (step, between))
        ahead = float(on @ before) / max(float(np.linalg.norm(on) * np.linalg.norm(before)), 1e-300)
        straight = _straightened(iterations, whiten @ root, ahead * _length(second, whiten @ step), second, told)
        inverse = root @ straight @ root.T
        mean = (vectors * np.sqrt(kept)) @ np.linalg.inv(straight) @ (vectors * np.sqrt(kept)).T
        turned = inverse @ last.score - step  # taken to be right to a half where the way goes on
        right = 0.5 if ahead > _AHEAD else 0.0
        left = max(left, (1 - right) * _length(mean, turned))
        step = step + turned
    lost = _possible(vectors[:, ~told], whiten, least + _SHORTEST**2 * second, reach)
    small = units / (units - width) if units > 2 * width else 2.0
    values_of, noise = meat
    released = floored(values_of, 0.0) if robust else max(float(values_of[0]), noise) * even
    products = seen = _filled(released, even, clipped, noise) if robust else released
    short = np.zeros((width, 0))
    if carried is not None:
        edge = LOST * noise * np.sqrt(width * (2 if flat else 1))  # Laplace noise is the same in all entries
        unclear = float(np.hypot(edge, max(floor, kept_from))) + (last.missed * (1 + raised) if flat else 0.0)
        products, short = _evened(released, even, unclear, carried, flat=flat)
    return Fit(
        last.point,
        last.point + whiten @ step,
        whiten,
        last.score,
        mean + (vectors * (values - kept)) @ vectors.T,
        inverse,
        lost,
        np.asarray(products) * small,
        np.asarray(seen) * small,
        noise * small,
        float(np.hypot(last.score_noise, beside)),
        tuple(
            (whiten.T @ one.back, weight * one.hessian_noise, weight * one.missed * (1 + raised))
            for weight, one in zip(weights, iterations, strict=True)
        ),
        excess,
        short,
        left,
        rest,
        flat,
        groups=groups,
    )


def _filled(products: Array, even: Array, clipped: float, noise: float) -> Array:
    """Return products of scores (k, k), with more in the directions where they fall short of those of even errors.

    About how much clipping took from their trace is known, not from which directions: long scores are mostly those of
    long rows. Products of independent rows with even errors are a multiple of the Hessian ``even`` (k, k). What they
    fall short of it by, beyond noise (of a diagonal, or under Laplace noise of all entries), is added, ``clipped`` in
    all at most; this is beside what all directions were given.
    """
    equal = even * (np.trace(products) / max(float(np.trace(even)), 1e-300))
    values, vectors = np.linalg.eigh(equal - products)
    short = np.where(values > LOST * noise * np.sqrt(len(even)), values, 0.0)
    short *= min(1.0, clipped / max(float(short.sum()), 1e-300))
    return np.asarray(products + (vectors * short) @ vectors.T)


def _evened(
    products: Array, even: Array, unclear: float, carried: Callable[[Array, Array], Array], *, flat: bool
) -> tuple[Array, Array]:
    """Return products of a likelihood's scores, no less than its Hessian, and what clipping took as well, as columns.

    Where the model is right both are one matrix at the truth (Fisher, 1925). A direction (an eigenvector) in which
    products fall short of the Hessian by more than is ``unclear`` is one that few long rows may carry, which noise hid.
    """
    values, vectors = np.linalg.eigh(even - products)
    values, vectors = values[values > unclear], vectors[:, values > unclear]
    shares = values / np.einsum("jk,jl,lk->k", vectors, even, vectors)
    unit = np.abs(vectors).sum(axis=0) if flat else np.ones(len(values))  # lengths, along eigenvectors
    return np.asarray(products + (vectors * values) @ vectors.T), vectors * carried(values * unit**2, shares) / unit


def _about(unit: Array) -> Array:
    """Return the mean product (k, k) of a step with itself whose direction is ``unit``, or one that nobody knows."""
    width = len(unit)
    return np.asarray(np.eye(width) / width + (1 - 1 / width) * np.outer(unit, unit))


def _clear_of_noise(values: Array, floor: float) -> float:
    """Return the least eigenvalue that is no noise, of eigenvalues (k,) from the least on; ``floor`` if all are small.

    Noise mixes those q that are small among themselves only, and is to them what a matrix of q columns is: its edge
    grows with the root of their number. One more is allowed for.
    """
    edges = floor * np.sqrt(np.minimum(np.arange(2, len(values) + 2), len(values)) / len(values))
    small = np.flatnonzero(values < edges)
    return float(edges[small[-1]] if small.size else edges[0])


def _straightened(iterations: Sequence[Iteration], root: Array, moved: float, second: Array, told: Mask) -> Array:
    """Return a matrix (k, k), near 1, that makes the last Hessian's inverse that of the mean Hessian along a step.

    Directions in which the Hessian is 1 are the columns of ``root`` (k, k), in coordinates u. Between the last two
    iterations it fell by the factor e^-t in each of those directions that keep it diagonal; along the step, of length
    ``moved`` in their direction, it is taken to fall as fast, less two standard deviations of noise. Its mean there is
    (1 - e^-t)/t. Directions that noise hides, where not ``told`` (k,), are left as they are.
    """
    before, last = iterations[-2:]
    between = _length(second, last.point - before.point)
    values, vectors = np.linalg.eigh(root.T @ before.hessian @ root)
    directions = root @ vectors
    errors = 2 * np.array(
        [one.hessian_noise * np.sum((one.back.T @ directions) ** 2, axis=0) for one in (before, last)]
    )
    clear = values > errors[0]
    fallen = np.log(np.where(clear, values, 1.0))
    blur = np.where(clear, np.hypot(errors[0] / np.maximum(values, 1e-300), errors[1]), np.inf)
    rate = np.sign(fallen) * np.maximum(np.abs(fallen) - blur, 0.0) / max(between, 1e-300)
    total = np.clip(rate * moved, -_MOST_BENT, _MOST_BENT)
    straight = np.where(total == 0, 1.0, total / -np.expm1(np.where(total == 0, -1.0, -total)))
    found = (vectors * straight) @ vectors.T
    both = np.outer(told, told)
    return np.asarray(np.where(both, found, np.eye(len(found))))


def _steepened(hessian: Array, iterations: Sequence[Iteration], whiten: Array) -> tuple[Array, float]:
    """Return the Hessian (k, k), in coordinates z, that the two last scores tell where the last step goes back.

    A quantile's Hessian is smoothed more widely than its score, and may be several times smaller than the slope of
    that: each step is then too long, and the last one leads back beyond the point before. Where the last score points
    back, the estimate lies between the two along that line. If the score fell by more than the Hessian predicts, the
    Hessian gets the update of Broyden, Fletcher, Goldfarb and Shanno (1970), by which it leads from one point to the
    other. The noise of the score before is then part of the estimate, by the share of the way that is gone back. Its
    standard deviation is returned beside the Hessian; 0 where nothing changes.
    """
    before, last = iterations[-2:]
    between, mapped = np.linalg.solve(whiten, last.point - before.point), whiten.T @ before.back
    fallen, turned = mapped @ before.score - last.score, hessian @ between
    told, held, back = (float(one @ between) for one in (fallen, turned, -last.score))
    if back <= 0 or told <= held:
        return hessian, 0.0
    raised = hessian - np.outer(turned, turned) / held + np.outer(fallen, fallen) / told
    noise = before.score_noise * float(np.linalg.norm(mapped)) / np.sqrt(len(between))
    return np.asarray(raised), min(back / told, 1.0) * noise


def _possible(lost: Array, whiten: Array, second: Array, longest: float) -> Array:
    """Return a matrix (k, q) from the unit ball to steps along directions (k, q) that move predictors by ``longest``.

    ``second`` (k, k) are second moments of the coordinates u.
    """
    spread = lost.T @ whiten.T @ second @ whiten @ lost
    values, vectors = np.linalg.eigh(0.5 * (spread + spread.T))
    reach = longest / np.sqrt(np.maximum(values, 1e-300))
    return np.asarray(lost @ (vectors * reach))


def _length(metric: Array, step: Array) -> float:
    """Return the root of ``step' metric step``."""
    return float(np.sqrt(np.maximum(step @ metric @ step, 0.0)))


def _reach(pulls: Sequence[tuple[Array, bool]]) -> Array:
    """Return how far rows (n, q) of matrices move at most, added up, as (n,); see `Fit._pulls`."""
    each = [np.abs(one).max(axis=1) if flat else np.linalg.norm(one, axis=1) for one, flat in pulls]
    return np.asarray(np.sum(np.stack(each), axis=0))


@dataclass(frozen=True, eq=False)
class RegressionInference(Inference):
    """Estimates of a regression by noisy iterations.

    Attributes
    ----------
    fit : Fit
    weights, shift : ndarray (p, k), (p,)
        Coefficients are ``weights @ fit.params + shift``.
    response : Response or None
        The mean function, if it is not the identity.
    moments : tuple of ndarray
        Released mean (p,) and covariance (p, p) of the regressors.
    total, total_variance : float
        Sum of the weights of rows, with the variance of its noise: their number where they have none.
    slopes : float
        Factor by which the sum of the weights of a Hessian becomes that of the slopes of the mean; 0 if none does.
    steepness : tuple of float, optional
        That sum with its noise, at the point of the last iteration, of all rows.
    cov_type : {"HC1", "cluster", "nonrobust"}
        What ``fit.meat`` estimates; named in summaries.
    drawn : ndarray (p,), optional
        Variances from sampling if the rows are drawn, whatever the target: by default `Fit.drawn`.
    """

    fit: Fit
    weights: Array
    shift: Array
    response: Response | None = None
    moments: tuple[Array, Array] | None = None
    total: float = 1.0
    total_variance: float = 0.0
    slopes: float = 0.0
    steepness: tuple[float, float] | None = None
    cov_type: str = "HC1"
    drawn: Array | None = None

    methods = METHODS
    automatic = "wald"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.drawn is None:
            object.__setattr__(self, "drawn", self.fit.drawn(self.weights))
        if self.target == "data":
            nothing = np.zeros_like(self.fit.meat)
            fit = replace(self.fit, meat=nothing, meat_noise=0.0, intercept=(0.0, 0.0), groups=0)
            object.__setattr__(self, "fit", fit)

    @cached_property
    def params(self) -> Array:
        """Point estimates (p,)."""
        return np.asarray(self.weights @ self.fit.params + self.shift)

    @cached_property
    def cov_sampling(self) -> Array:
        """Covariance from sampling (p, p)."""
        return self.fit.cov_sampling(self.weights)

    @cached_property
    def cov_noise(self) -> Array:
        """Covariance from privacy noise (p, p)."""
        found = self.fit.cov_noise(self.weights)
        # Columns that no row tells apart: in floating point their covariance would have no inverse.
        return np.asarray(found + _APART * np.diag(np.diag(found + self.cov_sampling)))

    @cached_property
    def bias_bound(self) -> Array:
        """Bound on the bias of each coefficient (p,) from clipping."""
        return self.fit.bias(self.weights)

    @cached_property
    def average_slope(self) -> AverageSlope | None:
        """The average over rows of the derivative of the mean; None where the Hessian does not tell.

        How the average moves with the coefficients is that of a normal linear predictor with the released moments.
        """
        if self.moments is None or self.steepness is None or not self.slopes:
            return None
        rows = max(self.total, 1.0) / self.slopes
        gradient = self._slope_gradient()
        covariance = (self.cov_sampling + self.cov_noise) @ gradient
        moved = float(gradient @ self.weights @ (self.fit.params - self.fit.point))
        value = max(self.steepness[0] / rows + moved, 0.0)
        variance = (self.steepness[1] / rows) ** 2 + (value / max(self.total, 1.0)) ** 2 * self.total_variance
        return AverageSlope(value, variance + float(gradient @ covariance), covariance)

    def _slope_gradient(self) -> Array:
        """Return the derivative (p,) of the average slope by the coefficients, for a normal linear predictor."""
        assert self.response is not None
        assert self.moments is not None
        mean, cov = self.moments
        sizes = 1e-3 / np.sqrt(np.maximum(np.diag(cov) + mean**2, 1e-300))
        steps = np.diag(sizes)
        around = np.stack([self.params + steps, self.params - steps])
        spread = np.einsum("sjp,pq,sjq->sj", around, cov, around)
        ahead, behind = self.response.average_slope(around @ mean, spread)
        return np.asarray((ahead - behind) / (2 * sizes))

    # Intervals and tests

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, from released numbers only."""
        variances, biases, _ = self._spread(np.eye(len(self.names)))
        long = variances + biases**2 > _NAMED**2 * np.asarray(self.drawn)
        noisy = [name for name, one in zip(self.names, long, strict=True) if one]
        if not noisy:
            return self.notes
        told = f"their intervals are more than {_NAMED:g} times as long as without privacy, or unbounded"
        return f"privacy noise dominates {', '.join(noisy)}: {told}", *self.notes

    def _ends(self, rows: Array, alpha: float) -> Array:
        """See `Inference`."""
        variances, biases, freedom = self._spread(rows)
        turned, square = self.fit.bent(rows @ self.weights)
        longer, centre = _longer(np.full(len(rows), alpha), freedom), rows @ self.params
        most = np.broadcast_to(_FAR * np.sqrt(variances + biases**2), (2, len(rows)))
        signs = np.array([[-1.0], [1.0]])

        def inside(away: Array) -> Mask:
            errors = _errors(variances, turned, square, signs * away)
            return np.asarray(away <= folded_quantile(alpha, biases / errors) * longer * errors)

        low, high = np.zeros_like(most), most
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            within = inside(middle)
            low, high = np.where(within, middle, low), np.where(within, high, middle)
        ends: Array = (centre + signs * np.where(inside(most), np.inf, high)).T
        for place in np.flatnonzero(self._by_score(rows)):
            scored = self.fit.score_interval(rows[place] @ self.weights, alpha)
            ends[place] = np.array(scored) + float(rows[place] @ self.shift)
        return ends

    def _tails(self, rows: Array, values: Array) -> Array:
        """See `Inference`."""
        variances, biases, freedom = self._spread(rows)
        turned, square = self.fit.bent(rows @ self.weights)
        away = values - rows @ self.params
        errors = _errors(variances, turned, square, away)
        found = _two_sided(np.abs(away) / errors, biases / errors, freedom)
        for place in np.flatnonzero(self._by_score(rows)):
            row = rows[place]
            found[place] = self.fit.score_tail((row @ self.weights)[None], values[place : place + 1] - row @ self.shift)
        return found

    def _joint(self, rows: Array, values: Array) -> tuple[float, float]:
        """See `Inference`.

        The p-value is that of Hotelling's (1931) distribution with the harmonic mean of the restrictions' degrees of
        freedom, and the largest noncentrality that a bias within its bound has.
        """
        moved = rows @ self.weights
        if self.method == "score" or self.fit.dominated(moved).any():
            tested = values - rows @ self.shift
            return self.fit.statistic(moved, tested), self.fit.score_tail(moved, tested)
        errors = np.sqrt(self._spread(rows)[0])
        away = _near((values - rows @ self.params) / errors) * errors
        total = self.fit.tested(moved, away)
        # Restrictions, or columns, that no row tells apart: in floating point their covariance would have no inverse.
        apart = (rows * np.diag(self.cov_sampling + self.cov_noise)) @ rows.T
        total += _APART * (np.diag(np.diag(total)) + apart)
        statistic = float(wald_lengths(away, total))
        shift = self.fit.joint_shift(moved, total)
        return statistic, _squared_tail(statistic, len(rows), _pooled(self._spread(rows)[2]), shift)

    def _by_score(self, rows: Array) -> Mask:
        """Whether contrasts (k, p) are inferred by scores (k,)."""
        if self.method == "score":
            return np.ones(len(rows), dtype=bool)
        return self.fit.dominated(rows @ self.weights)

    def _spread(self, rows: Array) -> tuple[Array, Array, Array]:
        """Variance, bound on the bias, and degrees of freedom of contrasts (k, p), as (k,)."""
        moved = rows @ self.weights
        variances = np.einsum("kp,pq,kq->k", rows, self.cov_sampling + self.cov_noise, rows)
        variances = np.maximum(variances, 1e-300)
        return variances, self.fit.bias(moved), self.fit.freedom(moved, variances)

    @property
    def lengthened(self) -> float:
        """By which part clipping lengthens an interval of a slope at most."""
        variances, biases, _ = self._spread(np.eye(len(self.names)))
        return float((folded_quantile(0.05, biases / np.sqrt(variances)) / -special.ndtri(0.025)).max() - 1)


def _errors(variances: Array, turned: Array, square: Array, away: Array) -> Array:
    """Return standard errors (n,) of values that far away from estimates; see `Fit.bent`."""
    return np.asarray(np.sqrt(np.maximum(variances + 2 * turned * away + square * away**2, variances * _APART)))


def _near(away: Array) -> Array:
    """Return distances (n,) in standard errors, moved towards 0 along a line if they are beyond all use."""
    return np.asarray(away / max(float(np.abs(away).max(initial=0.0)) / _FARTHEST, 1.0))


def _pooled(freedom: Array) -> float:
    """Return degrees of freedom of restrictions together: relative errors of their variances, on average."""
    return float(1 / np.mean(1 / freedom))


def _squared(loadings: Array, covariance: Array) -> Array:
    """Return the covariance (n, n) of loadings (n, k), as a square: of two directions one may be all noise."""
    values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
    root = loadings @ (vectors * np.sqrt(np.maximum(values, 0.0)))
    return np.asarray(root @ root.T)


def _longer(alpha: Array, freedom: Array) -> Array:
    """Quantile of t distributions over that of the normal one, for tests at levels (k,)."""
    return np.asarray(special.stdtrit(np.minimum(freedom, 1e8), alpha / 2) / special.ndtri(alpha / 2))


def _two_sided(distance: Array, bias: Array, freedom: Array) -> Array:
    """Return the levels (k,) at which intervals end at these distances, in standard errors, from their estimates."""
    low, high = np.full(len(distance), np.log(1e-300)), np.full(len(distance), np.log(1 - 1e-9))
    for _ in range(64):
        middle = 0.5 * (low + high)
        level = np.exp(middle)
        above = folded_tail(distance / _longer(level, freedom), bias) > level
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray(np.where(distance <= 0, 1.0, np.minimum(np.exp(high), 1.0)))


def _chi2_tail(statistic: float, count: float, shift: float) -> float:
    """Tail of a noncentral chi-squared distribution."""
    if shift <= 0:
        return float(stats.chi2.sf(statistic, count))
    if shift <= _FAR_SHIFT and count > 1:
        return float(stats.ncx2.sf(statistic, count, shift))
    # A length far from zero is nearly normal; series for it overflow, or do not end.
    return float(folded_tail(np.sqrt([max(statistic, 0.0)]), np.sqrt([shift + count - 1]))[0])


def _squared_tail(statistic: float, count: int, freedom: float, shift: float) -> float:
    """Tail of a noncentral T^2 of Hotelling's (1931): of so many contrasts, by a variance with degrees of freedom.

    ``(f - q + 1) / (f q) T^2`` has an F distribution with q and f - q + 1 degrees of freedom; here one at least.
    """
    freedom = max(freedom, float(count))
    least = freedom - count + 1
    scaled = statistic * least / freedom
    if least > 1e4:
        return _chi2_tail(scaled, count, shift)
    if shift > _FAR_SHIFT:
        return float(stats.t.sf(np.sqrt(max(scaled, 0.0)) - np.sqrt(shift + count - 1), least))
    if shift <= 0:
        return float(stats.f.sf(scaled / count, count, least))
    return float(np.clip(stats.ncf.sf(scaled / count, count, least, shift), 0.0, 1.0))
