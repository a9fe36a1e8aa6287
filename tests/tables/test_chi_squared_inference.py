"""Chi-squared statistics of noisy counts against dense linear algebra, scipy without noise, and their limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from dpinfer.release.laws import NoiseLaw
from dpinfer.statistics.noise import CountNoise
from dpinfer.statistics.nulls import batch_pvalues, candidates, simulate
from dpinfer.tables.chi_squared_inference import (
    GoodnessOfFit,
    Homogeneity,
    Independence,
    margins_of,
    nearest_product,
)

NONE = CountNoise(NoiseLaw("gaussian", (0.0,)))
GAUSSIAN = CountNoise(NoiseLaw("gaussian", (20.0,)))
LAPLACE = CountNoise(NoiseLaw("laplace", (6.0,)))
PROBABILITIES = np.array([0.4, 0.3, 0.2, 0.1])
ROWS, COLUMNS = np.array([0.6, 0.4]), np.array([0.5, 0.3, 0.2])
TABLES = [np.array([[30, 14, 6], [22, 18, 25]]), np.array([[700, 650], [400, 390]]), np.arange(20, 40).reshape(4, 5)]
seeds = st.integers(0, 10_000)


def projected_form(expected, variance):
    """P (diag(m) - m m'/n + v I)^-1 P, or without a last term where noise is all there is to invert."""
    projection = np.eye(expected.size) - 1 / expected.size
    covariance = np.diag(expected) - np.outer(expected, expected) / expected.sum() + variance * np.eye(expected.size)
    return projection @ np.linalg.inv(covariance) @ projection


def shortest(residual, form, tangent):
    """The squared length of a residual, less that of its projection on a tangent space, in the metric of a form."""
    slopes = tangent.T @ form @ residual
    return residual @ form @ residual - slopes @ np.linalg.pinv(tangent.T @ form @ tangent, hermitian=True) @ slopes


def noisy(shares, n, noise, seed, size=5):
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n, np.ravel(shares), size=size)
    return counts + noise.rvs(counts.shape, rng)


@given(st.integers(2, 8), st.integers(50, 5000), st.floats(0.5, 60), seeds)
def test_goodness_of_fit_with_a_public_size_is_the_statistic_of_kifer_and_rogers(levels, n, spread, seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(levels, 2.0)) * 0.9 + 0.1 / levels
    noise = CountNoise(NoiseLaw("gaussian", (spread,)))
    values = noisy(p, n, noise, seed)
    form = n * projected_form(n * p, noise.variance)
    deviation = (values - n * p) / np.sqrt(n)
    found = GoodnessOfFit(p, noise, n).statistic(values)
    assert found == pytest.approx(np.einsum("ri,ij,rj->r", deviation, form, deviation), rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE])
def test_with_a_private_size_the_statistic_is_least_over_the_size(noise):
    values = noisy(PROBABILITIES, 900, noise, 1)
    model = GoodnessOfFit(PROBABILITIES, noise)
    expected = model.expected(values)
    for row, statistic, fitted in zip(values, model.statistic(values), expected, strict=True):
        weights = 1 / (row.sum() * PROBABILITIES + noise.variance)
        best = optimize.minimize_scalar(
            lambda n, row=row, weights=weights: (weights * (row - n * PROBABILITIES) ** 2).sum(),
            bounds=(1, 5000),
            method="bounded",
            options={"xatol": 1e-7},
        )
        assert statistic == pytest.approx(best.fun, rel=1e-7)
        assert fitted == pytest.approx(best.x * PROBABILITIES, rel=1e-5)


@pytest.mark.slow
@given(st.integers(2, 4), st.integers(2, 5), st.integers(4000, 20_000), st.floats(0.5, 20), st.booleans(), seeds)
def test_independence_is_the_distance_to_the_nearest_product_of_margins(r, c, n, spread, known, seed):
    rng = np.random.default_rng(seed)
    first, second = (rng.dirichlet(np.full(k, 4.0)) * 0.6 + 0.4 / k for k in (r, c))
    noise = CountNoise(NoiseLaw("gaussian", (spread,)))
    model = Independence((r, c), noise, n if known else None)
    for row in noisy(np.outer(first, second), n, noise, seed)[:2]:
        expected, total = model.expected(row), n if known else row.sum()
        table = row.reshape(r, c) + (total - row.sum()) / (r * c)
        rows, columns = table.sum(axis=1) / total, table.sum(axis=0) / total
        assert expected == pytest.approx(total * np.outer(rows, columns).ravel())
        form = projected_form(expected, noise.variance) if known else np.diag(1 / (expected + noise.variance))

        def far(margins, rows=rows, columns=columns, table=table, total=total, form=form):
            free = margins.reshape(-1) if not known else margins
            own = np.append(free[: r - 1], 1 - free[: r - 1].sum()) if known else free[:r]
            other = np.append(free[r - 1 : r + c - 2], 1 - free[r - 1 :].sum()) if known else np.append(1.0, free[r:])
            residual = (table - total * np.outer(own, other)).ravel()
            return residual @ form @ residual

        start = np.concatenate([rows[:-1], columns[:-1]] if known else [rows * columns[0], columns[1:] / columns[0]])
        least = optimize.minimize(far, start, method="BFGS", options={"gtol": 1e-7}).fun
        assert float(model.statistic(row)) == pytest.approx(least, rel=1e-4, abs=1e-5)


@given(st.integers(2, 4), st.integers(2, 5), st.integers(200, 20_000), st.floats(0.5, 60), seeds)
def test_homogeneity_of_public_sizes_projects_on_the_tangent_of_the_common_shares(r, c, n, spread, seed):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(c, 4.0)) * 0.8 + 0.2 / c
    sizes = n * (1 + np.arange(r))
    noise = CountNoise(NoiseLaw("gaussian", (spread,)))
    counts = np.stack([rng.multinomial(sizes, shares).ravel() for _ in range(4)])
    values = counts + noise.rvs(counts.shape, rng)
    model = Homogeneity((r, c), noise, sizes.astype(float))
    right = []
    for row in values:
        expected = model.expected(row).reshape(r, c)
        lengths = expected.sum(axis=1)
        form, tangent = np.zeros((r * c, r * c)), np.kron(lengths[:, None], np.eye(c)[:, 1:] - np.eye(c)[:, :1])
        for k in range(r):
            cells = slice(k * c, (k + 1) * c)
            form[cells, cells] = projected_form(expected[k], noise.variance)
        assert lengths == pytest.approx(sizes)
        right.append(shortest(row - expected.ravel(), form, tangent))
    assert model.statistic(values) == pytest.approx(right, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("kind", ["projected", "pearson"])
@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_without_noise_the_statistics_are_those_of_scipy(table, public, kind):
    n, values = int(table.sum()), table.ravel().astype(float)
    right = stats.chi2_contingency(table, correction=False)
    close = 1e-12 if kind == "pearson" else 1e-9
    for model in (
        Independence(table.shape, NONE, n if public else None, kind),
        Homogeneity(table.shape, NONE, table.sum(axis=1).astype(float) if public else None, kind),
    ):
        assert model.statistic(values[None]) == pytest.approx([right.statistic], rel=close)
        assert model.expected(values).reshape(table.shape) == pytest.approx(right.expected_freq)
        assert model.dof == right.dof
    p = np.arange(1, values.size + 1) / np.arange(1, values.size + 1).sum()
    model = GoodnessOfFit(p, NONE, n if public else None, kind)
    assert model.statistic(values) == pytest.approx(stats.chisquare(values, n * p).statistic, rel=close)
    assert model.expected(values) == pytest.approx(n * p)
    assert model.dof == values.size - 1


def test_hardly_any_noise_changes_the_projected_statistic_hardly():
    table = TABLES[0]
    right = stats.chi2_contingency(table, correction=False).statistic
    noise = CountNoise(NoiseLaw("gaussian", (1.0,)), step=1e-4)
    for model in (Independence(table.shape, noise), Homogeneity(table.shape, noise), Independence((2, 3), noise, 115)):
        assert model.statistic(table.ravel().astype(float)) == pytest.approx(right, rel=1e-6)


def designs(noise, kind="projected"):
    """Every model, with the shares and the size of samples that meet it."""
    table, sizes = np.outer(ROWS, COLUMNS).ravel(), np.array([12_000.0, 8_000.0])
    return {
        "goodness of fit": (GoodnessOfFit(PROBABILITIES, noise, None, kind), PROBABILITIES),
        "goodness of fit, n": (GoodnessOfFit(PROBABILITIES, noise, 20_000, kind), PROBABILITIES),
        "independence": (Independence((2, 3), noise, None, kind), table),
        "independence, n": (Independence((2, 3), noise, 20_000, kind), table),
        "homogeneity": (Homogeneity((2, 3), noise, None, kind), table),
        "homogeneity, sizes": (Homogeneity((2, 3), noise, sizes, kind), table),
    }


def under_the_null(model, shares, size, seed, n=20_000):
    rng = np.random.default_rng(seed)
    if isinstance(model, Homogeneity):
        sizes = np.rint(n * ROWS).astype(int)
        counts = rng.multinomial(np.tile(sizes, (size, 1)), COLUMNS).reshape(size, -1)
    else:
        counts = rng.multinomial(n, shares, size=size)
    return counts + model.noise.rvs(counts.shape, rng)


@pytest.mark.parametrize("name", designs(GAUSSIAN))
def test_the_limit_is_chi_squared(name):
    """4000 releases of 20,000 rows: a distance of .035 from the limit itself has a chance below 2e-4."""
    model, shares = designs(GAUSSIAN)[name]
    statistic = model.statistic(under_the_null(model, shares, 4000, 3))
    assert stats.kstest(statistic, stats.chi2(model.dof).cdf).statistic < 0.035


def test_pearson_of_noisy_counts_is_not_chi_squared():
    model, shares = designs(GAUSSIAN, "pearson")["goodness of fit, n"]
    statistic = model.statistic(under_the_null(model, shares, 2000, 3, 2000))
    assert (statistic > stats.chi2.isf(0.05, 3)).mean() > 0.15


@pytest.mark.parametrize(
    ("noise", "kind"), [(GAUSSIAN, "projected"), (LAPLACE, "pearson")], ids=["gaussian", "laplace"]
)
@pytest.mark.parametrize("name", designs(GAUSSIAN))
def test_pvalues_are_uniform_where_the_hypothesis_holds(name, noise, kind):
    """1000 p-values: a distance of .075 from uniform has a chance of 2e-5, and the lattice adds .005."""
    model, shares = designs(noise, kind)[name]
    rng = np.random.default_rng(4)
    pvalues = batch_pvalues(model, under_the_null(model, shares, 1000, 5), draws=199, rng=rng)
    assert pvalues.min() >= 1 / 200
    assert stats.kstest(pvalues, "uniform").statistic < 0.075


@pytest.mark.parametrize("name", designs(GAUSSIAN))
def test_draws_have_the_moments_of_sampling_and_noise(name):
    """Means and variances of 40,000 drawn cells, within five standard errors."""
    model, shares = designs(GAUSSIAN)[name]
    values = under_the_null(model, shares, 2, 1)
    fitted, size = model.fit(values), 40_000
    drawn = model.draw(fitted, size, np.random.default_rng(2))
    assert drawn.shape == (2, size, shares.size)
    expected = model.expected(values)
    total = expected.sum(axis=1, keepdims=True)
    if isinstance(model, Homogeneity):
        total = np.repeat(expected.reshape(2, 2, 3).sum(axis=2), 3, axis=1)
    variance = expected * (1 - expected / total) + model.noise.variance
    # A fitted number of rows is rounded to a whole one.
    assert np.abs(drawn.mean(axis=1) - expected).max() < 0.5 + 5 * np.sqrt(variance.max() / size)
    assert drawn.var(axis=1) == pytest.approx(variance, rel=5 * np.sqrt(2 / size))


@pytest.mark.parametrize("known", [True, False])
def test_leading_dimensions_and_blocks_do_not_matter(known):
    values = noisy(np.outer(ROWS, COLUMNS), 3000, GAUSSIAN, 1, 6000)
    table, sizes = (2, 3), np.array([1800.0, 1200.0]) if known else None
    for model in (
        Independence(table, GAUSSIAN, 3000 if known else None),
        Homogeneity(table, GAUSSIAN, sizes),
        GoodnessOfFit(np.outer(ROWS, COLUMNS).ravel(), GAUSSIAN, 3000 if known else None),
    ):
        whole = model.statistic(values.reshape(2, 3000, 6))
        assert whole.shape == (2, 3000)
        assert whole[1, 17] == pytest.approx(float(model.statistic(values[3017])), rel=1e-9)


@pytest.mark.parametrize("kind", ["projected", "pearson"])
@pytest.mark.parametrize(
    "values",
    [np.zeros(6), np.full(6, -50.0), np.array([-300.0, 5, 5, 5, 5, 5]), np.array([1e4, 0, 0, 0, 0, 0]), np.eye(6)[2]],
    ids=str,
)
def test_degenerate_counts_give_numbers(values, kind):
    for noise in (GAUSSIAN, LAPLACE, NONE):
        models = (
            GoodnessOfFit(np.full(6, 1 / 6), noise, None, kind),
            GoodnessOfFit(np.full(6, 1 / 6), noise, 1, kind),
            Independence((2, 3), noise, None, kind),
            Independence((2, 3), noise, 1, kind),
            Homogeneity((2, 3), noise, None, kind),
            Homogeneity((3, 2), noise, np.array([1.0, 2.0, 3.0]), kind),
        )
        for model in models:
            drawn = model.draw(model.fit(values[None]), 50, np.random.default_rng(1))
            assert np.isfinite(drawn).all()
            assert (model.expected(values) > 0).all()
            assert np.isfinite(model.statistic(drawn)).all()
            assert -1e-9 < model.statistic(values[None])[0] < np.inf


LAWS = {
    "gaussian": (NoiseLaw("gaussian", (1.3,)), 1),
    "gaussian, together": (NoiseLaw("gaussian", (2.0,)), 6),
    "gaussian, rounded": (NoiseLaw("gaussian", (9.5,)), 1),
    "gaussian, together and rounded": (NoiseLaw("gaussian", (3.0,)), 12),
    "laplace": (NoiseLaw("laplace", (2.5,)), 1),
    "laplace, together": (NoiseLaw("laplace", (1.5,)), 4),
    "laplace, averaged and together": (NoiseLaw("laplace", (1.5,), 3), 2),
}


def masses(law, together, reach=600):
    """Masses of the sum on -reach .. reach, by the characteristic function of one draw."""
    support = np.arange(-reach, reach + 1)
    scale = law.scales[0]
    one = np.exp(-(support**2) / (2 * scale**2)) if law.family == "gaussian" else np.exp(-np.abs(support) / scale)
    transform = np.fft.fft(np.fft.ifftshift(one / one.sum()))
    return support, np.fft.fftshift(np.fft.ifft(transform ** (together * law.draws)).real)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("step", [1.0, 0.25])
def test_noise_of_a_count_has_the_law_of_the_sum(name, step):
    """50,000 draws against exact masses; a false alarm once in 10,000 seeds."""
    law, together = LAWS[name]
    noise = CountNoise(law, step, together)
    support, exact = masses(law, together)
    assert noise.variance == pytest.approx(step**2 * (support**2 * exact).sum(), rel=1e-9)
    drawn = noise.rvs((100, 500), np.random.default_rng(3)) / step
    assert drawn.shape == (100, 500)
    assert np.array_equal(drawn, np.rint(drawn))
    counts = np.bincount((drawn.ravel() + 600).astype(int), minlength=1201)
    ample = exact * drawn.size >= 10
    observed = np.append(counts[ample], counts[~ample].sum())
    expected = np.append(exact[ample], exact[~ample].sum()) * drawn.size
    assert stats.chisquare(observed, expected, sum_check=False).pvalue > 1e-4
    assert noise.is_normal == (law.family == "gaussian")


def test_private_sizes_of_samples_are_those_of_independence():
    noise = CountNoise(NoiseLaw("gaussian", (9.0,)))
    values = noisy(np.outer([0.3, 0.7], [0.2, 0.3, 0.5]), 3000, noise, 5)
    samples, table = Homogeneity((2, 3), noise), Independence((2, 3), noise)
    assert samples.statistic(values) == pytest.approx(table.statistic(values))
    sizes, shares = samples.fit(values)
    assert np.abs(sizes - [900, 2100]).max() < 200
    assert shares.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("kind", ["projected", "pearson"])
def test_a_hidden_margin_is_tried_as_one_row_too(kind):
    noise = CountNoise(NoiseLaw("gaussian", (20.0,)))
    values = np.array([[400.0, 390, 410, 400], [900, 10, -15, 12]])
    model = Independence((2, 2), noise, None, kind)
    assert model.hidden(values).tolist() == [False, True]
    found = candidates(model, values)
    assert [one.where.tolist() for one in found] == [[0], [1], [1]]
    assert [one.model.kind for one in found] == [kind, "projected", "projected"]
    public = candidates(Independence((2, 2), noise, 907, kind), values[1:])
    assert [(one.model.nobs, one.model.kind) for one in public] == [(None, "projected")] * 2
    rows, cells = found[2].fitted
    shares = cells.reshape(2, 2)
    assert shares.sum(axis=0)[1] == pytest.approx(1 / rows[0, 0], rel=0.02)
    assert shares.sum(axis=1)[1] == pytest.approx(1 / rows[0, 0], rel=0.02)
    rng = np.random.default_rng(1)
    single = simulate(model, values[1], draws=999).pvalue
    assert single >= 0.9 * batch_pvalues(model, values, draws=999, rng=rng)[1]


def test_an_axis_with_a_hidden_margin_is_tried_with_all_rows_at_its_largest():
    noise = CountNoise(NoiseLaw("gaussian", (20.0,)))
    values = np.outer([0.6, 0.3, 0.1], [0.5, 0.5]).ravel()[None] * 400.0
    _, peaked = candidates(Independence((3, 2), noise, 400), values)
    shares = peaked.fitted[1].reshape(3, 2)
    assert shares.sum(axis=1)[1:] == pytest.approx(1 / 240, rel=0.05)
    assert shares.sum(axis=0) == pytest.approx(0.5, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize(("shape", "spread"), [((5, 5), 28.0), ((5, 5), 14.0), ((2, 2), 28.0)])
def test_tables_that_nearly_all_rows_are_in_one_cell_of_keep_the_level(shape, spread, public):
    """Of 1,200 releases at most .077 are rejected at .05: false alarm 1e-4 of an exact test."""
    rng, noise = np.random.default_rng(5), CountNoise(NoiseLaw("gaussian", (spread,)))
    shares = [np.append(0.98, np.full(levels - 1, 0.02 / (levels - 1))) for levels in shape]
    values = noisy(np.outer(*shares), 100, noise, 6, size=1200)
    pvalues = batch_pvalues(Independence(shape, noise, 100 if public else None), values, draws=199, rng=rng)
    assert np.mean(pvalues <= 0.05) <= stats.binom.isf(1e-4, 1200, 0.05) / 1200


# The nearest product of margins: a least distance, never negative, the same alone and among many


def tables(shape, n, spread, seed, many=5):
    rng = np.random.default_rng(seed)
    cells = np.outer(rng.dirichlet(np.full(shape[0], 2.0)), rng.dirichlet(np.full(shape[1], 2.0)))
    counts = rng.multinomial(n, cells.ravel(), size=many) + rng.normal(0, spread, (many, cells.size))
    return counts.T.reshape(*shape, many)


@given(st.integers(2, 4), st.integers(2, 4), st.integers(0, 5000), st.floats(0.3, 200), st.booleans(), seeds)
def test_products_are_never_negative_and_add_up(r, c, n, spread, known, seed):
    public = max(n, 1) if known else None
    table = tables((r, c), n, spread, seed)
    found = nearest_product(table, spread**2, public)
    assert (found.rows >= 0).all()
    assert (found.columns >= 0).all()
    assert (found.length >= 0).all()
    shares = found.columns.sum(axis=0)
    assert ((np.abs(shares - 1) < 1e-9) | (found.rows.sum(axis=0) < 1e-9)).all()
    if known:
        assert found.rows.sum(axis=0) == pytest.approx(np.full(5, public))
    alone = nearest_product(table[..., 2:3], spread**2, public)
    assert alone.length == pytest.approx(found.length[2:3])


@given(st.integers(2, 3), st.integers(2, 4), st.integers(0, 2000), st.floats(1, 100), seeds)
def test_no_product_with_positive_margins_is_much_nearer(r, c, n, spread, seed):
    table = tables((r, c), n, spread, seed, many=1)
    found = nearest_product(table, spread**2, None)
    rows, columns = margins_of(table, None)
    weight = 1 / (rows[:, None] * columns + spread**2)[..., 0]

    def far(margins):
        return (weight * (table[..., 0] - np.outer(margins[:r], margins[r:])) ** 2).sum()

    start = np.concatenate([found.rows[:, 0], found.columns[:, 0]])
    best = optimize.minimize(far, start, method="L-BFGS-B", bounds=[(0, None)] * (r + c))
    assert found.length[0] == pytest.approx(far(start))
    assert found.length[0] <= best.fun + 0.05 * max(best.fun, 1.0)


def test_margins_are_at_least_one_row():
    table = np.array([[-500.0, 3, 4, 10, 20, 30], [200, 100, 100, 300, 150, 150]]).T.reshape(2, 3, 2)
    for nobs, total in ((None, [1.0, 1000.0]), (1000, [1000.0, 1000.0])):
        rows, columns = margins_of(table, nobs)
        assert rows.sum(axis=0) == pytest.approx(total)
        assert columns.sum(axis=0) == pytest.approx([1, 1])
        assert (rows > 0).all()
        assert (columns > 0).all()
    assert rows[:, 1] == pytest.approx([400, 600])
    assert columns[:, 1] == pytest.approx([0.5, 0.25, 0.25])
