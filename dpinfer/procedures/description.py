"""The procedure behind means, totals, variances, covariances, correlations, shares and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.inference.moment_inference import METHODS, TARGETS, batch_moments, moment_oracle
from dpinfer.kernel.rehearsal import sample_batch
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.stage import Context, Data, Noise, Stage, Sum
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.procedure import Procedure
from dpinfer.procedures.sum_plan import TABLES, SumPlan
from dpinfer.release.laws import MOST_DRAWS
from dpinfer.results.describe import describe, infer_description, infer_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.inference.batch import BatchEstimates, Oracle
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.release import Release, StageRelease
    from dpinfer.results.descriptions import DescriptionResults
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["MOST_ESTIMATES", "Description", "check_options"]

_SAMPLE = 4096
"""Rows that the noise to be expected is computed for."""

MOST_ESTIMATES = 4000
"""Estimates that results may hold with all their covariances."""


@dataclass(frozen=True, eq=False)
class Description(Procedure):
    """A question about sums or counts in the cells of a table. See `mean`, `table` and their like."""

    kind: str = "mean"
    columns: tuple[str, ...] = ()
    axes: tuple[Mapping[str, Any], ...] = field(default=())
    where: str | None = None
    weights: str | None = None
    target: str = "population"
    inference: str = "auto"
    replicates: int = 999
    seed: int = 0
    draws: int = 1

    def __post_init__(self) -> None:
        check_options(self.inference, self.target, self.replicates, self.seed)
        if type(self.draws) is not int or not 1 <= self.draws <= MOST_DRAWS:
            raise OptionError("draws", self.draws, f"a whole number from 1 to {MOST_DRAWS}")
        super().__post_init__()
        if isinstance(self.source, Data):
            self._question(self.source.schema).check()

    def _question(self, schema: Schema) -> SumPlan:
        options = {name: getattr(self, name) for name in ("inference", "replicates", "seed")}
        return SumPlan(
            self.kind,
            schema,
            columns=self.columns,
            axes=self.axes,
            where=self.where,
            weights=self.weights,
            target=self.target,
            options=options,
        )

    def release_kind(self, context: Context) -> str:
        """Return what is measured."""
        return self._question(context.schema).kind

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for sums, or counts, in the cells of a table."""
        asked = self._question(context.schema)
        asked.check()
        weights = asked.noise_weights(pure=isinstance(context.privacy, PureDP))
        return Stage(Sum(asked.rows, weights=tuple(weights)), Noise(draws=self.draws))

    def question(self, context: Context) -> dict[str, Any]:
        """Return what a release stores of the question."""
        return self._question(context.schema).to_dict()

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
        nobs, question = context.nobs, self._question(context.schema)
        sizes = (nobs,) if nobs is not None else (1_000, 10_000, 100_000)
        lines = [
            measured.describe(),
            "standard error from privacy noise alone, if rows were spread evenly over bounds and groups:",
        ]
        sums = measured.rows.add(sample_batch(context.schema, _SAMPLE)) / measured.rows.units
        for rows in sizes:
            estimates, described = describe(
                question,
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
        cells = self._question(self._data().schema).rows.size * max(len(self.columns), 1)
        if cells > MOST_ESTIMATES:
            raise OptionError(
                "by",
                f"{cells:,} cells",
                f"at most {MOST_ESTIMATES:,} for .fit(); .measure(privacy) releases more at once",
            )
        found: DescriptionResults = super().fit(privacy)
        return found

    def infer(self, release: Release | None = None) -> DescriptionResults:
        """Infer from a release of this question, or counts from a table that holds them: free, and without any row.

        Raises
        ------
        InferenceError, MissingFromReleaseError
            If the release was made for another question.
        """
        found = self._release(release)
        if self.kind in ("count", "table") and found.kind in TABLES and found.question.get("where") == self.where:
            names = [str(axis.get("column", axis.get("condition"))) for axis in self.axes]
            return infer_table(found, names, inference=self.inference, target=self.target)
        asked = {"columns": list(self.columns), "axes": [dict(axis) for axis in self.axes]}
        self._asked(found, self.kind, **asked, where=self.where, weights=self.weights)
        return infer_description(
            found,
            inference=self.inference,
            target=self.target,
            replicates=self.replicates,
            seed=self.seed,
        )

    def infer_batch(
        self,
        measurement: Measurement,
        values: Array,
        *,
        alpha: float = 0.05,
        contrasts: Mapping[str, Mapping[str, float]] | None = None,
        nobs: int | None = None,
    ) -> BatchEstimates:
        """Infer from many releases at once; equal to `infer` one by one.

        Parameters
        ----------
        measurement : Measurement
        values : ndarray (R, m)
            Noisy sums of every release, in units of the scaled features.
        alpha : float
        contrasts : mapping, optional
            Not offered: groups and columns are studied one by one.
        nobs : int, optional
            The number of rows of each, where it is public.

        Raises
        ------
        NotProvedError
            For ``inference="simulated"``, which draws releases of its own for each.
        """
        if self.inference == "simulated":
            raise NotProvedError('inference="simulated" has no form for many releases at once; use .infer one by one')
        estimates, described = describe(
            self._measured(measurement),
            values,
            law=measurement.law,
            steps=np.asarray(measurement.steps),
            nobs=nobs,
            target=self.target,
        )
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
        measurement: Measurement,
        sums: Array,
        *,
        alpha: float = 0.05,
        contrasts: Mapping[str, Mapping[str, float]] | None = None,  # noqa: ARG002
        nobs: int | None = None,
    ) -> Oracle:
        """Say how wide an interval would be that knew the population; for studies."""
        estimates, described = describe(
            self._measured(measurement),
            sums[None],
            law=measurement.law,
            steps=np.asarray(measurement.steps),
            nobs=nobs,
            target=self.target,
        )
        return moment_oracle(estimates, factor=described.factor, alpha=alpha)

    def _measured(self, measurement: Measurement) -> SumPlan:
        if not isinstance(measurement.rows, CellSum):
            raise OptionError("measurement", measurement.kind, "a measurement of this procedure")
        return self._question(measurement.rows.features.basis.schema)


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
