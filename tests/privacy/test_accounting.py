"""Costs and calibration: exact, never below what the price demands."""

import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpinfer.errors import NotProvedError, OptionError, PrivacyUnitError
from dpinfer.privacy.accounting import (
    FINE_GRID,
    RESERVED,
    Cost,
    calibrate,
    coordinate_scales,
    discrete_gaussian_tau,
    gaussian_amount,
    gaussian_cost,
    laplace_cost,
    least_scale,
    tau_allowance,
)
from dpinfer.privacy.exact import decimal
from dpinfer.privacy.units import GDP, ZCDP, ApproxDP, PureDP, log_gaussian_delta

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
