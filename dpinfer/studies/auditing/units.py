"""Units that hurt: cells of a schema at, beyond and beside its bounds, and data sets that differ in one unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.kernel.people import KeptSource
from dpinfer.kernel.sources import open_table
from dpinfer.schema.columns import Boolean, Category, Integer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.kernel.sources import Table
    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.schema import Schema

__all__ = ["ODD", "Pair", "Units", "frame_of", "source_of"]

ODD: tuple[Any, ...] = (None, float("nan"), float("inf"), -1e308, 1e308, "oops", 2 + 1j, "", b"x", -0.0)
"""Cells that are missing, impossible, far beyond any bound, or of other types."""

_ODD_SHARE = 0.12
_OWN_SHARE = 0.25
"""Of units made from the user's rows."""

Unit = dict[str, list[Any]]
"""The cells of one unit, by column: one row, or the rows of a person; no row at all is a unit that is not there."""


@dataclass(frozen=True, eq=False, slots=True)
class Pair:
    """What neighbours differ in: one has the first unit where the other has the second, or nothing."""

    first: Unit | None
    second: Unit | None

    def __str__(self) -> str:
        return f"{_told(self.first)} / {_told(self.second)}"


def _told(unit: Unit | None) -> str:
    if unit is None:
        return "no unit"
    rows = [dict(zip(unit, cells, strict=True)) for cells in zip(*unit.values(), strict=True)]
    shown = [", ".join(f"{name}={cell!r}" for name, cell in row.items()) for row in rows]
    return "; ".join(dict.fromkeys(shown))


class Units:
    """Draws units of a schema for a neighbour relation.

    Parameters
    ----------
    schema : Schema
    neighbors : {"add_remove", "replace_one"}
    rng : numpy.random.Generator
    rows : DataFrame, optional
        Public rows whose cells are tried too.
    """

    def __init__(
        self, schema: Schema, neighbors: Neighbors, rng: np.random.Generator, rows: pd.DataFrame | None = None
    ) -> None:
        self.schema, self.neighbors, self.rng = schema, neighbors, rng
        self.size = schema.rows_per_unit
        self._likely = {name: _likely(schema[name]) for name in schema}
        self._own = None if rows is None else {name: rows[name].tolist() for name in schema}

    def cell(self, name: str) -> Any:
        """Draw a cell of a column."""
        if self.rng.random() < _ODD_SHARE:
            return ODD[self.rng.integers(len(ODD))]
        column, likely = self.schema[name], self._likely[name]
        if isinstance(column, Category | Boolean) or self.rng.random() < 0.7:
            return likely[self.rng.integers(len(likely))]
        inner = column.lower + (column.upper - column.lower) * self.rng.random()  # type: ignore[attr-defined]
        return round(inner) if isinstance(column, Integer) else float(inner)

    def draw(self) -> Unit:
        """Draw a unit: rows of extreme cells, one of the user's, or one with a single odd kind of cell."""
        if self._own is not None and self.rng.random() < _OWN_SHARE:
            places = self.rng.integers(len(next(iter(self._own.values()))), size=self.size)
            return {name: [cells[place] for place in places] for name, cells in self._own.items()}
        if self.rng.random() < 0.5:  # all rows alike, which moves sums the furthest
            return {name: [self.cell(name)] * self.size for name in self.schema}
        return {name: [self.cell(name) for _ in range(self.size)] for name in self.schema}

    def corners(self) -> list[Unit]:
        """Units at the lower ends, at the upper ends, and with each odd cell everywhere."""
        ends = [{name: [self._likely[name][place]] * self.size for name in self.schema} for place in (0, 1)]
        return ends + [{name: [odd] * self.size for name in self.schema} for odd in ODD]

    def mutated(self, unit: Unit) -> Unit:
        """Change a cell, in one row or in all of them."""
        name = list(self.schema)[self.rng.integers(len(self.schema))]
        cells, cell = list(unit[name]), self.cell(name)
        if self.rng.random() < 0.5:
            cells = [cell] * self.size
        else:
            cells[self.rng.integers(self.size)] = cell
        return {**unit, name: cells}


def _likely(column: Any) -> list[Any]:
    """Cells at the ends of a column and next to them."""
    if isinstance(column, Boolean):
        return [False, True]
    if isinstance(column, Category):
        return list(column.levels)
    lower, upper = column.lower, column.upper
    if isinstance(column, Integer):
        return [lower, upper, lower - 1, upper + 1, str(upper)]
    return [lower, upper, float(np.nextafter(lower, upper)), float(np.nextafter(upper, np.inf)), str(upper)]


# Data sets


def frame_of(base: pd.DataFrame, unit: Unit | None, schema: Schema, place: int | None = None) -> pd.DataFrame:
    """Return the rows with a unit among them, behind so many rows; columns have the storage that their cells bring."""
    place = len(base) if place is None else place
    found = {}
    for name in schema:
        cells = base[name].tolist()
        if unit is not None:
            cells[place:place] = unit[name]
        found[name] = _column(cells)
    if schema.people is not None:
        ids = base[schema.people.id].tolist()
        if unit is not None:
            ids[place:place] = ["the unit"] * schema.rows_per_unit
        found[schema.people.id] = pd.Series(ids, dtype=object)
    return pd.DataFrame(found)


def _column(cells: Sequence[Any]) -> pd.Series[Any]:
    try:
        return pd.Series(cells)
    except Exception:  # cells that pandas finds no storage for
        return pd.Series(cells, dtype=object)


def source_of(frame: pd.DataFrame | Mapping[str, Any], schema: Schema) -> Table:
    """Open rows as the kernel does: of people those that count."""
    source = open_table(frame)
    return source if schema.people is None else KeptSource(source, schema)
