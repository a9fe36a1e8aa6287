"""Table Schema of the Frictionless standards, versions 1 and 2, as plain values.

Read are names, types, constraints, categories, missing values, titles and units. Other properties are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpinfer.codebooks.variables import Variable
from dpinfer.errors import SchemaError, UnknownColumnError, named
from dpinfer.schema.columns import Boolean, Category, Column, Date, Integer, Real

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpinfer.schema.declared import Kind
    from dpinfer.schema.schema import Schema

__all__ = ["described", "is_frictionless", "read"]

_KINDS: dict[str, Kind] = {
    "number": "numbers",
    "integer": "whole numbers",
    "year": "whole numbers",
    "boolean": "truth values",
    "string": "text",
    "date": "dates",
    "datetime": "dates",
}
_FORMATS = (None, "default")
_PLAIN = (str, int, float)


def is_frictionless(values: object) -> bool:
    """Whether plain values are a Table Schema, or a Data Package."""
    return isinstance(values, Mapping) and ("fields" in values or "resources" in values)


def read(values: Mapping[str, Any], table: str | None = None) -> list[Variable]:
    """Read what a Table Schema, or a table of a Data Package, says of its columns.

    Raises
    ------
    SchemaError
        If it is none, or the package has several tables and none is named.
    """
    schema = _table(values, table) if "resources" in values else values
    fields = schema.get("fields") if isinstance(schema, Mapping) else None
    if not isinstance(fields, list) or not all(
        isinstance(one, Mapping) and _is_text(one.get("name")) for one in fields
    ):
        raise SchemaError("a Table Schema has an entry 'fields': a list of fields, each with a name")
    common = schema.get("missingValues", [])
    return [_variable(one, one.get("missingValues", common)) for one in fields]


def _table(values: Mapping[str, Any], table: str | None) -> Any:
    resources = values["resources"]
    if not isinstance(resources, list) or not all(isinstance(one, Mapping) for one in resources):
        raise SchemaError("a Data Package has an entry 'resources': a list of tables")
    names = [str(one.get("name", "")) for one in resources]
    if table is not None and table not in names:
        raise UnknownColumnError(table, names, "the Data Package")
    chosen = [one for one, name in zip(resources, names, strict=True) if table in (None, name)]
    if len(chosen) != 1:
        raise SchemaError(f"the Data Package has {len(chosen)} tables; name one of them: table={names!r}")
    schema = chosen[0].get("schema")
    if not isinstance(schema, Mapping):
        raise SchemaError("the table's schema does not stand in the Data Package; read its own file")
    return schema


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _variable(field: Mapping[str, Any], missing: object) -> Variable:
    name = field["name"]
    kind = _KINDS.get(str(field.get("type", "")))
    rules = field.get("constraints", {})
    if not isinstance(rules, Mapping):
        raise SchemaError(f"{name!r}: its constraints are no mapping")
    words = {
        "missing_codes": [code for code in _values(name, "missingValues", missing) if str(code).strip()],
        **{ours: _line(field.get(theirs)) for ours, theirs in _WORDS.items()},
    }
    return Variable(name, kind, _limits(name, kind, field, rules), words, tuple(_unclear(kind, field)))


def _unclear(kind: Kind | None, field: Mapping[str, Any]) -> Iterator[str]:
    """Say in what notation cells are that are not read so."""
    if kind == "dates" and field.get("format") not in _FORMATS:
        yield "a format of dates that is not ISO 8601"
    written = field.get("decimalChar", "."), field.get("groupChar"), field.get("bareNumber", True)
    if kind in ("numbers", "whole numbers") and written != (".", None, True):
        yield "numbers with other characters than digits and a point"


_WORDS = {"label": "title", "unit": "unit", "source": "source"}


def _line(given: object) -> str:
    return " ".join(given.split()) if isinstance(given, str) else ""


def _values(name: str, entry: str, given: object) -> list[Any]:
    """Return a list of values, each alone or with a label."""
    listed = given if isinstance(given, list) else [None]
    found = [one.get("value") if isinstance(one, Mapping) else one for one in listed]
    if not all(isinstance(one, _PLAIN) for one in found):
        raise SchemaError(f"{name!r}: {entry} is no list of values")
    return found


def _limits(name: str, kind: Kind | None, field: Mapping[str, Any], rules: Mapping[str, Any]) -> dict[str, Any]:
    categories = field.get("categories")
    if categories is not None:
        codes = _levels(kind, _values(name, "categories", categories))
        labels = [one.get("label") if isinstance(one, Mapping) else None for one in categories]
        if all(isinstance(label, str) and label for label in labels):
            return {"levels": labels, "codes": codes}
        return {"levels": codes}
    if "enum" in rules:
        return {"levels": _levels(kind, _values(name, "enum", rules["enum"]))}
    if kind == "truth values" and ("trueValues" in field or "falseValues" in field):
        return {ours: _values(name, theirs, field.get(theirs, list(default))) for ours, theirs, default in _TRUTH}
    if kind in ("numbers", "whole numbers"):
        return {"lower": _number(rules.get("minimum")), "upper": _number(rules.get("maximum"))}
    return {"first": rules.get("minimum"), "last": rules.get("maximum")} if kind == "dates" else {}


_TRUTH = (
    ("true", "trueValues", ("true", "True", "TRUE", "1")),
    ("false", "falseValues", ("false", "False", "FALSE", "0")),
)


def _levels(kind: Kind | None, given: list[Any]) -> list[Any]:
    """Read levels of numbers that are written as texts."""
    return [_number(one) for one in given] if kind in ("numbers", "whole numbers") else given


def _number(given: Any) -> Any:
    """Read a number that is written as a text, as some tools do; what is none stays as it is."""
    if not isinstance(given, str):
        return given
    try:
        return int(given)
    except ValueError:
        pass
    try:
        return float(given)
    except ValueError:
        return given


def described(schema: Schema) -> dict[str, Any]:
    """Return a Table Schema of declared columns, as plain values.

    Raises
    ------
    SchemaError
        If a column cannot be described.
    """
    return {"fields": [{"name": name, **_field(name, column)} for name, column in schema.items()]}


def _field(name: str, column: Column) -> dict[str, Any]:
    words = {theirs: getattr(column, ours) for ours, theirs in _WORDS.items() if getattr(column, ours)}
    if column.missing_codes:
        words["missingValues"] = ["", *(str(code) for code in column.missing_codes)]
    return {**_body(name, column), **words}


def _body(name: str, column: Column) -> dict[str, Any]:
    if isinstance(column, Category):
        return _category(name, column)
    if isinstance(column, Boolean):
        codes = {theirs: [str(code) for code in column.codes_of(ours)] for ours, theirs, _ in _TRUTH}
        return {"type": "boolean", **{key: texts for key, texts in codes.items() if texts}}
    if isinstance(column, Date):
        kind = "datetime" if "T" in f"{column.first}{column.last}" else "date"
        return {"type": kind, "constraints": {"minimum": column.first, "maximum": column.last}}
    assert isinstance(column, Real)
    kind = "integer" if isinstance(column, Integer) else "number"
    return {"type": kind, "constraints": {"minimum": column.lower, "maximum": column.upper}}


def _category(name: str, column: Category) -> dict[str, Any]:
    if not column.codes:
        return {"type": _type_of(column.levels), "constraints": {"enum": list(column.levels)}}
    if not all(isinstance(level, str) for level in column.levels):
        raise SchemaError(f"{named(name)}: a Table Schema labels codes by texts, and its levels are none")
    pairs = zip(column.codes, column.levels, strict=True)
    return {"type": _type_of(column.codes), "categories": [{"value": code, "label": level} for code, level in pairs]}


def _type_of(values: Sequence[object]) -> str:
    kinds = {type(one) for one in values}
    return {frozenset({str}): "string", frozenset({int}): "integer", frozenset({float}): "number"}.get(
        frozenset(kinds), "any"
    )
