"""Axes of a table from texts: public partitions of rows into cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpinfer.errors import FormulaError, OptionError
from dpinfer.schema.axis_types import Axis, BinsAxis, ConditionAxis, LevelsAxis, MirroredAxis
from dpinfer.schema.expressions import Expression, compile_expression

if TYPE_CHECKING:
    from dpinfer.schema.schema import Schema

__all__ = [
    "Axis",
    "BinsAxis",
    "ConditionAxis",
    "LevelsAxis",
    "MirroredAxis",
    "axis_from_dict",
    "axis_to_dict",
    "compile_condition",
    "condition_axis",
    "cuts_of",
    "part_in_words",
]


def condition_axis(text: str, schema: Schema) -> ConditionAxis:
    """Split rows by whether a condition holds.

    Raises
    ------
    OptionError, FormulaError, UnknownColumnError
        As `compile_condition`.
    """
    return ConditionAxis(schema, text, compile_condition(text, schema))


def compile_condition(text: str, schema: Schema) -> Expression:
    """Compile a condition on declared columns.

    Raises
    ------
    OptionError
        If it is no text.
    FormulaError, UnknownColumnError
        If it is no condition, or names unknown columns.
    """
    if not isinstance(text, str):
        raise OptionError("where", text, 'a condition such as "age >= 18", or None')
    condition = compile_expression(text, schema)
    if not condition.boolean or condition.constant is not None:
        raise FormulaError(text, "is not a condition on columns", 'write a comparison, such as "age >= 18"')
    return condition


def axis_to_dict(axis: Axis) -> dict[str, Any]:
    """Return an axis as a JSON-ready mapping."""
    if isinstance(axis, ConditionAxis):
        return {"condition": axis.name}
    if isinstance(axis, MirroredAxis):
        return {"mirrored": axis.name, "edges": list(axis.edges)}
    return {"column": axis.name, **({"edges": list(axis.edges)} if isinstance(axis, BinsAxis) else {})}


def cuts_of(axis: Axis) -> tuple[float, ...]:
    """Return the values of its column at which the part changes; none where the parts are no intervals."""
    return axis.edges if isinstance(axis, BinsAxis) else ()


def part_in_words(axis: Axis, place: int) -> str:
    """Return what is true of the rows in a part."""
    told = isinstance(axis, ConditionAxis | MirroredAxis)
    return f"{axis.name}={axis.labels[place]}" if told else str(axis.labels[place])


def axis_from_dict(stored: Mapping[str, Any], schema: Schema) -> Axis:
    """Read what `axis_to_dict` wrote.

    Raises
    ------
    KeyError, TypeError, SchemaError, OptionError
        If it is damaged.
    """
    if "condition" in stored:
        return condition_axis(stored["condition"], schema)
    if "edges" in stored:
        if not isinstance(stored["edges"], Sequence):
            raise TypeError("edges")
        edges = tuple(float(edge) for edge in stored["edges"])
        if "mirrored" not in stored:
            return BinsAxis(schema, stored["column"], edges)
        text = stored["mirrored"]
        return MirroredAxis(schema, text, compile_expression(text, schema), edges)
    return LevelsAxis(schema, stored["column"])
