"""One price for several mechanisms: shares of it, and what they cost together."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from dpinfer.privacy.accounting import RESERVED, gaussian_amount, tau_allowance
from dpinfer.privacy.units import ApproxDP, Privacy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.privacy.cost import Cost

__all__ = ["joint_cost"]


def joint_cost(price: Privacy, parts: Sequence[Cost]) -> Cost:
    """Cost of mechanisms that share a price: the sum in every currency that all parts have.

    ``approx`` is stated for an `ApproxDP` price whose reserved share of delta pays for the total variation of the
    noise, and for the probability that secret weights fail.
    """
    total = reduce(add, parts)
    proved = isinstance(price, ApproxDP) and _proved(price, total, parts)
    return replace(total, price=price, approx=price if isinstance(price, ApproxDP) and proved else None)


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
