"""What a release tells of the average slope of the mean over rows, for average marginal effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array

__all__ = ["AverageChange", "AverageSlope"]


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


class AverageChange(NamedTuple):
    """The average over rows of what the mean changes by where a term takes another value, at the estimate.

    Attributes
    ----------
    name, term : str
        What the effect is called, and the term that changes: a factor has several changes.
    kind : str
        "dummy", "factor" or "count".
    value : float
    variance : float
        Of the noise of what was released.
    gradient : ndarray (p,)
        Derivative by the coefficients.
    """

    name: str
    term: str
    kind: str
    value: float
    variance: float
    gradient: Array
