"""Quantiles and distribution functions from noisy trees of counts: test inversion, with sampling and noise counted.

If Q is the p-quantile, ``count below Q - p * number of rows`` has mean 0 and variance ``n p (1 - p)`` from sampling
plus a known one from noise. The values at which this is not refuted are the interval: it needs no density, and ties do
no harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpinfer.inference.base import TARGETS, BaseInference
from dpinfer.inference.contrasts import Contrasts, rows_of, single, variance_of
from dpinfer.inference.distribution import prefix_coefficients

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dpinfer.inference.distribution import Tree
    from dpinfer.numerics.arrays import Array

__all__ = ["METHODS", "TARGETS", "QuantileInference", "cdf_interval", "simultaneous_width"]

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
"""Standard deviations of noise from which a leaf tells that it holds a value of many rows."""


@dataclass(frozen=True, eq=False)
class QuantileInference(BaseInference):
    """Quantiles of one column, by group; implements `Inference`.

    Attributes
    ----------
    trees : tuple of Tree
        One per group.
    probabilities : ndarray (k,)
        Between 0 and 1.
    names : tuple of str, length G k
        Group by group.
    step : float
        Whole numbers in a leaf; 0 for a Real.
    selected : ndarray (G, k) or None
        Quantiles that were chosen by the exponential mechanism; otherwise they are read from the tree.
    method : {"score", "wald"}
    target : {"population", "data"}
    dependence : int
        Sampling variances are multiplied by it: rows of one person may depend on each other.
    continuous : bool
        Whether values of a Real are known not to be tied: ends of intervals are then interpolated within leaves.
    nobs_is_public : bool
    """

    trees: tuple[Tree, ...]
    probabilities: Array
    names: tuple[str, ...]
    step: float = 0.0
    selected: Array | None = None
    method: str = "score"
    target: str = "population"
    dependence: int = 1
    continuous: bool = False
    nobs_is_public: bool = False

    methods = METHODS

    @cached_property
    def _found(self) -> list[_Quantile]:
        return [
            _Quantile(tree, float(p), self.step, self._sampling(tree, float(p)), self.continuous)
            for tree in self.trees
            for p in self.probabilities
        ]

    def _sampling(self, tree: Tree, p: float) -> float:
        return tree.rows * p * (1 - p) * self.dependence if self.target == "population" else 0.0

    @cached_property
    def params(self) -> Array:
        """The quantiles (G k,)."""
        if self.selected is not None:
            return self.selected.ravel()
        return np.array([one.estimate for one in self._found])

    @cached_property
    def _errors(self) -> tuple[Array, Array]:
        """Standard errors that intervals of level `_LEVEL` show, and those of ranks (G k,) each."""
        z = float(stats.norm.isf(_LEVEL / 2))
        ends = np.array([one.interval(z) for one in self._found])
        ranges = np.array([one.tree.edges[-1] - one.tree.edges[0] for one in self._found])
        ranks = np.array([one.error_at_estimate for one in self._found])
        return np.maximum((ends[:, 1] - ends[:, 0]) / (2 * z), _LEAST * ranges), ranks

    @cached_property
    def _slopes(self) -> Array:
        """Change of each quantile with its rank (G k,); 0 where the rank is known."""
        errors, ranks = self._errors
        return np.where(ranks > _KNOWN, errors / np.maximum(ranks, _KNOWN), 0.0)

    @cached_property
    def cov_sampling(self) -> Array:
        """Covariance from sampling (G k, G k): 0 between groups."""
        p = self.probabilities
        low, high = np.minimum.outer(p, p), np.maximum.outer(p, p)
        ranks = low * (1 - high) * self.dependence * (self.target == "population")
        return self._scaled([tree.rows * ranks for tree in self.trees])

    @cached_property
    def cov_noise(self) -> Array:
        """Covariance from privacy noise (G k, G k): 0 between groups."""
        k = len(self.probabilities)
        blocks = []
        for group, tree in enumerate(self.trees):
            places = np.array([one.place for one in self._found[group * k : (group + 1) * k]])
            blocks.append(tree.noise_covariance(places, self.probabilities))
        found = self._scaled(blocks)
        own = np.diag(found) + np.diag(self.cov_sampling)
        errors, ranks = self._errors
        return found + np.diag(_SEPARATE * own + np.where(ranks > _KNOWN, 0.0, errors**2))

    def _scaled(self, blocks: list[Array]) -> Array:
        k = len(self.probabilities)
        out = np.zeros((len(self.names), len(self.names)))
        for group, block in enumerate(blocks):
            mine = slice(group * k, (group + 1) * k)
            out[mine, mine] = block * np.outer(self._slopes[mine], self._slopes[mine])
        return out

    @property
    def nobs(self) -> float:
        """Number of rows in all groups."""
        return float(sum(tree.total for tree in self.trees))

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings."""
        found = []
        if any(one.hidden for one in self._found):
            found.append("privacy noise hides how many rows there are: intervals reach to the declared bounds")
        if any(one.coarse for one in self._found):
            found.append(
                "the leaves of the tree are wide beside an interval, whose ends are rounded outward to them: a larger "
                "resolution= would tell more, or continuous=True where no value is taken by several rows"
            )
        if self.dependence > 1 and self.target == "population":
            found.append(
                f"one person has up to {self.dependence} rows, which may depend on each other in any way: the sampling "
                f"variance is {self.dependence} times that of independent rows, so intervals may be wider than need be"
            )
        return tuple(found)

    def _linear(self, rows: Array) -> Contrasts:
        """Return combinations (c,) with a normal reference."""
        return Contrasts(rows @ self.params, np.sqrt(variance_of(rows, self.cov_sampling + self.cov_noise)))

    def _scored(self, rows: Array) -> Iterator[tuple[int, int]]:
        """Give the rows that are a quantile and nothing else, and which, where the method is the score method."""
        for place, own in enumerate(single(rows)):
            if own >= 0 and self.method == "score":
                yield place, int(own)

    def intervals(self, contrasts: Array, alpha: float) -> Array:
        """Intervals of level ``1 - alpha`` for each row of ``contrasts`` (c, G k), as (c, 2)."""
        rows = rows_of(contrasts)
        ends = self._linear(rows).intervals(alpha)
        for place, own in self._scored(rows):
            low, high = self._found[own].interval(float(stats.norm.isf(alpha / 2)))
            ends[place] = min(low, self.params[own]), max(high, self.params[own])
        return ends

    def contrast_pvalues(self, contrasts: Array, values: Array) -> Array:
        """Two-sided p-values (c,) of ``contrasts @ params = values``."""
        rows = rows_of(contrasts)
        tested = np.broadcast_to(np.asarray(values, dtype=np.float64), len(rows))
        found = self._linear(rows).pvalues(tested)
        for place, own in self._scored(rows):
            found[place] = self._found[own].pvalue(float(tested[place]))
        return found

    def wald(self, restrictions: Array, values: Array) -> tuple[float, float, float]:
        """Joint test of ``restrictions @ params = values``: statistic (chi-squared), degrees of freedom, p-value."""
        rows = rows_of(restrictions)
        gap = rows @ self.params - np.broadcast_to(values, len(rows))
        cov = rows @ (self.cov_sampling + self.cov_noise) @ rows.T
        statistic = float(gap @ np.linalg.pinv(cov, hermitian=True) @ gap)
        df = float(np.linalg.matrix_rank(rows))
        return statistic, df, float(stats.chi2.sf(statistic, df))


@dataclass(frozen=True, eq=False)
class _Quantile:
    """One quantile of one group."""

    tree: Tree
    probability: float
    step: float
    sampling: float
    continuous: bool

    @cached_property
    def gap(self) -> Array:
        """Estimated count below every edge, less what it would be at the quantile (m + 1,)."""
        return np.asarray(self.tree.cumulative - self.probability * max(self.tree.total, 0.0))

    @cached_property
    def error(self) -> Array:
        """Its standard deviation if the edge is the quantile (m + 1,)."""
        return np.sqrt(self.sampling + np.maximum(self.tree.noise_variance(self.probability), 1e-300))

    @property
    def hidden(self) -> bool:
        """Whether the number of rows is not told from none by three standard deviations of noise."""
        deviation = np.sqrt(self.tree.size / self.tree.precisions[0])
        return bool(self.tree.total <= _LARGE * deviation)

    @cached_property
    def place(self) -> float:
        """Place of the estimate, in leaves."""
        return self._crossing(self.gap)

    @property
    def estimate(self) -> float:
        """The quantile."""
        return self._value(self.place)

    @property
    def error_at_estimate(self) -> float:
        """Standard deviation of the rank at the estimate."""
        return float(self.error[min(int(self.place), len(self.error) - 1)])

    @staticmethod
    def _crossing(gap: Array) -> float:
        """Place at which a rising line through the edges first reaches 0, in leaves."""
        reached = np.flatnonzero(gap >= 0)
        if not len(reached):
            return float(len(gap) - 1)
        after = int(reached[0])
        if after == 0:
            return 0.0
        before = gap[after - 1]
        return after - 1 + float(-before / (gap[after] - before))

    def _value(self, place: float) -> float:
        """Value at a place between leaves' edges; of whole numbers the nearest in the leaf."""
        edges = self.tree.edges
        leaf = min(int(place), len(edges) - 2)
        inside = float(edges[leaf] + (place - leaf) * (edges[leaf + 1] - edges[leaf]))
        if not self.step:
            return inside
        lowest, highest = np.ceil(edges[leaf]), np.floor(edges[leaf + 1])
        return float(np.clip(np.rint(inside), lowest, highest))

    def _places(self, z: float) -> tuple[tuple[float, float], tuple[int, int]]:
        """Return the ends of the interval in leaves, and the leaves that they are in."""
        last = len(self.tree.edges) - 2
        low = self._crossing(self.gap + z * self.error)
        high = len(self.gap) - 1 - self._crossing((z * self.error - self.gap)[::-1])
        return (low, high), (min(int(np.floor(low)), last), min(max(int(np.ceil(high)) - 1, 0), last))

    @cached_property
    def coarse(self) -> bool:
        """Whether the interval of level `_LEVEL` is within few leaves, to which its ends are rounded outward."""
        (low, high), _ = self._places(float(stats.norm.isf(_LEVEL / 2)))
        return bool(self.step != 1 and not self.continuous and high - low < _FEW < len(self.tree.edges) - 1)

    def interval(self, z: float) -> tuple[float, float]:
        """Return the interval of values that are not refuted by z standard deviations."""
        (low, high), (first, last) = self._places(z)
        outer = float(self.tree.edges[first]), float(self.tree.edges[last + 1])
        if self.step:
            return float(np.ceil(outer[0])), float(np.floor(outer[1]))
        if not self.continuous:
            return outer
        # Values that were clamped are tied at the bounds.
        inner = len(self.tree.edges) - 2
        return outer[0] if first == 0 else self._value(low), outer[1] if last == inner else self._value(high)

    def pvalue(self, value: float) -> float:
        """Two-sided p-value of the hypothesis that the quantile is a value."""
        edges = self.tree.edges
        if not edges[0] <= value <= edges[-1]:
            return 0.0
        leaf = min(max(int(np.searchsorted(edges, value, side="right")) - 1, 0), len(edges) - 2)
        if self.step or not self.continuous or leaf in (0, len(edges) - 2):
            ratio = self.gap / self.error
            under, over = ratio[leaf], ratio[leaf + 1]
        else:
            under = over = np.interp(value, edges, self.gap) / np.interp(value, edges, self.error)
        return float(min(1.0, 2 * min(stats.norm.sf(under), stats.norm.cdf(over))))


def cdf_interval(tree: Tree, alpha: float, *, dependence: float = 1.0) -> Array:
    """Pointwise intervals for the distribution function at every edge, (m + 1, 2).

    They hold the probabilities p at which ``count - p n`` is within z standard deviations of 0: the ends of a
    quadratic inequality, brought into [0, 1]. The sampling variance is multiplied by ``dependence``, 0 where the rows
    are all there is.
    """
    z2 = float(stats.norm.isf(alpha / 2)) ** 2
    n, count = tree.rows, tree.cumulative
    edges = np.arange(len(tree.edges))
    wavelets = (prefix_coefficients(edges, tree.size) ** 2 / tree.precisions[1:]).sum(axis=1)
    constant = 1 / tree.precisions[0]
    a = n**2 - z2 * (tree.size * constant - n * dependence)
    b = -2 * n * count - z2 * (n * dependence - 2 * edges * constant)
    c = count**2 - z2 * (wavelets + edges**2 * constant / tree.size)
    root = np.sqrt(np.maximum(b**2 - 4 * a * c, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.stack([(-b - root) / (2 * a), (-b + root) / (2 * a)], axis=1)
    inside = np.clip(ends, 0.0, 1.0)
    found: Array = np.where(a > 0, inside, np.array([0.0, 1.0]))
    found[0, 0], found[-1] = 0.0, 1.0
    found[0, 1] = 0.0
    return found


def _unseen(size: int) -> None:
    """Count nothing: no bar is shown."""


def simultaneous_width(
    tree: Tree,
    alpha: float,
    *,
    dependence: float = 1.0,
    replicates: int = 999,
    seed: int = 0,
    counted: Callable[[int], None] = _unseen,
) -> float:
    """Half width of a band that holds the whole distribution function with probability ``1 - alpha``.

    It is the quantile of the largest deviation at any edge of a Brownian bridge at the estimated distribution function
    plus the noise of the tree, both normal. ``dependence`` as in `cdf_interval`; ``seed`` is public; ``counted`` is
    called with 1 after every replicate.
    """
    rng = np.random.default_rng(seed)
    steps = np.diff(tree.cdf)
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
        counted(1)
    rank = int(np.ceil((1 - alpha) * (replicates + 1)))
    return float(np.sort(largest)[min(rank, replicates) - 1] / tree.rows)
