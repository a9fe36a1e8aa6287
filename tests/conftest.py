"""Guards that hold for every test, and which cases of a sweep a run asks."""

import os
import zlib

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

mpl.use("Agg")
settings.register_profile(
    "ci", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("ci")


@pytest.fixture(autouse=True)
def _global_random_state_is_untouched():
    """Fail a test that draws from or seeds numpy's global generator."""
    before = np.random.get_state()  # noqa: NPY002
    yield
    after = np.random.get_state()  # noqa: NPY002
    assert before[2] == after[2], "the test touched the global random state of numpy"
    assert np.array_equal(before[1], after[1]), "the test touched the global random state of numpy"


TURN = os.environ.get("DPINFER_TURN", "0")
"""The share of every sweep that this run asks: a whole number, or "all"."""


def in_turn(case, shares, turn=TURN):
    """Whether a case, by its name, is of the share that is asked: and twelve turns in a row ask them all."""
    return turn == "all" or zlib.crc32(case.encode()) % shares == int(turn) % shares


def pytest_collection_modifyitems(config, items):
    """Leave cases of sweeps to other turns, unless they are asked for by name."""
    if any("::" in argument for argument in config.args):
        return
    sweeps = [(item, item.get_closest_marker("sweep")) for item in items]
    asked = [item for item, sweep in sweeps if not sweep or in_turn(item.nodeid, *sweep.args)]
    config.hook.pytest_deselected(items=[*{*items} - {*asked}])
    items[:] = asked
