"""People with several rows: whose rows they are, and which of them count.

Of each person the m rows of smallest hash are kept. The hash is fixed and public, a function of the person's id, of
what the row holds in the declared columns, and of how many rows of the person hold the same. So what is kept of a
person depends on the rows of this person alone; not on other people, nor on the order of rows, nor on how a column is
stored.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import struct
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import pairwise
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from dpinfer.errors import DataError
from dpinfer.kernel.sources.base import Pass, Slice, Source, Table
from dpinfer.schema.cells import PLAIN_NUMBERS, Coded, Meant, complex_to_numbers, read_cell, truth_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import DTypeLike, NDArray

    from dpinfer.kernel.rows.base import Cells
    from dpinfer.schema.schema import People, Schema

    Hashes = NDArray[np.uint64]
    Codes = NDArray[np.int64]
    Key = int | float | str | bytes
    Records = NDArray[np.uint64]


_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FRACTION = 0xD1B54A32D192ED03
"""Keeps fractions apart from whole numbers of the same bits."""

_WHOLE_TEXT = re.compile(r"[+-]?[0-9]{1,300}")
_DECIMAL_TEXT = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LARGEST_WHOLE = 300
"""Digits."""

_LARGEST_EXACT = 2**100
"""Whole numbers below it are kept in two words as they are."""

_NOTHING = np.array([np.nan]).view(np.uint64)[0]


# Ids


def person_codes(cells: Cells) -> tuple[Codes, Hashes]:
    """Give each person in a column of ids (n,) a number, in the order of their hashes (k,); -1 where there is no id.

    Numbers are told apart by value, and texts that are numbers count as these: 3, 3.0, True + 2, "3", " 003" and "3.0"
    are one person; the words true and false count as 1 and 0, decimals and complex numbers without imaginary part as
    numbers. Other texts are told apart by their characters but for blanks around them, bytes by their contents; UUIDs
    are read as their text. Two people taken for one are protected together, while one person taken for two would not
    be. Anything else (missing and blank cells, infinities, dates, lists, objects) is no id. Nothing raises.
    """
    if isinstance(cells, Coded):
        own, hashes = _of_keys([*map(_key, cells.values), None])
        codes = own[cells.positions]
        used = np.unique(codes[codes >= 0])  # people of a dictionary who have no row are left out
        rank = np.full(len(hashes) + 1, -1, dtype=np.int64)
        rank[used] = np.arange(len(used))
        return rank[codes], hashes[used]
    if cells.dtype.kind in "iub":
        values, inverse = np.unique(cells, return_inverse=True)
        bits = values.astype(np.uint64) if cells.dtype.kind == "u" else values.astype(np.int64).view(np.uint64)
        return _ranked(inverse.astype(np.int64), _mixed(bits))
    if cells.dtype.kind == "c":
        return _of_floats(complex_to_numbers(cells))
    if cells.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return _of_floats(cells.astype(np.float64))
    return _of_keys(_keys([None] * len(cells) if cells.dtype.kind in "mMV" else cells.tolist()))


def _of_floats(values: NDArray[np.float64]) -> tuple[Codes, Hashes]:
    known = np.isfinite(values)
    distinct, inverse = np.unique(values[known] + 0.0, return_inverse=True)
    small = (distinct == np.floor(distinct)) & (np.abs(distinct) < 2.0**63)
    hashes = _mixed(np.where(small, distinct, 0.0).astype(np.int64).view(np.uint64))
    hashes[~small] = _hashes_of([_number(value) for value in distinct[~small].tolist()])
    codes = np.full(len(values), -1, dtype=np.int64)
    codes[known], hashes = _ranked(inverse.astype(np.int64), hashes)
    return codes, hashes


def _keys(cells: Iterable[object]) -> list[Key | None]:
    """Keys of cells; a text that comes again is read once."""
    texts: dict[str, Key | None] = {}
    found: list[Key | None] = []
    for cell in cells:
        if type(cell) is str and cell not in texts:
            texts[cell] = _key(cell)
        found.append(cell if type(cell) is int else texts[cell] if type(cell) is str else _key(cell))
    return found


def _of_keys(keys: Sequence[Key | None]) -> tuple[Codes, Hashes]:
    seen: dict[Key, int] = {}
    codes = np.array([-1 if key is None else seen.setdefault(key, len(seen)) for key in keys], dtype=np.int64)
    people = list(seen)
    hashes = _hashes_of(people)
    if len(np.unique(hashes)) < len(hashes):  # people of the same hash stand in an order of their own
        kinds = [1 if isinstance(key, str) else 2 if isinstance(key, bytes) else 0 for key in people]
        order = sorted(range(len(people)), key=lambda place: (kinds[place], people[place]))
        place = np.empty(len(people), dtype=np.int64)
        place[order] = np.arange(len(people))
        codes, hashes = np.append(place, -1)[codes], hashes[order]
    return _ranked(codes, hashes)


def _ranked(codes: Codes, hashes: Hashes) -> tuple[Codes, Hashes]:
    """Give people numbers in the order of their hashes."""
    order = np.argsort(hashes, kind="stable")
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order], rank[-1] = np.arange(len(order)), -1
    return rank[codes], hashes[order]


def _key(cell: Any) -> Key | None:
    """Reduce a cell to an id that equals another one if it is the same person's; None where it is no id."""
    try:
        return _read_key(cell)
    except Exception:
        return None


def _read_key(cell: Any) -> Key | None:  # noqa: PLR0911  (a return for each type)
    kind = type(cell)
    if issubclass(kind, np.generic | complex) and kind not in PLAIN_NUMBERS:
        return None
    if issubclass(kind, str):
        return _text_key(str.__str__(cell))
    if issubclass(kind, bytes):
        return bytes.__add__(cell, b"") or None
    if issubclass(kind, np.integer) and not issubclass(kind, np.timedelta64):  # numpy derives it from the integers
        return int(cell)
    if issubclass(kind, int):
        return int.__int__(cell)
    if kind is UUID:
        return str(cell)
    if kind is Decimal and cell.is_finite() and 0 <= cell.adjusted() < _LARGEST_WHOLE and cell == int(cell):
        return int(cell)
    number = read_cell(cell)
    return None if isinstance(number, str) else _number(number)


def _number(value: float) -> Key | None:
    if not math.isfinite(value):
        return None
    return int(value) if value == math.floor(value) else float(value)


def _text_key(text: str) -> Key | None:
    """Read the text of a number as the number: one column may hold both, and a file reader may make it so."""
    bare = text.strip()
    if _WHOLE_TEXT.fullmatch(bare):
        return int(bare)
    truth = truth_text(bare)
    if truth is not None:
        return int(truth)
    value = _number(float(bare)) if _DECIMAL_TEXT.fullmatch(bare) else None
    return bare or None if value is None else value


def _hashes_of(keys: Sequence[Key | None]) -> Hashes:
    """Hash ids: numbers by their bits, others by their contents."""
    numbers, hashes = np.zeros(len(keys), dtype=bool), np.zeros(len(keys), dtype=np.uint64)
    for place, key in enumerate(keys):
        numbers[place] = not isinstance(key, str | bytes)
        if isinstance(key, int):
            hashes[place] = key & _MASK
        elif isinstance(key, float):
            hashes[place] = int.from_bytes(struct.pack("<d", key), "little") ^ _FRACTION
        else:
            content = b"b" + key if isinstance(key, bytes) else b"t" + _utf8(key or "")
            hashes[place] = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
    return np.where(numbers, _mixed(hashes), hashes)


def second_words(cells: Cells) -> Hashes:
    """64 more bits of whose each row is (n,), where people cannot be told apart by comparing their ids.

    Together with the hash they tell whole numbers below 2^100 apart, and these from fractions and texts. Nobody can
    find two texts, or larger numbers, of the same 126 bits. Rows without an id have anything.
    """
    if isinstance(cells, Coded):
        return np.array([_second(_key(value)) for value in [*cells.values, None]], dtype=np.uint64)[cells.positions]
    if cells.dtype.kind in "mMV":
        return np.zeros(len(cells), dtype=np.uint64)
    if cells.dtype.kind in "iubfc":
        with np.errstate(all="ignore"):
            numbers = complex_to_numbers(cells) if cells.dtype.kind == "c" else cells
            values = numbers.astype(np.float64) if numbers.dtype.kind == "f" else numbers
            found = np.where(values < 0, np.uint64(_MASK), np.uint64(0))
            if values.dtype.kind == "f":
                others = np.isfinite(values) & ((values != np.floor(values)) | (np.abs(values) >= 2.0**63))
                found[others] = [_second(_number(value)) for value in values[others].tolist()]
        return found
    return np.array([_second(key) for key in _keys(cells.tolist())], dtype=np.uint64)


def _second(key: Key | None) -> int:
    if isinstance(key, float):
        return 2**62
    if key is None or (isinstance(key, int) and -_LARGEST_EXACT <= key < _LARGEST_EXACT):
        return (key or 0) >> 64 & _MASK
    text = b"b" + key if isinstance(key, bytes) else (b"i%x" % key if isinstance(key, int) else b"t" + _utf8(key))
    digest = hashlib.blake2b(text, digest_size=8, person=b"second").digest()
    return int.from_bytes(digest, "little") >> 2 | 2**63


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _mixed(values: Hashes) -> Hashes:
    """Spread 64 bits over 64 bits, one to one (SplitMix64, Steele et al. 2014)."""
    mixed = values + np.uint64(_GOLDEN)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Hashes = mixed ^ (mixed >> np.uint64(31))
    return found


# Which rows are kept


def chosen_rows(codes: Codes, hashes: Hashes, contents: Sequence[Hashes], most: int) -> Codes:
    """Choose at most ``most`` rows of each person: their places (k,), a person's one after the other.

    ``codes`` (n,) say whose each row is, ``hashes`` are those of the people, and ``contents`` what each row holds: its
    cells as the schema coerces them, before they are clamped, so that two rows that differ for any question differ
    here. Rows of one person with the same contents are numbered, and so are hashed apart; which of them has which
    number makes no difference. Different contents of the same hash are ordered by contents.
    """
    mixed = hashes
    for column in contents:
        mixed = _mixed(mixed ^ column)
    order = _by_hash(mixed, codes)
    same = _same(order, codes, mixed)
    if any((column[order[1:]] != column[order[:-1]])[same].any() for column in contents):
        order = np.lexsort((*contents, mixed, codes))
        same = _same(order, codes, mixed)
    for column in contents:
        same &= column[order[1:]] == column[order[:-1]]
    mixed = _mixed(mixed[order] + _place_in_run(same, len(order)).astype(np.uint64) * np.uint64(_FRACTION))
    again = _by_hash(mixed, codes[order])
    if _same(again, codes[order], mixed).any():  # rows of one hash stay ordered by contents
        again = np.lexsort((mixed, codes[order]))
    order = order[again]
    place = _place_in_run(codes[order[1:]] == codes[order[:-1]], len(order))
    return order[place < most]


def _by_hash(hashes: Hashes, codes: Codes) -> Codes:
    """Return the order of rows by codes, and of those with one code by hash; equal rows in any order.

    Much faster than ``lexsort``: numpy sorts hashes by vector instructions, and stably by digits of 16 bits.
    """
    order = np.argsort(hashes)
    most = int(codes.max(initial=0))
    for shift in range(0, most.bit_length(), 16):
        digits = (codes[order] >> shift).astype(np.uint16)
        order = order[np.argsort(digits, kind="stable")]
    return order


def content_bits(values: NDArray[np.float64]) -> Hashes:
    """Coerced cells of a column (n,) as 64 bits each; all cells that drop a row are alike."""
    values = values + 0.0  # never -0.0
    return np.where(np.isfinite(values), values.view(np.uint64), _NOTHING)


def _same(order: Codes, *keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each row in order has the keys of the one before it."""
    found = np.ones(max(len(order) - 1, 0), dtype=bool)
    for key in keys:
        found &= key[order[1:]] == key[order[:-1]]
    return found


def _place_in_run(same: NDArray[np.bool_], size: int) -> Codes:
    """Place of each row in its run, from 0, where ``same`` says whether a row continues the run of the one before."""
    positions = np.arange(size)
    starts = np.where(np.append(False, same)[:size], 0, positions)
    return positions - np.maximum.accumulate(starts)


class KeptSource(Table):
    """The rows of people that count, those of a person one after the other.

    ``places`` says which rows of the source they are, ``persons`` whose each is (0, 1, ... in order), and ``starts``
    where the rows of each person start and last end.
    """

    def __init__(self, source: Table, schema: Schema) -> None:
        self._source = source
        people = schema.people
        assert people is not None
        codes, hashes = person_codes(source.read([people.id], 0, source.rows)[people.id])
        known = np.flatnonzero(codes >= 0)  # rows without an id are dropped
        codes, names = codes[known], sorted(schema)
        cells = (schema[name].coerce(source.read([name], 0, source.rows)[name]) for name in names)
        order = chosen_rows(codes, hashes[codes], [content_bits(one)[known] for one in cells], people.max_rows)
        self.places, self.persons = known[order], codes[order]
        self.columns, self.rows = source.columns, len(self.places)
        count = int(self.persons[-1]) + 1 if self.rows else 0
        self.starts = np.searchsorted(self.persons, np.arange(count + 1))
        self._cells: dict[str, Cells] = {}
        self._lock = threading.Lock()

    @property
    def people(self) -> int:
        """Number of people with a row: confidential."""
        return len(self.starts) - 1

    def read(self, names: Sequence[str], start: int, stop: int) -> Mapping[str, Cells]:
        """Return the cells of some columns for rows ``start`` to ``stop``."""
        return {name: _taken(self._column(name), slice(start, stop)) for name in names}

    def _column(self, name: str) -> Cells:
        with self._lock:
            if name not in self._cells:
                self._cells[name] = _taken(self._source.read([name], 0, self._source.rows)[name], self.places)
            return self._cells[name]

    def batches(self, names: Sequence[str], most: int) -> Iterator[Slice]:
        """Give all rows, in order, as batches of at most ``most`` rows of whole people."""
        for batch in super().batches(names, most):
            yield replace(batch, persons=self.persons[batch.start : batch.start + batch.rows])

    def slices(self, most: int) -> list[tuple[int, int]]:
        """Cut the rows into slices of at most ``most`` rows, each of whole people; no person has more rows."""
        return whole_people(self.starts, most)


def whole_people(starts: Codes, most: int) -> list[tuple[int, int]]:
    """Cut rows into slices of at most ``most`` rows, each of whole people, whose rows start at ``starts``.

    The last of ``starts`` is the number of rows. No person has more than ``most``.
    """
    ends = [0]
    while ends[-1] < starts[-1]:
        ends.append(int(starts[np.searchsorted(starts, ends[-1] + most, side="right") - 1]))
    return list(pairwise(ends))


def _taken(cells: Cells, rows: Codes | slice) -> Cells:
    return Coded(cells.codes[rows], cells.values) if isinstance(cells, Coded) else cells[rows]


BUCKETS = 256
"""Files that rows are spread over; what one of them holds has to fit into memory."""


def check_disk(files: int) -> None:
    """Refuse, before a charge, to spill rows where so many files cannot be open at once.

    Raises
    ------
    DataError
        If the folder for temporary files takes none, or the process may not open so many more.
    """
    try:
        with Spill(files, np.uint64, 1) as spill:
            if files:
                spill.append(0, np.zeros((1, 1)))
    except OSError as error:
        found = type(error).__name__ if error.errno is None else os.strerror(error.errno)
    else:
        return
    raise DataError(
        f"source: rows that are not in memory wait on disk for this question, in {files} files that are open at once, "
        f"and the system refuses them ({found}): expected a folder for temporary files (TMPDIR) that can be written "
        f"to, and a limit on open files (ulimit -n) of {2 * files} or more"
    )


_BUFFER = 2**16
"""Bytes of a file that wait in memory."""


class Spill(ExitStack):
    """Rows of an array of some width, in buckets.

    Files are made in the folder for temporary files, which ``TMPDIR`` names, and have no name from the start where the
    system knows such.
    """

    def __init__(self, buckets: int, dtype: DTypeLike, width: int) -> None:
        super().__init__()
        self._dtype, self._width = np.dtype(dtype), width
        self._files: list[Any] = []
        try:
            for _ in range(buckets):
                self._files.append(self.enter_context(TemporaryFile(prefix="dpinfer-", buffering=_BUFFER)))  # noqa: SIM115
        except BaseException:
            self.close()
            raise

    def append(self, bucket: int, rows: NDArray[Any]) -> None:
        """Write rows (k, width) behind those of a bucket."""
        self._files[bucket].write(np.ascontiguousarray(rows, dtype=self._dtype).data)

    def scatter(self, buckets: NDArray[np.intp], rows: NDArray[Any]) -> None:
        """Write each row (k, width) behind those of its bucket (k,), in their order."""
        order = np.argsort(buckets.astype(np.uint16), kind="stable")
        ends = np.cumsum(np.bincount(buckets, minlength=len(self._files)))
        rows = rows[order]
        for bucket in np.unique(buckets).tolist():
            self.append(bucket, rows[ends[bucket - 1] if bucket else 0 : ends[bucket]])

    def read(self, bucket: int, *, writable: bool = False) -> NDArray[Any]:
        """Return the rows of a bucket (n, width), as memory that the file stands behind."""
        file = self._files[bucket]
        file.flush()
        rows = os.fstat(file.fileno()).st_size // (self._dtype.itemsize * self._width)
        if not rows:
            return np.empty((0, self._width), dtype=self._dtype)
        return np.asarray(np.memmap(file, dtype=self._dtype, mode="r+" if writable else "r", shape=(rows, self._width)))

    def clear(self, bucket: int) -> None:
        """Forget the rows of a bucket."""
        self._files[bucket].seek(0)
        self._files[bucket].truncate()


@dataclass(frozen=True)
class PeopleRecords:
    """Rows of people as records: two hashes of the person, and what the schema reads in each cell.

    Rows of a person are in one bucket, that of the leading bits of the hash, so that which of them count is decided
    there, as it is in memory. Two hashes tell people apart: were two of them taken for one, adding one could push rows
    of the other out.
    """

    schema: Schema

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the schema, as they stand in a record."""
        return tuple(sorted(self.schema))

    @property
    def people(self) -> People:
        """Who they are told apart by, and how many rows of each count."""
        assert self.schema.people is not None
        return self.schema.people

    @property
    def read(self) -> tuple[str, ...]:
        """Columns of the data that are read: the ids, and all that are declared."""
        return (self.people.id, *self.columns)

    def of(self, cells: Mapping[str, Cells], _: object = None) -> Records:
        """Return the records of rows with an id (n, 2 + d)."""
        ids = cells[self.people.id]
        codes, hashes = person_codes(ids)
        known = codes >= 0
        found = [hashes[codes[known]], second_words(ids)[known]]
        with np.errstate(all="ignore"):
            found += [self.schema[name].meaning(cells[name])[known].view(np.uint64) for name in self.columns]
        return np.stack(found, axis=1)

    def kept(self, records: Records) -> Records:
        """Choose the rows of each person that count (k, 1 + d); numbers of people take the place of their hashes."""
        first, second = records[:, 0].copy(), records[:, 1]
        order = np.argsort(first)
        new = np.diff(first[order]) != 0
        if ((np.diff(second[order]) != 0) & ~new).any():
            order = np.lexsort((second, first))
            new = (np.diff(first[order]) != 0) | (np.diff(second[order]) != 0)
        persons = np.empty(len(order), dtype=np.int64)  # numbers of people in the order of their hashes
        persons[order] = np.append(0, np.cumsum(new))[: len(order)]
        with np.errstate(all="ignore"):
            values = [self.schema[name].settle(_values(records, place)) for place, name in enumerate(self.columns, 2)]
        order = chosen_rows(persons, first, list(map(content_bits, values)), self.people.max_rows)
        kept = records[order, 1:]
        kept[:, 0] = persons[order]
        return kept

    def slices(self, buckets: Iterable[Records], names: Sequence[str], most: int, *, start: int = 0) -> Iterator[Slice]:
        """Cut the kept rows of buckets into slices of at most ``most`` rows, each of whole people.

        They have addresses, and people have numbers, from ``start`` on.
        """
        people, places = start, {name: 1 + self.columns.index(name) for name in names}
        for records in buckets:
            if not len(records):
                continue
            persons = records[:, 0].astype(np.int64)
            starts = np.append(np.flatnonzero(np.diff(persons, prepend=-1)), len(persons))
            for first, last in whole_people(starts, most):
                read = partial(_meant, records[first:last], places)
                yield Slice(start + first, last - first, read, persons[first:last] + people)
            start, people = start + len(records), people + len(starts) - 1


def _values(records: Records, place: int) -> NDArray[np.float64]:
    return np.ascontiguousarray(records[:, place]).view(np.float64)


def _meant(records: Records, places: Mapping[str, int]) -> dict[str, Any]:
    return {name: Meant(_values(records, place)) for name, place in places.items()}


_SHIFT = np.uint64(64 - (BUCKETS - 1).bit_length())


class SpilledPeople(Source):
    """The rows of people that count, those of a person one after the other; read once, and then from disk."""

    ahead = 1
    ordered = True  # by the hashes of people

    def __init__(self, source: Source, schema: Schema) -> None:
        self._source, self._records = source, PeopleRecords(schema)
        self.columns = self._records.columns
        self._spill: Spill | None = None

    @contextmanager
    def opened(self) -> Iterator[Source]:
        """Give what one run reads; afterwards nothing is on disk."""
        with Spill(BUCKETS, np.uint64, 1 + len(self.columns)) as spill:
            self._spill, self._full = spill, False
            yield self
        self._spill = None

    def batches(self, names: Sequence[str], most: int) -> Iterator[Slice]:
        """Give all rows as batches of at most ``most`` rows of whole people."""
        spill, held = self._spill, self._records
        assert spill is not None
        if not self._full:
            with Spill(BUCKETS, np.uint64, 2 + len(self.columns)) as all_rows:
                for records in self._source.pieces(Pass(held.read, held.of)):
                    all_rows.scatter((records[:, 0] >> _SHIFT).astype(np.intp), records)
                for bucket in range(BUCKETS):
                    spill.append(bucket, held.kept(all_rows.read(bucket)))
                    all_rows.clear(bucket)
            self._full = True
        return held.slices(map(spill.read, range(BUCKETS)), names, most)
