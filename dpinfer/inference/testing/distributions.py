"""Kolmogorov & Smirnov's tests on noisy counts of leaves: of two groups, and of one column against given shares.

Differences of counts are added up from the lowest leaf. The noise of empty leaves would add up, too, so leaves are
weighted by `shrinkage`, and so are those behind the numbers of rows, which brings the sums back to zero in the end:

    T_k = sum_{j <= k} h_j d_j,    d_j = N_2 X_1j - N_1 X_2j,    N_g = sum_j h_j X_gj.

The statistic is the largest T_k over the root of ``sum h^2 Var(d)``. Without noise it is the distance of the
distribution functions times the root of n, or of ``n1 n2 / (n1 + n2)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.testing.count_noise import LEAST
from dpinfer.inference.testing.leaf_fits import AWAY, Judged, common_shares, draw_groups, fitted_size
from dpinfer.inference.testing.scores import by_rows, shrinkage, whole_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.inference.testing.count_noise import CountNoise
    from dpinfer.inference.testing.groups import Alternative
    from dpinfer.inference.testing.leaf_fits import CommonShares
    from dpinfer.numerics.arrays import Array, Mask

__all__ = ["GivenDistribution", "TwoDistributions"]

_ELSEWHERE = 0.1
"""Share of the rows that a weighted leaf is taken to hold, over all, beyond the given distribution."""

_TINY = 1e-300


def _farthest(path: Array, alternative: Alternative) -> tuple[Array, NDArray[np.intp]]:
    """Return the largest value of paths (N, m) towards an alternative, and where it is."""
    towards = np.abs(path) if alternative == "two-sided" else path if alternative == "greater" else -path
    place = towards.argmax(axis=1)
    return np.take_along_axis(towards, place[:, None], axis=1)[:, 0], place


@dataclass(frozen=True, eq=False)
class TwoDistributions(Judged):
    """Two groups with one distribution, by the distance of their distribution functions; implements `NullModel`.

    Attributes
    ----------
    leaves : int
    noise : CountNoise
    alternative : {"two-sided", "less", "greater"}
        "greater": the distribution function of the first group is above that of the second somewhere.
    """

    leaves: int
    noise: CountNoise
    alternative: Alternative = "two-sided"
    judged: bool = True

    def hidden(self, values: Array) -> Mask:
        """Whether noise hides the rows of a group in releases (R, 2 m): (R,)."""
        return self.common(values).hidden

    def common(self, values: Array) -> CommonShares:
        """Sizes and common shares of releases (R, 2 m)."""
        return common_shares(values.reshape(-1, 2, self.leaves), self.noise.variance)

    def path(self, values: Array) -> Array:
        """Weighted difference of both groups up to each leaf (R, m), standardised."""
        found, variance = self.common(values), self.noise.variance
        rows = found.plain @ np.ones(self.leaves)
        (n1, n2), (r1, r2) = found.sizes.T[:, :, None], rows.T[:, :, None]
        spread = (n1 * r2**2 + n2 * r1**2) * found.shares + variance * (r1**2 + r2**2)
        scale = np.maximum(np.einsum("nk,nk->n", found.weights**2, spread), _TINY)
        path = np.cumsum(r2 * found.plain[:, 0] - r1 * found.plain[:, 1], axis=1)
        return np.asarray(path / np.sqrt(scale)[:, None])

    def where(self, values: Array) -> NDArray[np.intp]:
        """Leaf of the largest difference (R,)."""
        return _farthest(self.path(values), self.alternative)[1]

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`."""
        return by_rows(
            lambda some: _farthest(self.path(some), self.alternative)[0] + self._untested(some),
            values,
        )

    def fit(self, values: Array) -> tuple[NDArray[np.int64], Array]:
        """Whole sizes (R, 2) and common shares (R, m)."""
        found = self.common(values)
        return found.grown, found.shares

    def draw(self, fitted: tuple[NDArray[np.int64], Array], size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        return draw_groups(fitted, size, self.noise, rng)


@dataclass(frozen=True, eq=False)
class GivenDistribution:
    """One column with given shares of leaves, by the distance of distribution functions; implements `NullModel`.

    Attributes
    ----------
    shares : ndarray (m,)
        Not negative, of sum 1.
    noise : CountNoise
    nobs : int or None
        The number of rows where it is public.
    alternative : {"two-sided", "less", "greater"}
        "greater": the distribution function of the column is above the given one somewhere.
    """

    shares: Array
    noise: CountNoise
    nobs: int | None = None
    alternative: Alternative = "two-sided"

    def path(self, values: Array) -> Array:
        """Weighted difference of the column from the given shares up to each leaf (R, m), standardised."""
        size, _, weights = self._sizes(values)
        seen = np.maximum(weights @ self.shares, _TINY)
        rows = np.einsum("nk,nk->n", values, weights) / seen
        scale = np.einsum("nk,nk->n", weights**2, size[:, None] * self.shares + self.noise.variance)
        path = np.cumsum(weights * (values - rows[:, None] * self.shares), axis=1)
        return np.asarray(path / np.sqrt(np.maximum(scale, _TINY))[:, None])

    def _sizes(self, values: Array) -> tuple[Array, Array, Array]:
        """Numbers of rows (R,), the noise in them (R,), and the weights of the leaves (R, m), public but for these."""
        variance, leaves = self.noise.variance, len(self.shares)
        size = fitted_size(values, self.nobs)
        if self.nobs is None:
            size = np.maximum(size, np.sqrt(variance * leaves))
        weights = shrinkage((1 - _ELSEWHERE) * self.shares + _ELSEWHERE / leaves, variance / size)
        if self.nobs is not None:
            return size, np.zeros(len(values)), weights
        seen = np.maximum(weights @ self.shares, _TINY)
        error = np.sqrt(variance * (weights**2).sum(axis=1)) / seen
        return np.maximum(np.einsum("nk,nk->n", values, weights) / seen, np.maximum(error, LEAST)), error, weights

    def where(self, values: Array) -> NDArray[np.intp]:
        """Leaf of the largest difference (R,)."""
        return _farthest(self.path(values), self.alternative)[1]

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`."""
        return by_rows(lambda some: _farthest(self.path(some), self.alternative)[0], values)

    def fit(self, values: Array) -> NDArray[np.int64]:
        """Whole numbers of rows (R,)."""
        size, error, _ = self._sizes(values)
        return whole_rows(size + AWAY * error)

    def draw(self, fitted: NDArray[np.int64], size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        shares = np.broadcast_to(self.shares, (len(fitted), len(self.shares)))
        return draw_groups((fitted[:, None], shares), size, self.noise, rng)
