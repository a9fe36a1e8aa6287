"""How a price and a number of rows become blocks, shares of the price, and the width of the winsorising ball."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.inference.block_frames import limit
from dpinfer.kernel.price import price_stage
from dpinfer.kernel.rows.blocks import BINS, OctaveCounts, PlaceCounts
from dpinfer.kernel.stage import Stage, Sum
from dpinfer.privacy.units import PureDP
from dpinfer.release import Release
from dpinfer.results.aggregate import block_size

if TYPE_CHECKING:
    from dpinfer.kernel.rows.blocks import Blocks, BlockSum
    from dpinfer.kernel.stage import Context
    from dpinfer.privacy.units import Neighbors, Privacy

__all__ = ["FEWEST", "MOST", "BlockShares", "block_shares", "count_noise", "number_of_blocks", "rows_of", "stretch"]

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
        """What is left."""
        return 1 - self.octaves - self.places

    @property
    def parts(self) -> tuple[float, float]:
        """Of the share for moments, those of sums with products and of the two counts."""
        counts = float(COUNT_SHARE / self.moments)
        return 1 - counts, counts


def block_shares(blocks: Blocks, context: Context, *, winsorized: bool) -> BlockShares:
    """Divide a price among histograms, sums and counts of blocks.

    Parameters
    ----------
    blocks : Blocks
    context : Context
    winsorized : bool
        Whether the blocks are to be located.

    Returns
    -------
    BlockShares
        No share for histograms that would be lost in their noise at any reasonable share.

    Notes
    -----
    A peak of estimates spread over about one bin has signal k h^(1/2) / s, where h is the sum of squared shares of
    the bins and s the noise of a count. That is known before anything is measured.
    """
    if winsorized:
        pure = isinstance(context.privacy, PureDP)
        norm = "l1" if pure else "l2"
        wanted = {}
        for kind, rows in _histograms(blocks).items():
            counted = blocks.count if blocks.halves or kind == "places" else blocks.count // 2  # spreads of pairs
            whole = count_noise(Stage(Sum(rows)), context.privacy, context)
            ratio = _SIGNAL[norm] * whole / (counted * np.sqrt(_HEIGHT[kind]))
            wanted[kind] = max(ratio if pure else ratio**2, _FLOOR)
        spared = min(1.0, _CAP / sum(wanted.values()))
        if _SIGNAL[norm] * (spared if pure else np.sqrt(spared)) >= _ENOUGH[norm]:
            octaves, places = (Fraction(share * spared).limit_denominator(10**6) for share in wanted.values())
            return BlockShares(octaves, places)
    return BlockShares(Fraction(0), Fraction(0))


def _histograms(blocks: Blocks) -> dict[str, BlockSum]:
    whole = (BINS,) * blocks.size
    return {
        "octaves": OctaveCounts(blocks.schema, blocks.region),
        "places": PlaceCounts(blocks.schema, blocks.region, whole),
    }


def count_noise(stage: Stage, amount: Privacy, context: Context) -> float:
    """Return the standard deviation of the noise of a stage's first sum, in its units."""
    priced = price_stage(stage, amount, context)
    return float(np.sqrt(priced.law.variances[0])) * priced.steps[0]


def stretch(blocks: Blocks, noise: float, *, pure: bool) -> float:
    """Say how much wider the winsorising ball can be at little cost: skewed block estimates are then not cut off.

    Parameters
    ----------
    blocks : Blocks
    noise : float
        Standard deviation of the noise of a sum, in units of the ball.
    pure : bool
    """
    radius = limit(blocks.count, blocks.size, "l1" if pure else "l2")
    ratio = noise / blocks.count * radius * np.sqrt(blocks.count)
    return float(np.clip(_LITTLE / ratio, 1.0, _WIDEST))


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
    """Return a number of rows, given as such or as a release or results that hold one."""
    if nobs is None:
        return None
    found = nobs
    if not isinstance(found, int | float | np.integer | np.floating):
        found = getattr(nobs, "nobs", None)
        if found is None and isinstance(nobs, Release):
            found = nobs.array[0] if nobs.kind == "gram" else getattr(nobs.infer(), "nobs", None)
    if isinstance(found, bool) or not isinstance(found, int | float | np.integer | np.floating):
        raise OptionError("nobs", type(nobs).__name__, "a number of rows that is public, or a release that holds one")
    if not 1 <= found <= 2**53:
        raise OptionError("nobs", nobs, "a number of rows of at least 1")
    return float(found)
