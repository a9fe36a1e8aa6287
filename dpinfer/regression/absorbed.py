"""Least squares with effects of a public factor's levels: sums by level, and block elimination of the levels.

Cross-products of the dummies of one factor are zero but for the counts. So what a regression on them needs is the sums
of every level and the cross-products of the other columns, and nothing is spent on the zeros.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from dpinfer.checks import Allowed, one_of, require
from dpinfer.errors import FormulaError, NotProvedError, UnknownColumnError
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.products import GramSum
from dpinfer.kernel.stage import Slot, Stage, Sum
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.options import compiled_where, inferred, measured, where_notes
from dpinfer.procedures.procedure import Estimated, context_of, first_error
from dpinfer.regression.design import EFFECTS
from dpinfer.regression.gram import ASSUMED, GramProblem, fit_gram
from dpinfer.regression.gram_inference import LinearInference
from dpinfer.regression.near_empty import RAISED, LevelColumns, ridged
from dpinfer.results.base import PrivateResults
from dpinfer.results.printing import alike_flags
from dpinfer.schema.axes import LevelsAxis
from dpinfer.schema.basis import build_basis, represent
from dpinfer.schema.expressions import compile_expression, constant_expression, quoted
from dpinfer.schema.formula import DesignColumn, FormulaDesign, two_sided
from dpinfer.statistics.arrays import symmetric

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.rows.base import RowSum
    from dpinfer.kernel.stage import Context
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.grid import Basis
    from dpinfer.schema.nodes import Expression
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array, Mask

_SPREAD = 0.25
"""Standard deviation of level means, in half ranges of their columns, that the budget is shared for."""

_METHODS = ("auto", "wald", "score")
_NAMED = 5
"""Levels that a warning names one by one."""


@dataclass(frozen=True, eq=False)
class AbsorbedDesign:
    """Regressors and response of a formula, compiled against a schema, with the factor whose levels are absorbed."""

    schema: Schema
    formula: str
    absorb: str
    where: str | None = None

    @cached_property
    def columns(self) -> tuple[DesignColumn, ...]:
        """Regressors without the intercept, then the response; as the formula has them."""
        compiled = two_sided(self.formula, self.schema)
        assert compiled.response is not None
        if compiled.design[0].name != "Intercept":
            raise FormulaError(self.formula, "leaves out the constant, which absorbed levels do anyway", "drop 0 +")
        found = (*compiled.design[1:], compiled.response)
        if len(found) == 1:
            raise FormulaError(self.formula, f"has no regressors besides {self.absorb}", "write at least one")
        for one in found:
            if set(one.columns) <= {self.absorb}:
                reason = f"is the same for all rows of a level of {self.absorb}, whose effects are absorbed"
                raise FormulaError(one.name, reason, "leave it out, or leave out absorb=")
        return found

    @cached_property
    def numeric(self) -> tuple[DesignColumn, ...]:
        """The columns as numbers: other factors by the dummies that the formula makes of them."""
        return tuple(replace(one, expression=self._uncoded(one), codings=()) for one in self.columns)

    def _uncoded(self, column: DesignColumn) -> Expression:
        if not column.codings:
            return column.expression
        parts = [] if column.expression.constant == 1 else [f"({column.expression.text})"]
        for name, weights in column.codings:
            levels = zip(weights, self.schema[name].level_values, strict=True)
            dummies = [("" if w == 1 else f"{w!r} * ") + f"({quoted(name)} == {v!r})" for w, v in levels if w]
            parts.append(dummies[0] if len(dummies) == 1 else f"({' + '.join(dummies)})")
        return compile_expression(" * ".join(parts), self.schema)

    @cached_property
    def basis(self) -> Basis:
        """The constant, then a numeric feature for each column."""
        return build_basis(self.numeric, self.schema)

    @cached_property
    def weights(self) -> Array:
        """Regressors, then response, as combinations of the features (k + 1, d); independent of a constant, too."""
        constant = DesignColumn("Intercept", "1", constant_expression(1.0))
        return represent(self.basis, (constant, *self.numeric))[1:]

    @cached_property
    def sums(self) -> tuple[RowSum, RowSum]:
        """Sums of features by level, and cross-products of all rows; of the same rows, those that have a level."""
        given, name = self.where, quoted(self.absorb)
        if self.schema[self.absorb].may_drop:
            first = self.schema[self.absorb].level_values[0]
            present = f"({name} == {first!r}) | ({name} != {first!r})"
            given = present if given is None else f"({given}) & ({present})"
        of_all = Features(self.basis, compiled_where(given, self.schema))
        by_level = of_all if given == self.where else Features(self.basis, compiled_where(self.where, self.schema))
        return CellSum(by_level, (LevelsAxis(self.schema, self.absorb),)), GramSum(of_all)

    @property
    def levels(self) -> tuple[str, ...]:
        """What each level is called."""
        return tuple(f"{self.absorb} = {text}" for text in self.schema[self.absorb].level_texts)


def share_of_levels(levels: int, width: int, *, laplace: bool) -> Fraction:
    """Return the share of the budget for the sums by level of ``width`` features: for how many levels it has to do.

    Noise of variance v in each sum by level, and u in each product, brings a slope a variance in proportion to
    ``2 L t^2 v + u``, t the spread of level means, u halved off the diagonal under Gaussian noise. With bounds d on the
    squared norm of the features v and u are d and d^2 over the shares of rho; with Laplace noise of L1 bounds d and
    d (d + 1) / 2 they are d^2 and d^2 (d + 1)^2 / 4 over squared shares of epsilon. What is returned is the minimum.
    """
    ratio = 2 * levels * _SPREAD**2 * (4 / (width + 1) ** 2 if laplace else 2 / width)
    part = ratio ** (1 / 3 if laplace else 1 / 2)
    return Fraction(round(100 * part / (1 + part)), 100)


@dataclass(frozen=True, slots=True)
class LevelSums:
    """Released sums of L levels and of all rows, with the variances of their noise; d features, the first constant.

    Attributes
    ----------
    levels : ndarray (L, d)
        Sums of the features by level.
    noise : float
        Variance of the noise of each of them.
    products : ndarray (d, d)
        Noisy sums of z z' over all rows.
    products_noise : ndarray (d, d)
        Variance of the noise of each entry.
    """

    levels: Array
    noise: float
    products: Array
    products_noise: Array


@dataclass(frozen=True, slots=True)
class Eliminated:
    """A regression after the well-filled levels are eliminated.

    Attributes
    ----------
    problem : GramProblem
        Of regressors less their level means, then of the indicators of the other levels; on the features, the
        constant first, then the indicators of all levels, then the others.
    gram : ndarray (1, L + d, L + d)
    nobs : ndarray (1,)
        Rows less eliminated levels.
    rare : ndarray of bool (L,)
        Levels that were not eliminated.
    edge : float
        Below so many rows a level is not.
    """

    problem: GramProblem
    gram: Array
    nobs: Array
    rare: Mask
    edge: float


def eliminate(
    sums: LevelSums, weights: Array, *, laplace: bool, population: bool = True, rows_per_unit: int = 1
) -> Eliminated:
    """Eliminate all levels but those whose noisy count is within the noise.

    Parameters
    ----------
    sums : LevelSums
    weights : ndarray (k + 1, d)
        Regressors and response as combinations of the features.
    laplace, population, rows_per_unit
        See `GramProblem`.

    Notes
    -----
    With means m of all rows, counts n_g and sums s_g, let r_g = s_g - n_g m. The cross-products of columns less their
    level means are those less the overall means, minus the sum of r_g r_g' / n_g: the Schur complement of the levels
    (Frisch & Waugh 1933). Each is a combination of the features, weighted by released means, so that the
    noise of the score is that of `noise_action`.

    Products of noise do not average out over many levels: noise of variance v in n_g and s_g moves r_g r_g' / n_g by
    v (I + m_g m_g') / n_g in expectation, m_g the means of the level, which is added back.
    """
    count, width = sums.levels.shape
    regressors, noise = len(weights) - 1, sums.noise
    edge = 2 * np.sqrt(noise * (regressors + 0.5))
    rows = sums.levels[:, 0]
    rare = rows < edge
    held = np.maximum(rows, edge)[:, None]
    nobs = max(float(sums.products[0, 0]), 1.0)
    means = sums.products[0, 1:] / nobs
    distance = np.where(rare[:, None], 0.0, (sums.levels[:, 1:] - rows[:, None] * means) / held)
    own = np.where(rare[:, None], 0.0, means + distance) / np.sqrt(held)
    excess = noise * (own.T @ own + np.eye(width - 1) * (~rare / held[:, 0]).sum())

    places = np.r_[0, count + 1 : count + width]
    gram, variances = np.zeros((2, count + width, count + width))
    gram[np.ix_(places, places)], variances[np.ix_(places, places)] = sums.products, sums.products_noise
    gram[np.ix_(places[1:], places[1:])] += excess
    inside = np.arange(1, count + 1)
    for table, entries, diagonal in ((gram, sums.levels, rows), (variances, np.full((count, width), noise), noise)):
        table[np.ix_(inside, places)], table[np.ix_(places, inside)] = entries, entries.T
        table[inside, inside] = diagonal
    lift = np.hstack([-means[:, None], -distance.T, np.eye(width - 1)])
    lifted = weights[:, 1:] @ lift
    indicators = np.eye(count + width)[inside[rare]]
    problem = GramProblem(
        variances, np.vstack([lifted[:-1], indicators]), lifted[-1], laplace, population, rows_per_unit
    )
    return Eliminated(problem, gram[None], np.array([nobs - float((~rare).sum())]), rare, edge)


def _rare_columns(found: Eliminated, design: AbsorbedDesign) -> LevelColumns:
    """Return the indicators of the levels that are left: an effect is a level's mean response less the overall one."""
    columns, response = found.problem.design, design.columns[-1].expression
    regressors, features = len(design.columns) - 1, columns.shape[1]
    count = len(columns) - regressors
    size = max(float(found.gram[0, 0, 0]), 1.0)
    overall = float(design.weights[-1] @ found.gram[0, 0, np.r_[0, len(found.rare) + 1 : features]]) / size
    return LevelColumns(
        names=tuple(np.array(design.levels)[found.rare].tolist()),
        features=columns[regressors:],
        columns=np.eye(len(columns))[regressors:],
        groups=np.zeros(count, dtype=np.intp),
        targets=np.full(count, 0.5 * (response.lower + response.upper) - overall),
        bounds=np.full(count, 0.5 * (response.upper - response.lower)),
        functional=lambda place: np.outer(np.eye(len(columns))[regressors + place], np.eye(features)[0]),
    )


@dataclass(frozen=True, eq=False)
class AbsorbedInference(LinearInference):
    """Slopes beside absorbed levels; what is left of rare levels is fitted after them and not shown."""

    methods = _METHODS

    def _of_all(self, rows: Array) -> Array:
        """Turn weights of the slopes into those of all that is fitted, where tests are inverted on it."""
        more = 0 if self.method == "wald" else self.fit.params.shape[1] - rows.shape[1]
        return np.pad(rows, ((0, 0), (0, more)))

    def _ends(self, rows: Array, alpha: float) -> Array:
        return super()._ends(self._of_all(rows), alpha)

    def _tails(self, rows: Array, values: Array) -> Array:
        return super()._tails(self._of_all(rows), values)

    def _joint(self, rows: Array, values: Array) -> tuple[float, float]:
        return super()._joint(self._of_all(rows), values)

    def restricted(self, restrictions: Array, targets: Array) -> NoReturn:  # noqa: ARG002
        """Refuse to simulate.

        Raises
        ------
        NotProvedError
        """
        raise NotProvedError('null="simulated" is not available with absorb=: use null="asymptotic"')


@dataclass(frozen=True, eq=False)
class AbsorbedOLS(Estimated):
    """Private least squares with effects of the levels of a public factor. See `ols`, ``absorb``."""

    procedures = ("absorbed_ols",)

    formula: str = measured("", Allowed(lambda given: isinstance(given, str), 'a formula such as "income ~ age"'))
    absorb: str = measured("", Allowed(lambda given: isinstance(given, str), "the name of a column of levels"))
    where: str | None = None
    _: KW_ONLY
    inference: str = inferred("auto", one_of(_METHODS))

    def design(self, schema: Schema) -> AbsorbedDesign:
        """Return the columns, compiled against a schema."""
        return AbsorbedDesign(schema, self.formula, self.absorb, self.where)

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse a formula that the schema cannot bound, and a factor without levels or with effects of people."""
        if EFFECTS.search(self.formula):
            raise NotProvedError("absorb= has no proof with effects of people: use C() of the factor instead")
        if self.absorb not in schema:
            raise UnknownColumnError(self.absorb, schema, "absorb")
        require(
            len(schema[self.absorb].level_texts) > 1, "absorb", self.absorb, "a column of levels, such as a Category"
        )
        design = self.design(schema)
        for one in design.sums:
            one.check()
        assert len(design.weights)

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        return f"{self.formula}, effects of {self.absorb} absorbed"

    def slots(self, context: Context) -> tuple[Slot, ...]:
        """Share the price between sums by level and cross-products, so that slopes have the least noise."""
        design = self.design(context.schema)
        share = share_of_levels(len(design.levels), design.basis.width, laplace=isinstance(context.privacy, PureDP))
        return Slot(share), Slot(1 - share)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the sums by level, then for the cross-products."""
        return Stage(Sum(self.design(context.schema).sums[place]))

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, and how many rows a level needs."""
        design = self.design(measured.context.schema)
        edge = 2 * np.sqrt(len(design.weights) - 0.5) * first_error(measured.stages[0])
        return (
            f"{measured.describe()}\nlevels of {self.absorb} with fewer than about {edge:,.0f} rows are not "
            "determined: intervals allow for all their possible effects"
        )

    def infer(self, release: Release | None = None) -> PrivateResults:
        """Infer from a release of this question.

        Raises
        ------
        InferenceError
            If the release was made for another question.
        """
        found, theirs = self._asked_of(release)
        assert isinstance(theirs, AbsorbedOLS)
        design, context = theirs.design(found.schema), context_of(found)
        *regressors, response = design.columns
        levels, products = found.stages
        width = design.basis.width
        sums = LevelSums(
            levels.array.reshape(-1, width),
            float(levels.noise_variances.max()),
            symmetric(products.array, width),
            symmetric(products.noise_variances, width),
        )
        eliminated = eliminate(
            sums,
            design.weights,
            laplace=levels.law.family == "laplace",
            population=self.target == "population",
            rows_per_unit=context.schema.rows_per_unit,
        )
        inference = _inferred(eliminated, design, found).with_method(self.inference)
        notes = where_notes(self.where)
        notes.append(
            f"Effects of {len(design.levels)} levels of {self.absorb} are absorbed; R-squared is within levels."
        )
        if self.target == "population":
            notes.append(ASSUMED)
        return PrivateResults(
            replace(inference, notes=(*inference.notes, *alike_flags(found.schema, self.target))),
            found,
            model_name="Private OLS",
            response=response.name,
            notes=tuple(notes),
            design=FormulaDesign(found.schema, tuple(regressors)),
        )


def _inferred(eliminated: Eliminated, design: AbsorbedDesign, release: Release) -> AbsorbedInference:
    """Fit what is left: the slopes, and levels that hold too few rows with a ridge on them."""
    problem, gram, nobs = eliminated.problem, eliminated.gram, eliminated.nobs
    names = tuple(column.name for column in design.columns[:-1])
    size = float(gram[0, 0, 0])
    found = AbsorbedInference(
        names,
        fit_gram(problem, gram, nobs),
        target="population" if problem.population else "data",
        release=release,
        nobs=size,
        nobs_is_public=bool(release.stages[1].law.scales[0] == 0.0),
        size=size,
    )
    if not eliminated.rare.any():
        return found
    left = _rare_columns(eliminated, design)
    rare = _named(left.names)
    missing = RAISED * eliminated.edge - np.einsum("kd,rde,ke->rk", left.features, gram, left.features)
    kept, ridge = ridged(problem, gram, nobs, left, np.arange(len(left.features)), missing)
    if kept.all():
        return replace(found, fit=ridge.fit, ridge=replace(ridge, names=rare))
    return replace(found, notes=(f"not determined: {', '.join(rare)}; the noisy number of rows is too close to zero",))


def _named(names: tuple[str, ...]) -> tuple[str, ...]:
    """Name the first few of many levels, and say how many there are."""
    more = len(names) - _NAMED
    return (*names[:_NAMED], f"and {more} more") if more > 0 else names
