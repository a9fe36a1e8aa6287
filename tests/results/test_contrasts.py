"""Tests of linear hypotheses: equal to statsmodels without noise, and from the one inference always."""

import pickle

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.contrast import ContrastResults

from dpinfer.errors import OptionError
from dpinfer.results.testing import linear_constraints

NAMES = ["Intercept", "age", "educ", "hours.per.week"]
CONSTRAINTS = [
    "age = 0",
    "age = educ, Intercept = 1",
    ["age = educ", "educ = 0.2"],
    "2 * age + educ = 0.5",
    "C(race)[T.b] = 0",
    {"age": 0.5},
    np.eye(4)[1:],
    np.array([0.0, 1.0, 1.0, 0.0]),
    (np.eye(4)[1:3], np.array([0.5, 0.1])),
]


@pytest.mark.parametrize("constraints", CONSTRAINTS, ids=str)
def test_t_test_without_noise_equals_statsmodels(case, constraints):
    found, expected = case.results().t_test(constraints), case.ols.t_test(constraints)
    assert isinstance(found, ContrastResults)
    for name in ("effect", "sd", "tvalue", "statistic", "pvalue"):
        assert np.shape(getattr(found, name)) == np.shape(getattr(expected, name)), name
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), err_msg=name)
    np.testing.assert_allclose(found.conf_int(0.2), expected.conf_int(0.2))
    pd.testing.assert_frame_equal(found.summary_frame(), expected.summary_frame())
    assert str(found) == str(expected)


@pytest.mark.parametrize("constraints", CONSTRAINTS, ids=str)
def test_joint_tests_without_noise_equal_statsmodels(case, constraints):
    results = case.results()
    pairs = (
        (results.wald_test(constraints), case.ols.wald_test(constraints, scalar=True)),
        (results.f_test(constraints), case.ols.f_test(constraints)),
    )
    for found, expected in pairs:
        for name in ("statistic", "fvalue", "pvalue", "df_num", "df_denom"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-8), name
        assert found.distribution == expected.distribution == "F"


def test_with_a_normal_reference_the_joint_test_is_chi_squared(case):
    found = case.results(df_resid=np.inf).wald_test("age = 0, educ = 0")
    expected = case.ols.wald_test("age = 0, educ = 0", use_f=False, scalar=True)
    assert found.distribution == "chi2"
    assert found.statistic == pytest.approx(expected.statistic)
    assert found.pvalue == pytest.approx(expected.pvalue)
    assert found.df_denom == 2
    assert "chi2" in str(found)


def test_how_the_statistic_is_written_does_not_change_the_pvalue(case):
    for results in (case.noisy(), case.noisy(df_resid=np.inf), case.noisy().with_inference("score")):
        as_f = results.wald_test("age = 0, educ = 0", use_f=True)
        as_chi2 = results.wald_test("age = 0, educ = 0", use_f=False)
        assert as_f.pvalue == as_chi2.pvalue
        assert as_f.statistic * 2 == pytest.approx(as_chi2.statistic)
        assert "F test" in str(as_f)


def test_unscalar_statistic_has_statsmodels_shape(case):
    found = case.noisy().wald_test("age = 0", scalar=False)
    assert found.statistic.shape == (1, 1)


def test_wald_test_terms_uses_the_inference(case):
    results = case.noisy()
    table = results.wald_test_terms().table
    np.testing.assert_allclose(table["pvalue"].astype(float), results.pvalues)
    joint = results.wald_test_terms(skip_single=True, combine_terms=["e"]).table
    assert joint["df_constraint"].tolist() == [4]


@pytest.mark.parametrize("method", ["wald", "score"])
def test_t_test_of_single_coefficients_is_the_table(case, method):
    results = case.noisy().with_inference(method)
    test = results.t_test(np.eye(4))
    np.testing.assert_array_equal(test.pvalue, results.pvalues)
    np.testing.assert_array_equal(test.tvalue, results.tvalues)
    np.testing.assert_array_equal(test.conf_int(0.1), results.conf_int(0.1))
    np.testing.assert_array_equal(test.summary_frame().iloc[:, -2:], results.conf_int())


def test_infinite_intervals_print(case):
    test = case.noisy(df_resid=np.inf).with_inference("score").t_test(np.eye(4))
    text = str(test)
    assert "-inf" in text
    assert "nan" not in text.lower()
    assert "(p-values and intervals: score)" in text
    assert np.isinf(test.summary_frame().iloc[1, -2:].astype(float)).all()


def test_options_that_contradict_the_inference_are_refused(case):
    results = case.noisy()
    for call in (
        lambda: results.t_test("age = 0", cov_p=np.eye(4)),
        lambda: results.t_test("age = 0", use_t=False),
        lambda: results.wald_test("age = 0", invcov=np.eye(1)),
        lambda: results.f_test("age = 0", cov_p=np.eye(4)),
    ):
        with pytest.raises(OptionError, match="with_inference"):
            call()
    assert results.t_test("age = 0", use_t=True).distribution == "t"


@pytest.mark.parametrize(
    "wrong",
    ["wage = 0", "age = ", "age * educ = 0", np.ones(3), np.ones((0, 4)), {"wage": 1}, np.array([0, np.nan, 0, 0])],
    ids=str,
)
def test_what_is_no_linear_hypothesis_is_refused(wrong):
    with pytest.raises(OptionError, match="r_matrix"):
        linear_constraints(wrong, NAMES)


def test_a_row_of_zeros_is_no_hypothesis(case):
    with pytest.raises(OptionError, match="zeros"):
        case.noisy().t_test(np.zeros((1, 4)))


def test_names_that_are_no_identifiers():
    matrix, values = linear_constraints("hours.per.week = 2", NAMES)
    np.testing.assert_array_equal(matrix, [[0, 0, 0, 1]])
    np.testing.assert_array_equal(values, [2])


def test_one_value_serves_all_rows():
    matrix, values = linear_constraints((np.eye(4), 3.0), NAMES)
    assert matrix.shape == (4, 4)
    np.testing.assert_array_equal(values, np.full(4, 3.0))


def test_tests_survive_pickling(case):
    results = case.noisy().with_inference("score")
    for test in (results.t_test("age = educ"), results.wald_test("age = 0, educ = 0")):
        assert str(pickle.loads(pickle.dumps(test))) == str(test)


@pytest.mark.parametrize(
    ("text", "row", "value"),
    [
        ("age[group=a] = age[group=b]", [1.0, -1.0, 0.0], 0.0),
        ("age[group=a] - 2*age = 3", [1.0, 0.0, -2.0], 3.0),
        ({"age[group=b]": 1.5}, [0.0, 1.0, 0.0], 1.5),
        (["age[group=b] = 1.5"], [0.0, 1.0, 0.0], 1.5),
    ],
)
def test_names_of_groups_are_read_whole_in_equations(text, row, value):
    restrictions, values = linear_constraints(text, ["age[group=a]", "age[group=b]", "age"])
    assert restrictions.tolist() == [row]
    assert values.tolist() == [value]
