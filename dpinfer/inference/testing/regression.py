"""Joint tests of a linear regression on noisy cross-products, against simulated releases.

The statistic is the score statistic of the restrictions (`dpinfer.inference.score.score_joint`). Its null distribution
is drawn from the regression that meets the restrictions and is nearest to the estimate: errors enter by their exact law
given the regressors, privacy noise by its own, and the whole estimator is run again on every draw.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from dpinfer.inference.gram import GramFit, GramProblem, covariance, fit_gram
from dpinfer.inference.linear import release_matrices
from dpinfer.inference.restrictions import independent
from dpinfer.inference.score import score_joint
from dpinfer.inference.simulated import draw_noise, draw_sums

if TYPE_CHECKING:
    from dpinfer.inference.linear import LinearInference
    from dpinfer.numerics.arrays import Array
    from dpinfer.release.laws import NoiseLaw

__all__ = ["LinearRestrictions", "RestrictedFit", "gram_values", "released_values", "scale_error"]


_STEADY = 2.0
"""Standard errors of its privacy noise below which an error variance is not taken to be."""


@dataclass(frozen=True, slots=True)
class RestrictedFit:
    """R regressions that meet the restrictions.

    Attributes
    ----------
    fit : GramFit
        Unrestricted; regressors and error variance of the hypothesis are its own, see `LinearRestrictions`.
    params : ndarray (R, p)
        Coefficients that meet the restrictions.
    nobs : ndarray (R,)
        Number of rows, as released.
    """

    fit: GramFit
    params: Array
    nobs: Array


def gram_values(gram: Array, nobs: Array) -> Array:
    """Put numbers of rows (...) beside sums of z z' (..., d, d), as `LinearRestrictions` reads them, (..., 1 + d d)."""
    flat = gram.reshape(*gram.shape[:-2], gram.shape[-1] ** 2)
    return np.concatenate([np.asarray(nobs)[..., None], flat], axis=-1)


def scale_error(fit: GramFit) -> Array:
    """Return the standard error (R,) that privacy noise gives the error variances of R fits.

    The noise of the sum of squared residuals is ``a'E a`` for the residual a on the features, of variance
    ``sum_i a_i^4 N_ii + 4 sum_{i<j} a_i^2 a_j^2 N_ij``.
    """
    squared = (fit.problem.response - fit.params @ fit.problem.design) ** 2
    variance = 2 * ((squared @ fit.problem.noise) * squared).sum(axis=1) - squared**2 @ np.diag(fit.problem.noise)
    return np.asarray(np.sqrt(variance) / fit.df_resid)


def released_values(inference: LinearInference) -> Array:
    """Return the values (1 + d d,) of the release behind an inference."""
    sums, _ = release_matrices(inference.release, inference.fit.problem.design.shape[1])
    return gram_values(sums, np.asarray(inference.size))


@dataclass(frozen=True, eq=False)
class LinearRestrictions:
    """``restrictions @ beta = targets`` in a regression on noisy cross-products; implements `NullModel`.

    The values of a release are its number of rows and the sums of z z', see `gram_values`.

    Attributes
    ----------
    problem : GramProblem
        Its ``population`` says whether beta is that of the population or of the data; for the data only the noise is
        random.
    restrictions : ndarray (k, p)
        Linearly independent.
    targets : ndarray (k,)
    law : NoiseLaw
        Of the released upper triangle of the sums (further coordinates are ignored).
    steps : ndarray (m,)
        Size of an integer step of each coordinate.

    Raises
    ------
    InferenceError
        If the restrictions are linearly dependent.

    Notes
    -----
    The error variance s2 enters as ``sqrt(s2^2 + (2 e)^2)``, e the standard error that privacy noise gives it, in the
    release and in every draw alike. A statistic that divides by an s2 made small by noise is large by accident, and a
    null distribution simulated from that s2 would not show it. Where e is small the statistic is that of `score_joint`.

    The hypothesis nearest to an estimate b of covariance V (sampling and noise) is
    ``b - V R' (R V R')^-1 (R b - q)``. Given the regressors, ``X'e`` is normal with covariance ``s2 X'X`` and
    independent of the residual sum of squares, ``s2`` times chi-squared.
    """

    problem: GramProblem
    restrictions: Array
    targets: Array
    law: NoiseLaw
    steps: Array

    def __post_init__(self) -> None:
        independent(self.restrictions, self.targets)

    @classmethod
    def of(cls, inference: LinearInference, restrictions: Array, targets: Array) -> Self:
        """Restrictions on the regression of one release."""
        restrictions = np.atleast_2d(np.asarray(restrictions, dtype=np.float64))
        targets = np.broadcast_to(np.asarray(targets, dtype=np.float64), (len(restrictions),))
        release = inference.release
        return cls(inference.fit.problem, restrictions, targets, release.law, np.asarray(release.steps))

    @property
    def dof(self) -> int:
        """Number of restrictions."""
        return len(self.restrictions)

    def _refit(self, values: Array) -> GramFit:
        """Fits of R releases (R, m)."""
        width = self.problem.design.shape[1]
        fit = fit_gram(self.problem, values[:, 1:].reshape(-1, width, width), values[:, 0])
        return replace(fit, scale=np.hypot(fit.scale, _STEADY * scale_error(fit)))

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`: about chi-squared with `dof` degrees of freedom where noise is small."""
        flat = values.reshape(-1, values.shape[-1])
        found = np.full(len(flat), np.nan)
        usable = np.flatnonzero(np.isfinite(flat).all(axis=1))
        if usable.size:
            found[usable] = self._statistics(flat[usable])
        return np.where(np.isfinite(found), found, np.nan).reshape(values.shape[:-1])

    def _statistics(self, values: Array) -> Array:
        """Statistics (R,), NaN where the equations of a release cannot be solved."""
        try:
            with np.errstate(all="ignore"):
                return score_joint(self._refit(values), self.restrictions, self.targets[None])[0]
        except np.linalg.LinAlgError:
            if len(values) == 1:
                return np.full(1, np.nan)
            middle = len(values) // 2
            return np.concatenate([self._statistics(values[:middle]), self._statistics(values[middle:])])

    def fit(self, values: Array) -> RestrictedFit:
        """Fit the hypothesis to R releases (R, m)."""
        fit = self._refit(values)
        total = np.add(*covariance(fit))
        crossed = total @ self.restrictions.T
        spread = self.restrictions @ crossed
        distance = fit.params @ self.restrictions.T - self.targets
        solved = np.linalg.pinv(spread, hermitian=True) @ distance[..., None]
        return RestrictedFit(fit, fit.params - (crossed @ solved)[..., 0], values[:, 0])

    def draw(self, fitted: RestrictedFit, size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`: (R, size, 1 + d d)."""
        sums = draw_sums(fitted.fit, fitted.params, size, rng)
        noise = draw_noise(self.law, self.steps, sums.shape[-1], len(sums) * size, rng).reshape(sums.shape)
        sums += noise
        return gram_values(sums, fitted.nobs[:, None] + noise[..., 0, 0])
