"""Audits of every procedure: nothing is found above the stated price."""

import pytest

import dpinfer as dpi
from tests.contract.questions import EVERY, HOME
from tests.contract.test_procedures import SLOW

FAST = ("count", "mean", "most_frequent")
ASKED = [
    pytest.param(one.values[0], id=one.id, marks=[] if one.values[0].ask.function in FAST else [pytest.mark.slow])
    for one in HOME
]
ELSEWHERE = [one for one in EVERY if one.ask.full and (one.neighbors, one.unit) != (one.ask.home, "row")]


def _check(question):
    """A true price fails with probability below 1e-4, one of hundreds in fifty gates: fresh draws must confirm it."""
    runs = 200 if question.ask.function in SLOW else 1000
    found = dpi.audit(question.public(), None, question.privacy, runs=runs, seed=11)
    if {one.part for one in found.failures} == {"statistical"}:  # what is exact fails at once
        found = dpi.audit(question.public(), None, question.privacy, runs=runs, seed=12)
    assert found.passed, found.failures
    assert 0 < found.ratio <= 1 + 1e-9
    assert found.reached <= 1
    assert found.neighbors == question.neighbors
    alone = "a unit changes one block alone" in set(found.summary_frame()["check"])
    assert alone == (question.ask.function == "sample_aggregate")


@pytest.mark.sweep(12)
@pytest.mark.parametrize("question", ASKED)
def test_no_audit_finds_more_than_the_price(question):
    _check(question)


@pytest.mark.sweep(12)
@pytest.mark.slow
@pytest.mark.parametrize("question", ELSEWHERE, ids=str)
def test_nor_in_other_relations_and_of_people(question):
    try:
        question.public().measurement(question.privacy)
    except dpi.errors.DPInferError:
        with pytest.raises(dpi.errors.DPInferError):
            dpi.audit(question.public(), None, question.privacy, runs=200)
        return
    _check(question)
