"""Hypotheses on noisy counts of leaves, fitted: shares that groups have in common, numbers of rows, draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dpinfer.inference.testing.count_noise import LEAST
from dpinfer.inference.testing.nulls import Candidate
from dpinfer.inference.testing.scores import nearest_shares, shrinkage, whole_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.inference.testing.count_noise import CountNoise
    from dpinfer.inference.testing.groups import Alternative
    from dpinfer.inference.testing.nulls import NullModel
    from dpinfer.numerics.arrays import Array, Mask

__all__ = ["AWAY", "HIDING", "CommonShares", "Judged", "common_shares", "draw_groups", "fitted_size", "sided"]

_ROUNDS = 2

AWAY = 2.0
"""Standard deviations of their noise by which sizes are raised in the simulated null."""

HIDING = 2.0
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
        Weighted counts as they are, and freed of the bias that their weights come from the same noise: by Stein's
        identity.
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
        return np.asarray((self.sizes < HIDING * self.error[:, None]).any(axis=1))

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
    """Return what noise adds to the variance of the contrasts between groups of sizes (R, G), in shares: (R,)."""
    groups = sizes.shape[1]
    parts = (1 / sizes).sum(axis=1) - groups / sizes.sum(axis=1)
    return np.asarray(variance * np.maximum(parts, 0.0) / (groups - 1))


def fitted_size(counts: Array, nobs: int | None) -> Array:
    """Return the number of rows (...) of counts (..., m): public, or noisy and at least one."""
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
