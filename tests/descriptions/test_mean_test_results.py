"""Results of tests of means: members named as in scipy, intervals, tables, plots, damaged and empty releases."""

import copy
import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.descriptions.mean_tests import f_oneway, ttest_1samp, ttest_ind, ttest_rel
from dpinfer.errors import InferenceError, OptionError, ReleaseFormatError
from dpinfer.release import Release

SCHEMA = dpi.Schema(x=dpi.Real(0, 10), y=dpi.Real(0, 10), s=dpi.Boolean(), g=dpi.Category(["a", "b", "c"]))
ROWS = 800
PRICE = dpi.ZCDP(0.2)


def frame():
    rng = np.random.default_rng(1)
    drawn = SCHEMA.sample(ROWS, rng)
    return drawn.assign(x=rng.normal(5, 1, ROWS) + drawn["s"].astype(float) / 2)


def fitted(ask, privacy=PRICE, rows=None, **options):
    source = dpi.PublicData(frame() if rows is None else rows, SCHEMA, rng=np.random.default_rng(2), **options)
    return ask(source).fit(privacy)


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
    assert results["ttest_1samp"].df == pytest.approx(ROWS - 1, abs=30)
    pooled = ttest_ind("x", "s", results["ttest_ind"].release, equal_var=True).infer()
    assert pooled.df == pytest.approx(ROWS - 2, abs=40)
    assert results["f_oneway"].dof == 2
    assert results["f_oneway"].dof_resid == pytest.approx(ROWS - 3, abs=50)


def test_welch_has_the_degrees_of_freedom_of_satterthwaite():
    rows = frame()
    a, b = rows["x"][~rows["s"].astype(bool)], rows["x"][rows["s"].astype(bool)]
    found = fitted(lambda d: ttest_ind("x", "s", d, equal_var=False), dpi.ZCDP(1e9), rows)
    assert found.df == pytest.approx(stats.ttest_ind(a, b, equal_var=False).df, rel=1e-3)


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_intervals_are_scipys_where_there_is_hardly_any_noise(alternative):
    rows = frame()
    a, b = rows["x"][~rows["s"].astype(bool)], rows["x"][rows["s"].astype(bool)]
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


@pytest.mark.parametrize("level", [0, 1, 1.5])
def test_levels_that_are_none_are_refused(results, level):
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
    assert shown["count"].sum() == pytest.approx(ROWS, abs=40)


@pytest.mark.parametrize(("name", "label"), [("ttest_ind", "squared t"), ("f_oneway", "2 F")])
def test_the_null_is_drawn_on_the_scale_that_was_simulated(results, name, label):
    found = results[name]
    axes = found.plot_null()
    assert axes.get_xlabel() == label
    scale = found.statistic**2 if name == "ttest_ind" else 2 * found.statistic
    assert found.distribution.statistic == pytest.approx(scale)
    plt.close(axes.figure)


@pytest.mark.parametrize("name", ASKED)
def test_a_release_gives_the_same_test_again_after_a_round_trip(results, name):
    read = Release.from_json(results[name].release.to_json())
    again = read.infer()
    assert (again.statistic, again.pvalue) == (results[name].statistic, results[name].pvalue)
    assert again.hypothesis == results[name].hypothesis


# Damaged releases


def damaged(release, **changes):
    stored = copy.deepcopy(json.loads(release.to_json()))
    for name, value in changes.items():
        stored["question"][name] = value
    return Release.from_json(json.dumps(stored))


BROKEN = {
    "another test": {"test": "ttest"},
    "a test that is no text": {"test": []},
    "a test without groups": {"test": "ttest_1samp"},
    "no column": {"column": None},
    "another column": {"column": "y"},
    "an unknown column": {"column": "zz"},
    "other groups": {"by": "g"},
    "no groups": {"by": None},
    "a mean as text": {"popmean": "5"},
    "an alternative": {"alternative": "both"},
    "a list for an alternative": {"alternative": []},
    "draws": {"draws": 1.5},
    "a seed": {"seed": "0"},
    "equal variances": {"equal_var": "yes"},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_test_is_a_damaged_release(results, name):
    with pytest.raises(ReleaseFormatError):
        damaged(results["ttest_ind"].release, **BROKEN[name]).infer()


def test_a_test_that_is_missing_or_does_not_fit_is_a_damaged_release(results):
    stored = json.loads(results["ttest_ind"].release.to_json())
    for name in ("test", "column", "by", "where", "popmean", "equal_var", "alternative", "draws", "seed"):
        question = {key: value for key, value in stored["question"].items() if key != name}
        with pytest.raises(ReleaseFormatError, match=f"{name} is missing"):
            Release.from_json(json.dumps({**stored, "question": question})).infer()
    with pytest.raises(ReleaseFormatError):
        damaged(results["ttest_1samp"].release, popmean=99.0).infer()
    stored = json.loads(results["ttest_ind"].release.to_json())
    stored["kind"] = "table"
    with pytest.raises(ReleaseFormatError, match="kind"):
        Release.from_json(json.dumps(stored)).infer()


# Releases that tell nothing


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("rows", [0, 1, 12])
@pytest.mark.parametrize("privacy", [dpi.ZCDP(0.0005), dpi.PureDP(0.05), dpi.ZCDP(100.0)])
def test_few_rows_give_a_flagged_and_valid_result(name, rows, privacy):
    found = fitted(ASKED[name], privacy, frame().iloc[:rows])
    assert 0 < found.pvalue <= 1
    assert np.isfinite(found.statistic)
    assert found.flags
    assert isinstance(found.summary().as_text(), str)
    assert isinstance(found.frame(), pd.DataFrame)


def test_plenty_of_rows_carry_no_flag(results):
    assert results["ttest_ind"].flags == ()


@pytest.mark.parametrize(("ask", "by"), [(ttest_ind, "s"), (f_oneway, "g")])
def test_by_default_every_group_has_a_variance_of_its_own(ask, by):
    found = fitted(lambda d: ask("x", by, d))
    assert "A variance for every group (Welch)." in found.notes
    assert ask("x", by, found.release, equal_var=False).infer().pvalue == found.pvalue
    assert "One variance for all groups." in ask("x", by, found.release, equal_var=True).infer().notes


@pytest.mark.parametrize(("ask", "by"), [(ttest_ind, "s"), (f_oneway, "g")])
def test_one_variance_for_all_is_flagged_where_variances_differ_beyond_noise(ask, by):
    drawn = frame()
    small = drawn["s"].astype(bool) if by == "s" else drawn["g"] == "a"
    rng = np.random.default_rng(4)
    unequal = drawn.assign(x=rng.normal(5, np.where(small, 1.5, 0.3)))
    told = "the variances of the groups differ"
    for rows, equal_var, privacy, flagged in (
        (unequal, True, dpi.ZCDP(1.0), True),
        (unequal, False, dpi.ZCDP(1.0), False),
        (unequal, True, dpi.ZCDP(1e-4), False),
        (drawn, True, dpi.ZCDP(1.0), False),
    ):
        found = fitted(lambda d, equal_var=equal_var: ask("x", by, d, equal_var=equal_var), privacy, rows)
        assert any(told in flag for flag in found.flags) is flagged


def test_values_nearly_all_at_one_bound_are_flagged():
    rows = frame().iloc[:150].assign(x=lambda d: np.where(np.arange(len(d)) < 4, 0.0, 10.0))
    found = fitted(lambda d: ttest_1samp("x", d, popmean=9.5), dpi.ZCDP(10.0), rows)
    assert any("at one bound" in flag for flag in found.flags)
