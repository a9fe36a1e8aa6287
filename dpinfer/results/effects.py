"""Marginal effects of columns at public design points, and their derivatives by the coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.schema.columns import Boolean, Integer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from dpinfer.results.links import Curve
    from dpinfer.schema.formula import FormulaDesign

    Array = NDArray[np.float64]

__all__ = [
    "Difference",
    "Effect",
    "Points",
    "Slope",
    "column_effects",
    "contrasts_of",
    "is_factor",
    "level_name",
    "reference_level",
]

_STEP = 6e-6
"""Relative step of a central difference: the cube root of the precision of a float."""

_JUMP = 1e3


@dataclass(frozen=True, slots=True)
class Points:
    """Public points: the design (m, p), and where they were given by columns of the schema these as numbers (m,)."""

    rows: Array
    numbers: Mapping[str, Array] | None = None


@dataclass(frozen=True, slots=True)
class Slope:
    """Effect of a unit of something continuous: its direction in the design (m, p), and where it is (m,)."""

    name: str
    direction: Array
    place: Array

    def evaluate(self, points: Points, params: Array, curve: Curve, *, relative: bool) -> tuple[Array, Array]:
        """Return effects (m,) and their derivatives (m, p); of a relative change where ``relative``."""
        predictor = points.rows @ params
        moved, scale = self.direction @ params, self.place if relative else np.ones(len(points.rows))
        slope, curvature = curve.slope(predictor), curve.curvature(predictor)
        gradient = (curvature * moved)[:, None] * points.rows + slope[:, None] * self.direction
        return slope * moved * scale, gradient * scale[:, None]


@dataclass(frozen=True, slots=True)
class Difference:
    """Effect of going from one design (m, p) to another, over ``divisor`` units."""

    name: str
    lower: Array
    upper: Array
    divisor: float = 1.0

    def evaluate(self, points: Points, params: Array, curve: Curve, *, relative: bool) -> tuple[Array, Array]:  # noqa: ARG002
        """Return effects (m,) and their derivatives (m, p)."""
        low, high = self.lower @ params, self.upper @ params
        gradient = curve.slope(high)[:, None] * self.upper - curve.slope(low)[:, None] * self.lower
        return (curve.value(high) - curve.value(low)) / self.divisor, gradient / self.divisor


Effect = Slope | Difference


def column_effects(
    rows: Array, values: Mapping[str, Array], design: FormulaDesign, name: str, *, dummy: bool, change: str = ""
) -> list[Effect]:
    """List the effects of one column of the schema, through all terms that read it.

    Parameters
    ----------
    rows : ndarray (m, p)
        The design at the points.
    values : mapping of str to ndarray (m,)
        Columns of the schema at the points, as numbers.
    design : FormulaDesign
    name : str
        The column.
    dummy : bool
        Whether a truth value goes from false to true; else its slope is taken.
    change : {"", "count", "unit"}
        Of numbers: slopes; half the difference of one more and one less, of whole numbers from 0 on; a change by 1,
        half of it on each side.
    """
    size, declared = len(rows), design.schema[name]

    def at_value(value: Array | float) -> Array:
        return design.rows({**values, name: np.broadcast_to(np.asarray(value, dtype=np.float64), (size,))}, size)

    if is_factor(design, name):
        reference, lower = reference_level(design, name), float(getattr(declared, "lower", 0.0))
        first = at_value(lower + reference)
        return [
            Difference(level_name(design, name, level), first, at_value(lower + level))
            for level in range(len(declared.level_texts))
            if level != reference
        ]
    if dummy and isinstance(declared, Boolean):
        return [Difference(name, at_value(0.0), at_value(1.0))]
    here = values[name]
    if change == "unit":
        return [Difference(name, at_value(here - 0.5), at_value(here + 0.5))]
    if change == "count" and isinstance(declared, Integer) and declared.lower >= 0:
        return [Difference(name, at_value(here - 1.0), at_value(here + 1.0), 2.0)]
    step = _STEP * np.maximum(np.abs(here), min(1.0, float(getattr(declared, "width", 1.0))))
    return [Slope(name, _derivative(at_value, here, step), here)]


def is_factor(design: FormulaDesign, name: str) -> bool:
    """Whether a column of the schema enters by levels."""
    return name in design.coded or design.schema[name].kind == "category"


def contrasts_of(design: FormulaDesign, name: str) -> list[str]:
    """Return what `column_effects` compares of a factor, in its order: "b - a" for level b with the reference a."""
    texts, reference = design.schema[name].level_texts, reference_level(design, name)
    return [f"{text} - {texts[reference]}" for level, text in enumerate(texts) if level != reference]


def _derivative(rows: Callable[[Array], Array], here: Array, step: Array) -> Array:
    """Differentiate a design (m, p) by one column; at a jump from the side without it."""
    low, middle, high = rows(here - step), rows(here), rows(here + step)
    before, after = (middle - low) / step[:, None], (high - middle) / step[:, None]
    size = np.abs(middle) / np.maximum(np.abs(here), 1.0)[:, None]
    smaller = np.where(np.abs(before) <= np.abs(after), before, after)
    jumps = np.maximum(np.abs(before), np.abs(after)) > _JUMP * (np.abs(smaller) + size)
    return np.asarray(np.where(jumps, smaller, (high - low) / (2.0 * step)[:, None]))


def reference_level(design: FormulaDesign, variable: str) -> int:
    """Return the level whose weights are all zero where there is one, else the first."""
    weights = [w for column in design.columns for name, w in column.codings if name == variable]
    unused = [level for level, column in enumerate(zip(*weights, strict=True)) if not any(column)]
    return unused[0] if unused else 0


def level_name(design: FormulaDesign, variable: str, level: int) -> str:
    """Return the name of the coefficient of a level where it has one."""
    texts = design.schema[variable].level_texts
    indicator = tuple(float(one == level) for one in range(len(texts)))
    for column in design.columns:
        if column.codings == ((variable, indicator),) and column.expression.constant == 1.0:
            return column.name
    return f"{variable}[T.{texts[level]}]"
