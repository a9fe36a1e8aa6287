"""A user's own family: a log-density, the statistics and the parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import InferenceError, OptionError
from dpinfer.inference.families.base import (
    OWN,
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
from dpinfer.release.codec import decode
from dpinfer.schema.columns import Boolean, Integer, Real

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.schema.columns import Column

__all__ = ["MOST_VALUES", "Family"]

MOST_VALUES = 10_000
"""Whole numbers over which a discrete family is summed, from the lower end of its support."""

_LETTER = re.compile(r"(?<![\w.`])x(?![\w(`])")
_PANELS, _ORDER, _GRID, _ZOOMS = 14, 16, 65, 6
_DEPTH, _STEP = 42.0, 1e-5


@dataclass(frozen=True, eq=False)
class Family(ExponentialFamily):
    """A distribution of your own for `expfam`, given by its density and its sufficient statistics.

    Parameters
    ----------
    name : str
    parameters : mapping of str to (lower, upper)
        Open ends of each parameter's space; infinite ones allowed.
    statistics : tuple of str
        As many as there are parameters: expressions in the letter ``x``, bounded on the column's bounds.
    log_density : callable
        ``log_density(x, *theta)`` on arrays that broadcast; it may leave out the normalising constant, which
        may depend on the parameters.
    support : (lower, upper)
        Where the density is positive.
    discrete : bool
        Whether the values are the whole numbers of the support (at most the first `MOST_VALUES`).
    search : mapping of str to (lower, upper), optional
        Finite range in which a parameter is looked for; by default four orders of magnitude either way.

    Raises
    ------
    OptionError
        If an argument is wrong.

    Notes
    -----
    A continuous density must have one peak inside the support, in the coordinate that integration uses:
    the logit of the position in a finite support, the logarithm of the distance from the end of a half
    line, the inverse hyperbolic sine on the line. The function itself cannot be stored in a file: to infer
    from a saved release, pass the family again.

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
    natural_names: tuple[str, ...] = field(repr=False)
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
        values = {
            "name": name,
            "parameters": spaces,
            "natural_names": (),
            "texts": given,
            "log_density": log_density,
            "support": (float(support[0]), float(support[1])),
            "discrete": bool(discrete),
            "search": dict(search or {}),
        }
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def statistics(self, column: str, lower: float, upper: float) -> tuple[str, ...]:  # noqa: ARG002
        """See `ExponentialFamily`."""
        return tuple(_LETTER.sub(lambda _: quoted(column), text) for text in self.texts)

    def check(self, column: str, declared: Column) -> None:
        """See `ExponentialFamily`."""
        low, high = self.support
        if self.discrete:
            right = f"Integer(lower, upper) or Boolean() that meets the support from {low:g} to {high:g}"
            suits = isinstance(declared, Integer | Boolean)
        else:
            right, suits = f"Real(lower, upper) that meets the support ({low:g}, {high:g})", isinstance(declared, Real)
        if not suits or limits(declared)[0] >= high or limits(declared)[1] <= low:
            raise mismatch(self.name, column, declared, right)

    def natural(self, theta: Array) -> Array:  # noqa: ARG002
        """See `ExponentialFamily`: not known here.

        Raises
        ------
        InferenceError
        """
        raise InferenceError(f"the natural parameters of {self.name} are not known: its parameters are those it names")

    def box(self, lower: float, upper: float) -> Array:
        """See `ExponentialFamily`."""
        size = max(abs(lower), abs(upper), 1e-3)
        ends = []
        for parameter in self.parameters:
            if parameter.name in self.search:
                ends.append(self.search[parameter.name])
            elif parameter.link == "identity":
                ends.append((-20 * size, 20 * size))
            elif parameter.link == "log":
                ends.append((parameter.lower + 1e-4, parameter.lower + 1e4))
            else:
                width = parameter.upper - parameter.lower
                ends.append((parameter.lower + 1e-6 * width, parameter.upper - 1e-6 * width))
        return np.array(ends)

    def start(self, means: Array, lower: float, upper: float) -> Array:
        """See `ExponentialFamily`: the middle of the range; `ClampedProblem` then looks on a lattice."""
        box = self.box(lower, upper)
        link = [p.to_link(ends).mean() for p, ends in zip(self.parameters, box, strict=True)]
        middle = [float(p.from_link(np.array(eta))) for p, eta in zip(self.parameters, link, strict=True)]
        return np.tile(middle, (len(means), 1))

    def _log(self, y: Array, theta: Array, centre: float, scale: float) -> Array:
        """Log density of the coordinate; theta is (R, p), y is (R, N)."""
        x, log_slope = self._value(y, centre, scale)
        with np.errstate(all="ignore"):
            out = np.asarray(self.log_density(x, *theta.T[..., None]), dtype=np.float64) + log_slope
        return np.where(np.isnan(out), -np.inf, np.maximum(out, -1e300))

    def _value(self, y: Array, centre: float, scale: float) -> tuple[Array, Array]:
        """Values at a coordinate, and the log of their derivative."""
        low, high = self.support
        if np.isfinite(high):
            share = 1 / (1 + np.exp(-y))
            return low + (high - low) * share, np.log(high - low) - np.logaddexp(0, y) - np.logaddexp(0, -y)
        if np.isfinite(low):
            return low + np.exp(y), y
        return centre + scale * np.sinh(y), np.log(scale) + np.log(np.cosh(y))

    def _coordinate(self, x: Array, centre: float, scale: float) -> Array:
        low, high = self.support
        x = np.clip(x, low, high)
        with np.errstate(divide="ignore"):
            if np.isfinite(high):
                return np.log(x - low) - np.log(high - x)
            if np.isfinite(low):
                return np.log(x - low)
        return np.arcsinh((x - centre) / scale)

    def _window(self, theta: Array, centre: float, scale: float) -> tuple[Array, Array]:
        """Find the range of the coordinate that holds the mass, by zooming in on the peak; each (R, 1)."""
        reach = 36.0 if np.isinf(self.support).all() else 300.0
        low, high = np.full((len(theta), 1), -reach), np.full((len(theta), 1), reach)
        unit = np.linspace(0, 1, _GRID)
        for _ in range(_ZOOMS):
            grid = low + (high - low) * unit
            log = self._log(grid, theta, centre, scale)
            inside = log > log.max(axis=1, keepdims=True) - _DEPTH
            first = np.maximum(inside.argmax(axis=1) - 1, 0)
            last = np.minimum(_GRID - inside[:, ::-1].argmax(axis=1), _GRID - 1)
            rows = np.arange(len(theta))
            low, high = grid[rows, first][:, None], grid[rows, last][:, None]
        return low, high

    def _points(self, theta: Array, lower: float, upper: float) -> tuple[Array, Callable[[Array], Array], Array]:
        """Values (R, N), log mass of them as a function of theta up to a constant, and log weights."""
        if self.discrete:
            first, last = np.ceil(self.support[0]), min(self.support[1], self.support[0] + MOST_VALUES - 1)
            values = np.broadcast_to(np.arange(first, last + 1), (len(theta), int(last - first) + 1))
            return values, lambda at: self._whole(values, at), np.zeros((1, 1))
        centre, scale = 0.5 * lower + 0.5 * upper, 0.5 * (upper - lower)
        low, high = self._window(theta, centre, scale)
        cuts = self._coordinate(np.array([lower, upper]), centre, scale)
        breaks = low + (high - low) * np.linspace(0, 1, _PANELS + 1)
        breaks = np.sort(np.concatenate([breaks, np.clip(np.broadcast_to(cuts, (len(theta), 2)), low, high)], 1), 1)
        y, weights = composite_nodes(breaks, order=_ORDER)
        with np.errstate(divide="ignore"):
            log_weights = np.log(weights)
        return self._value(y, centre, scale)[0], lambda at: self._log(y, at, centre, scale), log_weights

    def _whole(self, values: Array, theta: Array) -> Array:
        with np.errstate(all="ignore"):
            out = np.asarray(self.log_density(values, *theta.T[..., None]), dtype=np.float64)
        return np.where(np.isnan(out), -np.inf, out)

    def clamped(self, theta: Array, lower: float, upper: float, features: Features) -> Moments:
        """See `ExponentialFamily`."""
        values, log, log_weights = self._points(theta, lower, upper)
        found = log(theta) + log_weights
        mass = np.exp(found - found.max(axis=1, keepdims=True))
        mass /= mass.sum(axis=1, keepdims=True)
        at = features(np.clip(values, lower, upper))
        mean = np.einsum("rn,rnk->rk", mass, at)
        off = at - mean[:, None]
        cov = np.swapaxes(off * mass[..., None], 1, 2) @ off
        jacobian = np.empty((*mean.shape, len(self.parameters)))
        for index, parameter in enumerate(self.parameters):
            eta = parameter.to_link(theta[:, index])
            unit = _STEP * (np.maximum(1.0, np.abs(eta)) if parameter.link == "identity" else 1.0)
            high, low = theta.copy(), theta.copy()
            high[:, index], low[:, index] = parameter.from_link(eta + unit), parameter.from_link(eta - unit)
            with np.errstate(invalid="ignore"):
                change = (log(high) - log(low)) / (high - low)[:, index, None]
            weighted = np.where(mass > 0, mass * np.nan_to_num(change), 0.0)
            jacobian[..., index] = np.einsum("rn,rnk->rk", weighted, off)
        return Moments(mean, cov, jacobian)

    def sample(self, theta: Array, size: tuple[int, ...], rng: np.random.Generator) -> Array:
        """See `ExponentialFamily`: by inversion of the distribution function on a fine grid."""
        at = np.asarray(theta, dtype=np.float64)[None]
        uniform = rng.random(size)
        if self.discrete:
            values, log, _ = self._points(at, 0.0, 1.0)
            mass = np.exp(log(at)[0] - log(at)[0].max())
            rank = np.searchsorted(np.cumsum(mass), uniform * mass.sum())
            return np.array(values[0][np.minimum(rank, mass.size - 1)])
        low, high = (float(end[0, 0]) for end in self._window(at, 0.0, 1.0))
        grid = np.linspace(low, high, 4001)
        log_density = self._log(grid[None], at, 0.0, 1.0)[0]
        density = np.exp(log_density - log_density.max())
        below = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
        return self._value(np.interp(uniform, below / below[-1], grid), 0.0, 1.0)[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the name and what is public of the family; the function itself is not stored."""
        return {
            "name": self.name,
            OWN: True,
            "parameters": {p.name: [_end(p.lower), _end(p.upper)] for p in self.parameters},
            "statistics": list(self.texts),
            "support": [_end(end) for end in self.support],
            "discrete": self.discrete,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Family:
        """Read back what `to_dict` wrote: a family to compare others with, without its log-density."""
        ends = tuple[float | None, float | None]
        name = decode("name", stored["name"], str)
        parameters = decode("parameters", stored["parameters"], Mapping[str, ends])
        low, high = decode("support", stored["support"], ends)
        return cls(
            name,
            parameters={key: _range(*pair) for key, pair in parameters.items()},
            statistics=decode("statistics", stored["statistics"], tuple[str, ...]),
            log_density=_NotStored(name),
            support=_range(low, high),
            discrete=decode("discrete", stored["discrete"], bool),
        )

    def require_density(self) -> None:
        """Refuse a family that was read from a release.

        Raises
        ------
        InferenceError
        """
        if isinstance(self.log_density, _NotStored):
            self.log_density()


@dataclass(frozen=True)
class _NotStored:
    """Stands for the log-density of a family that was read from a release."""

    name: str

    def __call__(self, *_: Array) -> Array:
        raise InferenceError(
            f"the release was made for the family {self.name!r} of its author, whose log-density is not in the file: "
            "pass family=Family(...) to infer from it"
        )


def _range(lower: float | None, upper: float | None) -> tuple[float, float]:
    """Undo `_end`."""
    return -np.inf if lower is None else lower, np.inf if upper is None else upper


def _end(value: float) -> float | None:
    """Return a finite number, or None for an infinite one: JSON has no infinity."""
    return float(value) if np.isfinite(value) else None
