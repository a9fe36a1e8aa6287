"""Exact laws of integer noise: of sums of it, of counts of a table that carry it, of a binomial count with it.

`NoiseSums` reads intervals for the data's own counts from noise alone. Their ends are quantiles of the law that the
noise has, which lives on a grid: quantiles of a continuous law of the same variance cover too little where a step
counts.

`CountNoise` is what tests of tables ask of the noise on each count.

`noisy_binomial_cdf` is the law of ``Z = X + N`` with ``X ~ Binomial(n, theta)``, n public, and N either discrete
Gaussian noise on the multiples of a step, or Tulap noise: ``N = K + U`` with K discrete Laplace, ``P(K = k)``
proportional to ``exp(-abs(k) / scale)``, and U a stored uniform on (-1/2, 1/2). It is exact at every size.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import fft, special

from dpinfer.errors import OptionError, ReleaseFormatError
from dpinfer.release.laws import NORMAL_DRAWS, TULAP_GRID, NoiseLaw, discrete_masses
from dpinfer.statistics.tails import binomial_pmf, binomial_sf, discounted_tail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from dpinfer.release.laws import Family
    from dpinfer.statistics.arrays import Array


_LARGEST = 2**18
"""Points of the grid on which a law is computed; of a wider one a step is nothing beside its spread."""

_MOST = 12
"""Kinds of variables whose law is computed; the sum of more is spread between the points of any grid."""

_MULTIPLES = 64
"""Ratio up to which factors count as multiples of the smallest."""

_ALIKE = 1e-7
"""Relative difference up to which factors are the same."""

_FINE = 64
"""Points of the grid in a standard deviation, for every kind of variable, where factors have no common measure."""

_ROUNDED = 1e-6
"""Relative error of factors that are written with seven digits, at most."""

_SURE = 1e-12
"""Probability from which a computed tail is exact enough."""

LEAST = 1.0
"""Rows that a margin, or a sample, is taken to have at least."""

_ROUNDED_FROM, _SHORT = 8.0, 1e5
"""Scales from which a rounded Gaussian stands for a discrete one, and up to which 24 bits of it are enough."""

_FASTEST = 700.0
"""Largest 1 / scale told apart from no noise at all: then P(K != 0) is 2e-304."""

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


class Variable(NamedTuple):
    """The sum of some independent draws of discrete Laplace or Gaussian noise, in steps."""

    family: Family
    scale: float
    several: int


Term = tuple[float, Variable]


def variables_of(law: NoiseLaw, together: int = 1) -> tuple[Variable, ...]:
    """Return the noise variables of a release, each the sum of ``together`` draws of its law.

    Examples
    --------
    >>> from dpinfer.release.laws import NoiseLaw
    >>> variables_of(NoiseLaw("laplace", (1.0,), draws=2))
    (Variable(family='laplace', scale=1.0, several=2),)
    """
    return tuple(Variable(law.family, scale, law.draws * together) for scale in law.scales)


@dataclass(frozen=True, eq=False)
class NoiseSums:
    """Linear combinations of independent noise variables.

    Attributes
    ----------
    factors : ndarray (..., M)
        What a step of each variable moves each combination by.
    variables : tuple of Variable, length M

    Notes
    -----
    Variables with the same factor and law are one, with more draws. If all factors are whole multiples of the smallest,
    the probabilities on its grid are the convolution of those of the variables. Otherwise the grid is finer, every
    variable is moved to the nearest points, and what that can add up to is added to the reach: it is never too short.
    Where a law is too wide for that (a standard deviation of thousands of steps), or has many kinds of variables, the
    continuous quantile is taken up to the next whole multiple of the largest factor.

    Examples
    --------
    >>> one = NoiseSums(np.ones((1, 1)), (Variable("laplace", 1.0, 1),))
    >>> one.reach(0.05, np.array([2.87]))  # P(abs(X) > 2) = 0.0728, P(abs(X) > 3) = 0.0268
    array([3.])
    """

    factors: Array
    variables: tuple[Variable, ...]

    def reach(self, alpha: float, smooth: Array) -> Array:
        """Half widths (...) of the closed intervals of level ``1 - alpha``: the smallest on the grid that reach it.

        Parameters
        ----------
        alpha : float
        smooth : ndarray (...)
            Quantiles of continuous laws of the same variances, for where no grid serves.
        """
        (laws, own_shape), shape = self._laws, np.broadcast_shapes(np.shape(smooth), self.factors.shape[:-1])
        smooth = np.broadcast_to(smooth, shape)
        own = np.array([np.nan if law is None else law.reach(alpha) for law in laws])
        width = np.maximum(np.abs(self.factors).max(axis=-1, initial=0.0), 1e-300)
        beyond = width * (np.floor(smooth / width) + 1)
        own = np.broadcast_to(own.reshape(own_shape), shape)
        return np.where(np.isnan(own), beyond, own)

    def tails(self, distance: Array, smooth: Array) -> Array:
        """Probabilities (...) of a distance from zero, or more; ``smooth`` (...) where no grid serves."""
        (laws, own_shape), shape = self._laws, np.broadcast_shapes(distance.shape, self.factors.shape[:-1])
        places = np.broadcast_to(np.arange(len(laws)).reshape(own_shape), shape)
        found, far = np.array(np.broadcast_to(smooth, shape)), np.broadcast_to(distance, shape)
        for place, law in enumerate(laws):
            if law is not None:
                mine = places == place
                own = law.tails(far[mine])
                found[mine] = np.where(own > _SURE, own, np.minimum(found[mine], _SURE))
        return found

    @property
    def _laws(self) -> tuple[list[_Law | None], tuple[int, ...]]:
        """The laws of the combinations, one where all are the same, and the shape that they have."""
        shape, rows = self.factors.shape[:-1], self.factors.reshape(-1, self.factors.shape[-1])
        if len(rows) > 1 and (rows == rows[:1]).all():
            shape, rows = (1,) * len(shape), rows[:1]
        return [_law(_terms(row, self.variables)) for row in rows], shape


@dataclass(frozen=True, slots=True)
class _Law:
    """Tails of the distance from zero: ``beyond[m]`` is the probability of at least m steps of ``width``.

    ``apart`` is how far the variable itself may be from the grid, ``off`` by which part of a distance the grid may be.
    """

    width: float
    apart: float
    beyond: Array
    off: float = _ROUNDED

    def reach(self, alpha: float) -> float:
        """Smallest half width of a closed interval of level ``1 - alpha``; NaN where ``alpha`` is too small to tell."""
        if alpha < _SURE:
            return np.nan
        steps = int(np.searchsorted(-self.beyond[1:], -alpha))
        return self.width * steps * (1 + self.off) + self.apart

    def tails(self, distance: Array) -> Array:
        """Probability of a distance (k,) or more."""
        steps = np.ceil((np.asarray(distance) - self.apart) / self.width * (1 - self.off) - _ALIKE)
        return np.asarray(self.beyond[np.clip(steps, 0, self.beyond.size - 1).astype(np.intp)])


def _terms(factors: Array, variables: Sequence[Variable]) -> tuple[Term, ...]:
    """Add up what has the same factor and the same law, in order of the factors."""
    sizes = np.abs(factors)
    spreads = sizes * np.array([one.scale * one.several**0.5 for one in variables])  # steps of one may be tiny
    added: dict[tuple[float, Family, float], int] = defaultdict(int)
    for place in np.flatnonzero(spreads > _ALIKE * spreads.max(initial=0.0)).tolist():
        one, size = variables[place], float(sizes[place])
        added[size if _exact(size) else float(f"{size:.7g}"), one.family, one.scale] += one.several
    return tuple((size, Variable(family, scale, several)) for (size, family, scale), several in sorted(added.items()))


def _exact(size: float) -> bool:
    """Say whether multiples of a factor are added without rounding."""
    return size * 2.0**30 % 1 == 0


@lru_cache(maxsize=512)
def _law(terms: tuple[Term, ...]) -> _Law | None:
    """Return the law of a sum, or None where it is too wide, or of too many kinds of variables."""
    if not terms:
        return _Law(1.0, 0.0, np.array([1.0, 0.0]))
    sizes = np.array([size for size, _ in terms])
    if len(terms) > _MOST:
        return None
    multiples = sizes / sizes[0]
    on_grid = bool((np.abs(multiples - np.rint(multiples)) < _ALIKE * multiples).all()) and multiples[-1] <= _MULTIPLES
    reaches = np.array([_reach(one) for _, one in terms])
    spread = sum(size**2 * one.several * NoiseLaw(one.family, (one.scale,)).variances[0] for size, one in terms) ** 0.5
    width = float(sizes[0]) if on_grid else float(spread) / (_FINE * len(terms))
    points = int(2 * np.ceil((sizes * reaches / width + 1).sum()) + 2)
    if max(points, int(reaches.max())) > _LARGEST:
        return None
    length = fft.next_fast_len(points, real=True)
    product = np.ones(length // 2 + 1, dtype=np.complex128)
    for (size, one), reach in zip(terms, reaches, strict=True):
        steps = np.rint(np.arange(-reach, reach + 1) * (size / width)).astype(np.intp) % length
        product *= fft.rfft(np.bincount(steps, weights=_several(one), minlength=length))
    masses = np.maximum(fft.irfft(product, length), 0.0)
    half = (length - 1) // 2
    distances = masses[: half + 1]
    distances[1:] += masses[: -half - 1 : -1]
    beyond = np.append(np.minimum(np.cumsum(distances[::-1])[::-1], 1.0), 0.0)
    if not on_grid:
        return _Law(width, width * len(terms) / 2, beyond)
    return _Law(width, 0.0, beyond, 0.0 if all(map(_exact, sizes.tolist())) else _ROUNDED)


def _reach(one: Variable) -> int:
    """Return steps beyond which a sum of draws is less than 1e-17 likely: Chernoff's bound at half the pole."""
    if one.family == "gaussian":
        return int(np.ceil(10 * one.scale * one.several**0.5)) + 4
    return int(np.ceil((80 + 0.6 * one.several) * one.scale)) + 4 + int(one.several > 1) * one.several


def _several(one: Variable) -> Array:
    """Probabilities of the sum of some draws, from -reach to reach."""
    reach = _reach(one)
    support, masses = discrete_masses(one.family, one.scale)
    length = fft.next_fast_len(2 * reach + 1, real=True)
    kept = np.abs(support) <= reach
    single = np.bincount(support[kept].astype(np.intp) % length, weights=masses[kept], minlength=length)
    found = np.asarray(fft.irfft(fft.rfft(single) ** one.several, length))
    return np.roll(found, reach)[: 2 * reach + 1]


class Components(NamedTuple):
    """Variances of the noise of normalised contrasts of a table's cells; of one column ``common`` and ``both``.

    Attributes
    ----------
    common : float
        Of the constant: the sum of all cells over the root of their number.
    rows, columns : float
        Of contrasts of the margins of the first column, and of the second.
    both : float
        Of what no margin holds: residuals are weighed by it.
    """

    common: float
    rows: float
    columns: float
    both: float

    def margin(self, levels: int, added: int, *, axis: int, known: bool) -> float:
        """Variance of a margin's noise on one of ``levels``, each of so many counts; less where their sum is known."""
        own = self.rows if axis == 0 else self.columns
        return added * (own * (1 - 1 / levels) + (0.0 if known else self.common / levels))

    def after_product(self, a: Array, b: Array, *, size_known: bool, rows_known: bool) -> Array:
        """Variance of noisy counts less the product of their own margins, shares a (..., r, 1) and b (..., 1, c).

        With z the noise and D the derivative of the product it is that of ``z - D z``, which is ``((I - a 1') x
        (I - b 1')) z``; a known sum has no noise in margins, and known rows none in theirs.
        """
        r, c = a.shape[-2], b.shape[-1]
        of_rows, of_columns = (1 - r * a) ** 2 / r, (1 - c * b) ** 2 / c
        within = (1 - 1 / r) * (of_columns if not rows_known else 1 / c + 0 * of_columns)
        common = 1 / (r * c) if size_known else of_rows * of_columns
        return np.asarray(
            self.common * common
            + self.rows * within
            + self.columns * of_rows * (1 - 1 / c)
            + self.both * (1 - 1 / r) * (1 - 1 / c)
        )

    def after_size(self, p: Array, weights: Array) -> Array:
        """Variance of noisy counts (..., d) less p times their weighted sum."""
        d, more = p.shape[-1], self.common - self.both
        total = weights.sum(axis=-1, keepdims=True)
        own = self.both + more / d
        with_sum = self.both * weights + more * total / d
        of_sum = self.both * (weights**2).sum(axis=-1, keepdims=True) + more * total**2 / d
        return np.asarray(own - 2 * p * with_sum + p**2 * of_sum)


@dataclass(frozen=True, slots=True)
class CountNoise:
    """Independent noise of one law on every count.

    Attributes
    ----------
    law : NoiseLaw
        Of one released count (m = 1).
    step : float
        Size of an integer step, in rows.
    together : int
        Released counts that are added up to one count.
    """

    law: NoiseLaw
    step: float = 1.0
    together: int = 1

    @property
    def variance(self) -> float:
        """Variance of the noise of a count, in squared rows."""
        return float(self.together * self.law.variances[0]) * self.step**2

    @property
    def components(self) -> Components:
        """Variances of normalised contrasts: they are all the same."""
        return Components(*(self.variance,) * 4)

    def quadratic(self, slopes: Array) -> Array:
        """Variance that the noise gives functions with slopes (..., count, function): (..., function)."""
        return np.asarray(self.variance * (slopes**2).sum(axis=-2))

    def times(self, rows: Array, *, known: bool) -> Array:
        """Multiply rows (..., d) by the covariance of the noise, less that of a known sum."""
        return np.asarray(self.variance * (rows - float(known) * rows.mean(axis=-1, keepdims=True)))

    @property
    def is_normal(self) -> bool:
        """Whether the noise is Gaussian."""
        return self.law.family == "gaussian"

    @property
    def fourth_cumulant(self) -> float:
        """Fourth cumulant of the noise of a count; few draws of Laplace noise are given that of Laplace noise."""
        if self.is_normal:
            return 0.0
        several = self.together * self.law.draws
        several = several if several >= NORMAL_DRAWS else 1
        return (3 * self.variance**2 + self.variance * self.step**2) / several

    def rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw noise for simulation, never for privacy, in rows."""
        scale = self.law.scales[0]
        if self.law.family == "laplace":
            several, success = self.together * self.law.draws, -np.expm1(-1.0 / scale)
            drawn = rng.negative_binomial(several, success, shape) - rng.negative_binomial(several, success, shape)
            return np.asarray(drawn * self.step)
        spread = scale * np.sqrt(self.together)
        if spread >= _ROUNDED_FROM:
            short = spread < _SHORT
            noise = rng.standard_normal(shape, dtype=np.float32 if short else np.float64)
            noise *= np.sqrt(spread**2 - 1 / 12)  # rounding adds 1/12 to the variance
            np.rint(noise, out=noise)
            return np.asarray(np.multiply(noise, self.step, dtype=np.float64))
        exact = self.law.rvs(int(np.prod(shape)) * self.together, rng)
        return np.asarray(exact.reshape(*shape, self.together).sum(axis=-1) * self.step)


def count_noise(law: NoiseLaw, steps: Sequence[float], together: int) -> CountNoise:
    """Noise of counts, each the sum of ``together`` released ones.

    Raises
    ------
    ReleaseFormatError
    """
    scale = law.scales[0]
    if scale <= 0 or len(set(law.scales)) > 1:
        raise ReleaseFormatError("the release is damaged: counts of a table carry noise of one scale")
    if law.family not in ("gaussian", "laplace") or len(set(steps)) > 1:
        raise ReleaseFormatError(
            "the release is damaged: counts of a table carry noise of one law, in steps of one size"
        )
    return CountNoise(NoiseLaw(law.family, (scale,), law.draws), steps[0], together)


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
    formula). The time therefore does not grow with n. Tulap noise needs no sum: binomial tails and their geometrically
    discounted sums are in closed form (`dpinfer.statistics.tails`).

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


def check_law(n: ArrayLike, theta: ArrayLike, law: NoiseLaw, step: float) -> None:
    """Refuse sizes, probabilities, laws and steps out of their range.

    Raises
    ------
    OptionError
    """
    size, value = np.asarray(n, dtype=float), np.asarray(theta, dtype=float)
    if not (np.all(size >= 0) and np.all(size <= 2.0**53) and np.all(size == np.rint(size))):
        raise OptionError("n", n, "whole numbers from 0 to 2**53")
    if not np.all((value >= 0) & (value <= 1)):
        raise OptionError("theta", theta, "probabilities in [0, 1]")
    if law.family not in ("gaussian", "tulap") or len(law.scales) != 1:
        raise OptionError("law", law.to_dict(), 'one coordinate of the family "gaussian" or "tulap"')
    spacing = 1 / step if step > 0 else 0.0
    if not (1 <= spacing < 2.0**53 and spacing == np.rint(spacing)) or (
        law.family == "tulap" and spacing != TULAP_GRID
    ):
        raise OptionError("step", step, "1 / m with m a whole number; for Tulap noise m = TULAP_GRID")


def count_tail(
    z: Array, n: Array, theta: Array, complement: Array, law: NoiseLaw, step: float, *, upper: bool
) -> Array:
    """P(Z >= z), as P(n - Z <= n - z) of the failures, or P(Z <= z); arrays (R,), none of them NaN.

    Of theta and its complement 1 - theta, the smaller has to be exact.
    """
    if law.family == "tulap":
        return _tulap_tail(z, n, theta, complement, law.scales[0] / TULAP_GRID, step, upper=upper)
    if upper:
        z, theta, complement = n - z, complement, theta
    return _gaussian_cdf(z, n, theta, complement, law.scales[0], step)


def _tulap_tail(
    z: Array, n: Array, theta: Array, complement: Array, scale: float, step: float, *, upper: bool
) -> Array:
    """P(Z <= z), or P(Z >= z), under Tulap noise, all arrays (R,); z beyond all probability is brought near.

    With N = X + K, m the whole number nearest to z and s what of its unit cell lies below z it is
    ``(1 - s) P(N < m) + s P(N <= m)``. Summing the discrete Laplace law leaves the tails of X and their discounted
    sums, ``above = sum P(X = m + i) q^i`` and ``below`` alike; the terms taken off are at most half of what they are
    taken from. The relative error is about 1e-15 times the square root of n (below 2e-10 measured at n = 1e9, 30
    standard deviations out), and at most 1e-304 is added, in both tails.
    """
    reach = min(1e3 * max(scale, 1.0), 1e300)
    # The stored fraction is on a grid, and stands for the cell above it.
    near = np.clip(z if upper else z + step, -reach, n + reach)
    whole = np.rint(near)
    share = near - whole + 0.5
    if upper:
        whole, share, theta, complement = n - whole, 1 - share, complement, theta
    rate = np.full(whole.shape, min(1 / max(scale, 1e-300), _FASTEST))
    q = np.exp(-rate)
    at = binomial_pmf(whole, n, theta, complement)
    under = binomial_sf(n - whole, n, complement, theta)
    above = discounted_tail(whole, n, theta, complement, rate)
    below = discounted_tail(n - whole, n, complement, theta, rate)
    open_ = under + (q * (at + above) - below) / (1 + q)
    closed = under + at + (above - q * (at + below)) / (1 + q)
    return np.asarray(np.clip((1 - share) * open_ + share * closed, 0.0, 1.0))


def _gaussian_cdf(z: Array, n: Array, theta: Array, complement: Array, scale: float, step: float) -> Array:
    """P(Z <= z) from above under discrete Gaussian noise, all arrays (R,)."""
    spacing, reach = 1 / step, 45 * max(scale, 1.0)
    near = np.clip(z, -reach * step, n + reach * step) * spacing
    steps = np.floor(near + 2 * np.spacing(np.maximum(np.abs(near), n * spacing)))  # what z lost as a float
    if scale < _NO_NOISE:
        return binomial_sf(n - np.floor(steps / spacing) - 1, n, complement, theta)
    out = np.empty(z.shape)
    narrow = n * theta * complement <= (scale / spacing) ** 2
    for over_counts in (True, False):
        places = np.flatnonzero(narrow == over_counts)
        for start in range(0, places.size, _ROWS):
            some = places[start : start + _ROWS]
            given = steps[some], n[some], theta[some], complement[some], scale, spacing
            out[some] = _summed(*given, over_counts=over_counts)
    return np.asarray(np.clip(out + _NEGLECTED, 0.0, 1.0))


def _summed(
    z: Array, n: Array, theta: Array, complement: Array, scale: float, spacing: float, *, over_counts: bool
) -> Array:
    """P(Z <= z) under discrete Gaussian noise, z in steps, all arrays (R,).

    The sum of ``P(X = x) P(N <= z - x)`` for counts that spread less than the noise, else of
    ``P(X <= x) P(z - x - 1 < N <= z - x)``.
    """
    variance, width = n * theta * complement, scale / spacing
    # The summand is a product of bells as wide as count and noise.
    joint = np.sqrt(variance * width**2 / np.maximum(variance + width**2, 1e-300))
    stride = np.maximum(np.floor(joint / _SMOOTH), 1.0)
    if over_counts:
        reach = _EXPONENT / 3 + np.sqrt((_EXPONENT / 3) ** 2 + 2 * _EXPONENT * variance)  # Bernstein's inequality
        low, high = np.maximum(np.floor(n * theta - reach), 0.0), np.minimum(np.ceil(n * theta + reach), n)
    else:
        far = np.sqrt(2 * _EXPONENT) * scale
        low, high = np.floor((z - far) / spacing) - 1, np.ceil((z + far) / spacing) + 1
    nodes = low[:, None] + stride[:, None] * np.arange(int(np.floor((high - low) / stride).max()) + 1)
    inside = nodes <= high[:, None]
    x = np.where(inside, nodes, high[:, None])
    left = z[:, None] - spacing * x
    size, chance, other = (np.broadcast_to(one[:, None], x.shape) for one in (n, theta, complement))
    if over_counts:
        below = _below(np.where(left > 0, left + 1, -left), scale)
        terms = binomial_pmf(x, size, chance, other) * np.where(left > 0, 1 - below, below)
    else:
        terms = binomial_sf(size - x - 1, size, other, chance) * _noise_between(left - spacing, left, scale)
    return np.asarray(np.where(inside, terms, 0.0).sum(axis=1) * stride)


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
