"""A stage with the noise that its price buys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpinfer.release.laws import CHOICES

if TYPE_CHECKING:
    from dpinfer.kernel.stage import Stage
    from dpinfer.privacy.cost import Cost
    from dpinfer.release.laws import NoiseLaw

__all__ = ["PricedStage"]


@dataclass(frozen=True, eq=False)
class PricedStage:
    """A stage with the noise that its price buys.

    Attributes
    ----------
    stage : Stage
    names : tuple of str, length m
        What each released integer is.
    law : NoiseLaw
        Noise of every coordinate.
    steps : tuple of float, length m
        Size of one integer step.
    cost : Cost
    bound : str
        What is bounded, for people.
    multiplier : int
        The exact sums are multiplied by it before the noise is added, so that the noise is fine.
    """

    stage: Stage
    names: tuple[str, ...]
    law: NoiseLaw
    steps: tuple[float, ...]
    cost: Cost
    bound: str
    multiplier: int = 1

    @property
    def rows(self) -> Any:
        """The row sum that is measured."""
        return self.stage.measure.rows

    @property
    def measures(self) -> str:
        """What is measured, for people."""
        return str(self.rows.measures)

    @property
    def noise(self) -> str:
        """Which noise it gets, for people."""
        noisy = [scale * step for scale, step in zip(self.law.scales, self.steps, strict=True) if scale > 0]
        spread = f"{min(noisy):.6g} to {max(noisy):.6g}" if noisy else "none"
        family = f"discrete {self.law.family}"
        if self.law.family == "tulap":
            family = "discrete Laplace and a uniform fraction (Tulap)"
        elif self.law.family in CHOICES:
            family = f"{self.law.family}, added to scores that are not released"
        several = f", the average of {self.law.draws} draws" if self.law.draws > 1 else ""
        return f"{family}{several}, scale {spread} in units of {self.rows.counts_units}"
