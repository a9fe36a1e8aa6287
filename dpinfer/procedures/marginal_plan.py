"""Which noise serves a workload of marginals best, and the sums that are asked for: the residual planner.

With normalised contrasts of the subset A at noise variance u_A the cells of a marginal M have noise variance
``sum_A u_A p_A / prod_{M less A} m^2``, p_A the product of ``1 - 1/m`` over A, and a row costs ``sum_A p_A / u_A``. So
``u_A`` proportional to ``(sum_M l_M / prod_{M less A} m^2)^(-1/2)`` is best for the sum over marginals of l_M times the
variance of a cell (Xiao, He, Zhang & Kifer 2023).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.inference.marginals import subsets_of
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.marginals import MOST_SUBSETS, MarginalSum, largest_of
from dpinfer.privacy.exact import digits_below
from dpinfer.procedures.conditions import compiled_where
from dpinfer.procedures.table_axes import axis_name
from dpinfer.schema.axes import axis_from_dict
from dpinfer.schema.grid import constant_basis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.numerics.arrays import Array
    from dpinfer.schema.axes import Axis
    from dpinfer.schema.schema import Schema

    Subset = tuple[int, ...]

__all__ = ["OBJECTIVES", "MarginalPlan", "largest_variance_loads"]

OBJECTIVES = ("sum", "max")

_ROUNDS, _GAP = 10_000, 1e-4


@dataclass(frozen=True, eq=False)
class MarginalPlan:
    """What is summed for a workload, and with which noise.

    Attributes
    ----------
    schema : Schema
    axes : tuple of mapping
        The columns, as `axis_to_dict` writes them.
    marginals : tuple of tuple of str
        Names of axes.
    weights : tuple of float
        One for each marginal.
    objective : {"sum", "max"}
    where : str, optional
    """

    schema: Schema
    axes: tuple[Mapping[str, Any], ...]
    marginals: tuple[tuple[str, ...], ...]
    weights: tuple[float, ...]
    objective: str = "sum"
    where: str | None = None

    @cached_property
    def cells(self) -> tuple[Axis, ...]:
        """The axes as objects."""
        return tuple(axis_from_dict(axis, self.schema) for axis in self.axes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Levels of every axis."""
        return tuple(axis.size for axis in self.cells)

    def places(self, columns: Sequence[str]) -> Subset:
        """Places of axes, in the order given."""
        names = [axis_name(axis) for axis in self.axes]
        return tuple(names.index(column) for column in columns)

    @cached_property
    def workload(self) -> tuple[Subset, ...]:
        """The marginals as places of axes."""
        return tuple(tuple(sorted(self.places(marginal))) for marginal in self.marginals)

    @cached_property
    def closure(self) -> tuple[Subset, ...]:
        """All subsets of the marginals; refuse too many."""
        if sum(2 ** len(subset) for subset in self.workload) > 64 * MOST_SUBSETS:
            raise OptionError("workload", "more subsets of columns", f"at most {MOST_SUBSETS:,} subsets of columns")
        return subsets_of(self.workload)

    def rows(self, *, pure: bool) -> MarginalSum:
        """Return the sums: counts of the largest marginals under Laplace noise, else contrasts of all subsets."""
        features = Features(constant_basis(self.schema), compiled_where(self.where, self.schema))
        subsets = largest_of(self.workload) if pure else self.closure
        return MarginalSum(features, self.cells, subsets, not pure)

    def noise_weights(self, *, pure: bool) -> tuple[float, ...]:
        """Noise of every subset relative to the others."""
        found = self._of_counts() if pure else self._of_contrasts()
        return tuple(digits_below(float(one), 9) for one in found / found.min())

    def _of_contrasts(self) -> Array:
        """Return the standard deviation of every subset's normalised contrasts."""
        inside = np.array([[_inverse_square(self.shape, marginal, part) for part in self.closure]
                           for marginal in self.workload])  # fmt: skip
        unit = np.array([prod(1 - 1 / self.shape[i] for i in part) for part in self.closure])
        weights = np.array(self.weights)
        if self.objective == "sum":
            loads = np.array([prod(self.shape[i] for i in marginal) for marginal in self.workload], dtype=np.float64)
        else:
            loads = largest_variance_loads(weights[:, None] * inside, unit)
        return np.asarray((loads * weights) @ inside) ** -0.25

    def _of_counts(self) -> Array:
        """Laplace scale of every largest marginal; each marginal of the workload is summed from the smallest of them.

        Of marginals with scales b, at a price of ``sum 1/b``, the sum of k b^2 is least for b proportional to k^(-1/3),
        and the largest k b^2 for b proportional to k^(-1/2).
        """
        largest = largest_of(self.workload)
        loads = np.zeros(len(largest))
        for marginal, weight in zip(self.workload, self.weights, strict=True):
            sizes = [prod(self.shape[i] for i in one) if {*marginal} <= {*one} else np.inf for one in largest]
            place = int(np.argmin(sizes))
            if self.objective == "sum":
                loads[place] += weight * sizes[place]
            else:
                own = prod(self.shape[i] for i in marginal)
                loads[place] = max(loads[place], weight * sizes[place] / own)
        return np.asarray(loads ** (-1 / 3 if self.objective == "sum" else -1 / 2))


def _inverse_square(shape: tuple[int, ...], marginal: Subset, part: Subset) -> float:
    if not {*part} <= {*marginal}:
        return 0.0
    return 1.0 / prod(shape[i] for i in marginal if i not in part) ** 2


def largest_variance_loads(inside: Array, unit: Array) -> Array:
    """Return loads l (M,) of marginals whose weighted sum of variances has its least value where the largest does.

    Parameters
    ----------
    inside : ndarray (M, S)
        Weighted variance of a cell of each marginal, for a variance of 1 over p_A of each subset.
    unit : ndarray (S,)
        p_A.

    Notes
    -----
    ``min_u max_M`` of variances at price 1 is ``max_l (sum_A p_A sqrt(sum_M l_M inside_MA))^2`` over l of sum 1, by
    duality. The gradient by l_M is the variance of M at the best u for l; loads are multiplied by it over its mean
    until the largest variance exceeds the mean, a lower bound, by a ten thousandth.
    """
    loads = np.full(len(inside), 1.0 / len(inside))
    for _ in range(_ROUNDS):
        variance = inside @ (unit / np.sqrt(loads @ inside))
        mean = float(loads @ variance)
        if float(variance.max()) <= (1 + _GAP) * mean:
            break
        loads = loads * variance / mean
    return loads
