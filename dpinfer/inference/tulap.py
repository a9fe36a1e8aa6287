"""Exact inference for one proportion from a count with discrete Laplace noise and one stored uniform.

The released number is ``Z = X + K + U`` with ``X ~ Binomial(n, theta)`` and n public, K discrete Laplace,
``P(K = k)`` proportional to ``exp(-abs(k) / scale)``, and U uniform on (-1/2, 1/2): K + U has the Tulap law.
The law of Z is known for every theta, so tests and intervals hold at every n, theta and price, not in a limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from scipy.optimize import elementwise

from dpinfer.errors import OptionError
from dpinfer.inference.contrasts import Contrasts
from dpinfer.statistics.tails import binomial_pmf, binomial_sf, discounted_tail

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from dpinfer.statistics.arrays import Array, Mask

__all__ = [
    "ALTERNATIVES",
    "NOTHING",
    "Alternative",
    "ProportionEstimate",
    "check_sizes",
    "check_test",
    "guarded",
    "last_angle",
    "proportion_cdf",
    "proportion_estimate",
    "proportion_interval",
    "proportion_pvalue",
    "proportion_sf",
    "two_sided",
]

Alternative = Literal["two-sided", "greater", "less"]
ALTERNATIVES: tuple[str, ...] = get_args(Alternative)

_FASTEST = 700.0
"""Largest 1 / scale told apart from no noise at all: then P(K != 0) is 2e-304."""
_GUARD, _GUARD_ROOT = 1e-9, 1e-14
"""Relative margin by which tail probabilities are kept from their level, and its least multiple of sqrt(n): more
than their numerical error."""
NOTHING = 1e-30
"""The square of the cosine of pi / 2 in floating point is below this, and is 0."""


@dataclass(frozen=True, slots=True)
class ProportionEstimate:
    """A proportion with the two parts of its variance.

    Attributes
    ----------
    proportion : ndarray (R,)
        ``z / n``, brought into [0, 1].
    sampling_variance : ndarray (R,)
        ``p (1 - p) / n``.
    noise_variance : ndarray (R,)
        Variance of K + U over ``n^2``.
    clipped : ndarray of bool (R,)
        Whether ``z / n`` was outside [0, 1].
    """

    proportion: Array
    sampling_variance: Array
    noise_variance: Array
    clipped: Mask

    @property
    def standard_error(self) -> Array:
        """Standard error from both parts together (R,)."""
        return np.sqrt(self.sampling_variance + self.noise_variance)

    @property
    def normal(self) -> Contrasts:
        """Estimate and standard error, for a normal reference (R,)."""
        return Contrasts(self.proportion, self.standard_error)


def check_sizes(n: ArrayLike, theta: ArrayLike = 0.5) -> None:
    """Refuse sizes and probabilities out of their range.

    Raises
    ------
    OptionError
    """
    size, value = np.asarray(n, dtype=float), np.asarray(theta, dtype=float)
    if not (np.all(size >= 0) and np.all(size <= 2.0**53) and np.all(size == np.rint(size))):
        raise OptionError("n", n, "whole numbers from 0 to 2**53")
    if not np.all((value >= 0) & (value <= 1)):
        raise OptionError("theta", theta, "probabilities in [0, 1]")


def check_test(alpha: float, alternative: str = "two-sided") -> None:
    """Refuse levels and alternatives that are none.

    Raises
    ------
    OptionError
    """
    if alternative not in ALTERNATIVES:
        raise OptionError("alternative", alternative, ALTERNATIVES)
    if not 0 < alpha < 1:
        raise OptionError("alpha", alpha, "a number between 0 and 1")


def _check(n: ArrayLike, scale: float, theta: ArrayLike = 0.5) -> None:
    check_sizes(n, theta)
    if not 0 <= scale < np.inf:
        raise OptionError("scale", scale, "a finite number >= 0")


def _rate(scale: float) -> float:
    return min(1 / max(scale, 1e-300), _FASTEST)


def _split(z: Array, n: Array, scale: float) -> tuple[Array, Array]:
    """Nearest integer of z and what of its unit cell lies below z; beyond all probability z is brought near."""
    reach = min(1e3 * max(scale, 1.0), 1e300)
    near = np.clip(z, -reach, n + reach)
    whole = np.rint(near)
    return whole, near - whole + 0.5


def _lower(whole: Array, share: Array, n: Array, theta: Array, complement: Array, scale: float) -> Array:
    """P(Z <= whole - 1/2 + share), all arrays of one shape.

    With N = X + K and m = whole it is ``(1 - share) P(N < m) + share P(N <= m)``. Summing the discrete Laplace
    law leaves the tails of X and their discounted sums, ``above = sum P(X = m + i) q^i`` and ``below`` alike; the
    terms taken off are at most half of what they are taken from.
    """
    rate = np.full(whole.shape, _rate(scale))
    q = np.exp(-rate)
    at = binomial_pmf(whole, n, theta, complement)
    under = binomial_sf(n - whole, n, complement, theta)
    above = discounted_tail(whole, n, theta, complement, rate)
    below = discounted_tail(n - whole, n, complement, theta, rate)
    open_ = under + (q * (at + above) - below) / (1 + q)
    closed = under + at + (above - q * (at + below)) / (1 + q)
    return np.asarray(np.clip((1 - share) * open_ + share * closed, 0.0, 1.0))


def _probability(z: ArrayLike, n: ArrayLike, theta: ArrayLike, scale: float, *, upper: bool) -> Array:
    _check(n, scale, theta)
    arrays = np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in (z, n, theta)))
    count, size, chance = (np.ravel(array) for array in arrays)
    whole, share = _split(count, size, scale)
    if upper:
        out = _lower(size - whole, 1 - share, size, 1 - chance, chance, scale)
    else:
        out = _lower(whole, share, size, chance, 1 - chance, scale)
    return out.reshape(arrays[0].shape)


def proportion_cdf(z: ArrayLike, n: ArrayLike, theta: ArrayLike, scale: float) -> Array:
    """P(Z <= z) for a binomial count with Tulap noise.

    Parameters
    ----------
    z : array_like (...)
        Any real numbers; infinite ones give 0 or 1, NaN gives NaN.
    n : array_like (...)
        Public sizes, whole numbers from 0 to 2**53.
    theta : array_like (...)
        Probabilities in [0, 1].
    scale : float
        Scale of the discrete Laplace noise in counts, >= 0: D / epsilon for a count that one unit moves by D.

    Returns
    -------
    ndarray (...)
        Shape of the arguments broadcast. No sum over counts and no approximation: binomial tails and their
        geometrically discounted sums in closed form (`dpinfer.statistics.tails`), with a relative error of
        about 1e-15 times the square root of n (below 2e-10 measured at n = 1e9, 30 standard deviations out) and at
        most 1e-304 added, in both tails.

    Raises
    ------
    OptionError
        If n, theta or the scale is out of its range.

    Examples
    --------
    >>> proportion_cdf([10.0, 20.0, 30.0], n=100, theta=0.2, scale=1.0).round(3).tolist()
    [0.007, 0.509, 0.988]
    """
    return _probability(z, n, theta, scale, upper=False)


def proportion_sf(z: ArrayLike, n: ArrayLike, theta: ArrayLike, scale: float) -> Array:
    """P(Z >= z) for a binomial count with Tulap noise, accurate in the upper tail; see `proportion_cdf`."""
    return _probability(z, n, theta, scale, upper=True)


def guarded(level: float, n: Array) -> Array:
    """Lower a level by more than the numerical error of tails at sizes n (R,)."""
    return np.asarray(level * (1 - np.maximum(_GUARD, _GUARD_ROOT * np.sqrt(n))))


def last_angle(tail: Callable[..., Array], level: Array, *parts: Array, tolerances: Any = None) -> Array:
    """Largest angle phi (R,), rounded up, at which a tail that falls with phi is at least its level; 0 if none.

    The tail takes sin(phi)^2, cos(phi)^2 and the parts, all (R,). On the angle it falls over about 1 / sqrt(n) whatever
    theta = sin(phi)^2 is.
    """

    def excess(phi: Array, level: Array, *parts: Array) -> Array:
        given = np.broadcast_arrays(np.sin(phi) ** 2, np.cos(phi) ** 2, *parts)
        return np.asarray(tail(*(np.ravel(part) for part in given)).reshape(given[0].shape) - level)

    zero, one = np.zeros_like(level), np.ones_like(level)
    open_, closed = tail(zero, one, *parts) < level, tail(one, zero, *parts) >= level
    out = np.where(open_, 0.0, 0.5 * np.pi)
    sought = np.flatnonzero(~open_ & ~closed)
    if sought.size:
        bounds = (zero[sought], 0.5 * np.pi * one[sought])
        args = (level[sought], *(part[sought] for part in parts))
        found = elementwise.find_root(excess, bounds, args=args, tolerances=tolerances)
        out[sought] = np.where(found.f_x <= 0, found.x, found.bracket[1])
    return out


def proportion_interval(z: ArrayLike, n: ArrayLike, scale: float, alpha: float = 0.05) -> Array:
    """Equal-tailed interval for a proportion that covers with at least its level at every n and theta.

    Parameters
    ----------
    z : array_like (R,)
        Released counts with Tulap noise: any real numbers. NaN, a count that was not released, gives [0, 1].
    n : array_like, broadcast against z
        Public sizes, whole numbers from 0 to 2**53.
    scale : float
        Scale of the discrete Laplace noise in counts, >= 0.
    alpha : float
        One minus the level, between 0 and 1.

    Returns
    -------
    ndarray (R, 2)
        Ends in [0, 1], rounded outward; never NaN and never empty.

    Raises
    ------
    OptionError
        If n, the scale or alpha is out of its range.

    Notes
    -----
    ``P_theta(Z >= z)`` is continuous and strictly increasing in theta, so the lower end solves
    ``P_theta(Z >= min(z, n - 1/2)) = alpha / 2``, or is 0, and the upper end
    ``P_theta(Z <= max(z, 1/2)) = alpha / 2``, or is 1. With z itself in both places coverage would be exactly
    1 - alpha, but a count of zero or less could give an upper end of nearly 0, and a set without any theta when z
    is low enough: how far z is below zero only tells the noise (given Z < -1/2 its law does not depend on
    theta). Bringing z to 1/2 makes the upper end at least that of a noisy count of 0 that is not randomised.
    Coverage is therefore exactly 1 - alpha for theta between the upper end at z = 1/2 and the lower end at
    z = n - 1/2, and 1 - alpha / 2 nearer to 0 and 1 (or 1, where noise is so large that the two stretches overlap).
    Without noise the interval at z = x is inside that of Clopper and Pearson, and equal to it at x = 0 and x = n
    on the free side.

    References
    ----------
    .. [1] Awan and Slavkovic (2018), Differentially private uniformly most powerful tests for binomial data.
    .. [2] Stevens (1950), Fiducial limits of the parameter of a discontinuous distribution.

    Examples
    --------
    >>> proportion_interval([20.3, -4.0], n=100, scale=1.0).round(3).tolist()
    [[0.129, 0.295], [0.0, 0.053]]
    """
    _check(n, scale)
    check_test(alpha)
    count, size = np.broadcast_arrays(np.asarray(z, dtype=float), np.asarray(n, dtype=float))
    shape, missing = count.shape, np.isnan(count)
    count, size = np.ravel(np.where(missing, 0.5 * size, count)), np.ravel(size)
    level = guarded(0.5 * alpha, size)

    def tail(theta: Array, complement: Array, whole: Array, share: Array, size: Array) -> Array:
        return _lower(whole, share, size, theta, complement, scale)

    whole, share = _split(np.minimum(count, size - 0.5), size, scale)
    lower = np.cos(last_angle(tail, level, size - whole, 1 - share, size)) ** 2
    whole, share = _split(np.maximum(count, 0.5), size, scale)
    upper = np.sin(last_angle(tail, level, whole, share, size)) ** 2
    lower, upper = np.where(lower < NOTHING, 0.0, np.nextafter(lower, 0.0)), np.nextafter(upper, 1.0)
    ends = np.stack([lower, upper], axis=-1).reshape(*shape, 2)
    return np.where(missing[..., None], np.array([0.0, 1.0]), ends)


def proportion_pvalue(
    z: ArrayLike, n: ArrayLike, theta0: ArrayLike, scale: float, *, alternative: Alternative = "two-sided"
) -> Array:
    """p-value of the hypothesis that the proportion is theta0.

    Parameters
    ----------
    z : array_like (R,)
        Released counts with Tulap noise; NaN gives 1.
    n, theta0 : array_like, broadcast against z
        Public sizes and the tested values.
    scale : float
        Scale of the discrete Laplace noise in counts, >= 0.
    alternative : {"two-sided", "greater", "less"}
        Whether the proportion is different from, above or below theta0.

    Returns
    -------
    ndarray (R,)

    Raises
    ------
    OptionError
        If an argument is out of its range.

    Notes
    -----
    The one-sided p-values ``P_theta0(Z >= z)`` and ``P_theta0(Z <= z)`` are exactly uniform under theta0, and their
    tests are uniformly most powerful among all private tests at ``scale = 1 / epsilon`` [1]_. The two-sided one is
    twice the smaller of them, with z kept off the ends as in `proportion_interval`: it is at least alpha exactly
    where that interval holds theta0.

    References
    ----------
    .. [1] Awan and Slavkovic (2018), Differentially private uniformly most powerful tests for binomial data.

    Examples
    --------
    >>> proportion_pvalue(27.2, n=30, theta0=0.8, scale=1.0, alternative="greater").round(3).item()
    0.103
    """
    check_test(0.5, alternative)
    count = np.asarray(z, dtype=float)
    if alternative == "greater":
        out = proportion_sf(count, n, theta0, scale)
    elif alternative == "less":
        out = proportion_cdf(count, n, theta0, scale)
    else:
        over = proportion_sf(np.minimum(count, np.asarray(n, dtype=float) - 0.5), n, theta0, scale)
        out = two_sided(over, proportion_cdf(np.maximum(count, 0.5), n, theta0, scale))
    return np.where(np.isnan(out), 1.0, out)


def two_sided(over: Array, under: Array) -> Array:
    """Twice the smaller of two tails, at most 1."""
    return np.asarray(np.minimum(2 * np.minimum(over, under), 1.0))


def proportion_estimate(z: ArrayLike, n: ArrayLike, scale: float) -> ProportionEstimate:
    """Estimate a proportion, with its variance from sampling and from noise.

    Parameters
    ----------
    z : array_like (R,)
        Released counts with Tulap noise; NaN counts as n / 2, clipped.
    n : array_like, broadcast against z
        Public sizes, whole numbers from 0 to 2**53.
    scale : float
        Scale of the discrete Laplace noise in counts, >= 0.

    Returns
    -------
    ProportionEstimate
        Everything finite. The sampling variance is taken at the estimate kept between 1 / (n + 2) and
        (n + 1) / (n + 2), Laplace's rule of succession, so that it is not 0 at the ends. Without units
        (n = 0) the estimate is 1/2 with variance 1/4, the largest that a number in [0, 1] can have.

    Raises
    ------
    OptionError
        If n or the scale is out of its range.

    Examples
    --------
    >>> found = proportion_estimate(20.3, n=100, scale=1.0)
    >>> round(found.proportion.item(), 3), round(found.standard_error.item(), 4)
    (0.203, 0.0425)
    """
    _check(n, scale)
    count, size = np.broadcast_arrays(np.asarray(z, dtype=float), np.asarray(n, dtype=float))
    missing = np.isnan(count) | (size == 0)
    count = np.where(missing, 0.5 * size, count)
    units = np.maximum(size, 1.0)
    proportion = np.where(size == 0, 0.5, np.clip(count, 0.0, size) / units)
    kept = np.clip(proportion, 1 / (size + 2), (size + 1) / (size + 2))
    noise = 0.5 / max(np.sinh(0.5 * _rate(scale)), 1e-150) ** 2 + 1 / 12
    return ProportionEstimate(
        proportion,
        np.where(size == 0, 0.25, kept * (1 - kept) / units),
        np.where(size == 0, 0.0, noise / units**2),
        missing | (count < 0) | (count > size),
    )
