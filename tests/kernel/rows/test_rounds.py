"""Rounds of Newton's method: the set that rows are forced into, what it costs, and exact sums whatever the order."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.errors import NotProvedError
from dpinfer.kernel.price import price_stage
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.iterations import LARGEST, SLACK, Interpolant, RoundFrame, RoundSum, Term
from dpinfer.kernel.stage import Context, Stage, Sum
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.regression.design import columns_of
from dpinfer.schema.basis import basis_of
from dpinfer.schema.grid import UNIT
from tests.kernel.rows.round_bounds import (
    added_alone,
    exact_price,
    price_of,
    searched,
    share_of_bound,
    squared_change,
)
from tests.kernel.rows.round_cases import (
    ROUNDS,
    SCHEMA,
    WRONG,
    binary,
    features,
    flat,
    integer_rows,
    maps_of,
)

BOTH = {**ROUNDS, **WRONG}
SCALES = [pytest.param(0.05, marks=pytest.mark.slow), 0.4, pytest.param(4.0, marks=pytest.mark.slow)]


# The set, and its price


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("scale", SCALES)
def test_no_neighbours_are_farther_apart_than_is_paid_for(name, scale):
    """Of rows that climb to a large price; and where no row pays more than 1, none is zeroed."""
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
    cheap = replace(rows, terms=tuple(replace(term, price=term.price / 1024) for term in rows.terms))
    zeroed = [(free != forced).any() for free, forced in zip(cheap.integers(found), integers, strict=True)]
    assert any(zeroed) == (name in WRONG and scale > 0.05)


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
            None if rng.random() < 0.2 else anything(),
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
    asked = Features(basis_of(("w", "t"), SCHEMA))
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


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("people", [1, 3])
def test_noise_of_a_round_is_that_of_its_bounds(neighbors, people):
    """One unit of scaled score has noise of its own bound; a Hessian 0.3003 of that, and less off its diagonal."""
    rows, schema = binary(size=3), SCHEMA if people == 1 else SCHEMA.with_people("id", people)
    basis = replace(rows.frame.features.basis, schema=schema)
    rows = replace(rows, frame=replace(rows.frame, features=Features(basis)))
    priced = price_stage(Stage(Sum(rows)), dpi.ZCDP(0.5), Context(schema, neighbors, dpi.ZCDP(0.5)))
    noise = np.array(priced.law.scales) * np.array(priced.steps) / people
    signed = 1 if neighbors == "add_remove" else 2
    assert priced.names[2:5] == ("score 3", "hessian 1 * 1", "hessian 1 * 2")
    np.testing.assert_allclose(noise[:3], signed, rtol=3e-4)
    np.testing.assert_allclose(noise[[3, 6, 8]], 0.30029 * signed**0.5, rtol=3e-4)
    np.testing.assert_allclose(noise[[4, 5, 7]], 0.30029 * signed**0.5 / 2**0.5, rtol=3e-4)


def test_what_is_not_proved_is_refused():
    with pytest.raises(NotProvedError, match="l1 noise"):
        binary().bounded("add_remove", "l1")
    with pytest.raises(NotProvedError, match="l2 noise"):
        binary(norm="l1").bounded("add_remove", "l2")
    with pytest.raises(NotProvedError, match="shares"):
        binary().bounded("add_remove", "l2", shares=[0.5, 0.5])


def test_products_without_a_cut_are_priced_row_by_row_beside_a_cut():
    """Rows p and -p of a person add to nothing, and their products to 2 p p'."""
    schema = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Real(-1, 1)).with_people("id", max_rows=2)
    columns = columns_of(schema, "y ~ x", None, None, None, None, None)
    frame = columns.frame(0.7 * np.eye(2), np.zeros(2), (0.0, 1.0), norm="l2")
    summed = RoundSum(frame, (Term("score", "vector", 0.5, cut=1.0), Term("meat", "outer", 0.5)))
    weights = summed.usual_weights("add_remove", "l2")
    for size in (0.2, 0.6, 1.0):
        cells = {"x": np.array([1.0, 1.0]), "y": np.array([size, -size])}
        added = summed.add(Batch(cells, 2, sets=1, persons=np.array([0, 0])))[0] / summed.units
        moved = added / (weights[summed.part_of] * summed.pattern("l2") / summed.units)
        assert np.linalg.norm(moved) <= float(summed.change(weights, "add_remove", "l2"))
        assert size > 0.2 or added.any()
