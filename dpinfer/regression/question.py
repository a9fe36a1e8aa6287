"""The question of a regression by noisy Newton iterations, for every model."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dpinfer.checks import TRUTH, Allowed, is_number, is_text, one_of
from dpinfer.errors import FormulaError, NotProvedError, OptionError, ReleaseFormatError, UnknownColumnError
from dpinfer.kernel.rows.iterations import MOST_GROUPS
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.options import TARGET, inferred, measured, told_where, where_notes
from dpinfer.procedures.procedure import Procedure, check_stage, context_of, sizes_shown
from dpinfer.regression.design import Columns, columns_of
from dpinfer.regression.inference import METHODS, Fit, RegressionInference, solved
from dpinfer.regression.iterations import Plan, Start
from dpinfer.regression.margins import MARGINS, Margins
from dpinfer.regression.models import MODELS, Model
from dpinfer.regression.results import GLMResults
from dpinfer.results.base import PrivateResults
from dpinfer.schema.formula import FormulaDesign

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Context, Slot, Stage
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array

__all__ = ["COVARIANCES", "UNLIKELY", "Newton", "estimated_from", "fitted", "notes_of", "reading"]

COVARIANCES = ("HC1", "nonrobust", "cluster")

_FORMULA = Allowed(lambda given: isinstance(given, str), 'a formula such as "affair ~ age"')

_EXPRESSION = Allowed(lambda given: given is None or is_text(given), "a column or a bounded expression, or None")

_GROUPS = Allowed(lambda given: given is None or is_text(given), "a column whose levels are the groups, or None")

_RANGES = Allowed(lambda given: given is None or isinstance(given, bool), "True or False")

UNLIKELY = "the numbers of the release are none that its question makes"

_FAR_STEP = {"linear": 2.0, "choice": 4.0, "log": 2.0, "huber": 2.0, "quantile": 2.0}
"""Length of the last step, as a standard deviation of the linear predictor, at most. In units of the response's spread
it is 2: the predictor at the estimate varies no more than the response, and that at the point hardly more."""

_REACH = {"linear": 6.0, "huber": 6.0, "quantile": 6.0}
"""The same of what the true step may be where the Hessian is noise, if that is more: the spread that counts show may be
a third of the response's deviation, where rare rows carry it."""

_BEND = {"log": 1.0, "choice": 0.4, "quantile": 0.5}
"""Relative change of the weights of a Hessian with the linear predictor, about: of a quantile's in bandwidths."""

_INSTEAD = (
    "With few rows or a small epsilon, intervals from iterations under PureDP may be unbounded. Where the declared "
    'bounds fit the data, method="gram" often gives finite ones; it assumes homoskedastic errors.'
)

_LEAST_ROWS = 10.0
"""Rows beyond a quantile, at least."""

_SHOWN = 0.05
"""Part of an interval that clipping lengthens it by, from which a table says so."""

_ROBUST = "Standard errors are heteroskedasticity-robust (HC1), and remain valid if the model is misspecified."
_CLUSTERED = "Standard errors are clustered by person, and remain valid if the model is misspecified."
_EQUAL = (
    "Standard errors are nonrobust: they assume a correctly specified model with homoskedastic errors. Neither "
    "assumption is checked."
)


@dataclass(frozen=True, eq=False)
class Newton(Procedure):
    """A regression by noisy Newton iterations. See `ols`, `logit`, `glm`."""

    procedures = ("newton",)

    formula: str = measured("", _FORMULA)
    model: str = measured("ols", one_of(tuple(MODELS)))
    parameter: float | None = None
    where: str | None = None
    ranges: bool | None = measured(None, _RANGES)
    weights: str | None = measured(None, _EXPRESSION)
    offset: str | None = measured(None, _EXPRESSION)
    exposure: str | None = measured(None, _EXPRESSION)
    cov_type: str = measured("HC1", one_of(COVARIANCES))
    groups: str | None = measured(None, _GROUPS, later=True)
    margins: bool = measured(default=False, allowed=TRUTH)
    _: KW_ONLY
    inference: str = inferred("auto", one_of(METHODS))
    target: str = inferred("population", TARGET)

    @property
    def kind(self) -> Model:
        """The model."""
        return MODELS[self.model]

    def check_options(self) -> None:
        """Refuse parameters and margins that the model does not have, and equal variances where they are not served."""
        if self.parameter is not None:
            name, low, high = self.kind.option or ("parameter", 0.0, 0.0)
            if not (is_number(self.parameter) and low < self.parameter < high):
                raise OptionError(name, self.parameter, f"a number between {low:g} and {high:g}")
        if self.margins and self.kind.response is None:
            raise OptionError(
                "margins", True, f"False: with the identity link of {self.model} marginal effects are the coefficients"
            )
        if (self.cov_type == "cluster") != (self.groups is not None):
            right = 'a column whose levels are the clusters, together with cov_type="cluster"'
            raise OptionError("groups", self.groups, right)
        if self.cov_type != "nonrobust":
            return
        if self.model != "ols":
            raise NotProvedError(f'cov_type="{self.cov_type}" is available for ols, not for {self.model}')
        if self.weights is not None:
            raise NotProvedError(
                f'cov_type="{self.cov_type}" assumes homoskedastic errors, which weights= calls into question: use '
                'cov_type="HC1"'
            )

    def columns(self, schema: Schema) -> Columns:
        """Return the columns, compiled against a schema."""
        return columns_of(schema, self.formula, self.where, self.weights, self.offset, self.exposure, self.groups)

    def plan(self, context: Context) -> Plan:
        """Return the stages."""
        parameter = self.kind.default if self.parameter is None else float(self.parameter)
        scales, robust = self.ranges is not False, self.cov_type != "nonrobust"
        return _plan(self.columns(context.schema), self.kind, parameter, context, scales, robust)

    def resolve(self, context: Context) -> Self:  # noqa: ARG002
        """Return the same question with ranges decided."""
        return replace(self, ranges=self.ranges is not False)

    @property
    def about(self) -> object:
        """What is measured, with ranges decided."""
        return super().about if self.ranges is not None else replace(self, ranges=True).about

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        weighted = "" if self.weights is None else f", weights {self.weights}"
        grouped = "" if self.groups is None else f", clustered by {self.groups}"
        margins = ", with margins" if self.margins else ""
        return f"{self.model}: {self.formula}{told_where(self.where)}{weighted}{grouped}{margins}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse a formula that the schema cannot bound, and a response that the model does not have."""
        columns = self.columns(schema)
        if self.groups is not None:
            self._check_groups(schema)
        if columns.within is not None and (self.model != "ols" or self.weights is not None):
            asked = "weights=" if self.model == "ols" else self.model
            raise NotProvedError(f"person effects are available for ols without weights=, not with {asked}")
        _ = columns.maps, columns.weight, columns.independent  # each is refused where there is none
        if self.cov_type == "nonrobust" and schema.rows_per_unit > 1:
            raise NotProvedError(
                f'cov_type="{self.cov_type}" assumes independent rows, and a person may have several: use '
                'cov_type="HC1", which clusters by person'
            )
        binary, log = self.kind.kind == "binary", self.kind.kind == "log"
        if self.weights is not None and not (binary or self.model == "ols"):
            raise NotProvedError(f"weights= is available for ols, logit, probit and cloglog, not for {self.model}")
        if columns.offsets and not log:
            raise NotProvedError(
                "offset= and exposure= need a log link: they are available for poisson, and for glm with Poisson(), "
                f"NegativeBinomial() or Gamma(), not for {self.model}"
            )
        response = columns.response
        lower, upper = response.expression.lower, response.expression.upper
        if log and lower < 0:
            raise FormulaError(
                response.name,
                f"lies between {lower:g} and {upper:g}: the response of {self.model} is not negative",
                "declare a lower bound of 0 or more",
            )
        if binary and not (response.codings or columns.binary):
            raise FormulaError(
                response.name,
                f"lies between {lower:g} and {upper:g}: the response of {self.model} is 0 or 1",
                "declare Boolean(), Integer(0, 1) or a Category of two levels, or write a condition: I(y > 3)",
            )

    def _check_groups(self, schema: Schema) -> None:
        """Refuse groups that are not told by a column of levels, and people who may be in several."""
        assert self.groups is not None
        if self.groups not in schema:
            raise UnknownColumnError(self.groups, schema, "groups")
        count = len(schema[self.groups].level_texts)
        if not 2 <= count <= MOST_GROUPS:
            raise OptionError("groups", self.groups, f"a column of 2 to {MOST_GROUPS:,} levels, such as a Category")
        if schema.rows_per_unit > 1:
            raise NotProvedError(
                "groups= is proved for independent rows in groups: people with several rows are clusters of their own, "
                "and may be in several groups"
            )

    # What is measured

    def slots(self, context: Context) -> tuple[Slot, ...]:
        """Share the price among the stages."""
        plan = self.plan(context)
        return Margins(plan).slots() if self.margins else plan.slots()

    def columns_read(self, context: Context) -> tuple[str, ...]:
        """Columns of the data that are read."""
        return tuple(self.columns(context.schema).features.columns)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for scales, a start, counts and iterations, and perhaps for margins; see `Plan`, `Margins`."""
        plan = self.plan(context)
        if place < len(plan.kinds):
            return plan.stage(place, released)
        start = dict(zip(plan.kinds, released, strict=True))["start"]
        return Margins(plan).stage(estimated_from(plan, released), start)

    def check_release(self, release: Release) -> None:
        """Refuse a release whose sums or settings are not those of the stages."""
        context = context_of(release)
        plan = self.plan(context)
        with reading():
            if release.kind != self.release_kind(context) or len(release.stages) != len(plan.kinds) + self.margins:
                raise ReleaseFormatError(
                    "stages: not those that the question asks for. Iterations of earlier versions had others: such a "
                    "release can be read, but this version does not infer from it"
                )
            for place, stage in enumerate(release.stages):
                check_stage(self.stage(place, context, release.stages[:place]), stage)

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, and how much wider noise would make intervals, before anything is spent.

        Returns
        -------
        str
            What is measured, its bounds, noise and guarantee; and by how much privacy noise would make standard errors
            larger at several numbers of rows, for scores that spread as normal ones do.
        """
        plan = self.plan(measured.context)
        sizes = sizes_shown(measured.context.nobs)
        shown = ", ".join(f"{plan.expected_ratio(size) - 1:.1%} at n = {size:,}" for size in sizes)
        return (
            f"{measured.describe()}\n"
            "expected increase in standard errors of slopes due to privacy noise: about\n"
            f"{shown} (a rough guide: more for skewed columns and rare levels)"
            + (f"\n{_INSTEAD}" if self._by_products(measured.context) else "")
        )

    def _by_products(self, context: Context) -> bool:
        """Whether cross-products serve the question, and under Laplace noise often bound what iterations do not."""
        laplace = isinstance(context.privacy, PureDP) and context.schema.rows_per_unit == 1
        return laplace and self.model == "ols" and self.weights is None

    # What is inferred

    def infer(self, release: Release | None = None) -> PrivateResults:
        """Infer from a release of this question: free, and without any row.

        Raises
        ------
        InferenceError
            If the release was made for another question.
        """
        found, theirs = self._asked_of(release)
        assert isinstance(theirs, Newton)
        plan = theirs.plan(context_of(found))
        stages = found.stages[: len(plan.kinds)]
        with reading():
            estimated = estimated_from(plan, stages, self.inference, self.target)
            if not np.isfinite([estimated.params, np.diag(estimated.cov_sampling + estimated.cov_noise)]).all():
                raise ReleaseFormatError(UNLIKELY)
            told = notes_of(plan, stages, estimated, self.where)
        shown: dict[str, Any] = {
            "model_name": f"Private {self.kind.title}",
            "response": plan.columns.response.name,
            "notes": tuple(told),
            "design": FormulaDesign(found.schema, plan.columns.compiled.design),
        }
        if theirs._by_products(plan.context) and len(estimated.flags) > len(estimated.notes):
            shown["notes"] += (_INSTEAD,)
        if self.kind.response is None:
            return PrivateResults(estimated, found, **shown)
        if theirs.margins:
            slope, changes = Margins(plan).read(found.stages[-1], estimated)
            shown |= {"average_slope": slope, "average_changes": changes}
            shown["notes"] += (
                f"Average marginal effects used {float(MARGINS):.0%} of the privacy budget of this fit.",
            )
        return GLMResults(estimated, found, link=self.kind.link(), counts=self.kind.kind == "log", **shown)


_plan = lru_cache(maxsize=16)(Plan)
"""One plan for all stages of a question, and for what is inferred from them."""


def fitted(plan: Plan, stages: Mapping[str, StageRelease]) -> Fit:
    """Return the estimate of the last iteration, in the coordinates of the start."""
    start, last = plan.begun(stages["start"]), stages["second"]
    iterations = plan.iterations(stages)
    meat, noise = plan.products(last)
    settings, clipped = last.settings, 0.0
    if plan.robust:
        curves = plan.curves(settings)
        clipped, square = float(settings["lost"]), _square(len(meat)) if plan.norm == "l1" else 1.0
        least = 0.3 * float(settings["spread"]) * start.size * len(meat) * (1.0 if curves is None else curves.size**2)
        factor = (1 + clipped / max(square * float(np.trace(meat)), least)) * float(settings.get("meat", 1.0))
        meat, noise = meat * factor, noise * factor
    else:
        meat, noise = meat / start.size, noise / start.size
    people = plan.context.schema.rows_per_unit
    carried, alone = None, people == 1 and not plan.groups and plan.columns.weight is None
    if alone and plan.robust and plan.model.kind in ("binary", "choice"):  # products of a likelihood's scores
        lengths = plan.lengths(stages["recounts"], start)
        carried = partial(lengths.carried, clip=float(settings["clip"]), seen=float(settings["meat_clip"]))
    return solved(
        iterations,
        plan.weighed(iterations),
        plan.hessian_floor(iterations),
        (meat, noise),
        excess=float(settings["excess"]),
        size=start.size,
        units=start.rows[0] if people == 1 else max(float(stages["recounts"].array.sum()), start.rows[0] / people),
        second=start.second,
        least=start.least if plan.narrow(stages) else start.usual,
        longest=_farthest(plan.model),
        reach=_REACH.get(plan.model.kind, _farthest(plan.model)),
        flat=plan.norm == "l1",
        bend=_bend(plan, start, iterations[-1].point, settings),
        raised=float(settings.get("lacks", 0.0)),
        robust=plan.robust,
        groups=plan.groups,
        clipped=clipped if people == 1 else 0.0,  # of people whose rows are alike products are no multiple of it
        curved=plan.model.kind in ("binary", "choice", "log") and not plan.once and len(iterations) > 1,
        smoothed=plan.model.kind == "quantile",
        carried=carried,
    )


def _bend(plan: Plan, start: Start, point: Array, settings: Mapping[str, Any]) -> float:
    """Return by which part a Hessian's weights change where the linear predictor moves by 1, on average.

    Of a binary response that of a normal predictor with the released moments at the point, about 0 where there is no
    intercept.
    """
    model = plan.model
    bend = _BEND.get(model.kind, 0.0)
    if model.kind == "quantile":
        return bend / float(settings["cut"])
    if model.kind != "binary":
        return bend
    mass = float(start.second[0, 0]) if plan.columns.intercept else 1.0
    centre = float(point @ start.second[0]) / mass if plan.columns.intercept else 0.0
    variance = max(float(point @ start.second @ point) / mass - centre**2, 0.0)
    places = np.linspace(-6.0, 6.0, 601)
    predictor, likely, size = centre + np.sqrt(variance) * places, np.exp(-0.5 * places**2), 1e-4
    change = np.abs(model.weight(predictor + size) - model.weight(predictor - size)) / (2 * size)
    return float(likely @ change / max(float(likely @ model.weight(predictor)), 1e-300))


def _farthest(model: Model) -> float:
    """Return the standard deviation of the linear predictor by which the last step moves it at most.

    That of a binary response moves a probability from 0 to 1 where it is steepest.
    """
    if model.kind != "binary":
        return _FAR_STEP[model.kind]
    assert model.response is not None
    return 1 / float(model.response.slope(np.zeros(1))[0])


def _square(width: int) -> float:
    """Return the squared sum of absolute values of normal coordinates over the sum of their squares, on average."""
    return 1 + (width - 1) * 2 / np.pi


def estimated_from(
    plan: Plan, released: tuple[StageRelease, ...], method: str = "auto", target: str = "population"
) -> RegressionInference:
    """Return the estimates of one regression from its stages."""
    stages = dict(zip(plan.kinds, released, strict=False))
    start, last, fit = plan.begun(stages["start"]), stages["second"], fitted(plan, stages)
    settings, people = last.settings, plan.context.schema.rows_per_unit
    intercept = plan.columns.intercept
    if plan.model.bounded and intercept:
        fit = replace(fit, intercept=(float(settings.get("intercept", 0.0)), float(settings.get("bias", 0.0))))
    notes: tuple[str, ...] = ()
    if plan.model.kind == "quantile":
        noise = fit.score_noise * float(np.linalg.norm(np.linalg.inv(fit.whiten).T[0]))
        if start.size * min(plan.parameter, 1 - plan.parameter) < max(_LEAST_ROWS, 4.0 * noise):
            notes = (
                f"q = {plan.parameter:g} is too extreme for this sample size and privacy budget: few rows lie beyond "
                "it",
            )
    weights, shift = start.transform.T, np.zeros(len(plan.columns.names))
    if plan.model.kind not in ("binary", "log"):
        weights = weights * start.unit
        shift[0] = start.shift if intercept else 0.0
    total, error = start.size, 0.0 if plan.public_size is not None and plan.columns.weight is None else start.rows[1]
    back = np.linalg.pinv(start.transform)
    mean = back @ start.second[0] if intercept else np.zeros(len(weights))
    return RegressionInference(
        plan.columns.names,
        fit,
        weights,
        shift,
        nobs=start.rows[0],
        nobs_is_public=plan.public_size is not None,
        target=target,
        method=method,
        cov_type="nonrobust" if not plan.robust else "cluster" if people > 1 or plan.groups else "HC1",
        notes=notes,
        response=plan.model.response,
        moments=(mean, back @ start.second @ back.T - np.outer(mean, mean)),
        total=total,
        total_variance=error**2,
        slopes=_slopes(plan, start) if intercept else 0.0,
        steepness=plan.slopes(last),
    )


def _slopes(plan: Plan, start: Start) -> float:
    """Return the mean slope over the Hessian's mean weight, for a normal linear predictor; 0 where none is told."""
    model = plan.model
    if model.kind != "binary":
        return 0.0
    assert model.response is not None
    if model.name == "logit":
        return 1.0
    centre = float(start.point @ start.second[0])
    variance = max(float(start.point @ start.second @ start.point) - centre**2, 0.0)
    slopes, weights = (replace(model.response, weight=one) for one in (model.slope, model.weight))
    return float(slopes.average_weight(centre, variance) / weights.average_weight(centre, variance))


def notes_of(
    plan: Plan, released: tuple[StageRelease, ...], found: RegressionInference, where: str | None
) -> list[str]:
    """Return what a table says of its standard errors, and of its rows and residuals."""
    settings = released[len(plan.kinds) - 1].settings
    unit = float(dict(zip(plan.kinds, released, strict=False))["start"].settings["unit"])
    errors = [_CLUSTERED if plan.context.schema.rows_per_unit > 1 else _ROBUST if plan.robust else _EQUAL]
    if plan.groups:
        freedom = f"a t distribution with at most {plan.groups - 1} degrees of freedom"
        errors = [f"Standard errors are clustered by {plan.columns.groups}; tests use {freedom}."]
    if found.lengthened > _SHOWN:
        errors.append(
            f"Intervals are up to {found.lengthened:.0%} longer to allow for bias from clipping large scores (bias "
            "bound in summary_frame())."
        )
    fitted = list(where_notes(where))
    if plan.columns.within is not None:
        order = plan.columns.within.order
        against = "the person's mean" if order is None else f"the person's previous row, ordered by {order}"
        fitted.append(f"Variables are differences from {against}, which removes person effects.")
    if plan.columns.weights is not None:
        fitted.append(f"Rows are weighted by {plan.columns.weights}.")
    if plan.model.kind == "huber":
        fitted.append(
            f"Residuals are clipped at {float(settings['cut']) * unit:.4g}, {plan.parameter:g} times their normalized "
            "median absolute deviation."
        )
    if plan.model.kind == "quantile":
        fitted.append(f"The check loss is smoothed with a bandwidth of {float(settings['score_cut']) * unit:.3g}.")
    return [" ".join(sentences) for sentences in (errors, fitted) if sentences]


@contextmanager
def reading() -> Iterator[None]:
    """Refuse numbers of a release with which nothing can be computed: no stage has such."""
    try:
        with np.errstate(all="ignore"):
            yield
    except (ArithmeticError, TypeError, np.linalg.LinAlgError) as error:
        raise ReleaseFormatError(UNLIKELY) from error
