"""Linear regression through its formula: predictions, tests of terms and of pairs of levels, against statsmodels."""

import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.errors import FormulaError, OptionError, UnknownColumnError

FORMULA = "rate_marriage ~ age + I(age**2) + log(1 + children) + C(occupation) + devout:educ + I(age > 30)"
THEIRS = "rate_marriage ~ age + I(age**2) + np.log(1 + children) + C(occupation) + devout:educ + I((age > 30) * 1)"
SCHEMA = dpi.Schema(
    rate_marriage=dpi.Integer(1, 5),
    age=dpi.Real(17, 42),
    educ=dpi.Real(9, 20),
    children=dpi.Real(0, 6),
    devout=dpi.Boolean(),
    religious=dpi.Integer(1, 4),
    occupation=dpi.Category([1, 2, 3, 4, 5, 6]),
)
NEW = pd.DataFrame(
    {"age": [20, 50.5], "educ": [12, 16], "children": [0, 9], "devout": [0, 1], "occupation": [1.0, 6.0]},
    index=["a", "b"],
)


@pytest.fixture(scope="module")
def frame():
    found = sm.datasets.fair.load_pandas().data
    return found.assign(devout=(found["religious"] >= 3).astype(float))


@pytest.fixture(scope="module")
def data(frame):
    return dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(3))


@pytest.fixture(scope="module")
def ours(data):
    return dpi.ols(FORMULA, data, method="gram").fit(dpi.ZCDP(1e22)).with_inference("wald")


@pytest.fixture(scope="module")
def theirs(frame):
    return smf.ols(THEIRS, frame).fit()


def test_predictions_through_the_formula_equal_statsmodels(ours, theirs):
    pd.testing.assert_series_equal(ours.predict(NEW), theirs.predict(NEW), rtol=1e-5)
    found, expected = ours.get_prediction(NEW).summary_frame(0.1), theirs.get_prediction(NEW).summary_frame(0.1)
    expected.index = found.index  # statsmodels 0.14 numbers the points
    pd.testing.assert_frame_equal(found, expected[list(found.columns)], rtol=1e-4)


def test_points_may_be_written_as_cells_are(ours):
    spelled = {"age": ["20", "50.5"], "educ": [12, 16], "children": [0, 9], "devout": [False, True]}
    for occupation in ([1, "6"], pd.Categorical([1, 6]), ["1.0", 6]):
        found = ours.predict(spelled | {"occupation": occupation})
        np.testing.assert_allclose(found, ours.predict(NEW), rtol=1e-12)
    nullable = NEW.assign(age=pd.array([20, 50.5], dtype="Float64"), occupation=pd.array([1, 6], dtype="Int64"))
    np.testing.assert_allclose(ours.predict(nullable), ours.predict(NEW), rtol=1e-12)
    assert len(ours.predict(NEW.iloc[0].to_dict())) == 1


def test_parameter_names_come_first_where_all_are_there(ours):
    design = pd.DataFrame([np.arange(len(ours.params)) / 7.0], columns=list(ours.params.index))
    expected = float(design.iloc[0] @ ours.params)
    assert ours.predict(design).iloc[0] == pytest.approx(expected)
    assert ours.predict(design.assign(educ=3, children=2, devout=0, occupation=2)).iloc[0] == pytest.approx(expected)
    assert ours.predict(design.to_numpy()).iloc[0] == pytest.approx(expected)
    with pytest.raises(UnknownColumnError, match=r"^'children' is not in exog"):
        ours.predict(design.drop(columns="log(1 + children)"))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"occupation": [1, 9]}, OptionError, r"exog\['occupation'\]=9 is not valid: expected one of 1, 2, 3, 4, 5, 6"),
        ({"occupation": [np.nan, 1]}, OptionError, r"exog\['occupation'\]=nan"),
        ({"age": [30, np.nan]}, OptionError, r"exog\['age'\]=nan is not valid: expected a finite number"),
        ({"age": ["thirty", 31]}, OptionError, r"exog\['age'\]='thirty'"),
        ({"educ": [1, np.inf]}, OptionError, r"exog\['educ'\]=inf"),
        ({"children": [0, -1]}, FormulaError, r"log\(1 \+ children\): has no finite value at children = -1"),
        ({"age": [0, 1e200]}, FormulaError, r"I\(age ?\*\* ?2\): has no finite value at age = 1e\+200"),
    ],
)
def test_points_that_do_not_serve_are_refused_by_name(ours, change, error, message):
    with pytest.raises(error, match=message):
        ours.predict(NEW.assign(**{name: pd.Series(list(v), index=NEW.index) for name, v in change.items()}))


def test_missing_columns_are_named(ours):
    for name in NEW.columns:
        with pytest.raises(UnknownColumnError, match=f"^'{name}' is not in exog"):
            ours.get_prediction(NEW.drop(columns=name))
    with pytest.raises(OptionError, match=r"^exog=<dict> is not valid: expected columns of one length"):
        ours.predict({"age": [1, 2], "educ": [1, 2, 3]})


def test_whole_numbers_and_truth_values_as_factors(data, frame):
    new = pd.DataFrame({"religious": [1, 4], "age": [30, 40], "devout": [0, 1]})
    for formula in ("rate_marriage ~ C(devout) * age", "rate_marriage ~ C(religious, Sum) * age"):
        ours = dpi.ols(formula, data, method="gram").fit(dpi.ZCDP(1e22))
        np.testing.assert_allclose(ours.predict(new), smf.ols(formula, frame).fit().predict(new), rtol=1e-5)
    with pytest.raises(OptionError, match=r"exog\['religious'\]=5 is not valid: expected one of '1', '2', '3', '4'"):
        ours.predict(new.assign(religious=[5, 1]))


def test_a_constant_alone_predicts_as_many_as_there_are_points(data):
    results = dpi.ols("rate_marriage ~ 1", data, method="gram").fit(dpi.ZCDP(1.0))
    assert len(results.predict(NEW)) == 2


@pytest.mark.parametrize("options", [{}, {"skip_single": True}, {"combine_terms": ["ag", "du"]}])
def test_tests_of_terms_equal_statsmodels(ours, theirs, options):
    found, expected = ours.wald_test_terms(**options), theirs.wald_test_terms(scalar=True, **options)
    names = {"np.log(1 + children)": "log(1 + children)", "I((age > 30) * 1)": "I(age > 30)"}
    table = expected.table.rename(index=names)
    assert set(found.table.index) == set(table.index)
    pd.testing.assert_frame_equal(found.table, table.loc[found.table.index], rtol=2e-3, atol=1e-6, check_dtype=False)
    assert list(found.summary_frame().columns) == list(expected.summary_frame().columns)


def test_further_tests_of_terms(ours):
    found = ours.wald_test_terms(skip_single=True, extra_constraints=[("equal", "age = devout:educ")]).table
    assert found.loc["equal", "pvalue"] == pytest.approx(float(ours.wald_test("age = devout:educ").pvalue))
    assert np.shape(ours.wald_test_terms(scalar=False).table["statistic"].iloc[0]) == (1, 1)
    with pytest.raises(OptionError, match="combine_terms='income' is not valid: expected a part of the name of a term"):
        ours.wald_test_terms(combine_terms=["income"])


def test_p_values_of_terms_are_those_of_the_inference(ours):
    score = ours.with_inference("score")
    expected = float(score.wald_test([f"C(occupation)[T.{level}]" for level in range(2, 7)]).pvalue)
    assert score.wald_test_terms().table.loc["C(occupation)", "pvalue"] == pytest.approx(expected)


@pytest.mark.parametrize("contrasts", ["", ", Treatment({})", ", Sum", ", Helmert"])
def test_pairs_of_levels_equal_statsmodels(data, frame, contrasts):
    term, theirs_term = (f"C(occupation{contrasts.format(level)})" for level in ("3", "3.0"))
    if contrasts == ", Helmert":  # scaled otherwise by statsmodels' engine: the differences are the same
        theirs_term = "C(occupation)"
    ours = dpi.ols(f"rate_marriage ~ age + {term}", data, method="gram").fit(dpi.ZCDP(1e22)).with_inference("wald")
    theirs = smf.ols(f"rate_marriage ~ age + {theirs_term}", frame).fit()
    for method in ("hs", ["bonferroni", "fdr_bh"]):
        found = ours.t_test_pairwise(term, method=method, alpha=0.1).result_frame
        expected = theirs.t_test_pairwise(theirs_term, method=method, alpha=0.1).result_frame
        assert list(found.index) == [label.replace(".0", "") for label in expected.index]
        numbers = [name for name in expected.columns if not name.startswith("reject")]
        assert list(found.columns) == list(expected.columns)
        np.testing.assert_allclose(
            found[numbers].to_numpy(dtype=float), expected[numbers].to_numpy(dtype=float), rtol=1e-3, atol=1e-6
        )


def test_pairs_of_levels_have_labels_and_refusals(ours):
    labels = ["student", "farm", "clerk", "teacher", "manager", "doctor"]
    found = ours.t_test_pairwise("C(occupation)", factor_labels=labels)
    assert found.result_frame.index[0] == "farm-student"
    assert found.contrasts.shape == (15, len(ours.params))
    for term in ("age", "devout:educ", "occupation"):
        with pytest.raises(OptionError, match=r"a term that is one factor, without interactions: C\(occupation\)"):
            ours.t_test_pairwise(term)
    for options, message in (
        ({"method": "tukey"}, "method='tukey'"),
        ({"alpha": 0}, "alpha=0"),
        ({"factor_labels": ["a"]}, "factor_labels=<list of length 1> is not valid: expected 6 labels"),
    ):
        with pytest.raises(OptionError, match=message):
            ours.t_test_pairwise("C(occupation)", **options)


def test_results_without_a_formula_test_each_coefficient(case):
    results = case.results()
    assert list(results.wald_test_terms().table.index) == list(results.params.index)
    with pytest.raises(OptionError, match="there is none here"):
        results.t_test_pairwise("age")
    with pytest.raises(OptionError, match="these results have none"):
        results.margins_frame("age")


def test_the_formula_is_kept_by_pickles_other_methods_and_files(ours, data, tmp_path):
    for other in (pickle.loads(pickle.dumps(ours)), ours.with_inference("score")):
        pd.testing.assert_series_equal(other.predict(NEW), ours.predict(NEW))
    path = tmp_path / "release.json"
    ours.release.save(path)
    again = dpi.ols(FORMULA, dpi.read_release(path)).infer()
    pd.testing.assert_series_equal(again.predict(NEW), ours.predict(NEW))


def test_bootstrapped_regressions_predict_through_the_formula(data):
    results = dpi.bootstrap("rate_marriage ~ age + C(religious)", data).fit(dpi.GDP(5.0))
    assert len(results.predict({"age": [20, 30], "religious": 2})) == 2
    assert "C(religious)" in results.wald_test_terms().table.index


@pytest.mark.parametrize("privacy", [dpi.ZCDP(0.5), dpi.PureDP(1), dpi.ZCDP(1e-4)], ids=str)
@pytest.mark.parametrize(
    ("name", "options", "mean"),
    [
        ("ols", {"method": "gram"}, 0.0),
        ("ols", {"method": "gram", "inference": "wald"}, 0.0),
        ("ols", {}, 0.0),
        ("ols", {"inference": "score"}, 0.0),
        ("logit", {"inference": "score"}, 0.5),
        ("quantreg", {"q": 0.3, "inference": "score"}, 0.0),
    ],
)
def test_where_all_regressors_are_0_a_prediction_is_known(data, name, options, mean, privacy):
    """Without an intercept nothing is estimated there; no inference has a standard error to divide by."""
    response = "devout" if name == "logit" else "rate_marriage"
    results = getattr(dpi, name)(f"{response} ~ 0 + children + I(educ - 9)", data, **options).fit(privacy)
    point = {"children": [0, 1], "educ": 9}
    found = results.get_prediction(point).summary_frame()
    assert found.iloc[0].tolist() == [mean, 0.0, mean, mean]
    assert (found["mean_ci_lower"] < found["mean_ci_upper"])[1]
    assert results.inference.contrast_pvalues(np.zeros((2, 2)), np.array([0.0, 1.0])).tolist() == [1.0, 0.0]


def test_where_all_regressors_are_0_a_prediction_by_instruments_is_known(data):
    found = dpi.iv("rate_marriage ~ 0 + [children ~ age]", data).fit(dpi.ZCDP(0.5)).get_prediction({"children": 0})
    assert found.summary_frame().iloc[0].tolist() == [0.0] * 4
