"""DDI-Codebook 2.5: what its variables say of columns.

Read are names, labels, units, ranges, categories and codes of missing cells. Counts and summary statistics, which such
files often hold, are computed from rows: they are never read.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from dpinfer.codebooks.variables import Variable
from dpinfer.errors import SchemaError, named
from dpinfer.schema.columns import Boolean, Category, Column, Date, Integer, Real

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpinfer.schema.declared import Kind
    from dpinfer.schema.schema import Schema

__all__ = ["described", "read"]

_NAMESPACE = "ddi:codebook:2_5"
_SOFTWARE = "dpinfer"
_SOURCE = "source"
_WHOLE = re.compile(r"[+-]?[0-9]+")
_UNFIT = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff\ufffe\uffff]")
_RANGE_UNCLEAR = (
    "lower and upper (a range in such a file is often that of the rows: say source= where it was published)"
)


class _Refused(Exception):
    """An XML file declares what it need not."""


def _parsed(text: bytes) -> ET.Element:
    """Parse XML without a document type: no entities are declared, so none is expanded or fetched."""
    builder = ET.TreeBuilder()
    parser = expat.ParserCreate(namespace_separator="}")

    def refuse(*_: object) -> None:
        raise _Refused

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(text, True)
        return builder.close()
    except _Refused:
        problem = "it declares a document type, which is not read"
    except (expat.ExpatError, ValueError, LookupError) as error:
        problem = f"it is not XML, at line {getattr(error, 'lineno', 1)}"
    raise SchemaError(f"the codebook cannot be read: {problem}")


def _children(parent: ET.Element, tag: str) -> Iterator[ET.Element]:
    """Children of a name, in whatever version's namespace."""
    return (one for one in parent if one.tag.rpartition("}")[2] == tag)


def _text(parent: ET.Element, tag: str) -> str:
    return next((" ".join("".join(one.itertext()).split()) for one in _children(parent, tag)), "")


def read(text: bytes, *, trusted: bool) -> list[Variable]:
    """Read what a codebook says of its variables.

    Parameters
    ----------
    text : bytes
        The XML.
    trusted : bool
        Whether ranges are taken as declared ones; those of files that `described` made always are.

    Raises
    ------
    SchemaError
        If it is no DDI codebook.
    """
    root = _parsed(text)
    if root.tag.rpartition("}")[2] != "codeBook":
        raise SchemaError("the codebook cannot be read: it is not a DDI codebook, whose first element is codeBook")
    trusted = trusted or any(one.text == _SOFTWARE for one in root.iter() if one.tag.rpartition("}")[2] == "software")
    found = [one for data in _children(root, "dataDscr") for one in _children(data, "var")]
    if not found or not all(one.get("name", "").strip() for one in found):
        raise SchemaError("the codebook cannot be read: it describes no variables, or one without a name")
    return [_variable(one, trusted) for one in found]


def _variable(var: ET.Element, trusted: bool) -> Variable:
    form = next(_children(var, "varFormat"), None)
    numeric = form is None or form.get("type", "numeric") == "numeric"
    named_format = "" if form is None else form.get("formatname", "")
    categories = [
        (_text(one, "catValu"), _text(one, "labl"), one.get("missing") == "Y") for one in _children(var, "catgry")
    ]
    invalid = [one for part in _children(var, "invalrng") for one in part]
    codes = [one.get("VALUE", "") for one in invalid if one.tag.endswith("item")]
    ranges = [one for one in invalid if one.tag.endswith("range")]
    codes += [code for code, _, missing in categories if missing and code not in codes]
    levels = [(code, label) for code, label, missing in categories if not missing and code not in codes and code]
    words = {
        "missing_codes": [code for code in codes if code.strip()],
        "label": _text(var, "labl"),
        "unit": " ".join(var.get("measUnit", "").split()),
        "source": next((_flat(one) for one in _children(var, "notes") if one.get("type") == _SOURCE), ""),
    }
    dates = form is not None and form.get("category") in ("date", "time")
    kind: Kind = "dates" if dates else "numbers" if numeric else "text"
    unclear = ("missing_codes (a range of codes)",) if ranges else ()
    if named_format == "boolean":
        truth = {label: [code for code, other in levels if other == label] for label in ("true", "false")}
        return Variable(var.get("name", ""), "truth values", {k: v for k, v in truth.items() if v}, words, unclear)
    if levels and var.get("intrvl") != "contin":
        return Variable(var.get("name", ""), kind, _labelled(levels, numeric), words, unclear)
    limits, whole = _range(var, dates)
    if not trusted and any(value is not None for value in limits.values()):
        limits, unclear = {}, (*unclear, _RANGE_UNCLEAR)
    return Variable(
        var.get("name", ""), "whole numbers" if whole and kind == "numbers" else kind, limits, words, unclear
    )


def _flat(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def _labelled(levels: list[tuple[str, str]], numeric: bool) -> dict[str, Any]:
    """Levels by their labels, with their codes; by their codes where a label is missing or comes twice."""
    codes = [_number(code) if numeric else code for code, _ in levels]
    labels = [label for _, label in levels]
    if all(labels) and len(set(labels)) == len(labels):
        return {"levels": labels, "codes": codes}
    return {"levels": codes}


def _number(text: str) -> Any:
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def _range(var: ET.Element, dates: bool) -> tuple[dict[str, Any], bool]:
    """Bounds, and whether they are of whole numbers; None where one is not said."""
    found = next((one for part in _children(var, "valrng") for one in _children(part, "range")), None)
    low, high = (None, None) if found is None else (found.get("min"), found.get("max"))
    if dates:
        return {"first": low, "last": high}, False
    whole = found is not None and found.get("UNITS", "INT" if var.get("intrvl") == "discrete" else "REAL") == "INT"
    return {"lower": None if low is None else _number(low), "upper": None if high is None else _number(high)}, whole


def described(schema: Schema) -> bytes:
    """Return a DDI codebook of declared columns.

    Raises
    ------
    SchemaError
        If a column cannot be described.
    """
    root = ET.Element("codeBook", {"xmlns": _NAMESPACE, "version": "2.5"})
    document = ET.SubElement(ET.SubElement(root, "docDscr"), "citation")
    ET.SubElement(ET.SubElement(document, "titlStmt"), "titl").text = "Codebook"
    ET.SubElement(ET.SubElement(document, "prodStmt"), "software").text = _SOFTWARE
    study = ET.SubElement(ET.SubElement(root, "stdyDscr"), "citation")
    ET.SubElement(ET.SubElement(study, "titlStmt"), "titl").text = "Data"
    data = ET.SubElement(root, "dataDscr")
    for name, column in schema.items():
        _describe(data, name, column)
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _describe(data: ET.Element, name: str, column: Column) -> None:
    discrete = isinstance(column, Integer | Category | Boolean)
    unit = {"measUnit": column.unit} if column.unit else {}
    var = ET.SubElement(data, "var", {"name": _fit(name, name), "intrvl": "discrete" if discrete else "contin", **unit})
    if column.label:
        ET.SubElement(var, "labl").text = _fit(name, column.label)
    if isinstance(column, Real):
        ends = (column.first, column.last) if isinstance(column, Date) else (column.lower, column.upper)
        units = {} if isinstance(column, Date) else {"UNITS": "INT" if isinstance(column, Integer) else "REAL"}
        ET.SubElement(ET.SubElement(var, "valrng"), "range", {**units, "min": str(ends[0]), "max": str(ends[1])})
    if column.missing_codes:
        invalid = ET.SubElement(var, "invalrng")
        for code in column.missing_codes:
            ET.SubElement(invalid, "item", {"VALUE": _fit(name, str(code))})
    numeric = _describe_levels(var, name, column)
    kind = {"type": "numeric" if numeric else "character"}
    special = {"category": "date"} if isinstance(column, Date) else {}
    boolean = {"formatname": "boolean"} if isinstance(column, Boolean) else {}
    ET.SubElement(var, "varFormat", {**kind, **boolean, **special})
    if column.source:
        ET.SubElement(var, "notes", {"type": _SOURCE}).text = _fit(name, column.source)


def _describe_levels(var: ET.Element, name: str, column: Column) -> bool:
    """Write the categories; and say whether cells are numbers."""
    if isinstance(column, Boolean):
        pairs: list[tuple[Any, Any]] = [(code, word) for word in ("true", "false") for code in column.codes_of(word)]
    elif isinstance(column, Category):
        pairs = list(
            zip(
                column.codes or column.levels,
                column.levels if column.codes else [None] * len(column.levels),
                strict=True,
            )
        )
    else:
        return not isinstance(column, Date)
    if any(isinstance(code, bool) for code, _ in pairs) or not all(isinstance(label, str | None) for _, label in pairs):
        raise SchemaError(f"{named(name)}: DDI holds levels that are numbers or texts, and labels that are texts")
    for code, label in pairs:
        category = ET.SubElement(var, "catgry")
        ET.SubElement(category, "catValu").text = _fit(name, str(code))
        if label is not None:
            ET.SubElement(category, "labl").text = _fit(name, label)
    return all(isinstance(code, int | float) for code, _ in pairs)


def _fit(name: str, text: str) -> str:
    """Check that XML keeps a text as it is; refuse by the column's name."""
    if _UNFIT.search(text) or " ".join(text.split()) != text:
        raise SchemaError(f"{named(name)}: DDI keeps no texts with line breaks, or with blanks around or doubled")
    return text
