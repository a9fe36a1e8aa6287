"""Columns that take one of a few declared levels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpinfer.errors import SchemaError, type_of
from dpinfer.schema.cells import MISSING, read_cell
from dpinfer.schema.column import Column, one_line, plain_list, plain_scalar, refused
from dpinfer.schema.lookup import Lookup, same_spelling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["Category"]


@dataclass(frozen=True, eq=False, repr=False)
class Category(Column):
    """A column that takes one of a few declared levels.

    Parameters
    ----------
    levels : ordered collection of str, int, float or bool
        Two or more distinct public levels; the first is the reference level of treatment coding.
    codes : list of str, int or float, optional
        What cells hold instead of each level, in the same order, such as ``Category(["female", "male"],
        codes=[1, 2])``: the value labels of a codebook. The levels themselves are read, too.
    missing, impossible : "drop" or a level, optional
        Policies; see `Column`. The text ``"drop"`` always means to drop the row, so a level that is spelled
        "drop" cannot be the constant of a policy.
    missing_codes, label, unit, source : optional
        See `Column`.

    Raises
    ------
    SchemaError
        If the levels have no order, are fewer than two, blank, not finite, or spelled the same (1, 1.0 and
        "1" are one level, for a reader of files cannot tell them apart), if codes do not match the levels or one text
        would stand for two of them or for a missing cell, or a policy is neither.

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
    _positional: ClassVar[tuple[str, ...]] = ("levels",)

    levels: tuple[str | int | float | bool, ...]
    codes: tuple[str | int | float, ...] = field(default=(), kw_only=True)

    @classmethod
    def from_dtype(cls, dtype: object, *, source: str, **options: Any) -> Category:
        """Take the levels of a declared type, whose source is public.

        Levels of a categorical type are usually what somebody found in rows, and so data. State where they were
        published: a codebook, a questionnaire, a standard. Releases record it.

        Parameters
        ----------
        dtype : pandas.CategoricalDtype or polars.Enum
        source : str
            The public source of the levels, such as ``"codebook 2024, page 7"``.
        **options
            Other arguments of `Category`.

        Raises
        ------
        SchemaError
            If no source is stated, the type has no levels, or they are no levels of a `Category`.

        Examples
        --------
        >>> import pandas as pd
        >>> Category.from_dtype(pd.CategoricalDtype(["low", "high"]), source="questionnaire of 2024, question 7")
        Category(['low', 'high'], source='questionnaire of 2024, question 7')
        """
        if not isinstance(source, str) or not one_line("Category", "source", source):
            raise refused(
                "Category", "source", source, "where the levels were published, for what is found in rows is data"
            )
        kind = type(dtype)
        levels = getattr(dtype, "categories", None)
        if kind.__name__ not in ("CategoricalDtype", "Enum") or levels is None:
            raise refused("Category", "dtype", type_of(dtype), "a pandas CategoricalDtype or a Polars Enum with levels")
        try:
            return cls(list(levels), source=source, **options)  # type: ignore[arg-type]
        except SchemaError:
            right = "levels that are texts, finite numbers or truth values, two or more, that are spelled differently"
        raise refused("Category", "dtype", type_of(dtype), right)

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
        object.__setattr__(self, "codes", plain_list("Category", "codes", self.codes))
        if self.codes and len(self.codes) != len(levels):
            raise refused("Category", "codes", list(self.codes), f"a code for each of the {len(levels)} levels")
        texts = [text for text, _ in self._entries()]
        if len(set(texts)) < len(texts):
            given = "codes" if self.codes else "missing_codes"
            right = "texts that stand for one level or for a missing cell, and for nothing else"
            raise refused("Category", given, list(getattr(self, given)), right)

    @property
    def level_texts(self) -> tuple[str, ...]:
        """Canonical text of each level, in order."""
        return tuple(same_spelling(level) for level in self.levels)

    def find(self, level: object) -> int | None:
        """Index of a level, given in any spelling that a cell may have; None if it is no level."""
        value = self._value(read_cell(plain_scalar(level)))
        return int(value) if math.isfinite(value) else None

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(tuple(self._entries()))

    def _entries(self) -> Iterator[tuple[str, float]]:
        for index, text in enumerate(self.level_texts):
            yield text, float(index)
        for index, code in enumerate(self.codes):
            if same_spelling(code) != self.level_texts[index]:
                yield same_spelling(code), float(index)
        for code in self.missing_codes:
            yield same_spelling(code), MISSING

    def _constant(self, name: str, given: object) -> object:
        index = self.find(given) if isinstance(given, str | int | float) else None
        if index is None:
            raise refused("Category", name, given, f'"drop" or one of the levels {list(self.levels)!r}')
        return self.levels[index]

    def _policy_value(self, policy: Any) -> float:
        return float(self.level_texts.index(same_spelling(policy)))

    def _value(self, cell: bool | float | str) -> float:
        return self._lookup.value(cell)

    def _numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._lookup.numbers(values)

    def cells(self, values: NDArray[np.float64 | np.int64]) -> NDArray[Any]:
        """Return the levels of indices (m,), as cells."""
        levels = np.empty(len(self.levels), dtype=object)
        levels[:] = self.levels
        return levels[values.astype(np.intp)]

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw `n` levels with equal probabilities, shape (n,), object."""
        return self.cells(rng.integers(0, len(self.levels), size=n))

    def describe(self) -> str:
        """Name the first levels, and how many there are."""
        shown = ", ".join(map(repr, self.levels[:6]))
        return shown if len(self.levels) <= 6 else f"{shown}, ... ({len(self.levels)} levels)"

    def _limits(self) -> dict[str, Any]:
        levels = {"levels": list(self.levels)}
        return {**levels, "codes": list(self.codes)} if self.codes else levels
