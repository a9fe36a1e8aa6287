"""Tests of log-linear models: the statistic, the fits that are tried, the size."""

import numpy as np
import pytest

from dpinfer.release import NoiseLaw
from dpinfer.statistics.noise import CountNoise
from dpinfer.statistics.nulls import batch_pvalues, simulate
from dpinfer.tables.loglinear_fit import CellNoise, CellTable
from dpinfer.tables.loglinear_inference import nested, ridge_fit

TABLE = CellTable(("a", "b"), (("x", "y"), ("u", "v", "w")))
SHARES = np.outer([0.6, 0.4], [0.5, 0.3, 0.2]).ravel()


def noise(scale):
    return CellNoise(CountNoise(NoiseLaw("gaussian", (scale,))), 6)


def design(formula):
    return TABLE.design(formula)[1]


def test_without_noise_it_is_pearsons_statistic():
    values = np.random.default_rng(1).multinomial(50_000, SHARES).astype(float)
    model = nested(design("a + b"), None, noise(1e-9), None)
    table = values.reshape(2, 3)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    assert model.dof == 2
    assert model.statistic(values[None])[0] == pytest.approx(((table - expected) ** 2 / expected).sum(), rel=1e-3)


def test_the_largest_model_is_that_of_no_model():
    values = np.random.default_rng(2).multinomial(2000, SHARES, size=4) + np.random.default_rng(3).normal(0, 3, (4, 6))
    whole, larger = (nested(design("a + b"), one, noise(3.0), None) for one in (None, design("a * b")))
    np.testing.assert_allclose(whole.statistic(values), larger.statistic(values), rtol=1e-8)
    assert whole.dof == larger.dof == 2


def test_the_coding_of_factors_does_not_matter():
    values = np.random.default_rng(4).multinomial(500, SHARES, size=3) + np.random.default_rng(5).normal(0, 3, (3, 6))
    one = nested(design("a"), design("a + b"), noise(3.0), None)
    other = nested(design("C(a, Sum)"), design("C(a, Sum) + C(b, Helmert)"), noise(3.0), None)
    np.testing.assert_allclose(one.statistic(values), other.statistic(values), rtol=1e-7)
    np.testing.assert_allclose(one.expected(values), other.expected(values), rtol=1e-7)


def test_what_is_not_nested_is_none():
    assert nested(design("a"), design("b"), noise(1.0), None) is None
    assert nested(design("a + b"), design("a"), noise(1.0), None) is None
    assert nested(design("a"), design("C(a, Sum)"), noise(1.0), None).dof == 0


def test_a_fit_with_a_ridge_exists_for_every_table():
    columns = np.linalg.qr(design("a + b"))[0]
    values = np.random.default_rng(6).normal(-20, 30, (200, 6))
    means = ridge_fit(columns, values, noise(30.0))
    assert np.isfinite(means).all()
    assert (means >= 0).all()


def test_three_fits_are_tried_where_a_count_is_hidden():
    rng = np.random.default_rng(7)
    values = rng.multinomial(100_000, SHARES, size=3).astype(float)
    values[0] /= 5000
    model = nested(design("a + b"), None, noise(3.0), None)
    tried = model.candidates(values)
    assert [one.where.tolist() for one in tried] == [[0, 1, 2], [0], [0]]
    flat, peaked = (one.fitted[1][0] for one in tried[1:])
    assert flat.max() < tried[0].fitted[1][0].max() < peaked.max()


def test_a_public_number_of_rows_is_that_of_every_draw():
    model = nested(design("a + b"), None, noise(3.0).centred(), 400.0)
    values = np.random.default_rng(8).multinomial(400, SHARES, size=2).astype(float)
    drawn = model.draw(model.fit(values), 50, np.random.default_rng(9))
    np.testing.assert_allclose(drawn.sum(axis=-1), 400.0)


def test_a_true_hypothesis_is_rejected_no_more_often_than_stated():
    """600 tables: a share above .10 has probability below 1e-6 where the size is .05."""
    rng = np.random.default_rng(10)
    model = nested(design("a + b"), None, noise(5.0), None)
    values = rng.multinomial(400, SHARES, size=600) + model.noise.rvs((600,), rng)
    assert (batch_pvalues(model, values, draws=99, rng=rng) <= 0.05).mean() < 0.10


def test_a_wrong_hypothesis_is_rejected():
    shares = SHARES + np.array([1, -1, 0, -1, 1, 0]) * 0.06
    values = np.random.default_rng(11).multinomial(20_000, shares) + 0.0
    assert simulate(nested(design("a + b"), None, noise(5.0), None), values, draws=199).pvalue == pytest.approx(1 / 200)
