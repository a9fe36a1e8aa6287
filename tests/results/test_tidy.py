"""Results as frames in broom's columns."""

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import OptionError
from dpinfer.procedures.procedure import Estimates
from dpinfer.results import PrivateResults
from dpinfer.statistics.inference import BatchEstimates
from tests.results.conftest import StubRelease, UnboundedStub

TIDY = ["term", "estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high"]
SCHEMA = dpi.Schema(y=dpi.Real(0, 1), x=dpi.Real(0, 1), g=dpi.Category(["a", "b", "c"]), d=dpi.Boolean())
PRICE = dpi.ZCDP(1.0)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    return dpi.PublicData(SCHEMA.sample(5_000, rng), SCHEMA, rng=rng)


def check(results, alpha):
    frame, ends = results.to_frame(alpha), results.conf_int(alpha)
    assert list(frame)[:7] == TIDY
    assert frame["term"].tolist() == list(map(str, results.params.index))
    assert frame.index.equals(pd.RangeIndex(len(results.params)))
    for name, values in {"estimate": results.params, "std.error": results.bse, "p.value": results.pvalues}.items():
        np.testing.assert_array_equal(frame[name], values)
    np.testing.assert_array_equal(frame["statistic"], results.params / results.bse)
    np.testing.assert_array_equal(frame[["conf.low", "conf.high"]], ends)
    return frame


@pytest.mark.parametrize("alpha", [0.05, 0.2])
@pytest.mark.parametrize(
    "question",
    [
        dpi.mean("y", by="g"),
        dpi.table(["g", "d"]),
        dpi.ols("y ~ x + g", method="gram"),
        dpi.logit("d ~ x"),
        dpi.mnlogit("g ~ x"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_frames_say_what_the_results_say(question, data, alpha):
    results = question.bind(data).fit(PRICE)
    frame = check(results, alpha)
    np.testing.assert_array_equal(frame["noise.share"], results.noise_share)
    bound = getattr(results.inference, "bias_bound", None)
    assert ("bias.bound" in frame) == (bound is not None)
    if bound is not None:
        np.testing.assert_array_equal(frame["bias.bound"], bound)


def test_a_regression_by_iterations_has_bounds_on_its_biases(data):
    frame = dpi.ols("y ~ x", data).fit(PRICE).to_frame()
    assert list(frame) == [*TIDY, "noise.share", "bias.bound"]


def test_infinite_ends_stay(case):
    frame = check(PrivateResults(UnboundedStub(**case.inference.__dict__), StubRelease()), 0.05)
    assert np.isneginf(frame["conf.low"][1])
    assert np.isposinf(frame["conf.high"][2])


def test_estimates_of_a_procedure_of_ones_own():
    def estimate(alpha):
        ends = np.array([[[1.0 - alpha, 1.0 + alpha]]])
        one = np.ones((1, 1))
        return BatchEstimates(("gini",), one, one / 2, one / 20, ends, np.array([True]))

    results = Estimates(estimate, StubRelease())
    assert list(check(results, 0.1)) == TIDY
    assert results.glance().to_dict("records") == [
        {"privacy": "ZCDP(rho=0.1)", "neighbours": "add_remove", "unit": "one row", "warnings": 1}
    ]


def test_marginal_effects(data):
    effects = dpi.logit("d ~ x + g", data).fit(PRICE).get_margeff()
    frame, shown = effects.to_frame(0.1), effects.summary_frame(0.1)
    assert list(frame) == TIDY
    assert frame["term"].tolist() == list(shown.index)
    np.testing.assert_array_equal(frame[TIDY[1:]], shown)


def test_an_effect_that_is_zero_for_certain_has_statistic_zero():
    from dpinfer.results.tidy import tidy_frame

    frame = tidy_frame(["a", "b"], [0.0, 1.0], [0.0, 0.5], [1.0, 0.05], [[0.0, 0.0], [0.0, 2.0]])
    assert frame["statistic"].tolist() == [0.0, 2.0]


def test_frames_of_several_results_stack(data):
    several = {"mean": dpi.mean("y", data).fit(PRICE), "ols": dpi.ols("y ~ x", data).fit(PRICE)}
    stacked = pd.concat({name: one.to_frame() for name, one in several.items()}, names=["model"])
    assert stacked.loc["ols"].shape[0] == 2
    assert stacked.loc["mean"]["bias.bound"].isna().all()


def test_a_glance_is_one_row_of_facts(case):
    noisy = case.noisy(nobs=398.7, nobs_is_public=False, df_resid=396.0, rsquared=0.25)
    (facts,) = noisy.glance().to_dict("records")
    assert facts.pop("adj.r.squared") == noisy.rsquared_adj
    assert facts == {
        "model": "Private OLS",
        "response": "income",
        "nobs": 398.7,
        "nobs.public": False,
        "df.residual": 396.0,
        "r.squared": 0.25,
        "inference": "wald",
        "target": "population",
        "privacy": "ZCDP(rho=0.1)",
        "neighbours": "add_remove",
        "unit": "one row",
        "warnings": 0,
    }


def test_what_was_not_released_is_missing_in_a_glance(case):
    glance = case.noisy(nobs=None, rsquared=None, df_resid=np.inf).glance()
    assert glance["nobs"].isna().all()
    assert "r.squared" not in glance
    assert np.isposinf(glance["df.residual"][0])


def test_public_data_have_no_guarantee(data):
    assert dpi.mean("y", data).fit(PRICE).glance()["privacy"].item() == "none (public data)"


@pytest.mark.parametrize("alpha", [0, 1, "0.05", None])
def test_alpha_is_a_level(case, alpha):
    with pytest.raises(OptionError, match="alpha"):
        case.noisy().to_frame(alpha)


def test_combined_releases(data):
    releases = [dpi.mean("y", data).measure(price) for price in (PRICE, dpi.PureDP(1.0))]
    combined = dpi.combine(releases)
    check(combined, 0.05)
    assert combined.glance().shape[0] == 1
