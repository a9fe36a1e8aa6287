"""Estimation of an exponential family from noisy sums of clamped statistics.

Everything here is a function of arrays, vectorised over releases: the leading axis ``R`` is 1 for one
release and the number of simulated releases in a study. Parameters are handled on the scale of their links,
where their space is the whole line.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.expfam_problem import ClampedProblem, clamped_problem
from dpinfer.inference.families.base import Moments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.release.laws import NoiseLaw
    from dpinfer.statistics.arrays import Array, Mask, Places

__all__ = [
    "KAPPA_RELIABLE",
    "MOST_SPREAD",
    "ClampedProblem",
    "FamilyFit",
    "SumNoise",
    "clamped_problem",
    "estimate",
    "influence",
    "score_covariance",
    "signal",
    "spread_at",
    "sum_noise",
    "take",
]

KAPPA_RELIABLE = 3.0
"""Below this value of `signal`, noise is called dominant: intervals cover, but may be wide or infinite."""

MOST_SPREAD = 2.0
"""Standard error of a log, or the like, above which a parameter is not determined; see `FamilyFit.missing`."""

_ITERATIONS = 50
_ROOT = 1e-6
_FLOOR = 1e-16
_RIDGE = 1e-6
_LARGEST_STEP = 2.0


@dataclass(frozen=True, slots=True)
class SumNoise:
    """Law of the noise in the released sums of scaled features.

    Attributes
    ----------
    variances : ndarray (k,)
        Variance of the noise of each sum.
    count_variance : float
        Variance of the noise of the count; 0 where the number of rows is public.
    laplace : bool
        Whether the noise is Laplace (else Gaussian).
    population : bool
        Whether the target is the population; otherwise only the noise counts as error.
    rows_per_unit : int
        Rows of one independent unit at most: the sampling covariance is multiplied by it.
    """

    variances: Array
    count_variance: float = 0.0
    laplace: bool = False
    population: bool = True
    rows_per_unit: int = 1


def sum_noise(law: NoiseLaw, steps: Sequence[float], *, population: bool = True, rows_per_unit: int = 1) -> SumNoise:
    """Say what noise a release of the count and the sums of features carries, in that order."""
    variances = law.variances * np.asarray(steps, dtype=np.float64) ** 2
    return SumNoise(variances[1:], float(variances[0]), law.family == "laplace", population, rows_per_unit)


@dataclass(frozen=True, eq=False)
class FamilyFit:
    """Estimates from R releases.

    Attributes
    ----------
    problem : ClampedProblem
    noise : SumNoise
    sums : ndarray (R, k)
        Released sums of the scaled features.
    count : ndarray (R,)
        Released or public number of rows.
    size : ndarray (R,)
        The same, at least 1.
    eta : ndarray (R, p)
        Estimates on the scale of the links.
    cov_sampling, cov_noise : ndarray (R, p, p)
        Their covariance.
    edge : ndarray of bool (R,)
        Whether no parameter inside the space agrees with the sums.
    kappa : ndarray (R,)
        How far the parameters stand out of the noise; see `signal`.
    """

    problem: ClampedProblem
    noise: SumNoise
    sums: Array
    count: Array
    size: Array
    eta: Array
    cov_sampling: Array
    cov_noise: Array
    edge: Mask
    kappa: Array

    @property
    def params(self) -> Array:
        """Estimates of the usual parameters (R, p), also where they are `missing` for whoever reads the results."""
        return self.problem.from_link(self.eta)

    @property
    def slope(self) -> Array:
        """Derivative of the usual parameters by the linked ones (R, p)."""
        return self.problem.slope(self.eta)

    @property
    def cov(self) -> Array:
        """Covariance of the estimates on the scale of the links (R, p, p)."""
        return self.cov_sampling + self.cov_noise

    @cached_property
    def _spread(self) -> Array:
        """Standard errors in units of which one leaves a parameter open, (R, p).

        The unit is 1 under a log link, a quarter of the range under a logit link, and a thirtieth of the range
        that is searched under the identity.
        """
        error = np.sqrt(np.diagonal(self.cov, axis1=1, axis2=2))
        share = 1 / (1 + np.exp(-np.abs(np.where(self.problem.between, self.eta, 0.0))))
        unit = np.where(self.problem.free, self.problem.width / 30, 0.25 / (share * (1 - share)))
        return np.asarray(error / unit)

    @property
    def missing(self) -> Mask:
        """Whether the release does not determine a parameter (R, p): it is missing from the estimates."""
        box = self.problem.box
        at_end = (self.eta <= box[:, 0] + 1e-9) | (self.eta >= box[:, 1] - 1e-9)
        return np.asarray((self._spread > MOST_SPREAD) | (at_end & ~self.problem.between))

    @property
    def lost(self) -> Mask:
        """Whether the estimate is no place to look for intervals from (R,), in families of several parameters."""
        several = len(self.problem.box) > 1
        return np.asarray((self.edge | (self._spread > 1.0).any(axis=1) | self.missing.any(axis=1)) & several)

    @property
    def flagged(self) -> Mask:
        """Whether a release carries a warning (R,)."""
        low = self.count <= 3 * np.sqrt(self.noise.count_variance)
        return np.asarray(self.edge | low | (self.kappa < KAPPA_RELIABLE) | self.missing.any(axis=1))


def take(fit: FamilyFit, index: Places) -> FamilyFit:
    """Return some of the releases."""
    arrays = ("sums", "count", "size", "eta", "cov_sampling", "cov_noise", "edge", "kappa")
    return FamilyFit(fit.problem, fit.noise, **{name: getattr(fit, name)[index] for name in arrays})


def score_covariance(noise: SumNoise, moments: Moments, size: Array) -> tuple[Array, Array]:
    """Covariance of ``sums - count * mean``, from sampling and from noise, each (R, k, k).

    Notes
    -----
    ``n Cov(t)``, times the rows of a unit, and ``V_S + v_N m m'``. A trace of variance is added to the second so that
    it can be inverted.
    """
    outer = moments.mean[:, :, None] * moments.mean[:, None, :]
    floor = _FLOOR * size[:, None, None] * np.eye(outer.shape[1])
    noisy = np.diag(noise.variances) + noise.count_variance * outer + floor
    sampling = noise.rows_per_unit * size[:, None, None] * moments.cov
    return (sampling if noise.population else np.zeros_like(sampling)), noisy


def influence(jacobian: Array, total: Array, size: Array, width: Array) -> tuple[Array, Array]:
    """How the score moves the estimates, (R, p, k), and the covariance that this gives them, (R, p, p).

    Parameters
    ----------
    jacobian : ndarray (R, k, p)
        Derivative of the mean of one row's features.
    total : ndarray (R, k, k)
        Covariance of the score.
    size : ndarray (R,)
        Number of rows.
    width : ndarray (p,)
        Width of the range of each parameter, which bounds the covariance where nothing is learned.

    Notes
    -----
    ``(A' S^-1 A + D)^-1 A' S^-1`` with ``A = n J``; D is negligible unless J is singular.
    """
    scale = np.sqrt(np.diagonal(total, axis1=1, axis2=2))
    slopes = size[:, None, None] * jacobian / scale[:, :, None]
    correlation = total / (scale[:, :, None] * scale[:, None, :]) + 1e-13 * np.eye(total.shape[1])
    solved = np.linalg.solve(correlation, slopes)
    information = np.swapaxes(slopes, 1, 2) @ solved
    spread = np.sqrt(np.diagonal(information, axis1=1, axis2=2) + _RIDGE / width**2)
    outer = spread[:, :, None] * spread[:, None, :]
    ridge = np.eye(width.size) * (_RIDGE / width**2 / spread**2 + 1e-13)[:, None, :]
    cov = np.linalg.inv(information / outer + ridge) / outer
    cov = (cov + np.swapaxes(cov, 1, 2)) / 2
    return cov @ np.swapaxes(solved, 1, 2) / scale[:, None, :], cov


def spread_at(problem: ClampedProblem, noise: SumNoise, eta: Array, size: Array) -> tuple[Moments, Array, Array]:
    """Moments of features at linked parameters (R, p), and there `influence` of the score with its covariance."""
    moments = problem.link_moments(eta)
    return moments, *influence(moments.jacobian, np.add(*score_covariance(noise, moments, size)), size, problem.width)


def signal(problem: ClampedProblem, cov_sampling: Array, cov_noise: Array, size: Array) -> Array:
    """How far the parameters stand out of the noise, kappa (R,).

    Over the parameters, the smallest ratio of a quarter of a unit to the standard deviation that noise alone
    gives the estimate, on the scale of the link. The unit is 1 under a log or logit link, so that
    `KAPPA_RELIABLE` means a relative error of a twelfth; under the identity it is the standard deviation that
    one row alone would give.
    """
    noise = np.sqrt(np.maximum(np.diagonal(cov_noise, axis1=1, axis2=2), 1e-300))
    row = np.sqrt(np.maximum(np.diagonal(cov_sampling, axis1=1, axis2=2), 1e-300) * size[:, None])
    return np.asarray((np.where(problem.free, row, 1.0) / (4 * noise)).min(axis=1))


def estimate(problem: ClampedProblem, noise: SumNoise, sums: Array, count: Array) -> FamilyFit:
    """Solve ``sums = count * E[features]`` for the parameters of every release: sums (R, k), count (R,).

    Where there is no solution in a wide but finite range of the parameters, the result is the one that comes closest in
    units of the standard deviation of the sums, marked as ``edge``. Never NaN.
    """
    size = np.maximum(count, 1.0)
    eta, distance = _solve(problem, noise, sums / size[:, None], size)
    edge = (distance > _ROOT) | (count < 1.0)
    edge |= np.any((eta <= problem.box[:, 0] + 1e-9) | (eta >= problem.box[:, 1] - 1e-9), axis=1)
    moments = problem.link_moments(eta)
    sampling, noisy = score_covariance(noise, moments, size)
    weights, total = influence(moments.jacobian, sampling + noisy, size, problem.width)
    cov_sampling = weights @ sampling @ np.swapaxes(weights, 1, 2)
    cov_noise = total - cov_sampling
    row = weights @ (size[:, None, None] * moments.cov) @ np.swapaxes(weights, 1, 2)
    kappa = signal(problem, row, cov_noise, size)
    return FamilyFit(problem, noise, sums, count, size, eta, cov_sampling, cov_noise, edge, kappa)


def _first(problem: ClampedProblem, means: Array) -> Array:
    """Where to start, (R, p): the family's guess, or the point of a lattice whose mean is closer."""
    raw = np.clip(means, -1.0, 1.0) * problem.half + problem.center
    with np.errstate(all="ignore"):
        guess = problem.to_link(problem.family.start(raw, problem.lower, problem.upper))
    middle = problem.box.mean(axis=1)
    guess = np.clip(np.where(np.isnan(guess), middle, guess), *problem.box.T)
    size = len(middle)
    share = np.linspace(0.1, 0.9, {1: 17, 2: 9}.get(size, 5))
    lattice = np.stack(np.meshgrid(*[share] * size, indexing="ij"), axis=-1).reshape(-1, size)
    lattice = problem.box[:, 0] + lattice * (problem.box[:, 1] - problem.box[:, 0])
    centres = problem.link_moments(lattice).mean
    far = ((means[:, None] - centres) ** 2).sum(axis=2)
    near = ((means - problem.link_moments(guess).mean) ** 2).sum(axis=1)
    best = far.argmin(axis=1)
    return np.where((far.min(axis=1) < near)[:, None], lattice[best], guess)


def _solve(problem: ClampedProblem, noise: SumNoise, means: Array, size: Array) -> tuple[Array, Array]:
    """Levenberg-Marquardt within the box: linked parameters (R, p), and what is left of the distance (R,)."""
    width = problem.width
    longest = np.where(problem.free, width / 8, np.minimum(_LARGEST_STEP, width / 8))
    eta = _first(problem, means)
    distance = np.full(len(eta), np.inf)
    damping = np.zeros(len(eta))
    active = np.arange(len(eta))
    moments = problem.link_moments(eta)
    for _ in range(_ITERATIONS):
        left, rows = means[active] - moments.mean, size[active]
        inverse = np.linalg.inv(_scaled_total(noise, moments, rows))
        slopes = np.swapaxes(moments.jacobian, 1, 2)
        gradient = (slopes @ inverse @ left[..., None])[..., 0]
        information = slopes @ inverse @ moments.jacobian
        now = np.einsum("rk,rkl,rl->r", left, inverse, left)
        step = _step(gradient, information, damping[active], width)
        step *= np.minimum(1.0, (longest / np.maximum(np.abs(step), 1e-300)).min(axis=1))[:, None]
        there = np.clip(eta[active] + step, *problem.box.T)
        found = problem.link_moments(there)
        left = means[active] - found.mean
        then = np.einsum("rk,rkl,rl->r", left, inverse, left)
        better = then < now
        moved = np.abs(there - eta[active]).max(axis=1)
        eta[active] = np.where(better[:, None], there, eta[active])
        distance[active] = np.where(better, then, now)
        damping[active] = np.where(better, np.where(damping[active] < 1e-3, 0.0, damping[active] / 8),
                                   np.maximum(8 * damping[active], 1e-3))  # fmt: skip
        keep = (distance[active] > 1e-22) & (moved > 1e-10) & (damping[active] < 1e8)
        moments = Moments(*(np.where(better[(...,) + (None,) * (old.ndim - 1)], new, old)[keep]
                            for new, old in zip(found, moments, strict=True)))  # fmt: skip
        active = active[keep]
        if not active.size:
            break
    return eta, distance


def _scaled_total(noise: SumNoise, moments: Moments, size: Array) -> Array:
    """Covariance of the mean feature given the count, made safe to invert, (R, k, k)."""
    with_sampling = SumNoise(noise.variances, noise.count_variance)
    total = np.add(*score_covariance(with_sampling, moments, size))
    spread = np.diagonal(total, axis1=1, axis2=2)[:, None, :] * np.eye(total.shape[1])
    return (total + 1e-10 * spread) / size[:, None, None] ** 2


def _step(gradient: Array, information: Array, damping: Array, width: Array) -> Array:
    spread = np.sqrt(np.diagonal(information, axis1=1, axis2=2) + _RIDGE / width**2)
    scaled = information / (spread[:, :, None] * spread[:, None, :])
    scaled = scaled + (1e-12 + damping)[:, None, None] * np.eye(width.size)
    return np.linalg.solve(scaled, (gradient / spread)[..., None])[..., 0] / spread
