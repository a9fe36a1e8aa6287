"""The condition ``where`` of a question: compiled, in its text, and in notes of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpinfer.schema.axes import compile_condition

if TYPE_CHECKING:
    from dpinfer.schema.expressions import Expression
    from dpinfer.schema.schema import Schema

__all__ = ["compiled_where", "quoted", "told_where", "where_notes"]


def compiled_where(where: str | None, schema: Schema) -> Expression | None:
    """Compile the condition, if there is one; errors as `compile_condition`."""
    return None if where is None else compile_condition(where, schema)


def told_where(where: str | None) -> str:
    """Return the part of a question's text that names the condition."""
    return f", where {where}" if where else ""


def where_notes(where: str | None) -> list[str]:
    """Return the note on the rows, if there is a condition."""
    return [f"Rows: {where}."] if where else []


def quoted(name: str) -> str:
    """Return the name of a column as an expression."""
    return name if name.isidentifier() else f"`{name}`"
