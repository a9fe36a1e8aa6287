"""Rows that are only counted, under random weights: their steps are those of the grid, and so is their bound."""

from fractions import Fraction

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.errors import OptionError
from dpinfer.kernel.price import amounts, price_stage
from dpinfer.kernel.rows.cells import CellSum
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.products import GramSum, ReplicateSum
from dpinfer.kernel.stage import Context, Resampled, Slot, Stage, Sum
from dpinfer.privacy.accounting import joint_cost
from dpinfer.privacy.resampling import noise_mu
from dpinfer.schema.basis import basis_of
from dpinfer.schema.expressions import compile_condition
from tests.kernel.test_bootstrap_privacy import (
    CORNER,
    LAWS,
    PUBLIC,
    SCHEMA,
    SECRET,
    allowed,
    integers_of,
    loss,
    table_of,
)


def counted(weights, price, replicates=10, *, neighbors="add_remove", most=1):
    """Price the number of rows that meet a condition, which no relation makes public; and what one unit adds to it."""
    schema = SCHEMA if most == 1 else SCHEMA.with_people("id", most)
    rows = ReplicateSum(Features(basis_of([], schema), compile_condition("k > 3", schema)), False, replicates, weights)
    unit = most * integers_of(rows, table_of([CORNER]))[0]
    assert unit.tolist() == [most * rows.unit]
    return price_stage(Stage(Resampled(rows)), price, Context(schema, neighbors, price)), np.tile(unit, replicates)


@pytest.mark.parametrize("price", PUBLIC, ids=str)
@pytest.mark.parametrize(
    ("weights", "neighbors", "most"),
    [
        ("public", "replace_one", 1),
        *(("paired", neighbors, most) for neighbors in ("add_remove", "replace_one") for most in (1, 3)),
    ],
)
def test_the_bound_of_a_counted_unit_in_pairs_is_attained(weights, neighbors, most, price):
    priced, moved = counted(weights, price, neighbors=neighbors, most=most)
    assert 0.9999 < 2 * loss(priced, moved) / allowed(priced, price) <= 1


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("weights", SECRET)
def test_the_bound_of_a_counted_unit_under_independent_weights_is_attained(weights, most):
    price, replicates = SECRET[weights]
    priced, moved = counted(weights, price, replicates, most=most)
    assert 0.9999 < loss(priced, moved) / Fraction(noise_mu(LAWS[weights], price.mu, replicates)) ** 2 <= 1


def test_a_public_number_of_rows_alone_is_not_asked_for():
    features = Features(basis_of([], SCHEMA))
    measures = [Resampled(ReplicateSum(features, products, 10, "paired")) for products in (False, True)]
    for measure in (*measures, Sum(GramSum(features))):
        with pytest.raises(OptionError, match="is public here"):
            price_stage(Stage(measure), dpi.GDP(0.3), Context(SCHEMA, "replace_one", dpi.GDP(0.3)))


def test_a_share_of_a_price_has_a_grid_that_is_fine_enough_for_the_whole():
    """Else the total variation of all stages' noise is more than the price sets aside for it."""
    price = dpi.ApproxDP(1.0, 1e-12)
    features, context = Features(basis_of(["x"], SCHEMA)), Context(SCHEMA, "add_remove", price)
    measures = (Sum(CellSum(features)), Resampled(ReplicateSum(features, False, 200, "paired")))
    shares = amounts(price, (Slot(Fraction(1, 2), 2), Slot(Fraction(1, 2), 400)))
    priced = [price_stage(Stage(one), share, context, most=402) for one, share in zip(measures, shares, strict=True)]
    assert joint_cost(price, [stage.cost for stage in priced]).approx == price
