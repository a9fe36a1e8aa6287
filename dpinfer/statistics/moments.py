"""Means, variances, covariances, correlations, proportions and totals from noisy sums of monomials in cells.

Every estimate's linearisation in the sums is also its influence function: applied to the noise it gives the noise
variance, applied to the sums of squares and products it gives the sampling variance. Arrays run over R releases, G
cells and q quantities.

An estimate that is low by chance comes with a variance estimate that is low too where values are skewed to the right.
How much so is the third moment, which no procedure releases; but bounds and two moments often leave little choice, and
of truth values none: see `skewed`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, combinations_with_replacement
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dpinfer.statistics.arrays import Array, Mask, Places
    from dpinfer.statistics.noise import NoiseSums


Growth = Literal["none", "skewed", "square", "deviation", "correlation", "binomial"]

Exponent = tuple[int, ...]

FEW = 3.0
"""A cell whose noisy size is below so many standard deviations of its noise counts as possibly empty."""

FEW_SQUARED = 5.0
"""The same where squares of noisy means enter."""

_BLURRED = 8.0
"""Degrees of freedom below which a sampling error is itself mostly noise."""

_HIDDEN = 0.3
"""Share of the noise in a sampling variance below which it is never taken, but for what normal rows would have."""

_NORMAL = 2.0
"""Sampling variance of a second moment of normal rows, times their number, over the squared scale."""

_HEAVY = 20.0
"""The same of rows whose tails are as heavy as those that degrees of freedom allow for when noise may hide them."""

_BELIEVED = 0.3
"""Noise in a sampling variance, over that variance, beyond which more of it is no reason for a wider interval."""

_BORNE = 0.5
"""Noise in a sampling variance, over the whole variance, up to which that is so."""

_TAILS = 5.0
"""How much of a row's worth heavy tails take, by the variance of influences over the squared scale of the estimate."""

_FEWEST = 7.0
"""Degrees of freedom that tails leave at least."""

_TINY = 1e-100


@dataclass(frozen=True, eq=False)
class MomentSums:
    """Noisy sums of monomials in every cell.

    Attributes
    ----------
    exponents : tuple of tuple of int, length d
        Powers of each scaled column, and last of the weight, in each monomial.
    values : ndarray (R, G, d)
        Noisy sums of the monomials.
    mixing : ndarray (d, m) or (R, 1, d, m)
        The monomials as combinations of the released sums of a cell; where these differ between releases, of each.
    variances : ndarray (m,)
        Noise variance of the released sums.
    laplace : bool
        Whether the noise is Laplace.
    people : bool
        Whether each person counts as one row, whose weight is at most 1 and the last power.
    rows_per_unit : int
        Rows of one independent unit at most, where rows are summed one by one: sampling variances are multiplied by it.
    lower, upper : ndarray (columns,) or float
        Bounds of the columns as they enter the sums.
    heaviest : float
        Largest weight.
    """

    exponents: tuple[Exponent, ...]
    values: Array
    mixing: Array
    variances: Array
    laplace: bool
    people: bool = False
    rows_per_unit: int = 1
    lower: Array | float = -1.0
    upper: Array | float = 1.0
    heaviest: float = 1.0

    @cached_property
    def place(self) -> dict[Exponent, int]:
        """Where each monomial is."""
        return {exponent: index for index, exponent in enumerate(self.exponents)}

    @cached_property
    def noise(self) -> Array:
        """Covariance of the noise in the monomials of a cell (d, d), or (R, 1, d, d)."""
        return (self.mixing * self.variances) @ np.swapaxes(self.mixing, -1, -2)

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.exponents[0]) - 1

    @property
    def weighted(self) -> bool:
        """Whether rows carry weights that may be anything."""
        return self._last_power and not self.people

    @property
    def _last_power(self) -> bool:
        return any(exponent[-1] for exponent in self.exponents)

    def monomial(self, *columns: int) -> int:
        """Place of the product of some columns, times the weight where rows carry weights."""
        powers = [columns.count(column) for column in range(self.columns)]
        return self.place[(*powers, int(self._last_power))]


class Line(NamedTuple):
    """A sampling variance as a line in the value that is tested, up to the largest that is possible there.

    Attributes
    ----------
    variance, slope : ndarray (R, G, q)
        At the estimate, and a unit farther.
    most : ndarray (R, G, q)
        The largest for values in [-1, 1] of mean zero; for other means less, and infinite where nothing bounds it.
    df : ndarray (R, G, q)
        Degrees of freedom that are left once the estimate has told what it tells of its variance.
    """

    variance: Array
    slope: Array
    most: Array
    df: Array

    def at(self, away: Array, tested: Array, place: int) -> Array:
        """Return the variance of one quantity at a value so far from the estimate (R, G)."""
        most = self.most[..., place]
        bounded = np.isfinite(most)
        bound = np.where(bounded, np.where(bounded, most, 0.0) * (1 - tested**2), np.inf)
        return np.clip(self.variance[..., place] + self.slope[..., place] * away, 0.0, bound)


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
    rows_per_unit : int
        Rows of one independent unit at most: sampling variances of rows are multiplied by it.
    rows : ndarray (R, G, q) or None
        Independent units behind each estimated sampling variance; None where it follows from a model.
    line : Line or None
        How the sampling variance grows with the value that is tested, where ``growth`` is "skewed".
    signal : ndarray (R, G) or None
        Of second moments: the smallest variance of p columns over 2 (p + 1)^(1/2) standard deviations of its noise, by
        which the noise in regressions on them is judged.
    scale : ndarray (R, G, q) or None
        What sampling variances of second moments are judged against, and grow with as far as sampling, rather than
        noise, moves the estimate; None where the noise in them is no matter.
    of_model : bool
        Whether they are parameters of a model, of which nothing may be known, and not descriptions of columns.
    alone : NoiseSums or None
        How estimates (1, G, q) are moved by noise whose discrete law is known, where nothing else moves them.
    """

    value: Array
    sampling: Array
    noise: Array
    mixing: Array
    size: Array
    df: Array
    few: Mask
    edge: Mask
    lower: Array | float
    upper: Array | float
    growth: Growth | tuple[Growth, ...]
    denominator: Array | None
    variances: Array
    laplace: bool
    spread: Array
    rows_per_unit: int = 1
    rows: Array | None = None
    line: Line | None = None
    signal: Array | None = None
    scale: Array | None = None
    of_model: bool = False
    alone: NoiseSums | None = None

    @property
    def variance(self) -> Array:
        """Variance at the estimate (R, G, q)."""
        return diagonal(self.sampling) + diagonal(self.noise)

    def variance_at(self, tested: Array) -> Array:
        """Variance if the truth were ``tested`` (R, G, q): what a score interval uses."""
        sampling, noise = diagonal(self.sampling), diagonal(self.noise)
        size = self.size[..., None]
        if self.denominator is not None:
            top, both, bottom = np.moveaxis(self.denominator, -1, 0)
            at = (top - 2 * tested * both + tested**2 * bottom) / size**2
            noise = 0.5 * (noise + at) if self.growth == "correlation" else at
        growths = self.growth if isinstance(self.growth, tuple) else (self.growth,) * tested.shape[-1]
        parts = [self._grown(one, sampling, tested, place) for place, one in enumerate(growths)]
        # Noise moves the square of a standard deviation by the same whatever it is: abs(t**2 - s**2) is compared with
        # its error, which is abs(t - s) with the error of s times 2 s / (t + s).
        deviation = np.array([one == "deviation" for one in growths]) & ~self.few[..., None]
        shrunk = np.where(deviation, _ratio(self.value, 0.5 * (self.value + tested)) ** 2, 1.0)
        return np.stack(parts, axis=-1) + noise * shrunk

    def _grown(self, growth: Growth, sampling: Array, tested: Array, place: int) -> Array:
        """Give the sampling variance of one quantity if the truth were ``tested`` (R, G)."""
        own, value, truth = sampling[..., place], self.value[..., place], tested[..., place]
        moved, scale = truth - value, 1 - value**2 if growth == "correlation" else value
        if self.scale is not None:
            moved = moved * own / np.maximum(own + diagonal(self.noise)[..., place], 1e-300)
            scale = self.scale[..., place]
        middle = value + 0.5 * moved
        if growth == "skewed" and self.line is not None:
            own = self.line.at(truth - value, truth, place)
        elif growth in ("square", "deviation"):
            own = np.where(self.few, own, own * _ratio(scale + middle - value, scale) ** 2)
        elif growth == "correlation":
            own = np.where(self.few, own, own * _ratio(scale + value**2 - middle**2, scale) ** 2)
        elif growth == "binomial":
            own = np.where(own > 0, self.rows_per_unit * truth * (1 - truth) / self.size, 0.0)
        return own

    @property
    def score_df(self) -> Array:
        """Degrees of freedom of a variance at the value that is tested (R, G, q)."""
        return self.df if self.line is None else self.line.df

    @property
    def shares(self) -> Array | None:
        """Share of the variance that each Laplace variable carries (R, G, q, m); None where the noise is normal."""
        if not self.laplace:
            return None
        shares = self.mixing**2 * self.variances / np.maximum(self.variance, 1e-300)[..., None]
        return np.asarray(shares / np.maximum(shares.sum(axis=-1, keepdims=True), 1.0))

    @property
    def range(self) -> tuple[Array, Array]:
        """Least and largest value that is possible, each (R, G, q)."""
        return np.broadcast_to(self.lower, self.value.shape), np.broadcast_to(self.upper, self.value.shape)

    @property
    def missing(self) -> Mask:
        """Whether nothing is known of a parameter of a model (R, G, q); where there is no model, nothing is missing."""
        return np.broadcast_to(self.few[..., None] & self.of_model, self.value.shape)

    @property
    def blurred(self) -> Mask:
        """Whether the sampling variance of an estimate is itself mostly noise (R, G, q)."""
        size = self.size[..., None] if self.rows is None else np.maximum(self.size[..., None], self.rows)
        return np.asarray((self.df < _BLURRED) & (size > 2 * _BLURRED) & ~self.few[..., None])

    @property
    def flagged(self) -> Mask:
        """Whether a release carries any warning (R,)."""
        return np.asarray(self.few.any(axis=1) | (self.edge | self.blurred).any(axis=(1, 2)))


def diagonal(matrices: Array) -> Array:
    """Variances (..., q) of covariance matrices."""
    return np.diagonal(matrices, axis1=-2, axis2=-1)


def _ratio(top: Array, bottom: Array) -> Array:
    return top / np.where(np.abs(bottom) > 1e-12, bottom, 1e-12)


class Sizes(NamedTuple):
    """What estimates in cells are divided by, each (R, G): noisy sizes, and whether the cell may be empty."""

    size: Array
    few: Mask


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
    again, one = np.zeros_like(gradient), sums.exponents[sums.monomial()]
    for a in _used(gradient):  # times the weight once more
        again[..., sums.place[_sum(sums.exponents[a], one)]] += gradient[..., a]
    weighted = noisy_sums(sums, again)
    found = skewed(estimates, sums, value, weights=weights, first=first, weighted=weighted)
    if sums.weighted or found.line is None:
        return found
    # No variance of values in [-1, 1] with this mean exceeds 1 - mean^2; an unknown size leaves nothing better. Nor
    # does that of a person's mean under a weight of at most 1, over the sum of weights.
    few = found.few[..., None]
    most = np.broadcast_to((sums.rows_per_unit / np.maximum(found.size - 1, 1.0))[..., None], value.shape)
    line = found.line._replace(
        variance=np.where(few, most, found.line.variance), most=most, slope=np.where(few, 0.0, found.line.slope)
    )
    variance = np.minimum(line.variance, most * (1 - value**2))
    return replace(found, sampling=rescaled(found.sampling, variance), line=line)


def variances(sums: MomentSums, *, population: bool) -> Estimates:
    """Variance of every column, in [0, 1]."""
    return _second(sums, [(column, column) for column in range(sums.columns)], population=population)


def covariances(sums: MomentSums, *, population: bool) -> Estimates:
    """Covariances of all pairs of columns, each pair once, a column with itself included."""
    return _second(sums, list(combinations_with_replacement(range(sums.columns), 2)), population=population)


def _second(sums: MomentSums, pairs: list[tuple[int, int]], *, population: bool) -> Estimates:
    sizes = size, _ = size_of(sums, FEW_SQUARED)
    value, gradient = _central(sums, size, pairs)
    own, least = [pairs.index((column, column)) for column in range(sums.columns)], _errors(sums, size)
    squared = np.array([i == j for i, j in pairs])
    bounds = np.where(squared, 0.0, -1.0), 1.0
    factor = (size / np.maximum(size - 1, 1.0) if population else np.ones_like(size))[..., None]
    clipped = np.clip(value * factor, *bounds)
    growth: tuple[Growth, ...] = tuple("square" if i == j else "none" for i, j in pairs)
    safe = np.maximum(clipped[..., own], least)
    estimates = linearised(
        sums,
        sizes,
        clipped,
        gradient,
        population=population,
        edge=np.asarray((squared & (value <= 0)) | (clipped >= 1)),
        bounds=bounds,
        growth=growth,
        scale=np.stack([np.sqrt(safe[..., i] * safe[..., j]) for i, j in pairs], axis=-1),
    )
    return _judged(estimates, value[..., own] / least, sums.columns if len(pairs) > sums.columns else 1)


def correlations(sums: MomentSums, *, population: bool) -> Estimates:
    """Correlations of all pairs of different columns, in [-1, 1]."""
    sizes = size, _ = size_of(sums, FEW_SQUARED)
    pairs = list(combinations(range(sums.columns), 2))
    every = [*pairs, *((c, c) for c in range(sums.columns))]
    moment, slope = _central(sums, size, every)
    own, least = moment[..., len(pairs) :], _errors(sums, size)
    safe = np.maximum(own, least)
    value = np.empty((*size.shape, len(pairs)))
    gradient = np.zeros((*value.shape, len(sums.exponents)))
    below = np.zeros_like(gradient)
    edge = np.zeros(value.shape, dtype=bool)
    for place, (i, j) in enumerate(pairs):
        product = np.sqrt(safe[..., i] * safe[..., j])
        raw = moment[..., place] / product
        value[..., place] = np.clip(raw, -0.999, 0.999)
        edge[..., place] = (raw != value[..., place]) | (own[..., [i, j]] <= 3 * least[..., [i, j]]).any(axis=-1)
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
    return _judged(estimates, own / least, sums.columns)


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


def size_of(sums: MomentSums, least_ratio: float = FEW) -> Sizes:
    """Noisy size of each cell, raised to one standard deviation of its noise, and whether it may be empty."""
    bottom = sums.monomial()
    noisy, error = sums.values[..., bottom], np.sqrt(sums.noise[..., bottom, bottom])
    least = np.maximum(error, 1e-6 if sums.weighted else 1.0)
    return Sizes(np.maximum(noisy, least), noisy < np.maximum(least_ratio * error, least))


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


def _central(sums: MomentSums, size: Array, pairs: list[tuple[int, int]]) -> tuple[Array, Array]:
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


def _errors(sums: MomentSums, size: Array) -> Array:
    """Return one standard deviation of the noise in each column's mean square (R, G, columns)."""
    own = [sums.monomial(column, column) for column in range(sums.columns)]
    return np.maximum(np.sqrt(sums.noise[own, own]) / size[..., None], 1e-12)


def _judged(estimates: Estimates, ratios: Array, together: int) -> Estimates:
    """Give second moments their signal, and all that is possible as interval where the cell may be empty."""
    # growth is of no use there
    wide = np.where(estimates.few[..., None, None], 4.0 * np.eye(estimates.value.shape[-1]), estimates.sampling)
    return replace(estimates, sampling=wide, signal=ratios.min(axis=-1) / (2 * np.sqrt(together + 1)))


def linearised(
    sums: MomentSums,
    sizes: Sizes,
    value: Array,
    gradient: Array,
    *,
    population: bool,
    edge: Mask,
    bounds: tuple[Array | float, Array | float],
    growth: Growth | tuple[Growth, ...] = "none",
    sampling: Array | None = None,
    ratio: bool | Array = True,
    scale: Array | None = None,
) -> Estimates:
    """Carry the linearisation (times the size) to sampling and noise covariances and degrees of freedom.

    ``ratio`` says whether estimates are divided by the size, or (R, G, q, d) how sums move what they are divided by.
    Sampling variances of estimates with a ``scale`` (R, G, q) may be mostly noise: see `read_through_noise`.
    """
    size = sizes.size
    wide = size[..., None, None]
    mixing = (gradient @ sums.mixing) / wide
    noise = np.einsum("rgqm,m,rgsm->rgqs", mixing, sums.variances, mixing)
    if scale is not None:
        scale = np.maximum(scale, (4 if growth == "correlation" else 2) * np.sqrt(diagonal(noise)))
    found = Estimates(
        value=value,
        sampling=np.zeros_like(noise) if sampling is None else sampling,
        noise=noise,
        mixing=mixing,
        size=size,
        df=np.full(value.shape, np.inf),
        few=sizes.few,
        edge=np.broadcast_to(edge, value.shape),
        lower=bounds[0],
        upper=bounds[1],
        growth=growth,
        denominator=None if ratio is False else _denominator(sums, value, gradient, ratio),
        variances=sums.variances,
        laplace=sums.laplace,
        spread=np.zeros_like(mixing),
        rows_per_unit=sums.rows_per_unit,
        scale=scale,
    )
    if sampling is not None or not population:
        return found
    correction = np.ones_like(size) if sums.weighted else size / np.maximum(size - 1, 1.0)
    each = (sums.rows_per_unit * correction / size**2)[..., None, None]
    units = size / sums.rows_per_unit
    rows = np.broadcast_to(units[..., None], value.shape)
    spread = squares(sums, gradient) @ sums.mixing * each
    read = quadratic(sums, gradient) * each
    own = positive(read)
    if scale is None:
        return estimated(found, own, spread, rows)
    error = np.sqrt((spread**2 * sums.variances).sum(axis=-1))
    variance, df = read_through_noise(diagonal(read), diagonal(noise), error, scale, units)
    return replace(found, sampling=rescaled(own, variance), spread=spread, rows=rows, df=df)


def _denominator(sums: MomentSums, value: Array, gradient: Array, ratio: Array | bool) -> Array:
    """Noise of numerator and denominator of a ratio (R, G, q, 3), from the gradient of the ratio times the size."""
    if isinstance(ratio, bool):
        ratio = np.zeros_like(gradient)
        ratio[..., sums.monomial()] = 1.0
    top = gradient + value[..., None] * ratio
    parts = [top @ sums.noise, ratio @ sums.noise]
    return np.stack([(a * b).sum(axis=-1) for a, b in ((parts[0], top), (parts[0], ratio), (parts[1], ratio))], axis=-1)


def quadratic(sums: MomentSums, gradient: Array) -> Array:
    """Sum over rows of the products of influences (R, G, q, q), from the released sums of products."""
    used = _used(gradient)
    table = np.array([[sums.place[_sum(sums.exponents[a], sums.exponents[b])] for b in used] for a in used])
    products = sums.values[..., table]
    part = gradient[..., used]
    return np.asarray(np.einsum("rgqa,rgab,rgsb->rgqs", part, products, part))


def squares(sums: MomentSums, gradient: Array) -> Array:
    """How each monomial's sum moves the sums of squared influences (R, G, q, d)."""
    moved, used = np.zeros_like(gradient), _used(gradient)
    for a in used:
        for b in used:
            moved[..., sums.place[_sum(sums.exponents[a], sums.exponents[b])]] += gradient[..., a] * gradient[..., b]
    return moved


def _used(gradient: Array) -> Places:
    """Return the monomials that some combination (..., d) is of."""
    return np.flatnonzero(np.any(gradient != 0, axis=tuple(range(gradient.ndim - 1))))


def _sum(a: Exponent, b: Exponent) -> Exponent:
    return tuple(x + y for x, y in zip(a, b, strict=True))


class SamplingVariance(NamedTuple):
    """What stands for a sampling variance, and the degrees of freedom of the whole variance (R, G, q)."""

    variance: Array
    df: Array


def read_through_noise(noisy: Array, known: Array, error: Array, scale: Array, size: Array) -> SamplingVariance:
    """Read sampling variances that noisy sums give, so that intervals cover whatever they are in truth.

    Parameters
    ----------
    noisy : ndarray (R, G, q)
        Estimated sampling variances, which noise may have made negative.
    known : ndarray (R, G, q)
        Variance from privacy noise.
    error : ndarray (R, G, q)
        Standard deviation of the noise in ``noisy``.
    scale : ndarray (R, G, q)
        The unit in which the spread of a row's influence is judged: that of normal rows is about one or two.
    size : ndarray (R, G)
        Independent units.
    """
    known = np.maximum(known, 1e-300)
    units = np.maximum(size - 1, 1.0)[..., None]
    variance = np.maximum(noisy, np.minimum(_HIDDEN * error, _NORMAL * scale**2 / units))
    total = variance + known
    beyond = np.maximum(error / total - _BORNE, 0.0)
    blur = np.maximum(np.minimum(error, _BELIEVED * variance) / total, beyond)
    reach = np.maximum(variance, np.minimum(error, _HEAVY * scale**2 / units))
    rows = (reach / (reach + known)) ** 2 * (1 / units + np.minimum(_TAILS * reach / scale**2, 1 / _FEWEST))
    return SamplingVariance(variance, np.clip(1 / np.maximum(rows + 0.5 * blur**2, 1e-9), 2.0, 1e9))


def estimated(found: Estimates, sampling: Array, spread: Array, rows: Array) -> Estimates:
    """Give estimates a sampling covariance that was itself estimated from so many rows, and through noise."""
    part, total = diagonal(sampling), diagonal(sampling) + diagonal(found.noise)
    error = 2 * part**2 / np.maximum(rows - 1, 1.0) + (spread**2 * found.variances).sum(axis=-1)
    df = np.asarray(np.clip(2 * total**2 / np.maximum(error, 1e-300), 2.0, 1e9))
    return replace(found, sampling=sampling, spread=spread, rows=rows, df=df)


class Noisy(NamedTuple):
    """A sum (R, G, q), and how each released sum moves it (R, G, q, m), times the standard deviation of its noise."""

    value: Array
    moved: Array

    def less(self, other: Noisy, times: Array) -> Noisy:
        """Take off another, so many times; nothing of it where that is zero, even if it is infinite."""
        some = times != 0
        value = np.where(some, other.value, 0.0)
        return Noisy(self.value - times * value, self.moved - times[..., None] * other.moved)


def noisy_sums(sums: MomentSums, gradient: Array) -> Noisy:
    """Return combinations of monomials (R, G, q, d), with what moves them."""
    value = (gradient * sums.values[..., None, :]).sum(axis=-1)
    return Noisy(value, (gradient @ sums.mixing) * np.sqrt(sums.variances))


def skewed(
    found: Estimates, sums: MomentSums, centre: Array, *, weights: Noisy, first: Noisy, weighted: Noisy
) -> Estimates:
    """Let the sampling variance grow with the value that is tested as far as the skewness must be.

    Estimates are ``sum z / size`` with z = w (u - c), c the ``centre`` (R, G, q); ``weights`` are sums of w, ``first``
    of z and ``weighted`` of w z.
    """
    size, units = found.size[..., None], found.rows_per_unit
    scale = size**2 / units
    squares = Noisy(diagonal(found.sampling) * scale, found.spread * np.sqrt(found.variances) * scale[..., None])
    bounds = sums.lower - centre, sums.upper - centre
    third = _least_third(weights, first, weighted, squares, bounds, sums.heaviest)
    both = third * units**2 / size**3 + (found.mixing * found.spread * found.variances).sum(axis=-1)
    total = np.maximum(found.variance, 1e-300)
    shared = both / total
    df = 1.0 / np.clip(1.0 / found.df - shared**2 / (2 * total), 1e-9, 0.5)
    slope = shared - 2 * weighted.value / scale
    line = Line(diagonal(found.sampling), slope, np.full(slope.shape, np.inf), df)
    return replace(found, line=line, growth="skewed")


def _least_third(
    weights: Noisy, first: Noisy, weighted: Noisy, squares: Noisy, bounds: tuple[Array, Array], heaviest: float
) -> Array:
    """Return what is nearest to zero of all that the sum of z^3 can be (R, G, q).

    The sums are over units, of weights w (infinite where it is not known), influences ``z = w (u - c)``, w z and z^2;
    ``bounds`` (R, G, q) are those of u - c. By Cauchy and Schwarz, with ``l`` and ``h`` these bounds,

        (sum z (z - l w))^2 <= sum (z - l w) sum z^2 (z - l w),

    and the same of h w - z; ``sum w z^2`` is at most the largest weight times ``sum z^2``. Values at the two bounds
    alone, of equal weight, attain both. What noise adds to a square on average is taken off; and where noise moved the
    sums to what no rows have, ``z <= h w`` bounds the third moment.
    """
    low, high = np.minimum(bounds[0], 0.0), np.maximum(bounds[1], 0.0)
    largest, reach = heaviest * squares.value, np.maximum(heaviest * (high - low), _TINY)

    def least(first: Noisy, weighted: Noisy, low: Array) -> Array:
        above, both = first.less(weights, low), squares.less(weighted, low)
        bottom = np.maximum(above.value, np.abs(both.value) / reach + _TINY)
        blur = (both.less(above, both.value / bottom).moved ** 2).sum(axis=-1)
        return np.asarray(np.maximum(both.value**2 - blur, 0.0) / bottom + low * heaviest * squares.value)

    right = np.clip(least(first, weighted, low), 0.0, high * largest)
    mirrored = Noisy(-first.value, -first.moved), Noisy(-weighted.value, -weighted.moved)
    return np.asarray(right - np.clip(least(*mirrored, -high), 0.0, -low * largest))


def positive(matrices: Array) -> Array:
    """Raise negative variances to zero, and shrink correlations until the matrix is positive semidefinite."""
    place = np.arange(matrices.shape[-1])
    variance = np.maximum(diagonal(matrices), 0.0)
    if place.size == 1:
        return variance[..., None]
    root = np.sqrt(variance)
    both = root[..., :, None] * root[..., None, :]
    related = np.where(both > 0, np.clip(matrices / np.where(both > 0, both, 1.0), -1.0, 1.0), 0.0)
    related[..., place, place] = 1.0
    least = np.minimum(np.linalg.eigvalsh(related)[..., 0], 0.0)[..., None, None]
    weight = 1 / (1 - least)
    return both * (weight * related + (1 - weight) * np.eye(place.size))


def rescaled(matrices: Array, variance: Array) -> Array:
    """Give covariance matrices other variances and the same correlations."""
    old = diagonal(matrices)
    factor = np.sqrt(variance / np.where(old > 0, old, 1.0))
    scaled = matrices * factor[..., :, None] * factor[..., None, :]
    place = np.arange(matrices.shape[-1])
    scaled = np.where((old > 0)[..., :, None] & (old > 0)[..., None, :], scaled, 0.0)
    scaled[..., place, place] = variance
    return scaled
