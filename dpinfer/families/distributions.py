"""Distributions: parameters, sufficient statistics of values clipped to public bounds, and their moments."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy import special

from dpinfer.checks import require
from dpinfer.errors import InferenceError, OptionError, SchemaError
from dpinfer.release.release import decode
from dpinfer.schema.columns import Boolean, Integer, Real
from dpinfer.statistics.arrays import Array
from dpinfer.statistics.numerical import composite_nodes

if TYPE_CHECKING:
    from dpinfer.schema.columns import Column

Features = Callable[[Array], Array]

MOST_VALUES = 10_000
"""Whole numbers over which a discrete family is summed, from the lower end of its support."""

_STEP = 1e-5
_INNER, _OUTER = 3.5, 9.0
"""Where panels end: points at which the density is ``exp(-c**2 / 2)`` of its peak. Beyond the outer ones it is 0."""
_PANELS, _ORDER, _GRID, _ZOOMS, _DEPTH = 14, 16, 65, 6, 42.0
_LETTER = re.compile(r"(?<![\w.`])x(?![\w(`])")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter, its space, and the link that maps the space to the real line.

    Attributes
    ----------
    name : str
    lower, upper : float
        Open ends of the parameter space; may be infinite.

    Notes
    -----
    The link is the identity on the whole line, ``log(theta - lower)`` on a half line, and
    ``log((theta - lower) / (upper - theta))`` on an interval.

    Examples
    --------
    >>> Parameter("p", 0.0, 1.0).link
    'logit'
    """

    name: str
    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower < self.upper or (np.isinf(self.lower) and np.isfinite(self.upper)):
            raise OptionError(
                f"parameters[{self.name!r}]",
                (self.lower, self.upper),
                "(lower, upper) in order, where an infinite lower end goes with an infinite upper end",
            )

    @property
    def link(self) -> Literal["identity", "log", "logit"]:
        """Name of the link that keeps the parameter inside its space."""
        if np.isinf(self.lower):
            return "identity"
        return "log" if np.isinf(self.upper) else "logit"

    def to_link(self, theta: Array) -> Array:
        """Map values inside the space to the real line, and its ends to minus and plus infinity."""
        theta = np.asarray(theta, dtype=np.float64)
        if self.link == "identity":
            return theta
        with np.errstate(divide="ignore"):
            below = np.log(theta - self.lower)
            return below if self.link == "log" else below - np.log(self.upper - theta)

    def from_link(self, eta: Array) -> Array:
        """Map the real line into the space."""
        if self.link == "identity":
            return np.asarray(eta, dtype=np.float64)
        if self.link == "log":
            return self.lower + np.exp(eta)
        return self.lower + (self.upper - self.lower) / (1 + np.exp(-eta))

    def slope(self, eta: Array) -> Array:
        """Differentiate `from_link`."""
        if self.link == "identity":
            return np.ones_like(eta)
        if self.link == "log":
            return np.exp(eta)
        share = 1 / (1 + np.exp(-eta))
        return (self.upper - self.lower) * share * (1 - share)


_LINE, _HALF_LINE, _UNIT = Parameter("x", -np.inf, np.inf), Parameter("x", 0.0, np.inf), Parameter("x", 0.0, 1.0)


class Moments(NamedTuple):
    """Moments of one row's features.

    Attributes
    ----------
    mean : ndarray (R, k)
    cov : ndarray (R, k, k)
    jacobian : ndarray (R, k, p)
        Derivative of the mean with respect to the parameters.
    """

    mean: Array
    cov: Array
    jacobian: Array

    @classmethod
    def of_masses(cls, at: Array, mass: Array, changes: Sequence[Array]) -> Moments:
        """Sum over points with features (R, N, k), masses (R, N) and their derivatives by each parameter."""
        mean = np.einsum("rn,rnk->rk", mass, at)
        off = at - mean[:, None]
        cov = np.swapaxes(off * mass[..., None], 1, 2) @ off
        return cls(mean, cov, np.stack([np.einsum("rn,rnk->rk", change, off) for change in changes], axis=-1))


def limits(column: Column) -> tuple[float, float]:
    """Bounds of a numeric or Boolean column."""
    return float(getattr(column, "lower", 0.0)), float(getattr(column, "upper", 1.0))


class ExponentialFamily(ABC):
    """A parametric family whose sufficient statistics are measured on clipped values.

    Attributes
    ----------
    name : str
    parameters : tuple of Parameter, length p
        The conventional parameters.
    texts : tuple of str, length p
        The statistics, as expressions in the letter x.
    """

    name: str
    parameters: tuple[Parameter, ...]
    texts: tuple[str, ...]
    _natural: ClassVar[dict[str, Callable[..., Array]]] = {}
    """Natural parameters by name, of the statistics that the density is usually written in (not centred)."""
    _right: str

    @abstractmethod
    def _suits(self, declared: Column) -> bool:
        """Whether a column's type and bounds suit the family; `_right` describes those that do."""

    @abstractmethod
    def box(self, lower: float, upper: float) -> Array:
        """Wide but finite range of each parameter, (p, 2), for a column with these bounds."""

    @abstractmethod
    def clamped(self, theta: Array, lower: float, upper: float, features: Features) -> Moments:
        """Moments of the features of a value clipped to ``[lower, upper]``.

        Parameters
        ----------
        theta : ndarray (R, p)
        lower, upper : float
        features : callable
            Maps values of any shape (...) to features (..., k).

        Returns
        -------
        Moments
        """

    def statistics(self, column: str, lower: float, upper: float) -> tuple[str, ...]:  # noqa: ARG002
        """Return the sufficient statistics as expressions of a column.

        Parameters
        ----------
        column : str
            The column's name.
        lower, upper : float
            Its public bounds; a statistic may be centred by them, which reduces the noise.

        Returns
        -------
        tuple of str, length p
            For `dpinfer.schema.expressions.compile_expression`.
        """
        return tuple(_LETTER.sub(lambda _: f"`{column}`", text) for text in self.texts)

    def natural(self, theta: Array) -> Array:
        """Return natural parameters (R, p), in the order of `natural_names`.

        Raises
        ------
        InferenceError
            If the family does not define them.
        """
        if not self._natural:
            raise InferenceError(
                f"the natural parameters of {self.name} are not known: its parameters are those it names"
            )
        return np.stack([one(*np.moveaxis(theta, -1, 0)) for one in self._natural.values()], axis=-1)

    @property
    def natural_names(self) -> tuple[str, ...]:
        """Names of what `natural` returns; empty if it is not known."""
        return tuple(self._natural)

    def start(self, means: Array, lower: float, upper: float) -> Array:  # noqa: ARG002
        """Return starting values (R, p) from noisy means (R, k) of the statistics; maybe outside the space, or NaN."""
        return means

    def sample(self, theta: Array, size: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw unclipped values at one parameter vector (p,); for simulation only."""
        return np.asarray(getattr(rng, self.name)(*theta, size), dtype=np.float64)

    def check(self, column: str, declared: Column) -> None:
        """Refuse a column whose type or bounds do not suit the family.

        Raises
        ------
        SchemaError
        """
        if not self._suits(declared):
            raise SchemaError(f"the {self.name} family does not suit {column} = {declared!r}: declare {self._right}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(parameter.name for parameter in self.parameters)

    def _slopes(self, values: Callable[[Array], Array], theta: Array, span: float | None = None) -> list[Array]:
        """Differentiate a function (R, N) in the parameters (R, p), by differences on the scale of the link.

        ``span`` is the unit of parameters on the whole line; by default their own size.
        """
        found = []
        for index, parameter in enumerate(self.parameters):
            eta, high, low = parameter.to_link(theta[:, index]), theta.copy(), theta.copy()
            size = np.maximum(1.0, np.abs(eta)) if span is None else span
            unit = _STEP * (size if parameter.link == "identity" else 1.0)
            high[:, index], low[:, index] = parameter.from_link(eta + unit), parameter.from_link(eta - unit)
            with np.errstate(invalid="ignore"):
                found.append((values(high) - values(low)) / (high - low)[:, index, None])
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the family as a JSON-ready mapping; `from_dict` reads it."""
        return {"name": self.name, **{name: getattr(self, name) for name in _options(type(self))}}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ExponentialFamily:
        """Read what `to_dict` wrote; a user-defined family can then be compared, but not fitted.

        Raises
        ------
        KeyError, DPInferError
            If there is no such family.
        """
        if stored.get("own"):
            return Family.from_dict(stored)
        known = FAMILIES[str(stored["name"])]
        return known(**{name: stored[name] for name in _options(known)})


def _options(family: type[Any]) -> list[str]:
    return [one.name for one in fields(family) if one.init]


# Real values: quadrature between the bounds, and atoms at them


class _Continuous(ExponentialFamily):
    """Integrates over a coordinate in which the density is smooth and has light tails."""

    _scale: ClassVar[Parameter] = _HALF_LINE
    """Whose link is the coordinate: the logarithm unless a family says otherwise."""
    _within: ClassVar[tuple[float, float]] = (0.0, np.inf)
    """Between which the bounds of the column must be."""
    _right = "Real(lower, upper) with lower > 0, so that its logarithm is bounded"

    def _suits(self, declared: Column) -> bool:
        return isinstance(declared, Real) and self._within[0] < declared.lower and declared.upper < self._within[1]

    @abstractmethod
    def _breaks(self, theta: Array) -> Array:
        """Return the ends (R, B) of panels that contain the mass, in the coordinate."""

    @abstractmethod
    def _density(self, y: Array, theta: Array) -> tuple[Array, list[Array]]:
        """Log density of the coordinate (R, N), and its derivatives in the parameters; theta is (p, R, 1)."""

    @abstractmethod
    def _tails(self, theta: Array, low: float, high: float) -> tuple[Array, Array]:
        """Probabilities (R,) that the coordinate is at most ``low`` and at least ``high``; theta is (p, R)."""

    def clamped(self, theta: Array, lower: float, upper: float, features: Features) -> Moments:
        """See `ExponentialFamily`."""
        low, high = self._scale.to_link(np.array([lower, upper]))
        y, weights = composite_nodes(np.clip(self._breaks(theta), low, high))
        log_density, scores = self._density(y, theta.T[..., None])
        inner = weights * np.exp(log_density)

        def atoms(at: Array) -> Array:
            return np.stack(self._tails(at.T, low, high), axis=-1)

        ends = np.broadcast_to([lower, upper], (len(theta), 2))
        values = np.concatenate([np.clip(self._scale.from_link(y), lower, upper), ends], axis=1)
        changes = zip(scores, self._slopes(atoms, theta, high - low), strict=True)
        return Moments.of_masses(
            features(values),
            np.concatenate([inner, atoms(theta)], axis=1),
            [np.concatenate([inner * score, at_ends], axis=1) for score, at_ends in changes],
        )


@dataclass(frozen=True)
class Normal(_Continuous):
    """Normal distribution with mean and standard deviation."""

    name: str = field(default="normal", init=False)
    parameters = (Parameter("mean", -np.inf, np.inf), Parameter("sd", 0.0, np.inf))
    texts = ("x", "(x - {})**2")
    _natural: ClassVar = {"mean/sd**2": lambda mean, sd: mean / sd**2, "-1/(2 sd**2)": lambda _, sd: -0.5 / sd**2}
    _scale, _within, _right = _LINE, (-np.inf, np.inf), "Real(lower, upper)"

    def statistics(self, column: str, lower: float, upper: float) -> tuple[str, ...]:
        """See `ExponentialFamily`: the value, and its squared distance from the centre of the bounds."""
        low, high = self._scale.to_link(np.array([lower, upper])).tolist()
        texts = (text.replace("{}", repr(0.5 * low + 0.5 * high)) for text in self.texts)
        return tuple(_LETTER.sub(lambda _: f"`{column}`", text) for text in texts)

    def start(self, means: Array, lower: float, upper: float) -> Array:
        """See `ExponentialFamily`."""
        low, high = self._scale.to_link(np.array([lower, upper]))
        variance = means[:, 1] - (means[:, 0] - (0.5 * low + 0.5 * high)) ** 2
        return np.stack([means[:, 0], np.sqrt(np.maximum(variance, 1e-4 * (high - low) ** 2))], axis=1)

    def box(self, lower: float, upper: float) -> Array:
        """See `ExponentialFamily`."""
        low, high = self._scale.to_link(np.array([lower, upper]))
        centre, half = 0.5 * low + 0.5 * high, 0.5 * (high - low)
        return np.array([[centre - 30 * half, centre + 30 * half], [1e-4 * half, 30 * half]])

    def _breaks(self, theta: Array) -> Array:
        return np.asarray(theta[:, :1] + theta[:, 1:] * np.array([-_OUTER, -_INNER, 0.0, _INNER, _OUTER]))

    def _density(self, y: Array, theta: Array) -> tuple[Array, list[Array]]:
        mean, sd = theta
        z = (y - mean) / sd
        squared = z * z
        return -0.5 * squared - np.log(sd * np.sqrt(2 * np.pi)), [z / sd, (squared - 1) / sd]

    def _tails(self, theta: Array, low: float, high: float) -> tuple[Array, Array]:
        mean, sd = theta
        return special.ndtr((low - mean) / sd), special.ndtr((mean - high) / sd)


@dataclass(frozen=True)
class Lognormal(Normal):
    """Lognormal distribution: the logarithm has mean ``meanlog`` and standard deviation ``sdlog``."""

    name: str = field(default="lognormal", init=False)
    parameters = (Parameter("meanlog", -np.inf, np.inf), Parameter("sdlog", 0.0, np.inf))
    texts = ("log(x)", "(log(x) - {})**2")
    _natural: ClassVar = dict(zip(("meanlog/sdlog**2", "-1/(2 sdlog**2)"), Normal._natural.values(), strict=True))
    _scale, _within, _right = _HALF_LINE, (0.0, np.inf), _Continuous._right


@dataclass(frozen=True)
class Exponential(_Continuous):
    """Exponential distribution with a given mean."""

    name: str = field(default="exponential", init=False)
    parameters = (Parameter("mean", 0.0, np.inf),)
    texts = ("x",)
    _natural: ClassVar = {"-1/mean": lambda mean: -1 / mean}
    _scale, _right = _LINE, "Real(lower, upper) with lower >= 0"

    def _suits(self, declared: Column) -> bool:
        return isinstance(declared, Real) and declared.lower >= 0

    def box(self, lower: float, upper: float) -> Array:
        """See `ExponentialFamily`."""
        return np.array([[max(1e-6 * upper, lower / 600), 1e5 * upper]])

    def _breaks(self, theta: Array) -> Array:
        return np.asarray(theta * np.array([0.0, 4.0, 14.0, 40.0]))

    def _density(self, y: Array, theta: Array) -> tuple[Array, list[Array]]:
        ratio = y / theta[0]
        return -ratio - np.log(theta[0]), [(ratio - 1) / theta[0]]

    def _tails(self, theta: Array, low: float, high: float) -> tuple[Array, Array]:
        return -np.expm1(-low / theta[0]), np.exp(-high / theta[0])


@dataclass(frozen=True)
class Gamma(_Continuous):
    """Gamma distribution with shape and scale; its mean is their product."""

    name: str = field(default="gamma", init=False)
    parameters = (Parameter("shape", 0.0, np.inf), Parameter("scale", 0.0, np.inf))
    texts = ("x", "log(x)")
    _natural: ClassVar = {"-1/scale": lambda _, scale: -1 / scale, "shape - 1": lambda shape, _: shape - 1}

    def start(self, means: Array, lower: float, upper: float) -> Array:
        """See `ExponentialFamily`."""
        mean = np.clip(means[:, 0], lower, upper)
        gap = np.maximum(np.log(mean) - means[:, 1], 1e-4)
        shape = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
        return np.stack([shape, mean / shape], axis=1)

    def box(self, lower: float, upper: float) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`."""
        return np.array([[1e-3, 1e6], [1e-8 * upper, 1e6 * upper]])

    def _breaks(self, theta: Array) -> Array:
        shape, scale = theta[:, :1], theta[:, 1:]
        depth = 0.5 * np.array([_INNER, _OUTER]) ** 2 / shape
        reach = depth + np.sqrt(2 * depth)
        near, far = np.maximum(-reach[:, :1], -16.0), -reach[:, 1:]
        steps = np.concatenate([far, -reach[:, :1], near, np.zeros_like(near), np.log1p(reach)], axis=1)
        return np.asarray(np.log(shape * scale) + steps)

    def _density(self, y: Array, theta: Array) -> tuple[Array, list[Array]]:
        shape, scale = theta
        centred = y - np.log(scale)
        ratio = np.exp(np.minimum(centred, 700.0))
        scores = [centred - special.digamma(shape), (ratio - shape) / scale]
        return shape * centred - ratio - special.gammaln(shape), scores

    def _tails(self, theta: Array, low: float, high: float) -> tuple[Array, Array]:
        shape, scale = theta
        return special.gammainc(shape, np.exp(low) / scale), special.gammaincc(shape, np.exp(high) / scale)


@dataclass(frozen=True)
class Beta(_Continuous):
    """Beta distribution on the unit interval, with density proportional to ``x**(a - 1) (1 - x)**(b - 1)``."""

    name: str = field(default="beta", init=False)
    parameters = (Parameter("a", 0.0, np.inf), Parameter("b", 0.0, np.inf))
    texts = ("log(x)", "log(1 - x)")
    _natural: ClassVar = {"a - 1": lambda a, _: a - 1, "b - 1": lambda _, b: b - 1}
    _scale, _within = _UNIT, (0.0, 1.0)
    _right = "Real(lower, upper) with 0 < lower and upper < 1, so that the logarithms are bounded"

    def start(self, means: Array, lower: float, upper: float) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`: the approximation of Johnson & Kotz by geometric means."""
        geometric = np.exp(np.minimum(means, -1e-6))
        rest = np.maximum(1 - geometric.sum(axis=1, keepdims=True), 1e-3)
        return np.asarray(0.5 + 0.5 * geometric / rest)

    def box(self, lower: float, upper: float) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`."""
        return np.array([[1e-3, 1e5], [1e-3, 1e5]])

    def _breaks(self, theta: Array) -> Array:
        """Distance to each side of the mode at which the density has fallen to the panel ends, in logits.

        Newton's method on a convex function, from a start beyond the root.
        """
        a, b = theta[:, :1], theta[:, 1:]
        sides = []
        for own, other in ((b, a), (a, b)):
            share, depth = own / (own + other), 0.5 * np.array([_INNER, _OUTER]) ** 2
            u = np.sqrt(2 * depth * (own + other) / (own * other)) + depth / other
            for _ in range(5):
                drop = (own + other) * np.logaddexp(np.log1p(-share), np.log(share) + u) - own * u
                slope = (own + other) / (1 + np.exp(-u) * (1 - share) / share) - own
                u = np.maximum(u - (drop - depth) / np.maximum(slope, 1e-12), 0.0)
            sides.append(np.concatenate([np.minimum(u[:, :1], 8.0), np.minimum(u[:, :1], 16.0), u], axis=1))
        steps = np.concatenate([-sides[0][:, ::-1], np.zeros_like(a), sides[1]], axis=1)
        return np.asarray(np.log(a / b) + steps)

    def _density(self, y: Array, theta: Array) -> tuple[Array, list[Array]]:
        a, b = theta
        log_x = np.minimum(y, 0.0) - np.log1p(np.exp(-np.abs(y)))
        log_rest = log_x - y
        total = special.digamma(a + b)
        scores = [log_x - special.digamma(a) + total, log_rest - special.digamma(b) + total]
        return a * log_x + b * log_rest - special.betaln(a, b), scores

    def _tails(self, theta: Array, low: float, high: float) -> tuple[Array, Array]:
        a, b = theta
        return special.betainc(a, b, special.expit(low)), special.betainc(b, a, special.expit(-high))


# Counts: closed forms


class _Count(ExponentialFamily):
    """One parameter, and the value itself as statistic."""

    texts = ("x",)
    _right = "Integer(lower, upper) with lower >= 0"

    def _suits(self, declared: Column) -> bool:
        return isinstance(declared, Integer) and declared.lower >= 0

    def clamped(self, theta: Array, lower: float, upper: float, features: Features) -> Moments:
        """See `ExponentialFamily`."""
        mean, square, slope = self._value(theta[:, 0], lower, upper)
        ends = features(np.array([lower, upper]))
        rate = (ends[1] - ends[0]) / (upper - lower)
        cov = np.maximum(square - mean**2, 0.0)[:, None, None] * np.outer(rate, rate)
        return Moments(ends[0] + mean[:, None] * rate, cov, slope[:, None, None] * rate[:, None])

    def _moments(self, theta: Array) -> tuple[Array, Array]:
        """Return the first and second factorial moments."""
        raise NotImplementedError

    def _below(self, k: float, theta: Array, shift: int = 0) -> Array:
        """P(X <= k) for the distribution after ``shift`` factors, for any integer k."""
        raise NotImplementedError

    def _above(self, k: float, theta: Array) -> Array:
        return 1 - self._below(k, theta)

    def _value(self, theta: Array, lower: float, upper: float) -> tuple[Array, Array, Array]:
        """Mean and mean square of the clipped value above its lower bound, and the mean's derivative, each (R,).

        Uses factorial moments of the same distribution, shifted: ``E[X .. (X - j + 1); a <= X <= b]`` is the j-th
        factorial moment times the probability of ``[a - j, b - j]`` under the distribution after j factors.
        """

        def between(low: float, high: float, shift: int) -> Array:
            return self._below(high, theta, shift) - self._below(low - 1, theta, shift)

        once, twice = self._moments(theta)
        first = once * between(lower - 1, upper - 1, 1)
        second = twice * between(lower - 2, upper - 2, 2) + first
        inside, above = between(lower, upper, 0), self._above(upper, theta)
        mean = first - lower * inside + (upper - lower) * above
        square = second - 2 * lower * first + lower**2 * inside + (upper - lower) ** 2 * above
        return mean, square, once / theta * between(lower, upper - 1, 1)


@dataclass(frozen=True)
class Binomial(_Count):
    """Binomial distribution for `expfam`: successes among a known number of trials.

    Parameters
    ----------
    trials : int
        At least 1.

    Raises
    ------
    OptionError
        If ``trials`` is not an integer of at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dpi
    >>> schema = dpi.Schema(hits=dpi.Integer(0, 10))
    >>> rng = np.random.default_rng(1)
    >>> frame = schema.sample(5000, rng).assign(hits=rng.binomial(10, 0.3, 5000))
    >>> results = dpi.expfam("hits", dpi.PublicData(frame, schema, rng=rng), family=dpi.Binomial(10)).fit(dpi.ZCDP(0.5))
    >>> bool(abs(results.params.iloc[0] - 0.3) < 0.02)
    True
    """

    trials: int
    name: str = field(default="binomial", init=False)
    parameters = (Parameter("p", 0.0, 1.0),)
    _natural: ClassVar = {"logit(p)": special.logit}

    def __post_init__(self) -> None:
        right = type(self.trials) is int and self.trials >= 1
        require(right, "trials", self.trials, "a whole number of at least 1")

    @property
    def _right(self) -> str:  # type: ignore[override]
        return f"Integer(lower, upper) within [0, {self.trials}]"

    def _suits(self, declared: Column) -> bool:
        if isinstance(declared, Boolean):
            return self.trials == 1
        return isinstance(declared, Integer) and declared.lower >= 0 and declared.upper <= self.trials

    def start(self, means: Array, lower: float, upper: float) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`."""
        return means / self.trials

    def box(self, lower: float, upper: float) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`."""
        return np.array([[1e-9, 1 - 1e-9]])

    def _moments(self, theta: Array) -> tuple[Array, Array]:
        return self.trials * theta, self.trials * (self.trials - 1) * theta**2

    def _below(self, k: float, theta: Array, shift: int = 0) -> Array:
        left = self.trials - shift
        if k < 0 or k >= left:
            return np.full_like(theta, float(k >= 0))
        return np.asarray(special.betainc(left - k, k + 1.0, 1 - theta))

    def sample(self, theta: Array, size: tuple[int, ...], rng: np.random.Generator) -> Array:
        """See `ExponentialFamily`."""
        return rng.binomial(self.trials, theta[0], size).astype(np.float64)


@dataclass(frozen=True)
class Bernoulli(Binomial):
    """Bernoulli distribution of a Boolean, or of 0 and 1."""

    trials: int = field(default=1, init=False, repr=False)
    name: str = field(default="bernoulli", init=False)
    _right = "Boolean() or Integer(0, 1)"


@dataclass(frozen=True)
class Poisson(_Count):
    """Poisson distribution with a constant rate."""

    name: str = field(default="poisson", init=False)
    parameters = (Parameter("rate", 0.0, np.inf),)
    _natural: ClassVar = {"log(rate)": np.log}

    def box(self, lower: float, upper: float) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`."""
        return np.array([[1e-8, 10 * (upper + 10)]])

    def _moments(self, theta: Array) -> tuple[Array, Array]:
        return theta, theta**2

    def _below(self, k: float, theta: Array, shift: int = 0) -> Array:  # noqa: ARG002
        return np.asarray(special.pdtr(k, theta)) if k >= 0 else np.zeros_like(theta)

    def _above(self, k: float, theta: Array) -> Array:
        return np.asarray(special.pdtrc(k, theta))


@dataclass(frozen=True)
class Geometric(_Count):
    """Number of failures before the first success: 0, 1, 2, ... with probability ``p (1 - p)**k``."""

    name: str = field(default="geometric", init=False)
    parameters = (Parameter("p", 0.0, 1.0),)
    _natural: ClassVar = {"log(1 - p)": lambda p: np.log1p(-p)}
    _right = f"{_Count._right}; 0 is possible"

    def start(self, means: Array, lower: float, upper: float) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`."""
        return 1 / (1 + np.maximum(means, 0.0))

    def box(self, lower: float, upper: float) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`."""
        return np.array([[1 / (1 + 10 * (upper + 10)), 1 - 1e-9]])

    def _value(self, theta: Array, lower: float, upper: float) -> tuple[Array, Array, Array]:
        width, log_q = upper - lower, np.log1p(-theta)
        tail = np.exp((lower + 1) * log_q)
        sums = -np.expm1(width * log_q) / theta
        weighted = (np.exp(log_q) * sums - width * np.exp(width * log_q)) / theta
        slope = -np.exp(lower * log_q) * ((lower + 1) * sums + weighted)
        return tail * sums, tail * (2 * weighted + sums), slope

    def sample(self, theta: Array, size: tuple[int, ...], rng: np.random.Generator) -> Array:
        """See `ExponentialFamily`."""
        return super().sample(theta, size, rng) - 1.0


# A user's own


@dataclass(frozen=True, eq=False)
class Family(ExponentialFamily):
    """A distribution of your own for `expfam`, given by its density and its sufficient statistics.

    Parameters
    ----------
    name : str
    parameters : mapping of str to (lower, upper)
        Open ends of each parameter's space; they may be infinite.
    statistics : tuple of str
        One expression in the letter ``x`` per parameter, bounded on the column's bounds.
    log_density : callable
        ``log_density(x, *theta)`` on arrays that broadcast. It may omit the normalising constant, even one that depends
        on the parameters.
    support : (lower, upper)
        Where the density is positive.
    discrete : bool
        Whether the values are the integers of the support (at most the first `MOST_VALUES`).
    search : mapping of str to (lower, upper), optional
        Finite search range of a parameter; by default four orders of magnitude either way.

    Raises
    ------
    OptionError
        If an argument is invalid.

    Notes
    -----
    A continuous density must have one peak inside the support, in the coordinate that integration uses: the logit of
    the position in a finite support, the logarithm of the distance from the end of a half line, the inverse hyperbolic
    sine on the line. The function itself is not stored in a release: to infer from a stored release, pass the family
    again.

    Examples
    --------
    >>> import numpy as np
    >>> weibull = Family(
    ...     "weibull2", parameters={"rate": (0, np.inf)}, statistics=("x**2",),
    ...     log_density=lambda x, rate: np.log(x) - rate * x**2, support=(0, np.inf))
    >>> weibull.statistics("wait", 0.0, 4.0)
    ('`wait`**2',)
    """

    name: str
    parameters: tuple[Parameter, ...] = field(repr=False)
    texts: tuple[str, ...]
    log_density: Callable[..., Array] = field(repr=False)
    support: tuple[float, float]
    discrete: bool
    search: Mapping[str, tuple[float, float]] = field(repr=False)

    def __init__(
        self,
        name: str,
        *,
        parameters: Mapping[str, tuple[float, float]],
        statistics: tuple[str, ...],
        log_density: Callable[..., Array],
        support: tuple[float, float] = (-np.inf, np.inf),
        discrete: bool = False,
        search: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        given = (statistics,) if isinstance(statistics, str) else tuple(statistics)
        if not isinstance(name, str) or not name.isidentifier():
            raise OptionError("name", name, "a name made of letters, digits and _")
        if not parameters or len(given) != len(parameters):
            raise OptionError("statistics", given, f"one statistic for each parameter ({len(parameters)})")
        if not all(isinstance(text, str) and _LETTER.search(text) for text in given):
            raise OptionError("statistics", given, "expressions in the letter x, such as ('x', 'log(x)')")
        if not callable(log_density):
            raise OptionError("log_density", log_density, "a function log_density(x, *theta) of arrays")
        if len(support) != 2 or not support[0] < support[1]:
            raise OptionError("support", support, "(lower, upper), in order")
        if (discrete and not np.isfinite(support[0])) or (np.isinf(support[0]) and np.isfinite(support[1])):
            raise OptionError("support", support, "a support with a finite lower end, or the whole line")
        if search and not set(search) <= set(parameters):
            raise OptionError("search", sorted(search), [*parameters])
        spaces = tuple(Parameter(key, float(low), float(high)) for key, (low, high) in parameters.items())
        ends = float(support[0]), float(support[1])
        values = (name, spaces, given, log_density, ends, bool(discrete), dict(search or {}))
        for one, value in zip(fields(self), values, strict=True):
            object.__setattr__(self, one.name, value)

    @property
    def _right(self) -> str:  # type: ignore[override]
        low, high = self.support
        if self.discrete:
            return f"Integer(lower, upper) or Boolean() that meets the support from {low:g} to {high:g}"
        return f"Real(lower, upper) that meets the support ({low:g}, {high:g})"

    def _suits(self, declared: Column) -> bool:
        if not isinstance(declared, Integer | Boolean if self.discrete else Real):
            return False
        lower, upper = limits(declared)
        return lower < self.support[1] and upper > self.support[0]

    def box(self, lower: float, upper: float) -> Array:
        """See `ExponentialFamily`."""
        size, ends = 20 * max(abs(lower), abs(upper), 1e-3), []
        for one in self.parameters:
            margin = 1e-6 * (one.upper - one.lower)
            usual = {
                "identity": (-size, size),
                "log": (one.lower + 1e-4, one.lower + 1e4),
                "logit": (one.lower + margin, one.upper - margin),
            }
            ends.append(self.search.get(one.name, usual[one.link]))
        return np.array(ends)

    def start(self, means: Array, lower: float, upper: float) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`: unknown, so the middle of the range and a lattice are tried."""
        return np.full((len(means), len(self.parameters)), np.nan)

    def _log_density(self, x: Array, theta: Array, log_slope: Array | float = 0.0) -> Array:
        """Log density at values (R, N), times the slope of a coordinate; theta is (R, p)."""
        with np.errstate(all="ignore"):
            out = np.asarray(self.log_density(x, *theta.T[..., None]), dtype=np.float64) + log_slope
        return np.where(np.isnan(out), -np.inf, np.maximum(out, -1e300))

    def _value(self, y: Array, centre: float, scale: float) -> tuple[Array, Array]:
        """Values at a coordinate, and the log of their derivative."""
        low, high = self.support
        if np.isinf(low):
            return centre + scale * np.sinh(y), np.log(scale) + np.log(np.cosh(y))
        slope = y if np.isinf(high) else np.log(high - low) - np.logaddexp(0, y) - np.logaddexp(0, -y)
        return Parameter("x", low, high).from_link(y), slope

    def _window(self, theta: Array, centre: float, scale: float) -> tuple[Array, Array]:
        """Find the range of the coordinate that contains the mass, by zooming in on the peak; each (R, 1)."""
        reach = 36.0 if np.isinf(self.support).all() else 300.0
        low, high = np.full((len(theta), 1), -reach), np.full((len(theta), 1), reach)
        rows = np.arange(len(theta))
        for _ in range(_ZOOMS):
            grid = low + (high - low) * np.linspace(0, 1, _GRID)
            x, log_slope = self._value(grid, centre, scale)
            log = self._log_density(x, theta, log_slope)
            inside = log > log.max(axis=1, keepdims=True) - _DEPTH
            first = np.maximum(inside.argmax(axis=1) - 1, 0)
            last = np.minimum(_GRID - inside[:, ::-1].argmax(axis=1), _GRID - 1)
            low, high = grid[rows, first][:, None], grid[rows, last][:, None]
        return low, high

    def _points(self, theta: Array, lower: float, upper: float) -> tuple[Array, Array, Array]:
        """Values (R, N), log slopes of the coordinate there, and log weights."""
        low, high = self.support
        if self.discrete:
            first, last = np.ceil(low), min(high, low + MOST_VALUES - 1)
            values = np.broadcast_to(np.arange(first, last + 1), (len(theta), int(last - first) + 1))
            return values, np.zeros((1, 1)), np.zeros((1, 1))
        centre, scale = 0.5 * lower + 0.5 * upper, 0.5 * (upper - lower)
        start, end = self._window(theta, centre, scale)
        bounds = np.clip([lower, upper], low, high)
        cuts = np.arcsinh((bounds - centre) / scale) if np.isinf(low) else Parameter("x", low, high).to_link(bounds)
        breaks = start + (end - start) * np.linspace(0, 1, _PANELS + 1)
        breaks = np.concatenate([breaks, np.clip(np.broadcast_to(cuts, (len(theta), 2)), start, end)], axis=1)
        y, weights = composite_nodes(np.sort(breaks, axis=1), order=_ORDER)
        with np.errstate(divide="ignore"):
            return *self._value(y, centre, scale), np.log(weights)

    def clamped(self, theta: Array, lower: float, upper: float, features: Features) -> Moments:
        """See `ExponentialFamily`."""
        values, log_slope, log_weights = self._points(theta, lower, upper)

        def log(at: Array) -> Array:
            return self._log_density(values, at, log_slope)

        found = log(theta) + log_weights
        mass = np.exp(found - found.max(axis=1, keepdims=True))
        mass /= mass.sum(axis=1, keepdims=True)
        changes = [np.where(mass > 0, mass * np.nan_to_num(one), 0.0) for one in self._slopes(log, theta)]
        return Moments.of_masses(features(np.clip(values, lower, upper)), mass, changes)

    def sample(self, theta: Array, size: tuple[int, ...], rng: np.random.Generator) -> Array:
        """See `ExponentialFamily`: by inversion of the distribution function on a fine grid."""
        at = np.asarray(theta, dtype=np.float64)[None]
        uniform = rng.random(size)
        if self.discrete:
            values = self._points(at, 0.0, 1.0)[0]
            log = self._log_density(values, at)[0]
            mass = np.exp(log - log.max())
            rank = np.searchsorted(np.cumsum(mass), uniform * mass.sum())
            return np.array(values[0][np.minimum(rank, mass.size - 1)])
        low, high = (float(end[0, 0]) for end in self._window(at, 0.0, 1.0))
        grid = np.linspace(low, high, 4001)
        x, log_slope = self._value(grid[None], 0.0, 1.0)
        log = self._log_density(x, at, log_slope)[0]
        density = np.exp(log - log.max())
        below = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
        return self._value(np.interp(uniform, below / below[-1], grid), 0.0, 1.0)[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the name and public parts of the family; the function itself is not stored."""

        def stored(*ends: float) -> list[float | None]:  # JSON has no infinity
            return [float(end) if np.isfinite(end) else None for end in ends]

        return {
            "name": self.name,
            "own": True,
            "parameters": {one.name: stored(one.lower, one.upper) for one in self.parameters},
            "statistics": list(self.texts),
            "support": stored(*self.support),
            "discrete": self.discrete,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Family:
        """Read what `to_dict` wrote: a family for comparison, without its log-density."""

        def ends(lower: float | None, upper: float | None) -> tuple[float, float]:
            return -np.inf if lower is None else lower, np.inf if upper is None else upper

        pair = tuple[float | None, float | None]
        kinds = {"parameters": Mapping[str, pair], "statistics": tuple[str, ...], "support": pair, "discrete": bool}
        name = decode("name", stored["name"], str)
        read = {key: decode(key, stored[key], kind) for key, kind in kinds.items()}
        read["parameters"] = {key: ends(*given) for key, given in read["parameters"].items()}
        read["support"] = ends(*read["support"])
        return cls(name, log_density=partial(_not_stored, name), **read)

    def require_density(self) -> None:
        """Refuse a family that was read from a release.

        Raises
        ------
        InferenceError
        """
        if getattr(self.log_density, "func", None) is _not_stored:
            self.log_density()


def _not_stored(name: str, *_: Array) -> Array:
    raise InferenceError(
        f"the release was made for the user-defined family {name!r}, whose log-density is not stored: "
        "pass family=Family(...) to infer from it"
    )


FAMILIES: dict[str, type[ExponentialFamily]] = {
    one.name: one for one in (Bernoulli, Beta, Binomial, Exponential, Gamma, Geometric, Lognormal, Normal, Poisson)
}
"""The families that come with the library, by name."""


def as_family(family: str | ExponentialFamily) -> ExponentialFamily:
    """Return a family, given itself or its name.

    Parameters
    ----------
    family : str or ExponentialFamily
        A name suffices for every family without a further number (all but the binomial).

    Raises
    ------
    OptionError
        If there is no such family.

    Examples
    --------
    >>> as_family("normal").names
    ('mean', 'sd')
    """
    if isinstance(family, ExponentialFamily):
        return family
    if family == "binomial":
        raise OptionError("family", family, "Binomial(trials) with the known number of trials")
    if not isinstance(family, str) or family not in FAMILIES:
        raise OptionError("family", family, [*sorted(FAMILIES), "a Family of your own"])
    return FAMILIES[family]()
