"""What a price buys of sums over blocks: how likely coefficients are located, and the error to be expected.

Public, and before anything is spent: the histograms, their noise and the search for peaks in them are simulated with
normal block estimates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.block_frames import bins_of, find_frame, find_scales
from dpinfer.kernel.price import amounts
from dpinfer.kernel.rows.blocks import BINS, BlockValues, OctaveCounts, PlaceCounts
from dpinfer.kernel.stage import Stage, Sum
from dpinfer.procedures.block_plan import blocks_for
from dpinfer.procedures.explanation import sizes_shown

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array
    from dpinfer.procedures.block_plan import BlockPlan

__all__ = ["Forecast", "forecast", "told"]

_DRAWS = 300
"""Simulated releases: a probability of 0.3 is known to 0.026."""

_MOST = 4096
"""Blocks that are simulated, at most: of more, so many are a sample, with noise as small."""

_WIDE = 16.0
"""Radius of the region over the spread between blocks, in the simulation."""

_RATIOS = (4.0, 16.0, 64.0)
"""The same, for which the error to be expected is told."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """What is to be expected of p coefficients, over simulated releases.

    Attributes
    ----------
    missed : ndarray (R, p)
        Where a coefficient was not located.
    noise : ndarray (R, p)
        Standard deviation of the privacy noise of an estimate over its sampling error, with the region 2 `_WIDE`
        spreads between blocks wide.
    error : ndarray (R, p)
        Error of the estimate, of sampling, noise and winsorising, over its sampling error; likewise.
    """

    missed: Array
    noise: Array
    error: Array

    @property
    def each_missed(self) -> float:
        """Probability that a coefficient is not located, the mean over coefficients."""
        return float(self.missed.mean())

    @property
    def any_missed(self) -> float:
        """Probability that at least one coefficient is not located."""
        return float(self.missed.any(axis=1).mean())

    @property
    def located_noise(self) -> tuple[float, float]:
        """Ends between which the noise of nine in ten located estimates is, over their sampling error."""
        found = self.noise[self.missed == 0]
        return (float(np.quantile(found, 0.05)), float(np.quantile(found, 0.95))) if found.size else (np.nan, np.nan)

    @property
    def located_error(self) -> float:
        """Root mean square error of located estimates, over their sampling error."""
        found = self.error[self.missed == 0]
        return float(np.sqrt((found**2).mean())) if found.size else np.nan

    def expected_error(self, ratio: float) -> float:
        """Root mean square error of all estimates over their sampling error, the region 2 ``ratio`` spreads wide."""
        lost = 1 + (self.noise * ratio / _WIDE) ** 2
        return float(np.sqrt(np.where(self.missed == 1, lost, self.error**2).mean()))


def forecast(plan: BlockPlan, *, draws: int = _DRAWS) -> Forecast:
    """Simulate what is released of a located plan with a known number of blocks, with a public seed.

    Block estimates are normal, independent, and of one spread in each group of parameters; their centre is anywhere in
    the inner half of the region. What they are in truth is not known: this is what is to be expected.
    """
    rng, count = np.random.default_rng(0), min(plan.known, _MOST)
    region = replace(plan.region, radii=(1.0,) * len(plan.region.radii), center=np.zeros(plan.size))  # any is like it
    scale = region.radius / _WIDE
    prices = amounts(plan.context.privacy, plan.slots)[-3:]
    octaves, whole = OctaveCounts(plan.schema, region), (BINS,) * plan.size
    counted = [
        plan.noise(Stage(Sum(rows)), price) * count / plan.known
        for rows, price in zip((octaves, PlaceCounts(plan.schema, region, whole)), prices[:2], strict=True)
    ]
    of_mean = plan.noise(plan.moments(plan.whole), prices[2]) / np.sqrt(plan.known)
    inner = region.radius / np.sqrt(np.array([len(places) for places in region.places])[region.group])
    groups, nowhere = [list(places) for places in region.places], np.zeros(count, dtype=bool)
    missed, noise, error = (np.empty((draws, plan.size)) for _ in range(3))
    for draw in range(draws):
        center = inner * rng.uniform(-0.5, 0.5, plan.size)
        estimates = center + scale * rng.normal(size=(count, plan.size))
        apart = scale * rng.normal(size=(count if plan.halves else count // 2, plan.size))
        spreads = np.stack([np.sqrt((apart[:, mine] ** 2).mean(axis=1)) for mine in groups], axis=1)
        values = BlockValues(estimates, spreads, nowhere, nowhere)
        told = octaves.add(values)[0] + _drawn(rng, plan, counted[0], len(octaves.names))
        scales = find_scales(region, told, counted[0])
        rows = PlaceCounts(plan.schema, region, bins_of(region, scales))
        places = rows.add(values)[0] + _drawn(rng, plan, counted[1], sum(rows.bins))
        frame = find_frame(region, places, counted[1], scales, norm=plan.norm, radius=plan.radius)
        v = (estimates - frame.center) / frame.half
        length = np.sqrt((v**2).sum(axis=1)) if plan.norm == "l2" else np.abs(v).sum(axis=1)
        mean = frame.center + frame.half * (v / np.maximum(length, 1.0)[:, None]).mean(axis=0)
        missed[draw], noise[draw] = ~frame.located, of_mean * frame.half / scale
        error[draw] = (mean - center) / scale * np.sqrt(count) + noise[draw] * _drawn(rng, plan, 1.0, plan.size)
    return Forecast(missed, noise, error)


def _drawn(rng: np.random.Generator, plan: BlockPlan, deviation: float, size: int) -> Array:
    return rng.normal(0, deviation, size) if plan.norm == "l2" else rng.laplace(0, deviation / np.sqrt(2), size)


def told(plan: BlockPlan) -> list[str]:
    """Say in lines what is to be expected: for several numbers of rows where the number of blocks is read from them."""
    if plan.count is not None:
        return _of_blocks(plan)
    lines = [f"blocks       as many as a noisy count of rows asks for ({float(plan.shares.rows):.3g} of the price)"]
    for size in sizes_shown(None):
        found = plan.at(blocks_for(size, plan.size, halves=plan.halves))
        lines += [f"n = {size:,}: {found.count:,} blocks", *_of_blocks(found)]
    return lines


def _of_blocks(plan: BlockPlan) -> list[str]:
    errors = plan.whole.half * plan.noise(plan.moments(plan.whole), amounts(plan.context.privacy, plan.slots)[-1])
    listed = ", ".join(
        f"{name} {error:.4g}" for name, error in zip(plan.region.names, (errors / plan.known).tolist(), strict=True)
    )
    if not plan.located:
        first = "this price does not suffice to locate the block estimates: the region alone bounds them"
        return [*([first] if plan.winsorized else []), f"standard error from privacy noise: {listed}"]
    found = forecast(plan)
    low, high = found.located_noise
    alike = " and of like spread in a group" if len(plan.region.places) < plan.size else ""
    several = f", any of the {plan.size} with {_share(found.any_missed)}" if plan.size > 1 else ""
    overall = ", ".join(f"{found.expected_error(ratio):.2g}" for ratio in _RATIOS)
    widths = ", ".join(f"{2 * ratio:.0f}" for ratio in _RATIOS)
    lines = [
        f"locating     a coefficient is not located with probability {_share(found.each_missed)}{several}, if block "
        f"estimates are about normal{alike}; the region alone then bounds it",
    ]
    if found.each_missed > 0:
        lines.append(f"standard error from privacy noise of one that is not located: {listed}")
    if found.each_missed < 1:
        lines.append(
            f"privacy noise of an estimate: {low:.2g} to {high:.2g} times its sampling error where it is located, by "
            "how well the spread between blocks can be told"
        )
    located = f"{found.located_error:.2g} where it is located; " if found.each_missed < 1 else ""
    return [
        *lines,
        f"expected error, of noise and sampling, over the sampling error: {located}over all releases {overall} where "
        f"the region is {widths} spreads between blocks wide",
    ]


def _share(probability: float) -> str:
    return (
        f"{probability:.2f}" if 0.01 <= probability <= 0.99 else "less than 0.01" if probability < 0.5 else "above 0.99"
    )
