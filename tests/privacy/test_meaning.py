"""What a cost means: bounds on the power of tests between neighbours."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpinfer.privacy import GDP, ZCDP, ApproxDP, Cost, PureDP
from dpinfer.privacy.accounting import power_bound


def test_the_bounds_of_each_guarantee():
    gaussian = Cost(GDP(1.0), mu_squared=Fraction(1))
    assert power_bound(gaussian) == pytest.approx(stats.norm.cdf(stats.norm.ppf(0.05) + 1))
    pure = Cost(PureDP(1.0), pure_epsilon=Fraction(1))
    assert power_bound(pure) == pytest.approx(0.05 * np.e)
    assert power_bound(pure, 0.9) == pytest.approx(1 - np.exp(-1) * 0.1)
    approx = Cost(ApproxDP(1.0, 0.01), approx=ApproxDP(1.0, 0.01))
    assert power_bound(approx) == pytest.approx(0.05 * np.e + 0.01)
    within = Cost(GDP(1.0), mu_squared=Fraction(1), tau=Fraction(1, 100), delta0=Fraction(1, 100))
    assert power_bound(within) == pytest.approx(stats.norm.cdf(stats.norm.ppf(0.06) + 1) + 0.02)
    assert power_bound(Cost(ZCDP(0.0), rho=Fraction(0))) >= 0.05


@pytest.mark.parametrize("rho", [0.005, 0.1, 0.5, 2.0])
def test_no_gaussian_mechanism_beats_its_zcdp(rho):
    most = power_bound(Cost(ZCDP(rho), rho=Fraction(rho)))
    reached = stats.norm.cdf(stats.norm.ppf(0.05) + np.sqrt(2 * rho))
    assert reached <= most <= 1
    both = Cost(ZCDP(rho), rho=Fraction(rho), mu_squared=2 * Fraction(rho))
    assert reached == pytest.approx(power_bound(both))


def test_large_costs_say_nothing():
    assert power_bound(Cost(PureDP(2000.0), pure_epsilon=Fraction(2000))) == pytest.approx(1)
    assert power_bound(Cost(PureDP(1.0))) == 1
