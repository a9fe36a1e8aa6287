"""Where scores are clipped, and by how much that may bias a coefficient: the interval decides.

A unit adds a score s to the estimating equation, and noise is in proportion to the length T at which scores are
clipped. Clipping takes ``max(|s| - T, 0)`` from each, in a direction nobody knows. With J the Hessian, a contrast l of
J's inverse loses at most ``|l| B``, B the total excess of all units. What is known of lengths are noisy counts in
half octaves; beyond the last one that is clear of its noise, lengths are taken to fall off as a Pareto law. Noise hides
how many units are there and how fast they fall off, so that what they add up to is a posterior mean: all numbers are
equally likely a priori, and one over the index has an exponential prior. The last clear count may be the first of the
law or stand apart from it, as the end of the bulk; both are weighed by how well they explain the counts. Where no bin
is clear, noise may hide the bulk itself: the law may then start farther out, as that of the bulk, which holds at least
as many units as are counted below the first cut. So B is what clipping is expected to take, not an upper limit.

The interval of Armstrong and Kolesar (2018, 2020), ``estimate +- SE cv(b/SE)``, holds for every bias up to b. T is the
length at which it is predicted to be shortest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.statistics.arrays import Array

__all__ = ["LOST", "Clip", "Lengths", "folded_quantile", "folded_tail", "length_cuts"]

_HEAVY = 0.3
"""Mean of the prior of one over the index of a tail: a t law of three degrees of freedom has a third."""

_INDICES = 1 / np.linspace(0.04, 0.96, 24)
"""Indices that are weighed: all have a finite mean, and none is 2, where squares are logarithms."""

_OCTAVE = 2
"""Bins in an octave."""

_BINS = 22
_WINDOW, _CLEAR = 2, {"l2": 4.0, "l1": 6.5}
"""A bin or an octave is seen if it holds more than so many standard deviations of its noise, Gaussian or Laplace's."""

_LEAST_NOISE = 1e-6
"""Least noise that a count is taken to have: at budgets beyond all use it has none."""

_LUMPS, _LIKELY = (1, 2), 0.003
"""How many bins a lump may fill, and the odds a priori that there is one just beyond the edge, for each deviation of
noise that its number of units has; an octave farther out it is half as likely."""

_FARTHEST = 8.0
"""Second moments are those of lengths of up to so many times the start of their law."""


LOST = 1.6
"""Eigenvalues of a Hessian over the size of its noise below which it tells nothing of a direction."""

_LEAST_LEFT = 0.05


def length_cuts(first: float) -> Array:
    """Return the ends of the bins in which lengths are counted."""
    return np.asarray(first * 2.0 ** (np.arange(_BINS) / _OCTAVE))


@dataclass(frozen=True, eq=False)
class Clip:
    """Where scores are clipped, in their own units.

    Attributes
    ----------
    length, meat : float
        Lengths T at which scores are clipped, in the score and where they are multiplied with themselves.
    excess : float
        What clipping is expected to take from all scores, B.
    lost : float
        What clipping takes from the trace of the products of scores.
    second : float
        Sum of squared lengths.
    half : float
        Half the length of the interval, of a coordinate of the score.
    """

    length: float
    meat: float
    excess: float
    lost: float
    second: float
    half: float


@dataclass(frozen=True, eq=False)
class Lengths:
    """What noisy counts tell of the lengths of scores.

    Attributes
    ----------
    middles, counts : ndarray (b,)
        Middles of the bins in which lengths are seen, and how many units are there, no less than 0.
    edge : float
        End of what is seen.
    starts : ndarray (s,)
        Where the law of longer ones may start: at the edge, or, where no bin is seen, at later cuts up to the farthest.
    beyond : ndarray (s, a)
        Expected number of units of the law, split by its start and its index.
    farthest : float
        A length that no unit exceeds.
    hidden : ndarray (r,)
        Noisy counts of the bins beyond the edge.
    noise : float
        Standard deviation of the noise of a count.
    """

    middles: Array
    counts: Array
    edge: float
    starts: Array
    beyond: Array
    farthest: float
    hidden: Array
    noise: float

    @classmethod
    def read(cls, counts: Array, cuts: Array, noise: float, farthest: float = np.inf, norm: Norm = "l2") -> Lengths:
        """Read counts (B + 1,) below, between and above cuts (B,); no length is beyond ``farthest``."""
        inner, size, noise = counts[1:], len(cuts), max(noise, _LEAST_NOISE)
        ends = np.minimum(np.arange(size) + _WINDOW, size)
        total = np.concatenate([[0.0], np.cumsum(inner)])
        within = total[ends] - total[:size]
        enough = _CLEAR[norm] * noise
        filled = (inner > enough) | (within > enough * np.sqrt(ends - np.arange(size)))
        clear = np.flatnonzero(filled & (cuts < farthest))
        edge = min(int(clear[-1]) + 1, size - 1) if clear.size else 0
        edge -= int(edge > 0 and cuts[edge] >= farthest)
        middles = np.concatenate([[0.6 * cuts[0]], cuts[:edge] * 2.0 ** (0.5 / _OCTAVE)])
        seen, stop = np.maximum(counts[: edge + 1], 0.0), max(int((cuts < farthest).sum()), edge + 1)
        beyond = _law(counts[edge : stop + 1], noise, first=not edge) * (cuts[edge] < farthest)
        starts, last = cuts[edge : edge + len(beyond)], max(float(cuts[edge]), farthest)
        return cls(middles, seen, float(cuts[edge]), starts, beyond, last, inner[edge:stop], noise)

    def excess(self, lengths: Array) -> Array:
        """Return the sum of what scores exceed each of some lengths (L,) by.

        Beyond the edge it is that of the law, or of a lump that no law of tails has, where that is more.
        """
        apart = np.maximum(self.middles - lengths[:, None], 0.0) @ self.counts
        beyond = np.maximum(self._lumps.lengths - lengths[:, None], 0.0) @ self._lumps.expected(_LIKELY)
        return np.asarray(apart + np.maximum(self._tail(lengths), beyond))

    @cached_property
    def _lumps(self) -> _Lumps:
        return _Lumps.of(self.hidden, self.edge, self.farthest, self.noise)

    def carried(self, squares: Array, shares: Array, clip: float, seen: float) -> Array:
        """Return what clipping takes from scores of which few, in one lump, carry these sums of squares (q,).

        Parameters
        ----------
        squares, shares : ndarray (q,)
            What is missing of sums of squares, and which part of them.
        clip, seen : float
            Lengths at which scores, and squares, were clipped.

        Notes
        -----
        A lump of a given length has as many units as carry the squares, and is as likely as these explain the counts.
        Or there is none, and a model that is wrong expects too much; odds of that fall as the square of what is left.
        """
        lumps = self._lumps
        numbers = squares[:, None] / np.maximum(lumps.lengths**2 - seen**2, 1e-9 * lumps.lengths**2)
        odds = np.where(lumps.lengths > seen, numbers * (lumps.counts - 0.5 * numbers) / lumps.errors**2, -np.inf)
        none = 2 * np.log(np.maximum(1 - shares, 1e-9))[:, None]
        return np.asarray((lumps.likely(odds - none) * numbers) @ np.maximum(lumps.lengths - clip, 0.0))

    def _tail(self, lengths: Array) -> Array:
        """Return the sum of what scores beyond the edge exceed some lengths (L,) by."""
        power, lengths, start = _INDICES - 1, lengths[:, None, None], self.starts[:, None]
        far = np.clip(lengths, start, self.farthest)
        law = start / power * ((start / far) ** power - (start / self.farthest) ** power)
        return self._of_law(law + np.maximum(start - lengths, 0.0))

    def _of_law(self, each: Array) -> Array:
        """Add up what units of the law give (L, s, a)."""
        return np.asarray(each.reshape(len(each), -1) @ self.beyond.ravel())

    def lost(self, lengths: Array) -> Array:
        """Return the sum of what squared lengths exceed the squares of some lengths (L,) by."""
        apart = np.maximum(self.middles**2 - lengths[:, None] ** 2, 0.0) @ self.counts
        power, lengths, start = _INDICES - 2, lengths[:, None, None], self.starts[:, None]
        far = np.maximum(lengths, start)
        last = np.maximum(np.minimum(_FARTHEST * start, self.farthest), far)
        near, end = start / far, start / last
        law = start**2 * _INDICES / power * (near**power - end**power) - far**2 * (near**_INDICES - end**_INDICES)
        return np.asarray(apart + self._of_law(law + np.maximum(start**2 - lengths**2, 0.0)))

    def radius(self, noise: float, width: int, size: float, drift: float, other: float) -> tuple[float, float]:
        """Return up to which length rows weigh in full in a Hessian, and what its eigenvalues lose at most.

        What was counted are squared lengths.

        Parameters
        ----------
        noise : float
            Standard deviation of the noise of its diagonal, for rows of length 1.
        width : int
            Number k of coordinates.
        size : float
            Its eigenvalues, about.
        drift : float
            Size of a coordinate of the step that it will multiply, about.
        other : float
            Half the length of the interval without it, in units of the score.
        """
        squares = self.edge * 2.0 ** (np.arange(-8, 8) / _OCTAVE)
        missed, blur = self.excess(squares), squares * noise * np.sqrt(width)
        moved = drift * np.hypot(np.sqrt(2) * missed, np.sqrt(0.5) * blur)
        half = np.hypot(other, -special.ndtri(0.025) * moved)
        best = int(np.argmin(half / np.maximum(1 - (LOST * blur / size) ** 2, _LEAST_LEFT)))
        return float(np.sqrt(squares[best])), float(missed[best])

    def clip(self, width: int, noise: float, meat: float, *, final: bool) -> Clip:
        """Return where the interval is shortest.

        Parameters
        ----------
        width : int
            Number of coordinates.
        noise, meat : float
            Standard deviations of the noise of a score, and of a product, for scores of length 1.
        final : bool
            Whether the bias counts in full. It does not where only a point for the last round is sought.
        """
        second = max(float(self.lost(np.zeros(1))[0]), 1e-300)
        lengths = self.edge * 2.0 ** (np.arange(-4, 14) / _OCTAVE)
        excess = self.excess(lengths)
        errors = np.sqrt(second / width + (lengths * noise) ** 2)
        sizes = errors * folded_quantile(0.05, excess / errors) if final else np.hypot(errors, excess / np.sqrt(width))
        best = int(np.argmin(sizes))
        tried = lengths[: best + 1]
        missed = self.lost(tried)
        chosen = int(np.argmin(0.5 * missed / np.sqrt(width) + tried**2 * meat))
        return Clip(
            float(lengths[best]),
            float(tried[chosen]),
            float(excess[best]),
            float(max(missed[chosen] - missed[best], 0.0)),
            second,
            float(sizes[best]),
        )


class _Lumps(NamedTuple):
    """Where a lump of units may be that noise hides: in a bin beyond the edge, or in some that adjoin.

    Attributes
    ----------
    lengths, counts, errors : ndarray (l,)
        Middle of each place, what was counted there, and the standard deviation of its noise.
    prior : ndarray (l,)
        Logarithm of its odds a priori, less those just beyond the edge: an octave farther out half as likely.
    """

    lengths: Array
    counts: Array
    errors: Array
    prior: Array

    @classmethod
    def of(cls, counts: Array, edge: float, farthest: float, noise: float) -> _Lumps:
        """Read noisy counts (r,) of the bins beyond an edge."""
        found = []
        for width in (one for one in _LUMPS if one <= len(counts)):
            sums = np.lib.stride_tricks.sliding_window_view(counts, width).sum(axis=1)
            octaves = np.arange(len(sums)) / _OCTAVE
            lengths = np.minimum(edge * 2.0 ** (octaves + 0.5 * width / _OCTAVE), farthest)
            found.append((lengths, sums, np.full(len(sums), noise * np.sqrt(width)), -np.log(2.0) * octaves))
        return cls(*(np.concatenate(one) for one in zip(*found, strict=True)))

    def likely(self, odds: Array) -> Array:
        """Return the probabilities (..., l) of places with these log odds, given the counts, over there being none."""
        odds = odds + self.prior
        most = np.maximum(odds.max(axis=-1, keepdims=True), 0.0)
        found = np.exp(odds - most)
        return np.asarray(found / (np.exp(-most) + found.sum(axis=-1, keepdims=True)))

    def expected(self, odds: float) -> Array:
        """Return the expected number of units in each place (l,), of which any number is equally likely.

        ``odds`` are those just beyond the edge, for each standard deviation of the noise.
        """
        sums = self.counts / self.errors
        mills = special.erfcx(-sums / np.sqrt(2))
        own = np.where(sums > 0, 0.5 * sums**2 + special.log_ndtr(sums), np.log(0.5 * mills))
        likely = self.likely(own + np.log(np.sqrt(2 * np.pi) * odds))
        return np.asarray(likely * (sums + np.sqrt(2 / np.pi) / mills) * self.errors)


def _law(counts: Array, noise: float, *, first: bool) -> Array:
    """Return the expected number of units beyond an edge, split by the start and the index of their law, as (s, a).

    Parameters
    ----------
    counts : ndarray (b,)
        Noisy counts, from the bin before the edge on. That bin may be the first of the law, or stand apart: then its
        own number is any within half of what was counted.
    noise : float
        Their standard deviation.
    first : bool
        Whether the edge is the first cut, and what lies before it no bin of the law. Then the law may start in a
        later bin, each octave farther out half as likely a priori, if it is that of the bulk: it holds at least as many
        units as were counted before the edge, any number if none were, and no unit lies between.
    """
    inner = counts[1:]
    least = max(float(counts[0]), 0.0)
    fits = [_fitted(inner[start:], noise, least if start else 0.0) for start in range(len(inner) if first else 1)]
    numbers, odds = (np.stack(one) for one in zip(*fits, strict=True))
    if first:
        skipped = np.cumsum(inner**2) - inner**2
        farther = np.arange(len(inner)) * np.log(2.0) / _OCTAVE
        odds = odds - (farther + 0.5 * skipped / noise**2)[:, None]
    else:
        whole, own = _fitted(counts, noise)
        odds = odds + np.log(np.sqrt(2 * np.pi) * noise / max(float(counts[0]), noise))
        numbers = np.concatenate([numbers, whole[None] * 2.0 ** (-_INDICES / _OCTAVE)])
        odds = np.concatenate([odds, own[None]])
    odds = odds - 1 / (_INDICES * _HEAVY)
    likely = np.exp(odds - odds.max())
    found = np.asarray(numbers * likely / likely.sum())
    return found if first else found.sum(axis=0, keepdims=True)


def _fitted(counts: Array, noise: float, least: float = 0.0) -> tuple[Array, Array]:
    """Return the posterior mean of the number of units of a law in bins, for each index (a,), and its log odds.

    The number is any above ``least``.
    """
    shares, size = _shares(len(counts))
    error = noise / size
    number = shares @ counts * (error / noise) ** 2
    misfit = ((counts - number[:, None] * shares) ** 2).sum(axis=1) / noise**2
    away = (number - least) / error
    mean = away + np.sqrt(2 / np.pi) / special.erfcx(-away / np.sqrt(2))  # of a normal variable that is above 0
    return least + mean * error, np.log(error) + special.log_ndtr(away) - 0.5 * misfit


@lru_cache(maxsize=128)
def _shares(bins: int) -> tuple[Array, Array]:
    """Return the part of a law's units in each bin (a, b), the last one without end, and its root sum of squares."""
    ends = 2.0 ** (-_INDICES[:, None] * np.arange(bins + 1) / _OCTAVE)
    shares = ends[:, :-1] - ends[:, 1:]
    shares[:, -1] += ends[:, -1]
    size = np.sqrt((shares**2).sum(axis=1))
    shares.flags.writeable = size.flags.writeable = False
    return shares, size


@cache
def _table(alpha: float) -> tuple[Array, Array]:
    biases = np.linspace(0.0, 10.0, 401)
    return biases, np.sqrt(special.chndtrix(1 - alpha, 1.0, biases**2))


def folded_quantile(alpha: float, bias: Array) -> Array:
    """Return the 1 - alpha quantile of the size of a normal variable of variance 1 with these means (k,)."""
    # Far from zero one side is all there is, and quantiles of noncentral chi-squared laws lose digits.
    near = np.interp(bias, *_table(float(alpha)))
    far = np.asarray(bias > 10.0)
    return np.asarray(np.where(far, bias - special.ndtri(alpha), near) if far.any() else near)


def folded_tail(distance: Array, bias: Array) -> Array:
    """Return the probability that the size of a normal variable of variance 1 with mean ``bias`` is larger (k,)."""
    return np.asarray(special.ndtr(bias - distance) + special.ndtr(-distance - bias))
