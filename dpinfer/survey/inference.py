"""Taylor linearization for stratified cluster samples, from noisy totals of primary sampling units.

Let ``s_u`` hold the noisy sums of unit u. Every estimate solves ``sum_u a's_u = 0`` with ``a`` linear in the estimate:
``z_u = a's_u`` is its linearized total in unit u, and ``h_u``, with sum 1, is the decrease of z_u per unit of the
tested value. So ``d = value - estimate`` is tested by ``d^2`` over the variance of ``sum_u (z_u - d h_u)``, which is
that between units within strata. It already includes the noise, once for each unit whose stratum has no finite
population correction; the rest is added, and noise alone gives a lower bound. The values that are not rejected form
Fieller's interval, with the larger of both variances.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpinfer.statistics.inference import Contrasts, Inference, single, variance_of, wald_lengths
from dpinfer.statistics.moments import positive

if TYPE_CHECKING:
    from dpinfer.statistics.arrays import Array, Mask, Places

METHODS = ("auto", "score", "wald")

CLEAR = 2.0
"""Standard deviations of its noise that a denominator has to reach, or the least eigenvalue of a regression."""

_APART = 1e-9
_HALF = 0.5
"""Noise share of the variance from which a sampling variance is indistinguishable from noise."""


@dataclass(frozen=True, eq=False)
class Units:
    """Public structure of a sample: the stratum of each unit, and the unsampled share of its stratum.

    Attributes
    ----------
    stratum : ndarray of int (U,)
    unsampled : ndarray (U,)
        One minus the sampling fraction of the unit's stratum: 1 without finite population correction, 0 for certainty
        units.
    """

    stratum: Places
    unsampled: Array

    @cached_property
    def size(self) -> Array:
        """Number of units in each stratum (H,)."""
        return np.bincount(self.stratum).astype(np.float64)

    @property
    def df(self) -> int:
        """Degrees of freedom: units minus strata, counting only strata that were not fully sampled if there are any.

        Units of a fully sampled stratum carry no information on the sampling error of the others.
        """
        spare, sampled = self.size - 1, np.bincount(self.stratum, self.unsampled) > 0
        return int(spare[sampled].sum() or spare.sum())

    @property
    def varying(self) -> float:
        """Multiple of a unit's noise variance within the variance between units."""
        return float(self.unsampled.sum())

    def covariance(self, sums: Array) -> Array:
        """Covariance (R, K, K) of totals over units from their sums (R, U, K), including the noise of these.

        A unit that is alone in its stratum is compared with the mean of all units.
        """
        members = (np.arange(len(self.size))[:, None] == self.stratum).astype(np.float64)
        mean = (members @ sums) / self.size[:, None]
        alone, count = self.size == 1, float(len(self.stratum))
        mean = np.where(alone[:, None], sums.mean(axis=1, keepdims=True), mean)
        growth = np.where(alone, count / max(count - 1, 1.0), self.size / np.maximum(self.size - 1, 1.0))
        away = (sums - mean[:, self.stratum]) * np.sqrt(self.unsampled * growth[self.stratum])[:, None]
        return np.asarray(away.transpose(0, 2, 1) @ away)


@dataclass(frozen=True, eq=False)
class Linearized:
    """Estimates of R releases, with the coefficients of linearized totals in the K sums of a unit.

    Attributes
    ----------
    value : ndarray (R, p)
    slope, fall : ndarray (R, p, K)
        ``z_u = slope s_u`` and ``h_u = fall s_u``; ``fall`` is zero for totals.
    hidden : ndarray of bool (R, p)
        Whether noise hides the denominator of the estimate.
    lower, upper : ndarray (p,)
        Range of possible values.
    """

    value: Array
    slope: Array
    fall: Array
    hidden: Mask
    lower: Array
    upper: Array


def ratios(total: Array, error: Array, top: Array, bottom: Array | None, lower: Array, upper: Array) -> Linearized:
    """Estimate ``top s / bottom s`` of totals s (R, K), or ``top s``.

    Parameters
    ----------
    total : ndarray (R, K)
    error : ndarray (K,)
        Standard deviations of their noise.
    top, bottom : ndarray (p, K)
    lower, upper : ndarray (p,)
    """
    numerator = total @ top.T
    if bottom is None:
        shape = (*numerator.shape, top.shape[1])
        hidden = np.zeros(numerator.shape, dtype=bool)
        return Linearized(numerator, np.broadcast_to(top, shape), np.zeros(shape), hidden, lower, upper)
    raw, blur = total @ bottom.T, np.sqrt(bottom**2 @ error**2)
    size = np.copysign(np.maximum(np.abs(raw), np.maximum(blur, 1e-300)), raw)
    value = numerator / size
    slope = (top - value[..., None] * bottom) / size[..., None]
    return Linearized(value, slope, bottom / size[..., None], np.abs(raw) < CLEAR * blur, lower, upper)


def least_squares(
    total: Array, error: Array, products: Array, response: Array, back: Array, shift: Array
) -> Linearized:
    """Solve weighted normal equations ``M b = c`` of totals (R, K), on scaled and centred regressors.

    Parameters
    ----------
    total : ndarray (R, K)
    error : ndarray (K,)
        Standard deviations of their noise.
    products : ndarray (p, p, K)
        M is ``products s``.
    response : ndarray (p, K)
        c is ``response s``.
    back : ndarray (p, p)
        Coefficients of the regressors' own units are ``shift + back b``.
    shift : ndarray (p,)
    """
    count = len(back)
    roots, vectors = np.linalg.eigh(np.einsum("ijk,rk->rij", products, total))
    level = max(np.sqrt(float(((products * error) ** 2).sum()) / count), 1e-300)  # of the noise's eigenvalues
    solved = (vectors / np.maximum(roots, level)[:, None]) @ vectors.transpose(0, 2, 1)
    scaled = (solved @ (total @ response.T)[..., None])[..., 0]
    moments = response - np.einsum("ijk,rj->rik", products, scaled)
    moved = back @ solved  # (R, p, p)
    fall = np.einsum("rji,ilk,rjl->rjk", moved, products, moved) / np.einsum("rji,ji->rj", moved, back)[..., None]
    hidden = np.broadcast_to(roots[:, :1] < CLEAR * level, scaled.shape)
    ends = np.full(count, np.inf)
    return Linearized(shift + scaled @ back.T, moved @ moments, fall, hidden, -ends, ends)


@dataclass(frozen=True, eq=False)
class SurveyInference(Inference):
    """Estimates of a survey: sampling by units within strata, and noise.

    Attributes
    ----------
    found : Linearized
    units : Units
    sums : ndarray (R, U, K)
        Released sums of every unit.
    noise : ndarray (K,)
        Noise variance of each sum of one unit.
    used : int
        Degrees of freedom used by estimates: regressors other than the constant.
    """

    found: Linearized
    units: Units
    sums: Array
    noise: Array
    used: int = 0

    methods = METHODS

    @property
    def df_resid(self) -> float:
        """Degrees of freedom of the design minus regressors."""
        return float(self.units.df - self.used)

    @cached_property
    def _between(self) -> Array:
        """Covariance (R, K, K) of the sums' totals, including all noise once."""
        spare = (self.sums.shape[1] - self.units.varying) * self.noise
        return np.asarray(self.units.covariance(self.sums) + np.diag(spare))

    @property
    def _noisy(self) -> Array:
        """Noise variances (K,) of the totals."""
        return np.asarray(self.sums.shape[1] * self.noise)

    @cached_property
    def _parts(self) -> tuple[Array, Array]:
        """Variances of z, covariances of z and h, and variances of h (3, R, p): of both, and of noise alone."""
        slope, fall = self.found.slope, self.found.fall * (self.method != "wald")
        pairs = ((slope, slope), (slope, fall), (fall, fall))
        both = np.stack([((one @ self._between) * other).sum(axis=-1) for one, other in pairs])
        return both, np.stack([(one * other) @ self._noisy for one, other in pairs])

    @cached_property
    def _noise(self) -> Array:
        """Covariance (R, p, p) from noise; shares that add up to 1 are kept nonsingular by a billionth."""
        found = (self.found.slope * self._noisy) @ self.found.slope.transpose(0, 2, 1)
        return np.asarray(found * (1 + _APART * np.eye(found.shape[1])))

    @cached_property
    def _sampling(self) -> Array:
        """Covariance (R, p, p) from sampling: between units, less the noise."""
        slope = self.found.slope
        found = positive(slope @ self._between @ slope.transpose(0, 2, 1) - self._noise)
        return np.asarray(found * (1 + _APART * np.eye(found.shape[1])))

    @property
    def params(self) -> Array:
        """Point estimates (p,); NaN where noise hides the denominator, except in regressions."""
        return np.where(self._missing, np.nan, self._values[0])

    @property
    def _missing(self) -> Mask:
        return np.asarray(self.found.hidden[0] & (self.used == 0))

    @property
    def _values(self) -> Array:
        return np.clip(self.found.value, self.found.lower, self.found.upper)

    def _shown(self, covariance: Array) -> Array:
        return np.where(self._missing[:, None] | self._missing, np.nan, covariance)

    @property
    def cov_sampling(self) -> Array:
        """Covariance from sampling (p, p)."""
        return self._shown(self._sampling[0])

    @property
    def cov_noise(self) -> Array:
        """Covariance from privacy noise (p, p)."""
        return self._shown(self._noise[0])

    @cached_property
    def _unbounded(self) -> Mask:
        """Whether nothing is rejected at level .05 (R, p)."""
        return np.asarray(self.found.hidden | np.isinf(self._reach(0.05)).any(axis=-1))

    @property
    def flagged(self) -> Mask:
        """Whether an estimate is not determined (R,)."""
        return np.asarray(self._unbounded.any(axis=1))

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, computed from released numbers only."""
        limit, what = float(stats.t.isf(0.025, self.df_resid)) ** 2, "cross-products" if self.used else "sum of weights"
        alone, found = self.found.hidden[0] | (limit * self._parts[1][2, 0] >= 1), []
        for mine, why in ((alone, "noise hides"), (~alone, "differences between units, and noise, hide")):
            lost = [name for name, one in zip(self.names, self._unbounded[0] & mine, strict=True) if one]
            listed = "; ".join(lost[:5]) + (", ..." if len(lost) > 5 else "")
            found += [f"not determined: {listed}: {why} the {what} that it is divided by"] if lost else []
        return (*found, *self.notes)

    def _reach(self, alpha: float) -> Array:
        """Return ends (R, p, 2) as distances from the estimates; infinite where no value is rejected."""
        limit = float(stats.t.isf(alpha / 2, self.df_resid)) ** 2
        ends = []
        for z, both, h in self._parts:
            lead = 1 - limit * h
            root = np.sqrt(np.maximum((limit * both) ** 2 + lead * limit * z, 0.0))
            divided = np.where(lead > 0, lead, 1.0)
            far = np.stack([(-limit * both - root) / divided, (-limit * both + root) / divided], axis=-1)
            ends.append(np.where(lead[..., None] > 0, far, [-np.inf, np.inf]))
        return np.stack([np.minimum(*(one[..., 0] for one in ends)), np.maximum(*(one[..., 1] for one in ends))], -1)

    def _linear(self, rows: Array) -> Contrasts:
        """See `Inference`: the error uses the larger of both variances; infinite where a part is hidden."""
        variance = np.maximum(variance_of(rows, self._sampling + self._noise), 0.0)
        lost = (self._unbounded.astype(np.float64) @ (rows != 0).T) > 0
        own = single(rows)
        lost &= ~((own >= 0) & ~self.found.hidden[:, own])
        return Contrasts(self._values @ rows.T, np.where(lost, np.inf, np.sqrt(variance)), self.df_resid)

    def _ends(self, rows: Array, alpha: float) -> Array:
        """See `Inference`; a single estimate has the interval that inverts its own test, within possible values."""
        found, own = self._linear(rows).intervals(alpha), single(rows)
        lower, upper = self.found.lower, self.found.upper
        ends = self.found.value[..., None] + self._reach(alpha)
        ends = np.where(self.found.hidden[..., None], [-np.inf, np.inf], ends)
        ends = np.clip(ends, lower[:, None], upper[:, None])
        return np.where((own >= 0)[:, None], ends[:, own], found)

    def _tails(self, rows: Array, values: Array) -> Array:
        """See `Inference`; a single estimate is tested with the variance at the value."""
        found, own = self._linear(rows).pvalues(values), single(rows)
        away = values - self.found.value[:, own]
        tested = np.max(
            [z[:, own] - 2 * away * both[:, own] + away**2 * h[:, own] for z, both, h in self._parts], axis=0
        )
        distance = np.abs(away) / np.sqrt(np.maximum(tested, 1e-300))
        mine = np.where(self.found.hidden[:, own], 1.0, 2 * stats.t.sf(distance, self.df_resid))
        return np.where(own >= 0, mine, found)

    def _joint(self, rows: Array, values: Array) -> tuple[float, float]:
        """See `Inference`: Wald's statistic as F with the degrees of freedom of the design (Korn & Graubard 1990)."""
        left = self.df_resid - len(rows) + 1
        covariance = rows @ (self._sampling[0] + self._noise[0]) @ rows.T
        if left < 1 or self._unbounded[0, (rows != 0).any(axis=0)].any():
            return 0.0, 1.0
        statistic = float(wald_lengths(rows @ self._values[0] - values, covariance))
        return statistic, float(stats.f.sf(statistic * left / (self.df_resid * len(rows)), len(rows), left))

    @property
    def told(self) -> Mask:
        """Whether each sampling variance is distinguishable from the noise (p,)."""
        noise, both = np.diag(self._noise[0]), self._parts[0][0, 0]
        return np.asarray(noise < _HALF * both)
