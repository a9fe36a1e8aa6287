"""Numbers as tables show them."""

import math

import numpy as np
import pandas as pd
import pytest

from dpinfer.display.report import cell, count, number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (9999.4, "9999"),
        (9999.6, "10,000"),
        (12345.678, "12,346"),
        (-2e6, "-2,000,000"),
        (1e10, "1e+10"),
        (0.000123456, "0.0001235"),
        (math.inf, "inf"),
    ],
)
def test_large_numbers_are_grouped_and_others_have_four_digits(value, text):
    assert number(value) == text


def test_counts_are_whole():
    assert [count(value) for value in (7, 1234.4, 1e6)] == ["7", "1,234", "1,000,000"]
    assert count(math.nan) == "nan"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (np.nan, ""),
        (pd.NA, ""),
        (pd.NaT, ""),
        (True, "yes"),
        (np.False_, "no"),
        (np.int64(12345), "12,345"),
        (2000, "2000"),
        (np.float64(0.25), "0.25"),
        ("a < b", "a < b"),
    ],
)
def test_cells(value, text):
    assert cell(value) == text
