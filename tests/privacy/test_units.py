"""Privacy units and the conversions between them: exact arithmetic, rounding toward less claimed privacy."""

import copy
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian, get_sigma_gaussian
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erf, ndtr

from dpinfer.errors import PrivacyUnitError
from dpinfer.privacy.accounting import Cost, choice_epsilon
from dpinfer.privacy.exact import (
    binary,
    decimal,
    digits_below,
    float_above,
    float_below,
    fraction_of,
    sqrt_above,
    sqrt_below,
)
from dpinfer.privacy.units import (
    GDP,
    ZCDP,
    ApproxDP,
    PureDP,
    gaussian_epsilon,
    gaussian_mu,
    log_gaussian_delta,
    privacy_from_dict,
    pure_mu,
    zcdp_epsilon,
)

ONE_PARAMETER = [PureDP, ZCDP, GDP]
EXAMPLES = [PureDP(0.1), ZCDP(0.3), GDP(1.5), ApproxDP(1.0, 1e-6)]
amounts = st.floats(1e-12, 1e6)


@pytest.mark.parametrize("unit", ONE_PARAMETER)
@pytest.mark.parametrize("bad", [-1, -1e-300, math.nan, math.inf, "1", None, True, 1j, 10**400])
def test_bad_amount_is_refused_and_named(unit, bad):
    with pytest.raises(PrivacyUnitError, match=r"(epsilon|rho|mu)=.* is not valid: expected a finite number"):
        unit(bad)


@pytest.mark.parametrize("bad", [0, 1, -1e-6, 2, math.nan, "x", None, True])
def test_bad_delta_is_refused_and_named(bad):
    with pytest.raises(PrivacyUnitError, match=r"delta=.*between 0 and 1"):
        ApproxDP(1.0, bad)


def test_numbers_of_any_kind_are_stored_as_float():
    for given_ in (1, np.int64(1), np.float32(1), Fraction(1), np.float64(1)):
        assert type(ZCDP(given_).rho) is float
        assert ZCDP(given_) == ZCDP(1.0)
    assert str(ZCDP(-0.0)) == "ZCDP(rho=0.0)"
    assert PureDP(0).is_zero
    assert not PureDP(5e-324).is_zero


def test_amounts_are_frozen_and_slotted():
    with pytest.raises(AttributeError):
        ZCDP(1.0).rho = 2.0
    assert not hasattr(ZCDP(1.0), "__dict__")


def test_sums_are_those_of_the_printed_decimals():
    assert PureDP(0.1) + PureDP(0.2) == PureDP(0.3)
    assert ZCDP(0.3) - ZCDP(0.1) - ZCDP(0.1) - ZCDP(0.1) == ZCDP(0)
    assert sum([ZCDP(0.1)] * 3) == ZCDP(0.3)
    assert GDP(3) + GDP(4) == GDP(5)
    assert GDP(0.5) - GDP(0.3) == GDP(0.4)
    assert ApproxDP(0.1, 1e-6) + ApproxDP(0.2, 2e-6) == ApproxDP(0.3, 3e-6)


def test_multiples_and_shares():
    assert ZCDP(0.3) / 3 == ZCDP(0.1)
    assert 3 * ZCDP(0.1) == ZCDP(0.1) * 3 == np.float64(3) * ZCDP(0.1) == ZCDP(0.3)
    assert GDP(1) / 4 == 0.25 * GDP(1) == GDP(0.5)
    assert ApproxDP(1, 1e-6) / 2 == ApproxDP(0.5, 5e-7)
    assert PureDP(1) * Fraction(1, 4) == PureDP(0.25)
    for bad in (0, -1, math.nan, math.inf):
        with pytest.raises(PrivacyUnitError, match="factor"):
            ZCDP(1) * bad
    for bad in ("2", True, None):
        with pytest.raises(TypeError):
            ZCDP(1) * bad


def test_below_zero_is_refused():
    with pytest.raises(PrivacyUnitError, match="below zero"):
        ZCDP(0.1) - ZCDP(0.2)
    with pytest.raises(PrivacyUnitError, match="below zero"):
        ApproxDP(1, 1e-6) - ApproxDP(0.5, 2e-6)


@given(amounts, st.integers(1, 50))
@pytest.mark.parametrize("unit", ONE_PARAMETER)
def test_shares_never_compose_to_more_than_the_whole(unit, whole, k):
    share = unit(whole) / k
    assert k * share.composable[0] <= unit(whole).composable[0]
    assert k * share.composable[0] >= unit(whole).composable[0] * (1 - Fraction(1, 10**14))


@given(amounts, amounts)
@pytest.mark.parametrize("unit", ONE_PARAMETER)
def test_sums_are_rounded_up_and_differences_down(unit, first, second):
    a, b = unit(first), unit(second)
    exact = a.composable[0] + b.composable[0]
    assert exact <= (a + b).composable[0] <= exact * (1 + Fraction(1, 10**14))
    low, high = (a, b) if a <= b else (b, a)
    left = high.composable[0] - low.composable[0]
    assert (high - low).composable[0] <= left


def test_order_within_a_unit_only():
    assert ZCDP(0.1) < ZCDP(0.2) <= ZCDP(0.2)
    assert ZCDP(0.3) > ZCDP(0.2) >= ZCDP(0.2)
    assert ApproxDP(1, 1e-6) < ApproxDP(1, 1e-5)
    one, other = ApproxDP(1, 1e-5), ApproxDP(2, 1e-6)
    assert not one <= other
    assert not other <= one
    for compare in (lambda a, b: a < b, lambda a, b: a >= b, lambda a, b: a + b, lambda a, b: a - b):
        with pytest.raises(PrivacyUnitError, match="one unit"):
            compare(ZCDP(0.1), PureDP(0.1))
    with pytest.raises(PrivacyUnitError, match="one unit"):
        assert ZCDP(0.1) < 1
    assert ZCDP(0.1) != PureDP(0.1)


def test_conversions_that_are_proved():
    assert PureDP(0.1).to(ZCDP) == ZCDP(0.005)
    assert PureDP(1.0).to(PureDP) == PureDP(1.0)
    assert PureDP(1.0).to(GDP).mu == pytest.approx(1.2320353846, rel=1e-8)
    assert PureDP(1.0).to_approx(1e-6) == ApproxDP(1.0, 1e-6)
    assert GDP(1.0).to_approx(1e-6).epsilon == pytest.approx(4.887, abs=5e-4)
    assert ApproxDP(1.0, 1e-6).to_approx(1e-5) == ApproxDP(1.0, 1e-5)
    assert ZCDP(0).to_approx(1e-6) == ApproxDP(0, 1e-6)
    assert GDP(0).epsilon_at(1e-6) == 0


@pytest.mark.parametrize(
    ("amount", "unit"),
    [(ZCDP(1), PureDP), (ZCDP(1), GDP), (GDP(1), PureDP), (GDP(1), ZCDP)]
    + [(ApproxDP(1, 1e-6), unit) for unit in ONE_PARAMETER],
)
def test_conversions_without_proof_are_refused(amount, unit):
    with pytest.raises(PrivacyUnitError, match=f"does not convert to {unit.__name__}"):
        amount.to(unit)


def test_approximate_conversions_need_a_delta_that_is_proved():
    with pytest.raises(PrivacyUnitError, match="to_approx"):
        ZCDP(1).to(ApproxDP)
    with pytest.raises(PrivacyUnitError, match="smaller"):
        ApproxDP(1, 1e-6).epsilon_at(1e-7)
    for amount in EXAMPLES:
        with pytest.raises(PrivacyUnitError, match="delta"):
            amount.epsilon_at(0)


def test_words():
    assert str(ZCDP(0.1)) == "ZCDP(rho=0.1)"
    assert ZCDP(0.1).describe() == "0.1-zCDP, which implies (2.15, 1e-06)-DP"
    assert GDP(1).describe(1e-6) == "1-GDP, which implies (4.89, 1e-06)-DP"
    assert PureDP(2).describe() == "2-DP (pure)"
    assert ApproxDP(1, 1e-6).describe() == "(1, 1e-06)-DP"


@given(st.floats(0, 1e300), st.floats(1e-300, 0.999))
def test_json_and_pickle_lose_nothing(value, delta):
    for amount in (PureDP(value), ZCDP(value), GDP(value), ApproxDP(value, delta)):
        assert privacy_from_dict(json.loads(json.dumps(amount.to_dict()))) == amount
        assert pickle.loads(pickle.dumps(amount)) == copy.deepcopy(amount) == amount
        assert hash(copy.copy(amount)) == hash(amount)


@pytest.mark.parametrize(
    "stored",
    [{}, {"unit": "RDP", "alpha": 2}, {"unit": "ZCDP"}, {"unit": "ZCDP", "mu": 1}, {"unit": "PureDP", "epsilon": "1"}],
)
def test_damaged_dictionaries_are_refused(stored):
    with pytest.raises(PrivacyUnitError):
        privacy_from_dict(stored)


@given(st.fractions(min_value=0, max_value=10**9))
def test_directed_rounding(value):
    assert decimal(float_below(value)) <= value <= decimal(float_above(value))
    assert decimal(sqrt_below(value)) ** 2 <= value <= decimal(sqrt_above(value)) ** 2
    assert float_above(value) - float_below(value) <= 2 * math.ulp(float(value))
    assert sqrt_above(value) - sqrt_below(value) <= 2 * math.ulp(math.sqrt(value))


def test_directed_rounding_at_the_ends_of_the_floats():
    tiny = Fraction(1, 10**700)
    assert sqrt_below(tiny) == float_below(tiny) == 0.0
    assert decimal(sqrt_above(tiny)) ** 2 >= tiny
    assert sqrt_above(Fraction(10) ** 600) == 1e300
    assert digits_below(0.12345678901239) == 0.123456789012
    for function in (float_above, float_below, sqrt_above):
        with pytest.raises(PrivacyUnitError, match="too large"):
            function(Fraction(10) ** 700)
    with pytest.raises(PrivacyUnitError):
        GDP(1e300) * 10**30


def gaussian_delta(epsilon, mu):
    return np.exp(log_gaussian_delta(epsilon, mu))


epsilons = st.floats(1e-6, 30)
deltas = st.floats(-60, -0.01).map(math.exp)
mus = st.floats(-14, 3).map(math.exp)


# log(delta) from the formula evaluated with 60 digits.
@pytest.mark.parametrize(
    ("epsilon", "mu", "expected"),
    [
        (1.0, 1.0, -2.0640664465003904),
        (1e-09, 1e-09, -23.208386862159053),
        (0.0001, 1e-05, -67.06599750110485),
        (0.5, 0.05, -58.299160958653545),
        (3.0, 0.5, -21.801807376715114),
        (30.0, 2.0, -103.65070257015462),
        (0.1, 5.0, -0.013139928616630126),
        (100.0, 50.0, 0.0),
        (1000.0, 20.0, -805.7077475452843),
    ],
)
def test_profile_against_long_arithmetic(epsilon, mu, expected):
    assert log_gaussian_delta(epsilon, mu) == pytest.approx(expected, abs=1e-11)


def test_profile_in_closed_form_at_zero():
    for mu in (1e-9, 0.01, 0.5, 0.6, 3.0):
        assert gaussian_delta(0.0, mu) == pytest.approx(erf(mu / math.sqrt(8)), rel=1e-13)


@pytest.mark.parametrize("mu", [0.05, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_gaussian_conversions_agree_with_dp_accounting(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    theirs = get_epsilon_gaussian(1 / mu, delta)
    assert epsilon == pytest.approx(theirs, rel=1e-7, abs=1e-9)
    if epsilon > 0:
        assert gaussian_mu(epsilon, delta) == pytest.approx(1 / get_sigma_gaussian(epsilon, delta), rel=1e-7)
        assert gaussian_mu(epsilon, delta) == pytest.approx(mu, rel=1e-7)


@given(mus, deltas)
def test_epsilon_of_gaussian_is_safe_and_tight(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    if epsilon > 0:
        assert gaussian_delta(epsilon * (1 - 1e-6), mu) > delta


@given(epsilons, deltas)
def test_mu_of_a_price_is_safe_and_tight(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assert gaussian_delta(epsilon, mu * (1 + 1e-6)) > delta
    assert len(repr(mu).split("e")[0].replace(".", "").strip("0")) <= 12


@given(st.floats(1e-6, 10), deltas)
def test_epsilon_of_zcdp_covers_the_gaussian(rho, delta):
    """The Gaussian mechanism is rho-zCDP, so that its exact epsilon cannot be larger."""
    assert zcdp_epsilon(rho, delta) >= gaussian_epsilon(math.sqrt(2 * rho), delta) * (1 - 1e-8)


@pytest.mark.parametrize("rho", [1e-6, 0.01, 0.1, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_epsilon_of_zcdp_is_the_minimum_over_orders(rho, delta):
    alpha = 1 + np.geomspace(1e-4, 1e8, 200_001)
    bound = alpha * rho + np.log1p(-1 / alpha) - np.log(delta * alpha) / (alpha - 1)
    epsilon = zcdp_epsilon(rho, delta)
    assert epsilon == pytest.approx(max(bound.min(), 0.0), rel=2e-7)
    assert epsilon >= max(bound.min(), 0.0) * (1 - 1e-8)


def test_epsilon_of_zcdp_against_the_renyi_accountant():
    """At its integer and half orders the accountant of dp-accounting can only be a little worse."""
    from dp_accounting import GaussianDpEvent

    for rho in (0.05, 0.5):
        accountant = RdpAccountant()
        accountant.compose(GaussianDpEvent(1 / math.sqrt(2 * rho)))
        theirs = accountant.get_epsilon(1e-6)
        assert zcdp_epsilon(rho, 1e-6) <= theirs * (1 + 1e-8)
        assert zcdp_epsilon(rho, 1e-6) >= 0.98 * theirs


@given(st.floats(1e-6, 40), st.floats(0, 1))
def test_mu_of_pure_covers_randomised_response(epsilon, share):
    """Randomised response is the worst pure mechanism; its delta at every smaller epsilon is covered."""
    smaller = share * epsilon
    delta = (math.expm1(epsilon) - math.expm1(smaller)) / (1 + math.exp(epsilon))
    assert gaussian_delta(smaller, pure_mu(epsilon)) >= delta * (1 - 1e-12)


@given(st.floats(1e-9, 30))
def test_mu_of_pure_is_the_closed_form_rounded_up(epsilon):
    mu = pure_mu(epsilon)
    assert ndtr(-mu / 2) == pytest.approx(1 / (1 + math.exp(epsilon)), rel=1e-6)
    assert ndtr(-mu / 2) <= 1 / (1 + math.exp(epsilon)) + 1e-16


@given(st.floats(1e-3, 20), st.floats(1.001, 100))
def test_half_epsilon_squared_covers_randomised_response(epsilon, alpha):
    p = 1 / (1 + math.exp(-epsilon))
    log_terms = [alpha * math.log(p) + (1 - alpha) * math.log1p(-p), alpha * math.log1p(-p) + (1 - alpha) * math.log(p)]
    divergence = np.logaddexp(*log_terms) / (alpha - 1)
    assert divergence <= alpha * epsilon**2 / 2 * (1 + 1e-9)


@pytest.mark.parametrize("value", [0.0, 5e-324, 1e-200, 1e-12, 1e10, 1e200, 1e308])
def test_extreme_amounts_give_numbers(value):
    for delta in (1e-300, 1e-6, 0.999999):
        assert gaussian_epsilon(value, delta) >= 0
        assert 0 <= gaussian_mu(value, delta) < math.inf
        assert zcdp_epsilon(value, delta) >= 0
    assert 0 <= pure_mu(value) < math.inf


# Exact decimals and directed rounding, by hand


def test_a_float_is_the_decimal_that_it_prints_as_or_its_binary_value():
    assert decimal(0.1) == Fraction(1, 10)
    assert binary(0.5) == Fraction(1, 2)
    assert binary(0.1) != decimal(0.1)


def test_digits_are_cut_toward_zero():
    assert digits_below(2 / 3, 3) == 0.666
    assert digits_below(2 / 3) <= 2 / 3


def test_floats_next_to_a_fraction():
    third = Fraction(1, 3)
    assert decimal(float_below(third)) < third < decimal(float_above(third))
    assert float_below(Fraction(1, 10)) == float_above(Fraction(1, 10)) == 0.1


def test_stored_fractions():
    assert fraction_of("1/4") == Fraction(1, 4)
    for text in ("1e9", "-1", "1/-4", 3, None):
        with pytest.raises(ValueError, match="stored"):
            fraction_of(text)


def test_amounts_and_costs_by_hand():
    assert privacy_from_dict({"unit": "ZCDP", "rho": 0.1}) == ZCDP(0.1)
    with pytest.raises(PrivacyUnitError):
        privacy_from_dict({"unit": "ZCDP", "epsilon": 0.1})
    selection = Cost(PureDP(1.0), pure_epsilon=Fraction(1), rho=Fraction(1, 8))
    assert selection.describe() == "1-DP (pure); also 0.125-zCDP"
    assert float(choice_epsilon(ZCDP(0.125), "gumbel")) == pytest.approx(1.0, abs=1e-9)
