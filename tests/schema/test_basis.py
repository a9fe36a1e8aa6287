"""Features: their codes and bounds, and the columns that they span."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import CollinearDesignError, FormulaError, MissingFromReleaseError
from dpinfer.kernel.rows.features import Features
from dpinfer.regression.gram import GramDesign
from dpinfer.schema import Boolean, Category, Integer, Real, Schema
from dpinfer.schema.basis import build_basis, represent, represent_levels, simplex_codes
from dpinfer.schema.expressions import constant_expression
from dpinfer.schema.formula import DesignColumn, compile_formula, compile_terms
from dpinfer.schema.grid import GRID_BITS, UNIT

SCHEMA = Schema(
    x=Real(-3, 11),
    u=Real(0, 1),
    k=Integer(0, 16),
    b=Boolean(),
    g=Category(["a", "b", "c"]),
    h=Category(["m", "f"]),
    y=Real(0, 50),
)


def basis_of(formula, schema=SCHEMA):
    compiled = compile_formula(formula, schema)
    return build_basis((*compiled.design, compiled.response), schema)


def test_the_grid():
    assert UNIT == 2**GRID_BITS == 524_288
    assert 2 * GRID_BITS + 15 <= 53, "a chunk of 32,768 rows is exact in float64"


@pytest.mark.parametrize("levels", range(2, 40))
def test_codes_of_a_factor_are_a_regular_simplex(levels):
    codes = simplex_codes(levels)
    assert codes.shape == (levels, levels - 1)
    assert codes.dtype == np.int64
    exact = codes.astype(object)
    squares = (exact**2).sum(axis=1)
    assert squares.max() <= UNIT**2
    assert squares.min() >= (UNIT - np.sqrt(levels) - 1) ** 2
    distances = [((exact[i] - exact[j]) ** 2).sum() / UNIT**2 for i in range(levels) for j in range(i)]
    assert np.allclose(np.array(distances, dtype=float), 2 * levels / (levels - 1), rtol=1e-4)
    assert np.abs(codes).max() <= UNIT
    assert np.linalg.matrix_rank(np.column_stack([np.ones(levels), codes / UNIT])) == levels


BLOCKS = {
    "y ~ x": [("1", ()), ("x", ()), ("y", ())],
    "y ~ 0 + x": [("1", ()), ("x", ()), ("y", ())],
    "y ~ g": [("1", ()), ("1", ("g",)), ("y", ())],
    "y ~ C(g, contr.sum) + C(g, contr.poly):x": [("1", ()), ("1", ("g",)), ("x", ()), ("x", ("g",)), ("y", ())],
    "y ~ g * h": [("1", ()), ("1", ("g",)), ("1", ("h",)), ("1", ("g", "h")), ("y", ())],
    "y ~ x:g": [("1", ()), ("x", ()), ("x", ("g",)), ("y", ())],
    "log(1 + y) ~ x + I(x**2)": [("1", ()), ("x", ()), ("x ** 2", ()), ("log(1 + y)", ())],
}


@pytest.mark.parametrize("formula", BLOCKS)
def test_blocks_the_constant_first_and_the_response_last(formula):
    basis = basis_of(formula)
    assert [(block.expression.text, block.factors) for block in basis.blocks] == BLOCKS[formula]
    assert basis.names[0] == "1"
    assert len(basis.names) == basis.width == sum(block.width for block in basis.blocks)
    assert len(set(basis.names)) == basis.width


FORMULAS = [
    "y ~ x + k + b",
    "y ~ g * h",
    "y ~ x * g",
    "y ~ C(g, contr.helmert):x + h",
    "y ~ I(x**2) + exp(u):b + C(g, contr.poly)",
    "I(y > 10) ~ C(g, contr.diff) * h * u",
    "y:u ~ 0 + g + I((x - 4) ** 2) + log(1 + k)",
]


def frame(rows=400, seed=3):
    return SCHEMA.sample(rows, np.random.default_rng(seed))


def raw(sample):
    return {name: sample[name].to_numpy() for name in sample}


def column_values(column, sample):
    values = {name: SCHEMA[name].coerce(cells) for name, cells in raw(sample).items()}
    result = column.expression.evaluate(values) * np.ones(len(sample))
    for name, weights in column.codings:
        result = result * np.asarray(weights)[SCHEMA[name].level_index(values[name])]
    return result


@pytest.mark.parametrize("formula", FORMULAS)
def test_columns_are_the_stated_combinations_of_features(formula):
    compiled = compile_formula(formula, SCHEMA)
    columns = (*compiled.design, compiled.response)
    basis = build_basis(columns, SCHEMA)
    weights = represent(basis, columns)
    sample = frame()
    rows, _ = Features(basis).encode(raw(sample))
    for column, combination in zip(columns, weights, strict=True):
        wanted = column_values(column, sample)
        slack = np.abs(combination).sum() * 3 / UNIT + 1e-9 * np.abs(wanted).max()
        assert np.abs(combination @ rows / UNIT - wanted).max() <= slack


@pytest.mark.parametrize("formula", FORMULAS)
@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_features_stay_within_their_block_bounds(formula, seed):
    basis = basis_of(formula)
    rows, _ = Features(basis).encode(raw(frame(50, seed)))
    assert np.array_equal(rows, np.rint(rows))
    start = 0
    for block in basis.blocks:
        features = rows[start : start + block.width].astype(object)
        assert (features**2).sum(axis=0).max() <= block.squared <= UNIT**2
        assert np.abs(features).sum(axis=0).max() <= block.absolute
        start += block.width
    whole = rows.astype(object)
    assert (whole**2).sum(axis=0).max() <= basis.bounds.squared
    assert np.abs(whole).sum(axis=0).max() <= basis.bounds.absolute


def extreme_rows(basis):
    """Encode all rows that are at a bound or a level in every column."""
    choices = []
    for name in basis.columns:
        column = SCHEMA[name]
        levels = getattr(column, "levels", None)
        choices.append(list(levels) if levels else [getattr(column, "lower", 0), getattr(column, "upper", 1)])
    cells = {
        name: np.array(values, dtype=object)
        for name, values in zip(basis.columns, zip(*product(*choices), strict=True), strict=True)
    }
    return Features(basis).encode(cells)[0].astype(np.int64).astype(object)


@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ x", "y ~ x + k", "y ~ g", "y ~ x + g", "y ~ g + h + b", "y ~ g * h"])
def test_least_product_is_no_larger_than_that_of_any_extreme_pair(formula):
    basis = basis_of(formula)
    rows = extreme_rows(basis)
    products = np.abs(rows.T @ rows)
    least = basis.bounds.least_product
    assert least <= products.min()
    if formula != "y ~ g * h":
        assert least == products.min(), "columns move independently here, so the enumeration is exact"


def test_least_product_is_not_claimed_where_it_is_not_enumerated():
    assert basis_of("y ~ x:g").bounds.least_product == 0
    many = Schema(c=Category([str(k) for k in range(70)]), y=Real(0, 1))
    assert basis_of("y ~ c", many).bounds.least_product == 0
    assert basis_of("y ~ c", many).bounds.squared <= 3 * UNIT**2


def test_bounds_in_closed_form():
    assert basis_of("y ~ x + b").bounds.squared == 4 * UNIT**2
    assert basis_of("y ~ x + b").bounds.absolute == 4 * UNIT
    assert basis_of("y ~ x").bounds.least_product == UNIT**2
    assert basis_of("y ~ x + k").bounds.least_product == 0
    factor = basis_of("y ~ g").bounds
    assert 3 * UNIT**2 - 8 * UNIT <= factor.squared <= 3 * UNIT**2


COLLINEAR = [
    "y ~ x + I(2 * x)",
    "y ~ x + I(x - 3)",
    "y ~ y",
    "y ~ x + y",
    "y ~ y + x",
    "I(x + u) ~ x + u",
    "y ~ g:y + x",
    "y ~ y * g - y",
    "y ~ g / y",
    "y ~ b + I(1 - b)",
    "y ~ x + u + I(x + u) + I(x - u)",
]


@pytest.mark.parametrize("formula", COLLINEAR)
def test_columns_that_are_dependent_whatever_the_rows_are_refused(formula):
    with pytest.raises(CollinearDesignError, match="linear combination"):
        _ = GramDesign(SCHEMA, formula=formula).design


@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.lists(st.integers(-3, 3), min_size=width, max_size=width), min_size=1, max_size=width + 2
        )
    )
)
def test_collinearity_is_the_rank_of_the_coefficients(weights):
    """Sums of columns with whole weights, more of them than there are columns at times."""
    names = ["x", "u", "k", "y"][: len(weights[0])]
    texts = [" + ".join(f"({w}) * {n}" for w, n in zip(row, names, strict=True)) for row in weights]
    texts = list(dict.fromkeys(texts))
    columns = compile_terms([f"I({text})" for text in texts], SCHEMA).design
    rows = list(dict.fromkeys(map(tuple, weights)))
    dependent = np.linalg.matrix_rank(np.array(rows, dtype=float)) < len(rows)
    try:
        represent(build_basis(columns, SCHEMA), columns)
    except CollinearDesignError:
        assert dependent
    except FormulaError:
        assert any(not any(row) for row in rows), "the constant 0 has no width"
    else:
        assert not dependent


def test_a_gram_spans_other_codings_and_subsets():
    asked = compile_terms(["y", "x", "I(x**2)", "g", "x:h"], SCHEMA).design
    basis = build_basis(asked, SCHEMA)
    for formula in ["y ~ C(g, contr.sum)", "x ~ y", "I(x**2) ~ x + C(h):x", "y ~ I((x - 4)**2)", "y ~ I(g == 'b')"]:
        compiled = compile_formula(formula, SCHEMA)
        columns = (*compiled.design, compiled.response)
        if formula.endswith("'b')"):
            with pytest.raises(MissingFromReleaseError, match="not a combination"):
                represent(basis, columns)
        else:
            assert represent(basis, columns).shape == (len(columns), basis.width)


@pytest.mark.parametrize("formula", ["y ~ k", "y ~ u:x", "y ~ I(x**2)", "x:u ~ y"])
def test_what_was_not_measured_is_missing(formula):
    basis = basis_of("y ~ x + g")
    compiled = compile_formula(formula, SCHEMA)
    with pytest.raises(MissingFromReleaseError, match="not a combination"):
        represent(basis, (*compiled.design, compiled.response))


@pytest.mark.parametrize(("lower", "upper"), [(1e138, 1.7e138), (-1e-250, 1e-260), (1e15, 1e15 + 8)])
def test_extreme_bounds_use_the_whole_grid(lower, upper):
    schema = Schema(x=Real(lower, upper), y=Real(0, 1))
    basis = build_basis(compile_terms(["x", "y"], schema).design, schema)
    middle = 0.5 * lower + 0.5 * upper
    cells = {"x": np.array([lower, middle, upper, -1e308, 1.75e308]), "y": np.zeros(5)}
    rows, _ = Features(basis).encode(cells)
    assert rows[1].tolist() == [-UNIT, 0, UNIT, -UNIT, UNIT]


@pytest.mark.parametrize("levels", [2, 3, 40, 700])
def test_the_weights_of_a_factors_levels_are_written_without_a_system_of_equations(levels):
    schema = Schema(x=Real(-1, 3), y=Real(0, 1), g=Category([f"l{level}" for level in range(levels)]))
    compiled = compile_formula("y ~ x", schema)
    weights = np.arange(float(levels))
    grouping = DesignColumn("g", "g", constant_expression(1.0), (("g", tuple(weights)),))
    basis = build_basis((*compiled.design, grouping, compiled.response), schema)
    found = represent_levels(basis, "g", weights)
    codes = basis.blocks[2].codes / UNIT
    assert basis.blocks[2].factors == ("g",)
    own = found[2 : 2 + codes.shape[1]]
    np.testing.assert_allclose(found[0] + codes @ own, weights, atol=1e-12 * levels)
    assert np.count_nonzero(found) <= levels
    if levels <= 40:
        np.testing.assert_allclose(found, represent(basis, [grouping], independent=False)[0], atol=1e-9 * levels)


def test_a_factor_that_no_column_has_takes_no_part():
    schema = Schema(x=Real(-1, 3), y=Real(0, 1), g=Category(list("abcd")))
    compiled = compile_formula("y ~ x", schema)
    grouping = DesignColumn("g", "g", constant_expression(1.0), (("g", (0.0, 1.0, 2.0, 3.0)),))
    asked = (*compiled.design, compiled.response)
    whole = represent(build_basis((*compiled.design, grouping, compiled.response), schema), asked)
    alone = represent(build_basis(asked, schema), asked)
    assert not whole[:, 2:5].any()
    np.testing.assert_array_equal(np.delete(whole, slice(2, 5), axis=1), alone)
