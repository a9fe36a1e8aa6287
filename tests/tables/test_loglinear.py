"""Log-linear models as procedures: refusals that cost nothing, what is measured, what serves them."""

from functools import partial

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import (
    CollinearDesignError,
    FormulaError,
    InferenceError,
    MissingFromReleaseError,
    NotProvedError,
    OptionError,
    SchemaError,
    UnknownColumnError,
)
from tests.asking import assert_damage_is_refused, assert_refused, each

SCHEMA = dpi.Schema(
    g=dpi.Category(["a", "b", "c"], missing="a", impossible="a"),
    h=dpi.Category(["x", "y"], missing="x", impossible="x"),
    kids=dpi.Integer(0, 3, missing=0, impossible=0),
    age=dpi.Real(0, 80, missing=0, impossible=0),
    s=dpi.Boolean(missing=False, impossible=False),
)
PRICE = dpi.ZCDP(0.1)


def plain(rows=3000, seed=1):
    return SCHEMA.sample(rows, np.random.default_rng(seed))


def simulated(neighbors="add_remove", rows=3000, **person):
    frame = plain(rows).assign(person=np.arange(rows) // 2)
    return dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(2), neighbors=neighbors, **person)


ASK, FIT = partial(each, dpi.loglinear), partial(each, dpi.loglinear, "g")
REFUSED = [
    (OptionError, "^formula=3", ASK(formula=[3])),
    (OptionError, "^formula=", ASK(formula=[" "])),
    (FormulaError, "left side", ASK(formula=["kids ~ g"])),
    (UnknownColumnError, "'q'", ASK(formula=["g + q", "g + `age > q`"]) + FIT(bins=[{"q": [0, 1]}])),
    (SchemaError, "'age' has no levels.*bins=", ASK(formula=["g + age"])),
    (CollinearDesignError, "are linearly dependent", ASK(formula=["kids + I(2 * kids)"])),
    (FormulaError, "names no factor", ASK(formula=["1"])),
    (OptionError, "^bins=.*'age'", FIT(bins=[{"age": [0, 40, 80]}])),
    (OptionError, "^bins=", ASK("age", bins=[{"age": [0, 40, 30]}])),
    (OptionError, "^bins=.*mapping", ASK("age", bins=[[0, 1]])),
    (FormulaError, "g: is a category", ASK("g * h", exclude=["g"])),
    (OptionError, "^exclude=3", ASK("g * h", exclude=[3])),
    (CollinearDesignError, "fewer cells", ASK("g * h", exclude=["g == 'a'"])),
    (FormulaError, "is not a condition", FIT(where=["age"])),
    (OptionError, "^cov_type=.*'robust'", FIT(cov_type=["HC0"])),
    (OptionError, "^inference=", FIT(inference=["exact"])),
    (OptionError, "^target=", FIT(target=["rows"])),
]


@pytest.mark.parametrize(("error", "match", "questions"), REFUSED)
def test_what_cannot_be_fitted_is_refused_by_name_and_costs_nothing(error, match, questions):
    assert_refused(questions, error, match, dpi.PrivateData(plain(), SCHEMA, dpi.Ledger.in_memory(PRICE)), PRICE)


def test_people_with_several_rows_are_refused_for_a_population():
    data = simulated(id="person", max_rows=2)
    with pytest.raises(NotProvedError, match='target="data"'):
        dpi.loglinear("g * h", data)
    results = dpi.loglinear("g * h", data, target="data").fit(PRICE)
    assert not results.bse_sampling.any()
    with pytest.raises(NotProvedError, match="population"):
        results.compare_lm_test("g + h")
    with pytest.raises(NotProvedError, match='target="data"'):
        dpi.loglinear("g * h", results.release).infer()


def test_the_smallest_table_is_measured():
    asked = dpi.loglinear("h * g + `age >= 18`", simulated())
    release = asked.measure(PRICE)
    assert release.kind == "table"
    assert [axis.name for axis in asked.plan(SCHEMA).cells] == ["h", "g", "age >= 18"]
    assert len(release.values) == 12
    assert "12 counts: standard deviation 2.236 rows, for 7 coefficients" in asked.explain(PRICE)
    assert dpi.table(["g", "h"], release).infer().params.size == 6
    twice = dpi.loglinear("`age >= 18` * h + h * g + g:`age >= 18`", simulated())
    assert [axis.name for axis in twice.plan(SCHEMA).cells] == ["age >= 18", "h", "g"]


def test_a_table_that_was_bought_before_serves_any_formula_of_its_columns():
    table = dpi.table(["g", "h", "kids", "age >= 40"], simulated()).measure(PRICE)
    results = dpi.loglinear("g * h + kids", table).infer()
    assert list(results.expected_freq.index.names) == ["g", "h", "kids"]
    counted = dpi.table(["g", "h", "kids"], table).infer()
    np.testing.assert_allclose(results.observed_freq.clip(lower=0), counted.params, atol=1e-9)
    noise = results.inference.model.noise
    np.testing.assert_allclose(noise.of_counts, 2 * 5.0)  # the sum of two counts
    assert dpi.loglinear("g + `age >= 40`", table).infer().params.size == 4
    own = dpi.loglinear("g * h", simulated()).measure(PRICE)
    assert own.infer(formula="g + h").params.size == 4
    assert dpi.loglinear("g", own).infer().params.size == 3


def test_what_does_not_serve_is_refused():
    data = simulated()
    table = dpi.table(["g", "h"], data).measure(PRICE)
    with pytest.raises(MissingFromReleaseError, match="no kids; its columns are g, h"):
        dpi.loglinear("g + kids", table).infer()
    with pytest.raises(InferenceError, match="another question"):
        dpi.loglinear("g", table, where="age > 3").infer()
    with pytest.raises(InferenceError, match="another question"):
        dpi.loglinear("g", dpi.mean("age", data, by="g").measure(PRICE)).infer()
    weighted = dpi.table(["g"], data, weights="age").measure(PRICE)
    with pytest.raises(InferenceError, match="another question"):
        dpi.loglinear("g", weighted).infer()
    binned = dpi.loglinear("age + g", data, bins={"age": [0, 40, 80]}).measure(PRICE)
    assert binned.infer().params.size == 4
    with pytest.raises(OptionError, match=r"^bins=.*0\.0, 40\.0, 80\.0"):
        dpi.loglinear("age", binned, bins={"age": [0, 30, 80]}).infer()
    assert_damage_is_refused(binned, {"bins": [{"age": "many"}]})


def test_combined_releases_serve_where_they_determine_the_cells():
    data = simulated()
    joint, margin = dpi.table(["g", "h", "s"], data).measure(PRICE), dpi.table("g", data).measure(dpi.ZCDP(1.0))
    combined = dpi.combine([joint, margin])
    results, alone = dpi.loglinear("g * h", combined).infer(), dpi.loglinear("g * h", joint).infer()
    assert (results.bse_noise < alone.bse_noise).all()
    cells = combined.estimates.groupby(level=["g", "h"], sort=False).sum()
    np.testing.assert_allclose(results.observed_freq, cells)
    assert results.compare_lm_test("g + h", draws=199).pvalue > 0
    assert "count" in results.summary().as_text()
    with pytest.raises(MissingFromReleaseError, match="kids"):
        dpi.loglinear("kids", combined).infer()
    apart = dpi.combine([dpi.table(column, data).measure(PRICE) for column in "gh"])
    with pytest.raises(MissingFromReleaseError, match="do not determine"):
        dpi.loglinear("g", apart).infer()
    with pytest.raises(OptionError, match=r"^data="):
        dpi.chisquare("g", combined)


def test_structural_zeros_are_left_out():
    rng = np.random.default_rng(5)
    frame = plain()
    frame.loc[frame["g"] == "c", "h"] = "x"
    data = dpi.PublicData(frame, SCHEMA, rng=rng)
    results = dpi.loglinear("g + h", data, exclude="(g == 'c') & (h == 'y')").fit(dpi.ZCDP(50.0))
    assert results.params.notna().all()
    assert results.expected_freq["c", "y"] == 0
    assert np.isnan(results.observed_freq["c", "y"])
    kept = results.observed_freq.dropna()
    rows = np.array([[1, g == "b", g == "c", h == "y"] for g, h in kept.index], dtype=float)
    known = sm.GLM(kept.to_numpy(), rows, family=sm.families.Poisson()).fit(tol=1e-14)
    np.testing.assert_allclose(results.params, known.params, atol=1e-8)
    assert "Structural zeros" in results.summary().as_text()


def test_real_rows_without_noise_are_statsmodels():
    frame = sm.datasets.anes96.load_pandas().data
    schema = dpi.Schema(vote=dpi.Boolean(), educ=dpi.Integer(1, 7), PID=dpi.Integer(0, 6))
    data = dpi.PublicData(frame, schema, rng=np.random.default_rng(0))
    results = dpi.loglinear("vote * educ + C(PID)", data, cov_type="nonrobust").fit(dpi.ZCDP(1e14))
    counts = frame.groupby(["vote", "educ", "PID"], observed=False).size()
    index = results.observed_freq.index.set_levels([0.0, 1.0], level="vote")
    exact = counts.reindex(index, fill_value=0).to_numpy()
    assert np.array_equal(np.rint(results.observed_freq), exact)
    known = sm.GLM(exact, results.inference.model.design, family=sm.families.Poisson()).fit(tol=1e-14)
    np.testing.assert_allclose(results.params, known.params, atol=1e-8)
    np.testing.assert_allclose(results.bse_sampling, known.bse, rtol=1e-7)
    np.testing.assert_allclose(results.expected_freq, known.fittedvalues, atol=1e-7)
    np.testing.assert_allclose(results.resid_pearson, known.resid_pearson, atol=1e-6)
    assert results.predict({"vote": 1, "educ": 3, "PID": 2})[0] == pytest.approx(results.expected_freq[True, 3, 2])


def test_a_study_covers():
    def generate(rng, n):
        g = rng.choice(["a", "b"], n, p=[0.6, 0.4])
        return {"g": g, "h": np.where(rng.random(n) < np.where(g == "a", 0.3, 0.5), "y", "x")}

    schema = dpi.Schema(g=dpi.Category(["a", "b"]), h=dpi.Category(["x", "y"]))
    ratio = float(np.log(0.7 / 0.3))
    study = dpi.coverage_study(
        generate,
        dpi.loglinear("g * h"),
        schema=schema,
        truth={"g[T.b]:h[T.y]": ratio},
        n=[400],
        privacy=[dpi.ZCDP(0.05)],
        replicates=300,
        seed=1,
        progress=False,
    )
    least = stats.binom.ppf(1e-7, 300, 0.95) / 300
    assert study.cells.loc[study.cells["term"] == "g[T.b]:h[T.y]", "coverage"].item() >= least
