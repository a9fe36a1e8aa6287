"""Where most values of numeric columns lie: trees of counts, and a middle and a spread read from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer.kernel.rows.round_counts import Bins, RoundCounts
from dpinfer.kernel.stage import Stage, Sum
from dpinfer.procedures.newton_bins import SEEN
from dpinfer.schema.clamping import limits_of
from dpinfer.schema.columns import Integer

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array
    from dpinfer.procedures.newton_columns import NewtonColumns
    from dpinfer.release.stage import StageRelease

__all__ = ["LEVELS", "found_ranges", "range_of", "ranges_stage"]

LEVELS = 12
"""Levels of a tree: 2^12 bins, and counts of twos, fours and so on."""

_RANGE = 1.8
"""Standard deviations on either side of the middle that public rows are spread over: uniform, they have nearly one."""

_TAILS = ((0.1, 1.2816), (0.05, 1.6449), (0.02, 2.0537), (0.01, 2.3263))
"""Tail probabilities, and how many standard deviations of a normal law lie between them and the middle."""


def ranges_stage(columns: NewtonColumns) -> Stage:
    """Count the numeric columns of a regression, each in a tree over its declared bounds."""
    cuts = np.linspace(-1, 1, 2**LEVELS + 1)[1:-1]
    places = [Bins(name, "coordinate", cuts, levels=LEVELS, place=place) for place, name in enumerate(columns.numeric)]
    return Stage(Sum(RoundCounts(columns.ranged, tuple(places))))


def found_ranges(columns: NewtonColumns, stage: StageRelease) -> dict[str, tuple[float, float]]:
    """Return where public values of each numeric column are to lie, from its noisy counts."""
    noise = float(np.sqrt(stage.noise_variances[0]))
    parts = np.split(stage.array, len(columns.numeric))
    return {
        name: _reach(columns, name, *range_of(part, noise)) for name, part in zip(columns.numeric, parts, strict=True)
    }


def _reach(columns: NewtonColumns, name: str, middle: float, spread: float) -> tuple[float, float]:
    """Return where public values of a column lie, from its middle and standard deviation in units of its bounds."""
    column = columns.schema[name]
    lower, upper = limits_of(column)
    half = (upper - lower) / 2
    reach = max(spread * half * _RANGE, 0.75 if isinstance(column, Integer) else 0.0)  # two whole numbers or more
    center = lower + (1 + middle) * half
    low, high = max(center - reach, lower), min(center + reach, upper)
    return (low, high) if high - low > 1e-9 * half else (lower, upper)


def range_of(counts: Array, noise: float) -> tuple[float, float]:
    """Middle and standard deviation of a column from noisy counts on all levels of halves, on a scale from -1 to 1."""
    below = np.array([0.0])
    start, size = 0, 2
    while start < len(counts):
        level = counts[start : start + size]
        finer = np.empty(size + 1)
        if size == 2:
            finer[:] = [0.0, level[0], level[0] + level[1]]
        else:
            finer[::2] = below
            finer[1::2] = below[:-1] + level[::2]
        below, start, size = finer, start + size, 2 * size
    total = max(below[-1], 1.0)
    rising = 0.5 * (np.maximum.accumulate(below) + np.minimum.accumulate(below[::-1])[::-1])
    edges = np.linspace(-1, 1, len(rising))

    def between(tail: float) -> tuple[float, float]:
        low = int(np.searchsorted(rising, tail * total, side="right")) - 1
        high = int(np.searchsorted(rising, (1 - tail) * total, side="left"))
        return float(edges[np.clip(low, 0, len(edges) - 2)]), float(edges[np.clip(high, 1, len(edges) - 1)])

    low, high = between(0.1)
    found = (high - low) / 2 / _TAILS[0][1]
    for tail, deviations in _TAILS[1:]:
        if tail * total >= SEEN * noise * np.sqrt(LEVELS):
            outer = between(tail)
            found = max(found, (outer[1] - outer[0]) / 2 / deviations)
    return 0.5 * (low + high), max(found, 1.0 / 2**LEVELS)
