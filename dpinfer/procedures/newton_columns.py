"""The columns of a regression by Newton rounds: as measured, and in coordinates that are evenly spread."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import CollinearDesignError, FormulaError, OptionError
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.round_frame import RoundFrame
from dpinfer.procedures.conditions import compiled_where, quoted
from dpinfer.procedures.gram_design import two_sided
from dpinfer.procedures.newton_scaled import Scaled, carriers, orthogonal
from dpinfer.schema.basis import basis_of, build_basis, represent
from dpinfer.schema.category import Category
from dpinfer.schema.clamping import limits_of
from dpinfer.schema.columns import Boolean, Integer, Real
from dpinfer.schema.expressions import compile_expression, constant_expression
from dpinfer.schema.formula import CompiledFormula, DesignColumn, compile_formula
from dpinfer.schema.grid import UNIT
from dpinfer.schema.level_maps import kept_map

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from dpinfer.kernel.rows.interpolants import Interpolant
    from dpinfer.numerics.arrays import Array
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.schema.expressions import Expression
    from dpinfer.schema.grid import Basis
    from dpinfer.schema.nodes import Node
    from dpinfer.schema.schema import Schema

__all__ = ["NewtonColumns", "columns_of", "offsets_of"]

_SAMPLED = 2048
"""Public rows on which columns are orthogonalised."""

_LARGEST_SUM = 2.0**34
"""A map of a frame has whole numbers whose sizes add up to at most this; see `RoundFrame`."""

_AT_CONSTANTS, _SOMETIMES = 0.5, 16
"""Part of public rows at constants of the formula, and in how many a column changes that may be told from others."""

_TOUCHED = 1e-4
"""Weights of columns in a combination are larger, and so are changes of a column."""

_DEPENDENT = 3e-6
"""Part of its length that others leave to a column that combines them: features are rounded to a grid."""


@dataclass(frozen=True, eq=False)
class NewtonColumns:
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
    """

    schema: Schema
    formula: str
    where: str | None = None
    weights: str | None = None
    offsets: tuple[Expression, ...] = ()

    @cached_property
    def compiled(self) -> CompiledFormula:
        """Regressors and response; a Category of two levels counts as whether a row has the second."""
        left, tilde, right = self.formula.partition("~")
        name = left.strip().strip("`")
        column = self.schema[name] if tilde and name in self.schema else None
        if not isinstance(column, Category) or len(column.level_texts) != 2:
            return two_sided(self.formula, self.schema)
        regressors = compile_formula(f"~{right}", self.schema)
        label = f"{name}[{column.level_texts[1]}]"
        response = DesignColumn(label, name, constant_expression(1.0), ((name, (0.0, 1.0)),))
        used = tuple(sorted({*regressors.columns, name}))
        return replace(regressors, text=self.formula, response=response, columns=used)

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
        return build_basis((*self.compiled.design, *self._weights, *self._offsets, self.response), self.schema)

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
        return tuple(sorted({*self.compiled.columns, *(name for one in beside for name in one.columns)}))

    @cached_property
    def features(self) -> Features:
        """The row function."""
        return Features(self.basis, compiled_where(self.where, self.schema))

    @cached_property
    def maps(self) -> Array:
        """Regressors, then response, as combinations of the features (p + 1, d)."""
        return np.asarray(represent(self.basis, (*self.compiled.design, self.response)))

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

    # Ranges

    @cached_property
    def numeric(self) -> tuple[str, ...]:
        """Columns of the data whose range is worth knowing, sorted."""
        return tuple(name for name in self.read if isinstance(self.schema[name], Real | Integer))

    @cached_property
    def ranged(self) -> RoundFrame:
        """A frame whose coordinates are the numeric columns, each scaled to [-1, 1] by its declared bounds."""
        basis = basis_of([quoted(name) for name in self.numeric], self.schema)
        maps = np.zeros((len(self.numeric) + 2, basis.width), dtype=np.int64)
        maps[np.arange(len(self.numeric)), 1 + np.arange(len(self.numeric))] = 1
        return RoundFrame(Features(basis, self.features.where), maps, (0,) * len(maps))

    # Coordinates

    def public_features(self, ranges: Mapping[str, tuple[float, float]]) -> Array:
        """Return the features (d, m) of public rows, uniform over these ranges or declared bounds."""
        return self._moved_features(ranges) if ranges else self._plain_features

    @cached_property
    def _plain_features(self) -> Array:
        return self._moved_features({})

    def _moved_features(self, ranges: Mapping[str, tuple[float, float]]) -> Array:
        rows, _ = Features(self.basis).encode(_raw(_evenly(self.schema, self.read), self.schema, ranges))
        return np.asarray(rows / UNIT)

    def public_rows(self, ranges: Mapping[str, tuple[float, float]]) -> Array:
        """Return regressors and response (p + 1, m) of the same rows."""
        return np.asarray(self.maps @ self.public_features(ranges))

    def refuse_collinear(self) -> None:
        """Refuse conditions and levels of which one is a combination of the others in every row.

        Public rows lie at the bounds of numeric columns, at the constants that the formula names, and between them.

        Raises
        ------
        CollinearDesignError
        """
        cells = _raw(_evenly(self.schema, self.read), self.schema, {})
        rng = np.random.default_rng(1)
        named = sorted({one for column in self.compiled.design for one in _constants(column.expression.node)})
        for name in self.numeric:
            lower, upper = limits_of(self.schema[name])
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

    def scaled(self, ranges: Mapping[str, tuple[float, float]]) -> Scaled:
        """Orthogonalise the regressors on public rows: columns uniform over these ranges, or over declared bounds.

        A range so short, by noise, that hardly a public row has a level or meets a condition is not taken: its column
        keeps the declared bounds.
        """
        taken = dict(ranges)
        while True:
            found, rows = self._orthogonal(taken)
            few = np.flatnonzero(rows < np.minimum(_SOMETIMES, 0.5 * self._plainly[1]))
            lost = frozenset[str]().union(*(self._stepped[place] for place in few))
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

    def frame(
        self,
        coordinates: Array,
        point: Array,
        response: tuple[float, float],
        mean: Interpolant | None = None,
        inverse_sd: Interpolant | None = None,
        lift: Interpolant | None = None,
        skipped: tuple[tuple[str, int], ...] = (),
        predictors: Array | None = None,
        **options: object,
    ) -> RoundFrame:
        """Return a frame of coordinates (q, p) and linear predictor (p,) of the regressors.

        The response is measured less ``response[0]``, over ``response[1]``; without a table of means the linear
        predictor is taken off as it is. Rows at the levels ``skipped`` have no weight. Labels are linear predictors
        with other coefficients, ``predictors`` (k, p).
        """
        shift, unit = response
        measured = self.maps[-1].copy()
        measured[0] -= shift
        linear = point @ self.maps[:-1] + self.offset
        rows = np.vstack([coordinates @ self.maps[:-1], linear, measured / unit - (0.0 if mean else linear)])
        if skipped:
            rows, options = np.vstack([rows, kept_map(self.basis, skipped, self.weight)]), {**options, "weighted": True}
        elif self.weight is not None:
            rows, options = np.vstack([rows, self.weight]), {**options, "weighted": True}
        if predictors is not None:
            rows = np.vstack([rows, predictors @ self.maps[:-1] + self.offset])
            options = {**options, "labels": len(predictors)}
        bits = [_bits(row) for row in rows]
        whole = np.stack([np.trunc(np.ldexp(row, one)) for row, one in zip(rows, bits, strict=True)]).astype(np.int64)
        return RoundFrame(self.features, whole, tuple(bits), mean, inverse_sd, lift, **options)  # type: ignore[arg-type]


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
    schema: Schema, formula: str, where: str | None, weights: str | None, offset: str | None, exposure: str | None
) -> NewtonColumns:
    """Return the columns of a regression; a fit asks for them in each of its stages."""
    return NewtonColumns(schema, formula, where, weights, offsets_of(offset, exposure, schema))


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


def _bits(row: Array) -> int:
    """Most binary places at which the sizes of a row's whole numbers stay within what a frame takes."""
    total = float(np.abs(row).sum())
    return 0 if total == 0 else int(np.clip(np.floor(np.log2(_LARGEST_SUM / total)), 0, 64))


@lru_cache(maxsize=16)
def _evenly(schema: Schema, columns: tuple[str, ...]) -> pd.DataFrame:
    return schema.select(list(columns)).sample(_SAMPLED, np.random.default_rng(0))


def _raw(frame: pd.DataFrame, schema: Schema, ranges: Mapping[str, tuple[float, float]]) -> dict[str, Array]:
    """Move the numeric columns of public rows from their declared bounds into ranges."""
    cells: dict[str, Any] = {str(name): frame[name].to_numpy() for name in frame}
    for name, (low, high) in ranges.items():
        lower, upper = limits_of(schema[name])
        values = schema[name].coerce(cells[name])
        cells[name] = schema[name].cells(low + (values - lower) * ((high - low) / (upper - lower)))
    return cells
