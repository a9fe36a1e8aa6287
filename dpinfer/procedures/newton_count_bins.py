"""Bins of what a regression of counts sees of its rows, and what their noisy counts tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array

__all__ = ["both_sides", "folded_counts", "halves", "octaves", "share_of", "spread_of"]


def share_of(count: float, size: float) -> str:
    """Return a noisy number of rows as a share of all."""
    return f"{min(max(count, 0.0) / size, 1.0):.2%}"


def octaves(width: int) -> Array:
    """Half octaves of the squared length of whitened regressors, whose mean is their number."""
    return np.asarray(width * 2.0 ** (np.arange(0, 61) / 2))


def halves() -> Array:
    """Half octaves of residuals and of differences."""
    return np.asarray(2.0 ** (np.arange(-12, 51) / 2))


def both_sides(cuts: Array) -> Array:
    """Return the same to both sides."""
    return np.concatenate([-cuts[::-1], cuts])


def folded_counts(counts: Array) -> Array:
    """Return counts of sizes from each cut on, from counts between the cuts to both sides."""
    middle = len(counts) // 2
    return np.asarray(counts[middle + 1 :] + counts[:middle][::-1])


def spread_of(counts: Array, edge: float, size: float) -> float:
    """Root mean square from counts between all cuts to both sides, of rows that were seen."""
    cuts, folded = halves(), folded_counts(counts)
    seen = cuts < edge * 0.999
    squares = float((folded[seen] * cuts[seen] ** 2).sum()) * 2.0**0.5
    return float(np.clip(np.sqrt(max(squares, 0.0) / size), edge / 8, edge))
