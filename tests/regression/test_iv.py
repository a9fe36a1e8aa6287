"""Instrumental variables: the reference without noise, Anderson-Rubin sets of every kind, coverage, refusals."""

import json

import numpy as np
import pandas as pd
import pytest
from linearmodels.datasets import card, mroz
from linearmodels.iv import IV2SLS, IVLIML
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import FormulaError, InferenceError, MissingFromReleaseError, NotProvedError, OptionError
from dpinfer.regression.iv_inference import noise_covariance
from dpinfer.schema.formula import brackets_of

SCHEMA = dpi.Schema(
    y=dpi.Real(-5, 5), x=dpi.Real(-3, 3), other=dpi.Real(-3, 3), w=dpi.Real(0, 1), group=dpi.Category(["a", "b", "c"]),
    **{name: dpi.Real(-1, 1) for name in ("z1", "z2", "z3")},
)  # fmt: skip
MANY = "y ~ 1 + w + [x ~ z1 + z2 + z3]"
ONE = "y ~ 1 + w + [x ~ z1]"
NOTHING = dpi.ZCDP(1e13)


def rows(n=3000, *, strength=1.0, effect=0.5, wrong=0.0, seed=0):
    rng = np.random.default_rng(seed)
    z, u, v = rng.uniform(-1, 1, (3, n)), rng.uniform(-0.5, 0.5, n), rng.uniform(-0.5, 0.5, (3, n))
    w, group = rng.uniform(0, 1, n), rng.integers(0, 3, n)
    x = strength * (0.5 * z[0] + 0.3 * z[1] - 0.2 * z[2]) + 0.4 * w + u + 0.5 * v[0] + 0.2 * (group == 1)
    other = 0.6 * z[2] - 0.2 * z[0] - 0.5 * u + v[2]
    y = effect * x + u + w + wrong * z[1] + 0.5 * v[1]
    frame = {"y": y, "x": x, "other": other, "w": w, "group": np.array(["a", "b", "c"])[group]}
    return pd.DataFrame({**frame, **{f"z{place + 1}": one for place, one in enumerate(z)}})


def public(frame=None, schema=SCHEMA, seed=1, **options):
    frame = rows() if frame is None else frame
    return dpi.PublicData(frame, schema, rng=np.random.default_rng(seed), **options)


@pytest.mark.parametrize(("method", "reference"), [("2sls", IV2SLS), ("liml", IVLIML)])
@pytest.mark.parametrize("formula", [MANY, ONE, "y ~ 1 + w + [x + other ~ z1 + z2 + z3]", "y ~ 1 + [x ~ z1 + z2]"])
def test_without_noise_estimates_and_errors_are_those_of_linearmodels(method, reference, formula):
    frame = rows()
    results = dpi.iv(formula, public(frame), method=method).fit(NOTHING)
    known = reference.from_formula(formula, frame).fit(cov_type="unadjusted", debiased=True)
    assert list(results.params.index) == list(known.params.index)
    np.testing.assert_allclose(results.params, known.params, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(results.bse, known.std_errors, rtol=1e-4)
    wald = results.with_inference("wald").conf_int()
    np.testing.assert_allclose(wald, known.conf_int(), rtol=2e-3, atol=2e-4)
    first = results.first_stage
    np.testing.assert_allclose(first["F without noise"], first["F"], rtol=1e-4)
    if "other" not in formula:
        bare = IV2SLS.from_formula(formula, frame).fit(cov_type="unadjusted", debiased=True).first_stage.diagnostics
        assert first.loc["x", "F"] == pytest.approx(bare["f.stat"].iloc[0], rel=1e-3)
    if results.inference.fit.count == 3 and "other" not in formula:
        liml = IVLIML.from_formula(formula, frame).fit(cov_type="unadjusted", debiased=True)
        sargan = results.sargan
        assert sargan.dof == 2
        assert sargan.statistic / 2 == pytest.approx(liml.basmann_f.stat, rel=1e-3)
        assert sargan.pvalue == pytest.approx(liml.basmann_f.pval, rel=1e-3)


@pytest.mark.parametrize(
    ("data", "formula"),
    [
        (card, "lwage ~ 1 + exper + black + south + smsa + [educ ~ nearc4]"),
        (card, "lwage ~ 1 + exper + black + south + smsa + [educ ~ nearc4 + nearc2]"),
        (mroz, "lwage ~ 1 + exper + I(exper**2) + [educ ~ motheduc + fatheduc]"),
    ],
)
def test_without_noise_real_rows_give_what_linearmodels_finds(data, formula):
    names = ["lwage", "educ", "exper", *(one for one in data.load() if one in formula and one not in ("educ", "exper"))]
    frame = data.load()[list(dict.fromkeys(names))].dropna().astype(float)
    bounds = {name: dpi.Real(min(float(frame[name].min()), 0.0), float(frame[name].max())) for name in frame}
    results = dpi.iv(formula, public(frame, dpi.Schema(bounds))).fit(dpi.ZCDP(1e15))
    known = IV2SLS.from_formula(formula, frame).fit(cov_type="unadjusted", debiased=True)
    np.testing.assert_allclose(results.params, known.params, rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(results.bse, known.std_errors, rtol=2e-3)
    (diagnostics,) = known.first_stage.diagnostics["f.stat"]
    assert results.first_stage.loc["educ", "F"] == pytest.approx(diagnostics, rel=2e-3)


def plain_test(frame, value, names):
    """The textbook Anderson-Rubin F test: the instruments in a regression of y - x b."""
    kept = np.column_stack([np.ones(len(frame)), frame["w"]])
    full = np.column_stack([kept, frame[names]])
    left = frame["y"] - value * frame["x"]
    short, long = (float(((left - one @ np.linalg.lstsq(one, left, rcond=None)[0]) ** 2).sum()) for one in (kept, full))
    df = len(frame) - full.shape[1]
    return float(stats.f.sf((short - long) / len(names) / (long / df), len(names), df))


@pytest.mark.parametrize("formula", [MANY, ONE])
def test_without_noise_the_test_and_the_set_are_the_textbooks(formula):
    frame, names = rows(), ["z1", "z2", "z3"][: 3 if formula == MANY else 1]
    results = dpi.iv(formula, public(frame)).fit(NOTHING)
    for value in (0.0, 0.45, 0.7):
        test = results.t_test((np.array([[0.0, 0, 1]]), np.array([value])))
        assert float(test.pvalue) == pytest.approx(plain_test(frame, value, names), rel=0.02, abs=1e-12)
    kind, ((low, high),) = results.confidence_set()
    assert kind == "bounded"
    for end in (low, high):
        assert plain_test(frame, end, names) == pytest.approx(0.05, rel=0.01)
    np.testing.assert_allclose(results.conf_int().loc["x"], [low, high])


@pytest.mark.parametrize("privacy", [dpi.ZCDP(0.05), dpi.PureDP(1.0)])
@pytest.mark.parametrize("formula", [MANY, ONE])
def test_intervals_of_every_coefficient_hold_what_their_test_keeps(formula, privacy):
    results = dpi.iv(formula, public(rows(8000), seed=2)).fit(privacy)
    for place, (low, high) in enumerate(results.conf_int().to_numpy()):
        assert np.isfinite([low, high]).all()
        for at, expected in ((low, 0.05), (high, 0.05)):
            row = np.eye(3)[[place]]
            assert float(results.inference.contrast_pvalues(row, [at])[0]) == pytest.approx(expected, rel=0.05)
        assert float(results.inference.contrast_pvalues(row, [0.5 * (low + high)])[0]) > 0.05
    whole = results.inference.contrast_pvalues(np.array([[1.0, 0.5, 2.0]]), [0.0])
    again = results.t_test("Intercept + 0.5 * w + 2 * x = 0")
    assert float(whole[0]) == pytest.approx(float(again.pvalue))


def test_the_noise_of_moments_is_that_of_symmetric_draws():
    rng = np.random.default_rng(2)
    noise = rng.uniform(0.5, 2, (4, 4))
    noise = noise + noise.T
    left, right, residuals = rng.normal(size=(1, 2, 4)), rng.normal(size=(1, 3, 4)), rng.normal(size=(1, 2, 4))
    upper = np.triu_indices(4)
    drawn = np.zeros((400_000, 4, 4))
    drawn[:, upper[0], upper[1]] = rng.normal(size=(400_000, 10)) * np.sqrt(noise[upper])
    drawn[:, upper[1], upper[0]] = drawn[:, upper[0], upper[1]]
    first, second = drawn @ residuals[0].T, drawn @ residuals[0].T
    stated = noise_covariance(noise, left, right, residuals)[0]
    seen = np.einsum("nla,nrb->ablr", left[0] @ first, right[0] @ second) / len(drawn)
    np.testing.assert_allclose(seen, stated, atol=0.03 * np.abs(stated).max())


def test_weak_instruments_and_noise_give_sets_that_say_what_they_are():
    """Of 40 releases without identification almost all are unbounded, and say so; none is a number that is none."""
    kinds = []
    for seed in range(40):
        frame = rows(1000, strength=0.02, seed=seed)
        results = dpi.iv(ONE, public(frame, seed=seed)).fit(dpi.ZCDP(0.05))
        kind, parts = results.confidence_set()
        kinds.append(kind)
        ends = results.conf_int()
        assert not np.isnan(ends.to_numpy()).any()
        assert np.isfinite(results.params).all()
        assert bool(results.first_stage.loc["x", "weak"])
        assert any(flag.startswith("weak instruments for x") for flag in results.flags)
        if kind == "whole line":
            assert any("not identified" in flag for flag in results.flags)
            assert parts == ((-np.inf, np.inf),)
        if kind == "unbounded":
            assert any("weakly identified" in flag for flag in results.flags)
            assert len(parts) == 2
            assert np.isinf(ends.to_numpy()).all()
    assert kinds.count("whole line") + kinds.count("unbounded") > 25


def test_an_empty_set_is_named_and_belongs_to_instruments_that_disagree():
    results = dpi.iv(MANY, public(rows(20_000, wrong=0.5))).fit(dpi.ZCDP(1.0))
    assert results.confidence_set() == ("empty", ())
    assert results.conf_int().isna().all(axis=None)
    assert any("is empty" in flag for flag in results.flags)
    assert results.sargan.pvalue < 0.001
    assert "empty" in str(results.summary())
    assert results.confidence_set(1e-300)[0] in ("bounded", "whole line")


def test_coverage_under_noise_and_weak_instruments():
    """Of 400 releases each; a method of 95% fails this with probability below 1e-4."""
    least = stats.binom.ppf(1e-4, 400, 0.95) / 400
    for strength, price in ((0.1, dpi.ZCDP(0.5)), (1.0, dpi.ZCDP(0.05)), (1.0, dpi.PureDP(1.0))):
        study = dpi.coverage_study(
            lambda rng, n, strength=strength: rows(
                n, strength=strength, seed=int(rng.integers(2**31))
            )[["y", "x", "w", "z1"]].to_dict("list"),
            dpi.iv("y ~ 1 + w + [x ~ z1]"), schema=SCHEMA.select(["y", "x", "w", "z1"]),
            truth={"x": 0.5}, n=1000, privacy=[price], replicates=400, seed=3, progress=False,
        )  # fmt: skip
        assert study.cells.set_index("term").loc["x", "coverage"] >= least


def test_one_release_of_cross_products_serves_instruments_and_least_squares():
    data = public()
    gram = dpi.gram(["y", "x", "w", "z1", "z2", "z3", "group"], data).fit(dpi.ZCDP(1.0))
    for source in (gram, gram.release):
        results = dpi.iv(MANY, source).infer()
        assert results.release is gram.release
    factors = dpi.iv("y ~ 1 + w + [x ~ C(group)]", gram).infer()
    assert factors.inference.fit.count == 2
    own = dpi.iv(MANY, data).measure(dpi.ZCDP(1.0))
    assert list(dpi.ols("y ~ x + w", own).infer().params.index) == ["Intercept", "x", "w"]
    again = dpi.Release.from_json(own.to_json())
    pd.testing.assert_frame_equal(again.infer().conf_int(), dpi.iv(MANY, own).infer().conf_int())
    assert again.infer(method="liml").model_name == "Private IV-LIML"
    with pytest.raises(MissingFromReleaseError, match="'other' was not measured"):
        dpi.iv("y ~ 1 + w + [other ~ z1]", gram).infer()
    weighted = dpi.ols("y ~ x + w + z1", data, method="gram", row_norm=1.2).measure(dpi.ZCDP(1.0))
    with pytest.raises(NotProvedError, match="row_norm"):
        dpi.iv("y ~ 1 + w + [x ~ z1]", weighted).infer()
    with pytest.raises(OptionError, match="where"):
        dpi.iv(MANY, own, where="w > 0.5")


def test_many_releases_are_inferred_as_one_by_one():
    question, data = dpi.iv(MANY), public()
    found = []
    for seed in range(3):
        data = public(seed=seed)
        found.append(dpi.iv(MANY, data).measure(dpi.PureDP(1.0)))
    measured = question.measurement(dpi.PureDP(1.0), schema=data.schema)
    released = dpi.statistics.inference.Released.of_study(measured, np.array([one.array for one in found]))
    batch = question.estimate(released, contrasts={"sum": {"x": 1.0, "w": 1.0}})
    for place, release in enumerate(found):
        one = dpi.iv(MANY, release).infer()
        np.testing.assert_allclose(batch.intervals[place, :3], one.conf_int(), rtol=1e-6)
        np.testing.assert_allclose(batch.pvalues[place, :3], one.pvalues, rtol=1e-6)
        test = one.t_test("x + w = 0")
        np.testing.assert_allclose(batch.intervals[place, 3], test.conf_int()[0], rtol=1e-6)


def test_several_endogenous_regressors_have_walds_intervals_and_a_flag():
    formula = "y ~ 1 + w + [x + other ~ z1 + z2 + z3]"
    results = dpi.iv(formula, public(rows(20_000))).fit(dpi.ZCDP(2.0))
    assert results.inference.method == "wald"
    assert any(flag.startswith("several endogenous") for flag in results.flags)
    assert results.sargan.dof == 1
    assert list(results.first_stage.index) == ["x", "other"]
    with pytest.raises(InferenceError, match="one endogenous"):
        results.confidence_set()
    with pytest.raises(OptionError, match="one endogenous"):
        results.with_inference("anderson-rubin")
    with pytest.raises(OptionError, match="one endogenous"):
        dpi.iv(formula, public(), inference="anderson-rubin")
    with pytest.raises(InferenceError, match="there is nothing to test"):
        _ = dpi.iv(ONE, public()).fit(dpi.ZCDP(1.0)).sargan


def test_tables_tests_and_explanations_say_what_matters():
    data = dpi.PrivateData(rows(), SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(1.0)))
    question = dpi.iv(MANY, data)
    told = question.explain(dpi.ZCDP(0.5))
    assert "first stage" in told
    assert data.ledger.spent.is_zero
    results = question.fit(dpi.ZCDP(0.5))
    text = str(results.summary())
    for one in ("Private IV-2SLS", "anderson-rubin", "Endogenous: x; instruments: z1, z2, z3", "unadjusted"):
        assert one in text
    sargan = str(results.sargan.summary())
    assert "all instruments are exogenous" in sargan
    results.sargan.plot()
    results.plot()
    joint = results.wald_test("x = 0, w = 0")
    assert 0 <= float(joint.pvalue) <= 1
    assert "P (anderson-rubin)" in results.summary_frame().columns


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("privacy", [dpi.PureDP(2), dpi.ZCDP(0.5), dpi.GDP(1), dpi.ApproxDP(1, 1e-6)])
def test_every_price_and_relation_is_served_for_rows_and_people(neighbors, privacy):
    frame = rows(500).assign(person=np.arange(500) // 2)
    for options in ({}, {"id": "person", "max_rows": 2}):
        results = dpi.iv(ONE, public(frame, neighbors=neighbors, **options)).fit(privacy)
        assert not np.isnan(results.conf_int().to_numpy()).any()
        assert (len([one for one in results.flags if "person may have" in one]) == 1) == bool(options)


def test_the_number_of_rows_is_public_where_nothing_can_be_missing():
    schema = dpi.Schema({name: dpi.Real(-5, 5, missing=0.0, impossible=0.0) for name in ("y", "x", "w", "z1")})
    results = dpi.iv(ONE, public(schema=schema, neighbors="replace_one")).fit(dpi.ZCDP(0.5))
    assert results.nobs == 3000
    assert results.inference.nobs_is_public


REFUSED = {
    "y ~ 1 + x": "has no brackets",
    "y ~ 1 + [x ~ z1] + [other ~ z2]": "has 2 brackets",
    "y ~ 1 + [x]": "is not \\[x ~ z\\]",
    "y ~ 1 + [x ~ ]": "is not \\[x ~ z\\]",
    "y ~ 1 + [ ~ z1]": "is not \\[x ~ z\\]",
    "y ~ 1 + w:[x ~ z1]": "not added to the other terms",
    "y ~ 1 + [x ~ z1]:w": "not added to the other terms",
    "y ~ 1 + [x + other ~ z1]": "has 1 instruments for 2 endogenous",
    "y ~ 1 + z1 + [x ~ z1 + z2]": "z1: is an instrument and an exogenous regressor",
    "y ~ 1 + w + [x ~ x + z2]": "x: is endogenous and an instrument",
    "y ~ 1 + C(group) + [x ~ group + z1]": "is a linear combination",
    "1 + [x ~ z1]": "has no dependent variable before the bracket",
    "[y ~ z1]": "has no dependent variable before the bracket",
    "~ 1 + [x ~ z1]": "has no dependent variable before the bracket",
    "y ~ 1 + x + [x ~ z1]": "x: is endogenous and an exogenous regressor",
    "y ~ 1 + [x ~ z1] + x": "x: is endogenous and an exogenous regressor",
    "y ~ 1 + [y ~ z1]": "y: is the response",
    "y ~ 1 + [x ~ y]": "y: is the response",
    "y ~ [x ~ [w ~ z1]]": "brackets within the bracket",
    "y ~ 1 + [[x] ~ z1]": "brackets within the bracket",
    "y ~ [[x ~ z1]]": "brackets within the bracket",
    "y ~ 1 + [0 + x ~ z1]": "0 \\+ x: specifies the intercept",
    "y ~ 1 + [x - 1 ~ z1]": "x - 1: specifies the intercept",
    "y ~ 1 + [x ~ 0 + z1]": "0 \\+ z1: specifies the intercept",
    "y ~ 1 + [x ~ z1 - 1]": "z1 - 1: specifies the intercept",
    "y ~ 1 + [x ~ 1 + z1]": "1 \\+ z1: specifies the intercept",
}


@pytest.mark.parametrize("formula", REFUSED)
def test_a_wrong_formula_is_refused_before_anything_is_charged(formula):
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1.0))
    data = dpi.PrivateData(rows(50), SCHEMA, ledger)
    with pytest.raises(FormulaError, match=REFUSED[formula]):
        dpi.iv(formula, data).fit(dpi.ZCDP(1.0))
    assert ledger.spent.is_zero


def test_the_response_is_no_instrument_and_unknown_columns_and_options_are_named():
    with pytest.raises(FormulaError):
        dpi.iv("y ~ 1 + [x ~ y]", public())
    with pytest.raises(dpi.errors.UnknownColumnError, match="nearc4"):
        dpi.iv("y ~ 1 + [x ~ nearc4]", public())
    for option, value in {"method": "gmm", "inference": "score", "clamped_share": 0.7}.items():
        with pytest.raises(OptionError, match=option):
            dpi.iv(ONE, public(), **{option: value})


@pytest.mark.parametrize("ask", [dpi.ols, dpi.logit])
def test_brackets_elsewhere_are_refused_with_what_serves(ask):
    with pytest.raises(FormulaError, match=r"dpi\.iv"):
        ask("y ~ 1 + [x ~ z1]", public())


def test_brackets_are_found_outside_of_calls_and_names():
    assert brackets_of("y ~ C(g, levels=['a[', 'b']) + `odd[name]` + [x ~ C(g, levels=['a'])]") == [(45, 68)]
    assert brackets_of("y ~ (a + [b])") == []


def test_a_damaged_formula_in_a_release_is_refused():
    text = json.loads(dpi.iv(ONE, public()).measure(dpi.ZCDP(1.0)).to_json())
    text["question"]["formula"] = "y ~ 1 + w + x"
    with pytest.raises(dpi.errors.ReleaseFormatError):
        dpi.Release.from_json(json.dumps(text)).infer()


def test_clamped_rows_are_counted_and_said():
    results = dpi.iv(ONE, public(), clamped_share=0.1).fit(dpi.ZCDP(1.0))
    assert "outside its declared bounds" in str(results.summary())


@pytest.mark.parametrize("formula", ["y ~ 0 + [x ~ z1]", ONE, MANY, "y ~ w + C(group) + [x + other ~ z1 + z2 + z3]"])
@pytest.mark.parametrize("privacy", [dpi.ZCDP(1e-4), dpi.PureDP(1.0), dpi.ZCDP(1e12)])
def test_few_rows_or_rows_that_are_all_alike_give_numbers_and_no_error(formula, privacy):
    for frame in (rows(5), rows(40), rows(1).loc[[0] * 30]):
        results = dpi.iv(formula, public(frame.reset_index(drop=True))).fit(privacy)
        assert np.isfinite(results.params).all()
        assert (results.bse > 0).all()
        assert results.pvalues.between(0, 1).all()
        assert str(results.summary())
