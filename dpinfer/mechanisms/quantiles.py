"""The exponential mechanism on a grid of any size: a quantile is chosen by descending through blocks of points.

The score of a point is minus its distance in rank from the quantile. Points between two neighbouring values share a
score, so the weight of a whole block of points is a short sum. A block of the grid is chosen in proportion to its
weight, then a block within it, and so on down to one point: the probabilities are those of the exponential mechanism
over all points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer.mechanisms.rank_weights import LARGEST_CHOICE, RANK, RankScores, log_weights
from dpinfer.mechanisms.selection import private_choice, simulated_choice
from dpinfer.schema.rows import CHUNK_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from fractions import Fraction
    from typing import Any

    from numpy.typing import NDArray

    from dpinfer.mechanisms.sources import Source
    from dpinfer.schema.tree_rows import QuantileRows

    Places = NDArray[np.signedinteger[Any]]
    Choice = Callable[[Sequence[int], float], int]

__all__ = ["FAN_OUT", "LARGEST_CHOICE", "RANK", "SLACK", "chosen_points", "private_draw", "simulated_draw"]

FAN_OUT = 1024
"""Blocks that one choice is made from."""

SLACK = 64
"""Steps by which rounding can add to the range of a change of log weights: at most 8 a level, at most 6 levels."""


def private_draw(scores: Sequence[int], scale: float) -> int:
    """Choose a block of confidential data."""
    return private_choice(scores, "gumbel", scale)


def simulated_draw(rng: np.random.Generator) -> Choice:
    """Return what chooses a block in simulation."""
    return lambda scores, scale: simulated_choice(scores, "gumbel", scale, rng)


def chosen_points(rows: QuantileRows, source: Source, draw: Choice) -> list[int]:
    """Choose a point of the grid for every group and probability.

    Parameters
    ----------
    rows : QuantileRows
    source : Source
    draw : callable
        ``draw(scores, scale)`` returns the place of the largest noisy score.

    Returns
    -------
    list of int
        Group by group.

    Notes
    -----
    How many draws there are, and from how many blocks each is, depends on the grid and the chosen points alone.
    """
    chosen = []
    for places in sorted_places(rows, source):
        for probability, scale in zip(rows.probabilities, rows.scales, strict=True):
            chosen.append(_choose(places, rows.points, probability, scale * RANK, draw))
    return chosen


def sorted_places(rows: QuantileRows, source: Source) -> list[Places]:
    """Return the sorted places of the values of every group, with ties; one pass over the source."""
    found = [_kept(*rows.encode(raw, count), rows) for raw, count in _batches(rows, source)]
    if not found:
        return [np.zeros(0, dtype=rows.dtype)] * rows.tree.size
    places = np.concatenate([part for part, _ in found])
    groups = np.concatenate([part for _, part in found])
    del found
    parts = [places] if rows.tree.size == 1 else _by_group(places, groups, rows.tree.size)
    for part in parts:
        part.sort()
    return parts


def _batches(rows: QuantileRows, source: Source) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Yield the cells of some rows, and how many rows they are."""
    for start in range(0, source.rows, CHUNK_ROWS):
        stop = min(start + CHUNK_ROWS, source.rows)
        yield source.read(rows.columns, start, stop), stop - start


def _kept(places: Places, groups: NDArray[np.intp], rows: QuantileRows) -> tuple[Places, NDArray[np.int32]]:
    """Leave out rows that do not count; a single group needs no marks."""
    counts = groups < rows.tree.size
    if rows.tree.size == 1:
        return places[counts], np.zeros(0, dtype=np.int32)
    return places[counts], groups[counts].astype(np.int32)


def _by_group(places: Places, groups: NDArray[np.int32], size: int) -> list[Places]:
    ends = np.cumsum(np.bincount(groups, minlength=size))[:-1]
    return np.split(places[np.argsort(groups, kind="stable")], ends)


def _choose(places: Places, points: int, probability: Fraction, scale: float, draw: Choice) -> int:
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
