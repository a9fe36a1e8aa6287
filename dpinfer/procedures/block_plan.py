"""How a price and a number of rows become blocks, shares of the price, and the width of the winsorising ball."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.privacy.accounting import calibrate
from dpinfer.release import Release
from dpinfer.results.aggregate import block_size
from dpinfer.kernel.rows.blocks import BLOCK_UNIT, BlockRows, limit

if TYPE_CHECKING:
    from dpinfer.privacy.units import Neighbors, Privacy

__all__ = ["FEWEST", "MOST", "budget_shares", "number_of_blocks", "rows_of", "stretch"]

FEWEST, MOST = 8, 2**20
"""Blocks that can be asked for."""

_COUNT_SHARE = 0.02
"""Share of the price that goes to the counts of failed and of moved blocks."""

_SIGNAL, _ENOUGH = {"l2": 10.0, "l1": 14.0}, {"l2": 5.0, "l1": 9.0}
"""Signal that histograms are to have, and the least with which blocks are winsorised, by norm of the noise."""

_CAP, _FLOOR = 0.4, 0.02
"""Bounds on the share of the price that histograms take, together and each."""

_LITTLE, _WIDEST = 0.25, 3.0
"""Privacy noise over sampling error up to which the winsorising ball is widened, and by how much at most."""

_HEIGHT = {"scale": 0.25, "location": 0.28}
"""Sum of squared shares of the bins, for estimates that are about normal."""


def budget_shares(rows: BlockRows, privacy: Privacy) -> dict[str, float]:
    """Divide a price among histograms, sums and counts of blocks.

    Parameters
    ----------
    rows : BlockRows
    privacy : Privacy

    Returns
    -------
    dict
        Share of each kind of sums; 0 for histograms that would be lost in their noise at any reasonable share.

    Notes
    -----
    A peak of estimates spread over about one bin has signal k h^(1/2) / s, where h is the sum of squared shares of
    the bins and s the noise of a count. That is known before anything is measured.
    """
    counts = {"count": _COUNT_SHARE}
    if rows.winsorized:
        pure = rows.norm == "l1"
        unit = calibrate(Fraction(1), privacy, "laplace" if pure else "gaussian")
        wanted = {}
        for kind, height in _HEIGHT.items():
            whole = (
                float(rows.sensitivities[kind]) * unit * (np.sqrt(2.0) if pure else 1.0)
            )  # noise for the whole price
            counted = rows.blocks if rows.halves or kind == "location" else rows.blocks // 2  # spreads of pairs
            ratio = _SIGNAL[rows.norm] * whole / (counted * np.sqrt(height))
            wanted[kind] = max(ratio if pure else ratio**2, _FLOOR)
        total = sum(wanted.values())
        spared = min(1.0, _CAP / total)
        if _SIGNAL[rows.norm] * (spared if pure else np.sqrt(spared)) >= _ENOUGH[rows.norm]:
            wanted = {kind: share * spared for kind, share in wanted.items()}
            return {**wanted, **counts, "sum": 1.0 - sum(wanted.values()) - _COUNT_SHARE}
    return {"scale": 0.0, "location": 0.0, **counts, "sum": 1.0 - _COUNT_SHARE}


def stretch(rows: BlockRows, scale: float, *, pure: bool) -> float:
    """Say how much wider the winsorising ball can be at little cost: skewed block estimates are then not cut off."""
    noise = scale * (np.sqrt(2.0) if pure else 1.0) / BLOCK_UNIT / rows.blocks
    ratio = noise * limit(rows.blocks, rows.size, rows.norm) * np.sqrt(rows.blocks)
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
