"""Inference from noisy sums of two kinds: over secret blocks of rows, and of replicates under random weights.

Given the data, a linear function of one replicate has variance ``v w + n``: v the sampling variance of the estimate, w
the variance of a weight, n the known noise. The variance between replicates estimates that sum, and n is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpinfer.display.progress import watch
from dpinfer.statistics.arrays import Array, Mask, root_of, symmetric
from dpinfer.statistics.inference import Contrasts, Inference, simulated_pvalue, variance_of
from dpinfer.statistics.moments import positive, rescaled
from dpinfer.statistics.numerical import bisected

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpinfer.release.laws import StageRelease
    from dpinfer.resampling.blocks import Frame
    from dpinfer.schema.region import Region

    Statistic = Callable[[Array], Array]


_FEW = 10.0
"""Degrees of freedom below which results warn."""

_LEVEL = 0.01
"""Probability that noise, or the choice of blocks, makes any message on them untrue."""

_MANY = 0.05
"""Share of blocks that surely failed or were winsorised, from which results warn."""

_LOST, _DOUBT = 0.2, 4.0
"""Share of failed or winsorised blocks, by this many standard deviations, from which no interval is reported."""

_NEAR_EDGE = 0.6
"""Distance of the estimate from the winsorising centre, in radii, from which results warn."""

_ROOM = 2.5
"""Standard deviations of a block that are to fit between the estimate and the edge of the region."""

_STEPS = 1e-8, 1e-5
"""Least and largest step of numerical derivatives, as a share of the rows; between them a tenth of the error."""

_STEEPEST = 1e100
"""Derivatives from here on are those of a function that is not defined where the sums are."""

_BENT = 0.25
"""Second-order term of an estimate, in standard errors, from which results warn."""

_SWAMPED = 0.05
"""Probability that replicates without any sampling error differ as much, from which results warn."""

_BLOCK_DRAWS, _DRAWS, _AT_ONCE = 19_999, 9_999, 500
"""Draws behind a joint p-value, of blocks under Laplace noise and of replicates; how many of the latter at once."""


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
        Failed blocks and winsorised blocks.
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

    @classmethod
    def of_stage(cls, last: StageRelease, blocks: int, size: int) -> BlockSums:
        """Read the last sums of a release of k blocks and p parameters."""
        values, noise, laplace = last.array, last.noise_variances, last.law.family == "laplace"
        products, variances = (symmetric(one[size:], size) for one in (values, noise))
        return cls(blocks, values[:size], products, values[-2:], float(noise[0]), variances, float(noise[-1]), laplace)

    @property
    def chance(self) -> float:
        """Failure probability of each bound: any of 4 per parameter and one per count fails with at most _LEVEL."""
        return _LEVEL / (4 * len(self.sums) + 2)

    @property
    def deviations(self) -> float:
        """Number of standard deviations that the noise exceeds with that probability, to one side."""
        return float(np.log(0.5 / self.chance) / np.sqrt(2) if self.laplace else stats.norm.isf(self.chance))

    @property
    def doubt(self) -> float:
        """Bound on the noise in a mean of v."""
        return float(self.deviations * np.sqrt(self.noise_sum) / self.blocks)

    @cached_property
    def mean(self) -> Array:
        """Noisy mean of v (p,)."""
        return self.sums / self.blocks

    @cached_property
    def covariance(self) -> Array:
        """Covariance of v between blocks, corrected for the noise in the squared mean.

        The noise can make it indefinite: negative eigenvalues are set to zero.
        """
        k = self.blocks
        plain = self.products / k - np.outer(self.mean, self.mean) + np.eye(len(self.sums)) * self.noise_sum / k**2
        root = root_of(plain * k / (k - 1))
        return np.asarray(root @ root.T)


@dataclass(frozen=True, eq=False)
class AggregateInference(Inference):
    """Parameters of a model from its blocks.

    Attributes
    ----------
    blocks : BlockSums
    frame : Frame
        Centre and half-width of the winsorising ball.
    winsorized : bool
        Whether the plan was to locate block estimates.

    Notes
    -----
    The estimate is ``center + half * mean``. Its variance is that between blocks over k plus that of the noise.
    An interval is the estimate and a t quantile of its standard error, with the degrees of freedom at which the
    variance is known (Satterthwaite 1946): that between blocks has k - 1 and noise of its own, that of the noise is
    known. Laplace noise has its own tails.
    """

    blocks: BlockSums
    frame: Frame
    winsorized: bool = False

    methods = ("auto", "wald")
    automatic = "wald"

    @property
    def df_resid(self) -> float:
        """The smallest degrees of freedom of a coefficient; each interval uses its own."""
        return self._linear(np.eye(len(self.names))).least_df

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
        """Whether so many blocks surely failed or were winsorised that no interval is reported."""
        least = self.blocks.counts - max(_DOUBT, self.blocks.deviations) * np.sqrt(self.blocks.noise_count)
        return bool((least > _LOST * self.blocks.blocks).any())

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, computed from released numbers only.

        Statements about unobserved blocks are tests: all are true with probability 0.99. That an estimate was not
        located, and how well its variance is known, are facts of the release.
        """
        found, sums, k = [], self.blocks, self.blocks.blocks
        if not self.frame.located.all() and (self.winsorized or self.frame.located.any()):
            found.append(
                f"the block estimates of {_listed(self.names, ~self.frame.located)} were not located, and are bounded "
                "only by the region: privacy noise dominates them; a larger privacy budget or more blocks would help"
            )
        edge = np.abs(sums.mean) - sums.doubt > _NEAR_EDGE
        if edge.any():
            found.append(
                f"the estimate of {_listed(self.names, edge)} is near the bounds of the block estimates, and is biased "
                "toward their midpoint"
            )
        error = np.sqrt(sums.noise_count)
        failed = "gave no finite estimate and were set to the midpoint of the bounds"
        for count, what in zip(sums.counts, (failed, "lay outside the bounds and were clipped"), strict=True):
            if count - sums.deviations * error > _MANY * k:
                about = f"about {count / k:.0%} of the blocks (plus or minus {error / k:.0%})"
                found.append(f"{about} {what}: the estimate may be biased")
        if self.lost:
            found.append(
                "too many blocks failed or were clipped for their mean to be informative: intervals are unbounded, "
                "p-values 1; larger blocks, a wider region, or estimates that are not discrete may help"
            )
        weak = np.asarray(self._linear(np.eye(len(self.names))).df) < min(_FEW, (k - 1) / 2)
        if weak.any():
            found.append(
                f"the estimated variance between blocks is mostly privacy noise for {_listed(self.names, weak)}, so "
                "the interval is wide"
            )
        return (*found, *self.notes)

    # Intervals and tests

    def _joint(self, rows: Array, values: Array) -> tuple[float, float]:
        """See `Inference`."""
        count = len(rows)
        total = rows @ (self.cov_sampling + self.cov_noise) @ rows.T
        spread = np.sqrt(np.diag(total))
        variances, vectors = np.linalg.eigh(total / np.outer(spread, spread))
        # W W' is the inverse of the covariance; one that rounding made singular is taken as nearly so.
        whitening = vectors / np.sqrt(np.maximum(variances, len(vectors) * np.finfo(np.float64).eps)) / spread[:, None]
        statistic = float((((rows @ self.params - values) @ whitening) ** 2).sum())
        if self.lost:
            return statistic, 1.0
        # Hotelling: statistic (df - q + 1) / (df q) is F with q and df - q + 1 degrees of freedom.
        df = self._linear(rows).least_df
        left = max(df - count + 1, 1.0)
        if not self.blocks.laplace:
            return statistic, float(stats.f.sf(statistic * left / (df * count), count, left))
        rng, size = np.random.default_rng(0), (_BLOCK_DRAWS, len(self.names))  # the seed is public
        drawn = rng.normal(size=size) @ root_of(self.cov_sampling).T
        drawn += rng.laplace(size=size) * np.sqrt(np.diag(self.cov_noise) / 2)
        lengths = ((drawn @ rows.T @ whitening) ** 2).sum(axis=1) * left / rng.chisquare(left, _BLOCK_DRAWS)
        return statistic, float(simulated_pvalue(lengths, statistic * left / df))

    def _linear(self, rows: Array) -> Contrasts:
        """Linear combinations (k,) of the parameters, with infinite errors where no interval is reported."""
        k = self.blocks.blocks
        scaled, noise = rows * self.frame.half, self.blocks.noise_product
        squares = scaled**2
        sampling = np.einsum("ki,ij,kj->k", scaled, self.blocks.covariance, scaled) / k
        parts = squares * self.blocks.noise_sum / k**2
        variance = sampling + parts.sum(axis=1)
        # A product off the diagonal enters twice: 4 times its variance for each pair, 2 for each of its two orders.
        uncertain = 2 * np.einsum("ki,ij,kj->k", squares, noise, squares) - (squares**2) @ np.diag(noise)
        spread = 2 * sampling**2 / (k - 1) + uncertain / k**4
        df = np.clip(2 * variance**2 / np.maximum(spread, 1e-300), 1.0, 1e9)
        error = np.full(len(df), np.inf) if self.lost else np.sqrt(variance)
        return Contrasts(rows @ self.params, error, df, parts / variance[:, None] if self.blocks.laplace else None)


def edge_warnings(found: AggregateInference, region: Region) -> tuple[str, ...]:
    """Warn of estimates so near the edge of the region that some block estimates must lie beyond it.

    This is a test: noise may have moved the estimate to the edge, and may dominate the variance between blocks.
    """
    if not found.frame.located.any():
        return ()
    sums, k = found.blocks, found.blocks.blocks
    doubt, near = sums.doubt * found.frame.half, []
    # A lower bound on the standard deviation between blocks, of those that there might be: their products less what
    # noise may have added, less the largest square of the mean; and those k normal blocks may differ more than others.
    least = (np.diag(sums.products) - sums.deviations * np.sqrt(np.diag(sums.noise_product))) / k
    least -= (np.abs(sums.mean) + sums.doubt) ** 2
    spread = np.sqrt(np.maximum(least, 0.0) * k / stats.chi2.isf(sums.chance, k - 1)) * found.frame.half
    for places, radius in zip(region.places, region.radii, strict=True):
        mine = list(places)
        away = float(np.linalg.norm(found.params[mine] - region.center[mine]) - np.linalg.norm(doubt[mine]))
        if radius - away < _ROOM * float(spread[mine].max()):
            near += [region.names[place] for place in places]
    if not near:
        return ()
    listed = ", ".join(near[:5]) + (", ..." if len(near) > 5 else "")
    return (
        f"blocks vary so much that some estimates must lie outside the declared region of {listed}: declare a wider "
        "one",
    )


@dataclass(frozen=True, eq=False)
class ReplicateSums:
    """Noisy sums of B replicates.

    Attributes
    ----------
    values : ndarray (B, d)
        In any units; the number of rows first in each replicate.
    noise : ndarray (d, d)
        Covariance of the noise of one replicate.
    weight_variance : float
        Variance of a weight; its mean is 1.
    paired : bool
        Whether replicates come in pairs, with each row counted twice in one of the two.
    """

    values: Array
    noise: Array
    weight_variance: float = 1.0
    paired: bool = False

    @property
    def replicates(self) -> int:
        """Number B."""
        return len(self.values)

    @property
    def df(self) -> float:
        """Degrees of freedom of `covariance`."""
        return float(self.replicates // 2 if self.paired else self.replicates - 1)

    @cached_property
    def mean(self) -> Array:
        """Mean over replicates (d,)."""
        return np.asarray(self.values.mean(axis=0))

    @cached_property
    def covariance(self) -> Array:
        """Covariance between replicates (d, d); for pairs, that of half their differences."""
        if self.paired:
            half = 0.5 * (self.values[0::2] - self.values[1::2])
            return np.asarray(half.T @ half / len(half))
        centred = self.values - self.mean
        return np.asarray(centred.T @ centred / (self.replicates - 1))

    @property
    def floor(self) -> Array:
        """The part of `covariance` that is noise (d, d)."""
        return self.noise / 2 if self.paired else self.noise

    @property
    def noise_of_mean(self) -> Array:
        """Covariance of the noise in `mean` (d, d)."""
        return self.noise / self.replicates

    @property
    def covariance_of_mean(self) -> Array:
        """Covariance of `mean` given the data (d, d), estimated."""
        return self.noise_of_mean if self.paired else self.covariance / self.replicates


@dataclass(frozen=True, eq=False)
class Variances:
    """Information on the variances of k linear functions of the sums.

    Attributes
    ----------
    observed, floor : ndarray (k,)
        Variance between replicates (or of half-differences of pairs), and its known noise.
    noise : ndarray (k,)
        Variance of the noise in the mean over replicates.
    sums : ReplicateSums
    population : bool
        Whether the sampling variance is included.
    share : float or None
        Share of the expected noise that an interval of the source subtracts; None for the fiducial distribution.
    """

    observed: Array
    floor: Array
    noise: Array
    sums: ReplicateSums
    population: bool
    share: float | None = None

    def at(self, probabilities: Array) -> tuple[Array, Array]:
        """Quantiles of the sampling variance, and of the variance of the estimate, each (k, m)."""
        total = floored_variances(self.observed, self.sums.df, self.floor, probabilities)
        sampling = (total - self.floor[:, None]) / self.sums.weight_variance
        given = np.broadcast_to(self.noise[:, None], total.shape) if self.sums.paired else total / self.sums.replicates
        return sampling, np.maximum((sampling if self.population else 0.0) + given, 1e-300)

    @property
    def medians(self) -> tuple[Array, Array]:
        """Medians of both, each (k,)."""
        sampling, total = self.at(np.array([0.5]))
        return sampling[:, 0], total[:, 0]

    @property
    def variance(self) -> Array:
        """Variance of the estimate (k,): its median, or after subtracting a share of the noise."""
        if self.share is None:
            return self.medians[1]
        sampling = np.maximum(self.observed - self.share * self.floor, 0.0) / self.sums.weight_variance
        return np.maximum((sampling if self.population else 0.0) + self.noise, 1e-300)

    def isf(self, alpha: float) -> Array:
        """Distances (k,) that errors exceed with probability alpha."""
        if self.share is None:
            return mixture_isf(alpha, self.at(PROBABILITIES)[1])
        return np.asarray(float(stats.norm.isf(alpha / 2)) * np.sqrt(self.variance))

    def sf(self, distance: Array) -> Array:
        """Probabilities (k,) that errors exceed distances."""
        if self.share is None:
            return mixture_sf(distance, self.at(PROBABILITIES)[1])
        return np.asarray(2 * stats.norm.sf(distance / np.sqrt(self.variance)))


@dataclass(frozen=True, eq=False)
class BootstrapInference(Inference):
    """Smooth functions of sums, with errors from replicates.

    Attributes
    ----------
    sums : ReplicateSums
    statistic : callable
        Maps sums (R, d) to estimates (R, p).
    conservative : float
        Probability that the conservative interval subtracts too much noise.
    unstable : tuple of str
        Reasons for reporting no interval that are known from elsewhere; see `reasons`.

    Notes
    -----
    The estimate is the function of the mean sums, corrected for the bias from curvature and noise. Its linearisation
    maps the sums of every replicate to estimates.
    """

    sums: ReplicateSums
    statistic: Statistic
    conservative: float = 0.05
    unstable: tuple[str, ...] = ()

    methods = ("auto", "fiducial", "unbiased", "conservative", "most_conservative")
    """The library's interval, and the three of Brawner & Honaker (2018)."""

    automatic = "auto"

    @property
    def df_resid(self) -> float:
        """Degrees of freedom of the variance between replicates."""
        return self.sums.df

    @cached_property
    def _plain(self) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(self.statistic(self.sums.mean[None])[0])

    @cached_property
    def _derivatives(self) -> Array:
        rows = max(abs(float(self.sums.mean[0])), 1.0)
        error = np.sqrt(np.diag(self.sums.covariance_of_mean))
        steps = np.clip(np.where(error > 0, 0.1 * error, _STEPS[1] * rows), _STEPS[0] * rows, _STEPS[1] * rows)
        with np.errstate(all="ignore"):
            apart = self.statistic(self.sums.mean + np.diag(steps)) - self.statistic(self.sums.mean - np.diag(steps))
            return np.asarray(apart.T / (2 * steps))

    @cached_property
    def gradient(self) -> Array:
        """Derivatives of the estimates (p, d)."""
        return np.where(np.abs(self._derivatives) < _STEEPEST, self._derivatives, 0.0)

    @cached_property
    def curvature(self) -> Array:
        """Bias of the estimates from curvature, given noise and random weights of the mean sums (p,).

        NaN where the statistic is undefined within a standard error.
        """
        moved = root_of(self.sums.covariance_of_mean).T
        with np.errstate(all="ignore"):
            around = self.statistic(self.sums.mean + moved) + self.statistic(self.sums.mean - moved)
            found = 0.5 * (around - 2 * self._plain).sum(axis=0)
        return np.where(np.isfinite(found), found, np.nan)

    @cached_property
    def params(self) -> Array:
        """Point estimates (p,)."""
        corrected = np.where(self._bent <= 1, self._plain - np.nan_to_num(self.curvature), self._plain)
        return np.nan_to_num(corrected, nan=0.0, posinf=0.0, neginf=0.0)

    @cached_property
    def _bent(self) -> Array:
        """Curvature in standard errors (p,); infinite where it is undefined."""
        error = np.sqrt(self._middle[1])
        return np.where(np.isfinite(self.curvature), np.abs(self.curvature) / error, np.inf)

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """Reasons for reporting no interval; empty if there is one."""
        if self.unstable:
            return self.unstable
        steep = ~(np.abs(self._derivatives) < _STEEPEST)  # NaN included
        if not np.isfinite(self._plain).all() or steep.any():
            return ("the noisy sums give no finite estimate",)
        lost = self._bent > 1
        if lost.any():
            names = _listed(self.names, lost, " and")
            return (f"noise makes the estimate of {names} nonlinear by more than its standard error",)
        return ()

    @cached_property
    def replicated(self) -> Array:
        """Linearised estimates of every replicate (B, p)."""
        return np.asarray(self.params + (self.sums.values - self.sums.mean) @ self.gradient.T)

    def _variances(self, rows: Array) -> Variances:
        """Return the variances of linear functions of the sums, ``rows`` (k, d)."""
        parts = [self.sums.covariance, self.sums.floor, self.sums.noise_of_mean]
        observed, floor, noise = (np.maximum(variance_of(rows, part), 0.0) for part in parts)
        share = None if self.method in ("auto", "fiducial") else float(self.method == "unbiased")
        if self.method == "conservative":
            share = float(stats.chi2.ppf(self.conservative, self.sums.df)) / self.sums.df
        return Variances(observed, floor, noise, self.sums, self.target == "population", share)

    @cached_property
    def _middle(self) -> tuple[Array, Array]:
        """Medians of the sampling variance and the total variance of every estimate (p,)."""
        return self._variances(self.gradient).medians

    @cached_property
    def cov_sampling(self) -> Array:
        """Covariance from sampling (p, p); variances are medians of their fiducial distributions."""
        if self.target != "population":
            return np.zeros((len(self.names), len(self.names)))
        between = self.gradient @ (self.sums.covariance - self.sums.floor) @ self.gradient.T
        return rescaled(positive(between), self._middle[0])

    @cached_property
    def cov_noise(self) -> Array:
        """Covariance from privacy noise and from secret random weights (p, p)."""
        sampling, total = self._middle
        given = total - (sampling if self.target == "population" else 0.0)
        found = self.gradient @ self.sums.covariance_of_mean @ self.gradient.T
        return np.asarray(rescaled(positive(found), given)) + np.diag(1e-12 * np.maximum(given, 1e-300))

    @property
    def population_std(self) -> Array:
        """Standard deviation of one row's share in each estimate (p,): the root of n times its sampling variance."""
        return np.sqrt(max(float(self.sums.mean[0]), 0.0) * self._middle[0])

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, computed from released numbers only."""
        found = [f"{reason}: intervals are unbounded, p-values 1" for reason in self.reasons]
        known = self._variances(self.gradient)
        with np.errstate(divide="ignore"):
            ratio = self.sums.df * known.observed / np.maximum(known.floor, 1e-300)
        swamped = (stats.chi2.sf(ratio, self.sums.df) > _SWAMPED) & (known.observed > 0)
        if self.target == "population" and swamped.any():
            found.append(
                f"replicates of {_listed(self.names, swamped, ' and')} vary hardly more than privacy noise explains: "
                "the sampling error is bounded rather than estimated, so the interval is wide"
            )
        bent = self._bent > _BENT
        if bent.any() and not self.reasons:
            names = _listed(self.names, bent, " and")
            found.append(
                f"noise makes the estimate of {names} nonlinear by more than a quarter of its standard error: the "
                "interval assumes linearity and may be inaccurate"
            )
        return tuple(found)

    # Intervals and tests

    def _ends(self, rows: Array, alpha: float) -> Array:
        """See `Inference`."""
        center, known = self._linear(rows)
        half = np.full(len(center), np.inf) if self.reasons else known.isf(alpha)
        return np.stack([center - half, center + half], axis=1)

    def _tails(self, rows: Array, values: Array) -> Array:
        """See `Inference`."""
        center, known = self._linear(rows)
        return np.ones(len(center)) if self.reasons else known.sf(np.abs(center - values))

    def _linear(self, rows: Array) -> tuple[Array, Variances]:
        return rows @ self.params, self._variances(rows @ self.gradient)

    def _joint(self, rows: Array, values: Array) -> tuple[float, float]:
        """See `Inference`.

        Notes
        -----
        Like the intervals, the test accounts for S, the covariance between replicates, being estimated and at least
        that of the noise. The distance d is compared, by ``d' S^-1 d``, with normal distances whose covariance is drawn
        from the inverse Wishart distribution given S, with eigenvalues in units of the noise of at least 1. The seed is
        public.
        """
        count, distance = len(rows), rows @ self.params - values
        if self.reasons:
            return 0.0, 1.0
        rows = rows @ self.gradient
        floor, between = rows @ self.sums.floor @ rows.T, rows @ self.sums.covariance @ rows.T
        root = np.linalg.cholesky(floor + 1e-12 * np.diag(np.diag(between)) + 1e-300 * np.eye(count))
        inverse = np.linalg.inv(root)
        seen = inverse @ between @ inverse.T
        values_seen, vectors = np.linalg.eigh(0.5 * (seen + seen.T))
        turned = vectors.T @ inverse
        found = self._variances(turned @ rows)
        statistic = float(((turned @ distance) ** 2 / found.variance).sum())
        if found.share is not None:
            pvalue = float(stats.chi2.sf(statistic, count))
        elif count == 1 or self.sums.df < count:  # no covariance to speak of: Bonferroni
            pvalue = float(min(1.0, count * found.sf(np.abs(turned @ distance)).min()))
        else:
            pvalue = self._simulated(turned @ distance, np.maximum(values_seen, 1e-12))
        return statistic, pvalue

    def _simulated(self, distance: Array, between: Array) -> float:
        """P-value of a joint distance, in coordinates in which the noise is standard and S diagonal."""
        rng = np.random.default_rng(0)
        count, df = len(distance), self.sums.df
        factor = np.tril(rng.normal(size=(_DRAWS, count, count)), -1)
        place = np.arange(count)
        factor[:, place, place] = np.sqrt(rng.chisquare(df - place, size=(_DRAWS, count)))
        normal, found = rng.normal(size=(_DRAWS, count)), np.empty(_DRAWS)
        with watch("joint p-value", total=_DRAWS, unit=" draws") as counted:
            for start in range(0, _DRAWS, _AT_ONCE):
                some = slice(start, start + _AT_ONCE)
                drawn = np.linalg.inv(factor[some]) * np.sqrt(df * between)
                values, vectors = np.linalg.eigh(np.swapaxes(drawn, 1, 2) @ drawn)
                values = np.maximum(values, 1.0)  # the variance between replicates, in units of the noise
                spread = 2.0 / self.sums.replicates if self.sums.paired else values / self.sums.replicates
                if self.target == "population":
                    spread = (values - 1.0) / self.sums.weight_variance + spread
                moved = (vectors @ (np.sqrt(spread) * normal[some])[..., None])[..., 0]
                found[some] = (moved**2 / between).sum(axis=1)
                counted(len(drawn))
        return float(simulated_pvalue(found, (distance**2 / between).sum()))


def _listed(names: tuple[str, ...], which: Mask, more: str = ", and") -> str:
    chosen = [name for name, true in zip(names, which, strict=True) if true]
    return ", ".join(chosen[:5]) + (f"{more} {len(chosen) - 5} more" if len(chosen) > 5 else "")


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_ROOT, _HALF = 0.5 * (_NODES + 1), 0.5 * _WEIGHTS
PROBABILITIES = _ROOT**3
"""Nodes on (0, 1), crowded at 0, where variances are largest."""

WEIGHTS = 3 * _ROOT**2 * _HALF
"""Their weights; they sum to 1."""


def floored_variances(observed: Array, df: float, floor: Array, probabilities: Array) -> Array:
    """Quantiles of a variance given its estimate and a known lower bound.

    Parameters
    ----------
    observed : ndarray (k,)
        Estimates, variance times chi-squared over its degrees of freedom.
    df : float
    floor : ndarray (k,)
        Known lower bounds, at least 0.
    probabilities : ndarray (m,)
        Upper tail probabilities.

    Returns
    -------
    ndarray (k, m)

    Notes
    -----
    The fiducial distribution ``df observed / chi2``, which is also the posterior under the prior ``1 / variance``,
    given that it is at least the floor (Box & Tiao 1973, section 5.2).
    """
    with np.errstate(divide="ignore", over="ignore"):
        top = stats.chi2.cdf(df * observed / np.maximum(floor, 1e-300), df)
    drawn = stats.chi2.ppf(np.maximum(top, 1e-290)[:, None] * probabilities, df)
    return np.asarray(np.maximum(df * observed[:, None] / np.maximum(drawn, 1e-300), floor[:, None]))


def mixture_sf(distance: Array, variances: Array) -> Array:
    """Two-sided tail of a normal variable whose variance is a mixture.

    Parameters
    ----------
    distance : ndarray (k,)
        At least 0.
    variances : ndarray (k, m)
        At the nodes of `PROBABILITIES`.

    Returns
    -------
    ndarray (k,)
    """
    tails = 2 * stats.norm.sf(distance[:, None] / np.sqrt(variances)) @ WEIGHTS
    return np.asarray(np.minimum(tails, 1.0))  # weights may add up to one rounding unit above 1


def mixture_isf(alpha: float, variances: Array) -> Array:
    """Distance (k,) at which `mixture_sf` is alpha."""
    root = np.sqrt(variances)
    upper = root.max(axis=1) * float(stats.norm.isf(alpha / 2))
    return bisected(lambda x: mixture_sf(x, variances) > alpha, np.zeros_like(upper), upper, rounds=64)[1]
