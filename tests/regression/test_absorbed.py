"""Absorbed levels of a factor: the fit of its dummies, levels with few rows, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.errors import (
    CollinearDesignError,
    FormulaError,
    NotProvedError,
    OptionError,
    SchemaError,
    UnknownColumnError,
)

FREE = dpi.ZCDP(1e11)
LEVELS = [f"i{place}" for place in range(40)]
SCHEMA = dpi.Schema(
    x=dpi.Real(-1, 1),
    t=dpi.Boolean(),
    race=dpi.Category(["a", "b", "c"]),
    y=dpi.Real(-2, 2),
    industry=dpi.Category(LEVELS),
)


def rows_of(size=8000, seed=1, levels=40):
    """Rows on a grid, whose regressors and responses differ between levels."""
    rng = np.random.default_rng(seed)
    place = rng.integers(levels, size=size)
    x = np.rint(64 * np.clip(rng.normal(0.3 * np.sin(place), 0.4), -1, 1)) / 64
    t, race = rng.random(size) < 0.5, np.array(["a", "b", "c"])[rng.integers(3, size=size)]
    mean = 0.5 * x + 0.2 * t + 0.1 * (race == "b") + 0.3 * np.cos(place)
    y = np.rint(64 * np.clip(mean + rng.normal(0, 0.4, size), -2, 2)) / 64
    return pd.DataFrame({"x": x, "t": t, "race": race, "y": y, "industry": np.array(LEVELS)[place]})


def public(frame, schema=SCHEMA, **options):
    return dpi.PublicData(frame, schema, rng=np.random.default_rng(2), **options)


def compare(results, plain):
    """Slopes and standard errors are those of the dummies, errors to six digits."""
    theirs = [name if name in plain.params else f"{name}[T.True]" for name in results.params.index]
    np.testing.assert_allclose(results.bse, plain.bse[theirs], rtol=1e-6)
    np.testing.assert_array_less(np.abs(results.params.to_numpy() - plain.params[theirs]), 1e-4 * plain.bse[theirs])
    np.testing.assert_allclose(results.conf_int(), plain.conf_int().loc[theirs], atol=1e-5)
    assert results.flags == ()


def test_slopes_are_those_of_the_dummies():
    frame = rows_of()
    results = dpi.ols("y ~ x + t + C(race)", public(frame), absorb="industry").fit(FREE)
    assert list(results.params.index) == ["x", "t", "C(race)[T.b]", "C(race)[T.c]"]
    plain = smf.ols("y ~ x + t + C(race) + C(industry)", frame).fit()
    compare(results, plain)
    assert results.df_resid == pytest.approx(plain.df_resid, abs=1e-3)
    assert results.inference.scale == pytest.approx(plain.mse_resid, rel=1e-6)
    within = 1 - plain.ssr / smf.ols("y ~ C(industry)", frame).fit().ssr
    assert results.rsquared == pytest.approx(within, abs=1e-6)
    joint, theirs = results.f_test("x = 0.5, t = 0.2"), plain.f_test("x = 0.5, t[T.True] = 0.2")
    assert float(joint.pvalue) == pytest.approx(float(theirs.pvalue), abs=1e-5)


def test_conditions_interactions_and_missing_levels_are_those_of_the_same_rows():
    frame = rows_of()
    frame.loc[::7, "industry"] = None
    results = dpi.ols("y ~ x*t", public(frame), absorb="industry", where="x > -0.5").fit(FREE)
    kept = frame[(frame["x"] > -0.5) & frame["industry"].notna()]
    kept = kept.assign(t=kept["t"].astype(float))
    plain = smf.ols("y ~ x*t + C(industry)", kept).fit()
    compare(results, plain)
    assert results.nobs == pytest.approx(len(kept), abs=0.01)


def test_the_inference_can_be_changed_and_a_release_can_be_read_back(tmp_path):
    question = dpi.ols("y ~ x + t", public(rows_of()), absorb="industry")
    release = question.measure(dpi.ZCDP(0.5))
    release.save(tmp_path / "one.json")
    again = dpi.read_release(tmp_path / "one.json").infer()
    results = question.infer(release)
    pd.testing.assert_frame_equal(again.summary_frame(), results.summary_frame())
    wald = results.with_inference("wald")
    assert np.allclose(wald.conf_int().mean(axis=1), wald.params)
    assert dpi.ols("y ~ x + t", release, absorb="industry", target="data").infer().bse["x"] < results.bse["x"]
    with pytest.raises(dpi.errors.InferenceError, match="another question"):
        dpi.ols("y ~ x", release, absorb="industry").infer()
    with pytest.raises(NotProvedError, match="asymptotic"):
        results.f_test("x = 0", null="simulated")


def test_noise_is_drawn_for_sums_by_level_and_never_for_products_of_levels():
    levels = [f"i{place}" for place in range(300)]
    schema = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Real(-2, 2), industry=dpi.Category(levels))
    planned = dpi.ols("y ~ x", absorb="industry").measurement(dpi.ZCDP(0.5), schema=schema)
    assert [len(stage.names) for stage in planned.stages] == [900, 6]


@pytest.mark.parametrize("privacy", [dpi.ZCDP(0.5), dpi.PureDP(4)], ids=str)
def test_levels_with_few_rows_are_named_and_what_their_effects_may_be_is_counted(privacy):
    frame = rows_of(levels=30)
    results = dpi.ols("y ~ x + t", public(frame), absorb="industry").fit(privacy)
    assert "not determined: industry = i30" in results.flags[0]
    assert "and 5 more" in results.flags[0]
    full = dpi.ols("y ~ x + t", public(rows_of()), absorb="industry").fit(privacy)
    assert full.flags == () or "not determined" not in full.flags[0]
    ends, narrow = results.conf_int(), full.conf_int()
    assert np.isfinite(ends.to_numpy()).all()
    assert (ends[1] - ends[0] > narrow[1] - narrow[0]).all()
    assert np.isfinite(results.f_test("x = 0, t = 0").pvalue)


def test_levels_that_are_all_empty_determine_nothing_and_give_no_wild_number():
    results = dpi.ols("y ~ x + t", public(rows_of(size=20)), absorb="industry").fit(dpi.ZCDP(0.05))
    assert "not determined" in " ".join(results.flags)
    assert not np.isnan(results.conf_int().to_numpy()).any()


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("privacy", [dpi.ZCDP(0.5), dpi.PureDP(2), dpi.GDP(1), dpi.ApproxDP(1, 1e-6)], ids=str)
def test_intervals_cover_under_every_price_and_relation(neighbors, privacy):
    frame = rows_of(seed=5)
    plain = smf.ols("y ~ x + t + C(industry)", frame).fit()
    data = public(frame, neighbors=neighbors)
    question = dpi.ols("y ~ x + t", data, absorb="industry", target="data")
    missed = 0
    for _ in range(10):
        ends = question.fit(privacy).conf_int(alpha=1e-3)
        missed += int(not ends.loc["x", 0] <= plain.params["x"] <= ends.loc["x", 1])
    assert missed <= 1  # two of ten at level .001: a false alarm in about 25,000 runs


def test_people_with_several_rows_are_one_unit():
    frame = rows_of().assign(person=np.repeat(np.arange(2000), 4))
    one, several = (
        dpi.ols("y ~ x", public(frame, **given), absorb="industry").measurement(dpi.ZCDP(0.5)).stages
        for given in ({}, {"id": "person", "max_rows": 4})
    )
    for alone, of_four in zip(one, several, strict=True):
        assert float(of_four.bound) == pytest.approx(4 * float(alone.bound), rel=1e-6)
    results = dpi.ols("y ~ x", public(frame, id="person", max_rows=4), absorb="industry").fit(FREE)
    plain = smf.ols("y ~ x + C(industry)", frame).fit()
    assert results.bse["x"] == pytest.approx(2 * plain.bse["x"], rel=0.02)  # as if all four rows were one


def test_what_is_not_served_is_refused_by_name():
    data = public(rows_of())
    with pytest.raises(UnknownColumnError, match="firm"):
        dpi.ols("y ~ x", data, absorb="firm")
    for column in ("x", 3):
        with pytest.raises((OptionError, SchemaError), match="absorb"):
            dpi.ols("y ~ x", data, absorb=column)
    for formula in ("y ~ x + C(industry)", "y ~ x + I(industry == 'i3')"):
        with pytest.raises(FormulaError, match="effects are absorbed"):
            dpi.ols(formula, data, absorb="industry")
    with pytest.raises(FormulaError, match="drop 0"):
        dpi.ols("y ~ 0 + x + C(race)", data, absorb="industry")
    with pytest.raises(CollinearDesignError, match="linear combination"):
        dpi.ols("y ~ x + I(x + 1)", data, absorb="industry")
    with pytest.raises(FormulaError, match="no regressors"):
        dpi.ols("y ~ 1", data, absorb="industry")
    for options in ({"row_norm": 1.2}, {"weights": "x"}, {"cov_type": "HC1"}, {"method": "newton"}, {"groups": "race"}):
        (name,) = options
        with pytest.raises(OptionError, match=name):
            dpi.ols("y ~ x", data, absorb="industry", **options)
    with pytest.raises(OptionError, match="inference"):
        dpi.ols("y ~ x", data, absorb="industry", inference="simulated")
    with pytest.raises(NotProvedError, match="effects of people"):
        dpi.ols("y ~ x + EntityEffects", data, absorb="industry")


def test_explain_says_how_many_rows_a_level_needs():
    told = dpi.ols("y ~ x", absorb="industry").explain(dpi.ZCDP(0.5), schema=SCHEMA)
    assert "levels of industry with fewer than about" in told
