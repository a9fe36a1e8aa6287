"""Linear queries, compiled against a schema: the table, and the weights of its cells."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError, ReleaseFormatError, names_of
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.queries import LARGEST_WEIGHT, MOST_CELLS, MOST_QUERIES, QuerySum
from dpinfer.procedures.conditions import compiled_where
from dpinfer.schema.axes import axis_from_dict
from dpinfer.schema.basis import basis_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.schema.axes import Axis
    from dpinfer.schema.expressions import Expression
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["GivenWeights", "GridWeights", "Weights", "query_rows", "whole_weights"]

_MOST_WEIGHTS = 2**22


class Weights(ABC):
    """The weights of a table's cells in each query."""

    @abstractmethod
    def on_grid(self, names: tuple[str, ...], labels: list[Any]) -> GridWeights:
        """Return whole-number weights of the cells, whose labels (G,) are given, in each query (q,).

        Raises
        ------
        OptionError
            If the weights do not fit the cells.
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return them as a JSON-ready mapping."""

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> GridWeights:
        """Read what `GridWeights.to_dict` wrote."""
        return GridWeights.read(stored)


@dataclass(frozen=True, eq=False)
class GivenWeights(Weights):
    """Weights as a user gives them.

    Attributes
    ----------
    given : tuple, length q
        For each query a tuple of numbers in the order of the cells, or a mapping of cell label to weight.
    """

    given: tuple[Any, ...]

    def on_grid(self, names: tuple[str, ...], labels: list[Any]) -> GridWeights:
        """See `Weights.on_grid`."""
        lines = [_by_cell(name, one, labels) for name, one in zip(names, self.given, strict=True)]
        return GridWeights(*whole_weights(np.array(lines)))

    def to_dict(self) -> dict[str, Any]:
        """Refuse: a release holds weights on their grid."""
        raise TypeError("weights are stored when the cells are known")


@dataclass(frozen=True, eq=False)
class GridWeights(Weights):
    """Weights on their public grid, as measured.

    Attributes
    ----------
    matrix : ndarray of int (q, G)
    step : float
        The weights are ``step * matrix``.
    """

    matrix: NDArray[np.int64]
    step: float

    def on_grid(self, names: tuple[str, ...], labels: list[Any]) -> GridWeights:
        """See `Weights.on_grid`."""
        if self.matrix.shape != (len(names), len(labels)):
            raise OptionError("queries", f"weights {self.matrix.shape}", f"{len(labels)} weights for each query")
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the step, and the weights of each query as a line of whole numbers."""
        return {"step": self.step, "lines": [" ".join(map(str, line)) for line in self.matrix.tolist()]}

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> GridWeights:
        """Read what `to_dict` wrote.

        Raises
        ------
        ReleaseFormatError
        """
        step, lines = stored["step"], stored["lines"]
        if type(step) not in (int, float) or not 0 < step < np.inf:
            raise ReleaseFormatError("step is not a positive number")
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            raise ReleaseFormatError("weights are not lines of whole numbers")
        rows = [[int(number) for number in line.split()] for line in lines]
        if not rows or not rows[0] or len(set(map(len, rows))) > 1:
            raise ReleaseFormatError("weights are not as many in each query")
        if any(max(map(abs, row)) > LARGEST_WEIGHT for row in rows):
            raise ReleaseFormatError(f"weights are not at most {LARGEST_WEIGHT:,} steps")
        return cls(np.array(rows, dtype=np.int64), float(step))


def query_rows(
    schema: Schema, axes: tuple[Mapping[str, Any], ...], where: str | None, names: tuple[str, ...], weights: Weights
) -> QuerySum:
    """Return the row sum of queries.

    Raises
    ------
    OptionError, SchemaError, FormulaError, UnknownColumnError
        If the weights do not fit the cells, or the columns cannot be tabulated.
    """
    found = tuple(axis_from_dict(axis, schema) for axis in axes)
    cells = _count_rows(schema, found, compiled_where(where, schema))
    labels = [cell[0] if len(cell) == 1 else cell for cell in cells.cells]
    measured = weights.on_grid(names, labels)
    return QuerySum(cells, measured.matrix, measured.step, names)


def _count_rows(schema: Schema, axes: tuple[Axis, ...], condition: Expression | None) -> CellSum:
    names = [axis.name for axis in axes]
    if not names or len(set(names)) < len(names):
        raise OptionError("columns", names, "one or more different columns")
    return CellSum(Features(basis_of([], schema), condition), axes)


def _by_cell(name: str, given: Any, labels: list[Any]) -> list[float]:
    """Weights of one query in the order of the cells."""
    shown = ", ".join(map(repr, labels[:6])) + (", ..." if len(labels) > 6 else "")
    if isinstance(given, Mapping):
        known = set(labels)
        unknown = [label for label in given if label not in known]
        if unknown:
            raise OptionError(
                "queries", f"{name}: weights of {names_of(unknown)}", f"weights by cell; the cells are {shown}"
            )
        return [float(given.get(label, 0.0)) for label in labels]
    if len(given) != len(labels):
        right = f"{len(labels)} weights, one for each cell: {shown}"
        raise OptionError("queries", f"{name}: {len(given)} weights", right)
    return list(given)


def whole_weights(weights: Array) -> tuple[NDArray[np.int64], float]:
    """Put weights on a public grid.

    Parameters
    ----------
    weights : ndarray (q, G)

    Returns
    -------
    matrix : ndarray of int (q, G)
        Whole numbers of at most `LARGEST_WEIGHT`.
    step : float
        Weights are ``step * matrix``: 1 where they are whole numbers already, otherwise the largest over
        `LARGEST_WEIGHT`.

    Raises
    ------
    OptionError
        If weights are not finite, there are too many, or a query is zero on the grid.
    """
    most = f"at most {MOST_QUERIES:,} queries of {MOST_CELLS:,} cells and {_MOST_WEIGHTS:,} weights"
    queries, cells = weights.shape
    if not (0 < queries <= MOST_QUERIES and 0 < cells <= MOST_CELLS and weights.size <= _MOST_WEIGHTS):
        raise OptionError("queries", f"{queries:,} queries of {cells:,} cells", f"one query or more, {most}")
    if not np.isfinite(weights).all():
        raise OptionError("queries", "weights that are not finite", "finite weights")
    largest = float(np.abs(weights).max())
    step = 1.0
    if largest > LARGEST_WEIGHT or (weights != np.rint(weights)).any():
        step = max(largest / LARGEST_WEIGHT, float(np.finfo(np.float64).tiny))
    matrix = np.rint(weights / step).astype(np.int64)
    if not matrix.any(axis=1).all():
        which = np.flatnonzero(~matrix.any(axis=1)).tolist()
        right = f"queries with a weight of at least {step:.3g}, a step of the common grid"
        raise OptionError("queries", f"only zeros in {which[:5]}", right)
    return matrix, step
