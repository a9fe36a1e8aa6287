"""Rounds of Newton's method: the set that rows are forced into, what it costs, and exact sums whatever the order."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from dpinfer.errors import NotProvedError
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.interpolants import LARGEST, Interpolant
from dpinfer.kernel.rows.round_frame import RoundFrame
from dpinfer.kernel.rows.rounds import SLACK, RoundSum, Term
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.sums import exact_sums
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.schema.basis import UNIT, basis_of
from tests.kernel.rows.round_cases import (
    ROUNDS,
    SCHEMA,
    WRONG,
    binary,
    clipped,
    features,
    flat,
    integer_rows,
    maps_of,
    table,
)

NAN, INF = float("nan"), float("inf")
SQUARED = ("matrix", "outer")
BOTH = {**ROUNDS, **WRONG}
SCALES = [pytest.param(0.05, marks=pytest.mark.slow), 0.4, pytest.param(4.0, marks=pytest.mark.slow)]
CELLS = {
    "x": st.sampled_from([-3.0, 11.0, 4.0, 1e308, NAN, INF, -INF, "oops", None]) | st.floats(-3, 11),
    "u": st.sampled_from([0.0, 1.0, 0.5, -1e9, 5e-324, NAN, INF, "?"]) | st.floats(0, 1),
    "w": st.sampled_from([-1.0, 1.0, 0.0, 1e300, NAN]) | st.floats(-1, 1),
    "b": st.sampled_from([True, False, 0, 1, "true", None, 7]),
    "y": st.sampled_from([True, False, 0, 1, "false", NAN, "maybe"]),
    "t": st.sampled_from([-1.0, 1.0, 0.0, 1e300, NAN, None]) | st.floats(-1, 1),
    "k": st.sampled_from([0, 32, 5, -4, NAN, "many"]) | st.integers(0, 32),
}
ROWS = st.fixed_dictionaries(CELLS)


def mostly(names, *fast):
    """All names, of which some are slow tests."""
    return [name if name in fast else pytest.param(name, marks=pytest.mark.slow) for name in names]


def exact_price(rows, integers, place):
    """What the sizes of a row pay, in exact fractions."""
    total = Fraction(0)
    for term, one in zip(rows.terms, integers, strict=True):
        numbers = [int(entry) for entry in one[:, place]]
        absolute, squared = Fraction(sum(map(abs, numbers)), UNIT), Fraction(sum(n * n for n in numbers), UNIT**2)
        if rows.frame.norm == "l2":
            size = squared**2 if term.kind in SQUARED else squared
        else:
            size = (absolute**2 + squared) / 2 if term.kind in SQUARED else absolute
        total += Fraction(term.price) * size
    return total


def added_alone(rows, integers, place):
    """What one row adds, in whole Python numbers."""
    found = []
    for term, one in zip(rows.terms, integers, strict=True):
        numbers = [int(entry) for entry in one[:, place]]
        if term.kind in SQUARED:
            numbers = [a * b for i, a in enumerate(numbers) for b in numbers[i:]]
        found += numbers
    return np.array(found, dtype=object)


def price_of(rows, integers):
    """The same as `exact_price` for all rows, in floating point."""
    total = 0.0
    for term, one in zip(rows.terms, integers, strict=True):
        absolute, squared = np.abs(one).sum(axis=0) / UNIT, (one * one).sum(axis=0) / UNIT**2
        if rows.frame.norm == "l2":
            size = squared**2 if term.kind in SQUARED else squared
        else:
            size = (absolute**2 + squared) / 2 if term.kind in SQUARED else absolute
        total = total + term.price * size
    return total


def searched(rows, rng, size=600, steps=60):
    """Rows at random, and rows that climb to a large price; integer features (d, m)."""
    found = integer_rows(rows, size, rng)
    best = integer_rows(rows, 150, rng)
    best[0] = UNIT
    boolean = set(np.unique(found[-1])) <= {-UNIT, 0, UNIT}
    price = price_of(rows, rows.integers(best))
    for _ in range(steps):
        moved = best + rng.normal(size=best.shape) * UNIT * 10 ** rng.uniform(-5, -0.3)
        moved = np.clip(np.rint(moved), -UNIT, UNIT)
        moved[0] = UNIT
        if boolean:
            moved[-1] = np.where(rng.random(best.shape[1]) < 0.3, -best[-1], best[-1])
        then = price_of(rows, rows.integers(moved))
        best, price = np.where(then > price, moved, best), np.maximum(then, price)
    return np.concatenate([found, best], axis=1)


def squared_change(change, weights, norm):
    """Norm of a change, each coordinate over its weight; its square under Gaussian noise."""
    if norm == "l1":
        return sum(abs(Fraction(int(one))) / w for one, w in zip(change, weights, strict=True) if one)
    return sum(Fraction(int(one) ** 2) / w**2 for one, w in zip(change, weights, strict=True) if one)


def share_of_bound(rows, alone, neighbors, **options):
    """Largest change between neighbours over the bound that is paid for (squared in L2), in exact fractions."""
    norm = rows.frame.norm
    bounded = rows.bounded(neighbors, norm, **options)
    assert not bounded.public.any()
    weights = [Fraction(one) for one in bounded.weights.tolist()]
    nothing = np.zeros(len(weights), dtype=object)
    others = [nothing] if neighbors == "add_remove" else [nothing, *alone]
    most = max(squared_change(one - other, weights, norm) for one in alone for other in others)
    return most / (bounded.bound if norm == "l1" else bounded.bound**2)


# The set, and its price


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("scale", SCALES)
def test_no_neighbours_are_farther_apart_than_is_paid_for(name, scale):
    rng = np.random.default_rng(int(100 * scale))
    rows = BOTH[name](rng=rng, scale=scale)
    rows.check()
    found = searched(rows, rng)
    integers = rows.integers(found)
    paid = price_of(rows, integers)
    top = np.argsort(-paid)[:7]
    assert max(exact_price(rows, integers, place) for place in top) <= 1 + SLACK
    alone = [added_alone(rows, integers, place) for place in [*top, *rng.integers(0, len(paid), 3)]]
    for neighbors in NEIGHBORS:
        assert share_of_bound(rows, alone, neighbors) <= 1
        relative = 10 ** rng.uniform(-4, 4, len(rows.terms))
        assert share_of_bound(rows, alone[:5], neighbors, weights=relative.tolist()) <= 1


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), norm=st.sampled_from(["l2", "l1"]))
def test_the_bound_holds_for_any_tables_maps_and_prices(seed, norm):
    rng = np.random.default_rng(seed)

    def anything(positive=False):
        size = 10.0 ** rng.integers(-6, 7) * (LARGEST / 1e7 if rng.random() < 0.1 else 1)
        values = rng.normal(size=rng.integers(2, 9)) * size
        ends = (rng.normal(size=2) * size).tolist()
        low = float(rng.normal() * 3)
        numbers = np.abs(values) if positive else values
        return Interpolant(low, low + float(10.0 ** rng.uniform(-3, 2)), numbers, *ends)

    asked = features(rng.choice(["y", "t", "k"]), regressors=("x", "b"))
    maps, bits = maps_of(4, size=int(rng.integers(1, 4)), rng=rng, scale=10.0 ** rng.uniform(-7, 2))
    frame = RoundFrame(
        asked,
        maps,
        tuple(int(bit) for bit in rng.integers(0, 65, len(bits))) if rng.random() < 0.3 else bits,
        *(anything() if rng.random() < 0.7 else None for _ in range(3)),
        norm=norm,
        ratio=float(10.0 ** rng.uniform(-2, 2)),
    )
    kinds = ["vector", *rng.choice(["vector", "matrix", "outer", "number", "mass"], 3)]
    terms = tuple(
        Term(
            f"{place}",
            str(kind),
            float(10.0 ** rng.uniform(-4, 4)),
            None if kind == "outer" or rng.random() < 0.2 else anything(),
            str(rng.choice(["residual", "difference", "linear"])),
            anything() if kind == "vector" and rng.random() < 0.5 else None,
            int(rng.integers(0, 3)),
        )
        for place, kind in enumerate(kinds)
    )
    rows = RoundSum(frame, terms)
    rows.check()
    integers = rows.integers(integer_rows(rows, 40, rng))
    assert all((one == np.rint(one)).all() and (np.abs(one) <= UNIT).all() for one in integers)
    assert max(exact_price(rows, integers, place) for place in range(40)) <= 1 + SLACK
    alone = [added_alone(rows, integers, place) for place in np.argsort(-price_of(rows, integers))[:6]]
    for neighbors in NEIGHBORS:
        assert share_of_bound(rows, alone, neighbors) <= 1


@pytest.mark.parametrize(
    ("name", "scale"),
    [("logit", 1.0), ("logit with products", 1.0), ("logit, L1", 0.12), ("probit", 1.0), ("cloglog", 1.0)],
)
def test_one_row_attains_its_price(name, scale):
    rng = np.random.default_rng(5)
    rows = ROUNDS[name](rng=rng, scale=scale, theta=3.0)
    integers = rows.integers(searched(rows, rng))
    best = np.argsort(-price_of(rows, integers))[:3]
    alone = [added_alone(rows, integers, place) for place in best]
    share = float(share_of_bound(rows, alone, "add_remove"))
    assert (share if rows.frame.norm == "l1" else np.sqrt(share)) >= 0.95


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("scale", SCALES)
def test_rows_that_pay_right_prices_are_never_zeroed(name, scale):
    rng = np.random.default_rng(7)
    rows = BOTH[name](rng=rng, scale=scale)
    found = searched(rows, rng)
    cheap = replace(rows, terms=tuple(replace(term, price=term.price / 1024) for term in rows.terms))
    zeroed = np.zeros(found.shape[1], dtype=bool)
    for free, forced in zip(cheap.integers(found), rows.integers(found), strict=True):
        zeroed |= (free != forced).any(axis=0)
    assert zeroed.any() == (name in WRONG and scale > 0.05)


@pytest.mark.parametrize(
    ("kind", "norm", "first", "second", "neighbors", "moved"),
    [
        ("vector", "l2", (1, 0), None, "add_remove", 1),
        ("matrix", "l2", (1, 0), None, "add_remove", 1),
        ("number", "l2", (1, 0), None, "add_remove", 1),
        ("vector", "l2", (1, 0), (-1, 0), "replace_one", 2),
        ("number", "l2", (1, 0), (-1, 0), "replace_one", 2),
        ("matrix", "l2", (1, 0), (0, 1), "replace_one", 2**0.5),
        ("mass", "l2", (1, 0), (-1, 0), "replace_one", 1),
        ("vector", "l1", (0.5, 0.5), (-0.5, -0.5), "replace_one", 2),
        ("matrix", "l1", (1, 0), (0, 1), "replace_one", 2),
        ("number", "l1", (1, 0), (-1, 0), "replace_one", 2),
    ],
)
def test_neighbours_that_attain_the_bound_of_a_term_alone(kind, norm, first, second, neighbors, moved):
    asked = Features(basis_of(["w", "t"], SCHEMA))
    maps = np.array([[0, 1, 0], [0, 0, 1], [0, 1, 0], [0, 0, 0]])
    curve = {"number": None, "mass": None}.get(kind, flat(1.0))
    rows = RoundSum(RoundFrame(asked, maps, (0,) * 4, norm=norm), (Term("it", kind, 1.0, curve, "linear"),))
    rows.check()

    def alone(cells):
        return rows.add(Batch({"w": np.array(cells[:1], float), "t": np.array(cells[1:], float)}, 1))[0].tolist()

    change = np.array(alone(first), dtype=object) - (alone(second) if second else 0)
    bounded = rows.bounded(neighbors, norm)
    size = float(squared_change(change, [Fraction(one) for one in bounded.weights.tolist()], norm))
    size = size if norm == "l1" else size**0.5
    assert size == pytest.approx(moved)
    assert float(bounded.bound) == pytest.approx(2**0.5 if kind == "mass" else moved, rel=3e-4)


def test_every_term_pays_for_the_whole_bound_at_the_usual_weights():
    for name in ROUNDS:
        rows = ROUNDS[name]()
        for neighbors in NEIGHBORS:
            bound = rows.bounded(neighbors, rows.frame.norm).bound
            assert float(bound) == pytest.approx(1, abs=float(SLACK) + 1e-12)
            usual = rows.usual_weights(neighbors, rows.frame.norm)
            for place in range(len(rows.terms)):
                more = np.where(np.arange(len(usual)) == place, 2 * usual, usual)
                less = np.where(np.arange(len(usual)) == place, usual / 2, usual)
                assert float(rows.change(more, neighbors, rows.frame.norm)) == pytest.approx(float(bound))
                assert rows.change(less, neighbors, rows.frame.norm) > 1.9 * bound


def test_noise_of_the_score_is_that_of_a_bound_alone_and_the_hessian_is_free():
    rows = binary()
    assert rows.usual_weights("add_remove", "l2") == pytest.approx([1, 0.3003], abs=1e-4)
    assert rows.usual_weights("replace_one", "l2") == pytest.approx([2, 0.3003 * 2**0.5], abs=1e-4)
    both = binary(norm="l1", ratio=1.0)
    assert both.usual_weights("replace_one", "l1").tolist() == [2, 2]


def test_what_is_not_proved_is_refused():
    with pytest.raises(NotProvedError, match="l1 noise"):
        binary().bounded("add_remove", "l1")
    with pytest.raises(NotProvedError, match="l2 noise"):
        binary(norm="l1").bounded("add_remove", "l2")
    with pytest.raises(NotProvedError, match="shares"):
        binary().bounded("add_remove", "l2", shares=[0.5, 0.5])
    people = SCHEMA.with_people("id", 3)
    rows = binary()
    asked = Features(basis_of(["x", "u", "w", "b", "x * u", "y"], people))
    with pytest.raises(NotProvedError, match="people"):
        replace(rows, frame=replace(rows.frame, features=asked)).bounded("add_remove", "l2")


# What is summed


def frame_of(size, rng):
    columns = {"x": rng.uniform(-3, 11, size), "u": rng.uniform(0, 1, size), "w": rng.uniform(-1, 1, size)}
    columns |= {"b": rng.random(size) < 0.4, "y": rng.random(size) < 0.3}
    columns |= {"t": rng.uniform(-1, 1, size), "k": rng.poisson(3, size).astype(float)}
    return pd.DataFrame(columns)


def cells_of(frame, rows):
    return {name: frame[name].to_numpy() for name in rows.columns}


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


@pytest.mark.parametrize("name", mostly(BOTH, "logit with products", "logit, L1", "least squares", "Poisson"))
@settings(max_examples=15, deadline=None)
@given(cells=st.lists(ROWS, min_size=1, max_size=5))
def test_any_cells_stay_in_the_set_and_add_up(name, cells):
    rows = BOTH[name](scale=0.7)
    raw = {one: np.empty(len(cells), dtype=object) for one in rows.columns}
    for one, column in raw.items():
        column[:] = [row[one] for row in cells]
    encoded, _ = rows.frame.features.encode(raw)
    integers = rows.integers(encoded)
    alone = [added_alone(rows, integers, place) for place in range(len(cells))]
    assert rows.add(Batch(raw, len(cells)))[0].tolist() == sum(alone).tolist()
    for neighbors in NEIGHBORS:
        assert share_of_bound(rows, alone, neighbors) <= 1


# Order, cuts, strides and threads


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


@pytest.mark.parametrize("name", mostly(ROUNDS, "logit with products", "logit with products, L1", "Poisson"))
def test_sums_do_not_depend_on_order_cuts_and_threads(name):
    rng = np.random.default_rng(12)
    rows = ROUNDS[name](rng=rng, scale=0.5)
    frame = frame_of(70_001, rng)
    right = exact_sums(rows, open_source(frame), threads=1)
    shuffled = frame.sample(frac=1, random_state=1)
    assert exact_sums(rows, open_source(shuffled), threads=2) == right
    for threads, chunk in [(1, 9973), (3, 32_768), (2, 4097)]:
        assert exact_sums(rows, open_source(frame), threads=threads, chunk_rows=chunk) == right
    strided = pd.concat([frame, frame]).sort_index(kind="stable").iloc[::2]
    assert exact_sums(rows, open_source(strided), threads=1) == right
    gone = frame.drop(index=777)
    one = summed(rows, frame.iloc[[777]]).tolist()
    assert [a + b for a, b in zip(exact_sums(rows, open_source(gone)), one, strict=True)] == right


def test_data_sets_side_by_side_are_summed_apart():
    rng = np.random.default_rng(13)
    rows, frame = binary(meat=0.2), frame_of(3 * 5000, rng)
    found = rows.add(Batch(cells_of(frame, rows), len(frame), sets=3))
    parts = [summed(rows, frame.iloc[5000 * place : 5000 * (place + 1)]) for place in range(3)]
    np.testing.assert_array_equal(found, parts)


def test_sums_at_the_edge_of_the_floats_are_exact():
    """Every product is 2^38 here, and a batch of them adds up to 2^53."""
    asked = Features(basis_of(["w"], SCHEMA))
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
