"""How much noise a price buys, and what the mechanism then costs.

A `Cost` lists the guarantee of one mechanism in every currency in which it is proved, so that each ledger can
take the one it sums. Mixtures and selection mechanisms construct a `Cost` from their own proofs; a noisy
integer sum gets it from `gaussian_cost` or `laplace_cost`, and its noise scale from `calibrate`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Rational, Real
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from dpinfer.errors import NotProvedError, OptionError, PrivacyUnitError
from dpinfer.privacy.cost import Cost
from dpinfer.privacy.exact import binary, decimal, digits_below, sqrt_above
from dpinfer.privacy.profiles import gaussian_mu, pure_mu
from dpinfer.privacy.units import GDP, ZCDP, ApproxDP, Privacy, PureDP

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "FINE_GRID",
    "RESERVED",
    "Cost",
    "Law",
    "calibrate",
    "coordinate_scales",
    "discrete_gaussian_tau",
    "gaussian_amount",
    "gaussian_cost",
    "laplace_cost",
    "least_scale",
    "tau_allowance",
    "too_little_noise",
]

Law = Literal["gaussian", "laplace"]

RESERVED = Fraction(1, 1000)
"""Share of the delta of an `ApproxDP` amount that is kept for the total variation of discrete noise."""

FINE_GRID = 2.0**24
"""Noise scale, in grid steps, from which a discrete Gaussian counts as a rounded one (within ``tau``)."""

_TAU = 0.0203
"""Total variation between discrete and rounded Gaussian of scale s is at most this over s squared."""


def gaussian_amount(price: Privacy) -> ZCDP | GDP:
    """Return the amount of Gaussian noise that a price buys: what to split when Gaussian rounds share it.

    A `ZCDP` or `GDP` price is returned as it is. Of `ApproxDP` it is the largest GDP that implies it with delta reduced
    by the `RESERVED` share, rounded down. Shares of this amount lose nothing, while shares of an `ApproxDP` price add
    epsilon and delta. `NotProvedError` for `PureDP`: Gaussian noise is never pure.
    """
    if isinstance(price, ZCDP | GDP):
        return price
    if isinstance(price, ApproxDP):
        return GDP(gaussian_mu(price.epsilon, price.delta * float(1 - RESERVED)))
    raise NotProvedError(
        f"Gaussian noise has no guarantee in the unit of {price}: give a price in ZCDP, GDP or ApproxDP, "
        "or use Laplace noise"
    )


def gaussian_cost(price: Privacy, *, scales: ArrayLike) -> Cost:
    """Cost of a noisy integer sum with discrete Gaussian noise that `calibrate` fitted; scales are in grid steps.

    Zero-concentrated DP holds at every scale (Canonne, Kamath & Steinke 2020, theorem 4): rho is the sensitivity
    squared over 2 s^2. The total variation of a discrete from a rounded Gaussian is at most .0203/s^2 a coordinate. So
    ``mu_squared`` and ``tau`` are stated if every scale is at least `FINE_GRID`, and ``approx`` for an `ApproxDP` price
    if moreover (1 + e^epsilon) tau fits in the reserved share of delta.
    """
    mu_squared = _price_squared(price, "gaussian")
    array = positive_floats(scales)
    fine = bool(np.all(array >= FINE_GRID))
    tau = discrete_gaussian_tau(array) if fine else Fraction(0)
    proved = isinstance(price, ApproxDP) and fine and tau <= tau_allowance(price)
    return Cost(
        price=price,
        rho=mu_squared / 2,
        mu_squared=mu_squared if fine else None,
        tau=tau,
        approx=price if isinstance(price, ApproxDP) and proved else None,
    )


def laplace_cost(price: Privacy) -> Cost:
    """Cost of a noisy integer sum with discrete Laplace noise that `calibrate` fitted to a `PureDP` price.

    It is pure epsilon, rho = epsilon^2/2 and mu = 2 Phi^{-1}(e^eps/(1 + e^eps)) rounded up; tau is 0.
    """
    squared = _price_squared(price, "laplace")
    (epsilon,) = price.composable
    mu = decimal(pure_mu(float(epsilon)))
    return Cost(price=price, pure_epsilon=epsilon, rho=squared / 2, mu_squared=mu**2)


def discrete_gaussian_tau(scales: ArrayLike) -> Fraction:
    """Total variation between discrete and rounded Gaussian noise, all coordinates together, rounded up.

    The sum of .0203/s_j^2 over scales in grid steps. `NotProvedError` if one is below `FINE_GRID`.
    """
    array = positive_floats(scales)
    if np.any(array < FINE_GRID):
        raise NotProvedError(
            f"a discrete Gaussian of scale {array.min():g} grid steps does not count as a Gaussian: "
            f"that needs at least {FINE_GRID:g} steps (a finer grid)"
        )
    return binary(float(np.sum(_TAU / array / array)) * (1 + 1e-9))


def tau_allowance(total: ApproxDP) -> Fraction:
    """Largest total variation that the reserved share of an (epsilon, delta) total pays for, rounded down.

    `RESERVED` delta/(1 + e^epsilon), of the budget of a ledger or the price of one mechanism.
    """
    inverse = math.exp(-total.epsilon) / (1 + math.exp(-total.epsilon))
    return RESERVED * decimal(total.delta) * binary(inverse * (1 - 1e-12))


def least_scale(total: Privacy, coordinates: int) -> float:
    """Smallest noise scale, in grid steps, at which so many coordinates count as Gaussian for a total.

    `FINE_GRID`, and for `ApproxDP` more where tau would not fit in the reserved share of delta: sums, and their
    sensitivity, are multiplied by a power of two until the scale is at least this. `NotProvedError` if epsilon is so
    large that no grid is fine enough.
    """
    if isinstance(coordinates, bool) or not isinstance(coordinates, int | np.integer) or coordinates < 1:
        raise OptionError("coordinates", coordinates, "a positive whole number")
    if not isinstance(total, ApproxDP):
        return FINE_GRID
    allowance = float(tau_allowance(total))
    if allowance == 0:
        raise NotProvedError(f"no grid is fine enough for {total}: its epsilon is too large")
    return max(FINE_GRID, math.sqrt(_TAU * int(coordinates) / allowance) * (1 + 1e-6))


def calibrate(sensitivity: Rational | float, price: Privacy, law: Law) -> float:
    """Smallest noise scale that keeps a mechanism within its price.

    ``sensitivity`` bounds the norm (L2 for Gaussian noise, L1 for Laplace) of the change of the sums between
    neighbours, each coordinate divided by its weight. The scale, in the same unit, is the smallest float with
    sensitivity^2/(2 s^2) <= rho, sensitivity/s <= mu or sensitivity/s <= epsilon in exact arithmetic, the price being
    the decimal that it prints as, and a float sensitivity its binary value. `NotProvedError` where the law has no
    guarantee in the unit of the price.
    """
    allowed = _price_squared(price, law)
    return sqrt_above(read_sensitivity(sensitivity) ** 2 / allowed, binary)


def coordinate_scales(scale: float, weights: ArrayLike) -> NDArray[np.float64]:
    """Noise scale of every coordinate, s weight_j, never rounded down.

    Where a weight is irrational (1/sqrt 2 in a Gram) it is given rounded up.
    """
    base, array = float(positive_floats(scale)[0]), positive_floats(weights)
    distinct, where = np.unique(array, return_inverse=True)
    products = [_product_above(base, float(weight)) for weight in distinct]
    scales: NDArray[np.float64] = np.array(products)[where.reshape(-1)]
    return scales


def too_little_noise(price: Privacy | None, factor: float) -> PrivacyUnitError:
    """Return the error of a price whose noise cannot be drawn, or would be none, with the largest that is served.

    ``factor`` is the noise that it brings over the least that is served, below 1.
    """
    asked = "the price" if price is None else str(price)
    largest = "ask for a stricter price"
    factor *= 1 - 1e-6  # scales are rounded up, and so is what this is computed from
    if isinstance(price, PureDP):
        largest = f"at most {PureDP(digits_below(price.epsilon * factor, 4))} is served"
    elif isinstance(price, ZCDP):
        largest = f"at most {ZCDP(digits_below(price.rho * factor**2, 4))} is served"
    elif isinstance(price, GDP):
        largest = f"at most {GDP(digits_below(price.mu * factor, 4))} is served"
    return PrivacyUnitError(f"{asked} asks for less noise than can be drawn and counted: {largest}")


def _price_squared(price: Privacy, law: Law) -> Fraction:
    """Return the largest (sensitivity/scale)^2 that a price allows: mu^2 = 2 rho, or epsilon^2."""
    if checked_law(law) == "laplace":
        if not isinstance(price, PureDP):
            raise NotProvedError(
                f"Laplace noise is priced in PureDP, not {price}: use Gaussian noise, or convert the price"
            )
        squared = price.composable[0] ** 2
    else:
        amount = gaussian_amount(price)
        squared = amount.composable[0] * (2 if isinstance(amount, ZCDP) else 1)
    if squared == 0:
        raise PrivacyUnitError(f"nothing can be measured for {price}: the price must be above zero")
    return squared


def checked_law(law: Law) -> Law:
    """Return the name of a law; refuse another."""
    if law not in get_args(Law):
        raise OptionError("law", law, get_args(Law))
    return law


def read_sensitivity(given: Rational | float) -> Fraction:
    """Read a positive number exactly, a float as its binary value."""
    if isinstance(given, Real) and not isinstance(given, bool):
        if isinstance(given, Rational):
            value = Fraction(int(given.numerator), int(given.denominator))
        elif math.isfinite(given):
            value = binary(float(given))
        else:
            value = Fraction(0)
        if value > 0:
            return value
    raise OptionError("sensitivity", given, "a positive finite number")


def positive_floats(values: ArrayLike) -> NDArray[np.float64]:
    """Read positive finite numbers (d,), at least one."""
    array = np.atleast_1d(np.asarray(values, dtype=np.float64)).ravel()
    if array.size == 0 or not np.all(np.isfinite(array) & (array > 0)):
        raise OptionError("scales", values, "positive finite numbers, at least one")
    return array


def _product_above(first: float, second: float) -> float:
    product = first * second
    return product if binary(product) >= binary(first) * binary(second) else math.nextafter(product, math.inf)
