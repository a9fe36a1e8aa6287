"""The exponential mechanism on a grid of any size: a quantile is chosen by descending through blocks of points.

The score of a point is minus its distance in rank from the quantile. Points between two neighbouring values share a
score, so the weight of a whole block of points is a short sum. A block of the grid is chosen in proportion to its
weight, then a block within it, and so on down to one point: the probabilities are those of the exponential mechanism
over all points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer.kernel.price import RANK
from dpinfer.kernel.rows.features import CHUNK_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from dpinfer.kernel.draws import Draws
    from dpinfer.kernel.rows.tree import PointRows
    from dpinfer.kernel.sources import Source

    Array = NDArray[np.float64]
    Places = NDArray[np.int64]
    Choice = Callable[[Sequence[int], float], int]

__all__ = ["FAN_OUT", "chosen_points"]

FAN_OUT = 1024
"""Blocks that one choice is made from."""


def chosen_points(
    rows: PointRows, probabilities: Sequence[Fraction], scales: Sequence[float], source: Source, draws: Draws
) -> list[int]:
    """Choose a point of the grid for every group and probability.

    Parameters
    ----------
    rows : PointRows
    probabilities : sequence of Fraction
    scales : sequence of float
        Of the noise of each choice, in steps; for every group in turn.
    source : Source
    draws : Draws

    Returns
    -------
    list of int
        Group by group.
    """

    def draw(scores: Sequence[int], scale: float) -> int:
        return draws.place(scores, "gumbel", scale)

    found: list[tuple[Places, NDArray[np.intp]]] = []
    for start in range(0, source.rows, CHUNK_ROWS):
        stop = min(start + CHUNK_ROWS, source.rows)
        found.append(rows.encode(source.read(rows.columns, start, stop), stop - start))
    points = np.concatenate([part for part, _ in found]) if found else np.zeros(0, dtype=np.int64)
    groups = np.concatenate([part for _, part in found]) if found else np.zeros(0, dtype=np.intp)
    chosen = []
    for group in range(rows.tree.size):
        mine = np.sort(points[groups == group])
        for probability, scale in zip(probabilities, scales, strict=False):
            chosen.append(_choose(mine, rows.points, probability, scale, draw))
    return chosen


def scored_pieces(places: Places, points: int, probability: Fraction) -> tuple[Places, Places]:
    """Cut the grid into stretches of equal score.

    Parameters
    ----------
    places : ndarray of int (n,)
        Sorted places of the values.
    points : int
        Points of the grid, 0 to points - 1.
    probability : Fraction
        A multiple of 1 / RANK.

    Returns
    -------
    starts : ndarray of int (k,)
        First point of each stretch.
    scores : ndarray of int (k,)
        ``-max(0, q n - #{v <= x}, #{v < x} - q n)``, times RANK.
    """
    values, counts = np.unique(places, return_counts=True)
    upto = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    target = int(probability * RANK) * len(places)
    # A stretch begins at every value (of one point), and behind it.
    starts = np.concatenate([[0], np.stack([values, values + 1], axis=1).ravel()])
    below = np.concatenate([[0], np.stack([upto[:-1], upto[1:]], axis=1).ravel()])
    above = np.concatenate([[0], np.repeat(upto[1:], 2)])
    scores = -np.maximum(np.maximum(target - above * RANK, below * RANK - target), 0)
    kept = np.diff(np.concatenate([starts, [points]])) > 0  # behind neighbouring values there is nothing
    return starts[kept], scores[kept]


def _choose(places: Places, points: int, probability: Fraction, scale: float, draw: Choice) -> int:
    starts, scores = scored_pieces(places, points, probability)
    first, size = 0, points
    while size > 1:
        block = 1
        while block * FAN_OUT < size:
            block *= FAN_OUT
        edges = first + block * np.arange(-(-size // block))  # not by its end, which numpy counts in floats
        weights = _log_weights(starts, scores, edges, first + size, scale)
        place = draw(weights, scale)
        size = min(block, first + size - int(edges[place]))
        first = int(edges[place])
    return first


def _log_weights(starts: Places, scores: Places, edges: Places, stop: int, scale: float) -> list[int]:
    """``scale * log(sum of exp(score / scale))`` over the points of each block, rounded to steps.

    The largest score of a block is taken out first, so that no sum overflows or vanishes.
    """
    begins = np.union1d(edges, starts[(starts > edges[0]) & (starts < stop)])
    here = scores[np.searchsorted(starts, begins, side="right") - 1]
    lengths = np.diff(np.concatenate([begins, [stop]])).astype(np.float64)
    blocks = np.searchsorted(begins, edges)
    top = np.maximum.reduceat(here, blocks)
    gaps = (here - np.repeat(top, np.diff(np.concatenate([blocks, [len(begins)]])))) / scale
    with np.errstate(under="ignore"):
        extra = np.rint(scale * np.log(np.add.reduceat(lengths * np.exp(gaps), blocks)))
    return [int(score) + int(more) for score, more in zip(top.tolist(), extra.tolist(), strict=True)]
