"""Of a block at most so many rows are fitted as was asked for: a random sample, that one row changes in one block."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import dpinfer as dpi
from dpinfer.errors import OptionError
from dpinfer.kernel.blocks import block_run
from dpinfer.kernel.rows.blocks import Blocks
from dpinfer.kernel.sampling import SimulatedDraws
from dpinfer.kernel.sources import open_source
from dpinfer.schema.region import Region

SCHEMA = dpi.Schema(x=dpi.Real(0, 1000))
REGION = Region(("m",), ((0,),), (1000.0,), np.zeros(1))


class ByContent(SimulatedDraws):
    """Labels and keys that are functions of a row's place in the table of all rows, in whatever order they come."""

    def __init__(self, labels, keys, order):
        super().__init__(np.random.default_rng(1))
        self._drawn = {True: labels, False: keys}
        self._order, self._at = np.asarray(order), {True: 0, False: 0}

    def labels(self, size, labels):
        which = labels < 2**20
        start = self._at[which]
        self._at[which] += size
        return self._drawn[which][self._order[start : start + size]]


def frames_of(source, most, *, count=4, halves=True, draws=None):
    """Return the values that each fit sees, in their order: block, half, half, and so on."""
    seen = []

    def keep(frame):
        seen.append(tuple(frame["x"]))
        return np.zeros(1)

    rows = Blocks(SCHEMA, REGION, count, keep, halves=halves, most=most)
    block_run(rows, source, draws or SimulatedDraws(np.random.default_rng(3)))
    return seen


def stored(tmp_path, values):
    pq.write_table(pa.table({"x": values}), tmp_path / "rows.parquet", row_group_size=37)
    return open_source(str(tmp_path / "rows.parquet"))


@pytest.mark.parametrize("most", [2, 3, 20, 41, 10_000])
def test_no_fit_sees_more_rows_and_halves_are_those_of_the_block(tmp_path, most):
    values = np.arange(300.0)
    for source in (open_source(pd.DataFrame({"x": values})), stored(tmp_path, values)):
        with source.opened() as opened:
            seen = frames_of(opened, most)
        for whole, first, second in zip(seen[::3], seen[1::3], seen[2::3], strict=True):
            assert sorted(first + second) == sorted(whole)
            assert max(len(first), len(second)) <= most // 2
            assert most < 300 or len(whole) > 40  # nothing is left out where there is room
        assert len(set(sum(seen[::3], ()))) == len(sum(seen[::3], ()))


@pytest.mark.parametrize("halves", [True, False])
def test_rows_on_disk_are_those_of_memory_in_any_order(tmp_path, halves):
    """The same labels and keys, equal keys among them: the fits are the same from a file, shuffled or not."""
    rng = np.random.default_rng(5)
    values, labels = rng.integers(0, 40, 500).astype(float), rng.integers(0, 8, 500)
    keys = np.where(values < 20, values, rng.integers(20, 90, 500)).astype(np.intp)
    frame = pd.DataFrame({"x": values})
    with open_source(frame).opened() as opened:
        expected = frames_of(opened, 24, halves=halves, draws=ByContent(labels, keys, np.arange(500)))
    for order in (np.arange(500), rng.permutation(500)):
        with stored(tmp_path, values[order]).opened() as opened:
            found = frames_of(opened, 24, halves=halves, draws=ByContent(labels, keys, order))
        assert [sorted(one) for one in found] == [sorted(one) for one in expected]
        assert all(list(one) == sorted(one) for one in found)


@pytest.mark.parametrize("on_disk", [False, True])
def test_one_row_more_changes_one_block(tmp_path, on_disk):
    rng = np.random.default_rng(6)
    values, labels, keys = rng.uniform(0, 900, 400), rng.integers(0, 8, 401), rng.integers(0, 2**53, 401)
    for place, extra in ((400, 1000.0), (17, 0.0), (0, 950.5)):
        more = np.insert(values, place, extra)
        order = np.delete(np.arange(401), place)
        seen = []
        for cells, mine in ((more, np.arange(401)), (values, order)):
            source = stored(tmp_path, cells) if on_disk else open_source(pd.DataFrame({"x": cells}))
            with source.opened() as opened:
                seen.append(frames_of(opened, 30, draws=ByContent(labels, keys, mine)))
        changed = {place // 3 for place, (one, other) in enumerate(zip(*seen, strict=True)) if one != other}
        assert changed <= {int(labels[place]) // 2}


@pytest.mark.parametrize("on_disk", [False, True])
def test_which_rows_are_fitted_does_not_depend_on_what_they_hold(tmp_path, on_disk):
    """Of 60 rows in one block at most 20 are fitted: each as often as the others.

    False alarm: 1e-7 for each case (chi-squared of 59 degrees of freedom, a share of whose variance the fixed number of
    rows takes away).
    """
    values = np.arange(60.0)
    source = stored(tmp_path, values) if on_disk else open_source(pd.DataFrame({"x": values}))
    draws, counts, runs = SimulatedDraws(np.random.default_rng(8)), np.zeros(60), 2000
    for _ in range(runs):
        with source.opened() as opened:
            counts[np.array(frames_of(opened, 20, count=1, halves=False, draws=draws)[0], dtype=int)] += 1
    share = counts.sum() / (60 * runs)
    assert ((counts - share * runs) ** 2 / (share * (1 - share) * runs)).sum() < stats.chi2.isf(1e-7, 59)
    assert 0.3 < share <= 1 / 3  # a half has fewer than ten rows in one of 26,000 runs


def asked(most, blocks=8):
    frame = pd.DataFrame({"x": np.linspace(0, 1000, 4000)})
    data = dpi.PublicData(frame, SCHEMA, rng=np.random.default_rng(2), neighbors="replace_one")
    return dpi.sample_aggregate(
        ["x"], data, model=lambda rows: [rows["x"].mean()], bounds={"m": (0, 1000)}, blocks=blocks, max_block_rows=most
    )


@pytest.mark.parametrize("most", [0, 1, -3, 2.0, "20", True, np.int64(8)])
def test_another_cap_is_refused(most):
    with pytest.raises(OptionError, match="max_block_rows"):
        asked(most)


def test_a_cap_below_what_the_parameters_need_is_refused_before_the_charge():
    with pytest.raises(OptionError, match=r"max_block_rows=7.*at least 8 rows for 1 parameters"):
        asked(7).explain(dpi.ZCDP(0.1))
    assert asked(8).explain(dpi.ZCDP(0.1))


def test_a_release_says_the_cap_and_small_blocks_are_flagged():
    capped, whole = (asked(most).fit(dpi.ZCDP(10.0)) for most in (8, None))
    assert capped.release.question["max_block_rows"] == 8
    assert any("holds about 8 rows" in told for told in capped.flags)
    assert not any("holds about" in told for told in whole.flags)
    assert capped.bse_sampling["m"] > 2 * whole.bse_sampling["m"]
    assert dpi.Release.from_json(capped.release.to_json()).infer().params["m"] == capped.params["m"]


def test_a_cap_that_is_no_number_is_refused_by_the_kernel():
    from dpinfer.kernel.price import own_blocks

    units = Blocks(SCHEMA, REGION, 2, lambda _: np.zeros(1), workers=1)
    for most in (1, 2.5, "9", True):
        with pytest.raises(OptionError, match="most"):
            own_blocks(replace(units, most=most), SCHEMA)
    assert own_blocks(replace(units, most=2), SCHEMA).most == 2
