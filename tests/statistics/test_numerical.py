"""Roots and integrals of many problems at once."""

import numpy as np
from scipy import integrate

from dpinfer.statistics.numerical import composite_nodes, outermost_crossing


def test_radius_of_balls_of_many_sizes():
    radius = np.array([[0.0, 0.3, 1.0], [7.0, 1e3, 1e9]])
    found = outermost_crossing(lambda distance: distance <= radius, shape=radius.shape)
    np.testing.assert_allclose(found[0], [0.0, 0.3, 1.0], atol=1e-9)
    np.testing.assert_allclose(found[1, :2], [7.0, 1e3], rtol=1e-9)
    assert np.isinf(found[1, 2])
    assert np.all(found[0] >= radius[0])


def test_a_set_in_two_pieces_is_covered_to_its_outermost_edge():
    found = outermost_crossing(lambda d: (d <= 1) | ((d >= 3) & (d <= 40)), shape=(1,))
    np.testing.assert_allclose(found, [40.0], rtol=1e-9)


def test_panels_integrate_smooth_functions_and_empty_panels_count_nothing():
    breaks = np.array([[0.0, 0.5, 0.5, 2.0], [-1.0, 0.0, 1.0, 1.0]])
    nodes, weights = composite_nodes(breaks)
    assert nodes.shape == weights.shape == (2, 48)
    for row in range(2):
        expected = integrate.quad(lambda x: np.exp(np.sin(3 * x)), breaks[row, 0], breaks[row, -1])[0]
        assert abs((weights[row] * np.exp(np.sin(3 * nodes[row]))).sum() - expected) < 1e-12


def test_polynomials_are_exact_up_to_the_degree_of_the_rule():
    nodes, weights = composite_nodes(np.array([[0.0, 1.0]]), order=3)
    assert abs((weights * nodes**5).sum() - 1 / 6) < 1e-15
    assert abs((weights * nodes**6).sum() - 1 / 7) > 1e-6
