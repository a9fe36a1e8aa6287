"""The multivariate normal by clamped moments: quadrature, maximum likelihood, edges, and noise that tells nothing."""

from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import dpinfer as dpi
from dpinfer.families.multinormal import clamped_product, estimate_multinormal
from dpinfer.statistics.inference import Released
from dpinfer.statistics.moment_inference import intervals, pvalues
from dpinfer.statistics.moments import MomentSums


def table(columns):
    """Powers of the monomials 1, u_i, u_i u_j, and the released features (2 u_i^2 - 1 for a square) behind them."""
    unit = np.eye(columns + 1, dtype=int)[:columns]
    pairs = list(combinations_with_replacement(range(columns), 2))
    exponents = [unit[0] * 0, *unit, *(unit[i] + unit[j] for i, j in pairs)]
    mixing = np.eye(len(exponents))
    for place, (i, j) in enumerate(pairs, 1 + columns):
        if i == j:
            mixing[place, [0, place]] = 0.5
    return tuple(tuple(int(power) for power in one) for one in exponents), mixing


def sums_of(u, noise=0.0, *, releases=None, laplace=False):
    """Sums of clamped rows (n, k) with noise of one standard deviation in every released feature."""
    exponents, mixing = table(u.shape[1])
    clamped = np.clip(u, -1, 1)
    values = np.stack([np.prod(clamped ** np.array(one[:-1]), axis=1) for one in exponents], axis=1).sum(axis=0)
    if releases is not None:
        values = values + releases @ mixing.T
    variances = np.full(len(exponents), noise**2)
    return MomentSums(exponents, np.atleast_2d(values)[:, None], mixing, variances, laplace)


def fit(sums, *, population=True):
    return estimate_multinormal(sums, population=population)


def rows(mean, sd, correlation, n, seed=0):
    root = np.linalg.cholesky(np.array(correlation, dtype=float))
    return mean + np.random.default_rng(seed).normal(size=(n, len(mean))) @ root.T * sd


# The expected product


def brute_force(mean, sd, rho):
    z = np.linspace(-8.5, 8.5, 2401)
    weight = stats.norm.pdf(z) * (z[1] - z[0])
    first = np.clip(mean[0] + sd[0] * z, -1, 1) * weight
    second = mean[1] + sd[1] * (rho * z[:, None] + np.sqrt(1 - rho**2) * z)
    return first @ (np.clip(second, -1, 1) @ weight)


@pytest.mark.parametrize(
    ("mean", "sd", "rho"),
    [
        ((0.3, -0.2), (0.5, 0.4), 0.5),
        ((0.9, -0.7), (1.2, 0.4), -0.8),
        ((2.0, -3.0), (0.5, 2.0), 0.95),
        ((0.0, 0.0), (5.0, 0.2), -0.3),
        ((-1.0, 1.0), (0.05, 0.05), 0.9),
    ],
)
def test_the_expected_product_agrees_with_brute_force(mean, sd, rho):
    found = clamped_product(np.array([mean]), np.array([sd]), np.array([rho]))[0]
    assert found == pytest.approx(brute_force(mean, sd, rho), abs=2e-5)
    swapped = clamped_product(np.array([mean[::-1]]), np.array([sd[::-1]]), np.array([rho]))[0]
    assert found == pytest.approx(swapped, abs=1e-7)


def test_known_expected_products():
    wide = clamped_product(np.array([[0.2, -0.3]]), np.array([[0.05, 0.08]]), np.array([-0.7]))[0]
    assert wide == pytest.approx(0.2 * -0.3 - 0.7 * 0.05 * 0.08, abs=1e-12)
    signs = clamped_product(np.zeros((1, 2)), np.full((1, 2), 1e6), np.array([0.5]))[0]
    assert signs == pytest.approx(2 / np.pi * np.arcsin(0.5), abs=1e-5)
    mean, sd = np.array([[0.4, -0.6]]), np.array([[0.9, 1.5]])
    low, high = (-1 - mean) / sd, (1 - mean) / sd
    alone = mean * (special.ndtr(high) - special.ndtr(low)) - sd * (stats.norm.pdf(high) - stats.norm.pdf(low))
    alone += special.ndtr(-high) - special.ndtr(low)
    assert clamped_product(mean, sd, np.zeros(1))[0] == pytest.approx(alone.prod(), abs=1e-9)


def test_the_expected_product_grows_with_the_correlation():
    rho = np.linspace(-0.9999, 0.9999, 201)
    for mean, sd in (((0.0, 0.0), (1.0, 1.0)), ((0.9, -0.2), (0.3, 3.0)), ((-2.0, 1.0), (1.0, 1.0))):
        found = clamped_product(np.tile(mean, (201, 1)), np.tile(sd, (201, 1)), rho)
        assert (np.diff(found) > -1e-9).all()
        assert found[-1] > found[0]


# Estimates

THREE = [[1, 0.6, -0.3], [0.6, 1, 0.2], [-0.3, 0.2, 1]]


@pytest.mark.parametrize("columns", [2, 3])
def test_without_noise_and_clamping_estimates_are_maximum_likelihood(columns):
    n, correlation = 800, np.array(THREE)[:columns, :columns]
    u = rows(np.array([0.1, -0.3, 0.2])[:columns], np.array([0.1, 0.15, 0.05])[:columns], correlation, n)
    found, related = fit(sums_of(u)), np.corrcoef(u.T)[np.triu_indices(columns, 1)]
    expected = np.concatenate([u.mean(axis=0), u.std(axis=0), related])
    np.testing.assert_allclose(found.value[0, 0], expected, rtol=1e-5, atol=1e-6)
    assert not found.flagged.any()
    variance = np.concatenate([u.var(axis=0), u.var(axis=0) / 2, (1 - related**2) ** 2]) / n
    np.testing.assert_allclose(found.sampling[0, 0].diagonal(), variance, rtol=0.06)  # by quasi-random points
    assert (found.noise == 0).all()


@pytest.mark.parametrize("rho", [-0.95, 0.0, 0.95, 0.999])
def test_clamping_a_third_of_the_values_costs_no_bias(rho):
    """Estimates within five standard errors of the truth; false alarm below 3e-6 a case."""
    truth = np.array([0.5, -0.4, 1.0, 1.3, rho])
    u = rows(truth[:2], truth[2:4], [[1, rho], [rho, 1]], 200_000, seed=3)
    assert (np.abs(u) > 1).mean() > 0.3
    found = fit(sums_of(u))
    error = np.sqrt(found.sampling[0, 0].diagonal())
    assert (np.abs(found.value[0, 0] - truth) < 5 * error).all()
    assert (error[:4] < 0.01).all()
    assert not found.flagged.any()


@pytest.mark.parametrize("clamped", [False, True])
def test_noise_spreads_estimates_as_told(clamped):
    """250 releases: a standard deviation within 22% (five standard errors, false alarm about 3e-6)."""
    mean, sd, width = np.array([0.2, -0.1]), np.array([0.3, 0.2]) * (4 if clamped else 1), 6
    u = rows(mean, sd, [[1, 0.5], [0.5, 1]], 4000, seed=1)
    drawn = np.random.default_rng(2).normal(scale=8.0, size=(250, width))
    told = np.sqrt(fit(sums_of(u, 8.0), population=False).noise[0, 0].diagonal())
    spread = fit(sums_of(u, 8.0, releases=drawn), population=False)
    assert (spread.sampling[~spread.few[:, 0]] == 0).all()
    np.testing.assert_allclose(spread.value[:, 0].std(axis=0), told, rtol=0.22)


def test_releases_are_estimated_alone():
    u = rows([0.2, -0.1, 0.0], [0.6, 0.5, 0.4], THREE, 500)
    drawn = np.random.default_rng(5).normal(scale=20.0, size=(4, 10))
    together = fit(sums_of(u, 20.0, releases=drawn))
    for place, one in enumerate(drawn):
        alone = fit(sums_of(u, 20.0, releases=one[None]))
        for name in ("value", "sampling", "noise", "df", "few", "edge"):
            np.testing.assert_allclose(getattr(together, name)[place], getattr(alone, name)[0], rtol=1e-6, atol=1e-9)


# Edges and noise that dominates


def test_an_impossible_product_moves_the_correlation_alone():
    u = rows([0.0, 0.0], [0.3, 0.3], [[1, 0.5], [0.5, 1]], 1000)
    for sign in (-1.0, 1.0):
        found = fit(sums_of(u, 3.0, releases=np.array([[0, 0, 0, 0, sign * 200.0, 0]])))
        assert found.edge[0, 0].tolist() == [False, False, False, False, True]
        assert found.value[0, 0, 4] == pytest.approx(sign, abs=2e-4)
        assert not found.few.any()
        assert found.flagged[0]
        ends = intervals(found, 0.05)[0, 0, 4]
        assert -1 <= ends[0] <= found.value[0, 0, 4] <= ends[1] <= 1


def test_impossible_squares_move_a_column_and_its_correlations():
    u = rows([0.0, 0.0, 0.0], [0.3, 0.3, 0.3], THREE, 1000)
    beyond = np.zeros((1, 10))
    beyond[0, table(3)[0].index((0, 2, 0, 0))] = -3000.0
    found = fit(sums_of(u, 3.0, releases=beyond))
    assert found.edge[0, 0].tolist() == [False, True, False, False, True, False, True, False, True]
    assert found.few.all()
    ends = intervals(found, 0.05)[0, 0]
    assert (ends == np.array([[-np.inf, np.inf]] * 3 + [[0, np.inf]] * 3 + [[-1, 1]] * 3)).all()


@pytest.mark.slow
@pytest.mark.parametrize("population", [False, True])
@pytest.mark.parametrize("columns", [2, 3])
def test_noise_that_dominates_gives_whole_ranges_and_never_an_exception(columns, population):
    width = len(table(columns)[0])
    rng = np.random.default_rng(4)
    u = rng.uniform(-1, 1, (20, columns))
    for scale in (10.0, 1e4):
        found = fit(sums_of(u, scale, releases=rng.normal(scale=scale, size=(40, width))), population=population)
        for part in (found.value, found.sampling, found.noise, found.mixing):
            assert np.isfinite(part).all()
        total = found.sampling + found.noise
        spread = np.sqrt(np.diagonal(total, axis1=-2, axis2=-1))
        assert (spread > 0).all()
        assert np.linalg.eigvalsh(total / spread[..., None] / spread[..., None, :]).min() > 0
        for method in ("score", "wald"):
            ends = intervals(found, 0.05, method=method)
            assert (ends[..., 0] <= found.value).all()
            assert (found.value <= ends[..., 1]).all()
            unknown = ends[found.few]
            assert (unknown[..., 0] == found.lower).all()
            assert (unknown[..., 1] == found.upper).all()
            chances = pvalues(found, 0.0, method=method)
            assert ((chances >= 0) & (chances <= 1)).all()
        assert found.flagged.all() if scale > 100 else found.flagged.mean() > 0.9
        assert found.few.mean() > (0.95 if scale > 100 else 0.5)


def test_intervals_of_flagged_releases_cover():
    """200 releases of 300 rows, mostly noise: at 95% at least 177 cover (false alarm 7e-5 a parameter)."""
    truth = np.array([0.1, -0.2, 0.4, 0.3, 0.6])
    rng = np.random.default_rng(8)
    drawn = rng.normal(scale=30.0, size=(200, 1, 6))
    samples = [rows(truth[:2], truth[2:4], [[1, 0.6], [0.6, 1]], 300, seed=one) for one in range(200)]
    parts = [sums_of(u, 30.0, releases=one) for u, one in zip(samples, drawn, strict=True)]
    found = fit(replace(parts[0], values=np.concatenate([part.values for part in parts])))  # noqa: PD011
    assert found.flagged.mean() > 0.5
    for method in ("score", "wald"):
        ends = intervals(found, 0.05, method=method)[:, 0]
        covered = ((ends[..., 0] <= truth) & (truth <= ends[..., 1])).sum(axis=0)
        assert (covered >= 177).all(), (method, covered)


def test_the_oracles_signal_halves_where_noise_doubles():
    u = rows([0.2, -0.1], [0.3, 0.2], [[1, 0.5], [0.5, 1]], 2000)
    schema = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Real(-1, 1))
    data = dpi.PublicData(pd.DataFrame(u, columns=["x", "y"]), schema, rng=np.random.default_rng(0))
    asked = dpi.expfam(["x", "y"], data, target="data")
    values = asked.measure(dpi.ZCDP(1e12)).array[None]
    loud, quiet = (Released.of_study(asked.measurement(dpi.ZCDP(price)), values) for price in (0.1, 0.4))
    kappa = asked.oracle(quiet, sampling=np.ones(5)).kappa
    assert kappa == pytest.approx(2 * asked.oracle(loud, sampling=np.ones(5)).kappa, rel=1e-6)
    found = asked.estimate(quiet)
    noise, sd, rho = found.bse[0], found.params[0, 2:4], found.params[0, 4]
    assert kappa == pytest.approx(
        min((sd / 4 / noise[:2]).min(), (sd / 4 / noise[2:4]).min(), (1 - rho**2) / 4 / noise[4])
    )
