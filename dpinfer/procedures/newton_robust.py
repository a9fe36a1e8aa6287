"""Robust regressions by Newton rounds: Huber's M-estimator and smoothed quantile regression.

Both start as least squares does. Counts of the residuals of that start, released for every linear model, then give the
scale (the median absolute deviation about Huber's centre), the quantile of the residuals by which a quantile regression
moves its intercept, and the density there, on which its bandwidths depend.

Notes
-----
*Huber.* With T = psi/c for psi the residual cut at -c and c, a row pays ``alpha T^2 + lam T^4 + K 1{|r| <= c}``, at
most ``alpha + lam + K``: prices that add up to 1. (A smooth score, c tanh(r/c), would have its Hessian for nothing, but
estimates another intercept where errors are skewed, and statsmodels' `RLM` would not be met at any price.)

*Quantiles.* The check loss is smoothed as in conquer (He, Pan, Tan & Zhou 2023), but by a kernel of fourth order, whose
bias is of order h^4, not h^2: ``psi = q - P(-r/h)`` with ``P(u) = Phi(u) + u phi(u)/2``. The Hessian has a positive
kernel: ``J = sum v w(r) z z' / (h sqrt(2 pi))`` with ``w = exp(-r^2/(2 h^2)) <= 1``. With T = psi/B, B the largest size
of psi, and shares alpha, lam of the score and of the meat, the largest price of the Hessian is
``K = min over r of (1 - alpha T^2 - lam T^4)/w^2``. Between the nodes of the tables T and w are linear, so that
``alpha T^2 + lam T^4 + K w^2`` is convex there: no row pays more than at a node. Under Laplace noise sizes take the
place of squares: ``K = min over r of (1 - alpha T - lam T^2)/w``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from dpinfer.kernel.rows.interpolants import Interpolant
from dpinfer.kernel.rows.rounds import Term
from dpinfer.procedures.newton_models import Cut, LinearModel, ratio_of
from dpinfer.procedures.newton_residuals import MEDIAN_DEVIATION

if TYPE_CHECKING:
    from dpinfer.privacy.sensitivity import Norm
    from dpinfer.procedures.newton_residuals import ResidualLaw, Seen

__all__ = ["HuberModel", "QuantileModel"]

_SEEN = 4.0

_REACH = 6.0
"""Bandwidths beyond which a smoothed indicator is 0 or 1."""

_NODES = 2048
_BINS = 10.0
"""Bins that a share of residuals is added up of, about."""

_WINDOW, _LEAST_DENSITY = 0.3, 0.03
_LAST = 0.54
_BANDWIDTH, _AT, _WIDEST = 0.6, 2000.0, 2.0
_STEADY = 5.0
_FINEST = -8
_FARTHEST = 6.0
_LEAST_ROWS = 10.0
_PAID, _MEAT = 0.92, 0.18


@dataclass(frozen=True)
class HuberModel(LinearModel):
    """Huber's M-estimator, residuals cut at ``tuning`` median absolute deviations."""

    tuning: float = 1.345
    ratio: float | None = None
    finest: ClassVar[int] = _FINEST

    def under(self, norm: Norm, width: int) -> HuberModel:
        """See `RoundModel`: prices add up to 1, so that they serve sums of sizes as well as of squares."""
        return replace(self, ratio=ratio_of(width)) if norm == "l1" else self

    def tuned(self, seen: Seen) -> tuple[Cut, float]:
        """Where residuals are cut, and by how much the intercept of the start moves."""
        centre, scale = seen.law.huber(self.tuning)
        return Cut(self.tuning * scale, scale, intercept=self._uncertain(seen, centre, scale)), centre

    def _uncertain(self, seen: Seen, centre: float, scale: float) -> float:
        """Variance that the error of the scale gives the intercept, where errors are skewed.

        Centre b and deviation m solve ``mean psi = 0`` and ``mean 1{|r| <= m} = 1/2``. Linearised,
        ``(inside + k D) db = mean psi - k mean(1{|r| <= m} - 1/2)/g``, with k the derivative of ``E psi`` by m, g the
        density of ``|r|`` at m, and D the derivative of m by -b.
        """
        law, half = seen.law, MEDIAN_DEVIATION * scale
        cut = self.tuning * scale
        upper, lower = law.density(centre + half, half / 2), law.density(centre - half, half / 2)
        density = max(upper + lower, _LEAST_DENSITY)
        inside = max(law.below(centre + cut) - law.below(centre - cut), 0.1)
        rise = (1 - law.below(centre + cut) - law.below(centre - cut)) * self.tuning / MEDIAN_DEVIATION
        apart, mass = 0.5 * (law.points[1:] + law.points[:-1]) - centre, np.diff(law.rising)
        score = np.clip(apart, -cut, cut)
        both = score - rise * ((np.abs(apart) <= half) - 0.5) / density
        slope = max(inside + rise * (upper - lower) / density, inside / 3)
        sampled = float(mass @ both**2) / slope**2 - float(mass @ score**2) / inside**2
        noisy = _BINS * (rise / slope / density * seen.noise / seen.size) ** 2
        return max(sampled, 0.0) / seen.size + noisy

    def notes(self, cut: Cut, unit: float) -> list[str]:
        """See `RoundModel`."""
        return [
            f"Residuals are cut at {cut.low * unit:.4g}, {self.tuning:g} times their median absolute deviation over "
            f"{MEDIAN_DEVIATION:.4f}."
        ]

    def terms(self, cut: Cut, *, last: bool) -> tuple[Term, ...]:
        """See `RoundModel`."""
        c = cut.low
        score = Interpolant(-c, c, np.array([-1.0, 1.0]), -1.0, 1.0)
        inlier = Interpolant(-c, c, np.array([1.0, 1.0]), 0.0, 0.0)
        per = 1.0 if self.ratio is None else 1 / self.ratio
        if not last:
            return Term("score", "vector", 0.8, score), Term("hessian", "matrix", 0.2 * per, inlier)
        return (
            Term("score", "vector", 0.66, score),
            Term("hessian", "matrix", 0.18 * per, inlier),
            Term("meat", "outer", 0.16 * per),
        )


@dataclass(frozen=True)
class QuantileModel(LinearModel):
    """Quantile regression with a smoothed check loss.

    Attributes
    ----------
    q : float
        Between 0 and 1.
    """

    q: float = 0.5
    ratio: float | None = None
    finest: ClassVar[int] = _FINEST
    local: ClassVar[bool] = True

    def under(self, norm: Norm, width: int) -> QuantileModel:
        """See `RoundModel`."""
        return replace(self, ratio=ratio_of(width)) if norm == "l1" else self

    def tuned(self, seen: Seen) -> tuple[Cut, float]:
        """Bandwidth, what smoothing takes from the variance of the score, and the move of the intercept."""
        move = seen.law.quantile(self.q)
        variance = self.q * (1 - self.q)
        density = max(seen.law.density(move, _WINDOW), _LEAST_DENSITY)
        length = variance / density
        noise = 0.4 * seen.radius**2 * np.sqrt(seen.width / 2) / (seen.precision(0.6 * _LAST) * seen.size)
        least = _BANDWIDTH * min(1.0, _AT / seen.size) ** 0.25
        width = float(np.clip(length * np.clip(_STEADY * noise / variance, least, _WIDEST), 0.01, 3.0))
        curves = _curves(self.q, width)
        middle = 0.5 * (seen.law.points[1:] + seen.law.points[:-1]) - move
        smoothed = float(np.diff(seen.law.rising) @ (curves.score(middle) * curves.size) ** 2)
        meat = float(np.clip(variance / max(smoothed, 1e-9), 1.0, 2.0))
        # Of an exponential tail with this share beyond, the kernel of fourth order moves the quantile by h^4/(8 S^3).
        bias = width**4 / 8 * (density / min(self.q, 1 - self.q)) ** 3
        return Cut(width, width, meat, _peaked(seen.law, move, width), bias=bias), move

    def terms(self, cut: Cut, *, last: bool) -> tuple[Term, ...]:
        """See `RoundModel`."""
        curves = _curves(self.q, cut.low)
        meat = _MEAT if last else 0.0
        price = curves.largest_price(_PAID - meat, meat, "l2" if self.ratio is None else "l1")
        per = 1.0 if self.ratio is None else 1 / self.ratio
        found = (
            Term("score", "vector", _PAID - meat, curves.score),
            Term("hessian", "matrix", price * per, curves.hessian),
        )
        return (*found, Term("meat", "outer", meat * per)) if last else found

    def notes(self, cut: Cut, unit: float) -> list[str]:
        """See `RoundModel`."""
        return [f"The check loss is smoothed with a bandwidth of {cut.low * unit:.3g} in the response."]

    def warnings(self, rows: float, noise: float) -> tuple[str, ...]:
        """See `RoundModel`: as many rows as lie beyond the quantile, against noise in their number."""
        if rows * min(self.q, 1 - self.q) >= max(_LEAST_ROWS, _SEEN * noise):
            return ()
        return (f"q = {self.q:g} is too extreme for the number of rows and the price: few rows lie beyond it",)

    def longest(self, cut: Cut) -> float:
        """See `RoundModel`: a density is known about as far as its kernel reaches."""
        return min(3.0, _FARTHEST * cut.low)

    def factors(self, cut: Cut) -> tuple[float, float]:
        """See `RoundModel`."""
        return _curves(self.q, cut.low).size, cut.hessian / (np.sqrt(2 * np.pi) * cut.low)


def _peaked(law: ResidualLaw, point: float, width: float) -> float:
    """Density at a point over its mean under the kernel, as far as a kernel of fourth order tells."""
    apart = (0.5 * (law.points[1:] + law.points[:-1]) - point) / width
    mass = np.diff(law.rising) * np.exp(-(apart**2) / 2)
    return float(np.clip(1.5 - 0.5 * (mass @ apart**2) / max(float(mass.sum()), 1e-9), 0.5, 1.1))


@dataclass(frozen=True, eq=False)
class _Curves:
    """Score over its largest size, and weight in the Hessian, as functions of the residual."""

    score: Interpolant
    hessian: Interpolant
    size: float

    def largest_price(self, score: float, meat: float, norm: Norm) -> float:
        """Largest price of the Hessian for which no row pays more than 1."""
        weights, sizes = self.hessian.values, np.abs(self.score.values)
        if norm == "l2":
            weights, sizes = weights**2, sizes**2
        left = 1 - score * sizes - meat * sizes**2
        return float((left / weights).min()) * (1 - 1e-4)


@lru_cache(maxsize=16)
def _curves(q: float, width: float) -> _Curves:
    ends = _REACH * width
    points = np.linspace(-_REACH, _REACH, _NODES + 1)
    kernel = np.exp(-(points**2) / 2)
    values = q - special.ndtr(-points) + 0.5 * points * kernel / np.sqrt(2 * np.pi)
    size = float(np.abs(values).max())
    return _Curves(
        Interpolant(-ends, ends, values / size, (q - 1) / size, q / size),
        Interpolant(-ends, ends, kernel, 0.0, 0.0),
        size,
    )
