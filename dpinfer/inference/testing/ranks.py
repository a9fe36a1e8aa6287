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

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dpinfer.inference.testing.nulls import Candidate
from dpinfer.inference.testing.products import LEAST
from dpinfer.inference.testing.scores import by_rows, centred_scores, nearest_shares, shrinkage, whole_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.inference.testing.count_noise import CountNoise
    from dpinfer.inference.testing.groups import Alternative
    from dpinfer.inference.testing.nulls import NullModel
    from dpinfer.numerics.arrays import Array, Mask

__all__ = [
    "AWAY",
    "ZEROS",
    "CommonShares",
    "FittedMargins",
    "GroupRanks",
    "Judged",
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

AWAY = 2.0
"""Standard deviations of their noise by which sizes are raised in the simulated null."""

_HIDING = 2.0
"""Standard deviations of its noise that a size has to reach; a smaller one may be none for all that is known."""

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
    plain, counts : ndarray (R, G, m)
        Weighted counts as they are, and freed of the bias that their weights come from the same noise (Stein's identity).
    """

    sizes: Array
    error: Array
    shares: Array
    weights: Array
    plain: Array
    counts: Array

    @property
    def hidden(self) -> Mask:
        """Whether noise hides the rows of a group (R,)."""
        return np.asarray((self.sizes < _HIDING * self.error[:, None]).any(axis=1))

    @property
    def grown(self) -> NDArray[np.int64]:
        """Whole sizes for the null (R, G), raised where noise hides them: statistics of small groups vary less."""
        return whole_rows(self.sizes + AWAY * self.error[:, None])


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
    plain = counts = weights[:, None] * table
    if variance > 0:
        slope = np.where(shares > 0, weights * (1 - weights) / np.maximum(shares, _TINY), 0.0)
        counts = plain - variance * each * slope[:, None]
    seen = np.maximum(np.einsum("nk,nk->n", shares, weights), _TINY)
    error = np.sqrt(variance * np.einsum("nk,nk->n", weights, weights)) / seen
    sizes = _at_least(counts @ np.ones(counts.shape[2]) / seen[:, None], error)
    return CommonShares(sizes, error, shares, weights, plain, counts)


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


class Judged(ABC):
    """A hypothesis that is not tested where noise hides the rows: the p-value of such a release is 1.

    Simulated releases are not judged, so that those that happen to hide the rows make the test no bolder.
    """

    judged: bool

    @abstractmethod
    def hidden(self, values: Array) -> Mask:
        """Whether noise hides the rows of releases (R, m): (R,)."""

    @abstractmethod
    def fit(self, values: Array) -> tuple[NDArray[np.int64], Array]:
        """See `NullModel.fit`."""

    def candidates(self, values: Array) -> list[Candidate]:
        """Fits to releases (R, m), those that are not tested apart; see `SeveralFits`."""
        hidden = self.hidden(values)
        tested: Any = replace(self, judged=False)  # type: ignore[type-var]
        parts = ((cast("NullModel", self), np.flatnonzero(hidden)), (tested, np.flatnonzero(~hidden)))
        return [Candidate(model, where, self.fit(values[where])) for model, where in parts if where.size]

    def _untested(self, values: Array) -> Array:
        """NaN (N,) for releases (N, m) that are not tested, else 0."""
        if not self.judged:
            return np.zeros(len(values))
        return np.where(self.hidden(values), np.nan, 0.0)


@dataclass(frozen=True, eq=False)
class GroupRanks:
    """Groups with one distribution, by ranks: Mann & Whitney's test of two, Kruskal & Wallis's; implements `NullModel`.

    Attributes
    ----------
    shape : (int, int)
        Groups by leaves.
    noise : CountNoise
    alternative : {"two-sided", "less", "greater"}
        "greater": the first of two groups has the larger values.
    """

    shape: tuple[int, int]
    noise: CountNoise
    alternative: Alternative = "two-sided"

    def common(self, values: Array) -> CommonShares:
        """Sizes and common shares of releases (R, G m)."""
        return common_shares(values.reshape(-1, *self.shape), self.noise.variance)

    def sums(self, values: Array) -> tuple[Array, Array, Array]:
        """Sums of scores of each group, those of ones, and the variances of the first, (R, G) each."""
        found = self.common(values)
        scores = centred_scores(found.shares, found.weights)
        sums, rows = np.einsum("ngk,nk->ng", found.counts, scores), found.counts @ np.ones(scores.shape[1])
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
        shares = nearest_shares(counts, size)
        return size if self.nobs is not None else np.maximum(size, self._blur(values)), shares

    def _blur(self, values: Array) -> float:
        """Standard deviation of the noise in the number of rows."""
        return 0.0 if self.nobs is not None else float(np.sqrt(self.noise.variance * values.shape[-1]))

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
        return whole_rows(size + AWAY * self._blur(values)), np.concatenate([half[..., ::-1], shares[..., :1], half], axis=-1)

    def draw(self, fitted: tuple[NDArray[np.int64], Array], size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        rows, shares = fitted
        return draw_groups((rows[:, None], shares), size, self.noise, rng)


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
    return np.asarray(length < others + _HIDING * np.sqrt(2 * others))


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
        weights = [
            shrinkage(p, variance * across / raised) for p, across in zip(shares, self.shape[::-1], strict=True)
        ]
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
        blur = np.sqrt(variance * (weights[0] ** 2).sum(axis=1) * (weights[1] ** 2).sum(axis=1)) / np.maximum(seen, _TINY)
        if self.nobs is None:
            size = np.maximum(forms[:, 1, 1] / np.maximum(seen, _TINY), np.maximum(blur, LEAST))
        else:
            blur = np.zeros(len(table))
        hidden = size < _HIDING * blur
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
