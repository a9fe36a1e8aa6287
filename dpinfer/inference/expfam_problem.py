"""An exponential family on the bounds of a column: features, their moments, and the range of its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import FormulaError, UnknownColumnError
from dpinfer.inference.families.base import ExponentialFamily, Moments, limits
from dpinfer.schema.expressions import compile_expression

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array, Mask
    from dpinfer.schema.nodes import Expression
    from dpinfer.schema.schema import Schema

__all__ = ["ClampedProblem", "clamped_problem"]

_CHUNK = 400
_POINTS = 5_000
"""Points of a lattice of the parameters at most."""


@dataclass(frozen=True, eq=False)
class ClampedProblem:
    """A family, the bounds of the column, and how its statistics are scaled.

    Feature j of a row is ``(t_j(clamp(x)) - center_j) / half_j``, in [-1, 1].

    Attributes
    ----------
    family : ExponentialFamily
    column : str
    lower, upper : float
        Bounds of the column.
    expressions : tuple of Expression, length k
        The statistics.
    center, half : ndarray (k,)
        Their scaling.
    """

    family: ExponentialFamily
    column: str
    lower: float
    upper: float
    expressions: tuple[Expression, ...]
    center: Array
    half: Array

    @cached_property
    def box(self) -> Array:
        """Range of each parameter on the scale of its link, (p, 2)."""
        ends = self.family.box(self.lower, self.upper)
        return np.array([p.to_link(pair) for p, pair in zip(self.family.parameters, ends, strict=True)])

    @cached_property
    def width(self) -> Array:
        """Width of the range of each parameter (p,)."""
        return np.asarray(np.diff(self.box, axis=1)[:, 0])

    @cached_property
    def lattice(self) -> tuple[list[Array], Moments]:
        """Points along each parameter, on the scale of its link, and the moments at all combinations of them.

        Points of a parameter on the whole line are denser towards the middle of its range.
        """
        each = max(int(_POINTS ** (1 / len(self.box))), 5)
        share = np.linspace(-1.0, 1.0, each)
        bent = np.where(self.free[:, None], np.sinh(4 * share) / np.sinh(4.0), share)
        axes = [low + (high - low) * (0.5 + 0.5 * one) for (low, high), one in zip(self.box, bent, strict=True)]
        combined = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        return axes, self.link_moments(combined)

    @cached_property
    def free(self) -> Mask:
        """Whether each parameter is on the whole line (p,)."""
        return np.array([parameter.link == "identity" for parameter in self.family.parameters])

    @cached_property
    def between(self) -> Mask:
        """Whether each parameter is between two finite ends (p,)."""
        return np.array([parameter.link == "logit" for parameter in self.family.parameters])

    def statistics(self, values: Array) -> Array:
        """Statistics (..., k) of clamped values (...), in their own units."""
        return np.stack([part.evaluate({self.column: values}) for part in self.expressions], axis=-1)

    def features(self, values: Array) -> Array:
        """Scaled statistics (..., k) of clamped values (...)."""
        return (self.statistics(values) - self.center) / self.half

    def to_link(self, theta: Array) -> Array:
        """Map parameters (..., p) to the scale of their links."""
        return np.stack([p.to_link(theta[..., j]) for j, p in enumerate(self.family.parameters)], axis=-1)

    def from_link(self, eta: Array) -> Array:
        """Map parameters (..., p) back from the scale of their links."""
        return np.stack([p.from_link(eta[..., j]) for j, p in enumerate(self.family.parameters)], axis=-1)

    def slope(self, eta: Array) -> Array:
        """Differentiate `from_link`, (..., p)."""
        return np.stack([p.slope(eta[..., j]) for j, p in enumerate(self.family.parameters)], axis=-1)

    def moments(self, theta: Array) -> Moments:
        """Mean, covariance and Jacobian of one row's features at parameters (R, p), by theta."""
        parts = [
            self.family.clamped(theta[start : start + _CHUNK], self.lower, self.upper, self.features)
            for start in range(0, len(theta), _CHUNK)
        ]
        return parts[0] if len(parts) == 1 else Moments(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def link_moments(self, eta: Array) -> Moments:
        """Give the moments at parameters on the scale of their links, with the Jacobian by them."""
        found = self.moments(self.from_link(eta))
        return Moments(found.mean, found.cov, found.jacobian * self.slope(eta)[:, None, :])

    def sample(self, theta: Array, size: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw clamped values of this shape at one parameter vector (p,); for simulation only."""
        return np.clip(self.family.sample(theta, size, rng), self.lower, self.upper)


def clamped_problem(family: ExponentialFamily, column: str, schema: Schema) -> ClampedProblem:
    """Pose the inference of a family for a declared column.

    Parameters
    ----------
    family : ExponentialFamily
    column : str
    schema : Schema

    Returns
    -------
    ClampedProblem
        Its features are those that `dpinfer.schema.basis` measures for the same expressions.

    Raises
    ------
    UnknownColumnError
        If the schema has no such column.
    SchemaError
        If the column's type or bounds do not suit the family.
    FormulaError
        If a statistic is not bounded on the bounds, or is the same for all rows.
    """
    if column not in schema:
        raise UnknownColumnError(column, schema)
    family.check(column, schema[column])
    lower, upper = limits(schema[column])
    compiled = tuple(compile_expression(text, schema) for text in family.statistics(column, lower, upper))
    for one in compiled:
        if not one.lower < one.upper:
            raise FormulaError(one.text, "is the same for every row", "use a statistic that differs between rows")
    center = np.array([0.5 * one.lower + 0.5 * one.upper for one in compiled])
    half = np.array([float(np.nextafter(0.5 * (one.upper - one.lower), np.inf)) for one in compiled])
    return ClampedProblem(family, column, lower, upper, compiled, center, half)
