"""Exact sums over rows."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.mechanisms.people import KeptSource
from dpinfer.schema.basis import UNIT
from dpinfer.schema.cell_rows import CellRows
from dpinfer.schema.person_rows import PersonRows
from dpinfer.schema.query_rows import QueryRows
from dpinfer.schema.rows import CHUNK_ROWS
from dpinfer.schema.tree_rows import TreeRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.mechanisms.sources import Source
    from dpinfer.schema.rows import RowFunction

__all__ = ["cell_sums", "exact_sums", "gram_sums", "person_sums"]

_FLUSH = 4096
"""Chunks whose sums, each below 2^34, are added in 64 bits before they go to Python integers."""


def exact_sums(
    rows: RowFunction | CellRows | QueryRows | PersonRows | TreeRows, source: Source, *, threads: int | None = None
) -> list[int]:
    """Sum what a row function gives over all rows, without any rounding; see the other functions here."""
    if isinstance(rows, PersonRows):
        assert isinstance(source, KeptSource)
        return person_sums(rows, source, threads=threads)
    if isinstance(rows, QueryRows | TreeRows):
        return rows.combine(cell_sums(rows.cells, source, threads=threads))
    if isinstance(rows, CellRows):
        return cell_sums(rows, source, threads=threads)
    return gram_sums(rows, source, threads=threads)


def gram_sums(
    rows: RowFunction, source: Source, *, threads: int | None = None, chunk_rows: int = CHUNK_ROWS
) -> list[int]:
    """Sum the cross-products of integer rows, and the marks of clamped rows, without any rounding.

    Parameters
    ----------
    rows : RowFunction
    source : Source
    threads : int, optional
        Worker threads; by default one per core. The result does not depend on it.
    chunk_rows : int
        Rows mapped at once, at most 32,768. The result does not depend on it.

    Returns
    -------
    list of int
        Upper triangle of the sum of z z' (row by row), then the number of clamped rows, all in
        steps of 2^-38.

    Notes
    -----
    Entries of a row are whole numbers of at most 2^19, so that each partial sum of a chunk's product is a
    whole number below 2^53 and exact in float64 in any order of addition. Chunks are added as Python
    integers always: choosing the type by the number of rows would make behaviour depend on it.
    """
    _check_chunk(chunk_rows)
    upper = np.triu_indices(rows.basis.width)
    names = rows.columns

    scratch = threading.local()

    def chunk(start: int) -> tuple[NDArray[np.int64], float]:
        stop = min(start + chunk_rows, source.rows)
        if not hasattr(scratch, "rows"):
            scratch.rows = np.empty(rows.basis.width * chunk_rows)
        out = scratch.rows[: rows.basis.width * (stop - start)].reshape(rows.basis.width, -1)
        encoded, clamped = rows.encode(source.read(names, start, stop), out)
        return np.dot(encoded, encoded.T)[upper].astype(np.int64), clamped.sum()

    starts = range(0, source.rows, chunk_rows)
    total = [0] * len(upper[0])
    marked = 0
    with ThreadPoolExecutor(max_workers=threads or os.cpu_count() or 1) as pool:
        for part, marks in pool.map(chunk, starts):
            total = [left + right for left, right in zip(total, part.tolist(), strict=True)]
            marked += int(marks)
    return [*total, marked * UNIT * UNIT]


def cell_sums(rows: CellRows, source: Source, *, threads: int | None = None, chunk_rows: int = CHUNK_ROWS) -> list[int]:
    """Sum integer features, or count rows, in every cell of a table, without any rounding.

    Parameters
    ----------
    rows : CellRows
    source : Source
    threads, chunk_rows
        As in `gram_sums`.

    Returns
    -------
    list of int, length G d
        Cell by cell; in whole rows for counts, otherwise in steps of 2^-19.

    Notes
    -----
    A chunk's sums are whole numbers of at most 2^19 times 2^15, exact in float64 and in the 64 bits in which
    a fixed number of chunks is added before Python integers take over.
    """
    _check_chunk(chunk_rows)
    size, width, names = rows.size, rows.width, rows.columns

    def chunk(start: int) -> NDArray[np.int64]:
        stop = min(start + chunk_rows, source.rows)
        cells, encoded = rows.encode(source.read(names, start, stop), stop - start)
        if encoded is None:
            return np.bincount(cells, minlength=size + 1)[:size].astype(np.int64, copy=False)
        sums = [np.bincount(cells, weights=feature, minlength=size + 1)[:size] for feature in encoded]
        return np.stack(sums, axis=1).ravel().astype(np.int64)

    total = [0] * (size * width)
    running = np.zeros(size * width, dtype=np.int64)
    starts = range(0, source.rows, chunk_rows)
    workers = threads or (1 if rows.light else os.cpu_count() or 1)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        for place, part in enumerate(map(chunk, starts) if workers == 1 else pool.map(chunk, starts), 1):
            running += part
            if place % _FLUSH == 0:
                total = [left + right for left, right in zip(total, running.tolist(), strict=True)]
                running[:] = 0
    return [left + right for left, right in zip(total, running.tolist(), strict=True)]


def person_sums(
    rows: PersonRows, source: KeptSource, *, threads: int | None = None, chunk_rows: int = CHUNK_ROWS
) -> list[int]:
    """Sum what each person's rows in a cell add up to, and its products, without rounding the sums.

    Parameters
    ----------
    rows : PersonRows
    source : KeptSource
    threads, chunk_rows
        As in `gram_sums`; at least the number of rows that one person may have.

    Returns
    -------
    list of int, length G d
        Cell by cell.

    Notes
    -----
    Chunks hold whole people. The sums of a person are at most m 2^19, with m up to 2^12, and those of a chunk's 2^15
    rows below 2^46: exact in float64, and in the 64 bits in which a fixed number of chunks is added.
    """
    _check_chunk(chunk_rows)
    size, width, names = rows.size, rows.width, rows.columns

    def chunk(ends: tuple[int, int]) -> NDArray[np.int64]:
        start, stop = ends
        raw = source.read(names, start, stop)
        cells, summed = rows.encode_people(raw, source.persons[start:stop])
        sums = [np.bincount(cells, weights=one, minlength=size) for one in summed]
        return np.stack(sums, axis=1).ravel().astype(np.int64)

    total = [0] * (size * width)
    running = np.zeros(size * width, dtype=np.int64)
    with ThreadPoolExecutor(max_workers=threads or os.cpu_count() or 1) as pool:
        for place, part in enumerate(pool.map(chunk, source.slices(chunk_rows)), 1):
            running += part
            if place % _FLUSH == 0:
                total = [left + right for left, right in zip(total, running.tolist(), strict=True)]
                running[:] = 0
    return [left + right for left, right in zip(total, running.tolist(), strict=True)]


def _check_chunk(chunk_rows: int) -> None:
    if not 1 <= chunk_rows <= CHUNK_ROWS:
        raise OptionError("chunk_rows", chunk_rows, f"a whole number from 1 to {CHUNK_ROWS}")
