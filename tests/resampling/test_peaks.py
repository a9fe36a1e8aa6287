"""Peaks in noisy histograms: where they are, how well that is known, and how far above the noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpinfer.kernel.rows.blocks import octave
from dpinfer.resampling.blocks import LOCATED, fit_location, fit_scale

BINS = 20
STEP = 2 ** (1 / 8)
"""Ratio of the scales that are tried."""

ENDS = np.linspace(-3.0, 5.0, 33)


def scale_counts(scale, dof, width, total=1.0):
    """Return expected counts of ``scale sqrt(chi2_dof / dof)`` by octave."""
    ends = width * 2.0 ** -np.arange(BINS + 1)
    reached = stats.chi2.cdf(dof * (ends / scale) ** 2, dof)
    reached[0], reached[-1] = 1.0, 0.0
    return total * (reached[:-1] - reached[1:])


def location_counts(center, scale, ends=ENDS, total=1.0):
    """Return expected counts of a normal sample; the outer bins hold all that lies beyond."""
    reached = stats.norm.cdf((ends - center) / scale)
    reached[0], reached[-1] = 0.0, 1.0
    return total * np.diff(reached)


# Octaves


def test_the_bins_of_octaves():
    values = np.array([100.0, 8.0, 7.99, 4.0, 3.99, 2.0, 8.0 * 2.0**-19, 8.0 * 2.0**-30, 5e-324, 0.0, -1.0])
    expected = [0, 0, 0, 1, 1, 2, 19, 19, 19, 19, 19]
    assert octave(values, 8.0, BINS).tolist() == expected
    assert octave(np.array([]), 8.0, BINS).tolist() == []


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=40), st.floats(1e-3, 1e3))
def test_an_octave_is_that_of_the_value_alone(values, width):
    together = octave(np.array(values), width, BINS)
    assert together.min() >= 0
    assert together.max() < BINS
    assert together.tolist() == [int(octave(np.array([value]), width, BINS)[0]) for value in values]
    ordered = octave(np.sort(values), width, BINS)
    assert (np.diff(ordered) <= 0).all()


# Scales


@given(st.floats(-17.0, -0.5), st.sampled_from([1.0, 1.5, 3.0]), st.floats(1e-3, 1e3))
def test_a_scale_is_found_in_counts_without_noise(level, dof, width):
    true = width * 2.0**level
    scale, error, signal = fit_scale(scale_counts(true, dof, width, 500.0), width=width, dof=dof, noise=1e-9)
    assert abs(np.log(scale / true)) <= np.log(STEP) * 0.75
    assert error < 1e-9
    assert signal > 1e9


@pytest.mark.parametrize("dof", [1.0, 3.0])
@pytest.mark.parametrize(("total", "noise"), [(300, 4.0), (1000, 20.0)])
def test_the_error_of_a_noisy_scale_is_as_stated(dof, total, noise):
    """Over 300 draws the logarithms spread as their errors say, beyond the grid and the sampling of the counts."""
    rng = np.random.default_rng(11)
    true, errors, stated = 0.07, [], []
    shape = scale_counts(true, dof, 8.0)
    for _ in range(300):
        counts = rng.multinomial(total, shape) + rng.normal(0, noise, BINS)
        scale, error, _ = fit_scale(counts, width=8.0, dof=dof, noise=noise)
        errors.append(np.log(scale / true))
        stated.append(error)
    sampling = 1.3 / np.sqrt(2 * dof * total)  # of a standard deviation, for counts in place of values
    allowed = np.sqrt(np.mean(np.square(stated)) + np.log(STEP) ** 2 / 12 + sampling**2)
    assert 0.6 < np.std(errors) / allowed < 1.4
    assert abs(np.mean(errors)) < 0.05


def test_the_signal_of_a_scale_is_in_standard_deviations_of_the_noise():
    counts = scale_counts(0.1, 1.0, 8.0, 200.0)
    _, error, signal = fit_scale(counts, width=8.0, dof=1.0, noise=2.0)
    assert signal == pytest.approx(np.sqrt((counts**2).sum()) / 2.0, rel=0.02)
    _, twice, half = fit_scale(counts, width=8.0, dof=1.0, noise=4.0)
    assert half == pytest.approx(signal / 2, rel=1e-12)
    assert twice == pytest.approx(2 * error, rel=1e-12)
    _, finer, more = fit_scale(3 * counts, width=8.0, dof=1.0, noise=2.0)
    assert more == pytest.approx(3 * signal, rel=1e-12)
    assert finer == pytest.approx(error / 3, rel=1e-12)


# Locations


@given(st.floats(-2.5, 4.5), st.floats(0.13, 1.0))
def test_a_location_is_found_in_counts_without_noise(center, scale):
    """Bins are at most twice as wide as the scale."""
    found, error, signal = fit_location(location_counts(center, scale, total=500.0), ends=ENDS, scale=scale, noise=1e-9)
    step = (ENDS[1] - ENDS[0]) / 8
    assert abs(found - center) <= 0.75 * step
    assert error < 1e-8
    assert signal > 1e9


@pytest.mark.parametrize("scale", [0.25, 0.5])
@pytest.mark.parametrize(("total", "noise"), [(300, 4.0), (1000, 20.0)])
def test_the_error_of_a_noisy_location_is_as_stated(scale, total, noise):
    """Over 300 draws the locations spread as their errors say, beyond the grid and the sampling of the counts."""
    rng = np.random.default_rng(12)
    center, errors, stated = 1.13, [], []
    shape = location_counts(center, scale)
    for _ in range(300):
        counts = rng.multinomial(total, shape) + rng.normal(0, noise, len(shape))
        found, error, _ = fit_location(counts, ends=ENDS, scale=scale, noise=noise)
        errors.append(found - center)
        stated.append(error)
    grid = (ENDS[1] - ENDS[0]) / 8
    allowed = np.sqrt(np.mean(np.square(stated)) + grid**2 / 12 + 1.3 * scale**2 / total)
    assert 0.6 < np.std(errors) / allowed < 1.4
    assert abs(np.mean(errors)) < 0.1 * scale


@pytest.mark.parametrize("beyond", [-40.0, 40.0])
def test_a_location_beyond_the_ends_is_at_the_end(beyond):
    found, _, _ = fit_location(location_counts(beyond, 0.5, total=300.0), ends=ENDS, scale=0.5, noise=1.0)
    assert found in (ENDS[0], ENDS[-1])
    assert np.sign(found) == np.sign(beyond)


@given(st.floats(0.0, 1.0), st.sampled_from([1e-4, 1e-2, 0.1]))
def test_within_a_bin_much_wider_than_the_scale_the_error_is_about_the_bin(part, scale):
    """All counts are in one bin, which tells no more than that the centre is in it."""
    wide = np.linspace(-512.0, 512.0, 257)
    center = 8.0 + 4.0 * part
    counts = location_counts(center, scale, wide, total=1000.0)
    found, error, _ = fit_location(counts, ends=wide, scale=scale, noise=3.0)
    assert abs(found - center) <= 4.5
    assert abs(found - center) <= 4 * np.hypot(error, scale)


# Noise alone, and anything


def test_noise_alone_has_a_low_signal():
    """Of 1,000 histograms of noise at most 1 in 50 passes for a peak; one alone does with probability below .01.

    The chance of more than 20 of 1,000 is below 1e-3 at that probability; the seed is fixed.
    """
    rng = np.random.default_rng(13)
    scales = [fit_scale(rng.normal(0, 3.0, BINS), width=8.0, dof=1.0, noise=3.0)[2] for _ in range(500)]
    places = [fit_location(rng.normal(0, 3.0, 32), ends=ENDS, scale=0.2, noise=3.0)[2] for _ in range(500)]
    assert sum(signal >= LOCATED["l2"] for signal in scales + places) <= 20
    assert np.median(scales + places) < 3
    laplace = 3.0 / np.sqrt(2)
    heavier = [fit_location(rng.laplace(0, laplace, 32), ends=ENDS, scale=0.2, noise=3.0)[2] for _ in range(500)]
    assert sum(signal >= LOCATED["l1"] for signal in heavier) <= 10


COUNTS = st.one_of(
    st.integers(-(10**19), 10**19).map(float),
    st.floats(-1e100, 1e100),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e100, -1e100]),
)


@given(st.lists(COUNTS, min_size=BINS, max_size=BINS), st.sampled_from([0.0, 1e-300, 1e-3, 1.0, 1e18]))
def test_any_counts_give_a_scale_and_no_warning(counts, noise):
    scale, error, signal = fit_scale(np.array(counts), width=8.0, dof=1.5, noise=noise)
    assert 8.0 * 2.0**-BINS < scale <= 8.0
    assert error >= 0
    assert not np.isnan(signal)


@given(st.lists(COUNTS, min_size=2, max_size=32), st.sampled_from([0.0, 1e-300, 1e-3, 1.0, 1e18]), st.floats(1e-6, 8))
def test_any_counts_give_a_location_and_no_warning(counts, noise, scale):
    ends = np.linspace(-3.0, 5.0, len(counts) + 1)
    found, error, signal = fit_location(np.array(counts), ends=ends, scale=scale, noise=noise)
    assert -3.0 <= found <= 5.0
    assert error >= 0
    assert not np.isnan(signal)


@pytest.mark.parametrize("counts", [np.zeros(BINS), -np.ones(BINS)], ids=["zero", "negative"])
def test_counts_without_a_peak_say_nothing(counts):
    _, error, signal = fit_scale(counts, width=8.0, dof=1.0, noise=1.0)
    assert (error, signal <= 0) == (np.inf, True)
    _, error, signal = fit_location(counts, ends=np.linspace(0, 1, BINS + 1), scale=0.1, noise=1.0)
    assert (error, signal <= 0) == (np.inf, True)


def test_bins_that_rounding_has_merged_give_no_warning():
    """A declared interval far from zero and too narrow for floating point there."""
    found, _, _ = fit_location(np.ones(8), ends=1e17 + np.linspace(-1, 1, 9), scale=0.2, noise=1.0)
    assert found == 1e17
