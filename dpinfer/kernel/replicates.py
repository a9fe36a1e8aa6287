"""Exact sums over rows, many times, each time under other random weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer.kernel.batches import sum_batches
from dpinfer.kernel.draws import seeded_bytes
from dpinfer.kernel.rows.base import CHUNK_ROWS
from dpinfer.privacy.resampling import POISSON
from dpinfer.schema.grid import UNIT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from dpinfer.kernel.draws import Draws
    from dpinfer.kernel.rows.resampled import ReplicateSum
    from dpinfer.kernel.sources.base import Cells, Slice, Source

    Array = NDArray[np.float64]
    Bytes = Callable[[int, int], bytes]

__all__ = ["replicate_sums"]

_ROWS = 4096
"""Most rows weighed at once: products of two entries of 2^19 under weights of at most 6 then sum below 2^53.

Of people with at most m rows the m-th part."""

_ENTRIES = 2**18
"""Weights held at once, in each thread."""

_LARGEST = 6 * UNIT * UNIT * CHUNK_ROWS
"""Bound on a sum over a batch: 6 is the largest weight."""

_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64)
"""The eight bits of every byte, as numbers."""

_POISSON = np.repeat(np.arange(len(POISSON.counts), dtype=np.float64), POISSON.counts)
"""The weight that every number of 16 bits stands for."""


def replicate_sums(rows: ReplicateSum, source: Source, draws: Draws, *, threads: int | None = None) -> list[int]:
    """Sum integer rows under B sets of random weights, without any rounding, in one pass: replicate by replicate.

    Secret weights are drawn by ``draws``; public ones come from the seed of ``rows``. Weights are made a slice of rows
    at a time and multiplied with the slice as a matrix: memory does not grow with the number of rows. The weight of a
    row in a sum is 2 or 0 by one random bit, or by 16 bits for Poisson weights. Public and paired weights come in pairs
    of sums, each row counting in one of the two.

    People with several rows are weighed as a whole: chunks hold whole people, whose rows are added first, without
    rounding, and then count as one row.
    """
    count, width = rows.replicates, rows.width
    draw = seeded_bytes(rows.seed) if rows.weights == "public" else draws.bytes()
    sets = count // 2 if rows.in_pairs else count
    largest = _ROWS // rows.schema.rows_per_unit
    step = max(min(_ENTRIES // sets // 8 * 8, largest), min(8, largest))

    def sums(cells: Mapping[str, Cells], batch: Slice) -> NDArray[np.int64]:
        encoded, start = rows.encode(cells), batch.start
        if batch.persons is not None:
            encoded, start = _of_people(encoded, batch.persons)
        total, whole = np.zeros((sets, width), dtype=np.int64), np.zeros(width, dtype=np.int64)
        for first in range(0, encoded.shape[1], step):
            part = encoded[:, first : first + step]
            weights = _weights(rows, sets, part.shape[1], start + first, draw)
            total += np.dot(weights, part.T).astype(np.int64)
            if rows.in_pairs:
                whole += part.sum(axis=1).astype(np.int64)
        if rows.weights == "poisson":
            return total.ravel()
        if rows.in_pairs:
            total = np.stack([total, whole - total], axis=1).reshape(count, width)
        return 2 * total.ravel()

    return sum_batches(source, rows.columns, sums, size=count * width, largest=_LARGEST, threads=threads)


def _of_people(encoded: Array, persons: NDArray[np.int64]) -> tuple[Array, int]:
    """Add the rows of each person of a chunk (d, people), and say who the first is."""
    first = int(persons[0])
    places = persons - first
    return np.stack([np.bincount(places, row) for row in encoded]), first


def _weights(rows: ReplicateSum, sets: int, size: int, start: int, draw: Bytes) -> Array:
    """Draw the weights of a slice of rows in every set (sets, size): bits, or Poisson numbers."""
    if rows.weights == "poisson":
        drawn = np.frombuffer(draw(start, 2 * sets * size), dtype=np.uint16).reshape(sets, size)
        return _POISSON[drawn]
    width = -(-size // 8)
    packed = np.frombuffer(draw(start, sets * width), dtype=np.uint8)
    return np.take(_BITS, packed, axis=0).reshape(sets, 8 * width)[:, :size]
