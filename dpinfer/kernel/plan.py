"""A plan: everything that will be done to the rows at a price, all of it public, before it is done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError, type_of
from dpinfer.kernel.copies import dealt_blocks, own_price, own_schema, sealed_blocks
from dpinfer.kernel.price import amounts, checked_slots, price_stage, reserved_cost, total_cost
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.rows.blocks import BlockSum, BlockValues, block_values
from dpinfer.kernel.stage import Above, Largest, Place, Resampled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.kernel.price import PricedStage
    from dpinfer.kernel.rows.blocks import Blocks
    from dpinfer.kernel.stage import Context, Slot, Stage
    from dpinfer.privacy.cost import Cost
    from dpinfer.privacy.units import Privacy
    from dpinfer.release.stage import StageRelease
    from dpinfer.schema.schema import Schema


__all__ = ["Plan", "Rehearsal", "coordinates", "dealt", "planned", "price_next", "sample_batch"]

_ROWS = 256


def sample_batch(schema: Schema, size: int) -> Batch:
    """Return rows spread evenly and independently over their declared bounds, each of another person."""
    sample = schema.sample(size, np.random.default_rng(0))
    cells = {name: sample[name].to_numpy() for name in schema}
    return Batch(cells, size, persons=None if schema.people is None else np.arange(size))


class Rehearsal:
    """Rows spread evenly over their declared bounds, which every stage is run on with simulated noise.

    Estimates of blocks are spread evenly over the region, and nothing is fitted.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rng = np.random.default_rng(0)
        self._values: BlockValues | None = None

    @cached_property
    def _rows(self) -> Batch:
        return sample_batch(self._context.schema, _ROWS)

    def deal(self, blocks: Blocks) -> None:
        """Spread the estimates of blocks over their region."""
        shape = (blocks.count or 0, 3 if blocks.halves else 1, blocks.size)
        spread = np.random.default_rng(0).uniform(-0.5, 0.5, shape) / np.sqrt(blocks.size)
        self._values = block_values(blocks.region.center + blocks.region.radius * spread, blocks.region)

    @property
    def dealt(self) -> bool:
        """Whether there are blocks."""
        return self._values is not None

    def release(self, priced: PricedStage) -> StageRelease:
        """Run a stage: sums with simulated noise, of choices always the first, and of thresholds always below."""
        measure = priced.stage.measure
        if isinstance(measure, Largest | Above | Place):
            values = [0] * len(priced.names)
        else:
            exact = self._exact(priced)
            noise = priced.law.rvs(1, self._rng)[0]
            values = [total * priced.multiplier + int(drawn) for total, drawn in zip(exact, noise, strict=True)]
        return priced.released(values)

    def _exact(self, priced: PricedStage) -> list[int]:
        rows = priced.rows
        batch = self._values if isinstance(rows, BlockSum) else self._rows
        totals: list[int] = rows.add(batch)[0].tolist()
        exact: list[int] = (
            totals * rows.replicates if isinstance(priced.stage.measure, Resampled) else rows.finish(totals)
        )
        return exact


@dataclass(frozen=True, eq=False)
class Plan:
    """What a procedure would do to rows at a price, and what it costs; `dpinfer.kernel.measurement` tells it.

    Of adaptive stages ``stages`` holds what they would be on rows spread evenly over the declared bounds, and ``costs``
    what is set aside for them: one that would cost more is refused. ``cost`` is that of all stages.
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


def planned(procedure: Any, context: Context, *, rehearse: bool = False) -> Plan:
    """Price every stage of a procedure, the adaptive ones as rehearsed on public rows.

    With ``rehearse`` one stage that is all there is runs on public rows, too: what would fail does so before the
    charge. Errors have public reasons.
    """
    told = handed(context)
    slots = checked_slots(procedure.slots(told))
    question = procedure.question(told)
    kind = procedure.release_kind(told)
    blocks = sealed_blocks(procedure.units(told), context.schema)
    rehearsal = Rehearsal(context)
    stages: list[PricedStage] = []
    costs: list[Cost] = []
    released: list[StageRelease] = []
    most = coordinates(slots)
    for place, (slot, amount) in enumerate(zip(slots, amounts(context.privacy, slots), strict=True)):
        priced = price_next(procedure, place, slot, amount, context, tuple(released), most, blocks)
        costs.append(reserved_cost(slot, amount, context, most or 1, priced.cost) if slot.adaptive else priced.cost)
        stages.append(priced)
        if rehearse or len(slots) > 1:
            if isinstance(priced.rows, BlockSum) and not rehearsal.dealt:
                rehearsal.deal(dealt(procedure, blocks, context, tuple(released)))
            released.append(rehearsal.release(priced))
    return Plan(
        kind=kind,
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
    blocks: Blocks | None,
) -> PricedStage:
    """Ask a procedure for its next stage, check that it keeps its slot and sums these blocks, and price it."""
    stage: Stage = procedure.stage(place, handed(context), released if slot.adaptive else ())
    priced = price_stage(stage, amount, context, most=most)
    rows = priced.rows
    if isinstance(rows, BlockSum) and blocks is not None and rows.region.to_dict() != blocks.region.to_dict():
        raise OptionError("region", type_of(rows), "the region that the blocks are moved into")
    if len(priced.names) > slot.most:
        raise OptionError("most", len(priced.names), f"a stage of at most {slot.most:,} numbers, as its slot says")
    return priced


def dealt(procedure: Any, blocks: Blocks | None, context: Context, released: tuple[StageRelease, ...]) -> Blocks:
    """Return the blocks that are summed; a number of them that waited for what is released is asked for now.

    No bound depends on it, so neither does a price.
    """
    if blocks is None:
        raise OptionError("rows", "sums of blocks", "sums of rows: the question splits the units into no blocks")
    if blocks.count is not None:
        return blocks
    return dealt_blocks(blocks, procedure.blocks_dealt(handed(context), released))


def handed(context: Context) -> Context:
    """Return what a procedure is told of a run: it keeps and may change it, and the kernel goes by its own."""
    if context.public:
        return replace(context)
    return replace(context, schema=own_schema(context.schema), privacy=own_price(context.privacy))


def coordinates(slots: Sequence[Slot]) -> int | None:
    """Coordinates of all stages together; None where one stage counts its own."""
    return None if len(slots) == 1 else sum(slot.most for slot in slots)
