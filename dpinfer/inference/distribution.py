"""A distribution function from noisy counts in a dyadic tree, by generalised least squares.

With independent noise of variance ``s_k^2`` on the counts of level k (blocks of ``2^k`` leaves) the normal equations
of the leaves' counts are diagonal in the Haar basis: a wavelet over ``2^j`` leaves has the eigenvalue
``sum_{k < j} 2^k / s_k^2``, the constant ``sum_k 2^k / s_k^2``. So the best linear estimates, which are consistent
(every node is the sum of its children), and the variance of any combination of them take time proportional to the
number of leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import isotonic_regression

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dpinfer.numerics.arrays import Array, Places

__all__ = ["Tree", "fit_tree", "prefix_coefficients"]


@dataclass(frozen=True, eq=False)
class Tree:
    """Consistent counts of a tree over one column, in one group.

    Attributes
    ----------
    edges : ndarray (m + 1,)
        Edges of the leaves within the bounds.
    leaves : ndarray (m,)
        Best linear estimates of the leaves' counts.
    total : float
        The number of rows: noisy, or public.
    precisions : ndarray (L + 1,)
        Eigenvalues of the normal equations: of the constant (infinite where the total is public), then of the wavelets
        over 2, 4, ..., 2^L leaves.
    """

    edges: Array
    leaves: Array
    total: float
    precisions: Array

    @property
    def size(self) -> int:
        """Leaves of the whole tree, a power of two."""
        return int(2 ** (len(self.precisions) - 1))

    @property
    def rows(self) -> float:
        """The number of rows, at least 1."""
        return max(self.total, 1.0)

    @cached_property
    def cumulative(self) -> Array:
        """Number of rows below every edge (m + 1,): never falling, from 0 to the total."""
        raw = np.concatenate([[0.0], np.cumsum(self.leaves)])
        inner = isotonic_regression(raw[1:-1]).x if len(raw) > 2 else raw[1:-1]
        top = max(self.total, 0.0)
        return np.concatenate([[0.0], np.clip(inner, 0.0, top), [top]])

    @cached_property
    def cdf(self) -> Array:
        """The distribution function at every edge (m + 1,)."""
        found = np.clip(self.cumulative / self.rows, 0.0, 1.0)
        found[-1] = 1.0
        return found

    def noise_variance(self, probability: float | Array) -> Array:
        """Noise variance of ``count below an edge - probability * total``, at every edge (m + 1,)."""
        edges = np.arange(len(self.edges))
        wavelets = prefix_coefficients(edges, self.size)
        constant = (edges - np.asarray(probability) * self.size) / np.sqrt(self.size)
        return np.asarray((wavelets**2 / self.precisions[1:]).sum(axis=1) + constant**2 / self.precisions[0])

    def noise_covariance(self, edges: Array, probabilities: Array) -> Array:
        """Noise covariance of ``count below an edge - probability * total`` for k pairs of them (k, k).

        An edge may lie between two: its place is a number of leaves, interpolated.
        """
        low = np.minimum(np.floor(edges).astype(int), self.size - 1)
        share = (edges - low)[:, None]
        basis = (1 - share) * _whole_basis(low, self.size) + share * _whole_basis(low + 1, self.size)
        basis[:, 0] -= probabilities * np.sqrt(self.size)
        precisions = np.concatenate([[self.precisions[0]], self._by_wavelet])
        scaled = basis / np.sqrt(precisions)
        return np.asarray(scaled @ scaled.T)

    @cached_property
    def _by_wavelet(self) -> Array:
        depth = len(self.precisions) - 1
        return np.concatenate([np.full(self.size >> j, self.precisions[j]) for j in range(1, depth + 1)])


def prefix_coefficients(edges: ArrayLike, size: int) -> Array:
    """Coefficients of the indicator of the leaves below an edge: of the one wavelet of each length that it cuts.

    Parameters
    ----------
    edges : ndarray of int (k,)
        Number of leaves below.
    size : int
        Leaves, a power of two.

    Returns
    -------
    ndarray (k, L)
        Of wavelets over 2, 4, ..., 2^L = size leaves; 0 where none is cut.
    """
    depth = int(size).bit_length() - 1
    lengths = 2 ** np.arange(1, depth + 1)
    inside = np.asarray(edges)[:, None] % lengths
    return np.asarray(np.minimum(inside, lengths - inside) / np.sqrt(lengths))


def _whole_basis(edges: Places, size: int) -> Array:
    """Coefficients of the indicators of the leaves below edges in the whole Haar basis (k, size), constant first."""
    depth = int(size).bit_length() - 1
    cut = prefix_coefficients(edges.astype(np.float64), size)
    basis = np.zeros((len(edges), size))
    basis[:, 0] = edges / np.sqrt(size)
    start = 1
    for j in range(1, depth + 1):
        wavelets = size >> j
        which = np.minimum(edges >> j, wavelets - 1)
        basis[np.arange(len(edges)), start + which] = cut[:, j - 1]
        start += wavelets
    return basis


def fit_tree(counts: Array, variances: Array, edges: Array) -> Tree:
    """Make the noisy counts of a tree consistent.

    Parameters
    ----------
    counts : ndarray (2 m - 1,)
        From the root to the leaves, level by level.
    variances : ndarray (L + 1,)
        Noise variance of the counts of each level, from the root; 0 at the root where the total is public.
    edges : ndarray
        Edges of the leaves within the bounds.

    Returns
    -------
    Tree

    Notes
    -----
    Hay, Rastogi, Miklau & Suciu (2010) give the two passes for equal variances.
    """
    depth = len(variances) - 1
    size = 2**depth
    public = variances[0] == 0
    weights = np.where(variances > 0, 1 / np.where(variances > 0, variances, 1.0), 0.0)
    levels = [counts[2**k - 1 : 2 ** (k + 1) - 1] for k in range(depth + 1)]
    # Weighted sums over the nodes that hold each leaf; then differences between halves, from small blocks to large.
    pooled = np.zeros(size)
    for k in range(depth + 1):
        pooled += np.repeat(levels[k] * weights[k], size >> k)
    sizes = 2.0 ** np.arange(depth + 1)  # leaves in a node, from the leaves up
    gathered = np.cumsum(sizes * weights[::-1])
    precisions = np.concatenate([[np.inf if public else gathered[-1]], gathered[:-1]])
    differences, sums = [], pooled
    for j in range(1, depth + 1):
        pairs = sums.reshape(-1, 2)
        differences.append((pairs[:, 0] - pairs[:, 1]) / precisions[j])
        sums = pairs.sum(axis=1)
    nodes = np.array([levels[0][0] if public else sums[0] / precisions[0]])
    for difference in reversed(differences):
        nodes = np.stack([(nodes + difference) / 2, (nodes - difference) / 2], axis=1).ravel()
    held = len(edges) - 1
    total = float(counts[0]) if public else float(nodes.sum())
    return Tree(np.asarray(edges, dtype=np.float64), nodes[:held], total, precisions)
