"""The nearest product of margins: a least distance, never negative, the same alone and among many."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from dpinfer.tables.chi_squared_inference import margins_of, nearest_product

seeds = st.integers(0, 2**31)


def tables(shape, n, spread, seed, many=5):
    rng = np.random.default_rng(seed)
    cells = np.outer(rng.dirichlet(np.full(shape[0], 2.0)), rng.dirichlet(np.full(shape[1], 2.0)))
    counts = rng.multinomial(n, cells.ravel(), size=many) + rng.normal(0, spread, (many, cells.size))
    return counts.T.reshape(*shape, many)


@given(st.integers(2, 4), st.integers(2, 4), st.integers(0, 5000), st.floats(0.3, 200), st.booleans(), seeds)
def test_products_are_never_negative_and_add_up(r, c, n, spread, known, seed):
    public = max(n, 1) if known else None
    table = tables((r, c), n, spread, seed)
    found = nearest_product(table, spread**2, public)
    assert (found.rows >= 0).all()
    assert (found.columns >= 0).all()
    assert (found.length >= 0).all()
    shares = found.columns.sum(axis=0)
    assert ((np.abs(shares - 1) < 1e-9) | (found.rows.sum(axis=0) < 1e-9)).all()
    if known:
        assert found.rows.sum(axis=0) == pytest.approx(np.full(5, public))
    alone = nearest_product(table[..., 2:3], spread**2, public)
    assert alone.length == pytest.approx(found.length[2:3])


@given(st.integers(2, 3), st.integers(2, 4), st.integers(0, 2000), st.floats(1, 100), seeds)
def test_no_product_with_positive_margins_is_much_nearer(r, c, n, spread, seed):
    table = tables((r, c), n, spread, seed, many=1)
    found = nearest_product(table, spread**2, None)
    rows, columns = margins_of(table, None)
    weight = 1 / (rows[:, None] * columns + spread**2)[..., 0]

    def far(margins):
        return (weight * (table[..., 0] - np.outer(margins[:r], margins[r:])) ** 2).sum()

    start = np.concatenate([found.rows[:, 0], found.columns[:, 0]])
    best = optimize.minimize(far, start, method="L-BFGS-B", bounds=[(0, None)] * (r + c))
    assert found.length[0] == pytest.approx(far(start))
    assert found.length[0] <= best.fun + 0.05 * max(best.fun, 1.0)


def test_margins_are_at_least_one_row():
    table = np.array([[-500.0, 3, 4, 10, 20, 30], [200, 100, 100, 300, 150, 150]]).T.reshape(2, 3, 2)
    for nobs, total in ((None, [1.0, 1000.0]), (1000, [1000.0, 1000.0])):
        rows, columns = margins_of(table, nobs)
        assert rows.sum(axis=0) == pytest.approx(total)
        assert columns.sum(axis=0) == pytest.approx([1, 1])
        assert (rows > 0).all()
        assert (columns > 0).all()
    assert rows[:, 1] == pytest.approx([400, 600])
    assert columns[:, 1] == pytest.approx([0.5, 0.25, 0.25])
