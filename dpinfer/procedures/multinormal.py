"""The multivariate normal family."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import NotProvedError, OptionError, SchemaError
from dpinfer.inference.moment_inference import batch_moments, moment_oracle
from dpinfer.inference.multinormal import signal
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.stage import Context, Data, Stage, Sum
from dpinfer.procedures.description import check_options
from dpinfer.procedures.procedure import Procedure
from dpinfer.procedures.sum_plan import SumPlan
from dpinfer.results.multinormal import (
    infer_multinormal,
    multinormal_estimates,
    multinormal_names,
    multinormal_units,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpinfer.inference.batch import BatchEstimates, Oracle
    from dpinfer.inference.moments import Estimates
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.release import Release, StageRelease
    from dpinfer.results.descriptions import DescriptionResults
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["MultivariateNormal"]


@dataclass(frozen=True, eq=False)
class MultivariateNormal(Procedure):
    """Means, standard deviations and correlations of jointly normal columns. See `expfam`."""

    columns: tuple[str, ...] = ()
    where: str | None = None
    target: str = "population"
    inference: str = "auto"
    replicates: int = 999
    seed: int = 0

    def __post_init__(self) -> None:
        check_options(self.inference, self.target, self.replicates, self.seed)
        super().__post_init__()
        if isinstance(self.source, Data):
            self._checked(self.source.schema)

    def _question(self, schema: Schema) -> SumPlan:
        options = {name: getattr(self, name) for name in ("inference", "target", "replicates", "seed")}
        return SumPlan("multinormal", schema, columns=self.columns, where=self.where, target="data", options=options)

    def _checked(self, schema: Schema) -> SumPlan:
        question = self._question(schema)
        question.check()
        for expression in question.expressions:
            if expression.boolean:
                raise SchemaError(
                    f"the multivariate normal does not suit {expression.text}, which is a truth value: "
                    "declare Real(lower, upper)"
                )
        return question

    def release_kind(self, context: Context) -> str:  # noqa: ARG002
        """Return "multinormal"."""
        return "multinormal"

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the sums of columns and of their products."""
        return Stage(Sum(self._checked(context.schema).rows))

    def question(self, context: Context) -> dict[str, Any]:
        """Return what a release stores of the question."""
        return self._checked(context.schema).to_dict()

    def explain(self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None) -> str:
        """Describe the measurement before anything is spent."""
        return self.measurement(privacy, schema=schema, neighbors=neighbors).describe()

    def infer(self, release: Release | None = None) -> DescriptionResults:
        """Infer from a release of this question: free, and without any row."""
        found: DescriptionResults = infer_multinormal(
            self._asked(release, "multinormal", columns=list(self.columns), where=self.where),
            inference=self.inference,
            target=self.target,
            replicates=self.replicates,
            seed=self.seed,
        )
        return found

    def infer_batch(
        self,
        measurement: Measurement,
        values: Array,
        *,
        alpha: float = 0.05,
        contrasts: Mapping[str, Mapping[str, float]] | None = None,
        nobs: int | None = None,  # noqa: ARG002
    ) -> BatchEstimates:
        """Infer from many releases at once (R, m); equal to `infer` one by one."""
        if self.inference == "simulated":
            raise NotProvedError('inference="simulated" has no form for many releases at once; use .infer one by one')
        question, found = self._estimates(measurement, values)
        shift, factor = multinormal_units(question)
        return batch_moments(
            found,
            names=multinormal_names(question),
            shift=shift,
            factor=factor,
            alpha=alpha,
            method=self.inference,
            contrasts=contrasts,
        )

    def oracle(
        self,
        measurement: Measurement,
        sums: Array,
        *,
        alpha: float = 0.05,
        contrasts: Mapping[str, Mapping[str, float]] | None = None,  # noqa: ARG002
        nobs: int | None = None,  # noqa: ARG002
    ) -> Oracle:
        """Say how wide an interval would be that knew the population; for studies."""
        question, found = self._estimates(measurement, sums[None])
        oracle = moment_oracle(found, factor=multinormal_units(question)[1], alpha=alpha)
        return replace(oracle, kappa=signal(found, len(self.columns)))

    def _estimates(self, measurement: Measurement, values: Array) -> tuple[SumPlan, Estimates]:
        if not isinstance(measurement.rows, CellSum):
            raise OptionError("measurement", measurement.kind, "a measurement of this procedure")
        question = self._question(measurement.rows.features.basis.schema)
        found = multinormal_estimates(
            question,
            values,
            law=measurement.law,
            steps=np.asarray(measurement.steps),
            population=self.target == "population",
        )
        return question, found
