"""The exact part: the worst change of every stage beside what its noise may give away."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpinfer.errors import DPInferError
from dpinfer.kernel.rows.blocks import BlockSum
from dpinfer.kernel.stage import Above, Largest, Place, Resampled
from dpinfer.kernel.sums import exact_sums
from dpinfer.privacy.units import ZCDP, PureDP
from dpinfer.studies.auditing.choices import exact_odds, worst_choice, worst_place
from dpinfer.studies.auditing.climbing import Worst, whole_change, worst_blocks, worst_units
from dpinfer.studies.auditing.replays import resampled_amount
from dpinfer.studies.auditing.result import Finding
from dpinfer.studies.auditing.setting import name_of
from dpinfer.studies.auditing.stated import given_away
from dpinfer.studies.auditing.thresholds import answers_odds, worst_above
from dpinfer.studies.auditing.units import frame_of, source_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from dpinfer.kernel.price import PricedStage
    from dpinfer.studies.auditing.setting import Asked, Setting
    from dpinfer.studies.auditing.stated import Stated
    from dpinfer.studies.auditing.units import Pair, Units

__all__ = ["Odds", "StageWorst", "exact_findings", "worst_of"]

_ROOM = Fraction(1_000_000_001, 10**9)
"""For what is not found in exact arithmetic: probabilities of choices, and secret weights."""


@dataclass(frozen=True, slots=True)
class Odds:
    """Exact lower bounds of a choice: the largest log likelihood ratio of an outcome, and mu of the best test."""

    epsilon: float
    mu: float


@dataclass(frozen=True, eq=False, slots=True)
class StageWorst:
    """The worst that was found of a stage: what is given away, of the price's kind, and odds if it is a choice."""

    stage: PricedStage
    name: str
    share: Stated
    worst: Worst
    odds: Odds | None = None

    @property
    def amount(self) -> Fraction | float:
        """What is given away at most."""
        return self.worst.amount


def worst_of(asked: Asked, setting: Setting, units: Units) -> list[StageWorst]:
    """Search every stage for its worst pair."""
    count = len(asked.stages)
    charged = _charged(asked, setting)
    paid = Fraction(1) if charged is None else min(charged / setting.stated.amount, Fraction(1))
    return [
        _worst(stage, name_of(stage, place, count), share, setting, units, paid)
        for place, (stage, share) in enumerate(zip(asked.stages, asked.shares, strict=True))
    ]


def _worst(stage: PricedStage, name: str, share: Stated, setting: Setting, units: Units, paid: Fraction) -> StageWorst:
    """Search a stage; ``paid`` is the part of the stated amount that the ledger is charged."""
    measure = stage.stage.measure
    if isinstance(measure, Place):
        worst, odds = worst_place(stage, units, setting.privacy, setting.base)
        return StageWorst(stage, name, share, replace(worst, amount=Fraction(worst.amount) / _ROOM), Odds(*odds))
    if isinstance(measure, Largest | Above):
        chosen = isinstance(measure, Largest)
        search, odds_of = (worst_choice, exact_odds) if chosen else (worst_above, answers_odds)
        worst = search(stage, units, setting.privacy)
        base = exact_sums(stage.rows, source_of(setting.base, setting.schema), threads=1)
        return StageWorst(stage, name, share, worst, Odds(*odds_of(stage, worst, base, setting.privacy)))
    if isinstance(stage.rows, BlockSum):
        return StageWorst(stage, name, share, worst_blocks(stage, units.rng))
    if isinstance(measure, Resampled):
        return StageWorst(stage, name, share, _resampled(stage, share.amount * paid, units))
    worst = worst_units(stage, units)
    return StageWorst(stage, name, share, _among_others(stage, worst, setting.base))


def _among_others(stage: PricedStage, worst: Worst, base: pd.DataFrame) -> Worst:
    """Measure the pair in whole data sets, which is what neighbours are: the larger of the two changes."""
    assert worst.pair is not None
    found = worst
    for place in (0, len(base) // 2, len(base)):
        change, exact = whole_change(stage, worst.pair, base, place)
        amount = given_away(change, stage)
        if amount > found.amount or found is worst:
            found = Worst(worst.pair, change, max(amount, worst.amount), worst.tried, exact)
    return found


def _resampled(stage: PricedStage, paid: Fraction, units: Units) -> Worst:
    """Search for the unit that moves sums under random weights the furthest.

    Where weights come in pairs their squares add up to a known number. Of secret weights the change is set beside the
    bound that the noise was made for, at what is paid for it; what they cost is judged by draws.
    """
    rows = stage.rows
    scales, pattern = np.asarray(stage.law.scales[: rows.width]), np.asarray(rows.pattern("l2"))[: rows.width]

    def amount(change: list[int], priced: PricedStage) -> Fraction | float:
        if rows.in_pairs:
            found = resampled_amount(change, priced)
            return found if math.isinf(found) else Fraction(found) / _ROOM
        if any(moved and not scale for moved, scale in zip(change, scales, strict=True)):
            return math.inf
        squared = sum((Fraction(moved) / Fraction(float(w))) ** 2 for moved, w in zip(change, pattern, strict=True))
        return paid * squared / priced.bound**2 / _ROOM

    def search(changes: Any, priced: PricedStage) -> Any:  # noqa: ARG001
        found = ((changes / pattern) ** 2 * (scales > 0)).sum(axis=1)
        found[(changes[:, scales == 0] != 0).any(axis=1)] = np.inf
        return found

    return worst_units(stage, units, amount=amount, search=search)


# Findings


def exact_findings(asked: Asked, worst: list[StageWorst], setting: Setting) -> Iterator[Finding]:
    """Each stage beside its share, all stages beside the price and the charge, and every storage alike."""
    price, stated = str(setting.privacy), setting.stated
    for one in worst:
        yield Finding(
            "exact",
            f"change over bound, {one.name}",
            price,
            one.share.ratio(one.amount),
            1.0,
            not one.share.exceeded(one.amount),
            f"{one.worst.tried:,} pairs compared; {_pair(one.worst.pair)}",
        )
    total = sum((one.amount for one in worst), Fraction(0))
    shares = sum((one.share.amount for one in worst), Fraction(0))
    yield Finding(
        "exact", "shares of all stages over the price", price, stated.ratio(shares), 1.0, not stated.exceeded(shares)
    )
    yield Finding("exact", "all stages over the price", price, stated.ratio(total), 1.0, not stated.exceeded(total))
    charged = _charged(asked, setting)
    if charged is not None:
        yield Finding(
            "exact",
            "all stages over what the ledger is charged",
            price,
            math.inf if not charged else math.sqrt(total / charged) if stated.kind == "mu" else float(total / charged),
            1.0,
            bool(total <= charged),
        )
    yield from _storages(worst, setting)


def _pair(pair: Pair | None) -> str:
    return "one block with any fit" if pair is None else str(pair)


def _charged(asked: Asked, setting: Setting) -> Fraction | None:
    """Amount that the charge is made for, in the unit of the price."""
    cost, privacy = asked.plan.cost, setting.privacy
    if isinstance(privacy, PureDP):
        return cost.pure_epsilon
    if isinstance(privacy, ZCDP):
        return None if cost.rho is None else 2 * cost.rho
    return cost.mu_squared


def _storages(worst: list[StageWorst], setting: Setting) -> Iterator[Finding]:
    """Compare sums of the worst pair's data sets between storages of their columns."""
    differing, tried = [], 0
    for one in worst:
        pair = one.worst.pair
        if pair is None or isinstance(one.stage.stage.measure, Place | Resampled):
            continue
        for unit in (pair.first, pair.second):
            frame = frame_of(setting.base, unit, setting.schema)
            expected = exact_sums(one.stage.rows, source_of(frame, setting.schema), threads=1)
            for kind, stored in _stored(frame):
                tried += 1
                if exact_sums(one.stage.rows, source_of(stored, setting.schema), threads=1) != expected:
                    differing.append(f"{one.name} in {kind} columns")
    if tried:
        yield Finding(
            "exact", "sums in every storage", "", float(len(differing)), 0.0, not differing, "; ".join(differing)
        )


def _stored(frame: pd.DataFrame) -> Iterator[tuple[str, Any]]:
    """Return the same cells in other storages, those that hold them."""
    yield "object", frame.astype(object)
    conversions: dict[str, Any] = {
        "categorical": lambda: frame.astype("category"),
        "nullable": frame.convert_dtypes,
        "Arrow": lambda: pa.Table.from_pandas(frame, preserve_index=False),
    }
    for kind, convert in conversions.items():
        try:
            found = convert()
        except (TypeError, ValueError, pa.ArrowException, DPInferError):
            continue
        yield kind, found
