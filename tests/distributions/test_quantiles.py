"""Quantiles and distribution functions as asked: only released numbers depend on rows, bad questions cost nothing."""

from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.distributions.quantiles import largest_error
from dpinfer.errors import (
    FormulaError,
    InferenceError,
    OptionError,
    PrivacyUnitError,
    SchemaError,
    UnknownColumnError,
)
from dpinfer.privacy.units import NEIGHBORS
from tests.asking import assert_refused, each, unspent

SCHEMA = dpi.Schema(
    x=dpi.Real(-5, 10),
    k=dpi.Integer(0, 3),
    n=dpi.Integer(0, 500),
    b=dpi.Boolean(),
    g=dpi.Category(["a", "b", "c"]),
)
KEEPING = dpi.Schema(x=dpi.Real(-5, 10, missing=0, impossible=0), n=dpi.Integer(0, 500, missing=0, impossible=0))
KINDS = {
    "a median": partial(dpi.quantile, "x", q=0.5, resolution=16),
    "quantiles of a tree": partial(dpi.quantile, "x", q=[0.1, 0.5, 0.9], by="b", resolution=16),
    "quantiles that are chosen": partial(
        dpi.quantile, "n", q=[0.25, 0.75], by=["g"], method="exponential", resolution=32
    ),
    "with a condition": partial(dpi.quantile, "n", q=0.9, where="b & (x > 0)", method="tree", resolution=64),
    "of the data": partial(dpi.quantile, "x", q=0.3, by="x > 2", target="data", resolution=8),
    "a distribution": partial(dpi.cdf, "x", resolution=8),
    "distributions": partial(dpi.cdf, "n", by=["b", "n > 100"], where="x < 9", resolution=8),
}


def plain(rows=80):
    return SCHEMA.sample(rows, np.random.default_rng(8))


def guarded(frame=None, neighbors="add_remove", budget=None, schema=SCHEMA):
    frame = plain() if frame is None else frame
    return dpi.PrivateData(frame, schema, dpi.Ledger.in_memory(budget or dpi.ZCDP(1.0), neighbors=neighbors))


# The price


def test_the_noise_of_counts_is_calibrated_to_the_bound_on_their_change():
    for neighbors in NEIGHBORS:
        for price, norm in ((dpi.PureDP(0.8), "l1"), (dpi.ZCDP(0.08), "l2")):
            measured = dpi.cdf("n", by="b", resolution=32).measurement(price, schema=SCHEMA, neighbors=neighbors)
            bound = float(measured.rows.change(np.ones(1), neighbors, norm))
            expected = bound / 0.8 if norm == "l1" else bound / np.sqrt(2 * 0.08)
            scales = np.array(measured.law.scales) * np.array(measured.steps)
            np.testing.assert_allclose(scales, expected, rtol=1e-12)
            assert (scales >= expected * (1 - 1e-15)).all()


def test_a_public_number_of_rows_carries_no_noise():
    frame = KEEPING.sample(50, np.random.default_rng(1))
    for ask in (dpi.cdf("x", resolution=8), dpi.quantile("n", resolution=8)):
        data = guarded(frame, "replace_one", schema=KEEPING)
        release = ask.bind(data).measure(dpi.ZCDP(0.01))
        assert (release.array[0], release.law.scales[0]) == (50.0, 0.0)
        assert all(scale > 0 for scale in release.law.scales[1:])
        results = release.infer()
        assert results.nobs == 50
        hidden = ask.bind(guarded(frame, schema=KEEPING)).measure(dpi.ZCDP(0.01))
        assert hidden.law.scales[0] > 0


# Estimates


@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_without_noise_quantiles_are_those_of_numpy(neighbors):
    schema = dpi.Schema(x=dpi.Real(0, 1), k=dpi.Integer(-20, 100))
    rng = np.random.default_rng(9)
    frame = pd.DataFrame({"x": rng.beta(2, 3, 97), "k": rng.integers(0, 90, 97)})
    data = dpi.PublicData(frame, schema, rng=rng, neighbors=neighbors)
    q = [0.1, 0.33, 0.5, 0.9]
    expected = frame.apply(lambda column: np.quantile(column, q, method="inverted_cdf"))
    for method in ("exponential", "tree"):
        found = dpi.quantile("k", data, q=q, method=method).fit(dpi.ZCDP(1e9))
        assert found.params.tolist() == expected["k"].tolist()
    found = dpi.quantile("x", data, q=q, method="exponential").fit(dpi.ZCDP(1e9))
    assert found.params.to_numpy() == pytest.approx(expected["x"].to_numpy(), abs=2**-30)
    found = dpi.quantile("x", data, q=q, method="tree").fit(dpi.ZCDP(1e9))
    assert found.params.to_numpy() == pytest.approx(expected["x"].to_numpy(), abs=1 / 4096)


def test_without_noise_quantiles_by_group_are_those_of_the_groups():
    rng = np.random.default_rng(10)
    frame = SCHEMA.sample(301, rng)
    data = dpi.PublicData(frame, SCHEMA, rng=rng)
    found = dpi.quantile("n", data, q=[0.2, 0.77], by=["g", "x > 2"], where="b", method="exponential").fit(
        dpi.ZCDP(1e9)
    )
    kept = frame[frame["b"]]
    for (level, above, q), estimate in found.estimates.items():
        values = kept["n"][(kept["g"] == level) & ((kept["x"] > 2) == above)]
        ranks = [(values < estimate).sum(), (values <= estimate).sum()]
        assert ranks[0] - 1e-3 <= q * len(values) <= ranks[1] + 1e-3
    sizes = kept.groupby(["g", kept["x"] > 2]).size().repeat(2)
    assert found.sizes.to_numpy() == pytest.approx(sizes.to_numpy(), abs=0.01)
    assert found.index.names == ["g", "x > 2", "q"]


def test_one_release_answers_every_question_about_its_distribution():
    data = dpi.PublicData(plain(400), SCHEMA, rng=np.random.default_rng(3))
    release = dpi.quantile("x", data, q=0.5, resolution=64).measure(dpi.ZCDP(0.5))
    chosen = dpi.quantile("x", release, q=0.5).infer()
    assert chosen.params.iloc[0] == pytest.approx(
        release.schema["x"].lower + 15 * (release.choices[0].values[0] + 0.5) / 2**30  # noqa: PD011
    )
    several = dpi.quantile("x", release, q=[0.25, 0.75]).infer()
    function = dpi.cdf("x", release).infer()
    assert several.params.tolist() == function.quantile([0.25, 0.75]).params.tolist()
    assert function(several.params.to_numpy())["cdf"].to_numpy() == pytest.approx([0.25, 0.75], abs=1e-9)
    narrow = dpi.quantile("x", release, q=0.5, target="data").infer()
    assert narrow.bse.iloc[0] < chosen.bse.iloc[0]
    assert narrow.noise_share.iloc[0] == pytest.approx(1.0)
    assert dpi.quantile("x", release, q=0.5, inference="wald").infer().bse.equals(chosen.bse)


def test_the_median_is_the_quantile_at_one_half():
    data = dpi.PublicData(plain(400), SCHEMA, rng=np.random.default_rng(3))
    asked = dpi.median("x", data, by="b", where="k > 0", resolution=64)
    assert (asked.probabilities, asked.where, asked.resolution) == ((0.5,), "k > 0", 64)
    release = asked.measure(dpi.ZCDP(0.5))
    assert release.question["method"] == "exponential"
    same = dpi.quantile("x", release, q=0.5, by="b", where="k > 0").infer()
    assert asked.infer(release).params.equals(same.params)


def test_a_question_does_nothing_until_it_is_measured():
    data = guarded()
    for ask in KINDS.values():
        text = ask(data=data).explain(dpi.ZCDP(0.1))
        assert "the noise of a rank has standard deviation" in text
        assert ("choice       a chosen quantile misses its rank" in text) == ("exponential mechanism" in text)
        assert "each of its rows is counted once in each of" in ask().explain(dpi.PureDP(1.0), schema=SCHEMA)
    assert unspent(data)


def test_the_noise_that_is_explained_is_the_largest_of_the_tree():
    text = dpi.cdf("x", resolution=64).explain(dpi.ZCDP(0.05), schema=SCHEMA)
    data = dpi.PublicData(plain(), SCHEMA, rng=np.random.default_rng(0))
    tree = dpi.cdf("x", data, resolution=64).fit(dpi.ZCDP(0.05)).trees[0]
    largest = np.sqrt(tree.noise_variance(0.5).max())
    assert f"standard deviation at most {largest:.4g} rows" in text


# What is refused

X, CDF = partial(each, dpi.quantile, "x"), partial(each, dpi.cdf, "x")
HALF = partial(X, q=0.5)
BAD = [
    (OptionError, "q=", X(q=[1.5, [0.5, -0.1], np.nan, "0.5", True, [], None, [0.5, 0.1, 0.5]])),
    (SchemaError, "'g' is not numeric", each(dpi.quantile, "g", q=[0.5])),
    (SchemaError, "'b' is not numeric", each(dpi.cdf, column=["b"])),
    (UnknownColumnError, "'z'", each(dpi.quantile, "z", q=[0.5])),
    (UnknownColumnError, "log", each(dpi.cdf, column=["log(6 + x)"])),
    (OptionError, "column=", each(dpi.quantile, q=0.5, column=[["x"]])),
    (OptionError, "resolution=", CDF(resolution=[100, 2**15]) + HALF(resolution=["fine"])),
    (OptionError, "by=", each(dpi.quantile, "k", q=0.5, by=["k"])),
    (SchemaError, "'x' has no levels", each(dpi.cdf, "n", by=["x"])),
    (OptionError, "24 groups", CDF(by=["g", "k", "b"], resolution=[2**14])),
    (FormulaError, "not a condition", CDF(where=["x + 1"])),
    (OptionError, "method=", HALF(method=["laplace"])),
    (OptionError, "target=", CDF(target=["sample"])),
    (OptionError, "inference=", HALF(inference=["bayes"])),
    (OptionError, "data=", [lambda _: dpi.quantile("x", plain(), q=0.5)]),
]


@pytest.mark.parametrize(("error", "match", "questions"), BAD)
def test_bad_questions_are_refused_by_name_and_cost_nothing(error, match, questions):
    for neighbors in NEIGHBORS:
        assert_refused(questions, error, match, guarded(neighbors=neighbors), dpi.ZCDP(0.1))


def test_choices_are_refused_where_errors_of_floats_would_count():
    """Noise on a rank is at most 2^22 rows: 4 rows over the price, twice that where a row is replaced."""
    schema = dpi.Schema(x=dpi.Real(0, 1))
    for neighbors, least in (("add_remove", 4 / 2**22), ("replace_one", 8 / 2**22)):
        asked = dpi.quantile("x", q=0.5)
        choice = asked.measurement(dpi.PureDP(1.001 * least), schema=schema, neighbors=neighbors).stages[0]
        assert choice.law.family == "gumbel"
        assert 0.99 * 2**22 <= choice.law.scales[0] * choice.steps[0] <= 2**22
        with pytest.raises(PrivacyUnitError, match="is too small to choose"):
            asked.measurement(dpi.PureDP(0.999 * least), schema=schema, neighbors=neighbors)


def test_a_release_is_not_measured_and_answers_its_own_question_only():
    data = dpi.PublicData(plain(), SCHEMA, rng=np.random.default_rng(2))
    release = dpi.cdf("x", data, by="b", where="k > 0", resolution=8).measure(dpi.ZCDP(0.1))
    with pytest.raises(OptionError, match="only infers"):
        dpi.cdf("x", release, by="b", where="k > 0", resolution=8).measure(dpi.ZCDP(0.1))
    for other in (
        dpi.cdf("n", by="b", where="k > 0"),
        dpi.cdf("x", by="g", where="k > 0"),
        dpi.cdf("x", where="k > 0"),
        dpi.quantile("x", q=0.5, by="b", where="k > 1"),
        dpi.quantile("x", q=0.5, by="b"),
        dpi.density("x"),
    ):
        with pytest.raises(InferenceError, match="another question"):
            other.infer(release)
    assert len(dpi.quantile("x", q=0.5, by="b", where="k > 0").infer(release).params) == 2
    for other in (dpi.gram(["x"], data).measure(dpi.ZCDP(0.1)), dpi.most_frequent("b", data).measure(dpi.ZCDP(0.1))):
        with pytest.raises(InferenceError, match="another question"):
            dpi.cdf("x", other).infer()
    with pytest.raises(OptionError, match="release="):
        dpi.cdf("x").infer()


def test_explaining_the_other_relation_knows_no_number_of_rows():
    schema = dpi.Schema(x=dpi.Real(0, 500, missing=1.0, impossible=1.0))
    rows = pd.DataFrame({"x": np.arange(50.0)})
    data = dpi.PublicData(rows, schema, rng=np.random.default_rng(1), neighbors="replace_one")
    question, price = dpi.median("x", data), dpi.PureDP(0.5)
    assert "(90% of the privacy budget)" in str(question.explain(price))
    assert "(25% of the privacy budget)" in str(question.explain(price, neighbors="add_remove"))


@pytest.mark.parametrize("price", [dpi.PureDP(0.1), dpi.ZCDP(0.005), dpi.GDP(0.05), dpi.ApproxDP(0.1, 1e-6)], ids=str)
def test_the_choice_has_most_of_the_price_where_the_tree_could_not_tell_anything(price):
    """The split is a function of the price and the public number of rows."""
    schema = dpi.Schema(x=dpi.Real(0, 10, missing=0, impossible=0))
    for size, few in ((30, True), (30_000, False)):
        values = pd.DataFrame({"x": np.full(size, 5.0)})
        for neighbors in NEIGHBORS:
            data = dpi.PublicData(values, schema, rng=np.random.default_rng(1), neighbors=neighbors)
            first, second = (slot.share for slot in dpi.median("x", data).measurement(price).slots)
            assert first + second == 1
            method = {"schema": schema, "neighbors": neighbors}
            tree = dpi.quantile("x", method="tree").measurement(price / Fraction(4, 3), **method)
            lost = neighbors == "replace_one" and size / 2 <= 1.96 * largest_error(tree)
            assert first == (Fraction(9, 10) if lost else Fraction(1, 4))
            assert lost == (few and neighbors == "replace_one")


def test_where_noise_hides_the_rows_the_reader_is_told():
    data = dpi.PublicData(plain(1), SCHEMA, rng=np.random.default_rng(4))
    for kind in ("a median", "quantiles of a tree", "quantiles that are chosen"):
        flags = KINDS[kind](data=data).fit(dpi.GDP(0.2)).flags
        assert "privacy noise dominates the number of rows" in str(flags)
