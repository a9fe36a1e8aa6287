"""Effect sizes of rank tests on noisy counts of leaves, with intervals: of a population, by influence functions.

The estimates are functions of noisy counts X + Z. Their sampling variance comes from shares that are fitted to the
counts and not negative, and their noise variance is v times the sum of the squared derivatives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

from dpinfer.inference.testing.count_noise import LEAST
from dpinfer.inference.testing.leaf_fits import HIDING
from dpinfer.inference.testing.scores import below, nearest_shares

if TYPE_CHECKING:
    from dpinfer.inference.testing.rank_association import RankAssociation
    from dpinfer.inference.testing.ranks import GroupRanks, SignedRanks
    from dpinfer.numerics.arrays import Array, Mask

__all__ = ["LeafEffect", "mean_ranks", "rank_biserial", "rank_correlation", "superiority"]

_GRID = np.linspace(0.0, 1.0, 501)
_LEAST_SPREAD = 1e-6
"""Variance that midranks are taken to have at least; 1/12 where there are no ties."""

_TINY = 1e-300


class LeafEffect(NamedTuple):
    """Effect sizes of R releases, each (R,), with standard errors (of noise alone, too) and the ends of intervals."""

    estimate: Array
    error: Array
    noise_error: Array
    lower: Array
    upper: Array


def superiority(model: GroupRanks, values: Array, alpha: float) -> LeafEffect:
    """Probability that a value of the first group is above one of the second, ties counting half.

    The interval holds each probability t at which ``U - t N1 N2`` is within its error (Fieller): where noise hides a
    group, all of them.
    """
    table, v = values.reshape(-1, *model.shape), model.noise.variance
    first, second = table[:, 0], table[:, 1]
    top = np.einsum("nk,nk->n", first, below(second))
    totals = table.sum(axis=2)
    sizes = np.maximum(totals, max(np.sqrt(v * table.shape[2]), LEAST))
    p, q = (nearest_shares(table[:, g], sizes[:, g]) for g in (0, 1))
    over, under = below(q), 1 - below(p)
    a, b = sizes[:, 1, None] * over, sizes[:, 0, None] * under
    freed = sizes**2 / np.maximum(sizes - 1, LEAST)
    sampling = freed[:, 0] * _spread(p, a) + freed[:, 1] * _spread(q, b)
    t = _GRID
    # Both raw totals of pairs carry noise of their own, so that their squares count the noise times noise twice.
    raw = below(second), first.sum(axis=1, keepdims=True) - below(first)
    noisy = v * (_about(raw[0], totals[:, 1, None] * t) + _about(raw[1], totals[:, 0, None] * t))
    product = totals[:, 0] * totals[:, 1]
    within = (top[:, None] - t * product[:, None]) ** 2 <= stats.norm.isf(alpha / 2) ** 2 * (sampling[:, None] + noisy)
    estimate = np.clip(top / np.where(product > 0, product, np.inf), 0.0, 1.0)
    estimate = np.where(product > 0, estimate, 0.5)
    lower, upper = _ends(within, estimate)
    place = np.rint(estimate * (len(t) - 1)).astype(np.intp)[:, None]
    noise = np.take_along_axis(noisy, place, axis=1)[:, 0]
    scale = np.maximum(np.prod(sizes, axis=1), 1.0)
    return LeafEffect(estimate, np.sqrt(sampling + noise) / scale, np.sqrt(noise) / scale, lower, upper)


def _spread(shares: Array, scores: Array) -> Array:
    """Variance of scores under shares, (R,)."""
    mean = np.einsum("nk,nk->n", shares, scores)
    return np.asarray(np.maximum(np.einsum("nk,nk->n", shares, scores**2) - mean**2, 0.0))


def _about(scores: Array, centres: Array) -> Array:
    """Sum of squared distances of scores (R, m) from centres (R, t), (R, t)."""
    first, second = scores.sum(axis=1)[:, None], (scores**2).sum(axis=1)[:, None]
    return np.asarray(second - 2 * centres * first + scores.shape[1] * centres**2)


def _ends(within: Array, estimate: Array) -> tuple[Array, Array]:
    half = 0.5 * (_GRID[1] - _GRID[0])
    some = within.any(axis=1)
    low = np.where(some, _GRID[within.argmax(axis=1)] - half, estimate)
    high = np.where(some, _GRID[len(_GRID) - 1 - within[:, ::-1].argmax(axis=1)] + half, estimate)
    return np.clip(np.minimum(low, estimate), 0.0, 1.0), np.clip(np.maximum(high, estimate), 0.0, 1.0)


def rank_biserial(model: SignedRanks, values: Array, alpha: float) -> LeafEffect:
    """Share of the signed ranks above zero less that below, zeros left out."""
    v, half = model.noise.variance, values.shape[1] // 2
    _, apart = model.folded(values)
    size, shares = model.shares(values)
    used = shares[:, 1:]
    ranks = below(used)
    bottom = np.maximum(0.5 * used.sum(axis=1) ** 2, _TINY)
    estimate = np.clip(np.einsum("nk,nk->n", ranks, apart) / size / bottom, -1.0, 1.0)
    fitted = apart / size[:, None]
    ahead = fitted[:, ::-1].cumsum(axis=1)[:, ::-1] - 0.5 * fitted
    base = estimate[:, None] * used.sum(axis=1)[:, None]
    above, under = (ranks + ahead - base) / bottom[:, None], (-ranks + ahead - base) / bottom[:, None]
    each = np.concatenate([under[:, ::-1], np.zeros((len(values), 1)), above], axis=1)
    share = nearest_shares(values, size)
    hidden = (size < HIDING * np.sqrt(v * (2 * half + 1))) & (model.nobs is None)
    return _wald(estimate, each, share, size, v, hidden, alpha)


def rank_correlation(model: RankAssociation, values: Array, alpha: float) -> LeafEffect:
    """Spearman's rank correlation, with midranks and the correction for ties."""
    table, v = values.reshape(-1, *model.shape), model.noise.variance
    found = model.margins(values)
    size = np.full(len(table), float(model.nobs)) if model.nobs else np.maximum(table.sum(axis=(1, 2)), LEAST)
    p, q = (nearest_shares(table.sum(axis=axis), size) for axis in (2, 1))
    a, b = below(p) - 0.5, below(q) - 0.5
    first, second = np.maximum(_spread(p, a), _LEAST_SPREAD), np.maximum(_spread(q, b), _LEAST_SPREAD)
    joint = table / size[:, None, None]
    top = np.einsum("nij,ni,nj->n", joint, a, b)
    root = np.sqrt(first * second)
    estimate = np.clip(top / root, -1.0, 1.0)
    slope = a[:, :, None] * b[:, None] + _ahead(np.einsum("nij,nj->ni", joint, b))[:, :, None]
    slope = slope + _ahead(np.einsum("nij,ni->nj", joint, a))[:, None]
    own = [-0.25 * s**2 / c[:, None] for s, c in ((p, first), (q, second))]
    each = slope / root[:, None, None] - 0.5 * estimate[:, None, None] * (own[0][:, :, None] + own[1][:, None])
    flat = table.reshape(len(table), -1)
    return _wald(estimate, each.reshape(len(table), -1), nearest_shares(flat, size), size, v, found.hidden, alpha)


def _ahead(sums: Array) -> Array:
    """Add up from each leaf on, half of its own (..., m)."""
    return np.asarray(sums[..., ::-1].cumsum(axis=-1)[..., ::-1] - 0.5 * sums)


def _wald(
    estimate: Array, each: Array, shares: Array, size: Array, variance: float, hidden: Mask, alpha: float
) -> LeafEffect:
    """Interval from the influence ``each`` (R, m) of a row on an estimate in [-1, 1]; all where noise hides it."""
    centred = each - np.einsum("nk,nk->n", shares, each)[:, None]
    noise = variance * (centred**2).sum(axis=1) / size**2
    error = np.sqrt(_spread(shares, each) / size + noise)
    reach = np.where(hidden, np.inf, stats.norm.isf(alpha / 2) * error)
    lower, upper = np.maximum(estimate - reach, -1.0), np.minimum(estimate + reach, 1.0)
    return LeafEffect(estimate, error, np.sqrt(noise), lower, upper)


def mean_ranks(table: Array, variance: float) -> tuple[Array, Array, Array]:
    """Mean midrank of the rows of each group among all, as a share, and its standard errors: each (R, G)."""
    totals = table.sum(axis=2)
    sizes = np.maximum(totals, np.maximum(np.sqrt(variance * table.shape[2]), LEAST))
    pooled = nearest_shares(table.sum(axis=1), np.maximum(totals.sum(axis=1), LEAST))
    ranks = below(pooled)
    mean = np.clip(np.einsum("ngk,nk->ng", table, ranks) / sizes, 0.0, 1.0)
    spread = np.stack([_spread(nearest_shares(table[:, g], sizes[:, g]), ranks) for g in range(table.shape[1])], axis=1)
    noise = variance * np.stack([((ranks - mean[:, [g]]) ** 2).sum(axis=1) for g in range(table.shape[1])], axis=1)
    return mean, np.sqrt(spread / sizes + noise / sizes**2), np.sqrt(noise) / sizes
