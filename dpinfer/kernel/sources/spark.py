"""Spark DataFrames: `mapInArrow` maps each partition in a Python worker beside it."""

from __future__ import annotations

import gc
import logging
import pickle
import threading
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import cloudpickle
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.logger import PySparkLogger
from pyspark.sql.pandas.types import to_arrow_type

from dpinfer.errors import DataError, SourceFailedError
from dpinfer.kernel.quiet import quiet
from dpinfer.kernel.sources.engine import EngineSource, GroupedPeople, Result, cleaned, task_pieces, version
from dpinfer.kernel.sources.frames import refuse_repeated
from dpinfer.schema.cells import IMPOSSIBLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from dpinfer.kernel.sources.base import Pass

__all__ = ["SparkSource"]

T = TypeVar("T")

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
        found: list[Any] = self._context.parallelize([0], 1).map(_version_there).collect()
        return found

    def results(self, one: Pass[T], packed: bytes) -> tuple[int, Iterator[Result[T]]]:
        """Do a pass: some partitions at a time."""
        with _silent(self._context):
            rows = self._mapped(self.sent(one), partial(_mapped, packed), _RETURNED).rdd
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
        returned = ", ".join(f"{name} {kind}" for name, kind in zip(people.names, _kinds(people), strict=True))
        with _silent(self._context):
            emitted = self._mapped(people.read, partial(_emitted, cloudpickle.dumps(people)), returned)
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
    try:
        return to_arrow_type(kind)
    except Exception:
        return None


# On the workers


def _version_there(_: object) -> tuple[str, tuple[int, int]]:
    return version()


@cache
def _settle() -> None:
    """Exempt what was imported from garbage collection: the worker collects after every task."""
    gc.freeze()


def _mapped(
    packed: bytes, names: Sequence[str], constants: Mapping[str, object], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext  # noqa: PLC0415  (of the worker)

    _settle()
    context = TaskContext.get()
    assert context is not None
    number = context.partitionId()
    named = (pa.RecordBatch.from_arrays(batch.columns, names=list(names)) for batch in batches)
    return cleaned(_packed(number, task_pieces(packed, number, named, constants)))


def _kinds(people: GroupedPeople) -> Iterator[str]:
    yield from ("int", "long", "long", *("double" for _ in people.columns))


def _emitted(
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
    columns = {"number": number, "place": place, "rows": rows, "piece": piece}
    kinds = {"number": pa.int64(), "place": pa.int64(), "rows": pa.int64(), "piece": pa.binary()}
    return pa.RecordBatch.from_pydict({name: pa.array([cell], kinds[name]) for name, cell in columns.items()})


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


class _Silence:
    """Keeps Spark's log silent while passes are under way: what it says of a failure has cells in it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._failed = False
        self._denied: tuple[Any, Any] | None = None
        self._loggers: list[tuple[logging.Logger, bool]] = []

    def enter(self, context: Any) -> None:
        """Deny everything to the log of the driver's JVM, and to the loggers of Python that are told the same."""
        with self._lock:
            if not self._users:
                log4j = context._jvm.org.apache.logging.log4j
                configuration = log4j.LogManager.getContext(False).getConfiguration()
                denying = log4j.core.filter.DenyAllFilter.newBuilder().build()
                configuration.addFilter(denying)
                self._denied, self._failed = (configuration, denying), False
                for name in _TELLING:
                    found = PySparkLogger.getLogger(name) if "Context" in name else logging.getLogger(name)
                    self._loggers.append((found, found.disabled))
                    found.disabled = True
            self._users += 1

    def leave(self, *, failed: bool) -> None:
        """Undo that; but after a failure the JVM stays silent, for its other tasks end one after the other."""
        with self._lock:
            self._users -= 1
            self._failed |= failed
            if self._users:
                return
            while self._loggers:
                logger, before = self._loggers.pop()
                logger.disabled = before
            if self._denied is not None and not self._failed:
                configuration, denying = self._denied
                configuration.removeFilter(denying)
            self._denied = None


_silence = _Silence()
_TELLING = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j", "py4j.java_gateway", "py4j.clientserver")
"""Loggers of Python that are told what went wrong in Spark, or what it answers."""


@contextmanager
def _silent(context: Any) -> Iterator[None]:
    _silence.enter(context)
    failed = True
    try:
        with quiet():
            yield
        failed = False
    finally:
        _silence.leave(failed=failed)
