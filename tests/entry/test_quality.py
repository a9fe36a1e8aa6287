"""Quality of data: wrong declarations are told, fits cite it, and nothing but the release is told of."""

import datetime as dt
import warnings
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.entry.results import Quality
from dpinfer.errors import OptionError, UnknownColumnError
from dpinfer.schema.columns import CELL_CLASSES
from tests.odd_cells import with_cells

SURE = dpi.ZCDP(1e4)
"""Noise of a hundredth of a row: what is told does not hang on luck."""

ROWS = 4000


def public(cells, column, price=SURE, **more):
    frame = pd.DataFrame({"x": pd.Series(cells, dtype=object), "other": 0.5})
    schema = dpi.Schema(x=column, other=dpi.Real(0, 1))
    return dpi.quality(dpi.PublicData(frame, schema, rng=np.random.default_rng(3), **more)).fit(price)


def repeated(*cells):
    return [cells[place % len(cells)] for place in range(ROWS)]


DATES = [dt.date(1930 + place % 60, 7, 1) for place in range(ROWS)]
WRONG = {
    "codes for truth values": (
        dpi.Boolean(),
        repeated(1, 2),
        ["About 50%", "x are impossible", "Boolean(true=1, false=2)"],
    ),
    "words for truth values": (dpi.Boolean(), repeated("Yes", "No"), ["All cells of x are impossible"]),
    "other codes": (dpi.Boolean(true=1, false=2), repeated(1, 2, 3, 1), ["About 25%", "one of the declared codes"]),
    "a misspelt level": (
        dpi.Category(["femal", "male"]),
        repeated("female", "male", "male", "male"),
        ["About 25%", "not a declared level ('femal', 'male')", "letter by letter"],
    ),
    "levels for codes": (dpi.Category(["low", "high"]), repeated(1, 2), ["All cells", "codes="]),
    "dates as numbers": (dpi.Real(0, 100), DATES, ["All cells of x are impossible", "dates need Date"]),
    "texts as whole numbers": (dpi.Integer(0, 9), repeated(1, "none"), ["About 50%", "texts such as NA"]),
    "numbers as dates": (dpi.Date("2020-01-01", "2020-12-31"), repeated(3.0), ["All cells", "but not plain numbers"]),
    "a code of no answer": (
        dpi.Real(0, 100),
        repeated(5, -9),
        ["About 50%", "below the lower bound 0", "missing_codes="],
    ),
    "low bounds": (dpi.Real(0, 1), repeated(2, 3), ["All cells of x are above the upper bound 1", "widen"]),
    "early dates": (dpi.Date("1960-01-01", "2020-12-31"), DATES, ["below the lower bound 1960-01-01"]),
    "missing": (dpi.Real(0, 9), repeated(1, None), ["About 50%", "x are missing: their rows are left out"]),
    "missing, replaced": (dpi.Real(0, 9, missing=4), repeated(1, None), ["x are missing: they are replaced by 4"]),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_declaration_is_told(fault):
    column, cells, words = WRONG[fault]
    advice = [one for one in public(cells, column).advice if "cells of x" in one]
    assert len(advice) == 1
    assert all(word in advice[0] for word in words), advice


def test_rows_that_no_model_keeps_are_told():
    results = public(repeated(1, None), dpi.Real(0, 9))
    assert results.advice[-1] == "About 50% of the rows are left out of a model of all 2 columns."
    assert not any("left out of a model" in one for one in public(repeated(1, None), dpi.Real(0, 9, missing=4)).advice)


RIGHT = {
    "numbers": (dpi.Real(0, 9), repeated(1, 2, "3", 9.0)),
    "decimals": (dpi.Real(0, 9), repeated(Decimal("1.5"), Decimal(2))),
    "codes": (dpi.Boolean(true=1, false=2, missing_codes=[9]), repeated(1, 2, "1", "2")),
    "few missing": (dpi.Real(0, 9), repeated(*[1] * 49, None)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_advised_where_nothing_matters(name):
    """At this price fewer than one row is noise, and 40 rows of 4,000 matter: false alarms have probability 0."""
    column, cells = RIGHT[name]
    results = public(cells, column, dpi.ZCDP(2))
    assert results.advice == ()
    assert "No relevant finding" in str(results)


def test_noise_is_no_advice():
    """Of 300 releases of perfect rows at a low price few are advised on: each with probability 0.001 at most."""
    frame = pd.DataFrame({"x": np.full(50, 0.5), "b": True})
    schema = dpi.Schema(x=dpi.Real(0, 1), b=dpi.Boolean())
    data = dpi.PublicData(frame, schema, rng=np.random.default_rng(1))
    told = sum(bool(dpi.quality(data).fit(dpi.ZCDP(0.005)).advice) for _ in range(300))
    assert told <= 8  # exceeded with probability below 1e-9 by a binomial of 300 and 0.001


def test_rows_left_out_are_no_false_alarm():
    """Of 20,000 releases of 2,000 perfect rows, two are expected, and 25 exceeded with probability below 1e-15."""
    schema = dpi.Schema(x=dpi.Real(0, 1), y=dpi.Real(0, 1))
    exact = np.array([2000.0, 0, 0, 0, 0] * 2 + [2000.0])
    noise = 100 * np.random.default_rng(6).normal(size=(20_000, exact.size))
    limit = 100 * float(stats.norm.isf(1e-4))
    many = [Quality(schema, one, 1e4, limit, None) for one in exact + noise]
    assert sum("rows are left out" in told.text for one in many for told in one.advice) <= 25


CODES = {
    "dates": (dpi.Date("1960-01-01", "2020-12-31"), DATES, "such as '1900-01-01' in"),
    "dates from 1900 on": (dpi.Date("1900-01-01", "1910-12-31"), [dt.date(1850, 1, 1)] * ROWS, "such as '0001-01-01'"),
    "late dates": (dpi.Date("1900-01-01", "1910-12-31"), DATES, "such as '9999-12-31' in"),
    "all dates": (dpi.Date("1900-01-01", "9999-12-31"), [dt.date(1850, 1, 1)] * ROWS, "such as '0001-01-01'"),
    "small numbers": (dpi.Real(0, 9), repeated(-9), "such as -9 in"),
    "a code within the bounds": (dpi.Real(-50, 50), repeated(-99), "such as -99 in"),
    "a code that is declared": (dpi.Real(0, 9, missing_codes=[-9]), repeated(-99), "such as -99 in"),
    "no usual code below": (dpi.Real(-1e12, 0), repeated(-1e13), "of no answer in"),
    "large numbers": (dpi.Real(0, 999), repeated(9999), "such as 9999 in"),
    "no usual code above": (dpi.Real(0, 1e12), repeated(1e13), "of no answer in"),
}


@pytest.mark.parametrize("name", CODES)
def test_codes_that_are_named_are_clamped(name):
    column, cells, words = CODES[name]
    advice = public(cells, column).advice
    assert len(advice) == 1
    assert f"declare codes {words}" in advice[0]


@pytest.mark.parametrize(("neighbors", "said"), [("add_remove", "number of rows itself"), ("replace_one", "All rows")])
def test_no_advice_is_no_good_news_where_rows_are_lost_in_noise(neighbors, said):
    """The noisy counts are given: 60 rows, all impossible, where noise exceeds a hundred."""
    frame = pd.DataFrame({"x": ["bad"] * 60})
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1), neighbors=neighbors)
    release = dpi.quality(dpi.PrivateData(frame, dpi.Schema(x=dpi.Real(0, 9)), ledger)).measure(dpi.ZCDP(0.001))
    stage = replace(release.stages[0], values=(0, 0, 0, 0, 60, 0))
    results = replace(release, stages=(stage,)).infer()
    text = " ".join(str(results).split())
    assert results.advice == ()
    assert "No relevant finding" not in text
    assert said in text
    assert "nothing can be inferred about the cells" in text


# What results hold


def test_counts_shares_and_margins():
    results = public(repeated(1, 2, -5, 99, None, "oops", 3, 4), dpi.Real(0, 9))
    frame = results.frame()
    assert list(frame.index) == ["x", "other"]
    assert frame.loc["x", list(CELL_CLASSES[:5])].round().tolist() == [2000, 500, 500, 500, 500]
    assert np.isnan(frame.loc["x", "unknown level"])
    assert frame.loc["x", "valid share"] == pytest.approx(0.5, abs=1e-3)
    assert frame["margin"].iloc[0] == pytest.approx(1.96 * results.bse.iloc[0], rel=1e-3)
    assert results.rows == pytest.approx(ROWS, abs=0.5)
    assert results.params["rows kept"] == pytest.approx(3000, abs=0.5)
    assert (results.conf_int()[0] < results.params).all()
    assert results.estimates.loc[("x", "missing")] == results.params["x: missing"]
    assert results.with_inference("wald").advice == results.advice
    for text in (str(results), results._repr_html_(), results.summary().as_markdown()):
        assert "25.0%" not in text
        assert "12.5%" in text
        assert "clamped high" in text


def test_the_number_of_rows_is_public_where_the_relation_says_so():
    results = public(repeated(1, None), dpi.Real(0, 9), dpi.ZCDP(0.01), neighbors="replace_one")
    assert results.rows == ROWS
    assert "4,000 (public)" in str(results)


def test_margins_of_shares_are_those_of_many_releases():
    """Standard deviations of 300 releases are within three tenths, seven standard errors: false alarms below 1e-9."""
    frame = pd.DataFrame({"x": repeated(1, 1, 1, None), "y": repeated(1, 99, 1, 1), "z": 1.0})
    schema = dpi.Schema({name: dpi.Real(0, 9) for name in frame})
    data = dpi.PublicData(frame, schema, rng=np.random.default_rng(5))
    many = [dpi.quality(data).fit(dpi.ZCDP(0.01)) for _ in range(300)]
    told = many[0].frame()["share margin"].to_numpy()
    shares = np.array([one.frame()[["missing share", "clamped high share"]].to_numpy().max(axis=1)[:2] for one in many])
    assert (1.96 * shares.std(axis=0) <= 1.3 * told[:2]).all()
    assert (1.96 * shares.std(axis=0) >= 0.7 * told[:2]).all()


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.3])
def test_margins_of_shares_of_publicly_many_rows_are_those_of_counts(alpha):
    frame = public(repeated(1, None), dpi.Real(0, 9), dpi.PureDP(0.5), neighbors="replace_one").frame(alpha)
    np.testing.assert_allclose(frame["share margin"], frame["margin"] / ROWS, rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.3])
def test_margins_of_shares_hold_under_laplace_noise(alpha):
    """Of 20,000 releases no more than alpha and six standard errors miss: false alarms below 1e-8.

    Of 20 columns, so that the noise of a share is nearly that of its count.
    """
    frame = pd.DataFrame({f"x{j}": repeated(1.0, None) for j in range(20)})
    data = dpi.PublicData(frame, dpi.Schema({name: dpi.Real(0, 9) for name in frame}), rng=np.random.default_rng(3))
    results, draws = dpi.quality(data).fit(dpi.PureDP(2)), 20_000
    errors = results.release.law.rvs(draws, np.random.default_rng(4)) * results.release.steps
    counts = np.array([2000.0, 0, 0, 2000, 0] * 20) + errors[:, :-1]
    shares = counts[:, 3] / (counts.sum(axis=1) / 20)
    missed = (np.abs(shares - 0.5) > results.frame(alpha)["share margin"].iloc[0]).mean()
    assert missed <= alpha + 6 * np.sqrt(alpha * (1 - alpha) / draws)


def test_a_plot_has_a_bar_for_each_column():
    results = public(repeated(1, None, "oops"), dpi.Real(0, 9))
    ax = results.plot()
    assert [one.get_text() for one in ax.get_yticklabels()] == ["x", "other", "rows kept by a model of all"]
    widths = np.array([[bar.get_width() for bar in group] for group in ax.containers[:-1]])
    np.testing.assert_allclose(widths.sum(axis=0), 1, atol=0.01)


def test_some_columns_may_be_asked_for():
    frame = pd.DataFrame({"x": repeated(1, None), "y": 1.0, "b": True})
    schema = dpi.Schema(x=dpi.Real(0, 9), y=dpi.Real(0, 9), b=dpi.Boolean())
    data = dpi.PublicData(frame, schema, rng=np.random.default_rng(1))
    results = dpi.quality(data, columns=["b", "y"]).fit(SURE)
    assert list(results.frame().index) == ["y", "b"]
    assert results.params["rows kept"] == pytest.approx(ROWS, abs=0.5)
    assert dpi.quality(data, columns="x").fit(SURE).advice[0].startswith("About 50%")


def test_what_cannot_be_asked_is_refused_before_the_charge():
    ledger = dpi.Ledger.in_memory(dpi.ZCDP(1))
    data = dpi.PrivateData(pd.DataFrame({"x": [1.0]}), dpi.Schema(x=dpi.Real(0, 9)), ledger)
    with pytest.raises(UnknownColumnError, match="y"):
        dpi.quality(data, columns=["y"])
    with pytest.raises(OptionError, match="different"):
        dpi.quality(data, columns=["x", "x"])
    with pytest.raises(OptionError, match="columns"):
        dpi.quality(data, columns=3)
    with pytest.raises(OptionError, match="counts"):
        dpi.quality().explain(dpi.ZCDP(1), schema=dpi.Schema({f"x{j}": dpi.Real(0, 1) for j in range(900)}))
    assert ledger.spent.is_zero


def test_people_are_counted_by_the_rows_that_are_kept():
    frame = pd.DataFrame({"id": [1, 1, 1, 2, None], "x": [1.0, 1.0, 1.0, None, 2.0]})
    data = dpi.PublicData(frame, dpi.Schema(x=dpi.Real(0, 9)), rng=np.random.default_rng(1), id="id", max_rows=2)
    results = dpi.quality(data).fit(SURE)
    assert results.params.round().astype(int).tolist() == [2, 0, 0, 1, 0, 2]


# Later fits


def private(price=1e6):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"b": repeated(1, 2), "x": rng.normal(50, 10, ROWS), "y": repeated(1, 2, 3, 300)})
    schema = dpi.Schema(b=dpi.Boolean(), x=dpi.Real(0, 100), y=dpi.Real(0, 9))
    return dpi.PrivateData(frame, schema, dpi.Ledger.in_memory(dpi.ZCDP(price)))


def test_later_fits_cite_what_concerns_their_columns():
    data = private()
    before = dpi.mean("y", data).fit(SURE)
    assert before.release.notes == ()
    advice = dpi.quality(data).fit(SURE).advice
    assert [one.split(" are ")[0] for one in advice] == [
        "About 50% of the cells of b",
        "About 25% of the cells of y",
        "About 50% of the rows",
    ]
    after = dpi.mean("y", data, by="b").fit(SURE)
    assert after.release.notes == advice[:2]
    assert "as released before: About 50% of the cells of b" in " ".join(str(after.summary()).split())
    assert dpi.mean("x", data).fit(SURE).release.notes == ()
    assert dpi.gram(["b", "x", "y"], data).measure(SURE).notes == advice
    assert len(data.ledger.charges()) == 5
    others = [
        dpi.ols("y ~ x", data, method="gram").fit(SURE),
        dpi.quantile("y", data).fit(SURE),
        dpi.density("y", data).fit(SURE),
        dpi.ttest_1samp("y", data, popmean=2, draws=1000).fit(SURE),
    ]
    assert all("cells of y" in " ".join(str(one.summary()).split()) for one in others)
    assert "cells of b" in " ".join(str(dpi.most_frequent("b", data).fit(dpi.PureDP(1)).summary()).split())


def test_notes_are_stored_with_a_release(tmp_path):
    data = private()
    advice = dpi.quality(data).fit(SURE).advice
    release = dpi.mean("y", data).measure(SURE)
    release.save(tmp_path / "mean.json")
    assert dpi.read_release(tmp_path / "mean.json") == release
    assert dpi.read_release(tmp_path / "mean.json").notes == advice[1:2]
    with pytest.raises(dpi.errors.ReleaseFormatError, match="notes"):
        dpi.Release.from_json(release.to_json().replace('"notes": [', '"notes": [3, '))


def test_a_release_that_was_read_back_is_cited_on_demand():
    first, second = private(), private()
    quality = dpi.quality(first).measure(SURE)
    assert dpi.mean("y", second).measure(SURE).notes == ()
    second.cite(dpi.Release.from_json(quality.to_json()))
    assert len(dpi.mean("y", second).measure(SURE).notes) == 1
    mended = dpi.Schema(b=dpi.Boolean(true=1, false=2), x=dpi.Real(0, 100), y=dpi.Real(0, 9))
    third = dpi.PrivateData(pd.DataFrame({"b": [1], "x": [1.0], "y": [2.0]}), mended, first.ledger)
    third.cite(quality)
    assert [note.split(" are ")[0] for note in dpi.mean("y", third, by="b").measure(SURE).notes] == [
        "About 25% of the cells of y"
    ]
    for wrong in (None, dpi.mean("y", first).measure(SURE), "quality.json"):
        with pytest.raises(OptionError, match="release"):
            first.cite(wrong)


# Only the release is told of


def seen(data, values):
    """Everything that a person sees of quality and of a later fit, the noisy numbers replaced by given ones."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asked = dpi.quality(data)
        explained = asked.explain(dpi.ZCDP(0.1))
        release = asked.measure(dpi.ZCDP(0.1))
        stage = release.stages[0]
        types = [type(one).__name__ for one in stage.values]  # noqa: PD011
        shown = replace(release, stages=(replace(stage, values=values),), charge_ids=("charge",))
        results = shown.infer()
        data.cite(shown)
        later = dpi.mean("x", data).measure(dpi.ZCDP(0.1))
    html, frame = results._repr_html_(), results.frame()
    told = [explained, str(results), html, repr(results), repr(data), *results.advice, *later.notes]
    shapes = [frame.shape, list(frame.columns), frame.dtypes.astype(str).tolist(), list(results.params.index)]
    return told, types, shapes, [str(one.message) for one in caught], release.names, release.law, later.names


@pytest.mark.parametrize("storage", ["objects", "pandas", "arrow", "polars"])
def test_frames_that_differ_in_a_cell_are_told_of_alike(storage):
    base = pd.DataFrame({"x": np.linspace(0, 1, 60), "g": ["a", "b", "c"] * 20})
    schema = dpi.Schema(x=dpi.Real(0, 1, missing_codes=[-9]), g=dpi.Category(["a", "b"]))
    made = {
        "objects": lambda frame: frame.astype(object),
        "pandas": lambda frame: frame.infer_objects(),
        "arrow": lambda frame: pa.table({name: _arrow(frame[name]) for name in frame}),
        "polars": lambda frame: pl.from_arrow(pa.table({name: _arrow(frame[name]) for name in frame})),
    }[storage]

    def told(frame):
        data = dpi.PrivateData(made(frame), schema, dpi.Ledger.in_memory(dpi.ZCDP(9)))
        return seen(data, (40, 3, 2, 9, 6, 30, 1, 29, 28))

    plain = told(base)
    for cell in (None, np.nan, np.inf, "secret", "-9", 1e300, -1e300, True, dt.date(2020, 1, 1), 2 + 1j, 10**30):
        assert told(with_cells(base, x=cell)) == plain, cell
        assert told(with_cells(base, g=cell)) == plain, cell


def _arrow(column):
    """Return cells of one type where Arrow finds one, else as text: storage depends on the rows."""
    cells = column.astype(object).where(column.notna(), None).tolist()
    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if one is None else str(one) for one in cells])
