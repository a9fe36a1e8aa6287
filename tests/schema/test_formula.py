"""Formulas: names and values equal formulaic's, errors name the term."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from formulaic import model_matrix

from dpinfer.errors import FormulaError, OptionError, UnknownColumnError
from dpinfer.schema import Boolean, Category, CompiledFormula, Integer, Real, Schema, compile_formula, compile_terms

SCHEMA = Schema(
    {"hours.per.week": Integer(1, 99), "a b": Real(0.5, 2)},
    age=Real(0, 100),
    educ=Integer(1, 4),
    married=Boolean(),
    race=Category(["c", "a", "b"]),
    region=Category(["north", "south"]),
    income=Real(0, 200_000),
)


def rows(n=200, seed=4):
    return SCHEMA.sample(n, np.random.default_rng(seed))


def values_of(column, frame):
    """What the kernel computes: the expression times the weight of each row's level."""
    values = {name: SCHEMA[name].coerce(frame[name].to_numpy()) for name in frame}
    result = np.broadcast_to(column.expression.evaluate(values), len(frame)).copy()
    for name, weights in column.codings:
        result *= np.array(weights)[SCHEMA[name].level_index(values[name])]
    return result


def as_formulaic_reads(frame):
    """The frame with declared levels and numeric truth values."""
    out = frame.copy()
    for name, column in SCHEMA.items():
        if column.kind == "category":
            out[name] = pd.Categorical(frame[name], categories=list(column.levels))
    out["married"] = frame["married"].astype(float)
    return out


FORMULAS = [
    "income ~ age",
    "income ~ 1",
    "income ~ 0 + age",
    "income ~ age - 1",
    "income ~ age + educ + married + C(race)",
    "income ~ race",
    "income ~ 0 + race",
    "income ~ race + region",
    "income ~ 0 + race + region + age",
    "income ~ race * region",
    "income ~ race:region",
    "income ~ 0 + race:region",
    "income ~ region + race:region",
    "income ~ age:race",
    "income ~ age * race * married",
    "income ~ race / age",
    "income ~ (age + educ + race) ** 2",
    "income ~ (age + educ + race) ^ 2 - age:educ",
    "income ~ age + age + race + race",
    "income ~ race %in% region",
    "np.log(1 + income) ~ np.log(1 + age) + I(age ** 2) + I((age - 40) / 10)",
    "log1p(income) ~ {age / educ} + clip(age, 18, 65)",
    "income ~ `hours.per.week` + hours.per.week:married + I(`a b` ** 2) + log(`a b`)",
    "income ~ 2:age + 0.5:race",
    "I(married) ~ age",
    "age:educ ~ race",
    "income ~ C(race, contr.treatment('b'))",
    "income ~ C(race, contr.treatment(base='a')) * age",
    "income ~ C(race, Treatment('b'))",
    "income ~ C(race, Treatment(reference='a'))",
    "income ~ C(race, contr.SAS)",
    "income ~ C(race, contr.SAS('a'))",
    "income ~ C(race, contr.sum)",
    "income ~ 0 + C(race, contr.sum)",
    "income ~ C(race, Sum) : C(region, Sum)",
    "income ~ C(race, Sum()) * region",
    "income ~ C(race, contr.helmert)",
    "income ~ C(race, contr.helmert(reverse=False, scale=True))",
    "income ~ C(race, Helmert(False))",
    "income ~ C(race, contr.diff)",
    "income ~ C(race, Diff(backward=False)) : age",
    "income ~ C(race, contr.poly)",
    "income ~ C(race, Poly(scores=[1, 2, 5]))",
    "income ~ C(race, contrasts=contr.sum, levels=['a', 'b', 'c'])",
    "income ~ C(race, contr.treatment('b'), levels=['b', 'c', 'a']) + C(region, levels=['south', 'north'])",
    "income ~ C(educ)",
    "income ~ C(educ, contr.poly) * age",
    "income ~ C(educ, contr.treatment(3)):race",
    "income ~ race + race:C(race, Sum)",
    "age + educ:race",
    "~ age",
]


@pytest.mark.parametrize("formula", FORMULAS)
def test_names_and_values_are_formulaics(formula):
    compiled = compile_formula(formula, SCHEMA)
    frame = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = model_matrix(formula, as_formulaic_reads(frame), context={"maximum": np.maximum, **_functions()})
    design = reference.rhs if compiled.response else reference
    assert [column.name for column in compiled.design] == list(design.columns)
    for column in compiled.design:
        np.testing.assert_allclose(values_of(column, frame), design[column.name], rtol=1e-12, atol=1e-12)
        largest = np.prod([max(map(abs, weights)) for _, weights in column.codings])
        bound = max(abs(column.expression.lower), abs(column.expression.upper)) * largest
        assert np.abs(values_of(column, frame)).max() <= bound * (1 + 1e-15)
    if compiled.response:
        assert list(reference.lhs.columns) == [compiled.response.name]
        np.testing.assert_allclose(values_of(compiled.response, frame), reference.lhs.iloc[:, 0], rtol=1e-12)
    assert compiled.has_intercept == ("Intercept" in design.columns)
    assert compiled.text == formula
    assert set(compiled.columns) == {
        name for c in [*compiled.design, *filter(None, [compiled.response])] for name in c.columns
    }


def _functions():
    return {"log1p": np.log1p, "clip": np.clip}


def test_names_are_those_users_know():
    compiled = compile_formula("income ~ age + C(region) + region*married", SCHEMA)
    assert [column.name for column in compiled.design] == [
        "Intercept",
        "age",
        "C(region)[T.south]",
        "region[T.south]",
        "married",
        "region[T.south]:married",
    ]
    assert [column.term for column in compiled.design] == [
        "1",
        "age",
        "C(region)",
        "region",
        "married",
        "region:married",
    ]
    assert compiled.response.name == "income"
    assert compiled.columns == ("age", "income", "married", "region")


def test_truth_values():
    compiled = compile_formula("married ~ C(married) + married", SCHEMA)
    assert [column.name for column in compiled.design] == ["Intercept", "C(married)[T.True]", "married"]
    assert compiled.design[1].codings == (("married", (0.0, 1.0)),)
    assert compiled.design[2].codings == ()
    assert compiled.response.expression.boolean


def test_levels_may_be_of_any_type():
    schema = Schema(y=Real(0, 1), k=Category([2, 1.5, True, "x"]))
    names = [column.name for column in compile_formula("y ~ C(k, contr.treatment(1.5)) + k", schema).design]
    assert names[:4] == ["Intercept"] + [f"C(k, contr.treatment(1.5))[T.{level}]" for level in ("2", "True", "x")]
    assert names[4:] == ["k[T.1.5]", "k[T.True]", "k[T.x]"]


def test_names_that_need_quotes():
    schema = Schema({"a b": Real(0, 1), "x:y": Real(0, 1), "if": Real(0, 1), "r/s": Category(["p", "q"])})
    compiled = compile_formula("`a b` ~ `x:y`*`r/s` + I(`a b` * `a b`) + C(`r/s`, Sum) + `if`", schema)
    assert compiled.response.name == "a b"
    assert [column.name for column in compiled.design] == [
        "Intercept",
        "x:y",
        "r/s[T.q]",
        "I(`a b` * `a b`)",
        "C(`r/s`, Sum)[S.p]",
        "if",
        "x:y:r/s[T.q]",
    ]
    assert compiled.columns == ("a b", "if", "r/s", "x:y")


def test_levels_come_from_the_schema_not_from_rows():
    compiled = compile_formula("income ~ race", SCHEMA)
    assert [column.name for column in compiled.design] == ["Intercept", "race[T.a]", "race[T.b]"]
    assert compiled.design[1].codings == (("race", (0.0, 1.0, 0.0)),)


REFUSED = [
    ("race ~ age", "a category cannot be the response", "compare it with a level"),
    ("age + educ ~ race", "one column or expression", "I(a + b)"),
    ("1 ~ age", "one column or expression", ""),
    ("0 ~ age", "one column or expression", ""),
    ("age ~ 0", "no terms", ""),
    ("", "is empty", "y ~ x"),
    ("age ~ race | region", "several parts", ""),
    ("~ race | region", "several parts", ""),
    ("age ~ .", ". is not allowed", "by name"),
    ("age ~ educ > 3", "a comparison outside of I()", "write I(educ > 3)"),
    ("educ >= -3 ~ age", "a comparison outside of I()", "write I(educ >= -3)"),
    ("age ~ income + race == 'a'", "a comparison outside of I()", "write I(race == 'a')"),
    ("age ~ 1 < educ <= 3 + income", "a comparison outside of I()", "write I(1 < educ <= 3)"),
    ("age ~ (educ > `hours.per.week`)", "a comparison outside of I()", "write I(educ > `hours.per.week`)"),
    ("age ~ (educ + income) > 3", "holds a comparison outside of I()", "I(...)"),
    ("age ~ > 3", "not a valid formula", ""),
    ("income ~ age**2", "one term it leaves as it is", "write I(age**2)"),
    ("income ~ age ^ 2", "one term it leaves as it is", "write I(age**2)"),
    ("income ~ age*race + age**2", "one term it leaves as it is", "write I(age**2)"),
    ("income ~ `hours.per.week`**2", "one term it leaves as it is", "write I(`hours.per.week`**2)"),
    ("income ~ (age - 1)**2", "one term it leaves as it is", "write I((age - 1)**2)"),
    ("income ~ log(1 + income)**3", "one term it leaves as it is", "write I(log(1 + income)**3)"),
    ("income ~ age**2**2", "one term it leaves as it is", "write I(age**(2**2))"),
    ("income**2 ~ age", "one term it leaves as it is", "write I(income**2)"),
    ("age ~ ~ educ", "not a valid formula", ""),
    ("age ~ (educ", "not a valid formula", ""),
    ("age ~ log(educ", "not a valid formula", ""),
    ("age ~ 'educ'", "not a valid formula", ""),
    ("age ~ 3", "not a valid formula", ""),
    ("age ~ educ ** race", "not a valid formula", ""),
    ("age ~ `educ", "backtick is not closed", ""),
    ("age ~ log(income)", "log is unbounded at income <= 0", "write log(1 + income)"),
    ("log(income) ~ age", "log is unbounded at income <= 0", "write log(1 + income)"),
    ("income ~ bs(age, df=4)", "sees all rows", "public knots"),
    ("income ~ age + np.mean(age)", "sees all rows", ""),
    ("income ~ log(race)", "is a category", "race == 'c'"),
    ("income ~ C(age)", "has no levels", "declare it as a Category"),
    ("income ~ C(hours.per.week)", "takes the name of a column", ""),
    ("income ~ C(age > 40)", "takes the name of a column", "without C()"),
    ("income ~ C()", "takes the name of a column", ""),
    ("income ~ C(race, contr.custom([[1]]))", "not an allowed contrast", "contr.treatment"),
    ("income ~ C(race, {'x': [1, 0, 0]})", "not an allowed contrast", "contr.treatment"),
    ("income ~ C(race, contr.treatment('z'))", "'z' is not a level", "'c', 'a', 'b'"),
    ("income ~ C(race, Treatment(age))", "age is no constant", ""),
    ("income ~ C(race, contr.sum(1))", "too many arguments", "none"),
    ("income ~ C(race, contr.treatment(drop='a'))", "the argument drop is not allowed", "base"),
    ("income ~ C(race, contr.helmert(scale=2))", "scale=2", ""),
    ("income ~ C(race, contr.poly(scores=[1, 1, 2]))", "scores", "3 different"),
    ("income ~ C(race, levels=['a', 'b'])", "every level", "'c', 'a', 'b'"),
    ("income ~ C(race, levels='a')", "not a list", ""),
    ("income ~ C(race, spans_intercept=False)", "spans_intercept", "levels"),
    ("income ~ age + C(race) + log(1 + C(race))", "marks a category", ""),
]


@pytest.mark.parametrize(("formula", "reason", "instead"), REFUSED, ids=[r[0] for r in REFUSED])
def test_refusals(formula, reason, instead):
    with pytest.raises(FormulaError) as caught:
        compile_formula(formula, SCHEMA)
    assert reason in caught.value.reason
    assert instead in caught.value.instead
    assert caught.value.term
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "formula", ["income ~ foo", "foo ~ age", "income ~ C(foo)", "income ~ log(1 + foo)", "income ~ `f o`"]
)
def test_unknown_names(formula):
    with pytest.raises(UnknownColumnError, match=r"it has: hours\.per\.week, a b, age"):
        compile_formula(formula, SCHEMA)


def test_not_a_text():
    with pytest.raises(OptionError, match="formula=3"):
        compile_formula(3, SCHEMA)


def test_two_columns_of_one_name_are_refused():
    schema = Schema({"a:b": Real(0, 1)}, a=Real(0, 1), b=Real(0, 1))
    with pytest.raises(FormulaError, match="this name"):
        compile_formula("~ a:b + `a:b`", schema)
    with pytest.raises(FormulaError, match="this name"):
        compile_formula("~ Intercept", Schema(Intercept=Real(0, 1)))


def test_terms():
    compiled = compile_terms(
        ["income", "a b", "race", "region", "log(1 + income)", "I(age ** 2)", "age:married"], SCHEMA
    )
    assert isinstance(compiled, CompiledFormula)
    assert compiled.response is None
    assert not compiled.has_intercept
    assert [column.name for column in compiled.design] == [
        "income",
        "a b",
        "race[c]",
        "race[a]",
        "race[b]",
        "region[T.south]",
        "log(1 + income)",
        "I(age ** 2)",
        "age:married",
    ]


@pytest.mark.parametrize("term", ["age ** 2", "age + educ", "age * educ", "-age", "age > 3", "age and married"])
def test_terms_refuse_arithmetic_that_a_formula_reads_otherwise(term):
    with pytest.raises(FormulaError, match=r"write I\("):
        compile_terms([term], SCHEMA)


def test_terms_have_to_be_a_list():
    for terms in ("age", [], [3]):
        with pytest.raises(OptionError, match="terms="):
            compile_terms(terms, SCHEMA)
    for term in ("age ~ educ", " "):
        with pytest.raises(FormulaError, match="not a term"):
            compile_terms([term], SCHEMA)


def test_compiled_formulas_pickle():
    compiled = compile_formula("log(1 + income) ~ age * C(race, Sum)", SCHEMA)
    assert pickle.loads(pickle.dumps(compiled)) == compiled
    assert hash(compiled) == hash(pickle.loads(pickle.dumps(compiled)))
