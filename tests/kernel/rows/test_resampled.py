"""Integer rows of the bootstrap: features or their products, named replicate by replicate."""

import numpy as np
import pytest

from dpinfer.kernel.rows.products import ReplicateSum
from dpinfer.resampling.bootstrap import BootstrapPlan
from dpinfer.schema import Boolean, Category, Integer, Real, Schema
from dpinfer.schema.grid import UNIT
from tests.kernel.rows.batches import objects

SCHEMA = Schema(
    x=Real(-4, 12),
    u=Real(0, 1, missing=0.5, impossible=0),
    k=Integer(0, 16),
    b=Boolean(missing=False, impossible=True),
    g=Category(["a", "b", "c"]),
)


def rows_of(columns=(), statistic="mean", *, replicates=3, **options):
    return BootstrapPlan(SCHEMA, tuple(columns), statistic, replicates, **options).rows


def encode(rows, **cells):
    """Encode columns of cells and return whole Python numbers (m, d)."""
    encoded = rows.encode({name: objects(values) for name, values in cells.items()})
    assert encoded.dtype == np.float64
    assert np.array_equal(encoded, np.rint(encoded))
    return encoded.astype(np.int64).astype(object).T


def test_features_start_with_the_constant():
    rows = rows_of(["x", "k"])
    assert rows.width == len(rows.labels) == 3
    assert rows.unit == UNIT
    assert rows.columns == ("k", "x")
    found = encode(rows, x=[-4, 12, 4, 1e9], k=[0, 16, 8, -5])
    expected = [[1, -1, -1], [1, 1, 1], [1, 0, 0], [1, 1, -1]]
    assert found.tolist() == [[UNIT * one for one in row] for row in expected]


def test_products_are_the_upper_triangle_of_the_features():
    rows = rows_of(statistic="x ~ k")
    assert rows.width == 6
    assert rows.unit == UNIT**2
    features = np.array([[1, -1, 1], [1, 0, -1], [1, 1, 0.5]])  # the constant, k, x
    found = encode(rows, x=[12, -4, 8], k=[0, 8, 16])
    upper = np.triu_indices(3)
    assert found.tolist() == [[round(one * UNIT**2) for one in np.outer(z, z)[upper]] for z in features]
    one, k, x = rows.features.basis.names
    pairs = [(one, one), (one, k), (one, x), (k, k), (k, x), (x, x)]
    assert rows.labels == tuple(f"{first} * {second}" for first, second in pairs)


def test_names_go_replicate_by_replicate():
    rows = rows_of(["x"], replicates=2)
    first, second = rows.labels
    assert rows.names == tuple(f"{label} | replicate {b}" for b in (1, 2) for label in (first, second))
    assert first == "1"
    wide = rows_of(statistic="x ~ g * k + u", replicates=7)
    assert len(wide.names) == len(set(wide.names)) == 7 * wide.width
    assert wide.width == wide.features.basis.width * (wide.features.basis.width + 1) // 2


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf"), "text", -float("inf")])
def test_rows_without_a_value_are_zero_also_in_the_constant(bad):
    for rows in (rows_of(["x"]), rows_of(statistic="x ~ b")):
        cells = {"x": [1.0, bad, 2.0]} | ({"b": [True, True, False]} if "b" in rows.columns else {})
        found = encode(rows, **cells)
        assert set(found[1]) == {0}
        assert found[0, 0] == found[2, 0] == rows.unit
        assert not rows.keeps_every_row


def test_conditions_make_rows_zero():
    rows = rows_of(["x"], where="k > 3")
    found = encode(rows, x=[1.0, 1.0, 1.0], k=[3, 4, None])
    assert [row[0] for row in found] == [0, UNIT, 0]
    assert rows.columns == ("k", "x")


def test_policies_keep_every_row():
    for rows in (rows_of(["u"]), rows_of(statistic="u ~ b")):
        assert rows.keeps_every_row
        cells = {"u": [None, "text", 2.0]} | ({"b": ["no idea", None, 1]} if "b" in rows.columns else {})
        found = encode(rows, **cells)
        assert [row[0] for row in found] == [rows.unit] * 3
    assert not rows_of(["u"], where="u > 0.5").keeps_every_row
    assert not rows_of(["u", "x"]).keeps_every_row


def test_weights_and_replicates_are_stated():
    rows = rows_of(["x"], replicates=4, weights="public", seed=17)
    assert isinstance(rows, ReplicateSum)
    assert (rows.replicates, rows.weights, rows.seed) == (4, "public", 17)
