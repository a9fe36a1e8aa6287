"""The least skewness that declared bounds and released sums leave possible.

An estimate that is low by chance comes with a variance estimate that is low too where values are skewed to the right. How
much so is the third moment, which no procedure releases; but bounds and two moments often leave little choice, and of
truth values none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array

__all__ = ["Influences", "least_third"]

_TINY = 1e-300


class Influences(NamedTuple):
    """Sums over units of weights w and influences ``z = w (u - c)``, each (R, G, q), and bounds of u - c.

    Attributes
    ----------
    weights : ndarray
        Sum of w; infinite where it is not known.
    first, weighted, squares : ndarray
        Sums of z, w z and z^2.
    blur : ndarray
        Variance of the noise in ``squares``.
    lower, upper : ndarray
        Bounds of u - c.
    heaviest : float
        Largest weight.
    """

    weights: Array
    first: Array
    weighted: Array
    squares: Array
    blur: Array
    lower: Array
    upper: Array
    heaviest: float


def least_third(sums: Influences) -> Array:
    """Return what is nearest to zero of all that the sum of z^3 can be (R, G, q).

    By Cauchy and Schwarz, with ``l`` and ``h`` the bounds of u - c and all sums over units,

        (sum z (z - l w))^2 <= sum (z - l w) sum z^2 (z - l w),

    and the same of h w - z; ``sum w z^2`` is at most the largest weight times ``sum z^2``. Values at the two bounds
    alone, of equal weight, attain both. Where noise moved the sums to what no rows have, ``z <= h w`` bounds it.
    """
    low, high = np.minimum(sums.lower, 0.0), np.maximum(sums.upper, 0.0)
    mirrored = sums._replace(first=-sums.first, weighted=-sums.weighted)
    largest = sums.heaviest * sums.squares
    right = np.clip(_least(sums, low), 0.0, high * largest)
    return np.asarray(right - np.clip(_least(mirrored, -high), 0.0, -low * largest))


def _least(sums: Influences, low: Array) -> Array:
    """Return the least that the sum of z^3 can be, with ``low`` at most zero."""
    above = sums.first - low * np.where(low < 0, sums.weights, 0.0)
    both = sums.squares - low * sums.weighted
    return np.maximum(both**2 - sums.blur, 0.0) / np.maximum(above, _TINY) + low * sums.heaviest * sums.squares
