"""A plan: everything that will be done to the rows at a price, all of it public, before it is done."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError, type_of
from dpinfer.kernel.price import amounts, checked_slots, own_blocks, price_stage, total_cost
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.rows.blocks import Blocks, BlockSum, BlockValues, block_values, check_count
from dpinfer.kernel.stage import Above, Context, Largest, Place, Resampled, Slot
from dpinfer.privacy.accounting import Cost, reserved_cost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpinfer.kernel.price import Known, PricedStage
    from dpinfer.privacy.units import Privacy
    from dpinfer.release.laws import StageRelease
    from dpinfer.schema.schema import Schema

_ROWS = 256
"""Made-up rows of a rehearsal."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Shares:
    """How a question shares its price: slots with the amount of each, and the blocks that units are split into."""

    context: Context
    slots: tuple[Slot, ...]
    amounts: tuple[Privacy, ...]
    blocks: Blocks | None
    known: Known = field(default_factory=dict)

    @property
    def coordinates(self) -> int | None:
        """Coordinates of all stages together; None where one stage counts its own."""
        return None if len(self.slots) == 1 else sum(slot.most for slot in self.slots)

    def price(
        self,
        procedure: Any,
        place: int,
        released: tuple[StageRelease, ...],
        known: Known,
        before: PricedStage | None = None,
    ) -> PricedStage:
        """Ask a procedure for a stage, check that it keeps its slot and sums these blocks, and price it."""
        slot, amount = self.slots[place], self.amounts[place]
        stage = procedure.stage(place, self.context, released if slot.adaptive else ())
        priced = price_stage(stage, amount, self.context, most=self.coordinates, known=known, before=before)
        rows, mine = priced.rows, self.blocks
        if isinstance(rows, BlockSum) and mine is not None and rows.region.to_dict() != mine.region.to_dict():
            raise OptionError("region", type_of(rows), "the region that the blocks are moved into")
        if len(priced.names) > slot.most:
            raise OptionError("most", len(priced.names), f"a stage of at most {slot.most:,} numbers, as its slot says")
        return priced

    def dealt(self, procedure: Any, released: tuple[StageRelease, ...]) -> Blocks:
        """Return the blocks that are summed; a number of them that waited for what is released is asked for now.

        No bound depends on it, so neither does a price.
        """
        if self.blocks is None:
            raise OptionError("rows", "sums of blocks", "sums of rows: the question splits the units into no blocks")
        if self.blocks.count is not None:
            return self.blocks
        count = procedure.blocks_dealt(self.context, released)
        check_count(count)
        return replace(self.blocks, count=count)


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan(Shares):
    """What a procedure would do to rows at a price, and what it costs; `dpinfer.kernel.measurement` tells it.

    Of adaptive stages ``stages`` holds what they would be on rows spread evenly over the declared bounds, and ``costs``
    what is set aside for them: one that would cost more is refused. ``cost`` is that of all stages.
    """

    kind: str
    text: str
    question: Mapping[str, Any]
    stages: tuple[PricedStage, ...]
    costs: tuple[Cost, ...]
    cost: Cost

    def next_stage(self, procedure: Any, released: tuple[StageRelease, ...]) -> PricedStage:
        """Return the stage that comes after what is released: an adaptive one as it is asked for and priced now."""
        place = len(released)
        if not self.slots[place].adaptive:
            return self.stages[place]
        before, reserved = self.stages[place], self.costs[place]
        priced = self.price(procedure, place, released, dict(self.known), before)
        if not reserved.covers(priced.cost):
            raise OptionError("stage", type_of(priced.rows), "a stage that costs no more than was charged for it")
        return priced


def planned(
    procedure: Any, context: Context, *, rehearse: bool = False, plans: dict[tuple[str, Context], Plan] | None = None
) -> Plan:
    """Price every stage of a procedure, the adaptive ones as rehearsed on public rows.

    With ``rehearse`` one stage that is all there is runs on public rows, too: what would fail does so before the
    charge. Rows are spread evenly over their declared bounds, estimates of blocks over the region, and nothing is
    fitted. Errors have public reasons. ``plans`` holds those made before, by question.
    """
    question, kind = procedure.question(context), procedure.release_kind(context)
    key = None
    if plans is not None and getattr(procedure, "unidentified", None) == "":
        key = json.dumps(question), context
        if key in plans:
            return plans[key]
    slots = checked_slots(procedure.slots(context))
    blocks = own_blocks(procedure.units(context), context.schema)
    shares = Shares(context=context, slots=slots, amounts=tuple(amounts(context.privacy, slots)), blocks=blocks)
    stages: list[PricedStage] = []
    costs: list[Cost] = []
    released: list[StageRelease] = []
    rng = np.random.default_rng(0)
    rows: Batch | None = None
    values: BlockValues | None = None
    for place, slot in enumerate(slots):
        priced = shares.price(procedure, place, tuple(released), shares.known)
        reserved = priced.cost
        if slot.adaptive:
            of = {"sums": slot.most, "most": shares.coordinates or 1}
            reserved = reserved_cost(shares.amounts[place], priced.cost, total=context.privacy, **of)
        stages.append(priced)
        costs.append(reserved)
        if not rehearse and len(slots) == 1:
            continue
        if isinstance(priced.rows, BlockSum) and values is None:
            made = shares.dealt(procedure, tuple(released))
            shape = (made.count or 0, 3 if made.halves else 1, made.size)
            spread = np.random.default_rng(0).uniform(-0.5, 0.5, shape) / np.sqrt(made.size)
            values = block_values(made.region.center + made.region.radius * spread, made.region)
        elif not isinstance(priced.rows, BlockSum) and rows is None:
            rows = sample_batch(context.schema, _ROWS)
        released.append(_rehearsed(priced, values if isinstance(priced.rows, BlockSum) else rows, rng))
    found = Plan(
        **vars(shares),
        kind=kind,
        text=str(question["text"]),
        question=question,
        stages=tuple(stages),
        costs=tuple(costs),
        cost=total_cost(context.privacy, costs),
    )
    if plans is not None and key is not None:
        plans[key] = found
    return found


def sample_batch(schema: Schema, size: int) -> Batch:
    """Return rows spread evenly and independently over their declared bounds, of one person after another."""
    persons = None if schema.people is None else np.arange(size) // min(schema.rows_per_unit, 4)
    return Batch(dict(_sampled(schema, tuple(schema), size)), size, persons=persons)


@lru_cache(maxsize=4)
def _sampled(schema: Schema, names: tuple[str, ...], size: int) -> dict[str, NDArray[Any]]:
    """Return public cells, not to be written to, of columns in this order, which equal schemas may not share."""
    sample = schema.sample(size, np.random.default_rng(0))
    cells = {name: np.array(sample[name].to_numpy()) for name in names}
    for one in cells.values():
        one.flags.writeable = False
    return cells


def _rehearsed(priced: PricedStage, units: Any, rng: np.random.Generator) -> StageRelease:
    """Run a stage: sums with simulated noise, of choices always the first, and of thresholds always below."""
    if isinstance(priced.stage.measure, Largest | Above | Place):
        return priced.released([0] * len(priced.names))
    totals = priced.rows.add(units)[0].tolist()
    resampled = isinstance(priced.stage.measure, Resampled)
    exact = totals * priced.rows.replicates if resampled else priced.rows.finish(totals)
    return priced.released(priced.noisy(exact, priced.law.rvs(1, rng)[0].tolist()))
