"""Tests of means: refusals that cost nothing, what is measured, results as scipy names them, releases of others."""

from functools import partial

import matplotlib.pyplot as plt
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
from tests.asking import assert_damage_is_refused, assert_refused, each

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


def shifted():
    """Rows whose mean is larger by a half where s is true."""
    rng = np.random.default_rng(1)
    drawn = SCHEMA.sample(800, rng)
    return drawn.assign(x=rng.normal(5, 1, 800) + drawn["s"].astype(float) / 2)


def simulated(frame=None, **options):
    return dpi.PublicData(plain() if frame is None else frame, SCHEMA, rng=np.random.default_rng(2), **options)


# Refusals cost nothing

ONE = partial(each, ttest_1samp, popmean=5)
REFUSED = [
    (OptionError, "by='g'.*exactly two levels.*a, b, c.*f_oneway", each(ttest_ind, "x", by=["g"])),
    (OptionError, "by=None", each(ttest_ind, "x", by=[None])),
    (OptionError, "by=", each(f_oneway, "x", by=[["g", "s"]])),
    (SchemaError, "'y' has no levels", each(f_oneway, "x", by=["y"])),
    (UnknownColumnError, "'h'", each(f_oneway, "x", by=["h"])),
    (UnknownColumnError, "'z'", ONE(column=["z"])),
    (DPInferError, "g", ONE(column=["g"])),
    (FormulaError, "same for every row", ONE(column=["3"])),
    (OptionError, "column=", ONE(column=[""])),
    (OptionError, r"popmean=11.*\[0, 10\]", each(ttest_1samp, "x", popmean=[11])),
    (OptionError, "popmean", each(ttest_1samp, "x", popmean=[float("nan"), "5"])),
    (OptionError, "popmean=0", each(ttest_rel, "x", b=["far"])),
    (OptionError, "b='x '", each(ttest_rel, "x", b=["x "])),
    (OptionError, "b=None", each(ttest_rel, "x", b=[None])),
    (OptionError, "alternative=.*'less'", ONE("x", alternative=["two"])),
    (OptionError, "draws=10", ONE("x", draws=[10])),
    (OptionError, "seed=-1", each(ttest_ind, "x", "s", seed=[-1])),
    (OptionError, "equal_var=1", each(ttest_ind, "x", "s", equal_var=[1])),
    (FormulaError, "x: is not a condition", each(ttest_ind, "x", "s", where=["x"])),
    (OptionError, "data=", [lambda _: ttest_1samp("x", plain(), popmean=5)]),
]


@pytest.mark.parametrize(("error", "match", "questions"), REFUSED)
def test_bad_questions_are_refused_by_name_and_cost_nothing(error, match, questions):
    data = dpi.PrivateData(plain(), SCHEMA, dpi.Ledger.in_memory(PRICE))
    assert_refused(questions, error, match, data, PRICE)


# What is measured


def test_it_measures_what_the_means_measure():
    test = ttest_ind("x", "s", where="y > 2").measurement(PRICE, schema=SCHEMA, neighbors="replace_one")
    means = dpi.mean("x", by="s", where="y > 2").measurement(PRICE, schema=SCHEMA, neighbors="replace_one")
    assert (test.kind, test.names, test.law, test.cost) == ("mean", means.names, means.law, means.cost)
    assert test.question["procedure"] == "ttest_ind"
    assert test.question["schema"] == means.question["schema"]
    assert test.rows.columns == means.rows.columns


def test_the_explanation_names_the_test_and_its_noise():
    text = ttest_ind("x", "s", simulated()).explain(PRICE)
    assert text.startswith("ttest_ind of x by s")
    assert "standard error from privacy noise alone" in text


# Nearly without noise they are scipy's


def samples(frame):
    truth = frame["s"].astype(bool)
    return frame["x"][~truth], frame["x"][truth]


def truth(frame):
    a, b = samples(frame)
    groups = (part["x"] for _, part in frame.groupby("g", observed=True))
    return {
        "one": (lambda d: ttest_1samp("x", d, popmean=4.8), stats.ttest_1samp(frame["x"], 4.8)),
        "two": (lambda d: ttest_ind("x", "s", d, equal_var=True), stats.ttest_ind(a, b)),
        "welch": (lambda d: ttest_ind("x", "s", d), stats.ttest_ind(a, b, equal_var=False)),
        "pairs": (lambda d: ttest_rel("x", "y", d), stats.ttest_rel(frame["x"], frame["y"])),
        "f": (lambda d: f_oneway("x", "g", d, equal_var=True), stats.f_oneway(*groups)),
    }


@pytest.mark.parametrize("name", ["one", "two", "welch", "pairs", "f"])
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_with_hardly_any_noise_the_statistic_is_scipys(name, neighbors):
    frame = plain()
    ask, expected = truth(frame)[name]
    found = ask(simulated(frame, neighbors=neighbors)).fit(FREE)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-3, abs=1e-3)


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


# Results


LARGER = dpi.ZCDP(0.2)


def fitted(ask, privacy=LARGER, rows=None):
    return ask(simulated(shifted() if rows is None else rows)).fit(privacy)


ASKED = {
    "ttest_1samp": lambda d: ttest_1samp("x", d, popmean=5),
    "ttest_ind": lambda d: ttest_ind("x", "s", d),
    "ttest_rel": lambda d: ttest_rel("x", "y", d),
    "f_oneway": lambda d: f_oneway("x", "g", d),
}


@pytest.fixture(scope="module")
def results():
    return {name: fitted(ask) for name, ask in ASKED.items()}


@pytest.mark.parametrize("name", ASKED)
def test_results_unpack_and_print(results, name):
    found = results[name]
    statistic, pvalue = found
    assert (statistic, pvalue) == (found.statistic, found.pvalue)
    text = found.summary().as_text()
    assert found.hypothesis in text
    assert "count" in text
    assert "F statistic" in text if name == "f_oneway" else "t statistic" in text
    assert name in found.release.question["text"]


def test_degrees_of_freedom_are_those_of_the_rows(results):
    assert results["ttest_1samp"].df == pytest.approx(800 - 1, abs=30)
    pooled = ttest_ind("x", "s", results["ttest_ind"].release, equal_var=True).infer()
    assert pooled.df == pytest.approx(800 - 2, abs=40)
    assert results["f_oneway"].dof == 2
    assert results["f_oneway"].dof_resid == pytest.approx(800 - 3, abs=50)


def test_welch_has_the_degrees_of_freedom_of_satterthwaite():
    rows = shifted()
    a, b = samples(rows)
    found = fitted(lambda d: ttest_ind("x", "s", d, equal_var=False), dpi.ZCDP(1e9), rows)
    assert found.df == pytest.approx(stats.ttest_ind(a, b, equal_var=False).df, rel=1e-3)


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_intervals_are_scipys_where_there_is_hardly_any_noise(alternative):
    rows = shifted()
    a, b = samples(rows)
    exact = stats.ttest_ind(a, b, equal_var=False, alternative=alternative).confidence_interval(0.9)
    ask = ttest_ind("x", "s", alternative=alternative)
    found = fitted(ask.bind, dpi.ZCDP(1e9), rows).confidence_interval(0.9)
    assert found.low == pytest.approx(exact.low, abs=5e-3)
    assert found.high == pytest.approx(exact.high, abs=5e-3)


def test_the_interval_for_one_mean_is_that_of_the_frame(results):
    found = results["ttest_1samp"]
    low, high = found.confidence_interval(0.9)
    row = found.frame(alpha=0.1).iloc[0]
    assert (row["[0.05"], row["0.95]"]) == pytest.approx((low, high))
    assert low < found.estimate < high


def test_an_analysis_of_variance_has_no_single_difference(results):
    with pytest.raises(InferenceError, match="no single difference"):
        results["f_oneway"].confidence_interval()
    assert np.isnan(results["f_oneway"].estimate)
    for level in (0, 1, 1.5):
        with pytest.raises(OptionError, match="confidence_level"):
            results["ttest_ind"].confidence_interval(level)


def test_one_sided_intervals_need_more_than_half():
    found = fitted(lambda d: ttest_1samp("x", d, popmean=5, alternative="greater"))
    assert found.confidence_interval(0.6).high == np.inf
    with pytest.raises(OptionError, match=r"between 0\.5 and 1"):
        found.confidence_interval(0.5)


def test_the_frame_has_groups_with_both_errors(results):
    shown = results["f_oneway"].frame()
    assert shown.index.tolist() == ["a", "b", "c"]
    assert shown.columns[:5].tolist() == ["count", "mean", "std err", "std err (sampling)", "std err (noise)"]
    both = np.hypot(shown["std err (sampling)"], shown["std err (noise)"])
    assert np.allclose(shown["std err"], both)
    assert shown["count"].sum() == pytest.approx(800, abs=40)


@pytest.mark.parametrize(("name", "label"), [("ttest_ind", "squared t"), ("f_oneway", "2 F")])
def test_the_null_is_drawn_on_the_scale_that_was_simulated(results, name, label):
    found = results[name]
    axes = found.plot_null()
    assert axes.get_xlabel() == label
    scale = found.statistic**2 if name == "ttest_ind" else 2 * found.statistic
    assert found.distribution.statistic == pytest.approx(scale)
    plt.close(axes.figure)


WORSE = {
    "test": ["ttest", [], "ttest_1samp"],
    "column": [None, "y", "zz"],
    "by": ["g", None],
    "popmean": ["5"],
    "alternative": ["both", []],
    "draws": [1.5],
    "seed": ["0"],
    "equal_var": ["yes"],
    "where": [],
    "/kind": ["table"],
}


def test_a_damaged_test_is_a_damaged_release(results):
    assert_damage_is_refused(results["ttest_ind"].release, WORSE)
    assert_damage_is_refused(results["ttest_1samp"].release, {"popmean": [99.0]})


# Releases that tell nothing


@pytest.mark.parametrize("name", ASKED)
def test_few_rows_give_a_flagged_and_valid_result(name):
    for rows in (0, 1, 12):
        for privacy in (dpi.ZCDP(0.0005), dpi.PureDP(0.05), dpi.ZCDP(100.0)):
            found = fitted(ASKED[name], privacy, shifted().iloc[:rows])
            assert 0 < found.pvalue <= 1
            assert np.isfinite(found.statistic)
            assert found.flags
            assert isinstance(found.summary().as_text(), str)
            assert isinstance(found.frame(), pd.DataFrame)


@pytest.mark.parametrize(("ask", "by"), [(ttest_ind, "s"), (f_oneway, "g")])
def test_by_default_every_group_has_a_variance_of_its_own(ask, by):
    found = fitted(lambda d: ask("x", by, d))
    assert "Unequal variances (Welch)." in found.notes
    assert ask("x", by, found.release, equal_var=False).infer().pvalue == found.pvalue
    assert "Pooled variance." in ask("x", by, found.release, equal_var=True).infer().notes


@pytest.mark.parametrize(("ask", "by"), [(ttest_ind, "s"), (f_oneway, "g")])
def test_one_variance_for_all_is_flagged_where_variances_differ_beyond_noise(ask, by):
    drawn = shifted()
    small = drawn["s"].astype(bool) if by == "s" else drawn["g"] == "a"
    rng = np.random.default_rng(4)
    unequal = drawn.assign(x=rng.normal(5, np.where(small, 1.5, 0.3)))
    told = "the variances of the groups differ"
    assert fitted(ASKED["ttest_ind"]).flags == ()
    for rows, equal_var, privacy, flagged in (
        (unequal, True, dpi.ZCDP(1.0), True),
        (unequal, False, dpi.ZCDP(1.0), False),
        (unequal, True, dpi.ZCDP(1e-4), False),
        (drawn, True, dpi.ZCDP(1.0), False),
    ):
        found = fitted(lambda d, equal_var=equal_var: ask("x", by, d, equal_var=equal_var), privacy, rows)
        assert any(told in flag for flag in found.flags) is flagged


def test_values_nearly_all_at_one_bound_are_flagged():
    rows = shifted().iloc[:150].assign(x=lambda d: np.where(np.arange(len(d)) < 4, 0.0, 10.0))
    found = fitted(lambda d: ttest_1samp("x", d, popmean=9.5), dpi.ZCDP(10.0), rows)
    assert any("at one bound" in flag for flag in found.flags)
