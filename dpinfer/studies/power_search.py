"""Power of a simulated test from draws of it, and the smallest number of rows, or price, that gives a power."""

from __future__ import annotations

from dataclasses import fields, replace
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from scipy import stats

from dpinfer.inference.testing.nulls import batch_pvalues

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.inference.testing.nulls import Draws, HidingModel
    from dpinfer.numerics.arrays import Array
    from dpinfer.privacy.units import Privacy
    from dpinfer.studies.power_truth import Truth

__all__ = [
    "Power",
    "amount_of",
    "amounted",
    "in_chunks",
    "rejected",
    "rejected_by_fits",
    "smallest",
    "three_digits_up",
    "unit_of",
]

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
