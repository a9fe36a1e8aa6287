"""Rows that come as Arrow record batches, one after the other, in this process."""

from __future__ import annotations

from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpinfer.errors import DataError, SourceFailedError
from dpinfer.kernel.arrow_cells import arrow_cells
from dpinfer.kernel.sources.base import Slice, Source
from dpinfer.kernel.sources.frames import open_table, refuse_repeated
from dpinfer.schema.cells import Coded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from dpinfer.kernel.sources.base import Cells

__all__ = ["OnceSource", "StreamSource", "batch_cells", "refuse_weights", "slices_of", "types_of"]


def batch_cells(
    batch: pa.RecordBatch, names: Sequence[str], constants: Mapping[str, object] | None = None
) -> dict[str, Cells]:
    """Return cells of columns of a record batch; missing ones of a column that it lacks, but for constants."""
    found: dict[str, Cells] = {}
    for name in names:
        place = batch.schema.get_field_index(name)
        if place >= 0:
            found[name] = arrow_cells(pa.chunked_array([batch.column(place)]))
        else:
            one = (constants or {}).get(name)
            found[name] = Coded(np.full(batch.num_rows, -1 if one is None else 0), [one])
    return found


def slices_of(
    batches: Iterable[Any],
    names: Sequence[str],
    most: int,
    *,
    start: int = 0,
    constants: Mapping[str, object] | None = None,
) -> Iterator[Slice]:
    """Cut record batches, or tables in memory, into slices of at most ``most`` rows.

    They have addresses from ``start`` on. ``constants`` are cells of columns that a record batch lacks.
    """
    for batch in batches:
        if not isinstance(batch, pa.RecordBatch):
            for part in open_table(batch).batches(names, most):
                yield replace(part, start=start + part.start)
            start += len(batch)
            continue
        for first in range(0, batch.num_rows, most):
            part = batch.slice(first, most)
            yield Slice(start + first, part.num_rows, partial(batch_cells, part, names, constants))
        start += batch.num_rows


def types_of(schema: pa.Schema) -> dict[str, object]:
    """Return the types of columns by name."""
    return dict(zip(schema.names, schema.types, strict=True))


def refuse_weights(weights: str | None) -> None:
    """Refuse weights by the place of a row where rows have no place that anybody else could tell."""
    if weights == "public":
        raise DataError(
            "source: public weights go by the position of a row, and these rows have none that is fixed. "
            'Use weights="paired" or "double_or_nothing", or a table in memory'
        )


class StreamSource(Source):
    """Record batches that ``read`` gives anew for every pass.

    ``read(names)`` returns batches with these columns at least, as an iterable that may have a ``close``. ``rows``
    counts them without reading a cell, where the source can. With a ``lock`` one pass is done at a time.
    """

    def __init__(
        self,
        columns: Sequence[str],
        read: Callable[[Sequence[str]], Iterable[pa.RecordBatch]],
        types: Mapping[str, object] | None = None,
        *,
        rows: Callable[[], int] | None = None,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        refuse_repeated(columns)
        self.columns = tuple(columns)
        self._read = read
        self._types = types
        self._rows = rows
        self._lock = nullcontext() if lock is None else lock

    @property
    def types(self) -> Mapping[str, object]:
        """Types of Arrow."""
        return super().types if self._types is None else self._types

    def batches(self, names: Sequence[str], most: int) -> Iterator[Slice]:
        """Give all rows as batches of at most ``most`` rows."""
        with self._lock:
            batches: Any = self._read(tuple(names) or self.columns[:1])  # without a column there would be no rows
            with closing(batches) if hasattr(batches, "close") else nullcontext():
                yield from slices_of(batches, names, most)

    def count(self) -> int:
        """Return the number of rows, where it is public."""
        if self._rows is None:
            return super().count()
        with self._lock:
            return int(self._rows())

    @contextmanager
    def opened(self) -> Iterator[Source]:
        """Give what one run reads: a pass with another number of rows than the one before fails."""
        yield _SameRows(self)

    def check(self, *, passes: int = 1, weights: str | None = None) -> None:  # noqa: ARG002
        """Refuse weights by the position of a row."""
        refuse_weights(weights)


class _SameRows(Source):
    """A source of which every pass has the same number of rows, or fails."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.columns = source.columns
        self._rows: int | None = None

    def batches(self, names: Sequence[str], most: int) -> Iterator[Slice]:
        """Give all rows as batches of at most ``most`` rows."""
        rows = 0
        for batch in self._source.batches(names, most):
            rows += batch.rows
            yield batch
        if self._rows not in (None, rows):
            raise SourceFailedError("the source gave other rows in another pass")
        self._rows = rows


class OnceSource(StreamSource):
    """Record batches that can be read once."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        super().__init__(reader.schema.names, self._take, types_of(reader.schema))
        self._reader: pa.RecordBatchReader | None = reader
        self.turn = RLock()

    def _take(self, _: Sequence[str]) -> Any:
        if self._reader is None:
            raise SourceFailedError("the source can be read once, and was")
        reader, self._reader = self._reader, None
        return reader

    def count(self) -> int:
        """Refuse to count rows that could not be read afterwards."""
        raise DataError(
            "source: a stream that is read once does not tell its number of rows, which is public under replace_one: "
            "give a table, a file or a query, or protect adding and removing a row"
        )

    def check(self, *, passes: int = 1, weights: str | None = None) -> None:
        """Refuse a second pass."""
        super().check(passes=passes, weights=weights)
        if self._reader is None:
            raise DataError("source: this stream can be read once, and was: give a new one, or a table, file or query")
        if passes > 1:
            raise DataError(
                f"source: the question takes {passes} passes over the rows, and a stream can be read once: "
                "give a table, a file or a query, or a question of one stage"
            )
