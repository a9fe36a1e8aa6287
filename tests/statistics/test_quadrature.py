import numpy as np
from scipy import integrate

from dpinfer.statistics.numerical import composite_nodes


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
