"""What noisy counts tell: where a column lies, how far rows reach, and how many are beyond a cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.newton_tail import TailCounts

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array
    from dpinfer.procedures.newton_models import Cut

__all__ = [
    "LEVELS",
    "SEEN",
    "beyond_cuts",
    "both_sides",
    "edge_of",
    "positive_cuts",
    "range_of",
    "residual_cuts",
    "tail_end",
]

LEVELS = 12
"""How often the declared bounds of a column are halved."""

SEEN = 4.0
"""Standard deviations of its noise from which a count is taken to be of rows."""

_TAILS = ((0.1, 1.2816), (0.05, 1.6449), (0.02, 2.0537), (0.01, 2.3263))
"""Tail probabilities, and how many standard deviations of a normal law lie between them and the middle."""

_FITTED, _FOLLOWED, _UNSEEN = 5, 8, 3.0
"""Bins that a tail is fitted to, and bins that it is followed for, until fewer rows than the last number are left."""

_FAR, _SEEN_FAR = 6, 6.0
"""More than this many bins beyond the last one, a count must be clearer: there are many empty bins."""

_A_ROW = 0.5
"""The least that is taken to be a row, where there is next to no noise."""

_MARGIN = 2.0
"""Standard deviations of noise that are taken off numbers of rows beyond what is seen."""

_NEAR, _OFF_CENTER = 1.2, 0.03
"""Residuals in bins from below this are near; the start may be so far off their centre, times their number."""


def range_of(counts: Array, noise: float) -> tuple[float, float]:
    """Middle and standard deviation of a column from noisy counts, on a scale from -1 to 1.

    The first two are of the halves of its bounds, and all others of the first half of each part, level by level.
    """
    below = np.array([0.0, counts[0], counts[0] + counts[1]])
    levels = [np.diff(below)]
    start = 2
    while start < len(counts):
        size = len(below) - 1
        finer = np.empty(2 * size + 1)
        finer[::2] = below
        finer[1::2] = below[:-1] + counts[start : start + size]
        levels.append(np.diff(finer))
        below, start = finer, start + size
    total = max(below[-1], 1.0)
    rising = 0.5 * (np.maximum.accumulate(below) + np.minimum.accumulate(below[::-1])[::-1])
    edges = np.linspace(-1, 1, len(rising))

    def between(tail: float) -> tuple[float, float]:
        low = int(np.searchsorted(rising, tail * total, side="right")) - 1
        high = int(np.searchsorted(rising, (1 - tail) * total, side="left"))
        return float(edges[np.clip(low, 0, len(edges) - 2)]), float(edges[np.clip(high, 1, len(edges) - 1)])

    low, high = between(0.1)
    middle = 0.5 * (low + high)
    found = (high - low) / 2 / _TAILS[0][1]
    for tail, deviations in _TAILS[1:]:
        if tail * total >= SEEN * noise * np.sqrt(LEVELS):
            outer = between(tail)
            found = max(found, (outer[1] - outer[0]) / 2 / deviations)
    # Where a tenth of the rows have one value, far from all others, noise says on which side of a quantile they are.
    found = max(found, *(_apart(one, middle, total, noise * np.sqrt(1 + depth)) for depth, one in enumerate(levels)))
    return middle, max(found, 1.0 / 2**LEVELS)


def _apart(level: Array, middle: float, total: float, noise: float) -> float:
    """Return a standard deviation that rows which are seen away from the middle give a column at least."""
    edges = np.linspace(-1, 1, len(level) + 1)
    away = np.maximum(np.maximum(edges[:-1] - middle, middle - edges[1:]), 0.0)
    share = np.where(level >= SEEN * noise, level, 0.0) / total
    return float((away * np.sqrt(np.minimum(share, 1.0))).max())


def edge_of(counts: Array, cuts: Array, noise: float) -> float:
    """Return the upper end of the last bin whose noisy count is of rows; ``counts`` (B,) begin at each cut (B,)."""
    last = -1
    for one in np.flatnonzero(counts >= max(SEEN * noise, _A_ROW)):
        if one - last <= _FAR or counts[one] >= _SEEN_FAR * noise:
            last = int(one)
    return float(cuts[min(last + 1, len(cuts) - 1)])


def tail_end(counts: Array, cuts: Array, noise: float) -> float:
    """Return the size beyond which hardly a row is expected; ``counts`` (B,) begin at each cut (B,).

    The logarithms of the last counts that are of rows follow a parabola, fitted by weighted least squares, that does
    not bend upward. It is followed from the edge of what is seen to where it leaves `_UNSEEN` rows.
    """
    seen = np.flatnonzero(cuts < 0.999 * edge_of(counts, cuts, noise))[-_FITTED:]
    edge = int(seen[-1]) + 1 if len(seen) else 0
    if len(seen) < 3 or edge >= len(cuts):
        return float(cuts[min(edge, len(cuts) - 1)])
    rows = np.maximum(counts[seen], max(noise, _A_ROW))
    steps = seen - float(edge)
    weights = rows / np.sqrt(rows + noise**2)
    bend, slope, level = np.polyfit(steps, np.log(rows), 2, w=weights)
    if bend > 0:
        bend, (slope, level) = 0.0, np.polyfit(steps, np.log(rows), 1, w=weights)
    ahead = np.arange(min(_FOLLOWED, len(cuts) - edge))
    expected = np.exp(np.minimum(level + slope * ahead + bend * ahead**2, np.log(rows[-1])))
    left = np.cumsum(expected[::-1])[::-1]
    beyond = np.flatnonzero(left < _UNSEEN)
    return float(cuts[edge + (int(beyond[0]) if len(beyond) else len(ahead) - 1)])


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


def beyond_cuts(counts: Array, noise: float, cut: Cut) -> TailCounts:
    """Return what counts between all cuts, with this noise, tell of rows beyond both cuts."""
    both, cuts = both_sides(counts), positive_cuts()
    last = edge_of(both, cuts, noise * np.sqrt(2.0))
    bins = [(cuts >= one * 0.999) & (cuts < max(last, 2 * one)) for one in (cut.low, cut.high)]
    low, high = (float(both[one].sum()) for one in bins)
    near = cuts < _NEAR
    signed = counts * np.where(np.arange(len(counts)) < len(counts) // 2, -1.0, 1.0)
    differ = float(both_sides(signed)[near].sum())
    size = max(float(counts.sum()), 1.0)
    chance = 0.5 * size + 2 * near.sum() * noise**2 + (_OFF_CENTER * size) ** 2
    hidden = noise * np.sqrt([2.0 * one.sum() for one in bins])
    return TailCounts(low, max(high - _MARGIN * hidden[1], 0.0), float(differ**2 / chance), float(hidden[0]))
