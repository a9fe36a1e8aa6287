"""The level of single intervals that hold together."""

import numpy as np
import pytest
from scipy import stats

from dpinfer.statistics.inference import joint_level


def sidak(count, alpha):
    return 1 - (1 - alpha) ** (1 / count)


def test_one_estimate_has_its_own_level():
    assert joint_level(np.array([[3.0]]), 0.05) == 0.05
    assert joint_level(np.full((0, 0), 1.0), 0.05) == 0.05


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.3])
def test_independent_estimates_have_that_of_sidak(alpha):
    assert joint_level(np.diag([1.0, 100.0, 1e-6]), alpha) == pytest.approx(sidak(3, alpha))


def test_the_same_estimate_twice_counts_once():
    assert joint_level(np.ones((4, 4)), 0.05) == pytest.approx(0.05, rel=0.1)  # 20,000 draws: three errors


def test_the_level_is_between_those_of_sidak_and_of_one():
    rng = np.random.default_rng(1)
    for _ in range(5):
        root = rng.normal(size=(6, 3))
        level = joint_level(root @ root.T + 0.1 * np.eye(6), 0.05)
        assert sidak(6, 0.05) <= level <= 0.05


def test_the_largest_deviation_stays_below_its_critical_value():
    """Of 200,000 draws: five errors of both simulations."""
    root = np.random.default_rng(2).normal(size=(5, 5))
    covariance = root @ root.T
    critical = stats.norm.isf(joint_level(covariance, 0.1) / 2)
    drawn = np.random.default_rng(3).normal(size=(200_000, 5)) @ root.T / np.sqrt(np.diag(covariance))
    assert (np.abs(drawn).max(axis=1) > critical).mean() == pytest.approx(0.1, abs=0.011)


def test_what_does_not_vary_is_left_out():
    assert joint_level(np.diag([1.0, 2.0, 0.0]), 0.05) == pytest.approx(sidak(2, 0.05))
    assert joint_level(np.diag([1.0, 0.0]), 0.05) == 0.05


def test_what_is_not_determined_counts_as_independent():
    """Its interval may have one end, at which it can miss as others do."""
    covariance = np.diag([1.0, 2.0, 5.0])
    covariance[2] = covariance[:, 2] = np.nan
    assert joint_level(covariance, 0.05) == pytest.approx(sidak(3, 0.05))
    assert joint_level(np.full((3, 3), np.nan), 0.05) == pytest.approx(sidak(3, 0.05))
    assert joint_level(np.diag([np.inf, 1.0, 2.0]), 0.05) == pytest.approx(sidak(3, 0.05))


def test_very_many_estimates_are_not_simulated():
    assert joint_level(np.full((600, 600), 0.5) + 0.5 * np.eye(600), 0.05) == pytest.approx(sidak(600, 0.05))


def test_it_is_the_same_every_time():
    covariance = np.eye(3) + 0.3
    assert joint_level(covariance, 0.05) == joint_level(covariance, 0.05)
