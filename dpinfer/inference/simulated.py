"""Parametric bootstrap of a regression on noisy cross-products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.gram import GramFit, covariance, fit_gram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.release.laws import NoiseLaw

    Array = NDArray[np.float64]

__all__ = ["simulate_pivots"]

_BATCH = 500


def simulate_pivots(
    fit: GramFit, nobs: float, law: NoiseLaw, steps: Array, replicates: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draw releases from the fitted model and return how far their estimates fall from the truth.

    Given the regressors, ``X'e`` is normal with covariance ``s2 X'X`` and independent of the residual sum of
    squares, ``s2`` times chi-squared; to these exact draws the noise of the release is added by its own law,
    and the whole estimator is run again.

    Parameters
    ----------
    fit : GramFit
        The fit of the release (R = 1), with cross-products floored at the noise level.
    nobs : float
    law : NoiseLaw
        Law of the released upper triangle (further coordinates are ignored).
    steps : ndarray (m,)
        Size of an integer step of each coordinate.
    replicates : int
    rng : numpy.random.Generator

    Returns
    -------
    deviations : ndarray (B, p)
        Estimate minus truth.
    errors : ndarray (B, p, p)
        Covariance estimate of each replicate.
    """
    cross = fit.floored[0]
    rotated_truth = fit.mix.T @ fit.params[0]
    root = np.linalg.cholesky(cross)
    deviations, covariances = [], []
    for start in range(0, replicates, _BATCH):
        size = min(_BATCH, replicates - start)
        error = np.sqrt(fit.scale[0]) * (rng.normal(size=(size, root.shape[0])) @ root.T)
        if not fit.problem.population:
            error = np.zeros_like(error)
        sums = _assemble(fit, cross, rotated_truth, error, _residual(fit, error, cross, rng))
        sums = sums + _symmetric_noise(law, steps, sums.shape[-1], size, rng)
        again = fit_gram(fit.problem, sums, np.full(size, nobs))
        deviations.append(again.params - fit.params)
        covariances.append(sum(covariance(again)))
    return np.concatenate(deviations), np.concatenate(covariances)


def _residual(fit: GramFit, error: Array, cross: Array, rng: np.random.Generator) -> Array:
    """Sum of squared errors e'e given X'e: the part in the span of X, and chi-squared outside it."""
    if not fit.problem.population:
        return np.full(len(error), fit.scale[0] * max(fit.df_resid[0], 1.0))
    inside = np.einsum("ri,ij,rj->r", error, np.linalg.inv(cross), error)
    result: Array = inside + fit.scale[0] * rng.chisquare(max(fit.df_resid[0], 1.0), size=len(error))
    return result


def _assemble(fit: GramFit, cross: Array, beta: Array, error: Array, squares: Array) -> Array:
    """Return sums over the features that have these cross-products of regressors and response, (B, d, d).

    The features are completed by the pseudo-inverse of (rows; response): only their combinations in the
    regression are ever read again.
    """
    frame = np.vstack([fit.rows, fit.problem.response])
    moment = cross @ beta + error
    total = np.einsum("i,ij,j->", beta, cross, beta) + 2 * error @ beta + squares
    width = frame.shape[0]
    wanted = np.zeros((len(error), width, width))
    wanted[:, :-1, :-1] = cross
    wanted[:, :-1, -1] = wanted[:, -1, :-1] = moment
    wanted[:, -1, -1] = total
    back = np.linalg.pinv(frame)
    result: Array = np.einsum("da,rab,eb->rde", back, wanted, back)
    return result


def _symmetric_noise(law: NoiseLaw, steps: Array, width: int, size: int, rng: np.random.Generator) -> Array:
    upper = np.triu_indices(width)
    drawn = law.rvs(size, rng)[:, : len(upper[0])] * steps[: len(upper[0])]
    noise = np.zeros((size, width, width))
    noise[:, upper[0], upper[1]] = drawn
    noise[:, upper[1], upper[0]] = drawn
    return noise
