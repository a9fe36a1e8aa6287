"""Selection as asked: only the choice depends on rows, bad questions cost nothing, and labels come back as given."""

import logging
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.errors import (
    BudgetExceededError,
    DPInferError,
    FormulaError,
    InferenceError,
    OptionError,
    PrivacyUnitError,
    SchemaError,
    UnknownColumnError,
)
from dpinfer.privacy.units import NEIGHBORS
from tests.logs import charged
from tests.odd_cells import with_cells

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
KINDS = {
    "worth": lambda **o: dpi.exponential_mechanism("candidate * (x >= candidate)", candidates=PRICES, **o),
    "texts": lambda **o: dpi.exponential_mechanism("(g == candidate) * x", candidates=["a", "it's"], where="b", **o),
    "one by one": lambda **o: dpi.exponential_mechanism({"low": "x < 3", 7: "x > 7", True: "k * b"}, **o),
    "a level": lambda **o: dpi.most_frequent("g", **o),
    "whole numbers": lambda **o: dpi.most_frequent("k", where="x > 2", **o),
    "yes or no": lambda **o: dpi.most_frequent("b", **o),
    "answers": lambda **o: dpi.most_frequent(["b", "c", "odd name"], **o),
}


def plain(rows=80):
    return SCHEMA.sample(rows, np.random.default_rng(8))


FRAMES = {
    "NaN and infinity": lambda: with_cells(plain(), x=np.inf, g=np.nan, b=np.nan, k=-np.inf, n=np.nan),
    "text": lambda: with_cells(plain(), x="oops", b="maybe", n="12", g=3, k="1.5"),
    "objects": lambda: with_cells(plain(), x=object(), g=[1], b=b"x", k=pd.Timestamp("2020-01-01"), c=None),
    "no rows": lambda: plain(0),
    "one row": lambda: plain(1),
    "everything clamped": lambda: plain().assign(x=1e300, k=99, n=-1),
    "everything missing": lambda: pd.DataFrame(np.nan, index=range(80), columns=list(SCHEMA)),
    "everything the same": lambda: plain().assign(x=5.0, k=2, b=True, c=True, g="b"),
}


def guarded(frame=None, neighbors="add_remove", budget=None):
    frame = plain() if frame is None else frame
    return dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(budget or dpi.ZCDP(1.0), neighbors=neighbors))


def unspent(data):
    return data.ledger.charges().empty


def traced(kind, frame, neighbors):
    """Fit, and collect everything that can be seen apart from what was selected."""
    data = guarded(frame, neighbors)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        results = KINDS[kind](data=data).fit(dpi.ZCDP(0.5))
        assert str(results.summary())
    assert results.selected in results.candidates
    release = results.release
    (place,) = release.values  # noqa: PD011
    assert results.candidates[place] == results.selected
    return {
        "question": release.question,
        "names": (release.names, release.steps),
        "law": release.law,
        "cost": release.cost,
        "accuracy": results.accuracy(),
        "spent": data.ledger.spent,
        "warned": [str(one.message) for one in warned],
    }


@pytest.fixture(scope="module")
def usual():
    return {(kind, neighbors): traced(kind, plain(), neighbors) for kind in KINDS for neighbors in NEIGHBORS}


@pytest.mark.parametrize("name", FRAMES)
def test_only_the_choice_depends_on_the_rows(name, usual, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    start = sorted(FRAMES).index(name)
    for place, kind in enumerate(KINDS):
        neighbors = NEIGHBORS[(start + place) % 2]
        traced(kind, plain(), neighbors)
        logged = charged(caplog)
        trace = traced(kind, FRAMES[name](), neighbors)
        assert charged(caplog) == logged
        assert trace == usual[kind, neighbors]
        assert trace["warned"] == []
    assert tuple(capfd.readouterr()) == ("", "")


CELL = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | st.sampled_from(["a", "it's", "true"])


@settings(max_examples=20)
@given(st.sampled_from(sorted(KINDS)), st.lists(st.tuples(*[CELL] * len(SCHEMA)), max_size=4))
def test_no_cells_can_make_a_choice_fail(kind, rows):
    cells = np.empty((len(rows), len(SCHEMA)), dtype=object)
    for place, row in enumerate(rows):
        for column, cell in enumerate(row):
            cells[place, column] = cell
    data = dpi.PublicData(pd.DataFrame(cells, columns=list(SCHEMA), dtype=object), SCHEMA, rng=np.random.default_rng(0))
    results = KINDS[kind](data=data).fit(dpi.PureDP(0.5))
    assert results.selected in results.candidates


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
    assert "scores of 3 candidates: nothing but the one with the largest noisy score" in text
    assert "adding or removing one row changes scores by amounts that differ by at most 1" in text
    assert "exponential, added to scores that are not released, scale 0.5" in text
    assert "reads        g, x" in text
    assert "within 0.3466 (50%), 1.498 (95%) of the largest one" in text
    more = dpi.exponential_mechanism("x * candidate", candidates=[1, 2]).explain(
        dpi.ZCDP(0.5), schema=SCHEMA, neighbors="replace_one"
    )
    assert "replacing one row" in more
    assert "gumbel" in more
    assert unspent(data)


# What is refused

BAD = {
    "no candidates": (lambda d: dpi.exponential_mechanism("x", d, candidates=[]), OptionError, "candidates="),
    "one candidate": (lambda d: dpi.exponential_mechanism("x", d, candidates=[1]), OptionError, "candidates="),
    "one candidate twice": (
        lambda d: dpi.exponential_mechanism("x", d, candidates=[1, 2, 1]),
        OptionError,
        "candidates=",
    ),
    "candidates left out": (lambda d: dpi.exponential_mechanism("x", d), OptionError, "candidates="),
    "candidates of another type": (
        lambda d: dpi.exponential_mechanism("x", d, candidates=[[1], [2]]),
        OptionError,
        "finite",
    ),
    "no finite candidates": (
        lambda d: dpi.exponential_mechanism("x", d, candidates=[1.0, np.inf]),
        OptionError,
        "finite",
    ),
    "candidates beside a mapping": (
        lambda d: dpi.exponential_mechanism({"a": "x", "b": "k"}, d, candidates=["a", "b"]),
        OptionError,
        "candidates=",
    ),
    "scores too few": (lambda d: dpi.exponential_mechanism(["x"], d, candidates=[1, 2]), OptionError, "score="),
    "a score of another type": (lambda d: dpi.exponential_mechanism(3, d, candidates=[1, 2]), OptionError, "score="),
    "a constant score": (
        lambda d: dpi.exponential_mechanism("candidate", d, candidates=[1, 2]),
        OptionError,
        "depends on col",
    ),
    "an unbounded score": (
        lambda d: dpi.exponential_mechanism("candidate / x", d, candidates=[1, 2]),
        FormulaError,
        "divisor",
    ),
    "other rows": (lambda d: dpi.exponential_mechanism("x.cumsum()", d, candidates=[1, 2]), FormulaError, "cumsum"),
    "an unknown column": (
        lambda d: dpi.exponential_mechanism("z > candidate", d, candidates=[1, 2]),
        UnknownColumnError,
        "'z'",
    ),
    "an unknown level": (
        lambda d: dpi.exponential_mechanism("g == candidate", d, candidates=["a", "z"]),
        FormulaError,
        "level",
    ),
    "no condition": (
        lambda d: dpi.exponential_mechanism("x", d, candidates=[1, 2], where="x + 1"),
        FormulaError,
        "condition",
    ),
    "an unknown method": (lambda d: dpi.most_frequent("g", d, method="laplace"), OptionError, "permute_and_flip"),
    "a real": (lambda d: dpi.most_frequent("x", d), SchemaError, "'x' has no levels"),
    "a long integer": (lambda d: dpi.most_frequent("n", d), SchemaError, "'n' has no levels"),
    "an unknown column of votes": (lambda d: dpi.most_frequent("z", d), UnknownColumnError, "'z'"),
    "answers that are no yes or no": (lambda d: dpi.most_frequent(["b", "g"], d), SchemaError, "'g' is not Boolean"),
    "a column twice": (lambda d: dpi.most_frequent(["b", "b"], d), OptionError, "columns="),
    "no columns": (lambda d: dpi.most_frequent([], d), OptionError, "columns="),
    "data": (lambda d: dpi.most_frequent("g", plain()), OptionError, "data="),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_questions_are_refused_by_name_and_cost_nothing(name):
    ask, error, match = BAD[name]
    for neighbors in NEIGHBORS:
        data = guarded(neighbors=neighbors)
        with pytest.raises(error, match=match):
            ask(data)
        with pytest.raises(DPInferError):
            ask(None).bind(data).fit(dpi.ZCDP(0.1))
        assert unspent(data)


def test_bad_prices_cost_nothing():
    data = guarded()
    question = dpi.most_frequent("g", data)
    for price, error in (
        (0.1, OptionError),
        (dpi.ZCDP(0.0), PrivacyUnitError),
        (dpi.PureDP(0.0), PrivacyUnitError),
        (dpi.ZCDP(2.0), BudgetExceededError),
        (dpi.PureDP(1e-17), PrivacyUnitError),
    ):
        with pytest.raises(error):
            question.fit(price)
        assert unspent(data)
    question.fit(dpi.ZCDP(1.0))
    assert data.ledger.spent == dpi.ZCDP(1.0)


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
