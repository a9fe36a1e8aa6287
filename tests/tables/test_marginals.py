"""Marginals as a user asks for them: refusals before the charge, and what one release answers."""

import json

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import (
    DPInferError,
    FormulaError,
    InferenceError,
    MissingFromReleaseError,
    NotProvedError,
    OptionError,
    ReleaseFormatError,
    SchemaError,
    UnknownColumnError,
)
from dpinfer.privacy.units import NEIGHBORS

SCHEMA = dpi.Schema(
    sex=dpi.Boolean(),
    race=dpi.Category(["a", "b", "c"]),
    educ=dpi.Integer(1, 4),
    age=dpi.Real(0, 100),
    zip=dpi.Integer(0, 50_000),
    note=dpi.Integer(0, 99),
    mark=dpi.Integer(0, 99),
    more=dpi.Integer(0, 99),
    last=dpi.Integer(0, 99),
)
KEEPING = dpi.Schema(
    sex=dpi.Boolean(missing=False, impossible=False),
    race=dpi.Category(["a", "b", "c"], missing="a", impossible="a"),
    educ=dpi.Integer(1, 4, missing=1, impossible=1),
)
PAIRS = [["sex", "race"], ["race", "educ"]]
PRICES = {"pure": dpi.PureDP(2.0), "zcdp": dpi.ZCDP(0.2), "gdp": dpi.GDP(0.8), "approx": dpi.ApproxDP(3.0, 1e-6)}


def public(schema=KEEPING, n=3000, seed=1, neighbors="add_remove"):
    rng = np.random.default_rng(seed)
    return dpi.PublicData(schema.sample(n, rng), schema, rng=rng, neighbors=neighbors)


def private(schema=SCHEMA, n=300):
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1.0))
    return dpi.PrivateData(schema.sample(n, np.random.default_rng(2)), schema, ledger), ledger


REFUSED = {
    "no marginal": ([], {}, OptionError, "no marginal"),
    "an empty marginal": ([["sex"], []], {}, OptionError, "no columns"),
    "a text": ("sex", {}, OptionError, "workload"),
    "a mapping": ({"sex": 1}, {}, OptionError, "workload"),
    "no texts": ([[1, 2]], {}, OptionError, "workload"),
    "a blank column": ([[" "]], {}, OptionError, "one column or more"),
    "a column twice": ([["sex", "sex"]], {}, OptionError, "each column once"),
    "a marginal twice": ([["sex", "race"], ["race", "sex"]], {}, OptionError, "each marginal once"),
    "an unknown column": ([["sex", "rage"]], {}, UnknownColumnError, "rage"),
    "no levels": ([["sex", "age"]], {}, SchemaError, "bins=.*cdf and quantile"),
    "many whole numbers": ([["zip"]], {}, SchemaError, "zip.*has no levels"),
    "too many cells": ([["note", "mark", "more", "last"]], {}, OptionError, "at most 1,048,576 cells each"),
    "bins of another": ([["sex"]], {"bins": {"age": [0, 50, 100]}}, OptionError, "bins"),
    "no edges": ([["age"]], {"bins": {"age": [5]}}, OptionError, "bins"),
    "edges beyond": ([["age"]], {"bins": {"age": [0, 500]}}, OptionError, "within the bounds"),
    "bins of levels": ([["race"]], {"bins": {"race": [0, 1, 2]}}, SchemaError, "not numeric"),
    "one bin": ([["age"]], {"bins": {"age": [0, 100]}}, OptionError, "two levels or more"),
    "an objective": ([["sex"]], {"objective": "mean"}, OptionError, "objective"),
    "a target": ([["sex"]], {"target": "rows"}, OptionError, "target"),
    "an inference": ([["sex"]], {"inference": "simulated"}, OptionError, "inference"),
    "a condition": ([["sex"]], {"where": "age"}, FormulaError, "age"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_before_the_charge(name):
    workload, options, error, match = REFUSED[name]
    data, ledger = private()
    with pytest.raises(error, match=match):
        dpi.marginals(workload, data, **options).measure(dpi.ZCDP(0.1))
    assert ledger.spent.is_zero


WORKLOADS = {
    "a text": ("sex", {}, OptionError, "columns"),
    "none": ([], {}, OptionError, "columns"),
    "twice": (["sex", "sex"], {}, OptionError, "different"),
    "no ways": (["sex", "race"], {"ways": 3}, OptionError, "ways"),
    "ways of nothing": (["sex", "race"], {"ways": []}, OptionError, "ways"),
    "ways twice": (["sex", "race"], {"ways": (1, 1)}, OptionError, "ways"),
    "truth": (["sex", "race"], {"ways": True}, OptionError, "ways"),
    "prefixes": (["age"], {"ways": "prefixes"}, NotProvedError, "cdf.*quantile"),
    "ranges": (["age"], {"ways": "ranges"}, NotProvedError, "cdf.*quantile"),
    "a weight of zero": (["sex", "race"], {"weights": [0.0]}, OptionError, "weights"),
    "a negative weight": (["sex", "race"], {"weights": {("race", "sex"): -1}}, OptionError, "weights"),
    "an infinite weight": (["sex", "race"], {"weights": [np.inf]}, OptionError, "weights"),
    "too few weights": (["sex", "race", "educ"], {"weights": [1.0, 2.0]}, OptionError, "weights"),
    "weights of others": (["sex", "race"], {"weights": {"sex": 2}}, OptionError, "weights"),
    "texts as weights": (["sex", "race"], {"weights": ["1"]}, OptionError, "weights"),
    "too many marginals": ([f"c{i}" for i in range(60)], {"ways": 4}, OptionError, "ways"),
    "too many columns": ([f"c{i}" for i in range(65)], {"ways": 1}, OptionError, "at most 64 columns"),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads_that_are_none_are_refused(name):
    columns, options, error, match = WORKLOADS[name]
    with pytest.raises(error, match=match):
        dpi.workload(columns, **options)


def test_a_workload_is_a_public_list_of_marginals():
    found = dpi.workload(["a", "b", "c"], ways=(1, 2), weights={"a": 2, ("c", "a"): 5})
    assert list(found) == [("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c")]
    assert found.weights == (2.0, 1.0, 1.0, 1.0, 5.0, 1.0)
    assert len(found) == 6
    assert found.columns == ("a", "b", "c")
    assert "6 marginals of 3 columns" in repr(found)


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("price", PRICES)
def test_one_release_answers_tables_shares_and_tests(price, neighbors):
    data = public(neighbors=neighbors)
    release = dpi.marginals(PAIRS, data).measure(PRICES[price])
    results = release.infer()
    table = dpi.table(["educ", "race"], release).infer()
    pd.testing.assert_frame_equal(table.summary_frame(), results.marginal(["educ", "race"]).summary_frame())
    shares = dpi.proportion("race", release, by="sex").infer()
    pd.testing.assert_frame_equal(shares.summary_frame(), results.proportions("race", by="sex").summary_frame())
    counted = dpi.count(release, by="race").infer()
    np.testing.assert_allclose(counted.params, results.marginal("race").params)
    total = dpi.count(release).infer() if neighbors == "add_remove" else None
    if total is not None:
        assert total.params.item() == pytest.approx(counted.params.sum())
    pair = dpi.chi2_contingency("race", "sex", release, draws=999).infer()
    np.testing.assert_allclose(pair.observed_freq.to_numpy().ravel(), results.marginal(["race", "sex"]).params)
    single = dpi.chisquare("educ", release, draws=999).infer()
    assert 0 < pair.pvalue <= 1
    assert 0 < single.pvalue <= 1
    assert (pair.nobs_is_public, pair.nobs == 3000) == ((True, True) if neighbors == "replace_one" else (False, False))
    fixed = dpi.chi2_contingency("race", "sex", release, fixed="sex", draws=999).infer()
    assert list(fixed.observed_freq.index) == ["a", "b", "c"]
    assert fixed.residuals()["std err (noise)"].gt(0).all()


def test_what_a_release_does_not_hold_is_refused():
    release = dpi.marginals(PAIRS, public()).measure(PRICES["zcdp"])
    for asked in (dpi.table(["sex", "educ"], release), dpi.chi2_contingency("sex", "educ", release)):
        with pytest.raises(MissingFromReleaseError, match="no marginal of the release holds"):
            asked.infer()
    with pytest.raises(MissingFromReleaseError):
        dpi.chisquare("age", release, bins=[0, 50, 100]).infer()
    with pytest.raises(InferenceError, match="another question"):
        dpi.table("sex", release, where="educ > 1").infer()
    with pytest.raises(InferenceError, match="another question"):
        dpi.mean("educ", release).infer()
    with pytest.raises(InferenceError, match="another question"):
        dpi.marginals([["sex", "educ"]], release).infer()
    with pytest.raises(NotProvedError, match="simulated"):
        dpi.chisquare("sex", release, null="asymptotic").infer()
    with pytest.raises(OptionError, match="inference"):
        dpi.table("sex", release, inference="simulated").infer()
    with pytest.raises(DPInferError):
        dpi.combine([release, dpi.table("sex", public()).measure(PRICES["zcdp"])])


def test_a_release_whose_axes_are_damaged_is_refused():
    data = dpi.PublicData(SCHEMA.sample(50, np.random.default_rng(1)), SCHEMA, rng=np.random.default_rng(2))
    pair = [name for name in SCHEMA if SCHEMA[name].level_texts][:2]
    stored = json.loads(dpi.marginals([pair], data).fit(dpi.ZCDP(0.1)).release.to_json())
    stored["question"]["axes"][0] = {}
    with pytest.raises(ReleaseFormatError, match="question of the release is damaged"):
        dpi.Release.from_json(json.dumps(stored)).infer()


def test_fewer_marginals_are_read_from_more():
    release = dpi.marginals(PAIRS, public()).measure(PRICES["zcdp"])
    some = dpi.marginals([["race"], ["educ", "race"]], release, target="population").infer()
    assert some.marginals == (("race",), ("educ", "race"))
    np.testing.assert_allclose(some.marginal("race").params, release.infer().marginal("race").params)
    assert some.marginal("race").bse_sampling.gt(0).all()
    binned = dpi.marginals([["age"]], public(SCHEMA), bins={"age": [0, 50, 100]}).measure(PRICES["zcdp"])
    with pytest.raises(InferenceError):
        dpi.marginals([["age"]], binned, bins={"age": [0, 40, 100]}).infer()


def test_bins_and_conditions_are_levels():
    rng = np.random.default_rng(1)
    frame = SCHEMA.sample(2000, rng)
    data = dpi.PublicData(frame, SCHEMA, rng=rng)
    asked = dpi.marginals([["age", "sex"], ["educ > 2", "sex"]], data, bins={"age": [0, 20, 100]}, where="race == 'a'")
    found = asked.fit(dpi.ZCDP(50.0))
    kept = frame[frame["race"] == "a"]
    expected = [((kept["age"] < 20) == young).sum() for young in (True, False)]
    np.testing.assert_allclose(found.marginal("age").params.to_numpy(), expected, atol=3)
    np.testing.assert_allclose(found.marginal("educ > 2").params.to_numpy()[1], (kept["educ"] > 2).sum(), atol=3)
    assert "where race == 'a'" in asked.text(SCHEMA)


def test_people_with_several_rows_are_priced_and_not_tested():
    rng = np.random.default_rng(1)
    frame = KEEPING.sample(600, rng)
    frame = pd.DataFrame(frame).assign(person=rng.integers(0, 200, 600))
    data = dpi.PublicData(frame, KEEPING, rng=rng, id="person", max_rows=3)
    plain = dpi.PublicData(frame, KEEPING, rng=rng)
    several, one = (dpi.marginals(PAIRS, each).measurement(PRICES["zcdp"]) for each in (data, plain))
    assert several.stages[0].bound == 3 * one.stages[0].bound
    release = dpi.marginals(PAIRS, data).measure(PRICES["zcdp"])
    with pytest.raises(NotProvedError, match="independent"):
        dpi.chisquare("race", release).infer()
    assert any("3 rows" in flag for flag in release.infer(target="population").flags)


def test_it_explains_the_error_of_every_marginal():
    told = str(dpi.marginals(PAIRS, public()).explain(PRICES["zcdp"]))
    found = dpi.marginals(PAIRS, public()).fit(PRICES["zcdp"])
    error = found.marginal(["sex", "race"]).bse.iloc[0]
    assert f"sex x race {error:.4g}" in told
    assert "contrasts" in told
    assert "counts of the cells" in str(dpi.marginals(PAIRS, public()).explain(PRICES["pure"]))


@pytest.mark.parametrize("price", ["pure", "zcdp"])
def test_a_study_covers(price):
    shares = np.array([0.6, 0.3, 0.1])

    def generate(rng, n):
        race = rng.choice(3, n, p=shares)
        return {"race": np.array(["a", "b", "c"])[race], "sex": rng.random(n) < 0.3, "educ": 1 + race}

    truth = {f"count[race={level}]": 500 * share for level, share in zip("abc", shares, strict=True)}
    study = dpi.coverage_study(
        generate,
        dpi.marginals([["race"], ["race", "sex"]], target="population"),
        schema=KEEPING,
        truth=truth,
        n=[500],
        privacy=[PRICES[price]],
        neighbors="replace_one",
        replicates=400,
        seed=1,
        progress=False,
    )
    # 400 replicates of 95%: below .88 with a probability of 1e-8 in each of three cells
    assert study.cells["coverage"].min() > 0.88
    assert study.cells["coverage"].notna().sum() == 3
