"""Estimates, covariance and tests from noisy sums over blocks, against direct formulas; whatever the noise, no NaN."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpinfer.errors import InferenceError
from dpinfer.resampling.blocks import Frame
from dpinfer.resampling.inference import AggregateInference, BlockSums, edge_warnings
from dpinfer.schema.region import Region

CENTER, HALF = np.array([1.0, -2.0, 0.5]), np.array([0.5, 3.0, 0.01])
NAMES = ("a", "b", "c")


def estimates(blocks=40, size=3, seed=1):
    """Winsorised block estimates in the unit ball (k, p), correlated."""
    rng = np.random.default_rng(seed)
    v = 0.1 * rng.normal(size=(blocks, size)) @ (np.eye(size) + 0.4 * np.tri(size, k=-1)) + 0.05
    return v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1.0)


def summed(v, *, noise=0.0, products=0.0, counts=(0.0, 0.0), noise_count=1e-6, laplace=False, moved=None):
    """Sums of block estimates; ``moved`` is added to sums and products, as noise would be."""
    size = v.shape[1]
    shift, change = moved or (0.0, 0.0)
    return BlockSums(
        blocks=len(v),
        sums=v.sum(axis=0) + shift,
        products=v.T @ v + change,
        counts=np.array(counts, dtype=float),
        noise_sum=float(noise),
        noise_product=np.broadcast_to(np.asarray(products, dtype=float), (size, size)),
        noise_count=noise_count,
        laplace=laplace,
    )


def inferred(sums, **changes):
    size = len(sums.sums)
    frame = Frame(CENTER[:size], HALF[:size], np.ones(len(CENTER[:size]), dtype=bool))
    return AggregateInference(**{"names": NAMES[:size], "blocks": sums, "frame": frame, **changes})


def in_units(v):
    return CENTER[: v.shape[1]] + HALF[: v.shape[1]] * v


# Without noise


def test_without_noise_it_is_the_t_interval_of_the_block_estimates():
    v = estimates()
    found, t = inferred(summed(v)), in_units(v)
    np.testing.assert_allclose(found.params, t.mean(axis=0))
    np.testing.assert_allclose(found.cov_sampling, np.cov(t.T) / 40, rtol=1e-10)
    np.testing.assert_array_equal(found.cov_noise, np.zeros((3, 3)))
    assert found.df_resid == pytest.approx(39)
    for alpha in (0.5, 0.05, 0.001):
        direct = stats.ttest_1samp(t, 0.0).confidence_interval(1 - alpha)
        np.testing.assert_allclose(found.intervals(np.eye(3), alpha), np.column_stack([direct.low, direct.high]))
    np.testing.assert_allclose(found.contrast_pvalues(np.eye(3), CENTER), stats.ttest_1samp(t, CENTER).pvalue)
    assert found.flags == ()


def test_without_noise_a_combination_is_the_t_interval_of_the_combined_estimates():
    v, contrast = estimates(), np.array([[2.0, -0.5, 10.0], [0.0, 1.0, 1.0]])
    found, t = inferred(summed(v)), in_units(v) @ contrast.T
    direct = stats.ttest_1samp(t, 0.0).confidence_interval(0.9)
    np.testing.assert_allclose(found.intervals(contrast, 0.1), np.column_stack([direct.low, direct.high]))


def test_it_is_an_inference_about_the_population():
    found = inferred(summed(estimates()), nobs=900.0, nobs_is_public=True)
    assert (found.target, found.method, found.scale, found.rsquared) == ("population", "wald", None, None)
    assert (found.nobs, found.nobs_is_public) == (900.0, True)


# With noise


def test_noise_of_the_sums_adds_its_variance():
    found = inferred(summed(estimates(), noise=4.0, products=9.0))
    np.testing.assert_allclose(found.cov_noise, np.diag(4.0 * HALF**2 / 40**2))
    error = np.sqrt(np.diag(found.cov_sampling + found.cov_noise))
    ends = found.intervals(np.eye(3), 0.05)
    np.testing.assert_allclose(ends.mean(axis=1), found.params)
    assert (ends[:, 1] - found.params > stats.norm.isf(0.025) * error).all()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_what_noise_adds_to_the_square_of_the_mean_is_taken_off(size):
    """Over noise of each sum that is one standard deviation up or down the covariance is right on average."""
    v, noise = estimates(size=size), 0.7
    signs = itertools.product([-1.0, 1.0], repeat=size)
    found = [summed(v, noise=noise, moved=(np.sqrt(noise) * np.array(sign), 0.0)).covariance for sign in signs]
    np.testing.assert_allclose(np.mean(found, axis=0), np.cov(v.T).reshape(size, size), rtol=1e-10, atol=1e-14)


def test_the_repaired_covariance_is_right_where_nothing_has_to_be_repaired():
    v = estimates()
    change = 0.1 * np.array([[1.0, -0.3, 0.2], [-0.3, 2.0, 0.1], [0.2, 0.1, 0.5]])
    found = summed(v, moved=(0.0, change)).covariance
    np.testing.assert_allclose(found, np.cov(v.T) + change / 39, rtol=1e-10)


def test_degrees_of_freedom_are_those_of_satterthwaite():
    rng = np.random.default_rng(3)
    spread = rng.uniform(0.5, 2.0, (3, 3))
    v, noise = estimates(), 0.6
    sums = summed(v, noise=noise, products=(spread + spread.T) / 2)
    found, k = inferred(sums), 40
    for contrast in [*np.eye(3), np.array([1.0, -0.2, 30.0])]:
        scaled = contrast * HALF
        sampling = scaled @ sums.covariance @ scaled / k
        variance = sampling + noise * scaled @ scaled / k**2
        own = sum(
            (scaled[i] * scaled[j] * (1 if i == j else 2)) ** 2 * sums.noise_product[i, j]
            for i in range(3)
            for j in range(i, 3)
        )
        df = 2 * variance**2 / (2 * sampling**2 / (k - 1) + own / k**4)
        half = stats.t.isf(0.025, np.clip(df, 1, 1e9)) * np.sqrt(variance)
        expected = [contrast @ found.params - half, contrast @ found.params + half]
        np.testing.assert_allclose(found.intervals(contrast[None], 0.05)[0], expected, rtol=1e-10)


def test_noise_of_products_takes_degrees_of_freedom_and_known_noise_gives_them():
    v = estimates()
    few = [inferred(summed(v, products=spread)).df_resid for spread in (0.0, 0.01, 1.0, 100.0)]
    assert few == sorted(few, reverse=True)
    assert few[0] == pytest.approx(39)
    assert few[-1] == 1.0
    many = [inferred(summed(v, noise=noise)).df_resid for noise in (0.0, 1.0, 100.0)]
    assert many == sorted(many)
    assert many[-1] > 1000


@pytest.mark.slow
def test_coverage_over_blocks_and_noise():
    """5,000 draws; the interval of 95% is to cover at least 93.76%, a level that it fails by chance once in 1e4."""
    rng, k, noise, products, truth = np.random.default_rng(11), 30, 2.0, 0.01, 0.1
    covered = 0
    for _ in range(5000):
        v = truth + 0.2 * rng.normal(size=(k, 1))
        moved = (np.sqrt(noise) * rng.normal(size=1), np.sqrt(products) * rng.normal(size=(1, 1)))
        found = inferred(summed(v, noise=noise, products=products, moved=moved))
        low, high = found.intervals(np.eye(1), 0.05)[0]
        covered += low <= CENTER[0] + HALF[0] * truth <= high
    assert covered / 5000 >= 0.9376


# Indefinite noise


@st.composite
def noisy_sums(draw):
    size, blocks = draw(st.integers(1, 3)), draw(st.integers(2, 60))
    scale = draw(st.sampled_from([1e-6, 1e-2, 1.0, 1e2, 1e6]))
    numbers = st.floats(-1, 1).map(lambda one: one * scale * blocks)
    sums = np.array(draw(st.lists(numbers, min_size=size, max_size=size)))
    upper = np.array(draw(st.lists(numbers, min_size=size * size, max_size=size * size))).reshape(size, size)
    return BlockSums(
        blocks=blocks,
        sums=sums,
        products=np.triu(upper) + np.triu(upper, 1).T,
        counts=np.array([draw(st.floats(-5, 5)), draw(st.floats(-5, 5))]),
        noise_sum=draw(st.sampled_from([1e-12, 1e-3, 1.0, 1e6])),
        noise_product=np.full((size, size), draw(st.sampled_from([1e-12, 1e-3, 1.0, 1e6]))),
        noise_count=1.0,
        laplace=draw(st.booleans()),
    )


@given(noisy_sums())
def test_whatever_the_noise_no_variance_is_negative_and_nothing_is_nan(sums):
    found = inferred(sums)
    size = len(sums.sums)
    np.testing.assert_array_equal(sums.covariance, sums.covariance.T)
    values = np.linalg.eigvalsh(sums.covariance)
    assert values.min() >= -1e-12 * max(values.max(), 1e-300)
    contrasts = np.vstack([np.eye(size), np.ones((1, size))])
    ends = found.intervals(contrasts, 0.05)
    assert np.isfinite(ends).all() or (found.lost and np.isinf(ends).all())
    assert (ends[:, 0] < ends[:, 1]).all()
    pvalues = found.contrast_pvalues(contrasts, np.zeros(len(contrasts)))
    assert ((pvalues >= 0) & (pvalues <= 1)).all()
    statistic, df, pvalue = found.wald(np.eye(size), np.zeros(size))
    assert (statistic >= 0, df, 0 <= pvalue <= 1) == (True, size, True)
    assert 1 <= found.df_resid <= 1e9
    assert all(isinstance(flag, str) for flag in found.flags)


def test_an_indefinite_matrix_of_products_is_cut_at_zero():
    v = estimates(size=2)
    change = np.array([[-5.0, 0.0], [0.0, 0.0]])
    found = summed(v, noise=1.0, products=1.0, moved=(0.0, change))
    values = np.linalg.eigvalsh(found.covariance)
    assert values[0] == pytest.approx(0, abs=1e-12)
    assert values[1] > 0
    results = inferred(found)
    assert (np.diag(results.cov_sampling + results.cov_noise) > 0).all()
    assert "mostly privacy noise for a" in str(results.flags)


# What the reader is told


def test_clean_blocks_raise_no_flag():
    assert inferred(summed(estimates(), noise=1.0, products=1e-4, noise_count=1.0)).flags == ()


@pytest.mark.parametrize(("place", "words"), [(0, "gave no finite estimate"), (1, "lay outside the bounds")])
def test_failed_and_moved_blocks_are_told_beyond_doubt(place, words):
    def flags(count, error):
        counts = [0.0, 0.0]
        counts[place] = count
        return inferred(summed(estimates(blocks=100), counts=counts, noise_count=error**2)).flags

    assert flags(5.0, 0.1) == ()
    assert flags(8.0, 2.0) == ()
    assert flags(11.0, 2.0) == ()  # three standard deviations: one of 14 bounds may fail with probability 7e-4
    (told,) = flags(12.0, 2.0)
    assert told == f"about 12% of the blocks (plus or minus 2%) {told.split('%) ')[1]}"
    assert words in told
    assert flags(-30.0, 2.0) == ()


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("laplace", [False, True])
def test_where_most_blocks_are_lost_nothing_is_concluded(place, laplace):
    counts = [0.0, 0.0]
    counts[place] = 60.0
    found = inferred(summed(estimates(blocks=100), noise=1.0, products=0.1, counts=counts, laplace=laplace))
    assert found.lost
    np.testing.assert_array_equal(found.intervals(np.eye(3), 0.05), [[-np.inf, np.inf]] * 3)
    np.testing.assert_array_equal(found.contrast_pvalues(np.eye(3), 99.0), np.ones(3))
    assert found.wald(np.eye(3), 99.0)[2] == 1.0
    assert "intervals are unbounded" in str(found.flags)
    doubtful = inferred(summed(estimates(blocks=100), noise=1.0, counts=counts, noise_count=20.0**2, laplace=laplace))
    assert not doubtful.lost


def test_an_estimate_near_the_edge_is_told():
    v = estimates(size=2)
    v[:, 1] = 0.65
    for noise, flags in ((0.1, 1), (1.0, 0), (100.0, 0)):  # beyond 0.6 by so much as noise may have moved it, or not
        told = inferred(summed(v, noise=noise, products=1e-6), names=("first", "second")).flags
        assert len(told) == flags
        assert not told or told[0].startswith("the estimate of second is near the bounds")


def noisy(rng, v, *, noise, products, counts, noise_count, laplace):
    """Sums of block estimates with noise of these variances."""

    def drawn(variance, size):
        scale = np.sqrt(variance)
        return rng.laplace(0, scale / np.sqrt(2), size) if laplace else rng.normal(0, scale, size)

    size = v.shape[1]
    change = drawn(products, (size, size))
    moved = (drawn(noise, size), np.triu(change) + np.triu(change, 1).T)
    told = np.asarray(counts) + drawn(noise_count, 2)
    return summed(v, noise=noise, products=products, counts=told, noise_count=noise_count, laplace=laplace, moved=moved)


@pytest.mark.slow
@pytest.mark.sweep(4)
@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize("size", [1, 3, 6])
@pytest.mark.parametrize("spread", [0.04, 0.2])
def test_of_a_hundred_clean_runs_at_most_one_has_a_message_on_blocks(laplace, size, spread):
    """2,000 runs with all that messages are about at the limit from which they are true.

    The centre is where an estimate is near the bounds, as many blocks failed and were moved as are tolerated, and
    the region ends 2.5 standard deviations of a block away. At most 1% of runs may have a message; 34 of 2,000 are
    more with probability 0.002.
    """
    rng, k, told = np.random.default_rng([17, size, laplace]), 60, 0
    places = tuple((j,) for j in range(size))
    region = Region(tuple("abcdef"[:size]), places, (0.6 + 2.5 * spread,) * size, np.zeros(size))
    frame = Frame(np.zeros(size), np.ones(size), np.ones(size, dtype=bool))
    for _ in range(2000):
        v = 0.6 + spread * rng.normal(size=(k, size))
        v += 0.6 - v.mean(axis=0)  # the first message is about these blocks, not about others
        sums = noisy(rng, v, noise=4.0, products=0.5, counts=(0.05 * k, 0.05 * k), noise_count=25.0, laplace=laplace)
        found = inferred(sums, names=region.names, frame=frame)
        flags = [flag for flag in (*found.flags, *edge_warnings(found, region)) if "mostly privacy noise" not in flag]
        told += bool(flags)
    assert told <= 34


@pytest.mark.parametrize("laplace", [False, True])
def test_messages_on_blocks_are_there_where_their_cause_is(laplace):
    """Power at a cause twice as large as the limit, with noise of a tenth of it: certain in 200 runs."""
    rng, k = np.random.default_rng(18), 100
    region = Region(("a",), ((0,),), (1.0,), np.zeros(1))
    frame = Frame(np.zeros(1), np.ones(1), np.ones(1, dtype=bool))
    for _ in range(200):
        v = 0.75 + 0.35 * rng.normal(size=(k, 1))
        sums = noisy(rng, v, noise=0.1, products=0.1, counts=(15.0, 15.0), noise_count=1.0, laplace=laplace)
        found = inferred(sums, names=("a",), frame=frame)
        told = " ".join((*found.flags, *edge_warnings(found, region)))
        parts = ("near the bounds", "no finite estimate", "outside the bounds", "declare a wider one")
        assert all(one in told for one in parts)


def test_noise_in_the_products_is_not_told_as_a_narrow_region():
    """Blocks that seem to differ by more than the region is wide, because of noise: nothing is said of the region."""
    v = estimates(size=2, blocks=40)
    region = Region(("a", "b"), ((0,), (1,)), (1.0, 1.0), np.zeros(2))
    frame = Frame(np.zeros(2), np.ones(2), np.ones(2, dtype=bool))
    change = np.diag([16.0, 16.0])
    loud, quiet = (
        inferred(summed(v, noise=1.0, products=own, moved=(0.0, change)), names=("a", "b"), frame=frame)
        for own in (64.0, 0.01)
    )
    assert edge_warnings(loud, region) == ()
    assert "declare a wider one" in edge_warnings(quiet, region)[0]


def test_few_degrees_of_freedom_are_told():
    assert "mostly privacy noise for a, b, c" in str(inferred(summed(estimates(), products=10.0)).flags)


def test_parameters_that_were_not_located_are_told_where_others_were():
    def flags(located):
        frame = Frame(CENTER, HALF, np.array(located))
        return inferred(summed(estimates(), noise=1.0, products=1e-6), frame=frame).flags

    (told,) = flags([True, False, False])
    assert told.startswith("the block estimates of b, c were not located")
    assert flags([True, True, True]) == flags([False, False, False]) == ()
    unlocated = Frame(CENTER, HALF, np.zeros(3, dtype=bool))
    (told,) = inferred(summed(estimates(), noise=1.0, products=1e-6), frame=unlocated, winsorized=True).flags
    assert told.startswith("the block estimates of a, b, c were not located")


def test_many_names_are_cut_short_and_further_warnings_come_last():
    names = tuple(f"p{j}" for j in range(8))
    v = np.full((30, 8), 0.7)
    frame = Frame(np.zeros(8), np.ones(8), np.ones(8, dtype=bool))
    found = AggregateInference(names=names, blocks=summed(v, noise=0.1, products=1e-9), frame=frame, notes=("A note.",))
    assert "p0, p1, p2, p3, p4, and 3 more is near the bounds" in found.flags[0]
    assert found.flags[-1] == "A note."


# Tests and intervals


@settings(max_examples=100)
@given(
    st.booleans(),
    st.floats(-3, 3),
    st.lists(st.floats(-2, 2), min_size=3, max_size=3),
    st.sampled_from([0.3, 0.1, 0.05, 0.01, 0.001]),
    st.sampled_from([1e-9, 0.3, 10.0]),
    st.sampled_from([1e-9, 0.01, 1.0]),
)
def test_a_value_is_rejected_where_it_is_outside_of_the_interval(laplace, away, contrast, alpha, noise, products):
    found = inferred(summed(estimates(), noise=noise, products=products, laplace=laplace))
    contrasts = np.vstack([np.eye(3), [np.array(contrast) / HALF + np.array([1e-3, 0, 0])]])
    low, high = found.intervals(contrasts, alpha).T
    value = (low + high) / 2 + away * (high - low) / 2
    outside = abs(away) > 1
    if abs(abs(away) - 1) > 1e-6:
        np.testing.assert_array_equal(found.contrast_pvalues(contrasts, value) < alpha, np.full(4, outside))


@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.001])
def test_laplace_noise_gives_wider_intervals_than_normal_noise_of_its_variance(alpha):
    def widths(noise, laplace):
        ends = inferred(summed(estimates(), noise=noise, products=1e-9, laplace=laplace)).intervals(np.eye(3), alpha)
        return ends[:, 1] - ends[:, 0]

    assert (widths(10.0, True) > 1.02 * widths(10.0, False)).all()
    np.testing.assert_allclose(widths(1e-9, True), widths(1e-9, False), rtol=1e-4)


def test_noise_alone_gives_the_quantile_of_its_law():
    """Where blocks do not differ and noise is one Laplace variable, the interval is that of a Laplace variable."""
    same = np.full((50, 1), 0.1)
    found = inferred(summed(same, noise=8.0, products=1e-18, laplace=True, moved=(0.0, -1.0)))
    low, high = found.intervals(np.eye(1), 0.05)[0]
    assert (high - low) / 2 == pytest.approx(HALF[0] / 50 * stats.laplace.isf(0.025, scale=2.0), rel=1e-3)


def test_a_joint_test_of_one_restriction_under_laplace_noise_is_nearly_the_single_test():
    for noise in (0.1, 1.0, 20.0):
        found = inferred(summed(estimates(), noise=noise, products=1e-6, laplace=True))
        error = float(np.sqrt(np.diag(found.cov_sampling + found.cov_noise))[0])
        for away in (0.5, 1.5, 2.5):
            value = found.params[0] + away * error
            single = found.contrast_pvalues(np.eye(3)[:1], np.array([value]))[0]
            joint = found.wald(np.eye(3)[:1], np.array([value]))[2]
            # 19,999 draws with a public seed: four standard errors of a share, and the two ways to count both tails
            assert joint == pytest.approx(single, abs=4 * np.sqrt(0.25 / 20_000) + 0.003)


def test_the_joint_statistic_does_not_depend_on_how_restrictions_are_written():
    for laplace in (False, True):
        found = inferred(summed(estimates(), noise=0.5, products=1e-6, laplace=laplace))
        r, q = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]]), np.array([0.3, 0.7])
        change = np.array([[2.0, 1.0], [-1.0, 3.0]])
        first, second = found.wald(r, q), found.wald(change @ r, change @ q)
        assert second[:2] == pytest.approx(first[:2], rel=1e-9)
        distance = r @ found.params - q
        total = r @ (found.cov_sampling + found.cov_noise) @ r.T
        assert first[0] == pytest.approx(distance @ np.linalg.inv(total) @ distance)
        assert 0 < first[2] < 1


def test_a_joint_test_at_the_estimates_rejects_nothing_and_far_away_everything():
    for laplace in (False, True):
        found = inferred(summed(estimates(), noise=0.5, products=1e-6, laplace=laplace))
        assert found.wald(np.eye(3), found.params)[::2] == pytest.approx((0.0, 1.0))
        assert found.wald(np.eye(3), found.params + 100)[2] < 1e-3
        assert found.wald(np.eye(3), 0.0) == found.wald(np.eye(3), np.zeros(3))


def test_dependent_restrictions_are_refused():
    found = inferred(summed(estimates(), noise=0.5))
    with pytest.raises(InferenceError, match=r"2 restrictions are linearly dependent \(rank 1\)"):
        found.wald(np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]), np.zeros(2))


@pytest.mark.slow
@pytest.mark.parametrize(("blocks", "size"), [(20, 5), (60, 5), (20, 3)])
def test_the_joint_test_of_few_blocks_keeps_its_level(blocks, size):
    """Hotelling's: 2,000 sets of normal block estimates without privacy noise."""
    rng, frame = np.random.default_rng(6), Frame(np.zeros(size), np.ones(size), np.ones(size, dtype=bool))
    names = tuple("abcde"[:size])
    pvalues = [
        inferred(summed(rng.normal(size=(blocks, size)) * 0.1), names=names, frame=frame).wald(np.eye(size), 0.0)[2]
        for _ in range(2000)
    ]
    assert np.mean(np.array(pvalues) <= 0.05) == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 2000))
