"""Several tests, and several intervals, at once."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats import multitest

import dpinfer as dpi
from dpinfer.errors import NotProvedError, OptionError
from dpinfer.results.multiple_tests import METHODS, UNPROVED, multipletests
from dpinfer.statistics.inference import joint_level

SCHEMA = dpi.Schema(a=dpi.Boolean(), b=dpi.Category(["x", "y", "z"]), c=dpi.Real(0, 1))
DATA = dpi.PublicData(SCHEMA.sample(2000, np.random.default_rng(1)), SCHEMA, rng=np.random.default_rng(2))
TABLE = dpi.table(["a", "b"], DATA).measure(dpi.ZCDP(0.1))
MODEL = dpi.loglinear("a * b", TABLE).infer()
TESTS = {"b": dpi.chisquare("b", TABLE).infer(), "a, b": dpi.chi2_contingency("a", "b", TABLE).infer()}


@pytest.mark.parametrize("method", METHODS)
def test_corrections_are_those_of_statsmodels(method):
    pvalues = pd.Series([0.001, 0.02, 0.03, 0.5], index=list("abcd"))
    found = multipletests(pvalues, 0.1, method)
    reject, corrected, *_ = multitest.multipletests(pvalues, 0.1, method)
    assert found.index.tolist() == list("abcd")
    np.testing.assert_allclose(found["corrected"], corrected)
    assert found["reject"].tolist() == reject.tolist()


def test_holm_is_the_default():
    pd.testing.assert_frame_equal(multipletests(TESTS), multipletests(TESTS, method="holm"))


@pytest.mark.parametrize("method", UNPROVED)
def test_corrections_for_independent_tests_are_refused_by_name(method):
    with pytest.raises(NotProvedError, match=f"{method}.*'holm'.*'fdr_by'"):
        multipletests(TESTS, method=method)


def test_results_of_any_kind_are_taken():
    named = multipletests(TESTS)
    assert named.index.tolist() == ["b", "a, b"]
    assert multipletests(list(TESTS.values())).index.tolist() == [one.hypothesis for one in TESTS.values()]
    assert multipletests(TESTS["b"])["corrected"].item() == TESTS["b"].pvalue
    several = multipletests({"model": MODEL, "c": MODEL.t_test("a = 0"), "joint": MODEL.wald_test("a = 0, b[T.y] = 0")})
    assert several.index.tolist() == [*(f"model: {name}" for name in MODEL.params.index), "c", "joint"]
    assert several.loc["joint", "df"] == 2
    assert several.loc["c", "pvalue"] == pytest.approx(several.loc["model: a", "pvalue"])
    twice = multipletests([MODEL.t_test("a = 0, b[T.y] = 0"), MODEL.t_test("a = 0")])
    assert twice.index.tolist() == ["c0", "c1", "c0 (2)"]


def test_frames_are_read_by_their_p_values():
    from_frame = multipletests(MODEL.summary_frame())
    np.testing.assert_allclose(from_frame["corrected"], multipletests(MODEL)["corrected"])
    assert multipletests(pd.DataFrame({"pvalue": [0.01, 0.5]}))["reject"].tolist() == [True, False]
    corrected = multipletests(pd.DataFrame({"pvalue": [0.01, np.nan]}))
    assert corrected["corrected"].tolist() == [0.02, 1.0]
    assert np.isnan(corrected["pvalue"].iloc[1])


@pytest.mark.parametrize("wrong", [[], {}, 3, "x", [3], {"a": 0.5}, pd.DataFrame({"x": [1]}), pd.Series([1.5, 0.5])])
def test_what_are_no_tests_is_refused(wrong):
    with pytest.raises(OptionError, match=r"^tests="):
        multipletests(wrong)


def test_a_method_that_is_none_is_refused():
    with pytest.raises(OptionError, match=r"^method='x'.*'holm'"):
        multipletests(TESTS, method="x")
    with pytest.raises(OptionError, match=r"^alpha="):
        multipletests(TESTS, alpha=2)


# Intervals


def test_residuals_together_reach_as_far_as_their_largest_deviation():
    test = TESTS["a, b"]
    single, joint = test.residuals(0.1), test.residuals(0.1, simultaneous=True)
    single_width, joint_width = (one.iloc[:, -1] - one.iloc[:, -2] for one in (single, joint))
    assert (joint_width > single_width).all()
    pd.testing.assert_frame_equal(single.iloc[:, :-2], joint.iloc[:, :-2])
    bonferroni = test.residuals(0.1 / 6)
    assert (joint_width < bonferroni.iloc[:, -1] - bonferroni.iloc[:, -2]).all()  # two degrees of freedom, six cells
    with pytest.raises(OptionError, match=r"^simultaneous="):
        test.residuals(simultaneous=1)


def test_means_and_cells_together_have_the_level_of_sidak():
    means = dpi.mean("c", DATA, by="b").fit(dpi.ZCDP(0.1))
    pd.testing.assert_frame_equal(means.conf_int(simultaneous=True), means.conf_int(1 - 0.95 ** (1 / 3)))
    cells = dpi.table(["a", "b"], TABLE).infer()
    pd.testing.assert_frame_equal(cells.conf_int(0.1, simultaneous=True), cells.conf_int(1 - 0.9 ** (1 / 6)))


def test_contrasts_together_have_the_level_of_their_covariance():
    means = dpi.mean("c", DATA, by="b").fit(dpi.ZCDP(0.1))
    pairs = np.array([[1.0, -1, 0], [0, 1, -1], [1, 0, -1]])
    test = means.t_test(pairs)
    covariance = pairs @ (means.cov_sampling + means.cov_noise).to_numpy() @ pairs.T
    level = joint_level(covariance, 0.05)
    assert 1 - 0.95 ** (1 / 3) < level < 0.05
    np.testing.assert_allclose(test.conf_int(simultaneous=True), test.conf_int(level))
