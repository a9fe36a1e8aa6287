"""Files of Parquet and CSV, and Arrow datasets: larger than memory, read row group by row group."""

from __future__ import annotations

import csv
import os
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from glob import glob, has_magic
from io import StringIO
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from dpinfer.errors import DataError, SourceFailedError, type_of
from dpinfer.kernel.sources.base import Slice, Source
from dpinfer.kernel.sources.reader import StreamSource, refuse_repeated, refuse_weights, slices_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


_PARQUET = (".parquet", ".pq", ".parq")
_CSV = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst")
_GUESSED = ("csv", "json")
_APART = 2**40
"""Between addresses of two parts: more rows than a row group has."""

_BLOCK = 2**23
"""Bytes of a CSV file that are parsed at once. A longer row ends the run."""


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
        yield _Unchanged(self, self._files)

    def find_in_others(self, names: Iterable[str], others: Iterable[Callable[[], Iterable[str]]]) -> None:
        """Look for columns that the first file lacks in what tells the columns of others."""
        wanted = set(names) - set(self.columns)
        for columns in others:
            if not wanted:
                return
            found = [name for name in columns() if name in wanted]
            self.columns += tuple(found)
            wanted.difference_update(found)


class _Unchanged(Source):
    """A source of whose files none changes during a pass or between two."""

    def __init__(self, source: Source, files: Files) -> None:
        self._source, self._files = source, files
        self.columns, self.ahead = source.columns, source.ahead

    def parts(self, names: Sequence[str], most: int) -> Iterator[Iterable[Slice]]:
        """Give all rows in parts, and look at the files before and after."""
        self._look()
        yield from self._source.parts(names, most)

    def pieces(self, one: Any) -> Iterator[Any]:
        """Do one pass over all rows, and look at the files when it is done."""
        try:
            yield from super().pieces(one)
        finally:
            self._look()

    def batches(self, names: Sequence[str], most: int) -> Iterator[Slice]:
        """Give all rows as batches of at most ``most`` rows."""
        yield from chain.from_iterable(self.parts(names, most))
        self._look()

    def _look(self) -> None:
        if self._files.changed():
            raise SourceFailedError("a file of the source changed or disappeared")


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


def _texts_of(path: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read columns of a file as text, which need not be valid."""
    if not _header_of(path)[1]:
        return  # a header alone, for which the parser fails
    reader = pacsv.open_csv(
        path,
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
