"""Estimates of a regression by noisy Newton rounds, with intervals and tests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy import stats

from dpinfer.inference.base import BaseInference
from dpinfer.inference.contrasts import rows_of
from dpinfer.inference.newton_tail import folded_quantile, folded_tail
from dpinfer.inference.restrictions import independent
from dpinfer.inference.slopes import AverageSlope

if TYPE_CHECKING:
    from dpinfer.inference.newton import NewtonFit
    from dpinfer.numerics.arrays import Array, Mask

__all__ = ["METHODS", "NewtonInference"]

METHODS = ("auto", "wald", "score")

_UNMOVED = 1e-6
"""A contrast that moves by less than this, of size 1, does not."""

_DOMINATED = 0.05
"""Share of a coefficient in directions that noise dominates, from which it is named."""


_WORST = 3.0
"""Standard errors of bias from which a coefficient is not determined."""


_APART = 1e-9
"""Part of a variance that is added to it, so that a covariance has an inverse in floating point."""


@dataclass(frozen=True, eq=False)
class NewtonInference(BaseInference):
    """Coefficients of a regression; implements `Inference`.

    Attributes
    ----------
    names : tuple of str, length p
    fit : NewtonFit
        In its own coordinates.
    weights : ndarray (p, p)
        Coefficients by name are ``weights @ fit.params + shift``.
    shift : ndarray (p,)
    nobs, nobs_is_public, target
        As in `Inference`.
    notes : tuple of str
        Further warnings.
    unknown : ndarray (m, p), optional
        Changes of the coefficients that no row that was kept tells of, each of largest entry 1: a contrast that moves
        with one of them is not determined.
    total, total_variance : float
        Sum of the weights of rows, with the variance of its noise: their number where they have none.
    slope_factor : float or None
        Sum of the slopes of the mean over the Hessian's entry of the constant; None where its weights are others.
    """

    names: tuple[str, ...]
    fit: NewtonFit
    weights: Array
    shift: Array
    nobs: float | None = None
    nobs_is_public: bool = False
    target: str = "population"
    notes: tuple[str, ...] = ()
    method: str = "auto"
    unknown: Array | None = None
    total: float = 1.0
    total_variance: float = 0.0
    slope_factor: float | None = 1.0

    methods = METHODS

    def __post_init__(self) -> None:
        if self.method == "auto":
            object.__setattr__(self, "method", self._automatic)

    @property
    def _automatic(self) -> str:
        """What "auto" stands for: tests by scores where estimates are not normal, as where noise dominates."""
        return "score" if self.fit.flagged or self.fit.bent else "wald"

    def with_method(self, method: str) -> Self:
        """Return the same estimates under another inference method; errors as `BaseInference.with_method`."""
        return super().with_method(self._automatic if method == "auto" else method)

    @cached_property
    def params(self) -> Array:
        """Point estimates (p,)."""
        return np.asarray(self.weights @ self.fit.params + self.shift)

    @cached_property
    def cov_sampling(self) -> Array:
        """Covariance from sampling (p, p)."""
        return np.asarray(self.weights @ self.fit.cov_sampling @ self.weights.T)

    @cached_property
    def cov_noise(self) -> Array:
        """Covariance from privacy noise (p, p)."""
        found = self.weights @ self.fit.cov_noise @ self.weights.T
        # Columns that no row tells apart: in floating point their covariance would have no inverse.
        return np.asarray(found + _APART * np.diag(np.diag(found + self.cov_sampling)))

    @cached_property
    def average_slope(self) -> AverageSlope | None:
        """The average over rows of the derivative of the mean; None where the Hessian does not tell.

        The coordinate of the constant is the first. How the average moves with the coefficients is that of a normal
        linear predictor with the released moments.
        """
        fit = self.fit
        if fit.response is None or fit.moments.mean[0] != 1.0 or self.slope_factor is None:
            return None
        rows = max(self.total, 1.0) / self.slope_factor
        value = max(float(fit.hessian[0, 0]) / rows, 0.0)
        gradient = fit.slope_gradient()
        cov = fit.cov_sampling + fit.cov_noise
        variance = fit.hessian_variance() / rows**2 + (value / max(self.total, 1.0)) ** 2 * self.total_variance
        return AverageSlope(value, variance + float(gradient @ cov @ gradient), self.weights @ cov @ gradient)

    @cached_property
    def _dominated(self) -> Array:
        """Whether noise dominates each coefficient (p,)."""
        if not self.fit.flagged:
            return np.zeros(len(self.names), dtype=bool)
        return np.asarray(self.fit.share_dominated(self.weights) > _DOMINATED)

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, from released numbers only."""
        notes = self.notes
        lost = [name for name, which in zip(self.names, self._lost(np.eye(len(self.names))), strict=True) if which]
        if lost:
            notes = (f"not determined: {', '.join(lost)}; too few rows tell of them", *notes)
        moved = [name for name, which in zip(self.names, self._biased(np.eye(len(self.names))), strict=True) if which]
        if moved and not self._by_score:
            notes = (
                f"not determined: {', '.join(moved)}; rows far out, whose residuals were cut, may move them by more "
                f"than {_WORST:g} standard errors",
                *notes,
            )
        if not self.fit.flagged:
            return notes
        named = [name for name, which in zip(self.names, self._dominated, strict=True) if which] or list(self.names)
        return (f"privacy noise dominates {', '.join(named)}: intervals may be wide or unbounded", *notes)

    def intervals(self, contrasts: Array, alpha: float) -> Array:
        """Intervals of level ``1 - alpha`` for each row of ``contrasts`` (k, p), as (k, 2)."""
        rows = rows_of(contrasts)
        if self._by_score:
            ends = np.array([self.fit.interval(row @ self.weights, alpha=alpha) for row in rows])
            ends += (rows @ self.shift)[:, None]
            ends[self._lost(rows)] = (-np.inf, np.inf)
            return ends
        errors, biases = self._errors(rows), self._biases(rows)
        if biases.any():
            half = folded_quantile(alpha, biases / errors) * errors
        else:
            half = float(stats.norm.isf(alpha / 2)) * errors
        half[self._biased(rows) | self._lost(rows)] = np.inf
        centre = rows @ self.params
        return np.stack([centre - half, centre + half], axis=-1)

    def contrast_pvalues(self, contrasts: Array, values: Array) -> Array:
        """Two-sided p-values (k,) of ``contrasts @ params = values``."""
        rows = rows_of(contrasts)
        if self._by_score:
            tested = np.broadcast_to(values, (len(rows),)) - rows @ self.shift
            roots = [self.fit.statistics(row @ self.weights, one[None]) for row, one in zip(rows, tested, strict=True)]
            return np.where(self._lost(rows), 1.0, 2 * stats.norm.sf(np.concatenate(roots)))
        errors, biases = self._errors(rows), self._biases(rows)
        tails = folded_tail(np.abs(rows @ self.params - values) / errors, biases / errors)
        return np.where(self._biased(rows) | self._lost(rows), 1.0, tails)

    def wald(self, restrictions: Array, values: Array) -> tuple[float, float, float]:
        """Joint test of ``restrictions @ params = values``: statistic (chi-squared), degrees of freedom, p-value.

        With biases that are bounded the p-value is that of the noncentral law of the largest noncentrality.
        """
        rows, values, count = independent(restrictions, values)
        if self._lost(rows).any() or (not self._by_score and self._biased(rows).any()):
            return 0.0, count, 1.0
        if self._by_score:
            statistic = self.fit.joint_statistic(rows @ self.weights, values - rows @ self.shift)
        else:
            distance = rows @ self.params - values
            total = rows @ (self.cov_sampling + self.cov_noise) @ rows.T
            statistic = float(distance @ np.linalg.solve(total, distance))
            sources = rows @ self.weights @ self.fit.tail.biases.T
            if sources.any():
                return statistic, count, float(stats.ncx2.sf(statistic, count, _largest(sources, total)))
        return statistic, count, float(stats.chi2.sf(statistic, count))

    @property
    def _by_score(self) -> bool:
        return self.method == "score"

    def _lost(self, rows: Array) -> Mask:
        """Whether contrasts (k, p) are not determined (k,)."""
        if self.unknown is None or not len(self.unknown):
            return np.zeros(len(rows), dtype=bool)
        moved = np.abs(rows @ self.unknown.T).max(axis=1)
        return np.asarray(moved > _UNMOVED * np.maximum(np.abs(rows).sum(axis=1), 1e-300))

    def _biases(self, rows: Array) -> Array:
        """Bound on the bias of contrasts (k, p) that giving back what was cut may leave (k,)."""
        return self.fit.tail.bias(rows @ self.weights)

    def _biased(self, rows: Array) -> Mask:
        """Whether contrasts (k, p) are not determined for what was cut (k,)."""
        return np.asarray(self._biases(rows) > _WORST * self._errors(rows))

    def _errors(self, rows: Array) -> Array:
        variances = np.einsum("kp,pq,kq->k", rows, self.cov_sampling + self.cov_noise, rows)
        return np.asarray(np.sqrt(np.maximum(variances, 1e-300)))


def _largest(sources: Array, total: Array) -> float:
    """Return the largest b'V^-1 b for biases b that add up columns of ``sources`` (r, k), each times -1 to 1.

    It is convex in the factors, so that it is largest where each is -1 or 1.
    """
    signs = np.array(list(product((-1.0, 1.0), repeat=sources.shape[1]))) @ sources.T
    return float(np.einsum("sr,rs->s", signs, np.linalg.solve(total, signs.T)).max())
