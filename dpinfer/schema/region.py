"""The declared region of a parameter: balls around a centre, one for each group of coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["LARGEST", "SMALLEST", "Region", "is_number"]

SMALLEST, LARGEST = 1e-100, 1e100
"""Radii, and ends and centres, in absolute value."""


@dataclass(frozen=True, eq=False)
class Region:
    """A product of balls, one for each group of the p parameters; an interval is the ball of a single one.

    Every parameter is in one group of ``places``.
    """

    names: tuple[str, ...]
    places: tuple[tuple[int, ...], ...]
    radii: tuple[float, ...]
    center: Array

    @cached_property
    def group(self) -> NDArray[np.intp]:
        """Group of each parameter (p,)."""
        found = np.empty(len(self.names), dtype=np.intp)
        for number, places in enumerate(self.places):
            found[list(places)] = number
        return found

    @cached_property
    def radius(self) -> Array:
        """Radius of each parameter's group (p,)."""
        return np.asarray(self.radii, dtype=np.float64)[self.group]

    def clip(self, values: Array) -> Array:
        """Move values (..., p) into the region, each group towards its centre; non-finite ones to the centre."""
        with np.errstate(all="ignore"):
            moved = values - self.center
            moved = np.where(np.isfinite(moved).all(axis=-1, keepdims=True), moved, 0.0)
            for places, radius in zip(self.places, self.radii, strict=True):
                part = moved[..., list(places)]
                largest = np.maximum(np.abs(part).max(axis=-1, keepdims=True), radius)
                length = np.sqrt(((part / largest) ** 2).sum(axis=-1, keepdims=True))  # in units of the largest
                ends = part / largest / length * radius
                moved[..., list(places)] = np.where(length <= radius / largest, part, ends)
        return np.asarray(self.center + moved)

    def describe(self) -> str:
        """Say in words what is declared."""
        told = []
        for places, radius in zip(self.places, self.radii, strict=True):
            center = self.center[list(places)]
            if len(places) == 1:
                told.append(f"{self.names[places[0]]} in [{center[0] - radius:.6g}, {center[0] + radius:.6g}]")
            else:
                around = "0" if not center.any() else "[" + ", ".join(f"{one:.6g}" for one in center) + "]"
                told.append(f"({', '.join(self.names[j] for j in places)}) within {radius:.6g} of {around}")
        return "; ".join(told)

    def to_dict(self) -> dict[str, Any]:
        """Return the region as a JSON-ready mapping."""
        return {
            "names": list(self.names),
            "groups": [list(places) for places in self.places],
            "radii": list(self.radii),
            "center": self.center.tolist(),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Region:
        """Read what `to_dict` wrote; KeyError, TypeError or ValueError if it is damaged."""
        names = tuple(stored["names"])
        places = tuple(tuple(group) for group in stored["groups"])
        radii = tuple(stored["radii"])
        try:
            center = np.array(stored["center"], dtype=np.float64)
        except OverflowError:
            raise ValueError("the region of the parameters is damaged") from None
        flat = [place for group in places for place in group]
        right = (
            all(type(name) is str for name in names)
            and len(set(names)) == len(names) > 0
            and all(type(place) is int for place in flat)
            and sorted(flat) == list(range(len(names)))
            and all(places)
            and len(radii) == len(places)
            and all(is_number(radius) and 0 < radius <= LARGEST for radius in radii)
            and center.shape == (len(names),)
            and bool(np.isfinite(center).all())
        )
        if not right:
            raise ValueError("the region of the parameters is damaged")
        return cls(names, places, tuple(map(float, radii)), center)


def is_number(value: object) -> bool:
    """Whether a value is a number of a size that a region may have."""
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        return False
    return bool(-LARGEST <= value <= LARGEST) if isinstance(value, int) else abs(float(value)) <= LARGEST
