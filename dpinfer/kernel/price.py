"""Prices: how much noise a stage gets, and what it costs.

Only this module and those that it calls (`price_sum`, `price_choice`, `price_resampled`) state a noise scale or a cost.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError, kind_of, type_of
from dpinfer.kernel.price_choice import price_above, price_largest, price_place
from dpinfer.kernel.price_resampled import price_resampled
from dpinfer.kernel.price_sum import price_sum
from dpinfer.kernel.rows.blocks import BlockMoments, OctaveCounts, PlaceCounts
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.classes import ClassCounts, OctaveRows
from dpinfer.kernel.rows.marginals import MarginalSum
from dpinfer.kernel.rows.persons import PersonSum
from dpinfer.kernel.rows.products import GramSum
from dpinfer.kernel.rows.queries import QuerySum
from dpinfer.kernel.rows.resampled import ReplicateSum
from dpinfer.kernel.rows.round_counts import RoundCounts
from dpinfer.kernel.rows.rounds import RoundSum
from dpinfer.kernel.rows.scores import ScoreSum
from dpinfer.kernel.rows.tree import PointRows, TreeSum
from dpinfer.kernel.sealing import own_fraction, sealed_stage
from dpinfer.kernel.stage import Above, Context, Largest, Noise, Place, Resampled, Slot, Stage, Sum
from dpinfer.privacy.accounting import (
    choice_cost,
    gaussian_amount,
    gaussian_cost,
    joint_cost,
    laplace_cost,
    least_scale,
)
from dpinfer.privacy.units import Privacy, PureDP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpinfer.kernel.priced_stage import PricedStage
    from dpinfer.privacy.accounting import Cost

__all__ = ["amounts", "checked_slots", "price_stage", "reserved_cost", "total_cost"]


# Slots


def checked_slots(slots: object) -> tuple[Slot, ...]:
    """Return slots; refuse what is none, or asks for more than the whole price."""
    asked = tuple(slots) if isinstance(slots, tuple | list) else ()  # once: a type of its own may yield others
    if not asked or not all(type(slot) is Slot for slot in asked):
        raise OptionError("slots", kind_of(slots), "a tuple with one Slot for each stage, at least one")
    asked = tuple(Slot(own_fraction(slot.share), slot.most, slot.adaptive) for slot in asked)
    total = sum((Fraction(slot.share) for slot in asked), Fraction(0))
    if total > 1:
        raise OptionError("slots", str(total), "shares of the price that add up to at most 1")
    if asked[0].adaptive:
        raise OptionError("adaptive", True, "False for the first stage: nothing is released before it")
    return asked


def amounts(privacy: Privacy, slots: Sequence[Slot]) -> list[Privacy]:
    """Return the price of each stage: the whole one, or shares of the amount that composes, rounded down."""
    if len(slots) == 1 and slots[0].share == 1:
        return [privacy]
    whole = privacy if isinstance(privacy, PureDP) else gaussian_amount(privacy)
    return [whole * Fraction(slot.share) for slot in slots]  # type: ignore[operator]


def reserved_cost(slot: Slot, amount: Privacy, context: Context, most: int, rehearsed: Cost) -> Cost:
    """Cost of an adaptive stage before it is known: of as many noisy sums as its slot allows, and of what it rehearsed.

    A choice or resampled sums cost more than noisy sums in some currencies. ``most`` counts the coordinates of all
    stages, for which the grid is made fine enough.
    """
    if isinstance(amount, PureDP):
        cost, choice = laplace_cost(amount), choice_cost(amount, "exponential")  # the same, but for rounding
        pure = replace(cost, mu_squared=max(one.mu_squared or Fraction(0) for one in (cost, choice)))
        return pure.larger(rehearsed)
    sums = gaussian_cost(amount, scales=np.full(slot.most, least_scale(context.privacy, most)))
    return sums.larger(rehearsed)


def total_cost(privacy: Privacy, costs: Sequence[Cost]) -> Cost:
    """Cost of all stages together, at the whole price."""
    return costs[0] if len(costs) == 1 and costs[0].price == privacy else joint_cost(privacy, costs)


# Stages


def price_stage(stage: Stage, amount: Privacy, context: Context, *, most: int | None = None) -> PricedStage:
    """Say how much noise a stage gets at its share of the price.

    ``most`` counts the coordinates of all stages, where there are several: the grid is then fine enough for them all.
    Refused with an `OptionError` is a part of a stage that is not one of the kernel's own types, or was made for other
    columns or another unit; with a `NotProvedError` or `PrivacyUnitError` what no proof covers.
    """
    if type(stage) is not Stage or type(stage.measure) not in _PRICES or type(stage.noise) is not Noise:
        raise OptionError("stage", type_of(stage), "a Stage of Sum, Largest, Above, Place or Resampled, with a Noise")
    sealed = sealed_stage(stage, context.schema)
    rows, allowed = sealed.measure.rows, _ROWS[type(sealed.measure)]
    if type(rows) not in allowed:
        right = ", ".join(one.__name__ for one in allowed)
        raise OptionError("rows", type_of(rows), f"one of the kernel's own types: {right}")
    if sealed.noise != Noise() and type(sealed.measure) is not Sum:
        raise OptionError("noise", type_of(sealed.measure), "a Sum, where draws= or tulap= is given")
    return _PRICES[type(sealed.measure)](sealed, amount, context, most)


_PRICES: dict[type, Callable[[Stage, Privacy, Context, int | None], PricedStage]] = {
    Sum: price_sum,
    Largest: price_largest,
    Above: price_above,
    Place: price_place,
    Resampled: price_resampled,
}

_ROWS: dict[type, tuple[type, ...]] = {
    Sum: (
        *(CellSum, PersonSum, QuerySum, TreeSum, GramSum, RoundSum, RoundCounts),
        *(OctaveCounts, PlaceCounts, BlockMoments),
        *(ClassCounts, OctaveRows, MarginalSum),
    ),
    Largest: (ScoreSum,),
    Above: (ScoreSum,),
    Place: (PointRows,),
    Resampled: (ReplicateSum,),
}
"""What each measure takes: a closed set, checked by exact type, so that no other code bounds or adds up rows."""
