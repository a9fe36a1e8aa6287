"""Blocks whose number is read from a noisy count: asked for once, after it, and nothing else than a whole number."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from dpinfer.kernel import blocks as blocks_module
from dpinfer.kernel.plan import planned
from dpinfer.kernel.rows.blocks import OCTAVES, Blocks, OctaveCounts
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.sampling import PrivateDraws
from dpinfer.kernel.stage import Context, Slot, Stage, Sum
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.procedures.procedure import Procedure, unstored
from dpinfer.schema.basis import basis_of
from dpinfer.schema.expressions import compile_condition
from dpinfer.schema.region import Region
from tests.kernel.asked import Asked
from tests.kernel.test_stages import (
    FRAME,
    PRICES,
    SCHEMA,
    SECRET,
    failed_after_the_charge,
    guarded,
    refused_before_the_charge,
)


@dataclass(frozen=True, eq=False)
class Counted(Asked):
    """Whatever a test wants to ask, of blocks whose number is settled later."""

    procedures = ("counted blocks",)

    number: Callable = unstored(None)

    def blocks_dealt(self, context, released):
        return self.number(released)


REGION = Region(("m",), ((0,),), (1.0,), np.zeros(1))
HALVES = (Slot(Fraction(1, 2), 1), Slot(Fraction(1, 2), OCTAVES))


def middle(frame):
    return [0.0]


def rows():
    """How many rows meet a condition: not public under either relation."""
    return CellSum(Features(basis_of((), SCHEMA), compile_condition("a > 0.05", SCHEMA)))


def in_blocks(dealt, *, count=None):
    """Count rows, then sum over blocks whose number the count says."""
    columns = SCHEMA.select(["a"])

    def ask(place, _):
        return Stage(Sum(OctaveCounts(columns, REGION))) if place else Stage(Sum(rows()))

    blocks = Blocks(columns, REGION, count, middle, halves=False, workers=1)
    return Counted(given=HALVES, stages=ask, dealt=blocks, number=dealt)


class Whole(int):
    """No plain whole number: it may change."""


@pytest.mark.parametrize(
    "number",
    [None, 0, -1, 2**20 + 1, 10**40, 8.0, True, np.int64(8), Whole(8), "8", float("nan"), [8]],
    ids=lambda one: f"{type(one).__name__}-{one}",
)
def test_a_number_of_blocks_that_is_none_is_refused_before_the_charge(number):
    refused_before_the_charge(in_blocks(lambda _: number), match="count")


def test_blocks_whose_number_nobody_says_are_refused_before_the_charge():
    refused_before_the_charge(in_blocks(None, count=0), match="count")
    loud = in_blocks(None)
    silent = Silent(stages=loud.stages, given=HALVES, dealt=loud.dealt)
    refused_before_the_charge(silent, match="how many blocks")


@dataclass(frozen=True, eq=False)
class Silent(Counted):
    """Leaves the number of blocks to what is released, and then does not say it."""

    procedures = ("silent",)

    def blocks_dealt(self, context, released):
        return Procedure.blocks_dealt(self, context, released)


@pytest.mark.parametrize("late", ["another type", "too many", "raises", "exits"])
def test_what_goes_wrong_with_the_number_after_the_charge_says_nothing(late):
    """It is asked for in the rehearsal and in the run, and answers otherwise the second time."""
    calls = []

    def dealt(released):
        calls.append(len(released))
        if len(calls) == 1:
            return 4
        if late == "raises":
            raise ValueError(SECRET)
        if late == "exits":
            raise SystemExit(SECRET)
        return {"another type": 4.0, "too many": 2**30}[late]

    failed_after_the_charge(in_blocks(dealt), PRICES["zcdp"], 1)
    assert calls == [1, 1]


def test_rows_are_dealt_once_after_the_count_and_into_as_many_blocks_as_it_says(monkeypatch):
    """The number is asked for once in the run, and it gets the released count and nothing else."""
    told, labelled = [], []
    draw = PrivateDraws.labels
    monkeypatch.setattr(PrivateDraws, "labels", lambda self, *sizes: labelled.append(sizes) or draw(self, *sizes))
    fitted = []
    monkeypatch.setattr(
        blocks_module, "fit_apart", lambda *_, count, width, **__: fitted.append(count) or np.zeros((count, *width))
    )

    def dealt(released):
        told.append(released)
        return 3 + len(told)

    def ask(place, released):
        columns = SCHEMA.select(["a"])
        return Stage(Sum(OctaveCounts(columns, REGION))) if place else Stage(Sum(rows()))

    third = Slot(Fraction(1, 3), OCTAVES)
    procedure = replace(in_blocks(dealt), stages=ask, given=(Slot(Fraction(1, 3), 1), third, third))
    data = guarded(PRICES["zcdp"])
    release = procedure.bind(data).measure(PRICES["zcdp"])
    assert len(release.stages) == 3
    assert len(told) == 2  # rehearsed, and run
    assert [len(one) for one in told] == [1, 1]
    assert told[1][0].values == release.stages[0].values
    assert fitted == [5]
    assert labelled == [(len(FRAME), 10)]


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("price", PRICES.values(), ids=PRICES)
def test_the_price_does_not_depend_on_the_number_of_blocks(price, neighbors):
    """Whatever is counted, the law of the sums over blocks and what is charged are the same."""
    found = []
    for number in (1, 8, 2**10):
        procedure = in_blocks(lambda _, number=number: number)
        plan = planned(procedure, Context(SCHEMA, neighbors, price), rehearse=True)
        found.append((plan.cost, plan.costs, [(stage.law, stage.bound) for stage in plan.stages]))
    assert found[0] == found[1] == found[2]
    fixed = planned(in_blocks(None, count=8), Context(SCHEMA, neighbors, price), rehearse=True)
    assert (fixed.cost, fixed.costs) == found[0][:2]
