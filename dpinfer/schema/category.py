"""Columns that take one of a few declared levels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpinfer.schema.cells import IMPOSSIBLE, MISSING, normal_text, number_text, read_cell
from dpinfer.schema.column import Column, plain_scalar, refused

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Category"]


@dataclass(frozen=True, eq=False, repr=False)
class Category(Column):
    """A column that takes one of a few declared levels.

    Parameters
    ----------
    levels : ordered collection of str, int, float or bool
        Two or more distinct public levels; the first is the reference level of treatment coding.
    missing, impossible : "drop" or a level, optional
        Policies; see `Column`. The text ``"drop"`` always means to drop the row, so a level that is spelled
        "drop" cannot be the constant of a policy.

    Raises
    ------
    SchemaError
        If the levels have no order, are fewer than two, blank, not finite, or spelled the same (1, 1.0 and
        "1" are one level, for a reader of files cannot tell them apart), or a policy is neither.

    Notes
    -----
    A cell matches the level that is spelled the same: text as it is, whole numbers as ``"1"`` (so 1, 1.0 and
    "1" all match), other numbers as the shortest decimal, truth values as ``"True"``. A cell that matches
    none is compared once more with numbers and truth values normalised (``"1.0"`` and ``"01"`` as ``"1"``,
    ``"true"`` as ``"True"``), where that leaves one level only: the text of a number means the number.

    Examples
    --------
    >>> import numpy as np
    >>> Category(["a", "b", 3]).coerce(np.array(["b", 3.0, "3", "z", None], dtype=object))
    array([ 1.,  2.,  2., nan, nan])
    """

    kind: ClassVar[str] = "category"

    levels: tuple[str | int | float | bool, ...]

    def _declare(self) -> None:
        if isinstance(self.levels, str | bytes | set | frozenset | dict) or not np.iterable(self.levels):
            raise refused("Category", "levels", self.levels, "an ordered collection such as a list")
        levels = tuple(plain_scalar(level) for level in self.levels)
        for level in levels:
            cell = read_cell(level) if isinstance(level, str | int | float) else MISSING
            if not isinstance(cell, str) and not math.isfinite(cell):
                raise refused("Category", "levels", level, "each level a non-blank text, a finite number or a bool")
        object.__setattr__(self, "levels", levels)
        if len(levels) < 2:
            raise refused("Category", "levels", list(levels), "at least two levels")
        if len(set(self.level_texts)) < len(levels):
            raise refused("Category", "levels", list(levels), "levels that are spelled differently")

    @property
    def level_texts(self) -> tuple[str, ...]:
        """Canonical text of each level, in order."""
        return tuple(_spelled(read_cell(level)) for level in self.levels)

    def find(self, level: object) -> int | None:
        """Index of a level, given in any spelling that a cell may have; None if it is no level."""
        value = self._value(read_cell(plain_scalar(level)))
        return int(value) if math.isfinite(value) else None

    @cached_property
    def _by_text(self) -> dict[str, float]:
        return {text: float(i) for i, text in enumerate(self.level_texts)}

    @cached_property
    def _by_normal_text(self) -> dict[str, float]:
        normal = [normal_text(text) for text in self.level_texts]
        return {n: float(i) for i, n in enumerate(normal) if n is not None and normal.count(n) == 1}

    @cached_property
    def _number_table(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The numbers that match a level, ascending, and the index that each matches."""
        spelled = [normal_text(text) for text in self.level_texts]
        numbers = {float(n) for n in spelled if n is not None and n not in ("True", "False")}
        keys = np.array(sorted(numbers), dtype=np.float64)
        return keys, np.array([self._value(key) for key in keys.tolist()], dtype=np.float64)

    def _constant(self, name: str, given: object) -> object:
        index = self.find(given) if isinstance(given, str | int | float) else None
        if index is None:
            raise refused("Category", name, given, f'"drop" or one of the levels {list(self.levels)!r}')
        return self.levels[index]

    def _value(self, cell: bool | float | str) -> float:
        if not isinstance(cell, str) and not math.isfinite(cell):
            return float(cell)
        text = _spelled(cell)
        found = self._by_text.get(text)
        if found is None:
            found = self._by_normal_text.get(normal_text(text) or "")
        return IMPOSSIBLE if found is None else found

    def _numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        keys, indices = self._number_table
        unmatched = np.where(np.isnan(values), MISSING, IMPOSSIBLE)
        if not keys.size:
            return unmatched
        place = np.minimum(np.searchsorted(keys, values), keys.size - 1)
        return np.where(keys[place] == values, indices[place], unmatched)

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw `n` levels with equal probabilities, shape (n,), object."""
        levels = np.empty(len(self.levels), dtype=object)
        levels[:] = self.levels
        return levels[rng.integers(0, len(levels), size=n)]

    def describe(self) -> str:
        """Name the first levels, and how many there are."""
        shown = ", ".join(map(repr, self.levels[:6]))
        return shown if len(self.levels) <= 6 else f"{shown}, ... ({len(self.levels)} levels)"

    def _limits(self) -> dict[str, Any]:
        return {"levels": list(self.levels)}


def _spelled(cell: bool | float | str) -> str:
    if isinstance(cell, str):
        return cell
    return str(cell) if isinstance(cell, bool) else number_text(cell)
