"""The price of a choice: which epsilon it buys in every currency, never rounded up."""

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from dpinfer.errors import BudgetExceededError, NotProvedError, OptionError, PrivacyUnitError
from dpinfer.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP
from dpinfer.privacy.accounting import choice_cost, choice_epsilon, choice_scale, gaussian_amount
from dpinfer.privacy.exact import binary, decimal
from dpinfer.privacy.units import pure_mu

LAWS = ("gumbel", "exponential")
PRICES = (PureDP(0.3), PureDP(4.0), ZCDP(0.1), ZCDP(2.0), GDP(0.25), GDP(3.0), ApproxDP(1.0, 1e-6), ApproxDP(0.1, 1e-9))


def bounded_range_mu(epsilon, count=2001):
    """Largest mu of two laws on two points whose log ratios differ by epsilon: probability of the first under each."""
    t = np.linspace(0, epsilon, count)[1:-1]
    q = np.expm1(epsilon - t) / (np.exp(epsilon) - 1)
    p = q * np.exp(t)
    return float((special.ndtri(p) - special.ndtri(q)).max())


def test_no_pair_of_bounded_range_is_further_apart_than_randomised_response_at_half():
    for epsilon in (1e-3, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0):
        claimed = math.sqrt(choice_cost(PureDP(epsilon), "gumbel").mu_squared)
        largest = bounded_range_mu(epsilon)
        assert largest <= claimed
        assert largest == pytest.approx(pure_mu(epsilon / 2), rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0, 8.0])
def test_no_pair_of_bounded_range_has_a_larger_renyi_divergence_than_is_charged(epsilon):
    """zCDP: the divergence of every order alpha is at most rho alpha."""
    rho = float(choice_cost(PureDP(epsilon), "gumbel").rho)
    assert rho == pytest.approx(epsilon**2 / 8, rel=1e-12)
    t = np.linspace(0, epsilon, 501)[1:-1]
    q = np.expm1(epsilon - t) / np.expm1(epsilon)
    p = q * np.exp(t)
    for alpha in (1.001, 1.5, 2.0, 5.0, 50.0):
        moments = np.log(p**alpha * q ** (1 - alpha) + (1 - p) ** alpha * (1 - q) ** (1 - alpha))
        assert (moments / (alpha - 1) <= rho * alpha * (1 + 1e-9) + 1e-13).all()


@given(st.floats(1e-6, 50))
def test_a_pure_price_buys_its_own_epsilon(epsilon):
    for law, share in (("gumbel", 2), ("exponential", 1)):
        cost = choice_cost(PureDP(epsilon), law)
        assert choice_epsilon(PureDP(epsilon), law) == cost.pure_epsilon == decimal(epsilon)
        assert cost.rho == (decimal(epsilon) / share) ** 2 / 2
        exact = pure_mu(float(decimal(epsilon) / share)) / (1 + 1e-9)
        assert exact**2 <= float(cost.mu_squared) <= exact**2 * (1 + 5e-9)
        assert (cost.tau, cost.delta0, cost.approx) == (0, 0, None)


@given(st.floats(1e-12, 100))
def test_a_zcdp_price_is_never_exceeded_and_nearly_used(rho):
    for law, factor in (("gumbel", 8), ("exponential", 2)):
        epsilon = choice_epsilon(ZCDP(rho), law)
        assert epsilon**2 <= factor * decimal(rho)
        assert float(epsilon) == pytest.approx(math.sqrt(factor * rho), rel=1e-11)
        cost = choice_cost(ZCDP(rho), law)
        assert (cost.rho, cost.pure_epsilon) == (decimal(rho), epsilon)


@given(st.floats(1e-3, 12))
def test_a_gdp_price_is_never_exceeded_and_nearly_used(mu):
    """The log odds of Phi(mu/2) are twice an inverse hyperbolic tangent of an error function."""
    for law, factor in (("gumbel", 2), ("exponential", 1)):
        epsilon = float(choice_epsilon(GDP(mu), law))
        exact = -stats.norm.logsf(mu / 2) + stats.norm.logcdf(mu / 2)
        if mu < 2:
            exact = 2 * math.atanh(math.erf(mu / math.sqrt(8)))
        assert epsilon <= factor * exact
        assert epsilon == pytest.approx(factor * exact, rel=1e-11)
        assert choice_cost(GDP(mu), law).mu_squared == decimal(mu) ** 2


@pytest.mark.parametrize("law", LAWS)
def test_an_approximate_price_is_the_gdp_that_implies_it(law):
    price = ApproxDP(1.0, 1e-6)
    amount = gaussian_amount(price)
    assert choice_epsilon(price, law) == choice_epsilon(amount, law)
    cost = choice_cost(price, law)
    assert (cost.price, cost.approx) == (price, price)
    assert cost.mu_squared == decimal(amount.mu) ** 2


def test_the_exponential_mechanism_has_twice_the_epsilon_for_anything_but_pure_prices():
    for price in PRICES:
        first, second = (choice_epsilon(price, law) for law in LAWS)
        assert float(first / second) == pytest.approx(1.0 if isinstance(price, PureDP) else 2.0, rel=1e-11)


@pytest.mark.parametrize("price", PRICES, ids=str)
def test_a_ledger_of_the_unit_grants_its_whole_budget_and_not_a_hair_more(price):
    name = dataclasses.fields(price)[0].name
    hair = 1e-9 if isinstance(price, ApproxDP) else 1e-15
    dearer = dataclasses.replace(price, **{name: getattr(price, name) * (1 + hair)})
    for law in LAWS:
        ledger = Ledger.in_memory(price)
        with pytest.raises(BudgetExceededError):
            ledger.charge(choice_cost(dearer, law), "too dear")
        assert ledger.charges().empty
        ledger.charge(choice_cost(price, law), "a choice")
        assert ledger.spent == price
        with pytest.raises(BudgetExceededError):
            ledger.charge(choice_cost(dataclasses.replace(price, **{name: 1e-9}), law), "one more")


@pytest.mark.parametrize("law", LAWS)
def test_the_cost_of_a_pure_choice_is_granted_by_ledgers_of_weaker_units(law):
    epsilon = 0.5
    inner = epsilon / 2 if law == "gumbel" else epsilon
    cost = choice_cost(PureDP(epsilon), law)
    Ledger.in_memory(ZCDP(inner**2 / 2)).charge(cost, "a choice")
    Ledger.in_memory(GDP(pure_mu(inner) * (1 + 1e-8))).charge(cost, "a choice")
    with pytest.raises(BudgetExceededError):
        Ledger.in_memory(ZCDP(inner**2 / 2 * (1 - 1e-9))).charge(cost, "a choice")
    with pytest.raises(BudgetExceededError):
        Ledger.in_memory(GDP(pure_mu(inner) * (1 - 1e-8))).charge(cost, "a choice")


@given(st.integers(1, 2**40), st.sampled_from(PRICES), st.sampled_from(LAWS), st.integers(1, 9))
def test_the_scale_is_the_range_over_epsilon(spread, price, law, parts):
    given_spread = Fraction(spread, parts)
    scale, exact = choice_scale(given_spread, price, law), given_spread / choice_epsilon(price, law)
    assert min(decimal(scale), binary(scale)) >= exact
    assert scale <= float(exact) * (1 + 1e-14)
    if isinstance(price, ZCDP):  # as a sampler reads it
        factor = 8 if law == "gumbel" else 2
        assert (given_spread / binary(scale)) ** 2 <= factor * decimal(price.rho)


def test_a_price_of_zero_buys_no_choice():
    for price, law in itertools.product((PureDP(0.0), ZCDP(0.0), GDP(0.0), ApproxDP(0.0, 1e-6)), LAWS):
        for ask in (choice_epsilon, choice_cost, lambda price, law: choice_scale(1, price, law)):
            with pytest.raises(PrivacyUnitError, match="above zero"):
                ask(price, law)


def test_other_laws_and_ranges_that_are_none_are_refused():
    for law in ("gaussian", "laplace", "", None):
        with pytest.raises(OptionError, match="gumbel"):
            choice_epsilon(PureDP(1.0), law)
    for spread in (0, -1, Fraction(-1, 2)):
        with pytest.raises(OptionError, match="spread="):
            choice_scale(spread, PureDP(1.0), "gumbel")


def test_a_choice_has_no_guarantee_that_is_not_proved():
    """A ledger that adds up epsilon takes it; Gaussian amounts of a pure price are refused where they are asked."""
    with pytest.raises(NotProvedError):
        gaussian_amount(PureDP(1.0))
    ledger = Ledger.in_memory(PureDP(10.0))
    ledger.charge(choice_cost(ZCDP(0.125), "gumbel"), "a choice")
    assert float(ledger.spent.epsilon) == pytest.approx(1.0, rel=1e-11)
