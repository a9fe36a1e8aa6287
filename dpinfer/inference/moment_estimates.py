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
    diagonal,
    linearised,
    positive,
    quadratic,
    rescaled,
    size_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.numerics.arrays import Array, Mask

__all__ = ["correlations", "covariances", "means", "proportions", "totals", "variances"]


def means(sums: MomentSums, *, population: bool) -> Estimates:
    """Weighted means of every column: sum of w u over sum of w, in [-1, 1]."""
    size, few = size_of(sums)
    first = [sums.monomial(column) for column in range(sums.columns)]
    bottom = sums.monomial()
    raw = sums.values[..., first] / size[..., None]
    value = np.clip(raw, -1.0, 1.0)
    gradient = np.zeros((*value.shape, len(sums.exponents)))
    for place, top in enumerate(first):
        gradient[..., place, top] = 1.0
    gradient[..., bottom] = -value
    estimates = linearised(
        sums,
        value,
        gradient,
        size,
        few,
        population=population,
        edge=raw != value,
        lower=-1.0,
        upper=1.0,
        growth="none",
        ratio=True,
    )
    if not population or sums.weighted:
        return estimates
    # No variance of values in [-1, 1] with this mean exceeds 1 - mean^2; an unknown size leaves nothing better. Nor
    # does that of a person's mean under a weight of at most 1, over the sum of weights.
    largest = sums.rows_per_unit * (1 - value**2) / np.maximum(size - 1, 1.0)[..., None]
    variance = np.where(few[..., None], largest, np.minimum(diagonal(estimates.sampling), largest))
    return replace(estimates, sampling=rescaled(estimates.sampling, variance))


def variances(sums: MomentSums, *, population: bool) -> Estimates:
    """Variance of every column, in [0, 1]."""
    return _second(sums, [(column, column) for column in range(sums.columns)], population=population)


def covariances(sums: MomentSums, *, population: bool) -> Estimates:
    """Covariances of all pairs of columns, each pair once, a column with itself included."""
    return _second(sums, _pairs(sums), population=population)


def _pairs(sums: MomentSums) -> list[tuple[int, int]]:
    return [(i, j) for i in range(sums.columns) for j in range(i, sums.columns)]


def _second(sums: MomentSums, pairs: list[tuple[int, int]], *, population: bool) -> Estimates:
    size, few = size_of(sums, FEW_SQUARED)
    value, gradient = _central(sums, size, pairs)
    diagonal = np.array([i == j for i, j in pairs])
    lower = np.where(diagonal, 0.0, -1.0)
    factor = (size / np.maximum(size - 1, 1.0) if population else np.ones_like(size))[..., None]
    clipped = np.clip(value * factor, lower, 1.0)
    growth: Growth = "square" if diagonal.all() else "none"
    edge: Mask = np.asarray((diagonal & (value <= 0)) | (clipped >= 1))
    estimates = linearised(
        sums,
        clipped,
        gradient,
        size,
        few,
        population=population,
        edge=edge,
        lower=lower,
        upper=1.0,
        growth=growth,
        ratio=True,
    )
    return _unknown(estimates)


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
    size, few = size_of(sums, FEW_SQUARED)
    pairs = [(i, j) for i, j in _pairs(sums) if i < j]
    every = [*pairs, *((c, c) for c in range(sums.columns))]
    moment, slope = _central(sums, size, every)
    spread = np.stack(
        [np.sqrt(sums.noise[sums.monomial(c, c), sums.monomial(c, c)]) / size for c in range(sums.columns)], -1
    )
    squares = moment[..., len(pairs) :]
    least = np.maximum(spread, 1e-12)
    safe = np.maximum(squares, least)
    value = np.empty((*size.shape, len(pairs)))
    gradient = np.zeros((*value.shape, len(sums.exponents)))
    edge = np.zeros(value.shape, dtype=bool)
    for place, (i, j) in enumerate(pairs):
        product = np.sqrt(safe[..., i] * safe[..., j])
        raw = moment[..., place] / product
        value[..., place] = np.clip(raw, -0.999, 0.999)
        edge[..., place] = (raw != value[..., place]) | (squares[..., [i, j]] <= 3 * least[..., [i, j]]).any(axis=-1)
        rho = value[..., place]
        both = slope[..., len(pairs) + i, :] / safe[..., i, None] + slope[..., len(pairs) + j, :] / safe[..., j, None]
        gradient[..., place, :] = slope[..., place, :] / product[..., None] - 0.5 * rho[..., None] * both
    estimates = linearised(
        sums,
        value,
        gradient,
        size,
        few,
        population=population,
        edge=edge,
        lower=-1.0,
        upper=1.0,
        growth="correlation",
    )
    return _unknown(estimates)


def proportions(sums: MomentSums, *, population: bool) -> Estimates:
    """Shares of levels: counts of levels over their total, in [0, 1]; every level's indicator is a "column"."""
    size, few = size_of(sums)
    levels = [sums.monomial(column) for column in range(sums.columns)]
    bottom = sums.monomial()
    raw = sums.values[..., levels] / size[..., None]
    value = np.clip(raw, 0.0, 1.0)
    gradient = np.zeros((*value.shape, len(sums.exponents)))
    for place, top in enumerate(levels):
        gradient[..., place, top] = 1.0
    gradient[..., bottom] = -value
    # One success or failure more than counted: a share of 0 or 1 in the sample is not certain in the population.
    padded = (value * size[..., None] + 1) / (size[..., None] + 2)
    sampling = np.einsum("rgq,qs->rgqs", padded * (1 - padded), np.eye(len(levels)))
    if len(levels) > 1:
        off = -np.einsum("rgq,rgs->rgqs", value, value)
        sampling = np.where(np.eye(len(levels), dtype=bool), sampling, off)
    sampling = sums.rows_per_unit * sampling
    sampling = positive(sampling / size[..., None, None]) if population else np.zeros_like(sampling)
    estimates = linearised(
        sums,
        value,
        gradient,
        size,
        few,
        population=population,
        edge=raw != value,
        lower=0.0,
        upper=1.0,
        growth="binomial",
        sampling=sampling,
        ratio=True,
    )
    # Shares add up to one: a billionth more variance keeps their covariance invertible whatever the rounding.
    ridge = 1 + 1e-9 * np.eye(len(levels))
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
    size = np.ones(sums.values.shape[:2])
    first = list(range(1)) if counts else [sums.monomial(column) for column in range(sums.columns)]
    raw = sums.values[..., first]
    value = np.maximum(raw, lower)
    gradient = np.zeros((*value.shape, len(sums.exponents)))
    for place, top in enumerate(first):
        gradient[..., place, top] = 1.0
    sampling = np.zeros((*value.shape, len(first)))
    if population:
        sampling = sums.rows_per_unit * (np.maximum(raw, 0.0)[..., None] if counts else quadratic(sums, gradient))
        if nobs is not None:
            sampling = sampling - np.einsum("rgq,rgs->rgqs", value, value) / max(nobs, 1.0)
        sampling = positive(sampling)
    growth: Growth = "poisson" if counts and population and nobs is None else "none"
    return linearised(
        sums,
        value,
        gradient,
        size,
        np.zeros(size.shape, dtype=bool),
        population=population,
        edge=raw < lower,
        lower=lower,
        upper=np.inf,
        growth=growth,
        sampling=sampling,
    )
