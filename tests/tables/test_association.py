import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats.contingency import association

from dpinfer.release.laws import NoiseLaw
from dpinfer.statistics.noise import CountNoise
from dpinfer.tables.chi_squared_inference import (
    GoodnessOfFit,
    Homogeneity,
    Independence,
    _derivatives,
    _phi_squared,
    _w_squared,
    cohens_w,
    cramers_v,
    residual_table,
)

GAUSSIAN = CountNoise(NoiseLaw("gaussian", (4.0,)))
LAPLACE = CountNoise(NoiseLaw("laplace", (3.0,)))
NONE = CountNoise(NoiseLaw("gaussian", (0.0,)))
ROWS, COLUMNS = np.array([0.6, 0.3, 0.1]), np.array([0.4, 0.3, 0.2, 0.1])
NULL = np.outer(ROWS, COLUMNS)
LEVELS = np.array([0.45, 0.3, 0.15, 0.1])


def associated(v):
    """A 3 by 4 table with margins ROWS and COLUMNS and Cramer's V as given."""
    upper = np.minimum.outer(np.cumsum(ROWS), np.cumsum(COLUMNS))
    move = np.diff(np.diff(np.pad(upper, ((1, 0), (1, 0))), axis=0), axis=1) - NULL
    return (NULL + v * move / np.sqrt((move**2 / NULL).sum() / 2)).ravel()


def drawn(shares, n, noise, size, seed):
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n, shares, size=size)
    return counts + noise.rvs(counts.shape, rng)


def models(values, noise):
    sizes = np.array([300.0, 500.0, 200.0])
    return [
        GoodnessOfFit(NULL.ravel(), noise),
        GoodnessOfFit(NULL.ravel(), noise, 1000),
        Independence((3, 4), noise),
        Independence((3, 4), noise, 1000),
        Homogeneity((3, 4), noise),
        Homogeneity((3, 4), noise, sizes),
    ]


@pytest.mark.parametrize("index", range(6))
def test_expected_counts_are_those_of_the_hypothesis(index):
    values = drawn(associated(0.3), 1000, GAUSSIAN, 40, seed=1)
    model = models(values, GAUSSIAN)[index]
    found = residual_table(model, values)
    np.testing.assert_allclose(found.expected, model.expected(values), rtol=1e-10)
    np.testing.assert_allclose(found.difference, values - model.expected(values), atol=1e-9)
    np.testing.assert_allclose(found.standard_error, np.hypot(found.sampling_error, found.noise_error))
    np.testing.assert_allclose(found.standardised, found.difference / found.standard_error)


def test_without_noise_residuals_are_adjusted_residuals():
    table = drawn(associated(0.2), 1000, NONE, 1, seed=2)[0].reshape(3, 4)
    a, b = table.sum(axis=1, keepdims=True) / 1000, table.sum(axis=0, keepdims=True) / 1000
    adjusted = (table - 1000 * a * b) / np.sqrt(1000 * a * b * (1 - a) * (1 - b))
    for nobs in (None, 1000):
        found = residual_table(Independence((3, 4), NONE, nobs), table.ravel())
        np.testing.assert_allclose(found.standardised, adjusted.ravel())
        assert not found.noise_error.any()


@pytest.mark.slow
@pytest.mark.parametrize("index", range(6))
def test_null_standard_errors_are_the_spread_of_the_differences(index):
    """20,000 draws know a standard deviation to .5%; 5% is ten times that."""
    rng = np.random.default_rng(3)
    noise = LAPLACE
    if index < 4:
        values = drawn(NULL.ravel(), 1000, noise, 20_000, seed=3)
    else:
        counts = rng.multinomial([300, 500, 200], COLUMNS, size=(20_000, 3)).reshape(20_000, 12)
        values = counts + noise.rvs(counts.shape, rng)
    model = models(values, noise)[index]
    found = residual_table(model, values)
    np.testing.assert_allclose(found.difference.std(axis=0), found.standard_error.mean(axis=0), rtol=0.05)
    np.testing.assert_allclose(found.standardised.mean(axis=0), 0, atol=0.06)


@pytest.mark.parametrize("index", [0, 1, 2, 3])
@pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE])
def test_residual_intervals_cover_away_from_the_hypothesis(index, noise):
    """4,000 draws: coverage .95 falls below .935 in one cell with probability 1e-5."""
    shares = associated(0.4)
    values = drawn(shares, 1000, noise, 4000, seed=4)
    model = models(values, noise)[index]
    target = residual_table(model, 1000 * shares).standardised
    found = residual_table(model, values)
    covered = ((found.lower <= target) & (target <= found.upper)).mean(axis=0)
    assert covered[1000 * NULL.ravel() >= 15].min() > 0.935
    assert np.abs(target).max() > 3


def test_homogeneity_intervals_cover_with_fixed_sizes():
    """See above for the false-alarm rate."""
    rng, sizes = np.random.default_rng(5), np.array([300, 500, 200])
    shares = np.array([[0.4, 0.3, 0.2, 0.1], [0.3, 0.3, 0.2, 0.2], [0.2, 0.4, 0.2, 0.2]])
    counts = rng.multinomial(sizes, shares, size=(4000, 3)).reshape(4000, 12)
    values = counts + GAUSSIAN.rvs(counts.shape, rng)
    for model in (Homogeneity((3, 4), GAUSSIAN), Homogeneity((3, 4), GAUSSIAN, sizes.astype(float))):
        target = residual_table(model, (sizes[:, None] * shares).ravel()).standardised
        found = residual_table(model, values)
        assert ((found.lower <= target) & (target <= found.upper)).mean(axis=0).min() > 0.935


@pytest.mark.parametrize("shape", [(2, 2), (3, 4), (5, 3)])
def test_derivatives_are_those_of_differences(shape):
    rng = np.random.default_rng(6)
    d = shape[0] * shape[1]
    x, p = rng.uniform(5, 30, (2, d)), rng.dirichlet(np.full(d, 5.0))
    for effect in (lambda at: _phi_squared(at, shape), lambda at: _w_squared(at, p)):
        value, slope, hessian = _derivatives(effect, x)
        step = 1e-4 * np.eye(d)
        up, down = effect(x[:, None] + step), effect(x[:, None] - step)
        np.testing.assert_allclose((up[0] - down[0]) / 2e-4, slope, atol=1e-8 + 1e-5 * np.abs(slope).max())
        np.testing.assert_allclose((up[1] - down[1]) / 2e-4, hessian, atol=1e-8 + 1e-5 * np.abs(hessian).max())
        assert (value > 0).all()


def test_plug_in_values_without_noise_are_scipys():
    """Without noise and with many rows the bias correction is next to nothing."""
    counts = np.rint(1e6 * associated(0.3))
    found = cramers_v(counts, (3, 4), noise=NONE)
    expected = association(counts.reshape(3, 4).astype(int), method="cramer")
    assert found.estimate == pytest.approx(expected, rel=1e-4)
    assert found.lower < expected < found.upper
    counts = 1e6 * LEVELS * np.array([1.1, 0.9, 0.9, 1.15])
    w = np.sqrt(stats.chisquare(counts, counts.sum() * LEVELS).statistic / counts.sum())
    assert cohens_w(counts, LEVELS, noise=NONE).estimate == pytest.approx(w, rel=1e-3)


@pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE])
@pytest.mark.parametrize("nobs", [None, 1000])
@pytest.mark.parametrize("v", [0.0, 0.1, 0.4])
def test_intervals_of_v_cover_and_estimates_are_unbiased(noise, nobs, v):
    """4,000 draws: coverage .95 falls below .935 with probability 1e-5."""
    values = drawn(associated(v), 1000, noise, 4000, seed=7)
    found = cramers_v(values, (3, 4), noise=noise, nobs=nobs)
    assert found.resolved.mean() > 0.99
    assert ((found.lower <= v + 1e-9) & (v <= found.upper)).mean() > 0.935
    assert (found.lower <= found.estimate).all()
    assert (found.estimate <= found.upper).all()
    if v:
        assert found.estimate.mean() == pytest.approx(v, abs=0.02)
        assert (found.upper - found.lower).mean() < 0.2
    plain = np.sqrt(((values - 1000 * NULL.ravel()) ** 2 / (1000 * NULL.ravel())).sum(axis=1) / 2000)
    assert plain.mean() > found.estimate.mean() + 0.01


@pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE])
@pytest.mark.parametrize("nobs", [None, 1000])
@pytest.mark.parametrize("w", [0.0, 0.1, 0.4])
def test_intervals_of_w_cover(noise, nobs, w):
    """See above for the false-alarm rate."""
    tilt = np.array([1.0, -1.0, 1.0, -1.0])
    tilt -= LEVELS @ tilt
    shares = LEVELS * (1 + w * tilt / np.sqrt(LEVELS @ tilt**2))
    found = cohens_w(drawn(shares, 1000, noise, 4000, seed=8), LEVELS, noise=noise, nobs=nobs)
    assert ((found.lower <= w + 1e-9) & (w <= found.upper)).mean() > 0.935
    assert found.largest == pytest.approx(3.0)
    assert (found.upper < found.largest).all()


def test_the_interval_narrows_with_alpha():
    values = drawn(associated(0.3), 1000, GAUSSIAN, 1, seed=9)[0]
    wide, narrow = (cramers_v(values, (3, 4), noise=GAUSSIAN, alpha=alpha) for alpha in (0.01, 0.2))
    assert wide.lower < narrow.lower < narrow.estimate < narrow.upper < wide.upper


def test_a_hidden_margin_gives_the_whole_range():
    noise = CountNoise(NoiseLaw("gaussian", (60.0,)))
    found = cramers_v(drawn(associated(0.3), 200, noise, 1, seed=10)[0], (3, 4), noise=noise)
    assert (found.lower, found.upper, found.resolved) == (0.0, 1.0, False)
    clear = cramers_v(10_000 * associated(0.3), (3, 4), noise=GAUSSIAN)
    assert clear.resolved


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=6, max_size=6),
    st.sampled_from([1e-3, 1.0, 30.0, 1e5]),
    st.sampled_from(["gaussian", "laplace"]),
    st.sampled_from([None, 1, 500]),
)
def test_degenerate_releases_give_finite_ends_in_order(values, scale, family, nobs):
    noise, counts, p = CountNoise(NoiseLaw(family, (scale,))), np.array(values), np.full(6, 1 / 6)
    for found in (cramers_v(counts, (2, 3), noise=noise, nobs=nobs), cohens_w(counts, p, noise=noise, nobs=nobs)):
        assert 0 <= found.lower <= found.upper <= found.largest
        assert 0 <= found.estimate <= found.largest
    models = (Independence((2, 3), noise, nobs), Homogeneity((2, 3), noise), GoodnessOfFit(p, noise, nobs))
    for model in models:
        table = residual_table(model, counts)
        assert np.isfinite(table.lower).all()
        assert np.isfinite(table.upper).all()
        assert (table.lower <= table.upper).all()


def test_batches_equal_single_releases():
    values = drawn(associated(0.2), 1000, LAPLACE, 5, seed=11)
    together = cramers_v(values, (3, 4), noise=LAPLACE)
    for i, one in enumerate(values):
        alone = cramers_v(one, (3, 4), noise=LAPLACE)
        np.testing.assert_allclose([alone.lower, alone.upper], [together.lower[i], together.upper[i]], rtol=1e-9)
