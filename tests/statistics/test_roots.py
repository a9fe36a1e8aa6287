import numpy as np

from dpinfer.statistics.numerical import outermost_crossing


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
