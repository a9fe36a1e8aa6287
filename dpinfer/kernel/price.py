"""Prices: how much noise a stage gets, and what it costs. Nothing else states a noise scale or a cost.

A stage is priced as the kernel keeps it: rebuilt from plain values, so that what is priced is what is summed. A
procedure keeps the objects that it made, and may fill an array anew between the price and the rows. So nothing of them
is used: every part of a stage is checked to be of one of the kernel's own types, and is made anew.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.checks import require
from dpinfer.errors import NotProvedError, OptionError, PrivacyUnitError, kind_of, type_of
from dpinfer.kernel.rows.blocks import BlockMoments, Blocks, OctaveCounts, PlaceCounts
from dpinfer.kernel.rows.cells import CellSum, PersonSum, QuerySum
from dpinfer.kernel.rows.features import Features, RowClip, Within
from dpinfer.kernel.rows.iterations import (
    Bins,
    ChoiceFrame,
    EffectFrame,
    Interpolant,
    RoundCounts,
    RoundFrame,
    RoundSum,
    Term,
)
from dpinfer.kernel.rows.marginals import ClassCounts, MarginalSum, OctaveRows
from dpinfer.kernel.rows.products import GramSum, ReplicateSum
from dpinfer.kernel.rows.scores import ScoreSum
from dpinfer.kernel.rows.tree import LARGEST_CHOICE, RANK, SLACK, PointRows, TreeSum
from dpinfer.kernel.stage import Above, Context, Largest, Noise, Place, Resampled, Slot, Stage, Sum
from dpinfer.privacy.accounting import (
    calibrate,
    choice_cost,
    choice_scale,
    coordinate_scales,
    discrete_gaussian_tau,
    fine_multiplier,
    gaussian_amount,
    joint_cost,
    laplace_cost,
    least_scale,
    noise_plan,
    threshold_scales,
)
from dpinfer.privacy.exact import binary, digits_below, sqrt_above, sqrt_below
from dpinfer.privacy.resampling import DOUBLE_OR_NOTHING, LARGEST_MU, POISSON, cost_of, resampled_cost
from dpinfer.privacy.sensitivity import Norm, norm_above
from dpinfer.privacy.units import GDP, ZCDP, ApproxDP, Privacy, PureDP
from dpinfer.release.laws import TULAP_GRID, NoiseLaw, StageRelease
from dpinfer.schema.axes import BinsAxis, ConditionAxis, LevelsAxis, MirroredAxis
from dpinfer.schema.columns import Boolean, Category, Date, Integer, Real
from dpinfer.schema.grid import Basis, Block, Curve
from dpinfer.schema.nodes import ARGUMENTS, Expression, Node
from dpinfer.schema.region import Region
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    from dpinfer.privacy.accounting import Cost

    Known = dict[int, tuple[Any, Any]]
    """Schemas, features and tables that a question had, by their identity, and the kernel's own that stand for them."""

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

    def noisy(self, exact: Sequence[int], noise: Sequence[float]) -> list[int]:
        """Add noise (m,), whole numbers in steps, to the exact sums (m,)."""
        return [total * self.multiplier + int(drawn) for total, drawn in zip(exact, noise, strict=True)]

    def released(self, values: Sequence[int]) -> StageRelease:
        """Return what the stage released, with a copy of its settings: a procedure may write to what it is handed."""
        return StageRelease(
            self.names, tuple(values), self.steps, self.law, json.loads(json.dumps(self.stage.settings))
        )


# Copies

_PLAIN = frozenset({type(None), bool, int, float, str, Fraction})

_SUMS = (
    *(CellSum, PersonSum, QuerySum, TreeSum, GramSum, RoundSum, RoundCounts),
    *(OctaveCounts, PlaceCounts, BlockMoments),
    *(ClassCounts, OctaveRows, MarginalSum),
)
_RECORDS = frozenset(
    {Sum, Largest, Above, Place, Resampled, Noise, *_SUMS, PointRows, ScoreSum, ReplicateSum, Blocks}
    | {RoundFrame, ChoiceFrame, EffectFrame, Term, Bins, Interpolant, Features, RowClip, Within}
    | {Basis, Block, Curve, Expression, Node, Region}
    | {LevelsAxis, ConditionAxis, BinsAxis, MirroredAxis}
)
"""A closed set, compared by exact type, so that no other code bounds or adds up rows."""

_ARRAYS = ("Array", "Ints", "NDArray[np.int64]")
"""Types of the fields that hold an array; elsewhere one could tell rows apart by their place."""


def _own_stage(stage: Stage, schema: Schema, known: Known) -> Stage:
    """Return the same stage made of new parts, each of the kernel's own types.

    A stage reads columns of the data's schema, as it declares them, and no others. Refused is a part of another type, a
    column declared differently, and settings that a release would not keep as they are.
    """
    settings = stage.settings
    try:
        given = dict(settings) if isinstance(settings, Mapping) else None
        stored = json.loads(json.dumps(given, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        given, stored = None, None
    if not isinstance(stored, dict) or stored != given:
        raise OptionError("settings", type_of(settings), "a mapping that JSON keeps as it is: lists, not tuples")
    try:
        return Stage(_copied(stage.measure, schema, known), _copied(stage.noise, schema, known), stored)
    except RecursionError:
        raise OptionError("stage", "an expression of too many parts", "a shorter one") from None


def own_blocks(blocks: Blocks | None, schema: Schema) -> Blocks | None:
    """Return the same blocks made of new parts, but for the estimator; refuse as `price_stage` does."""
    if blocks is None:
        return None
    if type(blocks) is not Blocks:
        raise OptionError("units", type_of(blocks), "Blocks, or None")
    made: Blocks = _record(blocks, schema, {})
    made.check()
    return made


def check_columns(schema: Schema) -> None:
    """Refuse a schema, or columns, that are not the library's own: their code would see every cell."""
    if type(schema) is not Schema:
        raise OptionError("schema", type_of(schema), "a dpinfer Schema")
    for name in schema:
        if type(schema[name]) not in (Real, Integer, Boolean, Category, Date):
            raise OptionError(name, type_of(schema[name]), "Real, Integer, Boolean, Category or Date")


def _copied(value: Any, schema: Schema, known: Known) -> Any:  # noqa: PLR0911  (a return for each kind)
    """Rebuild a value and all parts of it, for data of one schema."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind in (tuple, list):
        return tuple(one if type(one) in _PLAIN else _copied(one, schema, known) for one in value)
    if kind in (Schema, Basis, Features, Interpolant):
        if id(value) not in known:
            known[id(value)] = value, _columns_of(value, schema) if kind is Schema else _record(value, schema, known)
        return known[id(value)][1]
    if kind in _RECORDS:
        return _record(value, schema, known)
    if kind is np.ndarray and value.dtype.kind in "biuf":
        array = np.array(value)
        array.setflags(write=False)
        return array
    if kind in (dict, frozenset):  # the canonical form of an expression: no row meets it
        return kind(value)
    if issubclass(kind, np.generic):
        return _copied(value.item(), schema, known)
    if kind is np.ndarray:
        raise OptionError("array", str(value.dtype), "numbers")
    raise OptionError("stage", kind.__name__, "parts of the kernel's own types, and plain numbers and texts")


@cache
def _fields_of(kind: type) -> tuple[tuple[str, bool], ...]:
    """Return the names of a record's fields, and which hold an array."""
    return tuple((one.name, one.type in _ARRAYS) for one in fields(kind))


def _record(value: Any, schema: Schema, known: Known) -> Any:
    """Rebuild a record: with arrays only where it holds them, and with what is demanded of it."""
    kind: Any = type(value)
    parts = {}
    for name, holds_array in _fields_of(kind):
        part = getattr(value, name)
        parts[name] = part if name == "estimator" else _copied(part, schema, known)
        if not holds_array and isinstance(parts[name], np.ndarray):
            raise OptionError(name, "array", "a plain number, text or part of the kernel's own types")
    made = kind(**parts)
    _CHECKS.get(kind, lambda _: None)(made)
    return made


def _columns_of(other: Schema, schema: Schema) -> Schema:
    """Return columns of the data by the names of a schema that declares them alike."""
    if other.people != schema.people:
        raise OptionError("schema", other.unit, f"that of the data, whose unit is {schema.unit}")
    for name in other:
        if name not in schema or (other[name] is not schema[name] and other[name] != schema[name]):
            raise OptionError("schema", name, f"columns as the data declare them: {', '.join(schema)}")
    return schema.select(list(other))


# What the bounds of a row sum take for granted of its parts


def _check_node(node: Node) -> None:
    """Refuse an operation without the arguments that it takes: one more is where numpy would write its result."""
    right = type(node.operation) is str and type(node.name) is str and type(node.value) in (int, float)
    right = right and type(node.arguments) is tuple and all(type(part) is Node for part in node.arguments)
    if not right or ARGUMENTS.get(node.operation) != len(node.arguments):
        raise OptionError("node", type_of(node.value), "an expression that was compiled from a text")


def _check_expression(expression: Expression) -> None:
    """Refuse bounds that are none, and columns other than those that the tree reads."""
    ends = expression.lower, expression.upper
    if not all(type(end) in (int, float) for end in ends) or not -np.inf < ends[0] <= ends[1] < np.inf:
        raise OptionError("expression", expression.text, "finite bounds in order")
    read, waiting = set[str](), [expression.node]
    while waiting:
        node = waiting.pop()
        waiting += node.arguments
        read |= {node.name} if node.operation in ("column", "level") else set()
    if type(expression.boolean) is not bool or {*expression.columns} != read:
        raise OptionError("expression", expression.text, "the columns that it reads, and whether it is 0 or 1")


def _check_block(block: Block) -> None:
    """Refuse a numeric part whose scale would turn its bounds round."""
    if not all(type(one) in (int, float) and np.isfinite(one) for one in (block.center, block.half)) or block.half <= 0:
        raise OptionError("block", type_of(block.half), "a finite centre and a positive half width")


_CHECKS: dict[type, Callable[[Any], None]] = {
    Node: _check_node,
    Expression: _check_expression,
    Block: _check_block,
}


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


def total_cost(privacy: Privacy, costs: Sequence[Cost]) -> Cost:
    """Cost of all stages together, at the whole price."""
    return costs[0] if len(costs) == 1 and costs[0].price == privacy else joint_cost(privacy, costs)


# Stages


def price_stage(
    stage: Stage,
    amount: Privacy,
    context: Context,
    *,
    most: int | None = None,
    known: Known | None = None,
    before: PricedStage | None = None,
) -> PricedStage:
    """Say how much noise a stage gets at its share of the price.

    ``most`` counts the coordinates of all stages, where there are several: the grid is then fine enough for them all.
    ``known`` are the schemas, features and tables of stages that were priced before. ``before`` is a stage that was
    priced at this amount, for this context and this ``most``: where all that a price depends on is the same, noise and
    cost are, and are kept. Only the kernel's own copies are compared, after every check of them.
    Refused with an `OptionError` is a part of a stage that is not one of the kernel's own types, or was made for other
    columns or another unit; with a `NotProvedError` or `PrivacyUnitError` what no proof covers.
    """
    if type(stage) is not Stage or type(stage.measure) not in _PRICES or type(stage.noise) is not Noise:
        raise OptionError("stage", type_of(stage), "a Stage of Sum, Largest, Above, Place or Resampled, with a Noise")
    own = _own_stage(stage, context.schema, {} if known is None else known)
    price, allowed = _PRICES[type(own.measure)]
    if type(own.measure.rows) not in allowed:
        right = ", ".join(one.__name__ for one in allowed)
        raise OptionError("rows", type_of(own.measure.rows), f"one of the kernel's own types: {right}")
    own.measure.rows.check()
    if own.noise != Noise() and type(own.measure) is not Sum:
        raise OptionError("noise", type_of(own.measure), "a Sum, where draws= or tulap= is given")
    if before is not None and (facts := _facts(own)) is not None and facts == _facts(before.stage):
        return replace(before, stage=own)
    return price(own, own.measure, amount, context, most)


def _facts(own: Stage) -> tuple[Any, ...] | None:
    """Return all of a stage that `_price_sum` reads; None where a row sum does not tell, or of other measures.

    They are texts, numbers and None of the kernel's own copy, of exact types: what is equal gives the same bits. Of the
    schema a price depends on the unit of protection alone, which is that of the data in every copy.
    """
    measure = own.measure
    if not isinstance(measure, Sum) or (told := measure.rows.priced_by) is None:
        return None
    return type(measure.rows), told, measure.weights, measure.shares, own.noise


def _price_sum(stage: Stage, measure: Sum, amount: Privacy, context: Context, most: int | None) -> PricedStage:
    """Price noisy sums; or one noisy count with Tulap noise, for exact inference."""
    draws, rows, pure = stage.noise.draws, measure.rows, isinstance(amount, PureDP)
    if draws > 1 and not pure:
        right = f"1: the average of several Laplace draws needs PureDP, not {amount}"
        raise OptionError("draws", draws, right)
    norm: Norm = "l1" if pure else "l2"
    bounded = rows.bounded(context.neighbors, norm, weights=measure.weights, shares=measure.shares)
    if stage.noise.tulap:
        if not isinstance(amount, PureDP):
            raise NotProvedError('an exact interval needs PureDP, whose noise is Tulap; or use inference="score"')
        if not (type(rows) is CellSum and rows.counts_only and rows.size == 1) or draws > 1:
            raise NotProvedError("Tulap noise is proved for one count of rows, drawn once")
        law = NoiseLaw("tulap", (calibrate(TULAP_GRID * bounded.bound, amount, "laplace"),))
        cost, steps = laplace_cost(amount), (1.0 / TULAP_GRID,)
        return PricedStage(stage, rows.names, law, steps, cost, bounded.bound, TULAP_GRID)
    noisy = ~bounded.public
    scales = np.zeros(noisy.size)
    scales[noisy], multiplier, cost = noise_plan(
        bounded.bound, amount, bounded.weights[noisy], draws=draws, total=context.privacy, most=most
    )
    if not float(scales.max(initial=0.0)) < _LARGEST:
        raise PrivacyUnitError(f"{amount} needs more noise than can be drawn: use a larger privacy budget")
    law = NoiseLaw("laplace" if pure else "gaussian", tuple(scales.tolist()), draws)
    steps = tuple((1.0 / (rows.units * multiplier)).tolist())
    return PricedStage(stage, rows.names, law, steps, cost, bounded.bound, multiplier)


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
            raise PrivacyUnitError(f'{each} is too small to choose a quantile at: use method="tree"')
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
        total = bounded.bound * norm_above(2 * rows.replicates, "l2")
        scales[noisy], multiplier, cost = noise_plan(total, amount, weights, total=context.privacy, most=most)
    else:  # from the exact cost of secret weights
        assert isinstance(amount, GDP | ApproxDP)
        mu, failure = resampled_cost(_LAWS[rows.weights], amount, rows.replicates)
        scale = sqrt_above(bounded.bound**2 * rows.replicates / binary(mu) ** 2, binary)
        multiplier = fine_multiplier(scale * float(weights.min()), least_scale(amount, 2 * weights.size), amount)
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
            'for replace_one; for add_remove use weights="double_or_nothing", or weights="paired" under ZCDP'
        )
    if weights in _LAWS and context.neighbors != "add_remove":
        raise NotProvedError(
            f"weights={weights!r} are proved for add_remove: one unit less is one set of secret weights less, "
            "while a replaced unit has none of its own; "
            + ('with id= use weights="paired"' if people else 'for replace_one use weights="public" or "paired"')
        )
    if isinstance(amount, PureDP):
        raise NotProvedError(
            f"a bootstrap uses Gaussian noise, which has no PureDP guarantee: not {amount}; use GDP, ApproxDP or ZCDP"
        )
    if weights in _LAWS and isinstance(amount, ZCDP):
        most = len(_LAWS[weights].counts) - 1
        often, dearer = ("twice", "four") if most == 2 else (f"{most} times", f"{most**2}")
        said = (
            f"the exact privacy loss of weights={weights!r} is stated in GDP or ApproxDP, not {amount}: under zCDP a "
            f"unit that may count {often} costs {dearer} times as much. "
            f'At {amount} use weights="paired", with {math.sqrt(2):.3f} times the noise of one release'
        )
        mu = sqrt_below(2 * amount.composable[0])
        if mu <= LARGEST_MU:
            mu, epsilon = (digits_below(one, 4) for one in (mu, GDP(mu).epsilon_at(_DELTA)))
            said += (
                f"; or use {GDP(mu)} or {ApproxDP(epsilon, _DELTA)}, which one Gaussian "
                f"release at {amount} has, from a ledger whose budget is in that unit"
            )
        raise NotProvedError(said)


_PRICES: dict[type, tuple[Callable[..., PricedStage], tuple[type, ...]]] = {
    Sum: (_price_sum, _SUMS),
    Largest: (_price_largest, (ScoreSum,)),
    Above: (_price_above, (ScoreSum,)),
    Place: (_price_place, (PointRows,)),
    Resampled: (_price_resampled, (ReplicateSum,)),
}
"""How each measure is priced, and what it takes."""
