"""Distribution functions and quantiles from noisy counts in a dyadic tree.

*Least squares.* With independent noise of variance ``s_k^2`` on the counts of level k (blocks of ``2^k`` leaves) the
normal equations of the leaves' counts are diagonal in the Haar basis: a wavelet over ``2^j`` leaves has the eigenvalue
``sum_{k < j} 2^k / s_k^2``, the constant ``sum_k 2^k / s_k^2``. So the best linear estimates, which are consistent
(every node is the sum of its children), and the variance of any combination of them take time proportional to the
number of leaves.

*Quantiles.* If Q is the p-quantile, ``count below Q - p * number of rows`` has mean 0 and variance ``n p (1 - p)`` from
sampling plus a known one from noise. The interval contains the values at which this is not rejected. It needs no
density and allows ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats
from scipy.linalg import block_diag
from scipy.optimize import isotonic_regression

from dpinfer.statistics.inference import Contrasts, Inference, rows_of, single, variance_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from dpinfer.statistics.arrays import Array, Mask, Places

    Counted = Callable[[int], None] | None


METHODS = ("auto", "score", "wald")

_FEW = 4
"""Leaves within which an interval is wide for the leaves more than for anything else."""

_LEVEL = 0.05
"""Standard errors are those of a normal with the interval of this level."""

_LEAST, _SEPARATE = 1e-9, 1e-6
"""Least standard error, as a share of the bounds; and share of a variance that keeps covariances positive definite
where quantiles are one and the same tied value."""

_KNOWN = 1e-6
"""Standard deviation below which the rank of a quantile is known: of the first and the last."""

_LARGE = 3.0
"""Standard deviations of noise beyond which a leaf is known to contain a value shared by many rows."""


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
        Eigenvalues of the normal equations: of the constant (infinite if the total is public), then of the wavelets
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
        """Number of rows below every edge (m + 1,), nondecreasing from 0 to the total."""
        inner, top = np.cumsum(self.leaves[:-1]), max(self.total, 0.0)
        rising = isotonic_regression(inner).x if len(inner) else inner
        return np.concatenate([[0.0], np.clip(rising, 0.0, top), [top]])

    @cached_property
    def cdf(self) -> Array:
        """The distribution function at every edge (m + 1,)."""
        return np.append(np.clip(self.cumulative[:-1] / self.rows, 0.0, 1.0), 1.0)

    def wavelets(self, places: ArrayLike) -> Array:
        """Coefficients (k, L) of the indicators of the leaves below positions, for the one wavelet that each cuts.

        Wavelets are over 2, 4, ..., 2^L leaves; the coefficient is 0 if none of them is cut. A position is a number of
        leaves; one between two edges interpolates between them.
        """
        lengths = 2 ** np.arange(1, len(self.precisions))
        inside = np.asarray(places)[:, None] % lengths
        return np.asarray(np.minimum(inside, lengths - inside) / np.sqrt(lengths))

    def noise_variance(self, probability: float | Array) -> Array:
        """Noise variance of ``count below an edge - probability * total``, at every edge (m + 1,)."""
        edges = np.arange(len(self.edges))
        constant = (edges - np.asarray(probability) * self.size) / np.sqrt(self.size)
        within = (self.wavelets(edges) ** 2 / self.precisions[1:]).sum(axis=1)
        return np.asarray(within + constant**2 / self.precisions[0])

    def noise_covariance(self, places: Array, probabilities: Array) -> Array:
        """Noise covariance of ``count below a place - probability * total`` for k pairs of them (k, k)."""
        found, own = np.zeros((len(places), len(places))), self.wavelets(places)
        for level, precision in enumerate(self.precisions[1:]):
            wavelet = places // 2 ** (level + 1)
            found += np.where(np.equal.outer(wavelet, wavelet), np.outer(own[:, level], own[:, level]), 0) / precision
        constant = (places - probabilities * self.size) / np.sqrt(self.size)
        return np.asarray(found + np.outer(constant, constant) / self.precisions[0])


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
    depth, public = len(variances) - 1, variances[0] == 0
    weights = np.where(variances > 0, 1 / np.where(variances > 0, variances, 1.0), 0.0)
    # Weighted sums over the nodes that hold each leaf; then differences between halves, from small blocks to large.
    pooled = np.zeros(2**depth)
    for k in range(depth + 1):
        pooled += np.repeat(counts[2**k - 1 : 2 ** (k + 1) - 1] * weights[k], 2 ** (depth - k))
    gathered = np.cumsum(2.0 ** np.arange(depth + 1) * weights[::-1])
    precisions = np.concatenate([[np.inf if public else gathered[-1]], gathered[:-1]])
    differences, sums = [], pooled
    for j in range(1, depth + 1):
        pairs = sums.reshape(-1, 2)
        differences.append((pairs[:, 0] - pairs[:, 1]) / precisions[j])
        sums = pairs.sum(axis=1)
    nodes = np.array([counts[0] if public else sums[0] / precisions[0]])
    for difference in reversed(differences):
        nodes = np.stack([(nodes + difference) / 2, (nodes - difference) / 2], axis=1).ravel()
    total = float(counts[0]) if public else float(nodes.sum())
    return Tree(np.asarray(edges, dtype=np.float64), nodes[: len(edges) - 1], total, precisions)


@dataclass(frozen=True, eq=False)
class QuantileInference(Inference):
    """Quantiles of one column, by group.

    Attributes
    ----------
    trees : tuple of Tree
        One per group.
    probabilities : ndarray (k,)
        Between 0 and 1.
    step : float
        Integers in a leaf; 0 for a Real.
    selected : ndarray (G, k) or None
        Quantiles chosen by the exponential mechanism; otherwise they are computed from the tree.
    dependence : int
        Sampling variances are multiplied by it: rows of one person may depend on each other.
    continuous : bool
        Whether values of a Real are known to be untied: endpoints of intervals are then interpolated within leaves.
    """

    trees: tuple[Tree, ...]
    probabilities: Array
    step: float = 0.0
    selected: Array | None = None
    dependence: int = 1
    continuous: bool = False

    methods = METHODS

    @cached_property
    def _gaps(self) -> tuple[Array, Array]:
        """Counts below every edge minus their expectation at each quantile, and standard errors (G k, m + 1)."""
        p, alike = self.probabilities[:, None], self.dependence if self.target == "population" else 0
        gaps = [tree.cumulative - p * max(tree.total, 0.0) for tree in self.trees]
        noises = [np.maximum(tree.noise_variance(p), 1e-300) for tree in self.trees]
        errors = [np.sqrt(t.rows * p * (1 - p) * alike + noise) for t, noise in zip(self.trees, noises, strict=True)]
        return np.concatenate(gaps), np.concatenate(errors)

    @cached_property
    def _places(self) -> Array:
        """Places of the estimates, in leaves (G k,)."""
        return _crossings(self._gaps[0])

    def _values(self, places: Array) -> Array:
        """Values at positions between leaf edges; for integers the nearest in the leaf."""
        edges = self.trees[0].edges
        leaf = np.minimum(places.astype(int), len(edges) - 2)
        inside = edges[leaf] + (places - leaf) * (edges[leaf + 1] - edges[leaf])
        whole = np.clip(np.rint(inside), np.ceil(edges[leaf]), np.floor(edges[leaf + 1]))
        return np.asarray(whole if self.step else inside)

    @cached_property
    def params(self) -> Array:
        """The quantiles (G k,)."""
        return self._values(self._places) if self.selected is None else self.selected.ravel()

    def _scored(self, alpha: float) -> tuple[Array, Array]:
        """Intervals of the values that are not rejected (G k, 2), and their widths in leaves (G k,)."""
        (gaps, errors), edges, z = self._gaps, self.trees[0].edges, stats.norm.isf(alpha / 2)
        low, high = _crossings(gaps + z * errors), len(edges) - 1 - _crossings((z * errors - gaps)[:, ::-1])
        inner = len(edges) - 2
        first = np.minimum(np.floor(low), inner).astype(int)
        last = np.clip(np.ceil(high) - 1, 0, inner).astype(int)
        ends = np.stack([edges[first], edges[last + 1]], axis=1)
        if self.step:
            ends = np.stack([np.ceil(ends[:, 0]), np.floor(ends[:, 1])], axis=1)
        elif self.continuous:  # values that were clamped are tied at the bounds
            tied = np.stack([first == 0, last == inner], axis=1)
            ends = np.where(tied, ends, np.stack([self._values(low), self._values(high)], axis=1))
        return ends, high - low

    @cached_property
    def _errors(self) -> tuple[Array, Mask, Array]:
        """Standard errors that intervals of level `_LEVEL` show, and whether ranks are known; change with the rank."""
        ends, edges, errors = self._scored(_LEVEL)[0], self.trees[0].edges, self._gaps[1]
        place = np.minimum(self._places.astype(int), len(edges) - 1)
        ranks = errors[np.arange(len(place)), place]
        least, known = _LEAST * (edges[-1] - edges[0]), ranks <= _KNOWN
        found = np.maximum((ends[:, 1] - ends[:, 0]) / (2 * stats.norm.isf(_LEVEL / 2)), least)
        return found, known, np.where(known, 0.0, found / np.maximum(ranks, _KNOWN))

    @cached_property
    def cov_sampling(self) -> Array:
        """Covariance from sampling (G k, G k): 0 between groups."""
        p, slopes = self.probabilities, self._errors[2]
        low, high = np.minimum.outer(p, p), np.maximum.outer(p, p)
        ranks = low * (1 - high) * self.dependence * (self.target == "population")
        return np.asarray(block_diag(*(tree.rows * ranks for tree in self.trees)) * np.outer(slopes, slopes))

    @cached_property
    def cov_noise(self) -> Array:
        """Covariance from privacy noise (G k, G k): 0 between groups."""
        errors, known, slopes = self._errors
        by_tree = zip(self.trees, self._places.reshape(len(self.trees), -1), strict=True)
        blocks = [tree.noise_covariance(places, self.probabilities) for tree, places in by_tree]
        found = block_diag(*blocks) * np.outer(slopes, slopes)
        own = np.diag(found) + np.diag(self.cov_sampling)
        return np.asarray(found + np.diag(_SEPARATE * own + np.where(known, errors**2, 0.0)))

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings."""
        found = []
        if any(tree.total <= _LARGE * np.sqrt(tree.size / tree.precisions[0]) for tree in self.trees):
            found.append("privacy noise dominates the number of rows: intervals extend to the declared bounds")
        narrow = self._scored(_LEVEL)[1].min() < _FEW < len(self.trees[0].edges) - 1
        if narrow and self.step != 1 and not self.continuous:
            found.append(
                "the leaves of the tree are wide relative to an interval, whose limits are rounded outward to them: "
                "use a larger resolution=, or continuous=True if the column has no ties"
            )
        if self.dependence > 1 and self.target == "population":
            found.append(
                f"a person has up to {self.dependence} rows, which may be correlated in any way: sampling variances "
                f"are {self.dependence} times those of independent rows, so intervals may be conservative"
            )
        return tuple(found)

    def _combined(self, rows: Array) -> tuple[Contrasts, Places, Places]:
        """Return combinations (c,) with a normal reference; and those with a score test, by quantile."""
        normal = Contrasts(rows @ self.params, np.sqrt(variance_of(rows, self.cov_sampling + self.cov_noise)))
        own = single(rows) if self.method == "score" else np.full(len(rows), -1)
        return normal, np.flatnonzero(own >= 0), own[own >= 0]

    def _ends(self, rows: Array, alpha: float) -> Array:
        """See `Inference`."""
        normal, judged, own = self._combined(rows)
        ends, (low, high), held = normal.intervals(alpha), self._scored(alpha)[0][own].T, self.params[own]
        ends[judged] = np.stack([np.minimum(low, held), np.maximum(high, held)], axis=1)
        return ends

    def _tails(self, rows: Array, values: Array) -> Array:
        """See `Inference`."""
        normal, judged, own = self._combined(rows)
        found, edges, value = normal.pvalues(values), self.trees[0].edges, values[judged]
        inner = len(edges) - 2
        leaf = np.clip(np.searchsorted(edges, value, side="right") - 1, 0, inner)
        (gap, above), (error, error_above) = ((one[own, leaf], one[own, leaf + 1]) for one in self._gaps)
        under, over = gap / error, above / error_above
        if self.continuous and not self.step:
            share = (value - edges[leaf]) / (edges[leaf + 1] - edges[leaf])
            between = (gap * (1 - share) + above * share) / (error * (1 - share) + error_above * share)
            tied = (leaf == 0) | (leaf == inner)
            under, over = np.where(tied, under, between), np.where(tied, over, between)
        pvalues = np.minimum(1.0, 2 * np.minimum(stats.norm.sf(under), stats.norm.cdf(over)))
        found[judged] = np.where((edges[0] <= value) & (value <= edges[-1]), pvalues, 0.0)
        return found

    def wald(self, restrictions: Array, values: Array) -> tuple[float, float, float]:
        """See `Inference`; restrictions may depend on each other."""
        rows = rows_of(restrictions)
        gap = rows @ self.params - np.broadcast_to(values, len(rows))
        cov = rows @ (self.cov_sampling + self.cov_noise) @ rows.T
        statistic = float(gap @ np.linalg.pinv(cov, hermitian=True) @ gap)
        df = float(np.linalg.matrix_rank(rows))
        pvalue = stats.chi2.sf(statistic, df) if len(rows) > 1 else self.contrast_pvalues(rows, values)[0]
        return statistic, df, float(pvalue)


def _crossings(gaps: Array) -> Array:
    """Places, in leaves, at which rising lines through the edges (q, m + 1) first reach 0 (q,)."""
    leaves, each = gaps.shape[1] - 1, np.arange(len(gaps))
    after = np.where((gaps >= 0).any(axis=1), (gaps >= 0).argmax(axis=1), leaves + 1)
    at = np.clip(after, 1, leaves)
    before, reached = gaps[each, at - 1], gaps[each, at]
    inside = (after > 0) & (after <= leaves)
    between = at - 1 - before / np.where(inside, reached - before, 1.0)
    return np.asarray(np.where(inside, between, np.minimum(after, leaves)))


def cdf_interval(tree: Tree, alpha: float, *, dependence: float = 1.0) -> Array:
    """Pointwise intervals for the distribution function at every edge, (m + 1, 2).

    They contain the probabilities p at which ``count - p n`` is within z standard deviations of 0: the solution of a
    quadratic inequality, clipped to [0, 1]. The sampling variance is multiplied by ``dependence``, which is 0 if the
    rows are the population.
    """
    z2, constant = float(stats.norm.isf(alpha / 2)) ** 2, 1 / tree.precisions[0]
    n, count, edges = tree.rows, tree.cumulative, np.arange(len(tree.edges))
    a = n**2 - z2 * (tree.size * constant - n * dependence)
    b = -2 * n * count - z2 * (n * dependence - 2 * edges * constant)
    c = count**2 - z2 * tree.noise_variance(0.0)
    root = np.sqrt(np.maximum(b**2 - 4 * a * c, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.stack([(-b - root) / (2 * a), (-b + root) / (2 * a)], axis=1)
    found: Array = np.where(a > 0, np.clip(ends, 0.0, 1.0), np.array([0.0, 1.0]))
    found[0], found[-1] = 0.0, 1.0
    return found


def simultaneous_width(
    tree: Tree, alpha: float, *, dependence: float = 1.0, replicates: int = 999, seed: int = 0, counted: Counted = None
) -> float:
    """Half width of a band that covers the whole distribution function with probability ``1 - alpha``.

    It is the quantile of the largest deviation at any edge of a Brownian bridge at the estimated distribution function
    plus the noise of the tree, both normal. ``dependence`` as in `cdf_interval`; ``seed`` is public; ``counted`` is
    called with 1 after every replicate.
    """
    rng, steps = np.random.default_rng(seed), np.diff(tree.cdf)
    steps = steps / max(float(steps.sum()), 1e-300)
    share = np.concatenate([[0.0], np.cumsum(steps)])
    largest = np.empty(replicates)
    for place in range(replicates):
        nodes = np.array([rng.normal() * np.sqrt(tree.size / tree.precisions[0])])
        for j in range(len(tree.precisions) - 1, 0, -1):
            difference = rng.normal(size=len(nodes)) * np.sqrt(2.0**j / tree.precisions[j])
            nodes = np.stack([(nodes + difference) / 2, (nodes - difference) / 2], axis=1).ravel()
        noise = np.concatenate([[0.0], np.cumsum(nodes[: len(steps)])])
        walk = np.concatenate([[0.0], np.cumsum(rng.normal(size=len(steps)) * np.sqrt(steps))])
        bridge = (walk - share * walk[-1]) * np.sqrt(dependence * tree.rows)
        largest[place] = np.abs(bridge + noise - share * nodes.sum()).max()
        if counted is not None:
            counted(1)
    rank = int(np.ceil((1 - alpha) * (replicates + 1)))
    return float(np.sort(largest)[min(rank, replicates) - 1] / tree.rows)
