"""Prices of choices: the largest of some scores, those above a threshold, and quantiles."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dpinfer.errors import OptionError, PrivacyUnitError, type_of
from dpinfer.kernel.priced_stage import PricedStage
from dpinfer.kernel.rank_weights import LARGEST_CHOICE, RANK, SLACK
from dpinfer.privacy.accounting import choice_cost, choice_scale, joint_cost, threshold_scales
from dpinfer.release.laws import NoiseLaw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.kernel.stage import Above, Context, Largest, Place, Stage
    from dpinfer.privacy.accounting import Cost
    from dpinfer.privacy.units import Privacy

__all__ = ["price_above", "price_largest", "price_place"]


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
