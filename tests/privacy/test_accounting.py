"""What noise and choices cost, shares of a price, and what a cost means: never below what the price demands."""

import dataclasses
import itertools
import json
import math
import pickle
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from dpinfer.errors import BudgetExceededError, NotProvedError, OptionError, PrivacyUnitError
from dpinfer.privacy.accounting import (
    FINE_GRID,
    RESERVED,
    Cost,
    calibrate,
    choice_cost,
    choice_epsilon,
    choice_scale,
    coordinate_scales,
    discrete_gaussian_tau,
    gaussian_amount,
    gaussian_cost,
    joint_cost,
    laplace_cost,
    least_scale,
    power_bound,
    tau_allowance,
)
from dpinfer.privacy.exact import binary, decimal
from dpinfer.privacy.ledger import Ledger
from dpinfer.privacy.units import GDP, ZCDP, ApproxDP, PureDP, log_gaussian_delta, pure_mu

FINE = [2.0**30, 2.0**31]
prices = st.floats(1e-9, 1e3)
sensitivities = st.one_of(st.integers(1, 10**30), st.fractions(Fraction(1, 10**9), 10**9), st.floats(1e-9, 1e9))


def gaussian_delta(epsilon, mu):
    return np.exp(log_gaussian_delta(epsilon, mu))


def test_cost_of_gaussian_noise_is_exact_in_every_currency():
    cost = gaussian_cost(ZCDP(0.1), scales=FINE)
    assert (cost.rho, cost.mu_squared) == (Fraction(1, 10), Fraction(1, 5))
    assert cost.pure_epsilon is None
    assert cost.approx is None
    cost = gaussian_cost(GDP(0.3), scales=FINE)
    assert (cost.rho, cost.mu_squared, cost.mu) == (Fraction(9, 200), Fraction(9, 100), 0.3)


def test_cost_of_gaussian_noise_in_approximate_dp():
    price = ApproxDP(1.0, 1e-6)
    cost = gaussian_cost(price, scales=FINE)
    assert gaussian_delta(1.0, cost.mu) <= 1e-6 * float(1 - RESERVED)
    assert cost.mu_squared == gaussian_amount(price).composable[0]
    assert cost.approx == price
    assert cost.tau * (1 + Fraction(math.e)) <= RESERVED * Fraction(1, 10**6)
    assert gaussian_delta(1.0, cost.mu) + float(cost.tau) * (1 + math.e) <= 1e-6


def test_coarse_grid_proves_zcdp_only():
    for price in (ZCDP(0.5), GDP(1.0), ApproxDP(1.0, 1e-6)):
        cost = gaussian_cost(price, scales=[2.0**30, FINE_GRID - 1])
        assert cost.mu_squared is None
        assert cost.mu is None
        assert cost.approx is None
        assert cost.tau == 0
        assert cost.rho > 0
    assert gaussian_cost(ZCDP(0.5), scales=FINE_GRID).mu == 1.0


def test_many_coordinates_outgrow_the_reserve():
    price = ApproxDP(20.0, 1e-9)
    assert gaussian_cost(price, scales=FINE_GRID).approx is None
    enough = least_scale(price, 3)
    assert enough > FINE_GRID
    assert gaussian_cost(price, scales=[enough] * 3).approx == price
    assert gaussian_cost(price, scales=[enough * 0.999] * 3).approx is None
    assert least_scale(ApproxDP(1.0, 1e-6), 10) == least_scale(ZCDP(1), 10**9) == FINE_GRID
    with pytest.raises(NotProvedError, match="too large"):
        least_scale(ApproxDP(1e5, 1e-9), 3)
    with pytest.raises(OptionError):
        least_scale(price, 0)


def test_total_variation_is_summed_and_rounded_up():
    exact = 3 * Fraction(203, 10**4) / 2**60
    assert exact <= discrete_gaussian_tau([2.0**30] * 3) <= exact * (1 + Fraction(1, 10**8))
    with pytest.raises(NotProvedError, match="finer"):
        discrete_gaussian_tau([2.0**23])
    for bad in ([], [0.0], [-1.0], [math.nan]):
        with pytest.raises(OptionError):
            discrete_gaussian_tau(bad)
    allowance = float(tau_allowance(ApproxDP(2.0, 1e-6)))
    assert allowance == pytest.approx(1e-9 / (1 + math.exp(2)), rel=1e-10)
    assert tau_allowance(ApproxDP(1e4, 1e-6)) == 0


def test_constant_of_the_total_variation():
    """The limit of s^2 times the distance is phi(1)/12 = .02016, and nearly reached at moderate scales."""
    from scipy.stats import norm

    for scale in (5.0, 20.0, 100.0):
        k = np.arange(-int(12 * scale) - 2, int(12 * scale) + 3)
        discrete = np.exp(-(k**2) / (2 * scale**2))
        discrete /= discrete.sum()
        rounded = norm.cdf((k + 0.5) / scale) - norm.cdf((k - 0.5) / scale)
        distance = 0.5 * np.abs(discrete - rounded).sum()
        assert 0.98 * 0.0203 <= distance * scale**2 <= 0.0203


def test_cost_of_laplace_noise():
    cost = laplace_cost(PureDP(0.1))
    assert (cost.pure_epsilon, cost.rho, cost.tau) == (Fraction(1, 10), Fraction(1, 200), 0)
    assert cost.mu == pytest.approx(PureDP(0.1).to(GDP).mu, rel=1e-14)
    assert cost.mu >= PureDP(0.1).to(GDP).mu


def test_wrong_pairs_and_zero_prices_are_refused():
    for price in (ZCDP(1), GDP(1), ApproxDP(1, 1e-6)):
        with pytest.raises(NotProvedError, match="Laplace"):
            laplace_cost(price)
        with pytest.raises(NotProvedError, match="Laplace"):
            calibrate(1, price, "laplace")
    with pytest.raises(NotProvedError, match="Gaussian"):
        calibrate(1, PureDP(1), "gaussian")
    with pytest.raises(NotProvedError, match="Gaussian"):
        gaussian_cost(PureDP(1), scales=1.0)
    for price in (ZCDP(0), GDP(0), ApproxDP(0, 1e-6)):
        with pytest.raises(PrivacyUnitError, match="above zero"):
            calibrate(1, price, "gaussian")
    with pytest.raises(PrivacyUnitError, match="above zero"):
        laplace_cost(PureDP(0))
    with pytest.raises(OptionError, match="law='normal'"):
        calibrate(1, ZCDP(1), "normal")
    for bad in (0, -1, math.nan, math.inf, "1", True):
        with pytest.raises(OptionError, match="sensitivity"):
            calibrate(bad, ZCDP(1), "gaussian")


def test_calibration_of_round_numbers():
    assert calibrate(3, PureDP(0.1), "laplace") == 30.0
    assert calibrate(1, ZCDP(0.5), "gaussian") == 1.0
    assert calibrate(Fraction(3, 2), GDP(0.3), "gaussian") == 5.0
    assert calibrate(np.int64(3), GDP(np.float64(3)), "gaussian") == 1.0


@given(sensitivities, prices)
def test_gaussian_scale_is_the_least_that_keeps_the_price(sensitivity, price):
    squared = Fraction(sensitivity) ** 2
    for unit, allowed in ((ZCDP(price), 2 * decimal(price)), (GDP(price), decimal(price) ** 2)):
        scale = calibrate(sensitivity, unit, "gaussian")
        assert squared <= allowed * Fraction(scale) ** 2
        assert squared > allowed * Fraction(math.nextafter(scale, 0)) ** 2


@given(sensitivities, prices)
def test_laplace_scale_is_the_least_that_keeps_the_price(sensitivity, price):
    scale = calibrate(sensitivity, PureDP(price), "laplace")
    assert Fraction(sensitivity) <= decimal(price) * Fraction(scale)
    assert Fraction(sensitivity) > decimal(price) * Fraction(math.nextafter(scale, 0))


@given(st.floats(0.01, 10), st.floats(1e-12, 1e-2))
def test_calibration_in_approximate_dp_leaves_the_reserve(epsilon, delta):
    scale = calibrate(1, ApproxDP(epsilon, delta), "gaussian")
    assert gaussian_delta(epsilon, 1 / scale) <= delta * (1 - float(RESERVED)) * (1 + 1e-12)


@given(st.floats(1e-3, 1e6), st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=5))
def test_coordinate_scales_are_never_rounded_down(scale, weights):
    scales = coordinate_scales(scale, weights)
    assert scales.shape == (len(weights),)
    for weight, product in zip(weights, scales, strict=True):
        exact = Fraction(scale) * Fraction(weight)
        assert exact <= Fraction(float(product)) <= exact * (1 + Fraction(1, 2**51))


def test_gaussian_shares_of_an_approximate_price_lose_nothing():
    amount = gaussian_amount(ApproxDP(1.0, 1e-6))
    share = amount / 6
    assert 6 * share.composable[0] <= amount.composable[0]
    assert 6 * share.composable[0] > amount.composable[0] * (1 - Fraction(1, 10**12))
    assert gaussian_amount(ZCDP(1)) == ZCDP(1)


def test_costs_add_where_both_are_proved():
    total = laplace_cost(PureDP(0.1)) + Cost(PureDP(0.2), pure_epsilon=0.2, rho=Fraction(1, 200))
    assert total.price == PureDP(0.3)
    assert total.pure_epsilon == Fraction(3, 10)
    assert total.rho == Fraction(1, 100)
    assert total.mu_squared is None
    both = gaussian_cost(ApproxDP(1, 1e-6), scales=FINE) + gaussian_cost(ApproxDP(1, 1e-6), scales=FINE)
    assert both.approx == ApproxDP(2, 2e-6)
    assert both.tau == 2 * discrete_gaussian_tau(FINE)
    failing = Cost(GDP(1), mu_squared=1, delta0=Fraction(1, 10**9))
    assert (gaussian_cost(GDP(1), scales=FINE) + failing + failing).delta0 == Fraction(2, 10**9)
    assert (gaussian_cost(GDP(1), scales=FINE) + failing).mu_squared == 2


def test_cost_is_validated():
    for bad in (-1, math.nan, "1", True):
        with pytest.raises(PrivacyUnitError, match="rho"):
            Cost(ZCDP(1), rho=bad)
    for name in ("tau", "delta0"):
        for bad in (None, -1e-12, math.inf):
            with pytest.raises(PrivacyUnitError, match=name):
                Cost(ZCDP(1), **{name: bad})
    with pytest.raises(PrivacyUnitError, match="price"):
        Cost(1.0)
    with pytest.raises(PrivacyUnitError, match="approx"):
        Cost(ZCDP(1), approx=ZCDP(1))


@pytest.mark.parametrize(
    "cost",
    [
        laplace_cost(PureDP(0.3)),
        gaussian_cost(ZCDP(0.1), scales=FINE),
        gaussian_cost(ApproxDP(1, 1e-6), scales=FINE),
        gaussian_cost(GDP(1), scales=2.0),
        Cost(GDP(1), mu_squared=Fraction(1), tau=Fraction(1, 10**12), delta0=Fraction(1e-10)),
    ],
)
def test_cost_survives_json_and_pickle(cost):
    assert Cost.from_json(cost.to_json()) == cost
    assert Cost.from_dict(json.loads(json.dumps(cost.to_dict()))) == cost
    assert pickle.loads(pickle.dumps(cost)) == cost


def test_stored_costs_of_older_releases_have_no_probability_of_failure():
    stored = gaussian_cost(GDP(1), scales=FINE).to_dict()
    assert stored.pop("delta0") == "0"
    assert Cost.from_dict(stored) == gaussian_cost(GDP(1), scales=FINE)


def test_damaged_costs_are_refused():
    good = laplace_cost(PureDP(0.3)).to_dict()
    damages = ({"rho": "x"}, {"rho": "1/0"}, {"rho": "-1"}, {"extra": 1}, {"price": {"unit": "?"}})
    for damage in (*damages, {"delta0": "-1"}, {"delta0": None}, {"delta0": "x"}):
        with pytest.raises(PrivacyUnitError):
            Cost.from_dict(good | damage)


def test_description_lists_what_is_proved_only():
    assert gaussian_cost(GDP(1), scales=2.0).describe() == "0.5-zCDP"
    words = gaussian_cost(ApproxDP(1, 1e-6), scales=FINE).describe()
    assert "within total variation" in words
    assert words.startswith("(1, 1e-06)-DP")
    assert Cost(ZCDP(1)).describe() == "no proved guarantee"
    failing = Cost(GDP(1), mu_squared=1, tau=Fraction(1, 10**10), delta0=Fraction(2, 10**10))
    words = failing.describe()
    assert words.startswith("within total variation 1e-10 of 1-GDP")
    assert words.endswith("but for a probability of 2e-10")


SPLIT = (PureDP(0.3), PureDP(7.1), ZCDP(0.1), ZCDP(3.3), GDP(0.7), ApproxDP(1.0, 1e-6))


def shared(price, shares):
    amount = price if isinstance(price, PureDP) else gaussian_amount(price)
    return [amount * share for share in shares]


SHARES = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6).map(lambda s: [one / sum(s) for one in s])


@given(st.sampled_from(SPLIT), SHARES)
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


@pytest.mark.parametrize("price", SPLIT, ids=str)
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
    for price in SPLIT:
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


def test_the_bounds_of_each_guarantee():
    gaussian = Cost(GDP(1.0), mu_squared=Fraction(1))
    assert power_bound(gaussian) == pytest.approx(stats.norm.cdf(stats.norm.ppf(0.05) + 1))
    pure = Cost(PureDP(1.0), pure_epsilon=Fraction(1))
    assert power_bound(pure) == pytest.approx(0.05 * np.e)
    assert power_bound(pure, 0.9) == pytest.approx(1 - np.exp(-1) * 0.1)
    approx = Cost(ApproxDP(1.0, 0.01), approx=ApproxDP(1.0, 0.01))
    assert power_bound(approx) == pytest.approx(0.05 * np.e + 0.01)
    within = Cost(GDP(1.0), mu_squared=Fraction(1), tau=Fraction(1, 100), delta0=Fraction(1, 100))
    assert power_bound(within) == pytest.approx(stats.norm.cdf(stats.norm.ppf(0.06) + 1) + 0.02)
    assert power_bound(Cost(ZCDP(0.0), rho=Fraction(0))) >= 0.05


@pytest.mark.parametrize("rho", [0.005, 0.1, 0.5, 2.0])
def test_no_gaussian_mechanism_beats_its_zcdp(rho):
    most = power_bound(Cost(ZCDP(rho), rho=Fraction(rho)))
    reached = stats.norm.cdf(stats.norm.ppf(0.05) + np.sqrt(2 * rho))
    assert reached <= most <= 1
    both = Cost(ZCDP(rho), rho=Fraction(rho), mu_squared=2 * Fraction(rho))
    assert reached == pytest.approx(power_bound(both))


def test_large_costs_say_nothing():
    assert power_bound(Cost(PureDP(2000.0), pure_epsilon=Fraction(2000))) == pytest.approx(1)
    assert power_bound(Cost(PureDP(1.0))) == 1
