"""Measurements of sums in the cells of a table: the noise plan."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.privacy.accounting import (
    Law,
    calibrate,
    coordinate_scales,
    gaussian_cost,
    laplace_cost,
    least_scale,
    too_little_noise,
)
from dpinfer.privacy.sensitivity import joint_sensitivity
from dpinfer.privacy.units import PureDP
from dpinfer.release import Measurement, NoiseLaw
from dpinfer.release.laws import TULAP_GRID
from dpinfer.kernel.rows.persons import PersonSum
from dpinfer.kernel.rows.reach import Reach, reach_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dpinfer.privacy.cost import Cost
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Neighbors, Privacy
    from dpinfer.kernel.rows.cells import CellSum

__all__ = ["MOST_SUMS", "check_draws", "noise_plan", "sums_bound", "sums_measurement", "tulap_measurement"]

_FINEST = 2**60
"""Steps that a row may be cut into, for noise of little width."""

MOST_SUMS = 2**22
"""Sums that one measurement may have."""


def sums_measurement(
    rows: CellSum,
    *,
    kind: str,
    privacy: Privacy,
    neighbors: Neighbors,
    question: Mapping[str, Any],
    weights: Sequence[float] | None = None,
    draws: int = 1,
) -> Measurement:
    """Plan the noisy sums of features in the cells of a table at a price.

    Parameters
    ----------
    rows : CellSum
    kind : str
        Name under which the inference is registered.
    privacy : Privacy
        `PureDP` brings discrete Laplace noise, the others discrete Gaussian.
    neighbors : {"add_remove", "replace_one"}
    question : mapping
        The public question, stored in the release.
    weights : sequence of float, length d, optional
        Noise scale of each feature, relative to the others; all 1 by default.
    draws : int
        Average so many independent draws, each at its share of a `PureDP` price.

    Returns
    -------
    Measurement

    Raises
    ------
    OptionError
        If nothing private is left to measure, there are too many cells, or ``draws`` needs a `PureDP` price.

    Notes
    -----
    One row is in one cell at most. Let C bound the norm of its features, each divided by its weight, and D the
    norm of the difference between two rows' features. Adding or removing a row moves the stacked sums by at most
    C. Replacing one moves them by at most D within a cell; between two cells by C sqrt 2 (L2) or 2 C (L1); and by
    C where a row may be in no cell. A person with at most m rows moves them by at most m times that, and the sums of
    `PersonSum` by the same C and D of a person: see `docs/people.md`.
    """
    norm: Norm = "l1" if isinstance(privacy, PureDP) else "l2"
    family: Law = "laplace" if norm == "l1" else "gaussian"
    _check(rows, draws, privacy)
    relative = np.ones(rows.width) if weights is None else np.asarray(weights, dtype=np.float64)
    bound = sums_bound(rows, relative, neighbors, norm)
    free = rows.counted and neighbors == "replace_one" and rows.size == 1 and rows.keeps_every_row
    if bound == 0:
        raise OptionError(
            "neighbors", neighbors, "add_remove: the number of rows, all that is asked for, is public here"
        )
    noisy = np.ones((rows.size, rows.width), dtype=bool)
    noisy[0, 0] = not free
    spread = np.broadcast_to(relative, noisy.shape)[noisy]
    scales = np.zeros(noisy.shape)
    scales[noisy], multiplier, cost = noise_plan(bound * rows.unit, privacy, spread, draws=draws)
    return Measurement(
        kind=kind,
        question=question,
        rows=rows,
        law=NoiseLaw(family, tuple(scales.ravel().tolist()), draws),
        cost=cost,
        neighbors=neighbors,
        names=rows.names,
        steps=(1.0 / (rows.unit * multiplier),) * noisy.size,
        sensitivity=rows.schema.of_unit(_words(bound, norm, rows, neighbors)),
        measures=_measures(rows),
        multiplier=multiplier,
    )


def noise_plan(
    sensitivity: Fraction,
    privacy: Privacy,
    weights: NDArray[np.float64],
    *,
    draws: int = 1,
    total: Privacy | None = None,
) -> tuple[NDArray[np.float64], int, Cost]:
    """Say how much noise a price asks for, and on how fine a grid.

    Parameters
    ----------
    sensitivity : Fraction
        Bound on the norm of the change of the integer sums, each over its weight: L1 for `PureDP`, otherwise L2.
    privacy : Privacy
    weights : ndarray (k,)
        Noise scale of every sum that is not public, relative to the others.
    draws : int
        Number of independent Laplace draws that are averaged.
    total : Privacy, optional
        The price of which ``privacy`` is a share: the grid is then fine enough for it.

    Returns
    -------
    scales : ndarray (k,)
        Noise scales, in steps of the multiplied sums.
    multiplier : int
        What the sums are multiplied by before the noise is added.
    cost : Cost
    """
    if isinstance(privacy, PureDP):
        scale = calibrate(sensitivity * draws, privacy, "laplace")
        return coordinate_scales(scale, weights), draws, laplace_cost(privacy)
    scale, multiplier = calibrate(sensitivity, privacy, "gaussian"), 1
    least = least_scale(total or privacy, weights.size)
    while scale * multiplier * float(weights.min()) < least:
        multiplier *= 2
        if multiplier > _FINEST:
            raise too_little_noise(total or privacy, scale * _FINEST * float(weights.min()) / least)
    scales = coordinate_scales(scale * multiplier, weights)  # exact: a power of two
    return scales, multiplier, gaussian_cost(privacy, scales=scales)


def check_draws(draws: int, privacy: Privacy | None = None) -> None:
    """Refuse a number of draws that is none, or that a price does not allow.

    Raises
    ------
    OptionError
    """
    if type(draws) is not int or draws < 1:
        raise OptionError("draws", draws, "a positive whole number")
    if draws > 1 and privacy is not None and not isinstance(privacy, PureDP):
        raise OptionError(
            "draws", draws, f"1: the average of several Laplace draws needs a PureDP price, not {privacy}"
        )


def tulap_measurement(
    rows: CellSum, *, kind: str, privacy: Privacy, neighbors: Neighbors, question: Mapping[str, Any]
) -> Measurement:
    """Plan one noisy count of the rows that meet a condition, with Tulap noise, for exact inference.

    Parameters
    ----------
    rows : CellSum
        One cell with a condition; every row is either counted or not.
    kind, privacy, neighbors, question
        As in `sums_measurement`.

    Raises
    ------
    NotProvedError
        Unless the price is `PureDP`: Tulap noise is discrete Laplace noise with a uniform fraction.
    """
    if not isinstance(privacy, PureDP):
        raise NotProvedError('an exact interval needs a PureDP price: its noise is Tulap; or use inference="score"')
    scale = calibrate(TULAP_GRID * rows.schema.rows_per_unit, privacy, "laplace")
    return Measurement(
        kind=kind,
        question=question,
        rows=rows,
        law=NoiseLaw("tulap", (scale,)),
        cost=laplace_cost(privacy),
        neighbors=neighbors,
        names=rows.names,
        steps=(1.0 / TULAP_GRID,),
        sensitivity=f"{rows.schema.unit} changes the count by at most {rows.schema.rows_per_unit:,}",
        measures=_measures(rows),
        multiplier=TULAP_GRID,
    )


def _check(rows: CellSum, draws: int, privacy: Privacy) -> None:
    check_draws(draws, privacy)
    if rows.size * rows.width > MOST_SUMS:
        raise OptionError("by", f"{rows.size:,} cells", f"a table of at most {MOST_SUMS // rows.width:,} cells")


def sums_bound(rows: CellSum, weights: np.ndarray, neighbors: Neighbors, norm: Norm) -> Fraction:
    """Bound on the norm of the change of all sums between neighbours, in units of the scaled features."""
    reach, most = _reach(rows, weights, norm)
    length = Fraction(reach.length)
    if neighbors == "add_remove":
        return most * length
    bounds = [Fraction(reach.spread)]
    if not rows.keeps_every_row:
        bounds.append(length)
    if rows.size > 1:
        bounds.append(joint_sensitivity([(length, 1.0), (length, 1.0)], norm=norm))
    return most * max(bounds)


def _reach(rows: CellSum, weights: np.ndarray, norm: Norm) -> tuple[Reach, int]:
    """Reach of what is summed, and how often a unit can reach so far: once for each of its rows, or in all."""
    if isinstance(rows, PersonSum):
        return rows.reach(weights.tolist(), norm), 1
    everything = weights.tolist() if rows.counted else [float("inf"), *weights.tolist()]
    reach = Reach(1.0, 0.0) if rows.counts_only else reach_of(rows.features.basis, everything, norm)
    return reach, rows.schema.rows_per_unit


def _words(bound: Fraction, norm: Norm, rows: CellSum, neighbors: Neighbors) -> str:
    kind = "Euclidean" if norm == "l2" else "L1"
    moved = "; a row that changes its cell counts in both" if neighbors == "replace_one" and rows.size > 1 else ""
    scaled = "rows" if rows.counts_only else "the scaled features, each over its relative noise"
    if isinstance(rows, PersonSum):
        scaled = f"{rows.most:,} rows at their bounds, each over its relative noise"
    return f"{kind} norm of the change of all sums at most {float(bound):.6g} in units of {scaled}{moved}"


def _measures(rows: CellSum) -> str:
    where = f" in each of {rows.size:,} cells" if rows.size > 1 else ""
    condition = rows.features.where
    where += f", where {condition.text}" if condition is not None else ""
    if rows.counts_only:
        return "the number of rows" + where
    listed = ", ".join(rows.summed)
    return f"{rows.width} sum{'s' if rows.width > 1 else ''}{where}: {listed}"
