"""The pair of neighbours that moves a stage the furthest beside its noise, by hill climbing on exact integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial.distance import cdist

from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.rows.blocks import BlockSum, block_values
from dpinfer.kernel.stage import Above, Largest, Resampled
from dpinfer.kernel.sums import exact_sums
from dpinfer.studies.auditing.stated import given_away, losses
from dpinfer.studies.auditing.units import Pair, frame_of, source_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    import pandas as pd
    from numpy.typing import NDArray

    from dpinfer.kernel.price import PricedStage
    from dpinfer.studies.auditing.units import Unit, Units

    Ints = list[int]

__all__ = ["Worst", "added", "arrays_of", "whole_change", "worst_blocks", "worst_units"]

_FIRST = 120
_ROUNDS, _MUTANTS = 8, 24
_MOST_NUMBERS = 3_000_000
"""Numbers held while pairs are compared."""


@dataclass(frozen=True, eq=False, slots=True)
class Worst:
    """The pair that gave most away.

    Attributes
    ----------
    pair : Pair or None
        None where blocks changed.
    change : list of int
        Of the exact sums, from the second to the first.
    amount : Fraction, or infinite
        What is given away.
    tried : int
        Units and pairs that were compared.
    exact : list of int
        The sums of the second.
    """

    pair: Pair | None
    change: Ints
    amount: Fraction | float
    tried: int
    exact: Ints


def arrays_of(unit: Unit) -> dict[str, NDArray[Any]]:
    """Cells of a unit as columns of objects."""
    found = {}
    for name, cells in unit.items():
        column = np.empty(len(cells), dtype=object)
        column[:] = cells
        found[name] = column
    return found


def added(priced: PricedStage, unit: Unit | None) -> Ints:
    """Return what a unit adds to the exact sums of a stage; of resampled sums, to one of them at weight 1."""
    rows, measure = priced.rows, priced.stage.measure
    if unit is None:
        widths = {Resampled: "width", Largest: "entries", Above: "entries"}
        return [0] * int(getattr(rows, widths[type(measure)]) if type(measure) in widths else len(priced.names))
    size = len(next(iter(unit.values())))
    persons = np.zeros(size, dtype=np.int64) if rows.schema.people is not None else None
    totals = rows.add(Batch(arrays_of(unit), size, persons=persons))[0].tolist()
    found: Ints = totals if isinstance(measure, Resampled) else rows.finish(totals)
    return found


def worst_units(
    priced: PricedStage,
    units: Units,
    *,
    amount: Callable[[Ints, PricedStage], Fraction | float] = given_away,
    search: Callable[[NDArray[np.float64], PricedStage], NDArray[np.float64]] = losses,
) -> Worst:
    """Search for the pair of units that gives most away.

    Under add_remove one of the two is no unit at all. The search is in floats; the pair that it ends with is measured
    in exact arithmetic.
    """
    width = len(added(priced, None))
    size = int(np.clip(_MOST_NUMBERS // max(width, 1), 16, _FIRST))
    corners = units.corners()[:size]
    drawn: list[Unit | None] = [None, *corners, *(units.draw() for _ in range(max(size - len(corners), 0)))]
    found = [added(priced, unit) for unit in drawn]
    best, tried = _best_pair(drawn, found, priced, units.neighbors, search)
    for _ in range(_ROUNDS):
        best, more = _climbed(best, priced, units, search)
        tried += more
    (first, change_of), (second, rest) = best
    change = [a - b for a, b in zip(change_of, rest, strict=True)]
    return Worst(Pair(first, second), change, amount(change, priced), tried, rest)


Side = tuple["Unit | None", "Ints"]


def _best_pair(
    drawn: list[Unit | None], found: list[Ints], priced: PricedStage, neighbors: str, search: Any
) -> tuple[tuple[Side, Side], int]:
    values = np.array(found, dtype=np.float64)
    if neighbors == "add_remove":
        place = int(np.argmax(search(values, priced)))
        return ((drawn[place], found[place]), (None, found[0])), len(found)
    first, second, top = 1, 1, -1.0
    start = 0 if priced.rows.schema.people is not None else 1  # a person may have no row; a row is always there
    for place in range(start, len(found)):
        all_pairs = search(values[place] - values[start:], priced)
        other = int(np.argmax(all_pairs))
        if all_pairs[other] > top:
            first, second, top = place, start + other, float(all_pairs[other])
    return ((drawn[first], found[first]), (drawn[second], found[second])), len(found) * (len(found) - 1) // 2


def _climbed(best: tuple[Side, Side], priced: PricedStage, units: Units, search: Any) -> tuple[tuple[Side, Side], int]:
    """Change cells of either unit, and keep what gives more away."""
    for which in (0, 1):
        side, other = best[which], best[1 - which]
        if side[0] is None:
            continue
        mutants = [units.mutated(side[0]) for _ in range(_MUTANTS)]
        found = [added(priced, unit) for unit in mutants]
        values = np.array([side[1], *found], dtype=np.float64) - np.array(other[1], dtype=np.float64)
        place = int(np.argmax(search(values, priced)))
        if place:
            mine = (mutants[place - 1], found[place - 1])
            best = (mine, other) if which == 0 else (other, mine)
    return best, 2 * _MUTANTS


def whole_change(priced: PricedStage, pair: Pair, base: pd.DataFrame, place: int) -> tuple[Ints, Ints]:
    """Sum whole data sets that differ in a pair, as a run does: the change, and the sums of the second."""
    schema = priced.rows.schema
    first, second = (
        exact_sums(priced.rows, source_of(frame_of(base, unit, schema, place), schema), threads=1)
        for unit in (pair.first, pair.second)
    )
    return [a - b for a, b in zip(first, second, strict=True)], second


# Blocks


def worst_blocks(priced: PricedStage, rng: np.random.Generator) -> Worst:
    """Search for the fits of one block, among others, that move the sums over blocks the furthest.

    A fit may be anything: beyond the region, at its corners, not a number.
    """
    rows = priced.rows
    assert isinstance(rows, BlockSum)
    region, count, size = rows.region, 64, len(rows.region.names)
    others = region.center + 0.3 * region.radius * rng.uniform(-1, 1, (3, 3, size))
    fits = region.center + 3 * region.radius * rng.uniform(-1, 1, (count, 3, size))
    fits[: count // 4] = region.center + region.radius * rng.choice([-1e9, -1, 0, 1, 1e9], (count // 4, 3, size))
    fits[count // 4 : count // 2] = fits[count // 4 : count // 2, :1]  # halves that agree with their block
    fits[-6:-3], fits[-3:] = np.nan, np.inf
    values_of = [block_values(np.concatenate([fit[None], others]), region) for fit in fits]
    found = [rows.add(values)[0].tolist() for values in values_of]  # type: ignore[arg-type]
    values = np.array(found, dtype=np.float64)
    law = priced.law
    scales = np.asarray(law.scales)
    scaled = values / np.where(scales > 0, scales, 1e-300)
    apart = cdist(scaled, scaled, "cityblock" if law.family == "laplace" else "sqeuclidean")
    first, second = np.unravel_index(int(np.argmax(apart)), apart.shape)
    change = [a - b for a, b in zip(found[first], found[second], strict=True)]
    return Worst(None, change, given_away(change, priced), count * (count - 1) // 2, found[second])
