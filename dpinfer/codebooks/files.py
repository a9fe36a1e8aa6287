"""Files of codebooks: reading and writing by the kind of file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpinfer.codebooks import ddi, frictionless, headers
from dpinfer.codebooks.variables import Variable, schema_of
from dpinfer.errors import OptionError, SchemaError, type_of
from dpinfer.schema.schema import Schema, read_yaml, write_yaml
from dpinfer.writing import write_whole

if TYPE_CHECKING:
    from dpinfer.schema.columns import Column

__all__ = ["described_columns", "path_of", "read_codebook", "write_codebook"]

_VALUES = (".json", ".yaml", ".yml")
_READ = ".json, .yaml, .yml (Table Schema), .xml (DDI), .dta, .sav or .zsav (headers of Stata and SPSS)"


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
    file = path_of(path)
    if not isinstance(source, str):
        raise OptionError("source", type_of(source), "where the codebook was published, as a text")
    found = described_columns(file, trusted=bool(source), table=table)
    if isinstance(found, Schema):
        schema = _chosen(found, columns, declare)
    else:
        schema = schema_of(found, columns=columns, declare=declare)
    unsourced = {name: column for name, column in schema.items() if source and not column.source}
    return (
        schema.replace({name: replace(one, source=source) for name, one in unsourced.items()}) if unsourced else schema
    )


def _chosen(schema: Schema, columns: Iterable[str] | None, declare: Mapping[str, Column] | None) -> Schema:
    changed = schema.replace(declare) if declare else schema
    return changed if columns is None else changed.select(columns)


def path_of(path: object) -> Path:
    """Check a path; `OptionError` if it is none."""
    if not isinstance(path, str | os.PathLike):
        raise OptionError("path", type_of(path), f"the path of a codebook: {_READ}")
    return Path(path)


def described_columns(path: Path, *, trusted: bool, table: str | None = None) -> list[Variable] | Schema:
    """Read what a file says of columns: a schema, where it was written by one."""
    suffix = path.suffix.lower()
    if table is not None and suffix not in _VALUES:
        raise OptionError("table", table, f"nothing: {path.name!r} is no Data Package")
    if suffix not in (*_VALUES, ".xml", *headers.SUFFIXES):
        raise OptionError("path", path.name, f"a file that ends in {_READ}")
    if not path.is_file():
        raise SchemaError(f"there is no file {path.name!r}")
    if suffix in headers.SUFFIXES:
        return headers.read(path)
    if suffix == ".xml":
        return ddi.read(path.read_bytes(), trusted=trusted)
    values = _values(path)
    if table is not None and not (isinstance(values, Mapping) and "resources" in values):
        raise OptionError("table", table, f"nothing: {path.name!r} is no Data Package of several tables")
    if frictionless.is_frictionless(values):
        return frictionless.read(values, table)
    if isinstance(values, Mapping) and "columns" in values:
        return Schema.from_dict(values)
    raise SchemaError(f"{path.name!r} is no codebook: expected a Table Schema, a Data Package or a dpinfer schema")


def _values(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8-sig")
        return json.loads(text) if path.suffix.lower() == ".json" else read_yaml(text)
    except UnicodeDecodeError:
        problem = "it is not text in UTF-8"
    except (ValueError, RecursionError) as error:
        problem = f"it is not JSON, at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else str(error)
    raise SchemaError(f"{path.name!r} cannot be read: {problem}")


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
    if not isinstance(schema, Schema):
        raise OptionError("schema", type_of(schema), "a dpinfer Schema")
    file = path_of(path)
    suffix = file.suffix.lower()
    if suffix not in (*_VALUES, ".xml"):
        raise OptionError("path", file.name, "a file that ends in .json, .yaml, .yml (Table Schema) or .xml (DDI)")
    _refuse_policies(schema)
    if suffix == ".xml":
        content = ddi.described(schema)
        read = ddi.read(content, trusted=True)
    else:
        text = json.dumps(frictionless.described(schema), indent=1, ensure_ascii=False) + "\n"
        text = text if suffix == ".json" else write_yaml(frictionless.described(schema))
        content = text.encode("utf-8", "surrogatepass")
        read = frictionless.read(json.loads(text) if suffix == ".json" else read_yaml(text))
    _refuse_losses(schema, read)
    write_whole(file, content)


def _refuse_policies(schema: Schema) -> None:
    if schema.people is not None:
        raise SchemaError("codebooks do not hold whose rows are protected together: write schema.to_yaml()")
    for name, column in schema.items():
        if (column.missing, column.impossible) != ("drop", "drop"):
            raise SchemaError(f"{name!r}: codebooks hold no constants for missing cells: write schema.to_yaml()")


def _refuse_losses(schema: Schema, read: list[Variable]) -> None:
    """Refuse columns that would be read back otherwise, each by its name."""
    found = {one.name: one for one in read}
    for name, column in schema.items():
        back = found.get(name)
        if back is None or back.blanks or back.column() != column:
            raise SchemaError(f"{name!r}: the codebook would not hold it as it is declared: write schema.to_yaml()")
