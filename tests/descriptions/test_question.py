"""Descriptions: only released numbers depend on rows, bad questions cost nothing, and many releases are as one."""

import dataclasses
import logging
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.errors import (
    BudgetExceededError,
    DPInferError,
    FormulaError,
    NotProvedError,
    OptionError,
    SchemaError,
    UnknownColumnError,
)
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.statistics.inference import Released
from tests.logs import charged
from tests.odd_cells import with_cells

SCHEMA = dpi.Schema(
    x=dpi.Real(0, 10),
    y=dpi.Real(-5, 5),
    k=dpi.Integer(0, 3),
    n=dpi.Integer(0, 500),
    b=dpi.Boolean(),
    g=dpi.Category(["a", "b", "c"]),
    w=dpi.Real(0, 4),
)
KINDS = {
    "mean": lambda **o: dpi.mean(["x", "y"], by="g", **o),
    "mean where": lambda **o: dpi.mean("log(1 + x)", where="b & (k > 0)", **o),
    "weighted mean": lambda **o: dpi.mean("x", by="k", weights="w", **o),
    "mean of the data": lambda **o: dpi.mean("x", by=["g", "b"], target="data", **o),
    "total": lambda **o: dpi.total(["x", "y"], by="b", **o),
    "weighted total": lambda **o: dpi.total("x", weights="w", target="population", **o),
    "variance": lambda **o: dpi.variance(["x", "b"], by="b", **o),
    "cov": lambda **o: dpi.cov(["x", "y", "n"], **o),
    "corr": lambda **o: dpi.corr(["x", "y"], by="x > 5", **o),
    "proportion": lambda **o: dpi.proportion("g", by="b", **o),
    "proportion of the data": lambda **o: dpi.proportion("g", target="data", **o),
    "proportion of truth": lambda **o: dpi.proportion("x > y", **o),
    "count": lambda **o: dpi.count(where="x > 2", **o),
    "table": lambda **o: dpi.table(["g", "k"], target="population", **o),
    "histogram": lambda **o: dpi.histogram("x", bins=[0, 1, 2.5, 9], by="b", **o),
    "histogram of integers": lambda **o: dpi.histogram("n", bins=np.arange(0, 501, 50), **o),
}
SIMULATED = {"mean", "mean where", "weighted mean", "mean of the data", "variance", "cov", "corr", "proportion"}
METHODS = ("wald", "score", "simulated")


def plain(rows=80):
    rng = np.random.default_rng(8)
    frame = SCHEMA.sample(rows, rng)
    frame["y"] = np.clip(frame["x"] - 5 + rng.normal(0, 1, rows), -5, 5)
    return frame


FRAMES = {
    "NaN": lambda: with_cells(plain(), x=np.nan, g=np.nan, b=np.nan, k=np.nan, w=np.nan),
    "infinity": lambda: with_cells(plain(), x=np.inf, y=-np.inf, n=np.inf, w=np.inf),
    "text": lambda: with_cells(plain(), x="oops", b="maybe", n="12", g=3, k="1.5"),
    "None": lambda: with_cells(plain(), x=None, g=None, b=None, n=None),
    "objects": lambda: with_cells(plain(), x=object(), g=[1], b=b"x", k=pd.Timestamp("2020-01-01"), n=10**400),
    "no rows": lambda: plain(0),
    "one row": lambda: plain(1),
    "two rows": lambda: plain(2),
    "everything clamped": lambda: plain().assign(x=1e300, y=-1e300, k=99, n=-1, w=50.0),
    "everything constant": lambda: plain().assign(x=5.0, y=0.0, k=2, n=7, b=True, g="b", w=1.0),
    "everything missing": lambda: pd.DataFrame(np.nan, index=range(80), columns=list(SCHEMA)),
    "nothing known": lambda: plain().assign(g="zebra", b="zebra"),
    "weights are zero": lambda: plain().assign(w=0.0),
    "texts": lambda: plain().astype(str),
    "whole numbers": lambda: plain().assign(x=np.arange(80, dtype=np.uint8), n=np.arange(80, dtype=np.uint64)),
    "collinear": lambda: plain().assign(y=lambda f: f["x"] - 5),
    "arrow": lambda: pa.Table.from_pandas(plain()),
    "arrow, all missing": lambda: pa.table({name: pa.nulls(80) for name in SCHEMA}),
    "polars": lambda: pl.from_pandas(plain()),
}


def traced(kind, frame, neighbors, price, **options):
    """Fit, and collect everything that can be seen apart from the released numbers."""
    data = dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(price, neighbors=neighbors))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        results = KINDS[kind](data=data, **options).fit(price)
        table = results.summary_frame()
        results.conf_int(alpha=0.5)
        assert str(results.summary())
    release = results.release
    trace = {
        "index": table.index.tolist(),
        "columns": list(table.columns),
        "dtypes": [str(kind) for kind in table.dtypes],
        "params": (list(results.params.index), str(results.params.dtype)),
        "names": release.names,
        "steps": release.steps,
        "law": release.law,
        "cost": release.cost,
        "question": {**release.question, "inference": None, "replicates": None},
        "spent": data.ledger.spent,
        "warned": [str(one.message) for one in warned],
    }
    return trace, results


def check(results):
    """Numbers are finite, and intervals hold the estimate and stay within what is possible."""
    frame = results.summary_frame()
    low, high = frame.iloc[:, 4], frame.iloc[:, 5]
    estimate = frame.iloc[:, 0]
    assert np.isfinite(estimate).all()
    assert np.isfinite(frame["std err"]).all()
    assert (frame["std err"] > 0).all()
    slack = 1e-9 * (1 + estimate.abs())
    assert (low <= estimate + slack).all()
    assert (estimate <= high + slack).all()
    assert not low.isna().any()
    assert not high.isna().any()
    assert results.pvalues.between(0, 1).all()
    assert frame["noise share"].between(0, 1 + 1e-9).all()


def test_results_stay_within_what_is_declared():
    data = dpi.PublicData(plain(12), SCHEMA, rng=np.random.default_rng(5))
    bounds = {
        "mean": ([0, -5] * 3, [10, 5] * 3),
        "weighted mean": (0, 10),
        "variance": (0, np.tile([25, 0.25], 2)),
        "cov": (
            [0, -25, -1250, 0, -1250, 0],
            [25, 25, 1250, 25, 1250, 62500],
        ),
        "corr": (-1, 1),
        "proportion": (0, 1),
        "histogram": (0, np.inf),
    }
    for kind, (lower, upper) in bounds.items():
        for method in METHODS if kind in SIMULATED else METHODS[:2]:
            results = KINDS[kind](data=data, inference=method).fit(dpi.ZCDP(0.02))
            ends = results.conf_int()
            for values in (results.params, ends[0], ends[1]):
                assert (values >= np.array(lower) - 1e-9).all(), (kind, method)
                assert (values <= np.array(upper) + 1e-9).all(), (kind, method)


PRICE = dpi.ZCDP(0.5)


@pytest.fixture(scope="module")
def usual():
    found = {}

    def get(kind, neighbors):
        if (kind, neighbors) not in found:
            found[kind, neighbors] = traced(kind, plain(), neighbors, PRICE)[0]
        return found[kind, neighbors]

    return get


def options_of(kind, method):
    if method == "simulated" and kind not in SIMULATED:
        method = "score"
    return {"inference": method} | ({"replicates": 99} if method == "simulated" else {})


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMES)
def test_only_the_released_numbers_depend_on_the_rows(name, usual, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    start = sorted(FRAMES).index(name)
    for place, kind in list(enumerate(KINDS))[start % 3 :: 3]:
        neighbors, method = NEIGHBORS[(start + place) % 2], METHODS[(start // 3 + place) % 3]
        trace, results = traced(kind, FRAMES[name](), neighbors, PRICE, **options_of(kind, method))
        assert trace == usual(kind, neighbors), kind
        assert trace["warned"] == []
        check(results)
    assert charged(caplog)
    assert tuple(capfd.readouterr()) == ("", "")


@pytest.mark.parametrize("price", [dpi.PureDP(0.5), dpi.GDP(0.2), dpi.ApproxDP(0.5, 1e-6), dpi.ZCDP(1e-6)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_noise_dominated_fits_are_results_and_not_errors(kind, price):
    """The numbers are random; whether there is an answer is not."""
    rng = np.random.default_rng(6)
    for name, neighbors in (("no rows", "add_remove"), ("everything constant", "replace_one")):
        data = dpi.PublicData(FRAMES[name](), SCHEMA, rng=rng, neighbors=neighbors)
        results = KINDS[kind](data=data).fit(price)
        check(results)
        check(results.with_inference("wald"))


@pytest.mark.parametrize("target", ["population", "data"])
@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_shares_that_add_up_to_one_are_results_and_not_errors(neighbors, target):
    """Their covariance is singular but for rounding, and counts may be negative."""
    schema = dpi.Schema(g=dpi.Category(["a", "b", "c"], missing="a", impossible="a"), b=dpi.Boolean())
    rng = np.random.default_rng(3)
    data = dpi.PublicData(schema.sample(60, rng), schema, rng=rng, neighbors=neighbors)
    for price in (dpi.ZCDP(1.0), dpi.ZCDP(1e-3), dpi.PureDP(0.05)):
        for by in ((), "b"):
            for _ in range(3):
                check(dpi.proportion("g", data, by=by, target=target).fit(price))


CELL = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from(["a", "b", "c", "1", " 2 ", "true", "1e3"]),
)


@settings(max_examples=25)
@given(st.sampled_from(sorted(KINDS)), st.lists(st.tuples(*[CELL] * len(SCHEMA)), max_size=4))
def test_no_cells_can_make_a_description_fail(kind, rows):
    cells = np.empty((len(rows), len(SCHEMA)), dtype=object)
    for place, row in enumerate(rows):
        for column, cell in enumerate(row):
            cells[place, column] = cell
    data = dpi.PublicData(pd.DataFrame(cells, columns=list(SCHEMA), dtype=object), SCHEMA, rng=np.random.default_rng(0))
    check(KINDS[kind](data=data).fit(dpi.ZCDP(0.5)))


BAD = {
    "bins before data": (
        lambda d: dpi.histogram("x", [0, 1], d),
        OptionError,
        r"histogram\(column, data, bins=\.\.\.\)",
    ),
    "bins in the place of data": (lambda d: dpi.histogram("x", 5), OptionError, r"histogram\(column, data, bins="),
    "unknown column": (lambda d: dpi.mean("z", d), UnknownColumnError, "'z'"),
    "unknown group": (lambda d: dpi.mean("x", d, by="z"), UnknownColumnError, "'z'"),
    "unknown in a condition": (lambda d: dpi.count(d, where="z > 1"), UnknownColumnError, "'z'"),
    "unknown in an expression": (lambda d: dpi.total("x + z", d), UnknownColumnError, "'z'"),
    "unknown weights": (lambda d: dpi.mean("x", d, weights="z"), UnknownColumnError, "'z'"),
    "unknown of a histogram": (lambda d: dpi.histogram("z", d, bins=[0, 1]), UnknownColumnError, "'z'"),
    "a real as group": (lambda d: dpi.mean("y", d, by="x"), SchemaError, "'x' has no levels"),
    "a long integer as group": (lambda d: dpi.table("n", d), SchemaError, "'n' has no levels"),
    "a category as number": (lambda d: dpi.mean("g", d), FormulaError, "g"),
    "a constant": (lambda d: dpi.mean("3", d), FormulaError, "same for every row"),
    "unbounded": (lambda d: dpi.mean("log(x)", d), FormulaError, "unbounded"),
    "other rows": (lambda d: dpi.mean("x.shift()", d), FormulaError, "shift"),
    "repeated columns": (lambda d: dpi.mean(["x", "x"], d), OptionError, "columns="),
    "repeated columns, spelled otherwise": (lambda d: dpi.cov(["x", "(x)"], d), OptionError, "columns="),
    "repeated groups": (lambda d: dpi.mean("x", d, by=["g", "g"]), OptionError, "by="),
    "repeated columns of a table": (lambda d: dpi.table(["g", "b", "g"], d), OptionError, "="),
    "too many columns": (lambda d: dpi.corr([f"x ** {i}" for i in range(1, 7)], d), OptionError, "at most 5"),
    "too many variances": (lambda d: dpi.variance([f"x ** {i}" for i in range(1, 10)], d), OptionError, "at most 8"),
    "too many means": (lambda d: dpi.mean([f"x ** {i}" for i in range(1, 22)], d), OptionError, "at most 20"),
    "one column to correlate": (lambda d: dpi.corr(["x"], d), OptionError, "columns="),
    "no columns": (lambda d: dpi.mean([], d), OptionError, "columns="),
    "no columns of a table": (lambda d: dpi.table([], d), OptionError, "columns="),
    "columns of another type": (lambda d: dpi.mean(3, d), OptionError, "columns="),
    "groups of another type": (lambda d: dpi.mean("x", d, by=3), OptionError, "by="),
    "negative weights": (lambda d: dpi.mean("x", d, weights="y"), OptionError, "weights='y'"),
    "weights of another type": (lambda d: dpi.mean("x", d, weights=["w"]), OptionError, "weights="),
    "constant weights": (lambda d: dpi.mean("x", d, weights="2"), OptionError, "weights="),
    "no condition": (lambda d: dpi.mean("x", d, where="x + 1"), FormulaError, "not a condition"),
    "a constant condition": (lambda d: dpi.count(d, where="1 == 1"), FormulaError, "not a condition"),
    "a constant group": (lambda d: dpi.mean("x", d, by="1 < 2"), FormulaError, "not a condition"),
    "a condition of another type": (lambda d: dpi.mean("x", d, where=3), OptionError, "where=3"),
    "bins outside bounds": (lambda d: dpi.histogram("x", d, bins=[0, 5, 11]), OptionError, "bins="),
    "bins below bounds": (lambda d: dpi.histogram("x", d, bins=[-0.1, 5]), OptionError, "bins="),
    "bins that fall": (lambda d: dpi.histogram("x", d, bins=[0, 5, 5]), OptionError, "bins="),
    "bins of text": (lambda d: dpi.histogram("x", d, bins="auto"), OptionError, "bins="),
    "bins of texts": (lambda d: dpi.histogram("x", d, bins=["a", "b"]), OptionError, "bins="),
    "no bins": (lambda d: dpi.histogram("x", d, bins=None), OptionError, "bins="),
    "one edge": (lambda d: dpi.histogram("x", d, bins=[1.0]), OptionError, "bins="),
    "NaN in bins": (lambda d: dpi.histogram("x", d, bins=[0, np.nan, 2]), OptionError, "bins="),
    "zero bins": (lambda d: dpi.histogram("x", d, bins=0), OptionError, "bins="),
    "bins of a truth value": (lambda d: dpi.histogram("x", d, bins=True), OptionError, "bins="),
    "bins beyond bounds": (lambda d: dpi.histogram("x", d, bins=5, bounds=(0, 20)), OptionError, "bins="),
    "bounds that fall": (lambda d: dpi.histogram("x", d, bins=5, bounds=(3, 2)), OptionError, "bounds="),
    "bounds that are no pair": (lambda d: dpi.histogram("x", d, bins=5, bounds=5), OptionError, "bounds="),
    "bounds of text": (lambda d: dpi.histogram("x", d, bins=5, bounds=("a", "b")), OptionError, "bounds="),
    "bounds beside edges": (lambda d: dpi.histogram("x", d, bins=[0, 1], bounds=(0, 1)), OptionError, "bounds="),
    "far too many bins": (lambda d: dpi.histogram("x", d, bins=10**12), OptionError, "bins="),
    "too many draws": (lambda d: dpi.count(d, draws=200_000), OptionError, "draws="),
    "a blank group": (lambda d: dpi.mean("x", d, by=""), OptionError, "by="),
    "bins of a category": (lambda d: dpi.histogram("g", d, bins=3), SchemaError, "'g' is not numeric"),
    "bins of a boolean": (lambda d: dpi.histogram("b", d, bins=[0, 1]), SchemaError, "'b' is not numeric"),
    "column of another type": (lambda d: dpi.histogram(["x"], d, bins=[0, 1]), OptionError, "column="),
    "target": (lambda d: dpi.mean("x", d, target="sample"), OptionError, "target="),
    "inference": (lambda d: dpi.mean("x", d, inference="bayes"), OptionError, "inference="),
    "replicates": (lambda d: dpi.mean("x", d, replicates=50), OptionError, "replicates="),
    "seed": (lambda d: dpi.mean("x", d, seed=-1), OptionError, "seed="),
    "zero draws": (lambda d: dpi.total("x", d, draws=0), OptionError, "draws="),
    "draws of another type": (lambda d: dpi.count(d, draws=2.0), OptionError, "draws="),
    "data": (lambda d: dpi.mean("x", plain()), OptionError, "data="),
}
AT_MEASURING = {
    "too many cells for results": (lambda d: dpi.histogram("x", d, bins=5000), OptionError, "by="),
    "draws of Gaussian noise": (lambda d: dpi.table("g", d, draws=10), OptionError, "draws="),
    "a price that is a number": (lambda d: dpi.mean("x", d), OptionError, "privacy="),
}


def guarded(neighbors="add_remove", budget=None):
    return dpi.PrivateData(plain(), SCHEMA, dpi.Ledger.in_memory(budget or dpi.ZCDP(1.0), neighbors=neighbors))


def unspent(data):
    return data.ledger.spent == dpi.ZCDP(0.0) and data.ledger.charges().empty


@pytest.mark.parametrize("name", BAD)
def test_bad_questions_are_refused_by_name_when_they_are_asked(name):
    ask, error, match = BAD[name]
    for neighbors in NEIGHBORS:
        data = guarded(neighbors)
        with pytest.raises(error, match=match):
            ask(data)
        assert unspent(data)


@pytest.mark.parametrize("name", [name for name in BAD if name != "data"])
def test_bad_questions_cost_nothing_where_the_data_come_later(name):
    ask, *_ = BAD[name]
    data = guarded()
    with pytest.raises(DPInferError):
        ask(None).bind(data).fit(dpi.ZCDP(0.1))
    assert unspent(data)


@pytest.mark.parametrize("name", AT_MEASURING)
def test_bad_prices_cost_nothing(name):
    ask, error, match = AT_MEASURING[name]
    data = guarded()
    with pytest.raises(error, match=match):
        ask(data).fit(0.1 if "number" in name else dpi.ZCDP(0.1))
    assert unspent(data)


def test_what_is_public_is_not_measured():
    schema = dpi.Schema(x=dpi.Real(0, 1), k=dpi.Integer(0, 1, missing=0, impossible=0))
    frame = schema.sample(20, np.random.default_rng(0))
    data = dpi.PrivateData(frame, schema, dpi.Ledger.in_memory(dpi.ZCDP(1.0), neighbors="replace_one"))
    with pytest.raises(OptionError, match="number of rows"):
        dpi.count(data).fit(dpi.ZCDP(0.1))
    assert unspent(data)
    assert dpi.count(data, by="k").fit(dpi.ZCDP(0.1)).params.size == 2


def test_too_dear_questions_cost_nothing():
    data = guarded()
    with pytest.raises(BudgetExceededError):
        dpi.mean("x", data).fit(dpi.ZCDP(2.0))
    assert unspent(data)
    dpi.mean("x", data).fit(dpi.ZCDP(1.0))
    assert data.ledger.spent == dpi.ZCDP(1.0)
    assert data.ledger.charges()["description"].tolist() == ["mean of x"]


def test_a_question_does_nothing_until_it_is_measured():
    data = guarded()
    asked = [make(data=data) for make in KINDS.values()]
    told = [one.explain(dpi.ZCDP(0.1)) for one in asked]
    assert unspent(data)
    assert all("standard error from privacy noise alone" in text for text in told)
    for name, make in KINDS.items():
        assert "n = 1,000:" in make().explain(dpi.PureDP(1.0), schema=SCHEMA), name


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("kind", ["mean", "mean of the data", "total", "variance", "cov", "proportion", "table"])
def test_the_noise_that_is_explained_is_that_of_uniform_rows(kind, neighbors):
    frame = SCHEMA.sample(10_000, np.random.default_rng(1))
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(2), neighbors=neighbors)
    text = KINDS[kind](data=data).explain(dpi.ZCDP(0.5))
    line = next(line for line in text.splitlines() if "n = 10,000" in line)
    told = [float(part.split()[-1]) for part in line.split(": ", 1)[1].split(" (in")[0].split(", ") if " " in part]
    results = KINDS[kind](data=data).fit(dpi.ZCDP(0.5))
    width = len(told)
    median = np.median(results.bse_noise.to_numpy().reshape(-1, width), axis=0)
    assert median == pytest.approx(told, rel=0.05)


@pytest.mark.parametrize(
    ("price", "neighbors"), [(dpi.ZCDP(0.3), "replace_one"), (dpi.PureDP(2.0), "add_remove")], ids=str
)
@pytest.mark.parametrize("kind", KINDS)
def test_many_releases_at_once_are_as_one_by_one(kind, price, neighbors):
    data = dpi.PublicData(plain(60), SCHEMA, rng=np.random.default_rng(4), neighbors=neighbors)
    procedure = KINDS[kind](data=data)
    measured = procedure.measurement(price)
    releases = [procedure.measure(price) for _ in range(3)]
    for method in ("auto", "wald"):
        asked = dataclasses.replace(procedure, inference=method)
        values = np.stack([one.array for one in releases])
        batch = asked.estimate(Released.of_study(measured, values), alpha=0.1)
        for place, release in enumerate(releases):
            alone = asked.infer(release)
            assert batch.names == tuple(alone.params.index)
            np.testing.assert_allclose(batch.params[place], alone.params, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(batch.bse[place], alone.bse, rtol=1e-9)
            np.testing.assert_allclose(batch.intervals[place], alone.conf_int(alpha=0.1), rtol=1e-6, atol=1e-9)
            np.testing.assert_allclose(batch.pvalues[place], alone.pvalues, rtol=1e-6, atol=1e-300)
            assert batch.flagged[place] == bool(alone.flags)
    with pytest.raises(NotProvedError, match="simulated"):
        dataclasses.replace(procedure, inference="simulated").estimate(Released.of_study(measured, values))


def test_numpy_numbers_of_bins_are_numbers_of_bins():
    edges = [
        dpi.histogram("x", guarded(), bins=bins, bounds=bounds).axes[-1]["edges"]
        for bins, bounds in ((4, None), (np.int64(4), None), (4, (0, 10)), ([0, 2.5, 5, 7.5, 10], None))
    ]
    assert all(one == edges[0] for one in edges)
