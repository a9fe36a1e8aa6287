"""Estimation of an exponential family from noisy sums of clipped statistics.

Everything here is a function of arrays, vectorised over releases: the leading axis ``R`` is 1 for one
release and the number of simulated releases in a study. Parameters are handled on the scale of their links,
where their space is the whole line.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import FormulaError, UnknownColumnError
from dpinfer.families.distributions import ExponentialFamily, Moments, limits
from dpinfer.schema.basis import basis_of
from dpinfer.schema.expressions import compile_expression
from dpinfer.statistics.arrays import root_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpinfer.release.laws import NoiseLaw
    from dpinfer.schema.grid import Basis
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array, Mask, Places

KAPPA_RELIABLE = 3.0
"""Below this value of kappa, noise is called dominant: intervals cover, but may be wide or infinite."""

MOST_SPREAD = 2.0
"""Standard error of a log, or the like, above which a parameter is not determined; see `FamilyFit.missing`."""

_CHUNK = 400
_POINTS = 5_000
"""Points of a lattice of the parameters at most."""
_ITERATIONS, _ROOT, _LARGEST_STEP = 50, 1e-6, 2.0
_FLOOR, _RIDGE = 1e-16, 1e-6
_MOST_DRAWS, _DRAWS_AT_ONCE = 5_000_000, 500_000


@dataclass(frozen=True, eq=False)
class ClampedProblem:
    """A family, the bounds of the column, and the scaling of its statistics.

    Feature j of a row is ``(t_j(clamp(x)) - center_j) / half_j``, in [-1, 1].

    Attributes
    ----------
    family : ExponentialFamily
    column : str
    lower, upper : float
        Bounds of the column.
    basis : Basis
        The constant, and the k statistics with their scaling.
    """

    family: ExponentialFamily
    column: str
    lower: float
    upper: float
    basis: Basis

    @property
    def scaling(self) -> tuple[Array, Array]:
        """Center and half width of every statistic, each (k,)."""
        blocks = self.basis.blocks[1:]
        return np.array([one.center for one in blocks]), np.array([one.half for one in blocks])

    @cached_property
    def box(self) -> Array:
        """Range of each parameter on the scale of its link, (p, 2)."""
        return self.to_link(self.family.box(self.lower, self.upper).T).T

    @cached_property
    def width(self) -> Array:
        """Width of the range of each parameter (p,)."""
        return np.asarray(np.diff(self.box, axis=1)[:, 0])

    @cached_property
    def lattice(self) -> tuple[list[Array], Moments]:
        """Grid points of each parameter, on the scale of its link, and the moments at all combinations.

        Points of a parameter on the whole line are denser towards the middle of its range.
        """
        each = max(int(_POINTS ** (1 / len(self.box))), 5)
        share = np.linspace(-1.0, 1.0, each)
        bent = np.where((self.links == "identity")[:, None], np.sinh(4 * share) / np.sinh(4.0), share)
        axes = [low + (high - low) * (0.5 + 0.5 * one) for (low, high), one in zip(self.box, bent, strict=True)]
        return axes, self.link_moments(_combined(axes))

    @cached_property
    def links(self) -> NDArray[np.str_]:
        """Link of each parameter (p,)."""
        return np.array([parameter.link for parameter in self.family.parameters])

    def features(self, values: Array) -> Array:
        """Scaled statistics (..., k) of clipped values (...)."""
        statistics = [one.expression.evaluate({self.column: values}) for one in self.basis.blocks[1:]]
        center, half = self.scaling
        return (np.stack(statistics, axis=-1) - center) / half

    def to_link(self, theta: Array) -> Array:
        """Map parameters (..., p) to the scale of their links."""
        return np.stack([p.to_link(theta[..., j]) for j, p in enumerate(self.family.parameters)], axis=-1)

    def from_link(self, eta: Array) -> Array:
        """Map parameters (..., p) back from the scale of their links."""
        return np.stack([p.from_link(eta[..., j]) for j, p in enumerate(self.family.parameters)], axis=-1)

    def slope(self, eta: Array) -> Array:
        """Differentiate `from_link`, (..., p)."""
        return np.stack([p.slope(eta[..., j]) for j, p in enumerate(self.family.parameters)], axis=-1)

    def moments(self, theta: Array) -> Moments:
        """Mean, covariance and Jacobian of one row's features at parameters (R, p), by theta."""
        parts = [
            self.family.clamped(theta[start : start + _CHUNK], self.lower, self.upper, self.features)
            for start in range(0, len(theta), _CHUNK)
        ]
        return parts[0] if len(parts) == 1 else Moments(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def link_moments(self, eta: Array) -> Moments:
        """Return the moments at parameters on the scale of their links, with the Jacobian on that scale."""
        found = self.moments(self.from_link(eta))
        return found._replace(jacobian=found.jacobian * self.slope(eta)[:, None, :])

    def sample(self, theta: Array, size: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw clipped values of this shape at one parameter vector (p,); for simulation only."""
        return np.clip(self.family.sample(theta, size, rng), self.lower, self.upper)


def _combined(axes: Sequence[Array]) -> Array:
    """All combinations (N, p) of points along p axes, the last varying fastest."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def clamped_problem(family: ExponentialFamily, column: str, schema: Schema) -> ClampedProblem:
    """Pose the inference of a family for a declared column.

    Parameters
    ----------
    family : ExponentialFamily
    column : str
    schema : Schema

    Returns
    -------
    ClampedProblem
        With the measured features.

    Raises
    ------
    UnknownColumnError
        If the schema has no such column.
    SchemaError
        If the column's type or bounds do not suit the family.
    FormulaError
        If a statistic is unbounded on the bounds, or constant.
    """
    if column not in schema:
        raise UnknownColumnError(column, schema)
    family.check(column, schema[column])
    lower, upper = limits(schema[column])
    texts = family.statistics(column, lower, upper)
    for one in (compile_expression(text, schema) for text in texts):
        if not one.lower < one.upper:
            raise FormulaError(one.text, "is the same for every row", "use a statistic that differs between rows")
    return ClampedProblem(family, column, lower, upper, basis_of(texts, schema))


@dataclass(frozen=True, slots=True)
class SumNoise:
    """Distribution of the noise in the released sums of scaled features.

    Attributes
    ----------
    variances : ndarray (k,)
        Variance of the noise of each sum.
    count_variance : float
        Variance of the noise of the count; 0 if the number of rows is public.
    laplace : bool
        Whether the noise is Laplace (else Gaussian).
    population : bool
        Whether the target is the population; otherwise errors include only the noise.
    rows_per_unit : int
        Largest number of rows of one independent unit; it multiplies the sampling covariance.
    """

    variances: Array
    count_variance: float = 0.0
    laplace: bool = False
    population: bool = True
    rows_per_unit: int = 1


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
        Signal-to-noise ratio: the minimum over parameters of a quarter of a unit over the standard deviation of the
        estimate from noise alone, on the scale of the link. The unit is 1 under a log or logit link, so that
        `KAPPA_RELIABLE` means a relative error of a twelfth; under the identity it is the standard deviation from a
        single row.
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
        """Estimates of the conventional parameters (R, p), including those reported as `missing`."""
        return self.problem.from_link(self.eta)

    @property
    def slope(self) -> Array:
        """Derivative of the conventional parameters in the linked ones (R, p)."""
        return self.problem.slope(self.eta)

    @property
    def cov(self) -> Array:
        """Covariance of the estimates on the scale of the links (R, p, p)."""
        return self.cov_sampling + self.cov_noise

    @property
    def errors(self) -> Array:
        """Standard errors of the estimates on the scale of the links (R, p)."""
        return np.sqrt(np.diagonal(self.cov, axis1=1, axis2=2))

    @cached_property
    def _spread(self) -> Array:
        """Standard errors (R, p), in units at which a parameter is not identified.

        The unit is 1 under a log link, a quarter of the range under a logit link, and a thirtieth of the search range
        under the identity.
        """
        share = 1 / (1 + np.exp(-np.abs(np.where(self.problem.links == "logit", self.eta, 0.0))))
        unit = np.where(self.problem.links == "identity", self.problem.width / 30, 0.25 / (share * (1 - share)))
        return np.asarray(self.errors / unit)

    @property
    def missing(self) -> Mask:
        """Whether a parameter is not identified (R, p) and so missing from the estimates."""
        return np.asarray(
            (self._spread > MOST_SPREAD) | (_at_end(self.problem, self.eta) & (self.problem.links != "logit"))
        )

    @property
    def lost(self) -> Mask:
        """Whether the estimate is unsuitable as a start for intervals (R,), in families of several parameters."""
        several = len(self.problem.box) > 1
        return np.asarray((self.edge | (self._spread > 1.0).any(axis=1) | self.missing.any(axis=1)) & several)

    @property
    def few(self) -> Mask:
        """Whether the noisy number of rows is at most three standard deviations of its noise (R,)."""
        return np.asarray(self.count <= 3 * np.sqrt(self.noise.count_variance))

    @property
    def flagged(self) -> Mask:
        """Whether a release carries a warning (R,)."""
        return np.asarray(self.edge | self.few | (self.kappa < KAPPA_RELIABLE) | self.missing.any(axis=1))


def _at_end(problem: ClampedProblem, eta: Array) -> Mask:
    """Whether parameters (R, p) are at an end of their range."""
    return np.asarray((eta <= problem.box[:, 0] + 1e-9) | (eta >= problem.box[:, 1] - 1e-9))


def take(fit: FamilyFit, index: Places) -> FamilyFit:
    """Return some of the releases."""
    arrays = ("sums", "count", "size", "eta", "cov_sampling", "cov_noise", "edge", "kappa")
    return replace(fit, **{name: getattr(fit, name)[index] for name in arrays})


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
    """Influence of the score on the estimates, (R, p, k), and their resulting covariance, (R, p, p).

    Parameters
    ----------
    jacobian : ndarray (R, k, p)
        Derivative of the mean of one row's features.
    total : ndarray (R, k, k)
        Covariance of the score.
    size : ndarray (R,)
        Number of rows.
    width : ndarray (p,)
        Width of the range of each parameter, which bounds the covariance if the data are uninformative.

    Notes
    -----
    ``(A' S^-1 A + D)^-1 A' S^-1`` with ``A = n J``; D is negligible unless J is singular.
    """
    scale = np.sqrt(np.diagonal(total, axis1=1, axis2=2))
    slopes = size[:, None, None] * jacobian / scale[:, :, None]
    correlation = total / (scale[:, :, None] * scale[:, None, :]) + 1e-13 * np.eye(total.shape[1])
    solved = np.linalg.solve(correlation, slopes)
    spread, information = _standardised(np.swapaxes(slopes, 1, 2) @ solved, width)
    ridge = np.eye(width.size) * (_RIDGE / width**2 / spread**2 + 1e-13)[:, None, :]
    cov = np.linalg.inv(information + ridge) / (spread[:, :, None] * spread[:, None, :])
    cov = (cov + np.swapaxes(cov, 1, 2)) / 2
    return cov @ np.swapaxes(solved, 1, 2) / scale[:, None, :], cov


def score_at(problem: ClampedProblem, noise: SumNoise, eta: Array, size: Array) -> tuple[Moments, Array, Array]:
    """Moments at linked parameters (R, p), and there `influence` of the score with its covariance."""
    moments = problem.link_moments(eta)
    return moments, *influence(moments.jacobian, np.add(*score_covariance(noise, moments, size)), size, problem.width)


def _standardised(information: Array, width: Array) -> tuple[Array, Array]:
    """Roots of the diagonal of information matrices (R, p, p), never 0, and the matrices divided by them."""
    spread = np.sqrt(np.diagonal(information, axis1=1, axis2=2) + _RIDGE / width**2)
    return spread, information / (spread[:, :, None] * spread[:, None, :])


def estimate(problem: ClampedProblem, noise: SumNoise, sums: Array, count: Array) -> FamilyFit:
    """Solve ``sums = count * E[features]`` for the parameters of every release: sums (R, k), count (R,).

    If there is no solution in a wide but finite range of the parameters, the result is the closest in units of the
    standard deviation of the sums, marked as ``edge``. Never NaN.
    """
    size = np.maximum(count, 1.0)
    eta, distance = _solve(problem, noise, sums / size[:, None], size)
    edge = (distance > _ROOT) | (count < 1.0) | _at_end(problem, eta).any(axis=1)
    moments = problem.link_moments(eta)
    sampling, noisy = score_covariance(noise, moments, size)
    weights, total = influence(moments.jacobian, sampling + noisy, size, problem.width)
    cov_sampling = weights @ sampling @ np.swapaxes(weights, 1, 2)
    row = weights @ (size[:, None, None] * moments.cov) @ np.swapaxes(weights, 1, 2)
    of_row, of_noise = (
        np.sqrt(np.maximum(np.diagonal(one, axis1=1, axis2=2), 1e-300) * scale)
        for one, scale in ((row, size[:, None]), (total - cov_sampling, 1.0))
    )
    kappa = (np.where(problem.links == "identity", of_row, 1.0) / (4 * of_noise)).min(axis=1)
    return FamilyFit(problem, noise, sums, count, size, eta, cov_sampling, total - cov_sampling, edge, kappa)


def _first(problem: ClampedProblem, means: Array) -> Array:
    """Return starting values (R, p): the family's guess, or the lattice point with a closer mean."""
    center, half = problem.scaling
    raw = np.clip(means, -1.0, 1.0) * half + center
    with np.errstate(all="ignore"):
        guess = problem.to_link(problem.family.start(raw, problem.lower, problem.upper))
    guess = np.clip(np.where(np.isnan(guess), problem.box.mean(axis=1), guess), *problem.box.T)
    size = problem.width.size
    share = np.linspace(0.1, 0.9, {1: 17, 2: 9}.get(size, 5))
    lattice = problem.box[:, 0] + _combined([share] * size) * (problem.box[:, 1] - problem.box[:, 0])
    far = ((means[:, None] - problem.link_moments(lattice).mean) ** 2).sum(axis=2)
    near = ((means - problem.link_moments(guess).mean) ** 2).sum(axis=1)
    return np.where((far.min(axis=1) < near)[:, None], lattice[far.argmin(axis=1)], guess)


def _solve(problem: ClampedProblem, noise: SumNoise, means: Array, size: Array) -> tuple[Array, Array]:
    """Levenberg-Marquardt within the box: linked parameters (R, p), and the remaining distance (R,)."""
    width = problem.width
    longest = np.where(problem.links == "identity", width / 8, np.minimum(_LARGEST_STEP, width / 8))
    with_sampling = SumNoise(noise.variances, noise.count_variance)
    eta = _first(problem, means)
    distance, damping = np.full(len(eta), np.inf), np.zeros(len(eta))
    active = np.arange(len(eta))
    moments = problem.link_moments(eta)
    for _ in range(_ITERATIONS):
        left, rows = means[active] - moments.mean, size[active]
        total = np.add(*score_covariance(with_sampling, moments, rows))
        total += 1e-10 * np.diagonal(total, axis1=1, axis2=2)[:, None, :] * np.eye(total.shape[1])
        inverse = np.linalg.inv(total / rows[:, None, None] ** 2)
        slopes = np.swapaxes(moments.jacobian, 1, 2) @ inverse
        now = np.einsum("rk,rkl,rl->r", left, inverse, left)
        spread, information = _standardised(slopes @ moments.jacobian, width)
        information += (1e-12 + damping[active])[:, None, None] * np.eye(width.size)
        gradient = (slopes @ left[..., None])[..., 0]
        step = np.linalg.solve(information, (gradient / spread)[..., None])[..., 0] / spread
        step *= np.minimum(1.0, (longest / np.maximum(np.abs(step), 1e-300)).min(axis=1))[:, None]
        there = np.clip(eta[active] + step, *problem.box.T)
        found = problem.link_moments(there)
        left = means[active] - found.mean
        then = np.einsum("rk,rkl,rl->r", left, inverse, left)
        better, old = then < now, damping[active]
        moved = np.abs(there - eta[active]).max(axis=1)
        eta[active] = np.where(better[:, None], there, eta[active])
        distance[active] = np.where(better, then, now)
        damping[active] = np.where(better, np.where(old < 1e-3, 0.0, old / 8), np.maximum(8 * old, 1e-3))
        keep = (distance[active] > 1e-22) & (moved > 1e-10) & (damping[active] < 1e8)
        moments = Moments(*(np.where(better[(...,) + (None,) * (previous.ndim - 1)], new, previous)[keep]
                            for new, previous in zip(found, moments, strict=True)))  # fmt: skip
        active = active[keep]
        if not active.size:
            break
    return eta, distance


def simulated(
    fit: FamilyFit, law: NoiseLaw, steps: Sequence[float], replicates: int, rng: np.random.Generator
) -> FamilyFit:
    """Simulate releases from the fitted model of one release, with the same clipping and noise, and fit each.

    Up to five million rows are drawn; for more, the sums are drawn as normal with the model's moments. For the target
    "data" the sums are the model's expectation, and only the noise differs. If a unit may have several rows, all units
    have the maximum number of identical rows, the dependence that gives sums the largest variance.
    """
    problem, theta, alike = fit.problem, fit.params, fit.noise.rows_per_unit
    units = max(round(float(fit.size[0]) / alike), 1)
    count = units * alike
    moments = problem.moments(theta)
    if not fit.noise.population:
        sums = np.repeat(count * moments.mean, replicates, axis=0)
    elif units * replicates <= _MOST_DRAWS:
        block = max(_DRAWS_AT_ONCE // units, 1)
        sizes = [(min(block, replicates - done), units) for done in range(0, replicates, block)]
        parts = [problem.features(problem.sample(theta[0], size, rng)).sum(axis=1) for size in sizes]
        sums = alike * np.concatenate(parts)
    else:
        root = root_of(moments.cov[0])
        sums = count * moments.mean + np.sqrt(alike * count) * rng.normal(size=(replicates, len(root))) @ root.T
    noise = law.rvs(replicates, rng) * np.asarray(steps, dtype=np.float64)
    return estimate(problem, fit.noise, sums + noise[:, 1:], count + noise[:, 0])
