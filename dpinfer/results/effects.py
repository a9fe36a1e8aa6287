"""Marginal effects of a formula's terms at public design points, and their derivatives by the coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.results.prediction import CONSTANTS
from dpinfer.schema.columns import Boolean, Integer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from dpinfer.results.links import Curve
    from dpinfer.schema.points import FormulaDesign

    Array = NDArray[np.float64]

__all__ = [
    "DIFFERENCE",
    "Change",
    "Difference",
    "Effect",
    "Points",
    "Slope",
    "column_effects",
    "contrasts_of",
    "effects_at",
    "is_factor",
    "lone_changes",
    "lone_terms",
]

DIFFERENCE = "a difference of means"
"""Why an average effect is no coefficient times one average."""

_STEP = 6e-6
"""Relative step of a central difference: the cube root of the precision of a float."""

_JUMP = 1e3


@dataclass(frozen=True, slots=True)
class Points:
    """Public points: the design (m, p), and where they were given by columns of the schema these as numbers (m,)."""

    rows: Array
    values: Mapping[str, Array] | None = None


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


def effects_at(
    points: Points, names: Sequence[str], design: FormulaDesign | None, *, dummy: bool = False, count: bool = False
) -> list[Effect]:
    """List the effects at public points, in the order of the design.

    A term with columns of its own has the effect of each column, as in statsmodels. Where a column of the schema takes
    part in several terms, as ``age`` and ``I(age**2)``, it has one effect through all of them.

    Raises
    ------
    OptionError
        Where an effect through several terms is asked for at a design that was not given by columns of the schema, or
        discrete changes without a formula.
    """
    if design is None:
        if dummy or count:
            raise OptionError("dummy" if dummy else "count", True, "False: these results have no formula to tell")
        return [_column_slope(points, j, name) for j, name in enumerate(names) if name not in CONSTANTS]
    found: list[Effect] = []
    for group in _groups(design):
        if len(group) > 1 or _crossed(design, design.terms[group[0]]):
            found.extend(_joint_effects(points, design, group, dummy=dummy, count=count))
            continue
        for place in design.terms[group[0]]:
            kind = _discrete(design, place, dummy=dummy, count=count)
            if kind == "factor":
                found.extend(_level_differences(points, design, design.terms[group[0]]))
                break
            found.append(_column_effect(points, design, place, kind))
    return found


def lone_terms(design: FormulaDesign, *, dummy: bool, count: bool) -> tuple[dict[str, int], dict[str, str]]:
    """Tell effects that are a coefficient times one average, by position, from others, with the reason."""
    simple: dict[str, int] = {}
    other: dict[str, str] = {}
    for group in _groups(design):
        if len(group) > 1 or _crossed(design, design.terms[group[0]]):
            other |= dict.fromkeys(_variables(design, group), "in several columns of the design")
            continue
        for place in design.terms[group[0]]:
            kind = _discrete(design, place, dummy=dummy, count=count)
            if kind:
                other[group[0] if kind == "factor" else design.names[place]] = DIFFERENCE
            else:
                simple[design.names[place]] = place
    return simple, other


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a term of its own: columns at ``places`` are replaced by ``lower`` (p,), and by ``upper`` (p,).

    Columns of whole numbers are not replaced, but ``lower`` and ``upper`` are added.
    """

    name: str
    term: str
    kind: str
    places: tuple[int, ...]
    lower: Array
    upper: Array
    divisor: float = 1.0


def lone_changes(design: FormulaDesign) -> list[Change]:
    """List the discrete changes of terms that share no column with others."""
    found: list[Change] = []
    eye = np.eye(len(design.names))
    zero = np.zeros(len(design.names))
    for group in _groups(design):
        places = tuple(design.terms[group[0]])
        if len(group) > 1 or _crossed(design, places):
            continue
        for place in places:
            name, kind = design.names[place], _discrete(design, place, dummy=True, count=True)
            if kind == "factor":
                found.extend(_level_changes(design, group[0], places))
                break
            if kind == "dummy":
                found.append(Change(name, name, kind, (place,), zero, eye[place]))
            elif kind == "count":
                found.append(Change(name, name, kind, (), -eye[place], eye[place], 2.0))
    return found


def _level_changes(design: FormulaDesign, term: str, places: tuple[int, ...]) -> list[Change]:
    variable = design.columns[places[0]].codings[0][0]
    coding = np.zeros((len(design.names), len(design.columns[places[0]].codings[0][1])))
    coding[list(places)] = [design.columns[place].codings[0][1] for place in places]
    first = _reference(design, variable)
    return [
        Change(_level_name(design, variable, one), term, "factor", places, coding[:, first], coding[:, one])
        for one in range(coding.shape[1])
        if one != first
    ]


def _groups(design: FormulaDesign) -> list[list[str]]:
    """Terms that share columns of the schema, directly or by way of others."""
    groups: list[tuple[set[str], list[str]]] = []
    for term, places in design.terms.items():
        read = {name for place in places for name in design.columns[place].columns}
        if not read:
            continue
        touched = [group for group in groups if group[0] & read]
        joined = (read.union(*(group[0] for group in touched)), [*(t for group in touched for t in group[1]), term])
        at = groups.index(touched[0]) if touched else len(groups)
        groups = [group for group in groups if group not in touched]
        groups.insert(at, joined)
    return [terms for _, terms in groups]


def _crossed(design: FormulaDesign, places: Sequence[int]) -> bool:
    """Whether a term is an interaction that has a factor in it."""
    codings = [design.columns[place].codings for place in places]
    return any(len(one) > 1 for one in codings) or any(
        one and design.columns[place].expression.constant != 1.0 for place, one in zip(places, codings, strict=True)
    )


def _variables(design: FormulaDesign, group: Sequence[str]) -> list[str]:
    read = {name for term in group for place in design.terms[term] for name in design.columns[place].columns}
    return [name for name in design.variables if name in read]


def _discrete(design: FormulaDesign, place: int, *, dummy: bool, count: bool) -> str:
    """Say how a term of its own changes: "dummy", "count", "factor", or "" for a continuous change."""
    column = design.columns[place]
    if column.codings:
        return "factor" if dummy else ""
    if column.expression.boolean:
        return "dummy" if dummy else ""
    declared = design.schema.get(column.expression.columns[0]) if len(column.expression.columns) == 1 else None
    bare = column.expression.node.operation == "column"
    return "count" if count and bare and isinstance(declared, Integer) and declared.lower >= 0 else ""


def _column_slope(points: Points, place: int, name: str) -> Slope:
    direction = np.zeros_like(points.rows)
    direction[:, place] = 1.0
    return Slope(name, direction, points.rows[:, place])


def _column_effect(points: Points, design: FormulaDesign, place: int, kind: str) -> Effect:
    name = design.names[place]
    if not kind:
        return _column_slope(points, place, name)
    lower, upper = points.rows.copy(), points.rows.copy()
    lower[:, place] = points.rows[:, place] - 1.0 if kind == "count" else 0.0
    upper[:, place] = points.rows[:, place] + 1.0 if kind == "count" else 1.0
    return Difference(name, lower, upper, 2.0 if kind == "count" else 1.0)


def _level_differences(points: Points, design: FormulaDesign, places: Sequence[int]) -> list[Difference]:
    """Differences of a factor's levels to its reference level."""
    variable = design.columns[places[0]].codings[0][0]
    coding = np.array([design.columns[place].codings[0][1] for place in places])
    reference = _reference(design, variable)

    def at_level(level: int) -> Array:
        rows = points.rows.copy()
        rows[:, list(places)] = coding[:, level]
        return rows

    levels = [level for level in range(coding.shape[1]) if level != reference]
    return [Difference(_level_name(design, variable, one), at_level(reference), at_level(one)) for one in levels]


def _joint_effects(
    points: Points, design: FormulaDesign, group: Sequence[str], *, dummy: bool, count: bool
) -> list[Effect]:
    """Effects of columns of the schema through all terms in which they take part."""
    variables = _variables(design, group)
    values = points.values
    if values is None:
        raise OptionError(
            "atexog",
            None,
            f"columns of the schema: the effect of {', '.join(variables)} goes through {', '.join(group)}",
        )
    return [
        effect
        for name in variables
        for effect in column_effects(points.rows, values, design, name, dummy=dummy, change="count" if count else "")
    ]


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
        reference, lower = _reference(design, name), float(getattr(declared, "lower", 0.0))
        first = at_value(lower + reference)
        return [
            Difference(_level_name(design, name, level), first, at_value(lower + level))
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
    texts, reference = design.schema[name].level_texts, _reference(design, name)
    return [f"{text} - {texts[reference]}" for level, text in enumerate(texts) if level != reference]


def _derivative(rows: Callable[[Array], Array], here: Array, step: Array) -> Array:
    """Differentiate a design (m, p) by one column; at a jump from the side without it."""
    low, middle, high = rows(here - step), rows(here), rows(here + step)
    before, after = (middle - low) / step[:, None], (high - middle) / step[:, None]
    size = np.abs(middle) / np.maximum(np.abs(here), 1.0)[:, None]
    smaller = np.where(np.abs(before) <= np.abs(after), before, after)
    jumps = np.maximum(np.abs(before), np.abs(after)) > _JUMP * (np.abs(smaller) + size)
    return np.asarray(np.where(jumps, smaller, (high - low) / (2.0 * step)[:, None]))


def _reference(design: FormulaDesign, variable: str) -> int:
    """Return the level whose weights are all zero where there is one, else the first."""
    weights = [w for column in design.columns for name, w in column.codings if name == variable]
    unused = [level for level, column in enumerate(zip(*weights, strict=True)) if not any(column)]
    return unused[0] if unused else 0


def _level_name(design: FormulaDesign, variable: str, level: int) -> str:
    """Return the name of the coefficient of a level where it has one."""
    texts = design.schema[variable].level_texts
    indicator = tuple(float(one == level) for one in range(len(texts)))
    for column in design.columns:
        if column.codings == ((variable, indicator),) and column.expression.constant == 1.0:
            return column.name
    return f"{variable}[T.{texts[level]}]"
