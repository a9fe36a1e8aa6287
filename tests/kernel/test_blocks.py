"""Rows are dealt into secret blocks: one row is in one block, and a block's frame tells of its own rows alone."""

import hashlib
import json
import logging
import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import BudgetExceededError
from dpinfer.kernel import blocks, sampling
from dpinfer.kernel.blocks import block_fits, typed_rows
from dpinfer.kernel.rows.blocks import Blocks, PlaceCounts
from dpinfer.kernel.sampling import PrivateDraws, SimulatedDraws
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.workers import fit_here
from dpinfer.privacy.store import Account
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.resampling.blocks import bins_of, find_scales
from dpinfer.schema.expressions import compile_condition
from dpinfer.schema.region import region_of
from tests.logs import charged

NAN, INF = float("nan"), float("inf")
DROPPING = dpi.Schema(
    x=dpi.Real(0, 10), k=dpi.Integer(0, 16), b=dpi.Boolean(), g=dpi.Category(["u", "v", "w", 4]), y=dpi.Real(-1, 1)
)
KEEPING = dpi.Schema(
    x=dpi.Real(0, 10, missing=1, impossible=2),
    k=dpi.Integer(0, 16, missing=3, impossible=4),
    b=dpi.Boolean(missing=True, impossible=False),
    g=dpi.Category(["u", "v", "w", 4], missing="w", impossible="u"),
    y=dpi.Real(-1, 1, missing=0, impossible=0),
)
DTYPES = ["float64", "int64", "int64", "category", "float64"]
REGION = region_of((0, 1), tuple("abcd"))
BLOCKS = 3


class Unfriendly:
    """An object that fails whatever is done with it."""

    def _fail(self, *_):
        raise RuntimeError("a method of a cell was called")

    __float__ = __int__ = __bool__ = __eq__ = __hash__ = __str__ = __array__ = __len__ = _fail


ODD = [NAN, INF, -INF, None, "", "n/a", "7.5", "u", b"u", -3.0, 99, 10**400, 1e308, True, pd.NaT, (1,), Unfriendly()]
CELLS = {
    "x": [0.0, 2.5, 5, 10.0],
    "k": [0, 3, 7.0, 16],
    "b": [True, False, 1, 0.0],
    "g": ["u", "v", "w", 4],
    "y": [0.25, -1.0, 1.0],
}


def row(odd=8):
    """A row whose cells are odd one time in so many."""
    odd_cell = st.integers(0, len(ODD) - 1).map(ODD.__getitem__)
    return st.tuples(*(st.one_of(odd_cell, *[st.sampled_from(cells)] * odd) for cells in CELLS.values()))


def table(rows):
    """Store rows as pandas would: a column is of objects only if one of its cells makes it so."""
    columns = {}
    for place, name in enumerate(CELLS):
        cells = np.empty(len(rows), dtype=object)
        for index, one in enumerate(rows):
            cells[index] = one[place]
        columns[name] = pd.Series(cells, dtype=object).infer_objects()
    return pd.DataFrame(columns)


def signature(frame):
    """Four numbers that are the same for frames that are the same to the last bit, and else differ."""
    told = [repr(frame.index), repr(list(frame.columns)), repr(list(frame.dtypes)), repr(frame.attrs)]
    parts = ["; ".join(told).encode()]
    for name in frame:
        column = frame[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            kept = column.cat.categories
            parts.append(repr((list(kept), kept.dtype, column.cat.ordered)).encode())
            column = column.cat.codes
        parts.append(column.to_numpy().tobytes())
    return np.frombuffer(hashlib.sha256(b"|".join(parts)).digest(), dtype=np.uint64) / 2.0**64


def rows_for(schema=DROPPING, estimator=signature, **options):
    return Blocks(schema, REGION, BLOCKS, estimator, **options)


def fits_of(rows, cells, labels):
    return block_fits(rows, open_source(table(cells)), np.array(labels, dtype=np.intp), private=False)


def seen_by(rows, source, labels):
    """Return the frames that the estimator is given, block by block: whole, first half, second half."""
    frames = []

    def keep(frame):
        frames.append(frame)
        return np.zeros(4)

    watched = replace(rows, estimator=keep)
    block_fits(watched, open_source(source), np.array(labels, dtype=np.intp), private=False)
    return frames


# Neighbours


@st.composite
def tables_and_labels(draw):
    cells = draw(st.lists(row(), max_size=12))
    labels = draw(st.lists(st.integers(0, 2 * BLOCKS - 1), min_size=len(cells), max_size=len(cells)))
    where = draw(st.sampled_from([None, None, "x > 2", 'g == "u"', "b"]))
    schema = draw(st.sampled_from([DROPPING, KEEPING]))
    condition = None if where is None else compile_condition(where, schema)
    return rows_for(schema, halves=draw(st.booleans()), where=condition), cells, labels


def assert_one_block_differs(first, second, label):
    block, half = divmod(label, 2)
    others = np.arange(BLOCKS) != block
    assert first[others].tobytes() == second[others].tobytes()
    if first.shape[1] == 3:
        assert first[block, 2 - half].tobytes() == second[block, 2 - half].tobytes()  # the half without the row


@pytest.mark.slow
@settings(max_examples=80)
@given(tables_and_labels(), row(odd=2), st.integers(0, 2 * BLOCKS - 1), st.data())
def test_a_row_more_changes_one_block(case, new, label, data):
    rows, cells, labels = case
    place = data.draw(st.sampled_from([0, len(cells) // 2, len(cells)]))
    more = [*cells[:place], new, *cells[place:]]
    after = fits_of(rows, more, [*labels[:place], label, *labels[place:]])
    assert_one_block_differs(fits_of(rows, cells, labels), after, label)
    values, keep = typed_rows(rows, open_source(table(more)))
    before, kept = typed_rows(rows, open_source(table(cells)))
    assert np.delete(keep, place).tobytes() == kept.tobytes()
    for name in values:
        assert np.delete(values[name], place).tobytes() == before[name].tobytes()


@pytest.mark.slow
@settings(max_examples=80)
@given(tables_and_labels(), row(odd=2), st.data())
def test_another_row_in_its_place_changes_one_block(case, new, data):
    rows, cells, labels = case
    if cells:
        place = data.draw(st.integers(0, len(cells) - 1))
        other = [*cells[:place], new, *cells[place + 1 :]]
        assert_one_block_differs(fits_of(rows, cells, labels), fits_of(rows, other, labels), labels[place])


def test_a_row_that_counts_is_seen_by_its_block_and_half():
    """The digest tells frames apart, so that equal fits above mean equal frames."""
    rng = np.random.default_rng(0)
    frame = DROPPING.sample(30, rng)
    labels = np.arange(30) % 6
    first = block_fits(rows_for(), open_source(frame), labels, private=False)
    changed = frame.copy()
    changed.loc[13, "y"] += 1e-15
    second = block_fits(rows_for(), open_source(changed), labels, private=False)
    differs = (first != second).any(axis=-1)
    assert differs.tolist() == [[True, False, True], [False] * 3, [False] * 3]


@pytest.mark.parametrize("lower", [0.0, -1.0])
@pytest.mark.parametrize("upper", [0.0, 1.0])
def test_a_row_more_does_not_change_the_sign_of_zeros(lower, upper):
    """The larger of 0.0 and -0.0 is either, by the place in the array: a function of the frame may tell them apart."""
    if lower == upper:
        lower = -2.0
    cells = np.where(np.arange(21) % 3 == 0, 0.0, -0.0)
    rows = Blocks(dpi.Schema(x=dpi.Real(lower, upper)), REGION, BLOCKS, signature)
    labels = np.arange(21) % 6
    found = [
        block_fits(
            rows,
            open_source(pd.DataFrame({"x": np.concatenate([np.ones(more), cells])})),
            np.append(early, labels),
            private=False,
        )
        for more, early in ((0, np.zeros(0, dtype=np.intp)), (1, [0]), (2, [0, 1]))
    ]
    for fits in found[1:]:
        assert fits[1:].tobytes() == found[0][1:].tobytes()


# What a block holds


def test_a_frame_holds_the_rows_of_its_label_in_their_order():
    frame = DROPPING.sample(40, np.random.default_rng(3))
    frame["x"] = np.linspace(0, 10, 40)
    labels = np.random.default_rng(4).integers(0, 6, 40)
    frames = seen_by(rows_for(), frame, labels)
    assert len(frames) == 3 * BLOCKS
    for block in range(BLOCKS):
        whole, *halves = frames[3 * block : 3 * block + 3]
        for part, wanted in (
            (whole, [2 * block, 2 * block + 1]),
            (halves[0], [2 * block]),
            (halves[1], [2 * block + 1]),
        ):
            expected = frame[np.isin(labels, wanted)].reset_index(drop=True)
            assert part.index.equals(pd.RangeIndex(len(expected)))
            assert list(part.columns) == list(DROPPING)
            assert part["x"].tolist() == expected["x"].tolist()
            assert part["g"].tolist() == expected["g"].tolist()
            assert part["k"].tolist() == expected["k"].tolist()
            assert part["b"].tolist() == expected["b"].astype(int).tolist()
    assert len(seen_by(rows_for(halves=False), frame, labels)) == BLOCKS


def test_cells_are_clamped_and_rows_without_a_value_are_left_out():
    cells = [
        (99, 7, True, "u", 5.0),
        (-5.0, 99, 0, 4, -9.0),
        (1.0, 2.5, 1, "u", 0),
        (NAN, 2, 1, "u", 0),
        (1, 2, 1, "q", 0),
    ]
    dropped = seen_by(rows_for(), table(cells), [0] * 5)[0]
    assert dropped["x"].tolist() == [10.0, 0.0]
    assert dropped["k"].tolist() == [7, 16]
    assert dropped["g"].tolist() == ["u", 4]
    assert dropped["y"].tolist() == [1.0, -1.0]
    kept = seen_by(rows_for(KEEPING), table(cells), [0] * 5)[0]
    assert kept["x"].tolist() == [10.0, 0.0, 1.0, 1.0, 1.0]
    assert kept["k"].tolist() == [7, 16, 4, 2, 2]
    assert kept["g"].tolist() == ["u", 4, "u", "u", "u"]


SMALL = {
    "no rows": ([], []),
    "no rows that count": ([(NAN, None, "q", "q", None)] * 4, [0, 1, 2, 5]),
    "one row": ([(1.0, 2, True, "v", 0.5)], [3]),
    "one level": ([(1.0, 2, True, "v", 0.5)] * 12, [0, 1, 2, 3, 4, 5] * 2),
    "texts": ([("1.0", "2", "true", "v", "0.5")] * 12, [0, 1, 2, 3, 4, 5] * 2),
    "all in one block": ([(float(i % 7), i % 5, i % 2, "w", 0.0) for i in range(20)], [4] * 20),
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("where", [None, "x > 3"])
def test_the_dtypes_depend_on_the_schema_alone(name, where):
    cells, labels = SMALL[name]
    for schema in (DROPPING, KEEPING):
        condition = None if where is None else compile_condition(where, schema)
        frames = seen_by(rows_for(schema, where=condition), table(cells), labels)
        assert len(frames) == 3 * BLOCKS
        for frame in frames:
            assert [str(dtype) for dtype in frame.dtypes] == DTYPES
            assert list(frame["g"].cat.categories) == ["u", "v", "w", 4]
            assert frame["g"].cat.categories.dtype == object
            assert frame["g"].cat.ordered
            assert list(frame.columns) == list(schema)
            assert not frame.isna().any(axis=None)
    if name in ("no rows", "no rows that count"):
        fits = fits_of(rows_for(), cells, labels)
        assert fits.tobytes() == np.tile(signature(frames[0][:0].reset_index(drop=True)), (BLOCKS, 3, 1)).tobytes()


def test_an_estimator_that_fails_on_an_empty_block_fails_there_alone():
    rows = rows_for(estimator=lambda frame: [frame["x"].iloc[0]] * 4)
    fits = fits_of(rows, *SMALL["all in one block"])
    assert np.isnan(fits[:2]).all()
    assert np.isfinite(fits[2, :2]).all()
    assert np.isnan(fits[2, 2]).all()


def test_a_condition_leaves_out_rows_before_they_are_seen():
    frame = DROPPING.sample(60, np.random.default_rng(5))
    condition = compile_condition('(x > 4) & (g != "u")', DROPPING)
    frames = seen_by(rows_for(where=condition, halves=False), frame, np.arange(60) % 6)
    seen = pd.concat(frames)
    expected = frame[(frame["x"] > 4) & (frame["g"] != "u")]
    assert sorted(seen["x"]) == sorted(expected["x"])


@pytest.mark.parametrize("levels", [[1, True, "a"], [0, False], ["1", True], [2, 2.5, "2.50"]], ids=str)
def test_levels_that_python_takes_for_equal_stay_apart(levels):
    """A schema that is accepted must not fail after the charge."""
    schema = dpi.Schema(g=dpi.Category(levels))
    codes = []

    def estimator(frame):
        codes.append(frame["g"].cat.codes.tolist())
        return [0.0] * 4

    rows = Blocks(schema, REGION, 1, estimator, halves=False)
    given_cells = np.empty(len(levels), dtype=object)
    given_cells[:] = levels
    block_fits(rows, open_source(pd.DataFrame({"g": given_cells})), np.zeros(len(levels), dtype=np.intp), private=False)
    assert codes == [list(range(len(levels)))]


# Labels


def test_labels_are_whole_numbers_in_their_range():
    for labels in (2, 3, 16, 2**21):
        drawn = PrivateDraws().labels(5000, labels)
        assert drawn.dtype == np.intp
        assert drawn.shape == (5000,)
        assert drawn.min() >= 0
        assert drawn.max() < labels
    for size in (0, 1):
        assert PrivateDraws().labels(size, 16).shape == (size,)


@pytest.mark.parametrize("labels", [2, 6, 26, 1000])
def test_labels_are_uniform_and_independent_of_their_neighbours(labels):
    """Chi-squared of labels, and of pairs of successive ones; each false alarm has probability 1e-6."""
    drawn = PrivateDraws().labels(200_000, labels)
    tables = [np.bincount(drawn, minlength=labels)]
    if labels < 100:
        tables.append(np.bincount(drawn[::2] * labels + drawn[1::2], minlength=labels**2))
    for counts in tables:
        assert stats.chisquare(counts).pvalue > 1e-6


# The kernel


ROWS = dpi.Schema(x=dpi.Real(-2, 2), y=dpi.Boolean())
PRICE, BUDGET = dpi.ZCDP(0.25), dpi.ZCDP(1.0)


def public_rows(size=600, seed=6):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size)
    return pd.DataFrame({"x": x, "y": rng.random(size) < 1 / (1 + np.exp(-x))})


def logit(data, **options):
    """A model of the library's own, fitted in this process."""
    return dpi.sample_aggregate("y ~ x", data, model=smf.logit, blocks=20, bounds=dpi.Ball(4), **options)


def guarded(frame, budget=BUDGET, neighbors="add_remove"):
    return dpi.PrivateData(frame, ROWS, dpi.Ledger.in_memory(budget, neighbors=neighbors))


@pytest.fixture
def events(monkeypatch):
    """Note the order of what the kernel does."""
    noted = []

    def watch(owner, name):
        function = getattr(owner, name)

        def watched(*arguments, **options):
            noted.append(name)
            return function(*arguments, **options)

        monkeypatch.setattr(owner, name, watched)

    watch(Account, "charge")
    watch(PrivateDraws, "labels")
    watch(SimulatedDraws, "labels")
    watch(blocks, "typed_rows")
    watch(sampling, "private_noise")
    watch(sampling, "simulated_noise")
    return noted


@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_the_charge_comes_before_labels_rows_and_noise(events, neighbors):
    data = guarded(public_rows(), neighbors=neighbors)
    release = logit(data).measure(PRICE)
    assert events == ["charge", "labels", "typed_rows", "private_noise"]
    charges = data.ledger.charges()
    assert charges["price"].tolist() == [PRICE]
    assert charges["id"].tolist() == list(release.charge_ids)
    assert "y ~ x" in charges["description"][0]
    events.clear()
    data.ledger.charge(logit(data).measurement(dpi.ZCDP(0.5)).cost, "more")
    events.clear()
    with pytest.raises(BudgetExceededError):
        logit(data).measure(dpi.ZCDP(0.5))
    assert events == ["charge"]


def test_public_rows_are_dealt_by_their_seed(events):
    releases = [
        logit(dpi.PublicData(public_rows(), ROWS, rng=np.random.default_rng(seed))).measure(PRICE) for seed in (1, 1, 2)
    ]
    assert events == ["labels", "typed_rows", "simulated_noise"] * 3
    stored = [release.to_json() for release in releases]
    assert stored[0] == stored[1] != stored[2]


@pytest.mark.slow
def test_an_estimator_that_always_raises_costs_its_price_and_gives_a_release():
    """The number of failed blocks is within 8 standard deviations: a false alarm has probability 1e-15."""
    data = guarded(public_rows())

    def estimator(frame):
        raise ValueError(f"a secret {frame['x'].iloc[0]}")

    question = dpi.sample_aggregate("x", data, model=estimator, blocks=20, bounds={"m": (0, 1)}, n_jobs=1)
    release = question.measure(PRICE)
    assert data.ledger.spent == PRICE
    noisy = dict(zip(release.names, release.values, strict=True))["failed blocks"]
    place = release.names.index("failed blocks")
    assert abs(noisy * release.steps[place] - 20) < 8 * release.law.scales[place] * release.steps[place]


def layout(value):
    """Return keys, types and lengths of stored JSON."""
    if isinstance(value, dict):
        return {name: layout(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [layout(entry) for entry in value]
    return type(value).__name__


def hostile(frame, cells):
    """Put odd cells into the first row."""
    columns = {}
    for name, cell in zip(frame, cells, strict=True):
        column = frame[name].astype(object).to_numpy().copy()
        column[0] = cell
        columns[name] = column
    return pd.DataFrame(columns)


ODD_ROWS = [
    (NAN, None),
    (INF, "x"),
    (1e308, 7),
    ("?", Unfriendly()),
    (Unfriendly(), True),
    (10**400, b"1"),
    (2, "true"),
]


def told_of(release):
    """Return all of a release but its numbers; of the histogram of places, whose bins these choose, the noise."""
    stored = json.loads(release.to_json())
    stages = [(stage.names, stage.steps, stage.law, layout(dict(stage.settings))) for stage in release.stages]
    if len(stages) == 3:
        places = release.stages[1]
        stages[1] = (set(places.steps), places.law.family, set(places.law.scales), dict(places.settings))
    del stored["stages"], stored["charge_ids"]
    return stages, release.cost, stored


def assert_bins_are_those_of_the_scales(release):
    """The bins of the histogram of places are a function of the numbers released before."""
    region = region_of(dpi.Ball(4), ("Intercept", "x"))
    scales = find_scales(region, release.stages[0].array, float(np.sqrt(release.stages[0].noise_variances[0])))
    assert release.stages[1].names == PlaceCounts(ROWS, region, bins_of(region, scales)).names


@pytest.mark.slow
@pytest.mark.parametrize("price", [dpi.ZCDP(20.0), dpi.ZCDP(0.01), dpi.PureDP(200.0), dpi.PureDP(0.1)], ids=str)
def test_an_odd_row_changes_released_numbers_only(price, caplog, capfd):
    """For the larger prices with histograms, whose peaks are found or not."""
    caplog.set_level(logging.DEBUG)
    located, found = price in (dpi.ZCDP(20.0), dpi.PureDP(200.0)), []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for frame in (public_rows(200), *(hostile(public_rows(200), cells) for cells in ODD_ROWS), public_rows(0)):
            release = logit(guarded(frame, price)).measure(price)
            found.append(told_of(release))
            assert set(release.stages[-1].settings) == {"center", "half", "located"}
            assert release.question["aggregator"] == ("winsorized" if located else "mean")
            assert len(release.stages) == (3 if located else 1)
            if located:
                assert_bins_are_those_of_the_scales(release)
    assert [str(one.message) for one in told] == []
    assert all(one == found[0] for one in found)
    assert charged(caplog)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("price", [dpi.ZCDP(20.0), dpi.PureDP(200.0)], ids=str)
def test_rows_are_dealt_and_fitted_once_for_all_stages(events, price):
    release = logit(guarded(public_rows(200), price)).measure(price)
    assert len(release.stages) == 3
    assert events == ["charge", "labels", "typed_rows", *["private_noise"] * 3]


@pytest.mark.parametrize("cells", ODD_ROWS, ids=range(len(ODD_ROWS)))
def test_an_odd_row_is_fitted_like_any_other(cells):
    """With the same labels only the block of the first row may change."""
    frame = public_rows(120)
    measured = logit(None).measurement(PRICE, schema=ROWS, neighbors="add_remove")
    labels = np.random.default_rng(1).integers(0, 40, 120)
    first, second = (
        block_fits(measured.blocks, open_source(one), labels, private=False) for one in (frame, hostile(frame, cells))
    )
    others = np.arange(20) != labels[0] // 2
    assert first[others].tobytes() == second[others].tobytes()


@pytest.mark.parametrize("size", [0, 1, 7])
def test_few_rows_or_none_give_a_release(size, events):
    release = logit(guarded(public_rows()[:size])).measure(PRICE)
    (stage,) = json.loads(release.to_json())["stages"]
    stored = stage["sums"]
    assert [one["name"] for one in stored] == list(release.names)
    assert all(type(one["value"]) is int for one in stored)
    assert events == ["charge", "labels", "typed_rows", "private_noise"]


@pytest.mark.slow
def test_a_user_function_is_fitted_elsewhere_and_gives_the_numbers_it_gives_here():
    frame = public_rows(80)
    labels = np.random.default_rng(2).integers(0, 16, 80)

    def estimator(rows):
        sys.stdout.write("a secret")
        return [rows["x"].mean(), rows["y"].mean()]

    options = {"schema": ROWS, "region": region_of((-2, 2), ("a", "b")), "count": 8, "estimator": estimator}
    apart = block_fits(Blocks(**options, workers=1), open_source(frame), labels, private=True)
    here = block_fits(Blocks(**options), open_source(frame), labels, private=False)
    assert apart.shape == (8, 3, 2)
    assert apart.tobytes() == here.tobytes()
    np.testing.assert_allclose(here[2, 0], [frame["x"][labels // 2 == 2].mean(), frame["y"][labels // 2 == 2].mean()])
    assert fit_here(estimator, frame, width=2).shape == (2,)
