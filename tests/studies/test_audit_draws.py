"""Lower bounds from counts: they are below the truth, and near enough to it."""

import numpy as np
import pytest
from scipy import special, stats

from dpinfer.studies.audit_draws import Event, chosen_event, trade_off, upper_share

LEVEL = 1e-6


def gaussian(mu, runs, seed, scale=1.0):
    """Log likelihood ratios of idealised Gaussian draws of two neighbours."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(0, scale, (2, runs))
    return mu * (noise[0] + mu) - mu**2 / 2, mu * noise[1] - mu**2 / 2


def laplace(epsilon, runs, seed):
    rng = np.random.default_rng(seed)
    noise = rng.laplace(0, 1, (2, runs)) + np.array([[epsilon], [0.0]])
    ratio = np.abs(noise) - np.abs(noise - epsilon)
    return ratio[0], ratio[1]


def test_clopper_pearson_against_binomial_tails():
    found = float(upper_share(7, 200, 0.01))
    assert stats.binom.cdf(7, 200, found) == pytest.approx(0.01, rel=1e-9)
    assert float(upper_share(200, 200, 0.01)) == 1.0


@pytest.mark.parametrize("mu", [0.5, 1.0, 3.0])
def test_mu_of_idealised_draws_is_below_the_truth_and_most_of_it(mu):
    """Above the truth with probability below 1e-6 each."""
    first, second = gaussian(mu, 100_000, 1)
    found = chosen_event(first, second, "mu").lower("mu", LEVEL)
    assert found <= mu
    assert found >= 0.8 * mu


def test_what_a_number_of_runs_tells_of_mu_one():
    shares = [chosen_event(*gaussian(1.0, runs, 2), "mu").lower("mu", 1e-4) for runs in (20_000, 200_000)]
    assert 0.85 <= shares[0] <= 1
    assert 0.95 <= shares[1] <= 1


def test_noise_that_is_too_small_is_caught_at_mu_three():
    """At noise times .8 mu is 3.75: missed with probability below 1e-6."""
    rng = np.random.default_rng(3)
    noise = 0.8 * rng.normal(size=(2, 20_000))
    event = chosen_event(3 * (noise[0] + 3), 3 * noise[1], "mu")
    assert event.lower("mu", 1e-5) > 3


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_epsilon_of_laplace_draws(epsilon):
    """Above the truth with probability below 1e-6 each."""
    first, second = laplace(epsilon, 100_000, 4)
    found = chosen_event(first, second, "epsilon").lower("epsilon", LEVEL)
    assert 0.75 * epsilon <= found <= epsilon


def test_the_bound_of_a_perfect_test_is_that_of_its_runs():
    event = Event(0.0, 1000, 1000, 0, 1000)
    rate = float(upper_share(0, 1000, LEVEL / 2))
    assert event.lower("mu", LEVEL) == pytest.approx(-2 * special.ndtri(rate))
    assert event.lower("epsilon", LEVEL) == pytest.approx(np.log((1 - rate) / rate))


def test_nothing_to_be_told_apart_bounds_nothing():
    """Wrong with probability below 1e-6."""
    draws = np.random.default_rng(5).normal(size=(2, 5000))
    assert chosen_event(draws[0], draws[1], "mu").lower("mu", LEVEL) == 0.0
    assert chosen_event(draws[0], draws[1], "epsilon").lower("epsilon", LEVEL) == 0.0


def test_thresholds_are_tested_on_runs_that_did_not_choose_them():
    first, second = gaussian(1.0, 1000, 6)
    event = chosen_event(first, second, "mu")
    assert (event.of, event.other_of) == (500, 500)
    assert event.met == int((first[500:] > event.threshold).sum())
    assert event.other_met == int((second[500:] > event.threshold).sum())


def test_the_measured_trade_off_is_near_the_stated_one():
    curve = trade_off(*gaussian(1.0, 100_000, 7), "mu", 1.0)
    assert np.abs(curve["missed"] - curve["missed, stated"]).max() < 0.01
    pure = trade_off(*laplace(1.0, 100_000, 8), "epsilon", 1.0)
    assert (pure["missed"] >= pure["missed, stated"] - 0.01).all()
