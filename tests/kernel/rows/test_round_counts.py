"""Counts by what a round sees of rows: one bin of each place, the groups that it belongs to, and what that costs."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.errors import OptionError
from dpinfer.kernel.price import price_stage
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.rows.iterations import Bins, RoundCounts, RoundFrame, Term
from dpinfer.kernel.stage import Context, Slot, Stage, Sum
from dpinfer.privacy.units import NEIGHBORS
from dpinfer.schema.grid import UNIT
from tests.kernel.asked import ask
from tests.kernel.rows.batches import batch_of
from tests.kernel.rows.round_bounds import CELLS, cells_of, frame_of
from tests.kernel.rows.round_cases import LINKS, SCHEMA, features, maps_of

ASKED = features(regressors=("x", "u", "b"))
MAPS, BITS = maps_of(ASKED.basis.width, rng=np.random.default_rng(1), scale=0.5)
FRAME = RoundFrame(ASKED, MAPS, BITS, mean=LINKS["logit"].mean)
PLACES = (
    Bins("length", "size", 4.0 ** np.arange(-3, 4)),
    Bins("residual", "residual", np.array([-0.5, 0.0, 0.5])),
    Bins("first", "coordinate", np.linspace(-1, 1, 17)[1:-1], levels=4, place=0),
    Bins("second", "coordinate", np.array([0.25]), levels=2, place=1),
    Bins("all", "linear", np.zeros(0)),
)
COUNTS = RoundCounts(FRAME, PLACES)
SHIFTS = {"l2": lambda one: one**2, "l1": lambda one: one}


def around(cuts):
    """Numbers at cuts, next to them, and anywhere."""
    rng = np.random.default_rng(0)
    ends = np.r_[cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf)]
    span = np.abs(cuts).max() * 3
    return np.r_[
        ends, rng.uniform(-span, span, 2000), rng.choice(cuts, 500) * rng.normal(size=500), 0.0, -0.0, 1e100, -1e100
    ]


@pytest.mark.parametrize(
    "cuts",
    [
        np.linspace(-1, 1, 4097)[1:-1],
        np.linspace(-1e-9, 3e5, 64),
        np.arange(11) + 0.5,
        np.linspace(1e9, 1e9 + 1e-4, 9),
        np.linspace(-1e29, 1e30, 9),
        2.0 ** np.arange(-20, 20),
        *(centre + np.r_[-(2.0 ** -np.arange(15)), 0.0, 2.0 ** np.arange(-14, 1)] for centre in (0.0, 0.0042, -3e7)),
        2.0 ** (np.arange(22) / 2) * 11.1,
        np.sort(np.random.default_rng(1).normal(size=100)),
        np.nextafter(1.0, 2) * np.arange(1, 10) / 3,
        np.arange(9) * 5e-324,
        np.array([0.0]),
    ],
)
def test_a_number_is_in_the_bin_that_a_search_finds(cuts):
    numbers = around(cuts)
    found = Bins("it", "linear", cuts).between.at_or_below(numbers)
    assert found.tolist() == np.searchsorted(cuts, numbers, side="right").tolist()


def counted(rows, batch):
    return np.array(rows.finish(rows.add(batch)[0].tolist()), dtype=object)


def test_rows_are_in_one_bin_of_each_level():
    rng = np.random.default_rng(2)
    frame = frame_of(3000, rng)
    found = counted(COUNTS, Batch(cells_of(frame, COUNTS), len(frame)))
    encoded, _ = ASKED.encode(cells_of(frame, COUNTS))
    mapped = (MAPS / 2.0 ** np.array(BITS)[:, None]) @ (encoded / UNIT)
    parts = {name: found[COUNTS.part_of == place] for place, name in enumerate(COUNTS.parts)}
    edges = np.concatenate([[-np.inf], PLACES[2].cuts, [np.inf]])
    bins = np.histogram(mapped[0], edges)[0]
    pairs, fours, eights = (bins.reshape(-1, width).sum(axis=1) for width in (2, 4, 8))
    assert parts["first"].tolist() == [*eights, *fours, *pairs, *bins]
    assert [sum(one) for one in np.split(parts["first"], [2, 6, 14])] == [3000] * 4
    squared = (mapped[:-2] ** 2).sum(axis=0)
    assert parts["length"].tolist() == np.histogram(squared, np.r_[0, PLACES[0].cuts, np.inf])[0].tolist()
    assert parts["all"].tolist() == [3000]
    assert COUNTS.names[:2] == ("length: bin 1", "length: bin 2")
    assert COUNTS.names[12:15] == ("first: 8 bins from 1", "first: 8 bins from 9", "first: 4 bins from 1")
    several = COUNTS.finish_sets(COUNTS.add(Batch(cells_of(frame, COUNTS), 3000, sets=3)).astype(float))
    assert several.sum(axis=0).tolist() == found.tolist()
    assert len(several) == 3


def test_the_first_half_of_each_group_tells_the_other():
    rng = np.random.default_rng(5)
    frame = frame_of(800, rng)
    halved = replace(COUNTS, places=(replace(PLACES[2], halved=True), PLACES[0]))
    whole = replace(COUNTS, places=(PLACES[2], PLACES[0]))
    batch = Batch(cells_of(frame, COUNTS), len(frame))
    found = dict(zip(halved.names, counted(halved, batch), strict=True))
    every = dict(zip(whole.names, counted(whole, batch), strict=True))
    assert len(found) == 2 + 2 + 4 + 8 + 8
    assert found == {name: every[name] for name in found}
    assert "first: 4 bins from 9" in found
    assert "first: 4 bins from 5" not in found
    for neighbors in NEIGHBORS:
        assert halved.bounded(neighbors, "l2").bound == whole.bounded(neighbors, "l2").bound
    first = counted(halved, Batch(cells_of(frame.iloc[:1], COUNTS), 1))
    assert first[halved.part_of == 0].sum() <= 4
    sets = halved.finish_sets(halved.add(Batch(cells_of(frame, COUNTS), len(frame), sets=2)).astype(float))
    assert sets.sum(axis=0).tolist() == list(found.values())


@settings(max_examples=40, deadline=None)
@given(
    first=st.fixed_dictionaries(CELLS),
    second=st.fixed_dictionaries(CELLS),
    relative=st.lists(st.floats(1e-3, 1e3), min_size=5, max_size=5),
)
def test_no_neighbours_are_farther_apart_than_is_paid_for(first, second, relative):
    alone = [counted(COUNTS, batch_of(COUNTS, [one])) for one in (first, second)]
    for neighbors, change in zip(NEIGHBORS, (alone[0], alone[0] - alone[1]), strict=True):
        for norm, shift in SHIFTS.items():
            for weights in (None, relative):
                bounded = COUNTS.bounded(neighbors, norm, weights=weights)
                parts = [abs(int(one)) / Fraction(w) for one, w in zip(change, bounded.weights.tolist(), strict=True)]
                assert sum(shift(one) for one in parts) <= shift(bounded.bound)


def test_the_bound_is_attained():
    rng = np.random.default_rng(3)
    frame = frame_of(400, rng)
    alone = [counted(COUNTS, Batch(cells_of(frame.iloc[[i]], COUNTS), 1)) for i in range(60)]
    levels = 9  # 1 + 1 + 4 + 2 + 1
    assert {int(one.sum()) for one in alone} == {levels}
    assert float(COUNTS.bounded("add_remove", "l1").bound) == levels
    assert float(COUNTS.bounded("add_remove", "l2").bound) == pytest.approx(levels**0.5)
    two = replace(COUNTS, places=PLACES[1:3])
    mine = np.isin(COUNTS.part_of, [1, 2])
    assert max(int(abs(one - other)[mine].sum()) for one in alone for other in alone) == 10
    assert float(two.bounded("replace_one", "l1").bound) == 10
    assert float(two.bounded("replace_one", "l2").bound) == pytest.approx(10**0.5)


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("price", [dpi.ZCDP(0.1), dpi.PureDP(1.0)], ids=str)
def test_shares_of_the_price(price, neighbors):
    context = Context(SCHEMA, neighbors, price)
    priced = price_stage(Stage(Sum(COUNTS, shares=(0.2, 0.3, 0.3, 0.1, 0.1))), price, context)
    alone = price_stage(Stage(Sum(replace(COUNTS, places=PLACES[:1]))), price, context)
    scales = np.array(priced.law.scales) * priced.steps
    factor = 5**0.5 if isinstance(price, dpi.ZCDP) else 5
    assert scales[0] == pytest.approx(factor * alone.law.scales[0] * alone.steps[0], rel=1e-6)


def test_dropped_rows_are_in_no_bin():
    assert not COUNTS.add(batch_of(COUNTS, [{"x": None, "u": 0.5, "b": True, "y": True}])).any()


def test_a_private_run_counts():
    frame = frame_of(4000, np.random.default_rng(6))

    asked = ask(Stage(Sum(COUNTS)), slots=(Slot(most=len(COUNTS.names)),))
    data = dpi.PrivateData(frame, SCHEMA, dpi.Ledger.in_memory(dpi.ZCDP(0.5)))
    release = data.run(asked, dpi.ZCDP(0.5))
    assert data.ledger.spent == dpi.ZCDP(0.5)
    right = counted(COUNTS, Batch(cells_of(frame, COUNTS), len(frame)))
    assert np.abs(release.array - right.astype(float)).max() < 30  # ten standard deviations
    told = asked.explain(dpi.ZCDP(0.5), schema=SCHEMA, neighbors="add_remove")
    assert "histograms of rows by length (8 bins)" in told


def in_bins(**changed):
    return replace(COUNTS, places=(replace(PLACES[2], **changed), PLACES[0]))


class Few(RoundCounts):
    def change(self, weights, neighbors, norm):
        return Fraction(1, 10**9)


class Many(Bins):
    def found(self, looked):
        return np.zeros(10**6, dtype=np.intp)


WRONG = {
    "a subclass": Few(FRAME, PLACES),
    "bins of a subclass": replace(COUNTS, places=(Many("length", "size", PLACES[0].cuts),)),
    "of what": in_bins(of="weight"),
    "no name": in_bins(name=""),
    "cuts of NaN": in_bins(cuts=np.array([0.0, np.nan, 1.0])),
    "cuts that fall": in_bins(cuts=np.array([0.0, -1.0, 1.0])),
    "the same twice": in_bins(cuts=np.array([0.0, 0.0, 1.0])),
    "cuts of whole numbers": in_bins(cuts=np.array([0, 1, 2])),
    "cuts beyond all numbers": in_bins(cuts=np.array([0.0, 1.0, 1e300])),
    "square cuts": in_bins(cuts=np.zeros((1, 1))),
    "cuts of a list": in_bins(cuts=[0.0]),
    "too many cuts": in_bins(cuts=np.arange(2.0**14)),
    "levels that do not halve": in_bins(levels=6),
    "no level": in_bins(levels=0),
    "half a level": in_bins(levels=1.0),
    "many levels": in_bins(levels=10**6),
    "another coordinate": in_bins(place=4),
    "halved by a number": in_bins(halved=1),
    "coordinate from the end": in_bins(place=-1),
    "a person without a vector": in_bins(of="person"),
    "a person's number": in_bins(of="person", term=Term("score", "number", 1.0)),
    "a vector of rows": in_bins(term=Term("score", "vector", 1.0, cut=1.0)),
    "a person's vector without a cut": in_bins(of="person", term=Term("score", "vector", 1.0)),
    "a vector that is none": in_bins(of="person", term="score"),
    "a vector at no price": in_bins(of="person", term=Term("score", "vector", 0.0)),
    "no label": in_bins(of="label", place=0),
    "no places": replace(COUNTS, places=()),
    "places of a list": replace(COUNTS, places="ab"),
    "twice": replace(COUNTS, places=PLACES[:1] * 2),
    "no frame": replace(COUNTS, frame=ASKED),
    "another frame": replace(COUNTS, frame=replace(FRAME, bits=(1,))),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_count_is_refused(name):
    context = Context(SCHEMA, "add_remove", dpi.ZCDP(0.1))
    with pytest.raises(OptionError):
        price_stage(Stage(Sum(WRONG[name])), dpi.ZCDP(0.1), context)
