"""Log-linear models of released marginals: the cells and noise of one that holds all factors, and what is refused."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import InferenceError, MissingFromReleaseError, NotProvedError, OptionError
from dpinfer.release import NoiseLaw
from dpinfer.statistics.combination import CombinedNoise, added_noise
from tests.asking import assert_damage_is_refused

SCHEMA = dpi.Schema(
    g=dpi.Category(["a", "b", "c"], missing="a", impossible="a"),
    h=dpi.Boolean(missing=False, impossible=False),
    kids=dpi.Integer(0, 3, missing=0, impossible=0),
    age=dpi.Real(0, 80, missing=0, impossible=0),
    s=dpi.Boolean(missing=False, impossible=False),
)
WORKLOAD = [["g", "h", "kids"], ["h", "s"], ["kids", "s", "g"]]
PRICES = {"pure": dpi.PureDP(1.0), "zcdp": dpi.ZCDP(0.1), "gdp": dpi.GDP(0.5), "approx": dpi.ApproxDP(1.0, 1e-6)}
EXACT = {"pure": dpi.PureDP(600.0), "zcdp": dpi.ZCDP(1e12)}


def public(neighbors="add_remove", rows=3000, **person):
    frame = SCHEMA.sample(rows, np.random.default_rng(1)).assign(person=np.arange(rows) // 2)
    return dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(2), neighbors=neighbors, **person)


def released(price=PRICES["zcdp"], workload=WORKLOAD, data=None, **options):
    return dpi.marginals(workload, public() if data is None else data, **options).measure(price)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("price", EXACT.values(), ids=EXACT)
def test_without_noise_it_is_the_model_of_a_table(price, neighbors):
    release = released(price, data=public(neighbors))
    table = dpi.table(["g", "h", "kids"], public(neighbors)).measure(dpi.ZCDP(1e12))
    for formula in ("g * h + kids", "kids + h * g", "C(kids) * h", "g"):
        found, known = dpi.loglinear(formula, release).infer(), dpi.loglinear(formula, table).infer()
        np.testing.assert_allclose(found.params, known.params, atol=1e-6)
        np.testing.assert_allclose(found.bse, known.bse, atol=1e-6)
        np.testing.assert_allclose(found.conf_int(), known.conf_int(), atol=1e-6)
        np.testing.assert_allclose(found.expected_freq, known.expected_freq, atol=1e-4)
        assert found.nobs == pytest.approx(known.nobs, abs=1e-4)
    assert (found.inference.nobs_is_public, known.inference.nobs_is_public) == (neighbors == "replace_one",) * 2


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("price", PRICES.values(), ids=PRICES)
@pytest.mark.parametrize("columns", [["h", "g", "kids"], ["kids", "g"], ["s"]], ids="-".join)
def test_counts_and_covariance_are_those_of_the_marginal(price, neighbors, columns):
    release = released(price, data=public(neighbors))
    marginal = dpi.marginals(WORKLOAD, release).infer().marginal(columns)
    results = dpi.loglinear(" * ".join(columns), release).infer()
    noise = results.inference.model.noise
    known = marginal.inference.cov_noise
    np.testing.assert_allclose(noise.covariance(np.eye(len(known))), known, atol=1e-6 * np.diag(known).max())
    np.testing.assert_allclose(noise.of_counts, np.diag(known), rtol=1e-6)
    np.testing.assert_allclose(results.observed_freq, marginal.inference._value, rtol=1e-9)
    assert noise.is_normal is (price is not PRICES["pure"])
    again = dpi.loglinear(" * ".join(columns), dpi.Release.from_json(release.to_json())).infer()
    np.testing.assert_allclose(again.conf_int(), results.conf_int())


@pytest.mark.parametrize("price", [PRICES["pure"], PRICES["zcdp"]], ids=["pure", "zcdp"])
def test_simulated_noise_has_this_covariance(price):
    noise = dpi.loglinear("g * h", released(price)).infer().inference.model.noise
    drawn = noise.rvs((40_000, 6), np.random.default_rng(3))
    known = noise.covariance(np.eye(6))
    # a sum of squares of 40,000 draws of kurtosis at most 6 has a relative error of .0112; six of them: 6e-9 each
    np.testing.assert_allclose(drawn.var(axis=0) / np.diag(known), 1.0, atol=6 * 0.0112)
    error = np.sqrt((np.outer(np.diag(known), np.diag(known)) * 5 + known**2) / 40_000)
    assert (np.abs(np.cov(drawn.T) - known) < 6 * error).all()


@pytest.mark.parametrize(("together", "normal"), [(1, False), (4, False), (29, False), (30, True), (5000, True)])
def test_added_draws_have_their_variance_and_kurtosis(together, normal):
    law, steps = added_noise(NoiseLaw("laplace", (3.0, 7.0)), np.array([0.5, 2.0]), together)
    one = NoiseLaw("laplace", (3.0, 7.0)).variances * np.array([0.25, 4.0])
    noise = CombinedNoise(((law, steps),))
    np.testing.assert_allclose(noise.variances, together * one)
    assert noise.normal is normal
    assert normal or list(noise.draws) == [together] * 2


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("price", [dpi.PureDP(0.1), dpi.ZCDP(0.001)], ids=["pure", "zcdp"])
def test_z_scores_of_releases_have_variance_one(price, neighbors):
    rng, schema = np.random.default_rng(11), dpi.Schema(
        g=dpi.Boolean(missing=False, impossible=False),
        h=dpi.Boolean(missing=False, impossible=False),
        s=dpi.Boolean(missing=False, impossible=False),
    )  # fmt: skip
    asked = dpi.marginals([["g", "h"], ["h", "s"]])
    truth, scores = float(np.log(0.7 / 0.3)), []
    for _ in range(400):
        g = rng.random(2000) < 0.4
        h, s = rng.random(2000) < np.where(g, 0.5, 0.3), rng.random(2000) < 0.5
        frame = pd.DataFrame({"g": g, "h": h, "s": s})
        release = asked.bind(dpi.PublicData(frame, schema, rng=rng, neighbors=neighbors)).measure(price)
        found = dpi.loglinear("g * h", release).infer()
        place = found.params.index.get_loc("g:h")
        scores.append((found.params.iloc[place] - truth) / found.bse.iloc[place])
    # 400 squares of normal scores: false alarm 2e-7 in both tails together; noise is over a quarter of the variance
    assert (found.bse_noise > 0.6 * found.bse_sampling)["g:h"]
    low, high = stats.chi2.ppf([1e-7, 1 - 1e-7], 400) / 400
    assert low < np.mean(np.square(scores)) < high
    assert abs(np.mean(scores)) < 5.2 / 20


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("price", [PRICES["pure"], PRICES["zcdp"]], ids=["pure", "zcdp"])
def test_all_that_results_offer_works_from_it(price, neighbors):
    release = released(price, data=public(neighbors))
    results = dpi.loglinear("g * h + kids", release).infer()
    assert results.params.notna().all()
    assert results.expected_freq.sum() == pytest.approx(results.nobs, rel=1e-6)
    single, joint = results.residuals(), results.residuals(simultaneous=True)
    assert (joint.iloc[:, -1] - joint.iloc[:, -2] >= single.iloc[:, -1] - single.iloc[:, -2]).all()
    ratios, wide = results.odds_ratios(), results.odds_ratios(simultaneous=True)
    assert (wide.iloc[:, -1] >= ratios.iloc[:, -1]).all()
    assert ((ratios.iloc[:, -2] < ratios["odds ratio"]) & (ratios["odds ratio"] < ratios.iloc[:, -1])).all()
    for test in (results.goodness_of_fit(draws=199), results.compare_lm_test("g + h + kids", draws=199)):
        assert 1 / 200 <= test.pvalue <= 1
        assert test.dof > 0
    assert "marginals" in results.release.to_json()
    assert "Private" in results.summary().as_text()
    for draw in (results.plot, results.plot_odds_ratios):
        assert draw().has_data()
        plt.close("all")
    excluded = dpi.loglinear("g + h", release, exclude="(g == 'c') & h").infer()
    assert excluded.expected_freq["c", True] == 0
    noise_alone = dpi.loglinear("g * h", release, target="data").infer()
    assert not noise_alone.bse_sampling.any()


def test_the_test_of_fit_finds_what_the_marginal_holds():
    rng = np.random.default_rng(4)
    g = rng.choice(["a", "b", "c"], 3000)
    frame = SCHEMA.sample(3000, rng).assign(g=g, h=rng.random(3000) < np.where(g == "a", 0.2, 0.8))
    release = released(data=dpi.PublicData(frame, SCHEMA, rng=rng))
    assert dpi.loglinear("g + h", release).infer().goodness_of_fit(draws=199).pvalue == pytest.approx(1 / 200)
    with_both = dpi.loglinear("g * h", release).infer()
    assert with_both.compare_lm_test("g + h", draws=199).pvalue == pytest.approx(1 / 200)


def test_factors_that_no_marginal_holds_are_refused_by_name():
    release = released(workload=[["g", "h"], ["h", "kids"], ["g", "kids"]])
    told = r"holds 'g', 'h', 'kids' together; it has g x h; h x kids; g x kids.*dpi\.table\(\['g', 'h', 'kids'\]\)"
    with pytest.raises(MissingFromReleaseError, match=told):
        dpi.loglinear("g * h + kids", release).infer()
    with pytest.raises(MissingFromReleaseError, match="no s; its columns are g, h, kids"):
        dpi.loglinear("g * s", release).infer()
    assert dpi.loglinear("g * kids", release).infer().params.size == 6


def test_other_rows_and_other_bins_are_refused():
    bins, other = {"age": [0, 40, 80], "kids": [0, 1.5, 3]}, {"kids": [0, 1.5, 3]}
    release = released(workload=[["age", "g"], ["kids", "g", "h"], ["g", "age >= 18"]], bins=bins, where="s")
    for formula, given in (("age * g", None), ("kids + h", other), ("g * `age >= 18`", None)):
        assert dpi.loglinear(formula, release, where="s", bins=given).infer().nobs > 0
    assert dpi.loglinear("age + kids", release, where="s", bins=bins).source is release
    table = dpi.table(["kids", "g"], public()).measure(PRICES["zcdp"])
    told = r"^bins=.*bins of the release: "
    for error, match, formula, source, options in (
        (InferenceError, "another question", "g", release, {}),
        (InferenceError, "another question", "g", release, {"where": "h"}),
        (OptionError, told + r"\[0\.0, 40\.0, 80\.0\]", "age", release, {"where": "s", "bins": {"age": [0, 30, 80]}}),
        (OptionError, r"^bins=None.*it has no levels", "kids", release, {"where": "s"}),
        (OptionError, told + "None", "kids", released(), {"bins": other}),
        (OptionError, told + "None", "kids", table, {"bins": other}),
    ):
        with pytest.raises(error, match=match):
            dpi.loglinear(formula, source, **options).infer()


def test_people_are_refused_for_a_population():
    release = released(data=public(id="person", max_rows=2))
    with pytest.raises(NotProvedError, match='target="data"'):
        dpi.loglinear("g * h", release).infer()
    found = dpi.loglinear("g * h", release, target="data").infer()
    assert (found.bse_noise > 0).all()
    assert not found.bse_sampling.any()


def test_too_many_cells_and_damaged_laws_are_refused():
    schema = dpi.Schema(a=dpi.Integer(0, 79), b=dpi.Integer(0, 79))
    data = dpi.PublicData(schema.sample(100, np.random.default_rng(1)), schema, rng=np.random.default_rng(1))
    release = dpi.marginals([["a", "b"]], data).measure(PRICES["zcdp"])
    with pytest.raises(OptionError, match="6,400 cells"):
        dpi.loglinear("a + b", release).infer()
    assert dpi.loglinear("a", release).infer().params.size == 2
    assert_damage_is_refused(released(), {"/stages.0.law.family": ["discrete laplace"]})
