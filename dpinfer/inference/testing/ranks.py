"""Rank tests on noisy counts of leaves: of several groups, of signs, of two columns.

A rank test compares means of midranks. With p the shares of the leaves, which the hypothesis says are the same in all
groups, s their midranks and v the noise variance of a count, leaves get scores y (`centred_scores`) of mean
``sum p y = 0``, and a group of n rows the sum ``S = sum y (X + Z)``, of mean zero and variance

    V = n sum p y^2 + v sum y^2.

Without noise y = s, and the statistics are those of Mann & Whitney, Kruskal & Wallis, Wilcoxon and Spearman with
their corrections for ties. Shares are fitted to the noisy counts under the hypothesis. The null is simulated at the
fit, counts and noise alike, and everything is fitted anew to each draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.testing.products import LEAST
from dpinfer.inference.testing.scores import by_rows, centred_scores, nearest_shares, shrinkage, whole_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.inference.testing.count_noise import CountNoise
    from dpinfer.inference.testing.groups import Alternative
    from dpinfer.numerics.arrays import Array

__all__ = [
    "ZEROS",
    "CommonShares",
    "GroupRanks",
    "RankAssociation",
    "SignedRanks",
    "common_shares",
    "draw_groups",
    "fitted_size",
    "sided",
]

ZEROS = ("wilcox", "pratt")
"""What becomes of differences of zero: they have no rank, or the lowest ranks and no sign."""

_ROUNDS = 2

_AWAY = 2.0
"""Standard deviations of their noise by which sizes are raised in the simulated null."""

_TINY = 1e-300


def sided(signed: Array, alternative: Alternative) -> Array:
    """Evidence towards an alternative, from a statistic of which large values speak for "greater"."""
    if alternative == "two-sided":
        return np.abs(signed)
    return signed if alternative == "greater" else -signed


@dataclass(frozen=True, eq=False)
class CommonShares:
    """Sizes of groups and the shares of leaves that they have in common, fitted to R releases.

    Attributes
    ----------
    sizes, error : ndarray (R, G), (R,)
        Numbers of rows, and the standard deviation of the noise in each. None is below one row, or below its noise.
    shares : ndarray (R, m)
        Not negative, of sum 1.
    weights : ndarray (R, m)
        See `shrinkage`.
    counts : ndarray (R, G, m)
        Weighted counts, freed of the bias that their weights come from the same noise (Stein's identity).
    """

    sizes: Array
    error: Array
    shares: Array
    weights: Array
    counts: Array

    @property
    def rows(self) -> Array:
        """Weighted counts added up (R, G)."""
        return np.asarray(self.counts @ np.ones(self.counts.shape[2]))

    @property
    def grown(self) -> Array:
        """Whole sizes for the null (R, G), raised where noise hides them: statistics of small groups vary less."""
        return whole_rows(self.sizes + _AWAY * self.error[:, None])


def common_shares(table: Array, variance: float) -> CommonShares:
    """Fit tables (R, G, m): sizes from weighted totals, shares by least squares whose weights count the noise.

    These weights make the shares uncorrelated with the contrasts between groups. No size is taken to be below its own
    noise: of groups that noise hides none is then weighted more than another.
    """
    error = np.full(len(table), np.sqrt(variance * table.shape[2]))
    sizes = _at_least(table @ np.ones(table.shape[2]), error)
    shares = nearest_shares(table.sum(axis=1), np.maximum(table.sum(axis=(1, 2)), LEAST))
    found = _weighted(table, sizes, error, shares, variance, (1 / sizes.sum(axis=1))[:, None, None])
    for _ in range(_ROUNDS if variance > 0 else 0):
        each = found.sizes[..., None] / (found.sizes[..., None] * found.shares[:, None] + variance)
        each /= (each * found.sizes[..., None]).sum(axis=1, keepdims=True)
        shares = nearest_shares((each * table).sum(axis=1), 1.0)
        found = _weighted(table, found.sizes, found.error, shares, variance, each)
    return found


def _weighted(table: Array, sizes: Array, error: Array, shares: Array, variance: float, each: Array) -> CommonShares:
    """Weigh leaves, and read sizes from them; ``each`` (R, G, m) are the parts of the counts in the shares."""
    noise = _contrast_noise(sizes, variance)
    weights = shrinkage(shares, noise)
    counts = weights[:, None] * table
    if variance > 0:
        slope = np.where(shares > 0, weights * (1 - weights) / np.maximum(shares, _TINY), 0.0)
        counts -= variance * each * slope[:, None]
    seen = np.maximum(np.einsum("nk,nk->n", shares, weights), _TINY)
    error = np.sqrt(variance * np.einsum("nk,nk->n", weights, weights)) / seen
    sizes = _at_least(counts @ np.ones(counts.shape[2]) / seen[:, None], error)
    return CommonShares(sizes, error, shares, weights, counts)


def _at_least(sizes: Array, error: Array) -> Array:
    return np.maximum(sizes, np.maximum(error, LEAST)[:, None])


def _contrast_noise(sizes: Array, variance: float) -> Array:
    """What noise adds to the variance of the contrasts between groups of sizes (R, G), in shares: (R,)."""
    groups = sizes.shape[1]
    parts = (1 / sizes).sum(axis=1) - groups / sizes.sum(axis=1)
    return np.asarray(variance * np.maximum(parts, 0.0) / (groups - 1))


def fitted_size(counts: Array, nobs: int | None) -> Array:
    """Number of rows (...) of counts (..., m): public, or noisy and at least one."""
    if nobs is not None:
        return np.full(counts.shape[:-1], max(float(nobs), LEAST))
    return np.asarray(np.maximum(counts @ np.ones(counts.shape[-1]), LEAST))


def draw_groups(
    fitted: tuple[NDArray[np.int64], Array], size: int, noise: CountNoise, rng: np.random.Generator
) -> Array:
    """Draw releases (R, size, G m) of groups of fixed sizes (R, G) with common shares (R, m)."""
    sizes, shares = fitted
    counts = rng.multinomial(sizes[:, None, :], shares[:, None, None], size=(len(sizes), size, sizes.shape[1]))
    flat = counts.reshape(len(sizes), size, -1)
    return np.asarray(flat + noise.rvs(flat.shape, rng))


@dataclass(frozen=True, eq=False)
class GroupRanks:
    """Groups with one distribution, by ranks: Mann & Whitney's test of two, Kruskal & Wallis's; implements `NullModel`.

    Attributes
    ----------
    shape : (int, int)
        Groups by leaves.
    noise : CountNoise
    nobs : int or None
        The number of rows of all groups where it is public.
    alternative : {"two-sided", "less", "greater"}
        "greater": the first of two groups has the larger values.
    """

    shape: tuple[int, int]
    noise: CountNoise
    nobs: int | None = None
    alternative: Alternative = "two-sided"

    def common(self, values: Array) -> CommonShares:
        """Sizes and common shares of releases (R, G m)."""
        return common_shares(values.reshape(-1, *self.shape), self.noise.variance)

    def sums(self, values: Array) -> tuple[Array, Array, Array]:
        """Sums of scores of each group, those of ones, and the variances of the first, (R, G) each."""
        found = self.common(values)
        scores = centred_scores(found.shares, found.weights)
        sums, rows = np.einsum("ngk,nk->ng", found.counts, scores), found.rows
        whole, total = rows.sum(axis=1), found.sizes.sum(axis=1)
        mean = np.clip(sums.sum(axis=1) / np.where(np.abs(whole) > _TINY, whole, _TINY), -1.0, 1.0)
        square = (found.weights * (scores - mean[:, None])) ** 2
        spread = np.einsum("nk,nk->n", found.shares, square) * total / np.maximum(total - 1, LEAST)
        across = self.noise.variance * square.sum(axis=1)
        return sums, rows, np.maximum(found.sizes * spread[:, None] + across[:, None], _TINY)

    def signed(self, values: Array) -> Array:
        """Give the standardised difference of two groups (...), positive where the first has the larger values."""
        return by_rows(self._signed, values)

    def _signed(self, values: Array) -> Array:
        sums, rows, variance = self.sums(values)
        top = sums[:, 0] * rows[:, 1] - sums[:, 1] * rows[:, 0]
        bottom = variance[:, 0] * rows[:, 1] ** 2 + variance[:, 1] * rows[:, 0] ** 2
        return np.asarray(top / np.sqrt(np.maximum(bottom, _TINY)))

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`: the standardised difference of two groups, or H of several."""
        if self.shape[0] == 2:
            return sided(self.signed(values), self.alternative)
        return by_rows(self._length, values)

    def _length(self, values: Array) -> Array:
        """Least ``sum (S - c N)^2 / V`` over c."""
        sums, rows, variance = self.sums(values)
        size = np.maximum((rows**2 / variance).sum(axis=1), _TINY)
        through = (sums * rows / variance).sum(axis=1) ** 2 / size
        return np.asarray(np.maximum((sums**2 / variance).sum(axis=1) - through, 0.0))

    def fit(self, values: Array) -> tuple[NDArray[np.int64], Array]:
        """Whole sizes (R, G) and common shares (R, m)."""
        found = self.common(values)
        return found.grown, found.shares

    def draw(self, fitted: tuple[NDArray[np.int64], Array], size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        return draw_groups(fitted, size, self.noise, rng)


@dataclass(frozen=True, eq=False)
class SignedRanks:
    """Values symmetric about zero, by Wilcoxon's signed ranks; implements `NullModel` on counts (..., 2 K + 1).

    Leaves K + k and K - k hold values of the same size and of opposite signs; leaf K holds zeros.

    Attributes
    ----------
    noise : CountNoise
    nobs : int or None
        The number of rows where it is public.
    alternative : {"two-sided", "less", "greater"}
    zeros : {"wilcox", "pratt"}
    """

    noise: CountNoise
    nobs: int | None = None
    alternative: Alternative = "two-sided"
    zeros: str = "wilcox"

    def folded(self, values: Array) -> tuple[Array, Array]:
        """Return the counts by size, zeros first, (..., K + 1), and those above less those below zero (..., K)."""
        half = values.shape[-1] // 2
        above, under = values[..., half + 1 :], values[..., half - 1 :: -1] if half else values[..., :0]
        return np.concatenate([values[..., half, None], above + under], axis=-1), above - under

    def shares(self, values: Array) -> tuple[Array, Array]:
        """Number of rows (...), and shares by size (..., K + 1)."""
        counts, _ = self.folded(values)
        size = fitted_size(counts, self.nobs)
        return size, nearest_shares(counts, size)

    def signed(self, values: Array) -> Array:
        """Give the standardised sum of signed ranks (...)."""
        return by_rows(self._signed, values)

    def _signed(self, values: Array) -> Array:
        _, apart = self.folded(values)
        size, shares = self.shares(values)
        used = shares[:, 1:]
        ranks = np.cumsum(used, axis=1) - 0.5 * used + (0.5 / size)[:, None]
        if self.zeros == "pratt":
            ranks = ranks + shares[:, :1]
        variance = 2 * self.noise.variance
        scores = ranks * shrinkage(used, variance / size)
        square = scores**2
        spread = size * np.einsum("nk,nk->n", used, square) + variance * square.sum(axis=1)
        return np.asarray(np.einsum("nk,nk->n", scores, apart) / np.sqrt(np.maximum(spread, _TINY)))

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`."""
        return sided(self.signed(values), self.alternative)

    def fit(self, values: Array) -> tuple[NDArray[np.int64], Array]:
        """Whole numbers of rows (R,), and symmetric shares (R, 2 K + 1)."""
        size, shares = self.shares(values)
        half = 0.5 * shares[..., 1:]
        return whole_rows(size), np.concatenate([half[..., ::-1], shares[..., :1], half], axis=-1)

    def draw(self, fitted: tuple[NDArray[np.int64], Array], size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        rows, shares = fitted
        return draw_groups((rows[:, None], shares), size, self.noise, rng)


@dataclass(frozen=True, eq=False)
class RankAssociation:
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

    def margins(self, values: Array) -> tuple[Array, Array, Array]:
        """Number of rows (R,), and shares of the leaves of both columns (R, r) and (R, c)."""
        table = values.reshape(-1, *self.shape)
        size = fitted_size(values.reshape(len(table), -1), self.nobs)
        first, second = table.sum(axis=2), table.sum(axis=1)
        return size, nearest_shares(first, size), nearest_shares(second, size)

    def signed(self, values: Array) -> Array:
        """Give the standardised covariance of the scores (...)."""
        return by_rows(self._signed, values)

    def _signed(self, values: Array) -> Array:
        table, variance = values.reshape(-1, *self.shape), self.noise.variance
        size, p, q = self.margins(values)
        across, along = (shrinkage(p, variance * self.shape[1] / size), shrinkage(q, variance * self.shape[0] / size))
        rows, columns = across * centred_scores(p, across), along * centred_scores(q, along)
        by_score, by_weight = np.einsum("nij,ni->nj", table, rows), np.einsum("nij,ni->nj", table, across)
        top, first = np.einsum("nj,nj->n", by_score, columns), np.einsum("nj,nj->n", by_score, along)
        second, whole = np.einsum("nj,nj->n", by_weight, columns), np.einsum("nj,nj->n", by_weight, along)
        whole = np.where(np.abs(whole) > _TINY, whole, _TINY)
        top = top - first * second / whole
        rows, columns = rows - (first / whole)[:, None] * across, columns - (second / whole)[:, None] * along
        spread = np.einsum("ni,ni->n", p, rows**2) * np.einsum("nj,nj->n", q, columns**2)
        across = (rows**2).sum(axis=1) * (columns**2).sum(axis=1)
        freed = np.maximum(size - 1, LEAST)
        bottom = size**2 / freed * spread + variance * across
        return np.asarray(top / np.sqrt(np.maximum(bottom, _TINY)))

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`."""
        return sided(self.signed(values), self.alternative)

    def fit(self, values: Array) -> tuple[NDArray[np.int64], Array]:
        """Whole numbers of rows (R,), and shares of the cells (R, r c)."""
        size, p, q = self.margins(values)
        return whole_rows(size), (p[:, :, None] * q[:, None]).reshape(len(p), -1)

    def draw(self, fitted: tuple[NDArray[np.int64], Array], size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        rows, shares = fitted
        return draw_groups((rows[:, None], shares), size, self.noise, rng)
