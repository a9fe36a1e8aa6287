"""Exact tests and intervals of a proportion from one noisy binomial count.

The distribution of the released count, binomial plus Tulap or discrete Gaussian noise, is known for every proportion.
Tests are valid for every n, theta and privacy loss, not only asymptotically. See
`dpinfer.statistics.noise.noisy_binomial_cdf`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import elementwise

from dpinfer.errors import OptionError
from dpinfer.statistics.inference import Contrasts, Inference, Oracle
from dpinfer.statistics.noise import check_law, count_tail, noisy_binomial_cdf, noisy_binomial_sf
from dpinfer.statistics.nulls import ALTERNATIVES, Alternative

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from dpinfer.release import NoiseLaw
    from dpinfer.statistics.arrays import Array, Mask

EXACT_METHODS = ("exact", "wald")

_CLIPPED = "the noisy count is below 0 or above the number of rows: the estimate was clipped to the boundary"

_TOLERANCES = {"gaussian": {"xatol": 1e-14, "xrtol": 1e-13}}
"""How closely ends are found, by family of noise, where a tail is a sum whose terms are neglected from somewhere."""

_GUARD, _GUARD_ROOT = 1e-9, 1e-14
"""Relative margin by which tail probabilities are kept from their level, and its least multiple of sqrt(n): more
than their numerical error."""

_NOTHING = 1e-30
"""The square of the cosine of pi / 2 in floating point is below this, and is 0."""


@dataclass(frozen=True, slots=True)
class ProportionEstimate:
    """A proportion with the two parts of its variance.

    Attributes
    ----------
    proportion : ndarray (R,)
        ``z / n``, clipped to [0, 1].
    sampling_variance : ndarray (R,)
        ``p (1 - p) / n``.
    noise_variance : ndarray (R,)
        Variance of the noise over ``n^2``.
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


def binomial_pvalue(
    z: ArrayLike,
    n: ArrayLike,
    theta0: ArrayLike,
    law: NoiseLaw,
    *,
    step: float = 1.0,
    alternative: Alternative = "two-sided",
) -> Array:
    """p-value for the null hypothesis that the proportion is theta0, from a noisy count.

    Parameters
    ----------
    z : array_like (...)
        Noisy counts: any real numbers; NaN gives 1.
    n, theta0 : array_like (...)
        Public sizes, and the tested values in [0, 1].
    law : NoiseLaw
        See `noisy_binomial_cdf`.
    step : float
        Step of the noise distribution, in counts.
    alternative : {"two-sided", "greater", "less"}
        Whether the proportion differs from, exceeds or is below theta0.

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
    The p-value is ``P(Z >= z)`` or ``P(Z <= z)`` under theta0, or twice the smaller of them, with z kept off the ends
    as in `binomial_interval`. ``P(p <= a) <= a`` for every a under theta0, and for one-sided alternatives under the
    whole null hypothesis, since Z is stochastically increasing in theta. Under Tulap noise of scale 1 / epsilon the
    one-sided p-values are uniform under theta0, and their tests uniformly most powerful among all epsilon-private ones
    [1]_.

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
    _check_test(0.5, alternative)
    if alternative != "two-sided":
        tail = noisy_binomial_sf if alternative == "greater" else noisy_binomial_cdf
        return tail(z, n, theta0, law, step=step)
    count, size = np.asarray(z, dtype=float), np.asarray(n, dtype=float)
    over = noisy_binomial_sf(_off_ends(count, size, law, upper=True), size, theta0, law, step=step)
    under = noisy_binomial_cdf(_off_ends(count, size, law, upper=False), size, theta0, law, step=step)
    return np.asarray(np.minimum(2 * np.minimum(over, under), 1.0))


def binomial_interval(
    z: ArrayLike,
    n: ArrayLike,
    law: NoiseLaw,
    *,
    step: float = 1.0,
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
) -> Array:
    """Interval for a proportion by inversion of `binomial_pvalue`, with at least nominal coverage.

    Parameters
    ----------
    z : array_like (R,)
        Noisy counts: any real numbers. NaN, for a count that was not released, gives [0, 1].
    n : array_like, broadcast against z
        Public sizes, integers from 0 to 2**53.
    law : NoiseLaw
        See `noisy_binomial_cdf`.
    step : float
        Step of the noise distribution, in counts.
    alpha : float
        One minus the confidence level, between 0 and 1.
    alternative : {"two-sided", "greater", "less"}
        Equal tails; or only a lower endpoint ("greater"), or only an upper endpoint ("less").

    Returns
    -------
    ndarray (R, 2)
        Endpoints in [0, 1], rounded outward; never NaN and never empty.

    Raises
    ------
    OptionError
        If an argument is out of its range.

    Notes
    -----
    ``P_theta(Z >= z)`` increases with theta: at an endpoint a tail equals alpha / 2 (or alpha). A count far above n
    makes even theta = 1 unlikely, and is informative about the noise only. With equal tails the count is therefore
    clipped to at most n for the lower endpoint and at least 0 for the upper one, which can only increase coverage.
    One-sided tests use the count as it is, for power; if one rejects every theta, the interval is the end of [0, 1]
    nearest to the alternative, as one point.

    Under Tulap noise the distribution is continuous, and the count is clipped at n - 1/2 and 1/2. With z itself,
    coverage would be exactly 1 - alpha, but a count of zero or less could give an upper endpoint near 0, or an empty
    set for a low z, although the distance of z below zero is informative about the noise only (given Z < -1/2 its
    distribution does not depend on theta). Clipping z at 1/2 makes the upper endpoint at least that of a nonrandomised
    noisy count of 0. Coverage is therefore exactly 1 - alpha for theta between the upper end at z = 1/2 and the lower
    end at z = n - 1/2, and 1 - alpha / 2 nearer to 0 and 1 (or 1, where noise is so large that the two stretches
    overlap). Without noise the interval at z = x is inside that of Clopper and Pearson, and equal to it at x = 0 and x
    = n on the free side [2]_.

    References
    ----------
    .. [1] Awan and Slavkovic (2018), Differentially private uniformly most powerful tests for binomial data.
    .. [2] Stevens (1950), Fiducial limits of the parameter of a discontinuous distribution.

    Examples
    --------
    >>> from dpinfer.release import NoiseLaw
    >>> law = NoiseLaw("gaussian", (3.0,))
    >>> binomial_interval([20, -4], n=100, law=law).round(3).tolist()
    [[0.109, 0.312], [0.0, 0.083]]
    """
    check_law(n, 0.5, law, step)
    _check_test(alpha, alternative)
    count, size = np.broadcast_arrays(np.asarray(z, dtype=float), np.asarray(n, dtype=float))
    shape, missing, size = count.shape, np.ravel(np.isnan(count)), np.ravel(size)
    count = np.where(missing, 0.5 * size, np.ravel(count))
    two = alternative == "two-sided"
    level = alpha / (1 + two) * (1 - np.maximum(_GUARD, _GUARD_ROOT * np.sqrt(size)))
    lower, upper = np.zeros_like(size), np.ones_like(size)
    if alternative != "less":
        z = _off_ends(count, size, law, upper=True) if two else count
        lower = np.cos(_last_angle(z, size, law, step, level, upper=True)) ** 2
    if alternative != "greater":
        z = _off_ends(count, size, law, upper=False) if two else count
        upper = np.sin(_last_angle(z, size, law, step, level, upper=False)) ** 2
    if two:
        lower, upper = np.nextafter(lower, 0.0), np.nextafter(upper, 1.0)
    lower = np.where(missing | (lower < _NOTHING), 0.0, lower)
    return np.stack([lower, np.where(missing, 1.0, upper)], axis=-1).reshape(*shape, 2)


def binomial_estimate(z: ArrayLike, n: ArrayLike, law: NoiseLaw, *, step: float = 1.0) -> ProportionEstimate:
    """Estimate a proportion from a noisy count, with its variance from sampling and from noise.

    Arguments and errors are those of `binomial_interval`; a missing count is replaced by n / 2, flagged as clipped.

    Returns
    -------
    ProportionEstimate
        All numbers are finite. The sampling variance uses the estimate clipped to between 1 / (n + 2) and (n + 1) / (n
        + 2), Laplace's rule of succession, so that it is not 0 at the ends. Without units (n = 0) the estimate is 1/2
        with variance 1/4, the largest possible for a number in [0, 1].

    Examples
    --------
    >>> from dpinfer.release import NoiseLaw
    >>> found = binomial_estimate(20.3, n=100, law=NoiseLaw("gaussian", (1.4,)))
    >>> round(found.proportion.item(), 3), round(found.standard_error.item(), 4)
    (0.203, 0.0426)
    """
    check_law(n, 0.5, law, step)
    count, size = np.broadcast_arrays(np.asarray(z, dtype=float), np.asarray(n, dtype=float))
    missing, empty, units = np.isnan(count) | (size == 0), size == 0, np.maximum(size, 1.0)
    count = np.where(missing, 0.5 * size, count)
    proportion = np.where(empty, 0.5, np.clip(count, 0.0, size) / units)
    inner = np.clip(proportion, 1 / (size + 2), (size + 1) / (size + 2))
    return ProportionEstimate(
        proportion,
        np.where(empty, 0.25, inner * (1 - inner) / units),
        np.where(empty, 0.0, float(law.variances[0]) * step**2 / units**2),
        missing | (count < 0) | (count > size),
    )


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
        Step of the noise distribution, in counts.
    alpha : float
    alternative : {"two-sided", "greater", "less"}

    Returns
    -------
    float
        Computed by summation at the thresholds of the test, the outermost counts at which `binomial_pvalue` is at most
        alpha.

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
    _check_test(alpha, alternative)
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


def _last(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Largest integer from low to high at which a monotone condition holds; low - 1 if none."""
    low -= 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _off_ends(z: Array, n: Array, law: NoiseLaw, *, upper: bool) -> Array:
    """Keep z off the ends on the side that would reject every theta: see `binomial_interval`."""
    margin = 0.5 if law.family == "tulap" else 0.0
    return np.minimum(z, n - margin) if upper else np.maximum(z, margin)


def _last_angle(z: Array, n: Array, law: NoiseLaw, step: float, level: Array, *, upper: bool) -> Array:
    """Largest angle phi (R,), rounded up, at which a tail that falls with phi is at least its level; 0 if none.

    It is that of Z >= z with theta = cos(phi)^2, or of Z <= z with theta = sin(phi)^2. On the angle it falls over about
    1 / sqrt(n) whatever theta is.
    """

    def tail(sine: Array, cosine: Array, z: Array, n: Array) -> Array:
        theta, complement = (cosine, sine) if upper else (sine, cosine)
        return count_tail(z, n, theta, complement, law, step, upper=upper)

    def excess(phi: Array, level: Array, *given: Array) -> Array:
        given = np.broadcast_arrays(np.sin(phi) ** 2, np.cos(phi) ** 2, *given)
        return np.asarray(tail(*map(np.ravel, given)).reshape(given[0].shape) - level)

    zero, one = np.zeros_like(level), np.ones_like(level)
    open_, closed = tail(zero, one, z, n) < level, tail(one, zero, z, n) >= level
    out = np.where(open_, 0.0, 0.5 * np.pi)
    sought = np.flatnonzero(~open_ & ~closed)
    if sought.size:
        bounds = (zero[sought], 0.5 * np.pi * one[sought])
        args = (level[sought], z[sought], n[sought])
        found = elementwise.find_root(excess, bounds, args=args, tolerances=_TOLERANCES.get(law.family))
        out[sought] = np.where(found.f_x <= 0, found.x, found.bracket[1])
    return out


def _check_test(alpha: float, alternative: str) -> None:
    """Refuse invalid levels and alternatives."""
    if alternative not in ALTERNATIVES:
        raise OptionError("alternative", alternative, ALTERNATIVES)
    if not 0 < alpha < 1:
        raise OptionError("alpha", alpha, "a number between 0 and 1")


@dataclass(frozen=True, eq=False)
class ExactProportion(Inference):
    """A proportion whose noisy count has a known distribution.

    Attributes
    ----------
    counts : ndarray (R,)
        Noisy counts.
    size : int
        The public number of rows.
    law : NoiseLaw
        Noise of the counts.
    step : float
        Step of the noise distribution, in counts.
    """

    counts: Array
    size: int
    law: NoiseLaw
    step: float

    methods = EXACT_METHODS
    automatic = "exact"

    @cached_property
    def _estimate(self) -> ProportionEstimate:
        return binomial_estimate(self.counts, self.size, self.law, step=self.step)

    @property
    def params(self) -> Array:
        """The estimate (1,), clipped to [0, 1]."""
        return self._estimate.proportion

    @property
    def cov_sampling(self) -> Array:
        """Variance from sampling (1, 1)."""
        return self._estimate.sampling_variance[:, None]

    @property
    def cov_noise(self) -> Array:
        """Variance from privacy noise (1, 1)."""
        return self._estimate.noise_variance[:, None]

    @property
    def flagged(self) -> Mask:
        """Whether an estimate was clipped to [0, 1] (R,)."""
        return self._estimate.clipped

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings."""
        return (_CLIPPED,) if self._estimate.clipped[0] else ()

    def _linear(self, rows: Array) -> Contrasts:
        """Return multiples (R, k) of the proportion, with a normal reference."""
        found, weights = self._estimate, rows[:, 0]
        return Contrasts(found.proportion[:, None] * weights, found.standard_error[:, None] * np.abs(weights))

    def _ends(self, rows: Array, alpha: float) -> Array:
        """See `Inference`; within [0, 1] times the weights."""
        if self.method == "exact":
            own = binomial_interval(self.counts, self.size, self.law, step=self.step, alpha=alpha)
        else:
            own = np.clip(self._linear(np.eye(1)).intervals(alpha)[:, 0], 0.0, 1.0)
        return np.sort(rows * own[:, None], axis=-1)

    def _tails(self, rows: Array, values: Array) -> Array:
        """See `Inference`; values are tested as proportions in [0, 1]."""
        tested = np.clip(values / rows[:, 0], 0.0, 1.0)
        if self.method == "exact":
            return binomial_pvalue(self.counts[:, None], self.size, tested, self.law, step=self.step)
        return self._linear(np.eye(1)).pvalues(tested)

    def _joint(self, rows: Array, values: Array) -> tuple[float, float]:
        """See `Inference`: with one proportion there is at most one restriction."""
        return float(self._linear(rows).distances(values)[0, 0] ** 2), float(self._tails(rows, values)[0, 0])

    def oracle(self, sampling: Array, alpha: float) -> Oracle:
        """Return the width of a normal interval that knew the true sampling variance (1,) and the noise."""
        return Oracle.of(self._estimate.noise_variance, sampling, np.inf, alpha=alpha)


def count_flags(n: int, *, clipped: bool) -> tuple[str, ...]:
    """Warn of no rows, and of a noisy count that was ``clipped`` to 0 or the number of rows ``n``."""
    if n == 0:
        return ("there are no rows: the proportion is not identified",)
    if clipped:
        return (_CLIPPED,)
    return ()
