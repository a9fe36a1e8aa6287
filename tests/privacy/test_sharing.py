"""A price that is split: the parts together never cost more than it, and a ledger grants all of it."""

from fractions import Fraction
from functools import reduce
from operator import add

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpinfer.errors import BudgetExceededError
from dpinfer.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP
from dpinfer.privacy.accounting import choice_cost, gaussian_amount, gaussian_cost, joint_cost, laplace_cost
from dpinfer.privacy.exact import decimal

PRICES = (PureDP(0.3), PureDP(7.1), ZCDP(0.1), ZCDP(3.3), GDP(0.7), ApproxDP(1.0, 1e-6))


def shared(price, shares):
    amount = price if isinstance(price, PureDP) else gaussian_amount(price)
    return [amount * share for share in shares]


SHARES = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6).map(lambda s: [one / sum(s) for one in s])


@given(st.sampled_from(PRICES), SHARES)
def test_the_parts_are_within_the_price(price, shares):
    parts = shared(price, shares)
    amount = price if isinstance(price, PureDP) else gaussian_amount(price)
    assert {type(part) for part in parts} == {type(amount)}
    (whole,) = amount.composable
    total = sum((part.composable[0] for part in parts), Fraction(0))
    asked = sum(map(decimal, shares), Fraction(0))  # as they print, that may be a hair above 1
    assert total <= whole * asked
    assert float(total) == pytest.approx(float(whole), rel=1e-9)


def parts_of(price, fine=2.0**30):
    first, second = shared(price, [0.25, 0.75])
    noise = laplace_cost(second) if isinstance(price, PureDP) else gaussian_cost(second, scales=[fine] * 7)
    return [choice_cost(first, "gumbel"), noise]


@pytest.mark.parametrize("price", PRICES, ids=str)
def test_a_ledger_of_the_unit_grants_what_shares_a_whole_budget(price):
    parts = parts_of(price)
    cost = joint_cost(price, parts)
    assert cost.price == price
    ledger = Ledger.in_memory(price)
    ledger.charge(cost, "both")
    assert ledger.charges()["description"].tolist() == ["both"]
    with pytest.raises(BudgetExceededError):
        ledger.charge(choice_cost(shared(price, [0.01, 0.99])[0], "gumbel"), "one more")


def test_currencies_add_where_all_parts_have_them():
    for price in PRICES:
        parts = parts_of(price)
        cost, total = joint_cost(price, parts), reduce(add, parts)
        for name in ("pure_epsilon", "rho", "mu_squared", "tau", "delta0"):
            assert getattr(cost, name) == getattr(total, name)
        assert (cost.pure_epsilon is None) == (not isinstance(price, PureDP))
        assert cost.approx == (price if isinstance(price, ApproxDP) else None)


def test_an_approximate_price_is_proved_only_where_delta_pays_for_the_noise():
    price = ApproxDP(1.0, 1e-12)
    coarse = joint_cost(price, parts_of(price, fine=2.0**24))
    assert coarse.tau > 0
    assert coarse.approx is None
    fine = joint_cost(price, parts_of(price, fine=2.0**40))
    assert fine.approx == price
    rough = joint_cost(price, parts_of(price, fine=100.0))
    assert (rough.mu_squared, rough.approx) == (None, None)


def test_a_single_part_costs_what_it_costs():
    price = ZCDP(0.4)
    cost = choice_cost(price, "gumbel")
    assert joint_cost(price, [cost]) == cost
