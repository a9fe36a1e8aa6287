"""Binary regressions by noisy rounds: what rows pay, coverage, and any noise whatever."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression.models import BINARY, intercept_for
from dpinfer.regression.question import Newton
from validation.regression.newton_draws import Drawer

LINKS = ("logit", "probit", "cloglog")
SCHEMA = dpi.Schema(
    x=dpi.Real(-1, 1), u=dpi.Real(-1, 1), g=dpi.Category(["a", "b", "c"]), y=dpi.Boolean(), z=dpi.Integer(0, 3)
)
SLOPES = {"Intercept": -0.4, "x": 0.8, "u": -0.5}


def cells_of(size, seed, link="logit"):
    rng = np.random.default_rng(seed)
    x, u = rng.uniform(-1, 1, size), np.clip(rng.normal(0, 0.35, size), -1, 1)
    mean = BINARY[link].mean(SLOPES["Intercept"] + SLOPES["x"] * x + SLOPES["u"] * u)
    return {
        "x": x,
        "u": u,
        "g": np.array(["a", "b", "c"])[rng.integers(0, 3, size)],
        "z": rng.integers(0, 4, size),
        "y": rng.random(size) < mean,
    }


def drawer(price, formula="y ~ x + u", model="logit", neighbors="add_remove", **options):
    return Drawer(Newton(formula=formula, model=model, **options), Context(SCHEMA, neighbors, price))


@pytest.mark.parametrize("link", LINKS)
def test_a_score_test_accepts_the_estimate_and_agrees_with_walds_near_it(link):
    """With few events the Hessian changes along the last step; scores are of the same mean Hessian as the estimate."""
    cells = cells_of(10_000, 4, link)
    cells["y"] &= np.random.default_rng(5).random(10_000) < 0.12
    for seed in range(3):
        found = drawer(dpi.ZCDP(0.5), model=link).estimate(cells, np.random.default_rng(seed))
        assert not found.fit.flagged
        every, scored = np.eye(3), found.with_method("score")
        np.testing.assert_allclose(scored.contrast_pvalues(every, found.params), 1.0, atol=1e-6)
        away = found.params + 1.5 * np.sqrt(np.diag(found.cov_sampling + found.cov_noise))
        wald = found.with_method("wald").contrast_pvalues(every, away)
        np.testing.assert_allclose(scored.contrast_pvalues(every, away), wald, atol=0.02)


# Estimates


FORMULAS = ("y ~ x + u", "y ~ x + u - 1", "y ~ x + g", "y ~ x + I(x**2) + z", "y ~ x * u")


@pytest.mark.parametrize(
    ("model", "formula"),
    [*(("logit", one) for one in FORMULAS), *((link, one) for link in LINKS[1:] for one in FORMULAS[::3])],
)
def test_much_privacy_budget_gives_what_statsmodels_gives(model, formula):
    cells = cells_of(3000, 2, model)
    found = drawer(dpi.ZCDP(1e10), formula, model).estimate(cells, np.random.default_rng(1))
    link = {"logit": sm.families.links.Logit, "probit": sm.families.links.Probit, "cloglog": sm.families.links.CLogLog}
    frame = pd.DataFrame(cells).assign(y=cells["y"].astype(float))
    known = sm.GLM.from_formula(formula, frame, family=sm.families.Binomial(link[model]())).fit(cov_type="HC0")
    assert set(found.names) == set(known.params.index)
    params, bse = known.params[list(found.names)], known.bse[list(found.names)]
    errors = np.sqrt(np.diag(found.cov_sampling + found.cov_noise))
    close = 0.1 if model == "logit" else 0.35  # the residual score is the likelihood's for logit alone
    assert np.abs((found.params - params) / bse).max() < close
    assert errors == pytest.approx(bse.to_numpy(), rel=0.06)


@pytest.mark.slow
def test_the_variance_of_the_noise_is_that_of_many_releases():
    asked = drawer(dpi.ZCDP(0.1))
    cells, rng = cells_of(3000, 5), np.random.default_rng(3)
    found = [asked.estimate(cells, rng) for _ in range(300)]
    stated = np.mean([np.diag(one.cov_noise) for one in found], axis=0)
    seen = np.var([one.params for one in found], axis=0, ddof=1)
    assert seen / stated == pytest.approx(np.ones(3), abs=0.3)


# Mean functions


@pytest.mark.parametrize("link", LINKS)
def test_slopes_are_those_of_statsmodels(link):
    theirs = {
        "logit": sm.families.links.Logit(),
        "probit": sm.families.links.Probit(),
        "cloglog": sm.families.links.CLogLog(),
    }
    eta = np.linspace(-3, 2.5, 41)
    assert BINARY[link].mean(eta) == pytest.approx(theirs[link].inverse(eta), rel=1e-9)
    assert BINARY[link].slope(eta) == pytest.approx(theirs[link].inverse_deriv(eta), rel=1e-9)


@pytest.mark.parametrize("link", LINKS)
@given(share=st.floats(0.01, 0.99), variance=st.floats(0, 4))
def test_intercepts_give_the_share(link, share, variance):
    centre = intercept_for(BINARY[link], share, variance)
    assert float(BINARY[link].average_mean(centre, variance)) == pytest.approx(share, abs=1e-5)


def test_ranges_are_measured_where_asked():
    wide = dpi.Schema(x=dpi.Real(-50, 50), y=dpi.Boolean())
    asked = Drawer(Newton(formula="y ~ x", model="logit", ranges=True), Context(wide, "add_remove", dpi.ZCDP(0.5)))
    rng = np.random.default_rng(1)
    x = rng.normal(0, 0.5, 5000)
    y = rng.random(5000) < special.expit(x)
    found = asked.estimate({"x": x, "y": y}, rng)
    assert np.sqrt((found.cov_noise + found.cov_sampling)[1, 1]) < 0.15
    assert found.params[1] == pytest.approx(1.0, abs=0.5)
