"""Columns of truth values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpinfer.schema.cells import IMPOSSIBLE, MISSING, text_to_number
from dpinfer.schema.column import Column, plain_list, refused
from dpinfer.schema.lookup import Lookup, same_spelling

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Boolean"]

Code = str | int | float


@dataclass(frozen=True, eq=False, repr=False)
class Boolean(Column):
    """A column of truth values.

    Parameters
    ----------
    true, false : str, int, float or list of these, optional
        What cells hold for true and for false, such as ``Boolean(true="Yes", false="No")`` or ``Boolean(true=1,
        false=2)``. Both or neither; every other cell is then impossible.
    missing, impossible : "drop", True or False, optional
        Policies; see `Column`.
    missing_codes, label, unit, source : optional
        See `Column`.

    Raises
    ------
    SchemaError
        If only one code is given, one text would stand for two values, or a policy is something else.

    Notes
    -----
    Without codes a cell may be True or False, 0 or 1 (also 0.0 and 1.0), or the text of one of these, in any case.
    Codes match the cells that are spelled the same, as the levels of a `Category` do.

    Examples
    --------
    >>> import numpy as np
    >>> Boolean(missing=False).coerce(np.array(["true", "0", "", "maybe"]))
    array([ 1.,  0.,  0., nan])
    >>> Boolean(true=1, false=2, missing_codes=[9]).coerce(np.array([1, 2, 9, 0]))
    array([ 1.,  0., nan, nan])
    """

    kind: ClassVar[str] = "boolean"

    true: Code | tuple[Code, ...] | None = field(default=None, kw_only=True)
    false: Code | tuple[Code, ...] | None = field(default=None, kw_only=True)

    def _declare(self) -> None:
        if (self.true is None) != (self.false is None):
            name, other = ("true", "false") if self.true is None else ("false", "true")
            raise refused("Boolean", name, None, f"what cells hold for {name}, as {other}= is given")
        for name in ("true", "false"):
            object.__setattr__(self, name, _codes(name, getattr(self, name)))
        texts = [text for text, _ in self._entries()]
        if self.true is not None and len(set(texts)) < len(texts):
            right = "texts that stand for one truth value or for a missing cell, and for nothing else"
            raise refused("Boolean", "true", self.true, right)

    def _entries(self) -> list[tuple[str, float]]:
        found = [("true", 1.0), ("false", 0.0)]
        entries = [(same_spelling(code), value) for name, value in found for code in self.codes_of(name)]
        return [*entries, *((same_spelling(code), MISSING) for code in self.missing_codes)]

    def codes_of(self, name: str) -> tuple[Code, ...]:
        """Codes of ``"true"`` or ``"false"``; empty where none are declared."""
        given = getattr(self, name)
        return () if given is None else given if isinstance(given, tuple) else (given,)

    @cached_property
    def _lookup(self) -> Lookup | None:
        return None if self.true is None else Lookup(tuple(self._entries()))

    def _constant(self, name: str, given: object) -> object:
        if not isinstance(given, bool):
            raise refused("Boolean", name, given, '"drop", True or False')
        return given

    def _policy_value(self, policy: Any) -> float:
        return float(policy)

    def _value(self, cell: bool | float | str) -> float:
        if self._lookup is not None:
            return self._lookup.value(cell)
        value = text_to_number(cell) if isinstance(cell, str) else float(cell)
        value = self._missing.value(cell, value) if self.missing_codes else value
        return value if math.isnan(value) or value in (0.0, 1.0) else IMPOSSIBLE

    def _numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._lookup is not None:
            return self._lookup.numbers(values)
        values = self._missing.numbers(values)
        return np.where((values == 0.0) | (values == 1.0) | np.isnan(values), values, IMPOSSIBLE)

    def cells(self, values: NDArray[np.float64 | np.int64]) -> NDArray[Any]:
        """Return truth values (m,), or the first code of each, as cells."""
        truth = values > 0.5
        if self._lookup is None:
            return truth
        pair = np.empty(2, dtype=object)
        pair[:] = self.codes_of("false")[0], self.codes_of("true")[0]
        return pair[truth.astype(np.intp)]

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw `n` truth values, each with probability one half, shape (n,): bool, or the declared codes as objects."""
        return self.cells(rng.integers(0, 2, size=n))

    @property
    def level_texts(self) -> tuple[str, ...]:
        """``("False", "True")``."""
        return ("False", "True")

    def describe(self) -> str:
        """Name the two values, with their codes."""
        if self.true is None:
            return "False, True"
        return ", ".join(f"{word}: {' or '.join(map(repr, self.codes_of(word.lower())))}" for word in ("False", "True"))

    def _limits(self) -> dict[str, Any]:
        found = {name: self.codes_of(name) for name in ("true", "false") if self.true is not None}
        return {name: list(codes) if len(codes) > 1 else codes[0] for name, codes in found.items()}


def _codes(name: str, given: object) -> Code | tuple[Code, ...] | None:
    if given is None:
        return None
    codes = plain_list("Boolean", name, [given] if isinstance(given, str | int | float | np.generic) else given)
    if not codes:
        raise refused("Boolean", name, [], "at least one code")
    return codes if len(codes) > 1 else codes[0]
