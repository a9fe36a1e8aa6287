"""A log-linear model of noisy counts against a larger one, or against none.

With m the counts fitted under the hypothesis, r the noisy counts less m and D = diag(m) + V, V the variances of the
noise, the score statistic is what the columns of the larger model explain of ``r'D^-1 r`` beyond those of the smaller
one, each column moving the means by ``diag(m) x``. Against no model at all it is the whole rest. The second fit is not
needed, so that it may be one that does not exist. The likelihood-ratio statistic is the deviance between two fits,
``2 sum m1 log(m1 / m) - m1 + m``, of fitted counts and never of noisy ones.

Fits are made with a ridge: half a standard deviation of the noise on the spread of the logarithms of means. They then
exist for every table, and are moved by less than noise moves them. The null draws counts and noise from the fit, and
fits anew. Where a fitted count is small, or hidden by noise, the statistic depends on how small it is: the null is also
drawn from a flatter fit, with a much larger ridge, and from a more peaked one, with next to none, and the largest of
the three p-values counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.inference.loglinear import first_guess, newton
from dpinfer.inference.testing.nulls import Candidate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpinfer.inference.cell_noise import CellNoise
    from dpinfer.numerics.arrays import Array, Mask

__all__ = ["NestedLogLinear", "nested", "ridge_fit"]

_LEAST = 0.5
"""Rows that a mean counts as at least, where columns move it."""

_RIDGES = (0.5, 4.0, 0.1)
"""Standard deviations of noise in the ridge: of the fit, and of those that are tried where counts are hidden."""

_LEAST_RIDGE = 0.1
"""What is added to that standard deviation."""

_SMALL, _CLEAR = 5.0, 2.0
"""Rows, and standard deviations of noise, that a fitted count has to reach; one that does not is hidden."""

_BLOCK = 200_000
_SPANNED = 1e-8


def ridge_fit(columns: Array, values: Array, noise: CellNoise, strength: float = _RIDGES[0]) -> Array:
    """Fitted counts (R, d) of the model with orthonormal columns (d, p), with the ridge of the tests."""
    spread = float(np.sqrt(noise.of_counts.mean()))
    centred = columns - columns.mean(axis=0)
    penalty = centred.T @ centred / len(columns)
    start = first_guess(columns, values, max(1.0, spread))
    ridge = strength * (spread + _LEAST_RIDGE)
    return newton(columns, values @ columns, start=start, ridge=ridge, penalty=penalty)[1]


@dataclass(frozen=True, eq=False)
class NestedLogLinear:
    """The hypothesis of a log-linear model, against a larger one or none; implements `NullModel` and `SeveralFits`.

    Attributes
    ----------
    smaller : ndarray (d, p)
        Orthonormal columns of the hypothesis.
    more : ndarray (d, q)
        Orthonormal columns that the larger model adds, orthogonal to these; d - p of them for no model.
    noise : CellNoise
    nobs : int or None
        The number of rows where it is public.
    """

    smaller: Array
    more: Array
    noise: CellNoise
    nobs: int | None = None

    @property
    def dof(self) -> int:
        """Degrees of freedom."""
        return int(self.more.shape[1])

    others = _RIDGES[1:]
    """Ridges of the fits that are tried where counts are hidden."""

    @cached_property
    def larger(self) -> Array:
        """Orthonormal columns of the larger model."""
        return np.hstack([self.smaller, self.more])

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`."""
        flat = values.reshape(-1, values.shape[-1])
        found, size = np.empty(len(flat)), max(_BLOCK // self.larger.size, 50)
        for start in range(0, len(flat), size):
            part = flat[start : start + size]
            found[start : start + size] = self._score(part)
        return np.asarray(found.reshape(values.shape[:-1]))

    def expected(self, values: Array) -> Array:
        """Return the counts (R, d) expected under the hypothesis."""
        return ridge_fit(self.smaller, values, self.noise)

    def _score(self, values: Array) -> Array:
        means = np.maximum(self.expected(values), _LEAST)
        inverse = 1.0 / (means + self.noise.of_counts)
        weighted = (values - means) * inverse
        if self.dof + self.smaller.shape[1] == len(self.smaller):
            whole = np.einsum("rd,rd->r", weighted, values - means)
        else:
            whole = self._explained(self.larger, means, inverse, weighted)
        return np.asarray(np.maximum(whole - self._explained(self.smaller, means, inverse, weighted), 0.0))

    @staticmethod
    def _explained(columns: Array, means: Array, inverse: Array, weighted: Array) -> Array:
        """Squared length of weighted residuals in the span of ``diag(m) X``."""
        p = columns.shape[1]
        squares = (columns[:, :, None] * columns[:, None, :]).reshape(len(columns), -1)
        curve = ((means**2 * inverse) @ squares).reshape(-1, p, p)
        slope = (weighted * means) @ columns
        return np.asarray(np.einsum("rp,rp->r", slope, np.linalg.solve(curve, slope[..., None])[..., 0]))

    def hidden(self, values: Array) -> Mask:
        """Whether a fitted count of tables (R, d) is small, or hidden by noise (R,)."""
        least = np.maximum(_SMALL, _CLEAR * np.sqrt(self.noise.of_counts))
        return np.asarray((self.expected(values) < least).any(axis=1))

    def fit(self, values: Array, strength: float = _RIDGES[0]) -> tuple[NDArray[np.int64], Array]:
        """Numbers of rows (R,), and probabilities of the cells (R, d)."""
        means = ridge_fit(self.smaller, values, self.noise, strength)
        totals = means.sum(axis=1)
        rows = np.rint(totals) if self.nobs is None else np.full(len(means), float(self.nobs))
        return np.maximum(rows, 1.0).astype(np.int64), means / totals[:, None]

    def candidates(self, values: Array) -> list[Candidate]:
        """See `SeveralFits.candidates`."""
        hidden = np.flatnonzero(self.hidden(values))
        places = (np.arange(len(values)), *([hidden] * (len(_RIDGES) - 1) if hidden.size else []))
        tried = zip(_RIDGES, places, strict=False)
        return [Candidate(self, where, self.fit(values[where], strength)) for strength, where in tried]

    def draw(self, fitted: tuple[NDArray[np.int64], Array], size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        rows, cells = fitted
        counts = rng.multinomial(rows[:, None], cells[:, None], size=(len(rows), size))
        return np.asarray(counts + self.noise.rvs(counts.shape[:-1], rng))


def nested(smaller: Array, larger: Array | None, noise: CellNoise, nobs: float | None) -> NestedLogLinear | None:
    """Return the test of a design (d, p) against one that spans it, or against none; None where it does not span it."""
    columns = np.linalg.qr(smaller)[0]
    other = np.eye(len(columns)) if larger is None else np.linalg.qr(larger)[0]
    rest = other - columns @ (columns.T @ other)
    if np.abs(columns - other @ (other.T @ columns)).max() > _SPANNED:
        return None
    vectors, sizes, _ = np.linalg.svd(rest, full_matrices=False)
    return NestedLogLinear(columns, vectors[:, sizes > _SPANNED], noise, None if nobs is None else int(nobs))
