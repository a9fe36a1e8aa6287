"""Densities from noisy counts of bins: pointwise intervals, integrated squared error, and how many bins to take.

Of R releases at once where arrays run over R releases and k bins. The integrated squared error of a histogram is what
is lost within bins (its bias) plus sampling plus noise. The last two are known but for the counts. Sums of squares of
counts in finer bins estimate the first without bias, but with much noise, so that they are combined with what biases of
histograms look like.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

from dpinfer.statistics.numerical import inverted
from dpinfer.statistics.tails import laplace_sum_isf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.statistics.arrays import Array, Mask, Places


HIDDEN = 3.0
"""A count below so many standard deviations of its noise is not distinguished from that of an empty bin."""

_MOST_LAPLACE = 32
"""Laplace variables whose sum is distinguished from a normal one."""

_SHARES = np.linspace(0.0, 1.0, 257)

_ROUGHNESS, _KNEE, _POWER = (
    part.ravel()
    for part in np.meshgrid(np.geomspace(0.01, 30, 12), np.geomspace(1, 400, 13), [1.0, 2.0], indexing="ij")
)
"""Biases R / (1 + ((k - 1) / K)^r) of k bins: r is 2 for densities that are smooth, 1 for those that jump."""

_JUMPING = 0.3
"""Weight of densities that jump."""

_STEPS = 0.1
"""Weight of densities that are constant within some few equal bins, where counted bins are merged; 0 where bins are
chosen to be counted, for too coarse ones cannot be mended."""

_FORESIGHT = 0.3
"""How much is trusted that bins which are too fine will be merged well."""

_NEGLIGIBLE = 1e-3
"""Weight of a hypothesis, relative to the largest, from which it is looked at."""

_MOST_STEPS = 30

_TYPICAL, _ROUGHNESS_SPREAD, _KNEE_SPREAD = 0.6, 1.5, 0.7
"""Roughness that is expected, and standard deviations of the logarithms of R and of K about the normal's."""

_LEAST_ROWS = 10.0


@dataclass(frozen=True, eq=False)
class DensityEstimates:
    """Noisy counts of bins, and what follows of the shares of rows in them.

    Attributes
    ----------
    counts : ndarray (R, k)
        Noisy counts.
    edges : ndarray (k + 1,)
        Edges of the bins, in the unit of the column.
    noise : float
        Variance of a noise variable.
    laplace : bool
        Whether the noise is Laplace, else Gaussian.
    merged : ndarray of int (k,), or 1
        How many noisy counts each is the sum of, and so how many noise variables it carries.
    nobs : int or None
        The number of rows in all bins if it is public; the noisy counts are then adjusted to it.
    population : bool
        Whether rows are a sample; else only the noise counts.
    alike : int
        Most rows of one person: sampling variances are multiplied by it, which is enough for any likeness of them.
    """

    counts: Array
    edges: Array
    noise: float
    laplace: bool
    merged: Places | int = 1
    nobs: int | None = None
    population: bool = True
    alike: int = 1

    @cached_property
    def noises(self) -> Array:
        """Noise variance of each count (k,)."""
        return self.noise * np.broadcast_to(self.merged, self.widths.shape).astype(np.float64)

    @property
    def widths(self) -> Array:
        """Width of each bin (k,)."""
        return np.diff(self.edges)

    @property
    def bins(self) -> int:
        """Number of bins k."""
        return len(self.edges) - 1

    @cached_property
    def total(self) -> Array:
        """Number of rows (R, 1): public, or the sum of the noisy counts."""
        summed = self.counts.sum(axis=1, keepdims=True)
        return np.asarray(summed if self.nobs is None else np.full_like(summed, self.nobs))

    @cached_property
    def size(self) -> Array:
        """The number of rows that is divided by (R, 1): at least 1, and one standard deviation of its noise."""
        return np.maximum(self.total, 1.0 if self.nobs is not None else max(1.0, float(np.sqrt(self.noises.sum()))))

    @cached_property
    def adjusted(self) -> Array:
        """Counts (R, k); they add up to a public number of rows."""
        if self.nobs is None:
            return self.counts
        missing = self.nobs - self.counts.sum(axis=1, keepdims=True)
        return np.asarray(self.counts + missing * (self.noises / self.noises.sum()))

    @cached_property
    def shares(self) -> Array:
        """Shares of the rows (R, k): unbiased except for the division, so some may be negative."""
        return self.adjusted / self.size

    @property
    def density(self) -> Array:
        """Shares over widths (R, k)."""
        return self.shares / self.widths

    @property
    def few(self) -> Mask:
        """Whether the noise is compatible with there being no rows at all (R,)."""
        return np.asarray(self.total[:, 0] < (HIDDEN * np.sqrt(self.noises.sum()) if self.nobs is None else 1))

    @property
    def hidden(self) -> Mask:
        """Whether the noise is compatible with an empty bin (R, k)."""
        return np.asarray(self.adjusted < HIDDEN * np.sqrt(self.noises))

    def own_noise(self, share: Array) -> tuple[Array, Array]:
        """Noise variance of count - share size (R, k), and the part due to the bin's own noise."""
        moved = self.noises / self.noises.sum() if self.nobs is not None else share
        own = self.noises * (1 - moved) ** 2
        found = own + (self.noises.sum() - self.noises) * moved**2
        return np.broadcast_to(found, np.shape(share)), np.broadcast_to(own, np.shape(share))

    def sampling(self, share: Array) -> Array:
        """Return the sampling variance of a count, for a given share (R, k)."""
        rows = self.size * self.alike if self.population else 0.0
        return np.asarray(rows * share * (1 - share))

    @property
    def padded(self) -> Array:
        """Shares with one more row inside the bin and one outside (R, k), so that none is 0."""
        return (np.clip(self.shares, 0.0, 1.0) * self.size + 1) / (self.size + 2)

    @property
    def variances(self) -> tuple[Array, Array]:
        """Variances of the densities from sampling, at `padded` shares, and from noise (R, k)."""
        if self.bins == 1:
            return np.zeros_like(self.shares), np.zeros_like(self.shares)
        unit = (self.size * self.widths) ** 2
        return self.sampling(self.padded) / unit, self.own_noise(np.clip(self.shares, 0.0, 1.0))[0] / unit

    def merge(self, several: int) -> DensityEstimates:
        """Return the counts in bins of this many of the present bins, perhaps fewer in the last."""
        starts = np.arange(0, self.bins, several)
        counts, edges = np.add.reduceat(self.counts, starts, axis=1), np.append(self.edges[starts], self.edges[-1])
        return replace(self, counts=counts, edges=edges, merged=np.diff(np.append(starts, self.bins)))

    def bias(self, merged: int, nobs: float) -> tuple[float, float]:
        """Squared bias of a histogram with this many of the present bins in each bin (R = 1).

        Parameters
        ----------
        merged : int
        nobs : float
            Number of rows.

        Returns
        -------
        bias, error : float
            Integrated squared distance between the density's means over these bins and over the coarser ones, estimated
            without bias (so it may be negative); and its standard error.
        """
        if merged == 1:
            return 0.0, 0.0
        length = float(self.edges[-1] - self.edges[0])
        ladder = Ladder(np.diff(self.edges) / length, (merged, 1))
        energy, variance = ladder.energies(self.counts[0], max(nobs, 1.0), self.noise)
        return float(energy[1] - energy[0]) / length, float(np.sqrt(variance[0])) / length


def density_intervals(estimates: DensityEstimates, alpha: float) -> Array:
    """Pointwise intervals of level ``1 - alpha`` for the mean density in each bin (R, k, 2).

    Notes
    -----
    The interval contains every share p for which count - p size is at most q(p) times its standard deviation under p.
    The variance includes sampling, size p (1 - p), and noise; q(p) is the critical value of a normal plus the bin's own
    Laplace variables with their shares of the variance at p. For Gaussian noise it is Wilson's (1927) interval with
    noise, and Fieller's if the size is noisy. A negative count is replaced by zero. If the noise variance is below a
    quarter, counts stay near integers; a continuity correction of up to a half then approaches the binomial interval.
    """
    value = np.clip(estimates.shares, 0.0, 1.0)
    if estimates.bins == 1:
        return np.ones((*value.shape, 2)) / estimates.widths[:, None]
    top = np.clip(estimates.adjusted, 0.0, estimates.size)
    step = np.sqrt(estimates.sampling(estimates.padded) + estimates.noises) / estimates.size
    lattice = estimates.alike * np.maximum(0.5 - 2 * estimates.noises, 0.0) if estimates.population else 0.0
    merged = np.broadcast_to(estimates.merged, estimates.widths.shape)

    def inside(away: Array) -> Mask:
        tested = np.clip(value + away, 0.0, 1.0)
        noise, own = estimates.own_noise(tested)
        variance = estimates.sampling(tested) + noise
        # Critical values where this is the share of the bin's own noise in the variance.
        share = own / np.maximum(variance, 1e-300)
        critical = np.full(share.shape, float(stats.norm.isf(alpha / 2)))
        for several in np.unique(merged[merged <= _MOST_LAPLACE]) if estimates.laplace else ():
            mine = merged == several
            critical[:, mine] = np.interp(share[:, mine], _SHARES, _critical_values(alpha, int(several)))
        return np.asarray(np.abs(top - tested * estimates.size) <= critical * np.sqrt(variance) + lattice)

    return np.clip(inverted(inside, value, step), 0.0, 1.0) / estimates.widths[:, None]


@lru_cache(maxsize=64)
def _critical_values(alpha: float, several: int) -> Array:
    """Critical values of a normal plus this many Laplace variables, for all shares of the variance."""
    return laplace_sum_isf(alpha, np.repeat(_SHARES[:, None] / several, several, axis=1))


def projected(density: Array, widths: Array) -> Array:
    """Project densities (R, k) to the nearest that are nonnegative and integrate to 1.

    Notes
    -----
    Nearest in integrated squared distance: max(f - c, 0), with the constant c that makes it integrate to 1. The
    projection onto a convex set is closer to each of its members, including the true density.
    """
    order = np.argsort(-density, axis=1)
    sorted_, wide = np.take_along_axis(density, order, axis=1), widths[order]
    constant = (np.cumsum(sorted_ * wide, axis=1) - 1) / np.cumsum(wide, axis=1)
    positive = np.maximum((sorted_ > constant).sum(axis=1), 1)
    return np.asarray(np.maximum(density - np.take_along_axis(constant, positive[:, None] - 1, axis=1), 0.0))


def variance_error(estimates: DensityEstimates) -> tuple[Array, Array]:
    """Integrated variance of the densities from sampling and from noise (R,), without the bias.

    Notes
    -----
    The sampling part is the sum of p (1 - p) / (n h). Its estimate is unbiased except for the division by the noisy
    number of rows: the variance is subtracted from the squares of the shares.
    """
    shares, size, widths = estimates.shares, estimates.size, estimates.widths
    squares = shares**2 - estimates.own_noise(shares)[0] / size**2
    if estimates.population:
        squares = squares - estimates.alike * shares * (1 - shares) / size
    noisy = (estimates.own_noise(np.sqrt(np.maximum(squares, 0.0)))[0] / size**2 / widths).sum(axis=1)
    if not estimates.population:
        return np.zeros(len(shares)), noisy
    return estimates.alike * ((shares - squares) / size / widths).sum(axis=1), noisy


class Merged:
    """Fine counts merged into bins.

    Attributes
    ----------
    label : ndarray of int (F,)
        Bin of each fine one.
    share : ndarray (k,)
        Part of the bounds that each bin covers.
    fine : ndarray (k,)
        Number of fine bins in each.
    """

    def __init__(self, share: Array, width: int) -> None:
        self.label = np.arange(len(share)) // width
        self.share = np.bincount(self.label, share)
        self.fine = np.bincount(self.label).astype(np.float64)

    def counts(self, fine: Array) -> Array:
        """Add up the fine counts by bins (k,)."""
        return np.bincount(self.label, fine).astype(np.float64)

    def overlap(self, other: Merged) -> float:
        """Trace of the product of the quadratic forms whose values are the energies."""
        both, held = np.unique(self.label * len(other.share) + other.label, return_counts=True)
        left, right = np.divmod(both, len(other.share))
        return float((held**2 / (self.share[left] * other.share[right])).sum())

    def spread(self, counts: Array, nobs: float) -> float:
        """Sum of p / h; all bins except the last have the same width."""
        first, last = self.share[0], self.share[-1]
        return float(1 / first + max(counts[-1] / nobs, 0.0) * (1 / last - 1 / first))


class Ladder:
    """Histograms of increasing numbers of bins, formed from the same fine bins.

    Parameters
    ----------
    share : ndarray (F,)
        Part of the bounds that each fine bin covers.
    widths : sequence of int, length m
        Fine bins per bin, in decreasing order from all.

    Attributes
    ----------
    steps : tuple of Merged, length m
    sizes : ndarray (m - 1,)
        Squared norms of the differences of successive quadratic forms.
    """

    def __init__(self, share: Array, widths: Sequence[int]) -> None:
        self.steps = tuple(Merged(share, width) for width in widths)
        own = np.array([one.overlap(one) for one in self.steps])
        both = np.array([left.overlap(right) for left, right in pairwise(self.steps)])
        self.sizes: Array = np.maximum(own[1:] + own[:-1] - 2 * both, 0.0)

    def energies(self, counts: Array, nobs: float, noise: float) -> tuple[Array, Array]:
        """Integrals of the squares of the histograms, and variances of their successive differences.

        Parameters
        ----------
        counts : ndarray (F,)
            Noisy fine counts.
        nobs : float
            Number of rows.
        noise : float
            Noise variance of a fine count.

        Returns
        -------
        energy : ndarray (m,)
            Of the densities over bounds of width 1, each without bias: the sum of p^2 / h over the bins.
        variance : ndarray (m - 1,)
            From sampling and noise, as if counts were normal and rows spread evenly.

        Notes
        -----
        x'Qx has expectation m'Qm + tr(Q S) and variance 2 tr(Q S Q S) + 4 m'Q S Q m.
        """
        each = nobs / len(counts) + noise
        energy, slopes = np.empty(len(self.steps)), np.empty((len(self.steps), len(counts)))
        for place, one in enumerate(self.steps):
            mine = one.counts(counts)
            slopes[place] = (mine / one.share)[one.label]
            expected = nobs * one.spread(mine, nobs) + noise * (one.fine / one.share).sum()
            energy[place] = (mine**2 / one.share).sum() - expected
        moved = np.maximum((np.diff(slopes, axis=0) ** 2).sum(axis=1) - each * self.sizes, 0.0)
        return energy / nobs**2, (2 * each**2 * self.sizes + 4 * each * moved) / nobs**4


class Outlook(NamedTuple):
    """Expected errors of candidate bins, given noisy counts.

    Attributes
    ----------
    weight : ndarray (h,)
        Of the remaining hypotheses; they sum to 1.
    bias : ndarray (h, m)
        Squared bias of each candidate under each.
    sampling : ndarray (m,)
        Integrated variance from sampling.
    noise : ndarray (m,)
        The same from noise of variance 1 in every count.
    """

    weight: Array
    bias: Array
    sampling: Array
    noise: Array


def outlook(counts: Array, share: Array, widths: Sequence[int], *, nobs: float, noise: float, steps: float) -> Outlook:
    """Combine noisy counts with prior knowledge of the biases of histograms.

    Parameters
    ----------
    counts : ndarray (F,)
        Noisy counts of fine bins.
    share : ndarray (F,)
        Part of the bounds that each covers.
    widths : sequence of int, length m
        Candidates: fine bins per bin, in decreasing order from all.
    nobs : float
        Number of rows.
    noise : float
        Noise variance of these counts.
    steps : float
        Prior weight of densities that are constant within a few equal bins, and so have no bias there.

    Notes
    -----
    Let D be the differences of `Ladder.energies` from one candidate to the next, V their variances. Under a bias B
    their means are d = -diff(B), and deviations from that have standard deviation abs(d). B is from a family whose
    weights are the likelihood of D times prior weights around Scott's (1979) normal reference, where B = (pi/6) r^3 /
    k^2 for a density with squared integral r.
    """
    nobs = max(nobs, _LEAST_ROWS)
    ladder, bias, prior = _prepared(tuple(share.tolist()), tuple(widths), steps)
    energy, variance = ladder.energies(counts, nobs, noise)
    found, mean = np.diff(energy), -np.diff(bias, axis=1)
    own = mean**2
    total = np.maximum(variance + own, 1e-300)
    weight = prior - 0.5 * ((found - mean) ** 2 / total + np.log(total)).sum(axis=1)
    weight = np.exp(weight - weight.max())
    left = weight > _NEGLIGIBLE
    lost = ((found * own[left] + mean[left] * variance) / total[left])[:, ::-1].cumsum(axis=1)[:, ::-1]
    sampling = np.array([one.spread(one.counts(counts), nobs) for one in ladder.steps]) / nobs
    noisy = np.array([(1 / one.share).sum() for one in ladder.steps]) / nobs**2
    return Outlook(weight[left] / weight[left].sum(), np.pad(lost, ((0, 0), (0, 1))) + bias[left, -1:], sampling, noisy)


@lru_cache(maxsize=32)
def _prepared(share: tuple[float, ...], widths: tuple[int, ...], steps: float) -> tuple[Ladder, Array, Array]:
    """Return what does not depend on counts: the ladder, biases (H, m), logarithms of weights (H,)."""
    ladder = Ladder(np.array(share), widths)
    bins, width = np.array([len(one.share) for one in ladder.steps]), np.asarray(widths)
    smooth = _ROUGHNESS[:, None] / (1 + ((bins - 1) / _KNEE[:, None]) ** _POWER[:, None])
    normal = np.sqrt(np.pi / 6 * (1 + _ROUGHNESS) ** 3 / _ROUGHNESS)
    weight = np.log(np.where(_POWER == 1, _JUMPING, 1 - _JUMPING))
    weight -= 0.5 * (np.log(_KNEE / normal) / _KNEE_SPREAD) ** 2
    weight -= 0.5 * (np.log(_ROUGHNESS / _TYPICAL) / _ROUGHNESS_SPREAD) ** 2
    flat = width[:-1][(bins[:-1] > 1) & (bins[:-1] <= _MOST_STEPS)]
    biases, weights = [smooth], [weight + np.log(1 - steps)]
    for one in flat if steps > 0 else ():
        biases.append(np.where(one % width == 0, 0.0, smooth))
        weights.append(weight + np.log(steps / len(flat)))
    return ladder, np.concatenate(biases), np.concatenate(weights)


def choose_measured(
    counts: Array, share: Array, widths: Sequence[int], allowed: list[bool], *, nobs: float, noise: float, later: float
) -> int:
    """Choose the bins of the second stage, which may later be merged given their counts.

    Parameters
    ----------
    counts, share, widths, nobs, noise
        As in `outlook`.
    allowed : list of bool, length m
        Which candidates may be counted; the others can only result from merging.
    later : float
        Noise variance of the counts of the second stage.

    Returns
    -------
    int
        Position of the candidate.

    Notes
    -----
    Bins that are too fine add noise, since merged counts carry that of all their parts; bins that are too coarse cannot
    be refined. The criterion is the mean over hypotheses of `_FORESIGHT` times the error after the best merging plus
    the rest times the error without merging.
    """
    seen, width = outlook(counts, share, widths, nobs=nobs, noise=noise, steps=0.0), np.asarray(widths)
    plain = seen.bias + seen.sampling + later * seen.noise
    costs = np.full(len(width), np.inf)
    for place in np.flatnonzero(allowed):
        coarser = (width % width[place] == 0) | (np.arange(len(width)) == 0)
        merged = seen.bias[:, coarser] + seen.sampling[coarser]
        merged = merged + later * seen.noise[coarser] * width[coarser] / width[place]
        costs[place] = seen.weight @ (_FORESIGHT * merged.min(axis=1) + (1 - _FORESIGHT) * plain[:, place])
    return int(np.argmin(costs))


def choose_merged(counts: Array, share: Array, widths: Sequence[int], *, nobs: float, noise: float) -> int:
    """Choose how far counted bins are merged, from their own noisy counts; parameters as in `outlook`.

    Returns
    -------
    int
        Position of the candidate with the least expected integrated squared error.
    """
    seen = outlook(counts, share, widths, nobs=nobs, noise=noise, steps=_STEPS)
    merged = np.asarray(widths) / widths[-1]
    return int(np.argmin(seen.weight @ seen.bias + seen.sampling + noise * seen.noise * merged))
