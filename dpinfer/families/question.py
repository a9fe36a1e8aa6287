"""Questions about exponential families, from clipped sufficient statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpinfer.checks import are_texts
from dpinfer.descriptions.question import Proportion
from dpinfer.errors import OptionError, SchemaError
from dpinfer.families.distributions import ExponentialFamily, Normal, as_family
from dpinfer.families.estimation import ClampedProblem, FamilyFit, SumNoise, clamped_problem, estimate
from dpinfer.families.inference import FamilyInference, batch, family_inference, oracle
from dpinfer.families.multinormal import estimate_multinormal
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.stage import Context, Data, Stage, Sum
from dpinfer.privacy.units import ZCDP, Neighbors, PureDP
from dpinfer.procedures.cell_sums import Described, MomentsQuestion, SumPlan, check_summed, infer_sums
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import axes_of, compiled_where, refuse_simulated, told_where, where_notes
from dpinfer.procedures.procedure import Estimated, context_of
from dpinfer.results.descriptions import DescriptionResults
from dpinfer.results.printing import alike_flags
from dpinfer.statistics.inference import Released

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.procedures.options import Contrasts
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array
    from dpinfer.statistics.inference import BatchEstimates, Oracle
    from dpinfer.statistics.moments import Estimates


_STEP = 1e-5


class FamilyResults(DescriptionResults):
    """Estimated parameters of an exponential family, in conventional and natural form."""

    def natural_params(self) -> pd.DataFrame:
        """Return the natural parameters with standard errors by the delta method.

        Returns
        -------
        DataFrame
            Columns "estimate" and "std err" (from sampling and noise), a row per natural parameter.

        Raises
        ------
        InferenceError
            If the family does not define them.
        """
        inference = self._inference
        assert isinstance(inference, FamilyInference)
        fit, family, steps = inference.fit, inference.fit.problem.family, _STEP * np.eye(len(inference.names))
        up, down = (family.natural(fit.problem.from_link(fit.eta + one)) for one in (steps, -steps))
        slope = (up - down).T / (2 * _STEP)
        error = np.sqrt(np.maximum(np.diag(slope @ fit.cov[0] @ slope.T), 0.0))
        frame = pd.DataFrame({"estimate": family.natural(fit.params)[0], "std err": error}, list(family.natural_names))
        frame.loc[(slope != 0) @ fit.missing[0]] = np.nan
        return frame


@dataclass(frozen=True, eq=False)
class ExpFam(Estimated):
    """Parameters of an exponential family of one column. See `expfam`."""

    procedures = ("expfam",)

    column: str = ""
    family: ExponentialFamily = field(default_factory=Normal)
    where: str | None = None

    def problem(self, schema: Schema) -> ClampedProblem:
        """Return the family on the column's bounds; refuse a mismatch or an unbounded statistic."""
        return clamped_problem(self.family, self.column, schema)

    def rows(self, schema: Schema) -> CellSum:
        """Return the row sum: the sufficient statistics of the clipped column."""
        return CellSum(Features(self.problem(schema).basis, compiled_where(self.where, schema)))

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Describe the question in one line."""
        return f"{self.family.name} family of {self.column}{told_where(self.where)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse a column that does not suit the family, and statistics that cannot be bounded."""
        self.rows(schema)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:  # noqa: ARG002
        """Ask for the sums of the sufficient statistics."""
        return Stage(Sum(self.rows(context.schema)))

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, and compare Laplace with Gaussian noise, before any budget is spent.

        Returns
        -------
        str
            The measurement, its bound, noise and guarantee; and the noise of each sum under the other mechanism at
            epsilon 1 and at 1/2-zCDP, which epsilon 1 implies. With d statistics, Laplace noise grows as d, Gaussian
            noise as the square root of d.
        """
        spread = []
        for name, price in (("Laplace at PureDP(1)", PureDP(1.0)), ("Gaussian at ZCDP(0.5)", ZCDP(0.5))):
            other = self.measurement(price, schema=measured.context.schema, neighbors=measured.neighbors)
            noise = np.sqrt(other.law.variances) * np.asarray(other.steps)
            spread.append(f"{name} {float(noise.max()):.4g}")
        return f"{measured.describe()}\nstandard deviation of the noise of a scaled sum: {', '.join(spread)}"

    # Inference

    @classmethod
    def infer_release(
        cls, release: Release, *, family: ExponentialFamily | None = None, **options: Any
    ) -> FamilyResults:
        """Infer the parameters; ``family`` is needed if user-defined, as no release stores its log-density."""
        question = cls.from_release(release)
        question = question if family is None else replace(question, family=as_family(family))
        found: FamilyResults = question.with_options(options).infer(release)
        return found

    def infer(self, release: Release | None = None) -> FamilyResults:
        """Infer from a stored release of this question, at no further privacy cost.

        Raises
        ------
        InferenceError
            If the release was made for another question, or for a user-defined family that was not given.
        """
        found, _ = self._asked_of(release)
        fit = self._fit(Released.of_release(found, context_of(found), self.rows(found.schema)))
        flags = alike_flags(found.schema, self.target)
        clamped = (
            f"The statistics are of values clamped to [{fit.problem.lower:.6g}, {fit.problem.upper:.6g}], and their "
            "expectation is that of clamped values: the parameters are those of the family without clamping."
        )
        return FamilyResults(
            family_inference(found, fit, self.inference, self.replicates, self.seed, flags),
            found,
            model_name=f"Private {self.family.name} family",
            response=self.column,
            notes=[*where_notes(self.where), clamped],
            quantity="estimate",
        )

    def estimate(
        self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None, pvalues: bool = False
    ) -> BatchEstimates:
        """Infer from many releases at once; see `Procedure.estimate`.

        Parameters
        ----------
        released, alpha, contrasts
            As there.
        pvalues : bool
            Whether to test that parameters are zero; studies do not, since most parameters cannot be zero.
        """
        refuse_simulated(self.inference)
        fit = self._fit(released)
        return batch(fit, alpha=alpha, method=self.inference, contrasts=contrasts, tests=pvalues)

    def oracle(
        self, released: Released, *, sampling: Array, alpha: float = 0.05, contrasts: Contrasts = None
    ) -> Oracle:
        """Return the width of an interval that knew the population; see `OLS.oracle`."""
        noise_alone = replace(self, target="data")._fit(released)
        return oracle(noise_alone, sampling=sampling, alpha=alpha, contrasts=contrasts)

    def _fit(self, released: Released) -> FamilyFit:
        """Fit the family to every release."""
        check_summed(released)
        problem, variances = self.problem(released.schema), released.noise_variances
        count, sums = released.values[:, 0], released.values[:, 1:]  # noqa: PD011
        laplace, population = released.law.family == "laplace", self.target == "population"
        rows_per_unit = released.schema.rows_per_unit
        noise = SumNoise(variances[1:], float(variances[0]), laplace, population, rows_per_unit)
        return estimate(problem, noise, sums, count)


@dataclass(frozen=True, eq=False)
class MultivariateNormal(MomentsQuestion):
    """Means, standard deviations and correlations of jointly normal columns. See `expfam`."""

    procedures = ("multinormal",)

    columns: tuple[str, ...] = ()
    where: str | None = None

    def plan(self, schema: Schema) -> SumPlan:
        """Compile the sums against a schema."""
        return SumPlan("multinormal", schema, columns=self.columns, where=self.where, target="data")

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse columns that do not suit the schema, and Booleans."""
        super().check(schema, neighbors)
        for expression in self.plan(schema).expressions:
            if expression.boolean:
                raise SchemaError(
                    f"the multivariate normal does not suit {expression.text}, which is a truth value: "
                    "declare Real(lower, upper)"
                )

    def infer(self, release: Release | None = None) -> DescriptionResults:
        """Infer from a stored release of this question, at no further privacy cost."""
        found, held = self._release_and_sums(release)
        return infer_sums(found, held, estimated=self._describe, **self._inference_options)

    def oracle(
        self, released: Released, *, sampling: Array, alpha: float = 0.05, contrasts: Contrasts = None
    ) -> Oracle:
        """Return the width of an interval that knew the population; see `OLS.oracle`.

        As for one column, kappa is the smallest ratio of a quarter of a unit to the standard deviation of the estimate
        from noise alone. The unit is one standard deviation for a mean, and 1 for the logarithm of a standard deviation
        and the artanh of a correlation.
        """
        estimates, _ = self._describe(released)
        value, noise = estimates.value[0, 0], np.diagonal(estimates.noise[0, 0])
        sd = value[len(self.columns) : 2 * len(self.columns)]
        unit = np.concatenate([sd, sd, 1 - value[2 * len(sd) :] ** 2])
        kappa = float((unit / 4 / np.sqrt(np.maximum(noise, 1e-300))).min())
        return replace(super().oracle(released, sampling=sampling, alpha=alpha, contrasts=contrasts), kappa=kappa)

    def _describe(self, released: Released) -> tuple[Estimates, Described]:
        check_summed(released)
        plan = self.plan(released.schema)
        sums = plan.moment_sums(released.values, released.law, released.steps)
        found = estimate_multinormal(sums, population=self.target == "population")
        return found, Described(plan, plan.quantities, ())


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
    """Fit a distribution, such as normal, gamma or Poisson, to noisy sums of sufficient statistics.

    Parameters
    ----------
    column : str, or sequence of str for the multivariate normal
    data : PrivateData, PublicData or Release, optional
        Rows to measure, or a release of this question. Nothing is read or spent here.
    family : str or Family
        "bernoulli", "poisson", "geometric", "exponential", "gamma", "normal", "lognormal", "beta", "categorical",
        ``Binomial(trials)``, or a `Family` of your own. Several columns with "normal" are multivariate normal.
    where : str, optional
        A condition on declared columns; other rows are ignored.
    target : {"population", "data"}
        With "data", standard errors include privacy noise only.
    inference : {"auto", "score", "wald", "simulated"}
        "auto" is "score": test inversion with the variance evaluated part of the way to the tested value. "simulated"
        draws releases from the fitted family, with the same clipping and noise.
    replicates, seed : int
        Number of simulated releases and public seed, for ``inference="simulated"``.

    Returns
    -------
    ExpFam, MultivariateNormal or Proportion
        With ``.explain(privacy)``, ``.fit(privacy)``, ``.measure(privacy)`` and ``.infer()``.

    Raises
    ------
    SchemaError
        If the column's type or bounds do not suit the family, before any budget is spent.
    FormulaError, UnknownColumnError
        If a statistic cannot be bounded on the declared bounds, or the column is not declared.
    OptionError
        If an argument has an invalid value.

    Notes
    -----
    The statistic t is summed over values clipped to their bounds, and the parameter solves ``n E_theta[t(clamp X)] =
    noisy sum``. The model accounts for the clipping, so tight bounds cause no bias. The variance is ``J^-1 (n Cov_theta
    t(clamp X) + Cov noise) J^-T / n^2`` with ``J = d E_theta[t(clamp X)] / d theta``.

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
        if len(columns) < 2 or not are_texts(columns):
            raise OptionError("column", column, "a column, or two or more columns for the multivariate normal")
        return MultivariateNormal.asking(locals(), columns=columns)
    if family == "categorical":
        return Proportion.asking(locals(), axes=axes_of(column))
    return ExpFam.asking(locals(), family=as_family(family))
