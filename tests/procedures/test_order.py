"""One order of arguments: what is asked, then the data, then keywords; anything else shows the right spelling."""

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.errors import OptionError

SCHEMA = dpi.Schema(x=dpi.Real(0, 10), g=dpi.Category(["a", "b"]))


def data():
    rng = np.random.default_rng(1)
    return dpi.PublicData(SCHEMA.sample(50, rng), SCHEMA, rng=rng)


MISPLACED = {
    "q before the data": (lambda d: dpi.quantile("x", 0.5, d), r"quantile\(column, data, q=...\)"),
    "q and data=": (lambda d: dpi.quantile("x", 0.5, data=d), r"quantile\(column, data, q=...\)"),
    "q alone": (lambda _: dpi.quantile("x", [0.1, 0.5]), r"quantile\(column, data, q=...\)"),
    "q after the data": (lambda d: dpi.quantile("x", d, 0.5), r"quantile\(column, data, q=...\)"),
    "data first": (lambda d: dpi.cdf(d, "x"), r"cdf\(column, data, by=...\)"),
    "candidates before the data": (
        lambda d: dpi.exponential_mechanism("x > candidate", [1, 2], d),
        r"exponential_mechanism\(score, data, candidates=...\)",
    ),
    "weights before the columns": (
        lambda d: dpi.linear_queries([[1, 2]], "g", d),
        r"linear_queries\(columns, data, queries=...\)",
    ),
    "weights and columns": (
        lambda _: dpi.linear_queries({"up": [1, 2]}, "g"),
        r"linear_queries\(columns, data, queries=...\)",
    ),
    "weights by their former name": (lambda d: dpi.linear_queries("g", d, W=[1, 2]), "are queries="),
}


@pytest.mark.parametrize("name", MISPLACED)
def test_what_stands_in_the_place_of_the_data_is_refused(name):
    ask, match = MISPLACED[name]
    with pytest.raises(OptionError, match=match):
        ask(data())


def test_the_right_order_is_taken():
    assert dpi.quantile("x", data(), q=0.25).probabilities == (0.25,)
    assert dpi.linear_queries("g", data(), queries=[1, 2]).names == ("q0",)
    assert dpi.cdf("x", None).source is None
