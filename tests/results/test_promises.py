"""What results of every kind promise alike: one table, one inference behind it, and answers whatever the noise."""

import dataclasses
import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.errors import InferenceError, NotProvedError, OptionError
from dpinfer.statistics.inference import Released
from dpinfer.statistics.tails import joint_pvalue
from tests.asking import assert_nothing_is_stored_of
from tests.contract.questions import HOME
from tests.goldens.frame import SCHEMA, frame
from tests.results.sound import sound

REGRESSIONS = ("ols", "ols factors", "iterations ols", "iterations logit", "iterations poisson", "iterations quantreg")
SUMS = ("mean by", "mean weights", "total", "variance", "cov", "corr", "proportion levels", "proportion exact")
SUMS += ("count by", "table", "histogram", "linear queries", "loglinear")
FAMILIES = tuple(f"expfam {name}" for name in ("bernoulli", "poisson", "gamma", "normal", "categorical", "multinormal"))
RESAMPLED = ("bootstrap", "bootstrap public", "bootstrap public ratio", "blocks ols")
KINDS = (*REGRESSIONS, *SUMS, *FAMILIES, "quantile tree", "quantile integer", *RESAMPLED)
ASKED = {question.ask.name: question for (question,), *_ in HOME}
each_kind = pytest.mark.parametrize("kind", KINDS)


@cache
def fitted(kind, seed=7):
    """Results of simulated noise; nobody changes them."""
    return ASKED[kind].public(seed=seed).fit(ASKED[kind].privacy)


def held(kind):
    """Say whether intervals hold the estimates: those of scores need not."""
    return kind not in REGRESSIONS


@each_kind
def test_the_frame_is_that_of_the_series(kind):
    results = fitted(kind)
    found = results.summary_frame(alpha=0.1)
    for name, column in ((found.columns[0], results.params), ("std err", results.bse)):
        np.testing.assert_array_equal(found[name], column)
    np.testing.assert_array_equal(found[["[0.05", "0.95]"]], results.conf_int(0.1))
    np.testing.assert_array_equal(found["noise share"], results.noise_share)
    parts = found["std err (sampling)"] ** 2 + found["std err (noise)"] ** 2
    np.testing.assert_allclose(found["std err"] ** 2, parts)
    np.testing.assert_allclose(results.noise_share, (results.bse_noise / results.bse) ** 2)
    sound(results, held=held(kind))


@each_kind
def test_every_format_holds_every_number_and_says_that_nobody_is_protected(kind):
    results = fitted(kind)
    for form in ("as_text", "as_html", "as_latex", "as_markdown"):
        text = " ".join(getattr(results.summary(), form)().replace(",", "").split())
        for value in [*results.params, *results.bse]:
            digits = range(0 if abs(value) > 1 else 2, 6)
            assert any(f"{value:.{one}f}" in text for one in digits) or f"{value:.3g}" in text or value < 1e-6, value
        assert "this is not a private release" in text


@each_kind
def test_one_method_drives_intervals_p_values_and_tests(kind):
    """Values in the interval are kept, those beyond an end that moves with the level are rejected."""
    results = fitted(kind)
    size, alpha = len(results.params), 0.1
    rows = np.eye(size)
    for method in (one for one in results.inference.methods if one not in ("auto", "simulated", "fiducial")):
        own = results.with_inference(method)
        assert type(own) is type(results)
        assert own.inference.method == method
        pd.testing.assert_series_equal(own.params, results.params)
        pd.testing.assert_series_equal(own.bse, results.bse)
        test = own.t_test(rows)
        np.testing.assert_array_equal(test.pvalue, own.pvalues)
        ends, wider = own.conf_int(alpha).to_numpy(), own.conf_int(alpha / 3).to_numpy()
        np.testing.assert_array_equal(test.conf_int(alpha), ends)
        for place, (side, sign) in ((place, one) for place in range(min(size, 5)) for one in ((0, -1), (1, 1))):
            end, width = ends[place, side], np.diff(ends[place])[0]
            if np.isfinite(width) and width > 0:
                inner, outer = (
                    float(own.t_test((rows[[place]], [end + sign * step * width])).pvalue) for step in (-0.02, 0.02)
                )
                assert inner >= 0.98 * alpha or end == own.params.iloc[place]
                assert outer <= 1.02 * alpha or end == wider[place, side]
    with pytest.raises(OptionError, match="'bayes' is not valid"):
        results.with_inference("bayes")


@each_kind
def test_a_joint_test_of_one_restriction_has_the_p_value_of_its_t_test(kind):
    results = fitted(kind)
    size = len(results.params)
    for method in (one for one in results.inference.methods if one not in ("auto", "exact")):
        own = results.with_inference(method)
        for row in [*np.eye(size)[:3], np.eye(size)[0] - np.eye(size)[-1]]:
            if not row.any():
                continue
            value = float(row @ np.asarray(own.params)) + 0.7 * float(np.sqrt(row @ np.asarray(own.cov_params()) @ row))
            single, joint = own.t_test((row[None], [value])), own.wald_test((row[None], [value]))
            assert float(joint.pvalue) == pytest.approx(float(single.pvalue), rel=1e-9)


def test_a_joint_test_of_a_regression_counts_laplace_noise():
    schema = dpi.Schema(x=dpi.Real(-1, 1), z=dpi.Real(-1, 1), y=dpi.Real(-3, 3))
    rng = np.random.default_rng(1)
    rows = schema.sample(3000, rng).assign(y=lambda one: 0.1 * one["x"] + 0.3 * rng.normal(size=3000))
    found = dpi.ols("y ~ x + z", dpi.PublicData(rows, schema, rng=rng), method="gram").fit(dpi.PureDP(0.3))
    tested = np.asarray(found.params)[1:] + 2.5 * np.asarray(found.bse)[1:]
    statistic, count, pvalue = found.inference.wald(np.eye(3)[1:], tested)
    assert count == 2
    assert pvalue > 1.1 * float(joint_pvalue(statistic, count))  # the tails of Laplace noise are heavier


@each_kind
def test_nothing_of_rows_is_stored(kind):
    release, results = fitted(kind).release, fitted(kind)
    ages = frame()["age"][lambda one: (one % 0.25 != 0) & one.between(10, 100)]
    packed = [pickle.dumps(one) for one in (release, results, results.summary())]
    assert_nothing_is_stored_of(ages, [], packed)
    assert not any(b"DataFrame" in one for one in packed[:1])


# Whatever the noise


@pytest.mark.sweep(3)
@each_kind
@pytest.mark.parametrize("size", [0, -1, 10**12, -(10**18)])
def test_extreme_sums_give_valid_results(kind, size):
    release = fitted(kind).release
    *before, last = release.stages
    count = len(last.values)
    for values in ([size] * count, [size * (-1) ** j for j in range(count)]):
        changed = dataclasses.replace(last, values=tuple(values))
        try:
            results = dataclasses.replace(release, stages=(*before, changed)).infer()
        except InferenceError:  # rounding leaves no covariance of sums that no noise reaches
            assert kind in ("variance", "cov", "corr", "expfam multinormal")
            assert abs(size) >= 10**12
        else:
            sound(results, held=held(kind))


@pytest.mark.sweep(3)
@each_kind
@pytest.mark.parametrize("rows", [0, 300])
def test_huge_noise_gives_valid_results(kind, rows):
    """The numbers are random; whether there is an answer is not."""
    results = ASKED[kind].public(frame().iloc[:rows], seed=rows).fit(ASKED[kind].privacy / 1000)
    sound(results, held=held(kind))
    sound(results.with_inference("unbiased" if kind in RESAMPLED[:3] else "wald"), held=held(kind))


CELL = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | st.text(max_size=4)
CELL |= st.sampled_from(["a", "b", "north", "1", " 2 ", "true", "1e3"])
READ = tuple(kind for kind in KINDS if kind not in (*REGRESSIONS, *RESAMPLED))


@settings(max_examples=60)
@given(st.sampled_from(READ), st.lists(st.tuples(*[CELL] * len(SCHEMA)), max_size=4))
def test_no_cells_can_make_a_fit_fail(kind, rows):
    cells = np.empty((len(rows), len(SCHEMA)), dtype=object)
    for place, row in enumerate(rows):
        cells[place, :] = row
    sound(ASKED[kind].public(pd.DataFrame(cells, columns=list(SCHEMA), dtype=object)).fit(ASKED[kind].privacy))


# Many releases at once


MANY = ("ols", "ols factors", *(one for one in SUMS if one != "histogram"), *FAMILIES)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("kind", MANY)
def test_many_releases_at_once_are_as_one_by_one(kind):
    asked, price = ASKED[kind].public(), ASKED[kind].privacy
    measured = asked.measurement(price)
    releases = [fitted(kind, seed).release for seed in (7, 8, 9)]
    many = Released.of_study(measured, np.stack([one.array for one in releases]))
    more = {"pvalues": True} if asked.procedure == "expfam" and not isinstance(asked.column, tuple) else {}
    for method in ("exact" if kind == "proportion exact" else "auto", "wald"):
        question = dataclasses.replace(asked, inference=method)
        batch = question.estimate(many, alpha=0.1, **more)
        for row, release in enumerate(releases):
            alone = question.infer(release)
            assert batch.names == tuple(alone.params.index)
            np.testing.assert_allclose(batch.params[row], alone.params, rtol=1e-7, atol=1e-9)
            np.testing.assert_allclose(batch.bse[row], alone.bse, rtol=1e-6)
            np.testing.assert_allclose(batch.intervals[row], alone.conf_int(alpha=0.1), rtol=1e-5, atol=1e-7)
            np.testing.assert_allclose(batch.pvalues[row], alone.pvalues, rtol=1e-4, atol=1e-9)
            assert batch.flagged[row] == bool(alone.flags)
        if more:  # studies do not test, since most parameters cannot be zero
            untested = question.estimate(many, alpha=0.1)
            np.testing.assert_array_equal(untested.intervals, batch.intervals)
            assert np.isnan(untested.pvalues).all()
    if "simulated" in fitted(kind).inference.methods:
        with pytest.raises(NotProvedError, match="simulated"):
            dataclasses.replace(asked, inference="simulated").estimate(many)
