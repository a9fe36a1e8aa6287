"""Means, totals, variances, covariances, correlations, proportions, counts, tables and histograms, as questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from dpinfer.checks import of_type, whole
from dpinfer.descriptions.binomial import ExactProportionQuestion
from dpinfer.descriptions.binomial_inference import EXACT_METHODS
from dpinfer.errors import NotProvedError, OptionError
from dpinfer.kernel.plan import sample_batch
from dpinfer.kernel.stage import Context, Noise, Stage
from dpinfer.procedures.cell_sums import MOMENTS, MOST_ESTIMATES, TABLES, MomentsQuestion, SumPlan, describe, infer_sums
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import axes_of, axis_name, column_texts, edges_of, measured
from dpinfer.procedures.procedure import sizes_shown
from dpinfer.release.laws import MOST_DRAWS
from dpinfer.schema.expressions import quoted
from dpinfer.statistics.inference import Released
from dpinfer.statistics.moment_inference import METHODS

if TYPE_CHECKING:
    import os

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Data
    from dpinfer.privacy.units import Privacy
    from dpinfer.procedures.procedure import Procedure
    from dpinfer.release import Release, StageRelease
    from dpinfer.results.descriptions import DescriptionResults, TableResults
    from dpinfer.schema.schema import Schema

    Columns = str | Sequence[str]

_SAMPLE = 4096
"""Rows that the noise to be expected is computed for."""

Kind = Literal["mean", "total", "variance", "cov", "corr", "count", "table", "histogram", "proportion"]


@dataclass(frozen=True, eq=False)
class Description(MomentsQuestion):
    """A question about sums or counts in the cells of a table. See `mean`, `table` and related functions.

    The target determines the estimand, and whether the sums for sampling errors are measured. A release for the
    population can be used for the data too.
    """

    procedures: ClassVar[tuple[str, ...]] = ("mean", "total", "variance", "cov", "corr", "count", "table", "histogram")

    kind: Kind = "mean"
    columns: tuple[str, ...] = ()
    axes: tuple[Mapping[str, Any], ...] = ()
    where: str | None = None
    weights: str | None = None
    draws: int = measured(1, whole(1, MOST_DRAWS, f"a whole number from 1 to {MOST_DRAWS}"))

    @property
    def procedure(self) -> str:
        """Name of the class in a release of this question."""
        return self.kind

    @cached_property
    def _plans(self) -> dict[tuple[Schema, str], SumPlan]:
        return {}

    def plan(self, schema: Schema) -> SumPlan:
        """Compile the sums against a schema, once for all that this question is asked."""
        key = schema, repr(self.axes)  # of mappings, which a user may change
        if key not in self._plans:
            asked = self.kind, schema, self.columns, self.axes, self.where, self.weights, self.target
            self._plans[key] = SumPlan(*asked)
        return self._plans[key]

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for sums, or counts, in the cells of a table."""
        return replace(super().stage(place, context, released), noise=Noise(draws=self.draws))

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement and the standard error from noise alone, before any budget is spent.

        Returns
        -------
        str
            The measurement, its bound, noise and guarantee; and the standard error of each estimate in one group from
            privacy noise alone, for rows spread evenly over the declared bounds.
        """
        context = measured.context
        plan = self.plan(context.schema)
        lines = [
            measured.describe(),
            "standard error from privacy noise alone, if values were uniform over their bounds and groups of equal "
            "size:",
        ]
        sums = measured.rows.add(sample_batch(context.schema, _SAMPLE)) / measured.rows.units
        for rows in sizes_shown(context.nobs):
            estimates, described = describe(plan, Released.of_study(measured, sums * rows / _SAMPLE), target="data")
            noise = np.sqrt(np.diagonal(estimates.noise[0], axis1=-2, axis2=-1)) * described.factor
            medians = zip(described.quantities, np.median(noise, axis=0), strict=True)
            errors = ", ".join(f"{name} {value:.4g}" for name, value in medians)
            lines.append(f"  n = {rows:,}: {errors}" + (" (in the median group)" if measured.rows.size > 1 else ""))
        return "\n".join(lines)

    @suggests
    def fit(
        self, privacy: Privacy, *, save: str | os.PathLike[str] | None = None, reuse: bool = False
    ) -> DescriptionResults:
        """Measure and infer; see `Procedure.fit`.

        Raises
        ------
        OptionError
            If the table has too many cells for results with all covariances; then nothing is measured.
        """
        cells = self.plan(self._data().schema).rows.size * max(len(self.columns), 1)
        if cells > MOST_ESTIMATES:
            right = f"at most {MOST_ESTIMATES:,} for .fit(); .measure(privacy) releases more at once"
            raise OptionError("by", f"{cells:,} cells", right)
        found: DescriptionResults = super().fit(privacy, save=save, reuse=reuse)
        return found

    # Inference

    def reads_sums(self, held: SumPlan) -> bool:
        """Return whether sums can be used: any table of the same rows for counts and shares, else the same sums."""
        if self.kind in ("count", "table", "proportion") and held.kind in TABLES:
            return held.where == self.where
        return super().reads_sums(held)

    def reads(self, other: Procedure) -> bool:
        """Return whether a release can be used: for counts and shares, marginals of the same rows too."""
        tables = other.marginal_tables()
        if tables is None:
            return super().reads(other)
        return self.kind in ("count", "table", "proportion") and tables.plan.where == self.where

    def infer(self, release: Release | None = None) -> DescriptionResults:
        """Infer from a stored release of this question; counts and shares also from a table or marginals.

        Raises
        ------
        InferenceError, MissingFromReleaseError
            If the release was made for another question.
        """
        found, theirs = self._asked_of(release)
        tables = theirs.marginal_tables()
        if tables is not None:
            tables.check()
            names, options = tuple(map(axis_name, self.axes)), {"inference": self.inference, "target": self.target}
            shares = self.kind == "proportion"
            answer: DescriptionResults = (
                tables.proportions(names[-1], names[:-1], **options) if shares else tables.margin(names, **options)
            )
            return answer
        held = theirs.summed()
        assert held is not None  # `reads` refuses other releases
        if held.kind in MOMENTS:
            return infer_sums(found, held, **self._inference_options)
        return infer_sums(
            found,
            replace(held, kind=self.kind),
            columns=list(map(axis_name, self.axes)),
            table=Description(found, kind="table", axes=held.axes, where=held.where, **self._inference_options),
            **self._inference_options,
        )

    def margin(self, columns: Sequence[str], *, inference: str, target: str) -> TableResults:
        """Infer the counts of some columns of its table, summed over the others."""
        axes = tuple({"column": column} for column in (columns and column_texts("columns", columns)))
        found: TableResults = replace(self, axes=axes, inference=inference, target=target).infer()
        return found

    def proportions(self, column: str, by: Sequence[str], *, inference: str) -> DescriptionResults:
        """Infer the shares of the levels of a column of its table, by groups of other columns."""
        groups = column_texts("by", by) if not isinstance(by, Sequence) or by else ()
        axes = tuple({"column": name} for name in (*groups, *column_texts("column", (column,))))
        return Proportion(self.source, axes=axes, where=self.where, inference=inference).infer()


@dataclass(frozen=True, eq=False)
class Proportion(Description):
    """Shares of the levels of a column by group. See `proportion`."""

    procedures: ClassVar[tuple[str, ...]] = ("proportion",)

    kind: Kind = "proportion"

    def plan(self, schema: Schema) -> SumPlan:
        """Ask for the mean of a Boolean where people have several rows, so that errors are by person."""
        counted = super().plan(schema)
        if schema.rows_per_unit == 1 or self.target == "data" or counted.cells[-1].labels != (False, True):
            return counted
        return replace(counted, kind="mean", columns=(self._truth,), axes=self.axes[:-1])

    @property
    def _truth(self) -> str:
        """The last axis as an expression: a condition, or the name of a column."""
        axis = self.axes[-1]
        name = axis_name(axis)
        return name if "condition" in axis else quoted(name)

    def reads_sums(self, held: SumPlan) -> bool:
        """Return whether sums can be used: a table, or for the share of True the mean."""
        mean = Description(kind="mean", columns=(self._truth,), axes=self.axes[:-1], where=self.where)
        return held.where == self.where if held.kind in TABLES else mean.reads_sums(held)


@suggests
def mean(
    columns: Columns,
    data: Data | Release | None = None,
    *,
    by: Columns = (),
    where: str | None = None,
    weights: str | None = None,
    target: str = "population",
    inference: str = "auto",
    replicates: int = 999,
    seed: int = 0,
) -> Description:
    """Estimate means of columns, by group.

    Parameters
    ----------
    columns : str or sequence of str
        Numeric columns, or expressions of them such as ``"log(1 + income)"``.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    by : str or sequence of str
        Groups: Category, Boolean or short Integer columns, or conditions such as ``"age >= 18"``.
    where : str, optional
        A condition on declared columns; other rows are ignored.
    weights : str, optional
        A column of bounded, nonnegative survey weights: the mean is sum w x over sum w.
    target : {"population", "data"}
        "data" treats the rows as the whole population: standard errors include privacy noise only, and no budget is
        spent on sums for sampling errors.
    inference : {"auto", "score", "wald", "simulated"}
        Method of intervals, p-values and tests. "auto" is "score": the interval contains every value that a score test
        does not reject, which is Fieller's interval for a ratio of noisy sums.
    replicates, seed : int
        Number of simulated releases and public seed, for ``inference="simulated"``.

    Returns
    -------
    Description
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    FormulaError, UnknownColumnError, SchemaError
        If a column, group or condition does not suit the schema, before any budget is spent.
    OptionError
        If an argument has an invalid value.

    Notes
    -----
    The estimate is the noisy sum of centred values divided by the noisy count. The sampling error comes from a noisy
    sum of squares, released with them. Values are clipped to their declared bounds, and the mean is that of the clipped
    values.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), married=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)
    >>> results = dpi.mean("age", data, by="married").fit(dpi.ZCDP(0.1))
    >>> bool(np.allclose(results.estimates, 50, atol=4))
    True
    """
    return _described("mean", locals())


@suggests
def total(
    columns: Columns,
    data: Data | Release | None = None,
    *,
    by: Columns = (),
    where: str | None = None,
    weights: str | None = None,
    target: str = "data",
    inference: str = "auto",
    draws: int = 1,
) -> Description:
    """Estimate totals of columns, by group; with weights, population totals.

    Parameters
    ----------
    columns, data, by, where, weights, inference
        As in `mean`.
    target : {"data", "population"}
        "population" includes the sampling error: that of a sample of random size under add_remove (the sum of squares
        of w x), or of the same public size under replace_one.
    draws : int
        Release the average of this many Laplace draws, each with its share of a `PureDP` budget. The noise is nearly
        normal from 10 draws on.

    Returns
    -------
    Description

    Raises
    ------
    FormulaError, UnknownColumnError, SchemaError, OptionError
        As in `mean`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(income=dpi.Real(0, 200))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)
    >>> results = dpi.total("income", data).fit(dpi.ZCDP(0.1))
    >>> bool(abs(results.params.iloc[0] / 500_000 - 1) < 0.1)
    True
    """
    return _described("total", locals())


@suggests
def variance(
    columns: Columns,
    data: Data | Release | None = None,
    *,
    by: Columns = (),
    where: str | None = None,
    weights: str | None = None,
    target: str = "population",
    inference: str = "auto",
    replicates: int = 999,
    seed: int = 0,
) -> Description:
    """Estimate variances of columns, by group.

    Parameters
    ----------
    columns, data, by, where, weights, target, inference, replicates, seed
        As in `mean`; at most 8 columns.

    Returns
    -------
    Description

    Raises
    ------
    FormulaError, UnknownColumnError, SchemaError, OptionError
        As in `mean`.

    Notes
    -----
    The estimate uses noisy sums of first and second powers. Fourth powers give the sampling error for any distribution.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)
    >>> results = dpi.variance("age", data).fit(dpi.ZCDP(0.1))
    >>> bool(abs(results.params.iloc[0] / (100**2 / 12) - 1) < 0.2)
    True
    """
    return _described("variance", locals())


@suggests
def cov(
    columns: Sequence[str],
    data: Data | Release | None = None,
    *,
    by: Columns = (),
    where: str | None = None,
    weights: str | None = None,
    target: str = "population",
    inference: str = "auto",
    replicates: int = 999,
    seed: int = 0,
) -> Description:
    """Estimate covariances of all pairs of columns, by group.

    Parameters
    ----------
    columns, data, by, where, weights, target, inference, replicates, seed
        As in `mean`; at most 5 columns (use `gram` for more).

    Returns
    -------
    Description

    Raises
    ------
    FormulaError, UnknownColumnError, SchemaError, OptionError
        As in `mean`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), income=dpi.Real(0, 200))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)
    >>> list(dpi.cov(["age", "income"], data).fit(dpi.ZCDP(0.1)).params.index)
    ['cov(age, age)', 'cov(age, income)', 'cov(income, income)']
    """
    return _described("cov", locals())


@suggests
def corr(
    columns: Sequence[str],
    data: Data | Release | None = None,
    *,
    by: Columns = (),
    where: str | None = None,
    weights: str | None = None,
    target: str = "population",
    inference: str = "auto",
    replicates: int = 999,
    seed: int = 0,
) -> Description:
    """Estimate correlations of all pairs of columns, by group.

    Parameters
    ----------
    columns, data, by, where, weights, target, inference, replicates, seed
        As in `mean`; 2 to 5 columns.

    Returns
    -------
    Description

    Raises
    ------
    FormulaError, UnknownColumnError, SchemaError, OptionError
        As in `mean`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), income=dpi.Real(0, 200))
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(5000, rng).assign(income=lambda d: d["age"] + rng.uniform(0, 100, 5000))
    >>> results = dpi.corr(["age", "income"], dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.1))
    >>> bool(abs(results.params.iloc[0] - 0.5**0.5) < 0.1)
    True
    """
    if len(column_texts("columns", columns)) < 2:
        raise OptionError("columns", columns, "two or more columns")
    return _described("corr", locals())


@suggests
def count(
    data: Data | Release | None = None,
    *,
    by: Columns = (),
    where: str | None = None,
    weights: str | None = None,
    target: str = "data",
    inference: str = "auto",
    draws: int = 1,
) -> Description:
    """Count rows, by group.

    Parameters
    ----------
    data, by, where, inference
        As in `mean`.
    weights : str, optional
        Sum this bounded column instead of counting rows, as `total` does.
    target, draws
        As in `total`.

    Returns
    -------
    Description

    Raises
    ------
    OptionError
        On measuring, if only the number of rows is requested and it is public (replace_one).
    FormulaError, UnknownColumnError, SchemaError
        As in `mean`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), married=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)
    >>> results = dpi.count(data, where="age >= 50").fit(dpi.ZCDP(0.1))
    >>> bool(abs(results.params.iloc[0] - 2500) < 250)
    True
    """
    return _counting("count", locals(), axes_of(by))


@suggests
def table(
    columns: Columns,
    data: Data | Release | None = None,
    *,
    where: str | None = None,
    weights: str | None = None,
    target: str = "data",
    inference: str = "auto",
    draws: int = 1,
) -> Description:
    """Cross-tabulate columns: one release gives counts, margins, shares and tests.

    Parameters
    ----------
    columns : str or sequence of str
        Category, Boolean or short Integer columns, or conditions such as ``"age >= 18"``.
    data, where, inference
        As in `mean`.
    weights, target, draws
        As in `count`; with weights the results are totals by cell.

    Returns
    -------
    Description
        Its results have ``.frame()``, and without weights also ``.margin(...)`` and ``.proportions(...)``.

    Raises
    ------
    FormulaError, UnknownColumnError, SchemaError, OptionError
        As in `mean`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(region=dpi.Category(["north", "south"]), married=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)
    >>> results = dpi.table(["region", "married"], data).fit(dpi.ZCDP(0.1))
    >>> results.frame().shape
    (2, 2)
    """
    axes = axes_of(columns)
    if not axes:
        raise OptionError("columns", columns, "one or more columns")
    return _counting("table", locals(), axes)


@suggests
def histogram(
    column: str,
    data: Data | Release | None = None,
    *,
    bins: int | Sequence[float] | None = None,
    bounds: tuple[float, float] | None = None,
    by: Columns = (),
    where: str | None = None,
    target: str = "data",
    inference: str = "auto",
    draws: int = 1,
) -> Description:
    """Count rows in the bins of a numeric column.

    Parameters
    ----------
    column : str
        A Real or Integer column.
    data, where, inference
        As in `mean`.
    bins : sequence of float, or int with ``bounds``
        Increasing edges within the declared bounds, or a number of bins of equal width over ``bounds``. As in numpy, a
        bin includes its lower edge, and the last bin its upper edge too. Values are clipped to the declared bounds
        first.
    bounds : (float, float), optional
        Range of the equal bins if ``bins`` is a number.
    by : str or sequence of str
        Groups.
    target, draws
        As in `count`.

    Returns
    -------
    Description

    Raises
    ------
    OptionError
        If the bins are not increasing edges within the declared bounds.
    UnknownColumnError, SchemaError
        If the column is not declared, or not numeric.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(5000, rng), schema, rng=rng)
    >>> results = dpi.histogram("age", data, bins=[0, 25, 50, 75, 100]).fit(dpi.ZCDP(0.1))
    >>> bool(np.allclose(results.params, 1250, atol=200))
    True
    """
    of_type(str, "column", column, "the name of a numeric column")
    edges = edges_of(column, bins, bounds, data)
    return _counting("histogram", locals(), (*axes_of(by), {"column": column, "edges": edges}))


@suggests
def proportion(
    column: str,
    data: Data | Release | None = None,
    *,
    by: str | Sequence[str] = (),
    where: str | None = None,
    weights: str | None = None,
    target: str = "population",
    inference: str = "auto",
    replicates: int = 999,
    seed: int = 0,
) -> Description | ExactProportionQuestion:
    """Estimate shares of the levels of a column, by group.

    Parameters
    ----------
    column : str
        A Boolean or a condition such as ``"income > 50000"`` (the share of True), or a Category or short Integer (the
        share of every level).
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a stored release of this question, or of a table or marginals with the columns, at no
        further privacy cost.
    by, where
        As in `mean`.
    weights : str, optional
        As in `mean`; for a Boolean or a condition.
    target : {"population", "data"}
        As in `mean`.
    inference : {"auto", "score", "wald", "simulated", "exact"}
        "auto" is "score": Wilson's interval, including the noise. "exact" releases one count with Tulap noise (discrete
        Laplace noise and a uniform fraction) and inverts its exact distribution. It needs `PureDP`, replace_one, no
        groups, and declared constants for missing and impossible cells, so that every row is a success or a failure.
    replicates, seed : int
        For ``inference="simulated"``.

    Returns
    -------
    Description or ExactProportionQuestion

    Raises
    ------
    NotProvedError
        If an exact interval is requested where its coverage is not proved.
    FormulaError, UnknownColumnError, SchemaError, OptionError
        As in `mean`.

    References
    ----------
    Awan & Slavkovic (2018), Differentially private uniformly most powerful tests for binomial data.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(smokes=dpi.Boolean(missing=False, impossible=False))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(pd.DataFrame({"smokes": rng.random(100) < 0.2}), schema, rng=rng, neighbors="replace_one")
    >>> results = dpi.proportion("smokes", data, inference="exact").fit(dpi.PureDP(1.0))
    >>> bool(0 < results.conf_int()[0].iloc[0] < 0.2 < results.conf_int()[1].iloc[0])
    True
    """
    of_type(str, "column", column, 'a column, or a condition such as "age >= 18"')
    if inference in EXACT_METHODS[:1]:
        given = {"by": by or None, "where": where, "weights": weights}
        for name, value in given.items():
            if value is not None:
                raise NotProvedError(f'{name}= has no exact interval; use inference="score" or "simulated"')
        return ExactProportionQuestion(source=data, column=column, target=target)
    if inference not in METHODS:
        raise OptionError("inference", inference, (*METHODS, "exact"))
    if weights is not None:
        return Description.asking(locals(), kind="mean", columns=(column,), axes=axes_of(by))
    return Proportion.asking(locals(), axes=(*axes_of(by), *axes_of(column)))


def _described(kind: Kind, given: Mapping[str, Any]) -> Description:
    columns, axes = column_texts("columns", given["columns"]), axes_of(given["by"])
    return Description.asking(given, kind=kind, columns=columns, axes=axes)


def _counting(kind: Kind, given: Mapping[str, Any], axes: tuple[Mapping[str, Any], ...]) -> Description:
    """Count rows in cells, or sum a column of weights in them."""
    weights = given.get("weights")
    if weights is None:
        return Description.asking(given, kind=kind, columns=(), axes=axes)
    columns = column_texts("weights", weights)
    return Description.asking(given, kind="total", columns=columns, axes=axes, weights=None)
