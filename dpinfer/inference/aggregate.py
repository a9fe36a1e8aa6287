"""Inference from the noisy mean and covariance of block estimates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpinfer.inference.base import BaseInference
from dpinfer.inference.contrasts import Contrasts, rows_of, simulated_pvalue
from dpinfer.inference.restrictions import independent
from dpinfer.numerics.forms import root_of, symmetric

if TYPE_CHECKING:
    from dpinfer.inference.block_frames import Frame
    from dpinfer.numerics.arrays import Array, Mask
    from dpinfer.release.stage import StageRelease
    from dpinfer.schema.region import Region

__all__ = ["METHODS", "AggregateInference", "BlockSums", "edge_warnings", "read_block_sums"]

METHODS = ("auto", "wald")

_FEW = 10.0
"""Degrees of freedom below which the reader is told."""

_LEVEL = 0.01
"""Probability that noise, or the choice of blocks, makes any message on them untrue."""

_MANY = 0.05
"""Share of the blocks, beyond doubt, that failed or were moved, from which the reader is told."""

_LOST, _DOUBT = 0.2, 4.0
"""Share of the blocks that failed or were moved, by so many standard deviations, from which no interval is given."""

_DRAWS = 19_999
"""Draws behind a joint p-value under Laplace noise."""

_NEAR_EDGE = 0.6
"""Distance of the estimate from the winsorising centre, in radii, from which the reader is told."""

_ROOM = 2.5
"""Standard deviations of a block that are to fit between the estimate and the edge of the region."""


@dataclass(frozen=True, eq=False)
class BlockSums:
    """Noisy sums over k blocks of winsorised estimates v, in the units of the unit ball.

    Attributes
    ----------
    blocks : int
    sums : ndarray (p,)
        Of v.
    products : ndarray (p, p)
        Of v v'.
    counts : ndarray (2,)
        Failed blocks, moved blocks.
    noise_sum : float
        Variance of the noise of each sum.
    noise_product : ndarray (p, p)
        Variance of the noise of each product.
    noise_count : float
    laplace : bool
        Whether the noise is discrete Laplace; else discrete Gaussian.
    """

    blocks: int
    sums: Array
    products: Array
    counts: Array
    noise_sum: float
    noise_product: Array
    noise_count: float
    laplace: bool

    # What holds with probability 1 - _LEVEL, all at once: 4 bounds for each parameter, one for each of the two counts.

    @property
    def chance(self) -> float:
        """Probability with which a single bound may fail."""
        return _LEVEL / (4 * len(self.sums) + 2)

    @cached_property
    def deviations(self) -> float:
        """Standard deviations that a noise exceeds with that probability, to one side."""
        if self.laplace:
            return float(np.log(0.5 / self.chance) / np.sqrt(2))
        return float(stats.norm.isf(self.chance))

    @property
    def doubt(self) -> float:
        """By how much, at most, noise moves a mean of v."""
        return float(self.deviations * np.sqrt(self.noise_sum) / self.blocks)

    @cached_property
    def least_spread(self) -> Array:
        """Lower bound on the standard deviation of v between blocks, of those that there might be (p,).

        The products less what noise may have added, less the largest square of the mean; and those k normal blocks may
        differ more than others.
        """
        k, products = self.blocks, np.diag(self.products)
        least = (products - self.deviations * np.sqrt(np.diag(self.noise_product))) / k
        least -= (np.abs(self.mean) + self.doubt) ** 2
        return np.asarray(np.sqrt(np.maximum(least, 0.0) * k / stats.chi2.isf(self.chance, k - 1)))

    @property
    def least_counts(self) -> Array:
        """Lower bounds on the numbers of failed and of moved blocks (2,)."""
        return np.asarray(self.counts - self.deviations * np.sqrt(self.noise_count))

    @cached_property
    def mean(self) -> Array:
        """Noisy mean of v (p,)."""
        return self.sums / self.blocks

    @cached_property
    def covariance(self) -> Array:
        """Covariance of v between blocks, with what the noise adds to the square of the mean taken off; repaired.

        The noise can make it indefinite: negative eigenvalues are set to zero.
        """
        k = self.blocks
        plain = self.products / k - np.outer(self.mean, self.mean) + np.eye(len(self.sums)) * self.noise_sum / k**2
        root = root_of(plain * k / (k - 1))
        return np.asarray(root @ root.T)

    @cached_property
    def signal(self) -> Array:
        """Sum of squares of v between blocks over the standard deviation of its noise (p,)."""
        return np.asarray(self.blocks * np.diag(self.covariance) / np.sqrt(np.diag(self.noise_product)))


@dataclass(frozen=True, eq=False)
class AggregateInference(BaseInference):
    """Parameters of a model from its blocks; implements `Inference`.

    Attributes
    ----------
    names : tuple of str, length p
    blocks : BlockSums
    frame : Frame
        Centre and half-width of the winsorising ball.
    nobs : float or None
    nobs_is_public : bool
    sought : bool
        Whether block estimates were to be located.
    notes : tuple of str
        Further warnings.
    method : str

    Notes
    -----
    The estimate is ``center + half * mean``. Its variance is that between blocks over k plus that of the noise.
    An interval is the estimate and a t quantile of its standard error, with the degrees of freedom at which the
    variance is known (Satterthwaite 1946): that between blocks has k - 1 and noise of its own, that of the noise is
    known. Laplace noise has its own tails.
    """

    names: tuple[str, ...]
    blocks: BlockSums
    frame: Frame
    nobs: float | None = None
    nobs_is_public: bool = False
    sought: bool = False
    notes: tuple[str, ...] = ()
    method: str = "wald"

    methods = METHODS
    automatic = "wald"
    target = "population"

    @property
    def df_resid(self) -> float:
        """The fewest degrees of freedom of a coefficient; each interval uses its own."""
        return float(self._freedom.min())

    @cached_property
    def _freedom(self) -> Array:
        """Degrees of freedom of every parameter (p,)."""
        return np.asarray(self._linear(np.eye(len(self.names))).df)

    @cached_property
    def params(self) -> Array:
        """Point estimates (p,)."""
        return np.asarray(self.frame.center + self.frame.half * self.blocks.mean)

    @cached_property
    def cov_sampling(self) -> Array:
        """Covariance from sampling (p, p)."""
        return np.asarray(self.blocks.covariance * np.outer(self.frame.half, self.frame.half) / self.blocks.blocks)

    @cached_property
    def cov_noise(self) -> Array:
        """Covariance from privacy noise (p, p)."""
        return np.diag(self.blocks.noise_sum * (self.frame.half / self.blocks.blocks) ** 2)

    @property
    def lost(self) -> bool:
        """Whether so many blocks failed or were moved, beyond doubt, that no interval is given."""
        least = self.blocks.counts - max(_DOUBT, self.blocks.deviations) * np.sqrt(self.blocks.noise_count)
        return bool((least > _LOST * self.blocks.blocks).any())

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, from released numbers only.

        What is said of blocks that nobody sees is a test: with probability 0.99 nothing of it is untrue. That an
        estimate was not located, and how well its variance is known, are facts of the release.
        """
        found = []
        if not self.frame.located.all() and (self.sought or self.frame.located.any()):
            listed = ", ".join(self._listed(~self.frame.located))
            found.append(
                f"the block estimates of {listed} were not located, and are bounded by the region alone: noise hides "
                "where they are, and a larger price or more blocks would tell"
            )
        edge = np.abs(self.blocks.mean) - self.blocks.doubt > _NEAR_EDGE
        if edge.any():
            found.append(
                f"the estimate of {', '.join(self._listed(edge))} is near the edge of where block estimates are "
                "bounded, and is drawn towards its middle"
            )
        error = np.sqrt(self.blocks.noise_count)
        told = (
            "gave no finite estimate and count as the middle of where block estimates are bounded",
            "lay outside of their bounds and were moved",
        )
        for count, least, what in zip(self.blocks.counts, self.blocks.least_counts, told, strict=True):
            if least > _MANY * self.blocks.blocks:
                found.append(
                    f"about {count / self.blocks.blocks:.0%} of the blocks (give or take "
                    f"{error / self.blocks.blocks:.0%}) {what}: the estimate may be biased"
                )
        if self.lost:
            found.append(
                "so many blocks failed or were moved that their mean says little: intervals are unbounded, p-values "
                "1; larger blocks, a wider region, or estimates that are not discrete may help"
            )
        weak = self._freedom < min(_FEW, (self.blocks.blocks - 1) / 2)
        if weak.any():
            found.append(
                f"how much blocks differ is mostly privacy noise for {', '.join(self._listed(weak))}: the interval is "
                "wide for that"
            )
        return (*found, *self.notes)

    def _listed(self, which: Mask) -> list[str]:
        names = [self.names[place] for place in np.flatnonzero(which)]
        return names if len(names) <= 5 else [*names[:5], f"and {len(names) - 5} more"]

    # Intervals and tests

    def intervals(self, contrasts: Array, alpha: float) -> Array:
        """Intervals of level ``1 - alpha`` for each row of ``contrasts`` (k, p), as (k, 2)."""
        return self._linear(contrasts).intervals(alpha)

    def contrast_pvalues(self, contrasts: Array, values: Array) -> Array:
        """Two-sided p-values (k,) of ``contrasts @ params = values``."""
        return self._linear(contrasts).pvalues(values)

    def wald(self, restrictions: Array, values: Array) -> tuple[float, float, float]:
        """Joint test of ``restrictions @ params = values``: statistic (chi-squared), degrees of freedom, p-value."""
        restrictions, values, count = independent(restrictions, values)
        distance = restrictions @ self.params - values
        total = restrictions @ (self.cov_sampling + self.cov_noise) @ restrictions.T
        statistic = float(((distance @ _whitening(total)) ** 2).sum())
        if self.lost:
            return statistic, count, 1.0
        # Hotelling: statistic (df - q + 1) / (df q) is F with q and df - q + 1 degrees of freedom.
        df = self._linear(restrictions).least_df
        left = max(df - count + 1, 1.0)
        if self.blocks.laplace:
            return statistic, count, self._simulated_tail(restrictions, total, statistic * left / df, left)
        return statistic, count, float(stats.f.sf(statistic * left / (df * count), count, left))

    def _simulated_tail(self, restrictions: Array, total: Array, statistic: float, df: float) -> float:
        """Probability, by simulation with a public seed, that normal and Laplace parts give such a joint statistic."""
        rng = np.random.default_rng(0)
        size = (_DRAWS, len(self.names))
        drawn = rng.normal(size=size) @ root_of(self.cov_sampling).T
        drawn += rng.laplace(size=size) * np.sqrt(np.diag(self.cov_noise) / 2)
        moved = drawn @ restrictions.T
        found = ((moved @ _whitening(total)) ** 2).sum(axis=1) * df / rng.chisquare(df, _DRAWS)
        return float(simulated_pvalue(found, statistic))

    def _linear(self, contrasts: Array) -> Contrasts:
        """Linear combinations (k,) of the parameters, their errors infinite where no interval is given."""
        contrasts = rows_of(contrasts)
        k = self.blocks.blocks
        scaled = contrasts * self.frame.half
        sampling = np.einsum("ki,ij,kj->k", scaled, self.blocks.covariance, scaled) / k
        parts = scaled**2 * self.blocks.noise_sum / k**2
        variance = sampling + parts.sum(axis=1)
        squares = scaled**2
        noise = self.blocks.noise_product
        # A product off the diagonal enters twice: 4 times its variance for each pair, 2 for each of its two orders.
        uncertain = 2 * np.einsum("ki,ij,kj->k", squares, noise, squares) - (squares**2) @ np.diag(noise)
        spread = 2 * sampling**2 / (k - 1) + uncertain / k**4
        df = np.clip(2 * variance**2 / np.maximum(spread, 1e-300), 1.0, 1e9)
        error = np.full(len(df), np.inf) if self.lost else np.sqrt(variance)
        return Contrasts(contrasts @ self.params, error, df, parts / variance[:, None] if self.blocks.laplace else None)


def _whitening(covariance: Array) -> Array:
    """Return W with W W' the inverse of a covariance (q, q); one that rounding made singular is taken as nearly so."""
    spread = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(spread, spread))
    least = len(values) * np.finfo(np.float64).eps
    return np.asarray(vectors / np.sqrt(np.maximum(values, least)) / spread[:, None])


def read_block_sums(last: StageRelease, blocks: int, size: int) -> BlockSums:
    """Return the last sums of a release of k blocks and p parameters, in units of the ball."""
    values, noise = last.array, last.noise_variances
    return BlockSums(
        blocks=blocks,
        sums=values[:size],
        products=symmetric(values[size:], size),
        counts=values[-2:],
        noise_sum=float(noise[0]),
        noise_product=symmetric(noise[size:], size),
        noise_count=float(noise[-1]),
        laplace=last.law.family == "laplace",
    )


def edge_warnings(found: AggregateInference, region: Region) -> tuple[str, ...]:
    """Warn of estimates so near the edge of the region that estimates of blocks must lie beyond it.

    A test: noise may have moved the estimate to the edge, and may be most of what blocks seem to differ by.
    """
    spread, doubt = found.blocks.least_spread * found.frame.half, found.blocks.doubt * found.frame.half
    near = []
    for places, radius in zip(region.places, region.radii, strict=True):
        mine = list(places)
        away = float(np.linalg.norm(found.params[mine] - region.center[mine]) - np.linalg.norm(doubt[mine]))
        if radius - away < _ROOM * float(spread[mine].max()):
            near += [region.names[place] for place in places]
    if not near or not found.frame.located.any():
        return ()
    listed = ", ".join(near[:5]) + (", ..." if len(near) > 5 else "")
    return (f"blocks differ so much that some must lie beyond the declared region of {listed}: declare a wider one",)
