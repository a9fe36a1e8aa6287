"""Tables in memory, and streams of Arrow record batches, as plain cells, whatever their type, encoding and chunks.

Chunks are read one by one: joining them can fail because of a single cell. Where reading a column at once fails, its
cells are read one by one, and one that cannot be read is impossible.
"""

from __future__ import annotations

from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cached_property, partial
from threading import RLock
from typing import TYPE_CHECKING, Any

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from dpinfer.errors import DataError, SourceFailedError
from dpinfer.kernel.sources.base import Slice, Source, Table
from dpinfer.schema.cells import IMPOSSIBLE, Coded, distinct_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from dpinfer.kernel.sources.base import Cells


_TEXTS = (types.is_string, types.is_large_string, types.is_string_view)
_BYTES = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
_VALUES = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, *_TEXTS, *_BYTES)
_DATES = (types.is_date, types.is_timestamp)
_WRAPPERS = (types.is_dictionary, types.is_union, types.is_run_end_encoded)
_EXTENSIONS = frozenset({"arrow.bool8", "arrow.json", "arrow.uuid"})
"""Extension types that stand for a value of Python; of others nothing says what their storage means."""

_MOST_DIGITS = 38
"""Digits of a decimal of 128 bits."""

_EXACT_WHOLE, _EXACT_POWER = 2**53, 22
"""Whole numbers and powers of ten up to these are floats."""

_NOT_A_TIME = np.iinfo(np.int64).min


def arrow_cells(column: pa.ChunkedArray) -> Cells:
    """Read a column; nothing that it holds raises."""
    found: Cells | None = None
    with suppress(Exception):
        if _is(column.type, (types.is_boolean, types.is_integer, types.is_floating)):
            found = _numbers(column)
        elif types.is_decimal(column.type):
            found = _decimals(column)
        elif _is(column.type, _DATES) and not _beyond(column):
            found = column.to_numpy()
        if found is None and _is(column.type, (types.is_boolean, types.is_integer, types.is_dictionary, *_TEXTS)):
            found = _joined([_coded(chunk) for chunk in column.chunks])
    if found is None:
        return np.concatenate(
            [np.empty(0, dtype=object), *(_each_of(chunk, range(len(chunk))) for chunk in column.chunks)]
        )
    return found


def _is(kind: pa.DataType, tests: tuple[Callable[[pa.DataType], bool], ...]) -> bool:
    return any(test(kind) for test in tests)


def _numbers(column: pa.ChunkedArray) -> NDArray[Any] | None:
    """Numbers as an array; None for truth values, and whole numbers that are no floats, with missing cells."""
    if column.null_count and types.is_integer(column.type):
        ends = pc.min_max(column).as_py().values()
        if not all(end is None or abs(end) <= _EXACT_WHOLE for end in ends):
            return None
    elif column.null_count and not types.is_floating(column.type):
        return None
    values: NDArray[Any] = column.to_numpy()
    return values if values.dtype.kind in "biuf" else None


def _decimals(column: pa.ChunkedArray) -> NDArray[np.float64] | None:
    """Decimals as the nearest floats; None where one has more digits than a float holds.

    A whole number of at most 2**53 and a power of ten up to 10**22 are floats, so that their quotient is rounded once:
    to the float nearest to the decimal, which reading it alone gives, too.
    """
    scale = column.type.scale
    if not 0 <= scale <= _EXACT_POWER:
        return None
    parts = [np.zeros(0)]
    for piece in column.chunks:
        chunk = piece if types.is_decimal128(piece.type) else piece.cast(pa.decimal128(_MOST_DIGITS, scale))
        if not len(chunk):
            continue
        words = np.frombuffer(chunk.buffers()[1], dtype="<i8").reshape(-1, 2)[chunk.offset : chunk.offset + len(chunk)]
        null = chunk.is_null().to_numpy(zero_copy_only=False)
        low, high = words[:, 0], words[:, 1]
        if not (null | ((high == low >> 63) & (np.abs(low) <= _EXACT_WHOLE))).all():
            return None
        parts.append(np.where(null, np.nan, low / 10.0**scale))
    return np.concatenate(parts)


def _beyond(column: pa.ChunkedArray) -> bool:
    """Whether a date or time that is not missing has the number that stands for a missing one in numpy."""
    kind = pa.int32() if types.is_date32(column.type) else pa.int64()
    return kind == pa.int64() and bool(pc.any(pc.equal(column.cast(kind), _NOT_A_TIME)).as_py())


def _joined(parts: list[Coded]) -> Coded:
    """Put the dictionaries of chunks behind each other, whatever they share."""
    if len(parts) == 1:
        return parts[0]
    codes, values = [np.zeros(0, dtype=np.int64)], list[object]()
    for part in parts:
        own = part.codes.astype(np.int64)
        outside = (own < 0) | (own >= len(part.values))
        codes.append(np.where(outside, -1, own + len(values)))
        values.extend(part.values)
    return Coded(np.concatenate(codes), values)


def _coded(chunk: pa.Array) -> Coded:
    encoded = chunk if types.is_dictionary(chunk.type) else chunk.dictionary_encode()
    indices, dictionary = encoded.indices, encoded.dictionary
    if indices.null_count:
        codes = indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        codes[indices.is_null().to_numpy(zero_copy_only=False)] = -1
    else:
        codes = indices.to_numpy(zero_copy_only=False)
    codes, used = used_codes(codes, len(dictionary))
    return Coded(codes, _values(dictionary) if used is None else list(_each_of(dictionary, used)))


def used_codes(codes: NDArray[Any], size: int) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
    """Keep what the codes (m,) use of a dictionary that is larger than they are.

    The places of the dictionary that are kept are None for all; a code outside of it stays outside.
    """
    if size <= len(codes):
        return codes, None
    known = (codes >= 0) & (codes < size)
    inside = np.full(len(codes), -1, dtype=np.int64)
    used, inside[known] = np.unique(codes[known].astype(np.int64), return_inverse=True)
    return inside, used


def _values(array: pa.Array) -> list[object]:
    """Return the cells of a dictionary."""
    if _is(array.type, _TEXTS) or (types.is_integer(array.type) and not array.null_count):
        with suppress(Exception):  # broken text
            values: list[object] = array.to_numpy(zero_copy_only=False).tolist()
            return values
    return list(_each_of(array, range(len(array))))


def _each_of(array: pa.Array, places: Iterable[Any]) -> NDArray[Any]:
    """Return cells as Python has them."""
    return _one_by_one(lambda place: _of_scalar(array[int(place)]), places)


def _one_by_one(read: Callable[[Any], object], places: Iterable[Any]) -> NDArray[Any]:
    """Return cells where reading them together fails: one that cannot be read (broken text) is impossible."""
    chosen = list(places)
    cells = np.empty(len(chosen), dtype=object)
    for number, place in enumerate(chosen):
        try:
            cells[number] = read(place)
        except Exception:
            cells[number] = IMPOSSIBLE
    return cells


def _of_scalar(scalar: pa.Scalar | None) -> object:
    if scalar is None or not scalar.is_valid:
        return None
    kind = scalar.type
    if _is(kind, _VALUES) or (isinstance(kind, pa.BaseExtensionType) and kind.extension_name in _EXTENSIONS):
        value: object = scalar.as_py()
        return value
    if _is(kind, _DATES):
        unit = "D" if types.is_date32(kind) else "ms" if types.is_date64(kind) else kind.unit
        return IMPOSSIBLE if scalar.value == _NOT_A_TIME else np.array(scalar.value, dtype=f"M8[{unit}]")[()]
    return _of_scalar(scalar.value) if _is(kind, _WRAPPERS) else IMPOSSIBLE


class PandasSource(Table):
    """A pandas frame; numpy columns are read without a copy."""

    def __init__(self, frame: pd.DataFrame) -> None:
        refuse_repeated([str(name) for name in frame.columns])
        frame = frame.copy(deep=False)  # what is changed in the other one later does not reach this one
        self._frame = frame
        self.columns = tuple(str(name) for name in frame.columns)
        self.rows = len(frame)
        self._positions = {str(name): place for place, name in enumerate(frame.columns)}

    @property
    def types(self) -> Mapping[str, object]:
        """The dtypes."""
        return {name: self._frame.dtypes.iloc[place] for name, place in self._positions.items()}

    @cached_property
    def _plain(self) -> dict[str, NDArray[Any]]:
        """Columns kept as numpy arrays, as views."""
        columns = {name: self._frame.iloc[:, place] for name, place in self._positions.items()}
        return {name: column.to_numpy() for name, column in columns.items() if isinstance(column.dtype, np.dtype)}

    def read(self, names: Sequence[str], start: int, stop: int) -> Mapping[str, Cells]:
        """Return the cells of some columns for rows ``start`` to ``stop``."""
        return {
            name: self._plain[name][start:stop]
            if name in self._plain
            else _pandas_cells(self._frame.iloc[start:stop, self._positions[name]])
            for name in names
        }


def _pandas_cells(series: pd.Series[Any]) -> Cells:
    dtype = series.dtype
    try:
        if isinstance(dtype, pd.CategoricalDtype):
            codes, used = used_codes(np.asarray(series.array.codes), len(dtype.categories))
            return Coded(codes, _levels(dtype.categories if used is None else dtype.categories.take(used)))
        if isinstance(dtype, pd.ArrowDtype):
            return arrow_cells(pa.chunked_array(series.array.__arrow_array__()))
        cells = series.to_numpy(dtype=object)
        return distinct_texts(cells) if isinstance(dtype, pd.StringDtype) else cells
    except Exception:
        return _one_by_one(series.array.__getitem__, range(len(series)))


def _levels(categories: pd.Index[Any]) -> list[object]:
    if not isinstance(categories.dtype, pd.ArrowDtype):
        return list(categories)
    cells = arrow_cells(pa.chunked_array(categories.array.__arrow_array__()))
    if not isinstance(cells, Coded):
        return list(cells)
    values = [*cells.values, None]  # noqa: PD011  (no pandas object)
    return [values[place] for place in cells.positions.tolist()]


class ArrowSource(Table):
    """Columns of Arrow, or of Python objects, of one length."""

    def __init__(self, columns: Mapping[str, pa.ChunkedArray | NDArray[Any]], rows: int) -> None:
        self._columns = columns
        self.columns = tuple(columns)
        self.rows = rows

    @property
    def types(self) -> Mapping[str, object]:
        """Types of Arrow, of Python objects that of numpy."""
        return {
            name: column.dtype if isinstance(column, np.ndarray) else column.type
            for name, column in self._columns.items()
        }

    def read(self, names: Sequence[str], start: int, stop: int) -> Mapping[str, Cells]:
        """Return the cells of some columns for rows ``start`` to ``stop``."""
        found: dict[str, Cells] = {}
        for name in names:
            column: Any = self._columns[name]
            plain = isinstance(column, np.ndarray)
            found[name] = column[start:stop] if plain else arrow_cells(column.slice(start, stop - start))
        return found


def _exported(frame: nw.DataFrame[Any], name: str) -> pa.ChunkedArray | NDArray[Any]:
    """Give a column of another library as Arrow; as objects where its type has no counterpart there."""
    if frame.schema[name] != nw.Object:  # these would be given as addresses in memory
        with suppress(Exception):
            return frame.select(name).to_arrow().column(0)
    column = frame[name]
    return _one_by_one(column.__getitem__, range(len(column)))


def open_table(source: object) -> Table:
    """Recognise a table in memory; `DataError` if it is none, or has repeated column names."""
    table = known_table(source)
    if table is None:
        raise DataError(
            f"source is a {type(source).__name__}: expected a pandas or Polars DataFrame or a pyarrow Table"
        )
    return table


def known_table(source: object) -> Table | None:
    """Recognise a table in memory, None if it is none; `DataError` if it has repeated column names."""
    if isinstance(source, pd.DataFrame):
        return PandasSource(source)
    if isinstance(source, pa.Table):
        refuse_repeated(source.column_names)
        return ArrowSource(dict(zip(source.column_names, source.columns, strict=True)), source.num_rows)
    try:
        frame = nw.from_native(source, eager_only=True)
    except TypeError:
        return None
    native = nw.to_native(frame)
    if isinstance(native, pd.DataFrame | pa.Table):
        return known_table(native)
    if frame.implementation.is_polars():
        return ArrowSource({name: _exported(frame, name) for name in frame.columns}, len(frame))
    return PandasSource(frame.to_pandas())


def refuse_repeated(names: Sequence[str]) -> None:
    """Refuse columns of one name."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(f"the source has several columns named {', '.join(map(repr, repeated))}; rename them")


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
