"""Robust regressions by iterations: prices that no row exceeds, agreement with statsmodels, coverage, hostile noise."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression import models
from dpinfer.regression.models import ResidualLaw, residual_cuts
from dpinfer.regression.question import Newton
from validation.regression.newton_draws import Drawer

BOUNDS = dpi.Schema(x=dpi.Real(-1, 1), b=dpi.Boolean(), y=dpi.Real(-12, 12))
KEPT = dpi.Schema(
    x=dpi.Real(-1, 1, missing=0, impossible=0),
    b=dpi.Boolean(missing=False, impossible=False),
    y=dpi.Real(-12, 12, missing=0, impossible=0),
)
TRUE = np.array([1.0, 2.0, -0.5])
MODELS = {
    "huber": Newton(formula="y ~ x + b", model="huber"),
    "median": Newton(formula="y ~ x + b", model="quantile", parameter=0.5),
    "tail": Newton(formula="y ~ x + b", model="quantile", parameter=0.1),
}
PRICES = (dpi.ZCDP(0.5), dpi.GDP(1.0), dpi.PureDP(2.0), dpi.ApproxDP(2.0, 1e-6))


def rows_of(n, seed=1, errors="normal"):
    rng = np.random.default_rng(seed)
    x, b = rng.uniform(-1, 1, n), rng.random(n) < 0.4
    noise = {"normal": rng.normal(size=n), "exponential": rng.exponential(size=n) - 1}[errors]
    columns = np.column_stack([np.ones(n), x, b])
    return columns, {"x": x, "b": b, "y": columns @ TRUE + noise}


@cache
def drawer_of(name, price, neighbors="add_remove", n=None):
    schema = BOUNDS if neighbors == "add_remove" else KEPT
    return Drawer(MODELS[name], Context(schema, neighbors, price, nobs=n))


# The law of residuals


@pytest.mark.parametrize("law", [stats.norm(), stats.expon(-1), stats.t(3)])
def test_scale_and_quantiles_are_read_from_counts(law):
    positive = 2.0 ** (np.arange(-8, 51) / 2)
    cuts = np.concatenate([-positive[::-1], positive])
    counts = np.diff(np.concatenate([[0.0], law.cdf(cuts), [1.0]])) * 1e6
    read = ResidualLaw.of(counts, cuts, 0.01)
    points = law.ppf((np.arange(100_000) + 0.5) / 100_000)
    theirs = sm.RLM(points, np.ones(len(points))).fit(maxiter=100)
    found, centre = read.huber(1.345, 1.0, 1e4)
    scale = found["cut"] / 1.345
    assert centre == pytest.approx(theirs.params[0], abs=0.01)
    assert scale == pytest.approx(theirs.scale, rel=0.01)
    for q in (0.1, 0.5, 0.9):
        assert read.quantile(q) == pytest.approx(law.ppf(q), abs=0.05)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.0, 1e-3, 1.0, 1e3, 1e9]))
def test_any_counts_give_finite_tuning(seed, scale):
    rng = np.random.default_rng(seed)
    positive = 2.0 ** (np.arange(-8, 51) / 2)
    cuts = np.concatenate([-positive[::-1], positive])
    read = ResidualLaw.of(rng.normal(size=len(cuts) + 1) * scale, cuts, scale * rng.choice([0.1, 1.0]))
    tuned, centre = read.huber(1.345, 1.0, 1e4)
    smoothed, _ = read.smoothing(0.3, 0.01, 10.0 ** rng.uniform(-3, 5), 5)
    found = [
        *tuned.values(),
        *smoothed.values(),
        centre,
        read.quantile(0.01),
        read.quantile(0.99),
        read.density(0.0, 0.3),
    ]
    assert np.isfinite([*found, *read.points]).all()


@pytest.mark.parametrize("q", [0.42, 0.44, 0.46, 0.5])
def test_smoothing_moves_a_quantile_by_a_fraction_of_a_standard_error(q):
    """The density is three times as high on one side of 0: the bandwidth of the Hessian would move it further."""
    n, share = 20_000, (np.arange(200_000) + 0.5) / 200_000
    residuals = np.where(share < 0.4, share / 0.4 - 1, (share - 0.4) / 1.2)
    cuts = residual_cuts()
    counts = np.histogram(residuals, [-1e9, *cuts, 1e9])[0] * n / len(residuals)
    found, _ = ResidualLaw.of(counts, cuts, 0.01).smoothing(q, 1e-4, n, 4)

    def moved(settings):
        score = models.MODELS["quantile"].curves(settings | {"peak": 1.0}, q).score
        at = optimize.brentq(lambda one: score(residuals - one).mean(), -0.9, 0.4)
        return abs(at - np.quantile(residuals, q)) / (np.sqrt(q * (1 - q) / n) / 1.2)

    assert moved(found) < 0.25
    assert moved(found | {"score_cut": found["cut"]}) > moved(found) + 0.2


@pytest.mark.parametrize("law", [stats.norm(), stats.expon(-1), stats.lognorm(1, -1.65)])
@pytest.mark.parametrize("q", [0.1, 0.5, 0.9, 0.95])
@pytest.mark.parametrize("steadiness", [1e-3, 0.01])
def test_the_hessian_of_a_quantile_is_the_derivative_of_its_score(law, q, steadiness):
    """To a tenth, also where noise makes it wide: the last step is neither cut short nor too long."""
    cuts = residual_cuts()
    counts = np.diff(np.concatenate([[0.0], law.cdf(cuts), [1.0]])) * 2000
    read = ResidualLaw.of(counts, cuts, 0.01)
    found, move = read.smoothing(q, steadiness, 2000, 4)
    curves, points = models.MODELS["quantile"].curves(found, q), law.ppf((np.arange(400_000) + 0.5) / 400_000) - move
    by = found["score_cut"] / 4
    slope = (curves.score(points + by) - curves.score(points - by)).mean() * curves.size / (2 * by)
    assert 0.9 < curves.hessian(points).mean() * curves.factor / slope < 1.1


def test_no_quantile_is_far_from_the_others_where_the_hessian_is_too_small():
    """Skewed responses that spread with the regressors: a step by the released Hessian led back beyond its start."""
    size, schema = 2000, dpi.Schema(x=dpi.Real(0, 20), k=dpi.Real(0, 60), y=dpi.Real(0, 100))
    drawer = Drawer(
        Newton(formula="y ~ x + k", model="quantile", parameter=0.25), Context(schema, "add_remove", dpi.ZCDP(0.05))
    )
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x, k = np.clip(rng.normal(12, 2, size), 0, 20), rng.gamma(2, 9, size).clip(0, 60)
        y = np.clip(np.exp(0.1 * x + 0.01 * k + rng.normal(0, 0.6, size)).round(1), 0, 100)
        found.append(drawer.estimate({"x": x, "k": k, "y": y}, rng).params)
    away = np.abs(found - np.median(found, axis=0))
    assert (away.max(axis=0) < 8 * np.median(away, axis=0)).all()


# Agreement without noise


@pytest.mark.parametrize("errors", ["normal", "exponential"])
def test_huber_without_noise_is_that_of_statsmodels(errors):
    columns, cells = rows_of(5000, errors=errors)
    fit = drawer_of("huber", dpi.ZCDP(1e9)).estimate(cells, np.random.default_rng(0))
    theirs = sm.RLM(cells["y"], columns, M=sm.robust.norms.HuberT()).fit()
    apart = np.abs(fit.params - theirs.params) / theirs.bse
    assert apart[1:].max() < 0.05
    assert apart[0] < (0.05 if errors == "normal" else 0.4)
    assert np.sqrt(np.diag(fit.cov_sampling))[1:] == pytest.approx(theirs.bse[1:], rel=0.1)


@pytest.mark.parametrize("name", ["median", "tail"])
def test_quantiles_without_noise_are_near_those_of_statsmodels(name):
    columns, cells = rows_of(20_000)
    fit = drawer_of(name, dpi.ZCDP(1e9)).estimate(cells, np.random.default_rng(0))
    theirs = sm.QuantReg(cells["y"], columns).fit(q=MODELS[name].parameter)
    assert np.abs(fit.params - theirs.params).max() < 0.6 * theirs.bse.max()
    assert np.sqrt(np.diag(fit.cov_sampling)) == pytest.approx(theirs.bse, rel=0.2)


# Inference


def covering(drawer, size, seed):
    """Of 20 fits, those whose interval of 95% holds the slope; fewer than 14 do with a probability of 3e-5."""
    rng, contrast = np.random.default_rng(seed), np.eye(3)[1:2]
    fits = (drawer.estimate(rows_of(size, place)[1], rng).intervals(contrast, 0.05)[0] for place in range(20))
    return sum(low <= TRUE[1] <= high for low, high in fits)


@pytest.mark.parametrize(
    ("name", "price"), [*(("huber", price) for price in PRICES), ("median", PRICES[0]), ("tail", PRICES[2])]
)
def test_intervals_cover_under_every_unit(name, price):
    """One of each; `validation/regression/robust_coverage.py` has the others."""
    assert covering(drawer_of(name, price), 3000, 7) >= 14


def test_intervals_cover_where_the_number_of_rows_is_public():
    assert covering(drawer_of("median", dpi.ZCDP(0.5), "replace_one", 4000), 4000, 8) >= 14


# Through the kernel


@pytest.mark.parametrize("name", list(MODELS))
def test_a_summary_says_what_was_done_to_residuals(name):
    data = dpi.PublicData(pd.DataFrame(rows_of(2000)[1]), BOUNDS, rng=np.random.default_rng(1))
    results = MODELS[name].bind(data).fit(dpi.ZCDP(1.0))
    assert np.abs(results.params["x"] - 2) < 10 * results.bse["x"]
    assert ("smoothed" if name != "huber" else "Residuals are clipped") in results.summary().as_text()
