"""Declared types beside a schema: where they do not go together, and what to declare instead.

A type that a database or a codebook fixed before the rows came says nothing of rows. The storage type of a table does:
one bad cell makes a column text, one large number changes its type. So nothing here looks at rows, and nothing is
compared unless somebody says that the types are declared ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpinfer.errors import OptionError, cut, named, shown, type_of
from dpinfer.schema.cells import normal_text, same_spelling
from dpinfer.schema.columns import Category, Column, Integer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Kind = Literal["whole numbers", "numbers", "truth values", "text", "dates", "something else"]

_WORDS: dict[Kind, str] = {
    "whole numbers": "int integer bigint smallint tinyint mediumint hugeint serial bigserial smallserial long byte "
    "uint short",
    "numbers": "numeric decimal number real float double halffloat money smallmoney dec",
    "truth values": "bool boolean bit",
    "text": "char character varchar nvarchar nchar text string str clob bpchar utf large_string string_view enum uuid",
    "dates": "date datetime timestamp timestamptz datetimeoffset smalldatetime",
    "something else": "time timetz interval duration timedelta blob binary varbinary bytea bytes json jsonb array list "
    "struct map period complex large_binary large_list fixed_size_list fixed_size_binary binary_view xml",
}
_KINDS: dict[str, Kind] = {word: kind for kind, words in _WORDS.items() for word in words.split()}
_NOTHING = frozenset({"", "object", "category", "categorical", "null", "any", "unknown", "void", "nonetype"})


@dataclass(frozen=True)
class Mismatch:
    """A column whose declaration and declared type do not go together.

    Attributes
    ----------
    column : str
    reason : str
        What does not go together.
    advice : str
        What to declare instead.
    """

    column: str
    reason: str
    advice: str

    def __str__(self) -> str:
        return f"{self.column}: {self.reason}; {self.advice}"


@dataclass(frozen=True)
class TypeCheck:
    """What `Schema.check` found; true if all goes together.

    Attributes
    ----------
    mismatches : tuple of Mismatch
        In the order of the schema.
    """

    mismatches: tuple[Mismatch, ...]

    def __bool__(self) -> bool:
        return not self.mismatches

    def __str__(self) -> str:
        if not self.mismatches:
            return "schema and declared types go together"
        count = f"{len(self.mismatches)} mismatch" + ("es" if len(self.mismatches) > 1 else "")
        return "\n".join([f"{count} of schema and declared types:", *(f"  {one}" for one in self.mismatches)])

    __repr__ = __str__


def kind_of_type(name: str, given: object) -> Kind | None:
    """Say what cells of a declared type are; None where the type does not tell.

    Parameters
    ----------
    name : str
        The column, for messages.
    given : object
        The name of a type in SQL, numpy, pandas, Polars or Arrow, such as ``"NUMERIC(10, 2)"``; the type itself; or a
        type of Python.

    Raises
    ------
    OptionError
        If it is no known type.
    """
    if isinstance(given, str) and given in _WORDS:
        return given
    text = given.__name__ if isinstance(given, type) else str(given) if given is not None else ""
    text = text.strip().lower().removeprefix("sparse[").removeprefix("unsigned ").removeprefix("dictionary<values=")
    word = re.split(r"[^a-z_]", text)[0]
    kind = _KINDS.get(word)
    if kind is None and word not in _NOTHING:
        right = 'the name of a type such as "INTEGER", "NUMERIC(10, 2)", "VARCHAR(3)" or "DATE"'
        raise OptionError(f"types[{name!r}]", given if isinstance(given, str) else type_of(given), right)
    return kind


def check_types(schema: Mapping[str, Column], types: object) -> TypeCheck:
    """Compare declared columns with declared types; see `Schema.check`."""
    if not isinstance(types, Mapping):
        names, kinds = getattr(types, "names", None), getattr(types, "types", None)
        if not (type(types).__module__.startswith("pyarrow") and isinstance(names, list) and isinstance(kinds, list)):
            right = "a mapping of column names to declared types, an Arrow schema, or the Schema of a codebook"
            raise OptionError("types", type_of(types), right)
        types = dict(zip(names, kinds, strict=True))
    found: list[Mismatch] = []
    for name, column in schema.items():
        if name not in types:
            known = cut(", ".join(named(one) for one in types)) or "no columns"
            found.append(Mismatch(name, "is not among the declared types", f"they are of {known}"))
        elif isinstance(types[name], Column):
            found += _beside(name, column, types[name])
        else:
            kind = kind_of_type(name, types[name])
            fault = None if kind is None else _fault(column, kind)
            found += [] if fault is None else [Mismatch(name, *fault)]
    return TypeCheck(tuple(found))


def _fault(column: Column, kind: Kind) -> tuple[str, str] | None:  # noqa: PLR0911  (a return for each reason)
    """Say why a column cannot be of a kind, and what to declare; None if it can."""
    declared = type(column).__name__
    if kind == "something else":
        return "its declared type holds neither numbers, truth values, text nor dates", "leave it out, or convert it"
    if column.kind == "date" and kind not in ("dates", "text"):
        return f"is declared as {kind}, and Date reads dates", "declare what the numbers are"
    if column.kind != "date" and kind == "dates":
        return f"is declared as dates, which are impossible for {declared}", "declare Date(first, last)"
    if column.kind in ("real", "integer") and kind == "text":
        return f"is declared as text, and {declared} reads numbers", "declare Category([levels]), or a numeric type"
    if column.kind == "boolean" and kind == "text" and not column.spellings:
        return "is declared as text, and Boolean() reads true and false", 'declare Boolean(true="Yes", false="No")'
    lost = [cells[0] for cells in column.spellings if not any(_is_of(one, kind) for one in cells)]
    if kind == "text" or not lost:
        return None
    return f"is declared as {kind}, which never are {_listed(lost)}", "declare the codes that cells hold: codes=, true="


def _is_of(cell: object, kind: Kind) -> bool:
    normal = normal_text(same_spelling(cell))
    if normal in ("True", "False") or kind == "truth values":
        return normal in ("True", "False") and kind == "truth values"
    return normal is not None and (kind == "numbers" or float(normal).is_integer())


def _beside(name: str, column: Column, book: Column) -> Iterator[Mismatch]:
    """Compare a column with that of a codebook: what one says that cells hold, the other has to read."""
    if (column.kind == "date") != (book.kind == "date"):
        yield Mismatch(name, *(_fault(column, "dates") or _fault(column, "numbers") or ("", "")))
        return
    hidden = [code for code in book.missing_codes if not _stands_for(column, code, math.isnan)]
    lost = [cell for cell in _possible(book) if not _stands_for(column, cell, math.isfinite)]
    unknown = [cell for cell in _possible(column) if not _stands_for(book, cell, math.isfinite)]
    if column.kind in ("real", "date") and book.kind == "category" and lost:
        lost = list(_possible(book))
    if lost:
        advice = "declare them: levels, codes=, or true= and false="
        yield Mismatch(name, f"the codebook's {_listed(lost)} would be impossible for {type(column).__name__}", advice)
    if unknown and column.spellings:
        known = book.levels if isinstance(book, Category) else tuple(_possible(book))
        has = _listed(known) or type(book).__name__
        yield Mismatch(name, f"{_listed(unknown)} is not in the codebook", f"it has {has}")
    if hidden:
        listed = ", ".join(map(repr, hidden))
        yield Mismatch(name, f"{listed} stands for a missing cell in the codebook", f"declare missing_codes=[{listed}]")


def _possible(column: Column) -> Iterator[object]:
    """Cells that a column of levels holds."""
    if isinstance(column, Category):
        yield from column.codes or column.levels
    elif column.kind == "boolean":
        yield from [code for codes in column.spellings for code in codes] or (False, True)
    elif isinstance(column, Integer):
        hidden = [code for code in column.missing_codes if isinstance(code, int | float)]
        yield from (value for value in column.level_values if value not in hidden)


def _stands_for(column: Column, cell: object, test: Any) -> bool:
    cells = np.empty(1, dtype=object)
    cells[0] = cell
    return bool(test(column.meaning(cells)[0]))


def _listed(cells: Sequence[object]) -> str:
    few = ", ".join(shown(cell) for cell in cells[:6])
    return few if len(cells) <= 6 else f"{few}, ... ({len(cells)})"
