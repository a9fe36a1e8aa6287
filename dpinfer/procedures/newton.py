"""Regressions by noisy Newton rounds: questions of `logit` and its kin."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.inference.newton import solve_rounds
from dpinfer.inference.newton_inference import METHODS, NewtonInference
from dpinfer.inference.newton_terms import floored, split_terms
from dpinfer.procedures.conditions import where_notes
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.newton_columns import NewtonColumns
from dpinfer.procedures.newton_models import BinaryModel, LinearModel, RoundModel
from dpinfer.procedures.newton_steps import NewtonPlan, cut_of
from dpinfer.procedures.options import Allowed, inferred, measured, one_of
from dpinfer.procedures.procedure import Procedure, context_of
from dpinfer.results.base import PrivateResults

if TYPE_CHECKING:
    from dpinfer.kernel.stage import Context, Data, Slot, Stage
    from dpinfer.privacy.units import Neighbors
    from dpinfer.release import Release, StageRelease
    from dpinfer.schema.schema import Schema

__all__ = ["Newton", "logit"]

_FORMULA = Allowed(lambda given: isinstance(given, str), 'a formula such as "affair ~ age"')


@dataclass(frozen=True, eq=False)
class Newton(Procedure):
    """A regression by noisy Newton rounds. See `logit`, `ols`."""

    procedures = ("newton",)

    formula: str = measured("", _FORMULA)
    model: str = measured("ols", one_of(("ols", "logit", "probit", "cloglog")))
    where: str | None = None
    ranges: bool | None = None
    _: KW_ONLY
    inference: str = inferred("auto", one_of(METHODS))

    def columns(self, schema: Schema) -> NewtonColumns:
        """Return the columns, compiled against a schema."""
        return NewtonColumns(schema, self.formula, self.where)

    @property
    def rounds(self) -> RoundModel:
        """What the model asks of the rows."""
        return LinearModel() if self.model == "ols" else BinaryModel(self.model)

    def plan(self, context: Context) -> NewtonPlan:
        """Return the stages."""
        ranges = self.model == "ols" if self.ranges is None else self.ranges
        return NewtonPlan(self.columns(context.schema), self.rounds, context, ranges)

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        return f"{self.model} {self.formula}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse a formula that the schema cannot bound."""
        _ = self.columns(schema).maps

    def slots(self, context: Context) -> tuple[Slot, ...]:
        """Share the price among the rounds."""
        return self.plan(context).slots()

    def columns_read(self, context: Context) -> tuple[str, ...]:
        """Columns of the data that are read."""
        return tuple(self.columns(context.schema).features.columns)

    def stage(self, place: int, context: Context, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for ranges, a start, counts, and two rounds; see `NewtonPlan`."""
        return self.plan(context).stage(place, released)

    def infer(self, release: Release | None = None) -> PrivateResults:
        """Infer from a release of this question: free, and without any row."""
        found, theirs = self._asked_of(release)
        assert isinstance(theirs, Newton)
        estimated = theirs.estimated(found, self.inference)
        columns = self.columns(found.schema)
        assert columns.compiled.response is not None
        return PrivateResults(
            estimated,
            found,
            model_name=f"Private {self.model.capitalize()}",
            response=columns.compiled.response.name,
            notes=tuple(where_notes(self.where)),
        )

    def estimated(self, release: Release, method: str) -> NewtonInference:
        """Return the inference of a release of this question."""
        context = context_of(release)
        plan = self.plan(context)
        stages = dict(zip(plan.kinds, release.stages, strict=True))
        start = plan.begun(stages["start"])
        rounds = [plan.round(stages["first"], last=False), plan.round(stages["second"], last=True)]
        last = stages["second"]
        cut = cut_of(last.settings)
        terms = split_terms(last, plan.model.terms(cut, last=True), plan.width)
        back = rounds[-1].spread
        factor = plan.model.factors(cut)[0]
        meat = back @ floored(terms["meat"].value, 0.0) @ back.T * factor**2
        fit = solve_rounds(
            rounds,
            plan.model.response,
            start.moments(intercept=plan.columns.intercept),
            meat,
            start=rounds[-1].point,
            size=start.size,
        )
        unit, shift = 1.0, np.zeros(plan.width)
        if plan.model.response is None:
            unit = float(stages["counts"].settings["unit"])
            shift[0] = float(stages["start"].settings["shift"])
        public = context.nobs if plan.columns.features.keeps_every_row else None
        return NewtonInference(
            plan.columns.names,
            fit,
            start.transform.T * unit,
            shift,
            nobs=start.size if public is None else float(public),
            nobs_is_public=public is not None,
            method=method,
        )


@suggests
def logit(
    formula: str,
    data: Data | Release | None = None,
    *,
    where: str | None = None,
    ranges: bool | None = None,
    inference: str = "auto",
) -> Newton:
    """Logistic regression under differential privacy."""
    return Newton.asking(locals(), model="logit")
