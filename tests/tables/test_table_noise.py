"""The noise of made-up cells in tests of counts: formulas against explicit matrices."""

import numpy as np
import pytest

from dpinfer.release.laws import NoiseLaw
from dpinfer.statistics.noise import Components, CountNoise
from dpinfer.tables.chi_squared_inference import GoodnessOfFit, Independence, cohens_w, cramers_v, residual_table
from dpinfer.tables.marginal_inference import CenteredMargins, NoiseSource, TableNoise

PARTS = Components(common=2.0, rows=5.0, columns=0.5, both=9.0)


def noise_of(shape, parts=PARTS, sources=()):
    two = len(shape) == 2
    variances = {(): parts.common * np.prod(shape), (0,): parts.rows * shape[1] if two else parts.both}
    variances |= {(1,): parts.columns * shape[0], (0, 1): parts.both} if two else {}
    margins = CenteredMargins(shape, {}, variances, NoiseLaw("gaussian", ()), np.ones(0))
    return TableNoise(margins, tuple(range(len(shape))), sources)


def alike(shape, variance):
    cells = int(np.prod(shape))
    law = NoiseLaw("gaussian", (variance**0.5,) * cells)
    return noise_of(shape, Components(*(variance,) * 4), (NoiseSource(law, np.ones(cells), 1, np.eye(cells)),))


@pytest.mark.parametrize(
    ("shape", "size_known", "rows_known"), [((3, 4), False, False), ((2, 5), True, False), ((3, 2), True, True)]
)
def test_noise_that_is_left_of_a_product_of_margins(shape, size_known, rows_known):
    r, c = shape
    rng = np.random.default_rng(1)
    a, b = rng.dirichlet(np.ones(r)), rng.dirichlet(np.ones(c))
    own, across = np.eye(r), np.eye(c)
    centred = np.eye(r * c) - (1 / (r * c) if size_known else 0.0)
    by_rows = 0 if rows_known else np.kron(own, np.ones((c, c)) * b[:, None])
    by_columns = np.kron(np.ones((r, r)) * a[:, None], across)
    total = 0 if size_known else np.ones((r * c, r * c)) * np.outer(a, b).ravel()[:, None]
    moved = np.eye(r * c) - (by_rows + by_columns) @ centred + total
    expected = np.diag(moved @ noise_of(shape).covariance @ moved.T)
    found = PARTS.after_product(a[:, None], b[None], size_known=size_known, rows_known=rows_known)
    np.testing.assert_allclose(found.ravel(), expected)


def test_noise_that_is_left_of_a_fitted_size():
    p, weights = np.array([0.5, 0.3, 0.2]), np.array([2.0, 0.5, 1.0])
    parts = Components(2.0, 9.0, 9.0, 9.0)
    covariance = noise_of((3,), parts).covariance
    moved = np.eye(3) - np.outer(p, weights)
    np.testing.assert_allclose(parts.after_size(p, weights), np.diag(moved @ covariance @ moved.T))


def test_margins_totals_and_slopes():
    noise = noise_of((3, 4))
    rows = np.kron(np.eye(3), np.ones(4))
    columns = np.kron(np.ones(3), np.eye(4))
    assert noise.variance == pytest.approx(noise.covariance[0, 0])
    assert noise.components.margin(3, 4, axis=0, known=False) == pytest.approx((rows @ noise.covariance @ rows.T)[0, 0])
    assert noise.components.margin(4, 3, axis=1, known=False) == pytest.approx(
        (columns @ noise.covariance @ columns.T)[0, 0]
    )
    assert noise.components.common * 12 == pytest.approx(noise.covariance.sum())
    slopes = np.random.default_rng(0).normal(size=(5, 12, 2))
    expected = np.einsum("ndf,de,nef->nf", slopes, noise.covariance, slopes)
    np.testing.assert_allclose(noise.quadratic(slopes), expected)


def test_equal_components_are_independent_noise():
    plain = CountNoise(NoiseLaw("gaussian", (5.0,)))
    table, column = alike((2, 3), 25.0), alike((4,), 25.0)
    values = np.array([30.0, 40.0, 25.0, 60.0, 90.0, 41.0])
    counts = np.array([30.0, 40.0, 25.0, 60.0])
    for nobs in (None, 286):
        one, other = (Independence((2, 3), noise, nobs) for noise in (plain, table))
        assert one.statistic(values[None]) == pytest.approx(other.statistic(values[None]))
        for left, right in zip(
            residual_table(one, values).__dict__.values(), residual_table(other, values).__dict__.values(), strict=True
        ):
            np.testing.assert_allclose(left, right)
    single, same = (GoodnessOfFit(np.full(4, 0.25), noise, None) for noise in (plain, column))
    assert single.statistic(counts[None]) == pytest.approx(same.statistic(counts[None]))
    assert cramers_v(values, (2, 3), noise=plain).upper == pytest.approx(cramers_v(values, (2, 3), noise=table).upper)
    w, v = (cohens_w(counts, np.full(4, 0.25), noise=noise) for noise in (plain, column))
    assert w.upper == pytest.approx(v.upper)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_draws_have_the_variances_of_their_sources(family):
    law = NoiseLaw(family, (6.0, 2.5))
    basis = np.array([[1.0, 0.0], [0.5, 1.0], [-1.0, 2.0]])
    several = 3 if family == "laplace" else 1
    source = NoiseSource(law, np.array([0.5, 2.0]), several, basis)
    noise = noise_of((3,), sources=(source,))
    drawn = noise.rvs((4, 50_000, 3), np.random.default_rng(5)).reshape(-1, 3)
    expected = (basis * (several * law.variances * source.steps**2)) @ basis.T
    # 2e5 draws of kurtosis 6 at most: a relative error of a variance has a standard deviation below 0.6%
    np.testing.assert_allclose(np.cov(drawn.T), expected, rtol=0.03, atol=0.03 * expected.max())
    assert noise.is_normal == (family == "gaussian")
    kurtosis = (drawn[:, 0] ** 4).mean() - 3 * (drawn[:, 0] ** 2).mean() ** 2
    if family == "laplace":
        assert 0 < kurtosis < 3 * noise.fourth_cumulant  # of a sum of three the cumulant of one: heavier tails
