"""Exponential families: estimates, the score, Wald and simulated methods, and many releases at once."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

from dpinfer.errors import InferenceError, OptionError
from dpinfer.families.distributions import (
    Bernoulli,
    Beta,
    Binomial,
    Exponential,
    Family,
    Gamma,
    Lognormal,
    Normal,
    Poisson,
)
from dpinfer.families.estimation import SumNoise, estimate, influence, simulated
from dpinfer.families.inference import degrees_of_freedom, family_inference, oracle, score_root
from dpinfer.privacy import ZCDP
from dpinfer.privacy.accounting import Cost
from dpinfer.release import Release
from dpinfer.release.laws import NoiseLaw, StageRelease
from dpinfer.schema import Real, Schema
from tests.families.drawn import STEP, batched, draw, fitted, interval, pose, pvalue

if TYPE_CHECKING:
    from dpinfer.statistics.inference import Inference


def release(values, law, steps):
    return Release(
        kind="family",
        question={"text": "normal(v)", "schema": Schema(v=Real(0, 1)).to_dict()},
        stages=(
            StageRelease(
                names=tuple(f"s{index}" for index in range(len(steps))),
                values=tuple(round(value / step) for value, step in zip(values, steps, strict=True)),
                steps=tuple(steps),
                law=law,
            ),
        ),
        cost=Cost(ZCDP(0.5)),
        neighbors="replace_one",
        nobs=None,
        charge_ids=(),
        public=True,
    )


def inferred(released, problem, *, method="auto", target="population", replicates=999):
    """Inference from one release."""
    drawn = {"problem": problem, "law": released.law, "steps": released.steps, "target": target}
    return family_inference(released, fitted(released.array[None], **drawn), method, replicates, 0)


@pytest.mark.parametrize(
    ("family", "bounds", "fit"),
    [
        (Normal(), (-100.0, 100.0), lambda x: (x.mean(), x.std())),
        (Lognormal(), (1e-6, 1e6), lambda x: (np.log(x).mean(), np.log(x).std())),
        (Exponential(), (0.0, 1000.0), lambda x: (x.mean(),)),
        (Gamma(), (1e-6, 1000.0), lambda x: stats.gamma.fit(x, floc=0)[::2]),
        (Beta(), (1e-9, 1 - 1e-9), lambda x: stats.beta.fit(x, floc=0, fscale=1)[:2]),
        (Poisson(), (0, 1000), lambda x: (x.mean(),)),
        (Binomial(10), (0, 10), lambda x: (x.mean() / 10,)),
    ],
)
def test_without_noise_and_clamping_the_estimate_is_maximum_likelihood(family, bounds, fit):
    truth = {"poisson": (3.0,), "binomial": (0.4,), "exponential": (2.0,), "lognormal": (1.0, 0.5)}
    problem, rng = pose(family, *bounds), np.random.default_rng(1)
    x = problem.sample(np.array(truth.get(family.name, (2.0, 3.0))), (400,), rng)
    sums = problem.features(x).sum(axis=0)
    found = estimate(problem, SumNoise(np.zeros(len(sums))), sums[None], np.array([400.0]))
    np.testing.assert_allclose(found.params[0], fit(x), rtol=2e-5)
    assert not found.edge[0]


def test_clamping_costs_no_bias():
    problem = pose(Normal(), -0.5, 1.5)
    values, law, _steps = draw(problem, (1.0, 1.0), 4000, 300, seed=2, scale=2.0)
    found = estimate(problem, SumNoise(law.variances[1:] * STEP**2), values[:, 1:], values[:, 0])
    total = found.cov_sampling + found.cov_noise
    error = np.sqrt(np.diagonal(total, axis1=1, axis2=2).mean(axis=0))
    assert np.all(np.abs(found.eta.mean(axis=0) - [1.0, 0.0]) < 5 * error / np.sqrt(300))  # false alarm 1e-6
    np.testing.assert_allclose(found.eta.std(axis=0), error, rtol=0.2)


def test_sampling_and_noise_covariances_are_those_of_the_formula():
    problem, n = pose(Normal(), 0.0, 3.0), 500.0
    noise = SumNoise(np.array([9.0, 4.0]), 5.0)
    moments = problem.moments(np.array([[1.0, 1.0]]))
    found = estimate(problem, noise, n * moments.mean, np.array([n]))
    np.testing.assert_allclose(found.params, [[1.0, 1.0]], rtol=1e-8)
    inverse = np.linalg.inv(moments.jacobian[0])
    slope = found.slope[0]
    sampling = inverse @ moments.cov[0] @ inverse.T / n
    outer = np.outer(moments.mean[0], moments.mean[0])
    noisy = inverse @ (np.diag(noise.variances) + noise.count_variance * outer) @ inverse.T / n**2
    np.testing.assert_allclose(found.cov_sampling[0] * np.outer(slope, slope), sampling, rtol=1e-6)
    np.testing.assert_allclose(found.cov_noise[0] * np.outer(slope, slope), noisy, rtol=1e-5)
    data = estimate(problem, replace(noise, population=False), n * moments.mean, np.array([n]))
    assert np.all(data.cov_sampling == 0)
    np.testing.assert_allclose(data.cov_noise, found.cov_noise, rtol=1e-5)


@pytest.mark.slow
def test_impossible_sums_give_a_finite_flagged_estimate_and_an_honest_interval():
    problem = pose(Gamma(), 0.1, 20.0)
    rng = np.random.default_rng(3)
    sums = rng.normal(size=(40, 2)) * 60
    count = np.concatenate([np.full(20, 30.0), rng.normal(size=20) * 30])
    found = estimate(problem, SumNoise(np.array([900.0, 900.0]), 900.0), sums, count)
    assert found.edge.mean() > 0.5
    assert all(np.isfinite(part).all() for part in (found.eta, found.cov_sampling, found.cov_noise, found.kappa))
    assert np.linalg.eigvalsh(found.cov_sampling + found.cov_noise).min() > 0
    assert np.all(found.flagged)
    for index in range(2):
        for method in ("score", "wald"):
            ends = interval(found, index, 0.05, method)
            assert not np.isnan(ends).any()
            assert np.all(ends[:, 0] <= found.params[:, index] * (1 + 1e-9))
            assert np.all(ends[:, 1] >= found.params[:, index] * (1 - 1e-9))
            assert np.all(ends[:, 0] >= 0)
        for value in (0.0, -1.0, 5.0):
            for method in ("score", "wald"):
                chance = pvalue(found, index, value, method)
                assert np.all((chance >= 0) & (chance <= 1))


def test_all_rows_at_a_bound_give_an_open_interval():
    problem = pose(Exponential(), 0.0, 10.0)
    found = estimate(problem, SumNoise(np.array([1.0])), np.array([[100.0]]), np.array([100.0]))
    ends = interval(found, 0, 0.05)[0]
    assert found.edge[0]
    assert ends[1] == np.inf
    assert 100 < ends[0] < 1e6


def test_the_score_interval_holds_the_values_that_are_not_rejected():
    problem = pose(Gamma(), 0.2, 30.0)
    for family in ("gaussian", "laplace"):
        values, law, steps = draw(problem, (2.0, 3.0), 600, 6, seed=4, scale=3.0, count_scale=2.0, family=family)
        found = fitted(values, problem=problem, law=law, steps=steps)
        for index in range(2):
            ends = interval(found, index, 0.1)
            for side in range(2):
                np.testing.assert_allclose(pvalue(found, index, ends[:, side]), 0.1, rtol=2e-2)
            np.testing.assert_allclose(pvalue(found, index, found.params[:, index]), 1.0, atol=1e-5)


def test_a_bernoulli_score_interval_without_noise_is_wilsons():
    problem = pose(Bernoulli(), 0, 1)
    found = estimate(problem, SumNoise(np.zeros(1)), np.array([[2 * 13.0 - 60.0]]), np.array([60.0]))
    expected = stats.binomtest(13, 60).proportion_ci(method="wilson")
    np.testing.assert_allclose(interval(found, 0, 0.05)[0], expected, rtol=1e-5)


def test_a_normal_mean_has_the_degrees_of_freedom_of_its_variance():
    problem = pose(Normal(), -50.0, 50.0)
    values, _, _ = draw(problem, (1.0, 1.0), 50, 3, seed=5)
    found = estimate(problem, SumNoise(np.zeros(2)), values[:, 1:], values[:, 0])
    np.testing.assert_allclose(degrees_of_freedom(found, 0), 50, rtol=0.02)
    assert np.all(degrees_of_freedom(found, 1) > 1e4)


def test_the_root_is_zero_at_the_estimate_and_falls():
    problem = pose(Beta(), 0.05, 0.95)
    values, law, _ = draw(problem, (2.0, 3.0), 800, 4, seed=6, scale=2.0)
    found = estimate(problem, SumNoise(law.variances[1:] * STEP**2), values[:, 1:], values[:, 0])
    error = np.sqrt((found.cov_sampling + found.cov_noise)[:, 0, 0])
    roots = [score_root(found, 0, found.eta[:, 0] + shift * error).value for shift in (-2.0, 0.0, 2.0)]
    np.testing.assert_allclose(roots[1], 0.0, atol=1e-6)
    np.testing.assert_allclose(roots[0], 2.0, atol=0.3)
    np.testing.assert_allclose(roots[2], -2.0, atol=0.3)


def spread_without_noise(problem, theta, n, contrasts=None):
    """Variances of estimates of 1,000 data sets without noise, by simulation: within 14% (three standard errors)."""
    values, law, steps = draw(problem, theta, n, 1000, seed=77, scale=1e-6, count_scale=1e-6)
    return batched(values, problem=problem, law=law, steps=steps, method="wald", contrasts=contrasts).params.var(axis=0)


def cover(intervals, truth):
    return ((intervals[..., 0] <= truth) & (truth <= intervals[..., 1])).mean(axis=0)


@pytest.mark.parametrize(("upper", "widest"), [(10, 6.07), (100, 7.31)])
def test_published_exponential_designs_are_covered_more_narrowly(upper, widest):
    problem = pose(Exponential(), 0.0, float(upper))
    values, law, steps = draw(problem, (10.0,), 100, 2500, seed=9, scale=2.0, family="laplace")
    found = batched(values, problem=problem, law=law, steps=steps)
    assert np.all(cover(found.intervals, [10.0]) > 0.933)  # false alarm 5e-5 at 95%
    assert np.diff(found.intervals).mean() < 1.01 * widest
    expected = 100 * problem.moments(np.array([[10.0]])).mean[0]
    known = fitted(np.array([[100.0, *expected]]), problem=problem, law=law, steps=steps, target="data")
    told = oracle(known, sampling=spread_without_noise(problem, (10.0,), 100), alpha=0.05)
    assert np.diff(found.intervals).mean() < 1.1 * 2 * told.halfwidth[0]
    assert told.ordinary[0] < told.halfwidth[0]


@pytest.mark.slow
def test_coverage_holds_where_noise_dominates():
    problem = pose(Gamma(), 0.05, 40.0)
    values, law, steps = draw(problem, (2.0, 3.0), 50, 500, seed=10, scale=4.0, count_scale=4.0)
    found = batched(values, problem=problem, law=law, steps=steps)
    assert np.all(cover(found.intervals, [2.0, 3.0]) > 0.915)  # false alarm 3e-4 at 95%
    assert np.isinf(found.intervals).any()
    assert found.flagged.mean() > 0.9


def test_the_oracle_knows_the_spread_of_the_estimates():
    problem = pose(Lognormal(), 0.5, 12.0)
    values, law, steps = draw(problem, (1.0, 0.5), 2000, 400, seed=11, scale=5.0, count_scale=5.0)
    expected = 2000 * problem.moments(np.array([[1.0, 0.5]])).mean[0]
    contrasts = {"sum": {"meanlog": 1.0, "sdlog": 1.0}}
    drawn = {"problem": problem, "law": law, "steps": steps}
    sampling = spread_without_noise(problem, (1.0, 0.5), 2000, contrasts)
    known = fitted(np.array([[2000.0, *expected]]), **drawn, target="data")
    told = oracle(known, sampling=sampling, alpha=0.05, contrasts=contrasts)
    found = batched(values, **drawn, method="wald", contrasts=contrasts)
    np.testing.assert_allclose(told.halfwidth / stats.norm.isf(0.025), found.params.std(axis=0), rtol=0.15)
    assert told.kappa > 3


@pytest.fixture(scope="module")
def inference():
    problem = pose(Gamma(), 0.2, 30.0)
    values, law, steps = draw(problem, (2.0, 3.0), 400, 1, seed=12, scale=2.0, count_scale=2.0)
    return inferred(release(values[0], law, steps), problem, replicates=199)


def test_one_release_offers_the_whole_inference(inference):
    checked: Inference = inference
    assert checked.names == ("shape", "scale")
    assert checked.method == "score"
    assert checked.target == "population"
    assert checked.flags == ()
    assert not checked.nobs_is_public
    assert checked.nobs == pytest.approx(400, abs=10)
    assert checked.df_resid == np.inf
    assert checked.scale is None
    assert checked.rsquared is None
    eigenvalues = np.linalg.eigvalsh(checked.cov_sampling + checked.cov_noise)
    assert eigenvalues.min() > 0
    statistic, df, pvalue = checked.wald(np.eye(2), checked.params)
    assert (statistic, df, pvalue) == (0.0, 2.0, 1.0)
    with pytest.raises(InferenceError, match="dependent"):
        checked.wald(np.ones((2, 2)), np.zeros(2))
    with pytest.raises(OptionError, match="inference"):
        checked.with_method("exact")


@pytest.mark.parametrize("method", ["wald", "score", "simulated"])
def test_intervals_and_pvalues_agree_under_every_method(inference, method):
    chosen = inference.with_method(method)
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [-2.0, 0.0], [1.0, 1.0]])
    ends = chosen.intervals(rows, 0.1)
    assert np.all(ends[:, 0] < rows @ chosen.params)
    assert np.all(rows @ chosen.params < ends[:, 1])
    np.testing.assert_allclose(ends[2], -2 * ends[0, ::-1])
    width = np.diff(ends)[:, 0]
    for side, sign in ((0, -1), (1, 1)):
        within = chosen.contrast_pvalues(rows, ends[:, side] - sign * 0.02 * width)
        beyond = chosen.contrast_pvalues(rows, ends[:, side] + sign * 0.02 * width)
        assert np.all(within >= 0.1)
        assert np.all(beyond <= 0.1)
    zero = chosen.contrast_pvalues(np.eye(2), np.zeros(2))
    assert np.all((zero >= 0) & (zero < 0.02))


def test_methods_agree_where_there_is_much_data(inference):
    ends = [inference.with_method(method).intervals(np.eye(2), 0.05) for method in ("wald", "score", "simulated")]
    width = np.diff(ends[0])[:, 0]
    for other in ends[1:]:
        assert np.all(np.abs(other - ends[0]) < 0.25 * width[:, None])


def test_flags_are_sentences():
    problem = pose(Exponential(), 0.0, 10.0)
    law = NoiseLaw("gaussian", (30 / STEP, 30 / STEP))
    values = (20.0, 40.0)
    found = inferred(release(values, law, (STEP, STEP)), problem)
    assert len(found.flags) == 4
    assert found.flags[0].startswith("not determined: mean;")
    assert "boundary" in found.flags[1]
    assert "noise" in found.flags[2]
    assert "rows" in found.flags[3]


def test_the_target_data_counts_noise_only():
    problem = pose(Poisson(), 0, 12)
    values, law, steps = draw(problem, (3.0,), 300, 1, seed=13, scale=3.0)
    one = release(values[0], law, steps)
    population = inferred(one, problem)
    data = inferred(one, problem, target="data")
    assert data.cov_sampling == 0
    assert np.diff(data.intervals(np.eye(1), 0.05))[0, 0] < 0.6 * np.diff(population.intervals(np.eye(1), 0.05))[0, 0]
    simulated = data.with_method("simulated").intervals(np.eye(1), 0.05)
    np.testing.assert_allclose(simulated, data.intervals(np.eye(1), 0.05), rtol=0.02)


def test_simulated_releases_have_the_models_spread():
    problem = pose(Normal(), 0.0, 3.0)
    for n in (200, 40_000):
        values, law, steps = draw(problem, (1.0, 1.0), n, 1, seed=14, scale=2.0, count_scale=2.0)
        fit = fitted(values, problem=problem, law=law, steps=steps)
        again = simulated(fit, law, steps, 300, np.random.default_rng(0))
        stated = np.sqrt(np.diagonal((fit.cov_sampling + fit.cov_noise)[0]))
        np.testing.assert_allclose(again.eta.std(axis=0), stated, rtol=0.2)


def test_a_family_of_ones_own_is_estimated():
    own = Family(
        "own_weibull",
        parameters={"rate": (0, np.inf)},
        statistics=("x**2",),
        log_density=lambda x, rate: np.log(x) - rate * x**2,
        support=(0, np.inf),
    )
    problem = pose(own, 0, 2)
    values, law, steps = draw(problem, (0.8,), 2000, 30, seed=15, scale=2.0)
    found = batched(values, problem=problem, law=law, steps=steps)
    assert abs(found.params.mean() - 0.8) < 5 * found.bse.mean() / np.sqrt(30)  # false alarm 1e-6
    assert cover(found.intervals, [0.8])[0] > 0.7


def test_covariances_are_positive_definite_even_without_information():
    total = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    weights, cov = influence(np.zeros((1, 2, 2)), total, np.array([10.0]), np.array([4.0, 4.0]))
    assert np.all(weights == 0)
    assert np.linalg.eigvalsh(cov[0]).min() > 0
