"""How far a sampling variance must grow with the value that is tested, for want of a released third moment.

An estimate that is low by chance comes with a variance estimate that is low too where values are skewed to the right.
How much so is the third moment, which no procedure releases; but bounds and two moments often leave little choice, and
of truth values none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dpinfer.statistics.arrays import Array

__all__ = ["Influences", "Line", "Noisy", "least_third"]

_TINY = 1e-100


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


class Noisy(NamedTuple):
    """A sum (R, G, q), and how each released sum moves it (R, G, q, m), times the standard deviation of its noise."""

    value: Array
    moved: Array

    def less(self, other: Noisy, times: Array) -> Noisy:
        """Take off another, so many times; nothing of it where that is zero, even if it is infinite."""
        some = times != 0
        value = np.where(some, other.value, 0.0)
        return Noisy(self.value - times * value, self.moved - times[..., None] * other.moved)

    @property
    def negative(self) -> Noisy:
        """The sum of the opposite terms."""
        return Noisy(-self.value, -self.moved)


class Influences(NamedTuple):
    """Sums over units of weights w and influences ``z = w (u - c)``, and bounds of u - c.

    Attributes
    ----------
    weights : Noisy
        Sum of w; infinite where it is not known.
    first, weighted, squares : Noisy
        Sums of z, w z and z^2.
    lower, upper : ndarray (R, G, q)
        Bounds of u - c.
    heaviest : float
        Largest weight.
    """

    weights: Noisy
    first: Noisy
    weighted: Noisy
    squares: Noisy
    lower: Array
    upper: Array
    heaviest: float


def least_third(sums: Influences) -> Array:
    """Return what is nearest to zero of all that the sum of z^3 can be (R, G, q).

    By Cauchy and Schwarz, with ``l`` and ``h`` the bounds of u - c and all sums over units,

        (sum z (z - l w))^2 <= sum (z - l w) sum z^2 (z - l w),

    and the same of h w - z; ``sum w z^2`` is at most the largest weight times ``sum z^2``. Values at the two bounds
    alone, of equal weight, attain both. What noise adds to a square on average is taken off; and where noise moved the
    sums to what no rows have, ``z <= h w`` bounds the third moment.
    """
    low, high = np.minimum(sums.lower, 0.0), np.maximum(sums.upper, 0.0)
    mirrored = sums._replace(first=sums.first.negative, weighted=sums.weighted.negative)
    largest, reach = sums.heaviest * sums.squares.value, sums.heaviest * (high - low)
    right = np.clip(_least(sums, low, reach), 0.0, high * largest)
    return np.asarray(right - np.clip(_least(mirrored, -high, reach), 0.0, -low * largest))


def _least(sums: Influences, low: Array, reach: Array) -> Array:
    """Return the least that the sum of z^3 can be, with ``low`` at most zero, and no z - l w above ``reach``."""
    above, both = sums.first.less(sums.weights, low), sums.squares.less(sums.weighted, low)
    bottom = np.maximum(above.value, np.abs(both.value) / np.maximum(reach, _TINY) + _TINY)
    blur = (both.less(above, both.value / bottom).moved ** 2).sum(axis=-1)
    least = np.maximum(both.value**2 - blur, 0.0) / bottom
    return np.asarray(least + low * sums.heaviest * sums.squares.value)
