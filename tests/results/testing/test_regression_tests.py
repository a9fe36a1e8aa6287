"""Simulated joint tests of regressions: statsmodels' call, one statistic, a valid p-value from any release."""

import pickle

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

import dpinfer as dpi
from dpinfer.errors import InferenceError, NotProvedError, OptionError
from dpinfer.results.base import PrivateResults
from dpinfer.results.testing import RegressionTestResults, TestResults, restriction_texts
from tests.linear import gram_ols

SCHEMA = dpi.Schema(
    age=dpi.Real(0, 100, missing=0.0, impossible=0.0),
    educ=dpi.Integer(1, 16, missing=1, impossible=1),
    hours=dpi.Real(0, 80, missing=0.0, impossible=0.0),
    income=dpi.Real(-5, 5, missing=0.0, impossible=0.0),
)
HYPOTHESIS = "age = 0.01, educ = 0"
FORMULA = "income ~ age + educ + hours"


def frame(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    drawn = pd.DataFrame(
        {"age": rng.uniform(0, 100, n), "educ": rng.integers(1, 17, n), "hours": rng.uniform(0, 80, n)}
    )
    return drawn.assign(income=0.01 * drawn["age"] + 0.02 * drawn["hours"] + 0.5 * rng.normal(size=n))


def fitted(rows=None, price=None, *, neighbors="add_remove", **options):
    data = dpi.PublicData(frame() if rows is None else rows, SCHEMA, rng=np.random.default_rng(1), neighbors=neighbors)
    return gram_ols(FORMULA, data, **options).fit(price or dpi.ZCDP(0.1))


@pytest.fixture(scope="module")
def results():
    return fitted(price=dpi.ZCDP(1.0))


@pytest.fixture(scope="module")
def f_result(results):
    return results.f_test(HYPOTHESIS, null="simulated", draws=999)


def test_it_is_the_score_statistic_under_another_null(results, f_result):
    assert isinstance(f_result, TestResults)
    asymptotic = results.with_inference("score").f_test(HYPOTHESIS)
    assert 0.5 * asymptotic.fvalue < f_result.statistic < asymptotic.fvalue
    clear = fitted(price=dpi.ZCDP(1e8)).with_inference("score")
    found = clear.f_test(HYPOTHESIS, null="simulated", draws=99)
    assert found.statistic == pytest.approx(clear.f_test(HYPOTHESIS).fvalue, rel=1e-4)
    assert f_result.null == "simulated"
    assert f_result.distribution.draws == 999
    # noise is small here and the limit is good: five Monte Carlo errors, and what the limit is off
    assert f_result.pvalue == pytest.approx(float(asymptotic.pvalue), abs=5 * f_result.pvalue_error + 0.01)
    statistic, pvalue = f_result
    assert (statistic, pvalue) == (f_result.statistic, f_result.pvalue)


def test_how_the_statistic_is_written_does_not_change_the_p_value(results, f_result):
    chi2 = results.wald_test(HYPOTHESIS, use_f=False, null="simulated", draws=999)
    assert chi2.pvalue == f_result.pvalue
    assert chi2.statistic == pytest.approx(2 * f_result.statistic)
    assert chi2.fvalue == pytest.approx(f_result.fvalue)
    assert (chi2.statistic_name, f_result.statistic_name) == ("Chi-squared", "F")
    assert chi2.dof == chi2.df == chi2.df_num == 2
    np.testing.assert_allclose(chi2.distribution.sample, 2 * f_result.distribution.sample)
    assert results.wald_test(HYPOTHESIS, null="simulated", draws=99).statistic_name == "F"


@pytest.mark.parametrize("method", ["wald", "simulated"])
def test_the_method_of_the_intervals_does_not_change_the_test(results, f_result, method):
    other = results.with_inference(method).f_test(HYPOTHESIS, null="simulated", draws=999)
    assert (other.statistic, other.pvalue) == (f_result.statistic, f_result.pvalue)
    wanted = results.with_inference(method).t_test(HYPOTHESIS).conf_int(0.1)
    np.testing.assert_allclose(other.frame(0.1).iloc[:, 3:], wanted)


def test_the_frame_holds_the_restrictions(results, f_result):
    table, single = f_result.frame(alpha=0.1), results.t_test(HYPOTHESIS)
    assert list(table.columns) == ["estimate", "under H0", "std err", "[0.05", "0.95]"]
    assert list(table.index) == ["age = 0.01", "educ = 0"]
    np.testing.assert_allclose(table["estimate"], single.effect)
    np.testing.assert_allclose(table["std err"], single.sd)
    np.testing.assert_allclose(table["under H0"], [0.01, 0.0])
    np.testing.assert_allclose(table.iloc[:, 3:], single.conf_int(0.1))
    with pytest.raises(OptionError, match="alpha"):
        f_result.frame(alpha=1.0)


def test_restrictions_are_written_as_equations():
    matrix = np.array([[1.0, -1, 0], [0, 0.5, 2], [-1, 0, 0], [0, 0, -3]])
    texts = restriction_texts(matrix, np.array([0.0, 1, -0.0, 2.5]), ["age", "educ", "x"])
    assert texts == ["age - educ = 0", "0.5 * educ + 2 * x = 1", "-age = 0", "-3 * x = 2.5"]


def test_the_summary_says_what_and_how(results, f_result):
    text = str(f_result.summary())
    for part in ("F test of linear restrictions", "age = 0.01, educ = 0", "simulated", "999", "zCDP", "score"):
        assert part in text or part.capitalize() in text, part
    assert f_result.hypothesis == "age = 0.01, educ = 0"
    assert f_result.nobs == results.nobs
    assert "F test" in repr(f_result)
    assert isinstance(f_result.plot_null(), Axes)
    assert "under H0" in f_result.to_markdown()


def test_every_form_of_restrictions_gives_the_same_test(results, f_result):
    matrix = np.eye(4)[1:3]
    for form in (["age = 0.01", "educ = 0"], {"age": 0.01, "educ": 0}, (matrix, np.array([0.01, 0.0]))):
        assert results.f_test(form, null="simulated", draws=999).pvalue == f_result.pvalue


def test_the_seed_is_public_and_draws_can_adapt(results, f_result):
    assert results.f_test(HYPOTHESIS, null="simulated", draws=999).pvalue == f_result.pvalue
    other = results.f_test(HYPOTHESIS, null="simulated", draws=999, seed=1)
    assert not np.array_equal(other.distribution.sample, f_result.distribution.sample)
    adaptive = results.f_test(HYPOTHESIS, null="simulated")
    assert 999 <= adaptive.distribution.draws < 100_000
    assert adaptive.pvalue == pytest.approx(f_result.pvalue, abs=6 * f_result.pvalue_error)


def test_a_false_hypothesis_is_rejected(results):
    assert results.f_test("hours = 0, educ = 0", null="simulated", draws=199).pvalue == 1 / 200


def test_a_release_answers_after_storage(results, f_result):
    again = dpi.Release.from_json(results.release.to_json()).infer()
    assert again.f_test(HYPOTHESIS, null="simulated", draws=999).pvalue == f_result.pvalue
    copy = pickle.loads(pickle.dumps(f_result))
    assert (copy.statistic, copy.pvalue) == (f_result.statistic, f_result.pvalue)


def test_a_gram_serves_its_regressions():
    data = dpi.PublicData(frame(), SCHEMA, rng=np.random.default_rng(2))
    release = dpi.gram(["income", "age", "educ", "hours"], data).fit(dpi.ZCDP(0.1)).release
    found = gram_ols("income ~ 0 + age + hours", release).infer().f_test("age = 0", null="simulated", draws=99)
    assert isinstance(found, RegressionTestResults)
    assert found.pvalue == 0.01


@pytest.mark.parametrize(
    "options",
    [
        {"null": "bootstrap"},
        {"null": "simulated", "draws": 10},
        {"null": "simulated", "draws": "many"},
        {"null": "simulated", "seed": -1},
        {"null": "simulated", "cov_p": np.eye(4)},
        {"null": "simulated", "invcov": np.eye(2)},
    ],
    ids=str,
)
def test_bad_options_are_refused_by_name(results, options):
    name = next(reversed(options))
    for call in (results.f_test, results.wald_test):
        with pytest.raises(OptionError, match=name):
            call(HYPOTHESIS, **options)


def test_what_cannot_be_tested_is_refused(results, case):
    with pytest.raises(OptionError, match="scalar"):
        results.wald_test(HYPOTHESIS, scalar=False, null="simulated")
    with pytest.raises(OptionError, match="df_constraints"):
        results.wald_test(HYPOTHESIS, df_constraints=2, null="simulated")
    with pytest.raises(OptionError, match="wage"):
        results.f_test("wage = 0", null="simulated")
    with pytest.raises(InferenceError, match="dependent"):
        results.f_test("age = 0, 2 * age = 0", null="simulated")
    mean = dpi.mean("age", dpi.PublicData(frame(), SCHEMA, rng=np.random.default_rng(3))).fit(dpi.ZCDP(0.1))
    for other in (mean, case.results()):
        assert isinstance(other, PrivateResults)
        with pytest.raises(NotProvedError, match="cross-products"):
            other.f_test((np.eye(len(other.params))[:1], np.zeros(1)), null="simulated")


DEGENERATE = {
    "empty": frame(0),
    "one row": frame(1),
    "constant": frame(50).assign(age=3.0, income=1.0),
    "missing": frame(60).assign(educ=np.nan, income=np.inf),
    "collinear": frame(200).assign(hours=lambda rows: 0.8 * rows["age"]),
    "ordinary": frame(500),
}


@pytest.mark.parametrize("price", [dpi.ZCDP(1e-6), dpi.PureDP(0.5), dpi.ZCDP(50.0)], ids=str)
@pytest.mark.parametrize("rows", DEGENERATE.values(), ids=DEGENERATE.keys())
def test_every_release_gives_a_valid_p_value(rows, price):
    for neighbors in ("add_remove", "replace_one"):
        for target in ("population", "data"):
            results = fitted(rows, price, neighbors=neighbors, target=target)
            f_result = results.f_test("age = 0, educ = hours", null="simulated", draws=99)
            assert 0.01 <= f_result.pvalue <= 1
            assert np.isfinite(f_result.statistic)
            assert f_result.flags == results.flags
            assert "P-value" in str(f_result.summary())


def test_an_error_variance_that_noise_hides_is_told(f_result):
    hidden = fitted(frame(100).assign(income=0.0), dpi.ZCDP(1.0)).f_test(HYPOTHESIS, null="simulated", draws=99)
    assert any("is raised" in note for note in hidden.notes)
    assert "is raised" in " ".join(str(hidden.summary()).split())
    assert not any("is raised" in note for note in f_result.notes)
    assert f_result.flags == ()


def test_the_target_is_said(results, f_result):
    about = fitted(target="data").f_test(HYPOTHESIS, null="simulated", draws=99)
    assert any("these rows" in note for note in about.notes)
    assert not any("these rows" in note for note in f_result.notes)
    assert about.nobs_is_public is False
    assert fitted(neighbors="replace_one").f_test(HYPOTHESIS, null="simulated", draws=99).nobs_is_public
