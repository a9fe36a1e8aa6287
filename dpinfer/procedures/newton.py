"""Regressions by noisy Newton rounds: questions of `logit` and its kin."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.newton_inference import METHODS
from dpinfer.procedures.conditions import where_notes
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.newton_estimates import estimates_of
from dpinfer.procedures.newton_columns import NewtonColumns, offsets_of
from dpinfer.procedures.newton_count_steps import CountPlan
from dpinfer.procedures.newton_counts import COUNTS, CountModel, largest_response
from dpinfer.procedures.newton_models import BinaryModel, LinearModel, RoundModel
from dpinfer.procedures.newton_steps import NewtonPlan
from dpinfer.procedures.options import Allowed, inferred, is_number, is_text, measured, one_of
from dpinfer.procedures.procedure import Procedure, context_of
from dpinfer.results.base import PrivateResults

if TYPE_CHECKING:
    from dpinfer.inference.newton_inference import NewtonInference
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
    model: str = measured("ols", one_of(("ols", "logit", "probit", "cloglog", *COUNTS)))
    where: str | None = None
    ranges: bool | None = None
    offset: str | None = measured(None, Allowed(lambda given: given is None or is_text(given), "a column or an expression"))
    exposure: str | None = measured(
        None, Allowed(lambda given: given is None or is_text(given), "a column or an expression")
    )
    alpha: float = measured(1.0, Allowed(lambda given: is_number(given) and 0 < given < np.inf, "a positive number"))
    _: KW_ONLY
    inference: str = inferred("auto", one_of(METHODS))

    def columns(self, schema: Schema) -> NewtonColumns:
        """Return the columns, compiled against a schema."""
        return NewtonColumns(schema, self.formula, self.where, offsets_of(self.offset, self.exposure, schema))

    @property
    def rounds(self) -> RoundModel:
        """What the model asks of the rows."""
        return LinearModel() if self.model == "ols" else BinaryModel(self.model)

    def plan(self, context: Context) -> NewtonPlan:
        """Return the stages."""
        columns = self.columns(context.schema)
        if self.model in COUNTS:
            counts = CountModel.named(self.model, float(self.alpha), largest_response(columns))
            return CountPlan(columns, counts, context, bool(self.ranges))
        ranges = self.model == "ols" if self.ranges is None else self.ranges
        return NewtonPlan(columns, self.rounds, context, ranges)

    def text(self, schema: Schema) -> str:  # noqa: ARG002
        """Return the question in one line."""
        return f"{self.model} {self.formula}"

    def check(self, schema: Schema, neighbors: Neighbors) -> None:  # noqa: ARG002
        """Refuse a formula that the schema cannot bound."""
        columns = self.columns(schema)
        _ = columns.maps
        if self.model in COUNTS:
            largest_response(columns)

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
        plan = self.plan(context_of(release))
        return estimates_of(plan, dict(zip(plan.kinds, release.stages, strict=True)), method)


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
