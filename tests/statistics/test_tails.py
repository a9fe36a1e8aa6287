"""Tails of sums of normal and Laplace variables, and of binomial counts."""

import numpy as np
import pytest
from scipy import special, stats

from dpinfer.statistics.tails import (
    binomial_pmf,
    binomial_sf,
    discounted_tail,
    joint_pvalue,
    laplace_sum_isf,
    laplace_sum_sf,
    pvalue_of,
    widened,
    widened_pvalue,
)


def test_one_laplace_variable_has_exponential_tails():
    x = np.array([0.0, 0.5, 1.0, 1.96, 3.0, 5.0])
    np.testing.assert_allclose(laplace_sum_sf(x, np.array([1.0])), np.exp(-np.sqrt(2) * x), atol=3e-5)


def test_no_laplace_share_is_normal():
    x = np.array([0.3, 1.0, 1.96, 3.0, 4.5])
    np.testing.assert_allclose(laplace_sum_sf(x, np.array([0.0])), 2 * stats.norm.sf(x), atol=1e-9)


def test_mixture_agrees_with_simulation():
    rng = np.random.default_rng(5)
    shares = np.array([0.4, 0.3, 0.1])
    draws = (rng.laplace(size=(400_000, 3)) / np.sqrt(2) * np.sqrt(shares)).sum(axis=1)
    draws += rng.normal(size=400_000) * np.sqrt(0.2)
    for x in (0.7, 1.96, 3.0):
        expected = float(laplace_sum_sf(np.array(x), shares))
        error = np.sqrt(expected * (1 - expected) / 400_000)
        assert abs(np.mean(np.abs(draws) >= x) - expected) < 6 * error  # false alarm 2e-9 each


@pytest.mark.parametrize("alpha", [0.2, 0.05, 0.01, 0.001])
def test_critical_value_inverts_the_tail(alpha):
    shares = np.array([[0.9, 0.05], [0.2, 0.2], [0.0, 0.0]])
    x = laplace_sum_isf(alpha, shares)
    np.testing.assert_allclose(laplace_sum_sf(x, shares), alpha, rtol=1e-3, atol=2e-6)


def test_many_laplace_variables_are_nearly_normal_and_those_without_variance_change_nothing():
    few = np.array([0.3, 0.2])
    many = np.concatenate([few, np.full(400, 1e-15)])
    at = np.array([0.5, 2.0, 4.0])
    np.testing.assert_allclose(laplace_sum_sf(at, many), laplace_sum_sf(at, few), rtol=1e-9)
    np.testing.assert_allclose(laplace_sum_sf(at[:2], np.full(600, 1 / 600)), 2 * stats.norm.sf(at[:2]), rtol=0.02)


def test_far_tail_is_an_upper_bound_and_decreases():
    x = np.array([8.0, 12.0, 20.0])
    for shares in (np.array([1.0]), np.array([0.5, 0.2]), np.array([1e-9])):
        tail = laplace_sum_sf(x, shares)
        assert np.all(np.diff(tail) < 0)
        assert np.all(tail >= 2 * stats.norm.sf(x) * 0.999)
    assert np.all(laplace_sum_sf(x, np.array([1.0])) >= np.exp(-np.sqrt(2) * x))


@pytest.mark.parametrize("df", [None, 100.0, 20_000.0])
def test_no_p_value_with_laplace_noise_is_zero(df):
    """A Student's p-value that is rounded to 0 says nothing of Laplace variables, which have heavier tails."""
    distance, shares = np.array([20.0, 39.4, 60.0, 500.0]), np.array([[0.4, 0.3]])
    found = pvalue_of(distance, df, shares)
    assert (np.diff(found) <= 0).all()
    assert (found[:3] >= np.minimum(laplace_sum_sf(distance[:3], shares), 1e-24)).all()


def test_a_joint_test_without_laplace_variables_is_f_or_chi_squared():
    assert joint_pvalue(7.0, 3, 12.0) == pytest.approx(stats.f.sf(7 / 3, 3, 12))
    assert joint_pvalue(7.0, 3) == pytest.approx(stats.chi2.sf(7, 3))
    assert joint_pvalue(7.0, 3, 12.0, np.zeros((3, 2))) == pytest.approx(stats.f.sf(7 / 3, 3, 12))
    assert joint_pvalue(7.0, 3, 12.0, noncentrality=2.0) == pytest.approx(stats.ncf.sf(7 / 3, 3, 12, 2))
    assert joint_pvalue(7.0, 3, noncentrality=2.0) == pytest.approx(stats.ncx2.sf(7, 3, 2))


@pytest.mark.parametrize("shares", [[1.0], [0.5, 0.3], [0.05] * 20])
@pytest.mark.parametrize("distance", [0.5, 1.96, 3.0, 5.0])
def test_a_joint_test_of_one_restriction_is_that_of_the_sum(shares, distance):
    found = joint_pvalue(distance**2, 1, np.inf, np.sqrt([shares]))
    assert found == pytest.approx(float(laplace_sum_sf(np.array(distance), np.array(shares))), rel=0.1)


def test_a_joint_test_counts_the_law_of_each_variable():
    rng, loadings = np.random.default_rng(3), np.array([[0.9, 0.0, 0.3], [0.0, 0.6, -0.5]])
    rest = np.linalg.cholesky(np.eye(2) - loadings @ loadings.T)
    drawn = rng.laplace(scale=0.5**0.5, size=(400_000, 3)) @ loadings.T + rng.normal(size=(400_000, 2)) @ rest.T
    lengths = (drawn**2).sum(axis=1) / (rng.chisquare(30, len(drawn)) / 30)
    for statistic in (1.0, 6.0, 12.0):
        assert joint_pvalue(statistic, 2, 30.0, loadings) == pytest.approx(np.mean(lengths >= statistic), rel=0.06)


def test_a_joint_test_with_laplace_variables_is_never_zero_and_falls():
    found = [joint_pvalue(float(s), 2, np.inf, np.eye(2)) for s in (1, 10, 50, 200, 1000)]
    assert (np.diff(found) < 0).all()
    assert found[-1] > 0


@pytest.mark.parametrize("shares", [[1.0], [0.5], [0.3, 0.3], [0.1] * 10])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_a_critical_value_widened_by_its_kurtosis_is_at_least_the_exact_one(shares, alpha):
    kurtosis = 3 * float((np.array(shares) ** 2).sum())
    exact = float(laplace_sum_isf(alpha, np.array(shares)))
    found = float(widened(alpha, np.array(kurtosis)))
    assert exact - 2e-3 <= found <= (1.05 if alpha == 0.05 else 1.16) * exact
    assert widened_pvalue(np.array(found), np.array(kurtosis)) == pytest.approx(alpha)


def test_without_kurtosis_nothing_is_widened():
    assert float(widened(0.05, np.array(0.0))) == pytest.approx(stats.norm.isf(0.025))
    assert float(widened_pvalue(np.array(-2.0), np.array(0.0))) == pytest.approx(2 * stats.norm.sf(2.0))
    assert float(widened(0.5, np.array(3.0))) == pytest.approx(stats.norm.isf(0.25))


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
