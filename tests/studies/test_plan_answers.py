"""Answers of plans: tables, curves, figures, shared budgets; and forecasts beside what coverage studies measure."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import OptionError
from dpinfer.kernel.rows.base import Batch
from dpinfer.studies import plan
from dpinfer.studies.populations import read_pilot
from dpinfer.studies.power import bracket, crossing, four_digits_down
from dpinfer.studies.simulation import Design, draw_columns
from tests.linear import gram_ols
from tests.studies.test_plan import FRAME, PRICE, SCHEMA, asked, draw

# Forecasts


@pytest.mark.parametrize(
    ("question", "term", "n", "neighbors"),
    [
        (dpi.mean("y", by="g"), "y[g=b]", 1500, "add_remove"),
        (gram_ols("y ~ x"), "x", 1000, "replace_one"),
        (dpi.proportion("g"), "g=b", 700, "add_remove"),
    ],
    ids=["mean", "regression", "share"],
)
def test_widths_and_powers_are_those_of_a_coverage_study(question, term, n, neighbors):
    found = asked(question, n=n, privacy=PRICE, neighbors=neighbors)
    known = dpi.coverage_study(
        draw, question, schema=SCHEMA, truth={}, n=n, privacy=PRICE, neighbors=neighbors, replicates=1000, seed=9,
        progress=False,
    ).frame  # fmt: skip
    own = known[known["term"] == term]
    assert found.width[term] == pytest.approx(float((own["upper"] - own["lower"]).median()), rel=0.015)
    assert found.power[term] == pytest.approx(float((own["pvalue"] <= 0.05).mean()), abs=0.05)
    assert found.frame.loc[term, "rmse"] == pytest.approx(float(own["estimate"].std()), rel=0.1)


def test_a_median_is_planned_by_fits_of_rows(capsys):
    schema = SCHEMA.select(["y"])
    found = plan(dpi.median("y"), schema=schema, n=800, privacy=PRICE, pilot=draw)
    assert "fits of public rows" in capsys.readouterr().err
    rng = np.random.default_rng(2)
    widths = []
    for _ in range(60):
        data = dpi.PublicData(pd.DataFrame(draw(rng, 800)), schema, rng=rng)
        widths.append(float(np.diff(dpi.median("y", data).fit(PRICE).conf_int().to_numpy())[0, 0]))
    assert found.width["0.5"] == pytest.approx(np.median(widths), rel=0.05)
    assert any("fits of data sets" in note for note in found.notes)


@pytest.mark.parametrize("n", [3, 70, 5000, 10**7])
def test_sums_of_data_sets_have_the_moments_of_sums_of_rows(n):
    design = Design(draw, gram_ols("y ~ x"), SCHEMA, None, (n,), (PRICE,), "add_remove", 1, 0.95, 0)
    measured = design.measured(PRICE, n)
    for pilot in (read_pilot(draw, SCHEMA, None), read_pilot(FRAME, SCHEMA, None)):
        sums = pilot.sums(measured, n, 4000, np.random.default_rng(1)) / measured.rows.units
        columns = draw_columns(design, np.random.default_rng(5), 20_000) if "rows" not in pilot.about else FRAME
        size = len(columns["x"])
        each = measured.rows.add(Batch({name: np.asarray(columns[name]) for name in measured.rows.columns}, size, size))
        each = measured.rows.finish_sets(each.astype(float)) / measured.rows.units
        error = each.std(axis=0) / np.sqrt(size) * n + each.std(axis=0) * np.sqrt(n / 4000) + 1e-9
        assert (np.abs(sums.mean(axis=0) - n * each.mean(axis=0)) < 5 * error).all()
        spread = each.std(axis=0) > 0
        ratio = sums.std(axis=0)[spread] / (each.std(axis=0)[spread] * np.sqrt(n))
        np.testing.assert_allclose(ratio, 1, atol=0.08)


# Searches


@pytest.mark.parametrize("root", [0.003, 1.0, 77.0])
def test_a_crossing_is_found(root):
    looked = []

    def shortfall(x):
        looked.append(x)
        return np.log(root / x) * (1 + x / root)

    assert crossing(shortfall, 1.0, (1e-6, 1e3), whole=False) == pytest.approx(root, rel=1e-3)
    assert len(looked) < 14


def test_a_crossing_of_whole_numbers_is_the_first_that_suffices():
    assert crossing(lambda n: 1000.5 - n, 10, (4, 10**9), whole=True) == 1001
    assert crossing(lambda n: np.inf if n < 37 else -1.0, 1000, (4, 10**9), whole=True) == 37
    assert crossing(lambda _: -1.0, 1000, (4, 10**9), whole=True) == 4
    assert crossing(lambda _: 1.0, 1000, (4, 10**9), whole=True) is None


def test_a_bracket_holds_the_first_success():
    low, high = bracket(lambda x: x >= 12_345, 3, (1, 10**9), whole=True)
    assert low < 12_345 <= high <= 8 * low
    assert four_digits_down(0.123456) == 0.1234


# Answers


def test_the_answer_is_a_table():
    found = asked(gram_ols("y ~ x"), n=1200, width={"x": 0.1})
    text = repr(found)
    assert text.startswith("Plan: nothing is charged yet")
    assert f"{found.privacy} (solved): {found.privacy.describe()}" in text
    assert re.search(r"rows +1,200\n", text)
    columns = ["true value", "width", "without noise", "relative", "rmse", "power"]
    assert list(found.frame.columns) == columns
    copy = found.summary_frame()
    copy["width"] = 0.0
    assert (found.width > 0).all()
    np.testing.assert_allclose(found.frame["relative"], found.width / found.frame["without noise"])


def test_curves_and_figures():
    found = asked(gram_ols("y ~ x"), n=1200, privacy=PRICE)
    for against, varied in (("privacy", "amount"), ("n", "n")):
        curve = found.curve(against, ["x"])
        assert curve[varied].is_monotonic_increasing
        assert curve["width"].is_monotonic_decreasing
        assert (curve["width"] > curve["without noise"]).all()
        assert set(curve["term"]) == {"x"}
    fixed = found.curve("privacy", ["x"])["without noise"]
    assert (fixed == fixed.iloc[0]).all()
    axes = found.plot()
    assert axes.shape == (2, 2)
    assert [ax.get_xlabel() for ax in axes[0]] == ["ZCDP", "rows"]
    dashed = [line for line in axes[0, 0].lines if line.get_linestyle() == "--"]
    assert len(dashed) == 2
    plt.close("all")
    with pytest.raises(OptionError, match="terms="):
        found.plot(["w"])
    with pytest.raises(OptionError, match="against="):
        found.curve("rows")


def test_the_figure_of_a_test_shows_powers():
    found = asked(dpi.chi2_contingency("g", "b"), n=300, privacy=PRICE, pilot=[[0.3, 0.2], [0.2, 0.3]])
    axes = found.plot()
    assert axes.shape == (1, 2)
    assert axes[0, 0].get_ylabel() == "power"
    plt.close("all")


# One budget for several questions


QUESTIONS = [dpi.mean("y", by="g"), gram_ols("y ~ x"), dpi.proportion("b")]


def test_shares_make_the_largest_relative_width_least():
    found = asked(QUESTIONS, n=1500, budget=PRICE)
    assert found.frame["share"].sum() == pytest.approx(1, abs=1e-3)
    assert sum(found.prices) <= PRICE
    ratios = found.frame["relative"]
    assert ratios.max() / ratios.min() < 1.02
    even = [asked(one, n=1500, privacy=PRICE / 3).frame["relative"].max() for one in QUESTIONS]
    assert ratios.max() < max(even)


def test_weights_make_their_sum_least():
    weights = (1.0, 4.0, 1.0)
    found = asked(QUESTIONS, n=1500, budget=PRICE, weights=weights)
    equal = asked(QUESTIONS, n=1500, budget=PRICE)
    totals = [float(np.dot(weights, one.frame["relative"])) for one in (found, equal)]
    assert totals[0] < totals[1] * 1.002
    even = [asked(one, n=1500, privacy=PRICE / 3).frame["relative"].max() for one in QUESTIONS]
    assert totals[0] < np.dot(weights, even)


def test_counts_of_these_rows_share_by_their_width_at_the_whole_budget():
    found = asked([dpi.table(["g"]), dpi.mean("y")], n=1500, budget=PRICE)
    assert np.isfinite(found.frame["relative"]).all()
    assert found.frame["relative"].iloc[0] == pytest.approx(1 / np.sqrt(found.frame["share"].iloc[0]), rel=0.02)


def test_a_shared_plan_prints_and_plots():
    found = asked(QUESTIONS[:2], n=1500, budget=PRICE)
    assert "budget      ZCDP(rho=0.1)" in repr(found)
    ax = found.plot()
    assert len(ax.get_legend().get_texts()) == 2
    assert list(found.summary_frame()["privacy"]) == [str(price) for price in found.prices]
    plt.close("all")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"n": 100}, "budget=None"),
        ({"n": 100, "budget": PRICE, "width": 0.1}, "width=<float>"),
        ({"n": 100, "budget": PRICE, "privacy": PRICE}, "privacy=<ZCDP>"),
        ({"n": 100, "budget": PRICE, "weights": [1.0]}, "2 numbers above 0"),
        ({"n": 100, "budget": PRICE, "weights": [1.0, -1.0]}, "2 numbers above 0"),
        ({"budget": PRICE}, "n=None"),
    ],
    ids=str,
)
def test_refusals_of_shared_plans(given, told):
    with pytest.raises(OptionError, match=re.escape(told)):
        asked(QUESTIONS[:2], **given)


def test_tests_share_no_budget():
    with pytest.raises(OptionError, match="intervals"):
        asked([dpi.mean("y"), dpi.chi2_contingency("g", "b")], n=500, budget=PRICE)
