"""Residuals of the cells of noisy tables, standardised by sampling and noise together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpinfer.errors import OptionError
from dpinfer.inference.simultaneous import joint_level
from dpinfer.numerics.tails import widened

if TYPE_CHECKING:
    from dpinfer.inference.testing.count_noise import CountNoise, TableNoise
    from dpinfer.inference.testing.tables import GoodnessOfFit, Homogeneity, Independence
    from dpinfer.numerics.arrays import Array, Mask

    Model = GoodnessOfFit | Independence | Homogeneity

__all__ = ["ResidualTable", "check_alpha", "residual_table", "small_cells"]

_SMALL = 5.0
_STEP = 1e-20
_HALF_ROW = 0.5


@dataclass(frozen=True, eq=False)
class ResidualTable:
    """What every cell adds to the evidence against a hypothesis; every array is (..., d).

    Attributes
    ----------
    observed, expected, difference : ndarray
        Noisy counts, those expected under the hypothesis, and observed less expected, in rows.
    sampling_error, noise_error, standard_error : ndarray
        Standard error of the difference under the hypothesis: from sampling, from noise, and both, in rows.
    standardised : ndarray
        ``difference / standard_error``: about standard normal where the hypothesis holds.
    lower, upper : ndarray
        Interval for the population's standardised residual: its difference over the same null standard error.
    alpha : float
        One less the confidence of each interval.
    """

    observed: Array
    expected: Array
    difference: Array
    sampling_error: Array
    noise_error: Array
    standard_error: Array
    standardised: Array
    lower: Array
    upper: Array
    alpha: float


def small_cells(expected: Array, noise: CountNoise | TableNoise) -> Mask:
    """Whether expected counts (..., d) are below 5, or below the standard deviation of their noise."""
    return np.asarray(expected < max(_SMALL, float(np.sqrt(noise.variance))))


def residual_table(model: Model, values: Array, *, alpha: float = 0.05, simultaneous: bool = False) -> ResidualTable:
    """Residuals of noisy counts from a hypothesis, standardised by sampling and noise together.

    Parameters
    ----------
    model : GoodnessOfFit, Independence or Homogeneity
        The hypothesis, with the noise and the public sizes.
    values : ndarray (..., d)
        Noisy counts.
    alpha : float
        One less the confidence of the intervals.
    simultaneous : bool
        Whether they hold together; of one table (d,).

    Returns
    -------
    ResidualTable

    Raises
    ------
    OptionError
        If ``alpha`` is not between 0 and 1.

    Notes
    -----
    Without noise the standardised residual is the adjusted residual of Haberman (1973). The interval takes the
    covariance of the counts from the noisy shares, clipped at 0, not from the hypothesis; as in Wilson's interval the
    variance of a cell grows with the count that is tried; half a row is added on both sides, because counts are whole.
    Laplace noise widens it by its kurtosis (Cornish-Fisher).

    References
    ----------
    Haberman (1973), The analysis of residuals in cross-classified tables, Biometrics 29.
    """
    check_alpha(alpha)
    values = np.asarray(values, dtype=float)
    size = values.shape[-1]
    expected, sampling, noisy = (np.real(part) for part in model.null_parts(values))
    error = np.sqrt(sampling + noisy)
    difference = values - expected
    moved = values[..., None, :] + 1j * _STEP * np.eye(size)
    moved_expected, moved_sampling, moved_noisy = model.null_parts(moved)
    ratio = (moved - moved_expected) / np.sqrt(moved_sampling + moved_noisy)
    slope = np.imag(ratio) / _STEP  # (..., count moved, residual)
    from_noise = model.noise.quadratic(slope)
    spread = _sampling_variance(model, values, slope) + from_noise
    fourth = model.noise.fourth_cumulant * (slope**4).sum(axis=-2) / np.maximum(spread, 1e-100) ** 2
    level = joint_level(_covariance(model, values, slope), alpha) if simultaneous else alpha
    reach = widened(level, fourth)
    standardised = difference / error
    own = np.diagonal(slope, axis1=-2, axis2=-1)
    shift = 0.5 * reach**2 * own**2 * error
    half = np.sqrt(shift**2 + reach**2 * spread) + _HALF_ROW * np.abs(own)
    return ResidualTable(
        observed=values,
        expected=expected,
        difference=difference,
        sampling_error=np.sqrt(sampling),
        noise_error=np.sqrt(noisy),
        standard_error=error,
        standardised=standardised,
        lower=standardised + shift - half,
        upper=standardised + shift + half,
        alpha=alpha,
    )


def check_alpha(alpha: float) -> None:
    """Refuse what is not between 0 and 1."""
    if not 0 < alpha < 1:
        raise OptionError("alpha", alpha, "a number between 0 and 1: one less the confidence")


def _sampling_variance(model: Model, values: Array, slope: Array) -> Array:
    """Variance that sampling gives to functions with slopes (..., count, function), at the noisy shares."""
    groups, sizes = model.groups(values)
    shares = groups / np.maximum(groups.sum(axis=-1, keepdims=True), 1e-300)
    slopes = slope.reshape(*groups.shape, slope.shape[-1])
    mean = np.einsum("...gk,...gkf->...gf", shares, slopes)
    square = np.einsum("...gk,...gkf->...gf", shares, slopes**2)
    return np.asarray((sizes[..., None] * np.maximum(square - mean**2, 0.0)).sum(axis=-2))


def _covariance(model: Model, values: Array, slope: Array) -> Array:
    """Covariance (d, d) of functions with slopes (count, function) of one table (d,), at the noisy shares."""
    groups, sizes = model.groups(values)
    shares = groups / np.maximum(groups.sum(axis=-1, keepdims=True), 1e-300)
    slopes = slope.reshape(*groups.shape, slope.shape[-1])
    mean = np.einsum("gk,gkf->gf", shares, slopes)
    square = np.einsum("gk,gkf,gkh->gfh", shares, slopes, slopes)
    sampling = np.einsum("g,gfh->fh", sizes, square - mean[:, :, None] * mean[:, None, :])
    return np.asarray(sampling + model.noise.variance * slope.T @ slope)
