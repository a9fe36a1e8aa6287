"""Weights and shares of the parts of a row sum: what could take noise away is refused."""

from itertools import product

import numpy as np
import pytest

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.kernel.price import price_stage
from dpinfer.kernel.rows.cells import CellSum, PersonSum, QuerySum
from dpinfer.kernel.rows.features import Features, RowClip
from dpinfer.kernel.rows.products import GramSum
from dpinfer.kernel.rows.tree import TreeSum
from dpinfer.kernel.stage import Context, Stage, Sum
from dpinfer.privacy.units import NEIGHBORS, ZCDP, PureDP
from dpinfer.regression.gram import GramDesign
from dpinfer.schema import Category, Real, Schema
from dpinfer.schema.axes import LevelsAxis
from dpinfer.schema.basis import basis_of

SCHEMA = Schema(x=Real(-3, 11), u=Real(0, 1), y=Real(0, 50), g=Category(["a", "b", "c"]))
NORMS = ("l2", "l1")
NAN, INF = float("nan"), float("inf")
GROUPS = (LevelsAxis(SCHEMA, "g"),)
FEATURES = Features(basis_of(("x - 4", "(x - 4)**2", "u"), SCHEMA))
COUNTS = CellSum(Features(basis_of((), SCHEMA)), GROUPS)
PRODUCTS = GramDesign(SCHEMA, formula="y ~ x * g").basis
SPLIT = GramSum(Features(PRODUCTS, None, RowClip(1.2)), split=True)
SUMS = {
    "cells": CellSum(FEATURES, GROUPS),
    "uncounted cells": CellSum(FEATURES, counted=False),
    "counts": COUNTS,
    "people": PersonSum(FEATURES, GROUPS),
    "queries": QuerySum(COUNTS, np.array([[1, 2, -3], [0, 1, 1]]), 1.0, ("p", "q")),
    "tree": TreeSum(SCHEMA, "x", 8, GROUPS),
    "products": GramSum(Features(PRODUCTS)),
    "products and marks": GramSum(Features(PRODUCTS, count_clamped=True)),
    "split products": SPLIT,
}


WORSE = [
    *([1.0, 1.0, one] for one in (0.0, -1.0, NAN, INF, -INF, 1e-200, 5e-324)),
    *([1e200] * 3, [0.1, 0.1], [0.1] * 4, [], [[0.1, 0.1, 0.1]], 0.1, "abc", ["a", "b", "c"], [None] * 3),
    [0.1, 0.1, 1j],
]


@pytest.mark.parametrize("kind", ["weights", "shares"])
def test_what_could_take_noise_away_is_refused(kind):
    for numbers, norm, neighbors in product(WORSE, NORMS, NEIGHBORS):
        with pytest.raises(OptionError, match=kind):
            SPLIT.bounded(neighbors, norm, **{kind: numbers})


@pytest.mark.parametrize("shares", [[0.5, 0.5, 0.1], [1.0, 1.0, 1.0], [0.5, 0.3, 0.2 + 1e-9]])
def test_shares_of_more_than_the_price_are_refused(shares):
    with pytest.raises(OptionError, match="at most 1"):
        SPLIT.bounded("add_remove", "l2", shares=shares)


@pytest.mark.parametrize("price", [ZCDP(0.2), PureDP(0.5)], ids=str)
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("kind", ["weights", "shares"])
def test_a_common_factor_buys_no_noise_off(name, price, kind):
    """Weights are relative: all halved, or a share of the one part alone, they leave at least as much noise."""
    rows = SUMS[name]
    if kind == "shares" and len(rows.parts) > 1 and not isinstance(rows, GramSum):
        with pytest.raises(NotProvedError, match="not proved"):
            rows.bounded("add_remove", "l2", shares=[0.01] * len(rows.parts))
        return
    context = Context(rows.schema, "add_remove", price)
    numbers = (1.0 / 64,) * len(rows.parts)
    first, second = (
        price_stage(Stage(Sum(rows, **{kind: one})), price, context)
        for one in (
            (0.5,) * len(rows.parts) if kind == "weights" else (1.0 / len(rows.parts),) * len(rows.parts),
            numbers,
        )
    )
    sizes = [np.array(one.law.scales) * one.steps for one in (first, second)]
    np.testing.assert_allclose(sizes[0], sizes[1], rtol=1e-6)
