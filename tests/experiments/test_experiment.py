"""Experiments from end to end: equality with statsmodels where noise is off, conventions, flags and refusals."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import InferenceError, NotProvedError, OptionError, UnknownColumnError
from dpinfer.statistics.inference import Released

mpl.use("Agg")

NO_NOISE = dpi.ZCDP(1e12)
SCHEMA = dpi.Schema(
    y=dpi.Real(-15, 25),
    x=dpi.Real(-5, 5),
    z=dpi.Real(0, 10),
    race=dpi.Category(["a", "b b", "c"]),
    arm=dpi.Category(["old", "new"]),
    treated=dpi.Boolean(),
    site=dpi.Category(["u", "v"]),
)


def rows(n=1500, seed=1):
    rng = np.random.default_rng(seed)
    frame = SCHEMA.sample(n, rng)
    frame["x"], frame["treated"] = rng.normal(size=n).clip(-5, 5), rng.random(n) < 0.3
    frame["arm"] = np.where(frame["treated"], "new", "old")
    spread = 1 + frame["treated"] * (1 + np.abs(frame["x"]))
    mean = 2 + frame["treated"] * (1 + 0.5 * frame["x"]) + frame["x"] + 0.3 * frame["z"] + 1.5 * (frame["race"] == "c")
    frame["y"] = (mean + rng.normal(size=n) * spread).clip(-15, 25)
    return frame


FRAME = rows()
COVARIATES = ["x", "z", "race"]


def data(neighbors="add_remove", frame=FRAME, **options):
    return dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(2), neighbors=neighbors, **options)


def centred(frame=FRAME):
    found = pd.DataFrame({"y": frame["y"], "t": frame["treated"].astype(float), "x": frame["x"], "z": frame["z"],
                          "b": (frame["race"] == "b b") * 1.0, "c": (frame["race"] == "c") * 1.0})  # fmt: skip
    for name in "xzbc":
        found[name] -= found[name].mean()
    return found


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_without_noise_the_difference_is_welchs_test(neighbors):
    results = dpi.experiment("y", "treated", data(neighbors)).fit(NO_NOISE)
    treated, control = (FRAME["y"][FRAME["treated"] == arm] for arm in (True, False))
    theirs = stats.ttest_ind(treated, control, equal_var=False)
    np.testing.assert_allclose(results.params["effect"], treated.mean() - control.mean(), atol=1e-4)
    np.testing.assert_allclose(results.conf_int().loc["effect"], theirs.confidence_interval(), atol=1e-3)
    np.testing.assert_allclose(results.pvalues["effect"], theirs.pvalue, rtol=0.01)
    np.testing.assert_allclose(results.inference.df_resid, theirs.df, rtol=1e-3)
    assert results.flags == ()


def test_without_noise_the_adjusted_effect_is_lins():
    results = dpi.experiment("y", "treated", data(), covariates=COVARIATES).fit(NO_NOISE)
    frame = centred()
    theirs = smf.ols("y ~ t * (x + z + b + c)", frame).fit(cov_type="HC2")
    np.testing.assert_allclose(results.params["effect"], theirs.params["t"], atol=1e-4)
    # HC2 takes the centres as fixed: of a population they are estimated, too (Negi and Wooldridge 2021).
    differing = theirs.params[["t:x", "t:z", "t:b", "t:c"]].to_numpy()
    centres = differing @ np.cov(frame[list("xzbc")].to_numpy().T) @ differing / len(frame)
    np.testing.assert_allclose(results.bse["effect"], np.sqrt(theirs.bse["t"] ** 2 + centres), rtol=0.01)
    assert results.flags == ()


def test_difference_and_adjustment_come_from_one_release():
    asked = dpi.experiment("y", "treated", data(), covariates=COVARIATES)
    release = asked.measure(NO_NOISE)
    plain = asked.set_params(method="difference").infer(release)
    alone = dpi.experiment("y", "treated", data()).fit(NO_NOISE)
    np.testing.assert_allclose(plain.params, alone.params, atol=1e-4)
    assert plain.bse["effect"] > asked.infer(release).bse["effect"]


def test_strata_are_weighted_by_their_rows():
    frame = FRAME.assign(y=np.where(FRAME["site"] == "v", FRAME["y"] + 3 * FRAME["treated"], FRAME["y"]))
    results = dpi.experiment("y", "arm", data(frame=frame), strata="site").fit(NO_NOISE)
    expected, within, effects = 0.0, 0.0, {}
    for site, group in frame.groupby("site"):
        new, old = (group["y"][group["arm"] == one] for one in ("new", "old"))
        share, effects[site] = len(group) / len(frame), new.mean() - old.mean()
        expected += share * effects[site]
        within += share**2 * (new.var() / len(new) + old.var() / len(old))
    between = sum((frame["site"] == site).mean() * (one - expected) ** 2 for site, one in effects.items()) / len(frame)
    np.testing.assert_allclose(results.params["effect"], expected, atol=1e-4)
    np.testing.assert_allclose(results.bse["effect"], np.sqrt(within + between), rtol=1e-3)
    assert results.arms().index.names == ["arm", "site"]


def test_strata_and_covariates_together_cover():
    """Of 300 replicates 95% intervals miss 28 or more with probability .001."""
    missed = 0
    for seed in range(300):
        question = dpi.experiment("y", "treated", data(frame=rows(800, seed)), covariates=["x"], strata="site")
        (lower, upper), *_ = question.fit(dpi.ZCDP(0.5)).conf_int().to_numpy()
        missed += not lower <= 1.0 <= upper
    assert missed < 28


def test_arms_and_balance():
    results = dpi.experiment("y", "treated", data(), covariates=COVARIATES).fit(NO_NOISE)
    arms, balance = results.arms(), results.balance()
    np.testing.assert_allclose(arms["mean"], FRAME.groupby("treated")["y"].mean(), atol=1e-3)
    np.testing.assert_allclose(arms["count"], FRAME.groupby("treated").size(), atol=1e-3)
    assert list(balance.index) == ["x", "z", "race == 'b b'", "race == 'c'"]
    new, old = (FRAME["x"][FRAME["treated"] == one] for one in (True, False))
    spread = np.sqrt((new.var(ddof=0) + old.var(ddof=0)) / 2)
    np.testing.assert_allclose(balance.loc["x", "standardised"], (new.mean() - old.mean()) / spread, atol=1e-4)
    np.testing.assert_allclose(balance.loc["x", "P>|t|"], stats.ttest_ind(new, old, equal_var=False).pvalue, atol=1e-3)
    assert (balance["lower"] < balance["standardised"]).all()
    assert results.plot_balance().get_xlabel().startswith("standardised")
    assert dpi.experiment("y", "treated", data()).fit(NO_NOISE).balance().empty


@pytest.mark.parametrize("price", [dpi.ZCDP(0.1), dpi.PureDP(1.0), dpi.GDP(0.5)])
def test_a_stored_release_gives_the_same(price):
    results = dpi.experiment("y", "arm", data(), covariates=["x"], where="z > 1").fit(price)
    again = dpi.Release.from_json(results.release.to_json()).infer()
    assert str(again.summary()) == str(results.summary())
    pd.testing.assert_frame_equal(again.balance(), results.balance())
    batch = dpi.experiment("y", "arm", covariates=["x"], where="z > 1").estimate(_released(results.release))
    np.testing.assert_allclose(batch.intervals[0, 0], results.conf_int().loc["effect"])


def _released(release):
    from dpinfer.procedures.procedure import context_of, read_question

    return Released.of_release(release, context_of(release), read_question(release).plan(release.schema).rows)


def test_means_by_arm_serve_and_other_releases_do_not():
    release = dpi.mean(["y", "x"], data(), by=["arm", "site"]).measure(NO_NOISE)
    found = dpi.experiment("y", "arm", release, covariates="x", strata="site").infer()
    own = dpi.experiment("y", "arm", data(), covariates="x", strata="site").fit(NO_NOISE)
    np.testing.assert_allclose(found.params, own.params, atol=1e-4)
    with pytest.raises(InferenceError):
        dpi.experiment("y", "treated", release, covariates="x").infer()
    asked = dpi.mean("y", by="race", data=data()).measure(NO_NOISE)
    with pytest.raises(InferenceError):
        dpi.experiment("y", "arm", asked).infer()


def test_releases_of_experiments_are_not_combined():
    releases = [dpi.experiment("y", "arm", data()).measure(NO_NOISE) for _ in range(2)]
    with pytest.raises(InferenceError, match="releases of experiment cannot be combined"):
        dpi.combine(releases)


def test_what_noise_hides_is_said():
    small = data(frame=FRAME.iloc[:60])
    results = dpi.experiment("y", "arm", small, covariates=["x"], strata="site").fit(dpi.ZCDP(0.005))
    assert any("not determined: the effect" in flag and "arm=new" in flag for flag in results.flags)
    assert np.isnan(results.params["effect"])
    assert results.conf_int().loc["effect"].tolist() == [-40.0, 40.0]
    assert results.pvalues["effect"] == 1.0
    balance = results.balance()
    assert balance[["difference", "standardised"]].isna().all(axis=None)
    assert balance.loc["x", ["lower", "upper"]].tolist() == [-np.inf, np.inf]
    hidden = dpi.experiment("y", "arm", data(frame=FRAME.iloc[:500]), covariates=["x"]).fit(dpi.ZCDP(0.05))
    assert any("the adjustment is partial" in flag for flag in hidden.flags)


def test_a_covariate_that_never_varies_is_not_adjusted_for():
    frame = FRAME.assign(z=3.0)
    both = dpi.experiment("y", "arm", data(frame=frame), covariates=["x", "z"]).fit(NO_NOISE)
    one = dpi.experiment("y", "arm", data(frame=frame), covariates=["x"]).fit(NO_NOISE)
    np.testing.assert_allclose(both.params, one.params, atol=1e-3)
    assert both.balance().loc["z", "P>|t|"] > 0.001


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"treatment": "race"}, OptionError, "exactly two levels"),
        ({"treatment": "x"}, dpi.errors.DPInferError, "x"),
        ({"treatment": "nothing"}, UnknownColumnError, "nothing"),
        ({"treatment": 3}, OptionError, "treatment"),
        ({"outcome": "arm"}, dpi.errors.DPInferError, "arm"),
        ({"outcome": 3}, OptionError, "outcome"),
        ({"covariates": ["x", "x"]}, OptionError, "covariates"),
        ({"covariates": ["y"]}, OptionError, "covariates"),
        ({"covariates": ["arm"]}, OptionError, "covariates"),
        ({"covariates": 3}, OptionError, "covariates"),
        ({"strata": "x"}, dpi.errors.DPInferError, "x"),
        ({"method": "adjusted"}, OptionError, "covariates"),
        ({"method": "psm"}, OptionError, "method"),
        ({"method": "aipw"}, OptionError, "covariates"),
        ({"method": "aipw", "covariates": "x", "strata": "site"}, OptionError, "strata"),
        ({"method": "aipw", "covariates": "x", "trim": 0.4}, OptionError, "trim"),
        ({"trim": 0.1}, OptionError, "trim"),
        ({"where": "nothing > 1"}, UnknownColumnError, "nothing"),
    ],
)
def test_what_cannot_be_served_is_refused_before_any_charge(options, error, match):
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1.0))
    private = dpi.PrivateData(FRAME, SCHEMA, ledger)
    with pytest.raises(error, match=match):
        dpi.experiment(**({"outcome": "y", "treatment": "arm", "data": private} | options)).fit(dpi.ZCDP(0.1))
    assert ledger.spent.is_zero


def test_people_with_several_rows_are_refused():
    frame = FRAME.assign(id=np.arange(len(FRAME)) // 3)
    with pytest.raises(NotProvedError, match="an experiment assumes independent rows"):
        dpi.experiment("y", "arm", data(frame=frame, id="id", max_rows=2))
    dpi.experiment("y", "arm", data(frame=frame, id="id", max_rows=1)).fit(dpi.ZCDP(0.5))


def test_it_explains_plans_and_reports(tmp_path):
    asked = dpi.experiment("y", "arm", data(), covariates=["x"])
    told = asked.explain(dpi.ZCDP(0.1))
    assert "standard error of the effect from privacy noise alone" in told
    assert told.question == "effect of arm on y, covariates x"
    planned = dpi.plan(dpi.experiment("y", "arm"), pilot=FRAME, schema=SCHEMA, n=2000, privacy=dpi.ZCDP(0.1))
    assert 0 < planned.power["effect"] <= 1
    dpi.report(asked.fit(dpi.ZCDP(0.1)), tmp_path / "trial.html")
    assert "Lin 2013" in (tmp_path / "trial.html").read_text()


def test_an_arm_of_too_few_rows_is_named_without_noise_too():
    frame = pd.concat([FRAME[~FRAME["treated"]], FRAME[FRAME["treated"]].iloc[:5]])
    plain = dpi.experiment("y", "treated", data(frame=frame)).fit(NO_NOISE)
    assert plain.flags == ()
    adjusted = dpi.experiment("y", "treated", data(frame=frame), covariates=COVARIATES).fit(NO_NOISE)
    assert any("too few rows" in flag and "treated=True" in flag for flag in adjusted.flags)
    assert np.isnan(adjusted.params["effect"])
