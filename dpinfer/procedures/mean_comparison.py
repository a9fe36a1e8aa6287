"""The procedure behind the tests of means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from dpinfer.errors import DPInferError, InferenceError, MissingFromReleaseError, OptionError
from dpinfer.inference.testing.groups import ALTERNATIVES, Alternative, group_means
from dpinfer.inference.testing.nulls import Draws, batch_pvalues, check_draws, simulate
from dpinfer.kernel.stage import Data
from dpinfer.procedures.conditions import told_where, where_notes
from dpinfer.procedures.description import Description
from dpinfer.procedures.infer_sums import infer_sums
from dpinfer.procedures.of_sums import OfSums
from dpinfer.procedures.options import FINITE, NUMERIC, TRUTH, inferred, is_text, measured, one_of
from dpinfer.procedures.sum_plan import SumPlan, check_summed
from dpinfer.procedures.table_axes import axes_of
from dpinfer.results.people import refuse_dependent_rows
from dpinfer.results.testing.groups import MeanTestResults, mean_flags
from dpinfer.schema.expressions import compile_expression

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.inference.released import Released
    from dpinfer.inference.testing.groups import GroupMeans
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import NoiseLaw, Release
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["MeanComparison"]

MeanTest = Literal["ttest_1samp", "ttest_ind", "ttest_rel", "f_oneway"]

_TITLES = {
    "ttest_1samp": "Private one-sample t test",
    "ttest_ind": "Private two-sample t test",
    "ttest_rel": "Private paired t test",
    "f_oneway": "Private one-way analysis of variance",
}


@dataclass(frozen=True, eq=False)
class MeanComparison(OfSums):
    """A test of means. See `ttest_1samp`, `ttest_ind`, `ttest_rel` and `f_oneway`.

    Attributes
    ----------
    test : {"ttest_1samp", "ttest_ind", "ttest_rel", "f_oneway"}
    column : str
        A numeric column, or an expression of columns; of a paired test the difference.
    by : str, optional
        The groups: a column or a condition. None for one sample.
    where : str, optional
    popmean : float
        The mean under the hypothesis, for one sample.
    equal_var : bool
        Whether the groups share one variance.
    alternative : {"two-sided", "less", "greater"}
    draws : "adaptive" or int
    seed : int
    """

    procedures: ClassVar[tuple[str, ...]] = ("ttest_1samp", "ttest_ind", "ttest_rel", "f_oneway")

    test: MeanTest = "ttest_1samp"
    column: str = measured("x", NUMERIC)
    by: str | None = None
    where: str | None = None
    popmean: float = inferred(0.0, FINITE)
    equal_var: bool = inferred(True, TRUTH)
    alternative: Alternative = inferred("two-sided", one_of(ALTERNATIVES))
    draws: Draws = inferred("adaptive")
    seed: int = inferred(0)

    def check_options(self) -> None:
        """Refuse options that do not go together."""
        if self.grouped and not is_text(self.by):
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
        """The function that asks it."""
        return self.test

    @property
    def grouped(self) -> bool:
        """Whether groups are compared."""
        return self.test in ("ttest_ind", "f_oneway")

    @property
    def described(self) -> Description:
        """The means that are tested, as a question of their own."""
        axes = () if self.by is None else axes_of(self.by)
        return Description(kind="mean", columns=(self.column,), axes=axes, where=self.where)

    def plan(self, schema: Schema) -> SumPlan:
        """Return the sums, compiled against a schema: those of the means."""
        return self.described.plan(schema)

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        return self._said + told_where(self.where)

    @property
    def _said(self) -> str:
        return f"{self.test} of {self.column}" + (f" by {self.by}" if self.by else "")

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse people with several rows, groups that the test does not fit, and a mean beyond the bounds."""
        _refuse_people(schema)
        self._check_fit(self.plan(schema), 0)
        super().check(schema, neighbors)

    def _check_fit(self, plan: SumPlan, place: int) -> None:
        """Refuse groups and bounds that the test does not fit.

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
            raise OptionError("by", self.by, f"two levels or more, not {shown}")

    def scaled_mean(self, plan: SumPlan, place: int = 0) -> float:
        """Return the mean under the hypothesis in units of the scaled column, in [-1, 1].

        Raises
        ------
        OptionError
            If it is outside the bounds of the column.
        """
        expression = plan.expressions[place]
        if not expression.lower <= self.popmean <= expression.upper:
            raise OptionError(
                "popmean",
                self.popmean,
                f"a number within the bounds [{expression.lower:g}, {expression.upper:g}] of {expression.text}",
            )
        center, half = plan.scaled
        return float(np.clip((self.popmean - center[place]) / half[place], -1.0, 1.0))

    def describe(self, measured: Measurement) -> str:
        """Describe the means that would be measured, and the standard error that noise alone would give them.

        Returns
        -------
        str
        """
        context = measured.context
        means = self.described.bind(self.source) if isinstance(self.source, Data) else self.described
        told = means.explain(context.privacy, schema=context.schema, neighbors=context.neighbors)
        return f"{self._said}\n{told}"

    # What is inferred

    def reads_sums(self, held: SumPlan) -> bool:
        """Return whether sums serve: those of any means of the same rows."""
        return held.kind == "mean" and held.where == self.where

    def infer(self, release: Release | None = None) -> MeanTestResults:
        """Test a release of this question, or of means of the column in the groups: free, and without any row.

        Raises
        ------
        InferenceError, MissingFromReleaseError
            If the release holds no such means, or was made with another ``where``.
        OptionError
            If the groups or the mean under the hypothesis do not fit.
        NotProvedError
            Where a person may have several rows.
        """
        found, plan = self._release_and_sums(release)
        model, values = self.model(plan, found.array[None], law=found.law, steps=np.asarray(found.steps))
        return self._results(found, plan, model, values)

    def batch_pvalues(self, released: Released, *, draws: int = 199, rng: np.random.Generator) -> Array:
        """Simulate the p-values (R,) of R releases of this question; for studies."""
        check_summed(released)
        plan = self.plan(released.schema)
        model, sums = self.model(plan, released.values, law=released.law, steps=released.steps)
        return batch_pvalues(model, sums, draws=draws, rng=rng)

    def model(self, plan: SumPlan, values: Array, *, law: NoiseLaw, steps: Array) -> tuple[GroupMeans, Array]:
        """Return the null model, and its values (R, 3 G), for R releases of means: sums (R, m) of the scaled features.

        Raises
        ------
        MissingFromReleaseError, InferenceError
            If they are not means of the column in the groups.
        OptionError
            If the groups or the mean do not fit the test.
        NotProvedError
            Where a person may have several rows.
        """
        _refuse_people(plan.schema)
        place = self._place(plan)
        return group_means(
            plan.moment_sums(values, law, steps),
            law,
            column=place,
            mean=None if self.grouped else self.scaled_mean(plan, place),
            equal_var=self.equal_var,
            alternative=self.alternative,
        )

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

    def _results(self, release: Release, plan: SumPlan, model: GroupMeans, values: Array) -> MeanTestResults:
        null = simulate(model, values[0], draws=self.draws, seed=self.seed)
        means = infer_sums(release, plan)
        several = self.test == "f_oneway"
        statistic = model.statistic(values) / (model.groups - 1) if several else model.signed(values)
        resid = float(model.residual_dof(values)[0])
        return MeanTestResults(
            title=_TITLES[self.test],
            hypothesis=self._hypothesis(plan),
            statistic=float(statistic[0]),
            pvalue=null.pvalue,
            release=release,
            statistic_name="F statistic" if several else "t statistic",
            dof=float(model.groups - 1) if several else resid,
            alternative="two-sided" if several else self.alternative,
            distribution=null,
            nobs=means.inference.nobs,
            nobs_is_public=means.inference.nobs_is_public,
            flags=mean_flags(model, values, means),
            notes=self._notes(plan, resid),
            test=self.test,
            means=means,
            place=self._place(plan),
            groups=model.groups,
            dof_resid=resid,
        )

    def _hypothesis(self, plan: SumPlan) -> str:
        if not self.grouped:
            return f"mean of {self.column} = {self.popmean:g}"
        if self.test == "ttest_ind":
            first, second = plan.cells[0].labels
            return f"equal means of {self.column} at {self.by} = {first} and {second}"
        return f"equal means of {self.column} at all levels of {self.by}"

    def _notes(self, plan: SumPlan, resid: float) -> tuple[str, ...]:
        notes = []
        if self.test == "ttest_ind":
            first, second = plan.cells[0].labels
            notes.append(f"The difference is the mean at {self.by} = {first} less that at {self.by} = {second}.")
        if self.test == "f_oneway":
            notes.append(f"Residual degrees of freedom, by the noisy counts: {resid:.6g}.")
        if self.grouped:
            notes.append("One variance for all groups." if self.equal_var else "A variance for every group (Welch).")
        return (*notes, *where_notes(self.where))


def _refuse_people(schema: Schema) -> None:
    """Refuse to test means of rows where a person may have several.

    Raises
    ------
    NotProvedError
    """
    refuse_dependent_rows(schema, "a test of means", "mean(column) has intervals and p-values by person")
