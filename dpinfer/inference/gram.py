"""Least squares from noisy cross-products: estimates and covariance.

Everything here is a function of arrays, vectorised over replicates: the leading axis ``R`` of the
arrays of a `GramFit` is 1 for one release and the number of simulated releases in a study.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array

__all__ = [
    "KAPPA_RELIABLE",
    "GramFit",
    "GramProblem",
    "covariance",
    "fit_gram",
    "noise_action",
    "noise_level",
]

KAPPA_RELIABLE = 3.0
"""Below this ratio of the smallest eigenvalue to the noise, a fit is called noise-dominated."""

_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class GramProblem:
    """A regression posed on noisy cross-products of d measured features z.

    Attributes
    ----------
    noise : ndarray (d, d)
        Variance of the noise of each entry of the (symmetric) noisy sum of z z'.
    design : ndarray (p, d)
        The regressors are ``design @ z``; full row rank.
    response : ndarray (d,)
        The dependent variable is ``response @ z``.
    laplace : bool
        Whether the noise is Laplace (else Gaussian).
    population : bool
        Whether the target is the population; otherwise only the noise counts as error.
    rows_per_unit : int
        Rows of one independent unit at most: the sampling covariance is multiplied by it.
    """

    noise: Array
    design: Array
    response: Array
    laplace: bool = False
    population: bool = True
    rows_per_unit: int = 1


@dataclass(frozen=True, slots=True)
class GramFit:
    """Estimates of a `GramProblem`, in coordinates with ``design = mix @ rows``, orthonormal ``rows``.

    Attributes
    ----------
    problem : GramProblem
    rows : ndarray (p, d)
        Orthonormal rows spanning the design.
    mix : ndarray (p, p)
        ``design = mix @ rows``; a contrast c of the coefficients is ``solve(mix, c)`` here.
    inverse : ndarray (R, p, p)
        Inverse of the noisy cross-products of the rotated regressors (they may be indefinite).
    floored : ndarray (R, p, p)
        The same cross-products with eigenvalues floored at the noise level.
    plain : ndarray (R, p)
        Solution of the noisy normal equations, rotated.
    params : ndarray (R, p)
        Coefficients of the design: the plain solution, or the floored one where the smallest
        eigenvalue is below the noise level.
    scale : ndarray (R,)
        Error variance, kept between zero and the noisy mean square of the response.
    kappa : ndarray (R,)
        Smallest eigenvalue over the noise level ``2 sqrt(v p)``.
    df_resid : ndarray (R,)
    rsquared : ndarray (R,)
    """

    problem: GramProblem
    rows: Array
    mix: Array
    inverse: Array
    floored: Array
    plain: Array
    params: Array
    scale: Array
    kappa: Array
    df_resid: Array
    rsquared: Array

    @property
    def sampling_scale(self) -> Array:
        """What the inverse cross-products are multiplied by for the sampling covariance (R,)."""
        return np.asarray(self.scale * self.df_resid / self.df_units)

    @property
    def df_units(self) -> Array:
        """Residual degrees of freedom of independent units, of which there may be fewer than rows (R,)."""
        if self.problem.rows_per_unit == 1:
            return self.df_resid
        size = self.df_resid + self.rows.shape[0]
        return np.asarray(np.maximum(size / self.problem.rows_per_unit - self.rows.shape[0], 1.0))


def noise_level(noise: Array, rows: Array) -> float:
    """Spectral size of the noise in the rotated cross-products: ``2 sqrt(v p)`` for equal scales."""
    squared = rows**2
    row_sums = (squared @ noise @ squared.T).sum(axis=1) - 0.5 * np.diag(squared @ noise @ squared.T)
    return float(2 * np.sqrt(row_sums.max()))


def noise_action(problem: GramProblem, residual: Array, weight: Array) -> Array:
    """Covariance of ``E @ residual`` applied to ``weight``, for the symmetric noise E; both (..., d).

    Entry i of ``E @ a`` has variance ``sum_j N_ij a_j^2``, and entries i != k have covariance
    ``N_ik a_i a_k``, since the two triangles of E are one draw.
    """
    diagonal = np.diag(problem.noise)
    cross = (residual * weight) @ problem.noise - residual * weight * diagonal
    return weight * ((residual**2) @ problem.noise) + residual * cross


def fit_gram(problem: GramProblem, gram: Array, nobs: Array, penalty: tuple[Array, Array] | None = None) -> GramFit:
    """Solve the noisy normal equations of R releases.

    ``gram`` (R, d, d) holds noisy sums of z z', the first feature the constant 1; ``nobs`` (R,) is public or released.
    ``penalty`` is added to the normal equations of the rotated regressors: a matrix (R, p, p), and a vector (R, p) for
    their right side.
    """
    orthonormal, upper = np.linalg.qr(problem.design.T)
    rows, mix = orthonormal.T, upper.T
    cross = rows @ gram @ rows.T
    onto = gram @ problem.response
    moment, total = onto @ rows.T, onto @ problem.response
    first = gram[:, 0, :] @ problem.response
    size = np.maximum(nobs, rows.shape[0] + 1.0)
    spread = float(np.sqrt(problem.response**2 @ problem.noise @ problem.response**2))
    solved, towards = (cross, moment) if penalty is None else (cross + penalty[0], moment + penalty[1])
    eigenvalues, vectors = np.linalg.eigh(solved)
    level = noise_level(problem.noise, rows)
    floor = np.maximum(level, _TINY * np.abs(eigenvalues).max(axis=1))[:, None]
    kept = np.maximum(eigenvalues, floor)
    safe = np.where(np.abs(eigenvalues) < _TINY * floor, _TINY * floor, eigenvalues)
    back = np.swapaxes(vectors, 1, 2)
    inverse, floored = (vectors / safe[:, None, :]) @ back, (vectors * kept[:, None, :]) @ back
    plain = (inverse @ towards[..., None])[..., 0]
    stable = (vectors @ ((back @ towards[..., None])[..., 0] / kept)[..., None])[..., 0]
    rotated = np.where(eigenvalues[:, :1] >= floor, plain, stable)
    df_resid = size - rows.shape[0]
    fitted = 2 * np.einsum("ri,ri->r", rotated, moment) - np.einsum("ri,rij,rj->r", rotated, cross, rotated)
    residual = total - fitted
    cap = np.maximum(np.maximum(total, spread), 1e-300)
    centred = np.maximum(total - first**2 / size, _TINY * cap)
    return GramFit(
        problem=problem,
        rows=rows,
        mix=mix,
        inverse=inverse,
        floored=floored,
        plain=plain,
        params=np.linalg.solve(mix.T, rotated.T).T,
        scale=np.clip(residual / df_resid, _TINY * cap / size, cap / size),
        kappa=eigenvalues[:, 0] / max(level, 1e-300),
        df_resid=df_resid,
        rsquared=np.clip(1 - residual / centred, 0, 1),
    )


def covariance(fit: GramFit) -> tuple[Array, Array]:
    """Return sampling and noise covariance of the coefficients at the estimate, each (R, p, p).

    Inverses are those of the floored cross-products, so that both parts are positive semidefinite.
    """
    bread = np.linalg.solve(fit.mix.T, np.linalg.inv(fit.floored))
    sampling = fit.sampling_scale[:, None, None] * np.einsum("rij,rjk,rlk->ril", bread, fit.floored, bread)
    residual = fit.problem.response - fit.params @ fit.problem.design
    weights = bread @ fit.rows
    acted = noise_action(fit.problem, residual[:, None, :], weights)
    noise = np.einsum("rid,rjd->rij", weights, acted)
    if not fit.problem.population:
        sampling = np.zeros_like(sampling)
    return sampling, 0.5 * (noise + np.swapaxes(noise, 1, 2))
