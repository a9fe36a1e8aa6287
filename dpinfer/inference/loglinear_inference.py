"""One inference over the coefficients of a log-linear model, and many at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpinfer.inference.base import BaseInference
from dpinfer.inference.batch import BatchEstimates, Oracle
from dpinfer.inference.contrasts import contrast_rows, rows_of
from dpinfer.inference.loglinear import Reduced, fit_loglinear, kept_cells, reduced, reduced_fits
from dpinfer.inference.loglinear_score import one_sided, score_intervals, score_test
from dpinfer.inference.restrictions import independent
from dpinfer.numerics.tails import joint_pvalue, widened, widened_pvalue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.inference.loglinear import LogLinearFit, LogLinearModel
    from dpinfer.numerics.arrays import Array, Mask, Places

__all__ = ["METHODS", "LogLinearInference", "batch_loglinear", "loglinear_oracle"]

METHODS = ("auto", "score", "wald")

_SMALL = 5.0
_NAMED = 8


@dataclass(frozen=True, eq=False)
class LogLinearInference(BaseInference):
    """Coefficients of a log-linear model of one noisy table; implements `Inference`.

    Attributes
    ----------
    model : LogLinearModel
    values : ndarray (d,)
        Noisy counts.
    names : tuple of str, length p
    nobs : float
        The number of rows: noisy, or public.
    nobs_is_public : bool
    method : {"score", "wald"}
    target : {"population", "data"}
    """

    model: LogLinearModel
    values: Array
    names: tuple[str, ...]
    nobs: float | None
    nobs_is_public: bool
    method: str = "score"
    target: str = "population"

    methods = METHODS

    @cached_property
    def found(self) -> Reduced:
        """The fit, to the cells that have one."""
        return reduced(self.model, self.values)

    @cached_property
    def determined(self) -> Mask:
        """Which coefficients are determined (p,)."""
        return self.found.determined(np.eye(len(self.names)))

    @property
    def fit(self) -> LogLinearFit | None:
        """The fit to the cells kept; None where there is none."""
        return self.found.fit

    @property
    def means(self) -> Array:
        """Fitted counts (d,); NaN in cells that are left out."""
        means = np.full(len(self.values), np.nan)
        if self.fit is not None:
            means[self.found.kept] = self.fit.means[0]
        return means

    @cached_property
    def params(self) -> Array:
        """Coefficients (p,); NaN where not determined."""
        if self.fit is None:
            return np.full(len(self.names), np.nan)
        return np.where(self.determined, self.found.directions @ self.fit.params[0], np.nan)

    @cached_property
    def _covariances(self) -> tuple[Array, Array]:
        nothing = np.full((len(self.names), len(self.names)), np.nan)
        if self.fit is None:
            return nothing, nothing
        turn = self.found.directions
        known = self.determined[:, None] & self.determined
        sampling, noise = (np.where(known, turn @ part[0] @ turn.T, np.nan) for part in self.fit.covariance())
        return sampling, noise

    @property
    def cov_sampling(self) -> Array:
        """Covariance from sampling (p, p)."""
        return self._covariances[0]

    @property
    def cov_noise(self) -> Array:
        """Covariance from privacy noise (p, p)."""
        return self._covariances[1]

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, from released numbers only."""
        found = []
        lost = [name for name, known in zip(self.names, self.determined, strict=True) if not known]
        if lost:
            listed = "every coefficient" if len(lost) == len(self.names) else ", ".join(lost[:_NAMED])
            listed += f" and {len(lost) - _NAMED} more" if _NAMED < len(lost) < len(self.names) else ""
            left = int((~self.found.kept).sum())
            found.append(
                f"not determined: {listed}; noise, or chance, leaves {left} of {self.values.size} cells empty, and the "
                "others are fitted without them"
            )
        spread = np.sqrt(self.model.noise.of_counts)
        few = int((self.means[self.found.kept] < np.maximum(_SMALL, spread[self.found.kept])).sum())
        if few:
            found.append(
                f"{few} of {self.values.size} fitted counts are below 5 or below their noise (standard deviation "
                f"{spread.max():.4g}): read intervals, not standard errors"
            )
        return tuple(found)

    def combinations(self, rows: Array) -> tuple[Array, Array, Array]:
        """Estimates of combinations (k, p) of coefficients, and their variances from sampling and noise, each (k,).

        NaN where not determined.
        """
        found = np.full((3, len(rows)), np.nan)
        known = self.found.determined(rows)
        if self.fit is not None and known.any():
            turned = rows[known] @ self.found.directions
            parts = [np.einsum("kp,pq,kq->k", turned, part[0], turned) for part in self.fit.covariance()]
            found[:, known] = self.fit.params[0] @ turned.T, *(np.maximum(part, 0.0) for part in parts)
        return found[0], found[1], found[2]

    def combined_covariance(self, rows: Array) -> Array:
        """Covariance (k, k) of combinations (k, p), sampling and noise; NaN where not determined."""
        found = np.full((len(rows), len(rows)), np.nan)
        known = self.found.determined(rows)
        if self.fit is not None and known.any():
            turned = rows[known] @ self.found.directions
            found[np.ix_(known, known)] = turned @ np.add(*self.fit.covariance())[0] @ turned.T
        return found

    # Intervals and tests

    def intervals(self, contrasts: Array, alpha: float) -> Array:
        """Intervals of level ``1 - alpha`` for each row of ``contrasts`` (k, p), as (k, 2)."""
        rows = rows_of(contrasts)
        ends = np.tile([-np.inf, np.inf], (len(rows), 1))
        known = self.found.determined(rows)
        if self.fit is not None and known.any():
            ends[known] = self._of_known(rows[known] @ self.found.directions, alpha)
        if self.method == "score":
            for place in np.flatnonzero(~known):
                ends[place] = one_sided(self.model, self.values[None], rows[place], alpha)[0]
        return ends

    def _of_known(self, rows: Array, alpha: float) -> Array:
        assert self.fit is not None
        if self.method == "score":
            return np.asarray(score_intervals(self.fit, rows, alpha)[0])
        center, error, kurtosis = _combinations(self.fit, rows)
        half = widened(alpha, kurtosis) * error
        return np.asarray(np.stack([center - half, center + half], axis=-1)[0])

    def contrast_pvalues(self, contrasts: Array, values: Array) -> Array:
        """Two-sided p-values (k,) of ``contrasts @ params = values``."""
        rows = rows_of(contrasts)
        targets = np.broadcast_to(np.asarray(values, dtype=np.float64), (len(rows),))
        return np.array([self._joint(row[None], target[None])[1] for row, target in zip(rows, targets, strict=True)])

    def wald(self, restrictions: Array, values: Array) -> tuple[float, float, float]:
        """Joint test of ``restrictions @ params = values``: statistic (chi-squared), degrees of freedom, p-value."""
        rows, targets, count = independent(restrictions, values)
        statistic, pvalue = self._joint(rows, targets)
        return statistic, count, pvalue

    def _joint(self, rows: Array, targets: Array) -> tuple[float, float]:
        """Return the squared distance of combinations from values, and its p-value; 0 and 1 where there is no fit."""
        known = self.fit is not None and bool(self.found.determined(rows).all())
        if self.method == "score" or not known:
            model, values, turned = self.model, self.values[None], rows
            if known and self.fit is not None:
                model, values, turned = self.fit.model, self.fit.values, rows @ self.found.directions
            test = score_test(model, values, turned, targets)
            usable = bool(test.exists[0]) and self.method == "score"
            return (float(test.distance[0] ** 2), float(test.pvalue[0])) if usable else (0.0, 1.0)
        assert self.fit is not None
        turned = rows @ self.found.directions
        center, error, kurtosis = _combinations(self.fit, turned)
        if len(rows) == 1:
            distance = (center[0] - targets) / error[0]
            return float(distance[0] ** 2), float(widened_pvalue(distance, kurtosis[0])[0])
        total = turned @ np.add(*self.fit.covariance())[0] @ turned.T
        root = np.linalg.cholesky(total)
        statistic = float((np.linalg.solve(root, center[0] - targets) ** 2).sum())
        loads = self.fit.model.noise.laplace(np.linalg.solve(root, turned @ self.fit.influence[0]))
        return statistic, float(joint_pvalue(statistic, len(rows), loadings=loads))


def _combinations(fit: LogLinearFit, rows: Array) -> tuple[Array, Array, Array]:
    """Return combinations of coefficients (R, k), their standard errors, and the excess kurtosis of their errors."""
    covariance = np.add(*fit.covariance())
    variance = np.einsum("kp,rpq,kq->rk", rows, covariance, rows)
    if fit.model.noise.is_normal:
        kurtosis = np.zeros_like(variance)
    else:
        kurtosis = fit.model.noise.fourth_cumulant(rows @ fit.influence) / variance**2
    return np.asarray(fit.params @ rows.T), np.sqrt(variance), kurtosis


def batch_loglinear(
    model: LogLinearModel,
    values: Array,
    *,
    names: tuple[str, ...],
    alpha: float,
    method: str = "score",
    contrasts: Mapping[str, Mapping[str, float]] | None = None,
) -> BatchEstimates:
    """Infer from R tables of noisy counts (R, d); equal to `LogLinearInference` one by one."""
    method = "score" if method == "auto" else method
    wanted = contrast_rows(names, contrasts)
    size = (len(values), len(wanted))
    found = BatchEstimates(
        (*names, *(contrasts or {})),
        np.full(size, np.nan),
        np.full(size, np.nan),
        np.ones(size),
        np.tile([-np.inf, np.inf], (*size, 1)),
        np.zeros(len(values), dtype=bool),
    )
    fit = fit_loglinear(model, values)
    found.flagged[:] = ~fit.exists
    groups: dict[bytes, list[int]] = {}
    for place in np.flatnonzero(~fit.exists).tolist():
        groups.setdefault(kept_cells(model, values[place], lost=True).tobytes(), []).append(place)
    if fit.exists.any():
        _write(found, np.flatnonzero(fit.exists), np.arange(len(wanted)), fit.taken(fit.exists), wanted, alpha, method)
    for mask, listed in groups.items():
        places = np.array(listed)
        part = reduced_fits(model, values[places], np.frombuffer(mask, dtype=bool))
        known = part.determined(wanted)
        if part.fit is not None and known.any():
            rows = wanted[known] @ part.directions
            _write(found, places, np.flatnonzero(known), part.fit, rows, alpha, method)
        for column in np.flatnonzero(~known) if method == "score" else ():
            row = wanted[column]
            found.intervals[places, column] = one_sided(model, values[places], row, alpha)
            found.pvalues[places, column] = score_test(model, values[places], row[None], np.zeros(1)).pvalue
    return found


def _write(
    found: BatchEstimates, places: Places, columns: Places, fit: LogLinearFit, rows: Array, alpha: float, method: str
) -> None:
    """Write what fits (R, ...) say of combinations (k, p) in the places of their tables and columns."""
    here = np.ix_(places, columns)
    params, bse, kurtosis = _combinations(fit, rows)
    found.params[here], found.bse[here] = params, bse
    if method == "score":
        found.intervals[here] = score_intervals(fit, rows, alpha)
        pvalues = [score_test(fit.model, fit.values, row[None], np.zeros(1)).pvalue for row in rows]
        found.pvalues[here] = np.stack(pvalues, axis=1)
    else:
        half = widened(alpha, kurtosis) * bse
        found.intervals[here] = np.stack([params - half, params + half], axis=-1)
        found.pvalues[here] = widened_pvalue(params / bse, kurtosis)


def loglinear_oracle(
    model: LogLinearModel,
    expected: Array,
    *,
    sampling: Array,
    alpha: float,
    names: tuple[str, ...],
    contrasts: Mapping[str, Mapping[str, float]] | None = None,
) -> Oracle:
    """Say how wide an interval would be that knew the population and the law of the noise.

    ``expected`` (d,) are the expected counts and ``sampling`` (q,) the true sampling variances. kappa is the smallest
    fitted mean over its own standard error.
    """
    wanted = contrast_rows(names, contrasts)
    fit = fit_loglinear(replace(model, robust=False), expected[None])
    weights = wanted @ fit.influence[0]
    noise = model.noise.variance(weights)
    cells = model.design @ np.add(*fit.covariance())[0] @ model.design.T
    kappa = float(1.0 / np.sqrt(np.diag(cells).max()))
    total = noise + sampling
    kurtosis = model.noise.fourth_cumulant(weights) / total**2
    normal = float(stats.norm.isf(alpha / 2)) * np.sqrt(sampling)
    return Oracle(widened(alpha, kurtosis) * np.sqrt(total), normal, kappa)
