"""Densities from noisy counts of bins: pointwise intervals and integrated squared error.

Arrays run over R releases and k bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpinfer.numerics.roots import outermost_crossing
from dpinfer.numerics.tails import laplace_sum_isf

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array, Mask, Places

__all__ = ["HIDDEN", "DensityEstimates", "density_intervals", "projected", "variance_error"]

HIDDEN = 3.0
"""A count below so many standard deviations of its noise is not told from that of an empty bin."""

_MOST_LAPLACE = 32
"""Laplace variables whose sum is told from a normal one."""

_SHARES = np.linspace(0.0, 1.0, 257)


@dataclass(frozen=True, eq=False)
class DensityEstimates:
    """Noisy counts of bins, and what follows of the shares of rows in them.

    Attributes
    ----------
    counts : ndarray (R, k)
        Noisy counts.
    widths : ndarray (k,)
        Width of each bin, in the unit of the column.
    noise : float
        Variance of a noise variable.
    laplace : bool
        Whether the noise is Laplace, else Gaussian.
    merged : ndarray of int (k,), optional
        How many noisy counts each is the sum of, and so how many noise variables it carries; 1 by default.
    nobs : int or None
        The number of rows in all bins where it is public; the noisy counts are then moved to add up to it.
    population : bool
        Whether rows are a sample; else only the noise counts.
    alike : int
        Most rows of one person: sampling variances are multiplied by it, which is enough for any likeness of them.
    """

    counts: Array
    widths: Array
    noise: float
    laplace: bool
    merged: Places | None = None
    nobs: int | None = None
    population: bool = True
    alike: int = 1

    @cached_property
    def noises(self) -> Array:
        """Noise variance of each count (k,)."""
        return self.noise * (np.ones(self.bins) if self.merged is None else self.merged.astype(np.float64))

    @property
    def bins(self) -> int:
        """Number of bins k."""
        return len(self.widths)

    @cached_property
    def total(self) -> Array:
        """Number of rows (R, 1): public, or the sum of the noisy counts."""
        if self.nobs is not None:
            return np.full((len(self.counts), 1), float(self.nobs))
        return np.asarray(self.counts.sum(axis=1, keepdims=True))

    @cached_property
    def size(self) -> Array:
        """The number of rows that is divided by (R, 1): at least 1, and one standard deviation of its noise."""
        least = 1.0 if self.nobs is not None else max(1.0, float(np.sqrt(self.noises.sum())))
        return np.maximum(self.total, least)

    @cached_property
    def adjusted(self) -> Array:
        """Counts (R, k); where the number of rows is public they add up to it."""
        if self.nobs is None:
            return self.counts
        missing = self.nobs - self.counts.sum(axis=1, keepdims=True)
        return np.asarray(self.counts + missing * (self.noises / self.noises.sum()))

    @cached_property
    def shares(self) -> Array:
        """Shares of the rows (R, k): unbiased but for the division, so that some may be negative."""
        return self.adjusted / self.size

    @property
    def density(self) -> Array:
        """Shares over widths (R, k)."""
        return self.shares / self.widths

    @property
    def few(self) -> Mask:
        """Whether there may be no row at all, for all that the noise allows to tell (R,)."""
        if self.nobs is not None:
            return np.asarray(self.total[:, 0] < 1)
        return np.asarray(self.total[:, 0] < HIDDEN * np.sqrt(self.noises.sum()))

    @property
    def hidden(self) -> Mask:
        """Whether a bin may be empty for all that the noise allows to tell (R, k)."""
        return np.asarray(self.adjusted < HIDDEN * np.sqrt(self.noises))

    def own_noise(self, share: Array) -> tuple[Array, Array]:
        """Variance from noise of count - share size (R, k), and the part of it that the bin's own noise makes."""
        moved = self.noises / self.noises.sum() if self.nobs is not None else share
        own = self.noises * (1 - moved) ** 2
        found = own + (self.noises.sum() - self.noises) * moved**2
        return np.broadcast_to(found, np.shape(share)), np.broadcast_to(own, np.shape(share))

    def sampling(self, share: Array) -> Array:
        """Variance of a count from sampling if that were the share (R, k)."""
        rows = self.size * self.alike if self.population else 0.0
        return np.asarray(rows * share * (1 - share))

    @property
    def variances(self) -> tuple[Array, Array]:
        """Variances of the densities from sampling and from noise (R, k).

        One row more in the bin, and one out of it, are counted in the first: no share of a population is known to be 0.
        """
        inside = np.clip(self.shares, 0.0, 1.0)
        padded = (inside * self.size + 1) / (self.size + 2)
        if self.bins == 1:
            return np.zeros_like(inside), np.zeros_like(inside)
        unit = (self.size * self.widths) ** 2
        return self.sampling(padded) / unit, self.own_noise(inside)[0] / unit


def density_intervals(estimates: DensityEstimates, alpha: float) -> Array:
    """Pointwise intervals of level ``1 - alpha`` for the mean density in each bin (R, k, 2).

    Notes
    -----
    Holds every share p whose count - p size is no larger than q(p) times its standard deviation if p were true. That
    counts sampling, size p (1 - p), and noise; q(p) is the critical value of a normal plus the bin's own Laplace
    variables with the shares of variance that they have at p. For Gaussian noise it is Wilson's (1927) interval with
    noise, and Fieller's where the size is noisy. A negative count is taken for zero. Where the noise variance is below
    a quarter, noise leaves counts on the whole numbers; a continuity correction of up to a half then leads over to
    the interval of the binomial law.
    """
    value = np.clip(estimates.shares, 0.0, 1.0)
    if estimates.bins == 1:
        return np.ones((*value.shape, 2)) / estimates.widths[:, None]
    top = np.clip(estimates.adjusted, 0.0, estimates.size)
    step = np.sqrt(estimates.sampling((value * estimates.size + 1) / (estimates.size + 2)) + estimates.noises)
    step /= estimates.size
    lattice = estimates.alike * np.maximum(0.5 - 2 * estimates.noises, 0.0) if estimates.population else 0.0
    ends = []
    for sign in (-1.0, 1.0):

        def inside(distance: Array, sign: float = sign) -> Mask:
            tested = np.clip(value + sign * distance * step, 0.0, 1.0)
            noise, own = estimates.own_noise(tested)
            variance = estimates.sampling(tested) + noise
            critical = _critical(estimates, own / np.maximum(variance, 1e-300), alpha)
            return np.asarray(np.abs(top - tested * estimates.size) <= critical * np.sqrt(variance) + lattice)

        distance = outermost_crossing(inside, shape=value.shape)
        ends.append(np.clip(value + sign * distance * step, 0.0, 1.0))
    return np.stack(ends, axis=-1) / estimates.widths[:, None]


@lru_cache(maxsize=64)
def _critical_values(alpha: float, several: int) -> Array:
    return laplace_sum_isf(alpha, np.repeat(_SHARES[:, None] / several, several, axis=1))


def _critical(estimates: DensityEstimates, share: Array, alpha: float) -> Array:
    """Critical values (R, k) where this is the share of the bin's own noise in the variance."""
    merged = np.ones(estimates.bins, dtype=np.intp) if estimates.merged is None else estimates.merged
    found = np.full(share.shape, float(stats.norm.isf(alpha / 2)))
    for several in np.unique(merged) if estimates.laplace else ():
        if several <= _MOST_LAPLACE:
            mine = merged == several
            found[:, mine] = np.interp(share[:, mine], _SHARES, _critical_values(alpha, int(several)))
    return found


def projected(density: Array, widths: Array) -> Array:
    """Move densities (R, k) to the nearest that are nowhere negative and integrate to 1.

    Notes
    -----
    Nearest in integrated squared distance: max(f - c, 0), with the constant c that makes it integrate to 1. What is
    nearest to a convex set is nearer to each of its members, the true density among them.
    """
    order = np.argsort(-density, axis=1)
    sorted_, wide = np.take_along_axis(density, order, axis=1), widths[order]
    constant = (np.cumsum(sorted_ * wide, axis=1) - 1) / np.cumsum(wide, axis=1)
    kept = np.maximum((sorted_ > constant).sum(axis=1), 1)
    moved = np.take_along_axis(constant, kept[:, None] - 1, axis=1)
    return np.asarray(np.maximum(density - moved, 0.0))


def variance_error(estimates: DensityEstimates) -> tuple[Array, Array]:
    """Integrated variance of the densities from sampling and from noise (R,): what their error is beside the bias.

    Notes
    -----
    The sampling part is the sum of p (1 - p) / (n h). It is estimated without bias, but for the division by the noisy
    number of rows: the noise, and with it sampling, is taken off the squares of the shares.
    """
    shares, size, widths = estimates.shares, estimates.size, estimates.widths
    noise = estimates.own_noise(shares)[0] / size**2
    squares = shares**2 - noise
    if estimates.population:
        squares = squares - estimates.alike * shares * (1 - shares) / size
    noisy = (estimates.own_noise(np.sqrt(np.maximum(squares, 0.0)))[0] / size**2 / widths).sum(axis=1)
    if not estimates.population:
        return np.zeros(len(shares)), noisy
    return estimates.alike * ((shares - squares) / size / widths).sum(axis=1), noisy
