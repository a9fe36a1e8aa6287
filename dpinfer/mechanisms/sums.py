"""Exact sums over rows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.mechanisms.batches import sum_batches
from dpinfer.mechanisms.people import KeptSource
from dpinfer.schema.basis import UNIT
from dpinfer.schema.cell_rows import CellRows
from dpinfer.schema.person_rows import PersonRows
from dpinfer.schema.query_rows import QueryRows
from dpinfer.schema.rows import CHUNK_ROWS
from dpinfer.schema.tree_rows import TreeRows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpinfer.mechanisms.sources import Batch, Cells, Source
    from dpinfer.schema.rows import RowFunction

__all__ = ["cell_sums", "exact_sums", "gram_sums", "person_sums"]


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
    whole number of at most 2^53 and exact in float64 in any order of addition.
    """
    _check_chunk(chunk_rows)
    width = rows.basis.width
    upper = np.triu_indices(width)
    scratch = threading.local()

    def products(cells: Mapping[str, Cells], batch: Batch) -> NDArray[np.int64]:
        if not hasattr(scratch, "rows"):
            scratch.rows = np.empty(width * chunk_rows)
        encoded, clamped = rows.encode(cells, scratch.rows[: width * batch.rows].reshape(width, -1))
        marked = clamped.sum() * UNIT * UNIT
        return np.append(np.dot(encoded, encoded.T)[upper], marked).astype(np.int64)

    size = len(upper[0]) + 1
    largest = CHUNK_ROWS * UNIT * UNIT
    return sum_batches(source, rows.columns, products, size=size, largest=largest, threads=threads, most=chunk_rows)


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
    A chunk's sums are whole numbers of at most 2^19 times 2^15, exact in float64.
    """
    _check_chunk(chunk_rows)
    size = rows.size

    def sums(cells: Mapping[str, Cells], batch: Batch) -> NDArray[np.int64]:
        places, encoded = rows.encode(cells, batch.rows)
        if encoded is None:
            return np.bincount(places, minlength=size + 1)[:size].astype(np.int64, copy=False)
        added = [np.bincount(places, weights=feature, minlength=size + 1)[:size] for feature in encoded]
        return np.stack(added, axis=1).ravel().astype(np.int64)

    largest = CHUNK_ROWS * UNIT
    workers = threads or (1 if rows.light else None)
    return sum_batches(
        source, rows.columns, sums, size=size * rows.width, largest=largest, threads=workers, most=chunk_rows
    )


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
    rows at most 2^46: exact in float64.
    """
    _check_chunk(chunk_rows)
    size = rows.size

    def sums(cells: Mapping[str, Cells], batch: Batch) -> NDArray[np.int64]:
        places, summed = rows.encode_people(cells, source.persons[batch.start : batch.start + batch.rows])
        added = [np.bincount(places, weights=one, minlength=size) for one in summed]
        return np.stack(added, axis=1).ravel().astype(np.int64)

    return sum_batches(
        source, rows.columns, sums, size=size * rows.width, largest=2**46, threads=threads, most=chunk_rows
    )


def _check_chunk(chunk_rows: int) -> None:
    if not 1 <= chunk_rows <= CHUNK_ROWS:
        raise OptionError("chunk_rows", chunk_rows, f"a whole number from 1 to {CHUNK_ROWS}")
