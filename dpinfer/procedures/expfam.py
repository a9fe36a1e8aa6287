"""Exponential families by clamped sufficient statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.inference.expfam_batch import batch_family, family_oracle
from dpinfer.inference.families import ExponentialFamily, as_family
from dpinfer.inference.families.continuous import Normal
from dpinfer.kernel.stage import Context, Data, Stage, Sum
from dpinfer.procedures.description import check_options
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.multinormal import MultivariateNormal
from dpinfer.procedures.procedure import Procedure
from dpinfer.procedures.proportions import Proportion, proportion
from dpinfer.results.families import FamilyQuestion, infer_family

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpinfer.inference.batch import BatchEstimates, Oracle
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.release import Release, StageRelease
    from dpinfer.results.families import FamilyResults
    from dpinfer.schema.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["ExpFam", "expfam"]


@dataclass(frozen=True, eq=False)
class ExpFam(Procedure):
    """Parameters of an exponential family of one column. See `expfam`."""

    column: str = ""
    family: ExponentialFamily = field(default_factory=Normal)
    where: str | None = None
    target: str = "population"
    inference: str = "auto"
    replicates: int = 999
    seed: int = 0

    def __post_init__(self) -> None:
        check_options(self.inference, self.target, self.replicates, self.seed)
        super().__post_init__()
        if isinstance(self.source, Data):
            _ = self._question(self.source.schema).rows

    def _question(self, schema: Schema) -> FamilyQuestion:
        options = {name: getattr(self, name) for name in ("inference", "target", "replicates", "seed")}
        return FamilyQuestion(schema, self.column, self.family, self.where, options)

    def release_kind(self, context: Context) -> str:  # noqa: ARG002
        """Return "expfam"."""
        return "expfam"

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the sums of the sufficient statistics."""
        return Stage(Sum(self._question(context.schema).rows))

    def question(self, context: Context) -> dict[str, Any]:
        """Return what a release stores of the question."""
        return self._question(context.schema).to_dict()

    def explain(self, privacy: Privacy, *, schema: Schema | None = None, neighbors: Neighbors | None = None) -> str:
        """Describe the measurement, and set Laplace noise beside Gaussian, before anything is spent.

        Returns
        -------
        str
            What is measured, its bound, noise and guarantee; and what each sum's noise would be under the other law at
            epsilon 1 and at 1/2-zCDP, which epsilon 1 implies: with d statistics Laplace noise grows as d, Gaussian
            as the square root of d.
        """
        from dpinfer.privacy.units import ZCDP, PureDP  # noqa: PLC0415

        measured = self.measurement(privacy, schema=schema, neighbors=neighbors)
        spread = {}
        for name, price in (("Laplace at PureDP(1)", PureDP(1.0)), ("Gaussian at ZCDP(0.5)", ZCDP(0.5))):
            other = self.measurement(price, schema=schema, neighbors=neighbors)
            noise = np.sqrt(other.law.variances) * np.asarray(other.steps)
            spread[name] = float(noise.max())
        beside = ", ".join(f"{name} {value:.4g}" for name, value in spread.items())
        return f"{measured.describe()}\nstandard deviation of the noise of a scaled sum: {beside}"

    def infer(self, release: Release | None = None) -> FamilyResults:
        """Infer from a release of this question: free, and without any row."""
        found: FamilyResults = infer_family(
            self._asked(release, "expfam", column=self.column, where=self.where),
            family=self.family,
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
        pvalues: bool = True,
    ) -> BatchEstimates:
        """Infer from many releases at once; equal to `infer` one by one.

        Parameters
        ----------
        measurement : Measurement
        values : ndarray (R, m)
            Noisy sums of every release, in units of the scaled features.
        alpha : float
        contrasts : mapping, optional
            Combinations of the parameters.
        nobs : int, optional
            Not needed: the sums hold it.
        pvalues : bool
            Whether to test that parameters are zero; studies do not ask, since most parameters cannot be.

        Raises
        ------
        NotProvedError
            For ``inference="simulated"``, which draws releases of its own for each.
        """
        if self.inference == "simulated":
            raise NotProvedError('inference="simulated" has no form for many releases at once; use .infer one by one')
        return batch_family(
            values,
            problem=self._question(_schema_of(measurement)).problem,
            law=measurement.law,
            steps=measurement.steps,
            alpha=alpha,
            method=self.inference,
            target=self.target,
            contrasts=contrasts,
            pvalues=pvalues,
            rows_per_unit=measurement.rows.schema.rows_per_unit,
        )

    @property
    def tests_zero(self) -> bool:
        """Whether a study should test that parameters are zero."""
        return False

    def oracle(
        self,
        measurement: Measurement,
        sums: Array,
        *,
        alpha: float = 0.05,
        contrasts: Mapping[str, Mapping[str, float]] | None = None,
        nobs: int | None = None,  # noqa: ARG002
    ) -> Oracle:
        """Say how wide an interval would be that knew the population; for studies."""
        return family_oracle(
            sums,
            problem=self._question(_schema_of(measurement)).problem,
            law=measurement.law,
            steps=measurement.steps,
            alpha=alpha,
            target=self.target,
            contrasts=contrasts,
            rows_per_unit=measurement.rows.schema.rows_per_unit,
        )


def _schema_of(measurement: Measurement) -> Schema:
    from dpinfer.kernel.rows.cells import CellSum  # noqa: PLC0415

    if not isinstance(measurement.rows, CellSum):
        raise OptionError("measurement", measurement.kind, "a measurement of this procedure")
    return measurement.rows.features.basis.schema


@suggests
def expfam(
    column: str | Sequence[str],
    family: str | ExponentialFamily = "normal",
    data: Data | Release | None = None,
    *,
    where: str | None = None,
    target: str = "population",
    inference: str = "auto",
    replicates: int = 999,
    seed: int = 0,
) -> ExpFam | MultivariateNormal | Proportion:
    """Parameters of an exponential family, from noisy sums of its clamped sufficient statistics.

    Parameters
    ----------
    column : str, or sequence of str for the multivariate normal
    family : str or Family
        "bernoulli", "poisson", "geometric", "exponential", "gamma", "normal", "lognormal", "beta", "categorical",
        ``Binomial(trials)``, or a `Family` of your own. Several columns with "normal" are multivariate normal.
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    where : str, optional
        A condition on declared columns; other rows count as absent.
    target : {"population", "data"}
        For "data" only the noise counts as error.
    inference : {"auto", "score", "wald", "simulated"}
        "auto" is "score": test inversion with the variance evaluated part of the way to the tested value.
        "simulated" draws releases from the fitted family through the same clamping and noise.
    replicates, seed : int
        Number of simulated releases and their public seed, for ``inference="simulated"``.

    Returns
    -------
    ExpFam, MultivariateNormal or Proportion
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    SchemaError
        If the column's type or bounds do not suit the family, before anything is spent.
    FormulaError, UnknownColumnError
        If a statistic cannot be bounded on the declared bounds, or the column is not declared.
    OptionError
        If an option has no such value.

    Notes
    -----
    The statistic t is summed over values clamped to their bounds, and the parameter solves
    ``n E_theta[t(clamp X)] = noisy sum``: the model knows what clamping does, so tight bounds cost no bias. The
    variance is ``J^-1 (n Cov_theta t(clamp X) + Cov noise) J^-T / n^2`` with ``J = d E_theta[t(clamp X)] / d theta``.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(wait=dpi.Real(0, 30))
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame({"wait": rng.exponential(10.0, 5000)})
    >>> results = dpi.expfam("wait", "exponential", dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.1))
    >>> bool(abs(results.params["mean"] - 10) < 4 * results.bse["mean"])
    True
    """
    options: dict[str, Any] = {
        "where": where,
        "target": target,
        "inference": inference,
        "replicates": replicates,
        "seed": seed,
    }
    if not isinstance(column, str):
        columns = tuple(column) if isinstance(column, Sequence | pd.Index) else ()
        if family != "normal" and not isinstance(family, Normal):
            raise OptionError("family", family, '"normal" for several columns')
        if len(columns) < 2 or not all(isinstance(one, str) for one in columns):
            raise OptionError("column", column, "a column, or two or more columns for the multivariate normal")
        return MultivariateNormal(source=data, columns=columns, **options)
    if family == "categorical":
        found = proportion(column, data, **options)
        assert isinstance(found, Proportion)
        return found
    return ExpFam(source=data, column=column, family=as_family(family), **options)
