"""The stated bounds of sample-and-aggregate against block estimates that move from anywhere to anywhere.

One block's fits (of it and its halves) are replaced by any others; everything else, also what earlier noisy sums
settled (scales, the frame), is the same. The integers are noise-free and the arithmetic is exact.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.kernel.rows.blocks import BLOCK_UNIT, OCTAVES, BlockMoments, OctaveCounts, PlaceCounts, block_values
from dpinfer.privacy.exact import decimal
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.resampling.aggregate import sample_aggregate
from dpinfer.resampling.blocks import Frame, bins_of, whole_frame
from dpinfer.schema.region import Region

NAN, INF = float("nan"), float("inf")
SCHEMA = dpi.Schema(x=dpi.Real(0, 1))
GROUPINGS = {
    1: [[0]],
    2: [[0, 1]],
    3: [[2, 0], [1]],
    4: [[0], [1], [2], [3]],
    5: [[0, 1, 2, 3, 4]],
    6: [[0, 5], [1, 2, 3], [4]],
}


@dataclass(frozen=True)
class Asked:
    """What is summed over blocks, as three stages or as the last alone.

    Attributes
    ----------
    region : Region
    halves : bool
        Whether half-blocks are fitted.
    winsorized : bool
        Whether histograms of scale and place come first.
    norm : {"l2", "l1"}
    """

    region: Region
    halves: bool = True
    winsorized: bool = True
    norm: str = "l2"

    @property
    def size(self):
        return len(self.region.names)

    @property
    def groups(self):
        return len(self.region.places)

    @property
    def whole(self):
        return whole_frame(self.region, self.norm)

    @property
    def moments(self):
        return self.sums(self.whole)

    def sums(self, frame):
        center, half = tuple(frame.center.tolist()), tuple(frame.half.tolist())
        return BlockMoments(SCHEMA, self.region, center, half, self.norm)

    def stages(self, scales, frame):
        """Return the row sums of all stages, given what earlier ones settled."""
        if not self.winsorized:
            return (self.sums(frame),)
        told = np.array([scales, np.zeros(self.groups), np.full(self.groups, INF)])
        places = PlaceCounts(SCHEMA, self.region, bins_of(self.region, told))
        return OctaveCounts(SCHEMA, self.region), places, self.sums(frame)

    @property
    def kinds(self):
        """Names of the parts of all stages."""
        return ("scale", "location", "sum", "count") if self.winsorized else ("sum", "count")


def region_for(size, radii=None, center=None):
    places = tuple(map(tuple, GROUPINGS[size]))
    radii = tuple(radii or (0.5, 3.0, 40.0, 1.0)[: len(places)])
    center = np.linspace(-1, 2, size) if center is None else np.asarray(center, dtype=float)
    return Region(tuple("abcdef"[:size]), places, radii, center)


@st.composite
def fits_of_a_block(draw, region, fits):
    """Fits anywhere: centre, ends of the region, between, at or beyond a face, opposite ends, not finite."""
    size = len(region.names)
    directions = [
        st.just(np.zeros(size)),
        st.sampled_from([sign * row for row in np.eye(size) for sign in (1, -1)]),
        st.lists(st.sampled_from([-1.0, 1.0]), min_size=size, max_size=size).map(np.array),
        st.lists(st.floats(-1, 1), min_size=size, max_size=size).map(np.array),
    ]
    lengths = st.sampled_from([1.0, 1.0, 0.5, 1e-3, 2.0, 1e30])
    found = []
    for _ in range(fits):
        fit = region.center + region.radius * draw(st.one_of(directions)) * draw(lengths)
        if draw(st.integers(0, 5)) == 0:
            fit[draw(st.integers(0, size - 1))] = draw(st.sampled_from([NAN, INF, -INF, 1.7e308]))
        found.append(fit)
    if fits == 3 and draw(st.booleans()):  # halves at opposite ends, where the correction reaches furthest
        found[2] = 2 * region.center - found[1]
    return np.array(found)


@st.composite
def neighbours(draw, rows, blocks):
    """Two sets of block values that differ in one block; scales and a frame that were settled before."""
    region, fits = rows.region, 3 if rows.halves else 1
    before = np.stack([draw(fits_of_a_block(region, fits)) for _ in range(blocks)])
    place = draw(st.integers(0, blocks - 1))
    after = before.copy()
    after[place] = draw(fits_of_a_block(region, fits))
    octaves = draw(st.lists(st.integers(0, 8 * (OCTAVES - 1)), min_size=rows.groups, max_size=rows.groups))
    scales = 2 * np.array(region.radii) * 2.0 ** -(np.array(octaves) / 8)
    floats = st.lists(st.floats(-1.5, 1.5), min_size=rows.size, max_size=rows.size).map(np.array)
    halves = st.lists(st.floats(-18, 4), min_size=rows.size, max_size=rows.size).map(np.array)
    frame = rows.whole
    if draw(st.booleans()):
        center = region.center + region.radius * draw(floats)
        frame = Frame(center, region.radius * 2.0 ** draw(halves), np.ones(rows.size, dtype=bool))
    return block_values(before, region), block_values(after, region), scales, frame, place


def changes(rows, before, after, scales, frame):
    """Return by how much the integer sums of every stage change."""
    moved = []
    for stage in rows.stages(scales, frame):
        moved.append(stage.add(after)[0] - stage.add(before)[0])
        assert moved[-1].shape == (len(stage.names),)
        assert moved[-1].dtype == np.int64
    return moved


def parts_of(rows, moved):
    """Yield each part of the sums of all stages: its change, its noise relative to others, its bound."""
    frame, scales = rows.whole, 2 * np.array(rows.region.radii)
    for stage, change in zip(rows.stages(scales, frame), moved, strict=True):
        bounds, pattern = stage.part_changes("add_remove", rows.norm), stage.pattern(rows.norm)
        many = len(pattern) != len(change)  # places in other bins than these: all their noise is the same
        for part, bound in enumerate(bounds):
            mine = slice(None) if many else stage.part_of == part
            yield change[mine], np.ones(len(change)) if many else pattern[mine], bound


def amounts(rows, moved):
    """Return the exact norm of each kind of change over its noise, and its bound: both squared for "l2"."""
    power = 2 if rows.norm == "l2" else 1
    found = {}
    for kind, (change, pattern, bound) in zip(rows.kinds, parts_of(rows, moved), strict=True):
        listed = zip(change.tolist(), pattern.tolist(), strict=True)
        found[kind] = (
            sum(((Fraction(abs(d)) / Fraction(w)) ** power for d, w in listed if d), Fraction(0)),
            bound**power,
        )
    return found


def shares_of_bounds(rows, moved):
    """Return which share of each bound a change attains."""
    power = 2 if rows.norm == "l2" else 1
    return {kind: float(amount / bound) ** (1 / power) for kind, (amount, bound) in amounts(rows, moved).items()}


# Each kind of sums


@st.composite
def row_functions(draw):
    size = draw(st.integers(1, 6))
    radii = draw(st.lists(st.floats(1e-2, 1e3), min_size=len(GROUPINGS[size]), max_size=len(GROUPINGS[size])))
    center = draw(st.lists(st.floats(-1e3, 1e3), min_size=size, max_size=size))
    return Asked(
        region_for(size, radii, center),
        halves=draw(st.booleans()),
        winsorized=draw(st.sampled_from([True, True, True, False])),
        norm=draw(st.sampled_from(["l2", "l1"])),
    )


@pytest.mark.slow
@settings(max_examples=250)
@given(st.data())
def test_no_change_of_one_block_exceeds_the_bound_of_a_kind_of_sums(data):
    rows = data.draw(row_functions())
    before, after, scales, frame, _ = data.draw(neighbours(rows, blocks=data.draw(st.integers(1, 5))))
    found = amounts(rows, changes(rows, before, after, scales, frame))
    assert set(found) == set(rows.kinds)
    for kind, (amount, bound) in found.items():
        assert amount <= bound, kind


@given(st.data())
def test_a_block_changes_its_own_values_only(data):
    rows = data.draw(row_functions())
    blocks = data.draw(st.integers(1, 7))
    before, after, _, _, place = data.draw(neighbours(rows, blocks))
    others = np.arange(blocks) != place
    for name in ("estimates", "failed", "outside"):
        assert getattr(before, name)[others].tobytes() == getattr(after, name)[others].tobytes()
    assert np.isfinite(after.estimates).all()
    pairs = others if rows.halves else np.arange(blocks // 2) != place // 2
    assert before.spreads[pairs].tobytes() == after.spreads[pairs].tobytes()
    assert len(before.spreads) == (blocks if rows.halves else blocks // 2)


@given(st.data())
def test_integer_rows_stay_within_their_reach_whatever_the_frame(data):
    """Of one block the sums are its own integer row: bounded by force, and the products are exactly its own."""
    rows = data.draw(row_functions())
    values, _, _, frame, _ = data.draw(neighbours(rows, blocks=1))
    sums = rows.sums(frame).add(values)[0]
    whole = [int(entry) for entry in sums[: rows.size]]
    norm = sum(q * q for q in whole) if rows.norm == "l2" else sum(map(abs, whole)) ** 2
    assert norm <= rows.moments.reach**2
    upper = zip(*np.triu_indices(rows.size), strict=True)
    assert sums[rows.size : -2].tolist() == [whole[i] * whole[j] for i, j in upper]
    assert sorted(sums[-2:].tolist()) in ([0, 0], [0, 1])


# Neighbours that attain the bounds


def worst(rows, first, second):
    """Move a block from one point to another, and the scale of every group from one octave to another.

    The points are in units of the frame, which is half as wide as the region. Without halves a second block, which
    stays, makes a pair with the first.
    """
    region = rows.region
    frame = Frame(region.center, region.radius / 2, np.ones(rows.size, dtype=bool))
    found = []
    for point, apart in ((first, 0.2), (second, 0.01)):
        fit, half = region.center + frame.half * point, region.radius * apart / np.sqrt(rows.size)
        other = region.center + frame.half * 0.8 * np.eye(rows.size)[0]
        fits = [[fit, fit + half, fit - half]] if rows.halves else [[fit], [other]]
        found.append(block_values(np.array(fits), region))
    return changes(rows, *found, np.array(region.radii), frame)


def points(size, norm):
    """Two points between which sums and products change by the most: at 120 degrees, or on two axes.

    The first is just inside of the frame and the second just outside; no coordinate has the same sign in both.
    """
    if size == 1:
        return np.array([0.999]), np.array([-1.001])
    first, second = np.full(size, -1e-4), np.full(size, 3e-4)
    first[0] = 0.999
    second[:2] = (-0.5006, 0.867) if norm == "l2" else (-3e-4, 1.001)
    return first, second


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("size", GROUPINGS)
def test_the_bounds_are_attained(size, norm):
    """Histograms wholly; sums with products nearly, where there are two parameters or more; counts wholly."""
    rows = Asked(region_for(size), norm=norm)
    shares = shares_of_bounds(rows, worst(rows, *points(size, norm)))
    assert shares["scale"] == pytest.approx(1.0, abs=1e-12)
    assert shares["location"] == pytest.approx(1.0, abs=1e-12)
    least = 0.99 if size > 1 else {"l2": np.sqrt(4 / 4.5), "l1": 0.75}[norm] - 2e-3
    assert least <= shares["sum"] <= 1
    region = rows.region
    failed, beyond = np.full((1, 3, size), NAN), np.tile(region.center + 2 * region.radius, (1, 3, 1))
    moved = changes(rows, *(block_values(f, region) for f in (failed, beyond)), np.array(region.radii), rows.whole)
    assert moved[-1][-2:].tolist() == [-1, 1]
    assert shares_of_bounds(rows, moved)["count"] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("size", GROUPINGS)
def test_sums_alone_move_by_the_diameter(size, norm):
    rows = Asked(region_for(size), norm=norm)
    point = np.eye(size)[0]
    moved = worst(rows, 1.9 * point, -1.9 * point)[-1][:size]
    length = np.sqrt((moved**2).sum()) if norm == "l2" else np.abs(moved).sum()
    assert 0.99 * 2 * rows.moments.reach <= length <= 2 * rows.moments.reach


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_for_a_single_parameter_the_bound_of_sums_is_attained(norm):
    """Every pair of integer rows: products cost nothing."""
    moments = Asked(region_for(1), norm=norm).moments
    reach = moments.reach
    weight = float(moments.pattern(norm)[1])
    q = np.arange(-reach, reach + 1, 17, dtype=float)
    first, second = np.abs(np.subtract.outer(q, q)), np.abs(np.subtract.outer(q**2, q**2)) / weight
    largest = float(np.sqrt(first**2 + second**2).max() if norm == "l2" else (first + second).max())
    share = largest / float(moments.part_changes("add_remove", norm)[0])
    assert 0.998 <= share <= 1


def test_products_have_less_noise_off_the_diagonal_by_no_more_than_the_bound_allows():
    moments = Asked(region_for(3)).moments
    pattern = moments.pattern("l2")
    diagonal = [i == j for i, j in zip(*np.triu_indices(3), strict=True)]
    for weight, own in zip(map(Fraction, pattern[3:9].tolist()), diagonal, strict=True):
        assert weight == moments.reach if own else weight**2 * 2 >= moments.reach**2
        assert own or float(weight) == pytest.approx(moments.reach / np.sqrt(2), rel=1e-15)
    assert (np.delete(pattern, slice(3, 9)) == 1).all()
    laplace = Asked(region_for(3), norm="l1").moments
    assert set(laplace.pattern("l1")[3:9]) == {3.0 * laplace.reach}


@pytest.mark.parametrize("size", range(1, 7))
def test_the_reach_is_the_unit_and_the_slack_of_rounding(size):
    names = tuple("abcdef"[:size])
    region = Region(names, (tuple(range(size)),), (1.0,), np.zeros(size))
    slack = {"l2": np.sqrt(size) / 2, "l1": size / 2}
    for norm, room in slack.items():
        assert Asked(region, norm=norm).moments.reach == BLOCK_UNIT + int(np.ceil(room))


# The whole measurement

PRICES = [
    *(dpi.ZCDP(0.5), dpi.ZCDP(0.01), dpi.ZCDP(1e-9), dpi.GDP(1.0), dpi.ApproxDP(1.0, 1e-6)),
    *(dpi.PureDP(1.0), dpi.PureDP(0.01), dpi.PureDP(1e-6)),
]
ENOUGH = (dpi.ZCDP(0.5), dpi.ZCDP(0.01), dpi.GDP(1.0), dpi.ApproxDP(1.0, 1e-6), dpi.PureDP(1.0))
CASES = [(price, size, correction) for price in PRICES for size in (1, 2, 6) for correction in ("half_blocks", "none")]


def center_of(frame):
    return [0.0]


@cache
def measured(price, size, correction, aggregator="winsorized", neighbors="add_remove"):
    region = region_for(size)
    bounds = {
        tuple(region.names[j] for j in places): dpi.Ball(radius, region.center[list(places)])
        for places, radius in zip(region.places, region.radii, strict=True)
    }
    question = sample_aggregate(
        "x",
        model=center_of,
        blocks=3000,
        bounds=bounds,
        names=region.names,
        bias_correction=correction,
        aggregator=aggregator,
    )
    return question.measurement(price, schema=SCHEMA, neighbors=neighbors)


def squared_amount(price):
    """Return what sum of (change/scale)^2 a price allows; for `PureDP` what sum of abs(change)/scale."""
    if isinstance(price, dpi.ZCDP):
        return 2 * decimal(price.rho)
    if isinstance(price, dpi.GDP):
        return decimal(price.mu) ** 2
    return decimal(price.epsilon)


def asked_by(measurement):
    """Return what a measurement sums, for `changes`."""
    last = measurement.rows
    return Asked(last.region, measurement.blocks.halves, len(measurement.stages) > 1, last.norm)


def loss(measurement, moved):
    """Return the exact sum of (change/scale)^2 over all stages; of abs(change)/scale for Laplace noise."""
    total = Fraction(0)
    for stage, change in zip(measurement.stages, moved, strict=True):
        power, scales = 2 if stage.law.family == "gaussian" else 1, stage.law.scales
        if len(scales) != len(change):  # places in other bins than those rehearsed: all their noise is the same
            (scale,) = set(scales)
            scales = (scale,) * len(change)
        changed = np.flatnonzero(change).tolist()
        total += sum((abs(int(change[j])) * stage.multiplier / Fraction(scales[j])) ** power for j in changed)
    return total


def allowed(measurement, price):
    """Return what is charged, which is no more than the price: shares of it are rounded down."""
    charged = measurement.cost.pure_epsilon if isinstance(price, dpi.PureDP) else 2 * measurement.cost.rho
    if not isinstance(price, dpi.ApproxDP):
        assert squared_amount(price) * (1 - Fraction(1, 10**15)) <= charged <= squared_amount(price)
    return charged


@pytest.mark.slow
@settings(max_examples=250)
@given(st.data(), st.sampled_from(CASES))
def test_the_whole_measurement_keeps_within_its_price(data, case):
    price = case[0]
    measurement = measured(*case)
    rows = asked_by(measurement)
    before, after, scales, frame, _ = data.draw(neighbours(rows, blocks=data.draw(st.integers(1, 5))))
    moved = changes(rows, before, after, scales, frame)
    assert loss(measurement, moved) <= allowed(measurement, price)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_whole_measurement_is_priced_as_a_whole(case):
    """Of the amount that is paid for, designed neighbours use nearly all: no kind of sums is charged twice.

    Every sum has noise, and histograms are dropped where they would be lost in it.
    """
    price, size, _ = case
    measurement = measured(*case)
    rows = asked_by(measurement)
    used = loss(measurement, worst(rows, *points(size, rows.norm)))
    share = float(used / allowed(measurement, price))
    sums = {"l2": 4 / 4.5, "l1": 0.75}[rows.norm] if size == 1 else 1.0
    assert sums - 0.03 <= share <= 1
    if rows.norm == "l1":
        assert {stage.multiplier for stage in measurement.stages} == {1}
    for stage in measurement.stages:
        assert stage.names == stage.rows.names
        assert len(stage.names) == len(stage.steps) == len(stage.law.scales)
    assert min(measurement.law.scales) > 0
    located = [OctaveCounts, PlaceCounts] if price in ENOUGH else []
    assert [type(stage.rows) for stage in measurement.stages] == [*located, BlockMoments]
    plain = measured(*case, aggregator="mean")
    assert [type(stage.rows) for stage in plain.stages] == [BlockMoments]
    assert len(plain.names) == size + size * (size + 1) // 2 + 2


def test_both_relations_have_the_same_bound():
    """By a label of its own a row is in one block, so that a row more or less changes no other block."""
    for case in CASES[:3]:
        first, second = (measured(*case, neighbors=neighbors) for neighbors in NEIGHBORS)
        assert first.law == second.law
        assert first.steps == second.steps
