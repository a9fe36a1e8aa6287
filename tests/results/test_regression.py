"""Results against statsmodels without noise, their labels, and what they hold."""

import copy
import io
import pickle

import numpy as np
import pandas as pd
import pytest
from statsmodels.base.wrapper import ResultsWrapper
from statsmodels.iolib.summary2 import summary_col

from dpinfer.errors import InferenceError, OptionError, UnknownColumnError
from dpinfer.results import PrivateResults


@pytest.mark.parametrize("name", ["params", "bse", "tvalues", "pvalues"])
def test_without_noise_equals_statsmodels(case, name):
    pd.testing.assert_series_equal(getattr(case.results(), name), getattr(case.ols, name), rtol=1e-9)


@pytest.mark.parametrize(
    "name", ["nobs", "df_resid", "df_model", "scale", "rsquared", "rsquared_adj", "fvalue", "f_pvalue"]
)
def test_without_noise_scalars_equal_statsmodels(case, name):
    assert getattr(case.results(), name) == pytest.approx(getattr(case.ols, name), rel=1e-9)


def test_without_noise_intervals_and_covariance_equal_statsmodels(case):
    results = case.results()
    pd.testing.assert_frame_equal(results.conf_int(0.1), case.ols.conf_int(0.1))
    pd.testing.assert_frame_equal(results.cov_params(), case.ols.cov_params())
    assert results.cov_params(column=1) == pytest.approx(case.ols.cov_params().iloc[1, 1])
    contrast = np.array([[0.0, 1.0, -1.0, 0.0]])
    np.testing.assert_allclose(results.cov_params(contrast), contrast @ case.ols.cov_params() @ contrast.T)
    assert list(results.conf_int(cols=[2, 1]).index) == ["educ", "age"]
    for cols in (["age"], [4], [0.5]):
        with pytest.raises(OptionError, match=r"^cols=<list of length 1> .* positions of coefficients, from 0 to 3"):
            results.conf_int(cols=cols)


def test_noise_adds_to_the_variance_and_is_shown_apart(case):
    results = case.noisy()
    np.testing.assert_allclose(results.bse**2, results.bse_sampling**2 + results.bse_noise**2)
    np.testing.assert_allclose(results.bse, 2 * case.ols.bse)
    np.testing.assert_allclose(results.noise_share, 0.75)
    np.testing.assert_allclose(results.cov_sampling + results.cov_noise, results.cov_params())
    assert (results.pvalues > case.ols.pvalues).all()


def test_labels_are_those_of_the_terms(case):
    results = case.noisy()
    for name in ("params", "bse", "bse_sampling", "bse_noise", "noise_share", "tvalues", "pvalues"):
        assert list(getattr(results, name).index) == list(case.inference.names), name
    assert list(results.conf_int().columns) == [0, 1]
    assert list(results.cov_params().columns) == list(case.inference.names)


def test_changing_what_is_returned_does_not_change_the_results(case):
    results = case.results()
    params, covariance, ends = results.params, results.cov_params(), results.conf_int()
    params.iloc[0] = covariance.iloc[0, 0] = ends.iloc[0, 0] = 99.0
    assert results.params.iloc[0] == case.inference.params[0]
    assert results.cov_params().iloc[0, 0] == case.inference.cov_sampling[0, 0]


@pytest.mark.parametrize("name", ["llf", "aic", "bic", "resid", "fittedvalues"])
def test_what_needs_rows_raises_attribute_error_with_the_reason(case, name):
    with pytest.raises(AttributeError, match="private result"):
        getattr(case.results(), name)
    assert not hasattr(case.results(), name)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("HC3_se", "cov_type= of the question"),
        ("get_robustcov_results", "cov_type= of the question"),
        ("ssr", "see scale and rsquared"),
        ("compare_lr_test", "wald_test"),
        ("compare_f_test", "f_test"),
        ("get_influence", "needs the rows"),
        ("prsquared", "no likelihood"),
        ("condition_number", "kept inside"),
    ],
)
def test_what_statsmodels_has_and_a_private_result_cannot_says_what_serves(case, name, advice):
    with pytest.raises(AttributeError, match=f"^{name}: .*{advice}"):
        getattr(case.results(), name)


def test_what_the_inference_lacks_raises_attribute_error(case):
    results = case.results(nobs=None, scale=None, rsquared=None)
    with pytest.raises(AttributeError, match="neither released nor public"):
        _ = results.nobs
    for name in ("scale", "rsquared", "rsquared_adj"):
        assert not hasattr(results, name)
    assert "not released" in str(results.summary())


def test_an_unknown_attribute_is_named(case):
    with pytest.raises(AttributeError, match="'no_such_thing'"):
        _ = case.results().no_such_thing


def test_is_a_statsmodels_wrapper_around_arrays(case):
    results = case.results()
    assert isinstance(results, ResultsWrapper)
    assert isinstance(results._results.params, np.ndarray)
    assert results.model.endog_names == "income"
    assert results.use_t
    assert not case.results(df_resid=np.inf).use_t


def test_pickle_is_small_and_complete(case):
    results = case.noisy()
    text = str(results.summary())
    dumped = pickle.dumps(results)
    assert len(dumped) < 4_000
    again = pickle.loads(dumped)
    assert str(again.summary()) == text
    pd.testing.assert_series_equal(again.pvalues, results.pvalues)
    assert str(again.t_test("age = educ")) == str(results.t_test("age = educ"))


def test_deepcopy_save_load_and_remove_data(case):
    results = case.noisy()
    text = str(results.summary())
    assert str(copy.deepcopy(results).summary()) == text
    file = io.BytesIO()
    results.save(file, remove_data=True)
    file.seek(0)
    assert str(PrivateResults.load(file).summary()) == text
    results.remove_data()
    assert str(results.summary()) == text


def test_with_inference_changes_the_method_only(case):
    results = case.noisy(notes=("A note.",))
    other = results.with_inference("score")
    assert (results.inference.method, other.inference.method) == ("wald", "score")
    pd.testing.assert_series_equal(other.params, results.params)
    assert np.isinf(other.conf_int().loc["age"]).all()
    assert (other.pvalues > results.pvalues).all()
    assert (other.release, other.response, other.notes) == (results.release, "income", ("A note.",))
    with pytest.raises(OptionError, match="'wald', 'score'"):
        results.with_inference("bayes")


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 2, np.nan])
def test_alpha_must_be_a_level(case, alpha):
    for method in ("conf_int", "summary_frame", "summary", "summary2", "coefficient_frame"):
        with pytest.raises(OptionError, match="alpha"):
            getattr(case.results(), method)(alpha=alpha)


def test_a_covariance_that_is_not_positive_definite_is_refused(case):
    singular = np.ones((4, 4))
    for changes, message in (
        ({"cov_sampling": singular}, "positive definite"),
        ({"cov_sampling": 0 * singular}, "positive definite"),
        ({"cov_noise": -0.1 * case.inference.cov_sampling}, "variance is negative"),
        ({"cov_sampling": np.nan * singular}, "finite"),
        ({"cov_sampling": np.eye(3)}, "arrays"),
        ({"params": np.ones(3)}, "arrays"),
        ({"names": ("a", "a", "b", "c")}, "twice"),
    ):
        with pytest.raises(InferenceError, match=message):
            case.results(**changes)


def test_badly_scaled_covariances_are_not_refused(case):
    scale = np.diag([1e-9, 1.0, 1e6, 1e3])
    sampling = scale @ case.inference.cov_sampling @ scale
    assert np.isfinite(case.results(cov_sampling=sampling).bse).all()


def test_predict_equals_statsmodels(case):
    results = case.results()
    points = case.design.iloc[[3, 1, 2]]
    expected = case.ols.predict(points)
    pd.testing.assert_series_equal(results.predict(points), expected)
    pd.testing.assert_series_equal(results.predict(points.drop(columns="Intercept")[::-1])[::-1], expected)
    np.testing.assert_allclose(results.predict(points.to_numpy()), expected)
    np.testing.assert_allclose(results.predict({name: points[name].tolist() for name in points}), expected)
    np.testing.assert_allclose(results.predict(points.to_numpy()[0]), expected.iloc[:1])


def test_prediction_intervals_equal_statsmodels(case):
    points = case.design.iloc[:5]
    expected = case.ols.get_prediction(points).summary_frame(alpha=0.1)
    found = case.results().get_prediction(points).summary_frame(alpha=0.1)
    pd.testing.assert_frame_equal(found, expected[list(found.columns)])


def test_predictions_through_a_link(case):
    point = {"age": 0.5, "educ": 0.0, "C(race)[T.b]": 1}
    linear = case.noisy().get_prediction(point)
    mean = case.noisy(inverse_link=np.exp).get_prediction(point)
    np.testing.assert_allclose(mean.predicted_mean, np.exp(linear.predicted_mean))
    np.testing.assert_allclose(mean.conf_int(), np.exp(linear.conf_int()))
    assert list(mean.summary_frame().columns) == ["mean", "mean_ci_lower", "mean_ci_upper"]


def test_wrong_design_points_are_refused(case):
    results = case.results()
    with pytest.raises(UnknownColumnError, match="'educ' is not in exog"):
        results.predict({"age": [1.0]})
    with pytest.raises(OptionError, match=r"\(m, 4\)"):
        results.predict(np.ones((2, 3)))
    with pytest.raises(OptionError, match="numbers") as caught:
        results.predict(case.design.head(1).astype(object).assign(age="secret"))
    assert "secret" not in str(caught.value)


def test_summary_col_beside_statsmodels(case):
    text = str(summary_col([case.noisy(), case.ols], model_names=["private", "ols"]))
    lines = {line[:15].strip(): line[15:].split() for line in text.splitlines()}
    assert lines["age"] == [f"{case.ols.params['age']:.4f}"] * 2
    assert lines["R-squared"] == [f"{case.ols.rsquared:.4f}"] * 2
    assert lines["N"] == ["400", "(public)"]
    assert lines["Guarantee"] == ["ZCDP(rho=0.1)"]
    both = summary_col([case.noisy(), case.ols], info_dict={"N": lambda results: f"{results.nobs:.0f}"})
    assert [line.split() for line in str(both).splitlines() if line.startswith("N ")] == [["N", "400", "400"]]


def test_summary_col_where_nothing_is_released(case):
    text = str(summary_col([case.noisy(nobs=None, rsquared=None), case.ols]))
    assert "nan" not in text


def test_rounding_below_zero_is_no_error_and_no_nan(case):
    results = case.results(cov_noise=np.diag([-1e-16, 0.0, 0.0, 0.0]))
    assert results.bse_noise.tolist() == [0.0] * 4
    assert results.noise_share.tolist() == [0.0] * 4


def test_completion_offers_what_statsmodels_and_we_have(case):
    assert {"params", "noise_share", "nobs", "wald_test_terms"} <= set(dir(case.results()))


def test_repr(case):
    assert repr(case.noisy()) == ("<PrivateResults: Private OLS of income, 4 coefficients, wald, ZCDP(rho=0.1)>")
