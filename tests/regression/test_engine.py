"""The engine of regression: where scores are clipped, what that may bias, and tests by scores."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

import dpinfer as dpi
from dpinfer.kernel.stage import Context
from dpinfer.regression import clipping, inference, iterations, models, question
from dpinfer.regression.clipping import Lengths, folded_quantile, length_cuts
from dpinfer.regression.question import Newton
from validation.regression.newton_draws import Drawer

FAIR = sm.datasets.fair.load_pandas().data.assign(affair=lambda d: d.affairs > 0)
SCHEMA = dpi.Schema(
    affair=dpi.Boolean(), rate_marriage=dpi.Integer(1, 5), age=dpi.Real(17, 42), yrs_married=dpi.Real(0, 25)
)
LOGIT = "affair ~ rate_marriage + age + yrs_married"


def counted(lengths, noise, rng):
    cuts = length_cuts(0.3)
    counts = np.bincount(np.searchsorted(cuts, lengths, side="right"), minlength=len(cuts) + 1).astype(float)
    return Lengths.read(counts + rng.normal(0, noise, len(counts)), cuts, max(noise, 1e-9))


def test_without_noise_excesses_are_those_of_the_lengths():
    rng = np.random.default_rng(1)
    lengths = rng.gamma(4.0, 1.0, 20_000)
    found = counted(lengths, 0.0, rng)
    for clip in (2.0, 5.0, 8.0):
        right = np.maximum(lengths - clip, 0).sum()
        assert found.excess(np.array([clip]))[0] == pytest.approx(right, rel=0.15)


TAILS = {
    "index 1.3": (1.3, 0.4, 0.7),
    "index 2": (2.0, 0.8, 1.5),
    "index 4": (4.0, 2.0, 16.0),
}


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("noise", [3.0, 9.0])
def test_what_noise_hides_beyond_the_edge_is_found_on_average(tail, noise):
    """Of the heaviest tails half is found; that there may be one is allowed for where tails are light."""
    index, least, most = TAILS[tail]
    rng, found, right = np.random.default_rng(7), [], []
    cuts = length_cuts(0.3)
    for _ in range(60):
        lengths = np.minimum(rng.random(2000) ** (-1 / index), 200.0)
        counts = np.bincount(np.searchsorted(cuts, lengths, side="right"), minlength=len(cuts) + 1).astype(float)
        read = Lengths.read(counts + rng.normal(0, noise, len(counts)), cuts, noise, 200.0)
        clips = read.edge * np.array([1.0, 2.0])
        found.append(read.excess(clips))
        right.append(np.maximum(lengths[:, None] - clips, 0).sum(axis=0))
    ratios = np.mean(found, axis=0) / np.mean(right, axis=0)
    assert (ratios > least).all()
    assert (ratios < most).all()


@pytest.mark.parametrize("counts", [[60, 10, 4, -5, 8, 2, -3, 1], [300, -9, 3, 12, 0, 4], [12, -20, -7, 3], [4, 2]])
def test_the_law_is_the_posterior_mean_over_number_and_index(counts):
    """By sums over a fine grid of numbers of units, for every index and for both roles of the first bin."""
    counts, noise, indices = np.array(counts, dtype=float), 5.0, clipping._INDICES
    number = np.linspace(0, 3000, 600_001)
    found, total = np.zeros(len(indices)), 0.0
    for place, index in enumerate(indices):
        prior = np.exp(-1 / (index * clipping._HEAVY))
        for start in (0, 1):
            inner = counts[start:]
            ends = 2.0 ** (-index * np.arange(len(inner) + 1) / 2)
            shares = np.append(ends[:-2] - ends[1:-1], ends[-2])
            odds = -0.5 * ((inner[:, None] - shares[:, None] * number) ** 2).sum(axis=0) / noise**2
            own = np.sqrt(2 * np.pi) * noise / max(counts[0], noise) if start else 1.0
            density = prior * own * np.exp(odds + 0.5 * ((counts[1:] / noise) ** 2).sum())
            found[place] += (density * number).sum() * (1.0 if start else 2.0 ** (-index / 2))
            total += density.sum()
    np.testing.assert_allclose(clipping._law(counts, noise, first=False), [found / total], rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("counts", [[9, 25, 30, 14, -3, 1], [2, -9, 3, -4], [4, 2]])
def test_where_nothing_is_seen_the_law_may_start_in_any_bin(counts):
    """By sums over the same grid: each octave farther out is half as likely, and bins before the start hold nothing.

    A law that starts later holds at least as many units as are counted before the edge.
    """
    counts, noise, indices = np.array(counts, dtype=float), 5.0, clipping._INDICES
    number, inner = np.linspace(0, 3000, 600_001), counts[1:]
    found = np.zeros((len(inner), len(indices)))
    total = 0.0
    for start in range(len(inner)):
        for place, index in enumerate(indices):
            ends = 2.0 ** (-index * np.arange(len(inner) - start + 1) / 2)
            shares = np.append(np.zeros(start), np.append(ends[:-2] - ends[1:-1], ends[-2]))
            odds = -0.5 * ((inner[:, None] - shares[:, None] * number) ** 2).sum(axis=0) / noise**2
            prior = np.exp(-1 / (index * clipping._HEAVY)) * 2.0 ** (-start / 2)
            density = prior * np.exp(odds + 0.5 * ((inner / noise) ** 2).sum())
            density[: np.searchsorted(number, counts[0] if start else 0.0)] = 0
            found[start, place] += (density * number).sum()
            total += density.sum()
    np.testing.assert_allclose(clipping._law(counts, noise, first=True), found / total, rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("counts", [[2, 22, -3, 1, 5, -7], [9, 14, -2], [-60, -9], [21, 18, 40], [3]])
def test_a_lump_is_the_posterior_mean_over_its_place_and_number(counts):
    """One or two bins may hold it, spread evenly, or none; by sums over a grid of numbers of units."""
    counts, noise, clip = np.array(counts, dtype=float), 5.0, 1.5
    number = np.linspace(0, 500, 500_001)
    found, total = 0.0, 1.0
    for width in range(1, min(2, len(counts)) + 1):
        for place in range(len(counts) - width + 1):
            seen, length = counts[place : place + width, None], 2.0 ** (place / 2 + width / 4)
            odds = ((seen**2 - (seen - number / width) ** 2) / (2 * noise**2)).sum(axis=0)
            prior = clipping._LIKELY * 2.0 ** (-place / 2) / (noise * np.sqrt(width))
            density = prior * np.exp(odds) * (number[1] - number[0])
            found += (density * number).sum() * max(length - clip, 0.0)
            total += density.sum()
    lumps = clipping._Lumps.of(counts, 1.0, np.inf, noise)
    taken = np.maximum(lumps.lengths - clip, 0.0) @ lumps.expected(clipping._LIKELY)
    assert taken == pytest.approx(found / total, rel=2e-3, abs=1e-9)


@pytest.mark.filterwarnings("error")
def test_a_lump_is_whole_where_noise_is_next_to_nothing():
    lumps = clipping._Lumps.of(np.array([-3e8, 4.0, 2e8]), 1.0, 2.2, 1e-6)
    np.testing.assert_allclose(lumps.expected(clipping._LIKELY), [0.0, 0.0, 2e8, 0.0, 0.0], atol=1.0)
    assert lumps.lengths.max() == 2.2


def test_squares_that_are_missing_are_carried_by_a_lump_that_explains_the_counts():
    """By hand, over the places of lumps; with nothing counted, and half of the squares left, none is likely."""
    cuts, noise = length_cuts(1.0), 5.0
    counts = np.zeros(len(cuts) + 1)
    counts[[0, 1, 2]] = 4000, 3000, 1000
    counts[8] = 19.0
    read = Lengths.read(counts, cuts, noise, 40.0)
    squares, clip, seen = 19.0 * (2.0**3.75) ** 2, 3.0, 2.0
    found, total, edge = 0.0, 0.1**2, read.edge
    assert edge == 2.0
    bins = counts[3 : 1 + int((cuts < 40.0).sum())]
    for width in (1, 2):
        for place in range(len(bins) - width + 1):
            length = min(edge * 2.0 ** (place / 2 + width / 4), 40.0)
            number = squares / (length**2 - seen**2)
            off = [((bins[place : place + width] - one / width) ** 2).sum() for one in (0.0, number)]
            odds = 2.0 ** (-place / 2) * np.exp((off[0] - off[1]) / (2 * noise**2))
            found += odds * number * max(length - clip, 0.0)
            total += odds
    taken = read.carried(np.array([squares]), np.array([0.9]), clip, seen)[0]
    assert taken == pytest.approx(found / total, rel=1e-9)
    assert taken > 0.8 * 19 * (2.0**3.75 - clip)
    none = Lengths.read(np.where(counts == 19.0, 0.0, counts), cuts, noise, 40.0)
    assert none.carried(np.array([squares]), np.array([0.5]), clip, seen)[0] < 0.4 * taken


def test_a_bulk_that_no_count_shows_is_allowed_for():
    """Two hundred people far beyond the first cut, in bins of which none is clear of Laplace noise."""
    rng, cuts, found = np.random.default_rng(4), length_cuts(0.5), []
    lengths = np.concatenate([np.full(120, 0.3), rng.gamma(3.0, 2.0, 200)])
    counts = np.bincount(np.searchsorted(cuts, lengths, side="right"), minlength=len(cuts) + 1).astype(float)
    for _ in range(100):
        noisy = counts + rng.laplace(0, 20 / np.sqrt(2), len(counts))
        read = Lengths.read(noisy, cuts, 20.0, 600.0, norm="l1")
        if len(read.counts) == 1:
            found.append(read.excess(np.array([1.0]))[0])
    assert len(found) > 20
    assert np.median(found) > 0.7 * np.maximum(lengths - 1.0, 0).sum()
    assert np.mean(found) < 3 * np.maximum(lengths - 1.0, 0).sum()


def test_a_bulk_that_is_counted_before_the_edge_is_not_looked_for_beyond():
    """Three thousand units below the first cut: no law that starts later holds as many, though noise is above zero."""
    counts = np.array([3000.0, 0.0, 15.0, -5.0, 20.0, 60.0, 10.0, 30.0])
    beyond = clipping._law(counts, 20.0, first=True)
    number, odds = clipping._fitted(counts[1:], 20.0)
    weight = np.exp(odds - odds.max() - 1 / (clipping._INDICES * clipping._HEAVY))
    np.testing.assert_allclose(beyond[0], number * weight / weight.sum(), rtol=1e-12)
    assert (beyond[1:] < 1e-100).all()


def test_no_unit_lies_beyond_the_farthest():
    counts = np.array([500.0, 300.0, *np.full(21, 20.0)])
    assert not Lengths.read(counts, length_cuts(1.0), 20.0, 0.9).beyond.any()
    cut_off = Lengths.read(np.append(counts[:6], np.full(17, -40.0)), length_cuts(1.0), 3.0, 5.6)
    same = Lengths.read(np.append(counts[:6], np.full(17, 40.0)), length_cuts(1.0), 3.0, 5.6)
    np.testing.assert_array_equal(cut_off.beyond, same.beyond)


def test_where_lengths_end_hardly_any_are_taken_to_lie_beyond():
    rng = np.random.default_rng(1)
    found = counted(rng.uniform(1.0, 2.0, 2000), 3.0, rng)
    assert found.beyond.sum() < 4
    assert found.excess(np.array([found.edge]))[0] < 0.02 * 2000


@pytest.mark.parametrize("seed", range(5))
def test_the_law_beyond_what_is_seen_is_no_lighter_than_normal_scores(seed):
    """The bound holds at any clip for tails lighter than the law's: so it does for lengths of normal vectors."""
    rng = np.random.default_rng(seed)
    lengths = np.linalg.norm(rng.normal(size=(5000, 4)), axis=1) * np.abs(rng.normal(size=5000))
    found = counted(lengths, 12.0, rng)
    clips = np.array([6.0, 8.0, 10.0])
    right = np.maximum(lengths[:, None] - clips, 0).sum(axis=0)
    assert (found.excess(clips) * (1 + 12.0 / found.beyond.sum()) >= right).all()


def test_less_noise_clips_farther_out_and_never_makes_an_interval_longer():
    rng = np.random.default_rng(3)
    found = counted(rng.gamma(4.0, 1.0, 5000), 4.0, rng)
    clips = [found.clip(4, noise, noise, final=True) for noise in (0.01, 1.0, 8.0)]
    assert clips[0].length >= clips[1].length >= clips[2].length
    assert clips[0].excess <= clips[1].excess <= clips[2].excess
    assert all(one.meat <= one.length for one in clips)


def test_bias_aware_critical_values_are_those_of_folded_normal_laws():
    assert folded_quantile(0.05, np.zeros(1))[0] == pytest.approx(1.959964, rel=1e-6)
    for bias in (0.3, 1.0, 3.0, 20.0):
        end = folded_quantile(0.05, np.array([bias]))[0]
        assert stats.norm.cdf(end - bias) - stats.norm.cdf(-end - bias) == pytest.approx(0.95, abs=2e-4)


@pytest.fixture(scope="module")
def noisy():
    data = dpi.PublicData(FAIR, SCHEMA, rng=np.random.default_rng(5))
    return dpi.logit(LOGIT, data).fit(dpi.ZCDP(0.05))


def test_p_values_are_the_levels_at_which_intervals_end(noisy):
    for method in ("wald", "score"):
        results = noisy.with_inference(method)
        for level in (0.01, 0.05, 0.3):
            ends = results.conf_int(alpha=level).to_numpy()
            for name, row in zip(results.params.index, ends, strict=True):
                for end in row:
                    pvalue = float(np.ravel(results.t_test(f"{name} = {float(end)!r}").pvalue)[0])
                    assert pvalue == pytest.approx(level, rel=0.03)


def test_the_score_statistic_is_the_least_over_the_other_coefficients(noisy):
    fit = noisy.inference.fit
    contrast, value = np.eye(len(fit.params))[1], np.array([fit.params[1] + 0.3])
    least = fit.statistic(contrast[None], value)
    rng = np.random.default_rng(6)
    for scale in (0.001, 0.02, 0.3):
        for _ in range(200):
            theta = fit.params + scale * rng.normal(size=len(fit.params))
            theta[1] = value[0]
            step = np.linalg.solve(fit.whiten, theta - fit.point)
            left = fit.score - fit.hessian @ step
            assert left @ np.linalg.solve(fit.noise(step) + fit.meat, left) >= least * (1 - 1e-4)


def test_tables_have_the_bound_on_the_bias_and_intervals_count_it(noisy):
    frame = noisy.summary_frame()
    assert (frame["bias bound"] > 0).all()
    half = (frame["0.975]"] - frame["[0.025"]) / 2
    assert (half > 1.96 * frame["std err"]).all()
    assert np.allclose(frame["bias bound"], noisy.inference.bias_bound)


def test_a_lump_of_noise_is_no_estimate():
    """A column of 0 and 1 that is declared far wider stays near what least squares gives."""
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"x": rng.integers(0, 2, 2000).astype(float), "y": rng.normal(0, 1, 2000).clip(-5, 5)})
    schema = dpi.Schema(x=dpi.Real(-1, 1), y=dpi.Real(-5, 5))
    found = [
        dpi.ols("y ~ x", dpi.PublicData(frame, schema, rng=rng)).fit(dpi.ZCDP(0.05)).params["x"] for _ in range(100)
    ]
    assert np.sqrt(np.mean(np.square(found))) < 0.5


def test_under_pure_prices_rows_are_shortened_less_the_more_rows_there_are():
    """Of many rows what a Hessian lacks matters more than its noise."""

    def radius(rows):
        data = dpi.PublicData(rows, SCHEMA, rng=np.random.default_rng(1))
        stages = dpi.ols(LOGIT, data, method="newton").fit(dpi.PureDP(5)).release.stages
        return next(stage.settings["radius"] for stage in stages if "shift" in stage.settings)

    many = pd.concat([FAIR] * 20, ignore_index=True)
    assert 4 * 0.75 <= radius(FAIR[:600]) < radius(many) <= 4 * 2.0 * (1 + 1e-9)


def test_a_hessian_of_shortened_rows_is_raised_to_that_of_all_rows(monkeypatch):
    """Half of what it may lack is added, and the rest is what it may be off by in any direction."""
    monkeypatch.setattr(iterations, "_LENGTHS_TRIED", (0.95, 0.95))
    data = dpi.PublicData(FAIR, SCHEMA, rng=np.random.default_rng(1))
    found = dpi.ols(LOGIT, data, method="newton").fit(dpi.PureDP(3000))._inference
    x = np.column_stack([np.ones(len(FAIR)), FAIR[["rate_marriage", "age", "yrs_married"]]])
    unit = found.weights[0, 0]
    z = x @ found.weights @ found.fit.whiten / unit
    share = np.linalg.eigvals(np.linalg.solve(found.fit.hessian, z.T @ z)).real
    allowed = 0.25
    assert 1 - allowed < share.min()
    assert share.max() < 1 + allowed
    assert share.max() - share.min() > 0.02


def test_one_small_eigenvalue_has_the_noise_of_few_columns():
    """In a large matrix with one eigenvalue near noise, the edge of noise is not that of the whole matrix."""
    width, noise = 9, 1.0
    floor = 1.6 * noise * np.sqrt(width)
    one = inference._clear_of_noise(np.array([3.0, *[100.0] * (width - 1)]), floor)
    many = inference._clear_of_noise(np.array([3.0] * width), floor)
    assert one == pytest.approx(1.6 * np.sqrt(2))
    assert many == pytest.approx(floor)
    rng = np.random.default_rng(1)
    least = []
    for _ in range(2000):
        noisy = rng.normal(size=(width, width)) * noise / np.sqrt(2)
        noisy = (noisy + noisy.T) / np.sqrt(2)
        least.append(np.linalg.eigvalsh(noisy + np.diag([0.0, *[100.0] * (width - 1)]))[0])
    assert np.mean(np.array(least) > one) < 0.02


@pytest.mark.parametrize("model", ["ols", "logit"])
def test_slopes_of_regressors_with_long_tails_are_covered_under_pure_prices(model):
    """Weights of a logit's long rows are small, and shortened rows are much of a Hessian."""
    schema = dpi.Schema(z=dpi.Real(0, 20), y=dpi.Boolean() if model == "logit" else dpi.Real(-20, 20))
    rng, missed = np.random.default_rng(3), 0
    for _ in range(12):
        z = np.minimum(np.exp(rng.normal(size=20_000)), 20.0)
        mean = 0.4 * z - 0.5
        y = rng.random(len(z)) < 1 / (1 + np.exp(-mean)) if model == "logit" else mean + rng.normal(size=len(z))
        data, other = dpi.PublicData(pd.DataFrame({"z": z, "y": y}), schema, rng=rng), {"logit": {}}
        results = getattr(dpi, model)("y ~ z", data, **other.get(model, {"method": "newton"})).fit(dpi.PureDP(5))
        low, high = results.conf_int(alpha=0.01).loc["z"]
        missed += int(not low <= 0.4 <= high)
    assert missed <= 2  # three of twelve at level .01: a false alarm in about 5,000 runs


@pytest.mark.parametrize("noise", [0.0, 0.2, 0.45, 0.7])
def test_of_one_coefficient_the_interval_is_that_of_a_ratio(noise):
    """Fieller's: values x with (s - J x)^2 <= z^2 (sigma^2 + noise^2 x^2), unbounded if J is no z of its noise."""
    score, hessian, sigma, one = 3.0, 1.2, 0.8, np.eye(1)
    fit = inference.Fit(
        np.zeros(1), np.array([score / hessian]), one, np.array([score]), hessian * one, one / hessian,
        np.zeros((1, 0)), 0.0 * one, 0.0 * one, 0.0, sigma, ((one, noise, 0.0),), 0.0, np.zeros((1, 0)), 0.0,
        np.zeros(1), False,
    )  # fmt: skip
    found = inference.RegressionInference(("x",), fit, one, np.zeros(1), nobs=100.0, nobs_is_public=True)
    z = stats.norm.isf(0.025)
    left = hessian**2 - z**2 * noise**2
    ends = found.intervals(one, 0.05)[0]
    if left <= 0:
        assert np.isinf(ends).any()
        return
    root = np.sqrt(score**2 * hessian**2 - left * (score**2 - z**2 * sigma**2))
    assert ends == pytest.approx([(score * hessian - root) / left, (score * hessian + root) / left], rel=1e-6)
    assert found.contrast_pvalues(one, ends[1:])[0] == pytest.approx(0.05, rel=1e-3)


def of_steps(step, hessian, noise, meat, meat_noise, rng, size):
    """Draw inferences of steps whose truth is ``step``, of scores with noise 1, and of noisy Hessians and products."""
    width = len(step)
    for _ in range(size):
        blurs = [rng.normal(size=(width, width)) for _ in range(2)]
        seen, products = (
            true + spread * (one + one.T) / 2 for true, spread, one in zip(
                (hessian, meat), (noise, meat_noise), blurs, strict=True)
        )  # fmt: skip
        score = hessian @ step + np.linalg.cholesky(meat) @ rng.normal(size=width) + rng.normal(size=width)
        inverse = np.linalg.inv(seen)
        fit = inference.Fit(
            np.zeros(width), inverse @ score, np.eye(width), score, seen, inverse, np.zeros((width, 0)), products,
            products, meat_noise, 1.0, ((np.eye(width), noise, 0.0),), 0.0, np.zeros((width, 0)), 0.0,
            np.zeros(width), False,
        )  # fmt: skip
        names = tuple(f"x{place}" for place in range(width))
        yield inference.RegressionInference(names, fit, np.eye(width), np.zeros(width), nobs=100.0, nobs_is_public=True)


@pytest.mark.parametrize("noise", [0.0, 1.5, 5.0])
def test_joint_tests_of_the_truth_are_exact_however_large_the_noise_of_the_hessian(noise):
    """At the step of the truth its noise has a known covariance; at that of the estimate it has another."""
    step, hessian = np.array([2.0, -1.0, 1.5]), np.diag([12.0, 15.0, 20.0])
    drawn = of_steps(step, hessian, noise, 1e-9 * np.eye(3), 0.0, np.random.default_rng(2), 2000)
    rejected = np.mean([one.wald(np.eye(3), step)[2] < 0.05 for one in drawn])
    assert abs(rejected - 0.05) < 0.017  # 3.5 standard errors


@pytest.mark.parametrize(("width", "steady"), [(3, 0.1), (8, 0.15), (8, 0.03)])
def test_joint_tests_allow_for_noisy_products_of_scores(width, steady):
    """A noisy matrix has too large an inverse, in the more directions the more there are (Hotelling, 1931)."""
    step, meat = np.ones(width), 400.0 * np.eye(width)
    drawn = of_steps(step, 1e3 * np.eye(width), 0.0, meat, 400 * steady, np.random.default_rng(3), 2000)
    rejected = np.mean([one.wald(np.eye(width), step)[2] < 0.05 for one in drawn])
    assert 0.02 < rejected < 0.067


def test_the_joint_test_of_one_contrast_is_the_test_of_that_contrast():
    step, rng = np.array([2.0, -1.0, 1.5]), np.random.default_rng(4)
    (found,) = of_steps(step, np.diag([12.0, 15.0, 20.0]), 2.0, np.eye(3), 0.05, rng, 1)
    contrasts, away = rng.normal(size=(5, 3)), rng.normal(size=5)
    turned, square = found.fit.bent(contrasts)
    variances = np.diag(found.fit.cov_sampling(contrasts) + found.fit.cov_noise(contrasts))
    for place in range(5):
        several = found.fit.tested(contrasts[place : place + 1], away[place : place + 1])
        alone = variances[place] + 2 * turned[place] * away[place] + square[place] * away[place] ** 2
        assert several[0, 0] == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize("slopes", [(0.0, 8.0, -6.0), (0.0, 1.0, 1.0)])
def test_slopes_along_directions_that_noise_hides_are_covered(slopes):
    """Columns that differ by a tenth of their spread: noise of the start is far above how little rows vary there."""
    schema = dpi.Schema(a=dpi.Real(-1, 1), b=dpi.Real(-1, 1), y=dpi.Real(-8, 8))
    rng, missed = np.random.default_rng(6), 0
    asked = Drawer(Newton(formula="y ~ a + b", model="ols"), Context(schema, "add_remove", dpi.ZCDP(0.02)))
    for _ in range(60):
        common = rng.normal(0, 0.35, 1000)
        x = np.clip(common[:, None] + rng.normal(0, 0.05, (1000, 2)), -1, 1)
        y = np.clip(x @ slopes[1:] + rng.normal(0, 0.5, 1000), -8, 8)
        low, high = asked.estimate({"a": x[:, 0], "b": x[:, 1], "y": y}, rng).intervals(np.eye(3), 0.05).T
        missed += int(not low[1] <= slopes[1] <= high[1])
    assert missed <= 7  # of level .05 at most: more are missed once in 5,000 runs


@pytest.mark.parametrize("cut", [1.0, 2.0])
def test_what_is_cut_off_a_step_is_a_bias_and_what_noise_hides_is_an_ellipsoid(cut):
    """Bounds of contrasts are those of the vectors that they stand for."""
    rng, k = np.random.default_rng(8), 4
    second, whiten = np.cov(rng.normal(size=(4, 30))), rng.normal(size=(k, k))
    directions = np.linalg.qr(rng.normal(size=(k, 2)))[0]
    possible = inference._possible(directions, whiten, second, cut)
    along = rng.normal(size=(2, 50_000))
    steps = whiten @ directions @ along
    steps *= cut / np.sqrt(np.einsum("in,ij,jn->n", steps, second, steps))
    contrast = rng.normal(size=k)
    reached = np.linalg.norm(contrast @ whiten @ possible)
    assert np.abs(contrast @ steps).max() == pytest.approx(reached, rel=1e-4)
    (found,) = of_steps(np.array([2.0, -1.0, 1.5]), 9 * np.eye(3), 2.0, np.eye(3), 0.05, rng, 1)
    rest, contrasts = np.array([0.3, -0.2, 0.1]), rng.normal(size=(5, 3))
    shortened = replace(found.fit, rest=rest)
    assert shortened.bias(contrasts) - found.fit.bias(contrasts) == pytest.approx(np.abs(contrasts @ rest))


@pytest.mark.parametrize("flat", [False, True])
def test_a_joint_test_allows_for_the_worst_bias_within_its_bounds(flat):
    """No bias of the score within the bounds moves the statistic farther: tried at random, and reached."""
    rng, contrasts = np.random.default_rng(9), np.eye(3)[1:]
    (found,) = of_steps(np.array([2.0, -1.0, 1.5]), np.diag([9.0, 4.0, 2.0]), 0.1, np.eye(3), 0.05, rng, 1)
    fit, covariance = replace(found.fit, excess=2.0, flat=flat), np.array([[2.0, 0.5], [0.5, 1.0]])
    tried = rng.normal(size=(100_000, 3))
    tried /= (np.abs(tried).sum(axis=1) if flat else np.linalg.norm(tried, axis=1))[:, None]
    moved = 2.0 * np.concatenate([tried, np.eye(3)]) @ fit.loadings(contrasts).T
    largest = np.einsum("ni,ij,nj->n", moved, np.linalg.inv(covariance), moved).max()
    assert fit.joint_shift(contrasts, covariance) == pytest.approx(largest, rel=1e-3)


def test_the_products_of_a_likelihood_are_no_less_than_its_hessian():
    """What they fall short by beyond noise is restored; and what clipping took of the score is a bias there."""
    vectors = np.linalg.qr(np.random.default_rng(5).normal(size=(4, 4)))[0]
    even = vectors * np.array([100.0, 100.0, 100.0, 80.0]) @ vectors.T
    products = vectors * np.array([40.0, 95.0, 130.0, 80.0]) @ vectors.T
    asked = []

    def carried(squares, shares):
        asked.append((squares, shares))
        return 0.1 * squares

    filled, short = inference._evened(products, even, 10.0, carried, flat=False)
    np.testing.assert_allclose(filled, vectors * np.array([100.0, 95.0, 130.0, 80.0]) @ vectors.T, atol=1e-12)
    np.testing.assert_allclose(np.abs(short), 0.1 * 60 * np.abs(vectors[:, :1]), atol=1e-12)
    sums = inference._evened(products, even, 10.0, carried, flat=True)[1]
    unit = np.abs(vectors[:, 0]).sum()
    np.testing.assert_allclose(np.abs(sums), 0.1 * 60 * unit * np.abs(vectors[:, :1]), atol=1e-12)
    np.testing.assert_allclose(np.array(asked).ravel(), [60.0, 0.6, 60.0 * unit**2, 0.6])
    assert inference._evened(products, even, 61.0, carried, flat=False)[1].shape == (4, 0)
    (found,) = of_steps(np.array([2.0, -1.0, 1.5]), 9 * np.eye(3), 0.0, np.eye(3), 0.05, np.random.default_rng(5), 1)
    both = replace(found.fit, short=np.array([[0.9, 0.0], [0.0, 1.8], [0.0, 0.0]]))
    assert both.bias(np.array([[1.0, 1.0, 1.0]])) == pytest.approx([0.1 + 0.2])


def test_slopes_of_a_rare_level_with_a_strong_effect_are_covered():
    """Two dozen rows without the event decide the slope, and the noise of counts, of 6 rows, hides most of them."""
    rng, covered = np.random.default_rng(5), []
    schema = dpi.Schema(y=dpi.Boolean(), d=dpi.Boolean(), x=dpi.Real(-4, 4))
    for _ in range(100):
        d, x = rng.random(10_000) < 0.02, rng.normal(size=10_000).clip(-4, 4)
        y = rng.random(10_000) < 1 / (1 + np.exp(1 - 3 * d - 0.5 * x))
        source = np.random.default_rng(rng.integers(1 << 40))
        data = dpi.PublicData(pd.DataFrame({"y": y, "d": d, "x": x}), schema, rng=source, neighbors="add_remove")
        low, high = dpi.logit("y ~ d + x", data).fit(dpi.ZCDP(0.1)).conf_int().to_numpy()[1]
        covered.append(low <= 3 <= high)
    assert np.mean(covered) > 0.88


def test_a_joint_bias_of_restrictions_that_depend_on_each_other_is_that_of_one():
    (found,) = of_steps(np.array([2.0, -1.0, 1.5]), 9 * np.eye(3), 0.0, np.eye(3), 0.05, np.random.default_rng(5), 1)
    fit, twice = replace(found.fit, excess=2.0), np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    one = fit.joint_shift(twice[:1], np.eye(1))
    assert fit.joint_shift(twice, np.ones((2, 2))) == pytest.approx(one, rel=1e-3)


def test_an_interval_of_lost_directions_alone_does_not_depend_on_rounding():
    """What is left of a contrast beside them is rounding, which another processor does otherwise."""
    rng = np.random.default_rng(5)
    vectors, contrasts = np.linalg.qr(rng.normal(size=(3, 3)))[0], np.eye(3)
    (found,) = of_steps(np.array([2.0, -1.0, 1.5]), 9 * np.eye(3), 2.0, np.eye(3), 0.05, rng, 1)
    for blur in (0.0, 1e-15):
        lost = 4 * vectors * (1 + blur * rng.normal(size=(3, 3)))
        none, some = (replace(found.fit, lost=one) for one in (lost, lost[:, :2]))
        assert (np.array(none.bent(contrasts)) == 0).all()
        assert (some.bent(contrasts)[1] > 0).all()
        assert none.tested(contrasts, np.ones(3)) == pytest.approx(
            none.cov_sampling(contrasts) + none.cov_noise(contrasts)
        )


@pytest.mark.parametrize(
    ("model", "share", "spread", "least", "most"),
    [
        ("logit", 0.5, 0.5, 0.15, 0.4),
        ("logit", 0.5, 3.0, 0.4, 0.5),
        ("logit", 0.02, 0.5, 0.8, 1.0),
        ("probit", 0.02, 0.5, 1.2, 2.5),
        ("cloglog", 0.02, 0.5, 0.8, 1.0),
    ],
)
def test_hessians_of_rare_outcomes_bend_more(model, share, spread, least, most):
    """As a sum over rows: the mean size of the change of weights over their mean, for normal predictors."""
    rng, one = np.random.default_rng(2), models.MODELS[model]
    centre = float(models.intercept_for(one.response, share, spread**2))

    def found(centre, mass, intercept):
        second = mass * np.eye(2)
        rest = (np.zeros(2), 1.0, 1.0, 1.0, (second, 1.0, 1.0))
        start = iterations.Start(np.eye(2), 0.0, 1.0, 100.0, (100.0, 1.0), second, *rest)
        plan = SimpleNamespace(model=one, columns=SimpleNamespace(intercept=intercept))
        return question._bend(plan, start, np.array([centre, spread]), {})

    drawn = centre + spread * rng.normal(size=400_000)
    right = np.abs(one.weight(drawn + 0.01) - one.weight(drawn - 0.01)).mean() / 0.02 / one.weight(drawn).mean()
    assert found(centre, 1.0, True) == pytest.approx(right, rel=0.02)
    assert found(centre, 0.6, True) == pytest.approx(found(centre, 1.0, True), rel=1e-9)
    assert least < found(centre, 1.0, True) < most
    assert found(0.0, 1.0, False) == pytest.approx(found(0.0, 1.0, True), rel=1e-9)
