"""Arithmetic as text: values, names, and everything else refused."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpinfer.errors import FormulaError
from dpinfer.resampling.bootstrap import Arithmetic

A, B, C = np.array([3.0, -1.5, 0.25]), np.array([4.0, 2.0, 8.0]), np.array([0.5, 7.0, 1.0])
VALUES = {"a": A, "b": B, "c": C}

RIGHT = {
    "a / b": A / B,
    "a - b - c": A - B - C,
    "a - (b - c)": A - (B - C),
    "2 ** 3 ** 2 + a": 512 + A,
    "-a ** 2": -(A**2),
    "+a * -b": -A * B,
    "1e3 * a + .5": 1e3 * A + 0.5,
    "log(b) - log(c)": np.log(B / C),
    "exp(-b / c) * sqrt(b)": np.exp(-B / C) * np.sqrt(B),
    "(log)(b)": np.log(B),
    "  a+ b ": A + B,
    "a*a": A * A,
}


@pytest.mark.parametrize("text", RIGHT)
def test_values_are_those_of_numpy(text):
    np.testing.assert_allclose(Arithmetic(text).evaluate(VALUES), RIGHT[text], rtol=1e-15)


NAMES = {"b / a": "a b", "a + a": "a", "exp(b) + sqrt(a * c)": "a b c", "1 + 2": "", "log(log)": "log"}
NAMES |= {"log + exp(sqrt)": "log sqrt", "größe / _x1": "_x1 größe"}


def test_names_are_what_has_to_be_given_and_not_the_functions():
    for text, names in NAMES.items():
        found = Arithmetic(text)
        assert found.names == tuple(names.split())
        assert np.isfinite(found.evaluate(dict.fromkeys(found.names, np.array(2.0))))


@given(
    st.recursive(
        st.sampled_from(["a", "b", "c", "2", "0.5"]),
        lambda parts: (
            st.builds("({} {} {})".format, parts, st.sampled_from("+-*/"), parts) | st.builds("-{}".format, parts)
        ),
        max_leaves=12,
    )
)
def test_random_expressions_are_those_of_python(text):
    with np.errstate(all="ignore"):
        expected = np.broadcast_to(eval(text, {name: value.copy() for name, value in VALUES.items()}), 3)
    np.testing.assert_array_equal(np.broadcast_to(Arithmetic(text).evaluate(VALUES), 3), expected)


def test_values_of_any_shape_are_taken():
    found = Arithmetic("x / y")
    assert found.evaluate({"x": np.array(1.0), "y": np.array(4.0)}) == 0.25
    table = np.arange(1.0, 7.0).reshape(2, 3)
    np.testing.assert_array_equal(found.evaluate({"x": table, "y": table}), np.ones((2, 3)))
    assert found.evaluate({"x": np.array([1, 2]), "y": np.array([2, 2])}).dtype == np.float64


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("a / b", (1.0, 0.0), np.inf),
        ("a / b", (0.0, 0.0), np.nan),
        ("log(a) + b", (-1.0, 1.0), np.nan),
        ("log(a) + b", (0.0, 1.0), -np.inf),
        ("sqrt(a) * b", (-1.0, 1.0), np.nan),
        ("exp(a) - b", (1e6, 0.0), np.inf),
        ("a ** b", (-8.0, 1 / 3), np.nan),
        ("a ** b", (0.0, -1.0), np.inf),
        ("a + b", (np.nan, 1.0), np.nan),
        ("10 ** 10 ** a + b", (10.0, 0.0), np.inf),
        ("1 / 0 + a * b", (1.0, 1.0), np.inf),
    ],
)
def test_undefined_values_are_nan_or_infinite_without_a_warning(text, values, expected):
    """Warnings are errors here, also where numpy is told to raise."""
    given_values = dict(zip("ab", map(np.array, values), strict=True))
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(Arithmetic(text).evaluate(given_values), expected)


REFUSED = [
    *("a.b", "a.__class__", "log.real(a)", "(a).real"),
    *("f(a)", "abs(a)", "__import__('os')", "eval('1')", "log()", "log(a, b)", "log(x=a)", "log(*a)", "log(**a)"),
    *("log(a)(b)", "a(b)"),
    *("[x for x in a]", "{a for a in b}", "(a for a in b)", "[a]", "(a, b)", "{a}", "{1: a}", "a[0]"),
    *("lambda: a", "(a := 1)", "a if b else c", "a and b", "not a", "~a"),
    *("a < b", "a == b", "a // b", "a % b", "a @ b", "a << 1", "a & b", "a | b"),
    *("'x'", "b'x'", "f'{a}'", "'a' * 3", "True", "None", "...", "1j", "1e400", "1e100", "1" + "0" * 150, "await_(a)"),
]


@pytest.mark.parametrize("text", REFUSED)
def test_anything_but_arithmetic_is_refused(text):
    with pytest.raises(FormulaError, match=r"is not arithmetic of means; use numbers, names") as caught:
        Arithmetic(text)
    assert caught.value.term == text
    with pytest.raises(FormulaError):
        Arithmetic(f"a + 2 * log({text})")


@pytest.mark.parametrize(
    "text", ["", " ", "a b", "a +", "a = b", "a; b", "import os", "a\x00b", "(a", "yield a", "a\nb", "$"]
)
def test_what_is_no_expression_cannot_be_read(text):
    with pytest.raises(FormulaError, match=r"cannot be read; write arithmetic, such as"):
        Arithmetic(text)


def test_long_texts_are_refused_unread():
    assert Arithmetic("a" + " " * 498 + "\n").names == ("a",)
    with pytest.raises(FormulaError, match=r"is longer than 500 characters") as caught:
        Arithmetic("(" * 10**6 + "a")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("nested", ["log({})", "-{}", "({} + 1)", "2 ** {}"])
def test_deeply_nested_texts_are_refused(nested):
    text = "a"
    for _ in range(50):
        text = nested.format(text)
    assert Arithmetic(text).names == ("a",)
    with pytest.raises(FormulaError, match="is nested more than"):
        Arithmetic(nested.format(text))


def test_parentheses_may_be_nested_as_deeply_as_python_reads_them():
    assert Arithmetic("(" * 100 + "a" + ")" * 100).names == ("a",)
    with pytest.raises(FormulaError, match="cannot be read"):
        Arithmetic("(" * 249 + "a" + ")" * 249)


def test_a_name_that_has_no_value_is_an_error():
    with pytest.raises(KeyError, match="b"):
        Arithmetic("a + b").evaluate({"a": A})


def test_expressions_are_equal_by_their_text_and_survive_pickle():
    found = Arithmetic("a / b")
    assert found == Arithmetic("a / b") != Arithmetic("b / a")
    assert hash(found) == hash(Arithmetic("a / b"))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).evaluate(VALUES), A / B)
