"""What a price states, and what noise gives away: derived anew, by no code of the kernel's pricing.

An amount is what composes: epsilon where the noise is Laplace, squared mu where it is Gaussian. Prices are read as the
decimals that they print as, and compared with floats of the noise law as exact fractions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import special

from dpinfer.privacy.units import GDP, ZCDP, ApproxDP, Privacy, PureDP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpinfer.kernel.price import PricedStage
    from dpinfer.privacy.selection import ChoiceLaw

__all__ = ["Kind", "Stated", "choice_amount", "given_away", "losses", "stated_amount", "strong"]

Kind = Literal["mu", "epsilon"]

_OUTWARD = Fraction(1_000_000_001, 10**9)
"""What is found in floats is allowed to be so much larger."""


@dataclass(frozen=True, slots=True)
class Stated:
    """What a price states.

    Attributes
    ----------
    kind : {"mu", "epsilon"}
        In what the noise at this price is judged.
    amount : Fraction
        Epsilon, or the square of mu.
    """

    kind: Kind
    amount: Fraction

    @property
    def level(self) -> float:
        """Epsilon, or mu."""
        return float(self.amount) if self.kind == "epsilon" else math.sqrt(self.amount)

    def share(self, part: Fraction) -> Stated:
        """Return a share of it."""
        return Stated(self.kind, self.amount * Fraction(part))

    def ratio(self, amount: Fraction | float) -> float:
        """Return what was given away over what is stated, both as epsilon or mu; infinite where no noise hides it."""
        if amount == math.inf:
            return math.inf
        part = Fraction(amount) / self.amount
        return float(part) if self.kind == "epsilon" else math.sqrt(part)

    def exceeded(self, amount: Fraction | float) -> bool:
        """Whether an amount is above what is stated, in exact arithmetic."""
        return bool(amount > self.amount)


def stated_amount(privacy: Privacy) -> Stated:
    """Read a price: with Gaussian noise ZCDP(rho) states mu = sqrt(2 rho), and ApproxDP the largest mu that implies it.

    Bun & Steinke (2016), proposition 1.6; Dong, Roth & Su (2022), corollary 2.13.
    """
    if isinstance(privacy, PureDP):
        return Stated("epsilon", Fraction(repr(float(privacy.epsilon))))
    if isinstance(privacy, ZCDP):
        return Stated("mu", 2 * Fraction(repr(float(privacy.rho))))
    if isinstance(privacy, GDP):
        return Stated("mu", Fraction(repr(float(privacy.mu))) ** 2)
    assert isinstance(privacy, ApproxDP)
    return Stated("mu", (Fraction(_largest_mu(privacy.epsilon, privacy.delta)) * _OUTWARD) ** 2)


def _largest_mu(epsilon: float, delta: float) -> float:
    """Largest mu whose profile at epsilon is at most delta, by halving."""

    def profile(mu: float) -> float:
        first = special.log_ndtr(-epsilon / mu + mu / 2)
        return float(np.exp(first) - np.exp(epsilon + special.log_ndtr(-epsilon / mu - mu / 2)))

    low, high = 0.0, 1.0
    while profile(high) < delta:
        high *= 2
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if profile(middle) < delta else (low, middle)
    return high


def strong(privacy: Privacy) -> Privacy:
    """Return the price of the kind at which few runs tell much: mu = 3, or epsilon = 3."""
    if isinstance(privacy, PureDP):
        return PureDP(3.0)
    return ZCDP(4.5) if isinstance(privacy, ZCDP) else GDP(3.0)


# What a change of sums gives away


def given_away(change: Sequence[int], priced: PricedStage) -> Fraction | float:
    """Amount that noise of a law gives away of a change of the exact sums, as a fraction; infinite where there is none.

    A discrete Gaussian of scale s at a change d: mu^2 = d^2/s^2, as the continuous one (Canonne, Kamath & Steinke 2020,
    theorem 7, for rho = mu^2/2). A discrete Laplace: epsilon = abs(d)/s. Released sums are multiplied first; several
    draws of scale s that answer together are as one of scale s for the sum times the multiplier.
    """
    total = Fraction(0)
    for moved, scale in zip(change, priced.law.scales, strict=True):
        if moved and not scale:
            return math.inf
        if moved:
            one = Fraction(abs(int(moved)) * priced.multiplier) / Fraction(scale)
            total += one if priced.law.family in ("laplace", "tulap") else one * one
    return total


def losses(changes: NDArray[np.float64], priced: PricedStage) -> NDArray[np.float64]:
    """Return the same in floats for many changes (R, m), for searching."""
    scales = np.asarray(priced.law.scales)
    bare = scales == 0
    each = np.abs(changes) * priced.multiplier / np.where(bare, 1.0, scales)
    found: NDArray[np.float64] = (each if priced.law.family in ("laplace", "tulap") else each**2)[:, ~bare].sum(axis=1)
    found[(changes[:, bare] != 0).any(axis=1)] = np.inf
    return found


# What a choice gives away


def choice_amount(gap: Fraction, privacy: Privacy, law: ChoiceLaw) -> Fraction:
    """Amount of a choice: ``gap`` is the range of its log likelihood ratios, or bounds them for permute-and-flip.

    Bounded range ``gap`` is ``gap^2/8``-zCDP (Cesar & Rogers 2021) and GDP as a pure ``gap/2``; what is pure ``gap`` is
    ``gap^2/2``-zCDP and GDP with ``2 Phi^-1(e^gap / (1 + e^gap))``.
    """
    if isinstance(privacy, PureDP):
        return gap
    inner = gap / 2 if law == "gumbel" else gap
    if isinstance(privacy, ZCDP):
        return inner**2
    return (2 * Fraction(_normal_of(float(inner))) / _OUTWARD) ** 2


def _normal_of(epsilon: float) -> float:
    """Return the normal quantile of the logistic function."""
    tail = special.expit(-epsilon)
    return float(-special.ndtri(tail))
