"""Families of real values: moments of the clamped value by quadrature between the bounds, and atoms at them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from dpinfer.inference.families.base import (
    Array,
    ExponentialFamily,
    Features,
    Moments,
    Parameter,
    limits,
    mismatch,
    quoted,
)
from dpinfer.numerics.quadrature import composite_nodes
from dpinfer.schema.columns import Real

if TYPE_CHECKING:
    from dpinfer.schema.columns import Column

__all__ = ["Beta", "Exponential", "Gamma", "Lognormal", "Normal"]

_INNER, _OUTER = 3.5, 9.0
"""Where panels end: points at which the density is ``exp(-c**2 / 2)`` of its peak. Beyond the outer ones it is 0."""
_STEP = 1e-5


class _Continuous(ExponentialFamily):
    """Integrals run over a coordinate in which the density is smooth and its tails are light."""

    _right: ClassVar[str]

    def _suits(self, lower: float, upper: float) -> bool:  # noqa: ARG002
        return True

    def check(self, column: str, declared: Column) -> None:
        """See `ExponentialFamily`."""
        if not isinstance(declared, Real) or not self._suits(*limits(declared)):
            raise mismatch(self.name, column, declared, self._right)

    def _coordinate(self, x: Array) -> Array:
        """Map values to the coordinate; the logarithm unless a family says otherwise."""
        with np.errstate(divide="ignore"):
            return np.log(x)

    def _value(self, y: Array) -> Array:
        """Map the coordinate to values."""
        return np.exp(y)

    @abstractmethod
    def _breaks(self, theta: Array) -> Array:
        """Give the ends of panels that hold the mass, in the coordinate, (R, B)."""
        ...

    @abstractmethod
    def _density(self, y: Array, theta: Array) -> tuple[Array, list[Array]]:
        """Log density of the coordinate (R, N), and its derivatives by each parameter; theta is (p, R, 1)."""
        ...

    @abstractmethod
    def _tails(self, theta: Array, lower: float, upper: float) -> Array:
        """Probabilities to be at most ``lower`` and to be at least ``upper``, (..., 2); theta is (p, ...)."""
        ...

    def _atoms(self, theta: Array, lower: float, upper: float) -> tuple[Array, Array]:
        """Masses clamped to each bound (R, 2) and their derivatives (R, 2, p)."""
        columns = theta.T
        mass = self._tails(columns, lower, upper)
        changes = np.empty((*mass.shape, len(columns)))
        for index, parameter in enumerate(self.parameters):
            eta = parameter.to_link(columns[index])
            unit = _STEP if parameter.link != "identity" else _STEP * (upper - lower)
            high, low = columns.copy(), columns.copy()
            high[index], low[index] = parameter.from_link(eta + unit), parameter.from_link(eta - unit)
            change = self._tails(high, lower, upper) - self._tails(low, lower, upper)
            changes[..., index] = change / (high[index] - low[index])[:, None]
        return mass, changes

    def clamped(self, theta: Array, lower: float, upper: float, features: Features) -> Moments:
        """See `ExponentialFamily`."""
        ends = self._coordinate(np.array([lower, upper]))
        y, weights = composite_nodes(np.clip(self._breaks(theta), *ends))
        log_density, scores = self._density(y, theta.T[..., None])
        mass = weights * np.exp(log_density)
        inner, edge = features(np.clip(self._value(y), lower, upper)), features(np.array([lower, upper]))
        atoms, changes = self._atoms(theta, lower, upper)
        mean = np.einsum("rn,rnk->rk", mass, inner) + atoms @ edge
        off, off_edge = inner - mean[:, None], edge - mean[:, None]
        cov = np.swapaxes(off * mass[..., None], 1, 2) @ off
        cov += np.swapaxes(off_edge * atoms[..., None], 1, 2) @ off_edge
        jacobian = np.swapaxes(off_edge, 1, 2) @ changes
        for index, score in enumerate(scores):
            jacobian[..., index] += np.einsum("rn,rnk->rk", mass * score, off)
        return Moments(mean, cov, jacobian)


@dataclass(frozen=True)
class Normal(_Continuous):
    """Normal law with mean and standard deviation."""

    name: str = field(default="normal", init=False)
    parameters = (Parameter("mean", -np.inf, np.inf), Parameter("sd", 0.0, np.inf))
    natural_names = ("mean/sd**2", "-1/(2 sd**2)")
    _right: ClassVar[str] = "Real(lower, upper)"

    def statistics(self, column: str, lower: float, upper: float) -> tuple[str, ...]:
        """See `ExponentialFamily`: the value, and its squared distance from the centre of the bounds."""
        x = quoted(column)
        return x, f"({x} - {0.5 * lower + 0.5 * upper!r})**2"

    def natural(self, theta: Array) -> Array:
        """See `ExponentialFamily`."""
        variance = theta[..., 1] ** 2
        return np.stack([theta[..., 0] / variance, -0.5 / variance], axis=-1)

    def start(self, means: Array, lower: float, upper: float) -> Array:
        """See `ExponentialFamily`."""
        variance = means[:, 1] - (means[:, 0] - (0.5 * lower + 0.5 * upper)) ** 2
        return np.stack([means[:, 0], np.sqrt(np.maximum(variance, 1e-4 * (upper - lower) ** 2))], axis=1)

    def box(self, lower: float, upper: float) -> Array:
        """See `ExponentialFamily`."""
        centre, half = 0.5 * lower + 0.5 * upper, 0.5 * (upper - lower)
        return np.array([[centre - 30 * half, centre + 30 * half], [1e-4 * half, 30 * half]])

    def _coordinate(self, x: Array) -> Array:
        return x

    def _value(self, y: Array) -> Array:
        return y

    def _breaks(self, theta: Array) -> Array:
        return np.asarray(theta[:, :1] + theta[:, 1:] * np.array([-_OUTER, -_INNER, 0.0, _INNER, _OUTER]))

    def _density(self, y: Array, theta: Array) -> tuple[Array, list[Array]]:
        mean, sd = theta
        z = (y - mean) / sd
        squared = z * z
        return -0.5 * squared - np.log(sd * np.sqrt(2 * np.pi)), [z / sd, (squared - 1) / sd]

    def _tails(self, theta: Array, lower: float, upper: float) -> Array:
        ends = self._coordinate(np.array([lower, upper]))
        mean, sd = theta
        return np.stack([special.ndtr((ends[0] - mean) / sd), special.ndtr((mean - ends[1]) / sd)], axis=-1)

    def sample(self, theta: Array, size: tuple[int, ...], rng: np.random.Generator) -> Array:
        """See `ExponentialFamily`."""
        return self._value(np.asarray(rng.normal(theta[0], theta[1], size)))


@dataclass(frozen=True)
class Lognormal(Normal):
    """Law of a value whose logarithm is normal with mean ``meanlog`` and standard deviation ``sdlog``."""

    name: str = field(default="lognormal", init=False)
    parameters = (Parameter("meanlog", -np.inf, np.inf), Parameter("sdlog", 0.0, np.inf))
    natural_names = ("meanlog/sdlog**2", "-1/(2 sdlog**2)")
    _right: ClassVar[str] = "Real(lower, upper) with lower > 0, so that its logarithm is bounded"

    def _suits(self, lower: float, upper: float) -> bool:  # noqa: ARG002
        return lower > 0

    def statistics(self, column: str, lower: float, upper: float) -> tuple[str, ...]:
        """See `ExponentialFamily`: the logarithm, and its squared distance from the centre of its bounds."""
        x, centre = quoted(column), float(0.5 * np.log(lower) + 0.5 * np.log(upper))
        return f"log({x})", f"(log({x}) - {centre!r})**2"

    def start(self, means: Array, lower: float, upper: float) -> Array:
        """See `ExponentialFamily`."""
        return super().start(means, *np.log([lower, upper]))

    def box(self, lower: float, upper: float) -> Array:
        """See `ExponentialFamily`."""
        return super().box(*np.log([lower, upper]))

    def _atoms(self, theta: Array, lower: float, upper: float) -> tuple[Array, Array]:
        return Normal()._atoms(theta, *np.log([lower, upper]))

    _coordinate = _Continuous._coordinate
    _value = _Continuous._value


@dataclass(frozen=True)
class Exponential(_Continuous):
    """Exponential law with a mean."""

    name: str = field(default="exponential", init=False)
    parameters = (Parameter("mean", 0.0, np.inf),)
    natural_names = ("-1/mean",)
    _right: ClassVar[str] = "Real(lower, upper) with lower >= 0"

    def _suits(self, lower: float, upper: float) -> bool:  # noqa: ARG002
        return lower >= 0

    def statistics(self, column: str, lower: float, upper: float) -> tuple[str, ...]:  # noqa: ARG002
        """See `ExponentialFamily`."""
        return (quoted(column),)

    def natural(self, theta: Array) -> Array:
        """See `ExponentialFamily`."""
        return -1 / theta

    def start(self, means: Array, lower: float, upper: float) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`."""
        return means

    def box(self, lower: float, upper: float) -> Array:
        """See `ExponentialFamily`."""
        return np.array([[max(1e-6 * upper, lower / 600), 1e5 * upper]])

    def _coordinate(self, x: Array) -> Array:
        return x

    def _value(self, y: Array) -> Array:
        return y

    def _breaks(self, theta: Array) -> Array:
        return np.asarray(theta * np.array([0.0, 4.0, 14.0, 40.0]))

    def _density(self, y: Array, theta: Array) -> tuple[Array, list[Array]]:
        ratio = y / theta[0]
        return -ratio - np.log(theta[0]), [(ratio - 1) / theta[0]]

    def _tails(self, theta: Array, lower: float, upper: float) -> Array:
        return np.stack([-np.expm1(-lower / theta[0]), np.exp(-upper / theta[0])], axis=-1)

    def sample(self, theta: Array, size: tuple[int, ...], rng: np.random.Generator) -> Array:
        """See `ExponentialFamily`."""
        return np.asarray(rng.exponential(theta[0], size))


@dataclass(frozen=True)
class Gamma(_Continuous):
    """Gamma law with shape and scale; its mean is their product."""

    name: str = field(default="gamma", init=False)
    parameters = (Parameter("shape", 0.0, np.inf), Parameter("scale", 0.0, np.inf))
    natural_names = ("-1/scale", "shape - 1")
    _right: ClassVar[str] = "Real(lower, upper) with lower > 0, so that its logarithm is bounded"

    def _suits(self, lower: float, upper: float) -> bool:  # noqa: ARG002
        return lower > 0

    def statistics(self, column: str, lower: float, upper: float) -> tuple[str, ...]:  # noqa: ARG002
        """See `ExponentialFamily`: the value and its logarithm."""
        return quoted(column), f"log({quoted(column)})"

    def natural(self, theta: Array) -> Array:
        """See `ExponentialFamily`."""
        return np.stack([-1 / theta[..., 1], theta[..., 0] - 1], axis=-1)

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
        right = np.log1p(reach)
        steps = np.concatenate([far, -reach[:, :1], near, np.zeros_like(near), right], axis=1)
        return np.asarray(np.log(shape * scale) + steps)

    def _density(self, y: Array, theta: Array) -> tuple[Array, list[Array]]:
        shape, scale = theta
        centred = y - np.log(scale)
        ratio = np.exp(np.minimum(centred, 700.0))
        return (
            shape * centred - ratio - special.gammaln(shape),
            [centred - special.digamma(shape), (ratio - shape) / scale],
        )

    def _tails(self, theta: Array, lower: float, upper: float) -> Array:
        shape, scale = theta
        low, high = special.gammainc(shape, lower / scale), special.gammaincc(shape, upper / scale)
        return np.stack([low, high], axis=-1)

    def sample(self, theta: Array, size: tuple[int, ...], rng: np.random.Generator) -> Array:
        """See `ExponentialFamily`."""
        return np.asarray(rng.gamma(theta[0], theta[1], size))


@dataclass(frozen=True)
class Beta(_Continuous):
    """Beta law on the unit interval, density proportional to ``x**(a - 1) (1 - x)**(b - 1)``."""

    name: str = field(default="beta", init=False)
    parameters = (Parameter("a", 0.0, np.inf), Parameter("b", 0.0, np.inf))
    natural_names = ("a - 1", "b - 1")
    _right: ClassVar[str] = "Real(lower, upper) with 0 < lower and upper < 1, so that the logarithms are bounded"

    def _suits(self, lower: float, upper: float) -> bool:
        return 0 < lower < upper < 1

    def statistics(self, column: str, lower: float, upper: float) -> tuple[str, ...]:  # noqa: ARG002
        """See `ExponentialFamily`: the logarithms of the value and of what it leaves of 1."""
        return f"log({quoted(column)})", f"log(1 - {quoted(column)})"

    def natural(self, theta: Array) -> Array:
        """See `ExponentialFamily`."""
        return theta - 1

    def start(self, means: Array, lower: float, upper: float) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`: the approximation of Johnson & Kotz by geometric means."""
        geometric = np.exp(np.minimum(means, -1e-6))
        rest = np.maximum(1 - geometric.sum(axis=1, keepdims=True), 1e-3)
        return np.asarray(0.5 + 0.5 * geometric / rest)

    def box(self, lower: float, upper: float) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`."""
        return np.array([[1e-3, 1e5], [1e-3, 1e5]])

    def _coordinate(self, x: Array) -> Array:
        return np.asarray(special.logit(x))

    def _value(self, y: Array) -> Array:
        return np.asarray(special.expit(y))

    def _breaks(self, theta: Array) -> Array:
        a, b = theta[:, :1], theta[:, 1:]
        sides = [_falls(b, a), _falls(a, b)]
        left, right = (
            np.concatenate([np.minimum(fall[:, :1], 8.0), np.minimum(fall[:, :1], 16.0), fall], 1) for fall in sides
        )
        steps = np.concatenate([-left[:, ::-1], np.zeros_like(a), right], axis=1)
        return np.asarray(np.log(a / b) + steps)

    def _density(self, y: Array, theta: Array) -> tuple[Array, list[Array]]:
        a, b = theta
        log_x = np.minimum(y, 0.0) - np.log1p(np.exp(-np.abs(y)))
        log_rest = log_x - y
        total = special.digamma(a + b)
        scores = [log_x - special.digamma(a) + total, log_rest - special.digamma(b) + total]
        return a * log_x + b * log_rest - special.betaln(a, b), scores

    def _tails(self, theta: Array, lower: float, upper: float) -> Array:
        a, b = theta
        return np.stack([special.betainc(a, b, lower), special.betainc(b, a, 1 - upper)], axis=-1)

    def sample(self, theta: Array, size: tuple[int, ...], rng: np.random.Generator) -> Array:
        """See `ExponentialFamily`."""
        return np.asarray(rng.beta(theta[0], theta[1], size))


def _falls(a: Array, b: Array) -> Array:
    """How far right of its mode a Beta law has fallen to the panel ends, in logits, (R, 2).

    Newton's method on a convex function, from a start beyond the root.
    """
    share, depth = a / (a + b), 0.5 * np.array([_INNER, _OUTER]) ** 2
    u = np.sqrt(2 * depth * (a + b) / (a * b)) + depth / b
    for _ in range(5):
        drop = (a + b) * np.logaddexp(np.log1p(-share), np.log(share) + u) - a * u
        slope = (a + b) / (1 + np.exp(-u) * (1 - share) / share) - a
        u = np.maximum(u - (drop - depth) / np.maximum(slope, 1e-12), 0.0)
    return u
