"""Sums over blocks at a price: how many blocks, shares of the price, and stages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpinfer.errors import OptionError, type_of
from dpinfer.inference.block_frames import bins_of, find_frame, find_scales, limit, whole_frame
from dpinfer.kernel.price import amounts, price_stage
from dpinfer.kernel.rows.blocks import BINS, MOST_BLOCKS, OCTAVES, BlockMoments, OctaveCounts, PlaceCounts
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.stage import Slot, Stage, Sum
from dpinfer.privacy.units import PureDP
from dpinfer.procedures.conditions import kept_where
from dpinfer.procedures.explanation import first_error
from dpinfer.release import Release
from dpinfer.schema.grid import constant_basis

if TYPE_CHECKING:
    from dpinfer.inference.block_frames import Frame
    from dpinfer.kernel.rows.blocks import BlockSum
    from dpinfer.kernel.stage import Context
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Privacy
    from dpinfer.release import StageRelease
    from dpinfer.schema.region import Region
    from dpinfer.schema.schema import Schema

    Auto = Literal["auto"]

__all__ = [
    "FEWEST",
    "MOST",
    "BlockPlan",
    "BlockShares",
    "block_size",
    "blocks_for",
    "number_of_blocks",
    "rows_of",
    "small_blocks",
]

FEWEST, MOST = 8, MOST_BLOCKS
"""Blocks that can be asked for."""

COUNT_SHARE = Fraction(1, 50)
"""Share of the price that goes to the counts of failed and of moved blocks."""

ROWS_SHARE = Fraction(1, 50)
"""Share of the price that goes to a noisy count of rows, where that decides how many blocks there are."""

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
    rows : Fraction
        For a noisy count of rows; 0 where the number of blocks is known in advance.
    moments : Fraction
        For sums, products and the counts of failed and of moved blocks.
    """

    octaves: Fraction
    places: Fraction
    rows: Fraction = Fraction(0)

    @property
    def moments(self) -> Fraction:
        """The rest of the price."""
        return 1 - self.rows - self.octaves - self.places

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
    count : int or None
        Number k of blocks; None where it is read from a noisy count of rows.
    halves : bool
        Whether half-blocks are fitted as well.
    winsorized : bool
        Whether block estimates are to be located, if the price suffices.
    context : Context
        What is public about the run.
    where : str, optional
        The condition that rows have to meet.
    given : BlockShares, optional
        Shares of the price, where they were settled before the number of blocks was known.
    """

    schema: Schema
    region: Region
    count: int | None
    halves: bool
    winsorized: bool
    context: Context
    where: str | None = None
    given: BlockShares | None = None

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
        the bins and s the noise of a count. That is known before anything is measured. Where k is not, histograms
        get all that they may: few blocks need it, and to many it is little.
        """
        if self.given is not None:
            return self.given
        rows = ROWS_SHARE if self.count is None else Fraction(0)
        if self.winsorized:
            pure = self.norm == "l1"
            wanted = self._wanted(self.count or FEWEST)
            spared = _CAP / sum(wanted.values()) if self.count is None else min(1.0, _CAP / sum(wanted.values()))
            enough = _SIGNAL[self.norm] * (spared if pure else np.sqrt(spared)) >= _ENOUGH[self.norm]
            if enough or self.count is None:
                octaves, places = (Fraction(share * spared).limit_denominator(10**6) for share in wanted.values())
                return BlockShares(octaves, places, rows)
        return BlockShares(Fraction(0), Fraction(0), rows)

    def _wanted(self, count: int) -> dict[str, float]:
        """Return shares of the price at which the histograms of so many blocks have the signal that they should."""
        wanted = {}
        for kind, rows in self._histograms.items():
            counted = count if self.halves or kind == "places" else count // 2  # spreads of pairs
            whole = self.noise(Stage(Sum(rows)), self.context.privacy)
            ratio = _SIGNAL[self.norm] * whole / (counted * np.sqrt(_HEIGHT[kind]))
            wanted[kind] = max(ratio if self.norm == "l1" else ratio**2, _FLOOR)
        return wanted

    @property
    def _histograms(self) -> dict[str, BlockSum]:
        whole = (BINS,) * self.size
        return {
            "octaves": OctaveCounts(self.schema, self.region),
            "places": PlaceCounts(self.schema, self.region, whole),
        }

    def noise(self, stage: Stage, amount: Privacy) -> float:
        """Return the standard deviation of the noise of a stage's first sum, in its units."""
        return first_error(price_stage(stage, amount, self.context))

    @property
    def located(self) -> bool:
        """Whether block estimates are located, rather than bounded by the region alone."""
        return self.shares.places > 0

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Small shares for a count of rows and histograms of scale and place, the rest for sums over the blocks."""
        size, shares = self.size, self.shares
        moments = size + size * (size + 1) // 2 + 2
        first = (Slot(shares.rows, 1),) if shares.rows else ()
        if not self.located:
            return (*first, Slot(shares.moments, moments, adaptive=bool(first)))
        return (
            *first,
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
        noise = self.noise(self.moments(self.whole), amounts(self.context.privacy, self.slots)[-1])
        needed = limit(self.known, self.size, self.norm)
        ratio = noise / self.known * needed * np.sqrt(self.known)
        wide = _LITTLE / ratio if ratio > 0 else _WIDEST  # no noise: a price that is refused when stages are known
        return float(np.clip(wide, 1.0, _WIDEST)) * needed

    def stage(self, place: int, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for the scale of block estimates, then their place, then sums of estimates winsorised there.

        Where the number of blocks is not known in advance, ask for the number of rows before.
        """
        if self.count is None:
            return self.counting if place == 0 else self._next(place, released)
        if not self.located:
            return self.moments(self.whole)
        if place == 0:
            return Stage(Sum(OctaveCounts(self.schema, self.region)))
        scales = find_scales(self.region, released[0].array, _deviation(released[0]))
        if place == 1:
            return Stage(Sum(PlaceCounts(self.schema, self.region, bins_of(self.region, scales))))
        counts, noise = released[1].array, _deviation(released[1])
        return self.moments(find_frame(self.region, counts, noise, scales, norm=self.norm, radius=self.radius))

    def moments(self, frame: Frame) -> Stage:
        """Ask for sums of block estimates that are winsorised in a frame."""
        center, half = tuple(frame.center.tolist()), tuple(frame.half.tolist())
        rows = BlockMoments(self.schema, self.region, center, half, self.norm)
        dealt = {} if self.given is None else {"blocks": self.known}
        return Stage(Sum(rows, shares=self.shares.parts), settings={**frame.to_dict(), **dealt})

    # The number of blocks

    @property
    def known(self) -> int:
        """The number of blocks, where it is known."""
        if self.count is None:
            raise OptionError("blocks", None, "a whole number: none is known before rows are counted")
        return self.count

    @property
    def counting(self) -> Stage:
        """Ask for the number of rows that are dealt into blocks."""
        return Stage(Sum(CellSum(Features(constant_basis(self.schema), kept_where(self.where, self.schema)))))

    def dealt(self, released: tuple[StageRelease, ...]) -> int:
        """Return the number of blocks that a noisy count of rows, released first, asks for."""
        if self.count is not None:
            return self.count
        return blocks_for(float(released[0].array[0]), self.size, halves=self.halves)

    def at(self, count: int) -> BlockPlan:
        """Return the same sums over so many blocks, at the shares that were settled before."""
        return replace(self, count=count, given=self.shares)

    def _next(self, place: int, released: tuple[StageRelease, ...]) -> Stage:
        """Ask for a stage after the count; one that asks for the same whatever was counted is asked for before it."""
        if self.located and place == 1:
            return Stage(Sum(OctaveCounts(self.schema, self.region)))
        return self.at(self.dealt(released)).stage(place - 1, released[1:])


def _deviation(released: StageRelease) -> float:
    return float(np.sqrt(released.noise_variances[0]))


def block_size(nobs: float, size: int, *, halves: bool) -> float:
    """Rows that a block should hold, so that the bias left is a fraction of the standard error.

    Bias over standard error goes as m^-2 n^(1/2) with the correction by half-blocks, as m^-1 n^(1/2) without; the
    constants leave about a quarter in a logit with slopes up to 1 (`validation/blocks/aggregate_coverage.py`).
    """
    wanted = 4 * size**0.75 * nobs**0.25 if halves else 3 * np.sqrt(size * nobs)
    return float(max(wanted, 20 * (size + 1)))


def small_blocks(
    nobs: float | None, blocks: int, size: int, *, halves: bool, doubt: float = 0.0, most: int | None = None
) -> tuple[str, ...]:
    """Warn where blocks of a known number of rows are much smaller than `block_size` advises.

    Of a noisy number ``doubt`` is by how much it may be too small. Of a block at most ``most`` rows are fitted.
    """
    if nobs is None:
        return ()
    largest = np.inf if most is None else float(most * blocks)
    upper, nobs = min(max(nobs + doubt, 1.0), largest), min(nobs, largest)
    if upper / blocks >= _SMALL * block_size(upper, size, halves=halves):
        return ()
    held, wanted = max(nobs, 0.0) / blocks, block_size(max(nobs, 1.0), size, halves=halves)
    return (
        f"a block holds about {held:,.0f} rows for {size} parameter{'s' if size > 1 else ''}: the bias of its "
        f"estimates, which more blocks do not average out, may not be small (about {wanted:,.0f} rows are advised)",
    )


def blocks_for(nobs: float, size: int, *, halves: bool) -> int:
    """Return the number of blocks that suits a noisy number of rows, whatever it is: the fewest for too few rows."""
    rows = max(nobs, 1.0)
    return int(np.clip(rows / block_size(rows, size, halves=halves), FEWEST, MOST))


def number_of_blocks(
    asked: int | Auto, nobs: float | None, size: int, *, counted: bool, halves: bool, most: int | None = None
) -> int | Auto:
    """Return the number of blocks that was asked for, or that suits a number of rows.

    Where none is known it is "auto", if rows can be ``counted``: their number is not public. Of a block at most
    ``most`` rows are fitted.

    Raises
    ------
    OptionError
        If blocks would be too small for the parameters, or no number of rows is known that is public.
    """
    least = 4 * (size + 1) if halves else 2 * (size + 1)
    if most is not None and most < least:
        raise OptionError("max_block_rows", most, f"at least {least} rows for {size} parameters, or None")
    if isinstance(asked, int):
        if nobs is not None and nobs / asked < least:
            right = f"at most {max(int(nobs / least), 0):,}: blocks of at least {least} rows for {size} parameters"
            raise OptionError("blocks", asked, right)
        return asked
    if nobs is None and counted:
        return "auto"
    if nobs is None:
        right = "a number of blocks, nobs= or data: the number of rows is public under replace_one"
        raise OptionError("blocks", "auto", right)
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
