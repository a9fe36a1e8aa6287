"""Prices: how much noise a stage gets, and what it costs. The only code that states a noise scale or a cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import NotProvedError, OptionError, PrivacyUnitError
from dpinfer.kernel.rank_weights import LARGEST_CHOICE, RANK, SLACK
from dpinfer.kernel.rows.blocks import BlockMoments, OctaveCounts, PlaceCounts
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.persons import PersonSum
from dpinfer.kernel.rows.products import GramSum
from dpinfer.kernel.rows.queries import QuerySum
from dpinfer.kernel.rows.resampled import ReplicateSum
from dpinfer.kernel.rows.scores import ScoreSum
from dpinfer.kernel.rows.tree import PointRows, TreeSum
from dpinfer.kernel.sealing import sealed_stage
from dpinfer.kernel.stage import Context, Largest, Noise, Place, Resampled, Slot, Stage, Sum
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
from dpinfer.privacy.exact import binary, sqrt_above
from dpinfer.privacy.resampling import DOUBLE_OR_NOTHING, POISSON, cost_of, resampled_cost
from dpinfer.privacy.selection import choice_cost, choice_scale
from dpinfer.privacy.sharing import joint_cost
from dpinfer.privacy.units import GDP, ZCDP, ApproxDP, Privacy, PureDP
from dpinfer.release.laws import CHOICES, TULAP_GRID, NoiseLaw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dpinfer.kernel.rows.base import BoundedSum
    from dpinfer.privacy.cost import Cost
    from dpinfer.privacy.sensitivity import Norm

    Array = NDArray[np.float64]

__all__ = [
    "PricedStage",
    "amounts",
    "check_slots",
    "noise_plan",
    "price_stage",
    "reserved_cost",
    "total_cost",
]

_FINEST = 2**60
"""Steps that a row may be cut into, for noise of little width."""

_LAWS = {"double_or_nothing": DOUBLE_OR_NOTHING, "poisson": POISSON}


@dataclass(frozen=True, eq=False)
class PricedStage:
    """A stage with the noise that its price buys.

    Attributes
    ----------
    stage : Stage
    names : tuple of str, length m
        What each released integer is.
    law : NoiseLaw
        Noise of every coordinate.
    steps : tuple of float, length m
        Size of one integer step.
    cost : Cost
    bound : str
        What is bounded, for people.
    multiplier : int
        The exact sums are multiplied by it before the noise is added, so that the noise is fine.
    """

    stage: Stage
    names: tuple[str, ...]
    law: NoiseLaw
    steps: tuple[float, ...]
    cost: Cost
    bound: str
    multiplier: int = 1

    @property
    def rows(self) -> Any:
        """The row sum that is measured."""
        return self.stage.measure.rows

    @property
    def measures(self) -> str:
        """What is measured, for people."""
        return str(self.rows.measures)

    @property
    def noise(self) -> str:
        """Which noise it gets, for people."""
        noisy = [scale * step for scale, step in zip(self.law.scales, self.steps, strict=True) if scale > 0]
        spread = f"{min(noisy):.6g} to {max(noisy):.6g}" if noisy else "none"
        family = f"discrete {self.law.family}"
        if self.law.family == "tulap":
            family = "discrete Laplace and a uniform fraction (Tulap)"
        elif self.law.family in CHOICES:
            family = f"{self.law.family}, added to scores that are not released"
        several = f", the average of {self.law.draws} draws" if self.law.draws > 1 else ""
        return f"{family}{several}, scale {spread} in units of {self.rows.counts_units}"


# Slots


def check_slots(slots: Sequence[Slot]) -> None:
    """Refuse slots that are none, or that ask for more than the whole price.

    Raises
    ------
    OptionError
    """
    if not slots or not all(type(slot) is Slot for slot in slots):
        raise OptionError("slots", [type(slot).__name__ for slot in slots], "one Slot for each stage, at least one")
    total = sum((Fraction(slot.share) for slot in slots), Fraction(0))
    if total > 1:
        raise OptionError("slots", str(total), "shares of the price that add up to at most 1")
    if slots[0].adaptive:
        raise OptionError("adaptive", True, "False for the first stage: nothing is released before it")


def amounts(privacy: Privacy, slots: Sequence[Slot]) -> list[Privacy]:
    """Return the price of each stage: the whole one, or shares of the amount that composes, rounded down."""
    if len(slots) == 1 and slots[0].share == 1:
        return [privacy]
    whole = privacy if isinstance(privacy, PureDP) else gaussian_amount(privacy)
    return [whole * Fraction(slot.share) for slot in slots]  # type: ignore[operator]


def reserved_cost(slot: Slot, amount: Privacy, context: Context, most: int, rehearsed: Cost) -> Cost:
    """Cost of an adaptive stage before it is known: of as many noisy sums as its slot allows, and of what it rehearsed.

    Parameters
    ----------
    slot : Slot
    amount : Privacy
        Its share of the price.
    context : Context
    most : int
        Coordinates of all stages, for which the grid is made fine enough.
    rehearsed : Cost
        Of the stage as rehearsed. A choice or resampled sums cost more than noisy sums in some currencies.
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
    """Say how much noise a stage gets at a price.

    Parameters
    ----------
    stage : Stage
    amount : Privacy
        The stage's share of the price.
    context : Context
    most : int, optional
        Coordinates of all stages, where there are several: the grid is then fine enough for them all.

    Returns
    -------
    PricedStage

    Raises
    ------
    OptionError
        If the measure or a part of it is not one of the kernel's own types, or was made for other columns or another
        unit of protection.
    NotProvedError, PrivacyUnitError
        If there is no proof for the price, the neighbours and the measure together.
    """
    if type(stage) is not Stage or type(stage.measure) not in _PRICES or type(stage.noise) is not Noise:
        raise OptionError("stage", type(stage).__name__, "a Stage of Sum, Largest, Place or Resampled, with a Noise")
    _check_settings(stage.settings)
    rows = stage.measure.rows
    if type(rows) not in _ROWS[type(stage.measure)]:
        right = ", ".join(one.__name__ for one in _ROWS[type(stage.measure)])
        raise OptionError("rows", type(rows).__name__, f"one of the kernel's own types: {right}")
    sealed = sealed_stage(stage, context.schema)
    if sealed.noise != Noise() and type(sealed.measure) is not Sum:
        raise OptionError("noise", type(sealed.measure).__name__, "a Sum, where draws= or tulap= is given")
    return _PRICES[type(sealed.measure)](sealed, amount, context, most)


def _check_settings(settings: object) -> None:
    """Refuse settings that a release could not store: what fails to be written is found before the charge."""
    try:
        same = isinstance(settings, Mapping) and json.loads(json.dumps(dict(settings), allow_nan=False)) == settings
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise OptionError("settings", type(settings).__name__, "a mapping that JSON keeps as it is: lists, not tuples")


def _price_sum(stage: Stage, amount: Privacy, context: Context, most: int | None) -> PricedStage:
    measure: Sum = stage.measure  # type: ignore[assignment]
    _check_draws(stage, amount)
    norm: Norm = "l1" if isinstance(amount, PureDP) else "l2"
    bounded = measure.rows.bounded(context.neighbors, norm, weights=measure.weights, shares=measure.shares)
    if stage.noise.tulap:
        return _price_tulap(stage, amount, bounded, context)
    noisy = ~bounded.public
    scales = np.zeros(noisy.size)
    scales[noisy], multiplier, cost = noise_plan(
        bounded.bound, amount, bounded.weights[noisy], draws=stage.noise.draws, total=context.privacy, most=most
    )
    rows = measure.rows
    return PricedStage(
        stage=stage,
        names=rows.names,
        law=NoiseLaw("laplace" if norm == "l1" else "gaussian", tuple(scales.tolist()), stage.noise.draws),
        steps=tuple((1.0 / (rows.units * multiplier)).tolist()),
        cost=cost,
        bound=rows.words(bounded.bound, context.neighbors, norm),
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
    """Say how much noise a price asks for, and on how fine a grid.

    Parameters
    ----------
    bound : Fraction
        Bound on the norm of the change of the integer sums, each over its weight: L1 for `PureDP`, otherwise L2.
    amount : Privacy
    weights : ndarray (k,)
        Noise scale of every sum that is not public, relative to the others.
    draws : int
        Number of independent Laplace draws that are averaged.
    total : Privacy, optional
        The price of which ``amount`` is a share.
    most : int, optional
        Coordinates of all stages that share it.

    Returns
    -------
    scales : ndarray (k,)
        Noise scales, in steps of the multiplied sums.
    multiplier : int
        What the sums are multiplied by before the noise is added.
    cost : Cost
    """
    if isinstance(amount, PureDP):
        scale = calibrate(bound * draws, amount, "laplace")
        return coordinate_scales(scale, weights), draws, laplace_cost(amount)
    scale = calibrate(bound, amount, "gaussian")
    multiplier = _fine(scale * float(weights.min()), least_scale(total or amount, most or weights.size), amount)
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


def _check_draws(stage: Stage, amount: Privacy) -> None:
    if stage.noise.draws > 1 and not isinstance(amount, PureDP):
        raise OptionError(
            "draws", stage.noise.draws, f"1: the average of several Laplace draws needs a PureDP price, not {amount}"
        )


def _price_tulap(stage: Stage, amount: Privacy, bounded: BoundedSum, context: Context) -> PricedStage:
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
        bound=f"{context.schema.unit} changes the count by at most {int(bounded.bound):,}",
        multiplier=TULAP_GRID,
    )


def _price_largest(stage: Stage, amount: Privacy, context: Context, most: int | None) -> PricedStage:  # noqa: ARG001
    measure: Largest = stage.measure  # type: ignore[assignment]
    spread = measure.rows.spread(context.neighbors)
    done = "adding or removing" if context.neighbors == "add_remove" else "replacing"
    return PricedStage(
        stage=stage,
        names=measure.names,
        law=NoiseLaw(measure.law, (choice_scale(spread, amount, measure.law),)),
        steps=(measure.rows.step,),
        cost=choice_cost(amount, measure.law),
        bound=f"{done} {context.schema.unit} changes scores by amounts that differ by at most "
        f"{spread * measure.rows.step:.6g}",
    )


def _price_place(stage: Stage, amount: Privacy, context: Context, most: int | None) -> PricedStage:  # noqa: ARG001
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
        bound=f"{context.schema.unit} moves the rank of a point by at most {context.schema.rows_per_unit:,}",
    )


def _check_probabilities(probabilities: Sequence[Fraction]) -> None:
    right = type(probabilities) is tuple and all(type(p) is Fraction for p in probabilities)
    right = right and all(0 <= p <= 1 and (p * RANK).denominator == 1 for p in probabilities)
    if not probabilities or not right:
        wanted = "a tuple of fractions, multiples of 2^-20 from 0 to 1, at least one"
        raise OptionError("probabilities", type(probabilities).__name__, wanted)


def _price_resampled(stage: Stage, amount: Privacy, context: Context, most: int | None) -> PricedStage:  # noqa: ARG001
    rows: ReplicateSum = stage.measure.rows  # type: ignore[assignment]
    _refuse_resampling(rows.weights, amount, context)
    bounded = rows.bounded(context.neighbors, "l2")
    noisy = ~bounded.public
    scales = np.zeros(noisy.size)
    if rows.weights == "public":
        # Every row has weight 2 in half of the sums: squares of weights add up to twice the replicates.
        total = bounded.bound * binary(sqrt_above(Fraction(2 * rows.replicates), binary))
        scales[noisy], multiplier, cost = noise_plan(total, amount, bounded.weights[noisy])
    else:
        scales[noisy], multiplier, cost = _secret_plan(rows, bounded, amount, bounded.weights[noisy])
    return PricedStage(
        stage=stage,
        names=rows.names,
        law=NoiseLaw("gaussian", tuple(scales.tolist())),
        steps=tuple((1.0 / (rows.units * multiplier)).tolist()),
        cost=cost,
        bound=rows.words(bounded.bound, context.neighbors, "l2"),
        multiplier=multiplier,
    )


def _secret_plan(rows: ReplicateSum, bounded: BoundedSum, amount: Privacy, weights: Array) -> tuple[Array, int, Cost]:
    """Noise of sums under secret weights, from their exact cost."""
    assert isinstance(amount, GDP | ApproxDP)
    mu, failure = resampled_cost(_LAWS[rows.weights], amount, rows.replicates)
    scale = sqrt_above(bounded.bound**2 * rows.replicates / binary(mu) ** 2, binary)
    multiplier = _fine(scale * float(weights.min()), least_scale(amount, 2 * weights.size), amount)
    scales = coordinate_scales(scale * multiplier, weights)
    return scales, multiplier, cost_of(amount, tau=discrete_gaussian_tau(scales), failure=failure)


def _refuse_resampling(weights: str, amount: Privacy, context: Context) -> None:
    """Refuse what is not proved."""
    people = context.schema.people is not None
    if weights == "public":
        if people:
            raise NotProvedError(
                'weights="public" belong to the positions of rows, which a replaced person with other rows shifts: '
                'with id= they are not proved; use weights="double_or_nothing" under add_remove'
            )
        if context.neighbors != "replace_one":
            raise NotProvedError(
                'weights="public" belong to the positions of rows, which add_remove does not keep: they are proved '
                'for replace_one; for add_remove use weights="double_or_nothing"'
            )
        if not isinstance(amount, ZCDP | GDP | ApproxDP):
            raise NotProvedError(f"a bootstrap carries Gaussian noise, which has no PureDP guarantee: not {amount}")
        return
    if context.neighbors != "add_remove":
        raise NotProvedError(
            f"weights={weights!r} are proved for add_remove: one unit less is one set of secret weights less, "
            "while a replaced unit has none of its own; "
            + ("no bootstrap is proved with id=" if people else 'for replace_one use weights="public"')
        )
    if not isinstance(amount, GDP | ApproxDP):
        raise NotProvedError(
            f"the exact cost of secret weights is stated in GDP or ApproxDP, not {amount}: Gaussian noise is "
            "never pure, and under zCDP a unit that may count twice costs four times as much"
        )


_PRICES: dict[type, Callable[[Stage, Privacy, Context, int | None], PricedStage]] = {
    Sum: _price_sum,
    Largest: _price_largest,
    Place: _price_place,
    Resampled: _price_resampled,
}

_ROWS: dict[type, tuple[type, ...]] = {
    Sum: (CellSum, PersonSum, QuerySum, TreeSum, GramSum, OctaveCounts, PlaceCounts, BlockMoments),
    Largest: (ScoreSum,),
    Place: (PointRows,),
    Resampled: (ReplicateSum,),
}
"""What each measure takes: a closed set, checked by exact type, so that no other code bounds or adds up rows."""
