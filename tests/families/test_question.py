"""Exponential families: only released numbers depend on rows, bad questions cost nothing, many releases are as one."""

import dataclasses
import logging

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.errors import FormulaError, NotProvedError, OptionError, SchemaError, UnknownColumnError
from dpinfer.families.question import ExpFam
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.statistics.inference import Released
from tests.linear import gram_ols
from tests.logs import charged
from tests.questions import check_refused, hurting, seen

COLUMNS = {
    "b": dpi.Boolean(),
    "i": dpi.Integer(0, 1),
    "m": dpi.Integer(0, 10),
    "k": dpi.Integer(0, 20),
    "w": dpi.Real(0, 30),
    "p": dpi.Real(0.25, 16),
    "x": dpi.Real(-5, 5),
    "y": dpi.Real(0, 8),
    "z": dpi.Real(-1, 3),
    "q": dpi.Real(0.02, 0.97),
    "g": dpi.Category(["a", "b", "c"]),
}
SCHEMA = dpi.Schema(COLUMNS)
OWN = dpi.Family(
    "weighted",
    parameters={"shape": (0, np.inf), "rate": (0, np.inf)},
    statistics=("log(x)", "x"),
    log_density=lambda x, shape, rate: (shape - 1) * np.log(x) - rate * x,
    support=(0, np.inf),
)
KINDS = {
    "bernoulli": lambda **o: dpi.expfam("b", family="bernoulli", **o),
    "bernoulli of 0 and 1": lambda **o: dpi.expfam("i", family="bernoulli", **o),
    "binomial": lambda **o: dpi.expfam("m", family=dpi.Binomial(12), **o),
    "poisson": lambda **o: dpi.expfam("k", family="poisson", **o),
    "geometric where": lambda **o: dpi.expfam("k", family="geometric", where="x > -2", **o),
    "exponential": lambda **o: dpi.expfam("w", family="exponential", **o),
    "gamma": lambda **o: dpi.expfam("p", family="gamma", **o),
    "normal": lambda **o: dpi.expfam("x", family="normal", **o),
    "normal where": lambda **o: dpi.expfam("y", family="normal", where="b | (y < 6)", **o),
    "normal of the data": lambda **o: dpi.expfam("x", family="normal", target="data", **o),
    "lognormal": lambda **o: dpi.expfam("p", family="lognormal", **o),
    "beta": lambda **o: dpi.expfam("q", family="beta", **o),
    "own": lambda **o: dpi.expfam("p", family=OWN, **o),
    "two normals": lambda **o: dpi.expfam(["x", "y"], family="normal", **o),
    "three normals where": lambda **o: dpi.expfam(["x", "y", "z"], family="normal", where="k <= 15", **o),
    "two normals of the data": lambda **o: dpi.expfam(["y", "z"], family="normal", target="data", **o),
    "categorical": lambda **o: dpi.expfam("g", family="categorical", **o),
}

# Nothing but the released numbers depends on the rows.

METHODS = ("wald", "score", "simulated")
PRICE = dpi.ZCDP(0.5)


def plain(rows=80):
    rng = np.random.default_rng(8)
    frame = SCHEMA.sample(rows, rng)
    frame["x"] = rng.normal(0, 1, rows)
    frame["y"] = 4 + frame["x"] + rng.normal(0, 1, rows)
    return frame.assign(
        z=rng.normal(1, 0.5, rows), q=rng.beta(2, 3, rows), p=rng.gamma(2, 2, rows), k=rng.poisson(4, rows)
    )


FRAMES = hurting(SCHEMA, plain)


def traced(kind, frame, neighbors, **options):
    """Fit, and return the results and all that is seen of them but noisy numbers."""
    data = dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(PRICE, neighbors=neighbors))
    results, trace = seen(KINDS[kind](data=data, **options), PRICE)
    assert str(results.with_inference("wald").summary())
    trace["question"] |= {"inference": None, "replicates": None}
    if kind.startswith(("bernoulli", "poisson", "gamma", "normal", "lognormal", "beta")):
        trace["natural"] = results.natural_params().index.tolist()
    return results, trace


def check(results):
    """Numbers are finite, and intervals hold the estimate; what is not determined has an interval alone, and a flag."""
    frame = results.summary_frame()
    missing = frame.iloc[:, 0].isna()
    assert missing.any() == any(flag.startswith("not determined: ") for flag in results.flags)
    assert missing.any() == ("not determined" in str(results.summary().tables[1]))
    assert frame[missing].iloc[:, [1, 2, 3, 6]].isna().all(axis=None)
    assert not frame.iloc[:, 4:6].isna().any(axis=None)
    assert results.pvalues.between(0, 1).all()
    frame = frame[~missing]
    estimate, low, high = (frame.iloc[:, place] for place in (0, 4, 5))
    assert np.isfinite(estimate).all()
    assert np.isfinite(frame["std err"]).all()
    assert (frame["std err"] > 0).all()
    slack = 1e-9 * (1 + estimate.abs())
    assert (low <= estimate + slack).all()
    assert (estimate <= high + slack).all()
    assert frame["noise share"].between(0, 1 + 1e-9).all()


@pytest.fixture(scope="module")
def usual():
    found = {}

    def get(kind, neighbors):
        if (kind, neighbors) not in found:
            found[kind, neighbors] = traced(kind, plain(), neighbors, inference="wald")[1]
        return found[kind, neighbors]

    return get


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMES)
def test_only_the_released_numbers_depend_on_the_rows(name, usual, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    start = list(FRAMES).index(name)
    for place, kind in list(enumerate(KINDS))[start % 5 :: 5]:
        neighbors, method = NEIGHBORS[(start + place) % 2], METHODS[(start + place) % 3]
        options = {"replicates": 99} if method == "simulated" else {}
        results, trace = traced(kind, FRAMES[name](), neighbors, inference=method, **options)
        assert trace == usual(kind, neighbors), kind
        assert trace["warned"] == []
        check(results)
    assert charged(caplog)
    assert tuple(capfd.readouterr()) == ("", "")


@pytest.mark.parametrize("kind", KINDS)
def test_noise_dominated_fits_are_results_and_not_errors(kind):
    """The numbers are random; whether there is an answer is not."""
    rng = np.random.default_rng(6)
    for name, neighbors, price in (
        ("no rows", "add_remove", dpi.ZCDP(1e-6)),
        ("everything constant", "replace_one", dpi.PureDP(0.5)),
        ("everything clamped from above", "add_remove", dpi.ApproxDP(0.5, 1e-6)),
    ):
        data = dpi.PublicData(FRAMES[name](), SCHEMA, rng=rng, neighbors=neighbors)
        results = KINDS[kind](data=data).fit(price)
        check(results.with_inference("wald"))
        if price == dpi.ZCDP(1e-6):
            check(results)
            assert results.flags


@pytest.mark.parametrize("target", ["population", "data"])
def test_several_normals_without_information_are_results_whatever_counts_as_error(target):
    rng = np.random.default_rng(7)
    for name in ("no rows", "one row", "half at either bound"):
        for price in (dpi.PureDP(0.5), dpi.ZCDP(1e-4)):
            data = dpi.PublicData(FRAMES[name](), SCHEMA, rng=rng)
            results = dpi.expfam(["x", "y", "z"], data=data, target=target).fit(price)
            for inference in METHODS:
                check(results.with_inference(inference))


# Bad questions cost nothing.


def own(*statistics, **options):
    given = {"parameters": {f"a{place}": (0, np.inf) for place in range(len(statistics))}, "support": (0, np.inf)}
    return dpi.Family("mine", statistics=statistics, log_density=lambda x, *theta: -x, **(given | options))


NORMAL = {"family": "normal"}
BAD = {
    "normal of a category": ("g", NORMAL, SchemaError, "normal .* suit g"),
    "normal of a truth value": ("b", NORMAL, SchemaError, "normal .* suit b"),
    "gamma from zero": ("w", {"family": "gamma"}, SchemaError, "suit w .*lower > 0"),
    "lognormal below zero": ("x", {"family": "lognormal"}, SchemaError, "suit x .*lower > 0"),
    "exponential below zero": ("x", {"family": "exponential"}, SchemaError, "suit x .*lower >= 0"),
    "beta above one": ("p", {"family": "beta"}, SchemaError, "suit p .*upper < 1"),
    "poisson of reals": ("w", {"family": "poisson"}, SchemaError, "suit w .*Integer"),
    "geometric of reals": ("w", {"family": "geometric"}, SchemaError, "suit w .*Integer"),
    "bernoulli of many values": ("m", {"family": "bernoulli"}, SchemaError, "suit m .*Boolean"),
    "too few trials": ("m", {"family": dpi.Binomial(9)}, SchemaError, r"suit m .*\[0, 9\]"),
    "categories of reals": ("x", {"family": "categorical"}, SchemaError, "'x' has no levels"),
    "unknown column": ("income", NORMAL, UnknownColumnError, "'income'"),
    "unknown columns": (["x", "income"], NORMAL, UnknownColumnError, "'income'"),
    "own, unbounded": ("w", {"family": own("log(x)")}, FormulaError, "unbounded at `?w"),
    "own, unbounded quotient": ("w", {"family": own("x", "1 / (x - 2)")}, FormulaError, "w"),
    "own, the same for all": ("w", {"family": own("x", "x * 0")}, FormulaError, "same for every row"),
    "own, of a truth value": ("b", {"family": own("x")}, SchemaError, "mine .* suit b"),
    "own, away from its support": ("x", {"family": own("x", support=(5, 9))}, SchemaError, "suit x .*support"),
    "own, of reals, discrete": ("w", {"family": own("x", discrete=True)}, SchemaError, "suit w"),
    "no condition": ("x", {**NORMAL, "where": "y + 1"}, FormulaError, "not a condition"),
    "unknown in a condition": ("x", {**NORMAL, "where": "v > 1"}, UnknownColumnError, "'v'"),
    "a condition of another type": ("x", {**NORMAL, "where": 3}, OptionError, "where=3"),
    "a column of another type": (3, NORMAL, OptionError, "column=3"),
    "columns of another type": (["x", 3], NORMAL, OptionError, "column="),
    "one of several columns": (["x"], NORMAL, OptionError, "column="),
    "repeated columns": (["x", "x"], NORMAL, OptionError, "columns="),
    "too many columns": ([f"x ** {power}" for power in range(1, 12)], NORMAL, OptionError, "at most 10"),
    "normals of a category": (["x", "g"], NORMAL, FormulaError, "^g"),
    "normals of a truth value": (["x", "b"], NORMAL, SchemaError, "suit b"),
    "normals without bounds": (["x", "log(w)"], NORMAL, FormulaError, "unbounded"),
    "normals, no condition": (["x", "y"], {**NORMAL, "where": "y"}, FormulaError, "not a cond"),
    "another family of several": (["p", "w"], {"family": "gamma"}, OptionError, "family='gamma'"),
    "unknown family": ("x", {"family": "cauchy"}, OptionError, "family='cauchy'.*'normal'"),
    "family of another type": ("x", {"family": 3}, OptionError, "family=3"),
    "binomial without trials": ("m", {"family": "binomial"}, OptionError, r"Binomial\(trials\)"),
    "inference": ("x", {**NORMAL, "inference": "bayes"}, OptionError, "inference='bayes'"),
    "exact inference": ("x", {**NORMAL, "inference": "exact"}, OptionError, "inference='exact'"),
    "target": ("x", {**NORMAL, "target": "sample"}, OptionError, "target="),
    "replicates": (["x", "y"], {**NORMAL, "replicates": 9}, OptionError, "replicates="),
    "seed": ("x", {**NORMAL, "seed": -1}, OptionError, "seed="),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_questions_are_refused_by_name_when_they_are_asked(name):
    data = dpi.PrivateData(plain(), SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(1.0)))
    check_refused(data, dpi.expfam, *BAD[name])


def test_a_family_in_the_place_of_the_data_is_refused():
    for more in ((), (dpi.PublicData(plain(), SCHEMA, rng=np.random.default_rng(1)),)):
        with pytest.raises(OptionError, match=r"expfam\(column, data, family="):
            dpi.expfam("x", "normal", *more)


# Many releases at once.


@pytest.mark.parametrize("kind", KINDS)
def test_many_releases_at_once_are_as_one_by_one(kind):
    place = list(KINDS).index(kind)
    price, neighbors = (dpi.ZCDP(0.3), dpi.PureDP(2.0))[place % 2], NEIGHBORS[place // 2 % 2]
    data = dpi.PublicData(plain(200), SCHEMA, rng=np.random.default_rng(4), neighbors=neighbors)
    procedure = KINDS[kind](data=data)
    measured = procedure.measurement(price)
    releases = [procedure.measure(price) for _ in range(2)]
    values = np.stack([one.array for one in releases])
    for method in ("auto", "wald"):
        asked = dataclasses.replace(procedure, inference=method)
        released = Released.of_study(measured, values)
        batch = asked.estimate(released, alpha=0.1)
        if isinstance(asked, ExpFam):  # it tests on demand: inversions take most of the time
            assert np.isnan(batch.pvalues).all()
            batch = asked.estimate(released, alpha=0.1, pvalues=True)
        for row, release in enumerate(releases):
            alone = asked.infer(release)
            assert batch.names == tuple(alone.params.index)
            np.testing.assert_allclose(batch.params[row], alone.params, rtol=1e-7, atol=1e-9)
            np.testing.assert_allclose(batch.bse[row], alone.bse, rtol=1e-6)
            np.testing.assert_allclose(batch.intervals[row], alone.conf_int(alpha=0.1), rtol=1e-5, atol=1e-7)
            np.testing.assert_allclose(batch.pvalues[row], alone.pvalues, rtol=1e-4, atol=1e-300)
            assert batch.flagged[row] == bool(alone.flags)
    with pytest.raises(NotProvedError, match="simulated"):
        dataclasses.replace(procedure, inference="simulated").estimate(Released.of_study(measured, values))


def test_a_measurement_of_something_else_is_refused():
    other = gram_ols("y ~ x").measurement(dpi.ZCDP(1.0), schema=SCHEMA)
    for kind in ("normal", "two normals"):
        with pytest.raises(OptionError, match="released="):
            KINDS[kind]().estimate(Released.of_study(other, np.zeros((1, 6))))
