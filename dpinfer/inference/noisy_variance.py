"""A sampling variance that is itself read through noise: what to take for it, and which quantile to use with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dpinfer.statistics.arrays import Array

__all__ = ["SamplingVariance", "read_through_noise"]

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
