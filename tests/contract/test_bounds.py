"""Every sum moves between neighbours by no more than it is priced for: exact integers of adversarial units."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dpinfer as dpi
from dpinfer.errors import DPInferError
from dpinfer.kernel.rows.base import Batch
from dpinfer.kernel.rows.blocks import BlockSum, block_values
from dpinfer.kernel.stage import Above, Largest, Place, Resampled, Sum
from dpinfer.privacy.units import PureDP
from dpinfer.schema.columns import Boolean, Category
from tests.contract.questions import BUDGETS, EVERY, Question
from tests.goldens.frame import PERSON, SCHEMA

if TYPE_CHECKING:
    from dpinfer.kernel.price import PricedStage

UNITS, PAIRS = 24, 60


def _extremes(column: Any) -> list[Any]:
    """Cells at the ends of a column, beyond them, missing, impossible, and of other types."""
    odd = [None, np.nan, np.inf, -1e308, 1e308, "oops", 2 + 1j]
    if isinstance(column, Category):
        return [*column.levels, *odd]
    if isinstance(column, Boolean):
        return [True, False, *odd]
    middle = 0.5 * (column.lower + column.upper)
    return [column.lower, column.upper, middle, np.nextafter(column.lower, column.upper), *odd]


@cache
def _rows() -> dict[str, np.ndarray]:
    """Rows of extreme cells; most cells are possible, so that most rows count."""
    rng = np.random.default_rng(5)
    cells: dict[str, np.ndarray] = {}
    for name in SCHEMA:
        listed = _extremes(SCHEMA[name])
        likely = np.array([6.0] * (len(listed) - 7) + [0.1] * 7)
        places = rng.choice(len(listed), size=3 * UNITS, p=likely / likely.sum())
        column = np.empty(3 * UNITS, dtype=object)
        column[:] = [listed[place] for place in places]
        cells[name] = column
    return cells


def _contribution(rows: Any, start: int, size: int) -> list[int]:
    """What the rows of one unit add to the sums."""
    cells = {name: column[start : start + size] for name, column in _rows().items()}
    persons = np.zeros(size, dtype=np.int64) if rows.schema.people is not None else None
    totals = rows.add(Batch(cells, size, persons=persons))[0].tolist()
    return rows.finish(totals)


def _blocks(rows: BlockSum) -> list[list[int]]:
    """Sums over two blocks, of which the first is anything; differences are what one block can do."""
    rng = np.random.default_rng(9)
    region, size = rows.region, len(rows.region.names)
    fits = region.center + 3 * region.radius * rng.uniform(-1, 1, (UNITS, 3, size))
    fits[rng.random(UNITS) < 0.2] = np.nan
    return [rows.add(block_values(fits[[place, 0]], region))[0].tolist() for place in range(UNITS)]


def _scaled(change: list[int], weights: np.ndarray, norm: str) -> Fraction:
    """Norm of a change, each coordinate over its weight: the square of it for L2."""
    parts = [Fraction(abs(one)) / Fraction(float(w)) for one, w in zip(change, weights, strict=True) if one]
    return sum(parts, Fraction(0)) if norm == "l1" else sum((part**2 for part in parts), Fraction(0))


def _check_sum(stage: PricedStage, question: Question) -> int:
    measure, rows = stage.stage.measure, stage.rows
    norm = "l1" if isinstance(question.privacy, PureDP) else "l2"
    options = {"weights": measure.weights, "shares": measure.shares} if isinstance(measure, Sum) else {}
    bounded = rows.bounded(question.neighbors, norm, **options)
    weights, public = bounded.weights, bounded.public
    if isinstance(rows, BlockSum):
        found, limit = _blocks(rows), bounded.bound
        pairs = list(pairwise(found))
    else:
        width = rows.width if isinstance(measure, Resampled) else None
        weights, public = (weights[:width], public[:width]) if width else (weights, public)
        size = PERSON["max_rows"] if question.unit == "person" else 1
        found, limit = [_contribution(rows, size * unit, size) for unit in range(UNITS)], bounded.bound
        nothing = [0] * len(found[0])
        pairs = [(one, nothing) for one in found]
        if question.neighbors == "replace_one":
            rng = np.random.default_rng(3)
            pairs = [(found[i], found[j]) for i, j in rng.integers(0, UNITS, (PAIRS, 2))]
    allowed = limit if norm == "l1" else limit**2
    for first, second in pairs:
        change = [a - b for a, b in zip(first, second, strict=True)]
        assert not any(one for one, exempt in zip(change, public, strict=True) if exempt)
        assert _scaled(change, weights, norm) <= allowed
    return sum(any(one) for one in found)


def _check_scores(stage: PricedStage, question: Question) -> int:
    rows = stage.rows
    found = [rows.add(Batch({n: c[i : i + 1] for n, c in _rows().items()}, 1))[0].tolist() for i in range(UNITS)]
    rng = np.random.default_rng(3)
    pairs = [(one, [0] * len(one)) for one in found]
    if question.neighbors == "replace_one":
        pairs = [(found[i], found[j]) for i, j in rng.integers(0, UNITS, (PAIRS, 2))]
    for first, second in pairs:
        change = [a - b for a, b in zip(first, second, strict=True)]
        if isinstance(stage.stage.measure, Above):
            assert max(map(abs, change)) <= rows.moved(question.neighbors)
            assert not rows.monotone(question.neighbors) or min(change) >= 0 or max(change) <= 0
        else:
            assert max(change) - min(change) <= rows.spread(question.neighbors)
    return sum(any(one) for one in found)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("question", EVERY, ids=str)
def test_no_unit_moves_the_sums_further_than_their_price(question):
    try:
        measured = question.public().measurement(question.privacy)
    except DPInferError:
        ledger = dpi.Ledger.in_memory(BUDGETS[question.price], neighbors=question.neighbors)
        with pytest.raises(DPInferError):
            question.private(ledger=ledger).fit(question.privacy)
        assert ledger.spent.is_zero
        return
    moved = 0
    for stage in measured.stages:
        if isinstance(stage.stage.measure, Place):  # ranks: tests/kernel/test_quantiles.py
            continue
        scores = isinstance(stage.stage.measure, Largest | Above)
        moved += _check_scores(stage, question) if scores else _check_sum(stage, question)
    assert moved > 0  # else nothing was checked
