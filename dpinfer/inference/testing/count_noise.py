"""Independent noise on the counts of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpinfer.errors import ReleaseFormatError
from dpinfer.release.laws import NORMAL_DRAWS, NoiseLaw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.statistics.arrays import Array

__all__ = ["LEAST", "Components", "CountNoise", "count_noise"]

LEAST = 1.0
"""Rows that a margin, or a sample, is taken to have at least."""

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
        Of what no margin holds: residuals are weighed by it.
    """

    common: float
    rows: float
    columns: float
    both: float

    def margin(self, levels: int, added: int, *, axis: int, known: bool) -> float:
        """Variance of a margin's noise on one of ``levels``, each of so many counts; less where their sum is known."""
        own = self.rows if axis == 0 else self.columns
        return added * (own * (1 - 1 / levels) + (0.0 if known else self.common / levels))

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
    def components(self) -> Components:
        """Variances of normalised contrasts: they are all the same."""
        return Components(*(self.variance,) * 4)

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


def count_noise(law: NoiseLaw, steps: Sequence[float], together: int) -> CountNoise:
    """Noise of counts, each the sum of ``together`` released ones.

    Raises
    ------
    ReleaseFormatError
    """
    scale = law.scales[0]
    if scale <= 0 or len(set(law.scales)) > 1:
        raise ReleaseFormatError("the release is damaged: counts of a table carry noise of one scale")
    if law.family not in ("gaussian", "laplace") or len(set(steps)) > 1:
        raise ReleaseFormatError(
            "the release is damaged: counts of a table carry noise of one law, in steps of one size"
        )
    return CountNoise(NoiseLaw(law.family, (scale,), law.draws), steps[0], together)
