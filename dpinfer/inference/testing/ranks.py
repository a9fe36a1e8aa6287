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
from typing import TYPE_CHECKING, cast

import numpy as np

from dpinfer.inference.testing.count_noise import LEAST
from dpinfer.inference.testing.leaf_fits import AWAY, HIDING, common_shares, draw_groups, fitted_size, sided
from dpinfer.inference.testing.nulls import Candidate
from dpinfer.inference.testing.scores import by_rows, centred_scores, nearest_shares, shrinkage, whole_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.inference.testing.count_noise import CountNoise
    from dpinfer.inference.testing.groups import Alternative
    from dpinfer.inference.testing.leaf_fits import CommonShares
    from dpinfer.inference.testing.nulls import NullModel
    from dpinfer.numerics.arrays import Array

__all__ = ["ZEROS", "GroupRanks", "SignedRanks"]

ZEROS = ("wilcox", "pratt")
"""What becomes of differences of zero: they have no rank, or the lowest ranks and no sign."""

_TINY = 1e-300


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
        """Return sums of scores of each group, those of ones, and the variances of the first, (R, G) each."""
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

    def candidates(self, values: Array) -> list[Candidate]:
        """Fits to releases (R, G m); see `SeveralFits`.

        Of Laplace noise a leaf that looks filled because of one large draw differs between groups by as much. Draws
        from shares that take such leaves for filled miss this, so that leaves which noise hides are also tried empty.
        """
        found, every = self.common(values), np.arange(len(values))
        model = cast("NullModel", self)
        fits = [Candidate(model, every, (found.grown, found.shares))]
        if self.noise.variance > 0 and not self.noise.is_normal:
            rows = found.shares * found.sizes.sum(axis=1)[:, None]
            seen = (rows >= HIDING * np.sqrt(self.shape[0] * self.noise.variance)) | (
                found.shares == found.shares.max(axis=1, keepdims=True)
            )
            clear = np.where(seen, found.shares, 0.0)
            fits.append(Candidate(model, every, (found.grown, clear / clear.sum(axis=1, keepdims=True))))
        return fits

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
        """Return the number of rows (...), and shares by size (..., K + 1)."""
        counts, _ = self.folded(values)
        size = fitted_size(counts, self.nobs)
        shares = nearest_shares(counts, size)
        return size if self.nobs is not None else np.maximum(size, self._blur(values)), shares

    def _blur(self, values: Array) -> float:
        """Return the standard deviation of the noise in the number of rows."""
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
        return whole_rows(size + AWAY * self._blur(values)), np.concatenate(
            [half[..., ::-1], shares[..., :1], half], axis=-1
        )

    def draw(self, fitted: tuple[NDArray[np.int64], Array], size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        rows, shares = fitted
        return draw_groups((rows[:, None], shares), size, self.noise, rng)
