"""Bounds by curves are never below the truth, and close to it where the truth is known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.kernel.rows.features import Boxes, Features
from dpinfer.schema import Boolean, Category, Integer, Real, Schema
from dpinfer.schema.basis import basis_of
from dpinfer.schema.grid import UNIT, widened

SCHEMA = Schema(
    x=Real(-3, 11),
    p=Real(0.02, 0.99),
    u=Real(0, 1),
    k=Integer(0, 16),
    b=Boolean(),
    g=Category(["a", "b"]),
    far=Real(1000, 1001),
)
NORMS = ["l2", "l1"]
ONE_COLUMN = [
    ("x", ["x"]),
    ("x", ["x", "x**2"]),
    ("x", ["x - 4", "(x - 4)**2"]),
    ("x", ["x - 4", "(x - 4)**2", "(x - 4)**3", "(x - 4)**4"]),
    ("x", ["x", "x**2", "x**3", "x**4"]),
    ("p", ["log(p)", "log(1 - p)"]),
    ("p", ["log(p)", "p"]),
    ("p", ["p**0.5", "1 / p", "log(p)**2"]),
    ("u", ["u", "exp(-u)", "u * exp(u)"]),
    ("u", ["abs(u - 0.3)", "u > 0.5", "minimum(u, 0.2)"]),
    ("k", ["k", "k**2"]),
    ("far", ["far", "far**2"]),
]


def grid_of(basis, values):
    """Rows on the grid, in units of features (n, d), of given columns."""
    rows = Features(basis).encode(values)[0]
    assert (rows[0] == UNIT).all(), "a row was dropped"
    return rows.T / UNIT


def truth(rows, weights, norm):
    """Largest norm of a row, and of the difference of two."""
    power = 2 if norm == "l2" else 1
    scaled = rows / weights
    length = (np.abs(scaled) ** power).sum(axis=1).max() ** (1 / power)
    spread = 0.0
    for start in range(0, len(scaled), 400):
        apart = np.abs(scaled[start : start + 400, None] - scaled[None]) ** power
        spread = max(spread, apart.sum(axis=-1).max())
    return length, spread ** (1 / power)


def points(name, size, seed=0):
    column = SCHEMA[name]
    inner = np.random.default_rng(seed).uniform(column.lower, column.upper, size // 2)
    found = np.concatenate([np.linspace(column.lower, column.upper, size - size // 2), inner])
    return np.unique(np.rint(found)) if isinstance(column, Integer) else found


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("name", "texts"), ONE_COLUMN, ids=lambda given: str(given))
def test_features_of_one_column(name, texts, norm, centred):
    basis = basis_of(tuple(texts), SCHEMA, centred=centred)
    rows = grid_of(basis, {name: points(name, 800)})
    for seed in (None, 1, 2):
        weights = np.ones(basis.width)
        if seed is not None:
            weights = np.exp(np.random.default_rng(seed).normal(0, 1.5, basis.width))
        reach = Boxes(basis).reach(weights.tolist(), norm)
        length, spread = truth(rows, weights, norm)
        assert length <= reach.length
        assert spread <= reach.spread
        assert reach.length <= 1.05 * length
        if name != "far":
            assert reach.spread <= 1.06 * spread


def test_the_curve_of_a_value_and_its_square_by_hand():
    """On (u, u^2) with u in [-1, 1] the ends are 2 apart in u and 0 in the square; -1 and 0 are 1 and 1 apart.

    Both features are scaled to [-1, 1], so the square counts twice: the squared distance of u and v is
    (u - v)^2 (1 + 4 (u + v)^2), at most 4.17 (the box says 8); absolute changes abs(u - v) (1 + 2 abs(u + v)).
    """
    basis = basis_of(("u", "u**2"), Schema(u=Real(-1, 1)))
    fine = np.linspace(-1, 1, 4001)
    u, v = fine[:, None], -np.array([1.0])
    exact = {
        "l2": np.sqrt(((u - v) ** 2 * (1 + 4 * (u + v) ** 2)).max()),
        "l1": (np.abs(u - v) * (1 + 2 * np.abs(u + v))).max(),
    }
    for norm, spread in exact.items():
        found = Boxes(basis).reach([1.0, 1.0, 1.0], norm).spread
        assert spread <= found <= 1.03 * spread
        assert found < {"l2": 8**0.5, "l1": 4.0}[norm]


SEVERAL = [
    ["x", "u"],
    ["x", "u", "x**2", "u**2"],
    ["x", "x**2", "k", "b"],
    ["x", "u", "x * u"],
    ["x * u", "u * k", "k"],
    ["b", "b * x"],
    ["log(p)", "p", "exp(-u)", "far"],
    ["b", "g == 'a'", "k"],
]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("texts", SEVERAL, ids=str)
def test_features_of_several_columns(texts, norm):
    basis = basis_of(tuple(texts), SCHEMA)
    rng = np.random.default_rng(5)
    drawn = {
        name: np.where(
            rng.random(1500) < 0.5,
            rng.choice([limit, upper], 1500),
            rng.uniform(limit, upper, 1500),
        )
        for name, limit, upper in (("x", -3, 11), ("p", 0.02, 0.99), ("u", 0, 1), ("far", 1000, 1001))
    }
    drawn |= {"k": rng.integers(0, 17, 1500), "b": rng.random(1500) < 0.5}
    drawn["g"] = np.array(["a", "b"], dtype=object)[rng.integers(0, 2, 1500)]
    rows = grid_of(basis, drawn)
    for weights in (np.ones(basis.width), np.exp(rng.normal(0, 1, basis.width))):
        reach = Boxes(basis).reach(weights.tolist(), norm)
        length, spread = truth(rows, weights, norm)
        assert length <= reach.length
        assert spread <= reach.spread
        separate = not any("*" in text and "**" not in text for text in texts)
        if separate:
            assert reach.length <= 1.06 * length
            assert reach.spread <= 1.06 * spread


@settings(max_examples=15)
@given(
    st.floats(-300, 300),
    st.floats(1e-3, 300),
    st.lists(st.sampled_from(["x", "x**2", "x**3", "x**4", "abs(x)", "exp(x / 100)"]), min_size=1, unique=True),
    st.lists(st.floats(0.01, 100), min_size=7, max_size=7),
    st.sampled_from(NORMS),
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=8),
)
def test_no_pair_is_further_apart_than_the_bound(lower, width, texts, weights, norm, pairs):
    schema = Schema(x=Real(lower, lower + width))
    basis = basis_of(tuple(texts), schema)
    values = lower + width * np.array([(0.0, 1.0), *pairs]).ravel()
    rows = grid_of(basis, {"x": np.clip(values, lower, lower + width)})
    weights = np.array(weights[: basis.width])
    reach = Boxes(basis).reach(weights.tolist(), norm)
    length, spread = truth(rows, weights, norm)
    assert length <= reach.length
    assert spread <= reach.spread


def test_a_feature_that_is_not_released_counts_nothing():
    basis = basis_of(("x", "u"), SCHEMA)
    for norm in NORMS:
        whole = Boxes(basis).reach([1.0, 1.0, 1.0], norm)
        less = Boxes(basis).reach([np.inf, 1.0, 1.0], norm)
        power = 2 if norm == "l2" else 1
        assert less.length**power == pytest.approx(whole.length**power - 1, rel=1e-6)
        assert less.spread == whole.spread
        alone = Boxes(basis).reach([np.inf, 1.0, np.inf], norm)
        assert alone.length == pytest.approx(1, rel=1e-8)
        assert alone.spread == pytest.approx(2, rel=1e-5)


def test_the_constant_alone():
    basis = basis_of(("x",), SCHEMA)
    reach = Boxes(basis).reach([2.0, np.inf], "l2")
    assert reach.length == pytest.approx(0.5, rel=1e-8)
    assert reach.spread == 0


def test_bounds_between_which_there_are_few_floats():
    """A column so narrow for its size that it cannot be cut into pieces is bounded all the same."""
    schema = Schema(x=Real(1e15, 1e15 + 1))
    basis = basis_of(("x", "(x - 1000000000000000.5)**2"), schema)
    rows = grid_of(basis, {"x": 1e15 + np.arange(9) / 8})
    for norm in NORMS:
        reach = Boxes(basis).reach([1.0, 1.0, 1.0], norm)
        length, spread = truth(rows, np.ones(3), norm)
        assert length <= reach.length
        assert spread <= reach.spread


FINITE = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(
    st.tuples(FINITE, FINITE).map(sorted).filter(lambda ends: ends[1] - ends[0] > 1e-3),
    st.lists(st.integers(0, 7), min_size=2, max_size=4, unique=True),
    st.booleans(),
    st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_clipping_is_left_out_only_where_it_changes_nothing(ends, powers, centred, seed):
    basis = basis_of(tuple(f"x**{power + 1}" for power in powers), Schema(x=Real(*ends)), centred=centred)
    boxes = Boxes(basis)
    rng = np.random.default_rng(seed)
    edges = boxes.curves[0].edges
    near = np.concatenate([edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf), [0.0, 2e6, -np.inf]])
    cells = {"x": np.concatenate([near, rng.uniform(*ends, 500)])}
    assert boxes.binding == ()
    clipped = Features(basis).encode(cells, curves=boxes.curves)[0]
    assert np.array_equal(Features(basis).encode(cells)[0], clipped)


@pytest.mark.parametrize("texts", [("x", "abs(x)"), ("x", "exp(x / 11)"), ("x", "x**2 - x"), ("p", "1 / p")])
def test_other_features_are_clipped(texts):
    boxes = Boxes(basis_of(texts, SCHEMA))
    assert boxes.binding == boxes.curves


@pytest.mark.parametrize("place", [0, 64, 127])
@pytest.mark.parametrize("side", ["lower", "upper"])
def test_a_box_that_does_not_hold_its_piece_is_clipped_to(place, side):
    basis = basis_of(("x", "x**2"), Schema(x=Real(-3, 3)))
    curve = basis.curves[0]
    moved = getattr(curve, side).copy()
    other = getattr(curve, {"lower": "upper", "upper": "lower"}[side])
    moved[1, place] = np.rint(UNIT * (0.5 * moved[1, place] + 0.5 * other[1, place])) / UNIT
    wrong = replace(basis, curves=(replace(curve, **{side: moved}),))
    assert Boxes(wrong).binding == wrong.curves


def test_a_bare_column_that_does_not_end_where_scaling_does_is_clipped():
    """Rows are scaled unclamped: with a half width of a step a value beyond the bounds would be half a million."""
    basis = basis_of(("x", "x**2"), Schema(x=Real(0, 1)), centred=False)
    constant, column, square = basis.blocks
    far = replace(column, expression=replace(column.expression, lower=-(2.0**19), upper=2.0**19), half=2.0**19)
    curve = replace(
        basis.curves[0], edges=np.array([0.0, 1.0]), lower=np.zeros((2, 1)), upper=np.array([[1 / UNIT], [0]])
    )
    forged = replace(basis, blocks=(constant, far, replace(square, half=1e12)), curves=(curve,))
    boxes = Boxes(forged)
    assert boxes.binding == forged.curves
    rows = Features(forged).encode({"x": np.array([0.5, 1.0, 1e6, -1e6])}, curves=boxes.binding)[0]
    assert np.abs(rows[1:]).max() <= 1


@given(st.tuples(FINITE, FINITE, FINITE).map(sorted), st.tuples(FINITE, FINITE).map(sorted))
def test_a_rounded_feature_stays_in_the_widened_box_of_its_bounds(values, bounds):
    """Bounds are widened to whole steps outward: a number between them is rounded to a step between these."""
    lower, value, upper = values
    expression = basis_of(("x",), Schema(x=Real(bounds[0], bounds[0] + 1 + bounds[1] - bounds[0]))).blocks[-1]
    low, high = widened(
        np.array([(lower - expression.center) / expression.half]),
        np.array([(upper - expression.center) / expression.half]),
    )
    out = np.empty(1)
    expression.to_grid(np.array([value]), out)
    assert low[0] * UNIT <= out[0] <= high[0] * UNIT


@given(st.integers(-UNIT, UNIT), st.sampled_from([-0.5, -0.49, -1e-9, 0.0, 1e-9, 0.49, 0.5]))
def test_bounds_are_widened_by_less_than_a_step_and_a_millionth(step, more):
    number = np.array([(step + more) / UNIT])
    low, high = widened(number, number)
    assert -1 <= low[0] <= np.clip(np.rint(step + more) / UNIT, -1, 1) <= high[0] <= 1
    assert ((number[0] - low[0]) * UNIT < 1 + 2e-6) or low[0] == 1
    assert ((high[0] - number[0]) * UNIT < 1 + 2e-6) or high[0] == -1
