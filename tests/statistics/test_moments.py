"""Estimates from noisy moments: gradients, variances and intervals against their definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.statistics.moment_inference import MomentInference, intervals, pvalues
from dpinfer.statistics.moments import MomentSums, correlations, covariances, means, proportions, totals, variances

EXPONENTS = [(order - second, second) for order in range(5) for second in range(order + 1)]
"""All moments of two columns up to the fourth order."""


def table_of(u, weight=None, order=4):
    """Sums of monomials of two columns in [-1, 1], with those that a weighted mean needs where there are weights."""
    if weight is None:
        exponents = [(*one, 0) for one in EXPONENTS if sum(one) <= order]
    else:
        exponents = [(a, b, w) for w in (1, 2) for a, b in EXPONENTS if a + b <= w]
    ones = np.ones(len(u)) if weight is None else weight
    values = [(u[:, 0] ** a * u[:, 1] ** b * ones**w).sum() for a, b, w in exponents]
    return tuple(exponents), np.array(values)


def sums_of(u, noise=0.0, *, weight=None, laplace=False, releases=None):
    exponents, values = table_of(u, weight)
    width = len(exponents)
    values = values if releases is None else values + releases
    shape = np.atleast_2d(values)[:, None, :]
    return MomentSums(exponents, shape, np.eye(width), np.full(width, noise**2), laplace)


def columns(rows=40, seed=0):
    u = np.random.default_rng(seed).uniform(-1, 1, (rows, 2))
    u[:, 1] = 0.6 * u[:, 0] + 0.4 * u[:, 1]
    return u


ESTIMATORS = {"means": means, "variances": variances, "covariances": covariances, "correlations": correlations}


def test_without_noise_estimates_are_those_of_numpy():
    u = columns()
    sums = sums_of(u)
    cov = np.cov(u.T)
    np.testing.assert_allclose(means(sums, population=True).value[0, 0], u.mean(axis=0))
    np.testing.assert_allclose(means(sums, population=True).sampling[0, 0], cov / 40)
    np.testing.assert_allclose(variances(sums, population=True).value[0, 0], cov.diagonal())
    np.testing.assert_allclose(variances(sums, population=False).value[0, 0], u.var(axis=0))
    np.testing.assert_allclose(covariances(sums, population=True).value[0, 0], cov[np.triu_indices(2)])
    np.testing.assert_allclose(correlations(sums, population=True).value[0, 0], np.corrcoef(u.T)[0, 1])
    assert np.allclose(means(sums, population=True).df, 39)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_an_estimate_moves_with_the_sums_as_its_mixing_says(kind):
    """Central differences of the estimate in every released sum."""
    u, step = columns(400), 1e-3
    estimator = ESTIMATORS[kind]
    width = len(EXPONENTS)
    moved = np.concatenate([np.eye(width), -np.eye(width)]) * step
    found = estimator(sums_of(u, 1e-6, releases=moved), population=False).value[:, 0]
    slope = (found[:width] - found[width:]) / (2 * step)
    mixing = estimator(sums_of(u, 1e-6), population=False).mixing[0, 0]
    np.testing.assert_allclose(mixing.T, slope, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_sampling_variance_is_that_of_the_influence_function(kind):
    """Infinitesimal jackknife: the slope in every row's weight."""
    u = columns(60)
    estimates = ESTIMATORS[kind](sums_of(u), population=True)
    mixing = estimates.mixing[0, 0]
    rows = np.stack([u[:, 0] ** a * u[:, 1] ** b for a, b in EXPONENTS])
    influence = mixing @ rows
    expected = influence @ influence.T * 60 / 59
    place = np.arange(len(expected))
    np.testing.assert_allclose(estimates.sampling[0, 0][place, place], expected[place, place], rtol=0.05)


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_noise_spreads_estimates_as_told(kind, laplace):
    """20,000 draws: a standard deviation within 8% (more than six standard errors)."""
    u, rng = columns(500), np.random.default_rng(3)
    drawn = rng.laplace(scale=2 / 2**0.5, size=(20_000, 15)) if laplace else rng.normal(scale=2, size=(20_000, 15))
    found = ESTIMATORS[kind](sums_of(u, 2.0, laplace=laplace, releases=drawn), population=True)
    exact = ESTIMATORS[kind](sums_of(u, 2.0), population=True)
    told = np.sqrt(np.diagonal(exact.noise[0, 0]))
    np.testing.assert_allclose(found.value[:, 0].std(axis=0), told, rtol=0.08)
    away = found.value[:, 0].mean(axis=0) - exact.value[0, 0]
    assert (np.abs(away) < 6 * told / 20_000**0.5 + 0.02 * told).all()


@pytest.mark.slow
@settings(max_examples=25)
@given(
    st.integers(0, 2**31),
    st.floats(0.01, 300),
    st.sampled_from(sorted(ESTIMATORS)),
    st.booleans(),
    st.booleans(),
    st.integers(0, 60),
)
def test_estimates_and_intervals_stay_within_what_is_possible(seed, noise, kind, population, laplace, rows):
    rng = np.random.default_rng(seed)
    u = columns(rows, seed) if rows else np.zeros((0, 2))
    drawn = rng.laplace(scale=noise / 2**0.5, size=(5, 15)) if laplace else rng.normal(scale=noise, size=(5, 15))
    estimates = ESTIMATORS[kind](sums_of(u, noise, laplace=laplace, releases=drawn), population=population)
    lower, upper = (np.broadcast_to(end, estimates.value.shape) for end in (estimates.lower, estimates.upper))
    assert np.isfinite(estimates.value).all()
    assert np.isfinite(estimates.variance).all()
    assert (estimates.variance > 0).all()
    assert np.linalg.eigvalsh(estimates.sampling + estimates.noise).min() >= 0
    for method in ("score", "wald"):
        wide = None
        for alpha in (0.01, 0.1, 0.5):
            ends = intervals(estimates, alpha, method=method)
            assert (ends[..., 0] >= lower - 1e-12).all()
            assert (ends[..., 1] <= upper + 1e-12).all()
            assert (ends[..., 0] <= estimates.value + 1e-12).all()
            assert (ends[..., 1] >= estimates.value - 1e-12).all()
            if wide is not None:
                assert (ends[..., 0] >= wide[..., 0] - 1e-9).all()
                assert (ends[..., 1] <= wide[..., 1] + 1e-9).all()
            wide = ends
        for tested in (-1.0, 0.0, 0.3):
            found = pvalues(estimates, tested, method=method)
            assert ((found >= 0) & (found <= 1 + 1e-12)).all()


@settings(max_examples=15)
@given(st.integers(0, 2**31), st.floats(0.1, 4), st.sampled_from([0.01, 0.05, 0.3]))
def test_a_score_interval_ends_where_the_test_rejects(seed, noise, alpha):
    rng = np.random.default_rng(seed)
    estimates = means(sums_of(columns(80), noise, releases=rng.normal(scale=noise, size=(3, 15))), population=True)
    ends = intervals(estimates, alpha)
    for side in (0, 1):
        inner = np.abs(ends[..., side]) < 1
        found = pvalues(estimates, ends[..., side])
        np.testing.assert_allclose(found[inner], alpha, rtol=0.02)
        assert (found[~inner] >= 0.98 * alpha).all()


def test_the_score_interval_of_a_noisy_ratio_is_fiellers():
    """With no sampling error: the roots of (T - t N)^2 = z^2 s^2 (1 + t^2)."""
    u, noise = columns(50), 5.0
    estimates = means(sums_of(u, noise), population=False)
    critical = stats.norm.isf(0.025) ** 2 * noise**2
    for place in range(2):
        top = u[:, place].sum()
        roots = np.sort(np.roots([50**2 - critical, -2 * top * 50, top**2 - critical]))
        np.testing.assert_allclose(intervals(estimates, 0.05)[0, 0, place], roots, rtol=1e-6)


def test_the_variance_at_the_estimate_is_the_variance():
    drawn = np.random.default_rng(1).normal(scale=2.0, size=(4, 15))
    for estimator in ESTIMATORS.values():
        for population in (False, True):
            estimates = estimator(sums_of(columns(90), 2.0, releases=drawn), population=population)
            np.testing.assert_allclose(estimates.variance_at(estimates.value), estimates.variance, rtol=1e-8)


def test_weights_enter_as_powers():
    u = columns(70)
    weight = np.random.default_rng(2).uniform(0, 3, 70)
    estimates = means(sums_of(u, weight=weight), population=True)
    centre = np.average(u, axis=0, weights=weight)
    influence = weight[:, None] * (u - centre) / weight.sum()
    np.testing.assert_allclose(estimates.value[0, 0], centre)
    np.testing.assert_allclose(estimates.sampling[0, 0], influence.T @ influence, rtol=1e-9)


def shares_of(counts, noise=0.0, releases=0.0):
    levels = len(counts)
    mixing = np.vstack([np.ones((1, levels)), np.eye(levels)])
    exponents = [tuple(int(i == j) for j in range(levels + 1)) for i in range(-1, levels)]
    exponents = tuple((0,) * (levels + 1) if not any(one) else one for one in exponents)
    values = np.atleast_2d(np.asarray(counts) + releases)[:, None, :] @ mixing.T
    return MomentSums(exponents, values, mixing, np.full(levels, noise**2), laplace=False)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 300), min_size=2, max_size=6), st.floats(0.1, 1000), st.integers(0, 2**31), st.booleans()
)
def test_shares_have_a_positive_definite_covariance_whatever_the_noise(counts, noise, seed, population):
    drawn = np.random.default_rng(seed).normal(scale=noise, size=(4, len(counts)))
    estimates = proportions(shares_of(counts, noise, drawn), population=population)
    total = estimates.sampling + estimates.noise
    deviation = np.sqrt(np.diagonal(total, axis1=-2, axis2=-1))
    assert (deviation > 0).all()
    related = total / (deviation[..., :, None] * deviation[..., None, :])
    assert np.linalg.eigvalsh(related).min() > 0
    ends = intervals(estimates, 0.05)
    assert (ends[..., 0] <= estimates.value).all()
    assert (ends[..., 1] >= estimates.value).all()
    assert ends.min() >= 0
    assert ends.max() <= 1


def test_shares_without_noise_vary_like_multinomial_counts():
    estimates = proportions(shares_of([30, 50, 120]), population=True)
    share = np.array([0.15, 0.25, 0.6])
    expected = (np.diag(share) - np.outer(share, share)) / 200
    np.testing.assert_allclose(estimates.value[0, 0], share)
    np.testing.assert_allclose(estimates.sampling[0, 0], expected, rtol=0.05)


def test_counts_are_poisson_or_binomial():
    sums = MomentSums(((0,),), np.array([[[30.0], [-2.0]]]), np.eye(1), np.array([4.0]), laplace=False)
    free = totals(sums, population=True, nobs=None, lower=0.0, counts=True)
    np.testing.assert_allclose(free.value[0, :, 0], [30, 0])
    np.testing.assert_allclose(free.sampling[0, :, 0, 0], [30, 0])
    assert free.edge[0, :, 0].tolist() == [False, True]
    fixed = totals(sums, population=True, nobs=40, lower=0.0, counts=True)
    np.testing.assert_allclose(fixed.sampling[0, 0, 0, 0], 40 * 0.75 * 0.25)
    data = totals(sums, population=False, nobs=None, lower=0.0, counts=True)
    np.testing.assert_allclose(intervals(data, 0.05)[0, 0, 0], 30 + np.array([-1, 1]) * 1.96 * 2, rtol=1e-4)
    for method in ("score", "wald"):
        assert (intervals(free, 0.05, method=method) >= 0).all()


@pytest.mark.parametrize("share", [0.02, 0.2, 0.5, 0.9])
def test_the_mean_of_a_truth_value_varies_at_any_value_as_wilson_says(share):
    """Without noise t (1 - t) / (n - 1): bounds leave truth values one third moment."""
    u = np.where(np.arange(500) < 500 * share, 1.0, -1.0)
    found = means(sums_of(np.column_stack([u, -u])), population=True)
    for tested in np.linspace(-0.99, 0.99, 12):
        away = tested - found.value[0, 0]
        expected = (1 - tested**2 + np.array([1.0, 1.0]) * away**2) / 499
        most = (1 - tested**2) / 499
        got = found.variance_at(np.full((1, 1, 2), [tested, tested]))[0, 0]
        np.testing.assert_allclose(got, np.minimum(expected, most), rtol=1e-9)


def test_the_least_skewness_is_of_the_right_sign_and_never_above_the_true_one():
    rng = np.random.default_rng(3)
    for draw in (rng.exponential, rng.lognormal, lambda size: 5 * (rng.random(size) < 0.1) * rng.random(size)):
        u = np.minimum(draw(size=(400, 2)), 4.0) / 2 - 1
        u[:, 1] *= -1
        found = means(sums_of(u), population=True)
        centred = u - u.mean(axis=0)
        true = (centred**3).sum(axis=0) / (centred**2).sum(axis=0) / 400
        slope = found.line.slope[0, 0]
        assert slope[0] >= 0 >= slope[1]
        assert (np.abs(slope) <= np.abs(true) + 1e-12).all()


def total_of(x, bounds, noise=0.0, nobs=None):
    """Estimate the total of a column from its sums of first and second powers."""
    values = np.array([[[x.sum(), (x**2).sum()]]])
    sums = MomentSums(
        ((1, 0), (2, 0)), values, np.eye(2), np.full(2, noise) ** 2.0, False, lower=np.array(bounds[:1]),
        upper=np.array(bounds[1:]),
    )  # fmt: skip
    return totals(sums, population=True, nobs=nobs, lower=0.0 if bounds[0] >= 0 else -np.inf, counts=False)


def test_totals_of_ones_are_counts():
    """The line in the tested value is that of Poisson, or of binomial, numbers, and nothing else is not known."""
    for nobs in (None, 90):
        found = total_of(np.ones(40), (0.0, 1.0), noise=2.0, nobs=nobs)
        tested = np.array([[[55.0]]])
        expected = 55.0 + 4.0 if nobs is None else 55 - 55**2 / 90 + 15**2 / 90 + 4.0
        counts = MomentSums(((0,),), np.array([[[40.0]]]), np.eye(1), np.array([4.0]), laplace=False)
        counted = totals(counts, population=True, nobs=nobs, lower=0.0, counts=True)
        assert counted.variance_at(tested)[0, 0, 0] == pytest.approx(expected, rel=1e-3)
        assert found.variance[0, 0, 0] == counted.variance[0, 0, 0]
        if nobs is None:
            assert counted.score_df.min() > 1e6


def test_degrees_of_freedom_of_totals_fall_with_the_noise_of_the_squares():
    x = np.random.default_rng(5).exponential(size=200)
    df = [float(total_of(x, (0.0, 8.0), (0.0, noise)).df[0, 0, 0]) for noise in (0.0, 50.0, 1000.0)]
    assert df[0] == pytest.approx(x.sum() ** 2 / (x**2).sum() - 1)
    assert df[0] > df[1] > df[2] == 2


@pytest.mark.parametrize("kind", ["mean", "total"])
def test_an_estimate_low_by_chance_has_no_interval_too_short(kind):
    """Intervals miss above as often as below: with the variance at the estimate they missed twice as often."""
    rows, share, releases = 150, 0.1, 20_000
    hits = np.random.default_rng(11).binomial(rows, share, releases).astype(float)
    if kind == "mean":
        first = 2 * hits - rows
        values = np.stack([np.full(releases, float(rows)), first, np.full(releases, float(rows))], axis=1)
        sums = MomentSums(((0, 0), (1, 0), (2, 0)), values[:, None], np.eye(3), np.zeros(3), laplace=False)
        ends, truth = intervals(means(sums, population=True), 0.05)[:, 0, 0], 2 * share - 1
    else:
        values = np.stack([hits, hits], axis=1)[:, None]
        sums = MomentSums(((1, 0), (2, 0)), values, np.eye(2), np.zeros(2), laplace=False, lower=0.0)
        found = totals(sums, population=True, nobs=float(rows), lower=0.0, counts=False)
        ends, truth = intervals(found, 0.05)[:, 0, 0], rows * share
    assert (ends[:, 1] < truth).mean() <= 0.03
    assert ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean() >= 0.94


def test_small_cells_are_told():
    noise = 4.0
    for size, few in ((0, True), (11, True), (13, False)):
        u = columns(size) if size else np.zeros((0, 2))
        assert means(sums_of(u, noise), population=True).few.tolist() == [[few]]
    empty = means(sums_of(np.zeros((0, 2)), noise), population=True)
    assert intervals(empty, 0.05)[0, 0].tolist() == [[-1, 1], [-1, 1]]
    assert empty.flagged.tolist() == [True]


def test_degrees_of_freedom_fall_with_the_noise_of_the_variance():
    df = [float(means(sums_of(columns(60), noise), population=True).df[0, 0, 0]) for noise in (0.0, 1.0, 10.0, 100.0)]
    assert df[0] == pytest.approx(59)
    assert all(np.isfinite(df))
    assert min(df) >= 2


def test_releases_do_not_influence_each_other():
    drawn = np.random.default_rng(1).normal(scale=3.0, size=(6, 15))
    for estimator in ESTIMATORS.values():
        names, scaled = ("a",) * 3, (np.zeros(1), np.ones(1))
        together = estimator(sums_of(columns(), 3.0, releases=drawn), population=True)
        together = MomentInference(names, together, *scaled).batch(0.1)
        for place in range(6):
            one = sums_of(columns(), 3.0, releases=drawn[place : place + 1])
            alone = MomentInference(names, estimator(one, population=True), *scaled).batch(0.1)
            np.testing.assert_allclose(together.params[place], alone.params[0], rtol=1e-10)
            np.testing.assert_allclose(together.intervals[place], alone.intervals[0], rtol=1e-7)
            np.testing.assert_allclose(together.pvalues[place], alone.pvalues[0], rtol=1e-7)
            assert together.flagged[place] == alone.flagged[0]
