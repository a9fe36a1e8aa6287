"""Chi-squared tests on noisy counts: goodness of fit, independence, homogeneity.

With X the counts, Z independent noise of variance v and m the counts expected under the hypothesis, ``X + Z - m`` has
covariance ``diag(m) - m m'/n + v I``. A public number of rows n says nothing about the hypothesis through the noisy
total: residuals r are projected on vectors that add up to zero, where the squared length that their covariance asks
for is, in closed form (Kifer & Rogers 2017),

    r' W r = sum r^2/D + v (sum r/D)^2 / sum(m/D),    D = m + v.

Where n is private, m is known but for its length, which is fitted in the same metric: the direction m falls out, and
with it the second term. What else the hypothesis leaves open, the margins, is fitted in the same metric: T is the
distance to the nearest product of margins (`products`).

The null is simulated at that product. Margins that the noise hides may be much smaller than they look, and the
statistic then varies more. Where there are any, the statistic is the projected one that does not know n, which they
move least; it is simulated at that product and at a peak, where hidden margins are one row, or all but the largest of
an axis of which half are hidden; and the larger p-value counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dpinfer.inference.testing.null_parts import NullParts, one_group, product_parts, raised
from dpinfer.inference.testing.nulls import Candidate
from dpinfer.inference.testing.products import LEAST, Product, at_least, by_blocks, margins_of, nearest_product
from dpinfer.numerics.forms import inverse_form

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.inference.testing.count_noise import CountNoise, TableNoise
    from dpinfer.inference.testing.nulls import NullModel
    from dpinfer.numerics.arrays import Array, Mask

__all__ = ["STATISTICS", "GoodnessOfFit", "Homogeneity", "Independence"]

STATISTICS = ("projected", "pearson")

_CLEAR = 2.0
"""Standard errors that a margin has to reach; one that does not may be as small as one row for all that is known."""


def _size(values: Array, nobs: int | None) -> Array:
    """Public number of rows, or the noisy one, at least 1; (...)."""
    if nobs is not None:
        return np.broadcast_to(float(nobs), values.shape[:-1])
    return np.maximum(_sum(values), LEAST)


def _sum(values: Array) -> Array:
    """Sum along the last axis, which is short: a product with ones is faster."""
    return np.asarray(values @ np.ones(values.shape[-1]))


def _whole(size: Array) -> NDArray[np.int64]:
    return np.maximum(np.rint(size), 1.0).astype(np.int64)


@dataclass(frozen=True, eq=False)
class GoodnessOfFit:
    """Counts of d levels against given probabilities; implements `NullModel`.

    Attributes
    ----------
    probabilities : ndarray (d,)
        Positive, of sum 1.
    noise : CountNoise or TableNoise
    nobs : int or None
        The number of rows where it is public.
    kind : {"projected", "pearson"}
    """

    probabilities: Array
    noise: CountNoise | TableNoise
    nobs: int | None = None
    kind: str = "projected"

    @property
    def dof(self) -> int:
        """Degrees of freedom."""
        return self.probabilities.size - 1

    def _rows(self, values: Array) -> Array:
        """Return the number of rows (...): public, or fitted to the counts and at least 1."""
        total = _size(values, self.nobs)
        if self.nobs is not None or self.kind == "pearson":
            return total
        weights = self.probabilities / (total[..., None] * self.probabilities + self.noise.contrast)
        return at_least(_sum(values * weights) / (weights @ self.probabilities))

    def expected(self, values: Array) -> Array:
        """Return the counts expected under the hypothesis (..., d)."""
        return np.asarray(self._rows(values)[..., None] * self.probabilities)

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`."""
        p, variance = self.probabilities, self.noise.contrast
        if self.nobs is None:
            if self.kind == "pearson":
                expected = self.expected(values)
                return _sum((values - expected) ** 2 / expected)
            expected = _size(values, None)[..., None] * p
            inverse = 1.0 / (expected + variance)
            residual = values - expected
            weighted = residual * inverse
            length = np.einsum("...i,...i->...", residual, weighted)
            return np.asarray(np.maximum(length - (weighted @ p) ** 2 / (inverse @ p**2), 0.0))
        expected = self.nobs * p
        residual = values - expected
        if self.kind == "pearson":
            return _sum(residual**2 / expected)
        residual -= (_sum(residual) / p.size)[..., None]
        inverse = 1.0 / (expected + variance)
        weighted = residual * inverse
        through = variance / float(expected @ inverse)
        return np.asarray(np.einsum("...i,...i->...", residual, weighted) + through * _sum(weighted) ** 2)

    def fit(self, values: Array) -> NDArray[np.int64]:
        """Numbers of rows (R,)."""
        return _whole(self._rows(values))

    def null_parts(self, x: Array) -> NullParts:
        """See `NullParts`: a private number of rows is a weighted sum of the counts."""
        p = self.probabilities
        if self.nobs is not None:
            total = np.full(x.shape, float(self.nobs))
            return NullParts(total * p, total * p * (1 - p), np.full(x.shape, self.noise.variance))
        total = raised(x.sum(axis=-1, keepdims=True))
        weights = np.ones(p.size) if self.kind == "pearson" else p / (total * p + self.noise.contrast)
        weights = weights / (weights * p).sum(axis=-1, keepdims=True)
        total = raised((x * weights).sum(axis=-1, keepdims=True))
        sampling = total * p * (1 - 2 * p * weights + p * (p * weights**2).sum(axis=-1, keepdims=True))
        return NullParts(total * p, sampling, self.noise.components.after_size(p, np.broadcast_to(weights, x.shape)))

    def groups(self, values: Array) -> tuple[Array, Array]:
        """See `one_group`."""
        return one_group(values, self.nobs)

    def draw(self, fitted: NDArray[np.int64], size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        shape = (len(fitted), size)
        counts = rng.multinomial(fitted[:, None], self.probabilities, size=shape)
        noise = self.noise.rvs((*shape, self.probabilities.size), rng)
        noise += counts
        return noise


class _TwoWay(ABC):
    """What tests of an r by c table share."""

    shape: tuple[int, int]

    @property
    def dof(self) -> int:
        """Degrees of freedom."""
        return (self.shape[0] - 1) * (self.shape[1] - 1)

    @property
    @abstractmethod
    def steadier(self) -> _TwoWay | None:
        """The test whose statistic varies least with hidden margins; None where it is this one."""

    @abstractmethod
    def _margins(self, table: Array) -> tuple[Array, Array]:
        """Margins of tables (r, c, N) whose product is expected, (r, N) and (c, N)."""

    @abstractmethod
    def _of_tables(self, table: Array) -> Array:
        """Statistics (N,) of tables (r, c, N)."""

    @abstractmethod
    def _nearest(self, table: Array) -> Product:
        """Fit the margins of tables (r, c, N)."""

    @abstractmethod
    def _fitted(self, found: Product, rows: Array, columns: Array) -> tuple[Any, Any]:
        """Give what `draw` takes, for margins (r, N) and (c, N)."""

    def expected(self, values: Array) -> Array:
        """Return the counts expected under the hypothesis (..., r c)."""
        rows, columns = self._margins(_cells_first(values, self.shape))
        return np.asarray((rows[:, None] * columns).reshape(values.shape[-1], -1).T.reshape(values.shape))

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`."""
        return by_blocks(self._of_tables, values, self.shape)

    def fit(self, values: Array) -> tuple[Any, Any]:
        """See `NullModel.fit`."""
        found = self._nearest(_cells_first(values, self.shape))
        return self._fitted(found, *_floored(found))

    def hidden(self, values: Array) -> Mask:
        """Whether noise hides a margin of tables (R, r c): (R,)."""
        return _hidden(self._nearest(_cells_first(values, self.shape)))

    def candidates(self, values: Array) -> list[Candidate]:
        """Fits that the data do not tell apart; see `dpinfer.inference.testing.nulls.SeveralFits`."""
        nearest = self._nearest(_cells_first(values, self.shape))
        hidden = _hidden(nearest)
        fitted, peaked = (self._fitted(nearest, *margins(nearest)) for margins in (_floored, _peaked))
        steadier = self if self.steadier is None else self.steadier
        tried = ((self, ~hidden, fitted), (steadier, hidden, fitted), (steadier, hidden, peaked))
        return [
            Candidate(cast("NullModel", model), np.flatnonzero(which), tuple(part[which] for part in fit))
            for model, which, fit in tried
            if which.any()
        ]


@dataclass(frozen=True, eq=False)
class Independence(_TwoWay):
    """Counts of an r by c table against the product of its margins; implements `NullModel`.

    Attributes
    ----------
    shape : (int, int)
    noise : CountNoise or TableNoise
    nobs : int or None
        The number of rows where it is public.
    kind : {"projected", "pearson"}
    """

    shape: tuple[int, int]
    noise: CountNoise | TableNoise
    nobs: int | None = None
    kind: str = "projected"

    def _margins(self, table: Array) -> tuple[Array, Array]:
        return margins_of(table, self.nobs)

    def _of_tables(self, table: Array) -> Array:
        """Statistics (N,) of tables (r, c, N)."""
        if self.kind == "projected":
            return nearest_product(table, self.noise.contrast, self.nobs).length
        rows, columns = self._margins(table)
        return _pearson(table, rows[:, None] * columns)

    def _nearest(self, table: Array) -> Product:
        return nearest_product(table, self.noise.contrast, self.nobs)

    def _fitted(self, found: Product, rows: Array, columns: Array) -> tuple[NDArray[np.int64], Array]:
        """Numbers of rows (N,), and probabilities of the cells (N, r c)."""
        cells = (rows / rows.sum(axis=0))[:, None] * (columns / columns.sum(axis=0))
        return _whole(found.rows.sum(axis=0)), cells.reshape(-1, cells.shape[-1]).T

    def null_parts(self, x: Array) -> NullParts:
        """See `NullParts`."""
        r, c = self.shape
        table, size = x.reshape(*x.shape[:-1], r, c), x.sum(axis=-1)
        total = raised(size) if self.nobs is None else np.full(size.shape, self.nobs)
        by_row = raised(table.sum(axis=-1) + ((total - size) / r)[..., None])
        noise = self.noise.components
        return product_parts(table, by_row, total, noise, rows_known=False, size_known=self.nobs is not None)

    def groups(self, values: Array) -> tuple[Array, Array]:
        """See `one_group`."""
        return one_group(values, self.nobs)

    @property
    def steadier(self) -> Independence | None:
        """The test whose statistic varies least with hidden margins: projected, and free of the number of rows."""
        if self.kind == "projected" and self.nobs is None:
            return None
        return replace(self, kind="projected", nobs=None)

    def draw(self, fitted: tuple[NDArray[np.int64], Array], size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        rows, cells = fitted
        counts = rng.multinomial(rows[:, None], cells[:, None], size=(len(rows), size))
        return np.asarray(counts + self.noise.rvs(counts.shape, rng))


def _cells_first(values: Array, shape: tuple[int, int]) -> Array:
    """Tables (..., r c) as (r, c, N)."""
    return np.ascontiguousarray(values.reshape(-1, values.shape[-1]).T).reshape(*shape, -1)


def _pearson(table: Array, expected: Array) -> Array:
    return np.asarray(((table - expected) ** 2 / expected).sum(axis=(0, 1)))


def _floored(found: Product) -> tuple[Array, Array]:
    """Margins in rows (r, N) and (c, N), none below one."""
    return at_least(found.rows), at_least(found.columns * at_least(found.rows.sum(axis=0)))


def _below(found: Product) -> tuple[Mask, Mask]:
    """Which margins (r, N) and (c, N) the noise hides."""
    rows, columns = _floored(found)
    return rows < _CLEAR * found.row_error, columns < _CLEAR * found.column_error


def _hidden(found: Product) -> Mask:
    """Whether the noise hides a margin of tables (N,)."""
    rows, columns = _below(found)
    return np.asarray(rows.any(axis=0) | columns.any(axis=0))


def _peaked(found: Product) -> tuple[Array, Array]:
    """Return the margins with hidden ones as small as one row, never the largest of an axis.

    Where noise hides half of the others or more, all others are: one level may hold nearly all rows.
    """
    parts = []
    for margin, below in zip(_floored(found), _below(found), strict=True):
        others = np.arange(len(margin))[:, None] != margin.argmax(axis=0)
        half = 2 * (others & below).sum(axis=0) >= len(margin) - 1
        parts.append(np.where(others & (below | half), LEAST, margin))
    return parts[0], parts[1]


@dataclass(frozen=True, eq=False)
class Homogeneity(_TwoWay):
    """Counts in r samples of sizes fixed by design, against one distribution of c levels; implements `NullModel`.

    Attributes
    ----------
    shape : (int, int)
        Samples by levels.
    noise : CountNoise or TableNoise
    sizes : ndarray (r,) or None
        The sizes of the samples where they are public.
    kind : {"projected", "pearson"}
    """

    shape: tuple[int, int]
    noise: CountNoise | TableNoise
    sizes: Array | None = None
    kind: str = "projected"

    def _margins(self, table: Array) -> tuple[Array, Array]:
        """Sizes of samples (r, N) and common shares (c, N), none below one row."""
        totals = table.sum(axis=1)
        sizes = at_least(totals) if self.sizes is None else np.repeat(self.sizes[:, None], table.shape[-1], axis=1)
        common = at_least(table.sum(axis=0) + (sizes - totals).sum(axis=0) / self.shape[1])
        return sizes, common / common.sum(axis=0)

    def _of_tables(self, table: Array) -> Array:
        """Statistics (N,) of tables (r, c, N)."""
        if self.kind == "projected" and self.sizes is None:
            return nearest_product(table, self.noise.contrast, None).length
        sizes, common = self._margins(table)
        expected = sizes[:, None] * common
        if self.kind == "pearson":
            return _pearson(table, expected)
        return self._shortest(table - expected, expected, sizes)

    def _shortest(self, residual: Array, expected: Array, sizes: Array) -> Array:
        """Squared length of residuals (r, c, N) of public sizes, less what a change of the common shares explains."""
        residual = residual - residual.mean(axis=1, keepdims=True)
        inverse = 1.0 / (expected + self.noise.contrast)
        weighted = residual * inverse
        through, across = self.noise.contrast / (expected * inverse).sum(axis=1), weighted.sum(axis=1)
        length = ((residual * weighted).sum(axis=1) + through * across**2).sum(axis=0)
        pull = sizes[:, None] * (inverse[:, :-1] - inverse[:, -1:])
        slope = (sizes[:, None] * (weighted[:, :-1] - weighted[:, -1:])).sum(axis=0)
        slope += ((through * across)[:, None] * pull).sum(axis=0)
        own = (sizes[:, None] ** 2 * inverse).sum(axis=0)
        matrix = np.einsum("rn,rin,rjn->ijn", through, pull, pull) + own[-1]
        levels = np.arange(self.shape[1] - 1)
        matrix[levels, levels] += own[:-1]
        return np.asarray(np.maximum(length - inverse_form(matrix, slope), 0.0))

    def _nearest(self, table: Array) -> Product:
        found = nearest_product(table, self.noise.contrast, None)
        if self.sizes is None:
            return found
        sizes, common = self._margins(table)
        error = np.full(common.shape, self.noise.margin(self.shape[1], self.shape[0], axis=1, known=False) ** 0.5)
        return Product(sizes, common, np.zeros(sizes.shape), error, found.length)

    def _fitted(self, found: Product, rows: Array, columns: Array) -> tuple[NDArray[np.int64], Array]:  # noqa: ARG002
        """Sizes (N, r), and shares of the levels (N, c)."""
        return _whole(rows.T), np.asarray((columns / columns.sum(axis=0)).T)

    def null_parts(self, x: Array) -> NullParts:
        """See `NullParts`."""
        table, known = x.reshape(*x.shape[:-1], *self.shape), self.sizes is not None
        by_row = raised(table.sum(axis=-1)) if self.sizes is None else np.broadcast_to(self.sizes, table.shape[:-1])
        total, noise = by_row.sum(axis=-1), self.noise.components
        return product_parts(table, by_row, total, noise, rows_known=known, size_known=known)

    def groups(self, values: Array) -> tuple[Array, Array]:
        """Return the counts of the samples (..., r, c), none below 0, and their sizes (..., r)."""
        table = values.reshape(*values.shape[:-1], *self.shape)
        sizes = np.maximum(table.sum(axis=-1), LEAST) if self.sizes is None else self.sizes
        return np.maximum(table, 0.0), np.broadcast_to(sizes, table.shape[:-1])

    @property
    def steadier(self) -> Homogeneity | None:
        """The test whose statistic varies least with hidden margins: projected."""
        return None if self.kind == "projected" else replace(self, kind="projected")

    def draw(self, fitted: tuple[NDArray[np.int64], Array], size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        sizes, shares = fitted
        shape = (len(sizes), size, self.shape[0])
        counts = rng.multinomial(sizes[:, None, :], shares[:, None, None], size=shape)
        flat = counts.reshape(len(sizes), size, -1)
        return np.asarray(flat + self.noise.rvs(flat.shape, rng))
