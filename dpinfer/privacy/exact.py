"""Exact decimals and directed rounding: privacy amounts are compared as fractions, never as floats."""

from __future__ import annotations

import math
import re
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from dpinfer.errors import PrivacyUnitError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "binary",
    "decimal",
    "digits_below",
    "float_above",
    "float_below",
    "fraction_of",
    "sqrt_above",
    "sqrt_below",
]

_FRACTION = re.compile(r"[0-9]+(/[0-9]+)?")


def decimal(number: float) -> Fraction:
    """Return the decimal that a finite float prints as, so that 0.1 means one tenth."""
    return Fraction(repr(float(number)))


def binary(number: float) -> Fraction:
    """Return the value that a finite float has in memory: what a sampler computes with."""
    return Fraction(number)


def digits_below(number: float, digits: int = 12) -> float:
    """Cut a number, at least 0, to so many significant decimal digits, toward zero."""
    return float(Context(prec=digits, rounding=ROUND_FLOOR).plus(Decimal(number)))


def float_below(value: Fraction) -> float:
    """Return the largest float whose printed decimal is at most ``value``, which is at least 0."""
    return _largest(lambda x: decimal(x) <= value, _to_float(value))


def float_above(value: Fraction) -> float:
    """Return the smallest float whose printed decimal is at least ``value``, which is at least 0."""
    return _smallest(lambda x: decimal(x) >= value, _to_float(value))


def sqrt_below(value: Fraction) -> float:
    """Return the largest float whose printed decimal, squared, is at most ``value``."""
    return _largest(lambda x: decimal(x) ** 2 <= value, _to_sqrt(value))


def sqrt_above(value: Fraction, read: Callable[[float], Fraction] = decimal) -> float:
    """Return the smallest float, read as it prints or as it is in memory, whose square is at least ``value``."""
    return _smallest(lambda x: read(x) ** 2 >= value, _to_sqrt(value))


def _to_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        raise PrivacyUnitError("an amount is too large for a floating point number") from None


def _to_sqrt(value: Fraction) -> float:
    """Return the square root to within a few units in the last place, at any magnitude."""
    if value == 0:
        return 0.0
    shift = (value.denominator.bit_length() - value.numerator.bit_length()) // 2
    scaled = math.sqrt(value * Fraction(4) ** shift)
    try:
        return math.ldexp(scaled, -shift)
    except OverflowError:
        raise PrivacyUnitError("an amount is too large for a floating point number") from None


def _largest(fits: Callable[[float], bool], guess: float) -> float:
    """Walk down from just above the guess to the first float that fits."""
    candidate = min(_step(_step(guess, math.inf), math.inf), _LARGEST)
    while not fits(candidate):
        candidate = _step(candidate, 0.0)
    return candidate


def _smallest(fits: Callable[[float], bool], guess: float) -> float:
    """Walk up from just below the guess to the first float that fits."""
    candidate = _step(_step(guess, 0.0), 0.0)
    while not fits(candidate):
        candidate = _step(candidate, math.inf)
        if math.isinf(candidate):
            raise PrivacyUnitError("an amount is too large for a floating point number")
    return candidate


_step = math.nextafter
_LARGEST = math.nextafter(math.inf, 0.0)


def fraction_of(text: object) -> Fraction:
    """Read a fraction as it is stored: ``"3"`` or ``"1/4"``, not negative; `ValueError` for anything else.

    An exponent, which could fill the memory, is refused.
    """
    if not isinstance(text, str) or _FRACTION.fullmatch(text) is None:
        raise ValueError("a fraction is stored as whole numbers with a stroke between them")
    return Fraction(text)
