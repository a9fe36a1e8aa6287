"""The tree of counts that a distribution is read from, compiled against a schema."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError, ReleaseFormatError
from dpinfer.inference.distribution import fit_tree
from dpinfer.kernel.rows.tree import MOST_LEAVES, PointRows, TreeSum
from dpinfer.procedures.conditions import compiled_where, told_where
from dpinfer.procedures.options import Allowed
from dpinfer.results.quantiles import Distribution
from dpinfer.schema.axes import axis_from_dict
from dpinfer.schema.columns import Integer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["LEAVES", "TreePlan"]

_LEAVES = 4096

LEAVES = Allowed(
    lambda given: given == "auto" or type(given) is int, f'a power of two from 2 to {MOST_LEAVES:,}, or "auto"'
)

_LEAST_VARIANCE = 1e-12
"""Least variance of a noisy count: at a huge price it may vanish in floating point."""


@dataclass(frozen=True, eq=False)
class TreePlan:
    """The tree of counts of a column, by group.

    Attributes
    ----------
    schema : Schema
    column : str
    resolution : int or "auto"
    axes : tuple of mapping
        Groups, as `Axis.to_dict` writes them.
    where : str, optional
    """

    schema: Schema
    column: str
    resolution: int | str = "auto"
    axes: tuple[Mapping[str, Any], ...] = ()
    where: str | None = None

    @cached_property
    def leaves(self) -> int:
        """Number of leaves, a power of two.

        Raises
        ------
        OptionError
        """
        if self.resolution == "auto":
            return _default_leaves(self.schema[self.column])
        found = self.resolution
        if type(found) is not int or not 2 <= found <= MOST_LEAVES or found & (found - 1):
            raise OptionError("resolution", found, LEAVES.expected)
        return found

    @cached_property
    def tree(self) -> TreeSum:
        """The row sum.

        Raises
        ------
        OptionError, SchemaError, FormulaError, UnknownColumnError
            If the column or the groups cannot be served from the schema.
        """
        groups = tuple(axis_from_dict(axis, self.schema) for axis in self.axes)
        found = TreeSum(self.schema, self.column, self.leaves, groups, compiled_where(self.where, self.schema))
        found.check()
        return found

    @property
    def points(self) -> PointRows:
        """The grid that quantiles are chosen on."""
        return PointRows(self.tree)

    @property
    def step(self) -> float:
        """Whole numbers in one leaf; 0 for a Real column."""
        column = self.schema[self.column]
        return float(-(-(column.width + 1) // self.leaves)) if isinstance(column, Integer) else 0.0

    @property
    def text(self) -> str:
        """Column, groups and condition in words."""
        groups = [axis.name for axis in self.tree.groups]
        return self.column + (f" by {', '.join(groups)}" if groups else "") + told_where(self.where)

    def check_noise(self, release: Release) -> None:
        """Refuse noise that is not a tree's: the same at all nodes, but none at a public root.

        Raises
        ------
        ReleaseFormatError
        """
        scales = np.asarray(release.law.scales).reshape(self.tree.size, self.tree.width)
        public = bool(self.tree.public(release.neighbors)[0])
        noisy = scales[:, 1:] if public else scales
        right = (
            release.law.family in ("gaussian", "laplace")
            and len(set(release.steps)) == 1
            and (noisy > 0).all()
            and (noisy == noisy[0, -1]).all()
            and (not public or scales[0, 0] == 0)
        )
        if not right:
            raise ReleaseFormatError("the noise of the release is not that of a tree of counts")

    def check_points(self, chosen: StageRelease) -> None:
        """Refuse chosen quantiles that are not points of the grid.

        Raises
        ------
        ReleaseFormatError
        """
        points = self.points.points
        if chosen.law.family != "gumbel" or not all(0 <= one < points for one in chosen.values):
            raise ReleaseFormatError("the chosen points are none of the grid")

    def chosen_values(self, chosen: StageRelease) -> Array:
        """Return the quantiles that were chosen (groups, k)."""
        return np.array([self.points.value(point) for point in chosen.values]).reshape(self.tree.size, -1)

    def distribution(self, release: Release) -> Distribution:
        """Make the counts of a release consistent: a tree for each group."""
        rows = self.tree
        counts = release.array.reshape(rows.size, rows.width)
        tiny = np.where(np.asarray(release.law.scales) > 0, _LEAST_VARIANCE, 0.0)
        variances = np.maximum(release.noise_variances, tiny).reshape(rows.size, rows.width)
        by_level = np.array([2**level - 1 for level in range(rows.depth + 1)])
        return Distribution(
            column=self.column,
            trees=tuple(
                fit_tree(counts[group], variances[group][by_level], np.asarray(rows.edges))
                for group in range(rows.size)
            ),
            leaves=self.leaves,
            step=self.step,
            groups=tuple(axis.name for axis in rows.groups),
            labels=tuple(rows.labels),
            rows_per_unit=self.schema.rows_per_unit,
            nobs_is_public=bool(rows.public(release.neighbors)[0]),
            where=self.where,
        )


def _default_leaves(column: object) -> int:
    if isinstance(column, Integer):
        return int(min(_LEAVES, max(2, 1 << int(column.width).bit_length())))
    return _LEAVES
