"""The row function: one row at a time, within its bounds, whatever the cells hold."""

from fractions import Fraction
from functools import cache
from math import inf, nan, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpinfer.errors import NotProvedError, OptionError
from dpinfer.kernel.rows.base import CHUNK_ROWS
from dpinfer.kernel.rows.features import Features, RowClip
from dpinfer.regression.gram import GramDesign
from dpinfer.schema import Boolean, Category, Integer, Real, Schema
from dpinfer.schema.basis import simplex_codes
from dpinfer.schema.grid import UNIT
from tests.kernel.rows.batches import objects

SCHEMA = Schema(
    x=Real(-4, 12),
    u=Real(0, 1),
    k=Integer(0, 16),
    b=Boolean(),
    g=Category(["a", "b", "c"]),
    y=Real(0, 32),
)


def rows_of(formula, schema=SCHEMA, **options):
    return GramDesign(schema, formula=formula, **options).rows


def encode(rows, **cells):
    """Encode columns of cells and return whole Python numbers, (m, d)."""
    encoded, marks = rows.encode({name: objects(values) for name, values in cells.items()})
    assert np.array_equal(encoded, np.rint(encoded))
    return encoded.astype(np.int64).astype(object).T, marks


def test_features_are_the_nearest_grid_points():
    rows = rows_of("y ~ x + b + g")
    encoded, _ = encode(rows, x=[-4, 12, 4, 0.00001], b=[0, 1, True, "false"], g=["a", "b", "c", "a"], y=[0, 32, 16, 8])
    codes = simplex_codes(3)
    assert encoded[:, 0].tolist() == [UNIT] * 4
    assert encoded[:, 1].tolist() == [-UNIT, UNIT, 0, round((0.00001 - 4) / 8 * UNIT)]
    assert encoded[:, 2].tolist() == [-UNIT, UNIT, UNIT, -UNIT]
    assert encoded[:, 3:5].tolist() == [codes[0].tolist(), codes[1].tolist(), codes[2].tolist(), codes[0].tolist()]
    assert encoded[:, 5].tolist() == [-UNIT, UNIT, 0, -UNIT // 2]


@given(
    st.lists(
        st.tuples(st.floats(-1e3, 1e3), st.floats(-1, 2), st.sampled_from("abc"), st.floats(-1, 40)),
        min_size=1,
        max_size=20,
    )
)
def test_rows_agree_with_exact_fractions(cells):
    """Within half a grid step, and what floats lose, of the feature in exact arithmetic."""
    rows = rows_of("y ~ x + u:g")
    x, u, g, y = (list(column) for column in zip(*cells, strict=True))
    encoded, _ = encode(rows, x=x, u=u, g=g, y=y)
    codes = simplex_codes(3).astype(object)
    for row, (one_x, one_u, level, one_y) in zip(encoded, cells, strict=True):
        share = [_share(one_x, -4, 12), _share(one_u, 0, 1), Fraction(min(max(one_u, 0), 1)), _share(one_y, 0, 32)]
        exact = [UNIT, UNIT * share[0], UNIT * share[1]]
        exact += [code * share[2] for code in codes["abc".index(level)]] + [UNIT * share[3]]
        for feature, wanted in zip(row, exact, strict=True):
            assert abs(feature - wanted) <= Fraction(1, 2) + Fraction(1, 10**6)


def _share(value, lower, upper):
    clamped = Fraction(min(max(value, lower), upper))
    return (clamped - Fraction(lower + upper, 2)) / Fraction(upper - lower, 2)


BAD = [nan, inf, -inf, None, "", "oops", "1e5 km", object(), [1.0], (1, 2), b"1", 1j, np.datetime64("2020-01-01"), {}]


@pytest.mark.parametrize("formula", ["y ~ x", "y ~ x + log(1 + u)", "y ~ x:g + k", "y ~ b"])
def test_rows_that_cannot_be_read_are_zero_and_leave_the_others_alone(formula):
    rows = rows_of(formula)
    good = {"x": 3.0, "u": 0.5, "k": 3, "b": True, "g": "b", "y": 30.0}
    wanted, _ = encode(rows, **{name: [good[name]] for name in rows.columns})
    for spoilt in rows.columns:
        for bad in BAD:
            cells = {name: [good[name], bad if name == spoilt else good[name], good[name]] for name in rows.columns}
            encoded, marks = encode(rows, **cells)
            assert not any(encoded[1]), (spoilt, bad)
            assert encoded[0].tolist() == encoded[2].tolist() == wanted[0].tolist()
            assert marks.tolist() == [0, 0, 0]


def test_values_beyond_the_bounds_are_clamped_and_counted():
    rows = rows_of("y ~ x", clamped_share=0.1)
    encoded, marks = encode(rows, x=[12.0, 12.5, 1e308, -1e308, nan], y=[32, 32, 99, 0, 99])
    assert encoded[:, 1].tolist() == [UNIT, UNIT, UNIT, -UNIT, 0]
    assert encoded[:, 2].tolist() == [UNIT, UNIT, UNIT, -UNIT, 0]
    assert marks.tolist() == [0, 1, 1, 1, 0]


@pytest.mark.parametrize("where", ["x > 0", "(x > 0) & b", "g in ['a', 'b']", "not b", "k >= 3 or b"])
def test_where_drops_rows_and_no_other(where):
    rows = rows_of("y ~ u", where=where, clamped_share=0.1)
    plain = rows_of("y ~ u", clamped_share=0.1)
    sample = SCHEMA.sample(300, np.random.default_rng(1))
    raw = {name: sample[name].to_numpy() for name in sample}
    chosen = sample.eval(where).to_numpy() if "in" not in where else sample["g"].isin(["a", "b"]).to_numpy()
    kept, _ = rows.encode(raw)
    all_rows, _ = plain.encode(raw)
    assert np.array_equal(kept, all_rows * chosen)
    assert 0 < chosen.sum() < 300


def test_a_missing_value_in_the_condition_drops_the_row():
    rows = rows_of("y ~ u", where="x < 100")
    encoded, _ = encode(rows, x=[1, nan, inf, None], u=[0.5] * 4, y=[1] * 4)
    assert [row[0] for row in encoded] == [UNIT, 0, 0, 0]


def test_a_condition_on_public_constants():
    assert encode(rows_of("y ~ 1", where="1 > 0"), y=[3.0])[0][0][0] == UNIT
    assert encode(rows_of("y ~ 1", where="0 > 1"), y=[3.0])[0][0][0] == 0


@cache
def clipped_rows(bound, norm):
    return rows_of("y ~ x * g + u", row_norm=bound, norm=norm)


@settings(max_examples=150)
@given(
    st.sampled_from([0.001, 0.3, 1.0, 1.01, 1.5, 2**0.5, 2.0, 3.7, 1e3, 1e30, 1e300]),
    st.sampled_from(["l2", "l1"]),
    st.lists(
        st.tuples(st.floats(-5, 13), st.floats(0, 1), st.sampled_from("abc"), st.floats(0, 32)), min_size=1, max_size=6
    ),
)
def test_clipped_rows_keep_their_bounds(bound, norm, cells):
    """In whole numbers, the rounding slack included; the response has the weight of its row."""
    rows, free = clipped_rows(bound, norm), clipped_rows(None, "l2")
    x, u, g, y = (list(column) for column in zip(*cells, strict=True))
    encoded, _ = encode(rows, x=x, u=u, g=g, y=y)
    whole, _ = encode(free, x=x, u=u, g=g, y=y)
    limit = round(bound * UNIT)
    for clipped, before in zip(encoded, whole, strict=True):
        assert sum(z * z for z in clipped) <= rows.bounds.squared <= free.bounds.squared
        assert sum(map(abs, clipped)) <= rows.bounds.absolute <= free.bounds.absolute
        assert sum(z * z for z in clipped[:-1]) <= rows.bounds.squared - UNIT**2, "as a split relies on"
        assert sum(map(abs, clipped[:-1])) <= rows.bounds.absolute - UNIT
        size = sum(z * z for z in before[:-1]) if norm == "l2" else sum(map(abs, before[:-1]))
        size = sqrt(size) if norm == "l2" else size
        weight = min(1.0, limit / (size or 1))
        assert max(abs(z - weight * w) for z, w in zip(clipped, before, strict=True)) <= 0.5 + 1e-6
        if size < limit - 1:
            assert clipped.tolist() == before.tolist()


@given(st.sampled_from([1, 2, 3, 5, 8, 17, 50]), st.data())
def test_rounding_slack_covers_rows_whose_entries_all_round_up(width, data):
    """Equal entries just above a half step: the worst case of the slack sqrt(d)/2."""
    names = [f"v{index}" for index in range(width)]
    schema = Schema({name: Real(-1, 1) for name in (*names, "y")})
    bound = data.draw(st.floats(0.01, 1.2 * (width + 1) ** 0.5))
    rows = rows_of("y ~ " + " + ".join(names), schema, row_norm=bound)
    value = data.draw(st.floats(0.1, 1))
    encoded, _ = encode(rows, **{name: [value, 1.0, -1.0] for name in names}, y=[1.0, -1.0, 1.0])
    for row in encoded:
        assert any(row), "no row within the bounds is dropped"
        assert sum(z * z for z in row) <= rows.bounds.squared
        assert sum(z * z for z in row[:-1]) <= rows.bounds.squared - UNIT**2


def test_rounding_slack_is_needed_and_not_much_too_large():
    """Of many clips of rows with equal entries, some round up beyond the limit, and none far beyond."""
    names = [f"v{index}" for index in range(15)]
    schema = Schema({name: Real(-1, 1) for name in (*names, "y")})
    beyond = {"l2": [], "l1": []}
    for norm, size in (("l2", 4.0), ("l1", 16.0)):
        for step in range(60):
            bound = size / 2 + step * 1e-5
            rows = rows_of("y ~ " + " + ".join(names), schema, row_norm=bound, norm=norm)
            (row,), _ = encode(rows, **{name: [1.0] for name in names}, y=[0.0])
            limit = round(bound * UNIT)
            length = sqrt(sum(z * z for z in row[:-1])) if norm == "l2" else sum(map(abs, row[:-1]))
            assert sum(z * z for z in row[:-1]) <= rows.bounds.squared - UNIT**2
            assert sum(map(abs, row[:-1])) <= rows.bounds.absolute - UNIT
            beyond[norm].append(length - limit)
    assert 1 < max(beyond["l2"]) <= 2
    assert 6 < max(beyond["l1"]) <= 8


def test_a_clip_needs_a_numeric_response_that_is_measured_last():
    basis = GramDesign(SCHEMA, terms=("y", "g")).basis
    with pytest.raises(NotProvedError, match="response"):
        _ = Features(basis, clip=RowClip(1.0)).bounds


@pytest.mark.parametrize("bound", [0, -1, nan, inf, "2", None, True, 1e-7])
def test_wrong_bounds_of_a_clip(bound):
    with pytest.raises(OptionError, match="row_norm"):
        RowClip(bound)


def test_wrong_norm_of_a_clip():
    with pytest.raises(OptionError, match=r"norm='linf'.*'l2', 'l1'"):
        RowClip(1.0, "linf")


def test_every_row_is_kept_only_if_policies_say_so():
    kept = Schema(x=Real(0, 1, missing=0, impossible=1), y=Real(0, 1, missing=0, impossible=0))
    half = Schema(x=Real(0, 1, missing=0), y=Real(0, 1, missing=0, impossible=0))
    assert rows_of("y ~ x", kept).keeps_every_row
    assert not rows_of("y ~ x", half).keeps_every_row
    assert rows_of("y ~ 1", half).keeps_every_row
    assert not rows_of("y ~ 1", half, where="x > 0.5").keeps_every_row
    assert not rows_of("y ~ x", kept, where="x > 0.5").keeps_every_row
    assert not rows_of("y ~ x", kept, row_norm=9.0).keeps_every_row
    encoded, _ = encode(rows_of("y ~ x", kept), x=[nan, *BAD], y=[None, *BAD])
    assert {row[0] for row in encoded} == {UNIT}


@pytest.mark.parametrize(
    ("formula", "options"),
    [
        ("y ~ x * g + b + k", {}),
        ("y ~ log(1 + u) + exp(u) + sqrt(k) + I(u ** 1.7)", {}),
        ("y ~ I(x ** 3) + exp(-x) + log10(13 + x) + expm1(u):g", {"where": "log(1 + k) > 0.7"}),
        ("log(1 + y) ~ x * g", {"row_norm": 1.1, "clamped_share": 0.1}),
        ("y ~ x + k", {"row_norm": 1.1, "norm": "l1"}),
    ],
)
def test_a_row_means_the_same_wherever_it_stands(formula, options):
    """Vectorised code may treat the ends of an array, or its alignment, in another way."""
    rows = rows_of(formula, **options)
    sample = SCHEMA.sample(257, np.random.default_rng(5))
    raw = {name: sample[name].to_numpy() for name in sample}
    whole, marks = (part.copy() for part in rows.encode(raw))
    for start in range(257):
        for size in {1, 2, 3, 17} if start < 40 else {1}:
            part = {name: cells[start : start + size] for name, cells in raw.items()}
            encoded, marked = rows.encode(part)
            assert np.array_equal(encoded, whole[:, start : start + size])
            assert np.array_equal(marked, marks[start : start + size])
    table = np.ascontiguousarray(np.column_stack([np.asarray(raw[name], dtype=object) for name in raw]))
    strided = {name: table[:, place] for place, name in enumerate(raw)}
    assert np.array_equal(rows.encode(strided)[0], whole)
    numbers = np.column_stack([raw["x"], raw["u"], raw["y"]])
    views = {**raw, **{name: numbers[::-1][::-1][:, place] for place, name in enumerate(["x", "u", "y"])}}
    assert not views["x"].flags.c_contiguous
    assert np.array_equal(rows.encode(views)[0], whole)


def test_scratch_space_is_overwritten():
    rows = rows_of("y ~ x:g + b + I(x > 3)", where="b")
    sample = SCHEMA.sample(64, np.random.default_rng(2))
    raw = {name: sample[name].to_numpy() for name in sample}
    fresh, _ = rows.encode(raw)
    for rubbish in (nan, inf, 7e300, -3.0):
        out = np.full((rows.basis.width, 64), rubbish)
        assert rows.encode(raw, out)[0] is out
        assert np.array_equal(out, fresh)


def test_chunks_are_exact_in_floats():
    assert CHUNK_ROWS * UNIT * UNIT <= 2**53
