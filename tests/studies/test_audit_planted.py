"""Every planted bug is caught by its own check, and without the bug the same audit passes."""

import pytest

import dpinfer as dpi
from validation.audit.planted import BUGS, SCHEMA

RUNS = {"noise times .8": 20_000, "noise on a coarser grid than the sums": 4000}
SLOW = ("noise times .8", "labels reused")
NAMES = [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in BUGS]


def _audit(name):
    bug = BUGS[name]
    return dpi.audit(bug.question, SCHEMA, bug.privacy, neighbors=bug.neighbors, runs=RUNS.get(name, 500))


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_bug_fails_its_check_and_nothing_does_without_it(name):
    """Without the bug a check fails with probability below 1e-4; with it none does below 1e-6."""
    bug = BUGS[name]
    clean = _audit(name)
    assert clean.passed, clean.failures
    assert any(bug.check in one.check for one in clean.findings)
    with bug.plant():
        broken = _audit(name)
    assert any(bug.check in one.check for one in broken.failures), broken.summary_frame()
    assert "FAILED" in str(broken)
    assert "FAIL " in str(broken)
    if name == "noise times .8":  # missed with probability below 1e-6
        assert any(one.check.startswith("lower bound on mu") and "4.5" in one.price for one in broken.failures)


@pytest.mark.parametrize(
    "name", ["sensitivity of one column forgotten", "a clamp left out", "a count left exact under add_remove"]
)
def test_wrong_changes_are_caught_in_exact_arithmetic(name):
    with BUGS[name].plant():
        assert _audit(name).ratio > 1.04


def test_a_share_counted_twice_is_seen_as_twice_the_amount():
    with BUGS["a share counted twice"].plant():
        broken = _audit("a share counted twice")
    assert broken.ratio == pytest.approx(2**0.5, rel=1e-6)
    assert any("ledger is charged" in one.check for one in broken.failures)
