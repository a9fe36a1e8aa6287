"""Power of a simulated test from draws of it, and the smallest number of rows, or price, that gives a power."""

from __future__ import annotations

from dataclasses import fields, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from scipy import stats

from dpinfer.inference.nulls import batch_pvalues

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpinfer.inference.nulls import Draws, HidingModel
    from dpinfer.numerics.arrays import Array
    from dpinfer.privacy.units import Privacy
    from dpinfer.studies.power_truth import Truth

__all__ = [
    "PRICES",
    "Power",
    "amount_of",
    "amounted",
    "bracket",
    "crossing",
    "four_digits_down",
    "in_chunks",
    "price_bounds",
    "rejected",
    "rejected_by_fits",
    "smallest",
    "three_digits_up",
    "unit_of",
]

_STRIDE, _NEAR, _CLOSE, _SMOOTHED = 8.0, 1.1, 1.001, 7

PRICES = (1e-6, 1e3)
"""Amounts between which prices are sought."""

_MET = 5e-4
"""Shortfall, relative, that counts as none."""


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

    found = bracket(reached, start, within, whole=whole)
    if found is None or found[0] == found[1]:
        return None if found is None else found[0]
    low, high = found
    near = 1.0 if whole and exact else _CLOSE if exact else _NEAR
    while high > low * near and not (whole and high - low <= 1):
        middle = float(np.sqrt(low * high))
        if whole:
            middle = min(max(round(middle), low + 1), high - 1)
        low, high = (low, middle) if reached(middle) else (middle, high)
    if exact or (whole and high - low <= 1):
        return high
    return _smoothed(power, target, max(low / np.sqrt(_NEAR), within[0]), min(high * np.sqrt(_NEAR), within[1]), whole)


def bracket(
    reached: Callable[[float], bool],
    start: float,
    within: tuple[float, float],
    *,
    whole: bool,
    stride: float = _STRIDE,
) -> tuple[float, float] | None:
    """Two arguments between which a target is first reached, at most a stride apart; equal at the least one.

    None if it is not reached within the bounds.
    """

    def below(x: float) -> float:
        return max(x // stride if whole else x / stride, within[0])

    low = high = start
    if reached(start):
        while reached(low := below(high)):
            if low <= within[0]:
                return low, low
            high = low
    else:
        while not reached(high := min(np.ceil(low * stride) if whole else low * stride, within[1])):
            if high >= within[1]:
                return None
            low = high
    return low, high


def crossing(
    shortfall: Callable[[float], float],
    start: float,
    within: tuple[float, float],
    *,
    whole: bool,
    stride: float = _STRIDE,
    met: float = _MET,
) -> float | None:
    """Smallest argument at which a smooth shortfall that falls with it is 0; None if it is not within the bounds.

    Brackets as `smallest` does, and then follows secants of the shortfall in the logarithm, the end that stays put
    counting half (the Illinois rule), until the shortfall is ``met`` at most; where it is infinite it bisects.
    """
    known: dict[float, float] = {}

    def at(x: float) -> float:
        if x not in known:
            known[x] = shortfall(x)
        return known[x]

    found = bracket(lambda x: at(x) <= 0, start, within, whole=whole, stride=stride)
    if found is None or found[0] == found[1]:
        return None if found is None else found[0]
    (low, high), kept = found, 0
    above, below = at(low), at(high)
    if abs(below) <= met:
        return high
    while high > low * _CLOSE and not (whole and high - low <= 1):
        share = above / (above - below) if np.isfinite(above) else 0.5
        middle = float(low * (high / low) ** min(max(share, 0.02), 0.98))
        if whole:
            middle = min(max(round(middle), low + 1), high - 1)
        value = at(middle)
        if abs(value) <= met:
            return middle
        if value <= 0:
            high, below, above = middle, value, above / 2 if kept < 0 else above
        else:
            low, above, below = middle, value, below / 2 if kept > 0 else below
        kept = -1 if value <= 0 else 1
    return high


def price_bounds(measurable: Callable[[Privacy], bool], kind: Privacy, own: Sequence[float]) -> tuple[float, float]:
    """Amounts of a unit between which a price is sought: what is asked takes them, and their noise can be drawn.

    ``own`` are amounts that are known to be such.
    """
    least, most = PRICES
    while most > max(own, default=0.0) and not measurable(amounted(kind, most)):
        most /= 2
        if most < least:
            break
    while least < min(own, default=most) and not measurable(amounted(kind, least)):
        least *= 2
    return min([least, *own]), max([most, *own])


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


def four_digits_down(value: float) -> float:
    """Round down to four digits."""
    return float(Context(prec=4, rounding=ROUND_FLOOR).plus(Decimal(value)))


_CHUNK = 200_000
_TIE = 1e-9
_FITTED, _OWN_DRAWS, _MOST_OWN = 1000, 199, 9999


class Power(NamedTuple):
    """Power, its Monte Carlo standard error, and what the test loses where noise hides margins or variances."""

    power: float
    error: float
    lost: float = 0.0


def in_chunks(function: Callable[[int], Array], size: int, population: Truth, n: int) -> Array:
    """Concatenate what a function gives for parts of ``size`` draws that fit the cache."""
    most = max(_CHUNK // population.expected(n).size, 100)
    return np.concatenate([function(min(most, size - start)) for start in range(0, size, most)])


def rejected(null: Array, moved: Array, alpha: float, draws: Draws) -> Power:
    """Share of statistics whose Monte Carlo p-value is at most alpha, and its error, that of the null included."""
    size, moved = len(null), np.where(np.isfinite(moved), moved, -np.inf)
    below = np.searchsorted(np.sort(null), moved - _TIE * np.maximum(np.abs(moved), 1.0), side="left")
    beyond = size - below  # NaN is sorted last, and counts as beyond

    def hits(level: float) -> Array:
        if draws == "adaptive":
            return np.asarray((1 + beyond) / (size + 1) <= level, dtype=np.float64)
        return np.asarray(stats.binom.cdf(np.floor(level * (draws + 1) + _TIE) - 1, draws, beyond / size))

    found, blur = hits(alpha), np.sqrt(alpha * (1 - alpha) / size)
    moves = (hits(min(alpha + blur, 1.0)).mean() - hits(alpha - blur).mean()) / 2
    return Power(float(found.mean()), float(np.sqrt(found.var() / len(found) + moves**2)))


def rejected_by_fits(
    model: HidingModel,
    releases: tuple[Array, Array],
    nulls: tuple[Array, Callable[[], Array]],
    alpha: float,
    draws: Draws,
    rng: np.random.Generator,
) -> Power:
    """Power as `rejected`, but with the test's own fits where noise hides what the hypothesis leaves open.

    ``releases`` are values (S, m) and their statistics (S,): of those that are hidden, `_FITTED` at most get p-values
    of their own, as the test computes them. ``nulls`` are statistics under the hypothesis fitted to the expected sums
    as the test fits it; and, called if needed, under the hypothesis as it is.
    """
    (values, moved), (null, true_null) = releases, nulls
    hidden = model.hidden(values)
    if not hidden.any():
        return rejected(null, moved, alpha, draws)
    most = min(max(_OWN_DRAWS, int(np.ceil(2 / alpha)) - 1), _MOST_OWN) if draws == "adaptive" else int(draws)
    own = batch_pvalues(model, values[np.flatnonzero(hidden)[:_FITTED]], draws=most, rng=rng) <= alpha + _TIE
    share, found, error = float(hidden.mean()), float(own.mean()), float(own.std() / np.sqrt(own.size))
    clear = Power(found, 0.0) if hidden.all() else rejected(null, moved[~hidden], alpha, draws)
    power = share * found + (1 - share) * clear.power
    mixed = share * (1 - share) * (found - clear.power) ** 2 / len(values)
    error = float(np.sqrt((share * error) ** 2 + ((1 - share) * clear.error) ** 2 + mixed))
    return Power(power, error, rejected(true_null(), moved, alpha, draws).power - power)
