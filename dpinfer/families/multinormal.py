"""The multivariate normal from noisy sums of clipped values, their squares and products."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy import special, stats
from scipy.stats import qmc

from dpinfer.families.distributions import Normal
from dpinfer.families.estimation import SumNoise, clamped_problem, estimate
from dpinfer.schema.columns import Real
from dpinfer.schema.schema import Schema
from dpinfer.statistics.arrays import root_of
from dpinfer.statistics.moments import Sizes, linearised
from dpinfer.statistics.numerical import bisected, composite_nodes

if TYPE_CHECKING:
    from dpinfer.statistics.arrays import Array, Mask
    from dpinfer.statistics.moments import Estimates, Growth, MomentSums

_POINTS, _STEP = 2**11, 1e-4
_LARGEST, _BISECTIONS = 0.9999, 40
_FEW = 5.0
_BLURRED = 1.0
"""Standard error of the log standard deviation beyond which the fit is uninformative."""


def clamped_product(mean: Array, sd: Array, rho: Array) -> Array:
    """Compute the expected product of two clipped normals.

    Parameters
    ----------
    mean, sd : ndarray (R, 2)
    rho : ndarray (R,)

    Returns
    -------
    ndarray (R,)
        ``E[clamp(X) clamp(Y)]`` with both clipped to [-1, 1]: the inner expectation in closed form, the outer by
        Gauss-Legendre quadrature on panels.
    """
    breaks = np.broadcast_to(np.linspace(-8.5, 8.5, 24), (len(mean), 24))
    ends = np.stack([(-1 - mean[:, 0]) / sd[:, 0], (1 - mean[:, 0]) / sd[:, 0]], axis=1)
    nodes, weights = composite_nodes(np.sort(np.concatenate([breaks, np.clip(ends, -8.5, 8.5)], 1), 1), order=8)
    weights = weights * stats.norm.pdf(nodes)
    first = np.clip(mean[:, :1] + sd[:, :1] * nodes, -1.0, 1.0)
    centre = mean[:, 1:] + sd[:, 1:] * rho[:, None] * nodes
    spread = sd[:, 1:] * np.sqrt(1 - rho[:, None] ** 2)
    return np.asarray((weights * first * _clamped_mean(centre, spread)).sum(axis=1))


def _clamped_mean(mean: Array, sd: Array) -> Array:
    low, high = (-1 - mean) / sd, (1 - mean) / sd
    inside = mean * (special.ndtr(high) - special.ndtr(low)) - sd * (stats.norm.pdf(high) - stats.norm.pdf(low))
    return np.asarray(inside - special.ndtr(low) + special.ndtr(-high))


def estimate_multinormal(sums: MomentSums, *, population: bool) -> Estimates:
    """Estimate means, standard deviations and correlations, in scaled units.

    Parameters
    ----------
    sums : MomentSums
        Of one cell: 1, u_i and u_i u_j, with u_i the columns scaled to [-1, 1].
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
    bottom = sums.monomial()
    noisy, error = sums.values[:, 0, bottom], float(np.sqrt(sums.noise[bottom, bottom]))
    size = np.maximum(noisy, max(error, 2.0))
    few = noisy < max(_FEW * error, 2.0)
    value, edge = _solve(sums, size)
    mean, sd, rho = value[:, :k], value[:, k : 2 * k], value[:, 2 * k :]
    gradient, sampling = _linearised(sums, mean, sd, rho, size)
    total = np.einsum("rpd,de,rqe->rpq", gradient, sums.noise, gradient)
    blurred = np.sqrt(np.maximum(np.diagonal(total, axis1=1, axis2=2)[:, k : 2 * k], 0.0)) > _BLURRED
    few |= (blurred | edge[:, k : 2 * k]).any(axis=1)
    slope = np.concatenate([np.ones_like(mean), sd, 1 - rho**2], axis=1)
    pairs = rho.shape[1]
    growth = cast("tuple[Growth, ...]", ("none",) * k + ("deviation",) * k + ("correlation",) * pairs)
    found = linearised(
        sums,
        Sizes(size[:, None], few[:, None]),
        value[:, None],
        (gradient * (slope * size[:, None])[:, :, None])[:, None],
        population=population,
        edge=edge[:, None],
        bounds=(np.repeat([-np.inf, 0.0, -1.0], [k, k, pairs]), np.repeat([np.inf, 1.0], [2 * k, pairs])),
        growth=growth,
        sampling=(sampling * (slope[:, :, None] * slope[:, None, :]) * population)[:, None],
        ratio=False,
    )
    # Where nothing is known the error is huge, and not singular, even if only the noise counts as error.
    wide = np.where(few[:, None, None, None], found.sampling + 1e6 * np.eye(value.shape[1]), found.sampling)
    df = found.df.copy()
    if population:  # Satterthwaite's, of a mean by how well its standard deviation is known; else infinite
        variance, known = found.variance[:, 0, :k], found.variance[:, 0, k : 2 * k]
        spread = (2 * sd / size[:, None]) ** 2 * known
        df[:, 0, :k] = np.clip(2 * variance**2 / np.maximum(spread, 2e-9 * variance**2 + 1e-300), 2.0, 1e9)
    return replace(found, sampling=wide, df=df, of_model=True)


def _solve(sums: MomentSums, size: Array) -> tuple[Array, Mask]:
    """Solve the columns one by one, then the correlations: values (R, p), and whether each is at a boundary."""
    problem, noise, values = clamped_problem(Normal(), "u", Schema(u=Real(-1.0, 1.0))), sums.noise, sums.values[:, 0]
    bottom, fits = sums.monomial(), []
    for column in range(sums.columns):
        first, square = sums.monomial(column), sums.monomial(column, column)
        # The feature of the square is 2 u^2 - 1; its noise is that of the released feature itself.
        own = np.array([noise[first, first], 4 * (noise[square, square] - noise[bottom, bottom] / 4)])
        both = np.stack([values[:, first], 2 * values[:, square] - values[:, bottom]], axis=1)
        fits.append(estimate(problem, SumNoise(own, float(noise[bottom, bottom])), both, size))
    mean, sd = np.stack([fit.params for fit in fits], axis=2).swapaxes(0, 1)
    related, edges = [], [fit.edge for fit in fits]
    for i, j in combinations(range(sums.columns), 2):
        found, at_edge = _correlation(mean[:, [i, j]], sd[:, [i, j]], values[:, sums.monomial(i, j)] / size)
        related.append(found)
        edges.append(at_edge | fits[i].edge | fits[j].edge)
    edge = np.stack([*edges[: sums.columns], *edges], axis=1)
    return np.concatenate([mean, sd, np.stack(related, axis=1)], axis=1), edge


def _correlation(mean: Array, sd: Array, wanted: Array) -> tuple[Array, Mask]:
    """Solve for the correlation (R,) that gives the expected product, and say whether there is none."""
    low, high = np.full(len(wanted), -_LARGEST), np.full(len(wanted), _LARGEST)
    edge = (clamped_product(mean, sd, low) >= wanted) | (clamped_product(mean, sd, high) <= wanted)
    low, high = bisected(lambda rho: clamped_product(mean, sd, rho) < wanted, low, high, rounds=_BISECTIONS)
    return 0.5 * (low + high), edge


def _expected(sums: MomentSums, mean: Array, sd: Array, rho: Array) -> Array:
    """Compute the expected monomials (R, d) of one row of the clipped normal."""
    found = np.ones((len(mean), len(sums.exponents)))
    for column in range(sums.columns):
        m, s = mean[:, column], sd[:, column]
        a, b = (-1 - m) / s, (1 - m) / s
        inside = special.ndtr(b) - special.ndtr(a)
        second = m**2 * inside - 2 * m * s * (stats.norm.pdf(b) - stats.norm.pdf(a))
        second += s**2 * (inside - (b * stats.norm.pdf(b) - a * stats.norm.pdf(a)))
        found[:, sums.monomial(column)] = _clamped_mean(m, s)
        found[:, sums.monomial(column, column)] = second + special.ndtr(a) + special.ndtr(-b)
    for place, (i, j) in enumerate(combinations(range(sums.columns), 2)):
        found[:, sums.monomial(i, j)] = clamped_product(mean[:, [i, j]], sd[:, [i, j]], rho[:, place])
    return found


def _linearised(sums: MomentSums, mean: Array, sd: Array, rho: Array, size: Array) -> tuple[Array, Array]:
    """Return derivatives of the parameters in the noisy sums (R, p, d), and the sampling covariance (R, p, p).

    Standard deviations are on the log scale, correlations on the artanh scale.
    """
    k, bottom = sums.columns, sums.monomial()
    others = [place for place in range(len(sums.exponents)) if place != bottom]
    vector = np.concatenate([mean, np.log(sd), np.arctanh(rho)], axis=1)

    def expected(vector: Array) -> Array:
        related = np.clip(np.tanh(vector[:, 2 * k :]), -_LARGEST, _LARGEST)
        return _expected(sums, vector[:, :k], np.exp(vector[:, k : 2 * k]), related)[:, others]

    steps = _STEP * np.eye(vector.shape[1])
    jacobian = np.stack([(expected(vector + one) - expected(vector - one)) / (2 * _STEP) for one in steps], axis=2)
    inverse = np.linalg.pinv(jacobian, rcond=1e-12)
    gradient = np.zeros((*inverse.shape[:2], len(sums.exponents)))
    gradient[:, :, others] = inverse / size[:, None, None]
    means = _expected(sums, mean, sd, rho)[:, others]
    gradient[:, :, bottom] = -np.einsum("rpd,rd->rp", inverse, means) / size[:, None]

    correlation = np.broadcast_to(np.eye(k), (len(mean), k, k)).copy()
    for place, (i, j) in enumerate(combinations(range(k), 2)):
        correlation[:, i, j] = correlation[:, j, i] = rho[:, place]
    root, exponents = root_of(correlation), np.array([sums.exponents[place][:-1] for place in others])
    covariance = np.empty((len(mean), len(others), len(others)))  # of one row's monomials
    for index in range(len(mean)):
        rows = np.clip(mean[index] + sd[index] * (_sample(k) @ root[index].T), -1.0, 1.0)
        covariance[index] = np.cov(np.prod(rows[:, None] ** exponents, axis=2), rowvar=False)
    sampling = np.einsum("rpd,rde,rqe->rpq", inverse, covariance, inverse) * (sums.rows_per_unit / size)[:, None, None]
    return gradient, sampling


@cache
def _sample(k: int) -> Array:
    """Draw a fixed quasi-random sample of k independent normal variables (N, k)."""
    uniform = qmc.Sobol(k, scramble=True, rng=np.random.default_rng(0)).random(_POINTS)
    return np.asarray(stats.norm.ppf(np.clip(uniform, 1e-9, 1 - 1e-9)))
