"""What every source is: names of columns, and passes over all rows."""

from __future__ import annotations

import os
import threading
import warnings
from abc import ABC, abstractmethod
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from dpinfer.kernel.rows.base import CHUNK_ROWS, Cells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from dpinfer.schema.schema import Schema


_lock, _users, _before = threading.Lock(), list[object](), list[Any]()
"""Filters of warnings belong to the process; of several users the last restores them."""


@contextmanager
def no_warnings(private: bool = True) -> Iterator[None]:
    """Ignore all warnings, in every thread of the pass: whether one is given may depend on a confidential row."""
    if not private:
        yield
        return
    with _lock:
        if not _users:
            _before.append(warnings.catch_warnings())
            _before[0].__enter__()
        _users.append(None)
        warnings.simplefilter("ignore")  # anew in each run: a procedure that another one asks may have changed it
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        with _lock:
            _users.pop()
            if not _users:
                _before.pop().__exit__(None, None, None)


T = TypeVar("T")


@dataclass(frozen=True)
class Slice:
    """Consecutive rows, which any thread may read; reading never raises because of what a cell holds.

    ``start`` is the address of the first row: rows of one pass have addresses of their own. Where ``persons`` says
    whose each row is (rows,), a slice holds all rows of each of its people.
    """

    start: int
    rows: int
    read: Callable[[], Mapping[str, Cells]]
    persons: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Pass(Generic[T]):
    """What is done once with every row: ``each`` with the cells of a batch of at most ``most`` rows.

    ``join`` puts pieces together, those that ``each`` gives and those that it gave itself, into a piece that stands for
    them all; None where pieces are worth nothing but one by one. Both may run in other processes.
    """

    columns: Sequence[str]
    each: Callable[[Mapping[str, Cells], Slice], T]
    join: Callable[[Iterable[T]], T] | None = None
    most: int = CHUNK_ROWS
    threads: int | None = None


class Source(ABC):
    """Rows that are read in batches.

    Names of columns are public; the number of rows is confidential unless the neighbours keep it fixed.
    """

    columns: tuple[str, ...]

    ordered = False
    """Whether one row, or person, more leaves the order of all others as it was, whoever maps them."""

    turn: AbstractContextManager[Any] = nullcontext()
    """Held by a run from before its checks until its end, where the source serves one run."""

    ahead = 4
    """Parts in hand for each thread: a source may be larger than memory."""

    @property
    def types(self) -> Mapping[str, object]:
        """Storage types by column. They can depend on rows: for those alone who know that they were declared."""
        return dict.fromkeys(self.columns)

    @abstractmethod
    def batches(self, names: Sequence[str], most: int) -> Iterator[Slice]:
        """Give all rows as batches of at most ``most`` rows."""

    def parts(self, names: Sequence[str], most: int) -> Iterator[Iterable[Slice]]:
        """Give all rows in parts, each read by one thread; by default of one batch."""
        return ((batch,) for batch in self.batches(names, most))

    def pieces(self, one: Pass[T]) -> Iterator[T]:
        """Do one pass over all rows, in several threads where there are several parts, in the order of rows."""
        parts = self.parts(one.columns, one.most)
        first = list(islice(parts, 2))
        workers = (one.threads or os.cpu_count() or 1) if len(first) > 1 else 1
        parts = chain(first, parts)
        found = map(partial(part_result, one), parts) if workers == 1 else _mapped(one, parts, workers, self.ahead)
        return chain.from_iterable(found)

    def count(self) -> int:
        """Return the number of rows, where it is public."""
        return sum(self.pieces(Pass(self.columns[:1], lambda _, part: part.rows, sum)))

    @contextmanager
    def opened(self) -> Iterator[Source]:
        """Give what one run reads, all of its passes the same rows."""
        yield self

    def of_people(self, schema: Schema) -> AbstractContextManager[Source] | None:  # noqa: ARG002
        """Give the rows of people that count; None where this process brings a person's rows together."""
        return None

    def find(self, names: Iterable[str]) -> None:  # noqa: B027  (most sources know all of their columns)
        """Look for columns that are not among those known so far."""

    def check(self, *, passes: int = 1, weights: str | None = None) -> None:  # noqa: B027  (serves all)
        """Refuse, before a charge, what is not served: a number of passes, or weights of a law.

        Raises
        ------
        DataError
            That says what this source serves.
        """


def part_result(one: Pass[T], slices: Iterable[Slice]) -> tuple[T, ...]:
    """Return what a pass gives for a part: at most one piece where pieces can be joined."""
    found = (one.each(piece.read(), piece) for piece in slices)
    if one.join is None:
        return tuple(found)
    head = [piece for _, piece in zip(range(2), found, strict=False)]
    return (one.join(chain(head, found)),) if len(head) > 1 else tuple(head)


def _mapped(one: Pass[T], parts: Iterator[Iterable[Slice]], workers: int, ahead: int) -> Iterator[tuple[T, ...]]:
    waiting: deque[Future[tuple[T, ...]]] = deque()
    with ThreadPoolExecutor(max_workers=workers) as pool:
        try:
            pool.submit(int)
        except RuntimeError:  # no thread can be started: this one does all of it, as it does a single part
            yield from map(partial(part_result, one), parts)
            return
        for part in parts:
            waiting.append(pool.submit(part_result, one, part))
            if len(waiting) >= ahead * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class Table(Source):
    """Rows in memory, any of which can be read at any time."""

    rows: int

    @abstractmethod
    def read(self, names: Sequence[str], start: int, stop: int) -> Mapping[str, Cells]:
        """Return the cells of some columns for rows ``start`` to ``stop``."""

    def slices(self, most: int) -> Iterable[tuple[int, int]]:
        """Cut the rows into slices of at most ``most`` rows."""
        return ((start, min(start + most, self.rows)) for start in range(0, self.rows, most))

    def batches(self, names: Sequence[str], most: int) -> Iterator[Slice]:
        """Give all rows, in order, as batches of at most ``most`` rows."""
        for start, stop in self.slices(most):
            yield Slice(start, stop - start, partial(self.read, names, start, stop))

    def count(self) -> int:
        """Return the number of rows, where it is public."""
        return self.rows
