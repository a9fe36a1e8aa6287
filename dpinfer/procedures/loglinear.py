"""Log-linear models of noisy counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dpinfer.errors import MissingFromReleaseError, NotProvedError, OptionError, UnknownColumnError
from dpinfer.inference.loglinear_inference import METHODS, LogLinearInference, batch_loglinear, loglinear_oracle
from dpinfer.kernel.stage import Data
from dpinfer.procedures.conditions import told_where, where_notes
from dpinfer.procedures.explanation import first_error
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.noisy_cells import (
    NoisyCells,
    cells_of_combined,
    cells_of_marginals,
    cells_of_table,
    factors_of_combined,
)
from dpinfer.procedures.of_sums import OfSums
from dpinfer.procedures.options import TARGET, Contrasts, inferred, one_of
from dpinfer.procedures.sum_plan import TABLES, SumPlan, check_summed
from dpinfer.procedures.table_axes import axes_of, axis_name, check_bins, edges_of
from dpinfer.release import Release
from dpinfer.results.combined import CombinedResults
from dpinfer.results.loglinear import LogLinearResults
from dpinfer.results.people import refuse_dependent_rows
from dpinfer.schema.axes import BinsAxis
from dpinfer.schema.cell_design import CellTable, one_sided, quoted_names
from dpinfer.schema.columns import Boolean, Category
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpinfer.inference.batch import BatchEstimates, Oracle
    from dpinfer.inference.released import Released
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors
    from dpinfer.procedures.procedure import Procedure
    from dpinfer.schema.points import FormulaDesign

    Array = NDArray[np.float64]

__all__ = ["LogLinear", "loglinear"]

_COVARIANCES = ("robust", "nonrobust")


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
    return LogLinear.asking(locals(), bins=_edges(bins))


def _edges(bins: object) -> dict[str, tuple[float, ...]] | None:
    if bins is None:
        return None
    if not isinstance(bins, Mapping) or not bins or not all(isinstance(name, str) for name in bins):
        raise OptionError("bins", bins, "a mapping from columns to increasing edges")
    return {name: tuple(edges_of(name, edges)) for name, edges in bins.items()}


@dataclass(frozen=True, eq=False)
class LogLinear(OfSums):
    """A log-linear model of the counts of a table. See `loglinear`."""

    procedures: ClassVar[tuple[str, ...]] = ("loglinear",)
    sources: ClassVar[tuple[type, ...]] = (Data, Release, CombinedResults)

    formula: str = ""
    bins: Mapping[str, tuple[float, ...]] | None = None
    where: str | None = None
    exclude: str | None = inferred(None)
    cov_type: str = inferred("robust", one_of(_COVARIANCES))
    inference: str = inferred("auto", one_of(METHODS))
    target: str = inferred("population", TARGET)

    def check_options(self) -> None:
        """Refuse a formula that is no text."""
        if not isinstance(self.formula, str) or not self.formula.strip():
            raise OptionError("formula", self.formula, 'a formula in the factors of the table, such as "race * sex"')
        if not (self.exclude is None or isinstance(self.exclude, str)):
            raise OptionError("exclude", self.exclude, "a condition on the factors, or None")

    def axes(self, schema: Schema) -> tuple[Mapping[str, Any], ...]:
        """Return the axes of the smallest table that holds the factors, as the formula names them first."""
        bins = self.bins or {}
        unknown = [name for name in bins if name not in schema]
        if unknown:
            raise UnknownColumnError(unknown[0], schema)
        conditions = [name for name in quoted_names(self.formula) if name not in schema]
        columns = {name: schema[name] for name in schema}
        columns |= {name: Category(BinsAxis(schema, name, tuple(edges)).labels) for name, edges in bins.items()}
        asked = {name: axes_of(name)[0] for name in conditions}
        columns |= {name: Boolean() for name, axis in asked.items() if "condition" in axis}
        design = one_sided(self.formula, Schema(columns))
        unused = [name for name in bins if name not in design.variables]
        if unused:
            raise OptionError("bins", self.bins, f"edges of columns that the formula names, not of {unused[0]!r}")
        return tuple(
            {"column": name, "edges": list(bins[name])} if name in bins else asked.get(name, {"column": name})
            for name in design.variables
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
        axes = self.plan(schema).cells
        CellTable(tuple(axis.name for axis in axes), tuple(axis.labels for axis in axes)).design(
            self.formula, self.exclude
        )
        super().check(schema, neighbors)

    def _refuse_people(self, schema: Schema) -> None:
        if self.target == "population":
            refuse_dependent_rows(schema, "a log-linear model", 'target="data" counts the noise alone')

    def describe(self, measured: Measurement) -> str:
        """Describe the table that would be measured and its noise, before anything is spent.

        Returns
        -------
        str
        """
        spread, cells = first_error(measured), len(measured.law.scales)
        count = len(one_sided(self.formula, self._cell_table(measured.context.schema).schema).columns)
        return (
            f"{measured.describe()}\nnoise on each of the {cells} counts: standard deviation {spread:.4g} rows, for "
            f"{count} coefficients. What a term tells apart by fewer rows than that stays undetermined."
        )

    def _cell_table(self, schema: Schema) -> CellTable:
        axes = self.plan(schema).cells
        return CellTable(tuple(axis.name for axis in axes), tuple(axis.labels for axis in axes))

    # What is inferred

    def reads_sums(self, held: SumPlan) -> bool:
        """Return whether sums serve: those of any table of counts of the same rows."""
        return held.kind in TABLES and held.where == self.where

    def reads(self, other: Procedure) -> bool:
        """Return whether a release serves: a table of counts, or marginals, of the same rows."""
        tables = other.marginal_tables()
        return super().reads(other) if tables is None else tables.plan.where == self.where

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
            named = self._named(factors_of_combined(source))
            return self._results(cells_of_combined(source, named), source)
        found, theirs = self._asked_of(release)
        tables, sums = theirs.marginal_tables(), theirs.summed()
        held = sums if tables is None else tables.plan
        assert held is not None  # `reads` refuses other releases
        self._refuse_people(held.schema)
        named = self._named(tuple(axis_name(axis) for axis in held.axes))
        check_bins({**dict.fromkeys(named), **(self.bins or {})}, held)
        if tables is not None:
            tables.check()
            return self._results(cells_of_marginals(tables, named), found)
        assert sums is not None
        return self._results(cells_of_table(sums, found.array[None], found.law, found.steps, named, found.nobs), found)

    def _named(self, held: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the factors that the formula reads, of those that a table has."""
        table = Schema({name: Boolean() for name in held})
        try:
            return _Factors(table).of(self.formula)
        except UnknownColumnError as error:
            raise MissingFromReleaseError(f"the table has no {error.name}; it is of {', '.join(held)}") from error

    def _design(self, cells: NoisyCells) -> tuple[FormulaDesign, Array, NDArray[np.bool_]]:
        design, rows = cells.table.design(self.formula, self.exclude)
        return design, rows, ~cells.table.excluded(self.exclude)

    def _results(self, cells: NoisyCells, source: Release | CombinedResults) -> LogLinearResults:
        design, rows, kept = self._design(cells)
        model, values = cells.model(rows, kept, population=self.target == "population", robust=self._robust)
        inference = LogLinearInference(
            model,
            values[0],
            design.names,
            float(cells.values[0].sum()) if cells.nobs is None else float(cells.nobs),
            nobs_is_public=cells.nobs is not None,
            method="score" if self.inference == "auto" else self.inference,
            target=self.target,
        )
        return LogLinearResults(
            inference,
            source.release if isinstance(source, CombinedResults) else source,
            table=cells.table,
            kept=kept,
            formula=self.formula,
            exclude=self.exclude,
            design=design,
            notes=self._notes(),
        )

    @property
    def _robust(self) -> bool:
        return self.cov_type == "robust"

    def _notes(self) -> tuple[str, ...]:
        found = where_notes(self.where)
        if self.exclude is not None:
            found.append(f"Cells that cannot be: {self.exclude}.")
        return (*found, "Exponentials of interactions are odds ratios: results.odds_ratios().")

    # Many releases at once

    def estimate(self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None) -> BatchEstimates:
        """Infer from many releases at once; see `Procedure.estimate`."""
        cells = self._cells_of(released)
        design, rows, kept = self._design(cells)
        model, values = cells.model(rows, kept, population=self.target == "population", robust=self._robust)
        return batch_loglinear(
            model, values, names=design.names, alpha=alpha, method=self.inference, contrasts=contrasts
        )

    def oracle(
        self, released: Released, *, sampling: Array, alpha: float = 0.05, contrasts: Contrasts = None
    ) -> Oracle:
        """Say how wide an interval would be that knew the population; see `OLS.oracle`."""
        cells = self._cells_of(released)
        design, rows, kept = self._design(cells)
        model, values = cells.model(rows, kept, population=self.target == "population", robust=self._robust)
        return loglinear_oracle(
            model, values[0], sampling=sampling, alpha=alpha, names=design.names, contrasts=contrasts
        )

    def _cells_of(self, released: Released) -> NoisyCells:
        check_summed(released)
        plan = self.plan(released.schema)
        return cells_of_table(plan, released.values, released.law, released.steps.tolist(), None, released.nobs)


@dataclass(frozen=True)
class _Factors:
    """Which names a formula reads, before their levels are known."""

    schema: Schema

    def of(self, formula: str) -> tuple[str, ...]:
        """Names in the order in which the formula reads them.

        Raises
        ------
        UnknownColumnError, FormulaError, OptionError
        """
        return one_sided(formula, self.schema).variables
