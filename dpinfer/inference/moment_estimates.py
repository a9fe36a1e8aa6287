"""Means, variances, covariances, correlations, proportions and totals from noisy sums of monomials."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.moments import (
    FEW_SQUARED,
    Estimates,
    Growth,
    MomentSums,
    Sizes,
    diagonal,
    estimated,
    linearised,
    noisy_sums,
    positive,
    quadratic,
    rescaled,
    size_of,
    skewed,
    squares,
    weighted_by,
)
from dpinfer.inference.skewness import Noisy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.statistics.arrays import Array

__all__ = ["correlations", "covariances", "means", "proportions", "totals", "variances"]


def means(sums: MomentSums, *, population: bool) -> Estimates:
    """Weighted means of every column: sum of w u over sum of w, in [-1, 1]."""
    sizes = size, _ = size_of(sums)
    raw, value, gradient = _ratios(sums, size, -1.0)
    estimates = linearised(sums, sizes, value, gradient, population=population, edge=raw != value, bounds=(-1.0, 1.0))
    if not population:
        return estimates
    bottom = np.zeros_like(gradient)
    bottom[..., sums.monomial()] = 1.0
    weights = noisy_sums(sums, bottom)._replace(value=np.broadcast_to(size[..., None], value.shape))
    first = noisy_sums(sums, gradient)._replace(value=np.zeros_like(value))
    weighted = noisy_sums(sums, weighted_by(sums, gradient))
    found = skewed(estimates, sums, value, weights=weights, first=first, weighted=weighted)
    return found if sums.weighted else _bounded(sums, found)


def _bounded(sums: MomentSums, found: Estimates) -> Estimates:
    """Let no sampling variance of a mean be above what is possible.

    No variance of values in [-1, 1] with this mean exceeds 1 - mean^2; an unknown size leaves nothing better. Nor does
    that of a person's mean under a weight of at most 1, over the sum of weights.
    """
    assert found.line is not None
    few = found.few[..., None]
    most = np.broadcast_to((sums.rows_per_unit / np.maximum(found.size - 1, 1.0))[..., None], found.value.shape)
    line = found.line._replace(variance=np.where(few, most, found.line.variance), most=most)
    line = line._replace(slope=np.where(few, 0.0, line.slope))
    variance = np.minimum(line.variance, most * (1 - found.value**2))
    return replace(found, sampling=rescaled(found.sampling, variance), line=line)


def _ratios(sums: MomentSums, size: Array, lower: float) -> tuple[Array, Array, Array]:
    """Return the sum of every column over the size, the same in [lower, 1], and its gradient times the size."""
    tops = [sums.monomial(column) for column in range(sums.columns)]
    raw = sums.values[..., tops] / size[..., None]
    value = np.clip(raw, lower, 1.0)
    gradient = _unit_gradient(sums, tops)
    gradient[..., sums.monomial()] = -value
    return raw, value, gradient


def _unit_gradient(sums: MomentSums, monomials: list[int]) -> Array:
    """Return the gradient (R, G, q, d) of some of the sums."""
    gradient = np.zeros((*sums.values.shape[:-1], len(monomials), len(sums.exponents)))
    gradient[..., np.arange(len(monomials)), monomials] = 1.0
    return gradient


def variances(sums: MomentSums, *, population: bool) -> Estimates:
    """Variance of every column, in [0, 1]."""
    return _second(sums, [(column, column) for column in range(sums.columns)], population=population)


def covariances(sums: MomentSums, *, population: bool) -> Estimates:
    """Covariances of all pairs of columns, each pair once, a column with itself included."""
    return _second(sums, _pairs(sums), population=population)


def _pairs(sums: MomentSums) -> list[tuple[int, int]]:
    return [(i, j) for i in range(sums.columns) for j in range(i, sums.columns)]


def _second(sums: MomentSums, pairs: list[tuple[int, int]], *, population: bool) -> Estimates:
    sizes = size, _ = size_of(sums, FEW_SQUARED)
    value, gradient = _central(sums, size, pairs)
    diagonal = np.array([i == j for i, j in pairs])
    bounds = np.where(diagonal, 0.0, -1.0), 1.0
    factor = (size / np.maximum(size - 1, 1.0) if population else np.ones_like(size))[..., None]
    clipped = np.clip(value * factor, *bounds)
    growth: tuple[Growth, ...] = tuple("square" if i == j else "none" for i, j in pairs)
    edge = np.asarray((diagonal & (value <= 0)) | (clipped >= 1))
    estimates = linearised(
        sums,
        sizes,
        clipped,
        gradient,
        population=population,
        edge=edge,
        bounds=bounds,
        growth=growth,
        scale=_scales(sums, size, clipped, pairs),
    )
    own = [pairs.index((column, column)) for column in range(sums.columns)]
    together = sums.columns if len(pairs) > sums.columns else 1
    return _unknown(replace(estimates, signal=_signal(value[..., own] / _errors(sums, size), together)))


def _signal(ratios: Array, together: int) -> Array:
    return np.asarray(ratios.min(axis=-1) / (2 * np.sqrt(together + 1)))


def _scales(sums: MomentSums, size: Array, value: Array, pairs: list[tuple[int, int]]) -> Array:
    """Return the product of the two standard deviations for each pair (R, G, q)."""
    own = [value[..., pairs.index((column, column))] for column in range(sums.columns)]
    safe = [np.maximum(one, least) for one, least in zip(own, np.moveaxis(_errors(sums, size), -1, 0), strict=True)]
    return np.stack([np.sqrt(safe[i] * safe[j]) for i, j in pairs], axis=-1)


def _errors(sums: MomentSums, size: Array) -> Array:
    """Return one standard deviation of the noise in each column's mean square (R, G, columns)."""
    own = [sums.monomial(column, column) for column in range(sums.columns)]
    return np.maximum(np.sqrt(sums.noise[own, own]) / size[..., None], 1e-12)


def _unknown(estimates: Estimates) -> Estimates:
    """Let the interval hold everything that is possible in a cell that may be empty: growth is of no use there."""
    width = estimates.value.shape[-1]
    wide = np.where(estimates.few[..., None, None], 4.0 * np.eye(width), estimates.sampling)
    return replace(estimates, sampling=wide)


def _central(sums: MomentSums, size: Array, pairs: Sequence[tuple[int, int]]) -> tuple[Array, Array]:
    """Central second moments (R, G, q), free of the bias of squared noise, and their gradients times the size."""
    shape = (*size.shape, len(pairs))
    value, gradient = np.empty(shape), np.zeros((*shape, len(sums.exponents)))
    mean = [sums.values[..., sums.monomial(c)] / size for c in range(sums.columns)]
    noise, bottom = sums.noise, sums.monomial()
    for place, (i, j) in enumerate(pairs):
        product = sums.monomial(i, j)
        left, right = sums.monomial(i), sums.monomial(j)
        bias = noise[left, right] / size**2
        value[..., place] = sums.values[..., product] / size - mean[i] * mean[j] + bias
        gradient[..., place, product] += 1.0
        gradient[..., place, right] -= mean[i]
        gradient[..., place, left] -= mean[j]
        gradient[..., place, bottom] += mean[i] * mean[j] - value[..., place]
    return value, gradient


def correlations(sums: MomentSums, *, population: bool) -> Estimates:
    """Correlations of all pairs of different columns, in [-1, 1]."""
    sizes = size, _ = size_of(sums, FEW_SQUARED)
    pairs = [(i, j) for i, j in _pairs(sums) if i < j]
    every = [*pairs, *((c, c) for c in range(sums.columns))]
    moment, slope = _central(sums, size, every)
    squares, least = moment[..., len(pairs) :], _errors(sums, size)
    safe = np.maximum(squares, least)
    value = np.empty((*size.shape, len(pairs)))
    gradient = np.zeros((*value.shape, len(sums.exponents)))
    below = np.zeros_like(gradient)
    edge = np.zeros(value.shape, dtype=bool)
    for place, (i, j) in enumerate(pairs):
        product = np.sqrt(safe[..., i] * safe[..., j])
        raw = moment[..., place] / product
        value[..., place] = np.clip(raw, -0.999, 0.999)
        edge[..., place] = (raw != value[..., place]) | (squares[..., [i, j]] <= 3 * least[..., [i, j]]).any(axis=-1)
        both = slope[..., len(pairs) + i, :] / safe[..., i, None] + slope[..., len(pairs) + j, :] / safe[..., j, None]
        below[..., place, :] = 0.5 * both
        gradient[..., place, :] = slope[..., place, :] / product[..., None]
    estimates = linearised(
        sums,
        sizes,
        value,
        gradient - value[..., None] * below,
        population=population,
        edge=edge,
        bounds=(-1.0, 1.0),
        growth="correlation",
        ratio=below,
        scale=1 - value**2,
    )
    signal = _signal(squares / least, sums.columns)
    return _unknown(replace(estimates, signal=signal))


def proportions(sums: MomentSums, *, population: bool) -> Estimates:
    """Shares of levels: counts of levels over their total, in [0, 1]; every level's indicator is a "column"."""
    sizes = size, _ = size_of(sums)
    raw, value, gradient = _ratios(sums, size, 0.0)
    # One success or failure more than counted: a share of 0 or 1 in the sample is not certain in the population.
    padded = (value * size[..., None] + 1) / (size[..., None] + 2)
    own = np.eye(sums.columns, dtype=bool)
    sampling = np.where(own, (padded * (1 - padded))[..., None], -np.einsum("rgq,rgs->rgqs", value, value))
    sampling = positive(sums.rows_per_unit * sampling / size[..., None, None])
    estimates = linearised(
        sums,
        sizes,
        value,
        gradient,
        population=population,
        edge=raw != value,
        bounds=(0.0, 1.0),
        growth="binomial",
        sampling=sampling if population else np.zeros_like(sampling),
    )
    # Shares add up to one: a billionth more variance keeps their covariance invertible whatever the rounding.
    ridge = 1 + 1e-9 * own
    return replace(estimates, sampling=estimates.sampling * ridge, noise=estimates.noise * ridge)


def totals(sums: MomentSums, *, population: bool, nobs: float | None, lower: float, counts: bool) -> Estimates:
    """Totals of every column (of its values, not scaled ones), or counts.

    Parameters
    ----------
    sums : MomentSums
        Of raw columns: first powers, and squares where the target is a population.
    population : bool
    nobs : float or None
        The public number of rows, which another sample would have too; None where a sample's size is random.
    lower : float
        0 where no value is negative, else minus infinity.
    counts : bool
        Whether a row counts 1: then the counts are the first and only monomials.
    """
    if counts:
        sums = replace(sums, lower=0.0, upper=1.0)
    size = np.ones(sums.values.shape[:2])
    first = [0] if counts else [sums.monomial(column) for column in range(sums.columns)]
    raw = sums.values[..., first]
    value, gradient = np.maximum(raw, lower), _unit_gradient(sums, first)
    found = linearised(
        sums,
        Sizes(size, np.zeros(size.shape, dtype=bool)),
        value,
        gradient,
        population=False,
        edge=raw < lower,
        bounds=(lower, np.inf),
        ratio=False,
    )
    if not population:
        return found
    centre, weights = np.zeros_like(value), np.full(value.shape, np.inf)
    influence, spread = noisy_sums(sums, gradient), squares(sums, gradient)
    sampling = quadratic(sums, gradient)
    # The variance of sum x^2 is sum x^4, which is at most the largest x^2 times sum x^2; and no fewer rows are behind
    # both sums than (sum x)^2 / sum x^2.
    own = np.maximum(diagonal(sampling), 1e-300)
    largest = sums.heaviest * np.maximum(np.abs(sums.lower), np.abs(sums.upper))
    rows = np.maximum(value**2 / own, 1 + 2 * own / largest**2)
    if nobs is not None:
        weights, rows = (np.full(value.shape, max(nobs, 1.0)) for _ in range(2))
        centre, influence = value / weights, influence._replace(value=np.zeros_like(value))
        sampling = sampling - np.einsum("rgq,rgs->rgqs", value, value) / max(nobs, 1.0)
        spread = spread - 2 * centre[..., None] * gradient
    units = sums.rows_per_unit
    found = estimated(found, units * positive(sampling), units * spread @ sums.mixing, rows / units)
    known = Noisy(weights, np.zeros_like(influence.moved))
    weighted = known._replace(value=np.zeros_like(value))
    return skewed(found, sums, centre, weights=known, first=influence, weighted=weighted)
