"""Log-linear models of noisy counts: the fit, its existence, reduced models if it does not exist, and its errors.

With y the noisy counts of d cells and X their design, the fit solves ``X'(y - mu) = 0``, ``mu = exp(X b)``. It exists
where ``X'y`` lies in the interior of the cone that the rows of X span, and nowhere else: noisy counts need not.

Both answers are proved. Let h be Newton's step at some b. If every ``abs(x_i'h) < 1`` then ``mu_i (1 + x_i'h)`` are
positive weights of the rows that add up to ``X'y`` exactly: it is inside. If a direction v has ``X v <= 0``, not all
zero, and ``y'X v >= 0``, the likelihood does not fall along v: it is not inside; linear programming finds v.

The cells that v moves are then omitted. The others have the same coefficients, as far as their rows identify them, and
their counts do not depend on the reason for the omission, which involves a sum over the omitted cells alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import optimize

from dpinfer.checks import is_text, is_whole, of_type
from dpinfer.errors import CollinearDesignError, FormulaError, OptionError
from dpinfer.schema.columns import Boolean, Category, Integer
from dpinfer.schema.expressions import compile_condition
from dpinfer.schema.formula import FormulaDesign, compile_formula
from dpinfer.schema.schema import Schema
from dpinfer.statistics.combination import CombinedNoise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpinfer.schema.axes import Axis
    from dpinfer.statistics.arrays import Array, Mask
    from dpinfer.statistics.noise import CountNoise


MOST_CELLS = 2**12
"""Cells of a table that a formula is fitted to."""

MOST_COLUMNS = 200
"""Columns of its design."""

FORMULA = 'a formula in the factors of the table, such as "race * sex"'
"""What a formula has to be."""

_RANK = 1e-9

_ITERATIONS = 60
_SOLVED = 1e-7
"""Change of the logarithm of every mean in a last step, which leaves an error of its square."""

FAR = 300.0
"""Logarithm of a mean, at most."""

_BLOCK = 4_000_000
_FACE = 1e-7
_EXACT = 1e-8
_JITTER = 1e-9
_DOUBT, _LEAST = 2.0, 0.1
"""Standard errors by which a sampling variance of fitted means may exceed that of noisy counts; and the least part."""


@dataclass(frozen=True, eq=False)
class CellNoise:
    """Noise of d counts: ``mixing @ z`` with z independent, of m variables.

    Attributes
    ----------
    law : CountNoise or CombinedNoise
        Distribution of z: one distribution, or those of several releases.
    cells : int
        d.
    mixing : ndarray (d, m) or None
        None if every count has its own variable.
    """

    law: CountNoise | CombinedNoise
    cells: int
    mixing: Array | None = None

    @cached_property
    def variances(self) -> Array:
        """Variance of every variable (m,)."""
        if isinstance(self.law, CombinedNoise):
            return self.law.variances
        return np.full(self.cells if self.mixing is None else self.mixing.shape[1], self.law.variance)

    @cached_property
    def fourth_cumulants(self) -> Array:
        """Fourth cumulant of every variable (m,)."""
        if isinstance(self.law, CombinedNoise):
            return np.where(self.law.draws > 0, 3.0 * self.variances**2 / np.maximum(self.law.draws, 1), 0.0)
        return np.full(len(self.variances), self.law.fourth_cumulant)

    @property
    def is_normal(self) -> bool:
        """Whether all noise is treated as normal."""
        return not self.fourth_cumulants.any()

    @cached_property
    def of_counts(self) -> Array:
        """Variance of the noise of every count (d,)."""
        return self.variances if self.mixing is None else np.asarray(self.mixing**2 @ self.variances)

    def through(self, weights: Array) -> Array:
        """Weights of counts (..., d) as weights of the noise variables (..., m)."""
        return weights if self.mixing is None else np.asarray(weights @ self.mixing)

    def variance(self, weights: Array) -> Array:
        """Variance (...) of the noise of weighted sums of counts, weights (..., d)."""
        return np.asarray(self.through(weights) ** 2 @ self.variances)

    def fourth_cumulant(self, weights: Array) -> Array:
        """Fourth cumulant (...) of the noise of weighted sums of counts."""
        return np.asarray(self.through(weights) ** 4 @ self.fourth_cumulants)

    def covariance(self, weights: Array) -> Array:
        """Covariance (..., k, k) of the noise of k weighted sums, weights (..., k, d)."""
        moved = self.through(weights)
        return np.asarray((moved * self.variances) @ np.swapaxes(moved, -1, -2))

    def laplace(self, weights: Array) -> Array | None:
        """Return loadings (k, m) of sums of counts, weights (k, d), on Laplace variables; None for normal noise."""
        if self.is_normal:
            return None
        heavy = self.fourth_cumulants > 0
        return np.asarray(self.through(weights)[:, heavy] * np.sqrt(self.variances[heavy]))

    def rvs(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw noise for simulation, never for privacy (..., d)."""
        rows = shape[:-1]
        if isinstance(self.law, CombinedNoise):
            drawn = self.law.rvs(int(np.prod(rows)), rng).reshape(*rows, -1)
        else:
            drawn = self.law.rvs((*rows, len(self.variances)), rng)
        return drawn if self.mixing is None else np.asarray(drawn @ self.mixing.T)

    def of_cells(self, included: Mask) -> CellNoise:
        """Noise of some of the counts, a mask (d,)."""
        mixing = np.eye(self.cells) if self.mixing is None and isinstance(self.law, CombinedNoise) else self.mixing
        return replace(self, cells=int(np.count_nonzero(included)), mixing=None if mixing is None else mixing[included])

    def centred(self) -> CellNoise:
        """Noise of the counts after an equal shift of all to a public sum."""
        mixing = np.eye(self.cells) if self.mixing is None else self.mixing
        return replace(self, mixing=mixing - mixing.mean(axis=0))


@dataclass(frozen=True, eq=False)
class LogLinearModel:
    """A log-linear model of noisy counts of d cells.

    Attributes
    ----------
    design : ndarray (d, p)
        Of full column rank.
    noise : CellNoise
    nobs : float or None
        The number of rows if it is public: counts are then multinomial, else Poisson.
    population : bool
        Whether errors include sampling.
    robust : bool
        Whether sampling variances allow for misspecification.
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
        Whether the fit is proved to exist; otherwise the other numbers are meaningless.
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

    @property
    def fitted(self) -> LogLinearFit:
        """The fits that exist."""
        values, coordinates, means = (one[self.exists] for one in (self.values, self.coordinates, self.means))
        return LogLinearFit(self.model, values, coordinates, means, self.exists[self.exists])

    @cached_property
    def influence(self) -> Array:
        """Influence of each count on each coefficient (R, p, d)."""
        columns, back = self.model.basis
        curves = information(columns, self.means)
        return np.asarray(back @ np.linalg.solve(curves, np.broadcast_to(columns.T, (len(curves), *columns.T.shape))))

    @cached_property
    def covariance(self) -> tuple[Array, Array]:
        """Covariance of the coefficients from sampling and from noise, each (R, p, p); see `sampling_covariance`."""
        weights = self.influence
        noise = self.model.noise.covariance(weights)
        if not self.model.population:
            return np.zeros_like(noise), not_singular(self.model, noise, noise)
        found = sampling_covariance(self.model, self.values, self.means, weights)
        return found, not_singular(self.model, noise, found + noise)


def not_singular(model: LogLinearModel, noise: Array, total: Array) -> Array:
    """Raise variances by a billionth if a public number of rows makes sums of counts linearly dependent."""
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
    """Return the sampling covariance (R, k, k) of independent weighted sums of counts, weights (R, k, d).

    Based on the fitted means. If ``robust``, a direction in which the noisy counts imply a larger variance has that
    variance, and one in which the fitted variance exceeds it by more than two standard errors is reduced to that limit.
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


def solved(curve: Array, sides: Array) -> Array:
    """Solve ``curve x = sides`` (R, p, p), after adding a tiny number to the diagonal of the curve, in place."""
    p = curve.shape[1]
    curve[:, np.arange(p), np.arange(p)] += (1e-14 / max(p, 1)) * np.einsum("rpp->r", curve)[:, None] + 1e-280
    return np.asarray(np.linalg.solve(curve, sides))


def damping(reach: Array) -> Array:
    """Damping of Newton steps (R,), given the largest change in the logarithm of a mean; see `newton`."""
    return np.where(reach > 1e-12, np.log1p(reach) / np.maximum(reach, 1e-12), 1.0)


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
    falls at every step (Sun & Tran-Dinh 2019, generalized self-concordant functions), and full steps are taken near the
    solution. If there is none, the steps do not shrink.
    """
    found, done = start.copy(), np.zeros(len(totals), dtype=bool)
    pull = np.zeros((totals.shape[1],) * 2) if penalty is None else ridge * penalty
    alive = np.arange(len(totals))
    for _ in range(_ITERATIONS):
        here = found[alive]
        eta = here @ columns.T + (0.0 if offset is None else offset[alive])
        means = np.exp(np.minimum(eta, FAR))
        slope = totals[alive] - means @ columns - here @ pull
        step = solved(information(columns, means) + pull, slope[..., None])[..., 0]
        reach = np.abs(step @ columns.T).max(axis=1)
        fine = np.isfinite(reach) & (reach < 1e12)
        found[alive[fine]] += (damping(reach)[:, None] * step)[fine]
        last = fine & (reach < _SOLVED)
        done[alive[last]] = True
        alive = alive[fine & ~last]
        if not alive.size:
            break
    eta = found @ columns.T + (0.0 if offset is None else offset)
    return found, np.exp(np.minimum(eta, FAR)), done


def first_guess(columns: Array, values: Array, least: float) -> Array:
    """Coordinates (R, p) from weighted logarithms of counts, none below ``least``."""
    raised = np.maximum(values, least)
    curve = information(columns, raised)
    slope = (raised * np.log(raised)) @ columns
    return np.asarray(np.linalg.solve(curve, slope[..., None])[..., 0])


def guess_floor(model: LogLinearModel) -> float:
    """Smallest count for the logarithm in `first_guess`: one row, or a standard deviation of its noise."""
    return max(1.0, float(np.sqrt(model.noise.of_counts.max(initial=0.0))))


def fit_loglinear(model: LogLinearModel, values: Array) -> LogLinearFit:
    """Fit R tables of noisy counts (R, d)."""
    columns = model.basis[0]
    start = first_guess(columns, values, guess_floor(model))
    return LogLinearFit(model, values, *newton(columns, values @ columns, start=start))


# Where there is no fit


@dataclass(frozen=True, eq=False)
class Reduced:
    """A model on the remaining cells if a fit to all does not exist.

    Attributes
    ----------
    included : ndarray of bool (d,)
    directions : ndarray (p, r)
        Orthonormal: the combinations of coefficients that the included cells identify.
    fit : LogLinearFit or None
        In these combinations; None where no cell is included.
    """

    included: Mask
    directions: Array
    fit: LogLinearFit | None

    def determined(self, contrasts: Array) -> Mask:
        """Whether combinations of coefficients (k, p) are identified (k,)."""
        rest = contrasts - contrasts @ self.directions @ self.directions.T
        return np.asarray(np.abs(rest).max(axis=1, initial=0.0) <= _EXACT * np.abs(contrasts).max(axis=1, initial=0.0))


def reduced(model: LogLinearModel, values: Array) -> Reduced:
    """Omit cells of one table (d,) until a fit exists, and fit the others."""
    return reduced_fits(model, values[None], estimable_cells(model, values))


def reduced_fits(model: LogLinearModel, values: Array, included: Mask) -> Reduced:
    """Fit R tables (R, d) to the included cells, a mask (d,)."""
    if not included.any():
        return Reduced(included, np.zeros((model.design.shape[1], 0)), None)
    part, directions = _restricted(model, included)
    return Reduced(included, directions, fit_loglinear(part, values[:, included]))


def estimable_cells(model: LogLinearModel, values: Array, *, lost: bool = False) -> Mask:
    """Cells of one table (d,) for which a fit exists; ``lost`` says that there is none to all cells.

    The cells moved by a direction without decline are omitted, at least one in every iteration.
    """
    included = np.ones(len(values), dtype=bool)
    while included.any():
        part, _ = _restricted(model, included)
        if not lost and fit_loglinear(part, values[None, included]).exists[0]:
            return included
        lost = False
        moved = _moved_cells(part.design, values[included])
        if not moved.any():  # too close to the boundary for either proof in floating point
            break
        included[np.flatnonzero(included)[moved]] = False
    return np.zeros(len(values), dtype=bool)


def _restricted(model: LogLinearModel, included: Mask) -> tuple[LogLinearModel, Array]:
    """Return the model of the included cells, and the combinations of coefficients (p, r) that they identify."""
    design = model.design[included]
    _, sizes, rows = np.linalg.svd(design, full_matrices=False)
    directions = np.asarray(rows[sizes > _EXACT * sizes[0]].T) if sizes[0] > 0 else np.zeros((design.shape[1], 0))
    return replace(model, design=design @ directions, noise=model.noise.of_cells(included)), directions


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
    limits, ends = np.vstack([limits, -slope / scale]), np.append(ends, _EXACT / 100)
    level = optimize.linprog(design.sum(axis=0), A_ub=limits, b_ub=ends, bounds=free, method="highs")
    return np.asarray(design @ level.x < -_FACE) if level.status == 0 else np.zeros(len(design), dtype=bool)


# The cells as rows of a design


def one_sided(formula: object, schema: Schema) -> FormulaDesign:
    """Compile the right-hand side of a formula; refuse one with a left-hand side.

    Raises
    ------
    OptionError, FormulaError, UnknownColumnError
    """
    if not is_text(formula):
        raise OptionError("formula", formula, FORMULA)
    compiled = compile_formula(formula, schema)
    if compiled.response is not None:
        raise FormulaError(formula, "has a left side", "the counts are the response: write the factors alone")
    found = FormulaDesign(schema, compiled.design)
    if not found.variables:
        raise FormulaError(formula, "names no factor", "write at least one, as in 'race + sex'")
    return found


@dataclass(frozen=True, eq=False)
class CellTable:
    """The cells of a table, the last factor varying fastest.

    Attributes
    ----------
    names : tuple of str
        Names of the factors.
    labels : tuple of tuple
        The levels of each.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, axes: Sequence[Axis]) -> CellTable:
        """Return the cells of the axes of a table."""
        return cls(tuple(axis.name for axis in axes), tuple(axis.labels for axis in axes))

    @property
    def size(self) -> int:
        """Number of cells."""
        return prod(len(one) for one in self.labels)

    @property
    def index(self) -> pd.Index:
        """Label of every cell."""
        levels, found = [list(one) for one in self.labels], pd.Index(list(self.labels[0]), name=self.names[0])
        return found if len(levels) == 1 else pd.MultiIndex.from_product(levels, names=list(self.names))

    @cached_property
    def schema(self) -> Schema:
        """A column for each factor."""
        return Schema({name: _column(labels) for name, labels in zip(self.names, self.labels, strict=True)})

    @cached_property
    def values(self) -> dict[str, Array]:
        """Value of each cell (d,), by factor: numbers, or positions of levels for a category."""
        found = {}
        places = np.unravel_index(np.arange(self.size), [len(one) for one in self.labels])
        for name, labels, place in zip(self.names, self.labels, places, strict=True):
            plain = isinstance(self.schema[name], Category)
            numbers = np.arange(len(labels)) if plain else np.array([float(label) for label in labels])
            found[name] = numbers.astype(np.float64)[place]
        return found

    def excluded(self, condition: str | None) -> Mask:
        """Cells (d,) at which a condition on the factors holds: the structural zeros.

        Raises
        ------
        OptionError, FormulaError, UnknownColumnError
            If it is not a condition on the factors, or holds everywhere.
        """
        if condition is None:
            return np.zeros(self.size, dtype=bool)
        of_type(str, "exclude", condition, "a condition on the factors, or None")
        compiled = compile_condition(condition, self.schema)
        found = np.broadcast_to(compiled.evaluate({n: self.values[n] for n in compiled.columns}), (self.size,)) > 0.5
        if found.all():
            raise OptionError("exclude", condition, "a condition that leaves some cells")
        return np.asarray(found)

    def design(self, formula: str, exclude: str | None = None) -> tuple[FormulaDesign, Array]:
        """Return the columns of a formula, and the design (d, p) of the cells that are not excluded.

        Raises
        ------
        OptionError, FormulaError, UnknownColumnError
            If the formula is invalid in these factors.
        CollinearDesignError
            If its columns are linearly dependent in these cells.
        """
        found = one_sided(formula, self.schema)
        check_size(self.size, len(found.columns))
        rows = found.rows(self.values, self.size)[~self.excluded(exclude)]
        lengths = np.sqrt((rows**2).sum(axis=0))
        sizes = np.linalg.svd(rows / np.where(lengths > 0, lengths, 1.0), compute_uv=False)
        if len(rows) < rows.shape[1] or sizes[-1] <= _RANK * sizes[0]:
            raise CollinearDesignError(
                formula,
                f"has {rows.shape[1]} columns that are linearly dependent in the {len(rows)} cells",
                "leave out terms" if exclude is None else "leave out terms, or exclude fewer cells",
            )
        return found, rows


def check_size(cells: int, columns: int) -> None:
    """Refuse a table or a formula that is too large to fit.

    Raises
    ------
    OptionError
    """
    if cells > MOST_CELLS or columns > MOST_COLUMNS:
        right = f"at most {MOST_COLUMNS} coefficients and {MOST_CELLS:,} cells; name fewer factors, or coarser ones"
        raise OptionError("formula", f"{columns} coefficients of {cells:,} cells", right)


def _column(labels: Sequence[Any]) -> Any:
    if tuple(labels) == (False, True):
        return Boolean()
    whole = all(map(is_whole, labels))
    if whole and len(labels) > 1 and list(labels) == list(range(int(labels[0]), int(labels[0]) + len(labels))):
        return Integer(int(labels[0]), int(labels[-1]))
    return Category(tuple(str(one) for one in labels))


@dataclass(frozen=True, eq=False)
class NoisyCells:
    """Noisy counts of R tables of the same cells.

    Attributes
    ----------
    table : CellTable
        The factors and their levels.
    values : ndarray (R, d)
    noise : CellNoise
    nobs : int or None
        The number of rows in all cells, if it is public and not 0.
    """

    table: CellTable
    values: Array
    noise: CellNoise
    nobs: int | None

    def model(self, design: Array, included: Mask, *, population: bool, robust: bool) -> tuple[LogLinearModel, Array]:
        """Return the model of the included cells (d,), and their counts, adjusted to a public number of rows."""
        values, noise = self.values[:, included], self.noise.of_cells(included)
        if self.nobs is not None:
            values = values + (self.nobs - values.sum(axis=1, keepdims=True)) / values.shape[1]
            noise = noise.centred()
        nobs = None if self.nobs is None else float(self.nobs)
        return LogLinearModel(design, noise, nobs, population, robust), values
