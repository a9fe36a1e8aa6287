"""What every column has: policies, the reading of cells, and the checks of declarations."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dpinfer.errors import SchemaError, shown, type_of
from dpinfer.schema.cells import IMPOSSIBLE, MISSING, Coded, Meant, complex_to_numbers, distinct_texts, read_cell
from dpinfer.schema.lookup import MissingCodes, plainest, spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    _Done = Callable[[NDArray[np.float64]], NDArray[np.float64]]

__all__ = ["DROP", "Column", "finite_number", "one_line", "plain_list", "plain_scalar", "refused"]

DROP = "drop"

_WORDS = ("label", "unit", "source")


def refused(column: str, argument: str, given: object, right: str) -> SchemaError:
    """Say which argument of a column is wrong, what was given, and what is right."""
    return SchemaError(f"{column}: {argument}={shown(given)} is not valid: expected {right}")


def plain_scalar(value: object) -> object:
    """Replace a numpy scalar by Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def finite_number(column: str, argument: str, given: object) -> float:
    """Check that an argument is a finite number; `SchemaError` if it is not."""
    value = plain_scalar(given)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refused(column, argument, given, "a finite number")
    number = read_cell(value)
    if not math.isfinite(number):  # type: ignore[arg-type]
        raise refused(column, argument, given, "a finite number")
    return float(number) + 0.0


def plain_list(column: str, argument: str, given: object) -> tuple[str | int | float, ...]:
    """Check a collection of texts and numbers that are spelled differently; `SchemaError` if it is none.

    What spells a number canonically becomes that number: cells are compared by their spelling, so it means the same.
    """
    right = "a list of texts and finite numbers that are spelled differently"
    if isinstance(given, str | bytes | set | frozenset | dict) or not np.iterable(given):
        raise refused(column, argument, given, right)
    codes = tuple(plain_scalar(one) for one in given)
    for code in codes:
        cell = read_cell(code) if isinstance(code, str | int | float) and not isinstance(code, bool) else MISSING
        if not isinstance(cell, str) and not math.isfinite(cell):
            raise refused(column, argument, type_of(given), right)
    codes = tuple(plainest(code) for code in codes)  # type: ignore[arg-type]
    if len({spelled(read_cell(code)) for code in codes}) < len(codes):
        raise refused(column, argument, list(codes), right)
    return codes  # type: ignore[return-value]


def one_line(column: str, argument: str, given: object) -> str:
    """Check that an argument is a text of one line; `SchemaError` if it is none."""
    if not isinstance(given, str) or len(given.splitlines()) > 1 or given != given.strip():
        raise refused(column, argument, given, "a text of one line without blanks around it")
    return str.__str__(given)


@dataclass(frozen=True, eq=False, repr=False)
class Column(ABC):
    """What is declared about one column. Use `Real`, `Integer`, `Boolean`, `Category` or `Date`.

    Parameters
    ----------
    missing, impossible : "drop" or a constant of the column, optional
        What becomes of a missing cell (None, NaN, NaT, NA, blank text) and of an impossible one (a value the
        column cannot hold). ``"drop"`` drops the row; a declared constant takes the cell's place.
    missing_codes : collection of str, int or float, optional
        Cells that stand for a missing one, such as ``[-9, "NA"]``. Numbers are compared by their value, texts by
        their characters.
    label, unit, source : str, optional
        What the column is in words, its unit of measurement, and where its declaration comes from. They change no
        number; labels and units stand in tables and plots, and releases record all three.
    """

    kind: ClassVar[str]
    _positional: ClassVar[tuple[str, ...]] = ()

    missing: Any = field(default=DROP, kw_only=True)
    impossible: Any = field(default=DROP, kw_only=True)
    missing_codes: tuple[str | int | float, ...] = field(default=(), kw_only=True)
    label: str = field(default="", kw_only=True)
    unit: str = field(default="", kw_only=True)
    source: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        codes = plain_list(type(self).__name__, "missing_codes", self.missing_codes)
        object.__setattr__(self, "missing_codes", codes)
        for name in _WORDS:
            object.__setattr__(self, name, one_line(type(self).__name__, name, getattr(self, name)))
        self._declare()
        for name in ("missing", "impossible"):
            object.__setattr__(self, name, self._policy(name, getattr(self, name)))

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Column) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        declared = self.to_dict()
        shown = [repr(declared[name]) for name in declared if name in self._positional]
        named = [name for name in declared if name not in ("kind", *self._positional)]
        shown += [f"{name}={declared[name]!r}" for name in named if declared[name] != DROP]
        return f"{type(self).__name__}({', '.join(shown)})"

    @cached_property
    def _key(self) -> str:
        # JSON tells 1, 1.0, True and "1" apart; comparing the fields would not.
        return json.dumps(self.to_dict())

    @cached_property
    def _missing(self) -> MissingCodes:
        return MissingCodes(self.missing_codes)

    def _policy(self, name: str, given: object) -> object:
        given = plain_scalar(given)
        return DROP if isinstance(given, str) and given == DROP else self._constant(name, given)

    @property
    def measured_in(self) -> str:
        """The unit of measurement in words; empty if none is declared."""
        return self.unit

    def caption(self, name: str) -> str:
        """Write the label with the unit, for axes; the name where there is no label."""
        return (self.label or name) + (f" ({self.measured_in})" if self.measured_in else "")

    @property
    def may_drop(self) -> bool:
        """Whether a row can be dropped because of this column: False if both policies are constants."""
        return any(isinstance(p, str) and p == DROP for p in (self.missing, self.impossible))

    @property
    def level_texts(self) -> tuple[str, ...]:
        """Canonical text of each level, in order; empty for a column that has no levels."""
        return ()

    def level_index(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Index into `level_texts` of coerced values that are within the bounds, shape (m,)."""
        return (values - float(getattr(self, "lower", 0.0))).astype(np.intp)

    def coerce(self, raw: NDArray[Any] | Coded | Meant) -> NDArray[np.float64]:
        """Turn cells of any storage into floats (m,), with the policies applied. Bounds are not applied.

        The number, 0 or 1, or the level's index; **not finite where the row is to be dropped** (NaN, except that a
        float64 array for a `Real` with both policies "drop" comes back as it is, with its infinities). Never raises or
        warns whatever the cells hold. A cell's value depends on that cell alone.
        """
        return self._each(raw, self.settle)

    def meaning(self, raw: NDArray[Any] | Coded | Meant) -> NDArray[np.float64]:
        """Read cells of any storage (m,) without the policies: NaN is missing, an infinity impossible."""
        return self._each(raw, lambda values: values)

    def _each(self, raw: NDArray[Any] | Coded | Meant, done: _Done) -> NDArray[np.float64]:  # noqa: PLR0911  (a return a storage)
        """Read cells of any storage; to distinct values of text and codes is ``done`` once what is done."""
        if isinstance(raw, Meant):
            return done(raw.values)
        if isinstance(raw, Coded):
            return done(self._read([*raw.values, None]))[raw.positions]
        if raw.dtype.kind == "U":
            coded = distinct_texts(raw.tolist())
            return done(self._read([*coded.values, None]))[coded.positions]
        if raw.dtype.kind == "b":
            return done(self._read([False, True]))[raw.astype(np.intp)]
        if raw.dtype.kind in "iuf":
            with np.errstate(all="ignore"):
                return done(self._numbers(raw.astype(np.float64, copy=False)))
        if raw.dtype.kind in "mM":
            return done(self._moments(raw))
        if raw.dtype.kind == "c":
            return done(self._numbers(complex_to_numbers(raw)))
        return done(self._read(raw.tolist()))

    def _moments(self, raw: NDArray[Any]) -> NDArray[np.float64]:
        """Values of an array of dates, times or durations: impossible, but for a column of dates."""
        return np.where(np.isnat(raw), MISSING, IMPOSSIBLE)

    def _read(self, cells: Iterable[object]) -> NDArray[np.float64]:
        return np.array([self._value(read_cell(cell)) for cell in cells], dtype=np.float64)

    def settle(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Apply the policies to what `meaning` gives: values in which NaN is missing and an infinity impossible."""
        missing, impossible = self._coded(self.missing), self._coded(self.impossible)
        settled = np.where(np.isinf(values), impossible, values)
        return settled if math.isnan(missing) else np.where(np.isnan(values), missing, settled)

    def _coded(self, policy: object) -> float:
        return MISSING if isinstance(policy, str) and policy == DROP else self._policy_value(policy)

    @abstractmethod
    def _policy_value(self, policy: Any) -> float:
        """Value of a policy's constant: finite, whatever cells stand for missing ones."""

    @abstractmethod
    def _declare(self) -> None:
        """Check and normalise the declared bounds or levels."""

    @abstractmethod
    def _constant(self, name: str, given: object) -> object:
        """Check and normalise the constant of a policy."""

    @abstractmethod
    def _value(self, cell: bool | float | str) -> float:
        """Value of one cell as `read_cell` gives it."""

    @abstractmethod
    def _numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of an array of numeric cells: `_value`, on arrays."""

    def cells(self, values: NDArray[np.float64]) -> NDArray[Any]:
        """Return cells (m,) that `coerce` turns into these numbers (m,), which are within the bounds."""
        return values

    @abstractmethod
    def sample(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw `n` values uniformly within the bounds or among the levels, shape (n,)."""

    @abstractmethod
    def describe(self) -> str:
        """Bounds or levels in a few words, for tables."""

    def with_words_of(self, other: Column) -> Self:
        """Take over label, unit, source and missing codes of another column where this one gives none."""
        names = [name for name in ("missing_codes", *_WORDS) if not getattr(self, name)]
        return replace(self, **{name: getattr(other, name) for name in names})

    def to_dict(self) -> dict[str, Any]:
        """Give the declaration as JSON-ready values; `column_from_dict` reads it back."""
        given = {"missing_codes": list(self.missing_codes), **{name: getattr(self, name) for name in _WORDS}}
        more = {name: value for name, value in given.items() if value}
        return {"kind": self.kind, **self._limits(), "missing": self.missing, "impossible": self.impossible, **more}

    def _limits(self) -> dict[str, Any]:
        return {}
