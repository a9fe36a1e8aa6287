"""Frames of block estimates: what is stored of them, and how far out blocks may be."""

import json
import math

import numpy as np
import pytest

from dpinfer.resampling.blocks import Frame, limit

NAN, INF = float("nan"), float("inf")


def test_a_frame_survives_json_to_the_last_digit():
    frame = Frame(np.array([0.1, -2e-17, 3e99]), np.array([1e-9, 0.3, 5.0]), np.array([True, False, True]))
    back = Frame.from_dict(json.loads(json.dumps(frame.to_dict())), 3)
    for name in ("center", "half", "located"):
        assert getattr(back, name).tobytes() == getattr(frame, name).tobytes()


WORSE = {
    "center": [[0.0], [0.0, NAN], [0.0, INF], ["a", "b"], None, 0.0, [[0.0, 0.0]], {}],
    "half": [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, NAN], [1.0, INF], None, "ab", {}],
    "located": [[True], [True, 1], [True, None], [True, "x"], None, 1, "ab", {"a": 1}],
}


@pytest.mark.parametrize("entry", WORSE)
def test_a_damaged_frame_is_refused(entry):
    good = {"center": [0.0, 0.0], "half": [1.0, 1.0], "located": [True, False]}
    Frame.from_dict(good, 2)
    without = {name: good[name] for name in good if name != entry}
    for stored in (without, *(good | {entry: value} for value in WORSE[entry]), None, [], 3, "center", {}):
        with pytest.raises((KeyError, TypeError, ValueError)):
            Frame.from_dict(stored, 2)


def test_about_one_block_in_all_or_in_two_hundred_is_beyond_the_limit():
    from scipy import stats

    for blocks, size in ((2, 1), (100, 1), (1000, 4)):
        radius = limit(blocks, size, "l2")
        assert stats.chi2.sf(radius**2, size) == pytest.approx(min(1 / blocks, 1 / 200))
        assert limit(blocks, size, "l1") == pytest.approx(radius * math.sqrt(size))
