"""Sample-and-aggregate: rows are dealt into secret blocks, each is fitted, and noisy sums of the fits are drawn.

One row is in one block, by a label that is drawn for it alone and never kept. Whatever the rows are, a neighbour
with the same labels differs in one block; and the fit of a block is a function of the rows of that block.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dpinfer.kernel.people import BUCKETS, KeptSource, Spill
from dpinfer.kernel.rows.base import CHUNK_ROWS, Array, Cells, Flags, Ints, Places
from dpinfer.kernel.rows.blocks import Blocks, BlockValues, block_values
from dpinfer.kernel.sources.base import Pass, Slice, Source, Table
from dpinfer.kernel.workers import fit_apart, fit_here
from dpinfer.schema.columns import Boolean, Category, Column, Integer, clamped_values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dpinfer.kernel.sampling import Draws
    from dpinfer.schema.nodes import Expression
    from dpinfer.schema.schema import Schema

_KEYS = 2**53
"""Keys that are drawn for rows, so that equal ones are rare: whole numbers that floats tell apart."""


def typed_rows(rows: Blocks, source: Table) -> tuple[dict[str, Array], Flags]:
    """Read all rows as numbers (n,) within their declared bounds; and which are kept.

    Of a category they are places of levels. Dropped are rows with a missing or impossible cell, and those that do not
    meet the condition. Each value depends on its own cell, and ``keep`` on its own row.
    """
    values = {name: np.empty(source.rows) for name in rows.columns}
    keep = np.ones(source.rows, dtype=bool)
    for batch in source.batches(rows.columns, CHUNK_ROWS):
        mine = slice(batch.start, batch.start + batch.rows)
        found, keep[mine], _ = _typed(rows.schema, rows.where, batch.read(), batch)
        for name in rows.columns:
            values[name][mine] = found[name]
    return values, keep


def _typed(
    schema: Schema, where: Expression | None, cells: Mapping[str, Cells], batch: Slice
) -> tuple[dict[str, Array], Flags, Ints | None]:
    with np.errstate(all="ignore"):
        found, keep = clamped_values(schema, sorted(schema), cells, batch.rows)
        values = {name: one + 0.0 for name, one in found.items()}  # never -0.0
        if where is not None:
            keep &= where.evaluate(values) > 0.5
    return values, keep, batch.persons


def block_fits(rows: Blocks, source: Table, labels: Places, *, private: bool, keys: Places | None = None) -> Array:
    """Fit every block of rows in memory, and its halves where these are asked for.

    Rows labelled 2 b and 2 b + 1 are the halves of block b. Of a half with too many rows those of the smallest keys are
    fitted. See `_fitted` for what is returned.
    """
    values, keep = typed_rows(rows, source)
    kept = np.flatnonzero(keep)
    order = kept[np.argsort(labels[kept], kind="stable")]
    if rows.most_of_half is not None and keys is not None:
        order = order[np.lexsort((keys[order], labels[order]))]
        first = np.searchsorted(labels[order], labels[order])
        order = order[np.arange(len(order)) - first < rows.most_of_half]
    assert rows.count is not None
    starts = np.searchsorted(labels[order], np.arange(2 * rows.count + 1))

    def part(first: int, last: int) -> dict[str, Array]:
        mine = np.sort(order[starts[first] : starts[last]])
        return {name: values[name][mine] for name in rows.schema}

    return _fitted(rows, part, private=private)


def _fitted(rows: Blocks, part: Callable[[int, int], Mapping[str, Array]], *, private: bool) -> Array:
    """Fit every block, and its halves where these are asked for: (k, f, p) with f = 3 or 1, NaN where a fit failed.

    ``part(first, last)`` returns the rows with these labels, the last one left out. Where the rows are confidential,
    code that is not the library's own runs in other processes. The frame of a block holds its rows in their order and
    is numbered from 0, with dtypes that the schema sets: it does not tell of other rows.
    """
    assert rows.count is not None
    count = rows.count
    fits = 3 if rows.halves else 1

    def frames(block: int) -> list[pd.DataFrame]:
        labelled = [(2 * block, 2 * block + 2), (2 * block, 2 * block + 1), (2 * block + 1, 2 * block + 2)]
        return [_frame(rows.schema, part(first, last)) for first, last in labelled[:fits]]

    if not rows.trusted and (private or rows.workers not in (None, 1)):
        width, workers = (fits, rows.size), rows.workers or -1
        return fit_apart(rows.estimator, frames, count=count, width=width, n_jobs=workers, progress=rows.progress)
    estimators = (rows.estimator, *(2 * (rows.half_estimator,)))[:fits]
    found = [
        [fit_here(one, part, width=rows.size) for one, part in zip(estimators, frames(block), strict=True)]
        for block in range(count)
    ]
    return np.array(found)


def _frame(schema: Mapping[str, Column], values: Mapping[str, Array]) -> pd.DataFrame:
    columns: dict[str, object] = {}
    for name, column in schema.items():
        if isinstance(column, Category):
            distinct = len(set(column.levels)) == len(column.levels)
            labels = pd.Index(column.levels if distinct else column.level_texts, dtype=object)
            columns[name] = pd.Categorical.from_codes(values[name].astype(np.intp), categories=labels, ordered=True)
        else:
            whole = isinstance(column, Integer | Boolean)
            columns[name] = values[name].astype(np.int64) if whole else values[name]
    return pd.DataFrame(columns)


def block_run(rows: Blocks, source: Source, draws: Draws) -> BlockValues:
    """Deal the rows into blocks, all rows of a person into one, and fit them.

    Every row comes here once, and gets its label here: no engine repeats a draw.
    """
    assert rows.count is not None
    halves = 2 * rows.count
    if not isinstance(source, Table):
        return block_values(_fits_from_disk(rows, source, draws), rows.region)
    if isinstance(source, KeptSource):
        labels = draws.labels(source.people, halves)[source.persons]
    else:
        labels = draws.labels(source.rows, halves)
    keys = None if rows.most is None else draws.labels(source.rows, _KEYS)
    return block_values(block_fits(rows, source, labels, private=draws.private, keys=keys), rows.region)


def _fits_from_disk(rows: Blocks, source: Source, draws: Draws) -> Array:
    """Fit blocks whose rows wait on disk: of them only those of the blocks in hand are in memory.

    They are ordered by what they hold, unless the source has an order that one more does not change: an engine may give
    all rows, and people, in another order when there is one more, and a fit may depend on the order.
    """
    assert rows.count is not None
    count, names = rows.count, rows.columns
    buckets = min(count, BUCKETS)
    before = 1 if rows.most is None else 2  # the label; and a key, where some rows are left out

    def part(first: int, last: int) -> dict[str, Array]:
        held = spill.read(first // 2 * buckets // count)
        places = np.concatenate([_of_half(held, label, rows.most_of_half) for label in range(first, last)])
        mine = held[np.sort(places)]
        if not source.ordered:
            mine = mine[np.lexsort(mine[:, before:].T)]
        return {name: np.ascontiguousarray(mine[:, place]) for place, name in enumerate(names, before)}

    with Spill(buckets, np.float64, before + len(names)) as spill:
        for values, keep, persons in source.pieces(Pass(names, partial(_typed, rows.schema, rows.where))):
            mine = np.arange(len(keep)) if persons is None else persons - persons[0]
            labels = draws.labels(int(mine[-1]) + 1, 2 * count)[mine]
            keys = [] if rows.most is None else [draws.labels(len(keep), _KEYS)]
            table = np.column_stack([labels.astype(np.float64), *keys, *(values[name] for name in names)])[keep]
            spill.scatter(labels[keep] // 2 * buckets // count, table)
        return _fitted(rows, part, private=draws.private)


def _of_half(held: Array, label: int, most: int | None) -> Places:
    """Return the places (m,) of the rows with a label in a bucket; where there are too many, of the smallest keys.

    The bucket is read part by part; no more than a part and twice ``most`` rows are held.
    """
    found = np.empty(0, dtype=np.intp)
    parts = [found]
    for start in range(0, len(held), CHUNK_ROWS):
        parts.append(start + np.flatnonzero(held[start : start + CHUNK_ROWS, 0] == label))
        if most is not None and sum(map(len, parts)) > 2 * most:
            parts = [_smallest(held, np.concatenate(parts), most)]
    found = np.concatenate(parts)
    return found if most is None else _smallest(held, found, most)


def _smallest(held: Array, places: Places, most: int) -> Places:
    """Keep the rows of the smallest keys; of equal keys contents decide, so that the order of rows does not."""
    return places[np.lexsort(held[places, :0:-1].T)[:most]] if len(places) > most else places
