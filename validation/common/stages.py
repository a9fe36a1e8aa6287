"""Releases of a question whose exact sums are known, and choices of quantiles, by the kernel's own prices and draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from dpinfer.kernel.measurement import Measurement
from dpinfer.kernel.price import PricedStage
from dpinfer.kernel.quantiles import chosen_points
from dpinfer.kernel.rows.tree import PointRows
from dpinfer.kernel.sampling import Draws, SimulatedDraws, simulated_noise
from dpinfer.kernel.sources import open_source
from dpinfer.release import Release, StageRelease


def release_of(
    question: Any, measured: Measurement, exact: Callable[[PricedStage], Sequence[int]], rng: np.random.Generator
) -> Release:
    """Add noise to exact sums stage by stage, as the kernel does.

    Parameters
    ----------
    question : Procedure
    measured : Measurement
        Of the question.
    exact : callable
        Returns the exact sums of a stage.
    rng : Generator
    """
    stages: list[StageRelease] = []
    for _ in measured.slots:
        priced = measured.next_stage(question, tuple(stages))
        drawn = simulated_noise(priced.law, rng)
        values = tuple(priced.noisy([int(total) for total in exact(priced)], drawn))
        stages.append(StageRelease(priced.names, values, priced.steps, priced.law, priced.stage.settings))
    return Release(
        kind=measured.kind,
        question=measured.question,
        stages=tuple(stages),
        cost=measured.cost,
        neighbors=measured.neighbors,
        nobs=None,
        charge_ids=(),
        public=True,
    )


@dataclass(frozen=True, eq=False)
class Choosing:
    """Quantiles to be chosen, each with its own noise.

    Attributes
    ----------
    rows : PointRows
    probabilities : tuple of Fraction
    scales : tuple of float
    """

    rows: PointRows
    probabilities: tuple[Fraction, ...]
    scales: tuple[float, ...]

    @classmethod
    def of(cls, measured: Measurement) -> Choosing:
        """Return what a measurement chooses first, from one group."""
        first = measured.stages[0]
        return cls(first.rows, first.stage.measure.probabilities, first.law.scales)  # type: ignore[union-attr]

    def __add__(self, other: Choosing) -> Choosing:
        return Choosing(self.rows, self.probabilities + other.probabilities, self.scales + other.scales)

    def points(self, values: np.ndarray, draws: Draws) -> list[int]:
        """Choose points for the quantiles of values."""
        return chosen_points(
            self.rows, self.probabilities, self.scales, open_source(pd.DataFrame({"x": values})), draws
        )

    def values(self, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Choose quantiles of values with seeded noise."""
        return np.array([self.rows.value(point) for point in self.points(values, SimulatedDraws(rng))])
