"""Inference from released numbers: what every method offers, linear combinations, joint tests, joint intervals."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy import stats

from dpinfer.errors import InferenceError, OptionError
from dpinfer.statistics.arrays import root_of
from dpinfer.statistics.tails import critical_value, pvalue_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from dpinfer.kernel.measurement import Measurement
    from dpinfer.kernel.stage import Context
    from dpinfer.release import NoiseLaw, Release
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array, Mask, Places
    from dpinfer.statistics.noise import NoiseSums


@dataclass(frozen=True, eq=False)
class Inference:
    """Estimates of R releases with sampling and noise covariance, and one method for intervals and tests alike.

    One release is a user's, thousands are a study's. A topic says what its combinations are (`_linear`), and where its
    method inverts a test of its own also what that gives (`_ends`, `_tails`, `_joint`). Everything is computed from
    released numbers. ``p`` is the number of parameters; what follows is of one release.

    Attributes
    ----------
    names : tuple of str, length p
        Parameter names, in order.
    method : str
        "wald", "score", "simulated" or "exact": the one method behind intervals and p-values.
    target : {"population", "data"}
    nobs : float or None
        The number of rows as released (noisy) or as public; None where it is neither.
    nobs_is_public : bool
        Whether ``nobs`` is exact and public.
    notes : tuple of str
        Further warnings, from other parts of the release.
    replicates, seed : int
        Number of simulated releases and their public seed, for "simulated".
    params : ndarray (p,)
        Point estimates.
    cov_sampling, cov_noise : ndarray (p, p)
        Covariance from sampling and from privacy noise, each positive semidefinite; their sum is
        positive definite. ``cov_sampling`` is zero where the target is the data themselves.
    df_resid : float
        Residual degrees of freedom used by the inference (numpy.inf for a normal reference).
    scale, rsquared : float or None
        Error variance and coefficient of determination, where the model has them.
    flags : tuple of str
        Plain sentences that warn the reader, e.g. that noise dominates; empty when all is well.
    flagged : ndarray of bool (R,)
        Whether a release carries a warning, for studies.
    """

    names: tuple[str, ...]
    _: KW_ONLY
    method: str = "auto"
    target: str = "population"
    nobs: float | None = None
    nobs_is_public: bool = False
    notes: tuple[str, ...] = ()
    replicates: int = 999
    seed: int = 0

    methods: ClassVar[tuple[str, ...]]
    automatic: ClassVar[str] = "score"
    """What "auto" stands for."""

    if TYPE_CHECKING:

        @property
        def params(self) -> Array:
            """See the class."""

        @property
        def cov_sampling(self) -> Array:
            """See the class."""

        @property
        def cov_noise(self) -> Array:
            """See the class."""

        @property
        def flags(self) -> tuple[str, ...]:
            """See the class."""

    def __post_init__(self) -> None:
        if self.method == "auto":
            object.__setattr__(self, "method", self.automatic)

    @property
    def df_resid(self) -> float:
        """Infinite: a normal reference, or degrees of freedom that each interval has of its own."""
        return np.inf

    @property
    def scale(self) -> float | None:
        """None: no error variance."""
        return None

    @property
    def rsquared(self) -> float | None:
        """None: nothing is explained by other columns."""
        return None

    @property
    def flagged(self) -> Any:
        """False: no release carries a warning."""
        return False

    # What a topic says, of rows of weights (k, p); arrays (R, k), or (k,) of an inference that is of one release

    def _linear(self, rows: Array) -> Any:
        """Return combinations of the estimates, as `Contrasts` where these answer all that is asked."""
        raise NotImplementedError

    def _ends(self, rows: Array, alpha: float) -> Array:
        """Intervals (..., k, 2) of combinations."""
        found = self._linear(rows)
        if self.method == "simulated":
            return np.asarray(found.ends(simulated_critical(self._pivots(rows), alpha)))
        return np.asarray(found.intervals(alpha))

    def _tails(self, rows: Array, values: Array) -> Array:
        """Two-sided p-values (..., k) of values (k,) of combinations."""
        found = self._linear(rows)
        if self.method == "simulated":
            return simulated_pvalue(self._pivots(rows), found.distances(values).reshape(-1))
        return np.asarray(found.pvalues(values))

    def _pivots(self, rows: Array) -> Array:
        """Absolute studentised deviations (B, k) of combinations of simulated releases."""
        raise NotImplementedError

    def _joint(self, rows: Array, values: Array) -> tuple[float, float]:
        """Statistic and p-value of independent restrictions of one release; of one restriction `_tails` has it."""
        raise NotImplementedError

    # What is asked

    def intervals(self, contrasts: Array, alpha: float) -> Array:
        """Intervals of level ``1 - alpha`` for each row of ``contrasts`` (k, p), as (k, 2); may be infinite.

        A row of zeros, such as that of a prediction where all regressors are 0, is 0 whatever the estimates are.
        """
        rows = rows_of(contrasts)
        asked, found = rows.any(axis=1), np.zeros((len(rows), 2))
        if asked.any():
            found[asked] = self._ends(rows[asked], alpha).reshape(-1, 2)
        return found

    def contrast_pvalues(self, contrasts: Array, values: Array) -> Array:
        """Two-sided p-values (k,) of ``contrasts @ params = values``."""
        rows = rows_of(contrasts)
        values = np.broadcast_to(np.asarray(values, dtype=np.float64), (len(rows),))
        asked, found = rows.any(axis=1), np.where(values == 0, 1.0, 0.0)
        if asked.any():
            found[asked] = self._tails(rows[asked], values[asked]).reshape(-1)
        return found

    def wald(self, restrictions: Array, values: Array) -> tuple[float, float, float]:
        """Joint test of ``restrictions @ params = values``: statistic (chi-squared), degrees of freedom, p-value.

        One restriction has the p-value of `contrast_pvalues`: one hypothesis, one law.

        Raises
        ------
        InferenceError
            If the restrictions are linearly dependent.
        """
        rows, values, count = independent(restrictions, values)
        statistic, pvalue = self._joint(rows, values)
        if len(rows) == 1 and statistic > 0:  # nothing speaks against what has a statistic of 0
            pvalue = float(self.contrast_pvalues(rows, values)[0])
        return statistic, count, pvalue

    def batch(self, alpha: float, contrasts: Mapping[str, Mapping[str, float]] | None = None) -> BatchEstimates:
        """Infer the parameters, and contrasts (weights by parameter, by name), of all R releases at once."""
        rows = contrast_rows(self.names, contrasts)
        found = self._linear(rows)
        return BatchEstimates(
            names=(*self.names, *(contrasts or {})),
            params=found.center,
            bse=np.broadcast_to(found.error, found.center.shape),
            pvalues=self._tails(rows, np.zeros(len(rows))),
            intervals=self._ends(rows, alpha),
            flagged=np.broadcast_to(self.flagged, len(found.center)),
        )

    def with_method(self, method: str) -> Self:
        """Return the same estimates under another inference method.

        Raises
        ------
        OptionError
            If it is none of ``methods``.
        """
        if method not in self.methods:
            raise OptionError("inference", method, self.methods)
        chosen = self.automatic if method == "auto" else method
        return self if chosen == self.method else replace(self, method=chosen)


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


@dataclass(frozen=True, eq=False, slots=True)
class Released:
    """R releases of one question at one price; R = 1 is a user's, R = thousands a study's.

    Attributes
    ----------
    context : Context
        What is public about the run.
    rows : RowSum
        What was summed.
    names : tuple of str, length m
        What each sum is.
    law : NoiseLaw
        Noise of every sum.
    steps : ndarray (m,)
        Size of one integer step of every sum.
    values : ndarray (R, m)
        Noisy sums of every release, in units of the scaled features.
    """

    context: Context
    rows: Any
    names: tuple[str, ...]
    law: NoiseLaw
    steps: Array
    values: Array

    @classmethod
    def of_study(cls, measured: Measurement, values: Array) -> Released:
        """Return the releases of a study's data sets: ``values`` (R, m)."""
        steps = np.asarray(measured.steps)
        return cls(measured.context, measured.rows, measured.names, measured.law, steps, values)

    @classmethod
    def of_release(cls, release: Release, context: Context, rows: Any) -> Released:
        """Return one release."""
        return cls(context, rows, release.names, release.law, np.asarray(release.steps), release.array[None])

    @property
    def noise_variances(self) -> Array:
        """Variance of the noise of every sum (m,), in units of the scaled features."""
        return self.law.variances * self.steps**2

    @property
    def schema(self) -> Schema:
        """The public schema, with the people where they are the unit of protection."""
        return self.context.schema

    @property
    def nobs(self) -> int | None:
        """The number of rows of each data set where it is public."""
        return self.context.nobs


def rows_of(contrasts: ArrayLike) -> Array:
    """Return weights as rows (k, p)."""
    return np.atleast_2d(np.asarray(contrasts, dtype=np.float64))


def contrast_rows(names: tuple[str, ...], contrasts: Mapping[str, Mapping[str, float]] | None) -> Array:
    """Return the identity for the coefficients and a row of weights for each contrast, (p + k, p)."""
    rows = [[float(weights.get(name, 0.0)) for name in names] for weights in (contrasts or {}).values()]
    return np.vstack([np.eye(len(names)), *rows]) if rows else np.eye(len(names))


def single(rows: Array) -> Places:
    """Say which parameter a row of weights (k, p) is, where it is one of them and nothing else; else -1."""
    alone = ((rows != 0).sum(axis=1) == 1) & (rows.sum(axis=1) == 1)
    return np.where(alone, np.argmax(rows, axis=1), -1)


def combined(rows: Array, values: Array) -> Array:
    """Combine values (p,) by rows of weights, (k,); NaN where a value that has a weight is NaN."""
    gone = np.isnan(values)
    return np.where((rows != 0)[:, gone].any(axis=1), np.nan, rows @ np.where(gone, 0.0, values))


def variance_of(rows: Array, covariance: Array) -> Array:
    """Variances (..., k) of combinations (k, p), from the covariance (..., p, p) of what they combine."""
    return np.asarray(((rows @ covariance) * rows).sum(axis=-1))


@dataclass(frozen=True, slots=True)
class Contrasts:
    """Estimates of combinations, and the law of their errors; arrays of one shape (...).

    Attributes
    ----------
    center, error : ndarray (...)
        Estimates and standard errors; infinite errors make intervals unbounded and p-values 1.
    df : ndarray (...) or None
        Degrees of freedom at which the variance is known; None where it is known exactly.
    shares : ndarray (..., m) or None
        Share of the variance that each Laplace variable carries; None where all noise is normal.
    noise : NoiseSums or None
        The errors themselves, where they are nothing but noise whose discrete law is known.
    """

    center: Array
    error: Array
    df: Array | float | None = None
    shares: Array | None = None
    noise: NoiseSums | None = None

    @property
    def least_df(self) -> float:
        """Fewest degrees of freedom among all combinations."""
        return np.inf if self.df is None else float(np.min(self.df))

    def intervals(self, alpha: float) -> Array:
        """Intervals of level ``1 - alpha`` (..., 2)."""
        half = critical_value(alpha, self.df, self.shares) * self.error
        return self._around(half if self.noise is None else self.noise.reach(alpha, half))

    def ends(self, critical: Array) -> Array:
        """Intervals (..., 2) of so many standard errors to both sides."""
        return self._around(critical * self.error)

    def _around(self, half: Array) -> Array:
        return np.stack([self.center - half, self.center + half], axis=-1)

    def distances(self, values: Array | float) -> Array:
        """Distances (...) from values, in standard errors."""
        return np.asarray(np.abs(self.center - values) / self.error)

    def pvalues(self, values: Array | float = 0.0) -> Array:
        """Two-sided p-values (...) of values."""
        found = pvalue_of(self.distances(values), self.df, self.shares)
        return found if self.noise is None else self.noise.tails(np.abs(self.center - values), found)


def simulated_pvalue(drawn: Array, observed: Array | float) -> Array:
    """P-value (...) of observed statistics among drawn ones (B, ...)."""
    return np.asarray((1.0 + (drawn >= observed).sum(axis=0)) / (len(drawn) + 1.0))


def simulated_critical(drawn: Array, alpha: float) -> Array:
    """Value (...) that drawn statistics (B, ...) exceed with probability alpha; infinite with too few draws."""
    rank = int(np.ceil((1 - alpha) * (len(drawn) + 1)))
    return np.sort(drawn, axis=0)[rank - 1] if rank <= len(drawn) else np.full(drawn.shape[1:], np.inf)


def independent(restrictions: ArrayLike, values: ArrayLike) -> tuple[Array, Array, float]:
    """Return restrictions (k, p), what they are to equal (k,), and k.

    Raises
    ------
    InferenceError
        If the restrictions are linearly dependent.
    """
    rows = np.atleast_2d(np.asarray(restrictions, dtype=np.float64))
    rank = int(np.linalg.matrix_rank(rows))
    if rank < len(rows):
        raise InferenceError(f"the {len(rows)} restrictions are linearly dependent (rank {rank})")
    return rows, np.broadcast_to(np.asarray(values, dtype=np.float64), (len(rows),)), float(rank)


def wald_lengths(distances: Array, covariances: Array) -> Array:
    """Squared lengths (...) of distances (..., k), each in units of its covariance (..., k, k)."""
    solved = np.linalg.solve(covariances, distances[..., None])[..., 0]
    return np.asarray((distances * solved).sum(axis=-1))


_DRAWS, _SEED = 20_000, 0
_MOST = 500
"""Estimates up to which the largest deviation is simulated; of more, Sidak's level serves."""

_NOTHING = 1e-12


@lru_cache(maxsize=2)
def _drawn(count: int) -> Array:
    found = np.random.default_rng(_SEED).standard_normal((_DRAWS, count))
    found.flags.writeable = False
    return found


def joint_level(covariance: Array, alpha: float) -> float:
    """Level of single intervals that hold together with probability ``1 - alpha``.

    Parameters
    ----------
    covariance : ndarray (p, p)
        Of the errors of the estimates, sampling and noise together. NaN is of an estimate that is not determined: its
        interval may have one end, and counts with the others as one that is independent of them. What does not vary is
        left out.
    alpha : float
        One minus the joint confidence.

    Returns
    -------
    float
        ``P(abs(Z) > q)`` for one normal Z, q the value that the largest of the standardised errors exceeds with
        probability ``alpha``: single intervals of this level, by whatever method, are the joint ones.

    Notes
    -----
    The largest of normal variables of this correlation is simulated with a public seed. The level is not below
    Sidak's, ``1 - (1 - alpha)^(1/p)``, which holds for normal variables of any correlation (Sidak 1967), and is exact
    for independent ones. With heavier tails each interval counts its own, and the normal correlation joins them.
    """
    variances = np.diag(covariance)
    finite = np.isfinite(variances)
    largest = variances[finite].max(initial=0.0)
    counted = np.flatnonzero(~finite | (variances > _NOTHING * largest))
    count = counted.size
    if count < 2:
        return alpha
    sidak = float(-np.expm1(np.log1p(-alpha) / count))
    known = finite[counted]
    deviation = np.sqrt(np.where(known, variances[counted], 1.0))
    correlation = covariance[np.ix_(counted, counted)] / np.outer(deviation, deviation)
    correlation = np.where(known[:, None] & known, correlation, np.eye(count))
    if count > _MOST or np.abs(correlation - np.eye(count)).max() < _NOTHING:
        return sidak
    extremes = np.abs(_drawn(count) @ root_of(correlation).T).max(axis=1)
    rank = int(np.ceil((1 - alpha) * (_DRAWS + 1)))
    if rank > _DRAWS:
        return sidak
    return max(sidak, float(2 * stats.norm.sf(np.partition(extremes, rank - 1)[rank - 1])))
