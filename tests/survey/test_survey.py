import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import DPInferError, InferenceError, OptionError
from tests.asking import assert_refused, each

NO_NOISE = dpi.ZCDP(1e14)
DESIGN = dpi.SurveyDesign("c", weights="w", strata="s")

SCHEMA = dpi.Schema(
    s=dpi.Category(["s0", "s1", "s2", "s3"]),
    c=dpi.Category(["c0", "c1", "c2"]),
    w=dpi.Real(0, 5),
    x=dpi.Real(0, 100),
    y=dpi.Real(0, 100),
    g=dpi.Category(["a", "b"]),
    b=dpi.Boolean(),
)


def sample():
    """Rows in 12 units of 4 strata, as they were when the numbers below were computed."""
    rng = np.random.default_rng(3)
    stratum, unit = rng.integers(0, 4, 360), rng.integers(0, 3, 360)
    frame = pd.DataFrame(
        {
            "s": [f"s{k}" for k in stratum],
            "c": [f"c{k}" for k in unit],
            "w": rng.uniform(1, 5, 360).round(2),
            "x": rng.gamma(2, 10, 360).clip(0, 99).round(1),
            "g": rng.choice(["a", "b"], 360),
            "b": rng.random(360) < 0.3,
        }
    )
    noise = rng.normal(0, 8, 360)
    frame["y"] = (20 + 0.5 * frame["x"] + 5 * (frame["g"] == "b") + stratum * 3 + noise).clip(0, 100).round(1)
    return frame


def public(frame=None, schema=SCHEMA, **options):
    frame = sample() if frame is None else frame
    return dpi.PublicData(frame, schema, rng=np.random.default_rng(1), **options)


def linearized(frame, scores, *, fraction=None, lonely=None):
    """Standard errors of sums of scores (n, p) by hand: R's survey has the same formula, with the same rules."""
    scores, total = np.asarray(scores, dtype=float).reshape(len(frame), -1), 0.0
    units = {
        key: scores[(frame["s"] + frame["c"] == key).to_numpy()].sum(axis=0) for key in set(frame["s"] + frame["c"])
    }
    everything = np.mean(list(units.values()), axis=0)
    for stratum in set(frame["s"]):
        mine = np.array([one for key, one in units.items() if key.startswith(stratum)])
        count, spare = len(mine), 1 - (fraction or {}).get(stratum, 0.0)
        if count == 1:
            away = (mine - everything) * (lonely == "adjust")
            total += spare * len(units) / (len(units) - 1) * away.T @ away
        else:
            away = mine - mine.mean(axis=0)
            total += spare * count / (count - 1) * away.T @ away
    return np.sqrt(np.diag(total))


# samplics 0.6.0: TaylorEstimator(PopParam.mean).estimate(y, samp_weight=w, stratum=s, psu=s + c), and the like
SAMPLICS = {
    "mean": ([37.57094588081054], [0.7749798126643299], [[35.78383922810685, 39.35805253351423]]),
    "total": ([38973.845], [2420.6577891325337], [[33391.79812834621, 44555.891871653796]]),
    "ratio": ([1.9006537028245358], [0.06658063598259002], [[1.74711848092416, 2.0541889249247117]]),
    "domains": (
        [35.263314750070876, 39.973753910938825],
        [1.2129338598927557, 0.9907716350695135],
        [[32.46628425342903, 38.06034524671272], [37.689030423425535, 42.258477398452115]],
    ),
    "proportion": ([0.5101027628357144, 0.4898972371642856], [0.028489794821983033] * 2, None),
}


@pytest.mark.parametrize("name", SAMPLICS)
def test_without_noise_it_is_samplics(name):
    asked = {
        "mean": DESIGN.mean("y", public(), inference="wald"),
        "total": DESIGN.total("y", public(), inference="wald"),
        "ratio": DESIGN.ratio("y", "x", public(), inference="wald"),
        "domains": DESIGN.mean("y", public(), by="g", inference="wald"),
        "proportion": DESIGN.proportion("g", public(), inference="wald"),
    }[name]
    results, (value, error, ends) = asked.fit(NO_NOISE), SAMPLICS[name]
    np.testing.assert_allclose(results.params, value, rtol=1e-6)
    np.testing.assert_allclose(results.bse, error, rtol=1e-5)
    if ends is not None:  # of shares samplics has them on the scale of log odds
        np.testing.assert_allclose(results.conf_int(), ends, rtol=1e-5)
    assert results.df_resid == 8


def test_a_regression_without_noise_is_linearized_weighted_least_squares():
    frame = sample()
    results = DESIGN.ols("y ~ x + g", public(), inference="wald").fit(NO_NOISE)
    design = np.column_stack([np.ones(len(frame)), frame["x"], frame["g"] == "b"]).astype(float)
    weight = frame["w"].to_numpy()[:, None]
    inverse = np.linalg.inv(design.T @ (weight * design))
    slope = inverse @ design.T @ (weight[:, 0] * frame["y"].to_numpy())
    scores = weight * design * (frame["y"].to_numpy() - design @ slope)[:, None]
    np.testing.assert_allclose(results.params, slope, rtol=1e-5)
    np.testing.assert_allclose(results.bse, linearized(frame, scores @ inverse), rtol=1e-4)
    assert results.df_resid == 6  # units minus strata, less two regressors, as svyglm has it
    assert results.get_prediction({"x": [20], "g": "b"}).predicted_mean[0] == pytest.approx(
        slope @ [1, 20, 1], rel=1e-5
    )


def test_fractions_strata_of_units_and_lonely_units():
    frame = sample()
    frame = frame[(frame["s"] != "s3") | (frame["c"] == "c0")]
    scores = frame["w"] * (frame["y"] - np.average(frame["y"], weights=frame["w"])) / frame["w"].sum()
    units = sorted(set(frame["s"] + frame["c"]))
    schema = dpi.Schema({**SCHEMA, "unit": dpi.Category(units)})
    data = public(frame.assign(unit=frame["s"] + frame["c"]), schema)
    strata, fraction = {one: one[:2] for one in units}, {"s0": 0.5, "s1": 30, "s2": 0.1, "s3": 0.2}
    shares = fraction | {"s1": 0.1}
    for lonely in ("adjust", "certainty"):
        design = dpi.SurveyDesign("unit", weights="w", strata=strata, fpc=fraction, lonely=lonely)
        results = design.mean("y", data, inference="wald").fit(NO_NOISE)
        expected = linearized(frame, scores, fraction=shares, lonely=lonely)
        np.testing.assert_allclose(results.bse, expected, rtol=1e-5)
        assert results.df_resid == 6
    with pytest.raises(OptionError, match="there is only one unit in s3"):
        dpi.SurveyDesign("unit", strata=strata).mean("y", data)


def test_design_effects_are_against_rows_drawn_at_random():
    frame = sample()
    results = DESIGN.mean("y", public(), deff=True).fit(NO_NOISE)
    mean = np.average(frame["y"], weights=frame["w"])
    spread = np.average((frame["y"] - mean) ** 2, weights=frame["w"])  # svymean(..., deff = "replace") has the same
    expected = results.bse.iloc[0] ** 2 / (spread / (len(frame) - 1))
    assert results.deff.iloc[0] == pytest.approx(expected, rel=1e-4)
    shares = DESIGN.proportion("b", public(), by="g", deff=True).fit(NO_NOISE)
    p, count = shares.params.to_numpy(), frame.groupby("g").size().to_numpy()
    np.testing.assert_allclose(shares.deff, shares.bse.to_numpy() ** 2 / (p * (1 - p) / (count - 1)), rtol=1e-4)
    assert "deff" in str(shares.summary())
    with pytest.raises(InferenceError, match="deff=True"):
        _ = DESIGN.mean("y", public()).fit(NO_NOISE).deff
    hidden = DESIGN.mean("y", public(), deff=True).fit(dpi.ZCDP(0.05))
    assert hidden.deff.isna().all()


def test_one_release_has_means_totals_and_ratios():
    release = DESIGN.ratio("y", "x", public()).measure(dpi.ZCDP(1.0))
    again = dpi.Release.from_json(release.to_json())
    means, totals = DESIGN.mean(["y", "x"], again).infer(), DESIGN.total(["y", "x"], again).infer()
    ratio = again.infer()
    assert ratio.params.iloc[0] == pytest.approx(totals.params.iloc[0] / totals.params.iloc[1])
    assert ratio.params.iloc[0] == pytest.approx(means.params.iloc[0] / means.params.iloc[1])
    with pytest.raises(InferenceError, match="another question"):
        DESIGN.mean("y", again).infer()
    with pytest.raises(InferenceError, match="another question"):
        dpi.SurveyDesign("c", weights="w").ratio("y", "x", again).infer()


def test_weights_are_one_by_default():
    frame = sample()
    results = dpi.SurveyDesign("c", strata="s").mean("y", public(), deff=True, inference="wald").fit(NO_NOISE)
    expected = linearized(frame, (frame["y"] - frame["y"].mean()) / len(frame))
    assert results.params.iloc[0] == pytest.approx(frame["y"].mean(), rel=1e-6)
    np.testing.assert_allclose(results.bse, expected, rtol=1e-5)


def test_intervals_and_pvalues_are_one_test():
    results = DESIGN.mean("y", public(), by="g").fit(dpi.ZCDP(0.5))
    for alpha in (0.05, 0.2):
        for place, ends in enumerate(results.conf_int(alpha).to_numpy()):
            row = np.eye(2)[place]
            for end in ends:
                assert results.t_test((row, end)).pvalue == pytest.approx(alpha, abs=1e-6)


def test_what_noise_hides_is_said_and_bounded():
    results = DESIGN.mean("y", public(), by="g").fit(dpi.ZCDP(1e-5))
    assert results.conf_int().to_numpy().tolist() == [[0, 100], [0, 100]]
    assert "not determined" in str(results.summary())
    assert any("noise hides the sum of weights" in flag for flag in results.flags)
    regression = DESIGN.ols("y ~ x", public()).fit(dpi.ZCDP(1e-4))
    assert np.isinf(regression.conf_int().to_numpy()).all()
    assert any("noise hides the cross-products" in flag for flag in regression.flags)
    assert regression.f_pvalue == 1


def test_joint_tests_have_the_degrees_of_freedom_of_the_design():
    results = DESIGN.mean("y", public(), by="g").fit(NO_NOISE)
    test = results.wald_test("y[g=a] = y[g=b]", scalar=True)
    assert test.pvalue == pytest.approx(float(results.t_test("y[g=a] - y[g=b]").pvalue), rel=1e-6)


def test_the_interval_covers_where_noise_is_nearly_all_there_is():
    """400 releases of the same rows at 95%: fewer than 356 covered has a probability of 1e-6."""
    frame = sample()
    question = dpi.SurveyDesign("c", weights="w", strata="s", fpc=1.0).mean("y")  # a census: noise is all
    truth = np.average(frame["y"], weights=frame["w"])
    study = dpi.coverage_study(
        lambda rng, n: frame.sample(n, random_state=int(rng.integers(2**31)), replace=False).reset_index(drop=True),
        question, schema=SCHEMA, truth={"y": truth}, n=[len(frame)], privacy=[dpi.ZCDP(0.5)], replicates=400, seed=1,
        progress=False,
    )  # fmt: skip
    assert study.cells["coverage"].iloc[0] >= 356 / 400


def test_bad_questions_are_refused_before_any_charge():
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1.0))
    data = dpi.PrivateData(sample(), SCHEMA, ledger)
    more = "y ~ " + " + ".join(f"I(x**{k})" for k in range(1, 10))
    asked = [
        *each(lambda data, columns: DESIGN.mean(columns, data), columns=["nothing", 3, "s", [], "2"]),
        *each(lambda data, formula: DESIGN.ols(formula, data), formula=["x", "y ~ 0 + x", more, 3, "", "2 ~ x"]),
        *each(lambda data, by: DESIGN.mean("y", data, by=by), by=["x", "c", "s", 3]),
        *each(lambda data, where: DESIGN.mean("y", data, where=where), where=["y >", "z > 1", 's == "s0"']),
        *each(lambda data, deff: DESIGN.mean("y", data, deff=deff), deff=[1, "yes"]),
        *each(lambda data, inference: DESIGN.mean("y", data, inference=inference), inference=["simulated", 3]),
        *each(lambda data, weights: dpi.SurveyDesign("c", weights=weights).mean("y", data), weights=["g", "x - 50"]),
        *each(lambda data, cluster: dpi.SurveyDesign(cluster).mean("y", data), cluster=["x", "nothing", 3, None]),
        *each(lambda data, strata: dpi.SurveyDesign("c", strata=strata).mean("y", data), strata=[
            "y", "c", {"c0": "north"}, {"c0": "n", "c1": "s", "c2": "w"}, {"c0": 1}, 3]),
        *each(lambda data, fpc: dpi.SurveyDesign("c", fpc=fpc).mean("y", data), fpc=[0, -1, 2, "all", {"a": 0.1}, {}]),
        *each(lambda data, lonely: dpi.SurveyDesign("c", lonely=lonely).mean("y", data), lonely=["remove", 1]),
    ]  # fmt: skip
    assert_refused(asked, DPInferError, None, data, dpi.ZCDP(0.5))


def test_a_person_whose_rows_lie_in_several_units_is_warned_of():
    frame = sample().assign(who=np.arange(360) // 2)
    results = DESIGN.mean("y", public(frame, id="who", max_rows=2)).fit(dpi.ZCDP(1.0))
    assert any("several units" in flag for flag in results.flags)


def test_a_design_effect_is_not_shown_where_noise_chooses_which_ones_are():
    """The variance of rows is 3.5 standard deviations of its noise: those that reach five are far too large."""
    frame = pd.concat([sample()] * 8)
    stratum, unit = (frame[name].str[1].astype(int) for name in "sc")
    shift = np.random.default_rng(4).normal(0, 8, (4, 3))[stratum, unit]
    question = DESIGN.mean("y", public(frame.assign(y=(frame["y"] + shift).clip(0, 100))), deff=True)
    hidden = [np.isnan(question.fit(dpi.ZCDP(0.1)).deff.iloc[0]) for _ in range(40)]
    assert np.mean(hidden) > 0.6
    assert not np.isnan(question.fit(dpi.ZCDP(1.0)).deff.iloc[0])
