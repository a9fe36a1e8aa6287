"""Bins of densities: edges of Real and Integer columns, the grid, and what its stages may be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpinfer.distributions.density import CELLS, FINE, BinGrid, read_edges
from dpinfer.errors import OptionError, SchemaError, UnknownColumnError
from dpinfer.schema import Boolean, Integer, Real, Schema

SCHEMA = Schema(x=Real(-2, 6), k=Integer(0, 60), few=Integer(3, 5), many=Integer(-50_000, 50_000), b=Boolean())


def test_equal_bins_of_a_real_column():
    assert BinGrid(SCHEMA, "x", 4).grid.tolist() == [-2, 0, 2, 4, 6]
    assert BinGrid(SCHEMA, "x", (-1.5, 0, 5)).grid.tolist() == [-1.5, 0, 5]


@given(st.integers(1, 61))
def test_bins_of_whole_numbers_are_as_equal_as_can_be(bins):
    edges = BinGrid(SCHEMA, "k", bins).grid
    assert len(edges) == bins + 1
    assert (edges[0], edges[-1]) == (-0.5, 60.5)
    widths = np.diff(edges)
    assert (widths == np.rint(widths)).all()
    assert widths.max() - widths.min() <= 1


def test_given_edges_of_whole_numbers_hold_what_they_hold_in_numpy():
    edges = [0, 10, 12.5, 60]
    assert BinGrid(SCHEMA, "k", edges).grid.tolist() == [-0.5, 9.5, 12.5, 60.5]
    values = np.arange(61.0)
    cells, _ = BinGrid(SCHEMA, "k", edges).stage(1).encode({"k": values}, 61)
    np.testing.assert_array_equal(np.bincount(cells), np.histogram(values, edges)[0])


@pytest.mark.parametrize(
    ("column", "bins", "error"),
    [
        ("k", 62, OptionError),
        ("k", (0, 0.3, 0.6, 9), OptionError),
        ("k", (-1, 9), OptionError),
        ("x", (0, 7), OptionError),
        ("x", (0, 0), OptionError),
        ("x", (0, np.inf), OptionError),
        ("b", 3, SchemaError),
        ("z", 3, UnknownColumnError),
    ],
)
def test_bins_that_do_not_fit_are_refused(column, bins, error):
    with pytest.raises(error):
        _ = BinGrid(SCHEMA, column, bins).grid


@pytest.mark.parametrize("bins", ["10", "", 0, -1, True, 5000, 2.5, None, [1], ["a", "b"], [[0, 1], [2, 3]], {"a": 1}])
def test_what_is_no_bins_is_refused(bins):
    with pytest.raises(OptionError, match="bins"):
        read_edges(bins)


def test_bins_are_read():
    assert read_edges("auto") == "auto"
    assert read_edges(np.int64(7)) == 7
    assert read_edges(np.array([0, 1, 2])) == (0.0, 1.0, 2.0)


def test_the_grid():
    assert BinGrid(SCHEMA, "x").size == CELLS
    assert BinGrid(SCHEMA, "k").grid.tolist() == [place - 0.5 for place in range(62)]
    many = BinGrid(SCHEMA, "many").grid
    assert (np.diff(many)[:-1] == 27).all()
    assert many[-1] == 50_000.5
    assert 0 < many[-1] - many[-2] <= 27


@pytest.mark.parametrize("column", ["x", "k", "few", "many"])
def test_candidates_are_coarsenings_from_one_bin_on(column):
    rows = BinGrid(SCHEMA, column)
    for fine in FINE:
        if -(-rows.size // fine) < 2:
            continue
        widths = rows.widths(fine)
        counts = [len(rows.edges(width)) - 1 for width in widths]
        assert counts[0] == 1
        assert counts == sorted(set(counts))
        assert all(width % fine == 0 for width in widths[1:])
        edges = set(rows.edges(fine).tolist())
        for width in widths:
            assert set(rows.edges(width).tolist()) <= edges
            if column == "x":
                assert np.ptp(np.diff(rows.edges(width))) < 1e-9


@given(st.floats(-1e12, 1e12), st.floats(1e-3, 1e9))
def test_the_first_stage_has_bins_for_any_noisy_number_of_rows(nobs, noise):
    for column in ("x", "k", "few", "many"):
        rows = BinGrid(SCHEMA, column)
        fine = rows.fine_width(nobs, noise)
        assert fine in FINE
        assert -(-rows.size // fine) <= max(12, 6 * max(nobs, 0) ** 0.5, 1)


def test_more_rows_make_the_first_stage_finer_and_noise_makes_it_coarser():
    rows = BinGrid(SCHEMA, "x")
    assert rows.fine_width(1e3, 5.0) > rows.fine_width(1e5, 5.0) > rows.fine_width(1e7, 5.0)
    assert rows.fine_width(1e5, 5000.0) > rows.fine_width(1e5, 5.0)


def test_what_is_counted_can_be_merged_to_tenths():
    rows = BinGrid(SCHEMA, "x")
    rng = np.random.default_rng(1)
    for n in (3e3, 1e5, 3e6):
        fine = rows.fine_width(n, 3.0)
        cells = rng.multinomial(int(n), np.diff(np.linspace(0, 1, rows.size // fine + 1) ** 2))
        width = rows.bin_width(cells.astype(float), fine, nobs=n, fine_noise=9.0, bin_noise=1.0)
        count = rows.size // width
        assert count > 10
        assert count <= 30 or count % 20 == 0
        assert rows.merged_width(np.full(count, n / count), width, nobs=n, noise=1.0) == rows.size
