import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from dpinfer.regression.gram import GramProblem, covariance, fit_gram, noise_action
from dpinfer.regression.gram_inference import (
    _contracted_ends,
    _scanned_ends,
    score_interval,
    score_joint,
    score_pvalue,
    taken,
)


def make(n=300, p=3, seed=0):
    rng = np.random.default_rng(seed)
    z = np.column_stack([np.ones(n), rng.uniform(-1, 1, (n, p)), rng.normal(size=n)])
    z[:, -1] = 0.1 + z[:, 1 : p + 1] @ np.linspace(0.3, -0.2, p) + 0.2 * z[:, -1]
    return z


def symmetric_noise(rng, size, noise):
    upper = np.triu_indices(len(noise))
    drawn = rng.normal(size=(size, len(upper[0]))) * np.sqrt(noise[upper])
    out = np.zeros((size, *noise.shape))
    out[:, upper[0], upper[1]] = drawn
    out[:, upper[1], upper[0]] = drawn
    return out


def equal_noise(d, v):
    return np.where(np.eye(d, dtype=bool), 2 * v, v)


@pytest.fixture
def exact():
    """A fit without noise, its design a general linear map of the features, and statsmodels' fit."""
    z = make()
    design = np.eye(4, 5)
    design[1, 0], design[2] = 0.5, 3 * design[2]
    response = np.array([1.0, 0, 0, 0, 2.0])
    fit = fit_gram(GramProblem(np.zeros((5, 5)), design, response), (z.T @ z)[None], np.array([300.0]))
    return fit, sm.OLS(z @ response, z @ design.T).fit()


def test_without_noise_everything_is_ordinary_least_squares(exact):
    fit, ols = exact
    np.testing.assert_allclose(fit.params[0], ols.params, rtol=1e-9)
    np.testing.assert_allclose(fit.scale[0], ols.scale, rtol=1e-9)
    np.testing.assert_allclose(fit.rsquared[0], ols.rsquared, rtol=1e-7)
    sampling, noise = covariance(fit)
    np.testing.assert_allclose(sampling[0], ols.cov_params(), rtol=1e-8)
    assert np.all(noise == 0)
    np.testing.assert_allclose(score_interval(fit, np.eye(4), 0.05)[0], ols.conf_int(), rtol=1e-7)
    np.testing.assert_allclose(score_pvalue(fit, np.eye(4), np.zeros((1, 4)))[0], ols.pvalues, rtol=1e-5)
    restrictions = np.array([[0.0, 1, 0, 0], [0, 0, 1, -1]])
    statistic, df = score_joint(fit, restrictions, np.zeros((1, 2)))
    expected = ols.f_test(restrictions)
    np.testing.assert_allclose(statistic[0] / 2, expected.fvalue, rtol=1e-7)
    np.testing.assert_allclose(df[0], ols.df_resid, rtol=1e-9)


def test_noise_action_is_the_covariance_of_noise_times_residual():
    rng = np.random.default_rng(3)
    noise = rng.uniform(0.5, 2.0, (4, 4))
    noise = (noise + noise.T) / 2
    problem = GramProblem(noise, np.eye(3, 4), np.array([0.0, 0, 0, 1]))
    residual = np.array([0.4, -1.2, 0.7, 1.0])
    matrix = np.stack([noise_action(problem, residual, weight) for weight in np.eye(4)], axis=1)
    drawn = symmetric_noise(rng, 400_000, noise) @ residual
    np.testing.assert_allclose(np.cov(drawn.T), matrix, atol=0.05)
    np.testing.assert_allclose(matrix, matrix.T)


def test_covariance_is_that_of_the_estimates_and_of_contrasts():
    rng = np.random.default_rng(4)
    z = make(n=4000, seed=4)
    gram, noise = z.T @ z, equal_noise(5, 400.0)
    problem = GramProblem(noise, np.eye(4, 5), np.eye(5)[4], population=False)
    fits = fit_gram(problem, gram + symmetric_noise(rng, 20_000, noise), np.full(20_000, 4000.0))
    truth = fit_gram(problem, gram[None], np.array([4000.0]))
    for contrast in (np.array([0.0, 1, -1, 0]), np.array([0.0, 1, 1, 0])):
        stated = float(contrast @ covariance(truth)[1][0] @ contrast)
        assert np.var(fits.params @ contrast) == pytest.approx(stated, rel=0.06)


def test_where_noise_swamps_the_design_intervals_are_unbounded_and_estimates_finite():
    rng = np.random.default_rng(8)
    z = make(n=50)
    noise = equal_noise(5, 1e6)
    grams = z.T @ z + symmetric_noise(rng, 200, noise)
    fit = fit_gram(GramProblem(noise, np.eye(4, 5), np.eye(5)[4]), grams, grams[:, 0, 0])
    ends = score_interval(fit, np.eye(4)[1:], 0.05)
    assert np.all(np.isfinite(fit.params))
    assert not np.any(np.isnan(ends))
    assert np.mean(np.isinf(ends)) > 0.9
    sampling, noise_part = covariance(fit)
    assert np.all(np.linalg.eigvalsh(sampling + noise_part) > 0)


def test_score_interval_covers_where_noise_is_as_large_as_the_signal():
    """Coverage at a small design, strong slope; an interval of 95% fails this with probability below 1e-6."""
    rng = np.random.default_rng(9)
    replicates, n = 3000, 200
    x = rng.uniform(-1, 1, (replicates, n))
    z = np.stack([np.ones_like(x), x, 0.9 * x + 0.1 * rng.normal(size=x.shape)], axis=2)
    noise = equal_noise(3, 120.0)
    grams = np.swapaxes(z, 1, 2) @ z + symmetric_noise(rng, replicates, noise)
    fit = fit_gram(GramProblem(noise, np.eye(2, 3), np.eye(3)[2]), grams, grams[:, 0, 0])
    ends = score_interval(fit, np.array([[0.0, 1.0]]), 0.05)[:, 0]
    covered = np.mean((ends[:, 0] <= 0.9) & (ends[:, 1] >= 0.9))
    assert covered > stats.binom.ppf(1e-6, replicates, 0.95) / replicates


def test_perfect_collinearity_without_noise_stays_finite():
    z = make()
    z[:, 2] = z[:, 1]
    fit = fit_gram(GramProblem(np.zeros((5, 5)), np.eye(4, 5), np.eye(5)[4]), (z.T @ z)[None], np.array([300.0]))
    assert np.all(np.isfinite(fit.params))
    assert fit.kappa[0] != 0


def test_both_ways_to_the_ends_of_an_interval_agree():
    rng = np.random.default_rng(10)
    z = make(n=3000)
    for noise in (equal_noise(5, 20.0), equal_noise(5, 2500.0)):
        grams = z.T @ z + symmetric_noise(rng, 40, noise)
        fit = fit_gram(GramProblem(noise, np.eye(4, 5), np.eye(5)[4]), grams, grams[:, 0, 0])
        clear = np.flatnonzero(fit.kappa >= 4)
        assert clear.size > 10
        ends, settled = _contracted_ends(taken(fit, clear), np.eye(4), 0.05)
        scanned = _scanned_ends(taken(fit, clear), np.eye(4), 0.05)
        assert np.all(settled)
        width = scanned[..., 1] - scanned[..., 0]
        np.testing.assert_allclose((ends - scanned) / width[..., None], 0, atol=1e-5)
