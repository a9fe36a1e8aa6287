"""Marginals from noisy contrasts or counts: unbiased cells, the covariance of their noise, and errors of estimates.

The cells of a marginal M are a sum over the subsets A of M: ``x_M = sum_A q_A / prod_{M less A} m`` spread evenly over
the columns that A lacks, where q_A is the margin of A centred in each of its columns, which the contrasts of A
determine. The noise of different q_A is uncorrelated, and that of one has covariance ``s_A^2`` times the product of ``I
- J/m`` over its columns. So the noise of the cells of M is exchangeable, with covariance ``sum_A s_A^2 prod_A (I - J/m)
prod_{M less A} J/m^2``.

The residual planner: with normalised contrasts of the subset A at noise variance u_A the cells of a marginal M have
noise variance ``sum_A u_A p_A / prod_{M less A} m^2``, p_A the product of ``1 - 1/m`` over A, and a row costs
``sum_A p_A / u_A``. So ``u_A`` proportional to ``(sum_M l_M / prod_{M less A} m^2)^(-1/2)`` is best for the sum over
marginals of l_M times the variance of a cell (Xiao, He, Zhang & Kifer 2023).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.kernel.rows.features import Features
from dpinfer.kernel.rows.marginals import MOST_SUBSETS, MarginalSum, largest_of
from dpinfer.privacy.exact import digits_below
from dpinfer.procedures.cell_sums import Described, SumPlan
from dpinfer.procedures.options import axis_name, compiled_where
from dpinfer.release.laws import NORMAL_DRAWS, NoiseLaw
from dpinfer.schema.expressions import axis_from_dict
from dpinfer.schema.grid import constant_basis
from dpinfer.statistics.moment_inference import MomentInference
from dpinfer.statistics.moments import Estimates, MomentSums, proportions, rescaled, totals
from dpinfer.statistics.noise import Components, NoiseSums, variables_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dpinfer.schema.axes import Axis
    from dpinfer.schema.schema import Schema
    from dpinfer.statistics.arrays import Array, Places
    from dpinfer.statistics.inference import Released

    Subset = tuple[int, ...]


OBJECTIVES = ("sum", "max")

_BEST, _GAP = 10_000, 1e-4
"""Steps towards the least largest variance, at most, and how near it they stop."""

_MOST_LOADINGS = 24
"""Laplace variables that are distinguished from the normal in one estimate: the largest ones."""

_TINY = 1e-250
"""Variance of counts without noise, so that they can be averaged."""

_RIDGE = 1e-9
"""What is added to every variance, relative to it: counts whose sum is public, and shares, are linearly dependent."""

_ITERATIONS, _CLOSE = 2_000, 1e-3


class Measured(NamedTuple):
    """The measured counts of one marginal, with independent noise on each cell.

    Attributes
    ----------
    subset : tuple of int
    law : NoiseLaw
        Of one count.
    step : float
    shares : mapping of subset to float
        Weight with which they enter each centred margin.
    """

    subset: Subset
    law: NoiseLaw
    step: float
    shares: Mapping[Subset, float]


class NoiseSource(NamedTuple):
    """Independent noise, and its effect on the cells of a marginal.

    Attributes
    ----------
    law : NoiseLaw
        Of k variables, each the sum of ``together`` draws.
    steps : ndarray (k,)
    together : int
    basis : ndarray (cells, k)
    """

    law: NoiseLaw
    steps: Array
    together: int
    basis: Array

    @staticmethod
    def sums(sources: Sequence[NoiseSource], combine: Callable[[Array], Array]) -> NoiseSums:
        """Return combinations (..., K) of the cells, ``combine`` applied to every basis, as sums of the noise."""
        factors = [combine(one.basis) * one.steps for one in sources]
        variables = tuple(each for one in sources for each in variables_of(one.law, one.together))
        return NoiseSums(np.concatenate(factors, axis=-1), variables)


@dataclass(frozen=True, eq=False)
class CenteredMargins:
    """Estimates of the marginals of a table from R releases, by subsets of its columns.

    Attributes
    ----------
    shape : tuple of int
        Levels of every column.
    centered : dict of subset to ndarray (R, cells)
        Margins centred in each of their columns; the number of rows for the empty subset.
    variances : dict of subset to float
        Noise variance of a normalised contrast of each; 0 if it is public.
    law : NoiseLaw
    steps : ndarray (m,)
        Of the release, for simulation.
    measured : tuple of Measured
        The measured counts; empty if contrasts were measured.
    places : dict of subset to slice
        Positions of the contrasts of each subset in the release; empty if counts were measured.
    """

    shape: tuple[int, ...]
    centered: Mapping[Subset, Array]
    variances: Mapping[Subset, float]
    law: NoiseLaw
    steps: Array
    measured: tuple[Measured, ...] = ()
    places: Mapping[Subset, slice] = field(default_factory=dict)

    @property
    def laplace(self) -> bool:
        """Whether the noise is treated as Laplace."""
        return self.law.family == "laplace" and self.law.draws < NORMAL_DRAWS

    def cells(self, subset: Subset) -> int:
        """Return the number of cells of a marginal."""
        return prod(self.shape[i] for i in subset)

    def table(self, subset: Subset) -> Array:
        """Unbiased counts of the cells of a marginal (R, cells), the last column varying fastest."""
        found = np.zeros((len(self.centered[()]), *(self.shape[i] for i in subset)))
        for part in parts_of(subset):
            own = tuple(sorted(part))
            table = self.centered[own].reshape(-1, *(self.shape[i] for i in own))
            table = table.transpose(0, *(own.index(i) + 1 for i in part))
            line = [self.shape[i] if i in part else 1 for i in subset]
            found += table.reshape(-1, *line) / prod(self.shape[i] for i in subset if i not in part)
        return found.reshape(len(found), -1)

    def components(self, subset: Subset) -> dict[Subset, float]:
        """Noise variance of a normalised contrast of the cells of a marginal, by the contrasted columns."""
        return {part: self.variances[tuple(sorted(part))] / prod(self.shape[i] for i in subset if i not in part)
                for part in parts_of(subset)}  # fmt: skip

    def cell_variance(self, subset: Subset) -> float:
        """Noise variance of each cell of a marginal."""
        cells = self.cells(subset)
        return sum(one * prod(self.shape[i] - 1 for i in part) for part, one in self.components(subset).items()) / cells

    def covariance(self, subset: Subset) -> Array:
        """Covariance of the noise of the cells of a marginal (cells, cells)."""
        common = {i: np.full((self.shape[i],) * 2, 1 / self.shape[i]) for i in subset}
        found = np.zeros((self.cells(subset),) * 2)
        for part, one in self.components(subset).items():
            found += one * _kron([np.eye(self.shape[i]) - common[i] if i in part else common[i] for i in subset])
        return found

    def sources(self, subset: Subset) -> tuple[NoiseSource, ...]:
        """Independent components of the noise of the cells of a marginal, for simulation."""
        found = []
        for one in self.measured:
            common = tuple(i for i in one.subset if i in subset)
            size = self.cells(common)
            matrix = np.zeros((size, size))  # how a count moves the cells, both by what they have in common
            for part in parts_of(common):
                each = [np.eye(self.shape[i]) - 1 / self.shape[i] if i in part else np.ones((self.shape[i],) * 2)
                        for i in common]  # fmt: skip
                spread = prod(self.shape[i] for i in subset if i not in part)
                matrix += one.shares.get(part, 0.0) / spread * _kron(each)
            law, basis = replace(one.law, scales=one.law.scales * size), matrix[self._margin_cells(subset, common)]
            found.append(NoiseSource(law, np.full(size, one.step), self.cells(one.subset) // size, basis))
        for part in () if self.measured else parts_of(subset):
            own = tuple(sorted(part))
            each = [_helmert(self.shape[i]) if i in part else np.ones((1, self.shape[i])) for i in subset]
            lines = [one / (one**2).sum(axis=1, keepdims=True) for one in each]
            widths = [self.shape[i] - 1 for i in own]
            order = np.arange(prod(widths)).reshape(widths).transpose([own.index(i) for i in part]).ravel()
            scales = np.asarray(self.law.scales[self.places[own]])[order]
            law = replace(self.law, scales=tuple(scales.tolist()))
            found.append(NoiseSource(law, self.steps[self.places[own]][order], 1, _kron(lines).T))
        return tuple(found)

    def loadings(self, subset: Subset, cells: Sequence[int] | None = None) -> tuple[Array, Array]:
        """Return loadings (k, K) of the marginal's cells, by default all, on the noise of each count; its variance."""
        wanted = slice(None) if cells is None else np.asarray(cells)
        found, variances = [], []
        for one, source in zip(self.measured, self.sources(subset), strict=True):
            common = tuple(i for i in one.subset if i in subset)
            found.append(source.basis[wanted][:, self._margin_cells(one.subset, common)])
            variances.append(np.full(self.cells(one.subset), float(one.law.variances[0]) * one.step**2))
        return np.concatenate(found, axis=1), np.concatenate(variances)

    def _margin_cells(self, subset: Subset, common: Subset) -> Places:
        """Cell of a margin to which each cell of a marginal belongs (cells,)."""
        order = np.arange(self.cells(common)).reshape([self.shape[i] for i in common])
        order = order.transpose([common.index(i) for i in subset if i in common])
        lines = [self.shape[i] if i in common else 1 for i in subset]
        return np.asarray(np.broadcast_to(order.reshape(lines), [self.shape[i] for i in subset]).ravel())


def parts_of(subset: Subset) -> list[Subset]:
    """All subsets of a subset, the empty one first."""
    return [part for size in range(len(subset) + 1) for part in combinations(subset, size)]


def subsets_of(subsets: Sequence[Subset]) -> tuple[Subset, ...]:
    """All subsets of any of them, the smallest first."""
    found = {part for subset in subsets for part in parts_of(subset)}
    return tuple(sorted(found, key=lambda one: (len(one), one)))


def centered_margins(released: Released) -> CenteredMargins:
    """Return estimates for all subsets of columns, from releases of contrasts or counts of marginals."""
    rows = released.rows
    ends, widths = np.cumsum(rows.widths).tolist(), rows.widths.tolist()
    places = {one: slice(end - width, end) for one, end, width in zip(rows.subsets, ends, widths, strict=True)}
    if not rows.contrasts:
        return _of_counts(released, places)
    squared = rows.pattern("l2") ** 2
    centered, variances = {}, {}
    for subset, mine in places.items():
        table = (released.values[:, mine] / squared[mine]).reshape(-1, *(rows.shape[i] - 1 for i in subset))
        for axis in range(1, table.ndim):
            table = np.moveaxis(np.moveaxis(table, axis, -1) @ _helmert(table.shape[axis] + 1), -1, axis)
        centered[subset] = table.reshape(len(released.values), -1)
        variances[subset] = float((released.noise_variances[mine] / squared[mine]).max())
    return CenteredMargins(rows.shape, centered, variances, released.law, released.steps, places=places)


def _of_counts(released: Released, places: Mapping[Subset, slice]) -> CenteredMargins:
    """Average the estimates of a common margin from several marginals, with inverse variance weights."""
    rows, law = released.rows, released.law
    tables, variances, sources = {}, {}, {}
    for subset, mine in places.items():
        tables[subset] = released.values[:, mine].reshape(-1, *(rows.shape[i] for i in subset))
        variances[subset] = max(float(released.noise_variances[mine][-1]), _TINY)  # alike for all counts of a marginal
        sources[subset] = replace(law, scales=law.scales[mine][-1:]), float(released.steps[mine][-1])
    public = rows.keeps_every_row and released.nobs is not None
    centered: dict[Subset, Array] = {}
    found: dict[Subset, float] = {}
    shares: dict[Subset, dict[Subset, float]] = {subset: {} for subset in places}
    for part in subsets_of(rows.subsets):
        if not part and public:
            centered[part], found[part] = np.full((len(released.values), 1), float(released.nobs or 0)), 0.0
            continue
        holds = [subset for subset in places if {*part} <= {*subset}]
        precision = {one: 1 / (variances[one] * prod(rows.shape[i] for i in one if i not in part)) for one in holds}
        total = sum(precision.values())
        margin = np.zeros((len(released.values), *(rows.shape[i] for i in part)))
        for one in holds:
            shares[one][part] = precision[one] / total
            gone = tuple(place + 1 for place, i in enumerate(one) if i not in part)
            margin += shares[one][part] * tables[one].sum(axis=gone)
        for axis in range(1, margin.ndim):
            margin -= margin.mean(axis=axis, keepdims=True)
        centered[part], found[part] = margin.reshape(len(margin), -1), 1 / total
    measured = tuple(Measured(subset, *sources[subset], shares[subset]) for subset in places)
    return CenteredMargins(rows.shape, centered, found, law, released.steps, measured)


def _helmert(levels: int) -> Array:
    """Return contrasts of levels (m - 1, m), each of the first j alike against the next one."""
    return np.asarray(np.tril(np.ones((levels - 1, levels))) - np.diag(np.arange(1.0, levels), 1)[:-1])


def _kron(matrices: Sequence[Array]) -> Array:
    return reduce(lambda one, other: np.asarray(np.kron(one, other)), matrices, np.ones((1, 1)))


# What is summed, and with which noise


@dataclass(frozen=True, eq=False)
class MarginalPlan:
    """The sums for a workload, and their noise.

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
        """Positions of axes, in the given order."""
        names = [axis_name(axis) for axis in self.axes]
        return tuple(names.index(column) for column in columns)

    @cached_property
    def workload(self) -> tuple[Subset, ...]:
        """The marginals as positions of axes."""
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

    def described(
        self, subset: Subset, quantities: Sequence[str] = ("count",), axes: Sequence[Axis] | None = None
    ) -> Described:
        """Describe quantities in the cells of some axes of a marginal, by default its counts in all of them."""
        of = tuple(self.axes[place] for place in subset)
        table = SumPlan("table", self.schema, axes=of, where=self.where, target="data")
        return Described(table, quantities, table.cells if axes is None else axes)

    def counts(self, found: CenteredMargins, subset: Subset, nobs: int | None, target: str) -> Estimates:
        """Estimate the counts of the cells of a marginal from R releases, with each cell as a group."""
        most, population = self.schema.rows_per_unit, target == "population"
        return count_estimates(found, subset, population=population, nobs=nobs, rows_per_unit=most)

    def noise_weights(self, *, pure: bool) -> tuple[float, ...]:
        """Relative noise of every subset.

        For marginals with Laplace scales b, at a privacy loss of ``sum 1/b``, the sum of k b^2 is least for b
        proportional to k^(-1/3), and the largest k b^2 for b proportional to k^(-1/2). Each marginal of the workload is
        summed from the smallest one that contains it.
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
    """Return loads l (M,) for which the weighted sum of variances has the same minimiser as the largest variance.

    Parameters
    ----------
    inside : ndarray (M, S)
        Weighted variance of a cell of each marginal, for a variance of 1 over p_A of each subset.
    unit : ndarray (S,)
        p_A.

    Notes
    -----
    ``min_u max_M`` of variances at privacy loss 1 is ``max_l (sum_A p_A sqrt(sum_M l_M inside_MA))^2`` over l of sum 1,
    by duality. The gradient by l_M is the variance of M at the best u for l; loads are multiplied by it over its mean
    until the largest variance exceeds the mean, a lower bound, by a ten thousandth.
    """
    loads = np.full(len(inside), 1.0 / len(inside))
    for _ in range(_BEST):
        variance = inside @ (unit / np.sqrt(loads @ inside))
        mean = float(loads @ variance)
        if float(variance.max()) <= (1 + _GAP) * mean:
            break
        loads = loads * variance / mean
    return loads


# Noise of a table in tests of counts


@dataclass(frozen=True, eq=False)
class TableNoise:
    """Noise on the cells of a marginal composed from contrasts, or from several marginals.

    It has the members of `CountNoise`. The levels of each column are exchangeable, so the covariance follows from its
    `Components`.

    Attributes
    ----------
    margins : CenteredMargins
    subset : tuple of int
        One column or two.
    sources : tuple of NoiseSource
        Independent components of the noise.
    """

    margins: CenteredMargins
    subset: Subset
    sources: tuple[NoiseSource, ...]

    @property
    def components(self) -> Components:
        """Variances of normalised contrasts."""
        found = list(self.margins.components(self.subset).values())
        return Components(found[0], found[1], found[-2] if len(found) > 2 else found[1], found[-1])

    @property
    def variance(self) -> float:
        """Variance of the noise of a cell."""
        return self.margins.cell_variance(self.subset)

    @property
    def covariance(self) -> Array:
        """Covariance of the noise of the cells (d, d)."""
        return self.margins.covariance(self.subset)

    def quadratic(self, slopes: Array) -> Array:
        """Noise variance of functions with slopes (..., count, function): (..., function)."""
        moved = np.swapaxes(np.swapaxes(slopes, -1, -2) @ self.covariance, -1, -2)
        return np.asarray((moved * slopes).sum(axis=-2))

    def times(self, rows: Array, *, known: bool) -> Array:  # noqa: ARG002  (a known sum has no noise here)
        """Multiply rows (..., d) by the covariance of the noise."""
        return np.asarray(rows @ self.covariance)

    @property
    def is_normal(self) -> bool:
        """Whether the noise is Gaussian."""
        return all(one.law.family == "gaussian" for one in self.sources)

    @property
    def fourth_cumulant(self) -> float:
        """Fourth cumulant of the noise of a count; averages of few Laplace draws are treated as Laplace."""
        if self.is_normal:
            return 0.0
        found = 0.0
        for one in self.sources:
            several = one.together * one.law.draws
            variance = several * one.law.variances / one.law.draws * one.steps**2
            each = (3 * variance**2 + variance * one.steps**2) / (several if several >= NORMAL_DRAWS else 1)
            found += float((one.basis[0] ** 4 * each).sum())
        return found

    def rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw noise for simulation, never for privacy, in rows."""
        size = int(np.prod(shape[:-1]))
        found = np.zeros((size, shape[-1]))
        for one in self.sources:
            if one.law.family == "gaussian":
                drawn = one.law.rvs(size, rng)
            else:  # a sum of several discrete Laplace variables is a difference of negative binomial ones
                success = -np.expm1(-1.0 / np.asarray(one.law.scales))
                several, width = one.together * one.law.draws, (size, success.size)
                first, second = (rng.negative_binomial(several, success, width) for _ in range(2))
                drawn = (first - second).astype(np.float64)
            found += (drawn * one.steps) @ one.basis.T
        return found.reshape(shape)


# Estimates


class Joint(NamedTuple):
    """Joint estimates of all cells of one release.

    Attributes
    ----------
    values : ndarray (p,)
        Unbiased, so possibly negative.
    sampling, noise : ndarray (p, p)
        Covariances.
    loadings : ndarray (p, K)
        Their loadings on standardised Laplace variables; none if the noise is normal.
    """

    values: Array
    sampling: Array
    noise: Array
    loadings: Array


_NOTHING = Joint(np.zeros(0), *(np.zeros((0, 0)) for _ in range(3)))


@dataclass(frozen=True, eq=False)
class MarginalInference(MomentInference):
    """Estimates in the cells of a marginal, with correlated errors.

    Attributes
    ----------
    joint : Joint
        Of `estimates` only what is possible remains, and the interval of each cell.
    sources : tuple of NoiseSource
        Noise sources of the counts, for the target "data".
    """

    joint: Joint = _NOTHING
    sources: tuple[NoiseSource, ...] = ()

    methods = ("auto", "score", "wald")  # type: ignore[assignment]

    @property
    def _value(self) -> Array:
        return self.joint.values

    @property
    def cov_sampling(self) -> Array:
        """Covariance from sampling (p, p)."""
        return self.joint.sampling

    @property
    def cov_noise(self) -> Array:
        """Covariance from privacy noise (p, p)."""
        return self.joint.noise

    @property
    def _covariance(self) -> Array:
        return self.joint.sampling + self.joint.noise

    def _laplace_parts(self, contrasts: Array) -> Array:
        return np.asarray(contrasts @ self.joint.loadings)

    def _noise_sums(self, contrasts: Array) -> NoiseSums | None:
        return NoiseSource.sums(self.sources, lambda basis: contrasts @ basis) if self.sources else None


def count_estimates(
    found: CenteredMargins, subset: Subset, *, population: bool, nobs: int | None, rows_per_unit: int = 1
) -> Estimates:
    """Estimate the counts of the cells of a marginal from R releases, with each cell as a separate group.

    The noise of a cell has the same distribution for all cells. Counts are clipped at 0; see `Joint`.
    """
    table, variance = found.table(subset)[..., None], found.cell_variance(subset)
    sums = MomentSums(((0,),), table, np.ones((1, 1)), np.array([variance]), laplace=False, rows_per_unit=rows_per_unit)
    estimates = totals(sums, population=population, nobs=nobs, lower=0.0, counts=True)
    if not population:
        alone = NoiseSource.sums(found.sources(subset), lambda basis: basis[None, :1, None])
        estimates = replace(estimates, alone=alone)
    if not found.laplace:
        return estimates
    mixing, variances = _largest(*found.loadings(subset, [0]))
    return _moved(estimates, np.broadcast_to(mixing[0], (*estimates.value.shape, variances.size)), variances)


def share_estimates(
    found: CenteredMargins, subset: Subset, places: Array, *, population: bool, rows_per_unit: int = 1
) -> Estimates:
    """Estimate shares of some cells among others from R releases, in groups of equal structure.

    ``places`` (G, q, cells) are 0 or 1: for each group first the cells of the denominator, then those of each share.
    The noise of the sums of a group has the same distribution in all groups.
    """
    values = np.einsum("rc,gqc->rgq", found.table(subset), places)
    variances, vectors = np.linalg.eigh(places[0] @ found.covariance(subset) @ places[0].T)
    width = len(variances)  # sums of indicators, the total first, with independent variables that move them so
    exponents = ((0,) * width, *(tuple(int(i == j) for j in range(width)) for i in range(width - 1)))
    noise = np.maximum(variances, 0.0)
    sums = MomentSums(exponents, values, vectors, noise, laplace=False, rows_per_unit=rows_per_unit)
    estimates = proportions(sums, population=population)
    if not found.laplace:
        return estimates
    used = np.flatnonzero(places[0].any(axis=0))
    loadings, variances = found.loadings(subset, used.tolist())
    mixing, variances = _largest(places[0][:, used] @ loadings, variances)
    moved = (mixing[1:] - estimates.value[..., None] * mixing[0]) / estimates.size[..., None, None]
    return _moved(estimates, moved, variances)


def _moved(estimates: Estimates, mixing: Array, variances: Array) -> Estimates:
    """Return estimates with loadings ``mixing`` (..., K) on Laplace variables of these variances (K,)."""
    return replace(estimates, mixing=mixing, variances=variances, laplace=True, spread=np.zeros(mixing.shape))


def _largest(loadings: Array, variances: Array) -> tuple[Array, Array]:
    """Keep the variables that move estimates (k, K) most."""
    moved = ((loadings**2) * variances).sum(axis=0)
    order = np.argsort(-moved, kind="stable")[:_MOST_LOADINGS]
    return loadings[:, order], variances[order]


def joint_counts(found: CenteredMargins, subset: Subset, estimates: Estimates, nobs: int | None) -> Joint:
    """Return values, covariances and loadings of all counts of one release.

    Under a public number of rows counts are multinomial; otherwise a sample's size is random and they are Poisson.
    """
    values, variance = found.table(subset)[0], estimates.sampling[0, :, 0, 0]
    sampling = np.diag(variance)
    if nobs is not None:
        shares = np.maximum(values, 0.0) / max(float(np.maximum(values, 0.0).sum()), 1.0)
        sampling = rescaled(np.diag(shares) - np.outer(shares, shares), variance)
    return _joint(found, subset, values, sampling, None)


def joint_shares(found: CenteredMargins, subset: Subset, places: Array, estimates: Estimates) -> Joint:
    """Return the same for shares; see `share_estimates`. Sampling errors are correlated within groups only."""
    value, size = estimates.value[0], estimates.size[0]
    slope = (places[:, 1:] - value[..., None] * places[:, :1]) / size[:, None, None]
    groups, width = value.shape
    sampling = np.zeros((groups, width, groups, width))
    sampling[np.arange(groups), :, np.arange(groups), :] = estimates.sampling[0]
    return _joint(found, subset, value.ravel(), sampling.reshape(value.size, -1), slope.reshape(value.size, -1))


def _joint(found: CenteredMargins, subset: Subset, values: Array, sampling: Array, slope: Array | None) -> Joint:
    """Return the joint estimates of combinations of the cells, by default the cells."""
    noise, loadings = found.covariance(subset), np.zeros((len(values), 0))
    if found.laplace:
        moved, variances = found.loadings(subset)
        loadings = np.asarray((moved if slope is None else slope @ moved) * np.sqrt(variances))
    if slope is not None:
        noise = slope @ noise @ slope.T
    return Joint(values, sampling, noise + _RIDGE * np.diag(np.diag(noise) + np.diag(sampling)), loadings)


# Display


def nonnegative(found: CenteredMargins, workload: Sequence[Subset]) -> CenteredMargins:
    """Project marginals of one release to nearby nonnegative ones with the same noisy total, for display.

    Each marginal in turn is projected to the nearest nonnegative table with the total, and all marginals that share a
    margin with it are adjusted, until no cell is more than a thousandth of a row below zero.
    """
    centered = {part: table.copy() for part, table in found.centered.items()}
    total = max(float(centered[()][0, 0]), 0.0)
    centered[()] = np.array([[total]])
    moved = replace(found, centered=centered)
    for _ in range(_ITERATIONS):
        worst = 0.0
        for subset in workload:
            table = moved.table(subset)[0]
            worst = min(worst, float(table.min()))
            if table.min() >= 0:
                continue
            change = (_simplex(table, total) - table).reshape([found.shape[i] for i in subset])
            for part in parts_of(subset)[1:]:
                margin = change.sum(axis=tuple(place for place, i in enumerate(subset) if i not in part))
                for axis in range(margin.ndim):
                    margin = margin - margin.mean(axis=axis, keepdims=True)
                centered[part] += margin.ravel()
        if worst > -_CLOSE:
            break
    return moved


def _simplex(table: Array, total: float) -> Array:
    """Nearest table of nonnegative cells with a given sum."""
    ordered = np.sort(table)[::-1]
    excess = np.cumsum(ordered) - total
    count = np.arange(1, table.size + 1)
    last = int(np.flatnonzero(ordered * count - excess >= 0)[-1])
    return np.asarray(np.maximum(table - excess[last] / count[last], 0.0))
