"""How many bins a histogram should have, told from the noisy counts of finer ones.

The integrated squared error of a histogram is what is lost within bins (its bias) plus sampling plus noise. The last
two are known but for the counts; the first is told without bias by sums of squares of the fine counts, but under much
noise, so that it is taken together with what biases of histograms look like.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Ladder", "choose_bins"]

_ROUGHNESS, _KNEE, _POWER = (
    part.ravel()
    for part in np.meshgrid(np.geomspace(0.01, 30, 12), np.geomspace(1, 400, 13), [1.0, 2.0], indexing="ij")
)
"""Biases R / (1 + ((k - 1) / K)^r) of k bins: r is 2 for densities that are smooth, 1 for those that jump."""

_JUMPING = 0.3
"""Weight of densities that jump."""

_STEPS = 0.1
"""Weight of densities that are constant within some few equal bins, and so lose nothing in these."""

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


def choose_bins(
    counts: Array, share: Array, widths: Sequence[int], *, nobs: float, fine_noise: float, bin_noise: float
) -> int:
    """Choose a number of bins.

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
    fine_noise, bin_noise : float
        Noise variance of these counts, and of those that the bins will have.

    Returns
    -------
    int
        Place of the candidate with the least expected integrated squared error.

    Notes
    -----
    Let D be the differences of `Ladder.energies` from one candidate to the next, V their variances. Under a bias B
    their means are d = -diff(B), and what differs from that is given the standard deviation abs(d). B is averaged over
    a family with the weights that D gives it, times those it has beforehand: about Scott's (1979) normal reference,
    where B = (pi/6) r^3 / k^2 for a density with squared integral r.
    """
    nobs = max(nobs, _LEAST_ROWS)
    ladder, mean, weight = _prepared(tuple(share.tolist()), tuple(widths))
    energy, variance = ladder.energies(counts, nobs, fine_noise)
    found = np.diff(energy)
    own = mean**2
    total = np.maximum(variance + own, 1e-300)
    weight = weight - 0.5 * ((found - mean) ** 2 / total + np.log(total)).sum(axis=1)
    weight = np.exp(weight - weight.max())
    gained = (weight / weight.sum()) @ ((found * own + mean * variance) / total)
    gain = np.concatenate([[0.0], np.cumsum(gained)])
    sampling = np.array([one.spread(one.counts(counts), nobs) for one in ladder.steps]) / nobs
    noise = np.array([(1 / one.share).sum() for one in ladder.steps]) * bin_noise / nobs**2
    return int(np.argmin(sampling + noise - gain))


@lru_cache(maxsize=16)
def _prepared(share: tuple[float, ...], widths: tuple[int, ...]) -> tuple[Ladder, Array, Array]:
    """Return what does not depend on counts: the ladder, differences of biases (H, m - 1), weights (H,)."""
    ladder = Ladder(share, widths)
    bias, weight = _biases(np.array([len(one.share) for one in ladder.steps]), np.asarray(widths))
    return ladder, -np.diff(bias, axis=1), weight


def _biases(bins: NDArray[np.intp], widths: NDArray[np.intp]) -> tuple[Array, Array]:
    """Biases of all candidates under every hypothesis (H, m), and the logarithms of their weights (H,)."""
    smooth = _ROUGHNESS[:, None] / (1 + ((bins - 1) / _KNEE[:, None]) ** _POWER[:, None])
    normal = np.sqrt(np.pi / 6 * (1 + _ROUGHNESS) ** 3 / _ROUGHNESS)
    weight = np.log(np.where(_POWER == 1, _JUMPING, 1 - _JUMPING))
    weight -= 0.5 * (np.log(_KNEE / normal) / _KNEE_SPREAD) ** 2
    weight -= 0.5 * (np.log(_ROUGHNESS / _TYPICAL) / _ROUGHNESS_SPREAD) ** 2
    steps = widths[(bins > 1) & (bins <= _MOST_STEPS) & (np.arange(len(bins)) < len(bins) - 1)]
    biases, weights = [smooth], [weight + np.log(1 - _STEPS)]
    for width in steps:
        biases.append(np.where(width % widths == 0, 0.0, smooth))
        weights.append(weight + np.log(_STEPS / len(steps)))
    return np.concatenate(biases), np.concatenate(weights)
