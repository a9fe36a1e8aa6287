"""Distribution functions and quantiles: a tree of counts, and places on a fine grid."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError, SchemaError, type_of
from dpinfer.kernel.rows.cells import CellSum, CountedSum, named_cells
from dpinfer.kernel.rows.features import Features
from dpinfer.privacy.exact import binary, sqrt_above
from dpinfer.schema.axes import Axis, BinsAxis
from dpinfer.schema.columns import Integer, Real, clamped_values
from dpinfer.schema.grid import constant_basis

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpinfer.kernel.rows.base import Array, Cells, Flags, Places
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.nodes import Expression
    from dpinfer.schema.schema import Schema


MOST_LEAVES = 2**14
"""Leaves that one tree may have."""

_MOST_NODES = 2**18

_WIDEST = 1e140
"""Bounds at most this far apart, and at least its inverse, have variances that are finite."""

_POINTS = 2**30
"""Points of the grid on which a quantile of a Real column is chosen."""

RANK = 2**20
"""Steps of the scores in one rank."""

SLACK = 64
"""Steps by which rounding can add to the range of a change of log weights: at most 8 a level, at most 7 levels."""

LARGEST_CHOICE = 2.0**42
"""Noise scale, in steps, up to which a log weight is off by less than a step: larger ones are refused."""


def leaf_edges(column: object, leaves: int) -> Array:
    """Edges of the leaves of a column (at most leaves + 1), within its declared bounds.

    A Real is cut evenly. An Integer is cut between whole numbers, one to a leaf where there are leaves enough, else the
    same number of them to each leaf but perhaps the last.
    """
    if isinstance(column, Integer):
        each = -(-(column.width + 1) // leaves)
        inner = np.arange(column.lower + each, column.upper + 1, each, dtype=np.float64) - 0.5
        return np.concatenate([[column.lower], inner, [column.upper]]).astype(np.float64)
    assert isinstance(column, Real)
    share = np.arange(leaves + 1) / leaves
    edges: Array = float(column.lower) * (1 - share) + float(column.upper) * share
    return edges


@lru_cache(maxsize=4)
def _node_names(depth: int) -> tuple[str, ...]:
    return tuple(f"level {level}, node {node}" for level in range(depth + 1) for node in range(2**level))


@dataclass(frozen=True, eq=False)
class TreeSum(CountedSum):
    """Counts rows in the nodes of a dyadic tree over the values of a Real or Integer column, in every group.

    The number of leaves is a power of two. Leaves beyond the bounds of an Integer column hold no row.
    """

    schema: Schema
    name: str
    leaves: int
    groups: tuple[Axis, ...] = ()
    where: Expression | None = None

    def check(self) -> None:
        """Refuse a tree that cannot be measured."""
        if type(self.leaves) is not int or self.leaves < 1 or self.leaves & (self.leaves - 1):
            raise OptionError("resolution", self.leaves, "a power of two")
        column = self.schema[self.name]
        if not isinstance(column, Real | Integer):
            raise SchemaError(f"{self.name!r} is not numeric: quantiles need a Real or an Integer")
        lower, upper = column.limits
        if not 1 / _WIDEST <= upper - lower <= _WIDEST:
            right = f"{1 / _WIDEST:g} to {_WIDEST:g}"
            raise SchemaError(f"{self.name!r}: quantiles need bounds that are {right} apart, not {upper - lower:g}")
        if (np.diff(self.edges) <= 0).any():
            raise OptionError("resolution", self.leaves, f"fewer leaves: floats between the bounds of {self.name!r}")
        names = [axis.name for axis in self.groups]
        if len(set(names)) < len(names) or self.name in names:
            raise OptionError("by", names, f"different columns, other than {self.name!r}")
        if self.cells.size // max(len(self.edges) - 1, 1) * 2 * self.leaves > _MOST_NODES:
            raise OptionError("by", f"{self.size:,} groups", "fewer groups, or a smaller resolution=")
        self.cells.check()

    @cached_property
    def edges(self) -> Array:
        """Edges of the leaves that are within the bounds."""
        return leaf_edges(self.schema[self.name], self.leaves)

    @cached_property
    def cells(self) -> CellSum:
        """The row function that counts rows by group and leaf."""
        axis = BinsAxis(self.schema, self.name, tuple(self.edges.tolist()))
        return CellSum(Features(constant_basis(self.schema), self.where), (*self.groups, axis))

    @property
    def size(self) -> int:
        """Number of groups."""
        return self.cells.size // (len(self.edges) - 1)

    @property
    def depth(self) -> int:
        """Levels above the leaves."""
        return self.leaves.bit_length() - 1

    @property
    def width(self) -> int:
        """Nodes in the tree of one group."""
        return 2 * self.leaves - 1

    @property
    def labels(self) -> list[tuple[Any, ...]]:
        """Labels of every group."""
        return CellSum(self.cells.features, self.groups).cells

    @property
    def group_names(self) -> list[str]:
        """What each group is called; of a tree without groups an empty text."""
        return named_cells(self.groups)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each count is: group by group, from the root to the leaves."""
        if not self.groups:
            return _node_names(self.depth)
        return tuple(f"{group} | {node}" for group in self.group_names for node in _node_names(self.depth))

    def public(self, neighbors: Neighbors) -> Flags:
        """Where the number of rows is public, so is the count of the one root."""
        found = np.zeros(self.size * self.width, dtype=bool)
        found[0] = neighbors == "replace_one" and not self.groups and self.keeps_every_row
        return found

    def change(self, weights: Array, neighbors: Neighbors, norm: Norm) -> Fraction:  # noqa: ARG002  (one part)
        """Bound on the norm of the change of all counts between neighbours.

        A row is in one node of each of the ``depth + 1`` levels. Replacing it by another changes two nodes of a level
        by 1, and none at the root where all rows have the same; a row may also come from nowhere, where it may be
        dropped. A unit of several rows moves the counts by at most the sum of what they do.
        """
        levels = self.depth + 1
        moved = [levels]
        if neighbors == "replace_one":
            moved = [2 * (levels if self.groups else levels - 1)]
            if not self.public(neighbors)[0]:
                moved.append(levels)
        largest = Fraction(max(moved))
        one = largest if norm == "l1" else binary(sqrt_above(largest))
        return one * self.schema.rows_per_unit

    def finish_sets(self, totals: Any) -> Any:
        """Return the counts of all nodes, group by group and from the root down, from those of the leaves (R, k)."""
        held = totals.reshape(-1, len(self.edges) - 1)
        levels = [np.zeros((len(held), self.leaves), dtype=held.dtype)]
        levels[0][:, : held.shape[1]] = held
        while levels[0].shape[1] > 1:
            levels.insert(0, levels[0].reshape(len(held), -1, 2).sum(axis=2))
        return np.concatenate(levels, axis=1).reshape(len(totals), -1)


@dataclass(frozen=True, eq=False)
class PointRows:
    """Places each row's value on a fine grid, of which a point is chosen as the quantile, in every group of a tree."""

    tree: TreeSum

    def check(self) -> None:
        """Refuse what is no tree, or cannot be measured."""
        if type(self.tree) is not TreeSum:
            raise OptionError("tree", type_of(self.tree), "a TreeSum")
        self.tree.check()

    @property
    def schema(self) -> Schema:
        """The schema."""
        return self.tree.schema

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return self.tree.columns

    @cached_property
    def points(self) -> int:
        """Points of the grid: the whole numbers of an Integer column, otherwise 2^30."""
        column = self.tree.schema[self.tree.name]
        return int(column.width) + 1 if isinstance(column, Integer) else _POINTS

    @property
    def dtype(self) -> type[np.int32] | type[np.int64]:
        """Type that holds every point of the grid, and the number of points."""
        return np.int32 if self.points < 2**31 else np.int64

    def value(self, point: int) -> float:
        """Return the value at a point of the grid: the middle of its stretch."""
        column: Any = self.tree.schema[self.tree.name]
        if isinstance(column, Integer):
            return float(column.lower + point)
        lower, upper = float(column.lower), float(column.upper)
        share = (point + 0.5) / self.points
        return lower * (1 - share) + upper * share

    def encode(self, raw: Mapping[str, Cells], count: int) -> tuple[NDArray[Any], Places]:
        """Map a batch to places on the grid (m,) and groups (m,); the number of groups for rows that do not count."""
        tree, column = self.tree, self.tree.schema[self.tree.name]
        with np.errstate(all="ignore"):
            values, keep = clamped_values(tree.schema, tree.columns, raw, count)
            if tree.where is not None:
                keep &= tree.where.evaluate(values) > 0.5
            group = np.zeros(count, dtype=np.intp)
            for axis in tree.groups:
                place = axis.place(values)
                keep &= place >= 0
                group = group * axis.size + place
            lower, upper = column.limits
            if isinstance(column, Integer):
                offset = values[tree.name] - lower
            else:  # halved first: the length of the bounds may be beyond the largest float
                offset = 0.5 * values[tree.name]
                offset -= 0.5 * lower
                offset /= 0.5 * upper - 0.5 * lower
                offset *= self.points
            # Clamped values are numbers within the bounds, so the offset is one, and is cut to a whole number.
            points = np.clip(offset, 0, self.points - 1, out=offset).astype(self.dtype)
            np.copyto(group, tree.size, where=~keep)
        return points, group
