"""Chi-squared tests on noisy counts: goodness of fit, independence, homogeneity.

With X the counts, Z independent noise of variance v and m the counts expected under the hypothesis, the residuals
``r = X + Z - m`` have covariance ``diag(m) - m m'/n + v I``. Their projection on vectors that add up to zero is free of
the number of rows, and

    r' W r = sum r^2/D + v (sum r/D)^2 / sum(m/D),    D = m + v

is the squared length that its covariance asks for (Kifer & Rogers 2017, in closed form). What the hypothesis leaves
open, the margins, is fitted by one Gauss-Newton step in the same metric from the noisy margins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.release.laws import NoiseLaw

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["STATISTICS", "CountNoise", "GoodnessOfFit", "Homogeneity", "Independence", "chi2_margins"]

STATISTICS = ("projected", "pearson")

_LEAST = 1.0
"""Rows that a margin is taken to have at least."""

_ROUNDED_FROM = 8.0


@dataclass(frozen=True, slots=True)
class CountNoise:
    """Independent noise of one law on every count.

    Attributes
    ----------
    law : NoiseLaw
        Of one released count (m = 1).
    step : float
        Size of an integer step, in rows.
    together : int
        Released counts that are added up to one count.
    """

    law: NoiseLaw
    step: float = 1.0
    together: int = 1

    @property
    def variance(self) -> float:
        """Variance of the noise of a count, in squared rows."""
        return float(self.together * self.law.variances[0]) * self.step**2

    @property
    def is_normal(self) -> bool:
        """Whether the noise is Gaussian."""
        return self.law.family == "gaussian"

    def rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw noise for simulation, never for privacy, in rows."""
        scale = self.law.scales[0]
        if self.law.family == "laplace":
            several, success = self.together * self.law.draws, -np.expm1(-1.0 / scale)
            drawn = rng.negative_binomial(several, success, shape) - rng.negative_binomial(several, success, shape)
            return np.asarray(drawn * self.step)
        spread = scale * np.sqrt(self.together)
        if spread >= _ROUNDED_FROM:  # rounding adds 1/12 to the variance
            noise = rng.standard_normal(shape)
            noise *= np.sqrt(spread**2 - 1 / 12)
            np.rint(noise, out=noise)
            if self.step != 1:
                noise *= self.step
            return noise
        exact = self.law.rvs(int(np.prod(shape)) * self.together, rng)
        return np.asarray(exact.reshape(*shape, self.together).sum(axis=-1) * self.step)


def _size(values: Array, nobs: int | None) -> Array:
    """Public number of rows, or the noisy one, at least 1; (...)."""
    if nobs is not None:
        return np.broadcast_to(float(nobs), values.shape[:-1])
    return np.maximum(_sum(values), _LEAST)


def _sum(values: Array) -> Array:
    """Sum along the last axis, which is short: a product with ones is faster."""
    return np.asarray(values @ np.ones(values.shape[-1]))


def _whole(size: Array) -> NDArray[np.int64]:
    return np.maximum(np.rint(size), 1.0).astype(np.int64)


def _length(residual: Array, expected: Array, variance: float) -> Array:
    """Squared length of residuals that add up to zero along the last axis."""
    inverse = 1.0 / (expected + variance)
    weighted = residual * inverse
    through = variance / _sum(expected * inverse)
    return np.asarray(np.einsum("...i,...i->...", residual, weighted) + through * _sum(weighted) ** 2)


@dataclass(frozen=True, eq=False)
class GoodnessOfFit:
    """Counts of d levels against given probabilities; implements `NullModel`.

    Attributes
    ----------
    probabilities : ndarray (d,)
        Positive, of sum 1.
    noise : CountNoise
    nobs : int or None
        The number of rows where it is public.
    kind : {"projected", "pearson"}
    """

    probabilities: Array
    noise: CountNoise
    nobs: int | None = None
    kind: str = "projected"

    @property
    def dof(self) -> int:
        """Degrees of freedom."""
        return self.probabilities.size - 1

    def expected(self, values: Array) -> Array:
        """Counts expected under the hypothesis (..., d)."""
        return np.asarray(_size(values, self.nobs)[..., None] * self.probabilities)

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`."""
        expected = self.expected(values) if self.nobs is None else self.nobs * self.probabilities
        residual = values - expected
        if self.kind == "pearson":
            return _sum(residual**2 / expected)
        residual -= (_sum(residual) / self.probabilities.size)[..., None]
        return _length(residual, expected, self.noise.variance)

    def fit(self, values: Array) -> NDArray[np.int64]:
        """Numbers of rows (R,)."""
        return _whole(_size(values, self.nobs))

    def draw(self, fitted: NDArray[np.int64], size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        shape = (len(fitted), size)
        counts = rng.multinomial(fitted[:, None], self.probabilities, size=shape)
        noise = self.noise.rvs((*shape, self.probabilities.size), rng)
        noise += counts
        return noise


def chi2_margins(values: Array, shape: tuple[int, int], nobs: int | None) -> tuple[Array, Array, Array]:
    """Number of rows (...), and shares of rows (..., r) and columns (..., c) from noisy margins, none below one row."""
    size = _size(values, nobs)
    table = values.reshape(*values.shape[:-1], *shape)
    missing = (size - values.sum(axis=-1))[..., None]
    shares = []
    for axis, levels in ((-1, shape[0]), (-2, shape[1])):
        counts = np.maximum(table.sum(axis=axis) + missing / levels, _LEAST)
        shares.append(counts / counts.sum(axis=-1, keepdims=True))
    return size, shares[0], shares[1]


@dataclass(frozen=True, eq=False)
class Independence:
    """Counts of an r by c table against the product of its margins; implements `NullModel`.

    Attributes
    ----------
    shape : (int, int)
    noise : CountNoise
    nobs : int or None
        The number of rows where it is public.
    kind : {"projected", "pearson"}
    """

    shape: tuple[int, int]
    noise: CountNoise
    nobs: int | None = None
    kind: str = "projected"

    @property
    def dof(self) -> int:
        """Degrees of freedom."""
        return (self.shape[0] - 1) * (self.shape[1] - 1)

    def expected(self, values: Array) -> Array:
        """Counts expected under the hypothesis (..., r c), from the noisy margins."""
        size, rows, columns = chi2_margins(values, self.shape, self.nobs)
        expected = size[..., None, None] * rows[..., :, None] * columns[..., None, :]
        return expected.reshape(values.shape)

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`."""
        size, rows, columns = chi2_margins(values, self.shape, self.nobs)
        expected = size[..., None, None] * rows[..., :, None] * columns[..., None, :]
        residual = values.reshape(expected.shape) - expected
        if self.kind == "pearson":
            return np.asarray((residual**2 / expected).sum(axis=(-2, -1)))
        residual -= residual.mean(axis=(-2, -1), keepdims=True)
        return _shortest(residual, expected, rows, columns, self.noise.variance)

    def fit(self, values: Array) -> tuple[NDArray[np.int64], Array]:
        """Numbers of rows (R,), and probabilities of the cells (R, r c)."""
        size, rows, columns = chi2_margins(values, self.shape, self.nobs)
        cells = rows[..., :, None] * columns[..., None, :]
        return _whole(size), cells.reshape(values.shape)

    def draw(self, fitted: tuple[NDArray[np.int64], Array], size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        rows, cells = fitted
        counts = rng.multinomial(rows[:, None], cells[:, None], size=(len(rows), size))
        return np.asarray(counts + self.noise.rvs(counts.shape, rng))


def _contrasts(*levels: int) -> Array:
    """Differences of each level from the last one, for several factors side by side."""
    blocks = [np.vstack([np.eye(count - 1), -np.ones(count - 1)]) for count in levels]
    found = np.zeros((sum(levels), sum(levels) - len(levels)))
    row = column = 0
    for block in blocks:
        found[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return found


def _shortest(residual: Array, expected: Array, rows: Array, columns: Array, variance: float) -> Array:
    """Squared length of residuals (..., r, c), less what a change of the margins explains."""
    inverse = 1.0 / (expected + variance)
    weighted = residual * inverse
    through = variance / (expected * inverse).sum(axis=(-2, -1))
    by_row, by_column = columns[..., None, :], rows[..., :, None]
    slope = np.concatenate([(weighted * by_row).sum(axis=-1), (weighted * by_column).sum(axis=-2)], axis=-1)
    pull = np.concatenate([(inverse * by_row).sum(axis=-1), (inverse * by_column).sum(axis=-2)], axis=-1)
    across = weighted.sum(axis=(-2, -1))
    r, c = residual.shape[-2:]
    matrix = np.zeros((*residual.shape[:-2], r + c, r + c))
    diagonal = np.concatenate([(inverse * by_row**2).sum(axis=-1), (inverse * by_column**2).sum(axis=-2)], axis=-1)
    matrix[..., np.arange(r + c), np.arange(r + c)] = diagonal
    matrix[..., :r, r:] = inverse * by_row * by_column
    matrix[..., r:, :r] = np.swapaxes(matrix[..., :r, r:], -1, -2)
    contrasts = _contrasts(r, c)
    pull, slope = pull @ contrasts, slope @ contrasts
    matrix = contrasts.T @ matrix @ contrasts
    matrix += through[..., None, None] * pull[..., :, None] * pull[..., None, :]
    slope += (through * across)[..., None] * pull
    explained = (slope * np.linalg.solve(matrix, slope[..., None])[..., 0]).sum(axis=-1)
    length = (residual * weighted).sum(axis=(-2, -1)) + through * across**2
    return np.maximum(length - explained, 0.0)


@dataclass(frozen=True, eq=False)
class Homogeneity:
    """Counts in r samples of sizes fixed by design, against one distribution of c levels; implements `NullModel`.

    Attributes
    ----------
    shape : (int, int)
        Samples by levels.
    noise : CountNoise
    sizes : ndarray (r,) or None
        The sizes of the samples where they are public.
    kind : {"projected", "pearson"}
    """

    shape: tuple[int, int]
    noise: CountNoise
    sizes: Array | None = None
    kind: str = "projected"

    @property
    def dof(self) -> int:
        """Degrees of freedom."""
        return (self.shape[0] - 1) * (self.shape[1] - 1)

    def _sizes(self, table: Array) -> Array:
        if self.sizes is not None:
            return np.broadcast_to(self.sizes, table.shape[:-1])
        return np.maximum(table.sum(axis=-1), _LEAST)

    def _common(self, table: Array, sizes: Array) -> Array:
        """Shares of the levels in all samples together (..., c)."""
        missing = (sizes - table.sum(axis=-1)).sum(axis=-1, keepdims=True)
        counts = np.maximum(table.sum(axis=-2) + missing / self.shape[1], _LEAST)
        return np.asarray(counts / counts.sum(axis=-1, keepdims=True))

    def expected(self, values: Array) -> Array:
        """Counts expected under the hypothesis (..., r c)."""
        table = values.reshape(*values.shape[:-1], *self.shape)
        sizes = self._sizes(table)
        return np.asarray((sizes[..., None] * self._common(table, sizes)[..., None, :]).reshape(values.shape))

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`."""
        table = values.reshape(*values.shape[:-1], *self.shape)
        sizes = self._sizes(table)
        expected = sizes[..., None] * self._common(table, sizes)[..., None, :]
        residual = table - expected
        if self.kind == "pearson":
            return np.asarray((residual**2 / expected).sum(axis=(-2, -1)))
        residual -= residual.mean(axis=-1, keepdims=True)
        variance = self.noise.variance
        inverse = 1.0 / (expected + variance)
        weighted = residual * inverse
        through = variance / (expected * inverse).sum(axis=-1)
        contrasts, scaled = _contrasts(self.shape[1]), sizes[..., None]
        pull = (scaled * inverse) @ contrasts
        slope = (scaled * weighted).sum(axis=-2) @ contrasts
        slope += ((through * weighted.sum(axis=-1))[..., None] * pull).sum(axis=-2)
        diagonal = (scaled**2 * inverse).sum(axis=-2)
        matrix = contrasts.T @ (diagonal[..., :, None] * contrasts)
        matrix += np.swapaxes(through[..., None] * pull, -1, -2) @ pull
        explained = (slope * np.linalg.solve(matrix, slope[..., None])[..., 0]).sum(axis=-1)
        length = _length(residual, expected, variance).sum(axis=-1)
        return np.maximum(length - explained, 0.0)

    def fit(self, values: Array) -> tuple[NDArray[np.int64], Array]:
        """Sizes (R, r), and shares of the levels (R, c)."""
        table = values.reshape(*values.shape[:-1], *self.shape)
        sizes = self._sizes(table)
        return _whole(sizes), self._common(table, sizes)

    def draw(self, fitted: tuple[NDArray[np.int64], Array], size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        sizes, shares = fitted
        shape = (len(sizes), size, self.shape[0])
        counts = rng.multinomial(sizes[:, None, :], shares[:, None, None], size=shape)
        flat = counts.reshape(len(sizes), size, -1)
        return np.asarray(flat + self.noise.rvs(flat.shape, rng))
