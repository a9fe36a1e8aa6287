"""Parametric bootstrap of a regression on noisy cross-products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpinfer.display.progress import watch
from dpinfer.inference.gram import GramFit, covariance, fit_gram
from dpinfer.numerics.forms import symmetric

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array
    from dpinfer.release.laws import NoiseLaw

__all__ = ["draw_noise", "draw_sums", "simulate_pivots"]

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
    steps = np.asarray(steps)
    deviations, covariances = [], []
    with watch("simulated releases", total=replicates, unit=" releases") as counted:
        for start in range(0, replicates, _BATCH):
            size = min(_BATCH, replicates - start)
            sums = draw_sums(fit, fit.params, size, rng)[0]
            sums += draw_noise(law, steps, sums.shape[-1], size, rng)
            again = fit_gram(fit.problem, sums, np.full(size, nobs))
            deviations.append(again.params - fit.params)
            covariances.append(sum(covariance(again)))
            counted(size)
    return np.concatenate(deviations), np.concatenate(covariances)


def draw_sums(fit: GramFit, params: Array, size: int, rng: np.random.Generator) -> Array:
    """Draw sums of z z' (R, size, d, d) from the models of R fits, given their regressors and without privacy noise.

    Cross-products (floored) and error variances of the models are those of the fits; the coefficients are ``params``
    (R, p). The sums are right in every combination of features that the regression reads.
    """
    cross = fit.floored
    beta = params @ fit.mix
    error = np.zeros((len(cross), size, cross.shape[-1]))
    drawn = rng.normal(size=error.shape)
    if fit.problem.population:
        error = np.sqrt(fit.sampling_scale)[:, None, None] * (drawn @ np.swapaxes(np.linalg.cholesky(cross), 1, 2))
    return _assemble(fit, beta, error, _residual(fit, error, rng))


def _residual(fit: GramFit, error: Array, rng: np.random.Generator) -> Array:
    """Sum of squared errors e'e given X'e: the part in the span of X, and chi-squared outside it, (R, size)."""
    df = np.maximum(fit.df_resid, 1.0)[:, None]
    units = np.maximum(fit.df_units, 1.0)[:, None]
    if not fit.problem.population:
        return np.broadcast_to(fit.scale[:, None] * df, error.shape[:2])
    inside = ((error @ np.linalg.inv(fit.floored)) * error).sum(axis=-1)
    outside = rng.chisquare(units, size=error.shape[:2]) * (df / units)
    return np.asarray(inside + fit.scale[:, None] * outside)


def _assemble(fit: GramFit, beta: Array, error: Array, squares: Array) -> Array:
    """Return sums over the features that have these cross-products of regressors and response, (R, size, d, d).

    The features are completed by the pseudo-inverse of (rows; response): only their combinations in the
    regression are ever read again.
    """
    cross = fit.floored
    frame = np.vstack([fit.rows, fit.problem.response])
    fitted = np.einsum("rij,rj->ri", cross, beta)
    moment = fitted[:, None, :] + error
    total = (fitted * beta).sum(axis=1)[:, None] + 2 * np.einsum("rbi,ri->rb", error, beta) + squares
    width = frame.shape[0]
    wanted = np.zeros((*squares.shape, width, width))
    wanted[..., :-1, :-1] = cross[:, None]
    wanted[..., :-1, -1] = wanted[..., -1, :-1] = moment
    wanted[..., -1, -1] = total
    back = np.linalg.pinv(frame)
    return back @ wanted @ back.T


def draw_noise(law: NoiseLaw, steps: Array, width: int, size: int, rng: np.random.Generator) -> Array:
    """Draw the noise of a released upper triangle, as symmetric matrices (size, width, width)."""
    count = width * (width + 1) // 2
    return symmetric(law.rvs(size, rng)[:, :count] * steps[:count], width)
