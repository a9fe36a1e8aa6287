"""The procedure behind means, totals, variances, covariances, correlations, shares and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.inference.moment_inference import METHODS, TARGETS, batch_moments, moment_oracle
from dpinfer.mechanisms import Data
from dpinfer.models.cell_sums import sums_measurement
from dpinfer.models.keywords import suggests
from dpinfer.models.procedure import Procedure
from dpinfer.privacy.units import PureDP
from dpinfer.release.laws import MOST_DRAWS
from dpinfer.results.describe import describe, infer_description, infer_table
from dpinfer.results.sums_question import TABLES, SumsQuestion
from dpinfer.schema.cell_rows import CellRows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpinfer.inference.batch import BatchEstimates, Oracle
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.release import Measurement, Release
    from dpinfer.results.descriptions import DescriptionResults
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["MOST_ESTIMATES", "Description", "check_options"]

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

    def _question(self, schema: Schema) -> SumsQuestion:
        options = {name: getattr(self, name) for name in ("inference", "replicates", "seed")}
        return SumsQuestion(
            self.kind,
            schema,
            columns=self.columns,
            axes=self.axes,
            where=self.where,
            weights=self.weights,
            target=self.target,
            options=options,
        )

    def measurement(
        self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None
    ) -> Measurement:
        """Say what would be measured at a price; see `Procedure.measurement`."""
        schema, neighbors, _ = self._context(privacy, schema, neighbors)
        question = self._question(schema)
        question.check()
        return sums_measurement(
            question.rows,
            kind=question.kind,
            privacy=privacy,
            neighbors=neighbors,
            question=question.to_dict(),
            weights=question.noise_weights(pure=isinstance(privacy, PureDP)),
            draws=self.draws,
        )

    def explain(self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None) -> str:
        """Describe the measurement, and the standard error that noise alone would give, before anything is spent.

        Returns
        -------
        str
            What is measured, its bound, noise and guarantee; and the standard error of each estimate in one group from
            privacy noise alone, if the rows were spread evenly over the declared bounds.
        """
        schema, neighbors, nobs = self._context(privacy, schema, neighbors)
        measured = self.measurement(privacy, schema=schema, neighbors=neighbors)
        question = self._question(schema)
        sizes = (nobs,) if nobs is not None else (1_000, 10_000, 100_000)
        sample = schema.sample(4096, np.random.default_rng(0))
        drawn = {name: sample[name].to_numpy() for name in measured.rows.columns}
        assert isinstance(measured.rows, CellRows)
        cells, encoded = measured.rows.encode(drawn, len(sample))
        lines = [
            measured.describe(),
            "standard error from privacy noise alone, if rows were spread evenly over bounds and groups:",
        ]
        size, unit = measured.rows.size, measured.rows.unit
        features = np.ones((1, len(sample))) if encoded is None else encoded / unit
        sums = np.stack([np.bincount(cells, feature, minlength=size + 1)[:size] for feature in features], axis=1)
        for rows in sizes:
            estimates, described = describe(
                question,
                sums.reshape(1, -1) * rows / len(sample),
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
            lines.append(f"  n = {rows:,}: {shown}" + (" (in the median group)" if size > 1 else ""))
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

    def _measured(self, measurement: Measurement) -> SumsQuestion:
        if not isinstance(measurement.rows, CellRows):
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
