"""Experiments: the sums that are measured, and effects computed from a release of means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from dpinfer.checks import one_of, require
from dpinfer.errors import OptionError
from dpinfer.experiments.inference import EffectInference, effects, spread_of
from dpinfer.experiments.results import ExperimentResults
from dpinfer.kernel.rows.cells import named_cells
from dpinfer.procedures import options
from dpinfer.procedures.cell_sums import SumPlan, SumsQuestion, check_summed, infer_sums
from dpinfer.procedures.procedure import context_of
from dpinfer.results.printing import refuse_dependent_rows
from dpinfer.schema.columns import Category
from dpinfer.schema.expressions import compile_expression, quoted
from dpinfer.statistics.inference import BatchEstimates, Released

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors
    from dpinfer.procedures.options import Contrasts
    from dpinfer.release import Release
    from dpinfer.schema.schema import Schema

    Columns = str | Sequence[str]

TREATMENT = "exactly two levels, control first: a Boolean, a Category of two, or a condition such as \"arm == 'new'\""


@dataclass(frozen=True, eq=False)
class Experiment(SumsQuestion):
    """The average effect of a treatment. See `experiment`.

    Attributes
    ----------
    outcome : str
    axes : tuple of mapping
        The treatment, then the strata, as `Axis.to_dict` writes them.
    covariates : tuple of str
        As given; levels of a Category become indicators in `columns`.
    where : str, optional
    method : {"auto", "difference", "adjusted"}
    """

    procedures: ClassVar[tuple[str, ...]] = ("experiment",)

    outcome: str = options.measured("y", options.NUMERIC)
    axes: tuple[Mapping[str, Any], ...] = ()
    covariates: tuple[str, ...] = ()
    where: str | None = None
    method: Literal["auto", "difference", "adjusted"] = options.inferred(
        "auto", one_of(("auto", "difference", "adjusted"))
    )

    def check_options(self) -> None:
        """Refuse an adjustment without covariates, and a column that is named twice."""
        if self.method == "adjusted" and not self.covariates:
            raise OptionError("covariates", self.covariates, 'columns to adjust for, or method="difference"')
        names = [self.outcome, *self.covariates, *map(options.axis_name, self.axes)]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise OptionError("covariates", twice[0], "different columns as outcome, treatment, strata and covariates")

    @property
    def adjusts(self) -> bool:
        """Whether the effect is adjusted for covariates."""
        return bool(self.covariates) and self.method != "difference"

    @property
    def treatment(self) -> str:
        """Name of the treatment."""
        return options.axis_name(self.axes[0])

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return the summed columns, in one spelling: outcome and covariates, without a Category's first level."""
        texts = [self.outcome]
        for name in self.covariates:
            column = schema.get(name)
            levels = column.levels[1:] if isinstance(column, Category) else ()
            texts += [f"{quoted(name)} == {level!r}" for level in levels] or [name]
        return tuple(compile_expression(text, schema).text for text in texts)

    def plan(self, schema: Schema) -> SumPlan:
        """Return the sums for means of all columns by arm and stratum."""
        return SumPlan("mean", schema, columns=self.columns(schema), axes=self.axes, where=self.where)

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Describe the question in one line."""
        within = ", ".join(map(options.axis_name, self.axes[1:]))
        told = f"effect of {self.treatment} on {self.outcome}" + (f" within {within}" if within else "")
        return (
            told
            + (f", covariates {', '.join(self.covariates)}" if self.covariates else "")
            + options.told_where(self.where)
        )

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse a treatment that does not have two levels, and people with several rows."""
        refuse_dependent_rows(schema, "an experiment", "mean(outcome, by=treatment) has intervals by person")
        super().check(schema, neighbors)
        labels = self.plan(schema).cells[0].labels
        shown = f"{len(labels)} in {self.treatment!r}: {', '.join(map(str, labels[:10]))}"
        require(len(labels) == 2, "treatment", shown, TREATMENT)

    def describe(self, measured: Measurement) -> str:
        """Describe the sums, and the standard error of a difference in means from noise alone."""
        half, noise = self.plan(measured.context.schema).scaled[1][0], measured.law.variances[1] * measured.rows.size
        each = 2 * half * measured.steps[1] * float(np.sqrt(noise))
        told = "; ".join(f"{each / n:.3g} with {n:,} rows" for n in (1_000, 10_000, 100_000))
        return (
            f"{measured.describe()}\n"
            f"standard error of the effect from privacy noise alone, with arms and strata of equal size, about: {told}"
        )

    # What is inferred

    def infer(self, release: Release | None = None) -> ExperimentResults:
        """Infer from a stored release of this question, or of means of the columns by arm, at no privacy cost.

        Raises
        ------
        InferenceError
            If the release was made for other columns, arms or rows.
        NotProvedError
            If a person may have several rows.
        """
        found, plan = self._release_and_sums(release)
        self.check(plan.schema, found.neighbors)
        released, means = Released.of_release(found, context_of(found), plan.rows), infer_sums(found, plan)
        known: dict[str, Any] = {"labels": tuple(named_cells(plan.cells)), "nobs": means.inference.nobs,
                 "nobs_is_public": means.inference.nobs_is_public}  # fmt: skip
        sums, half = plan.moment_sums(released.values, released.law, released.steps), plan.scaled[1].tolist()
        control, treated = plan.cells[0].labels
        strata = ", ".join(map(options.axis_name, self.axes[1:]))
        return ExperimentResults(
            self._inferred(released, **known),
            found,
            model_name=f"Private {'adjusted effect' if self.adjusts else 'difference in means'}",
            response=self.columns(plan.schema)[0],
            notes=(
                f"The effect is of {self.treatment} = {treated} against {control}; each arm has its own variance.",
                *([f"Adjusted for {', '.join(self.covariates)} with separate slopes in each arm (Lin 2013); the linear "
                   "model need not be correct."] if self.adjusts else []),
                *([f"Arms are compared within {strata}; strata are weighted by their rows."] if strata else []),
                *options.where_notes(self.where),
            ),
            means=means,
            compared={
                name: (effects(sums, half[place], place=place, **known), half[place] * spread_of(sums, place))
                for place, name in enumerate(self.columns(plan.schema)) if place
            },
        )  # fmt: skip

    def estimate(self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None) -> BatchEstimates:
        """Infer from many releases at once; see `Procedure.estimate`."""
        check_summed(released)
        return self._inferred(released).batch(alpha, contrasts)

    def _inferred(self, released: Released, **known: Any) -> EffectInference:
        plan = self.plan(released.schema)
        sums = plan.moment_sums(released.values, released.law, released.steps)
        return effects(sums, float(plan.scaled[1][0]), adjust=self.adjusts, **known)
