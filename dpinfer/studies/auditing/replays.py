"""The real draw of a stage, many times over sums that are computed once: log likelihood ratios of two neighbours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dpinfer.kernel.run import noisy
from dpinfer.kernel.sampling import PrivateDraws
from dpinfer.kernel.stage import Resampled
from dpinfer.kernel.sums import replicate_sums
from dpinfer.privacy.resampling import POISSON
from dpinfer.release.laws import TULAP_GRID, NoiseLaw
from dpinfer.studies.auditing.climbing import Worst, added
from dpinfer.studies.auditing.stated import losses
from dpinfer.studies.auditing.units import frame_of, source_of

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from dpinfer.kernel.price import PricedStage

    Array = NDArray[np.float64]

__all__ = ["Replay", "replayed", "runs_for"]

_AT_ONCE = 500
"""Runs that one call of the sampler draws for."""

_COORDINATES = 100
"""Coordinates at most that the event looks at: those that give most away."""

_DRAWS = 300_000
"""Numbers drawn for one data set at most, where the number of runs is left to the audit."""

_RUNS = 20_000
_LEAST_RUNS = 200


@dataclass(frozen=True, eq=False, slots=True)
class Replay:
    """Log likelihood ratios of repeated draws.

    Attributes
    ----------
    first, second : ndarray of shape (R,)
        On the first data set of a pair and on the second; positive where the first is likelier.
    whole : bool
        Whether everything that was released is a whole number of Python's own type.
    """

    first: Array
    second: Array
    whole: bool


def runs_for(priced: PricedStage, worst: Worst, runs: int | None) -> int:
    """Return the runs on each data set of a pair, where the number is left to the audit: fewer for many coordinates."""
    if runs is not None:
        return runs
    width = len(priced.names) if isinstance(priced.stage.measure, Resampled) else len(_active(priced, worst))
    return int(np.clip(_DRAWS // max(width * priced.law.draws, 1), _LEAST_RUNS, _RUNS))


def replayed(priced: PricedStage, worst: Worst, runs: int, base: pd.DataFrame) -> Replay:
    """Draw a stage again and again, on each of two neighbours."""
    if isinstance(priced.stage.measure, Resampled):
        return _replicated(priced, worst, runs, base)
    active = _active(priced, worst)
    moved = np.array([worst.change[j] * priced.multiplier for j in active], dtype=np.float64)
    found, whole = [], True
    rest = [worst.exact[j] for j in active]
    for side in (1, 0):
        exact = [total + side * worst.change[j] for total, j in zip(rest, active, strict=True)]
        values, fine = _released(priced, exact, rest, active, runs)
        whole = whole and fine
        found.append(_ratio(values, moved, priced.law, active))
    return Replay(found[0], found[1], whole)


def _active(priced: PricedStage, worst: Worst) -> list[int]:
    """Coordinates that change and carry noise; of many those that give most away."""
    change, scales = np.array(worst.change, dtype=np.float64), np.asarray(priced.law.scales)
    each = np.where(scales > 0, np.abs(change) / np.where(scales > 0, scales, 1.0), 0.0)
    order = np.argsort(-each, kind="stable")[:_COORDINATES]
    return [int(j) for j in order if each[j] > 0] or [int(np.argmax(scales))]


def _released(
    priced: PricedStage, exact: list[int], rest: list[int], active: list[int], runs: int
) -> tuple[Array, bool]:
    """Release some coordinates (R, a), less the sums of the second data set, which are taken off in whole numbers."""
    scales = [priced.law.scales[j] for j in active]
    left, found, whole = runs, [], True
    sums = [total * priced.multiplier for total in rest]
    while left > 0:
        count = min(left, _AT_ONCE)
        law = NoiseLaw(priced.law.family, tuple(scales * count), priced.law.draws)
        released = noisy(replace(priced, law=law), exact * count, PrivateDraws())
        whole = whole and all(type(value) is int for value in released)
        found += [float(value - total) for value, total in zip(released, sums * count, strict=True)]
        left -= count
    return np.array(found).reshape(runs, len(active)), whole


def _ratio(values: Array, moved: Array, law: NoiseLaw, active: list[int]) -> Array:
    """Log likelihood ratio (R,) of noise around ``moved`` to noise around zero.

    Of a sum of several Laplace draws it is that of the normal law of the same variance: any event gives a bound.
    """
    scales = np.array([law.scales[j] for j in active])
    if law.family == "gaussian" or law.draws > 1:
        squared = scales**2 * (2 * law.draws if law.draws > 1 else 1)
        found: Array = (values * (moved / squared)).sum(axis=1) - 0.5 * (moved**2 / squared).sum()
        return found
    if law.family == "tulap":  # the uniform fraction tells nothing
        values = np.rint(values / TULAP_GRID) * TULAP_GRID
    return np.asarray(((np.abs(values) - np.abs(values - moved)) / scales).sum(axis=1))


# Sums under random weights


def _replicated(priced: PricedStage, worst: Worst, runs: int, base: pd.DataFrame) -> Replay:
    """Draw weights and noise again, of data sets that hold the pair's units alone."""
    rows = priced.rows
    assert worst.pair is not None
    adds = [np.array(added(priced, unit), dtype=np.float64) for unit in (worst.pair.first, worst.pair.second)]
    found, whole = [], True
    for unit in (worst.pair.first, worst.pair.second):
        source = source_of(frame_of(base.iloc[:0], unit, rows.schema), rows.schema)
        values = np.empty((runs, rows.replicates, rows.width))
        for run in range(runs):
            draws = PrivateDraws()
            released = noisy(priced, replicate_sums(rows, source, draws, threads=1), draws)
            whole = whole and all(type(value) is int for value in released)
            values[run] = np.array(released, dtype=np.float64).reshape(rows.replicates, rows.width)
        found.append(_weighed(values, adds[0], priced) - _weighed(values, adds[1], priced))
    return Replay(found[0], found[1], whole)


def _weighed(values: Array, adds: Array, priced: PricedStage) -> Array:
    """Log likelihood ratio (R,) of sums to which a unit adds, under random weights, to sums of nothing."""
    rows = priced.rows
    scales = np.asarray(priced.law.scales[: rows.width])
    noisy_ones = scales > 0
    unit = adds[noisy_ones] * priced.multiplier / scales[noisy_ones]
    seen = (values[..., noisy_ones] / scales[noisy_ones]) @ unit  # (R, B)
    size = float(unit @ unit)

    def weight(times: float) -> Array:
        found: Array = times * seen - 0.5 * times**2 * size
        return found

    if rows.in_pairs:
        two = weight(2.0)
        each = np.logaddexp(two[:, ::2], two[:, 1::2]) - np.log(2)
    elif rows.weights == "poisson":
        logs = np.log(np.array(POISSON.counts) / sum(POISSON.counts))
        each = np.asarray(special.logsumexp(np.stack([weight(k) + one for k, one in enumerate(logs)]), axis=0))
    else:
        each = np.logaddexp(0.0, weight(2.0)) - np.log(2)
    found: Array = each.sum(axis=1)
    return found


def resampled_amount(change: list[int], priced: PricedStage) -> float:
    """Squared mu of sums whose weights come in pairs: squares of a unit's weights add up to twice the replicates."""
    rows = priced.rows
    one = losses(np.array([[*change] + [0] * (len(priced.names) - len(change))], dtype=np.float64), priced)
    return float(one[0]) * 2 * int(rows.replicates)
