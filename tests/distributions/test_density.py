"""Densities end to end: only released numbers depend on rows; what is right without noise; results."""

import copy
import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.distributions.density import density
from dpinfer.errors import InferenceError, OptionError, ReleaseError, SchemaError
from dpinfer.privacy.units import NEIGHBORS
from tests.asking import assert_damage_is_refused

SCHEMA = dpi.Schema(x=dpi.Real(0, 10), k=dpi.Integer(0, 30), full=dpi.Real(0, 10, missing=5, impossible=5))
QUIET = dpi.PureDP(200.0)
"""A price at which a count of whole rows has no noise but with probability e^-170 or so."""


def frame_of(rows=3000, rng=None):
    rng = np.random.default_rng(1) if rng is None else rng
    x = rng.beta(2, 5, rows) * 10
    return pd.DataFrame({"x": x, "k": rng.binomial(30, 0.3, rows), "full": x})


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("column", ["x", "full"])
def test_without_noise_it_is_the_histogram_of_numpy(neighbors, column):
    frame = frame_of()
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(3), neighbors=neighbors)
    for bins in (8, [1.0, 1.5, 4, 9.25]):
        results = density(column, data, bins=bins).fit(QUIET)
        expected, edges = np.histogram(frame[column], bins if bins != 8 else np.linspace(0, 10, 9), density=True)
        np.testing.assert_allclose(results.edges, edges)
        np.testing.assert_allclose(results.frame()["density"], expected, rtol=1e-12)
    results = density(column, data).fit(QUIET)
    expected, _ = np.histogram(frame[column], results.edges, density=True)
    np.testing.assert_allclose(results.frame()["density"], expected, rtol=1e-12)
    assert 5 <= results.bins <= 60
    assert results.nobs == 3000
    assert results.nobs_is_public == (neighbors == "replace_one" and column == "full")


def test_whole_numbers_are_counted_by_whole_numbers():
    frame = frame_of()
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(3))
    results = density("k", data, bins=31).fit(QUIET)
    shares = np.bincount(frame["k"], minlength=31) / 3000
    np.testing.assert_allclose(results.frame()["density"], shares)
    np.testing.assert_allclose(results.density(np.arange(31)), shares)
    coarse = density("k", data, bins=[0, 10, 20, 30]).fit(QUIET)
    np.testing.assert_allclose(coarse.density([0, 9, 10, 30]) * [10, 10, 10, 11], [
        shares[:10].sum(), shares[:10].sum(), shares[10:20].sum(), shares[20:].sum()
    ])  # fmt: skip


def test_where_and_edges_leave_rows_out():
    frame = frame_of()
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(3), neighbors="replace_one")
    results = density("full", data, bins=[2, 3, 5], where="k > 9").fit(QUIET)
    kept = frame.loc[(frame["k"] > 9) & frame["full"].between(2, 5), "full"]
    np.testing.assert_allclose(results.frame()["density"], np.histogram(kept, [2, 3, 5], density=True)[0])
    assert results.nobs == len(kept)
    assert not results.nobs_is_public


def test_one_bin_of_a_public_number_of_rows_tells_nothing():
    with pytest.raises(OptionError):
        density("full", bins=1).measurement(dpi.ZCDP(0.1), schema=SCHEMA, neighbors="replace_one")
    found = density("x", bins=1).measurement(dpi.ZCDP(0.1), schema=SCHEMA, neighbors="replace_one")
    assert len(found.law.scales) == 1


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("bins", ["auto", 12])
def test_explanations_come_before_anything_is_spent(neighbors, bins):
    ledger = dpi.Ledger.in_memory(dpi.PureDP(1.0), neighbors=neighbors)
    question = density("full", dpi.PrivateData(frame_of(50), SCHEMA, ledger), bins=bins)
    told = question.explain(dpi.PureDP(0.5))
    assert "density of full" in told
    assert "0.5-DP" in told
    assert "standard deviation of the noise" in told
    assert ("the number of rows" in told.splitlines()[-2]) == (bins == "auto" and neighbors == "add_remove")
    assert ledger.spent == dpi.PureDP(0.0)


def test_a_release_answers_its_own_question_alone():
    data = dpi.PublicData(frame_of(), SCHEMA, rng=np.random.default_rng(3))
    release = density("x", data).measure(dpi.ZCDP(0.1))
    assert density("x", release).infer().bins == release.infer().bins
    assert density("x", target="data").infer(release).target == "data"
    for other in (density("k"), density("x", bins=7), density("x", where="k > 3")):
        with pytest.raises(InferenceError):
            other.infer(release)
    with pytest.raises(InferenceError):
        density("x").infer(dpi.gram(["x"], data).measure(dpi.ZCDP(0.1)))


def test_questions_are_refused():
    for options in ({"column": ""}, {"column": 3}, {"column": "x", "target": "rows"}):
        with pytest.raises(OptionError, match=list(options)[-1]):
            density(**options)
    with pytest.raises(SchemaError):
        density("b").measurement(dpi.ZCDP(0.1), schema=dpi.Schema(b=dpi.Boolean()))


# Results

ASKED = {
    "chosen": density("x"),
    "chosen, n may be public": density("full"),
    "chosen, whole numbers": density("k", where="x > 1"),
    "equal": density("x", bins=9, target="data"),
}
PRICES = {"pure": dpi.PureDP(0.5), "zcdp": dpi.ZCDP(0.02)}


def results_of(kind="chosen", price="pure", neighbors="add_remove", rows=4000):
    rng = np.random.default_rng(4)
    data = dpi.PublicData(frame_of(rows, rng), SCHEMA, rng=rng, neighbors=neighbors)
    return ASKED[kind].bind(data).fit(PRICES[price])


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
    assert results_of("chosen", rows=0).flags == ("privacy noise is so large that there may be no row at all",)
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


CHOSEN = {
    "no settings": settings({}, {}),
    "settings without a width": settings({"fine": 4}, {}),
    "another width": settings({"fine": 32}, {"width": 64}),
    "a width of text": settings({"fine": 32}, {"width": "64"}),
    "a width of zero": settings({"fine": 0}, {"width": 0}),
    "other neighbours": lambda stored: stored.update(neighbors="replace_one", nobs=4000),
}
"""Damage to what given bins do not have: no width is chosen, and counts are the same under either relation."""

DAMAGE = {
    "too few counts": staged(lambda one: (one["sums"].pop(), one["law"]["scales"][-1].__setitem__(1, 0))),
    "a count less": staged(lambda one: (one["sums"].pop(), shorten(one["law"]["scales"]))),
    "other names": staged(lambda one: one["sums"][1].__setitem__("name", "fine")),
    "no noise": staged(lambda one: [run.__setitem__(0, 0.0) for run in one["law"]["scales"]]),
    "another law": staged(lambda one: one["law"].__setitem__("family", "tulap")),
    "huge counts": staged(lambda one: one["sums"][2].__setitem__("value", 10**30)),
    "one stage more": lambda stored: stored["stages"].insert(0, copy.deepcopy(stored["stages"][0])),
    "a choice before": lambda stored: stored["stages"].insert(0, copy.deepcopy(CHOICE)),
}
WORSE = {
    "column": [None, "k", "nope"],
    "bins": ["some", 12, [0, 1, "x"]],
    "where": ["x +", 3],
    "target": ["sample"],
}


@pytest.mark.parametrize(("kind", "damage"), [("chosen, n may be public", DAMAGE | CHOSEN), ("equal", DAMAGE)])
def test_damaged_releases_are_refused(kind, damage):
    release = results_of(kind).release
    assert_damage_is_refused(release, WORSE)
    for name, change in damage.items():
        stored = json.loads(release.to_json())
        change(stored)
        with pytest.raises(ReleaseError):
            pytest.fail(f"{name}: {dpi.Release.from_json(json.dumps(stored)).infer()!r}")
