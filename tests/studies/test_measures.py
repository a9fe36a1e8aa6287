"""Estimates that a replicate does not determine: measured apart, and judged by the same rule."""

import numpy as np
import pytest

from dpinfer.errors import InferenceError
from dpinfer.results.estimates import checked_covariance
from dpinfer.studies.coverage import Rules, performance


def cell(missing, misses, count=1000):
    """Replicates of a truth of 1, the first ``missing`` without an estimate, the last ``misses`` off."""
    estimate = np.where(np.arange(count) < missing, np.nan, 1.0 + 0.1 * (np.arange(count) % 2))
    lower = np.where(np.arange(count) >= count - misses, 1.5, 0.5)
    upper = np.where(np.isnan(estimate), np.inf, 2.0)
    error = np.where(np.isnan(estimate), np.nan, 0.1)
    no = np.zeros(count, dtype=bool)
    named = {"estimate": estimate, "error": error, "lower": lower, "upper": upper, "pvalue": np.ones(count)}
    return performance({**named, "flagged": no, "failed": no}, 1.0, level=0.95)


def test_what_is_not_determined_has_an_interval_and_no_bias():
    found = cell(400, 30)
    assert found["failures"] == 0
    assert found["coverage"] == pytest.approx(0.97)
    assert found["not determined"] == pytest.approx(0.4)
    assert found["coverage where determined"] == pytest.approx(1 - 30 / 600)
    assert found["bias"] == pytest.approx(0.05)
    assert found["unbounded"] == pytest.approx(0.4)
    assert cell(0, 30)["coverage where determined"] == cell(0, 30)["coverage"]
    assert np.isnan(cell(1000, 0)["coverage where determined"])
    assert np.isnan(cell(1000, 0)["bias"])


def test_coverage_among_the_determined_is_judged():
    rules = Rules()
    held, broken = ({**cell(600, misses), "truth": 1.0} for misses in (20, 49))
    assert rules.verdict(held, level=0.95) == "holds"
    assert rules.least_coverage(1000, 0.95) < broken["coverage"]
    assert "where determined below" in rules.verdict(broken, level=0.95)
    assert rules.verdict({**cell(1000, 0), "truth": 1.0}, level=0.95) == "holds"


def test_a_missing_estimate_has_no_covariance():
    class Stub:
        names = ("a", "b")
        params = np.array([np.nan, 1.0])
        cov_sampling = np.diag([np.nan, 1.0])
        cov_noise = np.eye(2)

    with pytest.raises(InferenceError, match="no covariance"):
        checked_covariance(Stub())
    Stub.cov_sampling = Stub.cov_noise = np.array([[np.nan, np.nan], [np.nan, 1.0]])
    np.testing.assert_array_equal(checked_covariance(Stub()), 2 * Stub.cov_noise)
