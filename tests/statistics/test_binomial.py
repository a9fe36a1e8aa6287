import numpy as np
import pytest
from scipy import special, stats

from dpinfer.statistics.tails import binomial_pmf, binomial_sf, discounted_tail


def shaped(*values):
    return [np.array([float(value)]) for value in values]


@pytest.mark.parametrize("p", [0.0, 1e-12, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("n", [0, 1, 40])
def test_probabilities_equal_scipy_and_hold_outside_the_range(n, p):
    count = np.arange(-3.0, n + 4)
    arrays = (count, np.full(count.shape, float(n)), np.full(count.shape, p), np.full(count.shape, 1 - p))
    np.testing.assert_allclose(binomial_pmf(*arrays), stats.binom.pmf(count, n, p), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(binomial_sf(*arrays), stats.binom.sf(count, n, p), rtol=1e-12, atol=1e-300)


def test_a_probability_next_to_one_is_as_precise_as_its_complement():
    tiny = 1e-25
    none_failed = binomial_sf(*shaped(99, 100, 1.0, tiny))
    assert none_failed[0] == 1
    assert binomial_pmf(*shaped(99, 100, 1.0, tiny))[0] == pytest.approx(100 * tiny, rel=1e-12)


@pytest.mark.parametrize("rate", [1e-4, 0.3, 5.0, 690.0])
@pytest.mark.parametrize("p", [1e-6, 0.2, 0.5, 0.99])
@pytest.mark.parametrize("n", [1, 50, 20_000])
def test_discounted_tail_equals_its_sum(n, p, rate):
    """The sum is taken on the logarithm, so that it reaches into the branch of the continued fraction."""
    spread = max(np.sqrt(n * p * (1 - p)), 1)
    for count in np.unique(np.rint(n * p + spread * np.array([-25, -4, 0, 3, 15]))):
        i = np.arange(max(1, -count), max(n - count, 0) + 1)
        terms = stats.binom.logpmf(count + i, n, p) - rate * i
        expected = special.logsumexp(terms) if i.size else -np.inf
        found = discounted_tail(*shaped(count, n, p, 1 - p, rate))[0]
        if expected > -680:
            assert found == pytest.approx(np.exp(expected), rel=1e-9)
        else:
            assert found <= 1e-295


def test_both_branches_of_the_discounted_tail_agree_where_they_meet():
    n, p, count = 10**6, 0.2, 200_000.0
    rates = np.linspace(0.05, 0.12, 200)
    same = (np.full(rates.shape, value) for value in (count, float(n), p, 1 - p))
    found = discounted_tail(*same, rates)
    steps = np.diff(np.log(found))
    assert np.all(steps < 0)
    assert np.max(np.abs(np.diff(steps, 2))) < 1e-5
