"""Survey weights, levels that are skipped and counts of levels: what a frame makes of further maps."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpinfer as dpi
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.iterations import Bins, RoundCounts, RoundFrame, RoundSum, Term
from dpinfer.kernel.sources import open_source
from dpinfer.kernel.sums import exact_sums
from dpinfer.regression.gram import GramDesign
from dpinfer.schema.grid import UNIT
from tests.kernel.rows.round_bounds import frame_of
from tests.kernel.rows.round_cases import LINKS, ROUNDS, binary, clipped, integer_rows, weighted

LEVELS = ["a", "b", "c", "d"]
SCHEMA = dpi.Schema(x=dpi.Real(0, 4), y=dpi.Boolean(), g=dpi.Category(LEVELS), h=dpi.Boolean())
BASIS = GramDesign(SCHEMA, formula="y ~ x + C(g) * C(h)").basis


def rows_of(size, seed=1):
    rng = np.random.default_rng(seed)
    columns = {"x": rng.uniform(0, 4, size), "g": rng.choice(LEVELS, size, p=[0.5, 0.3, 0.15, 0.05])}
    return pd.DataFrame({**columns, "y": rng.random(size) < 0.4, "h": rng.random(size) < 0.3})


def lookup(frame, columns):
    return Batch({name: frame[name].to_numpy() for name in columns}, len(frame))


def indicators(column):
    """Functions (L, d) of the features that are 1 at one level of a factor, and 0 at the others."""
    start = 0
    for block in BASIS.blocks:
        if block.constant and block.factors == (column,):
            found = np.zeros((len(block.codes), BASIS.width))
            corners = np.column_stack([np.ones(len(block.codes)), block.codes / UNIT])
            found[:, [0, *range(start, start + block.width)]] = np.linalg.inv(corners).T
            return found
        start += block.width
    raise AssertionError(column)


def level_number(column):
    """The place of a factor's level as a function (d,) of the features."""
    found = indicators(column)
    return np.arange(len(found)) @ found


def without(skipped):
    """A weight (d,) that is cut to 0 at levels that are skipped, and to 1 elsewhere."""
    return 1.5 * np.eye(BASIS.width)[0] - 2.5 * sum(indicators(column)[level] for column, level in skipped)


def in_steps(function):
    """Round a function (d,) of the features to whole steps of ``2^-bits``, as fine as a frame takes."""
    bits = int(np.clip(np.floor(np.log2(2**33 / (np.abs(function).sum() + 1e-9))), 0, 64))
    return np.rint(np.ldexp(function, bits)).astype(np.int64), bits


def framed(*functions, weighted=False):
    """A frame of random coordinates, with further maps."""
    rng = np.random.default_rng(3)
    maps = np.rint(rng.normal(size=(5, BASIS.width)) * 2**22).astype(np.int64)
    maps[4] = 0
    maps[4, [0, BASIS.names.index("y")]] = 1
    steps = [in_steps(one) for one in functions]
    return RoundFrame(
        Features(BASIS),
        np.vstack([maps, *(one for one, _ in steps)]),
        (24,) * 4 + (1,) + tuple(bits for _, bits in steps),
        mean=LINKS["logit"].mean,
        weighted=weighted,
        labels=len(functions) - weighted,
    )


def summed(frame):
    terms = (Term("score", "vector", 1.0, clipped(1.0)), Term("count", "mass", 0.01, None, "linear", power=0))
    return RoundSum(frame, terms)


def test_rows_at_skipped_levels_add_nothing_and_others_what_they_did():
    frame = rows_of(3000)
    skipped = [("g", 3), ("g", 1), ("h", 1)]
    rows, all_of_them = summed(framed(without(skipped), weighted=True)), summed(framed())
    out = frame["g"].isin(["b", "d"]) | frame["h"]
    assert 0.3 < out.mean() < 0.7
    assert not rows.add(lookup(frame[out], rows.columns)).any()
    right = all_of_them.add(lookup(frame[~out], rows.columns))
    assert rows.add(lookup(frame, rows.columns)).tolist() == right.tolist()
    assert exact_sums(rows, open_source(frame.sample(frac=1, random_state=0)), threads=2) == right[0].tolist()


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_weights_are_cut_and_bound_what_a_row_adds(norm):
    rng = np.random.default_rng(4)
    rows = weighted(binary, norm=norm, rng=rng, scale=1.0, theta=1.0)
    found = integer_rows(rows, 5000, rng)
    mapped = rows.frame.maps.astype(float) @ found / UNIT / 2.0 ** np.array(rows.frame.bits)[:, None]
    looked = rows.frame.look(found)
    survey = np.clip(mapped[-2], 0, 1)
    assert min((survey == 0).mean(), (survey == 1).mean(), ((survey > 0) & (survey < 1)).mean()) > 0.05
    size = (looked.z**2).sum(axis=0)
    if norm == "l1":
        absolute = np.abs(looked.z).sum(axis=0)
        size = np.maximum(absolute, (absolute**2 + size) / 2 / rows.frame.ratio)
    kept = found[0] != 0
    np.testing.assert_allclose(looked.weight, np.minimum(survey, 1 / np.maximum(size, 1e-9)) * kept, rtol=1e-12)
    assert (looked.labels == mapped[-1:]).all()
    score, hessian = rows.integers(found)
    assert not score[:, survey == 0].any()
    assert not hessian[:, survey == 0].any()
    length = np.abs(score).sum(axis=0) if norm == "l1" else np.sqrt((score**2).sum(axis=0))
    most = np.abs(looked.residual) * (np.sqrt(survey) if norm == "l2" else 1)
    assert (length / UNIT <= most + 1e-5).all()


def test_a_map_of_ones_as_weight_changes_nothing():
    for name in ("logit with products", "logit with products, L1", "least squares", "Poisson"):
        rows = ROUNDS[name]()
        ones = np.zeros(rows.frame.maps.shape[1], dtype=np.int64)
        ones[0] = 3
        frame = replace(rows.frame, maps=np.vstack([rows.frame.maps, ones]), bits=(*rows.frame.bits, 0), weighted=True)
        found = integer_rows(rows, 3000, np.random.default_rng(5))
        for one, other in zip(rows.integers(found), replace(rows, frame=frame).integers(found), strict=True):
            np.testing.assert_array_equal(one, other)


# Levels


LABELS = framed(level_number("g"), level_number("h"))
PLACES = (
    Bins("g", "label", np.arange(3) + 0.5, place=0),
    Bins("h", "label", np.array([0.5]), place=1),
    Bins("size", "size", np.array([0.01, 1.0])),
)


def test_levels_are_counted_one_for_each_row():
    frame = rows_of(4000)
    rows = RoundCounts(LABELS, PLACES)
    rows.check()
    found = rows.finish(rows.add(lookup(frame, rows.columns))[0].tolist())
    assert found[:4] == frame["g"].value_counts().loc[LEVELS].tolist()
    assert found[4:6] == [int((~frame["h"]).sum()), int(frame["h"].sum())]
    alone = replace(rows, frame=framed(), places=PLACES[2:])
    assert found[6:] == alone.add(lookup(frame, rows.columns))[0].tolist()
    assert float(rows.bounded("add_remove", "l2").bound) == pytest.approx(3**0.5)
    assert float(rows.bounded("replace_one", "l2").bound) == pytest.approx(6**0.5)


def test_levels_of_rows_that_are_skipped_are_not_counted():
    frame = rows_of(2000)
    rows = RoundCounts(framed(without([("g", 0)]), level_number("g"), weighted=True), PLACES[:1])
    found = rows.add(lookup(frame, rows.columns))[0].tolist()
    assert found == [0, *frame["g"].value_counts().loc[LEVELS[1:]].tolist()]


@settings(max_examples=30, deadline=None)
@given(places=st.permutations(range(40)), name=st.sampled_from(["logit, weighted", "Poisson, weighted"]))
def test_weights_are_those_of_each_row_alone(places, name):
    rows = ROUNDS[name](rng=np.random.default_rng(8), scale=0.7)
    found = integer_rows(rows, 40, np.random.default_rng(9))
    together, moved = rows.frame.look(found), rows.frame.look(found[:, places])
    for one in ("weight", "size", "labels"):
        np.testing.assert_array_equal(getattr(together, one)[..., places], getattr(moved, one))


def test_frames_of_one_row_weigh_it_as_among_others():
    frame = frame_of(500, np.random.default_rng(2))
    rows = weighted(binary, rng=np.random.default_rng(7), scale=0.6)
    cells = {name: frame[name].to_numpy() for name in rows.columns}
    together = rows.add(Batch(cells, 500))[0]
    alone = [rows.add(Batch({name: one[[k]] for name, one in cells.items()}, 1))[0] for k in range(500)]
    assert together.tolist() == np.sum(alone, axis=0).tolist()
