"""Counts, shares and ratios of the cells of marginals: estimates, errors that are related between cells, intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpinfer.inference.marginals import MOST_LOADINGS, NoiseSource
from dpinfer.inference.moment_estimates import proportions, totals
from dpinfer.inference.moment_inference import MomentInference
from dpinfer.inference.moments import MomentSums, rescaled

if TYPE_CHECKING:
    from dpinfer.inference.marginals import CenteredMargins, Subset
    from dpinfer.inference.moments import Estimates
    from dpinfer.inference.noise_sums import NoiseSums
    from dpinfer.numerics.arrays import Array

__all__ = ["Joint", "MarginalInference", "count_estimates", "joint_counts", "joint_shares", "share_estimates"]

_RIDGE = 1e-9
"""What is added to every variance, relative to it: counts whose sum is public, and shares, are linearly dependent."""


class Joint(NamedTuple):
    """Estimates of all cells of one release together.

    Attributes
    ----------
    values : ndarray (p,)
        Unbiased, so that they may be negative.
    sampling, noise : ndarray (p, p)
        Covariances.
    loadings : ndarray (p, K)
        How standardised Laplace variables move them; none where the noise is normal.
    """

    values: Array
    sampling: Array
    noise: Array
    loadings: Array


_NOTHING = Joint(np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 0)))


@dataclass(frozen=True, eq=False)
class MarginalInference(MomentInference):
    """Estimates in the cells of a marginal, whose errors are related; implements `Inference`.

    Attributes
    ----------
    joint : Joint
        Of `estimates` only what is possible is kept, and the interval of each cell.
    sources : tuple of NoiseSource
        What moves counts of the data themselves.
    """

    joint: Joint = _NOTHING
    sources: tuple[NoiseSource, ...] = ()

    methods = ("auto", "score", "wald")  # type: ignore[assignment]

    @property
    def _value(self) -> Array:
        return self.joint.values

    @property
    def cov_sampling(self) -> Array:
        """Covariance from sampling (p, p)."""
        return self.joint.sampling

    @property
    def cov_noise(self) -> Array:
        """Covariance from privacy noise (p, p)."""
        return self.joint.noise

    @property
    def _covariance(self) -> Array:
        return self.joint.sampling + self.joint.noise

    def _laplace_parts(self, contrasts: Array) -> Array:
        return np.asarray(contrasts @ self.joint.loadings)

    def _noise_sums(self, contrasts: Array) -> NoiseSums | None:
        return NoiseSource.sums(self.sources, lambda basis: contrasts @ basis) if self.sources else None


def count_estimates(
    found: CenteredMargins, subset: Subset, *, population: bool, nobs: int | None, rows_per_unit: int = 1
) -> Estimates:
    """Estimate the counts of the cells of a marginal from R releases: each cell is a group of its own.

    The noise of a cell has the same law for all cells. Counts are moved to 0 or more; see `Joint`.
    """
    table, variance = found.table(subset)[..., None], found.cell_variance(subset)
    sums = MomentSums(((0,),), table, np.ones((1, 1)), np.array([variance]), laplace=False, rows_per_unit=rows_per_unit)
    estimates = totals(sums, population=population, nobs=nobs, lower=0.0, counts=True)
    if not population:
        alone = NoiseSource.sums(found.sources(subset), lambda basis: basis[None, :1, None])
        estimates = replace(estimates, alone=alone)
    if not found.laplace:
        return estimates
    loadings, variances = found.loadings(subset, [0])
    mixing, kept = _largest(loadings, variances)
    mixing = np.broadcast_to(mixing[0], (*estimates.value.shape, kept.size))
    return replace(estimates, mixing=mixing, variances=kept, laplace=True, spread=np.zeros(mixing.shape))


def share_estimates(
    found: CenteredMargins, subset: Subset, places: Array, *, population: bool, rows_per_unit: int = 1
) -> Estimates:
    """Estimate shares of some cells in others from R releases, in groups of like structure.

    ``places`` (G, q, cells) are 0 or 1: for each group first the cells that are divided by, then those of each share.
    The noise of the sums of a group has the same law in all groups.
    """
    values = np.einsum("rc,gqc->rgq", found.table(subset), places)
    covariance = places[0] @ found.covariance(subset) @ places[0].T
    sums = _shares_of(values, covariance, rows_per_unit)
    estimates = proportions(sums, population=population)
    if not found.laplace:
        return estimates
    used = np.flatnonzero(places[0].any(axis=0))
    loadings, variances = found.loadings(subset, used.tolist())
    mixing, kept = _largest(places[0][:, used] @ loadings, variances)
    moved = mixing[1:] - estimates.value[..., None] * mixing[0]
    moved = moved / estimates.size[..., None, None]
    return replace(estimates, mixing=moved, variances=kept, laplace=True, spread=np.zeros(moved.shape))


def _shares_of(values: Array, covariance: Array, rows_per_unit: int) -> MomentSums:
    """Return sums of indicators (R, G, 1 + q), the total first, with independent variables that move them so."""
    width = covariance.shape[0] - 1
    exponents = [(0,) * (width + 1), *(tuple(int(i == j) for j in range(width + 1)) for i in range(width))]
    variances, vectors = np.linalg.eigh(covariance)
    return MomentSums(
        tuple(exponents), values, vectors, np.maximum(variances, 0.0), laplace=False, rows_per_unit=rows_per_unit
    )


def _largest(loadings: Array, variances: Array) -> tuple[Array, Array]:
    """Keep the variables that move estimates (k, K) most."""
    moved = ((loadings**2) * variances).sum(axis=0)
    order = np.argsort(-moved, kind="stable")[:MOST_LOADINGS]
    return loadings[:, order], variances[order]


def joint_counts(found: CenteredMargins, subset: Subset, estimates: Estimates, nobs: int | None) -> Joint:
    """Return values, covariances and loadings of all counts of one release.

    Under a public number of rows counts are multinomial; otherwise a sample's size is random and they are Poisson.
    """
    values = found.table(subset)[0]
    variance = estimates.sampling[0, :, 0, 0]
    sampling = np.diag(variance)
    if nobs is not None:
        shares = np.maximum(values, 0.0) / max(float(np.maximum(values, 0.0).sum()), 1.0)
        sampling = rescaled(np.diag(shares) - np.outer(shares, shares), variance)
    noise = found.covariance(subset)
    return _joint(values, sampling, noise, _loadings(found, subset, np.eye(values.size)))


def joint_shares(found: CenteredMargins, subset: Subset, places: Array, estimates: Estimates) -> Joint:
    """Return the same of shares; see `share_estimates`. Sampling relates shares of one group only."""
    value, size = estimates.value[0], estimates.size[0]
    slope = (places[:, 1:] - value[..., None] * places[:, :1]) / size[:, None, None]
    slope = slope.reshape(value.size, -1)
    groups, width = value.shape
    sampling = np.zeros((groups, width, groups, width))
    sampling[np.arange(groups), :, np.arange(groups), :] = estimates.sampling[0]
    noise = slope @ found.covariance(subset) @ slope.T
    joint = sampling.reshape(value.size, value.size)
    return _joint(value.ravel(), joint, noise, _loadings(found, subset, slope))


def _loadings(found: CenteredMargins, subset: Subset, slope: Array) -> Array:
    """Return how standardised Laplace variables move combinations (p, K) of the cells."""
    if not found.laplace:
        return np.zeros((len(slope), 0))
    loadings, variances = found.loadings(subset)
    return np.asarray((slope @ loadings) * np.sqrt(variances))


def _joint(values: Array, sampling: Array, noise: Array, loadings: Array) -> Joint:
    ridge = _RIDGE * np.diag(np.diag(noise) + np.diag(sampling))
    return Joint(values, sampling, noise + ridge, loadings)
