"""Marginals by contrasts and by counts: the bound against every pair of cells, and sums against the whole table."""

from fractions import Fraction
from itertools import combinations, product
from math import prod

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.marginals import EXACT_COLUMNS, MOST_CELLS, MarginalSum
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.schema import Boolean, Category, Integer, Schema
from dpinfer.schema.axes import BinsAxis, LevelsAxis
from dpinfer.schema.grid import constant_basis


def schema_of(levels, *, kept=True):
    policy = {"missing": 0, "impossible": 0} if kept else {}
    return Schema({f"c{i}": Integer(0, m - 1, **policy) for i, m in enumerate(levels)})


def closure(subsets):
    found = {part for subset in subsets for size in range(len(subset) + 1) for part in combinations(subset, size)}
    return tuple(sorted(found, key=lambda one: (len(one), one)))


def marginal_sum(levels, subsets, *, contrasts=True, kept=True):
    schema = schema_of(levels, kept=kept)
    axes = tuple(LevelsAxis(schema, name) for name in schema)
    return MarginalSum(Features(constant_basis(schema)), axes, subsets, contrasts)


def rows_of(counted, table):
    """Sums of each row of a table (rows, m), one at a time."""
    found = []
    for row in table:
        cells = {f"c{i}": np.array([value]) for i, value in enumerate(row)}
        found.append(counted.finish(counted.add(Batch(cells, 1))[0].tolist()))
    return np.array(found, dtype=np.int64)


def every_row(counted):
    """Sums of a row in each cell of the whole table (G, m)."""
    return rows_of(counted, product(*map(range, counted.shape)))


def squared(left, right, scales):
    """Exact squared length of a difference over scales."""
    return sum(Fraction(int(d)) ** 2 / s for d, s in zip(left - right, scales, strict=True) if d)


def norms(counted):
    """Exact squared norms of the rows of contrasts."""
    found = []
    for subset in counted.subsets:
        steps = [[j * (j + 1) for j in range(1, counted.shape[i])] if counted.contrasts else [1] * counted.shape[i]
                 for i in subset]  # fmt: skip
        found += [prod(one) for one in product(*steps)]
    return found


DESIGNS = [
    ((2, 2), ((0, 1),)),
    ((2, 3, 4), ((0, 1), (1, 2), (0, 2))),
    ((3, 5), ((0,), (1,))),
    ((2, 2, 2, 2), ((0, 1), (1, 2), (2, 3), (0, 3), (0, 2), (1, 3))),
    ((3, 2, 2), ((0, 1, 2),)),
]


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(("levels", "workload"), DESIGNS)
def test_the_bound_is_the_largest_change_of_all_pairs_of_cells(levels, workload, kept, neighbors):
    counted = marginal_sum(levels, closure(workload), kept=kept)
    rng = np.random.default_rng(7)
    weights = rng.uniform(0.5, 3, len(counted.subsets))
    bounded = counted.bounded(neighbors, "l2", weights=weights.tolist())
    every = every_row(counted)
    exact = [Fraction(float(w)) ** 2 * n for w, n in zip(weights[counted.part_of], norms(counted), strict=True)]
    given_scales = [Fraction(float(w)) ** 2 for w in bounded.weights]
    zero = np.zeros(every.shape[1], dtype=np.int64)
    pairs = [(one, zero) for one in every]
    if neighbors == "replace_one":
        pairs = [*combinations(every, 2), *([] if kept else pairs)]
    largest = max(squared(left, right, exact) for left, right in pairs)
    priced = max(squared(left, right, given_scales) for left, right in pairs)
    assert priced <= bounded.bound**2
    assert priced <= largest  # the pattern is rounded up
    assert float(bounded.bound**2) <= float(largest) * (1 + 1e-9)


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(("levels", "workload"), DESIGNS)
def test_the_bound_of_counts_is_the_largest_change(levels, workload, kept, norm, neighbors):
    counted = marginal_sum(levels, workload, contrasts=False, kept=kept)
    weights = np.linspace(1, 2, len(workload)) if len(workload) > 1 else np.ones(1)
    bound = counted.bounded(neighbors, norm, weights=weights.tolist()).bound
    every, power = every_row(counted), 1 if norm == "l1" else 2
    zero = np.zeros(every.shape[1], dtype=np.int64)
    pairs = [(one, zero) for one in every]
    if neighbors == "replace_one":
        pairs = [*combinations(every, 2), *([] if kept else pairs)]
    scales = [Fraction(float(w)) for w in weights[counted.part_of]]
    found = max(sum((abs(int(d)) / s) ** power for d, s in zip(a - b, scales, strict=True)) for a, b in pairs)
    assert found <= bound**power
    assert float(bound**power) == pytest.approx(float(found), rel=1e-12)


@settings(max_examples=40)
@given(st.lists(st.integers(2, 4), min_size=2, max_size=4), st.integers(0, 10**6))
def test_changes_of_random_neighbours_are_within_the_bound(levels, seed):
    rng = np.random.default_rng(seed)
    pairs = list(combinations(range(len(levels)), 2))
    subsets = closure([pairs[i] for i in rng.choice(len(pairs), 1 + int(rng.integers(len(pairs))), replace=False)])
    counted = marginal_sum(levels, subsets)
    bounded = counted.bounded("replace_one", "l2", weights=rng.uniform(0.1, 9, len(subsets)).tolist())
    rows = rng.integers(0, levels, (9, len(levels)))
    other = rows.copy()
    other[4] = rng.integers(0, levels)
    change = rows_of(counted, rows).sum(axis=0) - rows_of(counted, other).sum(axis=0)
    assert change[~bounded.public].any() or (rows == other).all() or not (change != 0).any()
    assert (
        squared(change, np.zeros_like(change), [Fraction(float(w)) ** 2 for w in bounded.weights]) <= bounded.bound**2
    )
    assert not change[bounded.public].any()


def test_many_columns_have_a_bound_that_is_no_smaller():
    levels = (2,) * (EXACT_COLUMNS + 1)
    subsets = closure([(0, 1), (1, 2), (15, 16)])
    many = marginal_sum(levels, subsets).bounded("replace_one", "l2").bound
    few = marginal_sum(levels[:3] + levels[:2], closure([(0, 1), (1, 2), (3, 4)])).bounded("replace_one", "l2").bound
    assert few < many < 1.5 * few


def test_people_with_several_rows_multiply_the_bound():
    levels, subsets = (2, 3), closure([(0, 1)])
    one = marginal_sum(levels, subsets)
    schema = one.schema.with_people("id", 3)
    axes = tuple(LevelsAxis(schema, name) for name in ("c0", "c1"))
    several = MarginalSum(Features(constant_basis(schema)), axes, subsets)
    assert several.bounded("add_remove", "l2").bound == 3 * one.bounded("add_remove", "l2").bound


def test_contrasts_are_helmerts_and_rows_are_orthogonal():
    counted = marginal_sum((2, 4), closure([(0, 1)]))
    every = every_row(counted)
    assert every[:, 0].tolist() == [1] * 8
    helmert = np.array([[1, -1, 0, 0], [1, 1, -2, 0], [1, 1, 1, -3]])
    of_second = [
        place
        for place, name in enumerate(counted.names)
        if name in ("contrast[c1=1]", "contrast[c1=2]", "contrast[c1=3]")
    ]
    np.testing.assert_array_equal(every[:4, of_second].T, helmert)
    gram = every.T @ every
    np.testing.assert_array_equal(gram, np.diag(np.diag(gram)))


@settings(max_examples=30)
@given(st.lists(st.integers(2, 4), min_size=2, max_size=4), st.booleans(), st.integers(0, 10**6))
def test_sums_are_those_of_the_whole_table(levels, contrasts, seed):
    rng = np.random.default_rng(seed)
    size = min(len(levels), 3)
    subsets = (
        closure(list(combinations(range(len(levels)), size)))
        if contrasts
        else tuple(combinations(range(len(levels)), size))
    )
    counted = marginal_sum(levels, subsets, contrasts=contrasts, kept=False)
    rows = rng.integers(-1, np.array(levels) + 1, (200, len(levels)))  # some are impossible
    batch = Batch({f"c{i}": rows[:, i] for i in range(len(levels))}, len(rows), sets=2)
    found = counted.finish_sets(counted.add(batch).astype(float))
    inside = np.clip(rows, 0, np.array(levels) - 1)  # numbers beyond the bounds of a column are moved to them
    expected = np.zeros((2, len(counted.names)))
    every = {tuple(row): one for row, one in zip(product(*map(range, levels)), every_row(counted), strict=True)}
    for place, row in enumerate(inside.tolist()):
        expected[place // 100] += every[tuple(row)]
    np.testing.assert_array_equal(found, expected)
    exact = [counted.finish(one.tolist()) for one in counted.add(batch)]
    np.testing.assert_array_equal(np.array(exact, dtype=float), expected)


def test_a_row_without_a_value_in_some_column_is_in_no_marginal():
    schema = Schema(g=Category(["a", "b"]), h=Boolean(), k=Integer(1, 3))
    axes = (*(LevelsAxis(schema, name) for name in ("g", "h")), BinsAxis(schema, "k", (1.0, 2.0, 3.0)))
    counted = MarginalSum(Features(constant_basis(schema)), axes, closure([(0, 1), (1, 2)]))
    frame = pd.DataFrame({"g": ["a", "b", None, "z", "a"], "h": [True, None, True, False, False], "k": [1, 2, 3, 1, 3]})
    cells = {name: frame[name].to_numpy(dtype=object) for name in frame}
    sums = counted.finish(counted.add(Batch(cells, 5))[0].tolist())
    kept = {name: column[[0, 4]] for name, column in cells.items()}
    assert sums == counted.finish(counted.add(Batch(kept, 2))[0].tolist())
    assert sums[0] == 2
    assert not counted.keeps_every_row


@pytest.mark.parametrize(
    ("subsets", "levels", "named"),
    [
        ((), (2, 2), "subsets"),
        (((),), (2, 2), "subsets"),
        (((1, 0),), (2, 2), "subsets"),
        (((0, 2),), (2, 2), "subsets"),
        (((0,), (0,)), (2, 2), "subsets"),
        (((0, 0),), (2, 2), "subsets"),
        ((tuple(range(11)),), (5,) * 11, "workload"),
    ],
)
def test_what_are_no_marginals_is_refused(subsets, levels, named):
    with pytest.raises(OptionError, match=named):
        marginal_sum(levels, subsets).check()


def test_a_column_of_one_level_is_refused():
    schema = Schema(k=Integer(1, 3), h=Boolean())
    axes = BinsAxis(schema, "k", (1.0, 3.0)), LevelsAxis(schema, "h")
    with pytest.raises(OptionError, match="two levels"):
        MarginalSum(Features(constant_basis(schema)), axes, ((0, 1),)).check()


def test_contrasts_have_no_price_under_laplace_noise():
    with pytest.raises(NotProvedError, match="counts"):
        marginal_sum((2, 3), closure([(0, 1)])).bounded("add_remove", "l1")
    assert MOST_CELLS == 2**20
