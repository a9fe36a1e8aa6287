"""What plans and checks ask of prices; nothing that is charged rests on it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpinfer.privacy.accounting import checked_law, gaussian_amount, positive_floats, read_sensitivity
from dpinfer.privacy.exact import binary, float_above
from dpinfer.privacy.profiles import log_gaussian_delta
from dpinfer.privacy.resampling import composed
from dpinfer.privacy.units import ZCDP, PureDP

if TYPE_CHECKING:
    from collections.abc import Sequence
    from numbers import Rational

    from dpinfer.privacy.accounting import Law
    from dpinfer.privacy.resampling import Weights
    from dpinfer.privacy.units import Privacy

__all__ = ["attained", "composed_epsilon", "gaussian_delta", "shared"]


def attained(scale: float, sensitivity: Rational | float, law: Law) -> ZCDP | PureDP:
    """Return the privacy loss that a noise scale attains, rounded up.

    It is at most the price that the scale was calibrated to.

    Parameters
    ----------
    scale : float
        Noise scale, in the unit of ``sensitivity``.
    sensitivity : int, Fraction or float
        As in `calibrate`.
    law : {"gaussian", "laplace"}
        The noise law.

    Returns
    -------
    ZCDP or PureDP
        rho = sensitivity^2/(2 s^2) for Gaussian noise (mu is sqrt(2 rho)), epsilon = sensitivity/s for
        Laplace.

    Raises
    ------
    OptionError
        If an argument is not a positive number, or the law has another name.
    """
    ratio = read_sensitivity(sensitivity) / binary(float(positive_floats(scale)[0]))
    if checked_law(law) == "laplace":
        return PureDP(float_above(ratio))
    return ZCDP(float_above(ratio**2 / 2))


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


def composed_epsilon(weights: Weights, mu: float, replicates: int, delta: float) -> float:
    """Exact epsilon at a delta of B noisy sums under secret weights, rounded up; parameters as in `composed`."""
    return float(composed(weights, mu, replicates).get_epsilon_for_delta(delta))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Smallest delta with which mu-GDP implies (epsilon, delta)-DP; see `log_gaussian_delta`.

    Parameters
    ----------
    epsilon, mu : float
        At least 0.

    Returns
    -------
    float
    """
    return math.exp(log_gaussian_delta(epsilon, mu)) if mu > 0 else 0.0
