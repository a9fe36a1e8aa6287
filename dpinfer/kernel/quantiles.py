"""The exponential mechanism on a grid of any size: a quantile is chosen by descending through blocks of points.

The score of a point is minus its distance in rank from the quantile. Points between two neighbouring values share a
score, so the weight of a whole block of points is a short sum. A block of the grid is chosen in proportion to its
weight, then a block within it, and so on down to one point: the probabilities are those of the exponential mechanism
over all points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.kernel.people import Spill
from dpinfer.kernel.rows.tree import RANK, PointRows
from dpinfer.kernel.sources.base import Pass, Slice, Source, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from dpinfer.kernel.rows.base import Array, Cells, Places
    from dpinfer.kernel.rows.base import Ints as Whole
    from dpinfer.kernel.sampling import Draws

    Sorted = NDArray[np.signedinteger[Any]]
    Choice = Callable[[Sequence[int], float], int]
    Part = tuple[Array, Places]

_LARGEST_KEY = 2**62
"""Groups and points are sorted together where they have fewer pairs."""

FAN_OUT = 256
"""Blocks that one choice is made from."""


def chosen_points(
    rows: PointRows, probabilities: Sequence[Fraction], scales: Sequence[float], source: Source, draws: Draws
) -> list[int]:
    """Choose a point of the grid for every group and probability, group by group.

    How many draws there are, and from how many blocks each is, depends on the grid and the chosen points alone.
    """

    def draw(scores: Sequence[int], scale: float) -> int:
        return draws.place(scores, "gumbel", scale)

    return [
        _choose(places, rows.points, probability, scale, draw)
        for places in sorted_places(rows, source)
        for probability, scale in zip(probabilities, scales, strict=False)
    ]


def sorted_places(rows: PointRows, source: Source) -> list[Sorted]:
    """Return the sorted places of the values of every group, with ties; one pass over the source.

    What does not come from memory is sorted in a file. Groups and places are sorted together, as one number where this
    can be.
    """
    size, points, memory = rows.tree.size, rows.points, isinstance(source, Table)
    together = points * size < _LARGEST_KEY

    def kept(cells: Mapping[str, Cells], part: Slice) -> NDArray[Any]:
        places, groups = rows.encode(cells, part.rows)
        inside = groups < size
        places = places[inside]
        if size == 1:
            return places
        groups = groups[inside]
        return groups * points + places if together else np.stack([groups, places])

    pieces = source.pieces(Pass(rows.columns, kept, threads=1 if memory else None))
    dtype = rows.dtype if size == 1 else np.int64
    if isinstance(source, Table):  # no second copy of what may be the largest array of all
        keys, end = np.empty(source.rows if together else (2, source.rows), dtype=dtype), 0
        for piece in pieces:
            start, end = end, end + piece.shape[-1]
            keys[..., start:end] = piece
        keys = keys[..., :end]
    elif together:
        with Spill(1, dtype, 1) as spill:
            for piece in pieces:
                spill.append(0, piece)
            keys = spill.read(0, writable=True)[:, 0]
    else:
        keys = np.concatenate([np.zeros((2, 0), dtype=dtype), *pieces], axis=-1)
    if not together:
        found, places = keys[:, np.lexsort(keys[::-1])]
        return np.split(places, np.searchsorted(found, np.arange(1, size)))
    keys.sort()
    if size == 1:
        return [keys]
    ends = np.searchsorted(keys, np.arange(1, size) * points)
    return [(part - group * points).astype(rows.dtype) for group, part in enumerate(np.split(keys, ends))]


def _choose(places: Sorted, points: int, probability: Fraction, scale: float, draw: Choice) -> int:
    scores = RankScores(places, points, probability)
    first, size = 0, points
    while size > 1:
        block = 1
        while block * FAN_OUT < size:
            block *= FAN_OUT
        edges = first + block * np.arange(-(-size // block))  # not by its end, which numpy counts in floats
        place = draw(log_weights(scores, edges, first + size, scale), scale)
        size = min(block, first + size - int(edges[place]))
        first = int(edges[place])
    return first


_TERMS = 32
"""Terms that are added in floating point; what they add up to is added without error."""

_RUN = 2**15
"""Stretches whose weights are computed at once: a multiple of `_TERMS`."""

_NEXT_TO_NOTHING = 72.0
"""Gap, in noise scales, from which stretches are left out of a sum: they are less than .005 steps together."""


@dataclass(frozen=True, eq=False)
class RankScores:
    """Scores of the points of a grid: ``-max(0, q n - #{v <= x}, #{v < x} - q n)`` times RANK, a whole number.

    ``places`` are the sorted places of the values v, with ties, of a type that holds ``points``; q, the
    ``probability``, is a multiple of 1 / RANK.

    The grid is cut into stretches of equal score, without a copy of the places. Let k be the whole part of q n. Of the
    points below v[k], the value of rank k + 1, those from v[j - 1] up to below v[j] have j values at or below them, and
    the score j - q n. Of the points above, those behind v[j - 1] up to v[j] have j values below them, and the score q n
    - j. At v[k] itself the score is 0. Stretches between tied values are empty.
    """

    places: NDArray[np.signedinteger[Any]]
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

    def stretch(self, points: Whole) -> Places:
        """Return which stretch each point is in."""
        # Of the type of the places: else numpy would copy all of them.
        points = points.astype(self.places.dtype)
        below = np.searchsorted(self.places[: self._middle + 1], points, side="right")
        above = np.searchsorted(self.places[self._middle :], points, side="left")
        return below + above

    def starts(self, stretches: Places) -> Whole:
        """First point of some stretches; behind the last one the end of the grid."""
        if not len(self.places):
            return stretches * self.points
        above = stretches > self._middle + 1
        found = self.places.take(stretches - above - 1, mode="clip").astype(np.int64)
        found += above
        found[stretches == 0] = 0
        found[stretches >= self.size] = self.points
        return found

    def scores(self, stretches: Places) -> Whole:
        """Score of the points of some stretches, in steps."""
        ranks = stretches * RANK
        return np.minimum(np.minimum(ranks - self.target, self.target + RANK - ranks), 0)


def log_weights(scores: RankScores, edges: Whole, stop: int, scale: float) -> list[int]:
    """``scale * log(sum of exp(score / scale))`` over the points of each block, rounded to steps.

    ``edges`` are the first points of the blocks, increasing, and ``stop`` the end of the last. Each is off by less than
    one step at scales up to `LARGEST_CHOICE`; `docs/quantiles.md` has the proof. The largest score of a block, which is
    that of its point nearest to the peak, is taken out first, so that no sum overflows or vanishes; what adds next to
    nothing is left out. A sum of 32 floats has a small error in whatever order they are added, and `math.fsum` adds
    such sums without any.
    """
    bounds, count = np.append(edges, stop), len(edges)
    cut = scores.stretch(np.append(edges, stop - 1))
    near = scores.stretch(np.clip(scores.peak, edges, bounds[1:] - 1))
    top = scores.scores(near)
    heads = np.minimum(scores.starts(cut[:-1] + 1), bounds[1:]) - edges
    tails = np.where(np.diff(cut) > 0, bounds[1:] - scores.starts(cut[1:]), 0)
    outer = [_terms(scores.scores(cut[:-1]) - top, heads, scale), _terms(scores.scores(cut[1:]) - top, tails, scale)]
    inner, sizes = [np.zeros(0)], np.zeros(count, dtype=np.int64)
    for sums, blocks in _inner_sums(scores, cut, near, scale):  # block after block
        inner.append(sums)
        sizes += np.bincount(blocks, minlength=count)
    found, ends = np.concatenate(inner).tolist(), np.cumsum(sizes)
    parts = zip(outer[0].tolist(), outer[1].tolist(), (ends - sizes).tolist(), ends.tolist(), strict=True)
    exact = [math.fsum([head, tail, *found[begin:end]]) for head, tail, begin, end in parts]  # rounded once
    extra = np.rint(scale * np.log(exact))
    return [int(score) + int(more) for score, more in zip(top.tolist(), extra.tolist(), strict=True)]


def _terms(gaps: Whole, lengths: Whole, scale: float) -> Array:
    """Weights of stretches: points times exp(gap / scale)."""
    with np.errstate(under="ignore"):
        found: Array = gaps / scale
        np.exp(np.minimum(found, 0.0, out=found), out=found)  # an empty stretch may score more than its block
        found *= lengths
    return found


def _inner_sums(scores: RankScores, cut: Places, near: Places, scale: float) -> Iterator[Part]:
    """Sum the weights of the stretches that no edge cuts, of at most 32 of one block at a time.

    From stretch to stretch scores fall by a rank, away from the one of the largest score in each block, ``near``; at
    the peak one step may be shorter.
    """
    reach, top = int(_NEXT_TO_NOTHING * scale / RANK) + 2, scores.scores(near)
    first = np.maximum(cut[:-1] + 1, near - reach)
    sizes = np.maximum(np.minimum(cut[1:], near + reach + 1) - first, 0)
    ends = np.cumsum(sizes)
    moved, whole = first - (ends - sizes), int(ends[-1])
    for begin in range(0, whole, _RUN):
        place = np.arange(begin, min(begin + _RUN, whole))
        block = np.repeat(np.arange(len(ends)), np.diff(np.clip(ends, begin, begin + len(place)), prepend=begin))
        stretch = place + moved[block]
        lengths = scores.starts(stretch + 1) - scores.starts(stretch)
        starts = np.flatnonzero((np.diff(block, prepend=-1) > 0) | (place % _TERMS == 0))
        yield np.add.reduceat(_terms(scores.scores(stretch) - top[block], lengths, scale), starts), block[starts]
