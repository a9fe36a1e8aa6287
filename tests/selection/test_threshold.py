"""Comparisons with thresholds as asked: labels and thresholds as given, bad questions cost nothing, and no leak."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.errors import DPInferError, FormulaError, InferenceError, OptionError, UnknownColumnError
from dpinfer.privacy.units import NEIGHBORS

SCHEMA = dpi.Schema(x=dpi.Real(0, 10), k=dpi.Integer(-1, 3), b=dpi.Boolean(), g=dpi.Category(["a", "b"]))
QUERIES = {"high": "x > 8", "b": "b", 3: "g == 'a'"}


def plain(rows=80):
    return SCHEMA.sample(rows, np.random.default_rng(8))


def guarded(neighbors="add_remove"):
    return dpi.PrivateData(plain(), SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(1.0), neighbors=neighbors))


def public(frame=None):
    return dpi.PublicData(plain() if frame is None else frame, SCHEMA, rng=np.random.default_rng(0))


def test_with_hardly_any_noise_the_answers_are_right():
    frame = plain(401)
    counts = [(frame["x"] > 8).sum(), frame["b"].sum(), (frame["g"] == "a").sum()]
    for shift, told in ((0, "above"), (1, "below")):
        thresholds = [int(one) + shift for one in counts]
        found = dpi.above_threshold(QUERIES, public(frame), threshold=thresholds, answers=3).fit(dpi.PureDP(500))
        assert found.answers == (told,) * 3
        assert found.thresholds == tuple(thresholds)
    total = frame["x"].sum()
    for threshold, told in ((total - 0.1, "above"), (total + 0.1, "below")):
        found = dpi.above_threshold("x", public(frame), threshold=threshold).fit(dpi.PureDP(1e4))
        assert found.answers == (told,)


def test_other_rows_do_not_count():
    frame = plain().assign(b=True, x=9.0)
    frame.loc[:9, "b"] = False
    for where, told in ((None, "above"), ("b", "below")):
        asked = dpi.above_threshold("x > 8", public(frame), threshold=80, where=where)
        assert asked.fit(dpi.PureDP(200)).answers == (told,)


def test_labels_and_thresholds_come_back_as_given():
    one = dpi.above_threshold(QUERIES, threshold={"b": 2, 3: np.float64(7.5), "high": np.int64(4)})
    assert one.labels == ("high", "b", 3)
    assert [type(threshold) for threshold in one.threshold] == [int, int, float]
    assert one.threshold == (4, 2, 7.5)
    assert dpi.above_threshold(["b", "x > 2"], threshold=5).labels == ("b", "x > 2")
    assert dpi.above_threshold("b", threshold=np.array([5])).threshold == (5,)
    assert dpi.above_threshold(("b", "k"), threshold=[1, 2]).queries == ("b", "k")


def test_it_explains_what_it_would_do():
    data = guarded()
    text = dpi.above_threshold(QUERIES, data, threshold=20, answers=2, where="x > 1").explain(dpi.PureDP(2.0))
    assert "question     the first 2 of 3 queries (high, b, 3) to be at least 20, where x > 1" in text
    assert "whether it is at least its threshold, up to 2 that are: nothing of the sums" in text
    assert "adding or removing one row changes each sum by at most 1, all in one direction" in text
    assert "discrete Laplace, on all thresholds the same draw, scale 1.2937, and on each sum, scale 1.62996" in text
    assert "right with probability 95%" in text
    more = dpi.above_threshold("x - 2", threshold=3).explain(dpi.ZCDP(0.5), schema=SCHEMA, neighbors="replace_one")
    assert "replacing one row changes each sum by at most 10" in more
    assert "in one direction" not in more
    assert data.ledger.charges().empty


CELL = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | st.sampled_from(["a", "true", "z"])


@settings(max_examples=20)
@given(st.lists(st.tuples(*[CELL] * len(SCHEMA)), max_size=4))
def test_no_cells_can_make_it_fail_or_change_its_length(rows):
    cells = np.empty((len(rows), len(SCHEMA)), dtype=object)
    for place, row in enumerate(rows):
        for column, cell in enumerate(row):
            cells[place, column] = cell
    data = public(pd.DataFrame(cells, columns=list(SCHEMA), dtype=object))
    found = dpi.above_threshold({**QUERIES, "sum": "x*k"}, data, threshold=0).fit(dpi.PureDP(0.5))
    assert len(found.answers) == 4
    assert set(found.answers) <= {"above", "below", "not reached"}


BAD = {
    "no queries": (lambda d: dpi.above_threshold([], d, threshold=1), OptionError, "queries="),
    "a number for a query": (lambda d: dpi.above_threshold([3], d, threshold=1), OptionError, "queries="),
    "an empty query": (lambda d: dpi.above_threshold(["b", " "], d, threshold=1), OptionError, "queries="),
    "an empty mapping": (lambda d: dpi.above_threshold({}, d, threshold=1), OptionError, "queries="),
    "two of one label": (lambda d: dpi.above_threshold(["b", "b"], d, threshold=[1, 2]), OptionError, "label"),
    "a label of another type": (lambda d: dpi.above_threshold({(1, 2): "b"}, d, threshold=1), OptionError, "labels"),
    "an unknown column": (lambda d: dpi.above_threshold("z > 1", d, threshold=1), UnknownColumnError, "'z'"),
    "an unbounded query": (lambda d: dpi.above_threshold("1 / x", d, threshold=1), FormulaError, "divisor"),
    "other rows": (lambda d: dpi.above_threshold("x.cumsum()", d, threshold=1), FormulaError, "cumsum"),
    "a constant": (lambda d: dpi.above_threshold("3", d, threshold=1), OptionError, "depends on col"),
    "no condition": (lambda d: dpi.above_threshold("b", d, threshold=1, where="x + 1"), FormulaError, "condition"),
    "a threshold in words": (lambda d: dpi.above_threshold("b", d, threshold="many"), OptionError, "threshold="),
    "a true threshold": (lambda d: dpi.above_threshold("b", d, threshold=True), OptionError, "threshold="),
    "no threshold": (lambda d: dpi.above_threshold("b", d, threshold=None), OptionError, "threshold="),
    "an infinite threshold": (lambda d: dpi.above_threshold("b", d, threshold=np.inf), OptionError, "threshold="),
    "a huge threshold": (lambda d: dpi.above_threshold("b", d, threshold=10**400), OptionError, "threshold="),
    "a threshold that is none": (lambda d: dpi.above_threshold("b", d, threshold=np.nan), OptionError, "threshold="),
    "too few thresholds": (lambda d: dpi.above_threshold(["b", "k"], d, threshold=[1]), OptionError, "threshold="),
    "a threshold for nobody": (
        lambda d: dpi.above_threshold({"p": "b"}, d, threshold={"q": 1}),
        OptionError,
        "threshold=",
    ),
    "no answers": (lambda d: dpi.above_threshold("b", d, threshold=1, answers=0), OptionError, "answers="),
    "too many answers": (lambda d: dpi.above_threshold("b", d, threshold=1, answers=2), OptionError, "answers="),
    "a true answer": (lambda d: dpi.above_threshold("b", d, threshold=1, answers=True), OptionError, "answers="),
    "data": (lambda d: dpi.above_threshold("b", plain(), threshold=1), OptionError, "data="),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_questions_are_refused_by_name_and_cost_nothing(name):
    ask, error, match = BAD[name]
    for neighbors in NEIGHBORS:
        data = guarded(neighbors)
        with pytest.raises(error, match=match):
            ask(data)
        with pytest.raises(DPInferError):
            ask(None).bind(data).fit(dpi.ZCDP(0.1))
        assert data.ledger.charges().empty


def test_a_release_answers_its_own_question_only():
    release = dpi.above_threshold(["b", "x > 2"], public(), threshold=[3, 4]).measure(dpi.PureDP(1.0))
    assert release.kind == "above_threshold"
    assert dpi.above_threshold({"yes": "b", "far": "x > 2"}, release, threshold=[3, 4]).infer().labels == ("yes", "far")
    others = [
        dpi.above_threshold(["b", "x > 2"], threshold=[3, 5]),
        dpi.above_threshold(["x > 2", "b"], threshold=[3, 4]),
        dpi.above_threshold(["b", "x > 2"], threshold=[3, 4], answers=2),
        dpi.above_threshold(["b", "x > 2"], threshold=[3, 4], where="b"),
        dpi.most_frequent("b"),
    ]
    for other in others:
        with pytest.raises(InferenceError, match="another question"):
            other.infer(release)
