"""Marginals as a user asks for them: refusals before the charge, and what one release answers."""

from functools import partial

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
    SchemaError,
    UnknownColumnError,
)
from dpinfer.privacy.units import NEIGHBORS
from tests.asking import assert_damage_is_refused, assert_refused, each

SCHEMA = dpi.Schema(
    sex=dpi.Boolean(),
    race=dpi.Category(["a", "b", "c"]),
    educ=dpi.Integer(1, 4),
    age=dpi.Real(0, 100),
    zip=dpi.Integer(0, 50_000),
    **dict.fromkeys(("note", "mark", "more", "last"), dpi.Integer(0, 99)),
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


def private():
    return dpi.PrivateData(SCHEMA.sample(300, np.random.default_rng(2)), SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(1.0)))


ASK, SEX = partial(each, dpi.marginals), partial(each, dpi.marginals, [["sex"]])
REFUSED = [
    (OptionError, "no marginal", ASK(workload=[[]])),
    (OptionError, "no columns", ASK(workload=[[["sex"], []]])),
    (OptionError, "workload", ASK(workload=["sex", {"sex": 1}, [[1, 2]]])),
    (OptionError, "one column or more", ASK(workload=[[[" "]]])),
    (OptionError, "each column once", ASK(workload=[[["sex", "sex"]]])),
    (OptionError, "each marginal once", ASK(workload=[[["sex", "race"], ["race", "sex"]]])),
    (UnknownColumnError, "rage", ASK(workload=[[["sex", "rage"]]])),
    (SchemaError, "bins=.*cdf or quantile", ASK(workload=[[["sex", "age"]]])),
    (SchemaError, "zip.*has no levels", ASK(workload=[[["zip"]]])),
    (OptionError, "at most 1,048,576 cells each", ASK(workload=[[["note", "mark", "more", "last"]]])),
    (OptionError, "bins", SEX(bins=[{"age": [0, 50, 100]}]) + ASK([["age"]], bins=[{"age": [5]}])),
    (OptionError, "within the bounds", ASK([["age"]], bins=[{"age": [0, 500]}])),
    (SchemaError, "not numeric", ASK([["race"]], bins=[{"race": [0, 1, 2]}])),
    (OptionError, "two levels or more", ASK([["age"]], bins=[{"age": [0, 100]}])),
    (OptionError, "objective", SEX(objective=["mean"])),
    (OptionError, "target", SEX(target=["rows"])),
    (OptionError, "inference", SEX(inference=["simulated"])),
    (FormulaError, "age", SEX(where=["age"])),
]


@pytest.mark.parametrize(("error", "match", "questions"), REFUSED)
def test_bad_input_is_refused_before_the_charge(error, match, questions):
    assert_refused(questions, error, match, private(), dpi.ZCDP(0.1))


def test_workloads_that_are_none_are_refused():
    two = ["sex", "race"]
    for match, columns, options in (
        ("columns", "sex", [{}]),
        ("columns", [], [{}]),
        ("different", ["sex", "sex"], [{}]),
        ("ways", two, [{"ways": ways} for ways in (3, [], (1, 1), True)]),
        ("cdf.*quantile", ["age"], [{"ways": "prefixes"}, {"ways": "ranges"}]),
        ("weights", two, [{"weights": one} for one in ([0.0], {("race", "sex"): -1}, [np.inf], {"sex": 2}, ["1"])]),
        ("weights", [*two, "educ"], [{"weights": [1.0, 2.0]}]),
        ("ways", [f"c{i}" for i in range(60)], [{"ways": 4}]),
        ("at most 64 columns", [f"c{i}" for i in range(65)], [{"ways": 1}]),
    ):
        for option in options:
            with pytest.raises(NotProvedError if columns == ["age"] else OptionError, match=match):
                pytest.fail(f"{option} was taken: {dpi.workload(columns, **option)!r}")


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
    for error, match, *asked in (
        (MissingFromReleaseError, "no marginal of the release holds", dpi.table(["sex", "educ"], release)),
        (MissingFromReleaseError, "no marginal of the release holds", dpi.chi2_contingency("sex", "educ", release)),
        (MissingFromReleaseError, None, dpi.chisquare("age", release, bins=[0, 50, 100])),
        (InferenceError, "another question", dpi.table("sex", release, where="educ > 1"), dpi.mean("educ", release)),
        (InferenceError, "another question", dpi.marginals([["sex", "educ"]], release)),
        (NotProvedError, "simulated", dpi.chisquare("sex", release, null="asymptotic")),
        (OptionError, "inference", dpi.table("sex", release, inference="simulated")),
    ):
        for one in asked:
            with pytest.raises(error, match=match):
                one.infer()
    with pytest.raises(DPInferError):
        dpi.combine([release, dpi.table("sex", public()).measure(PRICES["zcdp"])])
    assert_damage_is_refused(release, {"axes.0": [{}]}, "question of the release is damaged")


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
