"""The kinds of columns: `Real`, `Integer`, `Boolean`, `Category` and `Date`.

A column turns cells of any storage into floats. It never raises, warns or prints because of what a cell
holds, and the value it gives depends on that cell alone (see `dpinfer.schema.cells`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpinfer.errors import SchemaError
from dpinfer.schema.boolean import Boolean
from dpinfer.schema.category import Category
from dpinfer.schema.cells import Coded
from dpinfer.schema.column import Column, refused
from dpinfer.schema.date import Date
from dpinfer.schema.real import Integer, Real

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Boolean", "Category", "Coded", "Column", "Date", "Integer", "Real", "column_from_dict"]


def column_from_dict(declaration: Mapping[str, Any]) -> Column:
    """Read a column back from `Column.to_dict`; `SchemaError` for anything else."""
    kinds: dict[str, type[Column]] = {c.kind: c for c in (Real, Integer, Boolean, Category, Date)}
    entries = dict(declaration)
    kind = entries.pop("kind", None)
    if not isinstance(kind, str) or kind not in kinds:
        raise refused("column", "kind", kind, "one of " + ", ".join(map(repr, kinds)))
    try:
        return kinds[kind](**entries)
    except TypeError as error:
        raise SchemaError(f"the declaration of a {kind} column is incomplete or has unknown entries") from error
