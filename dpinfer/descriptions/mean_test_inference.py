"""Tests of means from noisy sums: one sample, two samples, one-way analysis of variance.

A group of n rows with values u in [-1, 1] is released as noisy sums of 1, u and u^2. Under the null hypothesis that all
groups have the mean m, ``r = s1 - m n`` of every group has mean zero and variance

    V = n sigma^2 + Var(e1 - m e0),

e0 and e1 being the noise of n and s1. With one group and m given, the statistic is ``r^2 / V``; with several, the least
``sum r^2 / V`` over m. The statistics divide by no noisy count, so groups may be empty; without noise they are t^2 and
(G - 1) F.

`spread_pvalues` tests whether the groups share one variance. With n, s, q the noisy sums of a group and m = s / n, the
sum of squares is W = q - s^2 / n, corrected for the bias of its noise. If all groups have the variance sigma^2, D = W -
sigma^2 (n - 1) has mean zero and variance

    V = (K - 1) sigma^4 n + Var(e2 - 2 m e1 + (m^2 - sigma^2) e0) + 2 (Var(e1 - m e0) / n)^2,

K being the kurtosis of the values and e2 the noise of q. The release does not identify K: it is assumed to be 9, as for
exponential values, and the test is conservative for values with lighter tails. The statistic is the least ``sum D^2 /
V`` over sigma^2 with V at the pooled variance, about chi-squared with G - 1 degrees of freedom.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from dpinfer.statistics.arrays import Array, Mask
    from dpinfer.statistics.nulls import Alternative

_FLOOR = 0.5
"""Standard deviations of its noise below which no sum of squares within groups is taken to lie."""

_RAISED = 1.0
"""Standard deviations of its noise by which it is raised in the simulated null distribution."""

_AWAY = 2.0
"""Standard deviations of noise by which an estimated mean, and numbers of rows, are moved where noise does more."""

_MOVED = 0.1
"""Share of a variance, or of a number of rows, by which the fit is moved where noise is said to hide it."""

_KURTOSIS = 9.0

_LAPLACE = float((stats.laplace.isf(0.005, scale=0.5**0.5) / stats.norm.isf(0.005)) ** 2)
"""Factor of the variance of Laplace noise at which normal noise has its tail of 1%."""

_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class GroupEstimates:
    """Inputs of the statistic, from R releases or any leading dimensions.

    Attributes
    ----------
    rows, first : ndarray (..., G)
        Noisy number of rows and sum of values of each group.
    mean : ndarray (...)
        The common mean: given, or estimated.
    within : ndarray (..., G)
        n sigma^2 of each group.
    error : ndarray (..., G)
        Standard deviation of the privacy noise in ``within``.
    noise : ndarray (...)
        Noise variance of ``first - far * rows``.
    far : ndarray (...)
        The common mean; if estimated, moved away from 0 by two standard deviations of its noise.
    dof : ndarray (..., G)
        Degrees of freedom of the variance of each group: rows less parameters.
    hidden : ndarray of bool (..., G)
        Whether the sum of squares behind ``within`` is indistinguishable from its noise; it was then raised to the
        noise level.
    """

    rows: Array
    first: Array
    mean: Array
    within: Array
    error: Array
    noise: Array
    far: Array
    dof: Array
    hidden: Mask

    @property
    def variance(self) -> Array:
        """Variance of ``first - mean * rows`` of each group (..., G)."""
        return np.asarray(np.maximum(self.within + self.noise[..., None], _TINY))


@dataclass(frozen=True, eq=False)
class FittedMeans:
    """The null hypothesis fitted to R releases.

    Attributes
    ----------
    rows : ndarray (R, G)
        Whole numbers of rows, at least 2.
    mean : ndarray (R,)
    sigma : ndarray (R, G)
        Standard deviations of the values.
    """

    rows: Array
    mean: Array
    sigma: Array


@dataclass(frozen=True, eq=False)
class GroupMeans:
    """Equal means of G groups, or a given mean of one; implements `NullModel` on values (..., 3 G).

    The values of a release are, group by group, the noisy sums of 1, u and u^2, u being the column scaled to [-1, 1].

    Attributes
    ----------
    mixing : ndarray (3, m)
        The three sums of a group as combinations of its released sums.
    variances : ndarray (m,)
        Noise variance of the released sums of a group.
    laplace : int
        Laplace draws that the noise of each adds up; 0 for normal noise.
    groups : int
    mean : float or None
        The mean under the null hypothesis, in [-1, 1], for one group; None for several.
    equal_var : bool
        Whether the groups share one variance; otherwise each has its own (Welch).
    alternative : {"two-sided", "less", "greater"}
        Of one group's mean, or of the first of two groups' against the second's.
    """

    mixing: Array
    variances: Array
    laplace: int = 0
    groups: int = 1
    mean: float | None = None
    equal_var: bool = True
    alternative: Alternative = "two-sided"

    @cached_property
    def cov(self) -> Array:
        """Covariance of the noise of the three sums (3, 3)."""
        return (self.mixing * self.variances) @ self.mixing.T

    def estimates(self, values: Array) -> GroupEstimates:
        """Estimate sizes, common mean and variances (..., 3 G) under the null hypothesis."""
        sums = values.reshape(*values.shape[:-1], self.groups, 3)
        rows, first, second = sums[..., 0], sums[..., 1], sums[..., 2]
        if self.mean is not None:
            mean = np.full(rows.shape[:-1], self.mean)
        else:
            fewest = max(np.sqrt(self.groups * self.cov[0, 0]), 1.0)
            mean = np.asarray(np.clip(first.sum(axis=-1) / np.maximum(rows.sum(axis=-1), fewest), -1.0, 1.0))
        noise = self._noise(mean)
        m = mean[..., None]
        residual = first - m * rows
        about = second - 2 * m * first + m**2 * rows
        least = np.maximum(np.sqrt(noise), 1.0)[..., None]
        size = np.maximum(rows, least)
        square = about - (residual**2 - noise[..., None]) / size
        blur = _form(self.cov, np.stack([mean**2, -2 * mean, np.ones_like(mean)]))[..., None]
        blur = blur + 2 * (noise[..., None] / size) ** 2
        if self.equal_var:
            square, blur = square.sum(axis=-1, keepdims=True), blur.sum(axis=-1, keepdims=True)
            size = np.maximum(rows.sum(axis=-1, keepdims=True), self.groups * least)
            dof = np.maximum(size - self.groups, 1.0)
        else:
            dof = np.maximum(size - 1, 1.0)
        error = np.sqrt(blur)
        share = np.maximum(rows, 0.0) / dof
        within = np.clip(square, _FLOOR * error, np.maximum(size, error)) * share
        far = mean
        if self.mean is None:  # moved away from 0, where noise moves more, by standard deviations of its own noise
            spread = np.sqrt(self.groups * noise)
            moved = spread / np.maximum(rows.sum(axis=-1), np.maximum(spread, 1.0))
            far = np.asarray(np.copysign(np.minimum(np.abs(mean) + _AWAY * moved, 1.0), mean))
            noise = np.maximum(noise, self._noise(far))
        dof, hidden = (np.broadcast_to(one, rows.shape) for one in (dof, square < _FLOOR * error))
        return GroupEstimates(rows, first, mean, within, error * share, noise, far, dof, hidden)

    def signed(self, values: Array) -> Array:
        """Return the t statistic of one group, or of the first of two against the second; (..., 3 G) to (...)."""
        found = self.estimates(values)
        if self.groups == 1:
            top, bottom = found.first - found.mean[..., None] * found.rows, found.variance
            return np.asarray((top / np.sqrt(bottom))[..., 0])
        n, s, v = found.rows, found.first, found.variance
        top = s[..., 0] * n[..., 1] - s[..., 1] * n[..., 0]
        bottom = v[..., 0] * n[..., 1] ** 2 + v[..., 1] * n[..., 0] ** 2
        return np.asarray(top / np.sqrt(np.maximum(bottom, _TINY)))

    def statistic(self, values: Array) -> Array:
        """See `NullModel.statistic`: t^2, (G - 1) F, or the t statistic towards a one-sided alternative."""
        if self.alternative != "two-sided":
            return self.signed(values) if self.alternative == "greater" else -self.signed(values)
        if self.groups <= 2:
            return np.asarray(self.signed(values) ** 2)
        found = self.estimates(values)
        centred = found.first - found.mean[..., None] * found.rows
        return _least_length(centred, found.rows, 1.0 / found.variance)

    def residual_dof(self, values: Array) -> Array:
        """Residual degrees of freedom (R,), from noisy counts; at least 1.

        For two groups with separate variances, Satterthwaite's number.
        """
        found = self.estimates(values)
        dof, rows = found.dof, np.maximum(found.rows, 1.0)
        if self.equal_var or self.groups == 1:
            return np.asarray(dof[:, 0])
        if self.groups > 2:
            return np.asarray(dof.sum(axis=1))
        parts = found.within / rows**2
        bottom = (parts**2 / dof).sum(axis=1)
        welch: Array = np.maximum(parts.sum(axis=1) ** 2 / np.where(bottom > 0, bottom, 1.0), 1.0)
        return np.where(bottom > 0, welch, dof.sum(axis=1))

    def fit(self, values: Array) -> FittedMeans:
        """Fit the null hypothesis where it is hardest to maintain the level.

        Sums of squares are raised by a standard deviation of their noise, a common mean is moved away from 0, and
        groups whose size noise hides are drawn larger, since the statistic of small groups is smaller.
        """
        found = self.estimates(values)
        rows = np.maximum(np.rint(self._grown(found.rows)), 2.0)
        sigma = np.sqrt(np.minimum((found.within + _RAISED * found.error) / rows, rows / (rows - 1)))
        return FittedMeans(rows, found.far, sigma)

    def hidden(self, values: Array) -> Mask:
        """Whether noise changes the fit of releases (R, 3 G) by more than a tenth: (R,)."""
        found = self.estimates(values)
        raised = (_RAISED * found.error > _MOVED * found.variance).any(axis=-1)
        grown = self._grown(found.rows) > (1 + _MOVED) * np.maximum(found.rows, 1.0)
        return np.asarray(raised | grown.any(axis=-1))

    def draw(self, fitted: FittedMeans, size: int, rng: np.random.Generator) -> Array:
        """See `NullModel.draw`."""
        rows, sigma = fitted.rows[:, None], fitted.sigma[:, None]
        shape = (len(rows), size, self.groups)
        drawn = np.empty((*shape, 3))
        drawn[..., 0] = rows
        offset = rng.standard_normal(shape) * (sigma * np.sqrt(rows))
        mean = fitted.mean[:, None, None]
        within = rng.standard_gamma(np.broadcast_to((rows - 1) / 2, shape)) * (2 * sigma**2)
        drawn[..., 1] = rows * mean + offset
        drawn[..., 2] = within + drawn[..., 1] ** 2 / rows
        drawn += self.noise(shape, rng)
        return drawn.reshape(len(rows), size, 3 * self.groups)

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw noise of the three sums (..., 3) for simulation, never for privacy."""
        full = (*shape, len(self.variances))
        if self.laplace:
            scale = np.sqrt(self.variances / (2 * self.laplace))
            if self.laplace == 1:
                drawn = rng.laplace(size=full)
            else:
                drawn = rng.standard_gamma(self.laplace, full) - rng.standard_gamma(self.laplace, full)
        else:
            scale, drawn = np.sqrt(self.variances), rng.standard_normal(full)
        return np.asarray(drawn @ (self.mixing * scale).T)

    def _grown(self, rows: Array) -> Array:
        """Numbers of rows, all raised by one factor if they are small relative to their noise (..., G)."""
        if self.mean is not None:
            return rows
        spread = float(np.sqrt(self.cov[0, 0]))
        length = np.sqrt((rows**2).sum(axis=-1, keepdims=True))
        return np.asarray(rows * (1 + _AWAY * spread / np.maximum(length, max(spread, 1.0))))

    def _noise(self, mean: Array) -> Array:
        """Noise variance of ``first - mean * rows``."""
        return _form(self.cov[:2, :2], np.stack([-mean, np.ones_like(mean)]))


def spread_pvalues(model: GroupMeans, values: Array) -> Array:
    """P-values (R,) for the null hypothesis that the groups of releases (R, 3 G) share one variance."""
    sums = values.reshape(*values.shape[:-1], model.groups, 3)
    rows, first, second = sums[..., 0], sums[..., 1], sums[..., 2]
    heavy = _LAPLACE if model.laplace else 1.0
    size = np.maximum(rows, max(float(np.sqrt(model.cov[0, 0])), 2.0))
    mean = np.clip(first / size, -1.0, 1.0)
    moved = _form(model.cov, np.stack([-mean, np.ones_like(mean), np.zeros_like(mean)]))
    square = second - 2 * mean * first + mean**2 * rows + moved / size
    pooled = np.maximum(square.sum(axis=-1), 0.0) / np.maximum((rows - 1).sum(axis=-1), 1.0)
    sigma = np.clip(pooled, 0.0, 1.0)[..., None]
    blur = _form(model.cov, np.stack([mean**2 - sigma, -2 * mean, np.ones_like(mean)]))
    blur = heavy * (blur + 2 * (moved / size) ** 2)
    weight = 1.0 / np.maximum((_KURTOSIS - 1) * sigma**2 * size + blur, _TINY)
    length = _least_length(square - sigma * (rows - 1), rows - 1, weight)
    return np.asarray(stats.chi2.sf(length, model.groups - 1))


def _least_length(distance: Array, pull: Array, weight: Array) -> Array:
    """Return the least weighted sum of squares of ``distance - c pull`` (..., G) over c."""
    across = (weight * distance * pull).sum(axis=-1) ** 2 / np.maximum((weight * pull**2).sum(axis=-1), _TINY)
    return np.asarray(np.maximum((weight * distance**2).sum(axis=-1) - across, 0.0))


def _form(matrix: Array, vector: Array) -> Array:
    """Quadratic form of vectors along the first axis (k, ...), never negative."""
    return np.asarray(np.maximum(np.einsum("i...,ij,j...->...", vector, matrix, vector), 0.0))
