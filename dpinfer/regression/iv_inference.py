"""Instrumental variables from noisy cross-products: k-class estimates, Anderson-Rubin sets, first stage, Sargan's test.

Everything is a function of arrays of R releases. The exogenous regressors are partialled out of the instruments, the
response and the endogenous regressors. What is left are moments whose noise is known, and in which the Anderson-Rubin
statistic of a value b is a ratio of polynomials.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy import stats

from dpinfer.checks import require
from dpinfer.regression.gram import KAPPA_RELIABLE, laplace_parts, laplace_shares
from dpinfer.statistics import inference
from dpinfer.statistics.arrays import noise_level
from dpinfer.statistics.numerical import bisected
from dpinfer.statistics.tails import joint_pvalue, stretches

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.regression.gram import GramProblem
    from dpinfer.statistics.arrays import Array, Mask

METHODS = ("auto", "anderson-rubin", "wald")

WEAK = 10.0
"""First-stage F below which instruments are called weak (Staiger & Stock 1997)."""

_TINY, _LEAST, _NORMAL_DF = 1e-9, 1e-6, 1e9
_ACROSS, _ALONG, _ZOOMS, _GROUPS = 121, 129, 3, 100
"""Points of a search over the line, points along a part of a set, refinements of a search, groups of draws."""


def noise_covariance(noise: Array, left: Array, right: Array, residuals: Array) -> Array:
    """Covariance of ``l'E a`` and ``r'E b`` for the symmetric noise E, (R, e, e, l, r).

    l are rows of ``left`` (R, l, d), r of ``right`` (R, r, d), a and b of ``residuals`` (R, e, d). Both triangles of E
    are one draw, so that an entry pq meets itself and qp.
    """
    pairs = left[:, :, None] * right[:, None], residuals[:, :, None] * residuals[:, None]
    crossed, other = left[:, :, None] * residuals[:, None], right[:, :, None] * residuals[:, None]
    off = noise - np.diag(np.diag(noise))
    found = np.einsum("rlmp,rabp->rablm", pairs[0] @ noise, pairs[1], optimize=True)
    return np.asarray(found + np.einsum("rlbp,rmap->rablm", crossed @ off, other, optimize=True))


def _eigen(matrices: Array, change: Callable[[Array], Array]) -> Array:
    """Change the eigenvalues (..., p) of symmetric matrices (..., p, p)."""
    values, vectors = np.linalg.eigh(matrices)
    return np.asarray((vectors * change(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def _floored(matrices: Array, level: float = 0.0) -> Array:
    """Raise eigenvalues to a level, or a tiny part of the largest."""
    return _eigen(
        matrices, lambda one: np.maximum(one, np.maximum(level, _TINY * np.abs(one).max(-1, keepdims=True, initial=0)))
    )


def _forms(matrices: Array, directions: Array) -> Array:
    """``v' M v`` (R, ...) in directions v (R, ..., e), of matrices (R, e, e) or blocks of them (R, e, e, k, k)."""
    outer = directions[..., :, None] * directions[..., None, :]
    flat = (len(matrices), -1, matrices.shape[1] ** 2)
    found = outer.reshape(flat) @ matrices.reshape(flat[0], flat[2], -1)
    return np.asarray(found.reshape(*directions.shape[:-1], *matrices.shape[3:]))


def _at(coefficients: Array) -> Array:
    """Directions (1, -b) for coefficients b (..., m)."""
    return np.concatenate([np.ones((*coefficients.shape[:-1], 1)), -coefficients], axis=-1)


def _root(matrices: Array) -> Array:
    """Inverse of the lower triangular root."""
    return np.linalg.inv(np.linalg.cholesky(0.5 * (matrices + np.swapaxes(matrices, -1, -2))))


@dataclass(frozen=True, eq=False)
class Law:
    """The distribution of a squared length of k standardised moments, of R releases.

    Attributes
    ----------
    k : int
    df : ndarray (R,)
        Degrees of freedom of their variance.
    loadings : ndarray (R, k, t) or None
        On Laplace variables of variance 1; None where the noise is normal.
    """

    k: int
    df: Array
    loadings: Array | None

    @cached_property
    def _stretched(self) -> Array:
        """Factors (R, 1, q) of the lengths, each as likely as the others, as in `joint_pvalue`."""
        if self.loadings is None:
            return np.ones((len(self.df), 1, 1))
        found = np.sort([stretches(one) for one in self.loadings], axis=1)
        return np.asarray(found.reshape(len(found), 1, _GROUPS, -1).mean(axis=3))

    def tails(self, lengths: Array) -> Array:
        """P-values of squared lengths (R, c)."""
        scaled = lengths[..., None] / self._stretched / self.k
        return np.asarray(stats.f.sf(scaled, self.k, self.df[:, None, None]).mean(axis=-1))

    def critical(self, alpha: float) -> Array:
        """Squared lengths (R,) that are exceeded with probability alpha."""
        normal: Array = np.minimum(self.k * stats.f.isf(alpha, self.k, self.df), _NORMAL_DF)
        if self.loadings is None:
            return normal
        ends = np.log(normal) - 2, np.log(normal) + 5
        low, high = bisected(lambda log: self.tails(np.exp(log)[:, None])[:, 0] > alpha, *ends, rounds=30)
        return np.exp(0.5 * (low + high))


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of the instruments with response and endogenous regressors, of R releases.

    Coordinates are those of an orthonormal basis of the exogenous regressors, then the instruments, on the features;
    response and endogenous regressors, e = 1 + m of them, have unit length there.

    Attributes
    ----------
    problem : GramProblem
        Its design has the exogenous regressors, then the instruments, then the endogenous regressors.
    inner : ndarray (p1, d)
        The basis of the exogenous regressors.
    inverse, inside : ndarray (R, p1, p1)
        Inverse of their noisy cross-products, which may be indefinite; and after their eigenvalues were raised.
    onto : ndarray (R, e, p1)
        Coefficients of response and endogenous regressors on them.
    weights : ndarray (R, k, d)
        The instruments, partialled out.
    residuals : ndarray (R, e, d)
        Response and endogenous regressors, partialled out.
    values : ndarray (R, k, e)
        Their cross-products.
    cross : ndarray (R, k, k)
        Cross-products of the instruments, eigenvalues below the noise level raised to it.
    total, unexplained : ndarray (R, e, e)
        Cross-products of ``residuals``, and what the instruments leave of them by degree of freedom.
    variances : ndarray (R, e, e, k, k)
        Covariance of the moments, sampling and noise.
    back : ndarray (p, p)
        Leads from coefficients in these coordinates, exogenous ones first, to those of the design.
    kappa : ndarray (R,)
        Smallest eigenvalue of the cross-products of exogenous regressors and instruments over the noise level.
    df, df_resid : ndarray (R,)
        Degrees of freedom of ``unexplained`` and of the structural residual.
    """

    problem: GramProblem
    inner: Array
    inverse: Array
    inside: Array
    onto: Array
    weights: Array
    residuals: Array
    values: Array
    cross: Array
    total: Array
    unexplained: Array
    variances: Array
    back: Array
    kappa: Array
    df: Array
    df_resid: Array


def partialled(problem: GramProblem, gram: Array, nobs: Array, exogenous: int, instruments: int) -> Moments:
    """Partial the first columns of the design out of the others, in noisy sums of z z' (R, d, d)."""
    design, size = problem.design, exogenous + instruments
    orthonormal, upper = np.linalg.qr(design[:size].T)
    inner, outer = np.split(orthonormal.T, [exogenous])
    outcomes = np.vstack([problem.response, design[size:]])
    units = np.linalg.norm(outcomes, axis=1, keepdims=True)
    outcomes = outcomes / units
    eigenvalues = np.linalg.eigvalsh(orthonormal.T @ gram @ orthonormal)
    onto_all, middle = gram @ inner.T, inner @ gram @ inner.T
    inverse = _eigen(middle, lambda one: 1 / np.where(np.abs(one) < 1e-300, 1e-300, one))
    onto = outcomes @ onto_all @ inverse
    weights, residuals = outer - outer @ onto_all @ inverse @ inner, outcomes - onto @ inner
    turned, level = np.swapaxes(residuals, 1, 2), noise_level(problem.noise, outer)
    values, total = weights @ gram @ turned, residuals @ gram @ turned
    cross = _floored(weights @ gram @ np.swapaxes(weights, 1, 2), level)
    rows = np.maximum(nobs, size + len(design) + 2.0) / problem.rows_per_unit
    df, df_resid = np.maximum(rows - size, 1.0), np.maximum(rows - len(design) + instruments, 1.0)
    unexplained = _floored(total - np.swapaxes(values, 1, 2) @ np.linalg.solve(cross, values)) / df[:, None, None]
    noise = noise_covariance(problem.noise, weights, weights, residuals)
    back = np.diag(np.append(np.zeros(exogenous), units[0] / units[1:, 0]))
    back[:exogenous, :exogenous] = units[0] * np.linalg.inv(upper[:exogenous, :exogenous])
    inside: Array = np.linalg.inv(_floored(middle)).astype(np.float64)
    return Moments(
        problem, inner, inverse, inside, onto, weights, residuals, values, cross,
        _floored(total), unexplained, unexplained[..., None, None] * cross[:, None, None] + noise, back,
        eigenvalues[:, 0] / max(noise_level(problem.noise, orthonormal.T), 1e-300), df, df_resid,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class IVFit:
    """Estimates and tests from moments of R releases.

    Attributes
    ----------
    moments : Moments
    limited : bool
        Whether the estimate is limited information maximum likelihood, else two-stage least squares.

    Notes
    -----
    With ``g(b) = u0 - b u1`` and ``V(b)`` its covariance, quadratic in b, the Anderson-Rubin test keeps the values of
    one endogenous coefficient with ``g' V^-1 g <= c``. The ends are roots of ``det(c V(b) - g(b) g(b)')``: a quadratic
    eigenvalue problem. A combination with exogenous coefficients adds as one more moment what least squares of
    ``y - x b`` on the exogenous regressors gives, and takes the b where the statistic is least, with the degrees of
    freedom of the test of b: where the covariance is a Kronecker product the size is at most nominal (Guggenberger,
    Kleibergen, Mavroeidis & Chen 2012).
    """

    moments: Moments
    limited: bool = False

    @property
    def count(self) -> int:
        """The number of instruments."""
        return int(self.moments.cross.shape[1])

    # Estimates

    @cached_property
    def explained(self) -> Array:
        """What the instruments explain of response and endogenous regressors (R, e, e)."""
        of = self.moments
        return np.swapaxes(of.values, 1, 2) @ np.linalg.solve(of.cross, of.values)

    @cached_property
    def spread(self) -> Array:
        """Mean variance of the moments in units of ``cross``, sampling and noise (R, e, e)."""
        found = np.einsum("rabij,rji->rab", self.moments.variances, np.linalg.inv(self.moments.cross)) / self.count
        return np.asarray(0.5 * (found + np.swapaxes(found, 1, 2)))

    @cached_property
    def ratio(self) -> Array:
        """The smallest root of ``explained`` over ``spread`` (R,), by which limited information takes its bias off."""
        root = _root(self.spread)
        return np.asarray(np.linalg.eigvalsh(root @ self.explained @ np.swapaxes(root, 1, 2))[:, 0])

    def solved(self, ratio: Array) -> tuple[Array, Array]:
        """Endogenous coefficients (R, m) of the k-class, and the inverse of their Hessian (R, m, m)."""
        hessian = self.explained - ratio[:, None, None] * self.spread
        least = _LEAST * np.trace(self.spread[:, 1:, 1:], axis1=1, axis2=2)[:, None]
        inverse = _eigen(hessian[:, 1:, 1:], lambda one: 1 / np.maximum(one, least))
        return (inverse @ hessian[:, 1:, :1])[..., 0], inverse

    @cached_property
    def _estimated(self) -> tuple[Array, Array, Array, Array, Array]:
        """Endogenous coefficients, all, their weights on the features (R, p, d), sampling and noise covariance."""
        of, ratio = self.moments, self.ratio if self.limited else np.zeros(len(self.moments.df))
        found, inverse = self.solved(ratio)
        fitted = np.swapaxes(np.linalg.solve(of.cross, of.values[..., 1:]), 1, 2) @ of.weights
        own = inverse @ (fitted - (ratio / of.df)[:, None, None] * (of.residuals[:, 1:] - fitted))
        across, point = -np.swapaxes(of.onto[:, 1:], 1, 2), _at(found)
        params = np.concatenate([(point[:, None] @ of.onto)[:, 0], found], axis=1)
        weights = of.back @ np.concatenate([of.inverse @ of.inner + across @ own, own], axis=1)
        corner = across @ inverse
        first = of.inside + corner @ np.swapaxes(across, 1, 2)
        sampling = of.back @ np.block([[first, corner], [np.swapaxes(corner, 1, 2), inverse]]) @ of.back.T
        noise = noise_covariance(of.problem.noise, weights, weights, point[:, None] @ of.residuals)[:, 0, 0]
        scale = (_forms(of.total, point) / of.df_resid)[:, None, None]
        clear = 1 + _TINY * np.eye(len(of.back))  # covariances stay positive definite where rows are all alike
        return (
            found,
            params @ of.back.T,
            weights,
            scale * sampling * clear,
            0.5 * (noise + np.swapaxes(noise, 1, 2)) * clear,
        )

    @property
    def estimate(self) -> Array:
        """Endogenous coefficients in the coordinates of the moments (R, m)."""
        return self._estimated[0]

    @property
    def params(self) -> Array:
        """Coefficients of exogenous, then of endogenous regressors (R, p)."""
        return self._estimated[1]

    @property
    def covariances(self) -> tuple[Array, Array]:
        """Sampling and noise covariance of the coefficients (R, p, p)."""
        return self._estimated[3], self._estimated[4]

    @cached_property
    def step(self) -> Array:
        """About a standard error of one endogenous coefficient, in the coordinates of the moments (R,)."""
        return np.asarray(np.sqrt(np.add(*self.covariances)[:, -1, -1]) / self.moments.back[-1, -1])

    def shares(self, rows: Array, variance: Array) -> Array | None:
        """Laplace shares of the variance of combinations (c, p); None where the noise is normal."""
        of = self.moments
        residual = _at(self.estimate)[:, None] @ of.residuals
        found = rows @ self._estimated[2]
        return laplace_shares(of.problem, residual, found, variance) if of.problem.laplace else None

    # Tests

    def length(self, directions: Array) -> tuple[Array, Array]:
        """Anderson-Rubin statistic (R, ...) and ``V^-1 g`` (R, ..., k) in directions (R, ..., e)."""
        values = np.einsum("rka,r...a->r...k", self.moments.values, directions)
        found = np.linalg.solve(_forms(self.moments.variances, directions), values[..., None])[..., 0]
        return np.asarray((values * found).sum(axis=-1)), found

    def law(self, direction: Array) -> Law:
        """Law of the statistic where the moments are zero in a direction (R, e); df after Satterthwaite."""
        of, variance = self.moments, _forms(self.moments.variances, direction)
        share = _forms(of.unexplained, direction) * np.einsum("rij,rji->r", np.linalg.inv(variance), of.cross)
        df = np.minimum(of.df * np.maximum(share / self.count, 1e-5) ** -2, _NORMAL_DF)
        if not of.problem.laplace:
            return Law(self.count, df, None)
        parts = laplace_parts(of.problem, direction[:, None] @ of.residuals, of.weights)
        return Law(self.count, df, _root(variance) @ parts)

    def first_stage(self, place: int) -> tuple[Array, Array, Array]:
        """F of the instruments in a first stage, noise counted, its p-value, and F with the noise taken off, (R,)."""
        at, of = (..., place + 1, place + 1), self.moments
        direction = np.tile(np.eye(of.values.shape[2])[place + 1], (len(of.df), 1))
        length, own = self.length(direction)[0], of.unexplained[at]
        without = np.maximum(self.explained[at] / self.count - self.spread[at] + own, 0) / own
        return length / self.count, self.law(direction).tails(length[:, None])[:, 0], without

    def overidentification(self) -> tuple[Array, Array]:
        """Return the least Anderson-Rubin statistic, and its p-value (R,)."""
        values, best = self.moments.values, self.solved(self.ratio)[0]
        endogenous = values.shape[2] - 1
        if endogenous == 1:
            best = _least(lambda b: self.length(_at(b[..., None]))[0], best[:, 0], self.step)[1][:, None]
        least, law = self.length(_at(best))[0], self.law(_at(best))
        loadings = law.loadings
        if loadings is not None:  # what the endogenous coefficients leave free
            standard = _root(_forms(self.moments.variances, _at(best))) @ values[..., 1:]
            free = np.linalg.qr(standard, mode="complete")[0][..., endogenous:]
            loadings = np.swapaxes(free, 1, 2) @ loadings
        return least, Law(self.count - endogenous, law.df, loadings).tails(least[:, None])[:, 0]

    @cached_property
    def own_law(self) -> Law:
        """Law of the Anderson-Rubin statistic, at the estimate."""
        return self.law(_at(self.estimate))

    def pieces(self, alpha: float) -> tuple[Array, Mask]:
        """Places (R, 2 k) on the line, ascending, and which of the 2 k + 1 parts that they make of it are kept."""
        of, critical = self.moments, self.own_law.critical(alpha)
        turn = np.stack([_at(self.estimate), np.outer(self.step, [0.0, -1.0])], axis=1)
        values, eye = of.values @ np.swapaxes(turn, 1, 2), np.broadcast_to(np.eye(self.count), of.cross.shape)
        pairs = critical[:, None, None, None, None] * np.einsum(
            "rxa,ryb,rabij->rxyij", turn, turn, of.variances, optimize=True
        ) - np.einsum("rix,rjy->rxyij", values, values)
        pairs += np.swapaxes(pairs, -1, -2)
        blocks = np.concatenate([pairs[:, 0, 0], pairs[:, 0, 1] + pairs[:, 1, 0]], axis=2)
        least = 1e-14 * np.abs(pairs[:, 1, 1]).max(axis=(1, 2))[:, None, None]
        below = -np.linalg.solve(pairs[:, 1, 1] + least * eye, blocks)
        above = np.concatenate([np.zeros_like(eye), eye], axis=2)
        roots = np.sort(np.linalg.eigvals(np.concatenate([above, below], axis=1)).real, axis=1)
        beyond = 1 + np.abs(roots[:, [0, -1]])
        parts = [roots[:, :1] - beyond[:, :1], 0.5 * (roots[:, 1:] + roots[:, :-1]), roots[:, -1:] + beyond[:, 1:]]
        places, between = (self.estimate + self.step[:, None] * one for one in (roots, np.hstack(parts)))
        inside: Mask = np.asarray(self.length(_at(between[..., None]))[0] <= critical[:, None])
        return places, inside

    def profile(self, points: Array, contrast: Array) -> tuple[Array, Array, Array]:
        """Statistic of b at points (R, B), and given b the centre of a combination (p,) and its variance."""
        of, directions, coefficients = self.moments, _at(points[..., None]), contrast[:-1]
        length, solved = self.length(directions)
        own = (coefficients @ of.inverse @ of.inner)[:, None]
        joint = noise_covariance(of.problem.noise, own, np.concatenate([own, of.weights], axis=1), of.residuals)
        noise = _forms(joint[:, :, :, 0], directions)
        alone, shift = noise[..., 0], noise[..., 1:]
        variance = alone + _forms(of.unexplained, directions) * (coefficients @ of.inside @ coefficients)[:, None]
        centre = (directions @ of.onto) @ coefficients + contrast[-1] * points - (shift * solved).sum(axis=-1)
        taken = np.linalg.solve(_forms(of.variances, directions), shift[..., None])[..., 0]
        return length, centre, np.maximum(variance - (shift * taken).sum(axis=-1), _TINY * variance)

    def ends(self, contrasts: Array, alpha: float) -> Array:
        """Smallest intervals (R, c, 2) that hold all values that the test keeps; NaN where it keeps none."""
        (places, inside), critical = self.pieces(alpha), self.own_law.critical(alpha)[:, None]
        rows, angles = np.arange(len(places)), np.sin(np.linspace(-np.pi / 2, np.pi / 2, _ALONG))
        edges = np.pad(places, ((0, 0), (1, 1)), constant_values=((0, 0), (-np.inf, np.inf)))
        hull = np.stack([edges[rows, np.argmax(inside, axis=1)], edges[rows, -1 - np.argmax(inside[:, ::-1], axis=1)]])
        middle, half = 0.5 * (places[:, 1:] + places[:, :-1]), 0.5 * (places[:, 1:] - places[:, :-1])
        points = (middle[..., None] + half[..., None] * angles).reshape(len(places), -1)
        kept, bounded = np.repeat(inside[:, 1:-1], _ALONG, axis=1), ~np.isinf(hull).any(axis=0)
        found = []
        for contrast in contrasts:
            if not contrast[:-1].any():
                found.append(np.sort(hull * contrast[-1], axis=0))
                continue
            length, centre, variance = self.profile(points, contrast)
            reach = np.sqrt(variance * np.maximum(critical - length, 0.0))
            lower = np.where(kept, centre - reach, np.inf).min(axis=1)
            upper = np.where(kept, centre + reach, -np.inf).max(axis=1)
            found.append(np.where(bounded, [lower, upper], [[-np.inf], [np.inf]]))
        some = np.atleast_1d(inside.any(axis=1))[:, None, None]
        return np.where(some, np.stack(found).transpose(2, 0, 1), np.nan)

    def lengths(self, contrasts: Array, values: Array) -> Array:
        """Least statistics (R, c) where ``contrasts @ params = values``."""
        found = []
        for contrast, value in zip(contrasts, values, strict=True):
            if not contrast[:-1].any():
                points = np.full((len(self.moments.df), 1), value / contrast[-1])
                found.append(self.length(_at(points))[0])
                continue

            def statistic(points: Array, contrast: Array = contrast, value: float = value) -> Array:
                length, centre, variance = self.profile(points, contrast)
                return np.asarray(length + (centre - value) ** 2 / variance)

            found.append(_least(statistic, self.estimate[:, 0], self.step)[0])
        return np.stack(found, axis=1)


def _least(statistic: Callable[[Array], Array], centre: Array, step: Array) -> tuple[Array, Array]:
    """Least value of a function of points (R, B) over the line, and where it is, each (R,)."""
    rows, count = np.arange(len(step)), _ACROSS
    low, high = (np.full(len(step), sign * (np.pi / 2 - 1e-4)) for sign in (-1, 1))
    for _ in range(_ZOOMS + 1):
        angles = np.linspace(low, high, count, axis=1)
        points = centre[:, None] + step[:, None] * np.tan(angles)
        found = statistic(points)
        place = np.argmin(found, axis=1)
        low, high = angles[rows, np.maximum(place - 1, 0)], angles[rows, np.minimum(place + 1, count - 1)]
        count = 17
    return found[rows, place], points[rows, place]


def refuse_several(method: str, endogenous: int) -> None:
    """Refuse Anderson-Rubin sets of several coefficients.

    Raises
    ------
    OptionError
    """
    right = '"wald", or "auto": Anderson-Rubin sets are of one endogenous regressor'
    require(method != "anderson-rubin" or endogenous == 1, "inference", method, right)


@dataclass(frozen=True, eq=False)
class IVInference(inference.Inference):
    """Instrumental variables on noisy cross-products.

    Attributes
    ----------
    fit : IVFit
    endogenous : tuple of str, length m
        Their coefficients are the last.
    """

    fit: IVFit
    endogenous: tuple[str, ...]

    methods = METHODS
    cov_type = "unadjusted"

    @property
    def automatic(self) -> str:  # type: ignore[override]
        """Anderson-Rubin for one endogenous regressor, else Wald."""
        return "anderson-rubin" if len(self.endogenous) == 1 else "wald"

    def with_method(self, method: str) -> Self:
        """Return the same estimates under another method; see `Inference.with_method`."""
        refuse_several(method, len(self.endogenous))
        return super().with_method(method)

    @property
    def params(self) -> Array:
        """Point estimates (p,)."""
        return np.asarray(self.fit.params[0])

    @property
    def cov_sampling(self) -> Array:
        """Covariance from sampling (p, p)."""
        return np.asarray(self.fit.covariances[0][0])

    @property
    def cov_noise(self) -> Array:
        """Covariance from privacy noise (p, p)."""
        return np.asarray(self.fit.covariances[1][0])

    @cached_property
    def strengths(self) -> Array:
        """First-stage F of every endogenous regressor, noise counted (R, m)."""
        return np.stack([self.fit.first_stage(place)[0] for place in range(len(self.endogenous))], axis=1)

    @property
    def flagged(self) -> Mask:
        """Whether a release carries a warning (R,)."""
        return np.asarray((self.fit.moments.kappa < KAPPA_RELIABLE) | (self.strengths.min(axis=1) < WEAK))

    def sets(self, alpha: float) -> tuple[str, tuple[tuple[float, float], ...]]:
        """Kind and parts of the Anderson-Rubin set of the one endogenous coefficient of one release."""
        places, inside = (one[0] for one in self.fit.pieces(alpha))
        edges = np.concatenate([[-np.inf], places * self.fit.moments.back[-1, -1], [np.inf]])
        changes = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]]).astype(int)))
        parts = tuple((float(low), float(high)) for low, high in edges[changes].reshape(-1, 2))
        unbounded = "whole line" if inside.all() else "unbounded"
        return ("empty" if not parts else unbounded if np.isinf(parts).any() else "bounded"), parts

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, from released numbers only."""
        found, kappa, several = [], float(self.fit.moments.kappa[0]), len(self.endogenous) > 1
        if kappa < KAPPA_RELIABLE:
            found.append(
                "privacy noise dominates some direction of exogenous regressors and instruments: eigenvalue "
                f"{kappa:.2g} times the noise level, below {KAPPA_RELIABLE:g}; intervals may be wide or infinite"
            )
        found += [
            f"weak instruments for {name}: first-stage F, noise counted, is {strength:.3g}, below {WEAK:g}; the "
            f"estimate and Wald intervals are unreliable{'' if several else ', Anderson-Rubin intervals are not'}"
            for name, strength in zip(self.endogenous, self.strengths[0], strict=True)
            if strength < WEAK
        ]
        if several:
            found.append("several endogenous regressors: intervals are Wald's, which weak instruments make too short")
            return (*found, *self.notes)
        kind, parts = self.sets(0.05)
        told = f"the 95% Anderson-Rubin set of {self.endogenous[0]} is "
        shown = " and ".join(f"[{low:.4g}, {high:.4g}]" for low, high in parts)
        if kind == "empty":
            found.append(f"{told}empty: no value agrees with all instruments")
        elif kind == "whole line":
            found.append(f"{self.endogenous[0]} is not identified: {told}the whole line")
        elif kind == "unbounded" or len(parts) > 1:
            found.append(f"{self.endogenous[0]} is weakly identified: {told}{shown}")
        return (*found, *self.notes)

    def _linear(self, rows: Array) -> inference.Contrasts:
        variance = inference.variance_of(rows, np.add(*self.fit.covariances))
        return inference.Contrasts(self.fit.params @ rows.T, np.sqrt(variance), shares=self.fit.shares(rows, variance))

    def _ends(self, rows: Array, alpha: float) -> Array:
        """See `Inference`."""
        if self.method == "wald":
            return super()._ends(rows, alpha)
        return self.fit.ends(rows @ self.fit.moments.back, alpha)

    def _tails(self, rows: Array, values: Array) -> Array:
        """See `Inference`."""
        if self.method == "wald":
            return super()._tails(rows, values)
        return self.fit.own_law.tails(self.fit.lengths(rows @ self.fit.moments.back, values))

    def _joint(self, rows: Array, values: Array) -> tuple[float, float]:
        """Wald's, whatever the method; see `Inference`."""
        covariance = rows @ (self.cov_sampling + self.cov_noise) @ rows.T
        statistic = float(inference.wald_lengths(rows @ self.params - values, covariance))
        return statistic, joint_pvalue(statistic, len(rows))
