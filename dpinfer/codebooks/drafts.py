"""Drafts of schemas: names and declared types of a file, with blanks for what has to be public knowledge."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from dpinfer.codebooks import headers
from dpinfer.codebooks.files import described_columns
from dpinfer.codebooks.variables import Variable
from dpinfer.errors import OptionError, SchemaError
from dpinfer.schema.declared import kind_of_type
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    from pathlib import Path

    from dpinfer.schema.declared import Kind

__all__ = ["declared_types", "draft"]

_TYPED = (".parquet", ".feather", ".arrow")
_TEXTS = {".csv": ",;\t|", ".tsv": "\t"}
_CODEBOOKS = (".json", ".yaml", ".yml", ".xml", *headers.SUFFIXES)
_LONGEST_LINE = 2**20
_KIND_NAMES: dict[str, str] = {
    "numbers": "real",
    "whole numbers": "integer",
    "truth values": "boolean",
    "text": "category",
    "dates": "date",
}
_BLANK: dict[str, tuple[str, ...]] = {
    "real": ("lower", "upper"),
    "integer": ("lower", "upper"),
    "date": ("first", "last"),
    "category": ("levels",),
}
_UNCLEAR = "unclear"

_HEAD = """\
# Draft of a schema: fill in the blanks, and delete the columns that are not needed.
# Bounds, levels and codes come from what is public, such as a questionnaire, and never from the rows.
# kinds: real, integer (lower, upper); boolean (true, false); category (levels, codes); date (first, last)
# Read it with dpinfer.Schema.from_yaml(text) or dpinfer.read_codebook(path).
"""


def draft(path: Path, *, types: str | None = None) -> str:
    """Return a draft of the schema of a file, as YAML.

    Parameters
    ----------
    path : Path
        A table (``.csv`` or ``.tsv``, of which the first line is read; ``.parquet``, ``.feather``, ``.arrow``), the
        header of a Stata or SPSS file, or a codebook.
    types : "declared", optional
        That the types of a Parquet or Arrow file were fixed before the rows came, as those of a database are. By
        default they stay blank, for one row can change them.

    Returns
    -------
    str
        Names and declared types, and blanks for the rest. Nothing depends on a row.

    Raises
    ------
    SchemaError
        If the file cannot be read.
    OptionError
        If its suffix is another one, or ``types`` has no such value.
    """
    if types not in (None, "declared"):
        raise OptionError("types", types, '"declared", or nothing')
    suffix = path.suffix.lower()
    if suffix in _CODEBOOKS:
        found = described_columns(path, trusted=False)
        entries = _declared(found) if isinstance(found, Schema) else [_entry(one) for one in found]
    else:
        entries = [_entry(Variable(name, kind, {}, {})) for name, kind in _columns(path, types)]
    if not entries:
        raise SchemaError(f"{path.name!r} has no columns")
    return _HEAD + "columns:\n" + "".join(_written(one) for one in entries)


def declared_types(path: Path) -> pa.Schema:
    """Return the types of a Parquet or Arrow file, for those who know that they were fixed before the rows came.

    Raises
    ------
    SchemaError
        If the file cannot be read.
    OptionError
        If its suffix is another one.
    """
    if path.suffix.lower() not in _TYPED:
        raise OptionError("table", path.name, f"a file that ends in one of {', '.join(_TYPED)}")
    if not path.is_file():
        raise SchemaError(f"there is no file {path.name!r}")
    return _arrow_schema(path)


def _declared(schema: Schema) -> list[dict[str, Any]]:
    return [dict(one) for one in schema.to_dict()["columns"]]


def _columns(path: Path, types: str | None) -> list[tuple[str, Kind | None]]:
    suffix = path.suffix.lower()
    if suffix not in (*_TEXTS, *_TYPED):
        known = ", ".join((*_TEXTS, *_TYPED, *_CODEBOOKS))
        raise OptionError("file", path.name, f"a file that ends in one of {known}")
    if not path.is_file():
        raise SchemaError(f"there is no file {path.name!r}")
    if suffix in _TEXTS:
        return [(name, None) for name in _header_line(path, _TEXTS[suffix])]
    schema = _arrow_schema(path)
    return [(one.name, _kind(one.name, one.type) if types == "declared" else None) for one in schema]


def _header_line(path: Path, delimiters: str) -> list[str]:
    """Names in the first line; nothing of what follows is looked at."""
    with path.open("rb") as file:
        line = file.readline(_LONGEST_LINE)
    try:
        text = line.decode("utf-8-sig").strip("\r\n")
    except UnicodeDecodeError:
        text = ""
    if not text.strip():
        raise SchemaError(f"the first line of {path.name!r} holds no names of columns in UTF-8")
    delimiter = max(delimiters, key=text.count)
    return next(csv.reader([text], delimiter=delimiter))


def _arrow_schema(path: Path) -> pa.Schema:
    try:
        if path.suffix.lower() == ".parquet":
            return pq.read_schema(path)
        with pa.ipc.open_file(str(path)) as reader:
            return reader.schema
    except Exception:  # its messages may quote the file
        pass
    raise SchemaError(f"{path.name!r} cannot be read as a table of Arrow")


def _kind(name: str, declared: pa.DataType) -> Kind | None:
    try:
        return kind_of_type(name, declared)
    except OptionError:
        return None


def _entry(variable: Variable) -> dict[str, Any]:
    """Return an entry of a schema, with None where something has to be filled in."""
    kind = "category" if variable.levels else _KIND_NAMES.get(variable.kind or "")
    blank = {"kind": kind, **dict.fromkeys(_BLANK.get(kind or "", ()))}
    words = {name: value for name, value in variable.words.items() if value}
    return {"name": variable.name, **blank, **variable.limits, **words, _UNCLEAR: variable.unclear}


def _written(entry: dict[str, Any]) -> str:
    """Write an entry as YAML: JSON's values, with nothing where one is blank."""
    lines = [f"{name}: {_value(name, value)}".rstrip() for name, value in entry.items() if name != _UNCLEAR]
    return "- " + "\n  ".join([*lines, *(f"# unclear: {one}" for one in entry.get(_UNCLEAR, ()))]) + "\n"


def _value(name: str, value: object) -> str:
    if value is None or name == "kind":
        return str(value or "")
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)
