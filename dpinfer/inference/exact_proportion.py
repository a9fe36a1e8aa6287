"""Exact inference for one proportion from a count with Tulap noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import InferenceError
from dpinfer.inference.base import BaseInference
from dpinfer.inference.batch import BatchEstimates, Oracle
from dpinfer.inference.contrasts import rows_of
from dpinfer.inference.tulap import ProportionEstimate, proportion_estimate, proportion_interval, proportion_pvalue

if TYPE_CHECKING:
    from dpinfer.statistics.arrays import Array

__all__ = ["EXACT_METHODS", "ExactProportion", "batch_exact", "exact_oracle"]

EXACT_METHODS = ("exact", "wald")


@dataclass(frozen=True, eq=False)
class ExactProportion(BaseInference):
    """A proportion whose noisy count has Tulap noise; implements `Inference`.

    Attributes
    ----------
    count : float
        The noisy count.
    size : int
        The public number of rows.
    noise_scale : float
        Scale of the discrete Laplace part, in counts.
    names : tuple of str, length 1
    method : {"exact", "wald"}
    target : {"population", "data"}
    """

    count: float
    size: int
    noise_scale: float
    names: tuple[str, ...]
    method: str = "exact"
    target: str = "population"

    methods = EXACT_METHODS
    nobs_is_public = True

    @cached_property
    def _estimate(self) -> ProportionEstimate:
        return proportion_estimate(np.array([self.count]), self.size, self.noise_scale)

    @property
    def params(self) -> Array:
        """The estimate (1,), brought into [0, 1]."""
        return self._estimate.proportion

    @property
    def cov_sampling(self) -> Array:
        """Variance from sampling (1, 1)."""
        return self._estimate.sampling_variance[:, None]

    @property
    def cov_noise(self) -> Array:
        """Variance from privacy noise (1, 1)."""
        return self._estimate.noise_variance[:, None]

    @property
    def nobs(self) -> float:
        """The public number of rows."""
        return float(self.size)

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings."""
        if not self._estimate.clipped[0]:
            return ()
        return ("the noisy count is outside 0 and the number of rows: the estimate was moved to the edge",)

    def intervals(self, contrasts: Array, alpha: float) -> Array:
        """Intervals of level ``1 - alpha`` for each row of ``contrasts`` (k, 1), as (k, 2)."""
        weights = rows_of(contrasts)[:, 0]
        if self.method == "exact":
            own = proportion_interval(np.array([self.count]), self.size, self.noise_scale, alpha)[0]
        else:
            own = np.clip(self._estimate.normal.intervals(alpha)[0], 0.0, 1.0)
        return np.sort(weights[:, None] * own, axis=1)

    def contrast_pvalues(self, contrasts: Array, values: Array) -> Array:
        """Two-sided p-values (k,) of ``contrasts @ params = values``."""
        weights = rows_of(contrasts)[:, 0]
        tested = np.clip(np.broadcast_to(values, weights.shape) / weights, 0.0, 1.0)
        if self.method == "exact":
            return proportion_pvalue(np.full(tested.shape, self.count), self.size, tested, self.noise_scale)
        return self._estimate.normal.pvalues(tested)

    def wald(self, restrictions: Array, values: Array) -> tuple[float, float, float]:
        """Test of one restriction: statistic (chi-squared), degrees of freedom, p-value."""
        restrictions = rows_of(restrictions)
        if len(restrictions) > 1:
            raise InferenceError("there is one proportion, so one restriction at most")
        pvalue = float(self.contrast_pvalues(restrictions, np.atleast_1d(values))[0])
        distance = float(restrictions[0, 0] * self.params[0] - np.atleast_1d(values)[0])
        variance = float(restrictions[0, 0] ** 2 * self._estimate.standard_error[0] ** 2)
        return distance**2 / variance, 1.0, pvalue


def batch_exact(
    counts: Array, *, size: int, noise_scale: float, names: tuple[str, ...], alpha: float, method: str = "exact"
) -> BatchEstimates:
    """Infer from many noisy counts (R,) at once; equal to `ExactProportion` one by one."""
    found = proportion_estimate(counts, size, noise_scale)
    if method == "exact":
        ends = proportion_interval(counts, size, noise_scale, alpha)
        pvalues = proportion_pvalue(counts, size, np.zeros(counts.shape), noise_scale)
    else:
        ends, pvalues = np.clip(found.normal.intervals(alpha), 0.0, 1.0), found.normal.pvalues()
    params, bse = found.proportion[:, None], found.standard_error[:, None]
    return BatchEstimates(names, params, bse, pvalues[:, None], ends[:, None], found.clipped)


def exact_oracle(count: float, *, sampling: Array, size: int, noise_scale: float, alpha: float) -> Oracle:
    """Say how wide a normal interval would be that knew the true sampling variance (1,) and the noise."""
    found = proportion_estimate(np.array([count]), size, noise_scale)
    return Oracle.of(found.noise_variance, sampling, np.inf, alpha=alpha)
