"""Exact decimals and directed rounding: privacy amounts are compared as fractions, never as floats."""

from __future__ import annotations

import math
import re
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Rational, Real
from typing import TYPE_CHECKING

from dpinfer.errors import PrivacyUnitError

if TYPE_CHECKING:
    from collections.abc import Callable

_FRACTION = re.compile(r"[0-9]+(/[0-9]+)?")
_LARGEST = math.nextafter(math.inf, 0.0)


@lru_cache(maxsize=2**12)
def decimal(number: float) -> Fraction:
    """Return the decimal that a finite float prints as, so that 0.1 means one tenth."""
    return Fraction(repr(float(number)))


def binary(number: float) -> Fraction:
    """Return the value that a finite float has in memory: what a sampler computes with."""
    return Fraction(*number.as_integer_ratio())


def exactly(given: object, read: Callable[[float], Fraction] = decimal) -> Fraction | None:
    """Return a finite number exactly, a float as ``read`` has it; None for anything else, also for True and False."""
    if isinstance(given, bool) or not isinstance(given, Real):
        return None
    if isinstance(given, Rational):
        return Fraction(int(given.numerator), int(given.denominator))
    return read(float(given)) if math.isfinite(given) else None


def fraction_of(text: object) -> Fraction:
    """Read a fraction as it is stored: ``"3"`` or ``"1/4"``, not negative; `ValueError` for anything else.

    An exponent, which could fill the memory, is refused.
    """
    if not isinstance(text, str) or _FRACTION.fullmatch(text) is None:
        raise ValueError("a fraction is stored as whole numbers with a stroke between them")
    return Fraction(text)


def digits_below(number: float, digits: int = 12) -> float:
    """Cut a number, at least 0, to so many significant decimal digits, toward zero."""
    return float(Context(prec=digits, rounding=ROUND_FLOOR).plus(Decimal(number)))


def float_below(value: Fraction) -> float:
    """Return the largest float whose printed decimal is at most ``value``, which is at least 0."""
    return _nearest(int(value.numerator), int(value.denominator), decimal, 1, up=False)


def float_above(value: Fraction) -> float:
    """Return the smallest float whose printed decimal is at least ``value``, which is at least 0."""
    return _nearest(int(value.numerator), int(value.denominator), decimal, 1, up=True)


def sqrt_below(value: Fraction) -> float:
    """Return the largest float whose printed decimal, squared, is at most ``value``."""
    return _nearest(int(value.numerator), int(value.denominator), decimal, 2, up=False)


def sqrt_above(value: Fraction, read: Callable[[float], Fraction] = decimal) -> float:
    """Return the smallest float, read as it prints or as it is in memory, whose square is at least ``value``."""
    return _nearest(int(value.numerator), int(value.denominator), read, 2, up=True)


@lru_cache(maxsize=2**10)  # of whole numbers, which nobody can change later, unlike a fraction
def _nearest(over: int, under: int, read: Callable[[float], Fraction], power: int, *, up: bool) -> float:
    """Walk from two steps beyond a guess to the first float that is on the right side of the root of a fraction."""
    ahead, back = (math.inf, 0.0) if up else (0.0, math.inf)

    def beyond(candidate: float) -> int:
        """Return a whole number with the sign of the candidate's power less the value: both times what divides them."""
        found = read(candidate)
        return int(found.numerator**power * under - over * found.denominator**power)

    try:
        if power == 1 or over == 0:
            candidate = over / under
        else:  # of a number near 1: to within a few units in the last place, at any magnitude
            shift = (under.bit_length() - over.bit_length()) // 2
            near = (over << 2 * shift) / under if shift >= 0 else over / (under << -2 * shift)
            candidate = math.ldexp(math.sqrt(near), -shift)
        candidate = min(math.nextafter(math.nextafter(candidate, back), back), _LARGEST)
        while beyond(candidate) < 0 if up else beyond(candidate) > 0:
            candidate = math.nextafter(candidate, ahead)
    except (OverflowError, ValueError):  # of a root, or beyond the largest float
        raise PrivacyUnitError("an amount is too large for a floating point number") from None
    return candidate
