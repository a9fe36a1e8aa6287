"""Sums of independent whole-number noise: intervals and tails from their discrete law.

An interval for the data's own counts is read from noise alone. Its ends are quantiles of the law that the noise has,
which lives on a grid: quantiles of a continuous law of the same variance cover too little where a step counts.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import fft

from dpinfer.release.laws import NoiseLaw, discrete_masses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.release.laws import Family
    from dpinfer.statistics.arrays import Array

__all__ = ["NoiseSums", "Variable", "variables_of"]

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
        laws, shape = self._laws, np.broadcast_shapes(np.shape(smooth), self.factors.shape[:-1])
        smooth = np.broadcast_to(smooth, shape)
        own = np.array([np.nan if law is None else law.reach(alpha) for law in laws])
        width = np.maximum(np.abs(self.factors).max(axis=-1, initial=0.0), 1e-300)
        beyond = width * (np.floor(smooth / width) + 1)
        own = np.broadcast_to(own.reshape(self._laws_shape), shape)
        return np.where(np.isnan(own), beyond, own)

    def tails(self, distance: Array, smooth: Array) -> Array:
        """Probabilities (...) of a distance from zero, or more; ``smooth`` (...) where no grid serves."""
        laws = self._laws
        shape = np.broadcast_shapes(distance.shape, self.factors.shape[:-1])
        places = np.broadcast_to(np.arange(len(laws)).reshape(self._laws_shape), shape)
        found, far = np.array(np.broadcast_to(smooth, shape)), np.broadcast_to(distance, shape)
        for place, law in enumerate(laws):
            if law is not None:
                mine = places == place
                own = law.tails(far[mine])
                found[mine] = np.where(own > _SURE, own, np.minimum(found[mine], _SURE))
        return found

    @property
    def _laws(self) -> list[_Law | None]:
        """The law of every combination, or of all if it is one."""
        rows = self.factors.reshape(-1, self.factors.shape[-1])
        return [_law(_terms(row, self.variables)) for row in (rows[:1] if self._alike else rows)]

    @property
    def _laws_shape(self) -> tuple[int, ...]:
        shape = self.factors.shape[:-1]
        return (1,) * len(shape) if self._alike else shape

    @property
    def _alike(self) -> bool:
        rows = self.factors.reshape(-1, self.factors.shape[-1])
        return len(rows) > 1 and bool((rows == rows[:1]).all())


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
