"""The exact part of an audit: the worst change of every stage against the privacy loss its noise allows.

Choices are judged by the exact probabilities of their outcomes: the largest noisy score, quantiles on a grid, and
comparisons with thresholds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from scipy import special

from dpinfer.errors import DPInferError
from dpinfer.kernel.quantiles import sorted_places
from dpinfer.kernel.rows.blocks import BlockSum
from dpinfer.kernel.rows.tree import RANK
from dpinfer.kernel.stage import Above, Largest, Place, Resampled
from dpinfer.privacy.units import ZCDP, PureDP
from dpinfer.release.laws import ABOVE, BELOW, NOT_REACHED
from dpinfer.studies import audit_pairs as pairs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd

    from dpinfer.kernel.price import PricedStage
    from dpinfer.privacy.units import Privacy
    from dpinfer.statistics.arrays import Array, Places
    from dpinfer.studies.audit_pairs import AuditedRun, Setting, Stated, Unit, Units, Worst

__all__ = [
    "PREFIX", "Finding", "StageWorst", "answers_odds", "exact_findings", "first_logs", "last_logs", "log_odds",
    "rank_bins", "resampled_amount", "score_logs", "worst_above", "worst_choice", "worst_of", "worst_place",
]  # fmt: skip

_ROOM = Fraction(1_000_000_001, 10**9)
"""For what is not found in exact arithmetic: probabilities of choices, and secret weights."""

_NODES = 64
_SURE = 1e-9
"""Probabilities nearer to 0 or 1 are not told from these in sums."""

_DOWN = 1 - 1e-12
"""Lower bounds found in floats are rounded down by more than their error."""

_ORDERS = np.geomspace(1.5, 1000, 40)[:, None]
"""Of Renyi divergences."""

_COPIES = (0, 1, 3)
"""Copies of the pair's units that stand among the others: scores that lie close, and that lie apart."""

PREFIX = 64
"""Queries whose answers are looked at; what is released of the first ones depends on no later one."""

_REACH, _POINTS = 40, 20_001
_COARSE = 1 - 1e-3
"""Lower bounds are rounded down by so much where the noise of the threshold is summed over some of its values."""

_STARTS = (-6.0, -3.0, -1.0, 0.0, 1.0, 3.0)
"""Distances of sums from their thresholds, in units of the noise of a query, besides those of the rows."""

Odds = tuple[float, float]
"""Lower bounds on epsilon and mu."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check of an audit.

    Attributes
    ----------
    part : {"exact", "statistical", "events"}
    check : str
        What was checked.
    price : str
        The privacy parameters of the check; empty if it depends on none.
    found : float
        Ratio, lower bound or p-value.
    limit : float
        The largest value allowed; for a p-value the smallest.
    passed : bool
    detail : str
        What was tried, or what was seen if the check failed.
    """

    part: Literal["exact", "statistical", "events"]
    check: str
    price: str
    found: float
    limit: float
    passed: bool
    detail: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class StageWorst:
    """The largest privacy loss found for a stage, and for a choice its odds.

    Odds are exact lower bounds: the largest log likelihood ratio of an outcome, and the mu of the best test.
    """

    stage: PricedStage
    name: str
    share: Stated
    worst: Worst
    odds: Odds | None = None

    @property
    def amount(self) -> Fraction | float:
        """The largest privacy loss found."""
        return self.worst.amount


def worst_of(audited: AuditedRun, setting: Setting, units: Units) -> list[StageWorst]:
    """Search every stage for its worst pair."""
    count, charged = len(audited.stages), _charged(audited, setting)
    paid = Fraction(1) if charged is None else min(charged / setting.stated.amount, Fraction(1))
    found = []
    for place, (stage, share) in enumerate(zip(audited.stages, audited.shares, strict=True)):
        measure, kind = stage.stage.measure, type(stage.rows).__name__
        name = f"stage {place + 1} of {count} ({kind})" if count > 1 else kind
        odds: Odds | None = None
        if isinstance(measure, Place):
            worst, odds = worst_place(stage, units, setting.privacy, setting.base)
            worst = replace(worst, amount=Fraction(worst.amount) / _ROOM)
        elif isinstance(measure, Largest | Above):
            chosen = isinstance(measure, Largest)
            search, odds_of = (worst_choice, exact_odds) if chosen else (worst_above, answers_odds)
            worst = search(stage, units, setting.privacy)
            odds = odds_of(stage, worst, pairs.sums_of(stage.rows, setting.base, setting.schema), setting.privacy)
        elif isinstance(stage.rows, BlockSum):
            worst = pairs.worst_blocks(stage, units.rng)
        elif isinstance(measure, Resampled):
            worst = _worst_resampled(stage, share.amount * paid, units)
        else:
            worst = pairs.worst_in_data(stage, pairs.worst_units(stage, units), setting.base)
        found.append(StageWorst(stage, name, share, worst, odds))
    return found


def _charged(audited: AuditedRun, setting: Setting) -> Fraction | None:
    """Amount charged, in the unit of the privacy parameters."""
    cost, privacy = audited.plan.cost, setting.privacy
    if isinstance(privacy, PureDP):
        return cost.pure_epsilon
    if isinstance(privacy, ZCDP):
        return None if cost.rho is None else 2 * cost.rho
    return cost.mu_squared


def _worst_resampled(stage: PricedStage, paid: Fraction, units: Units) -> Worst:
    """Search for the unit that changes randomly weighted sums most.

    For paired weights the squares add up to a known number. For secret weights the change is compared with the bound to
    which the noise was calibrated; their privacy loss is judged by draws.
    """
    rows = stage.rows
    scales, pattern = np.asarray(stage.law.scales[: rows.width]), np.asarray(rows.pattern("l2"))[: rows.width]

    def amount(change: list[int], priced: PricedStage) -> Fraction | float:
        if rows.in_pairs:
            found = resampled_amount(change, priced)
            return found if math.isinf(found) else Fraction(found) / _ROOM
        if any(moved and not scale for moved, scale in zip(change, scales, strict=True)):
            return math.inf
        squared = sum((Fraction(moved) / Fraction(float(w))) ** 2 for moved, w in zip(change, pattern, strict=True))
        return paid * squared / priced.bound**2 / _ROOM

    def search(changes: Any, priced: PricedStage) -> Any:  # noqa: ARG001
        found = ((changes / pattern) ** 2 * (scales > 0)).sum(axis=1)
        found[(changes[:, scales == 0] != 0).any(axis=1)] = np.inf
        return found

    return pairs.worst_units(stage, units, amount=amount, search=search)


def resampled_amount(change: list[int], priced: PricedStage) -> float:
    """Squared mu of sums whose weights come in pairs: squares of a unit's weights add up to twice the replicates."""
    rows = priced.rows
    one = pairs.losses(np.array([[*change] + [0] * (len(priced.names) - len(change))], dtype=np.float64), priced)
    return float(one[0]) * 2 * int(rows.replicates)


def exact_findings(audited: AuditedRun, worst: list[StageWorst], setting: Setting) -> Iterator[Finding]:
    """Compare each stage with its share, all stages with the budget and the charge, and every storage type."""
    price, stated = str(setting.privacy), setting.stated
    for one in worst:
        units = "one block with an arbitrary fit" if one.worst.pair is None else str(one.worst.pair)
        ratio, passed = one.share.ratio(one.amount), not one.share.exceeded(one.amount)
        detail = f"{one.worst.tried:,} pairs compared; {units}"
        yield Finding("exact", f"change over bound, {one.name}", price, ratio, 1.0, passed, detail)
    total = sum((one.amount for one in worst), Fraction(0))
    shares = sum((one.share.amount for one in worst), Fraction(0))
    for check, amount in (("shares of all stages over the price", shares), ("all stages over the price", total)):
        yield Finding("exact", check, price, stated.ratio(amount), 1.0, not stated.exceeded(amount))
    charged = _charged(audited, setting)
    if charged is not None:
        over = float(total / charged) if charged else math.inf
        ratio = math.sqrt(over) if stated.kind == "mu" else over
        check = "all stages over what the ledger is charged"
        yield Finding("exact", check, price, ratio, 1.0, bool(total <= charged))
    differing, tried = [], 0
    for one in worst:
        pair = one.worst.pair
        if pair is None or isinstance(one.stage.stage.measure, Place | Resampled):
            continue
        for unit in (pair.first, pair.second):
            frame = pairs.frame_of(setting.base, unit, setting.schema)
            expected = pairs.sums_of(one.stage.rows, frame, setting.schema)
            for kind, stored in _stored(frame):
                tried += 1
                if pairs.sums_of(one.stage.rows, stored, setting.schema) != expected:
                    differing.append(f"{one.name} in {kind} columns")
    if tried:
        check, failed = "sums in every storage", float(len(differing))
        yield Finding("exact", check, "", failed, 0.0, not differing, "; ".join(differing))


def _stored(frame: pd.DataFrame) -> Iterator[tuple[str, Any]]:
    """Return the same cells in every other storage type that can hold them."""
    yield "object", frame.astype(object)
    conversions: dict[str, Any] = {
        "categorical": lambda: frame.astype("category"),
        "nullable": frame.convert_dtypes,
        "Arrow": lambda: pa.Table.from_pandas(frame, preserve_index=False),
    }
    for kind, convert in conversions.items():
        try:
            found = convert()
        except (TypeError, ValueError, pa.ArrowException, DPInferError):
            continue
        yield kind, found


# The largest noisy score


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


def worst_choice(priced: PricedStage, units: Units, privacy: Privacy) -> Worst:
    """Search for the pair whose change of scores has the largest range relative to the noise."""
    law = priced.stage.measure.law  # type: ignore[union-attr]

    def amount(change: list[int], stage: PricedStage) -> Fraction:
        gap = Fraction(max(change) - min(change)) / Fraction(stage.law.scales[0])
        return pairs.choice_amount(gap, privacy, law)

    def search(changes: Array, stage: PricedStage) -> Array:  # noqa: ARG001
        return np.asarray(np.ptp(changes, axis=1))

    return pairs.worst_units(priced, units, amount=amount, search=search)


def log_odds(first: Array, second: Array, privacy: Privacy | None = None) -> Odds:
    """Lower bounds on epsilon and mu from the log probabilities of all outcomes.

    They come from the best outcome and the best test. Under zCDP mu is sqrt(2 rho), with rho from Renyi divergences: a
    choice may admit better tests than Gaussian noise of the same rho (Bun & Steinke 2016, definition 1.1).
    """
    odds = first - second
    if isinstance(privacy, ZCDP):
        rho = 0.0  # the largest of some Renyi divergences, each over its order
        for one, other in ((first, second), (second, first)):
            sums = special.logsumexp(_ORDERS * one + (1 - _ORDERS) * other, axis=1, keepdims=True)
            rho = max(rho, float((sums / (_ORDERS - 1) / _ORDERS).max()))
        rho *= _DOWN
        return float(np.abs(odds).max()) * _DOWN, float(np.sqrt(2 * rho))
    order = np.argsort(-odds)
    with np.errstate(under="ignore"):
        alarm, missed = np.cumsum(np.exp(second[order])), 1 - np.cumsum(np.exp(first[order]))
    inner = (alarm > _SURE) & (alarm < 1 - _SURE) & (missed > _SURE) & (missed < 1 - _SURE)
    mu = -special.ndtri(alarm[inner]) - special.ndtri(missed[inner])
    return float(np.abs(odds).max()) * _DOWN, float(max(mu.max(initial=0.0), 0.0)) * _DOWN


def exact_odds(priced: PricedStage, worst: Worst, base: list[int], privacy: Privacy) -> Odds:
    """Largest lower bounds on epsilon and mu found over data sets that differ in the pair."""
    law, scale = priced.law.family, priced.law.scales[0]
    change = np.array(worst.change, dtype=float)
    found = []
    for copies in _COPIES:
        for start in (np.zeros(len(base)), np.array(base, dtype=float)):
            scores = start - copies * change
            found.append(log_odds(score_logs(scores + change, law, scale), score_logs(scores, law, scale), privacy))
    return max(one for one, _ in found), max(mu for _, mu in found)


# Quantiles


def rank_logs(places: Places, points: int, probability: Fraction, scale: float, at: Array) -> Array:
    """Log probabilities of grid points under the exponential mechanism scored by minus the distance in rank.

    The score of t is ``-max(0, q n - #{v <= t}, #{v < t} - q n)``: constant between values and at each of them.
    """
    cuts, sizes = _stretches(places, points)
    target = float(probability) * len(places)
    total = special.logsumexp(_rank_scores(places, cuts, target) * RANK / scale, b=sizes)
    return np.asarray(_rank_scores(places, at, target) * RANK / scale - total)


def rank_bins(places: Places, points: int, probability: Fraction, scale: float) -> tuple[Array, Array]:
    """First points of the intervals of equal score, and the log probability of choosing from each."""
    cuts, sizes = _stretches(places, points)
    return cuts, rank_logs(places, points, probability, scale, cuts) + np.log(sizes)


def _stretches(places: Places, points: int) -> tuple[Array, Array]:
    own = np.unique(places)
    cuts = np.unique(np.concatenate([[0], own, np.minimum(own + 1, points - 1)]))
    return cuts, np.diff(np.append(cuts, points)).astype(float)


def _rank_scores(places: Places, at: Array, target: float) -> Array:
    most = np.searchsorted(places, at, side="right")
    less = np.searchsorted(places, at, side="left")
    found: Array = -np.maximum(np.maximum(target - most, less - target), 0.0)
    return found


def worst_place(priced: PricedStage, units: Units, privacy: Privacy, base: pd.DataFrame) -> tuple[Worst, Odds]:
    """Search for the data sets whose chosen quantiles differ most in probability; return amount and lower bounds.

    The choices of a group at every probability compose, and a unit that moves from one group to another affects the
    choices of both. Lower bounds are for the choice with the largest privacy loss.
    """
    schema, rows, points = units.schema, priced.rows, priced.rows.points
    drawn: list[Unit | None] = [*units.corners()[:2], *(units.draw() for _ in range(24))]
    others: list[Unit | None] = [None] if units.neighbors == "add_remove" else drawn[:6]
    tried = [(one, other) for one in drawn for other in others if one is not other]
    sources = [base, base.iloc[:1], base.iloc[:0]]
    probabilities = priced.stage.measure.probabilities  # type: ignore[union-attr]
    best: tuple[Fraction, pairs.Pair] | None = None
    epsilon, mu = 0.0, 0.0
    for frame in sources:
        placed = {id(unit): sorted_places(rows, pairs.source_of(pairs.frame_of(frame, unit, schema), schema))
                  for unit in {id(u): u for u in (*drawn, *others)}.values()}  # fmt: skip
        for first, second in tried:
            amount = Fraction(0)
            for one, other in zip(placed[id(first)], placed[id(second)], strict=True):
                both = one.astype(np.int64), other.astype(np.int64)
                cuts, sizes = _stretches(np.concatenate(both), points)
                for probability, scale in zip(probabilities, priced.law.scales, strict=False):
                    logs = [rank_logs(places, points, probability, scale, cuts) + np.log(sizes) for places in both]
                    gap = max(float(np.ptp(logs[0] - logs[1])), 0.0)
                    amount += pairs.choice_amount(Fraction(gap), privacy, "gumbel")
                    bounds = log_odds(logs[0], logs[1], privacy)
                    epsilon, mu = max(epsilon, bounds[0]), max(mu, bounds[1])
            if best is None or amount > best[0]:
                best = amount, pairs.Pair(first, second)
    assert best is not None
    return pairs.Worst(best[1], [], best[0], len(tried) * len(sources), []), (epsilon, mu)


# Comparisons with thresholds


def _above_gap(change: Sequence[int], priced: PricedStage) -> Fraction:
    """Bound on the log likelihood ratio of any answers for a change of the sums, in exact arithmetic.

    If the threshold's noise is shifted by h, at least minus the smallest change, no answer "below" becomes less likely,
    and an answer "above" to a query that changes by d becomes less likely by a factor of at most ``exp((h + d) / s)``.
    """
    law, answers = priced.law, priced.stage.measure.answers  # type: ignore[union-attr]
    shared, own = Fraction(law.shared), Fraction(law.scales[0])
    found = Fraction(0)
    for moved in (sorted(change), sorted(-one for one in change)):
        tried = {-moved[0], *([0] if moved[0] >= 0 else [])}
        largest = moved[-answers:]
        found = max(found, min(abs(h) / shared + sum(max(h + d, 0) for d in largest) / own for h in tried))
    return found


def worst_above(priced: PricedStage, units: Units, privacy: Privacy) -> Worst:
    """Search for the pair whose change of sums has the largest privacy loss."""
    law, answers = priced.law, priced.stage.measure.answers  # type: ignore[union-attr]

    def amount(change: list[int], stage: PricedStage) -> Fraction:
        return pairs.choice_amount(_above_gap(change, stage), privacy, "exponential")

    def search(changes: Array, stage: PricedStage) -> Array:  # noqa: ARG001
        found = np.zeros(len(changes))
        for moved in (np.sort(changes, axis=1), np.sort(-changes, axis=1)):
            lowest, largest = moved[:, :1], moved[:, -answers:]
            shifted = np.abs(lowest[:, 0]) / law.shared + (largest - lowest).sum(axis=1) / law.scales[0]
            still = np.where(lowest[:, 0] >= 0, np.maximum(largest, 0).sum(axis=1) / law.scales[0], np.inf)
            found = np.maximum(found, np.minimum(shifted, still))
        return found

    return pairs.worst_units(priced, units, amount=amount, search=search)


def _noise(scale: float) -> tuple[Array, Array]:
    """Values of the threshold's noise and their log probabilities; every k-th value if the distribution is wide."""
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


def _answer_log(answers: Sequence[int], margins: Array, shared: float, own: float) -> float:
    """Log probability of answers, coded as released, for sums minus thresholds (k,)."""
    given = np.asarray(answers)
    logs, above, below = _logs(np.asarray(margins, dtype=float), shared, own)
    each = np.where(given == ABOVE, above, np.where(given == BELOW, below, 0.0))
    return float(special.logsumexp(logs + each.sum(axis=1)))


def first_logs(margins: Array, shared: float, own: float) -> Array:
    """Log probabilities (k + 1,) of the position of the first answer "above"; the last entry is for none."""
    logs, above, below = _logs(margins, shared, own)
    before = np.concatenate([np.zeros((len(logs), 1)), np.cumsum(below, axis=1)], axis=1)
    hit = np.concatenate([above, np.zeros((len(logs), 1))], axis=1)
    return np.asarray(special.logsumexp(logs[:, None] + before + hit, axis=0))


def last_logs(margins: Array, shared: float, own: float, answers: int) -> Array:
    """Log probabilities (k + 1,) of the position of the last answer allowed; the last entry is for fewer answers."""
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


def answers_odds(priced: PricedStage, worst: Worst, base: list[int], privacy: Privacy) -> Odds:
    """Lower bounds on epsilon and mu from the probabilities of some answers on data sets that differ in the pair."""
    law, measure = priced.law, priced.stage.measure
    own, answers = law.scales[0], measure.answers  # type: ignore[union-attr]
    change = np.array(worst.change[:PREFIX], dtype=float)
    thresholds = measure.thresholds  # type: ignore[union-attr]
    rows = np.array([float(a - b) for a, b in zip(base, thresholds, strict=True)][:PREFIX])
    found = [(0.0, 0.0)]
    for margins in (rows, *(np.rint(np.full(len(change), start * own)) for start in _STARTS)):
        for given in _tried(change, answers):
            pair = [_answer_log(given, margins + side * change, law.shared, own) for side in (1, 0)]
            if max(pair) > -700 and min(pair) > -700:
                both = [np.array([one, np.log(max(-float(np.expm1(one)), 1e-300))]) for one in pair]
                found.append(log_odds(both[0], both[1], privacy))
    down = 1.0 if len(_noise(law.shared)[0]) >= 2 * _REACH * law.shared else _COARSE
    return down * max(one for one, _ in found), down * max(mu for _, mu in found)


def _tried(change: Array, answers: int) -> Iterator[list[int]]:
    """Answers to try: "above" where the sums change most, up or down; none; and the first ones."""
    for order in (np.argsort(-change, kind="stable"), np.argsort(change, kind="stable"), np.arange(len(change))):
        for count in {0, 1, min(answers, len(change))}:
            given = np.full(len(change), BELOW)
            given[order[:count]] = ABOVE
            if count == answers:
                given[int(order[:count].max()) + 1 :] = NOT_REACHED
            yield given.tolist()
