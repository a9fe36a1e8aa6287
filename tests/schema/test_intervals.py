"""Interval arithmetic never loses a value."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dpinfer.schema import intervals
from dpinfer.schema.intervals import Interval
from dpinfer.schema.nodes import Node, evaluate

NUMBERS = st.one_of(
    st.floats(-1e6, 1e6),
    st.integers(-10, 10).map(float),
    st.floats(-1e-300, 1e-300),
    st.floats(-1e150, 1e150),
)
SHARES = st.floats(0, 1)


@st.composite
def interval_and_point(draw):
    lower, upper = sorted((draw(NUMBERS), draw(NUMBERS)))
    share = draw(SHARES)
    return Interval(lower, upper), min(max(lower * (1 - share) + upper * share, lower), upper)


@given(interval_and_point(), interval_and_point())
def test_arithmetic_holds_exact_and_computed_values(first, second):
    (a, x), (b, y) = first, second
    exact_x, exact_y = Fraction(x), Fraction(y)
    cases = [
        (intervals.add(a, b), exact_x + exact_y, x + y),
        (intervals.subtract(a, b), exact_x - exact_y, x - y),
        (intervals.multiply(a, b), exact_x * exact_y, x * y),
    ]
    if 0 not in b:
        with np.errstate(over="ignore"):
            cases.append((intervals.divide(a, b), exact_x / exact_y, float(np.divide(x, y))))
    for bounds, exact, computed in cases:
        assert bounds.lower <= computed <= bounds.upper
        assert not bounds.finite or Fraction(bounds.lower) <= exact <= Fraction(bounds.upper)


@given(interval_and_point(), st.integers(0, 12))
def test_powers_hold_exact_and_computed_values(first, exponent):
    a, x = first
    bounds = intervals.power(a, exponent)
    assume(bounds.finite)
    assert Fraction(bounds.lower) <= Fraction(x) ** exponent <= Fraction(bounds.upper)
    values = {"x": np.array([x, a.lower, a.upper])}
    computed = evaluate(Node("power", (Node("column", name="x"),), value=float(exponent)), values)
    assert ((bounds.lower <= computed) & (computed <= bounds.upper)).all()


def test_exact_bounds_stay_exact():
    assert intervals.multiply(Interval(-2, 3), Interval(0, 10)) == Interval(-20, 30)
    assert intervals.power(Interval(-40, 60), 2) == Interval(0, 3600)
    assert intervals.power(Interval(-60, -40), 2) == Interval(1600, 3600)
    assert intervals.power(Interval(-2, 3), 3) == Interval(-8, 27)
    assert intervals.divide(Interval(0, 1), Interval(2, 4)) == Interval(0, 0.5)
    assert intervals.absolute(Interval(-3, 2)) == Interval(0, 3)
    assert intervals.absolute(Interval(-3, -2)) == Interval(2, 3)
    assert intervals.minimum(Interval(0, 5), Interval(1, 2)) == Interval(0, 2)
    assert intervals.maximum(Interval(0, 5), Interval(1, 2)) == Interval(1, 5)
    assert math.copysign(1, intervals.multiply(Interval(0, 1), Interval(-1, 0)).upper) == 1


def test_inexact_bounds_are_rounded_outward():
    tenth = intervals.divide(Interval(1, 1), Interval(10, 10))
    assert Fraction(tenth.lower) < Fraction(1, 10) < Fraction(tenth.upper)
    assert tenth.upper == math.nextafter(tenth.lower, 1)


def test_overflow_is_infinite():
    assert not intervals.multiply(Interval(0, 1e200), Interval(0, 1e200)).finite
    assert not intervals.power(Interval(0, 10), 400).finite
    assert not intervals.power(Interval(-10, 0), 401).finite
    assert not intervals.monotone(np.exp, Interval(0, 1000), floor=0.0).finite
    with pytest.raises(ZeroDivisionError):
        intervals.divide(Interval(1, 1), Interval(-1, 0))


@given(interval_and_point())
def test_elementary_functions_hold_computed_values(first):
    a, x = first
    cases = [(np.exp, 0.0), (np.expm1, -1.0)]
    cases += [(np.sqrt, 0.0), (np.log, -math.inf)] if a.lower > 0 else []
    for function, floor in cases:
        with np.errstate(all="ignore"):
            value = float(function(x))
        bounds = intervals.monotone(function, a, floor=floor)
        assert bounds.lower <= value <= bounds.upper
        assert bounds.lower >= floor


def test_zero_of_a_logarithm_stays():
    assert intervals.monotone(np.log, Interval(1, 10)).lower == 0.0
    assert intervals.monotone(np.log1p, Interval(0, 10)).lower == 0.0
    assert intervals.monotone(np.exp, Interval(-2000, -1000), floor=0.0).upper > 0.0
