"""Conversions between privacy guarantees as functions of floats, each rounded toward less claimed privacy.

Every function errs on the safe side: an epsilon or a mu that a guarantee *implies* is rounded up, a mu
that a price *buys* is rounded down, by a relative ``OUTWARD`` that covers the error of the evaluation.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import erfcx, erfinv, log_expit, log_ndtr, ndtr, ndtri_exp

from dpinfer.privacy.exact import digits_below

__all__ = ["gaussian_epsilon", "gaussian_mu", "log_gaussian_delta", "pure_mu", "zcdp_epsilon"]

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
    where mu is small, so that no digits cancel.
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


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu such that mu-GDP implies (epsilon, delta)-DP, rounded down to 12 digits.

    At epsilon 0 the answer is 0: an epsilon of zero buys nothing here.
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
    - log(delta alpha)/(alpha - 1) is enough; the least is taken. Any order gives a valid epsilon, so that an inexact
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
