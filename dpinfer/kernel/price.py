"""Prices: how much noise a stage gets, and what it costs.

Only this module and those that it calls (`price_sum`, `price_choice`, `price_resampled`) state a noise scale or a cost.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import NotProvedError, OptionError, PrivacyUnitError, kind_of, type_of
from dpinfer.kernel.copies import own_fraction, sealed_stage
from dpinfer.kernel.rows.blocks import BlockMoments, OctaveCounts, PlaceCounts
from dpinfer.kernel.rows.cells import CellSum, PersonSum, QuerySum
from dpinfer.kernel.rows.iterations import RoundCounts, RoundSum
from dpinfer.kernel.rows.marginals import ClassCounts, MarginalSum, OctaveRows
from dpinfer.kernel.rows.products import GramSum, ReplicateSum
from dpinfer.kernel.rows.scores import ScoreSum
from dpinfer.kernel.rows.tree import LARGEST_CHOICE, RANK, SLACK, PointRows, TreeSum
from dpinfer.kernel.stage import Above, Context, Largest, Noise, Place, Resampled, Slot, Stage, Sum
from dpinfer.privacy.accounting import (
    calibrate,
    coordinate_scales,
    discrete_gaussian_tau,
    gaussian_amount,
    gaussian_cost,
    laplace_cost,
    least_scale,
    too_little_noise,
)
from dpinfer.privacy.exact import binary, digits_below, sqrt_above, sqrt_below
from dpinfer.privacy.resampling import DOUBLE_OR_NOTHING, LARGEST_MU, POISSON, cost_of, resampled_cost
from dpinfer.privacy.selection import choice_cost, choice_scale, threshold_scales
from dpinfer.privacy.sharing import joint_cost
from dpinfer.privacy.units import GDP, ZCDP, ApproxDP, Privacy, PureDP
from dpinfer.release.laws import TULAP_GRID, NoiseLaw
from dpinfer.release.stage import StageRelease

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dpinfer.kernel.rows.base import BoundedSum
    from dpinfer.kernel.stage import Context
    from dpinfer.privacy.cost import Cost
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.privacy.units import Privacy

    Array = NDArray[np.float64]

__all__ = [
    "PricedStage",
    "amounts",
    "checked_slots",
    "fine",
    "noise_plan",
    "price_above",
    "price_largest",
    "price_place",
    "price_resampled",
    "price_stage",
    "price_sum",
    "reserved_cost",
    "total_cost",
]


@dataclass(frozen=True, eq=False)
class PricedStage:
    """A stage with the noise that its price buys, for each of m released integers.

    ``bound`` is on what one unit changes: the norm of the integer sums, the range of scores, or a rank. The exact sums
    are multiplied by ``multiplier`` before the noise is added, so that it is fine; ``steps`` are sizes after that.
    """

    stage: Stage
    names: tuple[str, ...]
    law: NoiseLaw
    steps: tuple[float, ...]
    cost: Cost
    bound: Fraction
    multiplier: int = 1

    @property
    def rows(self) -> Any:
        """The row sum that is measured."""
        return self.stage.measure.rows

    def released(self, values: Sequence[int]) -> StageRelease:
        """Return what the stage released, of copies: a procedure keeps what it is handed, and may change it."""
        return StageRelease(self.names, tuple(values), self.steps, replace(self.law), deepcopy(self.stage.settings))


_FINEST = 2**60
"""Steps that a row may be cut into, for noise of little width."""

_LARGEST = 1e150
"""Noise laws have smaller scales, see `NoiseLaw`."""


def price_sum(stage: Stage, amount: Privacy, context: Context, most: int | None) -> PricedStage:
    """Price noisy sums."""
    measure: Sum = stage.measure  # type: ignore[assignment]
    _check_draws(stage, amount)
    norm: Norm = "l1" if isinstance(amount, PureDP) else "l2"
    bounded = measure.rows.bounded(context.neighbors, norm, weights=measure.weights, shares=measure.shares)
    if stage.noise.tulap:
        return _price_tulap(stage, amount, bounded)
    noisy = ~bounded.public
    scales = np.zeros(noisy.size)
    scales[noisy], multiplier, cost = noise_plan(
        bounded.bound, amount, bounded.weights[noisy], draws=stage.noise.draws, total=context.privacy, most=most
    )
    if not float(scales.max(initial=0.0)) < _LARGEST:
        raise PrivacyUnitError(f"{amount} asks for more noise than can be drawn: ask for a larger share of the budget")
    rows = measure.rows
    return PricedStage(
        stage=stage,
        names=rows.names,
        law=NoiseLaw("laplace" if norm == "l1" else "gaussian", tuple(scales.tolist()), stage.noise.draws),
        steps=tuple((1.0 / (rows.units * multiplier)).tolist()),
        cost=cost,
        bound=bounded.bound,
        multiplier=multiplier,
    )


def noise_plan(
    bound: Fraction,
    amount: Privacy,
    weights: Array,
    *,
    draws: int = 1,
    total: Privacy | None = None,
    most: int | None = None,
) -> tuple[Array, int, Cost]:
    """Say how much noise a price asks for, and on how fine a grid: scales (k,), multiplier and cost.

    ``bound`` is on the norm of the change of the integer sums, each over its weight: L1 for `PureDP`, otherwise L2.
    Scales are in steps of the sums times the multiplier. ``total`` is the price of which ``amount`` is a share, and
    ``most`` the number of coordinates of all stages that share it.
    """
    if not weights.size:
        raise OptionError("neighbors", "replace_one", "add_remove: all that is asked for is public here")
    if isinstance(amount, PureDP):
        scale = calibrate(bound * draws, amount, "laplace")
        return coordinate_scales(scale, weights), draws, laplace_cost(amount)
    scale = calibrate(bound, amount, "gaussian")
    multiplier = fine(scale * float(weights.min()), least_scale(total or amount, most or weights.size), amount)
    scales = coordinate_scales(scale * multiplier, weights)  # exact: a power of two
    return scales, multiplier, gaussian_cost(amount, scales=scales)


def fine(smallest: float, least: float, amount: Privacy) -> int:
    """Power of two by which sums are multiplied until the smallest noise scale is at least ``least`` steps."""
    multiplier = 1
    while smallest * multiplier < least:
        multiplier *= 2
        if multiplier > _FINEST:
            raise too_little_noise(amount, smallest * _FINEST / least)
    return multiplier


def _check_draws(stage: Stage, amount: Privacy) -> None:
    if stage.noise.draws > 1 and not isinstance(amount, PureDP):
        raise OptionError(
            "draws", stage.noise.draws, f"1: the average of several Laplace draws needs a PureDP price, not {amount}"
        )


def _price_tulap(stage: Stage, amount: Privacy, bounded: BoundedSum) -> PricedStage:
    """Price one noisy count with Tulap noise, for exact inference."""
    if not isinstance(amount, PureDP):
        raise NotProvedError('an exact interval needs a PureDP price: its noise is Tulap; or use inference="score"')
    rows = bounded.rows
    if not (type(rows) is CellSum and rows.counts_only and rows.size == 1) or stage.noise.draws > 1:
        raise NotProvedError("Tulap noise is proved for one count of rows, drawn once")
    return PricedStage(
        stage=stage,
        names=rows.names,
        law=NoiseLaw("tulap", (calibrate(TULAP_GRID * bounded.bound, amount, "laplace"),)),
        steps=(1.0 / TULAP_GRID,),
        cost=laplace_cost(amount),
        bound=bounded.bound,
        multiplier=TULAP_GRID,
    )


def price_largest(stage: Stage, amount: Privacy, context: Context, most: int | None) -> PricedStage:  # noqa: ARG001
    """Price the choice of the largest score."""
    measure: Largest = stage.measure  # type: ignore[assignment]
    measure.rows.check(least=2)
    spread = measure.rows.spread(context.neighbors)
    return PricedStage(
        stage=stage,
        names=measure.names,
        law=NoiseLaw(measure.law, (choice_scale(spread, amount, measure.law),)),
        steps=(measure.rows.step,),
        cost=choice_cost(amount, measure.law),
        bound=Fraction(spread),
    )


def price_above(stage: Stage, amount: Privacy, context: Context, most: int | None) -> PricedStage:  # noqa: ARG001
    """Price the comparison of sums with thresholds: all answers are paid for, whether they are given or not.

    It is pure, and costs what everything pure costs in the unit of the price.
    """
    measure: Above = stage.measure  # type: ignore[assignment]
    rows, count = measure.rows, measure.rows.entries
    if type(measure.answers) is not int or not 1 <= measure.answers <= count:
        raise OptionError("answers", measure.answers, f"a whole number from 1 to that of the queries, {count:,}")
    thresholds = measure.thresholds
    if type(thresholds) is not tuple or len(thresholds) != count or not all(type(one) is int for one in thresholds):
        raise OptionError("thresholds", type_of(thresholds), f"a tuple of {count:,} whole numbers of steps")
    bound, monotone = rows.moved(context.neighbors), rows.monotone(context.neighbors)
    shared, own = threshold_scales(bound, amount, measure.answers, monotone=monotone)
    return PricedStage(
        stage=stage,
        names=measure.names,
        law=NoiseLaw("above", (own,) * count, shared=shared),
        steps=(rows.step,) * count,
        cost=choice_cost(amount, "exponential"),
        bound=Fraction(bound),
    )


def price_place(stage: Stage, amount: Privacy, context: Context, most: int | None) -> PricedStage:  # noqa: ARG001
    """Price the choice of quantiles, each at an equal part of the amount.

    A row more changes the rank by which a point misses the quantile p by at most max(p, 1 - p), up or down; a replaced
    row by at most 1. A row that is replaced may leave one group and join another: two choices then change as if a row
    were removed and one added, and each is given half of the price.
    """
    measure: Place = stage.measure  # type: ignore[assignment]
    _check_probabilities(measure.probabilities)
    tree, replaced = measure.rows.tree, context.neighbors == "replace_one"
    halves = 2 if replaced and tree.groups else 1
    each = amount / len(measure.probabilities) / halves
    scales: list[float] = []
    costs: list[Cost] = []
    for p in measure.probabilities:
        moved = 2 * (Fraction(1) if replaced else max(p, 1 - p))
        spread = (moved + Fraction(SLACK, RANK)) * context.schema.rows_per_unit
        scales.append(choice_scale(spread * RANK, each, "gumbel"))
        if scales[-1] > LARGEST_CHOICE:
            raise PrivacyUnitError(f'{each} is too small a price to choose a quantile at: use method="tree"')
        costs += [choice_cost(each, "gumbel")] * halves
    names = measure.names
    return PricedStage(
        stage=stage,
        names=names,
        law=NoiseLaw("gumbel", tuple(scales) * tree.size),
        steps=(1.0 / RANK,) * len(names),
        cost=joint_cost(amount, costs),
        bound=Fraction(context.schema.rows_per_unit),
    )


def _check_probabilities(probabilities: Sequence[Fraction]) -> None:
    right = type(probabilities) is tuple and all(type(p) is Fraction for p in probabilities)
    right = right and all(0 <= p <= 1 and (p * RANK).denominator == 1 for p in probabilities)
    if not probabilities or not right:
        wanted = "a tuple of fractions, multiples of 2^-20 from 0 to 1, at least one"
        raise OptionError("probabilities", type_of(probabilities), wanted)


_LAWS = {"double_or_nothing": DOUBLE_OR_NOTHING, "poisson": POISSON}
"""Laws of weights that are independent between replicates."""

_DELTA = 1e-6
"""At which a refusal names an `ApproxDP` price."""


def price_resampled(stage: Stage, amount: Privacy, context: Context, most: int | None) -> PricedStage:
    """Price sums under public or secret weights."""
    rows: ReplicateSum = stage.measure.rows  # type: ignore[assignment]
    _refuse_resampling(rows.weights, amount, context)
    bounded = rows.bounded(context.neighbors, "l2")
    noisy = ~bounded.public
    scales = np.zeros(noisy.size)
    if rows.in_pairs:
        # Every row has weight 2 in half of the sums: squares of weights add up to twice the replicates, whatever they
        # are. Paired weights have one law on both sides, so what holds given the weights holds without them.
        total = bounded.bound * binary(sqrt_above(Fraction(2 * rows.replicates), binary))
        whole = context.privacy
        scales[noisy], multiplier, cost = noise_plan(total, amount, bounded.weights[noisy], total=whole, most=most)
    else:
        scales[noisy], multiplier, cost = _secret_plan(rows, bounded, amount, bounded.weights[noisy])
    return PricedStage(
        stage=stage,
        names=rows.names,
        law=NoiseLaw("gaussian", tuple(scales.tolist())),
        steps=tuple((1.0 / (rows.units * multiplier)).tolist()),
        cost=cost,
        bound=bounded.bound,
        multiplier=multiplier,
    )


def _secret_plan(rows: ReplicateSum, bounded: BoundedSum, amount: Privacy, weights: Array) -> tuple[Array, int, Cost]:
    """Noise of sums under secret weights, from their exact cost."""
    assert isinstance(amount, GDP | ApproxDP)
    mu, failure = resampled_cost(_LAWS[rows.weights], amount, rows.replicates)
    scale = sqrt_above(bounded.bound**2 * rows.replicates / binary(mu) ** 2, binary)
    multiplier = fine(scale * float(weights.min()), least_scale(amount, 2 * weights.size), amount)
    scales = coordinate_scales(scale * multiplier, weights)
    return scales, multiplier, cost_of(amount, tau=discrete_gaussian_tau(scales), failure=failure)


def _refuse_resampling(weights: str, amount: Privacy, context: Context) -> None:
    """Refuse what is not proved."""
    people = context.schema.people is not None
    if weights == "public" and people:
        raise NotProvedError(
            'weights="public" belong to the positions of rows, which a replaced person with other rows shifts: '
            'with id= they are not proved; use weights="paired", or weights="double_or_nothing" under add_remove'
        )
    if weights == "public" and context.neighbors != "replace_one":
        raise NotProvedError(
            'weights="public" belong to the positions of rows, which add_remove does not keep: they are proved '
            'for replace_one; for add_remove use weights="double_or_nothing", or at a price in ZCDP weights="paired"'
        )
    if weights in _LAWS and context.neighbors != "add_remove":
        raise NotProvedError(
            f"weights={weights!r} are proved for add_remove: one unit less is one set of secret weights less, "
            "while a replaced unit has none of its own; "
            + ('with id= use weights="paired"' if people else 'for replace_one use weights="public" or "paired"')
        )
    if isinstance(amount, PureDP):
        raise NotProvedError(
            f"a bootstrap carries Gaussian noise, which is never pure and has no PureDP guarantee: not {amount}; "
            "take a price in GDP, ApproxDP or ZCDP"
        )
    if weights in _LAWS and isinstance(amount, ZCDP):
        raise NotProvedError(_no_zcdp(weights, amount))


def _no_zcdp(weights: str, amount: ZCDP) -> str:
    """Say why independent weights are not sold in zCDP, and what is proved instead, with its numbers."""
    largest = len(_LAWS[weights].counts) - 1
    told = "twice costs four times as much" if largest == 2 else f"{largest} times costs {largest**2} times as much"
    said = (
        f"the exact cost of weights={weights!r} is stated in GDP or ApproxDP, not {amount}: under zCDP a unit that "
        f'may count {told}. At {amount} use weights="paired", with {math.sqrt(2):.3f} times the noise of one release'
    )
    mu = sqrt_below(2 * amount.composable[0])
    if mu > LARGEST_MU:
        return said
    mu, epsilon = (digits_below(one, 4) for one in (mu, GDP(mu).epsilon_at(_DELTA)))
    return (
        f"{said}; or pay {GDP(mu)} or {ApproxDP(epsilon, _DELTA)}, which one Gaussian "
        f"release at {amount} has, from a ledger whose budget is in that unit"
    )


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
