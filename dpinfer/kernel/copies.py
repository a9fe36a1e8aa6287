"""A stage as the kernel keeps it: rebuilt from plain values, so that what is priced is what is summed.

A procedure keeps the objects that it made, and may fill an array anew between the price and the rows. So nothing of
them is used: every part of a stage is checked to be of one of the kernel's own types, and is made anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError, type_of
from dpinfer.kernel.rows.blocks import BlockMoments, Blocks, OctaveCounts, PlaceCounts
from dpinfer.kernel.rows.cells import CellSum, PersonSum, QuerySum
from dpinfer.kernel.rows.features import Features, RowClip
from dpinfer.kernel.rows.iterations import Bins, Interpolant, RoundCounts, RoundFrame, RoundSum, Term
from dpinfer.kernel.rows.marginals import ClassCounts, MarginalSum, OctaveRows
from dpinfer.kernel.rows.products import GramSum, ReplicateSum
from dpinfer.kernel.rows.scores import ScoreSum
from dpinfer.kernel.rows.tree import PointRows, TreeSum
from dpinfer.kernel.stage import Above, Largest, Noise, Place, Resampled, Stage, Sum
from dpinfer.schema.axes import BinsAxis, ConditionAxis, LevelsAxis, MirroredAxis
from dpinfer.schema.columns import Boolean, Category, Date, Integer, Real
from dpinfer.schema.grid import Basis, Block, Curve
from dpinfer.schema.nodes import ARGUMENTS, Expression, Node
from dpinfer.schema.region import Region
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable

    Known = dict[int, tuple[Schema, Schema]]
    """Schemas that were met, by their identity, and the columns of the data that stand for them."""

_PLAIN = frozenset({type(None), bool, int, float, str, Fraction})

_RECORDS = frozenset(
    {Sum, Largest, Above, Place, Resampled, Noise, Blocks, OctaveCounts, PlaceCounts, BlockMoments}
    | {CellSum, PersonSum, QuerySum, TreeSum, PointRows, GramSum, ScoreSum, ReplicateSum}
    | {ClassCounts, OctaveRows, MarginalSum, RoundSum, RoundCounts, RoundFrame, Term, Bins, Interpolant}
    | {Features, RowClip, Basis, Block, Curve, Expression, Node, Region}
    | {LevelsAxis, ConditionAxis, BinsAxis, MirroredAxis}
)

_ARRAYS = ("Array", "Ints", "NDArray[np.int64]")
"""Types of the fields that hold an array; elsewhere one could tell rows apart by their place."""


def own_stage(stage: Stage, schema: Schema) -> Stage:
    """Return the same stage made of new parts, each of the kernel's own types.

    A stage reads columns of the data's schema, as it declares them, and no others. Refused is a part of another type, a
    column declared differently, and settings that a release would not keep as they are.
    """
    settings = stage.settings
    try:
        given = dict(settings) if isinstance(settings, Mapping) else None
        stored = json.loads(json.dumps(given, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        given, stored = None, None
    if not isinstance(stored, dict) or stored != given:
        raise OptionError("settings", type_of(settings), "a mapping that JSON keeps as it is: lists, not tuples")
    known: Known = {}
    try:
        return Stage(_copied(stage.measure, schema, known), _copied(stage.noise, schema, known), stored)
    except RecursionError:
        raise OptionError("stage", "an expression of too many parts", "a shorter one") from None


def own_blocks(blocks: Blocks | None, schema: Schema) -> Blocks | None:
    """Return the same blocks made of new parts, but for the estimator; refuse as `own_stage` does."""
    if blocks is None:
        return None
    if type(blocks) is not Blocks:
        raise OptionError("units", type_of(blocks), "Blocks, or None")
    made: Blocks = _record(blocks, schema, {})
    made.check()
    return made


def check_columns(schema: Schema) -> None:
    """Refuse a schema, or columns, that are not the library's own: their code would see every cell."""
    if type(schema) is not Schema:
        raise OptionError("schema", type_of(schema), "a dpinfer Schema")
    for name in schema:
        if type(schema[name]) not in (Real, Integer, Boolean, Category, Date):
            raise OptionError(name, type_of(schema[name]), "Real, Integer, Boolean, Category or Date")


def _copied(value: Any, schema: Schema, known: Known) -> Any:  # noqa: PLR0911  (a return for each kind)
    """Rebuild a value and all parts of it, for data of one schema."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind in (tuple, list):
        return tuple(_copied(one, schema, known) for one in value)
    if kind in _RECORDS:
        return _record(value, schema, known)
    if kind is Schema:
        return _columns_of(value, schema, known)
    if kind is np.ndarray and value.dtype.kind in "biuf":
        array = np.array(value)
        array.setflags(write=False)
        return array
    if kind in (dict, frozenset):  # the canonical form of an expression: no row meets it
        return kind(value)
    if issubclass(kind, np.generic):
        return _copied(value.item(), schema, known)
    if kind is np.ndarray:
        raise OptionError("array", str(value.dtype), "numbers")
    raise OptionError("stage", kind.__name__, "parts of the kernel's own types, and plain numbers and texts")


def _record(value: Any, schema: Schema, known: Known) -> Any:
    """Rebuild a record: with arrays only where it holds them, and with what is demanded of it."""
    kind, parts = type(value), {}
    for f in fields(value):
        part = getattr(value, f.name)
        parts[f.name] = part if f.name == "estimator" else _copied(part, schema, known)
        if isinstance(parts[f.name], np.ndarray) and f.type not in _ARRAYS:
            raise OptionError(f.name, "array", "a plain number, text or part of the kernel's own types")
    made = kind(**parts)
    _CHECKS.get(kind, lambda _: None)(made)
    return made


def _columns_of(other: Schema, schema: Schema, known: Known) -> Schema:
    """Return columns of the data by the names of a schema that declares them alike."""
    if id(other) not in known:
        if other.people != schema.people:
            raise OptionError("schema", other.unit, f"that of the data, whose unit is {schema.unit}")
        for name in other:
            if name not in schema or (other[name] is not schema[name] and other[name] != schema[name]):
                raise OptionError("schema", name, f"columns as the data declare them: {', '.join(schema)}")
        known[id(other)] = other, schema.select(list(other))
    return known[id(other)][1]


# What the bounds of a row sum take for granted of its parts


def _check_node(node: Node) -> None:
    """Refuse an operation without the arguments that it takes: one more is where numpy would write its result."""
    right = type(node.operation) is str and type(node.name) is str and type(node.value) in (int, float)
    right = right and type(node.arguments) is tuple and all(type(part) is Node for part in node.arguments)
    if not right or ARGUMENTS.get(node.operation) != len(node.arguments):
        raise OptionError("node", type_of(node.value), "an expression that was compiled from a text")


def _check_expression(expression: Expression) -> None:
    """Refuse bounds that are none, and columns other than those that the tree reads."""
    ends = expression.lower, expression.upper
    if not all(type(end) in (int, float) for end in ends) or not -np.inf < ends[0] <= ends[1] < np.inf:
        raise OptionError("expression", expression.text, "finite bounds in order")
    read, waiting = set[str](), [expression.node]
    while waiting:
        node = waiting.pop()
        waiting += node.arguments
        read |= {node.name} if node.operation in ("column", "level") else set()
    if type(expression.boolean) is not bool or {*expression.columns} != read:
        raise OptionError("expression", expression.text, "the columns that it reads, and whether it is 0 or 1")


def _check_block(block: Block) -> None:
    """Refuse a numeric part whose scale would turn its bounds round."""
    if not all(type(one) in (int, float) and np.isfinite(one) for one in (block.center, block.half)) or block.half <= 0:
        raise OptionError("block", type_of(block.half), "a finite centre and a positive half width")


_CHECKS: dict[type, Callable[[Any], None]] = {
    Node: _check_node,
    Expression: _check_expression,
    Block: _check_block,
}
