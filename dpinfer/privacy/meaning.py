"""What a cost means to a statistician: how well anybody can test whether one unit is in the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dpinfer.privacy.exact import float_above
from dpinfer.privacy.units import ZCDP

if TYPE_CHECKING:
    from dpinfer.privacy.cost import Cost

__all__ = ["power_bound"]

_DELTAS = np.geomspace(1e-9, 0.5, 60)


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
    found = [1.0]
    if cost.pure_epsilon is not None:
        found.append(_power(float_above(cost.pure_epsilon), 0.0, level))
    if cost.rho is not None:
        rho = ZCDP(float_above(cost.rho))
        found += [_power(rho.epsilon_at(float(delta)), float(delta), level) for delta in _DELTAS]
    if cost.approx is not None:
        found.append(_power(cost.approx.epsilon, cost.approx.delta, level))
    if cost.mu is not None:
        tau = float(cost.tau)
        moved = special.ndtr(special.ndtri(min(level + tau, 1.0)) + cost.mu)
        found.append(float(moved) + tau + float(cost.delta0))
    return min(found)


def _power(epsilon: float, delta: float, level: float) -> float:
    least_missed = np.exp(-epsilon) * max(1 - level - delta, 0.0)
    return float(min(np.exp(min(epsilon, 700.0)) * level + delta, 1 - least_missed))
