"""Units of privacy: how much a mechanism may cost, what a ledger may spend, what a release guarantees.

Amounts are frozen values. Floats mean the decimals that they print as, so that 0.1 + 0.2 == 0.3, and every
rounding goes toward less claimed privacy: what a composition costs is rounded up, a share is rounded down.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast

from dpinfer.errors import PrivacyUnitError, shown
from dpinfer.privacy.amount import Amount, nonnegative, probability
from dpinfer.privacy.exact import decimal, float_above, float_below, sqrt_above, sqrt_below
from dpinfer.privacy.profiles import gaussian_epsilon, pure_mu, zcdp_epsilon

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

__all__ = ["GDP", "NEIGHBORS", "ZCDP", "ApproxDP", "Neighbors", "Privacy", "PureDP", "privacy_from_dict"]

Neighbors = Literal["add_remove", "replace_one"]
NEIGHBORS: tuple[Neighbors, ...] = ("add_remove", "replace_one")
"""The two neighbouring relations: one unit more or less, or one unit changed."""

P = TypeVar("P", bound="Privacy")


class Privacy(Amount):
    """An amount of privacy loss: the common base of `PureDP`, `ZCDP`, `GDP` and `ApproxDP`.

    Notes
    -----
    The arithmetic (``+``, ``-``, ``*``, ``/``, comparisons) is that of `dpinfer.privacy.amount.Amount`.
    """

    __slots__ = ()

    def epsilon_at(self, delta: float) -> float:
        """Return an epsilon with which this amount implies (epsilon, delta)-DP, rounded up.

        Of a `PureDP` it is epsilon itself, of an `ApproxDP` too, for any delta that is not smaller than its own.

        Parameters
        ----------
        delta : float
            Between 0 and 1, both excluded.

        Returns
        -------
        float

        Raises
        ------
        PrivacyUnitError
            If delta is out of range or, for an `ApproxDP`, smaller than its own: nothing is known about smaller ones.
        """
        return self._epsilon_at(probability(delta))

    @abstractmethod
    def _epsilon_at(self, delta: float) -> float:
        """Do so for a valid delta."""

    @abstractmethod
    def describe(self, delta: float = 1e-6) -> str:
        """Say in words what this amount guarantees."""

    def to(self, unit: type[P]) -> P:
        """Convert to another unit, in the directions that are proved; rounded up.

        Parameters
        ----------
        unit : type
            `PureDP`, `ZCDP` or `GDP`. For `ApproxDP` use `to_approx`, which takes a delta.

        Returns
        -------
        Privacy
            A guarantee that this one implies, never the other way round.

        Raises
        ------
        PrivacyUnitError
            If no such implication is proved.
        """
        if isinstance(self, unit):
            return self
        if unit is ApproxDP:
            raise PrivacyUnitError(f"{self} becomes ApproxDP only for a given delta: use to_approx(delta)")
        converted = self._implied(unit)
        if converted is None:
            raise PrivacyUnitError(f"{type(self).__name__} does not convert to {unit.__name__}: {self._why_not(unit)}")
        return cast("P", converted)

    def to_approx(self, delta: float) -> ApproxDP:
        """Convert to (epsilon, delta)-DP; epsilon is rounded up.

        Parameters
        ----------
        delta : float
            Between 0 and 1, both excluded.

        Returns
        -------
        ApproxDP

        Raises
        ------
        PrivacyUnitError
            If delta is out of range or, for an `ApproxDP`, smaller than its own.
        """
        return ApproxDP(self.epsilon_at(delta), delta)

    def _repr_html_(self) -> str:
        """Show as HTML in a notebook, with what it guarantees."""
        from dpinfer.privacy.showing import price_report  # noqa: PLC0415  (no part of a private run)

        return price_report(self).html()

    def _implied(self, unit: type[Privacy]) -> Privacy | None:
        """Return the amount in another unit, or None where no conversion is proved."""
        del unit
        return None

    def _why_not(self, unit: type[Privacy]) -> str:
        return f"no {unit.__name__} guarantee follows from it; the Cost of a mechanism lists all that it has"


@dataclass(frozen=True, slots=True)
class PureDP(Privacy):
    """Price epsilon: no row changes the probability of any released answer by more than a factor e^epsilon.

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", nonnegative("epsilon", self.epsilon))

    @property
    def composable(self) -> tuple[Fraction, ...]:
        """The exact quantities that add up: (epsilon,)."""
        return (decimal(self.epsilon),)

    @classmethod
    def _of_composable(cls, parts: tuple[Fraction, ...], *, up: bool) -> Self:
        return cls(_rounded(parts[0], up=up))

    def _implied(self, unit: type[Privacy]) -> Privacy | None:
        if unit is ZCDP:
            return ZCDP(float_above(decimal(self.epsilon) ** 2 / 2))
        return GDP(pure_mu(self.epsilon)) if unit is GDP else None

    def _epsilon_at(self, delta: float) -> float:
        del delta
        return self.epsilon

    def describe(self, delta: float = 1e-6) -> str:
        """Say in words what this amount guarantees; ``delta`` is not needed."""
        del delta
        return f"{_short(self.epsilon)}-DP (pure)"


@dataclass(frozen=True, slots=True)
class ZCDP(Privacy):
    """Price rho: a row is about as hard to see as a shift of normal noise by sqrt(2 rho) standard deviations.

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
    Composes by adding rho (Bun & Steinke 2016). Implies (epsilon, delta)-DP by Canonne, Kamath & Steinke
    (2020), and neither PureDP nor GDP: a zCDP mechanism need not be Gaussian.

    Examples
    --------
    >>> ZCDP(0.3) / 3
    ZCDP(rho=0.1)
    """

    rho: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", nonnegative("rho", self.rho))

    @property
    def composable(self) -> tuple[Fraction, ...]:
        """The exact quantities that add up: (rho,)."""
        return (decimal(self.rho),)

    @classmethod
    def _of_composable(cls, parts: tuple[Fraction, ...], *, up: bool) -> Self:
        return cls(_rounded(parts[0], up=up))

    def _epsilon_at(self, delta: float) -> float:
        return zcdp_epsilon(self.rho, delta)

    def describe(self, delta: float = 1e-6) -> str:
        """Say in words what this amount guarantees, with the (epsilon, delta) that follows."""
        return f"{_short(self.rho)}-zCDP, {_implying(self, delta)}"


@dataclass(frozen=True, slots=True)
class GDP(Privacy):
    """Price mu: a row is at least as hard to see as a shift of normal noise by mu standard deviations.

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
    Composes by adding mu^2. Implies (epsilon, delta)-DP exactly (Dong, Roth & Su 2022). It is not converted
    to ZCDP: amounts of GDP are stated here within a total variation (the noise is discrete), which bounds no
    Renyi divergence. The Gaussian mechanisms carry their own rho in their `Cost`.

    Examples
    --------
    >>> GDP(1.0) / 4
    GDP(mu=0.5)
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", nonnegative("mu", self.mu))

    @property
    def composable(self) -> tuple[Fraction, ...]:
        """The exact quantities that add up: (mu^2,)."""
        return (decimal(self.mu) ** 2,)

    @classmethod
    def _of_composable(cls, parts: tuple[Fraction, ...], *, up: bool) -> Self:
        return cls(sqrt_above(parts[0]) if up else sqrt_below(parts[0]))

    def _why_not(self, unit: type[Privacy]) -> str:
        if unit is ZCDP:
            return (
                "GDP amounts hold within a total variation, which bounds no Renyi divergence; "
                "a Gaussian mechanism has its own rho in its Cost"
            )
        return Privacy._why_not(self, unit)

    def _epsilon_at(self, delta: float) -> float:
        return gaussian_epsilon(self.mu, delta)

    def describe(self, delta: float = 1e-6) -> str:
        """Say in words what this amount guarantees, with the (epsilon, delta) that follows."""
        return f"{_short(self.mu)}-GDP, {_implying(self, delta)}"


@dataclass(frozen=True, slots=True)
class ApproxDP(Privacy):
    """Price epsilon and delta: as `PureDP`, but for a small probability delta.

    Parameters
    ----------
    epsilon : float
        Finite, at least 0.
    delta : float
        Between 0 and 1, both excluded.

    Raises
    ------
    PrivacyUnitError
        If either is not such a number.

    Notes
    -----
    ``+`` is basic composition: both numbers add. A ledger in the currency ``"gdp"`` composes better. Amounts
    are ordered only partially: both numbers must be at most the other's. It implies no other unit.

    Examples
    --------
    >>> ApproxDP(1.0, 1e-6) / 2
    ApproxDP(epsilon=0.5, delta=5e-07)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", nonnegative("epsilon", self.epsilon))
        object.__setattr__(self, "delta", probability(self.delta))

    @property
    def composable(self) -> tuple[Fraction, ...]:
        """The exact quantities that add up: (epsilon, delta)."""
        return decimal(self.epsilon), decimal(self.delta)

    @classmethod
    def _of_composable(cls, parts: tuple[Fraction, ...], *, up: bool) -> Self:
        return cls(_rounded(parts[0], up=up), _rounded(parts[1], up=up))

    def _epsilon_at(self, delta: float) -> float:
        if delta < self.delta:
            raise PrivacyUnitError(f"{self} says nothing about the smaller delta={delta!r}")
        return self.epsilon

    def describe(self, delta: float = 1e-6) -> str:
        """Say in words what this amount guarantees; ``delta`` is not needed."""
        del delta
        return f"({_short(self.epsilon)}, {_short(self.delta)})-DP"


_UNITS: dict[str, type[Privacy]] = {unit.__name__: unit for unit in (PureDP, ZCDP, GDP, ApproxDP)}


def privacy_from_dict(stored: Mapping[str, Any]) -> Privacy:
    """Read back what `Privacy.to_dict` wrote, such as ``{"unit": "ZCDP", "rho": 0.1}``.

    `PrivacyUnitError` if it names no unit, or not exactly the unit's parameters.
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


def _rounded(value: Fraction, *, up: bool) -> float:
    return float_above(value) if up else float_below(value)


def _short(value: float) -> str:
    """Print a parameter with all its digits, without a trailing ``.0``."""
    return repr(value).removesuffix(".0")


def _three_digits_up(value: float) -> str:
    """Print three significant digits, rounded up: claims are never rounded toward more privacy."""
    return f"{float(Context(prec=3, rounding=ROUND_CEILING).plus(Decimal(value))):g}"


def _implying(amount: Privacy, delta: float) -> str:
    return f"which implies ({_three_digits_up(amount.epsilon_at(delta))}, {_short(float(delta))})-DP"
