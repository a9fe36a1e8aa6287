"""Stages on public rows: what an adaptive procedure would release, before anything is spent."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.rows.blocks import BlockSum, BlockValues, block_values
from dpinfer.kernel.stage import Above, Largest, Place, Resampled

if TYPE_CHECKING:
    from dpinfer.kernel.priced_stage import PricedStage
    from dpinfer.kernel.rows.blocks import Blocks
    from dpinfer.kernel.stage import Context
    from dpinfer.release.laws import StageRelease
    from dpinfer.schema.schema import Schema

__all__ = ["Rehearsal", "sample_batch"]

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
