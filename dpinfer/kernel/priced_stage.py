"""A stage with the noise that its price buys."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpinfer.release.laws import StageRelease

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from dpinfer.kernel.stage import Stage
    from dpinfer.privacy.accounting import Cost
    from dpinfer.release.laws import NoiseLaw

__all__ = ["PricedStage"]


@dataclass(frozen=True, eq=False)
class PricedStage:
    """A stage with the noise that its price buys, for each of m released integers.

    ``bound`` is on what one unit changes: the norm of the integer sums, the range of scores, or a rank. The exact sums
    are multiplied by ``multiplier`` before the noise is added, so that it is fine; ``steps`` are sizes after that.
    """

    stage: Stage
    names: tuple[str, ...]
    law: NoiseLaw
    steps: tuple[float, ...]
    cost: Cost
    bound: Fraction
    multiplier: int = 1

    @property
    def rows(self) -> Any:
        """The row sum that is measured."""
        return self.stage.measure.rows

    def released(self, values: Sequence[int]) -> StageRelease:
        """Return what the stage released, of copies: a procedure keeps what it is handed, and may change it."""
        return StageRelease(self.names, tuple(values), self.steps, replace(self.law), deepcopy(self.stage.settings))
