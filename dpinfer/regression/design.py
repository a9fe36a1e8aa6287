"""The columns of a regression: as measured, in coordinates that are evenly spread, and without levels that are rare."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import CollinearDesignError, FormulaError, OptionError, UnknownColumnError
from dpinfer.kernel.rows.features import Features, Within
from dpinfer.kernel.rows.iterations import RoundFrame
from dpinfer.procedures.options import compiled_where
from dpinfer.schema.basis import build_basis, represent, represent_levels
from dpinfer.schema.cells import Meant
from dpinfer.schema.columns import Boolean, Category, Integer, Real
from dpinfer.schema.expressions import compile_expression, constant_expression, quoted
from dpinfer.schema.formula import CompiledFormula, DesignColumn, compile_formula, two_sided
from dpinfer.schema.grid import UNIT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dpinfer.kernel.rows.iterations import Interpolant
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.schema.grid import Basis
    from dpinfer.schema.nodes import Expression, Node
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array

__all__ = ["EFFECTS", "LARGEST_SUM", "Columns", "columns_of", "framed"]

EFFECTS = re.compile(r"(?<![\w.`])(EntityEffects\b|FirstDifference\s*\(([^()]*)\))")
"""Terms that take out what is fixed of a person."""

_FEW = 4.0
"""Whole numbers of so short a range lie evenly enough."""

_RANGE = 1.8
"""Standard deviations on either side of the centre that public rows are spread over: uniform, they have nearly one."""

_SAMPLED = 2048
"""Public rows on which columns are orthogonalised."""

LARGEST_SUM = 2.0**34
"""A map of a frame has whole numbers whose sizes add up to at most this; see `RoundFrame`."""

_FINEST = 2.0**20
"""Columns that are told apart by less than this part of their size are rounding: features have a grid of 2^-19."""

_AT_CONSTANTS, _SOMETIMES = 0.5, 16
"""Part of public rows at constants of the formula, and in how many a column changes that may be told from others."""

_TOUCHED = 1e-4
"""Weights of columns in a combination are larger, and so are changes of a column."""

_DEPENDENT = 3e-6
"""Part of its length that others leave to a column that combines them: features are rounded to a grid."""


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a regression, compiled against a schema.

    Attributes
    ----------
    schema : Schema
    formula : str
    where : str, optional
    weights : str, optional
        Bounded expression, not negative, by which rows count.
    offsets : tuple of Expression
        Added to the linear predictor as they are; see `offsets_of`.
    groups : str, optional
        Column whose levels are the groups in which errors may be related.

    Where the formula has a term for the effects of people, all columns are compared within people, and there is no
    constant; see `effects_of`.
    """

    schema: Schema
    formula: str
    where: str | None = None
    weights: str | None = None
    offsets: tuple[Expression, ...] = ()
    groups: str | None = None

    @cached_property
    def _parted(self) -> tuple[str, Within | None]:
        return effects_of(self.formula, self.schema)

    @property
    def within(self) -> Within | None:
        """What rows are compared with, where it is the other rows of their person."""
        return self._parted[1]

    @cached_property
    def compiled(self) -> CompiledFormula:
        """Regressors and response; a Category of two levels counts as whether a row has the second."""
        compiled = self._compiled
        if self.within is None:
            return compiled
        if compiled.design[0].name != "Intercept":
            raise FormulaError(self.formula, "leaves out the constant, which effects of people do anyway", "drop 0 +")
        if len(compiled.design) == 1:
            raise FormulaError(self.formula, "has no regressors beside the effects of people", "write at least one")
        return replace(compiled, design=compiled.design[1:], has_intercept=False)

    @cached_property
    def _compiled(self) -> CompiledFormula:
        formula = self._parted[0]
        left, tilde, right = formula.partition("~")
        name = left.strip().strip("`")
        column = self.schema[name] if tilde and name in self.schema else None
        if not isinstance(column, Category) or len(column.level_texts) != 2:
            return two_sided(formula, self.schema)
        regressors = compile_formula(f"~{right}", self.schema)
        label = f"{name}[{column.level_texts[1]}]"
        response = DesignColumn(label, name, constant_expression(1.0), ((name, (0.0, 1.0)),))
        used = tuple(sorted({*regressors.columns, name}))
        return replace(regressors, text=formula, response=response, columns=used)

    @property
    def response(self) -> DesignColumn:
        """The response."""
        assert self.compiled.response is not None
        return self.compiled.response

    @property
    def binary(self) -> bool:
        """Whether the response can only be 0 or 1."""
        node, expression = self.response.expression.node, self.response.expression
        column = self.schema[node.name] if node.operation == "column" else None
        whole = isinstance(column, Boolean | Integer) or expression.boolean
        return whole and (expression.lower, expression.upper) == (0.0, 1.0)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the regressors (p,)."""
        return tuple(column.name for column in self.compiled.design)

    @cached_property
    def basis(self) -> Basis:
        """The features measured."""
        asked = (*self.compiled.design, *self._weights, *self._offsets, *self._grouping, self.response)
        return build_basis(asked, self.schema)

    @property
    def levels(self) -> int:
        """Number of groups; 0 without any."""
        return 0 if self.groups is None else len(self.schema[self.groups].level_texts)

    @property
    def _grouping(self) -> tuple[DesignColumn, ...]:
        """The number of a row's group: 0, 1, ..."""
        if self.groups is None:
            return ()
        places = tuple(map(float, range(self.levels)))
        return (DesignColumn(self.groups, self.groups, constant_expression(1.0), ((self.groups, places),)),)

    @property
    def _weights(self) -> tuple[DesignColumn, ...]:
        return () if self.weighing is None else (DesignColumn(self.weighing.text, self.weighing.text, self.weighing),)

    @cached_property
    def weighing(self) -> Expression | None:
        """The survey weight, compiled; bounded and not negative."""
        if self.weights is None:
            return None
        found = compile_expression(self.weights, self.schema)
        if found.lower < 0 or not found.upper > 0:
            raise OptionError(
                "weights",
                self.weights,
                f"a column or expression whose bounds are not negative, not from {found.lower:g} to {found.upper:g}",
            )
        return found

    @cached_property
    def weight(self) -> Array | None:
        """The weight over its upper bound as a combination of the features (d,)."""
        if self.weighing is None:
            return None
        found = represent(self.basis, self._weights, independent=False)[0]
        return np.asarray(found / self.weighing.upper)

    @property
    def _offsets(self) -> tuple[DesignColumn, ...]:
        return tuple(DesignColumn(one.text, one.text, one) for one in self.offsets)

    @property
    def read(self) -> tuple[str, ...]:
        """Columns of the data that regressors, response, weights and offsets are made of, sorted."""
        beside = (*self.offsets, *(() if self.weighing is None else (self.weighing,)))
        grouped = () if self.groups is None else (self.groups,)
        return tuple(sorted({*self.compiled.columns, *grouped, *(name for one in beside for name in one.columns)}))

    @cached_property
    def features(self) -> Features:
        """The row function."""
        return Features(self.basis, compiled_where(self.where, self.schema), within=self.within)

    @cached_property
    def maps(self) -> Array:
        """Regressors, then response, as combinations of the features (p + 1, d).

        Within people features are half a distance, which no constant moves.
        """
        found = np.asarray(represent(self.basis, (*self.compiled.design, self.response)))
        return found if self.within is None else 2 * found * (np.arange(self.basis.width) > 0)

    @cached_property
    def offset(self) -> Array:
        """The sum of the offsets as a combination of the features (d,)."""
        if not self.offsets:
            return np.zeros(self.basis.width)
        return np.asarray(represent(self.basis, self._offsets, independent=False).sum(axis=0))

    @property
    def intercept(self) -> bool:
        """Whether the first column is the constant."""
        return self.compiled.design[0].name == "Intercept"

    @cached_property
    def _labels(self) -> Array:
        """The number of a row's group as a combination of the features (d,)."""
        assert self.groups is not None
        return represent_levels(self.basis, self.groups, np.arange(float(self.levels)))

    # Scales

    @cached_property
    def numeric(self) -> tuple[str, ...]:
        """Columns of the data that are numbers, sorted."""
        return tuple(name for name in self.read if isinstance(self.schema[name], Real | Integer))

    @cached_property
    def spread_out(self) -> tuple[str, ...]:
        """Those of which bounds alone do not tell where most values lie: all but whole numbers of a few values."""
        asked = {name for column in self.compiled.design for name in column.expression.columns}
        asked |= {name for one in self.offsets for name in one.columns}
        return tuple(
            name
            for name in self.numeric
            if name in asked
            and not (isinstance(self.schema[name], Integer) and np.ptp(self.schema[name].limits) <= _FEW)
        )

    @cached_property
    def measured(self) -> tuple[str, ...]:
        """What centres and spreads are measured of: these columns, and a response that is no 0 or 1."""
        return self.spread_out if self.binary or self.response.codings else (*self.spread_out, self.response.name)

    @cached_property
    def boxed(self) -> RoundFrame:
        """A frame whose coordinates are what is measured, each scaled to [-1, 1] by its bounds.

        Where rows are compared, they are the distances that are left, halved.
        """
        return self._boxed(self.within)

    @cached_property
    def placed(self) -> RoundFrame:
        """The same of rows as they are, whether or not they are compared."""
        return self.boxed if self.within is None else self._boxed(None)

    def _boxed(self, within: Within | None) -> RoundFrame:
        columns = [compile_expression(quoted(name), self.schema) for name in self.spread_out]
        if len(self.measured) > len(columns):
            columns.append(self.response.expression)
        asked = tuple(DesignColumn(one.text, one.text, one) for one in columns)
        basis = build_basis(asked, self.schema)
        maps = represent(basis, asked, independent=False)
        maps[:, 0] -= [(one.upper + one.lower) / 2 for one in columns]
        maps /= np.array([[max((one.upper - one.lower) / 2, 1e-300)] for one in columns])
        features = Features(basis, self.features.where, within=within)
        return framed(features, np.vstack([maps, np.zeros((2, basis.width))]))

    def ranges(self, centres: Array, spreads: Array) -> dict[str, tuple[float, float]]:
        """Return where public values of each column lie, from its centre and spread on the scale of `boxed`.

        A range that a bound would cut is moved inside, so that its values keep their spread. Within people it is half
        of distances whose spread is measured.
        """
        found = {}
        if self.within is not None:
            spreads = 2 * spreads
        for name, middle, spread in zip(self.spread_out, centres, spreads, strict=False):
            lower, upper = self.schema[name].limits
            half = (upper - lower) / 2
            reach = max(spread * half * _RANGE, 0.75 if isinstance(self.schema[name], Integer) else 0.0)
            center = lower + (1 + middle) * half
            low = float(np.clip(center - reach, lower, max(upper - 2 * reach, lower)))
            high = min(low + 2 * reach, upper)
            if high - low > 1e-9 * half:
                found[name] = (low, high)
        return found

    # Coordinates

    def public_features(self, ranges: Mapping[str, tuple[float, float]]) -> Array:
        """Return the features (d, m) of public rows, uniform over these ranges or declared bounds."""
        return self._moved_features(ranges) if ranges else self._plain_features

    @cached_property
    def _plain_features(self) -> Array:
        return self._moved_features({})

    def _moved_features(self, ranges: Mapping[str, tuple[float, float]]) -> Array:
        cells = _raw(_evenly(self.schema, tuple(sorted({*self.read, *self.features.columns}))), self.schema, ranges)
        persons = np.arange(_SAMPLED) // max(self.schema.rows_per_unit, 1)
        rows, _ = Features(self.basis, within=self.within).encode(cells, persons=persons)
        return np.asarray(rows[:, rows[0] != 0] / UNIT)

    def public_rows(self, ranges: Mapping[str, tuple[float, float]]) -> Array:
        """Return regressors and response (p + 1, m) of the same rows."""
        return np.asarray(self.maps @ self.public_features(ranges))

    @cached_property
    def independent(self) -> bool:
        """Whether no condition or level is a combination of the others in every row: true, or it is refused.

        Public rows lie at the bounds of numeric columns, at the constants that the formula names, and between them.

        Raises
        ------
        CollinearDesignError
        """
        cells = _raw(_evenly(self.schema, self.read), self.schema, {})
        rng = np.random.default_rng(1)
        named = sorted({one for column in self.compiled.design for one in _constants(column.expression.node)})
        for name in self.numeric:
            lower, upper = self.schema[name].limits
            inside = np.unique([lower, upper, *(one for one in named if lower < one < upper)])
            points = np.concatenate([inside, 0.5 * (inside[1:] + inside[:-1])])
            column = self.schema[name]
            if isinstance(column, Integer):
                points = np.unique(np.clip(np.rint([points - 1, points, points + 1]), lower, upper))
            chosen = rng.random(_SAMPLED) < _AT_CONSTANTS
            values = column.coerce(cells[name])
            cells[name] = column.cells(np.where(chosen, rng.choice(points, _SAMPLED), values))
        rows, _ = Features(self.basis).encode(cells)
        design = self.maps[:-1] @ (rows / UNIT)
        often = (np.abs(design - design[:, :1]) > _TOUCHED * np.abs(design).max(initial=1e-300)).sum(
            axis=1
        ) >= _SOMETIMES
        often[:1] = True
        kept = np.flatnonzero(often)
        _refuse_dependent(design[kept], [self.names[place] for place in kept])
        return True

    def scaled(self, ranges: Mapping[str, tuple[float, float]]) -> Scaled:
        """Orthogonalise the regressors on public rows: columns uniform over these ranges, or over declared bounds.

        A range so short, by noise, that hardly a public row has a level or meets a condition is not taken: its column
        keeps the declared bounds. Nor is one on which a column is 0, or all rounding.
        """
        taken = dict(ranges)
        while True:
            found, rows = self._orthogonal(taken)
            few = np.flatnonzero(rows < np.minimum(_SOMETIMES, 0.5 * self._plainly[1]))
            lost = frozenset[str]().union(*(self._stepped[place] for place in few))
            fine = np.flatnonzero(np.abs(found.transform @ self.maps[:-1]).sum(axis=1) > _FINEST)
            lost |= {name for place in fine for name in self.compiled.design[place].expression.columns}
            if not taken.keys() & lost:
                return found
            taken = {name: one for name, one in taken.items() if name not in lost}

    def _orthogonal(self, ranges: Mapping[str, tuple[float, float]]) -> tuple[Scaled, Array]:
        rows = self.public_features(ranges)
        columns, longest = self.maps @ rows, np.abs(self.maps).sum(axis=1)
        offset = float((self.offset @ rows).mean())
        found = orthogonal(columns, longest, intercept=self.intercept, offset=offset)
        return found, carriers(found, columns)

    @cached_property
    def _plainly(self) -> tuple[Scaled, Array]:
        return self._orthogonal({})

    @cached_property
    def _stepped(self) -> tuple[frozenset[str], ...]:
        """Columns of the data that regressors, then the response, read levels of, or by more than powers."""
        return tuple(
            frozenset(name for name, _ in column.codings)
            | frozenset(() if _of_powers(column.expression, self.schema) else column.expression.columns)
            for column in (*self.compiled.design, self.response)
        )

    def longest(self, coordinates: Array, norm: Norm = "l2") -> float:
        """Return a length that no row exceeds in coordinates (q, p) of the regressors: no feature is larger than 1."""
        largest = np.abs(coordinates @ self.maps[:-1]).sum(axis=1)
        return float(np.linalg.norm(largest, 1 if norm == "l1" else 2))

    def largest_residual(self, point: Array, response: tuple[float, float]) -> float:
        """Return a size that no residual exceeds at a linear predictor (p,), the response measured as by `frame`."""
        measured = self.maps[-1].copy()
        measured[0] -= response[0]
        return float(np.abs(measured / response[1] - point @ self.maps[:-1] - self.offset).sum())

    def predictors(self, point: Array, moved: float) -> tuple[float, float]:
        """Return numbers between which the linear predictor of every row lies, ``moved`` added as by `frame`."""
        linear = point @ self.maps[:-1] + self.offset
        reach = float(np.abs(linear[1:]).sum())
        return float(linear[0]) + moved - reach, float(linear[0]) + moved + reach

    def frame(
        self,
        coordinates: Array,
        point: Array,
        response: tuple[float, float],
        mean: Interpolant | None = None,
        inverse_sd: Interpolant | None = None,
        lift: Interpolant | None = None,
        predictors: Array | None = None,
        moved: float = 0.0,
        with_offset: bool = True,
        grouped: bool = False,
        **options: Any,
    ) -> RoundFrame:
        """Return a frame of coordinates (q, p) and linear predictor (p,) of the regressors.

        The response is measured less ``response[0]``, over ``response[1]``; without a table of means the linear
        predictor is taken off as it is. Labels are linear predictors with other coefficients, ``predictors`` (k, p),
        or where ``grouped`` the numbers of groups. All have ``moved`` added, and offsets unless told.
        """
        shift, unit = response
        measured = self.maps[-1].copy()
        measured[0] -= shift
        added = self.offset.copy() if with_offset else np.zeros(self.basis.width)
        added[0] += moved
        linear = point @ self.maps[:-1] + added
        rows = np.vstack([coordinates @ self.maps[:-1], linear, measured / unit - (0.0 if mean else linear)])
        if self.weight is not None:
            rows, options = np.vstack([rows, self.weight]), {**options, "weighted": True}
        if predictors is not None:
            rows = np.vstack([rows, predictors @ self.maps[:-1] + added])
            options = {**options, "labels": len(predictors)}
        if grouped:
            rows = np.vstack([rows, self._labels])
            options = {**options, "labels": 1}
        return framed(self.features, rows, mean, inverse_sd, lift, **options)


def _constants(node: Node) -> Iterator[float]:
    """Yield the constants of an expression."""
    if node.operation == "constant":
        yield node.value
    for one in node.arguments:
        yield from _constants(one)


def _of_powers(expression: Expression, schema: Schema) -> bool:
    """Whether an expression is a polynomial in columns."""
    return all(name in schema for monomial in expression.polynomial for name, _ in monomial)


def _refuse_dependent(design: Array, names: list[str]) -> None:
    """Refuse a column (m,) of the design (k, m) that is a combination of those before it."""
    lengths = np.maximum(np.linalg.norm(design, axis=1), 1e-300)
    upper: Array = np.asarray(np.linalg.qr((design / lengths[:, None]).T, mode="r"))
    left = np.abs(np.diagonal(upper)) < _DEPENDENT
    if not left.any():
        return
    place = int(left.argmax())
    weights = np.linalg.solve(upper[:place, :place], upper[:place, place])
    among = [name for name, weight in zip(names, weights, strict=False) if abs(weight) > _TOUCHED]
    raise CollinearDesignError(
        names[place],
        "is a linear combination of the columns before it in any row",
        "leave out one of " + ", ".join([*among, names[place]]),
    )


@lru_cache(maxsize=16)
def columns_of(
    schema: Schema,
    formula: str,
    where: str | None,
    weights: str | None,
    offset: str | None,
    exposure: str | None,
    groups: str | None,
) -> Columns:
    """Return the columns of a regression; a fit asks for them in each of its stages."""
    return Columns(schema, formula, where, weights, offsets_of(offset, exposure, schema), groups)


def offsets_of(offset: str | None, exposure: str | None, schema: Schema) -> tuple[Expression, ...]:
    """Compile an offset, and an exposure as its logarithm.

    Raises
    ------
    FormulaError
        If the offset is unbounded, or the exposure may be 0.
    """
    found = [] if offset is None else [compile_expression(offset, schema)]
    if exposure is not None:
        given = compile_expression(exposure, schema)
        if not given.lower > 0:
            raise FormulaError(
                exposure,
                f"an exposure has to be positive, and this one can be {given.lower:.6g}",
                "declare a positive lower bound",
            )
        found.append(compile_expression(f"log({exposure})", schema))
    for one in found:
        if one.boolean:
            raise FormulaError(one.text, "is a condition", "an offset is a number")
    return tuple(found)


def effects_of(formula: str, schema: Schema) -> tuple[str, Within | None]:
    """Part a formula into the terms of rows and what takes the effects of people out.

    Beside the other terms, ``EntityEffects`` measures all columns from the means of their person's rows, and
    ``FirstDifference(time)`` from the person's row before, in the order of a column.

    Raises
    ------
    FormulaError
        If such a term is not one term of a sum, there are two of them, or the data have no people.
    UnknownColumnError
        If there is no such column to order rows by.
    """
    left, tilde, right = formula.partition("~")
    found = [one for one in EFFECTS.finditer(right) if one[1] not in schema]
    if not found:
        return formula, None
    depths = np.cumsum([(one == "(") - (one == ")") for one in right])
    split = [place for place, one in enumerate(right) if one == "+" and depths[place] == 0]
    terms = [right[low:high].strip() for low, high in pairwise([0, *(one + 1 for one in split), len(right) + 1])]
    terms = [one.removesuffix("+").strip() for one in terms]
    told = found[0][1]
    if len(found) > 1 or told not in terms:
        raise FormulaError(formula, f"{told} is no term of its own", f"write it once: y ~ x + {told}")
    if schema.rows_per_unit < 2:
        instead = "give the data id= and max_rows= of two or more: then people, with all their rows, are protected"
        raise FormulaError(formula, f"{told} asks for people with several rows", instead)
    order = (found[0][2] or "").strip().strip("`") or None
    if order is not None and order not in schema:
        raise UnknownColumnError(order, schema, "formula")
    if told != "EntityEffects" and (order is None or isinstance(schema[order], Category)):
        raise FormulaError(told, "names no column of numbers or dates", "write FirstDifference(year)")
    kept = " + ".join(one for one in terms if one != told) or "1"
    return f"{left}{tilde} {kept}", Within(order)


def framed(
    features: Features, rows: Array, *tables: Any, kind: type[RoundFrame] = RoundFrame, **options: Any
) -> RoundFrame:
    """Return a frame of functions of the features (q + 2 + k, d), as fine as its whole numbers can be."""
    total = np.abs(rows).sum(axis=1)
    most = np.log2(LARGEST_SUM / np.where(total == 0, LARGEST_SUM, total))
    bits = tuple(int(min(max(one, 0.0), 64.0)) for one in most.tolist())
    whole = np.trunc(np.ldexp(rows, np.array(bits)[:, None])).astype(np.int64)
    return kind(features, whole, bits, *tables, **options)


@lru_cache(maxsize=16)
def _evenly(schema: Schema, columns: tuple[str, ...]) -> dict[str, Any]:
    frame = schema.select(list(columns)).sample(_SAMPLED, np.random.default_rng(0))
    return {str(name): Meant(schema[str(name)].meaning(frame[name].to_numpy())) for name in frame}


def _raw(given: Mapping[str, Any], schema: Schema, ranges: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    """Move the numeric columns of public rows from their declared bounds into ranges."""
    cells = dict(given)
    for name, (low, high) in ranges.items():
        lower, upper = schema[name].limits
        values = schema[name].coerce(cells[name])
        cells[name] = schema[name].cells(low + (values - lower) * ((high - low) / (upper - lower)))
    return cells


_LEAST_SPREAD = 1e-9
"""Least share of a column's spread that the columns before it may leave to it."""

_ROUNDING = 1e-15
"""A column that is shorter on public rows, as a part of the longest that it can be, is 0."""


@dataclass(frozen=True, eq=False)
class Scaled:
    """Coordinates u of the regressors that are orthonormal where columns are spread evenly over their ranges.

    Attributes
    ----------
    transform : ndarray (p, p)
        Lower triangular: ``u = transform @ columns``.
    shift, unit : float
        Middle and standard deviation of the response on public rows.
    offset : float
        Mean of the offset on public rows.
    """

    transform: Array
    shift: float
    unit: float
    offset: float = 0.0


def orthogonal(columns: Array, longest: Array, *, intercept: bool, offset: float) -> Scaled:
    """Orthogonalise regressors, and last the response, on public rows (p + 1, m); none is larger than ``longest``."""
    regressors, response = columns[:-1], columns[-1]
    size = np.sqrt((regressors**2).mean(axis=1))
    size = np.where(size > _ROUNDING * longest[:-1], size, 1.0)
    normed = regressors / size[:, None]
    second = normed @ normed.T / columns.shape[1]
    lower = np.linalg.cholesky(second + _LEAST_SPREAD * np.eye(len(second)))
    transform = np.linalg.inv(lower) / size
    shift = float(response.mean()) if intercept else 0.0
    unit = float(np.sqrt(((response - shift) ** 2).mean()))
    return Scaled(transform, shift, unit if unit > _ROUNDING * longest[-1] else 1.0, offset)


def carriers(scaled: Scaled, columns: Array) -> Array:
    """Return how many public rows each coordinate, and last the response, has its spread from (p + 1,).

    It is 0 where other columns, or the constant, leave none to it.
    """
    squares = np.vstack([scaled.transform @ columns[:-1], (columns[-1] - scaled.shift) / scaled.unit]) ** 2
    total = squares.sum(axis=1)
    return np.where(total < 0.5 * squares.shape[1], 0.0, total**2 / np.maximum((squares**2).sum(axis=1), 1e-300))
