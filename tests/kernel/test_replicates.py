"""Sums under random weights: exact for any number of rows, threads and replicates, and weights of the stated law."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.kernel import sampling, sums
from dpinfer.kernel.rows.base import CHUNK_ROWS
from dpinfer.kernel.sampling import PrivateDraws, SimulatedDraws, seeded_bytes
from dpinfer.kernel.sources import Table, open_source
from dpinfer.kernel.sums import replicate_sums
from dpinfer.privacy.resampling import POISSON
from dpinfer.resampling.bootstrap import BootstrapPlan
from dpinfer.schema.grid import UNIT
from tests.kernel.weights import Given, from_table

SCHEMA = dpi.Schema(x=dpi.Real(-3, 11), g=dpi.Category(["a", "b", "c"]), y=dpi.Real(0, 50))
WEIGHTS = ("double_or_nothing", "poisson", "public", "paired")
PAIRS = ("public", "paired")
LAWS = pytest.mark.parametrize("weights", WEIGHTS)
SIZES = pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 4096, 4097, 32_769])


def rows_of(weights="double_or_nothing", columns=("x", "y"), statistic="mean", replicates=6, seed=5):
    return BootstrapPlan(SCHEMA, tuple(columns), statistic, replicates, weights, seed).rows


def products_of(weights="double_or_nothing", replicates=6, seed=5):
    return rows_of(weights, (), "y ~ x + g", replicates, seed)


def sample(size, seed=1):
    """Draw rows, some beyond the bounds and some missing."""
    rng = np.random.default_rng(seed)
    frame = SCHEMA.sample(size, rng)
    frame["x"] = rng.normal(4, 5, size)
    frame.loc[rng.random(size) < 0.05, "y"] = np.nan
    return frame


def table_of(rows, size, seed=2):
    """Random bits, or numbers of 16 bits: one for every set of weights and row."""
    rng = np.random.default_rng(seed)
    sets = rows.replicates // 2 if rows.weights in PAIRS else rows.replicates
    if rows.weights == "poisson":
        return rng.integers(0, 2**16, (sets, size), dtype=np.uint16)
    return rng.integers(0, 2, (sets, size), dtype=np.uint8)


def draws_of(data):
    """Return the draws that the kernel makes for data."""
    return SimulatedDraws(data.rng) if data.public else PrivateDraws()


def given_sums(rows, source, draws, **options):
    """Sum under given bytes: in place of secret ones, and of those that the seed of public weights gives."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "seeded_bytes", lambda _: draws.bytes())
        return replicate_sums(rows, source, draws, **options)


def weights_of(rows, table):
    """Weights (B, n) that a table stands for, worked out anew."""
    if rows.weights == "poisson":
        return np.searchsorted(np.cumsum(POISSON.counts), table, side="right").astype(np.int64)
    bits = table.astype(np.int64)
    if rows.weights in PAIRS:
        return np.stack([2 * bits, 2 * (1 - bits)], axis=1).reshape(rows.replicates, -1)
    return 2 * bits


def integers_of(rows, frame):
    """Encode rows, one at a time where they are few: (n, d)."""
    source = open_source(frame)
    step = 1 if len(frame) < 100 else 1000
    parts = [rows.encode(source.read(rows.columns, i, min(i + step, len(frame)))) for i in range(0, len(frame), step)]
    return np.concatenate([np.zeros((rows.width, 0)), *parts], axis=1).T.astype(np.int64)


def expected(rows, frame, table):
    """Weigh and add in 64-bit integers, which hold these sums."""
    return (weights_of(rows, table) @ integers_of(rows, frame)).ravel().tolist()


# Exact sums


@SIZES
@LAWS
@pytest.mark.parametrize("kind", [rows_of, products_of])
def test_sums_are_those_of_whole_numbers(kind, weights, size):
    rows, frame = kind(weights), sample(size)
    table = table_of(rows, size)
    found = given_sums(rows, open_source(frame), from_table(table))
    assert found == expected(rows, frame, table)
    assert len(found) == rows.replicates * rows.width == len(rows.names)
    assert {type(one) for one in found} == {int}
    assert any(found) == (size > 0)


@LAWS
@pytest.mark.parametrize(("replicates", "size"), [(1, 9000), (100, 5000), (1000, 1111), (2 * 40_000, 33)])
def test_sums_do_not_depend_on_how_many_rows_are_weighed_at_once(weights, replicates, size):
    """Eight rows at once at the least, 4096 at the most."""
    replicates += weights in PAIRS and replicates == 1
    rows, frame = rows_of(weights, replicates=replicates), sample(size)
    table = table_of(rows, size)
    assert given_sums(rows, open_source(frame), from_table(table)) == expected(rows, frame, table)


def test_sums_equal_a_slow_reference_in_fractions():
    rows, frame = rows_of(replicates=3), sample(200)
    table = table_of(rows, 200)
    total = [[0, 0, 0] for _ in range(3)]
    for place, (x, y) in enumerate(frame[["x", "y"]].itertuples(index=False, name=None)):
        if np.isnan(y):
            continue
        grid = [UNIT, _round(x, -3, 11), _round(y, 0, 50)]
        for b in range(3):
            total[b] = [one + 2 * int(table[b, place]) * cell for one, cell in zip(total[b], grid, strict=True)]
    assert given_sums(rows, open_source(frame), from_table(table)) == sum(total, [])  # noqa: RUF017


def _round(value, lower, upper):
    clamped = Fraction(min(max(value, lower), upper))
    return round((clamped - Fraction(lower + upper, 2)) / Fraction(upper - lower, 2) * UNIT)


@LAWS
def test_threads_do_not_matter(weights):
    frame, rows = sample(3 * CHUNK_ROWS + 11), products_of(weights)
    source = open_source(frame)
    draw = from_table(table_of(rows, len(frame)))
    found = [given_sums(rows, source, draw, threads=threads) for threads in (1, 2, 5, None)]
    assert found[0] == found[1] == found[2] == found[3]
    assert found[0] == expected(rows, frame, table_of(rows, len(frame)))


@pytest.mark.parametrize("flush", [1, 2, 32])
def test_the_sums_do_not_depend_on_when_they_leave_64_bits(monkeypatch, flush):
    frame, rows = sample(3 * CHUNK_ROWS), rows_of("poisson")
    table = table_of(rows, len(frame))
    monkeypatch.setattr(sums, "_FLUSH", flush)
    assert given_sums(rows, open_source(frame), from_table(table)) == expected(rows, frame, table)


class Tall(Table):
    """More rows than memory would hold, each at its upper bounds."""

    columns = ("x", "y")

    def __init__(self, rows):
        self.rows = rows

    def read(self, names, start, stop):
        return {name: np.broadcast_to(SCHEMA[name].upper, stop - start) for name in names}


@LAWS
def test_sums_at_the_edge_of_floats_and_of_64_bits_are_exact(weights):
    """Every weight is the largest there is: products reach 6 times 2^38 a row."""
    largest = 6 if weights == "poisson" else 2
    rows = rows_of(weights, (), "y ~ x", replicates=2)
    size = 34 * CHUNK_ROWS + 4097
    found = given_sums(rows, Tall(size), Given(lambda _, count: b"\xff" * count))
    total = largest * size * UNIT**2
    assert found[:6] == [total] * 6
    assert found[6:] == [0 if weights in PAIRS else total] * 6
    assert sums._ROWS * 6 * UNIT**2 <= 2**53
    assert sums._LARGEST == 6 * UNIT**2 * CHUNK_ROWS


@LAWS
def test_with_bytes_of_zero_no_row_counts_but_in_the_other_of_a_pair(weights):
    rows, frame = rows_of(weights, replicates=4), sample(100)
    found = np.array(given_sums(rows, open_source(frame), Given(lambda _, count: bytes(count)))).reshape(4, 3)
    once = integers_of(rows, frame).sum(axis=0)
    other = 2 * once if weights in PAIRS else 0 * once
    np.testing.assert_array_equal(found, [0 * once, other, 0 * once, other])


@pytest.mark.parametrize("weights", PAIRS)
def test_pairs_of_sums_add_up_to_twice_the_plain_sums(weights):
    rows, frame = products_of(weights, replicates=20), sample(5000)
    found = np.array(replicate_sums(rows, open_source(frame), PrivateDraws())).reshape(10, 2, -1)
    np.testing.assert_array_equal(found.sum(axis=1), np.tile(2 * integers_of(rows, frame).sum(axis=0), (10, 1)))
    assert len({tuple(one) for one in found[:, 0]}) == 10


# The law of the weights, as it can be read off the sums


def guarded(frame, neighbors="add_remove"):
    return dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(dpi.GDP(1e4), neighbors=neighbors))


def drawn_weights(weights, replicates, data=None):
    """Weights (B, 6) of six rows, decoded from sums of their distinct powers of seven."""
    codes = 7 ** np.arange(6)
    frame = pd.DataFrame({"x": 4 + 7 * codes / UNIT, "g": "a", "y": 0.0})
    rows = rows_of(weights, ("x",), replicates=replicates)
    data = guarded(frame, "replace_one" if weights == "public" else "add_remove") if data is None else data(frame)
    sums = np.array(replicate_sums(rows, open_source(frame), draws_of(data))).reshape(replicates, 2)
    found = sums[:, 1:] // codes % 7
    np.testing.assert_array_equal(found @ codes, sums[:, 1])
    np.testing.assert_array_equal(found.sum(axis=1) * UNIT, sums[:, 0])
    return found


@LAWS
def test_weights_have_their_law_row_by_row_and_replicates_are_independent(weights):
    """Each of some forty tests fails weights that are right with probability 1e-8."""
    draws = 40_000
    found = drawn_weights(weights, draws)
    masses = np.array(POISSON.probabilities if weights == "poisson" else (0.5, 0, 0.5))
    single = found[0::2] if weights in PAIRS else found
    for column in single.T:
        counts = np.bincount(column, minlength=len(masses))
        kept = masses > 0
        assert not counts[~kept].any()
        law = masses[kept] * len(single)
        assert stats.chi2.sf(((counts[kept] - law) ** 2 / law).sum(), kept.sum() - 1) > 1e-8
    centred = (single - 1).astype(float)
    for related in (
        *(centred[:, i] * centred[:, j] for i in range(6) for j in range(i)),
        *(centred[1:, i] * centred[:-1, i] for i in range(6)),
        *(centred[1:, i] * centred[:-1, (i + 1) % 6] for i in range(6)),
    ):
        assert 2 * stats.norm.sf(abs(related.mean()) * np.sqrt(len(related)) / related.std()) > 1e-8
    if weights in PAIRS:
        np.testing.assert_array_equal(found[0::2] + found[1::2], 2)


def test_weights_of_public_rows_come_from_their_generator():
    def seeded(seed):
        return lambda frame: dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(seed))

    for weights in ("double_or_nothing", "poisson", "paired"):
        first, again, other = (drawn_weights(weights, 50, seeded(seed)) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first, again)
        assert (first != other).any()


def test_secret_weights_of_confidential_rows_come_from_the_operating_system(monkeypatch):
    asked = []

    def urandom(size):
        asked.append(size)
        return b"\xff" * size

    data = guarded(sample(20))
    monkeypatch.setattr(sampling.os, "urandom", urandom)
    for weights, size in (("double_or_nothing", 6 * 3), ("poisson", 6 * 2 * 20), ("paired", 3 * 3)):
        rows = rows_of(weights)
        replicate_sums(rows, open_source(sample(20)), draws_of(data))
        assert asked == [size]
        asked.clear()
    rows = rows_of("public")
    replicate_sums(rows, open_source(sample(20)), draws_of(data))
    assert asked == []


def test_public_weights_depend_on_seed_and_position_only():
    """Neither on the cells nor on who holds them nor on how often they are asked for."""
    rng = np.random.default_rng(4)
    state = rng.bit_generator.state
    guards = [guarded(sample(9), "replace_one"), dpi.PublicData(sample(9), SCHEMA, rng=rng, neighbors="replace_one")]
    found = [drawn_weights("public", 40, lambda _, data=data: data) for data in (*guards, guards[0])]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    assert rng.bit_generator.state == state
    size = 40_000
    rows, other = rows_of("public", replicates=8), rows_of("public", replicates=8, seed=6)
    ones = sample(size).assign(x=4.0, y=25.0)
    changed = ones.copy()
    places = [0, 4095, 4096, 32_767, 32_768, 39_999]
    changed.loc[places, "x"] = 11.0
    totals = [
        np.array(replicate_sums(one, open_source(frame), PrivateDraws())).reshape(8, 3)
        for one, frame in ((rows, ones), (rows, changed), (other, ones))
    ]
    np.testing.assert_array_equal(totals[0][:, [0, 2]], totals[1][:, [0, 2]])
    moved = totals[1][:, 1] - totals[0][:, 1]
    np.testing.assert_array_equal(moved[0::2] + moved[1::2], 2 * len(places) * UNIT)
    assert (totals[0][:, 0] != totals[2][:, 0]).any()


def test_seeded_bytes_are_placed_by_the_first_row():
    """Slices have bytes of their own, in any order."""
    for draw in (SimulatedDraws(np.random.default_rng(3)).bytes(), seeded_bytes(5)):
        starts = (0, 4096, 8192, 32_768)
        found = [draw(start, 32) for start in starts]
        assert len({one[:8] for one in found}) == 4
        assert found[::-1] == [draw(start, 32) for start in starts[::-1]]
    assert seeded_bytes(5)(0, 32) != seeded_bytes(6)(0, 32)


@pytest.mark.slow
def test_secret_weights_are_never_drawn_twice(monkeypatch):
    """Without noise, two releases of the same rows differ in every replicate with probability above 1 - 1e-9."""
    monkeypatch.setattr(sampling, "private_noise", lambda law: [0] * len(law.scales))
    frame = sample(4000)
    state = np.random.get_state()  # noqa: NPY002
    data, found = guarded(frame), []
    for _ in range(3):
        np.random.set_state(state)  # noqa: NPY002
        found.append(dpi.bootstrap("x", data, replicates=10).measure(dpi.GDP(1.0)).array.reshape(10, 2)[:, 1])
    assert len(set(np.concatenate(found))) == 30
    twice = [
        dpi.bootstrap("x", guarded(frame, "replace_one"), replicates=10, weights="public").measure(dpi.GDP(1.0)).array
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*twice)
