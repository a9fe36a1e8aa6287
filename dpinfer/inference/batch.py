"""Inference from many releases at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.contrasts import Contrasts, contrast_rows
from dpinfer.inference.gram import KAPPA_RELIABLE, GramFit, GramProblem, covariance, fit_gram, noise_action, noise_level
from dpinfer.inference.rare import ridges
from dpinfer.inference.score import laplace_shares, score_interval, score_pvalue, taken
from dpinfer.numerics.forms import symmetric
from dpinfer.numerics.tails import critical_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.inference.rare import LevelColumns, Ridge
    from dpinfer.numerics.arrays import Array, Mask, Places
    from dpinfer.release.laws import NoiseLaw

__all__ = ["BatchEstimates", "Oracle", "batch_linear", "linear_oracle"]


@dataclass(frozen=True, slots=True)
class BatchEstimates:
    """Estimates from R releases of the same question.

    Attributes
    ----------
    names : tuple of str, length p
    params, bse, pvalues : ndarray (R, p)
        Estimates, standard errors, p-values of zero.
    intervals : ndarray (R, p, 2)
    flagged : ndarray of bool (R,)
        Whether the fit carries a warning.
    """

    names: tuple[str, ...]
    params: Array
    bse: Array
    pvalues: Array
    intervals: Array
    flagged: Mask


@dataclass(frozen=True, slots=True)
class Oracle:
    """What an interval would be that knew the population and the law of the noise.

    Attributes
    ----------
    halfwidth : ndarray (p,)
        Half the width of the oracle's interval.
    ordinary : ndarray (p,)
        The same without privacy noise.
    kappa : float
        Smallest eigenvalue of the expected cross-products of the scaled regressors over the noise level; NaN where
        there is no such ratio.
    """

    halfwidth: Array
    ordinary: Array
    kappa: float

    @classmethod
    def of(cls, noise: Array, sampling: Array, kappa: float, *, alpha: float, laplace: Array | None = None) -> Oracle:
        """Return the oracle of estimates (p,) whose variances from noise and from sampling are known.

        ``laplace`` (p, t) holds the variance that each Laplace variable brings, where the noise is Laplace.
        """
        variance = noise + sampling
        shares = None if laplace is None else laplace / np.maximum(variance, 1e-300)[:, None]
        normal = critical_value(alpha) * np.sqrt(sampling)
        return cls(critical_value(alpha, shares=shares) * np.sqrt(variance), normal, kappa)


def _problem(
    law: NoiseLaw, steps: Sequence[float], design: Array, response: Array, *, population: bool, rows_per_unit: int
) -> GramProblem:
    noise = symmetric(law.variances * np.asarray(steps) ** 2, design.shape[1])
    return GramProblem(noise, design, response, law.family == "laplace", population, rows_per_unit)


def batch_linear(
    values: Array,
    *,
    law: NoiseLaw,
    steps: Sequence[float],
    design: Array,
    response: Array,
    names: tuple[str, ...],
    alpha: float,
    method: str = "auto",
    target: str = "population",
    contrasts: Mapping[str, Mapping[str, float]] | None = None,
    rows_per_unit: int = 1,
    levels: LevelColumns | None = None,
) -> BatchEstimates:
    """Infer a linear regression from many releases of cross-products; equal to `linear_inference` one by one.

    Parameters
    ----------
    values : ndarray (R, m)
        Noisy upper triangles, in units of the scaled features.
    law, steps
        Of one release.
    design, response, names, target, rows_per_unit, levels
        As in `linear_inference`.
    alpha : float
        Intervals have level ``1 - alpha``.
    method : {"auto", "score", "wald"}
    contrasts : mapping of name to weights by coefficient, optional
        Further quantities to infer, after the coefficients.
    """
    problem = _problem(law, steps, design, response, population=target == "population", rows_per_unit=rows_per_unit)
    gram = symmetric(values, design.shape[1])
    fit = fit_gram(problem, gram, gram[:, 0, 0])
    wanted = contrast_rows(names, contrasts)
    names = (*names, *(contrasts or {}))
    rare = [] if levels is None else list(ridges(fit, gram, gram[:, 0, 0], levels))
    if not rare:
        return _plain(fit, wanted, names, alpha, method)
    size = (len(values), len(names))
    found = BatchEstimates(
        names, np.empty(size), np.empty(size), np.empty(size), np.empty((*size, 2)), np.ones(len(values), dtype=bool)
    )
    left = np.setdiff1d(np.arange(len(values)), np.concatenate([places for places, _ in rare]))
    if left.size:
        _put(found, left, _plain(taken(fit, left), wanted, names, alpha, method))
    for places, ridge in rare:
        _put(found, places, _beside_near_empty(ridge, wanted, names, alpha))
    return found


def _plain(fit: GramFit, wanted: Array, names: tuple[str, ...], alpha: float, method: str) -> BatchEstimates:
    params = fit.params @ wanted.T
    errors = np.sqrt(np.einsum("kp,rpq,kq->rk", wanted, np.add(*covariance(fit)), wanted))
    if method == "wald":
        found = Contrasts(params, errors, fit.df_units[:, None] if fit.problem.population else np.inf)
        intervals, pvalues = found.intervals(alpha), found.pvalues()
    else:
        intervals = score_interval(fit, wanted, alpha)
        pvalues = score_pvalue(fit, wanted, np.zeros((1, len(names))))
    return BatchEstimates(names, params, errors, pvalues, intervals, (fit.kappa < KAPPA_RELIABLE) | (fit.rsquared >= 1))


def _beside_near_empty(ridge: Ridge, wanted: Array, names: tuple[str, ...], alpha: float) -> BatchEstimates:
    return BatchEstimates(
        names=names,
        params=ridge.fit.params @ wanted.T,
        bse=np.sqrt(np.einsum("kp,rpq,kq->rk", wanted, np.add(*ridge.covariance()), wanted)),
        pvalues=ridge.pvalues(wanted, np.zeros((1, len(wanted)))),
        intervals=ridge.intervals(wanted, alpha),
        flagged=np.ones(len(ridge.strength), dtype=bool),
    )


def _put(found: BatchEstimates, places: Places, part: BatchEstimates) -> None:
    """Write the estimates of some releases in their places."""
    for name in ("params", "bse", "pvalues", "intervals", "flagged"):
        getattr(found, name)[places] = getattr(part, name)


def linear_oracle(
    sums: Array,
    *,
    sampling: Array,
    law: NoiseLaw,
    steps: Sequence[float],
    design: Array,
    response: Array,
    alpha: float,
    contrasts: Mapping[str, Mapping[str, float]] | None = None,
    names: tuple[str, ...] = (),
) -> Oracle:
    """Say what an oracle's interval would be, and how far noise dominates the design; arguments as `batch_linear`.

    ``sums`` (m,) is the expected noise-free upper triangle, in units of the scaled features, and ``sampling`` (q,) the
    true sampling variance of every coefficient and contrast.
    """
    problem = _problem(law, steps, design, response, population=False, rows_per_unit=1)
    gram = symmetric(sums, design.shape[1])
    cross = design @ gram @ design.T
    inverse = np.asarray(np.linalg.inv(cross), dtype=np.float64)
    residual = response - (inverse @ (design @ gram @ response)) @ design
    wanted = contrast_rows(names, contrasts) if contrasts else np.eye(len(design))
    on_features = wanted @ inverse @ design
    noise = np.einsum("pd,pd->p", on_features, noise_action(problem, residual, on_features))
    laplace = laplace_shares(problem, residual, on_features, np.ones(len(noise))) if problem.laplace else None
    rows = np.linalg.qr(design.T)[0].T
    level = noise_level(problem.noise, rows)
    kappa = float(np.linalg.eigvalsh(rows @ gram @ rows.T)[0] / max(level, 1e-300))
    return Oracle.of(noise, sampling, kappa, alpha=alpha, laplace=laplace)
