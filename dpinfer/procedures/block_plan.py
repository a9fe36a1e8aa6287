"""Sums over blocks at a price: how many blocks, shares of the price, and stages."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError, type_of
from dpinfer.inference.block_frames import bins_of, find_frame, find_scales, limit, whole_frame
from dpinfer.kernel.price import amounts, price_stage
from dpinfer.kernel.rows.blocks import BINS, OCTAVES, BlockMoments, OctaveCounts, PlaceCounts
from dpinfer.kernel.stage import Slot, Stage, Sum
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.expected import first_error
from dpinfer.release import Release

if TYPE_CHECKING:
    from dpinfer.inference.block_frames import Frame
    from dpinfer.kernel.rows.blocks import BlockSum
    from dpinfer.kernel.stage import Context
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.release import StageRelease
    from dpinfer.schema.region import Region
    from dpinfer.schema.schema import Schema

__all__ = ["FEWEST", "MOST", "BlockPlan", "BlockShares", "block_size", "number_of_blocks", "rows_of", "small_blocks"]

FEWEST, MOST = 8, 2**20
"""Blocks that can be asked for."""

COUNT_SHARE = Fraction(1, 50)
"""Share of the price that goes to the counts of failed and of moved blocks."""

_SIGNAL, _ENOUGH = {"l2": 10.0, "l1": 14.0}, {"l2": 5.0, "l1": 9.0}
"""Signal that histograms are to have, and the least with which blocks are winsorised, by norm of the noise."""

_CAP, _FLOOR = 0.4, 0.02
"""Bounds on the share of the price that histograms take, together and each."""

_LITTLE, _WIDEST = 0.25, 3.0
"""Privacy noise over sampling error up to which the winsorising ball is widened, and by how much at most."""

_HEIGHT = {"octaves": 0.25, "places": 0.28}
"""Sum of squared shares of the bins, for estimates that are about normal."""

_SMALL = 0.6
"""Share of `block_size` below which the reader is told that blocks are small."""


@dataclass(frozen=True, slots=True)
class BlockShares:
    """Shares of the price.

    Attributes
    ----------
    octaves, places : Fraction
        For the histograms of scale and place; 0 where blocks are bounded by the region alone.
    moments : Fraction
        For sums, products and the counts of failed and of moved blocks.
    """

    octaves: Fraction
    places: Fraction

    @property
    def moments(self) -> Fraction:
        """The rest of the price."""
        return 1 - self.octaves - self.places

    @property
    def parts(self) -> tuple[float, float]:
        """How sums with products, and the two counts, split the share for moments."""
        counts = float(COUNT_SHARE / self.moments)
        return 1 - counts, counts


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """What is summed over blocks at a price, in which stages.

    Attributes
    ----------
    schema : Schema
        Columns that are read.
    region : Region
    count : int
        Number k of blocks.
    halves : bool
        Whether half-blocks are fitted as well.
    winsorized : bool
        Whether block estimates are to be located, if the price suffices.
    context : Context
        What is public about the run.
    """

    schema: Schema
    region: Region
    count: int
    halves: bool
    winsorized: bool
    context: Context

    @property
    def size(self) -> int:
        """Number p of parameters."""
        return len(self.region.names)

    @property
    def norm(self) -> Norm:
        """Norm of the winsorising ball: that of the noise."""
        return "l1" if isinstance(self.context.privacy, PureDP) else "l2"

    @cached_property
    def shares(self) -> BlockShares:
        """Shares of the price: none for histograms that would be lost in their noise at any reasonable share.

        Notes
        -----
        A peak of estimates spread over about one bin has signal k h^(1/2) / s, where h is the sum of squared shares of
        the bins and s the noise of a count. That is known before anything is measured.
        """
        if self.winsorized:
            pure = self.norm == "l1"
            wanted = {}
            for kind, rows in self._histograms.items():
                counted = self.count if self.halves or kind == "places" else self.count // 2  # spreads of pairs
                whole = self._noise(Stage(Sum(rows)), self.context.privacy)
                ratio = _SIGNAL[self.norm] * whole / (counted * np.sqrt(_HEIGHT[kind]))
                wanted[kind] = max(ratio if pure else ratio**2, _FLOOR)
            spared = min(1.0, _CAP / sum(wanted.values()))
            if _SIGNAL[self.norm] * (spared if pure else np.sqrt(spared)) >= _ENOUGH[self.norm]:
                octaves, places = (Fraction(share * spared).limit_denominator(10**6) for share in wanted.values())
                return BlockShares(octaves, places)
        return BlockShares(Fraction(0), Fraction(0))

    @property
    def _histograms(self) -> dict[str, BlockSum]:
        whole = (BINS,) * self.size
        return {
            "octaves": OctaveCounts(self.schema, self.region),
            "places": PlaceCounts(self.schema, self.region, whole),
        }

    def _noise(self, stage: Stage, amount: Privacy) -> float:
        """Return the standard deviation of the noise of a stage's first sum, in its units."""
        return first_error(price_stage(stage, amount, self.context))

    @property
    def located(self) -> bool:
        """Whether block estimates are located, rather than bounded by the region alone."""
        return self.shares.places > 0

    @property
    def slots(self) -> tuple[Slot, ...]:
        """A small share for histograms of scale and place, and the rest for sums over the blocks."""
        size, shares = self.size, self.shares
        moments = size + size * (size + 1) // 2 + 2
        if not self.located:
            return (Slot(Fraction(1), moments),)
        return (
            Slot(shares.octaves, len(self.region.places) * OCTAVES),
            Slot(shares.places, size * BINS, adaptive=True),
            Slot(shares.moments, moments, adaptive=True),
        )

    @property
    def whole(self) -> Frame:
        """The frame of the declared region."""
        return whole_frame(self.region, self.norm)

    @cached_property
    def radius(self) -> float:
        """Radius of the winsorising ball, in units of the spread between blocks.

        It is wider than normal estimates need as long as that costs little: skewed ones are then not cut off.
        """
        noise = self._noise(self._moments(self.whole), amounts(self.context.privacy, self.slots)[-1])
        needed = limit(self.count, self.size, self.norm)
        ratio = noise / self.count * needed * np.sqrt(self.count)
        wide = _LITTLE / ratio if ratio > 0 else _WIDEST  # no noise: a price that is refused when stages are known
        return float(np.clip(wide, 1.0, _WIDEST)) * needed

    def stage(self, place: int, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for the scale of block estimates, then their place, then sums of estimates winsorised there."""
        if not self.located:
            return self._moments(self.whole)
        if place == 0:
            return Stage(Sum(OctaveCounts(self.schema, self.region)))
        scales = find_scales(self.region, released[0].array, _deviation(released[0]))
        if place == 1:
            return Stage(Sum(PlaceCounts(self.schema, self.region, bins_of(self.region, scales))))
        counts, noise = released[1].array, _deviation(released[1])
        return self._moments(find_frame(self.region, counts, noise, scales, norm=self.norm, radius=self.radius))

    def _moments(self, frame: Frame) -> Stage:
        center, half = tuple(frame.center.tolist()), tuple(frame.half.tolist())
        rows = BlockMoments(self.schema, self.region, center, half, self.norm)
        return Stage(Sum(rows, shares=self.shares.parts), settings=frame.to_dict())


def _deviation(released: StageRelease) -> float:
    return float(np.sqrt(released.noise_variances[0]))


def block_size(nobs: float, size: int, *, halves: bool) -> float:
    """Rows that a block should hold, so that the bias left is a fraction of the standard error.

    Bias over standard error goes as m^-2 n^(1/2) with the correction by half-blocks, as m^-1 n^(1/2) without; the
    constants leave about a quarter in a logit with slopes up to 1 (`validation/blocks/aggregate_coverage.py`).
    """
    wanted = 4 * size**0.75 * nobs**0.25 if halves else 3 * np.sqrt(size * nobs)
    return float(max(wanted, 20 * (size + 1)))


def small_blocks(nobs: float | None, blocks: int, size: int, *, halves: bool) -> tuple[str, ...]:
    """Warn where blocks of a known number of rows are much smaller than `block_size` advises."""
    if nobs is None:
        return ()
    held, wanted = nobs / blocks, block_size(nobs, size, halves=halves)
    if held >= _SMALL * wanted:
        return ()
    return (
        f"a block holds about {held:,.0f} rows for {size} parameter{'s' if size > 1 else ''}: the bias of its "
        f"estimates, which more blocks do not average out, may not be small (about {wanted:,.0f} rows are advised)",
    )


def number_of_blocks(asked: int | str, nobs: float | None, size: int, neighbors: Neighbors, *, halves: bool) -> int:
    """Return the number of blocks that was asked for, or that suits a number of rows.

    Raises
    ------
    OptionError
        If blocks would be too small for the parameters, or no number of rows is known that "auto" could go by.
    """
    least = 4 * (size + 1) if halves else 2 * (size + 1)
    if isinstance(asked, int):
        if nobs is not None and nobs / asked < least:
            right = f"at most {max(int(nobs / least), 0):,}: blocks of at least {least} rows for {size} parameters"
            raise OptionError("blocks", asked, right)
        return asked
    if nobs is None:
        raise OptionError(
            "blocks",
            "auto",
            f"a number of blocks, or nobs= (a public number of rows, or a release that holds one): under {neighbors} "
            "the number of rows is confidential",
        )
    found = int(min(nobs / block_size(nobs, size, halves=halves), MOST))
    if found < FEWEST:
        wanted = FEWEST * block_size(nobs, size, halves=halves)
        raise OptionError(
            "blocks", "auto", f"more rows: {nobs:,.0f} are too few for {size} parameters (about {wanted:,.0f} needed)"
        )
    return found


def rows_of(nobs: object) -> float | None:
    """Return a number of rows, given as a number, or as a release or results that hold one."""
    if nobs is None:
        return None
    found = nobs
    if not isinstance(found, int | float | np.integer | np.floating):
        found = getattr(nobs, "nobs", None)
        if found is None and isinstance(nobs, Release):
            found = nobs.array[0] if nobs.kind == "gram" else getattr(nobs.infer(), "nobs", None)
    if isinstance(found, bool) or not isinstance(found, int | float | np.integer | np.floating):
        raise OptionError("nobs", type_of(nobs), "a number of rows that is public, or a release that holds one")
    if not 1 <= found <= 2**53:
        raise OptionError("nobs", nobs, "a number of rows of at least 1")
    return float(found)
