"""Noise on counts: independent, or of cells that were made up from other measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpinfer.release.laws import NORMAL_DRAWS

if TYPE_CHECKING:
    from dpinfer.inference.marginals import NoiseSource
    from dpinfer.numerics.arrays import Array
    from dpinfer.release.laws import NoiseLaw

__all__ = ["Components", "CountNoise", "TableNoise"]

_ROUNDED_FROM, _SHORT = 8.0, 1e5
"""Scales from which a rounded Gaussian stands for a discrete one, and up to which 24 bits of it are enough."""


class Components(NamedTuple):
    """Variances of the noise of normalised contrasts of a table's cells; of one column ``common`` and ``both``.

    Attributes
    ----------
    common : float
        Of the constant: the sum of all cells over the root of their number.
    rows, columns : float
        Of contrasts of the margins of the first column, and of the second.
    both : float
        Of what no margin holds.
    """

    common: float
    rows: float
    columns: float
    both: float

    def after_product(self, a: Array, b: Array, *, size_known: bool, rows_known: bool) -> Array:
        """Variance of noisy counts less the product of their own margins, shares a (..., r, 1) and b (..., 1, c).

        With z the noise and D the derivative of the product it is that of ``z - D z``, which is ``((I - a 1') x
        (I - b 1')) z``; a known sum has no noise in margins, and known rows none in theirs.
        """
        r, c = a.shape[-2], b.shape[-1]
        of_rows, of_columns = (1 - r * a) ** 2 / r, (1 - c * b) ** 2 / c
        within = (1 - 1 / r) * (of_columns if not rows_known else 1 / c + 0 * of_columns)
        common = 1 / (r * c) if size_known else of_rows * of_columns
        return np.asarray(
            self.common * common
            + self.rows * within
            + self.columns * of_rows * (1 - 1 / c)
            + self.both * (1 - 1 / r) * (1 - 1 / c)
        )

    def after_size(self, p: Array, weights: Array) -> Array:
        """Variance of noisy counts (..., d) less p times their weighted sum."""
        d, more = p.shape[-1], self.common - self.both
        total = weights.sum(axis=-1, keepdims=True)
        own = self.both + more / d
        with_sum = self.both * weights + more * total / d
        of_sum = self.both * (weights**2).sum(axis=-1, keepdims=True) + more * total**2 / d
        return np.asarray(own - 2 * p * with_sum + p**2 * of_sum)


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
    def contrast(self) -> float:
        """Variance of the noise of a normalised contrast of all columns: what residuals are weighed by."""
        return self.variance

    @property
    def components(self) -> Components:
        """Variances of normalised contrasts: they are all the same."""
        return Components(*(self.variance,) * 4)

    def total(self, cells: int) -> float:
        """Variance of the noise of the sum of all counts."""
        return self.variance * cells

    def margin(self, levels: int, added: int, *, axis: int, known: bool) -> float:  # noqa: ARG002  (all alike)
        """Variance of a margin's noise on one of ``levels``, each of so many counts; less where their sum is known."""
        return self.variance * added * (1 - float(known) / levels)

    def quadratic(self, slopes: Array) -> Array:
        """Variance that the noise gives functions with slopes (..., count, function): (..., function)."""
        return np.asarray(self.variance * (slopes**2).sum(axis=-2))

    def times(self, rows: Array, *, known: bool) -> Array:
        """Multiply rows (..., d) by the covariance of the noise, less that of a known sum."""
        return np.asarray(self.variance * (rows - float(known) * rows.mean(axis=-1, keepdims=True)))

    @property
    def is_normal(self) -> bool:
        """Whether the noise is Gaussian."""
        return self.law.family == "gaussian"

    @property
    def fourth_cumulant(self) -> float:
        """Fourth cumulant of the noise of a count; few draws of Laplace noise are given that of Laplace noise."""
        if self.is_normal:
            return 0.0
        several = self.together * self.law.draws
        several = several if several >= NORMAL_DRAWS else 1
        return (3 * self.variance**2 + self.variance * self.step**2) / several

    def rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw noise for simulation, never for privacy, in rows."""
        scale = self.law.scales[0]
        if self.law.family == "laplace":
            several, success = self.together * self.law.draws, -np.expm1(-1.0 / scale)
            drawn = rng.negative_binomial(several, success, shape) - rng.negative_binomial(several, success, shape)
            return np.asarray(drawn * self.step)
        spread = scale * np.sqrt(self.together)
        if spread >= _ROUNDED_FROM:
            short = spread < _SHORT
            noise = rng.standard_normal(shape, dtype=np.float32 if short else np.float64)
            noise *= np.sqrt(spread**2 - 1 / 12)  # rounding adds 1/12 to the variance
            np.rint(noise, out=noise)
            return np.asarray(np.multiply(noise, self.step, dtype=np.float64))
        exact = self.law.rvs(int(np.prod(shape)) * self.together, rng)
        return np.asarray(exact.reshape(*shape, self.together).sum(axis=-1) * self.step)


@dataclass(frozen=True, eq=False)
class TableNoise:
    """Noise on the cells of a marginal that was made up from contrasts, or from several marginals.

    The levels of each column are exchangeable, so that the covariance is known by its `Components`.

    Attributes
    ----------
    shape : tuple of int
        One column or two.
    components : Components
    sources : tuple of NoiseSource
        Independent draws that the noise is made of.
    """

    shape: tuple[int, ...]
    components: Components
    sources: tuple[NoiseSource, ...]

    @property
    def variance(self) -> float:
        """Variance of the noise of a cell."""
        r, c = (*self.shape, 1)[:2]
        found = self.components
        of_rows = 0.0 if c == 1 else (r - 1) * found.rows
        return (found.common + of_rows + self._inner[0] * found.columns + self._inner[1] * found.both) / (r * c)

    @property
    def _inner(self) -> tuple[int, int]:
        """Number of contrasts of the second column, and of what no margin holds."""
        if len(self.shape) == 1:
            return 0, self.shape[0] - 1
        return self.shape[1] - 1, (self.shape[0] - 1) * (self.shape[1] - 1)

    @property
    def contrast(self) -> float:
        """Variance of the noise of a normalised contrast of all columns: what residuals are weighed by."""
        return self.components.both

    @property
    def covariance(self) -> Array:
        """Covariance of the noise of the cells (d, d)."""
        common = [np.full((m, m), 1 / m) for m in self.shape]
        apart = [np.eye(m) - one for m, one in zip(self.shape, common, strict=True)]
        found = self.components
        if len(self.shape) == 1:
            return np.asarray(found.common * common[0] + found.both * apart[0])
        return np.asarray(
            found.common * np.kron(*common)
            + found.rows * np.kron(apart[0], common[1])
            + found.columns * np.kron(common[0], apart[1])
            + found.both * np.kron(*apart)
        )

    def total(self, cells: int) -> float:
        """Variance of the noise of the sum of all counts."""
        return self.components.common * cells

    def margin(self, levels: int, added: int, *, axis: int, known: bool) -> float:
        """Variance of a margin's noise on one of ``levels``, each of so many counts; less where their sum is known."""
        own = self.components.rows if axis == 0 else self.components.columns
        return added * (own * (1 - 1 / levels) + (0.0 if known else self.components.common / levels))

    def quadratic(self, slopes: Array) -> Array:
        """Variance that the noise gives functions with slopes (..., count, function): (..., function)."""
        moved = np.swapaxes(np.swapaxes(slopes, -1, -2) @ self.covariance, -1, -2)
        return np.asarray((moved * slopes).sum(axis=-2))

    def times(self, rows: Array, *, known: bool) -> Array:  # noqa: ARG002  (a known sum has no noise here)
        """Multiply rows (..., d) by the covariance of the noise."""
        return np.asarray(rows @ self.covariance)

    @property
    def is_normal(self) -> bool:
        """Whether the noise is Gaussian."""
        return all(one.law.family == "gaussian" for one in self.sources)

    @property
    def fourth_cumulant(self) -> float:
        """Fourth cumulant of the noise of a count; few draws of Laplace noise are given that of Laplace noise."""
        if self.is_normal:
            return 0.0
        found = 0.0
        for one in self.sources:
            several = one.together * one.law.draws
            variance = several * one.law.variances / one.law.draws * one.steps**2
            each = (3 * variance**2 + variance * one.steps**2) / (several if several >= NORMAL_DRAWS else 1)
            found += float((one.basis[0] ** 4 * each).sum())
        return found

    def rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw noise for simulation, never for privacy, in rows."""
        size = int(np.prod(shape[:-1]))
        found = np.zeros((size, shape[-1]))
        for one in self.sources:
            found += (_drawn(one, size, rng) * one.steps) @ one.basis.T
        return found.reshape(shape)


def _drawn(source: NoiseSource, size: int, rng: np.random.Generator) -> Array:
    """Draw the variables of a source (size, k), each the sum of several."""
    if source.law.family == "gaussian":
        return source.law.rvs(size, rng)
    scales = np.asarray(source.law.scales)
    several, success = source.together * source.law.draws, -np.expm1(-1.0 / scales)
    drawn = (size, scales.size)
    first, second = (rng.negative_binomial(several, success, drawn) for _ in range(2))
    return (first - second).astype(np.float64)
