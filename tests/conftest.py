"""Guards that hold for every test."""

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
