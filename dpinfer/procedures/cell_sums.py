"""Questions that sums in the cells of a table answer: what is summed, what is estimated, how results are made.

A `SumPlan` is what is summed, compiled against a schema: which monomials of columns, or counts, in which cells.
`describe` turns releases of its sums into estimates of means, totals, variances, covariances, correlations, shares and
counts; `infer_sums` into results. Questions of other topics that read the same sums are `SumsQuestion`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.linalg import block_diag

from dpinfer.checks import of_type, require
from dpinfer.errors import (
    FormulaError,
    InferenceError,
    MissingFromReleaseError,
    ReleaseFormatError,
    named,
)
from dpinfer.kernel.rows.cells import CellSum, PersonSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.stage import Context, Stage, Sum
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.options import compiled_where, refuse_simulated, told_where, where_notes
from dpinfer.procedures.procedure import Estimated, Procedure, context_of
from dpinfer.release import Release
from dpinfer.release.laws import NORMAL_DRAWS
from dpinfer.release.release import encode
from dpinfer.results.descriptions import DescriptionResults, ProportionResults, TableResults
from dpinfer.results.printing import alike_flags, separate_flags
from dpinfer.schema.basis import basis_of
from dpinfer.schema.expressions import axis_from_dict, compile_expression
from dpinfer.statistics.inference import Released
from dpinfer.statistics.moment_inference import MomentInference
from dpinfer.statistics.moments import (
    Estimates,
    MomentSums,
    correlations,
    covariances,
    means,
    proportions,
    totals,
    variances,
)
from dpinfer.statistics.noise import NoiseSums, variables_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dpinfer.privacy.units import Neighbors
    from dpinfer.procedures.options import Contrasts
    from dpinfer.release import NoiseLaw, StageRelease
    from dpinfer.schema.axes import Axis
    from dpinfer.schema.grid import Basis
    from dpinfer.schema.nodes import Expression
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array
    from dpinfer.statistics.inference import BatchEstimates, Oracle

    Exponent = tuple[int, ...]


MOMENTS = ("mean", "total", "variance", "cov", "corr", "multinormal")
"""Kinds that sum monomials of columns."""

TABLES = ("count", "table", "histogram", "proportion")
"""Kinds that count rows in cells."""

MOST_ESTIMATES = 4000
"""Estimates that results may hold with all their covariances."""

_SECOND_SHARE = {"mean": 0.25, "total": 0.25, "variance": 0.35, "cov": 0.45, "corr": 0.45}
"""Share of the noise budget that goes to the sums which serve standard errors alone."""

_WEIGHTED_SHARE = 0.5
"""The same where rows carry weights: their squares vary more."""

_MOST_COLUMNS = {"mean": 20, "total": 20, "variance": 8, "cov": 5, "corr": 5, "multinormal": 10}

_TITLES = {
    "cov": "covariance",
    "corr": "correlation",
    "multinormal": "multivariate normal",
    **dict.fromkeys(("table", "histogram"), "count"),
}


@dataclass(frozen=True, eq=False)
class SumPlan:
    """What is summed in which cells.

    Attributes
    ----------
    kind : str
        One of `MOMENTS` or `TABLES`.
    schema : Schema
    columns : tuple of str
        Numeric expressions whose moments are asked for; empty for counts.
    axes : tuple of mapping
        The table, as `Axis.to_dict` writes it: groups first, levels of a proportion last.
    where : str, optional
        Rows at which it does not hold count as absent.
    weights : str, optional
        Column of bounded survey weights.
    target : {"population", "data"}
        For the data themselves no sums for standard errors are needed.
    """

    kind: str
    schema: Schema
    columns: tuple[str, ...] = ()
    axes: tuple[Mapping[str, Any], ...] = ()
    where: str | None = None
    weights: str | None = None
    target: str = "population"

    @cached_property
    def expressions(self) -> tuple[Expression, ...]:
        """The columns, compiled and bounded."""
        found = tuple(compile_expression(text, self.schema) for text in self.columns)
        for expression in found:
            if expression.constant is not None:
                raise FormulaError(expression.text, "is the same for every row", "ask for something that differs")
        texts = [expression.text for expression in found]
        require(len(set(texts)) == len(texts), "columns", list(self.columns), "different columns")
        most = _MOST_COLUMNS.get(self.kind, 0)
        right = f"at most {most} columns; a gram serves more at less noise"
        require(len(found) <= most, "columns", list(self.columns), right)
        return found

    @cached_property
    def weight(self) -> Expression | None:
        """The weight, compiled; bounded and not negative."""
        if self.weights is None:
            return None
        text = of_type(str, "weights", self.weights, "the name of a column of weights, or None")
        found = compile_expression(text, self.schema)
        right = f"a column whose lower bound is not negative, not {found.lower:g}"
        require(found.lower >= 0 and found.constant is None, "weights", text, right)
        return found

    @cached_property
    def cells(self) -> tuple[Axis, ...]:
        """The axes as objects."""
        found = tuple(axis_from_dict(axis, self.schema) for axis in self.axes)
        names = [axis.name for axis in found]
        require(len(set(names)) == len(names), "by", names, "different columns")
        return found

    @property
    def scaled(self) -> tuple[Array, Array]:
        """Middle and half width of every column; totals are kept in the columns' own units."""
        if self.kind == "total":
            return np.zeros(len(self.columns)), np.ones(len(self.columns))
        center = np.array([0.5 * e.lower + 0.5 * e.upper for e in self.expressions])
        half = np.array([0.5 * (e.upper - e.lower) for e in self.expressions])
        return center, half

    @cached_property
    def first(self) -> tuple[Exponent, ...]:
        """Monomials that the estimates are functions of, the count (or sum of weights) first."""
        count, weighted = len(self.columns), int(self.weight is not None)
        unit = [tuple(int(i == j) for j in range(count)) for i in range(count)]
        found: list[Exponent] = [] if self.kind == "total" else [(0,) * count]
        found += unit
        if self.kind in ("variance", "cov", "corr", "multinormal"):
            pairs = combinations_with_replacement(range(count), 2)
            found += [_added(unit[i], unit[j]) for i, j in pairs if i == j or self.kind != "variance"]
        return tuple((*exponent, weighted) for exponent in found)

    @cached_property
    def exponents(self) -> tuple[Exponent, ...]:
        """All monomials that are summed: the constant 1, the others of `first`, then products for errors."""
        found = dict.fromkeys(self.first)
        if self.target == "population" and not self.by_person:
            found |= dict.fromkeys(_added(a, b) for a, b in combinations_with_replacement(self.first, 2))
        constant = (0,) * (len(self.columns) + 1)
        found.pop(constant, None)
        return (constant, *found)

    @property
    def by_person(self) -> bool:
        """Whether people are summed rather than rows: the products for errors are then of a person's sums."""
        averaged = self.kind in ("mean", "total") and bool(self.columns) and self.weights is None
        return averaged and self.target == "population" and self.schema.rows_per_unit > 1

    @cached_property
    def released(self) -> tuple[Exponent, ...]:
        """Monomials whose sums are released: of people those of first power in their weight, then their products."""
        if self.by_person:
            linear = [(*exponent[:-1], 1) for exponent in self.first]
            return (*linear, *(_added(a, b) for a, b in combinations_with_replacement(linear, 2)))
        return self.exponents if self.counted else self.exponents[1:]

    @property
    def counted(self) -> bool:
        """Whether the number of rows is released."""
        return self.kind != "total" or not self.columns

    @cached_property
    def basis(self) -> Basis:
        """The features: the constant and the monomials."""
        texts = tuple(self._text(exponent) for exponent in self.exponents[1:])
        return basis_of(texts, self.schema, centred=self.kind != "total")

    @cached_property
    def _middles(self) -> list[float]:
        middles: list[float] = self.scaled[0].tolist()
        return middles

    def _text(self, exponent: Exponent) -> str:
        parts = []
        for expression, middle, power in zip(self.expressions, self._middles, exponent, strict=False):
            base = f"({expression.text})" if middle == 0 else f"(({expression.text}) - ({middle!r}))"
            parts += [base if power == 1 else f"{base}**{power}"] if power else []
        if exponent[-1] and self.weight is not None:
            parts.append(f"({self.weight.text})" + (f"**{exponent[-1]}" if exponent[-1] > 1 else ""))
        return " * ".join(parts)

    @cached_property
    def rows(self) -> CellSum:
        """The row sum."""
        kind = PersonSum if self.by_person else CellSum
        condition = compiled_where(self.where, self.schema)
        return kind(Features(self.basis, condition), self.cells, counted=self.counted)

    def noise_weights(self, *, pure: bool) -> list[float]:
        """Noise scale of every released feature relative to the first ones.

        Sums that serve standard errors alone share a fixed part of the budget, however many they are.
        """
        needed = set(self.first) | {(0,) * len(self.exponents[0])}
        second = [exponent[-1] > 1 if self.by_person else exponent not in needed for exponent in self.released]
        n_first, n_second = len(second) - sum(second), sum(second)
        share = _SECOND_SHARE.get(self.kind, 1.0)
        if self.weight is not None or self.by_person:
            share = max(share, _WEIGHTED_SHARE)
        ratio = n_second / max(n_first, 1) * (1 - share) / share
        weight = max(1.0, ratio if pure else ratio**0.5)
        return [weight if extra else 1.0 for extra in second]

    def check(self) -> None:
        """Compile everything, and so refuse what cannot be served before anything is measured."""
        _ = self.weight, self.rows.names

    def moment_sums(self, values: Array, law: NoiseLaw, steps: Array) -> MomentSums:
        """Turn released sums of R releases (R, m), in units of the scaled features, into sums of monomials.

        Sums over people are in units of a person with all rows at the bound.
        """
        mixing = self._monomials
        if self.by_person:  # sums of products of two of a person's sums, too
            first, second = np.triu_indices(len(mixing))
            products = mixing[first][:, first] * mixing[second][:, second]
            crossed = mixing[first][:, second] * mixing[second][:, first]
            mixing = block_diag(mixing, products + np.where(first == second, 0.0, crossed))
        width = len(mixing)
        center, half = self.scaled
        sums = values.reshape(len(values), self.rows.size, width)
        return MomentSums(
            self.released,
            sums @ mixing.T,
            mixing,
            (law.variances * steps**2)[:width],
            laplace=law.family == "laplace" and law.draws < NORMAL_DRAWS,
            people=self.by_person,
            rows_per_unit=1 if self.by_person else self.schema.rows_per_unit,
            lower=(np.array([one.lower for one in self.expressions]) - center) / half,
            upper=(np.array([one.upper for one in self.expressions]) - center) / half,
            heaviest=1.0 if self.weight is None else float(self.weight.upper),
        )

    @property
    def _monomials(self) -> Array:
        """The monomials as combinations of the features."""
        _, half = self.scaled
        found = np.zeros((len(self.exponents), len(self.exponents)))
        found[0, 0] = 1.0
        for place, (exponent, block) in enumerate(zip(self.exponents[1:], self.basis.blocks[1:], strict=True), 1):
            unit = float(np.prod(half ** np.array(exponent[:-1])))
            found[place, 0], found[place, place] = block.center / unit, block.half / unit
        return found if self.counted else found[1:, 1:]

    @property
    def text(self) -> str:
        """The question in one line."""
        axes = [axis.name for axis in self.cells]
        if self.kind in MOMENTS:
            text = f"{self.kind} of {', '.join(self.columns)}"
            text += f" by {', '.join(axes)}" if axes else ""
        else:
            text = f"{self.kind} of {', '.join(axes)}" if axes else "count of rows"
        return text + (f", weights {self.weights}" if self.weights else "") + told_where(self.where)

    @property
    def quantities(self) -> list[str]:
        """Names of the moments that are asked for in each cell."""
        texts = [expression.text for expression in self.expressions]
        pairs = list(combinations_with_replacement(texts, 2))
        if self.kind == "cov":
            return [f"cov({a}, {b})" for a, b in pairs]
        correlations = [f"corr({a}, {b})" for a, b in pairs if a != b]
        if self.kind == "corr":
            return correlations
        if self.kind == "multinormal":
            return [*(f"mean({text})" for text in texts), *(f"sd({text})" for text in texts), *correlations]
        return texts

    @property
    def clamping(self) -> str:
        """The bounds to which values are clamped."""
        return ", ".join(f"{one.text} to [{one.lower:.6g}, {one.upper:.6g}]" for one in self.expressions)

    @property
    def about(self) -> object:
        """What is summed, without the target, in comparable form."""
        return encode([self.kind, self.columns, self.axes, self.where, self.weights])


def _added(a: Exponent, b: Exponent) -> Exponent:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def check_summed(released: Released) -> None:
    """Refuse releases that hold no sums in cells.

    Raises
    ------
    OptionError
    """
    of_type(CellSum, "released", released.rows, "releases of sums in the cells of a table", hidden=True)


class Described:
    """What a plan asks for, as numbers that any release of it shares.

    Attributes
    ----------
    quantities : tuple of str, length q
    labels : tuple of str, length G
        Of the cells.
    names : tuple of str, length p = G q
    shift, factor : ndarray (q,)
        From scaled units to the columns' own.
    index : Index
        Labels of the parameters: groups, with the quantity first where there are several or no groups.
    """

    def __init__(self, plan: SumPlan, quantities: Sequence[str], axes: Sequence[Axis]) -> None:
        self.quantities = tuple(quantities)
        labels = [""]
        for axis in axes:
            labels = [f"{one}, " * bool(one) + f"{axis.name}={label}" for one in labels for label in axis.labels]
        self.labels = tuple(labels)
        self.names = tuple(
            f"{quantity}[{label}]" if label else quantity for label in self.labels for quantity in self.quantities
        )
        center, half = plan.scaled
        self.shift, self.factor = np.zeros(len(self.quantities)), np.ones(len(self.quantities))
        if plan.kind == "mean":
            self.shift, self.factor = center, half
        elif plan.kind == "multinormal":
            self.shift[: len(center)] = center
            self.factor[: 2 * len(half)] = np.tile(half, 2)
        elif plan.by_person:  # people are summed as parts of one with all rows
            self.factor[:] = plan.schema.rows_per_unit
        elif plan.kind == "variance":
            self.factor = half**2
        elif plan.kind == "cov":
            first, second = np.triu_indices(len(half))
            self.factor = half[first] * half[second]
        levels: list[Any] = [list(axis.labels) for axis in axes]
        names = [axis.name for axis in axes]
        if len(self.quantities) > 1 or not axes:
            levels.append(list(self.quantities))
            names.append("quantity")
        self.index: pd.Index[Any] = pd.Index(levels[0], name=names[0] if axes else None)
        if len(levels) > 1:
            self.index = pd.MultiIndex.from_product(levels, names=names)


def describe(
    plan: SumPlan, released: Released, *, target: str, columns: Sequence[str] | None = None
) -> tuple[Estimates, Described]:
    """Estimate what a plan asks for from R releases of its sums.

    A table is summed over all axes but ``columns``, by default over none.

    Raises
    ------
    MissingFromReleaseError
        If the table has no such axis.
    """
    population = target == "population"
    public = released.nobs if released.nobs is not None and plan.rows.keeps_every_row else None
    if plan.kind in TABLES:
        return _describe_counts(plan, released, columns, public, population=population)
    sums = plan.moment_sums(released.values, released.law, released.steps)
    if plan.kind == "total":
        least = 0.0 if all(expression.lower >= 0 for expression in plan.expressions) else -np.inf
        found = totals(sums, population=population, nobs=public, lower=least, counts=False)
    else:
        found = _ESTIMATES[plan.kind](sums, population=population)
    return found, Described(plan, plan.quantities, plan.cells)


_ESTIMATES = {"mean": means, "variance": variances, "cov": covariances, "corr": correlations}


def _describe_counts(
    plan: SumPlan, released: Released, columns: Sequence[str] | None, public: int | None, *, population: bool
) -> tuple[Estimates, Described]:
    """Estimate counts, or shares of the levels of the last axis."""
    axes, counts = counts_of_table(plan, released.values, columns)
    law, most, together = released.law, plan.schema.rows_per_unit, counts.shape[-1]
    laplace = law.family == "laplace" and law.draws < NORMAL_DRAWS
    noise = released.noise_variances[: together * (len(axes[-1].labels) if axes else 1)]
    if plan.kind == "proportion":
        sums = replace(_level_sums(counts, noise, axes[-1], public, laplace=laplace), rows_per_unit=most)
        return proportions(sums, population=population), Described(plan, levels_shown(axes[-1]), axes[:-1])
    counted, ones = counts.sum(axis=-1, keepdims=True), np.ones((1, together))
    sums = MomentSums(((0,),), counted, ones, noise[:together], laplace, rows_per_unit=most)
    found = totals(sums, population=population, nobs=public, lower=0.0, counts=True)
    if not population:
        factors = found.mixing[:1, :1] * released.steps[:together]
        found = replace(found, alone=NoiseSums(factors, variables_of(law)[:together]))
    return found, Described(plan, ["count"], axes)


def counts_of_table(plan: SumPlan, values: Array, columns: Sequence[str] | None) -> tuple[tuple[Axis, ...], Array]:
    """Arrange counts by the cells of some axes, in the order named (R, G, k): k released counts make up one.

    Raises
    ------
    MissingFromReleaseError
        If the table has no such axis.
    """
    axes = plan.cells
    names = [axis.name for axis in axes]
    chosen = names if columns is None else list(columns)
    unknown = [column for column in chosen if column not in names]
    if unknown or len(set(chosen)) < len(chosen):
        listed = ", ".join(map(named, unknown or chosen))
        raise MissingFromReleaseError(f"the table has no {listed}; it is of {', '.join(names) or 'rows'}, each once")
    rows = [names.index(column) for column in chosen]
    summed = [place for place in range(len(names)) if place not in rows]
    table = values.reshape(len(values), *plan.rows.shape).transpose(0, *(place + 1 for place in (*rows, *summed)))
    cells = int(np.prod([len(axes[place].labels) for place in rows], dtype=np.int64))
    return tuple(axes[place] for place in rows), table.reshape(len(values), cells, -1)


def levels_shown(axis: Axis) -> list[str]:
    """Names of the shares of an axis: of two truth values only that of True."""
    if axis.labels == (False, True):
        return [axis.name]
    return [f"{axis.name}={label}" for label in axis.labels]


def _level_sums(counts: Array, noise: Array, axis: Axis, public: int | None, *, laplace: bool) -> MomentSums:
    """Write counts of levels (the last axis kept) as sums of indicators, and their total.

    Where the number of rows is public and there is one group, the counts are moved to add up to it: their
    noisy total then tells something about the noise.
    """
    levels, truth, together = len(axis.labels), axis.labels == (False, True), counts.shape[-1]
    grouped = counts.reshape(len(counts), -1, levels * together)
    known = public is not None and grouped.shape[1] == 1
    top, bottom = np.eye(levels), np.ones((1, levels))
    if known:
        top, bottom = top - 1.0 / levels, np.zeros((1, levels))
    mixing = np.kron(np.vstack([bottom, top[1:] if truth else top]), np.ones((1, together))).astype(np.float64)
    sums = grouped @ mixing.T
    if known:
        sums += np.array([float(public or 0), *[float(public or 0) / levels] * (len(mixing) - 1)])
    width = len(mixing) - 1
    exponents = [(0,) * (width + 1), *(tuple(int(i == j) for j in range(width + 1)) for i in range(width))]
    return MomentSums(tuple(exponents), sums, mixing, noise, laplace)


def infer_sums(
    release: Release,
    plan: SumPlan,
    *,
    columns: Sequence[str] | None = None,
    target: str | None = None,
    inference: str = "auto",
    replicates: int = 999,
    seed: int = 0,
    table: Any = None,
    estimated: Callable[[Released], tuple[Estimates, Described]] | None = None,
) -> DescriptionResults:
    """Infer what a plan asks for from a release of its sums.

    The kind of the plan says whether counts or shares of a table are asked for. ``columns`` are the axes of the table
    that are kept. ``table`` answers further questions. ``estimated`` estimates what `describe` does not.

    Raises
    ------
    InferenceError
        If the release holds no sums for sampling errors, and they are needed.
    MissingFromReleaseError
        If a column is not in the table.
    """
    chosen = plan.target if target is None else target
    normal = plan.kind == "multinormal"  # whose sampling errors follow from the model
    if chosen == "population" and plan.target == "data" and plan.kind in MOMENTS and not normal:
        raise InferenceError(
            'the release was measured with target="data": it holds no sums for sampling errors; measure with '
            'target="population"'
        )
    released = Released.of_release(release, context_of(release), plan.rows)
    if estimated is None:
        estimates, described = describe(plan, released, target=chosen, columns=columns)
    else:
        estimates, described = estimated(released)
    title, of_one = _TITLES.get(plan.kind, plan.kind), plan.schema.rows_per_unit if plan.by_person else 1
    sizes = None
    if title not in ("total", "count") and not normal:
        rows = estimates.size[0] * of_one
        sizes = pd.Series(np.repeat(rows, len(described.quantities)), index=described.index)
    exact, nobs = release.nobs is not None and plan.rows.keeps_every_row, None
    if exact and release.nobs is not None:
        nobs = float(release.nobs)
    elif plan.rows.counted:  # in all cells
        nobs = float(release.array.reshape(plan.rows.size, -1)[:, 0].sum()) * of_one
    found = MomentInference(
        estimates=estimates,
        names=described.names,
        shift=described.shift,
        factor=described.factor,
        nobs=nobs,
        nobs_is_public=exact,
        method=inference,
        target=chosen,
        law=release.law,
        steps=released.steps,
        replicates=replicates,
        seed=seed,
        labels=described.labels,
        notes=(
            *(() if plan.by_person else alike_flags(plan.schema, chosen)),
            *separate_flags(plan.schema, estimates.size.shape[1], chosen),
        ),
    )
    shown: dict[str, Any] = {
        "model_name": f"Private {title}",
        "response": _response(plan, columns),
        "notes": _notes(plan),
        "quantity": "estimate" if normal else title,
        "index": described.index,
        "sizes": sizes,
    }
    if title == "count":
        return TableResults(found, release, table=table, **shown)
    return (ProportionResults if title == "proportion" else DescriptionResults)(found, release, **shown)


def _response(plan: SumPlan, columns: Sequence[str] | None) -> str:
    if plan.kind in MOMENTS:
        return ", ".join(expression.text for expression in plan.expressions)
    names = [axis.name for axis in plan.cells] if columns is None else list(columns)
    if plan.kind == "proportion":
        return names[-1]
    return " x ".join(names) or "rows"


def _notes(plan: SumPlan) -> tuple[str, ...]:
    notes = where_notes(plan.where)
    if plan.weights:
        notes.append(f"Rows are weighted by {plan.weights}.")
    if plan.kind == "multinormal":
        notes.append(f"Values are clamped to {plan.clamping}; the model accounts for the clamping.")
    elif plan.kind in MOMENTS:
        notes.append(
            f"Values are clamped to their declared bounds ({plan.clamping}); estimates are of the clamped values."
        )
    return tuple(notes)


@dataclass(frozen=True, eq=False)
class MeasuredCounts:
    """What a release of counts measured.

    Attributes
    ----------
    axes : tuple of Axis
    weights : ndarray (m, cells) or None
        The measured quantities as combinations of the cells; None where they are the cells.
    names : tuple of str, length m
    where : str or None
        The condition, compiled to one spelling.
    every_row : bool
        Whether each row of the data is in one of the cells.
    """

    axes: tuple[Axis, ...]
    weights: Array | None
    names: tuple[str, ...]
    where: str | None
    every_row: bool


def counts_in(plan: SumPlan) -> MeasuredCounts:
    """Return what a table of counts measured.

    Raises
    ------
    ReleaseFormatError
        If it does not count rows.
    """
    if not plan.rows.counts_only:
        raise ReleaseFormatError(f"a release of kind {plan.kind!r} that does not count rows is damaged")
    cells = [
        ", ".join(f"{axis.name}={label}" for axis, label in zip(plan.cells, cell, strict=True))
        for cell in plan.rows.cells
    ]
    condition = compiled_where(plan.where, plan.schema)
    where = None if condition is None else condition.text
    return MeasuredCounts(plan.cells, None, count_names(cells), where, plan.rows.keeps_every_row)


def count_names(cells: Sequence[str]) -> tuple[str, ...]:
    """Return the names of counts, from those of their cells."""
    return tuple(f"count[{cell}]" if cell else "count" for cell in cells)


@dataclass(frozen=True, eq=False)
class SumsQuestion(Procedure):
    """A question about sums, or counts, in the cells of a table."""

    @abstractmethod
    def plan(self, schema: Schema) -> SumPlan:
        """Return the sums, compiled against a schema."""

    def text(self, schema: Schema) -> str:
        """Return the question in one line."""
        return self.plan(schema).text

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse columns, groups and conditions that the schema cannot serve."""
        self.plan(schema).check()

    def release_kind(self, context: Context) -> str:
        """Return the kind of the sums that are measured."""
        return self.plan(context.schema).kind

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for sums, or counts, in the cells of a table."""
        self.check(context.schema, context.neighbors)
        plan = self.plan(context.schema)
        weights = plan.noise_weights(pure=isinstance(context.privacy, PureDP))
        return Stage(Sum(plan.rows, weights=tuple(weights)))

    @property
    def described(self) -> Procedure:
        """The question whose estimates the sums give."""
        return self

    def reads(self, other: Procedure) -> bool:
        """Return whether a release serves: one that holds sums which do."""
        held = other.summed()
        return held is not None and self.reads_sums(held)

    def reads_sums(self, held: SumPlan) -> bool:
        """Return whether sums serve: by default those of the same question."""
        return bool(held.about == self.plan(held.schema).about)

    def summed(self) -> SumPlan | None:
        """Return the sums that its release holds."""
        return self.plan(self.source.schema) if isinstance(self.source, Release) else None

    def counted(self) -> MeasuredCounts | None:
        """Return the counts that its release holds."""
        held = self.summed()
        return None if held is None else counts_in(held)

    def _release_and_sums(self, release: Release | None) -> tuple[Release, SumPlan]:
        """Return the release to infer from, and the sums that it holds; errors as `infer`."""
        found, theirs = self._asked_of(release)
        plan = theirs.summed()
        assert plan is not None  # `reads` refuses other releases
        return found, plan


class CountsQuestion(SumsQuestion):
    """A question about the counts of a table, which any table or marginals of the same rows answer."""

    where: str | None

    def reads_sums(self, held: SumPlan) -> bool:
        """Return whether sums serve: those of any table of counts of the same rows."""
        return held.kind in TABLES and held.where == self.where

    def reads(self, other: Procedure) -> bool:
        """Return whether a release serves: a table of counts, or marginals, of the same rows."""
        tables = other.marginal_tables()
        return super().reads(other) if tables is None else tables.plan.where == self.where


@dataclass(frozen=True, eq=False)
class MomentsQuestion(SumsQuestion, Estimated):
    """A question whose estimates are functions of moments in the cells of a table."""

    def estimate(self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None) -> BatchEstimates:
        """Infer from many releases at once; see `Procedure.estimate`."""
        refuse_simulated(self.inference)
        return self._inferred(released).batch(alpha, contrasts)

    def oracle(
        self,
        released: Released,
        *,
        sampling: Array,
        alpha: float = 0.05,
        contrasts: Contrasts = None,  # noqa: ARG002
    ) -> Oracle:
        """Say how wide an interval would be that knew the population; see `OLS.oracle`."""
        return self._inferred(released).oracle(sampling, alpha)

    def _inferred(self, released: Released) -> MomentInference:
        estimates, described = self._describe(released)
        return MomentInference(described.names, estimates, described.shift, described.factor, method=self.inference)

    def _describe(self, released: Released) -> tuple[Estimates, Described]:
        check_summed(released)
        return describe(self.plan(released.schema), released, target=self.target)
