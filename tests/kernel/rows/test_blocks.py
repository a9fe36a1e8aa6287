"""Block estimates become bounded integers: values of blocks, histograms, winsorised sums, and the frame."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpinfer.errors import OptionError
from dpinfer.kernel.rows.blocks import (
    BINS,
    BLOCK_UNIT,
    OCTAVES,
    BlockMoments,
    BlockValues,
    OctaveCounts,
    PlaceCounts,
    block_values,
)
from dpinfer.resampling.blocks import Frame, bins_of, find_frame, find_scales, limit, whole_frame
from dpinfer.schema import Ball, Real, Schema
from dpinfer.schema.region import region_of

SCHEMA = Schema(x=Real(0, 1), w=Real(0, 1))
REGION = region_of({("a", "c"): Ball(2, (1, -1)), "b": (-3, 5)}, ("a", "b", "c"))
NAN, INF = float("nan"), float("inf")


def beside_center(*moved):
    return REGION.center + np.array(moved)


def scale_counts(values, region=REGION):
    return OctaveCounts(SCHEMA, region).add(values)[0]


def places_for(scales, region=REGION):
    return PlaceCounts(SCHEMA, region, bins_of(region, scales))


def moments_for(frame=None, norm="l2", region=REGION):
    frame = whole_frame(region, norm) if frame is None else frame
    return BlockMoments(SCHEMA, region, tuple(frame.center.tolist()), tuple(frame.half.tolist()), norm)


def sums_of(values, frame=None, norm="l2", region=REGION):
    return moments_for(frame, norm, region).add(values)[0]


def scales_of(scale):
    return np.array([scale, np.zeros(len(scale)), np.full(len(scale), INF)])


def values_of(estimates, spreads=None, failed=(), outside=(), groups=2):
    estimates = np.asarray(estimates, dtype=float)
    size = len(estimates)
    spreads = np.full((size, groups), NAN) if spreads is None else np.asarray(spreads, dtype=float)
    places = np.arange(size)
    return BlockValues(estimates, spreads, np.isin(places, failed), np.isin(places, outside))


# Layout


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_every_sum_has_a_name_a_unit_and_a_weight(norm):
    octaves, places = OctaveCounts(SCHEMA, REGION), PlaceCounts(SCHEMA, REGION, (4, BINS, 1))
    moments = moments_for(norm=norm)
    values = values_of(np.tile(REGION.center, (4, 1)), np.ones((4, 2)))
    for rows, total in ((octaves, 2 * OCTAVES), (places, 4 + BINS + 1), (moments, 3 + 6 + 2)):
        bounded = rows.bounded("add_remove", norm)
        assert len(rows.names) == len(set(rows.names)) == len(rows.units) == len(bounded.weights) == total
        assert rows.add(values).shape == (1, total)
        assert (bounded.weights > 0).all()
        assert not bounded.public.any()
        assert rows.columns == ("w", "x")
    assert set(octaves.units) == set(places.units) == {1.0}
    assert moments.names == (
        *("a", "b", "c"),
        *("a x a", "a x b", "a x c", "b x b", "b x c", "c x c"),
        *("failed blocks", "moved blocks"),
    )
    assert moments.units.tolist() == [BLOCK_UNIT] * 3 + [BLOCK_UNIT**2] * 6 + [1.0] * 2
    assert moments.part_of.tolist() == [0] * 9 + [1] * 2
    assert octaves.names[0] == "scale of a+c: octave 0"
    assert octaves.names[OCTAVES] == "scale of b: octave 0"
    assert places.names[4] == "location of b: bin 0"


@pytest.mark.parametrize("bins", [(), (4, 4), (4, 4, 0), (4, 4, BINS + 1), (4, 4, 2.0), (4, 4, True)])
def test_wrong_bins_are_refused(bins):
    with pytest.raises(OptionError, match="bins"):
        PlaceCounts(SCHEMA, REGION, bins)


@pytest.mark.parametrize("half", [(1.0, 1.0), (1.0, 1.0, 0.0), (1.0, 1.0, -1.0), (1.0, 1.0, NAN), (1.0, 1.0, INF)])
def test_wrong_balls_are_refused(half):
    with pytest.raises(OptionError, match="half"):
        BlockMoments(SCHEMA, REGION, (0.0, 0.0, 0.0), half)


# Values of blocks


def test_half_blocks_take_off_the_bias():
    fits = np.array([[[1.0, 1.0, -1.0], [1.5, 2.0, -0.5], [0.7, 1.2, -1.1]]])
    values = block_values(fits, REGION)
    np.testing.assert_allclose(values.estimates[0], 2 * fits[0, 0] - (fits[0, 1] + fits[0, 2]) / 2)
    apart = (fits[0, 1] - fits[0, 2]) / 2
    np.testing.assert_allclose(values.spreads[0], [np.sqrt((apart[0] ** 2 + apart[2] ** 2) / 2), abs(apart[1])])
    assert not values.failed.any()
    assert not values.outside.any()


def test_a_corrected_estimate_stays_in_the_region():
    """Twice an estimate at one end less halves at the other is beyond the end."""
    end = beside_center(0, 4, 0)
    fits = np.array([[end, beside_center(0, -4, 0), beside_center(0, -4, 0)]])
    values = block_values(fits, REGION)
    np.testing.assert_allclose(values.estimates[0], end)
    assert not values.outside.any()


def test_a_half_without_a_fit_leaves_its_block_uncorrected():
    fits = np.tile(beside_center(0.5, 0.5, 0.5), (3, 3, 1))
    fits[:, 1:] += 0.2
    fits[1, 1, 0], fits[2, 2, 2] = NAN, INF
    values = block_values(fits, REGION)
    np.testing.assert_allclose(values.estimates[0], REGION.center + 0.3)
    np.testing.assert_allclose(values.estimates[1:], fits[1:, 0])
    assert np.isnan(values.spreads[1:]).all()
    assert np.isfinite(values.spreads[0]).all()
    assert not values.failed.any()


@pytest.mark.parametrize("halves", [1, 3])
def test_a_block_without_a_fit_is_the_centre_and_one_beyond_the_region_is_moved(halves):
    fits = np.tile(REGION.center, (5, halves, 1))
    fits[0, 0, 1], fits[1, 0], fits[2, :] = NAN, INF, beside_center(0, 9, 0)
    values = block_values(fits, REGION)
    np.testing.assert_array_equal(values.estimates[:2], REGION.center[None].repeat(2, axis=0))
    np.testing.assert_allclose(values.estimates[2], beside_center(0, 4, 0))
    assert values.failed.tolist() == [True, True, False, False, False]
    assert values.outside.tolist() == [False, False, True, False, False]
    assert np.isnan(values.spreads[0]).all()


def test_without_halves_blocks_are_compared_in_pairs():
    fits = REGION.center + np.arange(7)[:, None, None] * np.array([0.1, 0.3, 0.2])
    fits[2, 0, 0] = NAN
    values = block_values(fits, REGION)
    np.testing.assert_allclose(values.estimates[[0, 1, 3]], fits[[0, 1, 3], 0])
    assert values.spreads.shape == (3, 2)
    root = np.sqrt(2.0)
    np.testing.assert_allclose(values.spreads[0], [np.sqrt((0.1**2 + 0.2**2) / 2) / root, 0.3 / root])
    assert np.isnan(values.spreads[1]).all()
    assert np.isfinite(values.spreads[2]).all()


def test_a_single_block_has_no_pair():
    values = block_values(REGION.center[None, None], REGION)
    assert values.spreads.shape == (0, 2)
    assert scale_counts(values).sum() == 0


def test_spreads_of_independent_estimates_are_their_standard_deviation():
    """Both rules of spreads aim at the standard deviation of a block estimate."""
    rng = np.random.default_rng(5)
    halves = REGION.center + rng.normal(0, 0.1 * np.sqrt(2), (40_000, 2, 3))
    fits = np.concatenate([halves.mean(axis=1, keepdims=True), halves], axis=1)
    for given_fits in (fits, fits[:, :1]):
        spreads = block_values(given_fits, REGION).spreads
        np.testing.assert_allclose(np.sqrt((spreads**2).mean(axis=0)), 0.1, rtol=0.03)


def test_a_fit_far_beyond_a_small_region_is_at_its_end():
    """1e308 radii of half a unit are beyond floating point, and are not a fit that failed."""
    region = region_of((0.0, 1.0), ("a",))
    values = block_values(np.array([[[1.7e308]], [[-1.7e308]]]), region)
    assert not values.failed.any()
    assert values.outside.all()
    np.testing.assert_allclose(values.estimates[:, 0], [1, 0])


# Histograms


@given(st.lists(st.one_of(st.floats(0, 10), st.sampled_from([NAN, 0.0, 4.0, 2.0, 1.0, 2.0**-15, 5e-324])), max_size=30))
def test_scales_are_counted_by_octave(spreads):
    both = np.array(spreads, dtype=float)[:, None] * [1.0, 2.0]
    counts = scale_counts(values_of(np.zeros((len(spreads), 3)), both)).reshape(2, OCTAVES)
    known = [spread for spread in spreads if not math.isnan(spread)]
    for count, factor, width in zip(counts, (1, 2), (4.0, 8.0), strict=True):
        expected = [0] * OCTAVES
        for spread in known:
            octaves = sum(spread * factor <= width * 2.0**-b for b in range(1, OCTAVES))
            expected[octaves] += 1
        assert sum(abs(a - b) for a, b in zip(count, expected, strict=True)) <= 2 * sum(
            abs(s * factor - width * 2.0**-b) < 1e-12 * s for s in known for b in range(OCTAVES) if s > 0
        )
        assert count.sum() == len(known)


def test_the_octave_of_a_spread_does_not_depend_on_its_neighbours():
    """Failed blocks are left out, which moves the others: the same number must fall in the same bin wherever."""
    rng = np.random.default_rng(2)
    near = 8.0 * 2.0 ** -rng.integers(0, 19, 61).astype(float)
    spreads = np.concatenate([near, np.nextafter(near, 0), np.nextafter(near, 9), rng.uniform(0, 8, 40)])
    region = region_of((-4, 4), ("a",))
    alone = [int(scale_counts(values_of([[0.0]], [[one]]), region).argmax()) for one in spreads]
    for start in range(9):
        together = scale_counts(values_of(np.zeros((len(spreads) - start, 1)), spreads[start:, None]), region)
        np.testing.assert_array_equal(together, np.bincount(alone[start:], minlength=OCTAVES))


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=3), st.lists(st.integers(0, 152), min_size=2, max_size=2))
def test_locations_are_counted_between_the_ends(place, eighths):
    scales = np.array([4.0, 8.0]) * 2.0 ** -(np.array(eighths) / 8)
    rows = places_for(scales_of(scales))
    estimate = REGION.center + REGION.radius * np.array(place)
    counts = np.split(rows.add(values_of([estimate, estimate]))[0], np.cumsum(rows.bins)[:-1])
    for j in range(3):
        ends = rows.ends(j)
        width, bins = 2 * REGION.radius[j], len(ends) - 1
        assert bins in [2**level for level in range(1, 9)]
        np.testing.assert_allclose(np.diff(ends), width / bins)
        np.testing.assert_allclose([ends[0], ends[-1]], [REGION.center[j] - width / 2, REGION.center[j] + width / 2])
        scale = scales[REGION.group[j]]
        assert bins in (2, BINS) or 1 <= width / bins / scale < 2
        assert len(counts[j]) == bins
        (found,) = np.flatnonzero(counts[j])
        assert counts[j][found] == 2
        assert found == 0 or ends[found] <= estimate[j]
        assert found == bins - 1 or estimate[j] < ends[found + 1]
        assert found < bins


# Winsorised sums


def python_sums(rows, values, frame):
    """Return the sums in plain Python, block by block."""
    size, sums, products, moved = rows.size, [0] * rows.size, {}, 0
    for estimate, failed, outside in zip(values.estimates.tolist(), values.failed, values.outside, strict=True):
        v = [(t - c) / h for t, c, h in zip(estimate, frame.center.tolist(), frame.half.tolist(), strict=True)]
        v = [0.0] * size if failed else v
        length = math.sqrt(math.fsum(e * e for e in v)) if rows.norm == "l2" else math.fsum(map(abs, v))
        whole = [round(e / max(length, 1.0) * BLOCK_UNIT) for e in v]
        moved += (not failed) and (bool(outside) or length > 1.0)
        for i in range(size):
            sums[i] += whole[i]
            for j in range(i, size):
                products[i, j] = products.get((i, j), 0) + whole[i] * whole[j]
    return [*sums, *products.values(), int(values.failed.sum()), moved]


@given(
    st.sampled_from(["l2", "l1"]),
    st.lists(st.lists(st.integers(-300, 300), min_size=3, max_size=3), min_size=1, max_size=8),
    st.lists(st.integers(-6, 3), min_size=3, max_size=3),
    st.sets(st.integers(0, 7)),
)
def test_sums_are_those_of_plain_python(norm, eighths, powers, marked):
    """Values on a grid, so that no rounding depends on the order of operations."""
    frame = Frame(np.array([0.5, -1.0, 0.0]), 2.0 ** np.array(powers, dtype=float), np.ones(3, dtype=bool))
    estimates = frame.center + np.array(eighths) / 128
    values = values_of(estimates, failed=[m for m in marked if m % 2], outside=list(marked))
    rows = moments_for(frame, norm)
    found, expected = rows.add(values)[0], python_sums(rows, values, frame)
    assert found.dtype == np.int64
    assert np.abs(found[:3] - np.array(expected[:3])).max() <= len(eighths)
    assert found[-2:].tolist() == expected[-2:]
    lengths = [np.linalg.norm((e - frame.center) / frame.half, 2 if norm == "l2" else 1) for e in estimates]
    if max(np.where(values.failed, 0, lengths)) <= 1:  # no division
        assert found.tolist() == expected


def test_the_frame_of_the_region_holds_every_value():
    rng = np.random.default_rng(9)
    directions = rng.normal(size=(500, 3)) * 1e3
    estimates = REGION.clip(REGION.center + directions)
    for norm in ("l2", "l1"):
        whole = whole_frame(REGION, norm)
        assert not whole.located.any()
        v = (estimates - whole.center) / whole.half
        assert np.linalg.norm(v, 2 if norm == "l2" else 1, axis=1).max() <= 1 + 1e-12
        moved = sums_of(values_of(estimates / (1 + 1e-9) + REGION.center * (1 - 1 / (1 + 1e-9))), whole, norm)[-1]
        assert moved == 0
        grid = sums_of(values_of(estimates[:1]), whole, norm)[:3] / BLOCK_UNIT * whole.half + REGION.center
        np.testing.assert_allclose(grid, estimates[0], atol=float(whole.half.max()) / BLOCK_UNIT)


def test_a_frame_of_no_width_gives_nothing_beyond_the_reach():
    for norm in ("l2", "l1"):
        frame = Frame(REGION.center, np.full(3, 1e-290), np.ones(3, dtype=bool))
        rows = moments_for(frame, norm)
        with np.errstate(over="ignore"):
            sums = rows.add(values_of([beside_center(1, 1, 0)]))[0]
        assert np.abs(sums[:3]).sum() <= 3 * rows.reach


# Reading noisy counts


def noisy_counts(values, noise, seed, *, region=REGION, blocks=40, norm="l2"):
    rng = np.random.default_rng(seed)
    counts = scale_counts(values, region)
    scales = find_scales(region, counts + np.rint(rng.normal(0, noise, counts.size)), noise)
    counts = places_for(scales, region).add(values)[0]
    noisy = counts + np.rint(rng.normal(0, noise, counts.size))
    radius = limit(blocks, len(region.names), norm)
    return scales, find_frame(region, noisy, noise, scales, norm=norm, radius=radius)


@pytest.mark.parametrize("noise", [1e-3, 4.0])
@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_the_frame_is_found_around_the_estimates(norm, noise):
    rng = np.random.default_rng(6)
    truth, sd, blocks = np.array([0.4, 2.0, -0.3]), np.array([0.05, 0.2, 0.05]), 2000
    halves = truth + rng.normal(0, np.sqrt(2), (blocks, 2, 3)) * sd
    values = block_values(np.concatenate([halves.mean(axis=1, keepdims=True), halves], axis=1), REGION)
    scales, frame = noisy_counts(values, noise, seed=7, blocks=blocks, norm=norm)
    np.testing.assert_allclose(scales[0], [0.05, 0.2], rtol=0.12)
    assert (scales[1] < 0.1).all()
    assert (scales[2] > 50).all()
    assert frame.located.all()
    assert (np.abs(frame.center - truth) < sd / 2).all()
    radius = limit(blocks, 3, norm)
    assert (frame.half / (radius * sd) > 0.9).all()
    assert (frame.half / (radius * sd) < 1.6).all()
    assert sums_of(values, frame, norm)[-1] <= 0.01 * blocks


def test_counts_of_noise_alone_leave_the_region_as_it_is():
    empty = values_of(np.zeros((0, 3)))
    _, frame = noisy_counts(empty, 50.0, seed=3)
    assert not frame.located.any()
    np.testing.assert_array_equal(frame.center, REGION.center)
    np.testing.assert_array_equal(frame.half, whole_frame(REGION, "l2").half)


def test_a_group_is_located_as_a_whole():
    """Of the group (a, c) one has a peak and the other none: neither is located, while b is."""
    rng = np.random.default_rng(1)
    blocks = 2000
    estimates = REGION.center + rng.normal(0, 0.1, (blocks, 3))
    values = values_of(estimates, np.tile([0.1, 0.1], (blocks, 1)))
    scales = find_scales(REGION, scale_counts(values).astype(float), 1.0)
    rows = places_for(scales)
    counts = rows.add(values)[0].astype(float)
    counts[sum(rows.bins[:2]) :] = 0.0
    frame = find_frame(REGION, counts, 1.0, scales, norm="l2", radius=limit(blocks, 3, "l2"))
    assert frame.located.tolist() == [False, True, False]
    np.testing.assert_array_equal(frame.center[[0, 2]], REGION.center[[0, 2]])
    assert frame.half[1] < 1.0 < frame.half[0]


@pytest.mark.parametrize("width", [1e2, 1e4, 1e6])
def test_a_frame_holds_the_estimates_however_wide_the_region_is_declared(width):
    """Estimates much closer together than bins of the histogram of locations."""
    rng = np.random.default_rng(4)
    blocks, sd = 1000, 0.1
    region = region_of((-width, width), ("a",))
    halves = 0.3 + rng.normal(0, sd * np.sqrt(2), (blocks, 2, 1))
    values = block_values(np.concatenate([halves.mean(axis=1, keepdims=True), halves], axis=1), region)
    _, frame = noisy_counts(values, 3.0, seed=8, region=region, blocks=blocks)
    assert sums_of(values, frame, region=region)[-1] <= 0.02 * blocks
