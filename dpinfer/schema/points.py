"""The columns of a formula at public points: what a prediction is made from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import FormulaError, OptionError, UnknownColumnError
from dpinfer.schema.column import DROP, plain_scalar
from dpinfer.schema.columns import Boolean, Category, Date, Real

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from dpinfer.schema.formula import DesignColumn
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["FormulaDesign"]

_NUMBERS = Real(0, 1)
"""Reads numbers of any storage; its bounds are not applied."""


@dataclass(frozen=True, eq=False)
class FormulaDesign:
    """The right side of a formula, evaluated at public points and never at rows.

    Attributes
    ----------
    schema : Schema
        Declares levels and bounds.
    columns : tuple of DesignColumn, length p
        The compiled columns, in the order of the parameters.

    Examples
    --------
    >>> import pandas as pd
    >>> from dpinfer.schema import Category, Real, Schema, compile_formula
    >>> schema = Schema(y=Real(0, 1), age=Real(0, 100), race=Category(["a", "b"]))
    >>> design = FormulaDesign(schema, compile_formula("y ~ age + I(age**2) + race", schema).design)
    >>> design.rows(design.read(pd.DataFrame({"age": [3, 120], "race": ["a", "b"]}))).tolist()
    [[1.0, 3.0, 9.0, 0.0], [1.0, 120.0, 14400.0, 1.0]]
    """

    schema: Schema
    columns: tuple[DesignColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """Schema columns read, in the order in which the design names them."""
        return tuple(dict.fromkeys(name for column in self.columns for name in column.columns))

    @cached_property
    def terms(self) -> dict[str, tuple[int, ...]]:
        """Positions of the columns of each term; the constant's term is called "Intercept"."""
        found: dict[str, tuple[int, ...]] = {}
        for place, column in enumerate(self.columns):
            term = "Intercept" if column.term == "1" else column.term
            found[term] = (*found.get(term, ()), place)
        return found

    @cached_property
    def coded(self) -> frozenset[str]:
        """Schema columns that the formula takes as factors."""
        return frozenset(name for column in self.columns for name, _ in column.codings)

    def read(self, points: pd.DataFrame) -> dict[str, Array]:
        """Read public points.

        Parameters
        ----------
        points : DataFrame (m, ...)
            Columns of the schema; those that the formula does not read are not looked at.

        Returns
        -------
        dict of str to ndarray (m,)
            Numbers by schema column; of a category the indices of levels. Values beyond declared bounds stay.

        Raises
        ------
        UnknownColumnError
            Where a column is missing.
        OptionError
            Where a value is no declared level, or no finite number.
        """
        for name in self.variables:
            if name not in points.columns:
                raise UnknownColumnError(name, points.columns, "exog")
        return {name: self._read(name, points[name]) for name in self.variables}

    def holds_cells(self, points: pd.DataFrame) -> bool:
        """Whether dates, or codes of truth values, are among the points: cells, and not numbers."""
        coded = [name for name in self.variables if isinstance(self.schema[name], Date | Boolean) and name in points]
        return any(not isinstance(points[name].dtype, np.dtype) or points[name].dtype.kind in "OMSU" for name in coded)

    def _read(self, name: str, given: pd.Series[Any]) -> Array:
        column = self.schema[name]
        if isinstance(column, Category):
            found = [column.find(value) for value in given.tolist()]
            wrong = np.array([index is None for index in found], dtype=bool)
            values = np.array([0 if index is None else index for index in found], dtype=np.float64)
            expected: str | Sequence[object] = column.levels
        else:
            plain = given.dtype.kind in "iufb" and isinstance(given.dtype, np.dtype)
            cells = given.to_numpy() if plain else given.to_numpy(dtype=object)
            values = _NUMBERS.coerce(cells)
            if isinstance(column, Date | Boolean):  # dates and codes are read as cells, numbers as what they stand for
                values = np.where(
                    np.isfinite(values), values, replace(column, missing=DROP, impossible=DROP).coerce(cells)
                )
            wrong, expected = ~np.isfinite(values), "a finite number"
            if name in self.coded:
                levels = column.level_texts
                lower = float(getattr(column, "lower", 0.0))
                with np.errstate(invalid="ignore"):
                    off = (values != np.floor(values)) | (values < lower) | (values >= lower + len(levels))
                wrong, expected = wrong | off, levels
        if wrong.any():
            value = plain_scalar(given.iloc[int(np.argmax(wrong))])
            wanted = expected if isinstance(expected, str) else "one of " + ", ".join(map(repr, expected))
            raise OptionError(f"exog[{name!r}]", value, wanted)
        return np.array(values, dtype=np.float64)

    def rows(self, values: Mapping[str, Array], size: int | None = None) -> Array:
        """Return the design (m, p) at values as `read` gives them, of ``size`` points if no column is read.

        Raises
        ------
        FormulaError
            Where a term has no finite value at a point.
        """
        count = next((len(one) for one in values.values()), 1) if size is None else size
        return np.column_stack([self._column(column, values, count) for column in self.columns])

    def _column(self, column: DesignColumn, values: Mapping[str, Array], count: int) -> Array:
        used = {name: values[name] for name in column.expression.columns}
        found = np.broadcast_to(column.expression.evaluate(used), (count,)).astype(np.float64)
        if not np.isfinite(found).all():
            place = int(np.argmin(np.isfinite(found)))
            where = ", ".join(f"{name} = {self.cell(name, used[name][place])}" for name in used)
            raise FormulaError(column.term, f"has no finite value at {where}", "give points where it is defined")
        for name, weights in column.codings:
            found = found * np.array(weights)[self.schema[name].level_index(values[name])]
        return found

    def cell(self, name: str, value: float) -> str:
        """Write a value of a column: a level as its text, a number as number."""
        column = self.schema[name]
        return column.level_texts[int(value)] if isinstance(column, Category) else f"{value:.6g}"
