"""The level at which intervals are made one by one so that they hold together."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpinfer.statistics.arrays import root_of

if TYPE_CHECKING:
    from dpinfer.statistics.arrays import Array

__all__ = ["joint_level"]

_DRAWS, _SEED = 20_000, 0
_MOST = 500
"""Estimates up to which the largest deviation is simulated; of more, Sidak's level serves."""

_NOTHING = 1e-12


@lru_cache(maxsize=2)
def _drawn(count: int) -> Array:
    found = np.random.default_rng(_SEED).standard_normal((_DRAWS, count))
    found.flags.writeable = False
    return found


def joint_level(covariance: Array, alpha: float) -> float:
    """Level of single intervals that hold together with probability ``1 - alpha``.

    Parameters
    ----------
    covariance : ndarray (p, p)
        Of the errors of the estimates, sampling and noise together. NaN is of an estimate that is not determined: its
        interval may have one end, and counts with the others as one that is independent of them. What does not vary is
        left out.
    alpha : float
        One minus the joint confidence.

    Returns
    -------
    float
        ``P(abs(Z) > q)`` for one normal Z, q the value that the largest of the standardised errors exceeds with
        probability ``alpha``: single intervals of this level, by whatever method, are the joint ones.

    Notes
    -----
    The largest of normal variables of this correlation is simulated with a public seed. The level is not below
    Sidak's, ``1 - (1 - alpha)^(1/p)``, which holds for normal variables of any correlation (Sidak 1967), and is exact
    for independent ones. With heavier tails each interval counts its own, and the normal correlation joins them.
    """
    variances = np.diag(covariance)
    finite = np.isfinite(variances)
    largest = variances[finite].max(initial=0.0)
    counted = np.flatnonzero(~finite | (variances > _NOTHING * largest))
    count = counted.size
    if count < 2:
        return alpha
    sidak = float(-np.expm1(np.log1p(-alpha) / count))
    known = finite[counted]
    deviation = np.sqrt(np.where(known, variances[counted], 1.0))
    correlation = covariance[np.ix_(counted, counted)] / np.outer(deviation, deviation)
    correlation = np.where(known[:, None] & known, correlation, np.eye(count))
    if count > _MOST or np.abs(correlation - np.eye(count)).max() < _NOTHING:
        return sidak
    extremes = np.abs(_drawn(count) @ root_of(correlation).T).max(axis=1)
    rank = int(np.ceil((1 - alpha) * (_DRAWS + 1)))
    if rank > _DRAWS:
        return sidak
    return max(sidak, float(2 * stats.norm.sf(np.partition(extremes, rank - 1)[rank - 1])))
