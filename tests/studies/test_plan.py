"""Plans: what is solved is what is asked for, refusals say what would be right, and nothing is ever charged.

Shares of simulated releases are judged at four Monte Carlo standard errors; seeds are fixed, so that nothing fails
by chance.
"""

import re

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.errors import DataError, DPInferError, OptionError, UnknownColumnError
from dpinfer.studies import plan
from tests.linear import gram_ols

SCHEMA = dpi.Schema(
    x=dpi.Real(-1, 1), y=dpi.Real(-2, 2), g=dpi.Category(["a", "b"]), b=dpi.Boolean(missing=False, impossible=False)
)
PRICE = dpi.ZCDP(0.1)


def draw(rng, n):
    x = rng.uniform(-1, 1, n)
    return {
        "x": x,
        "y": np.clip(0.3 * x + 0.3 * rng.normal(size=n), -2, 2),
        "g": rng.choice(["a", "b"], n, p=[0.7, 0.3]),
        "b": rng.random(n) < 0.4,
    }


FRAME = pd.DataFrame(draw(np.random.default_rng(3), 4000))


def asked(question, **given):
    return plan(question, **{"schema": SCHEMA, "pilot": draw, "progress": False, **given})


# Solving


@pytest.mark.parametrize("question", [dpi.mean("y"), gram_ols("y ~ x")], ids=["mean", "regression"])
def test_a_solved_price_gives_the_width_and_a_little_less_does_not(question):
    term = "y" if question.text(SCHEMA).startswith("mean") else "x"
    found = asked(question, n=2000, width={term: 0.05})
    assert found.solved == "privacy"
    assert found.width[term] == pytest.approx(0.05, rel=0.02)
    less = asked(question, n=2000, privacy=dpi.ZCDP(found.privacy.rho * 0.8))
    assert less.width[term] > 0.0505


def test_solved_rows_give_the_width_and_are_the_inverse_of_a_solved_price():
    rows = asked(dpi.mean("y"), privacy=PRICE, width=0.03)
    assert rows.solved == "n"
    price = asked(dpi.mean("y"), n=rows.n, width=0.03)
    assert price.privacy.rho == pytest.approx(0.1, rel=0.1)


def test_the_width_is_that_of_the_formula_of_a_mean():
    n, sd = 4000, np.sqrt(0.09 + 0.3**2 / 3)
    schema = dpi.Schema(y=dpi.Real(-2, 2, missing=0.0, impossible=0.0))
    found = asked(dpi.mean("y"), schema=schema, n=n, privacy=PRICE, neighbors="replace_one")
    noise = dpi.mean("y").measurement(PRICE, schema=schema, neighbors="replace_one")
    sums = np.sqrt(noise.law.variances) * np.asarray(noise.steps)
    share = 2 * float(sums[1]) / n  # of the values scaled to [-1, 1]
    assert found.width["y"] == pytest.approx(2 * 1.96 * np.hypot(sd / np.sqrt(n), share), rel=0.02)
    assert found.frame.loc["y", "without noise"] == pytest.approx(2 * 1.96 * sd / np.sqrt(n), rel=0.02)


def test_rows_and_price_alone_give_width_and_power():
    found = asked(gram_ols("y ~ x"), n=3000, privacy=PRICE)
    assert found.solved is None
    assert list(found.frame.index) == ["Intercept", "x"]
    assert found.frame.loc["x", "true value"] == pytest.approx(0.3, abs=0.01)
    assert (found.width > found.frame["without noise"]).all()
    assert 0.03 < found.power["Intercept"] < 0.08  # the level, where the truth is the hypothesis


def test_a_power_is_asked_for_at_a_true_value():
    found = asked(gram_ols("y ~ x"), n=1500, power={"x": (0.06, 0.8)})
    assert found.power["x"] == pytest.approx(0.8, abs=0.04)
    assert found.frame.loc["x", "true value"] == 0.06
    given = asked(gram_ols("y ~ x"), n=1500, privacy=found.privacy, power={"x": (0.06, 0.8)})
    assert given.power["x"] == found.power["x"]


def test_errors_relative_widths_and_assurance_are_solved():
    error = asked(dpi.mean("y"), n=2000, rmse=0.01)
    assert error.frame.loc["y", "rmse"] == pytest.approx(0.01, rel=0.06)
    ratio = asked(dpi.mean("y"), n=2000, relative=1.2)
    assert ratio.frame.loc["y", "relative"] == pytest.approx(1.2, rel=0.02)
    half, most = (asked(dpi.variance("y"), n=500, width=0.06, assurance=one) for one in (0.5, 0.95))
    assert most.privacy.rho > 1.1 * half.privacy.rho


def test_several_targets_are_all_met():
    found = asked(gram_ols("y ~ x"), n=2000, width={"x": 0.09, "Intercept": 0.05})
    assert found.width["x"] <= 0.0905
    assert found.width["Intercept"] <= 0.0505
    assert max(found.width["x"] / 0.09, found.width["Intercept"] / 0.05) > 0.98


@pytest.mark.parametrize(
    ("unit", "kind"),
    [(None, dpi.ZCDP), (dpi.PureDP, dpi.PureDP), (dpi.GDP, dpi.GDP), (dpi.ApproxDP(1.0, 1e-6), dpi.ApproxDP)],
)
def test_a_price_is_sought_in_a_unit(unit, kind):
    found = asked(dpi.mean("y"), n=3000, width=0.05, unit=unit)
    assert type(found.privacy) is kind
    assert found.width["y"] == pytest.approx(0.05, rel=0.02)
    if kind is dpi.ApproxDP:
        assert found.privacy.delta == 1e-6


def test_more_rows_or_a_higher_price_make_intervals_narrower():
    widths = [asked(dpi.mean("y"), n=n, privacy=dpi.ZCDP(rho)).width["y"] for n, rho in
              [(500, 0.01), (500, 0.1), (5000, 0.1), (200_000, 0.1), (10**8, 0.1)]]  # fmt: skip
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] == pytest.approx(2 * 1.96 * np.sqrt(0.12 / 1e8), rel=0.03)


def test_the_same_seed_gives_the_same_plan():
    one, two, other = (asked(dpi.mean("y"), n=900, privacy=PRICE, seed=seed).width["y"] for seed in (1, 1, 2))
    assert one == two
    assert one != other
    assert one == pytest.approx(other, rel=0.02)


# What is known of the population


def test_without_a_pilot_the_population_is_uniform_and_the_answer_says_so():
    found = asked(dpi.mean("y"), n=1000, privacy=dpi.ZCDP(10.0), pilot=None)
    assert "uniform" in found.population
    assert any("No pilot" in note for note in found.notes)
    assert found.width["y"] == pytest.approx(2 * 1.96 * np.sqrt(16 / 12 / 1000), rel=0.02)


@pytest.mark.parametrize("kind", ["frame", "public", "function", "frames"])
def test_pilots_of_one_population_give_one_plan(kind):
    public = dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(1))
    pilot = {"frame": FRAME, "public": public, "function": draw, "frames": lambda rng, n: pd.DataFrame(draw(rng, n))}[
        kind
    ]
    found = asked(dpi.mean("y", by="g"), n=2500, privacy=PRICE, pilot=pilot)
    known = asked(dpi.mean("y", by="g"), n=2500, privacy=PRICE)
    np.testing.assert_allclose(found.width, known.width, rtol=0.04)


def test_a_categorical_frame_is_a_pilot():
    frame = FRAME.assign(g=FRAME["g"].astype("category"))
    plain = asked(dpi.mean("y", by="g"), n=800, privacy=PRICE, pilot=FRAME)
    np.testing.assert_array_equal(asked(dpi.mean("y", by="g"), n=800, privacy=PRICE, pilot=frame).width, plain.width)


@pytest.mark.parametrize(
    "question", [dpi.mean("y"), gram_ols("y ~ x"), dpi.proportion("g")], ids=["mean", "ols", "share"]
)
def test_a_release_is_a_pilot_of_its_own_question(question):
    data = dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(5))
    release = question.bind(data).measure(dpi.ZCDP(1.0))
    found = asked(question, n=9000, privacy=PRICE, pilot=release)
    known = asked(question, n=9000, privacy=PRICE)
    np.testing.assert_allclose(found.width, known.width, rtol=0.06)
    assert any("pilot release describes the population" in note for note in found.notes)


def test_a_release_tells_its_number_of_rows():
    data = dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(5))
    release = gram_ols("y ~ x").bind(data).measure(dpi.ZCDP(1.0))
    assert asked(gram_ols("y ~ x"), width={"x": 0.06}, pilot=release).n == pytest.approx(4000, abs=40)


def test_a_release_by_rounds_is_scaled_by_its_variances():
    data = dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(5))
    release = dpi.ols("y ~ x").bind(data).measure(PRICE)
    own = release.infer()
    same = asked(dpi.ols("y ~ x"), n=round(own.nobs), privacy=PRICE, pilot=release)
    ends = own.conf_int()
    np.testing.assert_allclose(same.width, ends[1] - ends[0], rtol=1e-3)
    more = asked(dpi.ols("y ~ x"), n=round(own.nobs), privacy=dpi.ZCDP(0.2), pilot=release)
    spread = np.sqrt(own.bse_sampling**2 + own.bse_noise**2 / 2)
    np.testing.assert_allclose(more.width / same.width, spread / own.bse, rtol=0.01)


def test_a_release_of_another_question_is_refused():
    release = dpi.mean("x").bind(dpi.PublicData(FRAME, SCHEMA, rng=np.random.default_rng(5))).measure(PRICE)
    with pytest.raises(DPInferError, match="another question"):
        asked(dpi.mean("y"), n=1000, privacy=PRICE, pilot=release)


def test_people_are_drawn_with_all_their_rows():
    schema = dpi.Schema(y=dpi.Real(0, 1)).with_people("id", 3)
    rng = np.random.default_rng(8)
    level = np.repeat(rng.uniform(0.2, 0.8, 300), 3)
    frame = pd.DataFrame({"id": np.repeat(np.arange(300), 3), "y": np.clip(level + 0.01 * rng.normal(size=900), 0, 1)})
    alone = frame.assign(id=np.arange(900))
    given = {"schema": schema, "n": 600, "privacy": dpi.ZCDP(50.0)}
    together, apart = (asked(dpi.mean("y"), pilot=one, **given).width["y"] for one in (frame, alone))
    assert together == pytest.approx(np.sqrt(3) * apart, rel=0.1)


# Tests


def test_a_test_is_planned_as_by_power():
    truth = pd.DataFrame([[0.3, 0.2], [0.2, 0.3]], index=["a", "b"], columns=[False, True])
    test = dpi.chi2_contingency("g", "b")
    study = dpi.power(test, truth, n=1000, privacy=PRICE, schema=SCHEMA)
    found = asked(test, n=1000, privacy=PRICE, pilot=truth)
    assert found.power["test"] == study.frame["power"].iloc[0]
    assert found.frame["ordinary power"].iloc[0] == study.frame["ordinary power"].iloc[0]
    assert asked(test, privacy=PRICE, power=0.8, pilot=truth).n == study.sample_size(0.8)["n"].iloc[0]
    assert found.width.empty


def test_the_truth_of_a_test_is_read_from_rows():
    rng = np.random.default_rng(4)
    g, b = rng.choice(["a", "b"], 20_000), rng.random(20_000)
    frame = pd.DataFrame({"x": 0.0, "y": np.where(g == "a", 0.1, 0.0) + 0.5 * rng.uniform(-1, 1, 20_000), "g": g})
    frame["b"] = b < np.where(g == "a", 0.6, 0.4)
    known = pd.DataFrame([[0.2, 0.3], [0.3, 0.2]], index=["a", "b"], columns=[False, True])
    chi = dpi.chi2_contingency("g", "b")
    powers = [asked(chi, n=150, privacy=PRICE, pilot=one).power["test"] for one in (frame, known)]
    assert powers[0] == pytest.approx(powers[1], abs=0.05)
    sd = 0.5 / np.sqrt(3)
    means = {"a": (0.5, 0.1, sd), "b": (0.5, 0.0, sd)}
    powers = [asked(dpi.ttest_ind("y", "g"), n=300, privacy=dpi.ZCDP(5.0), pilot=one).power["test"]
              for one in (frame, means)]  # fmt: skip
    assert powers[0] == pytest.approx(powers[1], abs=0.06)
    assert 0.5 < powers[1] < 0.99
    binomial = dpi.binomtest("b", p=0.4)
    powers = [asked(binomial, n=100, privacy=dpi.PureDP(1.0), neighbors="replace_one", pilot=one).power["test"]
              for one in (frame, float(frame["b"].mean()))]  # fmt: skip
    assert powers[0] == pytest.approx(powers[1], abs=0.005)


# Data and ledgers


BUDGET = dpi.ZCDP(1.0)
UNITS = ((dpi.GDP(2.0), dpi.GDP), (dpi.PureDP(2.0), dpi.PureDP), (dpi.ApproxDP(1.0, 1e-6), dpi.GDP), (BUDGET, dpi.ZCDP))


def bound(budget=BUDGET, neighbors="add_remove"):
    ledger = dpi.Ledger.in_memory(budget, neighbors=neighbors)
    return dpi.PrivateData(FRAME, SCHEMA, ledger), ledger


def test_nothing_is_charged_and_no_row_is_read(monkeypatch):
    data, ledger = bound()
    monkeypatch.setattr("dpinfer.kernel.data.Rows._open", lambda self: pytest.fail("a row was read"))
    asked(dpi.mean("y", data), schema=None, n=1000, width=0.1)
    asked(dpi.ols("y ~ x", data, method="gram"), schema=None, privacy=PRICE, width={"x": 0.1})
    assert len(ledger.charges()) == 0


@pytest.mark.parametrize(("budget", "unit"), UNITS)
def test_the_unit_is_that_of_the_ledger(budget, unit):
    data, _ = bound(budget)
    assert type(asked(dpi.mean("y", data), schema=None, n=2000, width=0.1).privacy) is unit


def test_a_public_number_of_rows_is_known():
    data, _ = bound(neighbors="replace_one")
    found = asked(dpi.mean("y", data), schema=None, width=0.1)
    assert (found.n, found.neighbors, found.solved) == (4000, "replace_one", "privacy")
    assert asked(dpi.mean("y", data), schema=None, width=0.1, privacy=PRICE).solved == "n"


# Refusals


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"width": 0.1}, "n=None is not valid: expected a number of rows, privacy parameters or a target"),
        ({"n": 100}, "privacy=None"),
        ({"privacy": PRICE}, "n=None"),
        ({}, "n=None"),
        ({"n": 100, "privacy": PRICE, "width": 0.1}, "nothing to solve for"),
        ({"n": 100, "width": {"z": 0.1}}, "width='z' is not valid: expected terms among Intercept, x"),
        ({"n": 100, "width": {}}, "terms among"),
        ({"n": 100, "width": 0.0}, "width=0.0 is not valid: expected a number above 0"),
        ({"n": 100, "width": {"x": -1.0}}, "a number above 0"),
        ({"n": 100, "width": {"x": "wide"}}, "a number above 0"),
        ({"n": 100, "rmse": np.nan}, "a number above 0"),
        ({"n": 100, "relative": 1.0}, "a number above 1"),
        ({"n": 100, "power": {"x": (0.1, 1.0)}}, "a power between 0.05 and 1"),
        ({"n": 100, "power": {"x": (0.0, 0.8)}}, "a power between 0.05 and 1"),
        ({"n": 100, "power": 0.01}, "a power between 0.05 and 1"),
        ({"n": 0, "width": 0.1}, "n=0 is not valid: expected a whole number"),
        ({"n": 1.5, "width": 0.1}, "n=1.5"),
        ({"n": 100, "width": 0.1, "unit": dpi.ApproxDP}, "unit="),
        ({"n": 100, "width": 0.1, "unit": "ZCDP"}, "unit='ZCDP'"),
        ({"n": 100, "privacy": PRICE, "unit": "ZCDP"}, "unit='ZCDP'"),
        ({"n": 100, "privacy": PRICE, "progress": 1}, "progress=<int>"),
        ({"n": 100, "privacy": 0.1}, "privacy=0.1"),
        ({"n": 100, "width": 0.1, "alpha": 1.0}, "alpha=1.0"),
        ({"n": 100, "width": 0.1, "assurance": 0}, "assurance=0"),
        ({"n": 100, "width": 0.1, "seed": -1}, "seed=-1"),
        ({"n": 100, "width": 0.1, "neighbors": "some"}, "neighbors='some'"),
        ({"n": 100, "width": 0.1, "schema": None}, "schema="),
        ({"n": 100, "width": 0.1, "budget": dpi.ZCDP(1.0)}, "several questions"),
        ({"n": 100, "width": 0.1, "pilot": 3}, "pilot=<int>"),
        ({"n": 100, "width": 0.1, "pilot": FRAME[:1]}, "two or more public rows"),
    ],
    ids=str,
)
def test_refusals_name_the_argument_and_what_would_be_right(given, told):
    with pytest.raises(OptionError, match=re.escape(told)):
        asked(gram_ols("y ~ x"), **given)


def test_what_is_no_question_is_refused():
    for wrong in ("mean", None, [], [dpi.mean("y"), 3]):
        with pytest.raises(OptionError, match="procedure="):
            asked(wrong, n=100, privacy=PRICE)


def test_a_target_that_no_price_reaches_says_how_many_rows_would():
    with pytest.raises(OptionError, match=r"no privacy budget helps, because n = 400 is too small") as told:
        asked(dpi.mean("y"), n=400, width=0.02)
    rows = int(re.search(r"at least ([\d,]+) rows", str(told.value)).group(1).replace(",", ""))
    known = (2 * 1.96) ** 2 * 0.12 / 0.02**2
    assert rows == pytest.approx(known, rel=0.05)


def test_a_target_that_no_number_of_rows_reaches_is_refused():
    with pytest.raises(OptionError, match="1,000,000,000 rows reach"):
        asked(dpi.mean("y"), privacy=dpi.ZCDP(1e-6), width=1e-7)


def test_counts_of_these_rows_have_no_relative_width():
    with pytest.raises(OptionError, match="sampling error"):
        asked(dpi.table(["g"]), n=1000, relative=1.2)


def test_a_pilot_that_lacks_a_column_or_fails_is_refused():
    with pytest.raises(UnknownColumnError, match="'y' is not in the pilot"):
        asked(dpi.mean("y"), n=100, width=0.1, pilot=FRAME.drop(columns="y"))
    with pytest.raises(UnknownColumnError, match="'y' is not in the pilot"):
        asked(dpi.mean("y"), n=100, width=0.1, pilot=lambda rng, n: {"x": rng.uniform(size=n)})
    with pytest.raises(DataError, match="pilot failed at n = 10: ZeroDivisionError"):
        asked(dpi.mean("y"), n=100, width=0.1, pilot=lambda rng, n: 1 / 0)
    with pytest.raises(DataError, match="3 values for 'x': expected n = 10"):
        asked(dpi.mean("x"), schema=SCHEMA.select(["x"]), n=100, width=0.1, pilot=lambda rng, n: {"x": [0.1] * 3})


def test_a_question_of_no_column_is_planned():
    found = asked(dpi.count(), n=1000, width=10.0)
    assert found.width.iloc[0] == pytest.approx(10.0, rel=0.02)
    assert found.privacy.rho == pytest.approx(0.5 / (10 / 3.92) ** 2, rel=0.03)  # noise of 1 / sqrt(2 rho)


def test_people_need_a_pilot():
    schema = dpi.Schema(y=dpi.Real(0, 1)).with_people("id", 3)
    with pytest.raises(OptionError, match="public rows of people"):
        asked(dpi.mean("y"), schema=schema, n=100, width=0.1, pilot=None)


def test_widths_of_a_test_are_refused():
    with pytest.raises(OptionError, match="a test has only power"):
        asked(dpi.chi2_contingency("g", "b"), n=100, width=0.1)


@pytest.mark.parametrize("test", [dpi.chisquare("g"), dpi.ttest_ind("y", "g"), dpi.binomtest("b")], ids=str)
def test_tests_have_no_rows_in_a_population_in_which_their_hypothesis_holds(test):
    """Its pool differs from the hypothesis by chance alone, which some millions of rows would find."""
    with pytest.raises(OptionError, match=r"pilot=None.*hypotheses may hold"):
        asked(test, privacy=PRICE, power=0.8, pilot=None, neighbors="replace_one")


def test_confidential_rows_are_no_pilot():
    data, ledger = bound()
    for question in (dpi.mean("y"), dpi.chisquare("g"), dpi.ttest_ind("y", "g")):
        with pytest.raises(OptionError, match="pilot=<PrivateData>"):
            asked(question, n=100, privacy=PRICE, pilot=data)
    assert len(ledger.charges()) == 0


def test_several_questions_are_of_one_kind_of_data_and_share_by_medians():
    (first, _), (second, _) = bound(), bound(neighbors="replace_one")
    with pytest.raises(OptionError, match="data of one schema and neighbors"):
        asked([dpi.mean("y", first), dpi.mean("x", second)], schema=None, n=1000, budget=PRICE)
    with pytest.raises(OptionError, match="assurance"):
        asked([dpi.mean("y"), dpi.mean("x")], n=1000, budget=PRICE, assurance=0.9)


def test_an_answer_says_what_its_releases_do_not_tell():
    with pytest.raises(OptionError, match=r"width='y: 1e-07'.*use a larger privacy budget"):
        asked(dpi.mean("y"), privacy=PRICE, width=1e-7)
    rare = asked(dpi.mean("y"), n=1000, power={"y": (0.1, 0.9999999)})
    assert any("not quite what was asked for" in note for note in rare.notes)
    assert not any("not quite" in note for note in asked(dpi.mean("y"), n=1000, power={"y": (0.1, 0.9)}).notes)
    release = dpi.mean("y", bound()[0]).measure(dpi.ZCDP(0.5))
    told = asked(dpi.mean("y"), n=1000, privacy=PRICE, pilot=release, assurance=0.9)
    assert any("not for sampling" in note for note in told.notes)
