"""Linear regression inferred from a release of cross-products."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy import stats

from dpinfer.errors import InferenceError
from dpinfer.inference.base import TARGETS, BaseInference, check_simulation
from dpinfer.inference.contrasts import Contrasts, rows_of, simulated_critical, simulated_pvalue, variance_of
from dpinfer.inference.gram import (
    KAPPA_RELIABLE,
    GramFit,
    GramProblem,
    covariance,
    fit_gram,
)
from dpinfer.inference.rare import Ridge, ridges
from dpinfer.inference.restrictions import independent, wald_lengths, wald_statistic
from dpinfer.inference.score import joint_loadings, score_interval, score_joint, score_pvalue
from dpinfer.inference.simulated import simulate_pivots
from dpinfer.numerics.forms import symmetric
from dpinfer.numerics.tails import joint_pvalue

if TYPE_CHECKING:
    from dpinfer.inference.rare import LevelColumns
    from dpinfer.numerics.arrays import Array
    from dpinfer.release.release import Release

__all__ = ["METHODS", "TARGETS", "LinearInference", "linear_inference", "release_matrices"]

METHODS = ("auto", "wald", "score", "simulated")


def release_matrices(release: Release, width: int) -> tuple[Array, Array]:
    """Noisy sums of z z' and the variances of their noise, each (d, d).

    Parameters
    ----------
    release : Release
        Holding the upper triangle of d features, row by row.
    width : int
        The number of features d.

    Raises
    ------
    InferenceError
        If the release holds too few sums.
    """
    count = width * (width + 1) // 2
    if len(release.values) < count:
        raise InferenceError(f"the release holds {len(release.values)} sums, {count} are needed for {width} features")
    return symmetric(release.array, width), symmetric(release.noise_variances, width)


@dataclass(frozen=True, eq=False)
class LinearInference(BaseInference):
    """Least squares on noisy cross-products; implements `Inference`.

    Attributes
    ----------
    release : Release
    fit : GramFit
        One replicate.
    names : tuple of str, length p
    nobs : float or None
    nobs_is_public : bool
    size : float
        The count of rows that the inference divides by.
    method : {"wald", "score", "simulated"}
    replicates, seed : int
        Number of simulated releases and their public seed, for "simulated".
    notes : tuple of str
        Further warnings, from other parts of the release.
    ridge : Ridge or None
        Where some levels are near-empty: the ridge on them that is in ``fit``. The method is then "score".
    """

    release: Release
    fit: GramFit
    names: tuple[str, ...]
    nobs: float | None
    nobs_is_public: bool
    size: float
    method: str
    replicates: int
    seed: int
    notes: tuple[str, ...] = ()
    ridge: Ridge | None = None

    methods = METHODS

    @cached_property
    def _covariances(self) -> tuple[Array, Array]:
        sampling, noise = covariance(self.fit) if self.ridge is None else self.ridge.covariance()
        return sampling[0], noise[0]

    @property
    def params(self) -> Array:
        """Point estimates (p,)."""
        return np.asarray(self.fit.params[0])

    @property
    def cov_sampling(self) -> Array:
        """Covariance from sampling (p, p)."""
        return self._covariances[0]

    @property
    def cov_noise(self) -> Array:
        """Covariance from privacy noise (p, p)."""
        return self._covariances[1]

    @property
    def target(self) -> str:
        """What is estimated: the population or the data themselves."""
        return "population" if self.fit.problem.population else "data"

    @property
    def df_resid(self) -> float:
        """Residual degrees of freedom; infinite where only the noise counts."""
        return float(self.fit.df_units[0]) if self.fit.problem.population else np.inf

    @property
    def _residual_is_positive(self) -> bool:
        return bool(self.fit.rsquared[0] < 1)

    @property
    def scale(self) -> float | None:
        """Error variance; None where its noisy estimate is not positive."""
        return float(self.fit.scale[0]) if self._residual_is_positive else None

    @property
    def rsquared(self) -> float | None:
        """Coefficient of determination, at least 0; None where the noisy error variance is not positive."""
        return float(self.fit.rsquared[0]) if self._residual_is_positive else None

    @property
    def kappa(self) -> float:
        """Smallest eigenvalue of the scaled cross-products over the noise level, near-empty levels left out."""
        return float(self.fit.kappa[0] if self.ridge is None else self.ridge.rest[0])

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, from released numbers only."""
        found = [] if self.ridge is None else [self.ridge.warning]
        if self.kappa < 1:
            found.append(
                f"privacy noise dominates: the smallest eigenvalue of the noisy cross-products is {self.kappa:.2g} "
                "times the noise level and was raised to it; read the intervals, not the estimates"
            )
        elif self.kappa < KAPPA_RELIABLE:
            found.append(
                f"privacy noise dominates some direction: eigenvalue {self.kappa:.2g} times the noise level, below "
                f"{KAPPA_RELIABLE:g}; estimates are biased toward zero and intervals may be wide or infinite"
            )
        if self.release.nobs is None and self.size <= len(self.names) + 1:
            found.append("the noisy number of rows is not larger than the number of coefficients")
        if not self._residual_is_positive:
            found.append("the noisy error variance is not positive: it and R-squared cannot be told")
        return (*found, *self.notes)

    def with_method(self, method: str) -> Self:
        """Return the same estimates under another inference method; beside near-empty levels there is one.

        Raises
        ------
        OptionError
            If there is no such method.
        """
        chosen = super().with_method(method)
        return chosen if self.ridge is None else replace(chosen, method="score")

    @cached_property
    def _pivots(self) -> tuple[Array, Array]:
        rng = np.random.default_rng(self.seed)
        steps = np.asarray(self.release.steps)
        return simulate_pivots(self.fit, self.size, self.release.law, steps, self.replicates, rng)

    def _wald(self, contrasts: Array) -> Contrasts:
        error = np.sqrt(variance_of(contrasts, self.cov_sampling + self.cov_noise))
        return Contrasts(contrasts @ self.params, error, self.df_resid)

    def _simulated(self, contrasts: Array) -> Array:
        """Absolute pivots (B, k)."""
        deviations, covariances = self._pivots
        errors = np.sqrt(np.einsum("kp,bpq,kq->bk", contrasts, covariances, contrasts))
        return np.asarray(np.abs(deviations @ contrasts.T) / errors)

    def intervals(self, contrasts: Array, alpha: float) -> Array:
        """Intervals of level ``1 - alpha`` for each row of ``contrasts`` (k, p), as (k, 2); may be infinite."""
        contrasts = rows_of(contrasts)
        if self.ridge is not None:
            return np.asarray(self.ridge.intervals(contrasts, alpha)[0])
        if self.method == "score":
            return np.asarray(score_interval(self.fit, contrasts, alpha)[0])
        found = self._wald(contrasts)
        if self.method == "wald":
            return found.intervals(alpha)
        return found.ends(simulated_critical(self._simulated(contrasts), alpha))

    def contrast_pvalues(self, contrasts: Array, values: Array) -> Array:
        """Two-sided p-values (k,) of ``contrasts @ params = values``."""
        contrasts = rows_of(contrasts)
        values = np.broadcast_to(np.asarray(values, dtype=np.float64), (len(contrasts),))
        if self.ridge is not None:
            return np.asarray(self.ridge.pvalues(contrasts, values[None])[0])
        if self.method == "score":
            return np.asarray(score_pvalue(self.fit, contrasts, values[None])[0])
        found = self._wald(contrasts)
        if self.method == "wald":
            return found.pvalues(values)
        return simulated_pvalue(self._simulated(contrasts), found.distances(values))

    def wald(self, restrictions: Array, values: Array) -> tuple[float, float, float]:
        """Joint test of ``restrictions @ params = values``: statistic (chi-squared), degrees of freedom, p-value."""
        restrictions, values, count = independent(restrictions, values)
        if self.ridge is not None:
            statistic_ridge, pvalue = self.ridge.joint(restrictions, values)
            return statistic_ridge, count, pvalue
        if self.method == "score":
            statistic, df = score_joint(self.fit, restrictions, values[None])
            if count == 1:
                return float(statistic[0]), count, float(score_pvalue(self.fit, restrictions, values[None])[0, 0])
            loadings = joint_loadings(self.fit, restrictions)
            own = None if loadings is None else loadings[0]
            return float(statistic[0]), count, joint_pvalue(float(statistic[0]), count, float(df[0]), own)
        statistic_wald = wald_statistic(self, restrictions, values)
        if self.method == "wald":
            return statistic_wald, count, float(stats.f.sf(statistic_wald / count, count, self.df_resid))
        deviations, covariances = self._pivots
        drawn = wald_lengths(deviations @ restrictions.T, restrictions @ covariances @ restrictions.T)
        return statistic_wald, count, float(simulated_pvalue(drawn, statistic_wald))


def linear_inference(
    release: Release,
    *,
    design: Array,
    response: Array,
    names: tuple[str, ...],
    method: str = "auto",
    target: str = "population",
    replicates: int = 999,
    seed: int = 0,
    weighted: bool = False,
    rows_per_unit: int = 1,
    notes: tuple[str, ...] = (),
    levels: LevelColumns | None = None,
) -> LinearInference:
    """Infer a linear regression from a release of cross-products.

    Parameters
    ----------
    release : Release
    design : ndarray (p, d)
        Regressors as combinations of the released features.
    response : ndarray (d,)
        The dependent variable as a combination of the released features.
    names : tuple of str, length p
    method : {"auto", "wald", "score", "simulated"}
        ``"auto"`` is the score method.
    target : {"population", "data"}
        What is estimated; for ``"data"`` only the noise counts as error.
    replicates, seed : int
        For ``"simulated"``.
    weighted : bool
        Whether rows were down-weighted by a norm bound, so that the first sum is not the number of rows.
    rows_per_unit : int
        Rows of one independent unit at most: the sampling covariance is multiplied by it.
    notes : tuple of str
        Further warnings to carry.
    levels : LevelColumns, optional
        Columns of single levels: a ridge goes to those that are near-empty.

    Returns
    -------
    LinearInference

    Raises
    ------
    OptionError
        If an option has no such value.
    """
    check_simulation(target, replicates)
    sums, noise = release_matrices(release, design.shape[1])
    laplace = release.law.family == "laplace"
    problem = GramProblem(noise, design, response, laplace, target == "population", rows_per_unit)
    size = float(sums[0, 0])
    exact = release.law.scales[0] == 0.0
    nobs = np.array([size])
    fit = fit_gram(problem, sums[None], nobs)
    ridge = None if levels is None else next((one for _, one in ridges(fit, sums[None], nobs, levels)), None)
    unknown = LinearInference(
        release=release,
        fit=fit if ridge is None else ridge.fit,
        names=names,
        nobs=(None if release.nobs is None else float(release.nobs)) if weighted else size,
        nobs_is_public=(release.nobs is not None) if weighted else exact,
        size=size,
        method="score",
        replicates=replicates,
        seed=seed,
        notes=notes,
        ridge=ridge,
    )
    return unknown.with_method(method)
