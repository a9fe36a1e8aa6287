"""The condition ``where`` of a question: compiled, in its text, and in notes of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpinfer.schema.columns import Category
from dpinfer.schema.expressions import Names, compile_condition

if TYPE_CHECKING:
    from dpinfer.schema.columns import Column
    from dpinfer.schema.nodes import Expression
    from dpinfer.schema.schema import Schema

__all__ = ["compiled_where", "kept_where", "quoted", "told_where", "where_notes"]


def compiled_where(where: str | None, schema: Schema) -> Expression | None:
    """Compile the condition, if there is one; errors as `compile_condition`."""
    return None if where is None else compile_condition(where, schema)


def kept_where(where: str | None, schema: Schema) -> Expression | None:
    """Compile what is true of the rows that meet a condition and have a value in every column; None if of all rows."""
    asked = [] if where is None else [f"({where})"]
    asked += [f"({_has_value(name, schema[name])})" for name in schema if schema[name].may_drop]
    return compiled_where(" & ".join(asked), schema) if asked else None


def _has_value(name: str, column: Column) -> str:
    """Return a condition that holds at every row with a value: a row without one is dropped where it is read."""
    if isinstance(column, Category):
        return f"({quoted(name)} == {column.levels[0]!r}) | ({quoted(name)} != {column.levels[0]!r})"
    return f"{quoted(name)} == {quoted(name)}"


def told_where(where: str | None) -> str:
    """Return the part of a question's text that names the condition."""
    return f", where {where}" if where else ""


def where_notes(where: str | None) -> list[str]:
    """Return the note on the rows, if there is a condition."""
    return [f"Rows: {where}."] if where else []


def quoted(name: str) -> str:
    """Return the name of a column as an expression: in backticks where it is no identifier, or a keyword."""
    names = Names()
    return names.restore(names.quote(f"`{name}`"))
