"""Cells that stand for declared values: levels, codes and codes of missing cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.schema.cells import IMPOSSIBLE, MISSING, normal_text, number_text, read_cell, text_to_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Lookup", "MissingCodes", "plainest", "same_spelling", "spelled"]


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

    Parameters
    ----------
    entries : tuple of (str, float)
        Canonical texts, each once, with the value that each stands for; NaN for a missing cell.
    """

    entries: tuple[tuple[str, float], ...]

    @cached_property
    def _by_text(self) -> dict[str, float]:
        return dict(self.entries)

    @cached_property
    def _by_normal_text(self) -> dict[str, float]:
        normal = [(normal_text(text), value) for text, value in self.entries]
        texts = [text for text, _ in normal]
        return {text: value for text, value in normal if text is not None and texts.count(text) == 1}

    @cached_property
    def _number_table(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The numbers that are declared, ascending, and the value of each."""
        normal = [normal_text(text) for text, _ in self.entries]
        numbers = {float(n) for n in normal if n is not None and n not in ("True", "False")}
        keys = np.array(sorted(numbers), dtype=np.float64)
        return keys, np.array([self.value(key) for key in keys.tolist()], dtype=np.float64)

    def value(self, cell: bool | float | str) -> float:
        """Value of one cell as `read_cell` gives it; an infinity where it is not declared."""
        if not isinstance(cell, str) and not math.isfinite(cell):
            return float(cell)
        text = spelled(cell)
        found = self._by_text.get(text)
        if found is None:
            found = self._by_normal_text.get(normal_text(text) or "")
        return IMPOSSIBLE if found is None else found

    def numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of an array of numeric cells: `value`, on arrays."""
        keys, found = self._number_table
        unmatched = np.where(np.isnan(values), MISSING, IMPOSSIBLE)
        if not keys.size:
            return unmatched
        place = np.minimum(np.searchsorted(keys, values), keys.size - 1)
        return np.where(keys[place] == values, found[place], unmatched)


@dataclass(frozen=True)
class MissingCodes:
    """Codes of missing cells in a column of numbers: numbers by their value, other texts by their characters."""

    codes: tuple[str | int | float, ...]

    @cached_property
    def _texts(self) -> frozenset[str]:
        return frozenset(code.strip() for code in self.codes if isinstance(code, str) and not _is_number(code))

    @cached_property
    def _values(self) -> frozenset[float]:
        numbers = [text_to_number(one) if isinstance(one, str) else float(one) for one in self.codes if _is_number(one)]
        return frozenset(numbers)

    def hides(self, cell: bool | float | str) -> bool:
        """Whether a text is one of the codes that are no numbers."""
        return isinstance(cell, str) and cell.strip() in self._texts

    def value(self, cell: bool | float | str, value: float) -> float:
        """Value of a cell that is a number, or a text that may spell one: NaN for one that is a code."""
        return MISSING if self.hides(cell) else self.number(value)

    def number(self, value: float) -> float:
        """Value of a numeric cell: NaN for one that is a code."""
        return MISSING if value in self._values else value

    def numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of an array of numeric cells: `number`, on arrays."""
        return np.where(np.isin(values, list(self._values)), MISSING, values) if self._values else values

    def within(self, lower: int, upper: int) -> list[int]:
        """Whole numbers between two bounds that are codes, ascending."""
        return [int(value) for value in sorted(self._values) if value.is_integer() and lower <= value <= upper]


def _is_number(code: object) -> bool:
    return not isinstance(code, str) or math.isfinite(text_to_number(code))
