"""People with several rows where rows are not in memory: the rows that count wait on disk, in buckets of people.

Of a row its person's hash is kept, a second hash, and what the schema reads in each cell. Rows of a person are in one
bucket, that of the leading bits of the hash, so that which of them count is decided there, as it is in memory. Two
hashes tell people apart: were two of them taken for one, adding one could push rows of the other out.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.kernel.people import chosen_rows, content_bits, person_codes, second_words, whole_people
from dpinfer.kernel.sources.base import Pass, Slice, Source
from dpinfer.kernel.spill import BUCKETS, Spill
from dpinfer.schema.cells import Meant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dpinfer.kernel.sources.base import Cells
    from dpinfer.schema.schema import Schema

    Records = NDArray[np.uint64]

__all__ = ["SpilledPeople", "bucket_of", "kept_records", "people_slices", "records_of"]

_SHIFT = np.uint64(64 - (BUCKETS - 1).bit_length())


class SpilledPeople(Source):
    """The rows of people that count, those of a person one after the other; read once, and then from disk."""

    ahead = 1
    ordered = True  # by the hashes of people

    def __init__(self, source: Source, schema: Schema) -> None:
        self._source, self._schema = source, schema
        self.columns = tuple(sorted(schema))
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
        assert self._spill is not None
        if not self._full:
            self._fill(self._spill)
            self._full = True
        return people_slices(map(self._spill.read, range(BUCKETS)), self.columns, names, most)

    def _fill(self, spill: Spill) -> None:
        people = self._schema.people
        assert people is not None
        read = Pass((people.id, *self.columns), partial(records_of, self._schema, self.columns))
        with Spill(BUCKETS, np.uint64, 2 + len(self.columns)) as all_rows:
            for records in self._source.pieces(read):
                all_rows.scatter(bucket_of(records), records)
            for bucket in range(BUCKETS):
                spill.append(bucket, kept_records(all_rows.read(bucket), self._schema, self.columns))
                all_rows.clear(bucket)


def people_slices(
    buckets: Iterable[Records], columns: Sequence[str], names: Sequence[str], most: int, *, start: int = 0
) -> Iterator[Slice]:
    """Cut the kept rows of buckets into slices of at most ``most`` rows, each of whole people.

    They have addresses, and people have numbers, from ``start`` on.
    """
    people = start
    for records in buckets:
        if not len(records):
            continue
        persons = records[:, 0].astype(np.int64)
        starts = np.append(np.flatnonzero(np.diff(persons, prepend=-1)), len(persons))
        for first, last in whole_people(starts, most):
            read = partial(_meant, records[first:last], columns, names)
            yield Slice(start + first, last - first, read, persons[first:last] + people)
        start, people = start + len(records), people + len(starts) - 1


def bucket_of(records: Records) -> NDArray[np.intp]:
    """Return the bucket of each row (n,): the leading bits of its person's hash."""
    return (records[:, 0] >> _SHIFT).astype(np.intp)


def records_of(schema: Schema, columns: Sequence[str], cells: Mapping[str, Cells], part: Slice) -> Records:  # noqa: ARG001
    """Return two hashes of the person, and what the schema reads in each cell, for rows with an id (n, 2 + d)."""
    assert schema.people is not None
    codes, hashes = person_codes(cells[schema.people.id])
    known = codes >= 0
    found = np.empty((int(known.sum()), 2 + len(columns)), dtype=np.uint64)
    found[:, 0] = hashes[codes[known]]
    found[:, 1] = second_words(cells[schema.people.id])[known]
    with np.errstate(all="ignore"):
        for place, name in enumerate(columns, 2):
            found[:, place] = schema[name].meaning(cells[name])[known].view(np.uint64)
    return found


def kept_records(records: Records, schema: Schema, columns: Sequence[str]) -> Records:
    """Choose the rows of each person that count (k, 1 + d); numbers of people take the place of their hashes."""
    assert schema.people is not None
    hashes = records[:, 0].copy()
    persons = _numbered(hashes, records[:, 1])
    with np.errstate(all="ignore"):
        contents = [content_bits(schema[name].settle(_values(records, place))) for place, name in enumerate(columns, 2)]
    order = chosen_rows(persons, hashes, contents, schema.people.max_rows)
    kept = records[order, 1:]
    kept[:, 0] = persons[order]
    return kept


def _numbered(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Give people numbers, whom two hashes tell apart, in the order of these."""
    order = np.argsort(first)
    new = np.diff(first[order]) != 0
    other = np.diff(second[order]) != 0
    if (other & ~new).any():
        order = np.lexsort((second, first))
        new = (np.diff(first[order]) != 0) | (np.diff(second[order]) != 0)
    persons = np.empty(len(order), dtype=np.int64)
    persons[order] = np.append(0, np.cumsum(new))[: len(order)]
    return persons


def _values(records: Records, place: int) -> NDArray[np.float64]:
    return np.ascontiguousarray(records[:, place]).view(np.float64)


def _meant(records: Records, columns: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    return {name: Meant(_values(records, 1 + columns.index(name))) for name in names}
