"""Exact sums over rows: batches are mapped to integers, and these are added without any rounding."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.kernel.people import KeptSource
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.rows.features import CHUNK_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from dpinfer.kernel.rows.base import RowSum
    from dpinfer.kernel.sources import Source

    Ints = NDArray[np.int64]

__all__ = ["add_up", "exact_sums"]

_HELD = 2**62
"""Sums of batches are added in 64 bits below this, and then go to Python integers."""


def exact_sums(
    rows: RowSum, source: Source, *, threads: int | None = None, chunk_rows: int = CHUNK_ROWS
) -> list[int]:
    """Sum what a row sum gives over all rows.

    Parameters
    ----------
    rows : RowSum
    source : Source
    threads : int, optional
        Worker threads; by default one per core. The result does not depend on it.
    chunk_rows : int
        Rows mapped at once, at most 32,768. The result does not depend on it.

    Returns
    -------
    list of int
    """
    if not 1 <= chunk_rows <= CHUNK_ROWS:
        raise OptionError("chunk_rows", chunk_rows, f"a whole number from 1 to {CHUNK_ROWS}")
    names, width = rows.columns, len(_nothing(rows))

    def one(ends: tuple[int, int]) -> Ints:
        start, stop = ends
        persons = source.persons[start:stop] if isinstance(source, KeptSource) else None
        return rows.add(Batch(source.read(names, start, stop), stop - start, persons=persons))[0]

    workers = threads or (1 if rows.light else os.cpu_count() or 1)
    return rows.finish(add_up(one, source.slices(chunk_rows), width=width, most=rows.most_added, workers=workers))


def add_up(
    function: Callable[[tuple[int, int]], Ints],
    slices: Iterable[tuple[int, int]],
    *,
    width: int,
    most: int,
    workers: int,
) -> list[int]:
    """Map slices of rows to integer vectors and add these.

    Parameters
    ----------
    function : callable
        Of the first row of a slice and the one behind its last: returns (width,) integers.
    slices : iterable of (start, stop)
    width : int
    most : int
        Bound on the absolute value of what ``function`` returns: so many sums fit into 64 bits, whatever the rows are.
    workers : int
        Threads.

    Returns
    -------
    list of int, length ``width``
    """
    total, running = [0] * width, np.zeros(width, dtype=np.int64)
    flush = max(1, _HELD // most)
    for place, part in enumerate(_mapped(function, slices, workers), 1):
        running += part
        if place % flush == 0:
            total = [left + right for left, right in zip(total, running.tolist(), strict=True)]
            running[:] = 0
    return [left + right for left, right in zip(total, running.tolist(), strict=True)]


def _mapped(
    function: Callable[[tuple[int, int]], Ints], slices: Iterable[tuple[int, int]], workers: int
) -> Iterator[Ints]:
    if workers == 1:
        yield from map(function, slices)
        return
    with ThreadPoolExecutor(max_workers=workers) as pool:
        yield from pool.map(function, slices)


def _nothing(rows: RowSum) -> Ints:
    """What no rows add up to: how many integers a batch gives."""
    ...
