"""The privacy of sums under secret random weights: exact composed cost, and its price as a Gaussian.

A unit that counts ``w`` times in a noisy sum, w being drawn anew and in secret for each of B sums, moves each of them
by ``w D``. What an observer can learn is at most what the two distributions ``N(0, s^2)`` and
``sum_w P(w) N(w D, s^2)``, each B times, tell apart. Neither zero-concentrated nor Gaussian DP describes that pair
exactly; its privacy loss distribution does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from dpinfer.errors import OptionError, PrivacyUnitError
from dpinfer.privacy.accounting import RESERVED, Cost, gaussian_amount
from dpinfer.privacy.exact import digits_below
from dpinfer.privacy.units import GDP, OUTWARD, ApproxDP, Privacy

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FAILURE = 1e-10
"""Probability that is set aside when the exact cost is entered as a Gaussian's."""

LARGEST_MU = 5.0
"""Largest price, as a GDP amount, at which the exact cost is computed."""

ASYMPTOTIC = math.sqrt(2 - 2 / math.e)
"""Factor on mu of a bootstrap of any mechanism as B grows (Wang, Cheng & Awan 2022)."""

_LEAST_FAILURE = 4e-13
"""Smallest failure probability that the arithmetic of composed profiles resolves."""

_POINTS = 4000
"""Values of epsilon between which a profile is bounded by chords and tangents."""

_ERROR = 2e-14
"""More than the rounding errors of a composed delta and of a Gaussian's."""

_DIGITS = 6
"""Of the mu that noise is made for: rounding errors of a machine move the eighth one, and so hardly ever the noise."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Law of the number of times that a unit counts in one sum; the mean is 1.

    ``counts`` are the probabilities of weight 0, 1, 2, ..., times ``total``, a power of two, so that weights can be
    drawn exactly from random bits.
    """

    name: str
    counts: tuple[int, ...]
    total: int

    @property
    def probabilities(self) -> tuple[float, ...]:
        """Probability of every weight; exact in binary."""
        return tuple(count / self.total for count in self.counts)

    @property
    def variance(self) -> float:
        """Variance of a weight."""
        return sum(p * (weight - 1) ** 2 for weight, p in enumerate(self.probabilities))


DOUBLE_OR_NOTHING = Weights("double_or_nothing", (1, 0, 1), 2)
"""Each unit counts twice or not at all."""

_COUNTS = [round(2**16 * math.exp(-1) / math.factorial(weight)) for weight in range(7)]
_COUNTS[1] += 2**16 - sum(weight * count for weight, count in enumerate(_COUNTS))  # so that the mean is exactly 1
POISSON = Weights("poisson", (2**16 - sum(_COUNTS[1:]), *_COUNTS[1:]), 2**16)
"""Poisson(1) cut at 6: its mean is 1 and its variance .9962."""


@lru_cache(maxsize=64)
def composed(weights: Weights, mu: float, replicates: int) -> PrivacyLossDistribution:
    """Privacy loss of B noisy sums under secret weights, of adding and of removing a unit, rounded toward more loss.

    ``mu`` is the sensitivity of a sum at weight 1 over the noise scale, times the root of B: the mu of one release with
    B times less noise. Each draw is a mixture of Gaussians against one of them; the loss is discretised pessimistically
    and convolved (Koskela, Jalkoe & Honkela 2020; Doroshenko et al. 2022).
    """
    from dp_accounting import NeighboringRelation  # noqa: PLC0415  (slow to load)
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415

    scale = math.sqrt(replicates) / mu
    possible = [(float(weight), p) for weight, p in enumerate(weights.probabilities) if p]
    if len(possible) == 2 and possible[0][0] == 0:
        (_, _), (largest, chance) = possible
        single = pld.from_gaussian_mechanism(
            scale,
            sensitivity=largest,
            sampling_prob=chance,
            value_discretization_interval=min(1 / (100 * scale), 1e-3),
            neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
        )
    else:
        sizes, chances = [weight for weight, _ in possible], [p for _, p in possible]
        grid = min(1 / (25 * scale), 4e-3)  # coarser: it takes much longer
        single = pld.from_mixture_gaussian_mechanism(scale, sizes, chances, value_discretization_interval=grid)
    return single.self_compose(replicates)


def composed_epsilon(weights: Weights, mu: float, replicates: int, delta: float) -> float:
    """Exact epsilon at a delta of B noisy sums under secret weights, rounded up; parameters as in `composed`."""
    return float(composed(weights, mu, replicates).get_epsilon_for_delta(delta))


@lru_cache(maxsize=256)
def dominating_mu(weights: Weights, mu: float, replicates: int, failure: float = FAILURE) -> float:
    """Smallest mu whose Gaussian is at least as revealing as the B sums, but for a failure probability; rounded up.

    It is the least m with ``delta(eps) <= delta0 + (1 - delta0) delta_m(eps)`` for all eps >= 0 and both directions,
    where delta is the exact profile, delta_m the Gaussian's and delta0 the failure probability. Both are convex in
    e^eps: between two points the exact one is below its chord and the Gaussian's above its tangents, and so the
    comparison holds in between as well.
    """
    loss = composed(weights, mu, replicates)
    top = float(loss.get_epsilon_for_delta(failure / 2))
    epsilon = np.linspace(0.0, max(top, 1e-6), _POINTS)
    exact = np.asarray(loss.get_delta_for_epsilon(epsilon), dtype=np.float64) + _ERROR

    def excess(candidate: float) -> float:
        return _largest_excess(epsilon, exact, candidate, failure)

    lower, upper = mu * 0.999, mu * 1.01
    while excess(upper) > 0:
        lower, upper = upper, upper * 1.25
        if upper > 50 * mu + 50:
            raise PrivacyUnitError(f"mu={mu:g} is beyond what the cost of {replicates} replicates is computed for")
    if excess(lower) <= 0:
        return lower
    found = float(brentq(excess, lower, upper, xtol=1e-9 * mu)) * (1 + OUTWARD)
    while excess(found) > 0:
        found *= 1 + 1e-7
    return found


def _largest_excess(epsilon: Array, exact: Array, mu: float, failure: float) -> float:
    """Largest amount by which the exact profile can exceed the Gaussian's, over all eps from 0 to the last one.

    Beyond the last one the exact profile is below the failure probability.
    """
    upper, lower = ndtr(mu / 2 - epsilon / mu), ndtr(-mu / 2 - epsilon / mu)
    x = np.exp(epsilon)
    target = failure + (1 - failure) * (upper - x * lower) - _ERROR
    slope = -(1 - failure) * lower
    width = np.diff(x)
    # Where the two tangents of an interval meet, in shares of its width, and how high they are there.
    bend = slope[1:] - slope[:-1]
    meet = np.where(bend > 0, (target[:-1] - target[1:] + slope[1:] * width) / np.where(bend > 0, bend * width, 1.0), 0)
    share = np.clip(meet, 0.0, 1.0)
    below = np.maximum(target[:-1] + slope[:-1] * width * share, target[1:] - slope[1:] * width * (1 - share))
    chord = exact[:-1] + (exact[1:] - exact[:-1]) * share
    return float(max((chord - below).max(), (exact - target).max()))


@lru_cache(maxsize=256)
def noise_mu(weights: Weights, target: float, replicates: int, failure: float = FAILURE) -> float:
    """Largest mu, as `composed` defines it, at which B sums are no more revealing than a Gaussian of mu ``target``.

    Below ``target``, rounded down to 6 digits; the noise scale of a sum is ``sensitivity sqrt(B) / mu``.
    `PrivacyUnitError` above `LARGEST_MU`; `OptionError` if the replicates are so few that the exact cost exceeds the
    asymptotic one by half.
    """
    if target > LARGEST_MU:
        raise PrivacyUnitError(
            f"mu={target:.4g} is too large: the privacy loss of a bootstrap is computed up to mu={LARGEST_MU:g}"
        )
    mu = target * 0.98
    for _ in range(12):
        mu = digits_below(mu, _DIGITS)
        attained = dominating_mu(weights, mu, replicates, failure)
        if attained > 1.5 * ASYMPTOTIC * mu:
            raise OptionError(
                "replicates",
                replicates,
                f"more: at mu={target:.4g} so few secret weights reveal {attained / mu:.2f} times the mu of one "
                f"release, more than one and a half times the {ASYMPTOTIC:.3f} of the bootstrap as replicates grow",
            )
        if attained <= target <= attained * (1 + 1e-5):
            break
        mu *= target / attained * (1 - 2e-6)
    while dominating_mu(weights, mu, replicates, failure) > target:
        mu = digits_below(mu * (1 - 1e-6), _DIGITS)
    return mu


def resampled_cost(weights: Weights, price: GDP | ApproxDP, replicates: int) -> tuple[float, float]:
    """Say how much noise a price buys for B sums under secret weights: mu as in `noise_mu`, and what is set aside.

    That is a probability: for an `ApproxDP` price a tenth of its reserved delta, or what the arithmetic resolves if
    that is more. Errors are those of `noise_mu`, and of a price that is zero or has too small a delta.
    """
    amount = gaussian_amount(price)
    target = float(amount.mu) if isinstance(amount, GDP) else 0.0
    if target <= 0:
        raise PrivacyUnitError(f"nothing can be measured at {price}: privacy parameters must be above zero")
    failure = FAILURE
    if isinstance(price, ApproxDP):
        reserve = price.delta * float(RESERVED)
        failure = min(FAILURE, max(_LEAST_FAILURE, reserve / 10))
        if failure > reserve / 2.4:
            least = 2.5 * _LEAST_FAILURE / float(RESERVED)
            raise PrivacyUnitError(
                f"the cost of a bootstrap is computed for a delta of at least {least:g}, not {price}"
            )
    return noise_mu(weights, target, replicates, failure), failure


def cost_of(price: Privacy, *, tau: Fraction, failure: float) -> Cost:
    """Cost of sums that `resampled_cost` calibrated: GDP at the price, but for tau and the failure probability."""
    squared = gaussian_amount(price).composable[0]
    approx = price if isinstance(price, ApproxDP) else None
    return Cost(price=price, mu_squared=squared, tau=tau, delta0=Fraction(failure), approx=approx)
