"""Inference where people have several rows: errors by person, bounds on how alike rows can be, refusals by name."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dpinfer as dpi
from dpinfer.descriptions.binomial import binomtest
from dpinfer.descriptions.mean_tests import f_oneway, ttest_1samp, ttest_ind, ttest_rel
from dpinfer.errors import InferenceError, NotProvedError, SchemaError
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.procedures.combine import combine
from dpinfer.release import Release
from dpinfer.statistics.inference import Released
from dpinfer.studies import truncation
from tests.linear import gram_ols

SCHEMA = dpi.Schema(
    x=dpi.Real(0, 10),
    y=dpi.Real(0, 10),
    b=dpi.Boolean(missing=False, impossible=False),
    g=dpi.Category(["a", "b", "c"]),
    w=dpi.Real(0, 2),
)
ALMOST_NOISELESS = dpi.ZCDP(1e7)
MOST = 3


def clustered(people=3000, seed=0):
    """Rows of people who are much alike: from 1 to 6 each."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(people), rng.integers(1, 7, people))
    own = rng.normal(5, 2, people)[ids]
    return pd.DataFrame(
        {
            "id": ids,
            "x": own + rng.normal(0, 0.5, len(ids)),
            "y": own + rng.normal(0, 1, len(ids)),
            "b": own + rng.normal(0, 1, len(ids)) > 5,
            "g": rng.choice(["a", "b", "c"], len(ids)),
            "w": rng.uniform(0, 2, len(ids)),
        }
    )


FRAME = clustered()


def data_of(neighbors="add_remove", most=MOST, seed=1, frame=FRAME):
    return dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(seed), neighbors=neighbors, id="id", max_rows=most)


def kept_frame(data):
    columns = ["id", *SCHEMA]
    with data._open() as source:
        cells = source.read([*columns[:4], "g"], 0, source.rows)
    frame = pd.DataFrame({name: np.asarray(cells[name]) for name in columns[:4]})
    frame["g"] = np.array(["a", "b", "c"])[SCHEMA["g"].coerce(cells["g"]).astype(int)]
    return frame.assign(x=frame["x"].clip(0, 10), y=frame["y"].clip(0, 10), b=frame["b"].astype(float))


def robust(formula, frame):
    """Cluster-robust standard errors, without the correction for few rows."""
    return smf.ols(formula, frame).fit(cov_type="cluster", cov_kwds={"groups": frame["id"], "use_correction": False})


# Errors by person


@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_a_mean_has_the_error_of_clusters(neighbors):
    data = data_of(neighbors)
    results = dpi.mean(["x", "y"], data).fit(ALMOST_NOISELESS)
    frame = kept_frame(data)
    for column in ("x", "y"):
        reference = robust(f"{column} ~ 1", frame)
        assert results.params[column] == pytest.approx(reference.params["Intercept"], rel=1e-3)
        assert results.bse[column] == pytest.approx(reference.bse["Intercept"], rel=2e-3)
    assert results.sizes.iloc[0] == pytest.approx(len(frame), rel=1e-3)
    assert results.flags == ()
    assert results.cov_params().iloc[0, 1] > 0


def test_means_by_group_have_the_error_of_clusters_in_each_group():
    data = data_of()
    results = dpi.mean("x", data, by="g", where="y > 2").fit(ALMOST_NOISELESS)
    frame = kept_frame(data)
    for level, part in frame[frame["y"] > 2].groupby("g"):
        reference = robust("x ~ 1", part)
        place = "abc".index(level)
        assert results.params.iloc[place] == pytest.approx(reference.params["Intercept"], rel=1e-3)
        assert results.bse.iloc[place] == pytest.approx(reference.bse["Intercept"], rel=3e-3)
    assert any("rows in several groups" in flag for flag in results.flags)


def test_a_total_has_the_error_of_a_random_number_of_people():
    data = data_of()
    results = dpi.total("x", data, target="population").fit(ALMOST_NOISELESS)
    sums = kept_frame(data).groupby("id")["x"].sum()
    assert results.params["x"] == pytest.approx(sums.sum(), rel=1e-4)
    assert results.bse["x"] == pytest.approx(np.sqrt((sums**2).sum()), rel=1e-3)


def test_the_share_of_a_truth_value_has_the_error_of_clusters():
    data = data_of()
    results = dpi.proportion("b", data).fit(ALMOST_NOISELESS)
    reference = robust("b ~ 1", kept_frame(data))
    assert results.params.iloc[0] == pytest.approx(reference.params["Intercept"], rel=1e-3)
    assert results.bse.iloc[0] == pytest.approx(reference.bse["Intercept"], rel=2e-3)
    again = dpi.proportion("b", Release.from_json(results.release.to_json())).infer()
    assert again.bse.iloc[0] == results.bse.iloc[0]
    with pytest.raises(InferenceError):
        dpi.proportion("x > 2", results.release).infer()


def test_totals_and_counts_of_the_data_are_those_of_the_kept_rows():
    data = data_of()
    frame = kept_frame(data)
    assert dpi.total("x", data).fit(ALMOST_NOISELESS).params["x"] == pytest.approx(frame["x"].sum(), rel=1e-4)
    assert dpi.count(data).fit(ALMOST_NOISELESS).params.iloc[0] == pytest.approx(len(frame), rel=1e-4)


def test_a_bootstrap_has_the_error_of_clusters():
    data = data_of(frame=clustered(20_000))
    frame = kept_frame(data)
    for asked, formula in (("x", "x ~ 1"), ("y ~ x", "y ~ x")):
        results = dpi.bootstrap(asked, data, replicates=100).fit(dpi.GDP(2.0))
        # A standard deviation from 100 replicates is off by 7% (one standard deviation): five of them.
        np.testing.assert_allclose(results.bse_sampling, robust(formula, frame).bse, rtol=0.35)
        assert any("the rows of a person together" in note for note in results.notes)


# Where nothing is measured of how alike rows are


@pytest.mark.parametrize(
    "ask",
    [
        lambda data: gram_ols("y ~ x", data),
        lambda data: dpi.variance("x", data),
        lambda data: dpi.corr(["x", "y"], data),
        lambda data: dpi.expfam("x", data, family="normal"),
        lambda data: dpi.expfam(["x", "y"], data, family="normal"),
        lambda data: dpi.proportion("g", data),
        lambda data: dpi.count(data, target="population"),
        lambda data: dpi.mean("x", data, weights="w"),
    ],
    ids=["ols", "variance", "corr", "expfam", "multinormal", "levels", "count", "weighted mean"],
)
def test_sampling_variances_are_multiplied_by_the_rows_of_a_person(ask):
    one = ask(data_of(most=1, frame=FRAME.assign(id=np.arange(len(FRAME))))).fit(ALMOST_NOISELESS)
    many = ask(data_of(most=6)).fit(ALMOST_NOISELESS)
    np.testing.assert_allclose(many.params, one.params, rtol=0.02)
    np.testing.assert_allclose(np.asarray(many.bse) / np.asarray(one.bse), np.sqrt(6.0), rtol=0.03)
    assert one.flags == ()
    assert any("sampling variances are multiplied by 6" in flag for flag in many.flags)
    narrow, wide = (np.diff(np.asarray(found.conf_int())).ravel() for found in (one, many))
    np.testing.assert_allclose(wide / narrow, np.sqrt(6.0), rtol=0.03)


@pytest.mark.parametrize("ask", [gram_ols("y ~ x"), dpi.expfam("x", family="normal"), dpi.mean("x"), dpi.variance("x")])
def test_simulated_intervals_count_the_rows_of_a_person_too(ask):
    data = data_of()
    results = ask.bind(data).fit(ALMOST_NOISELESS)
    score = np.diff(np.asarray(results.conf_int())).ravel()
    drawn = np.diff(np.asarray(results.with_inference("simulated").conf_int())).ravel()
    # Quantiles of 999 draws are off by about 5% of the width (one standard deviation): four of them.
    np.testing.assert_allclose(drawn, score, rtol=0.2)


def test_for_the_data_only_noise_counts_and_nothing_is_flagged():
    results = gram_ols("y ~ x", data_of(), target="data").fit(dpi.ZCDP(1))
    assert results.flags == ()
    assert (np.diag(results.inference.cov_sampling) == 0).all()
    assert np.isfinite(results.conf_int()).all(axis=None)


def test_many_releases_at_once_are_inferred_as_one_by_one():
    schema = SCHEMA.with_people("id", 3)
    for procedure in (gram_ols("y ~ x"), dpi.mean("x", by="g"), dpi.expfam("x", family="normal"), dpi.variance("x")):
        data = data_of()
        measurement = procedure.measurement(dpi.ZCDP(1), schema=schema)
        release = procedure.bind(data).measure(dpi.ZCDP(1))
        together = procedure.estimate(Released.of_study(measurement, release.array[None]))
        alone = procedure.infer(release)
        np.testing.assert_allclose(together.intervals[0], alone.conf_int(), rtol=1e-7)
        np.testing.assert_allclose(together.bse[0], alone.bse, rtol=1e-9)


# Without people, and with one row each


def test_data_without_people_are_measured_as_before():
    plain = dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(1))
    assert plain.schema.people is None
    assert plain.schema.rows_per_unit == 1
    release = dpi.mean("x", plain).measure(dpi.ZCDP(1))
    assert "people" not in release.question["schema"]
    assert release.unit == "one row"
    assert "unit " not in dpi.mean("x", plain).explain(dpi.ZCDP(1))


def test_one_row_each_costs_the_noise_of_rows():
    for procedure in (dpi.mean("x", by="g"), gram_ols("y ~ x"), dpi.table(["b", "g"])):
        rows, people = (
            procedure.measurement(dpi.ZCDP(1), schema=schema, neighbors="add_remove")
            for schema in (SCHEMA, SCHEMA.with_people("id", 1))
        )
        assert rows.law == people.law
        many = procedure.measurement(dpi.ZCDP(1), schema=SCHEMA.with_people("id", 4), neighbors="add_remove")
        if procedure.__class__.__name__ == "OLS":
            np.testing.assert_allclose(np.array(many.law.scales) / np.array(rows.law.scales), 4.0)


# Refusals, before anything is spent


REFUSED = {
    "chisquare": lambda data: dpi.chisquare("g", data),
    "independence": lambda data: dpi.chi2_contingency("g", "b", data),
    "t test": lambda data: ttest_1samp("x", data, popmean=5.0),
    "two samples": lambda data: ttest_ind("x", "b", data),
    "pairs": lambda data: ttest_rel("x", "y", data),
    "analysis of variance": lambda data: f_oneway("x", "g", data),
    "binomial": lambda data: binomtest("b", data),
    "exact share": lambda data: dpi.proportion("b", data, inference="exact"),
}


def private(neighbors, most=MOST, budget=None):
    ledger = dpi.Ledger.in_memory(budget or dpi.ZCDP(1.0), neighbors=neighbors)
    return dpi.PrivateData(FRAME, SCHEMA, ledger, id="id", max_rows=most)


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_takes_rows_as_independent_is_refused_by_name(name, neighbors):
    data = private(neighbors)
    with pytest.raises(NotProvedError):
        REFUSED[name](data).fit(dpi.ZCDP(0.1))
    assert data.ledger.remaining == dpi.ZCDP(1.0)


@pytest.mark.parametrize("weights", ["public", "double_or_nothing"])
def test_a_bootstrap_of_people_who_are_replaced_needs_paired_weights(weights):
    data = private("replace_one", budget=dpi.GDP(2.0))
    with pytest.raises(NotProvedError, match="id="):
        dpi.bootstrap("x", data, weights=weights, replicates=50).fit(dpi.GDP(0.5))
    assert data.ledger.remaining == dpi.GDP(2.0)
    results = dpi.bootstrap("x", data, weights="paired", replicates=50).fit(dpi.GDP(0.5))
    assert results.release.cost.rho == Fraction(1, 8)
    assert any("the rows of a person together count twice in one" in note for note in results.notes)


@pytest.mark.parametrize(
    "name", ["chisquare", "independence", "t test", "two samples", "pairs", "analysis of variance"]
)
def test_with_one_row_each_tests_work_as_usual(name):
    for neighbors in NEIGHBORS:
        results = REFUSED[name](data_of(neighbors, most=1)).fit(dpi.ZCDP(1))
        assert 0 <= results.pvalue <= 1
        assert not results.nobs_is_public


def test_releases_of_people_are_not_tested_as_if_rows_were_independent():
    data = data_of()
    for release, test in (
        (dpi.table(["g", "b"], data).measure(dpi.ZCDP(1)), dpi.chi2_contingency("g", "b")),
        (dpi.mean("x", data).measure(dpi.ZCDP(1)), ttest_1samp("x", popmean=5.0)),
    ):
        with pytest.raises(NotProvedError, match="assumes independent rows"):
            test.infer(release)
    regression = gram_ols("y ~ x", data).fit(dpi.ZCDP(1))
    with pytest.raises(NotProvedError, match="asymptotic"):
        regression.f_test("x = 0", null="simulated")
    assert regression.f_test("x = 0").pvalue < 0.01


def test_only_releases_about_the_same_unit_are_combined():
    asked = dpi.table(["g", "b"])
    units = [data_of(), data_of(most=2), dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(3))]
    first, *others = [asked.bind(data).measure(dpi.ZCDP(1)) for data in units]
    for other in others:
        with pytest.raises(InferenceError, match="unit of protection"):
            combine([first, other])
    same = asked.bind(data_of(seed=9)).measure(dpi.ZCDP(1))
    joint = combine([first, same])
    assert (joint.bse < first.infer().bse.iloc[0]).all()
    assert "one person with at most 3 rows" in joint.summary().as_text()
    means = [dpi.mean("x", data_of(seed=seed)).measure(dpi.ZCDP(1)) for seed in (1, 2)]
    assert combine(means).bse.iloc[0] < means[0].infer().bse.iloc[0]


def test_a_damaged_unit_is_no_release():
    release = dpi.mean("x", data_of()).measure(dpi.ZCDP(1))
    text = release.to_json()
    for damaged in (text.replace('"max_rows": 3', '"max_rows": "3"'), text.replace('"id": "id"', '"id": "x"')):
        assert damaged != text
        with pytest.raises(Exception, match="damaged"):
            Release.from_json(damaged)


def test_summaries_and_explanations_say_the_unit():
    data = data_of()
    results = dpi.mean("x", data).fit(dpi.ZCDP(1))
    assert "the privacy unit is one person with at most 3 rows" in " ".join(results.summary().as_text().split())
    assert "unit         one person, identified by 'id': at most 3 rows each" in dpi.mean("x", data).explain(
        dpi.ZCDP(1)
    )


# The schema


def test_a_schema_carries_the_unit():
    schema = SCHEMA.with_people("id", 3)
    assert schema != SCHEMA
    assert hash(schema) != hash(SCHEMA)
    assert schema.select(["x"]).people == schema.people
    assert dpi.Schema.from_json(schema.to_json()) == schema
    assert "people" not in SCHEMA.to_dict()
    assert dpi.Schema.from_dict({**SCHEMA.to_dict(), "people": None}) == SCHEMA
    assert "one person with at most 3 rows" in repr(schema)
    for damaged in ({}, {"id": "id"}, {"id": "id", "max_rows": 0}, {"id": "x", "max_rows": 2}, 3, []):
        with pytest.raises(SchemaError):
            dpi.Schema.from_dict({**SCHEMA.to_dict(), "people": damaged})


# Choosing max_rows


def test_truncation_says_what_is_lost_and_what_it_costs():
    found = truncation([1, 1, 2, 6], [1, 2, 6])
    assert found.frame["rows kept"].tolist() == pytest.approx([0.4, 0.6, 1.0])
    assert found.frame["people cut"].tolist() == pytest.approx([0.5, 0.25, 0.0])
    assert found.frame["relative noise"].tolist() == [1.0, 2.0, 6.0]
    shares = truncation({1: 2, 2: 1, 6: 1}, [1, 2, 6])
    pd.testing.assert_frame_equal(shares.frame, found.frame)
    assert list(truncation({40: 1.0}).frame.index) == [1, 2, 3, 5, 10, 20, 30, 40]
    axes = found.plot()
    assert len(axes.lines) == 2


def test_a_truncation_compares_increasing_limits_up_to_the_most_that_is_possible():
    known = [1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 3000, 4096]
    for rows in (4096, 5000, 6000, 10**6):
        assert list(truncation({1: 0.9, rows: 0.1}).frame.index) == known


@pytest.mark.parametrize(
    ("rows", "most"),
    [("abc", 1), ({}, 1), ({0: 1.0}, 1), ({1: -1.0}, 1), ({1.5: 1.0}, 1), ([1], 0), ([1], "x"), ([1], [])],
)
def test_truncation_refuses_what_is_no_distribution(rows, most):
    with pytest.raises(dpi.errors.OptionError):
        truncation(rows, most)
