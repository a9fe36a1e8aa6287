"""The joint table behind several releases of counts: every measured quantity as a sum over its cells."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import InferenceError
from dpinfer.procedures.cell_sums import TABLES, MeasuredCounts, count_names
from dpinfer.schema.axes import axis_to_dict, cuts_of, part_in_words
from dpinfer.schema.columns import Integer, limits_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from dpinfer.schema.axes import Axis
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["COUNTED", "NOWHERE", "JointTable"]

COUNTED = (*TABLES, "linear", "binomial")
"""Kinds of releases that measure sums of counts."""

NOWHERE = "(none)"
"""Label of rows that are in no part of an axis."""

_MOST_CELLS = 2**12
_MOST_VALUES = 2**16


@dataclass(frozen=True, eq=False)
class _Part:
    """A common refinement of axes that partition rows by the same column.

    Attributes
    ----------
    name : str
    labels : tuple
    places : dict of axis key to ndarray of int (atoms,)
        Where each atom is in each axis; -1 where it is in no part.
    """

    name: str
    labels: tuple[Any, ...]
    places: dict[str, NDArray[np.intp]]


class JointTable:
    """The cells that several releases of counts are sums of.

    Parameters
    ----------
    schema : Schema
        All columns of all releases.
    measured : sequence of MeasuredCounts

    Attributes
    ----------
    parts : tuple
        One for each axis, or for all axes that read the same column and nothing else: their common refinement.
        Rows that may be in no part of an axis, such as those with a missing value, have a label of their own.
    touched : ndarray of int (G,)
        Cells of the product of all parts that some release counts.

    Raises
    ------
    InferenceError
        If there are too many cells.
    """

    def __init__(self, schema: Schema, measured: Sequence[MeasuredCounts]) -> None:
        self.measured = tuple(measured)
        axes = {_key(axis): axis for one in measured for axis in one.axes}
        self.parts = tuple(_refined(group, schema) for group in _grouped(axes.values(), schema))
        self.shape = tuple(len(part.labels) for part in self.parts)
        if prod(self.shape) > _MOST_CELLS:
            sizes = " x ".join(f"{len(part.labels)} of {part.name}" for part in self.parts)
            raise InferenceError(
                f"the releases are combined over the joint table of all their columns, of {prod(self.shape):,} cells "
                f"({sizes}); at most {_MOST_CELLS:,} are possible: combine fewer releases, or coarser ones"
            )
        counted = np.zeros(prod(self.shape), dtype=bool)
        for one in measured:
            counted |= self._places(one) >= 0
        self.touched = np.flatnonzero(counted)

    def _places(self, one: MeasuredCounts) -> NDArray[np.intp]:
        """Cell of one release's table for each cell of the product of parts; -1 where it is in none."""
        index = np.zeros(self.shape, dtype=np.intp)
        inside = np.ones(self.shape, dtype=bool)
        for axis in one.axes:
            key = _key(axis)
            which = next(place for place, part in enumerate(self.parts) if key in part.places)
            line = [1] * len(self.shape)
            line[which] = -1
            place = self.parts[which].places[key].reshape(line)
            index = index * len(axis.labels) + place
            inside &= place >= 0
        return np.where(inside, index, -1).ravel()

    @cached_property
    def designs(self) -> tuple[Array, ...]:
        """For each release its measured quantities as sums of the touched cells, (m, G)."""
        found = []
        for one in self.measured:
            places = self._places(one)[self.touched]
            if one.weights is None:
                design = (places == np.arange(len(one.names))[:, None]).astype(np.float64)
            else:
                design = np.where(places >= 0, one.weights[:, places], 0.0)
            found.append(design)
        return tuple(found)

    @property
    def cells(self) -> list[tuple[Any, ...]]:
        """Labels of the touched cells."""
        places = np.unravel_index(self.touched, self.shape) if self.shape else ()
        return [
            tuple(part.labels[place] for part, place in zip(self.parts, row, strict=True))
            for row in (zip(*(axis.tolist() for axis in places), strict=True) if self.shape else [()])
        ]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the touched cells."""
        named = [part.name for part in self.parts]
        found = [", ".join(f"{name}={label}" for name, label in zip(named, cell, strict=True)) for cell in self.cells]
        return count_names(found)


def _key(axis: Axis) -> str:
    return json.dumps(axis_to_dict(axis), sort_keys=True)


def _grouped(axes: Iterable[Axis], schema: Schema) -> list[list[Axis]]:
    """Put axes together that are functions of one column whose values can be gone through."""
    groups: dict[str, list[Axis]] = {}
    for axis in axes:
        simple = len(axis.columns) == 1 and (bool(cuts_of(axis)) or _finite(axis.columns[0], schema))
        groups.setdefault(axis.columns[0] if simple else _key(axis), []).append(axis)
    return list(groups.values())


def _finite(name: str, schema: Schema) -> bool:
    column = schema[name]
    return bool(column.level_texts) or (isinstance(column, Integer) and column.width < _MOST_VALUES)


def _refined(axes: list[Axis], schema: Schema) -> _Part:
    """Refine axes of one group: an atom for each combination of parts that some value is in."""
    drops = any(schema[name].may_drop for axis in axes for name in axis.columns)
    if len(axes) == 1:
        (axis,) = axes
        nowhere = drops or not axis.covers
        places = np.append(np.arange(len(axis.labels)), [-1] * nowhere)
        return _Part(axis.name, (*axis.labels, *([NOWHERE] * nowhere)), {_key(axis): places})
    values = _representatives(axes, schema)
    combined = np.stack([axis.place({axis.columns[0]: values}) for axis in axes])
    if drops:
        combined = np.column_stack([combined, np.full(len(axes), -1)])
    _, first = np.unique(combined, axis=1, return_index=True)
    atoms = combined[:, np.sort(first)]
    lost = (atoms < 0).all(axis=0)
    atoms = np.column_stack([atoms[:, ~lost], atoms[:, lost]])
    finest = _finest(atoms)
    name = axes[0].columns[0] if finest is None else axes[finest].name
    used = axes if finest is None else [axes[finest]]
    rows = atoms if finest is None else atoms[[finest]]
    labels = tuple(_atom_label(used, atom) for atom in rows.T.tolist())
    return _Part(name, labels, {_key(axis): place for axis, place in zip(axes, atoms, strict=True)})


def _representatives(axes: list[Axis], schema: Schema) -> Array:
    """Values of a column among which is one for each combination of parts that a value can have."""
    (name,) = axes[0].columns
    lower, upper = limits_of(schema[name])
    if _finite(name, schema):
        return np.arange(lower, upper + 1)
    edges = np.unique([lower, upper, *(cut for axis in axes for cut in cuts_of(axis))])
    return np.sort(np.concatenate([edges, 0.5 * edges[:-1] + 0.5 * edges[1:]]))


def _finest(atoms: NDArray[np.intp]) -> int | None:
    """Return the axis that tells all atoms apart, if there is one."""
    for place, row in enumerate(atoms):
        if len(set(row.tolist())) == len(row):
            return place
    return None


def _atom_label(axes: list[Axis], atom: list[int]) -> Any:
    inside = [(axis, place) for axis, place in zip(axes, atom, strict=True) if place >= 0]
    if not inside:
        return NOWHERE
    if len(axes) == 1:
        return inside[0][0].labels[inside[0][1]]
    return " & ".join(part_in_words(axis, place) for axis, place in inside)
