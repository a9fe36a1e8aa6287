"""How much noise a price buys, and what the mechanism then costs.

A `Cost` lists the guarantee of one mechanism in every currency in which it is proved, so that each ledger can
take the one it sums. Mixtures construct a `Cost` from their own proofs; a noisy integer sum gets it from
`gaussian_cost` or `laplace_cost`, and its noise scale from `calibrate`; a choice gets them from `choice_cost` and
`choice_scale`.

Let the scores of all candidates of a choice change, between neighbours, by amounts that differ from each other by at
most R: the range of the change. Gumbel noise of scale s then gives the exponential mechanism, whose log likelihood
ratios lie in an interval of length ``R / s``; exponential noise of scale s gives permute-and-flip, which is pure
``R / s``.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from operator import add
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from scipy import special, stats

from dpinfer.checks import is_whole, require
from dpinfer.errors import NotProvedError, OptionError, PrivacyUnitError, shown
from dpinfer.privacy.exact import binary, decimal, digits_below, exactly, float_above, fraction_of, sqrt_above
from dpinfer.privacy.units import GDP, ZCDP, ApproxDP, Privacy, PureDP, gaussian_mu, privacy_from_dict, pure_mu

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from numbers import Rational

    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class Cost:
    """What running a mechanism once costs, in every currency that is proved for it.

    Parameters
    ----------
    price : Privacy
        What was asked for.
    pure_epsilon : Fraction or None
        It is pure epsilon-DP.
    rho : Fraction or None
        It is rho-zCDP.
    mu_squared : Fraction or None
        It is within total variation ``tau`` (and but for ``delta0``) of a mu-GDP mechanism; squares add exactly where
        mu do not.
    tau : Fraction
        See ``mu_squared``; at least 0. The other guarantees hold as they are, without tau.
    approx : ApproxDP or None
        It is (epsilon, delta)-DP.
    delta0 : Fraction
        See ``mu_squared``: but for tau it is no more revealing than a mu-GDP mechanism that with this probability
        reveals everything (Dong, Roth & Su 2022: the product of a Gaussian and an (0, delta0) trade-off function).

    Raises
    ------
    PrivacyUnitError
        If an amount is negative or not a number.

    Notes
    -----
    Exact fractions feed the ledger. Floats are accepted and read as the decimals that they print as. None
    means that no guarantee is proved in that currency: ledgers that need it refuse.

    Examples
    --------
    >>> from fractions import Fraction
    >>> selection = Cost(PureDP(1.0), pure_epsilon=Fraction(1), rho=Fraction(1, 8))
    >>> selection.rho
    Fraction(1, 8)
    """

    price: Privacy
    pure_epsilon: Fraction | None = None
    rho: Fraction | None = None
    mu_squared: Fraction | None = None
    tau: Fraction = Fraction(0)
    approx: ApproxDP | None = None
    delta0: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if not isinstance(self.price, Privacy):
            raise PrivacyUnitError(f"price={shown(self.price)} is not valid: expected an amount such as ZCDP(0.1)")
        if not (self.approx is None or isinstance(self.approx, ApproxDP)):
            raise PrivacyUnitError(f"approx={shown(self.approx)} is not valid: expected ApproxDP or None")
        for name in _CURRENCIES:
            given = getattr(self, name)
            if given is None and name not in _ADDED:
                continue
            value = exactly(given)
            if value is None or value < 0:
                raise PrivacyUnitError(f"{name}={shown(given)} is not valid: expected a finite number, at least 0")
            object.__setattr__(self, name, value)

    @property
    def mu(self) -> float | None:
        """The mu of ``mu_squared``, rounded up; None where GDP is not proved."""
        return None if self.mu_squared is None else sqrt_above(self.mu_squared)

    @property
    def parts(self) -> tuple[Cost, ...]:
        """The costs that it is a list of: itself. Prices in different units have no sum, and stay a list."""
        return (self,)

    def __add__(self, other: Cost) -> Cost:
        """Cost of running both: amounts add in each currency that both have; prices must be of one unit."""
        if not isinstance(other, Cost):
            return NotImplemented
        approx = None if self.approx is None or other.approx is None else self.approx + other.approx
        return self._joined(other, add, self.price + other.price, approx)

    def covers(self, other: Cost) -> bool:
        """Whether `larger` of both is this cost: the other's amounts are no larger, in each currency that this has."""
        amounts = ((getattr(self, name), getattr(other, name)) for name in _CURRENCIES)
        approx = self.approx is None or self.approx == other.approx
        return approx and all(mine is None or (one is not None and one <= mine) for mine, one in amounts)

    def larger(self, other: Cost) -> Cost:
        """Cost that holds of either of two mechanisms, at the price of this one: the larger amount of each currency."""
        return self._joined(other, max, self.price, self.approx if self.approx == other.approx else None)

    def _joined(
        self, other: Cost, join: Callable[[Any, Any], Fraction], price: Privacy, approx: ApproxDP | None
    ) -> Cost:
        """Join the amounts in each currency that both have."""
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in _CURRENCIES}
        amounts = {name: None if None in pair else join(*pair) for name, pair in pairs.items()}
        return Cost(price=price, approx=approx, **amounts)  # type: ignore[arg-type]

    def describe(self) -> str:
        """State the guarantee in words: the price with its (epsilon, delta) equivalent, then other currencies."""
        within = f"within total variation {float(self.tau):.2g} of " if self.tau else ""
        failing = f" but for a probability of {float(self.delta0):.2g}" if self.delta0 else ""
        also = []
        if self.rho is not None and not isinstance(self.price, ZCDP):
            also.append(f"{float_above(self.rho):.6g}-zCDP")
        if self.mu is not None and not isinstance(self.price, GDP):
            also.append(f"{within}{self.mu:.6g}-GDP{failing}")
        proofs = {PureDP: self.pure_epsilon, ZCDP: self.rho, GDP: self.mu_squared, ApproxDP: self.approx}
        stated = "" if proofs[type(self.price)] is None else self.price.describe()
        if stated and isinstance(self.price, GDP):
            stated = f"{within}{stated}{failing}"
        return "; also ".join(filter(None, [stated, ", ".join(also)])) or "no proved guarantee"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form, fractions as text; `from_dict` reads it back without loss."""
        amounts = {name: getattr(self, name) for name in _CURRENCIES}
        return {
            "price": self.price.to_dict(),
            **{name: None if value is None else str(value) for name, value in amounts.items()},
            "approx": None if self.approx is None else self.approx.to_dict(),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Read back what `to_dict` wrote; `PrivacyUnitError` if a field is missing, unknown or damaged."""
        names = {f.name for f in fields(cls)}
        stored = {"delta0": "0", **stored}  # which older releases do not have
        if set(stored) != names:
            raise PrivacyUnitError(f"a stored cost has the fields {', '.join(sorted(names))} and no others")
        try:
            amounts = {n: None if stored[n] is None else fraction_of(stored[n]) for n in _CURRENCIES}
        except (ValueError, ZeroDivisionError):
            raise PrivacyUnitError("a stored cost has an amount that is no fraction") from None
        approx = None if stored["approx"] is None else privacy_from_dict(stored["approx"])
        price = privacy_from_dict(stored["price"])
        return cls(price=price, approx=approx, **amounts)  # type: ignore[arg-type]

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read back what `to_json` wrote; errors as of `from_dict`."""
        try:
            stored = json.loads(text)
        except ValueError:
            raise PrivacyUnitError("a stored cost is not JSON") from None
        return cls.from_dict(stored)


_ADDED = ("tau", "delta0")
_CURRENCIES = ("pure_epsilon", "rho", "mu_squared", *_ADDED)


Law = Literal["gaussian", "laplace"]

RESERVED = Fraction(1, 1000)
"""Share of the delta of an `ApproxDP` amount that is kept for the total variation of discrete noise."""

FINE_GRID = 2.0**24
"""Noise scale, in grid steps, from which a discrete Gaussian counts as a rounded one (within ``tau``)."""

_FINEST = 2**60
"""Steps that a row may be cut into, for noise of little width."""

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
        f"Gaussian noise has no guarantee of the form {price}: use ZCDP, GDP or ApproxDP, or Laplace noise"
    )


def gaussian_cost(price: Privacy, *, scales: ArrayLike) -> Cost:
    """Cost of a noisy integer sum with discrete Gaussian noise that `calibrate` fitted; scales are in grid steps.

    Zero-concentrated DP holds at every scale (Canonne, Kamath & Steinke 2020, theorem 4): rho is the sensitivity
    squared over 2 s^2. The total variation of a discrete from a rounded Gaussian is at most .0203/s^2 a coordinate. So
    ``mu_squared`` and ``tau`` are stated if every scale is at least `FINE_GRID`, and ``approx`` for an `ApproxDP` price
    if moreover (1 + e^epsilon) tau fits in the reserved share of delta.
    """
    mu_squared = _price_squared(price, "gaussian")
    array = _positive(scales)
    fine = bool(np.all(array >= FINE_GRID))
    tau = discrete_gaussian_tau(array) if fine else Fraction(0)
    return Cost(
        price=price,
        rho=mu_squared / 2,
        mu_squared=mu_squared if fine else None,
        tau=tau,
        approx=price if isinstance(price, ApproxDP) and fine and tau <= tau_allowance(price) else None,
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
    array = _positive(scales)
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
    require(is_whole(coordinates) and coordinates > 0, "coordinates", coordinates, "a positive whole number")
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
    exact = exactly(sensitivity, binary)
    if exact is None or exact <= 0:
        raise OptionError("sensitivity", sensitivity, "a positive finite number")
    return sqrt_above(exact**2 / allowed, binary)


def coordinate_scales(scale: float, weights: ArrayLike) -> NDArray[np.float64]:
    """Noise scale of every coordinate, s weight_j, never rounded down.

    Where a weight is irrational (1/sqrt 2 in a Gram) it is given rounded up.
    """
    base, array = float(_positive(scale)[0]), _positive(weights)
    distinct, where = np.unique(array, return_inverse=True)
    products, (over, under) = base * distinct, base.as_integer_ratio()
    for place, (product, weight) in enumerate(zip(products.tolist(), distinct.tolist(), strict=True)):
        (top, bottom), (up, down) = product.as_integer_ratio(), weight.as_integer_ratio()
        if top * under * down < over * up * bottom:  # in whole numbers: the product was rounded down
            products[place] = math.nextafter(product, math.inf)
    scales: NDArray[np.float64] = products[where.reshape(-1)]
    return scales


def too_little_noise(price: Privacy | None, factor: float) -> PrivacyUnitError:
    """Return the error of a price whose noise cannot be drawn, or would be none, with the largest that is served.

    ``factor`` is the noise that it brings over the least that is served, below 1.
    """
    asked = "this privacy budget" if price is None else str(price)
    largest = "use a smaller one"
    factor *= 1 - 1e-6  # scales are rounded up, and so is what this is computed from
    if isinstance(price, PureDP | ZCDP | GDP):
        (value,) = price.parameters.values()
        power = 2 if isinstance(price, ZCDP) else 1
        largest = f"the largest supported is {type(price)(digits_below(value * factor**power, 4))}"
    return PrivacyUnitError(f"{asked} needs less noise than can be drawn and accounted for: {largest}")


def noise_plan(
    bound: Fraction, amount: Privacy, weights: NDArray[np.float64], *, draws: int = 1, total: Privacy, most: int | None
) -> tuple[NDArray[np.float64], int, Cost]:
    """Say how much noise a price asks for, and on how fine a grid: scales (k,), multiplier and cost.

    ``bound`` is on the norm of the change of the integer sums, each over its weight: L1 for `PureDP`, otherwise L2.
    Scales are in steps of the sums times the multiplier. ``total`` is the price of which ``amount`` is a share, and
    ``most`` the number of coordinates of all stages that share it.
    """
    if not weights.size:
        raise OptionError("neighbors", "replace_one", "add_remove: all that is asked for is public here")
    if isinstance(amount, PureDP):
        scale = calibrate(bound * draws, amount, "laplace")
        return coordinate_scales(scale, weights), draws, laplace_cost(amount)
    scale = calibrate(bound, amount, "gaussian")
    multiplier = fine_multiplier(scale * float(weights.min()), least_scale(total, most or weights.size), amount)
    scales = coordinate_scales(scale * multiplier, weights)  # exact: a power of two
    return scales, multiplier, gaussian_cost(amount, scales=scales)


def fine_multiplier(smallest: float, least: float, amount: Privacy) -> int:
    """Power of two by which sums are multiplied until the smallest noise scale is at least ``least`` steps."""
    multiplier = 1
    while smallest * multiplier < least:
        multiplier *= 2
        if multiplier > _FINEST:
            raise too_little_noise(amount, smallest * _FINEST / least)
    return multiplier


@lru_cache(maxsize=256, typed=True)
def reserved_cost(amount: Privacy, rehearsed: Cost, *, sums: int, total: Privacy, most: int) -> Cost:
    """Cost of a mechanism before it is known: of as many noisy sums as it may release, and of what it rehearsed.

    A choice or resampled sums cost more than noisy sums in some currencies. ``total`` and ``most`` are as in
    `noise_plan`: the grid is made fine enough for all coordinates.
    """
    if isinstance(amount, PureDP):
        cost, choice = laplace_cost(amount), choice_cost(amount, "exponential")  # the same, but for rounding
        pure = replace(cost, mu_squared=max(one.mu_squared or Fraction(0) for one in (cost, choice)))
        return pure.larger(rehearsed)
    return gaussian_cost(amount, scales=np.full(sums, least_scale(total, most))).larger(rehearsed)


@lru_cache(maxsize=256, typed=True)
def _price_squared(price: Privacy, law: Law) -> Fraction:
    """Return the largest (sensitivity/scale)^2 that a price allows: mu^2 = 2 rho, or epsilon^2."""
    if law not in get_args(Law):
        raise OptionError("law", law, get_args(Law))
    if law == "laplace":
        if not isinstance(price, PureDP):
            raise NotProvedError(
                f"Laplace noise needs privacy parameters in PureDP, not {price}: use Gaussian noise, or convert them"
            )
        squared = price.composable[0] ** 2
    else:
        amount = gaussian_amount(price)
        squared = amount.composable[0] * (2 if isinstance(amount, ZCDP) else 1)
    if squared == 0:
        raise PrivacyUnitError(f"nothing can be measured at {price}: privacy parameters must be above zero")
    return squared


def _positive(values: ArrayLike) -> NDArray[np.float64]:
    """Read positive finite numbers (d,), at least one."""
    array = np.atleast_1d(np.asarray(values, dtype=np.float64)).ravel()
    if array.size == 0 or not np.all(np.isfinite(array) & (array > 0)):
        raise OptionError("scales", values, "positive finite numbers, at least one")
    return array


def joint_cost(price: Privacy, parts: Sequence[Cost]) -> Cost:
    """Cost of mechanisms that share a price: the sum in every currency that all parts have.

    ``approx`` is stated for an `ApproxDP` price whose reserved share of delta pays for the total variation of the
    noise, and for the probability that secret weights fail.
    """
    amounts = {name: [getattr(one, name) for one in parts] for name in _CURRENCIES}
    known = {name: None if any(one is None for one in each) else sum(each) for name, each in amounts.items()}
    total = Cost(price=price, **known)  # type: ignore[arg-type]
    approx = price if isinstance(price, ApproxDP) and _proved(price, total, parts) else None
    return replace(total, price=price, approx=approx)


def _proved(price: ApproxDP, total: Cost, parts: Sequence[Cost]) -> bool:
    """Whether an (epsilon, delta) price holds: as the GDP that implies it, or as the sum of its parts' guarantees.

    Of the reserved delta are paid (1 + e^epsilon) tau, and delta0 once.
    """
    guarantees = [part.approx.composable for part in parts if part.approx is not None]
    epsilon, delta = (sum((one[place] for one in guarantees), Fraction(0)) for place in (0, 1))
    if len(guarantees) == len(parts) and epsilon <= price.composable[0] and delta <= price.composable[1]:
        return True
    allowed, reserve = tau_allowance(price), RESERVED * price.composable[1]
    if total.mu_squared is None or total.mu_squared > gaussian_amount(price).composable[0] or allowed == 0:
        return False
    return total.tau / allowed + total.delta0 / reserve <= 1


ChoiceLaw = Literal["gumbel", "exponential"]

_SHRINK = 1 - 1e-12
"""Floats are rounded down by more than their error."""


def choice_epsilon(price: Privacy, law: ChoiceLaw) -> Fraction:
    """Largest epsilon, rounded down, whose choice keeps a price.

    Of `ApproxDP` it is that of the largest GDP that implies it, so that a ledger in that currency grants it. The
    exponential mechanism ("gumbel") at epsilon is epsilon^2/8-zCDP (Cesar & Rogers 2021), and GDP with the mu of a pure
    epsilon/2 (see `docs/selection.md`); permute-and-flip ("exponential") is epsilon^2/2-zCDP, as everything that is
    pure.
    """
    if law not in get_args(ChoiceLaw):
        raise OptionError("law", law, get_args(ChoiceLaw))
    if isinstance(price, PureDP):
        epsilon = price.composable[0]
    else:
        amount = gaussian_amount(price)
        (value,) = amount.composable
        if isinstance(amount, ZCDP):
            found = math.sqrt(2 * float(value))
        else:  # the logit of Phi(mu / 2): epsilon of the pure mechanisms that are GDP with mu
            half = math.sqrt(float(value)) / 2
            if half < 2:
                found = 2 * math.atanh(math.erf(half / math.sqrt(2)))
            else:
                found = float(stats.norm.logcdf(half) - stats.norm.logsf(half))
        epsilon = binary((2 if law == "gumbel" else 1) * found * _SHRINK)
    if epsilon <= 0:
        raise PrivacyUnitError(f"nothing can be measured at {price}: privacy parameters must be above zero")
    return epsilon


def choice_cost(price: Privacy, law: ChoiceLaw) -> Cost:
    """Cost of a choice that is calibrated to a price: pure epsilon, rho and mu; ``approx`` for `ApproxDP`."""
    epsilon = choice_epsilon(price, law)
    inner = epsilon / 2 if law == "gumbel" else epsilon
    rho, squared = inner**2 / 2, binary(pure_mu(float_above(inner))) ** 2
    amount = price if isinstance(price, PureDP) else gaussian_amount(price)
    if isinstance(amount, ZCDP):
        (rho,) = amount.composable
    elif isinstance(amount, GDP):
        (squared,) = amount.composable
    approx = price if isinstance(price, ApproxDP) else None
    return Cost(price=price, pure_epsilon=epsilon, rho=rho, mu_squared=squared, approx=approx)


def choice_scale(spread: Fraction | int, price: Privacy, law: ChoiceLaw) -> float:
    """Noise scale of scores whose change between neighbours has at most the range R: R / epsilon, rounded up."""
    if not spread > 0:
        raise OptionError("spread", spread, "a positive number")
    return _scale_above(Fraction(spread) / choice_epsilon(price, law))


def threshold_scales(bound: int, price: Privacy, answers: int, *, monotone: bool) -> tuple[float, float]:
    """Noise scales of a threshold and of the queries that are compared with it, rounded up.

    A query changes between neighbours by at most D. With c answers above, noise of scale D / e1 on the threshold, drawn
    once, and 2 c D / e2 on each query is pure e1 + e2; c D / e2 is enough where all queries change in one direction
    (Lyu, Su & Li 2017; proof for discrete noise in `docs/selection.md`). The ratio e1 : e2 is theirs, 1 : (2 c)^(2/3)
    or 1 : c^(2/3), and the sum is that of the price exactly.
    """
    if not bound > 0:
        raise OptionError("bound", bound, "a positive number")
    epsilon, factor = choice_epsilon(price, "exponential"), answers if monotone else 2 * answers
    first = epsilon * binary(1 / (1 + factor ** (2 / 3)))
    return _scale_above(bound / first), _scale_above(factor * bound / (epsilon - first))


def _scale_above(exact: Fraction) -> float:
    scale = float_above(exact)
    while binary(scale) < exact:  # float_above reads decimals, the sampler binary numbers
        scale = math.nextafter(scale, math.inf)
    return scale


def power_bound(cost: Cost, level: float = 0.05) -> float:
    """Bound the power of every test between two neighbouring data sets.

    Parameters
    ----------
    cost : Cost
        What was paid.
    level : float
        Probability of a false alarm of the test.

    Returns
    -------
    float
        Between ``level`` and 1: the least of the bounds that the proved guarantees give.

    Notes
    -----
    Under (epsilon, delta)-DP a test of level a has power ``exp(epsilon) a + delta`` at most, and misses with
    probability ``exp(-epsilon) (1 - a - delta)`` at least (Wasserman & Zhou 2010, theorem 2.4). Under mu-GDP the power
    is at most ``Phi(Phi^-1(a) + mu)`` (Dong, Roth & Su 2022); total variation tau from such a mechanism adds tau to
    the level and to the power.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from dpinfer.privacy import Cost, PureDP
    >>> round(power_bound(Cost(PureDP(1.0), pure_epsilon=Fraction(1))), 3)
    0.136
    """
    guarantees: list[tuple[float, float]] = []
    if cost.pure_epsilon is not None:
        guarantees.append((float_above(cost.pure_epsilon), 0.0))
    if cost.rho is not None:
        rho = ZCDP(float_above(cost.rho))
        guarantees += [(rho.epsilon_at(delta), delta) for delta in np.geomspace(1e-9, 0.5, 60).tolist()]
    if cost.approx is not None:
        guarantees.append((cost.approx.epsilon, cost.approx.delta))
    found = [1.0]
    for epsilon, delta in guarantees:
        least_missed = np.exp(-epsilon) * max(1 - level - delta, 0.0)
        found.append(float(min(np.exp(min(epsilon, 700.0)) * level + delta, 1 - least_missed)))
    if cost.mu is not None:
        tau = float(cost.tau)
        moved = special.ndtr(special.ndtri(min(level + tau, 1.0)) + cost.mu)
        found.append(float(moved) + tau + float(cost.delta0))
    return min(found)
