"""Chi-squared tests on noisy counts: goodness of fit, independence, homogeneity.

With X the counts, Z independent noise of variance v and m the counts expected under the hypothesis, ``X + Z - m`` has
covariance ``diag(m) - m m'/n + v I``. A public number of rows n says nothing about the hypothesis through the noisy
total: residuals r are projected on vectors that add up to zero, where the squared length that their covariance asks
for is, in closed form (Kifer & Rogers 2017),

    r' W r = sum r^2/D + v (sum r/D)^2 / sum(m/D),    D = m + v.

Where n is private, m is known but for its length, which is fitted in the same metric: the direction m falls out, and
with it the second term. What else the hypothesis leaves open, the margins, is fitted by one Gauss-Newton step from the
noisy margins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.numerics.forms import inverse_form

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dpinfer.release.laws import NoiseLaw

    Array = NDArray[np.float64]

__all__ = ["STATISTICS", "CountNoise", "GoodnessOfFit", "Homogeneity", "Independence", "chi2_margins"]

STATISTICS = ("projected", "pearson")

_LEAST = 1.0
"""Rows that a margin is taken to have at least."""

_ROUNDED_FROM = 8.0
_BLOCK = 16_000


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

    def _rows(self, values: Array) -> Array:
        """Return the number of rows (...): public, or fitted to the counts and at least 1."""
        total = _size(values, self.nobs)
        if self.nobs is not None or self.kind == "pearson":
            return total
        weights = self.probabilities / (total[..., None] * self.probabilities + self.noise.variance)
        return _at_least(_sum(values * weights) / (weights @ self.probabilities))

    def expected(self, values: Array) -> Array:
        """Return the counts expected under the hypothesis (..., d)."""
        return np.asarray(self._rows(values)[..., None] * self.probabilities)

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`."""
        p, variance = self.probabilities, self.noise.variance
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

    def draw(self, fitted: NDArray[np.int64], size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        shape = (len(fitted), size)
        counts = rng.multinomial(fitted[:, None], self.probabilities, size=shape)
        noise = self.noise.rvs((*shape, self.probabilities.size), rng)
        noise += counts
        return noise


def chi2_margins(values: Array, shape: tuple[int, int], nobs: int | None) -> tuple[Array, Array, Array]:
    """Return the number of rows (...), and shares of rows (..., r) and columns (..., c), no margin below one row."""
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
        """Return the counts expected under the hypothesis (..., r c), from the noisy margins."""
        size, rows, columns = chi2_margins(values, self.shape, self.nobs)
        expected = size[..., None, None] * rows[..., :, None] * columns[..., None, :]
        return np.asarray(expected.reshape(values.shape))

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`."""
        return _by_blocks(self._of_tables, values, self.shape)

    def _of_tables(self, table: Array) -> Array:
        """Statistics (N,) of tables (r, c, N)."""
        total = table.sum(axis=(0, 1))
        size = _at_least(total) if self.nobs is None else np.full(total.shape, float(self.nobs))
        missing = size - total
        rows, columns = (_at_least(table.sum(axis=1 - k) + missing / self.shape[k]) for k in (0, 1))
        rows, columns = rows / rows.sum(axis=0), columns / columns.sum(axis=0)
        expected = size * rows[:, None] * columns
        residual = table - expected
        if self.kind == "pearson":
            return np.asarray((residual**2 / expected).sum(axis=(0, 1)))
        return _shortest(residual, expected, rows, columns, self.noise.variance, known=self.nobs is not None)

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


def _at_least(counts: Array) -> Array:
    return np.asarray(np.maximum(counts, _LEAST))


def _by_blocks(function: Callable[[Array], Array], values: Array, shape: tuple[int, int]) -> Array:
    """Apply a function of tables (r, c, N) to (..., r c): cells first, so that sums run along memory in the cache."""
    flat = values.reshape(-1, values.shape[-1])
    found, size = np.empty(len(flat)), max(_BLOCK // flat.shape[1], 500)
    for start in range(0, len(flat), size):
        cells = np.ascontiguousarray(flat[start : start + size].T)
        found[start : start + size] = function(cells.reshape(*shape, -1))
    return found.reshape(values.shape[:-1])


def _shortest(residual: Array, expected: Array, rows: Array, columns: Array, variance: float, *, known: bool) -> Array:
    """Squared length of residuals (r, c, N), less what a change of the margins explains (N,).

    With a known number of rows the margins move along differences of each level from the last one.
    """
    r, c = residual.shape[:2]
    if known:
        residual = residual - residual.mean(axis=(0, 1))
    inverse = 1.0 / (expected + variance)
    weighted = residual * inverse
    matrix, slope, pull = np.empty((r + c, r + c, residual.shape[-1])), [], []
    matrix[:r, :r] = matrix[r:, r:] = 0.0
    for axis, other, place in ((1, columns[None], 0), (0, rows[:, None], r)):
        slope.append((weighted * other).sum(axis=axis))
        pull.append((inverse * other).sum(axis=axis))
        own = np.arange(place, place + len(slope[-1]))
        matrix[own, own] = (inverse * other**2).sum(axis=axis)
    matrix[r:, :r] = np.swapaxes(inverse * rows[:, None] * columns, 0, 1)
    length = (residual * weighted).sum(axis=(0, 1))
    if not known:
        slopes = np.concatenate(slope)[:-1]
        return np.asarray(np.maximum(length - inverse_form(matrix[:-1, :-1], slopes), 0.0))
    matrix[:r, r:] = np.swapaxes(matrix[r:, :r], 0, 1)
    through = variance / (expected * inverse).sum(axis=(0, 1))
    across = weighted.sum(axis=(0, 1))
    pulls = np.concatenate([part[:-1] - part[-1] for part in pull])
    slopes = np.concatenate([part[:-1] - part[-1] for part in slope]) + through * across * pulls
    matrix = np.concatenate([matrix[: r - 1] - matrix[r - 1], matrix[r:-1] - matrix[-1]])
    matrix = np.concatenate([matrix[:, : r - 1] - matrix[:, r - 1 : r], matrix[:, r:-1] - matrix[:, -1:]], axis=1)
    matrix += through * pulls[:, None] * pulls
    length += through * across**2
    return np.asarray(np.maximum(length - inverse_form(matrix, slopes), 0.0))


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
        return np.asarray(np.maximum(table.sum(axis=-1), _LEAST))

    def _common(self, table: Array, sizes: Array) -> Array:
        """Shares of the levels in all samples together (..., c)."""
        missing = (sizes - table.sum(axis=-1)).sum(axis=-1, keepdims=True)
        counts = np.maximum(table.sum(axis=-2) + missing / self.shape[1], _LEAST)
        return np.asarray(counts / counts.sum(axis=-1, keepdims=True))

    def expected(self, values: Array) -> Array:
        """Return the counts expected under the hypothesis (..., r c)."""
        table = values.reshape(*values.shape[:-1], *self.shape)
        sizes = self._sizes(table)
        return np.asarray((sizes[..., None] * self._common(table, sizes)[..., None, :]).reshape(values.shape))

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`."""
        return _by_blocks(self._of_tables, values, self.shape)

    def _of_tables(self, table: Array) -> Array:
        """Statistics (N,) of tables (r, c, N)."""
        totals = table.sum(axis=1)
        sizes = _at_least(totals) if self.sizes is None else np.repeat(self.sizes[:, None], table.shape[-1], axis=1)
        common = _at_least(table.sum(axis=0) + (sizes - totals).sum(axis=0) / self.shape[1])
        common /= common.sum(axis=0)
        expected = sizes[:, None] * common
        residual = table - expected
        if self.kind == "pearson":
            return np.asarray((residual**2 / expected).sum(axis=(0, 1)))
        return self._shortest(residual, expected, sizes)

    def _shortest(self, residual: Array, expected: Array, sizes: Array) -> Array:
        """Squared length of residuals (r, c, N), less what a change of the common shares explains (N,).

        Private sizes fall out of every sample as its direction of expected counts.
        """
        variance = self.noise.variance
        inverse = 1.0 / (expected + variance)
        pull = sizes[:, None] * inverse
        if self.sizes is None:
            through = -1.0 / (expected**2 * inverse).sum(axis=1)
            across, pulls = (residual * expected * inverse).sum(axis=1), expected * pull
        else:
            residual = residual - residual.mean(axis=1, keepdims=True)
            through = variance / (expected * inverse).sum(axis=1)
            across, pulls = (residual * inverse).sum(axis=1), pull
        weighted = residual * inverse
        length = ((residual * weighted).sum(axis=1) + through * across**2).sum(axis=0)
        pulls = pulls[:, :-1] - pulls[:, -1:]
        slope = (sizes[:, None] * (weighted[:, :-1] - weighted[:, -1:])).sum(axis=0)
        slope += ((through * across)[:, None] * pulls).sum(axis=0)
        own = (sizes[:, None] * pull).sum(axis=0)
        matrix = np.einsum("rn,rin,rjn->ijn", through, pulls, pulls) + own[-1]
        levels = np.arange(self.shape[1] - 1)
        matrix[levels, levels] += own[:-1]
        return np.asarray(np.maximum(length - inverse_form(matrix, slope), 0.0))

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
