"""The binomial test as a procedure: refusals that cost nothing, what is measured, how often it rejects."""

import logging
import warnings

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.descriptions.binomial import BinomTest, binomtest
from dpinfer.errors import (
    BudgetExceededError,
    DPInferError,
    FormulaError,
    NotProvedError,
    OptionError,
    UnknownColumnError,
)
from tests.logs import charged

SCHEMA = dpi.Schema(
    s=dpi.Boolean(missing=False, impossible=False),
    x=dpi.Real(0, 10, missing=0, impossible=0),
    g=dpi.Category(["a", "b"], missing="a", impossible="a"),
    loose=dpi.Boolean(),
    half=dpi.Boolean(missing=False),
)
PRICES = (dpi.PureDP(1.0), dpi.ZCDP(0.1), dpi.GDP(0.5), dpi.ApproxDP(1.0, 1e-6))
each_price = pytest.mark.parametrize("price", PRICES, ids=str)


def plain(rows=100):
    rng = np.random.default_rng(1)
    return SCHEMA.sample(rows, rng).assign(s=np.arange(rows) < 0.2 * rows)


def guarded(budget=PRICES[0], neighbors="replace_one", frame=None):
    source = plain() if frame is None else frame
    return dpi.PrivateData(source, SCHEMA, dpi.Ledger.in_memory(budget, neighbors=neighbors))


def simulated(frame, seed=2):
    return dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(seed), neighbors="replace_one")


def unspent(data):
    return data.ledger.remaining == data.ledger.budget and data.ledger.charges().empty


REFUSED = {
    "cells that drop rows": (lambda d: binomtest("loose", d), NotProvedError, "missing= and impossible=.*'loose'"),
    "impossible cells that drop rows": (lambda d: binomtest("half", d), NotProvedError, "'half'.*proportion"),
    "one column of a condition": (lambda d: binomtest("s & loose", d), NotProvedError, "'loose'"),
    "a number": (lambda d: binomtest("x", d), FormulaError, "^x: is not a condition"),
    "a constant": (lambda d: binomtest("1 < 2", d), FormulaError, "^1 < 2: is not a condition"),
    "a category": (lambda d: binomtest("g", d), FormulaError, "^g: "),
    "an unknown column": (lambda d: binomtest("smokes", d), UnknownColumnError, "'smokes'"),
    "several columns": (lambda d: binomtest(["s", "g"], d), OptionError, "^column="),
    "no proportion": (lambda d: binomtest("s", d, p=1.01), OptionError, "^p=1.01"),
    "a negative proportion": (lambda d: binomtest("s", d, p=-1e-9), OptionError, "^p="),
    "NaN": (lambda d: binomtest("s", d, p=float("nan")), OptionError, "^p=nan"),
    "a text": (lambda d: binomtest("s", d, p="0.5"), OptionError, "^p="),
    "a Boolean": (lambda d: binomtest("s", d, p=True), OptionError, "^p=True"),
    "an alternative": (lambda d: binomtest("s", d, alternative="more"), OptionError, "^alternative=.*'greater'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_tested_is_refused_by_name_and_costs_nothing(name):
    ask, error, match = REFUSED[name]
    data = guarded()
    with pytest.raises(error, match=match):
        ask(data)
    with pytest.raises(DPInferError):
        ask(None).bind(data).fit(PRICES[0])
    assert unspent(data)


def test_a_private_number_of_rows_is_refused_with_what_to_do():
    data = guarded(neighbors="add_remove")
    with pytest.raises(NotProvedError, match=r'neighbors="replace_one".*inference="simulated"\) or "score"'):
        binomtest("s", data)
    for price in PRICES:
        with pytest.raises(NotProvedError, match="replace_one"):
            binomtest("s").measurement(price, schema=SCHEMA)
    assert unspent(data)


def test_a_frame_is_no_data():
    with pytest.raises(OptionError, match=r"^data="):
        binomtest("s", plain())
    with pytest.raises(OptionError, match=r"^data=None"):
        binomtest("s").fit(PRICES[0])
    with pytest.raises(OptionError, match=r"^privacy="):
        binomtest("s", guarded()).fit(1.0)


@each_price
def test_the_price_is_charged_once_and_tests_are_free(price):
    data = guarded(price)
    test = binomtest("s", data, p=0.3)
    text = test.explain(price)
    for part in ("P(s) differs from 0.3", "standard error", "n = 100: ", "replace_one"):
        assert part in text
    assert ("Tulap" if isinstance(price, dpi.PureDP) else "discrete gaussian") in text
    assert unspent(data)
    results = test.fit(price)
    release = results.release
    for p in (0.0, 0.1, 1.0):
        binomtest("s", release, p=p, alternative="greater").infer()
    release.infer()
    assert data.ledger.spent == price
    assert data.ledger.charges()["description"].item().endswith("binomial test of s, p = 0.3")
    with pytest.raises(BudgetExceededError):
        test.fit(price)


@each_price
def test_one_count_is_measured_with_sensitivity_one(price):
    measured = binomtest("x > 5").measurement(price, schema=SCHEMA, neighbors="replace_one")
    assert len(measured.law.scales) == len(measured.names) == 1
    assert measured.exact == ()
    assert measured.rows.columns == ("x",)
    asked = {"procedure": "binomtest", "column": "x > 5", "p": 0.5, "alternative": "two-sided"}
    assert asked.items() <= measured.question.items()
    scale = measured.law.scales[0] * measured.steps[0]
    right = {"PureDP": 1.0, "ZCDP": 5**0.5, "GDP": 2.0}
    assert scale == pytest.approx(right.get(type(price).__name__, 4.22488), rel=1e-4)
    pure = isinstance(price, dpi.PureDP)
    assert (measured.kind, measured.law.family) == (("binomial", "tulap") if pure else ("count", "gaussian"))
    told = "changes the count by at most 1\n" if pure else "of the change of all sums at most 1 in units of rows\n"
    assert told in measured.describe()
    assert "n = 10,000: " in binomtest("s").explain(price, schema=SCHEMA, neighbors="replace_one")


def test_options_become_plain_numbers():
    test = binomtest("s", p=np.float64(0.25))
    assert isinstance(test, BinomTest)
    assert type(test.p) is float
    assert binomtest("s", p=1).p == 1.0


FRAMES = {
    "plain": plain,
    "NaN": lambda: plain().astype(object).assign(s=np.nan),
    "text": lambda: plain().assign(s="maybe", x="oops"),
    "objects": lambda: plain().assign(s=pd.Series([object()] * 100, dtype=object), x=1e300),
    "all of them": lambda: plain().assign(s=True, x=10.0),
    "none of them": lambda: plain().assign(s=False, x=0.0),
    "no rows": lambda: plain(0),
    "one row": lambda: plain(1),
}


@pytest.mark.parametrize("price", PRICES[:2], ids=str)
def test_only_the_released_count_depends_on_the_rows(price, caplog):
    caplog.set_level(logging.DEBUG)
    seen = []
    for make in FRAMES.values():
        frame = make()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            results = binomtest("s | (x > 5)", guarded(price, frame=frame), p=0.4).fit(price)
            assert np.isfinite(results.frame().to_numpy(dtype=float)).all()
            assert str(results.summary())
        assert warned == []
        assert 0 <= results.pvalue <= 1
        release = results.release
        assert release.nobs == len(frame)
        seen.append((release.kind, release.names, release.steps, release.law, release.cost, dict(release.question)))
    assert all(one == seen[0] for one in seen)
    assert len(set(charged(caplog))) == 1


@pytest.mark.parametrize("price", [dpi.PureDP(60.0), dpi.ZCDP(1e4)], ids=str)
def test_with_hardly_any_noise_the_count_is_that_of_the_rows(price):
    frame = plain().astype(object)
    frame.loc[:4, "s"] = "maybe"  # impossible cells are declared failures
    found = binomtest("s", simulated(frame), p=0.3).fit(price)
    assert found.k == pytest.approx(15, abs=0.51)
    assert found.proportion_ci().low < 0.15 < found.proportion_ci().high


@pytest.mark.slow
@pytest.mark.parametrize(
    ("price", "alternative"), [(PRICES[0], "greater"), (PRICES[1], "two-sided"), (PRICES[3], "less")], ids=str
)
def test_the_whole_procedure_keeps_its_level(price, alternative):
    """300 fits, level .1 one-sided or at most .1: more than four standard deviations above has a chance of 3e-5."""
    rng = np.random.default_rng(7)
    test = binomtest("s", p=0.2, alternative=alternative)
    rejected = 0
    for _ in range(300):
        frame = pd.DataFrame({"s": rng.random(25) < 0.2})
        data = dpi.PublicData(frame, SCHEMA.select(["s"]), rng=rng, neighbors="replace_one")
        rejected += test.bind(data).fit(price).pvalue <= 0.1
    share, error = rejected / 300, np.sqrt(0.09 / 300)
    assert share <= 0.1 + 4 * error
    assert share >= 0.1 - 4 * error or alternative == "two-sided"
