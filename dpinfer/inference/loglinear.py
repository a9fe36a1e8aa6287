"""Log-linear models of noisy counts: the fit, whether it exists, what is left where it does not, and its errors.

With y the noisy counts of d cells and X their design, the fit solves ``X'(y - mu) = 0``, ``mu = exp(X b)``. It exists
where ``X'y`` lies in the interior of the cone that the rows of X span, and nowhere else: noisy counts need not.

Both answers are proved. Let h be Newton's step at some b. If every ``abs(x_i'h) < 1`` then ``mu_i (1 + x_i'h)`` are
positive weights of the rows that add up to ``X'y`` exactly: it is inside. If a direction v has ``X v <= 0``, not all
zero, and ``y'X v >= 0``, the likelihood does not fall along v: it is not inside; linear programming finds v.

The cells that v moves are then left out. The others have the same coefficients, as far as their rows determine them,
and their counts do not depend on why the first were left out: that is a matter of a sum over these alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize

if TYPE_CHECKING:
    from dpinfer.inference.cell_noise import CellNoise
    from dpinfer.numerics.arrays import Array, Mask

__all__ = [
    "LogLinearFit",
    "LogLinearModel",
    "Reduced",
    "first_guess",
    "fit_loglinear",
    "information",
    "kept_cells",
    "newton",
    "not_singular",
    "reduced",
    "reduced_fits",
    "sampling_covariance",
    "sampling_variance",
]

_ROUNDS = 60
_SOLVED = 1e-7
"""Change of the logarithm of every mean in a last step, which leaves an error of its square."""

_FAR = 300.0
_BLOCK = 4_000_000
_FACE = 1e-7
_EXACT = 1e-8
_JITTER = 1e-9
_DOUBT, _LEAST = 2.0, 0.1
"""Standard errors by which a sampling variance of fitted means may exceed that of noisy counts; and the least part."""


@dataclass(frozen=True, eq=False)
class LogLinearModel:
    """A log-linear model of noisy counts of d cells.

    Attributes
    ----------
    design : ndarray (d, p)
        Of full column rank.
    noise : CellNoise
    nobs : float or None
        The number of rows where it is public: counts are then multinomial, else Poisson.
    population : bool
        Whether sampling counts as error.
    robust : bool
        Whether sampling variances count that the model may not hold.
    """

    design: Array
    noise: CellNoise
    nobs: float | None = None
    population: bool = True
    robust: bool = True

    @cached_property
    def basis(self) -> tuple[Array, Array]:
        """Orthonormal columns Q (d, p) that span the design, and T (p, p) with ``b = T g`` where ``Q g = X b``."""
        columns, triangle = np.linalg.qr(self.design)
        return columns, np.linalg.inv(triangle)


@dataclass(frozen=True, eq=False)
class LogLinearFit:
    """Fits to R tables, in coordinates in which the design has orthonormal columns.

    Attributes
    ----------
    model : LogLinearModel
    values : ndarray (R, d)
        Noisy counts.
    coordinates : ndarray (R, p)
    means : ndarray (R, d)
    exists : ndarray of bool (R,)
        Whether the fit is proved to exist; where not, the other numbers mean nothing.
    """

    model: LogLinearModel
    values: Array
    coordinates: Array
    means: Array
    exists: Mask

    @property
    def params(self) -> Array:
        """Coefficients (R, p)."""
        return np.asarray(self.coordinates @ self.model.basis[1].T)

    def taken(self, places: object) -> LogLinearFit:
        """Return some of the fits."""
        index = np.asarray(places)
        parts = {name: getattr(self, name)[index] for name in ("values", "coordinates", "means", "exists")}
        return replace(self, **parts)

    @cached_property
    def influence(self) -> Array:
        """How each count moves each coefficient (R, p, d)."""
        columns, back = self.model.basis
        curves = information(columns, self.means)
        return np.asarray(back @ np.linalg.solve(curves, np.broadcast_to(columns.T, (len(curves), *columns.T.shape))))

    def covariance(self) -> tuple[Array, Array]:
        """Covariance of the coefficients from sampling and from noise, each (R, p, p); see `sampling_covariance`."""
        weights = self.influence
        noise = self.model.noise.covariance(weights)
        if not self.model.population:
            return np.zeros_like(noise), not_singular(self.model, noise, noise)
        found = sampling_covariance(self.model, self.values, self.means, weights)
        return found, not_singular(self.model, noise, found + noise)


def not_singular(model: LogLinearModel, noise: Array, total: Array) -> Array:
    """Raise variances by a billionth where a public number of rows makes sums of counts depend on each other."""
    if model.nobs is None:
        return noise
    return np.asarray(noise + _JITTER * np.einsum("rpp->rp", total)[:, :, None] * np.eye(total.shape[1]))


def information(columns: Array, means: Array) -> Array:
    """Return ``Q' diag(mu) Q`` of R tables (R, p, p)."""
    d, p = columns.shape
    if d * p * p > _BLOCK:  # of large tables the squares would fill the memory
        return np.asarray((columns.T * means[:, None, :]) @ columns)
    squares = (columns[:, :, None] * columns[:, None, :]).reshape(d, p * p)
    return np.asarray((means @ squares).reshape(len(means), p, p))


def sampling_covariance(model: LogLinearModel, values: Array, means: Array, weights: Array) -> Array:
    """Covariance (R, k, k) that sampling gives to independent weighted sums of counts, weights (R, k, d).

    That of the fitted means; where ``robust``, in directions in which the noisy counts say more, that of these, and
    where the means say more than the counts can, by two of their standard errors, no more than that.
    """
    across = np.swapaxes(weights, 1, 2)
    found = (weights * means[:, None, :]) @ across
    if model.robust:
        root = np.linalg.cholesky(found)
        scaled = np.linalg.solve(root, weights)
        _, vectors = np.linalg.eigh((scaled * values[:, None, :]) @ np.swapaxes(scaled, 1, 2))
        squares = (np.swapaxes(vectors, 1, 2) @ scaled) ** 2
        turned = root @ vectors
        raised = sampling_variance(model, values, means, squares)
        found = (turned * raised[:, None, :]) @ np.swapaxes(turned, 1, 2)
    if model.nobs is not None:
        pulled = np.einsum("rkd,rd->rk", weights, means)
        found = found - pulled[:, :, None] * pulled[:, None, :] / model.nobs
    return np.asarray(found)


def sampling_variance(model: LogLinearModel, values: Array, means: Array, squares: Array) -> Array:
    """Variance (R, k) of sums of Poisson counts, from squared weights (R, k, d); see `sampling_covariance`."""
    likely = np.einsum("rkd,rd->rk", squares, means)
    if not model.robust:
        return np.asarray(likely)
    counted = np.einsum("rkd,rd->rk", squares, values)
    error = np.sqrt(np.einsum("rkd,rd->rk", squares**2, means + model.noise.of_counts))
    return np.asarray(np.clip(likely, counted, np.maximum(counted + _DOUBT * error, _LEAST * likely)))


def newton(
    columns: Array,
    totals: Array,
    *,
    start: Array,
    offset: Array | None = None,
    ridge: float = 0.0,
    penalty: Array | None = None,
) -> tuple[Array, Array, Mask]:
    """Solve ``Q'exp(offset + Q g) + ridge P g = totals`` for many tables.

    Parameters
    ----------
    columns : ndarray (d, p)
        Orthonormal.
    totals : ndarray (R, p)
    start : ndarray (R, p)
    offset : ndarray (R, d), optional
    ridge : float
    penalty : ndarray (p, p), optional
        P: positive semidefinite.

    Returns
    -------
    coordinates : ndarray (R, p)
    means : ndarray (R, d)
    solved : ndarray of bool (R,)

    Notes
    -----
    A step h is shortened by ``log(1 + r) / r``, r the largest ``abs(Q h)``: the objective, a sum of exponentials, then
    falls at every step (Sun & Tran-Dinh 2019, generalized self-concordant functions), and full steps are taken near
    the solution. Where there is none the steps do not shrink.
    """
    count, p = totals.shape
    found, solved = start.copy(), np.zeros(count, dtype=bool)
    pull = np.zeros((p, p)) if penalty is None else ridge * penalty
    alive = np.arange(count)
    for _ in range(_ROUNDS):
        here = found[alive]
        eta = here @ columns.T + (0.0 if offset is None else offset[alive])
        means = np.exp(np.minimum(eta, _FAR))
        slope = totals[alive] - means @ columns - here @ pull
        curve = information(columns, means) + pull
        top = np.einsum("rpp->r", curve) / max(p, 1)
        curve[:, np.arange(p), np.arange(p)] += 1e-14 * top[:, None] + 1e-280
        step = np.linalg.solve(curve, slope[..., None])[..., 0]
        reach = np.abs(step @ columns.T).max(axis=1)
        fine = np.isfinite(reach) & (reach < 1e12)
        size = np.where(reach > 1e-12, np.log1p(reach) / np.maximum(reach, 1e-12), 1.0)
        found[alive[fine]] += (size[:, None] * step)[fine]
        done = fine & (reach < _SOLVED)
        solved[alive[done]] = True
        alive = alive[fine & ~done]
        if not alive.size:
            break
    eta = found @ columns.T + (0.0 if offset is None else offset)
    return found, np.exp(np.minimum(eta, _FAR)), solved


def first_guess(columns: Array, values: Array, least: float) -> Array:
    """Coordinates (R, p) from weighted logarithms of counts, none below ``least``."""
    raised = np.maximum(values, least)
    curve = information(columns, raised)
    slope = (raised * np.log(raised)) @ columns
    return np.asarray(np.linalg.solve(curve, slope[..., None])[..., 0])


def fit_loglinear(model: LogLinearModel, values: Array) -> LogLinearFit:
    """Fit R tables of noisy counts (R, d)."""
    columns = model.basis[0]
    least = max(1.0, float(np.sqrt(model.noise.of_counts.max(initial=0.0))))
    found, means, solved = newton(columns, values @ columns, start=first_guess(columns, values, least))
    return LogLinearFit(model, values, found, means, solved)


# Where there is no fit


@dataclass(frozen=True, eq=False)
class Reduced:
    """A model on the cells that are left where a fit to all does not exist.

    Attributes
    ----------
    kept : ndarray of bool (d,)
    directions : ndarray (p, r)
        Orthonormal: the combinations of coefficients that the cells kept determine.
    fit : LogLinearFit or None
        In these combinations; None where no cell is kept.
    """

    kept: Mask
    directions: Array
    fit: LogLinearFit | None

    def determined(self, contrasts: Array) -> Mask:
        """Whether combinations of coefficients (k, p) are determined (k,)."""
        rest = contrasts - contrasts @ self.directions @ self.directions.T
        return np.asarray(np.abs(rest).max(axis=1, initial=0.0) <= _EXACT * np.abs(contrasts).max(axis=1, initial=0.0))


def reduced(model: LogLinearModel, values: Array) -> Reduced:
    """Leave out cells of one table (d,) until a fit exists, and fit the others."""
    return reduced_fits(model, values[None], kept_cells(model, values))


def reduced_fits(model: LogLinearModel, values: Array, kept: Mask) -> Reduced:
    """Fit R tables (R, d) to the cells kept, a mask (d,)."""
    if not kept.any():
        return Reduced(kept, np.zeros((model.design.shape[1], 0)), None)
    part, directions = _restricted(model, kept)
    return Reduced(kept, directions, fit_loglinear(part, values[:, kept]))


def kept_cells(model: LogLinearModel, values: Array, *, lost: bool = False) -> Mask:
    """Cells of one table (d,) that are left where a fit exists; ``lost`` says that to all of them there is none.

    Left out are the cells that a direction without decline moves; every round leaves out one at least.
    """
    kept = np.ones(len(values), dtype=bool)
    while kept.any():
        part, _ = _restricted(model, kept)
        if not lost and fit_loglinear(part, values[None, kept]).exists[0]:
            return kept
        lost = False
        moved = _moved_cells(part.design, values[kept])
        if not moved.any():  # too close to the boundary for either proof in floating point
            break
        kept[np.flatnonzero(kept)[moved]] = False
    return np.zeros(len(values), dtype=bool)


def _restricted(model: LogLinearModel, kept: Mask) -> tuple[LogLinearModel, Array]:
    """Return the model of the cells kept, and the combinations of coefficients (p, r) that it has."""
    directions = _row_space(model.design[kept])
    return replace(model, design=model.design[kept] @ directions, noise=model.noise.of_cells(kept)), directions


def _row_space(design: Array) -> Array:
    """Orthonormal basis (p, r) of the combinations that the rows of a design determine."""
    _, sizes, rows = np.linalg.svd(design, full_matrices=False)
    return np.asarray(rows[sizes > _EXACT * sizes[0]].T) if sizes[0] > 0 else np.zeros((design.shape[1], 0))


def _moved_cells(design: Array, values: Array) -> Mask:
    """Cells (d,) whose means fall along a direction v with ``X v <= 0`` and ``y'X v >= 0``; none without one."""
    slope = values @ design
    scale = float(np.abs(values).sum()) or 1.0
    limits = np.vstack([design, -design])
    ends = np.concatenate([np.zeros(len(design)), np.ones(len(design))])
    free = (None, None)
    best = optimize.linprog(-slope / scale, A_ub=limits, b_ub=ends, bounds=free, method="highs")
    if best.status == 0 and -best.fun > _FACE / 10:
        moved: Mask = design @ best.x < -_FACE
        if moved.any():
            return moved
    level = optimize.linprog(
        design.sum(axis=0),
        A_ub=np.vstack([limits, -slope / scale]),
        b_ub=np.append(ends, _EXACT / 100),
        bounds=free,
        method="highs",
    )
    if level.status != 0:
        return np.zeros(len(design), dtype=bool)
    return np.asarray(design @ level.x < -_FACE)
