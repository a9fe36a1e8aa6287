"""Exact proportions: refusals that cost nothing, rows that do not show, tests that agree with intervals, coverage."""

import dataclasses
import logging
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import (
    DPInferError,
    FormulaError,
    InferenceError,
    NotProvedError,
    OptionError,
    ReleaseFormatError,
    UnknownColumnError,
)
from dpinfer.release.laws import TULAP_GRID, NoiseLaw
from dpinfer.statistics.inference import Released
from tests.logs import charged

SCHEMA = dpi.Schema(
    s=dpi.Boolean(missing=False, impossible=False),
    x=dpi.Real(0, 10, missing=0, impossible=0),
    g=dpi.Category(["a", "b"], missing="a", impossible="a"),
    w=dpi.Real(0, 2, missing=1, impossible=1),
    loose=dpi.Boolean(),
    half=dpi.Boolean(missing=False),
)
PRICE = dpi.PureDP(1.0)


def plain(rows=100):
    rng = np.random.default_rng(1)
    return SCHEMA.sample(rows, rng).assign(s=rng.random(rows) < 0.2)


def simulated(frame=None, **options):
    source = plain() if frame is None else frame
    return dpi.PublicData(source, SCHEMA, **({"rng": np.random.default_rng(2), "neighbors": "replace_one"} | options))


def guarded(budget=PRICE, neighbors="replace_one", frame=None):
    source = plain() if frame is None else frame
    return dpi.PrivateData(source, SCHEMA, dpi.Ledger.in_memory(budget, neighbors=neighbors))


def exact(column="s", data=None, **options):
    return dpi.proportion(column, data, inference="exact", **options)


# Refusals cost nothing

REFUSED = {
    "cells that drop rows": (lambda d: exact("loose", d), NotProvedError, "'loose'.*inference=\"score\""),
    "impossible cells that drop rows": (lambda d: exact("half", d), NotProvedError, "impossible= constants for 'half'"),
    "one column of a condition": (lambda d: exact("s & loose", d), NotProvedError, "'loose'"),
    "groups": (lambda d: exact("s", d, by="g"), NotProvedError, "^by="),
    "a condition on rows": (lambda d: exact("s", d, where="x > 2"), NotProvedError, "^where="),
    "weights": (lambda d: exact("s", d, weights="w"), NotProvedError, "^weights="),
    "the data": (lambda d: exact("s", d, target="data"), NotProvedError, 'target="data"'),
    "another target": (lambda d: exact("s", d, target="sample"), OptionError, "target='sample'"),
    "a number": (lambda d: exact("x", d), FormulaError, "^x: is not a condition"),
    "a constant": (lambda d: exact("1 < 2", d), FormulaError, "^1 < 2: is not a condition"),
    "a category": (lambda d: exact("g", d), FormulaError, "^g: .*g == 'a'"),
    "an unknown column": (lambda d: exact("smokes", d), UnknownColumnError, "'smokes'"),
    "several columns": (lambda d: exact(["s", "g"], d), OptionError, "column="),
    "another inference": (lambda d: dpi.proportion("s", d, inference="bayes"), OptionError, "inference=.*'exact'"),
}


def unspent(data):
    return data.ledger.remaining == data.ledger.budget and data.ledger.charges().empty


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_exact_interval_is_refused_by_name_and_costs_nothing(name):
    ask, error, match = REFUSED[name]
    data = guarded()
    with pytest.raises(error, match=match):
        ask(data)
    with pytest.raises(DPInferError):
        ask(None).bind(data).fit(PRICE)
    assert unspent(data)


def test_a_private_number_of_rows_is_refused():
    data = guarded(neighbors="add_remove")
    with pytest.raises(NotProvedError, match=r'neighbors="replace_one".*inference="simulated"'):
        exact("s", data)
    with pytest.raises(NotProvedError, match="replace_one"):
        exact("s").measurement(PRICE, schema=SCHEMA)
    assert unspent(data)


@pytest.mark.parametrize("price", [dpi.ZCDP(0.1), dpi.GDP(0.1), dpi.ApproxDP(0.1, 1e-6)], ids=str)
def test_a_price_that_is_not_pure_is_refused(price):
    data = guarded(price)
    with pytest.raises(NotProvedError, match="PureDP"):
        exact("s", data).fit(price)
    assert unspent(data)


def test_the_price_is_charged_once_and_answers_are_free():
    data = guarded(dpi.PureDP(1.5))
    results = exact("s", data).fit(PRICE)
    for method in ("wald", "exact"):
        results.with_inference(method).conf_int()
    results.release.infer()
    assert data.ledger.spent == PRICE
    assert data.ledger.charges()["description"].item().endswith("proportion of s, exactly")
    assert "Tulap" in exact("s", data).explain(dpi.PureDP(0.1))
    assert data.ledger.spent == PRICE


# Rows show in the released count alone

FRAMES = {
    "plain": plain,
    "NaN": lambda: plain().astype(object).assign(s=np.nan),
    "None": lambda: plain().assign(s=pd.Series([None] * 100, dtype=object), x=np.inf),
    "text": lambda: plain().assign(s="maybe", x="oops", g="zebra"),
    "objects": lambda: plain().assign(s=pd.Series([object()] * 100, dtype=object), x=1e300),
    "all of them": lambda: plain().assign(s=True, x=10.0, g="b"),
    "none of them": lambda: plain().assign(s=False, x=0.0, g="a"),
    "no rows": lambda: plain(0),
    "one row": lambda: plain(1),
}


@pytest.mark.parametrize("column", ["s", "x > 5", "s | (g == 'b')"])
def test_only_the_released_count_depends_on_the_rows(column, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    usual = None
    for make in FRAMES.values():
        frame = make()
        data = guarded(frame=frame)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            results = exact(column, data).fit(PRICE)
            tables = [results.with_inference(method).summary_frame() for method in ("exact", "wald")]
            assert str(results.summary())
            results.t_test(f"{results.params.index[0]} = 0.3" if column == "s" else np.eye(1))
        assert warned == []
        release = results.release
        seen = (release.names, release.steps, release.law, release.cost, dict(release.question), data.ledger.spent)
        usual = usual or seen
        assert seen == usual
        for table in tables:
            assert np.isfinite(table.to_numpy(dtype=float)).all()
            assert table.index.tolist() == [column]
            assert (table["count"] == len(frame)).all()
            assert (table["[0.025"] >= 0).all()
            assert (table["[0.025"] <= table["proportion"]).all()
            assert (table["proportion"] <= table["0.975]"]).all()
            assert (table["0.975]"] <= 1).all()
    assert len(set(charged(caplog))) == 1
    assert tuple(capfd.readouterr()) == ("", "")


def test_impossible_cells_are_failures_as_declared():
    quiet = dpi.PureDP(40.0)
    frame = plain().astype(object)
    frame.loc[:49, "s"] = "maybe"
    expected = frame.loc[50:, "s"].sum() / 100
    assert exact("s", simulated(frame)).fit(quiet).params["s"] == pytest.approx(expected, abs=0.0051)


# Inference


@pytest.fixture(scope="module")
def results():
    return exact("s", simulated()).fit(PRICE)


@pytest.mark.parametrize("method", ["exact", "wald"])
def test_the_interval_holds_what_the_test_does_not_reject(results, method):
    found = results.with_inference(method)
    for alpha in (0.01, 0.05, 0.3):
        low, high = found.conf_int(alpha).loc["s"]
        assert 0 < low < results.params["s"] < high < 1
        for value in (low, high):
            assert found.t_test(f"s = {value:.12f}").pvalue == pytest.approx(alpha, rel=1e-4)
        for value, kept in (
            (low - 0.005, False),
            (low + 0.005, True),
            (high - 0.005, True),
            (high + 0.005, False),
        ):
            assert (found.t_test(f"s = {value}").pvalue > alpha) == kept
            assert found.wald_test(f"s = {value}").pvalue == pytest.approx(found.t_test(f"s = {value}").pvalue)


def test_with_inference_changes_the_interval_alone(results):
    wald = results.with_inference("wald")
    assert results.inference.method == "exact"
    assert wald.inference.method == "wald"
    assert wald.params.equals(results.params)
    assert wald.bse.equals(results.bse)
    ends = results.params["s"] + stats.norm.ppf([0.025, 0.975]) * results.bse["s"]
    np.testing.assert_allclose(wald.conf_int().loc["s"], ends, rtol=1e-12)
    assert (wald.conf_int() != results.conf_int()).all(axis=None)
    assert wald.with_inference("exact").conf_int().equals(results.conf_int())
    for method in ("score", "simulated", "auto", "bayes"):
        with pytest.raises(OptionError, match="'exact', 'wald'"):
            results.with_inference(method)


def test_standard_errors_are_those_of_a_share_and_of_tulap_noise(results):
    share, n = results.params["s"], 100
    b = np.exp(-1.0)
    np.testing.assert_allclose(results.bse_noise["s"], np.sqrt(2 * b / (1 - b) ** 2 + 1 / 12) / n, rtol=1e-5)
    np.testing.assert_allclose(results.bse_sampling["s"], np.sqrt(share * (1 - share) / n), rtol=0.03)
    assert results.bse["s"] ** 2 == pytest.approx(results.bse_noise["s"] ** 2 + results.bse_sampling["s"] ** 2)
    assert results.nobs == 100
    assert results.summary_frame()["count"].tolist() == [100.0]


def test_a_multiple_of_the_share_is_tested_as_the_share(results):
    alone, twice = results.t_test("s = 0.3"), results.t_test("2 * s = 0.6")
    assert twice.pvalue == pytest.approx(alone.pvalue)
    np.testing.assert_allclose(twice.conf_int(), 2 * alone.conf_int())
    np.testing.assert_allclose(results.t_test("-1 * s = -0.3").conf_int(), -alone.conf_int()[:, ::-1])


def test_any_share_can_be_tested(results):
    for share, same in ((5e-324, 0.0), (1e-308, 0.0), (1e-280, 0.0), (1 - 1e-16, 1.0), (-3.0, 0.0), (7.0, 1.0)):
        found, expected = (results.t_test((np.eye(1), [value])).pvalue.item() for value in (share, same))
        assert 0 <= found <= 1
        assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("count", [-1000, -3, 0, 60, 100, 103, 2000])
def test_impossible_counts_are_flagged_and_have_an_interval(results, count):
    stage = dataclasses.replace(results.release.stages[0], values=(count * TULAP_GRID,))
    found = dataclasses.replace(results.release, stages=(stage,)).infer()
    low, high = found.conf_int().loc["s"]
    assert 0 <= low <= found.params["s"] <= high <= 1
    assert low < high
    assert bool(found.flags) == (not 0 <= count <= 100)
    assert low == 0 if count <= 0 else low > 0.4
    assert high == 1 if count >= 100 else high < 0.8


# Releases


def test_a_saved_release_gives_the_same_results(results, tmp_path):
    results.release.save(tmp_path / "smokes.json")
    read = dpi.read_release(tmp_path / "smokes.json")
    for found in (read.infer(), exact("s", read).infer(), exact("s").infer(read)):
        pd.testing.assert_frame_equal(found.summary_frame(), results.summary_frame())
    pd.testing.assert_frame_equal(read.infer(inference="wald").conf_int(), results.with_inference("wald").conf_int())
    with pytest.raises(NotProvedError, match="target"):
        read.infer(target="data")
    with pytest.raises(OptionError, match="inference='score'"):
        read.infer(inference="score")


@pytest.mark.parametrize(
    "changes",
    [
        {"question": {"column": None}},
        {"question": {"column": "x"}},
        {"question": {"column": "s +"}},
        {"question": {"column": "unheard"}},
        {"question": {"schema": dpi.Schema(s=dpi.Boolean()).to_dict()}},
        {"nobs": None},
        {"kind": "count"},
        {"stages": {"values": (1, 2), "steps": (1.0, 1.0), "names": ("1", "2")}},
        {"stages": {"law": NoiseLaw("laplace", (1.0,))}},
    ],
)
def test_a_damaged_release_is_refused(results, changes):
    whole = results.release
    if "question" in changes:
        changes = {"question": {**whole.question, **changes["question"]}}
    if "stages" in changes:
        changes = {"stages": (dataclasses.replace(whole.stages[0], **changes["stages"]),)}
    with pytest.raises(ReleaseFormatError, match="damaged"):
        dataclasses.replace(whole, **changes).infer()


def test_a_release_of_something_else_is_refused(results):
    counts = dpi.table(["s", "g"], simulated()).measure(PRICE)
    with pytest.raises(InferenceError, match="another question"):
        exact("s", counts).infer()
    with pytest.raises(InferenceError, match="another question"):
        exact("x > 5", results.release).infer()
    with pytest.raises(InferenceError, match="another question"):
        dpi.proportion("s", results.release).infer()
    assert dpi.proportion("s", counts).infer().params.index.tolist() == ["s"]


def test_many_releases_at_once_are_as_one_by_one():
    model = exact("s", simulated())
    releases = [model.measure(PRICE) for _ in range(5)]
    values = np.stack([one.array for one in releases])
    for method in ("exact", "wald"):
        asked = dataclasses.replace(model, inference=method)
        batch = asked.estimate(Released.of_study(model.measurement(PRICE), values), alpha=0.1)
        for row, release in enumerate(releases):
            alone = asked.infer(release)
            assert batch.names == ("s",)
            np.testing.assert_allclose(batch.params[row], alone.params)
            np.testing.assert_allclose(batch.bse[row], alone.bse)
            np.testing.assert_allclose(batch.intervals[row], alone.conf_int(alpha=0.1), atol=1e-9)
            np.testing.assert_allclose(batch.pvalues[row], alone.pvalues, rtol=1e-6)
            assert batch.flagged[row] == bool(alone.flags)
    unbound = dpi.proportion("s", inference="exact").measurement(PRICE, schema=SCHEMA, neighbors="replace_one")
    with pytest.raises(OptionError, match="number of rows is public"):
        model.estimate(Released.of_study(unbound, values))


@pytest.mark.parametrize(("n", "theta", "epsilon"), [(40, 0.2, 1.0), (15, 0.02, 0.3), (200, 0.7, 3.0)])
def test_a_study_finds_the_coverage_that_is_promised(n, theta, epsilon):
    """1,500 replicates: 95% less at most four standard deviations (false alarm 3e-5 a case); near 0 it may be more."""
    study = dpi.coverage_study(
        lambda rng, rows: {"s": rng.random(rows) < theta},
        exact("s"),
        schema=SCHEMA.select(["s"]),
        truth={"s": theta},
        n=n,
        privacy=dpi.PureDP(epsilon),
        neighbors="replace_one",
        replicates=1500,
        seed=9,
        progress=False,
    )
    cell = study.cells.set_index("term").loc["s"]
    assert cell["failures"] == 0
    assert cell["unbounded"] == 0
    slack = 4 * np.sqrt(0.95 * 0.05 / 1500)
    assert 0.95 - slack < cell["coverage"] < (0.95 + slack if n > 15 else 1)
    assert cell["model SE"] == pytest.approx(cell["empirical SE"], rel=0.15) or cell["flagged"] > 0.02
