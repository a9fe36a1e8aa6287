"""Tails: of a standardised sum of one normal and several Laplace variables, and of binomial counts."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import special, stats

from dpinfer.statistics.numerical import bisected

if TYPE_CHECKING:
    from dpinfer.statistics.arrays import Array

_CUT, _NODES, _FAR = 40.0, 320, 7.0
_T, _WEIGHT = np.polynomial.legendre.leggauss(_NODES)
_T, _WEIGHT = _CUT * (_T + 1) / 2, _WEIGHT * _CUT / 2
_CHERNOFF = np.linspace(0.02, 0.998, 50)
_LEAST = 1e-300
_JOINT_DRAWS, _JOINT_SEED = 10_000, 0
_MOST_LOADINGS = 200
_MANY_SHARES, _TOGETHER = 256, 32
"""From so many Laplace variables on, so many are taken at once."""


def _characteristic(shares: Array) -> Array:
    """Characteristic function on the quadrature nodes, (..., nodes)."""
    normal = 1 - shares.sum(axis=-1, keepdims=True)
    out = np.exp(-0.5 * np.clip(normal, 0, None) * _T**2)
    step = 1 if shares.shape[-1] < _MANY_SHARES else _TOGETHER
    with np.errstate(over="ignore"):  # 1 / inf is the 0 that it should be
        for start in range(0, shares.shape[-1], step):
            factors = 1 + 0.5 * shares[..., start : start + step, None] * _T**2
            out = out / (factors.prod(axis=-2) if step > 1 else factors[..., 0, :])
    return np.asarray(out)


def _central(x: Array, weighted: Array) -> Array:
    return np.asarray(1 - (2 / np.pi) * np.einsum("...n,...n->...", np.sin(x[..., None] * _T), weighted))


def _chernoff(x: Array, shares: Array) -> Array:
    pole = 1 / np.sqrt(np.maximum(np.max(shares, axis=-1), 1e-12) / 2)
    reach = np.minimum(pole, 1.5 * x)
    normal = np.clip(1 - shares.sum(axis=-1), 0, None)
    best = np.zeros_like(x)
    for fraction in _CHERNOFF:
        t = fraction * reach
        log_moment = 0.5 * normal * t**2 - np.log1p(-0.5 * shares * t[..., None] ** 2).sum(axis=-1)
        best = np.maximum(best, t * x - log_moment)
    return np.asarray(np.minimum(1.0, 2 * np.exp(-best)))


def laplace_sum_sf(x: Array, shares: Array) -> Array:
    """Two-sided tail probability P(abs(D) >= x) of a sum D with unit variance.

    Parameters
    ----------
    x : ndarray (...)
        Non-negative thresholds, in standard deviations.
    shares : ndarray (..., m)
        Share of the variance of D that each independent Laplace variable carries; what is left is normal.

    Returns
    -------
    ndarray (...)
        By inversion of the characteristic function (Gil-Pelaez 1951); beyond 7 standard deviations an
        upper bound (Chernoff), so that a p-value is never understated.
    """
    x, shares = np.asarray(x, dtype=float), np.asarray(shares, dtype=float)
    x = np.broadcast_to(x, np.broadcast_shapes(x.shape, shares.shape[:-1]))
    near = _central(np.minimum(x, _FAR), _characteristic(shares) * (_WEIGHT / _T))
    far = x > _FAR
    out = np.clip(near, 0, 1)
    if np.any(far):
        out = np.where(far, _chernoff(x, np.broadcast_to(shares, (*x.shape, shares.shape[-1]))), out)
    return out


def laplace_sum_isf(alpha: float, shares: Array) -> Array:
    """Two-sided critical value: the x with P(abs(D) >= x) = alpha; see `laplace_sum_sf`.

    Parameters
    ----------
    alpha : float
        Tail probability, at least 1e-4 for full accuracy.
    shares : ndarray (..., m)
        Variance shares of the Laplace variables.
    """
    shares = np.asarray(shares, dtype=float)
    first = shares.reshape(-1, shares.shape[-1])[:1]
    if shares.shape[:-1] and shares.size > first.size > 0 and (shares == first[0]).all():  # one law for all
        return np.full(shares.shape[:-1], laplace_sum_isf(alpha, first[0]))
    weighted = _characteristic(shares) * (_WEIGHT / _T)
    highest = np.full(shares.shape[:-1], max(_FAR, -np.log(alpha / 2) / np.sqrt(2) + 1))
    _, high = bisected(lambda x: _central(x, weighted) > alpha, np.zeros_like(highest), highest, rounds=34)
    return np.asarray(np.maximum(high, stats.norm.isf(alpha / 2) * 0.5))


def critical_value(alpha: float, df: Array | float | None = None, shares: Array | None = None) -> Array:
    """Two-sided critical value of a studentised sum of one normal and several Laplace variables.

    Parameters
    ----------
    alpha : float
    df : ndarray (...), optional
        Degrees of freedom of the variance that it is divided by; None where that is known.
    shares : ndarray (..., m), optional
        As in `laplace_sum_sf`; None where there is no Laplace variable.
    """
    normal = stats.norm.isf(alpha / 2) if shares is None else laplace_sum_isf(alpha, shares)
    if df is None:
        return np.asarray(normal)
    return np.asarray(stats.t.isf(alpha / 2 if shares is None else stats.norm.sf(normal), df))


def pvalue_of(distance: Array, df: Array | float | None = None, shares: Array | None = None) -> Array:
    """Two-sided p-value of a studentised distance (...); arguments as in `critical_value`.

    With degrees of freedom and Laplace variables, p-values of Student's law below 1e-300 count as that: one of zero
    would be the same for every distance beyond, and Laplace variables have heavier tails.
    """
    if df is None:
        return np.asarray(2 * stats.norm.sf(distance)) if shares is None else laplace_sum_sf(distance, shares)
    found = np.asarray(2 * stats.t.sf(distance, df))
    return found if shares is None else laplace_sum_sf(stats.norm.isf(np.maximum(found, _LEAST) / 2), shares)


def biased_pvalue(distance: Array, shift: Array, df: Array | float | None = None, shares: Array | None = None) -> Array:
    """Largest two-sided p-value of a studentised distance (...) whose centre is off by at most ``shift`` (...).

    Other arguments as in `critical_value`. For a symmetric unimodal law D the probability of ``abs(D + t) >= x`` grows
    with ``abs(t)``, so that the largest is that of the largest shift.
    """

    def upper(x: Array) -> Array:
        half = 0.5 * pvalue_of(np.abs(x), df, shares)
        return np.where(x >= 0, half, 1.0 - half)

    return np.asarray(np.minimum(upper(distance - shift) + upper(distance + shift), 1.0))


def joint_pvalue(
    statistic: float, count: float, df: float = np.inf, loadings: Array | None = None, *, noncentrality: float = 0.0
) -> float:
    """P-value of a squared length of standardised distances: F, or its like with Laplace variables.

    Parameters
    ----------
    statistic : float
        Squared length of ``count`` distances whose covariance is the identity.
    count : float
    df : float
        Degrees of freedom of the variance that they are divided by; infinite where that is known.
    loadings : ndarray (count, m), optional
        How the distances load on independent Laplace variables of variance 1; what these leave of the covariance is
        normal. None where there is no Laplace variable.
    noncentrality : float
        Largest squared length of the mean of the distances.

    Notes
    -----
    A Laplace variable is normal with a variance drawn from the exponential law. Given these variances E the distances
    are normal, and in a direction u, uniform on the sphere, the squared length exceeds s where an F variable exceeds
    ``s / (count q)``, ``q = 1 + sum_j (b_j'u)^2 (E_j - 1)``. The p-value is the mean of these tails over draws of E and
    u with a public seed: smooth in s, with a standard error of about 1% of itself at .05. Exact but for that where the
    noncentrality is 0. With loadings of 0 it is the tail of F.
    """
    if loadings is None:
        return float(_length_sf(statistic, count, df, noncentrality))
    stretched = stretches(loadings)
    return float(np.mean(_length_sf(statistic / stretched, count, df, noncentrality / stretched)))


def stretches(loadings: Array) -> Array:
    """Draws (10,000,) of q in `joint_pvalue`, with a public seed: for loadings (count, m) on Laplace variables."""
    sizes = (loadings**2).sum(axis=0)
    largest = loadings[:, np.argsort(-sizes, kind="stable")[:_MOST_LOADINGS]]  # the sum of the others is about normal
    direction, spread = _joint_draws(*largest.shape)
    return np.asarray(np.maximum(1 + ((direction @ largest) ** 2 * spread).sum(axis=1), 1e-12))


@lru_cache(maxsize=4)
def _joint_draws(count: int, variables: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(_JOINT_SEED)
    direction = rng.standard_normal((_JOINT_DRAWS, count))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return direction, rng.standard_exponential((_JOINT_DRAWS, variables)) - 1


def _length_sf(statistic: Array | float, count: float, df: float, noncentrality: Array | float) -> Array:
    """Tail of a squared length of ``count`` normal distances, divided by a variance of ``df`` degrees of freedom."""
    if not np.any(noncentrality):
        if np.isfinite(df):
            return np.asarray(stats.f.sf(np.asarray(statistic) / count, count, df))
        return np.asarray(stats.chi2.sf(statistic, count))
    if np.isfinite(df):
        return np.asarray(stats.ncf.sf(np.asarray(statistic) / count, count, df, noncentrality))
    return np.asarray(stats.ncx2.sf(statistic, count, noncentrality))


def widened(alpha: float, kurtosis: Array) -> Array:
    """Two-sided critical value of a symmetric law by its excess kurtosis (...), at most 3: that of a Laplace variable.

    Cornish-Fisher; never below the normal one. Of mixtures of normal and Laplace variables it is too large, most of a
    lone Laplace variable: at .05 by less than a twentieth, at .01 by a sixth.
    """
    normal = float(stats.norm.isf(alpha / 2))
    return np.asarray(normal + max(normal**3 - 3 * normal, 0.0) / 24 * kurtosis)


def widened_pvalue(distance: Array, kurtosis: Array) -> Array:
    """Two-sided p-value of a standardised distance (...); `widened` is where it equals alpha."""
    top = np.abs(np.asarray(distance, dtype=np.float64))
    slope = np.asarray(kurtosis) / 24
    low, high = bisected(lambda z: z + np.maximum(z**3 - 3 * z, 0.0) * slope < top, np.zeros_like(top), top, rounds=60)
    return np.asarray(2 * stats.norm.sf(0.5 * (low + high)))


_UNDERFLOW = 1e-250
_NEVER = 1e-280
_LEVELS = 12


def binomial_pmf(count: Array, n: Array, p: Array, complement: Array) -> Array:
    """P(X = count) for X ~ Binomial(n, p), 0 outside 0..n; arguments as in `binomial_sf`."""
    inside = (count >= 0) & (count <= n)
    count, small = np.where(inside, count, 0.0), p <= 0.5
    chance = np.where(small, p, complement)
    chance = np.where(chance < _NEVER, 0.0, chance)  # scipy raises where n / p overflows
    found = stats.binom.pmf(np.where(small, count, n - count), n, chance)
    return np.where(inside, found, 0.0)


def binomial_sf(count: Array, n: Array, p: Array, complement: Array) -> Array:
    """P(X > count) for X ~ Binomial(n, p), by the incomplete beta function.

    Parameters
    ----------
    count, n, p, complement : ndarray (...)
        Whole numbers of either sign, sizes >= 0, probabilities in [0, 1] and 1 - p, all of one shape; the smaller
        of the two probabilities is the one used.

    Returns
    -------
    ndarray (...)
        Relative error about 1e-15 times the square root of n, in the far tail too.
    """
    inside = (count >= 0) & (count < n)
    successes, failures = np.where(inside, count + 1, 1.0), np.where(inside, n - count, 1.0)
    tail = np.empty(np.shape(count))
    small = p <= 0.5
    tail[small] = special.betainc(successes[small], failures[small], p[small])
    tail[~small] = special.betaincc(failures[~small], successes[~small], complement[~small])
    return np.where(inside, tail, np.where(count < 0, 1.0, 0.0))


def discounted_tail(count: Array, n: Array, p: Array, complement: Array, rate: Array) -> Array:
    """Sum over i >= 1 of P(X = count + i) exp(-rate i) for X ~ Binomial(n, p).

    Parameters
    ----------
    count, n, p, complement : ndarray (...)
        Whole numbers of either sign, sizes >= 0, probabilities in [0, 1] and 1 - p, all of one shape.
    rate : ndarray (...)
        Positive, at most about 700.

    Returns
    -------
    ndarray (...)
        Relative error about 1e-15 times the square root of n.

    Notes
    -----
    With ``q = exp(-rate)`` the sum is ``exp(rate count) (1 - p + p q)^n P'(X > count)``, where P' is the
    binomial tilted to ``p q / (1 - p + p q)``. Where that tail underflows, count is far above the tilted mean
    and the sum over ``P(X = count)`` is ``F(1, count - n; count + 1; -q p / (1 - p)) - 1``, by Gauss's
    continued fraction.
    """
    kept = -p * np.expm1(-rate)
    shrunk = complement + p * np.exp(-rate)
    tail = binomial_sf(count, n, p * np.exp(-rate) / shrunk, complement / shrunk)
    moment = n * np.where(kept < 0.5, np.log1p(-np.minimum(kept, 0.5)), np.log(shrunk))
    far = (tail < _UNDERFLOW) & (count < n)
    usable = np.where(tail < _UNDERFLOW, 1.0, tail)
    out: Array = np.where(tail < _UNDERFLOW, 0.0, np.exp(np.minimum(rate * count + moment + np.log(usable), 0.0)))
    if np.any(far):
        odds = p[far] / complement[far] * np.exp(-rate[far])
        out[far] = binomial_pmf(count[far], n[far], p[far], complement[far]) * _gauss(count[far], n[far], odds)
    return out


def _gauss(count: Array, n: Array, odds: Array) -> Array:
    """``F(1, count - n; count + 1; -odds) - 1`` where odds (n - count) / (count + 1) is below 1."""
    level = np.ones_like(count)
    for k in range(_LEVELS, 0, -1):
        odd = np.maximum(n - count - k, 0.0) * (count + k) * odds / ((count + 2 * k) * (count + 2 * k + 1))
        even = k * (n + k) * odds / ((count + 2 * k - 1) * (count + 2 * k))
        level = 1 + even / (1 - odd / level)
    first = odds * (n - count) / (count + 1) / level
    return first / (1 - first)
