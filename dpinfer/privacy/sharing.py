"""One price for several mechanisms: shares of it, and what they cost together."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from dpinfer.privacy.accounting import gaussian_amount, tau_allowance
from dpinfer.privacy.units import ApproxDP, Privacy, PureDP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.privacy.cost import Cost

__all__ = ["joint_cost", "shared"]


def shared(price: Privacy, shares: Sequence[float]) -> list[Privacy]:
    """Split a price among mechanisms that run one after the other.

    Parameters
    ----------
    price : PureDP, ZCDP, GDP or ApproxDP
        An `ApproxDP` price is split as the largest GDP that implies it.
    shares : sequence of float
        Positive, with a sum of 1.

    Returns
    -------
    list of PureDP, ZCDP or GDP
        Each rounded down, so that together they are within the price.
    """
    amount = price if isinstance(price, PureDP) else gaussian_amount(price)
    return [amount * share for share in shares]


def joint_cost(price: Privacy, parts: Sequence[Cost]) -> Cost:
    """Cost of mechanisms that share a price.

    Parameters
    ----------
    price : Privacy
        What was split by `shared`.
    parts : sequence of Cost

    Returns
    -------
    Cost
        The sum in every currency that all parts have; ``approx`` for an `ApproxDP` price whose reserved share of delta
        pays for the total variation of the noise, and for the probability that secret weights fail.
    """
    total = reduce(add, parts)
    # What is revealed with probability delta0 adds delta0 to delta, less than total variation delta0 would.
    proved = (
        isinstance(price, ApproxDP)
        and total.mu_squared is not None
        and total.tau + total.delta0 <= tau_allowance(price)
    )
    return replace(total, price=price, approx=price if isinstance(price, ApproxDP) and proved else None)
