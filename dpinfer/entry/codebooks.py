"""Codebooks, read as and written from schemas, and drafts to complete; no row is read."""

from __future__ import annotations

import csv
import json
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

import pyarrow as pa
import pyarrow.parquet as pq

from dpinfer.checks import PATH, are_texts, of_type
from dpinfer.errors import OptionError, SchemaError, UnknownColumnError, cut, named
from dpinfer.schema.columns import Boolean, Category, Column, Date, Real, column_from_dict
from dpinfer.schema.declared import kind_of_type
from dpinfer.schema.schema import Schema, read_yaml, write_yaml
from dpinfer.writing import write_whole

if TYPE_CHECKING:
    import os

    from dpinfer.schema.columns import Column

__all__ = [
    "HEADERS", "Variable", "ddi_of", "declared_types", "described_columns", "draft", "read_codebook", "read_ddi",
    "read_header", "read_table_schema", "table_schema_of", "write_codebook",
]  # fmt: skip

_VALUES = (".json", ".yaml", ".yml")
HEADERS = (".dta", ".sav", ".zsav")
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
        Its suffix sets the format: a Table Schema or Data Package of the Frictionless standards, or the output of
        `Schema.to_json` or `Schema.to_yaml` (``.json``, ``.yaml``); a DDI codebook (``.xml``); or the header of a Stata
        or SPSS file (``.dta``, ``.sav``, ``.zsav``; needs the extra ``stata``).
    columns : list of str, optional
        The columns to read; all by default.
    declare : mapping of str to Column, optional
        Declarations of columns that complete or replace those of the codebook. They keep its labels, units and missing
        codes unless they set their own.
    source : str, optional
        Where the codebook was published. Columns without a source of their own get it, and releases record it. Ranges
        in DDI files by other programs are read only with it, since they are often those of the rows.
    table : str, optional
        The table of a Data Package that has several.

    Returns
    -------
    Schema

    Raises
    ------
    SchemaError
        If the file cannot be read, is not a codebook, or leaves declarations blank; the message names the columns.
    UnknownColumnError
        If a name is not in the codebook.
    OptionError
        If the suffix is not one of these, or an argument is invalid.

    Notes
    -----
    A codebook is public knowledge only if it was written without the rows. Value labels and ranges that a tool took
    from the rows are confidential data; dpinfer cannot detect this.

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
    """Make a schema from a codebook and further declarations."""
    known = {one.name: one for one in variables}
    if len(known) < len(variables):
        raise SchemaError("the codebook describes two columns of the same name")
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
    """Write a schema as a codebook that other programs can read.

    Parameters
    ----------
    schema : Schema
    path : path-like
        Its suffix sets the format: a Table Schema (``.json``, ``.yaml``) or a DDI codebook (``.xml``). An existing file
        is replaced atomically.

    Raises
    ------
    SchemaError
        If the format cannot express a column's declaration, such as a constant for missing cells; the message names the
        column. `Schema.to_yaml` can express every declaration.
    OptionError
        If the suffix is not one of these, or ``schema`` is not a schema.
    OSError
        If the file cannot be written.

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
        raise SchemaError(f"codebooks cannot express whose rows are protected together: {instead}")
    for name, column in schema.items():
        if (column.missing, column.impossible) != ("drop", "drop"):
            raise SchemaError(f"{name!r}: codebooks cannot express constants for missing cells: {instead}")
    if suffix == ".xml":
        content = ddi_of(schema)
        read = read_ddi(content, trusted=True)
    else:
        values = table_schema_of(schema)
        text = write_yaml(values) if suffix != ".json" else json.dumps(values, indent=1, ensure_ascii=False) + "\n"
        content = text.encode("utf-8", "surrogatepass")
        read = read_table_schema(json.loads(text) if suffix == ".json" else read_yaml(text))
    back = {one.name: one for one in read}
    for name, column in schema.items():
        if name not in back or back[name].blanks or back[name].column() != column:
            raise SchemaError(f"{name!r}: the codebook format cannot express this declaration: {instead}")
    write_whole(file, content)


def _path(path: object) -> Path:
    return Path(of_type(PATH, "path", path, f"the path of a codebook: {_READ}", hidden=True))


def _suffix(path: Path, option: str, known: Sequence[str], expected: str = "") -> str:
    """Return the suffix of an existing file; refuse any other suffix as an invalid option of this name."""
    suffix = path.suffix.lower()
    if suffix not in known:
        raise OptionError(option, path.name, f"a file that ends in {expected or 'one of ' + ', '.join(known)}")
    if not path.is_file():
        raise SchemaError(f"there is no file {path.name!r}")
    return suffix


def described_columns(path: Path, *, trusted: bool, table: str | None = None) -> list[Variable] | Schema:
    """Read the columns of a codebook: a schema, if a schema wrote it.

    Only `trusted` ranges of DDI files by other programs are taken as declared.
    """
    if table is not None and path.suffix.lower() not in _VALUES:
        raise OptionError("table", table, f"no table: {path.name!r} is not a Data Package")
    suffix = _suffix(path, "path", _CODEBOOKS, _READ)
    if suffix in HEADERS:
        return read_header(path)
    if suffix == ".xml":
        return read_ddi(path.read_bytes(), trusted=trusted)
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
        raise OptionError("table", table, f"no table: {path.name!r} is not a Data Package with several tables")
    if "fields" in entries or "resources" in entries:
        return read_table_schema(entries, table)
    if "columns" in entries:
        return Schema.from_dict(entries)
    raise SchemaError(f"{path.name!r} is not a codebook: expected a Table Schema, a Data Package or a dpinfer schema")


def draft(path: Path, *, types: str | None = None) -> str:
    """Return a draft of the schema of a file, as YAML.

    Parameters
    ----------
    path : Path
        A table (``.csv`` or ``.tsv``, of which the first line is read; ``.parquet``, ``.feather``, ``.arrow``), the
        header of a Stata or SPSS file, or a codebook.
    types : "declared", optional
        States that the types of a Parquet or Arrow file were fixed before the rows, as those of a database are. By
        default they stay blank, since one row can change them.

    Returns
    -------
    str
        Names and declared types, and blanks for the rest. Nothing depends on a row.

    Raises
    ------
    SchemaError
        If the file cannot be read.
    OptionError
        If its suffix is not one of these, or ``types`` is invalid.
    """
    if types not in (None, "declared"):
        raise OptionError("types", types, '"declared" or None')
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
    """Write a value as YAML: as JSON, or empty if it is blank."""
    if value is None or name == "kind":
        return str(value or "")
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)


def _header_line(path: Path, delimiters: str) -> list[str]:
    """Names in the first line; nothing after it is read."""
    with path.open("rb") as file:
        line = file.readline(_LONGEST_LINE)
    try:
        text = line.decode("utf-8-sig").strip("\r\n")
    except UnicodeDecodeError:
        text = ""
    if not text.strip():
        raise SchemaError(f"the first line of {path.name!r} has no column names in UTF-8")
    return next(csv.reader([text], delimiter=max(delimiters, key=text.count)))


def declared_types(path: Path) -> pa.Schema:
    """Return the types of a Parquet or Arrow file, if they are known to have been fixed before the rows.

    Raises
    ------
    SchemaError
        If the file cannot be read.
    OptionError
        If its suffix is not one of these.
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


# A column as a file describes it

_NEEDED = {
    "real": ("lower", "upper"),
    "integer": ("lower", "upper"),
    "category": ("levels",),
    "date": ("first", "last"),
}
"""Arguments that a declaration needs."""

_CODE_RANGE = "missing_codes (a range of codes)"


@dataclass(frozen=True)
class Variable:
    """A column as a file describes it, with possible blanks.

    Attributes
    ----------
    name : str
    kind : str or None
        Type of the declaration, such as "real"; None if the file does not state it. A column with levels is a category.
    limits : mapping of str to object
        Declared arguments of the column's class: bounds, levels, codes.
    words : mapping of str to object
        ``missing_codes``, ``label``, ``unit`` and ``source``.
    unclear : tuple of str
        Statements of the file that a declaration cannot express, in words.
    """

    name: str
    kind: str | None
    limits: Mapping[str, Any] = field(default_factory=dict)
    words: Mapping[str, Any] = field(default_factory=dict)
    unclear: tuple[str, ...] = ()

    @property
    def entry(self) -> dict[str, Any]:
        """The entry of a schema, with None for what remains to be declared."""
        kind = "category" if "levels" in self.limits else self.kind
        words = {key: " ".join(word.split()) if isinstance(word, str) else word for key, word in self.words.items()}
        said = {**dict.fromkeys(_NEEDED.get(kind or "", ())), **self.limits}
        return {"name": self.name, "kind": kind, **said, **{key: word for key, word in words.items() if word}}

    @property
    def blanks(self) -> tuple[str, ...]:
        """What remains to be declared."""
        entry = self.entry
        needed = ("kind", *_NEEDED.get(entry["kind"] or "", ()))
        return (*(name for name in needed if entry[name] is None), *self.unclear)

    def column(self, declared: Column | None = None) -> Column:
        """Return the declaration, or another one completed with the words of this one.

        Raises
        ------
        SchemaError
            If it is not a valid declaration; the message names the column.
        """
        entry = self.entry
        name = entry.pop("name")
        try:
            if declared is None:
                return column_from_dict(entry)
            lacking = (word for word in self.words if word in entry and not getattr(declared, word))
            return replace(declared, **{word: entry[word] for word in lacking})
        except SchemaError as error:
            raise SchemaError(f"{name!r}: {error}") from None


def _labelled(codes: list[Any], labels: list[str]) -> dict[str, Any]:
    """Levels by label, with their codes; by code if a label is missing or repeated."""
    return {"levels": labels, "codes": codes} if all(labels) and len(set(labels)) == len(labels) else {"levels": codes}


def _number(given: Any) -> Any:
    """Read a number written as text; other text is unchanged."""
    for kind in (int, float) if isinstance(given, str) else ():
        try:
            return kind(given)
        except ValueError:
            pass
    return given


# DDI

_SOFTWARE = "dpinfer"
_UNFIT = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff\ufffe\uffff]")
_RANGE = "lower and upper (a range in such a file is often that of the rows: say source= where it was published)"


def read_ddi(text: bytes, *, trusted: bool) -> list[Variable]:
    """Read the variables of a DDI codebook, in the namespace of any version.

    Parameters
    ----------
    text : bytes
        The XML.
    trusted : bool
        Whether ranges are taken as declared; those of files from `ddi_of` always are.

    Raises
    ------
    SchemaError
        If it is not a DDI codebook.
    """
    failed = "the codebook cannot be read:"
    builder, parser = ET.TreeBuilder(), expat.ParserCreate(namespace_separator="}")

    def refuse(*_: object) -> None:
        raise SchemaError(f"{failed} it declares a document type, which is not read")

    parser.StartDoctypeDeclHandler = refuse  # no entities are declared, so none is expanded or fetched
    parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(text, True)
        root = builder.close()
    except SchemaError:
        raise
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise SchemaError(f"{failed} it is not XML, at line {getattr(error, 'lineno', 1)}") from None
    for one in root.iter():
        one.tag = one.tag.rpartition("}")[2]
    if root.tag != "codeBook":
        raise SchemaError(f"{failed} it is not a DDI codebook, whose first element is codeBook")
    found = root.findall("dataDscr/var")
    if not found or not all(one.get("name", "").strip() for one in found):
        raise SchemaError(f"{failed} it describes no variables, or one without a name")
    trusted = trusted or any(one.text == _SOFTWARE for one in root.iter("software"))
    return [_ddi_variable(one, trusted) for one in found]


def _text(parent: ET.Element, path: str) -> str:
    found = parent.find(path)
    return "" if found is None else " ".join("".join(found.itertext()).split())


def _ddi_variable(var: ET.Element, trusted: bool) -> Variable:
    written = var.find("varFormat")
    form = {} if written is None else written.attrib
    numeric, dates = form.get("type", "numeric") == "numeric", form.get("category") in ("date", "time")
    kind = "date" if dates else "real" if numeric else "category"
    categories = [
        (_text(one, "catValu"), _text(one, "labl"), one.get("missing") == "Y") for one in var.findall("catgry")
    ]
    codes = [one.get("VALUE", "") for one in var.findall("invalrng/item")]
    codes += [code for code, _, missing in categories if missing and code not in codes]
    levels = [(code, label) for code, label, missing in categories if not missing and code not in codes and code]
    unclear = [] if var.find("invalrng/range") is None else [_CODE_RANGE]
    limits: dict[str, Any]
    if form.get("formatname") == "boolean":
        kind = "boolean"
        truth = {label: [code for code, other in levels if other == label] for label in ("true", "false")}
        limits = {label: found for label, found in truth.items() if found}
    elif levels and var.get("intrvl") != "contin":
        limits = _labelled([_number(code) if numeric else code for code, _ in levels], [label for _, label in levels])
    else:
        ends = var.find("valrng/range")
        low, high = (None, None) if ends is None else (ends.get("min"), ends.get("max"))
        limits = {"first": low, "last": high} if dates else {"lower": _number(low), "upper": _number(high)}
        unit = "INT" if var.get("intrvl") == "discrete" else "REAL"
        if kind == "real" and ends is not None and ends.get("UNITS", unit) == "INT":
            kind = "integer"
        if not trusted and (low, high) != (None, None):
            limits = {}
            unclear.append(_RANGE)
    words = {
        "missing_codes": [code for code in codes if code.strip()],
        "label": _text(var, "labl"),
        "unit": var.get("measUnit", ""),
        "source": _text(var, "notes[@type='source']"),
    }
    return Variable(var.get("name", ""), kind, limits, words, tuple(unclear))


def _add(parent: ET.Element, tag: str, text: str | None = None, **attributes: str) -> ET.Element:
    added = ET.SubElement(parent, tag, attributes)
    added.text = text
    return added


def ddi_of(schema: Schema) -> bytes:
    """Return a DDI codebook of declared columns.

    Raises
    ------
    SchemaError
        If a column cannot be described.
    """
    root = ET.Element("codeBook", {"xmlns": "ddi:codebook:2_5", "version": "2.5"})
    document = _add(_add(root, "docDscr"), "citation")
    _add(_add(document, "titlStmt"), "titl", "Codebook")
    _add(_add(document, "prodStmt"), "software", _SOFTWARE)
    _add(_add(_add(_add(root, "stdyDscr"), "citation"), "titlStmt"), "titl", "Data")
    data = _add(root, "dataDscr")
    for name, column in schema.items():
        _add_variable(data, name, column)
        for one in data[-1].iter():  # XML keeps these texts as they are
            for text in (one.text or "", *one.attrib.values()):
                if _UNFIT.search(text) or " ".join(text.split()) != text:
                    raise SchemaError(
                        f"{named(name)}: DDI does not keep line breaks, or leading, trailing or repeated blanks"
                    )
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _add_variable(data: ET.Element, name: str, column: Column) -> None:
    unit = {"measUnit": column.unit} if column.unit else {}
    var = _add(data, "var", name=name, intrvl="contin" if column.kind in ("real", "date") else "discrete", **unit)
    if column.label:
        _add(var, "labl", column.label)
    if isinstance(column, Real):
        low, high = (str(getattr(column, end)) for end in _NEEDED[column.kind])
        units = {"real": {"UNITS": "REAL"}, "integer": {"UNITS": "INT"}}.get(column.kind, {})
        _add(_add(var, "valrng"), "range", **units, min=low, max=high)
    if column.missing_codes:
        invalid = _add(var, "invalrng")
        for code in column.missing_codes:
            _add(invalid, "item", VALUE=str(code))
    pairs: list[tuple[Any, Any]] = []
    if isinstance(column, Boolean):
        pairs = [(code, word) for word in ("true", "false") for code in column.codes_of(word)]
    elif isinstance(column, Category):
        pairs = list(zip_longest(column.codes or column.levels, column.levels if column.codes else ()))
    if any(isinstance(code, bool) for code, _ in pairs) or not all(isinstance(label, str | None) for _, label in pairs):
        raise SchemaError(f"{named(name)}: DDI needs levels that are numbers or texts, and labels that are texts")
    for code, label in pairs:
        category = _add(var, "catgry")
        _add(category, "catValu", str(code))
        if label is not None:
            _add(category, "labl", label)
    numeric = not isinstance(column, Date) and all(isinstance(code, int | float) for code, _ in pairs)
    form = {"boolean": {"formatname": "boolean"}, "date": {"category": "date"}}.get(column.kind, {})
    _add(var, "varFormat", type="numeric" if numeric else "character", **form)
    if column.source:
        _add(var, "notes", column.source, type="source")


# Table Schema

_TYPES = {"number": "real", "year": "integer", "string": "category", "datetime": "date"}
"""Kinds of declarations, where they have another name."""

_PLAIN: dict[type, str] = {str: "string", int: "integer", float: "number"}
_TRUTH = (
    ("true", "trueValues", ["true", "True", "TRUE", "1"]),
    ("false", "falseValues", ["false", "False", "FALSE", "0"]),
)
_WORDS = {"label": "title", "unit": "unit", "source": "source"}


def read_table_schema(values: Mapping[str, Any], table: str | None = None) -> list[Variable]:
    """Read the columns of a Table Schema, or of a table of a Data Package, given as plain values.

    Raises
    ------
    SchemaError
        If it is neither, or the package has several tables and none is named.
    """
    if "resources" in values:
        resources = values["resources"]
        if not isinstance(resources, list) or not all(isinstance(one, Mapping) for one in resources):
            raise SchemaError("a Data Package has an entry 'resources': a list of tables")
        names = [str(one.get("name", "")) for one in resources]
        if table is not None and table not in names:
            raise UnknownColumnError(table, names, "the Data Package")
        chosen = [one for one, name in zip(resources, names, strict=True) if table in (None, name)]
        if len(chosen) != 1:
            raise SchemaError(f"the Data Package has {len(chosen)} tables; name one of them: table={names!r}")
        values = chosen[0].get("schema")
        if not isinstance(values, Mapping):
            raise SchemaError("the Data Package does not contain the table's schema; read its separate file")
    fields = values.get("fields")
    if not isinstance(fields, list) or not all(
        isinstance(one, Mapping) and isinstance(one.get("name"), str) and one["name"] for one in fields
    ):
        raise SchemaError("a Table Schema has an entry 'fields': a list of fields, each with a name")
    common = values.get("missingValues", [])
    return [_field_variable(one, one.get("missingValues", common)) for one in fields]


def _field_variable(given: Mapping[str, Any], missing: object) -> Variable:
    name, typed, rules = given["name"], str(given.get("type", "")), given.get("constraints", {})
    kind = _TYPES.get(typed, typed if typed in ("integer", "boolean", "date") else None)
    numeric = kind in ("real", "integer")
    if not isinstance(rules, Mapping):
        raise SchemaError(f"{name!r}: its constraints are not a mapping")

    def listed(entry: str, values: object) -> list[Any]:
        """Return a list of values, each alone or with a label."""
        values = values if isinstance(values, list) else [None]
        found = [one.get("value") if isinstance(one, Mapping) else one for one in values]
        if not all(isinstance(one, str | int | float) for one in found):
            raise SchemaError(f"{name!r}: {entry} is not a list of values")
        return found

    words: dict[str, Any] = {"missing_codes": [one for one in listed("missingValues", missing) if str(one).strip()]}
    words |= {ours: given[theirs] for ours, theirs in _WORDS.items() if isinstance(given.get(theirs), str)}
    unclear = []
    if kind == "date" and given.get("format") not in (None, "default"):
        unclear.append("a format of dates that is not ISO 8601")
    written = given.get("decimalChar", "."), given.get("groupChar"), given.get("bareNumber", True)
    if numeric and written != (".", None, True):
        unclear.append("numbers with other characters than digits and a point")

    limits: dict[str, Any] = {}
    entry, levels = "categories", given.get("categories")
    if levels is None:
        entry, levels = "enum", rules.get("enum")
    if levels is not None or entry in rules:
        limits["levels"] = [_number(one) if numeric else one for one in listed(entry, levels)]
        labels = [one.get("label") if isinstance(one, Mapping) else None for one in levels or ()]
        if entry == "categories" and all(isinstance(label, str) and label for label in labels):
            limits = {"levels": labels, "codes": limits["levels"]}
    elif kind == "boolean" and ("trueValues" in given or "falseValues" in given):
        limits = {ours: listed(theirs, given.get(theirs, default)) for ours, theirs, default in _TRUTH}
    elif kind in ("real", "integer", "date"):
        ends = rules.get("minimum"), rules.get("maximum")
        limits = dict(zip(_NEEDED[kind], map(_number, ends) if numeric else ends, strict=True))
    return Variable(name, kind, limits, words, tuple(unclear))


def table_schema_of(schema: Schema) -> dict[str, Any]:
    """Return a Table Schema of declared columns, as plain values.

    Raises
    ------
    SchemaError
        If a column cannot be described.
    """
    fields = []
    for name, column in schema.items():
        given: dict[str, Any] = {"name": name, "type": column.kind}
        if isinstance(column, Boolean):
            codes = {theirs: [str(code) for code in column.codes_of(ours)] for ours, theirs, _ in _TRUTH}
            given |= {key: texts for key, texts in codes.items() if texts}
        elif isinstance(column, Real):
            low, high = (getattr(column, end) for end in _NEEDED[column.kind])
            times = isinstance(column, Date) and "T" in f"{low}{high}"
            given["type"] = "datetime" if times else "number" if column.kind == "real" else column.kind
            given["constraints"] = {"minimum": low, "maximum": high}
        elif isinstance(column, Category):
            types = {type(one) for one in column.codes or column.levels}
            given["type"] = _PLAIN.get(types.pop(), "any") if len(types) == 1 else "any"
            if not column.codes:
                given["constraints"] = {"enum": list(column.levels)}
            elif not are_texts(column.levels):
                raise SchemaError(
                    f"{named(name)}: a Table Schema labels codes with texts, but its levels are not texts"
                )
            else:
                pairs = zip(column.codes, column.levels, strict=True)
                given["categories"] = [{"value": code, "label": level} for code, level in pairs]
        given |= {theirs: getattr(column, ours) for ours, theirs in _WORDS.items() if getattr(column, ours)}
        if column.missing_codes:
            given["missingValues"] = ["", *(str(code) for code in column.missing_codes)]
        fields.append(given)
    return {"fields": fields}


# Headers of Stata and SPSS files

_DATES = re.compile(r"%-?t[cCd]|%-?d|(?:DATE|ADATE|EDATE|SDATE|JDATE|DATETIME|YMDHMS)[0-9.]*")
_OTHER_TIMES = re.compile(r"%-?t[a-zA-Z]|(?:TIME|DTIME|MTIME|MOYR|QYR|WKYR|WKDAY|MONTH)[0-9.]*")
_MOST_CODES = 1000


def read_header(path: Path) -> list[Variable]:
    """Read the columns from the header of a Stata or SPSS file.

    Raises
    ------
    SchemaError
        If the file cannot be read, or the extra ``stata`` is not installed.
    """
    try:
        import pyreadstat  # noqa: PLC0415
    except ImportError:
        raise SchemaError(
            "headers of Stata and SPSS files are read by pyreadstat: pip install dpinfer[stata]"
        ) from None
    reader = pyreadstat.read_dta if path.suffix.lower() == ".dta" else pyreadstat.read_sav
    try:
        header = reader(str(path), metadataonly=True, user_missing=True)[1]
    except Exception:  # its messages may quote the file
        header = None
    if header is None:
        raise SchemaError(f"the header of {path.name!r} cannot be read: expected a file of Stata or SPSS")
    return [_header_variable(name, header) for name in header.column_names]


def _header_variable(name: str, header: Any) -> Variable:
    written = str(header.original_variable_types.get(name, ""))
    text = str(header.readstat_variable_types.get(name, "")) == "string"
    times = _OTHER_TIMES.match(written) is not None
    kind = "date" if _DATES.match(written) else None if times else "category" if text else "real"

    def plain(code: Any) -> Any:
        return int(code) if isinstance(code, float) and code.is_integer() else code

    codes: list[Any] = []  # letters of Stata, which are not among them, are missing for every reader
    unclear: tuple[str, ...] = ()
    for one in (getattr(header, "missing_ranges", None) or {}).get(name, []):
        low, high = plain(one["lo"]), plain(one["hi"])
        whole = re.fullmatch(r"[FN][0-9]+(?:\.0)?", written) and isinstance(low, int) and isinstance(high, int)
        if low == high:
            codes.append(low)
        elif whole and high - low < _MOST_CODES:
            codes += range(low, high + 1)
        else:
            unclear = (_CODE_RANGE,)
    levels = {
        plain(code): " ".join(label.split())
        for code, label in header.variable_value_labels.get(name, {}).items()
        if isinstance(code, str) == (kind == "category") and plain(code) not in codes  # Stata labels its letters, too
    }
    coded = kind in ("real", "category") and len(levels) > 1 and header.variable_measure.get(name) != "scale"
    limits = _labelled(list(levels), list(levels.values())) if coded else {}
    words = {"missing_codes": list(dict.fromkeys(codes)), "label": header.column_names_to_labels.get(name)}
    return Variable(name, kind, limits, words, unclear)
