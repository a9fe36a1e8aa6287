"""Bins of what a regression of counts sees of its rows, and what their noisy counts tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.numerics.arrays import Array

__all__ = [
    "beyond_law",
    "both_sides",
    "cut_at",
    "end_of",
    "folded_counts",
    "halves",
    "most_rows",
    "octaves",
    "radius_at",
    "reach_of",
    "share_of",
    "spread_of",
    "usual_cut",
]

_LEAST_CUT, _FARTHEST_CUT, _OF_NOISE, _OF_NOISE_SPREAD = 1.5, 4.0, 0.2, 0.1
"""Residuals are cut at this many standard deviations or farther, as far as noise stays below this part of sampling.

The part is larger for counts that spread more than their law: what cutting takes is less known then.
"""

_MOST_NOISE, _MOST_NOISE_SPREAD = 0.15, 0.45
"""The largest part of sampling that noise may have, and what is added where counts spread more than their law.

Where the law is wrong the mean may be so too, and what is estimated then depends on the weights of rows far out.
"""

_UNEVEN = 0.3
"""What is cut may differ by this part along the regressors beside what the laws explain."""

_OUTLYING = 0.02
"""Part of the rows that count less where only a point is sought."""

_SEEN, _FAR, _SEEN_FAR = 4.0, 6, 6.0
"""Standard deviations of noise from which a count is of rows, and from which if it is so many bins from the others."""

_HIDDEN, _LARGEST_FACTOR = 5e-3, 3.0
"""Share of the rows that may lie unseen beyond the largest response seen, and the farthest that it is then moved."""


def end_of(counts: Array, cuts: Array, noise: float) -> float | None:
    """Return the upper end of the last bin that holds rows, found from the fullest one on, or None if none does."""
    last = int(np.argmax(counts))
    if counts[last] < _SEEN * noise:
        return None
    for one in np.flatnonzero(counts >= _SEEN * noise):
        if one > last and (one - last <= _FAR or counts[one] >= _SEEN_FAR * noise):
            last = int(one)
    return float(cuts[min(last + 1, len(cuts) - 1)])


def reach_of(counts: Array, noise: float) -> float:
    """Return how much farther than seen a response may lie: by a tail in which the third power hides a share.

    ``counts`` begin with responses of 0, which are no part of what is shared.
    """
    size = max(float(counts[1:].sum()), _SEEN * noise)
    return float(np.clip((_SEEN * noise / size / _HIDDEN) ** (1 / 3), 1.0, _LARGEST_FACTOR))


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


def beyond_law(spread: float, *, of_counts: bool) -> float:
    """Return how clearly counts spread more than their law, from 0 to 1."""
    return min(max(2 * (spread - 1), 0.0), 1.0) if of_counts else 0.0


def usual_cut(edge: float, spread: float, precise: float, beyond: float) -> float:
    """Return how many standard deviations from 0 residuals are cut where noise is a small part; see `cut_at`."""
    allowed = np.sqrt(_OF_NOISE + _OF_NOISE_SPREAD * beyond) * precise
    return float(max(_LEAST_CUT + beyond, min(max(2 * edge / spread, _FARTHEST_CUT), allowed)))


def cut_at(
    folded: Array,
    edge: float,
    spread: float,
    size: float,
    precise: float,
    beyond: float,
    biases: Callable[[Array], Array],
) -> float:
    """Return how many standard deviations from 0 residuals are cut.

    Parameters
    ----------
    folded : ndarray
        Noisy counts of sizes of residuals from each of ``halves()`` on.
    edge, spread : float
        End of what was seen, and standard deviation.
    size : float
        Number of rows.
    precise : float
        Standard deviations at which noise is as large as sampling.
    beyond : float
        How clearly counts spread more than their law.
    biases : callable
        Squared bias, over the sampling variance, by which the laws that may hold differ at cuts (k,).

    Notes
    -----
    What a cut takes from the score is predicted by laws that may be wrong. A farther one takes less and costs noise:
    noise is balanced with how far the laws are apart, and with the square of the bias if what is cut differs along the
    regressors by ``_UNEVEN``.
    """
    least = usual_cut(edge, spread, precise, beyond)
    cuts = halves() / spread
    seen = (cuts < edge / spread * 0.999) & (folded > 0)
    farthest = np.sqrt(_MOST_NOISE + _MOST_NOISE_SPREAD * beyond) * precise
    tried = np.linspace(least, max(least, min(2 * edge / spread, farthest)), 13)
    taken = (np.maximum(2.0**0.25 * cuts[seen] - tried[:, None], 0.0) @ folded[seen]) / size
    lost = biases(tried) + _UNEVEN**2 * taken**2 * size + (tried / precise) ** 2
    return float(tried[np.argmin(lost)])


def radius_at(radius: float, usual: float, cut: float, precise: float, beyond: float) -> float:
    """Return the length up to which rows keep their weight, at least ``radius`` and at most that of usual rows.

    A weight below 1 moves what is estimated where the model is wrong, so there is one only where noise asks for it.
    ``precise`` is as for `cut_at`, for this radius.
    """
    allowed = np.sqrt(_MOST_NOISE + _MOST_NOISE_SPREAD * beyond) * precise / cut
    return float(radius * max(1.0, min(allowed, usual / radius)))


def most_rows(counts: Array, cuts: Array, edge: float, size: float) -> float:
    """Return the size beyond which few rows are, none farther than any was seen; ``counts`` begin at each cut."""
    beyond = np.cumsum(np.where(cuts < edge * 0.999, counts, 0.0)[::-1])[::-1]
    found = np.flatnonzero(beyond <= _OUTLYING * size)
    return min(edge, float(cuts[found[0]])) if found.size else edge
