"""Generalized linear models against statsmodels: predictions, ratios, marginal effects."""

import pickle
import warnings
from dataclasses import dataclass, field, replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.errors import FormulaError, MissingFromReleaseError, OptionError, UnknownColumnError
from dpinfer.regression.inference import AverageSlope
from dpinfer.regression.results import GLMResults
from dpinfer.results.margins import MeanFunction
from dpinfer.schema.formula import FormulaDesign, compile_formula
from tests.results.conftest import StubRelease, UnboundedStub, WaldStub

LINKS = sm.families.links
SCHEMA = dpi.Schema(
    had=dpi.Boolean(),
    affairs=dpi.Real(0, 60),
    age=dpi.Real(17, 42),
    educ=dpi.Integer(0, 20),
    children=dpi.Integer(0, 6),
    devout=dpi.Boolean(),
    occupation=dpi.Category([1, 2, 3, 4, 5, 6]),
)
FORMULA = "had ~ age + educ + devout + C(occupation)"
NEW = pd.DataFrame({"age": [20, 33.5], "educ": [12, 17], "devout": [0, 1], "occupation": [1.0, 5.0]})


@dataclass(frozen=True)
class Frozen:
    """A fit of statsmodels, and the private results with the same estimates."""

    fit: object
    results: GLMResults
    frame: pd.DataFrame = field(repr=False)
    design: FormulaDesign = field(repr=False)
    slope: AverageSlope


def as_inference(fit, kind=WaldStub, **changes):
    covariance = np.asarray(fit.cov_params())
    names = tuple(name.replace("np.log", "log") for name in fit.params.index)
    return kind(names, fit.params.to_numpy(), 0.75 * covariance, 0.25 * covariance, **changes)


def in_statsmodels_order(formula, frame):
    """Columns of the design by the names and in the order of the formula's own compilation."""
    design = FormulaDesign(SCHEMA, compile_formula(formula, SCHEMA).design)
    matrix = design.rows(design.read(frame))
    return design, pd.DataFrame(matrix, columns=list(design.names), index=frame.index)


def released_slope(fit, link, design):
    """The average slope with the error that the coefficients give it, as the delta method has it."""
    curve = MeanFunction(link)
    exog, covariance = np.asarray(design), np.asarray(fit.cov_params())
    predictor = exog @ fit.params.to_numpy()
    gradient = (curve.curvature(predictor)[:, None] * exog).mean(axis=0)
    value = curve.slope(predictor).mean()
    return AverageSlope(value, float(gradient @ covariance @ gradient), covariance @ gradient)


def fitted(model, formula, link, frame, *, counts=False, ols=False):
    design, exog = in_statsmodels_order(formula, frame)
    response = frame[formula.split("~")[0].strip()].astype(float)
    fit = model(response, exog).fit(**({} if ols else {"disp": 0, "maxiter": 200}))
    slope = released_slope(fit, link, exog)
    results = GLMResults(
        as_inference(fit),
        StubRelease(),
        link=link,
        response="had",
        model_name="Private GLM",
        design=design,
        counts=counts,
        average_slope=slope,
    )
    return Frozen(fit, results, exog, design, slope)


@pytest.fixture(scope="module")
def frame():
    found = sm.datasets.fair.load_pandas().data.iloc[::4].reset_index(drop=True)
    found["had"] = (found["affairs"] > 0).astype(float)
    found["devout"] = (found["religious"] >= 3).astype(float)
    found["children"] = np.floor(found["children"])
    return found


@pytest.fixture(scope="module")
def logit(frame):
    return fitted(sm.Logit, FORMULA, LINKS.Logit(), frame)


@pytest.fixture(scope="module")
def poisson(frame):
    return fitted(sm.Poisson, "children ~ age + educ + devout", LINKS.Log(), frame, counts=True)


@pytest.fixture(scope="module")
def squared(frame):
    return fitted(sm.Logit, "had ~ age + I(age**2) + educ + log(1 + children)", LINKS.Logit(), frame)


@pytest.fixture(scope="module")
def crossed(frame):
    return fitted(sm.Logit, "had ~ age * devout + age:C(occupation) + C(occupation)", LINKS.Logit(), frame)


@pytest.fixture(params=["logit", "poisson", "probit"])
def any_model(request, frame):
    if request.param == "probit":
        return fitted(sm.Probit, FORMULA, LINKS.Probit(), frame)
    return request.getfixturevalue(request.param)


def logistic(model, **changes):
    """Results of the logit with the same inference and design, and what is changed."""
    parts = {"inference": model.results.inference, "link": LINKS.Logit(), "design": model.design} | changes
    return GLMResults(parts.pop("inference"), StubRelease(), **parts)


def equal_margins(ours, theirs, rtol=1e-6):
    np.testing.assert_allclose(ours.margeff, theirs.margeff, rtol=rtol)
    np.testing.assert_allclose(ours.margeff_se, theirs.margeff_se, rtol=rtol)
    np.testing.assert_allclose(ours.margeff_cov, theirs.margeff_cov, rtol=10 * rtol, atol=1e-12)
    with np.errstate(invalid="ignore"):  # statsmodels gives NaN for an effect of exactly zero: 0/0
        expected = theirs.summary_frame()
    expected["z"], expected["Pr(>|z|)"] = expected["z"].fillna(0.0), expected["Pr(>|z|)"].fillna(1.0)
    np.testing.assert_allclose(ours.tvalues, expected["z"], rtol=rtol)
    np.testing.assert_allclose(ours.conf_int(0.1), theirs.conf_int(0.1), rtol=10 * rtol)
    pd.testing.assert_frame_equal(ours.summary_frame(), expected, rtol=1e-4, atol=1e-12)


def test_average_effects_equal_statsmodels(any_model):
    ours, theirs = any_model.results.get_margeff(), any_model.fit.get_margeff()
    equal_margins(ours, theirs)
    assert len(ours.margeff) == len(theirs.margeff)


@pytest.mark.parametrize("method", ["dydx", "eydx", "dyex", "eyex"])
@pytest.mark.parametrize("at", ["overall", "mean", "median"])
def test_effects_at_public_points_equal_statsmodels(any_model, at, method):
    public = any_model.frame.iloc[:40]
    theirs = any_model.fit.get_margeff(at=at, method=method, atexog=public.to_numpy())
    equal_margins(any_model.results.get_margeff(at=at, method=method, atexog=public), theirs, rtol=2e-5)
    np.testing.assert_allclose(
        any_model.results.get_margeff(at=at, method=method, atexog=public.to_numpy()).margeff, theirs.margeff, rtol=1e-6
    )


def test_effects_at_zero_need_no_points(any_model):
    ours, theirs = any_model.results.get_margeff(at="zero"), any_model.fit.get_margeff(at="zero")
    equal_margins(ours, theirs)
    assert len(ours.margeff) == len(theirs.margeff)


def test_effects_at_all_points_have_no_errors_as_in_statsmodels(logit):
    public = logit.frame.iloc[:7]
    found = logit.results.get_margeff(at="all", atexog=public)
    np.testing.assert_allclose(
        found.margeff, logit.fit.get_margeff(at="all", atexog=public.to_numpy()).margeff, rtol=1e-9
    )
    for name in ("margeff_se", "pvalues", "tvalues"):
        with pytest.raises(OptionError, match="at='all' is not valid"):
            getattr(found, name)


def test_points_by_columns_of_the_schema_are_those_of_the_design(logit):
    by_column = logit.results.get_margeff(atexog=NEW)
    rows = logit.design.rows(logit.design.read(NEW))
    pd.testing.assert_frame_equal(by_column.summary_frame(), logit.results.get_margeff(atexog=rows).summary_frame())


@pytest.mark.parametrize("method", ["dydx", "eydx"])
def test_changes_of_dummies_and_counts_equal_statsmodels(logit, method):
    public = logit.frame[(logit.frame.filter(like="occupation") == 0).all(axis=1)].iloc[:60]
    theirs = logit.fit.get_margeff(method=method, atexog=public.to_numpy(), dummy=True, count=True)
    ours = logit.results.get_margeff(method=method, atexog=public, dummy=True, count=True)
    np.testing.assert_allclose(ours.margeff, theirs.margeff, rtol=1e-7)
    continuous = [name in ("age", "educ") for name in ours.names]
    np.testing.assert_allclose(ours.margeff_se, theirs.margeff_se, rtol=1e-5)
    assert sum(continuous) == 2


def test_levels_of_a_factor_exclude_each_other(logit):
    at = {"age": 30, "educ": 14, "devout": 1}
    levels = pd.DataFrame([at | {"occupation": level} for level in range(1, 7)])
    means = logit.results.predict(levels)
    for place in ({"occupation": 1}, {"occupation": 4}):
        found = logit.results.get_margeff(atexog=at | place, dummy=True).summary_frame()["dy/dx"]
        np.testing.assert_allclose(found.filter(like="occupation"), means[1:] - means[0])


def test_a_column_in_several_terms_has_one_effect(squared):
    points = pd.DataFrame({"age": [25.0, 40.0], "educ": 14, "children": [0, 2]})
    found = squared.results.get_margeff(atexog=points, at="all")
    assert found.names == ("age", "educ", "log(1 + children)")
    step = 1e-5
    for place, name in enumerate(("age", "educ")):
        up, down = (squared.results.predict(points.assign(**{name: points[name] + sign * step})) for sign in (1, -1))
        np.testing.assert_allclose(found.margeff[:, place], (up - down) / (2 * step), rtol=1e-6)
    gradient = squared.results.get_margeff(atexog=points.iloc[:1]).gradients[0]
    numeric = []
    for place in range(len(gradient)):
        moved = []
        for sign in (1, -1):
            params = squared.fit.params.to_numpy() + sign * 1e-6 * (np.arange(len(gradient)) == place)
            other = logistic(squared, inference=replace(squared.results.inference, params=params))
            moved.append(other.get_margeff(atexog=points.iloc[:1]).margeff[0])
        numeric.append((moved[0] - moved[1]) / 2e-6)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-8)


def test_a_factor_that_takes_part_in_an_interaction_has_differences(crossed):
    at = {"age": 30, "devout": 1, "occupation": 2}
    found = crossed.results.get_margeff(atexog=at, dummy=True).summary_frame()["dy/dx"]
    assert list(found.index) == ["age", "devout", *(f"C(occupation)[T.{level}]" for level in range(2, 7))]

    def mean(**changes):
        return float(crossed.results.predict(at | changes).iloc[0])

    assert found["C(occupation)[T.5]"] == pytest.approx(mean(occupation=5) - mean(occupation=1))
    assert found["devout"] == pytest.approx(mean(devout=1) - mean(devout=0))
    assert found["age"] == pytest.approx((mean(age=30.001) - mean(age=29.999)) / 0.002, rel=1e-5)
    with pytest.raises(OptionError, match=r"atexog=None .* goes through age, devout, age:devout"):
        crossed.results.get_margeff(atexog=crossed.frame.iloc[:2])


def test_a_jump_is_no_slope(frame):
    model = fitted(sm.Logit, "had ~ age + I(age > 30) + educ", LINKS.Logit(), frame)
    found = model.results.get_margeff(atexog={"age": 30, "educ": 12}).summary_frame()["dy/dx"]
    mean = model.results.predict({"age": 30, "educ": 12}).iloc[0]
    assert found["age"] == pytest.approx(model.fit.params["age"] * mean * (1 - mean), rel=1e-4)


def test_averages_that_were_not_released_are_refused_by_name(logit, squared, crossed):
    for model, options, message in (
        (logit, {"dummy": True}, r"devout \(a difference of means\), C\(occupation\) .*margins=True"),
        (squared, {}, r"of age \(in several columns of the design\) need .*atexog="),
        (logit, {"count": True}, r"educ \(a difference of means\)"),
        (logit, {"method": "eydx"}, r"the average of d\(lny\)/dx over rows was not released"),
        (crossed, {}, r"age .*devout .*occupation"),
    ):
        with pytest.raises(MissingFromReleaseError, match=message):
            model.results.get_margeff(**options)
    with pytest.raises(MissingFromReleaseError, match="dy/dx over rows was not released; use atexog="):
        logistic(logit).get_margeff()
    assert squared.results.get_margeff(terms=["educ"]).names == ("educ",)


def test_effects_that_the_link_gives_need_no_average(poisson, frame):
    bare = logistic(poisson, link=LINKS.Log())
    np.testing.assert_allclose(bare.get_margeff(method="eydx").margeff, poisson.fit.params[1:])
    np.testing.assert_allclose(
        bare.get_margeff(method="eydx").margeff_se, poisson.fit.get_margeff(method="eydx").margeff_se, rtol=1e-5
    )


def test_an_average_with_unknown_covariance_counts_the_worst(logit):
    slope = logit.slope
    worst = logistic(logit, average_slope=slope._replace(covariance=None)).get_margeff()
    known = logit.results.get_margeff()
    assert (worst.margeff_se >= known.margeff_se - 1e-12).all()
    expected = slope.value * logit.fit.bse[1:] + np.abs(logit.fit.params[1:]) * np.sqrt(slope.variance)
    np.testing.assert_allclose(worst.margeff_se, expected)
    with pytest.raises(AttributeError, match="margeff_cov"):
        _ = worst.margeff_cov


def test_the_inference_may_offer_the_average(logit):
    @dataclass(frozen=True)
    class WithSlope(WaldStub):
        average_slope: AverageSlope | None = None

    inference = WithSlope(**{**vars(logit.results.inference), "average_slope": logit.slope})
    results = logistic(logit, inference=inference)
    np.testing.assert_allclose(results.get_margeff().margeff_se, logit.results.get_margeff().margeff_se)


def test_ratios_are_exponentials_with_intervals(logit, poisson, frame):
    found = logit.results.exponentiated(0.1)
    assert list(found.columns) == ["odds ratio", "[0.05", "0.95]"]
    np.testing.assert_allclose(found["odds ratio"], np.exp(logit.fit.params))
    np.testing.assert_allclose(found.iloc[:, 1:], np.exp(logit.fit.conf_int(0.1)))
    assert poisson.results.exponentiated().columns[0] == "rate ratio"
    probit = fitted(sm.Probit, FORMULA, LINKS.Probit(), frame).results
    assert probit.exponentiated().columns[0] == "exp(coef)"


def test_predictions_go_through_the_formula_and_equal_statsmodels(frame):
    formula = "had ~ age + I(age**2) + {}(1 + educ) + C(occupation, Treatment({}))"
    theirs = smf.logit(formula.format("np.log", "2.0"), frame).fit(disp=0)
    ours = fitted(sm.Logit, formula.format("log", "2"), LINKS.Logit(), frame).results
    np.testing.assert_allclose(ours.predict(NEW), theirs.predict(NEW), rtol=1e-6)
    np.testing.assert_allclose(ours.predict(NEW, which="linear"), theirs.predict(NEW, which="linear"), rtol=1e-6)
    table, expected = ours.get_prediction(NEW).summary_frame(), theirs.get_prediction(NEW).summary_frame()
    np.testing.assert_allclose(table["mean_se"], expected["se"], rtol=1e-4)
    np.testing.assert_allclose(table[["mean_ci_lower", "mean_ci_upper"]], expected[["ci_lower", "ci_upper"]], rtol=1e-5)


def test_offset_and_exposure_are_added(poisson):
    new = {"age": [30, 31], "educ": 12, "devout": 0}
    rates = poisson.results.predict(new)
    np.testing.assert_allclose(poisson.results.predict(new, exposure=[2, 5]), rates * [2, 5])
    np.testing.assert_allclose(poisson.results.predict(new, offset=1.0), rates * np.e)
    ends = poisson.results.get_prediction(new, exposure=3).conf_int()
    np.testing.assert_allclose(ends, 3 * poisson.results.get_prediction(new).conf_int())
    for wrong in ({"exposure": 0}, {"exposure": [1, 2, 3]}, {"offset": np.nan}, {"offset": "a"}, {"which": "median"}):
        with pytest.raises(OptionError, match=f"^{next(iter(wrong))}="):
            poisson.results.predict(new, **wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"at": "middle"}, "at='middle'"),
        ({"method": "dxdy"}, "method='dxdy'"),
        ({"at": "mean"}, "at='mean' .*without atexog="),
        ({"at": "all"}, "at='all' .*without atexog="),
        ({"method": "dyex", "dummy": True, "atexog": NEW}, "method='dyex'"),
        ({"at": "zero", "dummy": True}, "at='zero'"),
        ({"at": "median", "count": True, "atexog": NEW}, "at='median'"),
    ],
)
def test_options_that_do_not_serve_are_refused(logit, options, message):
    with pytest.raises(OptionError, match=f"^{message}"):
        logit.results.get_margeff(**options)


def test_unknown_effects_and_missing_columns_are_named(logit):
    for options in ({}, {"atexog": NEW}):
        with pytest.raises(UnknownColumnError, match="'income' is not in the effects; it has: age, educ, devout"):
            logit.results.get_margeff(terms=["income"], **options)
        with pytest.raises(OptionError, match="at least one effect, of a term that is not constant"):
            logit.results.get_margeff(terms=[], **options)
    with pytest.raises(UnknownColumnError, match="'devout' is not in exog"):
        logit.results.get_margeff(atexog={"age": 3, "educ": 12})


def test_what_is_not_determined_stays_infinite_and_never_nan(logit):
    unbounded = as_inference(logit.fit, UnboundedStub, method="score")
    results = logistic(logit, inference=unbounded, average_slope=logit.slope)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        effects = results.get_margeff()
        ends = effects.conf_int()
        assert np.isinf(ends).any()
        assert list(results.exponentiated().iloc[1]) == [np.exp(logit.fit.params.iloc[1]), 0.0, np.inf]
        tables = [
            effects.summary_frame(),
            results.get_margeff(atexog=NEW).summary_frame(),
            results.get_margeff(atexog=NEW, dummy=True).summary_frame(),
            results.exponentiated(),
            results.get_prediction(pd.concat([NEW, NEW])).summary_frame(),
            results.margins_frame("age", {"educ": 12, "devout": 0, "occupation": [1, 2]})[["mean", "mean_ci_upper"]],
            results.wald_test_terms().table,
            results.t_test_pairwise("C(occupation)").result_frame.drop(columns="reject-hs"),
        ]
        assert not any(np.isnan(table.to_numpy(dtype=float)).any() for table in tables)
        for part in ("inf", "P (score)", "invert the score test", "An infinite limit means"):
            assert part in str(effects.summary())
        for draw in (effects.plot, results.plot_coefficients):
            draw()
        results.plot_margins("age", {"educ": 12, "devout": 0, "occupation": 1})
    plt.close("all")


@pytest.mark.parametrize("link", ["Logit", "Probit", "CLogLog", "Log", "Identity"])
def test_mean_functions_are_never_nan_and_their_derivatives_fit(link):
    curve = MeanFunction(getattr(LINKS, link)())
    far = np.array([-np.inf, -1e9, -800.0, -40.0, 0.0, 40.0, 800.0, 1e9, np.inf])
    for of in (curve.mean, curve.slope, curve.curvature, curve.log_mean, curve.log_slope, curve.log_curvature):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not np.isnan(of(far)).any()
    near = np.linspace(0.1, 2.0, 9)
    pairs = [(curve.mean, curve.slope), (curve.slope, curve.curvature)]
    pairs += [(curve.log_mean, curve.log_slope), (curve.log_slope, curve.log_curvature)]
    for function, derivative in pairs:
        numeric = (function(near + 1e-6) - function(near - 1e-6)) / 2e-6
        np.testing.assert_allclose(derivative(near), numeric, rtol=1e-5, atol=1e-7)


def test_effects_far_out_are_zero_with_certainty(logit):
    params = 1e6 * logit.fit.params.to_numpy()
    far = logistic(logit, inference=replace(logit.results.inference, params=params)).get_margeff(atexog=NEW)
    assert not far.summary_frame().isna().any(axis=None)
    np.testing.assert_allclose(far.margeff, 0.0, atol=1e-12)


def test_results_can_be_pickled_and_keep_their_parts(logit):
    other = pickle.loads(pickle.dumps(logit.results))
    np.testing.assert_allclose(other.predict(NEW), logit.results.predict(NEW))
    np.testing.assert_allclose(other.get_margeff().margeff_se, logit.results.get_margeff().margeff_se)
    effects = pickle.loads(pickle.dumps(other.get_margeff(atexog=NEW)))
    np.testing.assert_allclose(effects.conf_int(), logit.results.get_margeff(atexog=NEW).conf_int())
    score = logit.results.with_inference("score")
    assert type(score) is GLMResults
    assert score.link is logit.results.link
    assert score.get_margeff(atexog=NEW).results.inference.method == "score"
    assert repr(score).startswith("<GLMResults: Private GLM of had")


def test_tables_and_plots_of_effects(logit):
    effects = logit.results.get_margeff(atexog=NEW, method="eydx")
    text = str(effects.summary(alpha=0.1))
    for part in ("Private GLM Marginal Effects", "d(lny)/dx", "[0.05", "C(occupation)[T.3]", "Guarantee:", "overall"):
        assert part in text
    assert "age" in effects.to_markdown()
    assert "dummy=True takes differences" in " ".join(effects.notes)
    assert not any("dummy" in note for note in logit.results.get_margeff(atexog=NEW, dummy=True).notes)
    assert "eydx" in repr(effects)
    ax = effects.plot(alpha=0.1)
    assert [label.get_text() for label in ax.get_yticklabels()] == list(effects.names)
    plt.close("all")


def test_margins_along_a_column_are_predictions(logit):
    at = pd.DataFrame({"educ": 12, "devout": [0, 1], "occupation": 3})
    found = logit.results.margins_frame("age", at, grid=[20, 30, 40], alpha=0.1)
    expected = logit.results.get_prediction(found[["age", "educ", "devout", "occupation"]]).summary_frame(0.1)
    pd.testing.assert_frame_equal(found[list(expected.columns)], expected)
    assert list(found["curve"]) == [0, 0, 0, 1, 1, 1]
    assert len(logit.results.margins_frame("age", at)) == 2 * 101
    others = {"age": 30, "educ": 12, "devout": True}
    assert list(logit.results.margins_frame("occupation", others)["occupation"]) == [1, 2, 3, 4, 5, 6]
    assert len(logit.results.plot_margins("age", at).lines) == 2
    assert len(logit.results.plot_margins("occupation", others).lines) == 1
    with pytest.raises(UnknownColumnError, match="'educ' is not in at"):
        logit.results.margins_frame("age", {"devout": 1, "occupation": 1})
    with pytest.raises(UnknownColumnError, match="'income' is not in the formula; it has: age"):
        logit.results.margins_frame("income", at)
    with pytest.raises(OptionError, match=r"exog\['occupation'\]=7"):
        logit.results.margins_frame("age", {"educ": 12, "devout": 1, "occupation": 7})
    design = FormulaDesign(SCHEMA, compile_formula("had ~ log(educ + 1)", SCHEMA).design)
    inference = WaldStub(design.names, np.ones(2), np.eye(2), np.eye(2))
    results = logistic(logit, inference=inference, design=design)
    with pytest.raises(FormulaError, match=r"log\(educ \+ 1\): has no finite value at educ = -1"):
        results.margins_frame("educ", grid=[-1])
    plt.close("all")


def test_elasticities_need_positive_means(frame):
    model = fitted(sm.OLS, "affairs ~ age + educ", LINKS.Identity(), frame, ols=True)
    assert model.results.get_margeff().margeff == pytest.approx(model.fit.params.to_numpy()[1:])
    np.testing.assert_allclose(model.results.get_margeff().margeff_se, model.fit.bse[1:])
    new = {"age": 30, "educ": 12}
    mean = float(model.results.predict(new).iloc[0])
    elasticity = model.results.get_margeff(method="eyex", atexog=new).margeff
    np.testing.assert_allclose(elasticity, model.fit.params[1:] * [30, 12] / mean)
    negative = {"age": -1e5 * np.sign(model.fit.params["age"]), "educ": 12}
    with pytest.raises(OptionError, match="a predicted mean is not positive"):
        model.results.get_margeff(method="eyex", atexog=negative)
