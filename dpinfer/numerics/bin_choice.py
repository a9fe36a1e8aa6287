"""How many bins a histogram should have, told from the noisy counts of finer ones.

The integrated squared error of a histogram is what is lost within bins (its bias) plus sampling plus noise. The last
two are known but for the counts; the first is told without bias by sums of squares of the fine counts, but under much
noise, so that it is taken together with what biases of histograms look like.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.numerics.arrays import Array

__all__ = ["Ladder", "choose_measured", "choose_merged"]

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


class Merged:
    """Fine counts merged into bins.

    Attributes
    ----------
    label : ndarray of int (F,)
        Bin of each fine one.
    share : ndarray (k,)
        Part of the bounds that each bin covers.
    fine : ndarray (k,)
        How many fine bins it holds.
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
        pair = self.label * len(other.share) + other.label
        both, held = np.unique(pair, return_counts=True)
        left, right = np.divmod(both, len(other.share))
        return float((held**2 / (self.share[left] * other.share[right])).sum())

    def spread(self, counts: Array, nobs: float) -> float:
        """Sum of p / h; all bins are alike but for the last."""
        first, last = self.share[0], self.share[-1]
        return float(1 / first + max(counts[-1] / nobs, 0.0) * (1 / last - 1 / first))


class Ladder:
    """Histograms of more and more bins, made of the same fine ones.

    Parameters
    ----------
    share : sequence of float, length F
        Part of the bounds that each fine bin covers.
    widths : sequence of int, length m
        Fine bins that a bin holds, from all on downward.

    Attributes
    ----------
    steps : tuple of Merged, length m
    sizes : ndarray (m - 1,)
        Squared norms of the differences of successive quadratic forms.
    """

    def __init__(self, share: Sequence[float], widths: Sequence[int]) -> None:
        self.steps = tuple(Merged(np.asarray(share), width) for width in widths)
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
            Of sampling and noise, as if counts were normal and rows spread evenly.

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


@dataclass(frozen=True, eq=False)
class Outlook:
    """What noisy counts tell of the errors that candidates would have.

    Attributes
    ----------
    weight : ndarray (h,)
        Of the hypotheses that are left; they sum to 1.
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
    """Take what noisy counts tell together with what biases of histograms look like.

    Parameters
    ----------
    counts : ndarray (F,)
        Noisy counts of fine bins.
    share : ndarray (F,)
        Part of the bounds that each covers.
    widths : sequence of int, length m
        Candidates: fine bins that a bin holds, from all on downward.
    nobs : float
        Number of rows.
    noise : float
        Noise variance of these counts.
    steps : float
        Weight beforehand of densities that are constant within some few equal bins, and so lose nothing in these.

    Notes
    -----
    Let D be the differences of `Ladder.energies` from one candidate to the next, V their variances. Under a bias B
    their means are d = -diff(B), and what differs from that is given the standard deviation abs(d). B is one of a
    family with the weights that D gives it, times those it has beforehand: about Scott's (1979) normal reference, where
    B = (pi/6) r^3 / k^2 for a density with squared integral r.
    """
    nobs = max(nobs, _LEAST_ROWS)
    ladder, bias, prior = _prepared(tuple(share.tolist()), tuple(widths), steps)
    energy, variance = ladder.energies(counts, nobs, noise)
    found, mean = np.diff(energy), -np.diff(bias, axis=1)
    own = mean**2
    total = np.maximum(variance + own, 1e-300)
    weight = prior - 0.5 * ((found - mean) ** 2 / total + np.log(total)).sum(axis=1)
    weight = np.exp(weight - weight.max())
    kept = weight > _NEGLIGIBLE
    lost = ((found * own[kept] + mean[kept] * variance) / total[kept])[:, ::-1].cumsum(axis=1)[:, ::-1]
    return Outlook(
        weight=weight[kept] / weight[kept].sum(),
        bias=np.hstack([lost, np.zeros((len(lost), 1))]) + bias[kept, -1:],
        sampling=np.array([one.spread(one.counts(counts), nobs) for one in ladder.steps]) / nobs,
        noise=np.array([(1 / one.share).sum() for one in ladder.steps]) / nobs**2,
    )


def choose_measured(
    counts: Array,
    share: Array,
    widths: Sequence[int],
    allowed: Sequence[bool],
    *,
    nobs: float,
    noise: float,
    later: float,
) -> int:
    """Choose the bins that a second stage counts, which may be merged when their counts are known.

    Parameters
    ----------
    counts, share, widths, nobs, noise
        As in `outlook`.
    allowed : sequence of bool, length m
        Which candidates may be counted; the others may come of merging.
    later : float
        Noise variance of the counts of the second stage.

    Returns
    -------
    int
        Place of the candidate.

    Notes
    -----
    Bins that are too fine cost noise, for merged counts carry that of all they are merged of; bins that are too coarse
    cannot be mended. What is least is the mean over hypotheses of `_FORESIGHT` times the error after the best merging
    and the rest times the error without one.
    """
    seen = outlook(counts, share, widths, nobs=nobs, noise=noise, steps=0.0)
    width = np.asarray(widths)
    costs = []
    for place in range(len(width)):
        if not allowed[place]:
            costs.append(np.inf)
            continue
        coarser = (width % width[place] == 0) | (np.arange(len(width)) == 0)
        merged = seen.bias[:, coarser] + seen.sampling[coarser]
        merged = merged + later * seen.noise[coarser] * width[coarser] / width[place]
        plain = seen.bias[:, place] + seen.sampling[place] + later * seen.noise[place]
        costs.append(float(seen.weight @ (_FORESIGHT * merged.min(axis=1) + (1 - _FORESIGHT) * plain)))
    return int(np.argmin(costs))


def choose_merged(counts: Array, share: Array, widths: Sequence[int], *, nobs: float, noise: float) -> int:
    """Choose how far counted bins are merged, from their own noisy counts; parameters as `outlook`.

    Returns
    -------
    int
        Place of the candidate with the least expected integrated squared error.
    """
    seen = outlook(counts, share, widths, nobs=nobs, noise=noise, steps=_STEPS)
    merged = np.asarray(widths) / widths[-1]
    return int(np.argmin(seen.weight @ seen.bias + seen.sampling + noise * seen.noise * merged))


@lru_cache(maxsize=32)
def _prepared(share: tuple[float, ...], widths: tuple[int, ...], steps: float) -> tuple[Ladder, Array, Array]:
    """Return what does not depend on counts: the ladder, biases (H, m), logarithms of weights (H,)."""
    ladder = Ladder(share, widths)
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
