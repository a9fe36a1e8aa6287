"""Results of sample-and-aggregate: what is shown and stored, predictions, and releases that are damaged."""

import json
import pickle
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
from dpinfer.resampling.aggregate import INVERSE_LINKS, AggregateResults, SampleAggregate
from dpinfer.resampling.blocks import block_size, small_blocks
from tests.asking import (
    assert_damage_is_refused,
    assert_nothing_is_stored_of,
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


@cache
def paid(rows=ROWS):
    data = dpi.PrivateData(FRAME.head(rows), SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(9.0)))
    question = dpi.sample_aggregate("y ~ x", data, model=smf.logit, bounds=dpi.Ball(4), blocks=20, n_jobs=1)
    return question.measure(dpi.ZCDP(2.0))


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
        "Sample and aggregate: the mean over 60 secret blocks",
        "each corrected for bias by its halves",
        "Intercept in [-4, 4]; x in [-3, 3]",
        "sampling and privacy noise both count",
    ):
        assert words in text, words


def test_simulated_noise_is_said_to_protect_nobody():
    simulated, bought = released().infer(), paid().infer()
    assert "this is not a private release" in " ".join(str(simulated.summary()).split())
    assert "none (public data)" in str(simulated.summary())
    assert "public data, no privacy" in repr(simulated)
    assert "not a private release" not in " ".join(str(bought.summary()).split())
    assert "ZCDP(rho=2.0)" in repr(bought)
    assert f"Ledger charge: {bought.release.charge_ids[0]}" in " ".join(str(bought.summary()).split())
    again = paid().simulate(np.random.default_rng(1))
    assert again.public
    assert "this is not a private release" in " ".join(str(again.infer().summary()).split())


def test_the_number_of_rows_is_shown_where_it_is_public_alone():
    hidden = released(neighbors="add_remove").infer()
    assert "not released" in str(hidden.summary())
    assert not hasattr(hidden, "nobs")
    assert released().infer().nobs == ROWS


@pytest.mark.parametrize("law", PRICES)
def test_the_frame_of_the_summary_is_that_of_the_series(law):
    results = released(law).infer()
    frame = results.summary_frame(alpha=0.1)
    assert list(frame.index) == ["Intercept", "x"]
    np.testing.assert_array_equal(frame["coef"], results.params)
    np.testing.assert_array_equal(frame["std err"], results.bse)
    np.testing.assert_array_equal(frame[["[0.05", "0.95]"]], results.conf_int(0.1))
    np.testing.assert_array_equal(frame["P>|t|"], results.pvalues)
    np.testing.assert_allclose(frame["std err"] ** 2, frame["std err (sampling)"] ** 2 + frame["std err (noise)"] ** 2)
    np.testing.assert_allclose(frame["noise share"], (results.bse_noise / results.bse) ** 2)
    assert (frame["coef"].between(frame["[0.05"], frame["0.95]"])).all()


@pytest.mark.parametrize("form", ["to_latex", "to_html", "to_markdown"])
def test_every_format_holds_every_number(form):
    results = released().infer()
    text = getattr(results, form)()
    for name, row in results.summary_frame().iterrows():
        assert name in text
        for column in ("coef", "std err"):
            assert f"{row[column]:.4f}" in text or f"{row[column]:.3f}" in text
    assert "this is not a private release" in " ".join(text.split())


def test_estimates_stand_beside_those_of_statsmodels():
    ordinary, results = smf.logit("y ~ x", FRAME.assign(y=FRAME["y"].astype(int))).fit(disp=0), released().infer()
    text = str(dpi.summary_table([results, ordinary], names=["private", "ordinary"]))
    for value in (results.params["x"], ordinary.params["x"]):
        assert f"{value:.4f}" in text


def test_the_plot_is_over_the_frame():
    results = released().infer()
    drawn = results.plot_coefficients()
    assert [tick.get_text() for tick in drawn.get_yticklabels()] == ["x"]
    frame = results.coefficient_frame()
    np.testing.assert_array_equal(frame[["lower", "upper"]], results.conf_int())
    assert (frame["sampling_lower"] > frame["lower"]).all()


# Tests


@pytest.mark.parametrize("law", PRICES)
def test_tests_agree_with_the_table(law):
    results = released(law).infer()
    single = results.t_test("x = 0")
    assert float(single.pvalue) == pytest.approx(results.pvalues["x"], rel=1e-9)
    np.testing.assert_allclose(single.conf_int(), results.conf_int().loc[["x"]])
    both = results.t_test("x - Intercept = 0.1")
    assert float(both.effect[0]) == pytest.approx(results.params["x"] - results.params["Intercept"])
    covariance = results.cov_params()
    variance = (
        covariance.loc["x", "x"] + covariance.loc["Intercept", "Intercept"] - 2 * covariance.loc["x", "Intercept"]
    )
    assert float(np.ravel(both.sd)[0]) == pytest.approx(np.sqrt(variance))
    joint = results.wald_test("x = 0, Intercept = 0")
    assert 0 < float(joint.pvalue) < (0.2 if law == "laplace" else 0.01)  # 3,000 rows with a slope of one half
    assert float(joint.statistic) * 2 >= float(results.tvalues["x"]) ** 2


def test_there_is_one_inference():
    results = released().infer()
    same = results.with_inference("wald")
    assert type(same) is AggregateResults
    pd.testing.assert_frame_equal(same.summary_frame(), results.summary_frame())
    for method in ("score", "simulated", "exact"):
        with pytest.raises(OptionError, match="expected one of 'auto', 'wald'"):
            results.with_inference(method)
        with pytest.raises(OptionError, match="'auto', 'wald'"):
            released().infer(inference=method)


def test_what_needs_rows_is_not_there():
    for name in ("llf", "aic", "resid", "fittedvalues", "rsquared"):
        assert not hasattr(released().infer(), name)


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


def test_the_question_survives_its_mapping_and_cannot_be_run():
    release = asking(released(), where="x > 0", nobs=None)
    question = SampleAggregate.from_release(release)
    fields = {name: value for name, value in release.question.items() if name not in ("procedure", "text", "schema")}
    assert question.to_dict() == fields
    assert question.text(SCHEMA) == "sample_aggregate: Logit of y ~ x, where x > 0"
    assert "Rows: x > 0." in release.infer().notes
    assert SampleAggregate.from_dict(json.loads(json.dumps(question.to_dict()))).to_dict() == fields
    data = dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(3), neighbors="replace_one")
    with pytest.raises(OptionError, match="the model itself"):
        question.bind(data).measure(dpi.ZCDP(1.0))


def test_what_was_run_is_stored_and_nothing_is_left_open():
    asked = released().question
    assert (asked["blocks"], asked["nobs"], asked["response"], asked["link"]) == (BLOCKS, ROWS, "y", "logit")
    assert asked["region"]["names"] == ["Intercept", "x"]
    assert "auto" not in (asked["blocks"], asked["aggregator"])


def test_what_is_stored_holds_nothing_of_the_rows():
    def stored(release):
        results = release.infer()
        return [pickle.dumps(one) for one in (release, results, results.summary())]

    packed = stored(paid())
    assert_nothing_is_stored_of(FRAME["x"].head(500).tolist(), [paid().to_json()], packed)
    assert not any(name in one for name in (b"DataFrame", b"statsmodels.discrete") for one in packed)
    # Noisy numbers differ in digits, and noisy scales choose how many bins there are: those are left out.
    # 2,700 rows would be 21 kB or more.
    few, many = (stored(replace(one, stages=(one.stages[0], *one.stages[::2]))) for one in (paid(300), paid()))
    assert all(abs(len(one) - len(other)) < 2000 for one, other in zip(few, many, strict=True))


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


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_that_lacks_or_does_not_fit_is_a_damaged_release(entry):
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


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("size", [0, 1, -1, 10**12, -(10**12), 10**18])
def test_extreme_sums_give_valid_results(law, size):
    release = released(law)
    count = len(release.stages[-1].values)
    for values in ([size] * count, [size * (-1) ** j for j in range(count)]):
        results = with_values(release, values).infer()
        frame = results.summary_frame()
        assert np.isfinite(frame[["coef", "std err"]]).all(axis=None)
        assert (frame["std err"] > 0).all()
        assert results.pvalues.between(0, 1).all()
        assert not results.conf_int().isna().any(axis=None)
        assert str(results.summary())
        assert results.t_test("x = 1").pvalue <= 1
        assert 0 <= float(results.wald_test("x = 1, Intercept = 0").pvalue) <= 1


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
    assert "An infinite end" in " ".join(str(results.summary()).split())
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
    assert "about 60 rows are advised" in told
    assert told in asking(released(), nobs=60 * 30).infer().flags
    assert small_blocks(None, 60, 2, halves=True) == ()
    assert not any("rows are advised" in flag for flag in asking(released(), nobs=None).infer().flags)
