"""Binomial probabilities and their geometrically discounted tails, for any size and without a sum over counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special, stats

if TYPE_CHECKING:
    from dpinfer.numerics.arrays import Array

__all__ = ["binomial_pmf", "binomial_sf", "discounted_tail"]

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
