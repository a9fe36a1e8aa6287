"""Bounds of columns from noisy counts in octaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer.release.laws import NoiseLaw

if TYPE_CHECKING:
    from dpinfer.statistics.arrays import Array

__all__ = ["occupied_from", "octave_bounds"]


def occupied_from(law: NoiseLaw, false_alarm: float) -> float:
    """Return the count that the noise of some empty cell exceeds with probability ``false_alarm`` at most.

    All m cells of a law have noise of one scale; the bound is Bonferroni's.
    """
    one = NoiseLaw(law.family, law.scales[:1], law.draws)
    return float(one.quantile(1 - false_alarm / len(law.scales))[0])


def octave_bounds(counts: Array, ends: Array, threshold: float, margin: int) -> Array:
    """Return the outermost occupied octaves of R releases with a margin, as bounds (R, 2).

    Parameters
    ----------
    counts : ndarray (R, k)
        Noisy counts of octaves, ascending.
    ends : ndarray (k + 1,)
        Their ends: the outer ones are declared bounds, which are never exceeded.
    threshold : float
        A count above it is occupied.
    margin : int
        Octaves that are added beyond the outermost occupied one, on each side.

    Returns
    -------
    ndarray (R, 2)
        NaN where no octave is occupied.
    """
    occupied = counts > threshold
    size = counts.shape[1]
    first = np.maximum(occupied.argmax(axis=1) - margin, 0)
    last = np.minimum(size - occupied[:, ::-1].argmax(axis=1) + margin, size)
    found = np.stack([ends[first], ends[last]], axis=1)
    return np.where(occupied.any(axis=1, keepdims=True), found, np.nan)
