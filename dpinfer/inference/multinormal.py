"""The multivariate normal from noisy sums of clamped values, their squares and products."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import special, stats
from scipy.stats import qmc

from dpinfer.inference.expfam import SumNoise, estimate
from dpinfer.inference.moments import Sizes, linearised
from dpinfer.statistics.arrays import root_of
from dpinfer.statistics.numerical import bisected, composite_nodes

if TYPE_CHECKING:
    from dpinfer.inference.expfam import ClampedProblem
    from dpinfer.inference.moments import Estimates, Growth, MomentSums
    from dpinfer.statistics.arrays import Array, Mask

__all__ = ["clamped_product", "estimate_multinormal", "signal"]

_POINTS = 2**11
_LARGEST = 0.9999
_BISECTIONS = 40
_STEP = 1e-4
_FEW = 5.0
_BLURRED = 1.0
"""Standard error, of the logarithm of a standard deviation, from which on the fit tells nothing."""


@dataclass(frozen=True, eq=False)
class _Shape:
    """Parameters of R normals in k dimensions, in scaled units: values are clamped to [-1, 1].

    Attributes
    ----------
    mean, sd : ndarray (R, k)
    rho : ndarray (R, q)
        Correlations of the pairs.
    pairs : list of (int, int)
    """

    mean: Array
    sd: Array
    rho: Array
    pairs: list[tuple[int, int]]

    @cached_property
    def vector(self) -> Array:
        """Means, logarithms of standard deviations, inverse hyperbolic tangents of correlations (R, p)."""
        return np.concatenate([self.mean, np.log(self.sd), np.arctanh(self.rho)], axis=1)

    def moved(self, vector: Array) -> _Shape:
        """Return the shape with this vector."""
        k = self.mean.shape[1]
        rho = np.clip(np.tanh(vector[:, 2 * k :]), -_LARGEST, _LARGEST)
        return _Shape(vector[:, :k], np.exp(vector[:, k : 2 * k]), rho, self.pairs)


def signal(estimates: Estimates, columns: int) -> float:
    """How far the parameters stand out of the noise, as `dpinfer.inference.expfam.signal` says it.

    A quarter of a unit over the standard deviation that noise alone gives the estimate, the smallest: the unit is one
    standard deviation for a mean, 1 for the logarithm of a standard deviation and for a correlation's artanh.
    """
    value, noise = estimates.value[0, 0], np.diagonal(estimates.noise[0, 0])
    sd = value[columns : 2 * columns]
    unit = np.concatenate([sd, sd, 1 - value[2 * columns :] ** 2])
    return float((unit / 4 / np.sqrt(np.maximum(noise, 1e-300))).min())


def clamped_product(mean: Array, sd: Array, rho: Array) -> Array:
    """Compute the expected product of two clamped normals.

    Parameters
    ----------
    mean, sd : ndarray (R, 2)
    rho : ndarray (R,)

    Returns
    -------
    ndarray (R,)
        ``E[clamp(X) clamp(Y)]`` with both clamped to [-1, 1]: the inner expectation in closed form, the outer by
        Gauss-Legendre quadrature on panels.
    """
    breaks = np.linspace(-8.5, 8.5, 24)
    ends = np.stack([(-1 - mean[:, 0]) / sd[:, 0], (1 - mean[:, 0]) / sd[:, 0]], axis=1)
    panels = np.sort(
        np.concatenate([np.broadcast_to(breaks, (len(mean), breaks.size)), np.clip(ends, -8.5, 8.5)], 1), 1
    )
    nodes, weights = composite_nodes(panels, order=8)
    weights = weights * stats.norm.pdf(nodes)
    first = np.clip(mean[:, :1] + sd[:, :1] * nodes, -1.0, 1.0)
    centre = mean[:, 1:] + sd[:, 1:] * rho[:, None] * nodes
    spread = sd[:, 1:] * np.sqrt(1 - rho[:, None] ** 2)
    return np.asarray((weights * first * _clamped_mean(centre, spread)).sum(axis=1))


def _clamped_mean(mean: Array, sd: Array) -> Array:
    low, high = (-1 - mean) / sd, (1 - mean) / sd
    inside = mean * (special.ndtr(high) - special.ndtr(low)) - sd * (stats.norm.pdf(high) - stats.norm.pdf(low))
    return np.asarray(inside - special.ndtr(low) + special.ndtr(-high))


def estimate_multinormal(sums: MomentSums, problems: list[ClampedProblem], *, population: bool) -> Estimates:
    """Estimate means, standard deviations and correlations, in scaled units.

    Parameters
    ----------
    sums : MomentSums
        Of one cell: 1, u_i and u_i u_j, with u_i the columns scaled to [-1, 1].
    problems : list of ClampedProblem, length k
        The normal family of each scaled column on [-1, 1].
    population : bool

    Returns
    -------
    Estimates
        Of means, standard deviations, correlations (R, 1, 2 k + k (k - 1) / 2).

    Notes
    -----
    Means and standard deviations solve each column's own two equations; each correlation then solves the equation of
    its product. The sampling covariance of the sums is that of the fitted normal, by a fixed quasi-random sample.
    """
    k = sums.columns
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    bottom = sums.monomial()
    noisy = sums.values[:, 0, bottom]
    error = float(np.sqrt(sums.noise[bottom, bottom]))
    size = np.maximum(noisy, max(error, 2.0))
    few = noisy < max(_FEW * error, 2.0)
    shape, edge = _solve(sums, problems, pairs, size)
    gradient, sampling = _linearised(sums, shape, size)
    total = np.einsum("rpd,de,rqe->rpq", gradient, sums.noise, gradient)
    place = np.arange(k, 2 * k)
    blurred = np.sqrt(np.maximum(total[:, place, place], 0.0)) > _BLURRED
    few |= (blurred | edge[:, k : 2 * k]).any(axis=1)
    slope = np.concatenate([np.ones_like(shape.mean), shape.sd, 1 - shape.rho**2], axis=1)
    value = np.concatenate([shape.mean, shape.sd, shape.rho], axis=1)
    found = linearised(
        sums,
        Sizes(size[:, None], few[:, None]),
        value[:, None],
        (gradient * (slope * size[:, None])[:, :, None])[:, None],
        population=population,
        edge=edge[:, None],
        bounds=(np.repeat([-np.inf, 0.0, -1.0], [k, k, len(pairs)]), np.repeat([np.inf, 1.0], [2 * k, len(pairs)])),
        growth=_growth(k, len(pairs)),
        sampling=(sampling * (slope[:, :, None] * slope[:, None, :]) * population)[:, None],
        ratio=False,
    )
    # Where nothing is known the error is huge, and not singular, even if only the noise counts as error.
    wide = np.where(few[:, None, None, None], found.sampling + 1e6 * np.eye(value.shape[1]), found.sampling)
    df = _degrees(shape, found, size) if population else found.df
    return replace(found, sampling=wide, df=df, of_model=True)


def _growth(columns: int, pairs: int) -> tuple[Growth, ...]:
    flat: list[Growth] = ["none"] * columns
    deviations: list[Growth] = ["deviation"] * columns
    related: list[Growth] = ["correlation"] * pairs
    return (*flat, *deviations, *related)


def _solve(
    sums: MomentSums, problems: list[ClampedProblem], pairs: list[tuple[int, int]], size: Array
) -> tuple[_Shape, Mask]:
    """Solve the columns one by one, then the correlations; also whether each was moved to an edge (R, p)."""
    noise, values = sums.noise, sums.values[:, 0]
    means, sds, edges = [], [], []
    for column, problem in enumerate(problems):
        first, square, bottom = sums.monomial(column), sums.monomial(column, column), sums.monomial()
        # The feature of the square is 2 u^2 - 1; its noise is that of the released feature itself.
        own = np.array([noise[first, first], 4 * (noise[square, square] - noise[bottom, bottom] / 4)])
        fit = estimate(
            problem,
            SumNoise(own, float(noise[bottom, bottom])),
            np.stack([values[:, first], 2 * values[:, square] - values[:, bottom]], axis=1),
            size,
        )
        means.append(fit.params[:, 0])
        sds.append(fit.params[:, 1])
        edges.append(fit.edge)
    mean, sd = np.stack(means, axis=1), np.stack(sds, axis=1)
    rho, moved = [], []
    for i, j in pairs:
        wanted = values[:, sums.monomial(i, j)] / size
        found, at_edge = _correlation(mean[:, [i, j]], sd[:, [i, j]], wanted)
        rho.append(found)
        moved.append(at_edge | edges[i] | edges[j])
    edge = np.stack([*edges, *edges, *moved], axis=1)
    return _Shape(mean, sd, np.stack(rho, axis=1), pairs), edge


def _correlation(mean: Array, sd: Array, wanted: Array) -> tuple[Array, Mask]:
    low, high = np.full(len(wanted), -_LARGEST), np.full(len(wanted), _LARGEST)
    edge = (clamped_product(mean, sd, low) >= wanted) | (clamped_product(mean, sd, high) <= wanted)
    low, high = bisected(lambda rho: clamped_product(mean, sd, rho) < wanted, low, high, rounds=_BISECTIONS)
    return 0.5 * (low + high), edge


def _expected(sums: MomentSums, shape: _Shape) -> Array:
    """Compute the expected monomials (R, d) of one row of the clamped normal."""
    found = np.ones((len(shape.mean), len(sums.exponents)))
    low, high = (-1 - shape.mean) / shape.sd, (1 - shape.mean) / shape.sd
    for column in range(shape.mean.shape[1]):
        m, s = shape.mean[:, column], shape.sd[:, column]
        a, b = low[:, column], high[:, column]
        inside = special.ndtr(b) - special.ndtr(a)
        second = m**2 * inside - 2 * m * s * (stats.norm.pdf(b) - stats.norm.pdf(a))
        second += s**2 * (inside - (b * stats.norm.pdf(b) - a * stats.norm.pdf(a)))
        found[:, sums.monomial(column)] = _clamped_mean(m, s)
        found[:, sums.monomial(column, column)] = second + special.ndtr(a) + special.ndtr(-b)
    for place, (i, j) in enumerate(shape.pairs):
        found[:, sums.monomial(i, j)] = clamped_product(shape.mean[:, [i, j]], shape.sd[:, [i, j]], shape.rho[:, place])
    return found


def _linearised(sums: MomentSums, shape: _Shape, size: Array) -> tuple[Array, Array]:
    """How each noisy sum moves the (linked) parameters (R, p, d), and their sampling covariance (R, p, p)."""
    vector, bottom = shape.vector, sums.monomial()
    others = [place for place in range(len(sums.exponents)) if place != bottom]
    expected = _expected(sums, shape)
    columns = []
    for index in range(vector.shape[1]):
        step = np.zeros(vector.shape[1])
        step[index] = _STEP
        up, down = (_expected(sums, shape.moved(vector + sign * step)) for sign in (1.0, -1.0))
        columns.append((up - down)[:, others] / (2 * _STEP))
    jacobian = np.stack(columns, axis=2)
    inverse = np.linalg.pinv(jacobian, rcond=1e-12)
    gradient = np.zeros((len(vector), vector.shape[1], len(sums.exponents)))
    gradient[:, :, others] = inverse / size[:, None, None]
    gradient[:, :, bottom] = -np.einsum("rpd,rd->rp", inverse, expected[:, others]) / size[:, None]
    covariance = _row_covariance(sums, shape, others)
    sampling = np.einsum("rpd,rde,rqe->rpq", inverse, covariance, inverse) * (sums.rows_per_unit / size)[:, None, None]
    return gradient, sampling


def _row_covariance(sums: MomentSums, shape: _Shape, others: list[int]) -> Array:
    """Covariance of one row's monomials (R, d - 1, d - 1), from a fixed quasi-random normal sample."""
    k = shape.mean.shape[1]
    normal = _sample(k)
    correlation = np.broadcast_to(np.eye(k), (len(shape.mean), k, k)).copy()
    for place, (i, j) in enumerate(shape.pairs):
        correlation[:, i, j] = correlation[:, j, i] = shape.rho[:, place]
    root = root_of(correlation)
    exponents = np.array([sums.exponents[place][:-1] for place in others])
    out = np.empty((len(shape.mean), len(others), len(others)))
    for index in range(len(shape.mean)):
        rows = np.clip(shape.mean[index] + shape.sd[index] * (normal @ root[index].T), -1.0, 1.0)
        powers = np.ones((len(rows), len(others)))
        for column in range(k):
            powers *= rows[:, column, None] ** exponents[:, column]
        out[index] = np.cov(powers, rowvar=False)
    return out


@cache
def _sample(k: int) -> Array:
    uniform = qmc.Sobol(k, scramble=True, rng=np.random.default_rng(0)).random(_POINTS)
    return np.asarray(stats.norm.ppf(np.clip(uniform, 1e-9, 1 - 1e-9)))


def _degrees(shape: _Shape, found: Estimates, size: Array) -> Array:
    """Satterthwaite's degrees of freedom: of a mean by how well its standard deviation is known; else infinite."""
    df, total = found.df.copy(), found.variance[:, 0]
    k = shape.mean.shape[1]
    variance, known = total[:, :k], total[:, k : 2 * k]
    error = (2 * shape.sd / size[:, None]) ** 2 * known
    df[:, 0, :k] = np.clip(2 * variance**2 / np.maximum(error, 2e-9 * variance**2 + 1e-300), 2.0, 1e9)
    return df
