"""Tables in memory, streams of Arrow record batches, and files of Parquet and CSV larger than memory, as plain cells.

Cells are the same whatever their type, encoding and chunks. Chunks are read one by one: joining them can fail because
of a single cell. Where reading a column at once fails, its cells are read one by one, and one that cannot be read is
impossible.
"""

from __future__ import annotations

import codecs
import csv
import os
import re
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from glob import glob, has_magic
from io import StringIO
from itertools import chain
from operator import attrgetter
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from pyarrow import types
from pyarrow.fs import LocalFileSystem

from dpinfer.errors import DataError, SourceFailedError, type_of
from dpinfer.kernel.sources.base import Pass, Slice, Source, Table
from dpinfer.schema.cells import IMPOSSIBLE, Coded, distinct_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from dpinfer.kernel.rows.base import Cells


T = TypeVar("T")

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


class MemoryTable(Table):
    """Columns in memory, of one length: of pandas, of Arrow or of numpy, which are read without a copy."""

    def __init__(self, columns: Mapping[str, pd.Series[Any] | pa.ChunkedArray | NDArray[Any]], rows: int) -> None:
        self._columns = columns
        self.columns = tuple(columns)
        self.rows = rows

    @property
    def types(self) -> Mapping[str, object]:
        """Types of Arrow, and dtypes."""
        columns = self._columns.items()
        return {name: one.type if isinstance(one, pa.ChunkedArray) else one.dtype for name, one in columns}

    def read(self, names: Sequence[str], start: int, stop: int) -> Mapping[str, Cells]:
        """Return the cells of some columns for rows ``start`` to ``stop``."""
        return {name: _cells_of(self._columns[name], start, stop) for name in names}


def _cells_of(column: Any, start: int, stop: int) -> Cells:
    if isinstance(column, pa.ChunkedArray):
        return arrow_cells(column.slice(start, stop - start))
    if isinstance(column, np.ndarray) or isinstance(column.dtype, np.dtype):
        cells: NDArray[Any] = (column if isinstance(column, np.ndarray) else column.to_numpy())[start:stop]
        return cells
    return _pandas_cells(column.iloc[start:stop])


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
        refuse_repeated([str(name) for name in source.columns])
        own = source.copy(deep=False)  # what is changed in the frame later does not reach these columns
        held = {str(name): own.iloc[:, place] for place, name in enumerate(own.columns)}
        return MemoryTable(held, len(source))
    if isinstance(source, pa.Table):
        refuse_repeated(source.column_names)
        return MemoryTable(dict(zip(source.column_names, source.columns, strict=True)), source.num_rows)
    try:
        frame = nw.from_native(source, eager_only=True)
    except TypeError:
        return None
    native = nw.to_native(frame)
    if isinstance(native, pd.DataFrame | pa.Table):
        return known_table(native)
    if frame.implementation.is_polars():
        return MemoryTable({name: _exported(frame, name) for name in frame.columns}, len(frame))
    return known_table(frame.to_pandas())


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
        yield _OneRun(self)

    def check(self, *, passes: int = 1, weights: str | None = None) -> None:  # noqa: ARG002
        """Refuse weights by the position of a row."""
        refuse_weights(weights)


class _OneRun(Source):
    """What one run reads: rows that are the same in every pass, of files that do not change, or it fails."""

    def __init__(self, source: Source, files: Files | None = None) -> None:
        self._source, self._files = source, files
        self.columns, self.ahead = source.columns, source.ahead
        self._rows: int | None = None

    def parts(self, names: Sequence[str], most: int) -> Iterator[Iterable[Slice]]:
        """Give all rows in parts."""
        self._look()
        yield from self._source.parts(names, most)

    def pieces(self, one: Pass[T]) -> Iterator[T]:
        """Do one pass over all rows, then look at the files, and at how many rows there were."""
        rows: list[int] = []

        def each(cells: Mapping[str, Cells], part: Slice) -> T:
            rows.append(part.rows)
            return one.each(cells, part)

        try:
            yield from super().pieces(replace(one, each=each))
        finally:
            self._look()
        self._count(sum(rows))

    def batches(self, names: Sequence[str], most: int) -> Iterator[Slice]:
        """Give all rows as batches of at most ``most`` rows."""
        rows = 0
        for batch in chain.from_iterable(self.parts(names, most)):
            rows += batch.rows
            yield batch
        self._look()
        self._count(rows)

    def _count(self, rows: int) -> None:
        if self._rows not in (None, rows):
            raise SourceFailedError("the source gave other rows in another pass")
        self._rows = rows

    def _look(self) -> None:
        if self._files is not None and self._files.changed():
            raise SourceFailedError("a file of the source changed or disappeared")


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


# Files

_PARQUET = (".parquet", ".pq", ".parq")
_CSV = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst")
_GUESSED = ("csv", "json")
_APART = 2**40
"""Between addresses of two parts: more rows than a row group has."""

_BLOCK = 2**23
"""Bytes of a CSV file that are parsed at once, spelled out (see `_ValidText`: up to six for one). A longer row
ends the run."""


def open_path(path: str | os.PathLike[str]) -> Source:
    """Open a file, a folder or a glob of Parquet or CSV files on this machine; `DataError` if there is none."""
    root = os.fspath(path)
    if not isinstance(root, str):
        raise DataError(f"source is {type_of(path)}: expected a path as text")
    files = _listed(root)
    parquet = [one for one in files if one.lower().endswith(_PARQUET)]
    texts = [one for one in files if one.lower().endswith(_CSV)]
    if not files or (parquet and texts) or len(parquet) + len(texts) < len(files):
        right = f"Parquet files ({', '.join(_PARQUET)}) or CSV files ({', '.join(_CSV)}), and one kind of them"
        raise DataError(f"source={root!r}: found {'no file' if not files else 'others'}, expected {right}")
    options = {"partitioning": "hive", "partition_base_dir": root} if Path(root).is_dir() else {}
    try:
        if texts:
            return CsvSource(texts)
        return DatasetSource(pads.dataset(parquet, format="parquet", **options), Files(parquet))
    except (OSError, pa.ArrowException, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"source={root!r}: the first file cannot be read ({type(error).__name__})") from None


def _listed(root: str) -> list[str]:
    """Return the files that a path stands for, in the order of their names; of a folder all, hidden ones left out."""
    if has_magic(root) and not Path(root).exists():
        return sorted(one for one in glob(root, recursive=True) if Path(one).is_file())
    if not Path(root).is_dir():
        return [root] if Path(root).is_file() else []
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [one for one in folders if not one.startswith((".", "_"))]
        found += [str(Path(folder, name)) for name in names if not name.startswith((".", "_"))]
    return sorted(found)


class Files:
    """Files as they were when they were listed."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        self._state = self._look()

    def _look(self) -> list[tuple[int, ...] | None]:
        found: list[tuple[int, ...] | None] = []
        for path in self.paths:
            try:
                one = os.stat(path)
                found.append((one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns))
            except OSError:
                found.append(None)
        return found

    def changed(self) -> bool:
        """Whether a file is another one by now, or gone."""
        return self._look() != self._state


class _FromFiles(Source):
    """Rows of files, which are not to change while they are open."""

    _files: Files

    def check(self, *, passes: int = 1, weights: str | None = None) -> None:  # noqa: ARG002
        """Refuse files that have changed, and weights by the position of a row."""
        refuse_weights(weights)
        if self._files.changed():
            raise DataError(
                "source: a file has changed or is gone since the data were opened: "
                "open them anew, with another version="
            )

    @contextmanager
    def opened(self) -> Iterator[Source]:
        """Give what one run reads; files that change meanwhile end it."""
        yield _OneRun(self, self._files)

    def find_in_others(self, names: Iterable[str], others: Iterable[Callable[[], Iterable[str]]]) -> None:
        """Look for columns that the first file lacks in what tells the columns of others."""
        wanted = set(names) - set(self.columns)
        for columns in others:
            if not wanted:
                return
            found = [name for name in columns() if name in wanted]
            self.columns += tuple(found)
            wanted.difference_update(found)


@dataclass(frozen=True)
class _Part:
    """A row group of a Parquet file; or a fragment of another format, whose ``group`` is None."""

    fragment: Any
    names: Sequence[str]
    most: int
    start: int
    group: int | None
    metadata: Any = None

    def __iter__(self) -> Iterator[Slice]:
        keys = pads.get_partition_keys(self.fragment.partition_expression)
        constants = {name: value.as_py() if isinstance(value, pa.Scalar) else value for name, value in keys.items()}
        return slices_of(self._batches(), self.names, self.most, start=self.start, constants=constants)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self.group is None:
            held = self.fragment.physical_schema
            mine = [name for name in self.names if name in held.names]
            yield from self.fragment.to_batches(schema=held, columns=mine, batch_size=self.most, use_threads=False)
            return
        schema = self.fragment.physical_schema
        texts = [name for name in self.names if name in schema.names and pa.types.is_string(schema.field(name).type)]
        with _file_of(self.fragment, self.metadata, texts) as file:
            held = file.schema_arrow.names
            mine = [name for name in self.names if name in held]
            if mine:
                rows = {"batch_size": self.most, "row_groups": [self.group]}
                yield from file.iter_batches(**rows, columns=mine, use_threads=False)
                return
            left = file.metadata.row_group(self.group).num_rows  # a file that lacks all of them has rows nevertheless
            for first in range(0, left, self.most):
                yield pa.record_batch({"": pa.nulls(min(self.most, left - first))})


def _file_of(fragment: Any, metadata: Any = None, texts: Sequence[str] = ()) -> pq.ParquetFile:
    """Open a file; columns of text are given as the dictionaries that they are stored as."""
    opened = fragment.path if isinstance(fragment.filesystem, LocalFileSystem) else fragment.open()
    # Whole row groups would wait in memory otherwise.
    return pq.ParquetFile(opened, metadata=metadata, read_dictionary=list(texts), pre_buffer=False)


def _groups_of(fragment: Any) -> tuple[Any, Sequence[int]]:
    """Return the footer of a file, and which of its row groups a fragment stands for."""
    with _file_of(fragment) as file:
        metadata = file.metadata
    chosen = [one.id for one in fragment.row_groups]
    return metadata, chosen or range(metadata.num_row_groups)


class DatasetSource(_FromFiles):
    """An Arrow dataset: Parquet row group by row group, other formats fragment by fragment.

    A column that a file lacks is missing there, and one that it stores in another type is read from this type: no cell
    is cast to the type that another file has.
    """

    ahead = 1  # parts are large

    def __init__(self, dataset: pads.Dataset, files: Files | None = None) -> None:
        refuse_repeated(dataset.schema.names)
        self._dataset = dataset
        local = isinstance(getattr(dataset, "filesystem", None), LocalFileSystem)
        self._files = files or Files(dataset.files if local else [])
        self.columns = tuple(dataset.schema.names)

    @property
    def types(self) -> dict[str, object]:
        """Types of Arrow, of the first file."""
        return dict(zip(self._dataset.schema.names, self._dataset.schema.types, strict=True))

    def find(self, names: Iterable[str]) -> None:
        """Look for columns that the first file lacks in the footers of others."""
        fragments = self._dataset.get_fragments()
        self.find_in_others(names, (partial(attrgetter("physical_schema.names"), one) for one in fragments))

    def parts(self, names: Sequence[str], most: int) -> Iterator[Iterable[Slice]]:
        """Give every row group, or fragment, as a part."""
        place = 0
        for fragment in self._dataset.get_fragments():
            part = partial(_Part, fragment, names, most)
            if not isinstance(fragment, pads.ParquetFileFragment):
                yield part(place * _APART, None)
                place += 1
                continue
            metadata, groups = _groups_of(fragment)
            for group in groups:
                yield part(place * _APART, group, metadata)
                place += 1

    def batches(self, names: Sequence[str], most: int) -> Iterator[Slice]:
        """Give all rows as batches of at most ``most`` rows."""
        return chain.from_iterable(self.parts(names, most))

    def count(self) -> int:
        """Return the number of rows, where it is public."""
        rows = 0
        for fragment in self._dataset.get_fragments():
            if isinstance(fragment, pads.ParquetFileFragment):
                metadata, groups = _groups_of(fragment)
                rows += sum(metadata.row_group(group).num_rows for group in groups)
            else:
                rows += fragment.count_rows()
        return rows


def open_dataset(dataset: pads.Dataset) -> Source:
    """Open an Arrow dataset; one with a filter is read in one stream."""
    if _is_guessed(dataset):
        raise DataError(
            "source is a dataset of text files, whose types Arrow guesses from rows, so that one row would change how "
            "others are read: expected one of Parquet, Feather or ORC, or the path of CSV files"
        )
    try:
        next(iter(dataset.get_fragments()), None)
    except ValueError:  # filtered
        return StreamSource(dataset.schema.names, partial(_scanned, dataset))
    return DatasetSource(dataset)


def _is_guessed(dataset: pads.Dataset) -> bool:
    parts = getattr(dataset, "children", None)  # of a union
    if parts is not None:
        return any(map(_is_guessed, parts))
    return getattr(getattr(dataset, "format", None), "default_extname", None) in _GUESSED


def _scanned(dataset: pads.Dataset, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    few = {"batch_readahead": 1, "fragment_readahead": 1}
    return dataset.scanner(columns=list(names), **few).to_batches()  # type: ignore[no-any-return]


class CsvSource(_FromFiles, StreamSource):
    """CSV files with a header. Every cell is read as text, so that no cell decides how others are read.

    A line with more or fewer cells than the header is no row.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(_header(paths[0]), self._texts)
        self._files = Files(paths)

    def find(self, names: Iterable[str]) -> None:
        """Look for columns that the first file lacks in the headers of others."""
        self.find_in_others(names, (partial(_header, path) for path in self._files.paths))

    def _texts(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for path in self._files.paths:
            yield from _texts_of(path, names)


def _header(path: str) -> list[str]:
    return _header_of(path)[0]


def _header_of(path: str) -> tuple[list[str], str]:
    """Return the names in the first record, and the beginning of what comes after it, which is not parsed."""
    with pa.input_stream(path, compression="detect") as stream:
        rest = StringIO(stream.read(_BLOCK).decode("utf-8-sig", "replace"), newline="")
    names = next(csv.reader(iter(rest.readline, "")), [])
    return names, rest.read()


_ESCAPE = "\U0010fffd"
"""What stands before a byte that is no text, and before itself."""


class _ValidText:
    """A stream in which bytes that are no UTF-8 are spelled out, one to one: at them a line of too many fields fails.

    Each is spelled by itself, whatever stands in other lines, and different bytes stay different.
    """

    closed = False

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream, self._ready = stream, b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def read(self, size: int = _BLOCK) -> bytes:
        """Return as many bytes at most, none at the end."""
        while not self._ready:
            chunk = self._stream.read(_BLOCK)
            text = self._decoder.decode(chunk, final=not chunk)
            if not text.isascii():
                text = text.replace(_ESCAPE, 2 * _ESCAPE)
                text = re.sub("[\udc80-\udcff]", lambda found: _ESCAPE + chr(ord(found[0]) - 0xDC00), text)
            self._ready = text.encode()
            if not chunk:
                break
        found, self._ready = self._ready[:size], self._ready[size:]
        return found

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def _texts_of(path: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read columns of a file as text."""
    if not _header_of(path)[1]:
        return  # a header alone, for which the parser fails
    reader = pacsv.open_csv(
        _ValidText(pa.input_stream(path, compression="detect")),
        read_options=pacsv.ReadOptions(block_size=_BLOCK),
        parse_options=pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda _: "skip"),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.binary()), include_columns=list(names), include_missing_columns=True
        ),
    )
    with reader:
        for batch in reader:
            columns = [pa.Array.from_buffers(pa.string(), len(one), one.buffers(), offset=one.offset) for one in batch]
            yield pa.record_batch(columns, names=list(names))
