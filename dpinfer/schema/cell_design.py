"""Formulas in the factors of a table: its cells as the rows of a design."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import CollinearDesignError, FormulaError, OptionError
from dpinfer.schema.axes import compile_condition
from dpinfer.schema.columns import Boolean, Category, Integer
from dpinfer.schema.formula import compile_formula
from dpinfer.schema.points import FormulaDesign
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["MOST_CELLS", "MOST_COLUMNS", "CellTable", "one_sided", "quoted_names"]

MOST_CELLS = 2**12
"""Cells of a table that a formula is fitted to."""

MOST_COLUMNS = 200
"""Columns of its design."""

_RANK = 1e-9
_QUOTED = re.compile(r"`([^`]+)`")


def quoted_names(formula: str) -> tuple[str, ...]:
    """Names in backticks, each once: among them are those of conditions."""
    return tuple(dict.fromkeys(_QUOTED.findall(formula)))


def one_sided(formula: object, schema: Schema) -> FormulaDesign:
    """Compile the right side of a formula; refuse one with a left side.

    Raises
    ------
    OptionError, FormulaError, UnknownColumnError
    """
    if not isinstance(formula, str) or not formula.strip():
        raise OptionError("formula", formula, 'a formula in the factors of the table, such as "race * sex"')
    compiled = compile_formula(formula, schema)
    if compiled.response is not None:
        raise FormulaError(formula, "has a left side", "the counts are the response: write the factors alone")
    found = FormulaDesign(schema, compiled.design)
    if not found.variables:
        raise FormulaError(formula, "names no factor", "write at least one, as in 'race + sex'")
    return found


@dataclass(frozen=True, eq=False)
class CellTable:
    """The cells of a table, the last factor running fastest.

    Attributes
    ----------
    names : tuple of str
        What the factors are called.
    labels : tuple of tuple
        The levels of each.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[Any, ...], ...]

    @property
    def size(self) -> int:
        """Number of cells."""
        return prod(len(one) for one in self.labels)

    @cached_property
    def schema(self) -> Schema:
        """A column for each factor."""
        return Schema({name: _column(labels) for name, labels in zip(self.names, self.labels, strict=True)})

    @cached_property
    def codes(self) -> Mapping[str, NDArray[np.intp]]:
        """Level of each cell (d,), by factor."""
        shape = [len(one) for one in self.labels]
        places = np.unravel_index(np.arange(self.size), shape)
        return dict(zip(self.names, (place.astype(np.intp) for place in places), strict=True))

    @cached_property
    def values(self) -> dict[str, Array]:
        """Value of each cell (d,), by factor: numbers, or of a category the places of levels."""
        found = {}
        for name, labels in zip(self.names, self.labels, strict=True):
            plain = isinstance(self.schema[name], Category)
            numbers = np.arange(len(labels)) if plain else np.array([float(label) for label in labels])
            found[name] = numbers.astype(np.float64)[self.codes[name]]
        return found

    def excluded(self, condition: str | None) -> NDArray[np.bool_]:
        """Cells (d,) that a condition on the factors holds at: those that cannot be.

        Raises
        ------
        OptionError, FormulaError, UnknownColumnError
            If it is no condition on the factors, or holds everywhere.
        """
        if condition is None:
            return np.zeros(self.size, dtype=bool)
        if not isinstance(condition, str):
            raise OptionError("exclude", condition, "a condition on the factors, or None")
        compiled = compile_condition(condition, self.schema)
        found = np.broadcast_to(compiled.evaluate({n: self.values[n] for n in compiled.columns}), (self.size,)) > 0.5
        if found.all():
            raise OptionError("exclude", condition, "a condition that leaves cells")
        return np.asarray(found)

    def design(self, formula: str, exclude: str | None = None) -> tuple[FormulaDesign, Array]:
        """Return the columns of a formula, and the design (d, p) of the cells that are not excluded.

        Raises
        ------
        OptionError, FormulaError, UnknownColumnError
            If the formula is none in these factors.
        CollinearDesignError
            If its columns depend on each other in these cells.
        """
        found = one_sided(formula, self.schema)
        check_size(self.size, len(found.columns))
        rows = found.rows(self.values, self.size)[~self.excluded(exclude)]
        lengths = np.sqrt((rows**2).sum(axis=0))
        sizes = np.linalg.svd(rows / np.where(lengths > 0, lengths, 1.0), compute_uv=False)
        if len(rows) < rows.shape[1] or sizes[-1] <= _RANK * sizes[0]:
            raise CollinearDesignError(
                formula,
                f"has {rows.shape[1]} columns that depend on each other in the {len(rows)} cells",
                "leave out terms" if exclude is None else "leave out terms, or exclude fewer cells",
            )
        return found, rows


def check_size(cells: int, columns: int) -> None:
    """Refuse a table, or a formula, too large to be fitted.

    Raises
    ------
    OptionError
    """
    if cells > MOST_CELLS or columns > MOST_COLUMNS:
        raise OptionError(
            "formula",
            f"{columns} coefficients of {cells:,} cells",
            f"at most {MOST_COLUMNS} coefficients and {MOST_CELLS:,} cells; name fewer factors, or coarser ones",
        )


def _column(labels: Sequence[Any]) -> Any:
    if tuple(labels) == (False, True):
        return Boolean()
    whole = all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in labels)
    if whole and len(labels) > 1 and list(labels) == list(range(int(labels[0]), int(labels[0]) + len(labels))):
        return Integer(int(labels[0]), int(labels[-1]))
    return Category(tuple(str(one) for one in labels))
