"""Expressions: values, bounds, polynomials, and refusals by name."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import FormulaError, UnknownColumnError
from dpinfer.schema import Boolean, Category, Integer, Real, Schema, compile_expression, product
from dpinfer.schema.expressions import constant_expression

SCHEMA = Schema(
    {"hours.per.week": Integer(1, 99), "a b": Real(0.5, 2), "class": Real(1, 2)},
    age=Real(0, 100),
    educ=Integer(1, 16),
    married=Boolean(),
    employed=Boolean(),
    race=Category(["a", "b", "c"]),
    code=Category([1, 2, 30]),
    income=Real(0, 200_000),
    z=Real(-2, 2),
)
ROWS = SCHEMA.sample(1003, np.random.default_rng(3))
VALUES = {name: column.coerce(ROWS[name].to_numpy()) for name, column in SCHEMA.items()}


def value(text, values=VALUES):
    return compile_expression(text, SCHEMA).evaluate(values)


NUMERIC = [
    "age",
    "-age + 2 * z - 3",
    "(age - 40) ** 2",
    "z ** 3",
    "z ** 0",
    "educ ** -2",
    "educ ** 0.5",
    "age / educ",
    "1 / (z + 3)",
    "log(1 + income)",
    "log(educ)",
    "log1p(income)",
    "log2(educ)",
    "log10(educ)",
    "exp(z)",
    "expm1(z)",
    "sqrt(age)",
    "abs(z)",
    "minimum(age, educ * 5)",
    "maximum(z, 0)",
    "clip(age, 18, 65)",
    "exp(-age / 10) * sqrt(income) + married",
]
NAMES = ("log", "log1p", "log2", "log10", "exp", "expm1", "sqrt", "abs", "minimum", "maximum", "clip")
FUNCTIONS = {name: getattr(np, name) for name in NAMES}


@pytest.mark.parametrize("text", NUMERIC)
def test_values_are_those_of_numpy(text):
    namespace = {**FUNCTIONS, **VALUES, "np": np, "I": lambda x: x, "__builtins__": {}}
    wanted = np.broadcast_to(eval(text, namespace), 1003)  # a fixed text, as a reference
    np.testing.assert_allclose(value(text), wanted, rtol=1e-14)
    np.testing.assert_array_equal(value(f"I(+({text}))"), value(text))
    np.testing.assert_array_equal(
        value("".join(text).replace("log(", "np.log(").replace("sqrt", "numpy.sqrt")), value(text)
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("race == 'a'", ROWS["race"] == "a"),
        ("'a' == race", ROWS["race"] == "a"),
        ('race != "b"', ROWS["race"] != "b"),
        ("race in ['a', 'c', 'a']", ROWS["race"].isin(["a", "c"])),
        ("race not in ('a',)", ROWS["race"] != "a"),
        ("code == 30", ROWS["code"] == 30),
        ("code == '30'", ROWS["code"] == 30),
        ("age > 40", ROWS["age"] > 40),
        ("40 >= age", ROWS["age"] <= 40),
        ("18 < age <= 65", (ROWS["age"] > 18) & (ROWS["age"] <= 65)),
        ("educ == 12", ROWS["educ"] == 12),
        ("educ in [1, 2, 16]", ROWS["educ"].isin([1, 2, 16])),
        ("educ != 12", ROWS["educ"] != 12),
        ("married and employed", ROWS["married"] & ROWS["employed"]),
        ("married & (age > 40)", ROWS["married"] & (ROWS["age"] > 40)),
        ("married or not employed", ROWS["married"] | ~ROWS["employed"]),
        ("~(married | (race == 'a'))", ~(ROWS["married"] | (ROWS["race"] == "a"))),
        ("married == True", ROWS["married"]),
        ("married == 0", ~ROWS["married"]),
        ("married != employed", ROWS["married"] != ROWS["employed"]),
        ("minimum(married, employed)", ROWS["married"] & ROWS["employed"]),
        ("maximum(married, employed)", ROWS["married"] | ROWS["employed"]),
        ("abs(married)", ROWS["married"]),
        ("married * (z < 0)", ROWS["married"] & (ROWS["z"] < 0)),
        ("married ** 3", ROWS["married"]),
        ("(z > 0) in [0]", ROWS["z"] <= 0),
    ],
)
def test_truth_values_are_those_of_pandas(text, wanted):
    expression = compile_expression(text, SCHEMA)
    np.testing.assert_array_equal(expression.evaluate(VALUES), np.asarray(wanted, dtype=np.float64))
    assert expression.boolean
    assert (expression.lower, expression.upper) == (0.0, 1.0)


def test_quoted_names():
    np.testing.assert_array_equal(value("`a b` * `hours.per.week`"), VALUES["a b"] * VALUES["hours.per.week"])
    np.testing.assert_array_equal(value("Q('a b') + `class`"), VALUES["a b"] + VALUES["class"])
    assert compile_expression("log(`a b`) + `age`", SCHEMA).text == "log(`a b`) + age"
    assert compile_expression("`a b`**2 + `a b`", SCHEMA).polynomial == {(("a b", 2),): 1.0, (("a b", 1),): 1.0}
    assert compile_expression("`hours.per.week` > 3", SCHEMA).columns == ("hours.per.week",)


def test_constants():
    two = compile_expression("1 + 1", SCHEMA)
    assert two.constant == two.lower == two.upper == 2.0
    assert two.evaluate({"age": np.zeros(3)}).tolist() == [2.0] * 3
    assert two.evaluate({}).tolist() == [2.0]
    assert compile_expression("age", SCHEMA).constant is None
    assert constant_expression(2.0).text == "2"
    assert constant_expression(0.5).text == "0.5"


@pytest.mark.parametrize(
    ("text", "lower", "upper"),
    [
        ("(age - 40) ** 2", 0.0, 3600.0),
        ("age * married", 0.0, 100.0),
        ("-age", -100.0, 0.0),
        ("abs(z)", 0.0, 2.0),
        ("z ** 2 - z ** 3", -8.0, 12.0),
        ("clip(age, 18, 65)", 18.0, 65.0),
        ("log(educ)", 0.0, np.nextafter(np.log(16), 3)),
        ("maximum(z, 0) ** 0.5", 0.0, np.sqrt(2)),
        ("1 / educ", 1 / 16, 1.0),
    ],
)
def test_bounds_are_tight(text, lower, upper):
    expression = compile_expression(text, SCHEMA)
    assert expression.lower == pytest.approx(lower, rel=1e-14, abs=0)
    assert expression.upper == pytest.approx(upper, rel=4e-15, abs=0)


LEAVES = st.sampled_from(["age", "educ", "married", "z", "income", "`a b`", "2", "0.1", "(age > 40)", "(race == 'b')"])
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from(["2", "3", "5", "0", "-1", "0.5", "-0.7"])).map(
            lambda t: f"({t[0]}) ** {t[1]}"
        ),
        st.tuples(st.sampled_from(["exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "abs"]), inner).map(
            lambda t: f"{t[0]}({t[1]})"
        ),
        st.tuples(inner, inner).map(lambda t: f"minimum({t[0]}, {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"({t[0]} <= {t[1]})"),
        inner.map(lambda t: f"clip({t}, -1, 3)"),
    ),
    max_leaves=6,
)


def corners():
    """Rows at the ends of every column, in all combinations, and some in between."""
    rng = np.random.default_rng(11)
    columns = {}
    for name, column in SCHEMA.items():
        ends = np.array([column.lower, column.upper]) if hasattr(column, "lower") else np.array([0.0, 1.0])
        inner = VALUES[name][:64]
        columns[name] = np.concatenate([rng.choice(ends.astype(float), 192), inner])
    return columns


CORNERS = corners()


@settings(max_examples=300)
@given(TREES)
def test_values_stay_within_bounds_and_polynomials_agree(text):
    try:
        expression = compile_expression(text, SCHEMA)
    except FormulaError:
        return
    values = expression.evaluate(CORNERS)
    assert values.shape == (256,)
    assert np.isfinite(values).all()
    assert expression.lower <= values.min() <= values.max() <= expression.upper
    if expression.boolean:
        assert set(values) <= {0.0, 1.0}
    assert compile_expression(expression.text, SCHEMA).text == expression.text
    total, scale = polynomial_value(expression, CORNERS)
    assert np.all(np.abs(total - values) <= 1e-9 * scale)


def polynomial_value(expression, values):
    total, scale = np.zeros(256), np.full(256, 1e-300)
    for monomial, coefficient in expression.polynomial.items():
        term = np.full(256, coefficient)
        for leaf, power in monomial:
            factor = values[leaf] if leaf in SCHEMA else compile_expression(leaf, SCHEMA).evaluate(values)
            term = term * factor**power
        total, scale = total + term, scale + np.abs(term)
    return total, scale + np.abs(expression.evaluate(values))


@pytest.mark.parametrize("text", [*NUMERIC, "z ** 7", "educ ** -0.3", "race in ['a', 'c']"])
def test_a_row_has_one_value_wherever_it_stands(text):
    expression = compile_expression(text, SCHEMA)
    whole = expression.evaluate(VALUES)
    rng = np.random.default_rng(8)
    for _ in range(4):
        order = rng.permutation(1003)
        shuffled = expression.evaluate({name: column[order] for name, column in VALUES.items()})
        np.testing.assert_array_equal(shuffled, whole[order])
    for start, stop in [(0, 1), (1, 2), (1, 4), (3, 10), (5, 22), (7, 1003), (1000, 1003)]:
        part = expression.evaluate({name: column[start:stop] for name, column in VALUES.items()})
        np.testing.assert_array_equal(part, whole[start:stop])
    matrix = np.array([VALUES[name] for name in VALUES]).T.copy()
    strided = expression.evaluate({name: matrix[:, j] for j, name in enumerate(VALUES)})
    np.testing.assert_array_equal(strided, whole)


def test_evaluation_never_warns_whatever_numpy_is_told():
    tiny = {"age": np.full(4, 5e-324), "z": np.full(4, 5e-324), "income": np.full(4, 5e-324)}
    with np.errstate(all="raise"):
        for text in ("age * age", "z / 3", "exp(-700 - age / 2)", "log1p(income)", "z ** 9"):
            assert np.isfinite(compile_expression(text, SCHEMA).evaluate(tiny)).all()


@pytest.mark.parametrize(
    ("text", "polynomial"),
    [
        ("(age - 40) ** 2", {(("age", 2),): 1.0, (("age", 1),): -80.0, (): 1600.0}),
        ("(age + z) * (age - z)", {(("age", 2),): 1.0, (("z", 2),): -1.0}),
        ("age / 4", {(("age", 1),): 0.25}),
        ("married * married * age", {(("age", 1), ("married", 1)): 1.0}),
        ("married or employed", {(("married", 1),): 1, (("employed", 1),): 1, (("employed", 1), ("married", 1)): -1}),
        ("married | ~married", {(): 1.0}),
        ("race != 'a'", {(): 1.0, (("race == 'a'", 1),): -1.0}),
        ("race in ['b', 'a']", {(("race == 'a'", 1),): 1.0, (("race == 'b'", 1),): 1.0}),
        ("log(1 + income) ** 2", {(("log(1 + income)", 2),): 1.0}),
        ("np.log(+1 + I(income))", {(("log(1 + income)", 1),): 1.0}),
        ("40 < age", {(("age > 40", 1),): 1.0}),
        ("(age > 40) ** 2 * z", {(("age > 40", 1), ("z", 1)): 1.0}),
        ("married == 0", {(): 1.0, (("married", 1),): -1.0}),
        ("age - age", {}),
        ("z ** 100", {(("z", 100),): 1.0}),
    ],
)
def test_polynomials(text, polynomial):
    assert compile_expression(text, SCHEMA).polynomial == polynomial


def test_large_polynomials_become_leaves():
    expression = compile_expression("(age + z + educ + married) ** 12 / 1e30", SCHEMA)
    ((monomial, _),) = expression.polynomial.items()
    assert monomial == (("(age + z + educ + married) ** 12", 1),)


def test_product():
    age, married = (compile_expression(text, SCHEMA) for text in ("age - 40", "married"))
    both = product([age, constant_expression(1.0), married, age])
    assert both.text == "(age - 40) ** 2 * married"
    assert (both.lower, both.upper) == (0.0, 3600.0)
    np.testing.assert_array_equal(both.evaluate(VALUES), (VALUES["age"] - 40) ** 2 * VALUES["married"])
    assert both == compile_expression(both.text, SCHEMA)
    assert product([married, married]) == married
    assert product([]).constant == 1.0
    assert product([constant_expression(2.0), constant_expression(3.0)]).constant == 6.0
    names = product([compile_expression(text, SCHEMA) for text in ("`a b`", "1 + z", "log(educ)")])
    assert names.text == "`a b` * (1 + z) * log(educ)"
    big = compile_expression("income ** 50", SCHEMA)
    with pytest.raises(FormulaError, match="overflows"):
        product([big, compile_expression("1 + income ** 40", SCHEMA)])


def test_expressions_pickle_and_hash():
    expression = compile_expression("log(1 + income) * (race == 'a')", SCHEMA)
    back = pickle.loads(pickle.dumps(expression))
    assert back == expression
    assert hash(back) == hash(expression)
    assert back.polynomial == expression.polynomial
    np.testing.assert_array_equal(back.evaluate(VALUES), expression.evaluate(VALUES))


REFUSED = [
    ("log(income)", "log is unbounded at income <= 0", "write log(1 + income) or declare a positive lower bound"),
    ("log(z)", "log is unbounded at z <= 0", "log(3 + z)"),
    ("log1p(z)", "unbounded at z <= -1", "lower bound above -1"),
    ("sqrt(z)", "not defined at z < 0", "sqrt(maximum(z, 0))"),
    ("age / z", "the divisor z can be 0", "exclude 0"),
    ("1e-300 ** -2", "divides by 0", ""),
    ("1 / 0", "divides by 0", ""),
    ("z ** -1", "the base z can be 0", "exclude 0"),
    ("z ** 0.5", "can be negative", "whole exponent"),
    ("age ** -0.5", "can be 0 or negative", "positive lower bound"),
    ("age ** educ", "exponent is not a constant", "exp("),
    ("age ** 2000000", "exponent is too large", ""),
    ("exp(1000)", "overflows", "rescale"),
    ("exp(income)", "overflows", "rescale"),
    ("10 ** 400", "overflows", ""),
    ("1e999", "too large", ""),
    ("age + 3j", "is no number", ""),
    ("'a'", "is no number", "category"),
    ("None", "is no number", ""),
    ("race", "is a category", "race == 'a'"),
    ("race + 1", "is a category", "C(race)"),
    ("race == 'q'", "'q' is not a level of race", "'a', 'b', 'c'"),
    ("race in ['a', 'q']", "'q' is not a level", "'a', 'b', 'c'"),
    ("race == married", "married is no level", "'a', 'b', 'c'"),
    ("race < 'b'", "no order", "== or !="),
    ("race in 'ab'", "list of constants", "['a', 'b']"),
    ("race in []", "list of constants", ""),
    ("educ in [age]", "list of constants", ""),
    ("age is 3", "is and is not", "=="),
    ("age & married", "age is no truth value", "compare it first"),
    ("not age", "age is no truth value", ""),
    ("married and 1", "1 is no truth value", ""),
    ("age ^ 2", "not a power", "**"),
    ("age % 2", "Mod", ""),
    ("center(age)", "sees all rows", "age - 40".replace("age", "x")),
    ("scale(age)", "sees all rows", "public constants"),
    ("standardize(age)", "sees all rows", "public constants"),
    ("bs(age, df=4)", "sees all rows", "public knots"),
    ("cr(age, 3)", "sees all rows", "public knots"),
    ("cc(age, 3)", "sees all rows", "public knots"),
    ("poly(age, 2)", "sees all rows", "I(x**2)"),
    ("lag(age)", "sees all rows", "allowed functions: log"),
    ("hashed(race)", "sees all rows", ""),
    ("np.mean(age)", "np.mean sees all rows", "public constant"),
    ("np.std(age)", "np.std sees all rows", ""),
    ("age - age.mean()", "age.mean sees all rows", "public constant"),
    ("(age + 1).mean()", "sees all rows", ""),
    ("age.rank()", "age.rank sees all rows", ""),
    ("min(age, z)", "sees all rows", "minimum(a, b)"),
    ("np.random.normal(age)", "draws random numbers", ""),
    ("np.sin(age)", "np.sin is not an allowed function", "allowed functions: log"),
    ("foo(age)", "foo is not an allowed function", "allowed functions: log"),
    ("age(3)", "age is not an allowed function", ""),
    ("__import__('os').system('true')", "not an allowed function", ""),
    ("C(race)", "marks a category", "term of its own"),
    ("age.values", "attribute access", ""),
    ("hours.per.week", "attribute access", "write `hours.per.week` in backticks"),
    ("np.pi", "attribute access", ""),
    ("age[0]", "subscripts", ""),
    ("lambda x: x", "functions cannot be defined", ""),
    ("[x for x in age]", "comprehensions", ""),
    ("[1, 2]", "a list is no number", ""),
    ("age if married else 0", "conditions", ""),
    ("(age := 3)", "assignments", ""),
    ("f'{age}'", "text is no number", ""),
    ("log(age, 2)", "log takes 1 argument", "log(x)"),
    ("clip(age, a_min=0, a_max=1)", "clip takes 3 arguments", "clip(x, 0, 100)"),
    ("minimum(*age)", "minimum takes 2 arguments", ""),
    ("I(age, z)", "I is not an allowed function", ""),
    ("age +", "not a valid expression", ""),
    ("", "not a valid expression", ""),
    ("age; z", "not a valid expression", ""),
    ("`age", "backtick is not closed", ""),
    ("+".join(["age"] * 5000), "nested too deeply", ""),
]


@pytest.mark.parametrize(("text", "reason", "instead"), REFUSED, ids=[r[0][:30] for r in REFUSED])
def test_refusals_name_the_term_and_what_would_work(text, reason, instead):
    with pytest.raises(FormulaError) as caught:
        compile_expression(text, SCHEMA)
    assert reason in caught.value.reason
    assert instead in caught.value.instead
    assert caught.value.term
    assert len(str(caught.value)) < 400


def test_unknown_names_list_the_schema():
    for text in ("foo", "log(1 + foo)", "`a c`", "Q('foo')", "log", "True_"):
        with pytest.raises(UnknownColumnError, match="married"):
            compile_expression(text, SCHEMA)
    with pytest.raises(FormulaError, match="not a text"):
        compile_expression(3, SCHEMA)


def test_a_column_named_like_an_expression_is_not_confused():
    odd = Schema({"age > 3": Boolean()}, age=Real(0, 10))
    assert compile_expression("`age > 3`", odd).columns == ("age > 3",)
    with pytest.raises(FormulaError, match="rename"):
        compile_expression("age > 3", odd)


def test_names_in_texts_are_left_alone():
    odd = Schema(r=Category(["a`b", "quoted_0_", "log(x)"]), x=Real(1, 2))
    np.testing.assert_array_equal(
        compile_expression("r == 'a`b' or r == \"quoted_0_\"", odd).evaluate({"r": np.array([0.0, 1.0, 2.0])}),
        [1.0, 1.0, 0.0],
    )
    with pytest.raises(UnknownColumnError):
        compile_expression("`x y` + quoted_0_", odd)


def test_frames_are_read_as_pandas_would():
    frame = pd.DataFrame({"z": [1.0, -1.0], "age": [3.0, 50.0]})
    values = {name: SCHEMA[name].coerce(frame[name].to_numpy()) for name in frame}
    np.testing.assert_array_equal(value("age * z + 1", values), frame.eval("age * z + 1"))
