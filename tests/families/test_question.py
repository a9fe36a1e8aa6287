"""Exponential families: only released numbers depend on rows, bad questions cost nothing, many releases are as one."""

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.errors import FormulaError, OptionError, SchemaError, UnknownColumnError
from dpinfer.statistics.inference import Released
from tests.families.drawn import KINDS, SCHEMA
from tests.linear import gram_ols
from tests.questions import check_refused
from tests.results.sound import sound

METHODS = ("wald", "score", "simulated")


def plain(rows=80):
    rng = np.random.default_rng(8)
    frame = SCHEMA.sample(rows, rng)
    frame["x"] = rng.normal(0, 1, rows)
    frame["y"] = 4 + frame["x"] + rng.normal(0, 1, rows)
    return frame.assign(
        z=rng.normal(1, 0.5, rows), q=rng.beta(2, 3, rows), p=rng.gamma(2, 2, rows), k=rng.poisson(4, rows)
    )


@pytest.mark.parametrize("target", ["population", "data"])
def test_several_normals_without_information_are_results_whatever_counts_as_error(target):
    rng = np.random.default_rng(7)
    for rows in (plain(0), plain(1), plain().assign(**{name: np.tile([1e300, -1e300], 40) for name in "xyz"})):
        for price in (dpi.PureDP(0.5), dpi.ZCDP(1e-4)):
            data = dpi.PublicData(rows, SCHEMA, rng=rng)
            results = dpi.expfam(["x", "y", "z"], data=data, target=target).fit(price)
            for inference in METHODS:
                sound(results.with_inference(inference))


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


def test_a_measurement_of_something_else_is_refused():
    other = gram_ols("y ~ x").measurement(dpi.ZCDP(1.0), schema=SCHEMA)
    for kind in ("normal", "two normals"):
        with pytest.raises(OptionError, match="released="):
            KINDS[kind].estimate(Released.of_study(other, np.zeros((1, 6))))
