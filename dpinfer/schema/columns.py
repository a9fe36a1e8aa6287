"""The types of columns, `Real`, `Integer`, `Boolean`, `Category` and `Date`, and the classes of their cells.

A column turns cells of any storage into floats. It never raises, warns or prints because of the content of a cell, and
each value depends on its cell alone (see `dpinfer.schema.cells`).
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dpinfer.checks import is_number
from dpinfer.errors import SchemaError, shown, type_of
from dpinfer.schema.cells import (
    IMPOSSIBLE,
    MISSING,
    PER_DAY,
    Coded,
    Lookup,
    Meant,
    complex_to_numbers,
    day_of_cell,
    day_of_text,
    days_of_moments,
    distinct_texts,
    plainest,
    read_cell,
    same_spelling,
    text_to_number,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

Code = str | int | float

DROP = "drop"

_WORDS = ("label", "unit", "source")


def refused(column: str, argument: str, given: object, expected: str) -> SchemaError:
    """Return the error for a wrong argument of a column, with the value given and the values allowed."""
    return SchemaError(f"{column}: {argument}={shown(given)} is not valid: expected {expected}")


def insist(right: object, column: str, argument: str, given: object, expected: str) -> None:
    """Refuse a declaration unless it is ``right``."""
    if not right:
        raise refused(column, argument, given, expected)


def _is_collection(given: object) -> bool:
    """Whether an object is an ordered collection."""
    return np.iterable(given) and not isinstance(given, str | bytes | set | frozenset | dict)


def plain_scalar(value: object) -> object:
    """Convert a numpy scalar to a Python one."""
    return value.item() if isinstance(value, np.generic) else value


def _is_plain(value: object) -> bool:
    """Whether a value is a non-blank text, a finite number or a truth value."""
    cell = read_cell(value) if isinstance(value, str | int | float) else MISSING
    return isinstance(cell, str) or math.isfinite(cell)


def _number(given: object) -> float:
    """Return a finite number as a float; NaN for anything else."""
    value = plain_scalar(given)
    number = is_number(value) and _is_plain(value)
    return float(value) + 0.0 if number else MISSING  # type: ignore[arg-type]


def plain_list(column: str, argument: str, given: Any) -> tuple[Code, ...]:
    """Check a collection of distinct texts and numbers; `SchemaError` if it is invalid.

    A text that spells a number canonically becomes that number; cells are compared by spelling, so the meaning is the
    same.
    """
    right = "a list of texts and finite numbers that are spelled differently"
    insist(_is_collection(given), column, argument, given, right)
    plain: list[Any] = [plain_scalar(one) for one in given]
    usable = all(_is_plain(code) and not isinstance(code, bool) for code in plain)
    insist(usable, column, argument, type_of(given), right)
    codes = tuple(map(plainest, plain))
    insist(len(set(map(same_spelling, codes))) == len(codes), column, argument, list(codes), right)
    return codes


def one_line(column: str, argument: str, given: Any) -> str:
    """Check that an argument is one line of text; `SchemaError` otherwise."""
    right = isinstance(given, str) and len(given.splitlines()) <= 1 and given == given.strip()
    insist(right, column, argument, given, "a text of one line without blanks around it")
    return str.__str__(given)


@dataclass(frozen=True, eq=False, repr=False)
class Column(ABC):
    """The declaration of one column; use `Real`, `Integer`, `Boolean`, `Category` or `Date`.

    Parameters
    ----------
    missing, impossible : "drop" or a constant of the column, optional
        How to treat a missing cell (None, NaN, NaT, NA, blank text) and an impossible one (a value the column cannot
        hold). ``"drop"`` drops the row; a declared constant replaces the cell.
    missing_codes : collection of str, int or float, optional
        Codes of missing cells, such as ``[-9, "NA"]``. Numbers are compared by value, texts by their characters.
    label, unit, source : str, optional
        The column's name in words, its unit of measurement, and the origin of its declaration. They change no number;
        labels and units appear in tables and plots, and releases record all three.
    """

    kind: ClassVar[str]
    _positional: ClassVar[tuple[str, ...]] = ()

    missing: Any = field(default=DROP, kw_only=True)
    impossible: Any = field(default=DROP, kw_only=True)
    missing_codes: tuple[Code, ...] = field(default=(), kw_only=True)
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
            given = plain_scalar(getattr(self, name))
            constant = DROP if isinstance(given, str) and given == DROP else self._constant(name, given)
            object.__setattr__(self, name, constant)

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Column) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        first = self._positional
        declared = {name: value for name, value in self.to_dict().items() if name != "kind" and value != DROP}
        parts = [repr(value) if name in first else f"{name}={value!r}" for name, value in declared.items()]
        return f"{type(self).__name__}({', '.join(parts)})"

    @cached_property
    def _key(self) -> str:
        # JSON tells 1, 1.0, True and "1" apart; comparing the fields would not.
        return json.dumps(self.to_dict())

    @cached_property
    def _hidden(self) -> frozenset[str | float]:
        """Codes of missing cells in columns of numbers: numbers by value, other texts by their characters."""
        values = [text_to_number(code) if isinstance(code, str) else float(code) for code in self.missing_codes]
        pairs = zip(self.missing_codes, values, strict=True)
        return frozenset(value if math.isfinite(value) else str(code).strip() for code, value in pairs)

    def _entries(self) -> Sequence[tuple[str, float]]:
        """Canonical texts and their values, NaN for missing; empty if numbers stand for themselves."""
        levels = [(same_spelling(cell), float(k)) for k, cells in enumerate(self.spellings) for cell in cells]
        hidden = [(same_spelling(code), MISSING) for code in self.missing_codes]
        return [*dict.fromkeys(levels), *hidden] if levels else []

    @property
    def _unambiguous(self) -> bool:
        """Whether no text stands for two values."""
        texts = [text for text, _ in self._entries()]
        return len(set(texts)) == len(texts)

    @cached_property
    def _lookup(self) -> Lookup | None:
        entries = tuple(self._entries())
        return Lookup(entries) if entries else None

    @property
    def measured_in(self) -> str:
        """Return the unit of measurement in words; empty if none is declared."""
        return self.unit

    def caption(self, name: str) -> str:
        """Return the label with the unit, for axes; without a label the name."""
        return (self.label or name) + (f" ({self.measured_in})" if self.measured_in else "")

    @property
    def may_drop(self) -> bool:
        """Whether a row can be dropped because of this column: False if both policies are constants."""
        return DROP in (self.missing, self.impossible)

    @property
    def level_values(self) -> tuple[Any, ...]:
        """The levels, in order; empty for a column without levels."""
        return ()

    @cached_property
    def level_texts(self) -> tuple[str, ...]:
        """The canonical text of each level, in order."""
        return tuple(map(same_spelling, self.level_values))

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds to which coerced values are clamped: declared ones, or those of level indices."""
        return 0.0, float(max(len(self.level_values) - 1, 0))

    @property
    def spellings(self) -> Sequence[tuple[object, ...]]:
        """Return the values that stand for each level in cells; empty if none are declared."""
        return ()

    def level_index(self, values: Array) -> NDArray[np.intp]:
        """Return the indices into `level_texts` of coerced values within the bounds, shape (m,)."""
        return (values - self.limits[0]).astype(np.intp)

    def coerce(self, raw: NDArray[Any] | Coded | Meant) -> Array:
        """Convert cells of any storage to floats (m,), applying the policies but not the bounds.

        A value is the number, 0 or 1, or the level's index; it is **not finite if the row is to be dropped** (NaN,
        except that a float64 array for a `Real` with both policies "drop" is returned unchanged, with its infinities).
        The method never raises or warns because of the cells. A cell's value depends on that cell alone.
        """
        return self.settle(self.meaning(raw))

    def meaning(self, raw: NDArray[Any] | Coded | Meant) -> Array:  # noqa: PLR0911  (a return a storage)
        """Read cells of any storage (m,) without applying the policies: NaN is missing, an infinity impossible."""
        if isinstance(raw, Meant):
            return raw.values
        if not isinstance(raw, Coded) and raw.dtype.kind == "U":
            raw = distinct_texts(raw.tolist())
        if isinstance(raw, Coded):
            return self._read([*raw.values, None])[raw.positions]
        if raw.dtype.kind == "b":
            return self._read([False, True])[raw.astype(np.intp)]
        if raw.dtype.kind in "iuf":
            with np.errstate(all="ignore"):
                return self._numbers(raw.astype(np.float64, copy=False))
        if raw.dtype.kind in "mM":
            return self._moments(raw)
        if raw.dtype.kind == "c":
            return self._numbers(complex_to_numbers(raw))
        return self._read(raw.tolist())

    def _moments(self, raw: NDArray[Any]) -> Array:
        """Values of an array of dates, times or durations: impossible except in a column of dates."""
        return np.where(np.isnat(raw), MISSING, IMPOSSIBLE)

    def _read(self, cells: Iterable[object]) -> Array:
        """Values of cells of any type; a text is the number that it spells, unless it is a code."""
        if self._lookup is not None:
            return np.array([self._lookup.value(read_cell(cell)) for cell in cells], dtype=np.float64)
        found = []
        for cell in map(read_cell, cells):
            if isinstance(cell, str):
                found.append(MISSING if cell.strip() in self._hidden else text_to_number(cell))
            else:
                found.append(float(cell))
        return self._numbers(np.array(found, dtype=np.float64))

    def _numbers(self, values: Array) -> Array:
        """Values of an array of numeric cells."""
        if self._lookup is not None:
            return self._lookup.numbers(values)
        codes = [code for code in self._hidden if isinstance(code, float)]
        return np.where(np.isin(values, codes), MISSING, values) if codes else values

    def settle(self, values: Array) -> Array:
        """Apply the policies to values from `meaning`, in which NaN is missing and an infinity impossible."""
        missing, impossible = (
            MISSING if policy == DROP else self._policy_value(policy) for policy in (self.missing, self.impossible)
        )
        settled = np.where(np.isinf(values), impossible, values)
        return settled if math.isnan(missing) else np.where(np.isnan(values), missing, settled)

    def _policy_value(self, policy: Any) -> float:
        """Value of a policy's constant; finite even if the constant is also a missing code."""
        return float(policy)

    @abstractmethod
    def _declare(self) -> None:
        """Check and normalise the declared bounds or levels."""

    @abstractmethod
    def _constant(self, name: str, given: object) -> object:
        """Check and normalise the constant of a policy."""

    def cells(self, values: NDArray[np.float64 | np.int64]) -> NDArray[Any]:
        """Return cells (m,) that `coerce` turns into these numbers (m,), which are within the bounds."""
        return values

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw `n` cells uniformly within the bounds or among the levels, shape (n,), in the form of `cells`."""
        return self.cells(rng.integers(0, len(self.level_texts), size=n))

    @abstractmethod
    def describe(self) -> str:
        """Return the bounds or levels in a few words, for tables."""

    def with_words_of(self, other: Column) -> Self:
        """Return this column with the label, unit, source and missing codes of another where it has none."""
        names = [name for name in ("missing_codes", *_WORDS) if not getattr(self, name)]
        return replace(self, **{name: getattr(other, name) for name in names})

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as JSON-ready values, which `column_from_dict` reads."""
        given = {"missing_codes": list(self.missing_codes), **{name: getattr(self, name) for name in _WORDS}}
        more = {name: value for name, value in given.items() if value}
        return {"kind": self.kind, **self._declared(), "missing": self.missing, "impossible": self.impossible, **more}

    def _declared(self) -> dict[str, Any]:
        """Return the declared bounds or levels, JSON-ready."""
        return {name: getattr(self, name) for name in self._positional}


_LARGEST_INTEGER = 2**53

_CODED_SHARE = 0.02
"""Share of missing cells among those that are drawn for a column of whole numbers that declares codes of them."""


@dataclass(frozen=True, eq=False, repr=False)
class Real(Column):
    """A column of real numbers within declared bounds.

    Parameters
    ----------
    lower, upper : float
        Public bounds, in the column's unit. Values outside them are clamped when measured.
    missing, impossible : "drop" or a number within the bounds, optional
        Policies; see `Column`.
    missing_codes, label, unit, source : optional
        See `Column`.

    Raises
    ------
    SchemaError
        If a bound is not a finite number, the bounds are not in order, or a policy is invalid.

    Notes
    -----
    Text cells are read if they spell a plain decimal number, true or false; True counts as 1.

    Examples
    --------
    >>> import numpy as np
    >>> Real(0, 100, impossible=0).coerce(np.array([3, "4.5", None, "n/a"], dtype=object))
    array([3. , 4.5, nan, 0. ])
    """

    kind: ClassVar[str] = "real"
    _positional: ClassVar[tuple[str, ...]] = ("lower", "upper")

    lower: float
    upper: float

    @property
    def width(self) -> float:
        """The upper minus the lower bound."""
        return self.upper - self.lower

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds."""
        return float(self.lower), float(self.upper)

    def _declare(self) -> None:
        name = type(self).__name__
        lower, upper = _number(self.lower), _number(self.upper)
        insist(not math.isnan(lower), name, "lower", self.lower, "a finite number")
        insist(not math.isnan(upper), name, "upper", self.upper, "a finite number")
        insist(lower < upper, name, "upper", self.upper, f"a number above lower={self.lower!r}")
        finite = math.isfinite(upper - lower)
        insist(finite, name, "upper", self.upper, "bounds whose difference is a finite number")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    def _constant(self, name: str, given: object) -> object:
        value, right = _number(given), f'"drop" or a number in {self.describe()}'
        insist(self.lower <= value <= self.upper, type(self).__name__, name, given, right)
        return value

    def coerce(self, raw: NDArray[Any] | Coded | Meant) -> Array:
        """Convert cells to floats; see `Column.coerce`."""
        untouched = type(self) is Real and self.missing == self.impossible == DROP and not self.missing_codes
        if untouched and isinstance(raw, np.ndarray) and raw.dtype == np.float64 and raw.dtype.isnative:
            return raw
        return super().coerce(raw)

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw `n` values uniformly within the bounds, shape (n,), float64."""
        u = rng.random(n)
        return np.clip(self.lower * (1.0 - u) + self.upper * u, self.lower, self.upper)

    def describe(self) -> str:
        """Return the bounds, as ``[lower, upper]``."""
        return f"[{self.lower:.15g}, {self.upper:.15g}]"


@dataclass(frozen=True, eq=False, repr=False)
class Integer(Real):
    """A column of whole numbers within declared bounds.

    Parameters
    ----------
    lower, upper : int
        Public bounds, whole numbers of at most 2**53 in absolute value (floats are exact up to there).
    missing, impossible : "drop" or a whole number within the bounds, optional
        Policies; see `Column`. A number that is not whole is impossible.
    missing_codes, label, unit, source : optional
        See `Column`.

    Raises
    ------
    SchemaError
        If a bound is not such a number, the bounds are not in order, or a policy is invalid.

    Examples
    --------
    >>> import numpy as np
    >>> Integer(0, 16).coerce(np.array([12, 8.5, 99]))
    array([12., nan, 99.])
    """

    kind: ClassVar[str] = "integer"

    def _declare(self) -> None:
        super()._declare()
        for name in ("lower", "upper"):
            value = getattr(self, name)
            right = value.is_integer() and abs(value) <= _LARGEST_INTEGER
            insist(right, "Integer", name, value, "a whole number of at most 2**53 in size")
            object.__setattr__(self, name, int(value))
        right, codes = len(self._codes_within) <= self.width, list(self.missing_codes)
        insist(right, "Integer", "missing_codes", codes, "codes that leave a number within bounds")

    @property
    def _codes(self) -> list[int]:
        """Whole numbers that stand for missing cells, ascending."""
        codes = sorted(code for code in self._hidden if isinstance(code, float))
        return [int(code) for code in codes if code.is_integer() and abs(code) <= _LARGEST_INTEGER]

    @property
    def _codes_within(self) -> list[int]:
        """The codes within the bounds."""
        return [code for code in self._codes if self.lower <= code <= self.upper]

    def _constant(self, name: str, given: object) -> object:
        value: Any = super()._constant(name, given)
        insist(value.is_integer(), "Integer", name, given, f'"drop" or a whole number in {self.describe()}')
        return int(value)

    def _numbers(self, values: Array) -> Array:
        values = super()._numbers(values)
        return np.where(np.floor(values) == values, values, np.where(np.isnan(values), MISSING, IMPOSSIBLE))

    def cells(self, values: NDArray[np.float64 | np.int64]) -> NDArray[Any]:
        """Return the nearest whole numbers (m,), as cells."""
        return np.rint(values)

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw `n` whole numbers uniformly within the bounds, shape (n,), int64; about 1 in 50 is a code."""
        within = self._codes_within
        drawn = rng.integers(int(self.lower), int(self.upper) + 1 - len(within), size=n)
        for code in within:  # ascending: those from here on move one up
            drawn += drawn >= code
        if self._codes:
            drawn = np.where(rng.random(n) < _CODED_SHARE, rng.choice(self._codes, n), drawn)
        return drawn

    @property
    def level_values(self) -> tuple[int, ...]:
        """The whole numbers within the bounds; empty if there are more than 100."""
        return tuple(range(int(self.lower), int(self.upper) + 1)) if self.width < 100 else ()


@dataclass(frozen=True, eq=False, repr=False)
class Boolean(Column):
    """A column of truth values.

    Parameters
    ----------
    true, false : str, int, float or list of these, optional
        Codes of true and false in cells, such as ``Boolean(true="Yes", false="No")`` or ``Boolean(true=1, false=2)``.
        Give both or neither; every other cell is then impossible.
    missing, impossible : "drop", True or False, optional
        Policies; see `Column`.
    missing_codes, label, unit, source : optional
        See `Column`.

    Raises
    ------
    SchemaError
        If only one of the two is given, one text would stand for two values, or a policy is invalid.

    Notes
    -----
    Without codes a cell may be True or False, 0 or 1 (also 0.0 and 1.0), or the text of one of these, in upper or lower
    case. Codes match cells with the same spelling, as the levels of a `Category` do.

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
            given = getattr(self, name)
            if given is not None:
                codes = plain_list(
                    "Boolean", name, [given] if isinstance(given, str | int | float | np.generic) else given
                )
                insist(codes, "Boolean", name, [], "at least one code")
                object.__setattr__(self, name, codes if len(codes) > 1 else codes[0])
        right = "texts that stand for one truth value or for a missing cell, and for nothing else"
        insist(self._unambiguous, "Boolean", "true", self.true, right)

    @property
    def spellings(self) -> Sequence[tuple[object, ...]]:
        """Return the codes of false and of true; empty if none are declared."""
        return () if self.true is None else (self.codes_of("false"), self.codes_of("true"))

    def codes_of(self, name: str) -> tuple[Code, ...]:
        """Return the codes of ``"true"`` or ``"false"``; empty if none are declared."""
        given = getattr(self, name)
        return () if given is None else given if isinstance(given, tuple) else (given,)

    def _constant(self, name: str, given: object) -> object:
        insist(isinstance(given, bool), "Boolean", name, given, '"drop", True or False')
        return given

    def _numbers(self, values: Array) -> Array:
        values = super()._numbers(values)
        return np.where((values == 0.0) | (values == 1.0) | np.isnan(values), values, IMPOSSIBLE)

    def cells(self, values: NDArray[np.float64 | np.int64]) -> NDArray[Any]:
        """Return truth values (m,), or the first code of each, as cells."""
        truth = values > 0.5
        if self._lookup is None:
            return truth
        pair = np.empty(2, dtype=object)
        pair[:] = self.codes_of("false")[0], self.codes_of("true")[0]
        return pair[truth.astype(np.intp)]

    @property
    def level_values(self) -> tuple[bool, ...]:
        """False and True."""
        return (False, True)

    def describe(self) -> str:
        """Name the two values, with their codes."""
        if self.true is None:
            return "False, True"
        return ", ".join(f"{word}: {' or '.join(map(repr, self.codes_of(word.lower())))}" for word in ("False", "True"))

    def _declared(self) -> dict[str, Any]:
        found = {name: self.codes_of(name) for name in ("true", "false") if self.true is not None}
        return {name: list(codes) if len(codes) > 1 else codes[0] for name, codes in found.items()}


@dataclass(frozen=True, eq=False, repr=False)
class Category(Column):
    """A column that takes one of a few declared levels.

    Parameters
    ----------
    levels : ordered collection of str, int, float or bool
        Two or more distinct public levels; the first is the reference level of treatment coding.
    codes : list of str, int or float, optional
        Codes of the levels in cells, in the same order, such as ``Category(["female", "male"], codes=[1, 2])``: the
        value labels of a codebook. Cells may also hold the levels themselves.
    missing, impossible : "drop" or a level, optional
        Policies; see `Column`. The text ``"drop"`` always means to drop the row, so a level named "drop" cannot be the
        constant of a policy.
    missing_codes, label, unit, source : optional
        See `Column`.

    Raises
    ------
    SchemaError
        If the levels are unordered, fewer than two, blank, not finite, or spelled the same (1, 1.0 and "1" are one
        level, since a file cannot distinguish them); if codes do not match the levels, or one text would stand for two
        of them or for a missing cell; or if a policy is invalid.

    Notes
    -----
    A cell matches the level with the same spelling: text as it stands, whole numbers as ``"1"`` (so 1, 1.0 and "1" all
    match), other numbers as the shortest decimal, truth values as ``"True"``. A cell without a match is compared again
    with numbers and truth values normalised (``"1.0"`` and ``"01"`` as ``"1"``, ``"true"`` as ``"True"``), if that
    leaves only one level: the text of a number means the number.

    Examples
    --------
    >>> import numpy as np
    >>> Category(["a", "b", 3]).coerce(np.array(["b", 3.0, "3", "z", None], dtype=object))
    array([ 1.,  2.,  2., nan, nan])
    """

    kind: ClassVar[str] = "category"
    _positional: ClassVar[tuple[str, ...]] = ("levels",)

    levels: tuple[str | int | float | bool, ...]
    codes: tuple[Code, ...] = field(default=(), kw_only=True)

    @classmethod
    def from_dtype(cls, dtype: object, *, source: str, **options: Any) -> Category:
        """Create a Category with the levels of a declared type from a public source.

        The levels of a categorical type usually come from rows, and are then confidential data. State where they were
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
            If no source is stated, the type has no levels, or they are not valid for a `Category`.

        Examples
        --------
        >>> import pandas as pd
        >>> Category.from_dtype(pd.CategoricalDtype(["low", "high"]), source="questionnaire of 2024, question 7")
        Category(['low', 'high'], source='questionnaire of 2024, question 7')
        """
        expected = "where the levels were published, for what is found in rows is data"
        insist(source and one_line("Category", "source", source), "Category", "source", source, expected)
        levels: Any = getattr(dtype, "categories", None)
        known = type(dtype).__name__ in ("CategoricalDtype", "Enum") and levels is not None
        expected = "a pandas CategoricalDtype or a Polars Enum with levels"
        insist(known, "Category", "dtype", type_of(dtype), expected)
        try:
            return cls(list(levels), source=source, **options)  # type: ignore[arg-type]
        except SchemaError:
            right = "levels that are texts, finite numbers or truth values, two or more, that are spelled differently"
        raise refused("Category", "dtype", type_of(dtype), right)

    def _declare(self) -> None:
        insist(_is_collection(self.levels), "Category", "levels", self.levels, "an ordered collection such as a list")
        levels = tuple(plain_scalar(level) for level in self.levels)
        for level in levels:
            right = "each level a non-blank text, a finite number or a bool"
            insist(_is_plain(level), "Category", "levels", level, right)
        object.__setattr__(self, "levels", levels)
        insist(len(levels) > 1, "Category", "levels", list(levels), "at least two levels")
        different = len(set(self.level_texts)) == len(levels)
        insist(different, "Category", "levels", list(levels), "levels that are spelled differently")
        object.__setattr__(self, "codes", plain_list("Category", "codes", self.codes))
        each = len(self.codes) in (0, len(levels))
        insist(each, "Category", "codes", list(self.codes), f"a code for each of the {len(levels)} levels")
        given = "codes" if self.codes else "missing_codes"
        right = "texts that stand for one level or for a missing cell, and for nothing else"
        insist(self._unambiguous, "Category", given, list(getattr(self, given)), right)

    @property
    def level_values(self) -> tuple[str | int | float | bool, ...]:
        """The levels."""
        return self.levels

    @property
    def spellings(self) -> Sequence[tuple[object, ...]]:
        """Return each level with its code."""
        return tuple(zip(self.levels, self.codes or self.levels, strict=True))

    def find(self, level: object) -> int | None:
        """Return the index of a level in any spelling that a cell may have; None if it is not a level."""
        value = self._read([level])[0]
        return int(value) if math.isfinite(value) else None

    def _constant(self, name: str, given: object) -> object:
        index = self.find(given) if isinstance(given, str | int | float) else None
        if index is None:
            raise refused("Category", name, given, f'"drop" or one of the levels {list(self.levels)!r}')
        return self.levels[index]

    def _policy_value(self, policy: Any) -> float:
        return float(self.level_texts.index(same_spelling(policy)))

    def cells(self, values: NDArray[np.float64 | np.int64]) -> NDArray[Any]:
        """Return the levels at given indices (m,), as cells."""
        levels = np.empty(len(self.levels), dtype=object)
        levels[:] = self.levels
        return levels[values.astype(np.intp)]

    def describe(self) -> str:
        """Name the first levels and the number of levels."""
        shown = ", ".join(map(repr, self.levels[:6]))
        return shown if len(self.levels) <= 6 else f"{shown}, ... ({len(self.levels)} levels)"

    def _declared(self) -> dict[str, Any]:
        levels = {"levels": list(self.levels)}
        return {**levels, "codes": list(self.codes)} if self.codes else levels


@dataclass(frozen=True, eq=False, repr=False)
class Date(Real):
    """A column of dates, or of dates with a time, within declared bounds.

    Its value is the number of days since ``first``, with the time of day as a fraction.

    Parameters
    ----------
    first, last : datetime.date, datetime.datetime or str
        Public bounds; a text is in ISO 8601, such as ``"2024-01-31"``. Dates outside them are clamped when measured.
    missing, impossible : "drop" or a date within the bounds, optional
        Policies; see `Column`.
    missing_codes, label, unit, source : optional
        See `Column`. Codes are texts or numbers that stand for a missing date, such as ``"9999-12-31"``.

    Raises
    ------
    SchemaError
        If a bound is not a date, the bounds are not in order, or a policy is invalid.

    Notes
    -----
    A cell may be a date or a time of Python, numpy, pandas, Polars or Arrow, or its text in ISO 8601. Times with a zone
    are converted to UTC, others are used unchanged. A number is impossible, since its origin is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> Date("2024-01-01", "2024-12-31").coerce(np.array(["2024-01-02", "2024-01-01T12:00", "soon", 3], dtype=object))
    array([1. , 0.5, nan, nan])
    """

    kind: ClassVar[str] = "date"
    _positional: ClassVar[tuple[str, ...]] = ("first", "last")

    lower: float = field(init=False)
    upper: float = field(init=False)
    first: date | str
    last: date | str

    @property
    def measured_in(self) -> str:
        """Return the unit in words: days, unless another is declared."""
        return self.unit or f"days since {self.first}"

    @property
    def origin(self) -> float:
        """The days from 1970-01-01 to ``first``."""
        return float(days_of_moments(np.asarray(np.datetime64(str(self.first)))))

    def _declare(self) -> None:
        for name in ("first", "last"):
            object.__setattr__(self, name, _iso_text(name, getattr(self, name)))
        object.__setattr__(self, "lower", 0.0)
        object.__setattr__(self, "upper", self._policy_value(self.last))
        insist(self.lower < self.upper, "Date", "last", self.last, f"a date after first={self.first!r}")

    def _constant(self, name: str, given: object) -> object:
        right = f'"drop" or a date in {self.describe()}'
        text = _iso_text(name, given, right)
        insist(0.0 <= self._policy_value(text) <= self.upper, "Date", name, given, right)
        return text

    def _policy_value(self, policy: Any) -> float:
        return float(days_of_moments(np.asarray(np.datetime64(policy)))) - self.origin

    def _moments(self, raw: NDArray[Any]) -> Array:
        if raw.dtype.kind == "m":
            return super()._moments(raw)
        with np.errstate(all="ignore"):
            return self._since(days_of_moments(raw))

    def _read(self, cells: Iterable[object]) -> Array:
        return self._since(np.array([self._day(cell) for cell in cells], dtype=np.float64))

    def _day(self, cell: object) -> float:
        """Days from 1970-01-01 of any cell; NaN if it is missing, an infinity if it is not a date."""
        day = day_of_cell(cell)
        if day is not None:
            return day
        known = read_cell(cell)
        if isinstance(known, str):
            return MISSING if known.strip() in self._hidden else day_of_text(known)
        return MISSING if math.isnan(known) or known in self._hidden else IMPOSSIBLE

    def _numbers(self, values: Array) -> Array:
        return np.where(np.isnan(super()._numbers(values)), MISSING, IMPOSSIBLE)

    def _since(self, days: Array) -> Array:
        """Convert days since 1970 to days since ``first``; dates that are missing codes become NaN."""
        codes = [day_of_text(code) for code in self.missing_codes if isinstance(code, str)]
        return np.where(np.isin(days, [code for code in codes if np.isfinite(code)]), MISSING, days - self.origin)

    def cells(self, values: NDArray[np.float64 | np.int64]) -> NDArray[Any]:
        """Return the times (m,) at these days after ``first``, to the microsecond."""
        return np.datetime64(str(self.first), "us") + np.rint(values * PER_DAY["us"]).astype("m8[us]")

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw `n` times uniformly within the bounds, shape (n,), datetime64."""
        return self.cells(super().sample(n, rng))

    def describe(self) -> str:
        """Return the bounds, as ``[first, last]``."""
        return f"[{self.first}, {self.last}]"


def _iso_text(name: str, given: object, right: str = 'a date, or its text such as "2024-01-31"') -> str:
    """Write a declared date or time canonically in ISO 8601, without a zone."""
    value = day_of_text(given) if isinstance(given, str) else day_of_cell(given)
    if value is None or not np.isfinite(value):
        raise refused("Date", name, given, right)
    moment = np.datetime64(0, "us") + np.rint(value * PER_DAY["us"]).astype("m8[us]")
    text = str(moment.astype("M8[s]") if moment == moment.astype("M8[s]") else moment)
    return text.removesuffix("T00:00:00")


def column_from_dict(declaration: Mapping[str, Any]) -> Column:
    """Read the output of `Column.to_dict`; `SchemaError` for anything else."""
    kinds: dict[str, type[Column]] = {c.kind: c for c in (Real, Integer, Boolean, Category, Date)}
    entries = dict(declaration)
    kind = entries.pop("kind", None)
    insist(kind in list(kinds), "column", "kind", kind, "one of " + ", ".join(map(repr, kinds)))
    try:
        return kinds[kind](**entries)
    except TypeError as error:
        raise SchemaError(f"the declaration of a {kind} column is incomplete or has unknown entries") from error


def clamped_values(
    schema: Mapping[str, Any], names: Iterable[str], raw: Mapping[str, NDArray[Any] | Coded], count: int
) -> tuple[dict[str, Array], NDArray[np.bool_]]:
    """Coerce and clamp cells of columns, and mark the rows with a number in all of them."""
    values: dict[str, Array] = {}
    keep = np.ones(count, dtype=bool)
    for name in names:
        cells = schema[name].coerce(raw[name])
        finite = np.isfinite(cells)
        keep &= finite
        values[name] = clamped(cells, finite, schema[name].limits)
    return values, keep


def clamped(cells: Array, finite: NDArray[np.bool_], limits: tuple[float, float]) -> Array:
    """Clamp coerced cells (m,); those that are not ``finite`` to the lower bound."""
    values: Array = np.clip(cells, *limits)
    np.copyto(values, limits[0], where=~finite)
    return values


CELL_CLASSES = ("valid", "clamped low", "clamped high", "missing", "impossible", "unknown level")
VALID, LOW, HIGH, MISSING_CELL, IMPOSSIBLE_CELL, UNKNOWN = CELL_CLASSES

ROWS_KEPT = "rows kept"
"""Rows without a cell that drops them."""


def cell_classes(column: Column) -> tuple[str, ...]:
    """Return the classes of a column's cells: numbers and dates have bounds, a Category has levels."""
    if isinstance(column, Real):
        return (VALID, LOW, HIGH, MISSING_CELL, IMPOSSIBLE_CELL)
    return (VALID, MISSING_CELL, UNKNOWN if isinstance(column, Category) else IMPOSSIBLE_CELL)


def class_places(column: Column, values: Array) -> NDArray[np.intp]:
    """Return the index in `cell_classes` of each cell (m,), from the column's `meaning` of it."""
    listed, (lower, upper) = cell_classes(column), column.limits
    known, lacking = np.isfinite(values), np.isnan(values)
    places = np.where(known, listed.index(VALID), np.where(lacking, listed.index(MISSING_CELL), len(listed) - 1))
    if LOW in listed:
        places[known & (values < lower)] = listed.index(LOW)
        places[known & (values > upper)] = listed.index(HIGH)
    return places


def octave_ends(column: Column, least: int, most: int) -> Array:
    """Return the ends of a column's octaves: its bounds, and the values plus and minus 2^k between them.

    The exponents run from ``least`` to ``most``; those of whole numbers from 0.
    """
    lower, upper = column.limits
    first = max(least, 0) if isinstance(column, Integer) else least
    powers = np.exp2(np.arange(first, max(most, first) + 1, dtype=np.float64))
    inner = np.concatenate([-powers[::-1], powers])
    return np.concatenate([[lower], inner[(inner > lower) & (inner < upper)], [upper]])
