"""The declared region: how it is read, and how values are moved into it."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpinfer.errors import OptionError
from dpinfer.schema import Ball
from dpinfer.schema.region import Region, region_names, region_of

NAN, INF = float("nan"), float("inf")
NAMES = ("a", "b", "c")
FORMS = {
    "one ball": (Ball(2), [(0, 1, 2)], [2], [0, 0, 0]),
    "one ball with a centre": (Ball(2, 1.5), [(0, 1, 2)], [2], [1.5, 1.5, 1.5]),
    "one ball with a list": (Ball(2, [1, 2, 3]), [(0, 1, 2)], [2], [1, 2, 3]),
    "one ball with an array": (Ball(2, np.arange(3)), [(0, 1, 2)], [2], [0, 1, 2]),
    "numbers of numpy": (Ball(np.float64(2), np.int64(1)), [(0, 1, 2)], [2], [1, 1, 1]),
    "a pair": ((-1, 3), [(0,), (1,), (2,)], [2, 2, 2], [1, 1, 1]),
    "a list": ([-1, 3], [(0,), (1,), (2,)], [2, 2, 2], [1, 1, 1]),
    "an array": (np.array([-1, 3]), [(0,), (1,), (2,)], [2, 2, 2], [1, 1, 1]),
    "two arrays": (np.array([[-1, 0, 2], [3, 1, 3]]), [(0,), (1,), (2,)], [2, 0.5, 0.5], [1, 0.5, 2.5]),
    "two lists": (([-1, 0, 2], [3, 1, 3]), [(0,), (1,), (2,)], [2, 0.5, 0.5], [1, 0.5, 2.5]),
    "a list and a number": (([-1, 0, 2], 3), [(0,), (1,), (2,)], [2, 1.5, 0.5], [1, 1.5, 2.5]),
    "by name": ({"a": (0, 1), "b": Ball(3), "c": Ball(2, [5])}, [(0,), (1,), (2,)], [0.5, 3, 2], [0.5, 0, 5]),
    "by group": ({("a", "c"): Ball(3, (1, 2)), "b": (0, 1)}, [(0, 2), (1,)], [3, 0.5], [1, 0.5, 2]),
    "in another order": ({("c", "a"): Ball(3, (1, 2)), "b": (0, 1)}, [(2, 0), (1,)], [3, 0.5], [2, 0.5, 1]),
    "a pair for a group": ({("c", "a"): ([0, 1], 2), "b": (0, 1)}, [(2,), (0,), (1,)], [1, 0.5, 0.5], [1.5, 0.5, 1]),
    "the largest": ((-1e100, 1e100), [(0,), (1,), (2,)], [1e100] * 3, [0, 0, 0]),
}
WRONG = [
    *(None, 7, "01", {}, (0, 1, 2), (0,), [], Ball, len, (3, 1), (1, 1), (NAN, 1), (0, NAN), (0, INF), (-INF, 0)),
    *((0, "x"), (0, None), (1j, 2), ({}, 1), ([0, 0], 1), ([0, 0, 2], 1), ([0, NAN, 0], 1), (0, 1e101), ([[0] * 3], 1)),
    *({"a": (0, 1)}, {"a": (0, 1), "b": (0, 1)}, {("a", "b"): Ball(1)}),
    *({**dict.fromkeys(NAMES, (0, 1)), "d": (0, 1)}, {("a", "b", "d"): Ball(1), "c": (0, 1)}),
    *({**dict.fromkeys(NAMES, (0, 1)), ("a", "b"): Ball(1)}, {("a", "b", "b"): Ball(1), "c": (0, 1)}),
    *({**dict.fromkeys(NAMES, (0, 1)), 1: (0, 1)}, {**dict.fromkeys(NAMES, (0, 1)), (): (0, 1)}),
    *({frozenset(NAMES): Ball(1)}, {None: Ball(1)}, {"a": {}, "b": {}, "c": {}}, dict.fromkeys(NAMES)),
    *(Ball(1, [1, 2]), Ball(1, [1, 2, 3, 4]), Ball(1, ()), {("a", "b"): Ball(1, [0]), "c": (0, 1)}),
]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_bounds_is_read(form):
    bounds, places, radii, center = FORMS[form]
    region = region_of(bounds, NAMES)
    assert region.names == NAMES
    assert region.places == tuple(places)
    assert region.radii == tuple(map(float, radii))
    np.testing.assert_array_equal(region.center, center)
    for number, group in enumerate(places):
        assert set(region.group[list(group)]) == {number}
        assert set(region.radius[list(group)]) == {radii[number]}


@pytest.mark.parametrize("bounds", WRONG, ids=map(str, range(len(WRONG))))
def test_wrong_bounds_are_refused(bounds):
    with pytest.raises(OptionError) as refused:
        region_of(bounds, NAMES)
    assert refused.value.option in ("bounds", "center")


def test_wrong_radii_and_centres_are_refused():
    for radius in (0, -1, NAN, INF, -INF, 1e101, None, "1", True, [1], 1j, np.bool_(True)):
        with pytest.raises(OptionError, match="radius"):
            Ball(radius)
    for center in (NAN, INF, None, "a", True, {}, [1, NAN], [1, "a"], [[1, 2]], [[1], [2]]):
        with pytest.raises(OptionError, match="center"):
            Ball(1, center)


UNUSUAL = [(1, np.array(3.0)), (10**400,), (1, 10**400), (1, [10**400]), (np.float32(2),), (np.float16(2), np.int8(3))]


@pytest.mark.parametrize("given", UNUSUAL, ids=["0-d", "radius", "centre", "list", "float32", "float16"])
def test_unusual_numbers_of_a_ball_are_taken_or_refused_by_name(given):
    try:
        ball = Ball(*given)
    except OptionError:
        return
    assert np.isfinite(region_of(ball, ("a",)).center).all()


@pytest.mark.parametrize("bounds", [(0, 10**400), np.array(3.0), (0, 5e-324), (0, 1e-310)], ids=["big", "0-d", *"st"])
def test_unusual_bounds_are_taken_or_refused_by_name(bounds):
    """An interval too narrow for floating point must not become a ball without a radius."""
    try:
        region = region_of(bounds, NAMES)
    except OptionError:
        return
    assert (region.radius > 0).all()
    ends = region.clip(np.array([[-1.0] * 3, [1.0] * 3]))
    assert np.isfinite(ends).all()


def test_the_names_in_bounds():
    assert region_names({("c", "a"): Ball(1), "b": (0, 1)}) == ("c", "a", "b")
    assert all(region_names(bounds) is None for bounds in (None, Ball(1), (0, 1), {}))


def test_what_lacks_and_what_is_named_twice_is_said():
    with pytest.raises(OptionError, match=r"none for b, c.*one for each parameter: a, b, c"):
        region_of({"a": (0, 1)}, NAMES)
    with pytest.raises(OptionError, match="several for b"):
        region_of({("a", "b"): Ball(1), ("b", "c"): Ball(1)}, NAMES)
    with pytest.raises(OptionError, match=r"'d'.*they are a, b, c"):
        region_of({"d": Ball(1)}, NAMES)


def test_a_region_is_described():
    region = region_of({("a", "c"): Ball(2), "b": (0, 1)}, NAMES)
    assert region.describe() == "(a, c) within 2 of 0; b in [0, 1]"
    assert region_of(Ball(1, [1, 2, 3.5]), NAMES).describe() == "(a, b, c) within 1 of [1, 2, 3.5]"


# Moving values into the region

ANY = st.one_of(st.floats(), st.sampled_from([INF, -INF, NAN, 1e308, -1e308, 1.7e308, 5e-324, -0.0, 1e160]))
RADII = st.one_of(st.floats(1.0, 1e6), st.floats(1e-6, 1.0))


@st.composite
def regions(draw, radii=RADII, most=6):
    """A region of one to six parameters in some groups."""
    size = draw(st.integers(1, most))
    order = draw(st.permutations(range(size)))
    cuts = sorted(draw(st.sets(st.integers(1, size - 1)))) if size > 1 else []
    places = tuple(tuple(part.tolist()) for part in np.split(np.array(order), cuts))
    center = draw(st.lists(st.floats(-1e3, 1e3), min_size=size, max_size=size))
    found = tuple(draw(radii) for _ in places)
    return Region(tuple("abcdef"[:size]), places, found, np.array(center))


def outside_by(region, values):
    """Return by how many radii values lie outside, at most 0 inside, up to rounding of centre and value."""
    moved = np.abs(values - region.center)
    slack = 1e-13 * (np.abs(region.center) + region.radius)
    moved = np.maximum(moved - slack, 0.0) / region.radius
    return max(float(np.sqrt((moved[..., list(places)] ** 2).sum(axis=-1)).max()) - 1 for places in region.places)


@given(st.data(), regions(radii=st.floats(1.0, 1e6)))
def test_whatever_is_clipped_lies_in_the_region(data, region):
    size = len(region.names)
    values = np.array(data.draw(st.lists(st.lists(ANY, min_size=size, max_size=size), min_size=1, max_size=5)))
    clipped = region.clip(values)
    assert clipped.shape == values.shape
    assert outside_by(region, clipped) <= 1e-13
    for value, moved in zip(values, clipped, strict=True):
        np.testing.assert_array_equal(region.clip(value), moved)  # each by itself
        if not np.isfinite(value).all():
            np.testing.assert_array_equal(moved, region.center)


@given(st.data(), regions(radii=st.floats(1e-6, 1.0)))
def test_whatever_is_clipped_lies_in_a_small_region(data, region):
    """Distances of 1e308 in radii below 1 are beyond floating point."""
    size = len(region.names)
    values = np.array([data.draw(st.lists(ANY, min_size=size, max_size=size))])
    assert outside_by(region, region.clip(values)) <= 1e-13


@given(st.data(), regions())
def test_clipping_moves_towards_the_centre_and_no_further_than_needed(data, region):
    size = len(region.names)
    shifts = st.floats(-1e9, 1e9)
    value = region.center + np.array(data.draw(st.lists(shifts, min_size=size, max_size=size)))
    clipped = region.clip(value)
    np.testing.assert_allclose(region.clip(clipped), clipped, rtol=1e-12, atol=1e-12)
    tolerance = 1e-12 * (1e3 + np.abs(value).max())
    for places, radius in zip(region.places, region.radii, strict=True):
        here = list(places)
        before, after = value[here] - region.center[here], clipped[here] - region.center[here]
        length = float(np.sqrt((before**2).sum()))
        expected = before if length <= radius else before * (radius / length)
        np.testing.assert_allclose(after, expected, rtol=1e-9, atol=tolerance)


def test_values_inside_stay_to_the_last_digits_and_any_leading_shape_is_kept():
    region = region_of({("a", "b"): Ball(3.0, (1, -1)), "c": (0, 1)}, NAMES)
    rng = np.random.default_rng(3)
    inside = rng.uniform(0, 1, (4, 5, 3)) * [1, 1, 1] + [0, -1, 0]
    np.testing.assert_allclose(region.clip(inside), inside, rtol=1e-14, atol=1e-15)
    given_values = inside.copy()
    region.clip(given_values)
    np.testing.assert_array_equal(given_values, inside)


# JSON


@given(regions())
def test_a_region_survives_json_to_the_last_digit(region):
    back = Region.from_dict(json.loads(json.dumps(region.to_dict())))
    assert (back.names, back.places, back.radii) == (region.names, region.places, region.radii)
    assert back.center.tobytes() == region.center.tobytes()
    assert back.describe() == region.describe()


GOOD = region_of({("a", "c"): Ball(3, (1, 2)), "b": (0, 1)}, NAMES).to_dict()
JUNK = [None, 0, 1, -1, 10**3, 0.5, NAN, INF, "", "a", [], ["a"], [0], [[0]], [[0, 1, 2]], [[0], [0], [1]], {}, True]


def well_formed(region):
    flat = sorted(place for places in region.places for place in places)
    return (
        flat == list(range(len(region.names)))
        and len(region.radii) == len(region.places)
        and all(0 < radius < INF for radius in region.radii)
        and region.center.shape == (len(region.names),)
        and np.isfinite(region.center).all()
        and all(isinstance(name, str) for name in region.names)
    )


@pytest.mark.parametrize("entry", GOOD)
def test_a_damaged_entry_is_refused_or_reads_as_another_region(entry):
    for junk in JUNK:
        for damaged in (junk, [junk] * len(GOOD[entry]), [*GOOD[entry][:-1], junk], [*GOOD[entry], junk]):
            try:
                region = Region.from_dict({**GOOD, entry: damaged})
            except (KeyError, TypeError, ValueError):
                continue
            assert well_formed(region)


WORSE = {
    "names": [["a", "b"], ["a", "b", "b"], ["a", "b", 3], ["a", "b", "c", "d"], None, []],
    "groups": [[[0, 1]], [[0, 2], []], [[0, 2], [2]], [[0, 2], [3]], [[0, 2], [1.0]], [[0, 2], [True]], [0, 1], None],
    "radii": [[3.0], [3.0, 0.0], [3.0, -1.0], [3.0, NAN], [3.0, INF], [3.0, 1e101], [3.0, "1"], [3.0, True], None],
    "center": [[0.0, 0.0], [0.0, 0.0, NAN], [0.0, 0.0, INF], [[0.0, 0.0, 0.0]], 0.0, ["a", "b", "c"], {}, None],
}


def test_a_damaged_region_is_refused():
    damaged = [{**GOOD, entry: one} for entry, some in WORSE.items() for one in some]
    damaged += [{**GOOD, entry: [10**400, *GOOD[entry][1:]]} for entry in ("radii", "center")]
    for stored in [*damaged, None, [], 3, "names", {}, *({k: GOOD[k] for k in GOOD if k != n} for n in GOOD)]:
        with pytest.raises((KeyError, TypeError, ValueError)):
            pytest.fail(f"{Region.from_dict(stored)} was read from {stored}")
