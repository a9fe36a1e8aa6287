"""Results of comparisons with thresholds: accuracy that holds, tables, and releases that are read back or refused."""

import itertools
import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import NotProvedError, OptionError, ReleaseFormatError
from dpinfer.release.laws import NoiseLaw
from tests.asking import assert_damage_is_refused

SCHEMA = dpi.Schema(a=dpi.Boolean(), b=dpi.Boolean(), c=dpi.Boolean())
COUNTS = {"a": 50, "b": 20, "c": 80}


def data_of(seed=1, neighbors="add_remove"):
    columns = {name: np.arange(100) < count for name, count in COUNTS.items()}
    return dpi.PublicData(pd.DataFrame(columns), SCHEMA, rng=np.random.default_rng(seed), neighbors=neighbors)


def fitted(threshold=45, **options):
    return dpi.above_threshold({"some": "a", "few": "b", "many_<&>|$": "c"}, data_of(), threshold=threshold,
                               **options).fit(dpi.PureDP(3.0))  # fmt: skip


@pytest.mark.parametrize(("neighbors", "answers"), [("add_remove", 1), ("replace_one", 3)])
def test_answers_are_wrong_as_rarely_as_is_said(neighbors, answers):
    """A wrong share of 1,000 above what is said by chance: probability 1e-6 over all cases.

    A true share of .3 in place of .2 is found with probability .98.
    """
    price, runs = dpi.PureDP(0.5), 1000
    question = dpi.above_threshold(["a", "b", "c"], threshold=0, answers=answers)
    near = question.bind(data_of(neighbors=neighbors)).fit(price).accuracy(0.2)
    for sign in (1, -1):
        data = data_of(seed=7, neighbors=neighbors)
        thresholds = [50 + sign * near, 0, 0]
        asked = dpi.above_threshold(["a", "b", "c"], data, threshold=thresholds, answers=answers)
        right = "below" if sign > 0 else "above"
        wrong = sum(asked.fit(price).answers[0] != right for _ in range(runs))
        assert wrong <= stats.binom.isf(1e-6 / 8, runs, 0.2)
        assert wrong >= stats.binom.ppf(1e-6 / 8, runs, 0.13)


def test_accuracy_is_monotone_and_joint_is_farther():
    found = fitted()
    assert found.accuracy(0.01) > found.accuracy(0.05) > found.accuracy(0.3)
    assert found.accuracy(0.05, joint=True) == found.accuracy(0.05 / 3)
    frame = found.accuracy_frame()
    assert frame["probability"].is_monotonic_decreasing
    assert frame["probability"].iloc[0] <= 0.5
    near = frame["distance"][frame["probability"] <= 0.05].min()
    assert near == pytest.approx(found.accuracy(0.05), abs=1)
    for bad in (0, 1, -1, True, "5%", None):
        with pytest.raises(OptionError, match="beta="):
            found.accuracy(bad)
    with pytest.raises(OptionError, match="joint="):
        found.accuracy(0.05, joint=1)


def test_it_prints_as_a_table_and_draws():
    found = fitted(answers=1)
    text = str(found.summary())
    flat = " ".join(text.split())
    assert f"some 45 above {found.accuracy():g}" in flat
    assert "few 45 not reached " in flat
    assert "Above: 1 (at most 1)" in flat
    assert "Queries after the first above have no answer. One answer was charged in advance." in flat
    assert "There is no p-value" in flat
    assert "&lt;&amp;&gt;" in found._repr_html_()
    assert "many" in found.summary().as_latex()
    assert "above" in found.summary().as_markdown()
    assert repr(found) == "<ThresholdResults: 1 of 3 above their thresholds, public data, no privacy>"
    frame = found.summary_frame()
    assert frame.index.tolist() == ["some", "few", "many_<&>|$"]
    assert frame["answer"].tolist() == ["above", "not reached", "not reached"]
    assert frame["clear from"].tolist() == [found.accuracy()] * 3
    assert (found.above, found.reached) == (("some",), 1)
    assert "distance" in found.plot().get_xlabel()
    plt.close("all")
    assert "not reached" not in str(fitted(threshold=500).summary())


def test_damaged_answers_and_laws_are_refused_and_none_is_simulated():
    release = fitted(answers=1).release
    for told in ([2, 0, 0], [1, 0, -1], [0, -1, -1], [0, 0, -1]):  # of which the last has too few
        stored = json.loads(release.to_json())
        for one, value in zip(stored["stages"][0]["sums"], told, strict=True):
            one["value"] = value
        with pytest.raises(ReleaseFormatError, match="does not hold answers to the queries"):
            dpi.Release.from_json(json.dumps(stored)).infer()
    assert_damage_is_refused(release, {"/stages.0.law.shared": [0.0, -1.0, "x", None]})
    with pytest.raises(NotProvedError):
        release.simulate(np.random.default_rng(1))
    assert release.noise_variances.tolist() == [0.0] * 3


def test_noise_that_is_shared_belongs_to_thresholds():
    for family in ("gaussian", "laplace", "gumbel"):
        with pytest.raises(OptionError, match="shared="):
            NoiseLaw(family, (1.0,), shared=1.0)
    law = NoiseLaw("above", (1.0, 1.0), shared=2.0)
    assert NoiseLaw.from_dict(law.to_dict()) == law


def test_all_answers_fit_a_release():
    base = fitted(answers=2).release
    stored = json.loads(base.to_json())
    for told in itertools.product((0, 1), repeat=3):
        ends = [place for place, one in enumerate(told) if one][1:2]
        values = [one if not ends or place <= ends[0] else -1 for place, one in enumerate(told)]
        for one, value in zip(stored["stages"][0]["sums"], values, strict=True):
            one["value"] = value
        assert dpi.Release.from_json(json.dumps(stored)).infer().reached == 3 - values.count(-1)
