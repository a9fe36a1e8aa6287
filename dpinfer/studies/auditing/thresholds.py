"""Comparisons with thresholds by the exact probabilities of their answers."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dpinfer.release.laws import ABOVE, BELOW, NOT_REACHED
from dpinfer.studies.auditing.choices import log_odds
from dpinfer.studies.auditing.climbing import Worst, worst_units
from dpinfer.studies.auditing.stated import choice_amount

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dpinfer.kernel.price import PricedStage
    from dpinfer.privacy.units import Privacy
    from dpinfer.studies.auditing.units import Units

    Array = NDArray[np.float64]

__all__ = ["PREFIX", "above_gap", "answer_log", "answers_odds", "first_logs", "last_logs", "worst_above"]

PREFIX = 64
"""Queries whose answers are looked at; what is released of the first ones depends on no later one."""

_REACH, _POINTS = 40, 20_001
_COARSE = 1 - 1e-3
"""Lower bounds are rounded down by so much where the noise of the threshold is summed over some of its values."""

_STARTS = (-6.0, -3.0, -1.0, 0.0, 1.0, 3.0)
"""Distances of sums from their thresholds, in units of the noise of a query, besides those of the rows."""


def above_gap(change: Sequence[int], priced: PricedStage) -> Fraction:
    """Bound on the log likelihood ratio of any answers for a change of the sums, in exact arithmetic.

    If all noise of the threshold is moved by h, at least minus the least change, no answer "below" is less likely, and
    an answer "above" to a query that changes by d is less likely by a factor of at most ``exp((h + d) / s)``.
    """
    law = priced.law
    answers = priced.stage.measure.answers  # type: ignore[union-attr]
    shared, own = Fraction(law.shared), Fraction(law.scales[0])
    found = Fraction(0)
    for moved in (sorted(change), sorted(-one for one in change)):
        tried = {-moved[0], *([0] if moved[0] >= 0 else [])}
        largest = moved[-answers:]
        found = max(found, min(abs(h) / shared + sum(max(h + d, 0) for d in largest) / own for h in tried))
    return found


def worst_above(priced: PricedStage, units: Units, privacy: Privacy) -> Worst:
    """Search for the pair whose sums' change gives most away."""
    law = priced.law
    answers = priced.stage.measure.answers  # type: ignore[union-attr]

    def amount(change: list[int], stage: PricedStage) -> Fraction:
        return choice_amount(above_gap(change, stage), privacy, "exponential")

    def search(changes: Array, stage: PricedStage) -> Array:  # noqa: ARG001
        found = np.zeros(len(changes))
        for moved in (np.sort(changes, axis=1), np.sort(-changes, axis=1)):
            lowest, largest = moved[:, :1], moved[:, -answers:]
            shifted = np.abs(lowest[:, 0]) / law.shared + (largest - lowest).sum(axis=1) / law.scales[0]
            still = np.where(lowest[:, 0] >= 0, np.maximum(largest, 0).sum(axis=1) / law.scales[0], np.inf)
            found = np.maximum(found, np.minimum(shifted, still))
        return found

    return worst_units(priced, units, amount=amount, search=search)


# Exact probabilities


def _noise(scale: float) -> tuple[Array, Array]:
    """Values of the threshold's noise and their log probabilities; of a wide law every so many-th value."""
    reach = int(np.ceil(_REACH * scale)) + 1
    stride = max(1, -(-(2 * reach + 1) // _POINTS))
    values = np.asarray(np.arange(-(reach // stride), reach // stride + 1) * stride, dtype=np.float64)
    logs = -np.abs(values) / scale
    return values, np.asarray(logs - special.logsumexp(logs))


def _logs(margins: Array, shared: float, own: float) -> tuple[Array, Array, Array]:
    """Log probabilities (z,) of the threshold's noise, and given it (z, k) of an answer "above" and "below"."""
    values, logs = _noise(shared)
    needed = values[:, None] - margins  # the query's noise is at least that
    beyond = np.log1p(np.exp(-1 / own))
    tail = np.where(needed >= 1, -needed, needed - 1) / own - beyond  # of the side that does not hold the middle
    rest = np.log1p(-np.exp(np.minimum(tail, -1e-300)))
    return logs, np.where(needed >= 1, tail, rest), np.where(needed >= 1, rest, tail)


def answer_log(answers: Sequence[int], margins: Array, shared: float, own: float) -> float:
    """Log probability of answers, codes as released, for sums less thresholds (k,)."""
    told = np.asarray(answers)
    logs, above, below = _logs(np.asarray(margins, dtype=float), shared, own)
    each = np.where(told == ABOVE, above, np.where(told == BELOW, below, 0.0))
    return float(special.logsumexp(logs + each.sum(axis=1)))


def first_logs(margins: Array, shared: float, own: float) -> Array:
    """Log probabilities (k + 1,) of the place of the first answer "above", the last of none."""
    logs, above, below = _logs(margins, shared, own)
    before = np.concatenate([np.zeros((len(logs), 1)), np.cumsum(below, axis=1)], axis=1)
    hit = np.concatenate([above, np.zeros((len(logs), 1))], axis=1)
    return np.asarray(special.logsumexp(logs[:, None] + before + hit, axis=0))


def last_logs(margins: Array, shared: float, own: float, answers: int) -> Array:
    """Log probabilities (k + 1,) of the place of the last answer that is paid for, the last of fewer answers."""
    logs, above, below = (np.exp(one) for one in _logs(margins, shared, own))
    state = np.zeros((len(logs), answers))
    state[:, 0] = 1.0
    found = np.zeros(above.shape[1] + 1)
    for place in range(above.shape[1]):
        found[place] = logs @ (state[:, -1] * above[:, place])
        up = state[:, :-1] * above[:, [place]]
        state = state * below[:, [place]]
        state[:, 1:] += up
    found[-1] = logs @ state.sum(axis=1)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(found))


def answers_odds(priced: PricedStage, worst: Worst, base: list[int], privacy: Privacy) -> tuple[float, float]:
    """Lower bounds on epsilon and mu from the probabilities of some answers on data sets that differ in the pair."""
    law, measure = priced.law, priced.stage.measure
    own, answers = law.scales[0], measure.answers  # type: ignore[union-attr]
    change = np.array(worst.change[:PREFIX], dtype=float)
    thresholds = measure.thresholds  # type: ignore[union-attr]
    rows = np.array([float(a - b) for a, b in zip(base, thresholds, strict=True)][:PREFIX])
    found = [(0.0, 0.0)]
    for margins in (rows, *(np.rint(np.full(len(change), start * own)) for start in _STARTS)):
        for told in _tried(change, answers):
            pair = [answer_log(told, margins + side * change, law.shared, own) for side in (1, 0)]
            if max(pair) > -700 and min(pair) > -700:
                both = [np.array([one, np.log(max(-float(np.expm1(one)), 1e-300))]) for one in pair]
                found.append(log_odds(both[0], both[1], privacy))
    down = 1.0 if len(_noise(law.shared)[0]) >= 2 * _REACH * law.shared else _COARSE
    return down * max(one for one, _ in found), down * max(mu for _, mu in found)


def _tried(change: Array, answers: int) -> Iterator[list[int]]:
    """Answers that are above where the sums change most, up or down; none; and the first ones."""
    for order in (np.argsort(-change, kind="stable"), np.argsort(change, kind="stable"), np.arange(len(change))):
        for count in {0, 1, min(answers, len(change))}:
            told = np.full(len(change), BELOW)
            told[order[:count]] = ABOVE
            if count == answers:
                told[int(order[:count].max()) + 1 :] = NOT_REACHED
            yield told.tolist()
