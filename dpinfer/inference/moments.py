"""Noisy sums of monomials in the cells of a table, and estimates that are smooth functions of them.

Every estimate's linearisation in the sums is also its influence function: applied to the noise it gives the noise
variance, applied to the sums of squares and products it gives the sampling variance. Arrays run over R releases, G
cells and q quantities.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from dpinfer.inference.noisy_variance import read_through_noise
from dpinfer.inference.skewness import Influences, Line, Noisy, least_third

if TYPE_CHECKING:
    from dpinfer.inference.noise_sums import NoiseSums
    from dpinfer.statistics.arrays import Array, Mask

__all__ = ["Estimates", "Growth", "MomentSums", "Sizes", "linearised", "positive", "rescaled", "size_of"]

Growth = Literal["none", "skewed", "square", "deviation", "correlation", "binomial"]
Exponent = tuple[int, ...]

FEW = 3.0
"""A cell whose noisy size is below so many standard deviations of its noise counts as possibly empty."""

FEW_SQUARED = 5.0
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
        """Covariance of the noise in the monomials of a cell (d, d)."""
        return (self.mixing * self.variances) @ self.mixing.T

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
    plain : ndarray (R, G, q) or None
        Sampling variances that were not raised for the noise in them; None where none is.
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
    plain: Array | None = None
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
        return np.stack(parts, axis=-1) + noise * self._shrunk(growths, tested)

    def _shrunk(self, growths: tuple[Growth, ...], tested: Array) -> Array:
        """Give the factor of the noise variance if the truth were ``tested`` (R, G, q).

        Noise moves the square of a standard deviation by the same whatever it is: ``abs(t**2 - s**2)`` is compared with
        its error, which is ``abs(t - s)`` with the error of s times ``2 s / (t + s)``.
        """
        of_deviation = np.array([one == "deviation" for one in growths]) & ~self.few[..., None]
        return np.where(of_deviation, _ratio(self.value, 0.5 * (self.value + tested)) ** 2, 1.0)

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
    return np.diagonal(matrices, axis1=-2, axis2=-1)


def _ratio(top: Array, bottom: Array) -> Array:
    return top / np.where(np.abs(bottom) > 1e-12, bottom, 1e-12)


class Sizes(NamedTuple):
    """What estimates in cells are divided by, each (R, G): noisy sizes, and whether the cell may be empty."""

    size: Array
    few: Mask


def size_of(sums: MomentSums, least_ratio: float = FEW) -> Sizes:
    """Noisy size of each cell, raised to one standard deviation of its noise, and whether it may be empty."""
    bottom = sums.monomial()
    noisy, error = sums.values[..., bottom], float(np.sqrt(sums.noise[bottom, bottom]))
    least = max(error, 1e-6 if sums.weighted else 1.0)
    return Sizes(np.maximum(noisy, least), noisy < max(least_ratio * error, least))


def quadratic(sums: MomentSums, gradient: Array) -> Array:
    """Sum over rows of the products of influences (R, G, q, q), from the released sums of products."""
    used = np.flatnonzero(np.any(gradient != 0, axis=tuple(range(gradient.ndim - 1))))
    table = np.array([[sums.place[_sum(sums.exponents[a], sums.exponents[b])] for b in used] for a in used])
    products = sums.values[..., table]
    part = gradient[..., used]
    return np.asarray(np.einsum("rgqa,rgab,rgsb->rgqs", part, products, part))


def squares(sums: MomentSums, gradient: Array) -> Array:
    """How each monomial's sum moves the sums of squared influences (R, G, q, d)."""
    moved = np.zeros_like(gradient)
    used = np.flatnonzero(np.any(gradient != 0, axis=tuple(range(gradient.ndim - 1))))
    for a in used:
        for b in used:
            moved[..., sums.place[_sum(sums.exponents[a], sums.exponents[b])]] += gradient[..., a] * gradient[..., b]
    return moved


def _sum(a: Exponent, b: Exponent) -> Exponent:
    return tuple(x + y for x, y in zip(a, b, strict=True))


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
    kept = 1 / (1 - least)
    return both * (kept * related + (1 - kept) * np.eye(place.size))


def rescaled(matrices: Array, variance: Array) -> Array:
    """Give covariance matrices other variances and the same correlations."""
    old = diagonal(matrices)
    factor = np.sqrt(variance / np.where(old > 0, old, 1.0))
    scaled = matrices * factor[..., :, None] * factor[..., None, :]
    place = np.arange(matrices.shape[-1])
    scaled = np.where((old > 0)[..., :, None] & (old > 0)[..., None, :], scaled, 0.0)
    scaled[..., place, place] = variance
    return scaled


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
    plain = diagonal(own)
    return replace(found, sampling=rescaled(own, variance), spread=spread, rows=rows, df=df, plain=plain)


def estimated(found: Estimates, sampling: Array, spread: Array, rows: Array) -> Estimates:
    """Give estimates a sampling covariance that was itself estimated from so many rows, and through noise."""
    part, total = diagonal(sampling), diagonal(sampling) + diagonal(found.noise)
    error = 2 * part**2 / np.maximum(rows - 1, 1.0) + (spread**2 * found.variances).sum(axis=-1)
    df = np.asarray(np.clip(2 * total**2 / np.maximum(error, 1e-300), 2.0, 1e9))
    return replace(found, sampling=sampling, spread=spread, rows=rows, df=df)


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
    third = least_third(Influences(weights, first, weighted, squares, *bounds, sums.heaviest))
    both = third * units**2 / size**3 + (found.mixing * found.spread * found.variances).sum(axis=-1)
    total = np.maximum(found.variance, 1e-300)
    told = both / total
    df = 1.0 / np.clip(1.0 / found.df - told**2 / (2 * total), 1e-9, 0.5)
    slope = told - 2 * weighted.value / scale
    line = Line(diagonal(found.sampling), slope, np.full(slope.shape, np.inf), df)
    return replace(found, line=line, growth="skewed")


def noisy_sums(sums: MomentSums, gradient: Array) -> Noisy:
    """Return combinations of monomials (R, G, q, d), with what moves them."""
    value = (gradient * sums.values[..., None, :]).sum(axis=-1)
    return Noisy(value, (gradient @ sums.mixing) * np.sqrt(sums.variances))


def weighted_by(sums: MomentSums, gradient: Array) -> Array:
    """Multiply combinations of monomials (R, G, q, d) by the weight once more."""
    found, bottom = np.zeros_like(gradient), sums.exponents[sums.monomial()]
    for a in np.flatnonzero(np.any(gradient != 0, axis=tuple(range(gradient.ndim - 1)))):
        found[..., sums.place[_sum(sums.exponents[a], bottom)]] += gradient[..., a]
    return found


def _denominator(sums: MomentSums, value: Array, gradient: Array, ratio: Array | bool) -> Array:
    """Noise of numerator and denominator of a ratio (R, G, q, 3), from the gradient of the ratio times the size."""
    if isinstance(ratio, bool):
        ratio = np.zeros_like(gradient)
        ratio[..., sums.monomial()] = 1.0
    top = gradient + value[..., None] * ratio
    parts = [top @ sums.noise, ratio @ sums.noise]
    return np.stack([(a * b).sum(axis=-1) for a, b in ((parts[0], top), (parts[0], ratio), (parts[1], ratio))], axis=-1)
