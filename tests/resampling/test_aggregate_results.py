"""Results of sample-and-aggregate: what is shown and stored, predictions, and releases that are damaged."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import special
from statsmodels.miscmodels.ordinal_model import OrderedModel

import dpinfer as dpi
from dpinfer.errors import NotProvedError, OptionError, UnknownColumnError
from dpinfer.resampling.aggregate import INVERSE_LINKS, SampleAggregate
from dpinfer.resampling.blocks import block_size, small_blocks
from tests.asking import (
    assert_damage_is_refused,
    assert_other_sums_are_refused,
    damaged,
    read_and_infer,
)

ROWS, BLOCKS = 3000, 60
LEVELS = ["low", "mid", "high"]
SCHEMA = dpi.Schema(
    x=dpi.Real(-2, 2),
    z=dpi.Integer(1, 9),
    y=dpi.Boolean(),
    count=dpi.Integer(0, 60),
    level=dpi.Category(LEVELS),
)


def people():
    rng = np.random.default_rng(5)
    x, z = rng.uniform(-2, 2, ROWS), rng.integers(1, 10, ROWS)
    latent = 0.5 * x + 0.05 * z + rng.logistic(size=ROWS)
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "y": latent > 0,
            "count": rng.poisson(np.exp(0.5 * x)),
            "level": np.array(LEVELS, dtype=object)[np.digitize(latent, [-0.5, 1])],
        }
    )


FRAME = people()
PRICES = {"gaussian": dpi.ZCDP(1.0), "laplace": dpi.PureDP(8.0), "quiet": dpi.ZCDP(1e8)}


@cache
def released(law="gaussian", neighbors="replace_one"):
    data = dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(3), neighbors=neighbors)
    bounds = {"Intercept": (-4, 4), "x": (-3, 3)}
    return dpi.sample_aggregate("y ~ x", data, model=smf.logit, bounds=bounds, blocks=BLOCKS, nobs=ROWS).measure(
        PRICES[law]
    )


def asking(release, **changes):
    return replace(release, question={**release.question, **changes})


def with_values(release, values):
    return with_stage(release, values=tuple(values))


def with_stage(release, **changes):
    """Return the release with its last stage changed: sums over blocks, after those that locate them."""
    return replace(release, stages=(*release.stages[:-1], replace(release.stages[-1], **changes)))


# What is shown


def test_the_summary_says_what_was_done():
    text = " ".join(str(released().infer().summary()).split())
    for words in (
        "Private Logit",
        "3,000 (public)",
        "Neighbours: replace_one",
        "Sample and aggregate: the mean of the estimates of 60 secret blocks",
        "each bias-corrected by its halves",
        "Intercept in [-4, 4]; x in [-3, 3]",
        "sampling error and privacy noise",
    ):
        assert words in text, words


# Predictions


@pytest.mark.parametrize(
    ("link", "inverse"),
    [("identity", lambda x: x), ("logit", special.expit), ("probit", special.ndtr), ("log", np.exp)],
)
def test_predictions_go_through_the_link(link, inverse):
    results = asking(released(), link=link).infer()
    points = {"x": [-1.0, 0.0, 2.0]}
    found = results.get_prediction(points)
    design = np.column_stack([np.ones(3), points["x"]])
    np.testing.assert_allclose(found.predicted_mean, inverse(design @ results.params))
    ends = results.inference.intervals(design, 0.1)
    np.testing.assert_allclose(found.conf_int(alpha=0.1), inverse(ends))
    np.testing.assert_array_equal(results.predict(points), found.predicted_mean)
    assert set(INVERSE_LINKS) == {"identity", "logit", "probit", "log"}
    with pytest.raises(UnknownColumnError, match="'x'"):
        results.get_prediction({"z": [1.0]})


@pytest.mark.parametrize(
    ("model", "formula"),
    [(smf.mnlogit, "level ~ x"), (OrderedModel, "level ~ x"), (smf.negativebinomial, "count ~ x")],
)
def test_predictions_of_models_without_one_predictor_are_refused(model, formula):
    data = dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(3), neighbors="replace_one")
    question = dpi.sample_aggregate(formula, data, model=model, bounds=(-5, 5), blocks=8, bias_correction="none")
    results = question.fit(dpi.ZCDP(100.0))
    for predict in (results.get_prediction, results.predict):
        with pytest.raises(NotProvedError, match="not the coefficients of one linear predictor"):
            predict(dict.fromkeys(results.params.index, 0.0))


# Storage


def test_a_question_that_is_read_back_names_its_model_and_cannot_be_run():
    release = asking(released(), where="x > 0", nobs=None)
    question = SampleAggregate.from_release(release)
    assert question.text(SCHEMA) == "sample_aggregate: Logit of y ~ x, where x > 0"
    assert "Rows: x > 0." in release.infer().notes
    data = dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(3), neighbors="replace_one")
    with pytest.raises(OptionError, match="the model itself"):
        question.bind(data).measure(dpi.ZCDP(1.0))


def test_what_was_run_is_stored_and_nothing_is_left_open():
    asked = released().question
    assert (asked["blocks"], asked["nobs"], asked["response"], asked["link"]) == (BLOCKS, ROWS, "y", "logit")
    assert asked["region"]["names"] == ["Intercept", "x"]
    assert "auto" not in (asked["blocks"], asked["aggregator"])


# Releases that are damaged

JUNK = [None, "x", -0.5, [], {}, True, -1, 10**30, float("nan"), float("inf"), [1], ["a", "b"], [None, None], {"a": 1}]
FRAMES = "/stages.-1.settings."
ENTRIES = [
    *("text", "formula", "model", "model_options", "fit_options", "response", "region", "blocks", "bias_correction"),
    *("aggregator", "link", "where", "nobs", "inference", "schema"),
    *(f"{FRAMES}{name}" for name in ("center", "half", "located")),
    *(f"region.{name}" for name in ("names", "groups", "radii", "center")),
]
MISFITS = {
    "blocks": [1, 2**20 + 1, 60.0, "auto"],
    "nobs": [-1, float("inf")],
    "model_options": [{"q": 0.5}],
    "response": [None],
    "where": ["z > 3", "x"],
    "link": ["cauchit", ["logit"]],
    "aggregator": ["mean"],
    "region": [None],
    "region.names": [["Intercept", "z"], ["x", "Intercept"], ["Intercept", "x", "z"]],
    "region.groups": [[[0, 1]], [[0]], [[0], [0]]],
    "region.radii": [[4.0, -3.0], [4.0]],
    "region.center": [[0.0], [0.0, "a"]],
    f"{FRAMES}center": [[0.0], [0.0, None]],
    f"{FRAMES}half": [[1.0, 0.0], [1.0, -1.0], [1.0, float("inf")]],
    f"{FRAMES}located": [[True], [1, 0], "no"],
}
ALLOWED = {"link": [None], "where": [None], "nobs": [None], "formula": [[], ["a", "b"], "x"]}
ALLOWED |= {name: ["x"] for name in ("text", "model", "response")} | {"model_options": [{}], "fit_options": [{}]}


def test_an_entry_that_lacks_or_does_not_fit_is_a_damaged_release():
    for entry in ENTRIES:
        allowed = ALLOWED.get(entry, [])
        junk = [value for value in JUNK if value not in allowed or type(value) is bool]
        assert_damage_is_refused(released(), {entry: junk + MISFITS.get(entry, [])})
        for value in allowed:
            read_and_infer(damaged(released(), ("question", entry), value))


def test_sums_and_stages_that_lack_or_are_too_many_are_a_damaged_release():
    assert_other_sums_are_refused(released())
    stages = json.loads(released().to_json())["stages"]
    worse = {"/stages": [stages[1:], stages[-1:], stages[:-1], stages * 2], "/stages.0.sums.0.name": ["other"]}
    assert_damage_is_refused(released(), worse)


# Extreme releases


def test_sums_of_nothing_are_flagged():
    release = released()
    results = with_values(release, [0] * len(release.stages[-1].values)).infer()
    assert any("mostly privacy noise" in flag for flag in results.flags)
    np.testing.assert_array_equal(results.params, release.stages[-1].settings["center"])


@pytest.mark.parametrize("privacy", [dpi.ZCDP(1e-7), dpi.PureDP(1e-3)])
def test_huge_noise_gives_valid_results(privacy):
    for seed in range(5):
        data = dpi.PublicData(FRAME.head(300), SCHEMA, rng=np.random.default_rng(seed), neighbors="add_remove")
        results = dpi.sample_aggregate("y ~ x", data, model=smf.logit, bounds=dpi.Ball(4), blocks=12).fit(privacy)
        assert "bounded by the declared region" in results.notes[0]
        assert (results.noise_share > 0.5).all()
        assert not results.conf_int().isna().any(axis=None)
        assert (results.bse > 100).all()


def test_lost_blocks_give_unbounded_intervals():
    release = released("quiet")
    stage = release.stages[-1]
    place = stage.names.index("failed blocks")
    values = list(stage.values)
    values[place] = round(0.5 * BLOCKS / stage.steps[place])
    results = with_values(release, values).infer()
    assert np.isinf(results.conf_int()).all(axis=None)
    assert (results.pvalues == 1).all()
    assert "about 50% of the blocks" in str(results.flags)
    assert "An infinite limit" in " ".join(str(results.summary()).split())
    assert "inf" in results.to_html()


# The size of blocks


@pytest.mark.parametrize(
    ("rows", "size", "halves", "expected"),
    [
        (10_000, 1, True, 40.0),
        (160_000, 1, True, 80.0),
        (160_000, 16, True, 640.0),
        (10_000, 1, False, 300.0),
        (10_000, 4, False, 600.0),
        (100, 2, True, 60.0),
        (100, 2, False, 60.0),
    ],
)
def test_the_size_of_blocks_that_is_advised(rows, size, halves, expected):
    assert block_size(rows, size, halves=halves) == pytest.approx(expected)


def test_small_blocks_are_told():
    assert small_blocks(60 * 60, 60, 2, halves=True) == ()
    (told,) = small_blocks(60 * 30, 60, 2, halves=True)
    assert told.startswith("a block holds about 30 rows for 2 parameters")
    assert "about 60 rows are recommended" in told
    assert told in asking(released(), nobs=60 * 30).infer().flags
    assert small_blocks(None, 60, 2, halves=True) == ()
    assert not any("rows are recommended" in flag for flag in asking(released(), nobs=None).infer().flags)
