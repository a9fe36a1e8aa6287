"""A stage as the kernel keeps it: rebuilt from plain values, so that what is priced is what is summed.

A procedure keeps the objects that it made, and may change their arrays and caches between the price and the rows. So
nothing of them is used: every part of a stage is checked to be of one of the kernel's own types, and is made anew.
"""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError, type_of
from dpinfer.kernel.rows.blocks import BlockMoments, Blocks, OctaveCounts, PlaceCounts
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features, RowClip
from dpinfer.kernel.rows.persons import PersonSum
from dpinfer.kernel.rows.products import GramSum
from dpinfer.kernel.rows.queries import QuerySum
from dpinfer.kernel.rows.resampled import ReplicateSum
from dpinfer.kernel.rows.scores import ScoreSum
from dpinfer.kernel.rows.tree import PointRows, TreeSum
from dpinfer.kernel.stage import Largest, Noise, Place, Resampled, Stage, Sum
from dpinfer.schema.axis_types import BinsAxis, ConditionAxis, LevelsAxis
from dpinfer.schema.columns import Boolean, Category, Integer, Real
from dpinfer.schema.expression import Expression
from dpinfer.schema.grid import UNIT, Basis, Block
from dpinfer.schema.nodes import Node
from dpinfer.schema.region import Region
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["check_columns", "sealed_blocks", "sealed_stage"]

_PLAIN = frozenset({type(None), bool, int, float, str, Fraction})

_RECORDS = frozenset(
    {Sum, Largest, Place, Resampled, Noise}
    | {CellSum, PersonSum, QuerySum, TreeSum, PointRows, GramSum, ScoreSum, ReplicateSum}
    | {OctaveCounts, PlaceCounts, BlockMoments}
    | {Features, RowClip, Basis, Block, Expression, LevelsAxis, ConditionAxis, BinsAxis, Region}
)

_COLUMNS = frozenset({Real, Integer, Boolean, Category})


def sealed_stage(stage: Stage, schema: Schema) -> Stage:
    """Return the same stage made of new parts, each of the kernel's own types.

    Parameters
    ----------
    stage : Stage
    schema : Schema
        That of the data: a stage reads its columns, as it declares them, and no others.

    Raises
    ------
    OptionError
        If a part is of another type, a column is declared differently, or a row sum would not keep its bound.
    """
    seal = _Seal(schema)
    measure = seal(stage.measure)
    check = _CHECKS.get(type(measure.rows))
    if check is not None:
        check(measure.rows)
    return Stage(measure, seal(stage.noise), dict(stage.settings))


def sealed_blocks(blocks: Blocks | None, schema: Schema) -> Blocks | None:
    """Return the same blocks made of new parts, but for the estimator.

    Raises
    ------
    OptionError
        As `sealed_stage`.
    """
    if blocks is None:
        return None
    if type(blocks) is not Blocks:
        raise OptionError("units", type(blocks).__name__, "Blocks, or None")
    seal = _Seal(schema)
    parts = {f.name: getattr(blocks, f.name) for f in fields(Blocks)}
    made = {name: part if name == "estimator" else seal(part) for name, part in parts.items()}
    if type(made["count"]) is not int or made["count"] < 1:
        raise OptionError("count", type(made["count"]).__name__, "a positive whole number of blocks")
    return Blocks(**made)


def check_columns(schema: Schema) -> None:
    """Refuse a schema, or columns, that are not the library's own: their code would see every cell.

    Raises
    ------
    OptionError
    """
    for name in schema if type(schema) is Schema else ():
        if type(schema[name]) not in _COLUMNS:
            raise OptionError(name, type(schema[name]).__name__, "Real, Integer, Boolean or Category")
    if type(schema) is not Schema:
        raise OptionError("schema", type_of(schema), "a dpinfer Schema")


class _Seal:
    """Rebuilds values, for data of one schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._known: dict[int, tuple[Schema, Schema]] = {}

    def __call__(self, value: Any) -> Any:
        """Rebuild a value and all parts of it."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind in _RECORDS:
            return kind(**{f.name: self(getattr(value, f.name)) for f in fields(kind) if f.init})
        if kind in (tuple, list):
            return tuple(self(one) for one in value)
        if kind is Schema:
            return self._columns_of(value)
        if kind in _COPIES:
            return _COPIES[kind](value)
        if issubclass(kind, np.generic) and type(value.item()) in _PLAIN:
            return value.item()
        raise OptionError("stage", kind.__name__, "parts of the kernel's own types, and plain numbers and texts")

    def _columns_of(self, schema: Schema) -> Schema:
        """Return columns of the data by the names of a schema that declares them alike."""
        if id(schema) not in self._known:
            if schema.people != self._schema.people:
                raise OptionError("schema", schema.unit, f"that of the data, whose unit is {self._schema.unit}")
            for name in schema:
                if name not in self._schema or schema[name] != self._schema[name]:
                    raise OptionError("schema", name, f"columns as the data declare them: {', '.join(self._schema)}")
            self._known[id(schema)] = schema, self._schema.select(list(schema))
        return self._known[id(schema)][1]


def _checked(node: Node) -> Node:
    """Return a tree of operations, which nobody can change, of which every part is plain."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        plain = {type(one.operation), type(one.name)} == {str} and type(one.value) in (int, float)
        if not plain or type(one.arguments) is not tuple or not all(type(part) is Node for part in one.arguments):
            raise OptionError("node", type(one.value).__name__, "an expression that was compiled from a text")
        waiting += one.arguments
    return node


def _frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy that cannot be changed."""
    if array.dtype.kind not in "biuf":
        raise OptionError("array", str(array.dtype), "numbers")
    copy = np.array(array)
    copy.setflags(write=False)
    return copy


_COPIES: dict[type, Callable[[Any], Any]] = {
    np.ndarray: _frozen,
    Node: _checked,
    dict: dict,  # with the next, the canonical form of an expression: no row meets it
    frozenset: frozenset,
}

# What the bounds of a row sum take for granted


def _check_features(features: Features) -> None:
    """Refuse features of which the first is not the constant, or whose codes are not those of their factors' levels."""
    blocks = features.basis.blocks
    if not blocks or not blocks[0].constant or blocks[0].factors:
        raise OptionError("basis", "no constant", "features of which the first is the constant 1")
    for block in blocks:
        codes, schema = block.codes, features.schema
        rows = int(np.prod([len(schema[name].level_texts) for name in block.factors], dtype=np.int64))
        right = codes.dtype == np.int64 and codes.ndim == 2 and codes.shape[0] == rows and codes.shape[1] > 0
        right = right and block.shape == tuple(len(schema[name].level_texts) for name in block.factors)
        right = right and bool((np.abs(codes) <= UNIT).all())
        if not right or not (block.factors or codes.tolist() == [[UNIT]]):
            raise OptionError("codes", type(codes).__name__, "whole numbers of the grid, a row for each level")


def _check_plain(features: Features) -> None:
    """Refuse features that lie on no curve: bounds in cells are of numeric ones that keep their size."""
    _check_features(features)
    if features.clip is not None or any(block.width != 1 or block.factors for block in features.basis.blocks):
        raise OptionError("features", "factors or row_norm=", "numeric features, without row_norm=, in cells")


def _check_cells(rows: CellSum) -> None:
    _check_plain(rows.features)
    rows.check()


def _check_queries(rows: QuerySum) -> None:
    if type(rows.cells) is not CellSum or not rows.cells.counts_only:
        raise OptionError("cells", type(rows.cells).__name__, "a table of counts")
    _check_cells(rows.cells)
    rows.check()


def _check_tree(rows: TreeSum) -> None:
    if type(rows.leaves) is not int or rows.leaves < 1 or rows.leaves & (rows.leaves - 1):
        raise OptionError("resolution", rows.leaves, "a power of two")
    rows.check()
    _check_cells(rows.cells)


def _check_points(rows: PointRows) -> None:
    if type(rows.tree) is not TreeSum:
        raise OptionError("tree", type(rows.tree).__name__, "a TreeSum")
    _check_tree(rows.tree)


def _check_replicates(rows: ReplicateSum) -> None:
    if rows.products:
        _check_features(rows.features)
    else:
        _check_plain(rows.features)
    rows.check()


_CHECKS: dict[type, Callable[[Any], None]] = {
    CellSum: _check_cells,
    PersonSum: _check_cells,
    QuerySum: _check_queries,
    TreeSum: _check_tree,
    PointRows: _check_points,
    GramSum: lambda rows: _check_features(rows.features),
    ScoreSum: lambda rows: rows.check(),
    ReplicateSum: _check_replicates,
}
