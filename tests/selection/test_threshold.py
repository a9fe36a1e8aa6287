"""Comparisons with thresholds as asked: right answers, and labels and thresholds as given."""

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.errors import InferenceError
from tests.selection.test_selection import QUERIES, SCHEMA, guarded, plain


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
    text = dpi.above_threshold(QUERIES, guarded(), threshold=20, answers=2, where="x > 1").explain(dpi.PureDP(2.0))
    assert "question     the first 2 of 3 queries (high, b, 3) to be at least 20, where x > 1" in text
    assert "reaches its threshold, stopping after the first 2 that do; the sums are not released" in text
    assert "adding or removing one row changes each sum by at most 1, all in one direction" in text
    assert "discrete Laplace: one draw for all thresholds, scale 1.2937, and one for each sum, scale 1.62996" in text
    assert "right with probability 95%" in text
    more = dpi.above_threshold("x - 2", threshold=3).explain(dpi.ZCDP(0.5), schema=SCHEMA, neighbors="replace_one")
    assert "replacing one row changes each sum by at most 10" in more
    assert "in one direction" not in more


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
