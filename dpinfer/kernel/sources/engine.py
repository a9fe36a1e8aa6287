"""What engines with workers of their own have in common: a task for each partition, whose result counts once.

The function of a pass goes to the workers by cloudpickle and is called there with the cells of their partitions. What
comes back is numbered by partition. An engine may run a task several times, on other workers: the results of all but
one attempt are thrown away unseen, and the one that is left is told by its number. Nothing is added up on the way
except by ``join``, and nothing is counted by an accumulator of the engine.

Whatever fails in a task fails without its text, cause and traceback, which could tell of a row.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import cloudpickle
import numpy as np

from dpinfer._version import __version__
from dpinfer.errors import DataError, SourceFailedError
from dpinfer.kernel.quiet import quiet
from dpinfer.kernel.rows.base import CHUNK_ROWS
from dpinfer.kernel.sources.base import Pass, Slice, Source, part_result
from dpinfer.kernel.sources.streams import refuse_weights, slices_of
from dpinfer.kernel.spilled_people import kept_records, people_slices, records_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from dpinfer.kernel.sources.base import Cells
    from dpinfer.schema.schema import Schema

__all__ = [
    "EngineSource",
    "GroupedPeople",
    "Result",
    "TaskFailedError",
    "clean_call",
    "cleaned",
    "joined",
    "task_pieces",
    "task_result",
    "version",
]

T = TypeVar("T")

_APART = 2**40
"""Between addresses of two partitions: more rows than one has."""


_SHIFT = np.uint64(64 - 12)
"""Of the bits of a person's hash the leading 12 are the bucket: more than on one machine, for there are more rows."""


class TaskFailedError(RuntimeError):
    """A task failed on a worker; nothing is said of why."""


@dataclass(frozen=True)
class Result(Generic[T]):
    """What a pass gives for partitions: their numbers, how many rows they have, and pieces, at most one if joined."""

    numbers: tuple[int, ...]
    rows: int
    pieces: tuple[T, ...]


# On the workers


def version() -> tuple[str, tuple[int, int]]:
    """Return versions of this package and of Python, which have to be alike wherever a pass is done."""
    return __version__, sys.version_info[:2]


def clean_call(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function; what fails in it fails without saying why."""
    try:
        return function(*args, **kwargs)
    except BaseException as error:  # a library in compiled code may raise what is no Exception
        if isinstance(error, KeyboardInterrupt | GeneratorExit) or _is_told_to_move(error):
            raise
    raise TaskFailedError  # outside of the handler: an error holds on to the one that it meets there


def cleaned(results: Iterator[T]) -> Iterator[T]:
    """Give results; what fails meanwhile fails without saying why."""
    end = object()
    while (found := clean_call(next, results, end)) is not end:
        yield found


def _is_told_to_move(error: BaseException) -> bool:
    """Whether an error is how Dask asks for another worker."""
    kind = getattr(sys.modules.get("distributed.exceptions"), "Reschedule", None)
    return isinstance(kind, type) and isinstance(error, kind)


class _Counted:
    """Slices of a partition, of which the rows are counted."""

    def __init__(self, slices: Iterable[Slice]) -> None:
        self._slices, self.rows = slices, 0

    def __iter__(self) -> Iterator[Slice]:
        for one in self._slices:
            self.rows += one.rows
            yield one


def _unpacked(
    packed: bytes, number: int, batches: Iterable[Any], constants: Mapping[str, object] | None = None
) -> tuple[Pass[Any], _Counted]:
    """Return a pass, and the slices of a partition; where people are the unit, of those of their rows that count."""
    one, people = cloudpickle.loads(packed)
    start = number * _APART
    if people is None:
        return one, _Counted(slices_of(batches, one.columns, one.most, start=start, constants=constants))
    return one, _Counted(people.slices(batches, one.columns, one.most, start))


@dataclass(frozen=True)
class GroupedPeople:
    """Rows of people that an engine has brought together: those of a person are in one partition.

    On the way a row is its bucket, two hashes of its person and what the schema reads in each cell: columns of `names`.
    """

    schema: Schema

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the schema, as they stand in a record."""
        return tuple(sorted(self.schema))

    @property
    def read(self) -> tuple[str, ...]:
        """Columns of the data that are read: the ids, and all that are declared."""
        assert self.schema.people is not None
        return (self.schema.people.id, *self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what a row is on the way."""
        return ("bucket", "person", "second", *(f"c{place}" for place in range(len(self.columns))))

    def emitted(
        self, batches: Iterable[Any], constants: Mapping[str, object] | None = None
    ) -> Iterator[tuple[NDArray[Any], ...]]:
        """Give the columns of `names` for the rows of a partition that have an id, batch by batch."""
        with quiet():
            for part in slices_of(batches, self.read, CHUNK_ROWS, constants=constants):
                records = records_of(self.schema, self.columns, part.read(), part)
                whole = np.ascontiguousarray(records.T)
                yield ((whole[0] >> _SHIFT).astype(np.int32), *whole[:2].view(np.int64), *whole[2:].view(np.float64))

    def slices(self, batches: Iterable[Any], names: Sequence[str], most: int, start: int) -> Iterator[Slice]:
        """Cut a partition into slices of whole people, of whom the rows that count are chosen bucket by bucket."""
        buckets = (kept_records(records, self.schema, self.columns) for records in self._buckets(batches))
        return people_slices(buckets, self.columns, names, most, start=start)

    def _buckets(self, batches: Iterable[Any]) -> Iterator[NDArray[np.uint64]]:
        """Put the rows of each bucket together; batches come in the order of buckets, and may end within one."""
        held: list[NDArray[np.uint64]] = []
        last = -1
        for batch in batches:
            columns = [np.asarray(batch[name]) for name in self.names]
            records = np.empty((len(columns[0]), len(columns) - 1), dtype=np.uint64)
            for place, column in enumerate(columns[1:]):
                records[:, place] = column.view(np.uint64)
            order = np.argsort(columns[0], kind="stable")
            buckets = columns[0][order]
            for part in np.split(order, np.flatnonzero(np.diff(buckets)) + 1) if len(order) else ():
                bucket = int(columns[0][part[0]])
                if bucket != last and held:
                    yield np.concatenate(held)
                    held = []
                held.append(records[part])
                last = bucket
        if held:
            yield np.concatenate(held)


def task_result(packed: bytes, number: int, batches: Iterable[Any]) -> Result[Any]:
    """Do a pass over a partition."""
    one, slices = _unpacked(packed, number, batches)
    with quiet():
        pieces = part_result(one, slices)
    return Result((number,), slices.rows, pieces)


def task_pieces(
    packed: bytes, number: int, batches: Iterable[Any], constants: Mapping[str, object] | None = None
) -> Iterator[Any]:
    """Do a pass over a partition: give the pieces one after the other, and at last the number of rows."""
    one, slices = _unpacked(packed, number, batches, constants)
    with quiet():
        if one.join is None:
            yield from (one.each(part.read(), part) for part in slices)
        else:
            yield from part_result(one, slices)
    yield slices.rows


def joined(packed: bytes, results: Sequence[Result[Any]]) -> Result[Any]:
    """Put results of several partitions together, where pieces can be joined."""
    one, _ = cloudpickle.loads(packed)
    pieces = tuple(piece for result in results for piece in result.pieces)
    numbers = tuple(number for result in results for number in result.numbers)
    with quiet():
        return Result(
            numbers, sum(result.rows for result in results), (one.join(pieces),) if len(pieces) > 1 else pieces
        )


# On the driver


class EngineSource(Source):
    """Rows in partitions, which workers of an engine map where they are."""

    engine: str
    """Its name in messages."""

    def __init__(self) -> None:
        self._seen: int | None = None
        self._checked = False
        self._people: GroupedPeople | None = None

    def sent(self, one: Pass[Any]) -> Sequence[str]:
        """Return the columns that a pass reads of a partition; without one there would be no rows."""
        return self.columns if self._people is not None else one.columns or self.columns[:1]

    @contextmanager
    def of_people(self, schema: Schema) -> Iterator[Source]:
        """Give the rows of people that count: the engine brings the rows of a person together."""
        people = GroupedPeople(schema)
        with self.grouped(people) as found:
            found._people = people
            yield found

    @abstractmethod
    def grouped(self, people: GroupedPeople) -> AbstractContextManager[EngineSource]:
        """Give a source of what ``people`` emits of the rows here, in which a bucket is in one partition."""

    @abstractmethod
    def results(self, one: Pass[T], packed: bytes) -> tuple[int, Iterator[Result[T]]]:
        """Do a pass: return the number of partitions, and their results as they come, in the order of partitions."""

    @abstractmethod
    def versions(self) -> Sequence[Any]:
        """Return what `version` gives on workers; fail where it cannot be asked there."""

    def pieces(self, one: Pass[T]) -> Iterator[T]:
        """Do one pass over all rows, where they are; pieces come in the order of partitions."""
        packed = cloudpickle.dumps((one, self._people))
        seen: set[int] = set()
        rows = 0
        partitions, results = _or_failed(self.engine, lambda: self.results(one, packed))
        found = iter(results)
        while (result := _or_failed(self.engine, partial(next, found, None))) is not None:
            if not seen.isdisjoint(result.numbers) or len(set(result.numbers)) < len(result.numbers):
                raise SourceFailedError(f"{self.engine} gave a partition twice")
            seen.update(result.numbers)
            rows += result.rows
            yield from result.pieces
        if seen != set(range(partitions)):
            raise SourceFailedError(f"{self.engine} did not give every partition")
        if self._seen not in (None, rows):
            raise SourceFailedError("the source gave other rows in another pass")
        self._seen = rows

    def batches(self, names: Sequence[str], most: int) -> Iterator[Slice]:
        """Bring all rows to this process, as batches of at most ``most`` rows."""
        for start, rows, cells in self.pieces(Pass(tuple(names), _brought, most=most)):
            yield Slice(start, rows, partial(_same, cells))

    @contextmanager
    def opened(self) -> Iterator[Source]:
        """Give what one run reads: a pass with another number of rows than the one before fails."""
        run = copy(self)
        run._seen = None
        yield run

    def check(self, *, passes: int = 1, weights: str | None = None) -> None:  # noqa: ARG002
        """Refuse weights by the position of a row, and workers that cannot do a pass. No row is read."""
        refuse_weights(weights)
        if self._checked:
            return
        found: Sequence[Any] | None = None
        with quiet():
            try:
                found = self.versions()
            except Exception:
                found = None
        if found is None or any(one != version() for one in found):
            raise DataError(
                f"source: workers of {self.engine} do not have dpinfer {__version__} on Python "
                f"{'.'.join(map(str, sys.version_info[:2]))}, as this process has: install the same there"
            )
        self._checked = True


def _brought(cells: Mapping[str, Cells], part: Slice) -> tuple[int, int, dict[str, Cells]]:
    return part.start, part.rows, dict(cells)


def _same(cells: Mapping[str, Cells]) -> Mapping[str, Cells]:
    return cells


def _or_failed(engine: str, asked: Callable[[], T]) -> T:
    """Ask an engine; whatever it says of a failure is left out, as it may tell of a row."""
    with quiet():
        try:
            return asked()
        except SourceFailedError:
            raise
        except Exception:
            pass
    raise SourceFailedError(f"a task of {engine} failed on its workers")
