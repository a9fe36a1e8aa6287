"""Categorical factors of a formula: which column, which levels in which order, which contrasts."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
from formulaic.transforms.contrasts import (
    C,
    DiffContrasts,
    HelmertContrasts,
    PolyContrasts,
    SASContrasts,
    SumContrasts,
    TreatmentContrasts,
)

from dpinfer.errors import FormulaError, UnknownColumnError
from dpinfer.schema.category import Category
from dpinfer.schema.syntax import Names, function_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.schema.column import Column
    from dpinfer.schema.schema import Schema

__all__ = ["CategoricalFactor", "bare_factor", "marked_factor"]

_SHAPES: dict[str, tuple[type[Any], tuple[str, ...]]] = {
    "contr.treatment": (TreatmentContrasts, ("base",)),
    "contr.SAS": (SASContrasts, ("base",)),
    "contr.sum": (SumContrasts, ()),
    "contr.helmert": (HelmertContrasts, ("reverse", "scale")),
    "contr.diff": (DiffContrasts, ("backward",)),
    "contr.poly": (PolyContrasts, ("scores",)),
    "Treatment": (TreatmentContrasts, ("reference",)),
    "Sum": (SumContrasts, ()),
    "Helmert": (HelmertContrasts, ("reverse", "scale")),
    "Diff": (DiffContrasts, ("backward",)),
    "Poly": (PolyContrasts, ("scores",)),
}


@dataclass(frozen=True, eq=False)
class CategoricalFactor:
    """A column taken as a category.

    Attributes
    ----------
    name : str
        The column.
    levels : tuple of str
        Canonical text of the column's levels, in the column's order.
    order : tuple of int
        The columns' level indices in the order of the coding.
    contrasts : formulaic Contrasts
        The coding.
    """

    name: str
    levels: tuple[str, ...]
    order: tuple[int, ...]
    contrasts: Any

    @property
    def ordered_levels(self) -> list[str]:
        """Level texts in the order of the coding."""
        return [self.levels[index] for index in self.order]

    def public_values(self, rows: int) -> Any:
        """Repeat the levels in turn, marked for formulaic with the contrasts and the order of the levels."""
        levels = [self.levels[row % len(self.levels)] for row in range(rows)]
        return C(pd.Series(levels, dtype=object), self.contrasts, levels=self.ordered_levels)

    def weights(self, *, reduced: bool) -> list[tuple[float, ...]]:
        """Give the columns of the coding: for each, the weight of every level by the column's level index."""
        coding = self.contrasts.get_coding_matrix(self.ordered_levels, reduced_rank=reduced).to_numpy()
        position = {index: row for row, index in enumerate(self.order)}
        rows = [coding[position[index]] for index in range(len(self.levels))]
        return [tuple(float(row[j]) for row in rows) for j in range(coding.shape[1])]


def bare_factor(name: str, column: Column) -> CategoricalFactor:
    """Take a category column with treatment coding, its first level the reference."""
    levels = column.level_texts
    return CategoricalFactor(name, levels, tuple(range(len(levels))), TreatmentContrasts())


def marked_factor(text: str, schema: Schema) -> CategoricalFactor | None:
    """Read a factor such as ``C(race, contr.treatment("b"))``.

    Parameters
    ----------
    text : str
        The factor.
    schema : Schema
        Declares the columns.

    Returns
    -------
    CategoricalFactor or None
        None if the text is no call of ``C``.

    Raises
    ------
    FormulaError
        If the column has no levels, or the contrasts or the levels are not allowed.
    UnknownColumnError
        If the column is not in the schema.
    """
    names = Names()
    try:
        call = ast.parse(names.quote(text).strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    if not isinstance(call, ast.Call) or function_name(call.func) != "C":
        return None
    arguments = _arguments(text, call, ("data", "contrasts"), ("levels",))
    name = _column_name(text, arguments.pop("data", None), names)
    if name not in schema:
        raise UnknownColumnError(name, schema)
    column = schema[name]
    levels = column.level_texts
    if not levels:
        raise FormulaError(
            text,
            f"{name} is declared as {column!r}, which has no levels" + _too_many(column),
            f"declare it as a Category, or use ranges such as I({name} > {getattr(column, 'lower', 0):g})",
        )
    order = _order(text, arguments.get("levels"), column)
    contrasts = _contrasts(text, arguments.get("contrasts"), column)
    return CategoricalFactor(name, levels, order, contrasts)


def _too_many(column: Column) -> str:
    return " (or more than a hundred)" if column.kind == "integer" else ""


def _arguments(text: str, call: ast.Call, positional: Sequence[str], keywords: Sequence[str]) -> dict[str, ast.expr]:
    allowed = [*positional, *keywords]
    if len(call.args) > len(positional) or any(isinstance(a, ast.Starred) for a in call.args):
        raise FormulaError(text, "has too many arguments by position", f"allowed: {', '.join(allowed) or 'none'}")
    found = dict(zip(positional, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg not in allowed or keyword.arg in found:
            raise FormulaError(
                text, f"the argument {keyword.arg} is not allowed", f"allowed: {', '.join(allowed) or 'none'}"
            )
        found[keyword.arg] = keyword.value
    return found


def _column_name(text: str, node: ast.expr | None, names: Names) -> str:
    if isinstance(node, ast.Call) and function_name(node.func) == "Q" and len(node.args) == 1:
        node = ast.Name(str(_value(text, node.args[0])))
    if not isinstance(node, ast.Name):
        raise FormulaError(
            text,
            "C() takes the name of a column",
            "write an expression of columns without C(), as in I(age > 40)",
        )
    return names.name(node.id)


def _value(text: str, node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        raise FormulaError(text, f"{ast.unparse(node)} is no constant", "write the constant itself") from None


def _level_index(text: str, value: object, column: Column) -> int:
    levels = column.level_texts
    spelled = Category(levels).find(value) if isinstance(value, str | int | float) else None
    if isinstance(column, Category) and isinstance(value, str | int | float):
        spelled = column.find(value)
    if spelled is None:
        raise FormulaError(text, f"{value!r} is not a level", f"the levels are {', '.join(map(repr, levels))}")
    return spelled


def _order(text: str, node: ast.expr | None, column: Column) -> tuple[int, ...]:
    count = len(column.level_texts)
    if node is None:
        return tuple(range(count))
    values = _value(text, node)
    if not isinstance(values, list | tuple):
        raise FormulaError(text, "levels is not a list", "write levels=['a', 'b']")
    order = tuple(_level_index(text, value, column) for value in values)
    if sorted(order) != list(range(count)):
        every = ", ".join(map(repr, column.level_texts))
        raise FormulaError(text, "levels has to name every level of the column once", f"the levels are {every}")
    return order


def _contrasts(text: str, node: ast.expr | None, column: Column) -> Any:
    if node is None:
        return TreatmentContrasts()
    called = isinstance(node, ast.Call)
    name = function_name(node.func if isinstance(node, ast.Call) else node)
    if name not in _SHAPES:
        raise FormulaError(text, f"{ast.unparse(node)} is not an allowed contrast", f"allowed: {', '.join(_SHAPES)}")
    shape, parameters = _SHAPES[name]
    if not called:
        return shape()
    given = _arguments(text, node, parameters, ()) if isinstance(node, ast.Call) else {}
    options: dict[str, Any] = {}
    for key, value in given.items():
        options["base" if key == "reference" else key] = _option(text, key, _value(text, value), column)
    return shape(**options)


def _option(text: str, name: str, value: Any, column: Column) -> Any:
    if name in ("base", "reference"):
        return column.level_texts[_level_index(text, value, column)]
    if name == "scores":
        count = len(column.level_texts)
        numbers = isinstance(value, list | tuple) and all(type(v) in (int, float) for v in value)
        if not numbers or len(value) != count or len(set(value)) != count:
            raise FormulaError(text, "scores does not fit", f"write a list of {count} different numbers")
        return list(value)
    if not isinstance(value, bool):
        raise FormulaError(text, f"{name}={value!r} is not valid", "expected True or False")
    return value
