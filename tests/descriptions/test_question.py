"""Descriptions: only released numbers depend on rows, bad questions cost nothing, and many releases are as one."""

from functools import partial

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.errors import (
    FormulaError,
    OptionError,
    SchemaError,
    UnknownColumnError,
)
from dpinfer.privacy.units import NEIGHBORS
from tests.asking import assert_refused, each, unspent
from tests.results.sound import sound

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


def test_results_stay_within_what_is_declared():
    data = dpi.PublicData(plain(12), SCHEMA, rng=np.random.default_rng(5))
    bounds = {
        "mean": ([0, -5] * 3, [10, 5] * 3),
        "weighted mean": (0, 10),
        "variance": (0, np.tile([25, 0.25], 2)),
        "cov": ([0, -25, -1250, 0, -1250, 0], [25, 25, 1250, 25, 1250, 62500]),
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


@pytest.mark.parametrize(("neighbors", "target"), list(zip(NEIGHBORS, ("population", "data"), strict=True)))
def test_shares_that_add_up_to_one_are_results_and_not_errors(neighbors, target):
    """Their covariance is singular but for rounding, and counts may be negative."""
    schema = dpi.Schema(g=dpi.Category(["a", "b", "c"], missing="a", impossible="a"), b=dpi.Boolean())
    rng = np.random.default_rng(3)
    data = dpi.PublicData(schema.sample(60, rng), schema, rng=rng, neighbors=neighbors)
    for price in (dpi.ZCDP(1.0), dpi.ZCDP(1e-3), dpi.PureDP(0.05)):
        for by in ((), "b"):
            for _ in range(3):
                sound(dpi.proportion("g", data, by=by, target=target).fit(price))


X = partial(each, dpi.mean, "x")
BINS = partial(each, dpi.histogram, "x")
POWERS = [f"x ** {power}" for power in range(1, 23)]
BAD = [
    (OptionError, r"histogram\(column, data, bins=\.\.\.\)", [lambda d: dpi.histogram("x", [0, 1], d)]),
    (OptionError, r"histogram\(column, data, bins=", [lambda _: dpi.histogram("x", 5)]),
    (UnknownColumnError, "'z'", [*X(by=["z"]), *X(weights=["z"]), *each(dpi.count, where=["z > 1"])]),
    (UnknownColumnError, "'z'", each(dpi.mean, columns=["z"]) + each(dpi.total, columns=["x + z"])),
    (UnknownColumnError, "'z'", each(dpi.histogram, bins=[0, 1], column=["z"])),
    (SchemaError, "'x' has no levels", each(dpi.mean, "y", by=["x"])),
    (SchemaError, "'n' has no levels", each(dpi.table, columns=["n"])),
    (SchemaError, "'g' is not numeric", each(dpi.histogram, "g", bins=[3])),
    (SchemaError, "'b' is not numeric", each(dpi.histogram, "b", bins=[[0, 1]])),
    (FormulaError, "g", each(dpi.mean, columns=["g"])),
    (FormulaError, "same for every row", each(dpi.mean, columns=["3"])),
    (FormulaError, "unbounded", each(dpi.mean, columns=["log(x)"])),
    (FormulaError, "shift", each(dpi.mean, columns=["x.shift()"])),
    (FormulaError, "not a condition", [*X(where=["x + 1"]), *X(by=["1 < 2"]), *each(dpi.count, where=["1 == 1"])]),
    (OptionError, "columns=", each(dpi.mean, columns=[["x", "x"], [], 3]) + each(dpi.table, columns=[[]])),
    (OptionError, "columns=", each(dpi.cov, columns=[["x", "(x)"]]) + each(dpi.corr, columns=[["x"]])),
    (OptionError, "=", each(dpi.table, columns=[["g", "b", "g"]])),
    (OptionError, "at most 5", each(dpi.corr, columns=[POWERS[:6]])),
    (OptionError, "at most 8", each(dpi.variance, columns=[POWERS[:9]])),
    (OptionError, "at most 20", each(dpi.mean, columns=[POWERS[:21]])),
    (OptionError, "by=", X(by=[["g", "g"], 3, ""])),
    (OptionError, "weights='y'", X(weights=["y"])),
    (OptionError, "weights=", X(weights=[["w"], "2"])),
    (OptionError, "where=3", X(where=[3])),
    (OptionError, "bins=", BINS(bins=[[0, 5, 11], [-0.1, 5], [0, 5, 5], [1.0], [0, np.nan, 2], ["a", "b"]])),
    (OptionError, "bins=", BINS(bins=["auto", None, 0, True, 10**12]) + BINS(bounds=(0, 20), bins=[5])),
    (OptionError, "bounds=", BINS(bins=5, bounds=[(3, 2), 5, ("a", "b")]) + BINS(bins=[0, 1], bounds=[(0, 1)])),
    (OptionError, "column=", each(dpi.histogram, bins=[0, 1], column=[["x"]])),
    (OptionError, "target=", X(target=["sample"])),
    (OptionError, "inference=", X(inference=["bayes"])),
    (OptionError, "replicates=", X(replicates=[50])),
    (OptionError, "seed=", X(seed=[-1])),
    (OptionError, "draws=", each(dpi.count, draws=[200_000, 2.0]) + each(dpi.total, "x", draws=[0])),
    (OptionError, "data=", [lambda _: dpi.mean("x", plain())]),
]
AT_MEASURING = [
    (lambda d: dpi.histogram("x", d, bins=5000), dpi.ZCDP(0.1), "by="),
    (lambda d: dpi.table("g", d, draws=10), dpi.ZCDP(0.1), "draws="),
    (lambda d: dpi.mean("x", d), 0.1, "privacy="),
]


def guarded(neighbors="add_remove", budget=None):
    return dpi.PrivateData(plain(), SCHEMA, dpi.Ledger.in_memory(budget or dpi.ZCDP(1.0), neighbors=neighbors))


@pytest.mark.parametrize(("error", "match", "questions"), BAD)
def test_bad_questions_are_refused_by_name_and_cost_nothing(error, match, questions):
    for neighbors in NEIGHBORS:
        assert_refused(questions, error, match, guarded(neighbors), dpi.ZCDP(0.1))


@pytest.mark.parametrize(("ask", "price", "match"), AT_MEASURING)
def test_bad_prices_cost_nothing(ask, price, match):
    data = guarded()
    with pytest.raises(OptionError, match=match):
        ask(data).fit(price)
    assert unspent(data)


def test_what_is_public_is_not_measured():
    schema = dpi.Schema(x=dpi.Real(0, 1), k=dpi.Integer(0, 1, missing=0, impossible=0))
    frame = schema.sample(20, np.random.default_rng(0))
    data = dpi.PrivateData(frame, schema, dpi.Ledger.in_memory(dpi.ZCDP(1.0), neighbors="replace_one"))
    with pytest.raises(OptionError, match="number of rows"):
        dpi.count(data).fit(dpi.ZCDP(0.1))
    assert unspent(data)
    assert dpi.count(data, by="k").fit(dpi.ZCDP(0.1)).params.size == 2


def test_a_question_does_nothing_until_it_is_measured():
    data = guarded()
    for name, make in KINDS.items():
        assert "standard error from privacy noise alone" in make(data=data).explain(dpi.ZCDP(0.1)), name
        assert "n = 1,000:" in make().explain(dpi.PureDP(1.0), schema=SCHEMA), name
    assert unspent(data)


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


def test_numpy_numbers_of_bins_are_numbers_of_bins():
    edges = [
        dpi.histogram("x", guarded(), bins=bins, bounds=bounds).axes[-1]["edges"]
        for bins, bounds in ((4, None), (np.int64(4), None), (4, (0, 10)), ([0, 2.5, 5, 7.5, 10], None))
    ]
    assert all(one == edges[0] for one in edges)
