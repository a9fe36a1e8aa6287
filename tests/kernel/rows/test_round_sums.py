"""What rounds add up: scores, Hessians, products and numbers, the same integers whatever the order of rows."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.iterations import Interpolant, RoundFrame, RoundSum, Term
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.schema.basis import basis_of
from dpinfer.schema.grid import UNIT
from tests.kernel.rows.batches import added, raw_of
from tests.kernel.rows.round_bounds import (
    ROWS,
    added_alone,
    cells_of,
    frame_of,
    share_of_bound,
)
from tests.kernel.rows.round_cases import (
    ROUNDS,
    SCHEMA,
    WRONG,
    binary,
    clipped,
    flat,
    integer_rows,
    table,
)

NAN, INF = float("nan"), float("inf")
BOTH = {**ROUNDS, **WRONG}


# What is summed


def summed(rows, frame):
    return rows.add(Batch(cells_of(frame, rows), len(frame)))[0]


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_sums_are_scores_hessians_and_their_products(link):
    rng = np.random.default_rng(2)
    rows = binary(link, meat=0.2, rng=rng, scale=0.3, theta=0.3)
    frame = frame_of(5000, rng)
    encoded, _ = rows.frame.features.encode(cells_of(frame, rows))
    x = encoded / UNIT
    maps = rows.frame.maps / 2.0 ** np.array(rows.frame.bits)[:, None]
    z, eta, y = maps[:-2] @ x, maps[-2] @ x, maps[-1] @ x
    np.testing.assert_array_equal(y, frame["y"])
    mean = {"logit": special.expit, "probit": special.ndtr, "cloglog": lambda t: -np.expm1(-np.exp(t))}[link]
    slope = (mean(eta + 1e-5) - mean(eta - 1e-5)) / 2e-5
    v = np.minimum(1, 1 / (z * z).sum(axis=0))
    assert 0.1 < (v < 1).mean() < 0.9
    score, upper = z * v * (y - mean(eta)), np.triu_indices(len(z))
    wanted = [score.sum(axis=1), ((z * v * slope) @ z.T)[upper], (score @ score.T)[upper]]
    np.testing.assert_allclose(summed(rows, frame) / rows.units, np.concatenate(wanted), atol=0.05)


def test_counts_have_lifted_coordinates_centred_scores_and_numbers():
    rng = np.random.default_rng(3)
    rows = ROUNDS["Poisson"](rng=rng, scale=0.3)
    frame = frame_of(3000, rng)
    encoded, _ = rows.frame.features.encode(cells_of(frame, rows))
    maps = rows.frame.maps / 2.0 ** np.array(rows.frame.bits)[:, None]
    mapped = maps @ (encoded / UNIT)
    z, eta, y = mapped[:-2], np.clip(mapped[-2], -9, 6), mapped[-1]
    np.testing.assert_allclose(y, frame["k"], atol=1e-4)
    mu = np.exp(eta)
    residual = (y - mu) / np.sqrt(mu)
    v = np.minimum(1, 1 / (mu * (z * z).sum(axis=0)))
    psi = np.clip(residual, -1.5, 1.5) / 1.6514
    center = rows.terms[0].center(eta)
    parts = [one / UNIT for one in rows.integers(encoded)]
    np.testing.assert_allclose(parts[0], z * v * np.sqrt(mu) * (psi - center), atol=2e-4)
    np.testing.assert_allclose(parts[2][0], np.clip((y - mu) / 8, -1, 1), atol=1e-3)
    np.testing.assert_allclose(parts[3][0], np.minimum(mu, 8) / 8, atol=1e-3)


def test_inliers_and_tails_are_told_apart_at_the_same_number():
    rng = np.random.default_rng(4)
    rows = ROUNDS["least squares"](rng=rng, scale=0.2)
    score, gram, _, signs, excess, squares = rows.integers(integer_rows(rows, 4000, rng))
    tail = (signs != 0).any(axis=0)
    assert 0.05 < tail.mean() < 0.95
    assert not gram[:, tail].any()
    assert not excess[:, ~tail].any()
    assert not squares[:, ~tail].any()
    assert (squares >= 0).all()
    assert (np.abs(score[0]) <= UNIT).all()


def test_a_row_that_is_dropped_adds_nothing():
    for make in BOTH.values():
        rows = make()
        nothing = np.zeros((rows.frame.features.basis.width, 3))
        assert not any(one.any() for one in rows.integers(nothing))
    dropped = {"x": [None], "u": [0.5], "w": [0.0], "b": [True], "y": [True]}
    cells = {name: np.array(column, dtype=object) for name, column in dropped.items()}
    assert not binary().add(Batch(cells, 1)).any()


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(list(BOTH)), cells=st.lists(ROWS, min_size=1, max_size=5))
def test_any_cells_stay_in_the_set_and_add_up(name, cells):
    rows = at_large(name)
    integers = rows.integers(rows.frame.features.encode(raw_of(rows.columns, cells))[0])
    alone = [added_alone(rows, integers, place) for place in range(len(cells))]
    assert added(rows, *cells).tolist() == sum(alone).tolist()
    for neighbors in NEIGHBORS:
        assert share_of_bound(rows, alone, neighbors) <= 1


@cache
def at_large(name):
    return BOTH[name](scale=0.7)


# Order, cuts and strides: sums of all kinds of rows are in `tests/kernel/test_sums.py`


@pytest.mark.parametrize("name", ROUNDS)
def test_integers_of_a_row_do_not_depend_on_where_it_stands(name):
    rng = np.random.default_rng(11)
    rows = ROUNDS[name](rng=rng, scale=0.5)
    found = integer_rows(rows, 5003, rng)
    right = rows.integers(found)
    order = rng.permutation(found.shape[1])
    wide = np.zeros((found.shape[0], 3 * found.shape[1]))
    wide[:, 1::3] = found
    others = [
        (rows.integers(np.asfortranarray(found)), slice(None)),
        (rows.integers(wide[:, 1::3]), slice(None)),
        (rows.integers(found[:, order]), order),
        (rows.integers(np.delete(found, 17, axis=1)), np.delete(np.arange(found.shape[1]), 17)),
        (rows.integers(found[:, 100:]), slice(100, None)),
        (rows.integers(found[:, 4999:]), slice(4999, None)),
        (rows.integers(found[:, 1234:1235]), slice(1234, 1235)),
    ]
    for integers, places in others:
        for one, all_of_them in zip(integers, right, strict=True):
            np.testing.assert_array_equal(one, all_of_them[:, places])


def test_sums_at_the_edge_of_the_floats_are_exact():
    """Every product is 2^38 here, and a batch of them adds up to 2^53."""
    asked = Features(basis_of(("w",), SCHEMA))
    maps = np.array([[2**34, 0], [0, 2**34], [0, 0], [2**34, 0]])
    frame = RoundFrame(asked, maps, (34, 34, 0, 34))
    rows = RoundSum(frame, (Term("gram", "matrix", 1e-3, flat(2.0), "linear"),))
    rows.check()
    ones = {"w": np.ones(2**15)}
    assert rows.add(Batch(ones, 2**15))[0].tolist() == [2**53] * 3


# Tables


def test_a_table_is_linear_between_nodes_and_jumps_at_its_ends():
    found = Interpolant(-1.0, 1.0, np.array([2.0, 4.0, 3.0]), -7.0, 9.0)
    numbers = np.array([-INF, -1.1, -1.0, -0.5, 0.0, 0.25, 1.0, 1.1, INF, NAN])
    assert found(numbers).tolist() == [-7, -7, 2, 3, 4, 3.75, 3, 9, 9, 2]
    np.testing.assert_allclose(table(special.expit, -20, 20)(numbers[1:8]), special.expit(numbers[1:8]), atol=2e-6)
    assert clipped(0.5)(np.array([-3, -0.25, 0.5, 7])).tolist() == [-1, -0.5, 1, 1]
