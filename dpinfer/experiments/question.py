"""Experiments: what is asked of rows, and how effects follow from the sums that a release of means holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from dpinfer.checks import is_list, is_text, one_of, require
from dpinfer.errors import NotProvedError, OptionError
from dpinfer.experiments.inference import EffectInference, effects, spread_of
from dpinfer.experiments.results import ExperimentResults
from dpinfer.kernel.rows.cells import named_cells
from dpinfer.procedures import options
from dpinfer.procedures.cell_sums import SumPlan, SumsQuestion, check_summed, infer_sums
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.procedure import context_of
from dpinfer.results.printing import refuse_dependent_rows
from dpinfer.schema.columns import Category
from dpinfer.schema.expressions import compile_expression, quoted
from dpinfer.statistics.inference import BatchEstimates, Released

if TYPE_CHECKING:
    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Data
    from dpinfer.privacy.units import Neighbors
    from dpinfer.procedures.options import Contrasts
    from dpinfer.release import Release
    from dpinfer.schema.schema import Schema

    Columns = str | Sequence[str]

_TREATMENT = "exactly two levels, control first: a Boolean, a Category of two, or a condition such as \"arm == 'new'\""

_AIPW = (
    'method="aipw" is refused: how far noise in two fitted nuisances moves the estimate is not proved here. In an '
    'experiment method="adjusted" needs no model to be right; where treatment depends on few known groups, strata= '
    "compares within them"
)


@dataclass(frozen=True, eq=False)
class Experiment(SumsQuestion):
    """The average effect of a treatment. See `experiment`.

    Attributes
    ----------
    outcome : str
    axes : tuple of mapping
        The treatment, then the strata, as `Axis.to_dict` writes them.
    covariates : tuple of str
        As given; levels of a Category become indicators in `columns`.
    where : str, optional
    method : {"auto", "difference", "adjusted"}
    """

    procedures: ClassVar[tuple[str, ...]] = ("experiment",)

    outcome: str = options.measured("y", options.NUMERIC)
    axes: tuple[Mapping[str, Any], ...] = ()
    covariates: tuple[str, ...] = ()
    where: str | None = None
    method: Literal["auto", "difference", "adjusted"] = options.inferred(
        "auto", one_of(("auto", "difference", "adjusted"))
    )

    def check_options(self) -> None:
        """Refuse an adjustment for nothing, and a column that is named twice."""
        if self.method == "adjusted" and not self.covariates:
            raise OptionError("covariates", self.covariates, 'columns to adjust for, or method="difference"')
        names = [self.outcome, *self.covariates, *map(options.axis_name, self.axes)]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise OptionError(
                "covariates", twice[0], "columns of which each is the outcome, the treatment, a stratum or a covariate"
            )

    @property
    def adjusts(self) -> bool:
        """Whether the effect is adjusted for covariates."""
        return bool(self.covariates) and self.method != "difference"

    @property
    def treatment(self) -> str:
        """What the treatment is called."""
        return options.axis_name(self.axes[0])

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return what is summed, in one spelling: outcome and covariates, of a Category all levels but the first."""
        texts = [self.outcome]
        for name in self.covariates:
            column = schema.get(name)
            levels = column.levels[1:] if isinstance(column, Category) else ()
            texts += [f"{quoted(name)} == {level!r}" for level in levels] or [name]
        return tuple(compile_expression(text, schema).text for text in texts)

    def plan(self, schema: Schema) -> SumPlan:
        """Return the sums: those of means of all columns by arm and stratum."""
        return SumPlan("mean", schema, columns=self.columns(schema), axes=self.axes, where=self.where)

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        within = ", ".join(map(options.axis_name, self.axes[1:]))
        told = f"effect of {self.treatment} on {self.outcome}" + (f" within {within}" if within else "")
        return (
            told
            + (f", covariates {', '.join(self.covariates)}" if self.covariates else "")
            + options.told_where(self.where)
        )

    def check(self, schema: Schema, neighbors: Neighbors) -> None:
        """Refuse a treatment of other than two levels, and people with several rows."""
        refuse_dependent_rows(schema, "an experiment", "mean(outcome, by=treatment) has intervals by person")
        super().check(schema, neighbors)
        labels = self.plan(schema).cells[0].labels
        shown = f"{len(labels)} in {self.treatment!r}: {', '.join(map(str, labels[:10]))}"
        require(len(labels) == 2, "treatment", shown, _TREATMENT)

    def describe(self, measured: Measurement) -> str:
        """Describe the sums, and the standard error that noise alone would give a difference of means."""
        half, noise = self.plan(measured.context.schema).scaled[1][0], measured.law.variances[1] * measured.rows.size
        each = 2 * half * measured.steps[1] * float(np.sqrt(noise))
        told = "; ".join(f"{each / n:.3g} with {n:,} rows" for n in (1_000, 10_000, 100_000))
        return (
            f"{measured.describe()}\n"
            f"standard error of the effect from privacy noise alone, with arms and strata of one size, about: {told}"
        )

    # What is inferred

    def infer(self, release: Release | None = None) -> ExperimentResults:
        """Infer from a release of this question, or of means of the columns by arm: free, and without any row.

        Raises
        ------
        InferenceError
            If the release was made for other columns, arms or rows.
        NotProvedError
            Where a person may have several rows.
        """
        found, plan = self._release_and_sums(release)
        self.check(plan.schema, found.neighbors)
        released, means = Released.of_release(found, context_of(found), plan.rows), infer_sums(found, plan)
        known: dict[str, Any] = {"labels": tuple(named_cells(plan.cells)), "nobs": means.inference.nobs,
                 "nobs_is_public": means.inference.nobs_is_public}  # fmt: skip
        sums, half = plan.moment_sums(released.values, released.law, released.steps), plan.scaled[1].tolist()
        control, treated = plan.cells[0].labels
        strata = ", ".join(map(options.axis_name, self.axes[1:]))
        return ExperimentResults(
            self._inferred(released, **known),
            found,
            model_name=f"Private {'adjusted effect' if self.adjusts else 'difference in means'}",
            response=self.columns(plan.schema)[0],
            notes=(
                f"The effect is of {self.treatment} = {treated} against {control}; each arm has a variance of its own.",
                *([f"Adjusted for {', '.join(self.covariates)} by slopes of their own in each arm (Lin 2013); no model "
                   "has to be right."] if self.adjusts else []),
                *([f"Arms are compared within {strata}; strata are weighted by their rows."] if strata else []),
                *options.where_notes(self.where),
            ),
            means=means,
            compared={
                name: (effects(sums, half[place], place=place, **known), half[place] * spread_of(sums, place))
                for place, name in enumerate(self.columns(plan.schema)) if place
            },
        )  # fmt: skip

    def estimate(self, released: Released, *, alpha: float = 0.05, contrasts: Contrasts = None) -> BatchEstimates:
        """Infer from many releases at once; see `Procedure.estimate`."""
        check_summed(released)
        return self._inferred(released).batch(alpha, contrasts)

    def _inferred(self, released: Released, **known: Any) -> EffectInference:
        plan = self.plan(released.schema)
        sums = plan.moment_sums(released.values, released.law, released.steps)
        return effects(sums, float(plan.scaled[1][0]), adjust=self.adjusts, **known)


@suggests
def experiment(
    outcome: str,
    treatment: str,
    data: Data | Release | None = None,
    *,
    covariates: Columns = (),
    strata: Columns = (),
    where: str | None = None,
    method: str = "auto",
) -> Experiment:
    """Estimate the average effect of a treatment in an experiment.

    Parameters
    ----------
    outcome : str
        A numeric column, a Boolean, or an expression such as ``"log(1 + income)"``. Values are clamped to their
        declared bounds, and the effect is that on clamped values.
    treatment : str
        The arms, of which there are two: a Boolean, a Category of two levels, the first of which is the control, or a
        condition such as ``"arm == 'new'"``.
    data : PrivateData, PublicData or Release, optional
        Rows to measure; or a release of this question, or of `mean` of the columns by treatment and strata, which costs
        nothing more.
    covariates : str or sequence of str
        Columns known before treatment: numeric, Boolean, Category (of which every level but the first is a column), or
        expressions. They adjust the effect and are compared between arms.
    strata : str or sequence of str
        Groups within which treatment was assigned: columns of levels, or conditions.
    where : str, optional
        A condition on declared columns; other rows are not counted.
    method : {"auto", "difference", "adjusted"}
        Difference in means, or adjusted for the covariates, which "auto" does where there are any. Free to change.

    Returns
    -------
    Experiment
        Its ``fit(privacy)`` gives `ExperimentResults`: the effect with interval and p-value, means and numbers of rows
        by arm, and the balance of covariates.

    Raises
    ------
    OptionError
        Before anything is spent: if the treatment has other than two levels, a column is named twice, there is nothing
        to adjust for, or an option has no such value.
    FormulaError, UnknownColumnError, SchemaError
        If a column or condition cannot be served from the schema, likewise.
    NotProvedError
        Where a person may have several rows; of ``method="aipw"``.

    Notes
    -----
    One release holds noisy counts, sums and cross-products of the columns, by arm and stratum. With the slopes b1 and
    b0 of the outcome on the covariates within the arms, and shares p1 and p0 of the arms, the adjusted effect is

        (mean of y - b'x in the treated) - (the same in the control), b = p0 b1 + p1 b0,

    the coefficient of the treatment in a regression with all interactions of centred covariates (Lin 2013). Its
    variance is that of ``y - b'x`` in each arm over the size of the arm, and that of the noise in counts and sums. It
    holds under heteroskedasticity and where the regression is wrong, and is about the population that rows come from.
    Noise in the slopes biases the effect in the second order alone where treatment is assigned at random within strata;
    slopes that noise hides are shrunk to zero. Without random assignment the estimate need not be an effect.

    References
    ----------
    Neyman (1923), translated in Statistical Science 5 (1990). Lin (2013), Agnostic notes on regression adjustments to
    experimental data, Annals of Applied Statistics 7. Negi & Wooldridge (2021), Revisiting regression adjustment in
    experiments with heterogeneous treatment effects, Econometric Reviews 40.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(score=dpi.Real(0, 100), before=dpi.Real(0, 100), trained=dpi.Boolean())
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(4000, rng)
    >>> frame["score"] = 0.8 * frame["before"] + 10 * frame["trained"] + rng.uniform(0, 10, 4000)
    >>> data = dpi.PublicData(frame, schema, rng=rng)
    >>> results = dpi.experiment("score", "trained", data, covariates="before").fit(dpi.ZCDP(0.1))
    >>> bool(results.conf_int().loc["effect"].between(8, 12).all())
    True
    """
    if method == "aipw":
        raise NotProvedError(_AIPW)
    require(is_text(treatment), "treatment", treatment, _TREATMENT)
    axes = (*options.axes_of(treatment), *options.axes_of(strata))
    bare = is_list(covariates) and not len(covariates)
    columns = () if bare else options.column_texts("covariates", covariates)
    return Experiment.asking(locals(), axes=axes, covariates=columns)
