"""Questions of regressions by noisy Newton rounds."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from statsmodels.genmod.families import links

from dpinfer.errors import FormulaError, NotProvedError, OptionError, ReleaseFormatError
from dpinfer.inference.newton_inference import METHODS
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.conditions import told_where, where_notes
from dpinfer.procedures.expected import sizes_shown
from dpinfer.procedures.newton_columns import NewtonColumns, columns_of
from dpinfer.procedures.newton_count_steps import CountPlan
from dpinfer.procedures.newton_counts import COUNTS, CountModel
from dpinfer.procedures.newton_estimates import estimates_of
from dpinfer.procedures.newton_margins import MARGINS, Margins, margins_of
from dpinfer.procedures.newton_models import BinaryModel, EqualSpreadModel, LinearModel, RoundModel
from dpinfer.procedures.newton_people import PeoplePlan
from dpinfer.procedures.newton_robust import HuberModel, QuantileModel
from dpinfer.procedures.newton_steps import NewtonPlan
from dpinfer.procedures.options import TARGET, TRUTH, Allowed, inferred, is_number, is_text, measured, one_of
from dpinfer.procedures.procedure import Procedure
from dpinfer.procedures.stored import context_of
from dpinfer.results.base import PrivateResults
from dpinfer.results.glm import GLMResults
from dpinfer.schema.points import FormulaDesign

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Context, Slot, Stage
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.schema import Schema

__all__ = ["COVARIANCES", "Newton"]

COVARIANCES = ("HC1", "nonrobust")

_FORMULA = Allowed(lambda given: isinstance(given, str), 'a formula such as "affair ~ age"')

_EXPRESSION = Allowed(lambda given: given is None or is_text(given), "a column or a bounded expression, or None")

_RANGES = Allowed(lambda given: given is None or isinstance(given, bool), "True or False")

_BINARY = ("logit", "probit", "cloglog")

_PARAMETERS = {"negativebinomial": ("alpha", 1e-6, 100.0), "quantile": ("q", 0.0, 1.0), "huber": ("tuning", 0.1, 10.0)}
"""What the parameter of a model is called, and the numbers between which it lies."""

_UNLIKELY = "the numbers of the release are none that its question makes"

_INSTEAD = (
    "With few rows or a small price, rounds under PureDP may leave terms not determined. Where the declared bounds fit "
    'the data, method="gram" often bounds them, for errors of equal spread.'
)

_LARGEST = 1e150
"""Settings are smaller: columns may be as small as that over their unit."""

_LINKS = {"logit": links.Logit, "probit": links.Probit, "cloglog": links.CLogLog, **dict.fromkeys(COUNTS, links.Log)}

_TITLES = {
    "ols": "OLS",
    "logit": "Logit",
    "probit": "Probit",
    "cloglog": "Binomial, complementary log-log",
    "huber": "Robust",
    "quantile": "Quantile",
    **COUNTS,
}
"""What tables call a model."""


@dataclass(frozen=True, eq=False)
class Newton(Procedure):
    """A regression by noisy Newton rounds. See `ols`, `logit`, `glm`."""

    procedures = ("newton",)

    formula: str = measured("", _FORMULA)
    model: str = measured("ols", one_of(tuple(_TITLES)))
    parameter: float | None = None
    where: str | None = None
    ranges: bool | None = measured(None, _RANGES)
    weights: str | None = measured(None, _EXPRESSION)
    offset: str | None = measured(None, _EXPRESSION)
    exposure: str | None = measured(None, _EXPRESSION)
    cov_type: str = measured("HC1", one_of(COVARIANCES))
    margins: bool = measured(default=False, allowed=TRUTH)
    _: KW_ONLY
    inference: str = inferred("auto", one_of(METHODS))
    target: str = inferred("population", TARGET)

    @property
    def rounds(self) -> RoundModel:
        """What the model asks of the rows."""
        if self.model in COUNTS:
            return CountModel.named(self.model, self.parameter)
        if self.model == "huber":
            return HuberModel() if self.parameter is None else HuberModel(self.parameter)
        if self.model == "quantile":
            return QuantileModel() if self.parameter is None else QuantileModel(self.parameter)
        if self.model == "ols":
            return LinearModel() if self.cov_type == "HC1" else EqualSpreadModel()
        return BinaryModel(self.model)

    def check_options(self) -> None:
        """Refuse parameters and margins that the model does not have, and errors of equal spread where they are not."""
        if self.parameter is not None:
            name, low, high = _PARAMETERS.get(self.model, ("parameter", 0.0, 0.0))
            if not (is_number(self.parameter) and low < self.parameter < high):
                raise OptionError(name, self.parameter, f"a number between {low:g} and {high:g}")
        if self.margins and self.rounds.response is None:
            raise OptionError(
                "margins", True, f"False: with the identity link of {self.model} effects are coefficients"
            )
        if self.cov_type == "HC1":
            return
        if self.model != "ols":
            raise NotProvedError(f'cov_type="{self.cov_type}" is served for ols, not for {self.model}')
        if self.weights is not None:
            raise NotProvedError(
                f'cov_type="{self.cov_type}" takes errors as spreading equally, and weights= may be there because they '
                'do not: take cov_type="HC1"'
            )

    def columns(self, schema: Schema) -> NewtonColumns:
        """Return the columns, compiled against a schema."""
        return columns_of(schema, self.formula, self.where, self.weights, self.offset, self.exposure)

    def plan(self, context: Context) -> NewtonPlan:
        """Return the stages."""
        columns = self.columns(context.schema)
        norm: Norm = "l1" if isinstance(context.privacy, PureDP) else "l2"
        if isinstance(self.rounds, CountModel):
            if context.schema.rows_per_unit > 1:
                raise NotProvedError(f"{self.model} takes rows as independent, and a person may have several")
            return CountPlan(columns, self.rounds, context, self._ranged)
        plan = NewtonPlan if context.schema.rows_per_unit == 1 else PeoplePlan
        return plan(columns, self.rounds.under(norm, len(columns.names)), context, self._ranged)

    @property
    def _ranged(self) -> bool:
        """Whether ranges are measured: where nothing is said, as the model has a share for them."""
        return "ranges" in self.rounds.shares if self.ranges is None else self.ranges

    def resolve(self, context: Context) -> Self:  # noqa: ARG002
        """Return the same question with ranges decided."""
        return replace(self, ranges=self._ranged)

    @property
    def about(self) -> object:
        """What is measured, with ranges decided."""
        return super().about if self.ranges is not None else replace(self, ranges=self._ranged).about

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        weighted = "" if self.weights is None else f", weights {self.weights}"
        margins = ", with margins" if self.margins else ""
        return f"{self.model}: {self.formula}{told_where(self.where)}{weighted}{margins}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse a formula that the schema cannot bound, and a response that the model does not have."""
        columns = self.columns(schema)
        _ = columns.maps, columns.weight
        if self.cov_type != "HC1" and schema.rows_per_unit > 1:
            raise NotProvedError(
                f'cov_type="{self.cov_type}" takes rows as independent, and a person may have several: take '
                'cov_type="HC1", which is clustered by person'
            )
        columns.refuse_collinear()
        if self.weights is not None and self.model not in ("ols", *_BINARY):
            raise NotProvedError(f"weights= is served for ols, logit, probit and cloglog, not for {self.model}")
        if columns.offsets and self.model not in COUNTS:
            raise NotProvedError(
                "offset= and exposure= are served with a logarithmic link, by poisson and by glm with Poisson(), "
                f"NegativeBinomial() or Gamma(), not for {self.model}"
            )
        response = columns.response
        lower, upper = response.expression.lower, response.expression.upper
        if self.model in COUNTS and lower < 0:
            raise FormulaError(
                response.name,
                f"lies between {lower:g} and {upper:g}: the response of {self.model} is not negative",
                "declare a lower bound of 0 or more",
            )
        if self.model in _BINARY and not (response.codings or columns.binary):
            raise FormulaError(
                response.name,
                f"lies between {lower:g} and {upper:g}: the response of {self.model} is 0 or 1",
                "declare Boolean(), Integer(0, 1) or a Category of two levels, or write a condition: I(y > 3)",
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
        """Ask for ranges, a start, counts, two rounds, and perhaps sums for margins; see `NewtonPlan`, `Margins`."""
        plan = self.plan(context)
        return plan.stage(place, released) if place < len(plan.kinds) else margins_of(plan, released)

    def check_release(self, release: Release) -> None:
        """Refuse a release whose sums or settings are not those of the stages."""
        context = context_of(release)
        plan = self.plan(context)
        with _reading():
            self._check_stages(release, plan)

    def _check_stages(self, release: Release, plan: NewtonPlan) -> None:
        context = plan.context
        if release.kind != self.release_kind(context) or len(release.stages) != len(plan.kinds) + self.margins:
            raise ReleaseFormatError("stages: not those that the question asks for")
        for place, stage in enumerate(release.stages):
            _check_finite(stage.settings)
            before = release.stages[:place]
            asked = plan.stage(place, before) if place < len(plan.kinds) else margins_of(plan, before)
            if asked.measure.names != stage.names or asked.settings.keys() != stage.settings.keys():
                raise ReleaseFormatError("the sums of the release are not those that its question asks for")
            for name, mine in asked.settings.items():
                if np.shape(mine) != np.shape(stage.settings[name]):
                    raise ReleaseFormatError(f"settings: {name} is of a wrong shape")

    def describe(self, measured: Measurement) -> str:
        """Describe the measurement, and how much wider noise would make intervals, before anything is spent.

        Returns
        -------
        str
            What is measured, its bounds, noise and guarantee; and by how much privacy noise would make standard errors
            larger at several numbers of rows, if most rows lie at usual distances from the middle.
        """
        plan = self.plan(measured.context)
        sizes = sizes_shown(measured.context.nobs)
        shown = ", ".join(f"{plan.expected_ratio(size) - 1:.1%} at n = {size:,}" for size in sizes)
        return (
            f"{measured.describe()}\n"
            "standard errors of slopes from sampling and noise together, over those from sampling alone, about\n"
            f"1 + {shown} (a rough guide: rare levels and collinear columns carry more)"
            + (f"\n{_INSTEAD}" if self._by_products(measured.context) else "")
        )

    def _by_products(self, context: Context) -> bool:
        """Whether cross-products serve the question, and under Laplace noise often bound what rounds do not."""
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
        with _reading():
            estimated = estimates_of(
                plan, dict(zip(plan.kinds, stages, strict=True)), method=self.inference, target=self.target
            )
            if not np.isfinite([estimated.params, np.diag(estimated.cov_sampling + estimated.cov_noise)]).all():
                raise ReleaseFormatError(_UNLIKELY)
            told = plan.notes(stages)
        shown: dict[str, Any] = {
            "model_name": f"Private {_TITLES[self.model]}",
            "response": plan.columns.response.name,
            "notes": (*where_notes(self.where), *told),
            "design": FormulaDesign(found.schema, plan.columns.compiled.design),
        }
        if theirs._by_products(plan.context) and len(estimated.flags) > len(estimated.notes):
            shown["notes"] += (_INSTEAD,)
        if plan.model.response is None:
            return PrivateResults(estimated, found, **shown)
        if theirs.margins:
            slope, changes = Margins(plan).read(found.stages[-1], estimated)
            shown |= {"average_slope": slope, "average_changes": changes}
            shown["notes"] += (f"Sums for average marginal effects took {float(MARGINS):.0%} of the price.",)
        return GLMResults(estimated, found, link=_LINKS[self.model](), counts=self.model not in _BINARY, **shown)


@contextmanager
def _reading() -> Iterator[None]:
    """Refuse numbers of a release with which nothing can be computed: no stage has such."""
    try:
        with np.errstate(all="ignore"):
            yield
    except (ArithmeticError, TypeError, np.linalg.LinAlgError) as error:
        raise ReleaseFormatError(_UNLIKELY) from error


def _check_finite(settings: Mapping[str, Any]) -> None:
    """Refuse settings that are no finite numbers."""
    for name, value in settings.items():
        try:
            right = bool((np.abs(np.asarray(value, dtype=np.float64)) <= _LARGEST).all())
        except (ArithmeticError, TypeError, ValueError):
            right = False
        if not right:
            raise ReleaseFormatError(f"settings: {name} is not made of finite numbers")
