"""What is fitted to a block gives statsmodels' numbers under its names, or is refused before anything is read."""

import logging
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.miscmodels.ordinal_model import OrderedModel

import dpinfer as dpi
from dpinfer.errors import FormulaError, NotProvedError, OptionError, SchemaError, UnknownColumnError
from dpinfer.resampling.models import (
    FormulaEstimator,
    NewtonEstimator,
    firth,
    formula_estimator,
    model_class,
    newton,
    probe_names,
)

MODELS = {"Logit": sm.Logit, "Poisson": sm.Poisson, "OLS": sm.OLS}
LEVELS = {"group": ["u", "v", "w"], "level": ["low", "mid", "high"]}
SCHEMA = dpi.Schema(
    {"hours.per.week": dpi.Integer(1, 9)},
    x=dpi.Real(-2, 2),
    z=dpi.Integer(1, 9),
    b=dpi.Boolean(),
    group=dpi.Category(LEVELS["group"]),
    y=dpi.Boolean(),
    count=dpi.Integer(0, 60),
    size=dpi.Real(0.01, 100),
    level=dpi.Category(LEVELS["level"]),
    grade=dpi.Integer(1, 4),
    out=dpi.Real(-50, 50),
    weight=dpi.Real(0.1, 3),
    died=dpi.Boolean(),
    years=dpi.Real(0.5, 5),
)


def block(rows=400, seed=1):
    """Rows as a block has them: an ordered categorical of all declared levels, whole numbers, floats."""
    rng = np.random.default_rng(seed)
    x, z, b = rng.uniform(-2, 2, rows), rng.integers(1, 10, rows), rng.integers(0, 2, rows)
    eta = 0.5 * x + 0.05 * z - 0.3 * b
    latent = eta + rng.logistic(size=rows)
    cut = {"group": rng.integers(0, 3, rows), "level": np.digitize(latent, [-0.5, 1])}
    texts = {name: pd.Categorical.from_codes(codes, LEVELS[name], ordered=True) for name, codes in cut.items()}
    return pd.DataFrame(
        {
            "hours.per.week": rng.integers(1, 10, rows),
            "x": x,
            "z": z,
            "b": b,
            "y": (latent > 0).astype(int),
            "count": rng.negative_binomial(3, 3 / (3 + np.exp(eta))),
            "size": rng.gamma(2, np.exp(eta)),
            "grade": np.digitize(latent, [-1, 0.3, 1.5]) + 1,
            "out": eta + rng.standard_t(4, rows),
            "weight": rng.uniform(0.1, 3, rows),
            "died": (rng.random(rows) < 0.7).astype(int),
            "years": rng.uniform(0.5, 5, rows),
            **texts,
        }
    )


FRAME = block()


def prepared(model, formula, *, schema=SCHEMA, options=None, fit_options=None):
    return formula_estimator(model_class(model), formula, schema, options=options or {}, fit_options=fit_options or {})


def ordinary(model, y, x):
    """Parameters by statsmodels; None where it says that it did not converge, or fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            results = model(y, x).fit(**({} if model is sm.OLS else {"disp": 0, "maxiter": 100}))
        except np.linalg.LinAlgError:
            return None
    converged = model is sm.OLS or results.mle_retvals["converged"]
    return results.params if converged and np.isfinite(results.params).all() else None


# Newton's steps

KINDS = ("plain", "collinear", "tiny", "rare", "large", "scales")


def drawn(kind, model, seed):
    """Outcomes and regressors of a kind of design."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(8, 16) if kind == "tiny" else rng.integers(40, 200))
    x = np.column_stack([np.ones(rows), rng.uniform(-1, 1, (rows, rng.integers(1, 4)))])
    slopes = rng.normal(0, 0.5, x.shape[1])
    slopes[0] = {"rare": -3.0, "large": 7.0 if model is sm.Poisson else 0.0}.get(kind, slopes[0])
    if kind == "collinear":
        x, slopes = np.column_stack([x, x[:, 1] + 1e-3 * rng.normal(size=rows)]), np.append(slopes, 0.2)
    mean = x @ slopes
    if kind == "scales":
        x *= 10.0 ** rng.integers(-3, 4, x.shape[1])
    if model is sm.Logit:
        return (rng.random(rows) < 1 / (1 + np.exp(-mean))).astype(float), x
    if model is sm.Poisson:
        return rng.poisson(np.exp(mean)).astype(float), x
    return mean + rng.normal(0, 1e4 if kind == "large" else 1, rows), x


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_newton_gives_the_parameters_of_statsmodels(name, kind):
    model, agreed = MODELS[name], 0
    for seed in range(30):
        y, x = drawn(kind, model, seed)
        found, expected = newton(model, y, x), ordinary(model, y, x)
        if found is not None and expected is not None:
            agreed += 1
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())
        else:  # statsmodels overflows in a few that are badly scaled; Newton's steps find nothing that it does not
            assert expected is None
            assert found is None or kind == "scales"
    assert agreed >= {"tiny": 15, "scales": 20}.get(kind, 28)


@given(
    st.sampled_from(sorted(MODELS)),
    st.integers(1, 4),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.01, 1.0, 100.0]),
    st.floats(-2, 2),
)
def test_newton_solves_the_score_equations_or_says_that_it_does_not(name, size, seed, scale, shift):
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(size, 60))
    x = np.column_stack([np.ones(rows), scale * (rng.normal(size=(rows, size - 1)) + shift)])
    y = (rng.random(rows) < 0.5) * (1.0 if name == "Logit" else rng.integers(0, 9, rows))
    found = newton(MODELS[name], y.astype(float), x)
    if found is None:
        assert name != "OLS"
        return
    linear = x @ found
    mean = {"Logit": lambda: 1 / (1 + np.exp(-linear)), "Poisson": lambda: np.exp(linear), "OLS": lambda: linear}[
        name
    ]()
    np.testing.assert_allclose(x.T @ (y - mean) / np.abs(x).max(axis=0) / rows, 0, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_newton_gives_nothing_where_outcomes_are_separated_or_coefficients_not_determined(name):
    model, (y, x) = MODELS[name], drawn("plain", MODELS[name], 3)
    assert newton(model, y, x) is not None
    for collinear in (x[:, 1], np.zeros(len(x))):
        assert newton(model, y, np.column_stack([x, collinear])) is None
    for rows in range(3):
        few = np.column_stack([np.ones(rows), np.arange(rows), np.arange(rows) ** 2]).astype(float).reshape(rows, 3)
        assert newton(model, np.ones(rows), few) is None
    if name != "OLS":
        side = np.linspace(-1, 1, 41) > 0.2
        x, most = np.column_stack([np.ones(41), side]), 1.0 if name == "Logit" else 3.0
        assert newton(model, np.where(side, most, 0.0), x) is None
        assert newton(model, np.full(41, float(name == "Logit")), x) is None


# Firth's penalised likelihood


@pytest.mark.parametrize("table", [((3, 9), (11, 5)), ((0, 7), (4, 4)), ((1, 200), (90, 2))])
def test_firth_adds_half_an_observation_to_each_cell_of_a_table(table):
    (a, b), (c, d) = np.array(table) + 0.5
    y = np.repeat([1.0, 0.0, 1.0, 0.0], np.ravel(table))
    group = np.repeat([0.0, 0.0, 1.0, 1.0], np.ravel(table))
    expected = [np.log(a / b), np.log(c / d) - np.log(a / b)]
    np.testing.assert_allclose(firth(y, np.column_stack([np.ones(len(y)), group])), expected, rtol=1e-7)


def test_firth_has_an_estimate_where_outcomes_are_separated_and_none_where_a_coefficient_is_not_determined():
    x = np.column_stack([np.ones(20), np.linspace(-1, 1, 20)])
    assert np.isfinite(firth((x[:, 1] > 0).astype(float), x)).all()
    np.testing.assert_allclose(firth(np.ones(20), x[:, :1]), np.log(20.5 / 0.5))
    assert firth((x[:, 1] > 0.2).astype(float), np.column_stack([x, np.zeros(20)])) is None


def test_firth_takes_off_the_bias_of_small_samples():
    rng, errors = np.random.default_rng(1), {"newton": [], "firth": []}
    while len(errors["newton"]) < 1500:
        x = np.column_stack([np.ones(60), rng.uniform(-2, 2, 60)])
        y = (rng.random(60) < 1 / (1 + np.exp(-0.5 - x[:, 1]))).astype(float)
        plain = newton(sm.Logit, y, x)
        if plain is not None:
            errors["newton"].append(plain[1] - 1)
            errors["firth"].append(firth(y, x)[1] - 1)
    noise = np.std(errors["firth"]) / np.sqrt(1500)  # false alarm: 1 in 10,000 if the bias left is one of these
    assert np.mean(errors["newton"]) > 5 * noise
    assert abs(np.mean(errors["firth"])) < 5 * noise


def test_a_reduced_logit_is_firths_where_maximum_likelihood_has_an_estimate():
    plain = prepared(smf.logit, "y ~ x")
    reduced = replace(plain, reduced=True)
    endog, exog = plain.design(FRAME)
    np.testing.assert_array_equal(reduced(FRAME), firth(endog.to_numpy(float), np.ascontiguousarray(exog.to_numpy())))
    assert not np.allclose(reduced(FRAME), plain(FRAME), rtol=1e-6)
    separated = FRAME.assign(y=(FRAME["x"] > 0).astype(int))
    assert np.isnan(reduced(separated)).all()
    poisson = prepared(smf.poisson, "count ~ x")
    np.testing.assert_array_equal(replace(poisson, reduced=True)(FRAME), poisson(FRAME))


def test_half_a_block_needs_as_many_rows_of_the_rarer_outcome_as_parameters():
    reduced = replace(prepared(smf.logit, "y ~ x + z"), reduced=True)
    for successes, known in ((2, False), (3, True)):
        y = np.zeros(len(FRAME), dtype=int)
        y[[3, 40, 90][:successes]] = 1
        for rows in (FRAME.assign(y=y), FRAME.assign(y=1 - y)):
            assert np.isfinite(reduced(rows)).all()
            assert np.isfinite(reduced.of_halves(rows)).all() == known


@pytest.mark.parametrize("name", ["logit", "poisson", "ols"])
def test_a_block_without_steps_that_converge_has_no_estimate(name):
    plain = prepared(getattr(smf, name), "count ~ x" if name == "poisson" else "y ~ x")
    assert type(plain) is NewtonEstimator
    few = plain(FRAME[:1])
    assert few.shape == (2,)
    assert np.isnan(few).all()
    assert np.isfinite(plain(FRAME)).all()


def test_a_separated_block_is_none_by_newton_and_the_last_step_by_statsmodels():
    rows = FRAME.assign(y=(FRAME["x"] > 0).astype(int))
    assert np.isnan(prepared(smf.logit, "y ~ x")(rows)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = prepared(smf.logit, "y ~ x", fit_options={"maxiter": 9})(rows)
        theirs = smf.logit("y ~ x", rows).fit(disp=0, maxiter=9).params
    assert np.isfinite(theirs).all()
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)  # to the bit where the design lies alike in memory


# Designs

FORMULAS = [
    *("out ~ x", "out ~ x + z + b", "out ~ 0 + x + z", "out ~ x - 1", "out ~ group", "out ~ 0 + group"),
    *("out ~ C(group)", "out ~ C(group, Treatment('v'))", "out ~ C(group, Sum) + x", "out ~ x * group"),
    *("out ~ x:group", "out ~ x:z + b", "out ~ (x + z + b) ** 2", "out ~ C(grade) + x", "out ~ C(b):x"),
    *("out ~ I(x ** 2) + I(x > 0)", "out ~ np.log(z) + np.exp(x)", "np.log(size) ~ x", "count ~ 1"),
    "out ~ Q('hours.per.week') + x",
]
OTHERWISE = {"I(x > 0)[T.True]": "I(x > 0)", "C(b)[0]:x": "C(b)[False]:x", "C(b)[1]:x": "C(b)[True]:x"}
"""Names of truth values by statsmodels, and here: a Boolean has levels False and True, a condition is 0 or 1."""


def test_a_condition_can_be_the_response():
    endog, _ = prepared(smf.logit, "I(out > 0) ~ x").design(FRAME)
    np.testing.assert_array_equal(endog, (FRAME["out"] > 0).astype(float))
    assert endog.name == "I(out > 0)"


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("absent", [False, True], ids=["all-levels", "a-level-absent"])
def test_the_compiled_design_is_that_of_statsmodels(formula, absent):
    """Column by column; the order is that of the formula, where statsmodels takes categories first."""
    rows = FRAME[FRAME["group"] != "w"].reset_index(drop=True) if absent else FRAME
    estimator = prepared(smf.ols, formula)
    expected = smf.ols(formula, rows).data
    endog, exog = estimator.design(rows)
    told = [OTHERWISE.get(name, name) for name in expected.xnames]
    assert sorted(exog) == sorted(told)
    np.testing.assert_allclose(exog[told], expected.exog, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(endog, expected.endog, rtol=1e-12)
    if absent:
        assert not exog[[name for name in exog if name.endswith("w]")]].to_numpy().any()


def test_a_formula_of_our_own_functions_needs_no_prefix():
    found = prepared(smf.ols, "log(size) ~ log(z) + minimum(x, 0)")
    expected = smf.ols("np.log(size) ~ np.log(z) + np.minimum(x, 0)", FRAME).fit()
    np.testing.assert_allclose(found(FRAME), expected.params, rtol=1e-10)


def test_names_in_backticks_are_columns():
    found = prepared(smf.ols, "out ~ `hours.per.week` + x")
    expected = smf.ols("out ~ Q('hours.per.week') + x", FRAME).fit()
    np.testing.assert_allclose(found(FRAME), expected.params, rtol=1e-10)
    assert set(found.schema) == {"hours.per.week", "out", "x"}


@pytest.mark.parametrize(
    ("formula", "columns"),
    [
        ("out ~ center(x)", {"out", "x"}),
        ("out ~ np.tanh(x) + z", {"out", "x", "z"}),
        ("out ~ bs(x, df=4)", {"out", "x"}),
        ("out ~ standardize(x) + group", {"out", "x", "group"}),
        ("out ~ Q('hours.per.week') + center(x)", {"out", "x", "hours.per.week"}),
    ],
)
def test_what_the_compiler_does_not_know_statsmodels_reads(formula, columns):
    estimator = prepared(smf.ols, formula)
    assert type(estimator) is FormulaEstimator
    assert estimator.compiled is None
    assert set(estimator.schema) == columns
    expected = smf.ols(formula, FRAME).fit().params
    np.testing.assert_array_equal(estimator(FRAME), expected)
    assert probe_names(estimator) == tuple(expected.index)


# Models

CASES = {
    "logit": (smf.logit, "y ~ x + group", {}, {}),
    "logit by another method": (smf.logit, "y ~ x + group", {}, {"method": "bfgs"}),
    "probit": (smf.probit, "y ~ x + b", {}, {}),
    "poisson": (smf.poisson, "count ~ x + b", {}, {}),
    "poisson with exposure": (smf.poisson, "count ~ x", {"exposure": "years"}, {}),
    "poisson with offset": (smf.poisson, "count ~ x", {"offset": "x"}, {}),
    "negative binomial": (smf.negativebinomial, "count ~ x + b", {}, {}),
    "ols": (smf.ols, "out ~ x * group", {}, {}),
    "wls": (smf.wls, "out ~ x", {"weights": "weight"}, {}),
    "median": (smf.quantreg, "out ~ x + b", {}, {"q": 0.5}),
    "quantile": (smf.quantreg, "out ~ x", {}, {"q": 0.8}),
    "robust": (smf.rlm, "out ~ x + group", {}, {}),
    "gamma": (smf.glm, "size ~ x", {"family": sm.families.Gamma(sm.families.links.Log())}, {}),
    "binomial": (smf.glm, "y ~ x + group", {"family": sm.families.Binomial()}, {}),
    "weighted": (smf.glm, "count ~ x", {"family": sm.families.Poisson(), "var_weights": "weight"}, {}),
    "outcomes by number": (smf.mnlogit, "grade ~ x + b", {}, {}),
    "survival": (smf.phreg, "years ~ x + b", {"status": "died"}, {}),
    "survival from an entry": (smf.phreg, "I(years + 3) ~ x", {"status": "died", "entry": "weight"}, {}),
    "survival by strata": (smf.phreg, "years ~ x", {"status": "died", "strata": "grade"}, {}),
}
NUMBERS = frozenset({"status", "entry", "strata", "offset", "exposure", "weights", "var_weights"})


@pytest.mark.parametrize("name", CASES)
def test_a_model_gives_the_parameters_of_statsmodels(name):
    model, formula, options, fit_options = CASES[name]
    estimator = prepared(model, formula, options=options, fit_options=fit_options)
    given = {key: FRAME[value].to_numpy() if key in NUMBERS else value for key, value in options.items()}
    silent = {} if model in (smf.ols, smf.wls, smf.quantreg, smf.rlm, smf.glm) else {"disp": 0}
    expected = model(formula, FRAME, **given).fit(**fit_options, **silent)
    names = probe_names(estimator)
    params = expected.params
    if isinstance(params, pd.Series):
        assert sorted(names) == sorted(params.index)
        assert "group" in formula or names == tuple(params.index)
        params = params[list(names)]
    elif isinstance(params, np.ndarray):
        assert names == tuple(expected.model.exog_names)
    by_newton = type(estimator) is NewtonEstimator
    np.testing.assert_allclose(estimator(FRAME), np.ravel(params, order="F"), rtol=1e-8)
    assert by_newton == (name in ("logit", "poisson", "ols"))


@pytest.mark.parametrize("response", ["level", "grade", "y"])
def test_several_outcomes_are_named_by_level_and_term(response):
    estimator = prepared(smf.mnlogit, f"{response} ~ x + b")
    column = FRAME[response].cat.codes if response == "level" else FRAME[response]
    expected = sm.MNLogit(column.to_numpy(), sm.add_constant(FRAME[["x", "b"]])).fit(disp=0).params
    np.testing.assert_allclose(estimator(FRAME), np.ravel(expected, order="F"), rtol=1e-10)
    levels = {"level": ["mid", "high"], "grade": [2, 3, 4], "y": [1]}[response]
    names = tuple(f"{level}: {term}" for level in levels for term in ("Intercept", "x", "b"))
    assert probe_names(estimator) == names


@pytest.mark.parametrize(("response", "distr"), [("level", "logit"), ("level", "probit"), ("grade", "logit")])
def test_ordered_outcomes_have_thresholds_after_the_slopes(response, distr):
    estimator = prepared(OrderedModel, f"{response} ~ x + b", options={"distr": distr})
    levels = LEVELS["level"] if response == "level" else [1, 2, 3, 4]
    endog = pd.Series(pd.Categorical(FRAME[response], categories=levels, ordered=True))
    fitted = OrderedModel(endog, FRAME[["x", "b"]], distr=distr).fit(method="bfgs", disp=0)
    np.testing.assert_allclose(estimator(FRAME), fitted.params, rtol=1e-10)
    names = probe_names(estimator)
    assert names == tuple(fitted.params.index)
    assert names[:3] == ("x", "b", f"{levels[0]}/{levels[1]}")
    without = prepared(OrderedModel, f"{response} ~ 0 + x + b", options={"distr": distr})
    np.testing.assert_array_equal(without(FRAME), estimator(FRAME))


@pytest.mark.parametrize("response", ["level", "grade"])
def test_a_block_without_one_of_the_outcomes_does_not_pass_for_one_with_all(response):
    """Several outcomes keep their places, and that of the absent one is far away; ordered ones have no estimate."""
    levels = LEVELS["level"] if response == "level" else [1, 2, 3, 4]
    rows = FRAME[FRAME[response] != levels[1]].reset_index(drop=True)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = prepared(smf.mnlogit, f"{response} ~ x")(rows)
        ordered = prepared(OrderedModel, f"{response} ~ x")(rows)
    assert found.shape == (2 * (len(levels) - 1),)
    assert found[0] < -10
    present = rows[rows[response].isin([levels[0], levels[2]])]
    near = smf.logit("y ~ x", present.assign(y=(present[response] == levels[2]).astype(int))).fit(disp=0).params
    np.testing.assert_allclose(found[2:4], near, atol=0.15)
    assert not np.isfinite(ordered).all()


def test_a_survival_model_has_no_constant():
    names = probe_names(prepared(smf.phreg, "years ~ x + group", options={"status": "died"}))
    assert names == ("x", "group[T.v]", "group[T.w]")


def test_a_class_and_its_formula_function_are_one_model():
    assert model_class(smf.logit) is model_class(sm.Logit) is sm.Logit
    assert model_class(sm.Logit.from_formula) is sm.Logit
    assert model_class(np.mean) is None
    assert model_class(lambda frame: [0.0]) is None


def test_the_probe_reads_no_rows_and_shows_nothing(capfd, caplog, recwarn):
    estimator = prepared(smf.logit, "y ~ x", fit_options={"disp": 1, "maxiter": 1})
    with caplog.at_level(logging.DEBUG):
        assert probe_names(estimator) == ("Intercept", "x")
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    assert not recwarn.list
    assert probe_names(estimator) == probe_names(estimator)


# What is refused


class Plain:
    """A class without a formula."""


def test_what_takes_no_formula_and_is_not_called_is_refused():
    for model in (Plain, int, 3, "logit", None, smf):
        with pytest.raises(OptionError, match=r"smf\.logit") as caught:
            model_class(model)
        assert caught.value.option == "model"


TOGETHER = ("mixedlm", "gee", "ordinal_gee", "nominal_gee", "conditional_logit", "conditional_poisson", "ols")


def test_models_of_rows_that_belong_together_are_refused():
    grouped = [(getattr(smf, name), {"groups": "group"}) for name in (*TOGETHER, "conditional_mnlogit")]
    for model, options in (*grouped, (smf.mixedlm, {}), (smf.glsar, {"rho": 1})):
        with pytest.raises(NotProvedError, match="assign rows individually"):
            prepared(model, "y ~ x", options=options)


def test_what_is_no_formula_is_refused():
    for formula in ("y", "", None, 3, ["y", "x"]):
        with pytest.raises(OptionError, match="formula"):
            prepared(smf.logit, formula)
    with pytest.raises(FormulaError, match=r"declared column.*hours\.per\.week"):
        prepared(smf.logit, "secret ~ other")
    with pytest.raises(FormulaError, match="rows drawn from the schema"):
        probe_names(prepared(smf.logit, "y ~ x + undeclared"))


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_an_argument_for_each_row_is_the_name_of_a_column_of_numbers(name):
    with pytest.raises(OptionError, match="the name of a declared column") as caught:
        prepared(smf.poisson, "count ~ x", options={name: np.ones(3)})
    assert caught.value.option == name
    with pytest.raises(UnknownColumnError, match="absent"):
        prepared(smf.poisson, "count ~ x", options={name: "absent"})
    with pytest.raises(OptionError, match="column of numbers"):
        prepared(smf.poisson, "count ~ x", options={name: "group"})


@pytest.mark.parametrize("model", [smf.mnlogit, OrderedModel])
@pytest.mark.parametrize("response", ["out", "size"])
def test_outcomes_without_declared_levels_are_refused(model, response):
    with pytest.raises(SchemaError, match=f"declare {response} as Category"):
        prepared(model, f"{response} ~ x")


def test_a_model_that_cannot_be_fitted_is_refused_with_its_own_words():
    with pytest.raises(FormulaError, match=r"GLM cannot be fitted .*AttributeError.*names=\[\.\.\.\]"):
        probe_names(prepared(smf.glm, "y ~ x", options={"family": "nonsense"}))


def test_only_the_columns_that_are_named_are_read():
    assert set(prepared(smf.logit, "y ~ x").schema) == {"x", "y"}
    assert set(prepared(smf.phreg, "years ~ x", options={"status": "died"}).schema) == {"died", "x", "years"}
    assert set(prepared(smf.mnlogit, "level ~ x:b").schema) == {"b", "level", "x"}
