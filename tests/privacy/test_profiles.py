"""Conversions: against dp-accounting, closed forms, reference values, and safe in their direction."""

import math

import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian, get_sigma_gaussian
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erf, ndtr

from dpinfer.privacy.units import gaussian_epsilon, gaussian_mu, log_gaussian_delta, pure_mu, zcdp_epsilon


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


def test_one_shot_of_the_bootstrap_table():
    assert gaussian_epsilon(1.0, 1e-6) == pytest.approx(4.887, abs=5e-4)


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
    log_terms = [
        alpha * math.log(p) + (1 - alpha) * math.log1p(-p),
        alpha * math.log1p(-p) + (1 - alpha) * math.log(p),
    ]
    divergence = np.logaddexp(*log_terms) / (alpha - 1)
    assert divergence <= alpha * epsilon**2 / 2 * (1 + 1e-9)


@pytest.mark.parametrize("value", [0.0, 5e-324, 1e-200, 1e-12, 1e10, 1e200, 1e308])
def test_extreme_amounts_give_numbers(value):
    for delta in (1e-300, 1e-6, 0.999999):
        assert gaussian_epsilon(value, delta) >= 0
        assert 0 <= gaussian_mu(value, delta) < math.inf
        assert zcdp_epsilon(value, delta) >= 0
    assert 0 <= pure_mu(value) < math.inf
