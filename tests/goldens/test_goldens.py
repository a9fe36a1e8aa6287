"""What every procedure plans, sums, releases and infers is what it was; see observe.py for the way in."""

import math

import numpy as np
import pytest

import dpinfer as dpi
from tests.goldens.capture import FILE, read
from tests.goldens.cases import CASES, PRICES
from tests.goldens.record import record

GOLDENS = read()
CLOSE = ("scales", "later sums", "later released", "settings")
"""Lists of texts, of questions that iterate: of the norm's noise scales, and of each stage."""


def close(found: str, golden: str) -> bool:
    """Compare words as they are and numbers within what other linear algebra may change."""
    pairs = list(zip(found.split(), golden.split(), strict=False))
    return len(found.split()) == len(golden.split()) and all(
        left == right or _near(left, right) for left, right in pairs
    )


def _near(left: str, right: str) -> bool:
    try:
        return math.isclose(float(left), float(right), rel_tol=1e-7, abs_tol=1e-11)
    except ValueError:
        return False


def alike(found: list[str], golden: list[str]) -> bool:
    """Compare stages that are built from the linear algebra of earlier ones."""
    new, old = ([float(word) for word in " ".join(texts).split()] for texts in (found, golden))
    return len(new) == len(old) and np.allclose(new, old, rtol=3e-7, atol=3e-7)


def differences(found: dict, golden: dict) -> list[str]:
    """Say in which entries two records differ."""
    differ = list(found.keys() ^ golden.keys())
    differ += [
        key
        for key in found.keys() & golden.keys() - {"results"}
        if not (
            alike(found[key], golden[key])
            if key in CLOSE and isinstance(golden[key], list)
            else found[key] == golden[key]
        )
    ]
    new, old = found.get("results", []), golden.get("results", [])
    if isinstance(new, str) or isinstance(old, str) or len(new) != len(old):
        return differ + ["results"] * (new != old)
    for left, right in zip(new, old, strict=True):
        differ += [
            f"results: {key}: {left.get(key)} was {right.get(key)}"
            for key in sorted(left.keys() | right.keys())
            if not close(left.get(key, "nothing"), right.get(key, "nothing"))
        ]
    return differ


EVERY = len(CASES) // 60
"""Each of so many cases is asked in the quick run of the tests, too."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (place % EVERY != 0)) for place, name in enumerate(CASES)],
)
def test_a_case_is_as_it_was(name):
    assert differences(record(CASES[name]), GOLDENS[name]) == []


def test_every_case_has_a_golden_and_every_golden_a_case():
    assert GOLDENS.keys() == CASES.keys()
    assert FILE.stat().st_size < 650_000


def test_every_question_is_served_somewhere_and_every_price_by_most_functions():
    served = [CASES[name] for name, golden in GOLDENS.items() if "refused" not in golden]
    assert {case.ask.name for case in served} == {case.ask.name for case in CASES.values()}
    asked = {case.ask.function for case in CASES.values()}
    at = {(case.ask.function, case.price) for case in served}
    missing = {(function, price) for function in asked for price in PRICES} - at
    assert missing == {("bootstrap", "pure")}


def test_every_public_procedure_is_asked():
    asked = {case.ask.function for case in CASES.values()}
    free = {
        "audit",
        "combine",
        "coverage_study",
        "multipletests",
        "plan",
        "power",
        "privacy_cost",
        "read_release",
        "report",
        "summary_table",
    }
    free |= {"read_codebook", "write_codebook"}  # no procedures: they read and write declarations
    free |= {"show_progress"}  # nor is the switch of progress bars
    free |= {"median", "workload"}  # a quantile; what marginals are asked for
    free |= {
        "quality",
        "bounds",
        "iv",
        "survival",
        "experiment",
        "mnlogit",
        "ordered",
    }  # the same; tests/contract asks them in every relation and unit
    public = {name for name in dpi.__all__ if name.islower() and callable(getattr(dpi, name))}
    assert public - free <= asked


@pytest.mark.parametrize(
    ("found", "golden", "same"),
    [("2 1.0 nan", "2 1.00000000001 nan", True), ("1.0", "1.00001", False), ("a 1", "b 1", False), ("1", "1 1", False)],
)
def test_numbers_are_compared_closely_and_words_exactly(found, golden, same):
    assert close(found, golden) is same
