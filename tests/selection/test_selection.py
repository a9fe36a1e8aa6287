"""Selection as asked: only the choice depends on rows, bad questions cost nothing, and labels come back as given."""

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.errors import (
    FormulaError,
    InferenceError,
    OptionError,
    SchemaError,
    UnknownColumnError,
)
from dpinfer.privacy.units import NEIGHBORS
from tests.questions import check_refused

SCHEMA = dpi.Schema(
    {
        "x": dpi.Real(0, 10),
        "k": dpi.Integer(-1, 3),
        "n": dpi.Integer(0, 500),
        "b": dpi.Boolean(),
        "c": dpi.Boolean(),
        "g": dpi.Category(["a", "b", "it's"]),
        "odd name": dpi.Boolean(),
    }
)
PRICES = [candidate / 2 for candidate in range(1, 19)]
QUERIES = {"high": "x > 8", "b": "b", 3: "g == 'a'"}
KINDS = {
    "worth": lambda **o: dpi.exponential_mechanism("candidate * (x >= candidate)", candidates=PRICES, **o),
    "texts": lambda **o: dpi.exponential_mechanism("(g == candidate) * x", candidates=["a", "it's"], where="b", **o),
    "one by one": lambda **o: dpi.exponential_mechanism({"low": "x < 3", 7: "x > 7", True: "k * b"}, **o),
    "a level": lambda **o: dpi.most_frequent("g", **o),
    "whole numbers": lambda **o: dpi.most_frequent("k", where="x > 2", **o),
    "yes or no": lambda **o: dpi.most_frequent("b", **o),
    "answers": lambda **o: dpi.most_frequent(["b", "c", "odd name"], **o),
    "thresholds": lambda **o: dpi.above_threshold({**QUERIES, "sum": "x * k"}, threshold=0, answers=2, **o),
}


def plain(rows=80):
    return SCHEMA.sample(rows, np.random.default_rng(8))


def guarded(frame=None, neighbors="add_remove", budget=None):
    frame = plain() if frame is None else frame
    return dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(budget or dpi.ZCDP(1.0), neighbors=neighbors))


# What is chosen


@pytest.mark.parametrize("price", [dpi.PureDP(1e6), dpi.ZCDP(1e9)], ids=str)
def test_with_hardly_any_noise_the_best_is_chosen(price):
    frame = plain(401).assign(b=lambda f: f["x"] > 4)
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(1))

    def chosen(kind):
        return KINDS[kind](data=data).fit(price).selected

    worth = {price: price * (frame["x"] >= price).sum() for price in PRICES}
    assert chosen("worth") == max(worth, key=worth.get)
    totals = frame[frame["b"]].groupby("g")["x"].sum()
    assert chosen("texts") == totals.loc[["a", "it's"]].idxmax()
    assert chosen("a level") == frame["g"].mode()[0]
    assert chosen("whole numbers") == frame["k"][frame["x"] > 2].mode()[0]
    assert chosen("yes or no") == bool(frame["b"].mode()[0])
    assert chosen("answers") == frame[["b", "c", "odd name"]].sum().idxmax()
    scores = {"low": (frame["x"] < 3).sum(), 7: (frame["x"] > 7).sum(), True: (frame["k"] * frame["b"]).sum()}
    assert chosen("one by one") == max(scores, key=scores.get)


def test_labels_come_back_with_their_type():
    given_labels = [1, 2.5, True, "1", np.int64(7), np.float64(0.5), np.bool_(False), -3, 1e-5]
    question = dpi.exponential_mechanism("x > 1", candidates=given_labels)
    assert [type(one) for one in question.candidates] == [int, float, bool, str, int, float, bool, int, float]
    assert question.candidates == tuple(given_labels)
    assert dpi.exponential_mechanism("x", candidates=np.arange(3)).candidates == (0, 1, 2)


def test_only_the_word_stands_for_the_candidate():
    asked = dpi.exponential_mechanism("candidate*x+candidates*1.5-my_candidate-`candidate`", candidates=[2, "a"])
    assert asked.scores == (
        "(2)*x+candidates*1.5-my_candidate-`candidate`",
        "('a')*x+candidates*1.5-my_candidate-`candidate`",
    )


def test_the_law_follows_the_price_unless_it_is_given():
    laws = {
        ("auto", dpi.PureDP(1.0)): "exponential",
        ("auto", dpi.ZCDP(1.0)): "gumbel",
        ("auto", dpi.ApproxDP(1.0, 1e-6)): "gumbel",
        ("exponential", dpi.PureDP(1.0)): "gumbel",
        ("permute_and_flip", dpi.GDP(1.0)): "exponential",
    }
    for (method, price), law in laws.items():
        measured = dpi.most_frequent("g", method=method).measurement(price, schema=SCHEMA)
        assert measured.law.family == law


def test_it_explains_what_it_would_do():
    data = guarded()
    text = dpi.most_frequent("g", data, where="x > 1").explain(dpi.PureDP(2.0))
    assert "question     most frequent g, where x > 1" in text
    assert "scores of 3 candidates: only the candidate with the largest noisy score" in text
    assert "adding or removing one row changes scores by amounts that differ by at most 1" in text
    assert "Exponential, added to scores that are not released, scale 0.5" in text
    assert "reads        g, x" in text
    assert "within 0.3466 (50%), 1.498 (95%) of the largest one" in text
    more = dpi.exponential_mechanism("x * candidate", candidates=[1, 2]).explain(
        dpi.ZCDP(0.5), schema=SCHEMA, neighbors="replace_one"
    )
    assert "replacing one row" in more
    assert "Gumbel" in more
    assert data.ledger.charges().empty


# What is refused

MECHANISM, FREQUENT, ABOVE = dpi.exponential_mechanism, dpi.most_frequent, dpi.above_threshold
TWO, ONE = {"candidates": [1, 2]}, {"threshold": 1}
BAD = {
    "no candidates": (MECHANISM, "x", {"candidates": []}, OptionError, "candidates="),
    "one candidate": (MECHANISM, "x", {"candidates": [1]}, OptionError, "candidates="),
    "one candidate twice": (MECHANISM, "x", {"candidates": [1, 2, 1]}, OptionError, "candidates="),
    "candidates left out": (MECHANISM, "x", {}, OptionError, "candidates="),
    "candidates of another type": (MECHANISM, "x", {"candidates": [[1], [2]]}, OptionError, "finite"),
    "no finite candidates": (MECHANISM, "x", {"candidates": [1.0, np.inf]}, OptionError, "finite"),
    "candidates twice": (MECHANISM, {"a": "x", "b": "k"}, {"candidates": ["a", "b"]}, OptionError, "candidates="),
    "scores too few": (MECHANISM, ["x"], TWO, OptionError, "score="),
    "a score of another type": (MECHANISM, 3, TWO, OptionError, "score="),
    "a constant score": (MECHANISM, "candidate", TWO, OptionError, "depends on col"),
    "an unbounded score": (MECHANISM, "candidate / x", TWO, FormulaError, "divisor"),
    "a score of other rows": (MECHANISM, "x.cumsum()", TWO, FormulaError, "cumsum"),
    "a score of an unknown column": (MECHANISM, "z > candidate", TWO, UnknownColumnError, "'z'"),
    "an unknown level": (MECHANISM, "g == candidate", {"candidates": ["a", "z"]}, FormulaError, "level"),
    "no condition on scores": (MECHANISM, "x", {**TWO, "where": "x + 1"}, FormulaError, "condition"),
    "an unknown method": (FREQUENT, "g", {"method": "laplace"}, OptionError, "permute_and_flip"),
    "a real": (FREQUENT, "x", {}, SchemaError, "'x' has no levels"),
    "a long integer": (FREQUENT, "n", {}, SchemaError, "'n' has no levels"),
    "an unknown column of votes": (FREQUENT, "z", {}, UnknownColumnError, "'z'"),
    "answers that are no yes or no": (FREQUENT, ["b", "g"], {}, SchemaError, "'g' is not Boolean"),
    "a column twice": (FREQUENT, ["b", "b"], {}, OptionError, "columns="),
    "no columns": (FREQUENT, [], {}, OptionError, "columns="),
    "no queries": (ABOVE, [], ONE, OptionError, "queries="),
    "a number for a query": (ABOVE, [3], ONE, OptionError, "queries="),
    "an empty query": (ABOVE, ["b", " "], ONE, OptionError, "queries="),
    "an empty mapping": (ABOVE, {}, ONE, OptionError, "queries="),
    "two of one label": (ABOVE, ["b", "b"], {"threshold": [1, 2]}, OptionError, "label"),
    "a label of another type": (ABOVE, {(1, 2): "b"}, ONE, OptionError, "labels"),
    "a query of an unknown column": (ABOVE, "z > 1", ONE, UnknownColumnError, "'z'"),
    "an unbounded query": (ABOVE, "1 / x", ONE, FormulaError, "divisor"),
    "a query of other rows": (ABOVE, "x.cumsum()", ONE, FormulaError, "cumsum"),
    "a constant query": (ABOVE, "3", ONE, OptionError, "depends on col"),
    "no condition on queries": (ABOVE, "b", {**ONE, "where": "x + 1"}, FormulaError, "condition"),
    "too few thresholds": (ABOVE, ["b", "k"], {"threshold": [1]}, OptionError, "threshold="),
    "a threshold for nobody": (ABOVE, {"p": "b"}, {"threshold": {"q": 1}}, OptionError, "threshold="),
}
BAD |= {
    f"threshold {bad!s:.6}": (ABOVE, "b", {"threshold": bad}, OptionError, "threshold=")
    for bad in ("many", True, None, np.inf, 10**400, np.nan)
}
BAD |= {f"answers {bad}": (ABOVE, "b", {**ONE, "answers": bad}, OptionError, "answers=") for bad in (0, 2, True)}


@pytest.mark.parametrize("name", BAD)
def test_bad_questions_are_refused_by_name_and_cost_nothing(name):
    for neighbors in NEIGHBORS:
        check_refused(guarded(neighbors=neighbors), *BAD[name])


def test_a_release_is_not_measured_and_answers_its_own_question_only():
    data = dpi.PublicData(plain(), SCHEMA, rng=np.random.default_rng(2))
    release = dpi.exponential_mechanism("x > candidate", data, candidates=[1, 2]).measure(dpi.PureDP(1.0))
    with pytest.raises(OptionError, match="only infers"):
        dpi.exponential_mechanism("x > candidate", release, candidates=[1, 2]).measure(dpi.PureDP(1.0))
    assert dpi.exponential_mechanism("x > candidate", release, candidates=[1, 2]).infer().selected in (1, 2)
    others = [
        dpi.exponential_mechanism("x > candidate", candidates=[1, 3]),
        dpi.exponential_mechanism("x > candidate", candidates=[2, 1]),
        dpi.exponential_mechanism("x > candidate", candidates=[1, 2], where="b"),
        dpi.cdf("x"),
    ]
    for other in others:
        with pytest.raises(InferenceError, match="another question"):
            other.infer(release)
    with pytest.raises(InferenceError, match="another question"):
        dpi.most_frequent("g", dpi.gram(["x"], data).measure(dpi.ZCDP(0.1))).infer()
    answers = dpi.most_frequent(["b", "c"], data).measure(dpi.PureDP(1.0))
    with pytest.raises(InferenceError, match="another question"):
        dpi.most_frequent(["c", "b"], answers).infer()
    with pytest.raises(OptionError, match="release="):
        dpi.most_frequent("g").infer()
