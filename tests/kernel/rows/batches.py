"""Rows of cells of any type as the batches that row sums add up."""

import numpy as np

from dpinfer.kernel.rows.base import Batch


def objects(cells):
    """Return an array of one object a cell, whatever the cells are."""
    found = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        found[place] = cell
    return found


def raw_of(names, cells):
    """Return columns of object cells from rows, each a mapping."""
    return {name: objects([row[name] for row in cells]) for name in names}


def batch_of(rows, cells, **options):
    return Batch(raw_of(rows.columns, cells), len(cells), **options)


def added(rows, *cells, **options):
    """Return the exact sums of some rows as whole Python numbers."""
    found = rows.add(batch_of(rows, cells, **options))
    assert found.dtype == np.int64
    return found[0].astype(object)
