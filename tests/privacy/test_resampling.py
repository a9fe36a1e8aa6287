"""Sums under secret random weights: their exact cost, without trusting the library that composes it."""

import itertools
import re
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, special, stats

from dpinfer.errors import NotProvedError, OptionError, PrivacyUnitError
from dpinfer.privacy import resampling
from dpinfer.privacy.accounting import RESERVED, gaussian_amount
from dpinfer.privacy.exact import decimal
from dpinfer.privacy.resampling import (
    ASYMPTOTIC,
    DOUBLE_OR_NOTHING,
    FAILURE,
    LARGEST_MU,
    POISSON,
    composed,
    composed_epsilon,
    cost_of,
    dominating_mu,
    noise_mu,
    resampled_cost,
)
from dpinfer.privacy.units import GDP, ZCDP, ApproxDP, PureDP, gaussian_epsilon, log_gaussian_delta, zcdp_epsilon

LAWS = {"double_or_nothing": DOUBLE_OR_NOTHING, "poisson": POISSON}


def gaussian_delta(epsilon, mu):
    return np.exp(log_gaussian_delta(epsilon, mu))


def held(law):
    """Weights that occur and their probabilities, by hand."""
    return np.array([(w, p) for w, p in enumerate(law.probabilities) if p > 0]).T


def losses(law, noise, sums):
    """Log-likelihood ratio of a unit that is there against one that is not; noise in multiples of the sensitivity."""
    weights, chances = held(law)
    exponents = (sums[..., None] * weights - 0.5 * weights**2) / noise**2 + np.log(chances)
    return np.logaddexp.reduce(exponents, axis=-1)


# The weights


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_weights_have_mean_one_exactly_and_variance_nearly(law):
    counts = [Fraction(count, law.total) for count in law.counts]
    assert sum(counts) == 1
    assert min(counts) >= 0
    assert sum(weight * p for weight, p in enumerate(counts)) == 1
    assert law.total & (law.total - 1) == 0
    assert law.variance == pytest.approx(float(sum((weight - 1) ** 2 * p for weight, p in enumerate(counts))))
    assert law.variance == pytest.approx(1.0, abs=4e-3)


def test_poisson_weights_are_poisson_but_for_the_cut():
    np.testing.assert_allclose(POISSON.probabilities, stats.poisson(1).pmf(np.arange(7)), atol=7e-4)
    assert stats.poisson(1).sf(6) < 1e-4
    assert DOUBLE_OR_NOTHING.probabilities == (0.5, 0.0, 0.5)


# Published numbers


@pytest.mark.parametrize(
    ("replicates", "epsilon", "digits"), [(10, 6.16, 2), (50, 5.157, 3), (200, 4.954, 3), (1000, 4.900, 3)]
)
def test_published_epsilons(replicates, epsilon, digits):
    found = composed_epsilon(DOUBLE_OR_NOTHING, 1.0, replicates, 1e-6)
    assert round(found, digits) == epsilon
    assert found > gaussian_epsilon(1.0, 1e-6) == pytest.approx(4.887, abs=1e-3)


@pytest.mark.parametrize(("replicates", "least", "most"), [(50, 1.054, 1.059), (200, 1.013, 1.015)])
def test_published_amounts_of_the_ledger(replicates, least, most):
    assert least <= dominating_mu(DOUBLE_OR_NOTHING, 1.0, replicates) <= most


def test_cost_falls_towards_that_of_one_release_as_replicates_grow():
    found = [dominating_mu(DOUBLE_OR_NOTHING, 1.0, replicates) for replicates in (10, 50, 200, 1000)]
    assert all(later < earlier for earlier, later in itertools.pairwise(found))
    assert 1 < found[-1] < 1.003
    assert found[0] < ASYMPTOTIC * 1.5
    assert pytest.approx(np.sqrt(2 - 2 / np.e), rel=1e-15) == ASYMPTOTIC


# The claim that B releases of resampled rows at rho/B each are rho-zCDP is false


def delta_between(replicates, epsilon, cell=1e-3):
    """Bound delta of double-or-nothing sums at mu = 1 from below and above, by numpy alone.

    The loss of one sum is cut down, or up, to multiples of ``cell``; what happens beyond twelve noise scales is left
    out below and counted in full above. Cut losses add by a convolution.
    """
    variance = float(replicates)
    first, last = np.floor(np.log(0.5) / cell), np.ceil((24 * np.sqrt(variance) + 4) / variance / cell)
    edges = np.arange(first, last + 1) * cell
    with np.errstate(invalid="ignore", divide="ignore"):
        x = np.where(edges > np.log(0.5), 0.5 * variance * np.log(2 * np.exp(edges) - 1) + 1, -np.inf)
    below = 0.5 * (stats.norm.cdf(x / np.sqrt(variance)) + stats.norm.cdf((x - 2) / np.sqrt(variance)))
    masses, size = np.diff(below), replicates * (len(edges) - 2) + 1
    length = 1 << int(np.ceil(np.log2(size)))
    total = np.maximum(np.fft.irfft(np.fft.rfft(masses, length) ** replicates, length)[:size], 0.0)
    start = replicates * edges[0] + cell * np.arange(size)
    lower = (total * -np.expm1(np.minimum(epsilon - start, 0.0))).sum()
    upper = (total * -np.expm1(np.minimum(epsilon - start - replicates * cell, 0.0))).sum()
    return lower - 1e-13, upper + replicates * (1 - below[-1]) + 1e-13


@pytest.mark.parametrize("replicates", [2, 10, 50])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0])
def test_exact_delta_lies_between_bounds_that_numpy_finds(replicates, epsilon):
    lower, upper = delta_between(replicates, epsilon)
    assert lower < composed(DOUBLE_OR_NOTHING, 1.0, replicates).get_delta_for_epsilon(epsilon) < upper
    assert upper < 1.3 * lower


def test_resampled_releases_at_a_share_each_are_not_of_the_claimed_cost():
    """Ten sums at rho = .05 each would be .5-zCDP: hence (5.22, 1e-6)-DP, which they are not."""
    claimed = zcdp_epsilon(0.5, 1e-6)
    lower, _ = delta_between(10, claimed)
    assert lower > 4e-6
    assert composed_epsilon(DOUBLE_OR_NOTHING, 1.0, 10, 1e-6) > claimed + 0.5
    lower, _ = delta_between(50, gaussian_epsilon(1.0, 1e-6))
    assert lower > 2e-6


def renyi_over_claim(weights, chances, rho, order):
    """Renyi divergence of one draw over ``rho order``, which it would be without resampling; by quadrature."""
    noise = np.sqrt(0.5 / rho)
    x = np.linspace(-12 * noise, order * weights.max() + 12 * noise, 40_001)
    ratio = special.logsumexp((x[:, None] * weights - 0.5 * weights**2) / noise**2 + np.log(chances), axis=1)
    logs = order * ratio + stats.norm.logpdf(x, scale=noise)
    return (special.logsumexp(logs) + np.log(x[1] - x[0])) / (order - 1) / (rho * order)


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_the_divergence_of_one_resampled_release_tends_to_the_square_of_the_most_copies(rows):
    """So many rows drawn with replacement: one of them is drawn up to so many times.

    Of rho = .5, fifty releases at a share of .01 each; the divergences of releases add.
    """
    copies = np.arange(rows + 1)
    chances = stats.binom(rows, 1 / rows).pmf(copies)
    weights, chances = copies[chances > 0].astype(float), chances[chances > 0]
    orders = (2.0, 10.0, 100.0, 1000.0, 10_000.0)
    found = [renyi_over_claim(weights, chances, 0.01, order) for order in orders]
    assert max(found) <= rows**2 * (1 + 1e-9)
    assert found[-1] > 0.98 * rows**2
    if rows == 1:
        np.testing.assert_allclose(found, 1.0, rtol=1e-9)
    else:
        assert all(later > earlier for earlier, later in itertools.pairwise(found))
        assert found[0] > 1


def test_the_divergence_of_double_or_nothing_sums_is_four_times_the_claim():
    weights, chances = held(DOUBLE_OR_NOTHING)
    assert 3.9 < renyi_over_claim(weights, chances, 0.01, 10_000.0) < 4
    assert renyi_over_claim(weights, chances, 0.01, 100.0) > 2


# The composed cost against other ways to compute it


def single_deltas(law, noise, epsilon):
    """Delta of one sum of which a unit is removed, and to which it is added: the loss rises with the sum."""
    weights, chances = held(law)

    def crossing(value):
        if value <= np.log(chances[0]) * (weights[0] == 0):
            return -np.inf
        return optimize.brentq(lambda x: losses(law, noise, np.array(x)) - value, -1e3 * noise, 1e3 * noise, xtol=1e-12)

    x, y = crossing(epsilon), crossing(-epsilon)
    removed = chances @ stats.norm.sf((x - weights) / noise) - np.exp(epsilon) * stats.norm.sf(x / noise)
    added = stats.norm.cdf(y / noise) - np.exp(epsilon) * (chances @ stats.norm.cdf((y - weights) / noise))
    return removed, added


@pytest.mark.parametrize(
    ("law", "mu"),
    [*((DOUBLE_OR_NOTHING, mu) for mu in (0.2, 1.0, 3.0)), (POISSON, 0.1)],
    ids=["small", "one", "large", "poisson"],
)
def test_one_sum_costs_what_its_two_distributions_say(law, mu):
    loss = composed(law, mu, 1)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 3.0, 7.0):
        exact = max(single_deltas(law, 1 / mu, epsilon))
        found = loss.get_delta_for_epsilon(epsilon)
        assert exact - 1e-12 <= found <= exact * (1 + 1e-3) + 1e-9


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_deltas_by_crossings_are_those_of_quadrature(law, mu):
    """For the reference itself: the integral of the positive part of a difference of densities."""
    noise = 1 / mu
    weights, chances = held(law)
    x = np.linspace(-14 * noise, 14 * noise + 6, 400_001)
    there = stats.norm.pdf(x[:, None] - weights, scale=noise) @ chances
    absent = stats.norm.pdf(x, scale=noise)
    for epsilon in (0.1, 0.6, 2.0):
        pairs = ((there, absent), (absent, there))
        integrals = [np.maximum(p - np.exp(epsilon) * q, 0).sum() * (x[1] - x[0]) for p, q in pairs]
        np.testing.assert_allclose(single_deltas(law, noise, epsilon), integrals, atol=1e-8)


@pytest.mark.parametrize(
    ("law", "mu", "replicates", "draws"),
    [
        (DOUBLE_OR_NOTHING, 1.0, 2, 300_000),
        (DOUBLE_OR_NOTHING, 1.0, 10, 150_000),
        (DOUBLE_OR_NOTHING, 2.0, 50, 40_000),
        (POISSON, 1.0, 50, 12_000),
    ],
    ids=["two", "ten", "fifty", "poisson"],
)
def test_composed_delta_agrees_with_simulated_likelihood_ratios(law, mu, replicates, draws):
    """In both directions; each comparison fails for a right delta with probability 6e-5, and is seeded."""
    rng = np.random.default_rng(31)
    noise = np.sqrt(replicates) / mu
    weights, chances = held(law)
    absent = noise * rng.normal(size=(draws, replicates))
    there = absent + weights[rng.choice(len(weights), p=chances, size=absent.shape)]
    removed, added = (losses(law, noise, sums).sum(axis=1) for sums in (there, absent))
    composed_loss = composed(law, mu, replicates)
    for epsilon in (0.3, 0.6, 1.0, 1.5, 2.5):
        parts = [-np.expm1(np.minimum(epsilon - loss, 0)) for loss in (removed, -added)]
        means = np.array([part.mean() for part in parts])
        errors = np.array([part.std() for part in parts]) / np.sqrt(draws)
        found = composed_loss.get_delta_for_epsilon(epsilon)
        assert (means - 4 * errors < found).all()
        larger = means.argmax()
        assert found < means[larger] + 4 * errors[larger]


def test_simulated_likelihood_ratios_tell_costs_apart():
    """The comparison above notices three hundredths of mu."""
    rng = np.random.default_rng(32)
    absent = np.sqrt(10) * rng.normal(size=(200_000, 10))
    loss = losses(DOUBLE_OR_NOTHING, np.sqrt(10), absent + 2 * rng.integers(0, 2, size=absent.shape)).sum(axis=1)
    part = -np.expm1(np.minimum(1.0 - loss, 0))
    error = part.std() / np.sqrt(len(part))
    assert composed(DOUBLE_OR_NOTHING, 0.97, 10).get_delta_for_epsilon(1.0) < part.mean() - 4 * error


# The Gaussian that takes its place in a ledger

DOMINATED = {
    "fifty": (DOUBLE_OR_NOTHING, 1.0, 50, FAILURE),
    "ten": (DOUBLE_OR_NOTHING, 0.3, 10, FAILURE),
    "four": (DOUBLE_OR_NOTHING, 0.05, 4, 1e-12),
    "large": (DOUBLE_OR_NOTHING, 2.0, 50, 1e-6),
    "poisson": (POISSON, 1.0, 50, FAILURE),
}


@pytest.mark.parametrize("case", DOMINATED.values(), ids=DOMINATED)
def test_a_gaussian_of_that_mu_reveals_as_much_and_of_hardly_less_does_not(case):
    """Compared between the points where the calibration compares, and beyond the last of them."""
    law, mu, replicates, failure = case
    loss, found = composed(law, mu, replicates), dominating_mu(*case)
    assert found > mu
    top = float(loss.get_epsilon_for_delta(failure / 2))
    epsilon = np.sort(np.concatenate([np.linspace(0, 1.2 * top, 12_011), np.geomspace(1e-7, 0.1 * top, 300)]))
    exact = np.asarray(loss.get_delta_for_epsilon(epsilon))

    def excess(candidate):
        upper, lower = (stats.norm.cdf(shift * candidate / 2 - epsilon / candidate) for shift in (1, -1))
        gaussian = upper - np.exp(epsilon) * lower
        assert gaussian[1000] == pytest.approx(gaussian_delta(float(epsilon[1000]), candidate), rel=1e-9)
        return (exact - failure - (1 - failure) * gaussian).max()

    assert excess(found) <= 1e-15
    assert excess(0.999 * found) > 1e-14


def test_the_less_is_set_aside_the_more_it_costs():
    found = [dominating_mu(DOUBLE_OR_NOTHING, 1.0, 50, failure) for failure in (1e-12, 1e-10, 1e-6)]
    assert found[0] > found[1] > found[2] > 1


@pytest.mark.parametrize(("target", "replicates"), [(0.2, 20), (1.0, 50)])
def test_calibration_inverts_the_cost(target, replicates):
    mu = noise_mu(DOUBLE_OR_NOTHING, target, replicates)
    assert mu < target
    attained = dominating_mu(DOUBLE_OR_NOTHING, mu, replicates)
    assert target * (1 - 2e-5) <= attained <= target
    assert decimal(mu) == Fraction(f"{mu:.12g}")


@pytest.mark.parametrize("target", [0.3, 0.5, 1.0])
def test_rounding_errors_of_a_machine_do_not_reach_the_noise(target, monkeypatch):
    found = set()
    for error in (1.9e-14, 2e-14, 2.1e-14):  # as far apart as convolutions are between machines; .7 is at an edge
        monkeypatch.setattr(resampling, "_ERROR", error)
        noise_mu.cache_clear()
        dominating_mu.cache_clear()
        found.add(noise_mu(DOUBLE_OR_NOTHING, target, 50))
    noise_mu.cache_clear()
    dominating_mu.cache_clear()
    assert len(found) == 1


def test_prices_beyond_the_largest_are_refused():
    for ask in (noise_mu, lambda law, target, count: resampled_cost(law, GDP(target), count)):
        with pytest.raises(PrivacyUnitError, match=r"mu=5\.1 is too large: .* computed up to mu=5"):
            ask(DOUBLE_OR_NOTHING, 5.1, 1000)
    assert LARGEST_MU == 5


def test_too_few_replicates_are_refused_with_what_they_would_reveal():
    with pytest.raises(OptionError, match=r"replicates=2 .*so few secret weights reveal") as caught:
        noise_mu(DOUBLE_OR_NOTHING, 1.0, 2)
    said = float(re.search(r"reveal ([0-9.]+) times", str(caught.value))[1])
    assert 1.5 * ASYMPTOTIC < said < 2
    assert (caught.value.option, caught.value.given) == ("replicates", 2)


# Prices


def test_a_price_buys_noise_and_sets_a_probability_aside():
    assert resampled_cost(DOUBLE_OR_NOTHING, GDP(1.0), 50) == (noise_mu(DOUBLE_OR_NOTHING, 1.0, 50), FAILURE)
    price = ApproxDP(1.0, 1e-8)
    mu, failure = resampled_cost(DOUBLE_OR_NOTHING, price, 50)
    assert failure == pytest.approx(1e-8 * float(RESERVED) / 10, rel=1e-12)
    assert mu == noise_mu(DOUBLE_OR_NOTHING, gaussian_amount(price).mu, 50, failure)
    assert composed(DOUBLE_OR_NOTHING, mu, 50).get_delta_for_epsilon(1.0) <= 1e-8
    assert resampled_cost(DOUBLE_OR_NOTHING, ApproxDP(1.0, 1e-3), 50)[1] == FAILURE


def test_deltas_that_cannot_be_resolved_are_refused():
    assert resampled_cost(DOUBLE_OR_NOTHING, ApproxDP(1.0, 1e-9), 50)[1] == pytest.approx(4e-13, rel=1e-12)
    for delta in (1e-10, 1e-12, 1e-15):
        with pytest.raises(PrivacyUnitError, match=r"a delta of at least 1e-09, not ApproxDP"):
            resampled_cost(DOUBLE_OR_NOTHING, ApproxDP(1.0, delta), 50)


def test_prices_that_buy_nothing_are_refused():
    for price in (GDP(0), ApproxDP(0, 1e-6)):
        with pytest.raises(PrivacyUnitError, match="above zero"):
            resampled_cost(DOUBLE_OR_NOTHING, price, 50)
    with pytest.raises(NotProvedError, match="Gaussian"):
        resampled_cost(DOUBLE_OR_NOTHING, PureDP(1), 50)


def test_the_cost_is_stated_in_gaussian_dp_and_in_no_other_unit():
    tau = Fraction(1, 10**15)
    cost = cost_of(GDP(0.5), tau=tau, failure=1e-10)
    assert (cost.mu_squared, cost.tau, cost.delta0) == (Fraction(1, 4), tau, Fraction(1e-10))
    assert (cost.rho, cost.pure_epsilon, cost.approx) == (None, None, None)
    price = ApproxDP(1.0, 1e-6)
    cost = cost_of(price, tau=tau, failure=1e-10)
    assert cost.approx == price
    assert cost.mu_squared == gaussian_amount(price).composable[0]
    total = float(cost.delta0) + gaussian_delta(1.0, cost.mu) + (1 + np.e) * float(tau)
    assert total <= 1e-6
    assert cost_of(GDP(1), tau=tau, failure=0.0).rho is None
    assert not isinstance(cost.price, ZCDP)
