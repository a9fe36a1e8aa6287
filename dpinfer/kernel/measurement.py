"""A measurement: everything that will be done to the rows at a price, all of it public, before it is done."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from dpinfer.kernel.plan import Plan, planned
from dpinfer.kernel.wording import bound_in_words, measured_in_words, noise_in_words
from dpinfer.release.laws import CHOICES, NoiseLaw

if TYPE_CHECKING:
    from dpinfer.kernel.priced_stage import PricedStage
    from dpinfer.kernel.stage import Context
    from dpinfer.privacy.units import Neighbors
    from dpinfer.schema.schema import People

__all__ = ["Measurement", "price_procedure"]


@dataclass(frozen=True, eq=False)
class Measurement(Plan):
    """What a procedure would do to rows at a price, and what it costs: for people and for studies; nothing runs it.

    Attributes
    ----------
    kind : str
        Name of the procedure's releases.
    text : str
        The question in words.
    question : mapping
        What a release stores of it.
    context : Context
    stages : tuple of PricedStage
        Adaptive ones as they would be on rows spread evenly over the declared bounds.
    slots : tuple of Slot
    costs : tuple of Cost
        What is set aside for each stage; an adaptive one that would cost more is refused.
    cost : Cost
        Of all stages, charged before the first row is read.
    blocks : Blocks, optional
        Where rows are dealt into secret ones: how, and what is fitted to each.
    """

    @property
    def neighbors(self) -> Neighbors:
        """The relation that is protected."""
        return self.context.neighbors

    @property
    def people(self) -> People | None:
        """Whose rows are protected together; None where the unit of protection is one row."""
        return self.context.schema.people

    @property
    def _sums(self) -> list[PricedStage]:
        """Stages that release noisy numbers; of a mere choice the choice."""
        return [stage for stage in self.stages if stage.law.family not in CHOICES] or list(self.stages)

    @property
    def rows(self) -> Any:
        """The row sum of the last stage."""
        return self._sums[-1].rows

    @property
    def names(self) -> tuple[str, ...]:
        """What each released number is."""
        return tuple(name for stage in self._sums for name in stage.names)

    @property
    def law(self) -> NoiseLaw:
        """Noise of every released number."""
        first = self._sums[0].law
        scales = tuple(scale for stage in self._sums for scale in stage.law.scales)
        return NoiseLaw(first.family, scales, first.draws, first.shared)

    @property
    def steps(self) -> tuple[float, ...]:
        """Size of one integer step of every released number."""
        return tuple(step for stage in self._sums for step in stage.steps)

    @property
    def multiplier(self) -> int:
        """What the exact sums of the last stage are multiplied by before the noise is added."""
        return self._sums[-1].multiplier

    @property
    def exact(self) -> tuple[str, ...]:
        """Names of the sums that are public and therefore carry no noise."""
        return tuple(name for name, scale in zip(self.names, self.law.scales, strict=True) if scale == 0)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that are read, sorted."""
        return tuple(sorted({name for stage in self.stages for name in stage.rows.columns}))

    def describe(self) -> str:
        """Say what will be measured, how it is bounded, what noise it gets and what it costs."""
        return "\n".join(f"{name:<12} {told}" for name, told in self.facts)

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """What will be measured, how it is bounded, what noise it gets and what it costs, by name."""
        several = len(self.stages) > 1
        return (
            ("measures", self.text if several else measured_in_words(self.stages[0])),
            ("reads", ", ".join(self.columns) or "no column"),
            ("neighbours", self.neighbors),
            *self._of_people,
            *(fact for place, stage in enumerate(self.stages, 1) for fact in self._of_stage(place, stage)),
            ("exact", ", ".join(self.exact) or "nothing"),
            ("guarantee", self.cost.describe()),
        )

    @property
    def _of_people(self) -> list[tuple[str, str]]:
        if self.people is None:
            return []
        most = f"at most {self.people.max_rows:,} row{'s' if self.people.max_rows > 1 else ''} each"
        return [("unit", f"one person, told apart by {self.people.id!r}: {most}, chosen by a public hash")]

    def _of_stage(self, place: int, stage: PricedStage) -> list[tuple[str, str]]:
        bound, noise = self.bound_of(stage), noise_in_words(stage)
        if len(self.stages) == 1:
            return [("bound", bound), ("noise", noise)]
        slot = self.slots[place - 1]
        chosen = ", built from what was released before" if slot.adaptive else ""
        told = f"{measured_in_words(stage)} ({float(slot.share):.3g} of the price{chosen})"
        return [(f"stage {place}", told), ("bound", bound), ("noise", noise)]

    def bound_of(self, stage: PricedStage) -> str:
        """Say what one unit changes in a stage."""
        unit = "" if self.people is None else f"{self.people.unit}: "
        return f"{unit}{bound_in_words(stage, self.context)}"


def price_procedure(procedure: Any, context: Context) -> Measurement:
    """Say what a procedure would do at a price, the adaptive stages as rehearsed on public rows.

    Raises
    ------
    DPInferError
        If the procedure cannot be measured at this price, for a public reason.
    """
    plan = planned(procedure, context)
    return Measurement(**{one.name: getattr(plan, one.name) for one in fields(Plan)})
