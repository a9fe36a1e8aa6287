"""The declared region of a parameter: balls around a centre, one for each group of coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.checks import are_texts, is_list, is_number, require
from dpinfer.errors import OptionError, kind_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SMALLEST, LARGEST = 1e-100, 1e100
"""Radii, and ends and centres, in absolute value."""


@dataclass(frozen=True, eq=False)
class Region:
    """A product of balls, one for each group of the p parameters; a one-parameter ball is an interval.

    Every parameter is in one group of ``places``.
    """

    names: tuple[str, ...]
    places: tuple[tuple[int, ...], ...]
    radii: tuple[float, ...]
    center: Array

    @cached_property
    def group(self) -> NDArray[np.intp]:
        """Group of each parameter (p,)."""
        group = {place: number for number, places in enumerate(self.places) for place in places}
        return np.array([group[place] for place in range(len(self.names))], dtype=np.intp)

    @cached_property
    def radius(self) -> Array:
        """Radius of each parameter's group (p,)."""
        return np.asarray(self.radii, dtype=np.float64)[self.group]

    def clip(self, values: Array) -> Array:
        """Clip values (..., p) to the region, each group towards its centre; non-finite ones go to the centre."""
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
        """Describe the declared region in words."""
        parts = []
        for places, radius in zip(self.places, self.radii, strict=True):
            center = self.center[list(places)]
            if len(places) == 1:
                parts.append(f"{self.names[places[0]]} in [{center[0] - radius:.6g}, {center[0] + radius:.6g}]")
            else:
                around = "0" if not center.any() else "[" + ", ".join(f"{one:.6g}" for one in center) + "]"
                parts.append(f"({', '.join(self.names[j] for j in places)}) within {radius:.6g} of {around}")
        return "; ".join(parts)

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
        """Read the output of `to_dict`; KeyError, TypeError or ValueError if it is damaged."""
        names, groups = tuple(stored["names"]), stored["groups"]
        center, radii = dict(enumerate(stored["center"])), stored["radii"]
        flat = [place for group in groups for place in group]
        right = (
            are_texts(names)
            and len(set(names)) == len(names) == len(center)
            and all(type(place) is int for place in flat)
            and sorted(flat) == list(range(len(names)))
            and all(groups)
        )
        if not right:
            raise ValueError("the region of the parameters is damaged")
        asked = {
            tuple(names[j] for j in group): Ball(radius, [center[j] for j in group])
            for group, radius in zip(groups, radii, strict=True)
        }
        return region_of(asked, names)


def _fits(value: object) -> bool:
    """Whether a value is a number within the limits of a region."""
    return is_number(value) and abs(value if isinstance(value, int) else float(value)) <= LARGEST


_RIGHT = (
    "a region declared in advance: Ball(radius) for all parameters together, (lower, upper) for each, or a mapping of "
    "names, or tuples of names, to such"
)


@dataclass(frozen=True, slots=True)
class Ball:
    """A ball that is declared to contain a group of parameters.

    Parameters
    ----------
    radius : float
    center : float or sequence of float
        One for each parameter of the group, or one for all.

    Raises
    ------
    OptionError
        If the radius is not a positive finite number, or the centre is not finite.

    Examples
    --------
    >>> Ball(radius=2.0, center=[0, 1])
    Ball(radius=2.0, center=[0, 1])
    """

    radius: float
    center: float | Sequence[float] = 0.0

    def __post_init__(self) -> None:
        right = _fits(self.radius) and float(self.radius) >= SMALLEST
        require(right, "radius", self.radius, "a positive finite number")
        center: Any = self.center
        right = _fits(center) or (is_list(center) and all(map(_fits, center)))
        require(right, "center", self.center, "a finite number, or one for each parameter")


def region_names(bounds: object) -> tuple[str, ...] | None:
    """Return the parameters that bounds name, in order; None if they name none."""
    if not isinstance(bounds, Mapping) or not bounds:
        return None
    groups = [(key,) if isinstance(key, str) else key if isinstance(key, tuple) else () for key in bounds]
    return tuple(name for group in groups for name in group)


def region_of(bounds: object, names: Sequence[str]) -> Region:
    """Read a declared region.

    Parameters
    ----------
    bounds : Ball, (lower, upper), or mapping of name or tuple of names to such
        A pair stands for an interval of each parameter of its group; its ends are numbers, or sequences.
    names : sequence of str, length p

    Returns
    -------
    Region

    Raises
    ------
    OptionError
        If it is missing, reversed, not finite, or does not cover every parameter once.
    """
    names = tuple(names)
    require(bounds is not None, "bounds", None, _RIGHT)
    parts = dict(bounds) if isinstance(bounds, Mapping) else {names: bounds}
    center, found, radii = np.zeros(len(names)), [], []
    for key, declared in parts.items():
        group = (key,) if isinstance(key, str) else key
        if not (isinstance(group, tuple) and group and all(name in names for name in group)):
            given = key if isinstance(key, str) else kind_of(key)
            raise OptionError("bounds", given, f"names of parameters; they are {', '.join(names)}")
        places = [names.index(name) for name in group]
        for inside, middle, radius in _balls(declared, group):
            mine = tuple(places[j] for j in inside)
            center[list(mine)] = middle
            found.append(mine)
            radii.append(radius)
    flat = sorted(place for group in found for place in group)
    if flat != list(range(len(names))):
        lacking = [name for place, name in enumerate(names) if flat.count(place) == 0]
        twice = [name for place, name in enumerate(names) if flat.count(place) > 1]
        given = f"none for {', '.join(lacking)}" if lacking else f"several for {', '.join(twice)}"
        raise OptionError("bounds", given, f"one for each parameter: {', '.join(names)}")
    return Region(names, tuple(found), tuple(radii), center)


def _balls(declared: Any, group: tuple[str, ...]) -> list[tuple[tuple[int, ...], Any, float]]:
    """Return the groups within a group, with centre and radius."""
    size = len(group)
    if isinstance(declared, Ball):
        center = np.broadcast_to(np.asarray(declared.center, dtype=np.float64), np.shape(declared.center) or (size,))
        require(center.shape == (size,), "center", declared.center, f"one number, or {size}: {', '.join(group)}")
        return [(tuple(range(size)), center, float(declared.radius))]
    require(is_list(declared) and len(declared) == 2, "bounds", declared, _RIGHT)
    try:
        lower, upper = (np.broadcast_to(np.asarray(end, dtype=np.float64), (size,)) for end in declared)
    except (TypeError, ValueError, OverflowError):
        raise OptionError("bounds", declared, f"a lower and an upper end, each a number or {size} of them") from None
    finite = (np.abs([lower, upper]) <= LARGEST).all()  # NaN fails too
    require(finite, "bounds", declared, "finite ends")
    apart = (lower < upper).all() and ((upper - lower) / 2 >= SMALLEST).all()
    require(apart, "bounds", declared, "a lower end below the upper end")
    return [((j,), (lower[j] + upper[j]) / 2, float((upper[j] - lower[j]) / 2)) for j in range(size)]
