"""Parts that a procedure forges or changes later: refused before the charge, or without any effect on what is paid.

Nothing here touches the kernel's own attributes: only objects that are handed over, or that were handed out.
"""

import os
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from statsmodels.regression.linear_model import OLS

import dpinfer as dpi
import dpinfer.kernel.run as run_module
from dpinfer.errors import DPInferError, MeasurementFailedError, NotProvedError, OptionError
from dpinfer.kernel.plan import planned
from dpinfer.kernel.rows.blocks import BlockMoments, Blocks, OctaveCounts
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.products import GramSum, ReplicateSum
from dpinfer.kernel.rows.scores import ScoreSum
from dpinfer.kernel.stage import Largest, Slot, Stage, Sum
from dpinfer.schema.axes import BinsAxis, ConditionAxis, LevelsAxis
from dpinfer.schema.grid import UNIT, Basis, Block, constant_basis
from dpinfer.schema.nodes import _OPERATIONS, ARGUMENTS, Expression, Node
from dpinfer.schema.region import Region
from tests.kernel.asked import ask

SCHEMA = dpi.Schema(x=dpi.Real(0, 1, missing=0, impossible=0), g=dpi.Category(["a", "b"]))
HALVES = (Slot(Fraction(1, 2), 64), Slot(Fraction(1, 2), 64, adaptive=True))
ONE = np.array([[UNIT]], dtype=np.int64)
REGION = Region(("a",), ((0,),), (2.0,), np.zeros(1))


def guarded(rows=100, budget=None, neighbors="add_remove", schema=SCHEMA, **unit):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.random(rows), "g": rng.choice(["a", "b"], rows), "id": np.arange(rows)})
    return dpi.PrivateData(frame, schema, dpi.Ledger.in_memory(budget or dpi.ZCDP(1.0), neighbors=neighbors), **unit)


def expression(node, columns=("x",), lower=0.0, upper=1.0, *, boolean=False):
    return Expression("forged", tuple(columns), lower, upper, boolean, {}, frozenset(), node)


def column(name="x"):
    return Node("column", name=name)


def block(made, center=0.0, half=1.0):
    return Block(made, (), center, half, ONE, ())


def basis(*blocks):
    return Basis(SCHEMA, (constant_basis(SCHEMA).blocks[0], *blocks))


def counts(*axes):
    return CellSum(Features(constant_basis(SCHEMA)), axes)


def refused(stage, *, error=OptionError, data=None, units=None):
    data = data or guarded()
    with pytest.raises(error):
        data.run(ask(stage, units=units), type(data.ledger.budget)(1e-3))
    assert data.ledger.charges().empty


def test_the_number_of_arguments_of_every_operation_is_known():
    assert ARGUMENTS.keys() == _OPERATIONS.keys() | {"constant", "column", "level", "power"}


ARGUMENT = Node("constant", value=1e6)
TREES = {
    "numpy's out": Node("+", (ARGUMENT, column("g"), column("g"))),
    "no such operation": Node("eval", (column(),)),
    "an argument for a column": Node("column", (column(),), name="x"),
    "an argument too few": Node("*", (column(),)),
    "a number that is none": Node("level", name="x", value=np.zeros(3)),
    "another column": column("g"),
}


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("as_axis", [True, False])
def test_trees_of_operations_are_checked(name, as_axis):
    made = expression(TREES[name], ("g", "x") if name == "numpy's out" else ("x",))
    rows = counts(ConditionAxis(SCHEMA, "c", made), LevelsAxis(SCHEMA, "g"))
    refused(Stage(Sum(rows if as_axis else GramSum(Features(basis(block(made)))))))


ENDS = [(1.0, 0.0), (-np.inf, 1.0), (0.0, np.nan), (np.zeros(256), np.ones(256)), (0.0, Fraction(1)), (0.0, "1")]


@pytest.mark.parametrize("ends", ENDS, ids=["reversed", "infinite", "nan", "arrays", "fraction", "text"])
@pytest.mark.parametrize("kind", ["gram", "cells", "scores"])
def test_bounds_of_expressions_are_finite_numbers_in_order(kind, ends):
    made = expression(column(), lower=ends[0], upper=ends[1])
    features = Features(basis(block(expression(column()), 0.5, 0.5)), where=made)
    rows = {"gram": GramSum, "cells": CellSum, "scores": lambda _: ScoreSum(SCHEMA, (made, expression(column())))}
    data = guarded(budget=dpi.PureDP(1.0))
    measure = Largest(rows[kind](features), "gumbel") if kind == "scores" else Sum(rows[kind](features))
    refused(Stage(measure), error=DPInferError, data=data)


@pytest.mark.parametrize(("center", "half"), [(0, -1), (0, 0), (np.nan, 1), (0, np.inf), (np.zeros(256), 1), ("0", 1)])
@pytest.mark.parametrize("kind", [GramSum, CellSum])
def test_scales_of_features_are_numbers_that_turn_nothing_round(kind, center, half):
    refused(Stage(Sum(kind(Features(basis(block(expression(column()), center, half)))))), error=DPInferError)


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 2.0**50), (2.0**18, -(2.0**18)), (-(2.0**50), 1.0)])
def test_votes_are_small_and_in_order(lower, upper):
    scores = tuple(expression(column(), lower=low, upper=high, boolean=True) for low, high in [(lower, upper), (0, 1)])
    refused(Stage(Largest(ScoreSum(SCHEMA, scores), "gumbel")), data=guarded(budget=dpi.PureDP(1.0)))


def test_no_cell_drops_a_row_whose_policies_keep_it():
    """A difference that overflows is no missing value: the public number of rows stays what it is."""
    far = block(expression(column(), lower=-1e308, upper=1.7e308), 1e308, 1.0)
    x = np.where(np.arange(100) < 3, -1.7e308, 0.5)
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1.0), neighbors="replace_one")
    data = dpi.PrivateData(pd.DataFrame({"x": x, "g": "a"}), SCHEMA, ledger)
    release = data.run(ask(Stage(Sum(GramSum(Features(basis(far)))))), dpi.ZCDP(1e-6))
    assert release.array[0] == 100


@pytest.mark.parametrize("radius", [0.0, -1.0, np.nan, 1e300])
@pytest.mark.parametrize("whose", ["blocks", "sum", "both"])
def test_regions_are_balls_and_those_of_the_blocks(whose, radius):
    forged = Region(("a",), ((0,),), (radius,), np.zeros(1))
    units = Blocks(SCHEMA, REGION if whose == "sum" else forged, 2, lambda _: np.zeros(1), workers=1)
    rows = OctaveCounts(SCHEMA, REGION if whose == "blocks" else forged)
    refused(Stage(Sum(rows)), units=units)


def test_a_wider_region_than_that_of_the_blocks_is_refused():
    units = Blocks(SCHEMA, REGION, 2, lambda _: np.zeros(1), workers=1)
    wide = Region(("a",), ((0,),), (4.0,), np.zeros(1))
    refused(Stage(Sum(OctaveCounts(SCHEMA, wide))), units=units)


def test_secret_weights_have_no_price_in_l1():
    rows = ReplicateSum(Features(constant_basis(SCHEMA)), products=False, replicates=4, weights="double_or_nothing")
    with pytest.raises(NotProvedError, match="Gaussian"):
        rows.bounded("add_remove", "l1")


# What is handed over or out, and is changed later


def test_settings_that_are_written_to_are_not_those_that_are_stored():
    bins = Stage(Sum(counts(BinsAxis(SCHEMA, "x", (0.0, 0.25, 0.5, 1.0)))), settings={"a": 1})

    def second(call, released):
        if call == 1:  # the rehearsal
            released[0].settings["a"] = 2
        return bins

    found = guarded().run(ask(bins, second, slots=HALVES), dpi.ZCDP(1e-6)).stages[0]
    assert found.settings == {"a": 1}


def test_a_ledger_of_the_right_type_is_charged_by_its_own_code():
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1e-6))
    for name in ("charge", "remaining", "spent"):
        try:
            setattr(ledger, name, lambda *_, **__: "free")
        except AttributeError:
            continue
    data = dpi.PrivateData(pd.DataFrame({"x": [0.5], "g": ["a"]}), SCHEMA, ledger)
    with pytest.raises(dpi.errors.BudgetExceededError):
        data.run(ask(Stage(Sum(counts()))), dpi.ZCDP(50.0))


def test_a_relation_is_a_plain_text():
    class Both(str):
        __slots__ = ()

        def __eq__(self, other):
            return other in ("add_remove", "replace_one")

        __hash__ = str.__hash__

    with pytest.raises(OptionError, match="neighbors"):
        dpi.Ledger.in_memory(dpi.ZCDP(1.0), neighbors=Both("add_remove"))


# Processes and global state


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_process_that_is_forked_after_the_charge_draws_nothing(tmp_path):
    told = tmp_path / "child"

    def second(call, released):
        if call == 2:  # after the rehearsal
            children.append(os.fork())
        return Stage(Sum(counts()))

    children = []
    asked = ask(Stage(Sum(counts())), second, slots=HALVES)
    stages = -1
    try:
        stages = len(guarded().run(asked, dpi.ZCDP(1e-3)).stages)
    except MeasurementFailedError as error:
        stages = len(error.partial.stages)
    finally:
        if children == [0]:
            told.write_text(str(stages))
            os._exit(0)
    assert os.waitpid(children[0], 0)[1] == 0
    assert told.read_text() == "1"  # the stage before the fork
    assert stages == 2


def test_a_stage_does_not_make_numpy_raise_while_rows_are_read():
    region = Region(("a",), ((0,),), (1e100,), np.zeros(1))

    def second(call, released):
        if call == 2:
            np.seterr(all="raise")
        return Stage(Sum(BlockMoments(SCHEMA, region, (0.0,), (1e-250,), "l2")))

    units = Blocks(SCHEMA, region, 2, lambda frame: np.array([frame.x.max() * 1e99]), halves=False, workers=1)
    before = np.geterr()
    try:
        asked = ask(Stage(Sum(OctaveCounts(SCHEMA, region))), second, slots=HALVES, units=units)
        assert len(guarded().run(asked, dpi.ZCDP(1e-3)).stages) == 2
    finally:
        np.seterr(**before)


@pytest.mark.parametrize("name", ["filter", "header", "store"])
def test_the_account_of_a_ledger_cannot_be_changed(name):
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1e-6))
    with pytest.raises(AttributeError, match="cannot be changed"):
        setattr(ledger.account, name, getattr(dpi.Ledger.in_memory(dpi.ZCDP(1e6)).account, name))
    with pytest.raises(AttributeError, match="cannot be changed"):
        delattr(ledger.account, name)


# Nothing that a procedure is handed is what the kernel goes by


class Watched:
    """A procedure, and all objects that the kernel has handed to it."""

    def __init__(self, inner, handed):
        self._inner, self._handed = inner, handed

    def resolve(self, context):
        self._handed.append(context)
        return Watched(self._inner.resolve(context), self._handed)

    def __getattr__(self, name):
        method = getattr(self._inner, name)

        def call(*given, **named):
            self._handed.extend([*given, *named.values()])
            return method(*given, **named)

        return call


FIXED = (dpi.Schema, dpi.PureDP, dpi.ZCDP, dpi.GDP, dpi.ApproxDP)
"""Values that plain code cannot change."""


def reached(roots):
    """Every list, mapping, set and array that is reached from others, by its identity."""
    found, waiting, met = {}, list(roots), set()
    while waiting:
        one = waiting.pop()
        if isinstance(one, FIXED) or callable(one) or id(one) in met:
            continue
        met.add(id(one))
        if isinstance(one, dict | list | set) or (isinstance(one, np.ndarray) and one.flags.writeable):
            found[id(one)] = one
        if isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, tuple | list | set | frozenset):
            waiting += one
        elif not isinstance(one, str | bytes | np.generic):
            slots = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
            waiting += [getattr(one, name) for name in slots if hasattr(one, name)]
            waiting += getattr(one, "__dict__", {}).values()
    return found


QUESTIONS = {
    "mean": lambda: dpi.mean("x", by="g"),
    "gram": lambda: dpi.gram(["x", "g"]),
    "quantile": lambda: dpi.quantile("x", q=0.5),
    "density": lambda: dpi.density("x"),
    "choice": lambda: dpi.most_frequent("g"),
    "bootstrap": lambda: dpi.bootstrap("x", statistic="mean", replicates=4),
    "blocks": lambda: dpi.sample_aggregate("x ~ 1", model=OLS, blocks=8, bounds=dpi.Ball(2)),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_nothing_that_is_handed_over_is_what_the_kernel_goes_by(name, monkeypatch):
    handed, plans = [], []
    monkeypatch.setattr(
        run_module, "planned", lambda *given, **named: plans.append(planned(*given, **named)) or plans[0]
    )
    data = guarded(budget=dpi.GDP(3.0))
    handed.append(data.schema)
    data.run(Watched(QUESTIONS[name](), handed), dpi.GDP(1.0))
    (plan,) = plans
    own = reached([plan.stages, plan.slots, plan.costs, plan.cost, plan.blocks])
    theirs = reached(handed)
    shared = [type(own[one]).__name__ for one in own.keys() & theirs.keys()]
    assert own
    assert theirs
    assert shared == []
