"""Marginals from noisy contrasts or counts: unbiased cells of each, and the covariance of their noise.

The cells of a marginal M are a sum over the subsets A of M: ``x_M = sum_A q_A / prod_{M less A} m`` spread evenly over
the columns that A lacks, where q_A, the margin of A centred in each of its columns, is what the contrasts of A tell.
The noise of different q_A is uncorrelated, and that of one has covariance ``s_A^2`` times the product of ``I - J/m``
over its columns. So the noise of the cells of M is exchangeable, with covariance ``sum_A s_A^2 prod_A (I - J/m)
prod_{M less A} J/m^2``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpinfer.inference.noise_sums import NoiseSums, variables_of
from dpinfer.release.laws import NORMAL_DRAWS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dpinfer.inference.released import Released
    from dpinfer.numerics.arrays import Array, Places
    from dpinfer.release.laws import NoiseLaw

    Subset = tuple[int, ...]

__all__ = ["MOST_LOADINGS", "CenteredMargins", "Measured", "NoiseSource", "centered_margins", "parts_of", "subsets_of"]

MOST_LOADINGS = 24
"""Laplace variables that are told from the normal in one estimate: the largest ones."""


_TINY = 1e-250
"""Variance of counts without noise, so that they can be averaged."""


class Measured(NamedTuple):
    """The counts of one marginal as they were measured, with independent noise on each cell.

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

    @property
    def variance(self) -> float:
        """Variance of the noise of a count."""
        return float(self.law.variances[0]) * self.step**2


class NoiseSource(NamedTuple):
    """Independent noise, and how it moves the cells of a marginal.

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
    """What R releases tell of the marginals of a table, by subsets of its columns.

    Attributes
    ----------
    shape : tuple of int
        Levels of every column.
    centered : dict of subset to ndarray (R, cells)
        Margins that are centred in each of their columns; of the empty subset the number of rows.
    variances : dict of subset to float
        Noise variance of a normalised contrast of each; 0 where it is public.
    law : NoiseLaw
    steps : ndarray (m,)
        Of the release, for simulation.
    measured : tuple of Measured
        Where counts were measured; empty where contrasts were.
    places : dict of subset to slice
        Where the contrasts of each subset are in the release; empty where counts were measured.
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
        """Whether the noise counts as Laplace."""
        return self.law.family == "laplace" and self.law.draws < NORMAL_DRAWS

    def cells(self, subset: Subset) -> int:
        """Return the number of cells of a marginal."""
        return prod(self.shape[i] for i in subset)

    def table(self, subset: Subset) -> Array:
        """Unbiased counts of the cells of a marginal (R, cells), the last column running fastest."""
        shape = [self.shape[i] for i in subset]
        found = np.zeros((len(self.centered[()]), *shape))
        for part in parts_of(subset):
            own = tuple(sorted(part))
            table = self.centered[own].reshape(-1, *(self.shape[i] for i in own))
            table = table.transpose(0, *(own.index(i) + 1 for i in part))
            line = [self.shape[i] if i in part else 1 for i in subset]
            found += table.reshape(-1, *line) / prod(self.shape[i] for i in subset if i not in part)
        return found.reshape(len(found), -1)

    def components(self, subset: Subset) -> dict[Subset, float]:
        """Noise variance of a normalised contrast of the cells of a marginal, by the columns that it contrasts."""
        return {part: self.variances[tuple(sorted(part))] / prod(self.shape[i] for i in subset if i not in part)
                for part in parts_of(subset)}  # fmt: skip

    def cell_variance(self, subset: Subset) -> float:
        """Noise variance of each cell of a marginal."""
        cells = self.cells(subset)
        return sum(one * prod(self.shape[i] - 1 for i in part) for part, one in self.components(subset).items()) / cells

    def covariance(self, subset: Subset) -> Array:
        """Covariance of the noise of the cells of a marginal (cells, cells)."""
        found = np.zeros((self.cells(subset),) * 2)
        for part, one in self.components(subset).items():
            found += one * _kron([_centering(self.shape[i], contrasted=i in part) for i in subset])
        return found

    def sources(self, subset: Subset) -> tuple[NoiseSource, ...]:
        """Independent draws that the noise of the cells of a marginal is made of, for simulation."""
        if self.measured:
            return tuple(self._source(one, subset) for one in self.measured)
        found = []
        for part in parts_of(subset):
            own = tuple(sorted(part))
            mine = self.places[own]
            lines = [_helmert(self.shape[i]) if i in part else np.full((1, self.shape[i]), 1 / self.shape[i])
                     for i in subset]  # fmt: skip
            widths = [self.shape[i] - 1 for i in own]
            order = np.arange(prod(widths)).reshape(widths).transpose([own.index(i) for i in part]).ravel()
            scales = np.asarray(self.law.scales[mine])[order]
            law = replace(self.law, scales=tuple(scales.tolist()))
            found.append(NoiseSource(law, self.steps[mine][order], 1, _kron(lines).T))
        return tuple(found)

    def _source(self, one: Measured, subset: Subset) -> NoiseSource:
        common = tuple(i for i in one.subset if i in subset)
        rows = self._margin_cells(subset, common)
        several = self.cells(one.subset) // self.cells(common)
        law = replace(one.law, scales=one.law.scales * self.cells(common))
        steps = np.full(self.cells(common), one.step)
        return NoiseSource(law, steps, several, self._spread(one, subset, common)[rows])

    def _spread(self, one: Measured, subset: Subset, common: Subset) -> Array:
        """How a count of a measured marginal moves the cells, both by what they have in common."""
        matrix = np.zeros((self.cells(common),) * 2)
        for part in parts_of(common):
            spread = prod(self.shape[i] for i in subset if i not in part)
            each = [np.eye(self.shape[i]) - 1 / self.shape[i] if i in part else np.ones((self.shape[i],) * 2)
                    for i in common]  # fmt: skip
            matrix += one.shares.get(part, 0.0) / spread * _kron(each)
        return matrix

    def loadings(self, subset: Subset, cells: Sequence[int] | None = None) -> tuple[Array, Array]:
        """How each measured count's noise moves cells of a marginal (k, K), by default all; and its variance (K,)."""
        wanted = np.arange(self.cells(subset)) if cells is None else np.asarray(cells)
        found = []
        for one in self.measured:
            common = tuple(i for i in one.subset if i in subset)
            rows = self._margin_cells(subset, common)[wanted]
            found.append(self._spread(one, subset, common)[rows][:, self._margin_cells(one.subset, common)])
        variances = np.concatenate([np.full(self.cells(one.subset), one.variance) for one in self.measured])
        return np.concatenate(found, axis=1), variances

    def _margin_cells(self, subset: Subset, kept: Subset) -> Places:
        """Cell of a margin that each cell of a marginal is in (cells,)."""
        order = np.arange(self.cells(kept)).reshape([self.shape[i] for i in kept])
        order = order.transpose([kept.index(i) for i in subset if i in kept])
        lines = [self.shape[i] if i in kept else 1 for i in subset]
        return np.asarray(np.broadcast_to(order.reshape(lines), [self.shape[i] for i in subset]).ravel())


def parts_of(subset: Subset) -> list[Subset]:
    """All subsets of a subset, the empty one first."""
    return [part for size in range(len(subset) + 1) for part in combinations(subset, size)]


def subsets_of(subsets: Sequence[Subset]) -> tuple[Subset, ...]:
    """All subsets of any of them, the smallest first."""
    found = {part for subset in subsets for part in parts_of(subset)}
    return tuple(sorted(found, key=lambda one: (len(one), one)))


def centered_margins(released: Released) -> CenteredMargins:
    """Return what releases of contrasts, or of counts, of marginals tell of all subsets of their columns."""
    return _of_contrasts(released) if released.rows.contrasts else _of_counts(released)


def _of_contrasts(released: Released) -> CenteredMargins:
    rows = released.rows
    ends = np.cumsum(rows.widths)
    squared = rows.pattern("l2") ** 2
    centered, variances, places = {}, {}, {}
    for subset, end, width in zip(rows.subsets, ends.tolist(), rows.widths.tolist(), strict=True):
        places[subset] = mine = slice(end - width, end)
        table = (released.values[:, mine] / squared[mine]).reshape(-1, *(rows.shape[i] - 1 for i in subset))
        for axis in range(1, table.ndim):
            table = _levels(table, axis)
        centered[subset] = table.reshape(len(released.values), -1)
        variances[subset] = float((released.noise_variances[mine] / squared[mine]).max())
    return CenteredMargins(rows.shape, centered, variances, released.law, released.steps, places=places)


def _levels(contrasts: Array, axis: int) -> Array:
    """Turn sums of contrasts over squared norms (m - 1) into centred levels (m)."""
    given = np.moveaxis(contrasts, axis, -1)
    beyond = np.cumsum(given[..., ::-1], axis=-1)[..., ::-1]
    nothing = np.zeros((*given.shape[:-1], 1))
    own = np.concatenate([nothing, given * np.arange(1, given.shape[-1] + 1)], axis=-1)
    return np.moveaxis(np.concatenate([beyond, nothing], axis=-1) - own, -1, axis)


def _of_counts(released: Released) -> CenteredMargins:
    """Average what several marginals tell of a common margin, by inverse variances."""
    rows = released.rows
    ends = np.cumsum(rows.widths)
    tables, variances = {}, {}
    for subset, end, width in zip(rows.subsets, ends.tolist(), rows.widths.tolist(), strict=True):
        tables[subset] = released.values[:, end - width : end].reshape(-1, *(rows.shape[i] for i in subset))
        variances[subset] = max(float(released.noise_variances[end - 1]), _TINY)
    public = rows.keeps_every_row and released.nobs is not None
    centered: dict[Subset, Array] = {}
    found: dict[Subset, float] = {}
    shares: dict[Subset, dict[Subset, float]] = {subset: {} for subset in rows.subsets}
    for part in subsets_of(rows.subsets):
        if not part and public:
            centered[part], found[part] = np.full((len(released.values), 1), float(released.nobs or 0)), 0.0
            continue
        holds = [subset for subset in rows.subsets if {*part} <= {*subset}]
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
    law = released.law
    measured = tuple(
        Measured(subset, replace(law, scales=law.scales[end - 1 : end]), float(released.steps[end - 1]), shares[subset])
        for subset, end in zip(rows.subsets, ends.tolist(), strict=True)
    )
    return CenteredMargins(rows.shape, centered, found, law, released.steps, measured)


def _helmert(levels: int) -> Array:
    """Contrasts of levels, each over its squared norm (m - 1, m)."""
    return np.asarray(_levels(np.diag([1 / (j * (j + 1)) for j in range(1, levels)]), 1))


def _centering(levels: int, *, contrasted: bool) -> Array:
    """Projection on what contrasts one column's levels, or on what they have in common."""
    common = np.full((levels, levels), 1 / levels)
    return np.eye(levels) - common if contrasted else common


def _kron(matrices: list[Array]) -> Array:
    found = np.ones((1, 1))
    for one in matrices:
        found = np.asarray(np.kron(found, one), dtype=np.float64)
    return found
