"""Linear queries of a table: the public question, and results from its releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import DPInferError, OptionError, ReleaseFormatError, names_of
from dpinfer.inference.linear_noise import METHODS, measured_queries
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.queries import LARGEST_WEIGHT, QuerySum, whole_weights
from dpinfer.release import Release, register_inference
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.schema.axes import Axis, axis_from_dict, compile_condition
from dpinfer.schema.basis import basis_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.schema.expressions import Expression
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["LinearQuestion", "count_rows", "infer_linear"]


def count_rows(schema: Schema, axes: tuple[Axis, ...], condition: Expression | None) -> CellSum:
    """Return the row function that counts rows in the cells of a table.

    Raises
    ------
    OptionError
        If there is no axis, or one twice.
    """
    names = [axis.name for axis in axes]
    if not names or len(set(names)) < len(names):
        raise OptionError("columns", names, "one or more different columns")
    return CellSum(Features(basis_of([], schema), condition), axes)


@dataclass(frozen=True, eq=False)
class LinearQuestion:
    """Which combinations of the counts of which table are asked for.

    Attributes
    ----------
    rows : QuerySum
        The table, the weights on their grid, and the queries' names.
    where : str, optional
        Rows at which it does not hold count as absent.
    """

    rows: QuerySum
    where: str | None = None

    @classmethod
    def of(
        cls,
        schema: Schema,
        *,
        axes: tuple[Mapping[str, Any], ...],
        queries: tuple[tuple[str, Any], ...],
        where: str | None,
    ) -> LinearQuestion:
        """Put a question in words of the schema.

        Parameters
        ----------
        schema : Schema
        axes : tuple of mapping
            The table, as `Axis.to_dict` writes it.
        queries : tuple of (name, weights)
            The weights a tuple of numbers in the order of the cells, or a mapping of cell label to weight.
        where : str or None

        Raises
        ------
        OptionError, SchemaError, FormulaError
            If the weights do not fit the cells, or the columns cannot be tabulated.
        """
        found = tuple(axis_from_dict(axis, schema) for axis in axes)
        cells = count_rows(schema, found, None if where is None else compile_condition(where, schema))
        labels = [cell[0] if len(cell) == 1 else cell for cell in cells.cells]
        matrix, step = whole_weights(np.array([_by_cell(name, given, labels) for name, given in queries]))
        return cls(QuerySum(cells, matrix, step, tuple(name for name, _ in queries)), where)

    @property
    def schema(self) -> Schema:
        """The schema."""
        return self.rows.cells.features.basis.schema

    @cached_property
    def text(self) -> str:
        """The question in one line."""
        axes = ", ".join(axis.name for axis in self.rows.cells.axes)
        names = self.rows.names
        listed = ", ".join(names[:5]) + (f", ... ({len(names)} in all)" if len(names) > 5 else "")
        return f"linear queries of {axes}: {listed}" + (f", where {self.where}" if self.where else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the question as a JSON-ready mapping: the weights of each query as one line of whole numbers."""
        return {
            "text": self.text,
            "axes": [dict(axis.to_dict()) for axis in self.rows.cells.axes],
            "where": self.where,
            "queries": list(self.rows.names),
            "weights": [" ".join(map(str, line)) for line in self.rows.matrix.tolist()],
            "step": self.rows.step,
            "schema": self.schema.select([name for name in self.schema if name in self.rows.columns]).to_dict(),
        }

    @classmethod
    def from_release(cls, release: Release) -> LinearQuestion:
        """Read the question of a release.

        Raises
        ------
        ReleaseFormatError
            If the question does not fit the sums that the release holds.
        """
        asked = release.question
        try:
            _check_asked(asked)
            schema, where = release.schema, asked["where"]
            axes = tuple(axis_from_dict(axis, schema) for axis in asked["axes"])
            cells = count_rows(schema, axes, None if where is None else compile_condition(where, schema))
            matrix = _read_weights(asked["weights"], cells.size)
            rows = QuerySum(cells, matrix, float(asked["step"]), tuple(asked["queries"]))
        except (KeyError, TypeError, ValueError, OverflowError, DPInferError) as error:
            raise ReleaseFormatError(f"the question of the release is damaged: {error}") from error
        if release.names != rows.names or len(rows.names) != len(matrix):
            raise ReleaseFormatError("the sums of the release are not those that its question asks for")
        return cls(rows, where)


def _by_cell(name: str, given: Any, labels: list[Any]) -> list[float]:
    """Weights of one query in the order of the cells."""
    shown = ", ".join(map(repr, labels[:6])) + (", ..." if len(labels) > 6 else "")
    if isinstance(given, Mapping):
        known = set(labels)
        unknown = [label for label in given if label not in known]
        if unknown:
            raise OptionError("W", f"{name}: weights of {names_of(unknown)}", f"weights by cell; the cells are {shown}")
        return [float(given.get(label, 0.0)) for label in labels]
    if len(given) != len(labels):
        right = f"{len(labels)} weights, one for each cell: {shown}"
        raise OptionError("W", f"{name}: {len(given)} weights", right)
    return list(given)


def _check_asked(asked: Mapping[str, Any]) -> None:
    texts = all(isinstance(asked[key], list | tuple) for key in ("axes", "queries", "weights"))
    right = {
        "axes": texts and all(isinstance(axis, Mapping) for axis in asked["axes"]),
        "where": isinstance(asked["where"], str | None),
        "queries": texts and all(isinstance(name, str) for name in asked["queries"]),
        "weights": texts and all(isinstance(line, str) for line in asked["weights"]),
        "step": isinstance(asked["step"], int | float) and 0 < asked["step"] < np.inf,
    }
    for name, holds in right.items():
        if not holds:
            raise ReleaseFormatError(f"{name} is of a wrong type")


def _read_weights(lines: list[str], cells: int) -> NDArray[np.int64]:
    rows = [[int(number) for number in line.split()] for line in lines]
    if not rows or any(len(row) != cells or max(map(abs, row)) > LARGEST_WEIGHT for row in rows):
        raise ReleaseFormatError(f"weights are not {cells} whole numbers for each query")
    return np.array(rows, dtype=np.int64)


@register_inference("linear")
def infer_linear(release: Release, *, inference: str = "auto", target: str = "data") -> DescriptionResults:
    """Infer the queries that a release of kind "linear" measured.

    Parameters
    ----------
    release : Release
    inference : {"auto", "wald"}
        Intervals and tests come from the exact law of the noise.
    target : {"data"}
        The rows themselves are what is described.

    Returns
    -------
    DescriptionResults

    Raises
    ------
    ReleaseFormatError
        If the release is damaged.
    OptionError
        If an option has no such value.
    """
    if inference not in METHODS:
        raise OptionError("inference", inference, METHODS)
    if target != "data":
        raise OptionError("target", target, ("data",))
    question = LinearQuestion.from_release(release)
    names = question.rows.names
    notes = [f"Rows: {question.where}."] if question.where else []
    if question.rows.step != 1:
        notes.append(f"Weights are those on the public grid of steps of {question.rows.step:.3g}.")
    return DescriptionResults(
        measured_queries(release.law, release.steps, names, release.array),
        release,
        model_name="Private linear queries",
        response=" x ".join(axis.name for axis in question.rows.cells.axes),
        notes=notes,
        quantity="estimate",
        index=pd.Index(list(names), name="query"),
    )
