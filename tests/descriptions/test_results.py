"""Results of descriptions: pandas and statsmodels without noise, and what one release serves."""

import dataclasses
import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

import dpinfer as dpi
from dpinfer.errors import InferenceError, MissingFromReleaseError, OptionError
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.results.descriptions import TableResults
from dpinfer.statistics.inference import Released
from tests.asking import assert_damage_is_refused
from tests.linear import gram_ols

SCHEMA = dpi.Schema(
    x=dpi.Real(-10, 10, missing=0, impossible=0),
    y=dpi.Real(-10, 10, missing=0, impossible=0),
    b=dpi.Boolean(missing=False, impossible=False),
    g=dpi.Category(["a", "b", "c"], missing="a", impossible="a"),
    k=dpi.Integer(0, 9, missing=0, impossible=0),
    w=dpi.Real(0, 3, missing=0, impossible=0),
)
QUIET = dpi.ZCDP(1e11)
"""A price at which noise is hardly there; what remains is the grid."""


def sample(rows=240, seed=1):
    rng = np.random.default_rng(seed)
    frame = SCHEMA.sample(rows, rng)
    frame["x"] = rng.normal(1, 2, rows).clip(-9, 9)
    frame["y"] = (0.5 * frame["x"] + rng.normal(0, 2, rows)).clip(-9, 9)
    return frame


FRAME = sample()


def quiet(procedure, frame=FRAME, neighbors="add_remove", price=QUIET):
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(2), neighbors=neighbors)
    return procedure.bind(data).fit(price)


close = {"rtol": 2e-4, "atol": 2e-5}


def same(found, expected, **options):
    np.testing.assert_allclose(np.asarray(found, dtype=float), np.asarray(expected, dtype=float), **(close | options))


# Without noise


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("rows", [5, 12, 240])
def test_a_mean_is_that_of_numpy_with_the_t_interval(rows, neighbors):
    frame = sample(rows, seed=rows)
    results = quiet(dpi.mean(["x", "y"]), frame, neighbors)
    stat = DescrStatsW(frame[["x", "y"]])
    same(results.params, stat.mean)
    same(results.bse, stat.std_mean)
    for alpha in (0.05, 0.4):
        expected = np.array(stat.tconfint_mean(alpha)).T
        same(results.conf_int(alpha), expected)
        same(results.with_inference("wald").conf_int(alpha), expected)
    same(results.pvalues, stat.ttest_mean(0)[1], rtol=1e-2)
    same(results.sizes, [rows, rows])
    covariance = np.cov(frame[["x", "y"]].T) / rows
    same(results.cov_params(), covariance, atol=1e-4)


@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_group_means_are_those_of_pandas(neighbors):
    results = quiet(dpi.mean(["x", "y"], by=["g", "b"]), neighbors=neighbors)
    grouped = FRAME.groupby(["g", "b"])[["x", "y"]]
    same(results.params, grouped.mean().to_numpy().ravel())
    same(results.bse, grouped.sem().to_numpy().ravel())
    assert results.index.names == ["g", "b", "quantity"]
    assert results.index[1] == ("a", False, "y")
    frame = results.summary_frame()
    assert frame.index.equals(results.index)
    same(frame["count"], np.repeat(grouped.size(), 2))


def test_a_condition_keeps_some_rows_and_clamps_values():
    frame = FRAME.assign(x=FRAME["x"] * 4)
    results = quiet(dpi.mean("x", by="y > 0", where="k >= 3 and b"), frame)
    kept = frame[(frame["k"] >= 3) & frame["b"]]
    expected = kept["x"].clip(-10, 10).groupby(kept["y"] > 0)
    same(results.params, expected.mean())
    same(results.bse, expected.sem())
    assert any("clamped" in note for note in results.notes)


def test_a_weighted_mean_and_its_linearised_error():
    results = quiet(dpi.mean(["x"], by="b", weights="w"))
    for value, part in FRAME.groupby("b"):
        stat = DescrStatsW(part["x"], part["w"])
        place = int(value)
        same(results.params.iloc[place], stat.mean)
        away = part["w"] * (part["x"] - stat.mean)
        same(results.bse.iloc[place], np.sqrt((away**2).sum()) / part["w"].sum())
    same(results.sizes, FRAME.groupby("b")["w"].sum())


@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_second_moments_are_those_of_pandas(neighbors):
    data = FRAME[["x", "y"]]
    same(quiet(dpi.variance(["x", "y"]), neighbors=neighbors).params, data.var(), rtol=5e-4)
    same(quiet(dpi.variance("x", target="data"), neighbors=neighbors).params, [data["x"].var(ddof=0)], rtol=5e-4)
    same(quiet(dpi.variance("x", by="g"), neighbors=neighbors).params, FRAME.groupby("g")["x"].var(), rtol=5e-4)
    cov = data.cov().to_numpy()[np.triu_indices(2)]
    same(quiet(dpi.cov(["x", "y"]), neighbors=neighbors).params, cov, rtol=1e-3, atol=1e-3)
    corr = quiet(dpi.corr(["x", "y"]), neighbors=neighbors)
    same(corr.params, [data["x"].corr(data["y"])], rtol=1e-3)
    assert list(corr.params.index) == ["corr(x, y)"]


def test_the_error_of_a_variance_comes_from_fourth_powers():
    centred = FRAME["x"] - FRAME["x"].mean()
    expected = np.sqrt(((centred**4).mean() - (centred**2).mean() ** 2) / len(FRAME))
    same(quiet(dpi.variance("x")).bse, [expected], rtol=0.01)
    product = centred * (FRAME["y"] - FRAME["y"].mean())
    same(quiet(dpi.cov(["x", "y"])).bse.iloc[1], product.std() / np.sqrt(len(FRAME)), rtol=0.01)


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("rows", [6, 240])
def test_a_share_has_the_interval_of_wilson(rows, neighbors):
    frame = sample(rows, seed=3)
    results = quiet(dpi.proportion("b"), frame, neighbors)
    successes = int(frame["b"].sum())
    same(results.params, [successes / rows])
    for alpha in (0.05, 0.2):
        same(results.conf_int(alpha).iloc[0], proportion_confint(successes, rows, alpha, "wilson"), rtol=1e-3)


def test_shares_of_levels_by_group():
    results = quiet(dpi.proportion("g", by="b"))
    expected = pd.crosstab(FRAME["b"], FRAME["g"], normalize="index")
    same(results.params, expected.to_numpy().ravel())
    assert results.params.index[1] == "g=b[b=False]"
    for value, part in FRAME.groupby("b"):
        wilson = proportion_confint((part["g"] == "c").sum(), len(part), method="wilson")
        same(results.conf_int().loc[f"g=c[b={value}]"], wilson, rtol=1e-3)


def test_totals():
    results = quiet(dpi.total(["x", "k"], by="b"))
    same(results.params, FRAME.groupby("b")[["x", "k"]].sum().to_numpy().ravel(), atol=1e-2)
    assert (results.bse_sampling == 0).all()
    weighted = quiet(dpi.total("x", weights="w", target="population"))
    product = FRAME["x"] * FRAME["w"]
    same(weighted.params, [product.sum()], atol=1e-2)
    same(weighted.bse, [np.sqrt((product**2).sum())])
    fixed = quiet(dpi.total("x", target="population"), neighbors="replace_one")
    same(fixed.bse, [np.sqrt(len(FRAME)) * FRAME["x"].std(ddof=0)])


def test_counts_tables_and_histograms():
    same(quiet(dpi.count(where="x > 0")).params, [(FRAME["x"] > 0).sum()])
    table = quiet(dpi.table(["g", "k"]))
    expected = pd.crosstab(FRAME["g"], FRAME["k"])
    assert isinstance(table, TableResults)
    same(table.frame(), expected)
    assert table.frame().index.name == "g"
    assert list(table.frame().columns) == list(range(10))
    histogram = quiet(dpi.histogram("x", bins=[-10, -1, 0, 0.5, 8], by="b"))
    for value, part in FRAME.groupby("b"):
        same(histogram.frame().loc[value], np.histogram(part["x"], [-10, -1, 0, 0.5, 8])[0])
    assert list(histogram.frame().columns) == ["[-10, -1)", "[-1, 0)", "[0, 0.5)", "[0.5, 8]"]
    assert list(quiet(dpi.table(["k", "g", "b"])).frame().index) == [(k, g) for k in range(10) for g in "abc"]
    same(quiet(dpi.histogram("x", bins=7, bounds=(-10, 10))).params, np.histogram(FRAME["x"], 7, range=(-10, 10))[0])
    same(quiet(dpi.count(weights="w")).params, [FRAME["w"].sum()], rtol=1e-3)


def test_a_difference_between_groups_is_welchs_test():
    results = quiet(dpi.mean("x", by="b"))
    first, second = (FRAME.loc[FRAME["b"] == value, "x"] for value in (False, True))
    difference = np.array([[1.0, -1.0]])
    found = results.t_test(difference)
    welch = stats.ttest_ind(first, second, equal_var=False)
    same(found.effect, [first.mean() - second.mean()])
    same(found.tvalue, [[welch.statistic]], rtol=2e-3)
    same(found.pvalue, welch.pvalue, rtol=2e-3)
    same(found.conf_int()[0], welch.confidence_interval(), rtol=2e-3)
    one = sm.stats.anova_oneway([FRAME.loc[FRAME["g"] == level, "x"] for level in "abc"], use_var="unequal")
    joint = quiet(dpi.mean("x", by="g")).wald_test(np.array([[1.0, -1, 0], [0, 1, -1]]))
    assert joint.pvalue == pytest.approx(one.pvalue, rel=0.2)


# With noise

NOISY = dpi.ZCDP(0.02)


def noisy(procedure, seed=5, neighbors="add_remove", price=NOISY, frame=FRAME):
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(seed), neighbors=neighbors)
    return procedure.bind(data).fit(price)


def test_the_target_data_has_no_sampling_error():
    for procedure in (
        dpi.mean("x", by="g", target="data"),
        dpi.variance("x", target="data"),
        dpi.cov(["x", "y"], target="data"),
        dpi.corr(["x", "y"], target="data"),
        dpi.proportion("g", target="data"),
        dpi.total("x"),
        dpi.table("g"),
    ):
        results = noisy(procedure)
        assert (results.bse_sampling == 0).all()
        assert np.allclose(results.noise_share, 1)
    whole = dpi.mean("x").measurement(NOISY, schema=SCHEMA)
    less = dpi.mean("x", target="data").measurement(NOISY, schema=SCHEMA)
    assert len(less.names) < len(whole.names)


def test_a_release_for_the_data_does_not_serve_the_population():
    results = noisy(dpi.mean("x", target="data"))
    with pytest.raises(InferenceError, match='target="population"'):
        results.release.infer(target="population")
    both = noisy(dpi.mean("x"))
    data = both.release.infer(target="data")
    assert (data.bse < both.bse).all()
    assert np.allclose(data.bse, both.bse_noise)
    table = noisy(dpi.table("g"))
    assert (table.release.infer(target="population").bse > table.bse).all()


@pytest.mark.parametrize("price", [dpi.ZCDP(0.05), dpi.PureDP(1.0)], ids=str)
def test_margins_are_sums_with_the_noise_of_all_their_cells(price):
    table = noisy(dpi.table(["g", "b", "k"]), price=price)
    cells = table.estimates
    for names in (("g",), ("b", "k"), ("k", "g"), ("k", "b", "g"), ()):
        margin = table.margin(*names)
        summed = cells.groupby(level=list(names), sort=False).sum() if names else pd.Series([cells.sum()])
        raw = pd.Series(table.release.array, index=cells.index)
        exact = raw.groupby(level=list(names)).sum() if names else pd.Series([raw.sum()])
        expected = exact.reindex(margin.index) if names else exact
        np.testing.assert_allclose(margin.params, np.maximum(expected, 0), rtol=1e-9, atol=1e-9)
        assert len(summed) == len(margin.params)
        together = cells.size / len(margin.params)
        np.testing.assert_allclose(margin.bse**2, together * table.bse.iloc[0] ** 2, rtol=1e-9)
    with pytest.raises(MissingFromReleaseError, match="'x'"):
        table.margin("x")
    with pytest.raises(MissingFromReleaseError, match="each once"):
        table.margin("g", "g")


def test_shares_of_a_table_are_those_of_a_direct_release_in_expectation():
    """Mean and variance over 200 releases: the mean within five standard errors, false alarm 1e-6."""
    table = noisy(dpi.table(["g", "b", "k"]), price=dpi.ZCDP(0.3))
    direct = quiet(dpi.proportion("g", by="b"))
    shares = table.proportions("g", by=["b"])
    assert list(shares.params.index) == list(direct.params.index)
    assert shares.model_name == "Private proportion"
    pd.testing.assert_series_equal(table.proportions("g", "b").params, shares.params)  # one group is a text, too
    with pytest.raises(OptionError, match="a list of columns"):
        table.proportions("g", [direct.params])
    rng = np.random.default_rng(8)
    base = quiet(dpi.table(["g", "b", "k"])).release
    drawn, told = [], []
    for _ in range(200):
        noise = table.release.law.rvs(1, rng)[0] * np.array(table.release.steps)
        values = tuple(round(v) for v in (base.array + noise) / np.array(table.release.steps))
        stage = dataclasses.replace(table.release.stages[0], values=values)
        release = dataclasses.replace(table.release, stages=(stage,))
        one = dpi.proportion("g", release, by="b").infer()
        drawn.append(one.params.to_numpy())
        told.append(one.bse_noise.to_numpy() ** 2)
    drawn = np.array(drawn)
    error = drawn.std(axis=0) / 200**0.5
    assert (np.abs(drawn.mean(axis=0) - direct.params.to_numpy()) < 5 * error + 2e-3).all()
    np.testing.assert_allclose(drawn.var(axis=0), np.mean(told, axis=0), rtol=0.6)


@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_estimates_and_their_noise_add_up(neighbors):
    """Over 300 releases of the same data the spread is the stated noise: each ratio within .3 (six sigma)."""
    for procedure in (dpi.mean(["x", "y"]), dpi.total("x", by="b"), dpi.variance("x"), dpi.table("g")):
        data = dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(3), neighbors=neighbors)
        asked = procedure.bind(data)
        measured = asked.measurement(dpi.ZCDP(0.5))
        exact = quiet(procedure, neighbors=neighbors, price=dpi.ZCDP(1e11))
        first = asked.measure(dpi.ZCDP(0.5))
        base = np.array(exact.release.array)
        noise = measured.law.rvs(300, np.random.default_rng(9)) * np.array(measured.steps)
        batch = asked.estimate(Released.of_study(measured, base + noise))
        alone = asked.infer(first)
        ratio = batch.params.std(axis=0) / alone.bse_noise.to_numpy()
        assert (np.abs(ratio - 1) < 0.3).all(), procedure
        assert (np.abs(batch.params.mean(axis=0) - exact.params) < 6 * batch.params.std(axis=0) / 300**0.5 + 1e-2).all()


# Storage

AXES = [[], [{}], ["g"], [{"column": "b"}], [{"column": "nope"}], [{"column": ["g"]}], None]
EDGES = [{"column": "x", "edges": edges} for edges in (["a", "b"], [[0], [1]], 3, [5, 1])]
WORSE = {
    "columns": [["y"], "x", [3], ["x", "x"], ["nope"], ["log(x)"], []],
    "axes": [*AXES, *([axis] for axis in (*EDGES, {"condition": "x + 1"}, {"condition": None}))],
    "where": [3, "x +", "1 == 1"],
    "weights": [3, "w", "y"],
    "target": ["sample", "data"],
    "kind": ["total", "spread"],
    "draws": [0, "one"],
    "inference": ["bayes"],
    "replicates": [3, None],
    "seed": [-1],
}


def test_a_damaged_question_is_refused():
    assert_damage_is_refused(noisy(dpi.mean("x", by="g")).release, WORSE)


def test_a_release_of_something_else_is_refused():
    mean = noisy(dpi.mean("x")).release
    for asked in (dpi.table("g"), dpi.count(by="g"), dpi.proportion("g"), dpi.total("x"), dpi.mean("x", where="b")):
        with pytest.raises(InferenceError, match="another question"):
            asked.infer(mean)
    gram = noisy(gram_ols("y ~ x")).release
    for asked in (dpi.mean("x"), dpi.table("g")):
        with pytest.raises(InferenceError, match="another question"):
            asked.infer(gram)
    table = noisy(dpi.table("g", where="b")).release
    for asked in (dpi.count(by="g"), dpi.proportion("g")):
        with pytest.raises(InferenceError, match="another question"):
            asked.infer(table)
    with pytest.raises(OptionError, match="target"):
        mean.infer(target="sample")
    with pytest.raises(OptionError, match="inference"):
        mean.infer(inference="bayes")


def test_counts_and_shares_are_read_from_any_table_of_the_same_rows():
    for made in (dpi.table(["g", "b"]), dpi.proportion("g", by="b"), dpi.histogram("x", bins=[-10, 10], by=["g", "b"])):
        release = dpi.Release.from_json(noisy(made).release.to_json())
        margin = dpi.count(release, by="g").infer()
        np.testing.assert_allclose(margin.params.sum(), release.array.sum())
        np.testing.assert_allclose(dpi.proportion("g", release).infer().params, margin.params / margin.params.sum())
        with pytest.raises(MissingFromReleaseError, match="'k'"):
            dpi.count(release, by="k").infer()


def test_the_share_of_truth_is_read_from_its_mean():
    release = noisy(dpi.mean("b", by="g")).release
    shares = dpi.proportion("b", release, by="g").infer()
    pd.testing.assert_series_equal(shares.params, release.infer().params)
    with pytest.raises(InferenceError, match="another question"):
        dpi.proportion("b", release).infer()


def test_a_table_answers_after_another_inference_and_from_a_pickle():
    results = noisy(dpi.table(["g", "b"], inference="score"))
    for found in (results.with_inference("wald"), pickle.loads(pickle.dumps(results.with_inference("wald")))):
        assert found.margin("g").inference.method == "wald"
        assert found.proportions("g").inference.method == "wald"
        pd.testing.assert_series_equal(found.margin("g").params, results.margin("g").params)
    pd.testing.assert_series_equal(results.margin("g").margin("b").params, results.margin("b").params)


# What is shown


def test_small_groups_and_edges_are_flagged():
    few = FRAME.assign(g="a")
    results = noisy(dpi.mean("x", by="g"), frame=few, price=dpi.ZCDP(0.5))
    assert any("g=b; g=c" in flag and "2 of 3 groups" in flag for flag in results.flags)
    assert "may be empty" in str(results.summary())
    ends = results.conf_int()
    assert ends.loc["x[g=b]"].tolist() == [-10, 10]
    zero = noisy(dpi.variance("x"), frame=FRAME.assign(x=3.0), price=dpi.ZCDP(0.5))
    assert zero.conf_int()[0].iloc[0] == 0
    assert quiet(dpi.mean("x")).flags == ()


def test_tables_and_figures_show_the_estimates():
    results = noisy(dpi.mean(["x", "y"], by="g"))
    frame = results.summary_frame(alpha=0.1)
    errors = ["std err", "std err (sampling)", "std err (noise)"]
    assert list(frame.columns) == ["mean", *errors, "[0.05", "0.95]", "noise share", "count"]
    np.testing.assert_allclose(frame["std err"] ** 2, frame["std err (sampling)"] ** 2 + frame["std err (noise)"] ** 2)
    text = str(results.summary())
    assert "Private mean of x, y" in text
    assert "x[g=a]" in text
    assert "x[g=a]" in results.summary().as_html()
    assert repr(results) == "<DescriptionResults: Private mean of x, y, 6 estimates>"
    axes = results.plot()
    assert axes.get_xlabel() == "mean of x, y"
    with pytest.raises(OptionError, match="xname"):
        results.summary(xname=["too", "few"])
    with pytest.raises(OptionError, match="alpha"):
        results.summary_frame(alpha=5)


def test_several_hundred_bins_are_shown_in_a_moment():
    results = noisy(dpi.histogram("x", bins=400, bounds=(-10, 10)))
    assert len(results.summary_frame()) == 400
    one = results.inference.intervals(np.eye(400)[:3], 0.05)
    np.testing.assert_allclose(one, results.conf_int().iloc[:3])
    together = results.inference.intervals(np.ones((1, 400)), 0.05)[0]
    middle, half = results.params.sum(), stats.norm.isf(0.025) * np.sqrt((results.bse**2).sum())
    np.testing.assert_allclose(together, [middle - half, middle + half], rtol=1e-6)
