"""Prices: how much noise a stage gets, and what it costs. Nothing else states a noise scale or a cost."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.checks import require
from dpinfer.errors import NotProvedError, OptionError, PrivacyUnitError, kind_of, type_of
from dpinfer.kernel.copies import own_stage
from dpinfer.kernel.rows.blocks import BlockMoments, OctaveCounts, PlaceCounts
from dpinfer.kernel.rows.cells import CellSum, PersonSum, QuerySum
from dpinfer.kernel.rows.iterations import RoundCounts, RoundSum
from dpinfer.kernel.rows.marginals import ClassCounts, MarginalSum, OctaveRows
from dpinfer.kernel.rows.products import GramSum, ReplicateSum
from dpinfer.kernel.rows.scores import ScoreSum
from dpinfer.kernel.rows.tree import LARGEST_CHOICE, RANK, SLACK, PointRows, TreeSum
from dpinfer.kernel.stage import Above, Largest, Noise, Place, Resampled, Slot, Stage, Sum
from dpinfer.privacy.accounting import (
    calibrate,
    choice_cost,
    choice_scale,
    coordinate_scales,
    discrete_gaussian_tau,
    gaussian_amount,
    gaussian_cost,
    joint_cost,
    laplace_cost,
    least_scale,
    threshold_scales,
    too_little_noise,
)
from dpinfer.privacy.exact import binary, digits_below, sqrt_above, sqrt_below
from dpinfer.privacy.resampling import DOUBLE_OR_NOTHING, LARGEST_MU, POISSON, cost_of, resampled_cost
from dpinfer.privacy.units import GDP, ZCDP, ApproxDP, Privacy, PureDP
from dpinfer.release.laws import TULAP_GRID, NoiseLaw, StageRelease

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpinfer.kernel.rows.base import Array
    from dpinfer.kernel.stage import Context
    from dpinfer.privacy.accounting import Cost
    from dpinfer.privacy.sensitivity import Norm

_FINEST = 2**60
"""Steps that a row may be cut into, for noise of little width."""

_LARGEST = 1e150
"""Noise laws have smaller scales, see `NoiseLaw`."""

_LAWS = {"double_or_nothing": DOUBLE_OR_NOTHING, "poisson": POISSON}
"""Laws of weights that are independent between replicates."""

_DELTA = 1e-6
"""At which a refusal names an `ApproxDP` price."""


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
        """Return what the stage released, with a copy of its settings: a procedure may write to what it is handed."""
        return StageRelease(self.names, tuple(values), self.steps, self.law, deepcopy(self.stage.settings))


# Slots


def checked_slots(slots: object) -> tuple[Slot, ...]:
    """Return slots; refuse what is none, or asks for more than the whole price."""
    asked = tuple(slots) if isinstance(slots, tuple | list) else ()
    if not asked or not all(type(slot) is Slot for slot in asked):
        raise OptionError("slots", kind_of(slots), "a tuple with one Slot for each stage, at least one")
    total = sum((Fraction(slot.share) for slot in asked), Fraction(0))
    require(total <= 1, "slots", str(total), "shares of the price that add up to at most 1")
    require(not asked[0].adaptive, "adaptive", True, "False for the first stage: nothing is released before it")
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
    own = own_stage(stage, context.schema)
    price, allowed = _PRICES[type(own.measure)]
    if type(own.measure.rows) not in allowed:
        right = ", ".join(one.__name__ for one in allowed)
        raise OptionError("rows", type_of(own.measure.rows), f"one of the kernel's own types: {right}")
    own.measure.rows.check()
    if own.noise != Noise() and type(own.measure) is not Sum:
        raise OptionError("noise", type_of(own.measure), "a Sum, where draws= or tulap= is given")
    return price(own, own.measure, amount, context, most)


def _price_sum(stage: Stage, measure: Sum, amount: Privacy, context: Context, most: int | None) -> PricedStage:
    """Price noisy sums; or one noisy count with Tulap noise, for exact inference."""
    draws, rows, pure = stage.noise.draws, measure.rows, isinstance(amount, PureDP)
    if draws > 1 and not pure:
        right = f"1: the average of several Laplace draws needs a PureDP price, not {amount}"
        raise OptionError("draws", draws, right)
    norm: Norm = "l1" if pure else "l2"
    bounded = rows.bounded(context.neighbors, norm, weights=measure.weights, shares=measure.shares)
    if stage.noise.tulap:
        if not isinstance(amount, PureDP):
            raise NotProvedError('an exact interval needs a PureDP price: its noise is Tulap; or use inference="score"')
        if not (type(rows) is CellSum and rows.counts_only and rows.size == 1) or draws > 1:
            raise NotProvedError("Tulap noise is proved for one count of rows, drawn once")
        law = NoiseLaw("tulap", (calibrate(TULAP_GRID * bounded.bound, amount, "laplace"),))
        cost, steps = laplace_cost(amount), (1.0 / TULAP_GRID,)
        return PricedStage(stage, rows.names, law, steps, cost, bounded.bound, TULAP_GRID)
    noisy = ~bounded.public
    scales = np.zeros(noisy.size)
    scales[noisy], multiplier, cost = _noise_plan(
        bounded.bound, amount, bounded.weights[noisy], draws=draws, total=context.privacy, most=most
    )
    if not float(scales.max(initial=0.0)) < _LARGEST:
        raise PrivacyUnitError(f"{amount} asks for more noise than can be drawn: ask for a larger share of the budget")
    law = NoiseLaw("laplace" if pure else "gaussian", tuple(scales.tolist()), draws)
    steps = tuple((1.0 / (rows.units * multiplier)).tolist())
    return PricedStage(stage, rows.names, law, steps, cost, bounded.bound, multiplier)


def _noise_plan(
    bound: Fraction, amount: Privacy, weights: Array, *, draws: int = 1, total: Privacy, most: int | None
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
    multiplier = _fine(scale * float(weights.min()), least_scale(total, most or weights.size), amount)
    scales = coordinate_scales(scale * multiplier, weights)  # exact: a power of two
    return scales, multiplier, gaussian_cost(amount, scales=scales)


def _fine(smallest: float, least: float, amount: Privacy) -> int:
    """Power of two by which sums are multiplied until the smallest noise scale is at least ``least`` steps."""
    multiplier = 1
    while smallest * multiplier < least:
        multiplier *= 2
        if multiplier > _FINEST:
            raise too_little_noise(amount, smallest * _FINEST / least)
    return multiplier


def _price_largest(stage: Stage, measure: Largest, amount: Privacy, context: Context, *_: object) -> PricedStage:
    """Price the choice of the largest score."""
    rows = measure.rows
    rows.check(least=2)
    spread = rows.spread(context.neighbors)
    law = NoiseLaw(measure.law, (choice_scale(spread, amount, measure.law),))
    return PricedStage(stage, measure.names, law, (rows.step,), choice_cost(amount, measure.law), Fraction(spread))


def _price_above(stage: Stage, measure: Above, amount: Privacy, context: Context, *_: object) -> PricedStage:
    """Price the comparison of sums with thresholds: all answers are paid for, whether they are given or not.

    It is pure, and costs what everything pure costs in the unit of the price.
    """
    rows, count, thresholds = measure.rows, measure.rows.entries, measure.thresholds
    right = type(measure.answers) is int and 1 <= measure.answers <= count
    require(right, "answers", measure.answers, f"a whole number from 1 to that of the queries, {count:,}")
    right = type(thresholds) is tuple and len(thresholds) == count and all(type(one) is int for one in thresholds)
    require(right, "thresholds", type_of(thresholds), f"a tuple of {count:,} whole numbers of steps")
    bound, monotone = rows.moved(context.neighbors), rows.monotone(context.neighbors)
    shared, own = threshold_scales(bound, amount, measure.answers, monotone=monotone)
    law, cost = NoiseLaw("above", (own,) * count, shared=shared), choice_cost(amount, "exponential")
    return PricedStage(stage, measure.names, law, (rows.step,) * count, cost, Fraction(bound))


def _price_place(stage: Stage, measure: Place, amount: Privacy, context: Context, *_: object) -> PricedStage:
    """Price the choice of quantiles, each at an equal part of the amount.

    A row more changes the rank by which a point misses the quantile p by at most max(p, 1 - p), up or down; a replaced
    row by at most 1. A row that is replaced may leave one group and join another: two choices then change as if a row
    were removed and one added, and each is given half of the price.
    """
    chosen, tree, unit = measure.probabilities, measure.rows.tree, context.schema.rows_per_unit
    right = type(chosen) is tuple and all(type(p) is Fraction for p in chosen)
    right = right and bool(chosen) and all(0 <= p <= 1 and (p * RANK).denominator == 1 for p in chosen)
    wanted = "a tuple of fractions, multiples of 2^-20 from 0 to 1, at least one"
    require(right, "probabilities", type_of(chosen), wanted)
    replaced = context.neighbors == "replace_one"
    halves = 2 if replaced and tree.groups else 1
    each = amount / len(chosen) / halves
    scales: list[float] = []
    for p in chosen:
        moved = 2 * (Fraction(1) if replaced else max(p, 1 - p))
        scales.append(choice_scale((moved + Fraction(SLACK, RANK)) * unit * RANK, each, "gumbel"))
        if scales[-1] > LARGEST_CHOICE:
            raise PrivacyUnitError(f'{each} is too small a price to choose a quantile at: use method="tree"')
    law, names = NoiseLaw("gumbel", tuple(scales) * tree.size), measure.names
    cost = joint_cost(amount, [choice_cost(each, "gumbel")] * (len(chosen) * halves))
    return PricedStage(stage, names, law, (1.0 / RANK,) * len(names), cost, Fraction(unit))


def _price_resampled(
    stage: Stage, measure: Resampled, amount: Privacy, context: Context, most: int | None
) -> PricedStage:
    """Price sums under public or secret weights."""
    rows = measure.rows
    _refuse_resampling(rows.weights, amount, context)
    bounded = rows.bounded(context.neighbors, "l2")
    noisy = ~bounded.public
    weights, scales = bounded.weights[noisy], np.zeros(noisy.size)
    if rows.in_pairs:
        # Every row has weight 2 in half of the sums: squares of weights add up to twice the replicates, whatever they
        # are. Paired weights have one law on both sides, so what holds given the weights holds without them.
        total = bounded.bound * binary(sqrt_above(Fraction(2 * rows.replicates), binary))
        scales[noisy], multiplier, cost = _noise_plan(total, amount, weights, total=context.privacy, most=most)
    else:  # from the exact cost of secret weights
        assert isinstance(amount, GDP | ApproxDP)
        mu, failure = resampled_cost(_LAWS[rows.weights], amount, rows.replicates)
        scale = sqrt_above(bounded.bound**2 * rows.replicates / binary(mu) ** 2, binary)
        multiplier = _fine(scale * float(weights.min()), least_scale(amount, 2 * weights.size), amount)
        scales[noisy] = coordinate_scales(scale * multiplier, weights)
        cost = cost_of(amount, tau=discrete_gaussian_tau(scales[noisy]), failure=failure)
    law, steps = NoiseLaw("gaussian", tuple(scales.tolist())), tuple((1.0 / (rows.units * multiplier)).tolist())
    return PricedStage(stage, rows.names, law, steps, cost, bounded.bound, multiplier)


def _refuse_resampling(weights: str, amount: Privacy, context: Context) -> None:
    """Refuse what is not proved; of independent weights in zCDP say what is proved instead, with its numbers."""
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
        most = len(_LAWS[weights].counts) - 1
        often, dearer = ("twice", "four") if most == 2 else (f"{most} times", f"{most**2}")
        said = (
            f"the exact cost of weights={weights!r} is stated in GDP or ApproxDP, not {amount}: under zCDP a unit that "
            f"may count {often} costs {dearer} times as much. "
            f'At {amount} use weights="paired", with {math.sqrt(2):.3f} times the noise of one release'
        )
        mu = sqrt_below(2 * amount.composable[0])
        if mu <= LARGEST_MU:
            mu, epsilon = (digits_below(one, 4) for one in (mu, GDP(mu).epsilon_at(_DELTA)))
            said += (
                f"; or pay {GDP(mu)} or {ApproxDP(epsilon, _DELTA)}, which one Gaussian "
                f"release at {amount} has, from a ledger whose budget is in that unit"
            )
        raise NotProvedError(said)


_PRICES: dict[type, tuple[Callable[..., PricedStage], tuple[type, ...]]] = {
    Sum: (
        _price_sum,
        (
            *(CellSum, PersonSum, QuerySum, TreeSum, GramSum, RoundSum, RoundCounts),
            *(OctaveCounts, PlaceCounts, BlockMoments),
            *(ClassCounts, OctaveRows, MarginalSum),
        ),
    ),
    Largest: (_price_largest, (ScoreSum,)),
    Above: (_price_above, (ScoreSum,)),
    Place: (_price_place, (PointRows,)),
    Resampled: (_price_resampled, (ReplicateSum,)),
}
"""How each measure is priced, and what it takes: a closed set, checked by exact type, so that no other code bounds or
adds up rows."""
