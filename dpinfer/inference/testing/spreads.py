"""Whether groups share one variance, tested on the noisy sums behind a test of means.

With n, s, q the noisy sums of 1, u and u^2 of a group and m = s / n, the sum of squares is W = q - s^2 / n, freed of
the bias of its noise. If all groups have the variance sigma^2, D = W - sigma^2 (n - 1) has mean zero and variance

    V = (K - 1) sigma^4 n + Var(e2 - 2 m e1 + (m^2 - sigma^2) e0) + 2 (Var(e1 - m e0) / n)^2,

K being the kurtosis of the values and e0, e1, e2 the noise of the three sums. Nothing released tells of K: it is taken
to be 9, as of exponential values, and the test is conservative for values with lighter tails. The statistic is the
least ``sum D^2 / V`` over sigma^2 with V at the pooled variance, about chi-squared with G - 1 degrees of freedom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from dpinfer.inference.testing.groups import GroupMeans
    from dpinfer.statistics.arrays import Array

__all__ = ["spread_pvalues"]

_KURTOSIS = 9.0

_LAPLACE = float((stats.laplace.isf(0.005, scale=0.5**0.5) / stats.norm.isf(0.005)) ** 2)
"""Factor of the variance of Laplace noise at which normal noise has its tail of 1%."""

_TINY = 1e-12


def spread_pvalues(model: GroupMeans, values: Array) -> Array:
    """P-values (R,) of the hypothesis that the groups of releases (R, 3 G) share one variance."""
    sums = values.reshape(*values.shape[:-1], model.groups, 3)
    rows, first, second = sums[..., 0], sums[..., 1], sums[..., 2]
    heavy = _LAPLACE if model.laplace else 1.0
    size = np.maximum(rows, max(float(np.sqrt(model.cov[0, 0])), 2.0))
    mean = np.clip(first / size, -1.0, 1.0)
    moved = _variance(model.cov, np.stack([-mean, np.ones_like(mean), np.zeros_like(mean)]))
    square = second - 2 * mean * first + mean**2 * rows + moved / size
    pooled = np.maximum(square.sum(axis=-1), 0.0) / np.maximum((rows - 1).sum(axis=-1), 1.0)
    sigma = np.clip(pooled, 0.0, 1.0)[..., None]
    blur = _variance(model.cov, np.stack([mean**2 - sigma, -2 * mean, np.ones_like(mean)]))
    blur = heavy * (blur + 2 * (moved / size) ** 2)
    weight = 1.0 / np.maximum((_KURTOSIS - 1) * sigma**2 * size + blur, _TINY)
    beyond, pull = square - sigma * (rows - 1), rows - 1
    length = (weight * beyond**2).sum(axis=-1)
    length -= (weight * beyond * pull).sum(axis=-1) ** 2 / np.maximum((weight * pull**2).sum(axis=-1), _TINY)
    return np.asarray(stats.chi2.sf(np.maximum(length, 0.0), model.groups - 1))


def _variance(cov: Array, vector: Array) -> Array:
    """Variance of combinations (3, ...) of the noise of the three sums."""
    return np.asarray(np.maximum(np.einsum("i...,ij,j...->...", vector, cov, vector), 0.0))
