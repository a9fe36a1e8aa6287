"""Exact tests and intervals of a proportion from one noisy binomial count.

The law of the released count, a binomial one with Tulap or discrete Gaussian noise, is known for every proportion:
tests hold their level at every n, theta and price, not in a limit. See `dpinfer.inference.testing.noisy_count`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.testing.noisy_count import check_law, count_tail, noisy_binomial_cdf, noisy_binomial_sf
from dpinfer.inference.tulap import (
    ALTERNATIVES,
    NOTHING,
    Alternative,
    ProportionEstimate,
    check_test,
    guarded,
    last_angle,
    proportion_estimate,
    two_sided,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from dpinfer.release import NoiseLaw
    from dpinfer.statistics.arrays import Array

__all__ = [
    "ALTERNATIVES",
    "binomial_interval",
    "binomial_power",
    "binomial_pvalue",
    "noisy_binomial_cdf",
    "noisy_binomial_estimate",
    "noisy_binomial_sf",
]

_TOLERANCES = {"xatol": 1e-14, "xrtol": 1e-13}


def _kept(z: Array, n: Array, law: NoiseLaw, *, upper: bool) -> Array:
    """Keep z off the ends on the side that would reject every theta: see `binomial_interval`."""
    margin = 0.5 if law.family == "tulap" else 0.0
    return np.minimum(z, n - margin) if upper else np.maximum(z, margin)


def binomial_pvalue(
    z: ArrayLike,
    n: ArrayLike,
    theta0: ArrayLike,
    law: NoiseLaw,
    *,
    step: float = 1.0,
    alternative: Alternative = "two-sided",
) -> Array:
    """p-value of the hypothesis that the proportion is theta0, from a noisy count.

    Parameters
    ----------
    z : array_like (...)
        Noisy counts: any real numbers; NaN gives 1.
    n, theta0 : array_like (...)
        Public sizes and the tested values, in [0, 1].
    law : NoiseLaw
        See `noisy_binomial_cdf`.
    step : float
        Size of a step of the law in counts.
    alternative : {"two-sided", "greater", "less"}
        Whether the proportion is different from, above or below theta0.

    Returns
    -------
    ndarray (...)
        In [0, 1]: 0 where it underflows.

    Raises
    ------
    OptionError
        If an argument is out of its range.

    Notes
    -----
    ``P(Z >= z)`` and ``P(Z <= z)`` under theta0, and twice the smaller of them, with z kept off the ends as in
    `binomial_interval`. ``P(p <= a) <= a`` for every a under theta0, and for one-sided alternatives under all of
    the hypothesis, for Z rises stochastically with theta. Under Tulap noise of scale 1 / epsilon the one-sided
    tests are uniformly most powerful among all epsilon-private ones [1]_.

    References
    ----------
    .. [1] Awan and Slavkovic (2018), Differentially private uniformly most powerful tests for binomial data.

    Examples
    --------
    >>> from dpinfer.release import NoiseLaw
    >>> law = NoiseLaw("gaussian", (8.0,))
    >>> binomial_pvalue(28.25, n=30, theta0=0.8, law=law, step=0.25, alternative="greater").round(3).item()
    0.079
    """
    check_test(0.5, alternative)
    if alternative != "two-sided":
        tail = noisy_binomial_sf if alternative == "greater" else noisy_binomial_cdf
        return tail(z, n, theta0, law, step=step)
    count, size = np.asarray(z, dtype=float), np.asarray(n, dtype=float)
    over = noisy_binomial_sf(_kept(count, size, law, upper=True), size, theta0, law, step=step)
    under = noisy_binomial_cdf(_kept(count, size, law, upper=False), size, theta0, law, step=step)
    return two_sided(over, under)


def binomial_interval(
    z: ArrayLike,
    n: ArrayLike,
    law: NoiseLaw,
    *,
    step: float = 1.0,
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
) -> Array:
    """Interval for a proportion by inversion of `binomial_pvalue`: it covers with at least its level.

    Parameters
    ----------
    z : array_like (R,)
        Noisy counts: any real numbers. NaN, a count that was not released, gives [0, 1].
    n : array_like, broadcast against z
        Public sizes, whole numbers from 0 to 2**53.
    law : NoiseLaw
        See `noisy_binomial_cdf`.
    step : float
        Size of a step of the law in counts.
    alpha : float
        One minus the level, between 0 and 1.
    alternative : {"two-sided", "greater", "less"}
        Equal tails; or a lower end alone ("greater"), or an upper end alone ("less").

    Returns
    -------
    ndarray (R, 2)
        Ends in [0, 1], rounded outward; never NaN and never empty.

    Raises
    ------
    OptionError
        If an argument is out of its range.

    Notes
    -----
    ``P_theta(Z >= z)`` rises with theta: the ends are where a tail equals alpha / 2 (or alpha). A count far above n
    makes even theta = 1 unlikely, and only tells the noise. With equal tails the count is therefore kept at n or
    below for the lower end and at 0 or above for the upper one (at n - 1/2 and 1/2 under Tulap noise, see
    `dpinfer.inference.tulap.proportion_interval`): each end then leaves room, and coverage only rises. One-sided
    tests keep the count as it is, for their power; where one rejects every theta, the interval is the end of [0, 1]
    that is nearest to the alternative, as one point.

    Examples
    --------
    >>> from dpinfer.release import NoiseLaw
    >>> law = NoiseLaw("gaussian", (3.0,))
    >>> binomial_interval([20, -4], n=100, law=law).round(3).tolist()
    [[0.109, 0.312], [0.0, 0.083]]
    """
    check_law(n, 0.5, law, step)
    check_test(alpha, alternative)
    count, size = np.broadcast_arrays(np.asarray(z, dtype=float), np.asarray(n, dtype=float))
    shape, missing = count.shape, np.ravel(np.isnan(count))
    size = np.ravel(size)
    count = np.where(missing, 0.5 * size, np.ravel(count))
    two = alternative == "two-sided"
    level = guarded(alpha / (1 + two), size)
    lower, upper = np.zeros_like(size), np.ones_like(size)
    if alternative != "less":
        kept = _kept(count, size, law, upper=True) if two else count
        angle = last_angle(
            lambda q, p, z, n: count_tail(z, n, p, q, law, step, upper=True), level, kept, size, tolerances=_TOLERANCES
        )
        lower = np.cos(angle) ** 2
    if alternative != "greater":
        kept = _kept(count, size, law, upper=False) if two else count
        angle = last_angle(
            lambda p, q, z, n: count_tail(z, n, p, q, law, step, upper=False), level, kept, size, tolerances=_TOLERANCES
        )
        upper = np.sin(angle) ** 2
    lower = np.where(missing | (lower < NOTHING), 0.0, lower)
    return np.stack([lower, np.where(missing, 1.0, upper)], axis=-1).reshape(*shape, 2)


def noisy_binomial_estimate(z: ArrayLike, n: ArrayLike, law: NoiseLaw, *, step: float = 1.0) -> ProportionEstimate:
    """Estimate a proportion from a noisy count, with its variance from sampling and from noise.

    Arguments as `binomial_interval`; a missing count is n / 2, clipped. Everything is finite: see
    `dpinfer.inference.tulap.proportion_estimate`.
    """
    check_law(n, 0.5, law, step)
    found = proportion_estimate(z, n, 0.0)
    size = np.broadcast_to(np.asarray(n, dtype=float), found.proportion.shape)
    noise = float(law.variances[0]) * step**2
    return replace(found, noise_variance=np.where(size == 0, 0.0, noise / np.maximum(size, 1.0) ** 2))


def _last(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Largest whole number from low to high at which a condition, true up to somewhere, holds; low - 1 if none."""
    low -= 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def binomial_power(
    n: int,
    p0: float,
    p1: float,
    law: NoiseLaw,
    *,
    step: float = 1.0,
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
) -> float:
    """Exact probability that the test of p0 at level alpha rejects when the proportion is p1.

    Parameters
    ----------
    n : int
        Public size.
    p0, p1 : float
        Tested and true proportion; ``p1 = p0`` gives the size of the test.
    law : NoiseLaw
        See `noisy_binomial_cdf`; a Gaussian scale of 0 gives the classical exact test.
    step : float
        Size of a step of the law in counts.
    alpha : float
    alternative : {"two-sided", "greater", "less"}

    Returns
    -------
    float
        By summation at the thresholds of the test, the outermost counts at which `binomial_pvalue` is at most alpha.

    Raises
    ------
    OptionError
        If an argument is out of its range.

    Examples
    --------
    >>> from dpinfer.release.laws import TULAP_GRID, NoiseLaw
    >>> law = NoiseLaw("tulap", (TULAP_GRID / 1.0,))
    >>> round(binomial_power(30, 0.8, 0.9, law, step=1 / TULAP_GRID, alternative="greater"), 3)
    0.304
    """
    check_law(n, [p0, p1], law, step)
    check_test(alpha, alternative)
    two, spacing = alternative == "two-sided", round(1 / step)
    level = alpha / (1 + two)
    reach = int(60 * law.scales[0]) + spacing
    margin = (spacing // 2 if law.family == "tulap" else 0) if two else -reach
    power = 0.0
    if alternative != "less":
        most = n * spacing - margin
        last = _last(lambda k: bool(noisy_binomial_sf(k * step, n, p0, law, step=step) > level), -reach, most)
        power += float(noisy_binomial_sf((last + 1) * step, n, p1, law, step=step)) if last < most else 0.0
    if alternative != "greater":
        top = n * spacing + reach
        last = _last(lambda k: bool(noisy_binomial_cdf(k * step, n, p0, law, step=step) <= level), margin, top)
        power += float(noisy_binomial_cdf(last * step, n, p1, law, step=step)) if last >= margin else 0.0
    return min(power, 1.0)
