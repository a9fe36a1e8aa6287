"""Effect sizes of noisy tables: Cramer's V and Cohen's w, each with an interval.

Both effect sizes are squared lengths ``q = g(x)`` of shares, free of the scale of the counts x. With L and H the
gradient and the Hessian of g, and e what sampling and noise add to the counts, ``g + L'e + e'He/2`` has the bias
``tr(H S)/2`` and the variance ``L'S L + tr(H S H S)/2`` and terms of third and fourth cumulants. Because g is free of
scale, multinomial counts have the same moments as independent Poisson ones: S is diag(counts) plus the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dpinfer.errors import OptionError
from dpinfer.inference.testing.products import LEAST
from dpinfer.inference.testing.residuals import check_alpha
from dpinfer.numerics.roots import bisected

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.inference.testing.count_noise import CountNoise, TableNoise
    from dpinfer.numerics.arrays import Array, Mask

    Derivatives = tuple[Array, Array, Array]

__all__ = ["NOT_RESOLVED", "EffectSize", "cohens_w", "cramers_v"]

NOT_RESOLVED = "The privacy noise hides a margin of the table: the interval is every value that the measure can take."
"""What is said of an effect size whose interval is the whole range."""

_CLEAR = 2.5
"""Noise standard deviations that every margin has to reach for an interval of Cramer's V."""

_FLOOR = 1e-3
_HALVINGS = 22
_LARGE = 40.0


@dataclass(frozen=True, eq=False)
class EffectSize:
    """An effect size with its interval; every array is (...).

    Attributes
    ----------
    estimate : ndarray
        Corrected for the bias that sampling and noise bring, at least 0.
    lower, upper : ndarray
        Ends of the interval; the lower one is 0 where the table is compatible with no effect at ``alpha / 2``.
    resolved : ndarray of bool
        False where the interval is the whole range, because the noise hides what the measure divides by.
    largest : float
        The largest value that the measure can take.
    alpha : float
    """

    estimate: Array
    lower: Array
    upper: Array
    resolved: Mask
    largest: float
    alpha: float

    @property
    def flag(self) -> str:
        """`NOT_RESOLVED` where that holds for a release, "" otherwise."""
        return "" if bool(np.all(self.resolved)) else NOT_RESOLVED


def cramers_v(
    values: Array,
    shape: tuple[int, int],
    *,
    noise: CountNoise | TableNoise,
    nobs: int | None = None,
    alpha: float = 0.05,
) -> EffectSize:
    """Estimate Cramer's V of the population behind a noisy table, with an interval.

    Parameters
    ----------
    values : ndarray (..., r c)
        Noisy counts.
    shape : (int, int)
        Levels of the rows and of the columns, two or more each.
    noise : CountNoise or TableNoise
    nobs : int or None
        The number of rows where it is public.
    alpha : float
        One less the confidence of the interval.

    Returns
    -------
    EffectSize

    Raises
    ------
    OptionError
        If ``alpha`` is not between 0 and 1, or ``shape`` does not fit.

    Notes
    -----
    ``V^2 = phi^2 / min(r - 1, c - 1)`` with ``phi^2 = sum (p_ij - p_i p_j)^2 / (p_i p_j)``. The law of the noisy phi^2
    is a scaled noncentral chi-squared one, with the mean and the variance of the second-order expansion at each phi
    that is tried: those of independence and of the table that the release shows, on a line in phi^2. The variance is
    not known but estimated, so the ends take a quantile of Student's law instead of the normal one; its degrees of
    freedom are a quarter of Satterthwaite's, which pays for the terms of third order too.
    Where a noisy margin is below 2.5 standard deviations of its noise the interval is [0, 1].
    """
    check_alpha(alpha)
    rows, columns = shape
    if min(shape) < 2 or values.shape[-1] != rows * columns:
        raise OptionError("shape", shape, f"two numbers of levels, 2 or more, with product {values.shape[-1]}")
    table = _of_size(values, nobs).reshape(*values.shape[:-1], rows, columns)
    margins, clear = [], np.ones(values.shape[:-1], dtype=bool)
    for place, (axis, levels, added) in enumerate(((-1, rows, columns), (-2, columns, rows))):
        margin = table.sum(axis=axis)
        spread = np.sqrt(noise.margin(levels, added, axis=place, known=nobs is not None))
        clear &= (margin > np.maximum(_CLEAR * spread, LEAST)).all(axis=-1)
        margin = np.maximum(margin, LEAST)
        margins.append(margin / margin.sum(axis=-1, keepdims=True))
    size = np.maximum(table.sum(axis=(-2, -1)), LEAST)[..., None]
    null = size * (margins[0][..., :, None] * margins[1][..., None, :]).reshape(values.shape)
    return _effect_size(
        table.reshape(values.shape),
        null,
        lambda counts: _phi_squared(counts, shape),
        noise,
        known=nobs is not None,
        clear=clear,
        scale=float(min(rows, columns) - 1),
        largest=1.0,
        alpha=alpha,
    )


def cohens_w(
    values: Array, probabilities: Array, *, noise: CountNoise | TableNoise, nobs: int | None = None, alpha: float = 0.05
) -> EffectSize:
    """Estimate Cohen's w of the population behind noisy counts, with an interval.

    Parameters
    ----------
    values : ndarray (..., d)
        Noisy counts.
    probabilities : ndarray (d,)
        Of the hypothesis; positive, of sum 1.
    noise : CountNoise or TableNoise
    nobs : int or None
        The number of rows where it is public.
    alpha : float
        One less the confidence of the interval.

    Returns
    -------
    EffectSize

    Raises
    ------
    OptionError
        If ``alpha`` is not between 0 and 1.

    Notes
    -----
    ``w^2 = sum (p - p0)^2 / p0``, at most ``1 / min(p0) - 1``; the interval is made as that of `cramers_v`.
    Where the noisy number of rows is below 2.5 standard deviations of its noise the interval is the whole range.
    """
    check_alpha(alpha)
    counts = _of_size(values, nobs)
    total = counts.sum(axis=-1)
    spread = 0.0 if nobs is not None else np.sqrt(noise.total(values.shape[-1]))
    size = np.maximum(total, LEAST)[..., None]
    return _effect_size(
        counts,
        size * probabilities,
        lambda at: _w_squared(at, probabilities),
        noise,
        known=nobs is not None,
        clear=np.asarray(total > max(_CLEAR * spread, LEAST)),
        scale=1.0,
        largest=float(np.sqrt(1 / probabilities.min() - 1)),
        alpha=alpha,
    )


def _of_size(values: Array, nobs: int | None) -> Array:
    """Noisy counts that add up to the public number of rows, where it is public."""
    if nobs is None:
        return np.asarray(values, dtype=float)
    return np.asarray(values + (nobs - values.sum(axis=-1, keepdims=True)) / values.shape[-1])


def _phi_squared(counts: Array, shape: tuple[int, int]) -> Derivatives:
    """phi^2 of counts (..., r c) with positive margins, its gradient (..., d) and its Hessian (..., d, d)."""
    r, c = shape
    flat = counts.shape
    x = counts.reshape(*flat[:-1], r, c)
    row, column = x.sum(axis=-1)[..., :, None], x.sum(axis=-2)[..., None, :]
    u = x / (row * column)
    across = (x**2 / column).sum(axis=-1, keepdims=True)
    down = (x**2 / row).sum(axis=-2, keepdims=True)
    slope = (2 * u - across / row**2 - down / column**2).reshape(flat)
    hessian = np.zeros((*flat[:-1], r, c, r, c))
    ends = (x / column / row) ** 2, (x / row / column) ** 2
    i, j = np.arange(r), np.arange(c)
    pair = -2 * (u / row)
    same_row = pair[..., :, :, None] + pair[..., :, None, :] + 2 * (across / row**3)[..., None]
    hessian += ends[0][..., :, None, None, :] + np.swapaxes(ends[1], -1, -2)[..., None, :, :, None]
    np.einsum("...klkn->...kln", hessian)[...] += same_row
    pair = np.swapaxes(-2 * (u / column), -1, -2)
    same_column = pair[..., :, :, None] + pair[..., :, None, :] + 2 * np.swapaxes(down / column**3, -1, -2)[..., None]
    np.einsum("...klml->...lkm", hessian)[...] += same_column
    hessian[..., i[:, None], j, i[:, None], j] += 2 / (row * column)
    return (x * u).sum(axis=(-2, -1)) - 1, slope, hessian.reshape(*flat, flat[-1])


def _w_squared(counts: Array, p: Array) -> Derivatives:
    """w^2 of counts (..., d), its gradient (..., d) and its Hessian (..., d, d)."""
    total = counts.sum(axis=-1, keepdims=True)
    u = counts / p
    square = (counts * u).sum(axis=-1, keepdims=True)
    hessian = -4 * (u[..., :, None] + u[..., None, :]) / total[..., None] ** 3 + (6 * square / total**4)[..., None]
    hessian = hessian + np.eye(p.size) / p * (2 / total**2)[..., None]
    return (square / total**2)[..., 0] - 1, 2 * u / total**2 - 2 * square / total**3, hessian


def _moments(
    at: Derivatives, counts: Array, noise: CountNoise | TableNoise, *, known: bool
) -> tuple[Array, Array, Array]:
    """Bias and variance (...) of the second-order expansion at counts (..., d), and the variance of that variance.

    Of the last one only what does not come with the squared effect itself.
    """
    _, slope, hessian = at
    variance = noise.variance
    own = np.diagonal(hessian, axis1=-2, axis2=-1)
    product = hessian * counts[..., None, :] + noise.times(hessian, known=known)
    bias = 0.5 * np.diagonal(product, axis1=-2, axis2=-1).sum(axis=-1)
    linear = (slope * (slope * counts + noise.times(slope, known=known))).sum(axis=-1)
    square = 0.5 * np.einsum("...ij,...ji->...", product, product)
    third = (slope * own * counts).sum(axis=-1)
    fourth = 0.25 * (own**2 * (counts + noise.fourth_cumulant)).sum(axis=-1)
    spread = slope * counts + noise.times(slope, known=False)
    change = slope**2 + 2 * np.einsum("...ij,...j->...i", hessian, spread)
    own_share = (change * spread).sum(axis=-1) ** 2 / np.maximum((slope * spread).sum(axis=-1), 1e-300)
    unsure = np.maximum((change**2 * (counts + variance)).sum(axis=-1) - own_share, 0.0)
    return bias, np.maximum(linear + square + fourth + third, 0.5 * (linear + square)), unsure


def _effect_size(
    counts: Array,
    null: Array,
    derivatives: Callable[[Array], Derivatives],
    noise: CountNoise | TableNoise,
    *,
    known: bool,
    clear: Mask,
    scale: float,
    largest: float,
    alpha: float,
) -> EffectSize:
    """Estimate and interval from the moments at the hypothesis and at the table that the release shows."""
    residual = counts - null
    found = (residual**2 / null).sum(axis=-1) / null.sum(axis=-1)
    bias, variance, _ = _moments(derivatives(null), null, noise, known=known)
    bias, variance = np.maximum(bias, 1e-12), np.maximum(variance, 1e-24)
    freedom = 2 * bias**2 / variance
    goal = np.maximum(found, bias + 2 * np.sqrt(variance))
    times = np.where(clear, np.sqrt(goal / np.maximum(found, 1e-300)), 0.0)[..., None]
    away = np.maximum(null + times * residual, _FLOOR * null)
    away *= (null.sum(axis=-1) / away.sum(axis=-1))[..., None]
    at = derivatives(away)
    place = np.maximum(at[0], 1e-9)
    away_bias, away_variance, unsure = _moments(at, away, noise, known=known)
    rise = np.maximum((away_variance - variance) / place, (away_variance - 3 * variance) / (goal - bias))
    least = 0.5 * np.minimum(variance, away_variance)
    student = 0.5 / np.clip(unsure / np.maximum(away_variance, 1e-24) ** 2, 1e-6, 0.25)
    tail = special.ndtr(special.stdtrit(student, alpha / 2))

    def law(effect: Array) -> tuple[Array, Array]:
        mean = effect + bias + (away_bias - bias) * np.minimum(effect / place, 1.0)
        return mean, np.maximum(variance + rise * effect, least)

    most = scale * largest**2
    first = np.clip(found - bias, 0.0, most)
    estimate = np.clip(found - (law(first)[0] - first), 0.0, most)
    lower = _solve(lambda e: 1 - _below(found, e, *law(e), freedom), tail, most, found.shape)
    upper = _solve(lambda e: -_below(np.maximum(found, bias), e, *law(e), freedom), -tail, most, found.shape)
    ends = [np.sqrt(end / scale) for end in (estimate, lower, np.maximum(upper, estimate))]
    lower, upper = np.where(clear, ends[1], 0.0), np.where(clear, ends[2], largest)
    return EffectSize(ends[0], lower, upper, clear, largest, alpha)


def _below(found: Array, effect: Array, mean: Array, variance: Array, freedom: Array) -> Array:
    """P(Q <= found) where Q, of given mean and variance, is a shifted multiple of noncentral chi-squared."""
    multiple = 2 * variance / (4 * effect + np.sqrt(16 * effect**2 + 8 * freedom * variance))
    away = effect / multiple
    x = np.maximum((found - mean) / multiple + freedom + away, 0.0)
    total, spread = freedom + away, freedom + 2 * away  # normal approximation of Sankaran (1963)
    power = 1 - 2 / 3 * total * (freedom + 3 * away) / spread**2
    ratio = spread / total**2
    bend = (power - 1) * (1 - 3 * power)
    centre = 1 + power * ratio * (power - 1 - 0.5 * (2 - power) * bend * ratio)
    result = np.asarray(
        special.ndtr(((x / total) ** power - centre) / (power * np.sqrt(2 * ratio) * (1 + 0.5 * bend * ratio)))
    )
    few = away < _LARGE
    result[few] = special.chndtr(x[few], freedom[few], away[few])
    return np.asarray(result)


def _solve(function: Callable[[Array], Array], goal: Array, most: float, shape: tuple[int, ...]) -> Array:
    """Where a rising function of the squared effect reaches a goal, in [0, most]: by halving the effect's range."""
    low, high = np.zeros(shape), np.full(shape, np.sqrt(most))
    low = np.where(function(high**2) < goal, high, low)
    high = np.where(function(np.zeros(shape)) >= goal, 0.0, high)
    low, high = bisected(lambda middle: ~(function(middle**2) >= goal), low, high, rounds=_HALVINGS)
    return np.asarray((0.5 * (low + high)) ** 2)
