"""Results of a bootstrap: what is shown and stored, other functions of the same sums, and releases that are damaged."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from matplotlib.figure import Figure
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import DPInferError, MissingFromReleaseError, OptionError
from dpinfer.resampling.inference import BootstrapInference
from tests.asking import (
    assert_damage_is_refused,
    assert_other_sums_are_refused,
    damaged,
    read_and_infer,
)
from tests.results.sound import sound

ROWS, REPLICATES = 3000, 40
SCHEMA = dpi.Schema(
    x=dpi.Real(0, 10), k=dpi.Integer(1, 9), b=dpi.Boolean(), g=dpi.Category(["u", "v"]), y=dpi.Real(0, 60)
)
ASKED = {
    "mean": (["x", "y"], "mean"),
    "proportion": (["b", "x > 5", "g"], "proportion"),
    "cov": (["x", "y"], "cov"),
    "ratio": (["x", "y"], "y / x"),
    "regression": ("y ~ x + C(g)", "mean"),
}


def people():
    rng = np.random.default_rng(5)
    frame = SCHEMA.sample(ROWS, rng)
    frame["y"] = np.clip(10 + 2 * frame["x"] + (1 + 0.4 * frame["x"]) * rng.normal(size=ROWS), 0, 60)
    return frame


FRAME = people()


@cache
def released(kind="mean", weights="public", price=None):
    neighbors = "replace_one" if weights == "public" else "add_remove"
    price = price or (dpi.ZCDP(2.0) if weights == "public" else dpi.GDP(1.0))
    data = dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(3), neighbors=neighbors)
    columns, statistic = ASKED[kind]
    replicates = REPLICATES if weights == "public" else 20
    return dpi.bootstrap(columns, data, statistic=statistic, replicates=replicates, weights=weights).measure(price)


def asking(release, **changes):
    return replace(release, question={**release.question, **changes})


def plain(text):
    return " ".join(str(text).split())


# What is shown


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ("public", ("replace_one", "40 replicates", "twice in one of each pair and not in the other", "2-zCDP")),
        ("double_or_nothing", ("add_remove", "20 replicates", "twice or not at all, drawn secretly", "1-GDP")),
    ],
)
@pytest.mark.parametrize("kind", ASKED)
def test_the_summary_says_what_was_done(kind, weights, words):
    results = released(kind, weights).infer()
    text = plain(results.summary())
    for word in (*words, "this is not a private release", "sampling error and privacy noise", "fiducial"):
        assert word in text, word
    for name in results.params.index:
        assert name in text
    assert "bootstrap" in text
    assert ("Values are clamped" in text) == (kind != "regression")


@pytest.mark.parametrize("kind", ASKED)
def test_replicates_are_a_frame_of_every_estimate(kind):
    results = released(kind).infer()
    frame = results.replicates
    assert frame.shape == (REPLICATES, len(results.params))
    assert list(frame.columns) == list(results.params.index)
    assert frame.index.name == "replicate"
    np.testing.assert_allclose(frame.mean(), results.params)
    half = (frame.to_numpy()[0::2] - frame.to_numpy()[1::2]) / 2
    inference = results.inference
    noise = np.diag(inference.gradient @ inference.sums.floor @ inference.gradient.T)
    own = 20 * (half**2).mean(axis=0)
    total = own / stats.chi2.ppf(0.5 * stats.chi2.cdf(own / noise, 20), 20)  # the median, given that it is above noise
    np.testing.assert_allclose(results.bse_sampling**2, total - noise, rtol=1e-6)
    assert isinstance(results.population_std, pd.Series)
    np.testing.assert_allclose(results.population_std, results.bse_sampling * np.sqrt(results.nobs))


# Intervals and tests


@pytest.mark.parametrize("kind", ["mean", "regression"])
def test_one_method_drives_intervals_and_tests(kind):
    """Of mixtures, too, which no interval of a normal law has."""
    for method in BootstrapInference.methods[1:]:
        results = released(kind).infer(inference=method)
        pd.testing.assert_frame_equal(released(kind).infer().with_inference(method).conf_int(), results.conf_int())
        for end in results.conf_int(0.2).to_numpy().T:
            at_the_end = results.t_test((np.eye(len(results.params)), end))
            np.testing.assert_allclose(at_the_end.pvalue, 0.2, rtol=1e-6)


def test_the_methods_of_the_source_are_told():
    text = plain(released().infer(inference="conservative", conservative=0.2).summary())
    assert "subtracts too much noise with probability 0.2" in text
    assert "Brawner & Honaker (2018) ignores part of the error" in text
    widths = [
        np.ptp(released().infer(inference="conservative", conservative=c).conf_int(), axis=1) for c in (0.01, 0.3)
    ]
    assert (widths[0] > widths[1]).all()
    assert "Brawner" not in plain(released().infer().summary())


@pytest.mark.parametrize("method", BootstrapInference.methods[1:])
def test_notes_are_those_of_the_method_that_was_chosen(method):
    asked, chosen = released().infer(inference=method), released().infer().with_inference(method)
    told = "ignores part of the error" in plain(chosen.summary())
    assert told == ("ignores part of the error" in plain(asked.summary())) == (method != "fiducial")


def test_differences_are_tested_with_their_covariance():
    results = released("proportion").infer()
    test = results.t_test(np.array([[1.0, -1.0, 0, 0]]))
    covariance = results.cov_params().to_numpy()
    assert float(np.ravel(test.sd)[0]) > 0
    assert covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1] > 0
    assert float(results.wald_test(np.eye(4)[:2], scalar=True).pvalue) < 1e-3
    assert np.linalg.eigvalsh(covariance)[0] > 0


@pytest.mark.parametrize("weights", ["public", "double_or_nothing"])
@pytest.mark.parametrize("kind", ASKED)
def test_the_data_can_be_the_target(kind, weights):
    results = released(kind, weights).infer(target="data")
    assert (results.bse_sampling == 0).all()
    np.testing.assert_allclose(results.noise_share, 1)
    wide = released(kind, weights).infer().conf_int()
    assert (np.ptp(results.conf_int(), axis=1) < np.ptp(wide, axis=1)).all()
    assert results.pvalues.between(0, 1).all()
    assert results.summary()


def test_bad_options_of_the_inference_are_refused():
    for option, value in (("inference", "bayes"), ("conservative", 1.0), ("conservative", "a"), ("target", "me")):
        with pytest.raises(OptionError) as caught:
            released().infer(**{option: value})
        assert caught.value.option == option
    with pytest.raises(OptionError, match="'most_conservative'"):
        released().infer().with_inference("score")


# Other functions of the same sums


def test_one_release_answers_other_functions_of_its_sums():
    release, means = released(price=dpi.ZCDP(1e8)), FRAME[["x", "y"]].mean()
    for statistic, exact in (
        ("y / x", [means["y"] / means["x"]]),
        ("sqrt(x) - 2", [np.sqrt(means["x"]) - 2]),
        ("mean", means),
        ("total", ROWS * means),
    ):
        results = release.infer(statistic=statistic)
        np.testing.assert_allclose(results.params, exact, rtol=1e-4)
        assert results.release is release
    assert list(release.infer(statistic="y / x").params.index) == ["mean(y) / mean(x)"]
    covariance = released("cov", price=dpi.ZCDP(1e8))
    r = covariance.infer(statistic="corr")
    assert r.params["corr(x, y)"] == pytest.approx(FRAME["x"].corr(FRAME["y"]), rel=1e-4)


def test_one_release_answers_other_regressions_among_its_columns():
    release = released("regression", price=dpi.ZCDP(1e8))
    for formula in ("y ~ x", "x ~ y", "y ~ C(g)", "y ~ x + C(g)"):
        exact = smf.ols(formula, FRAME).fit().params
        found = release.infer(statistic=formula).params
        np.testing.assert_allclose(found[exact.index], exact, rtol=1e-3, atol=1e-4)
        assert release.infer(statistic=formula).response == formula[0]


@pytest.mark.parametrize(
    ("kind", "statistic", "error", "message"),
    [
        ("mean", "variance", MissingFromReleaseError, "mean of x, y, which do not give bootstrap of variance"),
        ("mean", "corr", MissingFromReleaseError, "measure that"),
        ("mean", "y ~ x", MissingFromReleaseError, "cross-products"),
        ("cov", "y ~ x", MissingFromReleaseError, "cross-products"),
        ("regression", "mean", MissingFromReleaseError, "regression y ~ x"),
        ("regression", "y ~ k", DPInferError, "k"),
        ("regression", "y ~ I(x**2)", MissingFromReleaseError, "x"),
        ("mean", "median", OptionError, "a median or a maximum is not one"),
        ("mean", "k / x", OptionError, "columns: x, y"),
        ("mean", 3, OptionError, "arithmetic of means"),
    ],
)
def test_what_the_sums_do_not_hold_is_refused(kind, statistic, error, message):
    with pytest.raises(error, match=message):
        released(kind).infer(statistic=statistic)


# Releases that are damaged

JUNK = [None, "junk", -0.5, [], {}, True, -1, 3, 10**30, float("nan"), [1], ["a", "b"], {"a": 1}]
MISFITS = {
    "columns": [["y", "x"], ["x"], ["x", "y", "k"], ["x", "g"]],
    "statistic": ["variance", "median", "y ~ x", "z / x"],
    "replicates": [1, 20, 80],
    "weights": ["multinomial"],
    "target": ["rows"],
    "where": ["x", "z > 1"],
    "inference": ["bayes"],
    "conservative": [5.0, "0.05"],
    **dict.fromkeys(("text", "seed", "schema"), ()),
}


@pytest.mark.parametrize("kind", ["mean", "regression"])
def test_an_entry_that_lacks_or_does_not_fit_is_a_damaged_release(kind):
    assert {*MISFITS, "procedure"} == set(released(kind).question)
    for entry in MISFITS:
        allowed = {"where": [None], "seed": [3], "text": ["junk"]}.get(entry, [])
        allowed += [[]] if (entry, kind) == ("columns", "regression") else []
        junk = [value for value in JUNK if value not in allowed or type(value) is bool]
        assert_damage_is_refused(released(kind), {entry: junk})
        for value in allowed:
            read_and_infer(damaged(released(kind), ("question", entry), value))
    assert_damage_is_refused(released("mean"), MISFITS)


def test_sums_that_lack_or_are_too_many_are_a_damaged_release():
    assert_other_sums_are_refused(released())


@pytest.mark.parametrize("kind", ["cov", "ratio", "regression"])
def test_extreme_sums_give_valid_results(kind):
    """Of means: the test of that name in `results/test_promises.py`."""
    release = released(kind)
    count = len(release.values)
    patterns = [1] * count, [(-1) ** j for j in range(count)], [j % 3 - 1 for j in range(count)]
    for size in (0, 1, -(10**12), 10**18):
        for signs in patterns:
            stage = replace(release.stages[0], values=tuple(size * sign for sign in signs))
            results = replace(release, stages=(stage,)).infer()
            sound(results)
            assert np.isfinite(results.params).all()


def test_huge_noise_gives_unbounded_intervals_and_says_so():
    for kind in ASKED:
        results = released(kind, price=dpi.ZCDP(1e-7)).infer()
        assert np.isinf(results.conf_int()).all(axis=None)
        assert (results.pvalues == 1).all()
        assert "intervals are unbounded, p-values 1" in results.flags[0]
        assert "intervals are unbounded" in plain(results.summary())
        assert results.plot_coefficients(Figure().subplots())
        assert "inf" in results.to_html()
