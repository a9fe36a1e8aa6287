"""Normal variables whose variance is known only from a noisy sum of squares: tails and quantiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpinfer.numerics.roots import bisected

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array

__all__ = ["floored_variances", "mixture_isf", "mixture_sf"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_ROOT, _HALF = 0.5 * (_NODES + 1), 0.5 * _WEIGHTS
PROBABILITIES = _ROOT**3
"""Nodes on (0, 1), crowded at 0, where variances are largest."""

WEIGHTS = 3 * _ROOT**2 * _HALF
"""Their weights; they sum to 1."""


def floored_variances(observed: Array, df: float, floor: Array, probabilities: Array) -> Array:
    """Quantiles of a variance given its estimate, where it is known to be above a floor.

    Parameters
    ----------
    observed : ndarray (k,)
        Estimates, variance times chi-squared over its degrees of freedom.
    df : float
    floor : ndarray (k,)
        Known lower bounds, at least 0.
    probabilities : ndarray (m,)
        Upper tail probabilities.

    Returns
    -------
    ndarray (k, m)

    Notes
    -----
    The fiducial distribution ``df observed / chi2``, which is also the posterior under the prior ``1 / variance``,
    given that it is at least the floor (Box & Tiao 1973, section 5.2).
    """
    with np.errstate(divide="ignore", over="ignore"):
        top = stats.chi2.cdf(df * observed / np.maximum(floor, 1e-300), df)
    drawn = stats.chi2.ppf(np.maximum(top, 1e-290)[:, None] * probabilities, df)
    return np.asarray(np.maximum(df * observed[:, None] / np.maximum(drawn, 1e-300), floor[:, None]))


def mixture_sf(distance: Array, variances: Array) -> Array:
    """Two-sided tail of a normal variable whose variance is a mixture.

    Parameters
    ----------
    distance : ndarray (k,)
        At least 0.
    variances : ndarray (k, m)
        At the nodes of `PROBABILITIES`.

    Returns
    -------
    ndarray (k,)
    """
    return np.asarray(2 * stats.norm.sf(distance[:, None] / np.sqrt(variances)) @ WEIGHTS)


def mixture_isf(alpha: float, variances: Array) -> Array:
    """Distance (k,) at which `mixture_sf` is alpha."""
    root = np.sqrt(variances)
    upper = root.max(axis=1) * float(stats.norm.isf(alpha / 2))
    return bisected(lambda x: mixture_sf(x, variances) > alpha, np.zeros_like(upper), upper, rounds=64)[1]
