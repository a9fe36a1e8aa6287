"""Results of densities: what a reader gets from a release, and releases that are damaged."""

import copy
import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.distributions.density import density
from dpinfer.errors import InferenceError, OptionError, ReleaseError
from dpinfer.privacy.units import NEIGHBORS

SCHEMA = dpi.Schema(x=dpi.Real(0, 10), k=dpi.Integer(0, 30), full=dpi.Real(0, 10, missing=5, impossible=5))
ASKED = {
    "chosen": density("x"),
    "chosen, n may be public": density("full"),
    "chosen, whole numbers": density("k", where="x > 1"),
    "equal": density("x", bins=9, target="data"),
    "edges": density("k", bins=[0, 3, 7, 30]),
}
PRICES = {"pure": dpi.PureDP(0.5), "zcdp": dpi.ZCDP(0.02), "approximate": dpi.ApproxDP(1.0, 1e-6)}


def results_of(kind="chosen", price="pure", neighbors="add_remove", rows=4000):
    rng = np.random.default_rng(4)
    x = rng.beta(2, 5, rows) * 10
    frame = pd.DataFrame({"x": x, "k": rng.binomial(30, 0.3, rows), "full": x})
    data = dpi.PublicData(frame, SCHEMA, rng=rng, neighbors=neighbors)
    return ASKED[kind].bind(data).fit(PRICES[price])


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("kind", ASKED)
def test_a_saved_release_gives_the_same_results(kind, price, neighbors, tmp_path):
    results = results_of(kind, price, neighbors)
    results.release.save(tmp_path / "release.json")
    read = dpi.read_release(tmp_path / "release.json")
    assert read == results.release
    again = read.infer()
    pd.testing.assert_frame_equal(again.frame(), results.frame())
    assert str(again.summary()) == str(results.summary())
    assert ASKED[kind].infer(read).target == results.target
    simulated = read.simulate(np.random.default_rng(1)).infer()
    assert simulated.release.names == read.names


def damaged(release, change):
    stored = json.loads(release.to_json())
    change(stored)
    return json.dumps(stored)


def put(key, value):
    return lambda stored: stored["question"].__setitem__(key, value)


def staged(change):
    return lambda stored: change(stored["stages"][-1])


def settings(*given):
    def change(stored):
        for stage, one in zip(stored["stages"][-2:], given, strict=True):
            stage["settings"] = one

    return change


def shorten(scales):
    scales[-1][1] -= 1


CHOICE = {
    "settings": {},
    "law": {"family": "gumbel", "scales": [[1.0, 1]]},
    "sums": [{"name": "selected", "value": 0, "step": 1.0}],
}

DAMAGE = {
    "no column": put("column", None),
    "another column": put("column", "k"),
    "an unknown column": put("column", "nope"),
    "bins as text": put("bins", "some"),
    "other bins": put("bins", 12),
    "edges": put("bins", [0, 1, "x"]),
    "where": put("where", "x +"),
    "where as a number": put("where", 3),
    "target": put("target", "sample"),
    "no settings": settings({}, {}),
    "settings without a width": settings({"fine": 4}, {}),
    "another width": settings({"fine": 32}, {"width": 64}),
    "a width of text": settings({"fine": 32}, {"width": "64"}),
    "a width of zero": settings({"fine": 0}, {"width": 0}),
    "too few counts": staged(lambda one: (one["sums"].pop(), one["law"]["scales"][-1].__setitem__(1, 0))),
    "a count less": staged(lambda one: (one["sums"].pop(), shorten(one["law"]["scales"]))),
    "other names": staged(lambda one: one["sums"][1].__setitem__("name", "fine")),
    "no noise": staged(lambda one: [run.__setitem__(0, 0.0) for run in one["law"]["scales"]]),
    "another law": staged(lambda one: one["law"].__setitem__("family", "tulap")),
    "huge counts": staged(lambda one: one["sums"][2].__setitem__("value", 10**30)),
    "one stage more": lambda stored: stored["stages"].insert(0, copy.deepcopy(stored["stages"][0])),
    "a choice before": lambda stored: stored["stages"].insert(0, copy.deepcopy(CHOICE)),
    "other neighbours": lambda stored: stored.update(neighbors="replace_one", nobs=4000),
}


CHOSEN = {case for case in DAMAGE if "settings" in case or "width" in case or case == "other neighbours"}
"""Damage to what given bins do not have: no width is chosen, and counts are the same under either relation."""


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_releases_are_refused(case):
    text = damaged(results_of("chosen, n may be public").release, DAMAGE[case])
    with pytest.raises(ReleaseError):
        dpi.Release.from_json(text).infer()


@pytest.mark.parametrize("case", sorted(set(DAMAGE) - CHOSEN))
def test_damaged_releases_of_given_bins_are_refused(case):
    text = damaged(results_of("equal").release, DAMAGE[case])
    with pytest.raises(ReleaseError):
        dpi.Release.from_json(text).infer()


def test_the_density_is_evaluated():
    results = results_of("equal")
    frame = results.frame()
    middle = 0.5 * (frame["lower"] + frame["upper"])
    np.testing.assert_array_equal(results.density(middle), frame["density"])
    np.testing.assert_array_equal(results.density(middle, projected=True), frame["projected"])
    np.testing.assert_array_equal(results.density(frame["lower"]), frame["density"])
    assert results.density(10.0) == frame["density"].iloc[-1]
    assert results.density([-0.1, 10.1]).tolist() == [0.0, 0.0]
    assert np.isnan(results.density([[np.nan]])).tolist() == [[True]]


@pytest.mark.parametrize("price", ["pure", "zcdp"])
def test_merged_bins_are_sums_of_the_measured_ones(price):
    for seed_rows in (300, 900, 4000, 20_000):
        results = results_of("chosen", price, rows=seed_rows)
        measured = results.unmerged()
        merged = measured.bins // results.bins
        assert measured.bins == merged * results.bins
        fine = measured.frame()["density"].to_numpy().reshape(results.bins, merged)
        np.testing.assert_allclose(results.frame()["density"], fine.mean(axis=1), atol=1e-12)
        np.testing.assert_array_equal(results.edges, measured.edges[::merged])
        assert measured.bins == 3840 // results.release.stages[-1].settings["width"]


def test_frame_columns_hold_together():
    results = results_of("chosen")
    frame, wide = results.frame(), results.frame(0.01)
    assert list(frame.columns)[:4] == ["lower", "upper", "density", "projected"]
    np.testing.assert_allclose(frame["std err"] ** 2, frame["std err (sampling)"] ** 2 + frame["std err (noise)"] ** 2)
    assert (wide["[0.005"] <= frame["[0.025"]).all()
    assert (wide["0.995]"] >= frame["0.975]"]).all()
    with pytest.raises(OptionError):
        results.frame(1.5)


def test_target_data_has_no_sampling_error():
    release = results_of("chosen").release
    population, rows = release.infer(), release.infer(target="data")
    assert (rows.frame()["noise share"] == 1).all()
    assert rows.integrated_squared_error.sampling == 0
    assert population.integrated_squared_error.sampling > 0
    assert (rows.frame()["std err"] < population.frame()["std err"]).all()
    with pytest.raises(OptionError, match="target"):
        release.infer(target="rows")


def test_errors_of_given_bins_leave_the_bias_open():
    given = results_of("equal").integrated_squared_error
    assert given.bias is None
    assert given.total is None
    chosen = results_of("chosen").integrated_squared_error
    assert chosen.total == chosen.sampling + chosen.noise + chosen.bias
    assert chosen.bias_error > 0


def test_warnings_tell_of_bins_that_noise_hides():
    assert results_of("chosen", rows=0).flags == ("there may be no row at all, for all that the noise allows to tell",)
    assert not results_of("equal").flags
    few = results_of("equal", rows=60)
    assert few.frame()["hidden"].sum() * 2 > few.bins
    assert "bins may be empty" in few.flags[0]


def test_summaries_say_what_was_done():
    text = str(results_of("chosen, whole numbers").summary())
    for words in ("chosen privately", "(noisy)", "per whole number", "Rows: x > 1", "pointwise", "from bias"):
        assert words in text
    assert "given" in str(results_of("equal").summary())
    assert "(public)" in str(results_of("chosen, n may be public", neighbors="replace_one").summary())
    assert "One bin in" in str(results_of("chosen", rows=100_000).unmerged().summary())


def test_plots_draw_the_frame():
    results = results_of("chosen")
    axes = results.plot(alpha=0.1)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[0].startswith("90% interval")
    outline = axes.patches[-1].get_data()
    np.testing.assert_allclose(outline.values, results.frame()["density"])
    np.testing.assert_allclose(outline.edges, results.edges)
    own = plt.figure().add_subplot()
    assert results.plot(own) is own
    plt.close("all")


def test_another_kind_of_release_is_refused():
    data = dpi.PublicData(pd.DataFrame({"x": [1.0, 2.0]}), dpi.Schema(x=dpi.Real(0, 10)), rng=np.random.default_rng(1))
    release = dpi.gram(["x"], data).measure(dpi.ZCDP(1.0))
    with pytest.raises(InferenceError):
        density("x").infer(release)
