"""The law of a binomial count with privacy noise: distribution function and tails, exact at every size.

The released number is ``Z = X + N`` with ``X ~ Binomial(n, theta)``, n public, and N either Tulap noise (discrete
Laplace noise and a stored uniform fraction) or discrete Gaussian noise on the multiples of a step.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dpinfer.errors import OptionError
from dpinfer.inference.tulap import check_sizes, proportion_cdf, proportion_sf
from dpinfer.release.laws import TULAP_GRID
from dpinfer.statistics.tails import binomial_pmf, binomial_sf

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dpinfer.release import NoiseLaw
    from dpinfer.statistics.arrays import Array, Mask

__all__ = ["check_law", "count_tail", "noisy_binomial_cdf", "noisy_binomial_sf"]

_EXPONENT = 64.0
_NEGLECTED = 2 * np.exp(-_EXPONENT)
"""Probability outside the summed window is at most this, and is added."""
_TABLE_BELOW = 1024.0
"""Scale in steps below which the discrete Gaussian law is summed, and from which Euler and Maclaurin sum it."""
_SMOOTH = 4.0
"""Spacings of the nodes in the joint width of count and noise, at least, where not every term is summed."""
_NO_NOISE = 0.02
"""Scale in steps below which any noise but 0 has probability 0 in floating point."""
_ROWS = 1500
"""Problems summed at once: each has at most about 500 terms."""


def check_law(n: ArrayLike, theta: ArrayLike, law: NoiseLaw, step: float) -> None:
    """Refuse sizes, probabilities, laws and steps out of their range.

    Raises
    ------
    OptionError
    """
    check_sizes(n, theta)
    if law.family not in ("gaussian", "tulap") or len(law.scales) != 1:
        raise OptionError("law", law.to_dict(), 'one coordinate of the family "gaussian" or "tulap"')
    spacing = 1 / step if step > 0 else 0.0
    if not (1 <= spacing < 2.0**53 and spacing == np.rint(spacing)) or (
        law.family == "tulap" and spacing != TULAP_GRID
    ):
        raise OptionError("step", step, "1 / m with m a whole number; for Tulap noise m = TULAP_GRID")


@lru_cache(maxsize=16)
def _tail_table(scale: float) -> Array:
    """P(N <= -i) of a discrete Gaussian law for i = 0, 1, ..., summed from the far end: accurate in the tail."""
    weights = np.exp(-0.5 * (np.arange(np.ceil(39 * scale) + 2) / scale) ** 2)
    total = weights[0] + 2 * np.cumsum(weights[:0:-1])[-1]
    return np.asarray(np.cumsum(weights[::-1])[::-1] / total)


def _below(steps: Array, scale: float) -> Array:
    """P(N <= -steps) of a discrete Gaussian law for whole numbers ``steps >= 0``."""
    if scale < _TABLE_BELOW:
        table = _tail_table(scale)
        return np.where(steps < table.size, table[np.minimum(steps, table.size - 1).astype(np.intp)], 0.0)
    edge = np.minimum((steps - 0.5) / scale, 40.0)
    density = np.exp(-0.5 * edge**2) / np.sqrt(2 * np.pi)
    correction = edge / (24 * scale**2) + 7 / 5760 * (3 * edge - edge**3) / scale**4
    return np.asarray(np.maximum(special.ndtr(-edge) - density * correction, 0.0))


def _noise_between(low: Array, high: Array, scale: float) -> Array:
    """P(low < N <= high) of a discrete Gaussian law, whole numbers, as a difference of small tails."""
    upper = high > 0
    near, far = np.where(upper, low + 1, -high), np.where(upper, high + 1, -low)
    crossing = near <= 0
    tail = _below(np.maximum(near, 0.0), scale) - _below(np.maximum(far, 1.0), scale)
    middle = 1 - _below(np.maximum(1 - near, 1.0), scale) - _below(np.maximum(far, 1.0), scale)
    return np.maximum(np.where(crossing, middle, tail), 0.0)


def _noise_cdf(steps: Array, scale: float) -> Array:
    """P(N <= steps) of a discrete Gaussian law, whole numbers."""
    tail = _below(np.where(steps > 0, steps + 1, -steps), scale)
    return np.where(steps > 0, 1 - tail, tail)


def _windows(low: Array, high: Array, stride: Array) -> tuple[Array, Mask]:
    """Nodes from low to high (R, T), and which of them count."""
    length = np.floor((high - low) / stride)
    nodes = low[:, None] + stride[:, None] * np.arange(int(length.max()) + 1)
    return nodes, nodes <= high[:, None]


def _stride(variance: Array, width: float) -> Array:
    """Spacing of the nodes: the summand is a product of bells as wide as count and noise."""
    joint = np.sqrt(variance * width**2 / np.maximum(variance + width**2, 1e-300))
    return np.maximum(np.floor(joint / _SMOOTH), 1.0)


def _over_counts(z: Array, n: Array, theta: Array, complement: Array, scale: float, spacing: float) -> Array:
    """Sum of P(X = x) P(N <= z - x), for counts that spread less than the noise; z in steps."""
    variance, mean = n * theta * complement, n * theta
    reach = _EXPONENT / 3 + np.sqrt((_EXPONENT / 3) ** 2 + 2 * _EXPONENT * variance)  # Bernstein's inequality
    stride = _stride(variance, scale / spacing)
    low, high = np.maximum(np.floor(mean - reach), 0.0), np.minimum(np.ceil(mean + reach), n)
    x, counts = _windows(low, high, stride)
    x = np.where(counts, x, high[:, None])
    shape = np.zeros_like(x)
    mass = binomial_pmf(x, n[:, None] + shape, theta[:, None] + shape, complement[:, None] + shape)
    found: Array = np.sum(np.where(counts, mass * _noise_cdf(z[:, None] - spacing * x, scale), 0.0), axis=1)
    return found * stride


def _over_noise(z: Array, n: Array, theta: Array, complement: Array, scale: float, spacing: float) -> Array:
    """Sum of P(X <= x) P(z - x - 1 < N <= z - x), for noise that spreads less than the counts; z in steps."""
    reach = np.sqrt(2 * _EXPONENT) * scale
    stride = _stride(n * theta * complement, scale / spacing)
    x, counts = _windows(np.floor((z - reach) / spacing) - 1, np.ceil((z + reach) / spacing) + 1, stride)
    left = z[:, None] - spacing * x
    shape = np.zeros_like(x)
    size = n[:, None] + shape
    closed = binomial_sf(size - x - 1, size, complement[:, None] + shape, theta[:, None] + shape)
    found: Array = np.sum(np.where(counts, closed * _noise_between(left - spacing, left, scale), 0.0), axis=1)
    return found * stride


def _gaussian_cdf(z: Array, n: Array, theta: Array, complement: Array, scale: float, step: float) -> Array:
    """P(Z <= z) from above under discrete Gaussian noise, all arrays (R,)."""
    spacing, reach = 1 / step, 45 * max(scale, 1.0)
    near = np.clip(z, -reach * step, n + reach * step) * spacing
    steps = np.floor(near + 2 * np.spacing(np.maximum(np.abs(near), n * spacing)))  # what z lost as a float
    if scale < _NO_NOISE:
        return binomial_sf(n - np.floor(steps / spacing) - 1, n, complement, theta)
    out = np.empty(z.shape)
    narrow = n * theta * complement <= (scale / spacing) ** 2
    for chosen, summed in ((narrow, _over_counts), (~narrow, _over_noise)):
        places = np.flatnonzero(chosen)
        for start in range(0, places.size, _ROWS):
            some = places[start : start + _ROWS]
            out[some] = summed(steps[some], n[some], theta[some], complement[some], scale, spacing)
    return np.asarray(np.clip(out + _NEGLECTED, 0.0, 1.0))


def _cdf(z: Array, n: Array, theta: Array, complement: Array, law: NoiseLaw, step: float) -> Array:
    """P(Z <= z) where no z is NaN; all arrays (R,)."""
    if law.family == "gaussian":
        return _gaussian_cdf(z, n, theta, complement, law.scales[0], step)
    scale, small = law.scales[0] / TULAP_GRID, theta <= 0.5
    out = np.empty(z.shape)
    out[small] = proportion_cdf(z[small], n[small], theta[small], scale)
    out[~small] = proportion_sf((n - z)[~small], n[~small], complement[~small], scale)
    return out


def count_tail(
    z: Array, n: Array, theta: Array, complement: Array, law: NoiseLaw, step: float, *, upper: bool
) -> Array:
    """P(Z >= z), as P(n - Z <= n - z) of the failures, or P(Z <= z); arrays (R,), none of them NaN.

    Of theta and its complement 1 - theta, the smaller has to be exact.
    """
    if upper:
        return _cdf(n - z, n, complement, theta, law, step)
    if law.family == "tulap":
        z = z + step  # the stored fraction is on a grid, and stands for the cell above it
    return _cdf(z, n, theta, complement, law, step)


def noisy_binomial_cdf(z: ArrayLike, n: ArrayLike, theta: ArrayLike, law: NoiseLaw, *, step: float = 1.0) -> Array:
    """P(Z <= z) for a binomial count with discrete Gaussian or Tulap noise; z itself counts.

    Parameters
    ----------
    z : array_like (...)
        Noisy counts: any real numbers, infinite ones too. NaN, a count that was not released, gives 1.
    n : array_like (...)
        Public sizes, whole numbers from 0 to 2**53.
    theta : array_like (...)
        Probabilities in [0, 1].
    law : NoiseLaw
        One coordinate of the family "gaussian" or "tulap", its scale in steps; a Gaussian scale of 0 is no noise.
    step : float
        Size of a step in counts, ``1 / m`` with m whole; ``1 / TULAP_GRID`` for Tulap noise.

    Returns
    -------
    ndarray (...)
        Shape of the arguments broadcast; for Gaussian noise at most 4e-28 above the sum, and never below it but for
        rounding, whose relative size is about 1e-15 times the square root of n.

    Raises
    ------
    OptionError
        If n, theta, the law or the step is out of its range.

    Notes
    -----
    The sum runs over the counts, or over the noise, whichever spreads less, where its terms exceed exp(-64); what
    is left out is bounded by inequalities of Bernstein and Chernoff, and added. Where both spread over h times four
    or more, only every h-th term is evaluated: the summand is a product of two bells of such widths, whose
    Fourier transform at frequency 1 / h is below exp(-2 pi^2 16), and so is what is lost (Poisson's summation
    formula). The time therefore does not grow with n. Tulap noise needs no sum: see `dpinfer.inference.tulap`.

    Examples
    --------
    >>> from dpinfer.release import NoiseLaw
    >>> noisy_binomial_cdf([10, 20, 30], n=100, theta=0.2, law=NoiseLaw("gaussian", (3.0,))).round(3).tolist()
    [0.026, 0.545, 0.98]
    """
    return _probability(z, n, theta, law, step, upper=False)


def noisy_binomial_sf(z: ArrayLike, n: ArrayLike, theta: ArrayLike, law: NoiseLaw, *, step: float = 1.0) -> Array:
    """P(Z >= z) for a noisy binomial count; z itself counts. Arguments and errors as `noisy_binomial_cdf`."""
    return _probability(z, n, theta, law, step, upper=True)


def _probability(z: ArrayLike, n: ArrayLike, theta: ArrayLike, law: NoiseLaw, step: float, *, upper: bool) -> Array:
    check_law(n, theta, law, step)
    arrays = np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in (z, n, theta)))
    count, size, chance = (np.ravel(array) for array in arrays)
    missing = np.isnan(count)
    found = count_tail(np.where(missing, 0.0, count), size, chance, 1 - chance, law, step, upper=upper)
    return np.where(missing, 1.0, found).reshape(arrays[0].shape)
