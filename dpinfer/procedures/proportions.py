"""Proportions: by counts of levels, and exactly by one Tulap count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.inference.exact_proportion import EXACT_METHODS, batch_exact, exact_oracle
from dpinfer.inference.moment_inference import METHODS, TARGETS
from dpinfer.kernel.stage import Context, Data, Noise, Stage, Sum
from dpinfer.procedures.description import Description
from dpinfer.procedures.descriptions import axes_of
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.procedure import Procedure
from dpinfer.procedures.sum_plan import TABLES, SumPlan
from dpinfer.release.laws import TULAP_GRID
from dpinfer.results.describe import infer_description, infer_proportions
from dpinfer.results.exact import ExactQuestion, infer_exact

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from dpinfer.inference.batch import BatchEstimates, Oracle
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.release import Release, StageRelease
    from dpinfer.results.descriptions import DescriptionResults
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["ExactProportionModel", "Proportion", "proportion"]


@dataclass(frozen=True, eq=False)
class Proportion(Description):
    """Shares of the levels of a column by group. See `proportion`."""

    def _question(self, schema: Schema) -> SumPlan:
        """Ask for the mean of a truth value where people have several rows: its errors are by person."""
        counted = super()._question(schema)
        if schema.rows_per_unit == 1 or self.target == "data" or counted.cells[-1].labels != (False, True):
            return counted
        return replace(counted, kind="mean", columns=(self._truth,), axes=self.axes[:-1])

    @property
    def _truth(self) -> str:
        """The last axis as an expression: a condition, or the name of a column."""
        axis = self.axes[-1]
        name = str(axis.get("column", axis.get("condition")))
        return name if "condition" in axis or name.isidentifier() else f"`{name}`"

    def infer(self, release: Release | None = None) -> DescriptionResults:
        """Infer from a release of this question, or of a table that holds its columns."""
        found = self._release(release)
        if found.kind == "mean":
            axes = [dict(axis) for axis in self.axes[:-1]]
            self._asked(found, "mean", columns=[self._truth], axes=axes, where=self.where, weights=None)
            return infer_description(found, inference=self.inference, target=self.target, **self._drawn)
        if found.kind == "proportion" or found.kind not in TABLES:
            return super().infer(found)
        *by, column = (str(axis.get("column", axis.get("condition"))) for axis in self.axes)
        return infer_proportions(
            found,
            column,
            by,
            inference=self.inference,
            target=self.target,
            **self._drawn,
        )

    @property
    def _drawn(self) -> dict[str, int]:
        return {"replicates": self.replicates, "seed": self.seed}


@dataclass(frozen=True, eq=False)
class ExactProportionModel(Procedure):
    """One proportion with an exact interval. See `proportion` with ``inference="exact"``."""

    column: str = ""
    target: str = "population"
    inference: str = "exact"

    def __post_init__(self) -> None:
        if self.target not in TARGETS:
            raise OptionError("target", self.target, TARGETS)
        if self.target == "data":
            raise NotProvedError('an exact interval is about a population; for target="data" use inference="score"')
        super().__post_init__()
        if isinstance(self.source, Data):
            self._question(self.source.schema, self.source.neighbors).check()

    def _question(self, schema: Schema, neighbors: Neighbors) -> ExactQuestion:
        if schema.people is not None:
            raise NotProvedError(
                'inference="exact" needs a public number of rows; with id= it is confidential under either relation: '
                'use inference="score"'
            )
        if neighbors != "replace_one":
            raise NotProvedError(
                'inference="exact" needs a public number of rows, that is neighbors="replace_one"; '
                'under add_remove use inference="simulated" or "score"'
            )
        return ExactQuestion(schema, self.column)

    def release_kind(self, context: Context) -> str:  # noqa: ARG002
        """Return "binomial"."""
        return "binomial"

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for one count, with noise whose law allows exact inference."""
        asked = self._question(context.schema, context.neighbors)
        asked.check()
        return Stage(Sum(asked.rows), Noise(tulap=True))

    def question(self, context: Context) -> dict[str, Any]:
        """Return what a release stores of the question."""
        return self._question(context.schema, context.neighbors).to_dict()

    def explain(self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None) -> str:
        """Describe the measurement before anything is spent."""
        return self.measurement(privacy, schema=schema, neighbors=neighbors).describe()

    def infer(self, release: Release | None = None) -> DescriptionResults:
        """Infer from a release of this question: free, and without any row."""
        found: DescriptionResults = infer_exact(
            self._asked(release, "binomial", column=self.column), inference=self.inference
        )
        return found

    def infer_batch(
        self,
        measurement: Measurement,
        values: Array,
        *,
        alpha: float = 0.05,
        contrasts: Mapping[str, Mapping[str, float]] | None = None,
        nobs: int | None = None,
    ) -> BatchEstimates:
        """Infer from many releases at once; equal to `infer` one by one. ``nobs`` is the public number of rows."""
        if contrasts or nobs is None:
            raise OptionError("contrasts", contrasts, "none, with nobs= the public number of rows")
        scale = measurement.law.scales[0] / TULAP_GRID
        return batch_exact(
            values[:, 0], size=nobs, noise_scale=scale, names=(self.column,), alpha=alpha, method=self.inference
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
        scale = measurement.law.scales[0] / TULAP_GRID
        return exact_oracle(float(sums[0]), size=nobs or 0, noise_scale=scale, alpha=alpha)


@suggests
def proportion(
    column: str,
    data: Data | Release | None = None,
    *,
    by: str | Sequence[str] = (),
    where: str | None = None,
    weights: str | None = None,
    target: str = "population",
    inference: str = "auto",
    replicates: int = 999,
    seed: int = 0,
) -> Description | ExactProportionModel:
    """Shares of the levels of a column, by group.

    Parameters
    ----------
    column : str
        A Boolean or a condition such as ``"income > 50000"`` (its share of truth), or a Category or short Integer (the
        share of every level).
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a release of this question, or of a table that holds the columns, which costs nothing more.
    by, where
        As in `mean`.
    weights : str, optional
        As in `mean`; for a Boolean or a condition.
    target : {"population", "data"}
        As in `mean`.
    inference : {"auto", "score", "wald", "simulated", "exact"}
        "auto" is "score": Wilson's interval with the noise counted. "exact" releases one count with Tulap noise
        (discrete Laplace noise and a uniform fraction) and inverts its exact distribution: it needs a `PureDP` price,
        replace_one, no groups, and declared constants for missing and impossible cells, so that every row is a
        success or not.
    replicates, seed : int
        For ``inference="simulated"``.

    Returns
    -------
    Description or ExactProportionModel

    Raises
    ------
    NotProvedError
        If an exact interval is asked for where it is not proved.
    FormulaError, UnknownColumnError, SchemaError, OptionError
        As `mean`.

    References
    ----------
    Awan & Slavkovic (2018), Differentially private uniformly most powerful tests for binomial data.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(smokes=dpi.Boolean(missing=False, impossible=False))
    >>> rng = np.random.default_rng(1)
    >>> data = dpi.PublicData(pd.DataFrame({"smokes": rng.random(100) < 0.2}), schema, rng=rng, neighbors="replace_one")
    >>> results = dpi.proportion("smokes", data, inference="exact").fit(dpi.PureDP(1.0))
    >>> bool(0 < results.conf_int()[0].iloc[0] < 0.2 < results.conf_int()[1].iloc[0])
    True
    """
    if not isinstance(column, str):
        raise OptionError("column", column, 'a column, or a condition such as "age >= 18"')
    if inference in EXACT_METHODS[:1]:
        given = {"by": by or None, "where": where, "weights": weights}
        for name, value in given.items():
            if value is not None:
                raise NotProvedError(f'{name}= has no exact interval; use inference="score" or "simulated"')
        return ExactProportionModel(source=data, column=column, target=target)
    if inference not in METHODS:
        raise OptionError("inference", inference, (*METHODS, "exact"))
    options: dict[str, Any] = {
        "source": data,
        "where": where,
        "target": target,
        "inference": inference,
        "replicates": replicates,
        "seed": seed,
    }
    if weights is not None:
        return Description(kind="mean", columns=(column,), axes=axes_of(by), weights=weights, **options)
    return Proportion(kind="proportion", axes=(*axes_of(by), *axes_of(column)), **options)
