"""What rows pay in the stages that regressions ask for: never above the bound, and nearly all of it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.kernel.rows.iterations import SLACK, RoundSum
from dpinfer.kernel.stage import Context
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.regression.question import Newton
from tests.kernel.rows.round_bounds import added_alone, exact_price, price_of, searched, share_of_bound
from validation.regression.newton_draws import Drawer

SCHEMA = dpi.Schema(
    x=dpi.Real(-3, 11),
    g=dpi.Category(["a", "b", "c"]),
    s=dpi.Real(0, 4),
    y=dpi.Real(-12, 12),
    b=dpi.Boolean(),
    k=dpi.Integer(0, 60),
    p=dpi.Real(0, 400),
)
QUESTIONS = {
    "least squares": Newton(formula="y ~ x + g", model="ols"),
    "least squares of equal spread": Newton(formula="y ~ x + g", model="ols", cov_type="nonrobust"),
    "weighted least squares": Newton(formula="y ~ x + g", model="ols", weights="s"),
    "logit": Newton(formula="b ~ x + g", model="logit"),
    "weighted logit": Newton(formula="b ~ x + g", model="logit", weights="s"),
    "probit": Newton(formula="b ~ x + g", model="probit"),
    "cloglog": Newton(formula="b ~ x + g", model="cloglog"),
    "poisson": Newton(formula="k ~ x + g", model="poisson"),
    "negativebinomial": Newton(formula="k ~ x + g", model="negativebinomial", parameter=0.5),
    "gamma": Newton(formula="p ~ x + g", model="gamma"),
    "huber": Newton(formula="y ~ x + g", model="huber"),
    "median": Newton(formula="y ~ x + g", model="quantile", parameter=0.5),
    "tail": Newton(formula="y ~ x + g", model="quantile", parameter=0.9),
}
PRICES = {"l2": dpi.ZCDP(0.5), "l1": dpi.PureDP(1.0)}


def rows_of(size=3000, seed=1):
    rng = np.random.default_rng(seed)
    x, g = np.clip(rng.normal(2, 1.5, size), -3, 11), np.array(["a", "b", "c"])[rng.integers(0, 3, size)]
    return {
        "x": x,
        "g": g,
        "s": rng.uniform(0, 4, size),
        "y": np.clip(0.5 * x + rng.standard_t(3, size), -12, 12),
        "b": rng.random(size) < 1 / (1 + np.exp(1 - 0.6 * x)),
        "k": np.minimum(rng.poisson(np.exp(0.2 * x)), 60),
        "p": np.minimum(rng.gamma(2.0, np.exp(0.2 * x)), 400),
    }


@cache
def rounds_of(name, norm, neighbors):
    """The rounds of one fit, by kind."""
    asked = Drawer(QUESTIONS[name], Context(SCHEMA, neighbors, PRICES[norm]))
    released = tuple(asked.stages(rows_of(), np.random.default_rng(2)).values())
    stages = [asked.plan.stage(place, released[:place]) for place in range(len(released))]
    found = {}
    for kind, stage in zip(asked.plan.kinds, stages, strict=True):
        if isinstance(stage.measure.rows, RoundSum):
            stage.measure.rows.check()
            found[kind] = stage.measure.rows
    return found


@pytest.mark.parametrize("norm", PRICES)
@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_no_neighbours_are_farther_apart_than_is_paid_for(name, norm, neighbors):
    rng = np.random.default_rng(3)
    for rows in rounds_of(name, norm, neighbors).values():
        found = searched(rows, rng, size=300, steps=40)
        integers = rows.integers(found)
        paid = price_of(rows, integers)
        top = np.argsort(-paid)[:4]
        assert max(exact_price(rows, integers, place) for place in top) <= 1 + SLACK
        alone = [added_alone(rows, integers, place) for place in [*top, *rng.integers(0, len(paid), 2)]]
        assert share_of_bound(rows, alone, neighbors) <= 1


@pytest.mark.parametrize("norm", PRICES)
@pytest.mark.parametrize("name", QUESTIONS)
def test_no_row_is_set_to_zero(name, norm):
    rng = np.random.default_rng(4)
    for rows in rounds_of(name, norm, "add_remove").values():
        found = searched(rows, rng, size=2000, steps=60)
        cheap = replace(rows, terms=tuple(replace(term, price=term.price / 2**20) for term in rows.terms))
        for free, forced in zip(cheap.integers(found), rows.integers(found), strict=True):
            np.testing.assert_array_equal(free, forced)
