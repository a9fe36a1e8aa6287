"""What every exponential family offers to inference from clamped sufficient statistics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from dpinfer.errors import OptionError, SchemaError
from dpinfer.numerics.arrays import Array

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpinfer.schema.columns import Column

Features = Callable[[Array], Array]

__all__ = [
    "OWN",
    "READERS",
    "Array",
    "ExponentialFamily",
    "Features",
    "Moments",
    "Parameter",
    "limits",
    "mismatch",
    "quoted",
]

Link = Literal["identity", "log", "logit"]


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
    def link(self) -> Link:
        """Which link keeps the parameter inside its space."""
        if np.isinf(self.lower):
            return "identity"
        return "log" if np.isinf(self.upper) else "logit"

    def to_link(self, theta: Array) -> Array:
        """Map values inside the space to the real line; its ends go to minus and plus infinity."""
        theta = np.asarray(theta, dtype=np.float64)
        if self.link == "identity":
            return theta
        with np.errstate(divide="ignore"):
            below = np.log(theta - self.lower)
            return below if self.link == "log" else below - np.log(self.upper - theta)

    def from_link(self, eta: Array) -> Array:
        """Map the real line into the space."""
        eta = np.asarray(eta, dtype=np.float64)
        if self.link == "identity":
            return eta
        if self.link == "log":
            return self.lower + np.exp(eta)
        return self.lower + (self.upper - self.lower) / (1 + np.exp(-eta))

    def slope(self, eta: Array) -> Array:
        """Differentiate `from_link`."""
        if self.link == "identity":
            return np.ones_like(eta)
        if self.link == "log":
            return np.exp(eta)
        share = 1 / (1 + np.exp(-np.asarray(eta)))
        return (self.upper - self.lower) * share * (1 - share)


def quoted(column: str) -> str:
    """Write a column's name for an expression, in backticks."""
    return f"`{column}`"


def limits(column: Column) -> tuple[float, float]:
    """Bounds of a numeric or truth-valued column."""
    return float(getattr(column, "lower", 0.0)), float(getattr(column, "upper", 1.0))


def mismatch(family: str, column: str, declared: Column, right: str) -> SchemaError:
    """Say that a column does not suit a family, and what would."""
    return SchemaError(f"the {family} family does not suit {column} = {declared!r}: declare {right}")


class ExponentialFamily(ABC):
    """A parametric family whose sufficient statistics are measured on clamped values.

    Attributes
    ----------
    name : str
    parameters : tuple of Parameter, length p
        The usual parameters.
    natural_names : tuple of str, length p
        What `natural` returns; empty where it is not known.
    """

    name: str
    parameters: tuple[Parameter, ...]
    natural_names: tuple[str, ...]

    @abstractmethod
    def statistics(self, column: str, lower: float, upper: float) -> tuple[str, ...]:
        """Write the sufficient statistics as expressions of a column.

        Parameters
        ----------
        column : str
            The column's name.
        lower, upper : float
            Its public bounds; a statistic may be centred by them, which needs less noise.

        Returns
        -------
        tuple of str, length p
            For `dpinfer.schema.expressions.compile_expression`.
        """

    @abstractmethod
    def check(self, column: str, declared: Column) -> None:
        """Refuse a column whose type or bounds do not suit the family.

        Raises
        ------
        SchemaError
        """

    @abstractmethod
    def natural(self, theta: Array) -> Array:
        """Natural parameters (R, p), of the statistics that the density is usually written in (not centred).

        Raises
        ------
        InferenceError
            If the family does not say what they are.
        """

    @abstractmethod
    def start(self, means: Array, lower: float, upper: float) -> Array:
        """Guess parameters (R, p) from noisy means (R, k) of the statistics; may be outside the space."""

    @abstractmethod
    def box(self, lower: float, upper: float) -> Array:
        """Wide but finite range of each parameter, (p, 2), for a column with these bounds."""

    @abstractmethod
    def clamped(self, theta: Array, lower: float, upper: float, features: Features) -> Moments:
        """Moments of the features of a value clamped to ``[lower, upper]``.

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

    @abstractmethod
    def sample(self, theta: Array, size: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw values, not clamped, at one parameter vector (p,); for simulation only."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(parameter.name for parameter in self.parameters)

    def to_dict(self) -> dict[str, Any]:
        """Return the family as a JSON-ready mapping; `from_dict` reads it."""
        return {"name": self.name}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ExponentialFamily:
        """Read what `to_dict` wrote; a family of an author's own is then only to be compared, not to be run.

        Raises
        ------
        KeyError, DPInferError
            If there is no such family.
        """
        if cls is not ExponentialFamily:
            return cls()
        return READERS[OWN if stored.get(OWN) else str(stored["name"])].from_dict(stored)


OWN = "own"
"""Marks a stored family as an author's own."""

READERS: dict[str, type[ExponentialFamily]] = {}
"""Which class reads a stored family, by its name."""
