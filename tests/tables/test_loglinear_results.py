"""Results of log-linear models: odds ratios, cells, residuals, tests of the model, what is not determined."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import dpinfer as dpi
from dpinfer.errors import OptionError, UnknownColumnError

SCHEMA = dpi.Schema(
    g=dpi.Category(["a", "b", "c"]), h=dpi.Category(["x", "y"]), s=dpi.Boolean(), rare=dpi.Category(["u", "v"])
)
RNG = np.random.default_rng(3)
ROWS = SCHEMA.sample(4000, RNG)
ROWS["h"] = np.where(RNG.random(4000) < np.where(ROWS["g"] == "b", 0.7, 0.4), "y", "x")
ROWS["rare"] = "u"


def fitted(formula="g * h + s", rho=0.1, **options):
    data = dpi.PublicData(ROWS, SCHEMA, rng=np.random.default_rng(4))
    return dpi.loglinear(formula, data, **options).fit(dpi.ZCDP(rho))


def test_without_noise_odds_ratios_are_those_of_the_table():
    results = fitted("g * h", 1e12, inference="wald", cov_type="nonrobust")
    found = results.odds_ratios()
    assert list(found.index) == ["g=b:h=y", "g=c:h=y"]
    table = pd.crosstab(ROWS["g"], ROWS["h"])
    for level in "bc":
        known = sm.stats.Table2x2(table.loc[["a", level]].to_numpy())
        row = found.loc[f"g={level}:h=y"]
        assert row["odds ratio"] == pytest.approx(known.oddsratio, rel=1e-4)
        np.testing.assert_allclose(row.iloc[-2:].to_numpy(dtype=float), known.oddsratio_confint(), rtol=1e-4)
        assert row["P>|z|"] == pytest.approx(known.oddsratio_pvalue(), abs=1e-4)


def test_odds_ratios_do_not_depend_on_the_coding():
    data = dpi.PublicData(ROWS, SCHEMA, rng=np.random.default_rng(4))
    table = dpi.table(["g", "h"], data).measure(dpi.ZCDP(0.1))
    one, other = (dpi.loglinear(f, table).infer().odds_ratios() for f in ("g * h", "C(g, Sum) * C(h, Helmert)"))
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-9)


def test_odds_ratios_at_levels_of_a_third_factor():
    results = fitted("g * h * s")
    first, second = results.odds_ratios(), results.odds_ratios(at={"s": True})
    assert first.loc["g=b:h=y", "odds ratio"] != pytest.approx(second.loc["g=b:h=y", "odds ratio"], rel=1e-3)
    names = results.params.index
    ratio = (
        results.params["g[T.b]:h[T.y]"] + results.params[[n for n in names if n.startswith("g[T.b]:h[T.y]:s")]].sum()
    )
    assert second.loc["g=b:h=y", "log odds ratio"] == pytest.approx(ratio)
    for wrong in ({"s": 7}, {"q": 1}):
        with pytest.raises(OptionError, match=r"^at="):
            results.odds_ratios(at=wrong)


def test_together_intervals_are_wider():
    results = fitted()
    for one in (results.odds_ratios, results.residuals):
        single, joint = one(), one(simultaneous=True)
        assert (joint.iloc[:, -1] >= single.iloc[:, -1]).all()
        assert (joint.iloc[:, -1] > single.iloc[:, -1]).any()
        with pytest.raises(OptionError, match=r"^simultaneous="):
            one(simultaneous="yes")
    single, joint = results.conf_int(), results.conf_int(simultaneous=True)
    assert ((joint[0] < single[0]) & (joint[1] > single[1])).all()
    pd.testing.assert_frame_equal(results.conf_int(cols=[1], simultaneous=True), single.iloc[[1]])
    test = results.t_test("h[T.y] = 0, s = 0")
    assert (test.conf_int(simultaneous=True)[:, 1] > test.conf_int()[:, 1]).all()
    with pytest.raises(OptionError, match=r"^simultaneous="):
        results.conf_int(simultaneous=3)


def test_residuals_have_the_errors_of_differences():
    results = fitted()
    frame = results.residuals()
    np.testing.assert_allclose(frame["difference"], frame["observed"] - frame["expected"])
    assert (frame["std err (noise)"] < frame["std err"]).all()
    assert (frame.iloc[:, -2] < frame["difference"]).all()
    saturated = fitted("g * h").residuals()
    assert saturated["std err"].isna().all()
    np.testing.assert_allclose(saturated["difference"], 0, atol=1e-8)


def test_without_noise_residuals_are_adjusted_ones():
    """Those of Haberman: under independence (observed - expected) / sqrt(expected (1 - row) (1 - column))."""
    results = fitted("g + h", 1e12, cov_type="nonrobust")
    table = pd.crosstab(ROWS["g"], ROWS["h"])
    known = sm.stats.Table(table).standardized_resids.stack()  # noqa: PD013  (cells in a row)
    np.testing.assert_allclose(results.residuals()["residual"], known, rtol=1e-4)


def test_the_model_and_a_smaller_one_are_tested():
    results = fitted("g * h + s")
    test = results.compare_lm_test("g + h + s", draws=199)
    assert test.pvalue == pytest.approx(1 / 200)
    assert test.dof == 2
    assert {"observed", "expected"} == set(test.frame().columns)
    assert "score test" in test.summary().as_text()
    assert results.goodness_of_fit(draws=199).pvalue > 1e-3
    other = dpi.loglinear("g + h + s", results.release).infer()
    assert results.compare_lm_test(other, draws=199).statistic == test.statistic
    statistic, pvalue = test
    assert (statistic, pvalue) == (test.statistic, test.pvalue)


def test_what_cannot_be_compared_is_refused():
    results = fitted("g * h + s")
    for wrong in ("g * h + s", "g * h * s", "g * s", 3, fitted("g + h + s", rho=0.2)):
        with pytest.raises(OptionError, match=r"^restricted="):
            results.compare_lm_test(wrong)
    with pytest.raises(UnknownColumnError):
        results.compare_lm_test("g + q")
    with pytest.raises(OptionError, match=r"^draws="):
        results.compare_lm_test("g + h + s", draws=3)
    with pytest.raises(OptionError, match=r"^formula=.*fewer coefficients than cells"):
        fitted("g * h").goodness_of_fit()


def test_what_is_not_determined_is_named():
    data = dpi.PublicData(ROWS, SCHEMA, rng=np.random.default_rng(10))
    results = dpi.loglinear("g + rare", data).fit(dpi.ZCDP(0.005))
    assert results.params.isna().tolist() == [False, False, False, True]
    assert results.bse.isna().tolist() == [False, False, False, True]
    assert "not determined: rare[T.v]" in results.flags[0]
    ends = results.conf_int()
    assert ends.loc["rare[T.v]", 0] == -np.inf
    assert np.isfinite(ends.loc["rare[T.v]", 1])
    assert ends.loc["rare[T.v]", 1] < 0
    assert results.pvalues["rare[T.v]"] < 1e-6
    assert np.isnan(results.expected_freq["a", "v"])
    assert np.isfinite(ends.drop("rare[T.v]")).all(axis=None)
    wald = results.with_inference("wald").conf_int()
    assert np.isinf(wald.loc["rare[T.v]"]).all()
    shown = results.summary().as_text()
    assert "not determined" in shown
    joint = results.conf_int(simultaneous=True)
    assert joint.loc["rare[T.v]", 0] == -np.inf
    assert results.residuals().loc[("a", "v")].isna().sum() >= 5
    assert results.wald_test("g[T.b] = 0, rare[T.v] = 0").pvalue <= 1
    saturated = dpi.loglinear("g * rare", results.release).infer()
    assert saturated.odds_ratios()["odds ratio"].isna().any()


def test_results_are_inferred_otherwise():
    results = fitted()
    wald = results.with_inference("wald")
    assert wald.inference.method == "wald"
    assert wald.odds_ratios().columns[5] == "P>|z|"
    pd.testing.assert_series_equal(wald.params, results.params)
    assert "log-linear" in repr(results)


def test_expected_counts_are_predictions():
    results = fitted("g * h + s")
    points = results.expected_freq.index.to_frame(index=False)
    np.testing.assert_allclose(results.predict(points), results.expected_freq, rtol=1e-9)


@pytest.mark.parametrize("method", ["plot", "plot_odds_ratios"])
def test_coefficients_and_odds_ratios_are_drawn(method):
    results = fitted("g * h")
    ax = getattr(results, method)()
    assert len(ax.get_yticklabels()) == (2 if method == "plot_odds_ratios" else 5)


@pytest.mark.parametrize("inference", ["score", "wald"])
@pytest.mark.parametrize(
    ("price", "neighbors"),
    [(dpi.ZCDP(1e-6), "add_remove"), (dpi.PureDP(1e-3), "replace_one"), (dpi.ZCDP(0.5), "replace_one")],
    ids=str,
)
def test_joint_tests_of_tables_that_are_noise_do_not_raise(neighbors, price, inference):
    """A hypothesis without a fit has no covariance, and one of all coefficients leaves none to fit."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        data = dpi.PublicData(SCHEMA.sample(5, rng), SCHEMA, rng=rng, neighbors=neighbors)
        for target in ("population", "data"):
            results = dpi.loglinear("g * h", data, inference=inference, target=target).fit(price)
            rows = np.eye(len(results.params))
            for some in (rows[:1], rows[1:3], rows[1:], rows):
                test = results.wald_test(some, scalar=True)
                assert 0 <= float(test.pvalue) <= 1
            assert len(results.wald_test_terms().table) == 4


def test_a_hypothesis_on_all_coefficients_is_tested():
    results = fitted("g + h")
    rows = np.eye(len(results.params))
    assert float(results.wald_test((rows, results.params.to_numpy()), scalar=True).pvalue) > 0.99
    assert float(results.wald_test(rows, scalar=True).pvalue) < 1e-6
