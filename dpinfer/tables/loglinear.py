"""Log-linear models of noisy counts: the question, and the sources of its counts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd

from dpinfer.checks import are_texts, is_text, of_type, one_of, require
from dpinfer.errors import MissingFromReleaseError, NotProvedError, OptionError, UnknownColumnError, kind_of
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
    told_where,
    where_notes,
)
from dpinfer.procedures.procedure import first_error
from dpinfer.release import NoiseLaw, Release
from dpinfer.results.base import PrivateResults
from dpinfer.results.descriptions import CombinedResults
from dpinfer.results.drawing import draw_intervals, interval_frame
from dpinfer.results.estimates import statistic_labels
from dpinfer.results.printing import interval_labels, refuse_dependent_rows, title_guarantee
from dpinfer.results.testing import TestResults, check_alpha, checked_truth
from dpinfer.schema.axes import BinsAxis
from dpinfer.schema.columns import Boolean, Category
from dpinfer.schema.schema import Schema
from dpinfer.statistics.combination import CombinedNoise, LinearNoise, added_noise
from dpinfer.statistics.inference import joint_level
from dpinfer.statistics.noise import count_noise
from dpinfer.statistics.nulls import Draws, check_draws, simulate
from dpinfer.statistics.tails import widened
from dpinfer.tables.loglinear_fit import FORMULA, CellNoise, CellTable, LogLinearFit, NoisyCells, check_size, one_sided
from dpinfer.tables.loglinear_inference import METHODS, LogLinearInference, batch_loglinear, loglinear_oracle, nested
from dpinfer.tables.marginal_results import MarginalTables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release.release import AnyRelease
    from dpinfer.schema.formula import FormulaDesign
    from dpinfer.statistics.arrays import Array, Mask
    from dpinfer.statistics.inference import BatchEstimates, Oracle, Released
    from dpinfer.tables.loglinear_fit import LogLinearModel


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
        Terms in the factors of the table, such as ``"race * sex + sex * educ"``, without a left-hand side. Category
        columns are factors, and Boolean columns 0 and 1. Short Integer columns are numbers, or factors in ``C()``.
        Numeric columns with ``bins`` are factors. A condition in backticks is a factor of two levels, as in ```"race *
        `age >= 18`"```.
    data : PrivateData, PublicData, Release or CombinedResults, optional
        Rows to measure, in the smallest table with the factors. Or, at no further privacy cost: a stored release of a
        table that includes them, or of `marginals` one of which does, or a result of `combine` that determines their
        table.
    bins : mapping of str to sequence of float, optional
        Increasing edges for numeric columns.
    where : str, optional
        A condition on declared columns; other rows are not counted.
    exclude : str, optional
        A condition on the factors that marks structural zeros, such as ``"(sex == 'm') & pregnant"``.
    cov_type : {"robust", "nonrobust"}
        "nonrobust" estimates the covariance of the counts from the fitted means. "robust" also uses the noisy counts
        where they imply a larger variance, and remains valid for a misspecified model.
    inference : {"auto", "score", "wald"}
        "auto" is "score": intervals contain the values that a score test does not reject.
    target : {"population", "data"}
        Whether errors include sampling, or privacy noise only ("data").

    Returns
    -------
    LogLinear
        Its ``fit(privacy)``, or ``infer()`` from a release, returns `LogLinearResults`.

    Raises
    ------
    OptionError
        If an argument has an invalid value, or the table or the formula is too large: 4,096 cells, 200 coefficients.
    FormulaError, UnknownColumnError, SchemaError
        If the formula is invalid, or names columns without levels.
    CollinearDesignError
        If terms are linearly dependent in the cells.
    NotProvedError
        If a person may have several rows and the target is the population.

    Notes
    -----
    With y the noisy counts and X the design of the cells, the estimate solves ``X'(y - exp(X b)) = 0``. Noisy counts
    may be negative, so a solution need not exist: coefficients that are not identified are NaN, and a flag names them.

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
        if not isinstance(bins, Mapping) or not bins or not are_texts(bins):
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
        """Refuse a formula that is not a string."""
        require(is_text(self.formula), "formula", self.formula, FORMULA)
        of_type((str, NoneType), "exclude", self.exclude, "a condition on the factors, or None")

    def axes(self, schema: Schema) -> tuple[Mapping[str, Any], ...]:
        """Return the axes of the smallest table with the factors, in the order in which the formula names them."""
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
        """Compile the table against a schema."""
        return SumPlan("table", schema, axes=self.axes(schema), where=self.where, target="data")

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Describe the question in one line."""
        return f"loglinear of {self.formula}{told_where(self.where)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse people with several rows, columns without levels, and linearly dependent terms."""
        self._refuse_people(schema)
        CellTable.of(self.plan(schema).cells).design(self.formula, self.exclude)
        super().check(schema, neighbors)

    def _refuse_people(self, schema: Schema) -> None:
        if self.target == "population":
            refuse_dependent_rows(schema, "a log-linear model", 'use target="data", whose errors include noise only')

    def describe(self, measured: Measurement) -> str:
        """Describe the table that would be measured and its noise, before any budget is spent."""
        spread, cells = first_error(measured), len(measured.law.scales)
        factors = CellTable.of(self.plan(measured.context.schema).cells).schema
        return (
            f"{measured.describe()}\nnoise on each of the {cells} counts: standard deviation {spread:.4g} rows, for "
            f"{len(one_sided(self.formula, factors).columns)} coefficients. Terms that depend on smaller differences "
            "between counts are not identified."
        )

    # What is inferred

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """Return the same question with other inference options, or another formula in the same factors."""
        given = dict(options)
        formula = given.pop("formula", None)
        chosen = super().with_options(given)
        return chosen if formula is None else replace(chosen, formula=formula)

    def infer(self, release: Release | CombinedResults | None = None) -> LogLinearResults:
        """Fit the model to a stored release of a table or marginal, or to combined ones, at no privacy cost.

        Raises
        ------
        InferenceError, MissingFromReleaseError
            If the release lacks these counts, or was made with another ``where``.
        OptionError, FormulaError, CollinearDesignError, NotProvedError
            If the table does not suit the model.
        """
        source = self.source if release is None else release
        if isinstance(source, CombinedResults):
            if source.release.unit != "one row" and self.target == "population":
                raise NotProvedError(
                    "a log-linear model assumes independent rows, but a person may have several; with "
                    'target="data" errors include noise only'
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
        """Names of a table's factors that occur in the formula."""
        try:
            return one_sided(self.formula, Schema({name: Boolean() for name in held})).variables
        except UnknownColumnError as error:
            raise MissingFromReleaseError(
                f"the table has no {error.name}; its columns are {', '.join(held)}"
            ) from error

    def _cells_of_combined(self, combined: CombinedResults) -> NoisyCells:
        """Return the cells of the factors in the joint table of combined releases, if these determine it."""
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
        """Return the formula's columns, the cells without structural zeros, their model and their counts."""
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
            nobs=float(cells.values[0].sum()) if cells.nobs is None else float(cells.nobs),  # noqa: PD011  (counts, and no Series)
            nobs_is_public=cells.nobs is not None,
            method=self.inference,
            target=self.target,
        )
        notes = where_notes(self.where)
        notes += [] if self.exclude is None else [f"Structural zeros: {self.exclude}."]
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
        """Return the width of an interval that knew the population; see `OLS.oracle`."""
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

    ``nobs`` is the number of rows if it is public.

    Raises
    ------
    MissingFromReleaseError, ReleaseFormatError
    """
    axes, counts = counts_of_table(plan, values, names)
    table = CellTable.of(axes)
    noise = CellNoise(count_noise(law, steps, counts.shape[-1]), table.size)
    return NoisyCells(table, counts.sum(axis=-1), noise, (nobs if plan.rows.keeps_every_row else None) or None)


def cells_of_marginals(tables: MarginalTables, names: Sequence[str]) -> NoisyCells:
    """Return the cells of some columns of one marginal, with their joint noise.

    The noise variables are those that were drawn: contrasts, or sums of counts.

    Raises
    ------
    MissingFromReleaseError
        If no marginal contains all of them.
    OptionError
        If there are too many cells for a model.
    """
    try:
        axes = tables.axes(names)
    except MissingFromReleaseError as error:
        listed = ", ".join(repr(name) for name in names)
        raise MissingFromReleaseError(
            f"{error}. A log-linear model cannot combine several marginals: use dpi.table([{listed}]) or one marginal "
            "with all these factors"
        ) from error
    table = CellTable.of(axes)
    check_size(table.size, 1)
    sources = tables.found.sources(tables.subset(names))
    law = CombinedNoise(tuple(added_noise(one.law, one.steps, one.together) for one in sources))
    noise = CellNoise(law, table.size, np.hstack([one.basis for one in sources]))
    return NoisyCells(table, tables.unbiased(names)[None], noise, tables.nobs or None)


# Results


_NO_CONTRAST = 1e-12
_HIDDEN = (
    "an expected count is below 5, or below two standard deviations of its noise: the p-value is the largest over "
    "three fits of the hypothesis, and conservative"
)


class LogLinearResults(PrivateResults):
    """Coefficients of a log-linear model of noisy counts.

    All members of `PrivateResults` are available too; predictions are expected counts.

    Parameters
    ----------
    inference, release, notes, design
        As in `PrivateResults`.
    table : CellTable
        The factors and their levels.
    included : ndarray of bool (d,)
        The cells that are not structural zeros.
    formula : str
    exclude : str, optional
    """

    _estimated_as = "loglinear"

    def __init__(
        self,
        inference: LogLinearInference,
        release: AnyRelease,
        *,
        table: CellTable,
        included: Mask,
        formula: str,
        exclude: str | None = None,
        design: FormulaDesign,
        **labels: Any,
    ) -> None:
        options = {"model_name": "Private log-linear model", "response": "count", **labels, "inverse_link": np.exp}
        super().__init__(inference, release, design=design, **options)
        self._table, self._included, self._factors, self._exclude = table, included, design, exclude
        self.formula = formula

    def __repr__(self) -> str:
        return super().__repr__().replace("<PrivateResults", f"<{type(self).__name__}", 1)

    @property
    def inference(self) -> LogLinearInference:
        """The inference behind every reported number."""
        found: LogLinearInference = self._inference  # type: ignore[assignment]
        return found

    # Cells

    @property
    def index(self) -> pd.Index:
        """Labels of the cells, the last factor varying fastest."""
        return self._table.index

    def _of_cells(self, values: Array, other: float = np.nan) -> pd.Series:
        whole = np.full(self._table.size, other)
        whole[self._included] = values
        return pd.Series(whole, index=self.index)

    @property
    def observed_freq(self) -> pd.Series:
        """Series (d,): noisy counts by cell, adjusted to add up to a public number of rows."""
        return self._of_cells(self.inference.values)

    @property
    def expected_freq(self) -> pd.Series:
        """Series (d,): fitted counts by cell; 0 for structural zeros, NaN in cells omitted from the fit."""
        return self._of_cells(self.inference.means, 0.0)

    @property
    def resid_pearson(self) -> pd.Series:
        """Series (d,): noisy minus fitted counts, over the standard deviation from sampling and noise."""
        inference = self.inference
        population = inference.means if inference.model.population else 0.0
        spread = np.sqrt(population + inference.model.noise.of_counts)
        return self._of_cells((inference.values - inference.means) / spread)  # noqa: PD011  (counts, and no Series)

    def residuals(self, alpha: float = 0.05, *, simultaneous: bool = False) -> pd.DataFrame:
        """Return the residual of each cell, with its standard error and interval.

        Parameters
        ----------
        alpha : float
            One minus the confidence level of the intervals.
        simultaneous : bool
            Whether the confidence level is simultaneous.

        Returns
        -------
        DataFrame
            A row for each cell; columns "observed" (noisy), "expected", "difference", "std err" (of the difference
            under the model, from sampling and noise), "std err (noise)", "residual" (difference over std err), and the
            endpoints of an interval for the population difference. NaN in cells that are omitted or that the model fits
            exactly.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1.
        """
        level, joint = check_alpha(alpha), checked_truth("simultaneous", simultaneous)
        inference, included = self.inference, self.inference.found.included
        found = np.full((7, len(included)), np.nan)
        found[0], found[1] = inference.values, inference.means  # noqa: PD011  (counts, and no Series)
        found[2] = found[0] - found[1]
        if inference.fit is not None:
            found[3:, included] = _residual_errors(inference.fit, found[2, included], level, joint)
        names = ["observed", "expected", "difference", "std err", "std err (noise)", *interval_labels(alpha)]
        frame = pd.DataFrame({name: self._of_cells(row) for name, row in zip(names, found, strict=True)})
        frame.insert(5, "residual", frame["difference"] / frame["std err"])
        return frame

    # Odds ratios

    def odds_ratios(
        self, alpha: float = 0.05, *, at: Mapping[str, Any] | None = None, simultaneous: bool = False
    ) -> pd.DataFrame:
        """Return odds ratios for every pair of factors that share a term.

        Parameters
        ----------
        alpha : float
            One minus the confidence level.
        at : mapping of str to level, optional
            Levels of the other factors, for odds ratios that depend on them through three-factor terms; the first level
            by default.
        simultaneous : bool
            Whether the confidence level is simultaneous.

        Returns
        -------
        DataFrame
            A row for each pair of levels other than the first of the two factors, labelled ``"race=b:sex=f"``: "odds
            ratio", "log odds ratio", "std err", "std err (sampling)" and "std err (noise)" of the logarithm, the
            p-value of an odds ratio of 1, and the endpoints of the interval of the odds ratio, 0 or infinite where it
            is unbounded. NaN where not identified.

        Raises
        ------
        OptionError
            If ``alpha`` is not strictly between 0 and 1, or ``at`` names an unknown level.
        """
        level, joint = check_alpha(alpha), checked_truth("simultaneous", simultaneous)
        labels, rows = self._ratio_rows(self._places(at))
        inference = self.inference
        center, *covariances, total = inference.combinations(rows)
        sampling, noise = (np.maximum(np.diag(one), 0.0) for one in covariances)
        if joint:
            level = joint_level(total, level)
        ends = inference.intervals(rows, level) if len(rows) else np.empty((0, 2))
        pvalues = inference.contrast_pvalues(rows, np.zeros(len(rows))) if len(rows) else np.empty(0)
        errors = [np.sqrt(one) for one in (sampling + noise, sampling, noise)]
        with np.errstate(over="ignore"):
            cells = np.column_stack([np.exp(center), center, *errors, pvalues, np.exp(ends)])
        names = ["odds ratio", "log odds ratio", "std err", "std err (sampling)", "std err (noise)"]
        names += [statistic_labels(self)[1], *interval_labels(alpha)]
        return pd.DataFrame(cells, index=labels, columns=names)

    def _places(self, at: Mapping[str, Any] | None) -> dict[str, int]:
        """Position of a level of every factor: as given, or the first."""
        chosen, known = dict(at or {}), dict(zip(self._table.names, self._table.labels, strict=True))
        if any(name not in known or label not in known[name] for name, label in chosen.items()):
            listed = ", ".join(f"{one}: {levels}" for one, levels in known.items())
            raise OptionError("at", kind_of(at), f"levels by factor, of {listed}")
        return {name: levels.index(chosen[name]) if name in chosen else 0 for name, levels in known.items()}

    def _ratio_rows(self, at: Mapping[str, int]) -> tuple[list[str], Array]:
        """Labels, and the logarithms of odds ratios as combinations of coefficients (k, p)."""
        table, factors = self._table, self._factors
        shape = [len(one) for one in table.labels]
        design, possible = factors.rows(table.values, table.size).reshape(*shape, -1), self._included.reshape(shape)
        labels: list[str] = []
        found: list[Array] = []
        for (i, first), (j, second) in combinations(enumerate(table.names), 2):
            if not any({first, second} <= set(column.columns) for column in factors.columns):
                continue
            place = tuple(slice(None) if k in (i, j) else at[name] for k, name in enumerate(table.names))
            cells, can = design[place], possible[place]
            rows = cells[1:, 1:] - cells[1:, :1] - cells[:1, 1:] + cells[:1, :1]
            whole = can[1:, 1:] & can[1:, :1] & can[:1, 1:] & can[:1, :1]
            for a, b in np.argwhere(whole & (np.abs(rows).max(axis=-1) > _NO_CONTRAST)):
                labels.append(f"{first}={table.labels[i][a + 1]}:{second}={table.labels[j][b + 1]}")
                found.append(rows[a, b])
        return labels, np.array(found).reshape(len(found), design.shape[-1])

    def plot_odds_ratios(
        self,
        ax: Axes | None = None,
        *,
        alpha: float = 0.05,
        at: Mapping[str, Any] | None = None,
        color: str | None = None,
        legend: bool = True,
    ) -> Axes:
        """Plot the log odds ratios with intervals, with separate shading for sampling error and noise.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
        alpha : float
        at : mapping of str to level, optional
            As in `odds_ratios`.
        color : str, optional
        legend : bool

        Returns
        -------
        matplotlib.axes.Axes
        """
        table = self.odds_ratios(alpha, at=at)
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.log(table.iloc[:, -2:].to_numpy())
            share = (table["std err (sampling)"] / table["std err"]).to_numpy()
        frame = interval_frame(table["log odds ratio"], ends, share)
        label = f"log odds ratio ({self.inference.method} inference)"
        title = f"Odds ratios: {title_guarantee(self.release)}"
        return draw_intervals(frame, ax, alpha=alpha, color=color, legend=legend, zero=True, label=label, title=title)

    # Tests of the model

    def goodness_of_fit(self, *, draws: Draws = "adaptive", seed: int = 0) -> LogLinearTestResults:
        """Test the goodness of fit of the model, against any other table.

        Parameters
        ----------
        draws : "adaptive" or int
            Number of simulated tables; "adaptive" draws more if the p-value is small.
        seed : int
            Public seed of the simulation; the privacy noise does not use it.

        Returns
        -------
        LogLinearTestResults
            The squared distance of the noisy counts from the model, weighted by sampling and noise. The null
            distribution draws counts and noise from the fit and refits the model.

        Raises
        ------
        OptionError
            If the model has a coefficient for every cell, or ``draws`` or ``seed`` has an invalid value.
        NotProvedError
            If the target is the data.
        """
        if len(self.inference.values) == len(self.inference.names):
            raise OptionError(
                "formula", self.formula, "a model with fewer coefficients than cells: this one is saturated"
            )
        return self._tested(self.formula, self.inference.model.design, None, draws, seed)

    def compare_lm_test(
        self, restricted: str | LogLinearResults, *, draws: Draws = "adaptive", seed: int = 0
    ) -> LogLinearTestResults:
        """Test a smaller model against this one by the score (Lagrange multiplier) statistic.

        Parameters
        ----------
        restricted : str or LogLinearResults
            A formula in the same factors whose terms are among those of this model, or its results from the same
            release.
        draws, seed
            As in `goodness_of_fit`.

        Returns
        -------
        LogLinearTestResults

        Raises
        ------
        OptionError
            If the model is not nested in this one, or is the same, or was fitted to another table.
        FormulaError, UnknownColumnError, NotProvedError
            As in `loglinear`; also if the target is the data.
        """
        formula = restricted
        if isinstance(restricted, LogLinearResults):
            formula = restricted.formula
            if not np.array_equal(restricted.inference.values, self.inference.values):
                raise OptionError("restricted", formula, "results from the same table of the same release")
        if not isinstance(formula, str):
            raise OptionError("restricted", kind_of(restricted), "a formula, or results of a smaller model")
        _, smaller = self._table.design(formula, self._exclude)
        return self._tested(formula, smaller, self.inference.model.design, draws, seed)

    def _tested(
        self, formula: str, smaller: Array, larger: Array | None, draws: Draws, seed: int
    ) -> LogLinearTestResults:
        inference = self.inference
        if inference.target == "data":
            raise NotProvedError('a test of a model is about a population: target="population"')
        check_draws(draws, seed)
        model = nested(smaller, larger, inference.model.noise, inference.model.nobs)
        if model is None or model.dof == 0:
            raise OptionError("restricted", formula, f"a smaller model than {self.formula!r}, with some of its terms")
        found = simulate(model, inference.values, draws=draws, seed=seed)
        against = "any other" if larger is None else self.formula
        flags = () if np.isfinite(found.statistic) else ("the statistic cannot be computed from this release",)
        if model.hidden(inference.values[None])[0]:  # noqa: PD011  (counts, and no Series)
            flags = (*flags, _HIDDEN)
        return LogLinearTestResults(
            title="Private goodness of fit" if larger is None else "Private score test of nested log-linear models",
            hypothesis=f"{formula} holds, against {against}",
            statistic=found.statistic,
            pvalue=found.pvalue,
            release=self.release,
            statistic_name="Score chi2",
            dof=float(model.dof),
            distribution=found,
            nobs=inference.nobs,
            nobs_is_public=inference.nobs_is_public,
            flags=flags,
            notes=tuple(self.notes[:-1]),
            observed=self.observed_freq,
            expected=self._of_cells(model.expected(inference.values[None])[0], 0.0),  # noqa: PD011  (counts, and no Series)
        )


def _residual_errors(fit: LogLinearFit, difference: Array, level: float, joint: bool) -> Array:
    """Return standard errors, those from noise alone, and interval endpoints of differences (4, d) of one table."""
    model = fit.model
    hat = (fit.means[0] * model.design.T).T @ fit.influence[0]
    left = np.eye(len(hat)) - hat
    noise = model.noise.covariance(left)
    null = wide = noise
    if model.population:
        sampled = (left * fit.means[0]) @ left.T
        more = (left * np.maximum(fit.means[0], fit.values[0])) @ left.T  # noqa: PD011  (counts, and no Series)
        if model.nobs is not None:
            pulled = left @ fit.means[0]
            sampled, more = (one - np.outer(pulled, pulled) / model.nobs for one in (sampled, more))
        null, wide = noise + sampled, noise + more
    variance, spread = np.diag(null), np.diag(wide)
    full = fit.means[0] + model.noise.of_counts
    fitted = spread <= 1e-9 * full  # nothing is left of what the model fits exactly
    kurtosis = np.minimum(model.noise.fourth_cumulant(left) / np.maximum(spread, 1e-300) ** 2, 3.0)
    half = widened(joint_level(wide, level) if joint else level, kurtosis) * np.sqrt(np.maximum(spread, 0.0))
    errors = [np.sqrt(np.maximum(one, 0.0)) for one in (variance, np.diag(noise))]
    return np.where(fitted, np.nan, np.stack([*errors, difference - half, difference + half]))


@dataclass(frozen=True, eq=False, repr=False)
class LogLinearTestResults(TestResults):
    """A test of a log-linear model of noisy counts.

    Attributes
    ----------
    observed, expected : Series (d,)
        Noisy counts, and expected counts under the null hypothesis.
    """

    _estimated_as = "loglinear"

    observed: pd.Series = field(kw_only=True)
    expected: pd.Series = field(kw_only=True)

    def frame(self, alpha: float = 0.05) -> pd.DataFrame:  # noqa: ARG002  (nothing depends on a level)
        """Return noisy counts and expected counts under the null hypothesis, by cell."""
        return pd.DataFrame({"observed": self.observed, "expected": self.expected})
