"""What parts of a source take and give: the work that a cluster does on its workers, and what they send."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

from dpinfer.kernel.sources import Pass, Slice, base


class Part(NamedTuple):
    """A part of the rows in one pass: processor seconds, rows, bytes of the result, and whether it is one for all rows.

    Bytes are those of the result pickled, where it is weighed.
    """

    seconds: float
    rows: int
    size: int
    joined: bool


@contextmanager
def parts_noted(*, weighed: bool = False) -> Iterator[list[Part]]:
    """Note every part that is mapped meanwhile, but for rows of people, which are kept by the process that asks."""
    parts: list[Part] = []
    result = base.part_result

    def noted(one: Pass[Any], slices: Iterable[Slice]) -> Any:
        start = time.thread_time()
        every = iter(slices)
        head = [part for _, part in zip(range(1), every, strict=False)]
        if head and head[0].persons is not None:
            return result(one, chain(head, every))
        rows: list[int] = []
        found = result(one, _counted(chain(head, every), rows))
        seconds = time.thread_time() - start
        size = len(pickle.dumps(found, protocol=pickle.HIGHEST_PROTOCOL)) if weighed else 0
        parts.append(Part(seconds, sum(rows), size, one.join is not None))
        return found

    base.part_result = noted
    try:
        yield parts
    finally:
        base.part_result = result


def _counted(slices: Iterable[Slice], rows: list[int]) -> Iterator[Slice]:
    for one in slices:
        rows.append(one.rows)
        yield one
