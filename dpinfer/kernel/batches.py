"""One function over all rows, batch by batch, and exact sums of what it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dpinfer.kernel.rows.base import CHUNK_ROWS
from dpinfer.kernel.sources.base import Pass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dpinfer.kernel.sources.base import Cells, Slice, Source

__all__ = ["map_batches", "sum_batches"]

T = TypeVar("T")

_FLUSH = 4096
"""Batches at most that are added in 64 bits before Python integers take over."""


def map_batches(
    source: Source,
    names: Sequence[str],
    function: Callable[[Mapping[str, Cells], Slice], T],
    *,
    threads: int | None = None,
    most: int = CHUNK_ROWS,
) -> Iterator[T]:
    """Call a function with the cells of every batch of rows, in several threads at once, or where the rows are.

    What it returns comes in the order of rows, whatever the number of threads (by default one per core).
    """
    return source.pieces(Pass(tuple(names), function, most=most, threads=threads))


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

    ``largest``, at most 2^62, bounds them in absolute value. The result depends on neither ``threads`` nor ``most``,
    nor on where rows are summed.
    """
    total = _Total(size, largest)
    pieces = source.pieces(Pass(tuple(names), function, total, most, threads))
    return [int(value) for value in total(pieces)]


@dataclass(frozen=True)
class _Total:
    """Adds up arrays of 64 bits that are bounded, and totals of such, which are Python integers.

    So many batches are added in 64 bits as fit whatever they hold, then Python integers take over: choosing by the
    number of rows would make behaviour depend on it.
    """

    size: int
    largest: int

    def __call__(self, pieces: Iterable[NDArray[Any]]) -> NDArray[Any]:
        held = max(min(_FLUSH, 2**62 // self.largest), 1)
        total = np.zeros(self.size, dtype=object)
        running = np.zeros(self.size, dtype=np.int64)
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
