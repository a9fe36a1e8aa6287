"""Choices by the exact probabilities of their outcomes: the largest noisy score, and quantiles on a grid."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dpinfer.kernel.quantiles import sorted_places
from dpinfer.kernel.rows.tree import RANK
from dpinfer.privacy.units import ZCDP
from dpinfer.studies.auditing.climbing import Worst, worst_units
from dpinfer.studies.auditing.stated import choice_amount
from dpinfer.studies.auditing.units import Pair, frame_of, source_of

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from dpinfer.kernel.price import PricedStage
    from dpinfer.privacy.units import Privacy
    from dpinfer.studies.auditing.units import Unit, Units

    Array = NDArray[np.float64]

__all__ = [
    "choice_gap",
    "exact_odds",
    "log_odds",
    "rank_bins",
    "rank_logs",
    "score_logs",
    "worst_choice",
    "worst_place",
]

_NODES = 64
_SURE = 1e-9
"""Probabilities nearer to 0 or 1 are not told from these in sums."""

_DOWN = 1 - 1e-12
"""Lower bounds found in floats are rounded down by more than their error."""

_ORDERS = np.geomspace(1.5, 1000, 40)[:, None]
"""Of Renyi divergences."""

_COPIES = (0, 1, 3)
"""Copies of the pair's units that stand among the others: scores that lie close, and that lie apart."""


def score_logs(scores: Array, law: str, scale: float) -> Array:
    """Log probabilities (d,) that each score plus noise is the largest.

    Gumbel noise gives the exponential mechanism. With exponential noise candidate i wins with probability p_i times the
    integral over u from 0 to 1 of the product of 1 - u p_j over the others, p = exp(-gap/scale): a polynomial, which
    Gauss-Legendre quadrature integrates exactly (McKenna & Sheldon 2020 for the mechanism).
    """
    gaps = (scores - scores.max()) / scale
    if law == "gumbel":
        return np.asarray(special.log_softmax(gaps))
    p = np.exp(gaps)
    nodes, weights = np.polynomial.legendre.leggauss(max(_NODES, p.size // 2 + 1))
    u = 0.5 * (nodes + 1)
    logs = np.log1p(-u[:, None] * p)
    others = np.exp(logs.sum(axis=1, keepdims=True) - logs)
    return np.asarray(gaps + np.log(0.5 * weights @ others))


def choice_gap(change: list[int], priced: PricedStage) -> Fraction:
    """Range of a change of scores over the scale of their noise, in exact arithmetic."""
    return Fraction(max(change) - min(change)) / Fraction(priced.law.scales[0])


def worst_choice(priced: PricedStage, units: Units, privacy: Privacy) -> Worst:
    """Search for the pair whose scores' change has the largest range."""
    law = priced.stage.measure.law  # type: ignore[union-attr]

    def amount(change: list[int], stage: PricedStage) -> Fraction:
        return choice_amount(choice_gap(change, stage), privacy, law)

    def search(changes: Array, stage: PricedStage) -> Array:  # noqa: ARG001
        found: Array = changes.max(axis=1) - changes.min(axis=1)
        return found

    return worst_units(priced, units, amount=amount, search=search)


def log_odds(first: Array, second: Array, privacy: Privacy | None = None) -> tuple[float, float]:
    """Lower bounds on epsilon and mu from log probabilities of all outcomes: the best outcome, and the best test.

    Under zCDP mu is sqrt(2 rho), of the rho that Renyi divergences show: noisy choices of a rho may have better tests
    than Gaussian noise of the same rho has (Bun & Steinke 2016, definition 1.1).
    """
    odds = first - second
    if isinstance(privacy, ZCDP):
        rho = max(_rho(first, second), _rho(second, first)) * _DOWN
        return float(np.abs(odds).max()) * _DOWN, float(np.sqrt(2 * rho))
    order = np.argsort(-odds)
    with np.errstate(under="ignore"):
        alarm, missed = np.cumsum(np.exp(second[order])), 1 - np.cumsum(np.exp(first[order]))
    inner = (alarm > _SURE) & (alarm < 1 - _SURE) & (missed > _SURE) & (missed < 1 - _SURE)
    mu = -special.ndtri(alarm[inner]) - special.ndtri(missed[inner])
    return float(np.abs(odds).max()) * _DOWN, float(max(mu.max(initial=0.0), 0.0)) * _DOWN


def _rho(first: Array, second: Array) -> float:
    """Return the largest Renyi divergence of some orders, each over its order."""
    divergences = special.logsumexp(_ORDERS * first + (1 - _ORDERS) * second, axis=1, keepdims=True) / (_ORDERS - 1)
    return float(max((divergences / _ORDERS).max(), 0.0))


def exact_odds(priced: PricedStage, worst: Worst, base: list[int], privacy: Privacy) -> tuple[float, float]:
    """Lower bounds on epsilon and mu over data sets that differ in the pair; the largest found."""
    law, scale = priced.law.family, priced.law.scales[0]
    change = np.array(worst.change, dtype=float)
    found = []
    for copies in _COPIES:
        for start in (np.zeros(len(base)), np.array(base, dtype=float)):
            scores = start - copies * change
            found.append(log_odds(score_logs(scores + change, law, scale), score_logs(scores, law, scale), privacy))
    return max(one for one, _ in found), max(mu for _, mu in found)


# Quantiles


def rank_logs(places: NDArray[np.int64], points: int, probability: Fraction, scale: float, at: Array) -> Array:
    """Log probabilities of points of a grid: of the exponential mechanism whose scores are minus distances in rank.

    The score of t is ``-max(0, q n - #{v <= t}, #{v < t} - q n)``: constant between values and at each of them.
    """
    cuts, sizes = _stretches(places, points)
    target = float(probability) * len(places)
    total = special.logsumexp(_rank_scores(places, cuts, target) * RANK / scale, b=sizes)
    return np.asarray(_rank_scores(places, at, target) * RANK / scale - total)


def rank_bins(places: NDArray[np.int64], points: int, probability: Fraction, scale: float) -> tuple[Array, Array]:
    """First points of the stretches of equal score, and the log probability that the choice is in each."""
    cuts, sizes = _stretches(places, points)
    return cuts, rank_logs(places, points, probability, scale, cuts) + np.log(sizes)


def _stretches(places: NDArray[np.int64], points: int) -> tuple[Array, Array]:
    own = np.unique(places)
    cuts = np.unique(np.concatenate([[0], own, np.minimum(own + 1, points - 1)]))
    return cuts, np.diff(np.append(cuts, points)).astype(float)


def _rank_scores(places: NDArray[np.int64], at: Array, target: float) -> Array:
    most = np.searchsorted(places, at, side="right")
    less = np.searchsorted(places, at, side="left")
    found: Array = -np.maximum(np.maximum(target - most, less - target), 0.0)
    return found


def worst_place(
    priced: PricedStage, units: Units, privacy: Privacy, base: pd.DataFrame
) -> tuple[Worst, tuple[float, float]]:
    """Search for the data sets whose chosen quantiles differ most in probability; amount, and lower bounds.

    The choices of a group at every probability compose, and a unit that leaves one group and joins another moves the
    choices of both.
    """
    schema = units.schema
    best, odds = None, (0.0, 0.0)
    corners = units.corners()
    drawn: list[Unit | None] = [*corners[:2], *(units.draw() for _ in range(24))]
    others: list[Unit | None] = [None] if units.neighbors == "add_remove" else drawn[:6]
    pairs = [(one, other) for one in drawn for other in others if one is not other]
    sources = [base, base.iloc[:1], base.iloc[:0]]
    for rows in sources:
        cached = {id(unit): sorted_places(priced.rows, source_of(frame_of(rows, unit, schema), schema))
                  for unit in {id(u): u for u in (*drawn, *others)}.values()}  # fmt: skip
        for first, second in pairs:
            amount, found = _place_amount(priced, cached[id(first)], cached[id(second)], privacy)
            odds = (max(odds[0], found[0]), max(odds[1], found[1]))
            if best is None or amount > best[0]:
                best = (amount, first, second)
    assert best is not None
    return Worst(Pair(best[1], best[2]), [], best[0], len(pairs) * len(sources), []), odds


def _place_amount(
    priced: PricedStage, first: list[NDArray[np.int64]], second: list[NDArray[np.int64]], privacy: Privacy
) -> tuple[Fraction, tuple[float, float]]:
    """Amount that all choices give away together, and lower bounds of the choice that gives most away."""
    measure, points = priced.stage.measure, priced.rows.points
    probabilities = measure.probabilities  # type: ignore[union-attr]
    amount, epsilon, mu = Fraction(0), 0.0, 0.0
    for one, other in zip(first, second, strict=True):
        mine, theirs = one.astype(np.int64), other.astype(np.int64)
        cuts, sizes = _stretches(np.concatenate([mine, theirs]), points)
        for probability, scale in zip(probabilities, priced.law.scales, strict=False):
            logs = [rank_logs(places, points, probability, scale, cuts) + np.log(sizes) for places in (mine, theirs)]
            odds = logs[0] - logs[1]
            gap = max(float(odds.max() - odds.min()), 0.0)
            amount += choice_amount(Fraction(gap), privacy, "gumbel")
            bounds = log_odds(logs[0], logs[1], privacy)
            epsilon, mu = max(epsilon, bounds[0]), max(mu, bounds[1])
    return amount, (epsilon, mu)
