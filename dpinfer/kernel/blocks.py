"""Sample-and-aggregate: rows are dealt into secret blocks, each is fitted, and noisy sums of the fits are drawn.

One row is in one block, by a label that is drawn for it alone and never kept. Whatever the rows are, a neighbour
with the same labels differs in one block; and the fit of a block is a function of the rows of that block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import OptionError
from dpinfer.kernel.people import KeptSource
from dpinfer.kernel.rows.blocks import BlockValues, block_values
from dpinfer.kernel.rows.features import CHUNK_ROWS
from dpinfer.kernel.worker_process import as_floats
from dpinfer.kernel.workers import fit_apart, fit_here
from dpinfer.schema.category import Category
from dpinfer.schema.clamping import clamped_values
from dpinfer.schema.columns import Boolean, Integer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from dpinfer.kernel.draws import Draws
    from dpinfer.kernel.rows.blocks import Blocks
    from dpinfer.kernel.sources import Source
    from dpinfer.schema.columns import Column

    Array = NDArray[np.float64]

__all__ = ["block_fits", "block_run", "typed_rows"]


def typed_rows(rows: Blocks, source: Source) -> tuple[dict[str, Array], NDArray[np.bool_]]:
    """Read all rows as numbers (n,) within their declared bounds; and which are kept.

    Of a category they are places of levels. Dropped are rows with a missing or impossible cell, and those that do not
    meet the condition. Each value depends on its own cell, and ``keep`` on its own row.
    """
    names = rows.columns
    values = {name: np.empty(source.rows) for name in names}
    keep = np.ones(source.rows, dtype=bool)
    for batch in source.batches(names, CHUNK_ROWS):
        mine = slice(batch.start, batch.start + batch.rows)
        with np.errstate(all="ignore"):
            found, keep[mine] = clamped_values(rows.schema, names, batch.read(), batch.rows)
            for name in names:
                values[name][mine] = found[name] + 0.0  # never -0.0
            if rows.where is not None:
                keep[mine] &= rows.where.evaluate({name: values[name][mine] for name in names}) > 0.5
    return values, keep


def block_fits(rows: Blocks, source: Source, labels: NDArray[np.intp], *, private: bool) -> Array:
    """Fit every block, and its halves where these are asked for: (k, f, p) with f = 3 or 1, NaN where a fit failed.

    Rows labelled 2 b and 2 b + 1 are the halves of block b. Where the rows are confidential, code that is not the
    library's own runs in other processes. The frame of a block holds its rows in their order and is numbered from 0,
    with dtypes that the schema sets: it does not tell of other rows.
    """
    count = _known(rows)
    values, keep = typed_rows(rows, source)
    kept = np.flatnonzero(keep)
    order = kept[np.argsort(labels[kept], kind="stable")]
    starts = np.searchsorted(labels[order], np.arange(2 * count + 1))
    fits = 3 if rows.halves else 1

    def frames(block: int) -> list[pd.DataFrame]:
        labelled = [(2 * block, 2 * block + 2), (2 * block, 2 * block + 1), (2 * block + 1, 2 * block + 2)]
        mine = [np.sort(order[starts[first] : starts[last]]) for first, last in labelled[:fits]]
        return [_frame(rows.schema, {name: values[name][part] for name in rows.schema}) for part in mine]

    if (private and not rows.own) or (not private and rows.workers not in (None, 1)):
        fitted, width, workers = _Parts(rows.estimator, rows.size), (fits, rows.size), rows.workers or -1
        return fit_apart(fitted, frames, count=count, width=width, n_jobs=workers, progress=rows.progress)
    found = [[fit_here(rows.estimator, part, width=rows.size) for part in frames(b)] for b in range(count)]
    return np.array(found)


@dataclass(frozen=True)
class _Parts:
    """Fits a block and its halves in another process; a fit that fails leaves the others."""

    estimator: Callable[[pd.DataFrame], Any]
    size: int

    @property
    def __name__(self) -> str:
        """What errors call it: as the user does."""
        return str(getattr(self.estimator, "__name__", type(self.estimator).__name__))

    def __call__(self, frames: list[pd.DataFrame]) -> Array:
        return np.stack([self._fit(frame) for frame in frames])

    def _fit(self, frame: pd.DataFrame) -> Array:
        try:
            return as_floats(self.estimator(frame), self.size)
        except MemoryError:  # may be the doing of other blocks: the worker tries again
            raise
        except BaseException:
            return np.full(self.size, np.nan)


def _frame(schema: Mapping[str, Column], values: Mapping[str, Array]) -> pd.DataFrame:
    columns: dict[str, object] = {}
    for name, column in schema.items():
        if isinstance(column, Category):
            columns[name] = pd.Categorical.from_codes(
                values[name].astype(np.intp), categories=_labels_of(column), ordered=True
            )
        else:
            whole = isinstance(column, Integer | Boolean)
            columns[name] = values[name].astype(np.int64) if whole else values[name]
    return pd.DataFrame(columns)


def _labels_of(column: Category) -> pd.Index[Any]:
    distinct = len(set(column.levels)) == len(column.levels)
    return pd.Index(column.levels if distinct else column.level_texts, dtype=object)


def block_run(rows: Blocks, source: Source, draws: Draws) -> BlockValues:
    """Deal the rows into blocks, all rows of a person into one, and fit them."""
    halves = 2 * _known(rows)
    if isinstance(source, KeptSource):
        labels = draws.labels(source.people, halves)[source.persons]
    else:
        labels = draws.labels(source.rows, halves)
    return block_values(block_fits(rows, source, labels, private=draws.private), rows.region)


def _known(rows: Blocks) -> int:
    if rows.count is None:
        raise OptionError("count", None, "a whole number of blocks: none is dealt before it is known")
    return rows.count
