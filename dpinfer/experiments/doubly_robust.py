"""Doubly robust effects of nonrandomised treatments: the question, its inference and its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from dpinfer.checks import Allowed, is_number
from dpinfer.errors import OptionError
from dpinfer.experiments.doubly_robust_stages import Plan
from dpinfer.experiments.question import Experiment
from dpinfer.kernel.rows.cells import named_cells
from dpinfer.procedures import options
from dpinfer.procedures.procedure import Procedure, check_stage, context_of
from dpinfer.results.base import PrivateResults
from dpinfer.schema.columns import Boolean
from dpinfer.schema.expressions import quoted
from dpinfer.statistics import inference
from dpinfer.statistics.moment_inference import MOST_SHARES
from dpinfer.statistics.numerical import inverted
from dpinfer.statistics.tails import biased_pvalue

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Context, Slot, Stage
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import Release
    from dpinfer.release.laws import StageRelease
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array

__all__ = ["DoublyRobust", "DoublyRobustResults"]

_WIDEST_TRIM = 0.25
TRIM = Allowed(
    lambda given: is_number(given) and 0.005 <= given <= _WIDEST_TRIM, f"a number from 0.005 to {_WIDEST_TRIM}"
)

_UNKNOWN = 0.5
"""Error of the logit, in root mean square over rows, from which expansions around it are uninformative."""

_MOSTLY = 0.5
_TRIMMED = 0.02
_SPARE = 5


@dataclass(frozen=True, eq=False)
class DoublyRobustInference(inference.Inference):
    """The effect from one release.

    Attributes
    ----------
    value, sampling, noise, bias, df : float
        The effect, its variances from sampling and from noise, the bound on its bias, and the degrees of freedom.
    shares : ndarray (1, m) or None
        Shares of the variance due to Laplace variables.
    warned : tuple of str
    hidden : str
        Why the effect is not determined, or empty.
    reach : float
        The largest effect within the bounds.
    """

    value: float
    sampling: float
    noise: float
    bias: float
    df: float
    shares: Array | None
    warned: tuple[str, ...]
    hidden: str
    reach: float

    methods: ClassVar[tuple[str, ...]] = ("auto", "wald")
    automatic: ClassVar[str] = "wald"

    @property
    def params(self) -> Array:
        """The estimate (1,); NaN where it is not determined."""
        return np.array([np.nan if self.hidden else self.value])

    @property
    def cov_sampling(self) -> Array:
        """Variance from sampling (1, 1)."""
        return np.array([[np.nan if self.hidden else self.sampling]])

    @property
    def cov_noise(self) -> Array:
        """Variance from privacy noise (1, 1)."""
        return np.array([[np.nan if self.hidden else self.noise]])

    @property
    def df_resid(self) -> float:
        """Degrees of freedom of the variance."""
        return self.df

    @property
    def flagged(self) -> bool:
        """Whether the release carries a warning."""
        return bool(self.hidden or self.warned)

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, computed from released numbers only."""
        found = (f"not determined: the effect; {self.hidden}",) if self.hidden else self.warned
        return (*found, *self.notes)

    @property
    def _error(self) -> float:
        return np.inf if self.hidden else float(np.sqrt(self.sampling + self.noise))

    def _linear(self, rows: Array) -> inference.Contrasts:
        """See `Inference`; the bias is in `_ends` and `_tails`."""
        times = rows[:, 0]
        shares = None if self.shares is None else self.shares[None]
        df = np.full((1, len(times)), self.df)
        return inference.Contrasts(self.value * times[None], self._error * np.abs(times)[None], df, shares)

    def _pvalues(self, distance: Array) -> Array:
        """P-values (k,) of values at these distances from the estimate, whose bias is at most the bound."""
        away, shift = np.abs(distance) / self._error, np.full(len(distance), self.bias / self._error)
        shares = None if self.shares is None else np.repeat(self.shares, len(distance), axis=0)
        return np.asarray(biased_pvalue(away, shift, self.df, shares))

    def _ends(self, rows: Array, alpha: float) -> Array:
        """See `Inference`: all values within the bounds that are not rejected."""
        times = rows[:, :1]
        most = np.abs(times) * self.reach
        if self.hidden:
            return np.concatenate([-most, most], axis=1)[None]
        unit = np.full(1, self._error + self.bias)
        one = inverted(lambda away: self._pvalues(away) >= alpha, np.array([self.value]), unit)
        return np.clip(np.sort(times * one, axis=1), -most, most)[None]

    def _tails(self, rows: Array, values: Array) -> Array:
        """See `Inference`."""
        times = np.where(rows[:, 0] == 0, np.nan, rows[:, 0])
        if self.hidden:
            return np.ones((1, len(times)))
        return np.nan_to_num(self._pvalues(self.value - values / times), nan=1.0)[None]

    def _joint(self, rows: Array, values: Array) -> tuple[float, float]:
        """See `Inference`."""
        return float(self._linear(rows).distances(values).item() ** 2), float(self._tails(rows, values).item())


@dataclass(frozen=True, eq=False)
class DoublyRobust(Procedure):
    """The average effect of a treatment that depends on covariates. See `experiment`.

    Attributes
    ----------
    outcome : str
    axes : tuple of mapping
        The treatment, as `Axis.to_dict` writes it.
    covariates : tuple of str
    where : str, optional
    trim : float
        The smallest propensity, and one minus the largest, used in weights.
    """

    procedures: ClassVar[tuple[str, ...]] = ("aipw",)

    outcome: str = options.measured("y", options.NUMERIC)
    axes: tuple[Mapping[str, Any], ...] = ()
    covariates: tuple[str, ...] = ()
    where: str | None = None
    trim: float = options.measured(0.01, TRIM)

    def check_options(self) -> None:
        """Refuse a question without covariates, strata, and a column that is named twice."""
        if not self.covariates:
            raise OptionError("covariates", self.covariates, 'columns that the treatment depends on, for method="aipw"')
        if len(self.axes) != 1:
            shown = ", ".join(map(options.axis_name, self.axes[1:]))
            raise OptionError("strata", shown, 'none with method="aipw": give strata as covariates')
        self._means.check_options()

    @property
    def _means(self) -> Experiment:
        """The question about means by arm, whose sums the first stage releases."""
        return Experiment(outcome=self.outcome, axes=self.axes, covariates=self.covariates, where=self.where)

    @property
    def treatment(self) -> str:
        """Name of the treatment."""
        return options.axis_name(self.axes[0])

    def plan(self, context: Context) -> Plan:
        """Build the stages."""
        sums = self._means.plan(context.schema)
        treated = self.treatment
        if "column" in self.axes[0]:
            boolean = isinstance(context.schema[treated], Boolean)
            treated = quoted(treated) if boolean else f"{quoted(treated)} == {sums.cells[0].labels[1]!r}"
        return Plan(sums, treated, self.trim, context)

    def text(self, schema: Schema) -> str:
        """Describe the question in one line."""
        return f"doubly robust {self._means.text(schema)}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse a treatment that does not have two levels, and people with several rows."""
        self._means.check(schema, neighbors)

    def slots(self, context: Context) -> tuple[Slot, ...]:
        """Split the budget among sums by arm, two iterations and influence values."""
        return self.plan(context).slots()

    def columns_read(self, context: Context) -> tuple[str, ...]:
        """Columns of the data that are read."""
        return tuple(self.plan(context).features.columns)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for sums by arm, an iteration of the propensity, or influence values; see `Plan`."""
        self.check(context.schema, context.neighbors)
        return self.plan(context).stage(place, released)

    def check_release(self, release: Release) -> None:
        """Refuse a release whose sums or settings are not those of the stages."""
        super().check_release(release)
        context = context_of(release)
        for place, stage in enumerate(release.stages):
            check_stage(self.stage(place, context, release.stages[:place]), stage)

    def describe(self, measured: Measurement) -> str:
        """Describe the stages; the bounds alone say little about the noise of the effect."""
        return (
            f"{measured.describe()}\nThe width of the interval depends on overlap and on how well covariates predict, "
            f"about which bounds say nothing. Propensities are trimmed to [{self.trim:g}, {1 - self.trim:g}], or "
            "further where few rows are trimmed and the resulting error is less than that from noise."
        )

    def infer(self, release: Release | None = None) -> DoublyRobustResults:
        """Infer from a stored release of this question, at no further privacy cost.

        Raises
        ------
        InferenceError
            If the release was made for another question.
        """
        found, _ = self._asked_of(release)
        plan = self.plan(context_of(found))
        sums = plan.sums
        half = float(sums.scaled[1][0])
        control, treated = sums.cells[0].labels
        found_effect, tables = inferred(plan, found, half)
        trim = float(found.stages[2].settings["trim"])
        shown = ", ".join(self.covariates)
        return DoublyRobustResults(
            found_effect,
            found,
            model_name="Private doubly robust effect (AIPW)",
            response=sums.columns[0],
            notes=(
                f"The effect is of {self.treatment} = {treated} against {control}, in all rows. It is causal if "
                f"treatment is as good as random given {shown}, and propensities are bounded away from 0 and 1.",
                "One of two models has to be correct: outcomes linear in these covariates in each arm, or propensities "
                "that are a logit of them.",
                f"Propensities are trimmed to [{trim:g}, {1 - trim:g}].",
                *options.where_notes(self.where),
            ),
            nuisances=tables,
        )


def inferred(plan: Plan, release: Release, half: float) -> tuple[DoublyRobustInference, pd.DataFrame]:
    """Infer the effect of one release and tabulate nuisances; ``half`` is a unit of the scaled outcome."""
    sums, _, second, last = release.stages
    arms, trim = plan.arms(sums), float(second.settings["trim"])
    iteration, corrected = plan.corrected(arms, second)
    context, of_count = plan.context, float(arms.noise[0]) * np.sqrt(2)
    public = context.nobs is not None and plan.sums.rows.keeps_every_row
    rows, of_rows = (float(context.nobs or 0), 0.0) if public else (arms.rows, of_count)
    few = arms.size < np.maximum(3 * arms.noise, plan.width + _SPARE)
    rows = max(rows, 1.0)
    (total, of_total), (square, of_square) = plan.last(last).values()
    value = total / rows
    variance, of_variance = (square - rows * value**2) / rows**2, of_square / rows**2
    sampling = max(variance, of_variance, 1e-300)
    noise = (of_total**2 + (value * of_rows) ** 2) / rows**2 + corrected.variance
    off = of_variance**2 + 4 * sampling**2 / rows
    df = float(np.clip(2 * (sampling + noise) ** 2 / max(off, 1e-300), 2.0, 1e9))
    hidden, warned = "", []
    if few.any():
        names = "; ".join(np.array(named_cells(plan.sums.cells))[few])
        hidden = f"too few rows, or possibly none given the noise: {names}"
    elif not np.hypot(iteration.error, iteration.left) < _UNKNOWN:
        hidden = "noise hides the dependence of treatment on the covariates"
    elif not corrected.bias + 2 * np.sqrt(corrected.variance) < arms.largest:
        hidden = "noise in the nuisances may move it by more than a standard deviation of the outcome"
    error = float(np.sqrt(sampling + noise))
    if of_variance > _MOSTLY * (sampling + noise):
        warned.append("the estimated sampling error is mostly noise, so the interval is wide")
    if corrected.bias > _MOSTLY * error:
        warned.append("errors in the nuisances, or trimming, may bias the effect; the interval is widened for it")
    beyond, of_beyond = iteration.terms["trimmed"]
    share = float(beyond[0])
    if share - 2 * float(of_beyond) > _TRIMMED:
        warned.append(f"about {share:.0%} of rows have propensities beyond the trim {trim:g}: little overlap")
    laplace = plan.norm == "l1"
    found = DoublyRobustInference(
        ("effect",),
        nobs=rows, nobs_is_public=public,
        value=float(np.clip(value, -2, 2)) * half, sampling=sampling * half**2, noise=noise * half**2,
        bias=corrected.bias * half, df=df,
        shares=np.array([[of_total**2 / rows**2 / (sampling + noise)]])[:, :MOST_SHARES] if laplace else None,
        warned=tuple(warned), hidden=hidden, reach=2 * half,
    )  # fmt: skip
    return found, _nuisances(plan, arms.outcome, iteration.next, arms.transform, half)


def _nuisances(plan: Plan, outcome: Array, logit: Array, transform: Array, half: float) -> pd.DataFrame:
    """Tabulate coefficients in the columns' units: outcome in each arm, and the logit."""
    center, halves = plan.sums.scaled
    control, treated = (f"{plan.sums.columns[0]} | {label}" for label in named_cells(plan.sums.cells))
    scaled = np.stack([outcome[1] * half, outcome[0] * half, logit]) @ transform
    slopes = scaled[:, 1:] / halves[1:]
    first = scaled[:, 0] - slopes @ center[1:] + np.array([center[0], center[0], 0.0])
    index = ["Intercept", *plan.sums.columns[1:]]
    return pd.DataFrame(np.column_stack([first, slopes]).T, index, [treated, control, f"logit of {plan.treated}"])


class DoublyRobustResults(PrivateResults):
    """A doubly robust effect, with all members of `PrivateResults` for the one parameter "effect".

    Parameters
    ----------
    inference, release
        As in `PrivateResults`.
    nuisances : DataFrame
        Coefficients.
    **labels
        As in `PrivateResults`.

    Attributes
    ----------
    nuisances : DataFrame
        Coefficients of the outcome in each arm and of the logit of the treatment, as used in the influence values: a
        row for each covariate. They have no standard errors.
    """

    def __init__(
        self, inference: DoublyRobustInference, release: Release, *, nuisances: pd.DataFrame, **labels: Any
    ) -> None:
        super().__init__(inference, release, **labels)
        self.nuisances = nuisances

    @property
    def bias_bound(self) -> float:
        """Bound on the bias from products of nuisance errors and from trimming; intervals allow for it."""
        found = self._inference
        assert isinstance(found, DoublyRobustInference)
        return found.bias

    def __repr__(self) -> str:
        return f"<DoublyRobustResults: {self.model_name} of {self.response}>"
