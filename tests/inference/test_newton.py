"""The combined score of noisy Newton rounds: its noise, its zero, its intervals."""

from dataclasses import replace

import numpy as np
import pytest
from dpinfer.inference.newton import Moments, Round, next_point, solve_rounds
from dpinfer.inference.newton_inference import NewtonInference
from dpinfer.inference.newton_rounds import Sums
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.numerics.responses import BINARY

WIDTH = 3
TRUE = np.array([-0.3, 0.8, -0.5])
SPREAD = np.linalg.inv(np.array([[0.4, 0.0, 0.1], [0.0, 0.5, 0.0], [0.1, 0.1, 0.3]]))


def noise_of(rng, scale, flat=False):
    entries = rng.laplace(0, scale / 2, (WIDTH, WIDTH)) if flat else rng.normal(0, scale / 2**0.5, (WIDTH, WIDTH))
    upper = np.triu(entries, 1)
    diagonal = np.diag(entries) * (1.0 if flat else 2**0.5)
    return upper + upper.T + np.diag(diagonal)


def design(seed, size):
    rng = np.random.default_rng(seed)
    columns = np.column_stack([np.ones(size), rng.uniform(-1, 1, size), rng.normal(0, 0.5, size)])
    return columns, rng.random(size) < BINARY["logit"].mean(columns @ TRUE)


def rounds_of(rng, columns, response, scales=(20.0, 6.0), points=None, flat=False):
    found = []
    for point in points if points is not None else (TRUE * 0.5, TRUE + 0.1):
        mean = BINARY["logit"].mean(columns @ point)
        z = columns @ np.linalg.inv(SPREAD).T
        score = z.T @ (response - mean) + rng.normal(0, scales[0], WIDTH)
        hessian = (z.T * (mean * (1 - mean))) @ z + noise_of(rng, scales[1], flat)
        given_scale = scales[1] / 2**0.5 if flat else scales[1]
        found.append(Round.released(point, score, hessian, SPREAD, (scales[0], given_scale), flat=flat))
    return found


def fit_of(seed=1, size=4000, scales=(20.0, 6.0)):
    columns, response = design(seed, size)
    rng = np.random.default_rng(seed)
    rounds = rounds_of(rng, columns, response, scales)
    mean = BINARY["logit"].mean(columns @ TRUE)
    meat = (columns.T * (mean * (1 - mean))) @ columns
    cov = np.cov(columns.T)
    return solve_rounds(
        rounds, BINARY["logit"], Moments(columns.mean(axis=0), cov), meat, start=rounds[-1].point, size=float(size)
    )


def estimates(fit, method="auto"):
    return NewtonInference(("a", "b", "c"), fit, np.eye(3), np.zeros(3), nobs=4000.0, method=method)


@pytest.mark.parametrize("flat", [False, True])
def test_noise_has_the_stated_covariance(flat):
    rng = np.random.default_rng(1)
    apart = np.array([0.3, -0.8, 0.5])
    one = Round.released(
        np.zeros(3), np.zeros(3), np.zeros((3, 3)), SPREAD, (2.0, 3.0 / (2**0.5 if flat else 1.0)), flat=flat
    )
    draws = [
        SPREAD @ rng.normal(0, 2.0, 3) - 0.7 * SPREAD @ noise_of(rng, 3.0, flat) @ SPREAD.T @ apart
        for _ in range(8_000)
    ]
    stated = Sums((one,), None, Moments(np.zeros(3), np.eye(3))).noise(apart, np.array([0.7]), np.ones(1))
    seen = np.cov(np.array(draws).T)
    assert np.abs(seen - stated).max() < 0.08 * np.abs(stated).max()


@pytest.mark.parametrize("flat", [False, True])
def test_a_direction_at_many_points_is_the_score_there(flat):
    columns, response = design(2, 500)
    rounds = tuple(rounds_of(np.random.default_rng(2), columns, response, flat=flat))
    fit = replace(fit_of(), rounds=rounds)
    thetas = np.random.default_rng(3).normal(0, 1, (5, 3))
    direction = np.array([1.0, -2.0, 0.5])
    values, variances = fit._sums.along(thetas, fit.weights, direction)
    for theta, value, variance in zip(thetas, values, variances, strict=True):
        slopes = fit._sums.slopes(theta[None])[0, :, 0]
        assert value == pytest.approx(direction @ fit._sums.score(theta, slopes, fit.weights))
        assert variance == pytest.approx(direction @ fit._sums.noise(theta, slopes, fit.weights) @ direction)


def test_the_combined_score_is_zero_at_the_estimate():
    fit = fit_of()
    slopes = fit._sums.slopes(fit.params[None])[0, :, 0]
    score = fit._sums.score(fit.params, slopes, fit.weights)
    assert np.abs(fit.inverse @ score).max() < 1e-8
    assert not fit.flagged
    assert fit.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("alpha", [0.01, 0.1])
@pytest.mark.parametrize("scales", [(20.0, 6.0), (20.0, 60.0)])
def test_the_score_interval_inverts_the_test(alpha, scales):
    found = estimates(fit_of(scales=scales), "score")
    rows = np.array([[0.0, 1.0, 0.0], [0.0, 1.0, -1.0], [1.0, 0.2, 0.0]])
    for row, (low, high) in zip(rows, found.intervals(rows, alpha), strict=True):
        centre = float(row @ found.params)
        assert low < centre < high
        for end in (low, high):
            if np.isfinite(end):
                beyond, within = end + 1e-4 * np.sign(end - centre), end - 1e-4 * np.sign(end - centre)
                assert found.contrast_pvalues(row, np.array([beyond]))[0] < alpha
                assert found.contrast_pvalues(row, np.array([within]))[0] > alpha * 0.99


def test_the_score_test_of_one_contrast_is_the_joint_test():
    fit = fit_of()
    row = np.array([0.0, 1.0, -1.0])
    one = fit.statistics(row, np.array([1.0]))[0]
    assert one**2 == pytest.approx(fit.joint_statistic(row[None], np.array([1.0])))
    statistic, count, pvalue = estimates(fit, "score").wald(row[None], np.array([1.0]))
    assert (statistic, count) == (pytest.approx(one**2), 1)
    assert pvalue == pytest.approx(2 * stats.norm.sf(one))


def test_both_methods_agree_where_noise_is_small():
    fit = fit_of(scales=(1.0, 0.3), size=20_000)
    wald, score = (estimates(fit, method).intervals(np.eye(3), 0.05) for method in ("wald", "score"))
    width = wald[:, 1] - wald[:, 0]
    assert np.abs(score - wald).max(axis=1) / width == pytest.approx(0, abs=0.06)


def test_noise_that_dominates_is_named():
    fit = fit_of(size=60, scales=(20.0, 20.0))
    found = estimates(fit)
    assert fit.flagged
    assert "privacy noise dominates" in found.flags[0]


def test_scores_are_tested_where_estimates_are_not_normal():
    clear, few = fit_of(size=20_000, scales=(5.0, 2.0)), fit_of(size=4000)
    assert not clear.bent
    assert not few.flagged
    assert few.bent
    assert estimates(clear).method == "wald"
    assert estimates(few).method == "score"


def test_a_round_that_disagrees_beyond_noise_counts_less():
    columns, response = design(3, 4000)
    rounds = rounds_of(np.random.default_rng(3), columns, response, (5.0, 2.0))
    wrong = replace(rounds[0], score=rounds[0].score + SPREAD @ np.array([60.0, 60.0, 60.0]))
    moments = Moments(columns.mean(axis=0), np.cov(columns.T))
    meat = np.eye(3)
    agree, differ = (
        solve_rounds(two, BINARY["logit"], moments, meat, start=TRUE + 0.1, size=4000.0)
        for two in (rounds, [wrong, rounds[1]])
    )
    assert agree.weights[0] > 0.1
    assert differ.weights[0] < 0.5 * agree.weights[0]
    assert differ.weights.sum() == pytest.approx(1)


@settings(max_examples=20, deadline=None)
@given(
    numbers=st.lists(st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1e-9, 1e5]), min_size=4, max_size=18),
    scale=st.sampled_from([1e-3, 1.0, 1e4]),
)
def test_any_numbers_give_an_estimate(numbers, scale):
    values = np.resize(numbers, 24)
    rounds = [
        Round.released(
            values[:3] * place / 1e6, values[3:6], np.outer(values[6:9], values[9:12]) * place, SPREAD, (scale, scale)
        )
        for place in (1, 2)
    ]
    moments = Moments(np.array([1.0, 0.1, 0.2]), np.diag([0.0, 1.0, 0.5]))
    for response in (None, *BINARY.values()):
        fit = solve_rounds(rounds, response, moments, np.eye(3), start=rounds[-1].point, size=10.0)
        scored = estimates(fit, "score")
        assert np.isfinite(fit.params).all()
        assert not np.isnan(scored.intervals(np.eye(3), 0.05)).any()
        assert not np.isnan(scored.contrast_pvalues(np.eye(3), np.zeros(3))).any()
        assert 0 <= scored.wald(np.eye(3), np.zeros(3))[2] <= 1
        assert not np.isnan(estimates(fit).intervals(np.eye(3), 0.05)).any()
        assert np.isfinite(next_point(rounds[0])).all()


@pytest.mark.slow
def test_score_intervals_cover():
    columns, _ = design(4, 1500)
    rng = np.random.default_rng(5)
    mean = BINARY["logit"].mean(columns @ TRUE)
    meat = (columns.T * (mean * (1 - mean))) @ columns
    moments = Moments(columns.mean(axis=0), np.cov(columns.T))
    covered = []
    for _ in range(300):
        response = rng.random(len(mean)) < mean
        rounds = rounds_of(rng, columns, response, (30.0, 9.0))
        fit = solve_rounds(rounds, BINARY["logit"], moments, meat, start=rounds[-1].point, size=1500.0)
        for method in ("wald", "score"):
            ends = estimates(fit, method).intervals(np.eye(3), 0.05)
            covered.append((ends[:, 0] <= TRUE) & (ends[:, 1] >= TRUE))
    assert np.mean(covered) > 0.93
