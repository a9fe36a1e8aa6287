"""Exact sums over rows: batches are mapped to integers, and these are added without any rounding."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.kernel.rows.base import CHUNK_ROWS, Array, Batch, Cells, Ints, RowSum
from dpinfer.kernel.sampling import Draws, seeded_bytes
from dpinfer.kernel.sources.base import Pass, Slice, Source
from dpinfer.privacy.resampling import POISSON
from dpinfer.schema.grid import UNIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from dpinfer.kernel.rows.products import ReplicateSum
    from dpinfer.kernel.rows.scores import ScoreSum

_FLUSH = 4096
"""Batches at most that are added in 64 bits before Python integers take over."""


def sum_batches(
    source: Source,
    names: Sequence[str],
    function: Callable[[Mapping[str, Cells], Slice], NDArray[Any]],
    *,
    size: int,
    largest: int = 2**53,
    threads: int | None = None,
    most: int = CHUNK_ROWS,
) -> list[int]:
    """Add up the whole numbers (size,) that a function gives for every batch, without any rounding.

    ``largest``, at most 2^62, bounds them in absolute value. The result depends on neither ``threads`` nor ``most``,
    nor on where rows are summed.
    """
    total = partial(_total, size, max(min(_FLUSH, 2**62 // largest), 1))
    pieces = source.pieces(Pass(tuple(names), function, total, most, threads))
    return [int(value) for value in total(pieces)]


def _total(size: int, held: int, pieces: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Add up arrays of 64 bits that are bounded, and totals of such, which are Python integers.

    So many batches, ``held``, are added in 64 bits as fit whatever they hold, then Python integers take over: choosing
    by the number of rows would make behaviour depend on it.
    """
    total, running = np.zeros(size, dtype=object), np.zeros(size, dtype=np.int64)
    place = 0
    for piece in pieces:
        if piece.dtype == object:
            total += piece
            continue
        running += piece
        place += 1
        if place % held == 0:
            total += running
            running[:] = 0
    return total + running


def exact_sums(
    rows: RowSum | ScoreSum, source: Source, *, threads: int | None = None, chunk_rows: int | None = None
) -> list[int]:
    """Sum what a row sum gives over all rows (m,); the result depends on neither threads nor ``chunk_rows``."""
    if chunk_rows is not None and not 1 <= chunk_rows <= CHUNK_ROWS:
        raise OptionError("chunk_rows", chunk_rows, f"a whole number from 1 to {CHUNK_ROWS}")

    def one(cells: Mapping[str, Cells], part: Slice) -> Ints:
        added: Ints = rows.add(Batch(cells, part.rows, persons=part.persons))[0]
        return added

    totals = sum_batches(
        source,
        rows.columns,
        one,
        size=rows.entries,
        threads=threads or (1 if rows.light else None),
        most=chunk_rows or rows.batch_rows,
    )
    return rows.finish(totals)


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

    def drawn(start: int, size: int) -> Array:
        """Draw the weights of a slice of rows in every set (sets, size): bits, or Poisson numbers."""
        if rows.weights == "poisson":
            return _POISSON[np.frombuffer(draw(start, 2 * sets * size), dtype=np.uint16).reshape(sets, size)]
        bytes_each = -(-size // 8)
        packed = np.frombuffer(draw(start, sets * bytes_each), dtype=np.uint8)
        return np.take(_BITS, packed, axis=0).reshape(sets, 8 * bytes_each)[:, :size]

    def sums(cells: Mapping[str, Cells], batch: Slice) -> Ints:
        encoded, start = rows.encode(cells), batch.start
        if batch.persons is not None:
            start = int(batch.persons[0])
            encoded = np.stack([np.bincount(batch.persons - start, row) for row in encoded])
        total, whole = np.zeros((sets, width), dtype=np.int64), np.zeros(width, dtype=np.int64)
        for first in range(0, encoded.shape[1], step):
            part = encoded[:, first : first + step]
            total += np.dot(drawn(start + first, part.shape[1]), part.T).astype(np.int64)
            if rows.in_pairs:
                whole += part.sum(axis=1).astype(np.int64)
        if rows.weights == "poisson":
            return total.ravel()
        if rows.in_pairs:
            total = np.stack([total, whole - total], axis=1).reshape(count, width)
        return 2 * total.ravel()

    return sum_batches(source, rows.columns, sums, size=count * width, largest=_LARGEST, threads=threads)
