"""Columns of a design that are zero outside of one level of a factor, for fits with near-empty levels."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import MissingFromReleaseError
from dpinfer.inference.rare import LevelColumns
from dpinfer.schema.basis import represent
from dpinfer.schema.expressions import constant_expression
from dpinfer.schema.formula import DesignColumn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpinfer.numerics.arrays import Array
    from dpinfer.schema.basis import Basis
    from dpinfer.schema.expressions import Expression
    from dpinfer.schema.schema import Schema

__all__ = ["level_columns"]

_TOLERANCE = 1e-7

Cell = tuple[tuple[str, int], ...]
"""A level of each of some factors, by its index."""


def level_columns(
    design: Sequence[DesignColumn], response: DesignColumn, basis: Basis, weights: Array
) -> LevelColumns | None:
    """Return the columns of single levels in the span of a design; None if it has no factors.

    Parameters
    ----------
    design : sequence of DesignColumn, length p
    response : DesignColumn
    basis : Basis
        The features that were measured.
    weights : ndarray (p, d)
        The design as combinations of the features.

    Notes
    -----
    For every numeric expression the largest sets of factors that it is crossed with are taken, and every cell of
    their levels. The constant gives the indicator of a cell; its functional is the mean response if all rows were in
    that cell, which lies in the declared range of the response. Another expression is scaled to -1 and 1 where the
    design holds the indicator too; half of the change of the response from one end of its bounds to the other is at
    most half the range.
    """
    if not any(column.codings for column in design):
        return None
    schema = basis.schema
    middle, half = 0.5 * (response.expression.lower + response.expression.upper), _half(response.expression)
    names, features, columns, targets, bounds, slopes = [], [], [], [], [], []
    cells: list[Cell] = []
    groups: list[tuple[str, ...]] = []
    for expression, cell in _cells(design, schema):
        found = _in_span(expression, cell, basis, weights)
        if found is None:
            continue
        feature, own, scale = found
        constant = expression.constant is not None
        names.append(_label(expression, cell, schema))
        features.append(feature)
        columns.append(own)
        targets.append(middle if constant else 0.0)
        bounds.append(half if constant else half * scale / _half(expression))
        slopes.append(None if constant else scale * _slope(design, expression, cell))
        cells.append(cell)
        groups.append((expression.text, *(name for name, _ in cell)))
    if not names:
        return None

    def functional(place: int) -> Array:
        slope = slopes[place]
        if slope is not None:
            return np.outer(slope, np.eye(weights.shape[1])[0])
        return _moved(design, cells[place], basis)

    return LevelColumns(
        names=tuple(names),
        features=np.array(features),
        columns=np.array(columns),
        groups=np.array([groups.index(group) for group in groups]),
        targets=np.array(targets),
        bounds=np.array(bounds),
        functional=functional,
    )


def _half(expression: Expression) -> float:
    return 0.5 * (expression.upper - expression.lower)


def _cells(design: Sequence[DesignColumn], schema: Schema) -> Iterator[tuple[Expression, Cell]]:
    """Every expression with every cell of the largest sets of factors that it is crossed with."""
    crossed: dict[str, tuple[Expression, set[tuple[str, ...]]]] = {}
    for column in design:
        factors = tuple(sorted(name for name, _ in column.codings))
        if factors:
            crossed.setdefault(column.expression.text, (column.expression, set()))[1].add(factors)
    for expression, sets in crossed.values():
        for factors in sorted(sets):
            if any(set(factors) < set(other) for other in sets):
                continue
            for levels in product(*(range(len(schema[name].level_texts)) for name in factors)):
                yield expression, tuple(zip(factors, levels, strict=True))


def _in_span(expression: Expression, cell: Cell, basis: Basis, weights: Array) -> tuple[Array, Array, float] | None:
    """Write a cell's column over features and over the design, with what one unit of the expression is divided by."""
    schema = basis.schema
    codings = tuple((name, _indicator(level, len(schema[name].level_texts))) for name, level in cell)
    column = DesignColumn("", "", expression, codings)
    try:
        feature = represent(basis, [column], independent=False)[0]
        if expression.constant is not None:
            return _over_design(feature, weights, 1.0)
        one = represent(basis, [replace(column, expression=constant_expression(1.0))], independent=False)[0]
    except MissingFromReleaseError:
        return None
    half, middle = _half(expression), 0.5 * (expression.lower + expression.upper)
    centred = _over_design((feature - middle * one) / half, weights, half)
    widest = max(abs(expression.lower), abs(expression.upper))
    return centred or _over_design(feature / widest, weights, widest)


def _over_design(feature: Array, weights: Array, scale: float) -> tuple[Array, Array, float] | None:
    sizes = np.linalg.norm(weights, axis=1)
    own = np.linalg.lstsq((weights / sizes[:, None]).T, feature, rcond=None)[0] / sizes
    if np.abs(own @ weights - feature).max() > _TOLERANCE * np.abs(feature).max():
        return None
    own[np.abs(own) * sizes < _TOLERANCE * (np.abs(own) * sizes).max()] = 0.0
    return feature, own, scale


def _indicator(level: int, count: int) -> tuple[float, ...]:
    return tuple(float(index == level) for index in range(count))


def _slope(design: Sequence[DesignColumn], expression: Expression, cell: Cell) -> Array:
    """Combine the coefficients (p,) to the change of the mean with an expression in a cell."""
    chosen = dict(cell)
    found = np.zeros(len(design))
    for place, column in enumerate(design):
        if column.expression.text == expression.text:
            found[place] = math.prod(
                level[chosen[name]] if name in chosen else math.fsum(level) / len(level)
                for name, level in column.codings
            )
    return found


def _moved(design: Sequence[DesignColumn], cell: Cell, basis: Basis) -> Array:
    """Write the design of rows that are all in one cell as combinations of the features (p, d)."""
    chosen = dict(cell)
    factors = [math.prod(level[chosen[name]] for name, level in column.codings if name in chosen) for column in design]
    left = [
        replace(column, codings=tuple(coding for coding in column.codings if coding[0] not in chosen))
        for column in design
    ]
    return np.asarray(np.array(factors)[:, None] * represent(basis, left, independent=False))


def _label(expression: Expression, cell: Cell, schema: Schema) -> str:
    where = " and ".join(f"{name} = {schema[name].level_texts[level]}" for name, level in cell)
    return where if expression.constant is not None else f"{expression.text} where {where}"
