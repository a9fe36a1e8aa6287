"""Interval arithmetic never loses a value, and bounds of the tree that is evaluated are those of its text."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.schema.expressions import compile_expression
from dpinfer.schema.intervals import Interval, never_holds, operation_bounds, tree_bounds
from dpinfer.schema.nodes import FUNCTIONS, Node, evaluate

NUMBERS = st.one_of(
    st.floats(-1e6, 1e6), st.integers(-10, 10).map(float), st.floats(-1e-300, 1e-300), st.floats(-1e150, 1e150)
)
SHARES = st.floats(0, 1)


def bounded(operation, *parts, value=0.0):
    return operation_bounds(Node(operation, value=value), parts)


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
        (bounded("+", a, b), exact_x + exact_y, x + y),
        (bounded("-", a, b), exact_x - exact_y, x - y),
        (bounded("*", a, b), exact_x * exact_y, x * y),
    ]
    if 0 not in b:
        with np.errstate(over="ignore"):
            cases.append((bounded("/", a, b), exact_x / exact_y, float(np.divide(x, y))))
    for bounds, exact, computed in cases:
        assert bounds.lower <= computed <= bounds.upper
        assert not bounds.finite or Fraction(bounds.lower) <= exact <= Fraction(bounds.upper)


@given(interval_and_point(), st.integers(0, 12))
def test_powers_hold_exact_and_computed_values(first, exponent):
    a, x = first
    bounds = bounded("power", a, value=exponent)
    assume(bounds.finite)
    assert Fraction(bounds.lower) <= Fraction(x) ** exponent <= Fraction(bounds.upper)
    values = {"x": np.array([x, a.lower, a.upper])}
    computed = evaluate(Node("power", (Node("column", name="x"),), value=float(exponent)), values)
    assert ((bounds.lower <= computed) & (computed <= bounds.upper)).all()


def test_exact_bounds_stay_exact():
    assert bounded("*", Interval(-2, 3), Interval(0, 10)) == Interval(-20, 30)
    assert bounded("power", Interval(-40, 60), value=2) == Interval(0, 3600)
    assert bounded("power", Interval(-60, -40), value=2) == Interval(1600, 3600)
    assert bounded("power", Interval(-2, 3), value=3) == Interval(-8, 27)
    assert bounded("/", Interval(0, 1), Interval(2, 4)) == Interval(0, 0.5)
    assert bounded("abs", Interval(-3, 2)) == Interval(0, 3)
    assert bounded("abs", Interval(-3, -2)) == Interval(2, 3)
    assert bounded("minimum", Interval(0, 5), Interval(1, 2)) == Interval(0, 2)
    assert bounded("maximum", Interval(0, 5), Interval(1, 2)) == Interval(1, 5)
    assert math.copysign(1, bounded("*", Interval(0, 1), Interval(-1, 0)).upper) == 1


def test_inexact_bounds_are_rounded_outward():
    tenth = bounded("/", Interval(1, 1), Interval(10, 10))
    assert Fraction(tenth.lower) < Fraction(1, 10) < Fraction(tenth.upper)
    assert tenth.upper == math.nextafter(tenth.lower, 1)


def test_overflow_is_infinite():
    assert not bounded("*", Interval(0, 1e200), Interval(0, 1e200)).finite
    assert not bounded("power", Interval(0, 10), value=400).finite
    assert not bounded("power", Interval(-10, 0), value=401).finite
    assert not bounded("exp", Interval(0, 1000)).finite
    with pytest.raises(ZeroDivisionError):
        bounded("/", Interval(1, 1), Interval(-1, 0))


@given(interval_and_point())
def test_elementary_functions_hold_computed_values(first):
    a, x = first
    cases = [("exp", 0.0), ("expm1", -1.0)]
    cases += [("sqrt", 0.0), ("log", -math.inf)] if a.lower > 0 else []
    for name, floor in cases:
        with np.errstate(all="ignore"):
            value = float(FUNCTIONS[name](x))
        bounds = bounded(name, a)
        assert bounds.lower <= value <= bounds.upper
        assert bounds.lower >= floor


def test_zero_of_a_logarithm_stays():
    assert bounded("log", Interval(1, 10)).lower == 0.0
    assert bounded("log1p", Interval(0, 10)).lower == 0.0
    assert bounded("exp", Interval(-2000, -1000)).upper > 0.0


SCHEMA = dpi.Schema(x=dpi.Real(-1.3, 2.7), y=dpi.Real(0.1, 9.2), b=dpi.Boolean(), g=dpi.Category(["a", "b", "c"]))
COLUMNS = {"x": Interval(-1.3, 2.7), "y": Interval(0.1, 9.2), "b": Interval(0.0, 1.0)}
TEXTS = [
    "x", "3", "-x", "x + y", "2 - b", "x * x * x", "x / 3", "1e300 * x", "x**2", "x**3", "(x - .3)**4", "b**3",
    "y**-2", "y**.5", "1 / (x**2 + 1)", "sqrt(y) / y", "log(y)", "log(2 + x)", "log1p(y) * x", "exp(x) - exp(-x)",
    "expm1(x)", "abs(x)", "abs(b - 1)", "minimum(x, y)", "maximum(x, .5)", "minimum(b, x > 0)", "clip(x, 0, 1)",
    "x > 1", "(x > 1) & b", "(x > 1) | b", "~b", "b == 1", "b == 0", "g == 'a'", "g in ['a', 'b']",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_the_bounds_of_a_tree_are_those_of_its_text(text):
    compiled = compile_expression(text, SCHEMA)
    assert tree_bounds(compiled.node, COLUMNS) == Interval(compiled.lower, compiled.upper)


@pytest.mark.parametrize("text", [text for text in TEXTS if "g" not in text.replace("log", "")])
def test_values_are_within_the_bounds_of_a_piece(text):
    tree = compile_expression(text, SCHEMA).node
    piece = {"x": Interval(0.2, 0.4), "y": Interval(3.0, 3.1), "b": Interval(0.0, 1.0)}
    rng = np.random.default_rng(1)
    values = {name: rng.uniform(one.lower, one.upper, 500) for name, one in piece.items()}
    values["b"] = np.round(values["b"])
    found = compile_expression(text, SCHEMA).evaluate(values)
    bounds = tree_bounds(tree, piece)
    assert ((found >= bounds.lower) & (found <= bounds.upper)).all()


COLUMN, ZERO = Node("column", name="x"), Node("constant", value=0.0)


@pytest.mark.parametrize(
    "tree",
    [
        Node("/", (COLUMN, ZERO)),
        Node("log", (ZERO,)),
        Node("log", (COLUMN,)),
        Node("+", (Node("column", name="unknown"), COLUMN)),
        Node("unknown", (COLUMN,)),
        Node("+", (COLUMN,) * 3),
        Node("*", (Node("constant", value=1e300), Node("constant", value=1e300))),
        Node("constant", value=math.nan),
    ],
)
def test_a_tree_without_bounds_is_anywhere(tree):
    assert tree_bounds(tree, COLUMNS) == Interval(-math.inf, math.inf)


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("x > 10", True), ("x >= 10", False), ("x < 0", True), ("x <= 0", False), ("x == 11", True), ("x != 11", False),
        ("not (x <= 10)", True), ("x > 10 and k == 1", True), ("x > 10 or k == 1", False), ("x < 0 or k > 3", True),
        ("x + k > 13", True), ("x + k >= 13", False), ("k in [4, 5]", True), ("k in [3, 4]", False),
        ("x * 0 == 0", False), ("x * 0 != 0", True), ("b == 1", False), ("not b", False), ("c == 'a'", False),
        ("log(x + 1) > 3", True),
    ],
)  # fmt: skip
def test_whether_no_values_within_bounds_meet_a_condition(text, never):
    schema = dpi.Schema(x=dpi.Real(0, 10), k=dpi.Integer(0, 3), b=dpi.Boolean(), c=dpi.Category(["a", "b"]))
    bounds = {name: Interval(*column.limits) for name, column in schema.items() if hasattr(column, "limits")}
    assert never_holds(compile_expression(text, schema).node, bounds) is never
