"""Inference from noisy sums that were released many times, each under other random weights.

Given the data, a linear function of one replicate has variance ``v w + n``: v the sampling variance of the estimate,
w the variance of a weight, n the known noise. What replicates differ by estimates that sum, and n is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpinfer.display.progress import watch
from dpinfer.inference.base import BaseInference
from dpinfer.inference.contrasts import rows_of, simulated_pvalue, variance_of
from dpinfer.inference.moments import positive, rescaled
from dpinfer.inference.restrictions import independent
from dpinfer.numerics.forms import root_of
from dpinfer.numerics.mixture import PROBABILITIES, floored_variances, mixture_isf, mixture_sf

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.numerics.arrays import Array, Mask

    Statistic = Callable[[Array], Array]

__all__ = ["METHODS", "BootstrapInference", "ReplicateSums", "Variances"]

METHODS = ("auto", "fiducial", "unbiased", "conservative", "most_conservative")
"""The library's interval, and the three of Brawner & Honaker (2018)."""

_STEPS = 1e-8, 1e-5
"""Least and largest step of numerical derivatives, as a share of the rows; between them a tenth of the error."""

_STEEPEST = 1e100
"""Derivatives from here on are those of a function that is not defined where the sums are."""

_BENT = 0.25
"""Second-order term of an estimate, in standard errors, from which the reader is told."""

_SWAMPED = 0.05
"""Probability that replicates without any sampling error differ as much, from which the reader is told."""

_DRAWS, _AT_ONCE = 9_999, 500
"""Draws behind a joint p-value, and how many of them are worked on at once."""


@dataclass(frozen=True, eq=False)
class ReplicateSums:
    """Noisy sums of B replicates.

    Attributes
    ----------
    values : ndarray (B, d)
        In any units; of each replicate the number of rows first.
    noise : ndarray (d, d)
        Covariance of the noise of one replicate.
    weight_variance : float
        Variance of a weight; its mean is 1.
    paired : bool
        Whether replicates come in pairs, each row counting twice in one of the two.
    """

    values: Array
    noise: Array
    weight_variance: float = 1.0
    paired: bool = False

    @property
    def replicates(self) -> int:
        """Number B."""
        return len(self.values)

    @property
    def df(self) -> float:
        """Degrees of freedom of `covariance`."""
        return float(self.replicates // 2 if self.paired else self.replicates - 1)

    @cached_property
    def mean(self) -> Array:
        """Mean over replicates (d,)."""
        return np.asarray(self.values.mean(axis=0))

    @cached_property
    def covariance(self) -> Array:
        """What replicates differ by (d, d); of pairs, half their differences."""
        if self.paired:
            half = 0.5 * (self.values[0::2] - self.values[1::2])
            return np.asarray(half.T @ half / len(half))
        centred = self.values - self.mean
        return np.asarray(centred.T @ centred / (self.replicates - 1))

    @property
    def floor(self) -> Array:
        """The part of `covariance` that is noise (d, d)."""
        return self.noise / 2 if self.paired else self.noise

    @property
    def noise_of_mean(self) -> Array:
        """Covariance of the noise in `mean` (d, d)."""
        return self.noise / self.replicates

    @property
    def covariance_of_mean(self) -> Array:
        """Covariance of `mean` given the data (d, d), estimated."""
        return self.noise_of_mean if self.paired else self.covariance / self.replicates


@dataclass(frozen=True, eq=False)
class Variances:
    """What is known of the variances of k linear functions of the sums.

    Attributes
    ----------
    observed, floor : ndarray (k,)
        Variance between replicates (or of half-differences of pairs), and its known noise.
    noise : ndarray (k,)
        Variance of the noise in the mean over replicates.
    sums : ReplicateSums
    population : bool
        Whether the sampling variance counts.
    """

    observed: Array
    floor: Array
    noise: Array
    sums: ReplicateSums
    population: bool

    def at(self, probabilities: Array) -> tuple[Array, Array]:
        """Quantiles of the sampling variance, and of the variance of the estimate, each (k, m)."""
        total = floored_variances(self.observed, self.sums.df, self.floor, probabilities)
        sampling = (total - self.floor[:, None]) / self.sums.weight_variance
        given = np.broadcast_to(self.noise[:, None], total.shape) if self.sums.paired else total / self.sums.replicates
        return sampling, np.maximum((sampling if self.population else 0.0) + given, 1e-300)

    @property
    def medians(self) -> tuple[Array, Array]:
        """Medians of both, each (k,)."""
        sampling, total = self.at(np.array([0.5]))
        return sampling[:, 0], total[:, 0]

    def corrected(self, share: float) -> Array:
        """Variance of the estimate (k,) with so much of the expected noise taken off: the three of the source."""
        sampling = np.maximum(self.observed - share * self.floor, 0.0) / self.sums.weight_variance
        return np.maximum((sampling if self.population else 0.0) + self.noise, 1e-300)

    @property
    def swamped(self) -> Mask:
        """Whether noise alone could make replicates differ as much."""
        with np.errstate(divide="ignore"):
            ratio = self.sums.df * self.observed / np.maximum(self.floor, 1e-300)
        return np.asarray((stats.chi2.sf(ratio, self.sums.df) > _SWAMPED) & (self.observed > 0))


@dataclass(frozen=True, eq=False)
class BootstrapInference(BaseInference):
    """Smooth functions of sums, with errors from replicates; implements `Inference`.

    Attributes
    ----------
    names : tuple of str, length p
    sums : ReplicateSums
    statistic : callable
        Maps sums (R, d) to estimates (R, p).
    nobs : float or None
    nobs_is_public : bool
    target : str
    method : str
    conservative : float
        Probability that the conservative interval takes off too much.
    unstable : tuple of str
        Why no interval can be given, where that is known from elsewhere; see `reasons`.

    Notes
    -----
    The estimate is the function of the mean sums, less what the curvature of the function makes of their noise. Its
    linearisation carries the sums of every replicate to estimates.
    """

    names: tuple[str, ...]
    sums: ReplicateSums
    statistic: Statistic
    nobs: float | None = None
    nobs_is_public: bool = False
    target: str = "population"
    method: str = "auto"
    conservative: float = 0.05
    unstable: tuple[str, ...] = ()

    methods = METHODS
    automatic = "auto"

    @property
    def df_resid(self) -> float:
        """Degrees of freedom of the variance between replicates."""
        return self.sums.df

    @cached_property
    def _plain(self) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(self.statistic(self.sums.mean[None])[0])

    @cached_property
    def gradient(self) -> Array:
        """Derivatives of the estimates (p, d)."""
        return np.where(np.abs(self._derivatives) < _STEEPEST, self._derivatives, 0.0)

    @cached_property
    def _derivatives(self) -> Array:
        rows = max(abs(float(self.sums.mean[0])), 1.0)
        error = np.sqrt(np.diag(self.sums.covariance_of_mean))
        steps = np.clip(np.where(error > 0, 0.1 * error, _STEPS[1] * rows), _STEPS[0] * rows, _STEPS[1] * rows)
        moved = np.diag(steps)
        with np.errstate(all="ignore"):
            ahead, behind = self.statistic(self.sums.mean + moved), self.statistic(self.sums.mean - moved)
            return np.asarray((ahead - behind).T / (2 * steps))

    @cached_property
    def curvature(self) -> Array:
        """What noise and random weights of the mean sums add to the estimates by their curvature (p,).

        NaN where the statistic is undefined within a standard error.
        """
        moved = root_of(self.sums.covariance_of_mean).T
        with np.errstate(all="ignore"):
            around = self.statistic(self.sums.mean + moved) + self.statistic(self.sums.mean - moved)
            found = 0.5 * (around - 2 * self._plain).sum(axis=0)
        return np.where(np.isfinite(found), found, np.nan)

    @cached_property
    def params(self) -> Array:
        """Point estimates (p,)."""
        corrected = np.where(self._bent <= 1, self._plain - np.nan_to_num(self.curvature), self._plain)
        return np.nan_to_num(corrected, nan=0.0, posinf=0.0, neginf=0.0)

    @cached_property
    def _bent(self) -> Array:
        """Curvature in standard errors (p,); infinite where it is undefined."""
        error = np.sqrt(self._middle[1])
        return np.where(np.isfinite(self.curvature), np.abs(self.curvature) / error, np.inf)

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """Why no interval is given; empty where one is."""
        if self.unstable:
            return self.unstable
        steep = ~(np.abs(self._derivatives) < _STEEPEST)  # NaN included
        if not np.isfinite(self._plain).all() or steep.any():
            return ("the noisy sums give no finite estimate",)
        lost = self._bent > 1
        if lost.any():
            return (f"noise bends the estimate of {self._listed(lost)} by more than its standard error",)
        return ()

    @cached_property
    def replicated(self) -> Array:
        """Linearised estimates of every replicate (B, p)."""
        return np.asarray(self.params + (self.sums.values - self.sums.mean) @ self.gradient.T)

    def _variances(self, rows: Array) -> Variances:
        """Say what is known of linear functions of the sums, ``rows`` (k, d)."""
        parts = [self.sums.covariance, self.sums.floor, self.sums.noise_of_mean]
        found = [np.maximum(variance_of(rows, part), 0.0) for part in parts]
        return Variances(found[0], found[1], found[2], self.sums, self.target == "population")

    @cached_property
    def _middle(self) -> tuple[Array, Array]:
        """Medians of what is known of the sampling variance, and of the variance, of every estimate (p,)."""
        return self._variances(self.gradient).medians

    @cached_property
    def cov_sampling(self) -> Array:
        """Covariance from sampling (p, p); variances are medians of what is known of them."""
        if self.target != "population":
            return np.zeros((len(self.names), len(self.names)))
        between = self.gradient @ (self.sums.covariance - self.sums.floor) @ self.gradient.T
        return rescaled(positive(between), self._middle[0])

    @cached_property
    def cov_noise(self) -> Array:
        """Covariance from privacy noise and, where weights are secret, from the random weights themselves (p, p)."""
        sampling, total = self._middle
        given = total - (sampling if self.target == "population" else 0.0)
        found = self.gradient @ self.sums.covariance_of_mean @ self.gradient.T
        return np.asarray(rescaled(positive(found), given)) + np.diag(1e-12 * np.maximum(given, 1e-300))

    @property
    def population_std(self) -> Array:
        """Standard deviation of one row's share in each estimate (p,): the root of n times its sampling variance."""
        return np.sqrt(max(float(self.sums.mean[0]), 0.0) * self._middle[0])

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, from released numbers only."""
        found = [f"{reason}: intervals are unbounded, p-values 1" for reason in self.reasons]
        variances = self._variances(self.gradient)
        if self.target == "population" and variances.swamped.any():
            found.append(
                f"replicates of {self._listed(variances.swamped)} differ hardly more than by privacy noise: the "
                "sampling error is bounded rather than estimated, and the interval wide for that"
            )
        bent = self._bent > _BENT
        if bent.any() and not self.reasons:
            found.append(
                f"noise bends the estimate of {self._listed(bent)} by more than a quarter of its standard error: the "
                "interval, which takes it to be straight, may be off"
            )
        return tuple(found)

    def _listed(self, which: Mask) -> str:
        names = [self.names[place] for place in np.flatnonzero(which)]
        return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")

    # Intervals and tests

    def intervals(self, contrasts: Array, alpha: float) -> Array:
        """Intervals of level ``1 - alpha`` for each row of ``contrasts`` (k, p), as (k, 2)."""
        center, variances = self._contrasts(contrasts)
        if self.reasons:
            half = np.full(len(center), np.inf)
        elif self.method in ("auto", "fiducial"):
            half = mixture_isf(alpha, variances.at(PROBABILITIES)[1])
        else:
            half = float(stats.norm.isf(alpha / 2)) * np.sqrt(variances.corrected(self._share))
        return np.stack([center - half, center + half], axis=1)

    def contrast_pvalues(self, contrasts: Array, values: Array) -> Array:
        """Two-sided p-values (k,) of ``contrasts @ params = values``."""
        center, variances = self._contrasts(contrasts)
        if self.reasons:
            return np.ones(len(center))
        distance = np.abs(center - values)
        if self.method in ("auto", "fiducial"):
            return mixture_sf(distance, variances.at(PROBABILITIES)[1])
        return np.asarray(2 * stats.norm.sf(distance / np.sqrt(variances.corrected(self._share))))

    @property
    def _share(self) -> float:
        """Share of the expected noise that the chosen interval of the source takes off."""
        if self.method == "conservative":
            return float(stats.chi2.ppf(self.conservative, self.sums.df)) / self.sums.df
        return 0.0 if self.method == "most_conservative" else 1.0

    def _contrasts(self, contrasts: Array) -> tuple[Array, Variances]:
        contrasts = rows_of(contrasts)
        return contrasts @ self.params, self._variances(contrasts @ self.gradient)

    def wald(self, restrictions: Array, values: Array) -> tuple[float, float, float]:
        """Joint test of ``restrictions @ params = values``: statistic (chi-squared), degrees of freedom, p-value.

        Notes
        -----
        As intervals of one number do, the test counts that the covariance between replicates S is estimated and that it
        is at least that of the noise: the distance d is compared, by ``d' S^-1 d``, with normal distances whose
        covariance is drawn from the inverse Wishart law given S, its eigenvalues in units of the noise raised to 1. The
        seed is public. With one restriction the p-value is that of the interval.

        Raises
        ------
        InferenceError
            If restrictions are linearly dependent.
        """
        restrictions, values, number = independent(restrictions, values)
        count = int(number)
        distance = restrictions @ self.params - values
        if self.reasons:
            return 0.0, float(count), 1.0
        rows = restrictions @ self.gradient
        floor, between = rows @ self.sums.floor @ rows.T, rows @ self.sums.covariance @ rows.T
        root = np.linalg.cholesky(floor + 1e-12 * np.diag(np.diag(between)) + 1e-300 * np.eye(count))
        inverse = np.linalg.inv(root)
        seen = inverse @ between @ inverse.T
        values_seen, vectors = np.linalg.eigh(0.5 * (seen + seen.T))
        turned = vectors.T @ inverse
        found = self._variances(turned @ rows)
        chosen = self.method in ("auto", "fiducial")
        variance = found.medians[1] if chosen else found.corrected(self._share)
        statistic = float(((turned @ distance) ** 2 / variance).sum())
        if count == 1:
            return statistic, 1.0, float(self.contrast_pvalues(restrictions, np.atleast_1d(values))[0])
        if not chosen:
            return statistic, float(count), float(stats.chi2.sf(statistic, count))
        if self.sums.df < count:  # no covariance to speak of: Bonferroni
            single = mixture_sf(np.abs(turned @ distance), found.at(PROBABILITIES)[1])
            return statistic, float(count), float(min(1.0, count * single.min()))
        return statistic, float(count), self._simulated(turned @ distance, np.maximum(values_seen, 1e-12))

    def _simulated(self, distance: Array, between: Array) -> float:
        """P-value of a joint distance, in coordinates in which the noise is standard and S diagonal."""
        rng = np.random.default_rng(0)
        count, df = len(distance), self.sums.df
        factor = np.tril(rng.normal(size=(_DRAWS, count, count)), -1)
        place = np.arange(count)
        factor[:, place, place] = np.sqrt(rng.chisquare(df - place, size=(_DRAWS, count)))
        normal, found = rng.normal(size=(_DRAWS, count)), np.empty(_DRAWS)
        with watch("joint p-value", total=_DRAWS, unit=" draws") as counted:
            for start in range(0, _DRAWS, _AT_ONCE):
                some = slice(start, start + _AT_ONCE)
                drawn = np.linalg.inv(factor[some]) * np.sqrt(df * between)
                values, vectors = np.linalg.eigh(np.swapaxes(drawn, 1, 2) @ drawn)
                spread = np.sqrt(self._of_covariance(np.maximum(values, 1.0)))
                moved = (vectors @ (spread * normal[some])[..., None])[..., 0]
                found[some] = (moved**2 / between).sum(axis=1)
                counted(len(drawn))
        return float(simulated_pvalue(found, (distance**2 / between).sum()))

    def _of_covariance(self, values: Array) -> Array:
        """Variance of an estimate from that between replicates, both in units of the noise; any shape."""
        given = np.full_like(values, 2.0 / self.sums.replicates) if self.sums.paired else values / self.sums.replicates
        sampling = (values - 1.0) / self.sums.weight_variance if self.target == "population" else 0.0
        return np.asarray(sampling + given)
