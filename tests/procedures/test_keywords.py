"""What is asked, then the data, then keywords: other orders and keywords are refused with what to use instead."""

from __future__ import annotations

import dataclasses
import inspect
import re

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.errors import OptionError
from dpinfer.procedures.keywords import INSTEAD
from tests.linear import gram_ols

TOPICS = (
    "dpinfer.descriptions.",
    "dpinfer.families.",
    "dpinfer.procedures.",
    "dpinfer.resampling.",
    "dpinfer.selection.",
)
QUESTIONS = [
    name for name in dpi.__all__ if name.islower() and getattr(getattr(dpi, name), "__module__", "").startswith(TOPICS)
]


@pytest.mark.parametrize(
    ("ask", "option", "instead"),
    [
        (lambda: gram_ols("y ~ x").fit(dpi.ZCDP(1), cov_type="HC1"), "cov_type", r"dpi\.bootstrap\("),
        (lambda: gram_ols("y ~ x", cov_type="HC3"), "cov_type", r"dpi\.bootstrap\("),
        (lambda: gram_ols("y ~ x", weights="w"), "weights", r"model=sm\.WLS"),
        (lambda: gram_ols("y ~ x", data=None, hasconst=False), "hasconst", "0 \\+ x"),
        (lambda: gram_ols("y ~ x", missing="drop"), "missing", "schema"),
        (lambda: dpi.gram(["x", "y"]).fit(dpi.ZCDP(1), maxiter=5), "maxiter", "without iterations"),
        (lambda: dpi.mean("x").fit(dpi.ZCDP(1), alpha=0.1), "alpha", r"conf_int\(alpha="),
        (lambda: dpi.mean("x").fit(epsilon=1.0), "epsilon", r"dpi\.PureDP"),
        (lambda: dpi.ttest_1samp("x", popmean=0, nan_policy="omit"), "nan_policy", "schema"),
        (lambda: dpi.mean("x", groupby="g"), "groupby", "by="),
        (lambda: dpi.histogram("x", bins=5, range=(0, 1)), "range", "bounds="),
        (lambda: dpi.bootstrap("x", n_resamples=99), "n_resamples", "replicates="),
    ],
)
def test_the_alternative_is_named(ask, option, instead):
    with pytest.raises(OptionError, match=instead) as caught:
        ask()
    assert caught.value.option == option


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_tells(name):
    question = getattr(dpi, name)
    required = [p for p in inspect.signature(question).parameters.values() if p.default is p.empty]
    with pytest.raises(OptionError, match=rf"no argument of this name in {name}\(\)"):
        question(**{p.name: "x" for p in required}, nan_policy="omit")


@pytest.mark.parametrize("name", QUESTIONS)
def test_unknown_keywords_are_type_errors(name):
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        getattr(dpi, name)("x", colour="red")


MISPLACED = {
    "q before the data": (lambda d: dpi.quantile("x", 0.5, d), "quantile(column, data, q=...)"),
    "q and data=": (lambda d: dpi.quantile("x", 0.5, data=d), "quantile(column, data, q=...)"),
    "q alone": (lambda _: dpi.quantile("x", [0.1, 0.5]), "quantile(column, data, q=...)"),
    "q after the data": (lambda d: dpi.quantile("x", d, 0.5), "quantile(column, data, q=...)"),
    "data first": (lambda d: dpi.cdf(d, "x"), "cdf(column, data, by=...)"),
    "candidates before the data": (
        lambda d: dpi.exponential_mechanism("x > candidate", [1, 2], d),
        "exponential_mechanism(score, data, candidates=...)",
    ),
    "weights before the columns": (
        lambda d: dpi.linear_queries([[1, 2]], "g", d),
        "linear_queries(columns, data, queries=...)",
    ),
    "weights and columns": (
        lambda _: dpi.linear_queries({"up": [1, 2]}, "g"),
        "linear_queries(columns, data, queries=...)",
    ),
    "weights by their former name": (lambda d: dpi.linear_queries("g", d, W=[1, 2]), "are queries="),
    "ttest_1samp": (lambda d: dpi.ttest_1samp("x", 5, d), "ttest_1samp(column, data, popmean=...)"),
    "ttest_1samp without data": (lambda _: dpi.ttest_1samp("x", 5.0), "ttest_1samp(column, data, popmean=...)"),
    "ttest_ind": (lambda d: dpi.ttest_ind("x", "g", d, True), "ttest_ind(column, by, data, equal_var=...)"),
    "binomtest": (lambda d: dpi.binomtest("b", 0.5, d), "binomtest(column, data, p=...)"),
    "binomtest at the end": (lambda d: dpi.binomtest("b", d, 0.5), "binomtest(column, data, p=...)"),
    "chisquare": (lambda d: dpi.chisquare("g", [1, 2], d), "chisquare(column, data, f_exp=...)"),
    "chisquare at the end": (lambda d: dpi.chisquare("g", d, [1, 2]), "chisquare(column, data, f_exp=...)"),
}


def public():
    schema = dpi.Schema(x=dpi.Real(0, 10), b=dpi.Boolean(), g=dpi.Category(["a", "b"]))
    return dpi.PublicData(schema.sample(50, np.random.default_rng(1)), schema, rng=np.random.default_rng(1))


@pytest.mark.parametrize("name", MISPLACED)
def test_what_stands_in_the_place_of_the_data_is_refused_by_the_right_order(name):
    ask, shown = MISPLACED[name]
    with pytest.raises((OptionError, TypeError), match=re.escape(shown)) as caught:
        ask(public())
    assert caught.value.option == "data" or "W=" in name or name == "weights by their former name"


def test_the_right_order_is_taken():
    assert dpi.quantile("x", public(), q=0.25).probabilities == (0.25,)
    assert dpi.linear_queries("g", public(), queries=[1, 2]).names == ("q0",)
    assert dpi.cdf("x", None).source is None


def test_fit_refuses_unknown_keywords():
    with pytest.raises(TypeError, match="colour"):
        gram_ols("y ~ x").fit(dpi.ZCDP(1), colour="red")


def test_no_alternative_shadows_an_option():
    taken = {name: inspect.signature(getattr(dpi, name)).parameters for name in QUESTIONS}
    assert "weights" in taken["mean"]
    assert "weights" in INSTEAD
    assert dpi.mean("x", weights="w").weights == "w"


def kinds(kind: type) -> dict[str, type]:
    """Return a kind of question and all that are made of it, by name."""
    found = {kind.__name__: kind}
    for one in kind.__subclasses__():
        found |= kinds(one)
    return found


READ = {"method", "family", "by", "columns", "column", "row", "a", "b", "q", "x", "y", "f_exp", "p0", "sizes"}
READ |= {"queries", "workload", "bins", "bounds", "model", "names"}
"""Arguments that a function reads, and that a field of another name or form holds."""


@pytest.mark.parametrize(
    "name", [name for name in QUESTIONS if name not in ("combine", "workload")]
)  # the second describes what is asked
def test_every_option_is_a_field_or_is_read(name):
    ask = getattr(dpi, name)
    known = kinds(dpi.Procedure)
    fields = [
        {one.name for one in dataclasses.fields(known[cls])} for cls in ask.__annotations__["return"].split(" | ")
    ]
    for option in inspect.signature(ask).parameters.keys() - READ - {"data"}:
        assert any(option in one for one in fields)


def test_options_reach_their_fields():
    asked = dpi.total("x", by="g", where="x > 1", weights="w", target="population", inference="wald", draws=3)
    assert (asked.columns, asked.axes, asked.where, asked.weights) == (("x",), ({"column": "g"},), "x > 1", "w")
    assert (asked.target, asked.inference, asked.draws) == ("population", "wald", 3)
    counted = dpi.count(by="g", weights="w")
    assert (counted.kind, counted.columns, counted.weights) == ("total", ("w",), None)
    regressed = gram_ols("y ~ x", row_norm=2.0, norm="l1", split=(0.2, 0.3, 0.5), clamped_share=0.1, seed=4)
    assert (regressed.formula, regressed.row_norm, regressed.norm) == ("y ~ x", 2.0, "l1")
    assert (regressed.split, regressed.clamped_share, regressed.seed) == ((0.2, 0.3, 0.5), 0.1, 4)
    paired = dpi.ttest_rel("x", " y", alternative="less", draws=2000, seed=1)
    assert (paired.column, paired.alternative, paired.draws, paired.seed) == ("(x) - (y)", "less", 2000, 1)
    middle = dpi.median("x", by="g", method="tree", resolution=64, continuous=True)
    assert (middle.probabilities, middle.method, middle.resolution, middle.continuous) == ((0.5,), "tree", 64, True)
