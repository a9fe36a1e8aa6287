"""One function over all rows, batch by batch, and exact sums of what it gives."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dpinfer.kernel.rows.features import CHUNK_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from dpinfer.kernel.sources import Cells, Slice, Source

__all__ = ["map_batches", "sum_batches"]

T = TypeVar("T")

_FLUSH = 4096
"""Batches at most that are added in 64 bits before Python integers take over."""

_AHEAD = 4
"""Batches in hand for each thread: a source may be larger than memory."""


def map_batches(
    source: Source,
    names: Sequence[str],
    function: Callable[[Mapping[str, Cells], Slice], T],
    *,
    threads: int | None = None,
    most: int = CHUNK_ROWS,
) -> Iterator[T]:
    """Call a function with the cells of every batch of rows, in several threads at once.

    What it returns comes in the order of rows, whatever the number of threads (by default one per core).
    """

    def one(batch: Slice) -> T:
        return function(batch.read(), batch)

    batches = source.batches(names, most)
    workers = threads or os.cpu_count() or 1
    return map(one, batches) if workers == 1 else _mapped(one, batches, workers)


def _mapped(function: Callable[[Slice], T], batches: Iterator[Slice], workers: int) -> Iterator[T]:
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(max_workers=workers) as pool:
        for batch in batches:
            waiting.append(pool.submit(function, batch))
            if len(waiting) >= _AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def sum_batches(
    source: Source,
    names: Sequence[str],
    function: Callable[[Mapping[str, Cells], Slice], NDArray[Any]],
    *,
    size: int,
    largest: int,
    threads: int | None = None,
    most: int = CHUNK_ROWS,
) -> list[int]:
    """Add up the whole numbers (size,) that a function gives for every batch, without any rounding.

    ``largest``, at most 2^62, bounds them in absolute value. So many batches are added in 64 bits as fit whatever they
    hold, then Python integers take over: choosing by the number of rows would make behaviour depend on it. The result
    does not depend on ``threads`` and ``most``.
    """
    held = max(min(_FLUSH, 2**62 // largest), 1)
    total = np.zeros(size, dtype=object)
    running = np.zeros(size, dtype=np.int64)
    for place, part in enumerate(map_batches(source, names, function, threads=threads, most=most), 1):
        running += part
        if place % held == 0:
            total += running
            running[:] = 0
    return [int(value) for value in total + running]
