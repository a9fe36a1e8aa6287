"""Tests of means: t tests of one sample, two samples and pairs, and one-way analysis of variance."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.inference.testing.nulls import batch_pvalues
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.stage import Context, Data, Stage, Sum
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.description import Description
from dpinfer.procedures.table_axes import axes_of
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.procedure import Procedure
from dpinfer.procedures.sum_plan import SumPlan
from dpinfer.results.testing.groups import MeanTest, MeanTestResults, infer_mean_test, mean_model, refuse_people

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.inference.testing.groups import Alternative
    from dpinfer.inference.testing.nulls import Draws
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["MeanComparison", "f_oneway", "ttest_1samp", "ttest_ind", "ttest_rel"]

_OPTIONS = {"inference": "auto", "replicates": 999, "seed": 0}


@dataclass(frozen=True, eq=False)
class MeanComparison(Procedure):
    """A test of means. See `ttest_1samp`, `ttest_ind`, `ttest_rel` and `f_oneway`."""

    test: MeanTest = field(default_factory=lambda: MeanTest("ttest_1samp", "x"))
    where: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.source, Data):
            self._question(self.source.schema).check()

    def _question(self, schema: Schema) -> SumPlan:
        refuse_people(schema)
        axes = axes_of(self.test.by) if self.test.by is not None else ()
        question = SumPlan("mean", schema, columns=(self.test.column,), axes=axes, where=self.where, options=_OPTIONS)
        self.test.check(question)
        return question

    def release_kind(self, context: Context) -> str:  # noqa: ARG002
        """Return "mean": that is what is measured."""
        return "mean"

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for ordinary means."""
        asked = self._question(context.schema)
        asked.check()
        weights = asked.noise_weights(pure=isinstance(context.privacy, PureDP))
        return Stage(Sum(asked.rows, weights=tuple(weights)))

    def question(self, context: Context) -> dict[str, Any]:
        """Return what a release stores of the question."""
        asked = {"asked": self.test.name, "test": self.test.to_dict()}
        text = self.test.text + (f", where {self.where}" if self.where else "")
        return {**self._question(context.schema).to_dict(), **asked, "text": text}

    def explain(self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None) -> str:
        """Describe the means that would be measured, and the standard error that noise alone would give them.

        Returns
        -------
        str
        """
        context = self._context(privacy, schema, neighbors)
        question = self._question(context.schema)
        source = self.source if isinstance(self.source, Data) else None
        means = Description(source, "mean", question.columns, question.axes, self.where)
        return f"{self.test.text}\n{means.explain(privacy, schema=context.schema, neighbors=context.neighbors)}"

    def infer(self, release: Release | None = None) -> MeanTestResults:
        """Test a release of this question, or of means of the column in the groups: free, and without any row.

        Raises
        ------
        InferenceError, MissingFromReleaseError
            If the release holds no such means, or was made with another ``where``.
        OptionError
            If the groups or the mean under the hypothesis do not fit.
        """
        found = self._release(release)
        if found.kind == "mean":
            self._asked(found, "mean", where=self.where)
        return infer_mean_test(found, self.test)

    def batch_pvalues(
        self, measurement: Measurement, values: Array, *, draws: int = 199, rng: np.random.Generator
    ) -> Array:
        """Simulate the p-values of many releases at once; for studies.

        Parameters
        ----------
        measurement : Measurement
        values : ndarray (R, m)
            Noisy sums of every release, in units of the scaled features.
        draws : int
        rng : numpy.random.Generator

        Returns
        -------
        ndarray (R,)
        """
        if not isinstance(measurement.rows, CellSum):
            raise OptionError("measurement", measurement.kind, "a measurement of this procedure")
        question = self._question(measurement.rows.features.basis.schema)
        model, sums = mean_model(question, values, self.test, law=measurement.law, steps=np.asarray(measurement.steps))
        return batch_pvalues(model, sums, draws=draws, rng=rng)


@suggests
def ttest_1samp(
    column: str,
    popmean: float,
    data: Data | Release | None = None,
    *,
    alternative: Alternative = "two-sided",
    where: str | None = None,
    draws: Draws = "adaptive",
    seed: int = 0,
) -> MeanComparison:
    """Test whether a column has a given mean.

    Parameters
    ----------
    column : str
        A numeric column, or an expression such as ``"log(1 + income)"``. Values are clamped to their declared bounds,
        and the mean is that of clamped values.
    popmean : float
        The mean under the hypothesis, within the bounds.
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a release of this question, or of `mean` of the column, which costs nothing more.
    alternative : {"two-sided", "less", "greater"}
        "greater": the mean is above ``popmean``.
    where : str, optional
        A condition on declared columns; other rows count as absent.
    draws : "adaptive" or int
        Simulated releases: "adaptive" stops when the Monte Carlo error of the p-value no longer matters.
    seed : int
        Public seed of the simulation; the privacy noise has none.

    Returns
    -------
    MeanComparison
        Its ``fit(privacy)`` gives `MeanTestResults`.

    Raises
    ------
    OptionError
        If an option has no such value.
    FormulaError, UnknownColumnError, SchemaError
        If the column or the condition cannot be served from the schema, before anything is spent.

    Notes
    -----
    With noisy sums N, S of rows and scaled values, m the mean under the hypothesis and v the noise variance of
    ``S - m N``, the statistic is ``t = (S - m N) / sqrt(N s^2 + v)``; s^2 is the sample variance freed of the bias of
    the noise. Releases are simulated under the hypothesis with sampling and noise alike. Where noise hides the
    variance, it is taken as large as the noise in it allows, and the test is conservative.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> from dpinfer.procedures.mean_tests import ttest_1samp
    >>> schema = dpi.Schema(age=dpi.Real(0, 100))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(pd.DataFrame({"age": rng.normal(45, 15, 2000)}), schema, rng=rng)
    >>> bool(ttest_1samp("age", 40, data).fit(dpi.ZCDP(0.1)).pvalue < 0.01)
    True
    """
    test = MeanTest("ttest_1samp", column, None, popmean, True, alternative, draws, seed)
    return MeanComparison(data, test, where)


@suggests
def ttest_ind(
    column: str,
    by: str,
    data: Data | Release | None = None,
    *,
    equal_var: bool = True,
    alternative: Alternative = "two-sided",
    where: str | None = None,
    draws: Draws = "adaptive",
    seed: int = 0,
) -> MeanComparison:
    """Test whether two groups have the same mean.

    Parameters
    ----------
    column : str
        As in `ttest_1samp`.
    by : str
        The groups: a column of two levels, or a condition such as ``"age >= 18"`` (False first).
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a release of this question, or of `mean` of the column by the same groups.
    equal_var : bool
        Whether the groups share one variance; otherwise each has its own (Welch).
    alternative : {"two-sided", "less", "greater"}
        "greater": the mean of the first level is above that of the second.
    where, draws, seed
        As in `ttest_1samp`.

    Returns
    -------
    MeanComparison
        Its ``fit(privacy)`` gives `MeanTestResults`.

    Raises
    ------
    OptionError
        If ``by`` has not exactly two levels, or an option has no such value.
    FormulaError, UnknownColumnError, SchemaError
        As `ttest_1samp`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> from dpinfer.procedures.mean_tests import ttest_ind
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), married=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> rows = schema.sample(2000, rng).assign(age=lambda d: 40 + 10 * d["married"] + rng.normal(0, 10, 2000))
    >>> results = ttest_ind("age", "married", dpi.PublicData(rows, schema, rng=rng)).fit(dpi.ZCDP(0.1))
    >>> bool(results.confidence_interval().high < 0)
    True
    """
    test = MeanTest("ttest_ind", column, by, 0.0, equal_var, alternative, draws, seed)
    return MeanComparison(data, test, where)


@suggests
def ttest_rel(
    a: str,
    b: str,
    data: Data | Release | None = None,
    *,
    alternative: Alternative = "two-sided",
    where: str | None = None,
    draws: Draws = "adaptive",
    seed: int = 0,
) -> MeanComparison:
    """Test whether two columns of the same rows have the same mean.

    Parameters
    ----------
    a, b : str
        Numeric columns, or expressions. What is measured is the mean of ``(a) - (b)``, whose bounds follow from
        theirs.
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a release of this question, or of `mean` of the same difference.
    alternative : {"two-sided", "less", "greater"}
        "greater": the mean of a is above that of b.
    where, draws, seed
        As in `ttest_1samp`.

    Returns
    -------
    MeanComparison
        Its ``fit(privacy)`` gives `MeanTestResults`.

    Raises
    ------
    OptionError
        If the columns are the same, or a difference of zero is outside their bounds, or an option has no such value.
    FormulaError, UnknownColumnError, SchemaError
        As `ttest_1samp`.
    """
    for name, given in (("a", a), ("b", b)):
        if not isinstance(given, str) or not given.strip():
            raise OptionError(name, given, 'a column, or an expression such as "log(1 + income)"')
    if a.strip() == b.strip():
        raise OptionError("b", b, "another column than a")
    test = MeanTest("ttest_rel", f"({a.strip()}) - ({b.strip()})", None, 0.0, True, alternative, draws, seed)
    return MeanComparison(data, test, where)


@suggests
def f_oneway(
    column: str,
    by: str,
    data: Data | Release | None = None,
    *,
    equal_var: bool = True,
    where: str | None = None,
    draws: Draws = "adaptive",
    seed: int = 0,
) -> MeanComparison:
    """Test whether all groups have the same mean: one-way analysis of variance.

    Parameters
    ----------
    column : str
        As in `ttest_1samp`.
    by : str
        The groups: a column of two levels or more, or a condition.
    data : PrivateData, PublicData or Release, optional
        As in `ttest_ind`.
    equal_var : bool
        Whether the groups share one variance; otherwise each has its own, and the statistic is the numerator of
        Welch's: his small-sample factor is left to the simulation.
    where, draws, seed
        As in `ttest_1samp`.

    Returns
    -------
    MeanComparison
        Its ``fit(privacy)`` gives `MeanTestResults`.

    Raises
    ------
    OptionError
        If ``by`` has one level, or an option has no such value.
    FormulaError, UnknownColumnError, SchemaError
        As `ttest_1samp`.

    Notes
    -----
    With ``r = S - m N`` of each group and V its variance, sampling and noise alike, (G - 1) F is the least
    ``sum r^2 / V`` over m, with V at the pooled mean. No noisy count is divided by.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> from dpinfer.procedures.mean_tests import f_oneway
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), race=dpi.Category(["a", "b", "c"]))
    >>> rng = np.random.default_rng(1)
    >>> results = f_oneway("age", "race", dpi.PublicData(schema.sample(500, rng), schema, rng=rng)).fit(dpi.ZCDP(0.1))
    >>> bool(0 < results.pvalue <= 1)
    True
    """
    test = MeanTest("f_oneway", column, by, 0.0, equal_var, "two-sided", draws, seed)
    return MeanComparison(data, test, where)
