"""Scores of leaves: midranks, shrunk where privacy noise hides the rows of a leaf.

Arrays have leaves along their last axis; leading dimensions are free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dpinfer.numerics.arrays import Array

__all__ = ["below", "by_rows", "centred_scores", "nearest_shares", "shrinkage", "whole_rows"]

_TINY = 1e-300
_BLOCK = 64_000


def nearest_shares(counts: Array, total: Array | float) -> Array:
    """Shares (..., m), none negative and of sum 1, nearest to noisy counts (..., m) of ``total`` (...) rows.

    The nearest in Euclidean distance: a constant is taken off every count, and what is then negative is none.
    """
    size = np.asarray(total)[..., None]
    ordered = -np.sort(-counts, axis=-1)
    excess = np.cumsum(ordered, axis=-1)
    excess -= size
    excess /= np.arange(1, counts.shape[-1] + 1)
    kept = np.maximum((ordered > excess).sum(axis=-1, keepdims=True), 1)
    level = np.take_along_axis(excess, kept - 1, axis=-1)
    found: Array = np.maximum(counts - level, 0.0)
    found /= size
    return found


def below(shares: Array) -> Array:
    """Share of the rows below each leaf, and half of those in it (..., m)."""
    return np.asarray(np.cumsum(shares, axis=-1) - 0.5 * shares)


def shrinkage(shares: Array, noise: Array | float) -> Array:
    """Weight of each leaf (..., m): ``p / (p + noise)``, noise (...) being its variance over rows, in shares."""
    level = np.asarray(noise)[..., None]
    return np.asarray(np.where(level > 0, shares / np.maximum(shares + level, _TINY), 1.0))


def centred_scores(shares: Array, weights: Array) -> Array:
    """Midranks as shares, less their weighted mean c (..., m).

    Of all scores y with ``sum p y = 0``, which no error in the number of rows moves, ``y = w (s - c)`` tells most of a
    shift, s the midranks and w the weights of `shrinkage`.
    """
    scores, each = below(shares) - 0.5, shares * weights
    through = np.einsum("...k,...k->...", each, scores) / np.maximum(each.sum(axis=-1), _TINY)
    return np.asarray(scores - through[..., None])


def whole_rows(sizes: Array) -> NDArray[np.int64]:
    """Whole numbers of rows, at least one."""
    return np.maximum(np.rint(sizes), 1.0).astype(np.int64)


def by_rows(function: Callable[[Array], Array], values: Array) -> Array:
    """Apply a function of releases (N, m) to values (..., m), by blocks that fit the cache."""
    flat = values.reshape(-1, values.shape[-1])
    size = max(_BLOCK // flat.shape[1], 1)
    parts = [function(flat[start : start + size]) for start in range(0, len(flat), size)]
    return np.concatenate(parts).reshape(values.shape[:-1]) if parts else np.empty(values.shape[:-1])
