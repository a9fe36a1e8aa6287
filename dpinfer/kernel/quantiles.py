"""The exponential mechanism on a grid of any size: a quantile is chosen by descending through blocks of points.

The score of a point is minus its distance in rank from the quantile. Points between two neighbouring values share a
score, so the weight of a whole block of points is a short sum. A block of the grid is chosen in proportion to its
weight, then a block within it, and so on down to one point: the probabilities are those of the exponential mechanism
over all points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer.kernel.batches import map_batches
from dpinfer.kernel.rank_weights import RankScores, log_weights
from dpinfer.kernel.sources.base import Table
from dpinfer.kernel.spill import Spill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from fractions import Fraction
    from typing import Any

    from numpy.typing import NDArray

    from dpinfer.kernel.draws import Draws
    from dpinfer.kernel.rows.tree import PointRows
    from dpinfer.kernel.sources.base import Slice, Source

    Places = NDArray[np.signedinteger[Any]]
    Choice = Callable[[Sequence[int], float], int]

__all__ = ["FAN_OUT", "chosen_points", "sorted_places"]

_LARGEST_KEY = 2**62
"""Groups and points are sorted together where they have fewer pairs."""

FAN_OUT = 1024
"""Blocks that one choice is made from."""


def chosen_points(
    rows: PointRows, probabilities: Sequence[Fraction], scales: Sequence[float], source: Source, draws: Draws
) -> list[int]:
    """Choose a point of the grid for every group and probability, group by group.

    How many draws there are, and from how many blocks each is, depends on the grid and the chosen points alone.
    """

    def draw(scores: Sequence[int], scale: float) -> int:
        return draws.place(scores, "gumbel", scale)

    chosen = []
    for places in sorted_places(rows, source):
        for probability, scale in zip(probabilities, scales, strict=False):
            chosen.append(_choose(places, rows.points, probability, scale, draw))
    return chosen


def sorted_places(rows: PointRows, source: Source) -> list[Places]:
    """Return the sorted places of the values of every group, with ties; one pass over the source."""

    def kept(cells: Mapping[str, Any], part: Slice) -> tuple[Places, NDArray[np.int32]]:
        return _kept(*rows.encode(cells, part.rows), rows)

    if not isinstance(source, Table) and rows.points * rows.tree.size < _LARGEST_KEY:
        return _sorted_on_disk(rows, map_batches(source, rows.columns, kept))
    found = list(map_batches(source, rows.columns, kept, threads=1))
    if not found:
        return [np.zeros(0, dtype=rows.dtype)] * rows.tree.size
    places = np.concatenate([part for part, _ in found])
    groups = np.concatenate([part for _, part in found])
    del found
    parts = [places] if rows.tree.size == 1 else _by_group(places, groups, rows.tree.size)
    for part in parts:
        part.sort()
    return parts


def _sorted_on_disk(rows: PointRows, pieces: Iterable[tuple[Places, NDArray[np.int32]]]) -> list[Places]:
    """Sort in a file what does not come from memory; the group goes before the place."""
    size, points = rows.tree.size, rows.points
    with Spill(1, rows.dtype if size == 1 else np.int64, 1) as spill:
        for places, groups in pieces:
            spill.append(0, places if size == 1 else groups.astype(np.int64) * points + places)
        keys = spill.read(0, writable=True)[:, 0]
    keys.sort()
    if size == 1:
        return [keys]
    ends = np.searchsorted(keys, np.arange(1, size) * points)
    return [(part - group * points).astype(rows.dtype) for group, part in enumerate(np.split(keys, ends))]


def _kept(places: Places, groups: NDArray[np.intp], rows: PointRows) -> tuple[Places, NDArray[np.int32]]:
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
