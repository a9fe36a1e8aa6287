"""Survey weights in regressions by Newton rounds."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.errors import DPInferError, NotProvedError, OptionError
from dpinfer.kernel.stage import Context
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.regression.question import Newton
from validation.regression.newton_draws import Drawer

VAST = dpi.ZCDP(1e10)
FORMULA = "y ~ x + u"


def schema(kind, **columns):
    response = dpi.Real(-8, 8) if kind == "ols" else dpi.Boolean()
    return dpi.Schema(x=dpi.Real(-1, 1), u=dpi.Real(-1, 1), w=dpi.Real(0, 4), y=response, **columns)


def rows(kind, size=2000, seed=1):
    """Rows whose model differs with the weight."""
    rng = np.random.default_rng(seed)
    x, u, w = rng.uniform(-1, 1, size), rng.uniform(-1, 1, size), rng.gamma(2, 0.6, size).clip(0, 4)
    w[:50] = 0.0
    eta = 0.3 + 0.8 * x - 0.6 * u + 0.5 * w * x**2
    y = eta + (0.3 + 0.2 * w) * rng.normal(size=size) if kind == "ols" else rng.random(size) < 1 / (1 + np.exp(-eta))
    return pd.DataFrame({"x": x, "u": u, "w": w, "y": y})


def asked(kind, frame, neighbors="add_remove", **options):
    data = dpi.PublicData(frame, schema(kind), rng=np.random.default_rng(3), neighbors=neighbors)
    return getattr(dpi, kind)(FORMULA, data, **options)


def plain(kind, frame, weights, groups=None):
    """Weighted estimates of statsmodels and their sandwich, whose GLM has none for weights of 0."""
    x = np.column_stack([np.ones(len(frame)), frame["x"], frame["u"]])
    y, weights = frame["y"].to_numpy(dtype=float), np.asarray(weights, dtype=float)
    some = weights > 0
    family = sm.families.Gaussian() if kind == "ols" else sm.families.Binomial()
    fitted = sm.GLM(y[some], x[some], family=family, var_weights=weights[some]).fit()
    means = fitted.predict(x)
    slopes = np.ones(len(y)) if kind == "ols" else means * (1 - means)
    scores = (weights * (y - means))[:, None] * x
    if groups is not None:
        scores = np.stack([np.bincount(groups, one) for one in scores.T], axis=1)
    bread = np.linalg.inv(x.T * (weights * slopes) @ x)
    size = len(scores) if groups is not None else int(some.sum())
    covariance = bread @ (scores.T @ scores) @ bread * size / (size - 3)
    return SimpleNamespace(params=fitted.params, bse=np.sqrt(np.diag(covariance)), means=means)


def test_the_sandwich_is_that_of_statsmodels():
    frame = rows("ols")
    ordinary = smf.wls(FORMULA, frame, weights=frame["w"] + 0.1).fit(cov_type="HC1")
    np.testing.assert_allclose(plain("ols", frame, frame["w"] + 0.1).bse, ordinary.bse, rtol=1e-10)
    binary = rows("logit").assign(y=lambda one: one["y"].astype(float))
    glm = smf.glm(FORMULA, binary, family=sm.families.Binomial(), var_weights=binary["w"] + 0.1).fit(cov_type="HC0")
    small = np.sqrt(len(binary) / (len(binary) - 3))
    np.testing.assert_allclose(plain("logit", binary, binary["w"] + 0.1).bse, glm.bse * small, rtol=1e-6)


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("kind", ["ols", "logit"])
def test_with_a_vast_budget_it_is_weighted_least_squares_or_likelihood(kind, neighbors):
    frame = rows(kind)
    private = asked(kind, frame, neighbors, weights="w").fit(VAST)
    ordinary = plain(kind, frame, frame["w"])
    unweighted = plain(kind, frame, np.ones(len(frame)))
    np.testing.assert_allclose((private.params - ordinary.params) / ordinary.bse, 0, atol=2e-3)
    # rows of weight 0 are not counted
    np.testing.assert_allclose(private.bse / ordinary.bse, 1, rtol=4e-3)
    assert np.abs((private.params - unweighted.params) / ordinary.bse).max() > 1
    assert private.nobs == pytest.approx(1950, abs=2)
    assert any("Rows are weighted by w" in note for note in private.notes)


@pytest.mark.parametrize("kind", ["ols", "logit"])
def test_expressions_are_weights(kind):
    frame = rows(kind)
    private = asked(kind, frame, weights="log(1 + w)").fit(VAST)
    ordinary = plain(kind, frame, np.log1p(frame["w"]))
    np.testing.assert_allclose((private.params - ordinary.params) / ordinary.bse, 0, atol=2e-3)
    np.testing.assert_allclose(private.bse / ordinary.bse, 1, rtol=4e-3)


def test_a_bound_above_all_weights_changes_noise_alone():
    frame = rows("logit").assign(w=lambda all_rows: all_rows["w"] / 8)
    private = asked("logit", frame, weights="w").fit(VAST)
    ordinary = plain("logit", frame, frame["w"])
    np.testing.assert_allclose((private.params - ordinary.params) / ordinary.bse, 0, atol=5e-3)
    np.testing.assert_allclose(private.bse / ordinary.bse, 1, rtol=1e-2)


@pytest.mark.parametrize("kind", ["ols", "logit"])
def test_weighted_people_are_clustered(kind):
    frame = rows(kind).assign(id=np.repeat(np.arange(500), 4))
    data = dpi.PublicData(frame, schema(kind), rng=np.random.default_rng(3), id="id", max_rows=4)
    private = getattr(dpi, kind)(FORMULA, data, weights="w").fit(VAST)
    ordinary = plain(kind, frame, frame["w"], frame["id"])
    np.testing.assert_allclose((private.params - ordinary.params) / ordinary.bse, 0, atol=2e-3)
    np.testing.assert_allclose(private.bse / ordinary.bse, 1, rtol=5e-3)


def test_average_slopes_are_weighted():
    frame = rows("logit")
    drawer = Drawer(Newton(formula=FORMULA, model="logit", weights="w"), Context(schema("logit"), "add_remove", VAST))
    private = drawer.estimate({name: frame[name].to_numpy() for name in frame}, np.random.default_rng(1))
    means = plain("logit", frame, frame["w"]).means
    slope = np.average(means * (1 - means), weights=frame["w"])
    assert private.average_slope.value == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize(
    ("error", "match", "options"),
    [
        (OptionError, "weights", [{"weights": one} for one in ("x", "w - 1", "-w", "0 * w", "", "  ", 3, ["w"])]),
        (DPInferError, None, [{"weights": one} for one in ("nothing", "1 / w", "w +", "log(w)")]),
        (OptionError, 'method="newton"', [{"weights": "w", "method": "gram"}]),
    ],
)
def test_weights_that_may_be_negative_or_unbounded_are_refused(error, match, options):
    for one in options:
        for kind in ("ols",) if "method" in one else ("ols", "logit"):
            with pytest.raises(error, match=match):
                asked(kind, rows(kind, 50), **one).fit(dpi.ZCDP(1.0))


def test_other_models_take_no_weights_and_other_weights_are_another_question():
    data = dpi.PublicData(rows("ols", 50), schema("ols"), rng=np.random.default_rng(3))
    with pytest.raises(NotProvedError, match="huber"):
        Newton(formula=FORMULA, model="huber", weights="w", source=data)
    private = asked("logit", rows("logit"), weights="w").fit(dpi.ZCDP(1.0))
    with pytest.raises(DPInferError):
        dpi.logit(FORMULA, private.release).infer()
