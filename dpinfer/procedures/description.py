"""The procedure behind means, totals, variances, covariances, correlations, shares and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.inference.released import Released
from dpinfer.kernel.plan import sample_batch
from dpinfer.kernel.stage import Context, Noise, Stage
from dpinfer.procedures.conditions import quoted
from dpinfer.procedures.described import MOST_ESTIMATES, describe
from dpinfer.procedures.explanation import sizes_shown
from dpinfer.procedures.infer_sums import infer_sums
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.of_sums import OfMoments
from dpinfer.procedures.options import measured, whole
from dpinfer.procedures.sum_plan import MOMENTS, TABLES, SumPlan
from dpinfer.procedures.table_axes import axis_name, column_texts
from dpinfer.release.laws import MOST_DRAWS

if TYPE_CHECKING:
    import os

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Privacy
    from dpinfer.procedures.joint_table import MeasuredMarginals
    from dpinfer.procedures.procedure import Procedure
    from dpinfer.release import Release, StageRelease
    from dpinfer.results.descriptions import DescriptionResults, TableResults
    from dpinfer.schema.schema import Schema

__all__ = ["Description", "Proportion"]

_SAMPLE = 4096
"""Rows that the noise to be expected is computed for."""

Kind = Literal["mean", "total", "variance", "cov", "corr", "count", "table", "histogram", "proportion"]


@dataclass(frozen=True, eq=False)
class Description(OfMoments):
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
    draws: int = measured(1, whole(1, MOST_DRAWS, f"a whole number from 1 to {MOST_DRAWS}"))

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

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for sums, or counts, in the cells of a table."""
        return replace(super().stage(place, context, released), noise=Noise(draws=self.draws))

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, and the standard error that noise alone would give, before anything is spent.

        Returns
        -------
        str
            What is measured, its bound, noise and guarantee; and the standard error of each estimate in one group from
            privacy noise alone, if the rows were spread evenly over the declared bounds.
        """
        context = measured.context
        plan = self.plan(context.schema)
        lines = [
            measured.describe(),
            "standard error from privacy noise alone, if rows were spread evenly over bounds and groups:",
        ]
        sums = measured.rows.add(sample_batch(context.schema, _SAMPLE)) / measured.rows.units
        for rows in sizes_shown(context.nobs):
            estimates, described = describe(
                plan,
                Released.of_study(measured, sums * rows / _SAMPLE),
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
    def fit(
        self, privacy: Privacy, *, save: str | os.PathLike[str] | None = None, reuse: bool = False
    ) -> DescriptionResults:
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
        found: DescriptionResults = super().fit(privacy, save=save, reuse=reuse)
        return found

    # Inference

    def reads_sums(self, held: SumPlan) -> bool:
        """Return whether sums serve: to counts and shares any table of the same rows, else the same sums."""
        if self.kind in ("count", "table", "proportion") and held.kind in TABLES:
            return held.where == self.where
        return super().reads_sums(held)

    def reads(self, other: Procedure) -> bool:
        """Return whether a release serves: to counts and shares marginals of the same rows, too."""
        tables = other.marginal_tables()
        if tables is None:
            return super().reads(other)
        return self.kind in ("count", "table", "proportion") and tables.plan.where == self.where

    def infer(self, release: Release | None = None) -> DescriptionResults:
        """Infer from a release of this question, or counts and shares from a table or marginals that hold them.

        Raises
        ------
        InferenceError, MissingFromReleaseError
            If the release was made for another question.
        """
        tables = self._asked_of(release)[1].marginal_tables()
        if tables is not None:
            return self._of_marginals(tables)
        found, held = self._release_and_sums(release)
        if held.kind in MOMENTS:
            return infer_sums(found, held, **self._inference_options)
        return infer_sums(
            found,
            replace(held, kind=self.kind),
            columns=[axis_name(axis) for axis in self.axes],
            table=Description(found, kind="table", axes=held.axes, where=held.where, **self._inference_options),
            **self._inference_options,
        )

    def _of_marginals(self, tables: MeasuredMarginals) -> DescriptionResults:
        tables.check()
        names = tuple(axis_name(axis) for axis in self.axes)
        options = {"inference": self.inference, "target": self.target}
        if self.kind == "proportion":
            return tables.proportions(names[-1], names[:-1], **options)
        return tables.margin(names, **options)

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
        return name if "condition" in axis else quoted(name)

    def reads_sums(self, held: SumPlan) -> bool:
        """Return whether sums serve: a table, or for the share of truth its mean."""
        mean = Description(kind="mean", columns=(self._truth,), axes=self.axes[:-1], where=self.where)
        return held.where == self.where if held.kind in TABLES else mean.reads_sums(held)
