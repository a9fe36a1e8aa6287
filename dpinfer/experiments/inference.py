"""Average treatment effects from noisy sums by arm and stratum: difference in means, and regression adjustment.

Cells are arms by strata, arms first, control before treated; columns are scaled to [-1, 1], the outcome first. In each
cell the release holds noisy sums of 1, of the columns and of their products.

*Any* slope b gives a valid estimate in an experiment: the difference between arms in the means of y - b'x. With ``b =
p0 b1 + p1 b0``, where b1 and b0 are the slopes within the arms and p1, p0 the shares of the arms, it is the coefficient
of the treatment in the regression of Lin (2013) with all interactions of centred covariates. Its variance is that of y
- b'x within arms over the sizes of arms, whatever the variances and whether or not the regression is right; the slopes'
own error is of second order, and a degrees-of-freedom factor accounts for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpinfer.statistics import inference
from dpinfer.statistics.moment_inference import MOST_SHARES
from dpinfer.statistics.moments import MomentSums, diagonal, means

if TYPE_CHECKING:
    from dpinfer.statistics.arrays import Array, Mask

_CLEAR = 6.0
"""Eigenvalues of the covariates' products are halved at so many standard deviations of their noise.

A slope of b on a scale where outcome and covariates are in [-1, 1] gains from being kept where the eigenvalue is above
1 / b standard deviations: this is for slopes of about a sixth.
"""

_HIDDEN = 3.0
"""Standard deviations of its noise below which a variance is not divided by."""

_SHRUNK = 0.5
"""Part of an adjustment below which it is said to be hidden."""

_SPARE = 4
"""Rows that an arm has to have besides one for each slope."""

_COLLINEAR = 1e-9


def lin_slopes(sums: MomentSums, shares: Array) -> tuple[Array, Array, Array]:
    """Combine the slopes within arms so that the difference in adjusted means is Lin's estimate.

    Parameters
    ----------
    sums : MomentSums
        Of cells (arms by strata), the outcome first among the columns; products within strata are pooled.
    shares : ndarray (R, 2)
        Shares of the arms.

    Returns
    -------
    slopes : ndarray (R, k)
        In scaled units; the outcome is adjusted by them.
    taken : ndarray (R, 2)
        Expected reduction, from fitting slopes to noise, of the sum of squares in a cell of each arm.
    kept : ndarray (R,)
        The smallest fraction of a slope, along any direction of the covariates, that shrinkage keeps.

    Notes
    -----
    With C and c the products of covariates within an arm and those with the outcome, and S a shrunk inverse of C, the
    slopes of an arm are ``b + S (c - C b)``, b being the common ones of both arms. Without noise S is the inverse, and
    they are least squares; where noise hides an arm, they are the common slopes, and where it hides all, zero. What is
    taken off the outcome is linear in c, ``sum_a M_a c_a``: a sum of squares in arm a that is read with the same noise
    is too small by ``2 tr(M_a V)``, V the noise covariance of ``c_a - C_a b``.
    """
    first = [sums.monomial(column) for column in range(sums.columns)]
    table = np.array([[sums.monomial(i, j) for j in range(sums.columns)] for i in range(sums.columns)])
    noise, bottom = sums.noise, sums.monomial()
    size = np.maximum(sums.values[..., bottom], max(float(np.sqrt(noise[bottom, bottom])), 1.0))[..., None, None]
    total = sums.values[..., first]
    central = sums.values[..., table] - total[..., :, None] * total[..., None, :] / size
    central = central + noise[np.ix_(first, first)] / size  # the noise's own products
    strata, own = central.shape[1] // 2, float(noise[table[0, 1:], table[0, 1:]].max())
    arms = central.reshape(len(central), 2, strata, *central.shape[2:]).sum(axis=2)
    products, cross = arms[..., 1:, 1:], arms[..., 0, 1:]
    inverse, part = shrunk_inverses(products, strata * own)
    common, known = shrunk_inverses(products.sum(axis=1), 2 * strata * own)
    pooled = np.einsum("rij,rj->ri", common, cross.sum(axis=1))
    weighted = shares[:, ::-1, None, None] * inverse
    slopes = pooled + np.einsum("raij,raj->ri", weighted, cross - np.einsum("raij,rj->rai", products, pooled))
    left = (np.eye(sums.columns - 1) - np.einsum("raij,rajk->rik", weighted, products)) @ common
    length = np.einsum("raii->ra", weighted) + np.einsum("rii->r", left)[:, None]
    taken = 2 * own * (1 + (slopes**2).sum(axis=1))[:, None] * np.maximum(length, 0.0)
    return slopes, taken, np.maximum(part.min(axis=(1, 2)), known.min(axis=1))


def shrunk_inverses(matrices: Array, variance: float, clear_from: float = _CLEAR) -> tuple[Array, Array]:
    """Return shrunk inverses of noisy matrices (..., k, k), and the shrinkage factors (..., k) of their eigenvalues.

    The inverse of an eigenvalue l is multiplied by ``l^2 / (l^2 + r^2)``, r being ``clear_from`` standard deviations of
    the noise; where the matrix is singular it is zero.
    """
    length, axes = np.linalg.eigh(matrices)
    clear = length > _COLLINEAR * np.abs(length).max(axis=-1, keepdims=True)
    part = np.where(clear, length**2 / np.where(clear, length**2 + clear_from**2 * variance, 1.0), float(variance == 0))
    inverse = np.where(clear, part / np.where(clear, length, 1.0), 0.0)
    return (axes * inverse[..., None, :]) @ np.swapaxes(axes, -1, -2), part


def adjusted(sums: MomentSums, weights: Array, added: Array) -> tuple[MomentSums, Array]:
    """Return the sums of a linear combination of columns, scaled to [-1, 1]; and the scale (R,).

    Parameters
    ----------
    sums : MomentSums
    weights : ndarray (R, columns)
    added : ndarray (R, 2)
        Added to the sum of squares in the cells of each arm.
    """
    scale = np.abs(weights).sum(axis=1)
    unit, count = weights / scale[:, None], len(sums.exponents)
    turned = np.zeros((len(weights), 3, count))
    turned[:, 0, sums.monomial()] = 1.0
    for i in range(sums.columns):
        turned[:, 1, sums.monomial(i)] = unit[:, i]
        for j in range(sums.columns):
            turned[:, 2, sums.monomial(i, j)] += unit[:, i] * unit[:, j]
    values = np.einsum("rgd,red->rge", sums.values, turned)
    values[..., 2] += np.repeat(added / scale[:, None] ** 2, values.shape[1] // 2, axis=1)
    mixing = (turned @ sums.mixing)[:, None]
    one = replace(sums, exponents=((0, 0), (1, 0), (2, 0)), values=values, mixing=mixing, lower=-1.0, upper=1.0)
    return one, scale


@dataclass(frozen=True, eq=False)
class EffectInference(inference.Inference):
    """Average effects of R releases: one parameter.

    Attributes
    ----------
    value, sampling, noise, df : ndarray (R,)
        The effects, their variances from sampling and from noise, and the degrees of freedom of these.
    shares : ndarray (R, 1, m) or None
        Shares of the variance due to Laplace variables.
    few, blurred : ndarray of bool (R, 2 S)
        Whether, given the noise, a cell may have no rows, or too few for a variance and for slopes in its arm; and
        whether its variance is mostly noise.
    hidden : ndarray of bool (R,)
        Whether noise hides the larger part of an adjustment.
    reach : float
        The largest effect within the bounds.
    labels : tuple of str, length 2 S
    """

    value: Array
    sampling: Array
    noise: Array
    df: Array
    shares: Array | None
    few: Mask
    blurred: Mask
    hidden: Mask
    reach: float
    labels: tuple[str, ...] = ()

    methods: ClassVar[tuple[str, ...]] = ("auto", "wald")
    automatic: ClassVar[str] = "wald"

    @property
    def params(self) -> Array:
        """The estimate (1,); NaN where it is not determined."""
        return np.where(self.few[0].any(), np.nan, self.value[:1])

    @property
    def cov_sampling(self) -> Array:
        """Variance from sampling (1, 1)."""
        return np.where(self.few[0].any(), np.nan, self.sampling[:1, None])

    @property
    def cov_noise(self) -> Array:
        """Variance from privacy noise (1, 1)."""
        return np.where(self.few[0].any(), np.nan, self.noise[:1, None])

    @property
    def df_resid(self) -> float:
        """Degrees of freedom of the variance."""
        return float(self.df[0])

    @property
    def flagged(self) -> Mask:
        """Whether a release carries a warning (R,)."""
        return np.asarray((self.few | self.blurred).any(axis=1) | self.hidden)

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings, computed from released numbers only."""
        few, blurred = ("; ".join(np.array(self.labels)[one[0]]) for one in (self.few, self.blurred))
        if few:
            return (f"not determined: the effect; too few rows, or possibly none given the noise: {few}", *self.notes)
        found = []
        if blurred:
            found.append(f"the estimated sampling error is mostly noise, so the interval is wide: {blurred}")
        if self.hidden[0]:
            found.append("noise hides the variation of covariates within arms: the adjustment is partial")
        return (*found, *self.notes)

    def _linear(self, rows: Array) -> inference.Contrasts:
        """See `Inference`: multiples (R, k) of the effect, without bounds where it is not determined."""
        error = np.where(self.few.any(axis=1), np.inf, np.sqrt(self.sampling + self.noise))[:, None]
        times = rows[:, 0]
        return inference.Contrasts(self.value[:, None] * times, error * np.abs(times), self.df[:, None], self.shares)

    def _ends(self, rows: Array, alpha: float) -> Array:
        """See `Inference`; within the bounds."""
        most = np.abs(rows[:, :1]) * self.reach
        return np.clip(super()._ends(rows, alpha), -most, most)

    def _joint(self, rows: Array, values: Array) -> tuple[float, float]:
        """See `Inference`."""
        return float(self._linear(rows).distances(values).item() ** 2), float(self._tails(rows, values).item())


def effects(sums: MomentSums, half: float, *, place: int = 0, adjust: bool = False, **known: Any) -> EffectInference:
    """Infer the effect on one of the columns of R releases; on the first also adjusted for the others.

    With d the differences between arms in strata and w the shares of strata, the effect is ``sum w d``. One more row in
    a cell changes it through the mean there and through w.

    Parameters
    ----------
    sums : MomentSums
        Of cells, arms by strata.
    half : float
        A scaled unit of the outcome, in its own unit.
    place : int
        Which column.
    adjust : bool
    **known
        What else the inference is made with.
    """
    count, covariates = len(sums.values), (sums.columns - 1) * adjust
    counts = np.maximum(sums.values[..., sums.monomial()], 0.0).reshape(count, 2, -1).sum(axis=2) + 1e-300
    weights, added, hidden = np.zeros((count, sums.columns)), np.zeros((count, 2)), np.zeros(count, dtype=bool)
    weights[:, place] = 1.0
    if adjust:
        slopes, added, kept = lin_slopes(sums, counts / counts.sum(axis=1, keepdims=True))
        weights[:, 1:], hidden = -slopes, kept < _SHRUNK
    one, scale = adjusted(sums, weights, added)
    arms = means(one, population=True)
    sizes, mean = arms.size.reshape(count, 2, -1), arms.value.reshape(count, 2, -1)
    rows, strata = sizes.sum(axis=2), sizes.sum(axis=1)
    few = arms.few | ((sizes < 2) | (rows < covariates + _SPARE)[..., None]).reshape(arms.few.shape)
    share, apart = strata / strata.sum(axis=1, keepdims=True), mean[:, 1] - mean[:, 0]
    effect = (share * apart).sum(axis=1)
    # Slopes take degrees of freedom in their arm, and their error adds to the variance as the other arm's share of it:
    # both are exact on average for normal covariates.
    factor = (rows - 1) / np.maximum(rows - 1 - covariates, 1.0)
    factor *= 1 + covariates * rows[:, ::-1] / rows.sum(axis=1, keepdims=True) / np.maximum(rows - covariates - 2, 1.0)
    within = np.concatenate([-share, share], axis=1)
    between = np.tile((apart - effect[:, None]) / strata.sum(axis=1, keepdims=True), (1, 2))
    sampling = diagonal(arms.sampling)[..., 0] * np.repeat(factor, sizes.shape[2], axis=1)
    cells = within**2 * (sampling + diagonal(arms.noise)[..., 0])
    moved = within[..., None] * arms.mixing[:, :, 0] + between[..., None] * sums.mixing[sums.monomial()]
    parts = (moved**2 * sums.variances).reshape(count, 1, -1)
    sampling = (within**2 * sampling + arms.size * between**2).sum(axis=1)
    noise, unit = parts.sum(axis=(1, 2)), scale * half
    total = sampling + noise
    return EffectInference(
        ("effect",),
        value=np.clip(unit * effect, -2 * half, 2 * half),
        sampling=unit**2 * sampling,
        noise=unit**2 * noise,
        df=np.clip(total**2 / np.maximum((cells**2 / arms.df[..., 0]).sum(axis=1), 1e-300), 1.0, 1e9),
        shares=np.sort(parts, axis=2)[..., -MOST_SHARES:] / total[:, None, None] if sums.laplace else None,
        few=few,
        blurred=arms.blurred[..., 0],
        hidden=hidden,
        reach=2 * half,
        **known,
    )


def spread_of(sums: MomentSums, place: int) -> float:
    """Root mean of both arms' variances of a column of one release, scaled; NaN where noise hides it."""
    found = [sums.monomial(), sums.monomial(place), sums.monomial(place, place)]
    totals = sums.values[0][:, found].reshape(2, -1, 3).sum(axis=1)
    size = np.maximum(totals[:, 0], 1.0)
    variance = float((totals[:, 2] / size - (totals[:, 1] / size) ** 2).mean())
    error = float(np.sqrt(sums.noise[found[2], found[2]] * sums.values.shape[1] / 8 * (1 / size**2).sum()))
    return float(np.sqrt(variance)) if variance > _HIDDEN * error else np.nan
