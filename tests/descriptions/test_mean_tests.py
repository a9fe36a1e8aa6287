"""Tests of means as procedures: refusals that cost nothing, what is measured, releases that serve others too."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.descriptions.mean_tests import f_oneway, ttest_1samp, ttest_ind, ttest_rel
from dpinfer.errors import (
    DPInferError,
    FormulaError,
    InferenceError,
    MissingFromReleaseError,
    OptionError,
    SchemaError,
    UnknownColumnError,
)
from dpinfer.statistics.inference import Released

SCHEMA = dpi.Schema(
    x=dpi.Real(0, 10),
    y=dpi.Real(0, 10),
    far=dpi.Real(20, 30),
    s=dpi.Boolean(),
    g=dpi.Category(["a", "b", "c"]),
)
PRICE = dpi.ZCDP(0.1)
FREE = dpi.ZCDP(1e9)


def plain(rows=600, seed=1):
    return SCHEMA.sample(rows, np.random.default_rng(seed))


def simulated(frame=None, **options):
    return dpi.PublicData(plain() if frame is None else frame, SCHEMA, rng=np.random.default_rng(2), **options)


def guarded():
    return dpi.PrivateData(plain(), SCHEMA, dpi.Ledger.in_memory(PRICE, neighbors="add_remove"))


# Refusals cost nothing

REFUSED = {
    "three levels": (lambda d: ttest_ind("x", "g", d), OptionError, "by='g'.*exactly two levels.*a, b, c.*f_oneway"),
    "no groups": (lambda d: ttest_ind("x", None, d), OptionError, "by=None"),
    "several groups": (lambda d: f_oneway("x", ["g", "s"], d), OptionError, "by="),
    "numeric groups": (lambda d: f_oneway("x", "y", d), SchemaError, "'y' has no levels"),
    "unknown groups": (lambda d: f_oneway("x", "h", d), UnknownColumnError, "'h'"),
    "unknown column": (lambda d: ttest_1samp("z", d, popmean=1), UnknownColumnError, "'z'"),
    "a category": (lambda d: ttest_1samp("g", d, popmean=1), DPInferError, "g"),
    "a constant": (lambda d: ttest_1samp("3", d, popmean=1), FormulaError, "same for every row"),
    "no column": (lambda d: ttest_1samp("", d, popmean=1), OptionError, "column="),
    "a mean beyond the bounds": (lambda d: ttest_1samp("x", d, popmean=11), OptionError, r"popmean=11.*\[0, 10\]"),
    "a mean that is none": (lambda d: ttest_1samp("x", d, popmean=float("nan")), OptionError, "popmean"),
    "a mean as text": (lambda d: ttest_1samp("x", d, popmean="5"), OptionError, "popmean"),
    "pairs that cannot be equal": (lambda d: ttest_rel("x", "far", d), OptionError, "popmean=0"),
    "pairs with themselves": (lambda d: ttest_rel("x", "x ", d), OptionError, "b='x '"),
    "pairs with nothing": (lambda d: ttest_rel("x", None, d), OptionError, "b=None"),
    "another alternative": (
        lambda d: ttest_1samp("x", d, popmean=5, alternative="two"),
        OptionError,
        "alternative=.*'less'",
    ),
    "few draws": (lambda d: ttest_1samp("x", d, popmean=5, draws=10), OptionError, "draws=10"),
    "a negative seed": (lambda d: ttest_ind("x", "s", d, seed=-1), OptionError, "seed=-1"),
    "half equal variances": (lambda d: ttest_ind("x", "s", d, equal_var=1), OptionError, "equal_var=1"),
    "no condition": (lambda d: ttest_ind("x", "s", d, where="x"), FormulaError, "x: is not a condition"),
    "rows alone": (lambda _: ttest_1samp("x", plain(), popmean=5), OptionError, "data="),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_questions_are_refused_by_name_and_cost_nothing(name):
    ask, error, match = REFUSED[name]
    data = guarded()
    with pytest.raises(error, match=match):
        ask(data).fit(PRICE)
    assert data.ledger.remaining == data.ledger.budget
    assert data.ledger.charges().empty


def test_a_question_without_data_is_refused_when_measured():
    with pytest.raises(OptionError, match="exactly two levels"):
        ttest_ind("x", "g").measurement(PRICE, schema=SCHEMA, neighbors="add_remove")


# What is measured


def test_it_measures_what_the_means_measure():
    test = ttest_ind("x", "s", where="y > 2").measurement(PRICE, schema=SCHEMA, neighbors="replace_one")
    means = dpi.mean("x", by="s", where="y > 2").measurement(PRICE, schema=SCHEMA, neighbors="replace_one")
    assert (test.kind, test.names, test.law, test.cost) == ("mean", means.names, means.law, means.cost)
    assert test.question["procedure"] == "ttest_ind"
    assert test.question["schema"] == means.question["schema"]
    assert test.rows.columns == means.rows.columns


def test_the_price_is_paid_once_and_tests_after_it_are_free():
    data = guarded()
    results = ttest_ind("x", "s", data).fit(PRICE)
    assert len(data.ledger.charges()) == 1
    again = results.release.infer()
    assert (again.statistic, again.pvalue) == (results.statistic, results.pvalue)
    assert len(data.ledger.charges()) == 1


def test_the_explanation_names_the_test_and_its_noise():
    text = ttest_ind("x", "s", simulated()).explain(PRICE)
    assert text.startswith("ttest_ind of x by s")
    assert "standard error from privacy noise alone" in text


# Nearly without noise they are scipy's


def truth(frame):
    a, b = frame["x"][~frame["s"].astype(bool)], frame["x"][frame["s"].astype(bool)]
    return {
        "one": (lambda d: ttest_1samp("x", d, popmean=4.8), stats.ttest_1samp(frame["x"], 4.8).statistic),
        "two": (lambda d: ttest_ind("x", "s", d, equal_var=True), stats.ttest_ind(a, b).statistic),
        "welch": (lambda d: ttest_ind("x", "s", d), stats.ttest_ind(a, b, equal_var=False).statistic),
        "pairs": (lambda d: ttest_rel("x", "y", d), stats.ttest_rel(frame["x"], frame["y"]).statistic),
        "f": (
            lambda d: f_oneway("x", "g", d, equal_var=True),
            stats.f_oneway(*(part["x"] for _, part in frame.groupby("g", observed=True))).statistic,
        ),
    }


@pytest.mark.parametrize("name", ["one", "two", "welch", "pairs", "f"])
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_with_hardly_any_noise_the_statistic_is_scipys(name, neighbors):
    frame = plain()
    ask, expected = truth(frame)[name]
    found = ask(simulated(frame, neighbors=neighbors)).fit(FREE)
    assert found.statistic == pytest.approx(expected, rel=1e-3, abs=1e-3)


# One release serves many tests


def test_means_that_were_measured_before_serve_a_test():
    means = dpi.mean(["x", "y"], simulated(), by="s").fit(PRICE).release
    found = ttest_ind("y", "s", means).infer()
    assert 0 < found.pvalue <= 1
    assert found.frame()["mean"].tolist() == means.infer().estimates.to_numpy()[1::2].tolist()
    assert f_oneway("y", "s", means).infer().pvalue > 0


def test_a_release_of_a_test_serves_another_test_and_the_means():
    release = ttest_ind("x", "s", simulated()).measure(PRICE)
    assert f_oneway("x", "s", release).infer().pvalue > 0
    assert ttest_ind("x", "s", release, alternative="less").infer().alternative == "less"
    assert np.allclose(dpi.mean("x", release, by="s").infer().estimates, release.infer().means.estimates)


def test_releases_of_something_else_are_refused():
    data = simulated()
    means = dpi.mean("x", data, by="s").measure(PRICE)
    with pytest.raises(MissingFromReleaseError, match="no mean of y"):
        ttest_ind("y", "s", means).infer()
    with pytest.raises(MissingFromReleaseError, match="of all rows together"):
        ttest_1samp("x", means, popmean=5).infer()
    with pytest.raises(InferenceError, match=r"another question .mean of x by s"):
        ttest_ind("x", "s", means, where="y > 1").infer()
    with pytest.raises(InferenceError, match=r"another question .count of s"):
        ttest_ind("x", "s", dpi.count(data, by="s").measure(PRICE)).infer()
    with pytest.raises(InferenceError, match='target="data"'):
        ttest_ind("x", "s", dpi.mean("x", data, by="s", target="data").measure(PRICE)).infer()
    with pytest.raises(InferenceError, match="without weights"):
        ttest_ind("x", "s", dpi.mean("x", data, by="s", weights="y").measure(PRICE)).infer()


def test_another_hypothesis_on_the_same_release_is_free():
    release = ttest_1samp("x", simulated(), popmean=5).measure(PRICE)
    again = release.infer(popmean=4.5, alternative="greater", draws=199)
    alone = ttest_1samp("x", release, popmean=4.5, alternative="greater", draws=199).infer()
    assert tuple(again) == tuple(alone)
    assert again.hypothesis == "mean of x = 4.5"
    for options in ({"popmean": 11}, {"where": "s"}, {"column": "y"}):
        with pytest.raises(OptionError, match=next(iter(options))):
            release.infer(**options)


def test_an_analysis_of_variance_has_no_sides_and_groups_no_given_mean():
    release = f_oneway("x", "g", simulated()).measure(PRICE)
    with pytest.raises(OptionError, match=r"alternative='less'.*no sides"):
        release.infer(alternative="less")
    with pytest.raises(OptionError, match="popmean=3"):
        release.infer(popmean=3)


# Groups by a condition, many releases at once


def test_a_condition_makes_two_groups():
    frame = plain().assign(x=lambda d: d["y"] / 2)
    found = ttest_ind("x", "y > 5", simulated(frame)).fit(PRICE)
    assert found.pvalue < 0.01
    assert found.confidence_interval().high < 0


def test_many_releases_at_once_have_the_pvalues_of_each():
    question = ttest_ind("x", "s")
    measured = question.measurement(PRICE, schema=SCHEMA, neighbors="add_remove")
    release = question.bind(simulated(pd.concat([plain()] * 3))).measure(PRICE)
    released = Released.of_study(measured, release.array[None])
    found = question.batch_pvalues(released, draws=9999, rng=np.random.default_rng(1))
    alone = ttest_ind("x", "s", release, draws=9999).infer().pvalue
    assert found[0] == pytest.approx(alone, abs=0.035)  # five Monte Carlo standard errors at most
