"""Bins of sizes and residuals, and what noisy counts in them tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array

__all__ = ["SEEN", "both_sides", "edge_of", "positive_cuts", "residual_cuts"]

SEEN = 4.0
"""Standard deviations of its noise from which a count is taken to be of rows."""

_FAR, _SEEN_FAR = 6, 6.0
"""More than this many bins beyond the last one, a count must be clearer: there are many empty bins."""


def edge_of(counts: Array, cuts: Array, noise: float) -> float:
    """Return the upper end of the last bin whose noisy count is of rows; ``counts`` (B,) begin at each cut (B,)."""
    last = -1
    for one in np.flatnonzero(counts >= SEEN * noise):
        if one - last <= _FAR or counts[one] >= _SEEN_FAR * noise:
            last = int(one)
    return float(cuts[min(last + 1, len(cuts) - 1)])


def positive_cuts(least: int = -2) -> Array:
    """Half octaves of residuals in standard deviations."""
    return np.asarray(2.0 ** (np.arange(least, 51) / 2))


def residual_cuts(least: int = -2) -> Array:
    """Return the same to both sides."""
    return np.concatenate([-positive_cuts(least)[::-1], positive_cuts(least)])


def both_sides(counts: Array) -> Array:
    """Return counts of sizes from each positive cut on, of counts between all cuts."""
    middle = len(counts) // 2
    return np.asarray(counts[middle + 1 :] + counts[:middle][::-1])
