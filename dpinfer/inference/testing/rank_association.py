"""Spearman's rank correlation on a noisy grid of leaves; see `dpinfer.inference.testing.ranks`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.testing.count_noise import LEAST
from dpinfer.inference.testing.leaf_fits import AWAY, HIDING, Judged, draw_groups, fitted_size, sided
from dpinfer.inference.testing.scores import by_rows, centred_scores, nearest_shares, shrinkage, whole_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.inference.testing.count_noise import CountNoise
    from dpinfer.inference.testing.groups import Alternative
    from dpinfer.numerics.arrays import Array, Mask

__all__ = ["FittedMargins", "RankAssociation"]

_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class FittedMargins:
    """Two independent columns fitted to R grids.

    Attributes
    ----------
    size, error : ndarray (R,)
        Number of rows, and the standard deviation of the noise in it: 0 where it is public.
    shares : pair of ndarray (R, r), (R, c)
        Of the leaves of both columns.
    rows, columns : pairs of ndarray (R, r), (R, c)
        Weighted scores, and weights.
    forms : ndarray (R, 2, 2)
        The grid between scores and weights of both, freed of the bias that these come from the same noise.
    hidden : ndarray of bool (R,)
        Whether noise hides the rows, or how one of the columns is spread.
    """

    size: Array
    error: Array
    shares: list[Array]
    rows: list[Array]
    columns: list[Array]
    forms: Array
    hidden: Mask


def _gathered(margin: Array, variance: float) -> Mask:
    """Whether counts (R, r) of noise variance ``variance`` may all be in one leaf, for all that noise lets one see."""
    if variance == 0:
        return np.zeros(len(margin), dtype=bool)
    others = margin.shape[1] - 1
    length = (np.einsum("nk,nk->n", margin, margin) - margin.max(axis=1) ** 2) / variance
    return np.asarray(length < others + HIDING * np.sqrt(2 * others))


@dataclass(frozen=True, eq=False)
class RankAssociation(Judged):
    """Two independent columns, by Spearman's rank correlation; implements `NullModel` on grids (..., r c).

    Attributes
    ----------
    shape : (int, int)
    noise : CountNoise
    nobs : int or None
        The number of rows where it is public.
    alternative : {"two-sided", "less", "greater"}
    """

    shape: tuple[int, int]
    noise: CountNoise
    nobs: int | None = None
    alternative: Alternative = "two-sided"
    judged: bool = True

    def hidden(self, values: Array) -> Mask:
        """Whether noise hides the rows, or how one of the columns is spread, in releases (R, r c): (R,)."""
        return self.margins(values).hidden

    def margins(self, values: Array) -> FittedMargins:
        """Fit grids (R, r c) by the product of their margins."""
        table, variance = values.reshape(-1, *self.shape), self.noise.variance
        each = [table.sum(axis=2), table.sum(axis=1)]
        error = np.sqrt(variance * self.shape[0] * self.shape[1])
        size = fitted_size(values.reshape(len(table), -1), self.nobs)
        raised = size if self.nobs is not None else np.maximum(size, error)
        shares = [nearest_shares(margin, size) for margin in each]
        weights = [shrinkage(p, variance * across / raised) for p, across in zip(shares, self.shape[::-1], strict=True)]
        scores = [centred_scores(p, w) for p, w in zip(shares, weights, strict=True)]
        slopes = [
            np.where(p > 0, w * (1 - w) / np.maximum(p, _TINY), 0.0) * (variance / raised)[:, None]
            for p, w in zip(shares, weights, strict=True)
        ]
        by_row = [weights[0] * scores[0], weights[0]]
        by_column = [weights[1] * scores[1], weights[1]]
        steep = [slopes[0] * scores[0], slopes[0]], [slopes[1] * scores[1], slopes[1]]
        forms = np.empty((len(table), 2, 2))
        for i, row in enumerate(by_row):
            across = np.einsum("nij,ni->nj", table, row)
            for j, column in enumerate(by_column):
                bias = steep[0][i].sum(axis=1) * column.sum(axis=1) + row.sum(axis=1) * steep[1][j].sum(axis=1)
                forms[:, i, j] = np.einsum("nj,nj->n", across, column) - bias
        seen = np.einsum("nk,nk->n", shares[0], weights[0]) * np.einsum("nk,nk->n", shares[1], weights[1])
        blur = np.sqrt(variance * (weights[0] ** 2).sum(axis=1) * (weights[1] ** 2).sum(axis=1)) / np.maximum(
            seen, _TINY
        )
        if self.nobs is None:
            size = np.maximum(forms[:, 1, 1] / np.maximum(seen, _TINY), np.maximum(blur, LEAST))
        else:
            blur = np.zeros(len(table))
        hidden = size < HIDING * blur
        for margin, across in zip(each, self.shape[::-1], strict=True):
            hidden = hidden | _gathered(margin, variance * across)
        return FittedMargins(size, blur, shares, by_row, by_column, forms, hidden)

    def signed(self, values: Array) -> Array:
        """Give the standardised covariance of the scores (...)."""
        return by_rows(self._signed, values)

    def _signed(self, values: Array) -> Array:
        found, variance = self.margins(values), self.noise.variance
        (a, b), (c, whole) = found.forms.transpose(1, 2, 0)
        rows, columns = ([(one**2).sum(axis=1) for one in parts] for parts in (found.rows, found.columns))
        spread = np.einsum("nk,nk->n", found.shares[0], found.rows[0] ** 2)
        spread = spread * np.einsum("nk,nk->n", found.shares[1], found.columns[0] ** 2)
        sampling = found.size**2 / np.maximum(found.size - 1, LEAST) * spread
        noisy = whole**2 * rows[0] * columns[0] + b**2 * rows[1] * columns[0]
        noisy += c**2 * rows[0] * columns[1] + a**2 * rows[1] * columns[1]
        bottom = whole**2 * sampling + variance * noisy
        return np.asarray((a * whole - b * c) / np.sqrt(np.maximum(bottom, _TINY)))

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`."""
        return by_rows(lambda some: sided(self._signed(some), self.alternative) + self._untested(some), values)

    def fit(self, values: Array) -> tuple[NDArray[np.int64], Array]:
        """Whole numbers of rows (R,), and shares of the cells (R, r c)."""
        found = self.margins(values)
        p, q = found.shares
        return whole_rows(found.size + AWAY * found.error), (p[:, :, None] * q[:, None]).reshape(len(p), -1)

    def draw(self, fitted: tuple[NDArray[np.int64], Array], size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        rows, shares = fitted
        return draw_groups((rows[:, None], shares), size, self.noise, rng)
