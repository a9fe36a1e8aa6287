"""Doubly robust effects: equality with statsmodels where noise is off, coverage, flags and refusals."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.treatment.treatment_effects import TreatmentEffect

import dpinfer as dpi
from dpinfer.errors import InferenceError, NotProvedError, OptionError, PrivacyUnitError, ReleaseFormatError

NO_NOISE = dpi.ZCDP(1e12)
SCHEMA = dpi.Schema(
    y=dpi.Real(-8, 10), a=dpi.Real(-4, 4), b=dpi.Real(-4, 4), c=dpi.Category(["u", "v w"]), t=dpi.Boolean(),
    arm=dpi.Category(["old", "new"]),
)  # fmt: skip
COVARIATES = ["a", "b", "c"]


def rows(n=4000, seed=1, kind="right"):
    """Rows whose effect is .5 on average."""
    rng = np.random.default_rng(seed)
    (a, b), c = rng.normal(size=(2, n)).clip(-4, 4), rng.random(n) < 0.3
    along = -0.8 + 0.5 * a - 0.3 * b + 0.4 * (c - 0.3)
    if kind == "wrong propensity":
        along = -0.8 + 0.6 * np.tanh(2 * a) + 0.4 * (np.abs(b) - 0.8)
    treated = rng.random(n) < 1 / (1 + np.exp(-along))
    mean = 0.6 * a + 0.4 * b - 0.5 * c
    if kind == "wrong outcome":
        mean = mean + 0.4 * (a**2 - 1) + 0.3 * a * b
    y = mean + treated * (0.5 + 0.3 * a) + rng.normal(size=n)
    return pd.DataFrame({"y": y.clip(-8, 10), "a": a, "b": b, "c": np.where(c, "v w", "u"), "t": treated,
                         "arm": np.where(treated, "new", "old")})  # fmt: skip


FRAME = rows()


def asked(frame=FRAME, neighbors="add_remove", treatment="t", seed=2, **options):
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(seed), neighbors=neighbors)
    return dpi.experiment("y", treatment, data, **({"covariates": COVARIATES, "method": "aipw"} | options))


def theirs(frame):
    design = sm.add_constant(pd.DataFrame({"a": frame["a"], "b": frame["b"], "c": (frame["c"] == "v w") * 1.0}))
    logit = sm.Logit(frame["t"].astype(float), design).fit(disp=0)
    treatment = frame["t"].astype(int).to_numpy()
    found = TreatmentEffect(sm.OLS(frame["y"], design), treatment, results_select=logit).aipw()
    return float(found.effect[0]), float(np.sqrt(found.results_gmm.cov_params()[0, 0])), logit


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("kind", ["right", "wrong outcome", "wrong propensity"])
def test_without_noise_the_effect_is_that_of_statsmodels(kind, neighbors):
    frame = rows(kind=kind)
    results, (effect, error, logit) = asked(frame, neighbors).fit(NO_NOISE), theirs(frame)
    np.testing.assert_allclose(results.params["effect"], effect, atol=3e-5)
    np.testing.assert_allclose(results.bse["effect"], error, rtol=0.01)
    np.testing.assert_allclose(results.nuisances["logit of t"], logit.params, atol=1e-4)
    assert results.flags == ()
    assert results.bias_bound < 1e-4


def test_treatments_of_every_kind_give_the_same():
    first, *others = (asked(treatment=one).fit(NO_NOISE).params["effect"] for one in ("t", "arm", "arm == 'new'"))
    np.testing.assert_allclose(others, first, atol=1e-4)


def test_a_condition_leaves_rows_out():
    some = asked(where="c == 'u'", covariates=["a", "b"]).fit(NO_NOISE)
    alone = asked(FRAME[FRAME["c"] == "u"], covariates=["a", "b"]).fit(NO_NOISE)
    np.testing.assert_allclose(some.params, alone.params, atol=1e-4)
    assert "Rows: c == 'u'." in str(some.summary())


@pytest.mark.parametrize("kind", ["wrong outcome", "wrong propensity"])
def test_intervals_cover_where_one_model_is_wrong(kind):
    """Of 60 replicates 95% intervals miss 11 or more with probability .0003."""
    missed = 0
    for seed in range(60):
        (lower, upper), *_ = asked(rows(8000, seed, kind), seed=seed).fit(dpi.ZCDP(2.0)).conf_int().to_numpy()
        missed += not lower <= 0.5 <= upper
    assert missed < 11


def test_confounding_is_taken_off():
    results = asked(rows(30_000)).fit(dpi.ZCDP(0.5))
    (lower, upper), *_ = results.conf_int().to_numpy()
    plain = asked(rows(30_000), method="difference").fit(dpi.ZCDP(0.5))
    assert lower <= 0.5 <= upper < plain.conf_int().loc["effect"].iloc[0]
    assert 0 < results.bias_bound < upper - lower
    assert results.pvalues["effect"] < 0.01


@pytest.mark.parametrize("price", [dpi.ZCDP(0.5), dpi.PureDP(50.0), dpi.GDP(1.0), dpi.ApproxDP(2.0, 1e-6)])
def test_a_stored_release_gives_the_same(price):
    results = asked().fit(price)
    again = dpi.Release.from_json(results.release.to_json()).infer()
    assert str(again.summary()) == str(results.summary())
    pd.testing.assert_frame_equal(again.nuisances, results.nuisances)


def test_a_damaged_release_is_refused():
    text = asked().measure(dpi.ZCDP(0.5)).to_json()
    for old, new in (('"trim":', '"trims":'), ('"units":', '"unit":'), ('"bound":', '"bounds":')):
        assert old in text
        with pytest.raises(ReleaseFormatError):
            dpi.Release.from_json(text.replace(old, new)).infer()


def test_a_release_serves_its_own_question_alone():
    release = asked().measure(NO_NOISE)
    with pytest.raises(InferenceError):
        dpi.experiment("y", "t", release, covariates=COVARIATES).infer()
    with pytest.raises(InferenceError):
        dpi.experiment("y", "t", release, covariates=["a"], method="aipw").infer()


def test_what_noise_hides_is_said():
    small = asked(FRAME.iloc[:500]).fit(dpi.ZCDP(0.05))
    assert any("not determined: the effect" in flag for flag in small.flags)
    assert np.isnan(small.params["effect"])
    assert small.conf_int().loc["effect"].tolist() == [-18.0, 18.0]
    assert small.pvalues["effect"] == 1.0
    one_arm = asked(FRAME[FRAME["t"]]).fit(NO_NOISE)
    assert any("too few rows" in flag and "t=False" in flag for flag in one_arm.flags)
    apart = asked(FRAME.assign(t=FRAME["a"] > 0)).fit(NO_NOISE)
    assert any("little overlap" in flag for flag in apart.flags)
    assert apart.bias_bound > 0.1


@pytest.mark.parametrize("name", ["empty", "constant", "collinear"])
@pytest.mark.parametrize("price", [dpi.ZCDP(1e-6), dpi.ZCDP(0.1), dpi.PureDP(0.01), NO_NOISE])
def test_strange_rows_leave_finite_intervals(name, price):
    constant, collinear = FRAME.assign(a=1.0, y=3.0), FRAME.assign(b=FRAME["a"])
    frame = {"empty": FRAME.iloc[:0], "constant": constant, "collinear": collinear}[name]
    results = asked(frame).fit(price)
    assert np.isfinite(results.conf_int().to_numpy()).all()
    assert 0 <= results.pvalues["effect"] <= 1


@pytest.mark.parametrize(
    ("options", "price", "error"),
    [
        ({"covariates": ()}, 0.1, OptionError),
        ({"strata": "c", "covariates": ["a"]}, 0.1, OptionError),
        ({"covariates": ["a", "t"]}, 0.1, OptionError),
        ({"trim": 0.4}, 0.1, OptionError),
        ({"trim": True}, 0.1, OptionError),
        ({"treatment": "a"}, 0.1, dpi.errors.DPInferError),
        ({}, 1e-12, PrivacyUnitError),
    ],
)
def test_what_cannot_be_served_is_refused_before_any_charge(options, price, error):
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1.0))
    private = dpi.PrivateData(FRAME, SCHEMA, ledger)
    given = {"treatment": "t", "covariates": COVARIATES, "method": "aipw"} | options
    with pytest.raises(error):
        dpi.experiment("y", data=private, **given).fit(dpi.ZCDP(price))
    assert ledger.spent.is_zero


def test_people_with_several_rows_are_refused():
    frame = FRAME.assign(id=np.arange(len(FRAME)) // 3)
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(2), id="id", max_rows=2)
    with pytest.raises(NotProvedError, match="an experiment assumes independent rows"):
        dpi.experiment("y", "t", data, covariates=COVARIATES, method="aipw")


def test_it_explains_and_reports(tmp_path):
    told = asked().explain(dpi.ZCDP(0.1))
    assert "trimmed to [0.01, 0.99]" in told
    assert told.question == "doubly robust effect of t on y, covariates a, b, c"
    dpi.report(asked().fit(dpi.ZCDP(0.5)), tmp_path / "effect.html")
    assert "Propensities are trimmed" in (tmp_path / "effect.html").read_text()
