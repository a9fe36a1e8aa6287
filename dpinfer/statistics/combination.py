"""Quantities known up to noise whose law is known, and several measurements of them combined.

An estimate is what it estimates plus a mixture of independent noise variables, so that intervals and tests need no
approximation. p is the number of parameters, G that of unknown counts, M that of measurements and noise variables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg, sparse, stats

from dpinfer.errors import InferenceError
from dpinfer.release.laws import NoiseLaw
from dpinfer.statistics.inference import Contrasts, Inference, Oracle, contrast_rows, simulated_pvalue
from dpinfer.statistics.noise import NoiseSums, variables_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpinfer.statistics.arrays import Array, Places


SUSPICIOUS = 1e-3
"""P-value of the consistency test below which results carry a warning."""

_RANK = 1e-10
"""A column whose squared distance from the span of others is below this share of the longest depends on them."""

_NORMAL_FROM = 30
"""Averages of so many Laplace draws count as normal: their excess kurtosis is at most 0.1."""

_REPLICATES, _FEWER, _LARGE = 9_999, 1_999, 10**6

_FINE = 2.0**20
"""Steps in a standard deviation of what counts as normal."""


@dataclass(frozen=True, eq=False)
class CombinedNoise:
    """Independent noise of several releases, one after the other.

    Attributes
    ----------
    parts : tuple of (NoiseLaw, ndarray)
        The law of every release, and the size of a step of each of its coordinates.
    """

    parts: tuple[tuple[NoiseLaw, Array], ...]

    @cached_property
    def variances(self) -> Array:
        """Variance of every coordinate (M,)."""
        return np.concatenate([law.variances * steps**2 for law, steps in self.parts])

    @cached_property
    def draws(self) -> Places:
        """Number of Laplace draws behind every coordinate (M,); 0 where it counts as normal."""
        draws = [0 if law.family == "gaussian" or law.draws >= _NORMAL_FROM else law.draws for law, _ in self.parts]
        return np.repeat(draws, [len(steps) for _, steps in self.parts])

    @property
    def normal(self) -> bool:
        """Whether every coordinate counts as normal."""
        return not self.draws.any()

    def rvs(self, size: int, rng: np.random.Generator) -> Array:
        """Draw for simulation (size, M)."""
        return np.concatenate([law.rvs(size, rng) * steps for law, steps in self.parts], axis=1)


def added_noise(law: NoiseLaw, steps: Array, together: int) -> tuple[NoiseLaw, Array]:
    """Return the law and steps, a part of `CombinedNoise`, of sums of ``together`` draws of each coordinate.

    Sums of many Laplace draws are normal ones of the same variance.
    """
    if together == 1:
        return law, steps
    if law.family == "laplace" and together * law.draws < _NORMAL_FROM:
        return NoiseLaw("laplace", law.scales, together * law.draws), steps
    spread = np.sqrt(together * law.variances) * steps
    return NoiseLaw("gaussian", (_FINE,) * len(spread)), spread / _FINE


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Unknown counts x, from y = A x + noise.

    Attributes
    ----------
    estimate : ndarray (G,)
        A solution; where ``full`` is false, only what A determines has a meaning.
    mixing : ndarray (G, M)
        How each noise variable moves it.
    basis : ndarray (M, r)
        Orthonormal: the space of expectations of measurements over their standard deviations.
    full : bool
        Whether every unknown is determined.
    free : int
        Degrees of freedom of the estimate: the rank of A, without what is known.
    """

    estimate: Array
    mixing: Array
    basis: Any
    full: bool
    free: int


def least_squares(values: Array, design: Array, variances: Array, *, total: float | None = None) -> LeastSquares:
    """Estimate by generalised least squares.

    Parameters
    ----------
    values : ndarray (M,)
        Measurements.
    design : ndarray (M, G)
        A, without rows of zeros.
    variances : ndarray (M,)
        Noise variances.
    total : float, optional
        The sum of all unknowns where it is public.

    Returns
    -------
    LeastSquares

    Notes
    -----
    A known total leaves x = total/G + N z, the columns of N an orthonormal basis of the vectors that sum to zero (of
    a Householder reflection). The rank is that of A with rows normalised, so that it does not depend on prices;
    where A lacks full rank, unknowns that depend on others are set to zero, which leaves A x the same.
    """
    cells = design.shape[1]
    start = np.zeros(cells) if total is None else np.full(cells, total / cells)
    reduced = design if total is None else _reflected(design)
    lengths = np.sqrt(np.einsum("mg,mg->m", reduced, reduced))
    rows = reduced / np.where(lengths > 0, lengths, 1.0)[:, None]
    kept = _independent(rows)
    basis, triangle = np.linalg.qr(reduced[:, kept] / np.sqrt(variances)[:, None])
    mixing = np.zeros((cells, len(values)))
    mixing[kept + (total is not None)] = linalg.solve_triangular(triangle, basis.T) / np.sqrt(variances)
    mixing = mixing if total is None else _reflected(mixing.T, back=True).T
    estimate = start + mixing @ (values - design @ start)
    return LeastSquares(estimate, mixing, basis, kept.size == reduced.shape[1], kept.size)


def _independent(rows: Array) -> Places:
    """Places of a largest set of independent columns, by Cholesky's decomposition with pivots."""
    gram = rows.T @ rows
    _, pivots, rank, _ = linalg.lapack.dpstrf(gram, tol=_RANK * float(gram.diagonal().max()))
    return np.sort(pivots[:rank].astype(np.intp) - 1)


def _reflected(rows: Array, *, back: bool = False) -> Array:
    """Multiply rows (m, G) by the reflection that swaps the first axis and the vector of ones; drop the first."""
    size = rows.shape[1]
    swap = np.full(size, size**-0.5)
    swap[0] -= 1.0
    norm = float(swap @ swap)
    turned = rows - np.outer(rows @ swap, swap) * (2 / norm if norm > 0 else 0.0)
    return turned if back else turned[:, 1:]


def weighted_means(values: Array, variances: Array) -> tuple[Array, Array, Any]:
    """Average R measurements of each of J quantities, weighted by inverse variances.

    Parameters
    ----------
    values, variances : ndarray (R, J)

    Returns
    -------
    estimate, variance : ndarray (J,)
    basis : sparse array (R J, J)
        As in `LeastSquares`.
    """
    precision = 1 / variances
    total = precision.sum(axis=0)
    count, width = values.shape
    place = np.arange(count * width)
    basis = sparse.csr_array((np.sqrt(precision / total).ravel(), (place, place % width)), shape=(place.size, width))
    return (values * precision).sum(axis=0) / total, 1 / total, basis


@dataclass(frozen=True, slots=True)
class ConsistencyTest:
    """Whether several releases may describe the same data.

    Attributes
    ----------
    statistic : float
        Sum of squared standardised residuals.
    df : int
        Measurements beyond those that the estimates need; 0 where there is nothing to test.
    pvalue : float
        1 where there is nothing to test.
    method : {"chi-squared", "simulated"}
    """

    statistic: float
    df: int
    pvalue: float
    method: str


@dataclass(frozen=True, eq=False)
class Consistency:
    """Measurements, what they should have been, and the law of the difference.

    Attributes
    ----------
    measured, fitted : ndarray (M,)
    basis : ndarray or sparse array (M, r)
        As in `LeastSquares`.
    noise : CombinedNoise
    seed : int
        Public seed of the simulation where noise is not normal.
    """

    measured: Array
    fitted: Array
    basis: Any
    noise: CombinedNoise
    seed: int = 0

    @property
    def residuals(self) -> Array:
        """Standardised residuals (M,); 0 where a measurement stands alone."""
        leverage = np.asarray((self.basis**2).sum(axis=1)).ravel()
        left = np.maximum(1 - leverage, 0.0)
        error = np.sqrt(self.noise.variances * np.where(left > 1e-9, left, 1.0))
        return np.where(left > 1e-9, (self.measured - self.fitted) / error, 0.0)

    @cached_property
    def test(self) -> ConsistencyTest:
        """The test that all residuals are noise."""
        df = len(self.measured) - self.basis.shape[1]
        if df == 0:
            return ConsistencyTest(0.0, 0, 1.0, "chi-squared")
        statistic = float(((self.measured - self.fitted) ** 2 / self.noise.variances).sum())
        if self.noise.normal:
            return ConsistencyTest(statistic, df, float(stats.chi2.sf(statistic, df)), "chi-squared")
        drawn = self._simulated()
        return ConsistencyTest(statistic, df, float((1 + (drawn >= statistic).sum()) / (drawn.size + 1)), "simulated")

    def _simulated(self) -> Array:
        """Return the statistic of simulated noise (B,)."""
        rng, found = np.random.default_rng(self.seed), []
        size = len(self.measured)
        left = _FEWER if size * self.basis.shape[1] > _LARGE else _REPLICATES
        while left > 0:
            drawn = self.noise.rvs(min(left, max(1, 2**22 // size)), rng) / np.sqrt(self.noise.variances)
            found.append((drawn**2).sum(axis=1) - ((drawn @ self.basis) ** 2).sum(axis=1))
            left -= len(drawn)
        return np.concatenate(found)


METHODS = ("auto", "wald")

_JITTER = 1e-9
"""What is added to every variance, relative to it, where estimates are linearly dependent."""

_MOST_LAPLACE = 128
"""Laplace variables that are told from the normal in one estimate: the largest ones."""

_JOINT_REPLICATES = 1_999


@dataclass(frozen=True, eq=False)
class LinearNoise(Inference):
    """Quantities of the data themselves, each known up to a mixture of noise variables.

    Attributes
    ----------
    params : ndarray (p,), or (R, p) of R releases
    mixing : ndarray (p, M)
        How each noise variable moves each estimate.
    noise : CombinedNoise
    dependent : bool
        Whether the estimates are linearly dependent; their variances are then raised by a billionth.
    """

    params: Array
    mixing: Array
    noise: CombinedNoise
    dependent: bool = False
    target: str = field(default="data", kw_only=True)

    methods = METHODS
    automatic = "wald"
    flags = ()

    @property
    def cov_sampling(self) -> Array:
        """Zero (p, p): the data themselves are asked about."""
        return np.zeros((len(self.names), len(self.names)))

    @cached_property
    def cov_noise(self) -> Array:
        """Covariance of the estimates (p, p)."""
        found: Array = (self.mixing * self.noise.variances) @ self.mixing.T
        return found + np.diag(np.diag(found) * (_JITTER if self.dependent else 0.0))

    def _joint(self, rows: Array, values: Array) -> tuple[float, float]:
        """See `Inference`; where noise is not normal the p-value is simulated from its law.

        Raises
        ------
        InferenceError
            If the estimates that the restrictions are about are linearly dependent.
        """
        parts = rows @ self.mixing * np.sqrt(self.noise.variances)
        lengths = np.maximum(np.sqrt((parts**2).sum(axis=1, keepdims=True)), 1e-300)
        if np.linalg.matrix_rank(parts / lengths, tol=1e-6) < len(rows):
            raise InferenceError(f"the {len(rows)} restrictions are linearly dependent, or about what is known exactly")
        root = linalg.cholesky(parts @ parts.T, lower=True)
        statistic = float((linalg.solve_triangular(root, rows @ self.params - values, lower=True) ** 2).sum())
        if self.noise.normal:
            return statistic, float(stats.chi2.sf(statistic, len(rows)))
        drawn = self.noise.rvs(_JOINT_REPLICATES, np.random.default_rng(self.seed)) @ (rows @ self.mixing).T
        simulated = (linalg.solve_triangular(root, drawn.T, lower=True) ** 2).sum(axis=0)
        return statistic, float(simulated_pvalue(simulated, statistic))

    def _linear(self, rows: Array) -> Contrasts:
        """Return combinations (k,), or (R, k), with Laplace shares (k, t) where there are any."""
        moved = rows @ self.mixing
        parts = moved**2 * self.noise.variances
        variance = parts.sum(axis=1)
        if self.dependent:
            variance = variance + rows**2 @ (_JITTER * np.diag(self.cov_noise))
        variance = np.maximum(variance, 1e-300)
        shares = None if self.noise.normal else _largest(parts / variance[:, None], self.noise.draws)
        laws = self.noise.parts
        steps = np.concatenate([steps for _, steps in laws])
        exact = NoiseSums(moved * steps, tuple(one for law, _ in laws for one in variables_of(law)))
        return Contrasts(self.params @ rows.T, np.sqrt(variance), shares=shares, noise=exact)

    def oracle(
        self, sampling: Array, alpha: float, contrasts: Mapping[str, Mapping[str, float]] | None = None
    ) -> Oracle:
        """Say how wide an interval must be of estimates and contrasts.

        ``sampling`` (q,) is their variance over data sets: zero where all have the same table.
        """
        known = self._linear(contrast_rows(self.names, contrasts))
        noise = np.asarray(known.error) ** 2
        laplace = None if known.shares is None else known.shares * noise[:, None]
        return Oracle.of(noise, sampling, np.inf, alpha=alpha, laplace=laplace)


def _largest(shares: Array, draws: Places) -> Array:
    """Keep the largest Laplace shares of each row (k, M), those of averages divided among their draws."""
    places = np.flatnonzero(draws)
    shares, draws = shares[:, places], draws[places]
    most = int(draws.max())
    kept = min(places.size, max(8, _MOST_LAPLACE // most))
    order = np.argpartition(-shares, kept - 1, axis=1)[:, :kept]
    several = draws[order][..., None]
    divided = np.where(np.arange(most) < several, np.take_along_axis(shares, order, axis=1)[..., None] / several, 0.0)
    return divided.reshape(len(shares), -1)


def measured_queries(
    law: NoiseLaw, steps: Sequence[float] | Array, names: tuple[str, ...], values: Array | None = None
) -> LinearNoise:
    """Return quantities that were measured one by one: values (m,) of one release, or (R, m) of R."""
    noise = CombinedNoise(((law, np.asarray(steps)),))
    return LinearNoise(names, np.zeros(len(names)) if values is None else values, np.eye(len(names)), noise)
