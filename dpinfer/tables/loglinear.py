"""Log-linear models of noisy counts: the question, and where its counts come from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dpinfer.errors import MissingFromReleaseError, NotProvedError, OptionError, UnknownColumnError
from dpinfer.kernel.stage import Data
from dpinfer.procedures.cell_sums import CountsQuestion, SumPlan, check_summed, counts_of_table
from dpinfer.procedures.combine import NOWHERE
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import (
    TARGET,
    Contrasts,
    axes_of,
    axis_name,
    check_bins,
    edges_of,
    inferred,
    one_of,
    told_where,
    where_notes,
)
from dpinfer.procedures.procedure import first_error
from dpinfer.release import Release
from dpinfer.results.descriptions import CombinedResults
from dpinfer.results.printing import refuse_dependent_rows
from dpinfer.schema.axes import BinsAxis
from dpinfer.schema.columns import Boolean, Category
from dpinfer.schema.schema import Schema
from dpinfer.statistics.combination import CombinedNoise, LinearNoise, added_noise
from dpinfer.statistics.noise import count_noise
from dpinfer.tables.loglinear_fit import FORMULA, CellNoise, CellTable, NoisyCells, check_size, one_sided
from dpinfer.tables.loglinear_inference import METHODS, LogLinearInference, batch_loglinear, loglinear_oracle
from dpinfer.tables.loglinear_results import LogLinearResults
from dpinfer.tables.marginal_results import MarginalTables

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import NoiseLaw
    from dpinfer.release.release import AnyRelease
    from dpinfer.schema.formula import FormulaDesign
    from dpinfer.statistics.arrays import Array, Mask
    from dpinfer.statistics.inference import BatchEstimates, Oracle, Released
    from dpinfer.tables.loglinear_fit import LogLinearModel

__all__ = ["LogLinear", "cells_of_table", "loglinear"]

_QUOTED = re.compile(r"`([^`]+)`")


@suggests
def loglinear(
    formula: str,
    data: Data | Release | CombinedResults | None = None,
    *,
    bins: Mapping[str, Sequence[float]] | None = None,
    where: str | None = None,
    exclude: str | None = None,
    cov_type: str = "robust",
    inference: str = "auto",
    target: str = "population",
) -> LogLinear:
    """Fit a log-linear model to the noisy counts of a table.

    Parameters
    ----------
    formula : str
        Terms in the factors of the table, such as ``"race * sex + sex * educ"``, without a left side. Category columns
        are factors, Boolean columns 0 and 1, short Integer columns numbers, and factors in ``C()``; numeric columns
        with ``bins`` are factors; a condition is a factor of two levels in backticks, as in ```"race * `age >= 18`"```.
    data : PrivateData, PublicData, Release or CombinedResults, optional
        Rows to measure, in the smallest table that holds the factors; or a release of a table that holds them among
        others, or of `marginals` one of which does, or the result of `combine` where that determines their table,
        which cost nothing more.
    bins : mapping of str to sequence of float, optional
        Increasing edges for numeric columns.
    where : str, optional
        A condition on declared columns; other rows are not counted.
    exclude : str, optional
        A condition on the factors that holds at the cells that cannot be, such as ``"(sex == 'm') & pregnant"``:
        structural zeros.
    cov_type : {"robust", "nonrobust"}
        "nonrobust" takes the covariance of the counts from the fitted means; "robust" from the noisy counts, too, where
        these say more: it holds where the model does not.
    inference : {"auto", "score", "wald"}
        "auto" is "score": intervals hold the values that a score test at the value does not reject.
    target : {"population", "data"}
        Whether sampling counts as error, or noise alone.

    Returns
    -------
    LogLinear
        Its ``fit(privacy)``, or ``infer()`` of a release, gives `LogLinearResults`.

    Raises
    ------
    OptionError
        If an argument has no such value, or the table or the formula is too large: 4,096 cells, 200 coefficients.
    FormulaError, UnknownColumnError, SchemaError
        If the formula is none in columns with levels.
    CollinearDesignError
        If terms depend on each other in the cells.
    NotProvedError
        If a person may have several rows and the target is the population.

    Notes
    -----
    With y the noisy counts and X the cells' design, ``X'(y - exp(X b)) = 0`` is solved. Noisy counts may be negative,
    and there need be no solution: coefficients that the table does not determine are NaN, and a flag names them.

    References
    ----------
    Haberman (1974), The Analysis of Frequency Data; Fienberg & Rinaldo (2012), Maximum likelihood estimation in
    log-linear models, Annals of Statistics 40.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(a=dpi.Category(["x", "y"]), b=dpi.Category(["u", "v", "w"]))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(6000, rng), schema, rng=rng)
    >>> table = dpi.table(["a", "b"], data).measure(dpi.ZCDP(0.1))
    >>> results = dpi.loglinear("a * b", table).infer()
    >>> [round(float(ratio)) for ratio in results.odds_ratios()["odds ratio"]]
    [1, 1]
    """
    edges = None
    if bins is not None:
        if not isinstance(bins, Mapping) or not bins or not all(isinstance(name, str) for name in bins):
            raise OptionError("bins", bins, "a mapping from columns to increasing edges")
        edges = {name: tuple(edges_of(name, ends)) for name, ends in bins.items()}
    return LogLinear.asking(locals(), bins=edges)


@dataclass(frozen=True, eq=False)
class LogLinear(CountsQuestion):
    """A log-linear model of the counts of a table. See `loglinear`."""

    procedures: ClassVar[tuple[str, ...]] = ("loglinear",)
    sources: ClassVar[tuple[type, ...]] = (Data, Release, CombinedResults)

    formula: str = ""
    bins: Mapping[str, tuple[float, ...]] | None = None
    where: str | None = None
    exclude: str | None = inferred(None)
    cov_type: str = inferred("robust", one_of(("robust", "nonrobust")))
    inference: str = inferred("auto", one_of(METHODS))
    target: str = inferred("population", TARGET)

    def check_options(self) -> None:
        """Refuse a formula that is no text."""
        if not isinstance(self.formula, str) or not self.formula.strip():
            raise OptionError("formula", self.formula, FORMULA)
        if not (self.exclude is None or isinstance(self.exclude, str)):
            raise OptionError("exclude", self.exclude, "a condition on the factors, or None")

    def axes(self, schema: Schema) -> tuple[Mapping[str, Any], ...]:
        """Return the axes of the smallest table that holds the factors, as the formula names them first."""
        bins = self.bins or {}
        unknown = [name for name in bins if name not in schema]
        if unknown:
            raise UnknownColumnError(unknown[0], schema)
        # names in backticks are columns or conditions
        quoted = {name: axes_of(name)[0] for name in _QUOTED.findall(self.formula) if name not in schema}
        columns = {name: schema[name] for name in schema}
        columns |= {name: Category(BinsAxis(schema, name, tuple(edges)).labels) for name, edges in bins.items()}
        columns |= {name: Boolean() for name, axis in quoted.items() if "condition" in axis}
        factors = one_sided(self.formula, Schema(columns)).variables
        unused = [name for name in bins if name not in factors]
        if unused:
            raise OptionError("bins", self.bins, f"edges of columns that the formula names, not of {unused[0]!r}")
        return tuple(
            {"column": name, "edges": list(bins[name])} if name in bins else quoted.get(name, {"column": name})
            for name in factors
        )

    def plan(self, schema: Schema) -> SumPlan:
        """Return the table, compiled against a schema."""
        return SumPlan("table", schema, axes=self.axes(schema), where=self.where, target="data")

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        return f"loglinear of {self.formula}{told_where(self.where)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse people with several rows, columns without levels, and terms that depend on each other."""
        self._refuse_people(schema)
        CellTable.of(self.plan(schema).cells).design(self.formula, self.exclude)
        super().check(schema, neighbors)

    def _refuse_people(self, schema: Schema) -> None:
        if self.target == "population":
            refuse_dependent_rows(schema, "a log-linear model", 'target="data" counts the noise alone')

    def describe(self, measured: Measurement) -> str:
        """Describe the table that would be measured and its noise, before anything is spent."""
        spread, cells = first_error(measured), len(measured.law.scales)
        factors = CellTable.of(self.plan(measured.context.schema).cells).schema
        return (
            f"{measured.describe()}\nnoise on each of the {cells} counts: standard deviation {spread:.4g} rows, for "
            f"{len(one_sided(self.formula, factors).columns)} coefficients. What a term tells apart by fewer rows than "
            "that stays undetermined."
        )

    # What is inferred

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """Return the same question with other options of the inference, or another formula in the same factors."""
        given = dict(options)
        formula = given.pop("formula", None)
        chosen = super().with_options(given)
        return chosen if formula is None else replace(chosen, formula=formula)

    def infer(self, release: Release | CombinedResults | None = None) -> LogLinearResults:
        """Fit the model to a release of a table or marginal of the factors, or to combined ones: free, without a row.

        Raises
        ------
        InferenceError, MissingFromReleaseError
            If the release holds no such counts, or was made with another ``where``.
        OptionError, FormulaError, CollinearDesignError, NotProvedError
            If the table does not fit the model.
        """
        source = self.source if release is None else release
        if isinstance(source, CombinedResults):
            if source.release.unit != "one row" and self.target == "population":
                raise NotProvedError(
                    "a log-linear model takes rows as independent, and a person may have several of them; "
                    'target="data" counts the noise alone'
                )
            return self._results(self._cells_of_combined(source), source.release)
        found, theirs = self._asked_of(release)
        tables, sums = theirs.marginal_tables(), theirs.summed()
        held = sums if tables is None else tables.plan
        assert held is not None  # `reads` refuses other releases
        self._refuse_people(held.schema)
        factors = self._factors(tuple(axis_name(axis) for axis in held.axes))
        check_bins({**dict.fromkeys(factors), **(self.bins or {})}, held.axes, held.schema)
        if isinstance(tables, MarginalTables):
            tables.check()
            return self._results(cells_of_marginals(tables, factors), found)
        assert sums is not None
        cells = cells_of_table(sums, found.array[None], found.law, found.steps, factors, found.nobs)
        return self._results(cells, found)

    def _factors(self, held: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the factors that the formula reads, of those that a table has."""
        try:
            return one_sided(self.formula, Schema({name: Boolean() for name in held})).variables
        except UnknownColumnError as error:
            raise MissingFromReleaseError(f"the table has no {error.name}; it is of {', '.join(held)}") from error

    def _cells_of_combined(self, combined: CombinedResults) -> NoisyCells:
        """Return the cells of the factors in the joint table of combined releases, where these determine it."""
        found, held = combined.inference, combined.index
        if not isinstance(found, LinearNoise) or combined.quantity != "count" or not held.names[0]:
            raise MissingFromReleaseError("the combined releases do not determine the cells of one table of counts")
        factors = self._factors(tuple(str(name) for name in held.names))
        levels = [held.get_level_values(name) for name in factors]
        table = CellTable(factors, tuple(tuple(one for one in dict.fromkeys(of) if one != NOWHERE) for of in levels))
        places = {cell: place for place, cell in enumerate(product(*table.labels))}
        joining = np.zeros((table.size, len(held)))
        for column, cell in enumerate(zip(*levels, strict=True)):
            if cell in places:  # rows without a value in a column are in no cell of it
                joining[places[cell], column] = 1.0
        whole = found.nobs_is_public and bool(joining.any(axis=0).all())
        nobs = round(found.nobs) if whole and found.nobs is not None else None
        noise = CellNoise(found.noise, table.size, joining @ found.mixing)
        return NoisyCells(table, (joining @ found.params)[None], noise, nobs or None)

    def _model(self, cells: NoisyCells) -> tuple[FormulaDesign, Mask, LogLinearModel, Array]:
        """Return the formula's columns, the cells that can be, the model of these, and their counts."""
        design, rows = cells.table.design(self.formula, self.exclude)
        included = ~cells.table.excluded(self.exclude)
        population, robust = self.target == "population", self.cov_type == "robust"
        return design, included, *cells.model(rows, included, population=population, robust=robust)

    def _results(self, cells: NoisyCells, release: AnyRelease) -> LogLinearResults:
        design, included, model, values = self._model(cells)
        inference = LogLinearInference(
            design.names,
            model,
            values[0],
            nobs=float(cells.values[0].sum()) if cells.nobs is None else float(cells.nobs),
            nobs_is_public=cells.nobs is not None,
            method=self.inference,
            target=self.target,
        )
        notes = where_notes(self.where)
        notes += [] if self.exclude is None else [f"Cells that cannot be: {self.exclude}."]
        return LogLinearResults(
            inference,
            release,
            table=cells.table,
            included=included,
            formula=self.formula,
            exclude=self.exclude,
            design=design,
            notes=(*notes, "Exponentials of interactions are odds ratios: results.odds_ratios()."),
        )

    # Many releases at once

    def estimate(self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None) -> BatchEstimates:
        """Infer from many releases at once; see `Procedure.estimate`."""
        design, _, model, values = self._model(self._cells_of(released))
        return batch_loglinear(
            model, values, names=design.names, alpha=alpha, method=self.inference, contrasts=contrasts
        )

    def oracle(
        self, released: Released, *, sampling: Array, alpha: float = 0.05, contrasts: Contrasts = None
    ) -> Oracle:
        """Say how wide an interval would be that knew the population; see `OLS.oracle`."""
        design, _, model, values = self._model(self._cells_of(released))
        return loglinear_oracle(
            model, values[0], sampling=sampling, alpha=alpha, names=design.names, contrasts=contrasts
        )

    def _cells_of(self, released: Released) -> NoisyCells:
        check_summed(released)
        plan, steps = self.plan(released.schema), released.steps.tolist()
        return cells_of_table(plan, released.values, released.law, steps, None, released.nobs)


# Where the counts come from


def cells_of_table(
    plan: SumPlan, values: Array, law: NoiseLaw, steps: Sequence[float], names: Sequence[str] | None, nobs: int | None
) -> NoisyCells:
    """Return the cells of some axes of released tables (R, m), by default of all.

    ``nobs`` is the number of rows where it is public.

    Raises
    ------
    MissingFromReleaseError, ReleaseFormatError
    """
    axes, counts = counts_of_table(plan, values, names)
    table = CellTable.of(axes)
    noise = CellNoise(count_noise(law, steps, counts.shape[-1]), table.size)
    return NoisyCells(table, counts.sum(axis=-1), noise, (nobs if plan.rows.keeps_every_row else None) or None)


def cells_of_marginals(tables: MarginalTables, names: Sequence[str]) -> NoisyCells:
    """Return the cells of some columns that one marginal holds, with the noise that they share.

    The noise variables are those that were drawn: contrasts, or sums of counts.

    Raises
    ------
    MissingFromReleaseError
        If no marginal holds them together.
    OptionError
        If the cells are too many for a model.
    """
    try:
        axes = tables.axes(names)
    except MissingFromReleaseError as error:
        listed = ", ".join(repr(name) for name in names)
        raise MissingFromReleaseError(
            f"{error}. A log-linear model is not made up from several marginals: dpi.table([{listed}]), or a marginal "
            "of all these factors, would serve"
        ) from error
    table = CellTable.of(axes)
    check_size(table.size, 1)
    sources = tables.found.sources(tables.subset(names))
    law = CombinedNoise(tuple(added_noise(one.law, one.steps, one.together) for one in sources))
    noise = CellNoise(law, table.size, np.hstack([one.basis for one in sources]))
    return NoisyCells(table, tables.unbiased(names)[None], noise, tables.nobs or None)
