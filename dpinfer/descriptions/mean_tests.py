"""Tests of means: t tests of one sample, two samples and pairs, and one-way analysis of variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from dpinfer import checks
from dpinfer.descriptions.mean_test_inference import GroupMeans
from dpinfer.descriptions.question import Description
from dpinfer.descriptions.results import MeanTestResults, mean_flags
from dpinfer.errors import DPInferError, InferenceError, MissingFromReleaseError, OptionError
from dpinfer.kernel.stage import Data
from dpinfer.procedures import options
from dpinfer.procedures.cell_sums import SumPlan, SumsQuestion, check_summed, infer_sums
from dpinfer.procedures.keywords import suggests
from dpinfer.results.printing import refuse_dependent_rows
from dpinfer.schema.expressions import compile_expression
from dpinfer.statistics.nulls import ALTERNATIVES, Alternative, Draws, batch_pvalues, check_draws, simulate

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import NoiseLaw, Release
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array
    from dpinfer.statistics.inference import Released

MeanTest = Literal["ttest_1samp", "ttest_ind", "ttest_rel", "f_oneway"]

_TITLES = {
    "ttest_1samp": "Private one-sample t test",
    "ttest_ind": "Private two-sample t test",
    "ttest_rel": "Private paired t test",
    "f_oneway": "Private one-way analysis of variance",
}

_DEPENDENT = "a test of means", "mean(column) has intervals and p-values by person"


@dataclass(frozen=True, eq=False)
class MeanComparison(SumsQuestion):
    """A test of means. See `ttest_1samp`, `ttest_ind`, `ttest_rel` and `f_oneway`.

    Attributes
    ----------
    test : {"ttest_1samp", "ttest_ind", "ttest_rel", "f_oneway"}
    column : str
        A numeric column, or an expression of columns; the difference for a paired test.
    by : str, optional
        The groups: a column or a condition. None for one sample.
    where : str, optional
    popmean : float
        The mean under the null hypothesis, for one sample.
    equal_var : bool
        Whether the groups share one variance.
    alternative : {"two-sided", "less", "greater"}
    draws : "adaptive" or int
    seed : int
    """

    procedures: ClassVar[tuple[str, ...]] = ("ttest_1samp", "ttest_ind", "ttest_rel", "f_oneway")

    test: MeanTest = "ttest_1samp"
    column: str = options.measured("x", options.NUMERIC)
    by: str | None = None
    where: str | None = None
    popmean: float = options.inferred(0.0, checks.FINITE)
    equal_var: bool = options.inferred(True, checks.TRUTH)
    alternative: Alternative = options.inferred("two-sided", checks.one_of(ALTERNATIVES))
    draws: Draws = options.inferred("adaptive")
    seed: int = options.inferred(0)

    def check_options(self) -> None:
        """Refuse incompatible options."""
        if self.grouped and not checks.is_text(self.by):
            raise OptionError("by", self.by, 'one column of groups, or a condition such as "age >= 18"')
        if not self.grouped and self.by is not None:
            raise OptionError("by", self.by, "None: one sample has no groups")
        if self.grouped and self.popmean != 0:
            raise OptionError("popmean", self.popmean, "0: groups are compared with each other")
        if self.test == "f_oneway" and self.alternative != "two-sided":
            raise OptionError("alternative", self.alternative, '"two-sided": an analysis of variance has no sides')
        check_draws(self.draws, self.seed)

    @property
    def procedure(self) -> str:
        """The function that creates it."""
        return self.test

    @property
    def grouped(self) -> bool:
        """Whether groups are compared."""
        return self.test in ("ttest_ind", "f_oneway")

    @property
    def described(self) -> Description:
        """The means that are tested, as a question of their own."""
        axes = () if self.by is None else options.axes_of(self.by)
        return Description(kind="mean", columns=(self.column,), axes=axes, where=self.where)

    def plan(self, schema: Schema) -> SumPlan:
        """Compile the sums of the means against a schema."""
        return self.described.plan(schema)

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Describe the question in one line."""
        return self._what + options.told_where(self.where)

    @property
    def _what(self) -> str:
        return f"{self.test} of {self.column}" + (f" by {self.by}" if self.by else "")

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse people with several rows, unsuitable groups, and a mean outside the bounds."""
        refuse_dependent_rows(schema, *_DEPENDENT)
        self._check_fit(self.plan(schema), 0)
        super().check(schema, neighbors)

    def _check_fit(self, plan: SumPlan, place: int) -> None:
        """Refuse groups and bounds that do not suit the test.

        Raises
        ------
        OptionError
        """
        if not self.grouped:
            self.scaled_mean(plan, place)
            return
        labels = plan.cells[0].labels
        shown = f"{len(labels)} in {self.by!r}: {', '.join(map(str, labels))}"
        if self.test == "ttest_ind" and len(labels) != 2:
            raise OptionError("by", self.by, f"exactly two levels, not {shown}; f_oneway compares more")
        if len(labels) < 2:
            raise OptionError("by", self.by, f"at least two levels, not {shown}")

    def scaled_mean(self, plan: SumPlan, place: int = 0) -> float:
        """Return the mean under the null hypothesis in units of the scaled column, in [-1, 1].

        Raises
        ------
        OptionError
            If it is outside the bounds of the column.
        """
        expression = plan.expressions[place]
        if not expression.lower <= self.popmean <= expression.upper:
            right = f"a number within the bounds [{expression.lower:g}, {expression.upper:g}] of {expression.text}"
            raise OptionError("popmean", self.popmean, right)
        center, half = plan.scaled
        return float(np.clip((self.popmean - center[place]) / half[place], -1.0, 1.0))

    def describe(self, measured: Measurement) -> str:
        """Describe the means that would be measured, and their standard errors from noise alone.

        Returns
        -------
        str
        """
        context = measured.context
        means = self.described.bind(self.source) if isinstance(self.source, Data) else self.described
        explained = means.explain(context.privacy, schema=context.schema, neighbors=context.neighbors)
        return f"{self._what}\n{explained}"

    # What is inferred

    def reads_sums(self, held: SumPlan) -> bool:
        """Return whether sums can be used: those of any means of the same rows."""
        return held.kind == "mean" and held.where == self.where

    def infer(self, release: Release | None = None) -> MeanTestResults:
        """Test from a stored release of this question, or of means of the column by group, at no privacy cost.

        Raises
        ------
        InferenceError, MissingFromReleaseError
            If the release lacks these means, or was made with another ``where``.
        OptionError
            If the groups or the mean under the null hypothesis do not fit.
        NotProvedError
            If a person may have several rows.
        """
        found, plan = self._release_and_sums(release)
        model, values = self.model(plan, found.array[None], law=found.law, steps=np.asarray(found.steps))
        null = simulate(model, values[0], draws=self.draws, seed=self.seed)
        means = infer_sums(found, plan)
        several = self.test == "f_oneway"
        statistic = model.statistic(values) / (model.groups - 1) if several else model.signed(values)
        resid = float(model.residual_dof(values)[0])
        notes = options.where_notes(self.where)
        if self.grouped:
            notes.insert(0, "Pooled variance." if self.equal_var else "Unequal variances (Welch).")
        hypothesis = f"equal means of {self.column} at all levels of {self.by}"
        if several:
            notes.insert(0, f"Residual degrees of freedom (from noisy counts): {resid:.6g}.")
        elif self.grouped:
            first, second = plan.cells[0].labels
            notes.insert(
                0, f"The difference is the mean for {self.by} = {first} minus the mean for {self.by} = {second}."
            )
            hypothesis = f"equal means of {self.column} at {self.by} = {first} and {second}"
        else:
            hypothesis = f"mean of {self.column} = {self.popmean:g}"
        return MeanTestResults(
            title=_TITLES[self.test],
            hypothesis=hypothesis,
            statistic=float(statistic[0]),
            pvalue=null.pvalue,
            release=found,
            statistic_name="F statistic" if several else "t statistic",
            dof=float(model.groups - 1) if several else resid,
            alternative="two-sided" if several else self.alternative,
            distribution=null,
            nobs=means.inference.nobs,
            nobs_is_public=means.inference.nobs_is_public,
            flags=mean_flags(model, values, means),
            notes=tuple(notes),
            test=self.test,
            means=means,
            place=self._place(plan),
            groups=model.groups,
            dof_resid=resid,
        )

    def batch_pvalues(self, released: Released, *, draws: int = 199, rng: np.random.Generator) -> Array:
        """Simulate the p-values (R,) of R releases of this question; for studies."""
        check_summed(released)
        plan = self.plan(released.schema)
        model, sums = self.model(plan, released.values, law=released.law, steps=released.steps)
        return batch_pvalues(model, sums, draws=draws, rng=rng)

    def model(self, plan: SumPlan, values: Array, *, law: NoiseLaw, steps: Array) -> tuple[GroupMeans, Array]:
        """Return the null model and its values (R, 3 G) for R releases of sums (R, m) of the scaled features.

        Raises
        ------
        MissingFromReleaseError, InferenceError
            If they are not means of the column by group.
        OptionError
            If the groups or the mean do not fit the test.
        NotProvedError
            If a person may have several rows.
        """
        refuse_dependent_rows(plan.schema, *_DEPENDENT)
        place = self._place(plan)
        sums = plan.moment_sums(values, law, steps)
        unit = [int(other == place) for other in range(sums.columns)]
        places = [sums.place[(*(power * one for one in unit), 0)] for power in (0, 1, 2)]
        model = GroupMeans(
            mixing=sums.mixing[places],
            variances=sums.variances,
            laplace=law.draws if law.family == "laplace" else 0,
            groups=sums.values.shape[1],
            mean=None if self.grouped else self.scaled_mean(plan, place),
            equal_var=self.equal_var,
            alternative=self.alternative,
        )
        return model, sums.values[..., places].reshape(len(values), -1)

    def _place(self, plan: SumPlan) -> int:
        """Return which of the measured columns is tested."""
        if plan.weights is not None:
            raise InferenceError("the release holds weighted means; a test of means needs means without weights")
        if plan.target != "population":
            raise InferenceError('the release was measured with target="data": it holds no sums of squares for a test')
        texts = [expression.text for expression in plan.expressions]
        try:
            text = compile_expression(self.column, plan.schema).text
        except DPInferError:  # the schema of a release has no more columns than it needs
            text = self.column
        if text not in texts:
            raise MissingFromReleaseError(f"the release has no mean of {self.column}; it has: {', '.join(texts)}")
        axes = [axis.name for axis in plan.cells]
        if axes != ([self.by] if self.grouped else []):
            wanted = f"by {self.by}" if self.grouped else "of all rows together"
            raise MissingFromReleaseError(
                f"the test needs means {wanted}; the release has: {', '.join(axes) or 'no'} groups"
            )
        place = texts.index(text)
        self._check_fit(plan, place)
        return place


@suggests
def ttest_1samp(
    column: str,
    data: Data | Release | None = None,
    *,
    popmean: float,
    alternative: Alternative = "two-sided",
    where: str | None = None,
    draws: Draws = "adaptive",
    seed: int = 0,
) -> MeanComparison:
    """Test whether a column has a given mean.

    Parameters
    ----------
    column : str
        A numeric column, or an expression such as ``"log(1 + income)"``. Values are clipped to their declared bounds,
        and the mean is that of clipped values.
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a stored release of this question, or of `mean` of the column, at no further privacy cost.
    popmean : float
        The mean under the null hypothesis, within the bounds.
    alternative : {"two-sided", "less", "greater"}
        "greater": the mean is above ``popmean``.
    where : str, optional
        A condition on declared columns; other rows are ignored.
    draws : "adaptive" or int
        Number of simulated releases; "adaptive" stops when the Monte Carlo error of the p-value no longer matters.
    seed : int
        Public seed of the simulation; the privacy noise has none.

    Returns
    -------
    MeanComparison
        Its ``fit(privacy)`` returns `MeanTestResults`.

    Raises
    ------
    OptionError
        If an argument has an invalid value.
    FormulaError, UnknownColumnError, SchemaError
        If the column or the condition does not suit the schema, before any budget is spent.

    Notes
    -----
    Let N and S be the noisy number of rows and the noisy sum of scaled values, m the mean under the null hypothesis and
    v the noise variance of ``S - m N``. The statistic is ``t = (S - m N) / sqrt(N s^2 + v)``, where s^2 is the sample
    variance corrected for the bias of the noise. Releases are simulated under the null hypothesis, with sampling error
    and noise. Where noise hides the variance, the test uses the largest variance compatible with the noise and is
    conservative.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(pd.DataFrame({"age": rng.normal(45, 15, 2000)}), schema, rng=rng)
    >>> bool(dpi.ttest_1samp("age", data, popmean=40).fit(dpi.ZCDP(0.1)).pvalue < 0.01)
    True
    """
    return MeanComparison.asking(locals(), test="ttest_1samp")


@suggests
def ttest_ind(
    column: str,
    by: str,
    data: Data | Release | None = None,
    *,
    equal_var: bool = False,
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
        Whether the groups share one variance. By default, unlike in scipy, each has its own (Welch): if variances
        differ, the pooled test rejects too often or too rarely. Results with ``equal_var=True`` are flagged if the
        noisy variances differ by more than sampling and noise explain.
    alternative : {"two-sided", "less", "greater"}
        "greater": the mean of the first level is above that of the second.
    where, draws, seed
        As in `ttest_1samp`.

    Returns
    -------
    MeanComparison
        Its ``fit(privacy)`` returns `MeanTestResults`.

    Raises
    ------
    OptionError
        If ``by`` does not have exactly two levels, or an argument has an invalid value.
    FormulaError, UnknownColumnError, SchemaError
        As in `ttest_1samp`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), married=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> rows = schema.sample(2000, rng).assign(age=lambda d: 40 + 10 * d["married"] + rng.normal(0, 10, 2000))
    >>> results = dpi.ttest_ind("age", "married", dpi.PublicData(rows, schema, rng=rng)).fit(dpi.ZCDP(0.1))
    >>> bool(results.confidence_interval().high < 0)
    True
    """
    return MeanComparison.asking(locals(), test="ttest_ind")


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
        Numeric columns, or expressions. The test measures the mean of ``(a) - (b)``, whose bounds follow from theirs.
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a release of this question, or of `mean` of the same difference.
    alternative : {"two-sided", "less", "greater"}
        "greater": the mean of a is above that of b.
    where, draws, seed
        As in `ttest_1samp`.

    Returns
    -------
    MeanComparison
        Its ``fit(privacy)`` returns `MeanTestResults`.

    Raises
    ------
    OptionError
        If the columns are the same, a difference of zero is outside their bounds, or an argument is invalid.
    FormulaError, UnknownColumnError, SchemaError
        As in `ttest_1samp`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(before=dpi.Real(0, 100), after=dpi.Real(0, 100))
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(5000, rng).assign(after=lambda d: (d["before"] + rng.normal(5, 10, 5000)).clip(0, 100))
    >>> test = dpi.ttest_rel("after", "before", dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.1))
    >>> bool(test.confidence_interval().low > 0)
    True
    """
    for name, given in (("a", a), ("b", b)):
        options.NUMERIC.check(name, given)
    if a.strip() == b.strip():
        raise OptionError("b", b, "a column other than a")
    return MeanComparison.asking(locals(), test="ttest_rel", column=f"({a.strip()}) - ({b.strip()})")


@suggests
def f_oneway(
    column: str,
    by: str,
    data: Data | Release | None = None,
    *,
    equal_var: bool = False,
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
        The groups: a column of two or more levels, or a condition.
    data : PrivateData, PublicData or Release, optional
        As in `ttest_ind`.
    equal_var : bool
        Whether the groups share one variance (Fisher's test). By default, unlike in scipy, each has its own, and the
        statistic is the numerator of Welch's; the simulation replaces his small-sample factor. See `ttest_ind`.
    where, draws, seed
        As in `ttest_1samp`.

    Returns
    -------
    MeanComparison
        Its ``fit(privacy)`` returns `MeanTestResults`.

    Raises
    ------
    OptionError
        If ``by`` has one level, or an argument has an invalid value.
    FormulaError, UnknownColumnError, SchemaError
        As in `ttest_1samp`.

    Notes
    -----
    Let ``r = S - m N`` in each group, and V its variance from sampling and noise. Then (G - 1) F is the minimum of
    ``sum r^2 / V`` over m, with V at the pooled mean. The statistic divides by no noisy count.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(age=dpi.Real(0, 100), race=dpi.Category(["a", "b", "c"]))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(schema.sample(500, rng), schema, rng=rng)
    >>> results = dpi.f_oneway("age", "race", data).fit(dpi.ZCDP(0.1))
    >>> bool(0 < results.pvalue <= 1)
    True
    """
    return MeanComparison.asking(locals(), test="f_oneway")
