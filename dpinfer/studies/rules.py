"""The rules by which a coverage study is judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Rules"]


@dataclass(frozen=True)
class Rules:
    """When a cell of a study holds.

    Attributes
    ----------
    alarm : float
        Probability that an exact interval fails the coverage rule in one cell.
    size_alarm : float
        Probability that exact tests fail the size rule anywhere in a study: it is shared by all cells whose true
        value is zero (Bonferroni).
    width_cap : float
        Largest mean width over that of the oracle, where noise does not dominate.
    unbounded_cap : float
        Largest share of unbounded intervals there.
    kappa : float
        Below this ratio of signal to noise, computed from the population, a cell counts as noise-dominated:
        only coverage is judged.
    rerun_factor : int
        A cell that fails is run once more at so many times the replicates.
    rerun_seed : int
        Added to the seed for that, fixed in advance.

    Examples
    --------
    >>> round(Rules().least_coverage(5000, 0.95), 4)
    0.9376
    """

    alarm: float = 5e-5
    size_alarm: float = 1e-3
    width_cap: float = 1.10
    unbounded_cap: float = 0.001
    kappa: float = 3.0
    rerun_factor: int = 10
    rerun_seed: int = 1

    def least_coverage(self, replicates: int, level: float) -> float:
        """Return the least coverage that an exact interval stays above, but for probability ``alarm``."""
        return float(stats.binom.ppf(self.alarm, replicates, level)) / replicates

    def largest_size(self, replicates: int, level: float, nulls: int) -> float:
        """Return the largest share of rejections of a true zero that exact tests stay below, over ``nulls`` cells."""
        return float(stats.binom.isf(self.size_alarm / max(nulls, 1), replicates, 1 - level)) / replicates

    def verdict(
        self,
        cell: Mapping[Any, Any],
        *,
        level: float,
        least: float | None = None,
        most: float | None = None,
        replicates: int | None = None,
    ) -> str:
        """Return "holds", or what the cell breaks.

        Parameters
        ----------
        cell : mapping
            Measures of one coefficient of one cell.
        level : float
        least : float, optional
            Threshold of coverage; by default that of the cell's own number of replicates.
        most : float, optional
            Threshold of the share of rejections where the true value is zero; by default that of this cell alone.
        replicates : int, optional
            Replicates whose threshold judges the coverage among those that determine the quantity, times the share
            of these; by default the cell's own.
        """
        if not np.isfinite(cell["coverage"]):
            return "no truth"
        floor = self.least_coverage(int(cell["replicates"]), level) if least is None else least
        broken = []
        if cell["coverage"] < floor:
            broken.append(f"coverage below {floor:.4f}")
        missing = cell.get("not determined", 0.0)
        if 0 < missing < 1:
            total = cell["replicates"] if replicates is None else replicates
            known = self.least_coverage(max(round((1 - missing) * total), 1), level)
            if cell["coverage where determined"] < known:
                broken.append(f"coverage where determined below {known:.4f}")
        if cell["truth"] == 0:
            ceiling = self.largest_size(int(cell["replicates"]), level, 1) if most is None else most
            if cell["rejection"] > ceiling:
                broken.append(f"size above {ceiling:.4f}")
        ratio, kappa = cell.get("width / oracle", np.nan), cell.get("kappa", np.nan)
        if np.isfinite(kappa) and kappa >= self.kappa:
            if ratio > self.width_cap:
                broken.append(f"width above {self.width_cap:g} times the oracle's")
            if cell["unbounded"] > self.unbounded_cap:
                broken.append(f"more than {self.unbounded_cap:.1%} unbounded")
        return "; ".join(broken) or "holds"
