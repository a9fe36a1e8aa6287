"""The noise of an exponential family's sums pays for every neighbour: exact arithmetic on the noise-free integers.

Sums add over rows, so what one unit does to them is seen on single rows and pairs of rows alone.
"""

from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.kernel.sources import open_source
from dpinfer.privacy.units import NEIGHBORS
from tests.families.drawn import COLUMNS, KINDS, SCHEMA
from tests.sum_privacy import allowed, frame_of, keeping_schema, loss, sums_of

CONSTANTS = (False, 0, 3, 7, 0.0, 2.0, 5.0, 8.0, 0.1, 0.5, "b")
KEEPING = keeping_schema(COLUMNS, CONSTANTS)
PRICES = [dpi.ZCDP(0.37), dpi.GDP(1.3), dpi.ApproxDP(1.0, 1e-6), dpi.PureDP(0.7), dpi.PureDP(0.1)]
NAN, INF = float("nan"), float("inf")
WILD = [NAN, INF, -INF, None, "oops", "2", b"x", 1e308, -1e308, 10**400, True, pd.NaT, object]


@cache
def measured(kind, price, neighbors, keeping):
    return KINDS[kind].measurement(price, schema=KEEPING if keeping else SCHEMA, neighbors=neighbors)


def cells_of(name):
    """Values inside, at and beyond the bounds, and impossible ones."""
    column = COLUMNS[name]
    if name == "g":
        inside = st.sampled_from(["a", "b", "c"])
    elif name == "b":
        inside = st.booleans()
    elif isinstance(column, dpi.Integer):
        inside = st.integers(column.lower, column.upper)
    else:
        inside = st.one_of(st.sampled_from([column.lower, column.upper]), st.floats(column.lower, column.upper))
    return st.one_of(inside, inside, st.sampled_from(WILD))


ROWS = st.fixed_dictionaries({name: cells_of(name) for name in COLUMNS})


@settings(max_examples=150)
@given(st.sampled_from(sorted(KINDS)), ROWS, ROWS, st.sampled_from(PRICES), st.sampled_from(NEIGHBORS), st.booleans())
def test_the_scales_pay_for_every_change(kind, first, second, price, neighbors, keeping):
    measurement = measured(kind, price, neighbors, keeping)
    change = sums_of(measurement, first)
    if neighbors == "replace_one":
        change = [a - b for a, b in zip(change, sums_of(measurement, second), strict=True)]
    assert loss(change, measurement.law) <= allowed(measurement)


def lattice(measurement):
    """Rows on a lattice of the columns that are read, the bounds included: fine where there is one column."""
    choices = {name: [column.levels[0] if name == "g" else 0] for name, column in COLUMNS.items()}
    points = {1: 801, 2: 31, 3: 13, 4: 7}[len(measurement.rows.columns)]
    for name in measurement.rows.columns:
        column = COLUMNS[name]
        if isinstance(column, dpi.Integer):
            choices[name] = list(range(column.lower, column.upper + 1))
        elif isinstance(column, dpi.Real):
            choices[name] = np.linspace(column.lower, column.upper, points).tolist()
        else:
            choices[name] = [False, True] if name == "b" else list(column.levels)
    return frame_of(*(dict(zip(choices, row, strict=True)) for row in product(*choices.values())))


def vectors_of(measurement, frame):
    """What every row adds to the integers that are released, (n, m)."""
    cells, encoded = measurement.rows.encode(
        open_source(frame).read(measurement.rows.columns, 0, len(frame)), len(frame)
    )
    features = np.ones((1, len(frame))) if encoded is None else encoded
    vectors = np.zeros((len(frame), measurement.rows.size + 1, len(features)))
    vectors[np.arange(len(frame)), cells] = features.T
    return vectors[:, :-1].reshape(len(frame), -1) * measurement.multiplier


def attained(kind, price, neighbors, keeping):
    """Largest loss over pairs of lattice rows (and no row), as a share of what the price allows."""
    measurement = measured(kind, price, neighbors, keeping)
    scales = np.array(measurement.law.scales)
    power = 2 if measurement.law.family == "gaussian" else 1
    vectors = np.unique(vectors_of(measurement, lattice(measurement)), axis=0)
    if not keeping:
        vectors = np.unique(np.vstack([vectors, np.zeros(vectors.shape[1])]), axis=0)
    assert np.ptp(vectors[:, scales == 0], axis=0).sum() == 0
    moved = vectors[:, scales > 0] / scales[scales > 0]
    if neighbors == "add_remove":
        largest = (np.abs(moved) ** power).sum(axis=1).max()
    else:
        largest = max((np.abs(moved - one) ** power).sum(axis=1).max() for one in moved)
    return float(largest / power / float(allowed(measurement)))


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_pair_of_rows_breaks_the_bound_and_some_nearly_attain_it(kind, neighbors):
    """Of one column the bound is attained; of several, replaced rows are bounded by a box that no pair fills."""
    for price, keeping in ((dpi.ZCDP(0.2), True), (dpi.PureDP(0.5), False)):
        share = attained(kind, price, neighbors, keeping)
        assert share <= 1 + 1e-12
        least = 0.4 if neighbors == "replace_one" and "normals" in kind else 0.98
        assert share >= least, f"{kind} at {price}: only {share:.3f} of the price is used"


def test_only_the_number_of_rows_that_no_row_can_leave_is_exact():
    cases = {
        ("normal", "replace_one", True): ("1",),
        ("two normals", "replace_one", True): ("1",),
        ("own", "replace_one", True): ("1",),
        ("normal", "replace_one", False): (),
        ("normal", "add_remove", True): (),
        ("normal where", "replace_one", True): (),
        ("three normals where", "replace_one", True): (),
        ("categorical", "replace_one", True): (),
    }
    for (kind, neighbors, keeping), exact in cases.items():
        assert measured(kind, dpi.ZCDP(0.37), neighbors, keeping).exact == exact, kind


@pytest.mark.parametrize(
    ("kind", "neighbors", "laplace", "gaussian"),
    [
        ("poisson", "add_remove", 8**0.5, 2**0.5),
        ("normal", "add_remove", 18**0.5, 3**0.5),
        ("own", "add_remove", 18**0.5, 3**0.5),
        ("exponential", "replace_one", 8**0.5, 2.0),
    ],
)
def test_laplace_noise_is_set_beside_gaussian_noise(kind, neighbors, laplace, gaussian):
    """With d sums in [-1, 1] Laplace noise has scale d at epsilon 1, Gaussian noise sqrt d at rho 1/2."""
    text = KINDS[kind].explain(dpi.ZCDP(0.1), schema=KEEPING, neighbors=neighbors)
    line = next(line for line in text.splitlines() if "Laplace" in line)
    told = [float(part.split()[-1]) for part in line.split(": ")[1].split(", ")]
    assert told == pytest.approx([laplace, gaussian], rel=1e-3)
    assert "0.1-zCDP" in text
