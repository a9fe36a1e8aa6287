"""Regressions of several levels: statsmodels' numbers without noise, honest flags with it, and clear refusals."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.miscmodels.ordinal_model import OrderedModel

import dpinfer as dpi
from dpinfer.choice.stages import CHOICES
from dpinfer.errors import (
    FormulaError,
    MissingFromReleaseError,
    OptionError,
    ReleaseFormatError,
    UnknownColumnError,
)

SCHEMA = dpi.Schema(
    x=dpi.Real(-4, 4),
    g=dpi.Category(["u", "v"]),
    two=dpi.Category(["n", "y"]),
    y=dpi.Category(["a", "b", "c"]),
    z=dpi.Category(["low", "middle", "high", "top"]),
)
SIZE = 6000
LOUD = dpi.ZCDP(1e7)
"""A price at which there is next to no noise."""


def drawn(seed=1, size=SIZE):
    rng = np.random.default_rng(seed)
    x, g = np.clip(rng.normal(size=size), -4, 4), rng.integers(0, 2, size)
    odds = np.exp(np.column_stack([np.zeros(size), -0.5 + x + 0.5 * g, -1 - 0.7 * x - 0.5 * g]))
    y = (rng.random((size, 1)) > np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1)[:, :2]).sum(axis=1)
    z = np.digitize(x - 0.5 * g + rng.logistic(size=size), [-1, 0.5, 3])
    named = {"y": np.array(["a", "b", "c"])[y], "z": np.array(SCHEMA["z"].level_texts)[z]}
    return pd.DataFrame({"x": x, "g": np.array(["u", "v"])[g], "two": np.array(["n", "y"])[g], **named}), (x, g, y, z)


FRAME, (X, G, Y, Z) = drawn()


def public(seed=1, **options):
    return dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(seed), **options)


def test_without_noise_multinomial_is_statsmodels():
    found = dpi.mnlogit("y ~ C(g) + x", public()).fit(LOUD)
    fit = sm.MNLogit(Y, sm.add_constant(np.column_stack([G, X]))).fit(disp=0, cov_type="HC1")
    assert list(found.params.index[:3]) == ["b: Intercept", "b: C(g)[T.v]", "b: x"]
    away = np.abs(found.params.to_numpy() - fit.params.T.ravel()) / fit.bse.T.ravel()
    assert away.max() < 0.05  # two iterations; the rest of the way counts in the bias bound
    assert (np.abs(found.params.to_numpy() - fit.params.T.ravel()) <= found.inference.bias_bound).all()
    np.testing.assert_allclose(found.bse, fit.bse.T.ravel(), rtol=0.03)
    table = found.params_frame()
    assert table.shape == (3, 2)
    assert table.loc["x", "c"] == found.params["c: x"]


@pytest.mark.parametrize("distr", ["logit", "probit"])
def test_without_noise_ordered_is_statsmodels(distr):
    found = dpi.ordered("z ~ C(g) + x", public(), distr=distr).fit(LOUD)
    fit = OrderedModel(Z, np.column_stack([G, X]), distr=distr).fit(disp=0, method="bfgs", cov_type="HC1")
    wanted = np.concatenate([fit.params[:2], fit.model.transform_threshold_params(fit.params)[1:-1]])
    assert list(found.params.index) == ["C(g)[T.v]", "x", "low/middle", "middle/high", "high/top"]
    assert (np.abs(found.params.to_numpy() - wanted) / found.bse.to_numpy()).max() < 0.03
    np.testing.assert_allclose(found.bse[:2], fit.bse[:2], rtol=0.04)
    assert found.thresholds.is_monotonic_increasing
    assert found.params_frame().shape == (2, 1)
    assert not found.flags


@pytest.mark.parametrize("name", CHOICES)
def test_chances_and_effects_are_those_of_statsmodels(name):
    ordered = name != "mnlogit"
    design, points = np.column_stack([G, X]), {"x": [0.0, 1.5], "g": ["u", "v"]}
    rows = np.array([[0, 0.0], [1, 1.5]])
    if ordered:
        found = dpi.ordered("z ~ C(g) + x", public(), distr=name.split("-")[1]).fit(LOUD)
        wanted = OrderedModel(Z, design, distr=name.split("-")[1]).fit(disp=0, method="bfgs").predict(rows)
    else:
        found = dpi.mnlogit("y ~ C(g) + x", public()).fit(LOUD)
        fit = sm.MNLogit(Y, sm.add_constant(design)).fit(disp=0)
        wanted = fit.predict(sm.add_constant(rows, has_constant="add"))
        effects = found.get_margeff(atexog={"x": X[:50], "g": FRAME["g"][:50]})
        theirs = sm.MNLogit(Y, sm.add_constant(design)).fit(disp=0).get_margeff(atexog=None)
        assert len(effects.margeff) == theirs.margeff.size
    np.testing.assert_allclose(found.predict(points), wanted, atol=2e-3)
    np.testing.assert_allclose(found.predict(points).sum(axis=1), 1)
    told = found.predictions(points)
    assert ((told["conf_low"] <= told["estimate"]) & (told["estimate"] <= told["conf_high"])).all()
    assert (told["conf_low"] >= 0).all()
    assert (told["conf_high"] <= 1).all()
    effects = found.get_margeff(atexog=points)
    levels = len(found.levels)
    np.testing.assert_allclose(effects.margeff.reshape(-1, levels).sum(axis=1), 0, atol=1e-9)
    step = 1e-5
    moved = [found.predict({**points, "x": np.array(points["x"]) + one}).to_numpy() for one in (step, -step)]
    np.testing.assert_allclose(effects.margeff[levels:], (moved[0] - moved[1]).mean(axis=0) / (2 * step), atol=1e-6)
    assert effects.summary().as_text()
    assert found.get_margeff("all", atexog=points).margeff.shape == (2, 2 * levels)
    assert found.get_margeff("mean", atexog=points).margeff.shape == (2 * levels,)
    differences = found.get_margeff(atexog=points, dummy=True)
    at = [found.predict({"x": points["x"], "g": [one, one]}).to_numpy() for one in "uv"]
    np.testing.assert_allclose(differences.margeff[:levels], (at[1] - at[0]).mean(axis=0), atol=1e-9)


def test_what_is_not_there_is_said():
    found = dpi.mnlogit("y ~ x", public()).fit(dpi.ZCDP(0.5))
    with pytest.raises(MissingFromReleaseError, match="atexog="):
        found.get_margeff()
    with pytest.raises(OptionError, match="predictions"):
        found.get_prediction({"x": [0.0]})
    with pytest.raises(OptionError):
        found.get_margeff("median", atexog={"x": [0.0]})
    assert found.thresholds.empty


@pytest.mark.parametrize("price", [dpi.ZCDP(0.5), dpi.GDP(1.0), dpi.ApproxDP(1.0, 1e-6), dpi.PureDP(4)])
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_a_stored_release_gives_the_same_numbers(price, neighbors, tmp_path):
    question = dpi.ordered("z ~ x", public(neighbors=neighbors))
    release = question.measure(price)
    release.save(tmp_path / "it.json")
    again = dpi.read_release(tmp_path / "it.json").infer()
    np.testing.assert_array_equal(again.params, question.infer(release).params)
    assert np.isfinite(again.bse).all()
    damaged = release.to_json().replace('"ordered-logit"', '"mnlogit"')
    with pytest.raises(ReleaseFormatError):
        dpi.Release.from_json(damaged).infer()


def test_few_rows_leave_wide_intervals_and_flags_and_never_a_nan():
    for seed in range(4):
        for rows in (FRAME.iloc[:0], FRAME.iloc[:40]):
            data = dpi.PublicData(rows, SCHEMA, rng=np.random.default_rng(seed))
            for question in (dpi.mnlogit("y ~ x", data), dpi.ordered("z ~ x", data)):
                found = question.fit(dpi.ZCDP(0.05))
                assert np.isfinite(found.params).all()
                assert found.flags
                assert not found.conf_int().isna().to_numpy().any()
                points = found.predictions({"x": [0.0]})
                assert points[["conf_low", "conf_high"]].apply(lambda one: one.between(0, 1)).to_numpy().all()


def test_a_rare_level_is_flagged_and_others_stay():
    frame = FRAME.assign(y=np.where(FRAME["y"] == "c", "b", FRAME["y"]))
    frame.loc[frame.index[:3], "y"] = "c"
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(5))
    found = dpi.mnlogit("y ~ x", data).fit(dpi.ZCDP(0.5))
    assert any("c: x" in one for one in found.flags)
    ends = found.conf_int().loc["b: x"]
    assert ends[1] - ends[0] < 1.0
    two = frame["y"].to_numpy() != "c"
    slope = sm.Logit(frame["y"].to_numpy()[two] == "b", sm.add_constant(X[two])).fit(disp=0).params[1]
    assert ends[0] < slope < ends[1]


def test_thresholds_that_noise_turned_round_are_named():
    schema = dpi.Schema(x=dpi.Real(-1, 1), z=dpi.Category(["a", "b", "c", "d"]))
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.uniform(-1, 1, 1500), "z": rng.choice(["a", "b", "d"], 1500, p=[0.5, 0.01, 0.49])})
    turned = []
    for seed in range(12):
        data = dpi.PublicData(frame, schema, rng=np.random.default_rng(seed))
        found = dpi.ordered("z ~ x", data).fit(dpi.ZCDP(0.05))
        turned.append(any("thresholds" in one for one in found.flags))
        assert turned[-1] or (np.diff(found.thresholds) > 0).all()
        chances = found.predict({"x": [-1.0, 0.0, 1.0]}).to_numpy()
        assert (chances >= 0).all()
        np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert any(turned)


def test_people_with_several_rows_are_clusters():
    rng = np.random.default_rng(2)
    frame = FRAME.assign(who=rng.integers(0, 2500, SIZE).astype(str))
    data = dpi.PublicData(frame, SCHEMA, rng=rng, id="who", max_rows=4)
    for found in (dpi.mnlogit("y ~ x", data).fit(LOUD), dpi.ordered("z ~ x", data).fit(LOUD)):
        assert found.cov_type == "cluster"
        assert (np.abs(found.params) < 10).all()
    fit = sm.MNLogit(Y, sm.add_constant(X)).fit(disp=0)
    found = dpi.mnlogit("y ~ x", data).fit(LOUD)
    assert np.abs(found.params.to_numpy() - fit.params.T.ravel()).max() < 0.2


@pytest.mark.parametrize(
    ("ask", "error", "told"),
    [
        (lambda data: dpi.mnlogit("two ~ x", data), FormulaError, "3 to 12 levels"),
        (lambda data: dpi.mnlogit("x ~ g", data), FormulaError, "Category"),
        (lambda data: dpi.mnlogit("y ~ x + y", data), FormulaError, "both sides"),
        (lambda data: dpi.mnlogit("y ~ none", data), UnknownColumnError, "none"),
        (lambda data: dpi.mnlogit("y ~ x | g", data), FormulaError, "several parts"),
        (lambda data: dpi.ordered("z ~ 0 + x", data), FormulaError, "constant"),
        (lambda data: dpi.ordered("z ~ 1", data), FormulaError, "regressors"),
        (lambda data: dpi.ordered("z ~ x", data, distr="cauchy"), OptionError, "logit"),
        (lambda data: dpi.mnlogit("y ~ x", data, inference="exact"), OptionError, "wald"),
    ],
)
def test_what_is_wrong_is_refused_before_it_costs(ask, error, told):
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1.0))
    data = dpi.PrivateData(FRAME, SCHEMA, ledger)
    with pytest.raises(error, match=told):
        ask(data).fit(dpi.ZCDP(0.5))
    assert ledger.remaining == dpi.ZCDP(1.0)


def test_more_coefficients_than_are_fitted_are_refused_by_number():
    names = [f"x{one}" for one in range(47)]
    schema = dpi.Schema(y=dpi.Category([*"abcdefghijkl"]), **dict.fromkeys(names, dpi.Real(-1, 1)))
    rng = np.random.default_rng(1)
    data = dpi.PublicData(schema.sample(5, rng), schema, rng=rng)
    with pytest.raises(FormulaError, match=r"528 coefficients.*at most 512"):
        dpi.mnlogit("y ~ " + " + ".join(names), data)


def test_the_plan_is_told_before_anything_is_spent():
    told = dpi.mnlogit("y ~ x").explain(dpi.ZCDP(0.5), schema=SCHEMA)
    assert "score" in told
    assert "mnlogit: y ~ x" in told.question
