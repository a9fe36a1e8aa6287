"""Estimates from many releases at once, and what an oracle would know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.statistics.tails import critical_value

if TYPE_CHECKING:
    from dpinfer.statistics.arrays import Array, Mask

__all__ = ["BatchEstimates", "Oracle"]


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
