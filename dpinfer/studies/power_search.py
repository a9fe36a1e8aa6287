"""The smallest number of rows, or price, that gives a power."""

from __future__ import annotations

from dataclasses import fields, replace
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.privacy.units import Privacy

__all__ = ["amount_of", "amounted", "smallest", "three_digits_up", "unit_of"]

_STRIDE, _NEAR, _CLOSE, _SMOOTHED = 8.0, 1.1, 1.001, 7


def smallest(
    power: Callable[[float], float],
    target: float,
    start: float,
    within: tuple[float, float],
    *,
    whole: bool,
    exact: bool,
) -> float | None:
    """Smallest argument at which a power that rises with it reaches a target; None if it does not within the bounds.

    Brackets and bisects; simulated powers within the last bracket are then smoothed by a line of their probits.
    """

    def reached(x: float) -> bool:
        return power(x) >= target

    def below(x: float) -> float:
        return max(x // _STRIDE if whole else x / _STRIDE, within[0])

    low = high = start
    if reached(start):
        while reached(low := below(high)):
            if low <= within[0]:
                return low
            high = low
    else:
        while not reached(high := min(low * _STRIDE, within[1])):
            if high >= within[1]:
                return None
            low = high
    near = 1.0 if whole and exact else _CLOSE if exact else _NEAR
    while high > low * near and not (whole and high - low <= 1):
        middle = float(np.sqrt(low * high))
        if whole:
            middle = min(max(round(middle), low + 1), high - 1)
        low, high = (low, middle) if reached(middle) else (middle, high)
    if exact or (whole and high - low <= 1):
        return high
    return _smoothed(power, target, max(low / np.sqrt(_NEAR), within[0]), min(high * np.sqrt(_NEAR), within[1]), whole)


def _smoothed(power: Callable[[float], float], target: float, low: float, high: float, whole: bool) -> float:
    """Where a line through simulated probits of power against the logarithm reaches a target."""
    places = np.geomspace(low, high, _SMOOTHED)
    if whole:
        places = np.unique(np.rint(places))
    probits = stats.norm.ppf(np.clip([power(x) for x in places], 1e-4, 1 - 1e-4))
    slope, level = np.polyfit(np.log(places / low), probits, 1)
    if slope <= 0:
        return high
    found = low * float(np.exp(np.clip((stats.norm.ppf(target) - level) / slope, 0.0, np.log(high / low))))
    return float(np.ceil(found)) if whole else found


def amount_of(price: Privacy) -> float:
    """Read the rho, epsilon or mu of a price."""
    return float(getattr(price, fields(cast("Any", price))[0].name))


def amounted(price: Privacy, amount: float) -> Privacy:
    """Return a price of the same unit with another rho, epsilon or mu."""
    return cast("Privacy", replace(cast("Any", price), **{fields(cast("Any", price))[0].name: amount}))


def unit_of(price: Privacy) -> str:
    """Name the unit of a price, with its delta."""
    delta = getattr(price, "delta", None)
    return type(price).__name__ + ("" if delta is None else f", delta={delta:g}")


def three_digits_up(value: float) -> float:
    """Round up to three digits."""
    return float(Context(prec=3, rounding=ROUND_CEILING).plus(Decimal(value)))
