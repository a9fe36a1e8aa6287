"""The multivariate normal family."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpinfer.errors import NotProvedError, SchemaError
from dpinfer.inference.expfam import clamped_problem
from dpinfer.inference.families.continuous import Normal
from dpinfer.inference.moment_inference import MomentInference, batch_moments, moment_oracle
from dpinfer.inference.multinormal import estimate_multinormal, signal
from dpinfer.kernel.stage import Context, Stage, Sum
from dpinfer.procedures.description import check_options
from dpinfer.procedures.procedure import Procedure, inferred
from dpinfer.procedures.sum_plan import SumPlan, check_summed
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.results.people import alike_flags
from dpinfer.schema.columns import Real
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.inference.batch import BatchEstimates, Oracle
    from dpinfer.inference.moments import Estimates
    from dpinfer.inference.released import Released
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import NoiseLaw, Release, StageRelease

Array = NDArray[np.float64]

__all__ = ["MultivariateNormal"]


@dataclass(frozen=True, eq=False)
class MultivariateNormal(Procedure):
    """Means, standard deviations and correlations of jointly normal columns. See `expfam`."""

    procedures = ("multinormal",)

    columns: tuple[str, ...] = ()
    where: str | None = None
    target: str = inferred("population")
    inference: str = inferred("auto")
    replicates: int = inferred(999)
    seed: int = inferred(0)

    def __post_init__(self) -> None:
        check_options(self.inference, self.target, self.replicates, self.seed)
        super().__post_init__()

    def plan(self, schema: Schema) -> SumPlan:
        """Return the sums, compiled against a schema."""
        return SumPlan("multinormal", schema, columns=self.columns, where=self.where, target="data")

    def text(self, schema: Schema) -> str:
        """Return the question in one line."""
        return self.plan(schema).text

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse columns that the schema cannot serve, and truth values."""
        plan = self.plan(schema)
        plan.check()
        for expression in plan.expressions:
            if expression.boolean:
                raise SchemaError(
                    f"the multivariate normal does not suit {expression.text}, which is a truth value: "
                    "declare Real(lower, upper)"
                )

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the sums of columns and of their products."""
        self.check(context.schema, context.neighbors)
        return Stage(Sum(self.plan(context.schema).rows))

    def infer(self, release: Release | None = None) -> DescriptionResults:
        """Infer from a release of this question: free, and without any row."""
        found, theirs = self._asked_of(release)
        plan: SumPlan = theirs.plan(found.schema)  # type: ignore[attr-defined]
        steps = np.asarray(found.steps)
        shift, factor = _units(plan)
        estimated = MomentInference(
            estimates=self._estimates(plan, found.array[None], found.law, steps),
            names=_names(plan),
            shift=shift,
            factor=factor,
            nobs=float(found.array[0]),
            nobs_is_public=found.law.scales[0] == 0,
            method="score" if self.inference == "auto" else self.inference,
            target=self.target,
            law=found.law,
            steps=steps,
            replicates=self.replicates,
            seed=self.seed,
            labels=("",),
            notes=alike_flags(plan.schema, self.target),
        )
        bounds = ", ".join(f"{e.text} to [{e.lower:.6g}, {e.upper:.6g}]" for e in plan.expressions)
        return DescriptionResults(
            estimated,
            found,
            model_name="Private multivariate normal",
            response=", ".join(plan.columns),
            notes=(
                *([f"Rows: {plan.where}."] if plan.where else []),
                f"The statistics are of clamped values ({bounds}), and so is their expectation under the model.",
            ),
            quantity="estimate",
        )

    def estimate(
        self, released: Released, *, alpha: float = 0.05, contrasts: Mapping[str, Mapping[str, float]] | None = None
    ) -> BatchEstimates:
        """Infer from many releases at once; see `Procedure.estimate`."""
        if self.inference == "simulated":
            raise NotProvedError('inference="simulated" has no form for many releases at once; use .infer one by one')
        plan, found = self._of_many(released)
        shift, factor = _units(plan)
        return batch_moments(
            found,
            names=_names(plan),
            shift=shift,
            factor=factor,
            alpha=alpha,
            method=self.inference,
            contrasts=contrasts,
        )

    def oracle(
        self,
        released: Released,
        *,
        alpha: float = 0.05,
        contrasts: Mapping[str, Mapping[str, float]] | None = None,  # noqa: ARG002
    ) -> Oracle:
        """Say how wide an interval would be that knew the population; for studies."""
        plan, found = self._of_many(released)
        oracle = moment_oracle(found, factor=_units(plan)[1], alpha=alpha)
        return replace(oracle, kappa=signal(found, len(self.columns)))

    def _of_many(self, released: Released) -> tuple[SumPlan, Estimates]:
        check_summed(released)
        plan = self.plan(released.schema)
        return plan, self._estimates(plan, released.values, released.law, released.steps)

    def _estimates(self, plan: SumPlan, values: Array, law: NoiseLaw, steps: Array) -> Estimates:
        """Estimate the parameters from R releases (R, m), in scaled units."""
        problem = clamped_problem(Normal(), "u", Schema(u=Real(-1.0, 1.0)))
        sums = plan.moment_sums(values, law, steps)
        return estimate_multinormal(sums, [problem] * len(plan.expressions), population=self.target == "population")


def _names(plan: SumPlan) -> tuple[str, ...]:
    """Names of means, standard deviations and correlations."""
    texts = [expression.text for expression in plan.expressions]
    pairs = [(i, j) for i in range(len(texts)) for j in range(i + 1, len(texts))]
    return (
        *(f"mean({text})" for text in texts),
        *(f"sd({text})" for text in texts),
        *(f"corr({texts[i]}, {texts[j]})" for i, j in pairs),
    )


def _units(plan: SumPlan) -> tuple[Array, Array]:
    """Shift and factor of each parameter, from scaled units to those of the columns."""
    center, half = plan.scaled
    pairs = len(half) * (len(half) - 1) // 2
    shift = np.concatenate([center, np.zeros(len(half) + pairs)])
    return shift, np.concatenate([half, half, np.ones(pairs)])
