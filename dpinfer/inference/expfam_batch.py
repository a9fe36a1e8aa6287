"""Exponential families: inference from many releases at once, and the parametric bootstrap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.inference.batch import BatchEstimates, Oracle
from dpinfer.inference.contrasts import Contrasts, contrast_rows
from dpinfer.inference.expfam import ClampedProblem, FamilyFit, estimate, spread_at, sum_noise
from dpinfer.inference.expfam_intervals import (
    contrast_errors,
    score_interval,
    score_pvalue,
    wald_interval,
    wald_pvalue,
)
from dpinfer.statistics.arrays import root_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.release.laws import NoiseLaw
    from dpinfer.statistics.arrays import Array

__all__ = ["BATCH_METHODS", "batch_family", "family_oracle", "simulate_releases"]

BATCH_METHODS = ("auto", "score", "wald")

_MOST_DRAWS = 5_000_000
_DRAWS_AT_ONCE = 500_000


def batch_family(
    values: Array,
    *,
    problem: ClampedProblem,
    law: NoiseLaw,
    steps: Sequence[float],
    alpha: float,
    method: str = "auto",
    target: str = "population",
    contrasts: Mapping[str, Mapping[str, float]] | None = None,
    pvalues: bool = True,
    rows_per_unit: int = 1,
) -> BatchEstimates:
    """Infer a family from many releases of the count and the sums of scaled statistics.

    Parameters
    ----------
    values : ndarray (R, 1 + k)
        Noisy or public number of rows, then noisy sums, in units of the scaled features.
    problem, target, rows_per_unit
        As in `dpinfer.inference.expfam_inference.family_inference`, which gives the same one by one.
    law, steps
        Of one release; the first scale is 0 where the number of rows is public.
    alpha : float
        Intervals have level ``1 - alpha``.
    method : {"auto", "score", "wald"}
    contrasts : mapping of name to weights by parameter, optional
        Further quantities to infer by the delta method, after the parameters.
    pvalues : bool
        Whether to test that parameters are zero, which takes about as long as the intervals; else they are NaN.

    Raises
    ------
    OptionError
        If there is no such method.
    """
    if method not in BATCH_METHODS:
        raise OptionError("method", method, BATCH_METHODS)
    noise = sum_noise(law, steps, population=target == "population", rows_per_unit=rows_per_unit)
    values = np.asarray(values, dtype=np.float64)
    fit = estimate(problem, noise, values[:, 1:], values[:, 0])
    interval, pvalue = (wald_interval, wald_pvalue) if method == "wald" else (score_interval, score_pvalue)
    names = problem.family.names
    wanted = contrast_rows(names, contrasts)
    found = Contrasts(fit.params @ wanted.T, contrast_errors(fit, wanted))
    intervals, tested = found.intervals(alpha), found.pvalues()
    missing = (fit.missing[:, None] & (wanted != 0)).any(axis=2)
    intervals[missing], tested[missing] = (-np.inf, np.inf), 1.0
    for index in range(len(names)):
        intervals[:, index] = interval(fit, index, alpha)
        tested[:, index] = pvalue(fit, index, np.zeros(len(values))) if pvalues else np.nan
    center, error = (np.where(missing, np.nan, values) for values in (found.center, found.error))
    return BatchEstimates((*names, *(contrasts or {})), center, error, tested, intervals, fit.flagged)


def family_oracle(
    values: Array,
    *,
    sampling: Array,
    problem: ClampedProblem,
    law: NoiseLaw,
    steps: Sequence[float],
    alpha: float,
    contrasts: Mapping[str, Mapping[str, float]] | None = None,
) -> Oracle:
    """Say what an oracle's interval would be, and how far noise dominates; arguments as `batch_family`.

    ``values`` (1 + k,) holds the number of rows and the expected noise-free sums, and ``sampling`` (q,) the true
    sampling variance of every parameter and contrast. The oracle's ``kappa`` is `dpinfer.inference.expfam.signal` at
    the true parameters.
    """
    noise = sum_noise(law, steps, population=False)
    values = np.asarray(values, dtype=np.float64)[None]
    fit = estimate(problem, noise, values[:, 1:], values[:, 0])
    wanted = contrast_rows(problem.family.names, contrasts)
    weights = wanted * fit.slope[0]
    laplace = _laplace(fit, weights) if noise.laplace else None
    return Oracle.of(contrast_errors(fit, wanted)[0] ** 2, sampling, float(fit.kappa[0]), alpha=alpha, laplace=laplace)


def _laplace(fit: FamilyFit, weights: Array) -> Array:
    """Variance of each combination (q,) that the noise of each sum and of the count brings."""
    moments, reach, _ = spread_at(fit.problem, fit.noise, fit.eta, fit.size)
    on_sums = weights @ reach[0]
    counted = (on_sums @ moments.mean[0]) ** 2 * fit.noise.count_variance
    return np.column_stack([on_sums**2 * fit.noise.variances, counted])


def simulate_releases(
    fit: FamilyFit, law: NoiseLaw, steps: Sequence[float], replicates: int, rng: np.random.Generator
) -> FamilyFit:
    """Draw releases from the fitted model, through the same clamping and noise, and fit each of them.

    Parameters
    ----------
    fit : FamilyFit
        Of one release (R = 1).
    law, steps
        Of the release.
    replicates : int
    rng : numpy.random.Generator

    Returns
    -------
    FamilyFit
        Of the drawn releases. Rows are drawn where that takes at most five million; where there are more,
        the sums are drawn as normal with the model's moments. For the target "data" the sums are the
        model's expectation, and only the noise differs. Where a unit may have several rows, all units have so many, and
        those of a unit are alike: no other dependence makes sums vary more.
    """
    problem, theta, alike = fit.problem, fit.params, fit.noise.rows_per_unit
    units = max(round(float(fit.size[0]) / alike), 1)
    count = units * alike
    moments = problem.moments(theta)
    if not fit.noise.population:
        sums = np.repeat(count * moments.mean, replicates, axis=0)
    elif units * replicates <= _MOST_DRAWS:
        block = max(_DRAWS_AT_ONCE // units, 1)
        sums = np.concatenate(
            [
                problem.features(problem.sample(theta[0], (min(block, replicates - done), units), rng)).sum(axis=1)
                for done in range(0, replicates, block)
            ]
        )
        sums = alike * sums
    else:
        root = root_of(moments.cov[0])
        sums = count * moments.mean + np.sqrt(alike * count) * rng.normal(size=(replicates, len(root))) @ root.T
    noise = law.rvs(replicates, rng) * np.asarray(steps, dtype=np.float64)
    return estimate(problem, fit.noise, sums + noise[:, 1:], count + noise[:, 0])
