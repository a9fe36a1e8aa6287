"""The procedure behind means, totals, variances, covariances, correlations, shares and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.inference.moment_inference import METHODS, TARGETS, batch_moments, moment_oracle
from dpinfer.kernel.rehearsal import sample_batch
from dpinfer.kernel.stage import Context, Noise, Stage, Sum
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.described import describe
from dpinfer.procedures.infer_sums import infer_sums
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.procedure import Procedure, inferred
from dpinfer.procedures.sum_plan import MOMENTS, TABLES, SumPlan, check_summed
from dpinfer.procedures.table_axes import axis_name, column_texts
from dpinfer.release import Release
from dpinfer.release.codec import encode
from dpinfer.release.laws import MOST_DRAWS

if TYPE_CHECKING:
    from dpinfer.inference.batch import BatchEstimates, Oracle
    from dpinfer.inference.moments import Estimates
    from dpinfer.inference.released import Released
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.procedures.described import Described
    from dpinfer.release import StageRelease
    from dpinfer.results.descriptions import DescriptionResults, TableResults
    from dpinfer.schema.schema import Schema

__all__ = ["MOST_ESTIMATES", "Description", "Proportion", "check_options", "held_plan"]

_SAMPLE = 4096
"""Rows that the noise to be expected is computed for."""

MOST_ESTIMATES = 4000
"""Estimates that results may hold with all their covariances."""

Kind = Literal["mean", "total", "variance", "cov", "corr", "count", "table", "histogram", "proportion"]


@dataclass(frozen=True, eq=False)
class Description(Procedure):
    """A question about sums or counts in the cells of a table. See `mean`, `table` and their like.

    The target says what is inferred, and also whether the sums for sampling errors are measured: a release for the
    population serves the data too.
    """

    procedures: ClassVar[tuple[str, ...]] = ("mean", "total", "variance", "cov", "corr", "count", "table", "histogram")

    kind: Kind = "mean"
    columns: tuple[str, ...] = ()
    axes: tuple[Mapping[str, Any], ...] = ()
    where: str | None = None
    weights: str | None = None
    draws: int = 1
    target: str = inferred("population")
    inference: str = inferred("auto")
    replicates: int = inferred(999)
    seed: int = inferred(0)

    def __post_init__(self) -> None:
        check_options(self.inference, self.target, self.replicates, self.seed)
        if type(self.draws) is not int or not 1 <= self.draws <= MOST_DRAWS:
            raise OptionError("draws", self.draws, f"a whole number from 1 to {MOST_DRAWS}")
        super().__post_init__()

    @property
    def procedure(self) -> str:
        """Name under which a release of this question knows the class."""
        return self.kind

    def plan(self, schema: Schema) -> SumPlan:
        """Return the sums, compiled against a schema."""
        return SumPlan(
            self.kind,
            schema,
            columns=self.columns,
            axes=self.axes,
            where=self.where,
            weights=self.weights,
            target=self.target,
        )

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
        plan = self.plan(context.schema)
        plan.check()
        weights = plan.noise_weights(pure=isinstance(context.privacy, PureDP))
        return Stage(Sum(plan.rows, weights=tuple(weights)), Noise(draws=self.draws))

    def explain(self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None) -> str:
        """Describe the measurement, and the standard error that noise alone would give, before anything is spent.

        Returns
        -------
        str
            What is measured, its bound, noise and guarantee; and the standard error of each estimate in one group from
            privacy noise alone, if the rows were spread evenly over the declared bounds.
        """
        measured = self.measurement(privacy, schema=schema, neighbors=neighbors)
        context = measured.context
        nobs, plan = context.nobs, self.plan(context.schema)
        sizes = (nobs,) if nobs is not None else (1_000, 10_000, 100_000)
        lines = [
            measured.describe(),
            "standard error from privacy noise alone, if rows were spread evenly over bounds and groups:",
        ]
        sums = measured.rows.add(sample_batch(context.schema, _SAMPLE)) / measured.rows.units
        for rows in sizes:
            estimates, described = describe(
                plan,
                sums * rows / _SAMPLE,
                law=measured.law,
                steps=np.asarray(measured.steps),
                nobs=nobs,
                target="data",
            )
            noise = np.sqrt(np.diagonal(estimates.noise[0], axis1=-2, axis2=-1)) * described.factor
            shown = ", ".join(
                f"{name} {value:.4g}"
                for name, value in zip(described.quantities, np.median(noise, axis=0), strict=True)
            )
            lines.append(f"  n = {rows:,}: {shown}" + (" (in the median group)" if measured.rows.size > 1 else ""))
        return "\n".join(lines)

    @suggests
    def fit(self, privacy: Privacy) -> DescriptionResults:
        """Measure and infer; see `Procedure.fit`.

        Raises
        ------
        OptionError
            If the table has too many cells for results that hold all covariances; nothing is then measured.
        """
        cells = self.plan(self._data().schema).rows.size * max(len(self.columns), 1)
        if cells > MOST_ESTIMATES:
            raise OptionError(
                "by",
                f"{cells:,} cells",
                f"at most {MOST_ESTIMATES:,} for .fit(); .measure(privacy) releases more at once",
            )
        found: DescriptionResults = super().fit(privacy)
        return found

    # Inference

    def reads(self, other: Procedure) -> bool:
        """Return whether a release serves: to counts and shares any table of the same rows, else the same sums."""
        held = held_plan(other)
        if held is None:
            return super().reads(other)
        if self.kind in ("count", "table", "proportion") and held.kind in TABLES:
            return held.where == self.where
        asked = (self.kind, self.columns, self.axes, self.where, self.weights)
        return bool(encode(asked) == encode((held.kind, held.columns, held.axes, held.where, held.weights)))

    def infer(self, release: Release | None = None) -> DescriptionResults:
        """Infer from a release of this question, or counts and shares from a table that holds them.

        Raises
        ------
        InferenceError, MissingFromReleaseError
            If the release was made for another question.
        """
        found, theirs = self._asked_of(release)
        measured: SumPlan = theirs.plan(found.schema)  # type: ignore[attr-defined]
        options = {name: getattr(self, name) for name in ("target", "inference", "replicates", "seed")}
        if measured.kind in MOMENTS:
            return infer_sums(found, measured, **options)
        return infer_sums(
            found,
            replace(measured, kind=self.kind),
            columns=[axis_name(axis) for axis in self.axes],
            table=Description(found, kind="table", axes=measured.axes, where=measured.where, **options),
            **options,
        )

    def margin(self, columns: Sequence[str], *, inference: str, target: str) -> TableResults:
        """Infer the counts of some columns of the table that it is bound to, summed over the others."""
        axes = tuple({"column": column} for column in (columns and column_texts("columns", columns)))
        found: TableResults = replace(self, axes=axes, inference=inference, target=target).infer()
        return found

    def proportions(self, column: str, by: Sequence[str], *, inference: str) -> DescriptionResults:
        """Infer the shares of the levels of a column of the table that it is bound to, in groups of others."""
        groups = column_texts("by", by) if not isinstance(by, Sequence) or by else ()
        axes = tuple({"column": name} for name in (*groups, *column_texts("column", (column,))))
        return Proportion(self.source, axes=axes, where=self.where, inference=inference).infer()

    def estimate(
        self, released: Released, *, alpha: float = 0.05, contrasts: Mapping[str, Mapping[str, float]] | None = None
    ) -> BatchEstimates:
        """Infer from many releases at once; see `Procedure.estimate`."""
        if self.inference == "simulated":
            raise NotProvedError('inference="simulated" has no form for many releases at once; use .infer one by one')
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
        alpha: float = 0.05,
        contrasts: Mapping[str, Mapping[str, float]] | None = None,  # noqa: ARG002
    ) -> Oracle:
        """Say how wide an interval would be that knew the population; for studies."""
        estimates, described = self._describe(released)
        return moment_oracle(estimates, factor=described.factor, alpha=alpha)

    def _describe(self, released: Released) -> tuple[Estimates, Described]:
        check_summed(released)
        return describe(
            self.plan(released.schema),
            released.values,
            law=released.law,
            steps=released.steps,
            nobs=released.nobs,
            target=self.target,
        )


@dataclass(frozen=True, eq=False)
class Proportion(Description):
    """Shares of the levels of a column by group. See `proportion`."""

    procedures: ClassVar[tuple[str, ...]] = ("proportion",)

    kind: Kind = "proportion"

    def plan(self, schema: Schema) -> SumPlan:
        """Ask for the mean of a truth value where people have several rows: its errors are by person."""
        counted = super().plan(schema)
        if schema.rows_per_unit == 1 or self.target == "data" or counted.cells[-1].labels != (False, True):
            return counted
        return replace(counted, kind="mean", columns=(self._truth,), axes=self.axes[:-1])

    @property
    def _truth(self) -> str:
        """The last axis as an expression: a condition, or the name of a column."""
        axis = self.axes[-1]
        name = axis_name(axis)
        return name if "condition" in axis or name.isidentifier() else f"`{name}`"

    def reads(self, other: Procedure) -> bool:
        """Return whether a release serves: a table, or for the share of truth its mean."""
        mean = Description(kind="mean", columns=(self._truth,), axes=self.axes[:-1], where=self.where)
        return super().reads(other) or mean.reads(other)


def held_plan(asked: Procedure) -> SumPlan | None:
    """Return the sums that a question's release holds; None if it is bound to none, or holds others."""
    compiled = getattr(asked, "plan", None)
    found = compiled(asked.source.schema) if compiled and isinstance(asked.source, Release) else None
    return found if isinstance(found, SumPlan) else None


def check_options(inference: str, target: str, replicates: int, seed: int) -> None:
    """Refuse options of inference that have no such value.

    Raises
    ------
    OptionError
    """
    if inference not in METHODS:
        raise OptionError("inference", inference, METHODS)
    if target not in TARGETS:
        raise OptionError("target", target, TARGETS)
    if not (isinstance(replicates, int) and replicates >= 99):
        raise OptionError("replicates", replicates, "a whole number of at least 99")
    if not (isinstance(seed, int) and seed >= 0):
        raise OptionError("seed", seed, "a whole number, not negative: it is public and draws no privacy noise")
