"""Log-rank tests where times are finer than the intervals."""

import numpy as np
import pandas as pd
import pytest

import dpinfer as dpi
from dpinfer.duration.inference import LogRank
from dpinfer.release import NoiseLaw
from dpinfer.statistics.noise import CountNoise
from dpinfer.statistics.nulls import batch_pvalues


@pytest.mark.parametrize("censoring", ["end", "middle"])
def test_intervals_that_are_wide_for_unequal_censoring_are_named(censoring):
    rng = np.random.default_rng(2)
    group = rng.random(4000) < 0.5
    life, end = rng.exponential(30, 4000), np.where(group, rng.uniform(48, 60, 4000), rng.exponential(20, 4000))
    frame = pd.DataFrame({"t": np.minimum(life, end).clip(0, 60), "e": life <= end, "g": np.where(group, "a", "b")})
    schema = dpi.Schema(t=dpi.Real(0, 60), e=dpi.Boolean(), g=dpi.Category(["a", "b"]))
    data = dpi.PublicData(frame, schema, rng=rng)
    results = dpi.survival("t", "e", data, times=5, by="g", censoring=censoring).fit(dpi.ZCDP(0.5))
    test = results.logrank(draws=1000)
    ends = censoring == "end"
    (flag,) = test.flags
    assert "wide relative to the differences in censoring" in flag
    assert ('infer again with censoring="middle"' if ends else "use more times") in flag
    assert any("at risk for" in one for one in test.notes)
    assert any("wide relative to the censoring" in one for one in results.flags) == ends
    assert (test.pvalue < 0.01) == ends  # hazards are equal, and the default finds them not to be


def fine_cells(hazard, leaving, intervals):
    """Cells of exponential times to an event, and to censoring, with rates of an interval."""
    rate = hazard + leaving
    start = np.exp(-rate * np.arange(intervals))
    within = start[:, None] * (1 - np.exp(-rate)) * np.array([leaving, hazard]) / rate
    return np.vstack([within, [start[-1] * np.exp(-rate), 0.0]])


@pytest.mark.parametrize("intervals", [5, 12])
@pytest.mark.parametrize("n", [1000, 50_000])
def test_under_middle_the_size_holds_where_times_are_fine(n, intervals):
    """False-alarm rate 1e-4 a case: 400 p-values, at most 38 below .05."""
    rng, noise = np.random.default_rng(7), CountNoise(NoiseLaw("gaussian", (1.0,)))
    cells = np.stack([fine_cells(1.6 / intervals, leaving / intervals, intervals) for leaving in (0.05, 2.4)]) / 2
    counts = rng.multinomial(n, cells.ravel(), 400).astype(float)
    values = counts + noise.rvs(counts.shape, rng)
    found = {
        lost: (batch_pvalues(LogRank(noise, 2, intervals, lost=lost), values, draws=199, rng=rng) <= 0.05).sum()
        for lost in (0.0, 0.5)
    }
    assert found[0.5] <= 38
    assert found[0.0] > 38


@pytest.mark.parametrize("lost", [0.0, 0.3, 0.5, 1.0])
def test_the_null_that_is_drawn_expects_what_the_statistic_expects(lost):
    rng, noise = np.random.default_rng(3), CountNoise(NoiseLaw("gaussian", (1e-6,)))
    model = LogRank(noise, 2, 4, lost=lost)
    counts = np.array([[[300, 200], [100, 250], [150, 100], [10, 80], [300, 0]],
                       [[30, 190], [20, 220], [10, 200], [5, 150], [600, 0]]], dtype=float)  # fmt: skip
    _, cells = model.fit(counts.reshape(1, -1))
    expected = 1e6 * cells.reshape(1, -1)  # no sampling, no noise: the hypothesis itself
    observed, mean, covariance = model.compared(expected)
    assert np.abs(observed - mean).max() < 0.01 * np.sqrt(covariance[0, 0, 0])
    drawn = model.draw(model.fit(counts.reshape(1, -1)), 2000, rng)[0]
    observed, mean, covariance = model.compared(drawn)
    assert np.abs((observed - mean).mean(axis=0)).max() < 4.5 * np.sqrt(covariance[:, 0, 0].mean() / 2000)
    assert (observed - mean)[:, 0].var() == pytest.approx(covariance[:, 0, 0].mean(), rel=0.15)


def test_fine_times_are_not_flagged_under_middle():
    rng = np.random.default_rng(2)
    group = rng.random(4000) < 0.5
    life, end = rng.exponential(30, 4000), np.where(group, rng.uniform(48, 60, 4000), rng.exponential(20, 4000))
    frame = pd.DataFrame({"t": np.minimum(life, end).clip(0, 60), "e": life <= end, "g": np.where(group, "a", "b")})
    schema = dpi.Schema(t=dpi.Real(0, 60), e=dpi.Boolean(), g=dpi.Category(["a", "b"]))
    data = dpi.PublicData(frame, schema, rng=rng)
    results = dpi.survival("t", "e", data, times=30, by="g", censoring="middle").fit(dpi.ZCDP(0.5))
    assert results.logrank(draws=1000).flags == ()
