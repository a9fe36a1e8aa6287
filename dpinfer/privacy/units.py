"""Units of privacy loss: of a mechanism's cost, a ledger's budget and a release's guarantee.

Amounts are frozen values. Floats mean the decimals that they print as, so that 0.1 + 0.2 == 0.3. Every rounding is
conservative: the cost of a composition is rounded up, a share is rounded down. In conversions, an epsilon or a mu that
a guarantee *implies* is rounded up, and a mu that privacy parameters *allow* is rounded down, by a relative `OUTWARD`
that covers the error of the evaluation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, Context, Decimal
from functools import lru_cache
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, cast

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import erfcx, erfinv, log_expit, log_ndtr, ndtr, ndtri_exp

from dpinfer.errors import PrivacyUnitError, shown
from dpinfer.privacy.exact import decimal, digits_below, exactly, float_above, float_below, sqrt_above, sqrt_below

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction


Neighbors = Literal["add_remove", "replace_one"]
NEIGHBORS: tuple[Neighbors, ...] = ("add_remove", "replace_one")
"""The two neighbouring relations: one unit more or less, or one unit changed."""

P = TypeVar("P", bound="Privacy")

OUTWARD = 1e-9
"""Relative step by which results of root finding and minimisation are moved to the safe side."""

_LOG_MARGIN = 1e-10
"""Margin on log(delta), well above the error of `log_gaussian_delta`."""

_TINY, _HUGE = 1e-200, 1e9
"""Outside of this range a simple bound stands in for the root, whose evaluation would lose its digits."""

_LEGENDRE = np.polynomial.legendre.leggauss(16)
_NODES, _WEIGHTS = 0.5 * (_LEGENDRE[0] + 1), 0.5 * _LEGENDRE[1]  # on the unit interval


def log_gaussian_delta(epsilon: float, mu: float) -> float:
    """Logarithm of the smallest delta with which mu-GDP implies (epsilon, delta)-DP.

    delta = Phi(-x) - e^epsilon Phi(-y) with x = epsilon/mu - mu/2 and y = x + mu (Balle & Wang 2018, theorem 8; Dong,
    Roth & Su 2022, corollary 2.13). With M the Mills ratio this is phi(x)(M(x) - M(y)), whose difference is integrated
    if mu is small, to avoid cancellation.
    """
    x = epsilon / mu - 0.5 * mu
    y = x + mu
    if mu <= 0.5:
        nodes = x + mu * _NODES
        slope = 1.0 - nodes * _mills(nodes)
        return -0.5 * x * x - 0.5 * math.log(2 * math.pi) + math.log(mu * float(_WEIGHTS @ slope))
    if x >= 0:
        difference = float(erfcx(x / math.sqrt(2)) - erfcx(y / math.sqrt(2)))
        return -0.5 * x * x + math.log(0.5 * difference) if difference > 0 else float(log_ndtr(-x))
    density = math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return math.log(float(ndtr(-x)) - density * float(_mills(np.array(y))))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon with which mu-GDP implies (epsilon, delta)-DP, rounded up."""
    target = math.log(delta) - _LOG_MARGIN
    if mu == 0 or log_gaussian_delta(0.0, mu) <= target:
        return 0.0
    upper = 0.5 * mu * mu + mu * math.sqrt(-2 * target)  # P(N > t) <= exp(-t^2/2)/2
    if mu > _HUGE:
        return upper * (1 + OUTWARD)
    root = brentq(lambda e: log_gaussian_delta(e, mu) - target, 0.0, upper, xtol=1e-13 * upper, rtol=1e-14)
    epsilon = float(root) * (1 + OUTWARD)
    while log_gaussian_delta(epsilon, mu) > math.log(delta):
        epsilon += OUTWARD * upper
    return epsilon


@lru_cache(maxsize=256)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu such that mu-GDP implies (epsilon, delta)-DP, rounded down to 12 digits.

    At epsilon 0 the answer is 0: an epsilon of zero allows no release here.
    """
    if epsilon == 0:
        return 0.0
    target = math.log(delta) - _LOG_MARGIN
    tail = math.sqrt(-2 * target)
    lower = 2 * (epsilon / (math.sqrt(2) * math.sqrt(0.5 * tail * tail + epsilon) + tail))
    if not _TINY < epsilon < _HUGE:
        return digits_below(lower * (1 - OUTWARD))
    upper = 2 * lower
    while log_gaussian_delta(epsilon, upper) <= target:
        lower, upper = upper, 2 * upper
    xtol = 1e-14 * lower
    root = brentq(lambda m: log_gaussian_delta(epsilon, m) - target, lower, upper, xtol=xtol, rtol=1e-14)
    mu = digits_below(float(root) * (1 - OUTWARD))
    while mu > 0 and log_gaussian_delta(epsilon, mu) > math.log(delta):
        mu = digits_below(mu * (1 - OUTWARD))
    return mu


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Smallest epsilon with which rho-zCDP is known to imply (epsilon, delta)-DP, rounded up.

    Canonne, Kamath & Steinke (2020), proposition 12: for every order alpha > 1, epsilon = alpha rho + log(1 - 1/alpha)
    - log(delta alpha)/(alpha - 1) suffices; the smallest is taken. Any order gives a valid epsilon, so an inexact
    minimum is still safe.
    """
    if rho == 0:
        return 0.0

    def bound(log_excess: float) -> float:
        excess = math.exp(log_excess)
        alpha = 1 + excess
        log_ratio = log_excess - math.log1p(excess)  # log(1 - 1/alpha)
        return alpha * rho + log_ratio - (math.log(delta) + math.log1p(excess)) / excess

    centre = 0.5 * (math.log(max(-math.log(delta), 1e-6)) - math.log(rho))
    grid = centre + np.linspace(-12, 12, 97)
    best = grid[int(np.argmin([bound(float(t)) for t in grid]))]
    around = (float(best) - 0.25, float(best) + 0.25)
    refined = minimize_scalar(bound, bounds=around, method="bounded", options={"xatol": 1e-9})
    return max(0.0, min(bound(float(best)), float(refined.fun))) * (1 + OUTWARD)


def pure_mu(epsilon: float) -> float:
    """Smallest mu with which pure epsilon-DP implies mu-GDP, rounded up.

    mu = 2 Phi^{-1}(e^eps/(1 + e^eps)): the worst case is randomised response (Dong, Roth & Su 2022; Smith & Thakurta
    2022).
    """
    if epsilon < 1:
        mu = 2 * math.sqrt(2) * float(erfinv(math.tanh(0.5 * epsilon)))
    else:
        mu = -2 * float(ndtri_exp(log_expit(-epsilon)))
    return mu * (1 + OUTWARD)


def _mills(x: np.ndarray) -> np.ndarray:
    """Mills ratio (1 - Phi)/phi of an array."""
    ratio: np.ndarray = math.sqrt(0.5 * math.pi) * erfcx(x / math.sqrt(2))
    return ratio


class Privacy(ABC):
    """An amount of privacy loss: the common base of `PureDP`, `ZCDP`, `GDP` and `ApproxDP`.

    Notes
    -----
    ``a + b`` is the privacy loss of two mechanisms together, ``a - b`` what remains of ``a`` after ``b``. For a number
    k < 1, ``k * a`` is a share, rounded down: 1/k such shares compose to ``a``. For k > 1 it is the privacy loss of k
    mechanisms, rounded up. For `GDP` it is sqrt(k) mu. Amounts compare only within a unit.
    """

    __slots__ = ()
    __array_ufunc__: ClassVar[None] = None  # numpy scalars leave `*` to this class
    _power: ClassVar[int] = 1
    """Power of a parameter that adds up."""
    _written: ClassVar[str]
    """How the unit is written, with a place for each parameter."""

    def __post_init__(self) -> None:
        for name, given in self.parameters.items():
            object.__setattr__(self, name, _number(name, given))

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters by name, such as ``{"rho": 0.1}``."""
        return {field.name: getattr(self, field.name) for field in fields(cast("Any", self))}

    @property
    def composable(self) -> tuple[Fraction, ...]:
        """The exact quantities that add under composition: the parameters, or mu squared for GDP."""
        return tuple(decimal(value) ** self._power for value in self.parameters.values())

    @property
    def is_zero(self) -> bool:
        """Whether this amount allows no release (for ApproxDP, whether its epsilon is 0)."""
        return self.composable[0] == 0

    @classmethod
    def rounded(cls, parts: tuple[Fraction, ...], *, up: bool) -> Self:
        """Return the amount with given composable quantities, rounded up or down."""
        root = (float_below, sqrt_below, float_above, sqrt_above)[cls._power - 1 + 2 * up]
        return cast("Any", cls)(*map(root, parts))  # type: ignore[no-any-return]

    def epsilon_at(self, delta: float) -> float:
        """Return an epsilon, rounded up, for which this amount implies (epsilon, delta)-DP.

        For a `PureDP` it is epsilon itself; so it is for an `ApproxDP`, for any delta that is not smaller than its own.

        Parameters
        ----------
        delta : float
            Strictly between 0 and 1.

        Returns
        -------
        float

        Raises
        ------
        PrivacyUnitError
            If delta is out of range or, for an `ApproxDP`, smaller than its own, for which nothing is known.
        """
        return self._epsilon_at(_number("delta", delta))

    @abstractmethod
    def _epsilon_at(self, delta: float) -> float:
        """Return `epsilon_at` for a valid delta."""

    def describe(self, delta: float = 1e-6) -> str:
        """Describe the guarantee in words, for `ZCDP` and `GDP` with the implied (epsilon, delta)."""
        stated = self._written.format(*map(_short, self.parameters.values()))
        if "epsilon" in self.parameters:
            return stated
        # three significant digits, rounded up: claims are never rounded toward more privacy
        epsilon = float(Context(prec=3, rounding=ROUND_CEILING).plus(Decimal(self.epsilon_at(delta))))
        return f"{stated}, which implies ({epsilon:g}, {_short(float(delta))})-DP"

    def to(self, unit: type[P]) -> P:
        """Convert to another unit, rounded up, in the directions that are proved.

        Parameters
        ----------
        unit : type
            `PureDP`, `ZCDP` or `GDP`. For `ApproxDP` use `to_approx`, which takes a delta.

        Returns
        -------
        Privacy
            A guarantee that this one implies; the converse need not hold.

        Raises
        ------
        PrivacyUnitError
            If no such implication is proved.
        """
        if isinstance(self, unit):
            return self
        if unit is ApproxDP:
            raise PrivacyUnitError(f"{self} becomes ApproxDP only for a given delta: use to_approx(delta)")
        if isinstance(self, PureDP) and unit in (ZCDP, GDP):
            implied = ZCDP(float_above(decimal(self.epsilon) ** 2 / 2)) if unit is ZCDP else GDP(pure_mu(self.epsilon))
            return cast("P", implied)
        why = f"no {unit.__name__} guarantee follows from it; the Cost of a mechanism lists all that it has"
        if isinstance(self, GDP) and unit is ZCDP:
            why = (
                "GDP amounts hold within a total variation, which bounds no Renyi divergence; "
                "a Gaussian mechanism has its own rho in its Cost"
            )
        raise PrivacyUnitError(f"{type(self).__name__} does not convert to {unit.__name__}: {why}")

    def to_approx(self, delta: float) -> ApproxDP:
        """Convert to (epsilon, delta)-DP; epsilon is rounded up.

        Parameters
        ----------
        delta : float
            Strictly between 0 and 1.

        Returns
        -------
        ApproxDP

        Raises
        ------
        PrivacyUnitError
            If delta is out of range or, for an `ApproxDP`, smaller than its own.
        """
        return ApproxDP(self.epsilon_at(delta), delta)

    def to_dict(self) -> dict[str, str | float]:
        """Return a JSON-ready mapping that `privacy_from_dict` reads without loss."""
        return {"unit": type(self).__name__, **self.parameters}

    def _repr_html_(self) -> str:
        """Show as HTML in a notebook, with the guarantee."""
        from dpinfer.display.report import Report  # noqa: PLC0415  (no part of a private run)

        return Report(str(self), (("guarantees", self.describe()),)).html()

    def __add__(self, other: Self) -> Self:
        if not isinstance(other, Privacy):
            return NotImplemented
        return self.rounded(tuple(a + b for a, b in self._pairs(other, "added")), up=True)

    def __radd__(self, other: int) -> Self:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # the start of sum()

    def __sub__(self, other: Self) -> Self:
        if not isinstance(other, Privacy):
            return NotImplemented
        rest = tuple(a - b for a, b in self._pairs(other, "subtracted"))
        if min(rest) < 0:
            raise PrivacyUnitError(f"{self} - {other} is below zero")
        return self.rounded(rest, up=False)

    def __mul__(self, factor: float) -> Self:
        if not isinstance(factor, Real) or isinstance(factor, bool):
            return NotImplemented
        return self._scaled(factor, 1)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Self:
        if not isinstance(divisor, Real) or isinstance(divisor, bool):
            return NotImplemented
        return self._scaled(divisor, -1)

    def _scaled(self, given: float, power: int) -> Self:
        factor = exactly(given)
        if factor is None or factor <= 0:
            raise PrivacyUnitError(f"factor={shown(given)} is not valid: expected a finite number above 0")
        return self.rounded(tuple(factor**power * part for part in self.composable), up=factor**power > 1)

    def __le__(self, other: Self) -> bool:
        return all(a <= b for a, b in self._pairs(other, "compared"))

    def __lt__(self, other: Self) -> bool:
        return self <= other and self.composable != other.composable

    def __ge__(self, other: Self) -> bool:
        return all(a >= b for a, b in self._pairs(other, "compared"))

    def __gt__(self, other: Self) -> bool:
        return self >= other and self.composable != other.composable

    def _pairs(self, other: object, done: str) -> list[tuple[Fraction, Fraction]]:
        """Return the composable quantities of both; refuse another unit."""
        if not isinstance(other, Privacy) or type(other) is not type(self):
            given = str(other) if isinstance(other, Privacy) else shown(other)
            raise PrivacyUnitError(
                f"{self} and {given} cannot be {done}: only amounts of one unit can; convert with .to(...) first"
            )
        return list(zip(self.composable, other.composable, strict=True))


@dataclass(frozen=True, slots=True)
class PureDP(Privacy):
    """Pure DP: no row changes the probability of any released answer by more than a factor e^epsilon.

    Parameters
    ----------
    epsilon : float
        Finite, at least 0.

    Raises
    ------
    PrivacyUnitError
        If epsilon is not such a number.

    Notes
    -----
    Composes by adding epsilon. Implies epsilon^2/2-zCDP (Bun & Steinke 2016, proposition 1.4), GDP with
    mu = 2 Phi^{-1}(e^eps/(1 + e^eps)), and (epsilon, delta)-DP for every delta.

    Examples
    --------
    >>> PureDP(0.1) + PureDP(0.2)
    PureDP(epsilon=0.3)
    """

    epsilon: float
    _written = "{}-DP (pure)"

    def _epsilon_at(self, delta: float) -> float:
        del delta
        return self.epsilon


@dataclass(frozen=True, slots=True)
class ZCDP(Privacy):
    """Zero-concentrated DP: detecting a row is about as hard as a normal shift of sqrt(2 rho) SDs.

    Parameters
    ----------
    rho : float
        Finite, at least 0.

    Raises
    ------
    PrivacyUnitError
        If rho is not such a number.

    Notes
    -----
    Composes by adding rho (Bun & Steinke 2016). It implies (epsilon, delta)-DP (Canonne, Kamath & Steinke 2020), but
    neither PureDP nor GDP: a zCDP mechanism need not be Gaussian.

    Examples
    --------
    >>> ZCDP(0.3) / 3
    ZCDP(rho=0.1)
    """

    rho: float
    _written = "{}-zCDP"

    def _epsilon_at(self, delta: float) -> float:
        return zcdp_epsilon(self.rho, delta)


@dataclass(frozen=True, slots=True)
class GDP(Privacy):
    """Gaussian DP: detecting a row is at least as hard as detecting a normal shift of mu SDs.

    Parameters
    ----------
    mu : float
        Finite, at least 0.

    Raises
    ------
    PrivacyUnitError
        If mu is not such a number.

    Notes
    -----
    Composes by adding mu^2. Implies (epsilon, delta)-DP exactly (Dong, Roth & Su 2022). It is not converted to ZCDP:
    the noise is discrete, so GDP holds here up to a total variation, which does not bound a Renyi divergence. Gaussian
    mechanisms carry their own rho in their `Cost`.

    Examples
    --------
    >>> GDP(1.0) / 4
    GDP(mu=0.5)
    """

    mu: float
    _power = 2
    _written = "{}-GDP"

    def _epsilon_at(self, delta: float) -> float:
        return gaussian_epsilon(self.mu, delta)


@dataclass(frozen=True, slots=True)
class ApproxDP(Privacy):
    """Approximate DP: as `PureDP`, except with small probability delta.

    Parameters
    ----------
    epsilon : float
        Finite, at least 0.
    delta : float
        Strictly between 0 and 1.

    Raises
    ------
    PrivacyUnitError
        If either is not such a number.

    Notes
    -----
    ``+`` is basic composition: both numbers add. A ledger with the currency ``"gdp"`` composes more tightly. Amounts
    are only partially ordered: ``a <= b`` if both numbers of ``a`` are at most those of ``b``. It implies no other
    unit.

    Examples
    --------
    >>> ApproxDP(1.0, 1e-6) / 2
    ApproxDP(epsilon=0.5, delta=5e-07)
    """

    epsilon: float
    delta: float
    _written = "({}, {})-DP"

    def _epsilon_at(self, delta: float) -> float:
        if delta < self.delta:
            raise PrivacyUnitError(f"{self} says nothing about the smaller delta={delta!r}")
        return self.epsilon


_UNITS: dict[str, type[Privacy]] = {unit.__name__: unit for unit in (PureDP, ZCDP, GDP, ApproxDP)}


def privacy_from_dict(stored: Mapping[str, Any]) -> Privacy:
    """Read the output of `Privacy.to_dict`, such as ``{"unit": "ZCDP", "rho": 0.1}``.

    Raises `PrivacyUnitError` if it names no unit, or not exactly the unit's parameters.
    """
    unit = _UNITS.get(stored.get("unit", ""))
    if unit is None:
        good = ", ".join(_UNITS)
        raise PrivacyUnitError(f"unit={shown(stored.get('unit'))} is not valid: expected one of {good}")
    values = {name: value for name, value in stored.items() if name != "unit"}
    names = [f.name for f in fields(cast("Any", unit))]
    if sorted(values) != sorted(names):
        raise PrivacyUnitError(f"{unit.__name__} has the parameters {names}, not {list(values)}")
    return unit(**values)


def _number(name: str, given: object) -> float:
    """Return a parameter as a float; `PrivacyUnitError`, naming it, if it is invalid."""
    try:
        value = float(given) if isinstance(given, Real) and not isinstance(given, bool) else math.nan
    except OverflowError:
        value = math.inf
    if name == "delta":
        right, fits = "a number between 0 and 1, both excluded", 0 < value < 1
    else:
        right, fits = "a finite number, at least 0", 0 <= value < math.inf
    if not fits:
        raise PrivacyUnitError(f"{name}={shown(given)} is not valid: expected {right}")
    return value + 0.0  # -0.0 becomes 0.0


def _short(value: float) -> str:
    """Format a parameter with all its digits, without a trailing ``.0``."""
    return repr(value).removesuffix(".0")
