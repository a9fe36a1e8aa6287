"""What it costs to choose the candidate with the largest noisy score.

Let the scores of all candidates change, between neighbours, by amounts that differ from each other by at most R: the
range of the change. Gumbel noise of scale s then gives the exponential mechanism, whose log likelihood ratios lie in an
interval of length ``R / s``; exponential noise of scale s gives permute-and-flip, which is pure ``R / s``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

from scipy import stats

from dpinfer.errors import OptionError, PrivacyUnitError
from dpinfer.privacy.accounting import gaussian_amount
from dpinfer.privacy.cost import Cost
from dpinfer.privacy.exact import binary, float_above
from dpinfer.privacy.profiles import pure_mu
from dpinfer.privacy.units import ZCDP, ApproxDP, Privacy, PureDP

__all__ = ["ChoiceLaw", "choice_cost", "choice_epsilon", "choice_scale", "threshold_scales"]

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
    if law not in ("gumbel", "exponential"):
        raise OptionError("law", law, ("gumbel", "exponential"))
    if isinstance(price, PureDP):
        epsilon = price.composable[0]
    else:
        amount = gaussian_amount(price)
        (value,) = amount.composable
        double = 2 if law == "gumbel" else 1
        if isinstance(amount, ZCDP):
            found = double * math.sqrt(2 * float(value))
        else:
            found = double * _pure_of(math.sqrt(float(value)) / 2)
        epsilon = binary(found * _SHRINK)
    if epsilon <= 0:
        raise PrivacyUnitError(f"nothing can be measured for {price}: the price must be above zero")
    return epsilon


def _pure_of(half: float) -> float:
    """Return the logit of Phi(half): epsilon of the pure mechanisms that are GDP with twice ``half``."""
    if half < 2:
        return 2 * math.atanh(math.erf(half / math.sqrt(2)))
    return float(stats.norm.logcdf(half) - stats.norm.logsf(half))


def choice_cost(price: Privacy, law: ChoiceLaw) -> Cost:
    """Cost of a choice that is calibrated to a price: pure epsilon, rho and mu; ``approx`` for `ApproxDP`."""
    epsilon = choice_epsilon(price, law)
    inner = epsilon / 2 if law == "gumbel" else epsilon
    rho, squared = inner**2 / 2, binary(pure_mu(float_above(inner))) ** 2
    if not isinstance(price, PureDP):
        amount = gaussian_amount(price)
        (value,) = amount.composable
        if isinstance(amount, ZCDP):
            rho = value
        else:
            squared = value
    return Cost(
        price=price,
        pure_epsilon=epsilon,
        rho=rho,
        mu_squared=squared,
        approx=price if isinstance(price, ApproxDP) else None,
    )


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
