"""Workloads of marginals: which ones, how much each counts, and at what noise they are measured best.

The residual planner: with normalised contrasts of the subset A at noise variance u_A the cells of a marginal M have
noise variance ``sum_A u_A p_A / prod_{M less A} m^2``, p_A the product of ``1 - 1/m`` over A, and a row costs
``sum_A p_A / u_A``. So ``u_A`` proportional to ``(sum_M l_M / prod_{M less A} m^2)^(-1/2)`` is best for the sum over
marginals of l_M times the variance of a cell (Xiao, He, Zhang & Kifer 2023).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dpinfer.checks import is_list, is_number, is_text, texts_of
from dpinfer.errors import NotProvedError, OptionError, named, type_of
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.marginals import MOST_COLUMNS, MOST_SUBSETS, MarginalSum, largest_of
from dpinfer.privacy.exact import digits_below
from dpinfer.procedures.keywords import suggests
from dpinfer.procedures.options import axis_name, compiled_where
from dpinfer.schema.expressions import axis_from_dict
from dpinfer.schema.grid import constant_basis
from dpinfer.tables.marginal_inference import subsets_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpinfer.schema.axes import Axis
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array
    from dpinfer.tables.marginal_inference import Subset

    Weights = Mapping[Any, float] | Sequence[float] | None

__all__ = ["OBJECTIVES", "MarginalPlan", "Workload", "largest_variance_loads", "read_workload", "workload"]

OBJECTIVES = ("sum", "max")

_MARGINALS = 'a list of marginals such as [["race", "sex"], ["sex", "educ"]], or a workload(...)'
_RANGES = ("prefix", "prefixes", "range", "ranges", "cdf", "intervals")
_ITERATIONS, _GAP = 10_000, 1e-4


@dataclass(frozen=True)
class Workload:
    """Marginals and how much each counts: a public description, made by `workload`.

    Attributes
    ----------
    marginals : tuple of tuple of str
        Columns of each.
    weights : tuple of float
        Positive; one for each.
    """

    marginals: tuple[tuple[str, ...], ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.marginals or len(self.marginals) > MOST_SUBSETS:
            shown = f"{len(self.marginals):,} marginals" if self.marginals else "no marginal"
            raise OptionError("workload", shown, f"1 to {MOST_SUBSETS:,} marginals: {_MARGINALS}")
        for marginal in self.marginals:
            if not marginal or not all(map(is_text, marginal)):
                raise OptionError("workload", list(marginal), "marginals of one column or more each, as texts")
            if len({*marginal}) < len(marginal):
                raise OptionError("workload", ", ".join(marginal), "each column once in a marginal")
        sets = [frozenset(marginal) for marginal in self.marginals]
        twice = [marginal for place, marginal in enumerate(self.marginals) if sets[place] in sets[:place]]
        if twice:
            raise OptionError("workload", ", ".join(twice[0]), "each marginal once, whatever the order of its columns")
        if len(self.columns) > MOST_COLUMNS:
            raise OptionError("workload", f"{len(self.columns)} columns", f"at most {MOST_COLUMNS} columns")
        right = all(is_number(one) and 0 < one < np.inf and 1e-9 <= one <= 1e9 for one in self.weights)
        if len(self.weights) != len(self.marginals) or not right:
            raise OptionError("weights", list(self.weights)[:10], "a positive number for each marginal, 1e-9 to 1e9")

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, in the order in which they are named."""
        return tuple(dict.fromkeys(column for marginal in self.marginals for column in marginal))

    def __len__(self) -> int:
        return len(self.marginals)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self.marginals)

    def __repr__(self) -> str:
        return f"<Workload: {len(self)} marginals of {len(self.columns)} columns>"


@suggests
def workload(columns: Sequence[str], *, ways: int | Sequence[int] = 2, weights: Weights = None) -> Workload:
    """Name the tables that `marginals` measures: of all pairs of columns, say, and how much each counts.

    Parameters
    ----------
    columns : sequence of str
        Category, Boolean or short Integer columns, conditions such as ``"age >= 18"``, or numeric columns that
        `marginals` is given ``bins`` for.
    ways : int or sequence of int
        Columns in each marginal: 2 for all pairs, (1, 2) for all single columns and pairs.
    weights : mapping of columns to number, or sequence, optional
        How much the errors of a marginal count beside the others'; by default 1. A mapping has a column, or a tuple of
        columns in any order, as its keys; marginals that it does not name have weight 1.

    Returns
    -------
    Workload

    Raises
    ------
    OptionError
        If a column is named twice, ``ways`` are none that the columns have, or a weight is not positive.
    NotProvedError
        If ranges are asked for: `cdf` and `quantile` serve these.

    Examples
    --------
    >>> import dpinfer as dpi
    >>> list(dpi.workload(["race", "sex", "educ"], weights={("educ", "sex"): 4}))
    [('race', 'sex'), ('race', 'educ'), ('sex', 'educ')]
    """
    listed = texts_of(columns)
    if isinstance(columns, str) or not listed or not all(map(is_text, listed)):
        raise OptionError("columns", columns, 'a list of columns such as ["race", "sex", "educ"]')
    if len({*listed}) < len(listed):
        raise OptionError("columns", list(listed)[:10], "different columns")
    if isinstance(ways, str) and ways.lower() in _RANGES:
        raise NotProvedError(
            f"ways={ways!r}: marginals of ranges need another strategy than contrasts of levels; cdf(column) and "
            "quantile(column, q=) release a numeric column's ranges from one tree of counts, by=groups"
        )
    each = (ways,) if isinstance(ways, int) else tuple(ways) if isinstance(ways, Sequence) else ()
    right = each and all(type(one) is int and 1 <= one <= len(listed) for one in each)
    if not right or len({*each}) < len(each):
        raise OptionError("ways", ways, f"a number of columns, or several, from 1 to {len(listed)}")
    if sum(comb(len(listed), one) for one in each) > MOST_SUBSETS:
        raise OptionError("ways", ways, f"at most {MOST_SUBSETS:,} marginals")
    return read_workload([marginal for one in each for marginal in combinations(listed, one)], weights)


def read_workload(given: object, weights: Weights = None) -> Workload:
    """Read a workload, or a list of marginals."""
    if isinstance(given, Workload):
        return given
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise OptionError("workload", given if isinstance(given, str) else type_of(given), _MARGINALS)
    sets = tuple(texts_of(one) for one in given)
    if not all(sets):
        raise OptionError("workload", "a marginal of no columns, or of none that are texts", _MARGINALS)
    if isinstance(weights, Mapping):
        keyed = {frozenset((name,) if isinstance(name, str) else name): weight for name, weight in weights.items()}
        unknown = [name for name in keyed if name not in {frozenset(one) for one in sets}]
        if unknown:
            shown = " x ".join(map(named, sorted(map(str, unknown[0]))))
            raise OptionError("weights", shown, "marginals of the workload")
        weights = [keyed.get(frozenset(one), 1.0) for one in sets]
    elif weights is None:
        weights = [1.0] * len(sets)
    listed = weights if is_list(weights) else ()
    return Workload(sets, tuple(float(one) if is_number(one) else one for one in listed))


@dataclass(frozen=True, eq=False)
class MarginalPlan:
    """What is summed for a workload, and with which noise.

    Attributes
    ----------
    schema : Schema
    axes : tuple of mapping
        The columns, as `Axis.to_dict` writes them.
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
        return MarginalSum(features, self.cells, largest_of(self.workload) if pure else self.closure, not pure)

    def noise_weights(self, *, pure: bool) -> tuple[float, ...]:
        """Noise of every subset relative to the others.

        Of marginals with Laplace scales b, at a price of ``sum 1/b``, the sum of k b^2 is least for b proportional to
        k^(-1/3), and the largest k b^2 for b proportional to k^(-1/2). Each marginal of the workload is summed from the
        smallest that holds it.
        """
        size = {part: prod(self.shape[i] for i in part) for part in self.closure}
        if pure:
            largest = largest_of(self.workload)
            loads = np.zeros(len(largest))
            for marginal, weight in zip(self.workload, self.weights, strict=True):
                sizes = [size[one] if {*marginal} <= {*one} else np.inf for one in largest]
                place = int(np.argmin(sizes))
                if self.objective == "sum":
                    loads[place] += weight * sizes[place]
                else:
                    loads[place] = max(loads[place], weight * sizes[place] / size[marginal])
            found = loads ** (-1 / 3 if self.objective == "sum" else -1 / 2)
        else:
            weights = np.array(self.weights)
            inside = np.array([
                [1.0 / prod(self.shape[i] for i in one if i not in part) ** 2 if {*part} <= {*one} else 0.0
                 for part in self.closure] for one in self.workload
            ])  # fmt: skip
            if self.objective == "sum":
                loads = np.array([size[one] for one in self.workload], dtype=np.float64)
            else:
                unit = np.array([prod(1 - 1 / self.shape[i] for i in part) for part in self.closure])
                loads = largest_variance_loads(weights[:, None] * inside, unit)
            found = np.asarray((loads * weights) @ inside) ** -0.25
        return tuple(digits_below(float(one), 9) for one in found / found.min())


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
    for _ in range(_ITERATIONS):
        variance = inside @ (unit / np.sqrt(loads @ inside))
        mean = float(loads @ variance)
        if float(variance.max()) <= (1 + _GAP) * mean:
            break
        loads = loads * variance / mean
    return loads
