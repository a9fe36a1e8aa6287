"""The models that a regression may have: what each adds to the score and the Hessian of the one engine.

A model is a mean of the linear predictor and an estimating equation ``sum x psi(y, eta) = 0``. With mu the mean, the
response y enters through the residual ``r = g(eta) (y - mu(eta))``, psi is a function of r, and the Hessian has a
weight that is a function of eta (`Model.weight`) or of r (`Curves.hessian`). Scores are those of the likelihood, so
that what is estimated where the model is wrong is what statsmodels estimates, the pseudo-true parameter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import interpolate, special
from statsmodels.genmod.families import links

from dpinfer.kernel.rows.iterations import Interpolant
from dpinfer.statistics.numerical import bisected

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike

    from dpinfer.statistics.arrays import Array

__all__ = [
    "BINARY",
    "LOG",
    "MODELS",
    "Curves",
    "Model",
    "ResidualLaw",
    "Response",
    "Tables",
    "constant",
    "intercept_for",
    "residual_cuts",
    "tabled",
]

_FARTHEST = 30.0
"""Linear predictors are cut here: no mean function of these models can be told apart beyond."""


_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True, slots=True)
class Response:
    """A mean function of the linear predictor.

    Attributes
    ----------
    name : str
    inverse, inverse_deriv : callable
        The mean and the slope, as links of statsmodels have them.
    farthest : float
        Linear predictors are cut to this size.
    weight : callable, optional
        Weight of a Hessian at linear predictors, where it is not the slope.
    """

    name: str
    inverse: Callable[[Array], Array]
    inverse_deriv: Callable[[Array], Array]
    farthest: float = _FARTHEST
    weight: Callable[[Array], Array] | None = None

    def mean(self, predictor: Array) -> Array:
        """Mean at linear predictors (...)."""
        return np.asarray(self.inverse(np.clip(predictor, -self.farthest, self.farthest)))

    def slope(self, predictor: Array) -> Array:
        """Return the derivative of the mean at linear predictors (...)."""
        return np.asarray(self.inverse_deriv(np.clip(predictor, -self.farthest, self.farthest)))

    def average_mean(self, centre: ArrayLike, variance: ArrayLike) -> Array:
        """Mean of the response where the linear predictor is normal (21-point Gauss-Hermite rule)."""
        return self._averaged(self.mean, centre, variance)

    def average_slope(self, centre: ArrayLike, variance: ArrayLike) -> Array:
        """Mean of the slope where the linear predictor is normal."""
        return self._averaged(self.slope, centre, variance)

    def average_weight(self, centre: ArrayLike, variance: ArrayLike) -> Array:
        """Mean of the weight of a Hessian where the linear predictor is normal."""
        return self._averaged(self.slope if self.weight is None else self.weight, centre, variance)

    def _averaged(self, function: object, centre: ArrayLike, variance: ArrayLike) -> Array:
        spread = np.sqrt(np.maximum(variance, 0.0))[..., None]
        values = function(np.asarray(centre)[..., None] + spread * _POINTS)  # type: ignore[operator]
        return np.asarray(values @ _WEIGHTS)


def _logit_slope(z: Array) -> Array:
    return np.asarray(special.expit(z) * special.expit(-z))


def _probit_slope(z: Array) -> Array:
    return np.asarray(np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi))


def _cloglog_mean(z: Array) -> Array:
    return np.asarray(-np.expm1(-np.exp(z)))


def _cloglog_slope(z: Array) -> Array:
    return np.asarray(np.exp(z - np.exp(z)))


BINARY = {  # of functions that have names, so that results can be pickled
    "logit": Response("logit", special.expit, _logit_slope),
    "probit": Response("probit", special.ndtr, _probit_slope, 8.0),
    "cloglog": Response("cloglog", _cloglog_mean, _cloglog_slope),
}
"""Mean functions of binary responses by name."""


def intercept_for(response: Response, share: float, variance: ArrayLike) -> Array:
    """Centres (...) of normal linear predictors of these variances at which the mean response is ``share``.

    The nearest that predictors go where none serves.
    """
    low = np.full(np.shape(variance), -response.farthest)
    low, high = bisected(lambda middle: response.average_mean(middle, variance) < share, low, -low, rounds=26)
    return np.asarray(0.5 * (low + high))


LOG = Response("log", links.Log().inverse, links.Log().inverse_deriv, 30.0)
"""The mean function of counts and positive numbers."""

_NODES = 4096
_SPAN = 25.0
"""Linear predictors of logarithmic links are told apart over this range, down from 8 times the largest response."""

_ENDS = {"logit": (-20.0, 20.0), "probit": (-6.0, 6.0), "cloglog": (-20.0, 3.0)}


def tabled(function: Callable[[Array], Array], low: float, high: float, nodes: int = _NODES) -> Interpolant:
    """Return a function as a table, constant beyond its ends."""
    values = np.asarray(function(np.linspace(low, high, nodes + 1)), dtype=np.float64)
    return Interpolant(low, high, values, float(values[0]), float(values[-1]))


@cache
def constant(value: float) -> Interpolant:
    """Return a number as a function."""
    return Interpolant(-1.0, 1.0, np.array([value, value]), value, value)


@dataclass(frozen=True, eq=False)
class Tables:
    """Functions of the linear predictor: mean, g, the Hessian's weight and its root; None for 0 or 1."""

    mean: Interpolant | None = None
    factor: Interpolant | None = None
    weight: Interpolant | None = None
    root: Interpolant | None = None


@dataclass(frozen=True, eq=False)
class Curves:
    """Functions of the residual, for a model with a bounded psi.

    Attributes
    ----------
    score, hessian : Interpolant
        psi over ``size``, and the weight of the Hessian up to ``factor``.
    size, factor : float
    """

    score: Interpolant
    hessian: Interpolant
    size: float = 1.0
    factor: float = 1.0


@dataclass(frozen=True)
class Model:
    """One model.

    Attributes
    ----------
    name, title : str
        What questions and tables call it.
    kind : {"linear", "binary", "choice", "log", "huber", "quantile"}
        How the response is scaled, and whether psi is bounded ("huber", "quantile"); a "choice" is of several levels,
        see `dpinfer.choice`.
    option : tuple of (str, float, float), optional
        Its parameter: what users call it, and between which numbers it lies.
    default : float
        The parameter where none is given.
    """

    name: str
    title: str
    kind: str
    option: tuple[str, float, float] | None = None
    default: float = 1.0
    response: Response | None = field(default=None, compare=False)
    link: Any = field(default=None, compare=False)

    @property
    def bounded(self) -> bool:
        """Whether psi is a bounded function of the residual."""
        return self.kind in ("huber", "quantile")

    @property
    def curved(self) -> bool:
        """Whether the Hessian depends on the coefficients."""
        return self.kind in ("binary", "choice", "log", "quantile")

    def weight(self, predictor: Array, parameter: float = 1.0, unit: float = 1.0) -> Array:
        """Return the weight of the Hessian at linear predictors; responses are measured in a unit."""
        if self.response is None:
            return np.ones_like(predictor)
        if self.kind == "binary":  # as in tables: beyond, a mean of 1 less itself has no digit left
            predictor = np.clip(predictor, *_ENDS[self.name])
        mean = self.response.mean(predictor)
        if self.kind == "binary":
            slope = self.response.slope(predictor)
            return np.asarray(slope**2 / np.maximum(mean * (1 - mean), 1e-300))
        if self.name == "gamma":
            return np.ones_like(predictor)
        return np.asarray(mean / (1 + (parameter * unit * mean if self.name == "negativebinomial" else 0.0)))

    def slope(self, predictor: Array) -> Array:
        """Return the slope of a binary response at linear predictors, as far as `weight` tells these apart."""
        assert self.response is not None
        return self.response.slope(np.clip(predictor, *_ENDS[self.name]))

    def tables(self, largest: float, parameter: float, unit: float) -> Tables:
        """Return the functions of the linear predictor, for responses of at most ``largest`` in a unit."""
        if self.response is None:
            return Tables()
        if self.kind == "binary":
            return _binary_tables(self.name)
        return _log_tables(self.name, float(np.log(8 * max(largest, 1e-200))), parameter, unit)

    def largest(self, ends: tuple[float, float], response: float, parameter: float, unit: float) -> tuple[float, float]:
        """Return sizes that no residual, and no root of a Hessian's weight, exceeds; see `tables`.

        Linear predictors lie between two ends, and responses are at most ``response``.
        """
        tables = self.tables(response, parameter, unit)
        assert tables.mean is not None
        assert tables.root is not None
        low, high = np.clip(ends, tables.mean.low, tables.mean.high).tolist()
        nodes = np.linspace(tables.mean.low, tables.mean.high, tables.mean.values.size)
        nodes = np.concatenate([[low], nodes[(nodes > low) & (nodes < high)], [high]])
        mean = tables.mean(nodes)
        residuals = np.maximum(mean, np.abs((1.0 if self.kind == "binary" else response) - mean))
        factor = np.ones_like(mean) if tables.factor is None else tables.factor(nodes)
        # Between nodes both are linear, and their product is no larger than that of the larger of each.
        longest = np.maximum(residuals[1:], residuals[:-1]) * np.maximum(factor[1:], factor[:-1])
        return float(longest.max()), float(tables.root(nodes).max())

    def careful(self, settings: Mapping[str, Any]) -> dict[str, float]:
        """Return settings of a bounded psi far from the estimate, where Newton's step may lead beyond it.

        Huber's Hessian is that of iteratively reweighted least squares, which never does; a quantile is smoothed
        more.
        """
        if self.kind == "huber":
            return {"careful": 1.0}
        return {"cut": max(float(settings["cut"]), float(settings["careful_cut"]))}

    def curves(self, settings: Mapping[str, Any], parameter: float) -> Curves | None:
        """Return the functions of the residual; None where psi is the residual."""
        if self.kind == "huber":
            cut = float(settings["cut"])
            inside = Interpolant(-cut, cut, np.array([1.0, 1.0]), 0.0, 0.0)
            if "careful" in settings:
                inside = tabled(lambda one: 1 / np.maximum(np.abs(one / cut), 1.0), -32 * cut, 32 * cut)
            return Curves(Interpolant(-cut, cut, np.array([-1.0, 1.0]), -1.0, 1.0), inside, cut)
        if self.kind == "quantile":
            narrow, width, peak = (float(settings[name]) for name in ("score_cut", "cut", "peak"))
            return _quantile_curves(parameter, narrow, width, peak)
        return None


MODELS = {
    one.name: one
    for one in (
        Model("ols", "OLS", "linear"),
        Model("logit", "Logit", "binary", response=BINARY["logit"], link=links.Logit),
        Model("probit", "Probit", "binary", response=BINARY["probit"], link=links.Probit),
        Model("cloglog", "Binomial, complementary log-log", "binary", response=BINARY["cloglog"], link=links.CLogLog),
        Model("poisson", "Poisson", "log", response=LOG, link=links.Log),
        Model("negativebinomial", "Negative Binomial", "log", ("alpha", 1e-6, 100.0), response=LOG, link=links.Log),
        Model("gamma", "Gamma", "log", response=LOG, link=links.Log),
        Model("huber", "Robust", "huber", ("tuning", 0.1, 10.0), 1.345),
        Model("quantile", "Quantile", "quantile", ("q", 0.0, 1.0), 0.5),
    )
}
"""Every model by name."""


@cache
def _binary_tables(name: str) -> Tables:
    model, ends = MODELS[name], _ENDS[name]
    assert model.response is not None
    mean, slope = model.response.mean, model.response.slope
    factor = None
    if name != "logit":
        factor = tabled(lambda one: slope(one) / np.maximum(mean(one) * (1 - mean(one)), 1e-300), *ends)
    weight = tabled(model.weight, *ends)
    return Tables(tabled(mean, *ends), factor, weight, tabled(lambda one: np.sqrt(model.weight(one)), *ends))


@lru_cache(maxsize=32)
def _log_tables(name: str, high: float, parameter: float, unit: float) -> Tables:
    model, ends = MODELS[name], (high - _SPAN, high)
    factor = {
        "poisson": None,
        "gamma": lambda one: np.exp(-one),
        "negativebinomial": lambda one: 1.0 / (1.0 + parameter * unit * np.exp(one)),
    }[name]

    def weight(one: Array) -> Array:
        return model.weight(one, parameter, unit)

    return Tables(
        tabled(np.exp, *ends),
        None if factor is None else tabled(factor, *ends),
        tabled(weight, *ends),
        tabled(lambda one: np.sqrt(weight(one)), *ends),
    )


_REACH = 6.0
"""Bandwidths beyond which a smoothed indicator is 0 or 1."""


@lru_cache(maxsize=16)
def _quantile_curves(q: float, narrow: float, width: float, peak: float) -> Curves:
    """Return the smoothed check loss: a kernel of fourth order in the score, and a positive, wider one in the Hessian.

    Notes
    -----
    As in conquer (He, Pan, Tan & Zhou 2023), but with ``psi = q - P(-r/g)`` and ``P(u) = Phi(u) + u phi(u)/2``, whose
    bias is of order g^4, not g^2. The Hessian is ``peak sum exp(-r^2/(2 h^2)) z z' / (h sqrt(2 pi))``. The largest
    value of the score is the same for any g, and h does not enter the score, hence not its zero. Noise sets h, for a
    narrow band holds few rows.
    """
    ends, near, points = _REACH * width, _REACH * narrow, np.linspace(-_REACH, _REACH, 2049)
    kernel = np.exp(-(points**2) / 2)
    values = q - special.ndtr(-points) + 0.5 * points * kernel / np.sqrt(2 * np.pi)
    size = float(np.abs(values).max())
    return Curves(
        Interpolant(-near, near, values / size, (q - 1) / size, q / size),
        Interpolant(-ends, ends, kernel, 0.0, 0.0),
        size,
        peak / (np.sqrt(2 * np.pi) * width),
    )


# Residuals, for the models with a bounded psi

_SEEN, _FAR, _SEEN_FAR, _BESIDE = 4.0, 6, 6.0, 4
_NARROW = 0.5
_GRID = 4001
_MEDIAN_DEVIATION = 0.6744897501960817
"""Median absolute deviation of a standard normal variable."""

_CAREFUL = 0.4
"""Least bandwidth of a Hessian in a quantile's first iteration, in deviations of the residuals about the quantile."""

_BINS = 10.0
"""Bins that a share of residuals is added up of, about."""

_WINDOW, _LEAST_DENSITY = 0.3, 0.03
_NARROWEST = 1e-12
"""Least bandwidth of a score, far below any that counts lead to."""

_BANDWIDTH, _AT, _WIDEST, _STEADY = 0.6, 2000.0, 2.0, 5.0


def residual_cuts() -> Array:
    """Half octaves of residuals to both sides, from a sixteenth of the usual one on."""
    positive = 2.0 ** (np.arange(-8, 15) / 2)
    return np.concatenate([-positive[::-1], positive])


@dataclass(frozen=True, eq=False)
class ResidualLaw:
    """Distribution of residuals read from noisy counts: ``rising`` (m,) at ``points`` (m,), from 0 to 1."""

    points: Array
    rising: Array

    @classmethod
    def of(cls, counts: Array, cuts: Array, noise: float) -> ResidualLaw:
        """Read counts (B,) between cuts (B - 1,), and few farther out than rows are beyond doubt.

        Without those a tail would be missing from the law where it is long, and its quantiles be too small.
        """
        seen = _chained(counts, cuts, noise)
        if not seen:
            return cls.normal()
        first, last = max(min(seen) - _BESIDE, 0), min(max(seen) + _BESIDE, len(counts) - 1)
        ends = np.concatenate([[2 * cuts[0]], cuts, [2 * cuts[-1]]])[first : last + 2]
        below = np.concatenate([[0.0], np.cumsum(counts[first : last + 1])])
        rising = 0.5 * (np.maximum.accumulate(below) + np.minimum.accumulate(below[::-1])[::-1])
        if rising[-1] <= rising[0]:  # noise took away more rows beside than it showed
            return cls.normal()
        rising = np.clip((rising - rising[0]) / (rising[-1] - rising[0]), 0.0, 1.0)
        points = np.unique(np.concatenate([ends, np.linspace(max(ends[0], -6.0), min(ends[-1], 6.0), _GRID)]))
        return cls(points, np.asarray(interpolate.PchipInterpolator(ends, rising)(points)))

    @classmethod
    def normal(cls) -> ResidualLaw:
        """Where counts tell of no row."""
        points = np.linspace(-4.0, 4.0, _GRID)
        return cls(points, special.ndtr(points))

    def below(self, point: float) -> float:
        """Share of residuals below a point."""
        return float(np.interp(point, self.points, self.rising, 0.0, 1.0))

    def quantile(self, share: float) -> float:
        """Point below which a share of the residuals lies."""
        return float(np.interp(share, self.rising, self.points))

    def density(self, point: float, width: float) -> float:
        """Share of residuals within half a width of a point, by width."""
        return (self.below(point + width / 2) - self.below(point - width / 2)) / width

    def deviation(self, centre: float) -> float:
        """Median absolute deviation about a centre, 1 standard deviation of a normal law."""
        low, high = 0.0, float(max(self.points[-1] - centre, centre - self.points[0]))
        for _ in range(60):
            middle = 0.5 * (low + high)
            inside = self.below(centre + middle) - self.below(centre - middle)
            low, high = (middle, high) if inside < 0.5 else (low, middle)
        return max(high, 1e-3) / _MEDIAN_DEVIATION

    def huber(self, tuning: float, noise: float, size: float) -> tuple[dict[str, float], float]:
        """Return where Huber's psi is cut, the variance that its error gives the intercept, and the centre.

        Centre b and deviation m solve ``mean psi = 0`` and ``mean 1{|r| <= m} = 1/2``. Linearised,
        ``(inside + k D) db = mean psi - k mean(1{|r| <= m} - 1/2)/g``, with k the derivative of ``E psi`` by m, g the
        density of ``|r|`` at m, and D the derivative of m by -b.
        """
        middle, mass = 0.5 * (self.points[1:] + self.points[:-1]), np.diff(self.rising)
        centre = self.quantile(0.5)
        scale = self.deviation(centre)
        for _ in range(50):
            cut, apart = tuning * scale, middle - centre
            inside = max(float(mass @ (np.abs(apart) <= cut)), 0.1)
            centre += float(mass @ np.clip(apart, -cut, cut)) / inside
            scale = self.deviation(centre)
        cut, half, apart = tuning * scale, _MEDIAN_DEVIATION * scale, middle - centre
        upper, lower = self.density(centre + half, half / 2), self.density(centre - half, half / 2)
        density = max(upper + lower, _LEAST_DENSITY)
        inside = max(self.below(centre + cut) - self.below(centre - cut), 0.1)
        rise = (1 - self.below(centre + cut) - self.below(centre - cut)) * tuning / _MEDIAN_DEVIATION
        score = np.clip(apart, -cut, cut)
        both = score - rise * ((np.abs(apart) <= half) - 0.5) / density
        slope = max(inside + rise * (upper - lower) / density, inside / 3)
        sampled = float(mass @ both**2) / slope**2 - float(mass @ score**2) / inside**2
        noisy = _BINS * (rise / slope / density * noise / size) ** 2
        return {"cut": cut, "intercept": max(sampled, 0.0) / size + noisy, "inside": inside}, centre

    def smoothing(self, q: float, steadiness: float, size: float, columns: int) -> tuple[dict[str, float], float]:
        """Return the bandwidths of a quantile regression, what they take from score and Hessian, and the quantile.

        ``steadiness`` is the noise of an eigenvalue of the Hessian, over the number of rows, at a density of 1. The
        score's bandwidth falls at the rate of conquer. Over the residuals as counted, ``peak`` times the Hessian's
        kernel is the derivative of the score.
        """
        move, variance = self.quantile(q), q * (1 - q)
        density = max(self.density(move, _WINDOW), _LEAST_DENSITY)
        least = _BANDWIDTH * min(1.0, _AT / size) ** 0.25
        width = float(np.clip(variance / density * np.clip(_STEADY * steadiness / variance, least, _WIDEST), 0.01, 3.0))
        narrow = max(min(width, variance / density * float((columns + np.log1p(size)) / size) ** 0.4), _NARROWEST)
        apart, mass = 0.5 * (self.points[1:] + self.points[:-1]) - move, np.diff(self.rising)
        curves = _quantile_curves(q, narrow, width, 1.0)
        smoothed = float(mass @ (curves.score(apart) * curves.size) ** 2)
        near = float(mass @ np.exp(-((apart / width) ** 2) / 2))
        beside = (apart / narrow) ** 2
        steep = float(mass @ ((1.5 - 0.5 * beside) * np.exp(-beside / 2)))
        found = {
            "cut": width,
            "score_cut": narrow,
            "careful_cut": _CAREFUL * self.deviation(move),
            "meat": float(np.clip(variance / max(smoothed, 1e-9), 1.0, 2.0)),
            "inside": float(np.clip(near, 0.02, 1.0)),
            "peak": float(np.clip(steep / narrow / max(near / width, 1e-9), 0.5, 1.1)),
            # Of an exponential tail with this share beyond, a kernel of fourth order moves the quantile by g^4/(8 S^3)
            "bias": narrow**4 / 8 * (density / min(q, 1 - q)) ** 3,
        }
        return found, move


def _chained(counts: Array, cuts: Array, noise: float) -> list[int]:
    """Places of the bins that hold rows beyond doubt: clearer ones, if they are far from the others.

    Narrow bins near 0, which hold few rows, are no distance.
    """
    seen = np.flatnonzero(counts >= max(_SEEN * noise, 0.5))
    if not seen.size:
        return []
    apart = np.arange(len(counts)) - len(counts) // 2
    apart = np.sign(apart) * np.maximum(np.abs(apart) - int((np.abs(cuts) < _NARROW).sum()) // 2, 0)
    middle = int(np.argmin(np.abs(seen - len(counts) // 2)))
    for side in (seen[middle:], seen[: middle + 1][::-1]):
        last = side[0]
        for one in side[1:]:
            if abs(apart[one] - apart[last]) > _FAR and counts[one] < _SEEN_FAR * noise:
                seen = seen[seen != one]
            else:
                last = one
    return [int(one) for one in seen]
