"""The arithmetic of privacy amounts: exact, within one unit, rounded toward less claimed privacy."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import fields
from fractions import Fraction
from numbers import Real
from typing import Any, ClassVar, Self, cast

from dpinfer.errors import PrivacyUnitError, shown
from dpinfer.privacy.exact import decimal

__all__ = ["Amount", "nonnegative", "probability"]


class Amount(ABC):
    """A privacy loss in one unit, with the arithmetic that all units share.

    Notes
    -----
    ``a + b`` is what two mechanisms cost together, ``a - b`` what is left of ``a`` after ``b``. For a number
    k < 1, ``k * a`` is a share: 1/k of them compose to ``a``, and it is rounded down. For k > 1 it is the
    cost of k mechanisms, rounded up. For `GDP` that makes it sqrt(k) mu. Amounts compare within a unit only.
    """

    __slots__ = ()
    __array_ufunc__: ClassVar[None] = None  # numpy scalars leave `*` to this class

    @property
    @abstractmethod
    def composable(self) -> tuple[Fraction, ...]:
        """The exact quantities that add up when mechanisms are composed (for GDP, mu squared)."""

    @classmethod
    @abstractmethod
    def _of_composable(cls, parts: tuple[Fraction, ...], *, up: bool) -> Self:
        """Build an amount from its composable quantities, rounded up or down."""

    @property
    def is_zero(self) -> bool:
        """Whether nothing can be bought for this amount (for ApproxDP: its epsilon is 0)."""
        return self.composable[0] == 0

    def to_dict(self) -> dict[str, str | float]:
        """Return a JSON-ready form that `privacy_from_dict` reads back without loss."""
        values = {f.name: getattr(self, f.name) for f in fields(cast("Any", self))}
        return {"unit": type(self).__name__} | values

    def __add__(self, other: Self) -> Self:
        if not isinstance(other, Amount):
            return NotImplemented
        parts = zip(self.composable, self._same_unit(other, "added").composable, strict=True)
        return self._of_composable(tuple(a + b for a, b in parts), up=True)

    def __radd__(self, other: int) -> Self:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # the start of sum()

    def __sub__(self, other: Self) -> Self:
        if not isinstance(other, Amount):
            return NotImplemented
        parts = zip(self.composable, self._same_unit(other, "subtracted").composable, strict=True)
        rest = tuple(a - b for a, b in parts)
        if min(rest) < 0:
            raise PrivacyUnitError(f"{self} - {other} is below zero")
        return self._of_composable(rest, up=False)

    def __mul__(self, factor: float) -> Self:
        if not isinstance(factor, Real) or isinstance(factor, bool):
            return NotImplemented
        return self._scaled(_exact_factor(factor))

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Self:
        if not isinstance(divisor, Real) or isinstance(divisor, bool):
            return NotImplemented
        return self._scaled(1 / _exact_factor(divisor))

    def _scaled(self, factor: Fraction) -> Self:
        return self._of_composable(tuple(factor * part for part in self.composable), up=factor > 1)

    def __le__(self, other: Self) -> bool:
        pairs = zip(self.composable, self._same_unit(other, "compared").composable, strict=True)
        return all(a <= b for a, b in pairs)

    def __lt__(self, other: Self) -> bool:
        return self <= other and self.composable != other.composable

    def __ge__(self, other: Self) -> bool:
        return self._same_unit(other, "compared") <= self

    def __gt__(self, other: Self) -> bool:
        return self._same_unit(other, "compared") < self

    def _same_unit(self, other: object, done: str) -> Self:
        if type(other) is not type(self):
            told = str(other) if isinstance(other, Amount) else shown(other)
            raise PrivacyUnitError(
                f"{self} and {told} cannot be {done}: only amounts of one unit can; convert with .to(...) first"
            )
        return other


def _number(name: str, given: object, right: str) -> float:
    """Return a finite float, or complain in the name of the argument."""
    if isinstance(given, Real) and not isinstance(given, bool):
        try:
            value = float(given)
        except OverflowError:
            value = math.inf
        if math.isfinite(value):
            return value + 0.0  # -0.0 becomes 0.0
    raise PrivacyUnitError(f"{name}={shown(given)} is not valid: expected {right}")


def nonnegative(name: str, given: object) -> float:
    """Return a finite float of at least 0; `PrivacyUnitError`, in the name of the argument, for anything else."""
    right = "a finite number, at least 0"
    value = _number(name, given, right)
    if value < 0:
        raise PrivacyUnitError(f"{name}={shown(given)} is not valid: expected {right}")
    return value


def probability(given: object) -> float:
    """Return a delta as a float between 0 and 1, both excluded; `PrivacyUnitError` for anything else."""
    right = "a number between 0 and 1, both excluded"
    value = _number("delta", given, right)
    if not 0 < value < 1:
        raise PrivacyUnitError(f"delta={shown(given)} is not valid: expected {right}")
    return value


def _exact_factor(factor: Real | float) -> Fraction:
    """Read a factor: whole numbers and fractions as they are, floats as the decimals they print as."""
    exact = factor if isinstance(factor, Fraction) else decimal(_number("factor", factor, "a finite number above 0"))
    if exact <= 0:
        raise PrivacyUnitError(f"factor={shown(factor)} is not valid: expected a finite number above 0")
    return exact
