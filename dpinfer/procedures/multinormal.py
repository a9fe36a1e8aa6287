"""The multivariate normal family."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpinfer.errors import SchemaError
from dpinfer.inference.expfam import clamped_problem
from dpinfer.inference.families.continuous import Normal
from dpinfer.inference.multinormal import estimate_multinormal, signal
from dpinfer.procedures.cell_sums import Described, MomentsQuestion, SumPlan, check_summed, infer_sums
from dpinfer.schema.columns import Real
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    from dpinfer.inference.batch import Oracle
    from dpinfer.inference.moments import Estimates
    from dpinfer.inference.released import Released
    from dpinfer.numerics.arrays import Array
    from dpinfer.privacy.units import Neighbors
    from dpinfer.procedures.options import Contrasts
    from dpinfer.release import Release
    from dpinfer.results.descriptions import DescriptionResults

__all__ = ["MultivariateNormal"]


@dataclass(frozen=True, eq=False)
class MultivariateNormal(MomentsQuestion):
    """Means, standard deviations and correlations of jointly normal columns. See `expfam`."""

    procedures = ("multinormal",)

    columns: tuple[str, ...] = ()
    where: str | None = None

    def plan(self, schema: Schema) -> SumPlan:
        """Return the sums, compiled against a schema."""
        return SumPlan("multinormal", schema, columns=self.columns, where=self.where, target="data")

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse columns that the schema cannot serve, and truth values."""
        super().check(schema, neighbors)
        for expression in self.plan(schema).expressions:
            if expression.boolean:
                raise SchemaError(
                    f"the multivariate normal does not suit {expression.text}, which is a truth value: "
                    "declare Real(lower, upper)"
                )

    def infer(self, release: Release | None = None) -> DescriptionResults:
        """Infer from a release of this question: free, and without any row."""
        found, held = self._release_and_sums(release)
        return infer_sums(found, held, estimated=self._describe, **self._inference_options)

    def oracle(
        self,
        released: Released,
        *,
        sampling: Array,
        alpha: float = 0.05,
        contrasts: Contrasts = None,
    ) -> Oracle:
        """Say how wide an interval would be that knew the population; see `OLS.oracle`."""
        estimates, _ = self._describe(released)
        found = super().oracle(released, sampling=sampling, alpha=alpha, contrasts=contrasts)
        return replace(found, kappa=signal(estimates, len(self.columns)))

    def _describe(self, released: Released) -> tuple[Estimates, Described]:
        check_summed(released)
        plan = self.plan(released.schema)
        sums = plan.moment_sums(released.values, released.law, released.steps)
        problems = [clamped_problem(Normal(), "u", Schema(u=Real(-1.0, 1.0)))] * sums.columns
        found = estimate_multinormal(sums, problems, population=self.target == "population")
        return found, Described(plan, plan.quantities, ())
