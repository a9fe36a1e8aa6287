"""Score and Hessian of a row of a response of several levels: those of the likelihood, in the set that is priced."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from scipy import special, stats

from dpinfer.choice.stages import CHOICES
from dpinfer.errors import NotProvedError, OptionError
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.iterations import Bins, ChoiceFrame, Interpolant, RoundCounts, RoundSum, Term
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.schema import Category, Real, Schema
from dpinfer.schema.basis import build_basis, represent
from dpinfer.schema.expressions import constant_expression
from dpinfer.schema.formula import DesignColumn, compile_formula

LEVELS = ("a", "b", "c", "d")
J = len(LEVELS) - 1
SCHEMA = Schema(x=Real(-2, 2), y=Category(LEVELS))
RIGHT = compile_formula("~ x", SCHEMA).design
LEVEL = DesignColumn("y", "y", constant_expression(1.0), (("y", (0.0, 1.0, 2.0, 3.0)),))
BASIS = build_basis((*RIGHT, LEVEL), SCHEMA)
MAPS = represent(BASIS, (*RIGHT, LEVEL))


def frame_of(name, schema=SCHEMA, norm="l2", scale=1.0, seed=1):
    """A frame in random coordinates, with the coefficients, and the coordinates W'D of each predictor (J, q, 2)."""
    rng, model = np.random.default_rng(seed), CHOICES[name]
    designs = model.designs(len(LEVELS), 2)
    width = designs.shape[1]
    theta = np.concatenate([[-0.9, 0.2, 1.1], [0.7]]) if model.ordered else rng.normal(size=width)
    whiten = scale * (np.eye(width) + 0.3 * rng.normal(size=(width, width)))
    along = np.stack([whiten.T @ one for one in designs])
    rows = np.vstack([*(one @ MAPS[:-1] for one in along), *(theta @ one @ MAPS[:-1] for one in designs), MAPS[-1:]])
    bits = (24,) * len(rows)
    features = Features(build_basis((*RIGHT, LEVEL), schema))
    whole = np.rint(rows * 2**24).astype(np.int64)
    ratio = 0.6 if norm == "l1" else 1.0
    made = ChoiceFrame(features, whole, bits, predictors=J, norm=norm, ratio=ratio, **model.curves_of_predictors)
    return made, theta, designs, whiten


def cells(x, level):
    return {"x": np.asarray(x, dtype=float), "y": np.array(LEVELS)[level]}


def log_chance(name, eta, level):
    if name == "mnlogit":
        return np.append(0.0, eta)[level] - special.logsumexp(np.append(0.0, eta))
    law = stats.norm if name == "ordered-probit" else stats.logistic
    below = np.concatenate([[0.0], law.cdf(eta), [1.0]])
    return np.log(below[level + 1] - below[level])


@pytest.mark.parametrize("name", CHOICES)
def test_score_and_hessian_are_the_derivatives_of_the_log_likelihood(name):
    made, theta, designs, whiten = frame_of(name)
    x, level = np.array([-1.5, -0.2, 0.3, 1.9]), np.arange(4)
    looked = made.look(made.features.encode(cells(x, level))[0])
    found = looked.z.reshape(made.size, made.images, 4)
    assert looked.linear.tolist() == [0.0] * 4 + [1.0] * (4 * (made.images - 1))
    for row in range(4):
        u = np.array([1.0, x[row]])

        def value(theta, u=u, row=row):
            return log_chance(name, np.array([theta @ one @ u for one in designs]), level[row])

        steps = 1e-4 * whiten.T
        slope = [(value(theta + one) - value(theta - one)) / 2e-4 for one in steps]
        np.testing.assert_allclose(found[:, 0, row], slope, atol=2e-5)
        bent = [[(value(theta + one + other) - value(theta + one - other) - value(theta - one + other)
                  + value(theta - one - other)) / 4e-8 for other in steps] for one in steps]  # fmt: skip
        roots = found[:, 1:, row]
        np.testing.assert_allclose(roots @ roots.T, -np.array(bent), atol=2e-4)
        np.testing.assert_allclose(looked.size[row], np.linalg.norm(roots @ roots.T), rtol=1e-9)


@pytest.mark.parametrize("name", CHOICES)
def test_a_row_is_mapped_alike_wherever_it_stands(name):
    made, *_ = frame_of(name)
    rng = np.random.default_rng(2)
    rows = made.features.encode(cells(rng.uniform(-2, 2, 101), rng.integers(0, 4, 101)))[0]
    every = made.look(rows).z.reshape(made.size, made.images, 101)
    order = rng.permutation(101)
    np.testing.assert_array_equal(made.look(rows[:, order]).z.reshape(every.shape), every[:, :, order])
    alone = made.look(np.ascontiguousarray(rows[:, 7:8])).z.reshape(made.size, made.images)
    np.testing.assert_array_equal(alone, every[:, :, 7])


def asked(name, norm, rows, scale, share=0.4):
    """Score, Hessian and products of scores as a last iteration asks for them; prices may be any."""
    schema = SCHEMA if rows == 1 else SCHEMA.with_people("id", rows)
    made, *_ = frame_of(name, schema, norm, scale)
    power = 2 if norm == "l2" else 1
    weight = Interpolant(0.0, 1.0, np.array([0.0, 1.0]), 0.0, 1.0)
    per = rows**power * (made.ratio if norm == "l1" else 1.0)
    return RoundSum(
        made,
        (
            Term("score", "vector", share / 0.8**power, cut=0.8),
            Term("hessian", "matrix", (0.9 - share) / per, weight, of="linear"),
            Term("meat", "outer", 0.1 / 0.5 ** (2 * power), cut=0.5),
        ),
    )


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("persons", [1, 3])
@pytest.mark.parametrize("scale", [0.4, 3.0])
def test_no_neighbours_are_farther_apart_than_is_priced(name, norm, persons, scale):
    summed = asked(name, norm, persons, scale)
    summed.check()
    rng = np.random.default_rng(3)
    count = 60 * persons
    x = np.where(rng.random(count) < 0.5, rng.choice([-2.0, 2.0], count), rng.uniform(-2, 2, count))
    rows = summed.features.encode(cells(x, rng.integers(0, 4, count)))[0]
    owned = np.zeros(persons, dtype=np.int64) if persons > 1 else None
    each = np.array([summed.summed(rows[:, one * persons : (one + 1) * persons], owned) for one in range(60)], float)
    assert (np.abs(each).sum(axis=1) > 0).all(), "nobody is left out"
    weights = summed.usual_weights("add_remove", norm)
    for neighbors in NEIGHBORS:
        weights = summed.usual_weights(neighbors, norm)
        over = each / (summed.pattern(norm) * weights[summed.part_of])
        away = over if neighbors == "add_remove" else (over[:, None] - over[None]).reshape(-1, over.shape[1])
        lengths = np.linalg.norm(away, ord=2 if norm == "l2" else 1, axis=1)
        bound = float(summed.change(weights, neighbors, norm))
        assert lengths.max() <= bound
        assert lengths.max() >= 0.3 * bound


def test_a_person_adds_what_the_rows_add_and_is_counted_once():
    summed = asked("mnlogit", "l2", 3, 0.01)
    rows = summed.features.encode(cells([-1.0, 0.5, 2.0], np.array([0, 2, 3])))[0]
    person, single = summed.summed(rows, np.zeros(3, dtype=np.int64)), asked("mnlogit", "l2", 1, 0.01)
    alone = sum(single.summed(rows[:, [one]]) for one in range(3))
    size = summed.frame.size
    np.testing.assert_array_equal(person[:size], alone[:size])  # scores that are not cut
    within = slice(size, size + size * (size + 1) // 2)
    np.testing.assert_array_equal(person[within], alone[within])
    term = Term("score", "vector", 1.0, cut=2.0**14)
    places = (Bins("length", "person", np.array([1e-3, 1.0]), term=term), Bins("size", "size", np.array([1e-6, 1.0])))
    assert RoundCounts(summed.frame, places).summed(rows, np.zeros(3, dtype=np.int64)).sum() == 1 + 3
    assert RoundCounts(summed.frame, places).summed(rows[:, :0]).sum() == 0


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_whether_a_person_is_kept_does_not_depend_on_the_order_of_rows(norm):
    """Sizes of rows are added up exactly: at the dearest price at which one order is kept, all orders are."""
    summed, owned = asked("mnlogit", norm, 3, 3.0), np.zeros(3, dtype=np.int64)
    rng, orders = np.random.default_rng(5), [list(one) for one in permutations(range(3))]
    for _ in range(10):
        rows = summed.features.encode(cells(rng.uniform(-2, 2, 3), rng.integers(0, 4, 3)))[0]

        def kept(price, order, rows=rows):
            terms = replace(summed.terms[1], price=price), replace(summed.terms[0], price=1e-30)
            return bool(replace(summed, terms=terms).summed(rows[:, order], owned).any())

        low, high = 1e-6, 1e6
        while low < (middle := low + (high - low) / 2) < high:
            low, high = (middle, high) if kept(middle, orders[0]) else (low, middle)
        assert [kept(low, order) for order in orders] == [True] * 6
        assert [kept(high, order) for order in orders] == [False] * 6


@pytest.mark.parametrize("persons", [1, 3])
def test_sums_of_many_roots_are_exact_whatever_they_are_priced(persons):
    """Of 64 levels a row has 64 roots, each of which may be as long as a whole number can be."""
    made, *_ = frame_of("mnlogit", SCHEMA if persons == 1 else SCHEMA.with_people("id", persons))
    q, many = made.size, 63
    along = np.concatenate([made.maps[:q] * 2] * many)
    wide = replace(made, maps=np.vstack([along, *[made.maps[-2:-1] * 0] * many, made.maps[-1:]]),
                   bits=(24,) * (many * (q + 1) + 1), predictors=many)  # fmt: skip
    far = Interpolant(0.0, 1.0, np.array([0.0, 1e6]), 0.0, 1e6)
    terms = (Term("hessian", "matrix", 1e-30, far, of="linear"), Term("score", "vector", 1e-30, cut=0.5))
    summed = RoundSum(wide, terms if persons > 1 else terms[:1])
    summed.check()
    size = summed.batch_rows // persons * persons
    rng = np.random.default_rng(2)
    raw = cells(rng.uniform(1.9, 2, size), rng.integers(0, 4, size))
    owned = np.repeat(np.arange(size // persons), persons)
    rows = summed.features.encode(raw)[0]
    whole = summed.integers(rows, owned if persons > 1 else None)[0].astype(np.int64)
    first, second = np.triu_indices(q)
    wanted = [int((whole[i] * whole[j]).sum()) for i, j in zip(first, second, strict=True)]  # below 2^60
    assert max(wanted) > 2**50
    found = summed.add(Batch(raw, size, persons=owned if persons > 1 else None))[0]
    assert found[: len(wanted)].tolist() == wanted
    assert np.abs(found).max() <= 2**53
    many_rows = replace(wide, features=Features(build_basis((*RIGHT, LEVEL), SCHEMA.with_people("id", 505))))
    with pytest.raises(NotProvedError, match="at most 504 rows"):
        replace(summed, frame=many_rows).check()


def test_what_is_no_frame_is_refused():
    made, *_ = frame_of("mnlogit")
    made.check()
    for wrong in (
        {"predictors": 0},
        {"predictors": 2},
        {"predictors": 1.0},
        {"mean": None},
        {"density": made.mean},
        {"lift": made.mean},
        {"weighted": True},
    ):
        with pytest.raises(OptionError):
            replace(made, **wrong).check()


def test_rows_beyond_the_tables_add_finite_numbers():
    for name in CHOICES:
        made, *_ = frame_of(name, scale=1.0)
        far = replace(made, maps=np.vstack([made.maps[: -J - 1], made.maps[-J - 1 : -1] * 32, made.maps[-1:]]))
        rows = far.features.encode(cells([-2.0, 2.0, -2.0, 2.0], np.array([0, 3, 3, 0])))[0]
        assert np.isfinite(far.look(rows).z).all()
        assert np.abs(far.look(rows).weight).max() <= 1
