"""Searches for an event that tells two neighbours apart, by numbers of the release alone: what others do.

Both train a logistic classifier on releases of two neighbours and take events of the kind "the classifier is sure".
The one in the manner of DP-Sniper (Bichsel, Steffen, Bogunovic & Vechev 2021) looks for the largest epsilon at a given
delta, at a threshold that leaves a given share of the runs, the best of some shares: with fewer runs than the paper's
ten million its hundredth alone tells little. The one in the manner of Delta-Siege (Lokna,
Paradis, Dimitrov & Vechev 2023) takes the threshold at which the parameter of the whole curve, here mu or epsilon, is
the largest. Both are written anew here, from the papers. Neighbours are fixed: a unit at the lower ends of the schema,
at the upper ends, or far beyond, or none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from dpinfer.kernel import run as kernel_run
from dpinfer.kernel.price import PricedStage
from dpinfer.kernel.rows.blocks import BlockSum
from dpinfer.kernel.sampling import PrivateDraws
from dpinfer.studies.audit_draws import chosen_event, upper_share
from dpinfer.studies.audit_pairs import ODD, AuditedRun, Setting, Units, frame_of, sums_of, worst_blocks

Array = NDArray[np.float64]


DELTA = 1e-6
SHARES = (0.01, 0.03, 0.1, 0.25, 0.5)
"""Shares of the runs that events in the manner of DP-Sniper are met in."""

ERROR = 1e-4
RIDGE = 1e-4
_AT_ONCE = 1000


@dataclass(frozen=True)
class Search:
    """Lower bounds over what is stated, the largest of all pairs; above 1 is a violation."""

    sniper: float
    siege: float


def releases(setting: Setting, run: AuditedRun, runs: int) -> list[tuple[Array, Array]]:
    """Return numbers (R, m) that the draws of all stages release on each of two neighbours, for some pairs."""
    corners = Units(setting.schema, setting.neighbors, np.random.default_rng(0)).corners()
    beyond = corners[2 + ODD.index(1e308)]
    other = None if setting.neighbors == "add_remove" else corners[0]
    pairs = [(corners[1], other), (beyond, other)] + ([(corners[0], None)] if other is None else [])
    return [tuple(_released(setting, run, unit, runs) for unit in pair) for pair in pairs]  # type: ignore[misc]


def _released(setting: Setting, run: AuditedRun, unit: Any, runs: int) -> Array:
    frame = frame_of(setting.base, unit, setting.schema)
    columns = []
    for stage in run.stages:
        if isinstance(stage.rows, BlockSum):
            worst = worst_blocks(stage, np.random.default_rng(0))
            exact = [a + b * (unit is not None) for a, b in zip(worst.exact, worst.change, strict=True)]
        else:
            exact = sums_of(stage.rows, frame, setting.schema)
        columns.append(_drawn(stage, exact, runs))
    return np.concatenate(columns, axis=1)


def _drawn(stage: PricedStage, exact: list[int], runs: int) -> Array:
    """Release a stage (R, m) so many times, some runs with one call of the sampler."""
    step = max(_AT_ONCE // len(exact), 1)
    found: list[int] = []
    for start in range(0, runs, step):
        count = min(step, runs - start)
        law = replace(stage.law, scales=stage.law.scales * count)
        found += kernel_run.noisy(replace(stage, law=law), exact * count, PrivateDraws())
    return np.array(found, dtype=np.float64).reshape(runs, len(exact))


def searched(setting: Setting, run: AuditedRun, runs: int) -> Search:
    """Search with a third of the runs for training, one for choosing and one for testing."""
    found = releases(setting, run, runs)
    level = ERROR / (4 * len(found))
    stated, kind = setting.stated.level, setting.stated.kind
    epsilon = setting.privacy.epsilon_at(DELTA)
    sniper, siege = 0.0, 0.0
    for first, second in found:
        scored = _scores(first, second)
        sniper = max(sniper, _sniper(*scored, level) / epsilon)
        siege = max(siege, _siege(*scored, kind, level) / stated)
    return Search(sniper, siege)


def _scores(first: Array, second: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Train on the first third of the runs, and score the second and the last, of either neighbour."""
    third = len(first) // 3
    both = np.concatenate([first[:third], second[:third]])
    center, spread = both.mean(axis=0), both.std(axis=0)
    spread[spread == 0] = 1.0

    def features(values: Array) -> Array:
        scaled = (values - center) / spread
        return np.concatenate([np.ones((len(values), 1)), scaled, np.abs(scaled)], axis=1)

    design, labels = features(both), np.repeat([1.0, 0.0], third)

    def loss(weights: Array) -> tuple[float, Array]:
        linear = design @ weights
        value = np.logaddexp(0.0, linear).sum() - (labels * linear).sum() + RIDGE * weights @ weights
        return float(value), design.T @ (special.expit(linear) - labels) + 2 * RIDGE * weights

    weights = optimize.minimize(loss, np.zeros(design.shape[1]), jac=True, method="L-BFGS-B").x
    parts = [slice(third, 2 * third), slice(2 * third, 3 * third)]
    chosen, tested = ((features(first[part]) @ weights, features(second[part]) @ weights) for part in parts)
    return chosen, tested


def _sniper(chosen: tuple[Array, Array], tested: tuple[Array, Array], level: float) -> float:
    """Lower bound on epsilon at `DELTA`, in either direction."""
    best = 0.0
    for sign in (1, -1):
        mine, other = (sign * one for one in chosen[::sign])
        cuts = np.quantile(np.concatenate([mine, other]), 1 - np.array(SHARES))
        cut = max(cuts, key=lambda cut: _epsilon(mine > cut, other > cut, level))
        seen, rest = (sign * one > cut for one in tested[::sign])
        best = max(best, _epsilon(seen, rest, level))
    return best


def _epsilon(met: NDArray[np.bool_], others: NDArray[np.bool_], level: float) -> float:
    """Lower bound on epsilon at `DELTA` from an event, met (R,) in runs on one neighbour and on the other."""
    count = int(met.sum())
    least = float(stats.beta.ppf(level / 2, count, len(met) - count + 1)) if count else 0.0
    most = float(upper_share(int(others.sum()), len(others), level / 2)[()])
    return float(np.log(max((least - DELTA) / most, 1e-300)))


def _siege(chosen: tuple[Array, Array], tested: tuple[Array, Array], kind: Any, level: float) -> float:
    """Lower bound on the parameter of the curve, at the threshold where it seemed the largest."""
    first, second = (np.concatenate([one, other]) for one, other in zip(chosen, tested, strict=True))
    return chosen_event(first, second, kind).lower(kind, level)
