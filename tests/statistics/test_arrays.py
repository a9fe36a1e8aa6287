"""Symmetric matrices: triangles, and quadratic forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpinfer.statistics.arrays import inverse_form


def stacked(width, count, seed, *, spread=1.0):
    """Positive definite matrices (N, k, k) of scales that differ, and vectors (N, k)."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(count, width, width + 2)) * np.exp(spread * rng.normal(size=(count, width, 1)))
    return root @ np.swapaxes(root, 1, 2), rng.normal(size=(count, width))


def cells_first(matrix, vector):
    return np.ascontiguousarray(np.moveaxis(matrix, 0, -1)), np.ascontiguousarray(vector.T)


@given(st.integers(1, 9), st.integers(1, 40), st.integers(0, 10_000))
def test_it_is_the_form_of_dense_linear_algebra(width, count, seed):
    matrix, vector = stacked(width, count, seed)
    right = np.einsum("ni,ni->n", vector, np.linalg.solve(matrix, vector[..., None])[..., 0])
    assert inverse_form(*cells_first(matrix, vector)) == pytest.approx(right, rel=1e-7)


def test_only_the_lower_triangle_is_read():
    matrix, vector = stacked(5, 20, 1)
    right = inverse_form(*cells_first(matrix, vector))
    matrix[:, *np.triu_indices(5, 1)] = np.nan
    assert np.array_equal(inverse_form(*cells_first(matrix, vector)), right)


def test_the_inputs_serve_as_workspace():
    matrix, vector = cells_first(*stacked(3, 4, 2))
    before = matrix.copy(), vector.copy()
    inverse_form(matrix, vector)
    assert not np.array_equal(matrix, before[0])
    assert not np.array_equal(vector, before[1])


def test_matrices_that_are_not_positive_definite_give_nan_alone():
    matrix, vector = stacked(3, 5, 3)
    matrix[1] = np.diag([1.0, -1.0, 1.0])
    matrix[2] = 0.0
    matrix[3, 2, 2] = np.nan
    found = inverse_form(*cells_first(matrix, vector))
    assert np.isnan(found).tolist() == [False, True, True, True, False]


def test_the_form_of_nothing_is_zero():
    assert inverse_form(np.empty((0, 0, 3)), np.empty((0, 3))).tolist() == [0.0, 0.0, 0.0]
    assert inverse_form(np.empty((2, 2, 0)), np.empty((2, 0))).shape == (0,)


def test_scales_far_apart_do_not_matter():
    matrix = np.diag([1e-12, 1.0, 1e12])[None]
    vector = np.array([[1e-6, 1.0, 1e6]])
    assert inverse_form(*cells_first(matrix, vector)) == pytest.approx([3.0])
