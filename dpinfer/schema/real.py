"""Columns of numbers within declared bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpinfer.errors import SchemaError
from dpinfer.schema.cells import IMPOSSIBLE, MISSING, Coded, Meant, text_to_number
from dpinfer.schema.column import DROP, Column, finite_number, refused

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Integer", "Real"]

_LARGEST_INTEGER = 2**53


@dataclass(frozen=True, eq=False, repr=False)
class Real(Column):
    """A column of real numbers within declared bounds.

    Parameters
    ----------
    lower, upper : float
        Public bounds, in the column's unit. Values beyond them are clamped when they are measured.
    missing, impossible : "drop" or a number within the bounds, optional
        Policies; see `Column`.
    missing_codes, label, unit, source : optional
        See `Column`.

    Raises
    ------
    SchemaError
        If a bound is not a finite number, the bounds are not in order, or a policy is neither.

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
        """Upper minus lower bound."""
        return self.upper - self.lower

    def _declare(self) -> None:
        name = type(self).__name__
        lower, upper = finite_number(name, "lower", self.lower), finite_number(name, "upper", self.upper)
        if not lower < upper:
            raise refused(name, "upper", self.upper, f"a number above lower={self.lower!r}")
        if not math.isfinite(upper - lower):
            raise refused(name, "upper", self.upper, "bounds whose difference is a finite number")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    def _constant(self, name: str, given: object) -> object:
        right = f'"drop" or a number in {self.describe()}'
        try:
            value = finite_number(type(self).__name__, name, given)
        except SchemaError:
            raise refused(type(self).__name__, name, given, right) from None
        if not self.lower <= value <= self.upper:
            raise refused(type(self).__name__, name, given, right)
        return value

    def _policy_value(self, policy: Any) -> float:
        return float(policy)

    def _value(self, cell: bool | float | str) -> float:
        value = text_to_number(cell) if isinstance(cell, str) else float(cell)
        return self._missing.value(cell, value) if self.missing_codes else value

    def _numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._missing.numbers(values)

    def coerce(self, raw: NDArray[Any] | Coded | Meant) -> NDArray[np.float64]:
        """Turn cells into floats; see `Column.coerce`."""
        untouched = type(self) is Real and self.missing == self.impossible == DROP and not self.missing_codes
        if untouched and isinstance(raw, np.ndarray) and raw.dtype == np.float64 and raw.dtype.isnative:
            return raw
        return super().coerce(raw)

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw `n` values uniformly within the bounds, shape (n,), float64."""
        u = rng.random(n)
        return np.clip(self.lower * (1.0 - u) + self.upper * u, self.lower, self.upper)

    def describe(self) -> str:
        """Bounds, as ``[lower, upper]``."""
        return f"[{self.lower:.15g}, {self.upper:.15g}]"

    def _limits(self) -> dict[str, Any]:
        return {"lower": self.lower, "upper": self.upper}


@dataclass(frozen=True, eq=False, repr=False)
class Integer(Real):
    """A column of whole numbers within declared bounds.

    Parameters
    ----------
    lower, upper : int
        Public bounds, whole numbers of at most 2**53 in size (floats are exact up to there).
    missing, impossible : "drop" or a whole number within the bounds, optional
        Policies; see `Column`. A number that is not whole is impossible.
    missing_codes, label, unit, source : optional
        See `Column`.

    Raises
    ------
    SchemaError
        If a bound is not such a number, the bounds are not in order, or a policy is neither.

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
            if not value.is_integer() or abs(value) > _LARGEST_INTEGER:
                raise refused("Integer", name, value, "a whole number of at most 2**53 in size")
            object.__setattr__(self, name, int(value))
        if len(self._missing.within(int(self.lower), int(self.upper))) > self.width:
            raise refused(
                "Integer", "missing_codes", list(self.missing_codes), "codes that leave a number within bounds"
            )

    def _constant(self, name: str, given: object) -> object:
        value = super()._constant(name, given)
        if not isinstance(value, float) or not value.is_integer():
            raise refused("Integer", name, given, f'"drop" or a whole number in {self.describe()}')
        return int(value)

    def _value(self, cell: bool | float | str) -> float:
        value = super()._value(cell)
        return value if math.isnan(value) or value.is_integer() else IMPOSSIBLE

    def _numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        values = super()._numbers(values)
        return np.where(np.floor(values) == values, values, np.where(np.isnan(values), MISSING, IMPOSSIBLE))

    def cells(self, values: NDArray[np.float64]) -> NDArray[Any]:
        """Return the nearest whole numbers (m,), as cells."""
        return np.rint(values)

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw `n` whole numbers uniformly within the bounds, shape (n,), int64; no code of a missing cell."""
        codes = self._missing.within(int(self.lower), int(self.upper))
        drawn = rng.integers(int(self.lower), int(self.upper) + 1 - len(codes), size=n)
        for code in codes:  # ascending: those from here on move one up
            drawn += drawn >= code
        return drawn

    @property
    def level_texts(self) -> tuple[str, ...]:
        """The whole numbers within the bounds, as text; empty if there are more than a hundred."""
        few = self.upper - self.lower < 100
        return tuple(str(k) for k in range(int(self.lower), int(self.upper) + 1)) if few else ()
