"""Where most values of numeric columns lie: trees of counts, and a middle and a spread read from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer.kernel.rows.round_counts import Bins, RoundCounts
from dpinfer.kernel.stage import Stage, Sum
from dpinfer.procedures.newton_bins import LEVELS, range_of
from dpinfer.schema.clamping import limits_of
from dpinfer.schema.columns import Integer

if TYPE_CHECKING:
    from dpinfer.procedures.newton_columns import NewtonColumns
    from dpinfer.release.stage import StageRelease

__all__ = ["found_ranges", "ranges_stage"]

_RANGE = 1.8
"""Standard deviations on either side of the middle that public rows are spread over: uniform, they have nearly one."""


def ranges_stage(columns: NewtonColumns) -> Stage:
    """Count the numeric columns of a regression, each in a tree over its declared bounds."""
    cuts = np.linspace(-1, 1, 2**LEVELS + 1)[1:-1]
    places = [
        Bins(name, "coordinate", cuts, levels=LEVELS, place=place, halved=True)
        for place, name in enumerate(columns.numeric)
    ]
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
