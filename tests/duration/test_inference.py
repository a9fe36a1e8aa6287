"""Life tables as numbers: Wilson's interval, derivatives, projections, and the null of the log-rank test."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from statsmodels.stats.proportion import proportion_confint

from dpinfer.duration.inference import LifeTables, LogRank, fitted_survival
from dpinfer.release.laws import NoiseLaw
from dpinfer.statistics.noise import CountNoise
from dpinfer.statistics.nulls import batch_pvalues

Z = 1.959963984540054


def tables(counts, variance=0.0, intervals=None, **options):
    counts = np.asarray(counts, dtype=float)
    counts = counts[None] if counts.ndim == 2 else counts
    return LifeTables.of(counts, intervals or counts.shape[1], variance, **options)


def made(intervals=8, rows=400, seed=1, tables_=1):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(2 * (intervals + 1), 5.0))
    return rng.multinomial(rows, shares, tables_).reshape(tables_, intervals + 1, 2).astype(float)


@pytest.mark.parametrize("events", [0, 1, 7, 20])
def test_without_noise_and_censoring_it_is_wilsons(events):
    found = tables([[0, events], [20 - events, 0]], intervals=1).ends(Z)[0, 0]
    np.testing.assert_allclose(found, proportion_confint(20 - events, 20, method="wilson"), atol=1e-9)


def test_one_interval_with_noise_solves_its_quadratic():
    """With one interval T is linear in the hazard, and its variance a quadratic of it."""
    alive, dead, tail, v = 0.0, 30.0, 70.0, 4.0
    low, high = tables([[alive, dead], [tail, 0.0]], v, intervals=1).ends(Z)[0, 0]
    at_risk = alive + dead + tail
    for survival in (low, high):
        h = 1 - survival
        sampling = h * (1 - h) * at_risk
        noise = v * ((1 - h) ** 2 + h**2 + 2 * h**2)  # of h Y - x: one count of events, one censored, two beyond
        assert (h * at_risk - dead) ** 2 == pytest.approx(Z**2 * (sampling + noise), rel=1e-6)


def test_the_interval_is_everything_where_noise_hides_the_rows():
    found = tables(np.full((6, 2), 3.0), 400.0, intervals=5)
    assert not found.clear.any()
    assert (found.ends(Z) == [0, 1]).all()
    assert (found.ends(Z, hazard=True) == [0, np.inf]).all()


def test_an_interval_that_nobody_survives_reaches_zero():
    found = tables([[2, 3], [0, 5], [0, 0]], intervals=2)
    assert found.survival[0, 1] == pytest.approx(0, abs=1e-9)
    low, high = found.ends(Z)[0, 1]
    assert low == 0
    assert 0.1 < high < 0.7
    assert np.isfinite(found.covariance()[0]).all()


@pytest.mark.parametrize("lost", [0.0, 0.5])
@pytest.mark.parametrize("hazard", [False, True])
def test_covariances_are_those_of_numerical_derivatives(lost, hazard):
    counts, variance = made(), 3.0
    found = tables(counts, variance, 8, lost=lost)

    def value(given_counts):
        one = tables(given_counts, variance, 8, lost=lost)
        return np.cumsum(one.hazards[0]) if hazard else np.log(one.survival[0])

    slopes = []
    for cell in np.ndindex(counts.shape[1:]):
        step = np.zeros_like(counts)
        step[(0, *cell)] = 1e-4
        slopes.append((value(counts + step) - value(counts - step)) / 2e-4)
    slopes = np.array(slopes)
    sampling, noise = found.covariance(hazard=hazard)
    np.testing.assert_allclose(noise[0], variance * slopes.T @ slopes, rtol=1e-4, atol=1e-9)
    if not lost:  # Greenwood's is the delta method for a multinomial
        np.testing.assert_allclose(sampling[0], (slopes.T * counts.ravel()) @ slopes, rtol=1e-4, atol=1e-9)


def test_the_score_interval_is_near_the_delta_methods_where_rows_are_many():
    counts = made(rows=200_000)
    for variance in (0.0, 50.0):
        found = tables(counts, variance, 8)
        error = found.survival * np.sqrt(np.einsum("nkk->nk", sum(found.covariance())))
        ends = found.ends(Z)
        np.testing.assert_allclose(ends[..., 1] - ends[..., 0], 2 * Z * error, rtol=0.02)
        np.testing.assert_allclose(found.ends(Z, method="log-log"), ends, atol=2e-3)


def test_sums_of_survival_have_intervals_between_those_of_their_parts():
    found = tables(made(), 2.0, 8)
    single, both = found.ends(Z)[0], found.scored(Z, np.array([[0, 1.0, 0, 0, 2.0, 0, 0, 0]]))[0, 0]
    assert single[1, 0] + 2 * single[4, 0] < both[0] < both[1] < single[1, 1] + 2 * single[4, 1]
    np.testing.assert_allclose(found.scored(Z, 3 * np.eye(8)), 3 * found.scored(Z, np.eye(8)), atol=1e-8)


@given(
    arrays(float, (2, 7, 2), elements=st.floats(-40, 200)),
    st.sampled_from([0.0, 1.0, 100.0]),
    st.sampled_from([0.0, 0.5]),
)
@settings(max_examples=60, deadline=None)
def test_any_noisy_counts_give_a_survival_function_and_ordered_ends(counts, variance, lost):
    found = tables(counts, variance, 6, lost=lost)
    assert (np.diff(found.survival, axis=1) <= 1e-12).all()
    assert ((found.survival >= 0) & (found.survival <= 1)).all()
    for method in ("score", "log-log"):
        ends = found.ends(Z, method=method)
        assert ((ends >= 0) & (ends <= 1)).all()
        assert (ends[..., 0] <= ends[..., 1] + 1e-9).all()
        wider = found.ends(2.6, method=method)
        assert (wider[..., 0] <= ends[..., 0] + 1e-9).all()
    hazard = found.ends(Z, hazard=True)
    assert (hazard[..., 0] <= hazard[..., 1] + 1e-9).all()


def test_negative_counts_are_set_against_their_neighbours():
    events, at_risk = np.array([[-10.0, 30.0, 0.0, -5.0]]), np.array([[100.0, 110.0, 80.0, 80.0]])
    found = fitted_survival(events, at_risk, np.ones((1, 4), dtype=bool))
    raw = np.cumprod(1 - events / at_risk)
    assert raw[0] > 1
    np.testing.assert_allclose(found, [[1.0, *np.full(3, raw[1:].mean())]])


def test_the_null_of_the_log_rank_test_holds_its_level():
    """In 1,500 releases of .05: outside of these bounds with probability below 1e-4."""
    rng, size = np.random.default_rng(3), 1500
    hazards, lost = np.full(6, 0.1), ((0.05, 0.15))
    groups = []
    for leave in lost:
        staying = np.cumprod((1 - hazards) * (1 - leave))
        before = np.concatenate([[1.0], staying[:-1]])
        groups.append(np.vstack([np.stack([before * 0.9 * leave, before * 0.1], axis=1), [staying[-1], 0]]))
    cells = np.stack([0.7 * groups[0], 0.3 * groups[1]])
    noise = CountNoise(NoiseLaw("gaussian", (3.0,)))
    counts = rng.multinomial(600, cells.ravel(), size) + noise.rvs((size, cells.size), rng)
    model = LogRank(noise, 2, 6)
    pvalues = batch_pvalues(model, counts, draws=199, rng=rng)
    rejected = (pvalues <= 0.05).sum()
    assert 45 <= rejected <= 110
    hidden = model.hidden(counts - 40.0)
    assert hidden.any(axis=1).all()
    assert (batch_pvalues(model, counts[:20] - 40.0, draws=99, rng=rng) == 1).all()
