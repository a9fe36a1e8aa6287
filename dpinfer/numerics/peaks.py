"""Where a peak is in a noisy histogram: matched filters of known shape."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["fit_location", "fit_scale"]

_PER_OCTAVE = 8
"""Scales that are tried in each octave."""

_PER_BIN = 8
"""Locations that are tried in each bin."""


def fit_scale(counts: Array, *, width: float, dof: float, noise: float) -> tuple[float, float, float]:
    """Fit the scale of a sample to its noisy counts in octaves.

    Parameters
    ----------
    counts : ndarray (b,)
        Noisy counts in the bins of `octave`.
    width : float
        Upper end of the first bin.
    dof : float
        The sample is taken to be ``scale sqrt(chi2_dof / dof)``.
    noise : float
        Standard deviation of the noise of a count.

    Returns
    -------
    scale, error, signal : float
        The scale at which the shape correlates best with the counts; the standard error of its logarithm; and
        the correlation in standard deviations of its noise.
    """
    tried, shapes = _octaves(len(counts), width, dof)
    return _best(counts, shapes, tried, np.log(tried), noise)


@lru_cache(maxsize=64)
def _octaves(bins: int, width: float, dof: float) -> tuple[Array, Array]:
    """Return the scales that are tried, and the shares of the octaves at each; the same for many histograms."""
    tried = width * 2.0 ** -(np.arange((bins - 1) * _PER_OCTAVE) / _PER_OCTAVE)
    ends = width * 2.0 ** -np.arange(bins)
    reached = stats.chi2.cdf(dof * (ends / tried[:, None]) ** 2, dof)
    reached[:, 0] = 1.0
    return tried, reached - np.hstack([reached[:, 1:], np.zeros((len(tried), 1))])


def fit_location(counts: Array, *, ends: Array, scale: float, noise: float) -> tuple[float, float, float]:
    """Fit the centre of a normal sample of known scale to its noisy counts.

    Parameters
    ----------
    counts : ndarray (b,)
    ends : ndarray (b + 1,)
        Ends of the bins, evenly spaced; the outer bins hold all that lies beyond.
    scale : float
    noise : float
        Standard deviation of the noise of a count.

    Returns
    -------
    location, error, signal : float
        As in `fit_scale`.
    """
    tried, shapes = _places(ends.tobytes(), scale)
    found, error, signal = _best(counts, shapes, tried, tried, noise)
    width = float(ends[1] - ends[0])
    return found, float(np.hypot(error, width / 2)) if width > 2 * scale else error, signal


@lru_cache(maxsize=16)
def _places(ends: bytes, scale: float) -> tuple[Array, Array]:
    """Return the locations that are tried, and the shares of the bins at each; the same for many histograms."""
    listed = np.frombuffer(ends)
    tried = np.linspace(listed[0], listed[-1], (len(listed) - 1) * _PER_BIN + 1)
    reached = stats.norm.cdf((listed - tried[:, None]) / scale)
    reached[:, 0], reached[:, -1] = 0.0, 1.0
    return tried, np.diff(reached, axis=1)


def _best(counts: Array, shapes: Array, tried: Array, moved: Array, noise: float) -> tuple[float, float, float]:
    lengths = np.sqrt((shapes**2).sum(axis=1))
    match = shapes @ counts / lengths
    place = int(np.argmax(match))
    low, high = max(place - 1, 0), min(place + 1, len(tried) - 1)
    slope = (shapes[high] - shapes[low]) / (moved[high] - moved[low] or 1.0)
    slope = slope - shapes[place] * (slope @ shapes[place]) / lengths[place] ** 2  # its height is not known either
    height = max(float(match[place]) / lengths[place], 0.0)
    steepness = height * float(np.sqrt(slope @ slope))
    error = noise / steepness if steepness > 0 else np.inf
    return float(tried[place]), float(error), float(match[place]) / noise if noise > 0 else np.inf
