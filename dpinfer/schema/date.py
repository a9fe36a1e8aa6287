"""Columns of dates and times, as numbers of days."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timezone
from typing import TYPE_CHECKING, Any, ClassVar
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from dpinfer.schema.cells import IMPOSSIBLE, MISSING, read_cell
from dpinfer.schema.column import refused
from dpinfer.schema.real import Real

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

__all__ = ["Date"]

_PER_DAY = {"D": 1, "h": 24, "m": 1440, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_DAYS_OR_MORE = ("Y", "M", "W")
_TIME = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
_ISO = re.compile(rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[T ]{_TIME})?")


@dataclass(frozen=True, eq=False, repr=False)
class Date(Real):
    """A column of dates, or of dates with a time, within declared bounds.

    It enters as a number: days since ``first``, with the time of day as a fraction.

    Parameters
    ----------
    first, last : datetime.date, datetime.datetime or str
        Public bounds; a text is written as in ISO 8601, such as ``"2024-01-31"``. Dates beyond them are clamped when
        they are measured.
    missing, impossible : "drop" or a date within the bounds, optional
        Policies; see `Column`.
    missing_codes, label, unit, source : optional
        See `Column`. Codes are the texts or numbers that stand for a missing date, such as ``"9999-12-31"``.

    Raises
    ------
    SchemaError
        If a bound is no date, the bounds are not in order, or a policy is neither.

    Notes
    -----
    A cell may be a date or a time of Python, numpy, pandas, Polars or Arrow, or the text of one in ISO 8601. Times with
    a zone count in UTC, others as they are. A number is impossible, for nothing says from when it counts.

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
        """The unit in words: days, unless another is declared."""
        return self.unit or f"days since {self.first}"

    @property
    def origin(self) -> float:
        """Days from 1970-01-01 to ``first``."""
        return _days(np.datetime64(str(self.first)))

    def _declare(self) -> None:
        for name in ("first", "last"):
            object.__setattr__(self, name, _declared(name, getattr(self, name)))
        object.__setattr__(self, "lower", 0.0)
        object.__setattr__(self, "upper", _days(np.datetime64(str(self.last))) - self.origin)
        if not self.lower < self.upper:
            raise refused("Date", "last", self.last, f"a date after first={self.first!r}")

    def _constant(self, name: str, given: object) -> object:
        right = f'"drop" or a date in {self.describe()}'
        text = _declared(name, given, right)
        if not 0.0 <= self._policy_value(text) <= self.upper:
            raise refused("Date", name, given, right)
        return text

    def _policy_value(self, policy: Any) -> float:
        return _days(np.datetime64(policy)) - self.origin

    def _moments(self, raw: NDArray[Any]) -> NDArray[np.float64]:
        if raw.dtype.kind == "m":
            return super()._moments(raw)
        with np.errstate(all="ignore"):
            return self._since(_days_of(raw))

    def _read(self, cells: Iterable[object]) -> NDArray[np.float64]:
        return self._since(np.array([self._day(cell) for cell in cells], dtype=np.float64))

    def _day(self, cell: object) -> float:
        """Days from 1970-01-01 of any cell; NaN where it is missing, an infinity where it is no date."""
        day = _day(cell)
        return self._day_of_value(read_cell(cell)) if day is None else day

    def _day_of_value(self, cell: bool | float | str) -> float:
        if isinstance(cell, str):
            return MISSING if self._missing.hides(cell) else _day_of_text(cell)
        return MISSING if math.isnan(self._missing.number(float(cell))) else IMPOSSIBLE

    def _value(self, cell: bool | float | str) -> float:
        return float(self._since(np.array([self._day_of_value(cell)]))[0])

    def _numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(np.isnan(self._missing.numbers(values)), MISSING, IMPOSSIBLE)

    def _since(self, days: NDArray[np.float64]) -> NDArray[np.float64]:
        """Count days since 1970 from ``first``; dates that stand for missing cells become NaN."""
        codes = [_day_of_text(code) for code in self.missing_codes if isinstance(code, str)]
        return np.where(np.isin(days, [code for code in codes if np.isfinite(code)]), MISSING, days - self.origin)

    def cells(self, values: NDArray[np.float64]) -> NDArray[Any]:
        """Return times (m,), to the microsecond, that many days after ``first``."""
        return np.datetime64(str(self.first), "us") + np.rint(values * _PER_DAY["us"]).astype("m8[us]")

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw `n` times uniformly within the bounds, shape (n,), datetime64."""
        return self.cells(super().sample(n, rng))

    def describe(self) -> str:
        """Bounds, as ``[first, last]``."""
        return f"[{self.first}, {self.last}]"

    def _limits(self) -> dict[str, Any]:
        return {"first": self.first, "last": self.last}


def _declared(name: str, given: object, right: str = 'a date, or its text such as "2024-01-31"') -> str:
    """Write a declared date or time canonically in ISO 8601, without a zone."""
    value = _day_of_text(given) if isinstance(given, str) else _day(given)
    if value is None or not np.isfinite(value):
        raise refused("Date", name, given, right)
    moment = np.datetime64(0, "us") + np.rint(value * _PER_DAY["us"]).astype("m8[us]")
    text = str(moment.astype("M8[s]") if moment == moment.astype("M8[s]") else moment)
    return text.removesuffix("T00:00:00")


def _days(moment: np.datetime64) -> float:
    """Days of one moment, as `_days_of` gives them."""
    unit, count = np.datetime_data(moment.dtype)
    if unit not in _PER_DAY or count != 1 or np.isnat(moment):
        return float(_days_of(np.array([moment]))[0])
    return _sum_of_days(int(moment.astype(np.int64)), _PER_DAY[unit])


def _sum_of_days(ticks: int, per_day: int) -> float:
    whole, rest = divmod(ticks, per_day)
    return whole + rest / per_day


def _days_of(moments: NDArray[Any]) -> NDArray[np.float64]:
    """Days from 1970-01-01 (m,): the same number for the same moment, in whatever unit it is stored."""
    unit, count = np.datetime_data(moments.dtype)
    if unit in _DAYS_OR_MORE:
        moments, unit, count = moments.astype("M8[D]"), "D", 1
    if unit not in _PER_DAY or count != 1:
        return np.where(np.isnat(moments), MISSING, IMPOSSIBLE)
    ticks = moments.astype(np.int64)
    whole, rest = np.divmod(ticks, _PER_DAY[unit])
    return np.where(np.isnat(moments), MISSING, whole + rest / _PER_DAY[unit])


def _day(cell: object) -> float | None:
    """Days from 1970-01-01 of a date or time; NaN for NaT, None for what is neither; nothing raises."""
    kind = type(cell)
    try:
        if kind is pd.Timestamp:
            return _days(cell.to_datetime64())  # type: ignore[attr-defined]
        if kind is np.datetime64:
            return _days(cell)  # type: ignore[arg-type]
        if kind is datetime:
            return _day_of_time(cell)  # type: ignore[arg-type]
        if kind is date:
            return float(cell.toordinal() - _EPOCH)  # type: ignore[attr-defined]
    except Exception:
        return IMPOSSIBLE
    return None


_EPOCH = date(1970, 1, 1).toordinal()


def _day_of_time(cell: datetime) -> float:
    """Days of a time; one with a zone of a type that is not Python's own is impossible, for its code would run."""
    if cell.tzinfo is not None:
        if type(cell.tzinfo) not in (timezone, ZoneInfo):
            return IMPOSSIBLE
        cell = cell.astimezone(UTC).replace(tzinfo=None)
    seconds = 3600 * cell.hour + 60 * cell.minute + cell.second
    return cell.toordinal() - _EPOCH + (1_000_000 * seconds + cell.microsecond) / _PER_DAY["us"]


def _day_of_text(text: str) -> float:
    """Days of the text of a date or time in ISO 8601; an infinity for any other text."""
    bare = text.strip()
    if not _ISO.fullmatch(bare):
        return IMPOSSIBLE
    try:
        return _day_of_time(datetime.fromisoformat(bare))
    except ValueError:
        return IMPOSSIBLE
