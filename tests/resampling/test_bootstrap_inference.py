"""Inference from replicated noisy sums, against direct formulas; whatever the sums, no NaN and no negative variance."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from dpinfer.errors import InferenceError, OptionError
from dpinfer.resampling.inference import BootstrapInference, ReplicateSums

ROWS = 400
SOURCE = ("unbiased", "conservative", "most_conservative")


def rows(seed=1):
    """Rows of features: the constant, and two columns that are related (n, 3)."""
    rng = np.random.default_rng(seed)
    first = rng.gamma(4.0, 1.0, ROWS)
    return np.column_stack([np.ones(ROWS), first, 2 * first + rng.normal(0, 2.0, ROWS) + 5])


def resampled(z, *, replicates=40, paired=False, noise=0.0, seed=2):
    """Sums of the rows under random weights, with noise of so much variance on each."""
    rng = np.random.default_rng(seed)
    if paired:
        half = 2.0 * rng.integers(0, 2, (replicates // 2, len(z)))
        weights = np.stack([half, 2 - half], axis=1).reshape(replicates, -1)
    else:
        weights = 2.0 * rng.integers(0, 2, (replicates, len(z)))
    values = weights @ z + np.sqrt(noise) * rng.normal(size=(replicates, z.shape[1]))
    return ReplicateSums(values, noise * np.eye(z.shape[1]), paired=paired)


def means(sums):
    return sums[:, 1:] / sums[:, :1]


def slope(sums):
    return sums[:, 2:] / sums[:, 1:2]


def linear(sums):
    return sums[:, 1:] / ROWS


def inferred(sums, statistic=means, **changes):
    with np.errstate(all="ignore"):
        names = ("a", "b")[: statistic(sums.mean[None]).shape[1]]
    return BootstrapInference(**{"names": names, "sums": sums, "statistic": statistic, **changes})


# The sums


def test_replicates_of_secret_weights_differ_by_their_covariance():
    sums = resampled(rows(), noise=3.0)
    np.testing.assert_allclose(sums.covariance, np.cov(sums.values.T))
    np.testing.assert_allclose(sums.covariance_of_mean, np.cov(sums.values.T) / 40)
    np.testing.assert_allclose(sums.floor, 3 * np.eye(3))
    np.testing.assert_allclose(sums.noise_of_mean, 3 / 40 * np.eye(3))
    assert (sums.replicates, sums.df) == (40, 39)


def test_pairs_differ_by_half_and_their_means_by_noise_alone():
    z = rows()
    sums = resampled(z, paired=True, noise=3.0)
    half = np.array([sums.values[2 * b] - sums.values[2 * b + 1] for b in range(20)]) / 2
    np.testing.assert_allclose(sums.covariance, sum(np.outer(one, one) for one in half) / 20)
    np.testing.assert_allclose(sums.floor, 1.5 * np.eye(3))
    np.testing.assert_allclose(sums.covariance_of_mean, 3 / 40 * np.eye(3))
    assert sums.df == 20
    np.testing.assert_allclose(resampled(z, paired=True).mean, z.sum(axis=0))


# Estimates and their linearisation


def test_gradients_are_the_exact_derivatives():
    sums = resampled(rows(), noise=10.0)
    n, x, y = sums.mean
    found = inferred(sums, lambda t: np.column_stack([t[:, 2] / t[:, 1], t[:, 1] * t[:, 2] / t[:, 0] ** 2]))
    exact = [[0, -y / x**2, 1 / x], [-2 * x * y / n**3, y / n**2, x / n**2]]
    np.testing.assert_allclose(found.gradient, exact, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("paired", [False, True])
def test_curvature_is_half_the_second_derivative_in_every_direction(paired):
    sums = resampled(rows(), noise=10.0, paired=paired)
    n, x, y = sums.mean
    spread = sums.covariance_of_mean
    ratio = np.array([[0, 0, 0], [0, 2 * y / x**3, -1 / x**2], [0, -1 / x**2, 0]])
    product = np.array([[6 * x * y / n**4, -2 * y / n**3, -2 * x / n**3], [-2 * y / n**3, 0, 1 / n**2]])
    product = np.vstack([product, [-2 * x / n**3, 1 / n**2, 0]])
    found = inferred(sums, lambda t: np.column_stack([t[:, 2] / t[:, 1], t[:, 1] * t[:, 2] / t[:, 0] ** 2]))
    exact = [0.5 * np.trace(second @ spread) for second in (ratio, product)]
    np.testing.assert_allclose(found.curvature, exact, rtol=1e-3)
    np.testing.assert_allclose(found.params, [y / x - exact[0], x * y / n**2 - exact[1]], rtol=1e-6)


def test_a_curvature_beyond_a_standard_error_is_told_and_not_taken_off():
    """The square of a mean near zero, which noise makes larger."""
    sums = resampled(rows() * [1, 0, 0], noise=1e4, paired=True)
    near_zero = sums.values - sums.mean * [0, 1, 1] + [0, 2.0, 0]
    found = inferred(ReplicateSums(near_zero, sums.noise, paired=True), lambda t: (t[:, 1:2] / ROWS) ** 2)
    np.testing.assert_allclose(found.curvature, 1e4 / 40 / ROWS**2, rtol=1e-6)
    assert found.curvature[0] > np.sqrt(found.cov_sampling + found.cov_noise)[0, 0]
    np.testing.assert_allclose(found.params, (2.0 / ROWS) ** 2)
    told = "noise makes the estimate of a nonlinear by more than its standard error"
    assert found.flags[0] == f"{told}: intervals are unbounded, p-values 1"
    np.testing.assert_array_equal(found.intervals(np.eye(1), 0.05), [[-np.inf, np.inf]])
    np.testing.assert_array_equal(found.contrast_pvalues(np.eye(1), 9.0), [1.0])


def test_a_curvature_beyond_a_quarter_of_a_standard_error_is_told():
    sums = resampled(rows() * [1, 0, 0], noise=1e4, paired=True)
    error = np.sqrt(1e4 / 40)
    for away, told in ((1.5, True), (40.0, False)):
        values = sums.values - sums.mean * [0, 1, 1] + [0, away * error, 0]
        known = ReplicateSums(values, sums.noise, paired=True)
        found = inferred(known, lambda t: (t[:, 1:2] / ROWS) ** 2, target="data")
        np.testing.assert_allclose(found.curvature / np.sqrt(found.cov_noise[0]), 1 / (2 * away), rtol=1e-4)
        assert told == ("by more than a quarter of its standard error" in str(found.flags))
        np.testing.assert_allclose(found.params, ((away**2 - 1) * error**2 / ROWS**2), rtol=1e-4)
        assert np.isfinite(found.intervals(np.eye(1), 0.05)).all()


def test_replicates_are_the_statistic_where_it_is_linear():
    sums = resampled(rows(), noise=5.0)
    found = inferred(sums, linear)
    np.testing.assert_allclose(found.curvature, 0, atol=1e-9)
    np.testing.assert_allclose(found.replicated, sums.values[:, 1:] / ROWS)
    np.testing.assert_allclose(inferred(sums).replicated.mean(axis=0), inferred(sums).params)


# Variances, with noise and without


def test_without_noise_pairs_give_the_t_interval():
    sums = resampled(rows(), paired=True)
    found = inferred(sums, linear)
    error = np.sqrt(np.diag(sums.covariance)[1:]) / ROWS
    half = stats.t.isf(0.025, 20) * error
    ends = np.column_stack([found.params - half, found.params + half])
    np.testing.assert_allclose(found.intervals(np.eye(2), 0.05), ends, rtol=1e-5)
    for away in (0.1, 2.0, 4.0):
        expected = 2 * stats.t.sf(away, 20)
        np.testing.assert_allclose(found.contrast_pvalues(np.eye(2), found.params + away * error), expected, rtol=1e-5)
    assert found.df_resid == 20


@pytest.mark.parametrize("weight_variance", [1.0, 0.9])
def test_without_noise_secret_weights_add_their_own_chance(weight_variance):
    z = rows()
    values = resampled(z).values
    sums = ReplicateSums(values, np.zeros((3, 3)), weight_variance=weight_variance)
    found = inferred(sums, linear)
    between = np.diag(np.cov(values.T))[1:] / ROWS**2
    half = stats.t.isf(0.005, 39) * np.sqrt(between / weight_variance + between / 40)
    ends = np.column_stack([found.params - half, found.params + half])
    np.testing.assert_allclose(found.intervals(np.eye(2), 0.01), ends, rtol=1e-5)


def test_variances_between_replicates_are_those_of_the_linearisation():
    """2,000 replicates: a variance has a relative error of 3.2%, and four of them are allowed (1 in 16,000)."""
    z = rows()
    for paired in (False, True):
        found = inferred(resampled(z, replicates=2000, paired=paired), slope)
        ratio = z[:, 2].sum() / z[:, 1].sum()
        exact = ((z[:, 2] - ratio * z[:, 1]) ** 2).sum() / z[:, 1].sum() ** 2
        assert found.cov_sampling[0, 0] == pytest.approx(exact, rel=4 * np.sqrt(2 / (1000 if paired else 1999)))


@pytest.mark.parametrize("paired", [False, True])
def test_with_noise_the_interval_mixes_normals_over_what_the_variance_may_be(paired):
    """Against a direct integral over the law of the variance, cut at its floor."""
    z, alpha = rows(), 0.05
    sums = resampled(z, noise=4000.0, paired=paired)
    found = inferred(sums, linear)
    observed, floor = (np.diag(part)[1] / ROWS**2 for part in (sums.covariance, sums.floor))
    top = stats.chi2.cdf(sums.df * observed / floor, sums.df)

    def tail(chi2, half):
        total = sums.df * observed / chi2
        given_data = sums.noise[1, 1] / ROWS**2 / 40 if paired else total / 40
        outside = 2 * stats.norm.sf(half / np.sqrt(total - floor + given_data))
        return outside * stats.chi2.pdf(chi2, sums.df) / top

    low, high = found.intervals(np.eye(2), alpha)[0]
    outside = integrate.quad(tail, 0, sums.df * observed / floor, args=((high - low) / 2,), epsabs=1e-10)[0]
    assert outside == pytest.approx(alpha, abs=2e-5)
    assert (low + high) / 2 == pytest.approx(found.params[0])


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("noise", [0.0, 500.0, 1e6])
def test_covariances_add_up_and_are_positive_definite(noise, paired):
    found = inferred(resampled(rows(), noise=noise, paired=paired))
    total = found.cov_sampling + found.cov_noise
    assert np.linalg.eigvalsh(total)[0] > 0
    assert np.linalg.eigvalsh(found.cov_sampling)[0] >= -1e-12 * total.max()
    if not paired:
        # With secret weights what the data leave open is the variance between replicates over their number.
        np.testing.assert_allclose(
            np.diag(found.cov_noise) * 40, np.diag(found.cov_sampling) + noise * (found.gradient**2).sum(axis=1)
        )


@pytest.mark.parametrize("paired", [False, True])
def test_the_data_as_the_whole_population_have_no_sampling_error(paired):
    sums = resampled(rows(), noise=500.0, paired=paired)
    population, data = inferred(sums, linear), inferred(sums, linear, target="data")
    np.testing.assert_array_equal(data.cov_sampling, np.zeros((2, 2)))
    np.testing.assert_allclose(data.params, population.params)
    for method in BootstrapInference.methods:
        wide = population.with_method(method).intervals(np.eye(2), 0.05)
        narrow = data.with_method(method).intervals(np.eye(2), 0.05)
        assert np.isfinite(narrow).all()
        assert (np.ptp(narrow, axis=1) < 0.5 * np.ptp(wide, axis=1)).all()
    error = np.sqrt(np.diag(data.cov_noise))
    if paired:
        np.testing.assert_allclose(error, np.sqrt(500 / 40) / ROWS, rtol=1e-6)
        half = np.ptp(data.intervals(np.eye(2), 0.05), axis=1) / 2
        np.testing.assert_allclose(half, stats.norm.isf(0.025) * error, rtol=1e-5)
    assert 0 <= data.wald(np.eye(2), 0.0)[2] < 1e-3


# The intervals of the source


@pytest.mark.parametrize("share", [0.05, 0.2])
@pytest.mark.parametrize("noise", [50.0, 2e4])
def test_the_three_intervals_of_the_source(noise, share):
    """Variance s^2(m) - c s^2 / (B - 1) + s^2 / B, with c = B - 1, the chi-squared quantile, and 0."""
    sums = resampled(rows(), noise=noise)
    known = noise / ROWS**2
    for method, c in zip(SOURCE, (39, stats.chi2.ppf(share, 39), 0), strict=True):
        found = inferred(sums, linear, method=method, conservative=share)
        between = np.var(found.replicated, axis=0, ddof=1)
        half = stats.norm.isf(0.025) * np.sqrt(np.maximum(between - c * known / 39, 0) + known / 40)
        ends = np.column_stack([found.params - half, found.params + half])
        np.testing.assert_allclose(found.intervals(np.eye(2), 0.05), ends, rtol=1e-7)


def test_the_source_is_ever_more_conservative():
    sums = resampled(rows(), noise=2e3)
    widths = [np.ptp(inferred(sums, linear, method=method).intervals(np.eye(2), 0.05), axis=1) for method in SOURCE]
    assert (widths[0] < widths[1]).all()
    assert (widths[1] < widths[2]).all()


# Tests


@pytest.mark.parametrize("method", BootstrapInference.methods)
@pytest.mark.parametrize("noise", [0.0, 3e3, 1e6])
def test_at_the_end_of_an_interval_the_pvalue_is_the_level(noise, method):
    found = inferred(resampled(rows(), noise=noise), method=method)
    contrasts = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -0.4]])
    for alpha in (0.3, 0.05, 0.001):
        for ends in found.intervals(contrasts, alpha).T:
            np.testing.assert_allclose(found.contrast_pvalues(contrasts, ends), alpha, rtol=1e-6)


def test_the_joint_test_does_not_depend_on_how_restrictions_are_written():
    change = np.array([[2.0, 1.0], [-1.0, 3.0]])
    for method in BootstrapInference.methods:
        found = inferred(resampled(rows(), noise=800.0), method=method)
        value = found.params + np.array([0.2, 0.1])
        first, second = found.wald(np.eye(2), value), found.wald(change, change @ value)
        assert second[:2] == pytest.approx(first[:2], rel=1e-6)
        assert second[2] == pytest.approx(first[2], abs=0.02)  # other draws of the same law
        assert found.wald(np.eye(2), found.params)[::2] == pytest.approx((0.0, 1.0))
        assert found.wald(np.eye(2), found.params + 100)[2] < 1e-3
        assert found.wald(np.eye(2), 0.0) == found.wald(np.eye(2), np.zeros(2))


@pytest.mark.parametrize(("method", "share"), [("unbiased", 1.0), ("most_conservative", 0.0)])
def test_the_joint_test_of_the_source_is_the_quadratic_form(method, share):
    sums = resampled(rows(), noise=20.0)
    found = inferred(sums, linear, method=method)
    distance = np.array([0.3, 0.5])
    total = (sums.covariance - share * sums.floor + sums.noise_of_mean)[1:, 1:] / ROWS**2
    statistic, df, p = found.wald(np.eye(2), found.params - distance)
    assert statistic == pytest.approx(distance @ np.linalg.inv(total) @ distance, rel=1e-6)
    assert (df, p) == (2.0, pytest.approx(stats.chi2.sf(statistic, 2)))


@pytest.mark.slow
@pytest.mark.parametrize(("size", "noise"), [(2, 0.5), (5, 4.0)])
def test_the_joint_test_keeps_its_level(size, noise, monkeypatch):
    """200 sets of 200 normal replicates about estimates of variance 1: up to four standard errors (1 in 30,000)."""
    monkeypatch.setattr(sys.modules[BootstrapInference.__module__], "_DRAWS", 499)
    rng, pvalues = np.random.default_rng(6), []
    for _ in range(200):
        truth = rng.normal(size=size + 1)
        values = truth + np.sqrt(1 + noise) * rng.normal(size=(200, size + 1))
        sums = ReplicateSums(values + 50 * np.eye(size + 1)[0], noise * np.eye(size + 1))
        found = BootstrapInference(names=tuple("abcde"[:size]), sums=sums, statistic=lambda t: t[:, 1:])
        pvalues.append(found.wald(np.eye(size), 0.0)[2])
    assert np.mean(np.array(pvalues) <= 0.05) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 200)


def test_dependent_restrictions_are_refused():
    with pytest.raises(InferenceError, match=r"2 restrictions are linearly dependent \(rank 1\)"):
        inferred(resampled(rows())).wald(np.array([[1.0, 0.0], [2.0, 0.0]]), np.zeros(2))


def test_there_are_five_methods():
    found = inferred(resampled(rows()))
    for method in BootstrapInference.methods:
        assert found.with_method(method).method == method
        assert found.with_method(method).sums is found.sums
    with pytest.raises(OptionError, match="inference") as caught:
        found.with_method("score")
    for method in BootstrapInference.methods:
        assert repr(method) in str(caught.value)


# What the reader is told


def test_the_population_is_described():
    """2,000 replicates: a standard deviation has a relative error of 1.6%; four of them."""
    z = rows()
    found = inferred(resampled(z, replicates=2000, noise=10.0))
    np.testing.assert_allclose(found.population_std, z[:, 1:].std(axis=0), rtol=4 * 0.016 + 0.005)


def test_clean_replicates_raise_no_flag():
    assert inferred(resampled(rows(), noise=10.0)).flags == ()
    assert inferred(resampled(rows(), paired=True, noise=10.0)).flags == ()


def test_replicates_of_noise_alone_are_told():
    sums = resampled(0 * rows() + [1.0, 0, 0], noise=1e3)
    (told,) = inferred(sums).flags
    assert told.startswith("replicates of a, b vary hardly more than privacy noise explains")
    assert inferred(sums, target="data").flags == ()


def test_many_names_are_cut_short():
    sums = ReplicateSums(np.random.default_rng(3).normal(size=(30, 9)) + np.r_[400.0, np.zeros(8)], np.eye(9))
    names = tuple(f"p{j}" for j in range(8))
    found = BootstrapInference(names=names, sums=sums, statistic=lambda t: t[:, 1:] / ROWS)
    assert any("p0, p1, p2, p3, p4 and 3 more vary" in flag for flag in found.flags)


def test_where_nothing_is_known_nothing_is_concluded():
    for method in BootstrapInference.methods:
        found = inferred(resampled(rows(), noise=5.0), method=method, unstable=("the rows may be none",))
        np.testing.assert_array_equal(found.intervals(np.eye(2), 0.05), [[-np.inf, np.inf]] * 2)
        np.testing.assert_array_equal(found.contrast_pvalues(np.eye(2), 99.0), [1.0, 1.0])
        assert found.wald(np.eye(2), 99.0)[1:] == (2.0, 1.0)
        assert found.flags[0] == "the rows may be none: intervals are unbounded, p-values 1"


@pytest.mark.parametrize(
    "statistic",
    [
        lambda t: np.full((len(t), 2), np.inf),
        lambda t: np.full((len(t), 2), np.nan),
        lambda t: t[:, 1:] / (0 * t[:, :1]),
        lambda t: np.exp(t[:, 1:]),
        lambda t: np.exp(0.5 * t[:, 1:]),
    ],
    ids=["infinite", "nan", "divided by zero", "far too large", "nearly too large"],
)
def test_estimates_that_are_not_finite_are_results_and_no_warnings(statistic):
    found = inferred(resampled(rows(), noise=5.0), statistic, unstable=("no finite estimate",))
    assert np.isfinite(found.params).all()
    assert not np.isnan(found.intervals(np.eye(2), 0.05)).any()
    np.testing.assert_array_equal(found.contrast_pvalues(np.eye(2), 0.0), [1.0, 1.0])
    assert not np.isnan(found.cov_sampling + found.cov_noise).any()
    assert found.wald(np.eye(2), 0.0)[2] == 1.0
    assert found.replicated.shape == (40, 2)
    assert found.flags


@pytest.mark.slow
@settings(max_examples=30)
@given(
    st.sampled_from([2, 4, 20]),
    st.booleans(),
    st.sampled_from([1e-9, 1.0, 1e6, 1e14]),
    st.sampled_from([0.0, 1.0, 1e8]),
    st.integers(0, 10**6),
)
def test_whatever_the_noise_no_variance_is_negative_and_nothing_is_nan(replicates, paired, noise, spread, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(replicates, 3)) * np.sqrt(noise + spread) * rng.uniform(0, 2, 3)
    sums = ReplicateSums(values + np.array([1000.0, 10.0, -10.0]), noise * np.eye(3), paired=paired)
    contrasts = np.vstack([np.eye(2), np.ones((1, 2))])
    for method in ("fiducial", "unbiased"):
        found = inferred(sums, linear, method=method)
        assert np.linalg.eigvalsh(found.cov_sampling + found.cov_noise)[0] > 0
        ends = found.intervals(contrasts, 0.05)
        assert np.isfinite(ends).all()
        assert (ends[:, 0] < ends[:, 1]).all()
        assert ((found.contrast_pvalues(contrasts, 0.0) >= 0) & (found.contrast_pvalues(contrasts, 0.0) <= 1)).all()
        statistic, df, p = found.wald(np.eye(2), np.zeros(2))
        assert (statistic >= 0, df, 0 <= p <= 1) == (True, 2.0, True)
        assert all(isinstance(flag, str) for flag in found.flags)
        assert (found.population_std >= 0).all()
