"""Influence value of a row on a doubly robust effect: the formula, in the set that is priced."""

from fractions import Fraction

import numpy as np
import pytest

from dpinfer.errors import OptionError
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.iterations import EffectFrame, Interpolant, RoundSum, Term
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.schema import Boolean, Real, Schema
from dpinfer.schema.basis import basis_of

SCHEMA = Schema(y=Real(-1, 1), x=Real(-1, 1), t=Boolean())
END, TRIM = 3.0, 1 / (1 + np.exp(3.0))
GRID = np.linspace(-10, 10, 2**14 + 1)
MEAN = Interpolant(-10.0, 10.0, 1 / (1 + np.exp(-GRID)), float(1 / (1 + np.exp(10.0))), float(1 / (1 + np.exp(-10.0))))
ODDS = Interpolant(-END, END, np.exp(-np.linspace(-END, END, 2**14 + 1)), float(np.exp(END)), float(np.exp(-END)))

ETA, FIRST, SECOND = (0.3, 2.0), (0.1, 0.4), (-0.2, 0.3)
ONE, OTHER, SLOPE = (0.2, -0.1), (0.1, 0.3), (0.05, -0.2)
LINES = (ETA, (None,), (None,), FIRST, SECOND, ONE, OTHER, SLOPE)


def frame_of(norm="l2", **options):
    """A frame with one coordinate, the covariate; features are 1, y, x and the arm."""

    def line(a, b):
        return [a, 0.0, b, 0.0]

    maps = [line(0.2, 0.7), line(*ETA), [0, 1, 0, 0], [0, 0, 0, 1], *(line(*one) for one in LINES[3:])]
    whole = np.rint(np.array(maps, dtype=float) * 2**24).astype(np.int64)
    features = Features(basis_of(("y", "x", "t"), SCHEMA))
    given = {"labels": 6, "cap": float(1 / TRIM), "norm": norm, "ratio": 1.0} | options
    return EffectFrame(features, whole, (24,) * len(whole), MEAN, ODDS, **given)


def cells(n=200, seed=1):
    rng = np.random.default_rng(seed)
    return {"y": rng.uniform(-1, 1, n), "x": rng.uniform(-1, 1, n), "t": rng.random(n) < 0.4}


def test_a_row_has_its_influence_value_and_the_derivatives_of_it():
    raw, made = cells(), frame_of()
    looked = made.look(made.features.encode(raw)[0])
    x, y, treated = raw["x"], raw["y"], raw["t"]
    eta, first, second, one, other, slope = (a + b * x for a, b in (ETA, FIRST, SECOND, ONE, OTHER, SLOPE))
    chance, trimmed = 1 / (1 + np.exp(-eta)), 1 / (1 + np.exp(-np.clip(eta, -END, END)))
    weight = np.where(treated, 1 / trimmed + one, -1 / (1 - trimmed) + other)
    left = y - np.where(treated, first, second)
    value = first - second + weight * left + slope * (treated - chance)
    np.testing.assert_allclose(looked.residual, value, atol=2e-4)
    np.testing.assert_allclose(looked.difference, treated - chance, atol=1e-4)
    odds = np.where(treated, (1 - trimmed) / trimmed, trimmed / (1 - trimmed))
    np.testing.assert_allclose(looked.labels[0], -left * odds, atol=2e-4)
    np.testing.assert_allclose(looked.labels[1], 1 - treated / trimmed, atol=2e-4)
    np.testing.assert_allclose(looked.labels[2], (1 - treated) / (1 - trimmed) - 1, atol=2e-4)


def test_a_row_is_mapped_alike_wherever_it_stands():
    made = frame_of()
    rows = made.features.encode(cells())[0]
    every, order = made.look(rows), np.random.default_rng(2).permutation(200)
    np.testing.assert_array_equal(made.look(rows[:, order]).residual, every.residual[order])
    np.testing.assert_array_equal(made.look(np.ascontiguousarray(rows[:, 7:8])).labels[:, 0], every.labels[:, 7])


def asked(norm):
    bound = 30.0
    line = Interpolant(-bound, bound, np.array([-1.0, 1.0]), -1.0, 1.0)
    square = Interpolant(-bound, bound, np.linspace(-1, 1, 257) ** 2, 1.0, 1.0)
    return RoundSum(frame_of(norm), (Term("sum", "number", 0.7, line), Term("square", "mass", 0.3, square)))


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_no_row_moves_the_sums_by_more_than_is_priced(norm, neighbors):
    rows = asked(norm)
    rows.check()
    weights = rows.usual_weights(neighbors, norm)
    bounded = rows.bounded(neighbors, norm, weights=weights.tolist())
    encoded = rows.features.encode(cells())[0]
    each = np.concatenate(rows.integers(encoded)) / bounded.weights[:, None]
    assert (np.abs(each) > 0).any()
    apart = each if neighbors == "add_remove" else each[:, :, None] - each[:, None, :]
    length = np.linalg.norm(apart, axis=0) if norm == "l2" else np.abs(apart).sum(axis=0)
    assert Fraction(float(length.max())) <= bounded.bound


@pytest.mark.parametrize("options", [{"labels": 5}, {"cap": 0.5}, {"cap": 3}, {"weighted": True}, {"mean": None}])
def test_what_is_no_frame_is_refused(options):
    given = dict(options)
    made = frame_of(**{name: one for name, one in given.items() if name != "mean"})
    if "mean" in given:
        made = EffectFrame(made.features, made.maps, made.bits, None, ODDS, labels=6, cap=20.0)
    with pytest.raises(OptionError):
        made.check()
