"""What a release tells of the average slope of the mean over rows, for average marginal effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array

__all__ = ["AverageSlope"]


class AverageSlope(NamedTuple):
    """The average over rows of the derivative of the mean by the linear predictor, at the estimate.

    Attributes
    ----------
    value : float
    variance : float
        Of its error: from privacy noise, and from the coefficients at which the derivative is taken. The rows count
        as fixed.
    covariance : ndarray (p,) or None
        With the coefficients, sampling and noise; None where it is not known, and is bounded then.
    """

    value: float
    variance: float
    covariance: Array | None = None
