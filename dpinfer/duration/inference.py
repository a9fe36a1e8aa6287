"""Survival from noisy life tables: counts of events and of censored rows by interval.

Of interval j let ``x_j`` be the noisy number of events, ``Y_j`` that of rows at risk (all counts from j on, optionally
minus half of those censored in j), and h the hazards. At the true hazards,

    T = sum_{j <= k} a_j (h_j Y_j - x_j),    a_j = 1 / (Y_j (1 - h_j)),

has mean 0 for any fixed weights, since T is linear in the counts, and approximates the error of ``log S(t_k)``. Its
variance is Greenwood's, ``sum h_j / (Y_j (1 - h_j))``, and the noise variance of a count times the sum of its squared
coefficients over all cells. So ``S(t_k) = s`` is tested by ``T^2`` over its variance, both at the hazards that give s
and are otherwise nearest to the fitted ones, weighted by their variances. In this score test the first interval is
Wilson's if there is neither censoring nor noise, and reaches 0 or 1 where noise hides the number at risk, as Fieller's
does. Sums of survival, such as restricted means, have the same test with ``a_j`` times their sum of S from ``t_j`` on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import isotonic_regression

from dpinfer.statistics.nulls import Candidate

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.statistics.arrays import Array, Mask
    from dpinfer.statistics.noise import CountNoise


METHODS = ("auto", "score", "log-log")

CENSORING = {"end": 0.0, "middle": 0.5}
"""Share of their interval for which censored rows are not at risk."""

CLEAR = 3.0
"""Standard deviations of noise that a number at risk has to reach; estimates end at the first that does not."""

_HIDDEN = 2.0
"""The same of the rows of a group, or of those at risk in all groups, that a test compares."""

_LEAST_ROWS = 0.5
_CERTAIN = 1 - 1e-12
"""Largest hazard: that of an interval that nobody survives."""

_ROUNDS = 40


def fitted_survival(counts: Array, at_risk: Array, clear: Mask) -> Array:
    """Product-limit estimates (N, K), nonincreasing and within [0, 1]; carried forward where noise hides them.

    They are the isotonic regression of the product of ``1 - count / at_risk``: negative noisy counts offset their
    neighbours, whereas counts truncated at zero would cause a bias.
    """
    hazards = np.where(clear, counts / np.where(clear, at_risk, 1.0), 0.0)
    raw = np.cumprod(1 - np.minimum(hazards, _CERTAIN), axis=-1)
    rising = (np.diff(raw, axis=-1) > 0).any(axis=-1)
    for row in np.flatnonzero(rising):
        raw[row] = isotonic_regression(raw[row], increasing=False).x
    return np.asarray(np.clip(raw, 1 - _CERTAIN, 1.0))


def hazards_of(survival: Array) -> Array:
    """Hazards (N, K) of survival functions, at most `_CERTAIN`."""
    before = np.concatenate([np.ones((len(survival), 1)), survival[:, :-1]], axis=1)
    return np.asarray(np.clip(1 - survival / before, 0.0, _CERTAIN))


@dataclass(frozen=True, eq=False)
class LifeTables:
    """Noisy life tables of N groups or releases over K intervals.

    Attributes
    ----------
    events, censored : ndarray (N, K)
    beyond : ndarray (N,)
        Rows that were followed beyond the last interval.
    tail : int
        Number of released counts behind ``beyond``: 2, or 0 if the intervals reach the upper bound.
    variance : float
        Of the noise of a count.
    dependence : int
        Sampling variances are multiplied by it: rows of one person may depend on each other.
    lost : float
        Share of their interval for which censored rows are not at risk: 0 for Kaplan-Meier, 1/2 for actuarial tables.
    """

    events: Array
    censored: Array
    beyond: Array
    tail: int
    variance: float
    dependence: int = 1
    lost: float = 0.0

    @classmethod
    def of(
        cls, counts: Array, intervals: int, variance: float, *, dependence: int = 1, lost: float = 0.0
    ) -> LifeTables:
        """Read counts (N, K or K + 1, 2): censored first, then events; an additional last row has the rows beyond."""
        within, tail = counts[:, :intervals], counts[:, intervals:]
        beyond = tail.sum(axis=(1, 2))
        return cls(within[..., 1], within[..., 0], beyond, tail[0].size, variance, dependence, lost)

    @cached_property
    def at_risk(self) -> Array:
        """Number at risk in each interval (N, K)."""
        return np.asarray(_from_last(self.events + self.censored) + self.beyond[:, None])

    @cached_property
    def risk_error(self) -> Array:
        """Standard deviation of the noise of each number at risk (K,)."""
        return np.asarray(np.sqrt(self.variance * (2.0 * np.arange(self.events.shape[1], 0, -1) + self.tail)))

    @cached_property
    def clear(self) -> Mask:
        """Whether numbers at risk are clear of their noise, up to each interval (N, K)."""
        least = np.maximum(CLEAR * self.risk_error, _LEAST_ROWS)
        return np.logical_and.accumulate(self.at_risk >= least, axis=1)

    @cached_property
    def survival(self) -> Array:
        """Kaplan-Meier estimates (N, K)."""
        return fitted_survival(self.events, self._exposed, self.clear)

    @cached_property
    def hazards(self) -> Array:
        """Hazards of the estimates (N, K)."""
        return hazards_of(self.survival)

    @cached_property
    def _exposed(self) -> Array:
        """Number at risk minus the loss from censoring (N, K); 1 where noise hides it."""
        return np.where(self.clear, np.maximum(self.at_risk - self.lost * self.censored, 0.5 * self.at_risk), 1.0)

    def covariance(self, *, hazard: bool = False) -> tuple[Array, Array]:
        """Covariance (N, K, K) of log S or the cumulative hazard, from sampling and noise, by the delta method."""
        slope = 1 / (self._exposed * (1.0 if hazard else 1 - self.hazards))
        each = slope[:, None] * np.tri(slope.shape[1])  # (N, k, j)
        moved = np.cumsum(self.hazards[:, None] * each, axis=2)
        left = moved - self.lost * self.hazards[:, None] * each
        cells = np.concatenate([moved - each, left, np.repeat(moved[..., -1:], self.tail, axis=2)], axis=2)
        greenwood = np.cumsum(self.hazards * (1 - self.hazards) * self._exposed * slope**2, axis=1)
        first = np.minimum.outer(np.arange(slope.shape[1]), np.arange(slope.shape[1]))
        return self.dependence * greenwood[:, first], self.variance * cells @ cells.transpose(0, 2, 1)

    # Intervals

    def ends(self, z: Array | float, *, hazard: bool = False, method: str = "score") -> Array:
        """Intervals (N, K, 2) of ``z`` (N, or one) standard deviations for S, or for the cumulative hazard.

        Where noise hides the number at risk, survival may be anything from 0 to the last known upper endpoint.
        """
        found = self.scored(z, np.eye(self.events.shape[1]), hazard=hazard)
        if method == "log-log" and not hazard:
            spread = np.sqrt(sum(np.einsum("nkk->nk", one) for one in self.covariance()))
            with np.errstate(all="ignore"):
                power = np.exp(np.reshape(z, (-1, 1)) * spread / -np.log(self.survival))
                ends = np.stack([self.survival**power, self.survival ** (1 / power)], axis=2)
            inner = (self.survival < 1) & (self.survival > 2 * (1 - _CERTAIN))
            found = np.where(inner[..., None], ends, found)
        last = self.clear.sum(axis=1) - 1
        known = found[np.arange(len(last)), np.maximum(last, 0)]
        lower, upper = (known[:, 0], np.inf) if hazard else (0.0, known[:, 1])
        none = last < 0
        lower, upper = np.where(none, 0.0, lower), np.where(none, np.inf if hazard else 1.0, upper)
        return np.where(self.clear[..., None], found, np.stack([lower, upper], axis=1)[:, None])

    def scored(self, z: Array | float, weights: Array, *, hazard: bool = False) -> Array:
        """Invert the score test (N, Q, 2) of sums of survival, or of cumulative hazards.

        Parameters
        ----------
        z : float or ndarray (N,)
            Standard deviations to each side.
        weights : ndarray (Q, K) or (N, Q, K)
            Nonnegative weights of survival beyond each interval; the identity gives survival itself.
        hazard : bool
            Whether to use the sum of the hazards up to the last interval with a weight instead.
        """
        exposed, base = self._exposed[:, None], self.hazards[:, None]
        at_risk = (self.at_risk - self.lost * self.censored)[:, None]
        used = _from_last(weights) > 0
        smallest = 0.5 / exposed.sum(axis=2, keepdims=True)  # half an event in all: where there is none, too
        reach = (base * (1 - base) + smallest) / exposed + self.variance / exposed**2
        reach = reach + (base * self.risk_error / exposed) ** 2
        if not hazard:
            pull = _from_last(weights * self.survival[:, None])
            reach = reach * pull / np.maximum(pull.max(axis=2, keepdims=True), 1e-300)
        reach = np.where(used, np.maximum(reach, 1e-300), 1.0)

        def hazards(step: Array) -> Array:
            return np.where(used, np.clip(base + step[..., None] * reach, 0.0, _CERTAIN), 0.0)

        def value(moved: Array) -> Array:
            return np.asarray((moved if hazard else weights * np.cumprod(1 - moved, axis=2)).sum(axis=2))

        def tested(step: Array) -> tuple[Array, Array]:
            moved = hazards(step)
            pulled = used if hazard else _from_last(weights * np.cumprod(1 - moved, axis=2)) / (1 - moved)
            slope = pulled / exposed
            score = (slope * (moved * at_risk - self.events[:, None])).sum(axis=2)
            sampling = (moved * (1 - moved) * exposed * slope**2).sum(axis=2)
            added = np.cumsum(moved * slope, axis=2)
            noise = ((added - slope) ** 2 + (added - self.lost * moved * slope) ** 2).sum(axis=2)
            noise += self.tail * added[..., -1] ** 2
            limit = np.reshape(z, (-1, 1)) ** 2 * (self.dependence * sampling + self.variance * noise)
            return score, score**2 - limit

        low = -np.where(used, base / reach, 0.0).max(axis=2)
        high = np.where(used, (_CERTAIN - base) / reach, np.inf).min(axis=2, initial=1e300)
        middle = _first(lambda step: tested(step)[0] >= 0, low, high)
        most = _first(lambda step: tested(step)[1] > 0, middle, high)
        least = _first(lambda step: tested(step)[1] <= 0, low, middle)
        most = np.where(tested(high)[1] <= 0, high, most)
        least = np.where(tested(low)[1] <= 0, low, least)
        ends = [np.where(most < high, value(hazards(most)), np.inf if hazard else 0.0), value(hazards(least))]
        return np.stack(ends[::-1] if hazard else ends, axis=2)


def _from_last(weights: Array) -> Array:
    """Cumulate from the last (..., K)."""
    return np.asarray(weights[..., ::-1].cumsum(axis=-1)[..., ::-1])


def _first(reached: Callable[[Array], Mask], low: Array, high: Array) -> Array:
    """First point at which a condition that holds at ``high`` holds, by bisection; ``high`` if there is none before."""
    start, end = np.arcsinh(low), np.arcsinh(high)  # steps may be large, and are then known to a share of their size
    for _ in range(_ROUNDS):
        middle = 0.5 * (start + end)
        held = reached(np.sinh(middle))
        start, end = np.where(held, start, middle), np.where(held, middle, end)
    return np.where(end == np.arcsinh(high), high, np.sinh(end))


# Tests


@dataclass(frozen=True, eq=False)
class LogRank:
    """Equal hazards in G groups, tested with Fleming and Harrington's weights; implements `NullModel`.

    The null distribution has pooled hazards h and the censoring of each group: counts are drawn from it with noise, and
    each draw is refitted. Of a row at risk at the start of an interval let l be the hazard of censoring. With events
    and censorings spread evenly over the interval, the share ``lost`` of it at which a row leaves determines what is
    observed: an event with probability ``h (1 - lost l)``, a censoring with ``l (1 - (1 - lost) h)``. So the rows that
    expect ``h`` events each are those at risk less ``lost / (1 - (1 - lost) h)`` of those censored, whatever l is.

    Attributes
    ----------
    noise : CountNoise
    groups, intervals : int
    rho, gamma : float
        Weights are ``S^rho (1 - S)^gamma``, S the pooled survival before each interval.
    lost : float
        As in `LifeTables`.
    judged : bool
        Whether releases in which noise hides the rows of a group have no statistic.
    """

    noise: CountNoise
    groups: int
    intervals: int
    rho: float = 0.0
    gamma: float = 0.0
    lost: float = 0.0
    judged: bool = True

    def _tables(self, values: Array) -> tuple[Array, LifeTables, LifeTables]:
        """Return the counts (R, G, J, 2) of releases (R, m), tables of groups (R G), and those of all together (R)."""
        counts = values.reshape(len(values), self.groups, -1, 2)
        variance, size = self.noise.variance, self.intervals
        pooled = LifeTables.of(counts.sum(axis=1), size, self.groups * variance, lost=self.lost)
        return counts, LifeTables.of(counts.reshape(-1, *counts.shape[2:]), size, variance), pooled

    def _exposed(self, pooled: LifeTables) -> tuple[Array, Array, Array]:
        """Return pooled hazards, the rows that expect them, and the share of a censored row that is lost (R, K)."""
        least = np.maximum(pooled.at_risk, np.maximum(_HIDDEN * pooled.risk_error, 1.0))
        share = np.full_like(least, self.lost)
        for _ in range(4):  # hazards and shares that agree
            rows = np.maximum(least - share * pooled.censored, 0.5 * least)
            hazards = np.clip(pooled.events / rows, 0.0, 1.0)
            share = self.lost / np.maximum(1 - (1 - self.lost) * hazards, 1 - _CERTAIN)
        return hazards, rows, share

    def hidden(self, values: Array) -> Mask:
        """Whether noise hides the rows of a group, in releases (R, m), by group (R, G)."""
        each = values.reshape(len(values), self.groups, -1)
        return np.asarray(each.sum(axis=2) < _HIDDEN * np.sqrt(self.noise.variance * each.shape[2]))

    def candidates(self, values: Array) -> list[Candidate]:
        """Fits to releases (R, m), those that are not tested apart; see `SeveralFits`."""
        hidden, tested = self.hidden(values).any(axis=1), replace(self, judged=False)
        parts = ((self, np.flatnonzero(hidden)), (tested, np.flatnonzero(~hidden)))
        return [Candidate(model, where, self.fit(values[where])) for model, where in parts if where.size]

    def compared(self, values: Array) -> tuple[Array, Array, Array]:
        """Weighted events observed and expected (R, G), and the covariance (R, G, G) of their difference."""
        _, each, pooled = self._tables(values)
        hazards, rows, share = self._exposed(pooled)
        of_groups = (each.events, each.censored, each.at_risk)
        events, censored, at_risk = (one.reshape(len(values), self.groups, -1) for one in of_groups)
        exposed = at_risk - share[:, None] * censored
        weighed = pooled.at_risk >= np.maximum(_HIDDEN * pooled.risk_error, 1.0)
        before = np.concatenate([np.ones((len(values), 1)), np.cumprod(1 - hazards, axis=1)[:, :-1]], axis=1)
        weights = (weighed * before**self.rho * (1 - before) ** self.gamma)[:, None]
        shares = np.maximum(exposed, 0.0)
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), _LEAST_ROWS)
        left = events - hazards[:, None] * exposed
        away = (weights * (left - shares * left.sum(axis=1, keepdims=True))).sum(axis=2)
        spread = (hazards * (1 - hazards) * rows**2 / np.maximum(rows - 1, _LEAST_ROWS))[:, None] * weights**2
        apart = np.eye(self.groups)[None, :, :, None] - shares[:, :, None]  # (R, g, of g'', j)
        sampling = np.einsum("rgj,rhgj->rgh", spread * shares, apart)
        slope = weights[:, None] * apart
        moved = slope * hazards[:, None, None]
        added = np.cumsum(moved, axis=3)
        lost = added - share[:, None, None] * moved
        cells = np.concatenate([slope - added, lost, np.repeat(added[..., -1:], pooled.tail, axis=3)], axis=3)
        covariance = sampling + self.noise.variance * np.einsum("rghc,rihc->rgi", cells, cells)
        observed = (weights * events).sum(axis=2)
        return observed, observed - away, covariance

    def shifted(self, values: Array) -> Array:
        """Return the sensitivity of the test to the times of censoring within intervals (R,).

        The largest change of a group's difference, in its standard errors, as censored rows leave half-way and not at
        the end, or, where they leave within, a tenth of the interval earlier or later.
        """
        observed, expected, covariance = self.compared(values)
        others = (self.lost - 0.1, self.lost + 0.1) if self.lost else (0.5,)
        moved = [np.subtract(*replace(self, lost=one).compared(values)[:2]) for one in others]
        away = np.max([np.abs(one - (observed - expected)) for one in moved], axis=0)
        spread = np.sqrt(np.einsum("rgg->rg", covariance))
        return np.asarray((away / np.maximum(spread, 1e-300)).max(axis=1))

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`; NaN where noise hides the rows of a group."""
        flat = values.reshape(-1, values.shape[-1])
        observed, expected, covariance = self.compared(flat)
        away, inner = (observed - expected)[:, :-1], covariance[:, :-1, :-1] + 1e-12 * np.eye(self.groups - 1)
        found = (away * np.linalg.solve(inner, away[..., None])[..., 0]).sum(axis=1)
        lost = self.hidden(flat).any(axis=1) & self.judged
        return np.where(lost, np.nan, found).reshape(values.shape[:-1])

    def fit(self, values: Array) -> tuple[Array, Array]:
        """Numbers of rows (R, G), and the null probability of each cell in each group (R, G, J, 2)."""
        counts, each, pooled = self._tables(values)
        hazards = np.repeat(pooled.hazards, self.groups, axis=0)
        left = each.at_risk - (1 - self.lost) * each.events
        leaving = hazards_of(fitted_survival(each.censored, left, each.clear & (left >= _LEAST_ROWS)))
        staying = np.cumprod((1 - hazards) * (1 - leaving), axis=1)
        before = np.concatenate([np.ones((len(staying), 1)), staying[:, :-1]], axis=1)
        events = before * hazards * (1 - self.lost * leaving)
        cells = np.stack([before * (1 - (1 - self.lost) * hazards) * leaving, events], axis=2)
        if each.tail:
            cells = np.concatenate([cells, np.stack([staying[:, -1], np.zeros(len(cells))], axis=1)[:, None]], axis=1)
        else:
            cells[:, -1, 0] += staying[:, -1]
        return counts.sum(axis=(2, 3)), cells.reshape(counts.shape)

    def draw(self, fitted: tuple[Array, Array], size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        rows, cells = np.maximum(np.rint(fitted[0]), 1.0).astype(np.int64), fitted[1]
        flat = cells.reshape(*rows.shape, -1)
        shares = (flat / flat.sum(axis=2, keepdims=True))[:, None]
        counts = rng.multinomial(rows[:, None], shares, size=(len(rows), size, self.groups))
        counts = counts.reshape(len(rows), size, -1)
        return np.asarray(counts + self.noise.rvs(counts.shape, rng))
