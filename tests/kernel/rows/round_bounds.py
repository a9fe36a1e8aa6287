"""Rounds between neighbours: adversarial rows, what they pay, and changes against bounds, in exact fractions."""

from fractions import Fraction

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from dpinfer.schema.grid import UNIT
from tests.kernel.rows.round_cases import integer_rows

NAN, INF = float("nan"), float("inf")
SQUARED = ("matrix", "outer")
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


def frame_of(size, rng):
    columns = {"x": rng.uniform(-3, 11, size), "u": rng.uniform(0, 1, size), "w": rng.uniform(-1, 1, size)}
    columns |= {"b": rng.random(size) < 0.4, "y": rng.random(size) < 0.3}
    columns |= {"t": rng.uniform(-1, 1, size), "k": rng.poisson(3, size).astype(float)}
    return pd.DataFrame(columns)


def cells_of(frame, rows):
    return {name: frame[name].to_numpy() for name in rows.columns}


def exact_price(rows, integers, place):
    """What the sizes of a row pay, in exact fractions."""
    total = Fraction(0)
    for each, (term, one) in enumerate(zip(rows.terms, integers, strict=True)):
        numbers, unit = [int(entry) for entry in one[:, place]], int(rows._unit(each))
        absolute, squared = Fraction(sum(map(abs, numbers)), unit), Fraction(sum(n * n for n in numbers), unit**2)
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
    for place, (term, one) in enumerate(zip(rows.terms, integers, strict=True)):
        unit = rows._unit(place)
        absolute, squared = np.abs(one).sum(axis=0) / unit, (one * one).sum(axis=0) / unit**2
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
