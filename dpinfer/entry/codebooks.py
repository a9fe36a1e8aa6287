"""Codebooks: declarations from files that describe data, and back; and drafts to fill in. No row is read."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from dpinfer.checks import PATH, of_type
from dpinfer.entry import formats
from dpinfer.entry.formats import HEADERS, Variable
from dpinfer.errors import OptionError, SchemaError, UnknownColumnError, cut
from dpinfer.schema.declared import kind_of_type
from dpinfer.schema.schema import Schema, read_yaml, write_yaml
from dpinfer.writing import write_whole

if TYPE_CHECKING:
    import os

    from dpinfer.schema.columns import Column

__all__ = ["declared_types", "described_columns", "draft", "read_codebook", "write_codebook"]

_VALUES = (".json", ".yaml", ".yml")
_CODEBOOKS = (*_VALUES, ".xml", *HEADERS)
_READ = ".json, .yaml, .yml (Table Schema), .xml (DDI), .dta, .sav or .zsav (headers of Stata and SPSS)"
_TYPED = (".parquet", ".feather", ".arrow")
_TEXTS = {".csv": ",;\t|", ".tsv": "\t"}
"""Delimiters."""

_KINDS = {"numbers": "real", "whole numbers": "integer", "truth values": "boolean", "text": "category", "dates": "date"}
"""Of declarations, for kinds of declared types."""

_LONGEST_LINE = 2**20

_HEAD = """\
# Draft of a schema: fill in the blanks, and delete the columns that are not needed.
# Bounds, levels and codes come from what is public, such as a questionnaire, and never from the rows.
# kinds: real, integer (lower, upper); boolean (true, false); category (levels, codes); date (first, last)
# Read it with dpinfer.Schema.from_yaml(text) or dpinfer.read_codebook(path).
columns:
"""


def read_codebook(
    path: str | os.PathLike[str],
    *,
    columns: Iterable[str] | None = None,
    declare: Mapping[str, Column] | None = None,
    source: str = "",
    table: str | None = None,
) -> Schema:
    """Read the schema that a codebook declares, without reading any row.

    Parameters
    ----------
    path : path-like
        By its suffix: a Table Schema or Data Package of the Frictionless standards, or what `Schema.to_json` or
        `Schema.to_yaml` wrote (``.json``, ``.yaml``); a DDI codebook (``.xml``); the header of a Stata or SPSS file
        (``.dta``, ``.sav``, ``.zsav``; needs the extra ``stata``).
    columns : list of str, optional
        The columns to read; all by default.
    declare : mapping of str to Column, optional
        Declarations of columns of which the codebook leaves something blank, or says it otherwise. They keep its
        labels, units and missing codes where they have none.
    source : str, optional
        Where the codebook was published. Columns without a source of their own keep it, and releases record it. Ranges
        in DDI files of others are read only with it, for they are often those of the rows.
    table : str, optional
        The table of a Data Package that has several.

    Returns
    -------
    Schema

    Raises
    ------
    SchemaError
        If the file cannot be read, is no codebook, or leaves something blank: the message names the columns.
    UnknownColumnError
        If a name is not in the codebook.
    OptionError
        If the suffix is another one, or an option has no such value.

    Notes
    -----
    A codebook is public knowledge only if it was written without the rows. Value labels and ranges that a tool took
    from the rows are data; dpinfer cannot tell.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> fields = [{"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}, "title": "Age"}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "survey.json")
    ...     _ = path.write_text(json.dumps({"fields": fields}))
    ...     read_codebook(path)
    Schema of 1 column
      age  Integer  [0, 99]  missing: drop  impossible: drop
    """
    file = _path(path)
    of_type(str, "source", source, "where the codebook was published, as a text", hidden=True)
    found = described_columns(file, trusted=bool(source), table=table)
    if isinstance(found, Schema):
        schema = found.replace(declare) if declare else found
        schema = schema if columns is None else schema.select(columns)
    else:
        schema = _schema_of(found, columns, declare)
    return schema.replace({name: replace(column, source=column.source or source) for name, column in schema.items()})


def _schema_of(
    variables: Sequence[Variable], columns: Iterable[str] | None, declare: Mapping[str, Column] | None
) -> Schema:
    """Make a schema of what a codebook says, and of what is declared beside it."""
    known = {one.name: one for one in variables}
    if len(known) < len(variables):
        raise SchemaError("the codebook describes two columns of one name")
    given = dict(Schema(declare)) if declare else {}
    if isinstance(columns, str):
        raise OptionError("columns", columns, f"a list of names, such as [{columns!r}]")
    chosen = list(known) if columns is None else list(columns)
    for name in (*chosen, *given):
        if name not in known:
            raise UnknownColumnError(name, known, "the codebook")
    left = [f"{name}: {', '.join(known[name].blanks)}" for name in chosen if name not in given and known[name].blanks]
    if left:
        raise SchemaError(
            f"the codebook leaves blank {cut('; '.join(left))}. Declare what is public knowledge, declare={{name: "
            "Real(lower, upper)}, or choose other columns=[...]"
        )
    return Schema({name: known[name].column(given.get(name)) for name in chosen})


def write_codebook(schema: Schema, path: str | os.PathLike[str]) -> None:
    """Write a schema as a codebook that other programs read.

    Parameters
    ----------
    schema : Schema
    path : path-like
        By its suffix: a Table Schema (``.json``, ``.yaml``) or a DDI codebook (``.xml``). A file that is there is
        replaced, whole or not at all.

    Raises
    ------
    SchemaError
        If the format cannot hold a column as it is declared, such as a constant for missing cells; the message names
        it. `Schema.to_yaml` holds all.
    OptionError
        If the suffix is another one, or ``schema`` is no schema.
    OSError
        If nothing can be written there.

    Examples
    --------
    >>> import tempfile
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Integer(0, 100, label="Age"), married=dpi.Boolean())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dpi.write_codebook(schema, f"{folder}/codebook.json")
    ...     dpi.read_codebook(f"{folder}/codebook.json") == schema
    True
    """
    of_type(Schema, "schema", schema, "a dpinfer Schema", hidden=True)
    file = _path(path)
    suffix = file.suffix.lower()
    if suffix not in (*_VALUES, ".xml"):
        raise OptionError("path", file.name, "a file that ends in .json, .yaml, .yml (Table Schema) or .xml (DDI)")
    instead = "write schema.to_yaml()"
    if schema.people is not None:
        raise SchemaError(f"codebooks do not hold whose rows are protected together: {instead}")
    for name, column in schema.items():
        if (column.missing, column.impossible) != ("drop", "drop"):
            raise SchemaError(f"{name!r}: codebooks hold no constants for missing cells: {instead}")
    if suffix == ".xml":
        content = formats.ddi_of(schema)
        read = formats.read_ddi(content, trusted=True)
    else:
        values = formats.table_schema_of(schema)
        text = write_yaml(values) if suffix != ".json" else json.dumps(values, indent=1, ensure_ascii=False) + "\n"
        content = text.encode("utf-8", "surrogatepass")
        read = formats.read_table_schema(json.loads(text) if suffix == ".json" else read_yaml(text))
    back = {one.name: one for one in read}
    for name, column in schema.items():
        if name not in back or back[name].blanks or back[name].column() != column:
            raise SchemaError(f"{name!r}: the codebook would not hold it as it is declared: {instead}")
    write_whole(file, content)


def _path(path: object) -> Path:
    return Path(of_type(PATH, "path", path, f"the path of a codebook: {_READ}", hidden=True))


def _suffix(path: Path, option: str, known: Sequence[str], expected: str = "") -> str:
    """Return the suffix of a file that is there; refuse another suffix as an option of this name."""
    suffix = path.suffix.lower()
    if suffix not in known:
        raise OptionError(option, path.name, f"a file that ends in {expected or 'one of ' + ', '.join(known)}")
    if not path.is_file():
        raise SchemaError(f"there is no file {path.name!r}")
    return suffix


def described_columns(path: Path, *, trusted: bool, table: str | None = None) -> list[Variable] | Schema:
    """Read what a codebook says of columns: a schema, where it was written by one.

    Only `trusted` ranges of DDI files of others are taken as declared ones.
    """
    if table is not None and path.suffix.lower() not in _VALUES:
        raise OptionError("table", table, f"nothing: {path.name!r} is no Data Package")
    suffix = _suffix(path, "path", _CODEBOOKS, _READ)
    if suffix in HEADERS:
        return formats.read_header(path)
    if suffix == ".xml":
        return formats.read_ddi(path.read_bytes(), trusted=trusted)
    problem: str | None = None
    try:
        text = path.read_text(encoding="utf-8-sig")
        values = json.loads(text) if suffix == ".json" else read_yaml(text)
    except UnicodeDecodeError:
        problem = "it is not text in UTF-8"
    except (ValueError, RecursionError) as error:
        problem = f"it is not JSON, at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else str(error)
    if problem is not None:
        raise SchemaError(f"{path.name!r} cannot be read: {problem}")
    entries = values if isinstance(values, Mapping) else {}
    if table is not None and "resources" not in entries:
        raise OptionError("table", table, f"nothing: {path.name!r} is no Data Package of several tables")
    if "fields" in entries or "resources" in entries:
        return formats.read_table_schema(entries, table)
    if "columns" in entries:
        return Schema.from_dict(entries)
    raise SchemaError(f"{path.name!r} is no codebook: expected a Table Schema, a Data Package or a dpinfer schema")


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
    variables: list[Variable] = []
    if suffix in _CODEBOOKS:
        found = described_columns(path, trusted=False)
        if isinstance(found, Schema):
            found = [Variable(name, one.kind, one.to_dict()) for name, one in found.items()]
        variables = found
    elif _suffix(path, "file", (*_TEXTS, *_TYPED, *_CODEBOOKS)) in _TEXTS:
        variables = [Variable(name, None) for name in _header_line(path, _TEXTS[suffix])]
    else:
        for one in declared_types(path):
            kind = None
            with suppress(OptionError):  # a type that does not tell
                kind = _KINDS.get(kind_of_type(one.name, one.type) or "") if types else None
            variables.append(Variable(one.name, kind))
    if not variables:
        raise SchemaError(f"{path.name!r} has no columns")
    text = _HEAD
    for one in variables:
        lines = [f"{name}: {_written(name, value)}".rstrip() for name, value in one.entry.items()]
        text += "- " + "\n  ".join([*lines, *(f"# unclear: {question}" for question in one.unclear)]) + "\n"
    return text


def _written(name: str, value: object) -> str:
    """Write a value as YAML: as JSON, with nothing where it is blank."""
    if value is None or name == "kind":
        return str(value or "")
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)


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
    return next(csv.reader([text], delimiter=max(delimiters, key=text.count)))


def declared_types(path: Path) -> pa.Schema:
    """Return the types of a Parquet or Arrow file, for those who know that they were fixed before the rows came.

    Raises
    ------
    SchemaError
        If the file cannot be read.
    OptionError
        If its suffix is another one.
    """
    suffix = _suffix(path, "table", _TYPED)
    try:
        if suffix == ".parquet":
            return pq.read_schema(path)
        with pa.ipc.open_file(str(path)) as reader:
            return reader.schema
    except Exception:  # its messages may quote the file
        pass
    raise SchemaError(f"{path.name!r} cannot be read as a table of Arrow")
