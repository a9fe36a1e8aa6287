"""What every inference offers to the results built on it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, cast

import numpy as np

from dpinfer.errors import OptionError

if TYPE_CHECKING:
    from dpinfer.statistics.arrays import Array

__all__ = ["TARGETS", "BaseInference", "Inference"]

TARGETS = ("population", "data")


class BaseInference:
    """What most inferences share: a choice of methods, no error variance, a normal reference."""

    method: Any
    methods: ClassVar[tuple[str, ...]]
    automatic: ClassVar[str] = "score"
    """What "auto" stands for."""

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
        return self if chosen == self.method else cast("Self", replace(cast("Any", self), method=chosen))


class Inference(Protocol):
    """Estimates with sampling and noise covariance, and one method for intervals and tests alike.

    Everything is computed from a release. ``p`` is the number of parameters.

    Attributes
    ----------
    names : tuple of str, length p
        Parameter names, in order.
    params : ndarray (p,)
        Point estimates.
    cov_sampling, cov_noise : ndarray (p, p)
        Covariance from sampling and from privacy noise, each positive semidefinite; their sum is
        positive definite. ``cov_sampling`` is zero where the target is the data themselves.
    nobs : float or None
        The number of rows as released (noisy) or as public; None where it is neither.
    nobs_is_public : bool
        Whether ``nobs`` is exact and public.
    df_resid : float
        Residual degrees of freedom used by the inference (numpy.inf for a normal reference).
    scale, rsquared : float or None
        Error variance and coefficient of determination, where the model has them.
    method : str
        "wald", "score", "simulated" or "exact": the one method behind intervals and p-values.
    target : str
        "population" or "data".
    flags : tuple of str
        Plain sentences that warn the reader, e.g. that noise dominates; empty when all is well.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """See the class."""

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
    def nobs(self) -> float | None:
        """See the class."""

    @property
    def nobs_is_public(self) -> bool:
        """See the class."""

    @property
    def df_resid(self) -> float:
        """See the class."""

    @property
    def scale(self) -> float | None:
        """See the class."""

    @property
    def rsquared(self) -> float | None:
        """See the class."""

    @property
    def method(self) -> str:
        """See the class."""

    @property
    def target(self) -> str:
        """See the class."""

    @property
    def flags(self) -> tuple[str, ...]:
        """See the class."""

    def intervals(self, contrasts: Array, alpha: float) -> Array:
        """Intervals of level ``1 - alpha`` for each row of ``contrasts`` (k, p), as (k, 2); may be infinite."""

    def contrast_pvalues(self, contrasts: Array, values: Array) -> Array:
        """Two-sided p-values (k,) of ``contrasts @ params = values``."""

    def wald(self, restrictions: Array, values: Array) -> tuple[float, float, float]:
        """Joint test of ``restrictions @ params = values``: statistic (chi-squared), degrees of freedom, p-value."""

    def with_method(self, method: str) -> Inference:
        """Return the same estimates under another inference method."""
