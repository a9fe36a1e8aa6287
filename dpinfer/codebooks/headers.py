"""Headers of Stata and SPSS files: labels, types and codes of missing cells. Rows are not read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dpinfer.codebooks.variables import Variable
from dpinfer.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dpinfer.schema.declared import Kind

__all__ = ["SUFFIXES", "read"]

SUFFIXES = (".dta", ".sav", ".zsav")
_DATES = re.compile(r"%-?t[cCd]|%-?d|(?:DATE|ADATE|EDATE|SDATE|JDATE|DATETIME|YMDHMS)[0-9.]*")
_OTHER_TIMES = re.compile(r"%-?t[a-zA-Z]|(?:TIME|DTIME|MTIME|MOYR|QYR|WKYR|WKDAY|MONTH)[0-9.]*")
_WHOLE = re.compile(r"[FN][0-9]+(?:\.0)?")
_MOST_CODES = 1000


def read(path: Path) -> list[Variable]:
    """Read what the header of a Stata or SPSS file says of its columns.

    Raises
    ------
    SchemaError
        If the file cannot be read, or the extra ``stata`` is not installed.
    """
    header = _header(path)
    return [_variable(name, header) for name in header.column_names]


def _header(path: Path) -> Any:
    try:
        import pyreadstat  # noqa: PLC0415
    except ImportError:
        raise SchemaError(
            "headers of Stata and SPSS files are read by pyreadstat: pip install dpinfer[stata]"
        ) from None
    reader = pyreadstat.read_dta if path.suffix.lower() == ".dta" else pyreadstat.read_sav
    try:
        return reader(str(path), metadataonly=True, user_missing=True)[1]
    except Exception:  # its messages may quote the file
        pass
    raise SchemaError(f"the header of {path.name!r} cannot be read: expected a file of Stata or SPSS")


def _variable(name: str, header: Any) -> Variable:
    written = str(header.original_variable_types.get(name, ""))
    kind = _kind(written, str(header.readstat_variable_types.get(name, "")))
    labels: Mapping[Any, str] = header.variable_value_labels.get(name, {})
    codes, unclear = _missing(name, header, whole=_WHOLE.fullmatch(written) is not None)
    words = {
        "missing_codes": codes,
        "label": " ".join((header.column_names_to_labels.get(name) or "").split()),
        "unit": "",
        "source": "",
    }
    levels = {_plain(code): " ".join(text.split()) for code, text in labels.items() if _is_cell(code, kind)}
    levels = {code: text for code, text in levels.items() if code not in codes}
    if kind in ("numbers", "text") and len(levels) > 1 and header.variable_measure.get(name) != "scale":
        return Variable(name, kind, _labelled(levels), words, unclear)
    return Variable(name, kind, {}, words, unclear)


def _kind(written: str, stored: str) -> Kind | None:
    if _DATES.match(written):
        return "dates"
    if _OTHER_TIMES.match(written):
        return "something else"
    return "text" if stored == "string" else "numbers"


def _is_cell(code: object, kind: Kind | None) -> bool:
    """Whether a labelled value is a cell: Stata labels its letters of missing numbers, too."""
    return isinstance(code, str) == (kind == "text")


def _plain(code: Any) -> Any:
    return int(code) if isinstance(code, float) and code.is_integer() else code


def _labelled(levels: Mapping[Any, str]) -> dict[str, Any]:
    texts = list(levels.values())
    if all(texts) and len(set(texts)) == len(texts):
        return {"levels": texts, "codes": list(levels)}
    return {"levels": list(levels)}


def _missing(name: str, header: Any, *, whole: bool) -> tuple[list[Any], tuple[str, ...]]:
    """Codes of missing cells; and what of them cannot be listed. Letters of Stata are missing for every reader."""
    codes: list[Any] = []
    unclear: tuple[str, ...] = ()
    for one in (getattr(header, "missing_ranges", None) or {}).get(name, []):
        low, high = (_plain(one[end]) for end in ("lo", "hi"))
        if low == high:
            codes.append(low)
        elif whole and isinstance(low, int) and isinstance(high, int) and high - low < _MOST_CODES:
            codes += range(low, high + 1)
        else:
            unclear = ("missing_codes (a range of codes)",)
    return list(dict.fromkeys(codes)), unclear
