"""What one cell of a column holds, whatever the storage it comes in.

Every function here looks at one cell alone: no dtype, no neighbour. A frame's dtype changes when one row
goes, so anything decided from it would let one person change the value read for another.

In this file NaN stands for a missing cell and an infinity for an impossible one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

__all__ = [
    "IMPOSSIBLE",
    "MISSING",
    "PLAIN_NUMBERS",
    "Coded",
    "Meant",
    "complex_to_numbers",
    "distinct_texts",
    "normal_text",
    "number_text",
    "read_cell",
    "text_to_number",
    "truth_text",
]

MISSING = math.nan
IMPOSSIBLE = math.inf

PLAIN_NUMBERS = frozenset({*np.sctypeDict.values(), complex})
"""The number types of numpy and Python themselves; a subclass could bring methods of its own."""

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
        value = _complex_to_number(cell)
    elif kind is Decimal:
        value = MISSING if cell.is_nan() else float(cell)
    return value


def _complex_to_number(cell: complex) -> float:
    with np.errstate(all="ignore"):
        if cell.imag == 0:
            return float(cell.real)
        return MISSING if np.isnan(cell) else IMPOSSIBLE


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
