"""Exact sums over rows: batches are mapped to integers, and these are added without any rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpinfer.errors import OptionError
from dpinfer.kernel.batches import sum_batches
from dpinfer.kernel.rows.base import CHUNK_ROWS, Batch

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from dpinfer.kernel.rows.base import RowSum
    from dpinfer.kernel.rows.scores import ScoreSum
    from dpinfer.kernel.sources.base import Cells, Slice, Source

__all__ = ["exact_sums"]


def exact_sums(
    rows: RowSum | ScoreSum, source: Source, *, threads: int | None = None, chunk_rows: int | None = None
) -> list[int]:
    """Sum what a row sum gives over all rows (m,); the result depends on neither threads nor ``chunk_rows``."""
    if chunk_rows is not None and not 1 <= chunk_rows <= CHUNK_ROWS:
        raise OptionError("chunk_rows", chunk_rows, f"a whole number from 1 to {CHUNK_ROWS}")

    def one(cells: Mapping[str, Cells], part: Slice) -> NDArray[np.int64]:
        added: NDArray[np.int64] = rows.add(Batch(cells, part.rows, persons=part.persons))[0]
        return added

    totals = sum_batches(
        source,
        rows.columns,
        one,
        size=rows.entries,
        largest=rows.most_added,
        threads=threads or (1 if rows.light else None),
        most=chunk_rows or rows.batch_rows,
    )
    return rows.finish(totals)
