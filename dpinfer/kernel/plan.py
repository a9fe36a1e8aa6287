"""A plan: everything that will be done to the rows at a price, all of it public, before it is done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError, type_of
from dpinfer.kernel.copies import own_blocks
from dpinfer.kernel.price import amounts, checked_slots, price_stage, reserved_cost, total_cost
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.rows.blocks import BlockSum, BlockValues, block_values, check_count
from dpinfer.kernel.stage import Above, Largest, Place, Resampled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.kernel.price import PricedStage
    from dpinfer.kernel.rows.blocks import Blocks
    from dpinfer.kernel.stage import Context, Slot, Stage
    from dpinfer.privacy.accounting import Cost
    from dpinfer.privacy.units import Privacy
    from dpinfer.release.laws import StageRelease
    from dpinfer.schema.schema import Schema

_ROWS = 256
"""Made-up rows of a rehearsal."""


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
    charge. Rows are spread evenly over their declared bounds, estimates of blocks over the region, and nothing is
    fitted. Errors have public reasons.
    """
    slots = checked_slots(procedure.slots(context))
    question = procedure.question(context)
    kind = procedure.release_kind(context)
    blocks = own_blocks(procedure.units(context), context.schema)
    stages: list[PricedStage] = []
    costs: list[Cost] = []
    released: list[StageRelease] = []
    most, rng = coordinates(slots), np.random.default_rng(0)
    rows: Batch | None = None
    values: BlockValues | None = None
    for place, (slot, amount) in enumerate(zip(slots, amounts(context.privacy, slots), strict=True)):
        priced = price_next(procedure, place, slot, amount, context, tuple(released), most, blocks)
        costs.append(reserved_cost(slot, amount, context, most or 1, priced.cost) if slot.adaptive else priced.cost)
        stages.append(priced)
        if not rehearse and len(slots) == 1:
            continue
        if isinstance(priced.rows, BlockSum) and values is None:
            made = dealt(procedure, blocks, context, tuple(released))
            shape = (made.count or 0, 3 if made.halves else 1, made.size)
            spread = np.random.default_rng(0).uniform(-0.5, 0.5, shape) / np.sqrt(made.size)
            values = block_values(made.region.center + made.region.radius * spread, made.region)
        elif not isinstance(priced.rows, BlockSum) and rows is None:
            rows = sample_batch(context.schema, _ROWS)
        released.append(_rehearsed(priced, values if isinstance(priced.rows, BlockSum) else rows, rng))
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


def sample_batch(schema: Schema, size: int) -> Batch:
    """Return rows spread evenly and independently over their declared bounds, each of another person."""
    sample = schema.sample(size, np.random.default_rng(0))
    cells = {name: sample[name].to_numpy() for name in schema}
    return Batch(cells, size, persons=None if schema.people is None else np.arange(size))


def _rehearsed(priced: PricedStage, units: Any, rng: np.random.Generator) -> StageRelease:
    """Run a stage: sums with simulated noise, of choices always the first, and of thresholds always below."""
    if isinstance(priced.stage.measure, Largest | Above | Place):
        return priced.released([0] * len(priced.names))
    totals = priced.rows.add(units)[0].tolist()
    resampled = isinstance(priced.stage.measure, Resampled)
    exact = totals * priced.rows.replicates if resampled else priced.rows.finish(totals)
    noise = priced.law.rvs(1, rng)[0]
    return priced.released([total * priced.multiplier + int(drawn) for total, drawn in zip(exact, noise, strict=True)])


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
    stage: Stage = procedure.stage(place, context, released if slot.adaptive else ())
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
    count = procedure.blocks_dealt(context, released)
    check_count(count)
    return replace(blocks, count=count)


def coordinates(slots: Sequence[Slot]) -> int | None:
    """Coordinates of all stages together; None where one stage counts its own."""
    return None if len(slots) == 1 else sum(slot.most for slot in slots)
