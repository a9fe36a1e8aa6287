"""What engines with workers of their own have in common: a task for each partition, whose result counts once.

The function of a pass goes to the workers by cloudpickle and is called there with the cells of their partitions. What
comes back is numbered by partition. An engine may run a task several times, on other workers: the results of all but
one attempt are thrown away unseen, and the one that is left is told by its number. Nothing is added up on the way
except by ``join``, and nothing is counted by an accumulator of the engine.

Whatever fails in a task fails without its text, cause and traceback, which could tell of a row.
"""

from __future__ import annotations

import gc
import logging
import pickle
import sys
import threading
from abc import abstractmethod
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import uuid4

import cloudpickle
import numpy as np
import pandas as pd
import pyarrow as pa

from dpinfer._version import __version__
from dpinfer.errors import DataError, SourceFailedError
from dpinfer.kernel.people import PeopleRecords
from dpinfer.kernel.rows.base import CHUNK_ROWS
from dpinfer.kernel.sources.base import Pass, Slice, Source, no_warnings, part_result
from dpinfer.kernel.sources.reader import refuse_repeated, refuse_weights, slices_of
from dpinfer.schema.cells import IMPOSSIBLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from dpinfer.schema.schema import Schema

    Graph = dict[Any, Any]


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
    """Call a function; what fails in it fails without saying why, but for how Dask asks for another worker."""
    moves: Any = getattr(sys.modules.get("distributed.exceptions"), "Reschedule", KeyboardInterrupt)
    try:
        return function(*args, **kwargs)
    except BaseException as error:  # a library in compiled code may raise what is no Exception
        if isinstance(error, KeyboardInterrupt | GeneratorExit | moves):
            raise
    raise TaskFailedError  # outside of the handler: an error holds on to the one that it meets there


def cleaned(results: Iterator[T]) -> Iterator[T]:
    """Give results; what fails meanwhile fails without saying why."""
    end = object()
    while (found := clean_call(next, results, end)) is not end:
        yield found


@dataclass(frozen=True)
class GroupedPeople(PeopleRecords):
    """Rows of people that an engine has brought together: those of a person are in one partition.

    On the way a row is its bucket, two hashes of its person and what the schema reads in each cell: columns of `names`.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what a row is on the way."""
        return ("bucket", "person", "second", *(f"c{place}" for place in range(len(self.columns))))

    @property
    def kinds(self) -> dict[str, str]:
        """Types of the columns of `names`."""
        return dict(zip(self.names, ("int32", "int64", "int64", *("float64" for _ in self.columns)), strict=True))

    def emitted(
        self, batches: Iterable[Any], constants: Mapping[str, object] | None = None
    ) -> Iterator[tuple[NDArray[Any], ...]]:
        """Give the columns of `names` for the rows of a partition that have an id, batch by batch."""
        with no_warnings():
            for part in slices_of(batches, self.read, CHUNK_ROWS, constants=constants):
                whole = np.ascontiguousarray(self.of(part.read()).T)
                yield ((whole[0] >> _SHIFT).astype(np.int32), *whole[:2].view(np.int64), *whole[2:].view(np.float64))

    def grouped(self, batches: Iterable[Any], names: Sequence[str], most: int, start: int) -> Iterator[Slice]:
        """Cut a partition into slices of whole people, of whom the rows that count are chosen bucket by bucket."""

        def parts() -> Iterator[tuple[int, NDArray[np.uint64]]]:
            """Cut batches, which come in the order of buckets and may end within one, into parts of one bucket."""
            for batch in batches:
                buckets, *columns = (np.asarray(batch[name]) for name in self.names)
                records = np.column_stack([column.view(np.uint64) for column in columns])
                order = np.argsort(buckets, kind="stable")
                for part in np.split(order, np.flatnonzero(np.diff(buckets[order])) + 1):
                    if len(part):
                        yield int(buckets[part[0]]), records[part]

        whole = (np.concatenate([part for _, part in same]) for _, same in groupby(parts(), key=itemgetter(0)))
        return self.slices(map(self.kept, whole), names, most, start=start)


def task_pieces(
    packed: bytes, number: int, batches: Iterable[Any], constants: Mapping[str, object] | None = None
) -> Iterator[Any]:
    """Do a pass over a partition: give the pieces one after the other, and at last the number of rows.

    Where people are the unit, it is done over those of their rows that count.
    """
    one, people = cloudpickle.loads(packed)
    start, rows = number * _APART, 0
    if people is None:
        slices = slices_of(batches, one.columns, one.most, start=start, constants=constants)
    else:
        slices = people.grouped(batches, one.columns, one.most, start)

    def counted() -> Iterator[Slice]:
        nonlocal rows
        for part in slices:
            rows += part.rows
            yield part

    with no_warnings():
        if one.join is None:
            yield from (one.each(part.read(), part) for part in counted())
        else:
            yield from part_result(one, counted())
    yield rows


def task_result(packed: bytes, number: int, batches: Iterable[Any]) -> Result[Any]:
    """Do a pass over a partition."""
    *pieces, rows = task_pieces(packed, number, batches)
    return Result((number,), rows, tuple(pieces))


def joined(packed: bytes, results: Sequence[Result[Any]]) -> Result[Any]:
    """Put results of several partitions together, where pieces can be joined."""
    one, _ = cloudpickle.loads(packed)
    pieces = tuple(piece for result in results for piece in result.pieces)
    numbers = tuple(number for result in results for number in result.numbers)
    with no_warnings():
        whole = (one.join(pieces),) if len(pieces) > 1 else pieces
    return Result(numbers, sum(result.rows for result in results), whole)


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
        brought = Pass(tuple(names), lambda cells, part: (part.start, part.rows, dict(cells)), most=most)
        for start, rows, cells in self.pieces(brought):
            yield Slice(start, rows, lambda cells=cells: cells)  # type: ignore[misc]

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
        with no_warnings(), suppress(Exception):
            found = self.versions()
        if found is None or any(one != version() for one in found):
            raise DataError(
                f"source: workers of {self.engine} do not have dpinfer {__version__} on Python "
                f"{'.'.join(map(str, sys.version_info[:2]))}, as this process has: install the same there"
            )
        self._checked = True


def _or_failed(engine: str, asked: Callable[[], T]) -> T:
    """Ask an engine; whatever it says of a failure is left out, as it may tell of a row."""
    with no_warnings():
        try:
            return asked()
        except SourceFailedError:
            raise
        except Exception:
            pass
    raise SourceFailedError(f"a task of {engine} failed on its workers")


_JOINED = 16
"""Results that one task puts together."""

_IN_HAND = 16
"""Partitions whose pieces wait to be taken, where these cannot be joined."""


class DaskSource(EngineSource):
    """A Dask DataFrame, mapped by the scheduler that Dask would use for it."""

    engine = "Dask"

    def __init__(self, frame: Any) -> None:
        super().__init__()
        refuse_repeated([str(label) for label in frame.columns])
        self._frame = frame
        self._labels = {str(label): label for label in frame.columns}
        self.columns = tuple(self._labels)

    @property
    def types(self) -> Mapping[str, object]:
        """The dtypes."""
        return dict(zip(self.columns, self._frame.dtypes, strict=True))

    def results(self, one: Pass[T], packed: bytes) -> tuple[int, Iterator[Result[T]]]:
        """Do a pass: joined in the graph to one result where pieces can be joined, else some partitions at a time."""
        from dask._task_spec import DataNode, List, Task, TaskRef, convert_legacy_graph
        from dask.core import flatten

        chosen = self._frame[[self._labels[name] for name in self.sent(one)]].optimize()
        graph = {key: _clean(node) for key, node in convert_legacy_graph(dict(chosen.__dask_graph__())).items()}
        token = f"dpinfer-{uuid4().hex}"  # a result that Dask keeps of an earlier pass is not this pass's
        graph[token] = DataNode(token, packed)
        keys = []
        for number, key in enumerate(flatten(chosen.__dask_keys__())):
            keys.append((token, 0, number))
            graph[keys[-1]] = Task(keys[-1], clean_call, task_result, TaskRef(token), number, List(TaskRef(key)))
        groups = _groups(graph, keys, {token}) if one.join is None else [_tree(graph, token, keys)]
        return len(keys), self._found(graph, groups)

    @contextmanager
    def grouped(self, people: GroupedPeople) -> Iterator[EngineSource]:
        """Shuffle the rows by bucket, anew in every pass: nothing of them stays on the workers."""
        labels = [self._labels[name] for name in people.read]
        meta = pd.DataFrame({name: np.zeros(0, dtype=kind) for name, kind in people.kinds.items()})
        packed = cloudpickle.dumps(people)
        emitted = self._frame[labels].map_partitions(_dask_emitted, packed, meta=meta, enforce_metadata=False)
        yield DaskSource(emitted.shuffle(on="bucket", shuffle_method="tasks"))

    def _found(self, graph: Graph, groups: Sequence[Sequence[Any]]) -> Iterator[Result[Any]]:
        for keys in groups:
            yield from self._get(_needed(graph, keys), list(keys))

    @property
    def _get(self) -> Callable[..., Any]:
        from dask.base import get_scheduler

        get: Callable[..., Any] = get_scheduler(collections=[self._frame])
        return get

    def versions(self) -> Sequence[Any]:
        """Ask every worker; threads of this process need not be asked."""
        client: Any = getattr(self._get, "__self__", None)
        return list(client.run(version).values()) if hasattr(client, "run") else []


def _dask_emitted(partition: pd.DataFrame, packed: bytes) -> pd.DataFrame:
    people: GroupedPeople = cloudpickle.loads(packed)
    named = partition.set_axis(people.read, axis=1)
    none = [tuple(np.zeros(0, dtype=kind) for kind in people.kinds.values())]
    columns = zip(*none, *people.emitted([named]), strict=True)
    return pd.DataFrame({name: np.concatenate(parts) for name, parts in zip(people.names, columns, strict=True)})


def _clean(node: Any) -> Any:
    """Return a task that does the same and fails without saying why, for Dask logs what is said.

    Tasks that Dask knows by their type are left alone.
    """
    from dask._task_spec import Task

    if type(node) is not Task:
        return node
    call = partial(clean_call, node.func)
    return Task(node.key, call, *node.args, _data_producer=node.data_producer, **node.kwargs)


def _tree(graph: Graph, token: str, keys: Sequence[Any]) -> list[Any]:
    """Add tasks that join results, some at a time, until one is left."""
    from dask._task_spec import List, Task, TaskRef

    level = 0
    while len(keys) > 1:
        level += 1
        above = []
        for place in range(0, len(keys), _JOINED):
            above.append((token, level, place))
            parts = List(*map(TaskRef, keys[place : place + _JOINED]))
            graph[above[-1]] = Task(above[-1], clean_call, joined, TaskRef(token), parts)
        keys = above
    return list(keys)


def _needed(graph: Graph, keys: Sequence[Any]) -> Graph:
    """Return the part of a graph that some keys need."""
    found: Graph = {}
    waiting = list(keys)
    while waiting:
        key = waiting.pop()
        if key not in found and key in graph:  # what was persisted is no part of a graph
            found[key] = graph[key]
            waiting.extend(graph[key].dependencies)
    return found


def _groups(graph: Graph, keys: Sequence[Any], shared: set[Any]) -> list[Sequence[Any]]:
    """Cut keys into groups that are computed one after the other; all at once where they have tasks in common."""
    from dask._task_spec import DataNode

    groups = [keys[place : place + _IN_HAND] for place in range(0, len(keys), _IN_HAND)]
    seen: set[Any] = set()
    for group in groups:
        mine = {key for key, node in _needed(graph, group).items() if not isinstance(node, DataNode)} - shared
        if not seen.isdisjoint(mine):
            return [keys]
        seen |= mine
    return groups


_RETURNED = "number long, place long, rows long, piece binary"
"""Pieces of a partition by place; a last row without a piece says how many there are, and of how many rows."""

_ROUND = 2
"""Results at a time for each task that runs at once, so that those of all partitions are never held together."""


class SparkSource(EngineSource):
    """A Spark DataFrame; what Spark itself computes for it fails as Spark says, which is left out of every message."""

    engine = "Spark"

    def __init__(self, frame: Any) -> None:
        super().__init__()
        refuse_repeated(frame.columns)
        if frame.isStreaming:
            raise DataError("source is a streaming DataFrame of Spark, which has no end: expected one that is not")
        self._frame = frame
        self._context = frame.sparkSession.sparkContext
        self._arrow = {field.name: _arrow_type(field.dataType) for field in frame.schema.fields}
        self.columns = tuple(frame.columns)

    @property
    def types(self) -> Mapping[str, object]:
        """Types of Arrow, as which cells reach the workers; None where a type has no counterpart."""
        return self._arrow

    def check(self, *, passes: int = 1, weights: str | None = None) -> None:
        """Refuse secret weights where Spark may run a task twice at once, and what other engines refuse."""
        speculates = str(self._context.getConf().get("spark.speculation", "false")).lower() == "true"
        if speculates and weights not in (None, "public"):
            raise DataError(
                "source: the Spark session has spark.speculation=true, and sums under secret weights are not made "
                "by two attempts at once: start a session with spark.speculation=false"
            )
        super().check(passes=passes, weights=weights)

    def versions(self) -> Sequence[Any]:
        """Ask one worker."""
        found: list[Any] = self._context.parallelize([0], 1).map(lambda _: version()).collect()
        return found

    def results(self, one: Pass[T], packed: bytes) -> tuple[int, Iterator[Result[T]]]:
        """Do a pass: some partitions at a time."""
        with _silent(self._context):
            rows = self._mapped(self.sent(one), partial(_spark_mapped, packed), _RETURNED).rdd
            partitions = rows.getNumPartitions()  # stages before a shuffle run here; the last one is planned then
        return partitions, self._found(rows, partitions, joins=one.join is not None)

    def _mapped(self, names: Sequence[str], task: Callable[..., Any], returned: str) -> Any:
        """Map the columns that are named; cells of a type that Arrow does not have are impossible."""
        sent = [name for name in names if self._arrow[name] is not None]
        frame = self._frame.toDF(*(f"c{place}" for place in range(len(self.columns))))
        places = [f"c{self.columns.index(name)}" for name in sent] or ["true"]
        constants = {name: IMPOSSIBLE for name in names if name not in sent}
        return frame.selectExpr(*places).mapInArrow(partial(task, sent or [""], constants), returned)

    @contextmanager
    def grouped(self, people: GroupedPeople) -> Iterator[EngineSource]:
        """Shuffle the rows by bucket, once a run: they wait on the disks of the workers."""
        from pyspark import StorageLevel

        sql = {"int32": "int", "int64": "long", "float64": "double"}
        returned = ", ".join(f"{name} {sql[kind]}" for name, kind in people.kinds.items())
        with _silent(self._context):
            emitted = self._mapped(people.read, partial(_spark_emitted, cloudpickle.dumps(people)), returned)
            parts = int(self._frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
            kept = emitted.repartition(parts, "bucket").sortWithinPartitions("bucket").persist(StorageLevel.DISK_ONLY)
            found = SparkSource(kept)
        try:
            yield found
        finally:
            kept.unpersist()

    def _found(self, rows: Any, partitions: int, *, joins: bool) -> Iterator[Result[Any]]:
        with _silent(self._context):
            if not joins:
                yield from _results(rows.toLocalIterator(prefetchPartitions=True))
                return
            step = _ROUND * max(int(self._context.defaultParallelism), 1)
            if partitions <= step:
                yield from _results(rows.collect())
                return
            for first in range(0, partitions, step):
                group = list(range(first, min(first + step, partitions)))
                yield from _results(self._context.runJob(rows, list, group))


def _arrow_type(kind: Any) -> pa.DataType | None:
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        return to_arrow_type(kind)
    except Exception:
        return None


# On the workers


@cache
def _settle() -> None:
    """Exempt what was imported from garbage collection: the worker collects after every task."""
    gc.freeze()


def _spark_mapped(
    packed: bytes, names: Sequence[str], constants: Mapping[str, object], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    _settle()
    context = TaskContext.get()
    assert context is not None
    number = context.partitionId()
    named = (pa.RecordBatch.from_arrays(batch.columns, names=list(names)) for batch in batches)
    return cleaned(_packed(number, task_pieces(packed, number, named, constants)))


def _spark_emitted(
    packed: bytes, names: Sequence[str], constants: Mapping[str, object], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    _settle()
    people: GroupedPeople = cloudpickle.loads(packed)
    named = (pa.RecordBatch.from_arrays(batch.columns, names=list(names)) for batch in batches)
    emitted = people.emitted(named, constants)
    return cleaned(pa.RecordBatch.from_arrays(list(map(pa.array, one)), names=list(people.names)) for one in emitted)


def _packed(number: int, pieces: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    place, held = 0, next(pieces)
    for following in pieces:
        yield _row(number, place, None, pickle.dumps(held, protocol=pickle.HIGHEST_PROTOCOL))
        place, held = place + 1, following
    yield _row(number, place, held, None)


def _row(number: int, place: int, rows: int | None, piece: bytes | None) -> pa.RecordBatch:
    cells = {"number": number, "place": place, "rows": rows, "piece": piece}
    kinds = {"number": pa.int64(), "place": pa.int64(), "rows": pa.int64(), "piece": pa.binary()}
    return pa.RecordBatch.from_pylist([cells], schema=pa.schema(kinds))


# On the driver


def _results(rows: Iterable[Any]) -> Iterator[Result[Any]]:
    """Put the rows of each partition together."""
    pieces: list[Any] = []
    for row in rows:
        if row.place != len(pieces):
            raise SourceFailedError("Spark did not give every result of a partition")
        if row.piece is not None:
            pieces.append(pickle.loads(row.piece))
            continue
        yield Result((row.number,), row.rows, tuple(pieces))
        pieces = []
    if pieces:
        raise SourceFailedError("Spark did not give every result of a partition")


_TELLING = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j", "py4j.java_gateway", "py4j.clientserver")
"""Loggers of Python that are told what went wrong in Spark, or what it answers."""

_lock, _passes, _loggers, _jvm = threading.Lock(), list[object](), ExitStack(), ExitStack()
"""Passes under way, and what restores the loggers of Python and the log of the driver's JVM after the last of them."""


@contextmanager
def _silent(context: Any) -> Iterator[None]:
    """Keep Spark's log silent while passes are under way: what it says of a failure has cells in it.

    After a failure the JVM stays silent, for its other tasks end one after the other.
    """
    with _lock:
        if not _passes:
            from pyspark.logger import PySparkLogger

            log4j = context._jvm.org.apache.logging.log4j
            configuration = log4j.LogManager.getContext(False).getConfiguration()
            denying = log4j.core.filter.DenyAllFilter.newBuilder().build()
            configuration.addFilter(denying)
            _jvm.callback(configuration.removeFilter, denying)
            for name in _TELLING:
                logger = PySparkLogger.getLogger(name) if "Context" in name else logging.getLogger(name)
                _loggers.callback(setattr, logger, "disabled", logger.disabled)
                logger.disabled = True
        _passes.append(None)
    try:
        with no_warnings():
            yield
    except BaseException:
        _jvm.pop_all()
        raise
    finally:
        with _lock:
            _passes.pop()
            if not _passes:
                _loggers.close()
                _jvm.close()
