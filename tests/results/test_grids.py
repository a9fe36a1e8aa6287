"""Frames in the form of marginaleffects: closed forms, statsmodels, and the one inference behind them."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.api as sm

import dpinfer as dpi
from dpinfer.errors import FormulaError, OptionError, UnknownColumnError
from dpinfer.regression.results import GLMResults
from dpinfer.results import PrivateResults
from dpinfer.schema.formula import FormulaDesign, compile_formula
from tests.results.conftest import StubRelease, UnboundedStub, WaldStub

SCHEMA = dpi.Schema(
    y=dpi.Real(0, 1), age=dpi.Real(17, 42), devout=dpi.Boolean(), job=dpi.Category(["none", "part", "full"])
)
DESIGN = FormulaDesign(SCHEMA, compile_formula("y ~ age + I(age**2) + devout + C(job)", SCHEMA).design)
PARAMS = np.array([-1.0, 0.08, -0.0011, 0.4, 0.3, -0.2])
POINTS = pd.DataFrame({"age": [20.0, 40.0], "devout": [False, True], "job": ["none", "full"]}, index=["young", "old"])
TESTED = ["estimate", "std_error", "statistic", "p_value", "s_value", "conf_low", "conf_high"]


def an_inference(kind=WaldStub):
    half = np.random.default_rng(2).normal(size=(6, 6)) / 40
    return kind(DESIGN.names, PARAMS, half @ half.T + 1e-4 * np.eye(6), np.diag(np.linspace(1e-4, 4e-4, 6)))


@pytest.fixture(scope="module")
def linear():
    return PrivateResults(an_inference(), StubRelease(), design=DESIGN)


@pytest.fixture(scope="module")
def logit():
    return GLMResults(an_inference(), StubRelease(), link=sm.families.links.Logit(), design=DESIGN)


def mean(params, points, link):
    predictor = DESIGN.rows(DESIGN.read(points), len(points)) @ params
    return 1 / (1 + np.exp(-predictor)) if link else predictor


def delta(results, function):
    """The standard errors of a function of the coefficients, by numerical derivatives."""
    inference = results.inference
    step = 1e-6 * np.eye(6)
    slopes = np.array([(function(PARAMS + one) - function(PARAMS - one)) / 2e-6 for one in step]).T
    return np.sqrt(np.einsum("mi,ij,mj->m", slopes, inference.cov_sampling + inference.cov_noise, slopes))


def both(linear, logit):
    return ((linear, False), (logit, True))


def test_columns_and_rows_are_laid_out_as_in_marginaleffects(linear):
    assert list(linear.predictions(POINTS).columns) == ["rowid", *TESTED, *POINTS.columns]
    found = linear.comparisons(POINTS)
    assert list(found.columns) == ["rowid", "term", "contrast", *TESTED, *POINTS.columns]
    assert found["rowid"].tolist() == [0, 1] * 4
    assert found[["term", "contrast"]].drop_duplicates().to_numpy().tolist() == [
        ["age", "+1"],
        ["devout", "True - False"],
        ["job", "part - none"],
        ["job", "full - none"],
    ]
    assert list(linear.slopes(POINTS, "age")["contrast"]) == ["dY/dX"] * 2
    assert found["age"].tolist() == [20.0, 40.0] * 4


def test_predictions_are_those_of_get_prediction(linear, logit):
    for results, link in both(linear, logit):
        found = results.predictions(POINTS, conf_level=0.9)
        given = results.get_prediction(POINTS).summary_frame(alpha=0.1)
        np.testing.assert_allclose(found["estimate"], mean(PARAMS, POINTS, link), rtol=1e-12)
        np.testing.assert_allclose(found[["conf_low", "conf_high"]], given.iloc[:, -2:], rtol=1e-12)
        errors = delta(results, partial(mean, points=POINTS, link=link))
        np.testing.assert_allclose(found["std_error"], errors, rtol=1e-5)


def test_a_mean_that_cannot_be_zero_has_no_test(linear, logit):
    assert not {"statistic", "p_value", "s_value"} & set(logit.predictions(POINTS).columns)
    found = linear.predictions(POINTS)
    rows = DESIGN.rows(DESIGN.read(POINTS), 2)
    np.testing.assert_allclose(found["p_value"], linear.t_test(rows).pvalue, rtol=1e-12)
    np.testing.assert_allclose(2.0 ** -found["s_value"], found["p_value"], rtol=1e-9)


@pytest.mark.parametrize(
    ("term", "contrast", "low", "high"),
    [
        ("age", "+1", {"age": POINTS["age"] - 0.5}, {"age": POINTS["age"] + 0.5}),
        ("devout", "True - False", {"devout": False}, {"devout": True}),
        ("job", "full - none", {"job": "none"}, {"job": "full"}),
    ],
)
def test_comparisons_are_differences_of_means(linear, logit, term, contrast, low, high):
    for results, link in both(linear, logit):
        found = results.comparisons(POINTS, term).query("contrast == @contrast")

        def change(params, link=link):
            return mean(params, POINTS.assign(**high), link) - mean(params, POINTS.assign(**low), link)

        np.testing.assert_allclose(found["estimate"], change(PARAMS), rtol=1e-12)
        np.testing.assert_allclose(found["std_error"], delta(results, change), rtol=1e-5)
        np.testing.assert_allclose(found["statistic"], found["estimate"] / found["std_error"], rtol=1e-12)


def test_slopes_go_through_all_terms_of_a_column(linear, logit):
    for results, link in both(linear, logit):
        found = results.slopes(POINTS, ["age"])

        def slope(params, link=link):
            at = mean(params, POINTS, link)
            along = params[1] + 2 * params[2] * POINTS["age"].to_numpy()
            return along * at * (1 - at) if link else along

        np.testing.assert_allclose(found["estimate"], slope(PARAMS), rtol=1e-8)
        np.testing.assert_allclose(found["std_error"], delta(results, slope), rtol=1e-5)


def test_slopes_at_one_point_are_those_of_get_margeff(logit):
    point = POINTS.iloc[[1]]
    found, effects = logit.slopes(point, conf_level=0.9), logit.get_margeff(atexog=point, dummy=True)
    np.testing.assert_allclose(found["estimate"], effects.margeff, rtol=1e-8)
    np.testing.assert_allclose(found["p_value"], effects.pvalues, rtol=1e-8)
    np.testing.assert_allclose(found[["conf_low", "conf_high"]], effects.conf_int(0.1), rtol=1e-8)


def test_intervals_and_p_values_are_those_of_the_inference():
    results = PrivateResults(an_inference(UnboundedStub), StubRelease(), design=DESIGN)
    found = results.comparisons(POINTS, "job")
    tests = results.t_test(np.eye(6)[[4, 4, 5, 5]])
    np.testing.assert_allclose(found["p_value"], tests.pvalue, rtol=1e-9)
    assert np.isinf(results.predictions(POINTS.iloc[[0, 1]])["conf_low"]).tolist() == [False, False]
    three = pd.concat([POINTS, POINTS])
    assert np.isinf(results.predictions(three)["conf_high"]).tolist() == [False, True, True, False]


def test_points_may_be_a_dict_or_of_polars(linear):
    frame = linear.slopes(POINTS)
    pd.testing.assert_frame_equal(linear.slopes(POINTS.to_dict("list")), frame)
    pd.testing.assert_frame_equal(linear.slopes(pl.from_pandas(POINTS)), frame, check_dtype=False)


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda one: one.predictions(np.ones((2, 6))), OptionError, "newdata=<ndarray"),
        (lambda one: one.predictions(POINTS.iloc[:0]), OptionError, "public points"),
        (lambda one: one.slopes(POINTS.drop(columns="age")), UnknownColumnError, "'age'"),
        (lambda one: one.slopes(POINTS, "wage"), UnknownColumnError, "'wage' is not in the formula"),
        (lambda one: one.slopes(POINTS, 3), OptionError, "variables=<int>"),
        (lambda one: one.slopes(POINTS, conf_level=95), OptionError, "conf_level=95"),
        (lambda one: one.predictions(POINTS.assign(estimate=1)), OptionError, "not called as the results"),
        (lambda one: one.predictions(POINTS.assign(job="secret")), OptionError, "'none', 'part', 'full'"),
    ],
)
def test_what_cannot_be_answered_is_refused(linear, ask, error, message):
    with pytest.raises(error, match=message):
        ask(linear)


def test_results_without_a_formula_or_a_known_derivative_have_no_effects(linear):
    plain = PrivateResults(an_inference(), StubRelease())
    with pytest.raises(OptionError, match="results of a formula"):
        plain.slopes(POINTS)
    linked = PrivateResults(an_inference(), StubRelease(), design=DESIGN, inverse_link=np.exp)
    with pytest.raises(OptionError, match="known derivative"):
        linked.comparisons(POINTS)
    assert linked.predictions(POINTS)["std_error"].isna().all()


def test_a_point_where_a_term_is_not_defined_is_refused():
    design = FormulaDesign(SCHEMA, compile_formula("y ~ log(age)", SCHEMA).design)
    inference = WaldStub(design.names, np.ones(2), np.eye(2), np.eye(2))
    with pytest.raises(FormulaError, match="log"):
        PrivateResults(inference, StubRelease(), design=design).slopes({"age": [0.0]})
