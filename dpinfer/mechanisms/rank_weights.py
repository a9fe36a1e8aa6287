"""Weights of blocks of a grid, whose points score minus their distance in rank from a quantile."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Whole = NDArray[np.int64]

__all__ = ["LARGEST_CHOICE", "RANK", "RankScores", "log_weights"]

RANK = 2**20
"""Steps of the scores in one rank."""

LARGEST_CHOICE = 2.0**42
"""Noise scale, in steps, up to which a log weight is off by less than a step: larger ones are refused."""

_TERMS = 32
"""Terms that are added in floating point; what they add up to is added without error."""

_RUN = 2**15
"""Stretches whose weights are computed at once: a multiple of `_TERMS`."""


@dataclass(frozen=True, eq=False)
class RankScores:
    """Scores of the points of a grid: ``-max(0, q n - #{v <= x}, #{v < x} - q n)`` times RANK, a whole number.

    Attributes
    ----------
    places : ndarray of int (n,)
        Sorted places of the values v, with ties.
    points : int
        Points of the grid, 0 to points - 1. The type of ``places`` holds this number.
    probability : Fraction
        The q of the quantile: a multiple of 1 / RANK.

    Notes
    -----
    The grid is cut into stretches of equal score, without a copy of the places. Let k be the whole part of q n. Of the
    points below v[k], the value of rank k + 1, those from v[j - 1] up to below v[j] have j values at or below them,
    and the score j - q n. Of the points above, those behind v[j - 1] up to v[j] have j values below them, and the
    score q n - j. At v[k] itself the score is 0. Stretches between tied values are empty.
    """

    places: NDArray[Any]
    points: int
    probability: Fraction

    @cached_property
    def target(self) -> int:
        """The rank q n, in steps."""
        return int(self.probability * RANK) * len(self.places)

    @property
    def _middle(self) -> int:
        return self.target // RANK

    @property
    def size(self) -> int:
        """Number of stretches, empty ones included."""
        return len(self.places) + 1 + (self._middle < len(self.places))

    @property
    def peak(self) -> int:
        """A point of the largest score: scores rise up to it, and fall behind it."""
        return int(self.places[min(self._middle, len(self.places) - 1)]) if len(self.places) else 0

    def stretch(self, points: Whole) -> NDArray[np.intp]:
        """Return which stretch each point is in."""
        # Of the type of the places: else numpy would copy all of them.
        points = points.astype(self.places.dtype)
        below = np.searchsorted(self.places[: self._middle + 1], points, side="right")
        above = np.searchsorted(self.places[self._middle :], points, side="left")
        return below + above

    def starts(self, begin: int, end: int) -> Whole:
        """First point of the stretches from ``begin`` to below ``end``."""
        cut = min(max(self._middle + 2, begin), end)
        low = self.places[max(begin - 1, 0) : cut - 1]
        high = self.places[max(cut - 2, 0) : max(end - 2, 0)]
        zero = np.zeros(int(begin == 0), dtype=np.int64)
        return np.concatenate([zero, low, high + self.places.dtype.type(1)], dtype=np.int64)

    def scores(self, stretches: NDArray[np.intp]) -> Whole:
        """Score of the points of some stretches, in steps."""
        ranks = stretches * RANK
        return np.minimum(np.minimum(ranks - self.target, self.target + RANK - ranks), 0)


def log_weights(scores: RankScores, edges: Whole, stop: int, scale: float) -> list[int]:
    """``scale * log(sum of exp(score / scale))`` over the points of each block, rounded to steps.

    Parameters
    ----------
    scores : RankScores
    edges : ndarray of int (b,)
        First point of each block, increasing.
    stop : int
        End of the last block.
    scale : float
        In steps, at most `LARGEST_CHOICE`.

    Returns
    -------
    list of int, length b

    Notes
    -----
    Each is off by less than one step; `docs/quantiles.md` has the proof. The largest score of a block, which is that
    of its point nearest to the peak, is taken out first, so that no sum overflows or vanishes. A sum of 32 floats has
    a small error in whatever order they are added, and `math.fsum` adds such sums without any.
    """
    best = np.clip(scores.peak, edges, np.append(edges[1:], stop) - 1)
    top = scores.scores(scores.stretch(best))
    places = scores.stretch(np.append(edges, stop - 1))
    runs = [_run_sums(run, scale, top) for run in _runs(scores, edges, stop, places)]
    sums = np.concatenate([part for part, _ in runs]).tolist()
    ends = np.searchsorted(np.concatenate([blocks for _, blocks in runs]), np.arange(len(edges) + 1)).tolist()
    extra = np.rint(scale * np.log([math.fsum(sums[begin:end]) for begin, end in pairwise(ends)]))
    return [int(score) + int(more) for score, more in zip(top.tolist(), extra.tolist(), strict=True)]


@dataclass(frozen=True, slots=True)
class _Run:
    """Some stretches in order, cut at the edges of blocks, too; shapes (r,).

    Attributes
    ----------
    lengths : ndarray of int
        Points of each, 0 for empty ones.
    scores : ndarray of int
    blocks : ndarray of int
        Block of each.
    """

    lengths: Whole
    scores: Whole
    blocks: NDArray[np.intp]


def _runs(scores: RankScores, edges: Whole, stop: int, places: NDArray[np.intp]) -> Iterator[_Run]:
    """Yield the stretches between the first edge and ``stop``; ``places`` are those of the edges and of the end."""
    last = int(places[-1]) + 1
    for begin in range(int(places[0]), last, _RUN):
        end = min(begin + _RUN, last)
        first, until = np.searchsorted(places[1:-1], [begin, end]) + 1
        held, inner = places[first:until], edges[first:until]
        where = held - begin + 1
        starts = np.insert(scores.starts(begin, end), where, inner)
        behind = scores.starts(end, end + 1) if end < last else stop
        stretches = np.insert(np.arange(begin, end), where, held)
        heads = [0, *(where + np.arange(len(where))).tolist(), len(stretches)]
        yield _Run(
            lengths=np.diff(np.maximum(starts, edges[0]), append=behind),
            scores=scores.scores(stretches),
            blocks=np.repeat(np.arange(first - 1, until), np.diff(heads)),
        )


def _run_sums(run: _Run, scale: float, top: Whole) -> tuple[Array, NDArray[np.intp]]:
    """Sum the weights of at most 32 stretches of one block at a time; and say of which."""
    # An empty stretch may score more than all points of its block.
    gaps = np.minimum(run.scores - top[run.blocks], 0)
    with np.errstate(under="ignore"):
        terms = np.exp(gaps / scale) * run.lengths
    begins = np.diff(run.blocks, prepend=-1) > 0
    begins[::_TERMS] = True
    places = np.flatnonzero(begins)
    return np.add.reduceat(terms, places), run.blocks[places]
