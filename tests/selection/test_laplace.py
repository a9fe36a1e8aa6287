"""Tails of the sum of two discrete Laplace variables, beside their convolution."""

import numpy as np
import pytest

from dpinfer.selection.results import pair_quantile, pair_tail


def law(scale, reach):
    weights = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    return weights / weights.sum()


@pytest.mark.parametrize(
    ("first", "second"), [(1.0, 2.0), (2.0, 2.0), (0.1, 0.2), (0.3, 0.3), (20.0, 25.2), (8.0, 3.0)]
)
def test_tails_are_those_of_the_convolution(first, second):
    reach = int(60 * max(first, second)) + 10
    both = np.convolve(law(first, reach), law(second, reach))
    for least in (1, 2, 3, 7, 40):
        assert pair_tail(least, first, second) == pytest.approx(both[2 * reach + least :].sum(), rel=1e-7, abs=1e-14)


def test_wide_laws_have_the_continuous_tail():
    a, b, x = 1e7, 3e7, 5e7
    right = (a * a * np.exp(-x / a) - b * b * np.exp(-x / b)) / (2 * (a * a - b * b))
    assert pair_tail(int(x), a, b) == pytest.approx(right, rel=1e-6)
    right = np.exp(-x / a) * (2 + x / a) / 4
    assert pair_tail(int(x), a, a) == pytest.approx(right, rel=1e-6)


@pytest.mark.parametrize("tail", [0.4, 0.05, 1e-6])
def test_quantiles_are_the_smallest(tail):
    for scales in ((1.0, 2.0), (5.0, 5.0), (1e6, 4e6), (0.01, 0.02)):
        found = pair_quantile(tail, *scales)
        assert pair_tail(found, *scales) <= tail
        assert found == 1 or pair_tail(found - 1, *scales) > tail
