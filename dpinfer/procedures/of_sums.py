"""Questions that are answered from sums in the cells of a table."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpinfer.inference.moment_inference import batch_moments, moment_oracle
from dpinfer.kernel.stage import Context, Stage, Sum
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.described import describe
from dpinfer.procedures.estimated import Estimated
from dpinfer.procedures.joint_table import MeasuredCounts, counts_in
from dpinfer.procedures.options import Contrasts, refuse_simulated
from dpinfer.procedures.procedure import Procedure
from dpinfer.procedures.sum_plan import TABLES, check_summed
from dpinfer.release import Release

if TYPE_CHECKING:
    from dpinfer.inference.batch import BatchEstimates, Oracle
    from dpinfer.inference.moments import Estimates
    from dpinfer.inference.released import Released
    from dpinfer.privacy.units import Neighbors
    from dpinfer.procedures.described import Described
    from dpinfer.procedures.sum_plan import SumPlan
    from dpinfer.release import StageRelease
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array

__all__ = ["OfCounts", "OfMoments", "OfSums"]


@dataclass(frozen=True, eq=False)
class OfSums(Procedure):
    """A question about sums, or counts, in the cells of a table."""

    @abstractmethod
    def plan(self, schema: Schema) -> SumPlan:
        """Return the sums, compiled against a schema."""

    def text(self, schema: Schema) -> str:
        """Return the question in one line."""
        return self.plan(schema).text

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse columns, groups and conditions that the schema cannot serve."""
        self.plan(schema).check()

    def release_kind(self, context: Context) -> str:
        """Return the kind of the sums that are measured."""
        return self.plan(context.schema).kind

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for sums, or counts, in the cells of a table."""
        self.check(context.schema, context.neighbors)
        plan = self.plan(context.schema)
        weights = plan.noise_weights(pure=isinstance(context.privacy, PureDP))
        return Stage(Sum(plan.rows, weights=tuple(weights)))

    @property
    def described(self) -> Procedure:
        """The question whose estimates the sums give."""
        return self

    def reads(self, other: Procedure) -> bool:
        """Return whether a release serves: one that holds sums which do."""
        held = other.summed()
        return held is not None and self.reads_sums(held)

    def reads_sums(self, held: SumPlan) -> bool:
        """Return whether sums serve: by default those of the same question."""
        return bool(held.asked == self.plan(held.schema).asked)

    def summed(self) -> SumPlan | None:
        """Return the sums that its release holds."""
        return self.plan(self.source.schema) if isinstance(self.source, Release) else None

    def counted(self) -> MeasuredCounts | None:
        """Return the counts that its release holds."""
        held = self.summed()
        return None if held is None else counts_in(held)

    def _release_and_sums(self, release: Release | None) -> tuple[Release, SumPlan]:
        """Return the release to infer from, and the sums that it holds; errors as `infer`."""
        found, theirs = self._asked_of(release)
        plan = theirs.summed()
        assert plan is not None  # `reads` refuses other releases
        return found, plan


class OfCounts(OfSums):
    """A question about the counts of a table, which any table or marginals of the same rows answer."""

    where: str | None

    def reads_sums(self, held: SumPlan) -> bool:
        """Return whether sums serve: those of any table of counts of the same rows."""
        return held.kind in TABLES and held.where == self.where

    def reads(self, other: Procedure) -> bool:
        """Return whether a release serves: a table of counts, or marginals, of the same rows."""
        tables = other.marginal_tables()
        return super().reads(other) if tables is None else tables.plan.where == self.where


@dataclass(frozen=True, eq=False)
class OfMoments(OfSums, Estimated):
    """A question whose estimates are functions of moments in the cells of a table."""

    def estimate(self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None) -> BatchEstimates:
        """Infer from many releases at once; see `Procedure.estimate`."""
        refuse_simulated(self.inference)
        estimates, described = self._describe(released)
        return batch_moments(
            estimates,
            names=described.names,
            shift=described.shift,
            factor=described.factor,
            alpha=alpha,
            method=self.inference,
            contrasts=contrasts,
        )

    def oracle(
        self,
        released: Released,
        *,
        sampling: Array,
        alpha: float = 0.05,
        contrasts: Contrasts = None,  # noqa: ARG002
    ) -> Oracle:
        """Say how wide an interval would be that knew the population; see `OLS.oracle`."""
        estimates, described = self._describe(released)
        return moment_oracle(estimates, sampling=sampling, factor=described.factor, alpha=alpha)

    def _describe(self, released: Released) -> tuple[Estimates, Described]:
        check_summed(released)
        return describe(self.plan(released.schema), released, target=self.target)
