"""Quantities that are known up to noise whose law is known.

An estimate is what it estimates plus a mixture of independent noise variables, so that intervals and tests need
no approximation. p is the number of parameters, M that of noise variables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg, stats

from dpinfer.errors import InferenceError
from dpinfer.inference.base import BaseInference
from dpinfer.inference.batch import BatchEstimates, Oracle
from dpinfer.inference.combination import CombinedNoise
from dpinfer.inference.contrasts import Contrasts, contrast_rows, rows_of, simulated_pvalue
from dpinfer.inference.noise import NoiseSums, variables_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.inference.released import Released
    from dpinfer.release.laws import NoiseLaw
    from dpinfer.statistics.arrays import Array, Places

__all__ = ["METHODS", "LinearNoise", "batch_queries", "measured_queries", "query_oracle"]

METHODS = ("auto", "wald")

_JITTER = 1e-9
"""What is added to every variance, relative to it, where estimates are linearly dependent."""

_MOST_LAPLACE = 128
"""Laplace variables that are told from the normal in one estimate: the largest ones."""

_REPLICATES = 1_999


@dataclass(frozen=True, eq=False)
class LinearNoise(BaseInference):
    """Quantities of the data themselves, each known up to a mixture of noise variables; implements `Inference`.

    Attributes
    ----------
    names : tuple of str, length p
    params : ndarray (p,)
    mixing : ndarray (p, M)
        How each noise variable moves each estimate.
    noise : CombinedNoise
    nobs : float or None
    nobs_is_public : bool
    dependent : bool
        Whether the estimates are linearly dependent; their variances are then raised by a billionth.
    seed : int
        Public seed of simulated joint tests, where noise is not normal.
    method : {"wald"}
        There is one; see `NoiseSums`.
    """

    names: tuple[str, ...]
    params: Array
    mixing: Array
    noise: CombinedNoise
    nobs: float | None = None
    nobs_is_public: bool = False
    dependent: bool = False
    seed: int = 0
    method: str = "wald"

    methods = METHODS
    automatic = "wald"
    target = "data"
    flags = ()

    @property
    def cov_sampling(self) -> Array:
        """Zero (p, p): the data themselves are asked about."""
        return np.zeros((len(self.names), len(self.names)))

    @cached_property
    def cov_noise(self) -> Array:
        """Covariance of the estimates (p, p)."""
        found: Array = (self.mixing * self.noise.variances) @ self.mixing.T
        return found + np.diag(np.diag(found) * (_JITTER if self.dependent else 0.0))

    def intervals(self, contrasts: Array, alpha: float) -> Array:
        """Intervals of level ``1 - alpha`` for each row of ``contrasts`` (k, p), as (k, 2)."""
        return self._linear(contrasts).intervals(alpha)

    def contrast_pvalues(self, contrasts: Array, values: Array) -> Array:
        """Two-sided p-values (k,) of ``contrasts @ params = values``."""
        return self._linear(contrasts).pvalues(values)

    def wald(self, restrictions: Array, values: Array) -> tuple[float, float, float]:
        """Joint test of ``restrictions @ params = values``: statistic (chi-squared), degrees of freedom, p-value.

        Where noise is not normal the p-value is simulated from its law.

        Raises
        ------
        InferenceError
            If the restrictions, or the estimates that they are about, are linearly dependent.
        """
        restrictions = rows_of(restrictions)
        rows = restrictions @ self.mixing * np.sqrt(self.noise.variances)
        lengths = np.maximum(np.sqrt((rows**2).sum(axis=1, keepdims=True)), 1e-300)
        if np.linalg.matrix_rank(rows / lengths, tol=1e-6) < len(rows):
            raise InferenceError(f"the {len(rows)} restrictions are linearly dependent, or about what is known exactly")
        root = linalg.cholesky(rows @ rows.T, lower=True)
        distance = restrictions @ self.params - np.broadcast_to(values, (len(restrictions),))
        statistic = float((linalg.solve_triangular(root, distance, lower=True) ** 2).sum())
        if self.noise.normal:
            return statistic, float(len(rows)), float(stats.chi2.sf(statistic, len(rows)))
        drawn = self.noise.rvs(_REPLICATES, np.random.default_rng(self.seed)) @ (restrictions @ self.mixing).T
        simulated = (linalg.solve_triangular(root, drawn.T, lower=True) ** 2).sum(axis=0)
        return statistic, float(len(rows)), float(simulated_pvalue(simulated, statistic))

    def _linear(self, contrasts: Array) -> Contrasts:
        """Return combinations (k,), with Laplace shares (k, t) where there are any."""
        contrasts = rows_of(contrasts)
        moved = contrasts @ self.mixing
        parts = moved**2 * self.noise.variances
        variance = parts.sum(axis=1)
        if self.dependent:
            variance = variance + contrasts**2 @ (_JITTER * np.diag(self.cov_noise))
        variance = np.maximum(variance, 1e-300)
        shares = None if self.noise.normal else _largest(parts / variance[:, None], self.noise.draws)
        laws = self.noise.parts
        steps = np.concatenate([steps for _, steps in laws])
        exact = NoiseSums(moved * steps, tuple(one for law, _ in laws for one in variables_of(law)))
        return Contrasts(contrasts @ self.params, np.sqrt(variance), shares=shares, noise=exact)


def _largest(shares: Array, draws: Places) -> Array:
    """Keep the largest Laplace shares of each row (k, M), those of averages divided among their draws."""
    places = np.flatnonzero(draws)
    shares, draws = shares[:, places], draws[places]
    most = int(draws.max())
    kept = min(places.size, max(8, _MOST_LAPLACE // most))
    order = np.argpartition(-shares, kept - 1, axis=1)[:, :kept]
    several = draws[order][..., None]
    divided = np.where(np.arange(most) < several, np.take_along_axis(shares, order, axis=1)[..., None] / several, 0.0)
    return divided.reshape(len(shares), -1)


def batch_queries(
    released: Released, *, alpha: float, contrasts: Mapping[str, Mapping[str, float]] | None = None
) -> BatchEstimates:
    """Infer measured queries from many releases at once; equal to `LinearNoise` one by one.

    ``contrasts`` maps a name to weights by query.
    """
    wanted = contrast_rows(released.names, contrasts)
    known = _of_one(released)._linear(wanted)
    found = replace(known, center=released.values @ wanted.T)
    return BatchEstimates(
        names=(*released.names, *(contrasts or {})),
        params=found.center,
        bse=np.broadcast_to(known.error, found.center.shape),
        pvalues=found.pvalues(),
        intervals=found.intervals(alpha),
        flagged=np.zeros(len(released.values), dtype=bool),
    )


def query_oracle(
    released: Released,
    *,
    sampling: Array,
    alpha: float,
    contrasts: Mapping[str, Mapping[str, float]] | None = None,
) -> Oracle:
    """Say how wide an interval must be; arguments as `batch_queries`.

    ``sampling`` (q,) is the variance of the queries over data sets: zero where all have the same table.
    """
    known = _of_one(released)._linear(contrast_rows(released.names, contrasts))
    noise = np.asarray(known.error) ** 2
    laplace = None if known.shares is None else known.shares * noise[:, None]
    return Oracle.of(noise, sampling, np.inf, alpha=alpha, laplace=laplace)


def _of_one(released: Released) -> LinearNoise:
    """Return what any one of the releases is, but for its values."""
    return measured_queries(released.law, released.steps.tolist(), released.names)


def measured_queries(
    law: NoiseLaw, steps: Sequence[float], names: tuple[str, ...], values: Array | None = None
) -> LinearNoise:
    """Return quantities that were measured one by one, from one release."""
    noise = CombinedNoise(((law, np.asarray(steps)),))
    return LinearNoise(names, np.zeros(len(names)) if values is None else values, np.eye(len(names)), noise)
