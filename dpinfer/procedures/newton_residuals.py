"""The law of residuals, read from noisy counts of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import interpolate, special

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.numerics.arrays import Array

__all__ = ["MEDIAN_DEVIATION", "ResidualLaw", "Seen"]

_SEEN, _FAR, _SEEN_FAR, _BESIDE = 4.0, 6, 6.0, 4
_NARROW = 0.5
_GRID = 4001
MEDIAN_DEVIATION = 0.6744897501960817
"""Median absolute deviation of a standard normal variable."""


@dataclass(frozen=True, eq=False)
class ResidualLaw:
    """Distribution of residuals read from noisy counts: ``rising`` (m,) at ``points`` (m,), from 0 to 1."""

    points: Array
    rising: Array

    @classmethod
    def of(cls, counts: Array, cuts: Array, noise: float) -> ResidualLaw:
        """Read counts (B,) between cuts (B - 1,), and few farther out than rows are beyond doubt.

        Without those a tail would be missing from the law where it is long, and its quantiles be too small.
        """
        seen = _chained(counts, cuts, noise)
        if not seen:
            return cls.normal()
        first, last = max(min(seen) - _BESIDE, 0), min(max(seen) + _BESIDE, len(counts) - 1)
        ends = np.concatenate([[2 * cuts[0]], cuts, [2 * cuts[-1]]])[first : last + 2]
        below = np.concatenate([[0.0], np.cumsum(counts[first : last + 1])])
        rising = 0.5 * (np.maximum.accumulate(below) + np.minimum.accumulate(below[::-1])[::-1])
        if rising[-1] <= rising[0]:  # noise took away more rows beside than it showed
            return cls.normal()
        rising = np.clip((rising - rising[0]) / (rising[-1] - rising[0]), 0.0, 1.0)
        points = np.concatenate([ends, np.linspace(max(ends[0], -6.0), min(ends[-1], 6.0), _GRID)])
        points = np.unique(points)
        return cls(points, np.asarray(interpolate.PchipInterpolator(ends, rising)(points)))

    @classmethod
    def normal(cls) -> ResidualLaw:
        """Where counts tell of no row."""
        points = np.linspace(-4.0, 4.0, _GRID)
        return cls(points, special.ndtr(points))

    def below(self, point: float) -> float:
        """Share of residuals below a point."""
        return float(np.interp(point, self.points, self.rising, 0.0, 1.0))

    def quantile(self, share: float) -> float:
        """Point below which a share of the residuals lies."""
        return float(np.interp(share, self.rising, self.points))

    def density(self, point: float, width: float) -> float:
        """Share of residuals within half a width of a point, by width."""
        return (self.below(point + width / 2) - self.below(point - width / 2)) / width

    def deviation(self, centre: float) -> float:
        """Median absolute deviation about a centre, 1 standard deviation of a normal law."""
        low, high = 0.0, float(max(self.points[-1] - centre, centre - self.points[0]))
        for _ in range(60):
            middle = 0.5 * (low + high)
            inside = self.below(centre + middle) - self.below(centre - middle)
            low, high = (middle, high) if inside < 0.5 else (low, middle)
        return max(high, 1e-3) / MEDIAN_DEVIATION

    def huber(self, tuning: float) -> tuple[float, float]:
        """Huber's centre with residuals cut at ``tuning`` deviations, and the deviation about it."""
        middle, mass = 0.5 * (self.points[1:] + self.points[:-1]), np.diff(self.rising)
        centre = self.quantile(0.5)
        scale = self.deviation(centre)
        for _ in range(50):
            cut = tuning * scale
            apart = middle - centre
            inside = max(float(mass @ (np.abs(apart) <= cut)), 0.1)
            centre += float(mass @ np.clip(apart, -cut, cut)) / inside
            scale = self.deviation(centre)
        return centre, scale


def _chained(counts: Array, cuts: Array, noise: float) -> list[int]:
    """Places of the bins that hold rows beyond doubt: clearer ones, if they are far from the others.

    Narrow bins near 0, which hold few rows, are no distance.
    """
    seen = np.flatnonzero(counts >= max(_SEEN * noise, 0.5))
    if not seen.size:
        return seen.tolist()
    apart = np.arange(len(counts)) - len(counts) // 2
    apart = np.sign(apart) * np.maximum(np.abs(apart) - int((np.abs(cuts) < _NARROW).sum()) // 2, 0)
    middle = int(np.argmin(np.abs(seen - len(counts) // 2)))
    for side in (seen[middle:], seen[: middle + 1][::-1]):
        last = side[0]
        for one in side[1:]:
            if abs(apart[one] - apart[last]) > _FAR and counts[one] < _SEEN_FAR * noise:
                seen = seen[seen != one]
            else:
                last = one
    return seen.tolist()


@dataclass(frozen=True, eq=False)
class Seen:
    """What is known before the first round: the law of residuals, rows, columns, and the radius of their coordinates.

    ``noise`` is that of a count; ``precision`` returns 1 over the noise of a sum bounded by 1, at a share of the price.
    """

    law: ResidualLaw
    noise: float
    size: float
    width: int
    radius: float
    precision: Callable[[float], float]
