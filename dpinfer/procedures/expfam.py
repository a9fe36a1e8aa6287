"""Exponential families by clamped sufficient statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.errors import OptionError
from dpinfer.inference.expfam import ClampedProblem, clamped_problem
from dpinfer.inference.expfam_batch import batch_family, family_oracle
from dpinfer.inference.expfam_inference import family_inference
from dpinfer.inference.families import ExponentialFamily, Family, as_family
from dpinfer.inference.families.continuous import Normal
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.stage import Context, Data, Stage, Sum
from dpinfer.privacy.units import ZCDP, Neighbors, PureDP
from dpinfer.procedures.cell_sums import check_summed
from dpinfer.procedures.conditions import compiled_where, told_where, where_notes
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.multinormal import MultivariateNormal
from dpinfer.procedures.options import refuse_simulated
from dpinfer.procedures.procedure import Estimated
from dpinfer.procedures.table_axes import axes_of
from dpinfer.results.families import FamilyResults
from dpinfer.results.people import alike_flags
from dpinfer.schema.basis import basis_of

if TYPE_CHECKING:
    from dpinfer.descriptions.question import Proportion
    from dpinfer.inference.batch import BatchEstimates, Oracle
    from dpinfer.inference.released import Released
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.numerics.arrays import Array
    from dpinfer.procedures.options import Contrasts
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.schema import Schema

__all__ = ["ExpFam", "expfam"]


@dataclass(frozen=True, eq=False)
class ExpFam(Estimated):
    """Parameters of an exponential family of one column. See `expfam`."""

    procedures = ("expfam",)

    column: str = ""
    family: ExponentialFamily = field(default_factory=Normal)
    where: str | None = None

    def problem(self, schema: Schema) -> ClampedProblem:
        """Return the family on the column's bounds; refuse what does not match or cannot be bounded."""
        return clamped_problem(self.family, self.column, schema)

    def rows(self, schema: Schema) -> CellSum:
        """Return the row sum: the sufficient statistics of the clamped column."""
        texts = [expression.text for expression in self.problem(schema).expressions]
        return CellSum(Features(basis_of(texts, schema), compiled_where(self.where, schema)))

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        return f"{self.family.name} family of {self.column}{told_where(self.where)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse a column that does not suit the family, and statistics that cannot be bounded."""
        self.rows(schema)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the sums of the sufficient statistics."""
        return Stage(Sum(self.rows(context.schema)))

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, and set Laplace noise beside Gaussian, before anything is spent.

        Returns
        -------
        str
            What is measured, its bound, noise and guarantee; and what each sum's noise would be under the other law at
            epsilon 1 and at 1/2-zCDP, which epsilon 1 implies: with d statistics Laplace noise grows as d, Gaussian
            as the square root of d.
        """
        spread = {}
        for name, price in (("Laplace at PureDP(1)", PureDP(1.0)), ("Gaussian at ZCDP(0.5)", ZCDP(0.5))):
            other = self.measurement(price, schema=measured.context.schema, neighbors=measured.neighbors)
            noise = np.sqrt(other.law.variances) * np.asarray(other.steps)
            spread[name] = float(noise.max())
        beside = ", ".join(f"{name} {value:.4g}" for name, value in spread.items())
        return f"{measured.describe()}\nstandard deviation of the noise of a scaled sum: {beside}"

    # Inference

    @classmethod
    def infer_release(
        cls, release: Release, *, family: ExponentialFamily | None = None, **options: Any
    ) -> FamilyResults:
        """Infer the parameters; ``family`` is needed for one of the author's own, whose log-density no file holds."""
        asked = cls.from_release(release)
        if family is not None:
            asked = replace(asked, family=as_family(family))
        found: FamilyResults = asked.with_options(options).infer(release)
        return found

    def infer(self, release: Release | None = None) -> FamilyResults:
        """Infer from a release of this question: free, and without any row.

        Raises
        ------
        InferenceError
            If the release was made for another question, or for a family of its author's own that was not given.
        """
        found, _ = self._asked_of(release)
        if isinstance(self.family, Family):
            self.family.require_density()
        problem = self.problem(found.schema)
        estimated = family_inference(
            found,
            problem=problem,
            method=self.inference,
            target=self.target,
            replicates=self.replicates,
            seed=self.seed,
            rows_per_unit=found.schema.rows_per_unit,
            notes=alike_flags(found.schema, self.target),
        )
        notes = where_notes(self.where)
        notes.append(
            f"The statistics are of values clamped to [{problem.lower:.6g}, {problem.upper:.6g}], and their "
            "expectation is that of clamped values: the parameters are of the family itself."
        )
        return FamilyResults(
            estimated,
            found,
            model_name=f"Private {self.family.name} family",
            response=self.column,
            notes=notes,
            quantity="estimate",
        )

    def estimate(
        self,
        released: Released,
        *,
        alpha: float = 0.05,
        contrasts: Contrasts = None,
        pvalues: bool = False,
    ) -> BatchEstimates:
        """Infer from many releases at once; see `Procedure.estimate`.

        Parameters
        ----------
        released, alpha, contrasts
            As there.
        pvalues : bool
            Whether to test that parameters are zero; studies do not ask, since most parameters cannot be.
        """
        refuse_simulated(self.inference)
        check_summed(released)
        return batch_family(
            released.values,
            problem=self.problem(released.schema),
            law=released.law,
            steps=released.steps.tolist(),
            alpha=alpha,
            method=self.inference,
            target=self.target,
            contrasts=contrasts,
            pvalues=pvalues,
            rows_per_unit=released.schema.rows_per_unit,
        )

    def oracle(
        self,
        released: Released,
        *,
        sampling: Array,
        alpha: float = 0.05,
        contrasts: Contrasts = None,
    ) -> Oracle:
        """Say how wide an interval would be that knew the population; see `OLS.oracle`."""
        check_summed(released)
        return family_oracle(
            released.values[0],  # noqa: PD011
            sampling=sampling,
            problem=self.problem(released.schema),
            law=released.law,
            steps=released.steps.tolist(),
            alpha=alpha,
            contrasts=contrasts,
        )


@suggests
def expfam(
    column: str | Sequence[str],
    data: Data | Release | None = None,
    *,
    family: str | ExponentialFamily = "normal",
    where: str | None = None,
    target: str = "population",
    inference: str = "auto",
    replicates: int = 999,
    seed: int = 0,
) -> ExpFam | MultivariateNormal | Proportion:
    """Fit a distribution, such as normal, gamma or Poisson, from noisy sums of its sufficient statistics.

    Parameters
    ----------
    column : str, or sequence of str for the multivariate normal
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    family : str or Family
        "bernoulli", "poisson", "geometric", "exponential", "gamma", "normal", "lognormal", "beta", "categorical",
        ``Binomial(trials)``, or a `Family` of your own. Several columns with "normal" are multivariate normal.
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
    >>> data = dpi.PublicData(frame, schema, rng=rng)
    >>> results = dpi.expfam("wait", data, family="exponential").fit(dpi.ZCDP(0.1))
    >>> bool(abs(results.params["mean"] - 10) < 4 * results.bse["mean"])
    True
    """
    if not isinstance(column, str):
        columns = tuple(column) if isinstance(column, Sequence | pd.Index) else ()
        if family != "normal" and not isinstance(family, Normal):
            raise OptionError("family", family, '"normal" for several columns')
        if len(columns) < 2 or not all(isinstance(one, str) for one in columns):
            raise OptionError("column", column, "a column, or two or more columns for the multivariate normal")
        return MultivariateNormal.asking(locals(), columns=columns)
    if family == "categorical":
        given = locals()
        from dpinfer.descriptions.question import Proportion  # noqa: PLC0415  (which is built on procedures)

        return Proportion.asking(given, axes=axes_of(column))
    return ExpFam.asking(locals(), family=as_family(family))
