"""Effect sizes of noisy tables: residuals of cells, Cramer's V and Cohen's w, each with an interval.

Both effect sizes are squared lengths ``q = g(x)`` of shares, free of the scale of the counts x. With L and H the
gradient and the Hessian of g, and e what sampling and noise add to the counts, ``g + L'e + e'He/2`` has the bias
``tr(H S)/2`` and the variance ``L'S L + tr(H S H S)/2`` and terms of third and fourth cumulants. Because g is free of
scale, multinomial counts have the same moments as independent Poisson ones: S is diag(counts) plus the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special, stats

from dpinfer.errors import OptionError
from dpinfer.inference.testing.tables import CountNoise, GoodnessOfFit, Homogeneity, Independence
from dpinfer.release.laws import NORMAL_DRAWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Derivatives = tuple[Array, Array, Array]
    Model = GoodnessOfFit | Independence | Homogeneity

__all__ = ["NOT_RESOLVED", "EffectSize", "ResidualTable", "cohens_w", "cramers_v", "residual_table", "small_cells"]

NOT_RESOLVED = "The privacy noise hides a margin of the table: the interval is every value that the measure can take."
"""What is said of an effect size whose interval is the whole range."""

_CLEAR = 2.5
"""Noise standard deviations that every margin has to reach for an interval of Cramer's V."""

_LEAST, _SMALL = 1.0, 5.0
_STEP = 1e-20
_FLOOR = 1e-3
_HALF_ROW = 0.5
_HALVINGS = 22
_LARGE = 40.0


@dataclass(frozen=True, eq=False)
class ResidualTable:
    """What every cell adds to the evidence against a hypothesis; every array is (..., d).

    Attributes
    ----------
    observed, expected, difference : ndarray
        Noisy counts, those expected under the hypothesis, and observed less expected, in rows.
    sampling_error, noise_error, standard_error : ndarray
        Standard error of the difference under the hypothesis: from sampling, from noise, and both, in rows.
    standardised : ndarray
        ``difference / standard_error``: about standard normal where the hypothesis holds.
    lower, upper : ndarray
        Interval for the population's standardised residual: its difference over the same null standard error.
    alpha : float
        One less the confidence of each interval.
    """

    observed: Array
    expected: Array
    difference: Array
    sampling_error: Array
    noise_error: Array
    standard_error: Array
    standardised: Array
    lower: Array
    upper: Array
    alpha: float


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
    resolved: NDArray[np.bool_]
    largest: float
    alpha: float

    @property
    def flag(self) -> str:
        """`NOT_RESOLVED` where that holds for a release, "" otherwise."""
        return "" if bool(np.all(self.resolved)) else NOT_RESOLVED


def small_cells(expected: Array, noise: CountNoise) -> NDArray[np.bool_]:
    """Whether expected counts (..., d) are below 5, or below the standard deviation of their noise."""
    return np.asarray(expected < max(_SMALL, float(np.sqrt(noise.variance))))


def residual_table(model: Model, values: Array, *, alpha: float = 0.05) -> ResidualTable:
    """Residuals of noisy counts from a hypothesis, standardised by sampling and noise together.

    Parameters
    ----------
    model : GoodnessOfFit, Independence or Homogeneity
        The hypothesis, with the noise and the public sizes.
    values : ndarray (..., d)
        Noisy counts.
    alpha : float
        One less the confidence of the intervals.

    Returns
    -------
    ResidualTable

    Raises
    ------
    OptionError
        If ``alpha`` is not between 0 and 1.

    Notes
    -----
    Without noise the standardised residual is the adjusted residual of Haberman (1973). The interval takes the
    covariance of the counts from the noisy shares, clipped at 0, not from the hypothesis; as in Wilson's interval the
    variance of a cell grows with the count that is tried; half a row is added on both sides, because counts are whole.
    Laplace noise widens it by its kurtosis (Cornish-Fisher).

    References
    ----------
    Haberman (1973), The analysis of residuals in cross-classified tables, Biometrics 29.
    """
    _check_alpha(alpha)
    values = np.asarray(values, dtype=float)
    size, variance = values.shape[-1], model.noise.variance
    expected, sampling, noisy = (np.real(part) for part in _null_parts(model, values))
    error = np.sqrt(sampling + variance * noisy)
    difference = values - expected
    moved = values[..., None, :] + 1j * _STEP * np.eye(size)
    moved_expected, moved_sampling, moved_noisy = _null_parts(model, moved)
    ratio = (moved - moved_expected) / np.sqrt(moved_sampling + variance * moved_noisy)
    slope = np.imag(ratio) / _STEP  # (..., count moved, residual)
    from_noise = variance * (slope**2).sum(axis=-2)
    spread = _sampling_variance(model, values, slope) + from_noise
    fourth = _fourth(model.noise) * (slope**4).sum(axis=-2) / np.maximum(spread, 1e-100) ** 2
    normal = float(stats.norm.isf(alpha / 2))
    reach = normal + np.maximum((normal**3 - 3 * normal) / 24, 0.0) * fourth
    standardised = difference / error
    own = np.diagonal(slope, axis1=-2, axis2=-1)
    shift = 0.5 * reach**2 * own**2 * error
    half = np.sqrt(shift**2 + reach**2 * spread) + _HALF_ROW * np.abs(own)
    return ResidualTable(
        observed=values,
        expected=expected,
        difference=difference,
        sampling_error=np.sqrt(sampling),
        noise_error=np.sqrt(variance * noisy),
        standard_error=error,
        standardised=standardised,
        lower=standardised + shift - half,
        upper=standardised + shift + half,
        alpha=alpha,
    )


def cramers_v(
    values: Array, shape: tuple[int, int], *, noise: CountNoise, nobs: int | None = None, alpha: float = 0.05
) -> EffectSize:
    """Estimate Cramer's V of the population behind a noisy table, with an interval.

    Parameters
    ----------
    values : ndarray (..., r c)
        Noisy counts.
    shape : (int, int)
        Levels of the rows and of the columns, two or more each.
    noise : CountNoise
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
    _check_alpha(alpha)
    rows, columns = shape
    if min(shape) < 2 or values.shape[-1] != rows * columns:
        raise OptionError("shape", shape, f"two numbers of levels, 2 or more, with product {values.shape[-1]}")
    table = _of_size(values, nobs).reshape(*values.shape[:-1], rows, columns)
    known = 0.0 if nobs is None else 1.0
    margins, clear = [], np.ones(values.shape[:-1], dtype=bool)
    for axis, levels, added in ((-1, rows, columns), (-2, columns, rows)):
        margin = table.sum(axis=axis)
        spread = np.sqrt(noise.variance * added * (1 - known / levels))
        clear &= (margin > np.maximum(_CLEAR * spread, _LEAST)).all(axis=-1)
        margin = np.maximum(margin, _LEAST)
        margins.append(margin / margin.sum(axis=-1, keepdims=True))
    size = np.maximum(table.sum(axis=(-2, -1)), _LEAST)[..., None]
    null = size * (margins[0][..., :, None] * margins[1][..., None, :]).reshape(values.shape)
    return _effect_size(
        table.reshape(values.shape),
        null,
        lambda counts: _phi_squared(counts, shape),
        noise,
        known=bool(known),
        clear=clear,
        scale=float(min(rows, columns) - 1),
        largest=1.0,
        alpha=alpha,
    )


def cohens_w(
    values: Array, probabilities: Array, *, noise: CountNoise, nobs: int | None = None, alpha: float = 0.05
) -> EffectSize:
    """Estimate Cohen's w of the population behind noisy counts, with an interval.

    Parameters
    ----------
    values : ndarray (..., d)
        Noisy counts.
    probabilities : ndarray (d,)
        Of the hypothesis; positive, of sum 1.
    noise : CountNoise
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
    _check_alpha(alpha)
    counts = _of_size(values, nobs)
    total = counts.sum(axis=-1)
    spread = 0.0 if nobs is not None else np.sqrt(noise.variance * values.shape[-1])
    size = np.maximum(total, _LEAST)[..., None]
    return _effect_size(
        counts,
        size * probabilities,
        lambda at: _w_squared(at, probabilities),
        noise,
        known=nobs is not None,
        clear=np.asarray(total > max(_CLEAR * spread, _LEAST)),
        scale=1.0,
        largest=float(np.sqrt(1 / probabilities.min() - 1)),
        alpha=alpha,
    )


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise OptionError("alpha", alpha, "a number between 0 and 1: one less the confidence")


def _of_size(values: Array, nobs: int | None) -> Array:
    """Noisy counts that add up to the public number of rows, where it is public."""
    if nobs is None:
        return np.asarray(values, dtype=float)
    return np.asarray(values + (nobs - values.sum(axis=-1, keepdims=True)) / values.shape[-1])


def _fourth(noise: CountNoise) -> float:
    """Fourth cumulant of the noise of a count; few draws of Laplace noise are given that of Laplace noise."""
    if noise.is_normal:
        return 0.0
    several = noise.together * noise.law.draws
    several = several if several >= NORMAL_DRAWS else 1
    return (3 * noise.variance**2 + noise.variance * noise.step**2) / several


def _level_parts(model: GoodnessOfFit, x: Array) -> tuple[Array, Array, Array]:
    """See `_null_parts`: a private number of rows is a weighted sum of the counts."""
    p = model.probabilities
    if model.nobs is not None:
        total = np.full(x.shape, float(model.nobs))
        return total * p, total * p * (1 - p), np.ones(x.shape)
    total = _at_least(x.sum(axis=-1, keepdims=True))
    weights = np.ones(p.size) if model.kind == "pearson" else p / (total * p + model.noise.variance)
    weights = weights / (weights * p).sum(axis=-1, keepdims=True)
    total = _at_least((x * weights).sum(axis=-1, keepdims=True))
    sampling = total * p * (1 - 2 * p * weights + p * (p * weights**2).sum(axis=-1, keepdims=True))
    noisy = 1 - 2 * p * weights + p**2 * (weights**2).sum(axis=-1, keepdims=True)
    return total * p, sampling, np.broadcast_to(noisy, x.shape)


def _null_parts(model: Model, x: Array) -> tuple[Array, Array, Array]:
    """Return expected counts, and variances of observed less expected under the hypothesis: of sampling, of unit noise.

    Smooth in the counts, real or complex (..., d).
    """
    if isinstance(model, GoodnessOfFit):
        return _level_parts(model, x)
    r, c = model.shape
    table, size = x.reshape(*x.shape[:-1], r, c), x.sum(axis=-1)
    sizes = model.sizes if isinstance(model, Homogeneity) else None
    known = sizes is not None
    if sizes is not None:
        by_row = np.broadcast_to(sizes, table.shape[:-1])
        total = by_row.sum(axis=-1)
    elif isinstance(model, Independence):
        known = model.nobs is not None
        total = np.full(size.shape, model.nobs) if known else _at_least(size)
        by_row = _at_least(table.sum(axis=-1) + ((total - size) / r)[..., None])
    else:
        by_row = _at_least(table.sum(axis=-1))
        total = by_row.sum(axis=-1)
    by_column = _at_least(table.sum(axis=-2) + ((total - size) / c)[..., None])
    a = (by_row / by_row.sum(axis=-1, keepdims=True))[..., :, None]
    b = (by_column / by_column.sum(axis=-1, keepdims=True))[..., None, :]
    noisy = (1 - 2 * a + r * a**2) * (1 - 2 * b + c * b**2)
    if known:
        noisy = 1 + (a**2 * r - 2 * a) * (c - 1) / c + 0 * b
        if sizes is None:
            noisy = noisy + (b**2 * c - 2 * b) * (r - 1) / r
    expected = total[..., None, None] * a * b
    return expected.reshape(x.shape), (expected * (1 - a) * (1 - b)).reshape(x.shape), noisy.reshape(x.shape)


def _at_least(x: Array) -> Array:
    return np.where(np.real(x) < _LEAST, _LEAST, x)


def _sampling_variance(model: Model, values: Array, slope: Array) -> Array:
    """Variance that sampling gives to functions with slopes (..., count, function), at the noisy shares."""
    counts = np.maximum(values, 0.0)
    if isinstance(model, Homogeneity):
        r, c = model.shape
        table = counts.reshape(*values.shape[:-1], r, c)
        sizes = np.maximum(values.reshape(table.shape).sum(axis=-1), _LEAST) if model.sizes is None else model.sizes
        groups, sizes = table, np.broadcast_to(sizes, table.shape[:-1])
    else:
        groups = counts[..., None, :]
        size = np.maximum(values.sum(axis=-1), _LEAST) if model.nobs is None else float(model.nobs)
        sizes = np.broadcast_to(size, values.shape[:-1])[..., None]
    shares = groups / np.maximum(groups.sum(axis=-1, keepdims=True), 1e-300)
    slopes = slope.reshape(*groups.shape, slope.shape[-1])
    mean = np.einsum("...gk,...gkf->...gf", shares, slopes)
    square = np.einsum("...gk,...gkf->...gf", shares, slopes**2)
    return np.asarray((sizes[..., None] * np.maximum(square - mean**2, 0.0)).sum(axis=-2))


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


def _moments(at: Derivatives, counts: Array, noise: CountNoise, *, known: bool) -> tuple[Array, Array, Array]:
    """Bias and variance (...) of the second-order expansion at counts (..., d), and the variance of that variance.

    Of the last one only what does not come with the squared effect itself.
    """
    _, slope, hessian = at
    variance, shared = noise.variance, float(known)
    own = np.diagonal(hessian, axis1=-2, axis2=-1)
    inner = hessian.mean(axis=-1)
    product = hessian * (counts + variance)[..., None, :] - shared * variance * inner[..., None]
    bias = 0.5 * np.diagonal(product, axis1=-2, axis2=-1).sum(axis=-1)
    linear = (slope**2 * (counts + variance)).sum(axis=-1) - shared * variance * slope.sum(axis=-1) ** 2 / slope.shape[
        -1
    ]
    square = 0.5 * np.einsum("...ij,...ji->...", product, product)
    third = (slope * own * counts).sum(axis=-1)
    fourth = 0.25 * (own**2 * (counts + _fourth(noise))).sum(axis=-1)
    spread = slope * (counts + variance)
    change = slope**2 + 2 * np.einsum("...ij,...j->...i", hessian, spread)
    own_share = (change * spread).sum(axis=-1) ** 2 / np.maximum((slope * spread).sum(axis=-1), 1e-300)
    unsure = np.maximum((change**2 * (counts + variance)).sum(axis=-1) - own_share, 0.0)
    return bias, np.maximum(linear + square + fourth + third, 0.5 * (linear + square)), unsure


def _effect_size(
    counts: Array,
    null: Array,
    derivatives: Callable[[Array], Derivatives],
    noise: CountNoise,
    *,
    known: bool,
    clear: NDArray[np.bool_],
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
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        reached = function(middle**2) >= goal
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return np.asarray((0.5 * (low + high)) ** 2)
