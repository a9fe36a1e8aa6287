"""A measurement: everything that will be done to the rows at a price, all of it public, before it is done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpinfer.errors import OptionError
from dpinfer.kernel.price import amounts, checked_slots, price_stage, reserved_cost, total_cost
from dpinfer.kernel.rehearsal import Rehearsal
from dpinfer.kernel.sealing import sealed_blocks
from dpinfer.release.laws import CHOICES, NoiseLaw

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.kernel.priced_stage import PricedStage
    from dpinfer.kernel.rows.blocks import Blocks
    from dpinfer.kernel.stage import Context, Slot, Stage
    from dpinfer.privacy.cost import Cost
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.release.stage import StageRelease
    from dpinfer.schema.people import People

__all__ = ["Measurement", "coordinates", "price_next", "price_procedure"]


@dataclass(frozen=True, eq=False)
class Measurement:
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

    kind: str
    text: str
    question: Mapping[str, Any]
    context: Context
    stages: tuple[PricedStage, ...]
    slots: tuple[Slot, ...]
    costs: tuple[Cost, ...]
    cost: Cost
    blocks: Blocks | None = None

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
        return NoiseLaw(first.family, tuple(scale for stage in self._sums for scale in stage.law.scales), first.draws)

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
        several = len(self.stages) > 1
        return "\n".join(
            [
                f"measures     {self.text}" if several else f"measures     {self.stages[0].measures}",
                f"reads        {', '.join(self.columns) or 'no column'}",
                f"neighbours   {self.neighbors}",
                *self._of_people,
                *(line for place, stage in enumerate(self.stages, 1) for line in self._of_stage(place, stage)),
                f"exact        {', '.join(self.exact) or 'nothing'}",
                f"guarantee    {self.cost.describe()}",
            ]
        )

    @property
    def _of_people(self) -> list[str]:
        if self.people is None:
            return []
        most = f"at most {self.people.max_rows:,} row{'s' if self.people.max_rows > 1 else ''} each"
        return [f"unit         one person, told apart by {self.people.id!r}: {most}, chosen by a public hash"]

    def _of_stage(self, place: int, stage: PricedStage) -> list[str]:
        lines = [
            f"bound        {self.context.schema.of_unit(stage.bound)}",
            f"noise        {stage.noise}",
        ]
        if len(self.stages) == 1:
            return lines
        slot = self.slots[place - 1]
        chosen = ", built from what was released before" if slot.adaptive else ""
        return [f"stage {place}      {stage.measures} ({float(slot.share):.3g} of the price{chosen})", *lines]


def price_procedure(procedure: Any, context: Context, *, rehearse: bool = False) -> Measurement:
    """Price every stage of a procedure, the adaptive ones as rehearsed on public rows.

    Parameters
    ----------
    procedure : Procedure
    context : Context
    rehearse : bool
        Whether to run one stage that is all there is on public rows, too: what would fail does so before the charge.

    Returns
    -------
    Measurement

    Raises
    ------
    DPInferError
        If the procedure cannot be measured at this price, for a public reason.
    """
    told = replace(context)  # a procedure keeps what it is handed: the kernel goes by its own
    slots = checked_slots(procedure.slots(told))
    question = procedure.question(told)
    blocks = sealed_blocks(procedure.units(told), context.schema)
    rehearsal = Rehearsal(context, blocks)
    stages: list[PricedStage] = []
    costs: list[Cost] = []
    released: list[StageRelease] = []
    most = coordinates(slots)
    for place, (slot, amount) in enumerate(zip(slots, amounts(context.privacy, slots), strict=True)):
        priced = price_next(procedure, place, slot, amount, context, tuple(released), most)
        costs.append(reserved_cost(slot, amount, context, most or 1, priced.cost) if slot.adaptive else priced.cost)
        stages.append(priced)
        if rehearse or len(slots) > 1:
            released.append(rehearsal.release(priced))
    return Measurement(
        kind=procedure.release_kind(told),
        text=str(question["text"]),
        question=question,
        context=context,
        stages=tuple(stages),
        slots=slots,
        costs=tuple(costs),
        cost=total_cost(context.privacy, costs),
        blocks=blocks,
    )


def price_next(
    procedure: Any,
    place: int,
    slot: Slot,
    amount: Privacy,
    context: Context,
    released: tuple[StageRelease, ...],
    most: int | None,
) -> PricedStage:
    """Ask a procedure for its next stage, check that it keeps its slot, and price it."""
    stage: Stage = procedure.stage(place, replace(context), released if slot.adaptive else ())
    priced = price_stage(stage, amount, context, most=most)
    if len(priced.names) > slot.most:
        raise OptionError("most", len(priced.names), f"a stage of at most {slot.most:,} numbers, as its slot says")
    return priced


def coordinates(slots: Sequence[Slot]) -> int | None:
    """Coordinates of all stages together; None where one stage counts its own."""
    return None if len(slots) == 1 else sum(slot.most for slot in slots)
