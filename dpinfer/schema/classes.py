"""Classes of cells: which is a value within bounds, which is clamped, missing, impossible or no declared level."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer.schema.category import Category
from dpinfer.schema.clamping import limits_of
from dpinfer.schema.real import Integer, Real

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.schema.column import Column

    Array = NDArray[np.float64]

__all__ = [
    "CELL_CLASSES",
    "HIGH",
    "IMPOSSIBLE",
    "LOW",
    "MISSING",
    "ROWS_KEPT",
    "UNKNOWN",
    "VALID",
    "cell_classes",
    "class_places",
    "octave_ends",
]

VALID, LOW, HIGH, MISSING, IMPOSSIBLE, UNKNOWN = CELL_CLASSES = (
    "valid",
    "clamped low",
    "clamped high",
    "missing",
    "impossible",
    "unknown level",
)

ROWS_KEPT = "rows kept"
"""Rows without a cell that drops them."""


def cell_classes(column: Column) -> tuple[str, ...]:
    """Return the classes of a column's cells: numbers and dates have bounds, a Category has levels."""
    if isinstance(column, Real):
        return (VALID, LOW, HIGH, MISSING, IMPOSSIBLE)
    return (VALID, MISSING, UNKNOWN if isinstance(column, Category) else IMPOSSIBLE)


def class_places(column: Column, values: Array) -> NDArray[np.intp]:
    """Return the place in `cell_classes` of each cell (m,), from what the column's `meaning` of it is."""
    listed, (lower, upper) = cell_classes(column), limits_of(column)
    known = np.isfinite(values)
    places = np.where(known, listed.index(VALID), np.where(np.isnan(values), listed.index(MISSING), len(listed) - 1))
    if LOW in listed:
        places[known & (values < lower)] = listed.index(LOW)
        places[known & (values > upper)] = listed.index(HIGH)
    return places


def octave_ends(column: Column, least: int, most: int) -> Array:
    """Return the ends of a column's octaves: its bounds, and what is between them of plus and minus 2^k.

    The exponents run from ``least`` to ``most``; those of whole numbers from 0.
    """
    lower, upper = limits_of(column)
    first = max(least, 0) if isinstance(column, Integer) else least
    powers = np.exp2(np.arange(first, max(most, first) + 1, dtype=np.float64))
    inner = np.concatenate([-powers[::-1], powers])
    return np.concatenate([[lower], inner[(inner > lower) & (inner < upper)], [upper]])
