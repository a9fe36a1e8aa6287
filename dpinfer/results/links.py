"""Mean functions of generalized linear models, from statsmodels' links: value, slope and curvature, never NaN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from statsmodels.genmod.families import links

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Curve", "MeanFunction"]

_FARTHEST = 300.0
"""Linear predictors are cut here for derivatives, so that their products stay finite."""

_SMALLEST, _STEEPEST = 1e-300, 1e100


@dataclass(frozen=True, slots=True)
class Curve:
    """A function of the linear predictor with its first two derivatives, each from (...) to (...)."""

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    curvature: Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class MeanFunction:
    """The mean as a function of the linear predictor.

    Attributes
    ----------
    link : statsmodels link
    """

    link: Any

    @property
    def is_identity(self) -> bool:
        """Whether the mean is the linear predictor."""
        return isinstance(self.link, links.Identity)

    @property
    def is_log(self) -> bool:
        """Whether the mean is the exponential of the linear predictor."""
        return type(self.link) is links.Log

    @property
    def is_logit(self) -> bool:
        """Whether the mean is the logistic function."""
        return type(self.link) is links.Logit

    def mean(self, predictor: Array) -> Array:
        """Return means at linear predictors (...), which may be infinite."""
        given = np.asarray(predictor, dtype=np.float64)
        with np.errstate(all="ignore"):
            if type(self.link) is links.CLogLog:
                return np.asarray(-np.expm1(-np.exp(given)))  # keeps the digits of small means
            return np.asarray(self.link.inverse(given), dtype=np.float64)

    def near(self, predictor: Array) -> Array:
        """Return finite means, linear predictors cut at 300 on both sides."""
        return self.mean(_cut(predictor))

    def slope(self, predictor: Array) -> Array:
        """Return derivatives of the mean (...)."""
        with np.errstate(all="ignore"):
            found = np.asarray(self.link.inverse_deriv(_cut(predictor)), dtype=np.float64)
        return np.where(np.isnan(found), 0.0, found)

    def curvature(self, predictor: Array) -> Array:
        """Return second derivatives of the mean (...)."""
        near, slope = _cut(predictor), self.slope(predictor)
        if self.is_log:
            return slope
        if self.is_logit:
            return slope * (1.0 - 2.0 * self.mean(near))
        if type(self.link) is links.CLogLog:
            return slope * (1.0 - np.exp(near))
        with np.errstate(all="ignore"):
            found = np.asarray(self.link.inverse_deriv2(near), dtype=np.float64)
        return np.where(np.isfinite(found), found, 0.0)

    def log_mean(self, predictor: Array) -> Array:
        """Return logarithms of means (...)."""
        return np.log(np.maximum(self.near(predictor), _SMALLEST))

    def log_slope(self, predictor: Array) -> Array:
        """Return derivatives of the logarithm of the mean (...)."""
        return np.minimum(self.slope(predictor) / np.maximum(self.near(predictor), _SMALLEST), _STEEPEST)

    def log_curvature(self, predictor: Array) -> Array:
        """Return second derivatives of the logarithm of the mean (...)."""
        curved = self.curvature(predictor) / np.maximum(self.near(predictor), _SMALLEST)
        curved = np.clip(curved, -(_STEEPEST**2), _STEEPEST**2)
        return curved - self.log_slope(predictor) ** 2

    def curve(self, *, logarithm: bool) -> Curve:
        """Return the mean, or its logarithm, with derivatives."""
        if logarithm:
            return Curve(self.log_mean, self.log_slope, self.log_curvature)
        return Curve(self.near, self.slope, self.curvature)


def _cut(predictor: Array) -> Array:
    return np.clip(np.asarray(predictor, dtype=np.float64), -_FARTHEST, _FARTHEST)
