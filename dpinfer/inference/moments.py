"""Means, variances, covariances, correlations, proportions and totals from noisy sums in the cells of a table.

Every estimate is a smooth function of sums of monomials of scaled columns. Its linearisation in the sums is also
its influence function: applied to the noise it gives the noise variance, applied to the sums of squares and
products it gives the sampling variance. Arrays run over R releases, G cells and q quantities.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import stats

from dpinfer.numerics.roots import outermost_crossing
from dpinfer.numerics.tails import laplace_sum_isf, laplace_sum_sf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = [
    "Estimates",
    "Growth",
    "MomentSums",
    "correlations",
    "covariances",
    "intervals",
    "means",
    "proportions",
    "pvalues",
    "totals",
    "variances",
]

Growth = Literal["none", "square", "correlation", "binomial", "poisson"]
Exponent = tuple[int, ...]

_FEW = 3.0
"""A cell whose noisy size is below so many standard deviations of its noise counts as possibly empty."""

_FEW_SQUARED = 5.0
"""The same where squares of noisy means enter."""

_BLURRED = 8.0
"""Degrees of freedom below which a sampling error is itself mostly noise."""


@dataclass(frozen=True, eq=False)
class MomentSums:
    """Noisy sums of monomials in every cell.

    Attributes
    ----------
    exponents : tuple of tuple of int, length d
        Powers of each scaled column, and last of the weight, in each monomial.
    values : ndarray (R, G, d)
        Noisy sums of the monomials.
    mixing : ndarray (d, m)
        The monomials as combinations of the released sums of a cell.
    variances : ndarray (m,)
        Noise variance of the released sums.
    laplace : bool
        Whether the noise is Laplace.
    """

    exponents: tuple[Exponent, ...]
    values: Array
    mixing: Array
    variances: Array
    laplace: bool

    @cached_property
    def place(self) -> dict[Exponent, int]:
        """Where each monomial is."""
        return {exponent: index for index, exponent in enumerate(self.exponents)}

    @cached_property
    def noise(self) -> Array:
        """Covariance of the noise in the monomials of a cell (d, d)."""
        result: Array = (self.mixing * self.variances) @ self.mixing.T
        return result

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.exponents[0]) - 1

    @property
    def weighted(self) -> bool:
        """Whether rows carry weights."""
        return any(exponent[-1] for exponent in self.exponents)

    def monomial(self, *columns: int) -> int:
        """Place of the product of some columns, times the weight where rows carry weights."""
        powers = [columns.count(column) for column in range(self.columns)]
        return self.place[(*powers, int(self.weighted))]


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates of R releases in G cells, q quantities in each, in scaled units.

    Attributes
    ----------
    value : ndarray (R, G, q)
    sampling, noise : ndarray (R, G, q, q)
        Covariances within a cell; cells are independent.
    mixing : ndarray (R, G, q, m)
        How each released sum of the cell moves the estimate.
    size : ndarray (R, G)
        The noisy size that was divided by, raised to where it can be divided by.
    df : ndarray (R, G, q)
        Degrees of freedom of the estimated variance (Satterthwaite 1946); infinite where it is known.
    few : ndarray of bool (R, G)
        Whether the cell may be empty for all that is known.
    edge : ndarray of bool (R, G, q)
        Whether the estimate was moved to the edge of what is possible.
    lower, upper : float or ndarray (q,)
        What is possible.
    growth : str or tuple of str, length q
        How the sampling variance depends on the value that is tested.
    denominator : ndarray (R, G, q, 3) or None
        Of a ratio: noise variance of the numerator, its covariance with the denominator, and the denominator's.
    variances : ndarray (m,)
    laplace : bool
    spread : ndarray (R, G, q, m)
        How each released sum moves the estimated sampling variance.
    """

    value: Array
    sampling: Array
    noise: Array
    mixing: Array
    size: Array
    df: Array
    few: NDArray[np.bool_]
    edge: NDArray[np.bool_]
    lower: Array | float
    upper: Array | float
    growth: Growth | tuple[Growth, ...]
    denominator: Array | None
    variances: Array
    laplace: bool
    spread: Array

    @property
    def variance(self) -> Array:
        """Variance at the estimate (R, G, q)."""
        return _diagonal(self.sampling) + _diagonal(self.noise)

    def variance_at(self, tested: Array) -> Array:
        """Variance if the truth were ``tested`` (R, G, q): what a score interval uses."""
        sampling, noise = _diagonal(self.sampling), _diagonal(self.noise)
        size = self.size[..., None]
        if self.denominator is not None:
            top, both, bottom = np.moveaxis(self.denominator, -1, 0)
            noise = (top - 2 * tested * both + tested**2 * bottom) / size**2
        growths = self.growth if isinstance(self.growth, tuple) else (self.growth,) * tested.shape[-1]
        parts = [self._grown(one, sampling, tested, place) for place, one in enumerate(growths)]
        result: Array = np.stack(parts, axis=-1) + noise
        return result

    def _grown(self, growth: Growth, sampling: Array, tested: Array, place: int) -> Array:
        """Give the sampling variance of one quantity if the truth were ``tested`` (R, G)."""
        own, value, truth = sampling[..., place], self.value[..., place], tested[..., place]
        middle = 0.5 * (truth + value)
        if growth == "square":
            own = np.where(self.few, own, own * _ratio(middle, value) ** 2)
        elif growth == "correlation":
            own = np.where(self.few, own, own * _ratio(1 - middle**2, 1 - value**2) ** 2)
        elif growth == "binomial":
            own = np.where(own > 0, truth * (1 - truth) / self.size, 0.0)
        elif growth == "poisson":
            own = np.where(own > 0, np.maximum(truth, 0.0), 0.0)
        return own

    def shares(self, variance: Array) -> Array:
        """Share of a variance that each Laplace variable carries (R, G, q, m)."""
        shares = self.mixing**2 * self.variances / np.maximum(variance, 1e-300)[..., None]
        total = shares.sum(axis=-1, keepdims=True)
        result: Array = shares / np.maximum(total, 1.0)
        return result

    @property
    def blurred(self) -> NDArray[np.bool_]:
        """Whether the sampling variance of an estimate is itself mostly noise (R, G, q)."""
        return np.asarray((self.df < _BLURRED) & (self.size[..., None] > 2 * _BLURRED) & ~self.few[..., None])

    @property
    def flagged(self) -> NDArray[np.bool_]:
        """Whether a release carries any warning (R,)."""
        return np.asarray(self.few.any(axis=1) | (self.edge | self.blurred).any(axis=(1, 2)))


def _diagonal(matrices: Array) -> Array:
    return np.diagonal(matrices, axis1=-2, axis2=-1)


def _ratio(top: Array, bottom: Array) -> Array:
    return top / np.where(np.abs(bottom) > 1e-12, bottom, 1e-12)


def means(sums: MomentSums, *, population: bool) -> Estimates:
    """Weighted means of every column: sum of w u over sum of w, in [-1, 1]."""
    size, few = _size(sums)
    first = [sums.monomial(column) for column in range(sums.columns)]
    bottom = sums.monomial()
    raw = sums.values[..., first] / size[..., None]
    value = np.clip(raw, -1.0, 1.0)
    gradient = np.zeros((*value.shape, len(sums.exponents)))
    for place, top in enumerate(first):
        gradient[..., place, top] = 1.0
    gradient[..., bottom] = -value
    estimates = _estimates(
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
    # No variance of values in [-1, 1] with this mean exceeds 1 - mean^2; an unknown size leaves nothing better.
    largest = (1 - value**2) / np.maximum(size - 1, 1.0)[..., None]
    variance = np.where(few[..., None], largest, np.minimum(_diagonal(estimates.sampling), largest))
    return replace(estimates, sampling=_rescaled(estimates.sampling, variance))


def variances(sums: MomentSums, *, population: bool) -> Estimates:
    """Variance of every column, in [0, 1]."""
    return _second(sums, [(column, column) for column in range(sums.columns)], population=population)


def covariances(sums: MomentSums, *, population: bool) -> Estimates:
    """Covariances of all pairs of columns, each pair once, a column with itself included."""
    return _second(sums, _pairs(sums), population=population)


def _pairs(sums: MomentSums) -> list[tuple[int, int]]:
    return [(i, j) for i in range(sums.columns) for j in range(i, sums.columns)]


def _second(sums: MomentSums, pairs: list[tuple[int, int]], *, population: bool) -> Estimates:
    size, few = _size(sums, _FEW_SQUARED)
    value, gradient = _central(sums, size, pairs)
    diagonal = np.array([i == j for i, j in pairs])
    lower = np.where(diagonal, 0.0, -1.0)
    factor = (size / np.maximum(size - 1, 1.0) if population else np.ones_like(size))[..., None]
    clipped = np.clip(value * factor, lower, 1.0)
    growth: Growth = "square" if diagonal.all() else "none"
    edge: NDArray[np.bool_] = np.asarray((diagonal & (value <= 0)) | (clipped >= 1))
    estimates = _estimates(
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
    return _unknown(estimates) if population else estimates


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
    size, few = _size(sums, _FEW_SQUARED)
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
    estimates = _estimates(
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
    return _unknown(estimates) if population else estimates


def proportions(sums: MomentSums, *, population: bool) -> Estimates:
    """Shares of levels: counts of levels over their total, in [0, 1]; every level's indicator is a "column"."""
    size, few = _size(sums)
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
    sampling = _positive(sampling / size[..., None, None]) if population else np.zeros_like(sampling)
    estimates = _estimates(
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
        sampling = np.maximum(raw, 0.0)[..., None] if counts else _quadratic(sums, gradient)
        if nobs is not None:
            sampling = sampling - np.einsum("rgq,rgs->rgqs", value, value) / max(nobs, 1.0)
        sampling = _positive(sampling)
    growth: Growth = "poisson" if counts and population and nobs is None else "none"
    return _estimates(
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


def _size(sums: MomentSums, least_ratio: float = _FEW) -> tuple[Array, NDArray[np.bool_]]:
    """Noisy size of each cell, raised to one standard deviation of its noise, and whether it may be empty."""
    bottom = sums.monomial()
    noisy, error = sums.values[..., bottom], float(np.sqrt(sums.noise[bottom, bottom]))
    least = max(error, 1e-6 if sums.weighted else 1.0)
    return np.maximum(noisy, least), noisy < max(least_ratio * error, least)


def _quadratic(sums: MomentSums, gradient: Array) -> Array:
    """Sum over rows of the products of influences (R, G, q, q), from the released sums of products."""
    used = np.flatnonzero(np.any(gradient != 0, axis=tuple(range(gradient.ndim - 1))))
    table = np.array([[sums.place[_sum(sums.exponents[a], sums.exponents[b])] for b in used] for a in used])
    products = sums.values[..., table]
    part = gradient[..., used]
    result: Array = np.einsum("rgqa,rgab,rgsb->rgqs", part, products, part)
    return result


def _squares(sums: MomentSums, gradient: Array) -> Array:
    """How each monomial's sum moves the sums of squared influences (R, G, q, d)."""
    moved = np.zeros_like(gradient)
    used = np.flatnonzero(np.any(gradient != 0, axis=tuple(range(gradient.ndim - 1))))
    for a in used:
        for b in used:
            moved[..., sums.place[_sum(sums.exponents[a], sums.exponents[b])]] += gradient[..., a] * gradient[..., b]
    return moved


def _sum(a: Exponent, b: Exponent) -> Exponent:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _positive(matrices: Array) -> Array:
    """Raise negative variances to zero, and shrink correlations until the matrix is positive semidefinite."""
    place = np.arange(matrices.shape[-1])
    variance = np.maximum(_diagonal(matrices), 0.0)
    if place.size == 1:
        return variance[..., None]
    root = np.sqrt(variance)
    both = root[..., :, None] * root[..., None, :]
    related = np.where(both > 0, np.clip(matrices / np.where(both > 0, both, 1.0), -1.0, 1.0), 0.0)
    related[..., place, place] = 1.0
    least = np.minimum(np.linalg.eigvalsh(related)[..., 0], 0.0)[..., None, None]
    kept = 1 / (1 - least)
    result: Array = both * (kept * related + (1 - kept) * np.eye(place.size))
    return result


def _rescaled(matrices: Array, variance: Array) -> Array:
    """Give covariance matrices other variances and the same correlations."""
    old = _diagonal(matrices)
    factor = np.sqrt(variance / np.maximum(old, 1e-300))
    scaled = matrices * factor[..., :, None] * factor[..., None, :]
    place = np.arange(matrices.shape[-1])
    scaled = np.where((old > 0)[..., :, None] & (old > 0)[..., None, :], scaled, 0.0)
    scaled[..., place, place] = variance
    return scaled


def _estimates(
    sums: MomentSums,
    value: Array,
    gradient: Array,
    size: Array,
    few: NDArray[np.bool_],
    *,
    population: bool,
    edge: NDArray[np.bool_],
    lower: Array | float,
    upper: Array | float,
    growth: Growth,
    sampling: Array | None = None,
    ratio: bool = False,
) -> Estimates:
    """Carry the linearisation (times the size) to sampling and noise covariances and degrees of freedom."""
    wide = size[..., None, None]
    mixing = (gradient @ sums.mixing) / wide
    noise = np.einsum("rgqm,m,rgsm->rgqs", mixing, sums.variances, mixing)
    spread = np.zeros_like(mixing)
    df = np.full(value.shape, np.inf)
    if sampling is None:
        sampling = np.zeros_like(noise)
        if population:
            correction = 1.0 if sums.weighted else size / np.maximum(size - 1, 1.0)
            scale = (correction / size**2)[..., None, None] if not np.isscalar(correction) else 1 / wide**2
            sampling = _positive(_quadratic(sums, gradient)) * scale
            spread = (_squares(sums, gradient) @ sums.mixing) * scale
            df = _degrees(sampling, noise, spread, sums.variances, size)
    return Estimates(
        value=value,
        sampling=sampling,
        noise=noise,
        mixing=mixing,
        size=size,
        df=df,
        few=few,
        edge=np.broadcast_to(edge, value.shape),
        lower=lower,
        upper=upper,
        growth=growth,
        denominator=_denominator(sums, value, gradient) if ratio else None,
        variances=sums.variances,
        laplace=sums.laplace,
        spread=spread,
    )


def _denominator(sums: MomentSums, value: Array, gradient: Array) -> Array:
    """Noise of numerator and denominator of a ratio (R, G, q, 3), from the gradient of the ratio times the size."""
    bottom = sums.monomial()
    top = gradient.copy()
    top[..., bottom] += value
    both = top @ sums.noise[:, bottom]
    own = np.einsum("rgqd,de,rgqe->rgq", top, sums.noise, top)
    return np.stack([own, both, np.full(both.shape, sums.noise[bottom, bottom])], axis=-1)


def _degrees(sampling: Array, noise: Array, spread: Array, variances: Array, size: Array) -> Array:
    """Satterthwaite's degrees of freedom of a variance whose sampling part is itself estimated from noisy sums."""
    part, total = _diagonal(sampling), _diagonal(sampling) + _diagonal(noise)
    error = 2 * part**2 / np.maximum(size - 1, 1.0)[..., None] + (spread**2 * variances).sum(axis=-1)
    result: Array = np.clip(2 * total**2 / np.maximum(error, 1e-300), 2.0, 1e9)
    return result


def _critical(estimates: Estimates, alpha: float) -> Array:
    critical = np.asarray(stats.t.isf(alpha / 2, estimates.df))
    if estimates.laplace:
        normal = float(stats.norm.isf(alpha / 2))
        critical = critical * laplace_sum_isf(alpha, estimates.shares(estimates.variance)) / normal
    return critical


def intervals(estimates: Estimates, alpha: float, *, method: str = "score") -> Array:
    """Intervals of level ``1 - alpha`` (R, G, q, 2) within what is possible.

    Parameters
    ----------
    estimates : Estimates
    alpha : float
    method : {"score", "wald"}
        "score" holds every value that is not rejected when its variance is evaluated there (for a ratio that is
        Fieller's interval), "wald" is symmetric.
    """
    critical, error = _critical(estimates, alpha), np.sqrt(estimates.variance)
    lower, upper = np.broadcast_to(estimates.lower, error.shape), np.broadcast_to(estimates.upper, error.shape)
    if method == "wald":
        ends = [estimates.value - critical * error, estimates.value + critical * error]
    else:
        ends = [_end(estimates, critical, error, sign, lower, upper) for sign in (-1.0, 1.0)]
    if isinstance(estimates.growth, tuple):  # parameters of a model that nothing is known of
        unknown = estimates.few[..., None]
        ends = [np.where(unknown, lower, ends[0]), np.where(unknown, upper, ends[1])]
    return np.stack([np.maximum(ends[0], lower), np.minimum(ends[1], upper)], axis=-1)


def _end(estimates: Estimates, critical: Array, error: Array, sign: float, lower: Array, upper: Array) -> Array:
    step = np.maximum(error, 1e-300)

    def inside(distance: Array) -> NDArray[np.bool_]:
        tested = np.clip(estimates.value + sign * distance * step, lower, upper)
        away = np.abs(tested - estimates.value)
        found: NDArray[np.bool_] = away <= critical * np.sqrt(estimates.variance_at(tested))
        return found

    distance = outermost_crossing(inside, shape=error.shape)
    return np.clip(estimates.value + sign * distance * step, lower, upper)


def pvalues(estimates: Estimates, tested: Array | float, *, method: str = "score") -> Array:
    """Two-sided p-values (R, G, q) of given values; a value beyond what is possible is tested at its edge."""
    point = np.clip(np.broadcast_to(tested, estimates.value.shape), estimates.lower, estimates.upper)
    variance = estimates.variance if method == "wald" else estimates.variance_at(point)
    statistic = np.abs(estimates.value - point) / np.sqrt(np.maximum(variance, 1e-300))
    found = np.asarray(2 * stats.t.sf(statistic, estimates.df))
    if not estimates.laplace:
        return found
    return laplace_sum_sf(stats.norm.isf(np.maximum(found, 1e-300) / 2), estimates.shares(estimates.variance))
