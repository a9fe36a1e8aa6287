"""The kinds of columns: `Real`, `Integer`, `Boolean` and `Category`.

A column turns cells of any storage into floats. It never raises, warns or prints because of what a cell
holds, and the value it gives depends on that cell alone (see `dpinfer.schema.cells`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpinfer.errors import SchemaError
from dpinfer.schema.category import Category
from dpinfer.schema.cells import IMPOSSIBLE, MISSING, Coded, text_to_number
from dpinfer.schema.column import DROP, Column, finite_number, refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["Boolean", "Category", "Coded", "Column", "Integer", "Real", "column_from_dict"]

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

    def _value(self, cell: bool | float | str) -> float:
        return text_to_number(cell) if isinstance(cell, str) else float(cell)

    def _numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values

    def coerce(self, raw: NDArray[Any] | Coded) -> NDArray[np.float64]:
        """Turn cells into floats; see `Column.coerce`."""
        untouched = type(self) is Real and self.missing == self.impossible == DROP
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

    def _constant(self, name: str, given: object) -> object:
        value = super()._constant(name, given)
        if not isinstance(value, float) or not value.is_integer():
            raise refused("Integer", name, given, f'"drop" or a whole number in {self.describe()}')
        return int(value)

    def _value(self, cell: bool | float | str) -> float:
        value = super()._value(cell)
        return value if math.isnan(value) or value.is_integer() else IMPOSSIBLE

    def _numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(np.floor(values) == values, values, np.where(np.isnan(values), MISSING, IMPOSSIBLE))

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw `n` whole numbers uniformly within the bounds, shape (n,), int64."""
        return rng.integers(int(self.lower), int(self.upper) + 1, size=n)

    @property
    def level_texts(self) -> tuple[str, ...]:
        """The whole numbers within the bounds, as text; empty if there are more than a hundred."""
        few = self.upper - self.lower < 100
        return tuple(str(k) for k in range(int(self.lower), int(self.upper) + 1)) if few else ()


@dataclass(frozen=True, eq=False, repr=False)
class Boolean(Column):
    """A column of truth values.

    Parameters
    ----------
    missing, impossible : "drop", True or False, optional
        Policies; see `Column`.

    Raises
    ------
    SchemaError
        If a policy is something else.

    Notes
    -----
    A cell may be True or False, 0 or 1 (also 0.0 and 1.0), or the text of one of these, in any case.

    Examples
    --------
    >>> import numpy as np
    >>> Boolean(missing=False).coerce(np.array(["true", "0", "", "maybe"]))
    array([ 1.,  0.,  0., nan])
    """

    kind: ClassVar[str] = "boolean"

    def _declare(self) -> None:
        pass

    def _constant(self, name: str, given: object) -> object:
        if not isinstance(given, bool):
            raise refused("Boolean", name, given, '"drop", True or False')
        return given

    def _value(self, cell: bool | float | str) -> float:
        value = text_to_number(cell) if isinstance(cell, str) else float(cell)
        return value if math.isnan(value) or value in (0.0, 1.0) else IMPOSSIBLE

    def _numbers(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where((values == 0.0) | (values == 1.0) | np.isnan(values), values, IMPOSSIBLE)

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw `n` truth values, each with probability one half, shape (n,), bool."""
        return rng.integers(0, 2, size=n).astype(bool)

    @property
    def level_texts(self) -> tuple[str, ...]:
        """``("False", "True")``."""
        return ("False", "True")

    def describe(self) -> str:
        """Name the two values."""
        return "False, True"


def column_from_dict(declaration: Mapping[str, Any]) -> Column:
    """Read a column back from `Column.to_dict`; `SchemaError` for anything else."""
    kinds: dict[str, type[Column]] = {c.kind: c for c in (Real, Integer, Boolean, Category)}
    entries = dict(declaration)
    kind = entries.pop("kind", None)
    if not isinstance(kind, str) or kind not in kinds:
        raise refused("column", "kind", kind, "one of " + ", ".join(map(repr, kinds)))
    try:
        return kinds[kind](**entries)
    except TypeError as error:
        raise SchemaError(f"the declaration of a {kind} column is incomplete or has unknown entries") from error
