"""What running a mechanism once costs, in every currency that is proved for it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from fractions import Fraction
from numbers import Rational, Real
from typing import TYPE_CHECKING, Any, Self

from dpinfer.errors import PrivacyUnitError, shown
from dpinfer.privacy.exact import decimal, float_above, fraction_of, sqrt_above
from dpinfer.privacy.units import GDP, ZCDP, ApproxDP, Privacy, PureDP, privacy_from_dict

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Cost"]


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
            if given is not None or name in _ADDED:
                object.__setattr__(self, name, _fraction(name, given))

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
        return Cost(
            price=self.price + other.price,
            pure_epsilon=_both(self.pure_epsilon, other.pure_epsilon),
            rho=_both(self.rho, other.rho),
            mu_squared=_both(self.mu_squared, other.mu_squared),
            tau=self.tau + other.tau,
            delta0=self.delta0 + other.delta0,
            approx=None if self.approx is None or other.approx is None else self.approx + other.approx,
        )

    def larger(self, other: Cost) -> Cost:
        """Cost that holds of either of two mechanisms, at the price of this one: the larger amount of each currency."""
        return Cost(
            price=self.price,
            pure_epsilon=_most(self.pure_epsilon, other.pure_epsilon),
            rho=_most(self.rho, other.rho),
            mu_squared=_most(self.mu_squared, other.mu_squared),
            tau=max(self.tau, other.tau),
            delta0=max(self.delta0, other.delta0),
            approx=self.approx if self.approx == other.approx else None,
        )

    def describe(self) -> str:
        """State the guarantee in words: the price with its (epsilon, delta) equivalent, then other currencies."""
        also = []
        if self.rho is not None and not isinstance(self.price, ZCDP):
            also.append(f"{float_above(self.rho):.6g}-zCDP")
        if self.mu is not None and not isinstance(self.price, GDP):
            also.append(f"{self._within}{self.mu:.6g}-GDP{self._failing}")
        proofs = {PureDP: self.pure_epsilon, ZCDP: self.rho, GDP: self.mu_squared, ApproxDP: self.approx}
        stated = ""
        if proofs[type(self.price)] is not None:
            stated = self.price.describe()
            if isinstance(self.price, GDP):
                stated = f"{self._within}{stated}{self._failing}"
        return "; also ".join(filter(None, [stated, ", ".join(also)])) or "no proved guarantee"

    @property
    def _within(self) -> str:
        return f"within total variation {float(self.tau):.2g} of " if self.tau else ""

    @property
    def _failing(self) -> str:
        return f" but for a probability of {float(self.delta0):.2g}" if self.delta0 else ""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form, fractions as text; `from_dict` reads it back without loss."""
        stored: dict[str, Any] = {"price": self.price.to_dict()}
        for name in _CURRENCIES:
            value = getattr(self, name)
            stored[name] = None if value is None else str(value)
        return stored | {"approx": None if self.approx is None else self.approx.to_dict()}

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


def _fraction(name: str, given: object) -> Fraction:
    """Read an amount of a cost exactly, floats as the decimals that they print as."""
    if isinstance(given, Real) and not isinstance(given, bool):
        if isinstance(given, Rational):
            value = Fraction(int(given.numerator), int(given.denominator))
        else:
            value = decimal(float(given)) if math.isfinite(given) else Fraction(-1)
        if value >= 0:
            return value
    raise PrivacyUnitError(f"{name}={shown(given)} is not valid: expected a finite number, at least 0")


def _both(first: Fraction | None, second: Fraction | None) -> Fraction | None:
    return None if first is None or second is None else first + second


def _most(first: Fraction | None, second: Fraction | None) -> Fraction | None:
    return None if first is None or second is None else max(first, second)
