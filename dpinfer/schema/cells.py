"""What one cell of a column holds, whatever the storage it comes in.

Every function here looks at one cell alone: no dtype, no neighbour. A frame's dtype changes when one row
goes, so anything decided from it would let one person change the value read for another.

In this file NaN stands for a missing cell and an infinity for an impossible one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timezone
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

MISSING = math.nan
IMPOSSIBLE = math.inf

PLAIN_NUMBERS = frozenset({*np.sctypeDict.values(), complex})
"""The number types of numpy and Python themselves; a subclass could bring methods of its own."""

PER_DAY = {"D": 1, "h": 24, "m": 1440, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_TIME = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
_ISO = re.compile(rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[T ]{_TIME})?")
_EPOCH = date(1970, 1, 1).toordinal()
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, eq=False)
class Coded:
    """Dictionary-coded cells: categorical, dictionary and text storage.

    A code is the position of the cell's value; one outside of the values, such as -1, is a missing cell.
    """

    codes: NDArray[Any]
    values: Sequence[object]

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def positions(self) -> NDArray[np.intp]:
        """The codes, with every position outside the values mapped to ``len(values)``, shape (m,)."""
        size = len(self.values)
        codes = np.asarray(self.codes)
        if codes.size and codes.min() >= 0 and codes.max() < size:
            return codes.astype(np.intp, copy=False)
        return np.where((codes < 0) | (codes >= size), size, codes).astype(np.intp)


@dataclass(frozen=True, eq=False)
class Meant:
    """Cells that a column has read already: what `Column.meaning` gave for them (m,)."""

    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.values)


def distinct_texts(cells: Iterable[object]) -> Coded:
    """Code text cells by their distinct values; what is no text has a code of its own.

    A Python dictionary tells texts apart by their characters alone; hash tables of other libraries may take an
    unpaired surrogate for a text that spells it.
    """
    seen: dict[str, int] = {}
    values: list[object] = []
    codes = []
    for cell in cells:
        text = str.__str__(cell) if issubclass(type(cell), str) else None
        place = len(values) if text is None else seen.setdefault(text, len(values))
        if place == len(values):
            values.append(cell if text is None else text)
        codes.append(place)
    return Coded(np.array(codes, dtype=np.intp), values)


def read_cell(cell: object) -> bool | float | str:
    """Reduce a cell, anything at all, to a truth value, a finite number or a non-blank text.

    A decimal, or a complex number without imaginary part, is a number. NaN where the cell is missing (None, NaN, NaT,
    ``pandas.NA``, blank text), an infinity where it is impossible (infinite, beyond the floats, or of a type that is no
    value). Types are told by ``type(cell)`` and read through the base type's own methods, so no method of a user's
    object runs; should reading fail nevertheless, the cell is impossible.
    """
    if type(cell) is float:
        return cell
    try:
        return _read_known(cell)
    except Exception:
        return IMPOSSIBLE


def _read_known(cell: Any) -> bool | float | str:
    kind = type(cell)
    if issubclass(kind, np.generic | complex) and kind not in PLAIN_NUMBERS:
        return IMPOSSIBLE
    value: bool | float | str = IMPOSSIBLE
    if issubclass(kind, str):
        text = str.__str__(cell)
        value = text if text.strip() else MISSING
    elif kind is bool or kind is np.bool_:
        value = bool(cell)
    elif issubclass(kind, float):
        value = float.__float__(cell)
    elif issubclass(kind, int):
        value = int.__float__(cell)
    elif cell is None or cell is pd.NA or cell is pd.NaT:
        value = MISSING
    elif issubclass(kind, np.datetime64 | np.timedelta64):  # before the integers: numpy derives timedelta64 from them
        value = MISSING if np.isnat(cell) else IMPOSSIBLE
    elif issubclass(kind, np.integer | np.floating):
        with np.errstate(all="ignore"):
            value = float(cell)
    elif issubclass(kind, complex | np.complexfloating):
        value = float(complex_to_numbers(np.asarray(cell)))
    elif kind is Decimal:
        value = MISSING if cell.is_nan() else float(cell)
    return value


def complex_to_numbers(cells: NDArray[Any]) -> NDArray[np.float64]:
    """Read an array of complex numbers as `read_cell` reads each of them.

    One complex cell makes a frame store its whole column so: a number without imaginary part stays itself.
    """
    with np.errstate(all="ignore"):
        odd = np.where(np.isnan(cells), MISSING, IMPOSSIBLE)
        return np.where(cells.imag == 0, cells.real.astype(np.float64), odd)


def text_to_number(text: str) -> float:
    """Read a plain decimal number, or one of the words true and false, from a text cell; else an infinity.

    One bad cell turns a whole column of a CSV file into text, so the text of a number, or of a truth value, has to mean
    what the number means.
    """
    bare = text.strip()
    if _DECIMAL.fullmatch(bare):
        return float(bare)
    return float(_TRUTH.get(bare.lower(), IMPOSSIBLE))


def truth_text(text: str) -> bool | None:
    """Read one of the words true and false; None if the text is something else."""
    return _TRUTH.get(text.strip().lower())


def number_text(value: float) -> str:
    """Write a finite number canonically: ``"1"`` for 1.0, the shortest decimal otherwise."""
    return str(int(value)) if value.is_integer() else repr(value)


def normal_text(text: str) -> str | None:
    """Write the number or truth value that a text spells canonically; None if it spells neither."""
    bare = text.strip()
    if bare.lower() in _TRUTH:
        return str(_TRUTH[bare.lower()])
    value = text_to_number(bare)
    return number_text(value) if math.isfinite(value) else None


def spelled(cell: bool | float | str) -> str:
    """Write a truth value, a finite number or a text canonically: 1, 1.0 and "1" are spelled alike."""
    if isinstance(cell, str):
        return cell
    return str(cell) if isinstance(cell, bool) else number_text(cell)


def same_spelling(given: object) -> str:
    """Write a declared level or code canonically."""
    return spelled(read_cell(given))


def plainest(code: str | int | float) -> str | int | float:
    """Give a code that spells a number canonically as the number, of the simplest type."""
    text = same_spelling(code)
    value = text_to_number(text)
    if not math.isfinite(value) or number_text(value) != text:
        return code
    return int(value) if value.is_integer() else value


@dataclass(frozen=True)
class Lookup:
    """Values of cells by their spelling; every other cell is impossible.

    ``entries`` are canonical texts, each once, with the value that each stands for; NaN for a missing cell.
    """

    entries: tuple[tuple[str, float], ...]

    @cached_property
    def _by_text(self) -> dict[str, float]:
        return dict(self.entries)

    @cached_property
    def _by_normal_text(self) -> dict[str, float]:
        normal = [(normal_text(text), value) for text, value in self.entries]
        counts = Counter(text for text, _ in normal)
        return {text: value for text, value in normal if text is not None and counts[text] == 1}

    @cached_property
    def _number_table(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The numbers that are declared, ascending, and the value of each."""
        normal = {normal_text(text) for text, _ in self.entries} - {None, "True", "False"}
        keys = np.unique([float(text) for text in normal if text is not None])
        return keys, np.array([self.value(key) for key in keys.tolist()], dtype=np.float64)

    def value(self, cell: bool | float | str) -> float:
        """Value of one cell as `read_cell` gives it; an infinity where it is not declared."""
        if not isinstance(cell, str) and not math.isfinite(cell):
            return float(cell)
        text = spelled(cell)
        found = self._by_text.get(text)
        return self._by_normal_text.get(normal_text(text) or "", IMPOSSIBLE) if found is None else found

    def numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of an array of numeric cells: `value`, on arrays."""
        keys, found = self._number_table
        unmatched = np.where(np.isnan(values), MISSING, IMPOSSIBLE)
        if not keys.size:
            return unmatched
        place = np.minimum(np.searchsorted(keys, values), keys.size - 1)
        return np.where(keys[place] == values, found[place], unmatched)


def days_of_moments(moments: NDArray[Any]) -> NDArray[np.float64]:
    """Days from 1970-01-01 (m,): the same number for the same moment, in whatever unit it is stored."""
    unit, count = np.datetime_data(moments.dtype)
    if unit in ("Y", "M", "W"):
        moments, unit, count = moments.astype("M8[D]"), "D", 1
    if unit not in PER_DAY or count != 1:
        return np.where(np.isnat(moments), MISSING, IMPOSSIBLE)
    whole, rest = np.divmod(moments.astype(np.int64), PER_DAY[unit])
    return np.where(np.isnat(moments), MISSING, whole + rest / PER_DAY[unit])


def day_of_cell(cell: Any) -> float | None:
    """Days from 1970-01-01 of a date or time; NaN for NaT, None for what is neither; nothing raises."""
    kind = type(cell)
    try:
        if kind is pd.Timestamp or kind is np.datetime64:
            return float(days_of_moments(np.asarray(cell.to_datetime64() if kind is pd.Timestamp else cell)))
        if kind is datetime:
            return _day_of_time(cell)
        if kind is date:
            return float(cell.toordinal() - _EPOCH)
    except Exception:
        return IMPOSSIBLE
    return None


def _day_of_time(cell: datetime) -> float:
    """Days of a time; one with a zone of a type that is not Python's own is impossible, for its code would run."""
    if cell.tzinfo is not None:
        if type(cell.tzinfo) not in (timezone, ZoneInfo):
            return IMPOSSIBLE
        cell = cell.astimezone(UTC).replace(tzinfo=None)
    seconds = 3600 * cell.hour + 60 * cell.minute + cell.second
    return cell.toordinal() - _EPOCH + (1_000_000 * seconds + cell.microsecond) / PER_DAY["us"]


def day_of_text(text: str) -> float:
    """Days of the text of a date or time in ISO 8601; an infinity for any other text."""
    bare = text.strip()
    if not _ISO.fullmatch(bare):
        return IMPOSSIBLE
    try:
        return _day_of_time(datetime.fromisoformat(bare))
    except ValueError:
        return IMPOSSIBLE
