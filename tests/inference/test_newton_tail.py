"""What cutting residuals took from least squares, given back."""

import numpy as np
import pytest
from dpinfer.inference.newton_tail import Beyond, BeyondOfPeople, Tail, TailCounts, folded_quantile, folded_tail
from dpinfer.inference.newton_terms import Released

LOW, HIGH = 2.0, 30.0


def released(value, scale):
    return Released(np.atleast_1d(np.asarray(value, dtype=float)), scale)


def fitted(z, residuals, scale=1e-3, low=LOW, high=HIGH, counts=None, **changes):
    """What rows (n, p) with residuals (n,) release."""
    size, signs, sizes = np.abs(residuals), np.sign(residuals), np.minimum(np.abs(residuals), high)
    over = size > low
    cut = np.clip(residuals, -low, low)
    hessian = z[~over].T @ z[~over]
    given = {
        "side": z[over].T @ signs[over],
        "spread": scale**2 * np.eye(z.shape[1]),
        "sides": released(signs[over].sum(), scale),
        "excess": released((signs * np.maximum(sizes - low, 0.0)).sum(), scale),
        "square": released((np.maximum(sizes, low) ** 2 - low**2).sum(), scale),
        "counts": TailCounts(
            **{"rows": float(over.sum()), "farther": 0.0, "skewed": 0.0, "hidden": 0.0, **(counts or {})}
        ),
        "low": low,
        "high": high,
        **changes,
    }
    meat = (z * cut[:, None] ** 2).T @ z
    return np.linalg.inv(hessian), hessian, meat, Beyond(**given), z.T @ cut


def drawn(n=20_000, seed=1, tail=1.0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.7, 1.7, n)
    return np.column_stack([np.ones(n), x]), tail * (rng.exponential(size=n) - 1.0)


def test_the_intercept_gets_the_whole_excess_and_a_slope_what_the_numbers_beyond_tell():
    rows, residuals = drawn()
    inverse, hessian, meat, beyond, score = fitted(rows, residuals)
    tail = beyond.tail(inverse, hessian, meat, np.eye(2)[0], len(rows))
    error = np.sqrt(residuals.var() / len(rows))
    found = inverse @ score + tail.move
    wanted = np.linalg.lstsq(rows, residuals, rcond=None)[0]
    assert np.abs(found - wanted).max() < 0.5 * error
    assert abs((inverse @ score)[0] - wanted[0]) > 5 * error


def test_the_sampling_covariance_is_that_of_whole_residuals():
    rows, residuals = drawn()
    inverse, hessian, meat, beyond, _ = fitted(rows, residuals)
    tail = beyond.tail(inverse, hessian, meat, np.eye(2)[0], len(rows))
    found = inverse @ meat @ inverse.T + tail.sampling
    wanted = residuals.var() * np.linalg.inv(rows.T @ rows)
    assert np.diag(found) == pytest.approx(np.diag(wanted), rel=0.15)


def test_without_a_constant_nothing_is_given_back():
    rows, residuals = drawn(200)
    inverse, hessian, meat, beyond, _ = fitted(rows, residuals)
    tail = beyond.tail(inverse, hessian, meat, None, len(rows))
    assert not tail.move.any()
    assert tail.bias(np.eye(2)).tolist() == [0.0, 0.0]


def test_noise_alone_moves_no_slope():
    rows, residuals = drawn(2_000)
    inverse, hessian, meat, beyond, _ = fitted(
        rows, np.clip(residuals, -1, 1), sides=released(12.0, 10.0), excess=released(40.0, 30.0)
    )
    tail = beyond.tail(inverse, hessian, meat, np.eye(2)[0], len(rows))
    assert tail.move[1] == 0.0
    assert tail.move[0] != 0.0


def test_skewness_without_rows_beyond_the_cut_moves_no_slope():
    rows, residuals = drawn(2_000)
    inverse, hessian, meat, beyond, _ = fitted(
        rows,
        np.clip(residuals, -1, 1),
        sides=released(12.0, 10.0),
        excess=released(20.0, 30.0),
        counts={"skewed": 100.0},
    )
    assert beyond.tail(inverse, hessian, meat, np.eye(2)[0], len(rows)).move[1] == 0.0


@pytest.mark.parametrize("scale", [1e-3, 10.0, 1e6])
@pytest.mark.parametrize("seed", range(5))
def test_whatever_noise_adds_all_is_finite(scale, seed):
    rng = np.random.default_rng(seed)
    rows, residuals = drawn(50, seed)
    inverse, hessian, meat, beyond, _ = fitted(
        rows,
        residuals,
        scale,
        high=2.1,
        side=scale * rng.normal(size=2),
        sides=released(scale * rng.normal(), scale),
        excess=released(scale * rng.normal(), scale),
        square=released(scale * rng.normal(), scale),
        counts={"rows": float(scale * rng.normal())},
    )
    tail = beyond.tail(inverse, hessian, 0.0 * meat, np.eye(2)[0], 50.0)
    for part in (tail.move, tail.sampling, tail.noise, tail.bias(np.eye(2))):
        assert np.isfinite(part).all()
    assert np.linalg.eigvalsh(tail.sampling + tail.noise).min() > -1e-9 * (1 + np.abs(tail.noise).max())


def test_no_tail_is_nothing():
    tail = Tail.none(3)
    assert not tail.move.any()
    assert tail.bias(np.eye(3)).tolist() == [0.0] * 3


def test_folded_quantiles_and_tails_agree():
    biases = np.array([0.0, 0.5, 2.0, 50.0])
    quantiles = folded_quantile(0.05, biases)
    assert quantiles[0] == pytest.approx(1.959964)
    assert folded_tail(quantiles, biases) == pytest.approx(0.05)


def test_of_people_what_chance_makes_of_rows_nobody_saw_is_no_bias_of_slopes():
    """Noise lets rows beyond lean to a side as it does in three of a hundred cases; no row is there."""
    rng = np.random.default_rng(4)
    rows, residuals, noise = np.column_stack([np.ones(5000), rng.uniform(-1.7, 1.7, 5000)]), rng.normal(size=5000), 40.0
    lean = {"side": np.array([0.0, 2.2 * noise]), "low": 8.0, "high": 8.5, "scale": noise}
    lean |= {"excess": released(5.0, noise), "sides": released(5.0, noise)}
    inverse, hessian, meat, of_rows, _ = fitted(rows, residuals, counts={"hidden": 70.0}, **lean)
    of_people = BeyondOfPeople(**{name: getattr(of_rows, name) for name in Beyond.__slots__})
    error = np.sqrt((inverse @ meat @ inverse)[1, 1])
    bias = [one.tail(inverse, hessian, meat, np.eye(2)[0], 5000).bias(np.eye(2))[1] for one in (of_rows, of_people)]
    assert bias[0] > 3 * error
    assert bias[1] < 0.1 * error
